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
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/lines.h"

#define END_ROOM 4096 /* skill.invoked_completed has less */

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
	if (anchor_day(b->store, b->walk.day) == -1)
		return -1;
	if (strcmp(b->walk.day, b->day) == 0)
		b->walk.day[0] = '\0'; /* it has no day before */
	b->walk.tally = b->tally;
	b->walk.mark = b->mark;
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

/* Append-only, if the first one is. */
static void
protect_part(const struct books *b, int fd)
{
	int first = open_part(b, 1);

	if (first == -1)
		return;
	if (store_is_append_only(first))
		(void)store_append_only(fd, true);
	close(first);
}

static int
next_part(struct books *b, unsigned most)
{
	char name[STORE_SEGMENT_NAME], file[STORE_SEGMENT_NAME + 16];
	struct books_parts *parts = &b->parts;
	struct anchor anchor;
	int fd;

	if (parts->n >= most) {
		errno = EXFULL;
		return -1;
	}
	fd = store_segment(b->day_fd, b->inv, parts->n + 1, name);
	if (fd == -1)
		return -1;
	snprintf(file, sizeof(file), "%s/%s", b->day, name);
	/* It may have all but its line feed there, and count later: then it must
	 * have its file. An empty one without an anchor is recovery's to remove. */
	if (anchor_part(b, parts->n + 1, file, &anchor) == -1) {
		close(fd);
		return -1;
	}
	protect_part(b, fd);
	parts->start[parts->n++] = b->walk.seq + 1;
	/* Without its anchor a part counts for nothing, rows or not. */
	if (b->sync && (store_sync_segment(b->day_fd, b->inv) == -1 ||
			   anchor_sync(b->store, &anchor) == -1)) {
		close(fd);
		return -1;
	}
	return fd;
}

int
books_part(struct books *b)
{
	return next_part(b, BOOKS_PARTS_LIVE);
}

/*
 * The part for what comes at the end. A disk that stays full would cost one at
 * each try, so that an earlier try's, while it is empty, is as good.
 */
static int
last_part(struct books *b)
{
	const struct books_parts *parts = &b->parts;
	char name[STORE_SEGMENT_NAME];
	struct stat st;
	int fd;

	if (parts->n > 1 && parts->start[parts->n - 1] == b->walk.seq + 1) {
		store_segment_path(b->day, b->inv, parts->n, name);
		fd = store_ledger_append(b->store, name);
		if (fd == -1)
			return -1;
		if (fstat(fd, &st) == 0 && st.st_size == 0)
			return fd;
		close(fd);
	}
	return next_part(b, BOOKS_PARTS_MAX);
}

/*
 * Room for so much more, or nothing is written: half a row would use the part
 * up. A file system that cannot say is tried.
 */
static int
reserve(int fd, size_t more)
{
	struct stat st;

	if (fstat(fd, &st) == -1)
		return -1;
	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, st.st_size, (off_t)more) == 0 ||
	    (errno != ENOSPC && errno != EDQUOT && errno != EFBIG))
		return 0;
	return -1;
}

/* --- what has no place yet --- */

struct merge {
	struct books *b;
	uint64_t next;	       /* the row that is wanted */
	char head[DIGEST_HEX]; /* what it must follow */
	int fd;		       /* of the part; -1: not made yet */
	size_t spooled;	       /* bytes of the spool */
};

/* Each complete line of a file; no row where it is none of ours that holds. */
static int
each_line(const struct books *b, int fd,
    int (*take)(void *, const struct row_read *, const char *, size_t),
    void *arg)
{
	enum lines_event event = LINES_END;
	struct lines lines;
	struct row_read r;
	const char *line;
	size_t len;
	int result = 0;
	bool holds;

	if (lines_init(&lines, fd, 0) == -1)
		return -1;
	while (result == 0 &&
	       (event = lines_next(&lines, &line, &len)) != LINES_END &&
	       event != LINES_TORN && event != LINES_FAILED) {
		if (event == LINES_PIECE)
			continue;
		holds = event == LINES_ROW &&
			row_read(line, len, false, b->inv, b->digest, &r) == 0;
		result = take(arg, holds ? &r : NULL, line, len);
	}
	lines_clear(&lines);
	return event == LINES_FAILED ? -1 : result;
}

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
merge_row(void *arg, const struct row_read *r, const char *line, size_t len)
{
	struct merge *m = arg;

	if (r == NULL || r->seq != m->next || strcmp(r->prev, m->head) != 0)
		return 0;
	if (m->fd == -1) {
		m->fd = last_part(m->b);
		/* All or nothing: what is put in ends this part's use. */
		if (m->fd == -1 || reserve(m->fd, m->spooled + END_ROOM) == -1)
			return -1;
	}
	if (reserve(m->fd, len + 1) == -1 ||
	    write_line(m->fd, line, len) == -1)
		return -1;
	m->next++;
	strlcpy(m->head, r->hash, sizeof(m->head));
	return 0;
}

