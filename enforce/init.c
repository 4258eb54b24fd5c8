/*
 * Init: a fork of the broker that keeps its channel and nothing else. It
 * applies the steps, starts the skill, reaps, passes on SIGTERM, judges peers,
 * hears of refused system calls, ends everything at T even if the broker hangs;
 * its end is the end of everything below it. The broker has one thread when it
 * clones, so what runs here may use the C library, but allocates nothing.
 */

#include "enforce/init.h"

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "enforce/bundle.h"
#include "enforce/fdpass.h"
#include "enforce/narrow.h"
#include "enforce/probe.h"
#include "enforce/room.h"

/* Init waits this long after T for the broker, which does it with a row. */
#define LATE_NS 200000000
#define ATTEST_SECONDS 10

struct init {
	const struct confine_plan *plan;
	pid_t skill;
	int signal_fd;
	int timer_fd;
	int notify_socket; /* the listener comes here */
	struct notify notify;
};

ssize_t
init_send(int fd, const struct init_control *c, int pass, int flags)
{
	return fdpass_send(fd, c, sizeof(*c), &pass, pass != -1, flags);
}

ssize_t
init_receive(int fd, struct init_control *c, int *passed, int flags)
{
	return fdpass_receive(fd, c, sizeof(*c), passed, 1, flags);
}

/* READY and EXEC: the broker is waiting for it. */
static void
call_up(int fd, int step, int error)
{
	struct init_report r = { step, error, 0 };
	ssize_t n;

	do
		n = write(fd, &r, sizeof(r));
	while (n == -1 && errno == EINTR);
}

static void
report(const struct confine_plan *p, int step, int error)
{
	struct init_shared *all = p->shared;
	struct timespec now;
	unsigned n = atomic_load(&all->n);

	if (n >= sizeof(all->at) / sizeof(all->at[0]))
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	all->at[n].step = step;
	all->at[n].error = error;
	all->at[n].at = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	atomic_store(&all->n, n + 1);
}

static int
apply(struct confine_plan *p, const struct confine_step *step)
{
	if (step->inside && !p->namespaces)
		return ENOTSUP;
	return step->apply(p) == 0 ? 0 : errno;
}

/* Apply the steps of one place; false when the start must end here. */
static bool
apply_steps(struct confine_plan *p, enum confine_place place, bool told)
{
	const struct confine_step *step;
	size_t i, n;
	bool fatal;
	int error;

	step = confine_steps(&n);
	for (i = 0; i < n; i++, step++) {
		if (step->place != place)
			continue;
		error = apply(p, step);
		/*
		 * In namespaces a required step that fails leaves half a
		 * sandbox; the broker tries again without them, and judges
		 * then whether what is left is enough.
		 */
		fatal = error != 0 &&
		    (step->need == CONFINE_ALWAYS ||
			(step->need == CONFINE_REQUIRED && p->namespaces));
		if (told || fatal)
			report(p, (int)i, error);
		if (fatal)
			return false;
	}
	return true;
}

/*
 * The rest of a plan that was begun, by root, before it was known for whom.
 * Nothing but what it takes is held meanwhile. False when nobody wants it any more.
 */
static bool
take_plan(struct confine_plan *p)
{
	int keep[] = { p->control_fd, p->report_fd, p->go_fd, p->keep_fd };
	struct confine_detach *detach = p->detach;
	int fds[FDPASS_MAX], *next = fds;
	struct init_control c;
	size_t i;

	if (spawn_close_others(keep, sizeof(keep) / sizeof(keep[0])) == -1 ||
	    fdpass_receive(p->control_fd, &c, sizeof(c), fds, FDPASS_MAX,
		0) <= 0 ||
	    c.what != INIT_PLAN)
		return false;
	*p = p->shared->plan;
	p->detach = detach;
	/* Where the skill's process finds them out of its way. */
	for (i = 0; i < 3; i++)
		p->stdio[i] = fdpass_above(*next++, CONFINE_FDS_FREE);
	if (p->bundle != NULL)
		bundle_take_image((struct bundle *)(uintptr_t)p->bundle,
		    *next++);
	else
		p->skill.tree_fd = *next++;
	p->socket.tree_fd = *next;
	return true;
}

/* The last of the sandbox, before anything may rely on it. */
static bool
settle(const struct confine_plan *p)
{
	const struct confine_step *step;
	size_t i, n;
	int error = confine_detached(p->detach);

	step = confine_steps(&n);
	for (i = 0; error != 0 && i < n; i++) {
		if (strcmp(step[i].name, "pivot_root") == 0)
			report(p, (int)i, error);
	}
	return error == 0;
}

