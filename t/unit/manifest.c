/*
 * enforce/manifest and enforce/yaml: the table of whole SKILL.md files, the
 * YAML oddities, and what the tables do not reach: places, messages, ceilings,
 * versions, the hash.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "enforce/manifest.h"
#include "enforce/yaml.h"
#include "t/unit/tap.h"

#define VECTORS "t/vectors/yaml/"

/* A file that is fine but for what is put into its last line. */
#define HEAD                                                                   \
	"---\nid: demo\nversion: 1.0.0\n"                                      \
	"description: A demo skill\n"                                          \
	"allowed_memory_scopes: []\nallowed_tools: []\n"
#define FILE_OF(line) HEAD line "\n---\n# Body\n"

static const char *const tools[] = {"Bash", "Read", "Write", "Edit", "Glob",
    "Grep", "MemoryRead", "MemorySearch", "MemoryEmit", "HttpFetch", "HttpPost",
    NULL};

static struct policy policy;

struct expect {
	const char *text;
	const char *code; /* "" for no error */
	const char *field;
	unsigned line, column; /* 0: any */
	const char *says;      /* part of the message */
};

static void
parse_n(struct manifest *m, const char *text, size_t len)
{
	char *copy = malloc(len == 0 ? 1 : len);

	/* A copy of exact size, for the sanitizer to see every overrun. */
	memcpy(copy, text, len);
	if (manifest_parse(copy, len, &policy, tools, "1.0.0", m) != 0)
		ok(false, "manifest_parse: %s", strerror(errno));
	free(copy);
}

static void
parse(struct manifest *m, const char *text)
{
	parse_n(m, text, strlen(text));
}

static const struct manifest_error *
find(const struct manifest *m, const char *code)
{
	size_t i;

	for (i = 0; i < m->errors_n; i++)
		if (strcmp(manifest_code_word(m->errors[i].code), code) == 0)
			return &m->errors[i];
	return NULL;
}

/* The error that is expected, or NULL. */
static const struct manifest_error *
match(const struct manifest *m, const struct expect *x)
{
	const struct manifest_error *e;

	for (e = m->errors; e < m->errors + m->errors_n; e++)
		if (strcmp(manifest_code_word(e->code), x->code) == 0 &&
		    strstr(e->message, x->says) != NULL &&
		    strcmp(e->field, x->field) == 0 &&
		    (x->line == 0 || e->line == x->line) &&
		    (x->column == 0 || e->column == x->column))
			return e;
	return NULL;
}

static void
show(const struct manifest *m)
{
	size_t i;

	for (i = 0; i < m->errors_n; i++)
		printf("# %u:%u: %s: %s: %s\n", m->errors[i].line,
		    m->errors[i].column, m->errors[i].field,
		    manifest_code_word(m->errors[i].code),
		    m->errors[i].message);
}

static char *
slurp(const char *name, size_t *len)
{
	char path[PATH_MAX];
	char *text = malloc(1 << 20);
	FILE *f;

	snprintf(path, sizeof(path), VECTORS "%s", name);
	f = fopen(path, "rb");
	if (f == NULL) {
		printf("Bail out! %s: %s\n", path, strerror(errno));
		exit(1);
	}
	*len = fread(text, 1, 1 << 20, f);
	fclose(f);
	return text;
}

static bool
frontmatter_row(const char *name, const char *verdict, const char *code)
{
	struct manifest m;
	size_t len;
	char *text = slurp(name, &len);
	bool good;

	parse_n(&m, text, len);
	good = (m.errors_n == 0) == (strcmp(verdict, "accept") == 0) &&
	       (code[0] == '\0' || find(&m, code) != NULL);
	ok(good, "%s: %s %s", name, verdict, code);
	if (!good)
		show(&m);
	manifest_clear(&m);
	free(text);
	return good;
}

static void
test_frontmatter(void)
{
	char line[1024], *name, *verdict, *code, *rest;
	FILE *f = fopen(VECTORS "frontmatter.tsv", "r");
	unsigned n = 0;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		if (line[0] == '#')
			continue;
		rest = line;
		name = strsep(&rest, "\t");
		verdict = strsep(&rest, "\t");
		code = strsep(&rest, "\t");
		frontmatter_row(name, verdict, code);
		n++;
	}
	if (f != NULL)
		fclose(f);
	is_int(n, 101, "all files of the table");
}

static void
count_fault(void *arg, enum yaml_fault fault, const char *field, unsigned line,
    unsigned column, const char *message)
{
	(void)fault;
	(void)field;
	(void)message;
	if (line > 0 && column > 0)
		++*(unsigned *)arg;
}

