/*
 * Globs: the shared vector table, tables of our own, error sentences, hostile
 * patterns against the clock, and a comparison with a second matcher that
 * expands braces and backtracks, over random patterns and texts.
 */

#include <errno.h>
#include <stdint.h>
#include <time.h>

#include "enforce/glob.h"
#include "t/unit/tap.h"

#define LONG_TEXT 900000

/* 'y' match, 'n' no match, 'e' the pattern is refused. */
static char
judge(enum glob_kind kind, const char *pattern, size_t plen, const char *text,
    size_t tlen, const char **why)
{
	struct glob_set *set = glob_set_new(kind);
	char verdict;

	*why = NULL;
	if (set == NULL)
		exit(2);
	if (glob_set_add(set, pattern, plen, why) == -1)
		verdict = errno == EINVAL && *why != NULL ? 'e' : '!';
	else
		verdict = glob_match_path(set, text, tlen) ? 'y' : 'n';
	glob_set_free(set);
	return verdict;
}

/* ---- the shared table ---- */

static bool
vector_row(char *line)
{
	char *field[5], got, want;
	const char *why;
	size_t i, plen, tlen;
	enum glob_kind kind;

	for (i = 0; i < 5; i++)
		field[i] = strsep(&line, "\t\n");
	if (field[3] == NULL)
		return ok(false, "a row has too few fields");
	plen = vector_decode(field[1]);
	tlen = vector_decode(field[2]);
	kind = field[1][0] == '/' ? GLOB_FILE : GLOB_MEMORY;
	got = judge(kind, field[1], plen, field[2], tlen, &why);
	/* Such a text never comes in; the pattern must be a good one. */
	if (strcmp(field[3], "no canonical path") == 0)
		return ok(got != 'e', "%s: pattern accepted", field[0]);
	want = strcmp(field[3], "match") == 0	  ? 'y'
	       : strcmp(field[3], "nomatch") == 0 ? 'n'
	       : strcmp(field[3], "error") == 0	  ? 'e'
						  : '?';
	/* A segment "." can match no canonical path, so it is refused. */
	if (strcmp(field[1], "./foo") == 0)
		want = 'e';
	return ok(got == want, "%s: %s on %s is %c", field[0], field[1],
	    field[2][0] == '\0' ? "nothing" : "its path", want);
}

static void
test_vectors(void)
{
	FILE *f = fopen("t/vectors/globset/under-spec.tsv", "r");
	char line[1024];
	int rows = 0;

	if (f == NULL) {
		ok(false, "the vector table opens");
		return;
	}
	while (fgets(line, sizeof(line), f) != NULL) {
		if (line[0] == '#')
			continue;
		vector_row(line);
		rows++;
	}
	fclose(f);
	is_int(rows, 146, "rows of the shared table");
}

/* ---- own tables ---- */

struct path_case {
	enum glob_kind kind;
	const char *pattern;
	const char *text;
	char want;
};

