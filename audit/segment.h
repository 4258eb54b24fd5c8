#ifndef AUDIT_SEGMENT_H
#define AUDIT_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "audit/row.h"
#include "audit/tally.h"

/*
 * The append-only chained file of one invocation (LEDGER.md). A row's
 * sequence, hash and bytes are final when it is made; what the file does not
 * take waits in memory and is written first at the next chance.
 */

enum segment_sync {
	SEGMENT_SYNC_NONE,	/* the kernel writes when it likes */
	SEGMENT_SYNC_BATCH,	/* a thread syncs, at most 5 ms after a write */
	SEGMENT_SYNC_ROW	/* on disk before segment_append returns */
};

#define SEGMENT_QUEUE_MAX	(4 * 1024 * 1024)	/* bytes that wait */

struct segment;

/*
 * Continue a chain in a file that is empty (or whose contents the caller has
 * walked): the next row is seq, after prev. The descriptor stays the caller's.
 * The digest is a plain one, borrowed. NULL with errno.
 */
struct segment	*segment_new(int fd, const char *inv, uint64_t seq,
		    const char *prev, enum segment_sync, struct digest *);

/*
 * In mode "batch" begin with the syncs, in a thread; before that nothing is
 * synced but by segment_sync and segment_end. So call it when this process has
 * confined itself: that holds for the threads it makes afterwards. Without a
 * thread the mode is "row" from here on.
 */
void		 segment_begin(struct segment *);

/*
 * Append a finished row (row_end was called). *seq (may be NULL) gets its
 * number. 0: it is in the file; 1: it waits in memory, errno says why; -1: it
 * was lost since the queue is full, and is counted.
 */
int		 segment_append(struct segment *, enum row_by,
		    const struct row *, uint64_t *seq);

/* Count a row as lost without a try to keep it. */
void		 segment_lose(struct segment *);

/*
 * Try to write what waits. 0: nothing waits any more; -1 with errno. When the
 * file is full it may go on later; after any other error, and a failed sync
 * first of all, only a new part takes rows.
 */
int		 segment_flush(struct segment *);

/*
 * The same, and wait until it is on disk (not in mode "none"); rows that come
 * later are synced one by one. 0, or -1 with errno.
 */
int		 segment_sync(struct segment *);

/* clock_boot when to try again; INT64_MAX: nothing waits. */
int64_t		 segment_retry_at(const struct segment *);

/*
 * Is a new part needed? Then it begins with row seq, which follows prev; rows
 * that no sync has covered are written again.
 */
bool		 segment_wants_part(const struct segment *, uint64_t *seq,
		    char prev[DIGEST_HEX]);

/* Here it is, an empty file; the descriptor stays the caller's. */
void		 segment_part(struct segment *, int fd);

/*
 * Is a spool wanted, a file for what the memory does not hold? Here it is, empty
 * and open for reading and writing; the descriptor stays the caller's.
 */
bool		 segment_wants_spool(const struct segment *);
void		 segment_spool(struct segment *, int fd);

/* At the end: put all that waits into the spool. False: not all of it. */
bool		 segment_rescue(struct segment *);

struct segment_counts {
	uint64_t rows;		/* made, lost ones included */
	uint64_t waiting;	/* rows that are not in the file, or in one
				   whose sync has failed */
	uint64_t delayed;	/* rows that ever had to wait */
	uint64_t lost;
	uint64_t bytes;		/* of all rows made */
};
void		 segment_counts(const struct segment *, struct segment_counts *);

/* The number of the newest row; 0: there is none. */
uint64_t	 segment_last(const struct segment *);

/* The hash of the newest row. */
const char	*segment_head(const struct segment *);

/* Flush, sync as the mode says, end the thread, free. 0 or -1 (rows left). */
int		 segment_end(struct segment *);

