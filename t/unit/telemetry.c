/*
 * supervisor/telemetry: each variable with values that fit and values that do
 * not, the warnings, and that nothing of it is left in the environment.
 */

#include "supervisor/telemetry.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "t/unit/tap.h"

static struct telemetry t;
static char *entries[16];

/* Take these, "NAME=value" each. */
static void
take(const char *first, ...)
{
	const char *e;
	size_t n = 0;
	va_list ap;

	va_start(ap, first);
	for (e = first; e != NULL; e = va_arg(ap, const char *))
		entries[n++] = strdup(e);
	va_end(ap);
	entries[n] = NULL;
	environ = entries;
	if (telemetry_take(&t) == -1)
		printf("# out of memory\n");
}

static void
drop(void)
{
	telemetry_clear(&t);
}

#define BASE "OTEL_EXPORTER_OTLP_ENDPOINT=http://h:4318"

static const char *
url(enum telemetry_signal s)
{
	return t.targets[s].url == NULL ? "none" : t.targets[s].url;
}

static const char *
headers(enum telemetry_signal s)
{
	buf_putc(&t.targets[s].headers, '\0');
	return t.targets[s].headers.data;
}

static bool
warned(const char *variable)
{
	size_t i;

	for (i = 0; i < t.warnings_n; i++) {
		if (strcmp(t.warnings[i][0], variable) == 0)
			return true;
	}
	return false;
}

static void
test_nothing(void)
{
	take("HOME=/", (const char *)NULL);
	is_str(url(TELEMETRY_TRACES), "none", "no endpoint: nothing is sent");
	is_str(url(TELEMETRY_METRICS), "none", "neither of it");
	is_int((long long)t.warnings_n, 0, "and nothing is said");
	is_int(t.queue, 2048, "the queue's default");
	is_int(t.batch, 512, "the batch's");
	is_int(t.delay_ms, 5000, "the delay's");
	is_int(t.export_ms, 30000, "the time-out's");
	is_int(t.limits.count, 128, "the attributes'");
	is_int(t.limits.length, 65536, "their length's");
	ok(t.sampler.parent && t.sampler.below == TRACE_ALWAYS, "the sampler's");
	drop();
}