static const struct path_case path_cases[] = {
    /* the number of segments */
    {GLOB_MEMORY, "a/**", "a", 'n'},
    {GLOB_MEMORY, "a/**", "a/b", 'y'},
    {GLOB_MEMORY, "a/**", "a/b/c", 'y'},
    {GLOB_MEMORY, "a/**", "ab/c", 'n'},
    {GLOB_MEMORY, "a/**/b", "a/b", 'y'},
    {GLOB_MEMORY, "a/**/b", "a/x/b", 'y'},
    {GLOB_MEMORY, "a/**/b", "a/x/y/b", 'y'},
    {GLOB_MEMORY, "a/**/b", "aa/b", 'n'},
    {GLOB_MEMORY, "a/**/b", "a/xb", 'n'},
    {GLOB_MEMORY, "a/**/b", "ab", 'n'},
    {GLOB_MEMORY, "**/x", "x", 'y'},
    {GLOB_MEMORY, "**/x", "a/x", 'y'},
    {GLOB_MEMORY, "**/x", "ax", 'n'},
    {GLOB_MEMORY, "**/x", "a/bx", 'n'},
    {GLOB_MEMORY, "**/**", "a", 'y'},
    {GLOB_MEMORY, "a/**/**", "a/b", 'y'},
    {GLOB_MEMORY, "a/**/**", "a", 'n'},
    {GLOB_FILE, "/**", "/a", 'y'},
    {GLOB_FILE, "/**", "/a/b", 'y'},
    {GLOB_FILE, "/**", "/", 'n'},
    {GLOB_FILE, "/a/**/b/**/c", "/a/b/c", 'y'},
    {GLOB_FILE, "/a/**/b/**/c", "/a/x/b/c/b/c", 'y'},
    {GLOB_FILE, "/a/**/b/**/c", "/a/x/b/c/b", 'n'},
    {GLOB_FILE, "/proj/**", "/proj-evil/s.txt", 'n'},
    {GLOB_FILE, "/proj/**", "/proj", 'n'},
    /* whole segments, seen through braces */
    {GLOB_MEMORY, "{a,**}/x", "x", 'y'},
    {GLOB_MEMORY, "{a,**}/x", "a/x", 'y'},
    {GLOB_MEMORY, "{a,**}/x", "b/c/x", 'y'},
    {GLOB_MEMORY, "{a,**}/x", "bx", 'n'},
    {GLOB_MEMORY, "d/{a,**}/x", "d/x", 'y'},
    {GLOB_MEMORY, "d/{a,**}/x", "d/b/x", 'y'},
    {GLOB_MEMORY, "d/{a,**}/x", "dx", 'n'},
    {GLOB_MEMORY, "d/{a,{b,**}}/x", "d/x", 'y'},
    {GLOB_MEMORY, "d/**{/x,/y}", "d/y", 'y'},
    {GLOB_MEMORY, "d/**{/x,/y}", "d/e/f/x", 'y'},
    {GLOB_MEMORY, "d/**{/x,/y}", "d/e/fx", 'n'},
    {GLOB_MEMORY, "d/{**/,y}x", "d/x", 'y'},
    {GLOB_MEMORY, "d/{**/,y}x", "d/a/x", 'y'},
    {GLOB_MEMORY, "d/{**/,y}x", "d/yx", 'y'},
    {GLOB_MEMORY, "d/{**/,y}x", "d/zx", 'n'},
    {GLOB_MEMORY, "{data/**,logs/*.txt}", "data/a/b", 'y'},
    {GLOB_MEMORY, "{data/**,logs/*.txt}", "logs/a.txt", 'y'},
    {GLOB_MEMORY, "{data/**,logs/*.txt}", "logs/b/a.txt", 'n'},
    {GLOB_MEMORY, "{data/**,logs/*.txt}", "data", 'n'},
    {GLOB_FILE, "/{a/**,b}/x", "/a/x", 'y'},
    {GLOB_FILE, "/{a/**,b}/x", "/a/q/x", 'y'},
    {GLOB_FILE, "/{a/**,b}/x", "/b/q/x", 'n'},
    {GLOB_MEMORY, "{a,**}x", "", 'e'},
    {GLOB_MEMORY, "x{a,**}", "", 'e'},
    {GLOB_MEMORY, "{a,x/**}b", "", 'e'},
    {GLOB_MEMORY, "**{/x,y}", "", 'e'},
    {GLOB_MEMORY, "{x/,y}**", "", 'e'},
    {GLOB_MEMORY, "{**}*", "", 'e'},
    {GLOB_MEMORY, "{*,a}{*,b}", "ab", 'y'},
    {GLOB_MEMORY, "{*,a}{*,b}", "a/b", 'n'},
    /* braces */
    {GLOB_MEMORY, "{a/b,c}/d", "a/b/d", 'y'},
    {GLOB_MEMORY, "{a/b,c}/d", "a/d", 'n'},
    {GLOB_MEMORY, "x{a*,b}*c", "xazc", 'y'},
    {GLOB_MEMORY, "x{a*,b}*c", "xbzc", 'y'},
    {GLOB_MEMORY, "x{a*,b}c", "xbzc", 'n'},
    {GLOB_MEMORY, "x{a,b*}c", "xazc", 'n'},
    {GLOB_MEMORY, "{{{{a}}}}", "a", 'y'},
    {GLOB_MEMORY, "{{a,b},{c,d}}", "d", 'y'},
    {GLOB_MEMORY, "{a\\,b,c\\}}", "a,b", 'y'},
    {GLOB_MEMORY, "{a\\,b,c\\}}", "c}", 'y'},
    {GLOB_MEMORY, "{[,],x}", ",", 'y'},
    /* ? and classes: a code point, never a slash */
    {GLOB_FILE, "/d/sta?", "/d/sta", 'n'},
    {GLOB_FILE, "/d/sta?", "/d/star", 'y'},
    {GLOB_FILE, "/d/sta?", "/d/sta/", 'n'},
    {GLOB_FILE, "/d/sta?", "/d/stab/x", 'n'},
    {GLOB_FILE, "/d/?", "/d/\xc3\xa4", 'y'},
    {GLOB_FILE, "/d/??", "/d/\xc3\xa4", 'n'},
    {GLOB_FILE, "/d[!a]e", "/d/e", 'n'},
    {GLOB_FILE, "/d[.-0]e", "/d/e", 'n'},
    {GLOB_FILE, "/d[.-0]e", "/d.e", 'y'},
    {GLOB_MEMORY, "[^a]", "/", 'n'},
    {GLOB_MEMORY, "[/]", "/", 'n'},
    {GLOB_MEMORY, "[]]", "]", 'y'},
    {GLOB_MEMORY, "[!]]", "]", 'n'},
    {GLOB_MEMORY, "[!]]", "a", 'y'},
    {GLOB_MEMORY, "[^]a]", "b", 'y'},
    {GLOB_MEMORY, "[\\]a]", "]", 'y'},
    {GLOB_MEMORY, "[a\\-z]", "b", 'n'},
    {GLOB_MEMORY, "[a\\-z]", "-", 'y'},
    {GLOB_MEMORY, "[\xc3\xa0-\xc3\xbf]x", "\xc3\xa9x", 'y'},
    {GLOB_MEMORY, "[\xc3\xa0-\xc3\xbf]x", "\xc4\x80x", 'n'},
    {GLOB_MEMORY, "[!a]x", "\xf0\x9f\x98\x80x", 'y'},
    {GLOB_MEMORY, "*\xc3\xa9*", "caf\xc3\xa9s", 'y'},
    {GLOB_MEMORY, "*\xc3\xa9*", "caf\xc3\xa8s", 'n'},
    {GLOB_MEMORY, "]a", "]a", 'y'},
    /* texts that are no UTF-8 match nothing */
    {GLOB_MEMORY, "**", "a\xff", 'n'},
    {GLOB_MEMORY, "*", "\xc0\xaf", 'n'},
    {GLOB_MEMORY, "*", "\xed\xa0\x80", 'n'},
    {GLOB_MEMORY, "*", "\xf4\x90\x80\x80", 'n'},
    {GLOB_MEMORY, "a?", "a\xc3", 'n'},
    {GLOB_MEMORY, "[!a]", "\x80", 'n'},
    /* escapes */
    {GLOB_MEMORY, "\\*\\?\\{\\[", "*?{[", 'y'},
    {GLOB_MEMORY, "a\\*b", "axb", 'n'},
    {GLOB_MEMORY, "a\\/**", "a/b", 'y'},
    /* components that must be spelled */
    {GLOB_FILE, "/**", "/a/.git/config", 'n'},
    {GLOB_FILE, "/**", "/a/.git", 'n'},
    {GLOB_FILE, "/**", "/.ssh/id", 'n'},
    {GLOB_FILE, "/**", "/a/.gitignore", 'y'},
    {GLOB_FILE, "/**", "/a/x.git/b", 'y'},
    {GLOB_FILE, "/**", "/a/.sshx", 'y'},
    {GLOB_FILE, "/*/id", "/.ssh/id", 'n'},
    {GLOB_FILE, "/.ssh/*", "/.ssh/id", 'y'},
    {GLOB_FILE, "/**/.git/**", "/a/b/.git/config", 'y'},
    {GLOB_FILE, "/**/.git/**", "/.git/config", 'y'},
    {GLOB_FILE, "/**/.git/**", "/.git/m/.git/x", 'n'},
    {GLOB_FILE, "/**/.git/**/.git/*", "/.git/m/.git/x", 'y'},
    {GLOB_FILE, "/a/.gi?/x", "/a/.git/x", 'n'},
    {GLOB_FILE, "/a/.g*/x", "/a/.git/x", 'n'},
    {GLOB_FILE, "/a/*git/x", "/a/.git/x", 'n'},
    {GLOB_FILE, "/a/?git/x", "/a/.git/x", 'n'},
    {GLOB_FILE, "/a/[.]git/x", "/a/.git/x", 'n'},
    {GLOB_FILE, "/a/.gi[t]", "/a/.git", 'n'},
    {GLOB_FILE, "/a/.git*/x", "/a/.git/x", 'y'},
    {GLOB_FILE, "/a/*.git/x", "/a/.git/x", 'y'},
    {GLOB_FILE, "/a/\\.git/x", "/a/.git/x", 'y'},
    {GLOB_FILE, "/a/.g{it,x}/x", "/a/.git/x", 'y'},
    {GLOB_FILE, "/a/{.ssh,**}/x", "/a/.ssh/x", 'y'},
    {GLOB_FILE, "/a/{.ssh,**}/x", "/a/.git/x", 'n'},
    {GLOB_FILE, "/a/.g*", "/a/.gitx", 'y'},
    {GLOB_FILE, "/a/.gi*/.git/*", "/a/.gix/.git/k", 'y'},
    {GLOB_MEMORY, "**", ".git", 'n'},
    {GLOB_MEMORY, "**/config", ".git/config", 'n'},
    /* refused */
    {GLOB_MEMORY, "", "", 'e'},
    {GLOB_MEMORY, "***************X***", "", 'e'},
    {GLOB_MEMORY, "foo**", "", 'e'},
    {GLOB_MEMORY, "**foo", "", 'e'},
    {GLOB_MEMORY, "a/**?", "", 'e'},
    {GLOB_MEMORY, "a/**[b]", "", 'e'},
    {GLOB_MEMORY, "[", "", 'e'},
    {GLOB_MEMORY, "[]", "", 'e'},
    {GLOB_MEMORY, "[!", "", 'e'},
    {GLOB_MEMORY, "[!]", "", 'e'},
    {GLOB_MEMORY, "[a-", "", 'e'},
    {GLOB_MEMORY, "[\\]", "", 'e'},
    {GLOB_MEMORY, "[z-a]", "", 'e'},
    {GLOB_MEMORY, "[z--]", "", 'e'},
    {GLOB_MEMORY, "{a,b", "", 'e'},
    {GLOB_MEMORY, "{a,{b,c}", "", 'e'},
    {GLOB_MEMORY, "a,b}", "", 'e'},
    {GLOB_MEMORY, "{a,b}}", "", 'e'},
    {GLOB_MEMORY, "{a,,b}", "", 'e'},
    {GLOB_MEMORY, "{,a}", "", 'e'},
    {GLOB_MEMORY, "{a,}", "", 'e'},
    {GLOB_MEMORY, "{a,{}}", "", 'e'},
    {GLOB_MEMORY, "a\\", "", 'e'},
    {GLOB_MEMORY, "/memories/**", "", 'e'},
    {GLOB_MEMORY, "{a,/b}", "", 'e'},
    {GLOB_MEMORY, "a//b", "", 'e'},
    {GLOB_MEMORY, "a{/,x}/b", "", 'e'},
    {GLOB_MEMORY, "a/", "", 'e'},
    {GLOB_MEMORY, "a/{b,c/}", "", 'e'},
    {GLOB_MEMORY, "a/./b", "", 'e'},
    {GLOB_MEMORY, "a/..", "", 'e'},
    {GLOB_MEMORY, "a/{.,b}./c", "", 'e'},
    {GLOB_MEMORY, "a/\\./b", "", 'e'},
    {GLOB_MEMORY, "a/.../b", "a/.../b", 'y'},
    {GLOB_MEMORY, "a\nb", "", 'e'},
    {GLOB_MEMORY, "a\x7f", "", 'e'},
    {GLOB_MEMORY, "a\xc2\x85", "", 'e'},
    {GLOB_MEMORY, "a\xff", "", 'e'},
    {GLOB_MEMORY, "[\xc3]", "", 'e'},
    {GLOB_FILE, "srv/**", "", 'e'},
    {GLOB_FILE, "**", "", 'e'},
    {GLOB_FILE, "~/x", "", 'e'},
    {GLOB_FILE, "/", "", 'e'},
    {GLOB_FILE, "/srv/", "", 'e'},
    {GLOB_FILE, "//srv", "", 'e'},
    {GLOB_FILE, "/srv/../etc/*", "", 'e'},
    {GLOB_FILE, "/a\nb", "/a\nb", 'y'},
    {GLOB_RELATIVE, "a\nb", "a\nb", 'y'},
    {GLOB_RELATIVE, "a\xc2\x85/[\t]", "a\xc2\x85/\t", 'y'},
    {GLOB_RELATIVE, "**/x", "x", 'y'},
    {GLOB_RELATIVE, "**", ".git", 'n'},
    {GLOB_RELATIVE, "/a", "", 'e'},
    {GLOB_RELATIVE, "{a,/b}", "", 'e'},
    {GLOB_RELATIVE, "../a", "", 'e'},
};

