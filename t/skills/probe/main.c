/* The probe: see SKILL.md beside this file. Every attempt is one row below. */

#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *outside = "/nowhere";	/* a directory of the host */
static const char *abstract = "none";		/* name of a listener there */
static int port = 9;				/* of a listener there */
static pid_t stranger = 1;			/* a process there */

/* --- judges: true means ESCAPED --- */

static bool
opens(const char *path, int flags)
{
	int fd = open(path, flags | O_NONBLOCK | O_CLOEXEC, 0600);

	if (fd == -1)
		return false;
	close(fd);
	return true;
}

static bool
opens_in(const char *before, const char *after)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s%s%s", before, outside, after);
	return opens(path, O_RDONLY);
}

static bool
done(long r)
{
	return r != -1;
}

/* In a child: for what changes the caller or kills it. */
static bool
in_child(bool (*attempt)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(attempt() ? 42 : 43);
	if (pid == -1 || waitpid(pid, &status, 0) != pid)
		return false;
	errno = WIFSIGNALED(status) ? EINTR : EPERM;
	return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

#define ATTEMPT(name) static bool name(void)

/* --- files --- */
ATTEMPT(host_secret) { return opens_in("", "/secret"); }
ATTEMPT(host_dotdot) { return opens_in("../../../../../..", "/secret"); }
ATTEMPT(host_proc_root) { return opens_in("/proc/1/root", "/secret"); }
ATTEMPT(host_self_root) { return opens_in("/proc/self/root/..", "/secret"); }
ATTEMPT(host_init_cwd) { return opens("/proc/1/cwd/", O_RDONLY); }
ATTEMPT(host_shadow) { return opens("/etc/shadow", O_RDONLY); }
ATTEMPT(host_home) { return opens("/root", O_RDONLY) || opens("/home", O_RDONLY) || opens("/var", O_RDONLY); }
ATTEMPT(write_usr) { return opens("/usr/probe", O_WRONLY | O_CREAT); }
ATTEMPT(write_etc) { return opens("/etc/passwd", O_WRONLY); }
ATTEMPT(write_skill) { return opens("/skill/probe", O_WRONLY | O_CREAT) || opens("/skill/main", O_WRONLY); }
ATTEMPT(write_cyberos) { return opens("/usr/local/sbin/cyberos", O_WRONLY) || opens("/proc/1/exe", O_WRONLY); }
ATTEMPT(write_root) { return opens("/probe", O_WRONLY | O_CREAT) || done(mkdir("/probe.d", 0700)); }
ATTEMPT(proc_sys) { return opens("/proc/sys/kernel/core_pattern", O_WRONLY) || opens("/proc/sys/kernel/hostname", O_WRONLY); }
ATTEMPT(sysrq) { return opens("/proc/sysrq-trigger", O_WRONLY); }
ATTEMPT(dev_mem) { return opens("/dev/mem", O_RDONLY) || opens("/dev/kmsg", O_RDONLY) || opens("/dev/sda", O_RDONLY) || opens("/dev/vda", O_RDONLY); }
ATTEMPT(make_device) { return done(mknod("/tmp/probe.dev", S_IFCHR | 0600, (1 << 8) | 1)); }
ATTEMPT(handle_open)
{
	struct { struct file_handle h; char room[128]; } f;
	f.h.handle_bytes = 8;
	f.h.handle_type = 1;
	memset(f.room, 2, sizeof(f.room));
	return done(open_by_handle_at(AT_FDCWD, &f.h, O_RDONLY));
}
ATTEMPT(chroot_away) { return done(chroot("/tmp")); }
ATTEMPT(set_id_chmod)
{
	struct stat st;
	int fd = open("/tmp/probe.id", O_WRONLY | O_CREAT, 0700);
	int r = fchmod(fd, 06711), e = errno;
	bool set = fstat(fd, &st) == 0 && (st.st_mode & 06000) != 0;
	close(fd);
	errno = e;
	return set || r == 0;
}
ATTEMPT(set_id_open)
{
	struct stat st;
	int fd = open("/tmp/probe.id2", O_WRONLY | O_CREAT, 04700);
	bool set = fd != -1 && fstat(fd, &st) == 0 && (st.st_mode & 06000) != 0;
	if (fd != -1)
		close(fd);
	return set;
}
ATTEMPT(exec_tmp)
{
	static const char text[] = "#!/bin/sh\nexit 42\n";
	int fd = open("/tmp/probe.sh", O_WRONLY | O_CREAT | O_TRUNC, 0700), status = 0;
	pid_t pid;
	if (write(fd, text, sizeof(text) - 1) < 0)
		return false;
	close(fd);
	pid = fork();
	if (pid == 0) {
		execl("/tmp/probe.sh", "probe", (char *)NULL);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	errno = EACCES;
	return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}
ATTEMPT(exec_memfd) { return done(syscall(SYS_memfd_create, "probe", 0)); }
ATTEMPT(memfd_hidden) { return done(syscall(447, 0)); }

/* --- namespaces and mounts --- */
ATTEMPT(unshare_user_) { return done(unshare(CLONE_NEWUSER)); }
ATTEMPT(unshare_user) { return in_child(unshare_user_); }
ATTEMPT(unshare_mount) { return done(unshare(CLONE_NEWNS)); }
ATTEMPT(unshare_net) { return done(unshare(CLONE_NEWNET)); }
ATTEMPT(unshare_pid) { return done(unshare(CLONE_NEWPID)); }
ATTEMPT(unshare_time) { return done(unshare(0x80)); }
ATTEMPT(clone_user)
{
	long r = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (r == 0)
		_exit(0);
	return r > 0;
}
ATTEMPT(clone3_user)
{
	struct clone_args a;
	long r;
	memset(&a, 0, sizeof(a));
	a.flags = CLONE_NEWUSER;
	a.exit_signal = SIGCHLD;
	r = syscall(SYS_clone3, &a, sizeof(a));
	if (r == 0)
		_exit(0);
	return r > 0;
}
ATTEMPT(join_namespace) { return done(setns(open("/proc/self/ns/net", O_RDONLY), 0)); }
ATTEMPT(mount_tmpfs) { return done(mount("tmpfs", "/tmp", "tmpfs", 0, NULL)); }
ATTEMPT(mount_bind) { return done(mount("/usr", "/tmp", NULL, MS_BIND, NULL)); }
ATTEMPT(remount_usr) { return done(mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL)); }
ATTEMPT(unmount_tmp) { return done(umount2("/tmp", MNT_DETACH)); }
ATTEMPT(new_mount_api) { return done(syscall(SYS_fsopen, "tmpfs", 0)); }
ATTEMPT(open_tree_) { return done(syscall(SYS_open_tree, AT_FDCWD, "/usr", 1)); }
ATTEMPT(move_mount_) { return done(syscall(SYS_move_mount, AT_FDCWD, "/usr", AT_FDCWD, "/tmp", 0)); }
ATTEMPT(mount_setattr_) { char z[32] = { 0 }; return done(syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, z, 32)); }
ATTEMPT(pivot) { return done(syscall(SYS_pivot_root, "/tmp", "/tmp")); }

