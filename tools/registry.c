/*
 * The table of tools and what follows from it. This is where a call is allowed
 * or refused: nothing a tool does later can widen what is decided here, since
 * it gets the opened thing and not its name.
 */

#include "tools/registry.h"

#include <linux/limits.h>
#include <sys/xattr.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/json.h"
#include "tools/bash.h"
#include "tools/file.h"
#include "tools/find.h"
#include "tools/http.h"
#include "tools/memory.h"

#define TEXT_MAX ((int64_t)1024 * 1024) /* no text exceeds its request */
#define INT_LIMIT (INT64_C(1) << 53)

static const char *const encodings[] = { "utf-8", "base64", NULL };
static const char *const write_modes[] = { "overwrite", "create", "append",
	NULL };
static const char *const fetch_methods[] = { "GET", "HEAD", NULL };

#define TIMEOUT_ARG                                                            \
	{ "timeout_ms", ARG_INT, false, 1, 86400000, NULL, CHECK_NONE,         \
		"at most this many milliseconds" }
#define LIMIT_ARG                                                              \
	{ "limit", ARG_INT, false, 1, 100000, NULL, CHECK_NONE,                \
		"at most this many results (1000)" }
#define FILE_PATH(check, help)                                                 \
	{ "path", ARG_TEXT, true, 1, TEXT_MAX, NULL, check, help }

#define FAILS_READ                                                             \
	(FAILS(NOT_FOUND) | FAILS(IS_A_DIRECTORY) | FAILS(PERMISSION) |        \
	    FAILS(TOO_LARGE))
#define FAILS_WRITE (FAILS_READ | FAILS(NO_SPACE))
#define FAILS_SEARCH                                                           \
	(FAILS(NOT_FOUND) | FAILS(PERMISSION) | FAILS(INVALID_PATTERN) |       \
	    FAILS(TOO_COMPLEX))
#define FAILS_HTTP                                                             \
	(FAILS(TOO_LARGE) | FAILS(HTTP_ERROR) | FAILS(TLS_ERROR) |             \
	    FAILS(RESOLVE_ERROR) | FAILS(CONNECT_ERROR))

