/*
 * The past of one invocation, rebuilt from its rows, and the present of one
 * that runs. Both only read.
 */

#include <sys/inotify.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/json.h"
#include "enforce/manifest.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "supervisor/settings.h"
#include "supervisor/story.h"
#include "supervisor/terminal.h"

#define LOOK_MS 500 /* between two looks at the lock */

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV };

struct asked {
	struct settings_options options;
	const char *invocation;
	enum format format;
	unsigned wait; /* tenths of a second for what is not there yet */
};

static int
bad_row(const struct trail *t)
{
	fprintf(stderr,
	    "cyberos: audit/%s/seg/%.2s/%s.p%u.jsonl:%" PRIu64
	    ": does not hold; verify says why\n",
	    t->day, t->inv, t->inv, t->part, t->line);
	return EXIT_INVALID;
}

/* --- replay --- */

static void
replay_text(const struct story *s, const char *inv)
{
	char id[128], version[300], text[1100];
	bool color = terminal_color();
	uint64_t open = 0;
	size_t i;

	printf("invocation %s\nskill %s %s\ntenant %s\n", inv,
	    trail_show(s->skill_id, id, sizeof(id)),
	    trail_show(s->version, version, sizeof(version)),
	    s->tenant_id == NULL ? "-" : s->tenant_id);
	if (s->started_at != NULL)
		printf("started %s\n", s->started_at);
	if (s->n > 0)
		story_heading();
	for (i = 0; i < s->n; i++) {
		story_line(&s->v[i], color);
		open += s->v[i].open;
	}
	if (!s->ended)
		printf("no end is recorded: it runs, or was never closed\n");
	else if (s->signal != NULL)
		printf("ended: %s, signal %s, by %s, after %" PRId64 " ms\n",
		    s->outcome, s->signal, s->by, s->duration_ms);
	else
		printf("ended: %s, exit %s, by %s, after %" PRId64 " ms\n",
		    s->outcome, s->exit_code == NULL ? "-" : s->exit_code,
		    s->by, s->duration_ms);
	if (s->error != NULL)
		printf("  %s\n", trail_show(s->error, text, sizeof(text)));
	printf("%" PRIu64 " calls, %" PRIu64 " denied, %" PRIu64
	       " failed, %" PRIu64 " timed out, %" PRIu64 " gaps\n",
	    s->calls, s->denied, s->errors, s->timeouts, open);
}

static void
put(struct buf *b, const char *name, const char *text, bool bare)
{
	buf_printf(b, "%c\"%s\":", b->len == 0 ? '{' : ',', name);
	if (text == NULL)
		buf_puts(b, "null");
	else if (bare)
		buf_puts(b, text);
	else
		json_put_string(b, text, strlen(text));
}

static void
flush(struct buf *b)
{
	fwrite(b->data, 1, b->len, stdout);
	buf_reset(b);
}

static void
replay_json(const struct story *s, const char *inv)
{
	char ms[24];
	uint64_t open = 0;
	struct buf b;
	size_t i;

	buf_init(&b, 1024 * 1024);
	snprintf(ms, sizeof(ms), "%" PRId64, s->duration_ms);
	put(&b, "invocation_id", inv, false);
	put(&b, "skill_id", s->skill_id, false);
	put(&b, "version", s->version, false);
	put(&b, "tenant_id", s->tenant_id, false);
	put(&b, "started_at", s->started_at, false);
	put(&b, "outcome", s->outcome, false);
	put(&b, "by", s->by, false);
	put(&b, "exit_code", s->exit_code, true);
	put(&b, "signal", s->signal, true);
	put(&b, "duration_ms", s->ended ? ms : NULL, true);
	put(&b, "error_message", s->error, false);
	buf_puts(&b, ",\"sequence\":[");
	for (i = 0; i < s->n; i++) {
		if (i > 0)
			buf_putc(&b, ',');
		story_json(&s->v[i], &b);
		open += s->v[i].open;
		flush(&b);
	}
	buf_printf(&b,
	    "],\"totals\":{\"calls\":%" PRIu64 ",\"denied\":%" PRIu64
	    ",\"errors\":%" PRIu64 ",\"timeouts\":%" PRIu64 ",\"gaps\":%" PRIu64
	    "}}\n",
	    s->calls, s->denied, s->errors, s->timeouts, open);
	flush(&b);
	buf_clear(&b);
}

