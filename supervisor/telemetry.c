/*
 * What the operator's environment says about telemetry. One table has the
 * variables, and nothing else is read. A value is never printed: what was meant
 * for one variable may be a token that belongs into another.
 */

#include "supervisor/telemetry.h"

#include <sys/prctl.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "audit/json.h"
#include "audit/ring.h"
#include "enforce/host.h"
#include "supervisor/settings.h"

#define PREFIX "OTEL_"
#define MS_MAX 3600000
#define HEADERS_MAX ((size_t)32 * 1024)
#define RESOURCE_MAX ((size_t)16 * 1024)

/* Each for both signals first, then for each of them. */
enum variable {
	SDK_DISABLED,
	SERVICE_NAME,
	RESOURCE_ATTRIBUTES,
	TRACES_EXPORTER,
	METRICS_EXPORTER,
	TRACES_SAMPLER,
	TRACES_SAMPLER_ARG,
	ENDPOINT,
	ENDPOINT_TRACES,
	ENDPOINT_METRICS,
	HEADERS,
	HEADERS_TRACES,
	HEADERS_METRICS,
	TIMEOUT,
	TIMEOUT_TRACES,
	TIMEOUT_METRICS,
	COMPRESSION,
	COMPRESSION_TRACES,
	COMPRESSION_METRICS,
	PROTOCOL,
	PROTOCOL_TRACES,
	PROTOCOL_METRICS,
	CERTIFICATE,
	CERTIFICATE_TRACES,
	CERTIFICATE_METRICS,
	CLIENT_KEY,
	CLIENT_KEY_TRACES,
	CLIENT_KEY_METRICS,
	CLIENT_CERTIFICATE,
	CLIENT_CERTIFICATE_TRACES,
	CLIENT_CERTIFICATE_METRICS,
	TEMPORALITY,
	PROPAGATORS,
	SEMCONV_STABILITY_OPT_IN,
	BSP_SCHEDULE_DELAY,
	BSP_EXPORT_TIMEOUT,
	BSP_MAX_QUEUE_SIZE,
	BSP_MAX_EXPORT_BATCH_SIZE,
	METRIC_EXPORT_INTERVAL,
	METRIC_EXPORT_TIMEOUT,
	ATTRIBUTE_COUNT_LIMIT,
	ATTRIBUTE_VALUE_LENGTH_LIMIT,
	SPAN_ATTRIBUTE_COUNT_LIMIT,
	SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT,
	VARIABLES
};

