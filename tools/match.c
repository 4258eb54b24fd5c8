/*
 * Looking for a text or an expression in lines, against patterns and files
 * that were made to keep us busy. A text is found in linear time. For an
 * expression the interpreter of PCRE2 is used, without code made at run time,
 * so that the process needs no memory that is both written and executed; what
 * that costs is mostly won back by first looking for a text that every match
 * must hold. Its limits are counted anew at each place where a match may
 * begin, so a line is given to it in pieces of few such places, with a look at
 * the clock in between.
 */

#include "tools/match.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEPS_MAX 200000     /* of one match at one place */
#define HEAP_MAX (16 * 1024) /* KiB */
#define PATTERN_MAX 4096
#define TROUBLE_PLACES 8192 /* more than a pattern has bytes */
#define PLACES 32     /* where a match may begin, between looks at the clock */
#define LINE_MS 100   /* of our own time, for one line */
#define NEEDLE_MAX 32 /* of a text that every match holds */
#define CASE 0x20     /* the bit in which the cases of a letter differ */

/* So many bytes at once; the compiler knows what the machine has for it. */
typedef unsigned char block __attribute__((vector_size(16)));

/* A byte of the needle, at this place in it; with the bits of its fold set. */
struct mark {
	size_t place;
	unsigned char byte, fold;
};

struct match {
	char *needle;
	size_t needle_len;
	bool fold;   /* of the needle, which is then in lower case */
	bool exact;  /* a line that holds the needle matches, no other does */
	struct mark rare[2]; /* what is looked for in a text */
	const uint8_t *first; /* bits of the bytes that a match begins with */
	pcre2_code *code;
	pcre2_match_data *data;
	pcre2_match_context *context;
};

/* --- the text that every match holds --- */

struct needle {
	char best[NEEDLE_MAX];
	size_t best_len;
	char run[NEEDLE_MAX];
	size_t run_len;
	bool fold;
};

static void
end_run(struct needle *n)
{
	if (n->run_len > n->best_len) {
		memcpy(n->best, n->run, n->run_len);
		n->best_len = n->run_len;
	}
	n->run_len = 0;
}

/* Beyond ASCII, the cases of k and s have relatives. */
static bool
is_plain(unsigned char c, bool fold)
{
	return !fold || (c < 0x80 && strchr("kKsS", c) == NULL);
}

static void
add_byte(struct needle *n, char c)
{
	if (n->run_len == NEEDLE_MAX || !is_plain((unsigned char)c, n->fold))
		end_run(n);
	if (is_plain((unsigned char)c, n->fold))
		n->run[n->run_len++] =
		    n->fold ? (char)tolower((unsigned char)c) : c;
}

/* The last character may be missing: it ends before it. */
static void
drop_last(struct needle *n)
{
	while (n->run_len > 0 &&
	       ((unsigned char)n->run[n->run_len - 1] & 0xc0) == 0x80)
		n->run_len--;
	if (n->run_len > 0)
		n->run_len--;
	end_run(n);
}

/* The end of a class that begins at p, or NULL for one that is too clever. */
static const char *
skip_class(const char *p)
{
	p++;
	if (*p == '^')
		p++;
	if (*p == ']')
		p++;
	for (; *p != '\0' && *p != ']'; p++) {
		if (*p == '[' && strchr(":.=", p[1]) != NULL)
			return NULL;
		if (*p == '\\' && *++p == '\0')
			return NULL;
	}
	return *p == ']' ? p : NULL;
}

/* The end of a group: what it holds is not looked at. */
static const char *
skip_group(const char *p)
{
	size_t depth = 0;

	for (; *p != '\0'; p++) {
		if (*p == '\\') {
			if (*++p == '\0')
				return NULL;
		} else if (*p == '[') {
			p = skip_class(p);
			if (p == NULL)
				return NULL;
		} else if (*p == '(') {
			if (p[1] == '?' && p[2] != ':')
				return NULL;
			depth++;
		} else if (*p == ')' && --depth == 0) {
			return p;
		}
	}
	return NULL;
}