static void
test_paths(void)
{
	const struct path_case *c;
	const char *why;
	size_t i, wrong = 0, n = sizeof(path_cases) / sizeof(path_cases[0]);
	char got;

	for (i = 0; i < n; i++) {
		c = &path_cases[i];
		got = judge(c->kind, c->pattern, strlen(c->pattern), c->text,
		    strlen(c->text), &why);
		if (got == c->want)
			continue;
		wrong++;
		printf("# %s on %s: %c, expected %c\n", c->pattern, c->text,
		    got, c->want);
	}
	is_int((long long)wrong, 0, "own path table");
}

struct host_case {
	const char *pattern;
	const char *host;
	uint16_t port;
	bool usual;
	char want;
};

static const struct host_case host_cases[] = {
    {"docs.example.org", "docs.example.org", 443, true, 'y'},
    {"docs.example.org", "docs.example.org.evil.test", 443, true, 'n'},
    {"docs.example.org", "docs.example.orgx", 443, true, 'n'},
    {"docs.example.org", "xdocs.example.org", 443, true, 'n'},
    {"docs.example.org", "docsxexample.org", 443, true, 'n'},
    {"good.test", "evil.test", 443, true, 'n'},
    {"API.Example.com", "api.example.com", 443, true, 'y'},
    {"api.example.com.", "api.example.com", 443, true, 'y'},
    {"api.example.com", "api.example.com.", 443, true, 'n'},
    {"api.example.com", "API.example.com", 443, true, 'n'},
    {"api.example.com..", "", 443, true, 'e'},
    {"*.example.com", "a.example.com", 443, true, 'y'},
    {"*.example.com", "a.b.example.com", 443, true, 'y'},
    {"*.example.com", "example.com", 443, true, 'n'},
    {"*.example.com", ".example.com", 443, true, 'n'},
    {"*.example.com", "aexample.com", 443, true, 'n'},
    {"*.example.com", "a..example.com", 443, true, 'n'},
    {"*.example.com", "a.example.com.evil.test", 443, true, 'n'},
    {"a-*.example.com", "a-1.example.com", 443, true, 'y'},
    {"a-*.example.com", "a-1.b.example.com", 443, true, 'n'},
    {"api.*.example.com", "api.eu.example.com", 443, true, 'y'},
    {"api.*.example.com", "api.eu.x.example.com", 443, true, 'n'},
    {"*.*.example.com", "a.b.c.example.com", 443, true, 'y'},
    {"*.*.example.com", "a.example.com", 443, true, 'n'},
    {"*", "anything.example", 443, true, 'y'},
    {"*", "localhost", 80, true, 'y'},
    {"*", "127.0.0.1", 80, true, 'n'},
    {"*", "::1", 80, true, 'n'},
    {"*", "2130706433", 80, true, 'n'},
    {"*", "0x7f000001", 80, true, 'n'},
    {"*", "0177.0.0.1", 80, true, 'n'},
    {"*", "127.1", 80, true, 'n'},
    {"*", "017700000001", 80, true, 'n'},
    {"*", "0", 80, true, 'n'},
    {"*", "0x7f.1", 80, true, 'n'},
    {"*", "1.0x", 80, true, 'n'},
    {"*", "a_b.example", 80, true, 'y'},
    {"a_b.example", "A_b.example", 80, true, 'n'},
    {"A_b.example", "a_b.example", 80, true, 'y'},
    {"_a*_.example", "_ab_.example", 80, true, 'y'},
    {"a-b.example", "a_b.example", 80, true, 'n'},
    {"*", "a|b", 80, true, 'n'},
    {"*", "a b", 80, true, 'n'},
    {"*", "", 80, true, 'n'},
    {"*",
	"b\xc3\xbc"
	"cher.example",
	80, true, 'n'},
    {"*", "example.com", 8443, false, 'n'},
    {"*:8443", "example.com", 8443, false, 'y'},
    {"*:8443", "example.com", 443, true, 'n'},
    {"localhost", "localhost", 80, true, 'y'},
    {"localhost:8080", "localhost", 8080, false, 'y'},
    {"localhost:8080", "localhost", 80, true, 'n'},
    {"*.localhost", "a.localhost", 80, true, 'y'},
    {"example.com", "example.com", 8443, false, 'n'},
    {"example.com:443", "example.com", 443, true, 'y'},
    {"example.com:80", "example.com", 80, false, 'y'},
    {"example.com.:80", "example.com", 80, false, 'y'},
    {"example.com:65535", "example.com", 65535, false, 'y'},
    {"xn--bcher-kva.example", "xn--bcher-kva.example", 443, true, 'y'},
    {"127.0.0.1", "127.0.0.1", 80, true, 'y'},
    {"127.0.0.1", "127.0.0.10", 80, true, 'n'},
    {"127.0.0.1:8080", "127.0.0.1", 8080, false, 'y'},
    {"127.0.0.1:8080", "127.0.0.1", 80, true, 'n'},
    {"[::1]", "::1", 80, true, 'y'},
    {"::1", "::1", 80, true, 'y'},
    {"[::1]:8080", "::1", 8080, false, 'y'},
    {"[::1]:8080", "::1", 80, true, 'n'},
    {"[2001:DB8::1]", "2001:db8::1", 80, true, 'y'},
    {"2001:db8::1", "2001:db8::2", 80, true, 'n'},
    /* refused */
    {"", "", 80, true, 'e'},
    {".", "", 80, true, 'e'},
    {"..", "", 80, true, 'e'},
    {".example.com", "", 80, true, 'e'},
    {"a..example.com", "", 80, true, 'e'},
    {"intranet", "", 80, true, 'e'},
    {"host*", "", 80, true, 'e'},
    {"*.", "", 80, true, 'e'},
    {"**", "", 80, true, 'e'},
    {"**.example.com", "", 80, true, 'e'},
    {"b\xc3\xbc"
     "cher.example",
	"", 80, true, 'e'},
    {"a\xe3\x80\x82"
     "example",
	"", 80, true, 'e'},
    {"https://example.com", "", 80, true, 'e'},
    {"example.com/", "", 80, true, 'e'},
    {"user@example.com", "", 80, true, 'e'},
    {"example.com?", "", 80, true, 'e'},
    {"exam ple.com", "", 80, true, 'e'},
    {"a\\.example.com", "", 80, true, 'e'},
    {"{a,b}.example.com", "", 80, true, 'e'},
    {"[ab].example.com", "", 80, true, 'e'},
    {"a[b].example.com", "", 80, true, 'e'},
    {"a|b.example.com", "", 80, true, 'e'},
    {"?.example.com", "", 80, true, 'e'},
    {"example.com:", "", 80, true, 'e'},
    {"example.com:0", "", 80, true, 'e'},
    {"example.com:080", "", 80, true, 'e'},
    {"example.com:65536", "", 80, true, 'e'},
    {"example.com:4294967376", "", 80, true, 'e'},
    {"example.com:*", "", 80, true, 'e'},
    {"example.com:+80", "", 80, true, 'e'},
    {":80", "", 80, true, 'e'},
    {"127.1", "", 80, true, 'e'},
    {"2130706433", "", 80, true, 'e'},
    {"0x7f000001", "", 80, true, 'e'},
    {"0X7F.1", "", 80, true, 'e'},
    {"0177.0.0.1", "", 80, true, 'e'},
    {"127.0.0.01", "", 80, true, 'e'},
    {"127.0.0.1.", "", 80, true, 'e'},
    {"256.256.256.256", "", 80, true, 'e'},
    {"10.0.0.*", "", 80, true, 'e'},
    {"10.*.0.1", "", 80, true, 'e'},
    {"*.1", "", 80, true, 'e'},
    {"[::0]", "", 80, true, 'e'},
    {"[0:0:0:0:0:0:0:1]", "", 80, true, 'e'},
    {"[::ffff:7f00:1]", "", 80, true, 'e'},
    {"[2001:db8:0:0:1::1]", "", 80, true, 'e'},
    {"[fe80::1%25eth0]", "", 80, true, 'e'},
    {"fe80::1%eth0", "", 80, true, 'e'},
    {"[::1", "", 80, true, 'e'},
    {"[::1]x", "", 80, true, 'e'},
    {"[::1]:", "", 80, true, 'e'},
    {"[::1]:0", "", 80, true, 'e'},
    {"[127.0.0.1]", "", 80, true, 'e'},
    {"[]", "", 80, true, 'e'},
    {"[*::1]", "", 80, true, 'e'},
};

