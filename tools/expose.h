#ifndef TOOLS_EXPOSE_H
#define TOOLS_EXPOSE_H

#include "enforce/share.h"
#include "tools/call.h"

/*
 * What a Bash call sees of the host (SPEC 7.7): the directories of globs that
 * end in slash and two stars, the files that the others match now, and, over
 * these, what is out of reach or read-only whatever the globs say.
 */

/* Something protected, as it was when the invocation began. */
struct expose_place {
	char	path[PATH_MAX];		/* canonical as far as it is there */
	bool	closed;			/* else read-only */
	bool	there;			/* it was, then */
	bool	directory;
	dev_t	dev, parent_dev;
	ino_t	ino, parent_ino;	/* 0: its directory was not there either */
};

/* Fill one in; the path need not exist. */
void	expose_place(struct expose_place *, const char *path, bool closed);

/*
 * What does a call see of a directory, whose path is canonical: nothing that was
 * granted, a part of a granted one, which can be covered, or itself what was
 * granted?
 */
enum expose_part { EXPOSE_NOT, EXPOSE_INSIDE, EXPOSE_ITSELF };

enum expose_part expose_part(const struct invocation *, const char *dir);

/* Has each file system that may be written the operator's min_free_mb? */
bool	expose_has_room(const struct invocation *, const struct shares *);

/*
 * Collect them, at most SHARE_MAX, in order. FAIL_NONE; FAIL_TOO_LARGE when
 * there are more or they are not found in time, FAIL_NO_SPACE when a file system
 * among them is under the operator's min_free_mb, FAIL_IO_ERROR. shares_clear
 * it in any case.
 */
enum failure expose_collect(const struct invocation *,
	    const struct expose_place *, size_t n, struct shares *);

#endif