/* The parts before the last one: what came behind their successor's start. */
static int
merge_parts(struct merge *m, unsigned before)
{
	unsigned part;
	int fd, result = 0;

	for (part = 1; part < before && result == 0; part++) {
		fd = open_part(m->b, part);
		if (fd == -1)
			return -1;
		result = each_line(m->b, fd, merge_row, m);
		close(fd);
	}
	return result;
}

static int
merge_spool(struct merge *m, int spool_fd)
{
	uint64_t before = m->next;
	int result;

	if (spool_fd == -1)
		return 0;
	result = each_line(m->b, spool_fd, merge_row, m);
	m->b->placed += m->next - before;
	return result;
}

/* Again and again: rows may lie in another order than theirs. */
static int
merge(struct books *b, int spool_fd)
{
	struct merge m = { .b = b, .next = b->walk.seq + 1, .fd = -1 };
	unsigned parts = b->parts.n;
	uint64_t before;
	struct stat st;
	int result;

	if (spool_fd != -1 && fstat(spool_fd, &st) == 0)
		m.spooled = (size_t)st.st_size;
	strlcpy(m.head, b->walk.head, sizeof(m.head));
	do {
		before = m.next;
		result = merge_parts(&m, parts);
		if (result == 0)
			result = merge_spool(&m, spool_fd);
	} while (result == 0 && m.next > before);
	if (result == 0 && m.fd != -1 &&
	    (fdatasync(m.fd) == -1 ||
		segment_walk_part(m.fd, 0, b->digest, &b->walk) == -1))
		result = -1;
	if (m.fd != -1)
		close(m.fd);
	return result;
}

/* --- what lies elsewhere as well --- */

/* A row of the spool, or of a part behind its successor's start. */
struct copy {
	uint64_t seq;
	char prev[DIGEST_HEX], hash[DIGEST_HEX];
	bool spooled;
};

struct copies {
	struct books *b;
	struct copy *copy;
	size_t n;
	bool spooled; /* those that come now */
	unsigned part;
	uint64_t next; /* the row whose place comes next in the parts */
	size_t at;     /* of the copies in order, the first that is left */
};

static int
add_copy(struct copies *c, const struct row_read *r)
{
	struct copy *copy;

	/* By steps that grow. */
	if ((c->n & (c->n - 1)) == 0) {
		copy = recallocarray(c->copy, c->n, c->n == 0 ? 1 : 2 * c->n,
		    sizeof(*copy));
		if (copy == NULL)
			return -1;
		c->copy = copy;
	}
	copy = &c->copy[c->n++];
	copy->seq = r->seq;
	copy->spooled = c->spooled;
	strlcpy(copy->prev, r->prev, sizeof(copy->prev));
	strlcpy(copy->hash, r->hash, sizeof(copy->hash));
	return 0;
}

/* Only a crash tears a row, and then it has no line feed. */
static int
take_spooled(
    void *arg, const struct row_read *r, const char *line, size_t len)
{
	struct copies *c = arg;

	(void)line;
	(void)len;
	if (r == NULL) {
		c->b->walk.damaged = true;
		return 0;
	}
	c->b->spooled++;
	return add_copy(c, r);
}

/* Is this the place of a row? Else it counts in another part. */
static bool
in_place(struct copies *c, const struct row_read *r)
{
	const struct books_parts *parts = &c->b->parts;

	if (r == NULL || r->seq != c->next ||
	    (c->part < parts->n && r->seq >= parts->start[c->part]))
		return false;
	c->next++;
	return true;
}

/* What does not hold in a part is nobody's word. */
static int
take_again(void *arg, const struct row_read *r, const char *line, size_t len)
{
	struct copies *c = arg;

	(void)line;
	(void)len;
	return r == NULL || in_place(c, r) ? 0 : add_copy(c, r);
}

/* Each copy of a row is the same row. */
static int
compare_row(void *arg, const struct row_read *r, const char *line, size_t len)
{
	struct copies *c = arg;
	const struct copy *copy;

	(void)line;
	(void)len;
	if (!in_place(c, r))
		return 0;
	for (; c->at < c->n && c->copy[c->at].seq <= r->seq; c->at++) {
		copy = &c->copy[c->at];
		if (copy->seq == r->seq && strcmp(copy->hash, r->hash) == 0)
			continue;
		c->b->walk.damaged = true;
		c->b->unplaced += copy->spooled;
	}
	return 0;
}

static int
each_part(struct copies *c, unsigned last,
    int (*take)(void *, const struct row_read *, const char *, size_t))
{
	int fd, result = 0;

	c->next = 1;
	for (c->part = 1; c->part <= last && result == 0; c->part++) {
		fd = open_part(c->b, c->part);
		if (fd == -1)
			return -1;
		result = each_line(c->b, fd, take, c);
		close(fd);
	}
	return result;
}