static const char *
skip_quantifier(struct needle *n, const char *p)
{
	const char *end;

	if (*p == '+')
		end_run(n);
	else
		drop_last(n);
	if (*p == '{' && (end = strchr(p, '}')) != NULL)
		p = end;
	if (p[1] == '?' || p[1] == '+')
		p++;
	return p;
}

/* A backslash and what follows. NULL: something that we do not know. */
static const char *
take_escape(struct needle *n, const char *p)
{
	unsigned char c = (unsigned char)*++p;

	if (c == '\0' || c >= 0x80)
		return NULL;
	if (!isalnum(c)) {
		add_byte(n, (char)c);
		return p;
	}
	if (strchr("wWdDsSbBAzZhHvVRXnrtefa", c) == NULL)
		return NULL;
	end_run(n);
	return p;
}

/*
 * The longest text that is certainly part of every match of an expression;
 * none where anything is not perfectly simple: what is missed here only costs
 * time, what is wrongly found would hide matches.
 */
static void
find_needle(struct needle *n, const char *pattern)
{
	const char *p;

	if (strstr(pattern, "(*") != NULL || strstr(pattern, "\\Q") != NULL)
		return;
	for (p = pattern; *p != '\0'; p++) {
		if (*p == '|' || *p == ')')
			goto none;
		if (*p == '(' || *p == '[') {
			end_run(n);
			p = *p == '(' ? skip_group(p) : skip_class(p);
		} else if (strchr("*?+{", *p) != NULL) {
			p = skip_quantifier(n, p);
		} else if (*p == '\\') {
			p = take_escape(n, p);
		} else if (strchr(".^$", *p) != NULL) {
			end_run(n);
		} else {
			add_byte(n, *p);
		}
		if (p == NULL)
			goto none;
	}
	end_run(n);
	return;
none:
	n->best_len = 0;
}

/* Does a text stand for itself, and is a line that holds it a match? */
static bool
is_exact(const char *pattern, bool literal, bool fold)
{
	const char *p;

	if (!literal && strpbrk(pattern, "\\^$.[|()?*+{") != NULL)
		return false;
	for (p = pattern; *p != '\0'; p++) {
		if (*p == '\n' || *p == '\r' ||
		    !is_plain((unsigned char)*p, fold))
			return false;
	}
	return !fold || (size_t)(p - pattern) <= NEEDLE_MAX;
}

/* The rarer a byte is in what people write, the further. */
static size_t
rarity(unsigned char c)
{
	static const char common[] = " etaoinsrhldcumfpgwybvkxjqz";
	const char *at = c == '\0' ? NULL : strchr(common, c);

	return at == NULL ? sizeof(common) : (size_t)(at - common);
}

static unsigned char
fold_bits(const struct match *m, size_t place)
{
	char c = m->needle[place];

	return m->fold && c >= 'a' && c <= 'z' ? CASE : 0;
}

/* The rarest byte of the needle but the one at this place. */
static struct mark
rarest(const struct match *m, size_t but)
{
	size_t i, best = but == 0 && m->needle_len > 1;

	for (i = 0; i < m->needle_len; i++) {
		if (i != but &&
		    rarity((unsigned char)m->needle[i]) >
			rarity((unsigned char)m->needle[best]))
			best = i;
	}
	return (struct mark){best, (unsigned char)m->needle[best],
	    fold_bits(m, best)};
}

