/*
 * The spawner and its children. It outlives none of the calls that it builds
 * sandboxes for and dies with the broker; a child that fails, crashes or is
 * killed is told to the broker as what it is. Against a broker that has been
 * taken over it guarantees no more than this: what it builds is a sandbox with
 * what was granted, whatever it is sent.
 */

#include "enforce/spawner.h"

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "enforce/fdpass.h"
#include "enforce/narrow.h"
#include "enforce/spawn.h"

#define CHILDREN_MAX	32
#define WATCH_MS	200
#define BUILD_SECONDS	20	/* for one sandbox; then its builder is killed */

/*
 * The command is read from a descriptor, so that it stands in no argument
 * vector; it is evaluated as "bash -c" does, whatever it begins with, and the
 * variable that held it is gone by then.
 */
static const char command_line[] =
    "IFS= read -r -d '' -u 6; exec 6<&-; eval \"unset REPLY;$REPLY\"";
_Static_assert(CONFINE_COMMAND_FD == 6, "as command_line says");

struct child {
	pid_t pid;
	uint64_t id;
};

struct spawner {
	int channel_fd;
	int signal_fd;
	const struct confine_plan *plan;
	const struct spawner_work *work;
	struct child child[CHILDREN_MAX];
	size_t n;
};

int
spawner_send(int channel_fd, const struct spawner_message *m, const int fds[],
    size_t n, bool wait)
{
	ssize_t sent = fdpass_send(
	    channel_fd, m, sizeof(*m), fds, n, wait ? 0 : MSG_DONTWAIT);

	return sent == (ssize_t)sizeof(*m) ? 0 : -1;
}

int
spawner_receive(int channel_fd, struct spawner_message *m,
    int fds[SPAWNER_FDS], bool wait)
{
	ssize_t n;

	n = fdpass_receive(channel_fd, m, sizeof(*m), fds, SPAWNER_FDS,
	    wait ? 0 : MSG_DONTWAIT);
	if (n == -1 && errno == EAGAIN)
		return 0;
	if (n != (ssize_t)sizeof(*m))
		return -1;
	m->text[sizeof(m->text) - 1] = '\0';
	return 1;
}

/* --- a child --- */

static void
fail(const struct spawner *s, uint64_t id, int code, const char *why)
{
	struct spawner_message m;

	memset(&m, 0, sizeof(m));
	m.what = SPAWNER_FAILED;
	m.id = id;
	m.code = code;
	strlcpy(m.text, why, sizeof(m.text));
	spawner_send(s->channel_fd, &m, NULL, 0, true);
}

/* Pipes, and a file for the command; nothing else becomes the sandbox's own. */
static bool
are_streams(const int fds[SPAWNER_FDS])
{
	struct stat st;
	int i;

	for (i = SPAWNER_STDIN; i < SPAWNER_FDS; i++) {
		if (fstat(fds[i], &st) == -1 || !S_ISFIFO(st.st_mode))
			return false;
	}
	return fstat(fds[SPAWNER_COMMAND], &st) == 0 && S_ISREG(st.st_mode);
}

/* Until its end, or until it may not go on. */
static void
watch(const struct spawner *s, uint64_t id, const struct shares *shares,
    struct spawned *box)
{
	struct pollfd end = { box->init_pidfd, POLLIN, 0 };
	int code;

	while (poll(&end, 1, WATCH_MS) == 0) {
		code = s->work->watch(s->work->arg, shares);
		if (code == 0)
			continue;
		fail(s, id, code, "");
		spawn_kill(box);
		break;
	}
	spawn_wait(box, -1);
}

