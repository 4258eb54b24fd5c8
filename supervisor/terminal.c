/* The terminal that a person looks at, if there is one. */

#include "supervisor/terminal.h"

#include <sys/ioctl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/json.h"

#define COLUMNS 80
#define SENTENCE 76

size_t
terminal_columns(void)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO))
		return 0;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == -1 || size.ws_col == 0)
		return COLUMNS;
	return size.ws_col;
}

bool
terminal_color(void)
{
	const char *no = getenv("NO_COLOR");

	return isatty(STDOUT_FILENO) && (no == NULL || no[0] == '\0');
}

void
terminal_sentence(const char *text, size_t column, size_t indent)
{
	size_t len, n, at = column;
	bool first = true;

	for (text += strspn(text, " "); *text != '\0';
	    text += strspn(text, " ")) {
		len = strcspn(text, " ");
		n = json_utf8_points(text, len);
		if (!first && at + 1 + n > SENTENCE) {
			printf("\n%*s", (int)indent, "");
			at = indent;
		} else if (!first) {
			putchar(' ');
			at++;
		}
		printf("%.*s", (int)len, text);
		at += n;
		text += len;
		first = false;
	}
	putchar('\n');
}
