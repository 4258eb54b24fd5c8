/*
 * The attempts. They run in a child of init that has gone through the same
 * steps as the skill, so they meet what the skill will meet. Each looks at what
 * happened and not at what a call returned where that can be told.
 */

#include "enforce/probe.h"

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum probe_result
done_if(bool done)
{
	return done ? PROBE_DONE : PROBE_REFUSED;
}

static bool
can_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0600);

	if (fd == -1)
		return false;
	close(fd);
	return true;
}

static enum probe_result
open_outside(const struct confine_plan *p)
{
	static const char *const places[] = { "/root", "/home", "/var", "/boot",
		"/etc/shadow", "/etc/hostname.host", "/sys", "/run" };
	size_t i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (can_open(places[i], O_RDONLY))
			return PROBE_DONE;
	}
	return done_if(p->namespaces && can_open(p->skill_path, O_RDONLY) &&
	    strncmp(p->skill_path, CONFINE_SKILL_DIR,
		sizeof(CONFINE_SKILL_DIR) - 1) != 0);
}

static enum probe_result
write_system(const struct confine_plan *p)
{
	(void)p;
	return done_if(can_open("/usr/.cyberos-probe", O_WRONLY | O_CREAT) ||
	    can_open("/etc/passwd", O_WRONLY) ||
	    can_open("main", O_WRONLY) || can_open("SKILL.md", O_WRONLY));
}

/* To what they are: if it may, nothing has changed. */
static enum probe_result
change_files(const struct confine_plan *p)
{
	struct stat st;

	(void)p;
	if (stat("main", &st) == -1)
		return PROBE_REFUSED;
	return done_if(chmod("main", st.st_mode & 0777) == 0 ||
	    chown("main", (uid_t)-1, (gid_t)-1) == 0 ||
	    utimensat(AT_FDCWD, "main",
		(struct timespec[]){ st.st_atim, st.st_mtim }, 0) == 0);
}

/* Never one that is there: /tmp may be the host's. */
static int
make_file(const char *name)
{
	return open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
}

static enum probe_result
run_from_tmp(const struct confine_plan *p)
{
	static const char script[] = "#!/bin/sh\n";
	char name[] = "/tmp/.cyberos-probe";
	bool done = false;
	int fd, status = -1;
	pid_t pid;

	(void)p;
	fd = make_file(name);
	if (fd == -1)
		return errno == EEXIST ? PROBE_UNTRIED : PROBE_REFUSED;
	if (write(fd, script, sizeof(script) - 1) > 0) {
		close(fd);
		pid = fork();
		if (pid == 0) {
			execl(name, name, (char *)NULL);
			_exit(99);
		}
		if (pid > 0 && waitpid(pid, &status, 0) == pid)
			done = WIFEXITED(status) && WEXITSTATUS(status) != 99;
	} else {
		close(fd);
	}
	unlink(name);
	return done_if(done);
}

static enum probe_result
inet_socket(const struct confine_plan *p)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_port = htons(9),
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool reached;

	(void)p;
	if (fd == -1)
		return PROBE_REFUSED;
	/* Refused by a peer is an answer of a network that is there. */
	reached = connect(fd, (struct sockaddr *)&in, sizeof(in)) == 0 ||
	    errno == ECONNREFUSED;
	close(fd);
	return done_if(reached);
}