/* Build it, tell of it, and stay until its end: it dies with us. */
static void
do_bash(const struct spawner *s, const struct spawner_message *request,
    const int fds[SPAWNER_FDS])
{
	char shell[] = "bash", option[] = "-c", line[sizeof(command_line)];
	char *argv[] = { shell, option, line, NULL };
	char *const envp[] = { NULL };
	struct confine_plan plan = *s->plan;
	struct spawner_message m;
	struct spawned box;
	char why[512];
	int code, i;

	memcpy(line, command_line, sizeof(line));
	plan.bash = true;
	plan.best_effort = plan.attest = false;
	plan.cgroup = NULL;
	plan.cwd = request->text;
	plan.argv = argv;
	plan.main_path[0] = plan.main_path[1] = "/bin/bash";
	plan.envp[0] = plan.envp[1] = envp;
	if (!are_streams(fds)) {
		fail(s, request->id, SPAWNER_NO_SANDBOX, "odd descriptors");
		return;
	}
	/* Its own, so that it may open them again by /dev/stderr and the like. */
	for (i = SPAWNER_STDIN; plan.root && i < SPAWNER_FDS; i++) {
		if (fchown(fds[i], plan.host_uid, plan.host_gid) == -1) {
			fail(s, request->id, SPAWNER_NO_SANDBOX, strerror(errno));
			return;
		}
	}
	/* Above all that is put in place. */
	plan.command_fd =
	    fcntl(fds[SPAWNER_COMMAND], F_DUPFD_CLOEXEC, CONFINE_FDS_FREE);
	for (i = 0; i < 3; i++)
		plan.stdio[i] = fcntl(fds[SPAWNER_STDIN + i], F_DUPFD_CLOEXEC,
		    CONFINE_FDS_FREE);
	for (i = 0; i < SPAWNER_FDS; i++)
		close(fds[i]);
	plan.bundle = NULL;
	spawn_bind_init(&plan.skill);
	spawn_bind_init(&plan.self);
	spawn_bind_init(&plan.socket);
	plan.shares.v = NULL;
	plan.shares.n = 0;
	alarm(BUILD_SECONDS);
	code = s->work->shares(s->work->arg, &plan.shares);
	if (code != 0) {
		fail(s, request->id, code, "");
		return;
	}
	spawn_init(&box);
	if (spawn_start(&plan, &box, why, sizeof(why)) == -1) {
		fail(s, request->id,
		    strcmp(box.failed, "working_directory") == 0
			? SPAWNER_NO_CWD
			: SPAWNER_NO_SANDBOX,
		    why);
		return;
	}
	alarm(0);
	memset(&m, 0, sizeof(m));
	m.what = SPAWNER_STARTED;
	m.id = request->id;
	if (spawner_send(s->channel_fd, &m,
		(int[]){ box.control_fd, box.init_pidfd }, 2, true) == -1)
		return;
	/* The broker's ends are the only ones from now on. */
	close(box.control_fd);
	close(plan.command_fd);
	for (i = 0; i < 3; i++)
		close(plan.stdio[i]);
	spawn_release(&box);
	code = spawn_executed(&box);
	if (code != 0) {
		spawn_kill(&box);
		fail(s, request->id, SPAWNER_NO_SANDBOX, strerror(code));
	}
	watch(s, request->id, &plan.shares, &box);
}

/* Start it, tell of it, and stay until its end, so that what is held for it is
 * held as long. */
static void
do_net(const struct spawner *s, uint64_t id, int fd)
{
	struct spawner_message m;
	siginfo_t info;
	char why[512];
	int pidfd;

	pidfd = s->work->net(s->work->arg, fd, why, sizeof(why));
	close(fd);
	if (pidfd == -1) {
		fail(s, id, SPAWNER_NO_SANDBOX, why);
		return;
	}
	memset(&m, 0, sizeof(m));
	m.what = SPAWNER_STARTED;
	m.id = id;
	if (spawner_send(s->channel_fd, &m, &pidfd, 1, true) == -1)
		return;
	while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) == -1 &&
	    errno == EINTR)
		;
}

