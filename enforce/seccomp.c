/*
 * System call filters, against a skill that runs any code it likes (and, one
 * line further back, against whoever has taken over a process of ours). What
 * a role may ask of the kernel is what these tables name; a call, a number or
 * an argument that they do not name is refused, by an errno where an honest
 * program may stumble over it, by a notification where only an attack goes.
 * Arguments are compared in the 32 bits that the kernel uses, so nothing
 * hides in the upper half of a register, and calls of another architecture
 * are refused whatever they are.
 */

#include "enforce/seccomp.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Headers may be older than the kernel, and the other way round. */
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

enum {
	MAIN = 1 << SECCOMP_SKILL,
	BASH = 1 << SECCOMP_BASH,
	SKILL = MAIN | BASH,
	BROKER = 1 << SECCOMP_BROKER,
	WORKER = 1 << SECCOMP_WORKER,
	WALKER = 1 << SECCOMP_WALKER,
	NET = 1 << SECCOMP_NET,
	/* Workers are the broker's forks: what they may do, both filters let
	 * through. */
	OURS = BROKER | WORKER | WALKER,
	WRITERS = SKILL | BROKER | WORKER,
	ALL = SKILL | OURS
};

/* An answer is one of these, or an errno; 0 is "done", with nothing done. */
enum {
	ALLOW = -1,
	NOTIFY = -2,  /* an attack: EPERM, and somebody is told */
	CONNECT = -3, /* without a root of its own NOTIFY, if somebody listens */
	CHANGE = -4,  /* the same, and else an attack: the files are the host's */
	NOTHING = 0
};

/* Fine in a root of its own; where the files are the host's, an errno. */
#define INSIDE(error) (INSIDE_BASE - (error))
#define INSIDE_BASE (-1000)

struct group {
	unsigned roles;
	int answer;
	const char *name;
	const char *calls; /* apart by blanks */
};

