#ifndef ENFORCE_CGROUP_H
#define ENFORCE_CGROUP_H

#include <limits.h>

/*
 * A cgroup (version 2) of the invocation's own, where the host has delegated a
 * tree to us: one more limit on memory and processes and one more way to end
 * everything at once. Never required; see cgroups(7).
 */
struct cgroup {
	int	dir_fd;		/* -1: there is none */
	int	kill_fd;	/* of cgroup.kill */
	char	path[PATH_MAX];
};

void	cgroup_init(struct cgroup *);

/*
 * Make one below the cgroup of this process. An ordinary user: where he may;
 * root: where the tree is marked as delegated (the attribute user.delegate or
 * trusted.delegate is 1), since the rest belongs to the host's manager. 0, or
 * -1 with errno and nothing made.
 */
int	cgroup_make(struct cgroup *, const char *name);

/* Limit all of it together; what the host has no controller for is left. */
void	cgroup_limit(const struct cgroup *, unsigned memory_mb,
	    unsigned processes);

/* SIGKILL to everything in it. Does nothing without one. */
void	cgroup_kill(const struct cgroup *);

/* In the process that made it, when all in it is gone. */
void	cgroup_remove(struct cgroup *);

#endif
