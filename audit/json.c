/*
 * JSON at the border. Every byte that a skill or an upstream server calls JSON
 * goes through the scanner here before cJSON may build a tree from it, so that
 * two readers of one text can never see two different values: no duplicate
 * name, no cut string, no number that changes on its way. Against a hostile
 * writer it keeps to bounded depth, a bounded number of values, and time of at
 * most n log n, whatever the names look like. The other way, what this file
 * prints is always valid JSON, and the canonical form is one text for one
 * value, since hashes stand for it.
 */

#include "audit/json.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_FIRST 32 /* names that need no heap */
#define FEW 16	       /* so many are sorted or compared in place */
#define EXACT_MAX 9007199254740992.0 /* 2^53 */
#define DIGITS_MAX 17		     /* enough for any double */

/* A member name between its quotes; with escaped, escapes are to be read. */
struct name {
	const char *p;
	size_t len;
	bool escaped;
};

struct scan {
	const char *start;
	const char *p;
	const char *end;
	const char *why;
	size_t items;
	unsigned depth;
	bool rpc;
	bool root_array;
	bool no_memory;
	struct name *names; /* of all objects that are still open */
	size_t nnames;
	size_t names_size;
	struct name first[NAMES_FIRST];
};

static bool scan_value(struct scan *, bool);
static int put_value(struct buf *, const cJSON *, unsigned);

/* Characters. */

