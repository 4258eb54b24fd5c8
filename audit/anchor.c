/*
 * The host's chain of anchors. Every segment hangs on one, so a segment that
 * is removed, moved or exchanged leaves an anchor that does not fit; the chain
 * of the days leaves a day that is missing visible in the next one.
 */

#include "audit/anchor.h"

#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/buf.h"
#include "audit/json.h"
#include "audit/lines.h"
#include "audit/segment.h"

#define ZERO_HASH                                                              \
	"0000000000000000000000000000000000000000000000000000000000000000"
#define DAY_FILE "host.jsonl"
#define DAY_FLAGS (O_RDWR | O_APPEND)
#define REST_MAX ((size_t)1024 * 1024) /* what crashes can have left */

/* The end of a day's file: where the next row continues. */
struct day_end {
	uint64_t hseq; /* of the last good row; 0: none */
	char head[DIGEST_HEX];
	char stamp[CLOCK_STAMP_SIZE]; /* when it was written */
	struct buf rest; /* what lies behind that row: a crash left it */
};

static void
close_keep_errno(int fd)
{
	int saved = errno;

	close(fd);
	errno = saved;
}

static void
end_init(struct day_end *end)
{
	end->hseq = 0;
	strlcpy(end->head, ZERO_HASH, sizeof(end->head));
	end->stamp[0] = '\0';
	buf_init(&end->rest, REST_MAX);
}

/* The last good row that was found. */
static void
note_row(struct day_end *end, const struct row_read *r)
{
	end->hseq = r->seq;
	strlcpy(end->head, r->hash, sizeof(end->head));
	strlcpy(end->stamp, r->ts, sizeof(end->stamp));
}

/*
 * Find the last good row in the tail of a file and keep what is behind it.
 * False when there is none.
 */
static bool
look_back(const struct buf *tail, const struct store *s,
    struct digest *digest, struct day_end *end)
{
	const char *line, *feed, *stop = tail->data + tail->len;
	struct row_read r;

	while ((feed = memrchr(tail->data, '\n', (size_t)(stop - tail->data))) !=
	    NULL) {
		line = memrchr(tail->data, '\n', (size_t)(feed - tail->data));
		line = line == NULL ? tail->data : line + 1;
		if (row_read(line, (size_t)(feed - line), true, s->host,
			digest, &r) == 0) {
			note_row(end, &r);
			line = feed + 1;
			(void)buf_put(&end->rest, line,
			    (size_t)(tail->data + tail->len - line));
			return true;
		}
		stop = line;
	}
	return false;
}

/* Where a day's file ends; what a crash left there is looked at bytewise. */
static int
read_end(int fd, const struct store *s, struct digest *digest,
    struct day_end *end)
{
	struct buf tail;
	struct stat st;
	size_t want = 2 * ROW_MAX;
	bool found, whole;
	int result = -1;
	ssize_t n;

	buf_clear(&end->rest);
	end_init(end);
	buf_init(&tail, REST_MAX);
	if (fstat(fd, &st) == -1)
		return -1;
	for (;;) {
		whole = st.st_size <= (off_t)want;
		if (whole)
			want = (size_t)st.st_size;
		if (buf_reserve(&tail, want) == NULL && want > 0)
			goto out;
		n = pread(fd, tail.data, want, st.st_size - (off_t)want);
		if (n != (ssize_t)want)
			goto out;
		tail.len = want;
		found = tail.len > 0 && look_back(&tail, s, digest, end);
		if (found || whole)
			break;
		/* More rubbish than crashes leave: nothing is appended. */
		if (want == REST_MAX) {
			errno = EBADMSG;
			goto out;
		}
		want = REST_MAX;
		buf_reset(&tail);
	}
	if (!found)
		(void)buf_put(&end->rest, tail.data, tail.len);
	result = end->rest.failed ? -1 : 0;
out:
	buf_clear(&tail);
	return result;
}

/*
 * The newest day before this one, or with NULL of all, that has a host file; ""
 * when there is none.
 */