/*
 * The suite's texts as YAML: whatever is invalid must be refused; what is
 * valid may be, since we take less. J3BT and the like must pass.
 */
static void
test_suite(void)
{
	static const char *const taken[] = {
	    "suite/J3BT.yaml", "suite/UDM2.yaml"};
	char line[1024], *name, *valid, *rest, *text;
	FILE *f = fopen(VECTORS "suite.tsv", "r");
	struct yaml_source src;
	struct yaml_tree tree;
	unsigned faults, n = 0, i;
	bool good, refused;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		if (line[0] == '#')
			continue;
		rest = line;
		name = strsep(&rest, "\t");
		strsep(&rest, "\t");
		strsep(&rest, "\t");
		valid = strsep(&rest, "\t\n");
		faults = 0;
		memset(&src, 0, sizeof(src));
		text = slurp(name, &src.len);
		src.text = text;
		src.first_line = 1;
		src.items_max = 2000;
		src.start_marker = true;
		src.report = count_fault;
		src.arg = &faults;
		good = yaml_tree_read(&tree, &src) == 0;
		refused = faults > 0;
		good = good && (tree.whole || refused);
		yaml_tree_clear(&tree);
		free(text);
		for (i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
			if (strcmp(name, taken[i]) == 0)
				good = good && !refused;
		if (strcmp(valid, "no") == 0)
			good = good && refused;
		ok(good, "%s: valid %s, %s", name, valid,
		    refused ? "refused" : "taken");
		n++;
	}
	if (f != NULL)
		fclose(f);
	is_int(n, 25, "all files of the suite");
}

