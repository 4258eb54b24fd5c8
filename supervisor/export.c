/*
 * The supervisor's side of telemetry. It is the supervisor's and not the
 * broker's, because what a broker has noted must get out when the broker is
 * killed, and because the passwords for a collector have no business in a
 * process that serves a skill.
 */

#include "supervisor/export.h"

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/buf.h"
#include "audit/clock.h"
#include "audit/hostpage.h"
#include "audit/json.h"
#include "enforce/fdpass.h"
#include "enforce/libexec.h"
#include "enforce/spawn.h"
#include "supervisor/outfile.h"
#include "tools/exporter.h"
#include "tools/program.h"

#define RESOURCE_MAX ((size_t)32 * 1024)
#define OTEL_FILE_MAX (UINT64_C(256) << 20) /* no skill fills a disk with it */
#define REPORTS_A_TURN 16
#define COUNTS_WAIT_MS 200 /* for the lock of the host's counts */
#define REQUEST_MAX ((size_t)16 * 1024 * 1024)
#define SPANS_OF_A_RECORD 2 /* at most: a call and its tool */
#define PUSH_FILE "metrics.push" /* in run/: whose lock it is, sends them */
#define METRICS_MAX ((size_t)4 * 1024 * 1024)
#define OWN_QUEUE_MAX 4096  /* records: ends of invocations */
#define FLUSH_MS 5000	    /* what the last flush takes at most */
#define GRACE_MS 1000	    /* and how late the exporter may be then */

enum sink { SINK_COLLECTOR, SINK_FILE };

_Static_assert(SINK_FILE + 1 == TRACER_SINKS, "one queue for each");

/* There is one invocation when there is a file. */
struct file {
	struct outfile out;
	char path[PATH_MAX];
	struct ring *ring; /* the queue's; borrowed */
	uint64_t queue_full, failed;
	uint64_t written; /* bytes */
};

/* The exporter: a child, and what it has said. */
struct collector {
	pid_t pid;	/* 0: there is none */
	int pidfd;
	int channel_fd;
	bool gone; /* the channel's other end is closed */
	int uid_lock;	/* held as long as it lives */
	unsigned timeout_ms;
	uint64_t next_id;
	int own_fd; /* a queue for what we put ourselves */
	struct ring *own;
	uint64_t put, queue_full; /* spans, of queues that are closed */
	struct exporter_state state[EXPORTER_SIGNALS];
	unsigned told[EXPORTER_SIGNALS]; /* a bit for each kind of trouble */
};

struct export {
	const struct log *log;
	struct file file;
	struct collector collector;
	bool wanted[TRACER_SINKS];
	/* A socket pair each, to read here and to write for those who put: not
	 * to block is a word of each call then, which no broker can take back. */
	int wake_fds[TRACER_SINKS], put_fds[TRACER_SINKS];
	struct buf resource; /* the text of its attributes */
	struct span_limits limits;
	struct trace_sampler sampler;
	unsigned queue, batch; /* spans */
	uint64_t counted[TALLY_DROPS]; /* of those dropped, in the host's sum */
	/* metrics */
	const struct store *store;
	const struct tally_names *names;
	int timer_fd; /* of the next push; -1: they are not sent */
	int push_fd;  /* -1: they are another supervisor's to send */
};

struct export *
export_new(const struct log *log)
{
	struct export *e = calloc(1, sizeof(*e));

	if (e == NULL)
		return NULL;
	e->log = log;
	outfile_init(&e->file.out);
	e->wake_fds[SINK_COLLECTOR] = e->wake_fds[SINK_FILE] = -1;
	e->put_fds[SINK_COLLECTOR] = e->put_fds[SINK_FILE] = -1;
	e->collector.pidfd = e->collector.channel_fd = -1;
	e->collector.uid_lock = e->collector.own_fd = -1;
	e->timer_fd = e->push_fd = -1;
	buf_init(&e->resource, RESOURCE_MAX);
	return e;
}

static void
close_fd(int *fd)
{
	if (*fd != -1)
		close(*fd);
	*fd = -1;
}