#define OTLP "OTEL_EXPORTER_OTLP_"
#define ALL_OF(name, suffix, fallback)                                         \
	[name] = {OTLP suffix, fallback},                                      \
	[name##_TRACES] = {OTLP "TRACES_" suffix, NULL},                       \
	[name##_METRICS] = {OTLP "METRICS_" suffix, NULL}

/* NULL: nothing, or what the variable for both signals says. */
static const struct {
	const char *name;
	const char *fallback;
} variables[VARIABLES] = {
	[SDK_DISABLED] = {"OTEL_SDK_DISABLED", "false"},
	[SERVICE_NAME] = {"OTEL_SERVICE_NAME", "unknown_service:cyberos"},
	[RESOURCE_ATTRIBUTES] = {"OTEL_RESOURCE_ATTRIBUTES", NULL},
	[TRACES_EXPORTER] = {"OTEL_TRACES_EXPORTER", "otlp"},
	[METRICS_EXPORTER] = {"OTEL_METRICS_EXPORTER", "otlp"},
	[TRACES_SAMPLER] = {"OTEL_TRACES_SAMPLER", "parentbased_always_on"},
	[TRACES_SAMPLER_ARG] = {"OTEL_TRACES_SAMPLER_ARG", "1.0"},
	ALL_OF(ENDPOINT, "ENDPOINT", NULL),
	ALL_OF(HEADERS, "HEADERS", NULL),
	ALL_OF(TIMEOUT, "TIMEOUT", "10000"),
	ALL_OF(COMPRESSION, "COMPRESSION", "none"),
	ALL_OF(PROTOCOL, "PROTOCOL", "http/json"),
	ALL_OF(CERTIFICATE, "CERTIFICATE", NULL),
	ALL_OF(CLIENT_KEY, "CLIENT_KEY", NULL),
	ALL_OF(CLIENT_CERTIFICATE, "CLIENT_CERTIFICATE", NULL),
	[TEMPORALITY] = {OTLP "METRICS_TEMPORALITY_PREFERENCE", "cumulative"},
	[PROPAGATORS] = {"OTEL_PROPAGATORS", "tracecontext,baggage"},
	[SEMCONV_STABILITY_OPT_IN] = {"OTEL_SEMCONV_STABILITY_OPT_IN", NULL},
	[BSP_SCHEDULE_DELAY] = {"OTEL_BSP_SCHEDULE_DELAY", "5000"},
	[BSP_EXPORT_TIMEOUT] = {"OTEL_BSP_EXPORT_TIMEOUT", "30000"},
	[BSP_MAX_QUEUE_SIZE] = {"OTEL_BSP_MAX_QUEUE_SIZE", "2048"},
	[BSP_MAX_EXPORT_BATCH_SIZE] = {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "512"},
	[METRIC_EXPORT_INTERVAL] = {"OTEL_METRIC_EXPORT_INTERVAL", "60000"},
	[METRIC_EXPORT_TIMEOUT] = {"OTEL_METRIC_EXPORT_TIMEOUT", "30000"},
	[ATTRIBUTE_COUNT_LIMIT] = {"OTEL_ATTRIBUTE_COUNT_LIMIT", "128"},
	[ATTRIBUTE_VALUE_LENGTH_LIMIT] = {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
	    NULL},
	[SPAN_ATTRIBUTE_COUNT_LIMIT] = {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
	    NULL},
	[SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT] = {
	    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", NULL},
};

_Static_assert(VARIABLES <= TELEMETRY_VARIABLES, "room for each of them");

bool
telemetry_variable(size_t i, const char **name, const char **fallback)
{
	if (i >= VARIABLES)
		return false;
	*name = variables[i].name;
	*fallback = variables[i].fallback;
	return true;
}

static void
warning(struct telemetry *t, enum variable v, const char *why)
{
	if (t->warnings_n == TELEMETRY_WARNINGS)
		return;
	t->warnings[t->warnings_n][0] = variables[v].name;
	t->warnings[t->warnings_n++][1] = why;
}

void
telemetry_warn(const struct telemetry *t, const struct log *log)
{
	size_t i;

	for (i = 0; i < t->warnings_n; i++)
		log_line(log, LOG_LEVEL_WARN, "%s: %s", t->warnings[i][0],
		    t->warnings[i][1]);
}

/* --- out of the environment --- */

static int
take_value(struct telemetry *t, const char *entry)
{
	const char *equals = strchr(entry, '=');
	size_t i, n = equals == NULL ? 0 : (size_t)(equals - entry);

	for (i = 0; i < VARIABLES && n > 0; i++) {
		if (strlen(variables[i].name) != n || equals[1] == '\0' ||
		    memcmp(variables[i].name, entry, n) != 0 ||
		    t->values[i] != NULL)
			continue;
		t->values[i] = strdup(equals + 1);
		return t->values[i] == NULL ? -1 : 0;
	}
	return 0;
}

static int
take_environment(struct telemetry *t)
{
	char **from, **to = environ;
	int result = 0;

	for (from = environ; from != NULL && *from != NULL; from++) {
		if (strncmp(*from, PREFIX, sizeof(PREFIX) - 1) != 0) {
			*to++ = *from;
			continue;
		}
		/* Before the first copy: nobody else may look at us. */
		prctl(PR_SET_DUMPABLE, 0);
		if (take_value(t, *from) == -1)
			result = -1;
		explicit_bzero(*from, strlen(*from));
	}
	if (to != NULL)
		*to = NULL;
	return result;
}

/* --- values --- */

/* Which variable counts for this signal. */
static enum variable
which(const struct telemetry *t, enum variable both, enum telemetry_signal s)
{
	enum variable own = both + 1 + (enum variable)s;

	return t->values[own] != NULL ? own : both;
}

static const char *
value(const struct telemetry *t, enum variable v)
{
	return t->values[v] != NULL ? t->values[v] : variables[v].fallback;
}

static bool
read_number(const char *text, unsigned least, unsigned most, unsigned *out)
{
	unsigned long long n;
	char *end;

	if (text[strspn(text, "0123456789")] != '\0' || text[0] == '\0')
		return false;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno != 0 || n < least || n > most)
		return false;
	*out = (unsigned)n;
	return true;
}

/* A number that cannot be read leaves the default. */
static unsigned
number(struct telemetry *t, enum variable v, enum variable fallback,
    unsigned least, unsigned most)
{
	unsigned n = 0;

	if (t->values[v] != NULL) {
		if (read_number(t->values[v], least, most, &n))
			return n;
		warning(t, v,
		    "is no number that fits; the default is taken instead");
	}
	if (variables[fallback].fallback == NULL ||
	    !read_number(variables[fallback].fallback, least, most, &n))
		n = most;
	return n;
}

/* The same with one for spans alone and one for all attributes. */
static unsigned
number_of(struct telemetry *t, enum variable own, enum variable all,
    unsigned most)
{
	return number(t, t->values[own] != NULL ? own : all, all, 0, most);
}

static bool
is_word(const struct telemetry *t, enum variable v, const char *word)
{
	const char *text = value(t, v);

	return text != NULL && strcasecmp(text, word) == 0;
}

static int
hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* Percent-decoding in place. False: it is not encoded so. */
static bool
decode(char *text)
{
	char *in = text, *out = text;

	while (*in != '\0') {
		if (*in != '%') {
			*out++ = *in++;
			continue;
		}
		if (hex(in[1]) == -1 || hex(in[2]) == -1 ||
		    (in[1] == '0' && in[2] == '0'))
			return false;
		*out++ = (char)(hex(in[1]) * 16 + hex(in[2]));
		in += 3;
	}
	explicit_bzero(out, (size_t)(in - out));
	return true;
}

static char *
trim(char *text)
{
	char *end;

	text += strspn(text, " \t");
	end = text + strlen(text);
	while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
		*--end = '\0';
	return text;
}

/*
 * "key=value,key=value": each pair to put, which may refuse it. One that is bad
 * spoils all of it. The text is overwritten.
 */
static bool
read_pairs(char *text, bool (*put)(struct buf *, const char *, const char *),
    struct buf *out)
{
	char *pair, *val;

	while ((pair = strsep(&text, ",")) != NULL) {
		pair = trim(pair);
		if (*pair == '\0')
			continue;
		val = strchr(pair, '=');
		if (val == NULL)
			return false;
		*val++ = '\0';
		val = trim(val);
		pair = trim(pair);
		if (*pair == '\0' || !decode(val) || !put(out, pair, val))
			return false;
	}
	return !out->failed;
}

static bool
put_header(struct buf *out, const char *name, const char *val)
{
	static const char *const ours[] = {
	    "content-type", "content-encoding", "user-agent", "accept"};
	const char *why;
	size_t i;

	for (i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		if (strcasecmp(name, ours[i]) == 0)
			return false;
	}
	if (!host_header(name, val, &why))
		return false;
	buf_puts(out, out->len > 1 ? ",[" : "[");
	json_put_string(out, name, strlen(name));
	buf_putc(out, ',');
	json_put_string(out, val, strlen(val));
	return buf_putc(out, ']') == 0;
}

static void
take_headers(struct telemetry *t, enum telemetry_signal s)
{
	struct buf *headers = &t->targets[s].headers;
	enum variable v = which(t, HEADERS, s);
	char *copy;

	buf_init(headers, HEADERS_MAX);
	buf_putc(headers, '[');
	if (t->values[v] != NULL) {
		copy = strdup(t->values[v]);
		if (copy == NULL || !read_pairs(copy, put_header, headers)) {
			warning(t, v,
			    "is no list of key=value that may be sent; it is "
			    "left out");
			buf_clear(headers);
			buf_putc(headers, '[');
		}
		if (copy != NULL)
			freezero(copy, strlen(t->values[v]));
	}
	buf_putc(headers, ']');
}

static bool
is_url(const char *text)
{
	return (strncasecmp(text, "http://", 7) == 0 && text[7] != '\0') ||
	       (strncasecmp(text, "https://", 8) == 0 && text[8] != '\0');
}

/* Where it goes; NULL when it goes nowhere, and *out stays. */
static int
take_url(struct telemetry *t, enum telemetry_signal s)
{
	static const char *const paths[] = {
	    [TELEMETRY_TRACES] = "v1/traces",
	    [TELEMETRY_METRICS] = "v1/metrics",
	};
	enum variable v = which(t, ENDPOINT, s);
	const char *text = t->values[v];
	size_t n;

	if (text == NULL)
		return 0;
	if (!is_url(text)) {
		warning(t, v, "does not begin with http:// or https://; nothing "
			      "is sent");
		return 0;
	}
	n = v == ENDPOINT ? strcspn(text, "?#") : strlen(text);
	/* A query stays behind what is appended to the path. */
	if (asprintf(&t->targets[s].url, "%.*s%s%s%s", (int)n, text,
		v != ENDPOINT || text[n - 1] == '/' ? "" : "/",
		v != ENDPOINT ? "" : paths[s], text + n) == -1) {
		t->targets[s].url = NULL;
		return -1;
	}
	return 0;
}

/* Is this kind of data wanted from us at all? */
static bool
is_wanted(struct telemetry *t, enum telemetry_signal s)
{
	enum variable exporter =
	    s == TELEMETRY_TRACES ? TRACES_EXPORTER : METRICS_EXPORTER;
	enum variable protocol = which(t, PROTOCOL, s);

	if (is_word(t, SDK_DISABLED, "true") || is_word(t, exporter, "none"))
		return false;
	if (t->values[which(t, ENDPOINT, s)] == NULL)
		return false;
	if (!is_word(t, exporter, "otlp")) {
		warning(t, exporter,
		    "only otlp and none are known here; nothing is sent");
		return false;
	}
	if (!is_word(t, protocol, "http/json")) {
		warning(t, protocol,
		    "only http/json is spoken here; nothing is sent");
		return false;
	}
	return true;
}

/* A file from the root: skills are kept from it by that name. */
static int
take_file(struct telemetry *t, enum variable both, enum telemetry_signal s,
    const char **file)
{
	enum variable v = which(t, both, s);
	char path[PATH_MAX];

	*file = NULL;
	if (t->values[v] == NULL)
		return 0;
	if (t->values[v][0] != '/') {
		if (settings_absolute(path, t->values[v]) == -1)
			return -1;
		free(t->values[v]);
		t->values[v] = strdup(path);
		if (t->values[v] == NULL)
			return -1;
	}
	*file = t->values[v];
	return 0;
}

static int
take_target(struct telemetry *t, enum telemetry_signal s)
{
	struct telemetry_target *to = &t->targets[s];
	enum variable v = which(t, COMPRESSION, s);

	take_headers(t, s);
	if (!is_wanted(t, s))
		return 0;
	to->timeout_ms = number(t, which(t, TIMEOUT, s), TIMEOUT, 1, MS_MAX);
	to->gzip = is_word(t, v, "gzip");
	if (!to->gzip && !is_word(t, v, "none"))
		warning(t, v, "only gzip and none are known here; none is taken");
	if (take_file(t, CERTIFICATE, s, &to->certificate) == -1 ||
	    take_file(t, CLIENT_KEY, s, &to->client_key) == -1 ||
	    take_file(t, CLIENT_CERTIFICATE, s, &to->client_certificate) == -1)
		return -1;
	return take_url(t, s);
}

static double
sampler_ratio(struct telemetry *t)
{
	const char *text = value(t, TRACES_SAMPLER_ARG);
	char *end;
	double ratio = strtod(text, &end);

	if (end != text && *end == '\0' && ratio >= 0 && ratio <= 1)
		return ratio;
	warning(t, TRACES_SAMPLER_ARG,
	    "is no number from 0 to 1; the default is taken instead");
	return 1;
}

static void
take_sampler(struct telemetry *t)
{
	const char *word = value(t, TRACES_SAMPLER);

	t->sampler.parent = strncmp(word, "parentbased_", 12) == 0;
	if (t->sampler.parent)
		word += 12;
	t->sampler.below = TRACE_ALWAYS;
	if (strcmp(word, "always_off") == 0) {
		t->sampler.below = 0;
	} else if (strcmp(word, "traceidratio") == 0) {
		t->sampler.below =
		    (uint64_t)(sampler_ratio(t) * (double)TRACE_ALWAYS);
	} else if (strcmp(word, "always_on") != 0) {
		t->sampler.parent = true;
		warning(t, TRACES_SAMPLER,
		    "is not known here; parentbased_always_on is taken");
	}
}

/* W3C Trace Context is among them, and what is not ours is harmless: baggage. */
static bool
propagates(const char *list)
{
	static const char context[] = "tracecontext", baggage[] = "baggage";
	bool found = false;
	size_t n;

	for (list += strspn(list, " ,"); *list != '\0';
	    list += strspn(list, " ,")) {
		n = strcspn(list, " ,");
		if (n == sizeof(context) - 1 && memcmp(list, context, n) == 0)
			found = true;
		else if (n != sizeof(baggage) - 1 ||
			 memcmp(list, baggage, n) != 0)
			return false;
		list += n;
	}
	return found;
}

static void
take_limits(struct telemetry *t)
{
	t->queue = number(t, BSP_MAX_QUEUE_SIZE, BSP_MAX_QUEUE_SIZE, 1,
	    2 * RING_SLOTS_MAX);
	t->batch = number(t, BSP_MAX_EXPORT_BATCH_SIZE,
	    BSP_MAX_EXPORT_BATCH_SIZE, 1, 2048);
	if (t->batch > t->queue)
		t->batch = t->queue;
	t->delay_ms =
	    number(t, BSP_SCHEDULE_DELAY, BSP_SCHEDULE_DELAY, 0, MS_MAX);
	t->export_ms =
	    number(t, BSP_EXPORT_TIMEOUT, BSP_EXPORT_TIMEOUT, 1, MS_MAX);
	t->interval_ms = number(
	    t, METRIC_EXPORT_INTERVAL, METRIC_EXPORT_INTERVAL, 1, MS_MAX);
	t->metric_ms = number(
	    t, METRIC_EXPORT_TIMEOUT, METRIC_EXPORT_TIMEOUT, 1, MS_MAX);
	t->limits.count = number_of(
	    t, SPAN_ATTRIBUTE_COUNT_LIMIT, ATTRIBUTE_COUNT_LIMIT, 4096);
	t->limits.length = number_of(t, SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT,
	    ATTRIBUTE_VALUE_LENGTH_LIMIT, 65536);
	if (!is_word(t, TEMPORALITY, "cumulative"))
		warning(t, TEMPORALITY,
		    "only cumulative is known here; it is taken");
	if (!propagates(value(t, PROPAGATORS)))
		warning(t, PROPAGATORS,
		    "only tracecontext is known here; it is taken");
}

#define ATTRIBUTE ",{\"key\":" /* begins each, and stands in no text */

/* The one from at on has the key of one before it, which goes: keys are unique,
 * and the last one counts, as with the SDKs. */
static void
drop_same(struct buf *out, size_t at)
{
	const char *last = out->data + at, *end = out->data + out->len;
	const char *value = memmem(last, out->len - at, ",\"value\"", 8);
	const char *next;
	char *same =
	    memmem(out->data, at, last, (size_t)(value - last) + 1);

	if (same == NULL)
		return;
	next = memmem(same + 1, (size_t)(end - same) - 1, ATTRIBUTE,
	    sizeof(ATTRIBUTE) - 1);
	memmove(same, next, (size_t)(end - next));
	out->len -= (size_t)(next - same);
}

static bool
put_attribute(struct buf *out, const char *key, const char *val)
{
	size_t at = out->len;

	/* Said by a variable of its own, or by us: what a program says of itself
	 * beats the environment. */
	if (strcmp(key, "service.name") == 0 ||
	    strcmp(key, "service.version") == 0 ||
	    strcmp(key, "service.instance.id") == 0)
		return true;
	buf_putc(out, ',');
	if (span_text(out, key, val, strlen(val)) == -1)
		return false;
	drop_same(out, at);
	return true;
}

/* service.name of OTEL_RESOURCE_ATTRIBUTES, which the other variable beats. */
static bool
put_service(struct buf *out, const char *key, const char *val)
{
	if (strcmp(key, "service.name") == 0) {
		buf_reset(out);
		buf_puts(out, val);
	}
	return !out->failed;
}

/* 1: they cannot be read, and none is put. */
static int
put_pairs(const struct telemetry *t,
    bool (*put)(struct buf *, const char *, const char *), struct buf *out)
{
	const char *text = t->values[RESOURCE_ATTRIBUTES];
	size_t before = out->len;
	char *copy;
	int bad = 0;

	if (text == NULL)
		return 0;
	copy = strdup(text);
	if (copy == NULL)
		return -1;
	if (!read_pairs(copy, put, out)) {
		out->len = before;
		bad = 1;
	}
	freezero(copy, strlen(text));
	return bad;
}

int
telemetry_take(struct telemetry *t)
{
	struct buf all;

	memset(t, 0, sizeof(*t));
	if (take_environment(t) == -1 ||
	    take_target(t, TELEMETRY_TRACES) == -1 ||
	    take_target(t, TELEMETRY_METRICS) == -1)
		return -1;
	take_sampler(t);
	take_limits(t);
	buf_init(&all, RESOURCE_MAX);
	if (put_pairs(t, put_attribute, &all) == 1)
		warning(t, RESOURCE_ATTRIBUTES,
		    "is no list of key=value; it is left out");
	buf_clear(&all);
	return 0;
}

/* --- what it becomes --- */

int
telemetry_resource(
    const struct telemetry *t, const char *host_id, struct buf *out)
{
	struct buf name;
	int result = -1;

	buf_init(&name, RESOURCE_MAX);
	if (t->values[SERVICE_NAME] != NULL)
		buf_puts(&name, t->values[SERVICE_NAME]);
	else if (put_pairs(t, put_service, &name) == -1)
		goto out;
	if (name.len == 0)
		buf_puts(&name, variables[SERVICE_NAME].fallback);
	buf_putc(out, '[');
	span_text(out, "service.name", name.data, name.len);
	buf_putc(out, ',');
	span_text(out, "service.version", CYBEROS_VERSION,
	    sizeof(CYBEROS_VERSION) - 1);
	buf_putc(out, ',');
	span_text(out, "service.instance.id", host_id, strlen(host_id));
	if (put_pairs(t, put_attribute, out) == -1)
		goto out;
	result = buf_putc(out, ']');
out:
	buf_clear(&name);
	return result;
}

static void
wipe_text(char **text)
{
	if (*text != NULL)
		freezero(*text, strlen(*text));
	*text = NULL;
}

void
telemetry_wipe(struct telemetry *t)
{
	size_t i;

	for (i = 0; i < VARIABLES; i++) {
		if (i < CERTIFICATE || i > CLIENT_CERTIFICATE_METRICS)
			wipe_text(&t->values[i]);
	}
	for (i = 0; i < TELEMETRY_SIGNALS; i++) {
		wipe_text(&t->targets[i].url);
		buf_clear(&t->targets[i].headers);
	}
}

void
telemetry_clear(struct telemetry *t)
{
	size_t i;

	telemetry_wipe(t);
	for (i = 0; i < VARIABLES; i++)
		wipe_text(&t->values[i]);
	memset(t, 0, sizeof(*t));
}
