/*
 * Showing a part of the host in a new root, against those who change that part
 * meanwhile: no link is followed on the way to a mount point, nothing is made
 * in a directory of the host, and what is mounted, or mounted over, is compared
 * with what was judged. A share that is not what it was ends the start.
 */

#include "enforce/share.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ATTR_SHARED                                                            \
	(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)
/* Also a name in the root: what covers a file is a copy of its mount. */
#define EMPTY_FILE ".empty"

void
shares_clear(struct shares *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		free(s->v[i].path);
		if (s->v[i].source_fd != -1)
			close(s->v[i].source_fd);
		if (s->v[i].tree_fd != -1)
			close(s->v[i].tree_fd);
	}
	free(s->v);
	s->v = NULL;
	s->n = 0;
}

static int
open_plain(int dir_fd, const char *name)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
		    RESOLVE_BENEATH };

	return (int)syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));
}

static int
make(int dir_fd, const char *name, bool directory)
{
	int fd;

	if (directory)
		return mkdirat(dir_fd, name, 0755);
	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
	    0444);
	if (fd == -1)
		return -1;
	return close(fd);
}

/*
 * Its mount point below the working directory, component by component. In our
 * own root what is missing is made; in another share nothing is.
 */
static int
open_point(const struct share *s)
{
	char name[256];
	const char *at = s->path, *end;
	int fd = open_plain(AT_FDCWD, "."), next;
	size_t n;

	while (fd != -1 && *at == '/') {
		end = strchrnul(++at, '/');
		n = (size_t)(end - at);
		if (n == 0 || n >= sizeof(name)) {
			close(fd);
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(name, at, n);
		name[n] = '\0';
		next = open_plain(fd, name);
		if (next == -1 && errno == ENOENT && !s->within &&
		    make(fd, name, *end == '/' || s->directory) == 0)
			next = open_plain(fd, name);
		close(fd);
		fd = next;
		at = end;
	}
	return fd;
}

static bool
is_same(int fd, const struct share *s)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_dev == s->dev &&
	    st.st_ino == s->ino;
}

/* A detached mount without anything in it. */
static int
take_empty(bool directory)
{
	int fs, fd = -1;

	if (!directory)
		return open_tree(AT_FDCWD, EMPTY_FILE,
		    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	if (fs == -1)
		return -1;
	/* Room for the mount points of what was granted in it all the same. */
	if (fsconfig(fs, FSCONFIG_SET_STRING, "size", "64k", 0) == 0 &&
	    fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", "600", 0) == 0 &&
	    fsconfig(fs, FSCONFIG_SET_STRING, "mode", "755", 0) == 0 &&
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		fd = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	close(fs);
	return fd;
}

/* The mount itself, and what must hold of everything in it. */
static int
take_tree(const struct share *s)
{
	struct mount_attr attr = { .attr_set = ATTR_SHARED };
	int fd = s->tree_fd;

	if (s->kind == SHARE_READ || (s->kind == SHARE_EMPTY && !s->directory))
		attr.attr_set |= MOUNT_ATTR_RDONLY;
	if (s->kind == SHARE_EMPTY)
		fd = take_empty(s->directory);
	else if (fd != -1)
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	else
		fd = open_tree(AT_FDCWD, s->path,
		    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE |
			AT_SYMLINK_NOFOLLOW);
	if (fd == -1)
		return -1;
	if (mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
		sizeof(attr)) == -1) {
		close(fd);
		return -1;
	}
	if (s->kind != SHARE_EMPTY && !is_same(fd, s)) {
		close(fd);
		errno = ESTALE;
		return -1;
	}
	return fd;
}

static int
show(const struct share *s)
{
	int point, tree, result;

	point = open_point(s);
	if (point == -1) /* /usr and its like are there, and read-only */
		return errno == EACCES || errno == EROFS ? 0 : -1;
	/* Within another share it is the thing itself that is covered, or
	 * made read-only, and not what took its place. */
	if (s->within && !is_same(point, s)) {
		close(point);
		errno = ESTALE;
		return -1;
	}
	tree = take_tree(s);
	if (tree == -1) {
		close(point);
		return -1;
	}
	result = move_mount(tree, "", point, "",
	    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
	close(tree);
	close(point);
	return result;
}

/* Nothing is written into what only covers something. */
static int
seal(const struct share *s)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
	int point, result;

	if (s->kind != SHARE_EMPTY || !s->directory)
		return 0;
	point = open_point(s);
	if (point == -1)
		return errno == EACCES ? 0 : -1;
	result = mount_setattr(point, "", AT_EMPTY_PATH, &attr, sizeof(attr));
	close(point);
	return result;
}

int
shares_show(const struct shares *all)
{
	size_t i;

	if (make(AT_FDCWD, EMPTY_FILE, false) == -1)
		return -1;
	for (i = 0; i < all->n; i++) {
		if (show(&all->v[i]) == -1)
			return -1;
	}
	for (i = 0; i < all->n; i++) {
		if (seal(&all->v[i]) == -1)
			return -1;
	}
	return 0;
}