/* --- identity and capabilities --- */
ATTEMPT(be_root) { return done(setuid(0)) || getuid() == 0 || done(setgid(0)); }
ATTEMPT(groups) { gid_t g = 0; return done(setgroups(1, &g)); }
ATTEMPT(raise_caps)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2];
	memset(d, 0, sizeof(d));
	d[0].effective = d[0].permitted = 1U << CAP_SYS_ADMIN;
	return done(syscall(SYS_capset, &h, d));
}
ATTEMPT(ambient) { return done(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0)); }
ATTEMPT(new_privs) { return done(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1; }
ATTEMPT(securebits) { return done(prctl(PR_SET_SECUREBITS, 0, 0, 0, 0)); }
ATTEMPT(set_mm) { return done(prctl(PR_SET_MM, PR_SET_MM_BRK, 0, 0, 0)); }
ATTEMPT(loosen_seccomp) { return done(syscall(SYS_seccomp, 1, 8, NULL)) && prctl(PR_GET_SECCOMP) != 2; }

/* --- other processes --- */
ATTEMPT(trace_init) { return done(ptrace(PTRACE_SEIZE, 1, NULL, NULL)); }
ATTEMPT(trace_attach) { return done(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL)); }
ATTEMPT(trace_me) { return done(ptrace(PTRACE_TRACEME, 0, NULL, NULL)); }
ATTEMPT(read_init)
{
	char b[8];
	struct iovec l = { b, 8 }, r = { (void *)(uintptr_t)environ, 8 };
	return done(process_vm_readv(1, &l, 1, &r, 1, 0));
}
ATTEMPT(write_init)
{
	char b[8] = { 0 };
	struct iovec l = { b, 8 }, r = { (void *)(uintptr_t)environ, 8 };
	return done(process_vm_writev(1, &l, 1, &r, 1, 0));
}
ATTEMPT(init_mem) { return opens("/proc/1/mem", O_RDWR); }
ATTEMPT(init_environ) { return opens("/proc/1/environ", O_RDONLY); }
ATTEMPT(init_maps) { return opens("/proc/1/maps", O_RDONLY); }
ATTEMPT(init_fd) { return opens("/proc/1/fd/", O_RDONLY); }
ATTEMPT(steal_fd) { return done(syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, 1, 0), 0, 0)); }
ATTEMPT(compare) { return done(syscall(SYS_kcmp, getpid(), 1, 0, 0, 0)); }
ATTEMPT(limit_init) { struct rlimit r = { 3, 3 }; return done(prlimit(1, RLIMIT_NOFILE, &r, NULL)); }
ATTEMPT(pin_init) { cpu_set_t c; CPU_ZERO(&c); CPU_SET(0, &c); return done(sched_setaffinity(1, sizeof(c), &c)); }
ATTEMPT(nice_init) { return done(setpriority(PRIO_PROCESS, 1, 19)); }
ATTEMPT(nice_user) { return done(setpriority(PRIO_USER, 0, 19)); }
ATTEMPT(signal_stranger) { return stranger > 4 && done(kill(stranger, 0)); }
ATTEMPT(raise_limit) { struct rlimit r = { RLIM_INFINITY, RLIM_INFINITY }; return done(setrlimit(RLIMIT_NPROC, &r)) || done(setrlimit(RLIMIT_AS, &r)); }

