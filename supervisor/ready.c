/*
 * Brokers in stock. What could make one differ from a broker that is forked when
 * its skill comes is either the same for all (the operator's settings) or
 * comes with the job; of other invocations it has nothing.
 */

#include "supervisor/ready.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* For the arguments: an exec takes 6 MiB at most (_STK_LIM / 4 * 3). */
#define JOB_ROOM ((size_t)8 << 20)

void
ready_init(struct ready *r)
{
	r->pid = -1;
	r->room = NULL;
	r->pidfd = r->control_fd = -1;
	cgroup_init(&r->cgroup);
}

static void
fill_job(struct broker_job *job, const struct supervisor *sup,
    const struct ready *r)
{
	broker_job_init(job);
	job->supervisor = getpid();
	job->policy = &sup->settings.policy;
	job->names = &sup->names.names;
	job->socket_dir = sup->socket_dir;
	job->files = sup->files;
	job->best_effort = sup->settings.policy.best_effort;
	job->protect = sup->protect;
	job->log = sup->log;
	job->cgroup = r->cgroup.dir_fd == -1 ? NULL : &r->cgroup;
}

int
ready_start(struct ready *r, const struct supervisor *sup, const char *name,
    bool early)
{
	struct broker_job job;
	int fds[2];

	ready_init(r);
	r->room = room_map(JOB_ROOM);
	if (r->room == NULL ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == -1) {
		ready_end(r, 0);
		return -1;
	}
	cgroup_make(&r->cgroup, name); /* or it does without */
	fill_job(&job, sup, r);
	job.early = early;
	job.control_fd = fds[1];
	prctl(PR_SET_DUMPABLE, 0);
	r->pid = fork();
	if (r->pid == 0) {
		if (sup->forget != NULL)
			sup->forget(sup->owner);
		/* All else that is the supervisor's is closed there. */
		_exit(broker_run(&job, r->room));
	}
	close(fds[1]);
	/* Ours alone: the broker's end goes on to wait. */
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	r->control_fd = fds[0];
	if (r->pid != -1)
		r->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
	/* Whoever is forked after it has nothing of it. */
	if (r->pidfd != -1 && room_hide(r->room) == 0)
		return 0;
	ready_end(r, 0);
	return -1;
}

int
ready_give(struct ready *r, const struct broker_job *job, struct ready *to)
{
	if (broker_job_send(r->control_fd, job, r->room) == -1) {
		ready_end(r, READY_LEAVE_MS);
		return -1;
	}
	room_unmap(r->room);
	r->room = NULL;
	*to = *r;
	ready_init(r);
	return 0;
}

void
ready_end(struct ready *r, int ms)
{
	struct pollfd end = { r->pidfd, POLLIN, 0 };
	int saved = errno;

	if (r->control_fd != -1)
		close(r->control_fd);
	if (r->pid > 0) {
		if (r->pidfd == -1 || poll(&end, 1, ms) != 1)
			kill(r->pid, SIGKILL);
		while (waitpid(r->pid, NULL, 0) == -1 && errno == EINTR)
			;
	}
	if (r->pidfd != -1)
		close(r->pidfd);
	room_unmap(r->room);
	cgroup_kill(&r->cgroup);
	cgroup_remove(&r->cgroup);
	ready_init(r);
	errno = saved;
}