static enum probe_result
other_families(const struct confine_plan *p)
{
	static const int families[] = { AF_INET, AF_INET6, AF_PACKET,
		AF_NETLINK, AF_VSOCK, AF_ALG, AF_BLUETOOTH };
	size_t i;
	int fd;

	(void)p;
	for (i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		fd = socket(families[i], SOCK_RAW | SOCK_CLOEXEC, 0);
		if (fd == -1)
			fd = socket(families[i], SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (fd != -1) {
			close(fd);
			return PROBE_DONE;
		}
	}
	return PROBE_REFUSED;
}

static enum probe_result
abstract_socket(const struct confine_plan *p)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	size_t n = strlen(p->abstract_name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool reached;

	if (n == 0 || fd == -1)
		return fd == -1 ? PROBE_REFUSED : PROBE_UNTRIED;
	memcpy(sun.sun_path + 1, p->abstract_name, n);
	reached = connect(fd, (struct sockaddr *)&sun,
		      (socklen_t)(sizeof(sun.sun_family) + 1 + n)) == 0;
	close(fd);
	return done_if(reached);
}

static enum probe_result
signal_outside(const struct confine_plan *p)
{
	/* In a PID namespace the broker's number is nobody's or our own. */
	if (p->namespaces)
		return done_if(getppid() != 1);
	return done_if(kill(p->broker_pid, 0) == 0);
}

static enum probe_result
see_processes(const struct confine_plan *p)
{
	struct dirent *e;
	int n = 0;
	DIR *d;

	(void)p;
	d = opendir("/proc");
	if (d == NULL)
		return PROBE_REFUSED;
	while ((e = readdir(d)) != NULL)
		n += e->d_name[0] >= '1' && e->d_name[0] <= '9';
	closedir(d);
	return done_if(n > 2);
}

static enum probe_result
look_at_init(const struct confine_plan *p)
{
	(void)p;
	return done_if(can_open("/proc/1/environ", O_RDONLY) ||
	    can_open("/proc/1/mem", O_RDWR) ||
	    can_open("/proc/1/root/", O_RDONLY));
}

static enum probe_result
trace_init(const struct confine_plan *p)
{
	(void)p;
	return done_if(ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) == 0);
}

static enum probe_result
limit_init(const struct confine_plan *p)
{
	struct rlimit now;

	(void)p;
	return done_if(prlimit(getppid(), RLIMIT_NOFILE, NULL, &now) == 0);
}

static enum probe_result
mount_something(const struct confine_plan *p)
{
	(void)p;
	return done_if(
	    mount("tmpfs", "/tmp", "tmpfs", 0, NULL) == 0 ||
	    syscall(SYS_fsopen, "tmpfs", 0) != -1);
}

static enum probe_result
new_namespace(const struct confine_plan *p)
{
	int status = -1;
	pid_t pid = fork();

	(void)p;
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
	if (pid == -1 || waitpid(pid, &status, 0) != pid)
		return PROBE_UNTRIED;
	return done_if(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static enum probe_result
hold_capability(const struct confine_plan *p)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct d[2];

	memset(d, 0, sizeof(d));
	if (syscall(SYS_capget, &head, d) == -1)
		return PROBE_UNTRIED;
	return done_if((d[0].effective | d[0].permitted | d[0].inheritable |
			   d[1].effective | d[1].permitted |
			   d[1].inheritable) != 0 ||
	    (p->namespaces && prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN) != 0));
}

static enum probe_result
gain_privileges(const struct confine_plan *p)
{
	(void)p;
	return done_if(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1);
}

static enum probe_result
be_root(const struct confine_plan *p)
{
	(void)p;
	return done_if(getuid() == 0 || geteuid() == 0 || getgid() == 0 ||
	    setuid(0) == 0);
}

static enum probe_result
foreign_descriptor(const struct confine_plan *p)
{
	int fd;

	(void)p;
	for (fd = CONFINE_NOTIFY_FD + 1; fd < 256; fd++) {
		if (fcntl(fd, F_GETFD) != -1)
			return PROBE_DONE;
	}
	return PROBE_REFUSED;
}

/* What the kernel says the limit is, or another one by which it was set. */
static bool
is_above(int resource, rlim_t most)
{
	struct rlimit r;

	return getrlimit((__rlimit_resource_t)resource, &r) == -1 ||
	    r.rlim_max > most;
}

/* Whatever the limit is said to be: so much memory, so many bytes? */
static bool
takes_more(const struct confine_plan *p)
{
	const size_t memory = (size_t)p->memory_mb << 20;
	char name[] = "/tmp/.cyberos-probe-large";
	bool large = false;
	void *at;
	int fd;

	at = mmap(NULL, memory, PROT_NONE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at != MAP_FAILED)
		munmap(at, memory);
	signal(SIGXFSZ, SIG_IGN);
	fd = make_file(name);
	if (fd != -1) {
		large = ftruncate(fd, ((off_t)p->tmp_mb + 2) << 20) == 0;
		close(fd);
		unlink(name);
	}
	return at != MAP_FAILED || large;
}

#define FORKS_MAX 512

/* As many children as there may be processes, this one aside. Without a namespace
 * other processes of the user count, and come and go. */
