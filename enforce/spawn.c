/*
 * From broker to skill: clone, init, the steps, the exec. Init is a fork of
 * the broker that keeps its control socket and nothing else; it reaps, passes
 * on SIGTERM, judges peers, and its end is the end of everything below it. No
 * sandbox is half built: either all that is required holds, or the start ends
 * here, or (best effort) it begins again without any namespace.
 */

#include "enforce/spawn.h"

#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What comes up the report pipe; small enough for the write to be atomic. */
struct report {
	int step;  /* index in the table, or one of these */
	int error; /* 0: the step holds */
};
#define REPORT_READY (-1) /* the skill's process waits */
#define REPORT_EXEC (-2)
#define REPORT_FORK (-3)

/* Where the skill's process has its two pipes; step_descriptors spares them. */
#define SKILL_REPORT_FD 3
#define SKILL_GO_FD 4

/* What goes over the control socket, both ways. */
struct control {
	char what;
	struct spawn_message message;
};
#define CONTROL_MAPS_WANTED 'm'
#define CONTROL_MAPS_WRITTEN 'M'
#define CONTROL_TERMINATE 'T'
#define CONTROL_JUDGE 'J'
#define CONTROL_PEER 'j'
#define CONTROL_STATUS 's'

void
spawn_init(struct spawned *s)
{
	memset(s, 0, sizeof(*s));
	s->init_pid = -1;
	s->init_pidfd = s->control_fd = s->report_fd = s->go_fd = -1;
}

static void
close_fd(int *fd)
{
	if (*fd != -1)
		close(*fd);
	*fd = -1;
}

void
spawn_clear(struct spawned *s)
{
	close_fd(&s->init_pidfd);
	close_fd(&s->control_fd);
	close_fd(&s->report_fd);
	close_fd(&s->go_fd);
}

int
spawn_close_others(int *keep, size_t n)
{
	unsigned from = 0;
	size_t i, j;
	int fd;

	for (i = 1; i < n; i++) {
		fd = keep[i];
		for (j = i; j > 0 && keep[j - 1] > fd; j--)
			keep[j] = keep[j - 1];
		keep[j] = fd;
	}
	for (i = 0; i < n; i++) {
		if (keep[i] < 0 || (unsigned)keep[i] < from)
			continue;
		if ((unsigned)keep[i] > from &&
		    syscall(SYS_close_range, from, keep[i] - 1, 0) == -1)
			return -1;
		from = (unsigned)keep[i] + 1;
	}
	return (int)syscall(SYS_close_range, from, ~0U, 0);
}

/* --- in init and in the skill's process: async-signal-safe only --- */

static void
report(int fd, int step, int error)
{
	struct report r = { step, error };
	ssize_t n;

	do
		n = write(fd, &r, sizeof(r));
	while (n == -1 && errno == EINTR);
}

/* With namespaces the steps lean on each other: a root that is half there
 * would put the next mount into somebody's working directory. */
static bool
can_do_without(const struct confine_plan *p, const struct confine_step *step)
{
	return step->need == CONFINE_IF_ABLE ||
	    (step->need == CONFINE_REQUIRED && p->best_effort &&
		!p->namespaces);
}

/* Apply the steps of one place; false when the start must end here. */
static bool
apply_steps(const struct confine_plan *p, enum confine_place place, int fd)
{
	const struct confine_step *step;
	size_t i, n;
	int error;

	step = confine_steps(&n);
	for (i = 0; i < n; i++, step++) {
		if (step->place != place)
			continue;
		error = step->apply(p) == 0 ? 0 : errno;
		report(fd, (int)i, error);
		if (error != 0 && !can_do_without(p, step))
			return false;
	}
	return true;
}

