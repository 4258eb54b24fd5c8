#ifndef ENFORCE_MOUNT_H
#define ENFORCE_MOUNT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * The mounts of this namespace as they were at one moment. A mount may show a
 * part of a file system only, as bind mounts do; then ".." goes from its root
 * to where it is mounted, and the directories that really lie above it can be
 * found only by another mount that shows more.
 */
struct mounts;

/* NULL with errno. */
struct mounts	*mounts_new(void);
void		 mounts_free(struct mounts *);

/*
 * Another path for the root of the mount with this id, by a mount that shows
 * more of the same file system. nth counts from 0; false: there is no such.
 * Something else may be mounted over it: compare before you believe it.
 */
bool		 mounts_origin(const struct mounts *, uint64_t id, size_t nth,
		    char path[PATH_MAX]);

/*
 * All names of a canonical path: by the mount that it is in, and by each other
 * one that shows the same part of that file system. The same in nth and
 * result, and the same warning.
 */
bool		 mounts_name(const struct mounts *, const char *path,
		    size_t nth, char name[PATH_MAX]);

/*
 * Where mount i is ("" is the root directory), and its id; NULL: there are no
 * more. One that another covers at the same point has the point of that one,
 * which comes later.
 */
const char	*mounts_point(const struct mounts *, size_t i, uint64_t *id);

/*
 * fstatat(2), links not followed, that tells the mount as well; 0 where the
 * kernel cannot. An empty name is the descriptor itself. 0, or -1 with errno.
 */
int		 mounts_stat(int dir_fd, const char *name, struct stat *,
		    uint64_t *id);

#endif