/*
 * RFC 4180: quoted where it must be, quotes doubled. What a skill chose does
 * nothing to a terminal, and is no formula to a spreadsheet.
 */
static void
field(const char *text, const char *end)
{
	char shown[8192];
	bool formula, quoted;
	const char *p;

	if (text != NULL) {
		manifest_printable(shown, sizeof(shown), text);
		formula = shown[0] != '\0' && strchr("=+-@", shown[0]) != NULL;
		quoted = formula || strpbrk(shown, "\",") != NULL;
		fputs(!quoted ? "" : formula ? "\"'" : "\"", stdout);
		for (p = shown; *p != '\0'; p++) {
			if (*p == '"')
				putchar('"');
			putchar(*p);
		}
		fputs(quoted ? "\"" : "", stdout);
	}
	fputs(end, stdout);
}

static void
replay_csv(const struct story *s)
{
	const struct story_entry *e;
	char number[24];
	size_t i;

	printf("seq,time,call,tool,outcome,duration_ms,resource,reason,"
	       "error_message,args_hash,result_hash,count\r\n");
	for (i = 0; i < s->n; i++) {
		e = &s->v[i];
		printf("%" PRIu64 ",%s,", e->seq, e->time);
		snprintf(number, sizeof(number), "%" PRId64, e->call);
		field(e->call == -1 ? NULL : number, ",");
		field(e->tool, ",");
		field(e->open ? "gap" : e->outcome, ",");
		snprintf(number, sizeof(number), "%" PRId64, e->duration_ms);
		field(e->duration_ms == -1 ? NULL : number, ",");
		field(e->resource, ",");
		field(e->reason, ",");
		field(e->error, ",");
		field(e->args_hash, ",");
		field(e->result_hash, ",");
		printf("%" PRId64 "\r\n", e->count);
	}
}

static int
replay(struct asked *a, const struct store *store, struct digest *digest)
{
	const struct story_entry *done;
	enum trail_event event;
	struct trail_row row;
	struct trail t;
	struct story s;
	int result = EXIT_FINE, error;

	memset(&s, 0, sizeof(s));
	s.duration_ms = -1;
	if (trail_open(&t, store, a->invocation, digest) == -1) {
		if (errno == ENOENT)
			warnx("%s: not in this ledger", a->invocation);
		else
			warn("%s", a->invocation);
		return EXIT_FAILED;
	}
	while ((event = trail_next(&t, &row)) == TRAIL_ROW) {
		if (story_take(&s, &row, &done) == -1)
			err(EXIT_FAILED, NULL);
	}
	error = errno;
	if (a->format == FORMAT_JSON)
		replay_json(&s, a->invocation);
	else if (a->format == FORMAT_CSV)
		replay_csv(&s);
	else
		replay_text(&s, a->invocation);
	if (event == TRAIL_BAD) {
		fflush(stdout);
		result = bad_row(&t);
	} else if (event == TRAIL_FAILED) {
		errno = error;
		warn("%s", a->invocation);
		result = EXIT_FAILED;
	}
	story_clear(&s);
	trail_close(&t);
	return result;
}

/* --- tail --- */

/* Something may have come: a write, a new part, the end of the lock. */
static void
wait_for_news(int watch_fd)
{
	char events[4096];
	struct pollfd p = { watch_fd, POLLIN, 0 };

	if (poll(&p, 1, LOOK_MS) == 1 &&
	    read(watch_fd, events, sizeof(events)) == -1)
		usleep(LOOK_MS * 1000);
}