static const struct tool tools[] = {
	{ "Bash",
	    "Run a command line with /bin/bash -c in a sandbox of its own, "
	    "without network. Of x-allowed-files, a glob that ends in /** is "
	    "there as a writable directory (its .git read-only, its .ssh and "
	    ".cyberos empty); another glob is there as the files that match "
	    "it when the call starts.",
	    { { "cmd", ARG_TEXT, true, 1, TEXT_MAX, NULL, CHECK_NONE,
		  "the command line" },
		{ "stdin", ARG_TEXT, false, 0, TEXT_MAX, NULL, CHECK_NONE,
		    "fed to its standard input" },
		TIMEOUT_ARG,
		{ "cwd", ARG_TEXT, false, 1, TEXT_MAX, NULL, CHECK_NONE,
		    "absolute working directory (/tmp)" } },
	    bash_shape, bash_place, NULL, NULL,
	    FAILS(NOT_FOUND) | FAILS(TOO_LARGE) | FAILS(NO_SPACE),
	    "skill.tool.bash.exec", SPAN_INTERNAL },
	{ "Read",
	    "Read a file: all of it, or limit bytes from offset.",
	    { FILE_PATH(CHECK_FILE_READ, "absolute path of the file"),
		{ "offset", ARG_INT, false, 0, INT_LIMIT, NULL, CHECK_NONE,
		    "first byte (0)" },
		{ "limit", ARG_INT, false, 1, INT_LIMIT, NULL, CHECK_NONE,
		    "at most this many bytes" } },
	    NULL, file_read_place, file_read, NULL,
	    FAILS_READ,
	    "skill.tool.file.read", SPAN_INTERNAL },
	{ "Write",
	    "Write a file: replace it in one step, create it, or append.",
	    { FILE_PATH(CHECK_FILE_WRITE, "absolute path of the file"),
		{ "body", ARG_TEXT, true, 0, TEXT_MAX, NULL, CHECK_NONE,
		    "what to write" },
		{ "encoding", ARG_WORD, false, 0, 0, encodings, CHECK_NONE,
		    "of body (utf-8)" },
		{ "mode", ARG_WORD, false, 0, 0, write_modes, CHECK_NONE,
		    "overwrite is the default" } },
	    file_write_shape, file_write_place, file_write, NULL,
	    FAILS_WRITE | FAILS(EXISTS),
	    "skill.tool.file.write", SPAN_INTERNAL },
	{ "Edit",
	    "Replace a text in a file, in one step.",
	    { FILE_PATH(CHECK_FILE_WRITE, "absolute path of the file"),
		{ "old", ARG_TEXT, true, 1, TEXT_MAX, NULL, CHECK_NONE,
		    "the text to replace; it must occur once" },
		{ "new", ARG_TEXT, true, 0, TEXT_MAX, NULL, CHECK_NONE,
		    "what to put in its place" },
		{ "all", ARG_BOOL, false, 0, 0, NULL, CHECK_NONE,
		    "replace every occurrence" } },
	    NULL, file_write_place, file_edit, NULL,
	    FAILS_WRITE | FAILS(NOT_UNIQUE),
	    "skill.tool.file.edit", SPAN_INTERNAL },
	{ "Glob",
	    "Find granted files whose paths match a pattern.",
	    { { "pattern", ARG_TEXT, true, 1, 1024, NULL, CHECK_NONE,
		  "glob, as in x-allowed-files" },
		{ "root", ARG_TEXT, false, 1, TEXT_MAX, NULL,
		    CHECK_FILE_BELOW, "absolute directory to begin in" },
		LIMIT_ARG },
	    find_shape, find_place, find_glob, NULL,
	    FAILS(NOT_FOUND) | FAILS(PERMISSION),
	    "skill.tool.file.glob", SPAN_INTERNAL },
	{ "Grep",
	    "Find lines of granted files that match a regular expression.",
	    { { "pattern", ARG_TEXT, true, 1, 4096, NULL, CHECK_NONE,
		  "Perl-compatible regular expression" },
		{ "path", ARG_TEXT, false, 1, TEXT_MAX, NULL,
		    CHECK_FILE_BELOW, "absolute file or directory" },
		{ "glob", ARG_TEXT, false, 1, 1024, NULL, CHECK_NONE,
		    "only files that match" },
		{ "ignore_case", ARG_BOOL, false, 0, 0, NULL, CHECK_NONE,
		    "upper and lower case alike" },
		{ "context", ARG_INT, false, 0, 100, NULL, CHECK_NONE,
		    "lines before and after" },
		LIMIT_ARG },
	    find_shape, find_place, find_grep, NULL,
	    FAILS_SEARCH,
	    "skill.tool.file.grep", SPAN_INTERNAL },
	{ "MemoryRead",
	    "Read a memory file.",
	    { { "path", ARG_TEXT, true, 1, TEXT_MAX, NULL, CHECK_MEMORY_READ,
		"memory path, such as memories/notes/today" } },
	    NULL, file_read_place, memory_read, NULL,
	    FAILS_READ,
	    "skill.tool.memory.read", SPAN_INTERNAL },
	{ "MemorySearch",
	    "Find lines of memory files within the granted scopes.",
	    { { "query", ARG_TEXT, true, 1, 4096, NULL, CHECK_NONE,
		  "text to find" },
		{ "path", ARG_TEXT, false, 1, TEXT_MAX, NULL,
		    CHECK_MEMORY_BELOW, "memory path or glob to search in" },
		{ "regex", ARG_BOOL, false, 0, 0, NULL, CHECK_NONE,
		    "query is a regular expression" },
		{ "ignore_case", ARG_BOOL, false, 0, 0, NULL, CHECK_NONE,
		    "upper and lower case alike" },
		LIMIT_ARG },
	    find_shape, find_place, find_memory, NULL,
	    FAILS_SEARCH,
	    "skill.tool.memory.search", SPAN_INTERNAL },
	{ "MemoryEmit",
	    "Record an event in the ledger and, with body, put a memory file.",
	    { { "kind", ARG_TEXT, true, 3, 128, NULL, CHECK_NONE,
		  "kind of the row, such as note.added" },
		{ "path", ARG_TEXT, true, 1, TEXT_MAX, NULL,
		    CHECK_MEMORY_WRITE, "memory path the row is about" },
		{ "payload", ARG_ANY, false, 0, 0, NULL, CHECK_NONE,
		    "recorded as it is, at most 12 KiB" },
		{ "body", ARG_TEXT, false, 0, TEXT_MAX, NULL, CHECK_NONE,
		    "new contents of the memory file" } },
	    memory_emit_shape, memory_emit_place, memory_emit, memory_record,
	    FAILS_WRITE,
	    "skill.tool.memory.emit", SPAN_INTERNAL },
	{ "HttpFetch",
	    "Fetch a URL of a granted host.",
	    { { "url", ARG_TEXT, true, 8, TEXT_MAX, NULL, CHECK_NONE,
		  "http:// or https:// URL" },
		{ "method", ARG_WORD, false, 0, 0, fetch_methods, CHECK_NONE,
		    "GET is the default" },
		{ "headers", ARG_MAP, false, 0, 0, NULL, CHECK_NONE,
		    "request headers" },
		TIMEOUT_ARG },
	    http_fetch_shape, http_place, NULL, NULL,
	    FAILS_HTTP,
	    "skill.tool.http.request", SPAN_CLIENT },
	{ "HttpPost",
	    "Send a body to a URL of a granted host.",
	    { { "url", ARG_TEXT, true, 8, TEXT_MAX, NULL, CHECK_NONE,
		  "http:// or https:// URL" },
		{ "body", ARG_TEXT, false, 0, TEXT_MAX, NULL, CHECK_NONE,
		    "what to send" },
		{ "encoding", ARG_WORD, false, 0, 0, encodings, CHECK_NONE,
		    "of body (utf-8)" },
		{ "content_type", ARG_TEXT, false, 1, 256, NULL, CHECK_NONE,
		    "media type of body" },
		{ "headers", ARG_MAP, false, 0, 0, NULL, CHECK_NONE,
		    "request headers" },
		TIMEOUT_ARG },
	    http_post_shape, http_place, NULL, NULL,
	    FAILS_HTTP,
	    "skill.tool.http.request", SPAN_CLIENT },
};

