#ifndef SUPERVISOR_OUTFILE_H
#define SUPERVISOR_OUTFILE_H

#include <sys/types.h>

#include <limits.h>
#include <stddef.h>

#include "audit/stray.h"

/*
 * A file that appears complete or not at all: made under another name in its
 * directory before the skill starts, renamed at the end (SPEC 1).
 */
struct outfile {
	int	dir_fd;			/* -1: there is none */
	int	fd;
	char	leaf[NAME_MAX + 1];
	char	temp[STRAY_NAME];
	char	temp_path[PATH_MAX];	/* of the unfinished file */
};

void	outfile_init(struct outfile *);

/*
 * 0, or -1 with errno; EINVAL: the name is taken by something that is no
 * regular file (a link, a device), which is never replaced.
 */
int	outfile_open(struct outfile *, const char *path);
int	outfile_commit(struct outfile *, const char *text, size_t len);

/* All of a text to an open file. 0, or -1 with errno. */
int	outfile_put(int fd, const char *text, size_t len);

/*
 * A file that was not there before, whole and on disk, or none; dir_fd as for
 * openat(2). 0, or -1 with errno.
 */
int	outfile_new(int dir_fd, const char *name, mode_t mode,
	    const char *text, size_t len);

/* Forget an unfinished file. */
void	outfile_clear(struct outfile *);

#endif
