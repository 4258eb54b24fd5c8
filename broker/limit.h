#ifndef BROKER_LIMIT_H
#define BROKER_LIMIT_H

#include <stdint.h>

/* A token bucket on the clock that nobody can set (SPEC 4, rate_limited). */
struct limit {
	int64_t	interval;	/* nanoseconds that earn one call; 0: unbounded */
	int64_t	burst;		/* nanoseconds of credit at most */
	int64_t	credit;
	int64_t	at;		/* when credit was right */
};

/* per_minute calls a minute, as many at once; 0 is unbounded. */
void	limit_init(struct limit *, unsigned per_minute, int64_t now);

/* Take one call: 0 if it may go on, else the milliseconds to wait. */
unsigned limit_take(struct limit *, int64_t now);

#endif
