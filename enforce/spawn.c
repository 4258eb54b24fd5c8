/*
 * From broker to skill: clone, maps, the judgement whether what was reached is
 * enough, the word to go. What runs on the other side is in init.c.
 */

#include "enforce/spawn.h"

#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "enforce/bundle.h"
#include "enforce/cgroup.h"
#include "enforce/fdpass.h"
#include "enforce/filter.h"
#include "enforce/init.h"
#include "enforce/landlock.h"
#include "enforce/probe.h"
#include "enforce/room.h"

static void
maker_init(struct spawn_maker *m)
{
	m->pid = -1;
	m->pidfd = m->map_fd = -1;
}

void
spawn_init(struct spawned *s)
{
	memset(s, 0, sizeof(*s));
	s->init_pid = -1;
	s->init_pidfd = s->control_fd = s->report_fd = s->go_fd = -1;
	maker_init(&s->ours);
	s->failed = "fork";
}

static void
close_fd(int *fd)
{
	if (*fd != -1)
		close(*fd);
	*fd = -1;
}

static void
maker_reap(struct spawn_maker *m)
{
	siginfo_t info;

	while (m->pid != -1 &&
	    waitid(P_PIDFD, (id_t)m->pidfd, &info, WEXITED) == -1 &&
	    errno == EINTR)
		;
	close_fd(&m->pidfd);
	m->pid = -1;
}

static void
maker_clear(struct spawn_maker *m)
{
	int saved = errno;

	close_fd(&m->map_fd);
	maker_reap(m);
	errno = saved;
}