static void
skill_process(const struct confine_plan *p)
{
	int up, go_fd;
	ssize_t n;
	char go;

	/* Away from the low numbers first: each may stand on the other's. */
	up = fcntl(p->report_fd, F_DUPFD_CLOEXEC, 10);
	go_fd = fcntl(p->go_fd, F_DUPFD_CLOEXEC, 10);
	if (dup3(up, SKILL_REPORT_FD, O_CLOEXEC) == -1 ||
	    dup3(go_fd, SKILL_GO_FD, O_CLOEXEC) == -1)
		_exit(125);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == -1 ||
	    !apply_steps(p, CONFINE_IN_SKILL, SKILL_REPORT_FD))
		_exit(125);
	report(SKILL_REPORT_FD, REPORT_READY, 0);
	do
		n = read(SKILL_GO_FD, &go, 1);
	while (n == -1 && errno == EINTR);
	if (n != 1)
		_exit(125);
	p->argv[0] = (char *)(uintptr_t)p->main_path[p->namespaces];
	execve(p->argv[0], p->argv, p->envp[p->namespaces]);
	report(SKILL_REPORT_FD, REPORT_EXEC, errno);
	_exit(126);
}

static void
send_control(int fd, const struct control *c)
{
	ssize_t n;

	do
		n = send(fd, c, sizeof(*c), MSG_NOSIGNAL);
	while (n == -1 && errno == EINTR);
}

/* Receive a message and, with it, at most one descriptor. */
static ssize_t
receive_control(int fd, struct control *c, int *passed, int flags)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	struct iovec io = { c, sizeof(*c) };
	struct msghdr m = { .msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = &ancillary,
		.msg_controllen = sizeof(ancillary) };
	struct cmsghdr *h;
	ssize_t n;

	*passed = -1;
	do
		n = recvmsg(fd, &m, flags | MSG_CMSG_CLOEXEC);
	while (n == -1 && errno == EINTR);
	if (n <= 0)
		return n;
	h = CMSG_FIRSTHDR(&m);
	if (h != NULL && h->cmsg_level == SOL_SOCKET &&
	    h->cmsg_type == SCM_RIGHTS &&
	    h->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(passed, CMSG_DATA(h), sizeof(int));
	return n;
}

/* The kernel keeps the peer's identity of connect time, translated for us. */
static void
judge(int control_fd, int conn_fd)
{
	struct control c = { .what = CONTROL_PEER };
	struct ucred cred;
	socklen_t len = sizeof(cred);

	c.message.uid = (uid_t)-1;
	if (conn_fd != -1 &&
	    getsockopt(conn_fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
		c.message.pid = cred.pid;
		c.message.uid = cred.uid;
	}
	if (conn_fd != -1)
		close(conn_fd);
	send_control(control_fd, &c);
}

/* Reap everything; true when it was the skill's own process. */
static bool
reap(pid_t skill, struct control *status)
{
	siginfo_t info;

	for (;;) {
		memset(&info, 0, sizeof(info));
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == -1 ||
		    info.si_pid == 0)
			return false;
		if (info.si_pid == skill) {
			status->what = CONTROL_STATUS;
			status->message.code = info.si_code;
			status->message.status = info.si_status;
			return true;
		}
	}
}

/* SIGKILL to each child of init; false when there is none. */
static bool
kill_children(void)
{
	char text[4096], *at;
	pid_t pid = 0;
	ssize_t n;
	bool any = false;
	int fd;

	fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
	if (fd == -1)
		return false;
	n = read(fd, text, sizeof(text));
	close(fd);
	for (at = text; at < text + n; at++) {
		if (*at >= '0' && *at <= '9') {
			pid = pid * 10 + (*at - '0');
			continue;
		}
		if (pid > 0 && kill(pid, SIGKILL) == 0)
			any = true;
		pid = 0;
	}
	return any;
}

/*
 * The end of init is the end of its PID namespace. Without one: all that has
 * the invocation's own uid, or, where it is the user's, one generation after
 * the other, since orphans become children of init. Children are not reaped
 * in between, so no number is anybody else's.
 */
