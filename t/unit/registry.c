/*
 * tools/registry: the table is consistent, its schemas are what its rows say,
 * and what the shape check takes and refuses, with the sentence that it says.
 */

#include "tools/registry.h"

#include <fcntl.h>
#include <unistd.h>

#include "audit/json.h"
#include "t/unit/tap.h"

static struct policy policy;
static struct invocation inv;

#define FRONTMATTER                                                            \
	"---\nid: unit\nversion: 1.0.0\ndescription: a test\n"                 \
	"allowed_tools: [Bash, Read, Write, Edit, Glob, Grep, MemoryRead, "    \
	"MemorySearch, MemoryEmit, HttpFetch, HttpPost]\n"                     \
	"allowed_memory_scopes: [\"memories/**\"]\n"                           \
	"x-allowed-files: [\"/tmp/registry-none/**\"]\n---\n"

static void
set_up(void)
{
	static const char text[] = FRONTMATTER;
	struct manifest m;

	if (policy_init(&policy) == -1 ||
	    manifest_parse(text, sizeof(text) - 1, &policy, registry_names(),
		"1.0.0", &m) == -1 ||
	    m.errors_n > 0) {
		printf("Bail out! the frontmatter of the test\n");
		exit(1);
	}
	inv.policy = &policy;
	inv.grant = grant_new(&m, &policy);
	inv.protect = path_protect_new();
	inv.digest = digest_new(NULL, 0);
	inv.memory_fd = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	manifest_clear(&m);
	if (inv.grant == NULL || inv.protect == NULL || inv.memory_fd == -1) {
		printf("Bail out! no grant\n");
		exit(1);
	}
}

static enum check_result
check(const char *tool, const char *args, char bad[160], struct call **out)
{
	struct call *c = call_new();
	enum check_result result;

	c->rpc.tool = strdup(tool);
	c->rpc.args =
	    args == NULL ? NULL : json_parse(args, strlen(args), false);
	if (args != NULL && c->rpc.args == NULL)
		printf("# no JSON: %s\n", args);
	result = registry_check(c, &inv);
	strlcpy(bad, c->check.bad, 160);
	if (out != NULL)
		*out = c;
	else
		call_free(c);
	return result;
}

/* Refused as bad arguments, with these words. */
static void
bad(const char *tool, const char *args, const char *words)
{
	char said[160];
	bool good = check(tool, args, said, NULL) == CHECK_BAD_ARGS &&
		    strcmp(said, words) == 0;

	if (!ok(good, "%s %.60s", tool, args == NULL ? "(none)" : args))
		printf("#      got: %s\n# expected: %s\n", said, words);
}

/* Taken; it may fail later, but not for its arguments. */
static void
fine(const char *tool, const char *args)
{
	char said[160];

	ok(check(tool, args, said, NULL) != CHECK_BAD_ARGS && said[0] == '\0',
	    "%s %.60s is fine", tool, args);
}

static void
test_table(void)
{
	static const char *const order[] = {"Bash", "Read", "Write", "Edit",
	    "Glob", "Grep", "MemoryRead", "MemorySearch", "MemoryEmit",
	    "HttpFetch", "HttpPost"};
	const struct tool *t;
	size_t i, n, wrong = 0;

	ok(registry_trouble() == NULL, "the table is consistent");
	t = registry_tools(&n);
	is_int((long long)n, 11, "eleven tools");
	for (i = 0; i < n; i++) {
		if (strcmp(t[i].name, order[i]) != 0 ||
		    strcmp(registry_names()[i], order[i]) != 0 ||
		    registry_find(order[i]) != &t[i] ||
		    registry_index(&t[i]) != i)
			wrong++;
	}
	ok(wrong == 0 && registry_names()[n] == NULL, "in the order of SPEC 7");
	ok(registry_find("read") == NULL && registry_find("Read ") == NULL &&
		registry_find("") == NULL && registry_find("Rea") == NULL,
	    "a name is found as it is written only");
}