#define TOOLS_N (sizeof(tools) / sizeof(tools[0]))

/* The names again, for those who want a plain list; compared at start. */
static const char *const names[] = { "Bash", "Read", "Write", "Edit", "Glob",
	"Grep", "MemoryRead", "MemorySearch", "MemoryEmit", "HttpFetch",
	"HttpPost", NULL };

_Static_assert(sizeof(names) / sizeof(names[0]) == TOOLS_N + 1,
    "names and tools are one list");

const struct tool *
registry_tools(size_t *n)
{
	*n = TOOLS_N;
	return tools;
}

const struct tool *
registry_find(const char *name)
{
	size_t i;

	for (i = 0; i < TOOLS_N; i++) {
		if (strcmp(tools[i].name, name) == 0)
			return &tools[i];
	}
	return NULL;
}

bool
registry_may_fail(const struct tool *tool, enum failure f)
{
	return ((tool->fails | FAILS_ALWAYS) >> f & 1) != 0;
}

size_t
registry_index(const struct tool *tool)
{
	return (size_t)(tool - tools);
}

const char *const *
registry_names(void)
{
	return names;
}

static const char *
arg_trouble(const struct tool_arg *a)
{
	if (a->help == NULL || a->help[0] == '\0')
		return "an argument has no help";
	if ((a->type == ARG_WORD) != (a->words != NULL))
		return "an argument of words has no words";
	if (a->min > a->max)
		return "an argument has an empty range";
	if ((a->type == ARG_TEXT || a->type == ARG_INT) && a->max == 0)
		return "an argument has no bound";
	/* What is left out means all that is granted, in searches only. */
	if (a->check != CHECK_NONE &&
	    (a->type != ARG_TEXT ||
		a->required == (a->check == CHECK_FILE_BELOW ||
				   a->check == CHECK_MEMORY_BELOW)))
		return "a resource is not a required text";
	return NULL;
}

static const char *
tool_trouble(const struct tool *t)
{
	const char *trouble;
	int i, resources = 0;

	if (t->name == NULL || t->description == NULL)
		return "a tool has no name or description";
	if (t->run == NULL && t->place == NULL)
		return "a tool has nothing to run";
	if (t->span == NULL || strncmp(t->span, "skill.tool.", 11) != 0 ||
	    strlen(t->span) >= SPAN_NAME || t->span_kind == 0)
		return "a tool has no span";
	for (i = 0; i < TOOL_ARGS_MAX && t->args[i].name != NULL; i++) {
		trouble = arg_trouble(&t->args[i]);
		if (trouble != NULL)
			return trouble;
		resources += t->args[i].check != CHECK_NONE;
	}
	if (i == TOOL_ARGS_MAX)
		return "a tool has too many arguments";
	if (resources > 1)
		return "a tool has two resources";
	return NULL;
}