static const struct expect expectations[] = {
    /* places */
    {FILE_OF("tags: [no, on, yes]"), "", "", 0, 0, ""},
    {FILE_OF("tags: [ok, 010]"), "InvalidType", "tags", 7, 12, "\"010\""},
    {FILE_OF("tags: [\xc3\xa9\xc3\xa9, 08]"), "InvalidType", "tags", 7, 12, ""},
    {FILE_OF("tags: [a, ~]"), "InvalidType", "tags", 7, 11, ""},
    {FILE_OF("tags: [1.0]"), "InvalidType", "tags", 7, 8, ""},
    {FILE_OF("sync_class: no"), "InvalidValue", "sync_class", 7, 13, "private"},
    {FILE_OF("sync_class: sharable"), "InvalidValue", "sync_class", 7, 13,
	"did you mean `shareable`"},
    {FILE_OF("tenant_scope: pinned"), "", "", 0, 0, ""},
    /* keys */
    {FILE_OF("allowed-tools: [Read]"), "UnknownField", "allowed-tools", 7, 1,
	"did you mean `allowed_tools`"},
    {FILE_OF("Allowed_Tools: [Read]"), "UnknownField", "Allowed_Tools", 7, 1,
	"did you mean `allowed_tools`"},
    {FILE_OF("allowed_tool: [Read]"), "UnknownField", "allowed_tool", 7, 1,
	"did you mean `allowed_tools`"},
    {FILE_OF("effort_minuets: 3"), "UnknownField", "effort_minuets", 7, 1,
	"did you mean `effort_minutes`"},
    {FILE_OF("name: demo"), "UnknownField", "name", 7, 1, "did you mean `id`"},
    {FILE_OF("license: MIT"), "UnknownField", "license", 7, 1,
	"begin a key of your own with `x-`"},
    {FILE_OF("allowed_tools: [Bash]"), "DuplicateKey", "allowed_tools", 7, 1,
	"line 6"},
    {FILE_OF("x-a: {b: {c: 1, c: 2}}"), "DuplicateKey", "x-a.b.c", 7, 17, ""},
    {FILE_OF("1: a"), "UnknownField", "1", 7, 1, ""},
    {"---\nid: demo\n---\n", "MissingField", "allowed_tools", 1, 1,
	"allowed_tools: []"},
    /* tools */
    {FILE_OF("disallowed_tools: [Raed]"), "UnknownTool", "disallowed_tools", 7,
	20, "did you mean `Read`"},
    {FILE_OF("disallowed_tools: [bash]"), "UnknownTool", "disallowed_tools", 7,
	20, "did you mean `Bash`"},
    {FILE_OF("disallowed_tools: [WebFetch]"), "UnknownTool", "disallowed_tools",
	7, 20, "did you mean `HttpFetch`"},
    {FILE_OF("disallowed_tools: [mcp__x__y]"), "UnknownTool",
	"disallowed_tools", 7, 20, "MCP"},
    {FILE_OF("disallowed_tools: [\"Bash(git:*)\"]"), "UnknownTool",
	"disallowed_tools", 7, 20, "write `Bash`"},
    {FILE_OF("disallowed_tools: [Read, Read]"), "", "", 0, 0, ""},
    {FILE_OF("disallowed_tools: Read"), "InvalidType", "disallowed_tools", 7,
	19, "list"},
    {FILE_OF("disallowed_tools:"), "InvalidType", "disallowed_tools", 7, 0,
	"write []"},
    {FILE_OF("disallowed_tools: [[Read]]"), "InvalidType", "disallowed_tools",
	7, 20, ""},
    {FILE_OF("disallowed_tools: {Read: 1}"), "InvalidType", "disallowed_tools",
	7, 19, ""},
    /* numbers and ceilings */
    {FILE_OF("effort_minutes: 1440"), "", "", 0, 0, ""},
    {FILE_OF("effort_minutes: 1441"), "InvalidValue", "effort_minutes", 7, 17,
	"1 to 1440"},
    {FILE_OF("effort_minutes: 0"), "InvalidValue", "effort_minutes", 7, 17, ""},
    {FILE_OF("effort_minutes: -5"), "InvalidValue", "effort_minutes", 7, 17,
	""},
    {FILE_OF("effort_minutes: ! 30"), "YamlParse", "effort_minutes", 7, 17,
	"tags"},
    {FILE_OF("tags: [! \"a\"]"), "YamlParse", "tags", 7, 8, "tags"},
    {FILE_OF("tags: ! [a]"), "YamlParse", "tags", 7, 7, "tags"},
    {FILE_OF("x-memory-mb: 512"), "", "", 0, 0, ""},
    {FILE_OF("x-memory-mb: 513"), "InvalidValue", "x-memory-mb", 7, 14,
	"`max_memory_mb`, which is 512"},
    {FILE_OF("x-memory-mb: 0"), "InvalidValue", "x-memory-mb", 7, 14, ""},
    {FILE_OF("x-max-processes: 9"), "InvalidValue", "x-max-processes", 7, 18,
	"max_processes"},
    {FILE_OF("x-max-calls-per-minute: 100000"), "", "", 0, 0, ""},
    {FILE_OF("x-max-calls-per-minute: none"), "InvalidType",
	"x-max-calls-per-minute", 7, 25, ""},
    {FILE_OF("x-max-processes: 18446744073709551617"), "InvalidValue",
	"x-max-processes", 7, 18, ""},
    /* versions */
    {FILE_OF("min_broker_version: 1.0.0"), "", "", 0, 0, ""},
    {FILE_OF("min_broker_version: 1.0.0-rc.1"), "", "", 0, 0, ""},
    {FILE_OF("min_broker_version: 1.0.1"), "BrokerTooOld", "min_broker_version",
	7, 21, ""},
    {FILE_OF("max_broker_version: 1.0.0+build"), "", "", 0, 0, ""},
    {FILE_OF("max_broker_version: 0.9.9"), "BrokerTooNew", "max_broker_version",
	7, 21, ""},
    {FILE_OF("max_broker_version: 1.0.0-rc.1"), "BrokerTooNew",
	"max_broker_version", 7, 21, ""},
    {FILE_OF("min_broker_version: 1.0"), "InvalidVersion", "min_broker_version",
	7, 21, "1.0.0"},
    {FILE_OF("min_broker_version: ~"), "InvalidType", "min_broker_version", 7,
	21, ""},
    /* globs */
    {FILE_OF("x-allowed-files: [srv/x]"), "InvalidFileGlob", "x-allowed-files",
	7, 19, "absolute"},
    {FILE_OF("x-allowed-files: [\"/a/[b\"]"), "InvalidFileGlob",
	"x-allowed-files", 7, 19, "close the class"},
    {FILE_OF("x-allowed-domains: [\"a b\"]"), "InvalidDomainGlob",
	"x-allowed-domains", 7, 21, ""},
    {FILE_OF("x-allowed-domains: [\"*.example.com\", \"a.de:8443\"]"), "", "",
	0, 0, ""},
    {"---\nid: a\nversion: 1.0.0\ndescription: d\n"
     "allowed_memory_scopes: [memories/**x]\nallowed_tools: []\n---\n",
	"InvalidMemoryScopeGlob", "allowed_memory_scopes", 5, 25,
	"whole segment"},
    /* the rest of the fields */
    {FILE_OF("tags: [a, b, c, d, e, f, g, h, i, j]"), "", "", 0, 0, ""},
    {FILE_OF("tags: [a, b, c, d, e, f, g, h, i, j, k]"), "InvalidValue", "tags",
	7, 38, "more than 10"},
    {FILE_OF("tags: [1234567890123456789012345678901x]"), "InvalidValue",
	"tags", 7, 8, "30"},
    {FILE_OF("x-files-sha256: abc"), "InvalidValue", "x-files-sha256", 7, 17,
	"64"},
    {FILE_OF("x-files-sha256: 0123456789abcdef0123456789abcdef"
	     "0123456789abcdef0123456789abcdef"),
	"", "", 0, 0, ""},
    {FILE_OF("signature:\n  algo: ed25519"), "SignatureFailed", "signature", 7,
	1, "last four lines"},
    {FILE_OF("signature:"), "SignatureFailed", "signature", 7, 1, ""},
    {FILE_OF("signature: &a x"), "SignatureFailed", "signature", 7, 1, ""},
    {FILE_OF("\"signature\": false"), "SignatureFailed", "signature", 7, 1, ""},
    /* text that no one can see, or that changes what is seen */
    {FILE_OF("x-a: \"a\\u200bb\""), "InvalidValue", "x-a", 7, 6, "U+200B"},
    {FILE_OF("x-a: {\"b\\e\": 1}"), "InvalidValue", "x-a.b\\x1b", 7, 7,
	"U+001B"},
    {FILE_OF("x-a: \"a\\tb\\nc\""), "", "", 0, 0, ""},
    {FILE_OF("\"x-a\\tb\": 1"), "InvalidValue", "x-a\\tb", 7, 1, ""},
    {FILE_OF("x-a: \"\\L\""), "InvalidValue", "x-a", 7, 6, "U+2028"},
    {FILE_OF("x-a: a\x01"
	     "b"),
	"YamlParse", "", 7, 7, "control"},
    {FILE_OF("x-a: \xc3\xa9\xff"), "YamlParse", "", 7, 7, "UTF-8"},
    {FILE_OF("x-a: a\xef\xbb\xbf"
	     "b"),
	"YamlParse", "", 7, 7, "byte order mark"},
    {FILE_OF("x-a: \xed\xa0\x80"), "YamlParse", "", 7, 6, "UTF-8"},
    {FILE_OF("x-a: \xc0\xaf"), "YamlParse", "", 7, 6, "UTF-8"},
    {FILE_OF("x-a: a\xe2\x80\xa8"
	     "b"),
	"YamlParse", "", 7, 7, "line separator"},
    {"---\nid: 12\nversion: 1.0.0\n---\n", "InvalidType", "id", 2, 5, "\"12\""},
    {"---\nid: true\n---\n", "InvalidType", "id", 2, 5, "\"true\""},
    {"---\nid: Demo\n---\n", "InvalidId", "id", 2, 5, "lower-case"},
    {"---\nid: 1demo\n---\n", "InvalidId", "id", 2, 5, ""},
    {"---\nid: a23456789012345678901234567890123456789012345678901234567"
     "89012345\n---\n",
	"InvalidId", "id", 2, 5, "64"},
    /* syntax, with advice */
    {FILE_OF("x-a: Use when: now"), "YamlParse", "x-a", 7, 14, "quotes"},
    {FILE_OF("x-allowed-files: **/*.c"), "YamlParse", "x-allowed-files", 7, 0,
	"needs quotes"},
    {FILE_OF("x-allowed-files: [/a/**, *.c]"), "YamlParse", "x-allowed-files",
	7, 0, "needs quotes"},
    {FILE_OF("x-allowed-files: *foo"), "YamlParse", "x-allowed-files", 7, 18,
	"needs quotes"},
    {FILE_OF("x-allowed-files: !foo"), "YamlParse", "x-allowed-files", 7, 18,
	"needs quotes"},
    {FILE_OF("x-allowed-files: {a,b}/**"), "YamlParse", "x-allowed-files", 7,
	23, "quotes"},
    {FILE_OF("x-a:\n\tb: 1"), "YamlParse", "x-a", 8, 1, "tabs"},
    {FILE_OF("x-a: @b"), "YamlParse", "x-a", 7, 6, "quotes"},
    {FILE_OF("x-a: \"b"), "YamlParse", "x-a", 7, 6, "quotes"},
    {FILE_OF("argument-hint: [action] [args]"), "YamlParse", "argument-hint", 7,
	25, "was not looked at"},
    /* at the key that lacks a blank, not at the line below */
    {FILE_OF("x-a:b\nx-c: []"), "YamlParse", "x-a", 7, 1, "put a blank after"},
    {FILE_OF("x-c: []\nx-a:b"), "YamlParse", "x-a", 8, 1, "put a blank after"},
    {FILE_OF("x-c:\n  d: {}\nx-a:>-\n  e: f"), "YamlParse", "x-a", 9, 1,
	"put a blank after"},
    {FILE_OF("x-c:\n- d\nx.a:b\nx-c: [e]"), "YamlParse", "x.a", 9, 1,
	"put a blank after"},
    {FILE_OF("x-c:\n  d:\n    e: f\n  g:h\n  i: {}"), "YamlParse", "x-c", 10, 3,
	"put a blank after"},
    {FILE_OF("x-c:\n  - d: e\n    g:h\n    i: {}"), "YamlParse", "x-c", 9, 5,
	"put a blank after"},
    {"---\nid:a\nversion: 1.0.0\n---\n", "YamlParse", "id", 2, 1,
	"put a blank after"},
    {"---\r\n# b\r\nid:a\r\n\r\nversion:1\r\nx-a: []\r\n---\r\n", "YamlParse",
	"id", 3, 1, "put a blank after"},
    {FILE_OF("x-a: # b\n  c:d\n  e: {}"), "YamlParse", "x-a", 8, 3,
	"put a blank after"},
    {FILE_OF("x-a:\n  - c:d\n    e: {}"), "YamlParse", "x-a", 8, 5,
	"put a blank after"},
    {FILE_OF("x-a: b\n  c:d\n  e: f"), "YamlParse", "x-a", 9, 4, "quotes"},
    {FILE_OF("x-a: b\n  http://d\n  e: f"), "YamlParse", "x-a", 9, 4, "quotes"},
    {FILE_OF("x-a\nx-c: []"), "YamlParse", "x-a", 7, 1, "\"key: value\""},
    {FILE_OF("x-a: b\n[c\nd: e"), "YamlParse", "x-a", 8, 1, "close what was"},
    /* at the bracket that is open, not where that is noticed */
    {FILE_OF("tags: [a, b\nx-a: [c]\nx-d: e"), "YamlParse", "tags", 7, 7,
	"close what was"},
    {FILE_OF("tags: [a, b"), "YamlParse", "tags", 7, 7, "close what was"},
    {FILE_OF("x-a: {b: c # d\n\nx-e: f"), "YamlParse", "x-a", 7, 6,
	"close what was"},
    {FILE_OF("x-a:\n  b: [c,\n    d\n  e: f"), "YamlParse", "x-a.b", 8, 6,
	"close what was"},
    {FILE_OF("x-a:\n  - [c,\n     d\n  - e"), "YamlParse", "x-a", 8, 5,
	"close what was"},
    {FILE_OF("tags: [\n  \"a\"\n  \"b\"\n]"), "YamlParse", "tags", 9, 3, ""},
    {FILE_OF("tags: [a, {b: c]"), "YamlParse", "tags", 7, 16, ""},
    {FILE_OF("--- b"), "YamlParse", "", 0, 0, ""},
    {FILE_OF("[a]: b"), "YamlParse", "", 7, 1, "key"},
    /* fences */
    {"\n---\n---\n", "MissingFrontmatter", "", 1, 1, "line 1"},
    {"\xef\xbb\xbf---\r\n---\r\n", "YamlParse", "", 2, 1, "empty"},
    {"---\t \r\nid: Q\r\n--- \t\r\n", "InvalidId", "id", 2, 5, ""},
    {"---\nid: Q\n----\n", "MissingFrontmatter", "", 1, 1, "no end"},
    {"---", "MissingFrontmatter", "", 1, 1, "no end"},
    {"---\rid: a\r---\r", "MissingFrontmatter", "", 1, 1, "carriage"},
    {"\xff\xfe-\0-\0", "MissingFrontmatter", "", 1, 1, "UTF-16"},
};

