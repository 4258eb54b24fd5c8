#ifndef AUDIT_BOOKS_H
#define AUDIT_BOOKS_H

#include "audit/anchor.h"
#include "audit/segment.h"
#include "audit/store.h"

/*
 * A disk that fails so often is given up. The last two are kept for the end: for
 * what was not written yet, and for the row that says how it ended.
 */
#define BOOKS_PARTS_MAX 1000
#define BOOKS_PARTS_LIVE (BOOKS_PARTS_MAX - 2)

/* The parts that have an anchor, and the row before which each begins. */
struct books_parts {
	unsigned n;
	uint64_t start[BOOKS_PARTS_MAX];
};

/*
 * Closing the books of an invocation, whoever does it: its supervisor, or, when
 * that died as well, recovery (LEDGER.md). Whoever closes holds the lock
 * run/<inv>.lock, so nobody else does.
 */
struct books {
	const struct store *store;
	struct digest	*digest;	/* a plain one */
	enum row_by	 by;		/* supervisor or recovery */
	const char	*inv;
	char		 day[CLOCK_DAY_SIZE];	/* in which it was opened */
	int		 day_fd;
	const char	*opened;	/* hash of its segment_opened */
	const char	*skill_id;	/* or NULL */
	const char	*version;	/* or NULL */
	const char	*trace_id;
	const char	*spool;		/* the operator's directory, or NULL */
	bool		 sync;		/* a part is on disk with its anchor, or none */
	struct tally	*tally;		/* rows are counted there as they are walked; or NULL */
	uint64_t	 spooled;	/* rows that the spool had; set by books_merge */
	uint64_t	 placed;	/* of these, in the new part */
	uint64_t	 unplaced;	/* of these, behind a gap or a fork: lost */
	struct books_parts parts;	/* what the anchors say */
	struct segment_mark mark;	/* the newest one, or none */
	struct segment_walk walk;	/* set by books_walk */
};

/*
 * Read and hash all parts again, each up to where its successor begins, up to
 * the first row that does not hold. A file that no anchor names is none. 0, or
 * -1 with errno: ENOENT when the first part is missing (such books are never
 * closed).
 */
int	books_walk(struct books *);

/*
 * Begin the next part of a segment that is being written, with its anchor: it
 * follows the last row of the walk. A descriptor that appends, or -1 with errno
 * (EXFULL: there are BOOKS_PARTS_LIVE already); then there may be one that stays
 * empty.
 */
int	books_part(struct books *);

/*
 * Put into a new part, in order, what the spool has and what a part has that was
 * given up before the next one got it again; and remove the spool, unless it has
 * rows that have no place. A row of another hash than the one in its place is a
 * fork, and a complete line of the spool that is no row of this invocation is
 * nobody's: then the walk is damaged, and the spool is left; as it is when the
 * row that was marked is not there now. 0, also when there is nothing, or -1 with
 * errno; then the spool is left as well, and a part that nothing came into is
 * taken by the next try.
 */
int	books_merge(struct books *);

/* fdatasync all parts. 0 or -1 with errno. */
int	books_sync(const struct books *);

/* How an invocation ended that nobody has recorded the end of. */
struct books_end {
	const char	*outcome;
	int64_t		 duration_ms;
	const char	*error_message;
};

/*
 * Write skill.invoked_completed into a new part, and its anchor. After
 * books_walk, when that found no such row and no damage. 0 or -1 with errno.
 */
int	books_end(struct books *, const struct books_end *);

/*
 * Append audit.segment_closed: "damaged" whatever the reason when the segment
 * does not hold. 0 and the anchor, or -1 with errno.
 */
int	books_close(struct books *, const char *reason, uint64_t lost,
	    struct anchor *);

#endif
