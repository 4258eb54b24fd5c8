/*
 * `supervise`: many invocations, one loop. A turn of it does a little for each
 * that has something to say and waits for nobody: the ledger is the clerks',
 * the clocks are the brokers' and init's, streams do not block, and a reader of
 * the events who is slow stops what can wait and nothing else.
 */

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/clock.h"
#include "audit/json.h"
#include "supervisor/clerk.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "supervisor/export.h"
#include "supervisor/inspect.h"
#include "supervisor/invocation.h"
#include "supervisor/relay.h"
#include "supervisor/report.h"
#include "supervisor/request.h"
#include "supervisor/streams.h"
#include "supervisor/sweep.h"
#include "supervisor/throttle.h"

#define MAX_DEFAULT 16
#define MAX_MOST 10000
#define QUEUE_MAX 1000
#define QUEUE_BYTES ((size_t)32 << 20)
#define CLERKS 4
#define READY 2	 /* brokers in stock */
/* A skill that has just started has its first answers first, while there is one
 * left for the next. */
#define STOCK_PAUSE (10 * CLOCK_MS)
#define FILES_EACH 12  /* descriptors of one invocation, at most */
#define FILES_OURS 128 /* and those besides */
#define EVENTS_A_TURN 256
#define LINES_A_TURN 64
#define STARTS_A_TURN 4
#define PIECES_A_TURN 4
#define CRASH_AT_ONCE (10 * CLOCK_SECOND) /* a broker that dies within this */

enum source_kind {
	SOURCE_IN,
	SOURCE_OUT,
	SOURCE_SIGNAL,
	SOURCE_TIMER,
	SOURCE_CLERK,
	SOURCE_EXPORT,
	SOURCE_CONTROL,
	SOURCE_BROKER,
	SOURCE_STREAM,
	SOURCE_READY
};

/* A descriptor that is waited for. */
struct source {
	enum source_kind kind;
	struct task *task; /* whose it is, or NULL */
	int index;	   /* of clerk or stream */
	int fd;		   /* -1: it is not waited for */
	uint32_t events;
	bool never; /* a file: there is nothing to wait for */
	pid_t pid;  /* of a clerk */
};

/* A request to run, from its line to its last event. */
struct task {
	TAILQ_ENTRY(task) link;
	struct supervise *supervise;
	struct request request;
	struct invocation *inv; /* NULL while it waits */
	struct streams streams;
	struct source control, broker, stream[3];
	bool told; /* that it has started */
};

TAILQ_HEAD(tasks, task);

struct supervise {
	struct settings_options options;
	enum log_level most;
	unsigned max;
	double connect_timeout;
	bool attest;
	struct supervisor sup;
	struct clerks clerks;
	struct report report;
	struct throttle throttle;
	int epoll_fd, signal_fd, timer_fd;
	struct source in, out, signal, timer, clerk[CLERKS_MAX];
	struct ready ready[READY]; /* brokers in stock */
	struct source stock[READY];
	bool stocking; /* since the last start none has failed */
	int64_t stock_at; /* clock_boot of the next one at the earliest */
	struct source export[EXPORT_POLLFDS];
	struct pollfd exports[EXPORT_POLLFDS];
	bool in_end;
	struct buf line;   /* what has come of the lines */
	size_t scanned;	   /* of it, without a line feed */
	bool skipping;	   /* the rest of a line that is too long */
	uint64_t line_number;
	struct tasks waiting, running, over;
	size_t waiting_n, running_n;
	size_t waiting_bytes;
	bool room;	   /* for events that can wait */
	int signals;
	bool unread;	   /* requests that could not be read */
	bool cut;	   /* something accepted did not run to its end */
	bool lost;	   /* nobody reads the events */
	int64_t armed;
	pid_t sweeper;
};

static const char usage_text[] =
    "usage: cyberos skill broker supervise [--max N] [OPTIONS]\n";

static const char help_text[] =
    "\n"
    "Run many skills: requests come in on standard input, one JSON object a\n"
    "line, events go out on standard output, one JSON object a line.\n"
    "\n"
    "  {\"op\":\"run\",\"skill\":\"...\",\"args\":[...],\"stdin\":\"...\",\"output\":true}\n"
    "  {\"op\":\"cancel\",\"invocation_id\":\"...\"}\n"
    "  {\"op\":\"status\"}\n"
    "\n"
    "  --max N                  run so many at once (16); the rest waits\n"
    "  --store DIR              where ledger and memory live\n"
    "  --skills DIR             where installed skills are\n"
    "  --config FILE            operator's configuration\n"
    "  --connect-timeout SECS   end a skill that never connects (60; 0 off)\n"
    "  --sandbox MODE           required (default) or best-effort\n"
    "  --attest                 try each sandbox first; refuse if it leaks\n"
    "  --socket-dir DIR         where the sockets are bound (/tmp)\n"
    "  --quiet, -v              fewer or more log lines\n"
    "  --help                   this text\n"
    "\n"
    "The end of the input, or SIGTERM, ends it when what runs has ended; a\n"
    "second SIGTERM ends that as well. All members of requests and events are\n"
    "in cyberos-skill-broker(1).\n"
    "\n"
    "Exit status: 0 all that was accepted ran to its end, 1 failed, 2 usage,\n"
    "3 configuration, 7 a signal ended some of it.\n";