void
spawn_clear(struct spawned *s)
{
	close_fd(&s->init_pidfd);
	close_fd(&s->control_fd);
	close_fd(&s->report_fd);
	close_fd(&s->go_fd);
	maker_clear(&s->ours);
	if (s->shared != NULL)
		munmap(s->shared, sizeof(*s->shared));
	s->shared = NULL;
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

static void
take_report(struct spawned *s, const struct init_report *r, int64_t *before)
{
	const struct confine_step *step;
	size_t n;

	step = confine_steps(&n);
	if (r->step >= INIT_REPORT_PROBE &&
	    r->step < INIT_REPORT_PROBE + PROBES_MAX) {
		s->probes[r->step - INIT_REPORT_PROBE] = (uint8_t)r->error;
		return;
	}
	s->error = r->error;
	if (r->step < 0 || (size_t)r->step >= n) {
		s->failed = "fork";
		return;
	}
	s->failed = step[r->step].name;
	s->cost_ns[r->step] = r->at - *before;
	*before = r->at;
	if (r->error == 0)
		s->states[r->step] = CONFINE_ACTIVE;
}

#define ENDED ECONNRESET /* init was killed while it was built */

static int64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* What init says of the skill's process: ended by a signal? -1: nothing. */
static int
skill_was_killed(int control_fd)
{
	struct init_control c;
	int passed = -1;

	while (init_receive(control_fd, &c, &passed, MSG_DONTWAIT) ==
	    (ssize_t)sizeof(c)) {
		close_fd(&passed);
		if (c.what == INIT_STATUS)
			return c.message.code != CLD_EXITED;
	}
	return -1;
}

/*
 * Has init, or the process that is to be the skill, been ended by somebody else?
 * What dies may take so long to.
 */
static bool
was_killed(const struct spawned *s, int ms)
{
	struct pollfd end[] = { { s->init_pidfd, POLLIN, 0 },
		{ s->control_fd, POLLIN, 0 } };
	int64_t until = now() + (int64_t)ms * 1000000;
	siginfo_t info;
	int skill;

	while (now() < until && poll(end, 2, ms) > 0) {
		skill = end[1].revents == 0 ? -1
					    : skill_was_killed(s->control_fd);
		if (skill != -1)
			return skill;
		memset(&info, 0, sizeof(info));
		if (end[0].revents != 0)
			return waitid(P_PIDFD, (id_t)s->init_pidfd, &info,
				   WEXITED | WNOWAIT | WNOHANG) == 0 &&
			       info.si_pid != 0 &&
			       info.si_code != CLD_EXITED;
		/* At its end the channel has nothing more to say. */
		if ((end[1].revents & POLLHUP) != 0)
			end[1].fd = -1;
	}
	return false;
}

/* Wait until the skill's process waits or its start has ended: -1, and the last
 * report says why. */
static int
follow(struct spawned *s, const struct init_shared *shared)
{
	int64_t before = s->begun_at + s->clone_ns;
	struct init_report r;
	unsigned i, n;
	ssize_t got;

	do
		got = read(s->report_fd, &r, sizeof(r));
	while (got == -1 && errno == EINTR);
	n = atomic_load(&shared->n);
	for (i = 0; i < n; i++)
		take_report(s, &shared->at[i], &before);
	if (got == 0 && was_killed(s, 500))
		s->error = ENDED;
	return got == (ssize_t)sizeof(r) && r.step == INIT_REPORT_READY ? 0
									: -1;
}

static void
stop(struct spawned *s)
{
	if (s->init_pid > 0) {
		spawn_kill(s);
		spawn_wait(s, -1);
	}
	spawn_clear(s);
	s->init_pid = -1;
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
 * A user namespace that maps owner to uid, by a child in our own memory: a copy
 * would cost more than all the rest. map_fd stays -1 where that cannot be.
 */
static void
maker_start(struct spawn_maker *m, uid_t owner, uid_t uid)
{
	char path[64], text[64];
	pid_t parent = getpid();

	m->pid = clone(wait_for_end, m->stack + sizeof(m->stack),
	    CLONE_VM | CLONE_NEWUSER | CLONE_PIDFD | SIGCHLD, &parent,
	    &m->pidfd);
	if (m->pid == -1)
		return;
	snprintf(text, sizeof(text), "%u %u 1", (unsigned)owner, (unsigned)uid);
	if (write_map(m->pid, "uid_map", text) == 0 &&
	    write_map(m->pid, "gid_map", text) == 0) {
		snprintf(path, sizeof(path), "/proc/%ld/ns/user",
		    (long)m->pid);
		m->map_fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	syscall(SYS_pidfd_send_signal, m->pidfd, SIGKILL, NULL, 0);
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

/* ours is a map of what is our own, made ahead, or -1. */
static int
take_bind(struct confine_bind *b, uid_t uid, int ours, struct spawn_maker *maker)
{
	int map_fd = -1;

	/* What anybody may run needs no map; making one costs most. */
	if (!b->for_all && b->owner != uid) {
		map_fd = b->owner == geteuid() ? ours : -1;
		if (map_fd == -1) {
			maker_clear(maker);
			maker_start(maker, b->owner, uid);
			map_fd = maker->map_fd;
		}
	}
	b->tree_fd = take_tree(b->source_fd, map_fd);
	return b->tree_fd == -1 ? -1 : 0;
}

/* Root shows the binds by detached mounts of its own, made for each try. */
static bool
takes_trees(const struct confine_plan *p)
{
	return p->mounts && p->namespaces && !p->bash;
}

/* The binds of a skill's sandbox, in the order in which their trees travel;
 * where the files are laid out from a bundle, the first of them stays here. */
#define BINDS 3

static void
binds_of(struct confine_plan *p, struct confine_bind *out[BINDS])
{
	out[0] = &p->skill;
	out[1] = &p->self;
	out[2] = &p->socket;
}

/* Say this to init, with the trees of these binds and then n other descriptors
 * of fds, which has room for all. */
static int
give(const struct confine_plan *p, const struct spawned *s, char what,
    struct confine_bind *const *binds, size_t binds_n, int fds[FDPASS_MAX],
    size_t n)
{
	struct init_control c = { .what = what };
	struct spawn_maker maker;
	int result = 0;
	size_t i;

	maker_init(&maker);
	for (i = 0; i < binds_n && result == 0 && takes_trees(p); i++) {
		result = take_bind(binds[i], p->host_uid, s->ours.map_fd, &maker);
		fds[n++] = binds[i]->tree_fd;
	}
	if (result == 0 &&
	    fdpass_send(s->control_fd, &c, sizeof(c), fds, n, 0) == -1)
		result = -1;
	maker_clear(&maker);
	return result;
}

/*
 * Init waits for its maps and for what only we can give it. As root its map
 * files are open to us at once; those of an ordinary user's are his only when
 * init has made itself dumpable, and says so.
 */
static int
hand_over(struct confine_plan *p, struct spawned *s)
{
	struct confine_bind *binds[BINDS], *self = &p->self;
	size_t first = p->bundle != NULL;
	int fds[FDPASS_MAX], passed;
	struct init_control c;

	ssize_t n;

	if (!p->root) {
		n = init_receive(s->control_fd, &c, &passed, 0);
		if (n == 0)
			errno = ENDED;
		if (n <= 0)
			return -1;
	}
	if (p->namespaces && write_maps(s->init_pid, p) == -1)
		return -1;
	binds_of(p, binds);
	if (!p->staged)
		return give(p, s, INIT_MAPS_WRITTEN, binds + first,
		    BINDS - first, fds, 0);
	if (give(p, s, INIT_MAPS_WRITTEN, &self, 1, fds, 0) == -1)
		return -1;
	/* What is ours is shown to most skills; its map can be made ahead. */
	maker_start(&s->ours, geteuid(), p->host_uid);
	return 0;
}

/* --- the second stage: the rest of the plan --- */

/* Arguments, and the names of verified files: what does not fit is begun anew,
 * when init has it all from us. */
#define PLAN_ROOM ((size_t)4 << 20)

/* With all that it points to, for a start in namespaces. False: no room. */
static bool
copy_plan(const struct confine_plan *p, struct init_shared *shared)
{
	struct confine_plan *q = &shared->plan;
	struct bundle *bundle = NULL;
	char **texts;

	*q = *p;
	if (p->bundle != NULL) {
		bundle = bundle_copy(p->bundle, p->room);
		if (bundle == NULL)
			return false;
	}
	q->bundle = bundle;
	if (!room_texts(p->room, p->envp[1], 0, &texts))
		return false;
	q->envp[0] = q->envp[1] = texts;
	return room_texts(p->room, p->argv, 1, &q->argv) &&
	    room_text(p->room, &q->main_path[0]) &&
	    room_text(p->room, &q->main_path[1]) &&
	    room_text(p->room, &q->skill_path) &&
	    room_text(p->room, &q->socket_name) &&
	    room_text(p->room, &q->abstract_name) &&
	    room_text(p->room, &q->skill.path) &&
	    room_text(p->room, &q->socket.path);
}

/* Streams, the image of a bundle if there is one, then trees. */
static bool
give_plan(struct confine_plan *p, struct spawned *s)
{
	struct confine_bind *binds[] = { &p->skill, &p->socket };
	size_t first = p->bundle != NULL, n = 3;
	int fds[FDPASS_MAX];

	if (!copy_plan(p, p->shared))
		return false;
	memcpy(fds, p->stdio, sizeof(p->stdio));
	if (p->bundle != NULL)
		fds[n++] = bundle_image(p->bundle);
	return give(p, s, INIT_PLAN, binds + first, 2 - first, fds, n) == 0;
}

static void
end_sharing(struct confine_plan *p)
{
	if (p->shared != NULL)
		munmap(p->shared, sizeof(*p->shared));
	room_unmap(p->room);
	p->shared = NULL;
	p->room = NULL;
}

/* Begin a try, in this configuration: init is born and has what it needs. */
static int
begin_once(struct confine_plan *p, struct spawned *s)
{
	int control[2] = { -1, -1 }, rep[2] = { -1, -1 }, go[2] = { -1, -1 };
	int result = -1;

	s->begun_at = now();
	s->failed = p->namespaces ? "user_namespace" : "clone";
	first_states(p, s);
	s->namespaces = p->namespaces;
	p->shared = mmap(NULL, sizeof(*p->shared), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p->shared == MAP_FAILED)
		p->shared = NULL;
	p->room = p->staged ? room_map(PLAN_ROOM) : NULL;
	if (p->shared == NULL || (p->staged && p->room == NULL))
		goto out;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) ==
		-1 ||
	    pipe2(rep, O_CLOEXEC) == -1 || pipe2(go, O_CLOEXEC) == -1)
		goto out;
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
	if (s->init_pid == -1)
		goto out;
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
	/* Only init has the other ends: when it dies, we are told. */
	close_fd(&control[1]);
	close_fd(&rep[1]);
	close_fd(&go[0]);
	result = hand_over(p, s);
	s->clone_ns = now() - s->begun_at;
out:
	if (result == -1)
		s->error = errno;
	/* Of one that dies the files are not ours, or not there, and nobody is
	 * at the other end. */
	if (result == -1 && s->init_pid > 0 &&
	    (s->error == EACCES || s->error == ENOENT ||
		s->error == ESRCH || s->error == EPIPE) &&
	    was_killed(s, 100))
		s->error = ENDED;
	close_fd(&control[0]);
	close_fd(&control[1]);
	close_fd(&rep[0]);
	close_fd(&rep[1]);
	close_fd(&go[0]);
	close_fd(&go[1]);
	if (result == -1) {
		end_sharing(p);
		stop(s);
	}
	return result;
}

/* End it: 0 when the skill's process waits. */
static int
finish_once(struct confine_plan *p, struct spawned *s)
{
	int result = follow(s, p->shared);

	maker_clear(&s->ours);
	if (result == 0) {
		s->shared = p->shared;
		p->shared = NULL;
	}
	end_sharing(p);
	if (result == -1)
		stop(s);
	return result;
}

#define SYSCTLS                                                                \
	"user.max_user_namespaces, kernel.unprivileged_userns_clone and "      \
	"kernel.apparmor_restrict_unprivileged_userns"

/* Hosts take user namespaces away in several ways; some let the clone succeed
 * and refuse what comes after it. */
static const char *
advice(const struct confine_plan *p, const char *failed, int error)
{
	const struct confine_step *step;
	size_t i, n;

	step = confine_steps(&n);
	for (i = 0; i < n && strcmp(step[i].name, failed) != 0; i++)
		;
	if (i < n && !step[i].inside && step[i].place != CONFINE_AT_CLONE)
		return ""; /* it asks for no namespace */
	if ((error != EPERM && error != EACCES && error != ENOSPC &&
		error != EUSERS && error != ENOSYS && error != EROFS))
		return "";
	if (p->best_effort)
		return "; look at the sysctls " SYSCTLS;
	return "; look at the sysctls " SYSCTLS
	       ", or use --sandbox best-effort";
}

static void
explain(const struct confine_plan *p, const char *step, int error,
    const struct confine_step *missing, bool started, char *why, size_t whylen)
{
	const char *text = error == ENDED ? "its process was killed"
					  : strerror(error);

	if (!started && p->bundle != NULL)
		snprintf(why, whylen,
		    "sandbox: %s: %s; what x-files-sha256 covers is run from a "
		    "private root only, and there is none here; look at the "
		    "sysctls " SYSCTLS,
		    step, text);
	else if (missing == NULL)
		snprintf(why, whylen, "sandbox: %s: %s%s", step,
		    text, started ? "" : advice(p, step, error));
	else
		snprintf(why, whylen,
		    "sandbox: %s: %s; without namespaces %s is required and "
		    "not available%s",
		    step, text, missing->name, advice(p, step, error));
}

#define OWN_TASKS 3 /* the broker's worker and its threads, which come later */

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

/* What is shared is the caller's own: root's. */
static int
take_shares(struct confine_plan *p)
{
	struct share *s;
	size_t i;
	struct spawn_maker maker;
	int result = 0;

	maker_init(&maker);
	for (i = 0; i < p->shares.n && result == 0; i++) {
		s = &p->shares.v[i];
		if (s->kind == SHARE_EMPTY)
			continue;
		if (maker.pid == -1)
			maker_start(&maker, 0, p->host_uid);
		s->tree_fd = take_tree(s->source_fd, maker.map_fd);
		if (s->tree_fd == -1)
			result = -1;
	}
	maker_clear(&maker);
	return result;
}

static bool
may_mount(void)
{
	struct __user_cap_header_struct head = {
	    .version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	return syscall(SYS_capget, &head, data) == 0 &&
	       (data[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective &
		   CAP_TO_MASK(CAP_SYS_ADMIN)) != 0;
}

void
spawn_rights(struct confine_plan *p)
{
	p->root = geteuid() == 0;
	p->mounts = p->root && may_mount();
	p->host_uid = geteuid();
	p->host_gid = getegid();
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
	return spawn_bind_held(b, path, open(path, O_PATH | O_CLOEXEC));
}

int
spawn_bind_held(struct confine_bind *b, const char *path, int fd)
{
	struct stat st;

	b->source_fd = fd;
	if (fd == -1 || fstat(fd, &st) == -1)
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

/* A detached mount can be attached once only: each try has fresh ones. */
static int
drop_trees(struct confine_plan *p)
{
	struct confine_bind *binds[BINDS];
	size_t i;

	for (i = 0; i < p->shares.n; i++)
		close_fd(&p->shares.v[i].tree_fd);
	binds_of(p, binds);
	for (i = 0; i < BINDS; i++)
		close_fd(&binds[i]->tree_fd);
	return p->mounts && p->namespaces && p->bash ? take_shares(p) : 0;
}

/*
 * All namespaces with a listener; without a listener where an outer sandbox
 * has taken it; without namespaces where the host has none for us.
 */
static const struct try {
	bool namespaces, listen;
} tries[] = { { true, true }, { true, false }, { false, true },
	{ false, false } };

/* Begin to try one configuration. */
static int
begin_with(struct confine_plan *p, struct spawned *s, const struct try *t,
    bool staged)
{
	p->landlock_abi = landlock_abi();
	p->namespaces = t->namespaces;
	p->listen = t->listen;
	p->staged = staged;
	p->filter = filter_of(p->bash ? SECCOMP_BASH : SECCOMP_SKILL, t->listen,
	    !t->namespaces);
	p->silent = filter_of(SECCOMP_SKILL, false, !t->namespaces);
	if (!t->namespaces && !p->root)
		p->tasks = tasks_of(p->host_uid) + OWN_TASKS;
	if (drop_trees(p) == 0)
		return begin_once(p, s);
	s->failed = "private_root";
	s->error = errno;
	return -1;
}

void
spawn_prepare(struct confine_plan *p, struct spawned *s)
{
	/* An init that is given nothing can show what it reaches by itself
	 * only, and that ends with the old root. */
	if (!p->mounts)
		return;
	begin_with(p, s, &tries[0], true);
}

void
spawn_reap(struct spawned *s)
{
	maker_reap(&s->ours);
}

void
spawn_begin(struct confine_plan *p, struct spawned *s)
{
	bool prepared = s->init_pid != -1;

	s->begun = true;
	if (prepared && give_plan(p, s))
		return;
	if (prepared) {
		end_sharing(p);
		stop(s);
	}
	begin_with(p, s, &tries[0], false);
}

/* Has the host, or a container around us, set a limit of namespaces to 0? */
static bool
has_no_namespaces(void)
{
	static const char *const kinds[] = { "user", "mnt", "pid", "net", "ipc",
		"uts", "cgroup" };
	char path[64], text[2];
	bool none = false;
	size_t i;
	int fd;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && !none; i++) {
		snprintf(path, sizeof(path),
		    "/proc/sys/user/max_%s_namespaces", kinds[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd == -1)
			continue;
		none = read(fd, text, sizeof(text)) == 2 && text[0] == '0' &&
		    text[1] == '\n';
		close(fd);
	}
	return none;
}

/*
 * Not a host that lacks something, but one that is short of it now, or that kills
 * for want of memory, or where somebody has exchanged what was to be shown.
 */
static bool
is_shortage(int error)
{
	return error == ENDED || error == EMFILE || error == ENFILE ||
	    error == ENOMEM || error == EAGAIN || error == EDQUOT ||
	    error == ETOOMANYREFS || error == ESTALE ||
	    (error == ENOSPC && !has_no_namespaces());
}

/* What a try has reached is judged as a whole, and only then the skill may go. */
int
spawn_start(struct confine_plan *p, struct spawned *s, char *why,
    size_t whylen)
{
	const struct confine_step *missing = NULL;
	const char *first = NULL;
	size_t i, n = sizeof(tries) / sizeof(tries[0]);
	int first_error = 0;

	if (whylen > 0)
		why[0] = '\0';
	if (!s->begun)
		spawn_begin(p, s);
	for (i = 0; i < n; i++) {
		/* Nothing less than a root of its own holds a Bash call, and
		 * keeps files from being exchanged after they were verified. */
		if ((p->bash || p->bundle != NULL) && !tries[i].namespaces)
			continue;
		/* Whoever brings about a shortage must not get less for it. */
		if (!tries[i].namespaces && is_shortage(first_error) &&
		    (!p->best_effort || first_error == ESTALE))
			continue;
		/* The listener is left out only if it was the trouble. */
		if (!tries[i].listen && (strcmp(s->failed, "seccomp") != 0 ||
					    is_shortage(first_error)))
			continue;
		if (i > 0)
			begin_with(p, s, &tries[i], false);
		if (s->init_pid != -1 && finish_once(p, s) == 0) {
			missing = confine_missing(s->states, p->best_effort);
			/* A filter without a listener is better than none. */
			if (missing == NULL &&
			    (confine_is_active(s->states, "seccomp") ||
				!tries[i].listen))
				break;
			stop(s);
		}
		if (first == NULL) {
			first = s->failed;
			first_error = s->error;
		}
	}
	if (first != NULL)
		explain(p, first, first_error, i < n ? NULL : missing, i < n,
		    why, whylen);
	return i < n ? 0 : -1;
}

void
spawn_release(struct spawned *s)
{
	ssize_t n;

	/* It fails only when nobody is there any more; their end is seen by
	 * their pidfd. */
	do
		n = write(s->go_fd, "g", 1);
	while (n == -1 && errno == EINTR);
	close_fd(&s->go_fd);
}

int
spawn_executed(struct spawned *s)
{
	struct init_report r;
	ssize_t n;

	do
		n = read(s->report_fd, &r, sizeof(r));
	while (n == -1 && errno == EINTR);
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
spawn_kill(struct spawned *s)
{
	/* Init does not listen while its skill waits for the word to go. */
	close_fd(&s->go_fd);
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
spawn_wait(const struct spawned *s, int ms)
{
	struct pollfd end = { s->init_pidfd, POLLIN, 0 };
	siginfo_t info;

	if (s->init_pidfd == -1)
		return;
	if (!s->namespaces && poll(&end, 1, INIT_MS) == 0)
		syscall(SYS_pidfd_send_signal, s->init_pidfd, SIGKILL, NULL, 0);
	if (ms >= 0 && poll(&end, 1, ms) != 1)
		return;
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

uint64_t
spawn_attempts(const struct spawned *s)
{
	return s->shared == NULL ? 0 : atomic_load(&s->shared->attempts);
}

const char *
spawn_call_name(int nr, char out[32])
{
	return seccomp_call_name(nr, out);
}

void
spawn_calls(struct spawn_calls *c)
{
	size_t i, n = seccomp_notified(c->text, SPAWN_CALLS_MAX);

	for (i = 0; i < n && i < SPAWN_CALLS_MAX; i++)
		c->names[i] = c->text[i];
	c->names[i] = NULL;
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
	/* Anywhere to begin with: arc4random would cost pages of state. */
	if (getrandom(&at, sizeof(at), 0) != (ssize_t)sizeof(at))
		at = (uint32_t)getpid();
	at %= count;
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
