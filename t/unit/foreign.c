/*
 * enforce/foreign: what is mended and what is not, what the fields hold, and
 * that a comment never becomes text.
 */

#include <errno.h>

#include "enforce/foreign.h"
#include "t/unit/tap.h"

struct expect {
	const char *yaml;
	const char *field; /* NULL: it is refused */
	const char *texts; /* joined with |; or a part of the message */
	unsigned mended;   /* lines */
};

static const struct expect table[] = {
    /* as it is */
    {"name: a\n", "name", "a", 0},
    {"name: 'a: b'\n", "name", "a: b", 0},
    {"n: [a, b]\n", "n", "a|b", 0},
    {"n:\n  - a\n  - b\n", "n", "a|b", 0},
    {"n: []\n", "n", "", 0},
    {"n:\n", "n", "", 0},
    {"n: >\n  a\n  b\n", "n", "a b\n", 0},
    {"metadata:\n  version: 1.0\n", "metadata.version", "1.0", 0},
    {"a:\n  b:\n    c: d\n", "a.b.c", "d", 0},
    {"a:\n  - b: c\n  - d: [e, f]\n", "a", "", 0},
    {"a:\n  - b: c\n  - d: [e, f]\n", "a.1.b", "c", 0},
    {"a:\n  - b: c\n  - d: [e, f]\n", "a.2.d", "e|f", 0},
    {"a: [b, [c, {d: e}], ~]\n", "a.1", "b", 0},
    {"a: [b, [c, {d: e}], ~]\n", "a.2.2.d", "e", 0},
    {"a: [b, [c, {d: e}], ~]\n", "a.3", "", 0},
    {"n: a # b\n", "n", "a", 0},
    {"n: a\r\nm: b\r\n", "m", "b", 0},
    {"n: Bash(git:*)\n", "n", "Bash(git:*)", 0},
    {"n: [Bash(a:*, b:*), Read]\n", "n", "Bash(a:*|b:*)|Read", 0},
    /* a colon */
    {"d: Use when: x\n", "d", "Use when: x", 1},
    {"d: a: b: c\n", "d", "a: b: c", 1},
    {"d: it's: so\n", "d", "it's: so", 1},
    {"d: x:\nn: a\n", "n", "a", 1},
    {"d: x:\nn: a\n", "d", "x:", 1},
    {"d: \"a\": b\n", NULL, "not valid YAML", 0},
    {"d: a: b # Bash\n", "d", "a: b", 1},
    {"d: a#b: c\n", "d", "a#b: c", 1},
    {"d: one\n  two: three\nn: a\n", "d", "one two: three", 1},
    {"d: one\n  two: three\n  four # x\nn: a\n", "d",
	"one two: three four", 1},
    {"d: one\n  two: three\nn: a\n", "n", "a", 1},
    {"a: x: y\nb: z: w\n", "b", "z: w", 2},
    {"t: Bash(git: *)\n", "t", "Bash(git: *)", 1},
    {"t:\n  - Bash(git: *)\n  - Read\n", "t", "Bash(git: *)|Read", 1},
    {"t: [Bash(git: *), Read]\n", "t", "Bash(git: *)|Read", 1},
    {"t: [Bash(git: *, x), Read]\n", "t", "Bash(git: *, x)|Read", 1},
    {"m:\n  d: a: b\n  v: 1\n", "m.v", "1", 1},
    /* a star */
    {"g: *.md\n", "g", "*.md", 1},
    {"g: *\n", "g", "*", 1},
    {"g: **/*.md # all\n", "g", "**/*.md", 1},
    {"g: *name\n", "g", "*name", 1},
    {"g:\n  - *.md\n  - a\n", "g", "*.md|a", 1},
    {"g:\n  - *.md\n  - *.txt\n", "g", "*.md|*.txt", 2},
    {"g: [*.md, *.txt]\n", "g", "*.md|*.txt", 1},
    {"g: [*.md, b] # c\n", "g", "*.md|b", 1},
    {"g: [a, *]\n", "g", "a|*", 1},
    /* brackets that are text */
    {"h: [action] [args]\n", "h", "[action] [args]", 1},
    {"h: [a] b # c\n", "h", "[a] b", 1},
    /* what is no mistake of this kind, or could mean something else */
    {"a: &x [Bash]\nt: *x\n", NULL, "anchors", 0},
    {"t: *x\na: &x [Bash]\n", NULL, "anchors", 0},
    {"t: [&x Read, *x]\n", NULL, "anchors", 0},
    {"t: !!str Read\n", NULL, "tags", 0},
    {"t: @x\n", NULL, "not valid YAML", 0},
    {"t: `x`\n", NULL, "not valid YAML", 0},
    {"t: %x\n", NULL, "not valid YAML", 0},
    {"t: {a,b}/**\n", NULL, "not valid YAML", 0},
    {"t: \"a\n", NULL, "not valid YAML", 0},
    {"t: [a, b\n", NULL, "not valid YAML", 0},
    {"a: b\n\tc: d\n", NULL, "tab", 0},
    {"a: b\na: c\n", NULL, "stands on line", 0},
    {"d: a: b\n  network: no\n", NULL, "not valid YAML", 0},
    {"d: a: b\n  rules: [c]\n", NULL, "not valid YAML", 0},
    {"a: b: c\na: c\n", NULL, "stands on line", 0},
    {"a: b\n  a: c\na: d\n", NULL, "stands on line", 0},
    {"%YAML 1.2\n", NULL, "", 0},
    {"a\n", NULL, "must be fields", 0},
    {"- a\n", NULL, "must be fields", 0},
    {"", NULL, "must be fields", 0},
    {"# only\n", NULL, "must be fields", 0},
    {"a: b\n---\nc: d\n", NULL, "", 0},
    {"a: b\n...\nc: d\n", NULL, "", 0},
    {"a: b\xc2\x85" "c: d\n", NULL, "line separator", 0},
    {"a: \xff\n", NULL, "UTF-8", 0},
    {"a: b\rc: d\n", NULL, "carriage return", 0},
    {"? [a]\n: b\n", NULL, "a key must be", 0},
    {"<<: {a: b}\n", "<<.a", "b", 0},
};

