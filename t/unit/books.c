/*
 * What a supervisor and a broker can leave behind when they die while parts
 * follow one another: recovery closes it, no row is missing, verify agrees.
 */

#include "audit/books.h"

#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "audit/lines.h"
#include "audit/recover.h"
#include "audit/verify.h"
#include "t/unit/ledger.h"
#include "t/unit/tap.h"

#define ID "0a1b2c3d-0000-4000-8000-00000000eeee"
#define ROWS 8 /* that the broker had made */

static struct digest *digest;
static struct store store;
static struct books books;
static struct verify_report report;
static char dir[32];
static char opened[DIGEST_HEX];
/* the rows, each with its line feed, and their hashes */
static char *line[ROWS + 1];
static char head[ROWS + 1][DIGEST_HEX];

/* Rows from one to another; none when from is 0. */
struct piece {
	int from, to;
};

/* What was left behind, part by part, and what recovery is to find. */
static const struct left {
	const char *name;
	struct piece first, behind; /* in part 1, with this between them */
	const char *between;
	int mark; /* a row that is marked before the next part; 0: none */
	struct {
		int start; /* its first row by its anchor; 0: no such part */
		struct piece rows;
	} part[2];
	bool no_anchor; /* a file for the next part, with these rows */
	struct piece lone;
	int fork; /* behind them in part 1, another row of this number */
	struct piece spool;
	int spool_fork;		/* the same there */
	const char *spool_text; /* and this at its end */
	int rows;		/* that the ledger has then */
	int quarantined;	/* files put aside */
	bool damaged;		/* it must not be closed as anything else */
	bool kept;		/* the spool stays */
} lefts[] = {
	{ .name = "one part", .first = { 1, ROWS }, .rows = ROWS },
	{ .name = "a torn row",
	    .first = { 1, 5 },
	    .between = "{\"v\":1,\"inv\":\"0a1b",
	    .rows = 5 },
	{ .name = "a new part that nothing came into",
	    .first = { 1, 6 },
	    .part = { { .start = 4 } },
	    .rows = 6 },
	{ .name = "a new part with the first of three rows",
	    .first = { 1, 6 },
	    .part = { { 4, { 4, 4 } } },
	    .rows = 6 },
	{ .name = "a new part that has all again",
	    .first = { 1, 6 },
	    .part = { { 4, { 4, ROWS } } },
	    .rows = ROWS },
	{ .name = "what a failed sync made of the old part",
	    .first = { 1, 4 },
	    .between = "no row\n{\n",
	    .behind = { 5, 6 },
	    .part = { { 4, { 4, ROWS } } },
	    .rows = ROWS },
	{ .name = "a mark before the new part began",
	    .first = { 1, 7 },
	    .mark = 6,
	    .part = { { 4, { 4, ROWS } } },
	    .rows = ROWS },
	{ .name = "three parts",
	    .first = { 1, 4 },
	    .part = { { 3, { 3, 6 } }, { 4, { 4, 7 } } },
	    .rows = 7 },
	{ .name = "two parts that nothing came into",
	    .first = { 1, 6 },
	    .part = { { .start = 3 }, { .start = 3 } },
	    .rows = 6 },
	{ .name = "rows behind a gap, in a part that was given up",
	    .first = { 1, 4 },
	    .behind = { 6, ROWS },
	    .part = { { .start = 5 } },
	    .rows = 4 },
	{ .name = "an empty file without its anchor",
	    .first = { 1, ROWS },
	    .no_anchor = true,
	    .rows = ROWS },
	{ .name = "a part with rows and without its anchor",
	    .first = { 1, 4 },
	    .no_anchor = true,
	    .lone = { 5, ROWS },
	    .rows = 4,
	    .quarantined = 1 },
	{ .name = "an end cut off before a mark",
	    .first = { 1, 4 },
	    .mark = 6,
	    .damaged = true },
	{ .name = "another row than the one that was marked",
	    .first = { 1, 3 },
	    .fork = 4,
	    .mark = 4,
	    .damaged = true },
	{ .name = "an end cut off before a part",
	    .first = { 1, 4 },
	    .part = { { .start = 6 } },
	    .damaged = true },
	{ .name = "a spool",
	    .first = { 1, 4 },
	    .spool = { 3, ROWS },
	    .rows = ROWS },
	{ .name = "a spool that has what was marked",
	    .first = { 1, 4 },
	    .spool = { 5, ROWS },
	    .mark = 6,
	    .rows = ROWS },
	{ .name = "a spool with a torn row",
	    .first = { 1, 4 },
	    .spool = { 4, 6 },
	    .spool_text = "{\"v\":1,\"inv\":\"0a1b",
	    .rows = 6 },
	{ .name = "a spool whose rows are behind a gap",
	    .first = { 1, 4 },
	    .spool = { 6, ROWS },
	    .rows = 4,
	    .kept = true },
	{ .name = "a spool with another row",
	    .first = { 1, ROWS },
	    .spool_fork = ROWS,
	    .damaged = true,
	    .kept = true },
	{ .name = "a spool with another row before those that are missing",
	    .first = { 1, 4 },
	    .spool_fork = 3,
	    .spool = { 5, 6 },
	    .damaged = true,
	    .kept = true },
	{ .name = "a spool that has two rows of one number",
	    .first = { 1, 4 },
	    .spool = { 5, 6 },
	    .spool_fork = 6,
	    .damaged = true,
	    .kept = true },
	{ .name = "a spool that goes on behind another row",
	    .first = { 1, 3 },
	    .fork = 4,
	    .spool = { 5, 6 },
	    .damaged = true,
	    .kept = true },
	{ .name = "a spool with a line that is no row",
	    .first = { 1, 4 },
	    .spool = { 3, 6 },
	    .spool_text = "no row\n",
	    .damaged = true,
	    .kept = true },
	{ .name = "a spool with an empty line",
	    .first = { 1, 4 },
	    .spool_text = "\n",
	    .damaged = true,
	    .kept = true },
	{ .name = "another row in a part that was given up",
	    .first = { 1, 5 },
	    .fork = 6,
	    .part = { { 4, { 4, ROWS } } },
	    .damaged = true },
};

