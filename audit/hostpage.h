#ifndef AUDIT_HOSTPAGE_H
#define AUDIT_HOSTPAGE_H

#include "audit/metrics.h"
#include "audit/store.h"
#include "audit/tally.h"

/*
 * The metrics of a host: run/metrics of its store has the sum of all invocations
 * that have ended, and each other one has a page of its own (counters.h). When
 * one ends, whoever closes its books folds its page into the sum: exactly once,
 * whenever he is killed, since the sum says whose page was the last one in it,
 * and that is removed before another one comes in. So a page that is there, but
 * that one, is not in the sum, and page and sum together are right at any moment.
 * No broker has the sum, and none waits for its lock.
 *
 * run/metrics is a header and two slots, in the host's byte order: the newest sum
 * is in the one that the header names, and the next is written to the other one.
 */

#define HOSTPAGE_FILE		"metrics"
#define HOSTPAGE_WAIT_MS	10000

/*
 * Make the sum, with these names, unless it is there: before a broker starts, so
 * that readers without a registry know the names. 0, or -1 with errno.
 */
int	hostpage_make(const struct store *, const struct tally_names *);

/*
 * Fold the page of an invocation that has ended, and remove it; the caller holds
 * its lock. rows: what its ledger says (recount_row), which counts where the page
 * has less; or NULL. 0, also when there is no page any more; -1 with errno, and
 * the page is left where it is for another try.
 */
int	hostpage_fold(const struct store *, const char *inv,
	    const struct tally_names *, const struct tally *rows);

/*
 * Add to the sum what no invocation has a page for: a tally made with the same
 * names. The lock is waited for so long. 0, or -1 with errno.
 */
int	hostpage_add(const struct store *, const struct tally_names *,
	    const struct tally *, int64_t wait_ms);

/*
 * Everything up to now. Only run_fd of the store is used, and nothing is written.
 * names: those of the caller's registry, or NULL when it has none. 0, or -1 with
 * errno; a store without a sum yet is all zero, since now.
 */
int	hostpage_read(const struct store *, const struct tally_names *,
	    struct metrics *);

#endif