static void
test_expectations(void)
{
	const struct expect *x;
	struct manifest m;
	char name[80];
	const char *at;
	size_t i;
	bool good;

	for (i = 0; i < sizeof(expectations) / sizeof(expectations[0]); i++) {
		x = &expectations[i];
		parse(&m, x->text);
		good =
		    x->code[0] == '\0' ? m.errors_n == 0 : match(&m, x) != NULL;
		at = strncmp(x->text, HEAD, strlen(HEAD)) == 0
			 ? x->text + strlen(HEAD)
			 : x->text;
		ok(good, "%s %s: %s", x->code[0] ? x->code : "fine", x->field,
		    manifest_printable(name, sizeof(name), at));
		if (!good)
			show(&m);
		manifest_clear(&m);
	}
}

/* Everything of a file in one go, in the order of places. */
static void
test_all_at_once(void)
{
	struct manifest m;
	size_t i;
	bool sorted = true;

	parse(&m, "---\nid: Bad\nversion: 1.0\ndescription: \"\"\nfoo: 1\n"
		  "allowed_tools: [Raed, mcp__a, 7]\nallowed_tools: []\n"
		  "effort_minutes: x\nx-a: &b c\ntags: *b\n---\n");
	is_int((long long)m.errors_n, 12, "all errors of a file");
	for (i = 1; i < m.errors_n; i++)
		if (m.errors[i - 1].line > m.errors[i].line)
			sorted = false;
	ok(sorted, "in the order of their places");
	if (m.errors_n != 12 || !sorted)
		show(&m);
	manifest_clear(&m);

	parse(&m, "---\nid: Bad\nfoo: 1\nx-a: b: c\nversion: 1\n---\n");
	ok(m.errors_n == 3 && find(&m, "InvalidId") != NULL &&
		find(&m, "UnknownField") != NULL &&
		find(&m, "MissingField") == NULL &&
		strstr(m.errors[2].message, "not looked at") != NULL,
	    "what came before a syntax error is listed, the rest is not "
	    "guessed");
	manifest_clear(&m);
}