static void
open_books(void)
{
	struct anchor a;

	strlcpy(dir, "/tmp/books.XXXXXX", sizeof(dir));
	need(mkdtemp(dir) != NULL && store_open(&store, dir) == 0, "books");
	memset(&books, 0, sizeof(books));
	books.store = &store;
	books.digest = digest;
	books.by = ROW_BY_SUPERVISOR;
	books.inv = ID;
	clock_day(clock_wall(), books.day);
	books.day_fd = store_day(&store, books.day, 1);
	need(books.day_fd != -1, "books");
	put_opened(&store, books.day, ID, digest, &a);
	strlcpy(opened, a.hash, sizeof(opened));
	books.parts.n = 1;
	books.parts.start[0] = 1;
}

/* The rows as a broker makes them: its start, three calls, and one unanswered. */
static void
make_rows(void)
{
	struct row_read read;
	struct segment *s;
	struct lines lines;
	const char *text;
	size_t len;
	int n, fd;

	fd = open("/tmp", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
	s = segment_new(fd, ID, 1, opened, SEGMENT_SYNC_NONE, digest);
	need(s != NULL, "books");
	put_start(s, ID, digest);
	for (n = 1; n <= 3; n++) {
		put_call_started(s, ID, digest, n);
		put_call_completed(s, ID, digest, n, "success");
	}
	put_call_started(s, ID, digest, 4);
	need(segment_end(s) == 0 && lines_init(&lines, fd, 0) == 0, "books");
	for (n = 1; n <= ROWS; n++) {
		need(lines_next(&lines, &text, &len) == LINES_ROW &&
		     row_read(text, len, false, ID, digest, &read) == 0, "books");
		free(line[n]);
		need(asprintf(&line[n], "%.*s\n", (int)len, text) != -1, "books");
		strlcpy(head[n], read.hash, DIGEST_HEX);
	}
	lines_clear(&lines);
	close(fd);
}

static void
write_text(int fd, const char *text)
{
	need(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "books");
}

static void
write_rows(int fd, const struct piece *p)
{
	int n;

	for (n = p->from; n != 0 && n <= p->to; n++)
		write_text(fd, line[n]);
}

/* Another row with this number, whose hash holds. */
static void
write_fork(int fd, int n)
{
	char text[DIGEST_TEXT], *copy = strdup(line[n]);
	char *name = strstr(copy, "\"tool_name\":\"Read\"");
	char *hash = strstr(copy, ",\"hash\":\"");

	need(name != NULL && hash != NULL, "fork");
	memcpy(name, "\"tool_name\":\"Bash\"", 18);
	digest_text(digest, copy, (size_t)(hash - copy), text);
	memcpy(hash + 9, text, strlen(text));
	write_text(fd, copy);
	free(copy);
}

static void
write_spool(const struct left *l)
{
	int fd;

	if (l->spool.from == 0 && l->spool_fork == 0 && l->spool_text == NULL)
		return;
	fd = store_spool(&store, NULL, ID, true);
	need(fd != -1, "spool");
	write_rows(fd, &l->spool);
	if (l->spool_fork != 0)
		write_fork(fd, l->spool_fork);
	if (l->spool_text != NULL)
		write_text(fd, l->spool_text);
	close(fd);
}

static bool
has_spool(void)
{
	int fd = store_spool(&store, NULL, ID, false);

	if (fd != -1)
		close(fd);
	return fd != -1;
}

static int
first_part(void)
{
	char name[STORE_SEGMENT_NAME];
	int fd;

	open_books();
	make_rows();
	fd = store_segment(books.day_fd, ID, 1, name);
	need(fd != -1, "books");
	return fd;
}

/* The next part begins with row from, as its anchor says. */
static int
next_part(int from)
{
	int fd;

	books.walk.seq = (uint64_t)from - 1;
	strlcpy(books.walk.head, head[from - 1], DIGEST_HEX);
	fd = books_part(&books);
	need(fd != -1, "books");
	return fd;
}

static void
mark(int row)
{
	struct anchor a;
	struct row r;
	char text[192];

	snprintf(text, sizeof(text),
	    "[{\"invocation_id\":\"%s\",\"seq\":%d,\"head\":\"%s\"}]", ID, row,
	    head[row]);
	row_begin(&r, ROW_SEGMENT_MARK, NULL, digest);
	row_json(&r, "marks", text, strlen(text));
	put_anchor(&store, &r, digest, &a);
}

static void
count(void *arg, enum recover_did did, const char *name)
{
	int *did_what = arg;

	(void)name;
	did_what[did]++;
}

/* What verify finds: nothing but what is to be found. */
static void
verifies(const struct left *l)
{
	unsigned found = l->damaged ? 1 : (unsigned)l->quarantined;
	struct verify_wish wish;

	memset(&wish, 0, sizeof(wish));
	/* It tells of files that were put aside as long as they are there. */
	ok(verify_run(&store, &wish, &report) == 0 && report.n == found &&
		report.level[VERIFY_DAMAGED] == found,
	    "%s: verify finds it %s", l->name, l->damaged ? "damaged" : "whole");
	if (report.n > 0)
		printf("# %s: %s\n", report.finding[0].file,
		    report.finding[0].message);
	/* and the end */
	if (!l->damaged)
		is_int((long long)report.rows, l->rows + 1, l->name);
}

/* All is dead; what does recovery make of it? */
static void
recovers(const struct left *l)
{
	int did[RECOVER_FAILED + 1] = { 0 };
	struct recover r = { .store = &store,
		.digest = digest,
		.tell = count,
		.arg = did };

	ok(recover_all(&r) == 0 && did[RECOVER_CLOSED] == !l->damaged &&
		did[RECOVER_FAILED] == 0 && did[RECOVER_DAMAGED] == l->damaged &&
		did[RECOVER_QUARANTINED] == l->quarantined,
	    "%s: is closed", l->name);
	verifies(l);
	is_int(has_spool(), l->kept, l->name);
	memset(did, 0, sizeof(did));
	ok(recover_all(&r) == 0 && did[RECOVER_CLOSED] == 0 &&
		did[RECOVER_DAMAGED] == 0 && did[RECOVER_FAILED] == 0,
	    "%s: and that once", l->name);
	close(books.day_fd);
	store_close(&store);
	remove_all(dir);
}

static void
leave(const struct left *l)
{
	char name[STORE_SEGMENT_NAME];
	size_t i;
	int fd = first_part();

	write_rows(fd, &l->first);
	if (l->between != NULL)
		write_text(fd, l->between);
	write_rows(fd, &l->behind);
	if (l->fork != 0)
		write_fork(fd, l->fork);
	close(fd);
	write_spool(l);
	if (l->mark != 0)
		mark(l->mark);
	for (i = 0; i < 2 && l->part[i].start != 0; i++) {
		fd = next_part(l->part[i].start);
		write_rows(fd, &l->part[i].rows);
		close(fd);
	}
	if (!l->no_anchor)
		return;
	fd = store_segment(books.day_fd, ID, 2, name);
	need(fd != -1, "part");
	write_rows(fd, &l->lone);
	close(fd);
}

int
main(void)
{
	size_t i;

	digest = digest_new(NULL, 0);
	need(digest != NULL, "digest");
	for (i = 0; i < sizeof(lefts) / sizeof(lefts[0]); i++) {
		leave(&lefts[i]);
		recovers(&lefts[i]);
	}
	for (i = 1; i <= ROWS; i++)
		free(line[i]);
	digest_free(digest);
	return done();
}
