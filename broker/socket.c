/*
 * A socket that nobody else could reach or exchange at any moment: it is born
 * in a directory that is closed to others, and rename without replacement
 * makes the name appear complete or not at all.
 */

#include "broker/socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/broker.h"

#define BACKLOG 64

static int
bind_at(const char *path, uid_t uid, struct socket_place *s)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct stat st;
	mode_t mask;
	int result;

	if (strlcpy(sun.sun_path, path, sizeof(sun.sun_path)) >=
	    sizeof(sun.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	s->listen_fd = socket(AF_UNIX,
	    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->listen_fd == -1)
		return -1;
	mask = umask(0177);
	result = bind(s->listen_fd, (struct sockaddr *)&sun, sizeof(sun));
	umask(mask);
	if (result == -1 || listen(s->listen_fd, BACKLOG) == -1 ||
	    (uid != geteuid() && lchown(path, uid, (gid_t)-1) == -1) ||
	    lstat(path, &st) == -1)
		return -1;
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return 0;
}

int
socket_bind(const char *dir, const char *invocation, uid_t uid,
    struct socket_place *s, char *why, size_t whylen)
{
	char nest[PATH_MAX], inner[PATH_MAX + 4];
	int n, saved;

	memset(s, 0, sizeof(*s));
	s->listen_fd = -1;
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
	snprintf(nest, sizeof(nest), "%s/.cyberos-XXXXXX", dir);
	if (mkdtemp(nest) == NULL) {
		snprintf(why, whylen, "%s: %s", dir, strerror(errno));
		return -1;
	}
	snprintf(inner, sizeof(inner), "%s/s", nest);
	if (bind_at(inner, uid, s) == 0 &&
	    renameat2(AT_FDCWD, inner, AT_FDCWD, s->path, RENAME_NOREPLACE) ==
		0) {
		rmdir(nest);
		return 0;
	}
	saved = errno;
	unlink(inner);
	rmdir(nest);
	if (s->listen_fd != -1)
		close(s->listen_fd);
	s->listen_fd = -1;
	snprintf(why, whylen, saved == EEXIST
		? "%s: exists already; \"sweep\" removes what dead brokers left"
		: "%s: %s",
	    s->path, strerror(saved));
	errno = saved;
	return -1;
}
