/*
 * The glob matcher. It guarantees, against skills and against authors of
 * skills, that a pattern grants what SPEC 4.1 says and nothing more, and that
 * no pattern can make a match cost more than a constant times the text: a
 * pattern becomes a list of items (one for each thing that takes a code point,
 * one for each brace or comma), the states are the gaps between them, and all
 * states are moved together as bits. Nothing is copied for an alternative,
 * nothing is retried, nothing recurses. Whatever is not understood in a
 * pattern is refused with advice, whatever is not valid in a text matches
 * nothing.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "enforce/glob.h"

#define STATES_MAX (GLOB_PATTERN_MAX + 1)
#define WORD_BITS ((size_t)64)
#define WORDS_MAX ((STATES_MAX + WORD_BITS - 1) / WORD_BITS)
#define ASCII 128
#define HOST_MAX 253
#define LABEL_MAX 63

enum item_kind {
	ITEM_LITERAL,  /* one code point: code */
	ITEM_ANY,      /* one code point but the separator */
	ITEM_CLASS,    /* one out of count ranges from first on */
	ITEM_SEGMENTS, /* "**": as ITEM_ANY, then its gap takes all */
	ITEM_OPEN,     /* "{": link = first comma, or 0 */
	ITEM_COMMA,    /* link = next comma or 0, end = its "}" */
	ITEM_CLOSE,
	ITEM_END
};

struct item {
	enum item_kind kind;
	uint32_t code;
	uint16_t first;
	uint16_t count;
	uint16_t link;
	uint16_t end;
	uint16_t onward;      /* its row of states reached unread */
	uint16_t onward_last; /* the last word of it that counts */
	bool negated;
	bool leading; /* "**" with nothing before it */
};

struct range {
	uint32_t low;
	uint32_t high;
};

/* What a gap takes without leaving it. */
enum gap {
	GAP_NOTHING,
	GAP_RUN, /* "*": anything but the separator */
	GAP_ALL	 /* after "**": anything */
};

/*
 * Sets of states, each nwords long, one behind the other: those below, then
 * one row for each kind of ASCII character with the items that take it, then
 * one for each kind of way that leads on without reading.
 */
enum mask {
	MASK_EMPTY, /* braces, commas, "**": left without reading */
	MASK_RUN,   /* GAP_RUN or GAP_ALL */
	MASK_ALL,   /* GAP_ALL */
	MASK_NONE,
	MASK_LITERAL, /* literal items */
	MASK_WIDE,    /* take any code point that is not ASCII */
	MASK_ASK,     /* such a code point must be compared */
	MASK_ROWS
};

struct program {
	uint8_t row[ASCII]; /* character -> its row */
	size_t nitems;	    /* also the accepting state */
	size_t nwords;
	size_t onward; /* the first of those rows */
	struct item *item;
	struct range *range;
	uint64_t *mask;
};

struct glob {
	char *text; /* as the author wrote it */
	char *lead; /* its literal start, escapes undone */
	size_t lead_len;
	size_t start;		 /* bytes of lead up to its last / */
	size_t start_item;	 /* the same in items */
	uint16_t port;		 /* 0: the default of the scheme */
	bool address;		 /* lead is an IP address */
	struct program *program; /* NULL: lead is all of it */
};

struct glob_set {
	enum glob_kind kind;
	char separator;
	size_t count;
	size_t room;
	struct glob *glob;
};

/*
 * What may stand directly before the next item, in any choice of
 * alternatives: so the rules on segments hold through braces as well.
 */
#define BEFORE_START 0x01u
#define BEFORE_SLASH 0x02u
#define BEFORE_STARS 0x04u /* "**" */
#define BEFORE_DOT 0x08u   /* a segment that is "." so far */
#define BEFORE_DOTDOT 0x10u
#define BEFORE_OTHER 0x20u

struct frame {
	uint16_t open;	 /* its item */
	uint16_t comma;	 /* the latest comma, or 0 */
	unsigned before; /* what stands before the brace */
	unsigned after;	 /* ends of the alternatives so far */
};

struct parser {
	const unsigned char *in;
	size_t len;
	size_t pos;
	enum glob_kind kind;
	unsigned before;
	bool bare; /* nothing in this alternative yet */
	size_t depth;
	size_t nitems;
	size_t nranges;
	uint16_t port;
	bool address;
	const char *why;
	/* set as they are taken: to clear all of it costs a dozen pages */
	struct item item[STATES_MAX];
	enum gap gap[STATES_MAX];
	struct range range[GLOB_PATTERN_MAX];
	struct frame stack[GLOB_PATTERN_MAX];
	char host[GLOB_PATTERN_MAX + 1];
};

/* The bytes of one well-formed code point at s, or 0. */
static size_t
utf8_take(const unsigned char *s, size_t len, uint32_t *code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t c;
	size_t i, n;

	if (len == 0)
		return 0;
	if (s[0] < 0x80) {
		*code = s[0];
		return 1;
	}
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		n = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		n = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4;
	else
		return 0;
	if (n > len)
		return 0;
	c = s[0] & (0xffu >> (n + 1));
	for (i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3fu);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*code = c;
	return n;
}

static int
refuse(struct parser *ps, const char *why)
{
	ps->why = why;
	errno = EINVAL;
	return -1;
}

static struct item *
add_item(struct parser *ps, enum item_kind kind)
{
	struct item *it;

	/* Each item comes from a byte of its own, so there is always room. */
	it = &ps->item[ps->nitems++];
	*it = (struct item){.kind = kind};
	ps->gap[ps->nitems] = GAP_NOTHING;
	ps->bare = false;
	return it;
}