static void
test_values(void)
{
	struct manifest m;

	parse(&m,
	    "---\nid: demo-2\nversion: 1.2.3-a+b\ndescription: >-\n  a\n  b\n"
	    "allowed_memory_scopes: [memories/**]\nallowed_tools: [Read, Bash, "
	    "Read]\ndisallowed_tools: [Bash]\nsync_class: shareable\n"
	    "tenant_scope: \"pinned\"\neffort_minutes: 5\nx-memory-mb: 64\n"
	    "x-max-processes: 2\nx-max-calls-per-minute: 9\n"
	    "x-allowed-files: [/tmp/**]\nx-allowed-domains: [a.de]\n---\n");
	is_int((long long)m.errors_n, 0, "a file with everything");
	show(&m);
	is_str(m.id, "demo-2", "id");
	is_str(m.version, "1.2.3-a+b", "version");
	is_str(m.description, "a b", "description");
	ok(m.tools_n == 2 && strcmp(m.tools[1], "Bash") == 0,
	    "tools, twice is once");
	ok(m.disallowed_n == 1, "denied tools");
	ok(m.shareable && m.pinned, "words");
	ok(m.effort_minutes == 5 && m.memory_mb == 64 && m.max_processes == 2 &&
		m.max_calls_per_minute == 9,
	    "numbers");
	ok(glob_set_count(m.memory_scopes) == 1 &&
		glob_set_count(m.files) == 1 && glob_set_count(m.domains) == 1,
	    "globs");
	manifest_clear(&m);

	policy.max_effort_minutes = 10;
	policy.max_memory_mb = 128;
	policy.max_processes = 4;
	policy.max_calls_per_minute = 7;
	parse(&m, FILE_OF(""));
	ok(m.errors_n == 0 && m.effort_minutes == 10 && m.memory_mb == 128 &&
		m.max_processes == 4 && m.max_calls_per_minute == 7,
	    "the operator's ceilings lower the defaults");
	manifest_clear(&m);
	parse(&m, FILE_OF("effort_minutes: 11"));
	ok(m.errors_n == 1 &&
		strstr(m.errors[0].message, "max_effort_minutes") != NULL,
	    "and what the file asks for");
	manifest_clear(&m);
	policy_clear(&policy);
	policy_init(&policy);
}