/* However it ends, it is not there any more, and its uid is free. */
static void
end_collector(struct collector *c)
{
	close_fd(&c->channel_fd);
	if (c->pid > 0) {
		kill(c->pid, SIGKILL);
		while (waitpid(c->pid, NULL, 0) == -1 && errno == EINTR)
			;
	}
	c->pid = 0;
	close_fd(&c->pidfd);
	close_fd(&c->uid_lock);
	close_fd(&c->own_fd);
	ring_unmap(c->own);
	c->own = NULL;
}

void
export_free(struct export *e)
{
	size_t i;

	if (e == NULL)
		return;
	end_collector(&e->collector);
	for (i = 0; i < TRACER_SINKS; i++) {
		close_fd(&e->wake_fds[i]);
		close_fd(&e->put_fds[i]);
	}
	close_fd(&e->timer_fd);
	close_fd(&e->push_fd);
	outfile_clear(&e->file.out);
	buf_clear(&e->resource);
	free(e);
}

int
export_open_file(struct export *e, const char *path, const char **unfinished)
{
	if (outfile_open(&e->file.out, path) == -1)
		return -1;
	strlcpy(e->file.path, path, sizeof(e->file.path));
	*unfinished = e->file.out.temp_path;
	return 0;
}

/* Without it nothing is exported, and everything else goes on. */
static void
give_up(struct export *e, const char *what)
{
	log_line(e->log, LOG_LEVEL_ERROR, "%s, so no spans are exported: %s",
	    what, strerror(errno));
	e->wanted[SINK_COLLECTOR] = e->wanted[SINK_FILE] = false;
}

static bool
is_wanted(const struct export *e)
{
	return e->wanted[SINK_COLLECTOR] || e->wanted[SINK_FILE];
}

/* --- the exporter --- */

static void
put_target(struct buf *b, const char *name, const struct telemetry_target *to)
{
	if (to->url == NULL)
		return;
	buf_printf(b, "\"%s\":{\"url\":", name);
	json_put_string(b, to->url, strlen(to->url));
	buf_puts(b, ",\"headers\":");
	buf_put(b, to->headers.data, to->headers.len);
	buf_printf(b, ",\"gzip\":%s,\"timeout_ms\":%u},",
	    to->gzip ? "true" : "false", to->timeout_ms);
}

static void
put_config(struct buf *b, const struct export *e, const struct telemetry *t)
{
	buf_putc(b, '{');
	put_target(b, "traces", &t->targets[TELEMETRY_TRACES]);
	put_target(b, "metrics", &t->targets[TELEMETRY_METRICS]);
	buf_puts(b, "\"resource\":");
	json_put_string(b, e->resource.data, e->resource.len);
	buf_printf(b,
	    ",\"delay_ms\":%u,\"export_ms\":%u,\"metric_ms\":%u,\"batch\":%u,"
	    "\"queue\":%u,\"attributes\":%u,\"length\":%u}",
	    t->delay_ms, t->export_ms, t->metric_ms, t->batch, t->queue,
	    t->limits.count, t->limits.length);
}

/* A pipe that holds all of it, so that nobody waits. The reading end, or -1. */
static int
make_config(const struct export *e, const struct telemetry *t)
{
	int fds[2] = { -1, -1 };
	struct buf b;
	bool good;

	buf_init(&b, EXPORTER_CONFIG_MAX);
	put_config(&b, e, t);
	if (b.failed)
		errno = E2BIG;
	good = !b.failed && pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0 &&
	    write(fds[1], b.data, b.len) == (ssize_t)b.len &&
	    fcntl(fds[0], F_SETFL, 0) == 0;
	buf_clear(&b);
	close_fd(&fds[1]);
	if (!good)
		close_fd(&fds[0]);
	return fds[0];
}

/* 0 also when there is none to open. */
static int
open_pem(const char *path, int *fd)
{
	if (path == NULL)
		return 0;
	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return *fd == -1 ? -1 : 0;
}

