#ifndef SUPERVISOR_CAUTION_H
#define SUPERVISOR_CAUTION_H

#include "enforce/manifest.h"

/*
 * What is allowed in a SKILL.md and yet seldom meant: grants that are wider
 * than an author thinks, or that grant nothing at all. A caution refuses
 * nothing.
 */

/* The message says what to write instead; it is printable and ends with it. */
typedef void caution_report(void *arg, const char *field,
    const struct manifest_place *, const char *message);

/*
 * Report every caution of a manifest without errors. home is a home directory
 * that counts like /root and those below /home, or NULL. 0, or -1 with ENOMEM.
 */
int	caution_each(const struct manifest *, const char *home,
	    caution_report *, void *arg);

#endif