static void
test_endpoint(void)
{
	take(BASE, (const char *)NULL);
	is_str(url(TELEMETRY_TRACES), "http://h:4318/v1/traces",
	    "a path is appended");
	is_str(url(TELEMETRY_METRICS), "http://h:4318/v1/metrics",
	    "for each signal");
	is_int(t.targets[0].timeout_ms, 10000, "the time-out's default");
	ok(!t.targets[0].gzip, "and compression's");
	drop();
	take("OTEL_EXPORTER_OTLP_ENDPOINT=HTTPS://h/a/",
	    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://m", (const char *)NULL);
	is_str(url(TELEMETRY_TRACES), "HTTPS://h/a/v1/traces",
	    "with one slash between");
	is_str(url(TELEMETRY_METRICS), "http://m",
	    "a signal's own is taken as it is");
	drop();
	take("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t/x",
	    "OTEL_EXPORTER_OTLP_ENDPOINT=", (const char *)NULL);
	is_str(url(TELEMETRY_TRACES), "http://t/x", "it is enough alone");
	is_str(url(TELEMETRY_METRICS), "none", "for itself; empty is unset");
	drop();
	take("OTEL_EXPORTER_OTLP_ENDPOINT=http://h/a?x=1/",
	    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://m?y=2",
	    (const char *)NULL);
	is_str(url(TELEMETRY_TRACES), "http://h/a/v1/traces?x=1/",
	    "a query stays behind the path");
	is_str(url(TELEMETRY_METRICS), "http://m?y=2", "of a signal's own too");
	drop();
	take("OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4318", (const char *)NULL);
	is_str(url(TELEMETRY_TRACES), "none", "no URL");
	ok(warned("OTEL_EXPORTER_OTLP_ENDPOINT"), "is a warning");
	drop();
}

static void
test_propagators(void)
{
	static const struct {
		const char *entry;
		bool warned;
	} rows[] = {
	    {"OTEL_PROPAGATORS=tracecontext", false},
	    {"OTEL_PROPAGATORS=baggage, tracecontext", false},
	    {"OTEL_PROPAGATORS=b3", true},
	    {"OTEL_PROPAGATORS=tracecontext,b3", true},
	    {"OTEL_PROPAGATORS=none", true},
	    {"OTEL_PROPAGATORS=baggage", true},
	    {"OTEL_PROPAGATORS=", false},
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		take(rows[i].entry, (const char *)NULL);
		ok(warned("OTEL_PROPAGATORS") == rows[i].warned, "%s",
		    rows[i].entry);
		drop();
	}
}

static void
test_off(void)
{
	take(BASE, "OTEL_SDK_DISABLED=TRUE", (const char *)NULL);
	is_str(url(TELEMETRY_TRACES), "none", "disabled in any case");
	drop();
	take(BASE, "OTEL_SDK_DISABLED=1", (const char *)NULL);
	is_str(url(TELEMETRY_TRACES), "http://h:4318/v1/traces",
	    "by no other word");
	drop();
	take(BASE, "OTEL_TRACES_EXPORTER=none", (const char *)NULL);
	is_str(url(TELEMETRY_TRACES), "none", "traces are not wanted");
	is_str(url(TELEMETRY_METRICS), "http://h:4318/v1/metrics",
	    "metrics are");
	is_int((long long)t.warnings_n, 0, "without a word");
	drop();
	take(BASE, "OTEL_METRICS_EXPORTER=prometheus", (const char *)NULL);
	ok(t.targets[TELEMETRY_METRICS].url == NULL &&
		warned("OTEL_METRICS_EXPORTER"),
	    "another exporter is none and a warning");
	drop();
	take(BASE, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", (const char *)NULL);
	ok(t.targets[0].url == NULL && t.targets[1].url == NULL &&
		warned("OTEL_EXPORTER_OTLP_PROTOCOL"),
	    "grpc is not spoken, and nothing is sent instead");
	drop();
	take(BASE, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
	    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json", (const char *)NULL);
	ok(t.targets[0].url != NULL && t.targets[1].url == NULL,
	    "a signal's own protocol");
	drop();
}

static void
test_headers(void)
{
	take(BASE,
	    "OTEL_EXPORTER_OTLP_HEADERS= authorization = Bearer%20a%2Cb , x-b=c",
	    "OTEL_EXPORTER_OTLP_METRICS_HEADERS=only=m", (const char *)NULL);
	is_str(headers(TELEMETRY_TRACES),
	    "[[\"authorization\",\"Bearer a,b\"],[\"x-b\",\"c\"]]",
	    "headers, decoded");
	is_str(headers(TELEMETRY_METRICS), "[[\"only\",\"m\"]]",
	    "a signal's own beat them");
	drop();
	static const char *const bad[] = {"a", "=b", "a=", "a=%0d%0aX:1",
	    "a=%00", "a=%2", "a b=c", "host=x", "content-length=1",
	    "Content-Type=x", "a=b,c"};
	char text[128];
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "OTEL_EXPORTER_OTLP_HEADERS=%s",
		    bad[i]);
		take(BASE, text, (const char *)NULL);
		ok(strcmp(headers(TELEMETRY_TRACES), "[]") == 0 &&
			warned("OTEL_EXPORTER_OTLP_HEADERS"),
		    "no header: %s", bad[i]);
		drop();
	}
}

static void
test_numbers(void)
{
	static const char *const bad[] = {
	    "", "x", "-1", "1.5", "99999999999999999999", "0x10", " 1", "1s"};
	char text[128];
	size_t i;

	take(BASE, "OTEL_EXPORTER_OTLP_TIMEOUT=250",
	    "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT=9", "OTEL_BSP_MAX_QUEUE_SIZE=10",
	    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=20", "OTEL_BSP_SCHEDULE_DELAY=0",
	    "OTEL_EXPORTER_OTLP_COMPRESSION=gzip", (const char *)NULL);
	ok(t.targets[0].timeout_ms == 250 && t.targets[1].timeout_ms == 9,
	    "time-outs");
	ok(t.queue == 10 && t.batch == 10, "a batch is no more than the queue");
	ok(t.delay_ms == 0 && t.targets[0].gzip && t.targets[1].gzip,
	    "delay and compression");
	is_int((long long)t.warnings_n, 0, "all of it fits");
	drop();
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "OTEL_BSP_MAX_QUEUE_SIZE=%s",
		    bad[i]);
		take(text, (const char *)NULL);
		ok(t.queue == 2048 &&
			warned("OTEL_BSP_MAX_QUEUE_SIZE") == (i != 0),
		    "no number: \"%s\"", bad[i]);
		drop();
	}
	take("OTEL_ATTRIBUTE_COUNT_LIMIT=5", (const char *)NULL);
	is_int(t.limits.count, 5, "a limit for all attributes");
	drop();
	take("OTEL_ATTRIBUTE_COUNT_LIMIT=5", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=0",
	    (const char *)NULL);
	is_int(t.limits.count, 0, "which that of spans beats");
	drop();
}

