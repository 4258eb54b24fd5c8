/*
 * The shared page of counts. Readers never trust it further than its size: it
 * is written by a process that serves a hostile program.
 */

#include "audit/counters.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

struct counters *
counters_map(int fd)
{
	void *p;

	if (ftruncate(fd, COUNTERS_SIZE) == -1)
		return NULL;
	p = mmap(NULL, COUNTERS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

const struct counters *
counters_look(int fd)
{
	const struct counters *c;
	struct stat st;
	void *p;

	if (fstat(fd, &st) == -1)
		return NULL;
	if (st.st_size < COUNTERS_SIZE) {
		errno = EBADMSG;
		return NULL;
	}
	p = mmap(NULL, COUNTERS_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	c = p;
	if (c->magic != COUNTERS_MAGIC || c->invocation_id[36] != '\0' ||
	    c->skill_id[64] != '\0' || c->tenant_id[36] != '\0') {
		munmap(p, COUNTERS_SIZE);
		errno = EBADMSG;
		return NULL;
	}
	return c;
}

void
counters_unmap(const struct counters *c)
{
	if (c != NULL)
		munmap((void *)(uintptr_t)c, COUNTERS_SIZE);
}
