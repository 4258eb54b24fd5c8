/*
 * The one reader of YAML. It guarantees, against whoever wrote the text, that
 * nothing which another YAML reader could understand differently is taken for
 * granted: libyaml is used for its events alone, and aliases, anchors, tags,
 * directives, document markers, duplicate keys, keys that are no scalars, and
 * the line ends that only YAML 1.1 knows are refused. Depth and number of
 * nodes are bounded before they cost anything, no walk recurses, and whatever
 * is echoed into a message is printable.
 */

#include "enforce/yaml.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#define GUESS_MAX 48 /* bytes of a word that is worth a guess */
#define MESSAGE_MAX 768
#define FIELD_MAX 256

#define NOT_LOOKED_AT "; what follows it was not looked at"
#define QUOTE_IT                                                               \
	"; a value that begins with one of * & ! { [ @ % ` | > needs quotes, " \
	"as in \"**/*.md\""

/* One open list or mapping. */
struct level {
	struct yaml_item *item;
	struct yaml_item *key; /* seen, its value not yet */
};

struct walk {
	const struct yaml_source *src;
	struct yaml_tree *tree;
	struct level levels[YAML_DEPTH_MAX];
	size_t depth;
	size_t at_byte; /* of the character at_index */
	size_t at_index;
	bool ended; /* no event is wanted any more */
};

size_t
yaml_decode(const char *s, size_t len, uint32_t *point)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *p = (const unsigned char *)s;
	uint32_t c;
	size_t n, i;

	if (len == 0)
		return 0;
	if (p[0] < 0x80) {
		*point = p[0];
		return 1;
	}
	if (p[0] >= 0xc2 && p[0] < 0xe0)
		n = 2;
	else if (p[0] >= 0xe0 && p[0] < 0xf0)
		n = 3;
	else if (p[0] >= 0xf0 && p[0] < 0xf5)
		n = 4;
	else
		return 0;
	if (n > len)
		return 0;
	c = p[0] & (0x7fU >> n);
	for (i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3fU);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*point = c;
	return n;
}

size_t
yaml_points(const char *s, size_t len)
{
	size_t i, n = 0;

	for (i = 0; i < len; i++)
		if (((unsigned char)s[i] & 0xc0) != 0x80)
			n++;
	return n;
}

const char *
yaml_invisible(uint32_t c)
{
	static const struct {
		uint32_t first, last;
		const char *words;
	} ranges[] = {
	    {0, 0x1f, "a control character"},
	    {0x7f, 0x9f, "a control character"},
	    {0xad, 0xad, "an invisible hyphen"},
	    {0x61c, 0x61c, "a text direction mark"},
	    {0x115f, 0x1160, "an invisible letter"},
	    {0x180e, 0x180e, "a zero-width character"},
	    {0x200b, 0x200d, "a zero-width character"},
	    {0x200e, 0x200f, "a text direction mark"},
	    {0x2028, 0x2029, "a line separator"},
	    {0x202a, 0x202e, "a text direction override"},
	    {0x2060, 0x2064, "a zero-width character"},
	    {0x2065, 0x206f, "a text direction mark"},
	    {0x3164, 0x3164, "an invisible letter"},
	    {0xfeff, 0xfeff, "a zero-width character"},
	    {0xffa0, 0xffa0, "an invisible letter"},
	    {0xfff9, 0xfffb, "an annotation mark"},
	    {0xfffe, 0xffff, "no character"},
	    {0x1d173, 0x1d17a, "an invisible mark"},
	    {0xe0000, 0xe007f, "an invisible tag character"},
	};
	size_t i;

	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return ranges[i].words;
	return NULL;
}

const char *
yaml_printable(char *out, size_t size, const char *s, size_t len)
{
	char piece[16];
	uint32_t c;
	size_t at = 0, i, n, put;

	/* Room for the dots and the NUL is kept back from the start. */
	for (i = 0; i < len; i += n) {
		n = yaml_decode(s + i, len - i, &c);
		if (n == 0) {
			n = 1;
			snprintf(piece, sizeof(piece), "\\x%02x",
			    (unsigned char)s[i]);
		} else if (c == '\n' || c == '\t') {
			strlcpy(
			    piece, c == '\n' ? "\\n" : "\\t", sizeof(piece));
		} else if (yaml_invisible(c) != NULL) {
			snprintf(piece, sizeof(piece),
			    c < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)c);
		} else {
			memcpy(piece, s + i, n);
			piece[n] = '\0';
		}
		put = strlen(piece);
		if (at + put + sizeof("...") > size) {
			memcpy(out + at, "...", sizeof("..."));
			return out;
		}
		memcpy(out + at, piece, put);
		at += put;
	}
	out[at] = '\0';
	return out;
}