const char *
registry_trouble(void)
{
	const char *trouble;
	size_t i;

	for (i = 0; i < TOOLS_N; i++) {
		trouble = tool_trouble(&tools[i]);
		if (trouble != NULL)
			return trouble;
		if (strcmp(names[i], tools[i].name) != 0)
			return "names and tools differ";
		if (registry_find(tools[i].name) != &tools[i])
			return "two tools have one name";
	}
	return NULL;
}

static void
schema_type(const struct tool_arg *a, struct buf *out)
{
	const char *const *w;

	switch (a->type) {
	case ARG_TEXT:
		buf_puts(out, "\"type\":\"string\",");
		if (a->min > 0)
			buf_printf(out, "\"minLength\":%lld,", (long long)a->min);
		/* There it counts characters: what fits here fits there. */
		if (a->max < TEXT_MAX)
			buf_printf(out, "\"maxLength\":%lld,", (long long)a->max);
		break;
	case ARG_WORD:
		buf_puts(out, "\"type\":\"string\",\"enum\":[");
		for (w = a->words; *w != NULL; w++)
			buf_printf(out, "%s\"%s\"", w == a->words ? "" : ",", *w);
		buf_puts(out, "],");
		break;
	case ARG_INT:
		buf_printf(out,
		    "\"type\":\"integer\",\"minimum\":%lld,\"maximum\":%lld,",
		    (long long)a->min, (long long)a->max);
		break;
	case ARG_BOOL:
		buf_puts(out, "\"type\":\"boolean\",");
		break;
	case ARG_MAP:
		buf_puts(out, "\"type\":\"object\",\"additionalProperties\":"
			      "{\"type\":\"string\"},");
		break;
	case ARG_ANY:
		break;
	}
}

int
registry_schema(const struct tool *t, struct buf *out)
{
	const struct tool_arg *a;
	const char *comma = "";

	buf_puts(out, "{\"type\":\"object\",\"properties\":{");
	for (a = t->args; a->name != NULL; a++) {
		buf_printf(out, "%s\"%s\":{", comma, a->name);
		schema_type(a, out);
		buf_puts(out, "\"description\":");
		json_put_string(out, a->help, strlen(a->help));
		buf_putc(out, '}');
		comma = ",";
	}
	buf_puts(out, "},\"required\":[");
	comma = "";
	for (a = t->args; a->name != NULL; a++) {
		if (!a->required)
			continue;
		buf_printf(out, "%s\"%s\"", comma, a->name);
		comma = ",";
	}
	buf_puts(out, "],\"additionalProperties\":false}");
	return out->failed ? -1 : 0;
}

static bool
bad(struct call *c, const char *name, const char *what)
{
	snprintf(c->check.bad, sizeof(c->check.bad), "%.40s: %s", name, what);
	return false;
}

static bool
map_fits(const cJSON *v)
{
	const cJSON *e;

	if (!cJSON_IsObject(v))
		return false;
	cJSON_ArrayForEach (e, v) {
		if (!cJSON_IsString(e))
			return false;
	}
	return true;
}

static bool
arg_fits(struct call *c, const struct tool_arg *a, const cJSON *v)
{
	const char *const *w;
	char range[96];
	size_t len;

	switch (a->type) {
	case ARG_TEXT:
		if (!cJSON_IsString(v))
			return bad(c, a->name, "must be a string");
		len = strlen(v->valuestring);
		if ((int64_t)len < a->min)
			return bad(c, a->name,
			    a->min == 1 ? "must not be empty" : "is too short");
		if ((int64_t)len > a->max) {
			snprintf(range, sizeof(range),
			    "must be at most %lld bytes", (long long)a->max);
			return bad(c, a->name, range);
		}
		return true;
	case ARG_WORD:
		if (!cJSON_IsString(v))
			return bad(c, a->name, "must be a string");
		for (w = a->words; *w != NULL; w++) {
			if (strcmp(*w, v->valuestring) == 0)
				return true;
		}
		strlcpy(range, "must be one of", sizeof(range));
		for (w = a->words; *w != NULL; w++) {
			strlcat(range, w == a->words ? " " : ", ",
			    sizeof(range));
			strlcat(range, *w, sizeof(range));
		}
		return bad(c, a->name, range);
	case ARG_INT:
		if (!cJSON_IsNumber(v) || v->valuedouble < (double)a->min ||
		    v->valuedouble > (double)a->max ||
		    v->valuedouble != (double)(int64_t)v->valuedouble) {
			snprintf(range, sizeof(range),
			    "must be an integer from %lld to %lld",
			    (long long)a->min, (long long)a->max);
			return bad(c, a->name, range);
		}
		return true;
	case ARG_BOOL:
		return cJSON_IsBool(v) ||
		    bad(c, a->name, "must be true or false");
	case ARG_MAP:
		return map_fits(v) ||
		    bad(c, a->name, "must be an object of strings");
	case ARG_ANY:
		break;
	}
	return true;
}