static int
by_seq(const void *a, const void *b)
{
	const struct copy *x = a, *y = b;

	return (x->seq > y->seq) - (x->seq < y->seq);
}

/*
 * What has no place is lost. But what would come next and follows another row
 * than the last one tells of a fork; not where that one is the end, which
 * somebody else may have written.
 */
static void
count_left(struct copies *c)
{
	const struct segment_walk *w = &c->b->walk;
	const struct copy *copy;
	bool fork = false;

	for (; c->at < c->n; c->at++) {
		copy = &c->copy[c->at];
		fork = fork || (copy->seq == w->seq + 1 && !w->completed &&
				   strcmp(copy->prev, w->head) != 0);
		c->b->unplaced += copy->spooled;
	}
	c->b->walk.damaged = w->damaged || fork;
}

static int
read_copies(struct copies *c, int spool_fd)
{
	c->spooled = true;
	if (spool_fd != -1 &&
	    each_line(c->b, spool_fd, take_spooled, c) == -1)
		return -1;
	c->spooled = false;
	if (each_part(c, c->b->parts.n - 1, take_again) == -1)
		return -1;
	if (c->n > 0)
		qsort(c->copy, c->n, sizeof(*c->copy), by_seq);
	return 0;
}

/* Another row with the number of one that is there is a fork. */
static int
compare(struct books *b, int spool_fd)
{
	struct copies c = { .b = b };
	int result = read_copies(&c, spool_fd);

	if (result == 0 && c.n > 0)
		result = each_part(&c, b->parts.n, compare_row);
	if (result == 0)
		count_left(&c);
	free(c.copy);
	return result;
}

int
books_merge(struct books *b)
{
	int spool_fd, result = 0;

	b->spooled = b->placed = b->unplaced = 0;
	spool_fd = store_spool(b->store, b->spool, b->inv, false);
	if (spool_fd == -1 && errno != ENOENT)
		return -1;
	/* Nothing comes behind the end. */
	if (!b->walk.completed)
		result = merge(b, spool_fd);
	if (result == 0)
		result = compare(b, spool_fd);
	/* What was marked was on disk: its end was cut off. */
	if (b->walk.seq < b->mark.seq)
		b->walk.damaged = true;
	if (spool_fd == -1)
		return result;
	close(spool_fd);
	if (result == 0 && b->unplaced == 0 && !b->walk.damaged)
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

	/* The anchor of the part says what is before it. */
	if (b->sync && books_sync(b) == -1)
		return -1;
	fd = last_part(b);
	if (fd == -1)
		return -1;
	result = reserve(fd, END_ROOM);
	if (result == 0)
		result = write_end(b, fd, end);
	if (result == 0)
		result = segment_walk_part(fd, 0, b->digest, &b->walk);
	close(fd);
	return result;
}

/* What it did on the days before this one is in their totals. */
static void
put_before(struct row *row, const struct segment_walk *w)
{
	char text[192];

	if (w->day[0] == '\0')
		return;
	snprintf(text, sizeof(text),
	    "{\"day\":\"%s\",\"calls\":%" PRIu64 ",\"denied\":%" PRIu64
	    ",\"errors\":%" PRIu64 ",\"timeouts\":%" PRIu64 "}",
	    w->day, w->before.calls, w->before.denied, w->before.errors,
	    w->before.timeouts);
	row_json(row, "before", text, strlen(text));
}

static int
append_closed(struct books *b, const char *reason, uint64_t lost,
    struct anchor *anchor)
{
	const struct segment_walk *w = &b->walk;
	struct row row;
	int result;

	/* What does not hold is never signed off as good. */
	if (w->damaged)
		reason = "damaged";
	/* Whoever was killed told of what was lost in rows only. */
	if (lost < w->lost)
		lost = w->lost;
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
	put_before(&row, w);
	/* What was counted before midnight may stand in no other day. */
	result = row_end(&row) == 0
		     ? anchor_append_to(b->store,
			   w->day[0] == '\0' ? b->day : w->day, &row, b->by,
			   b->digest, anchor)
		     : -1;
	row_clear(&row);
	return result;
}

/* A day that has begun since the walk has other days before it. */
static int
walk_again(struct books *b)
{
	struct tally *tally = b->tally;
	bool damaged = b->walk.damaged;
	int result;

	b->tally = NULL; /* it has counted these rows */
	result = books_walk(b);
	b->tally = tally;
	b->walk.damaged = b->walk.damaged || damaged;
	return result;
}

int
books_close(struct books *b, const char *reason, uint64_t lost,
    struct anchor *anchor)
{
	int result, days = 0;

	do
		result = append_closed(b, reason, lost, anchor);
	while (result == -1 && errno == EAGAIN && days++ < 2 &&
	       walk_again(b) == 0);
	return result;
}
