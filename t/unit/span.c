/*
 * audit/span: the text of each span, what a record must be before it becomes
 * one, and that nothing is in it that the table does not name.
 */

#include "audit/span.h"

#include <string.h>

#include "audit/json.h"
#include "t/unit/tap.h"

static const struct span_limits all = {128, 65536};
static const char resource[] = "[]";

static struct span
call(void)
{
	struct span s;

	span_init(&s, SPAN_CALL);
	strlcpy(s.trace_id, "0af7651916cd43dd8448eb211c80319c", 33);
	strlcpy(s.span_id, "b7ad6b7169203331", 17);
	strlcpy(s.parent_id, "00f067aa0ba902b7", 17);
	s.flags = 1;
	s.start = INT64_C(1796048405952425274);
	s.end = s.start + 1000;
	strlcpy(s.tool_name, "HttpFetch", sizeof(s.tool_name));
	strlcpy(s.outcome, "success", sizeof(s.outcome));
	s.args_size = 24;
	return s;
}

static void
with_tool(struct span *s)
{
	strlcpy(s->tool_span, "skill.tool.http.request", sizeof(s->tool_span));
	strlcpy(s->tool_span_id, "1111111111111111", 17);
	s->tool_kind = SPAN_CLIENT;
	s->tool_start = s->start + 10;
	s->tool_end = s->end - 10;
	strlcpy(s->host, "a.example", sizeof(s->host));
	s->port = 443;
	s->status = 404;
}

/* The text of a request with n spans of this record after the first skip; it must
 * be JSON as SPEC 5 wants it. */
static cJSON *
request_of(const struct span *s, unsigned skip, unsigned n,
    const struct span_limits *limits, char **text)
{
	struct buf b;
	cJSON *root;

	buf_init(&b, 65536);
	if (span_begin(&b, resource, 2) == -1 ||
	    span_put(&b, s, skip, n, limits) == -1 || span_end(&b) == -1)
		printf("# no text\n");
	root = json_parse(b.data, b.len, false);
	if (text != NULL)
		*text = strndup(b.data, b.len);
	buf_clear(&b);
	return root;
}

static cJSON *
request(const struct span *s, const struct span_limits *limits, char **text)
{
	return request_of(s, 0, span_count(s), limits, text);
}

static const cJSON *
get(const cJSON *o, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(o, name);
}

static const cJSON *
nth_span(const cJSON *root, int n)
{
	const cJSON *rs = cJSON_GetArrayItem(get(root, "resourceSpans"), 0);
	const cJSON *ss = cJSON_GetArrayItem(get(rs, "scopeSpans"), 0);

	return cJSON_GetArrayItem(get(ss, "spans"), n);
}

/* The one member of an attribute's value, as text. */
static const char *
attribute(const cJSON *span, const char *key)
{
	const cJSON *a, *v;

	cJSON_ArrayForEach (a, get(span, "attributes")) {
		if (strcmp(get(a, "key")->valuestring, key) != 0)
			continue;
		v = get(a, "value")->child;
		return v->next == NULL ? v->valuestring : "two";
	}
	return "none";
}

static void
test_text(void)
{
	struct span s = call();
	char *text = NULL;
	cJSON *root = request(&s, &all, &text);

	is_str(text,
	    "{\"resourceSpans\":[{\"resource\":{\"attributes\":[]},"
	    "\"scopeSpans\":[{\"scope\":{\"name\":\"cyberos.skill.broker\","
	    "\"version\":\"" CYBEROS_VERSION "\"},\"spans\":[{\"traceId\":"
	    "\"0af7651916cd43dd8448eb211c80319c\",\"spanId\":"
	    "\"b7ad6b7169203331\",\"parentSpanId\":\"00f067aa0ba902b7\","
	    "\"flags\":257,\"name\":\"skill.broker.tool_call\",\"kind\":2,"
	    "\"startTimeUnixNano\":\"1796048405952425274\","
	    "\"endTimeUnixNano\":\"1796048405952426274\",\"attributes\":["
	    "{\"key\":\"tool_name\",\"value\":{\"stringValue\":\"HttpFetch\"}},"
	    "{\"key\":\"gen_ai.tool.name\",\"value\":{\"stringValue\":"
	    "\"HttpFetch\"}},"
	    "{\"key\":\"outcome\",\"value\":{\"stringValue\":\"success\"}},"
	    "{\"key\":\"args_size_bytes\",\"value\":{\"intValue\":\"24\"}},"
	    "{\"key\":\"rpc.system.name\",\"value\":{\"stringValue\":"
	    "\"jsonrpc\"}},"
	    "{\"key\":\"rpc.method\",\"value\":{\"stringValue\":"
	    "\"tool.call\"}},"
	    "{\"key\":\"jsonrpc.protocol.version\",\"value\":{\"stringValue\":"
	    "\"2.0\"}},"
	    "{\"key\":\"network.transport\",\"value\":{\"stringValue\":"
	    "\"unix\"}}],\"status\":{}}]}]}]}",
	    "every byte of a request");
	ok(root != NULL, "it is JSON");
	cJSON_Delete(root);
	free(text);
}

