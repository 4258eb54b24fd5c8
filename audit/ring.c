/*
 * The queue between a broker and who exports its spans. The broker serves a
 * hostile program and the exporter reads what a collector sends, so either may
 * be somebody else's one day: each keeps its own position to itself and writes
 * it for the other to see, and what the other has written can only make the
 * queue look full or empty. The file is sealed, so that nobody can cut it.
 */

#include "audit/ring.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE 64 /* of a cache: the two sides write to different ones */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct shared {
	_Alignas(LINE) _Atomic uint64_t put;
	_Atomic uint64_t spans, dropped;
	/* slot[promised - 1] is filled, for this row. */
	_Atomic uint64_t promised, row;
	_Alignas(LINE) _Atomic uint64_t taken;
	_Atomic uint64_t spans_taken;
	_Alignas(LINE) struct span slot[];
};

struct ring {
	struct shared *shared;
	size_t size;
	uint64_t slots;
	uint64_t mine; /* how many this side has put or taken */
};

static size_t
size_of(uint64_t slots)
{
	return sizeof(struct shared) + (size_t)slots * sizeof(struct span);
}

int
ring_create(unsigned slots)
{
	int fd, saved;

	if (slots == 0 || slots > RING_SLOTS_MAX) {
		errno = EINVAL;
		return -1;
	}
	fd = memfd_create("spans", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd == -1)
		return -1;
	if (ftruncate(fd, (off_t)size_of(slots)) == 0 &&
	    fcntl(fd, F_ADD_SEALS, SEALS) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

struct ring *
ring_map(int fd)
{
	struct ring *r;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (fstat(fd, &st) == -1)
		return NULL;
	if (seals == -1 || (seals & SEALS) != SEALS ||
	    (size_t)st.st_size < size_of(1) ||
	    (size_t)st.st_size > size_of(RING_SLOTS_MAX)) {
		errno = EINVAL;
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	if (r == NULL)
		return NULL;
	r->size = (size_t)st.st_size;
	r->slots = (r->size - sizeof(struct shared)) / sizeof(struct span);
	r->shared = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
	    0);
	if (r->shared == MAP_FAILED) {
		free(r);
		return NULL;
	}
	if (madvise(r->shared, r->size, MADV_DONTFORK) == -1) {
		ring_unmap(r);
		return NULL;
	}
	return r;
}

void
ring_unmap(struct ring *r)
{
	if (r == NULL)
		return;
	munmap(r->shared, r->size);
	free(r);
}

struct span *
ring_room(struct ring *r, unsigned spans)
{
	uint64_t taken = atomic_load_explicit(
	    &r->shared->taken, memory_order_acquire);

	/* A false position makes it look full, or costs what was not taken. */
	if (r->mine - taken < r->slots)
		return &r->shared->slot[r->mine % r->slots];
	atomic_fetch_add_explicit(
	    &r->shared->dropped, spans, memory_order_relaxed);
	return NULL;
}

/* One more, after so many. */
static void
put(struct shared *s, uint64_t slots, uint64_t before)
{
	atomic_fetch_add_explicit(&s->spans, span_count(&s->slot[before % slots]),
	    memory_order_relaxed);
	atomic_store_explicit(&s->put, before + 1, memory_order_release);
}

void
ring_promise(struct ring *r, uint64_t row)
{
	atomic_store_explicit(&r->shared->row, row, memory_order_relaxed);
	atomic_store_explicit(
	    &r->shared->promised, r->mine + 1, memory_order_release);
}

bool
ring_put(struct ring *r, unsigned wake_at)
{
	uint64_t taken;

	put(r->shared, r->slots, r->mine++);
	/* It grows by one, so it cannot step over wake_at. */
	taken = atomic_load_explicit(&r->shared->taken, memory_order_relaxed);
	return r->mine - taken == wake_at;
}

void
ring_settle(struct ring *r, uint64_t last)
{
	struct shared *s = r->shared;
	uint64_t before = atomic_load_explicit(&s->put, memory_order_acquire);

	if (atomic_load_explicit(&s->promised, memory_order_acquire) ==
		before + 1 &&
	    atomic_load_explicit(&s->row, memory_order_relaxed) <= last)
		put(s, r->slots, before);
}

void
ring_take_over(struct ring *r)
{
	r->mine = atomic_load_explicit(&r->shared->taken, memory_order_relaxed);
}

bool
ring_take(struct ring *r, struct span *s)
{
	uint64_t put = atomic_load_explicit(
	    &r->shared->put, memory_order_acquire);

	if (put == r->mine || put - r->mine > r->slots)
		return false;
	memcpy(s, &r->shared->slot[r->mine % r->slots], sizeof(*s));
	r->mine++;
	atomic_fetch_add_explicit(
	    &r->shared->spans_taken, span_count(s), memory_order_relaxed);
	atomic_store_explicit(&r->shared->taken, r->mine, memory_order_release);
	return true;
}

uint64_t
ring_count(const struct ring *r)
{
	return atomic_load_explicit(&r->shared->spans, memory_order_relaxed);
}

uint64_t
ring_taken(const struct ring *r)
{
	return atomic_load_explicit(
	    &r->shared->spans_taken, memory_order_relaxed);
}

uint64_t
ring_dropped(const struct ring *r)
{
	return atomic_load_explicit(&r->shared->dropped, memory_order_relaxed);
}
