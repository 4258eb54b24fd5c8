#ifndef SUPERVISOR_STREAMS_H
#define SUPERVISOR_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/buf.h"

/*
 * The standard streams of a skill under `supervise` (SPEC 1): pipes of ours or
 * /dev/null, never the supervisor's. Text goes in, output comes out in pieces
 * that are JSON strings; nobody looks at what it says.
 */
#define STREAMS_PIECE	16384	/* bytes of one piece of output */
#define STREAMS_MAX	(UINT64_C(16) << 20)	/* bytes taken of each stream */

struct streams {
	int	 skill[3];	/* what the skill gets; each at 10 or above */
	int	 ours[3];	/* non-blocking; -1: there is none, or no more */
	const char *in;		/* what is left for standard input; borrowed */
	size_t	 in_len;
	struct streams_out {
		char	 tail[4];	/* the beginning of a character */
		size_t	 tail_len;
		uint64_t taken;
		uint64_t dropped;	/* beyond STREAMS_MAX */
	} out[2];
};

/*
 * Open them: standard input has a pipe when in is not NULL, the output when it
 * is wanted. 0, or -1 with errno; streams_clear in any case.
 */
int	streams_open(struct streams *, const char *in, size_t in_len,
	    bool output);

/* The broker has been forked: only the skill has its ends now. */
void	streams_forked(struct streams *);

/* ours[0] is writable, or its reader is gone. False: it is to be ended. */
bool	streams_feed(struct streams *);

enum streams_event {
	STREAMS_NOTHING,	/* not now */
	STREAMS_PIECE_READ,	/* the members of a piece are in the buffer */
	STREAMS_END		/* it is to be ended */
};

/*
 * Take a piece of stream 1 or 2: "stream" and "text", and "encoding":"base64"
 * when it is no text (bytes that are not UTF-8, or a NUL), as members of a JSON
 * object. What is beyond STREAMS_MAX is counted and dropped, and the last piece
 * says how much with "dropped". last: the skill is gone, so what is not in the
 * pipe now is not its output.
 */
enum streams_event streams_take(struct streams *, int stream, bool last,
	    struct buf *);

/* Close our end of a stream, which nobody waits for any more. */
void	streams_end(struct streams *, int stream);

void	streams_clear(struct streams *);

#endif