static void
test_tool(void)
{
	struct span s = call();
	const cJSON *span;
	cJSON *root;

	with_tool(&s);
	s.failed = 1;
	strlcpy(s.error, "http_error", sizeof(s.error));
	strlcpy(s.link_trace_id, "11111111111111111111111111111111", 33);
	strlcpy(s.link_span_id, "2222222222222222", 17);
	s.remote = 1;
	is_int(span_count(&s), 2, "a call and its tool are two");
	ok(span_valid(&s), "which is a record");
	root = request(&s, &all, NULL);
	span = nth_span(root, 0);
	is_int(get(span, "flags")->valueint, 0x301, "its parent is remote");
	is_int(get(get(span, "status"), "code")->valueint, 2, "Error");
	is_str(attribute(span, "server.address"), "none",
	    "the host is not the call's");
	is_str(get(cJSON_GetArrayItem(get(span, "links"), 0), "traceId")
		   ->valuestring,
	    "11111111111111111111111111111111", "it has its link");
	span = nth_span(root, 1);
	is_str(get(span, "name")->valuestring, "skill.tool.http.request",
	    "the tool's name");
	is_str(get(span, "parentSpanId")->valuestring, "b7ad6b7169203331",
	    "is below the call");
	is_int(get(span, "kind")->valueint, 3, "of the kind client");
	is_int(get(span, "flags")->valueint, 0x101, "its parent is our own");
	is_str(attribute(span, "server.address"), "a.example", "has the host");
	is_str(attribute(span, "server.port"), "443", "and the port");
	is_str(attribute(span, "http.response.status_code"), "404",
	    "and the status");
	is_str(attribute(span, "error.type"), "http_error", "and the word");
	ok(get(span, "links") == NULL, "and no link");
	ok(nth_span(root, 2) == NULL, "two are two");
	cJSON_Delete(root);
	root = request_of(&s, 0, 1, &all, NULL);
	is_str(get(nth_span(root, 0), "name")->valuestring,
	    "skill.broker.tool_call", "the call alone");
	ok(nth_span(root, 1) == NULL, "is one");
	cJSON_Delete(root);
	root = request_of(&s, 1, 1, &all, NULL);
	is_str(get(nth_span(root, 0), "name")->valuestring,
	    "skill.tool.http.request", "the tool alone");
	ok(nth_span(root, 1) == NULL, "is one, too");
	cJSON_Delete(root);
}

static void
test_limits(void)
{
	struct span s = call();
	struct span_limits few = {3, 4};
	const cJSON *span;
	cJSON *root = request(&s, &few, NULL);

	span = nth_span(root, 0);
	is_int(cJSON_GetArraySize(get(span, "attributes")), 3,
	    "the count of attributes has a limit");
	is_int(get(span, "droppedAttributesCount")->valueint, 5,
	    "which tells how many it cost");
	is_str(attribute(span, "tool_name"), "Http", "and so has a text");
	cJSON_Delete(root);
	few.count = 0;
	root = request(&s, &few, NULL);
	is_int(cJSON_GetArraySize(get(nth_span(root, 0), "attributes")), 0,
	    "none at all");
	cJSON_Delete(root);
}

static void
test_valid(void)
{
	struct span good = call(), s;

	with_tool(&good);
	ok(span_valid(&good), "a good record");
#define BAD(what, change)                                                      \
	do {                                                                   \
		s = good;                                                      \
		change;                                                        \
		ok(!span_valid(&s), "refused: %s", what);                      \
	} while (0)
	BAD("no such span", s.what = SPAN_WHATS);
	BAD("a tool without a call", s.what = SPAN_TOOL);
	BAD("a tool below an invocation", s.what = SPAN_INVOCATION);
	BAD("a trace id that is zero", memset(s.trace_id, '0', 32));
	BAD("capitals in a trace id", s.trace_id[3] = 'F');
	BAD("a trace id without end", memset(s.trace_id, 'a', 33));
	BAD("a short span id", s.span_id[15] = '\0');
	BAD("a bad parent", s.parent_id[2] = '-');
	BAD("a bad link", s.link_trace_id[0] = 'a');
	BAD("an end before the start", s.end = s.start - 1);
	BAD("no start", s.start = 0);
	BAD("the tool's end before its start", s.tool_end = s.tool_start - 1);
	BAD("no kind of the tool", s.tool_kind = 0);
	BAD("an outcome without end", memset(s.outcome, 'x', sizeof(s.outcome)));
	BAD("a host with a blank", s.host[1] = ' ');
	BAD("a word with a line feed", strlcpy(s.error, "a\nb", 4));
	BAD("bytes that are not ASCII", s.skill_id[0] = (char)0xe9);
#undef BAD
}

static void
test_attribute(void)
{
	struct buf b;

	buf_init(&b, 1024);
	span_text(&b, "k", "a\"\n\xff", 4);
	buf_putc(&b, '\0');
	is_str(b.data,
	    "{\"key\":\"k\",\"value\":{\"stringValue\":"
	    "\"a\\\"\\n\xef\xbf\xbd\"}}",
	    "a text is escaped and is UTF-8");
	buf_clear(&b);
	buf_init(&b, 8);
	ok(span_text(&b, "key", "value", 5) == -1 && b.failed,
	    "no room is told");
	buf_clear(&b);
}

static void
test_table(void)
{
	const char *ours, *theirs, *again, *none;
	bool good = true;
	size_t i, j;

	for (i = 0; span_attribute(i, &ours, &theirs); i++) {
		good = good && (ours != NULL || theirs != NULL);
		for (j = 0; j < i; j++) {
			span_attribute(j, &again, &none);
			if (ours != NULL && again != NULL)
				good = good && strcmp(ours, again) != 0;
		}
	}
	ok(good && i > 20, "each attribute has a name of its own");
}

int
main(void)
{
	test_text();
	test_tool();
	test_limits();
	test_valid();
	test_attribute();
	test_table();
	return done();
}