/* Calls whose arguments do not matter; each once for a role. */
static const struct group groups[] = {
	{ ALL, ALLOW, "read and write",
	    "read write readv writev pread64 pwrite64 lseek close "
	    "close_range" },
	{ SKILL, ALLOW, "read and write in more ways",
	    "preadv pwritev preadv2 pwritev2 sendfile splice tee "
	    "copy_file_range" },
	{ ALL, ALLOW, "look",
	    "stat fstat lstat newfstatat statx access faccessat faccessat2 "
	    "readlink readlinkat getdents64 statfs fstatfs" },
	{ SKILL, ALLOW, "look and go around",
	    "getdents getcwd chdir fchdir umask" },
	{ OURS, ALLOW, "open beneath a directory", "openat2" },
	{ WRITERS, ALLOW, "change files by descriptor",
	    "mkdirat unlinkat renameat renameat2 linkat ftruncate fgetxattr "
	    "flistxattr" },
	{ BASH | BROKER | WORKER, ALLOW, "sync a file", "fsync fdatasync" },
	{ BASH, ALLOW, "sync a part of a file", "sync_file_range" },
	{ BROKER | WORKER, ALLOW, "change what a file is by descriptor",
	    "fchown getxattr listxattr fsetxattr fremovexattr" },
	{ SKILL, ALLOW, "change files",
	    "mkdir rmdir unlink rename link symlink symlinkat truncate "
	    "fallocate fadvise64 readahead flock" },
	/* Landlock knows nothing of these, and of the modes below. */
	{ SKILL, INSIDE(ENOTSUP), "attributes of files by name",
	    "getxattr lgetxattr listxattr llistxattr" },
	{ SKILL, INSIDE(ENOSYS), "what others do with files",
	    "inotify_init inotify_init1 inotify_add_watch inotify_rm_watch" },
	{ SKILL, CHANGE, "change what a file is",
	    "chown lchown fchown fchownat utime utimes utimensat futimesat "
	    "removexattr lremovexattr fremovexattr" },
	/* What a skill can write is in memory; the host's disks are not its. */
	{ SKILL, NOTHING, "sync the host", "sync syncfs" },
	{ MAIN, NOTHING, "sync a file", "fsync fdatasync sync_file_range" },
	{ ALL, ALLOW, "memory", "brk munmap mremap madvise" },
	{ SKILL, ALLOW, "memory in more ways",
	    "mmap mprotect msync mincore mlock mlock2 munlock mlockall "
	    "munlockall membarrier pkey_alloc pkey_free pkey_mprotect "
	    "get_mempolicy" },
	{ ALL, ALLOW, "wait for descriptors", "poll ppoll" },
	{ SKILL | BROKER, ALLOW, "descriptors, timers and events",
	    "dup dup2 dup3 pipe2 eventfd2 timerfd_create timerfd_settime" },
	{ SKILL, ALLOW, "descriptors and events in more ways",
	    "pipe select pselect6 epoll_create epoll_create1 epoll_ctl "
	    "epoll_wait epoll_pwait epoll_pwait2 eventfd signalfd signalfd4 "
	    "timerfd_gettime" },
	{ ALL, ALLOW, "signal handling",
	    "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack "
	    "restart_syscall" },
	{ SKILL | BROKER, ALLOW, "signals", "kill tgkill pidfd_send_signal" },
	{ SKILL, ALLOW, "signals in more ways",
	    "rt_sigpending rt_sigsuspend rt_sigtimedwait rt_sigqueueinfo "
	    "rt_tgsigqueueinfo tkill pause pidfd_open" },
	{ ALL, ALLOW, "time",
	    "clock_gettime clock_getres gettimeofday time nanosleep "
	    "clock_nanosleep" },
	{ SKILL, ALLOW, "timers",
	    "alarm getitimer setitimer timer_create timer_settime "
	    "timer_gettime timer_getoverrun timer_delete times" },
	{ ALL, ALLOW, "this process and its threads",
	    "exit exit_group futex set_robust_list rseq sched_yield "
	    "sched_getaffinity getpid gettid getppid getuid geteuid getgid "
	    "getegid getrandom sysinfo uname" },
	{ SKILL | BROKER, ALLOW, "children", "wait4 waitid" },
	{ SKILL, ALLOW, "processes",
	    "fork vfork execve execveat set_tid_address get_robust_list "
	    "futex_waitv arch_prctl sched_getparam sched_getscheduler "
	    "sched_getattr sched_get_priority_max sched_get_priority_min "
	    "sched_rr_get_interval ioprio_get getpriority getrlimit setrlimit "
	    "getrusage getcpu cachestat" },
	/* Without a capability and with one id they change nothing. */
	{ SKILL, ALLOW, "identity",
	    "getpgid getpgrp setpgid getsid setsid getresuid getresgid "
	    "getgroups setuid setgid setreuid setregid setresuid setresgid "
	    "setfsuid setfsgid capget" },
	/* A ruleset is memory that no limit counts: a skill does without. */
	{ BROKER, ALLOW, "give up more rights",
	    "landlock_create_ruleset landlock_add_rule "
	    "landlock_restrict_self" },
	/* A Bash call's command goes there in one. */
	{ BROKER, ALLOW, "files in memory", "memfd_create" },
	/* The word to init that all is over, where it has no namespace. */
	{ BROKER, ALLOW, "end a channel", "shutdown" },
	{ ALL, ALLOW, "speak on a socket",
	    "sendto recvfrom sendmsg recvmsg" },
	{ SKILL | BROKER, ALLOW, "accept", "accept accept4 getsockopt" },
	{ SKILL, CONNECT, "connect", "connect" },
	/* An abstract name is one for the whole host. */
	{ SKILL, INSIDE(EPERM), "names of sockets", "bind listen" },
	{ SKILL, ALLOW, "sockets",
	    "getsockname getpeername sendmmsg recvmmsg shutdown" },

	/* What name look-ups, TLS and a few threads for them take. */
	{ NET, ALLOW, "the net worker's files and channel",
	    "read write readv writev pread64 lseek close stat fstat lstat "
	    "newfstatat statx access faccessat faccessat2 readlink readlinkat "
	    "getdents64" },
	{ NET, ALLOW, "the net worker's sockets",
	    "connect bind getsockname getpeername setsockopt getsockopt sendto "
	    "recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown poll ppoll "
	    "select pselect6 pipe2 eventfd2" },
	{ NET, ALLOW, "the net worker's memory and threads",
	    "brk munmap mremap madvise futex set_robust_list rseq sched_yield "
	    "sched_getaffinity exit exit_group rt_sigaction rt_sigprocmask "
	    "rt_sigreturn sigaltstack restart_syscall" },
	{ NET, ALLOW, "what the net worker asks",
	    "clock_gettime clock_getres gettimeofday time nanosleep "
	    "clock_nanosleep getpid gettid getppid getuid geteuid getgid "
	    "getegid getrandom sysinfo uname" },

	/* glibc makes threads in the older way, which can be looked into. */
	{ BROKER | NET, ENOSYS, "clone with arguments in memory", "clone3" },

	{ SKILL, EPERM, "System V IPC",
	    "shmget shmat shmctl shmdt semget semop semtimedop semctl msgget "
	    "msgsnd msgrcv msgctl" },
	{ SKILL, EPERM, "message queues",
	    "mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify "
	    "mq_getsetattr" },
	{ SKILL, EPERM, "priorities",
	    "sched_setscheduler sched_setparam sched_setattr ioprio_set" },
	{ SKILL, EPERM, "placement of memory",
	    "mbind set_mempolicy set_mempolicy_home_node migrate_pages "
	    "move_pages process_madvise process_mrelease" },
	/* A pipe would hold whole pages, huge ones too, that no limit counts. */
	{ SKILL, EPERM, "pages into pipes", "vmsplice" },
	{ SKILL, EPERM, "what programs try and do without",
	    "name_to_handle_at syslog adjtimex clock_adjtime setgroups "
	    "capset" },

	{ SKILL, NOTIFY, "namespaces", "setns" },
	{ SKILL, NOTIFY, "mounts and roots",
	    "mount umount2 pivot_root chroot move_mount fsopen fsconfig "
	    "fsmount fspick open_tree mount_setattr" },
	{ SKILL, NOTIFY, "other processes",
	    "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp" },
	{ SKILL, NOTIFY, "programs for the kernel",
	    "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter "
	    "io_uring_register" },
	{ SKILL, NOTIFY, "keyrings", "add_key request_key keyctl" },
	{ SKILL, NOTIFY, "the kernel itself",
	    "init_module finit_module delete_module kexec_load "
	    "kexec_file_load reboot swapon swapoff iopl ioperm" },
	{ SKILL, NOTIFY, "the host's settings",
	    "clock_settime settimeofday sethostname setdomainname quotactl "
	    "quotactl_fd acct vhangup" },
	{ SKILL, NOTIFY, "files without a path",
	    "open_by_handle_at fanotify_init fanotify_mark memfd_create "
	    "memfd_secret" },
};

