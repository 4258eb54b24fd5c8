/*
 * Spans as OTLP JSON. What can stand in one is the table below and nothing
 * else: a field that is not in it never leaves the machine, and a name of the
 * semantic conventions that changes is changed in one place. Receivers ignore
 * names that they do not know, so each is written once, here.
 */

#include "audit/span.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "audit/clock.h"
#include "audit/json.h"

#define IN(what) (1U << (what))
#define CALLS (IN(SPAN_CALL) | IN(SPAN_TOOL))
#define ALL (IN(SPAN_INVOCATION) | IN(SPAN_VALIDATE) | CALLS)

/* OTLP's flags beside those of the trace context. */
#define REMOTE_KNOWN 0x100U
#define REMOTE 0x200U
#define STATUS_ERROR 2

enum form {
	TEXT,	/* an array of characters; "" is left out */
	NUMBER,	/* an int64_t; SPAN_NOTHING is left out */
	DIGITS, /* the same, as text */
	WORD	/* always this one */
};

/*
 * Attributes: ours, and the name of the semantic conventions beside it
 * (SPAN_CONVENTIONS says which). All of gen_ai.* and rpc.* has the status
 * Development there.
 */
static const struct attribute {
	const char *ours;
	const char *theirs;
	unsigned in;
	enum form form;
	size_t at;
	const char *word;
} attributes[] = {
#define FIELD(name) offsetof(struct span, name), NULL
	{"skill_id", NULL, ALL, TEXT, FIELD(skill_id)},
	{"tool_name", "gen_ai.tool.name", CALLS, TEXT, FIELD(tool_name)},
	{"outcome", NULL, ALL, TEXT, FIELD(outcome)},
	{"duration_ms", NULL, ALL & ~IN(SPAN_TOOL), NUMBER, FIELD(duration_ms)},
	{"args_size_bytes", NULL, IN(SPAN_CALL), NUMBER, FIELD(args_size)},
	{"result_size_bytes", NULL, IN(SPAN_CALL), NUMBER, FIELD(result_size)},
	{"reason", NULL, CALLS, TEXT, FIELD(reason)},
	{"invocation_id", NULL, ALL, TEXT, FIELD(invocation_id)},
	{"tenant_id", NULL, IN(SPAN_INVOCATION), TEXT, FIELD(tenant_id)},
	{"version", NULL, IN(SPAN_INVOCATION) | IN(SPAN_VALIDATE), TEXT,
	    FIELD(version)},
	{"calls", NULL, IN(SPAN_INVOCATION), NUMBER, FIELD(calls)},
	{"denied", NULL, IN(SPAN_INVOCATION), NUMBER, FIELD(denied)},
	{"rejected", NULL, IN(SPAN_INVOCATION), NUMBER, FIELD(rejected)},
	{"exit_code", "process.exit.code", IN(SPAN_INVOCATION) | IN(SPAN_TOOL),
	    NUMBER, FIELD(exit_code)},
	{"errors", NULL, IN(SPAN_VALIDATE), NUMBER, FIELD(errors)},
	{NULL, "error.type", ALL, TEXT, FIELD(error)},
	{NULL, "rpc.system.name", IN(SPAN_CALL), WORD, 0, "jsonrpc"},
	{NULL, "rpc.method", IN(SPAN_CALL), WORD, 0, "tool.call"},
	{NULL, "rpc.response.status_code", IN(SPAN_CALL), DIGITS,
	    FIELD(rpc_code)},
	{NULL, "jsonrpc.protocol.version", IN(SPAN_CALL), WORD, 0, "2.0"},
	{NULL, "network.transport", IN(SPAN_CALL), WORD, 0, "unix"},
	{NULL, "gen_ai.operation.name", IN(SPAN_TOOL), WORD, 0, "execute_tool"},
	{NULL, "gen_ai.tool.type", IN(SPAN_TOOL), WORD, 0, "function"},
	{NULL, "http.request.method", IN(SPAN_TOOL), TEXT, FIELD(method)},
	{NULL, "http.response.status_code", IN(SPAN_TOOL), NUMBER,
	    FIELD(status)},
	{NULL, "server.address", IN(SPAN_TOOL), TEXT, FIELD(host)},
	{NULL, "server.port", IN(SPAN_TOOL), NUMBER, FIELD(port)},
#undef FIELD
};

#define ATTRIBUTES (sizeof(attributes) / sizeof(attributes[0]))

static const char *const names[SPAN_WHATS] = {
	[SPAN_INVOCATION] = "skill.invocation",
	[SPAN_VALIDATE] = "skill.frontmatter.validate",
	[SPAN_CALL] = "skill.broker.tool_call",
	[SPAN_TOOL] = "skill.tool",
};

