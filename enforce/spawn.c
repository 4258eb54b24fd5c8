/*
 * From broker to skill: clone, maps, the judgement whether what was reached is
 * enough, the word to go. What runs on the other side is in init.c.
 */

#include "enforce/spawn.h"

#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "enforce/cgroup.h"
#include "enforce/filter.h"
#include "enforce/init.h"
#include "enforce/landlock.h"
#include "enforce/probe.h"

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
clone_init(uint64_t flags, const struct cgroup *cgroup, int *pidfd)
{
	struct clone_args args;
	pid_t pid;

	memset(&args, 0, sizeof(args));
	args.flags = flags | CLONE_PIDFD;
	args.pidfd = (uint64_t)(uintptr_t)pidfd;
	args.exit_signal = SIGCHLD;
	if (cgroup != NULL)
		args.cgroup = (uint64_t)(unsigned)cgroup->dir_fd;
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	/* Outer sandboxes that want to see the flags know only the old call. */
	if (pid == -1 && errno == ENOSYS && cgroup == NULL)
		pid = (pid_t)syscall(SYS_clone, flags | CLONE_PIDFD | SIGCHLD,
		    NULL, pidfd, NULL, NULL);
	return pid;
}

static bool
applies(const struct confine_plan *p, const struct confine_step *step)
{
	return step->flag == CLONE_INTO_CGROUP ? p->cgroup != NULL
					       : p->namespaces;
}

/* The flags of the clone: namespaces as the try wants, the cgroup if any. */
static uint64_t
clone_flags(const struct confine_plan *p)
{
	const struct confine_step *step;
	uint64_t flags = 0;
	size_t i, n;

	step = confine_steps(&n);
	for (i = 0; i < n; i++) {
		if (step[i].place == CONFINE_AT_CLONE && applies(p, &step[i]))
			flags |= step[i].flag;
	}
	return flags;
}

static void
first_states(const struct confine_plan *p, struct spawned *s)
{
	const struct confine_step *step;
	size_t i, n;

	memset(s->probes, PROBE_UNTRIED, sizeof(s->probes));
	step = confine_steps(&n);
	for (i = 0; i < n; i++)
		s->states[i] = step[i].place == CONFINE_AT_CLONE &&
			applies(p, &step[i])
		    ? CONFINE_ACTIVE
		    : CONFINE_MISSING;
}

/* Where a start failed, for the next try and for the message. */
struct trouble {
	const char *step;
	int error;
};

static void
take_report(struct spawned *s, struct trouble *t, const struct init_report *r,
    int64_t *before)
{
	const struct confine_step *step;
	size_t n;

	step = confine_steps(&n);
	if (r->step >= INIT_REPORT_PROBE &&
	    r->step < INIT_REPORT_PROBE + PROBES_MAX) {
		s->probes[r->step - INIT_REPORT_PROBE] = (uint8_t)r->error;
		return;
	}
	t->error = r->error;
	if (r->step < 0 || (size_t)r->step >= n) {
		t->step = "fork";
		return;
	}
	t->step = step[r->step].name;
	s->cost_ns[r->step] = r->at - *before;
	*before = r->at;
	if (r->error == 0)
		s->states[r->step] = CONFINE_ACTIVE;
}

/* Wait until the skill's process waits or its start has ended: -1, and the last
 * report says why. */
static int
follow(struct spawned *s, const struct init_reports *reports,
    struct trouble *t, int64_t begun)
{
	struct init_report r;
	unsigned i, n;
	ssize_t got;

	do
		got = read(s->report_fd, &r, sizeof(r));
	while (got == -1 && errno == EINTR);
	n = atomic_load(&reports->n);
	for (i = 0; i < n; i++)
		take_report(s, t, &reports->at[i], &begun);
	return got == (ssize_t)sizeof(r) && r.step == INIT_REPORT_READY ? 0
									: -1;
}

static void
stop(struct spawned *s)
{
	if (s->init_pid > 0) {
		spawn_kill(s);
		spawn_wait(s);
	}
	spawn_clear(s);
	s->init_pid = -1;
}

static int
hand_over_maps(const struct confine_plan *p, const struct spawned *s)
{
	struct init_control c;
	int passed;

	memset(&c, 0, sizeof(c));
	if (init_receive(s->control_fd, &c, &passed, 0) <= 0 ||
	    (p->namespaces && write_maps(s->init_pid, p) == -1))
		return -1;
	c.what = INIT_MAPS_WRITTEN;
	return init_send(s->control_fd, &c, -1, 0) == -1 ? -1 : 0;
}