bool
yaml_is(const struct yaml_item *item, const char *word)
{
	return item->kind == YAML_KIND_TEXT && item->len == strlen(word) &&
	       memcmp(item->text, word, item->len) == 0;
}

const char *
yaml_what(const struct yaml_item *item)
{
	switch (item->kind) {
	case YAML_KIND_LIST:
		return "a list";
	case YAML_KIND_MAP:
		return "a mapping";
	case YAML_KIND_TEXT:
		break;
	}
	switch (item->type) {
	case YAML_TYPE_NULL:
		return item->len == 0 ? "nothing" : "null";
	case YAML_TYPE_BOOL:
		return "true or false";
	case YAML_TYPE_INT:
	case YAML_TYPE_FLOAT:
		return "a number";
	case YAML_TYPE_STRING:
		break;
	}
	return "text";
}

bool
yaml_number(const struct yaml_item *item, unsigned max, unsigned *value)
{
	unsigned n = 0, digit;
	size_t i;

	if (item->kind != YAML_KIND_TEXT || item->type != YAML_TYPE_INT ||
	    item->len == 0 || (item->len > 1 && item->text[0] == '0'))
		return false;
	for (i = 0; i < item->len; i++) {
		if (!isdigit((unsigned char)item->text[i]))
			return false;
		digit = (unsigned)(item->text[i] - '0');
		if (n > (max - digit) / 10 || digit > max)
			return false;
		n = n * 10 + digit;
	}
	*value = n;
	return true;
}

/* The distance of two short words: insert, delete, change, swap neighbours. */
static size_t
distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t rows[3][GUESS_MAX + 1], *before, *last, *now, *swap;
	size_t i, j, cost;

	before = rows[0];
	last = rows[1];
	now = rows[2];
	for (j = 0; j <= b_len; j++)
		last[j] = j;
	for (i = 1; i <= a_len; i++) {
		now[0] = i;
		for (j = 1; j <= b_len; j++) {
			cost = a[i - 1] == b[j - 1] ? 0 : 1;
			now[j] = last[j - 1] + cost;
			if (last[j] + 1 < now[j])
				now[j] = last[j] + 1;
			if (now[j - 1] + 1 < now[j])
				now[j] = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1] && before[j - 2] + 1 < now[j])
				now[j] = before[j - 2] + 1;
		}
		swap = before;
		before = last;
		last = now;
		now = swap;
	}
	return last[b_len];
}

/* Lower case, with dashes for underscores. */
static size_t
fold(char out[GUESS_MAX + 1], const char *s)
{
	size_t i;

	for (i = 0; i < GUESS_MAX && s[i] != '\0'; i++)
		if (s[i] == '_')
			out[i] = '-';
		else
			out[i] = (char)tolower((unsigned char)s[i]);
	out[i] = '\0';
	return i;
}

const char *
yaml_guess(const char *word, const char *const words[])
{
	char a[GUESS_MAX + 1], b[GUESS_MAX + 1];
	const char *best = NULL;
	size_t a_len, b_len, d, least = SIZE_MAX, i;

	if (strlen(word) > GUESS_MAX)
		return NULL;
	a_len = fold(a, word);
	for (i = 0; words[i] != NULL; i++) {
		b_len = fold(b, words[i]);
		d = distance(a, a_len, b, b_len);
		/* A third of the word may be wrong, one letter of a short one.
		 */
		if (d < least && (d <= b_len / 3 || (d <= 1 && b_len > 1)) &&
		    d < a_len) {
			least = d;
			best = words[i];
		}
	}
	return best;
}

static bool
all_digits(const char *s, size_t len, const char *digits)
{
	return len > 0 && strspn(s, digits) == len;
}

/* [-+]?([.][0-9]+|[0-9]+([.][0-9]*)?)([eE][-+]?[0-9]+)? without the sign */
static bool
is_float(const char *s)
{
	size_t whole, fraction = 0;

	whole = strspn(s, "0123456789");
	s += whole;
	if (*s == '.') {
		fraction = strspn(s + 1, "0123456789");
		s += fraction + 1;
	}
	if (whole == 0 && fraction == 0)
		return false;
	if (*s == 'e' || *s == 'E') {
		s++;
		if (*s == '-' || *s == '+')
			s++;
		return all_digits(s, strlen(s), "0123456789");
	}
	return *s == '\0';
}