/* What the skill's process is begun with. */
struct birth {
	struct confine_plan *plan;
	int notify_socket;
};

/* On init's memory, while init waits: see start_skill. */
static int
skill_process(void *arg)
{
	const struct birth *birth = arg;
	struct confine_plan *p = birth->plan;
	int report_fd, go_fd, notify_fd;
	ssize_t n;
	char go;

	/* Away from the low numbers first: each may stand on another's. */
	report_fd = fcntl(p->report_fd, F_DUPFD_CLOEXEC, CONFINE_FDS_FREE);
	go_fd = fcntl(p->go_fd, F_DUPFD_CLOEXEC, CONFINE_FDS_FREE);
	notify_fd = fcntl(birth->notify_socket, F_DUPFD_CLOEXEC,
	    CONFINE_FDS_FREE);
	if (dup3(report_fd, CONFINE_REPORT_FD, O_CLOEXEC) == -1 ||
	    dup3(go_fd, CONFINE_GO_FD, O_CLOEXEC) == -1 ||
	    dup3(notify_fd, CONFINE_NOTIFY_FD, O_CLOEXEC) == -1 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL) == -1) {
		report(p, INIT_REPORT_FORK, errno);
		_exit(125);
	}
	if (!apply_steps(p, CONFINE_IN_SKILL, true) || !settle(p))
		_exit(125);
	call_up(CONFINE_REPORT_FD, INIT_REPORT_READY, 0);
	do
		n = read(CONFINE_GO_FD, &go, 1);
	while (n == -1 && errno == EINTR);
	if (n != 1)
		_exit(125);
	p->argv[0] = (char *)(uintptr_t)p->main_path[p->namespaces];
	execve(p->argv[0], p->argv, p->envp[p->namespaces]);
	call_up(CONFINE_REPORT_FD, INIT_REPORT_EXEC, errno);
	_exit(126);
}

#define SKILL_STACK 65536 /* for the steps; the program gets its own */

/*
 * A copy of init's memory for the few calls until the exec would cost more
 * than they do, so the skill's process borrows it, on a stack of its own, and
 * init stands still until then: what is sent to init meanwhile waits, SIGKILL
 * does not, and the end of the go pipe ends the skill's process and so the
 * wait.
 */
static pid_t
start_skill(struct confine_plan *p, int notify_socket)
{
	struct birth birth = { p, notify_socket };
	char *stack;
	pid_t pid;

	stack = mmap(NULL, SKILL_STACK, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return -1;
	pid = clone(skill_process, stack + SKILL_STACK,
	    CLONE_VM | CLONE_VFORK | SIGCHLD, &birth);
	munmap(stack, SKILL_STACK);
	return pid;
}

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#define PIDFD_INFO_IOCTL _IOWR(0xFF, 11, struct pidfd_info_v0)
#define ANCESTORS_MAX 4096

/* struct pidfd_info of the kernel, first published form (linux/pidfd.h). */
struct pidfd_info_v0 {
	uint64_t mask;
	uint64_t cgroupid;
	uint32_t pid, tgid, ppid;
	uint32_t ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	int32_t exit_code;
};

/* The parent's pid as the kernel tells it of a process that is held. */
static pid_t
parent_of(int pidfd, pid_t *self)
{
	struct pidfd_info_v0 info;

	*self = -1;

	memset(&info, 0, sizeof(info));
	info.mask = 1; /* PIDFD_INFO_PID */
	if (ioctl(pidfd, PIDFD_INFO_IOCTL, &info) == -1)
		return -1;
	*self = (pid_t)info.tgid;
	return (pid_t)info.ppid;
}

/* Is the peer a descendant of init, each step held by a pidfd? */
static bool
descends(int conn_fd)
{
	socklen_t len = sizeof(int);
	int pidfd = -1, up, steps;
	pid_t parent, self, again;
	bool found = false;

	if (getsockopt(conn_fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) == -1)
		return false;
	for (steps = 0; steps < ANCESTORS_MAX; steps++) {
		parent = parent_of(pidfd, &self);
		/* Init itself: it connects for the skill (notify.c). */
		if (self == getpid() || parent == getpid()) {
			found = true;
			break;
		}
		if (parent <= 1)
			break;
		up = (int)syscall(SYS_pidfd_open, parent, 0);
		if (up == -1)
			break;
		/* The child still has this parent: then up is that process. */
		if (parent_of(pidfd, &again) != parent) {
			close(up);
			break;
		}
		close(pidfd);
		pidfd = up;
	}
	close(pidfd);
	return found;
}

/*
 * The kernel keeps the peer's identity of connect time; in a PID namespace the
 * number is 0 for everybody outside. Without one the peer must descend from
 * us.
 */
static void
judge(const struct confine_plan *p, int conn_fd)
{
	struct init_control c = { .what = INIT_PEER };
	struct ucred cred;
	socklen_t len = sizeof(cred);

	c.message.uid = (uid_t)-1;
	if (conn_fd != -1 &&
	    getsockopt(conn_fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
		c.message.uid = cred.uid;
		if (p->namespaces || descends(conn_fd))
			c.message.pid = cred.pid;
	}
	if (conn_fd != -1)
		close(conn_fd);
	init_send(p->control_fd, &c, -1, 0);
}

/* Reap everything; true when it was the skill's own process. */
static bool
reap(struct init *in, struct init_control *status)
{
	siginfo_t info;

	for (;;) {
		memset(&info, 0, sizeof(info));
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == -1 ||
		    info.si_pid == 0)
			return false;
		if (info.si_pid == in->skill) {
			status->what = INIT_STATUS;
			status->message.code = info.si_code;
			status->message.status = info.si_status;
			return true;
		}
	}
}

/* Without a namespace, as an ordinary user: what descends from init. */
struct tree {
	struct {
		pid_t pid, parent;
	} *v;
	size_t n, size;
};

/* Is it still the child of that process? Numbers are given again. */
static bool
is_child_of(pid_t pid, pid_t parent)
{
	char path[64], text[512], *at;
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd != -1) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	/* "12 (a name with ) in it) S 11": the last one counts. */
	at = strrchr(text, ')');
	return at != NULL && strlen(at) > 4 && strtol(at + 4, NULL, 10) == parent;
}