static int64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* One try, in this configuration; 0 when the skill's process waits. */
static int
start_once(struct confine_plan *p, struct spawned *s, struct trouble *t)
{
	int control[2] = { -1, -1 }, rep[2] = { -1, -1 }, go[2] = { -1, -1 };
	int64_t begun;
	int result = -1;

	begun = now();
	t->step = p->namespaces ? "user_namespace" : "clone";
	first_states(p, s);
	s->namespaces = p->namespaces;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) ==
		-1 ||
	    pipe2(rep, O_CLOEXEC) == -1 || pipe2(go, O_CLOEXEC) == -1) {
		t->error = errno;
		goto out;
	}
	p->reports = mmap(NULL, sizeof(*p->reports), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p->reports == MAP_FAILED) {
		p->reports = NULL;
		t->error = errno;
		goto out;
	}
	p->control_fd = control[1];
	p->report_fd = rep[1];
	p->go_fd = go[0];
	s->init_pid = clone_init(clone_flags(p), p->cgroup, &s->init_pidfd);
	/* A cgroup that does not take it (a freezer, a limit) is left out. */
	if (s->init_pid == -1 && p->cgroup != NULL) {
		p->cgroup = NULL;
		first_states(p, s);
		s->init_pid = clone_init(clone_flags(p), NULL, &s->init_pidfd);
	}
	s->cgroup = p->cgroup;
	if (s->init_pid == -1) {
		t->error = errno;
		goto out;
	}
	if (s->init_pid == 0) {
		close(control[0]);
		close(rep[0]);
		close(go[1]);
		init_process(p);
	}
	s->control_fd = control[0];
	s->report_fd = rep[0];
	s->go_fd = go[1];
	control[0] = rep[0] = go[1] = -1;
	close_fd(&control[1]);
	close_fd(&rep[1]);
	close_fd(&go[0]);
	if (hand_over_maps(p, s) == -1) {
		t->error = errno;
		goto out;
	}
	s->clone_ns = now() - begun;
	result = follow(s, p->reports, t, begun + s->clone_ns);
out:
	if (p->reports != NULL)
		munmap(p->reports, sizeof(*p->reports));
	p->reports = NULL;
	close_fd(&control[0]);
	close_fd(&control[1]);
	close_fd(&rep[0]);
	close_fd(&rep[1]);
	close_fd(&go[0]);
	close_fd(&go[1]);
	if (result == -1)
		stop(s);
	return result;
}

/* Hosts take user namespaces away in several ways; some let the clone succeed
 * and refuse what comes after it. */
static const char *
advice(int error)
{
	if ((error != EPERM && error != EACCES && error != ENOSPC &&
		error != EUSERS && error != ENOSYS && error != EROFS))
		return "";
	return "; look at the sysctls user.max_user_namespaces, "
	       "kernel.unprivileged_userns_clone and "
	       "kernel.apparmor_restrict_unprivileged_userns, or use "
	       "--sandbox best-effort";
}

static void
explain(const struct trouble *t, const struct confine_step *missing,
    bool started, char *why, size_t whylen)
{
	if (missing == NULL)
		snprintf(why, whylen, "sandbox: %s: %s%s", t->step,
		    strerror(t->error), started ? "" : advice(t->error));
	else
		snprintf(why, whylen,
		    "sandbox: %s is required and not available (%s: %s)%s",
		    missing->name, t->step, strerror(t->error),
		    advice(t->error));
}

#define OWN_TASKS 2 /* the broker's worker and its thread, which come later */

/* How many tasks of this uid the host has: RLIMIT_NPROC counts them all where
 * there is no user namespace, also those that nobody has reaped. */
static unsigned
tasks_of(uid_t uid)
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
		if (stat(path, &st) == 0 && st.st_uid == uid)
			n += st.st_nlink > 3 ? (unsigned)st.st_nlink - 2 : 1;
	}
	if (d != NULL)
		closedir(d);
	return n;
}

static int
wait_for_end(void *parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == *(const pid_t *)parent)
		pause();
	_exit(0);
}

/*
 * A user namespace that maps owner to uid. A child lives just to make it, in
 * our own memory: a copy would cost more than all the rest.
 */