static int
fork_collector(struct export *e, int program_fd, int fds[EXPORTER_FDS],
    const struct policy *p)
{
	struct collector *c = &e->collector;
	uid_t uid = geteuid();
	pid_t parent = getpid();
	int pair[2];

	if (uid == 0) {
		c->uid_lock = spawn_lock_uid(p->uid_first, p->uid_last, &uid);
		if (c->uid_lock == -1)
			return -1;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == -1)
		return -1;
	fds[EXPORTER_CHANNEL] = pair[1];
	prctl(PR_SET_DUMPABLE, 0);
	c->pid = fork();
	if (c->pid == 0)
		program_become(program_fd, PROGRAM_EXPORT, fds, EXPORTER_FDS,
		    uid, parent);
	close(pair[1]);
	c->channel_fd = pair[0];
	if (c->pid == -1)
		c->pid = 0;
	else
		c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	return c->pidfd == -1 ? -1 : 0;
}

/* A queue is the exporter's as long as it lives; a copy of it is ours. */
static int
hand_queue(struct export *e, int queue_fd, uint64_t id)
{
	struct exporter_message m;

	memset(&m, 0, sizeof(m));
	m.kind = EXPORTER_QUEUE;
	m.id = id;
	return fdpass_send(e->collector.channel_fd, &m, sizeof(m), &queue_fd, 1,
		   MSG_DONTWAIT) == (ssize_t)sizeof(m)
	    ? 0
	    : -1;
}

static int
make_own_queue(struct export *e)
{
	struct collector *c = &e->collector;

	c->own_fd = ring_create(
	    e->queue < OWN_QUEUE_MAX ? e->queue : OWN_QUEUE_MAX);
	if (c->own_fd == -1 || (c->own = ring_map(c->own_fd)) == NULL)
		return -1;
	return hand_queue(e, c->own_fd, EXPORTER_OWN);
}

static int
open_pems(const struct telemetry_target *to, int fds[3])
{
	if (to->url == NULL)
		return 0;
	return open_pem(to->certificate, &fds[0]) == -1 ||
		open_pem(to->client_certificate, &fds[1]) == -1 ||
		open_pem(to->client_key, &fds[2]) == -1
	    ? -1
	    : 0;
}

static int
start_collector(struct export *e, const struct telemetry *t,
    const struct policy *p)
{
	const struct telemetry_target *traces = &t->targets[TELEMETRY_TRACES];
	const struct telemetry_target *metrics = &t->targets[TELEMETRY_METRICS];
	int fds[EXPORTER_FDS], program_fd, i, result = -1;
	const char *what = PROGRAM_NET;

	for (i = 0; i < EXPORTER_FDS; i++)
		fds[i] = -1;
	e->collector.timeout_ms =
	    traces->url != NULL && traces->timeout_ms > metrics->timeout_ms
	    ? traces->timeout_ms
	    : metrics->timeout_ms;
	program_fd = libexec_open(PROGRAM_NET);
	if (program_fd == -1)
		goto out;
	what = "the files that OTEL_EXPORTER_OTLP_CERTIFICATE and its like name";
	if (open_pems(traces, &fds[EXPORTER_CA]) == -1 ||
	    open_pems(metrics, &fds[EXPORTER_METRICS_CA]) == -1)
		goto out;
	what = "the exporter";
	fds[EXPORTER_CONFIG] = make_config(e, t);
	if (fds[EXPORTER_CONFIG] == -1)
		goto out;
	fds[EXPORTER_WAKE] = fcntl(e->wake_fds[SINK_COLLECTOR],
	    F_DUPFD_CLOEXEC, 3);
	if (fork_collector(e, program_fd, fds, p) == 0)
		result = make_own_queue(e);
	fds[EXPORTER_CHANNEL] = -1; /* closed */
out:
	if (result == -1) {
		log_line(e->log, LOG_LEVEL_ERROR,
		    "%s: %s; nothing is sent to a collector", what,
		    strerror(errno));
		end_collector(&e->collector);
	}
	close_fd(&program_fd);
	for (i = 0; i < EXPORTER_FDS; i++)
		close_fd(&fds[i]);
	return result;
}

/* --- metrics --- */

/*
 * What was dropped since the last time, for everybody who looks at this host's
 * metrics. False: somebody had them for so long, and the next time has it all.
 */
