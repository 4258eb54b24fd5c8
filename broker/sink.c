/*
 * Descriptors of the skill's making are closed out of the loop's way, against
 * one that has prepared some whose end takes long: the clock and everybody's
 * answers would wait for it. One load at a time, so that they take few places in
 * the table of open files.
 */

#include "broker/sink.h"

#include <sys/eventfd.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/thread.h"

struct sink {
	int fds[FDPASS_MAX]; /* the thread's while it is busy */
	int load_fd;	     /* eventfds: take them; they are gone */
	int done_fd;
	bool busy;
	bool threaded;
	atomic_bool stop;
	pthread_t thread;
};

static void
close_all(const int fds[FDPASS_MAX])
{
	size_t i;

	for (i = 0; i < FDPASS_MAX && fds[i] != -1; i++)
		close(fds[i]);
}

static void *
closer(void *arg)
{
	struct sink *s = arg;
	const uint64_t one = 1;
	uint64_t n;

	for (;;) {
		while (read(s->load_fd, &n, sizeof(n)) == -1) {
			if (errno != EINTR)
				return NULL;
		}
		close_all(s->fds);
		s->fds[0] = -1;
		if (atomic_load(&s->stop) ||
		    write(s->done_fd, &one, sizeof(one)) == -1)
			return NULL;
	}
}

static bool
start(struct sink *s)
{
	if (s->threaded)
		return true;
	if (s->load_fd == -1)
		s->load_fd = eventfd(0, EFD_CLOEXEC);
	if (s->done_fd == -1)
		s->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->load_fd == -1 || s->done_fd == -1)
		return false;
	s->threaded = thread_start(&s->thread, closer, s);
	return s->threaded;
}

static bool
load(const struct sink *s)
{
	const uint64_t one = 1;

	return write(s->load_fd, &one, sizeof(one)) == (ssize_t)sizeof(one);
}

struct sink *
sink_new(void)
{
	struct sink *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->load_fd = s->done_fd = s->fds[0] = -1;
	return s;
}

void
sink_free(struct sink *s)
{
	if (s == NULL)
		return;
	if (s->threaded) {
		atomic_store(&s->stop, true);
		load(s);
		pthread_join(s->thread, NULL);
	}
	if (s->load_fd != -1)
		close(s->load_fd);
	if (s->done_fd != -1)
		close(s->done_fd);
	free(s);
}

void
sink_take(struct sink *s, const int fds[FDPASS_MAX])
{
	if (fds[0] == -1)
		return;
	if (!s->busy && start(s)) {
		memcpy(s->fds, fds, sizeof(s->fds));
		s->busy = load(s);
		if (s->busy)
			return;
	}
	close_all(fds);
}

bool
sink_busy(const struct sink *s)
{
	return s->busy;
}

int
sink_fd(const struct sink *s)
{
	return s->busy ? s->done_fd : -1;
}

void
sink_done(struct sink *s)
{
	uint64_t n;

	if (read(s->done_fd, &n, sizeof(n)) == (ssize_t)sizeof(n))
		s->busy = false;
}
