/*
 * The system call filters: first what the programs say, by running them here
 * for both machines over a table and over every number, then what the kernel
 * makes of them in children that hold nothing but the filter.
 */

#include "enforce/filter.h"

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <unistd.h>

#include "t/unit/tap.h"

enum { ALLOW = -1, NOTIFY = -2, KILL = -3, STRANGE = -4 };

#define HIGH 0xdeadbeef00000000ULL
#define FLAGS_NS 0x7e020000U

struct row {
	const char *call;
	uint64_t args[4];
	int skill, broker, worker;
};

/* What each role gets; a call that a machine lacks is passed over there. */
static const struct row rows[] = {
	{ "read", { 0 }, ALLOW, ALLOW, ALLOW },
	{ "write", { 0 }, ALLOW, ALLOW, ALLOW },
	{ "close", { 0 }, ALLOW, ALLOW, ALLOW },
	{ "sendmsg", { 0 }, ALLOW, ALLOW, ALLOW },
	{ "recvmsg", { 0 }, ALLOW, ALLOW, ALLOW },
	{ "exit_group", { 0 }, ALLOW, ALLOW, ALLOW },
	{ "restart_syscall", { 0 }, ALLOW, ALLOW, ALLOW },
	{ "rt_sigreturn", { 0 }, ALLOW, ALLOW, ALLOW },
	{ "execve", { 0 }, ALLOW, EPERM, EPERM },
	{ "execveat", { 0 }, ALLOW, EPERM, EPERM },
	{ "fork", { 0 }, ALLOW, EPERM, EPERM },
	{ "kill", { 0 }, ALLOW, ALLOW, EPERM },
	{ "tgkill", { 0 }, ALLOW, ALLOW, EPERM },
	{ "pidfd_send_signal", { 0 }, ALLOW, ALLOW, EPERM },
	{ "accept4", { 0 }, ALLOW, ALLOW, EPERM },
	{ "connect", { 0 }, ALLOW, EPERM, EPERM },
	{ "bind", { 0 }, ALLOW, EPERM, EPERM },
	{ "listen", { 0 }, ALLOW, EPERM, EPERM },
	{ "openat2", { 0 }, ENOSYS, ALLOW, ALLOW },
	{ "clone3", { 0 }, ENOSYS, ENOSYS, EPERM },
	{ "seccomp", { SECCOMP_SET_MODE_FILTER }, ENOSYS, ALLOW, EPERM },
	{ "seccomp", { SECCOMP_GET_NOTIF_SIZES }, ENOSYS, EPERM, EPERM },
	{ "landlock_restrict_self", { 0 }, ENOSYS, ALLOW, EPERM },
	{ "memfd_create", { 0 }, NOTIFY, ALLOW, EPERM },
	{ "memfd_secret", { 0 }, NOTIFY, EPERM, EPERM },
	{ "linkat", { 0 }, ALLOW, ALLOW, ALLOW },
	{ "renameat2", { 0 }, ALLOW, ALLOW, ALLOW },
	{ "fsetxattr", { 0 }, ALLOW, ALLOW, ALLOW },
	{ "fchown", { 0 }, ALLOW, ALLOW, ALLOW },
	{ "sync", { 0 }, 0, EPERM, EPERM },
	{ "syncfs", { 0 }, 0, EPERM, EPERM },
	{ "setuid", { 0 }, ALLOW, EPERM, EPERM },

	/* the attack list */
	{ "unshare", { CLONE_NEWUSER }, NOTIFY, EPERM, EPERM },
	{ "unshare", { CLONE_NEWNET | CLONE_FILES }, NOTIFY, EPERM, EPERM },
	{ "unshare", { 0x80 }, NOTIFY, EPERM, EPERM }, /* CLONE_NEWTIME */
	{ "unshare", { CLONE_FILES | CLONE_FS }, EPERM, EPERM, EPERM },
	{ "setns", { 0 }, NOTIFY, EPERM, EPERM },
	{ "mount", { 0 }, NOTIFY, EPERM, EPERM },
	{ "umount2", { 0 }, NOTIFY, EPERM, EPERM },
	{ "pivot_root", { 0 }, NOTIFY, EPERM, EPERM },
	{ "chroot", { 0 }, NOTIFY, EPERM, EPERM },
	{ "move_mount", { 0 }, NOTIFY, EPERM, EPERM },
	{ "fsopen", { 0 }, NOTIFY, EPERM, EPERM },
	{ "fsconfig", { 0 }, NOTIFY, EPERM, EPERM },
	{ "fsmount", { 0 }, NOTIFY, EPERM, EPERM },
	{ "fspick", { 0 }, NOTIFY, EPERM, EPERM },
	{ "open_tree", { 0 }, NOTIFY, EPERM, EPERM },
	{ "mount_setattr", { 0 }, NOTIFY, EPERM, EPERM },
	{ "ptrace", { 0 }, NOTIFY, EPERM, EPERM },
	{ "process_vm_readv", { 0 }, NOTIFY, EPERM, EPERM },
	{ "process_vm_writev", { 0 }, NOTIFY, EPERM, EPERM },
	{ "pidfd_getfd", { 0 }, NOTIFY, EPERM, EPERM },
	{ "kcmp", { 0 }, NOTIFY, EPERM, EPERM },
	{ "bpf", { 0 }, NOTIFY, EPERM, EPERM },
	{ "perf_event_open", { 0 }, NOTIFY, EPERM, EPERM },
	{ "userfaultfd", { 0 }, NOTIFY, EPERM, EPERM },
	{ "io_uring_setup", { 0 }, NOTIFY, EPERM, EPERM },
	{ "vmsplice", { 0 }, EPERM, EPERM, EPERM },
	{ "io_uring_enter", { 0 }, NOTIFY, EPERM, EPERM },
	{ "io_uring_register", { 0 }, NOTIFY, EPERM, EPERM },
	{ "add_key", { 0 }, NOTIFY, EPERM, EPERM },
	{ "request_key", { 0 }, NOTIFY, EPERM, EPERM },
	{ "keyctl", { 0 }, NOTIFY, EPERM, EPERM },
	{ "init_module", { 0 }, NOTIFY, EPERM, EPERM },
	{ "finit_module", { 0 }, NOTIFY, EPERM, EPERM },
	{ "delete_module", { 0 }, NOTIFY, EPERM, EPERM },
	{ "kexec_load", { 0 }, NOTIFY, EPERM, EPERM },
	{ "kexec_file_load", { 0 }, NOTIFY, EPERM, EPERM },
	{ "reboot", { 0 }, NOTIFY, EPERM, EPERM },
	{ "swapon", { 0 }, NOTIFY, EPERM, EPERM },
	{ "swapoff", { 0 }, NOTIFY, EPERM, EPERM },
	{ "open_by_handle_at", { 0 }, NOTIFY, EPERM, EPERM },
	{ "iopl", { 0 }, NOTIFY, EPERM, EPERM },
	{ "ioperm", { 0 }, NOTIFY, EPERM, EPERM },
	{ "clock_settime", { 0 }, NOTIFY, EPERM, EPERM },
	{ "settimeofday", { 0 }, NOTIFY, EPERM, EPERM },
	{ "sethostname", { 0 }, NOTIFY, EPERM, EPERM },
	{ "setdomainname", { 0 }, NOTIFY, EPERM, EPERM },
	{ "quotactl", { 0 }, NOTIFY, EPERM, EPERM },
	{ "acct", { 0 }, NOTIFY, EPERM, EPERM },
	{ "vhangup", { 0 }, NOTIFY, EPERM, EPERM },
	{ "fanotify_init", { 0 }, NOTIFY, EPERM, EPERM },

	/* refused quietly */
	{ "adjtimex", { 0 }, EPERM, EPERM, EPERM },
	{ "clock_adjtime", { 0 }, EPERM, EPERM, EPERM },
	{ "shmget", { 0 }, EPERM, EPERM, EPERM },
	{ "semop", { 0 }, EPERM, EPERM, EPERM },
	{ "msgsnd", { 0 }, EPERM, EPERM, EPERM },
	{ "mq_open", { 0 }, EPERM, EPERM, EPERM },
	{ "name_to_handle_at", { 0 }, EPERM, EPERM, EPERM },
	{ "syslog", { 0 }, EPERM, EPERM, EPERM },
	{ "ioprio_set", { 0 }, EPERM, EPERM, EPERM },
	{ "sched_setscheduler", { 0 }, EPERM, EPERM, EPERM },
	{ "sched_setattr", { 0 }, EPERM, EPERM, EPERM },
	{ "mbind", { 0 }, EPERM, EPERM, EPERM },
	{ "set_mempolicy", { 0 }, EPERM, EPERM, EPERM },
	{ "process_madvise", { 0 }, EPERM, EPERM, EPERM },
	{ "modify_ldt", { 0 }, ENOSYS, EPERM, EPERM },

	/* by argument */
	{ "clone", { SIGCHLD }, ALLOW, ALLOW, EPERM },
	{ "clone", { CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
		       CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
		       CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID },
	    ALLOW, ALLOW, EPERM },
	{ "clone", { CLONE_NEWUSER | SIGCHLD }, NOTIFY, EPERM, EPERM },
	{ "clone", { CLONE_NEWNS | SIGCHLD }, NOTIFY, EPERM, EPERM },
	{ "clone", { CLONE_NEWPID | SIGCHLD }, NOTIFY, EPERM, EPERM },
	{ "clone", { CLONE_NEWNET | SIGCHLD }, NOTIFY, EPERM, EPERM },
	{ "clone", { CLONE_NEWIPC | SIGCHLD }, NOTIFY, EPERM, EPERM },
	{ "clone", { CLONE_NEWUTS | SIGCHLD }, NOTIFY, EPERM, EPERM },
	{ "clone", { CLONE_NEWCGROUP | SIGCHLD }, NOTIFY, EPERM, EPERM },
	{ "clone", { FLAGS_NS | CLONE_PTRACE }, NOTIFY, EPERM, EPERM },
	{ "clone", { CLONE_PTRACE | SIGCHLD }, NOTIFY, EPERM, EPERM },
	{ "socket", { AF_UNIX, SOCK_STREAM }, ALLOW, EPERM, EPERM },
	{ "socket", { AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK },
	    ALLOW, EPERM, EPERM },
	{ "socket", { AF_UNIX, SOCK_DGRAM }, EPERM, EPERM, EPERM },
	{ "socket", { AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC }, EPERM, EPERM,
	    EPERM },
	{ "socket", { AF_UNIX, SOCK_RAW }, NOTIFY, EPERM, EPERM },
	{ "socket", { AF_UNIX, SOCK_SEQPACKET }, NOTIFY, EPERM, EPERM },
	{ "socket", { AF_UNIX, 0 }, NOTIFY, EPERM, EPERM },
	{ "socket", { AF_INET, SOCK_STREAM }, NOTIFY, EPERM, EPERM },
	{ "socket", { AF_INET, SOCK_DGRAM }, NOTIFY, EPERM, EPERM },
	{ "socket", { AF_INET6, SOCK_DGRAM }, EPERM, EPERM, EPERM },
	{ "socket", { AF_INET6, SOCK_STREAM }, NOTIFY, EPERM, EPERM },
	{ "socket", { AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC }, NOTIFY, EPERM,
	    EPERM },
	{ "socket", { AF_NETLINK, SOCK_RAW }, EPERM, EPERM, EPERM },
	{ "socket", { AF_PACKET, SOCK_RAW }, NOTIFY, EPERM, EPERM },
	{ "socket", { 38 /* AF_ALG */, SOCK_SEQPACKET }, NOTIFY, EPERM,
	    EPERM },
	{ "socket", { 40 /* AF_VSOCK */, SOCK_STREAM }, NOTIFY, EPERM, EPERM },
	{ "socket", { 0, SOCK_STREAM }, NOTIFY, EPERM, EPERM },
	{ "socket", { 0xffffffff, SOCK_STREAM }, NOTIFY, EPERM, EPERM },
	{ "socketpair", { AF_UNIX, SOCK_STREAM }, ALLOW, ALLOW, EPERM },
	{ "socketpair", { AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC }, ALLOW,
	    ALLOW, EPERM },
	{ "socketpair", { AF_UNIX, SOCK_DGRAM }, EPERM, EPERM, EPERM },
	{ "socketpair", { AF_UNIX, SOCK_RAW }, EPERM, EPERM, EPERM },
	{ "socketpair", { 30 /* AF_TIPC */, SOCK_STREAM }, NOTIFY, EPERM,
	    EPERM },
	{ "open", { 0, O_RDONLY, 06777 }, ALLOW, ALLOW, ALLOW },
	{ "open", { 0, O_CREAT | O_WRONLY, 0666 }, ALLOW, ALLOW, ALLOW },
	{ "open", { 0, O_CREAT | O_WRONLY, 04755 }, NOTIFY, EPERM, EPERM },
	{ "openat", { 0, 0, O_RDONLY, 06777 }, ALLOW, ALLOW, ALLOW },
	{ "openat", { 0, 0, O_CREAT | O_EXCL, 01666 }, ALLOW, ALLOW, ALLOW },
	{ "openat", { 0, 0, O_CREAT, 04755 }, NOTIFY, EPERM, EPERM },
	{ "openat", { 0, 0, O_CREAT | O_TRUNC, 02755 }, NOTIFY, EPERM, EPERM },
	{ "openat", { 0, 0, O_TMPFILE | O_RDWR, 0600 }, ALLOW, ALLOW, ALLOW },
	{ "openat", { 0, 0, O_TMPFILE | O_RDWR, 06755 }, NOTIFY, EPERM,
	    EPERM },
	{ "creat", { 0, 0644 }, ALLOW, EPERM, EPERM },
	{ "creat", { 0, 04755 }, NOTIFY, EPERM, EPERM },
	{ "chmod", { 0, 01777 }, ALLOW, EPERM, EPERM },
	{ "chmod", { 0, 04755 }, NOTIFY, EPERM, EPERM },
	{ "chmod", { 0, 02755 }, NOTIFY, EPERM, EPERM },
	{ "fchmod", { 0, 0755 }, ALLOW, ALLOW, ALLOW },
	{ "fchmod", { 0, 06755 }, NOTIFY, EPERM, EPERM },
	{ "fchmodat", { 0, 0, 0755 }, ALLOW, EPERM, EPERM },
	{ "fchmodat", { 0, 0, 02755 }, NOTIFY, EPERM, EPERM },
	{ "fchmodat2", { 0, 0, 0755 }, ALLOW, EPERM, EPERM },
	{ "fchmodat2", { 0, 0, 04755 }, NOTIFY, EPERM, EPERM },
	{ "mknod", { 0, S_IFIFO | 0600 }, ALLOW, EPERM, EPERM },
	{ "mknod", { 0, 0644 }, ALLOW, EPERM, EPERM },
	{ "mknod", { 0, S_IFREG | 04755 }, NOTIFY, EPERM, EPERM },
	{ "mknodat", { 0, 0, S_IFIFO | 0600 }, ALLOW, EPERM, EPERM },
	{ "mknodat", { 0, 0, S_IFREG | 0600 }, ALLOW, EPERM, EPERM },
	{ "mknodat", { 0, 0, S_IFIFO | 02600 }, NOTIFY, EPERM, EPERM },
	{ "mknodat", { 0, 0, S_IFCHR | 0666 }, NOTIFY, EPERM, EPERM },
	{ "mknodat", { 0, 0, S_IFBLK | 0666 }, NOTIFY, EPERM, EPERM },
	{ "mknodat", { 0, 0, S_IFSOCK | 0666 }, NOTIFY, EPERM, EPERM },
	{ "ioctl", { 0, TCGETS }, ALLOW, EPERM, EPERM },
	{ "ioctl", { 0, TIOCGWINSZ }, ALLOW, EPERM, EPERM },
	{ "ioctl", { 0, FIONREAD }, ALLOW, EPERM, EPERM },
	{ "ioctl", { 0, FIOCLEX }, ALLOW, EPERM, EPERM },
	{ "ioctl", { 0, 0x802c542a /* TCGETS2 */ }, ALLOW, EPERM, EPERM },
	{ "ioctl", { 0, TIOCSTI }, NOTIFY, EPERM, EPERM },
	{ "ioctl", { 0, TIOCLINUX }, NOTIFY, EPERM, EPERM },
	{ "ioctl", { 0, TIOCGPTN }, ENOTTY, EPERM, EPERM },
	{ "ioctl", { 0, TIOCSCTTY }, ENOTTY, EPERM, EPERM },
	{ "ioctl", { 0, TIOCSETD }, ENOTTY, EPERM, EPERM },
	{ "ioctl", { 0, 0x40049409 /* FICLONE */ }, ENOTTY, EPERM, EPERM },
	{ "ioctl", { 0, 0 }, ENOTTY, EPERM, EPERM },
	{ "ioctl", { 0, 1 }, ENOTTY, EPERM, EPERM },
	{ "ioctl", { 0, 0xffffffff }, ENOTTY, EPERM, EPERM },
	{ "prctl", { PR_SET_NAME }, ALLOW, ALLOW, EPERM },
	{ "prctl", { PR_SET_PDEATHSIG }, ALLOW, ALLOW, EPERM },
	{ "prctl", { PR_SET_NO_NEW_PRIVS }, ALLOW, ALLOW, EPERM },
	{ "prctl", { PR_GET_DUMPABLE }, ALLOW, EPERM, EPERM },
	{ "prctl", { 0x53564d41 /* PR_SET_VMA */ }, ALLOW, EPERM, EPERM },
	{ "prctl", { PR_SET_DUMPABLE, 0 }, 0, ALLOW, EPERM },
	{ "prctl", { PR_SET_DUMPABLE, 1 }, 0, EPERM, EPERM },
	{ "prctl", { PR_SET_SECCOMP, 2 }, EINVAL, EPERM, EPERM },
	{ "prctl", { PR_SET_MM }, EINVAL, EPERM, EPERM },
	{ "prctl", { PR_CAP_AMBIENT }, EINVAL, EPERM, EPERM },
	{ "prctl", { PR_SET_SECUREBITS }, EINVAL, EPERM, EPERM },
	{ "prctl", { PR_SET_KEEPCAPS }, EINVAL, EPERM, EPERM },
	{ "prctl", { PR_CAPBSET_DROP }, EINVAL, EPERM, EPERM },
	{ "prctl", { 0 }, EINVAL, EPERM, EPERM },
	{ "fcntl", { 0, F_GETFL }, ALLOW, ALLOW, ALLOW },
	{ "fcntl", { 0, F_DUPFD_CLOEXEC }, ALLOW, ALLOW, ALLOW },
	{ "fcntl", { 0, F_OFD_SETLK }, ALLOW, EPERM, EPERM },
	{ "fcntl", { 0, F_SETLEASE }, EPERM, EPERM, EPERM },
	{ "fcntl", { 0, F_NOTIFY }, EPERM, EPERM, EPERM },
	{ "fcntl", { 0, F_SETSIG, SIGKILL }, EPERM, EPERM, EPERM },
	{ "fcntl", { 0, F_SETOWN, 1 }, EPERM, EPERM, EPERM },
	{ "fcntl", { 0, F_SETOWN_EX }, EPERM, EPERM, EPERM },
	{ "fcntl", { 0, F_SETFL, O_NONBLOCK }, ALLOW, ALLOW, ALLOW },
	{ "fcntl", { 0, F_SETFL, O_NONBLOCK | O_ASYNC }, EPERM, ALLOW, ALLOW },
	{ "fcntl", { 0, F_SET_RW_HINT }, EPERM, EPERM, EPERM },
	{ "fcntl", { 0, F_SET_FILE_RW_HINT }, EPERM, EPERM, EPERM },
	{ "ioctl", { 0, FIOASYNC }, ENOTTY, EPERM, EPERM },
	{ "prlimit64", { 0 }, ALLOW, EPERM, EPERM },
	{ "prlimit64", { 1 }, NOTIFY, EPERM, EPERM },
	{ "prlimit64", { 2 }, NOTIFY, EPERM, EPERM },
	{ "sched_setaffinity", { 0 }, ALLOW, EPERM, EPERM },
	{ "sched_setaffinity", { 1 }, EPERM, EPERM, EPERM },
	{ "setpriority", { PRIO_PROCESS, 0 }, ALLOW, EPERM, EPERM },
	{ "setpriority", { PRIO_PROCESS, 1 }, EPERM, EPERM, EPERM },
	{ "setpriority", { PRIO_PROCESS, 2 }, EPERM, EPERM, EPERM },
	{ "setpriority", { PRIO_USER, 0 }, EPERM, EPERM, EPERM },
	{ "setpriority", { PRIO_PGRP, 0 }, EPERM, EPERM, EPERM },
	{ "personality", { 0 }, ALLOW, EPERM, EPERM },
	{ "personality", { 0xffffffff }, ALLOW, EPERM, EPERM },
	{ "personality", { 0x0040000 }, EPERM, EPERM, EPERM },
	{ "personality", { 0x0400001 }, EPERM, EPERM, EPERM },
	{ "mmap", { 0, 0, PROT_READ | PROT_WRITE }, ALLOW, ALLOW, ALLOW },
	{ "mmap", { 0, 0, PROT_READ | PROT_EXEC }, ALLOW, EPERM, EPERM },
	{ "mprotect", { 0, 0, PROT_READ | PROT_WRITE }, ALLOW, ALLOW, ALLOW },
	{ "mprotect", { 0, 0, PROT_EXEC }, ALLOW, EPERM, EPERM },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const struct machine {
	const char *name;
	uint32_t arch;
} machines[] = { { "x86-64", AUDIT_ARCH_X86_64 },
	{ "aarch64", AUDIT_ARCH_AARCH64 } };

/* --- running a program --- */

static uint32_t
run(const struct seccomp_program *p, const struct seccomp_data *d)
{
	const struct sock_filter *in;
	uint32_t a = 0;
	size_t pc = 0;
	bool yes;

	while (pc < p->len) {
		in = &p->code[pc++];
		switch (in->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (in->k % 4 != 0 || in->k >= sizeof(*d))
				return SECCOMP_RET_LOG;
			memcpy(&a, (const char *)d + in->k, 4);
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= in->k;
			continue;
		case BPF_RET | BPF_K:
			return in->k;
		case BPF_JMP | BPF_JA:
			pc += in->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			yes = a == in->k;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			yes = a > in->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			yes = a >= in->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			yes = (a & in->k) != 0;
			break;
		default:
			return SECCOMP_RET_LOG;
		}
		pc += yes ? in->jt : in->jf;
	}
	return SECCOMP_RET_LOG;
}

static int
answer(const struct seccomp_program *p, uint32_t arch, uint32_t nr,
    const uint64_t *args, size_t n)
{
	struct seccomp_data d = { .nr = (int)nr, .arch = arch };
	uint32_t r;
	size_t i;

	for (i = 0; i < n; i++)
		d.args[i] = args[i];
	r = run(p, &d);
	switch (r & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
		return ALLOW;
	case SECCOMP_RET_USER_NOTIF:
		return NOTIFY;
	case SECCOMP_RET_KILL_PROCESS:
		return KILL;
	case SECCOMP_RET_ERRNO:
		return (int)(r & SECCOMP_RET_DATA);
	default:
		return STRANGE;
	}
}

static int
number(const struct machine *m, const char *call)
{
	return seccomp_syscall_resolve_name_arch(m->arch, call);
}

static bool
compile(uint32_t arch, enum seccomp_role role, bool notify, bool connects,
    struct seccomp_program *p)
{
	memset(p, 0, sizeof(*p));
	return seccomp_compile(arch, role, notify, connects, p) == 0;
}

static int
wanted(const struct row *r, enum seccomp_role role, bool notify)
{
	/* A shell gets what a skill gets, but for sockets that a path names. */
	bool unix_socket =
	    strcmp(r->call, "socket") == 0 && r->args[0] == AF_UNIX;
	const int want[] = { [SECCOMP_SKILL] = r->skill,
		[SECCOMP_BASH] = unix_socket ? EPERM : r->skill,
		[SECCOMP_BROKER] = r->broker,
		[SECCOMP_WORKER] = r->worker };

	return want[role] == NOTIFY && !notify ? EPERM : want[role];
}

/* The table, with clean and with dirty upper halves. */
static void
test_rows(const struct machine *m, enum seccomp_role role, bool notify)
{
	struct seccomp_program p;
	uint64_t dirty[4];
	unsigned wrong = 0, seen = 0;
	size_t i, j;
	int nr, want, clean, other;

	if (!ok(compile(m->arch, role, notify, false, &p),
		"%s: the filter of role %d compiles", m->name, role))
		return;
	for (i = 0; i < ROWS; i++) {
		nr = number(m, rows[i].call);
		if (nr < 0)
			continue;
		seen++;
		for (j = 0; j < 4; j++)
			dirty[j] = rows[i].args[j] | HIGH;
		want = wanted(&rows[i], role, notify);
		clean = answer(&p, m->arch, (uint32_t)nr, rows[i].args, 4);
		other = answer(&p, m->arch, (uint32_t)nr, dirty, 4);
		if (clean == want && other == want)
			continue;
		wrong++;
		printf("# %s(%#llx, %#llx, %#llx, %#llx): %d and %d, not %d\n",
		    rows[i].call, (unsigned long long)rows[i].args[0],
		    (unsigned long long)rows[i].args[1],
		    (unsigned long long)rows[i].args[2],
		    (unsigned long long)rows[i].args[3], clean, other, want);
	}
	ok(wrong == 0 && seen > 150, "%s: role %d, notify %d: %u rows", m->name,
	    role, notify, seen);
	seccomp_program_clear(&p);
}

/* The net worker's own table. */
static void
test_net(const struct machine *m)
{
	static const struct {
		const char *call;
		uint64_t args[4];
		int want;
	} net[] = {
		{ "read", { 0 }, ALLOW }, { "connect", { 0 }, ALLOW },
		{ "socket", { AF_INET, SOCK_STREAM, 0 }, ALLOW },
		{ "socket", { AF_INET6, SOCK_DGRAM, 0 }, ALLOW },
		{ "socket", { AF_NETLINK, SOCK_RAW, 0 }, ALLOW },
		{ "socket", { AF_NETLINK, SOCK_RAW, 9 }, EPERM },
		{ "socket", { AF_UNIX, SOCK_STREAM, 0 }, EPERM },
		{ "socket", { AF_PACKET, SOCK_RAW, 0 }, EPERM },
		{ "socket", { AF_VSOCK, SOCK_STREAM, 0 }, EPERM },
		{ "socketpair", { AF_UNIX, SOCK_STREAM, 0 }, ALLOW },
		{ "socketpair", { AF_UNIX, SOCK_DGRAM, 0 }, EPERM },
		{ "openat", { 0, 0, O_RDONLY | O_CLOEXEC }, ALLOW },
		{ "openat", { 0, 0, O_WRONLY }, EPERM },
		{ "openat", { 0, 0, O_RDWR }, EPERM },
		{ "openat", { 0, 0, O_RDONLY | O_CREAT }, EPERM },
		{ "openat", { 0, 0, O_RDONLY | O_TRUNC }, EPERM },
		{ "openat2", { 0 }, EPERM }, { "listen", { 0 }, EPERM },
		{ "accept4", { 0 }, EPERM },
		{ "mmap", { 0, 1, PROT_READ, 0 }, ALLOW },
		{ "mmap", { 0, 1, PROT_READ | PROT_EXEC, 0 }, EPERM },
		{ "mprotect", { 0, 1, PROT_EXEC, 0 }, EPERM },
		{ "clone", { CLONE_VM | CLONE_THREAD | CLONE_SIGHAND },
		    ALLOW },
		{ "clone", { SIGCHLD }, EPERM },
		{ "clone", { CLONE_THREAD | CLONE_NEWUSER }, EPERM },
		{ "clone3", { 0 }, ENOSYS }, { "execve", { 0 }, EPERM },
		{ "execveat", { 0 }, EPERM }, { "ptrace", { 0 }, EPERM },
		{ "kill", { 0 }, EPERM }, { "tgkill", { 0 }, EPERM },
		{ "unlinkat", { 0 }, EPERM }, { "mkdirat", { 0 }, EPERM },
		{ "setuid", { 0 }, EPERM }, { "mount", { 0 }, EPERM },
		{ "memfd_create", { 0 }, EPERM },
		{ "io_uring_setup", { 0 }, EPERM },
	};
	struct seccomp_program p;
	unsigned wrong = 0;
	size_t i, n = sizeof(net) / sizeof(net[0]);

	if (!ok(compile(m->arch, SECCOMP_NET, false, false, &p),
		"%s: the net worker's filter compiles", m->name))
		return;
	for (i = 0; i < n; i++) {
		if (answer(&p, m->arch, (uint32_t)number(m, net[i].call),
			net[i].args, 4) == net[i].want)
			continue;
		wrong++;
		printf("# row %zu: %s\n", i, net[i].call);
	}
	ok(wrong == 0, "%s: %zu rows of the net worker", m->name, n);
	seccomp_program_clear(&p);
}

static uint64_t
next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* An argument as the tables may mention it, and sometimes anything. */
static uint64_t
some_argument(uint64_t *state)
{
	const struct row *r = &rows[next_random(state) % ROWS];

	switch (next_random(state) % 4) {
	case 0:
		return next_random(state);
	case 1:
		return 1ULL << next_random(state) % 32;
	default:
		return r->args[next_random(state) % 4];
	}
}

/* Whatever the numbers and arguments are. */
static void
test_properties(const struct machine *m)
{
	struct seccomp_program skill, silent, broker, worker, walker;
	uint64_t state = 88172645463325252ULL, args[6];
	unsigned halves = 0, subset = 0, less = 0, told = 0, strange = 0, tries;
	uint32_t nr;
	size_t i;
	int a, b;

	if (!ok(compile(m->arch, SECCOMP_SKILL, true, false, &skill) &&
		    compile(m->arch, SECCOMP_SKILL, false, false, &silent) &&
		    compile(m->arch, SECCOMP_BROKER, false, false, &broker) &&
		    compile(m->arch, SECCOMP_WORKER, false, false, &worker) &&
		    compile(m->arch, SECCOMP_WALKER, false, false, &walker),
		"%s: all compile", m->name))
		return;
	for (tries = 0; tries < 512 * 600; tries++) {
		nr = tries % 512;
		for (i = 0; i < 6; i++)
			args[i] = some_argument(&state);
		a = answer(&skill, m->arch, nr, args, 6);
		b = answer(&silent, m->arch, nr, args, 6);
		if (a == STRANGE || a == KILL)
			strange++;
		if (b != (a == NOTIFY ? EPERM : a))
			told++;
		if (answer(&worker, m->arch, nr, args, 6) == ALLOW &&
		    answer(&broker, m->arch, nr, args, 6) != ALLOW)
			subset++;
		if (answer(&walker, m->arch, nr, args, 6) == ALLOW &&
		    answer(&worker, m->arch, nr, args, 6) != ALLOW)
			less++;
		for (i = 0; i < 6; i++)
			args[i] ^= next_random(&state) << 32;
		if (answer(&skill, m->arch, nr, args, 6) != a)
			halves++;
	}
	is_int(strange, 0, "no number is killed or fallen through");
	is_int(halves, 0, "upper halves of arguments never matter");
	is_int(told, 0, "without a listener NOTIFY is EPERM, all else as is");
	is_int(subset, 0, "what a worker may, the broker's filter allows");
	seccomp_program_clear(&skill);
	seccomp_program_clear(&silent);
	seccomp_program_clear(&broker);
	is_int(less, 0, "what a searching one may, a worker may");
	seccomp_program_clear(&worker);
	seccomp_program_clear(&walker);
}

/* Foreign architectures, x32 numbers, numbers of the future. */
static void
test_numbers(const struct machine *m)
{
	static const uint32_t foreign[] = { AUDIT_ARCH_I386, AUDIT_ARCH_ARM,
		AUDIT_ARCH_RISCV64, 0, 0xffffffff };
	const int fallback[] = { ENOSYS, ENOSYS, EPERM, EPERM };
	const uint64_t none[1] = { 0 };
	struct seccomp_program p;
	unsigned wrong = 0, role;
	uint32_t nr;
	size_t i, k;
	int end;

	for (k = 0; k < 2 * (SECCOMP_WORKER + 1); k++) {
		role = (unsigned)k / 2;
		/* Who listens ends the process. */
		end = role <= SECCOMP_BASH && k % 2 == 0 ? NOTIFY : KILL;
		if (!compile(m->arch, role, k % 2 == 0, false, &p)) {
			wrong++;
			continue;
		}
		for (i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
			for (nr = 0; nr < 512; nr++)
				wrong += answer(&p, foreign[i], nr, none, 1) !=
				    end;
		}
		for (nr = 600; nr < 4096; nr++)
			wrong += answer(&p, m->arch, nr, none, 1) !=
			    fallback[role];
		for (nr = 0; nr < 1024; nr++)
			wrong += m->arch == AUDIT_ARCH_X86_64 &&
			    answer(&p, m->arch, nr | 0x40000000, none, 1) !=
				end;
		seccomp_program_clear(&p);
	}
	ok(wrong == 0,
	    "%s: foreign calls are killed or told, unknown ones refused (%u wrong)",
	    m->name, wrong);
}

/* Where the files are the host's: what Landlock does not know is refused. */
static void
test_bare(const struct machine *m)
{
	static const char *const changes[] = { "chmod", "fchmod", "fchmodat",
		"chown", "fchown", "lchown", "fchownat", "utime", "utimes",
		"utimensat", "futimesat", "setxattr", "fsetxattr", "lsetxattr",
		"removexattr", "fremovexattr", "lremovexattr" };
	const uint32_t nr = (uint32_t)number(m, "connect");
	const uint64_t none[4] = { 0 };
	struct seccomp_program told, silent, inside;
	unsigned wrong = 0;
	uint32_t change;
	size_t i;

	if (!ok(compile(m->arch, SECCOMP_SKILL, true, true, &told) &&
		    compile(m->arch, SECCOMP_SKILL, false, true, &silent) &&
		    compile(m->arch, SECCOMP_SKILL, true, false, &inside),
		"%s: without a root of its own compiles", m->name))
		return;
	is_int(answer(&told, m->arch, nr, none, 1), NOTIFY,
	    "connect is notified");
	is_int(answer(&silent, m->arch, nr, none, 1), ALLOW,
	    "and allowed where nobody listens");
	for (i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		if (number(m, changes[i]) < 0)
			continue;
		change = (uint32_t)number(m, changes[i]);
		wrong += answer(&told, m->arch, change, none, 4) != NOTIFY;
		wrong += answer(&silent, m->arch, change, none, 4) != EPERM;
		wrong += answer(&inside, m->arch, change, none, 4) != ALLOW;
	}
	ok(wrong == 0, "files are not changed, but in a root of its own");
	seccomp_program_clear(&told);
	seccomp_program_clear(&silent);
	seccomp_program_clear(&inside);
}

/* --- in the kernel --- */

static char directory[64];
static unsigned step;

/* In a child: the steps are counted, and the one that fails is the status. */
#define NEED(good)                                                             \
	do {                                                                   \
		step++;                                                        \
		if (!(good)) {                                                 \
			dprintf(1, "# line %d: %s (errno %d)\n", __LINE__,     \
			    #good, errno);                                     \
			_exit(step < 200 ? (int)step : 200);                   \
		}                                                              \
	} while (0)

#define REFUSED(error, call)                                                   \
	do {                                                                   \
		errno = 0;                                                     \
		NEED((call) == -1 && errno == (error));                        \
	} while (0)

static int
in_child(enum seccomp_role role, void (*body)(void))
{
	struct seccomp_program p;
	int status = -1;
	pid_t pid;

	if (seccomp_compile(
		seccomp_arch_native(), role, false, false, &p) == -1)
		return -1;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 ||
		    filter_enter(&p, false) != 0)
			_exit(255);
		body();
		_exit(0);
	}
	seccomp_program_clear(&p);
	if (pid == -1 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

static void
dies_not(enum seccomp_role role, void (*body)(void), const char *name)
{
	int status = in_child(role, body);

	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", name);
	if (status != 0)
		printf("# wait status %#x\n", (unsigned)status);
}

static void *
thread(void *arg)
{
	*(int *)arg = 1;
	return NULL;
}

static void
one_thread(void)
{
	pthread_t t;
	int flag = 0;

	NEED(pthread_create(&t, NULL, thread, &flag) == 0);
	NEED(pthread_join(t, NULL) == 0 && flag == 1);
}

static int
spawn_status(const char *script)
{
	int status = -1, fd;
	pid_t pid = fork();

	if (pid == 0) {
		fd = open("/dev/null", O_RDWR);
		dup2(fd, 0);
		dup2(fd, 1);
		dup2(fd, 2);
		execl("/bin/sh", "sh", "-c", script, NULL);
		_exit(127);
	}
	if (pid == -1 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
skill_works(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	char path[128], got;
	int fds[2], l, c, s;

	NEED(pipe(fds) == 0 && write(fds[1], "x", 1) == 1 &&
	    read(fds[0], &got, 1) == 1);
	one_thread();
	NEED(spawn_status("/bin/true") == 0);
	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/s", directory);
	NEED((l = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) != -1);
	NEED(bind(l, (struct sockaddr *)&sun, sizeof(sun)) == 0 &&
	    listen(l, 1) == 0);
	NEED((c = socket(AF_UNIX, SOCK_STREAM, 0)) != -1);
	NEED(connect(c, (struct sockaddr *)&sun, sizeof(sun)) == 0);
	NEED((s = accept(l, NULL, NULL)) != -1);
	NEED(send(c, "y", 1, 0) == 1 && recv(s, &got, 1, 0) == 1);
	NEED(unlink(sun.sun_path) == 0);
	snprintf(path, sizeof(path), "%s/fifo", directory);
	NEED(mkfifo(path, 0600) == 0 && unlink(path) == 0);
	NEED(setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 }) == 0);
	NEED(fcntl(s, F_SETFL, O_NONBLOCK) == 0);
	NEED(ioctl(s, FIONREAD, &l) == 0);
}

static void
skill_modes(void)
{
	struct stat st;
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/mode", directory);
	NEED((fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600)) != -1);
	NEED(chmod(path, 0750) == 0 && fchmod(fd, 01700) == 0);
	REFUSED(EPERM, chmod(path, 04755));
	REFUSED(EPERM, fchmod(fd, 02755));
	REFUSED(EPERM, fchmodat(AT_FDCWD, path, 06755, 0));
	NEED(fstat(fd, &st) == 0 && (st.st_mode & 07777) == 01700);
	NEED(unlink(path) == 0);
	REFUSED(EPERM, open(path, O_CREAT | O_WRONLY, 04755));
	REFUSED(EPERM, creat(path, 02755));
	REFUSED(EPERM, mknod(path, S_IFREG | 04755, 0));
	REFUSED(EPERM, mknod(path, S_IFCHR | 0666, 0x103));
	REFUSED(ENOENT, access(path, F_OK));
	REFUSED(EPERM, open(directory, O_TMPFILE | O_RDWR, 04755));
}

static void
skill_upper_halves(void)
{
	REFUSED(EPERM, syscall(SYS_socket, 0x100000002L, SOCK_STREAM, 0));
	REFUSED(EPERM,
	    syscall(SYS_socket, 1L, (1L << 32) | SOCK_DGRAM, 0));
	REFUSED(EPERM, syscall(SYS_ioctl, 0, 0x100000000L | TIOCSTI, "x"));
	REFUSED(EPERM, syscall(SYS_ioctl, 0, 0x700000000L | TIOCLINUX, "x"));
	REFUSED(EPERM, ioctl(0, TIOCSTI, "x"));
	REFUSED(ENOTTY, syscall(SYS_ioctl, 0, 0x100000000L | TIOCSETD, "x"));
	REFUSED(EPERM, syscall(SYS_clone,
			   (1L << 32) | CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
	REFUSED(EINVAL, syscall(SYS_prctl, (1L << 32) | PR_SET_SECCOMP, 2));
	REFUSED(EPERM, syscall(SYS_prlimit64, (1L << 32) | getppid(),
			   RLIMIT_CPU, NULL, NULL));
	REFUSED(EPERM, fcntl(0, F_SETLEASE, F_RDLCK));
	REFUSED(EPERM, syscall(SYS_fcntl, 0L, (1L << 32) | F_NOTIFY, 1L));
}

/* What a hostile program tries, whatever the arguments: plain EPERM. */
static void
skill_attacks(void)
{
	const struct machine m = { "here", seccomp_arch_native() };
	size_t i;
	int nr;

	for (i = 0; i < ROWS; i++) {
		nr = number(&m, rows[i].call);
		if (nr < 0 || rows[i].skill == ALLOW)
			continue;
		errno = 0;
		NEED(syscall(nr, rows[i].args[0], rows[i].args[1],
			 rows[i].args[2], rows[i].args[3], -1L,
			 -1L) == (rows[i].skill == 0 ? 0 : -1));
		if (errno != (rows[i].skill == NOTIFY ? EPERM : rows[i].skill))
			dprintf(1, "# %s\n", rows[i].call);
		NEED(
		    errno == (rows[i].skill == NOTIFY ? EPERM : rows[i].skill));
	}
}

static void
skill_odds(void)
{
	NEED(prctl(PR_SET_DUMPABLE, 1) == 0);
	NEED(prctl(PR_SET_DUMPABLE, 0) == 0);
	NEED(prctl(PR_GET_DUMPABLE) == 1);
	REFUSED(ENOSYS, syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL));
	REFUSED(EINVAL, prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
	REFUSED(ENOSYS, syscall(SYS_openat2, AT_FDCWD, "/", NULL, 0));
	REFUSED(ENOSYS, syscall(SYS_clone3, NULL, 0));
	REFUSED(ENOSYS, syscall(5000));
	REFUSED(EPERM, setpriority(PRIO_USER, 0, 0));
	REFUSED(EPERM, setpriority(PRIO_PROCESS, (id_t)getppid(), 0));
	NEED(setpriority(PRIO_PROCESS, 0, 19) == 0);
	NEED(syscall(SYS_personality, 0xffffffffUL) != -1);
	REFUSED(EPERM, syscall(SYS_personality, 0x0040000UL));
}

#ifdef __x86_64__
static void
skill_x32(void)
{
	syscall(0x40000000 | SYS_unshare, CLONE_NEWUSER);
}

static void
skill_int80(void)
{
	long result = 20; /* getpid there */

	signal(SIGSEGV, SIG_DFL); /* what a kernel without such calls sends */
	__asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9",
			 "r10", "r11");
}

static bool
has_int80(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		skill_int80();
		_exit(0);
	}
	return waitpid(pid, &status, 0) == pid && status == 0;
}
#endif

static void
test_foreign(void)
{
#ifdef __x86_64__
	int status, expected;

	status = in_child(SECCOMP_SKILL, skill_x32);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS,
	    "an x32 call ends the process");
	expected = has_int80() ? SIGSYS : SIGSEGV;
	status = in_child(SECCOMP_SKILL, skill_int80);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == expected,
	    "a 32-bit call ends the process, by the %s",
	    expected == SIGSYS ? "filter" : "kernel, which has none");