static void
signal_one(pid_t pid, pid_t parent, int sig)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd == -1)
		return;
	if (is_child_of(pid, parent))
		syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);
	close(fd);
}

static void
add_to_tree(struct tree *t, pid_t pid, pid_t parent)
{
	void *v;

	if (t->n == t->size) {
		v = recallocarray(
		    t->v, t->size, t->size * 2 + 64, sizeof(*t->v));
		if (v == NULL)
			return; /* the next round finds it */
		t->v = v;
		t->size = t->size * 2 + 64;
	}
	t->v[t->n].pid = pid;
	t->v[t->n++].parent = parent;
}

/* The children of one thread of a process. */
static void
add_list(struct tree *t, int list_fd, pid_t parent)
{
	char text[4096];
	pid_t pid = 0;
	ssize_t n, i;

	while ((n = read(list_fd, text, sizeof(text))) > 0) {
		for (i = 0; i < n; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
				continue;
			}
			if (pid > 0)
				add_to_tree(t, pid, parent);
			pid = 0;
		}
	}
}

static void
add_children(struct tree *t, pid_t parent)
{
	char path[64];
	struct dirent *e;
	DIR *tasks;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/task", (long)parent);
	tasks = opendir(path);
	while (tasks != NULL && (e = readdir(tasks)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%ld/task/%.20s/children",
		    (long)parent, e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd == -1)
			continue;
		add_list(t, fd, parent);
		close(fd);
	}
	if (tasks != NULL)
		closedir(tasks);
}

/* A signal to all of them, the youngest first, since the others lose their
 * parent then; and one more, or 0. How many there were. */
static size_t
signal_tree(int sig, int more)
{
	struct tree t = { NULL, 0, 0 };
	size_t i, n;

	add_children(&t, getpid());
	for (i = 0; i < t.n; i++)
		add_children(&t, t.v[i].pid);
	for (i = t.n; i > 0; i--) {
		signal_one(t.v[i - 1].pid, t.v[i - 1].parent, sig);
		if (more != 0)
			signal_one(t.v[i - 1].pid, t.v[i - 1].parent, more);
	}
	n = t.n;
	free(t.v);
	return n;
}

#define ROUNDS 16 /* until all have stopped */

/*
 * One that is killed makes room for another one, which the rest may make before
 * they are killed: so all of them stop first.
 */
static void
kill_tree(void)
{
	siginfo_t info;
	size_t n, was;
	int i;

	for (;;) {
		n = 0;
		i = 0;
		do {
			was = n;
			n = signal_tree(SIGSTOP, 0);
		} while (n != was && ++i < ROUNDS);
		if (n == 0)
			return;
		signal_tree(SIGKILL, 0);
		waitid(P_ALL, 0, NULL, WEXITED);
		do
			memset(&info, 0, sizeof(info));
		while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 &&
		       info.si_pid != 0);
	}
}

