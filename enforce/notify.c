/*
 * Init's ear at the system call filter. The decision is the filter's and has
 * been made; what is read here of the skill's memory only goes into a row, so
 * it does not matter that the skill can change it at any moment. One exception:
 * without a private mount namespace init connects the skill's descriptor to
 * the broker's socket itself, by its own copy of the path.
 */

#include "enforce/notify.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#else
#define NATIVE 0 /* there is no filter for it (filter.h) */
#endif
#define FOREIGN_NR 0x40000000 /* x32 marks its numbers so */
#define NOTIFY_FOREIGN FOREIGN_NR /* for all of them; it has no name */

#define BATCH 64
#define NAME_SERVICE "/var/run/nscd/socket"
#define TELL_EVERY 100 /* milliseconds between running totals */

enum aim {
	AIM_TEXT,    /* an address of one */
	AIM_DECIMAL, /* a number, and what it is one of */
	AIM_HEX,
	AIM_SOCKET, /* family and kind */
	AIM_ADDRESS
};

#define TEXT(call, arg) { SYS_##call, AIM_TEXT, arg, NULL }
#define DECIMAL(call, arg, word) { SYS_##call, AIM_DECIMAL, arg, word }
#define HEX(call, arg, word) { SYS_##call, AIM_HEX, arg, word }

/* What a call is aimed at, as far as one argument says it. */
static const struct {
	int nr;
	enum aim aim;
	int arg;
	const char *word;
} aims[] = {
	TEXT(mount, 1), TEXT(umount2, 0), TEXT(pivot_root, 0),
	TEXT(chroot, 0), TEXT(move_mount, 3), TEXT(open_tree, 1),
	TEXT(mount_setattr, 1), TEXT(fsopen, 0), TEXT(fspick, 1),
	TEXT(fsconfig, 2), DECIMAL(fsmount, 0, "fd"), TEXT(openat, 1),
	DECIMAL(fchmod, 0, "fd"), TEXT(fchmodat, 1), TEXT(fchmodat2, 1),
	TEXT(mknodat, 1), DECIMAL(fchown, 0, "fd"), TEXT(fchownat, 1),
	TEXT(utimensat, 1), TEXT(setxattr, 0), TEXT(lsetxattr, 0),
	DECIMAL(fsetxattr, 0, "fd"), TEXT(removexattr, 0),
	TEXT(lremovexattr, 0), DECIMAL(fremovexattr, 0, "fd"),
	TEXT(swapon, 0), TEXT(swapoff, 0), TEXT(acct, 0), TEXT(quotactl, 1),
	DECIMAL(quotactl_fd, 0, "fd"), TEXT(memfd_create, 0),
	HEX(memfd_secret, 0, "flags"), HEX(fanotify_init, 0, "flags"),
	TEXT(fanotify_mark, 4), DECIMAL(open_by_handle_at, 0, "fd"),
	TEXT(sethostname, 0), TEXT(setdomainname, 0),
	DECIMAL(clock_settime, 0, "clock"), TEXT(add_key, 0),
	TEXT(request_key, 0), DECIMAL(keyctl, 0, "command"),
	TEXT(init_module, 2), DECIMAL(finit_module, 0, "fd"),
	TEXT(delete_module, 0), HEX(kexec_load, 3, "flags"),
	DECIMAL(kexec_file_load, 0, "fd"), HEX(reboot, 2, "command"),
	DECIMAL(bpf, 0, "command"), DECIMAL(perf_event_open, 1, "pid"),
	HEX(userfaultfd, 0, "flags"), DECIMAL(io_uring_setup, 0, "entries"),
	DECIMAL(io_uring_enter, 0, "fd"), DECIMAL(io_uring_register, 0, "fd"),
	DECIMAL(ptrace, 1, "pid"), DECIMAL(process_vm_readv, 0, "pid"),
	DECIMAL(process_vm_writev, 0, "pid"), DECIMAL(kcmp, 0, "pid"),
	DECIMAL(prlimit64, 0, "pid"), DECIMAL(pidfd_getfd, 0, "fd"),
	DECIMAL(setns, 0, "fd"), HEX(clone, 0, "flags"),
	HEX(unshare, 0, "flags"), HEX(ioctl, 1, "request"),
	{ SYS_socket, AIM_SOCKET, 0, NULL },
	{ SYS_socketpair, AIM_SOCKET, 0, NULL },
	{ SYS_connect, AIM_ADDRESS, 1, NULL },
#ifdef SYS_open
	TEXT(open, 0), TEXT(creat, 0), TEXT(chmod, 0), TEXT(mknod, 0),
	TEXT(chown, 0), TEXT(lchown, 0), TEXT(utime, 0), TEXT(utimes, 0),
	TEXT(futimesat, 1), DECIMAL(iopl, 0, "level"),
	DECIMAL(ioperm, 0, "port"),
#endif
};

