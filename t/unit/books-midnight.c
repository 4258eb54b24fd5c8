/*
 * An invocation that runs over midnight: each day's totals have what happened
 * in it. The clock of the test is its own.
 */

#include "audit/books.h"

#include <sys/syscall.h>

#include <time.h>
#include <unistd.h>

#include "audit/verify.h"
#include "t/unit/ledger.h"
#include "t/unit/tap.h"

#define ID "0a1b2c3d-0000-4000-8000-00000000eeee"
#define MIDNIGHT INT64_C(1796083200) /* 2026-12-01 */

static int64_t wall = MIDNIGHT - 60;
static struct digest *digest;
static struct store store;
static struct verify_report report;
static char dir[32];

/* In the place of the C library's. */
int
clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id == CLOCK_REALTIME) {
		ts->tv_sec = (time_t)wall;
		ts->tv_nsec = 0;
		return 0;
	}
	return (int)syscall(SYS_clock_gettime, id, ts);
}

static void
call(struct segment *s, int number, const char *outcome)
{
	put_call_started(s, ID, digest, number);
	put_call_completed(s, ID, digest, number, outcome);
}

/* Three calls before midnight, one of them fails, and two after it. */
static void
invocation(struct books *b, bool after)
{
	char name[STORE_SEGMENT_NAME];
	struct anchor opened;
	struct segment *s;
	int fd;

	strlcpy(dir, "/tmp/midnight.XXXXXX", sizeof(dir));
	need(mkdtemp(dir) != NULL && store_open(&store, dir) == 0, dir);
	wall = MIDNIGHT - 60;
	memset(b, 0, sizeof(*b));
	need(anchor_day(&store, b->day) == 0, "day");
	b->store = &store;
	b->digest = digest;
	b->by = ROW_BY_SUPERVISOR;
	b->inv = ID;
	b->trace_id = "0123456789abcdef0123456789abcdef";
	b->day_fd = store_day(&store, b->day, 1);
	fd = store_segment(b->day_fd, ID, 1, name);
	need(fd != -1, "segment");
	put_opened(&store, b->day, ID, digest, &opened);
	b->opened = strdup(opened.hash);
	b->parts.n = 1;
	b->parts.start[0] = 1;
	s = segment_new(fd, ID, 1, opened.hash, SEGMENT_SYNC_NONE, digest);
	put_start(s, ID, digest);
	call(s, 1, "success");
	call(s, 2, "error");
	put_call_started(s, ID, digest, 3);
	wall = MIDNIGHT;
	if (after) {
		put_call_completed(s, ID, digest, 3, "error");
		call(s, 4, "success");
		call(s, 5, "success");
		put_end(s, ID, digest, 5);
	}
	need(segment_end(s) == 0, "segment");
	close(fd);
}

static void
end(struct books *b)
{
	free((void *)(uintptr_t)b->opened);
	close(b->day_fd);
	store_close(&store);
	remove_all(dir);
}

static int
verify(void)
{
	struct verify_wish wish;

	memset(&wish, 0, sizeof(wish));
	return verify_run(&store, &wish, &report) == 0 ? (int)report.n : -1;
}

static int
verify_pl(void)
{
	char command[128];

	snprintf(command, sizeof(command),
	    "perl t/verify.pl '%s' >/dev/null 2>&1", dir);
	return system(command);
}

static void
test_totals(void)
{
	struct books_end lost = { "panic", 1, "the broker died" };
	struct anchor_totals t;
	struct anchor a;
	struct books b;

	invocation(&b, true);
	ok(books_walk(&b) == 0 && books_close(&b, "normal", 0, &a) == 0 &&
		strcmp(a.day, "2026-12-01") == 0,
	    "it is closed on the next day");
	ok(anchor_totals(&store, a.day, &t) == 0 && t.calls == 2 &&
		t.errors == 1,
	    "whose totals have what came after midnight");
	is_int(verify(), 0, "verify counts the same");
	is_int(verify_pl(), 0, "and so does verify.pl");
	ok(anchor_keep_totals(&store, a.day) == 0 && verify() == 0,
	    "the kept sum, too");
	end(&b);

	invocation(&b, false);
	ok(books_walk(&b) == 0 && books_end(&b, &lost) == 0 &&
		books_close(&b, "crash", 0, &a) == 0 &&
		anchor_totals(&store, a.day, &t) == 0 && t.calls == 0 &&
		t.errors == 0,
	    "one that did nothing after midnight adds nothing");
	is_int(verify(), 0, "which verify counts as well");
	is_int(verify_pl(), 0, "and verify.pl");
	end(&b);
}

static void
test_wrong(void)
{
	struct anchor a;
	struct books b;

	invocation(&b, true);
	need(books_walk(&b) == 0, "walk");
	b.walk.before.calls++;
	need(books_close(&b, "normal", 0, &a) == 0, "close");
	ok(verify() == 1 && strcmp(report.finding[0].check, "before") == 0,
	    "a wrong count of the days before is found");
	ok(verify_pl() != 0, "by verify.pl as well");
	end(&b);
}

/* A day that begins between the walk and the anchor is not missed. */
static void
test_between(void)
{
	struct anchor_totals t;
	struct anchor a;
	struct books b;

	invocation(&b, true);
	wall = MIDNIGHT - 1;
	need(books_walk(&b) == 0, "walk");
	wall = MIDNIGHT + 1;
	ok(books_close(&b, "normal", 0, &a) == 0 &&
		strcmp(a.day, "2026-12-01") == 0 &&
		anchor_totals(&store, a.day, &t) == 0 && t.calls == 2,
	    "a walk before midnight and an anchor after it");
	is_int(verify(), 0, "verify counts the same");
	is_int(verify_pl(), 0, "and verify.pl");
	is_int(anchor_closed(&store, a.day, ID), 1, "closed on that day");
	is_int(anchor_closed(&store, b.day, ID), 0, "and not the day before");
	end(&b);
}

/* Whoever closes it says nothing of the day before, or of one too many. */
static void
test_silent(bool after)
{
	struct anchor a;
	struct books b;
	char day[CLOCK_DAY_SIZE];

	invocation(&b, true);
	if (!after)
		wall = MIDNIGHT - 60;
	need(books_walk(&b) == 0, "walk");
	strlcpy(day, b.day, sizeof(day));
	if (after) {
		/* As if it had been opened on the day of its end. */
		b.walk.day[0] = '\0';
		strlcpy(b.day, "2026-12-01", sizeof(b.day));
	} else
		strlcpy(b.walk.day, b.day, sizeof(b.walk.day));
	need(books_close(&b, "normal", 0, &a) == 0, "close");
	strlcpy(b.day, day, sizeof(b.day));
	ok(verify() == 1 && strcmp(report.finding[0].check, "before") == 0,
	    after ? "nothing said of the day before is found"
		  : "so is a day before that was none");
	ok(verify_pl() != 0, "by verify.pl as well");
	end(&b);
}

int
main(void)
{
	digest = digest_new(NULL, 0);
	need(digest != NULL, "digest");
	test_totals();
	test_wrong();
	test_between();
	test_silent(true);
	test_silent(false);
	digest_free(digest);
	return done();
}