enum {
	OPT_MAX = 256,
	OPT_STORE,
	OPT_SKILLS,
	OPT_CONFIG,
	OPT_CONNECT,
	OPT_SANDBOX,
	OPT_ATTEST,
	OPT_SOCKET_DIR,
	OPT_QUIET,
	OPT_HELP
};

static const struct option long_options[] = {
	{ "max", required_argument, NULL, OPT_MAX },
	{ "store", required_argument, NULL, OPT_STORE },
	{ "skills", required_argument, NULL, OPT_SKILLS },
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "connect-timeout", required_argument, NULL, OPT_CONNECT },
	{ "sandbox", required_argument, NULL, OPT_SANDBOX },
	{ "attest", no_argument, NULL, OPT_ATTEST },
	{ "socket-dir", required_argument, NULL, OPT_SOCKET_DIR },
	{ "quiet", no_argument, NULL, OPT_QUIET },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

/* --- options --- */

static bool
take_max(unsigned *out, const char *value)
{
	const char *why;
	long long n = strtonum(value, 1, MAX_MOST, &why);

	if (why != NULL) {
		warnx("--max: %s is no number from 1 to %d", value, MAX_MOST);
		return false;
	}
	*out = (unsigned)n;
	return true;
}

static bool
take_option(struct supervise *s, int opt)
{
	switch (opt) {
	case OPT_MAX:
		return take_max(&s->max, optarg);
	case OPT_STORE:
		s->options.store = optarg;
		return true;
	case OPT_SKILLS:
		s->options.skills = optarg;
		return true;
	case OPT_CONFIG:
		s->options.config = optarg;
		return true;
	case OPT_CONNECT:
		return settings_seconds(&s->connect_timeout,
		    "--connect-timeout", optarg, true);
	case OPT_SANDBOX:
		s->options.sandbox = optarg;
		return settings_is_sandbox(optarg);
	case OPT_ATTEST:
		s->attest = true;
		return true;
	case OPT_SOCKET_DIR:
		s->options.socket_dir = optarg;
		return true;
	case OPT_QUIET:
		s->most = LOG_LEVEL_ERROR;
		return true;
	case 'v':
		s->most = LOG_LEVEL_DEBUG;
		return true;
	default:
		return false;
	}
}

/* 0 go on; else the exit status, plus one. */
static int
parse_options(struct supervise *s, int argc, char **argv)
{
	int opt;

	s->max = MAX_DEFAULT;
	s->connect_timeout = 60;
	s->most = LOG_LEVEL_WARN;
	optind = 0; /* glibc: begin anew */
	while ((opt = getopt_long(argc, argv, "v", long_options, NULL)) !=
	    -1) {
		if (opt == OPT_HELP) {
			printf("%s%s", usage_text, help_text);
			return EXIT_FINE + 1;
		}
		if (!take_option(s, opt)) {
			fputs(usage_text, stderr);
			return EXIT_USAGE + 1;
		}
	}
	if (optind < argc) {
		warnx("%s: requests come on standard input", argv[optind]);
		fputs(usage_text, stderr);
		return EXIT_USAGE + 1;
	}
	return 0;
}

/* --- what is waited for --- */

/* Wait for these events of fd, or, with -1 or none, not any more. */
static void
await(struct supervise *s, struct source *src, int fd, uint32_t events)
{
	struct epoll_event e = { .events = events, .data = { .ptr = src } };

	if (events == 0 || src->never)
		fd = -1;
	if (src->fd == fd && (fd == -1 || src->events == events))
		return;
	if (src->fd != -1 && src->fd != fd)
		epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, src->fd, NULL);
	if (fd != -1 &&
	    epoll_ctl(s->epoll_fd,
		src->fd == fd ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e) == -1) {
		src->never = errno == EPERM;
		fd = -1;
	}
	src->fd = fd;
	src->events = events;
}

static void
source_init(struct source *src, enum source_kind kind, struct task *task,
    int index)
{
	src->kind = kind;
	src->task = task;
	src->index = index;
	src->fd = -1;
}

static struct task *
task_new(struct supervise *s)
{
	struct task *t = calloc(1, sizeof(*t));
	int i;

	if (t == NULL)
		return NULL;
	t->supervise = s;
	source_init(&t->control, SOURCE_CONTROL, t, 0);
	source_init(&t->broker, SOURCE_BROKER, t, 0);
	for (i = 0; i < 3; i++) {
		source_init(&t->stream[i], SOURCE_STREAM, t, i);
		t->streams.skill[i] = t->streams.ours[i] = -1;
	}
	return t;
}

static void
task_free(struct task *t)
{
	request_clear(&t->request);
	streams_clear(&t->streams);
	free(t->inv);
	free(t);
}

/* --- events --- */

static void
tell_rejected(struct supervise *s, const char *id,
    const struct request_fault *f)
{
	struct buf *b = report_begin(&s->report, "rejected", id);

	buf_printf(b, ",\"line\":%llu,\"reason\":\"%s\",\"message\":",
	    (unsigned long long)s->line_number, f->reason);
	json_put_string(b, f->message, strlen(f->message));
	report_end(&s->report);
}