/* A look at an argument; OTHERS are the values that no rule of it names. */
struct test {
	unsigned arg;
	uint32_t mask; /* 0: no test */
	uint32_t value;
	bool others;
};

#define IS(arg, mask, value) { (arg), (mask), (uint32_t)(value), false }
#define OTHERS(arg, mask) { (arg), (mask), 0, true }
#define NONE { 0, 0, 0, false }

#define WORD 0xffffffffU
#define SET_ID ((uint32_t)(S_ISUID | S_ISGID))
/* The kinds of namespaces that fit into the flags of clone. */
#define ISOLATE 0x7e020000U
#define CREATES ((uint32_t)(O_CREAT | (O_TMPFILE & ~O_DIRECTORY)))
#define WRITES (CREATES | (uint32_t)(O_ACCMODE | O_TRUNC))
#define NODE ((uint32_t)S_IFMT | SET_ID)
#define SOCK_KIND 0xfU /* the rest are flags */
#define ATTRIBUTE_LARGE 0xfffff000U /* a page, and more */
#define EXECUTABLE ((uint32_t)PROT_EXEC)
/* What newer C libraries ask instead of TCGETS and its like. */
#define TERMIOS2_GET 0x802c542aU
#define TERMIOS2_SET(n) (0x402c542bU + (n))

struct rule {
	unsigned roles;
	const char *call;
	int answer;
	struct test first, second;
};

#define TERMINAL(request) { SKILL, "ioctl", ALLOW, IS(1, WORD, request), NONE }
#define NO_COMMAND(command)                                                    \
	{ SKILL, "fcntl", EPERM, IS(1, WORD, command), NONE }
#define NO_OPTION(option)                                                      \
	{ SKILL, "setsockopt", EPERM, IS(1, WORD, SOL_SOCKET),                 \
	    IS(2, WORD, option) }
#define SMALL_ATTRIBUTE(call)                                                  \
	{ SKILL, call, CHANGE, IS(3, ATTRIBUTE_LARGE, 0), NONE },              \
	{ SKILL, call, E2BIG, OTHERS(3, ATTRIBUTE_LARGE), NONE }
#define OPTION(option) { SKILL, "prctl", ALLOW, IS(0, WORD, option), NONE }

/*
 * Calls whose arguments matter. All rules of a call and role look at the same
 * argument first, under the same mask; what they leave gets the default.
 */
