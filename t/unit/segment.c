/* One invocation's chain: rows that wait, syncs that fail, files that lie. */

#include "audit/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "audit/lines.h"
#include "t/unit/tap.h"

#define INV "0a1b2c3d-0000-4000-8000-00000000eeee"
#define PREV "1111111111111111111111111111111111111111111111111111111111111111"

static struct digest *digest;
static char file[] = "/tmp/segment.XXXXXX";
static const struct row_subject subject = {
    INV, "demo", "0123456789abcdef0123456789abcdef", NULL};

static int
fresh(void)
{
	int fd = open(file, O_RDWR | O_TRUNC | O_APPEND);

	if (fd == -1)
		abort();
	return fd;
}

static off_t
size_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_size : -1;
}

static int
add_started(struct segment *s, int call)
{
	struct row r;
	int result;

	row_begin(&r, ROW_TOOL_STARTED, &subject, digest);
	row_word(&r, "tool_name", "Read");
	row_word(&r, "args_hash", PREV);
	row_word(&r, "resource", "/x");
	row_int(&r, "call", call);
	result =
	    row_end(&r) == 0 ? segment_append(s, ROW_BY_BROKER, &r, NULL) : -2;
	row_clear(&r);
	return result;
}

static int
add_completed(struct segment *s, int call, const char *outcome)
{
	struct row r;
	int result;

	row_begin(&r, ROW_TOOL_COMPLETED, &subject, digest);
	row_word(&r, "tool_name", "Read");
	row_int(&r, "call", call);
	row_word(&r, "outcome", outcome);
	row_int(&r, "duration_ms", 1);
	row_word(&r, "result_hash", NULL);
	row_word(&r, "error_message", NULL);
	result =
	    row_end(&r) == 0 ? segment_append(s, ROW_BY_BROKER, &r, NULL) : -2;
	row_clear(&r);
	return result;
}

static int
add_denied(struct segment *s, int call, int count)
{
	struct row r;
	int result;

	row_begin(&r, ROW_TOOL_DENIED, &subject, digest);
	row_word(&r, "tool_name", "Read");
	row_word(&r, "reason", "protected");
	row_word(&r, "attempted_args_hash", PREV);
	row_word(&r, "violation", NULL);
	if (call > 0)
		row_int(&r, "call", call);
	if (count > 0)
		row_int(&r, "count", count);
	result =
	    row_end(&r) == 0 ? segment_append(s, ROW_BY_BROKER, &r, NULL) : -2;
	row_clear(&r);
	return result;
}

/* A row that the skill asked for; its kind and payload look like ours. */
static int
add_skill(struct segment *s, const char *kind, const char *payload)
{
	struct row r;
	int result;

	row_begin_skill(&r, kind, digest);
	row_word(&r, "invocation_id", INV);
	row_json(&r, "data", payload, strlen(payload));
	result =
	    row_end(&r) == 0 ? segment_append(s, ROW_BY_SKILL, &r, NULL) : -2;
	row_clear(&r);
	return result;
}

static struct segment_walk
walk(int fd)
{
	struct segment_walk w;

	if (segment_walk(fd, INV, PREV, digest, &w) == -1)
		w.damaged = true;
	return w;
}

static void
test_counts(void)
{
	struct segment_walk w;
	struct segment *s;
	char head[DIGEST_HEX];
	int fd = fresh(), bad = 0;

	s = segment_new(fd, INV, 1, PREV, SEGMENT_SYNC_NONE, digest);
	bad += add_started(s, 1) + add_started(s, 2);
	bad += add_completed(s, 2, "success") + add_completed(s, 1, "error");
	bad += add_started(s, 3) + add_completed(s, 3, "timeout");
	bad += add_denied(s, 0, 0) + add_denied(s, 0, 5);
	bad += add_started(s, 4) + add_denied(s, 4, 0);
	bad += add_skill(s, "note.tool_denied", "{\"call\":1}");
	bad += add_started(s, 5);
	is_int(bad, 0, "rows go into the file");
	strlcpy(head, segment_head(s), sizeof(head));
	is_int(segment_end(s), 0, "the end");
	w = walk(fd);
	ok(!w.damaged && w.rows == 12 && w.seq == 12 && w.torn_bytes == 0 &&
		w.bytes == (uint64_t)size_of(fd) && strcmp(w.head, head) == 0,
	    "a walk finds them");
	ok(w.calls == 5 + 6 && w.denied == 7 && w.errors == 1 &&
		w.timeouts == 1 && w.open_calls == 2 && !w.completed,
	    "and counts what is not the skill's word");
	is_int(lseek(fd, 0, SEEK_CUR), size_of(fd), "the offset is left alone");
	close(fd);
}