static int
set_needle(struct match *m, const char *pattern, bool literal, bool fold)
{
	struct needle n = {.fold = fold};
	const char *p;

	m->exact = is_exact(pattern, literal, fold);
	m->fold = fold;
	if (literal) {
		for (p = pattern; *p != '\0'; p++)
			add_byte(&n, *p);
		end_run(&n);
	} else {
		find_needle(&n, pattern);
	}
	if (m->exact && !fold) {
		m->needle_len = strlen(pattern);
		m->needle = strdup(pattern);
	} else {
		m->needle_len = n.best_len;
		m->needle = strndup(n.best, n.best_len);
	}
	if (m->needle == NULL)
		return -1;
	if (m->needle_len > 0) {
		m->rare[0] = rarest(m, SIZE_MAX);
		m->rare[1] = rarest(m, m->rare[0].place);
	}
	return 0;
}

/* --- the expression --- */

static int
compile(struct match *m, const char *pattern, bool literal, bool fold, int *trouble)
{
	uint32_t options =
	    PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_USE_OFFSET_LIMIT;
	pcre2_compile_context *how = pcre2_compile_context_create(NULL);
	PCRE2_SIZE where;
	int error;

	if (how == NULL)
		goto memory;
	options |=
	    literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
	if (fold)
		options |= PCRE2_CASELESS;
	pcre2_set_max_pattern_length(how, PATTERN_MAX);
	pcre2_set_newline(how, PCRE2_NEWLINE_LF);
	m->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
	    options, &error, &where, how);
	pcre2_compile_context_free(how);
	if (m->code == NULL) {
		errno = error == PCRE2_ERROR_HEAP_FAILED ? ENOMEM : EINVAL;
		*trouble = -(error * TROUBLE_PLACES + (int)where);
		return -1;
	}
	pcre2_pattern_info(m->code, PCRE2_INFO_FIRSTBITMAP, &m->first);
	m->context = pcre2_match_context_create(NULL);
	m->data = pcre2_match_data_create(1, NULL);
	if (m->context == NULL || m->data == NULL)
		goto memory;
	pcre2_set_match_limit(m->context, STEPS_MAX);
	pcre2_set_depth_limit(m->context, STEPS_MAX);
	pcre2_set_heap_limit(m->context, HEAP_MAX);
	return 0;
memory:
	errno = ENOMEM;
	return -1;
}

struct match *
match_new(const char *pattern, bool literal, bool fold, int *trouble)
{
	struct match *m = calloc(1, sizeof(*m));
	int saved, found = 0;

	if (m == NULL)
		return NULL;
	if (set_needle(m, pattern, literal, fold) == 0 &&
	    (m->exact || compile(m, pattern, literal, fold, &found) == 0))
		return m;
	saved = errno;
	match_free(m);
	if (trouble != NULL)
		*trouble = found;
	errno = saved;
	return NULL;
}

void
match_trouble(int trouble, char *out, size_t size)
{
	unsigned n = 0U - (unsigned)trouble;
	char text[200] = "";

	pcre2_get_error_message((int)(n / TROUBLE_PLACES), (PCRE2_UCHAR *)text,
	    sizeof(text));
	snprintf(out, size, "%s (byte %u)", text, n % TROUBLE_PLACES);
}

void
match_free(struct match *m)
{
	if (m == NULL)
		return;
	if (m->needle != NULL)
		freezero(m->needle, m->needle_len);
	pcre2_match_data_free(m->data);
	pcre2_match_context_free(m->context);
	pcre2_code_free(m->code);
	free(m);
}

/* --- looking --- */

static bool
holds_needle(const struct match *m, const char *text)
{
	size_t i;

	for (i = 0; i < m->needle_len; i++) {
		if (((unsigned char)text[i] | fold_bits(m, i)) !=
		    (unsigned char)m->needle[i])
			return false;
	}
	return true;
}

/* Which of the places from here on have this byte where the needle has it? */
static block
compare(const char *text, const struct mark *mark)
{
	block b;

	memcpy(&b, text + mark->place, sizeof(b));
	return (block)((b | mark->fold) == mark->byte);
}

static bool
is_zero(block b)
{
	uint64_t half[2];

	memcpy(half, &b, sizeof(half));
	return (half[0] | half[1]) == 0;
}

