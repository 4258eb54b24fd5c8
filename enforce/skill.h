#ifndef ENFORCE_SKILL_H
#define ENFORCE_SKILL_H

#include <stddef.h>
#include <sys/types.h>

#include "enforce/policy.h"

/*
 * A skill's directory, held: whatever belongs to the skill is opened beneath
 * it, without following links and without blocking.
 */

enum skill_trouble {
	SKILL_FINE,
	SKILL_MISSING,		/* no directory, no SKILL.md: exit 127 */
	SKILL_NO_MAIN,		/* no executable main: exit 126 */
	SKILL_UNTRUSTED,	/* others could have written it: exit 5 */
	SKILL_TENANT,		/* pinned to another tenant: exit 5 */
	SKILL_BROKEN		/* the machine failed us: exit 125 */
};

/*
 * Open the directory; its absolute kernel name goes to name (PATH_MAX bytes).
 * Run by root, the directory, SKILL.md, main and everything above must not be
 * writable by others than root or the policy's skill_owners (a sticky
 * directory passes when what lies in it is theirs). SKILL_FINE and *dir_fd, or
 * a trouble and a sentence in why[].
 */
enum skill_trouble skill_open(const char *path, const struct policy *,
	    int *dir_fd, char *name, char *why, size_t whylen);

/* Is main there, regular and executable? */
enum skill_trouble skill_check_main(int dir_fd, char *why, size_t whylen);

/* Does .tenant, written by the installer, hold exactly this tenant? */
enum skill_trouble skill_check_tenant(int dir_fd, const char *tenant,
	    char *why, size_t whylen);

#endif
