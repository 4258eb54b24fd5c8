/*
 * A line is either there as a whole or cut by the end of whoever reads. What
 * the caller's description of the stream is used for otherwise is not changed:
 * we open one of our own, or write no more than never waits.
 */

#include "supervisor/report.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/relay.h"

#define ROOM ((size_t)256 * 1024)
#define ALL ((size_t)256 << 20) /* more than 10,000 invocations have to say */
#define AT_ONCE ((size_t)64 * 1024)

void
report_open(struct report *r, int stream)
{
	struct stat st;

	memset(r, 0, sizeof(*r));
	r->is_socket = fstat(stream, &st) == 0 && S_ISSOCK(st.st_mode);
	r->fd = relay_unblocked(stream);
	r->own = r->fd != stream;
	buf_init(&r->out, ALL);
}

void
report_close(struct report *r)
{
	if (r->own)
		close(r->fd);
	buf_clear(&r->out);
}

struct buf *
report_begin(struct report *r, const char *event, const char *id)
{
	buf_put_all(&r->out, "{\"event\":\"", event, "\"");
	if (id[0] != '\0')
		buf_put_all(&r->out, ",\"id\":", id);
	return &r->out;
}

void
report_lost(struct report *r)
{
	r->gone = true;
	r->sent = 0;
	buf_clear(&r->out);
}

void
report_end(struct report *r)
{
	buf_puts(&r->out, "}\n");
	/* Half a line must not go out; nobody has read for very long. */
	if (r->gone || r->out.failed)
		report_lost(r);
}

bool
report_room(const struct report *r)
{
	return r->gone || r->out.len - r->sent < ROOM;
}

bool
report_pending(const struct report *r)
{
	return r->out.len > r->sent;
}

static bool
writable(const struct report *r)
{
	struct pollfd fd = { r->fd, POLLOUT, 0 };

	return poll(&fd, 1, 0) == 1;
}

static ssize_t
put(const struct report *r, const char *p, size_t len)
{
	if (r->is_socket)
		return send(r->fd, p, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	/* A pipe that poll says has room takes so much without waiting. */
	if (!r->own && len > PIPE_BUF)
		len = PIPE_BUF;
	return write(r->fd, p, len < AT_ONCE ? len : AT_ONCE);
}

void
report_flush(struct report *r)
{
	ssize_t n;

	while (report_pending(r) && writable(r)) {
		n = put(r, r->out.data + r->sent, r->out.len - r->sent);
		if (n == -1 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n == -1) {
			report_lost(r);
			return;
		}
		r->sent += (size_t)n;
	}
	if (r->sent == r->out.len || r->sent > r->out.len / 2) {
		buf_consume(&r->out, r->sent);
		r->sent = 0;
	}
}