static int
mapping_namespace(uid_t owner, uid_t uid)
{
	_Alignas(16) char stack[16384];
	char path[64], text[64];
	int pidfd = -1, fd = -1;
	siginfo_t info;
	pid_t pid, parent = getpid();

	pid = clone(wait_for_end, stack + sizeof(stack),
	    CLONE_VM | CLONE_NEWUSER | CLONE_PIDFD | SIGCHLD, &parent, &pidfd);
	if (pid == -1)
		return -1;
	snprintf(text, sizeof(text), "%u %u 1", (unsigned)owner, (unsigned)uid);
	if (write_map(pid, "uid_map", text) == 0 &&
	    write_map(pid, "gid_map", text) == 0) {
		snprintf(path, sizeof(path), "/proc/%ld/ns/user", (long)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) == -1 &&
	    errno == EINTR)
		;
	close(pidfd);
	return fd;
}

/*
 * Root's way to show something to the sandbox's uid: a detached copy of the
 * mount behind fd, its owner id-mapped by a user namespace (-1: not).
 */
static int
take_tree(int fd, int map_fd)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };
	struct mount_attr private = { .propagation = MS_PRIVATE };
	int tree;

	tree = open_tree(fd, "",
	    AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	/* A copy of a shared mount would pass on to the host what is mounted in
	 * the sandbox, and the other way round. */
	if (tree != -1 &&
	    mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &private,
		sizeof(private)) == -1) {
		close(tree);
		return -1;
	}
	if (tree == -1 || map_fd == -1)
		return tree;
	attr.userns_fd = (unsigned)map_fd;
	/* Where not all of it can be id-mapped, or nothing, the plain modes
	 * decide. */
	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
		sizeof(attr)) == -1)
		mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr));
	return tree;
}

static int
take_bind(struct confine_bind *b, uid_t uid)
{
	/* What anybody may run needs no map; making one costs most. */
	int map_fd = b->for_all || b->owner == uid
	    ? -1
	    : mapping_namespace(b->owner, uid);

	b->tree_fd = take_tree(b->source_fd, map_fd);
	if (map_fd != -1)
		close(map_fd);
	return b->tree_fd == -1 ? -1 : 0;
}

/* What is shared is the caller's own: root's. */
static int
take_shares(struct confine_plan *p)
{
	struct share *s;
	size_t i;
	int map_fd = -1, result = 0;
	bool asked = false;

	for (i = 0; i < p->shares.n && result == 0; i++) {
		s = &p->shares.v[i];
		if (s->kind == SHARE_EMPTY)
			continue;
		if (!asked)
			map_fd = mapping_namespace(0, p->host_uid);
		asked = true;
		s->tree_fd = take_tree(s->source_fd, map_fd);
		if (s->tree_fd == -1)
			result = -1;
	}
	if (map_fd != -1)
		close(map_fd);
	return result;
}

void
spawn_bind_init(struct confine_bind *b)
{
	memset(b, 0, sizeof(*b));
	b->source_fd = b->tree_fd = -1;
}

int
spawn_bind(struct confine_bind *b, const char *path)
{
	struct stat st;

	b->source_fd = open(path, O_PATH | O_CLOEXEC);
	if (b->source_fd == -1 || fstat(b->source_fd, &st) == -1)
		return -1;
	b->path = path;
	b->dev = st.st_dev;
	b->ino = st.st_ino;
	b->owner = st.st_uid;
	b->for_all = S_ISREG(st.st_mode) && (st.st_mode & 05) == 05;
	return 0;
}

void
spawn_bind_clear(struct confine_bind *b)
{
	close_fd(&b->source_fd);
	close_fd(&b->tree_fd);
}

/* As root, a fresh detached mount of each for each try: one can be attached
 * once only. */
static int
take_trees(struct confine_plan *p)
{
	struct confine_bind *const binds[] = { &p->skill, &p->self,
		&p->socket };
	size_t i;

	for (i = 0; i < p->shares.n; i++)
		close_fd(&p->shares.v[i].tree_fd);
	for (i = 0; i < sizeof(binds) / sizeof(binds[0]); i++)
		close_fd(&binds[i]->tree_fd);
	if (!p->root || !p->namespaces)
		return 0;
	if (p->bash)
		return take_shares(p);
	for (i = 0; i < sizeof(binds) / sizeof(binds[0]); i++) {
		if (take_bind(binds[i], p->host_uid) == -1)
			return -1;
	}
	return 0;
}

