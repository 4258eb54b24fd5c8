/* Lines of a ledger file, whatever lies in it: rows, long lines, torn ends. */

#include "audit/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "audit/row.h"
#include "t/unit/tap.h"

static char last; /* the first byte of the last event's text */

/* What comes of a file that holds this, as one letter an event: R, P, L, T. */
static const char *
events(const char *text, size_t len, size_t *bytes)
{
	static char seen[64];
	int fd = memfd_create("lines", MFD_CLOEXEC);
	enum lines_event event;
	struct lines lines;
	const char *line;
	size_t n = 0, size;

	*bytes = 0;
	last = '\0';
	if (fd == -1 || write(fd, text, len) != (ssize_t)len ||
	    lines_init(&lines, fd, 0) == -1)
		abort();
	while (n < sizeof(seen) - 1 &&
	       (event = lines_next(&lines, &line, &size)) != LINES_END) {
		seen[n++] = "RETPLF"[event];
		*bytes += size;
		last = size > 0 ? line[0] : '\0';
		if (event == LINES_TORN)
			break;
	}
	seen[n] = '\0';
	ok(lines_offset(&lines) <= len, "never behind the end");
	lines_clear(&lines);
	close(fd);
	return seen;
}

/* The first bytes of the rows when a long line of size bytes lies behind the
 * text, and "b" behind that unless it is to be torn; then the last event. */
static const char *
rows(const char *text, size_t len, size_t size)
{
	static char filler[8 * ROW_MAX], seen[64];
	int fd = memfd_create("lines", MFD_CLOEXEC);
	enum lines_event event;
	struct lines lines;
	const char *line;
	size_t n = 0, got;

	memset(filler, 'x', sizeof(filler));
	if (fd == -1 || write(fd, text, len) != (ssize_t)len ||
	    write(fd, filler, size) != (ssize_t)size ||
	    (size < sizeof(filler) && write(fd, "\nb\n", 3) != 3) ||
	    lines_init(&lines, fd, 0) == -1)
		abort();
	while ((event = lines_next_row(&lines, &line, &got)) == LINES_ROW)
		seen[n++] = line[0];
	seen[n++] = "RETPLF"[event];
	seen[n] = '\0';
	lines_clear(&lines);
	close(fd);
	return seen;
}

int
main(void)
{
	static char text[8 * ROW_MAX];
	size_t n;

	is_str(events("", 0, &n), "", "nothing");
	is_str(events("a\n\nb\n", 5, &n), "RRR", "rows, an empty one too");
	is_str(events("a\nb", 3, &n), "RT", "a torn end");
	memset(text, 'x', sizeof(text));
	text[ROW_MAX - 1] = '\n';
	is_str(events(text, ROW_MAX + 1, &n), "RT", "the longest row");
	text[ROW_MAX - 1] = 'x';
	text[ROW_MAX] = '\n';
	memcpy(text + ROW_MAX + 1, "row\n", 4);
	is_str(events(text, ROW_MAX + 5, &n), "LR", "a byte more is none");
	memset(text, 'x', sizeof(text));
	memcpy(text, "row\nT", 5);
	is_str(events(text, ROW_MAX - 1, &n), "RT",
	    "a torn end longer than what is before it");
	ok(last == 'T', "it begins where it begins");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 5] = '\n';
	memcpy(text + sizeof(text) - 4, "row\n", 4);
	is_str(events(text, sizeof(text), &n), "PLR",
	    "pieces of a long line, and the row behind it");
	is_int((int)n, (int)sizeof(text) - 2, "every byte of it comes once");
	text[sizeof(text) - 1] = 'x';
	is_str(events(text, sizeof(text), &n), "PLT", "and what is torn");
	memset(text, 'x', sizeof(text));
	is_str(events(text, sizeof(text), &n), "PPT", "torn and long");
	is_int((int)n, (int)sizeof(text), "all of that, too");
	is_str(rows("a\n", 2, sizeof(text)), "aT", "rows before a long line");
	is_str(rows("a\n", 2, 3 * ROW_MAX), "abE", "and behind it");
	return done();
}
