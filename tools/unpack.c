/*
 * What a server has packed, undone by us and not by the URL library, which
 * takes half of a packed body for all of it. Servers may mean ill: what comes
 * out at the end is for the sink to stop, and what comes out between two layers
 * has a limit of its own, for much of it can be nothing at the end.
 */

#define ZLIB_CONST
#include "tools/unpack.h"

#include <string.h>
#include <strings.h>

#define CHUNK 16384
#define BETWEEN_MAX ((size_t)32 * 1024 * 1024)
#define GZIP_FIRST 0x1f /* byte of a member */

static bool put(struct unpack *, size_t layers, const uint8_t *, size_t);

void
unpack_init(struct unpack *u, unpack_sink *sink, void *arg)
{
	memset(u, 0, sizeof(*u));
	u->sink = sink;
	u->arg = arg;
}

void
unpack_clear(struct unpack *u)
{
	size_t i;

	for (i = 0; i < u->layers; i++) {
		BrotliDecoderDestroyInstance(u->layer[i].brotli);
		inflateEnd(&u->layer[i].z); /* also if it never began */
	}
	unpack_init(u, u->sink, u->arg);
}

/* --- which codings --- */

static bool
is_word(const char *word, const char *p, size_t n)
{
	return strlen(word) == n && strncasecmp(word, p, n) == 0;
}

static void
add_coding(struct unpack *u, const char *p, size_t n)
{
	enum unpack_coding coding = UNPACK_OTHER;

	if (is_word("identity", p, n))
		return;
	if (u->layers == UNPACK_LAYERS) {
		u->layer[UNPACK_LAYERS - 1].coding = UNPACK_OTHER;
		return;
	}
	if (is_word("gzip", p, n) || is_word("x-gzip", p, n))
		coding = UNPACK_GZIP;
	else if (is_word("deflate", p, n))
		coding = UNPACK_DEFLATE;
	else if (is_word("br", p, n))
		coding = UNPACK_BROTLI;
	u->layer[u->layers++].coding = coding;
}

void
unpack_add(struct unpack *u, const char *p, size_t n)
{
	size_t i, start = 0;

	for (i = 0; i <= n; i++) {
		if (i < n && p[i] != ',' && p[i] != ' ' && p[i] != '\t')
			continue;
		if (i > start)
			add_coding(u, p + start, i - start);
		start = i + 1;
	}
}

/* --- undoing them --- */

static bool
fail(struct unpack *u)
{
	u->failed = true;
	return false;
}

/* What a layer has made goes to the next, or to the sink. */
static bool
pass(struct unpack *u, struct unpack_layer *l, const uint8_t *p, size_t n)
{
	l->made += n;
	if (l != u->layer && l->made > BETWEEN_MAX)
		return fail(u);
	return n == 0 || put(u, (size_t)(l - u->layer), p, n);
}

static bool
begin(struct unpack_layer *l, uint8_t first)
{
	int bits = MAX_WBITS;

	l->state = UNPACK_BEGUN;
	switch (l->coding) {
	case UNPACK_OTHER:
		break;
	case UNPACK_GZIP:
		return inflateInit2(&l->z, MAX_WBITS + 16) == Z_OK;
	case UNPACK_DEFLATE:
		/* The method is 8, and no packer's first block looks so. */
		if ((first & 0x0f) != 8)
			bits = -MAX_WBITS;
		return inflateInit2(&l->z, bits) == Z_OK;
	case UNPACK_BROTLI:
		l->brotli = BrotliDecoderCreateInstance(NULL, NULL, NULL);
		return l->brotli != NULL;
	}
	return false;
}

/* Behind the end: another member of gzip is part of it, all else is not. */
static void
go_on(struct unpack_layer *l, uint8_t next)
{
	l->state = UNPACK_OVER;
	if (l->coding == UNPACK_GZIP && next == GZIP_FIRST &&
	    inflateReset(&l->z) == Z_OK)
		l->state = UNPACK_BEGUN;
}

static bool
put_zlib(struct unpack *u, struct unpack_layer *l, const uint8_t *p, size_t n)
{
	uint8_t out[CHUNK];
	int result;

	l->z.next_in = p;
	l->z.avail_in = (uInt)n;
	do {
		if (l->state == UNPACK_ENDED)
			go_on(l, *l->z.next_in);
		if (l->state == UNPACK_OVER)
			return true;
		l->z.next_out = out;
		l->z.avail_out = sizeof(out);
		result = inflate(&l->z, Z_NO_FLUSH);
		if (result == Z_STREAM_END)
			l->state = UNPACK_ENDED;
		else if (result != Z_OK && result != Z_BUF_ERROR)
			return fail(u);
		if (!pass(u, l, out, sizeof(out) - l->z.avail_out))
			return false;
	} while (l->z.avail_in > 0 ||
		 (l->z.avail_out == 0 && l->state == UNPACK_BEGUN));
	return true;
}

static bool
put_brotli(struct unpack *u, struct unpack_layer *l, const uint8_t *p, size_t n)
{
	uint8_t out[CHUNK], *at;
	BrotliDecoderResult result;
	size_t room;

	if (l->state == UNPACK_ENDED)
		return true;
	do {
		at = out;
		room = sizeof(out);
		result = BrotliDecoderDecompressStream(
		    l->brotli, &n, &p, &room, &at, NULL);
		if (result == BROTLI_DECODER_RESULT_ERROR)
			return fail(u);
		if (result == BROTLI_DECODER_RESULT_SUCCESS)
			l->state = UNPACK_ENDED;
		if (!pass(u, l, out, sizeof(out) - room))
			return false;
	} while (result == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT);
	return true;
}

/* Through so many of the layers, the last of which was packed last. */
static bool
put(struct unpack *u, size_t layers, const uint8_t *p, size_t n)
{
	struct unpack_layer *l;

	if (layers == 0)
		return u->sink(u->arg, p, n);
	l = &u->layer[layers - 1];
	if (l->state == UNPACK_FRESH && !begin(l, *p))
		return fail(u);
	return l->coding == UNPACK_BROTLI ? put_brotli(u, l, p, n)
					  : put_zlib(u, l, p, n);
}

bool
unpack_put(struct unpack *u, const void *p, size_t n)
{
	return n == 0 || put(u, u->layers, p, n);
}

bool
unpack_some(const struct unpack *u)
{
	return u->layers == 0 || u->layer[u->layers - 1].state != UNPACK_FRESH;
}

bool
unpack_whole(const struct unpack *u)
{
	size_t i;

	for (i = 0; i < u->layers; i++) {
		if (u->layer[i].state == UNPACK_BEGUN)
			return false;
	}
	return !u->failed;
}