const char *
span_name(enum span_what what)
{
	return names[what];
}

bool
span_attribute(size_t i, const char **ours, const char **theirs)
{
	if (i >= ATTRIBUTES)
		return false;
	*ours = attributes[i].ours;
	*theirs = attributes[i].theirs;
	return true;
}

void
span_init(struct span *s, enum span_what what)
{
	memset(s, 0, sizeof(*s));
	s->what = (uint8_t)what;
	s->port = s->status = s->exit_code = s->rpc_code = SPAN_NOTHING;
	s->duration_ms = s->args_size = s->result_size = SPAN_NOTHING;
	s->errors = s->calls = s->denied = s->rejected = SPAN_NOTHING;
}

unsigned
span_count(const struct span *s)
{
	return s->tool_span[0] == '\0' ? 1 : 2;
}

/* --- looking at a record --- */

static bool
is_hex_id(const char *id, size_t digits)
{
	return strnlen(id, digits + 1) == digits &&
	       strspn(id, "0123456789abcdef") == digits &&
	       strspn(id, "0") != digits;
}

static bool
is_text(const char *s, size_t size)
{
	size_t i, n = strnlen(s, size);

	for (i = 0; i < n; i++) {
		if (s[i] <= ' ' || s[i] > '~')
			return false;
	}
	return n < size;
}

bool
span_valid(const struct span *s)
{
	if (s->what >= SPAN_TOOL || !is_hex_id(s->trace_id, 32) ||
	    !is_hex_id(s->span_id, 16) || s->start <= 0 || s->end < s->start)
		return false;
	if (s->parent_id[0] != '\0' && !is_hex_id(s->parent_id, 16))
		return false;
	if (s->link_trace_id[0] != '\0' &&
	    (!is_hex_id(s->link_trace_id, 32) ||
		!is_hex_id(s->link_span_id, 16)))
		return false;
	if (s->tool_span[0] != '\0' &&
	    (s->what != SPAN_CALL || !is_hex_id(s->tool_span_id, 16) ||
		s->tool_kind < SPAN_INTERNAL || s->tool_kind > SPAN_CLIENT ||
		s->tool_start <= 0 || s->tool_end < s->tool_start))
		return false;
#define TEXT_OF(name) is_text(s->name, sizeof(s->name))
	return TEXT_OF(tool_span) && TEXT_OF(invocation_id) &&
	       TEXT_OF(tenant_id) && TEXT_OF(skill_id) && TEXT_OF(version) &&
	       TEXT_OF(tool_name) && TEXT_OF(outcome) && TEXT_OF(reason) &&
	       TEXT_OF(error) && TEXT_OF(method) && TEXT_OF(host);
#undef TEXT_OF
}

/* --- encoding --- */

int
span_text(struct buf *b, const char *key, const char *value, size_t len)
{
	buf_puts(b, "{\"key\":");
	json_put_string(b, key, strlen(key));
	buf_puts(b, ",\"value\":{\"stringValue\":");
	json_put_string(b, value, len);
	return buf_puts(b, "}}");
}

static void
put_number(struct buf *b, const char *key, int64_t n)
{
	buf_put_all(b, "{\"key\":\"", key, "\",\"value\":{\"intValue\":\"");
	buf_put_int(b, n);
	buf_puts(b, "\"}}");
}

/* What the attribute says of this span, under one of its names. */
static void
put_value(struct buf *b, const struct attribute *a, const char *key,
    const struct span *s, unsigned length)
{
	const char *field = (const char *)s + a->at, *text = a->word;
	char digits[24];
	int64_t n;

	if (a->form == NUMBER || a->form == DIGITS) {
		memcpy(&n, field, sizeof(n));
		if (a->form == NUMBER) {
			put_number(b, key, n);
			return;
		}
		snprintf(digits, sizeof(digits), "%lld", (long long)n);
		text = digits;
	} else if (a->form == TEXT) {
		text = field;
	}
	span_text(b, key, text, strnlen(text, length));
}

/* Has the span something to say under it? */
static bool
is_known(const struct attribute *a, const struct span *s)
{
	const char *field = (const char *)s + a->at;
	int64_t n;

	if (a->form == WORD)
		return true;
	if (a->form == TEXT)
		return field[0] != '\0';
	memcpy(&n, field, sizeof(n));
	return n != SPAN_NOTHING;
}

