#ifndef AUDIT_ANCHOR_H
#define AUDIT_ANCHOR_H

#include <stdbool.h>
#include <stdint.h>

#include "audit/digest.h"
#include "audit/row.h"
#include "audit/store.h"

/*
 * The host ledger (LEDGER.md): one chain of anchors a host, one file a day,
 * written by supervisors under a lock that is held for microseconds and waited
 * for at most ANCHOR_WAIT_MS. No broker ever touches it.
 */

#define ANCHOR_WAIT_MS	10000

struct anchor {
	uint64_t hseq;
	char	 hash[DIGEST_HEX];
	char	 day[CLOCK_DAY_SIZE];	/* in whose file it stands */
};

/*
 * The day that the ledger is at, whose files anchors and new segments go into:
 * today (UTC), or a later one that is there, for a clock that was set back over
 * midnight must not fork the chain. 0 or -1 with errno.
 */
int	anchor_day(const struct store *, char day[CLOCK_DAY_SIZE]);

/*
 * Append an anchor (row_end was called on it) to the file of anchor_day; opens
 * the day if it is the first. A torn last line is closed and named by
 * audit.recovered first; audit.clock_step tells of a clock that is more than a
 * second behind the anchor before. 0 and *a, or -1 with errno; ETIMEDOUT when
 * the lock was not to be had.
 */
int	anchor_append(const struct store *, const struct row *, enum row_by,
	    struct digest *, struct anchor *a);

/*
 * The same for a row that says something of the day that it stands in: -1 with
 * EAGAIN when the ledger is at another one.
 */
int	anchor_append_to(const struct store *, const char *day,
	    const struct row *, enum row_by, struct digest *, struct anchor *a);

/*
 * Mend what a crash left at the end of the newest day, as the next anchor would:
 * a row that lacks its line feed counts from then on. Before anchors are read to
 * act by them. 1: there was something, 0, or -1 with errno.
 */
int	anchor_mend(const struct store *, struct digest *);

/* fdatasync today's file as far as the anchor; 0 or -1 with errno. */
int	anchor_sync(const struct store *, const struct anchor *);

/* What the closed segments of a day add up to. */
struct anchor_totals {
	uint64_t hseq;		/* of the last anchor that is in */
	uint64_t offset;	/* where the next one begins in the file */
	uint64_t calls;
	uint64_t denied;
	uint64_t errors;
	uint64_t timeouts;
};

/* The text of a kept sum, exactly as it is written; false: another one. */
#define ANCHOR_TOTALS_SIZE 256
bool	anchor_totals_parse(const char *, size_t, struct anchor_totals *);

/*
 * Totals of a day: the sum that the supervisors keep in "totals" plus the
 * anchors written after it. A missing or foreign sum is no error: the day is
 * read from its start. 0, or -1 with errno; a day without anchors is all zero.
 */
int	anchor_totals(const struct store *, const char *day,
	    struct anchor_totals *);

/*
 * Does an anchor of that day close this segment? Then its counts are in the
 * totals. 1, 0, or -1 with errno.
 */
int	anchor_closed(const struct store *, const char *day, const char *inv);

/* Bring the kept sum of a day up to date. 0 or -1 with errno. */
int	anchor_keep_totals(const struct store *, const char *day);

#endif
