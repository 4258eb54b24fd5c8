/*
 * Reads a ledger file line by line. It guarantees, against a file that a
 * broken or subverted writer has filled with anything at all, that a reader's
 * memory and the length of a line stay bounded.
 */

#include "audit/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/row.h"

#define LINES_SIZE (4 * ROW_MAX)

int
lines_init(struct lines *l, int fd, uint64_t offset)
{
	memset(l, 0, sizeof(*l));
	l->fd = fd;
	l->at = offset;
	l->data = malloc(LINES_SIZE);
	return l->data == NULL ? -1 : 0;
}

void
lines_clear(struct lines *l)
{
	free(l->data);
	memset(l, 0, sizeof(*l));
	l->fd = -1;
}

/* Read more behind what is there. 1 something came, 0 end of file, -1. */
static int
fill(struct lines *l)
{
	ssize_t n;

	if (l->begin > 0) {
		memmove(l->data, l->data + l->begin, l->end - l->begin);
		l->at += l->begin;
		l->end -= l->begin;
		l->begin = 0;
	}
	do {
		n = pread(l->fd, l->data + l->end, LINES_SIZE - l->end,
		    (off_t)(l->at + l->end));
	} while (n == -1 && errno == EINTR);
	if (n > 0)
		l->end += (size_t)n;
	return n > 0 ? 1 : (int)n;
}

static enum lines_event
end_line(struct lines *l, size_t len)
{
	bool row = !l->inside && len < ROW_MAX;

	l->inside = false;
	return row ? LINES_ROW : LINES_LAST;
}

enum lines_event
lines_next(struct lines *l, const char **line, size_t *len)
{
	const char *feed;
	size_t seen = 0;

	for (;;) {
		*line = l->data + l->begin;
		*len = l->end - l->begin;
		feed = memchr(*line + seen, '\n', *len - seen);
		if (feed != NULL) {
			*len = (size_t)(feed - *line);
			l->begin += *len + 1;
			return end_line(l, *len);
		}
		if (*len >= ROW_MAX) {
			l->begin += *len;
			l->inside = true;
			return LINES_PIECE;
		}
		seen = *len;
		switch (fill(l)) { /* which moves what is there */
		case 0:
			*line = l->data + l->begin;
			return *len == 0 && !l->inside ? LINES_END : LINES_TORN;
		case -1:
			return LINES_FAILED;
		default:
			break;
		}
	}
}

enum lines_event
lines_next_row(struct lines *l, const char **line, size_t *len)
{
	enum lines_event event;

	do
		event = lines_next(l, line, len);
	while (event == LINES_PIECE || event == LINES_LAST);
	return event;
}

uint64_t
lines_offset(const struct lines *l)
{
	return l->at + l->begin;
}
