/*
 * Length-prefixed messages from a program that may lie about the length. A
 * message over the limit is read and hashed in constant memory, so that the
 * connection can go on behind it.
 */

#include "broker/frame.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define HEAD 4
#define CHUNK ((size_t)64 * 1024)
#define FIRST ((size_t)4096) /* most requests are smaller */

void
frame_init(struct frame *f, struct digest *digest)
{
	memset(f, 0, sizeof(*f));
	buf_init(&f->in, HEAD + FRAME_MAX + CHUNK);
	f->digest = digest;
}

void
frame_clear(struct frame *f)
{
	buf_clear(&f->in);
}

static uint32_t
announced(const struct frame *f)
{
	const unsigned char *p = (const unsigned char *)f->in.data;

	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	    (uint32_t)p[2] << 8 | p[3];
}

/* Use up what belongs to the message that is thrown away. */
static void
discard(struct frame *f)
{
	size_t n = f->in.len < f->discard ? f->in.len : f->discard;

	if (n == 0)
		return;
	digest_add(f->digest, f->in.data, n);
	buf_consume(&f->in, n);
	f->discard -= (uint32_t)n;
}

static void
look_at_head(struct frame *f)
{
	if (f->discarding || f->in.len < HEAD || announced(f) <= FRAME_MAX)
		return;
	f->discard = announced(f);
	f->discarding = true;
	buf_consume(&f->in, HEAD);
	digest_start(f->digest);
	discard(f);
}

int
frame_read(struct frame *f, int fd, int passed[FDPASS_MAX])
{
	size_t want = f->in.len == 0 && !f->discarding ? FIRST : CHUNK;
	ssize_t n;
	char *at;

	passed[0] = -1;
	at = buf_reserve(&f->in, want);
	if (at == NULL)
		return -1;
	n = fdpass_receive(fd, at, want, passed, FDPASS_MAX, 0);
	if (n <= 0)
		return (int)n;
	buf_advance(&f->in, (size_t)n);
	if (f->discarding)
		discard(f);
	look_at_head(f);
	return (int)n;
}

bool
frame_ready(const struct frame *f)
{
	if (f->discarding)
		return f->discard == 0;
	return f->in.len >= HEAD && f->in.len - HEAD >= announced(f);
}

enum frame_event
frame_next(struct frame *f, const char **text, size_t *len,
    char hash[DIGEST_TEXT])
{
	if (!frame_ready(f))
		return FRAME_NOTHING;
	if (f->discarding) {
		digest_end(f->digest, hash);
		f->discarding = false;
		look_at_head(f);
		return FRAME_TOO_LARGE;
	}
	*len = announced(f);
	*text = f->in.data + HEAD;
	return FRAME_MESSAGE;
}

void
frame_done(struct frame *f, size_t len)
{
	buf_consume(&f->in, HEAD + len);
	if (f->in.len == 0 && f->in.size > CHUNK)
		buf_clear(&f->in); /* give a large request's memory back */
	look_at_head(f);
}

size_t
frame_begin(struct buf *out)
{
	static const char head[HEAD];
	size_t begun = out->len;

	buf_put(out, head, HEAD);
	return begun;
}

void
frame_end(struct buf *out, size_t begun)
{
	size_t len = out->len - begun - HEAD;
	unsigned char *p = (unsigned char *)out->data + begun;

	p[0] = (unsigned char)(len >> 24);
	p[1] = (unsigned char)(len >> 16);
	p[2] = (unsigned char)(len >> 8);
	p[3] = (unsigned char)len;
}
