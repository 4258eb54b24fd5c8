/*
 * The sum over all invocations. Every step of a fold leaves a file that says what
 * is in it, so SIGKILL between any two of them loses nothing and counts nothing
 * twice. After a power cut the newest slot may be half old: a slot with a wrong
 * checksum does not count, and the one before it does.
 */

#include "audit/hostpage.h"

#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/clock.h"
#include "audit/counters.h"

#define MAGIC UINT64_C(0x31303074736f686d) /* "mhost001" */
#define HEADER_SIZE 4096
#define SLOT_SIZE 16384
#define TRIES 8 /* to read while others fold, without their lock */

struct header {
	uint64_t magic; /* written last */
	uint64_t generation; /* its last bit: the slot that counts */
	uint64_t settled; /* the generation whose page has been removed */
};

struct slot {
	uint64_t check; /* of what follows */
	int64_t since; /* wall clock: the sum began */
	char last[STORE_UUID_SIZE + 3]; /* whose page is the newest in it */
	struct tally tally;
};

_Static_assert(sizeof(struct slot) <= SLOT_SIZE, "a slot has its place");
_Static_assert(sizeof(struct slot) % sizeof(uint64_t) == 0, "words");

/* FNV-1a, a word at a time: against a half-written slot, not against anybody. */
static uint64_t
check_of(const struct slot *s)
{
	const char *p = (const char *)s;
	uint64_t word, sum = UINT64_C(0xcbf29ce484222325);
	size_t i;

	for (i = sizeof(sum); i < sizeof(*s); i += sizeof(word)) {
		memcpy(&word, p + i, sizeof(word));
		sum = (sum ^ word) * UINT64_C(0x100000001b3);
	}
	return sum;
}

static off_t
slot_at(uint64_t generation)
{
	return HEADER_SIZE + (off_t)(generation & 1) * SLOT_SIZE;
}

static int
put(int fd, const void *p, size_t len, off_t at)
{
	ssize_t n = pwrite(fd, p, len, at);

	if (n >= 0 && n != (ssize_t)len)
		errno = ENOSPC;
	return n == (ssize_t)len ? 0 : -1;
}

static int
put_word(int fd, size_t at, uint64_t word)
{
	return put(fd, &word, sizeof(word), (off_t)at);
}

static bool
get_header(int fd, struct header *h)
{
	return pread(fd, h, sizeof(*h), 0) == (ssize_t)sizeof(*h) &&
	       h->magic == MAGIC;
}

static bool
get_slot(int fd, uint64_t generation, struct slot *s)
{
	return pread(fd, s, sizeof(*s), slot_at(generation)) ==
		   (ssize_t)sizeof(*s) &&
	       s->check == check_of(s) && s->tally.magic == TALLY_MAGIC;
}

static void
page_name(const char *inv, char name[64])
{
	snprintf(name, 64, "%.36s.status", inv);
}

