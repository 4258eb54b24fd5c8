/*
 * Metrics as texts. Every label is a word of a closed list and every value a
 * number that was copied before, so there is nothing to escape and nothing that
 * can change between a histogram's buckets and its count. All samples of a family
 * are there from the start: an alert sees the first event as a rise from zero.
 */

#include "audit/metrics.h"

#include <inttypes.h>
#include <string.h>

#include "audit/clock.h"

#define LABELS 2

struct metrics_sample {
	const char *value[LABELS]; /* of the labels */
	uint64_t n;
	const struct tally_histogram *h; /* of a histogram, instead */
};

/* --- samples --- */

static bool
build_sample(const struct metrics *m, size_t at, struct metrics_sample *s)
{
	(void)m;
	s->value[0] = CYBEROS_VERSION;
	s->n = 1;
	return at == 0;
}

static bool
number(size_t at, uint64_t n, struct metrics_sample *s)
{
	s->n = n;
	return at == 0;
}

/* The cells of a list of words. */
static bool
listed(enum tally_list list, const uint64_t *cells, size_t at,
    struct metrics_sample *s)
{
	s->value[0] = tally_word(list, at);
	if (s->value[0] == NULL)
		return false;
	s->n = cells[at];
	return true;
}

static bool
active_sample(const struct metrics *m, size_t at, struct metrics_sample *s)
{
	return number(at, m->active, s);
}

static bool
ending_sample(const struct metrics *m, size_t at, struct metrics_sample *s)
{
	return listed(TALLY_ENDING, m->tally.endings, at, s);
}

static bool
validation_sample(const struct metrics *m, size_t at, struct metrics_sample *s)
{
	return listed(TALLY_VALIDATION, m->tally.validations, at, s);
}

static bool
validation_time_sample(
    const struct metrics *m, size_t at, struct metrics_sample *s)
{
	s->h = &m->tally.validation;
	return at == 0;
}

static bool
calls_sample(const struct metrics *m, size_t at, struct metrics_sample *s)
{
	size_t tool = at / TALLY_OUTCOMES, outcome = at % TALLY_OUTCOMES;

	if (tool >= TALLY_TOOLS || m->tally.tools[tool].name[0] == '\0')
		return false;
	s->value[0] = m->tally.tools[tool].name;
	s->value[1] = tally_word(TALLY_OUTCOME, outcome);
	s->n = m->tally.tools[tool].calls[outcome];
	return true;
}

/* What is no tool never ran: [0] has no time. */
static bool
time_sample(const struct metrics *m, size_t at, struct metrics_sample *s)
{
	if (++at >= TALLY_TOOLS || m->tally.tools[at].name[0] == '\0')
		return false;
	s->value[0] = m->tally.tools[at].name;
	s->h = &m->tally.tools[at].took;
	return true;
}

static bool
bytes_sample(const struct metrics *m, size_t at, struct metrics_sample *s)
{
	return listed(TALLY_DIRECTION, m->tally.bytes, at, s);
}

static bool
truncated_sample(const struct metrics *m, size_t at, struct metrics_sample *s)
{
	return number(at, m->tally.truncated, s);
}

static bool
traces_sample(const struct metrics *m, size_t at, struct metrics_sample *s)
{
	return number(at, m->tally.bad_traces, s);
}

static bool
spooled_sample(const struct metrics *m, size_t at, struct metrics_sample *s)
{
	return number(at, m->tally.spooled, s);
}

static bool
dropped_sample(const struct metrics *m, size_t at, struct metrics_sample *s)
{
	return number(at, m->tally.dropped, s);
}

static bool
spans_sample(const struct metrics *m, size_t at, struct metrics_sample *s)
{
	return listed(TALLY_DROP, m->tally.spans_dropped, at, s);
}

static bool
attempts_sample(const struct metrics *m, size_t at, struct metrics_sample *s)
{
	if (at >= TALLY_SYSCALLS || m->tally.syscalls[at].name[0] == '\0')
		return false;
	s->value[0] = m->tally.syscalls[at].name;
	s->n = m->tally.syscalls[at].attempts;
	return true;
}

