/*
 * What operators look at. Everything here only reads; who may read is decided
 * by the modes of the store.
 */

#include <sys/file.h>
#include <sys/stat.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/anchor.h"
#include "audit/clock.h"
#include "audit/counters.h"
#include "audit/hostpage.h"
#include "audit/json.h"
#include "audit/store.h"
#include "broker/broker.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "supervisor/inspect.h"
#include "supervisor/outfile.h"
#include "supervisor/settings.h"
#include "tools/registry.h"

#define STATUS_MAX ((size_t)64 << 20) /* bytes of it: some 200,000 at once */

struct live {
	char id[37];
	char skill[65];
	char tenant[37];
	int64_t pid;
	int64_t started_wall;
	int64_t remaining_ms;
	uint64_t calls, denied;
};

struct status {
	const struct store *store;
	const char *tenant; /* NULL: all */
	struct live *live;  /* of this tenant */
	size_t n, size;
	char day[CLOCK_DAY_SIZE]; /* today's */
	struct anchor_totals today; /* of the host */
	uint64_t waiting;
};

static int
list_live(struct status *st, const struct counters *c)
{
	struct live *l;
	int64_t deadline = counters_get(c, deadline_boot);

	if (st->n == st->size) {
		l = recallocarray(st->live, st->size, st->size * 2 + 16,
		    sizeof(*l));
		if (l == NULL)
			return -1;
		st->live = l;
		st->size = st->size * 2 + 16;
	}
	l = &st->live[st->n++];
	strlcpy(l->id, c->invocation_id, sizeof(l->id));
	strlcpy(l->skill, c->skill_id, sizeof(l->skill));
	strlcpy(l->tenant, c->tenant_id, sizeof(l->tenant));
	l->pid = c->pid;
	l->started_wall = c->started_wall;
	l->remaining_ms =
	    deadline == 0 ? 0 : (deadline - clock_boot()) / CLOCK_MS;
	if (l->remaining_ms < 0)
		l->remaining_ms = 0;
	l->calls = counters_get(c, calls);
	l->denied = counters_get(c, denied);
	return 0;
}

/*
 * One whose page is not there or not whole begins or ends right now. One that
 * died counts by its page until somebody has closed its books.
 */
static int
look_at_page(void *arg, const char *id)
{
	struct status *st = arg;
	const struct store *s = st->store;
	struct segment_totals today;
	struct counters c;
	char name[64];
	bool runs = store_running(s, id);
	int fd, result;

	snprintf(name, sizeof(name), "%.36s.status", id);
	fd = store_file(s->run_fd, name, O_RDONLY);
	if (fd == -1)
		return 0;
	result = counters_read(fd, &c);
	close(fd);
	if (result == -1 || strcmp(c.invocation_id, id) != 0 ||
	    !store_is_uuid(c.tenant_id))
		return 0;
	today = counters_since(&c, st->day);
	if (!runs && (today.calls + today.denied == 0 ||
			 anchor_closed(s, st->day, id) != 0))
		return 0;
	st->today.calls += today.calls;
	st->today.denied += today.denied;
	st->today.errors += today.errors;
	st->today.timeouts += today.timeouts;
	if (!runs)
		return 0;
	st->waiting += counters_get(&c, waiting);
	if (st->tenant != NULL && strcmp(st->tenant, c.tenant_id) != 0)
		return 0;
	return list_live(st, &c);
}

static int
by_start(const void *a, const void *b)
{
	const struct live *x = a, *y = b;

	return x->started_wall < y->started_wall ? -1
						 : x->started_wall >
		y->started_wall;
}

static void
put_live(struct buf *b, const struct live *l)
{
	char stamp[CLOCK_STAMP_SIZE];

	clock_stamp(l->started_wall, stamp);
	buf_printf(b, "{\"invocation_id\":\"%s\",\"skill_id\":", l->id);
	json_put_string(b, l->skill, strlen(l->skill));
	buf_printf(b, ",\"tenant_id\":\"%s\",\"pid\":%" PRId64
	    ",\"started_at\":\"%s\",\"calls\":%" PRIu64
	    ",\"denied\":%" PRIu64 ",\"remaining_ms\":%" PRId64 "}",
	    l->tenant, l->pid, stamp, l->calls, l->denied, l->remaining_ms);
}

