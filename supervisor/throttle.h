#ifndef SUPERVISOR_THROTTLE_H
#define SUPERVISOR_THROTTLE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Skills whose brokers die as soon as they are started: each time the next start
 * waits longer, so that they take no more than their share from the others.
 */
#define THROTTLE_SKILLS	64	/* remembered at once */
#define THROTTLE_FIRST_MS	200
#define THROTTLE_MOST_MS	30000

struct throttle {
	struct throttle_skill {
		char	*name;		/* as it was asked for; or NULL */
		unsigned crashes;	/* in a row */
		int64_t	 until;		/* clock_boot */
	} skill[THROTTLE_SKILLS];
	size_t	 n;		/* in use, from the first one */
};

/* Its broker died at once: how many milliseconds its next start has to wait. */
unsigned throttle_crashed(struct throttle *, const char *skill, int64_t now);

/* Its broker did what it should: it may start at any time again. */
void	throttle_fine(struct throttle *, const char *skill);

/* When it may start (clock_boot); 0 for all that are not known. */
int64_t	throttle_until(const struct throttle *, const char *skill);

/* The next moment after now at which one of them may start; 0: none. */
int64_t	throttle_next(const struct throttle *, int64_t now);

void	throttle_clear(struct throttle *);

#endif
