/*
 * The shared page of counts. A reader takes a copy and never maps it: the
 * writer serves a hostile program, and a page that changes or shrinks under a
 * reader's eyes must not be able to hurt it.
 */

#include "audit/counters.h"

#include <sys/mman.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

struct counters *
counters_map(int fd)
{
	void *p;
	int error;

	/* A page without a block behind it would be SIGBUS on a full disk. */
	error = posix_fallocate(fd, 0, COUNTERS_SIZE);
	if (error != 0) {
		errno = error;
		return NULL;
	}
	p = mmap(
	    NULL, COUNTERS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	/* One writer: a fork of the broker does not get it. */
	if (madvise(p, COUNTERS_SIZE, MADV_DONTFORK) == -1) {
		munmap(p, COUNTERS_SIZE);
		return NULL;
	}
	return p;
}

static bool
ends_within(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

int
counters_read(int fd, struct counters *c)
{
	ssize_t n = pread(fd, c, sizeof(*c), 0);

	if (n == -1)
		return -1;
	if (n != (ssize_t)sizeof(*c) || c->magic != COUNTERS_MAGIC ||
	    !ends_within(c->invocation_id, 37) ||
	    !ends_within(c->socket_dir, sizeof(c->socket_dir)) ||
	    !ends_within(c->skill_id, 65) || !ends_within(c->tenant_id, 37)) {
		errno = EBADMSG;
		return -1;
	}
	return 0;
}

void
counters_unmap(struct counters *c)
{
	if (c != NULL)
		munmap(c, COUNTERS_SIZE);
}
