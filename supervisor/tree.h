#ifndef SUPERVISOR_TREE_H
#define SUPERVISOR_TREE_H

#include <limits.h>
#include <stdbool.h>

/*
 * A directory of our own, cyberos-NAME.XXXXXX in TMPDIR or /tmp, with room for
 * 63 more bytes behind its path. 0, or -1 after a message, and path is "".
 */
int	tree_make(char path[PATH_MAX], const char *name);

/*
 * Remove a directory of ours with all that is in it. No link is followed, no
 * other file system is entered. What cannot be removed is told on standard
 * error.
 */
void	tree_remove(const char *path);

/*
 * Does the path lead to this directory or to something in it, through whatever
 * links? False also when one of them is not there.
 */
bool	tree_holds(const char *dir, const char *path);

#endif