static const struct metrics_family families[] = {
    {"skill_broker_build_info", METRICS_INFO, NULL, NULL, {"version", NULL},
	"The version that wrote this.", build_sample},
    {"skill_broker_active_invocations", METRICS_GAUGE, NULL, "{invocation}",
	{NULL, NULL}, "Invocations that run now.", active_sample},
    {"skill_broker_invocations_total", METRICS_COUNTER, NULL, "{invocation}",
	{"outcome", NULL}, "Invocations that have ended.", ending_sample},
    {"skill_frontmatter_validation_total", METRICS_COUNTER, NULL,
	"{validation}", {"outcome", NULL},
	"Frontmatters that were read for an invocation.", validation_sample},
    {"skill_frontmatter_validation_duration_seconds", METRICS_HISTOGRAM,
	"seconds", "s", {NULL, NULL},
	"Time it took to read and judge a frontmatter.",
	validation_time_sample},
    {"skill_broker_tool_calls_total", METRICS_COUNTER, NULL, "{call}",
	{"tool_name", "outcome"}, "Tool calls that were answered.",
	calls_sample},
    {"skill_broker_tool_duration_seconds", METRICS_HISTOGRAM, "seconds", "s",
	{"tool_name", NULL}, "Time a call took that was not refused at once.",
	time_sample},
    {"skill_broker_socket_bytes_total", METRICS_COUNTER, "bytes", "By",
	{"direction", NULL}, "Bytes received from skills and sent to them.",
	bytes_sample},
    {"skill_broker_responses_truncated_total", METRICS_COUNTER, NULL,
	"{response}", {NULL, NULL}, "Answers that were cut to their limit.",
	truncated_sample},
    {"skill_broker_traceparents_invalid_total", METRICS_COUNTER, NULL,
	"{call}", {NULL, NULL},
	"Calls whose traceparent was invalid and ignored.", traces_sample},
    {"skill_broker_audit_spooled_total", METRICS_COUNTER, NULL, "{row}",
	{NULL, NULL}, "Ledger rows that had to wait to be written.",
	spooled_sample},
    {"skill_broker_audit_dropped_total", METRICS_COUNTER, NULL, "{row}",
	{NULL, NULL}, "Ledger rows that were lost.", dropped_sample},
    {"skill_broker_spans_dropped_total", METRICS_COUNTER, NULL, "{span}",
	{"reason", NULL}, "Spans that were not exported.", spans_sample},
    {"skill_broker_cap_bypass_attempts_total", METRICS_COUNTER, NULL,
	"{attempt}", {"syscall", NULL},
	"Refused attempts to leave the sandbox.", attempts_sample},
};

#define FAMILIES (sizeof(families) / sizeof(families[0]))

const struct metrics_family *
metrics_families(size_t *n)
{
	*n = FAMILIES;
	return families;
}

static bool
sample(const struct metrics_family *f, const struct metrics *m, size_t at,
    struct metrics_sample *s)
{
	*s = (struct metrics_sample){.value = {NULL, NULL}};
	return f->sample(m, at, s);
}

/* Nanoseconds as seconds, exactly. */
static void
put_seconds(struct buf *b, uint64_t ns)
{
	uint64_t rest = ns % (uint64_t)CLOCK_SECOND;
	int digits = 9;

	buf_put_uint(b, ns / (uint64_t)CLOCK_SECOND);
	for (; rest > 0 && rest % 10 == 0; rest /= 10)
		digits--;
	if (rest > 0)
		buf_printf(b, ".%0*" PRIu64, digits, rest);
}

/* --- Prometheus text and OpenMetrics --- */

/* {tool_name="Read",outcome="success"}, with le behind them if there is one. */
static void
put_labels(struct buf *b, const struct metrics_family *f,
    const struct metrics_sample *s, const char *le)
{
	const char *sep = "{";
	size_t i;

	for (i = 0; i < LABELS && f->labels[i] != NULL; i++) {
		buf_put_all(b, sep, f->labels[i], "=\"", s->value[i], "\"");
		sep = ",";
	}
	if (le != NULL) {
		buf_put_all(b, sep, "le=\"", le, "\"");
		sep = ",";
	}
	if (*sep == ',')
		buf_putc(b, '}');
}

static void
put_line(struct buf *b, const struct metrics_family *f, const char *suffix,
    const struct metrics_sample *s, const char *le, uint64_t n)
{
	buf_put_all(b, f->name, suffix);
	put_labels(b, f, s, le);
	buf_putc(b, ' ');
	buf_put_uint(b, n);
	buf_putc(b, '\n');
}

static void
put_histogram(struct buf *b, const struct metrics_family *f,
    const struct metrics_sample *s)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < TALLY_BUCKETS; i++) {
		n += s->h->bucket[i];
		put_line(b, f, "_bucket", s, tally_bound_text(i), n);
	}
	buf_put_all(b, f->name, "_sum");
	put_labels(b, f, s, NULL);
	buf_putc(b, ' ');
	put_seconds(b, s->h->sum);
	buf_putc(b, '\n');
	put_line(b, f, "_count", s, NULL, n);
}

/* In OpenMetrics the suffix is the sample's and not the family's. */
static void
put_head(struct buf *b, const struct metrics_family *f, bool openmetrics)
{
	static const struct {
		const char *suffix, *type, *open;
	} kinds[] = {
	    [METRICS_COUNTER] = {"_total", "counter", "counter"},
	    [METRICS_GAUGE] = {"", "gauge", "gauge"},
	    [METRICS_HISTOGRAM] = {"", "histogram", "histogram"},
	    [METRICS_INFO] = {"_info", "gauge", "info"},
	};
	size_t cut = openmetrics ? strlen(kinds[f->kind].suffix) : 0;
	int len = (int)(strlen(f->name) - cut);

	buf_printf(b, "# HELP %.*s %s\n# TYPE %.*s %s\n", len, f->name, f->help,
	    len, f->name,
	    openmetrics ? kinds[f->kind].open : kinds[f->kind].type);
	if (openmetrics && f->unit != NULL)
		buf_printf(b, "# UNIT %.*s %s\n", len, f->name, f->unit);
}

