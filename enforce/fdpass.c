/*
 * No descriptor comes in that nobody was asked to take, and none without
 * close-on-exec.
 */

#include "enforce/fdpass.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

union ancillary {
	char room[CMSG_SPACE(FDPASS_MAX * sizeof(int))];
	struct cmsghdr align;
};

ssize_t
fdpass_send(int socket_fd, const void *p, size_t len, const int fds[], size_t n,
    int flags)
{
	union ancillary ancillary;
	struct iovec io = { (void *)(uintptr_t)p, len };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1 };
	struct cmsghdr *h;
	ssize_t sent;

	if (n > FDPASS_MAX) {
		errno = EINVAL;
		return -1;
	}
	if (n > 0) {
		memset(&ancillary, 0, CMSG_SPACE(n * sizeof(int)));
		m.msg_control = &ancillary;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(h), fds, n * sizeof(int));
	}
	do
		sent = sendmsg(socket_fd, &m, flags | MSG_NOSIGNAL);
	while (sent == -1 && errno == EINTR);
	return sent;
}

ssize_t
fdpass_receive(
    int socket_fd, void *p, size_t len, int fds[], size_t n, int flags)
{
	union ancillary ancillary;
	struct iovec io = { p, len };
	struct msghdr m = { .msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = &ancillary };
	struct cmsghdr *h;
	ssize_t got;
	size_t i;

	if (n > FDPASS_MAX) {
		errno = EINVAL;
		return -1;
	}
	for (i = 0; i < n; i++)
		fds[i] = -1;
	/* Without padding: that would have room for one more, and nobody would
	 * close it. */
	m.msg_controllen = CMSG_LEN(n * sizeof(int));
	do
		got = recvmsg(socket_fd, &m, flags | MSG_CMSG_CLOEXEC);
	while (got == -1 && errno == EINTR);
	h = got == -1 ? NULL : CMSG_FIRSTHDR(&m);
	if (h != NULL && h->cmsg_level == SOL_SOCKET &&
	    h->cmsg_type == SCM_RIGHTS &&
	    h->cmsg_len <= CMSG_LEN(n * sizeof(int)))
		memcpy(fds, CMSG_DATA(h), h->cmsg_len - CMSG_LEN(0));
	return got;
}

int
fdpass_above(int fd, int least)
{
	int above = fcntl(fd, F_DUPFD_CLOEXEC, least), saved = errno;

	close(fd);
	errno = saved;
	return above;
}
