/*
 * Fills a ledger, or appends to one as fast as it goes.
 *
 * ledger fill STORE SEGMENTS CALLS: closed invocations of a start, pairs and an
 * end; prints the id of the last one.
 * ledger append DIR WRITERS CALLS: so many processes at once, each with a segment
 * of its own; then the same bytes, row by row, with write alone. Prints the rows
 * per second of both.
 */

#include <sys/wait.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/books.h"
#include "audit/clock.h"
#include "t/unit/ledger.h"

static struct digest *digest;

static void
put_all(struct segment *s, const char *inv, int calls)
{
	int i;

	put_start(s, inv, digest);
	for (i = 1; i <= calls; i++) {
		put_call_started(s, inv, digest, i);
		put_call_completed(s, inv, digest, i, "success");
	}
	put_end(s, inv, digest, calls);
}

static void
fill(const char *dir, int segments, int calls)
{
	char inv[STORE_UUID_SIZE], name[STORE_SEGMENT_NAME];
	struct anchor opened, closed;
	struct segment *s;
	struct store store;
	struct books b;
	int i, fd;

	need(store_open(&store, dir) == 0, dir);
	for (i = 0; i < segments; i++) {
		snprintf(inv, sizeof(inv), "%08x-0000-4000-8000-%012x",
		    (unsigned)i * 2654435761U, i);
		memset(&b, 0, sizeof(b));
		b.store = &store;
		b.digest = digest;
		b.by = ROW_BY_SUPERVISOR;
		b.inv = inv;
		clock_day(clock_wall(), b.day);
		b.day_fd = store_day(&store, b.day, 1);
		fd = store_segment(b.day_fd, inv, 1, name);
		need(fd != -1, inv);
		put_opened(&store, b.day, inv, digest, &opened);
		b.opened = opened.hash;
		b.parts.n = 1;
		b.parts.start[0] = 1;
		s = segment_new(
		    fd, inv, 1, opened.hash, SEGMENT_SYNC_NONE, digest);
		need(s != NULL, "segment");
		put_all(s, inv, calls);
		need(segment_end(s) == 0 && books_walk(&b) == 0 &&
			 books_close(&b, "normal", 0, &closed) == 0,
		    "close");
		close(fd);
		close(b.day_fd);
	}
	need(anchor_keep_totals(&store, closed.day) == 0, "totals");
	store_close(&store);
	puts(inv);
}

static int
scratch(const char *dir, int flags)
{
	int fd = open(dir, O_TMPFILE | O_RDWR | flags | O_CLOEXEC, 0600);

	need(fd != -1, dir);
	return fd;
}

static void
append(const char *dir, int calls)
{
	char zero[DIGEST_HEX];
	struct segment *s;

	memset(zero, '0', DIGEST_HEX - 1);
	zero[DIGEST_HEX - 1] = '\0';
	s = segment_new(scratch(dir, O_APPEND),
	    "0a1b2c3d-0000-4000-8000-00000000eeee", 1, zero,
	    SEGMENT_SYNC_NONE, digest);
	need(s != NULL, "segment");
	put_all(s, "0a1b2c3d-0000-4000-8000-00000000eeee", calls);
	need(segment_end(s) == 0, "segment");
}

/* A row is of about this size. */
static void
bare(const char *dir, int calls)
{
	char line[640];
	int i, fd = scratch(dir, O_APPEND);

	memset(line, 'x', sizeof(line));
	for (i = 0; i < 2 * calls + 2; i++)
		need(write(fd, line, sizeof(line)) == (ssize_t)sizeof(line),
		    "write");
}

static double
rate(void (*work)(const char *, int), const char *dir, int writers, int calls)
{
	int64_t begun = clock_boot();
	int i, status;

	for (i = 0; i < writers; i++) {
		switch (fork()) {
		case -1:
			need(false, "fork");
			break;
		case 0:
			work(dir, calls);
			_exit(0);
		}
	}
	for (i = 0; i < writers; i++)
		need(wait(&status) != -1 && status == 0, "wait");
	return (double)writers * (2.0 * calls + 2) * CLOCK_SECOND /
	       (double)(clock_boot() - begun);
}

int
main(int argc, char **argv)
{
	digest = digest_new(NULL, 0);
	need(digest != NULL, "digest");
	if (argc == 5 && strcmp(argv[1], "fill") == 0)
		fill(argv[2], atoi(argv[3]), atoi(argv[4]));
	else if (argc == 5 && strcmp(argv[1], "append") == 0) {
		double ours = rate(append, argv[2], atoi(argv[3]),
		    atoi(argv[4]));
		double theirs = rate(bare, argv[2], atoi(argv[3]),
		    atoi(argv[4]));

		printf("%.0f %.0f\n", ours, theirs);
	} else
		return 64;
	digest_free(digest);
	return 0;
}