void
notify_init(struct notify *n, const char *socket_path, _Atomic uint64_t *all)
{
	memset(n, 0, sizeof(*n));
	n->fd = -1;
	n->socket_path = socket_path;
	n->all = all;
}

static int64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static ssize_t
read_memory(pid_t pid, uint64_t at, void *out, size_t n)
{
	struct iovec local = { out, n };
	struct iovec remote = { (void *)(uintptr_t)at, n };

	return process_vm_readv(pid, &local, 1, &remote, 1, 0);
}

static void
make_printable(char *text)
{
	for (; *text != '\0'; text++) {
		if (*text < 0x20 || *text > 0x7e)
			*text = '?';
	}
}

/* A text of the skill's; stops at the end of a page. */
static void
read_text(pid_t pid, uint64_t at, char out[SPAWN_TARGET])
{
	size_t page = 4096 - (size_t)(at % 4096);
	ssize_t n;

	n = read_memory(pid, at, out,
	    page < SPAWN_TARGET - 1 ? page : SPAWN_TARGET - 1);
	if (n < 0)
		n = 0;
	out[n] = '\0';
	make_printable(out);
}

static void
describe_address(pid_t pid, uint64_t at, uint64_t len, char out[SPAWN_TARGET])
{
	union {
		struct sockaddr any;
		struct sockaddr_in in4;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	} a;
	char host[INET6_ADDRSTRLEN] = "";

	memset(&a, 0, sizeof(a));
	if (read_memory(pid, at, &a, len < sizeof(a) - 1 ? len : sizeof(a) - 1) <
	    (ssize_t)sizeof(a.any.sa_family))
		return;
	if (a.any.sa_family == AF_INET &&
	    inet_ntop(AF_INET, &a.in4.sin_addr, host, sizeof(host)) != NULL)
		snprintf(out, SPAWN_TARGET, "%s port %u", host,
		    ntohs(a.in4.sin_port));
	else if (a.any.sa_family == AF_INET6 &&
	    inet_ntop(AF_INET6, &a.in6.sin6_addr, host, sizeof(host)) != NULL)
		snprintf(out, SPAWN_TARGET, "%s port %u", host,
		    ntohs(a.in6.sin6_port));
	else if (a.any.sa_family == AF_UNIX)
		snprintf(out, SPAWN_TARGET, "unix %.80s",
		    a.un.sun_path[0] == '\0' ? "(abstract)" : a.un.sun_path);
	else
		snprintf(out, SPAWN_TARGET, "family %u", a.any.sa_family);
	make_printable(out);
}

static void
describe_socket(const struct seccomp_data *d, char out[SPAWN_TARGET])
{
	static const char *const types[] = { "0", "stream", "datagram", "raw",
		"rdm", "seqpacket" };
	unsigned family = (unsigned)d->args[0], type = d->args[1] & 0xf;
	char word[16];

	if (family == AF_INET)
		strlcpy(word, "inet", sizeof(word));
	else if (family == AF_INET6)
		strlcpy(word, "inet6", sizeof(word));
	else if (family == AF_UNIX)
		strlcpy(word, "unix", sizeof(word));
	else if (family == AF_PACKET)
		strlcpy(word, "packet", sizeof(word));
	else
		snprintf(word, sizeof(word), "family %u", family);
	snprintf(out, SPAWN_TARGET, "%s %s", word,
	    type < sizeof(types) / sizeof(types[0]) ? types[type] : "?");
}

/* Numbers of another machine, or of x32, say nothing in ours. */
static bool
is_foreign(const struct seccomp_data *d)
{
	return d->arch != NATIVE || (d->nr & FOREIGN_NR) != 0;
}

static void
describe_foreign(const struct seccomp_data *d, char out[SPAWN_TARGET])
{
	if (d->arch != NATIVE)
		snprintf(out, SPAWN_TARGET, "call %u of architecture %#x",
		    (unsigned)d->nr, d->arch);
	else
		snprintf(out, SPAWN_TARGET, d->nr < 0 ? "call %u" : "x32 call %u",
		    d->nr < 0 ? (unsigned)d->nr
			      : (unsigned)d->nr & ~(unsigned)FOREIGN_NR);
}