/* The members, without braces. */
static void
put_json(struct buf *b, const struct status *st)
{
	size_t i;

	buf_printf(b, "\"active_invocations\":%zu,\"tool_calls_today\":%" PRIu64
	    ",\"denied_today\":%" PRIu64 ",\"errors_today\":%" PRIu64
	    ",\"timeouts_today\":%" PRIu64 ",\"spooled_rows\":%" PRIu64
	    ",\"version\":\"" CYBEROS_VERSION "\",\"invocations\":[",
	    st->n, st->today.calls, st->today.denied, st->today.errors,
	    st->today.timeouts, st->waiting);
	for (i = 0; i < st->n; i++) {
		if (i > 0)
			buf_putc(b, ',');
		put_live(b, &st->live[i]);
	}
	buf_putc(b, ']');
}

static int
print_json(const struct status *st)
{
	struct buf b;
	int result = EXIT_FINE;

	buf_init(&b, STATUS_MAX);
	buf_putc(&b, '{');
	put_json(&b, st);
	buf_puts(&b, "}\n");
	if (b.failed) {
		warnx("status: %s", strerror(errno));
		result = EXIT_FAILED;
	} else {
		fwrite(b.data, 1, b.len, stdout);
	}
	buf_clear(&b);
	return result;
}

static void
print_human(const struct status *st)
{
	char skill[17];
	const struct live *l;
	size_t i, j;

	printf("cyberos " CYBEROS_VERSION ": %zu running\n", st->n);
	printf("today (UTC): %" PRIu64 " calls, %" PRIu64 " denied, %" PRIu64
	       " failed, %" PRIu64 " timed out\n",
	    st->today.calls, st->today.denied, st->today.errors,
	    st->today.timeouts);
	if (st->waiting > 0)
		printf("%" PRIu64 " rows wait for the ledger\n", st->waiting);
	if (st->n == 0)
		return;
	printf("\n%-36s %-16s %6s %6s %8s\n", "INVOCATION", "SKILL", "CALLS",
	    "DENIED", "LEFT");
	for (i = 0; i < st->n; i++) {
		l = &st->live[i];
		strlcpy(skill, l->skill, sizeof(skill));
		for (j = 0; skill[j] != '\0'; j++) {
			if (skill[j] < 0x20 || skill[j] > 0x7e)
				skill[j] = '?';
		}
		printf("%-36s %-16s %6" PRIu64 " %6" PRIu64 " %7" PRId64 "s\n",
		    l->id, skill, l->calls, l->denied,
		    (l->remaining_ms + 999) / 1000);
	}
}

/*
 * Live pages first, then the closed segments: one that ends in between is
 * counted twice for a moment rather than not at all.
 */
static int
collect(const struct store *s, struct status *st)
{
	struct anchor_totals closed;

	st->store = s;
	if (anchor_day(s, st->day) == -1 ||
	    store_run_each(s, ".lock", look_at_page, st) == -1 ||
	    anchor_totals(s, st->day, &closed) == -1)
		return -1;
	st->today.calls += closed.calls;
	st->today.denied += closed.denied;
	st->today.errors += closed.errors;
	st->today.timeouts += closed.timeouts;
	if (st->n > 0)
		qsort(st->live, st->n, sizeof(*st->live), by_start);
	return 0;
}

int
inspect_put_status(const struct store *s, struct buf *b)
{
	struct status st;
	int result;

	memset(&st, 0, sizeof(st));
	result = collect(s, &st);
	if (result == 0)
		put_json(b, &st);
	free(st.live);
	return result == 0 && !b->failed ? 0 : -1;
}

static int
status_of(const char *path, struct status *st)
{
	struct store store;
	int result = settings_open_any(path, &store);

	if (result != EXIT_FINE || store.run_fd == -1)
		return result;
	if (collect(&store, st) == -1) {
		warn("status");
		result = EXIT_FAILED;
	}
	store_close(&store);
	return result;
}