/*
 * The end of init is the end of its PID namespace. Without one: all that has
 * the invocation's own uid, or, where it is the user's, all that descends from
 * us; orphans become our children.
 */
static void
end_rest(const struct init *in)
{
	if (in->plan->namespaces)
		_exit(0);
	if (in->plan->root) {
		kill(-1, SIGKILL);
		_exit(0);
	}
	kill_tree();
	_exit(0);
}

/*
 * To every process of the skill. Without a namespace: to all of the invocation's
 * own uid, or, where it is the user's, to what descends from init.
 */
static void
pass_terminate(const struct init *in)
{
	if (!in->plan->namespaces && !in->plan->root) {
		signal_tree(SIGTERM, SIGCONT);
		return;
	}
	kill(-1, SIGTERM);
	kill(-1, SIGCONT);
}

static void
tell_attempts(struct init *in, bool last)
{
	struct init_control c;

	memset(&c, 0, sizeof(c));
	c.what = INIT_ATTEMPT;
	while (notify_take(&in->notify, last, &c.message.attempt))
		init_send(in->plan->control_fd, &c, -1, 0);
}

static void
arm(const struct init *in, int64_t deadline)
{
	struct itimerspec when;
	int64_t at = deadline + LATE_NS;

	memset(&when, 0, sizeof(when));
	when.it_value.tv_sec = at / 1000000000;
	when.it_value.tv_nsec = at % 1000000000;
	timerfd_settime(in->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void
on_control(struct init *in)
{
	struct init_control c;
	int passed;
	ssize_t n;

	n = init_receive(in->plan->control_fd, &c, &passed, MSG_DONTWAIT);
	if (n == -1 && errno == EAGAIN)
		return;
	if (n != (ssize_t)sizeof(c))
		end_rest(in); /* the broker is gone */
	if (c.what == INIT_TERMINATE)
		pass_terminate(in);
	else if (c.what == INIT_DEADLINE)
		arm(in, c.message.deadline);
	else if (c.what == INIT_JUDGE)
		judge(in->plan, passed);
	else if (passed != -1)
		close(passed);
}

static void
on_listener(struct init *in)
{
	char drop;

	if (in->notify.fd == -1) {
		fdpass_receive(in->notify_socket, &drop, 1, &in->notify.fd, 1,
		    MSG_DONTWAIT);
		close(in->notify_socket);
		in->notify_socket = -1;
	} else if (!notify_serve(&in->notify)) {
		close(in->notify.fd);
		in->notify.fd = -1;
	}
}

static void
loop(struct init *in)
{
	enum { CONTROL, SIGNALS, TIMER, LISTENER, FDS };
	struct pollfd fds[FDS];
	struct signalfd_siginfo drop;
	struct init_control status;

	for (;;) {
		memset(&status, 0, sizeof(status));
		if (reap(in, &status)) {
			tell_attempts(in, true);
			init_send(in->plan->control_fd, &status, -1, 0);
			if (!in->plan->namespaces)
				end_rest(in);
			/*
			 * Stay as the witness of those who connected last,
			 * until the broker has no more questions.
			 */
			kill(-1, SIGKILL);
			in->skill = -1;
		}
		tell_attempts(in, false);
		fds[CONTROL] =
		    (struct pollfd){ in->plan->control_fd, POLLIN, 0 };
		fds[SIGNALS] = (struct pollfd){ in->signal_fd, POLLIN, 0 };
		fds[TIMER] = (struct pollfd){ in->timer_fd, POLLIN, 0 };
		fds[LISTENER] = (struct pollfd){ in->notify.fd != -1
			? in->notify.fd
			: in->notify_socket,
			POLLIN, 0 };
		if (poll(fds, FDS, notify_due(&in->notify)) == -1 &&
		    errno != EINTR)
			end_rest(in);
		if (fds[TIMER].revents != 0)
			end_rest(in);
		if (fds[SIGNALS].revents != 0 &&
		    read(in->signal_fd, &drop, sizeof(drop)) == -1 &&
		    errno != EAGAIN && errno != EINTR)
			end_rest(in);
		if (fds[CONTROL].revents != 0)
			on_control(in);
		if (fds[LISTENER].revents != 0)
			on_listener(in);
	}
}

/* Blocked signals and descriptors instead of handlers: init has none at all. */
static int
prepare(struct init *in, struct confine_plan *p, int notify[2])
{
	int keep[] = { p->control_fd, p->report_fd, p->go_fd, p->keep_fd,
		p->stdio[0], p->stdio[1], p->stdio[2],
		p->bash ? p->command_fd : -1 };
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &chld, NULL) == -1 ||
	    spawn_close_others(keep, sizeof(keep) / sizeof(keep[0])) == -1 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, notify) == -1)
		return -1;
	in->signal_fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	in->timer_fd = timerfd_create(CLOCK_BOOTTIME,
	    TFD_CLOEXEC | TFD_NONBLOCK);
	return in->signal_fd == -1 || in->timer_fd == -1 ? -1 : 0;
}

