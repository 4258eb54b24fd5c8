#ifndef ENFORCE_EXCERPT_H
#define ENFORCE_EXCERPT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The line of a text that a message is about, for a person's terminal, and how
 * far a mark below it has to be indented. Whatever the line holds, the terminal
 * sees printable characters only: tabs are spread to blanks, control, direction
 * and zero-width characters and bytes that are not UTF-8 are spelled out, and a
 * line that is wider than the terminal is cut around the mark.
 */
struct excerpt {
	char	line[1024];	/* without line feed */
	size_t	indent;		/* terminal columns before the mark */
};

/*
 * line and column count from 1, columns in code points, as in a
 * manifest_error; a byte that is not UTF-8 counts as one. A byte order mark at
 * the start of the text is left out. A column behind the end of its line is
 * marked behind the last character. width: the terminal columns to use, at
 * least 16. False when the text has no such line.
 */
bool	excerpt_make(struct excerpt *, const char *text, size_t len,
	    unsigned line, unsigned column, size_t width);

#endif