static const char status_usage[] =
    "usage: cyberos skill broker status [--json | --human] [--tenant UUID]\n"
    "           [--store DIR] [--config FILE]\n";

static const char status_help[] =
    "\n"
    "What runs now, and today's totals (UTC day), as JSON or as a table.\n"
    "\n"
    "  --json         one JSON object (default)\n"
    "  --human        a table for people\n"
    "  --tenant UUID  list this tenant's invocations; totals stay the host's\n"
    "  --store DIR    where ledger and memory live\n"
    "  --config FILE  operator's configuration\n"
    "  --help         this text\n"
    "\n"
    "Exit status: 0 fine, 1 failed, 2 usage, 3 configuration, 5 not "
    "permitted.\n";

int
inspect_status(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "human", no_argument, NULL, 'h' },
		{ "tenant", required_argument, NULL, 't' },
		{ "store", required_argument, NULL, 's' },
		{ "config", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'H' },
		{ NULL, 0, NULL, 0 },
	};
	struct settings_options o = { NULL, NULL, NULL, NULL, NULL };
	struct settings settings;
	struct status st;
	char why[1024];
	bool human = false;
	int opt, result;

	memset(&st, 0, sizeof(st));

	optind = 0; /* glibc: begin anew */
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'j':
			human = false;
			break;
		case 'h':
			human = true;
			break;
		case 't':
			st.tenant = optarg;
			break;
		case 's':
			o.store = optarg;
			break;
		case 'c':
			o.config = optarg;
			break;
		case 'H':
			printf("%s%s", status_usage, status_help);
			return EXIT_FINE;
		default:
			fputs(status_usage, stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc || (st.tenant != NULL && !store_is_uuid(st.tenant))) {
		fputs(status_usage, stderr);
		return EXIT_USAGE;
	}
	if (settings_load(&settings, &o, why, sizeof(why)) == -1) {
		warnx("%s", why);
		settings_clear(&settings);
		return EXIT_CONFIG;
	}
	result = status_of(settings.store, &st);
	if (result == EXIT_FINE && human)
		print_human(&st);
	else if (result == EXIT_FINE)
		result = print_json(&st);
	free(st.live);
	settings_clear(&settings);
	return result;
}

/* --- metrics --- */

struct metrics_wish {
	bool openmetrics;
	const char *output; /* NULL: standard output */
};

static int
read_metrics(const char *path, struct metrics *m)
{
	struct broker_names names;
	struct store store;
	int result = settings_open_any(path, &store);

	if (result != EXIT_FINE)
		return result;
	broker_names(&names);
	if (store.run_fd == -1) {
		memset(m, 0, sizeof(*m));
		tally_init(&m->tally, &names.names);
		m->since = m->now = clock_wall();
		return EXIT_FINE;
	}
	if (hostpage_read(&store, &names.names, m) == -1) {
		warn("metrics");
		result = EXIT_FAILED;
	}
	store_close(&store);
	return result;
}

/* Whole or not at all, and for whoever collects it to read, whatever our umask:
 * there are words of our lists in it and numbers. */
static int
write_metrics(const char *path, const struct buf *b)
{
	struct outfile o;
	int result = EXIT_FINE;

	outfile_init(&o);
	if (outfile_open(&o, path) == -1 || fchmod(o.fd, 0644) == -1 ||
	    outfile_commit(&o, b->data, b->len) == -1) {
		warnx("--output %s: %s", path, errno == EINVAL
			? "is there and is not a regular file"
			: strerror(errno));
		result = EXIT_FAILED;
	}
	outfile_clear(&o);
	return result;
}

static int
metrics_of(const char *path, const struct metrics_wish *wish)
{
	struct metrics *m = calloc(1, sizeof(*m));
	struct buf b;
	int result;

	if (m == NULL)
		err(EXIT_FAILED, NULL);
	buf_init(&b, 1024 * 1024);
	result = read_metrics(path, m);
	if (result == EXIT_FINE &&
	    metrics_text(&b, m, wish->openmetrics) == -1) {
		warn("metrics");
		result = EXIT_FAILED;
	}
	if (result == EXIT_FINE && wish->output != NULL)
		result = write_metrics(wish->output, &b);
	else if (result == EXIT_FINE)
		fwrite(b.data, 1, b.len, stdout);
	buf_clear(&b);
	free(m);
	return result;
}

