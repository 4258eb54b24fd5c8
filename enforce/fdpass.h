#ifndef ENFORCE_FDPASS_H
#define ENFORCE_FDPASS_H

#include <sys/types.h>

#include <stddef.h>

/*
 * Bytes and descriptors over a Unix socket (unix(7), SCM_RIGHTS). Both calls are
 * async-signal-safe and begin again after EINTR.
 */
#define FDPASS_MAX	253 /* with one message: the kernel's SCM_MAX_FD */

/*
 * Send len bytes at p and n descriptors (0: none), which stay the caller's; as
 * sendmsg, without SIGPIPE.
 */
ssize_t	fdpass_send(int socket_fd, const void *p, size_t len, const int fds[],
	    size_t n, int flags);

/*
 * Receive up to len bytes and n descriptors, close-on-exec and the caller's;
 * those that did not come are -1, and behind the others. The kernel closes what
 * is sent beyond n. As recvmsg.
 */
ssize_t	fdpass_receive(int socket_fd, void *p, size_t len, int fds[], size_t n,
	    int flags);

/*
 * Move a descriptor to the first free number from least on, close-on-exec; the old
 * one is closed in any case. The new one, or -1 with errno. Async-signal-safe.
 */
int	fdpass_above(int fd, int least);

#endif