static void
describe(const struct seccomp_notif *req, char out[SPAWN_TARGET])
{
	const struct seccomp_data *d = &req->data;
	const size_t n = sizeof(aims) / sizeof(aims[0]);
	uint64_t value;
	size_t i;

	out[0] = '\0';
	for (i = 0; i < n && aims[i].nr != d->nr; i++)
		;
	if (i == n)
		return;
	value = d->args[aims[i].arg];
	switch (aims[i].aim) {
	case AIM_TEXT:
		read_text((pid_t)req->pid, value, out);
		break;
	case AIM_DECIMAL:
		snprintf(out, SPAWN_TARGET, "%s %d", aims[i].word, (int)value);
		break;
	case AIM_HEX:
		snprintf(out, SPAWN_TARGET, "%s %#x", aims[i].word,
		    (unsigned)value);
		break;
	case AIM_SOCKET:
		describe_socket(d, out);
		break;
	case AIM_ADDRESS:
		describe_address((pid_t)req->pid, value, d->args[2], out);
		break;
	}
}

static void
remember(struct notify *n, int nr, const char *target)
{
	size_t i;

	atomic_fetch_add(n->all, 1);
	for (i = 0; i < n->n; i++) {
		if (n->seen[i].nr == nr &&
		    strcmp(n->seen[i].target, target) == 0) {
			n->rest++;
			return;
		}
	}
	if (n->n == NOTIFY_DISTINCT) {
		n->rest++;
		return;
	}
	n->seen[n->n].nr = nr;
	strlcpy(n->seen[n->n].target, target, SPAWN_TARGET);
	n->n++;
}

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL /* since Linux 6.9 */
#endif

/* Who asks is a thread, which older kernels open by its process only. */
static int
open_task(pid_t tid)
{
	char path[64], text[1024], *at;
	ssize_t n = -1;
	int fd;

	fd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
	if (fd != -1 || errno != EINVAL)
		return fd;
	snprintf(path, sizeof(path), "/proc/%ld/status", (long)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd != -1) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, "\nTgid:");
	if (at == NULL) {
		errno = ESRCH;
		return -1;
	}
	return (int)syscall(SYS_pidfd_open, strtol(at + 6, NULL, 10), 0);
}

static void
interrupt(int sig)
{
	(void)sig;
}

#define WAIT_US 2000 /* for a place in the queue of the broker's socket */

/*
 * Init has other things to do than to wait for a place in a full queue, and the
 * skill's end is among them. The socket is shared with the skill, which can set
 * back whatever would keep it from waiting; a timer of ours it cannot. It fires
 * again and again, lest it comes before the wait.
 */
static int
connect_at_once(int fd, const struct sockaddr_un *to)
{
	const struct itimerval often = { { 0, WAIT_US }, { 0, WAIT_US } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action;
	int result, saved;

	memset(&action, 0, sizeof(action));
	action.sa_handler = interrupt; /* and no SA_RESTART */
	if (sigaction(SIGALRM, &action, NULL) == -1 ||
	    setitimer(ITIMER_REAL, &often, NULL) == -1)
		return -1;
	result = connect(fd, (const struct sockaddr *)to, sizeof(*to));
	saved = errno == EINTR ? EAGAIN : errno;
	setitimer(ITIMER_REAL, &never, NULL);
	errno = saved;
	return result;
}

/*
 * Ours may be the last descriptor of it in a moment, and what goes with it then
 * goes at our expense: a socket that was never used has nothing. 0, or the errno
 * of what it is instead.
 */
static int
why_not_fresh(int fd)
{
	struct sockaddr_un peer;
	socklen_t len = sizeof(int);
	int value;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &len) == -1)
		return errno;
	if (value != AF_UNIX)
		return EAFNOSUPPORT;
	len = sizeof(value);
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len) == -1)
		return errno;
	if (value != SOCK_STREAM)
		return EPROTOTYPE;
	len = sizeof(value);
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &len) == -1)
		return errno;
	if (value != 0)
		return EINVAL;
	len = sizeof(peer);
	if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0)
		return EISCONN;
	return errno == ENOTCONN ? 0 : errno;
}

/*
 * connect() where a path of the host could be meant: only the broker's socket,
 * by our own copy of its path and on the skill's own descriptor. -1 it is not
 * for the broker; 0 or an errno is the answer.
 */