static const struct rule rules[] = {
	{ SKILL | BROKER, "clone", ALLOW, IS(0, ISOLATE | CLONE_PTRACE, 0),
	    NONE },
	{ SKILL, "clone", NOTIFY, OTHERS(0, ISOLATE | CLONE_PTRACE), NONE },

	/* Without a namespace it parts what threads share. */
	{ SKILL, "unshare", EPERM, IS(0, ISOLATE | CLONE_NEWTIME, 0), NONE },
	{ SKILL, "unshare", NOTIFY, OTHERS(0, ISOLATE | CLONE_NEWTIME), NONE },

	{ MAIN, "socket", ALLOW, IS(0, WORD, AF_UNIX),
	    IS(1, SOCK_KIND, SOCK_STREAM) },
	/* What syslog(3) begins with. */
	{ MAIN, "socket", EPERM, IS(0, WORD, AF_UNIX),
	    IS(1, SOCK_KIND, SOCK_DGRAM) },
	{ MAIN, "socket", NOTIFY, IS(0, WORD, AF_UNIX),
	    OTHERS(1, SOCK_KIND) },
	/* Every look-up of a user begins with one. */
	{ BASH, "socket", EPERM, IS(0, WORD, AF_UNIX), NONE },
	{ SKILL, "socket", EPERM, IS(0, WORD, AF_NETLINK), NONE },
	/* How curl finds out whether there is IPv6. */
	{ SKILL, "socket", EPERM, IS(0, WORD, AF_INET6),
	    IS(1, WORD, SOCK_DGRAM) },
	{ SKILL, "socket", NOTIFY, IS(0, WORD, AF_INET6), OTHERS(1, WORD) },
	{ SKILL, "socket", NOTIFY, OTHERS(0, WORD), NONE },

	/* Memory that no limit counts: the size of a queue stays as it is, which is
	 * what the kernel does beyond its own limit, and nothing is attached. */
	{ SKILL, "setsockopt", NOTHING, IS(1, WORD, SOL_SOCKET),
	    IS(2, WORD, SO_SNDBUF) },
	NO_OPTION(SO_SNDBUFFORCE),
	NO_OPTION(SO_ATTACH_FILTER),
	NO_OPTION(SO_ATTACH_BPF),
	NO_OPTION(SO_ATTACH_REUSEPORT_CBPF),
	NO_OPTION(SO_ATTACH_REUSEPORT_EBPF),
	{ SKILL, "setsockopt", ALLOW, IS(1, WORD, SOL_SOCKET),
	    OTHERS(2, WORD) },
	{ SKILL, "setsockopt", ALLOW, OTHERS(1, WORD), NONE },

	/* One end of a datagram pair could send to any path. */
	{ SKILL | BROKER, "socketpair", ALLOW, IS(0, WORD, AF_UNIX),
	    IS(1, SOCK_KIND, SOCK_STREAM) },
	{ SKILL | BROKER, "socketpair", ALLOW, IS(0, WORD, AF_UNIX),
	    IS(1, SOCK_KIND, SOCK_SEQPACKET) },
	{ SKILL, "socketpair", EPERM, IS(0, WORD, AF_UNIX),
	    OTHERS(1, SOCK_KIND) },
	{ SKILL, "socketpair", NOTIFY, OTHERS(0, WORD), NONE },

	/* Kernels look at the mode only where something is made. */
	{ WRITERS, "open", ALLOW, IS(1, CREATES, 0), NONE },
	{ WRITERS, "open", ALLOW, OTHERS(1, CREATES), IS(2, SET_ID, 0) },
	{ WALKER, "open", ALLOW, IS(1, WRITES, 0), NONE },
	{ SKILL, "open", NOTIFY, OTHERS(1, CREATES), OTHERS(2, SET_ID) },
	{ WRITERS, "openat", ALLOW, IS(2, CREATES, 0), NONE },
	{ WRITERS, "openat", ALLOW, OTHERS(2, CREATES), IS(3, SET_ID, 0) },
	{ WALKER, "openat", ALLOW, IS(2, WRITES, 0), NONE },
	{ SKILL, "openat", NOTIFY, OTHERS(2, CREATES), OTHERS(3, SET_ID) },
	{ SKILL, "creat", ALLOW, IS(1, SET_ID, 0), NONE },
	{ SKILL, "creat", NOTIFY, OTHERS(1, SET_ID), NONE },
	{ SKILL, "chmod", CHANGE, IS(1, SET_ID, 0), NONE },
	{ SKILL, "chmod", NOTIFY, OTHERS(1, SET_ID), NONE },
	{ BROKER | WORKER, "fchmod", ALLOW, IS(1, SET_ID, 0), NONE },
	{ SKILL, "fchmod", CHANGE, IS(1, SET_ID, 0), NONE },
	{ SKILL, "fchmod", NOTIFY, OTHERS(1, SET_ID), NONE },
	{ SKILL, "fchmodat", CHANGE, IS(2, SET_ID, 0), NONE },
	{ SKILL, "fchmodat", NOTIFY, OTHERS(2, SET_ID), NONE },
	{ SKILL, "fchmodat2", CHANGE, IS(2, SET_ID, 0), NONE },
	{ SKILL, "fchmodat2", NOTIFY, OTHERS(2, SET_ID), NONE },
	{ SKILL, "mknod", ALLOW, IS(1, NODE, S_IFIFO), NONE },
	{ SKILL, "mknod", ALLOW, IS(1, NODE, S_IFREG), NONE },
	{ SKILL, "mknod", ALLOW, IS(1, NODE, 0), NONE },
	{ SKILL, "mknod", NOTIFY, OTHERS(1, NODE), NONE },
	{ SKILL, "mknodat", ALLOW, IS(2, NODE, S_IFIFO), NONE },
	{ SKILL, "mknodat", ALLOW, IS(2, NODE, S_IFREG), NONE },
	{ SKILL, "mknodat", ALLOW, IS(2, NODE, 0), NONE },
	{ SKILL, "mknodat", NOTIFY, OTHERS(2, NODE), NONE },

	/* In /tmp they are memory that its size does not count. */
	SMALL_ATTRIBUTE("setxattr"),
	SMALL_ATTRIBUTE("lsetxattr"),
	SMALL_ATTRIBUTE("fsetxattr"),

	TERMINAL(TCGETS), TERMINAL(TCSETS), TERMINAL(TCSETSW),
	TERMINAL(TCSETSF), TERMINAL(TERMIOS2_GET), TERMINAL(TERMIOS2_SET(0)),
	TERMINAL(TERMIOS2_SET(1)), TERMINAL(TERMIOS2_SET(2)),
	TERMINAL(TIOCGWINSZ), TERMINAL(TIOCSWINSZ), TERMINAL(TIOCGPGRP),
	TERMINAL(TIOCSPGRP), TERMINAL(TIOCGSID), TERMINAL(TCSBRK),
	TERMINAL(TCSBRKP), TERMINAL(TCFLSH), TERMINAL(FIONREAD),
	TERMINAL(FIONBIO), TERMINAL(FIOCLEX), TERMINAL(FIONCLEX),
	/* Typing for somebody else, and pasting what he has selected. */
	{ SKILL, "ioctl", NOTIFY, IS(1, WORD, TIOCSTI), NONE },
	{ SKILL, "ioctl", NOTIFY, IS(1, WORD, TIOCLINUX), NONE },
	{ SKILL, "ioctl", ENOTTY, OTHERS(1, WORD), NONE },

	OPTION(PR_SET_NAME), OPTION(PR_GET_NAME), OPTION(PR_SET_PDEATHSIG),
	OPTION(PR_GET_PDEATHSIG), OPTION(PR_SET_NO_NEW_PRIVS),
	OPTION(PR_GET_NO_NEW_PRIVS), OPTION(PR_SET_TIMERSLACK),
	OPTION(PR_GET_TIMERSLACK), OPTION(PR_SET_CHILD_SUBREAPER),
	OPTION(PR_GET_CHILD_SUBREAPER), OPTION(PR_CAPBSET_READ),
	OPTION(PR_GET_DUMPABLE), OPTION(PR_SET_VMA),
	OPTION(PR_SET_THP_DISABLE), OPTION(PR_GET_THP_DISABLE),
	OPTION(PR_GET_TID_ADDRESS),
	/* Whoever hides his memory hides what his refused calls aimed at. */
	{ SKILL, "prctl", NOTHING, IS(0, WORD, PR_SET_DUMPABLE), NONE },
	{ SKILL, "prctl", EINVAL, OTHERS(0, WORD), NONE },
	{ BROKER, "prctl", ALLOW, IS(0, WORD, PR_SET_PDEATHSIG), NONE },
	{ BROKER, "prctl", ALLOW, IS(0, WORD, PR_SET_NAME), NONE },
	{ BROKER, "prctl", ALLOW, IS(0, WORD, PR_SET_NO_NEW_PRIVS), NONE },
	{ BROKER, "prctl", ALLOW, IS(0, WORD, PR_SET_DUMPABLE),
	    IS(1, WORD, 0) },

	NO_COMMAND(F_SETLEASE),
	NO_COMMAND(F_NOTIFY),
	/* The pipe may be the caller's. */
	NO_COMMAND(F_SETPIPE_SZ),
	/* A terminal sends its signals to whom it is in front, wherever. */
	NO_COMMAND(F_SETSIG),
	NO_COMMAND(F_SETOWN),
	NO_COMMAND(F_SETOWN_EX),
	{ SKILL, "fcntl", ALLOW, IS(1, WORD, F_SETFL), IS(2, O_ASYNC, 0) },
	{ SKILL, "fcntl", EPERM, IS(1, WORD, F_SETFL), OTHERS(2, O_ASYNC) },
	/* It stays with the file, which may be read-only. */
	NO_COMMAND(F_SET_RW_HINT),
	NO_COMMAND(F_SET_FILE_RW_HINT),
	{ SKILL, "fcntl", ALLOW, OTHERS(1, WORD), NONE },
	{ OURS, "fcntl", ALLOW, IS(1, WORD, F_DUPFD), NONE },
	{ OURS, "fcntl", ALLOW, IS(1, WORD, F_DUPFD_CLOEXEC), NONE },
	{ OURS, "fcntl", ALLOW, IS(1, WORD, F_GETFD), NONE },
	{ OURS, "fcntl", ALLOW, IS(1, WORD, F_SETFD), NONE },
	{ OURS, "fcntl", ALLOW, IS(1, WORD, F_GETFL), NONE },
	{ OURS, "fcntl", ALLOW, IS(1, WORD, F_SETFL), NONE },

	/* The limits and the priority of init, or of a skill beside us. */
	{ SKILL, "prlimit64", ALLOW, IS(0, WORD, 0), NONE },
	{ SKILL, "prlimit64", NOTIFY, OTHERS(0, WORD), NONE },
	{ SKILL, "sched_setaffinity", ALLOW, IS(0, WORD, 0), NONE },
	{ SKILL, "sched_setaffinity", EPERM, OTHERS(0, WORD), NONE },
	{ SKILL, "setpriority", ALLOW, IS(0, WORD, PRIO_PROCESS),
	    IS(1, WORD, 0) },
	{ SKILL, "setpriority", EPERM, IS(0, WORD, PRIO_PROCESS),
	    OTHERS(1, WORD) },
	{ SKILL, "setpriority", EPERM, OTHERS(0, WORD), NONE },
	{ SKILL, "personality", ALLOW, IS(0, WORD, 0), NONE },
	{ SKILL, "personality", ALLOW, IS(0, WORD, WORD), NONE },
	{ SKILL, "personality", EPERM, OTHERS(0, WORD), NONE },

	/* Our own processes have no use for new code. */
	{ OURS, "mmap", ALLOW, IS(2, EXECUTABLE, 0), NONE },
	{ OURS, "mprotect", ALLOW, IS(2, EXECUTABLE, 0), NONE },
	/* The net worker makes threads and no processes, reads files only. */
	{ NET, "clone", ALLOW,
	    IS(0, ISOLATE | CLONE_PTRACE | CLONE_THREAD, CLONE_THREAD), NONE },
	{ NET, "open", ALLOW, IS(1, CREATES | O_ACCMODE | O_TRUNC, O_RDONLY),
	    NONE },
	{ NET, "openat", ALLOW, IS(2, CREATES | O_ACCMODE | O_TRUNC, O_RDONLY),
	    NONE },
	{ NET, "socket", ALLOW, IS(0, WORD, AF_INET), NONE },
	{ NET, "socket", ALLOW, IS(0, WORD, AF_INET6), NONE },
	{ NET, "socket", ALLOW, IS(0, WORD, AF_NETLINK),
	    IS(2, WORD, NETLINK_ROUTE) },
	/* How libcurl hears of a look-up's end. */
	{ NET, "socketpair", ALLOW, IS(0, WORD, AF_UNIX),
	    IS(1, SOCK_KIND, SOCK_STREAM) },
	{ NET, "fcntl", ALLOW, IS(1, WORD, F_DUPFD_CLOEXEC), NONE },
	{ NET, "fcntl", ALLOW, IS(1, WORD, F_GET_SEALS), NONE },
	{ NET, "fcntl", ALLOW, IS(1, WORD, F_GETFD), NONE },
	{ NET, "fcntl", ALLOW, IS(1, WORD, F_SETFD), NONE },
	{ NET, "fcntl", ALLOW, IS(1, WORD, F_GETFL), NONE },
	{ NET, "fcntl", ALLOW, IS(1, WORD, F_SETFL), NONE },
	{ NET, "ioctl", ALLOW, IS(1, WORD, FIONREAD), NONE },
	{ NET, "ioctl", ALLOW, IS(1, WORD, FIONBIO), NONE },
	{ NET, "prctl", ALLOW, IS(0, WORD, PR_SET_NAME), NONE },
	{ NET, "mmap", ALLOW, IS(2, EXECUTABLE, 0), NONE },
	{ NET, "mprotect", ALLOW, IS(2, EXECUTABLE, 0), NONE },

	/* The worker's own filter. */
	{ BROKER, "seccomp", ALLOW, IS(0, WORD, SECCOMP_SET_MODE_FILTER),
	    NONE },
};

