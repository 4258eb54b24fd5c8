#ifndef BROKER_SOCKET_H
#define BROKER_SOCKET_H

#include <stddef.h>
#include <sys/types.h>

/* The invocation's socket in the file system (SPEC 3). */
struct socket_place {
	char	path[108];	/* where it stands */
	const char *name;	/* its last component */
	int	listen_fd;	/* listening, non-blocking */
	dev_t	dev;
	ino_t	ino;
};

/*
 * Bind dir/cyberos-skill-broker.<invocation>.sock: made in a fresh 0700
 * directory, given to uid with mode 0600, then moved into place without
 * replacing anything. 0, or -1 with errno and a sentence in why[]: EEXIST, the
 * name is taken (nothing was unlinked); ENAMETOOLONG.
 */
int	socket_bind(const char *dir, const char *invocation, uid_t uid,
	    struct socket_place *, char *why, size_t whylen);

#endif