static void
tell_accepted(struct supervise *s, const struct task *t)
{
	struct buf *b = report_begin(&s->report, "accepted", t->request.id);

	buf_printf(b, ",\"invocation_id\":\"%s\"", t->request.invocation);
	report_end(&s->report);
}

/* The place of a broker in stock; READY: there is none. */
static size_t
in_stock(const struct supervise *s)
{
	size_t i = 0;

	while (i < READY && s->ready[i].pid == -1)
		i++;
	return i;
}

static void
tell_started(struct supervise *s, struct task *t)
{
	const struct invocation *inv = t->inv;
	struct buf *b = report_begin(&s->report, "started", t->request.id);

	t->told = true;
	s->stock_at = in_stock(s) < READY ? clock_boot() + STOCK_PAUSE : 0;
	buf_printf(b, ",\"invocation_id\":\"%s\",\"skill_id\":\"%s\","
	    "\"version\":\"%s\",\"pid\":%ld,\"socket\":",
	    inv->job.invocation, inv->id, inv->version, (long)inv->broker.pid);
	invocation_put_socket(inv, b);
	buf_puts(b, ",\"sandbox\":");
	broker_layers(&inv->result, b);
	report_end(&s->report);
}

static void
tell_completed(struct supervise *s, const struct task *t)
{
	struct buf *b = report_begin(&s->report, "completed", t->request.id);

	buf_putc(b, ',');
	invocation_put_result(t->inv, b);
	report_end(&s->report);
}

static void
tell_status(struct supervise *s, const char *id)
{
	struct buf members, *b;

	buf_init(&members, (size_t)64 << 20);
	if (inspect_put_status(&s->sup.store, &members) == -1)
		buf_reset(&members);
	b = report_begin(&s->report, "status", id);
	buf_printf(b,
	    ",\"running\":%zu,\"waiting\":%zu,\"max\":%u,\"stopping\":%s",
	    s->running_n, s->waiting_n, s->max,
	    s->signals > 0 || s->in_end ? "true" : "false");
	if (members.len > 0) {
		buf_putc(b, ',');
		buf_put(b, members.data, members.len);
	}
	report_end(&s->report);
	buf_clear(&members);
}

static void
submit(struct invocation *inv, const struct clerk_job *job)
{
	struct task *t = inv->owner;

	clerks_submit(&t->supervise->clerks, inv, job);
}

#define STACK_USED 32768 /* below where the loop forks, by what parses requests */

/* What earlier calls have left there, such as saved registers. */
static void __attribute__((noinline))
wipe_stack(void)
{
	char below[STACK_USED];

	explicit_bzero(below, sizeof(below));
}

/*
 * A broker, and the init that it becomes, have nothing of what was asked for,
 * written or told before: whoever takes one over finds his own and no more.
 */
static void
forget(void *owner)
{
	struct supervise *s = owner;
	struct task *t;

	TAILQ_FOREACH (t, &s->waiting, link)
		request_wipe(&t->request);
	TAILQ_FOREACH (t, &s->running, link) {
		request_wipe(&t->request);
		explicit_bzero(t->streams.out, sizeof(t->streams.out));
	}
	TAILQ_FOREACH (t, &s->over, link) {
		request_wipe(&t->request);
		explicit_bzero(t->streams.out, sizeof(t->streams.out));
	}
	if (s->line.data != NULL)
		explicit_bzero(s->line.data, s->line.size);
	if (s->report.out.data != NULL)
		explicit_bzero(s->report.out.data, s->report.out.size);
	wipe_stack();
}

/* --- brokers in stock --- */

static struct ready *
take_ready(struct supervise *s)
{
	size_t i = in_stock(s);

	if (i == READY)
		return NULL;
	await(s, &s->stock[i], -1, 0);
	return &s->ready[i];
}

/* The first place where there is none that is watched; READY: all is there. */
static size_t
short_of(const struct supervise *s)
{
	size_t i;

	for (i = 0; i < READY && i < s->max; i++) {
		if (s->ready[i].pid == -1 || s->stock[i].fd == -1)
			return i;
	}
	return READY;
}

/* Whoever is about to start has the processors first. */
static bool
somebody_starts(const struct supervise *s)
{
	const struct task *t;

	TAILQ_FOREACH (t, &s->running, link) {
		if (t->inv->state == INVOCATION_RUNNING && !t->inv->started)
			return true;
	}
	return false;
}

/* One more. Where it fails, it is tried again after the next start. */
static void
stock_up(struct supervise *s)
{
	size_t i = short_of(s);
	char name[STORE_UUID_SIZE];

	store_new_uuid(name);
	if (s->ready[i].pid == -1)
		(void)ready_start(&s->ready[i], &s->sup, name, true);
	await(s, &s->stock[i], s->ready[i].control_fd, EPOLLIN);
	s->stocking = s->stock[i].fd != -1;
}

static void
drop_ready(struct supervise *s, int i)
{
	await(s, &s->stock[i], -1, 0);
	ready_end(&s->ready[i], READY_LEAVE_MS);
	s->stocking = false;
}

/* --- the life of a task --- */

