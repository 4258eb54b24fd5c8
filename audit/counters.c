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
	int error, flags = fd == -1 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p;

	/* A page without a block behind it would be SIGBUS on a full disk. */
	error = fd == -1 ? 0 : posix_fallocate(fd, 0, COUNTERS_SIZE);
	if (error != 0) {
		errno = error;
		return NULL;
	}
	p = mmap(NULL, COUNTERS_SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	/* One writer: a fork of the broker does not get it. */
	if (madvise(p, COUNTERS_SIZE, MADV_DONTFORK) == -1) {
		munmap(p, COUNTERS_SIZE);
		return NULL;
	}
	return p;
}

struct tally *
counters_tally(struct counters *c)
{
	return (struct tally *)(void *)((char *)c + COUNTERS_TALLY);
}

int
counters_read_tally(int fd, struct tally *t)
{
	ssize_t n = pread(fd, t, sizeof(*t), COUNTERS_TALLY);

	if (n == -1)
		return -1;
	if (n != (ssize_t)sizeof(*t) || t->magic != TALLY_MAGIC) {
		errno = EBADMSG;
		return -1;
	}
	return 0;
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

#define DAY (86400 * CLOCK_SECOND)

void
counters_turn(struct counters *c, int64_t wall_ns)
{
	_Atomic uint64_t *const counts[] = { &c->calls, &c->denied,
		&c->errors, &c->timeouts };
	int64_t day = wall_ns / DAY;
	size_t i;

	if (counters_get(c, day) >= day)
		return;
	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		atomic_store_explicit(&c->before[i],
		    atomic_load_explicit(counts[i], memory_order_relaxed),
		    memory_order_relaxed);
	atomic_store_explicit(&c->day, day, memory_order_relaxed);
}

static uint64_t
above(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

struct segment_totals
counters_since(const struct counters *c, const char day[CLOCK_DAY_SIZE])
{
	char counted[CLOCK_DAY_SIZE];
	int64_t last = counters_get(c, day);

	/* The writer's word, which must not overflow. */
	if (last < 0 || last > INT64_MAX / DAY)
		last = 0;
	clock_day(last * DAY, counted);
	if (strcmp(counted, day) < 0)
		return (struct segment_totals){ 0, 0, 0, 0 };
	return (struct segment_totals){
		above(counters_get(c, calls), counters_get(c, before[0])),
		above(counters_get(c, denied), counters_get(c, before[1])),
		above(counters_get(c, errors), counters_get(c, before[2])),
		above(counters_get(c, timeouts), counters_get(c, before[3]))
	};
}

void
counters_unmap(struct counters *c)
{
	if (c != NULL)
		munmap(c, COUNTERS_SIZE);
}