static void
test_hash(void)
{
	/* sha256 of the fields of FILE_OF(""), without the last line feed */
	static const char *const same[] = {HEAD "---\n",
	    HEAD "\n  \n---\t\n# other body\n",
	    "\xef\xbb\xbf---\r\nid: demo\r\nversion: 1.0.0\r\n"
	    "description: A demo skill\r\nallowed_memory_scopes: []\r\n"
	    "allowed_tools: []\r\n---\r\n"};
	struct manifest first, m;
	size_t i;

	parse(&first, same[0]);
	is_str(first.frontmatter_hash,
	    "9f2940bdf53dfadc189efd1ec862a3b132e5a8cf050dcc5b09fde4f24f3bd013",
	    "the hash");
	for (i = 1; i < sizeof(same) / sizeof(same[0]); i++) {
		parse(&m, same[i]);
		is_str(m.frontmatter_hash, first.frontmatter_hash,
		    "the same for other line ends, blanks around, body");
		is_int((long long)m.errors_n, 0, "and no error");
		manifest_clear(&m);
	}
	manifest_clear(&first);
	parse(&m, FILE_OF("x-a: 1"));
	ok(strlen(m.frontmatter_hash) == 64, "another one for another text");
	manifest_clear(&m);
}

static void
test_versions(void)
{
	/* SemVer 2.0.0, section 11, and the ends of the grammar. */
	static const char *const rising[] = {"0.0.0", "0.0.1-0", "0.0.1",
	    "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta",
	    "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1-0",
	    "1.0.1", "1.2.0", "1.10.0", "2.0.0", "99999999999999999999.0.0",
	    "100000000000000000000.0.0"};
	static const char *const bad[] = {"", "1", "1.0", "1.0.0.0", "01.0.0",
	    "1.0.00", "v1.0.0", "1.0.0-", "1.0.0+", "1.0.0-01", "1.0.0-a..b",
	    "1.0.0-a_b", "1.0.0+a+b", " 1.0.0", "1.0.0 ", "1.-1.0", "1.0.0-.a",
	    "1.0.0-a.", "1.0.0+a.", "1.0.0-\xc3\xa9"};
	static const char *const good[] = {"1.0.0-0a", "1.0.0--", "1.0.0+01",
	    "1.0.0-a-b.1+x.y-z", "1.0.0-x.7.z.92"};
	size_t i, j;
	bool fine = true;
	int c;

	for (i = 0; i < sizeof(rising) / sizeof(rising[0]); i++) {
		fine = fine && manifest_is_version(rising[i]);
		for (j = 0; j < sizeof(rising) / sizeof(rising[0]); j++) {
			c = manifest_version_cmp(rising[i], rising[j]);
			if ((c < 0) != (i < j) || (c > 0) != (i > j)) {
				printf(
				    "# %s %s: %d\n", rising[i], rising[j], c);
				fine = false;
			}
		}
	}
	ok(fine, "precedence");
	ok(manifest_version_cmp("1.0.0+a", "1.0.0+b") == 0 &&
		manifest_version_cmp("1.0.0-a+z", "1.0.0-a") == 0,
	    "build metadata does not count");
	for (i = 0, fine = true; i < sizeof(bad) / sizeof(bad[0]); i++)
		fine = fine && !manifest_is_version(bad[i]);
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		fine = fine && manifest_is_version(good[i]);
	ok(fine, "grammar");
}