static int
take_code(struct parser *ps, uint32_t *code)
{
	size_t n;

	n = utf8_take(ps->in + ps->pos, ps->len - ps->pos, code);
	if (n == 0)
		return refuse(ps, "a glob is valid UTF-8 text");
	if (*code == 0)
		return refuse(ps, "no path holds a NUL: leave it out");
	if (ps->kind == GLOB_MEMORY &&
	    (*code < 0x20 || (*code >= 0x7f && *code < 0xa0)))
		return refuse(ps,
		    "no memory path holds a control character: write the "
		    "pattern without it");
	ps->pos += n;
	return 0;
}

/* A code point that stands for itself; a backslash takes the next one. */
static int
take_escaped(struct parser *ps, uint32_t *code)
{
	if (ps->pos < ps->len && ps->in[ps->pos] == '\\') {
		ps->pos++;
		if (ps->pos == ps->len)
			return refuse(ps, "a backslash at the end escapes "
					  "nothing: write \\\\ "
					  "for the character itself");
	}
	return take_code(ps, code);
}

/* Called before anything but a slash or a brace is added. */
static int
not_glued(struct parser *ps)
{
	if (ps->before & BEFORE_STARS)
		return refuse(ps,
		    "write ** as a whole segment: foo/** or **/foo; within a "
		    "segment write one *");
	return 0;
}

/* A segment ends here, by a slash or with the pattern. */
static int
segment_done(struct parser *ps, bool at_end)
{
	if (ps->before & (BEFORE_DOT | BEFORE_DOTDOT))
		return refuse(ps,
		    "a segment . or .. never matches, paths are resolved "
		    "before: write the path without it");
	if ((ps->before & BEFORE_SLASH) && at_end)
		return refuse(ps,
		    "nothing matches a final /: write foo/** for all that is "
		    "below foo");
	if (ps->before & BEFORE_SLASH)
		return refuse(ps, "an empty segment never matches: "
				  "write one /");
	if ((ps->before & BEFORE_START) && !at_end && ps->kind == GLOB_MEMORY)
		return refuse(ps,
		    "memory paths have no leading /: write memories/** and "
		    "not /memories/**");
	if ((ps->before & BEFORE_START) && !at_end && ps->kind == GLOB_RELATIVE)
		return refuse(ps,
		    "a path below a directory has no leading /: write two "
		    "globs, one of them absolute");
	return 0;
}

static int
add_literal(struct parser *ps, uint32_t code)
{
	unsigned before = 0;

	if (code == '/') {
		if (segment_done(ps, false) == -1)
			return -1;
		before = BEFORE_SLASH;
	} else {
		if (not_glued(ps) == -1)
			return -1;
		if (code != '.')
			before = BEFORE_OTHER;
		if (code == '.' && (ps->before & (BEFORE_START | BEFORE_SLASH)))
			before |= BEFORE_DOT;
		if (code == '.' && (ps->before & BEFORE_DOT))
			before |= BEFORE_DOTDOT;
		if (code == '.' &&
		    (ps->before & (BEFORE_DOTDOT | BEFORE_OTHER)))
			before |= BEFORE_OTHER;
	}
	add_item(ps, ITEM_LITERAL)->code = code;
	ps->before = before;
	return 0;
}

static int
parse_stars(struct parser *ps)
{
	struct item *it;
	size_t n = 0;

	while (ps->pos < ps->len && ps->in[ps->pos] == '*') {
		ps->pos++;
		n++;
	}
	if (not_glued(ps) == -1)
		return -1;
	if (n == 1) {
		ps->gap[ps->nitems] = GAP_RUN;
		ps->bare = false;
		ps->before = BEFORE_OTHER;
		return 0;
	}
	if (n > 2 || (ps->before & ~(BEFORE_START | BEFORE_SLASH)) != 0) {
		ps->before = BEFORE_STARS;
		return not_glued(ps);
	}
	it = add_item(ps, ITEM_SEGMENTS);
	it->leading = (ps->before & BEFORE_START) != 0;
	ps->gap[ps->nitems] = GAP_ALL;
	ps->before = BEFORE_STARS;
	return 0;
}

static int
parse_class_range(struct parser *ps)
{
	struct range *r = &ps->range[ps->nranges];

	if (take_escaped(ps, &r->low) == -1)
		return -1;
	r->high = r->low;
	if (ps->len - ps->pos >= 2 && ps->in[ps->pos] == '-' &&
	    ps->in[ps->pos + 1] != ']') {
		ps->pos++;
		if (take_escaped(ps, &r->high) == -1)
			return -1;
	}
	if (r->high < r->low)
		return refuse(ps,
		    "a range runs upwards: write [a-z], and a - of its own "
		    "last: [az-]");
	ps->nranges++;
	return 0;
}

/* The opening bracket is behind us. A "]" that comes first is literal. */
static int
parse_class(struct parser *ps)
{
	struct item *it;

	if (not_glued(ps) == -1)
		return -1;
	it = add_item(ps, ITEM_CLASS);
	it->first = (uint16_t)ps->nranges;
	if (ps->pos < ps->len &&
	    (ps->in[ps->pos] == '!' || ps->in[ps->pos] == '^')) {
		it->negated = true;
		ps->pos++;
	}
	do {
		if (ps->pos < ps->len && parse_class_range(ps) == -1)
			return -1;
		if (ps->pos >= ps->len)
			return refuse(ps,
			    "close the class with ], or write \\[ for the "
			    "character itself");
	} while (ps->in[ps->pos] != ']');
	ps->pos++;
	it->count = (uint16_t)(ps->nranges - it->first);
	ps->before = BEFORE_OTHER;
	return 0;
}