/* Try one configuration. */
static int
start_with(struct confine_plan *p, struct spawned *s, struct trouble *t,
    bool namespaces, bool listen)
{
	p->namespaces = namespaces;
	p->listen = listen;
	p->filter = filter_of(p->bash ? SECCOMP_BASH : SECCOMP_SKILL, listen,
	    listen && !namespaces);
	p->silent = filter_of(SECCOMP_SKILL, false, false);
	if (!namespaces && !p->root)
		p->tasks = tasks_of(p->host_uid) + OWN_TASKS;
	if (take_trees(p) == 0)
		return start_once(p, s, t);
	t->step = "private_root";
	t->error = errno;
	return -1;
}

static bool
has_filter(const struct spawned *s)
{
	const struct confine_step *step;
	size_t i, n;

	step = confine_steps(&n);
	for (i = 0; i < n; i++) {
		if (strcmp(step[i].name, "seccomp") == 0)
			return s->states[i] == CONFINE_ACTIVE;
	}
	return false;
}

/*
 * All namespaces with a listener; without a listener where an outer sandbox
 * has taken it; without namespaces where the host has none for us. What a try
 * has reached is judged as a whole, and only then the skill may go.
 */
int
spawn_start(struct confine_plan *p, struct spawned *s, char *why,
    size_t whylen)
{
	static const struct {
		bool namespaces, listen;
	} tries[] = { { true, true }, { true, false }, { false, true },
		{ false, false } };
	const struct confine_step *missing = NULL;
	struct trouble t = { "fork", 0 }, first = { NULL, 0 };
	size_t i, n = sizeof(tries) / sizeof(tries[0]);

	if (whylen > 0)
		why[0] = '\0';
	p->landlock_abi = landlock_abi();
	for (i = 0; i < n; i++) {
		/* Nothing less than a root of its own holds a Bash call. */
		if (p->bash && !tries[i].namespaces)
			continue;
		/* The listener is left out only if it was the trouble. */
		if (!tries[i].listen && strcmp(t.step, "seccomp") != 0)
			continue;
		if (start_with(p, s, &t, tries[i].namespaces,
			tries[i].listen) == 0) {
			missing = confine_missing(s->states, p->best_effort);
			/* A filter without a listener is better than none. */
			if (missing == NULL &&
			    (has_filter(s) || !tries[i].listen))
				break;
			stop(s);
		}
		s->failed = t.step;
		if (first.step == NULL)
			first = t;
	}
	if (first.step != NULL)
		explain(&first, i < n ? NULL : missing, i < n, why, whylen);
	return i < n ? 0 : -1;
}

int
spawn_go(struct spawned *s)
{
	struct init_report r;
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
	struct init_control c = { .what = INIT_TERMINATE };

	init_send(s->control_fd, &c, -1, 0);
}

void
spawn_deadline(const struct spawned *s, int64_t at)
{
	struct init_control c = { .what = INIT_DEADLINE };

	c.message.deadline = at;
	init_send(s->control_fd, &c, -1, 0);
}

void
spawn_kill(const struct spawned *s)
{
	if (s->init_pidfd == -1)
		return;
	if (s->cgroup != NULL)
		cgroup_kill(s->cgroup);
	if (!s->namespaces) {
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
	struct init_control c = { .what = INIT_JUDGE };

	return init_send(s->control_fd, &c, conn_fd, MSG_DONTWAIT) == -1 ? -1
									 : 0;
}

enum spawn_event
spawn_receive(const struct spawned *s, struct spawn_message *out)
{
	struct init_control c;
	ssize_t n;
	int passed;

	memset(&c, 0, sizeof(c));
	n = init_receive(s->control_fd, &c, &passed, MSG_DONTWAIT);
	if (passed != -1)
		close(passed);
	if (n == -1 && errno == EAGAIN)
		return SPAWN_NOTHING;
	if (n != (ssize_t)sizeof(c))
		return SPAWN_GONE;
	*out = c.message;
	out->attempt.target[SPAWN_TARGET - 1] = '\0';
	if (c.what == INIT_STATUS)
		return SPAWN_STATUS;
	if (c.what == INIT_ATTEMPT)
		return SPAWN_ATTEMPT;
	return c.what == INIT_PEER ? SPAWN_PEER : SPAWN_NOTHING;
}

const char *
spawn_call_name(int nr, char out[32])
{
	return seccomp_call_name(nr, out);
}

int
spawn_lock_uid(uid_t first, uid_t last, uid_t *uid)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct stat st;
	uint32_t count = last - first + 1, at, i;
	int fd;

	if (mkdir(SPAWN_UID_DIR, 0755) == -1 && errno != EEXIST)
		return -1;
	fd = open(SPAWN_UID_DIR "/uids", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
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
