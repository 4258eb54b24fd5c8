/*
 * tools/match: what is found without the expression's own engine is what the
 * engine finds, and nothing takes long.
 */

#include "tools/match.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <stdint.h>
#include <time.h>

#include "t/unit/tap.h"

static uint64_t state = 88172645463325252ULL;

static unsigned
random_below(unsigned n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 33) % n;
}

/* Does it match, and where, by the library alone? */
static bool
plainly(
    const char *pattern, bool literal, bool fold, const char *line, size_t *at)
{
	uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF |
			   (literal ? PCRE2_LITERAL : PCRE2_UCP) |
			   (fold ? PCRE2_CASELESS : 0);
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);
	pcre2_code *code;
	PCRE2_SIZE where;
	int error, got;

	code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
	    options, &error, &where, NULL);
	if (code == NULL) {
		pcre2_match_data_free(data);
		return false;
	}
	got =
	    pcre2_match(code, (PCRE2_SPTR)line, strlen(line), 0, 0, data, NULL);
	if (got >= 0)
		*at = pcre2_get_ovector_pointer(data)[0];
	pcre2_code_free(code);
	pcre2_match_data_free(data);
	return got >= 0;
}

/* The first line of a text that matches, its offset, and where in it. */
static bool
found(struct match *m, const char *text, size_t *line, size_t *at)
{
	size_t pos = 0, len = strlen(text), from, to;
	bool cut;

	match_forget(m);
	while (pos < len) {
		from = match_candidate(m, text, pos, len);
		if (from >= len)
			return false;
		while (from > pos && text[from - 1] != '\n')
			from--;
		to = from + strcspn(text + from, "\n");
		if (match_line(m, text + from, to - from, at, &cut) ==
		    MATCH_YES) {
			*line = from;
			return true;
		}
		pos = to + 1;
	}
	return false;
}

static bool
found_plainly(const char *pattern, bool literal, bool fold, const char *text,
    size_t *line, size_t *at)
{
	char one[256];
	size_t pos = 0, n;

	while (text[pos] != '\0') {
		n = strcspn(text + pos, "\n");
		memcpy(one, text + pos, n);
		one[n] = '\0';
		if (plainly(pattern, literal, fold, one, at)) {
			*line = pos;
			return true;
		}
		pos += n + (text[pos + n] == '\n');
	}
	return false;
}

static void
random_text(char *out, size_t size)
{
	static const char *const bits[] = {"a", "b", "k", "s", "K", "S", "A",
	    "B", "\xe2\x84\xaa", "\xc5\xbf", "\xc3\xa9", "\xc3\x89", "\xff",
	    "\n", " ", "1", "ab", "ask"};
	unsigned n = random_below(24);

	out[0] = '\0';
	while (n-- > 0)
		strlcat(out, bits[random_below(18)], size);
}

static void
random_pattern(char *out, size_t size)
{
	static const char *const bits[] = {"a", "b", "k", "s", "ab", "ask", "a",
	    "b", "A", "\xc3\xa9", "\xe2\x84\xaa", ".", "a*", "b+", "k?", "(ab)",
	    "(?:a|b)", "[ab]", "[^a]", "[]a]", "\\.", "\\d", "\\w", "a{2}",
	    "b{0,2}", "\\x61", "^", "$", "|", "(?i)", "\\Qa\\E", "a{",
	    "(a(b)\\))?", "\\bs", "[[:alpha:]]b", "s*?", "(a[)]b)*",
	    "\xc3\xa9?"};
	unsigned n = 1 + random_below(5);

	out[0] = '\0';
	while (n-- > 0)
		strlcat(out, bits[random_below(38)], size);
}

static void
test_random(void)
{
	char text[256], pattern[256];
	size_t line = 0, at = 0, line2 = 0, at2 = 0;
	unsigned tries, bad = 0, hits = 0, valid = 0;
	bool literal, fold, a, b;
	struct match *m;

	for (tries = 0; tries < 60000; tries++) {
		literal = random_below(4) == 0;
		fold = random_below(2) == 0;
		random_pattern(pattern, sizeof(pattern));
		m = match_new(pattern, literal, fold);
		if (m == NULL)
			continue;
		valid++;
		random_text(text, sizeof(text));
		a = found(m, text, &line, &at);
		b = found_plainly(pattern, literal, fold, text, &line2, &at2);
		hits += b;
		if ((a != b || (a && (line != line2 || at != at2))) &&
		    bad++ < 5)
			printf("# %s literal %d fold %d in <%s>: %d %zu %zu, "
			       "not %d %zu %zu\n",
			    pattern, literal, fold, text, a, line, at, b, line2,
			    at2);
		match_free(m);
	}
	is_int(bad, 0, "what is found fast is what the library finds");
	ok(hits > 5000 && valid > 40000, "enough was found (%u in %u)", hits,
	    valid);
}

static double
own_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* On a line of 100 kB, and on one of 60 bytes. */
static void
test_hostile(void)
{
	static const char *const patterns[] = {"(a+)+$", "^(a|a)*b", "(a*)*b",
	    ".+[0-9]", "\\w+\\s", "(x+x+)+y", "(a|aa)+$",
	    ".{0,1000}.{0,900}[0-9]", "(?:a?){30}a{30}b", "((a*)*)*[0-9]",
	    "(?=(a+))*b", "^(?:(?:a+)+)+\\d", "(?R)?a+b", "(.*)(.*)(.*)1"};
	size_t n = 100000, i, at;
	char *line = malloc(n);
	unsigned slow = 0;
	struct match *m;
	double begun, took;
	bool cut;

	memset(line, 'a', n);
	for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		m = match_new(patterns[i], false, false);
		if (m == NULL)
			continue;
		begun = own_ms();
		match_line(m, line, n, &at, &cut);
		match_line(m, line, 60, &at, &cut);
		took = own_ms() - begun;
		if (took > 1500 && slow++ < 5)
			printf("# %s: %.0f ms\n", patterns[i], took);
		match_free(m);
	}
	is_int(slow, 0, "no expression takes long on a line");
	m = match_new("(a+)+$", false, false);
	is_int(match_line(m, line, n, &at, &cut), MATCH_TOO_COMPLEX,
	    "(a+)+$ on 100 kB is too complex, not no");
	ok(cut, "a long line is cut, and that is told");
	match_free(m);
	m = match_new("b", false, false);
	line[n - 1] = 'b';
	ok(match_line(m, line, n, &at, &cut) == MATCH_YES && at == n - 1 &&
		!cut,
	    "a text is found in all of a long line");
	match_free(m);
	free(line);
}

static void
test_refused(void)
{
	static const char *const patterns[] = {"(", "[a", "a**", "\\C", "(?<n",
	    "(.*){1,32000}x", "(((a{1,500}){1,500}){1,500}){1,500}", "*"};
	unsigned taken = 0;
	size_t i;

	for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		struct match *m = match_new(patterns[i], false, false);

		if (m != NULL || errno != EINVAL)
			printf("# %s\n", patterns[i]), taken++;
		match_free(m);
	}
	is_int(
	    taken, 0, "what is no expression, or too large a one, is EINVAL");
}

int
main(void)
{
	test_random();
	test_hostile();
	test_refused();
	return done();
}
