#ifndef BROKER_SOCKET_H
#define BROKER_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * The invocation's socket in the file system (SPEC 3). It is made in a nest, a
 * fresh 0700 directory beside the place where it will stand, whose name is
 * known so that whoever cleans up after a crash finds it.
 */
struct socket_place {
	char	path[108];	/* where it stands */
	const char *name;	/* its last component */
	char	nest[64];	/* name of the directory in which it is made */
	int	dir_fd;		/* where both are */
	int	nest_fd;
	bool	nested;		/* the nest is there and ours */
	int	listen_fd;	/* listening, non-blocking */
	int	held_fd;	/* O_PATH: it, once it stands there */
	dev_t	dev;
	ino_t	ino;
};

#define SOCKET_NEST_PREFIX	".cyberos."
#define SOCKET_NEST_LEAF	"s"

void	socket_init(struct socket_place *);

/*
 * Bind it in its nest, owned by uid with mode 0600 from the first moment that
 * anybody else could see it. 0, or -1 with errno and a sentence in why[]:
 * ENAMETOOLONG, the path would not fit into a socket address.
 */
int	socket_bind(struct socket_place *, const char *dir,
	    const char *invocation, uid_t uid, char *why, size_t whylen);

/*
 * Move it to dir/cyberos-skill-broker.<invocation>.sock, which leaves the nest
 * empty. 0, or -1 with errno and why[]: EEXIST, the name is taken; then nothing
 * of what was there has changed and nothing of ours is left. ESTALE: somebody has
 * exchanged it at once.
 */
int	socket_publish(struct socket_place *, char *why, size_t whylen);

/* What was published, whatever its name leads to by now: an O_PATH descriptor, the
 * caller's from then on. -1 with errno: it was not, or was taken before. */
int	socket_take(struct socket_place *);

/* Remove the nest: some file systems take their time. */
void	socket_settle(struct socket_place *);

/*
 * Remove what a broker that is gone has left in dir: the socket of the
 * invocation, if it is that one and, with ask, nobody answers at it; and the
 * nest in which it was made. True when something was removed.
 */
bool	socket_sweep(const char *dir, const char *invocation, dev_t dev,
	    ino_t ino, bool ask);

/* Close descriptors; what was bound and not published is removed. */
void	socket_clear(struct socket_place *);

#endif