static const struct tool_arg *
find_arg(const struct tool *t, const char *name)
{
	const struct tool_arg *a;

	for (a = t->args; a->name != NULL; a++) {
		if (strcmp(a->name, name) == 0)
			return a;
	}
	return NULL;
}

static bool
names_file(const struct tool_arg *a)
{
	return a->check == CHECK_FILE_READ || a->check == CHECK_FILE_WRITE ||
	    a->check == CHECK_FILE_BELOW;
}

bool
registry_reaches_files(const struct grant *g)
{
	const struct tool_arg *a;
	const struct tool *t;
	size_t i, n;

	t = registry_tools(&n);
	for (i = 0; i < n; i++) {
		if (grant_tool(g, t[i].name) != REASON_NONE)
			continue;
		if (t[i].place == bash_place)
			return true;
		for (a = t[i].args; a->name != NULL; a++) {
			if (names_file(a))
				return true;
		}
	}
	return false;
}

static bool
check_shape(struct call *c)
{
	const struct tool *t = c->check.tool;
	const struct tool_arg *a;
	const cJSON *v;

	if (c->rpc.odd)
		return bad(c, "params",
		    "only tool, args, traceparent and tracestate");
	if (!cJSON_IsObject(c->rpc.args))
		return bad(c, "args", "must be an object");
	cJSON_ArrayForEach (v, c->rpc.args) {
		a = find_arg(t, v->string);
		if (a == NULL)
			return bad(c, v->string, "is not an argument of this tool");
		if (!arg_fits(c, a, v))
			return false;
	}
	for (a = t->args; a->name != NULL; a++) {
		if (a->required &&
		    cJSON_GetObjectItemCaseSensitive(c->rpc.args, a->name) ==
			NULL)
			return bad(c, a->name, "is missing");
		v = cJSON_GetObjectItemCaseSensitive(c->rpc.args, a->name);
		if (names_file(a) && v != NULL && v->valuestring[0] != '/')
			return bad(c, a->name, "must be an absolute path");
	}
	return t->shape == NULL || t->shape(c);
}

static enum check_result
refuse(struct call *c, enum reason reason)
{
	c->check.verdict.reason = reason;
	return CHECK_REFUSED;
}

static enum check_result
fails(struct call *c, enum failure f)
{
	c->check.failure = f;
	return CHECK_MAY;
}

/*
 * Set-id bits and the attributes that carry capabilities or labels: rewriting
 * such a file would either lose them or hand them to the skill's bytes. When
 * it cannot be told, it is one.
 */
static bool
is_privileged(const struct resource *on)
{
	char proc[64], list[XATTR_LIST_MAX];
	const char *p;
	ssize_t n;

	if ((on->st.st_mode & (S_ISUID | S_ISGID)) != 0)
		return true;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", on->fd);
	n = listxattr(proc, list, sizeof(list));
	if (n == -1)
		return errno != ENOTSUP;
	for (p = list; p < list + n; p += strlen(p) + 1) {
		if (strncmp(p, "security.", 9) == 0 ||
		    strncmp(p, "trusted.", 8) == 0)
			return true;
	}
	return false;
}

/* A granted, unprotected path that names nothing: may it be made there? */
static enum check_result
check_absent(struct call *c, const struct path_judged *j, bool write)
{
	if (j->absent == EACCES)
		return fails(c, FAIL_PERMISSION);
	/* Made where its directory is there; directories are never made. */
	if (!write || j->absent != ENOENT || c->check.on.parent_fd == -1)
		return fails(c, FAIL_NOT_FOUND);
	return CHECK_MAY;
}

