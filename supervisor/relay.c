/*
 * Between the skill's streams and ours. Bytes are copied and never looked at.
 * A write happens when poll allows it, is no longer than PIPE_BUF, and goes
 * where possible through a description of our own that does not block, so a
 * reader that stops reading does not stop the supervisor.
 */

#include "supervisor/relay.h"

#include <sys/stat.h>
#include <sys/uio.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int
high(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 10);
	int saved = errno;

	close(fd);
	errno = saved;
	return copy;
}

static int
open_null(int stream)
{
	int fd = open("/dev/null",
	    (stream == 0 ? O_RDONLY : O_WRONLY) | O_CLOEXEC);

	return fd == -1 ? -1 : high(fd);
}

/* O_NONBLOCK on the caller's own description would change it for the caller. */
int
relay_unblocked(int stream)
{
	char path[64];
	struct stat st;
	int fd;

	if (fstat(stream, &st) == -1 ||
	    (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode)))
		return stream;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", stream);
	fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd != -1)
		fd = high(fd);
	return fd == -1 ? stream : fd;
}

int
relay_pipe(int stream, bool wanted, int *skill, int *ours)
{
	int fds[2];

	if (!wanted) {
		*skill = open_null(stream);
		return *skill == -1 ? -1 : 0;
	}
	if (pipe2(fds, O_CLOEXEC) == -1)
		return -1;
	*ours = high(fds[stream == 0]);
	*skill = high(fds[stream != 0]);
	return *ours == -1 || *skill == -1 ||
		fcntl(*ours, F_SETFL, O_NONBLOCK) == -1
	    ? -1
	    : 0;
}

/* A pipe between our stream and the skill's. */
static int
open_pump(struct relay *r, int stream, const struct stat *st)
{
	struct relay_pump *p = &r->pump[stream];
	int ours = -1;

	if (relay_pipe(stream, true, &r->skill[stream], &ours) == -1)
		return -1;
	p->shared = S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode);
	p->from = stream == 0 ? STDIN_FILENO : ours;
	p->to = stream == 0 ? ours : relay_unblocked(stream);
	return 0;
}

/* One file for both: what is written must stay in its order. */
static bool
is_of_stdout(const struct relay *r, int stream, const struct stat *st)
{
	struct stat out;

	return stream == STDERR_FILENO && r->pump[STDOUT_FILENO].from != -1 &&
	       (fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) != O_RDONLY &&
	       fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == st->st_dev &&
	       out.st_ino == st->st_ino;
}

static int
open_stream(struct relay *r, int stream, enum relay_mode mode)
{
	struct stat st;

	if (mode == RELAY_NULL ||
	    (fstat(stream, &st) == -1 && errno == EBADF)) {
		r->skill[stream] = open_null(stream);
		return r->skill[stream] == -1 ? -1 : 0;
	}
	if (fstat(stream, &st) == -1)
		return -1;
	if (S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return -1;
	}
	if (is_of_stdout(r, stream, &st)) {
		r->skill[stream] =
		    fcntl(r->skill[STDOUT_FILENO], F_DUPFD_CLOEXEC, 10);
		return r->skill[stream] == -1 ? -1 : 0;
	}
	if (mode == RELAY_ALWAYS || S_ISREG(st.st_mode) ||
	    S_ISBLK(st.st_mode))
		return open_pump(r, stream, &st);
	r->skill[stream] = fcntl(stream, F_DUPFD_CLOEXEC, 10);
	return r->skill[stream] == -1 ? -1 : 0;
}

int
relay_open(struct relay *r, enum relay_mode mode)
{
	int i;

	memset(r, 0, sizeof(*r));
	for (i = 0; i < 3; i++)
		r->skill[i] = r->pump[i].from = r->pump[i].to = -1;
	for (i = 0; i < 3; i++) {
		if (open_stream(r, i, mode) == -1)
			return -1;
	}
	return 0;
}

void
relay_forked(struct relay *r)
{
	int i;

	for (i = 0; i < 3; i++) {
		if (r->skill[i] != -1)
			close(r->skill[i]);
		r->skill[i] = -1;
	}
}

void
relay_poll(const struct relay *r, struct pollfd *fds)
{
	int i;

	for (i = 0; i < 3; i++) {
		fds[i].fd = r->pump[i].len > 0 ? r->pump[i].to
					       : r->pump[i].from;
		fds[i].events = r->pump[i].len > 0 ? POLLOUT : POLLIN;
		fds[i].revents = 0;
	}
}

static void
stop(struct relay *r, int stream)
{
	struct relay_pump *p = &r->pump[stream];

	close(stream == 0 ? p->to : p->from);
	/* 1 and 2 are the caller's, what unblocked made is ours. */
	if (p->to > STDERR_FILENO && stream != 0)
		close(p->to);
	p->from = p->to = -1;
	p->len = 0;
}

/*
 * Read or write what there is, or EAGAIN: others may have the same pipe or socket,
 * and be quicker between poll's word and our call. Where the kernel cannot do that
 * (terminals, older ones) the call may wait for more.
 */
static ssize_t
move(bool shared, int fd, char *data, size_t len, bool out)
{
	struct iovec io = { data, len };
	ssize_t n = -1;

	errno = EOPNOTSUPP;
	if (shared)
		n = out ? pwritev2(fd, &io, 1, -1, RWF_NOWAIT)
			: preadv2(fd, &io, 1, -1, RWF_NOWAIT);
	if (n != -1 || (errno != EOPNOTSUPP && errno != ENOSYS))
		return n;
	return out ? write(fd, data, len) : read(fd, data, len);
}

static void
pump_step(struct relay *r, int stream)
{
	struct relay_pump *p = &r->pump[stream];
	ssize_t n;

	if (p->from == -1)
		return;
	if (p->len > 0) {
		n = move(p->shared, p->to, p->data, p->len, true);
		if (n > 0) {
			p->len -= (size_t)n;
			memmove(p->data, p->data + n, p->len);
		} else if (n == -1 && errno != EAGAIN && errno != EINTR) {
			stop(r, stream);
		}
		return;
	}
	n = move(p->shared, p->from, p->data, sizeof(p->data), false);
	if (n > 0)
		p->len = (size_t)n;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		stop(r, stream);
}

void
relay_step(struct relay *r, const struct pollfd *fds)
{
	int i;

	for (i = 0; i < 3; i++) {
		if (fds[i].fd != -1 && fds[i].revents != 0)
			pump_step(r, i);
	}
}

/* Whoever could still write is no process of the skill: what is not in the
 * pipe by now does not belong to its output. */
void
relay_drain(struct relay *r)
{
	struct pollfd fds[RELAY_POLLFDS];
	bool closed[3] = { false };
	int i;

	if (r->pump[0].from != -1)
		stop(r, 0);
	for (;;) {
		relay_poll(r, fds);
		for (i = 1; i < 3; i++) {
			if (fds[i].fd != -1 && r->pump[i].len == 0 &&
			    poll(&fds[i], 1, 0) == 0)
				stop(r, i);
			/* Who reads it to its end need not wait for the other. */
			if (r->pump[i].from == -1 && !closed[i]) {
				close(i);
				closed[i] = true;
			}
		}
		if (r->pump[1].from == -1 && r->pump[2].from == -1)
			return;
		relay_poll(r, fds);
		if (poll(fds, RELAY_POLLFDS, -1) == -1 && errno != EINTR)
			return;
		relay_step(r, fds);
	}
}