static int
connect_for(const struct notify *n, const struct seccomp_notif *req)
{
	struct {
		struct sockaddr_un un;
		char end; /* a path may fill all of its room */
	} theirs;
	struct sockaddr_un ours = { .sun_family = AF_UNIX };
	int pidfd, fd, error = 0;

	memset(&theirs, 0, sizeof(theirs));
	if (req->data.args[2] > sizeof(theirs.un) ||
	    read_memory((pid_t)req->pid, req->data.args[1], &theirs.un,
		req->data.args[2]) < 3 ||
	    theirs.un.sun_family != AF_UNIX)
		return -1;
	/* What the C library tries by itself, and does without. */
	if (strcmp(theirs.un.sun_path, NAME_SERVICE) == 0)
		return ENOENT;
	if (strcmp(theirs.un.sun_path, n->socket_path) != 0)
		return -1;
	strlcpy(ours.sun_path, n->socket_path, sizeof(ours.sun_path));
	pidfd = open_task((pid_t)req->pid);
	if (pidfd == -1)
		return errno;
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, (int)req->data.args[0], 0);
	if (fd == -1 ||
	    ioctl(n->fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &req->id) == -1)
		error = errno;
	else
		error = why_not_fresh(fd);
	if (error == 0 && connect_at_once(fd, &ours) == -1)
		error = errno;
	if (fd != -1)
		close(fd);
	close(pidfd);
	return error;
}

/*
 * A program for another machine is at its end. One that does not want to hear of
 * it gets its errno, again and again.
 */
static void
end_foreign(const struct notify *n, const struct seccomp_notif *req)
{
	int fd = open_task((pid_t)req->pid);

	if (fd == -1)
		return;
	if (ioctl(n->fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &req->id) == 0)
		syscall(SYS_pidfd_send_signal, fd, SIGSYS, NULL, 0);
	close(fd);
}

static bool
serve_one(struct notify *n)
{
	struct seccomp_notif req;
	struct seccomp_notif_resp resp;
	char target[SPAWN_TARGET];
	int answer = -1;

	memset(&req, 0, sizeof(req));
	if (ioctl(n->fd, SECCOMP_IOCTL_NOTIF_RECV, &req) == -1)
		return errno == EINTR || errno == ENOENT || errno == EAGAIN;
	if (is_foreign(&req.data)) {
		describe_foreign(&req.data, target);
		remember(n, NOTIFY_FOREIGN, target);
		end_foreign(n, &req);
		answer = EPERM;
	} else if (req.data.nr == SYS_connect && n->socket_path != NULL) {
		answer = connect_for(n, &req);
	}
	if (answer == -1) {
		describe(&req, target);
		/* What was read may belong to another task by now. */
		if (ioctl(n->fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &req.id) == -1)
			target[0] = '\0';
		remember(n, req.data.nr, target);
		answer = EPERM;
	}
	memset(&resp, 0, sizeof(resp));
	resp.id = req.id;
	resp.error = -answer;
	ioctl(n->fd, SECCOMP_IOCTL_NOTIF_SEND, &resp);
	return true;
}

bool
notify_serve(struct notify *n)
{
	struct pollfd p = { n->fd, POLLIN, 0 };
	int64_t begun;
	int i;

	for (i = 0; i < BATCH; i++) {
		p.revents = 0;
		if (poll(&p, 1, 0) <= 0)
			return true;
		if ((p.revents & POLLIN) == 0)
			return false;
		begun = now_ms();
		if (!serve_one(n))
			return false;
		/* It has waited for a place: others wait for init. */
		if (now_ms() > begun)
			break;
	}
	return true;
}

bool
notify_take(struct notify *n, bool last, struct spawn_attempt *out)
{
	memset(out, 0, sizeof(*out));
	if (n->told < n->n) {
		out->nr = n->seen[n->told].nr;
		out->count = 1;
		strlcpy(out->target, n->seen[n->told].target, SPAWN_TARGET);
		n->told++;
		return true;
	}
	if (n->rest == n->rest_told ||
	    (!last && now_ms() - n->rest_at < TELL_EVERY))
		return false;
	out->nr = -1;
	out->count = n->rest;
	n->rest_told = n->rest;
	n->rest_at = now_ms();
	return true;
}

int
notify_due(const struct notify *n)
{
	int64_t left;

	if (n->rest == n->rest_told)
		return -1;
	left = n->rest_at + TELL_EVERY - now_ms();
	return left < 0 ? 0 : (int)left;
}