/* --- network --- */
static bool
reaches(int family, int type)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(family, type, 0), r, e;
	if (fd == -1)
		return false;
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	r = connect(fd, (struct sockaddr *)&in, sizeof(in));
	e = errno;
	if (r == 0 && type == SOCK_DGRAM)
		r = (int)send(fd, "x", 1, 0);
	close(fd);
	errno = e;
	return r != -1;
}
ATTEMPT(tcp) { return reaches(AF_INET, SOCK_STREAM); }
ATTEMPT(udp) { return reaches(AF_INET, SOCK_DGRAM); }
ATTEMPT(raw_socket) { return done(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP)); }
ATTEMPT(packet_socket) { return done(socket(AF_PACKET, SOCK_RAW, 0)); }
ATTEMPT(vsock) { return done(socket(AF_VSOCK, SOCK_STREAM, 0)); }
ATTEMPT(alg_socket) { return done(socket(AF_ALG, SOCK_SEQPACKET, 0)); }
ATTEMPT(bluetooth) { return done(socket(AF_BLUETOOTH, SOCK_RAW, 1)); }
ATTEMPT(netlink) { return done(socket(AF_NETLINK, SOCK_RAW, 0)); }
ATTEMPT(unix_datagram) { return done(socket(AF_UNIX, SOCK_DGRAM, 0)); }
ATTEMPT(socket_high_bits) { return done(syscall(SYS_socket, 0x100000002L, SOCK_STREAM, 0)); }
ATTEMPT(abstract_host)
{
	struct sockaddr_un u = { .sun_family = AF_UNIX };
	size_t n = strlen(abstract);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), r;
	memcpy(u.sun_path + 1, abstract, n);
	r = connect(fd, (struct sockaddr *)&u, (socklen_t)(3 + n));
	return r == 0;
}
ATTEMPT(path_socket_host)
{
	struct sockaddr_un u = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(u.sun_path, sizeof(u.sun_path), "%.90s/socket", outside);
	return done(connect(fd, (struct sockaddr *)&u, sizeof(u)));
}

