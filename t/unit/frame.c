/* Frames over a socket pair: pieces, lengths that lie, what is thrown away. */

#include "broker/frame.h"

#include <sys/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "t/unit/tap.h"

struct pair {
	int ours;
	int theirs;
	struct digest *digest;
	struct digest *other; /* for what is expected */
	struct frame f;
};

static void
pair_open(struct pair *p)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == -1)
		exit(99);
	p->ours = fds[0];
	p->theirs = fds[1];
	if (fcntl(p->ours, F_SETFL, O_NONBLOCK) == -1)
		exit(99);
	p->digest = digest_new(NULL, 0);
	p->other = digest_new(NULL, 0);
	if (p->digest == NULL || p->other == NULL)
		exit(99);
	frame_init(&p->f, p->digest);
}

static void
pair_close(struct pair *p)
{
	frame_clear(&p->f);
	digest_free(p->digest);
	digest_free(p->other);
	close(p->ours);
	close(p->theirs);
}

static void
put(struct pair *p, const void *data, size_t len)
{
	if (write(p->theirs, data, len) != (ssize_t)len)
		exit(99);
}

static void
put_head(struct pair *p, uint32_t len)
{
	unsigned char head[4] = {(unsigned char)(len >> 24),
	    (unsigned char)(len >> 16), (unsigned char)(len >> 8),
	    (unsigned char)len};

	put(p, head, sizeof(head));
}

/* None of these tests sends any but the one of descriptors. */
static int
take(struct pair *p)
{
	int passed[FDPASS_MAX], got = frame_read(&p->f, p->ours, passed);

	if (passed[0] != -1)
		exit(99);
	return got;
}

/* Is the next thing this message? It is used up. */
static bool
next_is(struct pair *p, const char *want)
{
	char hash[DIGEST_TEXT];
	const char *text;
	size_t len;

	if (frame_next(&p->f, &text, &len, hash) != FRAME_MESSAGE ||
	    len != strlen(want) || memcmp(text, want, len) != 0)
		return false;
	frame_done(&p->f, len);
	return true;
}

static bool
nothing(struct pair *p)
{
	char hash[DIGEST_TEXT];
	const char *text;
	size_t len;

	return !frame_ready(&p->f) &&
	       frame_next(&p->f, &text, &len, hash) == FRAME_NOTHING;
}

static void
test_pieces(void)
{
	static const char stream[] = "\0\0\0\3abc\0\0\0\0\0\0\0\2de";
	struct pair p;
	size_t i;
	bool early = false;

	pair_open(&p);
	ok(nothing(&p), "nothing at first");
	ok(take(&p) == -1 && errno == EAGAIN,
	    "and nothing to read is EAGAIN");
	for (i = 0; i < 7; i++) {
		early = early || !nothing(&p);
		put(&p, stream + i, 1);
		take(&p);
	}
	ok(!early, "no message before its last byte");
	ok(frame_ready(&p.f) && next_is(&p, "abc"), "byte by byte");
	put(&p, stream + 7, sizeof(stream) - 1 - 7);
	is_int(take(&p), (int)sizeof(stream) - 1 - 7,
	    "two in one piece");
	ok(next_is(&p, ""), "the empty one");
	ok(next_is(&p, "de") && nothing(&p), "and the other");
	shutdown(p.theirs, SHUT_WR);
	is_int(take(&p), 0, "the end of the stream is 0");
	pair_close(&p);
}

/* The most that one message holds comes out, close-on-exec, and is told. */
static void
test_descriptors(void)
{
	int fds[FDPASS_MAX], passed[FDPASS_MAX], i, n, bad = 0;
	struct pair p;

	pair_open(&p);
	for (i = 0; i < FDPASS_MAX; i++)
		fds[i] = 0;
	if (fdpass_send(p.theirs, "\0\0\0\2ab", 6, fds, FDPASS_MAX, 0) != 6)
		exit(99);
	is_int(frame_read(&p.f, p.ours, passed), 6, "bytes with descriptors");
	for (n = 0; n < FDPASS_MAX && passed[n] != -1; n++) {
		bad += fcntl(passed[n], F_GETFD) != FD_CLOEXEC;
		close(passed[n]);
	}
	is_int(n, FDPASS_MAX, "all of them come out");
	is_int(bad, 0, "close-on-exec");
	ok(next_is(&p, "ab"), "the message is like any other");
	put(&p, "\0\0\0\0", 4);
	is_int(take(&p), 4, "none with the next");
	pair_close(&p);
}

/* Feed n bytes and read them as they come. */
static void
feed(struct pair *p, char byte, size_t n, size_t *most)
{
	char block[16384];
	size_t now;

	memset(block, byte, sizeof(block));
	for (; n > 0; n -= now) {
		now = n < sizeof(block) ? n : sizeof(block);
		put(p, block, now);
		while (take(p) > 0)
			;
		if (p->f.in.size > *most)
			*most = p->f.in.size;
	}
}

static void
test_limit(void)
{
	char hash[DIGEST_TEXT];
	const char *text;
	size_t len = 0, most = 0;
	struct pair p;

	pair_open(&p);
	put_head(&p, FRAME_MAX);
	feed(&p, 'x', FRAME_MAX - 1, &most);
	ok(nothing(&p), "one byte short of the largest message");
	feed(&p, 'y', 1, &most);
	ok(frame_next(&p.f, &text, &len, hash) == FRAME_MESSAGE &&
		len == FRAME_MAX && text[0] == 'x' && text[len - 1] == 'y',
	    "the largest message");
	frame_done(&p.f, len);
	ok(p.f.in.size == 0, "its memory is given back");
	put_head(&p, FRAME_MAX + 1);
	most = 0;
	feed(&p, 'z', FRAME_MAX, &most);
	ok(nothing(&p), "one byte more is no message");
	feed(&p, 'z', 1, &most);
	ok(frame_next(&p.f, &text, &len, hash) == FRAME_TOO_LARGE,
	    "but too large, at its end");
	ok(most <= (size_t)256 * 1024, "and is never kept (%zu)", most);
	ok(nothing(&p), "once");
	pair_close(&p);
}

