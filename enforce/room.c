/*
 * A shared mapping handed out from its front. What one side puts there is taken
 * as its word by the other: both are ours, and the reader makes it his own
 * (room_own) before anybody less trusted has the mapping.
 */

#include "enforce/room.h"

#include <sys/mman.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNIT _Alignof(max_align_t)

struct room *
room_map(size_t size)
{
	struct room *r = mmap(NULL, sizeof(*r) + size, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (r == MAP_FAILED)
		return NULL;
	r->size = size;
	return r;
}

void
room_unmap(struct room *r)
{
	if (r != NULL)
		munmap(r, sizeof(*r) + r->size);
}

void *
room_take(struct room *r, size_t size)
{
	size_t left = r->size - r->used;
	void *at = r->bytes + r->used;

	if (size > left || (size + UNIT - 1) / UNIT * UNIT > left) {
		errno = E2BIG;
		return NULL;
	}
	r->used += (size + UNIT - 1) / UNIT * UNIT;
	return at;
}

bool
room_text(struct room *r, const char **text)
{
	size_t size;
	char *copy;

	if (*text == NULL)
		return true;
	size = strlen(*text) + 1;
	copy = room_take(r, size);
	if (copy != NULL)
		memcpy(copy, *text, size);
	*text = copy;
	return copy != NULL;
}

bool
room_texts(struct room *r, char *const *from, size_t first, char ***to)
{
	const char *text;
	size_t n = first, i;

	while (from[n] != NULL)
		n++;
	*to = room_take(r, (n + 1) * sizeof(**to));
	if (*to == NULL)
		return false;
	for (i = 0; i <= n; i++) {
		text = i < first ? NULL : from[i];
		if (!room_text(r, &text))
			return false;
		(*to)[i] = (char *)(uintptr_t)text;
	}
	return true;
}

int
room_hide(struct room *r)
{
	return madvise(r, sizeof(*r) + r->size, MADV_DONTFORK);
}

int
room_own(struct room *r)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), all = sizeof(*r) + r->size;
	size_t used = sizeof(*r) + r->used;
	size_t kept = (used + page - 1) / page * page;
	char *copy = malloc(used);

	if (copy == NULL)
		return -1;
	memcpy(copy, r, used);
	if (mmap(r, kept, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
		free(copy);
		return -1;
	}
	if (kept < all)
		munmap((char *)r + kept, all - kept);
	memcpy(r, copy, used);
	r->size = kept - sizeof(*r);
	free(copy);
	return 0;
}
