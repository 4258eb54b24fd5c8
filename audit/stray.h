#ifndef AUDIT_STRAY_H
#define AUDIT_STRAY_H

#include <sys/types.h>

#include "audit/store.h"

/*
 * Files in the making, run/<inv>.stray: before a process gives one a name that
 * is not to stay, that name is noted here by the broker, so that whoever cleans
 * up after a crash of both can take it away; so does the supervisor for its
 * --result. What the file says is a broker's word: nothing is removed by it but
 * a regular file with such a name, in a directory that no link leads to.
 */

#define STRAY_NAME	32	/* ".cyberos-" 16 hex digits ".tmp" NUL */

/* A fresh name of that form. */
void	stray_name(char out[STRAY_NAME]);

/*
 * Note that the process may leave name in dir (absolute, the kernel's name of
 * it); of what was noted before, the first len bytes stay. The new length, or
 * -1 with errno.
 */
off_t	stray_note(int fd, off_t len, pid_t, const char *dir, const char *name);

/*
 * After the broker: wait a moment for those processes to be dead, remove what
 * they left by what is noted behind the first from bytes, and, when from is 0,
 * the file itself. 0, also when there is none; -1 with errno: EBUSY, one of them does not die,
 * so the file stays.
 */
int	stray_remove(const struct store *, const char *inv, off_t from);

#endif
