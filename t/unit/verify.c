/*
 * A small ledger, and everything that can be done to it bit by bit: each single
 * change is found. Whole rows are tampered with in t/65-verify.t.
 */

#include "audit/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "t/unit/ledger.h"
#include "t/unit/tap.h"

#define ID "0a1b2c3d-0000-4000-8000-00000000eeee"

static struct store store;
static struct digest *digest;
static struct verify_report report;
static char day[CLOCK_DAY_SIZE];
static char segment_file[STORE_SEGMENT_NAME], host_file[32];
static struct anchor opened, closed;

static void
add_closed(const struct segment_walk *w, int lost)
{
	struct row r;

	row_begin(&r, ROW_SEGMENT_CLOSED, NULL, digest);
	row_word(&r, "invocation_id", ID);
	row_word(&r, "reason", "normal");
	row_int(&r, "parts", 1);
	row_int(&r, "rows", (int64_t)w->rows);
	row_int(&r, "bytes", (int64_t)w->bytes);
	row_int(&r, "calls", (int64_t)w->calls);
	row_int(&r, "denied", (int64_t)w->denied);
	row_int(&r, "errors", (int64_t)w->errors);
	row_int(&r, "timeouts", (int64_t)w->timeouts);
	row_int(&r, "open_calls", (int64_t)w->open_calls);
	row_word(&r, "head", w->head);
	row_int(&r, "torn_bytes", 0);
	row_word(&r, "torn_sha256", NULL);
	row_int(&r, "spooled", 0);
	row_int(&r, "duplicates", 0);
	row_int(&r, "lost", lost);
	put_anchor(&store, &r, digest, &closed);
}

/* Rows 3 to 4 are gone, says the third one. */
static void
put_lost(struct segment *s)
{
	struct row_subject subject = subject_of(ID);
	struct row r;

	row_begin(&r, ROW_ROWS_LOST, &subject, digest);
	row_int(&r, "from", 3);
	row_int(&r, "to", 4);
	row_word(&r, "head", NULL);
	put_row(s, &r);
}

/* One call, and rows that were lost, if their number is to be closed. */
static void
build(int lost)
{
	char name[STORE_SEGMENT_NAME];
	struct segment_walk w;
	struct segment *s;
	int fd, day_fd;

	clock_day(clock_wall(), day);
	day_fd = store_day(&store, day, 1);
	fd = store_segment(day_fd, ID, 1, name);
	close(day_fd);
	store_segment_path(day, ID, 1, segment_file);
	snprintf(host_file, sizeof(host_file), "%s/host.jsonl", day);
	put_opened(&store, day, ID, digest, &opened);
	s = segment_new(fd, ID, 1, opened.hash, SEGMENT_SYNC_NONE, digest);
	put_start(s, ID, digest);
	put_call_started(s, ID, digest, 1);
	put_call_completed(s, ID, digest, 1, "error");
	if (lost != -1)
		put_lost(s);
	put_end(s, ID, digest, 1);
	segment_end(s);
	if (segment_walk(fd, ID, opened.hash, digest, &w) == -1 ||
	    w.rows != (lost == -1 ? 4U : 5U))
		abort();
	close(fd);
	add_closed(&w, lost == -1 ? 0 : lost);
}

static int
verify(void)
{
	struct verify_wish wish;

	memset(&wish, 0, sizeof(wish));
	return verify_run(&store, &wish, &report);
}

static bool
damaged(void)
{
	return verify() == 0 && report.level[VERIFY_DAMAGED] > 0;
}

static size_t
slurp(const char *file, char *text, size_t size)
{
	int fd = openat(store.audit_fd, file, O_RDONLY);
	ssize_t n = fd == -1 ? -1 : read(fd, text, size);

	if (n <= 0 || (size_t)n == size)
		abort();
	close(fd);
	return (size_t)n;
}

/* Each bit of a file, one at a time; how many were not found. */
static unsigned
flip_all(const char *file)
{
	char text[16384], path[512];
	size_t i, n = slurp(file, text, sizeof(text));
	unsigned bit, missed = 0;
	int fd = openat(store.audit_fd, file, O_WRONLY);

	snprintf(path, sizeof(path), "audit/%s", file);
	for (i = 0; i < n; i++) {
		for (bit = 0; bit < 8; bit++) {
			char c = (char)(text[i] ^ (1 << bit));

			if (pwrite(fd, &c, 1, (off_t)i) != 1)
				abort();
			if (!damaged() ||
			    strcmp(report.finding[0].file, path) != 0) {
				printf("# %s: byte %zu, bit %u\n", file, i, bit);
				missed++;
			}
		}
		if (pwrite(fd, text + i, 1, (off_t)i) != 1)
			abort();
	}
	close(fd);
	return missed;
}

