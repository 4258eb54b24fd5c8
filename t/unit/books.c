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

static void
need(bool good)
{
	if (!good)
		abort();
}

static void
clean(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	need(system(command) == 0);
}

static void
open_books(void)
{
	struct anchor a;
	struct row r;
	char name[STORE_SEGMENT_NAME], file[STORE_SEGMENT_NAME + 16];

	strlcpy(dir, "/tmp/books.XXXXXX", sizeof(dir));
	need(mkdtemp(dir) != NULL && store_open(&store, dir) == 0);
	memset(&books, 0, sizeof(books));
	books.store = &store;
	books.digest = digest;
	books.by = ROW_BY_SUPERVISOR;
	books.inv = ID;
	clock_day(clock_wall(), books.day);
	books.day_fd = store_day(&store, books.day, 1);
	need(books.day_fd != -1);
	store_segment_path(books.day, ID, 1, name);
	snprintf(file, sizeof(file), "%s", name);
	row_begin(&r, ROW_SEGMENT_OPENED, NULL, digest);
	row_word(&r, "invocation_id", ID);
	row_word(&r, "file", file);
	row_word(&r, "skill_id", "demo");
	row_word(&r, "version", "1.0.0");
	row_word(&r, "frontmatter_hash", NULL);
	row_word(&r, "durability", "none");
	row_bool(&r, "append_only", false);
	need(row_end(&r) == 0 &&
	     anchor_append(&store, &r, ROW_BY_SUPERVISOR, digest, &a) == 0);
	row_clear(&r);
	strlcpy(opened, a.hash, sizeof(opened));
	books.parts.n = 1;
	books.parts.start[0] = 1;
}

static void
put(struct segment *s, struct row *r)
{
	need(row_end(r) == 0 && segment_append(s, ROW_BY_BROKER, r, NULL) == 0);
	row_clear(r);
}

static void
put_call(struct segment *s, const struct row_subject *subject, int number)
{
	struct row r;

	row_begin(&r, ROW_TOOL_STARTED, subject, digest);
	row_word(&r, "tool_name", "Read");
	row_word(&r, "args_hash", NULL);
	row_word(&r, "resource", "/x");
	row_int(&r, "call", number);
	put(s, &r);
	row_begin(&r, ROW_TOOL_COMPLETED, subject, digest);
	row_word(&r, "tool_name", "Read");
	row_int(&r, "call", number);
	row_word(&r, "outcome", "success");
	row_int(&r, "duration_ms", 1);
	row_word(&r, "result_hash", NULL);
	row_word(&r, "error_message", NULL);
	put(s, &r);
}