static void
join(const struct foreign_item *item, char *out, size_t size)
{
	size_t i;

	out[0] = '\0';
	for (i = 0; i < item->n; i++) {
		if (i > 0)
			strlcat(out, "|", size);
		strlcat(out, item->texts[i], size);
	}
}

static void
test_row(const struct expect *e)
{
	const struct foreign_item *item;
	struct foreign f;
	char got[1024], *copy;
	size_t len = strlen(e->yaml);
	int result;

	/* A copy of exact size, for the sanitizer to see every overrun. */
	copy = malloc(len == 0 ? 1 : len);
	memcpy(copy, e->yaml, len);
	result = foreign_read(&f, copy, len, 2);
	free(copy);
	if (e->field == NULL) {
		ok(result == -1 && errno == EINVAL &&
			strstr(f.why, e->texts) != NULL && f.line >= 2,
		    "refused: %.20s: %s", e->yaml[0] ? e->texts : "nothing",
		    f.why);
	} else {
		item = result == 0 ? foreign_find(&f, e->field) : NULL;
		got[0] = '\0';
		if (item != NULL)
			join(item, got, sizeof(got));
		is_str(item == NULL ? f.why : got, e->texts, e->field);
		is_int((long long)f.mended_n, e->mended, "lines mended");
	}
	foreign_clear(&f);
}

static void
test_bounds(void)
{
	static const char hidden[] =
	    "a: \"x\\0y\"\nb: \"\\u202e\"\nc: \"\\u0007\"";
	static char text[60000];
	struct foreign f;
	size_t i, at = 0;

	for (i = 0; i < 100; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
		    "k%zu: a: b\n", i);
	ok(foreign_read(&f, text, at, 2) == -1 && errno == EINVAL &&
		f.mended_n == FOREIGN_MENDED_MAX,
	    "so many lines are mended and no more");
	foreign_clear(&f);
	at = 0;
	for (i = 0; i < 5000; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
		    "k%zu: a\n", i);
	ok(foreign_read(&f, text, at, 2) == -1 && errno == EINVAL,
	    "too many fields");
	foreign_clear(&f);
	memset(text, '[', sizeof(text));
	ok(foreign_read(&f, text, sizeof(text), 2) == -1 && errno == EINVAL,
	    "too deep");
	foreign_clear(&f);
	ok(foreign_read(&f, hidden, sizeof(hidden) - 1, 2) == 0,
	    "what nobody can see");
	ok(f.n == 3 && f.items[0].hidden && f.items[1].hidden &&
		f.items[2].hidden && f.items[0].n == 0,
	    "is marked, and not taken");
	foreign_clear(&f);
	memcpy(text, "a: b: \0 c\n", 10);
	ok(foreign_read(&f, text, 10, 2) == -1, "a NUL");
	foreign_clear(&f);
}

int
main(void)
{
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		test_row(&table[i]);
	test_bounds();
	return done();
}