static bool
is_bound(const cJSON *p, const char *name, bool wanted, int64_t value)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(p, name);

	return wanted ? cJSON_IsNumber(v) && v->valuedouble == (double)value
		      : v == NULL;
}

/* The longest text is as long as a request: that needs no saying. */
static bool
bounds_fit(const struct tool_arg *a, const cJSON *p)
{
	bool text = a->type == ARG_TEXT, number = a->type == ARG_INT;

	return is_bound(p, "minLength", text && a->min > 0, a->min) &&
	       is_bound(p, "maxLength", text && a->max < 1024 * 1024, a->max) &&
	       is_bound(p, "minimum", number, a->min) &&
	       is_bound(p, "maximum", number, a->max);
}

/* Does the schema of one tool say what its row says? */
static bool
schema_fits(const struct tool *t)
{
	const cJSON *props, *required, *p;
	const struct tool_arg *a;
	struct buf out;
	cJSON *root;
	int n = 0, must = 0;
	bool good;

	buf_init(&out, 65536);
	good = registry_schema(t, &out) == 0;
	root = json_parse(out.data, out.len, false);
	props = cJSON_GetObjectItemCaseSensitive(root, "properties");
	required = cJSON_GetObjectItemCaseSensitive(root, "required");
	for (a = t->args; a->name != NULL; a++, n++) {
		p = cJSON_GetObjectItemCaseSensitive(props, a->name);
		if (cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
			p, "description")) == NULL)
			good = false;
		good = good && bounds_fit(a, p);
		must += a->required;
	}
	if (cJSON_GetArraySize(props) != n ||
	    cJSON_GetArraySize(required) != must ||
	    !cJSON_IsFalse(
		cJSON_GetObjectItemCaseSensitive(root, "additionalProperties")))
		good = false;
	cJSON_Delete(root);
	buf_clear(&out);
	return good;
}

static void
test_fails(void)
{
	const struct tool *read = registry_find("Read");

	ok(registry_may_fail(read, FAIL_NOT_FOUND) &&
		registry_may_fail(read, FAIL_TIMEOUT) &&
		registry_may_fail(read, FAIL_IO_ERROR) &&
		!registry_may_fail(read, FAIL_NO_SPACE) &&
		!registry_may_fail(read, FAIL_NONE) &&
		registry_may_fail(registry_find("HttpPost"), FAIL_CONNECT_ERROR),
	    "a tool fails with the words of its row");
}

static void
test_schema(void)
{
	const struct tool *t;
	struct buf out;
	size_t i, n;

	t = registry_tools(&n);
	for (i = 0; i < n; i++)
		ok(schema_fits(&t[i]), "the schema of %s", t[i].name);
	buf_init(&out, 65536);
	registry_schema(registry_find("Read"), &out);
	buf_putc(&out, '\0');
	is_str(out.data,
	    "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":"
	    "\"string\","
	    "\"minLength\":1,\"description\":\"absolute path of the file\"},"
	    "\"offset\":{\"type\":\"integer\",\"minimum\":0,"
	    "\"maximum\":9007199254740992,\"description\":\"first byte (0)\"},"
	    "\"limit\":{\"type\":\"integer\",\"minimum\":1,"
	    "\"maximum\":9007199254740992,\"description\":\"at most this many "
	    "bytes\"}},\"required\":[\"path\"],\"additionalProperties\":false}",
	    "Read's in full");
	buf_clear(&out);
	buf_init(&out, 40);
	ok(registry_schema(registry_find("Read"), &out) == -1,
	    "a schema that does not fit is an error");
	buf_clear(&out);
}

#define P "\"path\":\"/tmp/registry-none/x\""

