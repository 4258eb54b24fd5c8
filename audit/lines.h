#ifndef AUDIT_LINES_H
#define AUDIT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The lines of a ledger file, in order, in bounded memory: a reader of the
 * ledger never holds more than two rows, whatever lies in the file.
 */
struct lines {
	int	 fd;		/* borrowed; its offset is left alone */
	uint64_t at;		/* where the bytes in data begin in the file */
	char	*data;
	size_t	 begin;		/* of what was not handed out yet */
	size_t	 end;
	bool	 inside;	/* of a line that is handed out in pieces */
};

/* Read from an offset, which must be the start of a line. 0 or -1, ENOMEM. */
int	lines_init(struct lines *, int fd, uint64_t offset);
void	lines_clear(struct lines *);

enum lines_event {
	LINES_ROW,	/* a complete line, without its line feed */
	LINES_END,	/* nothing is left */
	LINES_TORN,	/* the rest of the file, which has no line feed */
	LINES_PIECE,	/* of a line over ROW_MAX bytes: not ours; more follows,
			 * as pieces, and ends in LINES_LAST or LINES_TORN */
	LINES_LAST,	/* the last piece, which had a line feed */
	LINES_FAILED	/* errno says why it cannot be read */
};

/* The next line; the text is valid until the next call. */
enum lines_event lines_next(struct lines *, const char **line, size_t *len);

/* The same for who steps over what is longer than a row. */
enum lines_event lines_next_row(struct lines *, const char **line, size_t *len);

/* The offset behind the line or piece that was handed out last. */
uint64_t lines_offset(const struct lines *);

#endif
