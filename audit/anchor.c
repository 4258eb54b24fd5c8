/*
 * The host's chain of anchors. Every segment hangs on one, so a segment that
 * is removed, moved or exchanged leaves an anchor that does not fit; the chain
 * of the days leaves a day that is missing visible in the next one.
 */

#include "audit/anchor.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/json.h"

#define ZERO_HASH                                                              \
	"0000000000000000000000000000000000000000000000000000000000000000"
#define DAY_FILE "host.jsonl"

/* The end of a day's file: where the next row continues. */
struct day_end {
	uint64_t hseq; /* of the last row; 0: none */
	char head[DIGEST_HEX];
	off_t size;
	size_t torn; /* bytes behind the last line feed */
};

static int
lock_within(int fd, int64_t ms)
{
	const struct timespec nap = { 0, 500000 };
	int64_t until = clock_boot() + ms * CLOCK_MS;

	while (flock(fd, LOCK_EX | LOCK_NB) == -1) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -1;
		if (clock_boot() > until) {
			errno = ETIMEDOUT;
			return -1;
		}
		nanosleep(&nap, NULL);
	}
	return 0;
}

/* The last good row of a day's file; it must hold, or nothing is appended. */
static int
read_end(int fd, const struct store *s, struct digest *digest,
    struct day_end *end)
{
	char tail[2 * ROW_MAX];
	struct row_read r;
	struct stat st;
	const char *last, *line;
	off_t from;
	ssize_t n;

	memset(end, 0, sizeof(*end));
	strlcpy(end->head, ZERO_HASH, sizeof(end->head));
	if (fstat(fd, &st) == -1)
		return -1;
	end->size = st.st_size;
	if (st.st_size == 0)
		return 0;
	from = st.st_size > (off_t)sizeof(tail)
	    ? st.st_size - (off_t)sizeof(tail)
	    : 0;
	n = pread(fd, tail, sizeof(tail), from);
	if (n <= 0)
		return -1;
	last = memrchr(tail, '\n', (size_t)n);
	end->torn = last == NULL ? (size_t)n : (size_t)(tail + n - 1 - last);
	if (last == NULL)
		return 0;
	/* Closed fragments of earlier crashes are stepped over. */
	for (;;) {
		line = last == tail
		    ? NULL
		    : memrchr(tail, '\n', (size_t)(last - tail));
		line = line == NULL ? tail : line + 1;
		if (row_read(line, (size_t)(last - line), true, s->host, digest,
			&r) == 0)
			break;
		if (line == tail) {
			errno = EBADMSG;
			return -1;
		}
		last = line - 1;
	}
	end->hseq = r.seq;
	strlcpy(end->head, r.hash, sizeof(end->head));
	return 0;
}

/* The newest day before this one that has a host file. */
static int
previous_day(
    const struct store *s, const char *day, char found[CLOCK_DAY_SIZE])
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
		if (strlen(e->d_name) != CLOCK_DAY_SIZE - 1 ||
		    strspn(e->d_name, "0123456789-") != CLOCK_DAY_SIZE - 1 ||
		    strcmp(e->d_name, day) >= 0 ||
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
	end->size += n;
	strlcpy(end->head, hash, sizeof(end->head));
	result = 0;
out:
	buf_clear(&line);
	return result;
}

static int
close_torn(int fd, const struct store *s, struct digest *digest,
    struct day_end *end)
{
	char fragment[2 * ROW_MAX], text[DIGEST_TEXT];
	struct row row;
	ssize_t n;
	int result;

	n = pread(fd, fragment, end->torn, end->size - (off_t)end->torn);
	if (n != (ssize_t)end->torn || write(fd, "\n", 1) != 1)
		return -1;
	end->size++;
	digest_text(digest, fragment, end->torn, text);
	row_begin(&row, ROW_RECOVERED, NULL, digest);
	row_int(&row, "torn_bytes", (int64_t)end->torn);
	row_word(&row, "torn_sha256", text);
	result = row_end(&row) == 0
	    ? append_row(fd, s, &row, ROW_BY_RECOVERY, end)
	    : -1;
	row_clear(&row);
	return result;
}

static int
open_day(int fd, const struct store *s, const char *day,
    struct digest *digest, struct day_end *end)
{
	char before[CLOCK_DAY_SIZE];
	struct row row;
	int before_fd, dir, result;

	if (previous_day(s, day, before) == -1)
		return -1;
	if (before[0] != '\0') {
		dir = store_day(s, before, 0);
		if (dir == -1)
			return -1;
		before_fd = openat(dir, DAY_FILE, O_RDONLY | O_CLOEXEC);
		close(dir);
		if (before_fd == -1)
			return -1;
		result = read_end(before_fd, s, digest, end);
		close(before_fd);
		if (result == -1)
			return -1;
	}
	end->size = 0;
	end->torn = 0;
	row_begin(&row, ROW_DAY_OPENED, NULL, digest);
	row_word(&row, "prev_day", before[0] == '\0' ? NULL : before);
	row_word(&row, "prev_head", before[0] == '\0' ? NULL : end->head);
	result = row_end(&row) == 0
	    ? append_row(fd, s, &row, ROW_BY_SUPERVISOR, end)
	    : -1;
	row_clear(&row);
	return result;
}