static void
test_sampler(void)
{
	struct trace low = {"00000000000000000000000000000001", "1", 0};
	struct trace high = {"0000000000000000ffffffffffffffff", "1", 1};

	take("OTEL_TRACES_SAMPLER=always_off", (const char *)NULL);
	ok(!trace_sampled(&t.sampler, &high, true) &&
		!trace_sampled(&t.sampler, &low, false),
	    "always_off");
	drop();
	take("OTEL_TRACES_SAMPLER=always_on", (const char *)NULL);
	ok(trace_sampled(&t.sampler, &low, true), "always_on asks nobody");
	drop();
	take("OTEL_TRACES_SAMPLER=parentbased_always_off", (const char *)NULL);
	ok(trace_sampled(&t.sampler, &high, true) &&
		!trace_sampled(&t.sampler, &high, false),
	    "parentbased_always_off asks the parent, if there is one");
	drop();
	take("OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.5",
	    (const char *)NULL);
	ok(trace_sampled(&t.sampler, &low, false) &&
		!trace_sampled(&t.sampler, &high, true),
	    "traceidratio looks at the id");
	drop();
	take("OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=2",
	    (const char *)NULL);
	ok(warned("OTEL_TRACES_SAMPLER_ARG") &&
		trace_sampled(&t.sampler, &high, false),
	    "a ratio is 0 to 1");
	drop();
	take("OTEL_TRACES_SAMPLER=jaeger_remote", (const char *)NULL);
	ok(warned("OTEL_TRACES_SAMPLER") && t.sampler.parent, "an unknown one");
	drop();
}

static void
test_resource(void)
{
	struct buf b;

	buf_init(&b, 4096);
	take("OTEL_RESOURCE_ATTRIBUTES=service.name=z,k=v%20w,kk=1,k=x%22}},"
	     "service.instance.id=no,service.name=a,service.version=9,m=,k=y",
	    (const char *)NULL);
	telemetry_resource(&t, "HOST", &b);
	buf_putc(&b, '\0');
	is_str(b.data,
	    "[{\"key\":\"service.name\",\"value\":{\"stringValue\":\"a\"}},"
	    "{\"key\":\"service.version\",\"value\":{\"stringValue\":\""
	    CYBEROS_VERSION "\"}},"
	    "{\"key\":\"service.instance.id\",\"value\":{\"stringValue\":"
	    "\"HOST\"}},"
	    "{\"key\":\"kk\",\"value\":{\"stringValue\":\"1\"}},"
	    "{\"key\":\"m\",\"value\":{\"stringValue\":\"\"}},"
	    "{\"key\":\"k\",\"value\":{\"stringValue\":\"y\"}}]",
	    "attributes, of each key the last");
	drop();
	buf_reset(&b);
	take("OTEL_RESOURCE_ATTRIBUTES=service.name=a,b",
	    "OTEL_SERVICE_NAME=mine", (const char *)NULL);
	telemetry_resource(&t, "HOST", &b);
	buf_putc(&b, '\0');
	ok(strstr(b.data, "\"mine\"") != NULL && strstr(b.data, "\"a\"") == NULL,
	    "OTEL_SERVICE_NAME counts");
	ok(warned("OTEL_RESOURCE_ATTRIBUTES"), "one bad pair spoils them all");
	drop();
	buf_clear(&b);
}

static void
test_wiped(void)
{
	char secret[] = "OTEL_EXPORTER_OTLP_LOGS_HEADERS=token=hunter2";
	char other[] = "OTHER=1", *list[] = {secret, other, NULL};
	size_t i;
	bool zero = true;

	environ = list;
	telemetry_take(&t);
	for (i = 0; i < sizeof(secret); i++)
		zero = zero && secret[i] == '\0';
	ok(zero, "of what begins with OTEL_ no byte is left");
	ok(list[0] == other && list[1] == NULL, "and the others are there");
	telemetry_wipe(&t);
	drop();
}

int
main(void)
{
	char **real = environ;
	static const char *name, *fallback;
	size_t i;

	test_nothing();
	test_endpoint();
	test_propagators();
	test_off();
	test_headers();
	test_numbers();
	test_sampler();
	test_resource();
	test_wiped();
	for (i = 0; telemetry_variable(i, &name, &fallback); i++)
		if (name == NULL || strncmp(name, "OTEL_", 5) != 0)
			break;
	ok(i > 40 && !telemetry_variable(i, &name, &fallback),
	    "every row of the table has its name");
	environ = real;
	return done();
}
