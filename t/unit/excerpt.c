/*
 * enforce/excerpt: the line, the place of the mark below it, and that nothing
 * but printable text comes out.
 */

#include "enforce/excerpt.h"
#include "t/unit/tap.h"

struct expect {
	const char *name;
	const char *text;
	unsigned line, column;
	size_t width;
	const char *shown;
	size_t indent;
};

#define TEN "0123456789"

static const struct expect table[] = {
    {"a line of several", "a\nbcd\ne\n", 2, 3, 80, "bcd", 2},
    {"the last one without a line feed", "a\nbc", 2, 1, 80, "bc", 0},
    {"CRLF", "a\r\nbc\r\n", 1, 1, 80, "a", 0},
    {"a byte order mark is left out", "\xef\xbb\xbfid: x", 1, 5, 80, "id: x",
	4},
    {"behind the end", "ab", 1, 9, 80, "ab", 2},
    {"an empty line", "\n\n", 2, 1, 80, "", 0},
    {"a tab goes to the next stop", "a\tb", 1, 3, 80, "a       b", 8},
    {"a mark on a tab", "\tb", 1, 1, 80, "        b", 0},
    {"two tabs", "\t\tb", 1, 3, 80, "                b", 16},
    {"wide characters take two columns", "\xe6\x97\xa5\xe6\x9c\xac: x", 1, 5,
	80, "\xe6\x97\xa5\xe6\x9c\xac: x", 6},
    {"a tab behind one", "\xe6\x97\xa5\tb", 1, 3, 80, "\xe6\x97\xa5      b", 8},
    {"an accent of its own takes none", "e\xcc\x81x", 1, 3, 80, "e\xcc\x81x",
	1},
    {"two bytes, one column", "\xc3\xa9x", 1, 2, 80, "\xc3\xa9x", 1},
    {"escape", "a\033[31mb", 1, 7, 80, "a\\x1b[31mb", 9},
    {"a bidirectional override", "a\xe2\x80\xaex", 1, 3, 80, "a\\u202ex", 7},
    {"a zero-width blank", "a\xe2\x80\x8bx", 1, 3, 80, "a\\u200bx", 7},
    {"C1", "a\xc2\x9bx", 1, 3, 80, "a\\x9bx", 5},
    {"no UTF-8: a byte is a character", "\xff\xfex", 1, 3, 80, "\\xff\\xfex",
	8},
    {"a carriage return within", "a\rb", 1, 3, 80, "a\\x0db", 5},
    {"cut behind", TEN TEN TEN, 1, 2, 20, "01234567890123456...", 1},
    {"cut before", TEN TEN TEN, 1, 30, 20, "...34567890123456789", 19},
    {"cut on both sides", TEN TEN TEN TEN TEN TEN, 1, 31, 20,
	"...01234567890123...", 13},
    {"as wide as the terminal", TEN TEN, 1, 20, 20, TEN TEN, 19},
    {"a wide character that is cut",
	TEN TEN "\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5" TEN TEN TEN, 1, 33, 20,
	"... 0123456789012...", 13},
};

static void
test_table(void)
{
	const struct expect *e;
	struct excerpt x;
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		e = &table[i];
		memset(&x, 'x', sizeof(x));
		ok(excerpt_make(&x, e->text, strlen(e->text), e->line,
		       e->column, e->width),
		    "%s: there is one", e->name);
		is_str(x.line, e->shown, e->name);
		is_int((long long)x.indent, (long long)e->indent, e->name);
	}
}

/* A mark is never beyond the width, whatever the place in a long line. */
static void
test_long(void)
{
	static char text[200000];
	struct excerpt x;
	unsigned column;
	bool good = true;

	memset(text, 'a', sizeof(text));
	for (column = 1; column < 200; column++)
		if (!excerpt_make(&x, text, sizeof(text), 1, column, 72) ||
		    strlen(x.line) != 72 || x.indent >= 72)
			good = false;
	ok(good, "a long line is 72 columns wide, the mark within");
	/* Accents without end on one letter. */
	for (column = 0; column + 1 < sizeof(text); column += 2)
		memcpy(text + column, "\xcc\x81", 2);
	ok(excerpt_make(&x, text, sizeof(text), 1, 90000, 72) &&
		strlen(x.line) < sizeof(x.line),
	    "accents without end fit");
}

int
main(void)
{
	struct excerpt x;

	test_table();
	test_long();
	ok(!excerpt_make(&x, "a\nb", 3, 3, 1, 80), "no such line");
	ok(!excerpt_make(&x, "a\nb", 3, 0, 1, 80), "lines count from 1");
	ok(!excerpt_make(&x, "", 0, 2, 1, 80), "an empty text");
	ok(excerpt_make(&x, "", 0, 1, 1, 80) && x.line[0] == '\0' &&
		x.indent == 0,
	    "has one line");
	return done();
}
