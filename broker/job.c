/*
 * A job on its way to a broker that was there before it: two messages with the
 * descriptors, and what it points to in memory that both have. The broker takes
 * it from the supervisor alone, whose fork it is, so that whatever the supervisor
 * had before the fork needs no copy.
 */

#include "broker/job.h"

#include <string.h>

#include "enforce/confine.h"
#include "enforce/fdpass.h"

#define JOB_FDS (3 + 2 * TRACER_SINKS)
#define FILES_FDS 5

_Static_assert(JOB_FDS <= FDPASS_MAX && FILES_FDS <= FDPASS_MAX,
    "they fit into one message");

/* What the second message says. */
struct files_made {
	struct stat store;
	off_t stray_len;
};

/* The descriptors of a job, in the order in which they travel. */
static void
streams(struct broker_job *j, int *out[JOB_FDS])
{
	size_t n = 0, i;

	for (i = 0; i < 3; i++)
		out[n++] = &j->stdio[i];
	for (i = 0; i < TRACER_SINKS; i++) {
		out[n++] = &j->tracer.sinks[i].fd;
		out[n++] = &j->tracer.sinks[i].wake_fd;
	}
}

static void
files(struct broker_job *j, int *out[FILES_FDS])
{
	out[0] = &j->memory_fd;
	out[1] = &j->segment_fd;
	out[2] = &j->lock_fd;
	out[3] = &j->status_fd;
	out[4] = &j->stray_fd;
}

void
broker_job_init(struct broker_job *j)
{
	int *own[JOB_FDS];
	size_t i;

	memset(j, 0, sizeof(*j));
	streams(j, own);
	for (i = 0; i < JOB_FDS; i++)
		*own[i] = -1;
	files(j, own);
	for (i = 0; i < FILES_FDS; i++)
		*own[i] = -1;
	j->control_fd = -1;
}

int
broker_job_send(int control_fd, const struct broker_job *job, struct room *room)
{
	struct broker_job copy = *job;
	int *own[JOB_FDS], fds[JOB_FDS];
	size_t i, n = 0;
	char **args;

	if (!room_texts(room, job->args, 0, &args) ||
	    !room_text(room, &copy.skill_dir) ||
	    !room_text(room, &copy.skill_id) ||
	    !room_text(room, &copy.persona) ||
	    !room_text(room, &copy.request_id))
		return -1;
	copy.args = args;
	streams(&copy, own);
	for (i = 0; i < JOB_FDS; i++) {
		if (*own[i] != -1)
			fds[n++] = *own[i];
	}
	return fdpass_send(control_fd, &copy, sizeof(copy), fds, n, 0) ==
		(ssize_t)sizeof(copy)
	    ? 0
	    : -1;
}

int
broker_files_send(int control_fd, const struct broker_job *job)
{
	struct broker_job copy = *job;
	int *own[FILES_FDS], fds[FILES_FDS];
	struct files_made m;
	size_t i;

	memset(&m, 0, sizeof(m));
	m.store = job->store;
	m.stray_len = job->stray_len;
	files(&copy, own);
	for (i = 0; i < FILES_FDS; i++)
		fds[i] = *own[i];
	return fdpass_send(control_fd, &m, sizeof(m), fds, FILES_FDS, 0) ==
		(ssize_t)sizeof(m)
	    ? 0
	    : -1;
}

int
broker_job_receive(struct broker_job *job, struct room *room)
{
	const struct broker_job any = *job;
	int *own[JOB_FDS], fds[JOB_FDS], *next = fds;
	size_t i;

	if (fdpass_receive(any.control_fd, job, sizeof(*job), fds, JOB_FDS,
		0) != (ssize_t)sizeof(*job))
		return -1;
	streams(job, own);
	for (i = 0; i < JOB_FDS; i++) {
		if (*own[i] != -1)
			*own[i] = *next++;
	}
	for (i = 0; i < 3; i++) {
		job->stdio[i] = fdpass_above(job->stdio[i], CONFINE_FDS_FREE);
		if (job->stdio[i] == -1)
			return -1;
	}
	job->supervisor = any.supervisor;
	job->best_effort = any.best_effort;
	job->files = any.files;
	job->early = any.early;
	job->cgroup = any.cgroup;
	job->socket_dir = any.socket_dir;
	job->protect = any.protect;
	job->policy = any.policy;
	job->names = any.names;
	job->log.fd = any.log.fd;
	job->control_fd = any.control_fd;
	return room_own(room);
}

int
broker_files_receive(struct broker_job *job)
{
	int *own[FILES_FDS], fds[FILES_FDS];
	struct files_made m;
	size_t i;

	if (fdpass_receive(job->control_fd, &m, sizeof(m), fds, FILES_FDS,
		0) != (ssize_t)sizeof(m))
		return -1;
	job->store = m.store;
	job->stray_len = m.stray_len;
	files(job, own);
	for (i = 0; i < FILES_FDS; i++)
		*own[i] = fds[i];
	return 0;
}