static void
end_rest(const struct confine_plan *p, pid_t skill)
{
	if (p->namespaces)
		_exit(0);
	if (p->root) {
		kill(-1, SIGKILL);
		_exit(0);
	}
	kill(-skill, SIGKILL);
	while (kill_children())
		waitid(P_ALL, 0, NULL, WEXITED);
	_exit(0);
}

static void
pass_terminate(const struct confine_plan *p, pid_t skill)
{
	pid_t all = p->namespaces ? -1 : -skill;

	kill(all, SIGTERM);
	kill(all, SIGCONT);
}

static void
init_loop(const struct confine_plan *p, pid_t skill, int signal_fd)
{
	struct pollfd fds[2] = { { p->control_fd, POLLIN, 0 },
		{ signal_fd, POLLIN, 0 } };
	struct signalfd_siginfo drop;
	struct control c;
	ssize_t n;
	int passed;

	for (;;) {
		memset(&c, 0, sizeof(c));
		if (reap(skill, &c)) {
			send_control(p->control_fd, &c);
			end_rest(p, skill);
		}
		if (poll(fds, 2, -1) == -1 && errno != EINTR)
			end_rest(p, skill);
		if (fds[1].revents != 0 &&
		    read(signal_fd, &drop, sizeof(drop)) == -1 &&
		    errno != EAGAIN && errno != EINTR)
			end_rest(p, skill);
		if (fds[0].revents == 0)
			continue;
		n = receive_control(p->control_fd, &c, &passed, MSG_DONTWAIT);
		if (n == 0 || (n == -1 && errno != EAGAIN)) {
			end_rest(p, skill); /* the broker is gone */
		} else if (n == -1) {
			continue;
		} else if (c.what == CONTROL_TERMINATE) {
			pass_terminate(p, skill);
		} else if (c.what == CONTROL_JUDGE) {
			judge(p->control_fd, passed);
		}
	}
}

static void
init_process(struct confine_plan *p)
{
	struct control c = { .what = CONTROL_MAPS_WANTED };
	int keep[] = { p->control_fd, p->report_fd, p->go_fd, p->keep_fd,
		p->stdio[0], p->stdio[1], p->stdio[2] };
	sigset_t chld;
	pid_t skill;
	int signal_fd, passed, i;

	umask(022);
	/* The map files belong to root while we are not dumpable. */
	prctl(PR_SET_DUMPABLE, 1);
	send_control(p->control_fd, &c);
	if (receive_control(p->control_fd, &c, &passed, 0) <= 0 ||
	    c.what != CONTROL_MAPS_WRITTEN)
		_exit(125);
	if (!apply_steps(p, CONFINE_IN_INIT, p->report_fd))
		_exit(125);
	if (!p->namespaces)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* Blocked and read from a descriptor: init has no handler at all. */
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &chld, NULL) == -1 ||
	    spawn_close_others(keep, sizeof(keep) / sizeof(keep[0])) == -1 ||
	    (skill = fork()) == -1) {
		report(p->report_fd, REPORT_FORK, errno);
		_exit(125);
	}
	if (skill == 0)
		skill_process(p);
	close(p->report_fd);
	close(p->go_fd);
	for (i = 0; i < 3; i++)
		close(p->stdio[i]);
	signal_fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd == -1)
		end_rest(p, skill);
	init_loop(p, skill, signal_fd);
}

/* --- in the broker --- */

static int
write_map(pid_t pid, const char *file, const char *text)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/%s", (long)pid, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd == -1)
		return -1;
	n = write(fd, text, strlen(text));
	close(fd);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

static int
write_maps(pid_t pid, const struct confine_plan *p)
{
	char text[64];

	if (!p->root && write_map(pid, "setgroups", "deny") == -1)
		return -1;
	snprintf(text, sizeof(text), "%d %u 1", CONFINE_INSIDE_ID,
	    (unsigned)p->host_uid);
	if (write_map(pid, "uid_map", text) == -1)
		return -1;
	snprintf(text, sizeof(text), "%d %u 1", CONFINE_INSIDE_ID,
	    (unsigned)p->host_gid);
	return write_map(pid, "gid_map", text);
}

