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
	uint64_t calls, denied, errors, timeouts, waiting;
};

struct status {
	struct live *live;
	size_t n, size;
	struct anchor_totals today;
	uint64_t waiting;
};

/* Alive is who holds the lock; the kernel lets go of it when he dies. */
static bool
is_locked(const struct store *s, const char *id)
{
	char name[64];
	bool locked;
	int fd;

	snprintf(name, sizeof(name), "%.36s.lock", id);
	fd = openat(s->run_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd == -1)
		return false;
	locked = flock(fd, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK;
	close(fd);
	return locked;
}

static int
add_live(struct status *st, const struct counters *c)
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
	l->errors = counters_get(c, errors);
	l->timeouts = counters_get(c, timeouts);
	l->waiting = counters_get(c, waiting);
	return 0;
}

static int
look_at_one(const struct store *s, const char *id, const char *tenant,
    struct status *st)
{
	const struct counters *c;
	char name[64];
	int fd, result = 0;

	snprintf(name, sizeof(name), "%.36s.status", id);
	fd = openat(s->run_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd == -1)
		return 0; /* it ends right now */
	c = counters_look(fd);
	if (c != NULL &&
	    (tenant == NULL || strcmp(tenant, c->tenant_id) == 0))
		result = add_live(st, c);
	counters_unmap(c);
	close(fd);
	return result;
}

static int
look_at_live(const struct store *s, const char *tenant, struct status *st)
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
		if (store_is_uuid(id) && is_locked(s, id))
			result = look_at_one(s, id, tenant, st);
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
	size_t i;

	printf("{\"active_invocations\":%zu,\"tool_calls_today\":%llu,"
	       "\"denied_today\":%llu,\"errors_today\":%llu,"
	       "\"timeouts_today\":%llu,\"spooled_rows\":%llu,"
	       "\"version\":\"" CYBEROS_VERSION "\",\"invocations\":[",
	    st->n, (unsigned long long)st->today.calls,
	    (unsigned long long)st->today.denied,
	    (unsigned long long)st->today.errors,
	    (unsigned long long)st->today.timeouts,
	    (unsigned long long)st->waiting);
	for (i = 0; i < st->n; i++) {
		l = &st->live[i];
		clock_stamp(l->started_wall, stamp);
		printf("%s{\"invocation_id\":\"%s\",\"skill_id\":\"%s\","
		       "\"tenant_id\":\"%s\",\"pid\":%lld,"
		       "\"started_at\":\"%s\",\"calls\":%llu,\"denied\":%llu,"
		       "\"remaining_ms\":%lld}",
		    i == 0 ? "" : ",", l->id, l->skill, l->tenant,
		    (long long)l->pid, stamp, (unsigned long long)l->calls,
		    (unsigned long long)l->denied, (long long)l->remaining_ms);
	}
	printf("]}\n");
}

static void
print_human(const struct status *st)
{
	const struct live *l;
	size_t i;

	printf("cyberos " CYBEROS_VERSION ": %zu running\n", st->n);
	printf("today (UTC): %llu calls, %llu denied, %llu failed, %llu timed "
	       "out\n",
	    (unsigned long long)st->today.calls,
	    (unsigned long long)st->today.denied,
	    (unsigned long long)st->today.errors,
	    (unsigned long long)st->today.timeouts);
	if (st->waiting > 0)
		printf("%llu rows wait for the ledger\n",
		    (unsigned long long)st->waiting);
	if (st->n == 0)
		return;
	printf("\n%-36s %-16s %6s %6s %8s\n", "INVOCATION", "SKILL", "CALLS",
	    "DENIED", "LEFT");
	for (i = 0; i < st->n; i++) {
		l = &st->live[i];
		printf("%-36s %-16.16s %6llu %6llu %6llds\n", l->id, l->skill,
		    (unsigned long long)l->calls,
		    (unsigned long long)l->denied,
		    (long long)(l->remaining_ms + 999) / 1000);
	}
}

/*
 * Live pages first, then the closed segments: one that ends in between is
 * counted twice for a moment rather than not at all.
 */
static int
collect(const struct store *s, const char *tenant, struct status *st)
{
	char day[CLOCK_DAY_SIZE];
	size_t i;

	clock_day(clock_wall(), day);
	if (look_at_live(s, tenant, st) == -1 ||
	    anchor_totals(s, day, &st->today) == -1)
		return -1;
	for (i = 0; i < st->n; i++) {
		st->today.calls += st->live[i].calls;
		st->today.denied += st->live[i].denied;
		st->today.errors += st->live[i].errors;
		st->today.timeouts += st->live[i].timeouts;
		st->waiting += st->live[i].waiting;
	}
	if (st->n > 0)
		qsort(st->live, st->n, sizeof(*st->live), by_start);
	return 0;
}

static const char status_usage[] =
    "usage: cyberos skill broker status [--json | --human] [--tenant UUID]\n"
    "           [--store DIR] [--config FILE]\n";

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
	struct store store;
	const char *tenant = NULL;
	char why[1024];
	bool human = false;
	int opt, result = EXIT_FINE;

	optind = 1;
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'j':
			human = false;
			break;
		case 'h':
			human = true;
			break;
		case 't':
			tenant = optarg;
			break;
		case 's':
			o.store = optarg;
			break;
		case 'c':
			o.config = optarg;
			break;
		case 'H':
			printf("%s\nWhat runs now, and today's totals (UTC day)."
			       " JSON, or --human for a table.\n",
			    status_usage);
			return EXIT_FINE;
		default:
			fputs(status_usage, stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc || (tenant != NULL && !store_is_uuid(tenant))) {
		fputs(status_usage, stderr);
		return EXIT_USAGE;
	}
	if (settings_load(&settings, &o, why, sizeof(why)) == -1) {
		warnx("%s", why);
		return EXIT_CONFIG;
	}
	memset(&st, 0, sizeof(st));
	if (store_open(&store, settings.store) == -1) {
		warn("store %s", settings.store);
		result = errno == EPERM || errno == EACCES ? EXIT_DENIED
							   : EXIT_FAILED;
	} else if (collect(&store, tenant, &st) == -1) {
		warn("status");
		result = EXIT_FAILED;
	} else if (human) {
		print_human(&st);
	} else {
		print_json(&st);
	}
	free(st.live);
	store_close(&store);
	settings_clear(&settings);
	return result;
}

int
inspect_tools(int argc, char **argv)
{
	const struct tool *tools;
	struct buf b;
	size_t i, n;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		printf("usage: cyberos skill broker tools\n\nEvery registered "
		       "tool with the JSON Schema of its arguments.\n");
		return EXIT_FINE;
	}
	if (argc > 1) {
		fputs("usage: cyberos skill broker tools\n", stderr);
		return EXIT_USAGE;
	}
	tools = registry_tools(&n);
	buf_init(&b, 1024 * 1024);
	buf_puts(&b, "{\"tools\":[");
	for (i = 0; i < n; i++) {
		buf_printf(&b, "%s{\"name\":\"%s\",\"description\":",
		    i == 0 ? "" : ",", tools[i].name);
		json_put_string(&b, tools[i].description,
		    strlen(tools[i].description));
		buf_printf(&b, ",\"implemented\":%s,\"inputSchema\":",
		    tools[i].run == NULL ? "false" : "true");
		registry_schema(&tools[i], &b);
		buf_puts(&b, "}");
	}
	buf_puts(&b, "]}\n");
	fwrite(b.data, 1, b.len, stdout);
	buf_clear(&b);
	return ferror(stdout) || fflush(stdout) != 0 ? EXIT_FAILED : EXIT_FINE;
}