static bool
forks_more(const struct confine_plan *p)
{
	pid_t pids[FORKS_MAX];
	unsigned n = 0, i;

	if (p->max_processes > FORKS_MAX || !p->namespaces)
		return false;
	while (n < p->max_processes && (pids[n] = fork()) != -1) {
		if (pids[n] == 0) {
			pause();
			_exit(0);
		}
		n++;
	}
	for (i = 0; i < n; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	return n == p->max_processes;
}

static enum probe_result
exceed_limits(const struct confine_plan *p)
{
	return done_if(is_above(RLIMIT_AS, (rlim_t)p->memory_mb << 20) ||
	    is_above(RLIMIT_CPU, p->cpu_seconds) ||
	    is_above(RLIMIT_FSIZE, ((rlim_t)p->tmp_mb + 1) << 20) ||
	    is_above(RLIMIT_CORE, 0) ||
	    is_above(RLIMIT_NPROC,
		p->max_processes + 1 +
		    (p->namespaces || p->root ? 0 : (rlim_t)p->tasks)) ||
	    takes_more(p) || forks_more(p));
}

static enum probe_result
many_descriptors(const struct confine_plan *p)
{
	int fd = fcntl(0, F_DUPFD_CLOEXEC, CONFINE_FILES);

	(void)p;
	if (fd != -1)
		close(fd);
	return done_if(fd != -1 || is_above(RLIMIT_NOFILE, CONFINE_FILES));
}

/* What it is mounted with counts as well: a child of init's owns nothing there. */
static enum probe_result
write_proc(const struct confine_plan *p)
{
	static const char *const names[] = { "/proc/locks", "/proc/keys",
		"/proc/self/oom_score_adj", "/proc/sys/kernel/hostname" };
	struct statvfs v;
	bool done = false;
	size_t i;
	int fd;

	if (!p->namespaces && p->landlock_abi == 0)
		return PROBE_UNTRIED;
	if (p->namespaces)
		done = statvfs("/proc", &v) == 0 &&
		    (v.f_flag & ST_RDONLY) == 0;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		fd = open(names[i], O_WRONLY | O_CLOEXEC);
		if (fd != -1)
			close(fd);
		done = done || fd != -1 || chmod(names[i], 0700) == 0;
	}
	return done_if(done);
}

#define QUEUE_LONG 64

static enum probe_result
long_queue(const struct confine_plan *p)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX,
		.sun_path = "/tmp/.cyberos-probe-queue" };
	int fds[QUEUE_LONG], n = 0, i;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)p;
	if (fd == -1 || bind(fd, (struct sockaddr *)&sun, sizeof(sun)) == -1 ||
	    listen(fd, 4 * QUEUE_LONG) == -1) {
		close(fd);
		return PROBE_UNTRIED;
	}
	while (n < QUEUE_LONG) {
		fds[n] = socket(AF_UNIX,
		    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fds[n] == -1)
			break;
		n++;
		if (connect(fds[n - 1], (struct sockaddr *)&sun,
			sizeof(sun)) == -1)
			break;
	}
	for (i = 0; i < n; i++)
		close(fds[i]);
	close(fd);
	unlink(sun.sun_path);
	return done_if(n == QUEUE_LONG);
}

static enum probe_result
kernel_surface(const struct confine_plan *p)
{
	static const long calls[] = { SYS_bpf, SYS_io_uring_setup,
		SYS_userfaultfd, SYS_perf_event_open, SYS_keyctl,
		SYS_memfd_create, SYS_kexec_load, SYS_init_module };
	size_t i;
	long r;

	(void)p;
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		errno = 0;
		r = syscall(calls[i], 0, 0, 0, 0, 0);
		/* Any other error than these came from inside the kernel. */
		if (r != -1 || (errno != EPERM && errno != ENOSYS))
			return PROBE_DONE;
	}
	return PROBE_REFUSED;
}

static enum probe_result
type_into_terminal(const struct confine_plan *p)
{
	char c = ' ';

	(void)p;
	return done_if(ioctl(0, TIOCSTI, &c) == 0);
}