static void
limit(rlim_t bytes)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_FSIZE, &l) == -1)
		abort();
	l.rlim_cur = bytes;
	if (setrlimit(RLIMIT_FSIZE, &l) == -1)
		abort();
}

static void
test_waiting(void)
{
	struct segment_counts n;
	struct segment_walk w;
	struct segment *s;
	int fd = fresh(), i, bad = 0;

	s = segment_new(fd, INV, 1, PREV, SEGMENT_SYNC_NONE, digest);
	bad += add_started(s, 1);
	limit((rlim_t)size_of(fd) + 100); /* in the middle of the next row */
	is_int(add_started(s, 2), 1, "a row that does not fit waits");
	ok(errno == EFBIG, "errno says why");
	for (i = 3; i <= 20; i++)
		bad += add_started(s, i) != 1;
	segment_counts(s, &n);
	ok(n.rows == 20 && n.waiting == 19 && n.delayed == 19 && n.lost == 0,
	    "so do those behind it");
	w = walk(fd);
	ok(!w.damaged && w.rows == 1 && w.torn_bytes == 100 &&
		strlen(w.torn_sha256) == 64,
	    "meanwhile the last line is torn");
	is_int(segment_flush(s), -1, "no room yet");
	limit(RLIM_INFINITY);
	is_int(segment_flush(s), 0, "with room it goes on");
	segment_counts(s, &n);
	is_int((long long)n.waiting, 0, "nothing waits");
	is_int(add_started(s, 21), 0, "new rows follow");
	segment_end(s);
	w = walk(fd);
	ok(bad == 0 && !w.damaged && w.rows == 21 && w.torn_bytes == 0,
	    "every row once, in order, from the byte where it stopped");
	close(fd);
}

/* The part has the first 100 bytes of row 2, which no spool takes in pieces. */
static void
test_half(void)
{
	struct segment *s;
	struct row_read r;
	struct lines lines;
	const char *line;
	size_t len;
	int fd = fresh(), n = 0;
	int spool = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	s = segment_new(fd, INV, 1, PREV, SEGMENT_SYNC_NONE, digest);
	(void)add_started(s, 1);
	limit((rlim_t)size_of(fd) + 100);
	(void)add_started(s, 2);
	segment_spool(s, spool);
	limit(50);
	ok(!segment_rescue(s), "a spool with room for less than half a row");
	limit(RLIM_INFINITY);
	ok(segment_rescue(s), "and with more");
	if (lines_init(&lines, spool, 0) == -1)
		abort();
	while (lines_next(&lines, &line, &len) == LINES_ROW)
		n += row_read(line, len, false, INV, digest, &r) == 0 ? 1 : 100;
	is_int(n, 1, "has the whole row");
	lines_clear(&lines);
	segment_end(s);
	close(spool);
	close(fd);
}

static void
test_lost(void)
{
	struct segment_counts n;
	struct segment_walk w;
	struct segment *s;
	int fd = fresh(), i, waiting = 0, lost = 0;

	s = segment_new(fd, INV, 1, PREV, SEGMENT_SYNC_NONE, digest);
	limit(0);
	for (i = 1; i <= 10000; i++) {
		switch (add_denied(s, 0, 0)) {
		case 1:
			waiting++;
			break;
		case -1:
			lost++;
			break;
		default:
			abort();
		}
	}
	segment_counts(s, &n);
	ok(lost > 0 && n.lost == (uint64_t)lost &&
		n.waiting == (uint64_t)waiting && n.rows == 10000,
	    "when memory is full rows are lost, and counted");
	limit(RLIM_INFINITY);
	is_int(add_denied(s, 0, 0), 0, "with room the next one is taken");
	segment_counts(s, &n);
	is_int((long long)n.waiting, 0, "behind all that waited");
	segment_end(s);
	w = walk(fd);
	ok(!w.damaged && w.rows == (uint64_t)waiting + 1,
	    "the chain holds without those that were lost");
	close(fd);
}

