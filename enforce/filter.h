#ifndef ENFORCE_FILTER_H
#define ENFORCE_FILTER_H

#include "enforce/seccomp.h"

/*
 * The system call filters of this machine, compiled from the tables of
 * seccomp.c when we were built (filter_main.c prints them). Private to enforce/.
 */

/* How many there are: the skill's in four forms, one for each other role. */
#define FILTER_COUNT	(3 + SECCOMP_ROLES)

/* One of them; the arguments are those of seccomp_compile. Never NULL. */
const struct seccomp_program *filter_of(enum seccomp_role, bool notify,
	    bool connect_notified);

/*
 * Load it in this process; no_new_privs must be set. With listener the
 * descriptor of the notifications is returned (close-on-exec), else 0; -1 with
 * errno. Async-signal-safe.
 */
int	filter_enter(const struct seccomp_program *, bool listener);

/* The generated table, in the order of filter_index. */
extern const struct seccomp_program filter_table[FILTER_COUNT];

static inline unsigned
filter_index(enum seccomp_role role, bool notify, bool connect_notified)
{
	if (role != SECCOMP_SKILL)
		return 3U + (unsigned)role;
	return (notify ? 2U : 0U) + (connect_notified ? 1U : 0U);
}

#endif