/* Texts that are bad for the time or the memory of a careless reader. */
static void
test_hostile(void)
{
	static const struct {
		const char *before, *again, *name;
	} bombs[] = {
	    {HEAD "x-a: ", "[", "flow lists"},
	    {HEAD "x-a: ", "[\n  ", "flow lists on lines"},
	    {HEAD "x-a: ", "{a: ", "flow mappings"},
	    {HEAD "x-a:\n  ", "- ", "block lists"},
	    {HEAD, "? ", "explicit keys"},
	    {HEAD "x-a: [", "a,", "many items"},
	    {HEAD "x-a: [", "*a,", "many aliases"},
	    {HEAD "x-a: [", "&a b,", "many anchors"},
	    {HEAD "x-a: [", "!a b,", "many tags"},
	    {HEAD "x-a: [", "{a: 1, a: 2},", "many duplicates"},
	    {HEAD "x-a: ", "b c", "a long scalar"},
	    {HEAD "x-a: \"", "\\u200b", "a long scalar of escapes"},
	    {HEAD, "\xff\n", "many bad lines"},
	    {HEAD "x-a: |\n", "  b\n", "many lines"},
	    {HEAD "# ", "#", "a long comment"},
	};
	char *text = malloc(MANIFEST_YAML_MAX * 2);
	struct manifest m;
	struct timespec t0, t1;
	size_t i, len, n;
	double ms;

	for (i = 0; i < sizeof(bombs) / sizeof(bombs[0]); i++) {
		len = strlen(bombs[i].before);
		memcpy(text, bombs[i].before, len);
		n = strlen(bombs[i].again);
		while (len + n < MANIFEST_YAML_MAX - 8) {
			memcpy(text + len, bombs[i].again, n);
			len += n;
		}
		memcpy(text + len, "\n---\n", 5);
		clock_gettime(CLOCK_MONOTONIC, &t0);
		parse_n(&m, text, len + 5);
		clock_gettime(CLOCK_MONOTONIC, &t1);
		ms = (double)(t1.tv_sec - t0.tv_sec) * 1e3 +
		     (double)(t1.tv_nsec - t0.tv_nsec) / 1e6;
		ok(ms < 500 && m.errors_n <= MANIFEST_ERRORS_MAX, "%s: bounded",
		    bombs[i].name);
		printf("# %.2f ms, %zu errors, %zu not listed\n", ms,
		    m.errors_n, m.errors_dropped);
		manifest_clear(&m);
	}
	memset(text, 'a', MANIFEST_YAML_MAX + 100);
	memcpy(text, "---\nx-a: ", 9);
	memcpy(text + MANIFEST_YAML_MAX + 50, "\n---\n", 5);
	parse_n(&m, text, MANIFEST_YAML_MAX + 100);
	ok(m.errors_n == 1 && find(&m, "YamlParse") != NULL,
	    "more than 64 KiB of frontmatter");
	manifest_clear(&m);
	free(text);
}