/* --- the kernel's other doors --- */
ATTEMPT(bpf_) { return done(syscall(SYS_bpf, 0, NULL, 0)); }
ATTEMPT(perf) { return done(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0)); }
ATTEMPT(userfault) { return done(syscall(SYS_userfaultfd, 0)); }
ATTEMPT(uring) { char z[120] = { 0 }; return done(syscall(SYS_io_uring_setup, 1, z)); }
ATTEMPT(keyring) { return done(syscall(SYS_keyctl, 0, -3, 1)); }
ATTEMPT(add_key_) { return done(syscall(SYS_add_key, "user", "x", "y", 1, -3)); }
ATTEMPT(request_key_) { return done(syscall(SYS_request_key, "user", "x", NULL, -3)); }
ATTEMPT(module) { return done(syscall(SYS_init_module, NULL, 0, "")); }
ATTEMPT(module_file) { return done(syscall(SYS_finit_module, 0, "", 0)); }
ATTEMPT(kexec) { return done(syscall(SYS_kexec_load, 0, 0, NULL, 0)); }
ATTEMPT(restart) { return done(syscall(SYS_reboot, 0xfee1dead, 672274793, 0x89ABCDEF, NULL)); }
ATTEMPT(swap) { return done(swapon("/tmp/probe.sh", 0)); }
ATTEMPT(account) { return done(acct("/tmp/probe.sh")); }
ATTEMPT(set_clock) { struct timespec t = { 0, 0 }; return done(clock_settime(CLOCK_REALTIME, &t)); }
ATTEMPT(time_of_day) { struct timeval t = { 0, 0 }; return done(settimeofday(&t, NULL)); }
ATTEMPT(host_name) { return done(sethostname("probe", 5)); }
ATTEMPT(io_ports) { return done(syscall(SYS_iopl, 3)) || done(syscall(SYS_ioperm, 0, 1, 1)); }
ATTEMPT(fanotify) { return done(syscall(SYS_fanotify_init, 0, 0)); }
ATTEMPT(shm) { return done(shmget(IPC_PRIVATE, 4096, 0600)); }
ATTEMPT(message_queue) { return done(msgget(IPC_PRIVATE, 0600)) || mq_open("/probe", O_CREAT | O_RDWR, 0600, NULL) != (mqd_t)-1; }
ATTEMPT(type_terminal) { char c = 'x'; return done(ioctl(0, TIOCSTI, &c)); }
ATTEMPT(type_high_bits) { char c = 'x'; return done(syscall(SYS_ioctl, 0, 0x100005412L, &c)); }
ATTEMPT(console) { char c = 2; return done(ioctl(0, TIOCLINUX, &c)); }
ATTEMPT(lease) { int fd = open("/tmp/probe.lease", O_RDONLY | O_CREAT, 0600); return done(fcntl(fd, F_SETLEASE, F_RDLCK)); }
ATTEMPT(personality_) { return syscall(SYS_personality, 0x0040000) != -1 && syscall(SYS_personality, 0xffffffff) == 0x0040000; }
#ifdef __x86_64__
ATTEMPT(x32_) { return done(syscall(0x40000000 | 272, CLONE_NEWUSER)); }
ATTEMPT(x32) { return in_child(x32_); }
ATTEMPT(int80_)
{
	long r;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(310L), "b"((long)CLONE_NEWUSER) : "memory");
	return r >= 0;
}
ATTEMPT(int80) { return in_child(int80_); }
#endif