static pid_t
clone_init(uint64_t flags, int *pidfd)
{
	struct clone_args args;

	memset(&args, 0, sizeof(args));
	args.flags = flags | CLONE_PIDFD;
	args.pidfd = (uint64_t)(uintptr_t)pidfd;
	args.exit_signal = SIGCHLD;
	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* All namespaces at once, or none of them. */
static pid_t
clone_sandbox(const struct confine_plan *p, struct spawned *s)
{
	const struct confine_step *step;
	uint64_t flags = 0;
	size_t i, n;
	pid_t pid;

	step = confine_steps(&n);
	for (i = 0; i < n; i++) {
		if (step[i].place == CONFINE_AT_CLONE)
			flags |= step[i].flag;
		s->states[i] = step[i].place == CONFINE_NOT_BUILT
		    ? CONFINE_UNBUILT
		    : CONFINE_MISSING;
	}
	pid = clone_init(p->namespaces ? flags : 0, &s->init_pidfd);
	for (i = 0; pid > 0 && i < n; i++) {
		if (step[i].place == CONFINE_AT_CLONE && p->namespaces)
			s->states[i] = CONFINE_ACTIVE;
	}
	return pid;
}

/* Hosts take user namespaces away in several ways; some let the clone succeed
 * and refuse what comes after it. */
static const char *
advice(const struct confine_plan *p, int error)
{
	if (!p->namespaces ||
	    (error != EPERM && error != EACCES && error != ENOSPC &&
		error != EUSERS && error != ENOSYS && error != EROFS))
		return "";
	return "; look at the sysctls user.max_user_namespaces, "
	       "kernel.unprivileged_userns_clone and "
	       "kernel.apparmor_restrict_unprivileged_userns, or use "
	       "--sandbox best-effort";
}

/* Follow the reports until the skill waits or something required failed. */
static int
follow(const struct confine_plan *p, struct spawned *s, char *why,
    size_t whylen)
{
	const struct confine_step *step;
	struct report r;
	ssize_t got;
	size_t n;

	step = confine_steps(&n);
	for (;;) {
		do
			got = read(s->report_fd, &r, sizeof(r));
		while (got == -1 && errno == EINTR);
		if (got != (ssize_t)sizeof(r)) {
			snprintf(why, whylen, "the sandbox ended before the "
					      "skill could start");
			return -1;
		}
		if (r.step == REPORT_READY)
			return 0;
		if (r.step < 0 || (size_t)r.step >= n) {
			snprintf(why, whylen, "sandbox: fork: %s",
			    strerror(r.error));
			return -1;
		}
		if (r.error == 0) {
			s->states[r.step] = CONFINE_ACTIVE;
			continue;
		}
		if (can_do_without(p, &step[r.step]))
			continue;
		snprintf(why, whylen, "sandbox: %s: %s%s", step[r.step].name,
		    strerror(r.error), advice(p, r.error));
		return -1;
	}
}

static int
attempt(struct confine_plan *p, struct spawned *s, char *why, size_t whylen)
{
	struct control c = { .what = 0 };
	int control[2] = { -1, -1 }, rep[2] = { -1, -1 }, go[2] = { -1, -1 };
	int passed, result = -1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) ==
		-1 ||
	    pipe2(rep, O_CLOEXEC) == -1 || pipe2(go, O_CLOEXEC) == -1) {
		snprintf(why, whylen, "sandbox: %s", strerror(errno));
		goto out;
	}
	s->namespaces = p->namespaces;
	s->own_uid = p->root ? p->host_uid : 0;
	p->control_fd = control[1];
	p->report_fd = rep[1];
	p->go_fd = go[0];
	s->init_pid = clone_sandbox(p, s);
	if (s->init_pid == -1) {
		snprintf(why, whylen, "sandbox: %s: %s%s",
		    p->namespaces ? "user_namespace" : "clone", strerror(errno),
		    advice(p, errno));
		goto out;
	}
	if (s->init_pid == 0) {
		close(control[0]);
		close(rep[0]);
		close(go[1]);
		init_process(p);
		_exit(125);
	}
	s->control_fd = control[0];
	s->report_fd = rep[0];
	s->go_fd = go[1];
	control[0] = rep[0] = go[1] = -1;
	close_fd(&control[1]);
	close_fd(&rep[1]);
	close_fd(&go[0]);
	if (receive_control(s->control_fd, &c, &passed, 0) <= 0) {
		snprintf(why, whylen, "sandbox: init is gone");
		goto out;
	}
	if (p->namespaces && write_maps(s->init_pid, p) == -1) {
		snprintf(why, whylen, "sandbox: user_namespace: uid map: %s%s",
		    strerror(errno), advice(p, errno));
		goto out;
	}
	c.what = CONTROL_MAPS_WRITTEN;
	send_control(s->control_fd, &c);
	result = follow(p, s, why, whylen);