static enum check_result
check_present(struct call *c, bool write)
{
	const struct resource *on = &c->check.on;

	if (S_ISDIR(on->st.st_mode))
		return fails(c, FAIL_IS_A_DIRECTORY);
	if (!S_ISREG(on->st.st_mode))
		return refuse(c, REASON_FILE);
	if (!write)
		return CHECK_MAY;
	if (on->st.st_nlink > 1)
		return refuse(c, REASON_HARD_LINK);
	if (is_privileged(on))
		return refuse(c, REASON_PRIVILEGED_FILE);
	return CHECK_MAY;
}

static enum check_result
check_file(
    struct call *c, const struct invocation *inv, const char *path, bool write)
{
	struct path_judged j;
	struct resource *on = &c->check.on;
	enum reason reason;
	enum check_result result;

	path_judged_init(&j);
	if (path_judge(path, strlen(path), inv->protect, &j) == -1) {
		result = fails(c, FAIL_IO_ERROR);
		goto out;
	}
	if (j.canonical == NULL) {
		on->name = strdup(path);
		result = refuse(c, REASON_FILE);
		goto out;
	}
	on->name = j.canonical;
	j.canonical = NULL;
	reason = grant_file(inv->grant, on->name);
	if (reason == REASON_NONE &&
	    (j.protection == PATH_CLOSED ||
		(write && j.protection == PATH_READ_ONLY)))
		reason = REASON_PROTECTED;
	if (reason != REASON_NONE) {
		result = refuse(c, reason);
		goto out;
	}
	on->fd = j.fd;
	on->parent_fd = j.parent_fd;
	on->st = j.st;
	memcpy(on->leaf, j.leaf, sizeof(on->leaf));
	j.fd = j.parent_fd = -1;
	result = j.absent != 0 ? check_absent(c, &j, write)
			       : check_present(c, write);
out:
	path_judged_clear(&j);
	return result;
}

/* Why a memory file, or the directory it belongs in, could not be opened. */
static enum check_result
memory_trouble(struct call *c, int error)
{
	switch (error) {
	case ENOENT:
	case ENOTDIR:
		return fails(c, FAIL_NOT_FOUND);
	case EISDIR:
		return fails(c, FAIL_IS_A_DIRECTORY);
	case EACCES:
		return fails(c, FAIL_PERMISSION);
	case ELOOP:
	case EXDEV:
	case EMLINK:
	case ENODEV:
		return refuse(c, REASON_SCOPE);
	default:
		return fails(c, FAIL_IO_ERROR);
	}
}

/* Whatever is missing on the way is made by the call; links are not gone. */
static enum check_result
check_memory_write(struct call *c, const struct invocation *inv)
{
	char leaf[NAME_MAX + 1];
	int fd, error = 0;

	fd = path_memory_parent(inv->memory_fd, c->check.on.name, false, leaf);
	if (fd == -1)
		return errno == ENOENT ? CHECK_MAY : memory_trouble(c, errno);
	/* Without a body nothing is put there. */
	if (call_text(c, "body") != NULL && path_memory_leaf(fd, leaf) == -1)
		error = errno;
	close(fd);
	return error == 0 ? CHECK_MAY : memory_trouble(c, error);
}

static enum check_result
check_memory(
    struct call *c, const struct invocation *inv, const char *path, bool write)
{
	struct resource *on = &c->check.on;
	char canonical[PATH_MAX];
	enum reason reason = REASON_SCOPE;
	int valid;

	valid = path_memory(path, strlen(path), canonical);
	on->name = strdup(canonical);
	if (on->name == NULL)
		return fails(c, FAIL_IO_ERROR);
	if (valid == 0)
		reason = grant_memory(inv->grant, on->name);
	if (reason != REASON_NONE)
		return refuse(c, reason);
	if (write)
		return check_memory_write(c, inv);
	on->fd = path_memory_open(inv->memory_fd, on->name, &on->st);
	return on->fd != -1 ? CHECK_MAY : memory_trouble(c, errno);
}

/* The root is worth a look if it, or anything below it, may be granted. */
static enum reason
file_root_reason(const struct invocation *inv, const char *root)
{
	if (grant_file(inv->grant, root) == REASON_NONE)
		return REASON_NONE;
	return grant_file_below(
	    inv->grant, strcmp(root, "/") == 0 ? "" : root);
}

/*
 * Where a search begins. Only for what Read would speak of is it told that it
 * is not there; elsewhere there is just nothing to be found.
 */
