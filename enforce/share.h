#ifndef ENFORCE_SHARE_H
#define ENFORCE_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * What of the host a Bash call has before it, besides the private root (SPEC
 * 7.7): directories and files that were granted, and, on top of these, what is
 * out of reach whatever the globs say. Ordered by path, so that what lies
 * within another comes after it.
 */

enum share_kind {
	SHARE_WRITE,
	SHARE_READ,	/* there, and read-only */
	SHARE_EMPTY	/* covered: a directory without entries, an empty file */
};

#define SHARE_MAX	256	/* mounts of one call */

struct share {
	char		*path;	/* canonical; where it is shown, too */
	enum share_kind	 kind;
	bool		 directory;
	bool		 granted;	/* it is no cover of something else */
	bool		 within;	/* another share has its place already */
	dev_t		 dev;	/* what the path must turn out to be */
	ino_t		 ino;
	int		 source_fd;	/* O_PATH, held; -1 for SHARE_EMPTY */
	int		 tree_fd;	/* set by spawn as root: a detached mount */
};

struct shares {
	struct share	*v;
	size_t		 n;
};

void	shares_clear(struct shares *);

/*
 * Show them all below the working directory, the new root, while the old one
 * is still there. What does not turn out to be what was judged fails with
 * ESTALE; what cannot be reached by us cannot be by those below us and is left
 * out. 0, or -1 with errno. Async-signal-safe.
 */
int	shares_show(const struct shares *);

#endif