static char
judge_host(const struct host_case *c)
{
	struct glob_set *set = glob_set_new(GLOB_DOMAIN);
	const char *why = NULL;
	char got;

	if (set == NULL)
		exit(2);
	if (glob_set_add(set, c->pattern, strlen(c->pattern), &why) == -1)
		got = errno == EINVAL && why != NULL ? 'e' : '!';
	else
		got = glob_match_host(
			  set, c->host, strlen(c->host), c->port, c->usual)
			  ? 'y'
			  : 'n';
	glob_set_free(set);
	return got;
}

static void
test_hosts(void)
{
	struct glob_set *set;
	const char *why;
	char text[300], got;
	size_t i, wrong = 0, n = sizeof(host_cases) / sizeof(host_cases[0]);

	for (i = 0; i < n; i++) {
		got = judge_host(&host_cases[i]);
		if (got == host_cases[i].want)
			continue;
		wrong++;
		printf("# %s on %s:%u: %c, expected %c\n",
		    host_cases[i].pattern, host_cases[i].host,
		    host_cases[i].port, got, host_cases[i].want);
	}
	is_int((long long)wrong, 0, "own host table");
	set = glob_set_new(GLOB_DOMAIN);
	glob_set_add(set, "*.good.test", 11, &why);
	ok(!glob_match_host(set, "evil.test\0.good.test", 20, 443, true),
	    "a NUL in a host matches nothing");
	ok(!glob_match_host(set, "a.good.test", 11, 0, true),
	    "nor does port 0");
	ok(glob_match_host(set, "a.good.test", 11, 443, true), "but the name");
	ok(!glob_match_path(set, "a.good.test", 11), "a host set has no paths");
	memset(text, 'a', sizeof(text));
	memcpy(text + 64, ".good.test", 10);
	ok(!glob_match_host(set, text, 74, 443, true), "a label of 64");
	ok(glob_match_host(set, text + 1, 73, 443, true), "a label of 63");
	ok(glob_set_add(set, "evil\0.good.test", 15, &why) == -1,
	    "a NUL in a host glob is refused");
	memset(text, 'a', sizeof(text));
	text[100] = '.';
	ok(glob_set_add(set, text, 120, &why) == -1, "a label over 63 as well");
	for (i = 50; i < sizeof(text); i += 50)
		text[i] = '.';
	text[100] = '.';
	ok(glob_set_add(set, text, 254, &why) == -1, "and 254 characters");
	ok(glob_set_add(set, text, 253, &why) == 0, "but 253 are fine");
	glob_set_free(set);
}

