#ifndef SUPERVISOR_SWEEP_H
#define SUPERVISOR_SWEEP_H

#include "audit/log.h"
#include "audit/recover.h"

/*
 * What brokers and supervisors that died left behind: sockets, locks, status
 * pages, open books.
 */

/*
 * Recover a few of those that nobody holds, whichever, and say so in the log.
 * Each start of a supervisor does, so the rest has its turn. spool is the
 * operator's directory for it, or NULL.
 */
void	sweep_some(const struct store *, const char *spool, struct digest *,
	    const struct log *);

/* The same for all that there is, which may take its time. */
void	sweep_rest(const struct store *, const char *spool, struct digest *,
	    const struct log *);

#endif