/* What outlives the request's line is copied, or gone with the broker's job. */
static int
make_invocation(struct supervise *s, struct task *t)
{
	const struct request *r = &t->request;
	struct invocation *inv = calloc(1, sizeof(*inv));

	if (inv == NULL)
		return -1;
	t->inv = inv;
	invocation_init(inv, &s->sup);
	inv->submit = submit;
	inv->owner = t;
	strlcpy(inv->job.invocation, r->invocation,
	    sizeof(inv->job.invocation));
	strlcpy(inv->job.log.invocation, r->invocation,
	    sizeof(inv->job.log.invocation));
	if (r->tenant[0] != '\0')
		strlcpy(inv->job.tenant, r->tenant, sizeof(inv->job.tenant));
	inv->job.persona = r->persona;
	inv->job.request_id = r->request_id;
	inv->job.args = (char *const *)(uintptr_t)r->args;
	inv->job.deadline = r->deadline;
	inv->job.connect_timeout = s->connect_timeout;
	inv->job.attest = s->attest;
	return 0;
}

static int
start_invocation(struct task *t)
{
	struct invocation *inv = t->inv;
	const struct request *r = &t->request;

	if (invocation_find(inv, r->skill) == -1) {
		invocation_give_up(inv,
		    "%s: a directory is written with a /, an id is a name",
		    r->skill);
		return -1;
	}
	if (invocation_trace(inv, r->traceparent) == -1 ||
	    streams_open(&t->streams, r->in, r->in == NULL ? 0 : strlen(r->in),
		r->output) == -1) {
		invocation_give_up(inv, "start: %s", strerror(errno));
		return -1;
	}
	memcpy(inv->job.stdio, t->streams.skill, sizeof(inv->job.stdio));
	inv->ready = take_ready(t->supervise);
	t->supervise->stocking = true;
	if (invocation_start(inv) == -1)
		return -1;
	streams_forked(&t->streams);
	return 0;
}

/* The end of a task that ran, or never will. */
static void
end_task(struct supervise *s, struct task *t)
{
	int i;

	tell_completed(s, t);
	await(s, &t->control, -1, 0);
	await(s, &t->broker, -1, 0);
	for (i = 0; i < 3; i++)
		await(s, &t->stream[i], -1, 0);
	invocation_clear(t->inv);
	/* Events of this turn may still name it. */
	TAILQ_INSERT_TAIL(&s->over, t, link);
}

static void
judge_broker(struct supervise *s, const struct task *t)
{
	const struct invocation *inv = t->inv;
	unsigned ms;

	if (inv->have_result) {
		throttle_fine(&s->throttle, t->request.skill);
		return;
	}
	if (inv->broker.pid <= 0 || inv->terminated > 0 ||
	    clock_boot() - inv->begun > CRASH_AT_ONCE)
		return;
	ms = throttle_crashed(&s->throttle, t->request.skill,
	    clock_boot());
	log_line(&inv->job.log, LOG_LEVEL_WARN,
	    "the broker died at once; the next start of this skill waits "
	    "ms=%u",
	    ms);
}

/* Never started, and nobody's fault. */
static void
drop_task(struct supervise *s, struct task *t, const char *why, int signal)
{
	TAILQ_REMOVE(&s->waiting, t, link);
	s->waiting_n--;
	s->waiting_bytes -= t->request.len;
	if (make_invocation(s, t) == -1)
		err(EXIT_FAILED, NULL);
	invocation_give_up(t->inv, "%s", why);
	strlcpy(t->inv->result.by, "caller", sizeof(t->inv->result.by));
	t->inv->result.exit_status = EXIT_RUN_SIGNAL + signal;
	end_task(s, t);
}

static void
watch_streams(struct supervise *s, struct task *t)
{
	int i;

	await(s, &t->stream[0], t->streams.ours[0], EPOLLOUT);
	for (i = 1; i < 3; i++)
		await(s, &t->stream[i], t->streams.ours[i],
		    s->room && t->told ? EPOLLIN : 0);
}

static void
end_stream(struct supervise *s, struct task *t, int stream)
{
	await(s, &t->stream[stream], -1, 0);
	streams_end(&t->streams, stream);
}

/* One turn for a stream; false: there is no more of it now. */
static bool
take_piece(struct supervise *s, struct task *t, int stream, bool last)
{
	enum streams_event got;
	struct buf piece;

	buf_init(&piece, (size_t)8 * STREAMS_PIECE);
	got = streams_take(&t->streams, stream, last, &piece);
	if (got == STREAMS_PIECE_READ) {
		report_begin(&s->report, "output", t->request.id);
		buf_printf(&s->report.out, ",\"invocation_id\":\"%s\",",
		    t->request.invocation);
		buf_put(&s->report.out, piece.data, piece.len);
		report_end(&s->report);
	}
	buf_clear(&piece);
	if (got == STREAMS_END)
		end_stream(s, t, stream);
	return got == STREAMS_PIECE_READ;
}

/* What the skill has left in its pipes; false: there is no room for it yet. */
static bool
drain_streams(struct supervise *s, struct task *t)
{
	int i;

	for (i = 1; i < 3; i++) {
		while (t->streams.ours[i] != -1) {
			if (!report_room(&s->report))
				return false;
			take_piece(s, t, i, true);
		}
	}
	return true;
}