/* Every prefix of a busy file, and every byte of it changed. */
static void
test_broken(void)
{
	static const char busy[] =
	    "---\nid: demo\nversion: 1.0.0\ndescription: \"a\\u00e9: "
	    "\xc3\xa9\"\n"
	    "allowed_memory_scopes: [memories/**, 'a''b']\nallowed_tools:\n"
	    "  - Read\n  - Bash\nx-a: {b: [1, {c: ~}], d: !e &f *g}\n? x-h\n"
	    ": >-\n  i\n   j\n\n  k # l\n---\nbody\n";
	static const char with[] = "\0\n\r\t :-[]{}!&*#'\"|>%@`~?,\\\xff\xc2";
	char text[sizeof(busy)];
	struct manifest m;
	size_t i, j;

	for (i = 0; i < sizeof(busy); i++) {
		parse_n(&m, busy, i);
		manifest_clear(&m);
		for (j = 0; j < sizeof(with) - 1 && i < sizeof(busy) - 1; j++) {
			memcpy(text, busy, sizeof(busy));
			text[i] = with[j];
			parse_n(&m, text, sizeof(busy) - 1);
			manifest_clear(&m);
		}
	}
	ok(true, "broken files are survived");
}

static void
test_read(void)
{
	char dir[] = "/tmp/manifest.XXXXXX", *text = NULL;
	size_t len = 0;
	int dir_fd, fd;

	if (mkdtemp(dir) == NULL)
		return;
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ok(manifest_read(dir_fd, &text, &len) == -1 && errno == ENOENT,
	    "no SKILL.md");
	ok(mkfifoat(dir_fd, "SKILL.md", 0600) == 0 &&
		manifest_read(dir_fd, &text, &len) == -1 && errno == EINVAL,
	    "a pipe does not block");
	unlinkat(dir_fd, "SKILL.md", 0);
	ok(symlinkat("/etc/passwd", dir_fd, "SKILL.md") == 0 &&
		manifest_read(dir_fd, &text, &len) == -1 && errno == ELOOP,
	    "a link is not followed");
	unlinkat(dir_fd, "SKILL.md", 0);
	ok(mkdirat(dir_fd, "SKILL.md", 0700) == 0 &&
		manifest_read(dir_fd, &text, &len) == -1 && errno == EINVAL,
	    "a directory is no file");
	unlinkat(dir_fd, "SKILL.md", AT_REMOVEDIR);
	fd = openat(dir_fd, "SKILL.md", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ok(ftruncate(fd, MANIFEST_FILE_MAX + 1) == 0 &&
		manifest_read(dir_fd, &text, &len) == -1 && errno == EFBIG,
	    "too large");
	ok(ftruncate(fd, MANIFEST_FILE_MAX) == 0 &&
		manifest_read(dir_fd, &text, &len) == 0 &&
		len == MANIFEST_FILE_MAX,
	    "just not too large");
	free(text);
	close(fd);
	unlinkat(dir_fd, "SKILL.md", 0);
	close(dir_fd);
	rmdir(dir);
}

int
main(void)
{
	policy_init(&policy);
	test_frontmatter();
	test_suite();
	test_expectations();
	test_all_at_once();
	test_values();
	test_hash();
	test_versions();
	test_hostile();
	test_broken();
	test_read();
	policy_clear(&policy);
	return done();
}