static int
watch(const struct trail *t)
{
	char path[PATH_MAX];
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s/seg/%.2s",
	    t->store->audit_fd, t->day, t->inv);
	/* Without it, we look now and then. */
	if (fd != -1)
		inotify_add_watch(fd, path, IN_MODIFY | IN_CREATE);
	return fd;
}

static void
tail_entry(const struct story_entry *e, const struct asked *a, bool color)
{
	struct buf b;

	if (a->format == FORMAT_TEXT) {
		story_line(e, color);
	} else {
		buf_init(&b, 65536);
		story_json(e, &b);
		buf_putc(&b, '\n');
		flush(&b);
		buf_clear(&b);
	}
	/* A call is seen when it occurs, also at the end of a pipe. */
	if (fflush(stdout) != 0)
		exit(EXIT_FAILED);
}

static void
tail_end(const struct story *s, const struct asked *a, bool color)
{
	struct buf b;
	size_t i;

	/* Nothing ends these any more. */
	for (i = 0; i < s->n; i++) {
		if (s->v[i].open)
			tail_entry(&s->v[i], a, color);
	}
	if (a->format == FORMAT_TEXT) {
		if (s->ended)
			printf("ended: %s, by %s\n", s->outcome, s->by);
		else
			printf("it does not run, and no end is recorded; sweep "
			       "closes its books\n");
		return;
	}
	buf_init(&b, 65536);
	put(&b, "ended", s->ended ? "true" : "false", true);
	put(&b, "outcome", s->outcome, false);
	put(&b, "by", s->by, false);
	buf_puts(&b, "}\n");
	flush(&b);
	buf_clear(&b);
}

/* All that is there now. -1: it cannot go on, and *result says how it ends. */
static int
tail_rows(struct trail *t, struct story *s, const struct asked *a, bool color,
    int *result)
{
	const struct story_entry *done;
	enum trail_event event;
	struct trail_row row;
	int got;

	while ((event = trail_next(t, &row)) == TRAIL_ROW) {
		got = story_take(s, &row, &done);
		if (got == -1)
			err(EXIT_FAILED, NULL);
		if (got == 1)
			tail_entry(done, a, color);
	}
	if (event == TRAIL_END)
		return 0;
	if (event == TRAIL_FAILED)
		warn("%s", a->invocation);
	*result = event == TRAIL_FAILED ? EXIT_FAILED : bad_row(t);
	return -1;
}

static int
tail(struct asked *a, const struct store *store, struct digest *digest)
{
	bool color = a->format == FORMAT_TEXT && terminal_color(), running;
	struct trail t;
	struct story s;
	int watch_fd, result = EXIT_FINE;

	memset(&s, 0, sizeof(s));
	while (trail_open(&t, store, a->invocation, digest) == -1) {
		if (errno == ENOENT && settings_wait(&a->wait))
			continue;
		if (errno == ENOENT)
			warnx("%s: not in this ledger", a->invocation);
		else
			warn("%s", a->invocation);
		return EXIT_FAILED;
	}
	watch_fd = watch(&t);
	if (a->format == FORMAT_TEXT)
		story_heading();
	fflush(stdout);
	for (;;) {
		/* Asked first: what was written by then is read after it. */
		running = store_running(store, a->invocation);
		if (tail_rows(&t, &s, a, color, &result) == -1)
			break;
		if (s.ended || !running) {
			tail_end(&s, a, color);
			result = s.ended ? EXIT_FINE : EXIT_FAILED;
			break;
		}
		wait_for_news(watch_fd);
	}
	if (watch_fd != -1)
		close(watch_fd);
	story_clear(&s);
	trail_close(&t);
	return result;
}

/* --- the commands --- */

static const char replay_usage[] =
    "usage: cyberos skill broker replay --invocation ID [--json|--format csv]\n"
    "           [--store DIR] [--config FILE]\n";