static void
parse_open(struct parser *ps)
{
	struct frame *f = &ps->stack[ps->depth++];

	f->open = (uint16_t)ps->nitems;
	f->comma = 0;
	f->before = ps->before;
	f->after = 0;
	add_item(ps, ITEM_OPEN);
	ps->bare = true;
}

static int
parse_alternative_end(struct parser *ps, bool last)
{
	struct frame *f;
	uint16_t at = (uint16_t)ps->nitems, i;

	if (ps->depth == 0)
		return refuse(
		    ps, "a } without {: write \\} for the character itself");
	if (ps->bare)
		return refuse(ps,
		    "an alternative is empty: write two globs, one with the "
		    "part and one without");
	f = &ps->stack[ps->depth - 1];
	f->after |= ps->before;
	if (last) {
		add_item(ps, ITEM_CLOSE);
		for (i = ps->item[f->open].link; i != 0; i = ps->item[i].link)
			ps->item[i].end = at;
		ps->before = f->after;
		ps->depth--;
	} else {
		add_item(ps, ITEM_COMMA);
		ps->item[f->comma != 0 ? f->comma : f->open].link = at;
		f->comma = at;
		ps->before = f->before;
		ps->bare = true;
	}
	return 0;
}

static int
parse_path_item(struct parser *ps)
{
	uint32_t code;

	switch (ps->in[ps->pos]) {
	case '*':
		return parse_stars(ps);
	case '?':
		ps->pos++;
		if (not_glued(ps) == -1)
			return -1;
		add_item(ps, ITEM_ANY);
		ps->before = BEFORE_OTHER;
		return 0;
	case '[':
		ps->pos++;
		return parse_class(ps);
	case '{':
		ps->pos++;
		parse_open(ps);
		return 0;
	case '}':
		ps->pos++;
		return parse_alternative_end(ps, true);
	case ',':
		if (ps->depth == 0)
			break;
		ps->pos++;
		return parse_alternative_end(ps, false);
	default:
		break;
	}
	if (take_escaped(ps, &code) == -1)
		return -1;
	return add_literal(ps, code);
}

static int
parse_path(struct parser *ps)
{
	if (ps->kind == GLOB_FILE && ps->in[0] != '/')
		return refuse(ps,
		    "a file glob is absolute: write it with a leading /, as "
		    "in /srv/data/**");
	ps->before = BEFORE_START;
	while (ps->pos < ps->len)
		if (parse_path_item(ps) == -1)
			return -1;
	if (ps->depth != 0)
		return refuse(ps,
		    "close the brace with }, or write \\{ for the character "
		    "itself");
	return segment_done(ps, true);
}

/*
 * Is the last label a number? Then resolvers take the whole for an IPv4
 * address, however odd it looks ("127.1", "0x7f.1", "2130706433").
 */
static bool
ends_in_number(const char *host, size_t len)
{
	const char *label;
	size_t n, start = len;

	while (start > 0 && host[start - 1] != '.')
		start--;
	label = host + start;
	n = len - start;
	if (n == 0)
		return false;
	if (n >= 2 && label[0] == '0' && label[1] == 'x')
		return strspn(label + 2, "0123456789abcdef") >= n - 2;
	return strspn(label, "0123456789") >= n;
}

/* Is it the one spelling that the system itself prints? */
static bool
is_usual_address(int family, const char *host)
{
	unsigned char raw[sizeof(struct in6_addr)];
	char again[INET6_ADDRSTRLEN];

	if (inet_pton(family, host, raw) != 1)
		return false;
	if (inet_ntop(family, raw, again, sizeof(again)) == NULL)
		return false;
	return strcmp(host, again) == 0;
}