/* Whatever has happened to it: what is to be told, waited for, or ended? */
static void
tend(struct supervise *s, struct task *t)
{
	struct invocation *inv = t->inv;

	if (inv->started && !t->told)
		tell_started(s, t);
	if (inv->state == INVOCATION_DONE) {
		await(s, &t->broker, -1, 0);
		await(s, &t->control, -1, 0);
		end_stream(s, t, 0);
		if (!drain_streams(s, t)) {
			watch_streams(s, t);
			return;
		}
		TAILQ_REMOVE(&s->running, t, link);
		s->running_n--;
		judge_broker(s, t);
		end_task(s, t);
		return;
	}
	await(s, &t->control, invocation_control(inv), EPOLLIN);
	await(s, &t->broker,
	    inv->state == INVOCATION_RUNNING ? inv->broker.pidfd : -1, EPOLLIN);
	watch_streams(s, t);
}

static void
tend_all(struct supervise *s)
{
	struct task *t, *next;

	TAILQ_FOREACH_SAFE (t, &s->running, link, next)
		tend(s, t);
}

static void
start_task(struct supervise *s, struct task *t)
{
	TAILQ_REMOVE(&s->waiting, t, link);
	s->waiting_n--;
	s->waiting_bytes -= t->request.len;
	TAILQ_INSERT_TAIL(&s->running, t, link);
	s->running_n++;
	if (make_invocation(s, t) == -1)
		err(EXIT_FAILED, NULL);
	if (start_invocation(t) == -1)
		t->inv->state = INVOCATION_DONE;
	tend(s, t);
}

/* In order, but for skills whose brokers crash. True: there is more to start. */
static bool
start_some(struct supervise *s)
{
	struct task *t, *next;
	int n = 0;

	TAILQ_FOREACH_SAFE (t, &s->waiting, link, next) {
		if (s->running_n >= s->max)
			return false;
		if (throttle_until(&s->throttle, t->request.skill) >
		    clock_boot())
			continue;
		if (n++ == STARTS_A_TURN)
			return true;
		start_task(s, t);
	}
	return false;
}

/* --- requests --- */

static struct task *
find_task(struct tasks *tasks, const char *invocation)
{
	struct task *t;

	TAILQ_FOREACH (t, tasks, link) {
		if (strcmp(t->request.invocation, invocation) == 0)
			return t;
	}
	return NULL;
}

static int
accept_run(struct supervise *s, struct task *t, struct request_fault *f)
{
	struct request *r = &t->request;

	if (r->invocation[0] == '\0')
		store_new_uuid(r->invocation);
	if (find_task(&s->waiting, r->invocation) != NULL ||
	    find_task(&s->running, r->invocation) != NULL) {
		f->reason = "id_in_use";
		strlcpy(f->message, "this invocation_id is running or waiting",
		    sizeof(f->message));
		return -1;
	}
	TAILQ_INSERT_TAIL(&s->waiting, t, link);
	s->waiting_n++;
	s->waiting_bytes += r->len;
	tell_accepted(s, t);
	return 0;
}

static int
cancel(struct supervise *s, const char *invocation, struct request_fault *f)
{
	struct task *t = find_task(&s->waiting, invocation);

	if (t != NULL) {
		drop_task(s, t, "cancelled before it started", SIGTERM);
		return 0;
	}
	t = find_task(&s->running, invocation);
	if (t != NULL) {
		invocation_terminate(t->inv, SIGTERM);
		return 0;
	}
	f->reason = "unknown_invocation";
	strlcpy(f->message, "this invocation_id neither runs nor waits",
	    sizeof(f->message));
	return -1;
}

static void
on_line(struct supervise *s, const char *line, size_t len)
{
	struct request_fault fault = { "bad_request", "" };
	struct task *t;
	int result;

	s->line_number++;
	while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == ' '))
		len--;
	if (len == 0)
		return;
	t = task_new(s);
	if (t == NULL)
		err(EXIT_FAILED, NULL);
	result = request_read(&t->request, line, len, &fault);
	if (result == 0 && t->request.op == REQUEST_RUN) {
		if (accept_run(s, t, &fault) == 0)
			return;
		result = -1;
	} else if (result == 0 && t->request.op == REQUEST_CANCEL) {
		result = cancel(s, t->request.invocation, &fault);
	} else if (result == 0) {
		tell_status(s, t->request.id);
	}
	if (result == -1)
		tell_rejected(s, t->request.id, &fault);
	task_free(t);
}

static void
too_long(struct supervise *s)
{
	struct request_fault f = { "line_too_long", "" };

	s->line_number++;
	snprintf(f.message, sizeof(f.message),
	    "a line has at most %d bytes", REQUEST_LINE_MAX);
	tell_rejected(s, "", &f);
}

static bool
wants_requests(const struct supervise *s)
{
	return s->signals == 0 && !s->in_end && s->room &&
	    s->waiting_n < QUEUE_MAX && s->waiting_bytes < QUEUE_BYTES;
}