/* ---- sets, prefixes, sentences ---- */

static void
test_sentences(void)
{
	static const struct {
		enum glob_kind kind;
		const char *pattern;
		const char *part;
	} cases[] = {
	    {GLOB_MEMORY, "foo**", "as a whole segment: foo/**"},
	    {GLOB_MEMORY, "a{,b}", "write two globs"},
	    {GLOB_MEMORY, "[a", "close the class with ]"},
	    {GLOB_MEMORY, "{a", "close the brace with }"},
	    {GLOB_MEMORY, "a/", "write foo/**"},
	    {GLOB_MEMORY, "/memories/**", "write memories/**"},
	    {GLOB_MEMORY, "a/../b", "write the path without it"},
	    {GLOB_FILE, "srv/**", "with a leading /"},
	    {GLOB_RELATIVE, "{a,/b}", "one of them absolute"},
	    {GLOB_DOMAIN, "https://a.example", "write the host alone"},
	    {GLOB_DOMAIN, "b\xc3\xbc.example", "xn-- form"},
	    {GLOB_DOMAIN, "10.0.0.*", "write each address in full"},
	    {GLOB_DOMAIN, "fe80::1%eth0", "without zone"},
	};
	struct glob_set *set;
	const char *why;
	size_t i, wrong = 0;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set = glob_set_new(cases[i].kind);
		why = NULL;
		if (glob_set_add(set, cases[i].pattern,
			strlen(cases[i].pattern), &why) != -1 ||
		    why == NULL || strstr(why, cases[i].part) == NULL) {
			wrong++;
			printf("# %s: %s\n", cases[i].pattern,
			    why ? why : "(no sentence)");
		}
		glob_set_free(set);
	}
	is_int((long long)wrong, 0, "refusals say what to write instead");
}

static void
test_sets(void)
{
	struct glob_set *set = glob_set_new(GLOB_FILE);
	const char *why = NULL;
	char text[64];
	size_t i, failed = 0;
	bool good;

	ok(!glob_match_path(set, "/a", 2), "an empty set matches nothing");
	is_int((long long)glob_set_count(set), 0, "and counts 0");
	ok(glob_set_add(set, "/a\0b", 4, &why) == -1 && errno == EINVAL,
	    "a NUL in a pattern is refused");
	ok(!glob_match_path(set, "/a", 2), "and leaves nothing behind");
	for (i = 0; i < GLOB_SET_MAX; i++) {
		snprintf(text, sizeof(text), "/srv/d%zu/**/*.t?t", i);
		if (glob_set_add(set, text, strlen(text), &why) == -1)
			failed++;
	}
	is_int((long long)failed, 0, "a set can be filled");
	ok(glob_set_add(set, "/x", 2, &why) == -1 && errno == E2BIG,
	    "and then is full");
	is_int((long long)glob_set_count(set), GLOB_SET_MAX, "its count");
	is_str(glob_set_pattern(set, 4095), "/srv/d4095/**/*.t?t", "its last");
	ok(glob_match_path(set, "/srv/d4095/x/y.txt", 18), "which matches");
	good = glob_match_path(set, "/srv/d4096/x/y.txt", 18);
	ok(!good, "one that nobody added does not");
	glob_set_free(set);
	glob_set_free(NULL);
}

static void
test_prefix(void)
{
	static const struct {
		const char *pattern;
		const char *want;
	} cases[] = {
	    {"/srv/data/x?/y", "/srv/data"},
	    {"/srv/data/**", "/srv/data"},
	    {"/srv/data*/y", "/srv"},
	    {"/srv/{a,b}/c", "/srv"},
	    {"/srv/{a/b,c}/d", "/srv"},
	    {"/srv/a[b]/c", "/srv"},
	    {"/srv/a\\*b/c", "/srv"},
	    {"/srv/a]/c*", "/srv/a]"},
	    {"/srv/data/file", "/srv/data/file"},
	    {"/*", ""},
	    {"/**", ""},
	    {"/a*", ""},
	    {"memories/a/*", "memories/a"},
	    {"**/x", ""},
	    {"*", ""},
	};
	struct glob_set *set;
	const char *why, *text;
	char got[64];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text = cases[i].pattern;
		set = glob_set_new(text[0] == '/' ? GLOB_FILE : GLOB_MEMORY);
		if (glob_set_add(set, text, strlen(text), &why) == -1)
			exit(2);
		snprintf(got, sizeof(got), "%.*s", (int)glob_set_prefix(set, 0),
		    glob_set_pattern(set, 0));
		is_str(got, cases[i].want, text);
		glob_set_free(set);
	}
	set = glob_set_new(GLOB_DOMAIN);
	glob_set_add(set, "a.example.com", 13, &why);
	is_int((long long)glob_set_prefix(set, 0), 0, "a host has no prefix");
	glob_set_free(set);
}

/* ---- hostile patterns ---- */

static double
seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* The limit is generous: sanitizers and slow machines run this too. */
static void
hostile(const char *name, const char *pattern, const char *text, size_t len,
    char want)
{
	double start, took;
	const char *why;
	char got;

	start = seconds();
	got = judge(GLOB_MEMORY, pattern, strlen(pattern), text, len, &why);
	took = seconds() - start;
	ok(got == want && took < 20.0, "%s on %zu bytes (%.0f ms)", name, len,
	    took * 1000);
	if (got != want)
		printf("# got %c, expected %c\n", got, want);
}

