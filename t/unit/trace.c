/*
 * Trace context: the rows of the W3C test suite as they apply to a parameter
 * (no header names, no outer blanks), and what a hostile caller would try.
 */

#include "audit/trace.h"

#include "t/unit/tap.h"

#define FIELDS 5
#define IDS "12345678901234567890123456789012-1234567890123456"

struct row {
	char *line;
	size_t size;
	char *field[FIELDS];
};

/* The next case of a vector file; fields that are not there are empty. */
static bool
next_row(FILE *f, struct row *r)
{
	char *p;
	int i;

	do {
		if (getline(&r->line, &r->size, f) == -1)
			return false;
	} while (r->line[0] == '#');
	p = r->line;
	p[strcspn(p, "\n")] = '\0';
	for (i = 0; i < FIELDS; i++) {
		r->field[i] = p;
		p += strcspn(p, "\t");
		if (*p == '\t')
			*p++ = '\0';
	}
	return true;
}

static FILE *
vectors(const char *path)
{
	FILE *f = fopen(path, "r");

	if (f == NULL) {
		printf("Bail out! %s\n", path);
		exit(1);
	}
	return f;
}

/* A copy of exactly len bytes, so that the sanitizer sees any step beyond. */
static char *
exact(const char *text, size_t len)
{
	char *copy = malloc(len == 0 ? 1 : len);

	if (copy == NULL)
		exit(1);
	if (len > 0)
		memcpy(copy, text, len);
	return copy;
}

static bool
parse(const char *text, size_t len, struct trace *t)
{
	char *copy = exact(text, len);
	bool good = trace_parse(copy, len, t);

	free(copy);
	return good;
}

static bool
state(const char *text, size_t len)
{
	char *copy = exact(text, len);
	bool good = trace_state_valid(copy, len);

	free(copy);
	return good;
}

static void
test_parent_vectors(void)
{
	FILE *f = vectors("t/vectors/trace-context/traceparent.tsv");
	struct row r = {0};
	struct trace t;
	bool keep, got;
	size_t len;
	int rows = 0;

	while (next_row(f, &r)) {
		rows++;
		/* Two headers and header names say nothing of a parameter. */
		if (strncmp(r.field[0], "name-", 5) == 0 ||
		    strcmp(r.field[0], "duplicated") == 0)
			continue;
		keep = strcmp(r.field[3], "keep") == 0;
		if (strncmp(r.field[0], "ows-", 4) == 0)
			keep = false;
		len = vector_decode(r.field[2]);
		memset(&t, '#', sizeof(t));
		got = parse(r.field[2], len, &t);
		ok(got == keep, "traceparent %s", r.field[0]);
		if (got)
			ok(strncmp(t.trace_id, r.field[2] + 3, 32) == 0 &&
				t.trace_id[32] == '\0' &&
				strncmp(t.span_id, r.field[2] + 36, 16) == 0 &&
				t.span_id[16] == '\0' &&
				t.flags == strtoul(r.field[2] + 53, NULL, 16),
			    "  its ids and flags");
		else
			ok(t.trace_id[0] == '#' && t.flags == '#',
			    "  nothing written");
	}
	is_int(rows, 57, "all traceparent rows");
	free(r.line);
	fclose(f);
}

static void
test_parent_own(void)
{
	static const struct {
		const char *text;
		bool good;
	} cases[] = {
	    {"cc-" IDS "-01-"
	     "\r\nX-Evil: 1",
		false},
	    {"cc-" IDS "-01- ", false},
	    {"cc-" IDS "-01-\x7f", false},
	    {"cc-" IDS "-01-\xc3\xa9", false},
	    {"cc-" IDS "-01-a-b", true},
	    {"fe-" IDS "-01", true},
	    {"ff-" IDS "-01-a", false},
	    {"00-" IDS "-01-", false},
	    {"cc-" IDS "-010", false},
	    {"g0-" IDS "-01", false},
	    {"`0-" IDS "-01", false},
	    {"/0-" IDS "-01", false},
	    {":0-" IDS "-01", false},
	};
	char text[TRACE_PARENT_MAX + 1];
	struct trace t;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ok(parse(cases[i].text, strlen(cases[i].text), &t) ==
			cases[i].good,
		    "own traceparent %zu", i);
	for (i = 0; i < 55; i++)
		if (parse("00-" IDS "-01", i, &t))
			break;
	is_int((long long)i, 55, "no shorter text is read");
	memset(text, 'x', sizeof(text));
	memcpy(text, "01-" IDS "-01-", 56);
	ok(parse(text, TRACE_PARENT_MAX, &t), "longest traceparent");
	ok(!parse(text, TRACE_PARENT_MAX + 1, &t), "one byte more");
}