static void
put_attributes(struct buf *b, const struct span *s, enum span_what what,
    const struct span_limits *limits)
{
	const struct attribute *a;
	const char *key[2];
	unsigned n = 0, dropped = 0, i;

	buf_puts(b, ",\"attributes\":[");
	for (a = attributes; a < attributes + ATTRIBUTES; a++) {
		if ((a->in & IN(what)) == 0 || !is_known(a, s))
			continue;
		key[0] = a->ours;
		key[1] = a->theirs;
		for (i = 0; i < 2; i++) {
			if (key[i] == NULL)
				continue;
			if (n == limits->count) {
				dropped++;
				continue;
			}
			if (n++ > 0)
				buf_putc(b, ',');
			put_value(b, a, key[i], s, limits->length);
		}
	}
	buf_putc(b, ']');
	if (dropped > 0) {
		buf_puts(b, ",\"droppedAttributesCount\":");
		buf_put_uint(b, dropped);
	}
}

static void
put_times(struct buf *b, int64_t start, int64_t end)
{
	buf_puts(b, ",\"startTimeUnixNano\":\"");
	buf_put_int(b, start);
	buf_puts(b, "\",\"endTimeUnixNano\":\"");
	buf_put_int(b, end);
	buf_putc(b, '"');
}

static void
put_head(struct buf *b, const struct span *s, const char *id,
    const char *parent, const char *name, unsigned kind, bool remote)
{
	buf_put_all(b, "{\"traceId\":\"", s->trace_id, "\",\"spanId\":\"", id,
	    "\"");
	if (parent[0] != '\0')
		buf_put_all(b, ",\"parentSpanId\":\"", parent, "\"");
	buf_puts(b, ",\"flags\":");
	buf_put_uint(b, s->flags | REMOTE_KNOWN | (remote ? REMOTE : 0));
	buf_put_all(b, ",\"name\":\"", name, "\",\"kind\":");
	buf_put_uint(b, kind);
}

static void
put_status(struct buf *b, const struct span *s)
{
	if (!s->failed) {
		buf_puts(b, ",\"status\":{}");
		return;
	}
	buf_puts(b, ",\"status\":{\"code\":");
	buf_put_uint(b, STATUS_ERROR);
	if (s->error[0] != '\0') {
		buf_puts(b, ",\"message\":");
		json_put_string(b, s->error, strlen(s->error));
	}
	buf_putc(b, '}');
}

static void
put_link(struct buf *b, const struct span *s)
{
	if (s->link_trace_id[0] == '\0')
		return;
	buf_put_all(b, ",\"links\":[{\"traceId\":\"", s->link_trace_id,
	    "\",\"spanId\":\"", s->link_span_id, "\",\"flags\":");
	buf_put_uint(b, s->link_flags | REMOTE_KNOWN);
	buf_puts(b, "}]");
}

int
span_begin(struct buf *b, const char *resource, size_t len)
{
	buf_puts(b, "{\"resourceSpans\":[{\"resource\":{\"attributes\":");
	buf_put(b, resource, len);
	return buf_puts(b, "},\"scopeSpans\":[{\"scope\":{\"name\":"
			   "\"cyberos.skill.broker\",\"version\":\""
			   CYBEROS_VERSION "\"},\"spans\":[");
}

static void
put_comma(struct buf *b)
{
	if (b->len > 0 && b->data[b->len - 1] != '[')
		buf_putc(b, ',');
}

static void
put_call(struct buf *b, const struct span *s, const struct span_limits *limits)
{
	put_comma(b);
	put_head(b, s, s->span_id, s->parent_id, names[s->what],
	    s->what == SPAN_CALL ? SPAN_SERVER : SPAN_INTERNAL, s->remote);
	put_times(b, s->start, s->end);
	put_attributes(b, s, (enum span_what)s->what, limits);
	put_link(b, s);
	put_status(b, s);
	buf_putc(b, '}');
}

static void
put_tool(struct buf *b, const struct span *s, const struct span_limits *limits)
{
	put_comma(b);
	put_head(b, s, s->tool_span_id, s->span_id, s->tool_span, s->tool_kind,
	    false);
	put_times(b, s->tool_start, s->tool_end);
	put_attributes(b, s, SPAN_TOOL, limits);
	put_status(b, s);
	buf_putc(b, '}');
}

int
span_put(struct buf *b, const struct span *s, unsigned skip, unsigned n,
    const struct span_limits *limits)
{
	if (skip == 0 && n > 0)
		put_call(b, s, limits);
	if (skip + n > 1)
		put_tool(b, s, limits);
	return b->failed ? -1 : 0;
}

int
span_end(struct buf *b)
{
	return buf_puts(b, "]}]}]}");
}