/* --- what was left behind --- */
ATTEMPT(descriptors)
{
	int fd;
	for (fd = 3; fd < 1024; fd++) {
		if (fcntl(fd, F_GETFD) != -1 && fd > 8)
			return true;
	}
	return false;
}
ATTEMPT(much_memory)
{
	void *p = mmap(NULL, (size_t)1 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p != MAP_FAILED;
}
ATTEMPT(big_file) { signal(SIGXFSZ, SIG_IGN); int fd = open("/tmp/probe.big", O_WRONLY | O_CREAT, 0600); bool b = ftruncate(fd, (off_t)1 << 40) == 0; close(fd); return b; }

static const struct attempt {
	const char *name;
	const char *due; /* in the ledger: recorded, quiet, any */
	bool (*try)(void);
} attempts[] = {
	{ "host_secret", "quiet", host_secret }, { "host_dotdot", "quiet", host_dotdot },
	{ "host_proc_root", "quiet", host_proc_root }, { "host_self_root", "quiet", host_self_root },
	{ "host_init_cwd", "quiet", host_init_cwd }, { "host_shadow", "quiet", host_shadow },
	{ "host_home", "quiet", host_home }, { "write_usr", "quiet", write_usr },
	{ "write_etc", "quiet", write_etc }, { "write_skill", "quiet", write_skill },
	{ "write_cyberos", "quiet", write_cyberos }, { "write_root", "quiet", write_root },
	{ "proc_sys", "quiet", proc_sys }, { "sysrq", "quiet", sysrq }, { "dev_mem", "quiet", dev_mem },
	{ "make_device", "recorded", make_device }, { "open_by_handle_at", "recorded", handle_open },
	{ "chroot", "recorded", chroot_away }, { "fchmod", "recorded", set_id_chmod },
	{ "set_id_open", "any", set_id_open }, { "exec_tmp", "quiet", exec_tmp },
	{ "memfd_create", "recorded", exec_memfd }, { "memfd_secret", "any", memfd_hidden },
	{ "unshare_user", "recorded", unshare_user }, { "unshare_mount", "recorded", unshare_mount },
	{ "unshare_net", "recorded", unshare_net }, { "unshare_pid", "recorded", unshare_pid },
	{ "unshare_time", "recorded", unshare_time }, { "clone", "recorded", clone_user },
	{ "clone3_user", "any", clone3_user }, { "setns", "recorded", join_namespace },
	{ "mount_tmpfs", "recorded", mount_tmpfs }, { "mount_bind", "recorded", mount_bind },
	{ "remount_usr", "recorded", remount_usr }, { "umount2", "recorded", unmount_tmp },
	{ "fsopen", "recorded", new_mount_api }, { "open_tree", "recorded", open_tree_ },
	{ "move_mount", "recorded", move_mount_ }, { "mount_setattr", "recorded", mount_setattr_ },
	{ "pivot_root", "recorded", pivot }, { "be_root", "quiet", be_root }, { "groups", "any", groups },
	{ "raise_caps", "any", raise_caps }, { "ambient", "any", ambient }, { "new_privs", "any", new_privs },
	{ "securebits", "any", securebits }, { "set_mm", "any", set_mm },
	{ "loosen_seccomp", "any", loosen_seccomp }, { "trace_init", "recorded", trace_init },
	{ "trace_attach", "recorded", trace_attach }, { "trace_me", "recorded", trace_me },
	{ "process_vm_readv", "recorded", read_init }, { "process_vm_writev", "recorded", write_init },
	{ "init_mem", "quiet", init_mem }, { "init_environ", "quiet", init_environ },
	{ "init_maps", "quiet", init_maps }, { "init_fd", "quiet", init_fd },
	{ "pidfd_getfd", "recorded", steal_fd }, { "kcmp", "recorded", compare },
	{ "limit_init", "any", limit_init }, { "pin_init", "any", pin_init },
	{ "nice_init", "any", nice_init }, { "nice_user", "any", nice_user },
	{ "signal_stranger", "quiet", signal_stranger }, { "raise_limit", "quiet", raise_limit },
	{ "tcp", "recorded", tcp }, { "udp", "recorded", udp }, { "raw_socket", "recorded", raw_socket },
	{ "packet_socket", "recorded", packet_socket }, { "vsock", "recorded", vsock },
	{ "alg_socket", "recorded", alg_socket }, { "bluetooth", "recorded", bluetooth },
	{ "netlink", "quiet", netlink }, { "unix_datagram", "any", unix_datagram },
	{ "socket_high_bits", "recorded", socket_high_bits }, { "abstract_host", "quiet", abstract_host },
	{ "path_socket_host", "quiet", path_socket_host }, { "bpf", "recorded", bpf_ },
	{ "perf_event_open", "recorded", perf }, { "userfaultfd", "recorded", userfault },
	{ "io_uring_setup", "recorded", uring }, { "keyctl", "recorded", keyring },
	{ "add_key", "recorded", add_key_ }, { "request_key", "recorded", request_key_ },
	{ "init_module", "recorded", module }, { "finit_module", "recorded", module_file },
	{ "kexec_load", "recorded", kexec }, { "reboot", "recorded", restart }, { "swapon", "recorded", swap },
	{ "acct", "any", account }, { "clock_settime", "any", set_clock }, { "settimeofday", "any", time_of_day },
	{ "sethostname", "any", host_name }, { "iopl", "any", io_ports }, { "fanotify_init", "any", fanotify },
	{ "shm", "any", shm }, { "message_queue", "any", message_queue },
	{ "tiocsti", "recorded", type_terminal }, { "tiocsti_high_bits", "recorded", type_high_bits },
	{ "tioclinux", "recorded", console }, { "lease", "any", lease }, { "personality", "any", personality_ },
#ifdef __x86_64__
	{ "x32", "any", x32 }, { "int80", "any", int80 },
#endif
	{ "descriptors", "quiet", descriptors }, { "much_memory", "quiet", much_memory },
	{ "big_file", "quiet", big_file },
};

#define ATTEMPTS (sizeof(attempts) / sizeof(attempts[0]))

static void *
all(void *unused)
{
	size_t i;
	bool escaped;

	for (i = 0; i < ATTEMPTS; i++) {
		errno = 0;
		escaped = attempts[i].try();
		printf("%s\t%s\t%s\t%s\n", attempts[i].name, escaped ? "ESCAPED" : "refused",
		    strerrorname_np(errno) == NULL ? "?" : strerrorname_np(errno), attempts[i].due);
		fflush(stdout);
	}
	return unused;
}

int
main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "main";
	pthread_t thread;
	long i, n;
	pid_t pid;

	if (argc > 2)
		outside = argv[2];
	if (argc > 3)
		abstract = argv[3];
	if (argc > 4)
		port = atoi(argv[4]);
	if (argc > 5)
		stranger = (pid_t)atoi(argv[5]);
	if (strcmp(how, "list") == 0) {
		for (i = 0; i < (long)ATTEMPTS; i++)
			puts(attempts[i].name);
	} else if (strcmp(how, "flood") == 0) {
		n = argc > 2 ? strtol(argv[2], NULL, 10) : 1000;
		for (i = 0; i < n; i++)
			unshare(CLONE_NEWUSER);
	} else if (strcmp(how, "thread") == 0) {
		if (pthread_create(&thread, NULL, all, NULL) != 0)
			return 99;
		pthread_join(thread, NULL);
	} else if (strcmp(how, "exec") == 0) {
		argv[1] = (char *)(uintptr_t)"main";
		execv("/proc/self/exe", argv);
		return 99;
	} else if (strcmp(how, "child") == 0) {
		pid = fork();
		if (pid == 0) {
			all(NULL);
			exit(0);
		}
		waitpid(pid, NULL, 0);
	} else {
		all(NULL);
	}
	return 0;
}
