#ifndef SUPERVISOR_TERMINAL_H
#define SUPERVISOR_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* What standard output is, for texts that people read. */

/* The columns of the terminal that it is, 80 when that does not tell; 0: none. */
size_t	terminal_columns(void);

/* Is it a terminal, and has nobody asked for none with NO_COLOR? */
bool	terminal_color(void);

/*
 * Print a sentence, broken between words so that it keeps to 76 columns, and a
 * line feed. Its first word follows in this column, all other lines begin in
 * column indent. The text is printable.
 */
void	terminal_sentence(const char *text, size_t column, size_t indent);

#endif
