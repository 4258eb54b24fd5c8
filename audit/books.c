/*
 * What stands in the last rows of an invocation is what its files say, read
 * again: no count and no hash is taken over from a process that may be gone or
 * have been taken over. Nothing is truncated and nothing is mended in place.
 */

#include "audit/books.h"

#include <sys/stat.h>
#include <sys/uio.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/lines.h"

static int
open_part(const struct books *b, unsigned part)
{
	char name[STORE_SEGMENT_NAME];

	store_segment_path(b->day, b->inv, part, name);
	return store_ledger_file(b->store, name);
}

int
books_walk(struct books *b)
{
	const struct books_parts *parts = &b->parts;
	unsigned part;
	int fd, result = 0;

	segment_walk_begin(&b->walk, b->inv, b->opened);
	for (part = 1; part <= parts->n && result == 0 && !b->walk.damaged;
	     part++) {
		fd = open_part(b, part);
		if (fd == -1)
			return -1;
		/* What the next part has written again counts there. */
		result = segment_walk_part(fd,
		    part == parts->n ? 0 : parts->start[part], b->digest,
		    &b->walk);
		close(fd);
	}
	return result;
}

static int
anchor_part(struct books *b, unsigned part, const char *file,
    struct anchor *anchor)
{
	struct row row;
	int result;

	row_begin(&row, ROW_SEGMENT_PART, NULL, b->digest);
	row_word(&row, "invocation_id", b->inv);
	row_word(&row, "file", file);
	row_int(&row, "part", (int64_t)part);
	row_int(&row, "seq", (int64_t)b->walk.seq + 1);
	row_word(&row, "head", b->walk.head);
	result = row_end(&row) == 0 ? anchor_append(b->store, &row, b->by,
					  b->digest, anchor)
				    : -1;
	row_clear(&row);
	return result;
}