static enum probe_result
set_id_bit(const struct confine_plan *p)
{
	char name[] = "/tmp/.cyberos-probe-id";
	struct stat st;
	bool done;
	int fd;

	(void)p;
	fd = make_file(name);
	if (fd == -1)
		return errno == EEXIST ? PROBE_UNTRIED : PROBE_REFUSED;
	done = fchmod(fd, 04700) == 0 && fstat(fd, &st) == 0 &&
	    (st.st_mode & S_ISUID) != 0;
	close(fd);
	unlink(name);
	return done_if(done);
}

static const struct probe probes[] = {
	{ "open_outside", "pivot_root", "landlock", open_outside,
	    "open files of the host" },
	{ "write_system", "private_root", "landlock", write_system,
	    "write /usr, /etc or the skill's own files" },
	{ "change_files", "private_root", "seccomp", change_files,
	    "change modes, owners or times of files of the host" },
	{ "run_from_tmp", "private_tmp", "landlock", run_from_tmp,
	    "run a program from /tmp" },
	{ "inet_socket", "network_namespace", "seccomp", inet_socket,
	    "connect by TCP" },
	{ "abstract_socket", "network_namespace", "landlock_scope",
	    abstract_socket, "connect to an abstract socket of the host" },
	{ "signal_outside", "pid_namespace", "landlock_scope", signal_outside,
	    "signal a process outside" },
	{ "see_processes", "proc", "landlock", see_processes,
	    "list the host's processes" },
	{ "write_proc", "proc", "landlock", write_proc, "write in /proc" },
	{ "look_at_init", "not_dumpable", "landlock", look_at_init,
	    "read init's environment, memory or root" },
	{ "be_root", "identity", NULL, be_root, "be or become root" },
	{ "hold_capability", "capabilities", NULL, hold_capability,
	    "hold a capability" },
	{ "gain_privileges", "no_new_privs", NULL, gain_privileges,
	    "gain privileges by exec" },
	{ "foreign_descriptor", "descriptors", NULL, foreign_descriptor,
	    "use a descriptor that was left open" },
	{ "exceed_limits", "limits", NULL, exceed_limits,
	    "use more than its limits" },
	{ "many_descriptors", "descriptor_limit", NULL, many_descriptors,
	    "have more than 256 descriptors" },
	{ "long_queue", "kernel_limits", NULL, long_queue,
	    "let many connections wait" },
	{ "other_families", "seccomp", NULL, other_families,
	    "make sockets of other families" },
	{ "trace_init", "seccomp", NULL, trace_init, "trace init" },
	{ "limit_init", "seccomp", NULL, limit_init, "change init's limits" },
	{ "mount_something", "seccomp", NULL, mount_something, "mount" },
	{ "new_namespace", "seccomp", NULL, new_namespace,
	    "make a namespace" },
	{ "kernel_surface", "seccomp", NULL, kernel_surface,
	    "bpf, io_uring, userfaultfd, perf, keys, memfd, modules" },
	{ "type_into_terminal", "seccomp", NULL, type_into_terminal,
	    "type into the terminal (TIOCSTI)" },
	{ "set_id_bit", "seccomp", NULL, set_id_bit, "make a set-id file" },
};

_Static_assert(sizeof(probes) / sizeof(probes[0]) <= PROBES_MAX,
    "the table fits where its results are kept");

const struct probe *
probe_table(size_t *n)
{
	*n = sizeof(probes) / sizeof(probes[0]);
	return probes;
}

const char *
probe_result_word(uint8_t result)
{
	if (result == PROBE_REFUSED)
		return "refused";
	return result == PROBE_DONE ? "POSSIBLE" : "not tried";
}

enum probe_verdict
probe_judge(const char *layer, const uint8_t states[], const uint8_t results[])
{
	size_t i;

	if (!confine_is_active(states, layer))
		return PROBE_NOT_AVAILABLE;
	for (i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
		if (results[i] == PROBE_DONE &&
		    (strcmp(probes[i].layer, layer) == 0 ||
			(probes[i].instead != NULL &&
			    strcmp(probes[i].instead, layer) == 0)))
			return PROBE_BROKEN;
	}
	return PROBE_ENFORCED;
}

const char *
probe_verdict_word(enum probe_verdict v)
{
	switch (v) {
	case PROBE_ENFORCED:
		return "enforced";
	case PROBE_NOT_AVAILABLE:
		return "not available";
	case PROBE_BROKEN:
		break;
	}
	return "BROKEN";
}
