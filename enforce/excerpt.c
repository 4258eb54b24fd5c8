/*
 * Where in the file: the line, and the place under it. The file is a
 * stranger's, the terminal is not: nothing that steers a terminal gets through,
 * and the mark stands right below wide characters, accents and tabs too.
 */

#include "enforce/excerpt.h"

#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "enforce/yaml.h"

#define TAB 8
#define WIDTH_MIN 16
#define WIDTH_MAX 200
#define DOTS "..."
#define DOTS_N (sizeof(DOTS) - 1)

/* One code point as it is shown. */
struct cell {
	char text[16];
	size_t width; /* terminal columns; 0 for what sits on the one before */
};

/* The code point at s as a cell that begins in column at; its bytes. */
static size_t
cell_of(struct cell *cell, const char *s, size_t len, size_t at)
{
	uint32_t point;
	size_t n;
	int width;

	n = yaml_decode(s, len, &point);
	if (n == 1 && point == '\t') {
		cell->width = TAB - at % TAB;
		snprintf(cell->text, sizeof(cell->text), "%*s",
		    (int)cell->width, "");
		return n;
	}
	width = n == 0 ? -1 : wcwidth((wchar_t)point);
	if (n > 0 && width >= 0 && yaml_invisible(point) == NULL) {
		memcpy(cell->text, s, n);
		cell->text[n] = '\0';
		cell->width = (size_t)width;
		return n;
	}
	if (n == 0)
		snprintf(cell->text, sizeof(cell->text), "\\x%02x",
		    (unsigned char)s[0]);
	else
		snprintf(cell->text, sizeof(cell->text),
		    point < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)point);
	cell->width = strlen(cell->text);
	return n == 0 ? 1 : n;
}

/* Where a line stands, without its end. */
static bool
find_line(const char **text, size_t *len, unsigned line)
{
	const char *p = *text, *end = p + *len, *lf;

	if (*len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
		p += 3;
	for (; line > 1; line--) {
		lf = memchr(p, '\n', (size_t)(end - p));
		if (lf == NULL)
			return false;
		p = lf + 1;
	}
	lf = memchr(p, '\n', (size_t)(end - p));
	if (lf != NULL)
		end = lf;
	if (lf != NULL && end > p && end[-1] == '\r')
		end--;
	*text = p;
	*len = (size_t)(end - p);
	return line == 1;
}

/* The terminal columns of the whole line, and those before the mark. */
static size_t
measure(const char *s, size_t len, unsigned column, size_t *mark)
{
	struct cell cell;
	unsigned n = 1;
	size_t i, at = 0;

	*mark = SIZE_MAX;
	for (i = 0; i < len;) {
		if (n++ == column)
			*mark = at;
		i += cell_of(&cell, s + i, len - i, at);
		at += cell.width;
	}
	if (*mark == SIZE_MAX)
		*mark = at;
	return at;
}

/* The cells that lie between two terminal columns, as many bytes as fit. */
static void
put_cells(struct excerpt *x, const char *s, size_t len, size_t from, size_t to)
{
	size_t i, n, at = 0, used = strlen(x->line);
	struct cell cell;

	for (i = 0; i < len;) {
		i += cell_of(&cell, s + i, len - i, at);
		if (at + cell.width > to)
			break;
		/* One that is cut in two leaves blanks, the mark stays right.
		 */
		if (at < from && at + cell.width > from)
			snprintf(cell.text, sizeof(cell.text), "%*s",
			    (int)(at + cell.width - from), "");
		at += cell.width;
		n = strlen(cell.text);
		if (at > from && used + n + sizeof(DOTS) < sizeof(x->line)) {
			memcpy(x->line + used, cell.text, n + 1);
			used += n;
		}
	}
}

static void
cut(struct excerpt *x, const char *s, size_t len, unsigned column, size_t width)
{
	size_t total, mark, from = 0, to;

	total = measure(s, len, column, &mark);
	/* Two thirds of what is shown stand before the mark. */
	if (total > width && mark > width * 2 / 3)
		from = mark - width * 2 / 3;
	if (total > width && from + width > total)
		from = total - width;
	x->line[0] = '\0';
	if (from > 0) {
		strlcpy(x->line, DOTS, sizeof(x->line));
		from += DOTS_N;
	}
	to = from + width - strlen(x->line);
	if (total > to)
		to -= DOTS_N;
	x->indent = mark - from + strlen(x->line);
	put_cells(x, s, len, from, to);
	if (total > to)
		strlcat(x->line, DOTS, sizeof(x->line));
}

bool
excerpt_make(struct excerpt *x, const char *text, size_t len, unsigned line,
    unsigned column, size_t width)
{
	locale_t utf8, before = (locale_t)0;

	if (line == 0 || !find_line(&text, &len, line))
		return false;
	if (width < WIDTH_MIN)
		width = WIDTH_MIN;
	if (width > WIDTH_MAX)
		width = WIDTH_MAX;
	/* Without it wcwidth knows ASCII alone, and the rest is spelled out. */
	utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	if (utf8 != (locale_t)0)
		before = uselocale(utf8);
	cut(x, text, len, column, width);
	if (utf8 != (locale_t)0) {
		uselocale(before);
		freelocale(utf8);
	}
	return true;
}