#define NOT_CONFINED 1 /* and has said why */

/* The attempts of probe.c, in a child that is confined as the skill will be. */
static void
attest(const struct confine_plan *p)
{
	struct confine_plan quiet = *p;
	const struct probe *probe;
	size_t i, n;

	quiet.listen = false;
	quiet.filter = p->silent;
	alarm(ATTEST_SECONDS);
	if (!apply_steps(&quiet, CONFINE_IN_SKILL, false))
		_exit(NOT_CONFINED);
	probe = probe_table(&n);
	for (i = 0; i < n; i++)
		report(p, INIT_REPORT_PROBE + (int)i, (int)probe[i].attempt(p));
	_exit(0);
}

/* False when the attempts could not be made: then no skill is started. */
static bool
run_attest(struct confine_plan *p)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		attest(p);
	while (pid != -1 && waitpid(pid, &status, 0) == -1) {
		if (errno != EINTR)
			return false;
	}
	if (pid != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	if (pid == -1 || !WIFEXITED(status) ||
	    WEXITSTATUS(status) != NOT_CONFINED)
		report(p, INIT_REPORT_FORK, pid == -1 ? errno : ECHILD);
	return false;
}

/* What the broker hands over: the maps are written, and as root it sends what
 * is shown of the host. */
static bool
take_maps(struct confine_plan *p)
{
	int *const to[] = { &p->skill.tree_fd, &p->self.tree_fd,
		&p->socket.tree_fd };
	int fds[sizeof(to) / sizeof(to[0])];
	struct init_control c;
	/* The skill's directory is not among it when its files are laid out; of
	 * a sandbox for whomever there is our own program alone. */
	size_t i, first = p->staged || p->bundle != NULL;
	size_t n = p->staged ? 2 : sizeof(to) / sizeof(to[0]);

	if (fdpass_receive(p->control_fd, &c, sizeof(c), fds, n - first,
		0) <= 0 ||
	    c.what != INIT_MAPS_WRITTEN)
		return false;
	for (i = first; i < n; i++)
		*to[i] = fds[i - first];
	return true;
}

void
init_process(struct confine_plan *p)
{
	struct init_control c = { .what = INIT_MAPS_WANTED };
	struct confine_detach detach = { .tid = 0 };
	struct init in;
	int i, notify[2] = { -1, -1 };

	memset(&in, 0, sizeof(in));
	in.plan = p;
	/* It stays: nobody returns from here. */
	/* cppcheck-suppress autoVariables */
	p->detach = &detach;
	umask(022);
	prctl(PR_SET_NAME, "cyberos-init");
	/* The map files belong to root while we are not dumpable. */
	prctl(PR_SET_DUMPABLE, 1);
	if (!p->root)
		init_send(p->control_fd, &c, -1, 0);
	if (!take_maps(p))
		_exit(125);
	narrow_environment();
	if (!apply_steps(p, CONFINE_IN_INIT, true) ||
	    (p->staged && !take_plan(p)) ||
	    !apply_steps(p, CONFINE_FOR_SKILL, true)) {
		settle(p); /* which of two was the trouble? */
		_exit(125);
	}
	if (!p->namespaces)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (prepare(&in, p, notify) == -1) {
		report(p, INIT_REPORT_FORK, errno);
		_exit(125);
	}
	if (p->attest && (!settle(p) || !run_attest(p)))
		_exit(125);
	in.skill = start_skill(p, notify[1]);
	if (in.skill == -1) {
		report(p, INIT_REPORT_FORK, errno);
		_exit(125);
	}
	confine_detached(&detach);
	confine_detach_clear(&detach);
	/* The program has begun, or never will. */
	room_unmap(p->room);
	close(notify[1]);
	close(p->report_fd);
	close(p->go_fd);
	for (i = 0; i < 3; i++)
		close(p->stdio[i]);
	if (p->bash)
		close(p->command_fd);
	notify_init(&in.notify, p->namespaces ? NULL : p->socket.path,
	    &p->shared->attempts);
	in.notify_socket = notify[0];
	loop(&in);
	_exit(0);
}