out:
	if (result == -1 && s->init_pid > 0) {
		spawn_kill(s);
		spawn_wait(s);
		spawn_clear(s);
	}
	close_fd(&control[0]);
	close_fd(&control[1]);
	close_fd(&rep[0]);
	close_fd(&rep[1]);
	close_fd(&go[0]);
	close_fd(&go[1]);
	return result;
}

int
spawn_start(struct confine_plan *p, struct spawned *s, char *why,
    size_t whylen)
{
	if (whylen > 0)
		why[0] = '\0';
	p->namespaces = true;
	if (attempt(p, s, why, whylen) == 0)
		return 0;
	if (!p->best_effort)
		return -1;
	p->namespaces = false;
	return attempt(p, s, why, whylen);
}

int
spawn_go(struct spawned *s)
{
	struct report r;
	ssize_t n;

	/* It fails only when nobody is there any more; their end is seen by
	 * their pidfd. */
	if (write(s->go_fd, "g", 1) != 1)
		return 0;
	do
		n = read(s->report_fd, &r, sizeof(r));
	while (n == -1 && errno == EINTR);
	close_fd(&s->go_fd);
	close_fd(&s->report_fd);
	return n == (ssize_t)sizeof(r) ? r.error : 0;
}

void
spawn_terminate(const struct spawned *s)
{
	struct control c = { .what = CONTROL_TERMINATE };

	send_control(s->control_fd, &c);
}

/* A process of that uid and without any capability reaches just what we mean. */
static void
kill_uid(uid_t uid)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (setgroups(0, NULL) == -1 ||
		    setresgid((gid_t)uid, (gid_t)uid, (gid_t)uid) == -1 ||
		    setresuid(uid, uid, uid) == -1)
			_exit(1);
		kill(-1, SIGKILL);
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) == -1 && errno == EINTR)
		;
}

void
spawn_kill(const struct spawned *s)
{
	if (s->init_pidfd == -1)
		return;
	if (!s->namespaces && s->own_uid != 0) {
		kill_uid(s->own_uid);
	} else if (!s->namespaces) {
		shutdown(s->control_fd, SHUT_WR);
		syscall(SYS_pidfd_send_signal, s->init_pidfd, SIGCONT, NULL, 0);
		return;
	}
	syscall(SYS_pidfd_send_signal, s->init_pidfd, SIGKILL, NULL, 0);
}

#define INIT_MS 1000 /* for init to end its descendants */

void
spawn_wait(const struct spawned *s)
{
	struct pollfd end = { s->init_pidfd, POLLIN, 0 };
	siginfo_t info;

	if (s->init_pidfd == -1)
		return;
	if (!s->namespaces && poll(&end, 1, INIT_MS) == 0)
		syscall(SYS_pidfd_send_signal, s->init_pidfd, SIGKILL, NULL, 0);

	while (waitid(P_PIDFD, (id_t)s->init_pidfd, &info, WEXITED) == -1 &&
	    errno == EINTR)
		;
}

