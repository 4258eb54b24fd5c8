#ifndef ENFORCE_NOTIFY_H
#define ENFORCE_NOTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "enforce/spawn.h"

/*
 * Refused escape attempts, as init sees them: seccomp user notifications are
 * answered with an errno, never "continue", and folded, so that a flood costs
 * the skill its own time and nobody else's (SPEC 8). Private to enforce/.
 */

#define NOTIFY_DISTINCT	63	/* told one by one; the rest is counted */
struct notify {
	int	 fd;		/* the listener; -1: none (yet) */
	size_t	 n;
	uint64_t rest;
	uint64_t rest_told;
	int64_t	 rest_at;	/* when it was told last */
	struct { int nr; char target[SPAWN_TARGET]; } seen[NOTIFY_DISTINCT];
	size_t	 told;		/* of seen */
	const char *socket_path;	/* connect to it is done for the skill */
	_Atomic uint64_t *all;		/* how many there were */
};

/* socket_path NULL: connect is not notified. Each attempt is added to *all before
 * it is answered. Allocates nothing. */
void	notify_init(struct notify *, const char *socket_path,
	    _Atomic uint64_t *all);

/* Answer a bounded batch. False when the last task of the filter is gone. */
bool	notify_serve(struct notify *);

/*
 * What is to be told now: each distinct attempt once, the rest as a running
 * total, at most every 100 ms or with last set. False: nothing.
 */
bool	notify_take(struct notify *, bool last, struct spawn_attempt *);

/* In how many milliseconds there is something to tell, for poll(2); -1: nothing. */
int	notify_due(const struct notify *);

#endif