/* Two bytes of the needle at once, which is seldom wrong, and then all of it. */
static size_t
find_needle_in(const struct match *m, const char *text, size_t from, size_t len)
{
	size_t last, i;
	block both;

	if (len < m->needle_len)
		return len;
	last = len - m->needle_len;
	for (; from <= last; from += sizeof(both)) {
		if (last - from < sizeof(both))
			break;
		both = compare(text + from, &m->rare[0]) &
		    compare(text + from, &m->rare[1]);
		if (is_zero(both))
			continue;
		for (i = 0; i < sizeof(both); i++) {
			if (both[i] != 0 && holds_needle(m, text + from + i))
				return from + i;
		}
	}
	for (; from <= last; from++) {
		if (holds_needle(m, text + from))
			return from;
	}
	return len;
}

size_t
match_candidate(
    const struct match *m, const char *text, size_t from, size_t len)
{
	const char *p;
	unsigned char c;

	if (m->needle_len == 0 && m->first == NULL)
		return from;
	if (m->needle_len == 0) {
		for (; from < len; from++) {
			c = (unsigned char)text[from];
			if ((m->first[c / 8] >> (c % 8) & 1) != 0)
				break;
		}
		return from;
	}
	if (m->needle_len <= NEEDLE_MAX)
		return find_needle_in(m, text, from, len);
	/* Whoever chose needle and text could make that slow. */
	p = memmem(text + from, len - from, m->needle, m->needle_len);
	return p == NULL ? len : (size_t)(p - text);
}

static int64_t
now_ms(clockid_t which)
{
	struct timespec t;

	if (clock_gettime(which, &t) == -1)
		return INT64_MAX;
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The cheap clock is asked first; the machine's other work is not ours. */
struct stopwatch {
	bool runs;
	int64_t began;
	int64_t own;
};

/* From the first time that it is asked. */
static bool
is_late(struct stopwatch *w)
{
	if (!w->runs) {
		w->runs = true;
		w->began = now_ms(CLOCK_MONOTONIC);
		w->own = now_ms(CLOCK_THREAD_CPUTIME_ID);
	}
	return now_ms(CLOCK_MONOTONIC) - w->began >= LINE_MS &&
	       now_ms(CLOCK_THREAD_CPUTIME_ID) - w->own >= LINE_MS;
}

static enum match_result
match_expression(
    struct match *m, const char *line, size_t len, uint32_t options, size_t *at)
{
	struct stopwatch watch = {.runs = false};
	size_t from = 0, upto;
	int got;

	for (;;) {
		upto = len - from > PLACES ? from + PLACES : len;
		pcre2_set_offset_limit(m->context, upto);
		got = pcre2_match(m->code, (PCRE2_SPTR)line, len, from, options,
		    m->data, m->context);
		if (got >= 0) {
			*at = pcre2_get_ovector_pointer(m->data)[0];
			return MATCH_YES;
		}
		if (got != PCRE2_ERROR_NOMATCH)
			return MATCH_TOO_COMPLEX;
		if (upto == len)
			return MATCH_NO;
		if (is_late(&watch))
			return MATCH_TOO_COMPLEX;
		/* No match begins within a character. */
		for (from = upto + 1;
		     from < len && ((unsigned char)line[from] & 0xc0) == 0x80;
		     from++)
			continue;
	}
}

enum match_result
match_line(struct match *m, const char *line, size_t len, size_t *at, bool *cut)
{
	uint32_t options = 0;
	size_t found;

	*cut = false;
	if (m->exact) {
		found = match_candidate(m, line, 0, len);
		*at = found;
		return found < len ? MATCH_YES : MATCH_NO;
	}
	if (len > MATCH_LINE_MAX) {
		/* Where we cut there is no end of a line. */
		len = MATCH_LINE_MAX;
		options = PCRE2_NOTEOL;
		*cut = true;
	}
	return match_expression(m, line, len, options, at);
}
