/*
 * A socket that nobody else could reach or exchange at any moment: it is born
 * in a directory that is closed to others, every name is looked up beneath a
 * directory that is held, and a move without replacement makes the socket
 * appear complete or not at all. Against whoever can write in the socket
 * directory: a name that is taken is left as it is.
 */

#include "broker/socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/broker.h"

#define BACKLOG 64

void
socket_init(struct socket_place *s)
{
	memset(s, 0, sizeof(*s));
	s->dir_fd = s->nest_fd = s->listen_fd = s->held_fd = -1;
}

static void
close_fd(int *fd)
{
	if (*fd != -1)
		close(*fd);
	*fd = -1;
}

static void
leave_nest(struct socket_place *s)
{
	if (s->nest_fd != -1)
		unlinkat(s->nest_fd, SOCKET_NEST_LEAF, 0);
	close_fd(&s->nest_fd);
}

void
socket_settle(struct socket_place *s)
{
	leave_nest(s);
	if (s->nested)
		unlinkat(s->dir_fd, s->nest, AT_REMOVEDIR);
	s->nested = false;
	close_fd(&s->dir_fd);
}

static bool
answers(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	bool refused;
	int fd;

	if (strlcpy(sun.sun_path, path, sizeof(sun.sun_path)) >=
	    sizeof(sun.sun_path))
		return true;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	refused = fd != -1 &&
	    connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == -1 &&
	    errno == ECONNREFUSED;
	if (fd != -1)
		close(fd);
	return !refused;
}

bool
socket_sweep(const char *dir, const char *invocation, dev_t dev, ino_t ino,
    bool ask)
{
	char path[PATH_MAX], leaf[PATH_MAX + 8];
	struct stat st;
	bool removed = false;

	snprintf(path, sizeof(path), "%.3900s/%s%.36s%s", dir,
	    BROKER_SOCKET_PREFIX, invocation, BROKER_SOCKET_SUFFIX);
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	    st.st_dev == dev && st.st_ino == ino && (!ask || !answers(path)))
		removed = unlink(path) == 0;
	snprintf(path, sizeof(path), "%.3900s/" SOCKET_NEST_PREFIX "%.36s",
	    dir, invocation);
	snprintf(leaf, sizeof(leaf), "%s/" SOCKET_NEST_LEAF, path);
	if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
	    st.st_uid == geteuid() && (st.st_mode & 077) == 0) {
		unlink(leaf);
		removed = rmdir(path) == 0 || removed;
	}
	return removed;
}

void
socket_clear(struct socket_place *s)
{
	socket_settle(s);
	close_fd(&s->listen_fd);
	close_fd(&s->held_fd);
}

/* A directory of ours that is closed to everybody else. */
static int
make_nest(struct socket_place *s)
{
	struct stat st;

	if (mkdirat(s->dir_fd, s->nest, 0700) == -1)
		return -1;
	s->nest_fd = openat(s->dir_fd, s->nest,
	    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->nest_fd == -1 || fstat(s->nest_fd, &st) == -1)
		return -1;
	if (st.st_uid == geteuid() && (st.st_mode & 077) == 0) {
		s->nested = true;
		return 0;
	}
	close_fd(&s->nest_fd); /* somebody has exchanged it */
	errno = EPERM;
	return -1;
}

/* O_PATH, what it is in st; -1 with errno: ESTALE, something else stands there. */
static int
open_socket(int dir_fd, const char *name, struct stat *st)
{
	int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd == -1 || (fstat(fd, st) == 0 && S_ISSOCK(st->st_mode)))
		return fd;
	close(fd);
	errno = ESTALE;
	return -1;
}

/* What is given away is what was looked at. */
static int
give_to(struct socket_place *s, uid_t uid)
{
	struct stat st;
	int fd = open_socket(s->nest_fd, SOCKET_NEST_LEAF, &st), result = 0;

	if (fd == -1)
		return -1;
	if (uid != geteuid())
		result = fchownat(fd, "", uid, (gid_t)-1, AT_EMPTY_PATH);
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	close(fd);
	return result;
}

/* An address has no directory descriptor; proc gives the held one a name. */
static int
bind_inside(struct socket_place *s, uid_t uid)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	mode_t mask;
	int result;

	snprintf(sun.sun_path, sizeof(sun.sun_path),
	    "/proc/self/fd/%d/" SOCKET_NEST_LEAF, s->nest_fd);
	s->listen_fd = socket(AF_UNIX,
	    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->listen_fd == -1)
		return -1;
	mask = umask(0177);
	result = bind(s->listen_fd, (struct sockaddr *)&sun, sizeof(sun));
	umask(mask);
	if (result == -1 || listen(s->listen_fd, BACKLOG) == -1)
		return -1;
	return give_to(s, uid);
}

int
socket_bind(struct socket_place *s, const char *dir, const char *invocation,
    uid_t uid, char *why, size_t whylen)
{
	int n, saved;

	n = snprintf(s->path, sizeof(s->path), "%s/%s%s%s", dir,
	    BROKER_SOCKET_PREFIX, invocation, BROKER_SOCKET_SUFFIX);
	if (n < 0 || (size_t)n >= sizeof(s->path)) {
		snprintf(why, whylen,
		    "the socket's path would have %d bytes; the limit is %zu, "
		    "so choose a shorter --socket-dir",
		    n, sizeof(s->path) - 1);
		errno = ENAMETOOLONG;
		return -1;
	}
	s->name = s->path + strlen(dir) + 1;
	snprintf(s->nest, sizeof(s->nest), SOCKET_NEST_PREFIX "%s", invocation);
	s->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd != -1 && make_nest(s) == 0 && bind_inside(s, uid) == 0)
		return 0;
	saved = errno;
	socket_clear(s);
	if (saved == EINVAL && uid != geteuid())
		snprintf(why, whylen,
		    "uid %lu is not mapped in this user namespace; choose "
		    "another uid_range", (unsigned long)uid);
	else
		snprintf(why, whylen, "socket directory %s: %s", dir,
		    strerror(saved));
	errno = saved;
	return -1;
}

/* Not every file system has a rename that does not replace; a link never
 * does. */
static int
move_out(const struct socket_place *s)
{
	if (renameat2(s->nest_fd, SOCKET_NEST_LEAF, s->dir_fd, s->name,
		RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL)
		return -1;
	return linkat(s->nest_fd, SOCKET_NEST_LEAF, s->dir_fd, s->name, 0);
}

/* The inode lives with our listening socket, so its number is nobody else's. */
static int
hold(struct socket_place *s)
{
	struct stat st;

	s->held_fd = open_socket(s->dir_fd, s->name, &st);
	if (s->held_fd == -1 || (st.st_dev == s->dev && st.st_ino == s->ino))
		return s->held_fd == -1 ? -1 : 0;
	close_fd(&s->held_fd);
	errno = ESTALE;
	return -1;
}

int
socket_take(struct socket_place *s)
{
	int fd = s->held_fd;

	s->held_fd = -1;
	if (fd == -1)
		errno = EBADF;
	return fd;
}

int
socket_publish(struct socket_place *s, char *why, size_t whylen)
{
	int saved;

	if (move_out(s) == 0 && hold(s) == 0) {
		leave_nest(s);
		return 0;
	}
	saved = errno;
	socket_clear(s);
	snprintf(why, whylen,
	    saved == EEXIST
		? "%s: exists already; \"sweep\" removes what dead brokers left"
		: "%s: %s",
	    s->path, strerror(saved));
	errno = saved;
	return -1;
}
