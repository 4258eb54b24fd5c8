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
		m = match_new(pattern, literal, fold, NULL);
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
		m = match_new(patterns[i], false, false, NULL);
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
	m = match_new("(a+)+$", false, false, NULL);
	is_int(match_line(m, line, n, &at, &cut), MATCH_TOO_COMPLEX,
	    "(a+)+$ on 100 kB is too complex, not no");
	ok(cut, "a long line is cut, and that is told");
	match_free(m);
	m = match_new("b", false, false, NULL);
	line[n - 1] = 'b';
	ok(match_line(m, line, n, &at, &cut) == MATCH_YES && at == n - 1 &&
		!cut,
	    "a text is found in all of a long line");
	match_free(m);
	free(line);
}

/* What a fixed piece of work takes here, so that a slow machine is no fault. */
static double
piece_ms(void)
{
	double begun = own_ms();
	volatile uint64_t sum = 0;
	uint64_t i;

	for (i = 0; i < 10000000; i++)
		sum += i ^ sum >> 3;
	return own_ms() - begun;
}

/* Compile it and look at a long and at a short line, all in own time. */
static double
try_one(const char *pattern, bool fold)
{
	static const char ends[][4] = {"", " ", "1", "\xff", "b\r"};
	size_t n = 100000, i, at;
	char *line = malloc(n + 4);
	double begun = own_ms(), most = 0, took;
	struct match *m = match_new(pattern, false, fold, NULL);
	bool cut;

	memset(line, 'a', n);
	most = own_ms() - begun;
	for (i = 0; m != NULL && i < sizeof(ends) / sizeof(ends[0]); i++) {
		begun = own_ms();
		memcpy(line + 60, ends[i], strlen(ends[i]));
		match_line(m, line, 60 + strlen(ends[i]), &at, &cut);
		memset(line, 'a', n);
		match_line(m, line, n, &at, &cut);
		took = own_ms() - begun;
		if (took / 2 > most)
			most = took / 2;
	}
	match_free(m);
	free(line);
	return most;
}

/* All the ways that an expression has to take its time. */
static void
test_siblings(void)
{
	static const char *const patterns[] = {"(a+)+$", "(a|a?)+$",
	    "(a|b|ab)*c", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*)*x", "(\\w*)*!",
	    "(a+){10,}b", "(a{1,30}){1,30}b", "((a+)b?)+c",
	    "(?:a?){500}a{500}b", "(a{0,200}){0,200}b", "(a)\\1*\\1*\\1*b",
	    "^(a+)\\1+b", "(.+)\\1\\1b", "(a*)(a*)(a*)\\3\\2\\1b",
	    "(?<=a{50})b", "(?<=(a+)+)b", "(?<!a)b", "(?<=a|aa|aaa)(a+)+b",
	    "(?<=\\w{1,200})x", "(?<r>a(?&r)?a)b", "((?R)|a)+b",
	    "(a(?1)?b?)+c", "^(?:(a)(?1)?)+b", "(?1)(a|(?1)a)b", "(?0)a",
	    "(?>a+)+b", "(a++)+b", "(?:(?=a)a)*b", "(?=(a+)+$)b",
	    "(?!(a+)+$)b", "(?(?=a)a|b)*c", "(?(1)a|(a+)+)+b",
	    "(?|(a)|(a))*b", "\\X+b", "\\p{L}+\\d", "(\\pL|\\w)+\\d",
	    "[\\s\\S]*[\\s\\S]*[\\s\\S]*b", "(?C)a+b", "(?C255)(a+)+b",
	    "(?C'text')(a*)*b", "a(*THEN)a+b", "(*COMMIT)(a+)+b",
	    "(a+)+(*F)", "(a+)+(*ACCEPT)b", "(*MARK:x)(a+)+b",
	    "(a+)+(*SKIP)b", "(*PRUNE)(a+)+b",
	    "(*LIMIT_MATCH=4000000000)(a+)+$",
	    "(*LIMIT_DEPTH=4000000000)(a+)+$",
	    "(*LIMIT_HEAP=4000000000)(a+)+$", "(*NO_START_OPT)(a+)+b",
	    "(*NO_AUTO_POSSESS)(a+)+b", "(*NO_DOTSTAR_ANCHOR).*.*.*b",
	    "(*NO_JIT)(a+)+b", "(*UCP)(\\w+)+\\d", "(*BSR_UNICODE)\\R*a+b",
	    "(*CRLF)(a+)+$", "(*NUL)(a+)+$", "(*ANY)(a+)+$",
	    "(*NOTEMPTY)(a*)*b", "(*UTF)(a+)+b", "(?i)(a|A|\xc3\xa0)+b",
	    "(?x) ( a + ) + b # x", "\\Ga*b", "a\\Kb", "(?:\\Ka)+b",
	    "(?s).*?.*?.*?.*?b", "(?:.|a|[ab])+\\z", "(?U)(a+)+$"};
	static const char *const parts[] = {"(", "(?:", "(?=", "(?>", "a|",
	    "a?", "a*", "(a*)*", "[a-z]{1,60}", ".*", "(?<=a)", "\\w+",
	    "(?:a|", "(a)", "\\X", "(?1)", "(a+)+", "a{1,100}", "(?R)?",
	    "[[:alpha:]\\d]", "\\pL*"};
	char huge[5000];
	double unit = piece_ms(), limit = 20 * unit < 200 ? 200 : 20 * unit;
	double took, most = 0;
	size_t i, n;
	unsigned slow = 0;

	for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		took = try_one(patterns[i], i % 2 == 1);
		if (took > most)
			most = took;
		if (took > limit && slow++ < 5)
			printf("# %s: %.0f ms\n", patterns[i], took);
	}
	is_int(slow, 0, "no expression takes long, in whatever way");
	/* As long as a pattern may be, closed and not. */
	for (i = 0; i < 2 * sizeof(parts) / sizeof(parts[0]); i++) {
		const char *part = parts[i / 2];

		n = strlen(part);
		huge[0] = '\0';
		while (strlen(huge) + n + (i % 2) * (strlen(huge) / n) < 4000)
			strlcat(huge, part, sizeof(huge));
		while (i % 2 == 1 && strlen(huge) < 4096)
			strlcat(huge, part[0] == '(' && strchr(part, ')') == NULL
				? ")" : "b", sizeof(huge));
		took = try_one(huge, false);
		if (took > most)
			most = took;
		if (took > limit && slow++ < 5)
			printf("# %.20s...: %.0f ms\n", huge, took);
	}
	is_int(slow, 0, "nor does one of 4096 bytes");
	printf("# at most %.0f ms of %.0f; the piece took %.0f\n", most, limit,
	    unit);
	memset(huge, '.', 4097);
	huge[4097] = '\0';
	ok(match_new(huge, false, false, NULL) == NULL && errno == EINVAL,
	    "one of 4097 bytes is none");
}

static void
test_refused(void)
{
	static const char *const patterns[] = {"(", "[a", "a**", "\\C", "(?<n",
	    "(.*){1,32000}x", "(((a{1,500}){1,500}){1,500}){1,500}", "*"};
	unsigned taken = 0;
	size_t i;

	for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		struct match *m = match_new(patterns[i], false, false, NULL);

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
	test_siblings();
	test_refused();
	return done();
}