#define GROUPS (sizeof(groups) / sizeof(groups[0]))
#define RULES (sizeof(rules) / sizeof(rules[0]))

/* Names that a libseccomp may be too old for; they get the default then. */
static const char newcomers[] = "cachestat fchmodat2 set_mempolicy_home_node "
				"futex_waitv memfd_secret quotactl_fd "
				"process_mrelease epoll_pwait2 mount_setattr";

#define NAME_SIZE 32
#define VALUES_MAX 64 /* that the rules of one call name */
#define TESTS_MAX 64 /* for all that they do not name */

struct build {
	uint32_t arch;
	enum seccomp_role role;
	bool notify;
	bool bare;
	uint32_t otherwise; /* what everything gets that is not named */
	scmp_filter_ctx ctx;
	int fd; /* for its bytes */
};

/* --- making a filter --- */

/* The next word of a list; false at its end, or at one that is no name. */
static bool
next_word(const char **at, char word[NAME_SIZE])
{
	size_t n;

	*at += strspn(*at, " ");
	n = strcspn(*at, " ");
	if (n == 0 || n >= NAME_SIZE)
		return false;
	memcpy(word, *at, n);
	word[n] = '\0';
	*at += n;
	return true;
}

static uint32_t
action_of(const struct build *b, int answer)
{
	if (answer <= INSIDE_BASE)
		answer = b->bare ? INSIDE_BASE - answer : ALLOW;
	if (answer == CONNECT)
		answer = b->bare && b->notify ? NOTIFY : ALLOW;
	if (answer == CHANGE)
		answer = b->bare ? NOTIFY : ALLOW;
	if (answer == ALLOW)
		return SCMP_ACT_ALLOW;
	if (answer == NOTIFY)
		return b->notify ? SCMP_ACT_NOTIFY : SCMP_ACT_ERRNO(EPERM);
	return SCMP_ACT_ERRNO((uint32_t)answer);
}