static int
host_lower(struct parser *ps)
{
	static const char name[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
	static const char address[] = "*:[]";
	char c;
	size_t i;

	for (i = 0; i < ps->len; i++) {
		c = (char)ps->in[i];
		if (ps->in[i] >= 0x80)
			return refuse(ps,
			    "write a name that is not ASCII in its xn-- form");
		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		if (c == '/')
			return refuse(ps,
			    "write the host alone, as in api.example.com, "
			    "without scheme and path");
		if (c == '@')
			return refuse(ps,
			    "write the host without user name and password");
		if (c == '%')
			return refuse(ps,
			    "write the address without zone and %; link-local "
			    "addresses cannot be granted");
		if (c == '\0' ||
		    (strchr(name, c) == NULL && strchr(address, c) == NULL))
			return refuse(ps,
			    "a host glob has letters, digits, - _ . and * only: "
			    "write one glob for each host, as in "
			    "*.example.com");
		ps->host[i] = c;
	}
	ps->host[i] = '\0';
	return 0;
}

/* Digits only, no leading zero, 1 to 65535. */
static int
host_port(struct parser *ps, const char *digits)
{
	unsigned long value = 0;
	size_t i, len = strlen(digits);

	if (len >= 1 && len <= 5 && digits[0] != '0' &&
	    strspn(digits, "0123456789") == len)
		for (i = 0; i < len; i++)
			value = value * 10 + (unsigned long)(digits[i] - '0');
	if (value == 0 || value > UINT16_MAX)
		return refuse(ps,
		    "a port is a number from 1 to 65535: write "
		    "example.com:8443, or nothing for the scheme's own");
	ps->port = (uint16_t)value;
	return 0;
}

/* An IPv6 address, in brackets (then perhaps with a port) or bare. */
static int
host_six(struct parser *ps)
{
	char *end;

	if (ps->host[0] == '[') {
		end = strchr(ps->host, ']');
		if (end == NULL || (end[1] != '\0' && end[1] != ':'))
			return refuse(ps,
			    "brackets hold one IPv6 address: write [::1] or "
			    "[::1]:8443; a host glob has no classes");
		if (end[1] == ':' && host_port(ps, end + 2) == -1)
			return -1;
		*end = '\0';
		memmove(ps->host, ps->host + 1, (size_t)(end - ps->host));
	}
	if (!is_usual_address(AF_INET6, ps->host))
		return refuse(ps,
		    "write the IPv6 address in its shortest form, as in "
		    "2001:db8::1, with a port in brackets: [2001:db8::1]:8443");
	ps->address = true;
	return 0;
}

/* Every label of a name; single labels are refused but the two with a sense. */
static int
host_labels(struct parser *ps)
{
	const char *label = ps->host;
	size_t fixed, i, len = strlen(ps->host);

	if (len > HOST_MAX)
		return refuse(ps,
		    "no host name has more than 253 characters: shorten it");
	while (true) {
		i = strcspn(label, ".");
		if (i == 0)
			return refuse(ps,
			    "a label is empty: write one dot between labels "
			    "and none first, as in *.example.com");
		for (fixed = 0; i > 0; i--)
			fixed += label[i - 1] != '*';
		if (fixed > LABEL_MAX)
			return refuse(ps,
			    "no label has more than 63 characters: shorten "
			    "it");
		label += strcspn(label, ".");
		if (*label++ == '\0')
			break;
	}
	if (strstr(ps->host, "**") != NULL)
		return refuse(ps,
		    "write one *: *.example.com matches subdomains at any "
		    "depth");
	if (strchr(ps->host, '.') == NULL && strcmp(ps->host, "*") != 0 &&
	    strcmp(ps->host, "localhost") != 0)
		return refuse(ps,
		    "a single label is no public name: write the full name, "
		    "as in host.example.com");
	return 0;
}

static int
host_name(struct parser *ps)
{
	size_t len = strlen(ps->host);
	bool dot = false;

	if (len > 1 && ps->host[len - 1] == '.') {
		ps->host[--len] = '\0';
		dot = true;
	}
	if (ends_in_number(ps->host, len)) {
		if (dot || !is_usual_address(AF_INET, ps->host))
			return refuse(ps,
			    "write the IPv4 address as four decimal numbers, "
			    "as in 192.0.2.1");
		ps->address = true;
		return 0;
	}
	/* "10.0.0.*" would match names such as 10.0.0.example. */
	if (strspn(ps->host, "0123456789.*") == len &&
	    strpbrk(ps->host, "0123456789") != NULL)
		return refuse(
		    ps, "a * matches no address: write each address in full");
	if (dot && strcmp(ps->host, "*") == 0)
		return refuse(ps, "write * alone for every name");
	return host_labels(ps);
}

/* The items of a checked name: "*." first is one label or more. */
static void
host_items(struct parser *ps)
{
	const char *p = ps->host;

	if (strcmp(p, "*") == 0) {
		ps->gap[0] = GAP_ALL;
		return;
	}
	if (!ps->address && strncmp(p, "*.", 2) == 0) {
		add_item(ps, ITEM_ANY);
		ps->gap[ps->nitems] = GAP_ALL;
		p++;
	}
	for (; *p != '\0'; p++) {
		if (*p == '*')
			ps->gap[ps->nitems] = GAP_RUN;
		else
			add_item(ps, ITEM_LITERAL)->code = (unsigned char)*p;
	}
}

static int
parse_host(struct parser *ps)
{
	char *colon;
	int result;

	if (host_lower(ps) == -1)
		return -1;
	colon = strchr(ps->host, ':');
	if (ps->host[0] == '[' ||
	    (colon != NULL && strchr(colon + 1, ':') != NULL)) {
		result = host_six(ps);
	} else if (strpbrk(ps->host, "[]") != NULL) {
		return refuse(ps,
		    "a host glob has no classes: write one glob for each host");
	} else {
		if (colon != NULL) {
			*colon = '\0';
			if (host_port(ps, colon + 1) == -1)
				return -1;
		}
		result = host_name(ps);
	}
	if (result == 0)
		host_items(ps);
	return result;
}

static bool
class_has(const struct range *range, const struct item *it, uint32_t code)
{
	size_t i;

	for (i = it->first; i < (size_t)it->first + it->count; i++)
		if (code >= range[i].low && code <= range[i].high)
			return !it->negated;
	return it->negated;
}

/* Can this item read that code point? A separator is read by itself only. */
static bool
item_takes(const struct range *range, const struct item *it, uint32_t code,
    char separator)
{
	switch (it->kind) {
	case ITEM_LITERAL:
		return it->code == code;
	case ITEM_ANY:
	case ITEM_SEGMENTS:
		return code != (unsigned char)separator;
	case ITEM_CLASS:
		return code != (unsigned char)separator &&
		       class_has(range, it, code);
	case ITEM_OPEN:
	case ITEM_COMMA:
	case ITEM_CLOSE:
	case ITEM_END:
		break;
	}
	return false;
}

static void
set_bit(uint64_t *set, size_t i)
{
	set[i / WORD_BITS] |= (uint64_t)1 << (i % WORD_BITS);
}

static void
clear_bit(uint64_t *set, size_t i)
{
	set[i / WORD_BITS] &= ~((uint64_t)1 << (i % WORD_BITS));
}

static bool
has_bit(const uint64_t *set, size_t i)
{
	return (set[i / WORD_BITS] >> (i % WORD_BITS) & 1) != 0;
}

static const uint64_t *
mask_of(const struct program *pg, size_t which)
{
	return pg->mask + which * pg->nwords;
}

/* The sets that do not depend on what is read. */
static void
fill_masks(const struct parser *ps, uint64_t *mask, size_t nwords)
{
	size_t i;

	for (i = 0; i <= ps->nitems; i++) {
		if (ps->gap[i] != GAP_NOTHING)
			set_bit(mask + MASK_RUN * nwords, i);
		if (ps->gap[i] == GAP_ALL)
			set_bit(mask + MASK_ALL * nwords, i);
		switch (ps->item[i].kind) {
		case ITEM_LITERAL:
			set_bit(mask + MASK_LITERAL * nwords, i);
			if (ps->item[i].code >= ASCII)
				set_bit(mask + MASK_ASK * nwords, i);
			break;
		case ITEM_SEGMENTS:
			set_bit(mask + MASK_EMPTY * nwords, i);
			set_bit(mask + MASK_WIDE * nwords, i);
			break;
		case ITEM_ANY:
			set_bit(mask + MASK_WIDE * nwords, i);
			break;
		case ITEM_CLASS:
			set_bit(mask + MASK_ASK * nwords, i);
			break;
		case ITEM_OPEN:
		case ITEM_COMMA:
		case ITEM_CLOSE:
			set_bit(mask + MASK_EMPTY * nwords, i);
			break;
		case ITEM_END:
			break;
		}
	}
}

/* One row for each different answer to "which items take this character?" */
static size_t
fill_rows(const struct parser *ps, char separator, uint8_t row[ASCII],
    uint64_t *rows, size_t nwords)
{
	uint64_t *next;
	size_t c, i, r, nrows = 0;

	for (c = 0; c < ASCII; c++) {
		next = rows + nrows * nwords;
		memset(next, 0, nwords * sizeof(*next));
		for (i = 0; i < ps->nitems; i++)
			if (item_takes(ps->range, &ps->item[i], (uint32_t)c,
				separator))
				set_bit(next, i);
		for (r = 0; r < nrows; r++)
			if (memcmp(rows + r * nwords, next,
				nwords * sizeof(*next)) == 0)
				break;
		if (r == nrows)
			nrows++;
		row[c] = (uint8_t)r;
	}
	return nrows;
}

/* Leave a brace or comma without reading anything. */
static void
pass_brace(const struct item *item, size_t i, uint64_t *set)
{
	size_t comma;

	if (item[i].kind == ITEM_COMMA) {
		set_bit(set, (size_t)item[i].end + 1);
		return;
	}
	set_bit(set, i + 1);
	if (item[i].kind == ITEM_OPEN)
		for (comma = item[i].link; comma != 0; comma = item[comma].link)
			set_bit(set, comma + 1);
}

/* The ways out of state i that read nothing; zero as in settle(). */
static void
pass(const struct item *item, size_t i, uint64_t *set, uint64_t *zero)
{
	switch (item[i].kind) {
	case ITEM_OPEN:
	case ITEM_COMMA:
	case ITEM_CLOSE:
		if (has_bit(set, i))
			pass_brace(item, i, set);
		if (has_bit(zero, i))
			pass_brace(item, i, zero);
		break;
	case ITEM_SEGMENTS:
		set_bit(zero, i + 1);
		if (item[i].leading)
			set_bit(set, i + 1);
		break;
	case ITEM_LITERAL:
		/* The parser lets nothing but a slash follow a "**". */
		if (item[i].code == '/')
			set_bit(set, i + 1);
		break;
	case ITEM_ANY:
	case ITEM_CLASS:
	case ITEM_END:
		break;
	}
}

/*
 * Add every state that is reached without reading. All such steps lead
 * upwards, so one pass in ascending order finds them all, each once. A "**"
 * that stands for no segment must swallow the slash behind it, perhaps
 * behind braces: until then the state lives in the second set, "zero".
 */
static void
settle(const struct item *item, const uint64_t *empty, size_t nwords,
    uint64_t *set)
{
	uint64_t zero[WORDS_MAX] = {0}, above, bit, todo;
	size_t w;

	for (w = 0; w < nwords; w++) {
		above = UINT64_MAX;
		while ((todo = ((set[w] & empty[w]) | zero[w]) & above) != 0) {
			bit = todo & (~todo + 1);
			above = ~(bit | (bit - 1));
			pass(item,
			    w * WORD_BITS + (size_t)__builtin_ctzll(todo), set,
			    zero);
		}
	}
}

/* Can a match stand here other than by way of an empty item? */
static bool
is_entered(const struct parser *ps, size_t i)
{
	if (i == 0 || ps->gap[i] != GAP_NOTHING)
		return true;
	switch (ps->item[i - 1].kind) {
	case ITEM_LITERAL:
	case ITEM_ANY:
	case ITEM_CLASS:
	case ITEM_SEGMENTS:
		return true;
	case ITEM_OPEN:
	case ITEM_COMMA:
	case ITEM_CLOSE:
	case ITEM_END:
		break;
	}
	return false;
}

/*
 * The states that state i leads to: those where something can be read, or
 * stay. Not itself, so that all commas of a brace share one row. The last word
 * that is not zero.
 */
static size_t
find_onward(const struct parser *ps, size_t i, const uint64_t *mask,
    size_t nwords, uint64_t *row)
{
	const uint64_t *empty = mask + MASK_EMPTY * nwords;
	size_t j, last = 0;

	memset(row, 0, nwords * sizeof(*row));
	set_bit(row, i);
	settle(ps->item, empty, nwords, row);
	clear_bit(row, i);
	for (j = i; j <= ps->nitems; j++) {
		if (has_bit(empty, j) && ps->gap[j] == GAP_NOTHING &&
		    ps->item[j].kind != ITEM_SEGMENTS)
			clear_bit(row, j);
		if (has_bit(row, j))
			last = j / WORD_BITS;
	}
	return last;
}

/* Such a row for each empty item that a match can come to. */
static size_t
fill_onward(
    struct parser *ps, const uint64_t *mask, uint64_t *rows, size_t nwords)
{
	uint64_t *next;
	size_t i, last, r, nrows = 0;

	for (i = 0; i < ps->nitems; i++) {
		if (!has_bit(mask + MASK_EMPTY * nwords, i) ||
		    !is_entered(ps, i))
			continue;
		next = rows + nrows * nwords;
		last = find_onward(ps, i, mask, nwords, next);
		for (r = 0; r < nrows; r++)
			if (memcmp(rows + r * nwords, next,
				nwords * sizeof(*next)) == 0)
				break;
		if (r == nrows)
			nrows++;
		ps->item[i].onward = (uint16_t)r;
		ps->item[i].onward_last = (uint16_t)last;
	}
	return nrows;
}

static void
program_free(struct program *pg)
{
	if (pg == NULL)
		return;
	free(pg->item);
	free(pg->range);
	free(pg->mask);
	free(pg);
}

static void *
copy_of(const void *from, size_t count, size_t size)
{
	void *to;

	to = calloc(count != 0 ? count : 1, size);
	if (to != NULL && count != 0)
		memcpy(to, from, count * size);
	return to;
}

static struct program *
program_new(struct parser *ps, char separator)
{
	/* Built in full size first: most patterns need a dozen rows. */
	size_t nwords = ps->nitems / WORD_BITS + 1, nrows = MASK_ROWS;
	struct program *pg = NULL;
	uint64_t *mask;

	mask = calloc(
	    (MASK_ROWS + ASCII + ps->nitems + 1) * nwords, sizeof(*mask));
	if (mask == NULL)
		return NULL;
	pg = calloc(1, sizeof(*pg));
	if (pg == NULL)
		goto out;
	fill_masks(ps, mask, nwords);
	nrows +=
	    fill_rows(ps, separator, pg->row, mask + nrows * nwords, nwords);
	pg->onward = nrows;
	nrows += fill_onward(ps, mask, mask + nrows * nwords, nwords);
	pg->nitems = ps->nitems;
	pg->nwords = nwords;
	pg->item = copy_of(ps->item, ps->nitems + 1, sizeof(*ps->item));
	pg->range = copy_of(ps->range, ps->nranges, sizeof(*ps->range));
	pg->mask = copy_of(mask, nrows * nwords, sizeof(*mask));
	if (pg->item == NULL || pg->range == NULL || pg->mask == NULL) {
		program_free(pg);
		pg = NULL;
	}
out:
	free(mask);
	return pg;
}

/* Add what the states in the set lead to without reading. */
static void
follow(const struct program *pg, uint64_t *set)
{
	const uint64_t *empty = mask_of(pg, MASK_EMPTY), *row;
	uint64_t found[WORDS_MAX] = {0}, used[WORDS_MAX] = {0}, todo;
	const struct item *it;
	size_t v, w;

	/* What was found by one row was followed by that row already. */
	for (w = 0; w < pg->nwords; w++) {
		todo = set[w] & empty[w] & ~found[w];
		for (; todo != 0; todo = (todo & (todo - 1)) & ~found[w]) {
			it = &pg->item[w * WORD_BITS +
				       (size_t)__builtin_ctzll(todo)];
			if (has_bit(used, it->onward))
				continue;
			set_bit(used, it->onward);
			row = mask_of(pg, pg->onward + it->onward);
			for (v = w; v <= it->onward_last; v++) {
				set[v] |= row[v];
				found[v] |= row[v];
			}
		}
	}
}

/* Read one code point with the items in row, or stay where stay allows it. */
static bool
advance(const struct program *pg, uint64_t *set, const uint64_t *row,
    const uint64_t *stay)
{
	const uint64_t *empty = mask_of(pg, MASK_EMPTY);
	uint64_t alive = 0, carry = 0, hit, next, open = 0;
	size_t w;

	for (w = 0; w < pg->nwords; w++) {
		hit = set[w] & row[w];
		next = (hit << 1) | carry | (set[w] & stay[w]);
		carry = hit >> (WORD_BITS - 1);
		set[w] = next;
		alive |= next;
		open |= next & empty[w];
	}
	if (open != 0)
		follow(pg, set);
	return alive != 0;
}

static bool
advance_wide(
    const struct program *pg, uint64_t *set, uint32_t code, char separator)
{
	const uint64_t *wide = mask_of(pg, MASK_WIDE);
	const uint64_t *ask = mask_of(pg, MASK_ASK);
	uint64_t row[WORDS_MAX], todo;
	size_t i, w;

	for (w = 0; w < pg->nwords; w++) {
		row[w] = wide[w];
		for (todo = set[w] & ask[w]; todo != 0; todo &= todo - 1) {
			i = w * WORD_BITS + (size_t)__builtin_ctzll(todo);
			if (item_takes(
				pg->range, &pg->item[i], code, separator))
				set_bit(row, i);
		}
	}
	return advance(pg, set, row, mask_of(pg, MASK_RUN));
}

/* Does a component begin here that only its own name can match? */
static bool
is_reserved(const unsigned char *s, size_t len)
{
	if (len < 4 || (len > 4 && s[4] != '/'))
		return false;
	return memcmp(s, ".git", 4) == 0 || memcmp(s, ".ssh", 4) == 0;
}

/*
 * Read a reserved component: by literal items only, and no gap may stay. So
 * what is alive behind it came through the letters of the pattern.
 */
static bool
advance_spelled(const struct program *pg, uint64_t *set, const unsigned char *s)
{
	const uint64_t *literal = mask_of(pg, MASK_LITERAL), *row;
	uint64_t spelled[WORDS_MAX];
	size_t i, w;

	for (i = 0; i < 4; i++) {
		row = mask_of(pg, (size_t)MASK_ROWS + pg->row[s[i]]);
		for (w = 0; w < pg->nwords; w++)
			spelled[w] = row[w] & literal[w];
		if (!advance(pg, set, spelled, mask_of(pg, MASK_NONE)))
			return false;
	}
	return true;
}

/*
 * Read text, which begins with a segment, with the states in set (one, and
 * what it leads to). Is one left that could go on?
 */
static bool
program_read(const struct program *pg, char separator, size_t state,
    const char *text, size_t len, uint64_t set[WORDS_MAX])
{
	const unsigned char *s = (const unsigned char *)text;
	uint32_t code;
	size_t i, n;
	bool alive = true;

	set_bit(set, state);
	follow(pg, set);
	for (i = 0; i < len && alive; i += n) {
		if (separator == '/' && (i == 0 || s[i - 1] == '/') &&
		    is_reserved(s + i, len - i)) {
			n = 4;
			alive = advance_spelled(pg, set, s + i);
			continue;
		}
		n = utf8_take(s + i, len - i, &code);
		if (n == 0)
			return false;
		if (code >= ASCII)
			alive = advance_wide(pg, set, code, separator);
		else
			alive = advance(pg, set,
			    mask_of(pg, (size_t)MASK_ROWS + pg->row[code]),
			    mask_of(pg, s[i] == (unsigned char)separator
					    ? MASK_ALL
					    : MASK_RUN));
	}
	return alive;
}

static bool
program_run(const struct program *pg, char separator, size_t state,
    const char *text, size_t len)
{
	uint64_t set[WORDS_MAX] = {0};

	return program_read(pg, separator, state, text, len, set) &&
	       has_bit(set, pg->nitems);
}

static bool
glob_matches(const struct glob *g, char separator, const char *text, size_t len)
{
	if (len < g->lead_len || memcmp(text, g->lead, g->lead_len) != 0)
		return false;
	if (g->program == NULL)
		return len == g->lead_len;
	return program_run(g->program, separator, g->start_item,
	    text + g->start, len - g->start);
}

/* text ends in a separator: could more behind it make a match? */
static bool
glob_goes_on(const struct glob *g, char separator, const char *text, size_t len)
{
	uint64_t set[WORDS_MAX] = {0};

	if (len <= g->lead_len)
		return memcmp(text, g->lead, len) == 0 &&
		       (len < g->lead_len || g->program != NULL);
	return g->program != NULL &&
	       memcmp(text, g->lead, g->lead_len) == 0 &&
	       program_read(g->program, separator, g->start_item,
		   text + g->start, len - g->start, set);
}

static size_t
utf8_put(uint32_t code, char *to)
{
	size_t i, n;

	if (code < 0x80) {
		*to = (char)code;
		return 1;
	}
	n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	for (i = n; i-- > 1; code >>= 6)
		to[i] = (char)(0x80u | (code & 0x3fu));
	to[0] = (char)((0xf00u >> n & 0xffu) | code);
	return n;
}

/*
 * The literal start of the pattern. Matching begins at its last separator,
 * not behind it, so that a component is always seen whole.
 */
static int
glob_lead(struct glob *g, struct parser *ps, char separator)
{
	size_t i;

	/* Never longer than the pattern: escapes only get shorter. */
	g->lead = calloc(1, ps->len + 1);
	if (g->lead == NULL)
		return -1;
	for (i = 0; i < ps->nitems; i++) {
		if (ps->gap[i] != GAP_NOTHING ||
		    ps->item[i].kind != ITEM_LITERAL)
			break;
		g->lead_len +=
		    utf8_put(ps->item[i].code, g->lead + g->lead_len);
		if (ps->item[i].code == (unsigned char)separator) {
			g->start = g->lead_len;
			g->start_item = i + 1;
		}
	}
	if (i == ps->nitems && ps->gap[i] == GAP_NOTHING)
		return 0;
	g->program = program_new(ps, separator);
	return g->program != NULL ? 0 : -1;
}

static void
glob_clear(struct glob *g)
{
	free(g->text);
	free(g->lead);
	program_free(g->program);
	memset(g, 0, sizeof(*g));
}

struct glob_set *
glob_set_new(enum glob_kind kind)
{
	struct glob_set *set;

	set = calloc(1, sizeof(*set));
	if (set == NULL)
		return NULL;
	set->kind = kind;
	set->separator = kind == GLOB_DOMAIN ? '.' : '/';
	return set;
}

void
glob_set_free(struct glob_set *set)
{
	size_t i;

	if (set == NULL)
		return;
	for (i = 0; i < set->count; i++)
		glob_clear(&set->glob[i]);
	free(set->glob);
	free(set);
}

static int
parse(struct parser *ps, const char *pattern, size_t len, enum glob_kind kind)
{
	ps->in = (const unsigned char *)pattern;
	ps->len = len;
	ps->kind = kind;
	if (len == 0)
		return refuse(
		    ps, "an empty glob matches nothing: leave it out");
	if (len > GLOB_PATTERN_MAX)
		return refuse(ps,
		    "a glob has at most 1,024 bytes: write several shorter "
		    "ones");
	if ((kind == GLOB_DOMAIN ? parse_host(ps) : parse_path(ps)) == -1)
		return -1;
	ps->item[ps->nitems] = (struct item){.kind = ITEM_END};
	return 0;
}

static int
make_room(struct glob_set *set)
{
	struct glob *more;
	size_t room;

	if (set->count == GLOB_SET_MAX) {
		errno = E2BIG;
		return -1;
	}
	if (set->count < set->room)
		return 0;
	room = set->room != 0 ? set->room * 2 : 8;
	more = recallocarray(set->glob, set->room, room, sizeof(*more));
	if (more == NULL)
		return -1;
	set->glob = more;
	set->room = room;
	return 0;
}

int
glob_set_add(
    struct glob_set *set, const char *pattern, size_t len, const char **why)
{
	struct parser *ps = NULL;
	struct glob g = {0};
	int result = -1;

	if (make_room(set) == -1)
		goto out;
	ps = malloc(sizeof(*ps));
	if (ps == NULL)
		goto out;
	memset(ps, 0, offsetof(struct parser, item));
	ps->gap[0] = GAP_NOTHING;
	if (parse(ps, pattern, len, set->kind) == -1) {
		*why = ps->why;
		goto out;
	}
	g.port = ps->port;
	g.address = ps->address;
	g.text = strndup(pattern, len);
	if (g.text == NULL || glob_lead(&g, ps, set->separator) == -1) {
		glob_clear(&g);
		goto out;
	}
	set->glob[set->count++] = g;
	result = 0;
out:
	free(ps);
	return result;
}

size_t
glob_set_count(const struct glob_set *set)
{
	return set->count;
}

const char *
glob_set_pattern(const struct glob_set *set, size_t i)
{
	return i < set->count ? set->glob[i].text : NULL;
}

bool
glob_match_path(const struct glob_set *set, const char *path, size_t len)
{
	size_t i;

	if (set->kind == GLOB_DOMAIN)
		return false;
	for (i = 0; i < set->count; i++)
		if (glob_matches(&set->glob[i], set->separator, path, len))
			return true;
	return false;
}

bool
glob_set_reaches(const struct glob_set *set, const char *dir, size_t len)
{
	char text[PATH_MAX + 1];
	size_t i;

	if (set->kind == GLOB_DOMAIN || len >= PATH_MAX)
		return false;
	memcpy(text, dir, len);
	if (len > 0 || set->kind == GLOB_FILE)
		text[len++] = set->separator;
	for (i = 0; i < set->count; i++)
		if (glob_goes_on(&set->glob[i], set->separator, text, len))
			return true;
	return false;
}

/* Letters, digits, - and _ in labels that are neither empty nor too long. */
static bool
is_host_name(const char *host, size_t len)
{
	size_t i, label = 0;

	if (len == 0 || len > HOST_MAX)
		return false;
	for (i = 0; i < len; i++) {
		if (host[i] == '.') {
			if (label == 0)
				return false;
			label = 0;
			continue;
		}
		if (!(host[i] >= 'a' && host[i] <= 'z') &&
		    !(host[i] >= '0' && host[i] <= '9') && host[i] != '-' &&
		    host[i] != '_')
			return false;
		if (++label > LABEL_MAX)
			return false;
	}
	return label != 0;
}

bool
glob_match_host(const struct glob_set *set, const char *host, size_t len,
    uint16_t port, bool default_port)
{
	const struct glob *g;
	char name[HOST_MAX + 1];
	size_t i;
	bool address;

	if (set->kind != GLOB_DOMAIN || port == 0 || len > HOST_MAX)
		return false;
	memcpy(name, host, len);
	name[len] = '\0';
	address = strchr(name, ':') != NULL || ends_in_number(name, len);
	if (!address && !is_host_name(name, len))
		return false;
	for (i = 0; i < set->count; i++) {
		g = &set->glob[i];
		if (g->address != address)
			continue;
		if (g->port != 0 ? g->port != port : !default_port)
			continue;
		if (glob_matches(g, set->separator, name, len))
			return true;
	}
	return false;
}

size_t
glob_set_prefix(const struct glob_set *set, size_t i)
{
	const char *text;
	size_t meta, whole;

	if (set->kind == GLOB_DOMAIN || i >= set->count)
		return 0;
	text = set->glob[i].text;
	meta = strcspn(text, "*?[{\\");
	if (text[meta] == '\0')
		return meta;
	for (whole = meta; whole > 0 && text[whole] != '/'; whole--)
		continue;
	return whole;
}