int
books_part(struct books *b)
{
	char name[STORE_SEGMENT_NAME], file[STORE_SEGMENT_NAME + 16];
	struct books_parts *parts = &b->parts;
	struct anchor anchor;
	int fd;

	if (parts->n == BOOKS_PARTS_MAX) {
		errno = EMFILE;
		return -1;
	}
	fd = store_segment(b->day_fd, b->inv, parts->n + 1, name);
	if (fd == -1)
		return -1;
	snprintf(file, sizeof(file), "%s/%s", b->day, name);
	if (anchor_part(b, parts->n + 1, file, &anchor) == -1) {
		close(fd);
		unlinkat(b->day_fd, name, 0);
		return -1;
	}
	parts->start[parts->n++] = b->walk.seq + 1;
	/* Without its anchor a part counts for nothing, rows or not. */
	if (b->sync && (store_sync_segment(b->day_fd, b->inv) == -1 ||
			   anchor_sync(b->store, &anchor) == -1)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* --- what has no place yet --- */

struct merge {
	uint64_t next;	       /* the row that is wanted */
	char head[DIGEST_HEX]; /* what it must follow */
	int fd;		       /* of the part; -1: not made yet */
};

static int
write_line(int fd, const char *line, size_t len)
{
	struct iovec io[] = { { (void *)(uintptr_t)line, len },
		{ (void *)(uintptr_t) "\n", 1 } };
	ssize_t n = writev(fd, io, 2);

	if (n >= 0 && n != (ssize_t)len + 1)
		errno = ENOSPC;
	return n == (ssize_t)len + 1 ? 0 : -1;
}

/* The part is made when there is a row for it. */
static int
merge_row(struct books *b, struct merge *m, const struct row_read *r,
    const char *line, size_t len)
{
	if (m->fd == -1)
		m->fd = books_part(b);
	if (m->fd == -1)
		return -1;
	if (write_line(m->fd, line, len) == -1)
		return -1;
	m->next++;
	strlcpy(m->head, r->hash, sizeof(m->head));
	return 0;
}

/* One time through a file: its rows may lie in another order. */
static int
merge_file(struct books *b, struct merge *m, int from)
{
	struct lines lines;
	struct row_read r;
	const char *line;
	size_t len;
	int result;

	if (lines_init(&lines, from, 0) == -1)
		return -1;
	result = 0;
	while (result == 0 && lines_next(&lines, &line, &len) == LINES_ROW) {
		if (row_read(line, len, false, b->inv, b->digest, &r) == 0 &&
		    r.seq == m->next && strcmp(r.prev, m->head) == 0)
			result = merge_row(b, m, &r, line, len);
	}
	lines_clear(&lines);
	return result;
}

/* The parts before the last one: what came behind their successor's start. */
static int
merge_parts(struct books *b, struct merge *m, unsigned before)
{
	unsigned part;
	int fd, result = 0;

	for (part = 1; part < before && result == 0; part++) {
		fd = open_part(b, part);
		if (fd == -1)
			return -1;
		result = merge_file(b, m, fd);
		close(fd);
	}
	return result;
}

static int
merge_spool(struct books *b, struct merge *m, int spool_fd)
{
	uint64_t before = m->next;
	int result;

	if (spool_fd == -1)
		return 0;
	result = merge_file(b, m, spool_fd);
	b->placed += m->next - before;
	return result;
}

/* Which of its rows found no place, now that nothing can be added? */
static int
count_spool(struct books *b, const struct merge *m, int spool_fd)
{
	struct lines lines;
	struct row_read r;
	const char *line;
	size_t len;

	if (lines_init(&lines, spool_fd, 0) == -1)
		return -1;
	while (lines_next(&lines, &line, &len) == LINES_ROW) {
		if (row_read(line, len, false, b->inv, b->digest, &r) == -1)
			continue;
		b->spooled++;
		b->unplaced += r.seq >= m->next;
	}
	lines_clear(&lines);
	return 0;
}

static int
merge(struct books *b, int spool_fd)
{
	struct merge m = { .next = b->walk.seq + 1, .fd = -1 };
	unsigned parts = b->parts.n;
	uint64_t before;
	int result;

	strlcpy(m.head, b->walk.head, sizeof(m.head));
	/* Nothing comes behind the end. */
	if (b->walk.completed)
		return spool_fd == -1 ? 0 : count_spool(b, &m, spool_fd);
	do {
		before = m.next;
		result = merge_parts(b, &m, parts);
		if (result == 0)
			result = merge_spool(b, &m, spool_fd);
	} while (result == 0 && m.next > before);
	if (result == 0 && m.fd != -1 &&
	    (fdatasync(m.fd) == -1 ||
		segment_walk_part(m.fd, 0, b->digest, &b->walk) == -1))
		result = -1;
	if (m.fd != -1)
		close(m.fd);
	return result == 0 && spool_fd != -1 ? count_spool(b, &m, spool_fd)
					      : result;
}

int
books_merge(struct books *b)
{
	int spool_fd, result;

	b->spooled = b->placed = b->unplaced = 0;
	spool_fd = store_spool(b->store, b->spool, b->inv, false);
	if (spool_fd == -1 && errno != ENOENT)
		return -1;
	result = merge(b, spool_fd);
	if (spool_fd == -1)
		return result;
	close(spool_fd);
	if (result == 0 && b->unplaced == 0)
		store_spool_unlink(b->store, b->spool, b->inv);
	return result;
}

int
books_sync(const struct books *b)
{
	unsigned part;
	int fd, result = 0;

	for (part = 1; part <= b->parts.n && result == 0; part++) {
		fd = open_part(b, part);
		result = fd == -1 ? -1 : fdatasync(fd);
		if (fd != -1)
			close(fd);
	}
	return result;
}

/* --- the end --- */

static int
write_end(struct books *b, int fd, const struct books_end *end)
{
	struct row_subject s = { b->inv, b->skill_id, b->trace_id, NULL };
	struct segment *segment;
	struct row row;
	int result = -1;

	segment = segment_new(fd, b->inv, b->walk.seq + 1, b->walk.head,
	    SEGMENT_SYNC_ROW, b->digest);
	if (segment == NULL)
		return -1;
	row_begin(&row, ROW_INVOKED_COMPLETED, &s, b->digest);
	row_string(&row, "version", b->version);
	row_word(&row, "outcome", end->outcome);
	row_int(&row, "duration_ms", end->duration_ms);
	row_word(&row, "exit_code", NULL);
	row_word(&row, "signal", NULL);
	row_int(&row, "calls", (int64_t)b->walk.calls);
	row_int(&row, "denied", (int64_t)b->walk.denied);
	row_int(&row, "rejected", 0);
	row_word(&row, "by",
	    b->by == ROW_BY_RECOVERY ? "recovery" : "supervisor");
	row_string(&row, "error_message", end->error_message);
	if (row_end(&row) == 0 && segment_append(segment, b->by, &row, NULL) == 0)
		result = 0;
	row_clear(&row);
	return segment_end(segment) == -1 ? -1 : result;
}

int
books_end(struct books *b, const struct books_end *end)
{
	int fd, result;

	fd = books_part(b);
	if (fd == -1)
		return -1;
	result = write_end(b, fd, end);
	if (result == 0)
		result = segment_walk_part(fd, 0, b->digest, &b->walk);
	close(fd);
	return result;
}

int
books_close(struct books *b, const char *reason, uint64_t lost,
    struct anchor *anchor)
{
	const struct segment_walk *w = &b->walk;
	struct row row;
	int result;

	/* What does not hold is never signed off as good. */
	if (w->damaged)
		reason = "damaged";
	row_begin(&row, ROW_SEGMENT_CLOSED, NULL, b->digest);
	row_word(&row, "invocation_id", b->inv);
	row_word(&row, "reason", reason);
	row_int(&row, "parts", (int64_t)b->parts.n);
	row_int(&row, "rows", (int64_t)w->rows);
	row_int(&row, "bytes", (int64_t)w->bytes);
	row_int(&row, "calls", (int64_t)w->calls);
	row_int(&row, "denied", (int64_t)w->denied);
	row_int(&row, "errors", (int64_t)w->errors);
	row_int(&row, "timeouts", (int64_t)w->timeouts);
	row_int(&row, "open_calls", (int64_t)w->open_calls);
	row_word(&row, "head", w->head);
	row_int(&row, "torn_bytes", (int64_t)w->torn_bytes);
	row_word(&row, "torn_sha256",
	    w->torn_sha256[0] == '\0' ? NULL : w->torn_sha256);
	row_int(&row, "spooled", (int64_t)b->spooled);
	row_int(&row, "duplicates",
	    (int64_t)(b->spooled - b->placed - b->unplaced));
	row_int(&row, "lost", (int64_t)(lost + b->unplaced));
	result = row_end(&row) == 0 ? anchor_append(b->store, &row, b->by,
					  b->digest, anchor)
				    : -1;
	row_clear(&row);
	return result;
}