static void
test_shape(void)
{
	bad("Read", NULL, "args: must be an object");
	bad("Read", "[]", "args: must be an object");
	bad("Read", "\"x\"", "args: must be an object");
	bad("Read", "{}", "path: is missing");
	bad("Read", "{\"path\":\"\"}", "path: must not be empty");
	bad("Read", "{\"path\":1}", "path: must be a string");
	bad("Read", "{\"path\":null}", "path: must be a string");
	bad("Read", "{\"path\":[\"/x\"]}", "path: must be a string");
	bad("Read", "{\"path\":\"x\"}", "path: must be an absolute path");
	bad("Read", "{\"path\":\"~/x\"}", "path: must be an absolute path");
	bad("Read", "{\"Path\":\"/x\"}",
	    "Path: is not an argument of this tool");
	bad("Read", "{" P ",\"\":1}", ": is not an argument of this tool");
	bad("Read", "{" P ",\"offset\":-1}",
	    "offset: must be an integer from 0 to 9007199254740992");
	bad("Read", "{" P ",\"offset\":0.5}",
	    "offset: must be an integer from 0 to 9007199254740992");
	bad("Read", "{" P ",\"limit\":0}",
	    "limit: must be an integer from 1 to 9007199254740992");
	bad("Read", "{" P ",\"limit\":1e300}",
	    "limit: must be an integer from 1 to 9007199254740992");
	bad("Read", "{" P ",\"limit\":\"5\"}",
	    "limit: must be an integer from 1 to 9007199254740992");
	bad("Read", "{" P ",\"limit\":true}",
	    "limit: must be an integer from 1 to 9007199254740992");
	fine("Read", "{" P "}");
	fine("Read", "{" P ",\"offset\":9007199254740992,\"limit\":1e3}");
	fine("Read", "{" P ",\"offset\":-0}");
	bad("Write", "{" P "}", "body: is missing");
	bad("Write", "{" P ",\"body\":\"x\",\"mode\":\"w\"}",
	    "mode: must be one of overwrite, create, append");
	bad("Write", "{" P ",\"body\":\"x\",\"mode\":\"Create\"}",
	    "mode: must be one of overwrite, create, append");
	bad("Write", "{" P ",\"body\":\"x\",\"mode\":null}",
	    "mode: must be a string");
	bad("Write", "{" P ",\"body\":\"x\",\"encoding\":\"base64\"}",
	    "body: is not base64");
	fine("Write", "{" P ",\"body\":\"\",\"encoding\":\"base64\"}");
	bad("Edit", "{" P ",\"old\":\"\",\"new\":\"x\"}",
	    "old: must not be empty");
	bad("Edit", "{" P ",\"old\":\"a\",\"new\":\"x\",\"all\":1}",
	    "all: must be true or false");
	fine("Edit", "{" P ",\"old\":\"a\",\"new\":\"\",\"all\":false}");
}

static void
test_more_shape(void)
{
	static const char *const kinds[] = {"a", "A.b", "a.", ".a", "a..b",
	    "a.B", "a.1b", "1.a", "a-b.c", "a b.c", "a.b.", "_a.b", "a._b"};
	char args[256], said[160];
	size_t i, wrong = 0;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		snprintf(args, sizeof(args),
		    "{\"kind\":\"%s\",\"path\":\"memories/x\"}", kinds[i]);
		if (check("MemoryEmit", args, said, NULL) != CHECK_BAD_ARGS) {
			printf("# %s\n", kinds[i]);
			wrong++;
		}
	}
	is_int((long long)wrong, 0, "what is no kind");
	bad("MemoryEmit", "{\"kind\":\"skill.x\",\"path\":\"memories/x\"}",
	    "kind: skill. and audit. are reserved");
	bad("MemoryEmit", "{\"kind\":\"audit.x\",\"path\":\"memories/x\"}",
	    "kind: skill. and audit. are reserved");
	fine("MemoryEmit", "{\"kind\":\"a1_.b_2.c\",\"path\":\"memories/x\"}");
	fine("MemoryEmit",
	    "{\"kind\":\"skills.x\",\"path\":\"memories/x\",\"payload\":[1]}");
	bad("MemoryEmit",
	    "{\"kind\":\"a.b\",\"path\":\"memories/x\",\"payload\":[1e20]}",
	    "payload: holds an integer beyond 2^53, write it as text");
	fine("MemoryEmit",
	    "{\"kind\":\"a.b\",\"path\":\"memories/x\",\"payload\":1e21}");
	bad("HttpFetch", "{\"url\":\"http://a\",\"headers\":{\"a\":1}}",
	    "headers: must be an object of strings");
	bad("HttpFetch", "{\"url\":\"http://a\",\"headers\":[]}",
	    "headers: must be an object of strings");
	bad("HttpFetch", "{\"url\":\"http:\"}", "url: is too short");
	bad("HttpFetch", "{\"url\":\"http://a\",\"method\":\"PUT\"}",
	    "method: must be one of GET, HEAD");
	bad("Bash", "{\"cmd\":\"x\",\"timeout_ms\":0}",
	    "timeout_ms: must be an integer from 1 to 86400000");
	bad("Grep", "{\"pattern\":\"x\",\"context\":101}",
	    "context: must be an integer from 0 to 100");
}

