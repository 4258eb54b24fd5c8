#ifndef ENFORCE_FILTER_H
#define ENFORCE_FILTER_H

#include "enforce/seccomp.h"

/*
 * The system call filters of this machine, compiled from the tables of
 * seccomp.c when we were built (filter_main.c prints them). Private to enforce/.
 */

/* Four forms for a skill (for Bash two differ), one for each other role. */
#define FILTER_FORMS(role) \
	((role) == SECCOMP_SKILL || (role) == SECCOMP_BASH ? 4U : 1U)
#define FILTER_COUNT	(2 * 3 + SECCOMP_ROLES)

/* One of them; the arguments are those of seccomp_compile. Never NULL. */
const struct seccomp_program *filter_of(enum seccomp_role, bool notify,
	    bool bare);

/*
 * Load it in this process; no_new_privs must be set. With listener the
 * descriptor of the notifications is returned (close-on-exec), else 0; -1 with
 * errno. Async-signal-safe.
 */
int	filter_enter(const struct seccomp_program *, bool listener);

/* The generated table, in the order of filter_index. */
extern const struct seccomp_program filter_table[FILTER_COUNT];

static inline unsigned
filter_index(enum seccomp_role role, bool notify, bool bare)
{
	unsigned form = (notify ? 2U : 0U) + (bare ? 1U : 0U);

	return FILTER_FORMS(role) == 1 ? 6U + (unsigned)role
				       : 4U * (unsigned)role + form;
}

#endif