static enum check_result
check_file_root(struct call *c, const struct invocation *inv, const char *path)
{
	struct path_judged j;
	struct resource *on = &c->check.on;
	enum check_result result = CHECK_MAY;
	enum reason reason;

	if (path_judge(path, strlen(path), inv->protect, &j) == -1) {
		result = fails(c, FAIL_IO_ERROR);
		goto out;
	}
	on->name = j.canonical == NULL ? strdup(path) : j.canonical;
	reason = j.canonical == NULL || on->name == NULL
	    ? REASON_FILE
	    : file_root_reason(inv, on->name);
	j.canonical = NULL;
	if (reason == REASON_NONE && j.protection == PATH_CLOSED)
		reason = REASON_PROTECTED;
	if (reason != REASON_NONE)
		result = refuse(c, reason);
	else if (grant_file(inv->grant, on->name) != REASON_NONE)
		result = CHECK_MAY;
	else if (j.absent != 0)
		result = check_absent(c, &j, false);
	else if (!S_ISDIR(j.st.st_mode) && !S_ISREG(j.st.st_mode))
		result = refuse(c, REASON_FILE);
out:
	path_judged_clear(&j);
	return result;
}

static enum check_result
check_file_below(struct call *c, const struct invocation *inv, const char *path)
{
	char root[PATH_MAX] = "";
	enum reason reason;

	if (path != NULL)
		return check_file_root(c, inv, path);
	if (find_pattern_root(c, root) == 0) {
		c->check.on.name = strdup(root[0] == '\0' ? "/" : root);
		if (c->check.on.name == NULL)
			return fails(c, FAIL_IO_ERROR);
	}
	reason = file_root_reason(inv, root);
	return reason == REASON_NONE ? CHECK_MAY : refuse(c, reason);
}

static enum check_result
check_memory_below(
    struct call *c, const struct invocation *inv, const char *path)
{
	struct resource *on = &c->check.on;
	char canonical[PATH_MAX] = "", root[PATH_MAX];
	enum reason reason;
	bool valid = path == NULL || find_memory_path(path, canonical) == 0;

	if (path != NULL) {
		on->name = strdup(canonical);
		if (on->name == NULL)
			return fails(c, FAIL_IO_ERROR);
	}
	if (!valid)
		return refuse(c, REASON_SCOPE);
	if (find_memory_root(canonical, root) == -1)
		return fails(c, FAIL_IO_ERROR);
	reason = grant_memory(inv->grant, root);
	if (reason != REASON_NONE)
		reason = grant_memory_below(inv->grant, root);
	return reason == REASON_NONE ? CHECK_MAY : refuse(c, reason);
}

static enum check_result
check_resource(struct call *c, const struct invocation *inv)
{
	const struct tool_arg *a;
	const char *value;

	for (a = c->check.tool->args; a->name != NULL; a++) {
		value = a->check == CHECK_NONE ? NULL : call_text(c, a->name);
		switch (a->check) {
		case CHECK_NONE:
			break;
		case CHECK_FILE_READ:
			return check_file(c, inv, value, false);
		case CHECK_FILE_WRITE:
			return check_file(c, inv, value, true);
		case CHECK_MEMORY_READ:
			return check_memory(c, inv, value, false);
		case CHECK_MEMORY_WRITE:
			return check_memory(c, inv, value, true);
		case CHECK_FILE_BELOW:
			return check_file_below(c, inv, value);
		case CHECK_MEMORY_BELOW:
			return check_memory_below(c, inv, value);
		}
	}
	return CHECK_MAY;
}

enum check_result
registry_check(struct call *c, struct invocation *inv)
{
	enum reason reason;

	c->check.tool = registry_find(c->rpc.tool);
	if (c->check.tool == NULL)
		return refuse(c, REASON_UNKNOWN_TOOL);
	reason = grant_tool(inv->grant, c->check.tool->name);
	if (reason != REASON_NONE)
		return refuse(c, reason);
	if (!check_shape(c))
		return CHECK_BAD_ARGS;
	return check_resource(c, inv);
}

enum check_result
registry_check_again(struct call *c, struct invocation *inv)
{
	char *before = c->check.on.name;
	const char *after;
	enum check_result result;

	c->check.on.name = NULL;
	c->check.failure = FAIL_NONE;
	call_clear_resource(c);
	result = check_resource(c, inv);
	after = c->check.on.name;
	if (result == CHECK_MAY &&
	    (before == NULL || after == NULL || strcmp(before, after) != 0))
		result = refuse(c, REASON_FILE);
	if (before != NULL)
		freezero(before, strlen(before));
	return result;
}
