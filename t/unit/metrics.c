/*
 * Metrics as texts: each family in each form, and the numbers of one form are
 * those of the other. What readers of others make of them is in t/.
 */

#include "audit/metrics.h"

#include <inttypes.h>

#include "audit/clock.h"
#include "audit/json.h"
#include "t/unit/tap.h"

static const char *const tools[] = {"Bash", "Read", NULL};
static const char *const syscalls[] = {"mount", "bpf", NULL};
static const struct tally_names names = {tools, syscalls};

static void
fill(struct metrics *m)
{
	struct tally *t = &m->tally;

	tally_init(t, &names);
	m->since = INT64_C(1700000000123456789);
	m->now = m->since + CLOCK_SECOND;
	m->active = 2;
	tally_call(t, "Read", TALLY_SUCCESS, 10 * 1000);
	tally_call(t, "Read", TALLY_ERROR, 20 * 1000);
	tally_call(t, "Read", TALLY_TIMEOUT, 7200 * CLOCK_SECOND);
	tally_call(t, "None", TALLY_DENIED, -1);
	tally_attempt(t, "bpf", 5);
	tally_count(&t->bytes[TALLY_TX], INT64_MAX);
	tally_count(&t->spans_dropped[TALLY_QUEUE_FULL], 9);
	t->endings[TALLY_END_PANIC] = 3;
}

static char *
text_of(const struct metrics *m, bool openmetrics)
{
	struct buf b;
	char *text;

	buf_init(&b, 1024 * 1024);
	if (metrics_text(&b, m, openmetrics) == -1)
		abort();
	text = strndup(b.data, b.len);
	buf_clear(&b);
	return text;
}

static void
has(const char *text, const char *line, const char *name)
{
	char *whole;

	if (asprintf(&whole, "\n%s\n", line) == -1)
		abort();
	if (!ok(strstr(text, whole) != NULL, "%s", name))
		printf("# no line %s\n", line);
	free(whole);
}

static void
test_text(const struct metrics *m)
{
	char *text = text_of(m, false), *line;
	size_t i, n, heads = 0;
	const struct metrics_family *f = metrics_families(&n);

	for (i = 0; i < n; i++) {
		if (asprintf(&line, "# HELP %s ", f[i].name) == -1)
			abort();
		heads += strstr(text, line) != NULL;
		free(line);
	}
	is_int((long long)heads, (long long)n, "each family has its head");
	has(text, "# TYPE skill_broker_tool_calls_total counter", "a counter");
	has(text, "skill_broker_tool_calls_total{tool_name=\"Read\",outcome=\"success\"} 1",
	    "a call");
	has(text, "skill_broker_tool_calls_total{tool_name=\"_unknown\",outcome=\"denied\"} 1",
	    "one of no tool");
	has(text, "skill_broker_tool_duration_seconds_bucket{tool_name=\"Read\",le=\"1e-05\"} 1",
	    "a bound counts itself");
	has(text, "skill_broker_tool_duration_seconds_bucket{tool_name=\"Read\",le=\"2.5e-05\"} 2",
	    "buckets add up");
	has(text, "skill_broker_tool_duration_seconds_bucket{tool_name=\"Read\",le=\"3600.0\"} 2",
	    "up to the last bound");
	has(text, "skill_broker_tool_duration_seconds_bucket{tool_name=\"Read\",le=\"+Inf\"} 3",
	    "and to all");
	has(text, "skill_broker_tool_duration_seconds_sum{tool_name=\"Read\"} 7200.00003",
	    "seconds are exact");
	has(text, "skill_broker_tool_duration_seconds_count{tool_name=\"Read\"} 3",
	    "their count");
	has(text, "skill_broker_socket_bytes_total{direction=\"tx\"} 9223372036854775807",
	    "the largest number");
	has(text, "skill_broker_active_invocations 2", "without a label");
	has(text, "# TYPE skill_broker_build_info gauge", "the version");
	ok(strstr(text, "duration_seconds_bucket{tool_name=\"_unknown\"") == NULL,
	    "what is no tool takes no time");
	ok(strstr(text, "EOF") == NULL && text[strlen(text) - 1] == '\n',
	    "a line feed ends it");
	free(text);

	text = text_of(m, true);
	has(text, "# TYPE skill_broker_tool_calls counter",
	    "OpenMetrics: a family without _total");
	has(text, "skill_broker_tool_calls_total{tool_name=\"Read\",outcome=\"success\"} 1",
	    "OpenMetrics: its samples have it");
	has(text, "# UNIT skill_broker_socket_bytes bytes", "OpenMetrics: units");
	has(text, "# TYPE skill_broker_build info", "OpenMetrics: an info");
	ok(strcmp(text + strlen(text) - 7, "\n# EOF\n") == 0,
	    "OpenMetrics: its end");
	free(text);
}

static const cJSON *
in(const cJSON *o, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(o, name);
}

static const cJSON *
metric(const cJSON *all, const char *name)
{
	const cJSON *m;

	cJSON_ArrayForEach (m, all) {
		if (strcmp(in(m, "name")->valuestring, name) == 0)
			return m;
	}
	abort();
}