/* The core schema of YAML 1.2, section 10.3.2, for a plain scalar. */
static enum yaml_type
plain_type(const char *s, size_t len)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
	static const char *const bools[] = {
	    "true", "True", "TRUE", "false", "False", "FALSE"};
	static const char *const floats[] = {".inf", ".Inf", ".INF"};
	static const char *const nans[] = {".nan", ".NaN", ".NAN"};
	const char *body = s;
	size_t i;

	for (i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++)
		if (strcmp(s, nulls[i]) == 0)
			return YAML_TYPE_NULL;
	for (i = 0; i < sizeof(bools) / sizeof(bools[0]); i++)
		if (strcmp(s, bools[i]) == 0)
			return YAML_TYPE_BOOL;
	if (strncmp(s, "0o", 2) == 0 && all_digits(s + 2, len - 2, "01234567"))
		return YAML_TYPE_INT;
	if (strncmp(s, "0x", 2) == 0 &&
	    all_digits(s + 2, len - 2, "0123456789abcdefABCDEF"))
		return YAML_TYPE_INT;
	if (*body == '-' || *body == '+') {
		body++;
		len--;
	}
	if (all_digits(body, len, "0123456789"))
		return YAML_TYPE_INT;
	if (is_float(body))
		return YAML_TYPE_FLOAT;
	for (i = 0; i < sizeof(floats) / sizeof(floats[0]); i++)
		if (strcmp(body, floats[i]) == 0)
			return YAML_TYPE_FLOAT;
	for (i = 0; i < sizeof(nans) / sizeof(nans[0]); i++)
		if (strcmp(s, nans[i]) == 0)
			return YAML_TYPE_FLOAT;
	return YAML_TYPE_STRING;
}

/* The texts are bounded (YAML_FILE_MAX and so on), so a line fits. */
static unsigned
line_of(const struct walk *w, const yaml_mark_t *mark)
{
	return (unsigned)mark->line + w->src->first_line;
}

static unsigned
column_of(const yaml_mark_t *mark)
{
	return (unsigned)mark->column + 1;
}

/* Append one key to a dotted path, printable. */
static void
path_add(char *path, size_t size, const struct yaml_item *key)
{
	char word[96];

	if (key == NULL || key->kind != YAML_KIND_TEXT)
		return;
	yaml_printable(word, sizeof(word), key->text, key->len);
	/* All of it or nothing: a cut must not split a character. */
	if (strlen(path) + strlen(word) + sizeof(".") > size)
		return;
	if (path[0] != '\0')
		strlcat(path, ".", size);
	strlcat(path, word, size);
}

/* The keys of the open mappings and one more, by default the pending one. */
static void
path_here(
    const struct walk *w, const struct yaml_item *key, char *path, size_t size)
{
	size_t i;

	path[0] = '\0';
	for (i = 1; i < w->depth; i++)
		path_add(path, size, w->levels[i].item->key);
	if (key == NULL && w->depth > 0)
		key = w->levels[w->depth - 1].key;
	path_add(path, size, key);
}

static void
fault(const struct walk *w, enum yaml_fault kind, const struct yaml_item *key,
    unsigned line, unsigned column, const char *message)
{
	char path[FIELD_MAX];

	path_here(w, key, path, sizeof(path));
	w->src->report(w->src->arg, kind, path, line, column, message);
}

static void
fault_at(const struct walk *w, const yaml_mark_t *mark, const char *message)
{
	fault(w, YAML_FAULT_SYNTAX, NULL, line_of(w, mark), column_of(mark),
	    message);
}

/* The byte at a mark; marks count characters and seldom go back. */
static char
byte_at(struct walk *w, const yaml_mark_t *mark)
{
	uint32_t point;
	size_t n;

	if (mark->index < w->at_index)
		w->at_byte = w->at_index = 0;
	while (w->at_index < mark->index && w->at_byte < w->src->len) {
		n = yaml_decode(w->src->text + w->at_byte,
		    w->src->len - w->at_byte, &point);
		w->at_byte += n == 0 ? 1 : n;
		w->at_index++;
	}
	return w->at_byte < w->src->len ? w->src->text[w->at_byte] : '\0';
}