static void
test_thrown_away(void)
{
	char hash[DIGEST_TEXT], want[DIGEST_TEXT];
	char *bytes = malloc(FRAME_MAX + 100);
	const char *text;
	size_t len = 0, most = 0;
	struct pair p;

	if (bytes == NULL)
		exit(99);
	pair_open(&p);
	memset(bytes, 'q', FRAME_MAX + 100);
	digest_text(p.other, bytes, FRAME_MAX + 100, want);
	put_head(&p, FRAME_MAX + 100);
	feed(&p, 'q', FRAME_MAX, &most);
	/* The rest, a good one, and the next long one in a single piece. */
	put(&p, bytes, 100);
	put(&p, "\0\0\0\2ok", 6);
	put_head(&p, FRAME_MAX + 7);
	put(&p, bytes, 5);
	while (take(&p) > 0)
		;
	ok(frame_next(&p.f, &text, &len, hash) == FRAME_TOO_LARGE,
	    "thrown away up to its end");
	is_str(hash, want, "its hash is of all its bytes and no others");
	ok(next_is(&p, "ok"), "what follows is untouched");
	ok(nothing(&p), "the next long one is not there yet");
	feed(&p, 'q', FRAME_MAX + 2, &most);
	digest_text(p.other, bytes, FRAME_MAX + 7, want);
	ok(frame_next(&p.f, &text, &len, hash) == FRAME_TOO_LARGE,
	    "the next long one");
	is_str(hash, want, "has a hash of its own");
	ok(nothing(&p) && p.f.in.len == 0, "and nothing is left over");
	pair_close(&p);
	free(bytes);
}

static void
test_lie(void)
{
	size_t most = 0;
	struct pair p;

	pair_open(&p);
	put_head(&p, UINT32_MAX);
	feed(&p, '\0', (size_t)8 * 1024 * 1024, &most);
	ok(nothing(&p), "0xFFFFFFFF: no answer while bytes are due");
	ok(most <= (size_t)256 * 1024, "0xFFFFFFFF: memory is flat (%zu)",
	    most);
	is_int(p.f.discard, (long long)UINT32_MAX - 8 * 1024 * 1024,
	    "0xFFFFFFFF: the rest is counted");
	pair_close(&p);

	pair_open(&p);
	most = 0;
	put_head(&p, FRAME_MAX);
	feed(&p, 'a', 10, &most);
	ok(most <= (size_t)128 * 1024,
	    "a length within the limit takes no memory by itself (%zu)", most);
	pair_close(&p);
}

/* A stream of many messages of many sizes, cut at random. */
static void
test_random(void)
{
	static const uint32_t sizes[] = {0, 1, 5, 4091, 4092, 4093, 65531,
	    65532, 65536, 200000, FRAME_MAX, FRAME_MAX + 1, FRAME_MAX + 70000};
	enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), ROUNDS = 60 };
	char hash[DIGEST_TEXT];
	const char *text;
	char *stream, *at;
	struct buf all;
	struct pair p;
	uint32_t order[ROUNDS];
	size_t i, n, len = 0, seen = 0;
	bool good = true;
	unsigned seed = 1;

	buf_init(&all, (size_t)ROUNDS * (FRAME_MAX + 100000));
	for (i = 0; i < ROUNDS; i++) {
		seed = seed * 1103515245 + 12345;
		order[i] = sizes[(seed >> 16) % SIZES];
		n = frame_begin(&all);
		at = buf_reserve(&all, order[i] + 1);
		if (at == NULL)
			exit(99);
		memset(at, (int)('a' + i % 26), order[i]);
		buf_advance(&all, order[i]);
		frame_end(&all, n);
	}
	pair_open(&p);
	stream = all.data;
	while (stream < all.data + all.len || frame_ready(&p.f)) {
		seed = seed * 1103515245 + 12345;
		n = (seed >> 8) % 60000;
		if (n > (size_t)(all.data + all.len - stream))
			n = (size_t)(all.data + all.len - stream);
		put(&p, stream, n);
		stream += n;
		/* As the server does: read only what is no message yet. */
		while (good &&
		       (frame_ready(&p.f) || take(&p) > 0)) {
			switch (frame_next(&p.f, &text, &len, hash)) {
			case FRAME_NOTHING:
				continue;
			case FRAME_TOO_LARGE:
				good = order[seen] > FRAME_MAX;
				break;
			case FRAME_MESSAGE:
				good =
				    len == order[seen] &&
				    (len == 0 ||
					(text[0] == (char)('a' + seen % 26) &&
					    text[len - 1] == text[0]));
				frame_done(&p.f, len);
				break;
			}
			seen++;
		}
		if (!good)
			break;
	}
	ok(good && seen == ROUNDS, "%d messages cut at random (%zu)", ROUNDS,
	    seen);
	pair_close(&p);
	buf_clear(&all);
}

int
main(void)
{
	test_pieces();
	test_descriptors();
	test_limit();
	test_thrown_away();
	test_lie();
	test_random();
	return done();
}
