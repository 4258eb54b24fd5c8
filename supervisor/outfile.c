/*
 * Output files of ours. No link is followed and no device is replaced: the
 * directory is held, and the name in it is only ever the target of a rename.
 */

#include "supervisor/outfile.h"

#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
outfile_init(struct outfile *o)
{
	memset(o, 0, sizeof(*o));
	o->dir_fd = o->fd = -1;
}

static int
split(const char *path, char dir[PATH_MAX], char leaf[NAME_MAX + 1])
{
	const char *slash = strrchr(path, '/');
	const char *name = slash == NULL ? path : slash + 1;
	size_t n = slash == NULL ? 0 : (size_t)(slash - path);

	if (name[0] == '\0' || strcmp(name, ".") == 0 ||
	    strcmp(name, "..") == 0 || n >= PATH_MAX ||
	    strlcpy(leaf, name, NAME_MAX + 1) > NAME_MAX) {
		errno = EINVAL;
		return -1;
	}
	if (slash == NULL)
		strlcpy(dir, ".", PATH_MAX);
	else if (n == 0)
		strlcpy(dir, "/", PATH_MAX);
	else
		snprintf(dir, PATH_MAX, "%.*s", (int)n, path);
	return 0;
}

/* Nothing is there, or a regular file whose place another one can take. */
static bool
replaceable(const struct outfile *o)
{
	struct stat st;

	if (fstatat(o->dir_fd, o->leaf, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return errno == ENOENT;
	return S_ISREG(st.st_mode);
}

int
outfile_open(struct outfile *o, const char *path)
{
	char dir[PATH_MAX];

	if (split(path, dir, o->leaf) == -1)
		return -1;
	o->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (o->dir_fd == -1)
		return -1;
	if (!replaceable(o)) {
		close(o->dir_fd);
		o->dir_fd = -1;
		errno = EINVAL;
		return -1;
	}
	stray_name(o->temp);
	snprintf(o->temp_path, sizeof(o->temp_path), "%.4000s/%s", dir,
	    o->temp);
	o->fd = openat(o->dir_fd, o->temp,
	    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (o->fd == -1) {
		close(o->dir_fd);
		o->dir_fd = -1;
		return -1;
	}
	return 0;
}

int
outfile_put(int fd, const char *text, size_t len)
{
	ssize_t n;

	while (len > 0) {
		n = write(fd, text, len);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return -1;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

int
outfile_new(int dir_fd, const char *name, mode_t mode, const char *text,
    size_t len)
{
	int saved, fd;

	fd = openat(dir_fd, name,
	    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd == -1)
		return -1;
	if (outfile_put(fd, text, len) == 0 && fsync(fd) == 0)
		return close(fd);
	saved = errno;
	close(fd);
	unlinkat(dir_fd, name, 0);
	errno = saved;
	return -1;
}

int
outfile_commit(struct outfile *o, const char *text, size_t len)
{
	if (outfile_put(o->fd, text, len) == -1)
		return -1;
	if (!replaceable(o)) {
		errno = EINVAL;
		return -1;
	}
	if (fsync(o->fd) == -1 ||
	    renameat(o->dir_fd, o->temp, o->dir_fd, o->leaf) == -1)
		return -1;
	o->temp[0] = '\0';
	return 0;
}

void
outfile_clear(struct outfile *o)
{
	if (o->dir_fd != -1) {
		if (o->temp[0] != '\0')
			unlinkat(o->dir_fd, o->temp, 0);
		close(o->dir_fd);
	}
	if (o->fd != -1)
		close(o->fd);
	outfile_init(o);
}