/* Where a line begins, by its number from 0; the end when there is none. */
static const char *
line_at(const struct walk *w, size_t line)
{
	const char *p = w->src->text, *end = p + w->src->len, *lf;

	for (; line > 0; line--) {
		lf = memchr(p, '\n', (size_t)(end - p));
		if (lf == NULL)
			return end;
		p = lf + 1;
	}
	return p;
}

static const char *
line_end(const struct walk *w, const char *p)
{
	const char *end = w->src->text + w->src->len, *lf;

	lf = memchr(p, '\n', (size_t)(end - p));
	return lf != NULL ? lf : end;
}

static const char *
past_blanks(const char *p, const char *end)
{
	while (p < end && *p == ' ')
		p++;
	return p;
}

/* Does the line have a tab among its leading blanks? */
static bool
tab_indented(const struct walk *w, const yaml_mark_t *mark)
{
	const char *p = line_at(w, mark->line), *end = line_end(w, p);

	p = past_blanks(p, end);
	return p < end && *p == '\t';
}

/* The first byte of the value on the marked line, or NUL. */
static char
value_start(const struct walk *w, const yaml_mark_t *mark)
{
	const char *p = line_at(w, mark->line), *end = line_end(w, p), *colon;

	colon = memchr(p, ':', (size_t)(end - p));
	if (colon != NULL)
		p = colon + 1;
	while (p < end && (*p == ' ' || *p == '-'))
		p++;
	return p < end ? *p : '\0';
}

static bool
one_of(char c, const char *set)
{
	return c != '\0' && strchr(set, c) != NULL;
}

/* Is it "key:value"? What stands before "//" is the scheme of a URL. */
static bool
glued(const char *p, const char *end)
{
	const char *colon = memchr(p, ':', (size_t)(end - p));

	return colon != NULL && end - colon > 1 && !one_of(colon[1], " \t\r") &&
	       (end - colon < 3 || memcmp(colon, "://", 3) != 0);
}

/* Is it a key whose value begins on the next line? */
static bool
key_alone(const char *p, const char *end)
{
	const char *colon = memchr(p, ':', (size_t)(end - p));

	if (colon == NULL)
		return false;
	p = past_blanks(colon + 1, end);
	return p == end || one_of(*p, "#\r");
}

/*
 * The first keys of a mapping are one text with the line below when no blank
 * follows their colons, which is noticed at the first good key. Moves the mark
 * to the first of those above it. A line within a longer text looks the same,
 * but no mapping starts there.
 */
static void
to_glued(const struct walk *w, yaml_mark_t *mark)
{
	const char *p = w->src->text, *last = p + w->src->len, *end, *word;
	bool starts = true, found = false;
	yaml_mark_t at = {0};
	size_t line;

	for (line = 0; line < mark->line && p < last; line++, p = end + 1) {
		end = line_end(w, p);
		word = past_blanks(p, end);
		if (word == end || one_of(*word, "#\r"))
			continue;
		while (end - word > 1 && memcmp(word, "- ", 2) == 0) {
			word = past_blanks(word + 1, end);
			starts = true;
		}
		if (!glued(word, end)) {
			found = false;
		} else if (starts && !found) {
			found = true;
			at.line = line;
			at.column = (size_t)(word - p);
		}
		/* behind a marker, too: it stands on the first line only */
		starts = key_alone(word, end) || (line == 0 && *word == '-');
	}
	if (found)
		*mark = at;
}

/* Does the marked line begin no further right than the other one? */
static bool
outside(
    const struct walk *w, const yaml_mark_t *mark, const yaml_mark_t *opened)
{
	const char *p = line_at(w, mark->line), *q = line_at(w, opened->line);

	return mark->line != opened->line &&
	       past_blanks(p, line_end(w, p)) - p <=
		   past_blanks(q, line_end(w, q)) - q;
}

/*
 * Where the mistake is. libyaml notices some only further down: an open quote
 * at the end, an open bracket in the next field, a key without colon or blank
 * at the next line; what is no alias begins with its star.
 */