/* The length of the valid UTF-8 character at p, or 0. n is at least 1. */
static size_t
utf8_char(const char *p, size_t n)
{
	const unsigned char *u = (const unsigned char *)p;
	unsigned char low = 0x80, high = 0xbf;
	size_t i, len;

	if (u[0] < 0x80)
		return 1;
	if (u[0] < 0xc2 || u[0] > 0xf4)
		return 0;
	len = u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
	if (n < len)
		return 0;
	/* The second byte tells overlong forms, surrogates and the end. */
	if (u[0] == 0xe0)
		low = 0xa0;
	else if (u[0] == 0xed)
		high = 0x9f;
	else if (u[0] == 0xf0)
		low = 0x90;
	else if (u[0] == 0xf4)
		high = 0x8f;
	if (u[1] < low || u[1] > high)
		return 0;
	for (i = 2; i < len; i++)
		if ((u[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

bool
json_is_utf8(const char *s, size_t len)
{
	const uint64_t tops = UINT64_C(0x8080808080808080);
	uint64_t word;
	size_t i = 0, n;

	while (i < len) {
		if (len - i >= sizeof(word)) {
			memcpy(&word, s + i, sizeof(word));
			if ((word & tops) == 0) {
				i += sizeof(word);
				continue;
			}
		}
		n = utf8_char(s + i, len - i);
		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

size_t
json_utf8_points(const char *s, size_t len)
{
	size_t i, n = 0;

	for (i = 0; i < len; i++)
		n += ((unsigned char)s[i] & 0xc0) != 0x80;
	return n;
}

size_t
json_utf8_cut(const char *s, size_t len, size_t max)
{
	size_t back, n;

	if (len <= max)
		return len;
	for (back = 1; back <= 3 && back <= max; back++) {
		n = utf8_char(s + max - back, len - (max - back));
		if (n != 0)
			return n > back ? max - back : max;
	}
	return max;
}

/*
 * The first byte that a string cannot hold as it is, or a non-ASCII one. Eight
 * at a time while there is none: each difference has the highest bit of a byte
 * only where that is smaller than ' ', '"' or '\\', or one below it was.
 */
static const char *
skip_plain(const char *p, const char *end)
{
	const uint64_t each = 0x0101010101010101U;
	uint64_t x;
	unsigned char c;

	for (; end - p >= 8; p += 8) {
		memcpy(&x, p, sizeof(x));
		if (((x | (x - each * ' ') | ((x ^ each * '"') - each) |
			 ((x ^ each * '\\') - each)) &
			each * 0x80) != 0)
			break;
	}
	for (; p < end; p++) {
		c = (unsigned char)*p;
		if (c < 0x20 || c == '"' || c == '\\' || c >= 0x80)
			break;
	}
	return p;
}

static const char *
skip_blank(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

static bool
is_digit(const char *p, const char *end)
{
	return p < end && *p >= '0' && *p <= '9';
}

/* Four hexadecimal digits at p. */
static bool
read_hex4(const char *p, const char *end, uint32_t *value)
{
	uint32_t v = 0;
	int i;

	if (end - p < 4)
		return false;
	for (i = 0; i < 4; i++) {
		if (p[i] >= '0' && p[i] <= '9')
			v = v << 4 | (uint32_t)(p[i] - '0');
		else if (p[i] >= 'a' && p[i] <= 'f')
			v = v << 4 | (uint32_t)(p[i] - 'a' + 10);
		else if (p[i] >= 'A' && p[i] <= 'F')
			v = v << 4 | (uint32_t)(p[i] - 'A' + 10);
		else
			return false;
	}
	*value = v;
	return true;
}

/* Names. */

/* Read the escape at p, which the scanner has accepted. */
static const char *
unescape(const char *p, const char *end, uint32_t *value)
{
	static const char plain[] = "bfnrt", means[] = "\b\f\n\r\t";
	const char *found;
	uint32_t low;

	if (end - p < 2) {
		*value = '\\';
		return end;
	}
	if (p[1] != 'u' || !read_hex4(p + 2, end, value)) {
		found = memchr(plain, p[1], sizeof(plain) - 1);
		*value = (unsigned char)p[1];
		if (found != NULL)
			*value = (unsigned char)means[found - plain];
		return p + 2;
	}
	p += 6;
	if (*value >= 0xd800 && *value <= 0xdbff && end - p >= 6 &&
	    read_hex4(p + 2, end, &low)) {
		*value = 0x10000 + ((*value - 0xd800) << 10) + (low & 0x3ff);
		p += 6;
	}
	return p;
}

/* Take the next character off a name that is not empty. */
static uint32_t
name_next(struct name *n)
{
	const unsigned char *u = (const unsigned char *)n->p;
	const char *next;
	uint32_t value;
	size_t i, len;

	if (n->escaped && *n->p == '\\') {
		next = unescape(n->p, n->p + n->len, &value);
	} else {
		len = utf8_char(n->p, n->len);
		if (len <= 1) {
			/* What is no character equals none. */
			value = len == 1 ? u[0] : 0x110000U + u[0];
			len = 1;
		} else {
			value = u[0] & (0xffU >> (len + 1));
			for (i = 1; i < len; i++)
				value = value << 6 | (u[i] & 0x3f);
		}
		next = n->p + len;
	}
	n->len -= (size_t)(next - n->p);
	n->p = next;
	return value;
}

/*
 * By code points of what the names mean. For names without escapes that is the
 * order of the bytes, so the two ways of comparing make one order.
 */
static int
name_cmp(const void *va, const void *vb)
{
	struct name a = *(const struct name *)va;
	struct name b = *(const struct name *)vb;
	uint32_t ca, cb;
	int diff;

	if (!a.escaped && !b.escaped) {
		diff = memcmp(a.p, b.p, a.len < b.len ? a.len : b.len);
		if (diff != 0)
			return diff;
		return (a.len > b.len) - (a.len < b.len);
	}
	while (a.len > 0 && b.len > 0) {
		ca = name_next(&a);
		cb = name_next(&b);
		if (ca != cb)
			return ca < cb ? -1 : 1;
	}
	return (a.len > 0) - (b.len > 0);
}

static bool
name_equal(const struct name *a, const struct name *b)
{
	if (!a->escaped && !b->escaped)
		return a->len == b->len && memcmp(a->p, b->p, a->len) == 0;
	return name_cmp(a, b) == 0;
}

/* The scanner. */

static bool
refuse(struct scan *s, const char *why)
{
	s->why = why;
	return false;
}

static bool
refuse_memory(struct scan *s)
{
	s->no_memory = true;
	return refuse(s, "out of memory");
}

static bool
push_name(struct scan *s, const struct name *name)
{
	struct name *grown;
	size_t size = s->names_size * 2;

	if (s->nnames == s->names_size) {
		if (s->names == s->first) {
			grown = reallocarray(NULL, size, sizeof(*grown));
			if (grown != NULL)
				memcpy(grown, s->first, sizeof(s->first));
		} else {
			grown = reallocarray(s->names, size, sizeof(*grown));
		}
		if (grown == NULL)
			return refuse_memory(s);
		s->names = grown;
		s->names_size = size;
	}
	s->names[s->nnames++] = *name;
	return true;
}

/*
 * Are the names from base on all different? Then forget them. Comparing each
 * with each is for a few; many are sorted, by a sort that is n log n for any
 * input.
 */
static bool
names_unique(struct scan *s, size_t base)
{
	struct name *v = s->names + base;
	size_t i, j, n = s->nnames - base;

	if (n > FEW && mergesort(v, n, sizeof(*v), name_cmp) == -1)
		return refuse_memory(s);
	for (i = 1; i < n; i++) {
		for (j = n > FEW ? i - 1 : 0; j < i; j++) {
			if (name_equal(&v[i], &v[j])) {
				s->p = v[i].p > v[j].p ? v[i].p : v[j].p;
				return refuse(s, "duplicate name");
			}
		}
	}
	s->nnames = base;
	return true;
}

static bool
scan_escape(struct scan *s)
{
	uint32_t high, low;

	if (s->end - s->p < 2)
		return refuse(s, "string without end");
	if (s->p[1] != 'u') {
		if (memchr("\"\\/bfnrt", s->p[1], 8) == NULL)
			return refuse(s, "unknown escape");
		s->p += 2;
		return true;
	}
	if (!read_hex4(s->p + 2, s->end, &high))
		return refuse(s, "bad \\u escape");
	if (high == 0)
		return refuse(s, "escaped NUL");
	if (high < 0xd800 || high > 0xdfff) {
		s->p += 6;
		return true;
	}
	if (high > 0xdbff || s->end - s->p < 12 || s->p[6] != '\\' ||
	    s->p[7] != 'u' || !read_hex4(s->p + 8, s->end, &low) ||
	    low < 0xdc00 || low > 0xdfff)
		return refuse(s, "lone surrogate");
	s->p += 12;
	return true;
}

/* The string whose opening quote is at p. */
static bool
scan_string(struct scan *s, struct name *out)
{
	struct name n = {s->p + 1, 0, false};
	size_t len;

	s->p++;
	for (;;) {
		s->p = skip_plain(s->p, s->end);
		if (s->p == s->end)
			return refuse(s, "string without end");
		if (*s->p == '"')
			break;
		if (*s->p == '\\') {
			n.escaped = true;
			if (!scan_escape(s))
				return false;
			continue;
		}
		if ((unsigned char)*s->p < 0x20)
			return refuse(s, "control character in a string");
		len = utf8_char(s->p, (size_t)(s->end - s->p));
		if (len == 0)
			return refuse(s, "invalid UTF-8");
		s->p += len;
	}
	n.len = (size_t)(s->p - n.p);
	s->p++;
	*out = n;
	return true;
}

/* Is the integer, which has no leading zero, at most 2^53? */
static bool
integer_exact(const char *p, size_t len)
{
	static const char most[] = "9007199254740992";

	if (*p == '-') {
		p++;
		len--;
	}
	if (len != sizeof(most) - 1)
		return len < sizeof(most) - 1;
	return memcmp(p, most, len) <= 0;
}

/* The value of exponent digits, far beyond any use at 10^17. */
static int64_t
read_exponent(const char *p, const char *end)
{
	int64_t value = 0;
	bool minus = p < end && *p == '-';

	if (p < end && (*p == '-' || *p == '+'))
		p++;
	for (; p < end; p++)
		if (value < INT64_C(100000000000000000))
			value = value * 10 + (*p - '0');
	return minus ? -value : value;
}

/*
 * Does the number, whose grammar is right, fit a double? Nearly always the
 * place of its first digit says so. In the one decade where it does not, the
 * digits before the point decide: the border is an integer of 309 digits. The
 * text given to strtod has no decimal point, which a locale could change.
 */
static bool
number_fits(const char *p, const char *end)
{
	char digits[DBL_MAX_10_EXP + 2];
	int64_t place = 0; /* of the point, counted from the first digit */
	size_t n = 0;
	bool fraction = false;

	for (; p < end && *p != 'e' && *p != 'E'; p++) {
		if (*p == '.') {
			fraction = true;
		} else if (*p == '0' && n == 0) {
			place -= fraction ? 1 : 0;
		} else if (*p != '-') {
			place += fraction ? 0 : 1;
			if (n < sizeof(digits) - 1)
				digits[n++] = *p;
		}
	}
	if (n == 0)
		return true;
	if (p < end)
		place += read_exponent(p + 1, end);
	if (place != DBL_MAX_10_EXP + 1)
		return place <= DBL_MAX_10_EXP;
	memset(digits + n, '0', sizeof(digits) - 1 - n);
	digits[sizeof(digits) - 1] = '\0';
	return isfinite(strtod(digits, NULL));
}

static bool
scan_number(struct scan *s, bool any_size)
{
	const char *p = s->p, *end = s->end, *start = s->p;
	bool integer = true;

	if (*p == '-')
		p++;
	if (!is_digit(p, end))
		return refuse(s, "bad number");
	if (*p == '0')
		p++;
	else
		while (is_digit(p, end))
			p++;
	if (p < end && *p == '.') {
		integer = false;
		if (!is_digit(++p, end))
			return refuse(s, "bad number");
		while (is_digit(p, end))
			p++;
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		integer = false;
		p++;
		if (p < end && (*p == '+' || *p == '-'))
			p++;
		if (!is_digit(p, end))
			return refuse(s, "bad number");
		while (is_digit(p, end))
			p++;
	}
	if (integer && !any_size && !integer_exact(start, (size_t)(p - start)))
		return refuse(s, "integer beyond 2^53");
	if (!integer && !number_fits(start, p))
		return refuse(s, "number out of range");
	s->p = p;
	return true;
}

static bool
scan_word(struct scan *s, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(s->end - s->p) < len || memcmp(s->p, word, len) != 0)
		return refuse(s, "unknown word");
	s->p += len;
	return true;
}

/* Step over the opening bracket and the blanks after it. */
static bool
scan_enter(struct scan *s)
{
	if (s->depth == JSON_DEPTH_MAX)
		return refuse(s, "nested too deep");
	s->depth++;
	s->p = skip_blank(s->p + 1, s->end);
	return true;
}

/* After a value: a comma (more comes) or the closing bracket. */
static bool
scan_more(struct scan *s, char close, bool *more)
{
	s->p = skip_blank(s->p, s->end);
	if (s->p == s->end)
		return refuse(s, "text ends too early");
	if (*s->p != close && *s->p != ',')
		return refuse(s, "comma or closing bracket expected");
	*more = *s->p == ',';
	s->p++;
	if (*more)
		s->p = skip_blank(s->p, s->end);
	return true;
}

static bool
scan_array(struct scan *s)
{
	bool more = true;

	if (!scan_enter(s))
		return false;
	if (s->depth == 1)
		s->root_array = true;
	if (s->p < s->end && *s->p == ']') {
		s->p++;
		more = false;
	}
	while (more)
		if (!scan_value(s, false) || !scan_more(s, ']', &more))
			return false;
	s->depth--;
	return true;
}

static bool
scan_object(struct scan *s)
{
	static const struct name id = {"id", 2, false};
	struct name name = {NULL, 0, false};
	size_t base = s->nnames;
	bool more = true, request;

	if (!scan_enter(s))
		return false;
	request = s->rpc && (s->depth == 1 || (s->depth == 2 && s->root_array));
	if (s->p < s->end && *s->p == '}') {
		s->p++;
		more = false;
	}
	while (more) {
		if (s->p == s->end || *s->p != '"')
			return refuse(s, "name expected");
		if (!scan_string(s, &name) || !push_name(s, &name))
			return false;
		s->p = skip_blank(s->p, s->end);
		if (s->p == s->end || *s->p != ':')
			return refuse(s, "colon expected");
		s->p = skip_blank(s->p + 1, s->end);
		if (!scan_value(s, request && name_equal(&name, &id)) ||
		    !scan_more(s, '}', &more))
			return false;
	}
	s->depth--;
	return names_unique(s, base);
}

/* Recursion ends in scan_enter, at JSON_DEPTH_MAX. */
static bool
scan_value(struct scan *s, bool any_size)
{
	struct name ignored;

	if (s->p == s->end)
		return refuse(s, "value expected");
	if (s->items == JSON_ITEMS_MAX)
		return refuse(s, "too many values");
	s->items++;
	switch (*s->p) {
	case '{':
		return scan_object(s);
	case '[':
		return scan_array(s);
	case '"':
		return scan_string(s, &ignored);
	case 't':
		return scan_word(s, "true");
	case 'f':
		return scan_word(s, "false");
	case 'n':
		return scan_word(s, "null");
	default:
		if (*s->p != '-' && !is_digit(s->p, s->end))
			return refuse(s, "value expected");
		return scan_number(s, any_size);
	}
}

static bool
scan_text(struct scan *s)
{
	if (s->end - s->p >= 3 && memcmp(s->p, "\xef\xbb\xbf", 3) == 0)
		return refuse(s, "byte order mark");
	s->p = skip_blank(s->p, s->end);
	if (!scan_value(s, false))
		return false;
	s->p = skip_blank(s->p, s->end);
	if (s->p != s->end)
		return refuse(s, "text after the value");
	return true;
}

bool
json_scan(const char *text, size_t len, bool rpc, const char **why, size_t *at)
{
	struct scan s;
	bool good;

	/* Member by member: most of the structure needs no first value. */
	s.start = s.p = len == 0 ? "" : text;
	s.end = s.start + len;
	s.why = NULL;
	s.items = s.nnames = 0;
	s.depth = 0;
	s.rpc = rpc;
	s.root_array = s.no_memory = false;
	s.names = s.first;
	s.names_size = NAMES_FIRST;

	good = scan_text(&s);
	if (s.names != s.first)
		freezero(s.names, s.names_size * sizeof(*s.names));
	if (good)
		return true;
	if (why != NULL)
		*why = s.why;
	if (at != NULL)
		*at = (size_t)(s.p - s.start);
	errno = s.no_memory ? ENOMEM : EINVAL;
	return false;
}

cJSON *
json_parse(const char *text, size_t len, bool rpc)
{
	cJSON *tree;

	if (!json_scan(text, len, rpc, NULL, NULL))
		return NULL;
	errno = 0;
	tree = cJSON_ParseWithLength(text, len);
	if (tree == NULL && errno != ENOMEM)
		errno = EINVAL;
	return tree;
}

/* Walking a text that the scanner has accepted; never beyond its end. */

static const char *
skip_string(const char *p, const char *end)
{
	for (p++; (p = skip_plain(p, end)) < end && *p != '"'; p++)
		if (*p == '\\' && end - p > 1)
			p++;
	return p < end ? p + 1 : end;
}

static const char *
skip_value(const char *p, const char *end)
{
	size_t depth = 0;

	while (p < end) {
		if (*p == '"') {
			p = skip_string(p, end);
		} else if (*p == '[' || *p == '{') {
			depth++;
			p++;
		} else if (*p == ']' || *p == '}') {
			if (depth > 0)
				depth--;
			p++;
		} else if (depth > 0) {
			p++;
			continue;
		} else {
			while (p < end && *p != ',' && *p != ']' && *p != '}' &&
			    skip_blank(p, p + 1) == p)
				p++;
		}
		if (depth == 0)
			break;
	}
	return p;
}

bool
json_member(
    const char *text, size_t len, const char *name, struct json_span *value)
{
	const char *p, *end, *next;
	struct name want = {name, strlen(name), false}, have;

	if (len == 0)
		return false;
	end = text + len;
	p = skip_blank(text, end);
	if (p == end || *p != '{')
		return false;
	do {
		p = skip_blank(p + 1, end);
		if (p == end || *p != '"')
			return false;
		next = skip_string(p, end);
		if (next - p < 2)
			return false;
		have.p = p + 1;
		have.len = (size_t)(next - p) - 2;
		have.escaped = memchr(have.p, '\\', have.len) != NULL;
		p = skip_blank(next, end);
		if (p == end || *p != ':')
			return false;
		p = skip_blank(p + 1, end);
		next = skip_value(p, end);
		if (name_equal(&have, &want)) {
			value->p = p;
			value->len = (size_t)(next - p);
			return true;
		}
		p = skip_blank(next, end);
	} while (p < end && *p == ',');
	return false;
}

const char *
json_member_text(const cJSON *object, const char *name)
{
	const char *s = cJSON_GetStringValue(
	    cJSON_GetObjectItemCaseSensitive(object, name));

	return s == NULL ? "" : s;
}

bool
json_text_of(
    const char *text, size_t len, const char *name, char *out, size_t size)
{
	struct json_span v;

	out[0] = '\0';
	if (!json_member(text, len, name, &v) || v.len < 2 || v.p[0] != '"' ||
	    v.len - 2 >= size || memchr(v.p, '\\', v.len) != NULL)
		return false;
	memcpy(out, v.p + 1, v.len - 2);
	out[v.len - 2] = '\0';
	return true;
}

bool
json_uint_of(const char *text, size_t len, const char *name, uint64_t *out)
{
	struct json_span v;
	uint64_t n = 0;
	size_t i;

	*out = 0;
	if (!json_member(text, len, name, &v) || v.len == 0 || v.len > 18)
		return false;
	for (i = 0; i < v.len; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return false;
		n = n * 10 + (uint64_t)(v.p[i] - '0');
	}
	*out = n;
	return true;
}

bool
json_element(const char *text, size_t len, struct json_span *at)
{
	const char *p, *end, *next;

	if (len == 0)
		return false;
	end = text + len;
	p = skip_blank(at->p == NULL ? text : at->p + at->len, end);
	if (p == end || *p != (at->p == NULL ? '[' : ','))
		return false;
	p = skip_blank(p + 1, end);
	if (p == end || *p == ']')
		return false;
	next = skip_value(p, end);
	if (next == p)
		return false;
	at->p = p;
	at->len = (size_t)(next - p);
	return true;
}

/* Numbers. */

struct decimal {
	char digits[DIGITS_MAX]; /* d.ddd, as values 0 to 9 */
	int n;
	int exponent; /* of the first digit */
};

/* Without a decimal point in the text, no locale has a say. */
static bool
reads_back(const struct decimal *d, double want)
{
	char text[DIGITS_MAX + 16];
	int i;

	for (i = 0; i < d->n; i++)
		text[i] = (char)('0' + d->digits[i]);
	snprintf(text + d->n, sizeof(text) - (size_t)d->n, "e%d",
	    d->exponent - (d->n - 1));
	return strtod(text, NULL) == want;
}

/* The decimal of n digits that is nearest to value, which is positive. */
static void
nearest(double value, int n, struct decimal *d)
{
	char text[DIGITS_MAX + 32];
	const char *p;

	snprintf(text, sizeof(text), "%.*e", n - 1, value);
	d->n = 0;
	/* Whatever the locale puts between the digits is not one. */
	for (p = text; *p != 'e' && *p != '\0'; p++)
		if (*p >= '0' && *p <= '9' && d->n < n)
			d->digits[d->n++] = (char)(*p - '0');
	d->exponent = *p == 'e' ? (int)strtol(p + 1, NULL, 10) : 0;
}

/* The next larger decimal of as many digits. */
static void
increment(struct decimal *d)
{
	int i;

	for (i = d->n - 1; i >= 0 && d->digits[i] == 9; i--)
		d->digits[i] = 0;
	if (i >= 0) {
		d->digits[i]++;
	} else {
		d->digits[0] = 1;
		d->exponent++;
	}
}

/*
 * The least number of digits that reads back as the same value. Any decimal of
 * 15 digits survives a normal double, so fewer need not be tried. Below a power
 * of two doubles stand closer than above it: there the nearest decimal can fail
 * to read back while the one above it does.
 */
static void
shortest(double value, struct decimal *d)
{
	int exponent, n;
	bool power = frexp(value, &exponent) == 0.5;

	for (n = value < DBL_MIN ? 1 : DBL_DIG; n < DIGITS_MAX; n++) {
		nearest(value, n, d);
		if (reads_back(d, value))
			break;
		if (power) {
			increment(d);
			if (reads_back(d, value))
				break;
		}
	}
	if (n == DIGITS_MAX)
		nearest(value, n, d);
	while (d->n > 1 && d->digits[d->n - 1] == 0)
		d->n--;
}

/* Place the point as ECMAScript does. text has room for 40 bytes. */
static size_t
layout(const struct decimal *d, char *text)
{
	int i, point = d->exponent + 1;
	bool plain = point > -6 && point <= 21;
	size_t len = 0;

	if (!plain)
		point = 1;
	if (point <= 0) {
		text[len++] = '0';
		text[len++] = '.';
		for (i = point; i < 0; i++)
			text[len++] = '0';
	}
	for (i = 0; i < d->n || i < point; i++) {
		if (i == point && i > 0)
			text[len++] = '.';
		text[len++] = (char)(i < d->n ? '0' + d->digits[i] : '0');
	}
	if (!plain)
		len += (size_t)snprintf(text + len, 8, "e%+d", d->exponent);
	return len;
}

static size_t
layout_integer(uint64_t value, char *text)
{
	char reversed[24];
	size_t i, len = 0;

	do {
		reversed[len++] = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	for (i = 0; i < len; i++)
		text[i] = reversed[len - 1 - i];
	return len;
}

int
json_put_number(struct buf *b, double value)
{
	char text[48];
	struct decimal d;
	double size = fabs(value);
	size_t len = 0;

	if (!isfinite(value)) {
		b->failed = true;
		errno = EDOM;
		return -1;
	}
	if (value < 0)
		text[len++] = '-';
	if (size <= EXACT_MAX && size == (double)(uint64_t)size) {
		len += layout_integer((uint64_t)size, text + len);
	} else {
		shortest(size, &d);
		len += layout(&d, text + len);
	}
	return buf_put(b, text, len);
}

/* Strings. */

static int
put_escape(struct buf *b, char c)
{
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
	static const char hex[] = "0123456789abcdef";
	char text[6] = {'\\', 'u', '0', '0'};
	const char *found = memchr(from, c, sizeof(from) - 1);

	if ((unsigned char)c >= 0x80)
		return buf_put(b, "\xef\xbf\xbd", 3);
	if (found != NULL) {
		text[1] = to[found - from];
		return buf_put(b, text, 2);
	}
	text[4] = hex[(unsigned char)c >> 4];
	text[5] = hex[c & 15];
	return buf_put(b, text, 6);
}

int
json_put_string(struct buf *b, const char *s, size_t len)
{
	const char *p, *end, *run;
	size_t n, start = b->len;

	if (len == 0)
		return buf_put(b, "\"\"", 2);
	end = s + len;
	if (buf_putc(b, '"') == -1)
		goto out;
	for (p = run = s;; run = p) {
		for (;;) {
			p = skip_plain(p, end);
			if (p == end || (unsigned char)*p < 0x80)
				break;
			n = utf8_char(p, (size_t)(end - p));
			if (n == 0)
				break;
			p += n;
		}
		if (buf_put(b, run, (size_t)(p - run)) == -1)
			goto out;
		if (p == end)
			break;
		if (put_escape(b, *p++) == -1)
			goto out;
	}
	if (buf_putc(b, '"') == -1)
		goto out;
	return 0;
out:
	b->len = start;
	return -1;
}

/* The canonical form. */

/*
 * RFC 8785 sorts by UTF-16 code units. In UTF-8 that is the order of the bytes,
 * but for what is written as surrogates: it comes before U+E000 to U+FFFF.
 */
static int
utf16_cmp(const char *a, const char *b)
{
	unsigned char ca, cb;

	while (*a != '\0' && *a == *b) {
		a++;
		b++;
	}
	ca = (unsigned char)*a;
	cb = (unsigned char)*b;
	if (ca >= 0xee && cb >= 0xee && (ca >= 0xf0) != (cb >= 0xf0))
		return ca >= 0xf0 ? -1 : 1;
	return (ca > cb) - (ca < cb);
}

static int
member_cmp(const void *a, const void *b)
{
	return utf16_cmp((*(const cJSON *const *)a)->string,
	    (*(const cJSON *const *)b)->string);
}

static int
sort_members(const cJSON **v, size_t n)
{
	const cJSON *moved;
	size_t i, j;

	/* mergesort is n log n for any names, but always allocates. */
	if (n > FEW)
		return mergesort(v, n, sizeof(*v), member_cmp);
	for (i = 1; i < n; i++) {
		moved = v[i];
		for (j = i; j > 0 && member_cmp(&v[j - 1], &moved) > 0; j--)
			v[j] = v[j - 1];
		v[j] = moved;
	}
	return 0;
}

static int
put_members(struct buf *b, const cJSON **v, size_t n, unsigned depth)
{
	size_t i;

	if (sort_members(v, n) == -1 || buf_putc(b, '{') == -1)
		return -1;
	for (i = 0; i < n; i++) {
		if (i > 0 && member_cmp(&v[i - 1], &v[i]) == 0) {
			errno = EINVAL;
			return -1;
		}
		if ((i > 0 && buf_putc(b, ',') == -1) ||
		    json_put_string(b, v[i]->string, strlen(v[i]->string)) ==
			-1 ||
		    buf_putc(b, ':') == -1 || put_value(b, v[i], depth) == -1)
			return -1;
	}
	return buf_putc(b, '}');
}

static int
put_object(struct buf *b, const cJSON *object, unsigned depth)
{
	const cJSON *few[FEW], **v = few, *member;
	size_t n = 0;
	int result;

	cJSON_ArrayForEach (member, object) {
		if (member->string == NULL) {
			errno = EINVAL;
			return -1;
		}
		n++;
	}
	if (n > FEW) {
		v = calloc(n, sizeof(const cJSON *));
		if (v == NULL)
			return -1;
	}
	n = 0;
	cJSON_ArrayForEach (member, object)
		v[n++] = member;
	result = put_members(b, v, n, depth);
	if (v != few)
		free(v);
	return result;
}

static int
put_array(struct buf *b, const cJSON *array, unsigned depth)
{
	const cJSON *element;

	if (buf_putc(b, '[') == -1)
		return -1;
	cJSON_ArrayForEach (element, array) {
		if ((element != array->child && buf_putc(b, ',') == -1) ||
		    put_value(b, element, depth) == -1)
			return -1;
	}
	return buf_putc(b, ']');
}

/* Recursion ends at depth 0. */
static int
put_value(struct buf *b, const cJSON *item, unsigned depth)
{
	switch (item->type & 0xff) {
	case cJSON_False:
		return buf_put(b, "false", 5);
	case cJSON_True:
		return buf_put(b, "true", 4);
	case cJSON_NULL:
		return buf_put(b, "null", 4);
	case cJSON_Number:
		return json_put_number(b, item->valuedouble);
	case cJSON_String:
		if (item->valuestring == NULL)
			break;
		return json_put_string(
		    b, item->valuestring, strlen(item->valuestring));
	case cJSON_Array:
		if (depth == 0)
			break;
		return put_array(b, item, depth - 1);
	case cJSON_Object:
		if (depth == 0)
			break;
		return put_object(b, item, depth - 1);
	default:
		break;
	}
	errno = EINVAL;
	return -1;
}

int
json_canonical(const cJSON *item, struct buf *b)
{
	size_t start = b->len;

	if (item == NULL) {
		b->failed = true;
		errno = EINVAL;
		return -1;
	}
	if (put_value(b, item, JSON_DEPTH_MAX) == -1) {
		b->len = start;
		b->failed = true;
		return -1;
	}
	return 0;
}