static void
child(const struct spawner *s, const struct spawner_message *m,
    const int fds[SPAWNER_FDS], pid_t parent)
{
	sigset_t ours;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	close(s->signal_fd);
	/* What the terminal sends stays blocked, as in the broker. */
	sigemptyset(&ours);
	sigaddset(&ours, SIGCHLD);
	sigaddset(&ours, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &ours, NULL);
	if (m->what == SPAWNER_BASH)
		do_bash(s, m, fds);
	else
		do_net(s, m->id, fds[0]);
	_exit(1);
}

/* --- the spawner --- */

static void
tell_gone(const struct spawner *s, uint64_t id)
{
	struct spawner_message m;

	memset(&m, 0, sizeof(m));
	m.what = SPAWNER_GONE;
	m.id = id;
	spawner_send(s->channel_fd, &m, NULL, 0, true);
}

static void
reap(struct spawner *s)
{
	size_t i;
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		for (i = 0; i < s->n && s->child[i].pid != pid; i++)
			;
		if (i == s->n)
			continue;
		tell_gone(s, s->child[i].id);
		s->child[i] = s->child[--s->n];
	}
}

static void
serve(struct spawner *s, const struct spawner_message *m,
    const int fds[SPAWNER_FDS])
{
	int need = m->what == SPAWNER_BASH ? SPAWNER_FDS : 1, i;
	pid_t parent = getpid(), pid;

	if (m->what != SPAWNER_BASH && m->what != SPAWNER_NET)
		return;
	for (i = 0; i < need && fds[i] != -1; i++)
		;
	if (i < need || s->n == CHILDREN_MAX) {
		fail(s, m->id, SPAWNER_NO_SANDBOX, "too much at once");
		tell_gone(s, m->id);
		return;
	}
	pid = fork();
	if (pid == 0)
		child(s, m, fds, parent);
	if (pid == -1) {
		fail(s, m->id, SPAWNER_NO_SANDBOX, strerror(errno));
		tell_gone(s, m->id);
		return;
	}
	s->child[s->n++] = (struct child){ pid, m->id };
}

static void
loop(struct spawner *s)
{
	struct pollfd pfd[] = { { s->channel_fd, POLLIN, 0 },
		{ s->signal_fd, POLLIN, 0 } };
	struct signalfd_siginfo drop;
	struct spawner_message m;
	int fds[SPAWNER_FDS], got, i;

	for (;;) {
		if (poll(pfd, 2, -1) == -1 && errno != EINTR)
			return;
		if (read(s->signal_fd, &drop, sizeof(drop)) > 0)
			reap(s);
		if (pfd[0].revents == 0)
			continue;
		got = spawner_receive(s->channel_fd, &m, fds, false);
		if (got == -1)
			return;
		if (got == 1)
			serve(s, &m, fds);
		for (i = 0; got == 1 && i < SPAWNER_FDS; i++) {
			if (fds[i] != -1)
				close(fds[i]);
		}
	}
}

int
spawner_start(const struct confine_plan *plan, const struct spawner_work *work,
    const int keep[], size_t n, pid_t *pid)
{
	struct spawner s = { .plan = plan, .work = work };
	int fds[2], kept[16];
	pid_t parent = getpid();
	sigset_t set;

	if (n + 4 > sizeof(kept) / sizeof(kept[0])) {
		errno = EINVAL;
		return -1;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == -1)
		return -1;
	*pid = fork();
	if (*pid != 0) {
		close(fds[1]);
		if (*pid != -1)
			return fds[0];
		close(fds[0]);
		return -1;
	}
	kept[0] = 0;
	kept[1] = 1;
	kept[2] = 2;
	kept[3] = fds[1];
	memcpy(kept + 4, keep, n * sizeof(*keep));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "cyberos-spawner");
	narrow_environment();
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (getppid() != parent || spawn_close_others(kept, n + 4) == -1 ||
	    sigprocmask(SIG_BLOCK, &set, NULL) == -1 ||
	    (s.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) ==
		-1)
		_exit(1);
	s.channel_fd = fds[1];
	loop(&s);
	_exit(0);
}