static void
test_resource(void)
{
	const struct path_protect *protect;
	char said[160];
	struct call *c;

	ok(check("Nothing", NULL, said, &c) == CHECK_REFUSED &&
		c->check.verdict.reason == REASON_UNKNOWN_TOOL,
	    "a tool that is not there, before its arguments");
	call_free(c);
	ok(check("Bash", "{\"cmd\":\"x\"}", said, &c) == CHECK_MAY &&
		c->check.failure == FAIL_NONE,
	    "a tool without a resource");
	call_free(c);
	ok(check("Read", "{\"path\":\"/etc/passwd\"}", said, &c) ==
		    CHECK_REFUSED &&
		c->check.verdict.reason == REASON_FILE && c->check.on.fd == -1,
	    "a file that is not granted is not kept open");
	is_str(c->check.on.name, "/etc/passwd", "but named");
	call_free(c);
	ok(check("Read", "{" P "}", said, &c) == CHECK_MAY &&
		c->check.failure == FAIL_NOT_FOUND,
	    "a granted one that is absent");
	ok(registry_check_again(c, &inv) == CHECK_MAY &&
		c->check.failure == FAIL_NOT_FOUND,
	    "and so when it is judged again");
	free(c->check.on.name);
	c->check.on.name = strdup("/tmp/registry-none/y");
	ok(registry_check_again(c, &inv) == CHECK_REFUSED,
	    "under another name than before it is not");
	call_free(c);
	protect = inv.protect;
	inv.protect = NULL;
	ok(check("Read", "{" P "}", said, &c) == CHECK_MAY &&
		c->check.failure == FAIL_IO_ERROR && c->check.on.fd == -1,
	    "where no place is known as protected, no path is judged");
	call_free(c);
	inv.protect = protect;
	ok(check("MemoryRead", "{\"path\":\"memories/../x\"}", said, &c) ==
		    CHECK_REFUSED &&
		c->check.verdict.reason == REASON_SCOPE,
	    "memory outside of every scope");
	call_free(c);
}

/* One tool alone: does it reach files? */
static bool
reaches(const char *tool)
{
	char text[256];
	struct manifest m;
	struct grant *g;
	bool yes;
	int n;

	n = snprintf(text, sizeof(text),
	    "---\nid: unit\nversion: 1.0.0\ndescription: a test\n"
	    "allowed_tools: [%s]\n---\n",
	    tool);
	if (manifest_parse(text, (size_t)n, &policy, registry_names(), "1.0.0",
		&m) == -1)
		return false;
	g = grant_new(&m, &policy);
	yes = g != NULL && registry_reaches_files(g);
	grant_free(g);
	manifest_clear(&m);
	return yes;
}

static void
test_reach(void)
{
	static const char *const files[] = { "Bash", "Read", "Write", "Edit",
		"Glob", "Grep" };
	const char *const *name;
	bool wants;
	size_t i;

	for (name = registry_names(); *name != NULL; name++) {
		wants = false;
		for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
			wants = wants || strcmp(*name, files[i]) == 0;
		ok(reaches(*name) == wants, "%s reaches %s", *name,
		    wants ? "files" : "no file");
	}
}

int
main(void)
{
	test_table();
	set_up();
	test_schema();
	test_fails();
	test_shape();
	test_more_shape();
	test_resource();
	test_reach();
	return done();
}
