/*
 * A skill that does not read its input or never stops writing holds up nobody
 * but itself: our ends do not block, and what is taken of its output is
 * bounded.
 */

#include "supervisor/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/json.h"
#include "supervisor/relay.h"
#include "tools/call.h"

int
streams_open(struct streams *s, const char *in, size_t in_len, bool output)
{
	int i;

	memset(s, 0, sizeof(*s));
	for (i = 0; i < 3; i++)
		s->skill[i] = s->ours[i] = -1;
	for (i = 0; i < 3; i++) {
		if (relay_pipe(i, i == 0 ? in != NULL : output, &s->skill[i],
			&s->ours[i]) == -1)
			return -1;
	}
	s->in = in;
	s->in_len = in_len;
	return 0;
}

void
streams_end(struct streams *s, int stream)
{
	if (s->ours[stream] != -1)
		close(s->ours[stream]);
	s->ours[stream] = -1;
}

void
streams_forked(struct streams *s)
{
	int i;

	for (i = 0; i < 3; i++) {
		if (s->skill[i] != -1)
			close(s->skill[i]);
		s->skill[i] = -1;
	}
}

bool
streams_feed(struct streams *s)
{
	ssize_t n = 0;

	if (s->in_len > 0)
		n = write(s->ours[0], s->in, s->in_len);
	if (n > 0) {
		s->in += n;
		s->in_len -= (size_t)n;
	}
	return s->in_len > 0 &&
	    (n != -1 || errno == EAGAIN || errno == EINTR);
}

/*
 * How many bytes at the end may be a character that is not whole yet: at most 3,
 * of which the first one promises more than there are.
 */
static size_t
unfinished(const char *p, size_t len)
{
	unsigned char c;
	size_t n, want;

	for (n = 1; n <= 3 && n <= len; n++) {
		c = (unsigned char)p[len - n];
		if ((c & 0xc0) == 0x80)
			continue;
		want = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
		return want > n ? n : 0;
	}
	return 0;
}

static void
put_piece(struct buf *b, int stream, const char *p, size_t len)
{
	bool text = json_is_utf8(p, len) && memchr(p, '\0', len) == NULL;

	buf_printf(b, "\"stream\":\"%s\",\"text\":",
	    stream == 1 ? "stdout" : "stderr");
	if (text) {
		json_put_string(b, p, len);
		return;
	}
	buf_putc(b, '"');
	base64_encode(b, p, len);
	buf_puts(b, "\",\"encoding\":\"base64\"");
}

/* The last thing that is said of a stream; false: there is nothing. */
static bool
put_end(struct buf *b, int stream, struct streams_out *out)
{
	if (out->tail_len == 0 && out->dropped == 0)
		return false;
	put_piece(b, stream, out->tail, out->tail_len);
	out->tail_len = 0;
	if (out->dropped > 0) {
		buf_puts(b, ",\"dropped\":");
		buf_put_uint(b, out->dropped);
		out->dropped = 0;
	}
	return true;
}

enum streams_event
streams_take(struct streams *s, int stream, bool last, struct buf *b)
{
	struct streams_out *out = &s->out[stream - 1];
	char data[sizeof(out->tail) + STREAMS_PIECE];
	size_t len, rest, want = STREAMS_PIECE;
	ssize_t n;

	if (out->taken < STREAMS_MAX && STREAMS_MAX - out->taken < want)
		want = (size_t)(STREAMS_MAX - out->taken);
	memcpy(data, out->tail, out->tail_len);
	n = read(s->ours[stream], data + out->tail_len, want);
	if (n == -1 && (errno == EAGAIN || errno == EINTR) && !last)
		return STREAMS_NOTHING;
	if (n <= 0)
		return put_end(b, stream, out) ? STREAMS_PIECE_READ
					       : STREAMS_END;
	if (out->taken >= STREAMS_MAX) {
		out->dropped += (uint64_t)n;
		explicit_bzero(data, sizeof(data));
		return STREAMS_NOTHING;
	}
	len = out->tail_len + (size_t)n;
	out->taken += (uint64_t)n;
	rest = unfinished(data, len);
	memcpy(out->tail, data + len - rest, rest);
	out->tail_len = rest;
	if (len > rest)
		put_piece(b, stream, data, len - rest);
	explicit_bzero(data, sizeof(data));
	return len > rest ? STREAMS_PIECE_READ : STREAMS_NOTHING;
}

void
streams_clear(struct streams *s)
{
	int i;

	streams_forked(s);
	for (i = 0; i < 3; i++)
		streams_end(s, i);
	explicit_bzero(s->out, sizeof(s->out));
}