static bool
count_drops(struct export *e, int64_t wait_ms)
{
	const struct exporter_state *n = &e->collector.state[EXPORTER_TRACES];
	const uint64_t now[TALLY_DROPS] = {
		[TALLY_QUEUE_FULL] = e->collector.queue_full + n->queue_full +
		    e->file.queue_full,
		[TALLY_REJECTED] = n->rejected,
		[TALLY_FAILED] = n->failed + e->file.failed,
		[TALLY_SHUTDOWN] = n->shutdown,
	};
	struct tally *t;
	size_t i;
	bool good;

	if (memcmp(now, e->counted, sizeof(now)) == 0)
		return true;
	t = calloc(1, sizeof(*t));
	if (t == NULL)
		return false;
	tally_init(t, e->names);
	for (i = 0; i < TALLY_DROPS; i++) {
		if (now[i] > e->counted[i]) /* the exporter may say anything */
			t->spans_dropped[i] = now[i] - e->counted[i];
	}
	good = hostpage_add(e->store, e->names, t, wait_ms) == 0;
	if (good)
		memcpy(e->counted, now, sizeof(now));
	free(t);
	return good;
}

static void
start_timer(struct export *e, unsigned interval_ms)
{
	struct itimerspec when;

	memset(&when, 0, sizeof(when));
	when.it_interval.tv_sec = interval_ms / 1000;
	when.it_interval.tv_nsec = (long)(interval_ms % 1000) * CLOCK_MS;
	when.it_value = when.it_interval;
	e->timer_fd = timerfd_create(CLOCK_BOOTTIME,
	    TFD_CLOEXEC | TFD_NONBLOCK);
	if (e->timer_fd != -1)
		timerfd_settime(e->timer_fd, 0, &when, NULL);
}

/* Two that sent the same series would make a mess of them. */
static bool
may_push(struct export *e)
{
	if (e->push_fd != -1)
		return true;
	e->push_fd = store_file(e->store->run_fd, PUSH_FILE, O_RDWR | O_CREAT);
	if (e->push_fd == -1 || flock(e->push_fd, LOCK_EX | LOCK_NB) == -1)
		close_fd(&e->push_fd);
	return e->push_fd != -1;
}

/* The text of all metrics in a file of its own; or -1. */
static int
make_counts(struct export *e)
{
	struct metrics *m = calloc(1, sizeof(*m));
	struct buf text, resource;
	int fd = -1;

	buf_init(&text, METRICS_MAX);
	buf_init(&resource, RESOURCE_MAX + 64);
	buf_puts(&resource, "{\"attributes\":");
	buf_put(&resource, e->resource.data, e->resource.len);
	buf_put(&resource, "}", 2); /* with its end */
	if (m != NULL && !resource.failed &&
	    hostpage_read(e->store, e->names, m) == 0 &&
	    metrics_otlp(&text, m, resource.data) == 0)
		fd = memfd_create("metrics", MFD_CLOEXEC);
	if (fd != -1 &&
	    write(fd, text.data, text.len) != (ssize_t)text.len)
		close_fd(&fd);
	buf_clear(&text);
	buf_clear(&resource);
	free(m);
	return fd;
}

static void
push_metrics(struct export *e)
{
	struct exporter_message m;
	int fd;

	count_drops(e, 0);
	if (e->timer_fd == -1 || e->collector.pid == 0 || e->collector.gone ||
	    !may_push(e))
		return;
	fd = make_counts(e);
	if (fd == -1) {
		log_line(e->log, LOG_LEVEL_WARN, "metrics: %s",
		    strerror(errno));
		return;
	}
	memset(&m, 0, sizeof(m));
	m.kind = EXPORTER_COUNTS;
	fdpass_send(e->collector.channel_fd, &m, sizeof(m), &fd, 1,
	    MSG_DONTWAIT);
	close(fd);
}

