#ifndef BROKER_FRAME_H
#define BROKER_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/buf.h"
#include "audit/digest.h"
#include "enforce/fdpass.h"

/*
 * Messages on the socket: a 4-byte big-endian length, then that many bytes
 * (SPEC 5). The length is compared before anything is kept; memory grows with
 * the bytes that came, never with the number that was announced.
 */

#define FRAME_MAX	((uint32_t)1048576)	/* bytes of a request */

struct frame {
	struct buf	 in;		/* bytes not used yet */
	uint32_t	 discard;	/* of a too long message, still to come */
	bool		 discarding;
	struct digest	*digest;	/* of the message thrown away; borrowed */
};

enum frame_event {
	FRAME_NOTHING,		/* no complete message yet */
	FRAME_MESSAGE,		/* text and length; valid until frame_done */
	FRAME_TOO_LARGE		/* one was read to its end and thrown away */
};

/* The digest may be keyed; it must belong to this frame alone. */
void	frame_init(struct frame *, struct digest *);
void	frame_clear(struct frame *);

/*
 * Read once from a non-blocking socket. So many bytes came; 0: end of file; -1
 * with errno (EAGAIN: nothing there). Descriptors that came along are the
 * caller's, to be closed; they end at the first -1, if there is one.
 */
int	frame_read(struct frame *, int fd, int passed[FDPASS_MAX]);

/* What is complete now? For FRAME_TOO_LARGE hash gets the digest's text. */
enum frame_event frame_next(struct frame *, const char **text, size_t *len,
	    char hash[DIGEST_TEXT]);
void	frame_done(struct frame *, size_t len);

/* Would frame_next return something? */
bool	frame_ready(const struct frame *);

/* Begin a message in out, and set its length once it is complete. */
size_t	frame_begin(struct buf *out);
void	frame_end(struct buf *out, size_t begun);

#endif