static yaml_mark_t
mistake(const struct walk *w, const yaml_parser_t *parser)
{
	static const struct {
		const char *context, *problem;
	} early[] = {
	    {"", "end of stream"},
	    {"an alias", ""},
	    {"an anchor", ""},
	    {"a simple key", "could not find expected ':'"},
	};
	yaml_mark_t mark = parser->problem_mark;
	size_t i;

	if (parser->problem == NULL)
		return mark;
	if (strstr(parser->problem, "mapping values are not allowed") != NULL)
		to_glued(w, &mark);
	if (parser->context == NULL)
		return mark;
	for (i = 0; i < sizeof(early) / sizeof(early[0]); i++)
		if (strstr(parser->context, early[i].context) != NULL &&
		    strstr(parser->problem, early[i].problem) != NULL)
			return parser->context_mark;
	if (strstr(parser->context, "a flow ") != NULL &&
	    outside(w, &mark, &parser->context_mark))
		return parser->context_mark;
	return mark;
}

/* Is the mistake a key whose colon has no blank after it? */
static bool
no_blank(
    const struct walk *w, const yaml_parser_t *parser, const yaml_mark_t *at)
{
	const char *p = line_at(w, at->line);

	if (strstr(parser->problem, "mapping values are not allowed") == NULL &&
	    strstr(parser->problem, "could not find expected ':'") == NULL)
		return false;
	return at->line != parser->problem_mark.line &&
	       glued(p, line_end(w, p));
}

/* What to write instead, for the classic mistakes. */
static const char *
advice(struct walk *w, const yaml_parser_t *parser, const yaml_mark_t *at)
{
	const yaml_mark_t *mark = &parser->problem_mark;
	const yaml_mark_t *context = &parser->context_mark;

	if (parser->problem == NULL)
		return "";
	if (no_blank(w, parser, at))
		return "; put a blank after the colon: \"key: value\"";
	if (strstr(parser->problem, "mapping values are not allowed") != NULL)
		return "; a value with a colon and a blank in it needs quotes: "
		       "\"Use when: ...\"";
	if (strstr(parser->problem, "could not find expected ':'") != NULL &&
	    !one_of(byte_at(w, at), "{["))
		return "; write \"key: value\" with a colon and a blank";
	if (byte_at(w, mark) == '\t' || tab_indented(w, mark) ||
	    strstr(parser->problem, "tab character") != NULL)
		return "; indent with blanks, not with tabs";
	if (one_of(byte_at(w, mark), "*&!@%`"))
		return QUOTE_IT;
	if (parser->context != NULL &&
	    (strstr(parser->context, "alias") != NULL ||
		strstr(parser->context, "anchor") != NULL ||
		strstr(parser->context, "a tag") != NULL))
		return QUOTE_IT;
	if (one_of(byte_at(w, at), "{[") ||
	    one_of(value_start(w, mark), "{[") ||
	    (parser->context != NULL && one_of(value_start(w, context), "{[")))
		return "; text that begins with { or [, or that has braces, "
		       "brackets or commas inside a list in brackets, needs "
		       "quotes: \"{src,test}/**\"; else close what was opened";
	if (strstr(parser->problem, "unexpected end of stream") != NULL)
		return "; close the quotes that were opened";
	if (strstr(parser->problem, "escape") != NULL)
		return "; write two backslashes in double quotes, or use "
		       "single "
		       "quotes";
	return "; look for a missing quote or a line that is indented "
	       "differently";
}

/*
 * libyaml looks ahead, so its error may come before the event of the key that
 * the error belongs to: the last line at or before the mark that begins with a
 * word and a colon tells it, the marked one by a word alone. field stays as it
 * is when there is none.
 */