void
export_start(struct export *e, const struct telemetry *t,
    const struct policy *p, const struct store *store,
    const struct tally_names *names)
{
	int pair[2];
	bool metrics = t->targets[TELEMETRY_METRICS].url != NULL;
	size_t i;

	e->store = store;
	e->names = names;
	e->limits = t->limits;
	e->sampler = t->sampler;
	e->queue = t->queue;
	e->batch = t->batch;
	e->wanted[SINK_FILE] = e->file.out.dir_fd != -1;
	e->wanted[SINK_COLLECTOR] = t->targets[TELEMETRY_TRACES].url != NULL;
	if (!is_wanted(e) && !metrics)
		return;
	if (telemetry_resource(t, store->host, &e->resource) == -1) {
		give_up(e, "attributes of the resource");
		return;
	}
	for (i = 0; i < TRACER_SINKS; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) ==
		    -1) {
			give_up(e, "socketpair");
			return;
		}
		e->wake_fds[i] = pair[0];
		e->put_fds[i] = pair[1];
	}
	if (!metrics && !e->wanted[SINK_COLLECTOR])
		return;
	if (start_collector(e, t, p) == -1)
		e->wanted[SINK_COLLECTOR] = false;
	else if (metrics)
		start_timer(e, t->interval_ms);
}

/* --- the queues of an invocation --- */

void
export_queue_init(struct export_queue *q)
{
	memset(q, 0, sizeof(*q));
	q->fds[SINK_COLLECTOR] = q->fds[SINK_FILE] = -1;
}

static int
make_queue(struct export *e, struct export_queue *q, size_t i)
{
	q->fds[i] = ring_create(
	    (e->queue + SPANS_OF_A_RECORD - 1) / SPANS_OF_A_RECORD);
	if (q->fds[i] == -1)
		return -1;
	q->rings[i] = ring_map(q->fds[i]);
	if (q->rings[i] == NULL)
		return -1;
	if (i != SINK_COLLECTOR)
		return 0;
	q->id = ++e->collector.next_id;
	return hand_queue(e, q->fds[i], q->id);
}

void
export_queue_begin(struct export *e, struct export_queue *q,
    struct broker_job *job, bool given)
{
	struct tracer_job *t = &job->tracer;
	size_t i;

	memset(t, 0, sizeof(*t));
	for (i = 0; i < TRACER_SINKS; i++)
		t->sinks[i].fd = t->sinks[i].wake_fd = -1;
	if (!is_wanted(e))
		return;
	q->given = given;
	q->wall = clock_wall() - clock_boot();
	if (trace_new_span(q->span_id) == -1)
		return;
	for (i = 0; i < TRACER_SINKS; i++) {
		if (!e->wanted[i])
			continue;
		if (make_queue(e, q, i) == -1) {
			log_line(&job->log, LOG_LEVEL_ERROR,
			    "no spans of this invocation: %s",
			    strerror(errno));
			export_queue_clear(q);
			return;
		}
	}
	for (i = 0; i < TRACER_SINKS; i++) {
		t->sinks[i].fd = q->fds[i];
		t->sinks[i].wake_fd = e->put_fds[i];
		t->sinks[i].wake_at = e->batch / SPANS_OF_A_RECORD;
		if (t->sinks[i].wake_at == 0)
			t->sinks[i].wake_at = 1;
	}
	q->on = true;
	e->file.ring = q->rings[SINK_FILE];
	t->sampler = e->sampler;
	t->wall = q->wall;
	strlcpy(t->span_id, q->span_id, sizeof(t->span_id));
	job->trace.flags = (uint8_t)((job->trace.flags & ~1U) |
	    trace_sampled(&e->sampler, &job->trace, given));
}

static void
fill_invocation(struct span *s, const struct export_queue *q,
    const struct broker_job *job, const struct broker_result *r)
{
	strlcpy(s->trace_id, job->trace.trace_id, sizeof(s->trace_id));
	strlcpy(s->span_id, q->span_id, sizeof(s->span_id));
	if (q->given)
		strlcpy(s->parent_id, job->trace.span_id,
		    sizeof(s->parent_id));
	s->remote = q->given;
	s->flags = job->trace.flags;
	strlcpy(s->invocation_id, job->invocation, sizeof(s->invocation_id));
	strlcpy(s->tenant_id, job->tenant, sizeof(s->tenant_id));
	strlcpy(s->outcome, broker_outcome_word(r->outcome),
	    sizeof(s->outcome));
	s->failed = r->outcome != BROKER_SUCCESS;
	if (s->failed)
		strlcpy(s->error, s->outcome, sizeof(s->error));
	s->duration_ms = r->duration_ms;
	s->calls = (int64_t)r->calls;
	s->denied = (int64_t)r->denied;
	s->rejected = (int64_t)r->rejected;
	if (r->exit_code >= 0)
		s->exit_code = r->exit_code;
}