/* Fill out with part again and again, then tail. */
static void
repeat(char *out, size_t size, const char *part, size_t times, const char *tail)
{
	out[0] = '\0';
	while (times-- > 0)
		strlcat(out, part, size);
	strlcat(out, tail, size);
}

static void
test_hostile(void)
{
	char p[4096], *text = malloc(LONG_TEXT);
	size_t i;

	if (text == NULL)
		exit(2);
	memset(text, 'a', LONG_TEXT);
	hostile("sixteen stars", "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*X", text,
	    LONG_TEXT, 'n');
	repeat(p, sizeof(p), "*a", 512, "");
	hostile("512 stars", p, text, 4096, 'y');
	hostile("512 stars", p, text, LONG_TEXT, 'y');
	repeat(p, sizeof(p), "*a", 511, "*X");
	hostile("512 stars, no end", p, text, LONG_TEXT, 'n');
	repeat(p, sizeof(p), "{a,b}", 30, "");
	hostile("30 pairs", p, text, 30, 'y');
	hostile("30 pairs", p, text, 31, 'n');
	repeat(p, sizeof(p), "{a,b}", 204, "*");
	hostile("204 pairs", p, text, LONG_TEXT, 'y');
	repeat(p, sizeof(p), "{*a,b}", 170, "");
	hostile("170 pairs with stars", p, text, LONG_TEXT, 'y');
	repeat(p, sizeof(p), "{a,a,", 204, "a");
	hostile("204 unclosed braces", p, text, LONG_TEXT, 'e');
	repeat(p, sizeof(p), "{", 1024, "");
	hostile("1,024 open braces", p, text, LONG_TEXT, 'e');
	repeat(p, sizeof(p), "{", 511, "a");
	repeat(p + 512, sizeof(p) - 512, "}", 511, "");
	hostile("511 nested braces", p, text, 1, 'y');
	p[0] = '*';
	hostile("a star and unbalanced braces", p, text, 1, 'e');
	p[0] = '{';
	p[510] = '*';
	hostile("510 nested braces round a star", p, text, 1, 'e');
	repeat(p, sizeof(p), "{", 500, "*a");
	repeat(p + 502, sizeof(p) - 502, "}", 500, "");
	hostile("500 nested braces round a star", p, text, LONG_TEXT, 'y');
	repeat(p, sizeof(p), "", 0, "*");
	repeat(p + 1, sizeof(p) - 1, "{", 500, "a");
	repeat(p + 502, sizeof(p) - 502, "}", 500, "");
	hostile("a star before 500 braces", p, text, 4096, 'y');
	hostile("a star before 500 braces", p, text, LONG_TEXT, 'y');
	repeat(p, sizeof(p), "{*a,", 128, "b");
	repeat(p + strlen(p), 1024, "}", 128, "");
	hostile("128 nested pairs", p, text, LONG_TEXT, 'y');
	repeat(p, sizeof(p), "{*,", 255, "b");
	repeat(p + strlen(p), 1024, "}", 255, "");
	hostile("255 nested stars", p, text, LONG_TEXT, 'y');
	repeat(p, sizeof(p), "a,", 510, "a}");
	memmove(p + 2, p, strlen(p) + 1);
	memcpy(p, "*{", 2);
	hostile("a star and 511 alternatives", p, text, 4096, 'y');
	p[1023] = '\0';
	for (i = 0; i < LONG_TEXT; i += 2)
		text[i] = '/';
	repeat(p, sizeof(p), "**/", 341, "a");
	hostile("341 double stars", p, text, 4096, 'y');
	hostile("341 double stars", p, text, LONG_TEXT, 'y');
	repeat(p, sizeof(p), "**/a/", 204, "X");
	hostile("204 double stars, no end", p, text + 1, LONG_TEXT - 1, 'n');
	repeat(p, sizeof(p), "{a,**}/", 146, "X");
	hostile("146 double stars in braces", p, text + 1, LONG_TEXT - 1, 'n');
	for (i = 0; i < LONG_TEXT; i += 2)
		memcpy(text + i, "\xc3\xa4", 2);
	repeat(p, sizeof(p), "*[!b]", 204, "");
	hostile("204 classes, two-byte letters", p, text, LONG_TEXT, 'y');
	repeat(p, sizeof(p), "a", 1024, "");
	hostile("1,024 bytes", p, "a", 1, 'n');
	repeat(p, sizeof(p), "a", 1025, "");
	hostile("1,025 bytes", p, "a", 1, 'e');
	free(text);
}

static void
test_many(void)
{
	struct glob_set *set = glob_set_new(GLOB_FILE);
	const char *path = "/srv/d999/some/longer/path/to/a/file.txt", *why;
	char text[64];
	double start;
	int i;
	bool good = true;

	start = seconds();
	for (i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "/srv/d%d/**/*.txt", i);
		good &= glob_set_add(set, text, strlen(text), &why) == 0;
	}
	printf("# 1,000 patterns compiled in %.1f ms\n",
	    (seconds() - start) * 1000);
	start = seconds();
	for (i = 0; i < 1000; i++)
		good &= glob_match_path(set, path, strlen(path));
	start = seconds() - start;
	ok(good && start < 5.0, "1,000 patterns (%.1f us a path)",
	    start * 1000);
	glob_set_free(set);
}

/* ---- a second matcher: expands braces, backtracks ---- */

#define TOKENS_MAX 160
#define LIST_MAX 64
#define T_STAR 0x100
#define T_SEGMENTS 0x101
#define T_ANY 0x102
#define T_CLASS 0x200

struct list {
	size_t n;
	size_t len[LIST_MAX];
	int tok[LIST_MAX][TOKENS_MAX];
};

static bool ref_class[16][128];
static int ref_classes;
static bool ref_bad;
static const char *ref_in;

static void
ref_append(struct list *l, int token)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		l->tok[i][l->len[i]++] = token;
}

static int
ref_read_class(void)
{
	bool *set = ref_class[ref_classes], negated = false;
	unsigned c, low, high;
	bool first = true;

	memset(set, 0, 128);
	if (*ref_in == '!' || *ref_in == '^') {
		negated = true;
		ref_in++;
	}
	for (; *ref_in != '\0' && (first || *ref_in != ']'); first = false) {
		if (*ref_in == '\\')
			ref_in++;
		low = high = (unsigned char)*ref_in & 0x7f;
		if (low != '\0')
			ref_in++;
		if (ref_in[0] == '-' && ref_in[1] != ']' && ref_in[1] != '\0') {
			ref_in++;
			if (*ref_in == '\\')
				ref_in++;
			high = (unsigned char)*ref_in & 0x7f;
			if (high != '\0')
				ref_in++;
		}
		if (low > high)
			ref_bad = true;
		for (c = low; c <= high; c++)
			set[c] = true;
	}
	if (*ref_in == '\0')
		ref_bad = true;
	else
		ref_in++;
	for (c = 0; negated && c < 128; c++)
		set[c] = !set[c];
	set['/'] = false;
	return T_CLASS + ref_classes++;
}