/* The lines that are there; false: there is none that is whole. */
static bool
take_line(struct supervise *s)
{
	struct buf *b = &s->line;
	char *feed = b->len == s->scanned
	    ? NULL
	    : memchr(b->data + s->scanned, '\n', b->len - s->scanned);
	size_t len;

	if (feed == NULL) {
		s->scanned = b->len;
		if (b->len > REQUEST_LINE_MAX && !s->skipping) {
			too_long(s);
			s->skipping = true;
		}
		if (s->skipping) {
			buf_consume(b, b->len);
			s->scanned = 0;
		}
		return false;
	}
	len = (size_t)(feed - b->data);
	if (s->skipping)
		s->skipping = false;
	else if (len > REQUEST_LINE_MAX)
		too_long(s);
	else
		on_line(s, b->data, len);
	buf_consume(b, len + 1);
	s->scanned = 0;
	return true;
}

/* A turn's worth of what has come. */
static void
take_lines(struct supervise *s)
{
	int n;

	for (n = 0; n < LINES_A_TURN && wants_requests(s) && take_line(s); n++)
		s->room = report_room(&s->report);
}

static void
input_ended(struct supervise *s)
{
	s->in_end = true;
	/* A last line may lack its line feed. */
	if (s->line.len > 0 && !s->skipping)
		on_line(s, s->line.data, s->line.len);
	buf_clear(&s->line);
	s->scanned = 0;
}

static void
on_input(struct supervise *s)
{
	char *p = buf_reserve(&s->line, 65536);
	ssize_t n;

	if (p == NULL)
		err(EXIT_FAILED, NULL);
	/* Nobody else reads there, so a read that poll allows does not wait. */
	n = read(STDIN_FILENO, p, 65536);
	if (n > 0) {
		buf_advance(&s->line, (size_t)n);
		return;
	}
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == -1) {
		log_line(&s->sup.log, LOG_LEVEL_ERROR,
		    "standard input cannot be read: %s", strerror(errno));
		s->unread = true;
	}
	input_ended(s);
}

/* --- the end --- */

static void
drop_waiting(struct supervise *s, const char *why, int signal)
{
	struct task *t, *next;

	TAILQ_FOREACH_SAFE (t, &s->waiting, link, next) {
		s->cut = true;
		drop_task(s, t, why, signal);
	}
}

static void
on_signal(struct supervise *s)
{
	struct signalfd_siginfo info;
	struct task *t;

	while (read(s->signal_fd, &info, sizeof(info)) ==
	    (ssize_t)sizeof(info)) {
		if (s->signals++ == 0) {
			drop_waiting(s, "the supervisor is being stopped",
			    (int)info.ssi_signo);
			continue;
		}
		TAILQ_FOREACH (t, &s->running, link) {
			s->cut = true;
			invocation_kill(t->inv, (int)info.ssi_signo);
		}
	}
}

static void
on_timer(struct supervise *s)
{
	int64_t due, now = clock_boot();
	struct task *t;
	uint64_t ticks;

	if (read(s->timer_fd, &ticks, sizeof(ticks)) <= 0)
		return;
	s->armed = 0;
	TAILQ_FOREACH (t, &s->running, link) {
		due = invocation_due(t->inv);
		if (due != 0 && due <= now)
			invocation_overdue(t->inv);
	}
}

