#ifndef TOOLS_UNPACK_H
#define TOOLS_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <brotli/decode.h>
#include <zlib.h>

/*
 * The codings of a body undone as it comes, two of them at most: gzip (RFC
 * 1952, several members are one text), deflate (with zlib's frame or, as some
 * servers have it, without) and br. It knows whether each has come to its end.
 */

#define UNPACK_LAYERS	2

/* Takes what is unpacked. False: it wants no more. */
typedef bool unpack_sink(void *arg, const uint8_t *, size_t);

struct unpack_layer {
	enum unpack_coding {
		UNPACK_OTHER,	/* nobody can undo it here */
		UNPACK_GZIP,
		UNPACK_DEFLATE,
		UNPACK_BROTLI
	} coding;
	enum unpack_state {
		UNPACK_FRESH,
		UNPACK_BEGUN,
		UNPACK_ENDED,
		UNPACK_OVER	/* what comes is not part of it */
	} state;
	size_t	 made;		/* bytes */
	z_stream z;
	BrotliDecoderState *brotli;
};

struct unpack {
	struct unpack_layer layer[UNPACK_LAYERS]; /* in the order of packing */
	size_t	 layers;
	bool	 failed;	/* it cannot be undone */
	unpack_sink *sink;
	void	*arg;
};

/* No coding yet: what is put goes through. */
void	unpack_init(struct unpack *, unpack_sink *, void *arg);

/* As after unpack_init. */
void	unpack_clear(struct unpack *);

/* More codings, as the value of a Content-Encoding field has them. */
void	unpack_add(struct unpack *, const char *, size_t);

/* False: failed is set, or the sink wants no more. */
bool	unpack_put(struct unpack *, const void *, size_t);

/* Did anything come? True without a coding. */
bool	unpack_some(const struct unpack *);

/* Has all that came come to its end? */
bool	unpack_whole(const struct unpack *);

#endif