int
anchor_append(const struct store *s, const struct row *row, enum row_by by,
    struct digest *digest, struct anchor *a)
{
	struct day_end end;
	char day[CLOCK_DAY_SIZE];
	int dir, fd = -1, result = -1;

	clock_day(clock_wall(), day);
	dir = store_day(s, day, 1);
	if (dir == -1)
		return -1;
	fd = openat(dir, DAY_FILE,
	    O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd == -1 || lock_within(fd, ANCHOR_WAIT_MS) == -1 ||
	    read_end(fd, s, digest, &end) == -1)
		goto out;
	if (end.torn > 0 && close_torn(fd, s, digest, &end) == -1)
		goto out;
	if (end.hseq == 0 && open_day(fd, s, day, digest, &end) == -1)
		goto out;
	if (append_row(fd, s, row, by, &end) == -1)
		goto out;
	a->hseq = end.hseq;
	strlcpy(a->hash, end.head, sizeof(a->hash));
	strlcpy(a->day, day, sizeof(a->day));
	result = 0;
out:
	if (fd != -1)
		close(fd); /* drops the lock */
	close(dir);
	return result;
}

int
anchor_sync(const struct store *s, const struct anchor *a)
{
	int dir, fd, result;

	dir = store_day(s, a->day, 0);
	if (dir == -1)
		return -1;
	fd = openat(dir, DAY_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	close(dir);
	if (fd == -1)
		return -1;
	result = fdatasync(fd);
	close(fd);
	return result;
}

static uint64_t
payload_count(const char *payload, size_t len, const char *name)
{
	struct json_span v;

	if (!json_member(payload, len, name, &v))
		return 0;
	return strtoull(v.p, NULL, 10);
}

static void
add_line(const char *line, size_t len, struct anchor_totals *t)
{
	struct json_span kind, payload, seq;
	const char *closed = row_kind_word(ROW_SEGMENT_CLOSED);

	if (!json_scan(line, len, false, NULL, NULL) ||
	    !json_member(line, len, "kind", &kind) ||
	    !json_member(line, len, "hseq", &seq) ||
	    !json_member(line, len, "payload", &payload))
		return;
	t->hseq = strtoull(seq.p, NULL, 10);
	if (kind.len != strlen(closed) + 2 ||
	    memcmp(kind.p + 1, closed, kind.len - 2) != 0)
		return;
	t->calls += payload_count(payload.p, payload.len, "calls");
	t->denied += payload_count(payload.p, payload.len, "denied");
	t->errors += payload_count(payload.p, payload.len, "errors");
	t->timeouts += payload_count(payload.p, payload.len, "timeouts");
}

static void
read_kept(int dir, struct anchor_totals *t)
{
	char text[512];
	ssize_t n;
	int fd;

	memset(t, 0, sizeof(*t));
	fd = openat(dir, "totals", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd == -1)
		return;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return;
	text[n] = '\0';
	if (sscanf(text,
		"{\"v\":1,\"hseq\":%" SCNu64 ",\"offset\":%" SCNu64
		",\"calls\":%" SCNu64 ",\"denied\":%" SCNu64
		",\"errors\":%" SCNu64 ",\"timeouts\":%" SCNu64 "}",
		&t->hseq, &t->offset, &t->calls, &t->denied, &t->errors,
		&t->timeouts) != 6)
		memset(t, 0, sizeof(*t));
}

static int
sum_day(int dir, struct anchor_totals *t)
{
	struct stat st;
	char *line = NULL;
	size_t size = 0;
	ssize_t n;
	FILE *f;
	int fd;

	read_kept(dir, t);
	fd = openat(dir, DAY_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd == -1)
		return errno == ENOENT ? 0 : -1;
	if (fstat(fd, &st) == 0 && t->offset > (uint64_t)st.st_size)
		memset(t, 0, sizeof(*t));
	f = fdopen(fd, "r");
	if (f == NULL) {
		close(fd);
		return -1;
	}
	if (fseeko(f, (off_t)t->offset, SEEK_SET) == -1) {
		fclose(f);
		return -1;
	}
	while ((n = getline(&line, &size, f)) > 0 && line[n - 1] == '\n') {
		add_line(line, (size_t)n - 1, t);
		t->offset += (uint64_t)n;
	}
	free(line);
	fclose(f);
	return 0;
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
anchor_keep_totals(const struct store *s, const char *day)
{
	struct anchor_totals t;
	char name[64];
	int dir, fd, result = -1;

	dir = store_day(s, day, 0);
	if (dir == -1)
		return -1;
	if (sum_day(dir, &t) == -1)
		goto out;
	/* Two supervisors may do this at once: each writes a true sum. */
	snprintf(name, sizeof(name), ".totals.%ld", (long)getpid());
	fd = openat(dir, name,
	    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd == -1)
		goto out;
	if (dprintf(fd,
		"{\"v\":1,\"hseq\":%" PRIu64 ",\"offset\":%" PRIu64
		",\"calls\":%" PRIu64 ",\"denied\":%" PRIu64
		",\"errors\":%" PRIu64 ",\"timeouts\":%" PRIu64 "}\n",
		t.hseq, t.offset, t.calls, t.denied, t.errors, t.timeouts) > 0)
		result = renameat(dir, name, dir, "totals");
	close(fd);
out:
	close(dir);
	return result;
}
