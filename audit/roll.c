/*
 * Which segments a day has. Names on disk are taken only in the one form that
 * we write, so a file cannot hide behind a second spelling of its name; ids
 * come from outside, so the table is salted and nobody can choose collisions.
 */

#include "audit/roll.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

void
roll_init(struct roll *r, const char *day)
{
	memset(r, 0, sizeof(*r));
	strlcpy(r->day, day, sizeof(r->day));
	arc4random_buf(&r->salt, sizeof(r->salt));
}

void
roll_clear(struct roll *r)
{
	size_t i;

	for (i = 0; i < r->size; i++)
		free(r->entries[i].marks);
	free(r->entries);
	r->entries = NULL;
	r->n = r->size = 0;
}

static uint64_t
mix(uint64_t x)
{
	x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	return x ^ (x >> 32);
}

/* Where an id is, or where it would go; the table has a free place. */
static struct roll_entry *
place(const struct roll *r, const char *inv)
{
	uint64_t word, hash = r->salt;
	size_t i;

	for (i = 0; i + sizeof(word) <= STORE_UUID_SIZE - 1;
	     i += sizeof(word)) {
		memcpy(&word, inv + i, sizeof(word));
		hash = mix(hash ^ word);
	}
	memcpy(&word, &inv[STORE_UUID_SIZE - 1 - sizeof(word)], sizeof(word));
	hash = mix(hash ^ word);
	i = (size_t)hash & (r->size - 1);
	while (
	    r->entries[i].inv[0] != '\0' && strcmp(r->entries[i].inv, inv) != 0)
		i = (i + 1) & (r->size - 1);
	return &r->entries[i];
}

struct roll_entry *
roll_find(const struct roll *r, const char *inv)
{
	struct roll_entry *e;

	if (r->size == 0)
		return NULL;
	e = place(r, inv);
	return e->inv[0] == '\0' ? NULL : e;
}

static int
grow(struct roll *r)
{
	struct roll_entry *old = r->entries;
	size_t i, n = r->size;

	r->size = n == 0 ? 256 : n * 2;
	r->entries = calloc(r->size, sizeof(*r->entries));
	if (r->entries == NULL) {
		r->entries = old;
		r->size = n;
		return -1;
	}
	for (i = 0; i < n; i++) {
		if (old[i].inv[0] != '\0')
			*place(r, old[i].inv) = old[i];
	}
	free(old);
	return 0;
}

struct roll_entry *
roll_add(struct roll *r, const char *inv)
{
	struct roll_entry *e = roll_find(r, inv);

	if (e != NULL)
		return e;
	if (r->n * 4 >= r->size * 3 && grow(r) == -1)
		return NULL;
	e = place(r, inv);
	strlcpy(e->inv, inv, sizeof(e->inv));
	r->n++;
	return e;
}

struct roll_entry *
roll_next(const struct roll *r, size_t *at)
{
	while (*at < r->size) {
		if (r->entries[(*at)++].inv[0] != '\0')
			return &r->entries[*at - 1];
	}
	return NULL;
}

int
roll_mark(struct roll_entry *e, const struct roll_mark *mark)
{
	struct roll_mark *marks;

	/* Grown by doubling: n is the size whenever it is a power of two. */
	if ((e->marks_n & (e->marks_n - 1)) == 0) {
		marks = reallocarray(e->marks,
		    e->marks_n == 0 ? 1 : e->marks_n * 2, sizeof(*marks));
		if (marks == NULL)
			return -1;
		e->marks = marks;
	}
	e->marks[e->marks_n++] = *mark;
	return 0;
}

void
roll_forget(struct roll_entry *e)
{
	free(e->marks);
	e->marks = NULL;
	e->marks_n = 0;
}

/* "<inv>.p<part>.jsonl", and nothing that only looks like it; part, or 0. */
static unsigned
part_of(const char *name, const char *ab, char inv[STORE_UUID_SIZE])
{
	char again[STORE_SEGMENT_NAME];
	unsigned long part;

	if (strlcpy(inv, name, STORE_UUID_SIZE) < STORE_UUID_SIZE + 2 ||
	    !store_is_uuid(inv) || memcmp(inv, ab, 2) != 0 ||
	    strncmp(name + STORE_UUID_SIZE - 1, ".p", 2) != 0)
		return 0;
	part = strtoul(name + STORE_UUID_SIZE + 1, NULL, 10);
	if (part == 0 || part > 9999)
		return 0;
	snprintf(again, sizeof(again), "%s.p%lu.jsonl", inv, part);
	return strcmp(again, name) == 0 ? (unsigned)part : 0;
}

struct listing {
	struct roll *roll;
	const char *inv; /* NULL: all */
	void (*stray)(void *, const char *);
	void *arg;
};

static int
list_name(const struct listing *l, const char *ab, const char *name)
{
	char inv[STORE_UUID_SIZE], path[NAME_MAX + 32];
	unsigned part = part_of(name, ab, inv);
	struct roll_entry *e;

	if (part == 0) {
		if (l->inv != NULL)
			return 0;
		snprintf(path, sizeof(path), "seg/%s/%s", ab, name);
		l->stray(l->arg, path);
		return 0;
	}
	if (l->inv != NULL && strcmp(l->inv, inv) != 0)
		return 0;
	e = roll_add(l->roll, inv);
	if (e == NULL)
		return -1;
	if (part > e->files)
		e->files = part;
	return 0;
}

static bool
is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* One of the up to 256 directories; what is none of them is a stray. */
static int
list_ab(const struct listing *l, int seg_fd, const char *ab)
{
	struct dirent *e;
	char path[NAME_MAX + 32];
	int fd = -1, result = 0;
	DIR *d;

	if (strlen(ab) == 2 && strspn(ab, "0123456789abcdef") == 2)
		fd = openat(seg_fd, ab, DIR_FLAGS);
	if (fd == -1 && l->inv != NULL)
		return errno == ENOENT ? 0 : -1;
	if (fd == -1) {
		snprintf(path, sizeof(path), "seg/%s", ab);
		l->stray(l->arg, path);
		return 0;
	}
	d = fdopendir(fd);
	if (d == NULL) {
		close(fd);
		return -1;
	}
	while (result == 0 && (e = readdir(d)) != NULL) {
		if (!is_dots(e->d_name))
			result = list_name(l, ab, e->d_name);
	}
	closedir(d);
	return result;
}

int
roll_list(struct roll *r, const struct store *s, const char *inv,
    void (*stray)(void *, const char *), void *arg)
{
	struct listing l = { r, inv, stray, arg };
	char ab[3] = { 0 };
	struct dirent *e;
	int day_fd, seg_fd, result = 0;
	DIR *d;

	day_fd = store_day(s, r->day, 0);
	if (day_fd == -1)
		return errno == ENOENT ? 0 : -1;
	seg_fd = openat(day_fd, "seg", DIR_FLAGS);
	close(day_fd);
	if (seg_fd == -1)
		return errno == ENOENT ? 0 : -1;
	if (inv != NULL) {
		memcpy(ab, inv, 2);
		result = list_ab(&l, seg_fd, ab);
		close(seg_fd);
		return result;
	}
	d = fdopendir(seg_fd);
	if (d == NULL) {
		close(seg_fd);
		return -1;
	}
	while (result == 0 && (e = readdir(d)) != NULL) {
		if (!is_dots(e->d_name))
			result = list_ab(&l, seg_fd, e->d_name);
	}
	closedir(d);
	return result;
}