static int
open_sum(const struct store *s, int flags)
{
	return openat(s->run_fd, HOSTPAGE_FILE,
	    flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

/* --- the sum --- */

/* A new one, since now; what is there is no sum, or none any more. */
static int
begin(int fd, const struct tally_names *names, struct header *h,
    struct slot *slot)
{
	int error = posix_fallocate(fd, 0, HEADER_SIZE + 2 * SLOT_SIZE);

	if (error != 0) {
		errno = error;
		return -1;
	}
	memset(slot, 0, sizeof(*slot));
	slot->since = clock_wall();
	tally_init(&slot->tally, names);
	slot->check = check_of(slot);
	*h = (struct header){MAGIC, 0, 0};
	if (put(fd, slot, sizeof(*slot), slot_at(0)) == -1 ||
	    put_word(fd, offsetof(struct header, generation), 0) == -1 ||
	    put_word(fd, offsetof(struct header, settled), 0) == -1)
		return -1;
	return put_word(fd, offsetof(struct header, magic), MAGIC);
}

/* The newest one that holds; its lock is ours. */
static int
load(int fd, const struct tally_names *names, struct header *h,
    struct slot *slot)
{
	if (!get_header(fd, h))
		return begin(fd, names, h, slot);
	if (get_slot(fd, h->generation, slot))
		return 0;
	if (h->generation == 0 || !get_slot(fd, h->generation - 1, slot))
		return begin(fd, names, h, slot);
	/* So that the next one is not written over the only good one. */
	h->settled = --h->generation;
	if (put_word(fd, offsetof(struct header, settled), h->settled) == -1)
		return -1;
	return put_word(
	    fd, offsetof(struct header, generation), h->generation);
}

/* The page that was folded last is gone, before another one comes in. */
static int
settle(const struct store *s, int fd, struct header *h, const char *last)
{
	char name[64];

	if (h->settled == h->generation)
		return 0;
	page_name(last, name);
	if (unlinkat(s->run_fd, name, 0) == -1 && errno != ENOENT)
		return -1;
	h->settled = h->generation;
	return put_word(fd, offsetof(struct header, settled), h->settled);
}

/* The next generation; from the last write on it is what counts. */
static int
commit(int fd, struct header *h, struct slot *slot, const char *inv)
{
	memset(slot->last, 0, sizeof(slot->last));
	strlcpy(slot->last, inv, sizeof(slot->last));
	slot->check = check_of(slot);
	if (put(fd, slot, sizeof(*slot), slot_at(h->generation + 1)) == -1)
		return -1;
	h->generation++;
	return put_word(
	    fd, offsetof(struct header, generation), h->generation);
}

int
hostpage_make(const struct store *s, const struct tally_names *names)
{
	struct header h;
	struct slot slot;
	int fd, result = 0;

	fd = open_sum(s, O_RDWR | O_CREAT);
	if (fd == -1)
		return -1;
	if (!get_header(fd, &h))
		result = store_lock_file(fd, HOSTPAGE_WAIT_MS) == -1
			     ? -1
			     : load(fd, names, &h, &slot);
	close(fd);
	return result;
}

/* --- a fold --- */

static int
fold(const struct store *s, int fd, int page_fd, const char *inv,
    const struct tally_names *names, const struct tally *rows,
    struct header *h, struct slot *slot)
{
	struct tally page, sum;

	/* A broker that died before it had begun one leaves an empty one. */
	if (counters_read_tally(page_fd, &page) == -1 && errno != EBADMSG)
		return -1;
	tally_init(&sum, names);
	tally_add(&sum, &page);
	if (rows != NULL)
		tally_raise(&sum, rows);
	tally_extend(&slot->tally, names);
	tally_add(&slot->tally, &sum);
	if (commit(fd, h, slot, inv) == -1)
		return -1;
	/* It is in: what fails from here on is the next one's to do. */
	settle(s, fd, h, inv);
	return 0;
}

/* Open the sum, lock it, and make it ready for the next. A descriptor or -1. */
static int
enter(const struct store *s, const struct tally_names *names, int64_t wait_ms,
    struct header *h, struct slot *slot)
{
	int fd = open_sum(s, O_RDWR | O_CREAT), saved;

	if (fd == -1)
		return -1;
	if (store_lock_file(fd, wait_ms) == 0 &&
	    load(fd, names, h, slot) == 0 && settle(s, fd, h, slot->last) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

int
hostpage_fold(const struct store *s, const char *inv,
    const struct tally_names *names, const struct tally *rows)
{
	struct header h;
	struct slot slot;
	char name[64];
	int fd, page_fd, result, saved;

	page_name(inv, name);
	fd = enter(s, names, HOSTPAGE_WAIT_MS, &h, &slot);
	if (fd == -1)
		return -1;
	page_fd = openat(
	    s->run_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (page_fd == -1)
		result = errno == ENOENT ? 0 : -1;
	else
		result = fold(s, fd, page_fd, inv, names, rows, &h, &slot);
	saved = errno;
	if (page_fd != -1)
		close(page_fd);
	close(fd);
	errno = saved;
	return result;
}

int
hostpage_add(const struct store *s, const struct tally_names *names,
    const struct tally *more, int64_t wait_ms)
{
	static const char nobody[] = "";
	struct header h;
	struct slot slot;
	int fd, result, saved;

	fd = enter(s, names, wait_ms, &h, &slot);
	if (fd == -1)
		return -1;
	tally_extend(&slot.tally, names);
	tally_add(&slot.tally, more);
	result = commit(fd, &h, &slot, nobody);
	if (result == 0)
		settle(s, fd, &h, nobody);
	saved = errno;
	close(fd);
	errno = saved;
	return result;
}

/* --- reading --- */

struct pages {
	const struct store *store;
	const char *but; /* this one */
	struct tally *sum;
};

static int
add_page(void *arg, const char *inv)
{
	struct pages *p = arg;
	struct tally page;
	char name[64];
	int fd;

	if (strcmp(inv, p->but) == 0)
		return 0;
	page_name(inv, name);
	fd = openat(p->store->run_fd, name,
	    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd == -1)
		return 0; /* it has just ended: the generation tells */
	if (counters_read_tally(fd, &page) == 0)
		tally_add(p->sum, &page);
	close(fd);
	return 0;
}

/* One look; 1 when a fold came between, so that it has to be done again. */
static int
look(const struct store *s, int fd, const struct tally_names *names,
    struct metrics *m)
{
	struct pages pages = {s, "", &m->tally};
	struct header h, after;
	struct slot slot;
	bool begun;

	begun = fd != -1 && get_header(fd, &h);
	if (begun && !get_slot(fd, h.generation, &slot)) {
		if (!get_header(fd, &after) || after.generation != h.generation)
			return 1;
		begun = h.generation > 0 &&
			get_slot(fd, h.generation - 1, &slot);
	}
	if (begun) {
		m->tally = slot.tally;
		m->since = slot.since;
		if (names != NULL)
			tally_extend(&m->tally, names);
	} else {
		tally_init(&m->tally, names);
		m->since = clock_wall();
	}
	if (begun && h.settled != h.generation)
		pages.but = slot.last;
	if (store_run_each(s, ".status", add_page, &pages) == -1)
		return -1;
	if (!begun)
		return 0;
	return get_header(fd, &after) && after.generation == h.generation ? 0
									   : 1;
}

int
hostpage_read(const struct store *s, const struct tally_names *names,
    struct metrics *m)
{
	int active, fd, tries, result = 1;

	fd = open_sum(s, O_RDONLY);
	if (fd == -1 && errno != ENOENT)
		return -1;
	/* First without their lock: one of them may be stopped while it has it. */
	for (tries = 0; tries < TRIES && result == 1; tries++)
		result = look(s, fd, names, m);
	if (result == 1)
		result = store_lock_file(fd, HOSTPAGE_WAIT_MS) == -1
			     ? -1
			     : look(s, fd, names, m);
	if (fd != -1)
		close(fd);
	active = store_count_running(s);
	if (result == -1 || active == -1)
		return -1;
	m->active = (uint64_t)active;
	m->now = clock_wall();
	return 0;
}