#else
	ok(true, "foreign calls # SKIP only tried on x86-64");
#endif
}

static void
broker_works(void)
{
	struct itimerspec soon = { .it_value = { 0, 1000 } };
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY };
	struct seccomp_program p;
	uint64_t ticks;
	char ready;
	int fds[2], fd, status;
	pid_t pid;

	one_thread();
	NEED(dup2(1, 2) == 2);
	NEED(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
	fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
	NEED(fd != -1 && timerfd_settime(fd, 0, &soon, NULL) == 0);
	NEED(read(fd, &ticks, sizeof(ticks)) == sizeof(ticks));
	NEED(syscall(SYS_openat2, AT_FDCWD, directory, &how, sizeof(how)) !=
	    -1);
	NEED((pid = fork()) != -1);
	if (pid == 0) {
		/* What a worker does first: it makes itself smaller. */
		NEED(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
		NEED(seccomp_compile(seccomp_arch_native(), SECCOMP_WORKER, false,
			 false, &p) == 0);
		NEED(filter_enter(&p, false) == 0);
		REFUSED(EPERM, kill(getppid(), 0));
		NEED(send(fds[1], "w", 1, 0) == 1);
		for (;;)
			poll(NULL, 0, -1);
	}
	close(fds[1]); /* a worker that fails ends the wait */
	NEED(recv(fds[0], &ready, 1, 0) == 1);
	NEED(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
	NEED(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void
broker_refuses(void)
{
	int fds[2];

	REFUSED(EPERM, execl("/bin/true", "true", NULL));
	REFUSED(EPERM, socket(AF_UNIX, SOCK_STREAM, 0));
	REFUSED(EPERM, socket(AF_INET, SOCK_STREAM, 0));
	REFUSED(EPERM, socketpair(AF_UNIX, SOCK_DGRAM, 0, fds));
	REFUSED(EPERM, (int)ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	REFUSED(EPERM, unshare(CLONE_NEWUSER));
	REFUSED(EPERM, (int)syscall(SYS_mount, 0, 0, 0, 0, 0));
	REFUSED(EPERM,
	    (int)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
	REFUSED(EPERM, (int)syscall(SYS_process_vm_readv, getppid(), 0, 0));
	REFUSED(EPERM, chmod(directory, 0777));
	REFUSED(EPERM, prctl(PR_SET_DUMPABLE, 1));
	errno = 0;
	NEED(mmap(NULL, 4096, PROT_READ | PROT_EXEC,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED &&
	    errno == EPERM);
}

static void
worker_works(void)
{
	char proc[64], to[128];
	struct stat st;
	int dir, fd;

	NEED((dir = open(directory, O_RDONLY | O_DIRECTORY)) != -1);
	NEED((fd = openat(dir, ".", O_TMPFILE | O_RDWR, 0600)) != -1);
	NEED(write(fd, "text", 4) == 4 && ftruncate(fd, 2) == 0);
	NEED(fchmod(fd, 0640) == 0 && fchown(fd, geteuid(), getegid()) == 0);
	NEED(fsetxattr(fd, "user.x", "1", 1, 0) == 0 || errno == ENOTSUP);
	NEED(fremovexattr(fd, "user.x") == 0 || errno == ENOTSUP);
	NEED(fsync(fd) == 0);
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	snprintf(to, sizeof(to), "%s/b", directory);
	NEED(linkat(AT_FDCWD, proc, dir, "a", AT_SYMLINK_FOLLOW) == 0);
	NEED(renameat(dir, "a", dir, "b") == 0 && fsync(dir) == 0);
	NEED(fstatat(dir, "b", &st, 0) == 0 && st.st_size == 2 &&
	    (st.st_mode & 07777) == 0640);
	NEED(faccessat(AT_FDCWD, to, R_OK, AT_EACCESS) == 0);
	NEED(unlinkat(dir, "b", 0) == 0);
}

/* Whatever kind of worker it is. */
static void
worker_refuses_more(void)
{
	int fds[2];

	REFUSED(EPERM, fork());
	REFUSED(EPERM, execl("/bin/true", "true", NULL));
	REFUSED(EPERM, kill(getppid(), 0));
	REFUSED(EPERM, (int)syscall(SYS_tgkill, getppid(), getppid(), 0));
	REFUSED(EPERM, socket(AF_UNIX, SOCK_STREAM, 0));
	REFUSED(EPERM, socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	REFUSED(EPERM, connect(0, NULL, 0));
	REFUSED(EPERM, (int)syscall(SYS_memfd_create, "x", 0));
	REFUSED(EPERM, prctl(PR_SET_DUMPABLE, 0));
	REFUSED(EPERM, (int)(intptr_t)mmap(NULL, 4096,
			   PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void
worker_refuses(void)
{
	char path[128];
	int fd;

	worker_refuses_more();
	snprintf(path, sizeof(path), "%s/mode", directory);
	NEED((fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600)) != -1);
	REFUSED(EPERM, fchmod(fd, 04755));
	NEED(unlinkat(AT_FDCWD, path, 0) == 0);
	REFUSED(EPERM, open(path, O_CREAT | O_RDWR, 04755));
}

static void
walker_works(void)
{
	struct stat st;
	char name[8];
	int dir, fd;

	NEED((dir = open(directory, O_RDONLY | O_DIRECTORY)) != -1);
	NEED((fd = openat(dir, ".", O_RDONLY | O_NONBLOCK)) != -1);
	NEED(fstat(fd, &st) == 0);
	NEED(read(fd, name, 1) == -1 && errno == EISDIR);
}

static void
walker_refuses(void)
{
	char path[128];
	int dir;

	worker_refuses_more();
	NEED((dir = open(directory, O_RDONLY | O_DIRECTORY)) != -1);
	snprintf(path, sizeof(path), "%s/mode", directory);
	REFUSED(EPERM, open(path, O_WRONLY));
	REFUSED(EPERM, open(path, O_RDWR));
	REFUSED(EPERM, open(path, O_RDONLY | O_CREAT, 0600));
	REFUSED(EPERM, open(path, O_RDONLY | O_TRUNC));
	REFUSED(EPERM, openat(dir, ".", O_TMPFILE | O_WRONLY, 0600));
	REFUSED(EPERM, mkdirat(dir, "m", 0700));
	REFUSED(EPERM, unlinkat(dir, "a", 0));
	REFUSED(EPERM, renameat(dir, "a", dir, "b"));
	REFUSED(EPERM, linkat(dir, "a", dir, "b", 0));
	REFUSED(EPERM, ftruncate(dir, 0));
	REFUSED(EPERM, fsync(dir));
	REFUSED(EPERM, fchmod(dir, 0700));
	REFUSED(EPERM, fchown(dir, (uid_t)-1, (gid_t)-1));
}

/* --- with a listener --- */

struct listened {
	pid_t pid;
	int fd; /* of the notifications */
};

static int
pass(int sock, int fd)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ancillary = { .room = { 0 } };
	char byte = 'l';
	struct iovec io = { &byte, 1 };
	struct msghdr m = { .msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = &ancillary,
		.msg_controllen = sizeof(ancillary) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(int));
	return sendmsg(sock, &m, 0) == 1 ? 0 : -1;
}

static int
take(int sock)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	char byte;
	struct iovec io = { &byte, 1 };
	struct msghdr m = { .msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = &ancillary,
		.msg_controllen = sizeof(ancillary) };
	struct cmsghdr *h;
	int fd = -1;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) == 1 &&
	    (h = CMSG_FIRSTHDR(&m)) != NULL && h->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(h), sizeof(int));
	return fd;
}

/* A child under the skill's filter whose listener is ours. */
static bool
listen_to(bool connects, void (*body)(const void *), const void *arg,
    struct listened *l)
{
	struct seccomp_program p;
	int pair[2], fd;

	if (seccomp_compile(seccomp_arch_native(), SECCOMP_SKILL, true,
		connects, &p) == -1 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == -1)
		return false;
	fflush(stdout);
	l->pid = fork();
	if (l->pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 ||
		    (fd = filter_enter(&p, true)) == -1 ||
		    fcntl(fd, F_GETFD) != FD_CLOEXEC || pass(pair[1], fd) == -1)
			_exit(255);
		close(fd);
		close(pair[0]);
		close(pair[1]);
		body(arg);
		_exit(0);
	}
	seccomp_program_clear(&p);
	close(pair[1]);
	l->fd = take(pair[0]);
	close(pair[0]);
	return l->pid != -1 && l->fd != -1;
}

/*
 * Answer everything with EPERM until all that is below the filter has ended;
 * the names, each followed by a blank, go to names. How many.
 */
static unsigned
serve(struct listened *l, char *names, size_t size, int *status)
{
	struct seccomp_notif req;
	struct seccomp_notif_resp resp;
	struct pollfd poller = { l->fd, POLLIN, 0 };
	unsigned count = 0;
	char name[32];

	names[0] = '\0';
	*status = -1;
	while (poll(&poller, 1, 60000) == 1 &&
	    (poller.revents & POLLIN) != 0) {
		memset(&req, 0, sizeof(req));
		if (ioctl(l->fd, SECCOMP_IOCTL_NOTIF_RECV, &req) == -1)
			continue;
		count++;
		strlcat(names, seccomp_call_name(req.data.nr, name), size);
		strlcat(names, " ", size);
		memset(&resp, 0, sizeof(resp));
		resp.id = req.id;
		resp.error = -EPERM;
		ioctl(l->fd, SECCOMP_IOCTL_NOTIF_SEND, &resp);
	}
	waitpid(l->pid, status, 0);
	close(l->fd);
	return count;
}

static void
try_and_see(const void *arg)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	(void)arg;
	REFUSED(EPERM, unshare(CLONE_NEWUSER));
	REFUSED(EPERM, (int)syscall(SYS_bpf, 0, NULL, 0));
	REFUSED(EPERM, socket(AF_INET, SOCK_STREAM, 0));
	REFUSED(EPERM, socket(AF_NETLINK, SOCK_RAW, 0));
	REFUSED(EPERM, ioctl(0, TIOCSTI, "x"));
	REFUSED(EPERM, (int)syscall(SYS_memfd_create, "x", 0));
	REFUSED(EPERM,
	    connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&sun,
		sizeof(sun)));
}

static void
keep_trying(const void *arg)
{
	(void)arg;
	while (unshare(CLONE_NEWNS) == -1 && errno == EPERM)
		;
	_exit(errno == ENOSYS ? 0 : 1);
}

static void
test_listener(void)
{
	struct seccomp_notif req;
	struct listened l;
	char names[512];
	int status = -1;

	if (!ok(listen_to(true, try_and_see, NULL, &l),
		"the listener reaches its reader"))
		return;
	serve(&l, names, sizeof(names), &status);
	is_int(status, 0, "every refused call is EPERM");
	is_str(names, "unshare bpf socket ioctl memfd_create connect ",
	    "and the reader has seen the attacks, by name");

	if (!ok(listen_to(false, keep_trying, NULL, &l), "once more"))
		return;
	memset(&req, 0, sizeof(req));
	ok(ioctl(l.fd, SECCOMP_IOCTL_NOTIF_RECV, &req) == 0, "a call waits");
	close(l.fd);
	status = -1;
	waitpid(l.pid, &status, 0);
	is_int(status, 0, "without its reader it is refused, and not let go");
}

/* --- honest programs --- */

static void
honest(const void *arg)
{
	if (chdir(directory) == -1)
		_exit(99);
	_exit(spawn_status(arg));
}

static void
test_honest(void)
{
	static const char *const scripts[] = {
		"x=$(echo a | tr a b; ls /; cat /dev/null) && test -n \"$x\"",
		"bash -c 'read x < <(echo 1); mkfifo f; rm f; [[ $x == 1 ]]'",
		"perl -e 'use File::Temp; my $t = File::Temp->new; fork or "
		"exit 0; wait; exit $? >> 8'",
		"python3 -c 'import threading, subprocess, socket, tempfile, "
		"os, time\n"
		"t = threading.Thread(target=time.sleep, args=(0.01,))\n"
		"t.start(); t.join()\n"
		"subprocess.run([\"true\"], check=True)\n"
		"a, b = socket.socketpair(); a.send(b\"x\"); b.recv(1)\n"
		"f = tempfile.NamedTemporaryFile(); os.chmod(f.name, 0o755)\n"
		"'",
		"python3 -c 'import asyncio, multiprocessing\n"
		"asyncio.run(asyncio.sleep(0.01))\n"
		"p = multiprocessing.Process(target=print)\n"
		"p.start(); p.join(); assert p.exitcode == 0'",
		"node -e 'require(\"fs\").promises.readFile(\"/etc/passwd\")"
		".then(() => require(\"child_process\").execSync(\"true\"))"
		".then(() => new (require(\"worker_threads\").Worker)(\"0\", "
		"{ eval: true }))'",
		"git init -q r && cd r && git -c user.name=a -c user.email=b "
		"commit -q --allow-empty -m x && cd .. && rm -rf r",
		"curl --version",
		"seq 20000 | sort -R | sort -n >o && tar cf o.tar o && "
		"cp o.tar p.tar && rm o o.tar p.tar",
	};
	struct listened l;
	char names[512];
	int status;
	size_t i;

	for (i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		/* Present, and working here without a filter? */
		if (spawn_status(scripts[i]) != 0) {
			ok(true, "%.20s # SKIP does not work here",
			    scripts[i]);
			continue;
		}
		if (!listen_to(false, honest, scripts[i], &l)) {
			ok(false, "%.20s...", scripts[i]);
			continue;
		}
		serve(&l, names, sizeof(names), &status);
		ok(status == 0 && names[0] == '\0',
		    "works and looks like no attacker: %.20s...", scripts[i]);
		if (status != 0 || names[0] != '\0')
			printf("# status %#x, tripped: %s\n", (unsigned)status,
			    names);
	}
}

/* What was compiled when we were built is what the tables say now. */
static void
test_built(void)
{
	const struct seccomp_program *built;
	struct seccomp_program p;
	unsigned role, form, forms;
	bool same = true;

	for (role = SECCOMP_SKILL; role < SECCOMP_ROLES; role++) {
		forms = FILTER_FORMS(role);
		for (form = 0; form < forms; form++) {
			built = filter_of(role, (form & 2) != 0, form & 1);
			if (seccomp_compile(seccomp_arch_native(), role,
				(form & 2) != 0, form & 1, &p) == -1) {
				same = false;
				continue;
			}
			if (p.len != built->len ||
			    memcmp(p.code, built->code,
				p.len * sizeof(*p.code)) != 0)
				same = false;
			seccomp_program_clear(&p);
		}
	}
	ok(same, "the filters that were built are those of the tables");
}

int
main(void)
{
	char name[32];
	size_t i;
	unsigned role;

	test_built();
	strlcpy(directory, "/tmp/cyberos-u.XXXXXX", sizeof(directory));
	if (mkdtemp(directory) == NULL)
		return 99;
	ok(!seccomp_trouble(name), "every name in the tables is known, once");
	for (i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		for (role = SECCOMP_SKILL; role <= SECCOMP_WORKER; role++)
			test_rows(&machines[i], role, true);
		test_rows(&machines[i], SECCOMP_SKILL, false);
		test_net(&machines[i]);
		test_properties(&machines[i]);
		test_numbers(&machines[i]);
		test_bare(&machines[i]);
	}
	is_str(seccomp_call_name(SYS_unshare, name), "unshare", "a name");
	is_str(seccomp_call_name(60000, name), "unknown", "no name");
	is_str(seccomp_call_name(-1, name), "unknown", "no number");
	if (tap_failed > 0) /* the children would really do these things */
		goto out;
	dies_not(SECCOMP_SKILL, skill_works, "a skill's work works");
	dies_not(SECCOMP_SKILL, skill_modes, "no set-id bits, no devices");
	dies_not(SECCOMP_SKILL, skill_upper_halves, "dirty upper halves");
	dies_not(SECCOMP_SKILL, skill_attacks, "the attack list");
	dies_not(SECCOMP_SKILL, skill_odds, "answers that are no refusals");
	test_foreign();
	dies_not(SECCOMP_BROKER, broker_works, "the broker's work works");
	dies_not(SECCOMP_BROKER, broker_refuses, "the broker's refusals");
	dies_not(SECCOMP_WORKER, worker_works, "the worker's work works");
	dies_not(SECCOMP_WORKER, worker_refuses, "the worker's refusals");
	dies_not(SECCOMP_WALKER, walker_works, "searching works");
	dies_not(SECCOMP_WALKER, walker_refuses,
	    "one that searches changes no file");
	test_listener();
	test_honest();
out:
	rmdir(directory);
	return done();
}