static void
key_above(
    const struct walk *w, const yaml_mark_t *mark, char *field, size_t size)
{
	static const char word[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-. ";
	const char *p = w->src->text, *end = p + w->src->len, *q;
	size_t line;

	for (line = 0; line <= mark->line; line++) {
		for (q = p; q < end && one_of(*q, word);)
			q++;
		if (q > p && !one_of(*p, " -") &&
		    ((q < end && *q == ':') ||
			(line == mark->line &&
			    (q == end || one_of(*q, "\r\n")))))
			yaml_printable(field, size, p, (size_t)(q - p));
		q = memchr(p, '\n', (size_t)(end - p));
		if (q == NULL)
			return;
		p = q + 1;
	}
}

/*
 * Back to a mark that lies before what libyaml has read: what begins further
 * right has ended there, and so has a list that begins where its mapping does;
 * of a mapping that begins there the key is another one.
 */
static void
back_to(struct walk *w, const yaml_mark_t *mark)
{
	unsigned column = column_of(mark);
	struct level *top;

	while (
	    w->depth > 1 && (w->levels[w->depth - 1].item->column > column ||
				w->levels[w->depth - 2].item->column >= column))
		w->depth--;
	if (w->depth == 0)
		return;
	top = &w->levels[w->depth - 1];
	if (top->item->column == column)
		top->key = NULL;
}

/* libyaml's own error ends the walk. */
static int
library_error(struct walk *w, const yaml_parser_t *parser)
{
	yaml_mark_t mark = mistake(w, parser);
	char message[MESSAGE_MAX], path[FIELD_MAX];

	if (parser->error == YAML_MEMORY_ERROR) {
		errno = ENOMEM;
		return -1;
	}
	snprintf(message, sizeof(message),
	    "not valid YAML: %s%s%s%s" NOT_LOOKED_AT,
	    parser->context != NULL ? parser->context : "",
	    parser->context != NULL ? ", " : "",
	    parser->problem != NULL ? parser->problem : "unreadable",
	    advice(w, parser, &mark));
	w->tree->whole = false;
	w->ended = true;
	if (mark.line != parser->problem_mark.line)
		back_to(w, &mark);
	path_here(w, NULL, path, sizeof(path));
	if (path[0] == '\0')
		key_above(w, &mark, path, sizeof(path));
	w->src->report(w->src->arg, YAML_FAULT_SYNTAX, path, line_of(w, &mark),
	    column_of(&mark), message);
	return 0;
}

static void
end_early(struct walk *w, const yaml_mark_t *mark, const char *message)
{
	w->tree->whole = false;
	w->ended = true;
	fault_at(w, mark, message);
}

static struct yaml_item *
item_new(struct walk *w, enum yaml_kind kind, const yaml_mark_t *mark)
{
	struct yaml_item *item;

	item = calloc(1, sizeof(*item));
	if (item == NULL)
		return NULL;
	item->kind = kind;
	item->line = line_of(w, mark);
	item->column = column_of(mark);
	item->chain = w->tree->chain;
	w->tree->chain = item;
	w->tree->items++;
	return item;
}

/* A key that its mapping has already spoils the second pair. */
static void
check_duplicate(
    struct walk *w, const struct level *level, struct yaml_item *key)
{
	const struct yaml_item *other;
	char message[MESSAGE_MAX], word[96];

	for (other = level->item->child; other != NULL; other = other->next) {
		if (other->key->kind != YAML_KIND_TEXT ||
		    other->key->len != key->len ||
		    memcmp(other->key->text, key->text, key->len) != 0)
			continue;
		snprintf(message, sizeof(message),
		    "the key `%s` stands on line %u already; keep one of the "
		    "two",
		    yaml_printable(word, sizeof(word), key->text, key->len),
		    other->key->line);
		fault(w, YAML_FAULT_DUPLICATE, key, key->line, key->column,
		    message);
		key->spoiled = true;
		return;
	}
}

/* Invisible characters; a value may hold line feeds and tabs. */
static void
check_characters(struct walk *w, struct yaml_item *item, bool is_key)
{
	char message[MESSAGE_MAX];
	const char *words;
	uint32_t point;
	size_t i, n;

	for (i = 0; i < item->len; i += n) {
		n = yaml_decode(item->text + i, item->len - i, &point);
		if (n == 0)
			n = 1, point = 0;
		words = yaml_invisible(point);
		if (words == NULL ||
		    (!is_key && (point == '\n' || point == '\t')))
			continue;
		snprintf(message, sizeof(message),
		    "this %s holds U+%04X, %s, which a reader cannot see; "
		    "remove it",
		    is_key ? "key" : "value", (unsigned)point, words);
		fault(w, YAML_FAULT_CHARACTER, is_key ? item : NULL, item->line,
		    item->column, message);
		item->spoiled = true;
		return;
	}
}

/* Hang a new item where the walk stands. */
static void
attach(struct walk *w, struct yaml_item *item)
{
	struct level *level;

	if (w->depth == 0) {
		w->tree->root = item;
		return;
	}
	level = &w->levels[w->depth - 1];
	if (level->item->kind == YAML_KIND_MAP) {
		if (level->key == NULL) {
			level->key = item;
			return;
		}
		item->key = level->key;
		level->key = NULL;
	}
	if (level->item->last == NULL)
		level->item->child = item;
	else
		level->item->last->next = item;
	level->item->last = item;
}

static bool
wants_key(const struct walk *w)
{
	const struct level *level;

	if (w->depth == 0)
		return false;
	level = &w->levels[w->depth - 1];
	return level->item->kind == YAML_KIND_MAP && level->key == NULL;
}

/*
 * Anchors and tags are refused wherever they stand. The non-specific tag "!"
 * leaves no trace in the event, so the text itself is asked.
 */
static bool
decorated(struct walk *w, const yaml_char_t *anchor, const yaml_char_t *tag,
    const yaml_mark_t *mark)
{
	if (anchor != NULL) {
		fault_at(w, mark, "anchors (&name) are not allowed" QUOTE_IT);
		return true;
	}
	if (tag != NULL || byte_at(w, mark) == '!') {
		fault_at(w, mark, "tags (!name) are not allowed" QUOTE_IT);
		return true;
	}
	return false;
}

/* Is there room for one more item? */
static bool
room(struct walk *w, const yaml_mark_t *mark)
{
	char message[MESSAGE_MAX];

	if (w->tree->items < w->src->items_max)
		return true;
	snprintf(message, sizeof(message),
	    "more than %zu keys and values; make it shorter" NOT_LOOKED_AT,
	    w->src->items_max);
	end_early(w, mark, message);
	return false;
}

static int
on_scalar(struct walk *w, const yaml_event_t *event)
{
	struct yaml_item *item;
	bool is_key = wants_key(w);

	if (!room(w, &event->start_mark))
		return 0;
	item = item_new(w, YAML_KIND_TEXT, &event->start_mark);
	if (item == NULL)
		return -1;
	item->len = event->data.scalar.length;
	item->text = malloc(item->len + 1);
	if (item->text == NULL)
		return -1;
	memcpy(item->text, event->data.scalar.value, item->len);
	item->text[item->len] = '\0';
	if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
		item->type = plain_type(item->text, item->len);
	item->spoiled = decorated(w, event->data.scalar.anchor,
	    event->data.scalar.tag, &event->start_mark);
	check_characters(w, item, is_key);
	if (is_key && !item->spoiled)
		check_duplicate(w, &w->levels[w->depth - 1], item);
	attach(w, item);
	return 0;
}

/* An alias becomes an empty text that is judged no more. */
static int
on_alias(struct walk *w, const yaml_event_t *event)
{
	struct yaml_item *item;

	fault_at(
	    w, &event->start_mark, "aliases (*name) are not allowed" QUOTE_IT);
	if (!room(w, &event->start_mark))
		return 0;
	item = item_new(w, YAML_KIND_TEXT, &event->start_mark);
	if (item == NULL)
		return -1;
	item->text = calloc(1, 1);
	if (item->text == NULL)
		return -1;
	item->spoiled = true;
	attach(w, item);
	return 0;
}

static int
on_open(struct walk *w, enum yaml_kind kind, const yaml_event_t *event,
    const yaml_char_t *anchor, const yaml_char_t *tag)
{
	struct yaml_item *item;
	char message[MESSAGE_MAX];

	if (w->depth == YAML_DEPTH_MAX) {
		snprintf(message, sizeof(message),
		    "lists and mappings are nested deeper than %d levels; make "
		    "it flatter" NOT_LOOKED_AT,
		    YAML_DEPTH_MAX);
		end_early(w, &event->start_mark, message);
		return 0;
	}
	if (!room(w, &event->start_mark))
		return 0;
	item = item_new(w, kind, &event->start_mark);
	if (item == NULL)
		return -1;
	item->spoiled = decorated(w, anchor, tag, &event->start_mark);
	if (wants_key(w)) {
		fault_at(w, &event->start_mark,
		    "a key must be a word, not a list or a mapping; text that "
		    "begins with [ or { needs quotes");
		item->spoiled = true;
	}
	attach(w, item);
	w->levels[w->depth].item = item;
	w->levels[w->depth].key = NULL;
	w->depth++;
	return 0;
}

static void
on_document(struct walk *w, const yaml_event_t *event, bool first)
{
	if (!first) {
		end_early(w, &event->start_mark,
		    "a second YAML document begins here; keep "
		    "one" NOT_LOOKED_AT);
		return;
	}
	if (event->data.document_start.version_directive != NULL ||
	    event->data.document_start.tag_directives.start !=
		event->data.document_start.tag_directives.end)
		fault_at(w, &event->start_mark,
		    "directives (%YAML, %TAG) are not allowed; remove the "
		    "line");
	if (!event->data.document_start.implicit && !w->src->start_marker)
		fault_at(w, &event->start_mark,
		    "a document marker (---) is not allowed here; remove it");
}

static int
on_event(struct walk *w, const yaml_event_t *event, bool *first)
{
	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		on_document(w, event, *first);
		*first = false;
		return 0;
	case YAML_DOCUMENT_END_EVENT:
		if (!event->data.document_end.implicit)
			end_early(w, &event->start_mark,
			    "a document end marker (...) is not allowed; "
			    "remove it" NOT_LOOKED_AT);
		return 0;
	case YAML_ALIAS_EVENT:
		return on_alias(w, event);
	case YAML_SCALAR_EVENT:
		return on_scalar(w, event);
	case YAML_SEQUENCE_START_EVENT:
		return on_open(w, YAML_KIND_LIST, event,
		    event->data.sequence_start.anchor,
		    event->data.sequence_start.tag);
	case YAML_MAPPING_START_EVENT:
		return on_open(w, YAML_KIND_MAP, event,
		    event->data.mapping_start.anchor,
		    event->data.mapping_start.tag);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		w->depth--;
		return 0;
	case YAML_STREAM_END_EVENT:
		w->ended = true;
		return 0;
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
		break;
	}
	return 0;
}