int
metrics_text(struct buf *b, const struct metrics *m, bool openmetrics)
{
	const struct metrics_family *f;
	struct metrics_sample s;
	size_t i;

	for (f = families; f < families + FAMILIES; f++) {
		put_head(b, f, openmetrics);
		for (i = 0; sample(f, m, i, &s); i++) {
			if (f->kind == METRICS_HISTOGRAM)
				put_histogram(b, f, &s);
			else
				put_line(b, f, "", &s, NULL, s.n);
		}
	}
	if (openmetrics)
		buf_puts(b, "# EOF\n");
	return b->failed ? -1 : 0;
}

/* --- OTLP --- */

static void
put_attributes(struct buf *b, const struct metrics_family *f,
    const struct metrics_sample *s)
{
	size_t i;

	buf_puts(b, "\"attributes\":[");
	for (i = 0; i < LABELS && f->labels[i] != NULL; i++)
		buf_put_all(b, i == 0 ? "" : ",", "{\"key\":\"", f->labels[i],
		    "\",\"value\":{\"stringValue\":\"", s->value[i], "\"}}");
	buf_puts(b, "],");
}

static void
put_times(struct buf *b, const struct metrics_family *f,
    const struct metrics *m)
{
	/* A clock that was set back must not let them end before they began. */
	int64_t now = m->now < m->since ? m->since : m->now;

	if (f->kind == METRICS_COUNTER || f->kind == METRICS_HISTOGRAM)
		buf_printf(
		    b, "\"startTimeUnixNano\":\"%" PRId64 "\",", m->since);
	buf_printf(b, "\"timeUnixNano\":\"%" PRId64 "\",", now);
}

/* Bounds are numbers, and the last bucket has none. */
static void
put_buckets(struct buf *b, const struct tally_histogram *h)
{
	size_t i;

	buf_printf(b, "\"count\":\"%" PRIu64 "\",\"sum\":", tally_observed(h));
	put_seconds(b, h->sum);
	buf_puts(b, ",\"bucketCounts\":[");
	for (i = 0; i < TALLY_BUCKETS; i++)
		buf_printf(
		    b, "%s\"%" PRIu64 "\"", i == 0 ? "" : ",", h->bucket[i]);
	buf_puts(b, "],\"explicitBounds\":[");
	for (i = 0; i + 1 < TALLY_BUCKETS; i++)
		buf_put_all(b, i == 0 ? "" : ",", tally_bound_text(i));
	buf_puts(b, "]}");
}

static void
put_metric(
    struct buf *b, const struct metrics_family *f, const struct metrics *m)
{
	static const char *const kinds[] = {
	    [METRICS_COUNTER] = ("\"sum\":{\"isMonotonic\":true,"
				 "\"aggregationTemporality\":2,"),
	    [METRICS_GAUGE] = "\"gauge\":{",
	    [METRICS_HISTOGRAM] = "\"histogram\":{\"aggregationTemporality\":2,",
	    [METRICS_INFO] = "\"gauge\":{",
	};
	struct metrics_sample s;
	size_t i;

	buf_put_all(b, "{\"name\":\"", f->name, "\",\"description\":\"",
	    f->help, "\",");
	if (f->otlp_unit != NULL)
		buf_put_all(b, "\"unit\":\"", f->otlp_unit, "\",");
	buf_put_all(b, kinds[f->kind], "\"dataPoints\":[");
	for (i = 0; sample(f, m, i, &s); i++) {
		buf_puts(b, i == 0 ? "{" : ",{");
		put_attributes(b, f, &s);
		put_times(b, f, m);
		if (f->kind == METRICS_HISTOGRAM)
			put_buckets(b, s.h);
		else
			buf_printf(b, "\"asInt\":\"%" PRIu64 "\"}", s.n);
	}
	buf_puts(b, "]}}");
}

int
metrics_otlp(struct buf *b, const struct metrics *m, const char *resource)
{
	static const char ours[] =
	    "{\"attributes\":[{\"key\":\"service.name\",\"value\":"
	    "{\"stringValue\":\"cyberos\"}},{\"key\":\"service.version\","
	    "\"value\":{\"stringValue\":\"" CYBEROS_VERSION "\"}}]}";
	size_t i;

	buf_put_all(b, "{\"resourceMetrics\":[{\"resource\":",
	    resource == NULL ? ours : resource,
	    ",\"scopeMetrics\":[{\"scope\":{\"name\":\"cyberos.skill.broker\","
	    "\"version\":\"" CYBEROS_VERSION "\"},\"metrics\":[");
	for (i = 0; i < FAMILIES; i++) {
		if (i > 0)
			buf_putc(b, ',');
		put_metric(b, &families[i], m);
	}
	buf_puts(b, "]}]}]}");
	return b->failed ? -1 : 0;
}