static const char replay_help[] =
    "\n"
    "The calls of one invocation, in order, with what came of each; a call that\n"
    "was started and has no end is a gap.\n"
    "\n"
    "  --invocation ID   of which invocation\n"
    "  --json            one JSON object\n"
    "  --format FORMAT   text (default), json or csv\n"
    "  --store DIR       where ledger and memory live\n"
    "  --config FILE     operator's configuration\n"
    "  --help            this text\n"
    "\n"
    "Exit status: 0; 1 no such invocation, 6 a row does not hold (the rows\n"
    "before it are shown), 2 usage, 3 configuration, 5 not permitted.\n";

static const char tail_usage[] =
    "usage: cyberos skill broker tail --invocation ID [--json] [--wait SECONDS]\n"
    "           [--store DIR] [--config FILE]\n";

static const char tail_help[] =
    "\n"
    "One line for each call of an invocation: those that are there, then each as\n"
    "it ends, until the invocation does.\n"
    "\n"
    "  --invocation ID   of which invocation\n"
    "  --json            a JSON object a line\n"
    "  --wait SECONDS    for one that is not there yet\n"
    "  --store DIR       where ledger and memory live\n"
    "  --config FILE     operator's configuration\n"
    "  --help            this text\n"
    "\n"
    "Exit status: 0 it ended; 1 no such invocation, or it died without an end;\n"
    "6 a row does not hold, 2 usage, 3 configuration, 5 not permitted.\n";

static bool
take_format(struct asked *a, const char *value)
{
	static const char *const formats[] = { "text", "json", "csv" };
	size_t i;

	for (i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (strcmp(value, formats[i]) == 0) {
			a->format = (enum format)i;
			return true;
		}
	}
	return false;
}

static bool
take_wait(struct asked *a, const char *value)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (value[0] < '0' || value[0] > '9' || *end != '\0' || n > 86400)
		return false;
	a->wait = (unsigned)n * 10;
	return true;
}

static int
with_store(struct asked *a,
    int (*run)(struct asked *, const struct store *, struct digest *))
{
	struct digest *digest = digest_new(NULL, 0);
	struct store store;
	int result;

	if (digest == NULL)
		err(EXIT_FAILED, NULL);
	result = settings_look(&a->options, &store, &a->wait);
	if (result == EXIT_FINE) {
		result = run(a, &store, digest);
		store_close(&store);
	}
	digest_free(digest);
	return result;
}

static int
command(int argc, char **argv, const struct option *options, const char *usage,
    const char *help,
    int (*run)(struct asked *, const struct store *, struct digest *))
{
	struct asked a;
	bool fine = true;
	int opt;

	memset(&a, 0, sizeof(a));
	optind = 0; /* glibc: begin anew */
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'i')
			a.invocation = optarg;
		else if (opt == 'j')
			a.format = FORMAT_JSON;
		else if (opt == 'f')
			fine = take_format(&a, optarg) && fine;
		else if (opt == 'w')
			fine = take_wait(&a, optarg) && fine;
		else if (opt == 's')
			a.options.store = optarg;
		else if (opt == 'c')
			a.options.config = optarg;
		else if (opt == 'H') {
			printf("%s%s", usage, help);
			return EXIT_FINE;
		} else
			fine = false;
	}
	if (!fine || optind < argc || a.invocation == NULL ||
	    !store_is_uuid(a.invocation)) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	return with_store(&a, run);
}

int
ledger_replay(int argc, char **argv)
{
	static const struct option options[] = {
		{ "invocation", required_argument, NULL, 'i' },
		{ "json", no_argument, NULL, 'j' },
		{ "format", required_argument, NULL, 'f' },
		{ "store", required_argument, NULL, 's' },
		{ "config", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'H' },
		{ NULL, 0, NULL, 0 },
	};

	return command(
	    argc, argv, options, replay_usage, replay_help, replay);
}

int
ledger_tail(int argc, char **argv)
{
	static const struct option options[] = {
		{ "invocation", required_argument, NULL, 'i' },
		{ "json", no_argument, NULL, 'j' },
		{ "wait", required_argument, NULL, 'w' },
		{ "store", required_argument, NULL, 's' },
		{ "config", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'H' },
		{ NULL, 0, NULL, 0 },
	};

	return command(argc, argv, options, tail_usage, tail_help, tail);
}