/* Why a character may not stand in the text at all, or NULL. */
static const char *
refused_character(uint32_t c, bool lf_follows)
{
	if (c == '\n' || c == '\t')
		return NULL;
	if (c == '\r')
		return lf_follows ? NULL
				  : "a carriage return without a line feed; "
				    "end lines with LF or CRLF";
	if (c == 0)
		return "a NUL byte; remove it";
	if (c == 0x85 || c == 0x2028 || c == 0x2029)
		return "a line separator (U+0085, U+2028 or U+2029), which "
		       "some "
		       "YAML readers take for a line end; remove it";
	if (c < 0x20 || (c >= 0x7f && c <= 0x9f))
		return "a control character; remove it";
	if (c == 0xfeff)
		return "a byte order mark in the middle of the text; remove it";
	if (c == 0xfffe || c == 0xffff)
		return "a code point that is no character; remove it";
	return NULL;
}

/*
 * libyaml ends lines where other readers do not, and stops without a place at
 * bytes that it cannot decode: such texts never reach it. One report a line.
 */
static bool
scan_text(struct walk *w)
{
	const struct yaml_source *src = w->src;
	char message[MESSAGE_MAX];
	const char *why;
	unsigned line = src->first_line, column = 1, told = 0;
	uint32_t c = 0;
	size_t i, n;

	for (i = 0; i < src->len; i += n) {
		n = yaml_decode(src->text + i, src->len - i, &c);
		why = n == 0
			  ? "a byte that is not UTF-8; save the file as UTF-8"
			  : refused_character(c,
				i + 1 < src->len && src->text[i + 1] == '\n');
		if (why != NULL && told != line) {
			told = line;
			snprintf(message, sizeof(message),
			    "here stands %s; the YAML was not looked at", why);
			src->report(src->arg, YAML_FAULT_SYNTAX, "", line,
			    column, message);
		}
		if (n == 0)
			n = 1, c = 0;
		column++;
		if (c == '\n') {
			line++;
			column = 1;
		}
	}
	return told == 0;
}

int
yaml_tree_read(struct yaml_tree *tree, const struct yaml_source *src)
{
	struct walk w = {.src = src, .tree = tree};
	yaml_parser_t parser;
	yaml_event_t event;
	bool first = true;
	int ret = 0;

	memset(tree, 0, sizeof(*tree));
	tree->whole = scan_text(&w);
	if (!tree->whole)
		return 0;
	if (yaml_parser_initialize(&parser) == 0) {
		errno = ENOMEM;
		return -1;
	}
	/* Named, so that no byte order mark can switch to UTF-16. */
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(
	    &parser, (const unsigned char *)src->text, src->len);
	while (ret == 0 && !w.ended) {
		if (yaml_parser_parse(&parser, &event) == 0) {
			ret = library_error(&w, &parser);
			break;
		}
		ret = on_event(&w, &event, &first);
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	if (ret == -1)
		errno = ENOMEM;
	return ret;
}

void
yaml_tree_clear(struct yaml_tree *tree)
{
	struct yaml_item *item, *next;

	for (item = tree->chain; item != NULL; item = next) {
		next = item->chain;
		free(item->text);
		free(item);
	}
	memset(tree, 0, sizeof(*tree));
}
