#ifndef SUPERVISOR_SWEEP_H
#define SUPERVISOR_SWEEP_H

#include "audit/log.h"
#include "audit/recover.h"

/*
 * What brokers and supervisors that died left behind: sockets, locks, status
 * pages, open books.
 */

/*
 * spool is the operator's directory for it, or NULL.
 * Look at a few locks, whichever; recover those that nobody holds and say so in
 * the log. Each start of a supervisor does, so the rest has its turn.
 */
void	sweep_some(const struct store *, const char *spool, struct digest *,
	    const struct log *);

#endif