/* The rows as a broker makes them: its start, three calls, and one unanswered. */
static void
make_rows(void)
{
	struct row_subject subject = { ID, "demo",
		"0123456789abcdef0123456789abcdef", NULL };
	struct row_read read;
	struct segment *s;
	struct lines lines;
	const char *text;
	struct row r;
	size_t len;
	int n, fd;

	fd = open("/tmp", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
	s = segment_new(fd, ID, 1, opened, SEGMENT_SYNC_NONE, digest);
	need(s != NULL);
	row_begin(&r, ROW_INVOKED_STARTED, &subject, digest);
	row_word(&r, "version", "1.0.0");
	row_word(&r, "tenant_id", ID);
	row_word(&r, "caller_persona", NULL);
	row_word(&r, "request_id", NULL);
	row_word(&r, "args_hash", NULL);
	row_word(&r, "frontmatter_hash", NULL);
	row_json(&r, "sandbox", "{}", 2);
	put(s, &r);
	for (n = 1; n <= 3; n++)
		put_call(s, &subject, n);
	row_begin(&r, ROW_TOOL_STARTED, &subject, digest);
	row_word(&r, "tool_name", "Read");
	row_word(&r, "args_hash", NULL);
	row_word(&r, "resource", "/x");
	row_int(&r, "call", 4);
	put(s, &r);
	need(segment_end(s) == 0 && lines_init(&lines, fd, 0) == 0);
	for (n = 1; n <= ROWS; n++) {
		need(lines_next(&lines, &text, &len) == LINES_ROW &&
		     row_read(text, len, false, ID, digest, &read) == 0);
		free(line[n]);
		need(asprintf(&line[n], "%.*s\n", (int)len, text) != -1);
		strlcpy(head[n], read.hash, DIGEST_HEX);
	}
	lines_clear(&lines);
	close(fd);
}

static void
write_text(int fd, const char *text)
{
	need(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void
write_rows(int fd, int from, int to)
{
	for (; from <= to; from++)
		write_text(fd, line[from]);
}

static int
first_part(int to)
{
	char name[STORE_SEGMENT_NAME];
	int fd;

	open_books();
	make_rows();
	fd = store_segment(books.day_fd, ID, 1, name);
	need(fd != -1);
	write_rows(fd, 1, to);
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
	need(fd != -1);
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
	need(row_end(&r) == 0 &&
	     anchor_append(&store, &r, ROW_BY_SUPERVISOR, digest, &a) == 0);
	row_clear(&r);
}

static void
count(void *arg, enum recover_did did, const char *name)
{
	int *did_what = arg;

	(void)name;
	did_what[did]++;
}

/* All is dead; what does recovery make of it? Rows of the broker and the end; and
 * files put aside. */
static void
recovers(const char *name, int rows, int quarantined)
{
	int did[RECOVER_FAILED + 1] = { 0 };
	struct recover r = { &store, digest, NULL, count, did };
	struct verify_wish wish;

	memset(&wish, 0, sizeof(wish));
	ok(recover_all(&r) == 0 && did[RECOVER_CLOSED] == 1 &&
		did[RECOVER_FAILED] == 0 && did[RECOVER_DAMAGED] == 0 &&
		did[RECOVER_QUARANTINED] == quarantined,
	    "%s: is closed", name);
	/* It tells of files that were put aside as long as they are there. */
	ok(verify_run(&store, &wish, &report) == 0 &&
		report.n == (size_t)quarantined &&
		report.level[VERIFY_DAMAGED] == (unsigned)quarantined,
	    "%s: verify finds it whole", name);
	if (report.n > 0)
		printf("# %s: %s\n", report.finding[0].file, report.finding[0].message);
	is_int((int)report.rows, rows + 1, name);
	memset(did, 0, sizeof(did));
	ok(recover_all(&r) == 0 && did[RECOVER_CLOSED] == 0 &&
		did[RECOVER_FAILED] == 0,
	    "%s: and that once", name);
	close(books.day_fd);
	store_close(&store);
	clean();
}

int
main(void)
{
	char name[STORE_SEGMENT_NAME];
	int fd, second, third;

	digest = digest_new(NULL, 0);
	need(digest != NULL);

	close(first_part(ROWS));
	recovers("one part", ROWS, 0);

	fd = first_part(5);
	write_text(fd, "{\"v\":1,\"inv\":\"0a1b");
	close(fd);
	recovers("a torn row", 5, 0);

	close(first_part(6));
	close(next_part(4));
	recovers("a new part that nothing came into", 6, 0);

	close(first_part(6));
	fd = next_part(4);
	write_rows(fd, 4, 4);
	close(fd);
	recovers("a new part with the first of three rows", 6, 0);

	close(first_part(6));
	fd = next_part(4);
	write_rows(fd, 4, ROWS);
	close(fd);
	recovers("a new part that has all again", ROWS, 0);

	fd = first_part(4);
	write_text(fd, "no row\n{\n");
	write_rows(fd, 5, 6);
	close(fd);
	fd = next_part(4);
	write_rows(fd, 4, ROWS);
	close(fd);
	recovers("what a failed sync made of the old part", ROWS, 0);

	close(first_part(7));
	mark(6);
	second = next_part(4);
	write_rows(second, 4, ROWS);
	close(second);
	recovers("a mark before the new part began", ROWS, 0);

	close(first_part(4));
	second = next_part(3);
	write_rows(second, 3, 6);
	close(second);
	third = next_part(4);
	write_rows(third, 4, 7);
	close(third);
	mark(7);
	recovers("three parts", 7, 0);

	close(first_part(6));
	close(next_part(3));
	close(next_part(3));
	recovers("two parts that nothing came into", 6, 0);

	close(first_part(ROWS));
	fd = store_segment(books.day_fd, ID, 2, name);
	need(fd != -1);
	close(fd);
	recovers("an empty file without its anchor", ROWS, 0);

	fd = first_part(4);
	write_rows(fd, 6, ROWS);
	close(fd);
	close(next_part(5));
	recovers("rows behind a gap, in a part that was given up", 4, 0);

	close(first_part(4));
	fd = store_segment(books.day_fd, ID, 2, name);
	need(fd != -1);
	write_rows(fd, 5, ROWS);
	close(fd);
	recovers("a part with rows and without its anchor", 4, 1);

	for (fd = 1; fd <= ROWS; fd++)
		free(line[fd]);
	digest_free(digest);
	return done();
}
