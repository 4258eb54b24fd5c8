#ifndef AUDIT_VERIFY_H
#define AUDIT_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/digest.h"
#include "audit/store.h"

/*
 * The whole ledger against itself (LEDGER.md, "verify"): the chain of anchors,
 * the days, and each segment against the anchors that name it. Nothing is
 * written. What runs meanwhile is read as far as it has come.
 */

enum verify_level {
	VERIFY_DAMAGED,		/* tampered with, or damaged */
	VERIFY_LEFT,		/* a crash left it: recovery's to deal with */
	VERIFY_UNREADABLE
};

struct verify_finding {
	enum verify_level level;
	char		 file[320];	/* relative to the store */
	uint64_t	 line;		/* from 1; 0: the file as such */
	const char	*check;		/* a constant word */
	char		 message[200];
};

#define VERIFY_FINDINGS_MAX	100	/* kept; the others are counted */

struct verify_report {
	uint64_t rows;		/* of segments, good ones */
	uint64_t anchors;
	uint64_t segments;	/* checked to their end */
	uint64_t running;	/* of these, still growing */
	uint64_t days;
	uint64_t lost;		/* rows that the ledger says were lost */
	uint64_t torn;		/* fragments that crashes left, as recorded */
	uint64_t hseq;		/* of the last anchor that was read */
	char	 head[DIGEST_HEX];
	uint64_t level[VERIFY_UNREADABLE + 1];	/* findings of each */
	struct verify_finding finding[VERIFY_FINDINGS_MAX];
	size_t	 n;		/* of those that are kept, in order */
};

#define VERIFY_PATIENCE	(5 * CLOCK_SECOND)

struct verify_wish {
	const char *invocation;	/* this one alone, or NULL */
	const char *day;	/* the segments of this day alone, or NULL */
	uint64_t expect_hseq;	/* this anchor must have ... */
	const char *expect_hash;	/* ... this hash; NULL: no wish */
	/* Nanoseconds to wait for an anchor that is being written. */
	int64_t patience;
	/* Called now and then with the day and how much of it is done, or NULL. */
	void (*progress)(void *, const char *day, uint64_t done, uint64_t of);
	void *arg;
};

/*
 * 0 and the report, or -1 with errno: ENOENT when there is no such day or
 * invocation, ENOMEM, or why the directories cannot be read.
 */
int	verify_run(const struct store *, const struct verify_wish *,
	    struct verify_report *);

#endif