/* The point whose first label has this value. */
static const cJSON *
point(const cJSON *kind, const char *label)
{
	const cJSON *p, *v;

	cJSON_ArrayForEach (p, in(kind, "dataPoints")) {
		v = in(in(cJSON_GetArrayItem(in(p, "attributes"), 0), "value"),
		    "stringValue");
		if (strcmp(cJSON_GetStringValue(v), label) == 0)
			return p;
	}
	abort();
}

static bool
has_times(const cJSON *p, bool start)
{
	const char *began = cJSON_GetStringValue(in(p, "startTimeUnixNano"));
	const char *now = cJSON_GetStringValue(in(p, "timeUnixNano"));

	return strcmp(now, "1700000001123456789") == 0 &&
	       (start ? strcmp(began, "1700000000123456789") == 0
		      : began == NULL);
}

static void
test_histogram(const cJSON *h)
{
	const cJSON *p = point(h, "Read"), *c, *bounds, *counts;
	uint64_t n = 0;
	double last = 0;
	bool rising = true, strings = true;

	bounds = in(p, "explicitBounds");
	counts = in(p, "bucketCounts");
	cJSON_ArrayForEach (c, bounds) {
		rising = rising && c->valuedouble > last;
		last = c->valuedouble;
	}
	cJSON_ArrayForEach (c, counts) {
		strings = strings && cJSON_IsString(c);
		n += strtoull(c->valuestring, NULL, 10);
	}
	ok(rising && cJSON_GetArraySize(bounds) + 1 ==
			 cJSON_GetArraySize(counts),
	    "OTLP: bounds rise, and the last bucket has none");
	ok(strings && n == 3 &&
		strcmp(in(p, "count")->valuestring, "3") == 0,
	    "OTLP: buckets are each for itself, their count is all");
	is_str(cJSON_GetArrayItem(counts, 1)->valuestring, "1",
	    "OTLP: which is no sum");
	ok(cJSON_IsNumber(in(p, "sum")) &&
		in(p, "sum")->valuedouble == 7200.00003,
	    "OTLP: their sum");
	is_int(in(h, "aggregationTemporality")->valueint, 2,
	    "OTLP: a histogram is cumulative");
	ok(has_times(p, true), "OTLP: and has both times");
}

static void
test_otlp(struct metrics *m)
{
	const cJSON *all, *sum, *p;
	const char *why = NULL;
	struct buf b;
	cJSON *root;
	size_t n;

	buf_init(&b, 1024 * 1024);
	ok(metrics_otlp(&b, m, NULL) == 0 &&
		json_scan(b.data, b.len, false, &why, NULL),
	    "OTLP: it is JSON%s%s", why == NULL ? "" : ": ",
	    why == NULL ? "" : why);
	root = json_parse(b.data, b.len, false);
	p = cJSON_GetArrayItem(in(root, "resourceMetrics"), 0);
	all = in(in(p, "resource"), "attributes");
	is_str(in(in(cJSON_GetArrayItem(all, 0), "value"), "stringValue")
		   ->valuestring,
	    "cyberos", "OTLP: whose");
	all = in(cJSON_GetArrayItem(in(p, "scopeMetrics"), 0), "metrics");
	metrics_families(&n);
	is_int(cJSON_GetArraySize(all), (long long)n, "OTLP: all families");
	sum = in(metric(all, "skill_broker_cap_bypass_attempts_total"), "sum");
	p = point(sum, "bpf");
	is_str(in(p, "asInt")->valuestring, "5", "OTLP: numbers are strings");
	ok(cJSON_IsTrue(in(sum, "isMonotonic")) &&
		in(sum, "aggregationTemporality")->valueint == 2 &&
		has_times(p, true),
	    "OTLP: a counter is a cumulative sum with both times");
	sum = in(metric(all, "skill_broker_active_invocations"), "gauge");
	p = cJSON_GetArrayItem(in(sum, "dataPoints"), 0);
	ok(in(sum, "aggregationTemporality") == NULL && has_times(p, false) &&
		strcmp(in(p, "asInt")->valuestring, "2") == 0,
	    "OTLP: a gauge has neither start nor temporality");
	p = metric(all, "skill_broker_tool_duration_seconds");
	is_str(in(p, "unit")->valuestring, "s", "OTLP: its unit");
	test_histogram(in(p, "histogram"));
	cJSON_Delete(root);

	buf_reset(&b);
	m->now = m->since - 1;
	metrics_otlp(&b, m, "{\"attributes\":[]}");
	buf_putc(&b, '\0');
	ok(strstr(b.data, "{\"resource\":{\"attributes\":[]},\"scopeMetrics\"") !=
		NULL,
	    "OTLP: a resource of the caller's");
	ok(strstr(b.data, "\"timeUnixNano\":\"1700000000123456788\"") == NULL,
	    "OTLP: no time before the start");
	buf_clear(&b);
	buf_init(&b, 100);
	ok(metrics_otlp(&b, m, NULL) == -1 && metrics_text(&b, m, false) == -1,
	    "a buffer that is too small is an error");
	buf_clear(&b);
}

int
main(void)
{
	struct metrics m;

	fill(&m);
	test_text(&m);
	test_otlp(&m);
	return done();
}