int
spawn_judge(const struct spawned *s, int conn_fd)
{
	struct control c = { .what = CONTROL_JUDGE };
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ancillary = { .room = { 0 } };
	struct iovec io = { &c, sizeof(c) };
	struct msghdr m = { .msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = &ancillary,
		.msg_controllen = sizeof(ancillary) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &conn_fd, sizeof(int));
	return sendmsg(s->control_fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == -1
	    ? -1
	    : 0;
}

enum spawn_event
spawn_receive(const struct spawned *s, struct spawn_message *out)
{
	struct control c;
	ssize_t n;
	int passed;

	memset(&c, 0, sizeof(c));
	n = receive_control(s->control_fd, &c, &passed, MSG_DONTWAIT);
	if (passed != -1)
		close(passed);
	if (n == -1 && errno == EAGAIN)
		return SPAWN_NOTHING;
	if (n != (ssize_t)sizeof(c))
		return SPAWN_GONE;
	*out = c.message;
	if (c.what == CONTROL_STATUS)
		return SPAWN_STATUS;
	return c.what == CONTROL_PEER ? SPAWN_PEER : SPAWN_NOTHING;
}

unsigned
spawn_tasks(uid_t uid)
{
	char path[64];
	struct dirent *e;
	struct stat st;
	unsigned n = 0;
	DIR *d = opendir("/proc");

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/task", e->d_name);
		/* Two links more than it has threads. */
		if (stat(path, &st) == 0 && st.st_uid == uid &&
		    st.st_nlink > 2)
			n += (unsigned)st.st_nlink - 2;
	}
	if (d != NULL)
		closedir(d);
	return n;
}

#define UID_DIR "/run/cyberos"

int
spawn_lock_uid(uid_t first, uid_t last, uid_t *uid)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct stat st;
	uint32_t count = last - first + 1, at, i;
	int fd;

	if (mkdir(UID_DIR, 0755) == -1 && errno != EEXIST)
		return -1;
	fd = open(UID_DIR "/uids", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
	    0600);
	if (fd == -1)
		return -1;
	if (fstat(fd, &st) == -1 || st.st_uid != 0 || (st.st_mode & 077) != 0) {
		close(fd);
		errno = EPERM;
		return -1;
	}
	at = arc4random_uniform(count);
	for (i = 0; i < count; i++) {
		*uid = first + (at + i) % count;
		lock.l_start = (off_t)*uid;
		lock.l_len = 1;
		lock.l_pid = 0;
		/* An open-file lock: it lives as long as a copy of fd does. */
		if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
			return fd;
		if (errno != EAGAIN && errno != EACCES)
			break;
	}
	if (errno == EAGAIN || errno == EACCES)
		errno = EBUSY;
	close(fd);
	return -1;
}

/* A user namespace that maps owner to uid; a child lives just to make it. */
static int
mapping_namespace(uid_t owner, uid_t uid)
{
	char path[64], text[64];
	int pidfd = -1, fd = -1;
	siginfo_t info;
	pid_t pid, parent = getpid();

	pid = clone_init(CLONE_NEWUSER, &pidfd);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			pause();
		_exit(0);
	}
	if (pid == -1)
		return -1;
	snprintf(text, sizeof(text), "%u %u 1", (unsigned)owner, (unsigned)uid);
	if (write_map(pid, "uid_map", text) == 0 &&
	    write_map(pid, "gid_map", text) == 0) {
		snprintf(path, sizeof(path), "/proc/%ld/ns/user", (long)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED);
	close(pidfd);
	return fd;
}

int
spawn_tree(int fd, uid_t owner, uid_t uid)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };
	int tree, ns;

	tree = open_tree(fd, "",
	    AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (tree == -1 || owner == uid)
		return tree;
	ns = mapping_namespace(owner, uid);
	if (ns == -1)
		return tree;
	attr.userns_fd = (unsigned)ns;
	/* Where it cannot be id-mapped, the plain modes decide. */
	mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr));
	close(ns);
	return tree;
}