/* Each length that a file can be cut to. */
static unsigned
cut_all(const char *file)
{
	char text[16384];
	size_t i, n = slurp(file, text, sizeof(text));
	int fd = openat(store.audit_fd, file, O_WRONLY);
	unsigned missed = 0;

	for (i = n; i > 0; i--) {
		if (ftruncate(fd, (off_t)i - 1) == -1)
			abort();
		/* Of the host's own chain a cut end is what a crash leaves. */
		if (strcmp(file, host_file) == 0
			? verify() != 0 || report.n == 0
			: !damaged())
			missed++;
	}
	if (pwrite(fd, text, n, 0) != (ssize_t)n)
		abort();
	close(fd);
	return missed;
}

static void
test_wishes(void)
{
	struct verify_wish w;

	memset(&w, 0, sizeof(w));
	w.invocation = ID;
	w.expect_hseq = closed.hseq;
	w.expect_hash = closed.hash;
	ok(verify_run(&store, &w, &report) == 0 && report.n == 0 &&
		report.rows == 4 && report.segments == 1,
	    "one invocation, with an anchor that is expected");
	w.expect_hash = opened.hash;
	ok(verify_run(&store, &w, &report) == 0 &&
		report.level[VERIFY_DAMAGED] == 1 &&
		strcmp(report.finding[0].check, "expect") == 0,
	    "another hash was expected");
	w.expect_hseq = closed.hseq + 1;
	ok(verify_run(&store, &w, &report) == 0 &&
		report.level[VERIFY_DAMAGED] == 1 &&
		strcmp(report.finding[0].check, "expect") == 0,
	    "more was expected");
	memset(&w, 0, sizeof(w));
	w.invocation = "0a1b2c3d-0000-4000-8000-00000000eeef";
	ok(verify_run(&store, &w, &report) == -1 && errno == ENOENT,
	    "an unknown invocation");
	memset(&w, 0, sizeof(w));
	w.day = "2001-01-01";
	ok(verify_run(&store, &w, &report) == -1 && errno == ENOENT,
	    "an unknown day");
	w.day = day;
	ok(verify_run(&store, &w, &report) == 0 && report.n == 0 &&
		report.rows == 4,
	    "a day");
}

static void
begin(char *dir)
{
	if (mkdtemp(dir) == NULL || store_open(&store, dir) == -1)
		abort();
}

static void
end(const char *dir)
{
	store_close(&store);
	remove_all(dir);
}

/* How many were lost may be more than rows tell of, and not fewer. */
static void
test_lost(void)
{
	int said;

	for (said = 1; said <= 3; said++) {
		char dir[] = "/tmp/verify.XXXXXX";

		begin(dir);
		build(said);
		if (said >= 2)
			ok(verify() == 0 && report.n == 0 &&
				report.lost == (uint64_t)said,
			    "2 rows tell that they were lost, %d are closed",
			    said);
		else
			ok(damaged() &&
				strcmp(report.finding[0].check, "lost") == 0,
			    "2 rows tell that they were lost, 1 is closed");
		end(dir);
	}
}

int
main(void)
{
	char dir[] = "/tmp/verify.XXXXXX";

	digest = digest_new(NULL, 0);
	begin(dir);
	ok(verify() == 0 && report.n == 0 && report.rows == 0,
	    "an empty ledger is intact");
	build(-1);
	ok(verify() == 0 && report.n == 0 && report.rows == 4 &&
		report.anchors == 3 && report.segments == 1 &&
		report.days == 1 && report.hseq == closed.hseq &&
		strcmp(report.head, closed.hash) == 0,
	    "a small one too");
	test_wishes();
	is_int(flip_all(segment_file), 0, "every bit of the segment");
	is_int(flip_all(host_file), 0, "every bit of the anchors");
	is_int(cut_all(segment_file), 0, "the segment cut anywhere");
	is_int(cut_all(host_file), 0, "the anchors cut anywhere");
	is_int(flip_all("host.json"), 0, "every bit of host.json");
	ok(verify() == 0 && report.n == 0, "put right, it is intact again");
	end(dir);
	test_lost();
	digest_free(digest);
	return done();
}