static const char metrics_usage[] =
    "usage: cyberos skill broker metrics [--openmetrics] [--output FILE]\n"
    "           [--store DIR] [--config FILE]\n";

static const char metrics_help[] =
    "\n"
    "What this store's brokers have counted, as Prometheus text 0.0.4.\n"
    "\n"
    "  --openmetrics  OpenMetrics 1.0.0 instead\n"
    "  --output FILE  replace FILE in one step, with mode 0644: for the\n"
    "                 textfile collector of node_exporter, FILE.prom\n"
    "  --store DIR    where ledger and memory live\n"
    "  --config FILE  operator's configuration\n"
    "  --help         this text\n"
    "\n"
    "Exit status: 0 fine, 1 failed, 2 usage, 3 configuration, 5 not "
    "permitted.\n";

int
inspect_metrics(int argc, char **argv)
{
	static const struct option options[] = {
		{ "openmetrics", no_argument, NULL, 'm' },
		{ "output", required_argument, NULL, 'o' },
		{ "store", required_argument, NULL, 's' },
		{ "config", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'H' },
		{ NULL, 0, NULL, 0 },
	};
	struct settings_options o = { NULL, NULL, NULL, NULL, NULL };
	struct metrics_wish wish = { false, NULL };
	struct settings settings;
	char why[1024];
	int opt, result = EXIT_CONFIG;

	optind = 0; /* glibc: begin anew */
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'm') {
			wish.openmetrics = true;
		} else if (opt == 'o') {
			wish.output = optarg;
		} else if (opt == 's') {
			o.store = optarg;
		} else if (opt == 'c') {
			o.config = optarg;
		} else if (opt == 'H') {
			printf("%s%s", metrics_usage, metrics_help);
			return EXIT_FINE;
		} else {
			fputs(metrics_usage, stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		fputs(metrics_usage, stderr);
		return EXIT_USAGE;
	}
	if (settings_load(&settings, &o, why, sizeof(why)) == -1)
		warnx("%s", why);
	else
		result = metrics_of(settings.store, &wish);
	settings_clear(&settings);
	return result;
}

static const char tools_usage[] =
    "usage: cyberos skill broker tools [--store DIR] [--config FILE]\n";

static const char tools_help[] =
    "\n"
    "Every registered tool with the JSON Schema of its arguments, as JSON.\n"
    "The list is the same in every store and under every configuration.\n";

/* The registry is the program's own: store and configuration change nothing. */
static int
tools_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "store", required_argument, NULL, 's' },
		{ "config", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'H' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	optind = 0; /* glibc: begin anew */
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'H') {
			printf("%s%s", tools_usage, tools_help);
			return EXIT_FINE;
		}
		if (opt == '?')
			break;
	}
	if (opt == '?' || optind < argc) {
		fputs(tools_usage, stderr);
		return EXIT_USAGE;
	}
	return -1;
}

int
inspect_tools(int argc, char **argv)
{
	const struct tool *tools;
	struct buf b;
	size_t i, n;
	int status = tools_options(argc, argv);

	if (status != -1)
		return status;
	tools = registry_tools(&n);
	buf_init(&b, 1024 * 1024);
	buf_puts(&b, "{\"tools\":[");
	for (i = 0; i < n; i++) {
		buf_printf(&b, "%s{\"name\":\"%s\",\"description\":",
		    i == 0 ? "" : ",", tools[i].name);
		json_put_string(&b, tools[i].description,
		    strlen(tools[i].description));
		buf_puts(&b, ",\"inputSchema\":");
		registry_schema(&tools[i], &b);
		buf_puts(&b, "}");
	}
	buf_puts(&b, "]}\n");
	status = b.failed ? EXIT_FAILED : EXIT_FINE;
	fwrite(b.data, 1, b.len, stdout);
	buf_clear(&b);
	return status;
}
