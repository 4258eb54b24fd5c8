#ifndef ENFORCE_NARROW_H
#define ENFORCE_NARROW_H

#include <stdbool.h>
#include <stddef.h>

#include "enforce/grant.h"

/*
 * Our own processes give up what they do not need any more, so that a mistake
 * in a check is not yet a file outside (SPEC 8, DESIGN "Processes").
 */
struct narrow {
	const struct grant *grant;
	int		 memory_fd;	/* the tenant's memory root */
	bool		 landlock;	/* set by narrow_broker: the domain holds */
};

/*
 * The broker after start-up: as root the capabilities that file access and
 * ending its own sandbox take, and no others; no_new_privs; Landlock on those
 * memory directories that the scopes can reach (made when missing) and on the
 * granted prefixes; a system call filter. No thread may exist yet. 0, or -1
 * with errno when a layer that this host has could not be applied.
 */
int	narrow_broker(struct narrow *);

/* A worker, forked from the broker: no environment, a tighter filter. 0 or -1
 * with errno. */
int	narrow_worker(void);

/*
 * A worker that only reads: besides, Landlock without any right to write, and
 * a filter without the calls that change files. memory_fd is where it has the
 * memory root. 0 or -1 with errno.
 */
int	narrow_walker(const struct narrow *, int memory_fd);

/* Overwrite the environment's text, which /proc would show. */
void	narrow_environment(void);

#endif
