#ifndef SUPERVISOR_TRAIL_H
#define SUPERVISOR_TRAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "audit/lines.h"
#include "audit/row.h"
#include "audit/store.h"

/*
 * The rows of one invocation for those who read along: over all parts of its
 * segment, each row once, while it may still grow.
 */
struct trail {
	const struct store *store;
	struct digest	*digest;
	char		 inv[STORE_UUID_SIZE];
	char		 day[CLOCK_DAY_SIZE];
	unsigned	 part;		/* the present one */
	uint64_t	 line;		/* in it */
	uint64_t	 seq;		/* of the last row */
	bool		 bad;		/* rows since then do not hold */
	int		 fd;
	struct lines	 lines;
};

enum trail_event {
	TRAIL_ROW,
	TRAIL_END,	/* nothing more yet */
	TRAIL_BAD,	/* the next line does not hold; there it ends */
	TRAIL_FAILED	/* errno says why it cannot be read */
};

struct trail_row {
	struct row_read	 row;
};

/* Find its segment, the newest day first. 0, or -1 with errno: ENOENT, there is
 * no such invocation. */
int	trail_open(struct trail *, const struct store *, const char *inv,
	    struct digest *);
void	trail_close(struct trail *);

/* The next row; its payload is valid until the next call. */
enum trail_event trail_next(struct trail *, struct trail_row *);

/*
 * A member of the payload as text: a string without its quotes and escapes, any
 * other value as it stands; NULL when it is missing or null. The caller frees.
 */
char	*trail_text(const struct trail_row *, const char *name);

/* The same for a terminal, "-" for NULL: control, C1 and bidirectional
 * characters escaped. Returns out. */
const char *trail_show(const char *text, char *out, size_t size);

/* Is it written by us, and of this kind? What a skill wrote is no fact. */
bool	trail_is(const struct trail_row *, enum row_kind);

#endif