/* The first of all backstops, and of the skills that wait for their turn. */
static void
arm_timer(struct supervise *s)
{
	int64_t at = 0, due;
	struct itimerspec when;
	struct task *t;

	TAILQ_FOREACH (t, &s->running, link) {
		due = invocation_due(t->inv);
		if (due != 0 && (at == 0 || due < at))
			at = due;
	}
	due = throttle_next(&s->throttle, clock_boot());
	if (s->waiting_n > 0 && due != 0 && (at == 0 || due < at))
		at = due;
	if (at == s->armed)
		return;
	s->armed = at;
	memset(&when, 0, sizeof(when));
	when.it_value.tv_sec = at / CLOCK_SECOND;
	when.it_value.tv_nsec = at % CLOCK_SECOND;
	timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* --- the loop --- */

static void
on_stream(struct supervise *s, struct task *t, int i)
{
	int n;

	if (i == 0) {
		if (!streams_feed(&t->streams))
			end_stream(s, t, 0);
		return;
	}
	if (t->inv->state == INVOCATION_DONE) { /* it waited for room */
		tend(s, t);
		return;
	}
	for (n = 0; n < PIECES_A_TURN && report_room(&s->report); n++) {
		if (!take_piece(s, t, i, false))
			break;
	}
}

static void
on_clerk(struct supervise *s, int i)
{
	struct invocation *inv = s->clerks.seat[i].inv;

	clerks_heard(&s->clerks, (size_t)i);
	/* Whose job it was, and, if it died, whoever waited for nobody. */
	if (inv == NULL || s->clerks.seat[i].pid != s->clerk[i].pid)
		tend_all(s);
	else
		tend(s, inv->owner);
}

static void
dispatch(struct supervise *s, struct source *src, uint32_t events)
{
	struct task *t = src->task;

	if (src->fd == -1) /* since this turn began */
		return;
	switch (src->kind) {
	case SOURCE_IN:
		on_input(s);
		break;
	case SOURCE_OUT: /* each turn ends with a flush */
		if ((events & (EPOLLERR | EPOLLHUP)) != 0)
			report_lost(&s->report);
		break;
	case SOURCE_SIGNAL:
		on_signal(s);
		break;
	case SOURCE_TIMER:
		on_timer(s);
		break;
	case SOURCE_CLERK:
		on_clerk(s, src->index);
		break;
	case SOURCE_EXPORT: /* poll's bits and epoll's are the same */
		s->exports[src->index].revents = (short)events;
		break;
	case SOURCE_CONTROL:
		invocation_heard(t->inv);
		tend(s, t);
		break;
	case SOURCE_BROKER:
		invocation_broker_gone(t->inv);
		tend(s, t);
		break;
	case SOURCE_STREAM:
		on_stream(s, t, src->index);
		break;
	case SOURCE_READY: /* it says nothing, so it is gone */
		drop_ready(s, src->index);
		break;
	}
}

/* Nobody is there who wants what waits; what runs goes on to its end. */
static void
reader_gone(struct supervise *s)
{
	if (s->lost)
		return;
	s->lost = true;
	s->in_end = true;
	log_line(&s->sup.log, LOG_LEVEL_ERROR,
	    "nobody reads the events any more; no more requests are taken");
	drop_waiting(s, "nobody reads the events", SIGPIPE);
}

static bool
is_over(const struct supervise *s)
{
	if (s->waiting_n > 0 || s->running_n > 0 ||
	    (s->signals == 0 && !s->in_end))
		return false;
	/* A third signal does not even wait for whoever should read. */
	return !report_pending(&s->report) || s->signals > 2;
}

/* What the next turn waits for, besides what tasks wait for. */
static void
await_ours(struct supervise *s, bool lines)
{
	struct clerk_seat *seat;
	size_t i;

	export_poll(s->sup.export, s->exports);
	for (i = 0; i < EXPORT_POLLFDS; i++)
		await(s, &s->export[i], s->exports[i].fd,
		    (uint32_t)s->exports[i].events);
	await(s, &s->in, wants_requests(s) && !lines ? STDIN_FILENO : -1, EPOLLIN);
	await(s, &s->out, s->report.gone ? -1 : s->report.fd,
	    report_pending(&s->report) ? EPOLLOUT : EPOLLERR);
	for (i = 0; i < s->clerks.n; i++) {
		seat = &s->clerks.seat[i];
		if (s->clerk[i].pid != seat->pid) /* closed, with the old one */
			s->clerk[i].fd = -1;
		s->clerk[i].pid = seat->pid;
		await(s, &s->clerk[i], seat->fd, EPOLLIN);
	}
}

/* Room for output has come or gone. */
static void
note_room(struct supervise *s)
{
	bool room = report_room(&s->report);

	if (room == s->room)
		return;
	s->room = room;
	tend_all(s);
}

static void
bury(struct supervise *s)
{
	struct task *t;

	while ((t = TAILQ_FIRST(&s->over)) != NULL) {
		TAILQ_REMOVE(&s->over, t, link);
		task_free(t);
	}
}

static void
reap_sweeper(struct supervise *s, int options)
{
	pid_t pid;

	if (s->sweeper <= 0)
		return;
	do
		pid = waitpid(s->sweeper, NULL, options);
	while (pid == -1 && errno == EINTR);
	if (pid != 0)
		s->sweeper = 0;
}

/* Milliseconds until there is something to do even if nothing happens. */
static int
patience(const struct supervise *s, bool at_once, bool stocks)
{
	int64_t left = s->stock_at - clock_boot();

	if (at_once || (stocks && left <= 0))
		return 0;
	return stocks ? (int)((left + CLOCK_MS - 1) / CLOCK_MS) : -1;
}

static void
turn(struct supervise *s)
{
	struct epoll_event events[EVENTS_A_TURN];
	bool lines, starts, stocks;
	int i, n;

	take_lines(s);
	starts = start_some(s);
	report_flush(&s->report);
	if (s->report.gone)
		reader_gone(s);
	note_room(s);
	/* All of that makes room; more is read when no whole line is left. */
	lines = s->line.len > s->scanned && wants_requests(s);
	await_ours(s, lines);
	arm_timer(s);
	reap_sweeper(s, WNOHANG);
	if (is_over(s))
		return;
	stocks = s->stocking && wants_requests(s) && short_of(s) < READY &&
	    !somebody_starts(s);
	n = epoll_wait(s->epoll_fd, events, EVENTS_A_TURN,
	    patience(s,
		lines || starts || (s->in.never && wants_requests(s)) ||
		    (s->out.never && report_pending(&s->report)),
		stocks));
	if (n == -1 && errno != EINTR)
		err(EXIT_FAILED, "epoll_wait"); /* the brokers end with us */
	if (n == 0 && stocks && !lines && !starts &&
	    clock_boot() >= s->stock_at)
		stock_up(s); /* there is nothing else to do */
	for (i = 0; i < n; i++)
		dispatch(s, events[i].data.ptr, events[i].events);
	export_step(s->sup.export, s->exports);
	if (s->in.never && !lines && wants_requests(s))
		on_input(s);
	bury(s);
}

/* --- the beginning --- */

/* May so many invocations be? Or a sentence that says what is missing. */
static bool
enough_files(const struct supervise *s)
{
	rlim_t want = (rlim_t)s->max * FILES_EACH + FILES_OURS;
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == -1 || r.rlim_cur >= want)
		return true;
	warnx("--max %u needs %llu descriptors and may have %llu; "
	      "raise the hard limit (ulimit -Hn)",
	    s->max, (unsigned long long)want,
	    (unsigned long long)r.rlim_cur);
	return false;
}