static void
test_state_vectors(void)
{
	FILE *f = vectors("t/vectors/trace-context/tracestate.tsv");
	struct row r = {0};
	const char *id;
	size_t i, len;
	int rows = 0;
	bool want;

	while (next_row(f, &r)) {
		rows++;
		id = r.field[0];
		want = strcmp(r.field[2], "discard") != 0;
		/* A receiver may keep one of two; we drop the lot. */
		if (strncmp(id, "duplicate-", 10) == 0)
			want = false;
		len = vector_decode(r.field[1]);
		/* Several headers are one list; in two rows "|" is data. */
		if (strncmp(id, "all-key-chars", 13) != 0)
			for (i = 0; i < len; i++)
				if (r.field[1][i] == '|')
					r.field[1][i] = ',';
		ok(state(r.field[1], len) == want, "tracestate %s", id);
	}
	is_int(rows, 25, "all tracestate rows");
	free(r.line);
	fclose(f);
}

static void
test_state_own(void)
{
	static const struct {
		const char *text;
		bool good;
	} cases[] = {
	    {" \t ", true},
	    {",,,", true},
	    {"a=1,", true},
	    {"a= 1", true},
	    {"a=1\r\nX-Evil: 1", false},
	    {"a=1\n", false},
	    {"a=1 \t2", false},
	    {"a=\xc3\xa9", false},
	    {"a=\x7f", false},
	    {"a", false},
	    {"=1", false},
	    {"=", false},
	    {"a=1,b", false},
	    {"a=1,b=2, a=3", false},
	    {"a= ", false},
	    {"_a=1", false},
	    {"0a=1", true},
	};
	char text[TRACE_STATE_MAX + 1];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ok(state(cases[i].text, strlen(cases[i].text)) == cases[i].good,
		    "own tracestate %zu", i);
	ok(!state("a=1\0", 4), "NUL in a value");
	ok(trace_state_valid(NULL, 0), "nothing at all");
	memset(text, 'v', sizeof(text));
	memcpy(text, "a=", 2);
	ok(state(text, 2 + 256), "value of 256");
	ok(!state(text, 2 + 257), "value of 257");
	memset(text, ',', sizeof(text));
	ok(state(text, TRACE_STATE_MAX), "longest tracestate");
	ok(!state(text, TRACE_STATE_MAX + 1), "one byte more");
}

static void
test_random(void)
{
	struct trace a, b, read;
	char text[64], span[17];

	ok(trace_new(&a) == 0 && trace_new(&b) == 0, "fresh traces");
	ok(strcmp(a.trace_id, b.trace_id) != 0 &&
		strcmp(a.span_id, b.span_id) != 0,
	    "they differ");
	ok(a.flags == 1, "sampled");
	snprintf(text, sizeof(text), "00-%s-%s-%02x", a.trace_id, a.span_id,
	    (unsigned)a.flags);
	ok(parse(text, strlen(text), &read) &&
		strcmp(read.trace_id, a.trace_id) == 0 &&
		strcmp(read.span_id, a.span_id) == 0,
	    "a fresh trace reads back");
	ok(trace_new_span(span) == 0 && strlen(span) == 16 &&
		strspn(span, "0123456789abcdef") == 16 &&
		strcmp(span, a.span_id) != 0,
	    "a fresh span");
}

int
main(void)
{
	test_parent_vectors();
	test_parent_own();
	test_state_vectors();
	test_state_own();
	test_random();
	return done();
}
