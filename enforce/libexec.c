/*
 * Where our other programs are. A file that somebody else could have put there
 * or changed is not one of ours.
 */

#include "enforce/libexec.h"

#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "enforce/policy.h"

static bool
is_ours(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       (st.st_uid == 0 || st.st_uid == geteuid()) &&
	       (st.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
	       (st.st_mode & S_IXUSR) != 0 && policy_file_trusted(fd);
}

int
libexec_beside(char *path, size_t size)
{
	char exe[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[n > 0 ? n : 0] = '\0';
	slash = strrchr(exe, '/');
	if (slash != NULL &&
	    snprintf(path, size, "%.*s" LIBEXEC_BESIDE, (int)(slash - exe),
		exe) < (int)size)
		return 0;
	errno = ENAMETOOLONG;
	return -1;
}

static int
open_in(const char *dir, const char *name)
{
	char path[2 * PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >=
	    (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

int
libexec_open(const char *name)
{
	char dir[PATH_MAX + sizeof(LIBEXEC_BESIDE)];
	int fd = -1;

	if (libexec_beside(dir, sizeof(dir)) == 0)
		fd = open_in(dir, name);
	if (fd == -1)
		fd = open_in(LIBEXECDIR, name);
	if (fd != -1 && !is_ours(fd)) {
		close(fd);
		errno = EPERM;
		return -1;
	}
	return fd;
}