/* What can be wrong with the next row of a segment. */
enum segment_fault {
	SEGMENT_HOLDS,
	SEGMENT_FORM,		/* not a row of our form */
	SEGMENT_HASH,		/* its bytes are not what was hashed */
	SEGMENT_INVOCATION,	/* of another invocation */
	SEGMENT_SEQ,		/* not the next number */
	SEGMENT_PREV,		/* does not follow the row before it */
	SEGMENT_PAYLOAD,	/* no JSON, or about another invocation */
	SEGMENT_KIND,		/* a kind that its writer cannot write */
	SEGMENT_PAIR,		/* started twice, or completed without started */
	SEGMENT_MARK		/* another row with this number was marked */
};

/* A row that an anchor names. */
struct segment_mark {
	uint64_t seq;		/* 0: there is none */
	char	 head[DIGEST_HEX];	/* its hash */
};

/* What a day's totals are made of. */
struct segment_totals {
	uint64_t calls;
	uint64_t denied;
	uint64_t errors;
	uint64_t timeouts;
};

/* The four members of an object; what is missing or no number is 0. */
void		 segment_totals_read(const char *object, size_t len,
		    struct segment_totals *);

/* Add what a segment_closed says of its day: all, less the days before. */
void		 segment_totals_add(struct segment_totals *, const char *payload,
		    size_t len);

#define SEGMENT_OPEN_MAX 256	/* calls open at once: more than any broker allows */

/* What a walk over the file found. */
struct segment_walk {
	char	 inv[37];
	int64_t	 open[SEGMENT_OPEN_MAX];	/* calls started, not completed */
	uint64_t rows;
	uint64_t bytes;		/* of good rows */
	uint64_t seq;		/* of the last good row */
	uint64_t calls;		/* started, and refused without start */
	uint64_t denied;
	uint64_t errors;
	uint64_t timeouts;
	uint64_t open_calls;	/* started, never completed */
	/* Of the rows before this day, to be set before the walk, or "". */
	char	 day[CLOCK_DAY_SIZE];
	struct segment_totals before;
	bool	 in_day;	/* a row of that day or a later one has come */
	struct segment_mark mark;	/* to be set before the walk */
	uint64_t lost;		/* rows that skill.rows_lost tells of */
	bool	 damaged;	/* a complete line that does not hold */
	bool	 completed;	/* has skill.invoked_completed */
	uint64_t torn_bytes;	/* behind the last line feed */
	uint64_t pieces;	/* bytes of a line that is not at its end yet */
	char	 torn_sha256[DIGEST_HEX];
	char	 head[DIGEST_HEX];	/* hash of the last good row */
	struct tally *tally;	/* borrowed: good rows are counted there; or NULL */
};

/* Begin before row 1, which must follow prev; there is no tally yet. */
void		 segment_walk_begin(struct segment_walk *, const char *inv,
		    const char *prev);

/*
 * Take a line (without its line feed) as the next row. What it says is left in
 * *r, its payload inside the line. After a fault the walk stands where it was.
 */
enum segment_fault segment_walk_row(struct segment_walk *, const char *line,
		    size_t len, struct digest *, struct row_read *r);

/*
 * Note what lies behind the last line feed. Where a part's rows have ended, it
 * may be longer than a row: then the pieces of a line that is too long, more
 * saying whether it goes on, and after them the rest. The digest is not used
 * for anything else in between.
 */
void		 segment_walk_torn(struct segment_walk *, const char *rest,
		    size_t len, struct digest *);
void		 segment_walk_piece(struct segment_walk *, const char *piece,
		    size_t len, bool more, struct digest *);

/*
 * Go on with the rows of a part, up to the first one that does not hold or,
 * unless that is 0, before row until. 0, or -1 with errno when it could not be
 * read.
 */
int		 segment_walk_part(int fd, uint64_t until, struct digest *,
		    struct segment_walk *);

/* The same from row 1 after prev. */
int		 segment_walk(int fd, const char *inv, const char *prev,
		    struct digest *, struct segment_walk *);

#endif