static int
open_events(struct supervise *s)
{
	if (supervisor_events(&s->signal_fd, &s->timer_fd) == -1)
		return -1;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd == -1)
		return -1;
	await(s, &s->signal, s->signal_fd, EPOLLIN);
	await(s, &s->timer, s->timer_fd, EPOLLIN);
	return 0;
}

/* A log on standard error whose reader is slow must not stop us, nor brokers. */
static void
unblock_log(struct supervise *s)
{
	int fd;

	if (s->sup.settings.policy.log != NULL)
		return;
	fd = relay_unblocked(STDERR_FILENO);
	if (fd == STDERR_FILENO)
		return;
	close(s->sup.log.fd);
	s->sup.log.fd = fd;
}

/* What others left behind is put in order beside us. */
static void
start_sweeper(struct supervise *s)
{
	pid_t parent = getpid();

	s->sweeper = fork();
	if (s->sweeper != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	prctl(PR_SET_NAME, "cyberos-sweep");
	sweep_rest(&s->sup.store, s->sup.settings.policy.spool, s->sup.digest,
	    &s->sup.log);
	_exit(0);
}

/* What can never run at once waits rather than being refused. */
static void
bound_max(struct supervise *s)
{
	unsigned most = s->sup.settings.policy.max_invocations;

	if (most == 0 || s->max <= most)
		return;
	log_line(&s->sup.log, LOG_LEVEL_INFO,
	    "max_invocations allows %u at once", most);
	s->max = most;
}

static int
prepare(struct supervise *s)
{
	char why[1024];

	if (supervisor_configure(&s->sup, &s->options, s->most, why,
		sizeof(why)) == -1) {
		warnx("%s", why);
		return EXIT_CONFIG;
	}
	bound_max(s);
	if (!enough_files(s))
		return EXIT_FAILED;
	unblock_log(s);
	if (supervisor_open(&s->sup, why, sizeof(why)) == -1) {
		warnx("%s", why);
		return EXIT_FAILED;
	}
	if (open_events(s) == -1) {
		warn("start");
		return EXIT_FAILED;
	}
	start_sweeper(s);
	if (clerks_start(&s->clerks, &s->sup, CLERKS) == -1) {
		warn("clerks");
		return EXIT_FAILED;
	}
	report_open(&s->report, STDOUT_FILENO);
	return 0;
}

static int
init(struct supervise *s)
{
	int i;

	s->signal_fd = -1;
	if (supervisor_init(&s->sup) == -1)
		return -1;
	TAILQ_INIT(&s->waiting);
	TAILQ_INIT(&s->running);
	TAILQ_INIT(&s->over);
	source_init(&s->in, SOURCE_IN, NULL, 0);
	source_init(&s->out, SOURCE_OUT, NULL, 0);
	source_init(&s->signal, SOURCE_SIGNAL, NULL, 0);
	source_init(&s->timer, SOURCE_TIMER, NULL, 0);
	for (i = 0; i < CLERKS_MAX; i++)
		source_init(&s->clerk[i], SOURCE_CLERK, NULL, i);
	for (i = 0; i < READY; i++) {
		source_init(&s->stock[i], SOURCE_READY, NULL, i);
		ready_init(&s->ready[i]);
	}
	s->stocking = true;
	s->sup.forget = forget;
	s->sup.owner = s;
	for (i = 0; i < EXPORT_POLLFDS; i++)
		source_init(&s->export[i], SOURCE_EXPORT, NULL, i);
	buf_init(&s->line, REQUEST_LINE_MAX + 131072);
	s->room = true;
	return 0;
}

int
supervise_main(int argc, char **argv)
{
	struct supervise *s;
	int status, i;
	/* Later /dev/null stands in for what is closed. */
	bool closed = fcntl(STDIN_FILENO, F_GETFD) == -1 ||
		      fcntl(STDOUT_FILENO, F_GETFD) == -1;

	s = calloc(1, sizeof(*s));
	if (s == NULL || init(s) == -1)
		err(EXIT_FAILED, NULL);
	status = parse_options(s, argc, argv);
	if (status != 0) {
		supervisor_close(&s->sup);
		free(s);
		return status - 1;
	}
	if (closed)
		warnx("supervise reads requests from standard input and tells "
		      "events on standard output; one of them is closed");
	status = closed ? EXIT_FAILED : prepare(s);
	if (status == 0) {
		while (!is_over(s))
			turn(s);
		status = s->lost || s->unread ? EXIT_FAILED
		    : s->cut	 ? EXIT_INTERRUPTED
				 : EXIT_FINE;
		report_close(&s->report);
	}
	for (i = 0; i < READY; i++)
		drop_ready(s, i);
	clerks_stop(&s->clerks);
	export_end(s->sup.export, s->signal_fd);
	reap_sweeper(s, 0);
	buf_clear(&s->line);
	throttle_clear(&s->throttle);
	supervisor_close(&s->sup);
	free(s);
	return status;
}