static int
newest_day(const struct store *s, const char *day, char found[CLOCK_DAY_SIZE])
{
	struct dirent *e;
	struct stat st;
	char name[64];
	DIR *d;
	int fd;

	found[0] = '\0';
	fd = openat(s->audit_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd == -1)
		return -1;
	d = fdopendir(fd);
	if (d == NULL) {
		close(fd);
		return -1;
	}
	while ((e = readdir(d)) != NULL) {
		if (!store_is_day(e->d_name) ||
		    (day != NULL && strcmp(e->d_name, day) >= 0) ||
		    strcmp(e->d_name, found) <= 0)
			continue;
		snprintf(name, sizeof(name), "%.10s/" DAY_FILE, e->d_name);
		if (fstatat(s->audit_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			strlcpy(found, e->d_name, CLOCK_DAY_SIZE);
	}
	closedir(d);
	return 0;
}

/* One line, one write; what a crash leaves of it is found by the next. */
static int
append_row(int fd, const struct store *s, const struct row *row,
    enum row_by by, struct day_end *end)
{
	struct row_place at = { NULL, s->host, end->hseq + 1, by, end->head };
	struct buf line;
	char hash[DIGEST_HEX];
	int result = -1;
	ssize_t n;

	buf_init(&line, ROW_MAX);
	if (row_line(row, &at, &line, hash) == -1)
		goto out;
	n = write(fd, line.data, line.len);
	if (n != (ssize_t)line.len) {
		if (n >= 0)
			errno = ENOSPC;
		goto out;
	}
	end->hseq++;
	strlcpy(end->head, hash, sizeof(end->head));
	result = 0;
out:
	buf_clear(&line);
	return result;
}

/*
 * A crash can have taken nothing but the line feed of a row. Then the row is
 * whole, and with its line feed it is the last one.
 */
static bool
is_next_row(const struct buf *rest, const struct store *s,
    struct digest *digest, const struct day_end *end, struct row_read *r)
{
	return memchr(rest->data, '\n', rest->len) == NULL &&
	    row_read(rest->data, rest->len, true, s->host, digest, r) == 0 &&
	    (end->hseq == 0 ||
		(r->seq == end->hseq + 1 && strcmp(r->prev, end->head) == 0));
}

/*
 * Close what lies behind the last good row with a line feed, so that the next
 * row begins a line. *torn says whether audit.recovered has to name it: it is
 * all that lies there, so a second crash in the middle of this loses nothing.
 */
static int
close_rest(int fd, const struct store *s, struct digest *digest,
    struct day_end *end, bool *torn)
{
	struct row_read r;
	bool ended;

	*torn = false;
	if (end->rest.len == 0)
		return 0;
	ended = end->rest.data[end->rest.len - 1] == '\n';
	if (!ended && write(fd, "\n", 1) != 1)
		return -1;
	if (!ended && is_next_row(&end->rest, s, digest, end, &r)) {
		note_row(end, &r);
		return 0;
	}
	if (ended)
		end->rest.len--;
	*torn = true;
	return 0;
}

static int
append_recovered(int fd, const struct store *s, struct digest *digest,
    struct day_end *end)
{
	char text[DIGEST_TEXT];
	struct row row;
	int result;

	digest_text(digest, end->rest.data, end->rest.len, text);
	row_begin(&row, ROW_RECOVERED, NULL, digest);
	row_int(&row, "torn_bytes", (int64_t)end->rest.len);
	row_word(&row, "torn_sha256", text);
	result = row_end(&row) == 0
	    ? append_row(fd, s, &row, ROW_BY_RECOVERY, end)
	    : -1;
	row_clear(&row);
	return result;
}

/*
 * The end of a day's file, under its lock, and what a crash left there mended;
 * hseq 0: there is no good row, and nothing is done.
 */
static int
mend_day(const struct store *s, const char *day, struct digest *digest,
    struct day_end *end)
{
	int dir, fd, result = 0;
	bool torn;

	dir = store_day(s, day, 0);
	if (dir == -1)
		return -1;
	fd = store_file(dir, DAY_FILE, DAY_FLAGS);
	close_keep_errno(dir);
	if (fd == -1)
		return -1;
	if (store_lock_file(fd, ANCHOR_WAIT_MS) == -1 ||
	    read_end(fd, s, digest, end) == -1 ||
	    (end->hseq > 0 &&
		(close_rest(fd, s, digest, end, &torn) == -1 ||
		    (torn && append_recovered(fd, s, digest, end) == -1) ||
		    fdatasync(fd) == -1)))
		result = -1;
	close_keep_errno(fd);
	return result;
}

int
anchor_mend(const struct store *s, struct digest *digest)
{
	struct day_end end;
	char day[CLOCK_DAY_SIZE];
	int result;

	if (newest_day(s, NULL, day) == -1)
		return -1;
	if (day[0] == '\0')
		return 0;
	end_init(&end);
	result = mend_day(s, day, digest, &end);
	if (result == 0 && end.hseq > 0 && end.rest.len > 0)
		result = 1;
	buf_clear(&end.rest);
	return result;
}

/*
 * The final end of the newest day before this one that has a good row. Its
 * lock is taken, and what a crash left in it mended: nothing is appended to it
 * once the next day hangs on it. On disk it must be first.
 */
static int
end_of_day_before(const struct store *s, const char *day,
    struct digest *digest, struct day_end *end, char before[CLOCK_DAY_SIZE])
{
	char at[CLOCK_DAY_SIZE];
	int result;

	strlcpy(at, day, sizeof(at));
	end_init(end);
	do {
		if (newest_day(s, at, before) == -1)
			return -1;
		if (before[0] == '\0')
			return 0;
		strlcpy(at, before, sizeof(at));
		result = mend_day(s, before, digest, end);
	} while (result == 0 && end->hseq == 0);
	return result;
}

static int
open_day(int fd, const struct store *s, const char *day,
    struct digest *digest, struct day_end *end)
{
	char before[CLOCK_DAY_SIZE];
	struct day_end last;
	struct row row;
	int result = -1;

	if (end_of_day_before(s, day, digest, &last, before) == -1)
		goto out;
	end->hseq = last.hseq;
	strlcpy(end->head, last.head, sizeof(end->head));
	strlcpy(end->stamp, last.stamp, sizeof(end->stamp));
	row_begin(&row, ROW_DAY_OPENED, NULL, digest);
	row_word(&row, "prev_day", before[0] == '\0' ? NULL : before);
	row_word(&row, "prev_head", before[0] == '\0' ? NULL : last.head);
	result = row_end(&row) == 0
	    ? append_row(fd, s, &row, ROW_BY_SUPERVISOR, end)
	    : -1;
	row_clear(&row);
out:
	buf_clear(&last.rest);
	return result;
}

int
anchor_day(const struct store *s, char day[CLOCK_DAY_SIZE])
{
	char newest[CLOCK_DAY_SIZE];

	clock_day(clock_wall(), day);
	if (newest_day(s, NULL, newest) == -1)
		return -1;
	if (strcmp(newest, day) > 0)
		strlcpy(day, newest, CLOCK_DAY_SIZE);
	return 0;
}

/* The clock was set back: who reads the times that follow shall know it. */
static int
append_step(int fd, const struct store *s, struct digest *digest,
    struct day_end *end)
{
	char now[CLOCK_STAMP_SIZE];
	struct row row;
	int result;

	clock_stamp(clock_wall() + CLOCK_SECOND, now);
	if (strcmp(now, end->stamp) >= 0)
		return 0;
	row_begin(&row, ROW_CLOCK_STEP, NULL, digest);
	row_word(&row, "prev_ts", end->stamp);
	result = row_end(&row) == 0
	    ? append_row(fd, s, &row, ROW_BY_SUPERVISOR, end)
	    : -1;
	row_clear(&row);
	return result;
}

/*
 * The file of anchor_day, locked. A day that ended while the lock was waited
 * for is left alone: the next one may hang on its last row already.
 */
static int
lock_current(const struct store *s, char day[CLOCK_DAY_SIZE])
{
	char now[CLOCK_DAY_SIZE];
	int dir, fd;

	for (;;) {
		if (anchor_day(s, day) == -1)
			return -1;
		dir = store_day(s, day, 1);
		if (dir == -1)
			return -1;
		fd = store_file(dir, DAY_FILE, DAY_FLAGS | O_CREAT);
		close(dir);
		if (fd == -1)
			return -1;
		if (store_lock_file(fd, ANCHOR_WAIT_MS) == -1)
			break;
		if (anchor_day(s, now) == -1)
			break;
		if (strcmp(now, day) == 0)
			return fd;
		close(fd);
	}
	close_keep_errno(fd);
	return -1;
}

int
anchor_append(const struct store *s, const struct row *row, enum row_by by,
    struct digest *digest, struct anchor *a)
{
	return anchor_append_to(s, NULL, row, by, digest, a);
}

int
anchor_append_to(const struct store *s, const char *wanted,
    const struct row *row, enum row_by by, struct digest *digest,
    struct anchor *a)
{
	struct day_end end;
	char day[CLOCK_DAY_SIZE];
	bool torn;
	int fd, result = -1;

	end_init(&end);
	fd = lock_current(s, day);
	if (fd != -1 && wanted != NULL && strcmp(day, wanted) != 0) {
		errno = EAGAIN;
		goto out;
	}
	if (fd == -1 || read_end(fd, s, digest, &end) == -1 ||
	    close_rest(fd, s, digest, &end, &torn) == -1 ||
	    (end.hseq == 0 && open_day(fd, s, day, digest, &end) == -1) ||
	    (torn && append_recovered(fd, s, digest, &end) == -1) ||
	    append_step(fd, s, digest, &end) == -1 ||
	    append_row(fd, s, row, by, &end) == -1)
		goto out;
	a->hseq = end.hseq;
	strlcpy(a->hash, end.head, sizeof(a->hash));
	strlcpy(a->day, day, sizeof(a->day));
	result = 0;
out:
	if (fd != -1)
		close_keep_errno(fd); /* drops the lock */
	buf_clear(&end.rest);
	return result;
}

int
anchor_sync(const struct store *s, const struct anchor *a)
{
	int dir, fd, result;

	dir = store_day(s, a->day, 0);
	if (dir == -1)
		return -1;
	fd = store_file(dir, DAY_FILE, O_RDONLY);
	close(dir);
	if (fd == -1)
		return -1;
	result = fdatasync(fd);
	close(fd);
	return result;
}

/* Is this line an anchor, and one that closes a segment? */
static bool
read_anchor(const char *line, size_t len, struct json_span *seq,
    struct json_span *payload, bool *closes)
{
	const char *closed = row_kind_word(ROW_SEGMENT_CLOSED);
	struct json_span kind;

	if (!json_scan(line, len, false, NULL, NULL) ||
	    !json_member(line, len, "kind", &kind) ||
	    !json_member(line, len, "hseq", seq) ||
	    !json_member(line, len, "payload", payload))
		return false;
	*closes = kind.len == strlen(closed) + 2 &&
		  memcmp(kind.p + 1, closed, kind.len - 2) == 0;
	return true;
}

static void
add_line(const char *line, size_t len, struct anchor_totals *t)
{
	struct json_span payload, seq;
	struct segment_totals sum = { 0, 0, 0, 0 };
	bool closes;

	if (!read_anchor(line, len, &seq, &payload, &closes))
		return;
	t->hseq = strtoull(seq.p, NULL, 10);
	if (!closes)
		return;
	segment_totals_add(&sum, payload.p, payload.len);
	t->calls += sum.calls;
	t->denied += sum.denied;
	t->errors += sum.errors;
	t->timeouts += sum.timeouts;
}

static int
print_totals(const struct anchor_totals *t, char *text, size_t size)
{
	return snprintf(text, size,
	    "{\"v\":1,\"hseq\":%" PRIu64 ",\"offset\":%" PRIu64
	    ",\"calls\":%" PRIu64 ",\"denied\":%" PRIu64
	    ",\"errors\":%" PRIu64 ",\"timeouts\":%" PRIu64 "}\n",
	    t->hseq, t->offset, t->calls, t->denied, t->errors, t->timeouts);
}

bool
anchor_totals_parse(const char *text, size_t len, struct anchor_totals *t)
{
	char copy[ANCHOR_TOTALS_SIZE], same[ANCHOR_TOTALS_SIZE];

	if (len >= sizeof(copy))
		return false;
	memcpy(copy, text, len);
	copy[len] = '\0';
	return sscanf(copy,
		   "{\"v\":1,\"hseq\":%" SCNu64 ",\"offset\":%" SCNu64
		   ",\"calls\":%" SCNu64 ",\"denied\":%" SCNu64
		   ",\"errors\":%" SCNu64 ",\"timeouts\":%" SCNu64,
		   &t->hseq, &t->offset, &t->calls, &t->denied, &t->errors,
		   &t->timeouts) == 6 &&
	       print_totals(t, same, sizeof(same)) == (int)len &&
	       memcmp(copy, same, len) == 0;
}

static void
read_kept(int dir, struct anchor_totals *t)
{
	char text[ANCHOR_TOTALS_SIZE];
	ssize_t n;
	int fd;

	memset(t, 0, sizeof(*t));
	fd = store_file(dir, "totals", O_RDONLY);
	if (fd == -1)
		return;
	n = read(fd, text, sizeof(text));
	close(fd);
	if (n <= 0)
		return;
	if (!anchor_totals_parse(text, (size_t)n, t))
		memset(t, 0, sizeof(*t));
}

static int
sum_day(int dir, struct anchor_totals *t)
{
	enum lines_event event;
	struct lines lines;
	struct stat st;
	const char *line;
	size_t len;
	int fd, result = -1;

	read_kept(dir, t);
	fd = store_file(dir, DAY_FILE, O_RDONLY);
	if (fd == -1)
		return errno == ENOENT ? 0 : -1;
	if (fstat(fd, &st) == 0 && t->offset > (uint64_t)st.st_size)
		memset(t, 0, sizeof(*t));
	if (lines_init(&lines, fd, t->offset) == -1)
		goto out;
	while ((event = lines_next_row(&lines, &line, &len)) == LINES_ROW) {
		add_line(line, len, t);
		t->offset = lines_offset(&lines);
	}
	result = event == LINES_FAILED ? -1 : 0;
	lines_clear(&lines);
out:
	close_keep_errno(fd);
	return result;
}

int
anchor_totals(const struct store *s, const char *day, struct anchor_totals *t)
{
	int dir, result;

	memset(t, 0, sizeof(*t));
	dir = store_day(s, day, 0);
	if (dir == -1)
		return errno == ENOENT ? 0 : -1;
	result = sum_day(dir, t);
	close(dir);
	return result;
}

int
anchor_closed(const struct store *s, const char *day, const char *inv)
{
	struct json_span payload, seq;
	struct lines lines;
	char name[32], id[STORE_UUID_SIZE];
	enum lines_event event = LINES_END;
	const char *line;
	size_t len;
	bool closes, found = false;
	int fd;

	snprintf(name, sizeof(name), "%.10s/" DAY_FILE, day);
	fd = store_ledger_file(s, name);
	if (fd == -1)
		return errno == ENOENT ? 0 : -1;
	if (lines_init(&lines, fd, 0) == -1) {
		close_keep_errno(fd);
		return -1;
	}
	while (!found &&
	       (event = lines_next_row(&lines, &line, &len)) == LINES_ROW)
		found = memmem(line, len, inv, STORE_UUID_SIZE - 1) != NULL &&
			read_anchor(line, len, &seq, &payload, &closes) &&
			closes &&
			json_text_of(payload.p, payload.len, "invocation_id",
			    id, sizeof(id)) &&
			strcmp(id, inv) == 0;
	lines_clear(&lines);
	close_keep_errno(fd);
	return event == LINES_FAILED ? -1 : found;
}

int
anchor_keep_totals(const struct store *s, const char *day)
{
	struct anchor_totals t;
	char name[64], text[ANCHOR_TOTALS_SIZE];
	int dir, fd, n, result = -1;

	dir = store_day(s, day, 0);
	if (dir == -1)
		return -1;
	if (sum_day(dir, &t) == -1)
		goto out;
	/* Two supervisors may do this at once: each writes a true sum. */
	snprintf(name, sizeof(name), ".totals.%ld", (long)getpid());
	fd = store_file(dir, name, O_WRONLY | O_CREAT | O_TRUNC);
	if (fd == -1)
		goto out;
	n = print_totals(&t, text, sizeof(text));
	if (write(fd, text, (size_t)n) == n)
		result = renameat(dir, name, dir, "totals");
	close_keep_errno(fd);
	if (result == -1)
		(void)unlinkat(dir, name, 0);
out:
	close(dir);
	return result;
}