/* Add a rule; a call that this architecture lacks needs none. 0, -1 errno. */
static int
add(struct build *b, const char *call, int answer, const struct test *tests,
    unsigned n)
{
	struct scmp_arg_cmp cmp[2];
	uint32_t action = action_of(b, answer);
	unsigned i;
	int error;

	/* What everything gets needs no rule; but with tests it would be missing
	 * in front of a rule for the others (even_and_odd). */
	if (action == b->otherwise && n > 0) {
		errno = EINVAL;
		return -1;
	}
	if (action == b->otherwise)
		return 0;
	/* Rules are given in our own numbers, whatever they are for. */
	if (seccomp_syscall_resolve_name_arch(b->arch, call) < 0)
		return 0;
	for (i = 0; i < n; i++) {
		cmp[i].arg = tests[i].arg;
		cmp[i].op = SCMP_CMP_MASKED_EQ;
		cmp[i].datum_a = tests[i].mask;
		cmp[i].datum_b = tests[i].value;
	}
	error = seccomp_rule_add_array(b->ctx, action,
	    seccomp_syscall_resolve_name(call), n, n == 0 ? NULL : cmp);
	if (error != 0) {
		errno = -error;
		return -1;
	}
	return 0;
}

static int
begin(struct build *b)
{
	const uint32_t native = seccomp_arch_native();
	/* Whoever listens ends the process, too (notify.c), with a record. */
	const uint32_t foreign = b->notify &&
		(b->role == SECCOMP_SKILL || b->role == SECCOMP_BASH)
	    ? SCMP_ACT_NOTIFY
	    : SCMP_ACT_KILL_PROCESS;
	int error;

	b->ctx = seccomp_init(b->otherwise);
	if (b->ctx == NULL) {
		errno = ENOMEM;
		return -1;
	}
	error = seccomp_attr_set(b->ctx, SCMP_FLTATR_ACT_BADARCH, foreign);
	if (error == 0)
		error = seccomp_attr_set(b->ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (error == 0 && b->arch != native) {
		error = seccomp_arch_add(b->ctx, b->arch);
		if (error == 0)
			error = seccomp_arch_remove(b->ctx, native);
	}
	if (error != 0) {
		errno = -error;
		return -1;
	}
	return 0;
}

/* Its bytes go through a file without a name: a pipe may be too small. */
static int
end(struct build *b, struct seccomp_program *out)
{
	struct sock_filter *code;
	struct stat st;
	int error;

	error = seccomp_export_bpf(b->ctx, b->fd);
	if (error != 0) {
		errno = -error;
		return -1;
	}
	if (fstat(b->fd, &st) == -1)
		return -1;
	if (st.st_size <= 0 || st.st_size % (off_t)sizeof(*code) != 0 ||
	    st.st_size / (off_t)sizeof(*code) > BPF_MAXINSNS) {
		errno = EIO;
		return -1;
	}
	code = malloc((size_t)st.st_size);
	if (code == NULL)
		return -1;
	if (pread(b->fd, code, (size_t)st.st_size, 0) != st.st_size) {
		free(code);
		errno = EIO;
		return -1;
	}
	out->code = code;
	out->len = (unsigned short)(st.st_size / (off_t)sizeof(*code));
	return 0;
}

static int
add_groups(struct build *b)
{
	char word[NAME_SIZE];
	const char *at;
	size_t i;

	for (i = 0; i < GROUPS; i++) {
		if ((groups[i].roles & 1U << b->role) == 0)
			continue;
		at = groups[i].calls;
		while (next_word(&at, word)) {
			if (add(b, word, groups[i].answer, NULL, 0) == -1)
				return -1;
		}
	}
	return 0;
}

/*
 * There is no "otherwise" for one call, so it is made of tests. Under a mask
 * of few bits it is written out: for each value that is named and each bit,
 * all values that agree with it above this bit and not in it, unless one of
 * them is named or they had their turn. No value fits two of these.
 */
static size_t
write_out(const struct test *others, const uint32_t *named, size_t n,
    struct test out[TESTS_MAX])
{
	uint32_t bit, upto, flipped;
	size_t i, j, count = 0;

	for (i = 0; i < n; i++) {
		for (bit = 1U << 31; bit != 0; bit >>= 1) {
			if ((others->mask & bit) == 0)
				continue;
			upto = others->mask & ~(bit - 1);
			flipped = (named[i] ^ bit) & upto;
			for (j = 0; j < n; j++) {
				if ((named[j] & upto) == flipped ||
				    (j < i &&
					((named[j] ^ named[i]) & upto) == 0))
					break;
			}
			if (j < n)
				continue;
			if (count == TESTS_MAX)
				return 0;
			out[count++] =
			    (struct test){ others->arg, upto, flipped, false };
		}
	}
	return count;
}

/*
 * Whole words would take 32 tests a value, and milliseconds. Here the even and
 * the odd values come after the named ones: libseccomp asks for larger values
 * first and keeps the order of equal ones, and the unit test holds it to that.
 */
static size_t
even_and_odd(const struct test *others, struct test out[TESTS_MAX])
{
	out[0] = (struct test){ others->arg, 1, 1, false };
	out[1] = (struct test){ others->arg, 1, 0, false };
	return 2;
}

static bool
same_test(const struct test *a, const struct test *b)
{
	return a->arg == b->arg && a->mask == b->mask &&
	    a->value == b->value && a->others == b->others;
}

/*
 * The tests that a rule's first (or second) one stands for: itself, or what
 * the rules of the same call, role and place do not name. 0: cannot be done.
 */
static size_t
tests_of(const struct rule *r, enum seccomp_role role, bool second,
    struct test out[TESTS_MAX])
{
	const struct test *want = second ? &r->second : &r->first;
	const struct test *seen;
	uint32_t named[VALUES_MAX];
	size_t i, n = 0;

	if (!want->others) {
		out[0] = *want;
		return 1;
	}
	for (i = 0; i < RULES; i++) {
		if ((rules[i].roles & 1U << role) == 0 ||
		    strcmp(rules[i].call, r->call) != 0 ||
		    (second && !same_test(&rules[i].first, &r->first)))
			continue;
		seen = second ? &rules[i].second : &rules[i].first;
		if (seen->others)
			continue;
		if (n == VALUES_MAX)
			return 0;
		named[n++] = seen->value;
	}
	return want->mask == WORD ? even_and_odd(want, out)
				  : write_out(want, named, n, out);
}

static int
add_rule(struct build *b, const struct rule *r)
{
	struct test first[TESTS_MAX], second[TESTS_MAX], pair[2];
	size_t n, m, i, j;

	n = tests_of(r, b->role, false, first);
	m = tests_of(r, b->role, true, second);
	if (n == 0 || m == 0) {
		errno = E2BIG;
		return -1;
	}
	for (i = 0; i < n; i++) {
		for (j = 0; j < m; j++) {
			pair[0] = first[i];
			pair[1] = second[j];
			if (add(b, r->call, r->answer, pair,
				r->second.mask == 0 ? 1 : 2) == -1)
				return -1;
		}
	}
	return 0;
}

static int
add_rules(struct build *b)
{
	size_t i;

	for (i = 0; i < RULES; i++) {
		if ((rules[i].roles & 1U << b->role) == 0)
			continue;
		if (add_rule(b, &rules[i]) == -1)
			return -1;
	}
	return 0;
}

static int
scratch_file(void)
{
	int fd;

	fd = memfd_create("filter", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	if (fd == -1 && errno == EINVAL)
		fd = memfd_create("filter", MFD_CLOEXEC);
	return fd;
}

int
seccomp_compile(uint32_t arch, enum seccomp_role role, bool notify,
    bool bare, struct seccomp_program *out)
{
	/* Nobody falls back for us; for a skill its libraries do. */
	const int otherwise = role == SECCOMP_SKILL || role == SECCOMP_BASH
	    ? ENOSYS
	    : EPERM;
	struct build b = { .arch = arch,
		.role = role,
		.notify = notify,
		.bare = bare,
		.otherwise = SCMP_ACT_ERRNO((uint32_t)otherwise) };
	int saved, result = -1;

	b.fd = scratch_file();
	if (b.fd == -1)
		return -1;
	if (begin(&b) == 0 && add_rules(&b) == 0 && add_groups(&b) == 0 &&
	    end(&b, out) == 0)
		result = 0;
	saved = errno;
	seccomp_release(b.ctx);
	close(b.fd);
	errno = saved;
	return result;
}

void
seccomp_program_clear(struct seccomp_program *p)
{
	free((void *)(uintptr_t)p->code);
	p->code = NULL;
	p->len = 0;
}

/* --- names --- */

const char *
seccomp_call_name(int nr, char out[32])
{
	char *name;

	name = nr < 0 ? NULL
		      : seccomp_syscall_resolve_num_arch(
			    seccomp_arch_native(), nr);
	strlcpy(out, name == NULL ? "unknown" : name, 32);
	free(name);
	return out;
}

static bool
is_told(unsigned roles, int answer)
{
	return (roles & SKILL) != 0 && (answer == NOTIFY || answer == CONNECT);
}

/* A group has a call once; of rules there may be several. */
size_t
seccomp_notified(char (*names)[32], size_t max)
{
	char name[NAME_SIZE];
	const char *at;
	size_t i, j, n = 0;

	for (i = 0; i < GROUPS; i++) {
		if (!is_told(groups[i].roles, groups[i].answer))
			continue;
		for (at = groups[i].calls; next_word(&at, name); n++) {
			if (n < max)
				strlcpy(names[n], name, sizeof(names[n]));
		}
	}
	for (i = 0; i < RULES; i++) {
		if (!is_told(rules[i].roles, rules[i].answer))
			continue;
		for (j = 0; j < i && (strcmp(rules[j].call, rules[i].call) != 0 ||
					 !is_told(rules[j].roles,
					     rules[j].answer));
		     j++)
			;
		if (j < i)
			continue;
		if (n < max)
			strlcpy(names[n], rules[i].call, sizeof(names[n]));
		n++;
	}
	return n;
}

/* --- are the tables in order? --- */

static bool
in_list(const char *list, const char *name)
{
	char word[NAME_SIZE];

	while (next_word(&list, word)) {
		if (strcmp(word, name) == 0)
			return true;
	}
	return false;
}

/* Does any supported machine have it? Names of neither are misspelt. */
static bool
known(const char *name)
{
	return in_list(newcomers, name) ||
	       seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, name) >= 0 ||
	       seccomp_syscall_resolve_name_arch(SCMP_ARCH_AARCH64, name) >= 0;
}

/* How many rows answer for this call and one of these roles? */
static unsigned
rows_for(const char *name, unsigned roles)
{
	unsigned count = 0;
	size_t i;

	for (i = 0; i < GROUPS; i++) {
		if ((groups[i].roles & roles) != 0 &&
		    in_list(groups[i].calls, name))
			count++;
	}
	for (i = 0; i < RULES; i++) {
		if ((rules[i].roles & roles) != 0 &&
		    strcmp(rules[i].call, name) == 0)
			return count + 1;
	}
	return count;
}

static bool
rule_fits(const struct rule *r)
{
	size_t i;

	for (i = 0; i < RULES; i++) {
		if ((rules[i].roles & r->roles) != 0 &&
		    strcmp(rules[i].call, r->call) == 0 &&
		    (rules[i].first.arg != r->first.arg ||
			rules[i].first.mask != r->first.mask))
			return false;
	}
	return r->first.mask != 0 && known(r->call);
}

static bool
group_fits(const struct group *g, char name[32])
{
	const char *at = g->calls;
	unsigned role;

	while (next_word(&at, name)) {
		if (!known(name))
			return false;
		for (role = MAIN; role <= NET; role <<= 1) {
			if ((g->roles & role) != 0 && rows_for(name, role) != 1)
				return false;
		}
	}
	return *at == '\0';
}

bool
seccomp_trouble(char name[32])
{
	size_t i;

	for (i = 0; i < GROUPS; i++) {
		if (!group_fits(&groups[i], name))
			return true;
	}
	for (i = 0; i < RULES; i++) {
		strlcpy(name, rules[i].call, 32);
		if (!rule_fits(&rules[i]))
			return true;
	}
	return false;
}