/* A pipe takes bytes, but cannot be synced. */
static void
test_sync(void)
{
	const struct timespec nap = {0, 2000000};
	struct segment_counts n;
	struct segment *s;
	int fds[2], i;

	if (pipe(fds) == -1)
		abort();
	s = segment_new(fds[1], INV, 1, PREV, SEGMENT_SYNC_ROW, digest);
	errno = 0;
	is_int(add_started(s, 1), 1, "row: a sync that fails is not success");
	is_int(errno, EINVAL, "errno says why");
	is_int(segment_flush(s), -1, "nor is it the next time");
	segment_counts(s, &n);
	ok(n.waiting > 0, "the row counts as not kept");
	is_int(segment_end(s), -1, "nor at the end");
	s = segment_new(fds[1], INV, 1, PREV, SEGMENT_SYNC_BATCH, digest);
	(void)add_started(s, 1);
	is_int(segment_flush(s), 0, "batch: nothing is synced at first");
	segment_begin(s);
	for (i = 0; i < 5000 && segment_flush(s) == 0; i++)
		nanosleep(&nap, NULL);
	is_int(segment_flush(s), -1, "batch: the thread's failure is seen");
	is_int(add_started(s, 2), 1, "by the next row too");
	segment_counts(s, &n);
	ok(n.waiting > 0, "which counts as not kept");
	is_int(segment_end(s), -1, "nor at the end");
	close(fds[0]);
	close(fds[1]);
}

static void
test_batch(void)
{
	struct segment_walk w = {.rows = 0};
	struct segment *s;
	int fd = fresh(), i, bad = 0;

	for (i = 0; i < 20; i++) {
		s = segment_new(fd, INV, (uint64_t)i * 10 + 1,
		    i == 0 ? PREV : w.head, SEGMENT_SYNC_BATCH, digest);
		bad += s == NULL;
		segment_begin(s);
		while (w = walk(fd), w.rows < ((uint64_t)i + 1) * 10)
			bad += add_started(s, (int)w.rows);
		bad += segment_end(s) != 0;
		w = walk(fd);
	}
	ok(bad == 0 && w.rows == 200 && !w.damaged,
	    "threads come and go, the chain goes on");
	is_int(segment_end(NULL), 0, "no segment has no end");
	close(fd);
}

static char text[1024 * 1024];
static size_t len;

/* Write a changed text; what does a walk say of it? */
static struct segment_walk
put(void)
{
	int fd = fresh();
	struct segment_walk w;

	if (write(fd, text, len) != (ssize_t)len)
		abort();
	w = walk(fd);
	close(fd);
	return w;
}

static char *
line(int n)
{
	char *p = text;

	while (n-- > 1)
		p = strchr(p, '\n') + 1;
	return p;
}

/* Nine rows that hold; START puts them where a test changes them. */
static char good[sizeof(text)];
static size_t good_len;

#define START (memcpy(text, good, good_len), text[len = good_len] = '\0')

static void
write_good(void)
{
	struct segment *s;
	int fd = fresh(), i;

	s = segment_new(fd, INV, 1, PREV, SEGMENT_SYNC_NONE, digest);
	for (i = 1; i <= 9; i++)
		(void)add_started(s, i);
	segment_end(s);
	good_len = (size_t)size_of(fd);
	if (pread(fd, good, good_len, 0) != (ssize_t)good_len)
		abort();
	close(fd);
}

static void
test_damage(void)
{
	struct segment_walk w;
	size_t n;
	char *p;

	START;
	w = put();
	ok(!w.damaged && w.rows == 9, "as it was written it holds");
	START;
	line(5)[100] ^= 1;
	w = put();
	ok(w.damaged && w.rows == 4, "a bit of row 5");
	START;
	p = line(5);
	n = (size_t)(line(6) - p);
	memmove(p, p + n, len - (size_t)(p + n - text));
	len -= n;
	w = put();
	ok(w.damaged && w.rows == 4, "row 5 taken out");
	START;
	p = line(9);
	memmove(p, line(8), (size_t)(p - line(8)));
	len = (size_t)(p - text) * 9 / 8;
	w = put();
	ok(w.damaged && w.rows == 8, "row 8 in the place of 9");
	START;
	len -= 1;
	w = put();
	ok(!w.damaged && w.rows == 8 && w.torn_bytes > 300 &&
		w.torn_sha256[0] != '\0',
	    "without its line feed the last row is torn");
	START;
	memset(line(9), 0, good_len - (size_t)(line(9) - text));
	w = put();
	ok(!w.damaged && w.rows == 8 && w.torn_bytes > 0,
	    "zeros that a power loss leaves are torn, too");
	START;
	line(4)[10] = '\0';
	w = put();
	ok(w.damaged && w.rows == 3, "a NUL in a row");
	START;
	line(4)[0] = '\n';
	w = put();
	ok(w.damaged && w.rows == 3, "an empty line");
}

