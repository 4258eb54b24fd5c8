/*
 * What operators look at. Everything here only reads; who may read is decided
 * by the modes of the store.
 */

#include <sys/file.h>

#include <dirent.h>
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
#include "audit/json.h"
#include "audit/store.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "supervisor/settings.h"
#include "tools/registry.h"

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
	const char *tenant; /* NULL: all */
	struct live *live;  /* of this tenant */
	size_t n, size;
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

/* One whose page is not there or not whole begins or ends right now. */
static int
look_at_one(const struct store *s, const char *id, struct status *st)
{
	struct counters c;
	char name[64];
	int fd, result;

	snprintf(name, sizeof(name), "%.36s.status", id);
	fd = openat(s->run_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd == -1)
		return 0;
	result = counters_read(fd, &c);
	close(fd);
	if (result == -1 || strcmp(c.invocation_id, id) != 0 ||
	    !store_is_uuid(c.tenant_id))
		return 0;
	st->today.calls += counters_get(&c, calls);
	st->today.denied += counters_get(&c, denied);
	st->today.errors += counters_get(&c, errors);
	st->today.timeouts += counters_get(&c, timeouts);
	st->waiting += counters_get(&c, waiting);
	if (st->tenant != NULL && strcmp(st->tenant, c.tenant_id) != 0)
		return 0;
	return list_live(st, &c);
}

static int
look_at_live(const struct store *s, struct status *st)
{
	struct dirent *e;
	char id[37];
	DIR *d;
	int fd, result = 0;

	fd = openat(s->run_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd == -1 ? NULL : fdopendir(fd);
	if (d == NULL)
		return -1;
	while (result == 0 && (e = readdir(d)) != NULL) {
		if (strlen(e->d_name) != 41 ||
		    strcmp(e->d_name + 36, ".lock") != 0)
			continue;
		strlcpy(id, e->d_name, sizeof(id));
		if (store_is_uuid(id) && store_running(s, id))
			result = look_at_one(s, id, st);
	}
	closedir(d);
	return result;
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
print_json(const struct status *st)
{
	char stamp[CLOCK_STAMP_SIZE];
	const struct live *l;
	struct buf skill;
	size_t i;

	printf("{\"active_invocations\":%zu,\"tool_calls_today\":%" PRIu64
	       ",\"denied_today\":%" PRIu64 ",\"errors_today\":%" PRIu64
	       ",\"timeouts_today\":%" PRIu64 ",\"spooled_rows\":%" PRIu64
	       ",\"version\":\"" CYBEROS_VERSION "\",\"invocations\":[",
	    st->n, st->today.calls, st->today.denied, st->today.errors,
	    st->today.timeouts, st->waiting);
	for (i = 0; i < st->n; i++) {
		l = &st->live[i];
		clock_stamp(l->started_wall, stamp);
		buf_init(&skill, 1024);
		json_put_string(&skill, l->skill, strlen(l->skill));
		printf("%s{\"invocation_id\":\"%s\",\"skill_id\":%.*s,"
		       "\"tenant_id\":\"%s\",\"pid\":%" PRId64
		       ",\"started_at\":\"%s\",\"calls\":%" PRIu64
		       ",\"denied\":%" PRIu64 ",\"remaining_ms\":%" PRId64 "}",
		    i == 0 ? "" : ",", l->id, (int)skill.len, skill.data,
		    l->tenant, l->pid, stamp, l->calls, l->denied,
		    l->remaining_ms);
		buf_clear(&skill);
	}
	printf("]}\n");
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
	char day[CLOCK_DAY_SIZE];
	struct anchor_totals closed;

	clock_day(clock_wall(), day);
	if (look_at_live(s, st) == -1 || anchor_totals(s, day, &closed) == -1)
		return -1;
	st->today.calls += closed.calls;
	st->today.denied += closed.denied;
	st->today.errors += closed.errors;
	st->today.timeouts += closed.timeouts;
	if (st->n > 0)
		qsort(st->live, st->n, sizeof(*st->live), by_start);
	return 0;
}

/* A store that is not there yet is one in which nothing has happened. */
static int
status_of(const char *path, struct status *st)
{
	struct store store;
	int result = EXIT_FINE;

	if (store_look(&store, path) == -1) {
		if (errno == ENOENT)
			return EXIT_FINE;
		warnx("store %s: %s", path, errno == EPERM
			? "must be a directory of yours that nobody else can "
			  "write, and no link"
			: strerror(errno));
		return errno == EPERM || errno == EACCES ? EXIT_DENIED
							 : EXIT_FAILED;
	}
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
		print_json(&st);
	free(st.live);
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