static void ref_sequence(struct list *, int);

static void
ref_braces(struct list *l, int depth)
{
	struct list *sum = calloc(1, sizeof(*sum));
	struct list *one = calloc(1, sizeof(*one));
	const char *start;
	size_t i, j, n;

	do {
		start = ref_in;
		one->n = 1;
		one->len[0] = 0;
		ref_sequence(one, depth + 1);
		if (ref_in == start || *ref_in == '\0')
			ref_bad = true;
		for (i = 0; !ref_bad && i < l->n; i++)
			for (j = 0; j < one->n; j++) {
				n = sum->n++;
				if (sum->n > LIST_MAX ||
				    l->len[i] + one->len[j] > TOKENS_MAX)
					exit(2);
				memcpy(sum->tok[n], l->tok[i],
				    l->len[i] * sizeof(int));
				memcpy(sum->tok[n] + l->len[i], one->tok[j],
				    one->len[j] * sizeof(int));
				sum->len[n] = l->len[i] + one->len[j];
			}
	} while (!ref_bad && *ref_in++ == ',');
	*l = *sum;
	free(sum);
	free(one);
}

static void
ref_sequence(struct list *l, int depth)
{
	int c;

	while (!ref_bad && (c = *ref_in) != '\0') {
		if (depth > 0 && (c == ',' || c == '}'))
			return;
		ref_in++;
		if (c == '}')
			ref_bad = true;
		else if (c == '{')
			ref_braces(l, depth);
		else if (c == '[')
			ref_append(l, ref_read_class());
		else if (c == '?')
			ref_append(l, T_ANY);
		else if (c == '*' && ref_in[0] == '*' && ref_in[1] == '*')
			ref_bad = true;
		else if (c == '*' && ref_in[0] == '*') {
			ref_in++;
			ref_append(l, T_SEGMENTS);
		} else if (c == '*')
			ref_append(l, T_STAR);
		else if (c != '\\')
			ref_append(l, c);
		else if (*ref_in == '\0')
			ref_bad = true;
		else
			ref_append(l, *ref_in++);
	}
}

/* One expansion: "**" whole, no leading slash, no odd segment. */
static bool
ref_good(const int *tok, size_t n)
{
	size_t i, start = 0;

	for (i = 0; i <= n; i++) {
		if (i < n && tok[i] == T_SEGMENTS) {
			if (i > 0 && tok[i - 1] != '/')
				return false;
			if (i + 1 < n && tok[i + 1] != '/')
				return false;
		}
		if (i < n && tok[i] != '/')
			continue;
		if (i == start)
			return false;
		if (i - start == 1 && tok[start] == '.')
			return false;
		if (i - start == 2 && tok[start] == '.' &&
		    tok[start + 1] == '.')
			return false;
		start = i + 1;
	}
	return true;
}

static bool
ref_free(const bool *kept, size_t from, size_t to)
{
	for (; from < to; from++)
		if (kept[from])
			return false;
	return true;
}

static bool
ref_match(const int *tok, size_t n, size_t i, const char *s, const bool *kept,
    size_t k)
{
	size_t end, len = strlen(s);

	for (; i < n; i++, k++) {
		if (tok[i] == T_STAR) {
			for (end = k;; end++) {
				if (ref_match(tok, n, i + 1, s, kept, end))
					return true;
				if (end == len || s[end] == '/' || kept[end])
					return false;
			}
		}
		if (tok[i] == T_SEGMENTS) {
			if (i + 1 == n)
				return ref_free(kept, k, len) &&
				       (i == 0 || (k < len && s[k] != '/'));
			if (ref_match(tok, n, i + 2, s, kept, k))
				return true;
			if (i > 0 && s[k] == '/')
				return false;
			for (end = k; end < len; end++)
				if (s[end] == '/' && ref_free(kept, k, end) &&
				    ref_match(tok, n, i + 2, s, kept, end + 1))
					return true;
			return false;
		}
		if (k == len)
			return false;
		if (tok[i] < 0x100 && tok[i] != s[k])
			return false;
		if (tok[i] >= 0x100 && (s[k] == '/' || kept[k]))
			return false;
		if (tok[i] >= T_CLASS &&
		    !ref_class[tok[i] - T_CLASS][(int)s[k]])
			return false;
	}
	return k == len;
}

/* Mark the characters of components that only letters may match. */
static void
ref_keep(const char *s, bool *kept)
{
	size_t i, n;

	for (i = 0; s[i] != '\0'; i += n + (s[i + n] != '\0')) {
		n = strcspn(s + i, "/");
		memset(kept + i,
		    n == 4 && (strncmp(s + i, ".git", 4) == 0 ||
				  strncmp(s + i, ".ssh", 4) == 0),
		    n);
		kept[i + n] = false;
	}
}

static char
ref_judge(const struct list *l, const char *text)
{
	bool kept[256] = {false};
	size_t i;

	ref_keep(text, kept);
	for (i = 0; i < l->n; i++)
		if (ref_match(l->tok[i], l->len[i], 0, text, kept, 0))
			return 'y';
	return 'n';
}

static uint64_t state;

static uint32_t
roll(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)((state >> 32) % below);
}

static void
random_pattern(char *out, size_t size)
{
	static const char *const piece[] = {"a", "b", ".", "/", "*", "?", "**",
	    "/**", "**/", "{a,b}", "{", "}", ",", "{a,**}/", "/{**,b}",
	    "{a/,b/}", "[ab]", "[!a]", "[.-0]", "[^]a]", "\\*", "\\", ".git",
	    ".ssh", ".g", "it", "{.git,a}", "/.git", "[.]git", "?git",
	    "{*a,b*}", "a/", "/b"};
	static const char letters[] = "ab/.*?{},";
	uint32_t i, n = 0;

	/* At times long enough to need a second word of states. */
	if (roll(4) == 0)
		for (i = 52 + roll(14); n < i; n++)
			out[n] = "a?"[roll(2)];
	if (n > 0 && roll(2) == 0)
		out[n++] = '/';
	out[n] = '\0';
	if (roll(3) == 0) {
		for (i = 1 + roll(10); i > 0; i--)
			out[n++] = letters[roll(sizeof(letters) - 1)];
		out[n] = '\0';
		return;
	}
	for (n = 1 + roll(6); n > 0; n--)
		strlcat(
		    out, piece[roll(sizeof(piece) / sizeof(piece[0]))], size);
}