/* A line longer than any row is damage, but for what a fault left behind. */
static void
test_long_line(void)
{
	struct segment_walk w;
	char hash[DIGEST_TEXT];
	char *p;
	int fd;

	START;
	p = line(9);
	memset(p, 'x', 20000);
	len = (size_t)(p - text) + 20000;
	w = put();
	ok(w.damaged && w.rows == 8, "a line longer than any row");
	fd = fresh();
	segment_walk_begin(&w, INV, PREV);
	ok(write(fd, text, len) == (ssize_t)len &&
		segment_walk_part(fd, 9, digest, &w) == 0 && !w.damaged &&
		w.rows == 8 && w.torn_bytes == 20000,
	    "where the next part begins, it is what a fault left");
	digest_text(digest, p, 20000, hash);
	is_str(w.torn_sha256, hash, "and is named by its hash");
	ok(write(fd, "\n12", 3) == 3 &&
		(segment_walk_begin(&w, INV, PREV), true) &&
		segment_walk_part(fd, 9, digest, &w) == 0 && !w.damaged &&
		w.rows == 8 && w.torn_bytes == 2,
	    "with a line feed it is a line, and torn is the rest");
	segment_walk_begin(&w, INV, PREV);
	ok(segment_walk_part(fd, 10, digest, &w) == 0 && w.damaged,
	    "before the next part it is damage");
	close(fd);
}

static void
test_foreign(void)
{
	struct segment_walk w;
	char *p;
	int fd = fresh();

	if (write(fd, good, good_len) != (ssize_t)good_len ||
	    ftruncate(fd, (off_t)1 << 40) == -1)
		abort();
	w = walk(fd);
	ok(w.damaged && w.rows == 9, "a tebibyte of nothing, at once");
	ok(segment_walk(fd, "0a1b2c3d-0000-4000-8000-00000000eeef", PREV,
	       digest, &w) == 0 &&
		w.damaged && w.rows == 0,
	    "the segment of another invocation");
	p = strdup(PREV);
	p[0] = '2';
	ok(segment_walk(fd, INV, p, digest, &w) == 0 && w.damaged &&
		w.rows == 0,
	    "one that hangs on another anchor");
	free(p);
	close(fd);
	errno = 0;
	ok(segment_walk(-1, INV, PREV, digest, &w) == -1 && errno == EBADF,
	    "one that cannot be read");
}

/* Rows that hold, but that no broker of ours writes. */
static void
test_subverted(void)
{
	struct segment_walk w;
	struct segment *s;
	int fd = fresh(), i;

	s = segment_new(fd, INV, 1, PREV, SEGMENT_SYNC_NONE, digest);
	(void)add_skill(s, "a.b", "{\"x\":");
	segment_end(s);
	w = walk(fd);
	ok(w.damaged && w.rows == 0, "a payload that is no JSON");
	close(fd);
	fd = fresh();
	s = segment_new(fd, INV, 1, PREV, SEGMENT_SYNC_NONE, digest);
	for (i = 1; i <= 5000; i++)
		(void)add_started(s, i);
	segment_end(s);
	w = walk(fd);
	ok(w.damaged && w.rows < 5000 && w.rows >= 16,
	    "more open calls than there can be");
	close(fd);
}

int
main(void)
{
	int fd = mkstemp(file);

	if (fd == -1)
		return 1;
	close(fd);
	signal(SIGXFSZ, SIG_IGN);
	digest = digest_new(NULL, 0);
	test_counts();
	test_waiting();
	test_half();
	test_lost();
	test_sync();
	test_batch();
	write_good();
	test_damage();
	test_long_line();
	test_foreign();
	test_subverted();
	digest_free(digest);
	unlink(file);
	return done();
}