static void	write_spans(struct export *, const struct span *);

static void
tell(struct export *e, enum exporter_kind kind, uint64_t id, unsigned ms)
{
	struct exporter_message m;

	if (e->collector.channel_fd == -1 || e->collector.gone)
		return;
	memset(&m, 0, sizeof(m));
	m.kind = kind;
	m.id = id;
	m.ms = ms;
	fdpass_send(e->collector.channel_fd, &m, sizeof(m), NULL, 0,
	    MSG_DONTWAIT);
}

/* The broker puts no more into it, and we put this beside it. */
static void
close_queue(struct export *e, struct export_queue *q, const struct span *s)
{
	struct collector *c = &e->collector;
	struct span *room;

	c->put += ring_count(q->rings[SINK_COLLECTOR]);
	c->queue_full += ring_dropped(q->rings[SINK_COLLECTOR]);
	room = s == NULL ? NULL : ring_room(c->own, span_count(s));
	if (room != NULL) {
		*room = *s;
		if (ring_put(c->own, e->batch)) /* full: somebody is on his way */
			(void)send(e->put_fds[SINK_COLLECTOR], "", 1,
			    MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	tell(e, EXPORTER_DONE, q->id, 0);
}

void
export_queue_settle(struct export_queue *q, uint64_t last)
{
	size_t i;

	for (i = 0; i < TRACER_SINKS; i++) {
		if (q->rings[i] != NULL)
			ring_settle(q->rings[i], last);
	}
}

void
export_queue_end(struct export *e, struct export_queue *q,
    const struct broker_job *job, const char *skill_id, const char *version,
    const struct broker_result *r, int64_t begun)
{
	struct span s;
	bool sampled = (job->trace.flags & 1) != 0;

	if (!q->on)
		return;
	q->on = false;
	span_init(&s, SPAN_INVOCATION);
	fill_invocation(&s, q, job, r);
	strlcpy(s.skill_id, skill_id, sizeof(s.skill_id));
	strlcpy(s.version, version, sizeof(s.version));
	s.start = q->wall + begun;
	s.end = q->wall + clock_boot();
	if (q->rings[SINK_FILE] != NULL) {
		write_spans(e, sampled ? &s : NULL);
		e->file.ring = NULL;
	}
	if (q->rings[SINK_COLLECTOR] != NULL)
		close_queue(e, q, sampled ? &s : NULL);
	count_drops(e, 0);
}

void
export_queue_clear(struct export_queue *q)
{
	size_t i;

	for (i = 0; i < TRACER_SINKS; i++) {
		ring_unmap(q->rings[i]);
		if (q->fds[i] != -1)
			close(q->fds[i]);
	}
	export_queue_init(q);
}

/* --- the file --- */

static void
put_line(struct export *e, struct buf *line, unsigned spans)
{
	struct file *f = &e->file;

	span_end(line);
	buf_putc(line, '\n');
	if (!line->failed && f->written + line->len > OTEL_FILE_MAX) {
		line->failed = true;
		errno = EFBIG;
	}
	if (line->failed ||
	    outfile_put(f->out.fd, line->data, line->len) == -1) {
		if (f->failed == 0)
			log_line(e->log, LOG_LEVEL_ERROR, "--otel-file: %s",
			    strerror(errno));
		f->failed += spans;
	} else {
		f->written += line->len;
	}
	buf_reset(line);
}

/* Into the line that has *n; one that is full is written. */
static void
put_record(struct export *e, struct buf *line, unsigned *n,
    const struct span *s)
{
	unsigned done, more;

	if (!span_valid(s)) {
		e->file.failed++;
		return;
	}
	for (done = 0; done < span_count(s); done += more) {
		if (*n == 0)
			span_begin(line, e->resource.data, e->resource.len);
		more = span_count(s) - done;
		if (more > e->batch - *n)
			more = e->batch - *n;
		span_put(line, s, done, more, &e->limits);
		*n += more;
		if (*n == e->batch) {
			put_line(e, line, *n);
			*n = 0;
		}
	}
}

/* A line for each batch of what waits, and this one behind it. */
static void
write_spans(struct export *e, const struct span *last)
{
	struct span s;
	struct buf line;
	/* As many as the queue holds: a broker that puts without end does not
	 * keep us here. */
	unsigned n = 0, left = e->queue;

	buf_init(&line, REQUEST_MAX);
	while (left-- > 0 && ring_take(e->file.ring, &s))
		put_record(e, &line, &n, &s);
	if (last != NULL)
		put_record(e, &line, &n, last);
	if (n > 0)
		put_line(e, &line, n);
	buf_clear(&line);
	e->file.queue_full = ring_dropped(e->file.ring);
}

static void
end_file(struct export *e)
{
	struct file *f = &e->file;

	if (!e->wanted[SINK_FILE])
		return;
	if (outfile_commit(&f->out, "", 0) == -1)
		log_line(e->log, LOG_LEVEL_ERROR, "--otel-file %s: %s",
		    f->path, strerror(errno));
	if (f->queue_full + f->failed > 0)
		log_line(e->log, LOG_LEVEL_WARN,
		    "--otel-file: spans were dropped: queue_full %llu, failed "
		    "%llu",
		    (unsigned long long)f->queue_full,
		    (unsigned long long)f->failed);
}

/* --- what the exporter says --- */

static const char *
trouble_text(const struct exporter_state *s, char text[64])
{
	static const char *const words[EXPORTER_TROUBLES] = {
		[EXPORTER_FINE] = "nothing is known",
		[EXPORTER_STATUS] = "the collector answered",
		[EXPORTER_LIBRARY] = "the collector did not answer: libcurl",
		[EXPORTER_PARTIAL] = "the collector took a part only",
		[EXPORTER_WARNING] = "the collector took them, with a warning",
		[EXPORTER_BAD_URL] = "the endpoint is not a URL",
		[EXPORTER_MEMORY] = "memory is short",
	};

	if (s->code != 0)
		snprintf(text, 64, "%s %d", words[s->trouble], s->code);
	else
		strlcpy(text, words[s->trouble], 64);
	return text;
}

/* Numbers, as it knows them; each kind of trouble is said once. */
static void
on_report(struct export *e, const struct exporter_message *m)
{
	static const char *const names[EXPORTER_SIGNALS] = {
		[EXPORTER_TRACES] = "traces",
		[EXPORTER_METRICS] = "metrics",
	};
	struct collector *c = &e->collector;
	unsigned kind;
	char text[64];
	size_t i;

	if (m->kind != EXPORTER_REPORT)
		return;
	for (i = 0; i < EXPORTER_SIGNALS; i++) {
		if (m->state[i].trouble >= EXPORTER_TROUBLES)
			continue;
		c->state[i] = m->state[i];
		kind = 1U << c->state[i].trouble;
		if (c->state[i].trouble == EXPORTER_FINE ||
		    (c->told[i] & kind) != 0)
			continue;
		c->told[i] |= kind;
		log_line(e->log, LOG_LEVEL_WARN, "%s: %s", names[i],
		    trouble_text(&c->state[i], text));
	}
}

static void
hear_collector(struct export *e)
{
	struct collector *c = &e->collector;
	struct exporter_message m;
	int left = REPORTS_A_TURN;
	ssize_t n;

	do {
		n = fdpass_receive(c->channel_fd, &m, sizeof(m), NULL, 0,
		    MSG_DONTWAIT);
		if (n == (ssize_t)sizeof(m))
			on_report(e, &m);
	} while (n == (ssize_t)sizeof(m) && --left > 0);
	/* It stays open: whoever polls it is told first. */
	c->gone = n != (ssize_t)sizeof(m) && (n != -1 || errno != EAGAIN);
	count_drops(e, 0);
}

/* --- while it runs, and the end --- */

void
export_poll(const struct export *e, struct pollfd fds[EXPORT_POLLFDS])
{
	fds[SINK_COLLECTOR] = (struct pollfd){
		e->collector.gone ? -1 : e->collector.channel_fd, POLLIN, 0 };
	fds[SINK_FILE] = (struct pollfd){
		e->wanted[SINK_FILE] ? e->wake_fds[SINK_FILE] : -1, POLLIN, 0 };
	fds[TRACER_SINKS] = (struct pollfd){ e->timer_fd, POLLIN, 0 };
}

void
export_step(struct export *e, const struct pollfd fds[EXPORT_POLLFDS])
{
	char drain[4096];
	uint64_t n;

	if (fds[SINK_COLLECTOR].revents != 0 && !e->collector.gone) {
		hear_collector(e);
		if (e->collector.gone) {
			e->wanted[SINK_COLLECTOR] = false;
			log_line(e->log, LOG_LEVEL_ERROR,
			    "the exporter is gone; no spans are sent any more");
		}
	}
	if ((fds[SINK_FILE].revents & POLLIN) != 0 && e->file.ring != NULL &&
	    recv(e->wake_fds[SINK_FILE], drain, sizeof(drain), MSG_DONTWAIT) >
		0) {
		write_spans(e, NULL);
		count_drops(e, 0);
	}
	if (fds[TRACER_SINKS].revents != 0 && e->timer_fd != -1 &&
	    read(e->timer_fd, &n, sizeof(n)) == (ssize_t)sizeof(n))
		push_metrics(e);
}

/* Wait until the exporter has closed its end, for so long at most. */
static void
wait_for_collector(struct export *e, int stop_fd, int64_t until)
{
	struct pollfd fds[2];

	while (!e->collector.gone && clock_boot() < until) {
		fds[0] = (struct pollfd){ e->collector.channel_fd, POLLIN, 0 };
		fds[1] = (struct pollfd){ stop_fd, POLLIN, 0 };
		if (poll(fds, 2, clock_until_ms(until)) == -1 &&
		    errno != EINTR)
			return;
		if (fds[1].revents != 0)
			return;
		if (fds[0].revents != 0)
			hear_collector(e);
	}
}

static void
end_of_collector(struct export *e, int stop_fd)
{
	struct collector *c = &e->collector;
	struct exporter_state *n = &c->state[EXPORTER_TRACES];
	struct pollfd room = { c->channel_fd, POLLOUT, 0 };
	uint64_t all;
	unsigned ms;

	if (c->pid == 0)
		return;
	ms = c->timeout_ms < FLUSH_MS ? c->timeout_ms : FLUSH_MS;
	c->put += ring_count(c->own);
	c->queue_full += ring_dropped(c->own);
	/* One that has not read for so long never will. */
	poll(&room, 1, GRACE_MS);
	tell(e, EXPORTER_END, 0, ms);
	wait_for_collector(e, stop_fd,
	    clock_boot() + (ms + GRACE_MS) * CLOCK_MS);
	end_collector(c);
	/* What it has not spoken of is lost with it. */
	all = n->sent + n->rejected + n->queue_full + n->failed + n->shutdown;
	if (all < c->put)
		n->shutdown += c->put - all;
	c->queue_full += n->queue_full;
	n->queue_full = 0;
	if (c->queue_full + n->rejected + n->failed + n->shutdown > 0)
		log_line(e->log, LOG_LEVEL_WARN,
		    "traces: %llu spans were sent and some dropped: queue_full "
		    "%llu, rejected %llu, failed %llu, shutdown %llu",
		    (unsigned long long)n->sent,
		    (unsigned long long)c->queue_full,
		    (unsigned long long)n->rejected,
		    (unsigned long long)n->failed,
		    (unsigned long long)n->shutdown);
}

void
export_end(struct export *e, int stop_fd)
{
	end_file(e);
	push_metrics(e);
	end_of_collector(e, stop_fd);
	if (!count_drops(e, COUNTS_WAIT_MS))
		log_line(e->log, LOG_LEVEL_WARN, "metrics: %s",
		    strerror(errno));
}