/* A text that one expansion is likely to match. */
static void
text_from(const int *tok, size_t n, char *out, size_t size)
{
	static const char *const run[] = {"", "a", "b.", ".", "ab"};
	static const char *const many[] = {
	    "a", "b/a", "a/.git", "a/b/a", ".git", ".ssh/b"};
	char one[2] = {0};
	size_t i;

	out[0] = '\0';
	for (i = 0; i < n; i++) {
		one[0] = (char)tok[i];
		if (tok[i] == T_STAR)
			strlcat(out, run[roll(5)], size);
		else if (tok[i] == T_SEGMENTS && i + 1 < n && roll(2) == 0)
			i++;
		else if (tok[i] == T_SEGMENTS)
			strlcat(out, many[roll(6)], size);
		else if (tok[i] >= 0x100) {
			one[0] = "ab.*]"[roll(5)];
			strlcat(out, one, size);
		} else
			strlcat(out, one, size);
	}
	n = strlen(out);
	if (n > 0 && roll(3) == 0)
		out[roll((uint32_t)n)] = "ab/."[roll(4)];
}

static void
random_text(char *out, size_t size)
{
	static const char *const piece[] = {"a", "b", ".", "/", "/", "ab",
	    ".git", ".ssh", ".git/", "*", "{", ","};
	uint32_t n;

	out[0] = '\0';
	for (n = roll(7); n > 0; n--)
		strlcat(
		    out, piece[roll(sizeof(piece) / sizeof(piece[0]))], size);
}

struct tally {
	long pairs, matches, refused, wrong;
};

static void
compare(const char *pattern, struct list *l, struct tally *t)
{
	struct glob_set *set = glob_set_new(GLOB_MEMORY);
	const char *why;
	char text[256], want, got;
	size_t i;
	bool good = true, taken;

	ref_in = pattern;
	ref_bad = false;
	ref_classes = 0;
	l->n = 1;
	l->len[0] = 0;
	ref_sequence(l, 0);
	for (i = 0; !ref_bad && i < l->n; i++)
		good &= ref_good(l->tok[i], l->len[i]);
	good &= !ref_bad;
	taken = glob_set_add(set, pattern, strlen(pattern), &why) == 0;
	if (taken != good && t->wrong++ < 10)
		printf("# %s: %s, expected the opposite\n", pattern,
		    taken ? "accepted" : why);
	t->refused += !taken;
	for (i = 0; taken && good && i < 12; i++) {
		if (i < 8)
			text_from(l->tok[i % l->n], l->len[i % l->n], text,
			    sizeof(text));
		else
			random_text(text, sizeof(text));
		want = ref_judge(l, text);
		got = glob_match_path(set, text, strlen(text)) ? 'y' : 'n';
		t->pairs++;
		t->matches += got == 'y';
		if (got != want && t->wrong++ < 10)
			printf("# %s on %s: %c, expected %c\n", pattern, text,
			    got, want);
	}
	glob_set_free(set);
}

static void
test_random(void)
{
	struct tally t = {0};
	struct list *l = calloc(1, sizeof(*l));
	const char *seed = getenv("MODEL_SEED"), *s = getenv("MODEL_TRIES");
	long tries = s == NULL ? 400000 : atol(s);
	char pattern[128];

	state = seed != NULL ? strtoull(seed, NULL, 10)
			     : (uint64_t)time(NULL) * 1000003 + 1;
	printf("# MODEL_SEED=%llu\n", (unsigned long long)state);
	while (t.pairs < tries) {
		random_pattern(pattern, sizeof(pattern));
		compare(pattern, l, &t);
	}
	free(l);
	printf("# %ld pairs, %ld matches, %ld patterns refused\n", t.pairs,
	    t.matches, t.refused);
	ok(t.matches > tries / 8 && t.pairs - t.matches > tries / 8 &&
		t.refused > tries / 400,
	    "random pairs are worth comparing");
	is_int(t.wrong, 0, "both matchers agree on every random pair");
}

/* Which directories are worth a look. */
static void
test_reaches(void)
{
	static const struct {
		enum glob_kind kind;
		const char *pattern, *dir;
		bool want;
	} rows[] = {
	    {GLOB_FILE, "/a/b/*.txt", "", true},
	    {GLOB_FILE, "/a/b/*.txt", "/a", true},
	    {GLOB_FILE, "/a/b/*.txt", "/a/b", true},
	    {GLOB_FILE, "/a/b/*.txt", "/a/b/c", false},
	    {GLOB_FILE, "/a/b/*.txt", "/a/bc", false},
	    {GLOB_FILE, "/a/b/*.txt", "/b", false},
	    {GLOB_FILE, "/a/b", "/a", true},
	    {GLOB_FILE, "/a/b", "/a/b", false},
	    {GLOB_FILE, "/a/**", "/a", true},
	    {GLOB_FILE, "/a/**", "/a/x/y", true},
	    {GLOB_FILE, "/a/**", "/b", false},
	    {GLOB_FILE, "/**/x", "/q/r", true},
	    {GLOB_FILE, "/**/x", "/q/.git", false},
	    {GLOB_FILE, "/**/.git/x", "/q/.git", true},
	    {GLOB_FILE, "/a/?/c", "/a/b", true},
	    {GLOB_FILE, "/a/?/c", "/a/bb", false},
	    {GLOB_FILE, "/a/{b,c/d}/e", "/a/c", true},
	    {GLOB_FILE, "/a/{b,c/d}/e", "/a/c/d", true},
	    {GLOB_FILE, "/a/{b,c/d}/e", "/a/d", false},
	    {GLOB_FILE, "/a/[bc]/x*", "/a/c", true},
	    {GLOB_FILE, "/a/[bc]/x*", "/a/c/x", false},
	    {GLOB_FILE, "/a/**", "/a/\xff", false},
	    {GLOB_MEMORY, "memories/ok/**", "", true},
	    {GLOB_MEMORY, "memories/ok/**", "memories", true},
	    {GLOB_MEMORY, "memories/ok/**", "memories/ok", true},
	    {GLOB_MEMORY, "memories/ok/**", "memories/hr", false},
	    {GLOB_MEMORY, "**", "a/b/c", true},
	    {GLOB_RELATIVE, "a/*", "", true},
	    {GLOB_RELATIVE, "a/*", "a", true},
	    {GLOB_RELATIVE, "a/*", "b", false},
	    {GLOB_DOMAIN, "*.example.com", "", false},
	};
	const char *why;
	unsigned wrong = 0;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct glob_set *set = glob_set_new(rows[i].kind);

		if (glob_set_add(set, rows[i].pattern, strlen(rows[i].pattern),
			&why) == -1 ||
		    glob_set_reaches(set, rows[i].dir, strlen(rows[i].dir)) !=
			rows[i].want) {
			printf("# %s, %s\n", rows[i].pattern, rows[i].dir);
			wrong++;
		}
		glob_set_free(set);
	}
	is_int(wrong, 0, "what a directory can hold is told by its path");
}

int
main(void)
{
	test_vectors();
	test_paths();
	test_hosts();
	test_sentences();
	test_sets();
	test_prefix();
	test_hostile();
	test_many();
	test_random();
	test_reaches();
	return done();
}
