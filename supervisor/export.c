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
#include <sys/queue.h>
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
#define AGAIN_MS 1000	    /* until there is another one; then twice as long */
#define AGAIN_MAX_MS 60000  /* at most; who has lived so long begins anew */

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

TAILQ_HEAD(queue_list, export_queue);

/* The exporter: a child, what it has said, and what another one will need. */
struct collector {
	pid_t pid;	/* 0: there is none */
	int pidfd;
	int channel_fd;
	bool gone; /* the channel's other end is closed */
	int uid_lock;	/* held as long as it lives */
	int64_t started; /* clock_boot */
	int again_fd;	/* a timer: start another one */
	unsigned again_ms;
	/* Its configuration has passwords: here, where no memory of ours does. */
	int config_fd;
	const char *pems[EXPORTER_FDS]; /* names of files, or NULL; borrowed */
	const struct policy *policy;
	unsigned timeout_ms;
	uint64_t next_id;
	struct queue_list queues; /* of invocations that run */
	int own_fd; /* a queue for what we put ourselves */
	struct ring *own;
	/* Spans, of queues that are closed: those that an exporter had, and
	 * those without room. */
	uint64_t put, queue_full;
	struct exporter_state state[EXPORTER_SIGNALS];
	struct exporter_state before; /* traces: of those that are gone */
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
	e->collector.again_fd = e->collector.config_fd = -1;
	TAILQ_INIT(&e->collector.queues);
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
	if (c->pid > 0) {
		kill(c->pid, SIGKILL);
		while (waitpid(c->pid, NULL, 0) == -1 && errno == EINTR)
			;
	}
	c->pid = 0;
	close_fd(&c->pidfd);
	close_fd(&c->uid_lock);
}

/* Nor will there be another one. */
static void
forget_collector(struct collector *c)
{
	end_collector(c);
	close_fd(&c->channel_fd);
	close_fd(&c->again_fd);
	close_fd(&c->config_fd);
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
	forget_collector(&e->collector);
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

/* A file in memory that nobody can change: each exporter reads it. Or -1. */
static int
make_config(const struct export *e, const struct telemetry *t)
{
	struct buf b;
	int fd = -1;

	buf_init(&b, EXPORTER_CONFIG_MAX);
	put_config(&b, e, t);
	if (b.failed)
		errno = E2BIG;
	else
		fd = memfd_create("exporter", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd != -1 &&
	    (write(fd, b.data, b.len) != (ssize_t)b.len ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW |
		    F_SEAL_WRITE | F_SEAL_SEAL) == -1))
		close_fd(&fd);
	buf_clear(&b);
	return fd;
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
fork_collector(struct collector *c, int program_fd, int fds[EXPORTER_FDS])
{
	uid_t uid = geteuid();
	pid_t parent = getpid();
	int pair[2];

	if (uid == 0) {
		c->uid_lock = spawn_lock_uid(
		    c->policy->uid_first, c->policy->uid_last, &uid);
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
	close_fd(&c->channel_fd);
	c->channel_fd = pair[0];
	c->gone = false;
	if (c->pid == -1)
		c->pid = 0;
	else
		c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	return c->pidfd == -1 ? -1 : 0;
}

/* A queue is the exporter's as long as it lives; a copy of it is ours. One that
 * does not read has so long to begin. */
static int
hand_queue(const struct collector *c, int queue_fd, uint64_t id, int ms)
{
	struct pollfd room = { c->channel_fd, POLLOUT, 0 };
	struct exporter_message m;

	memset(&m, 0, sizeof(m));
	m.kind = EXPORTER_QUEUE;
	m.id = id;
	if (ms > 0)
		poll(&room, 1, ms);
	return fdpass_send(c->channel_fd, &m, sizeof(m), &queue_fd, 1,
		   MSG_DONTWAIT) == (ssize_t)sizeof(m)
	    ? 0
	    : -1;
}

/* All that wait: the next one goes on where the one before has died. */
static int
hand_queues(const struct collector *c)
{
	const struct export_queue *q;

	if (hand_queue(c, c->own_fd, EXPORTER_OWN, GRACE_MS) == -1)
		return -1;
	TAILQ_FOREACH (q, &c->queues, next) {
		if (hand_queue(c, q->fds[SINK_COLLECTOR], q->id, GRACE_MS) == -1)
			return -1;
	}
	return 0;
}

static void
name_pems(const struct telemetry_target *to, const char *pems[3])
{
	if (to->url == NULL)
		return;
	pems[0] = to->certificate;
	pems[1] = to->client_certificate;
	pems[2] = to->client_key;
}

/* What every exporter needs, as long as the passwords are there. */
static int
prepare_collector(struct export *e, const struct telemetry *t,
    const struct policy *p)
{
	const struct telemetry_target *traces = &t->targets[TELEMETRY_TRACES];
	const struct telemetry_target *metrics = &t->targets[TELEMETRY_METRICS];
	struct collector *c = &e->collector;

	c->policy = p;
	c->timeout_ms =
	    traces->url != NULL && traces->timeout_ms > metrics->timeout_ms
	    ? traces->timeout_ms
	    : metrics->timeout_ms;
	name_pems(traces, &c->pems[EXPORTER_CA]);
	name_pems(metrics, &c->pems[EXPORTER_METRICS_CA]);
	c->again_fd = timerfd_create(CLOCK_BOOTTIME,
	    TFD_CLOEXEC | TFD_NONBLOCK);
	c->own_fd = ring_create(
	    e->queue < OWN_QUEUE_MAX ? e->queue : OWN_QUEUE_MAX);
	if (c->again_fd == -1 || c->own_fd == -1 ||
	    (c->own = ring_map(c->own_fd)) == NULL)
		return -1;
	c->config_fd = make_config(e, t);
	return c->config_fd == -1 ? -1 : 0;
}

/* -1 with *what: what is missing. */
static int
start_collector(struct export *e, const char **what)
{
	struct collector *c = &e->collector;
	int fds[EXPORTER_FDS], program_fd, i, saved, result = -1;

	for (i = 0; i < EXPORTER_FDS; i++)
		fds[i] = -1;
	c->started = clock_boot();
	*what = PROGRAM_NET;
	program_fd = libexec_open(PROGRAM_NET);
	if (program_fd == -1)
		goto out;
	*what = "the files that OTEL_EXPORTER_OTLP_CERTIFICATE and its like name";
	for (i = EXPORTER_CA; i < EXPORTER_FDS; i++) {
		if (open_pem(c->pems[i], &fds[i]) == -1)
			goto out;
	}
	*what = "the exporter";
	/* The place in it is shared with the one who has read it before. */
	if (lseek(c->config_fd, 0, SEEK_SET) == -1)
		goto out;
	fds[EXPORTER_CONFIG] = fcntl(c->config_fd, F_DUPFD_CLOEXEC, 3);
	fds[EXPORTER_WAKE] = fcntl(e->wake_fds[SINK_COLLECTOR],
	    F_DUPFD_CLOEXEC, 3);
	if (fds[EXPORTER_CONFIG] != -1 &&
	    fork_collector(c, program_fd, fds) == 0)
		result = hand_queues(c);
	fds[EXPORTER_CHANNEL] = -1; /* closed */
out:
	saved = errno;
	if (result == -1)
		end_collector(c);
	close_fd(&program_fd);
	for (i = 0; i < EXPORTER_FDS; i++)
		close_fd(&fds[i]);
	errno = saved;
	return result;
}

/* What became of the spans that exporters had, this one and those before. */
static struct exporter_state
spans_of(const struct collector *c)
{
	const struct exporter_state *now = &c->state[EXPORTER_TRACES];
	struct exporter_state s = c->before;

	s.sent += now->sent;
	s.rejected += now->rejected;
	s.queue_full += now->queue_full;
	s.failed += now->failed;
	s.shutdown += now->shutdown;
	return s;
}

static uint64_t
sum_of(const struct exporter_state *s)
{
	return s->sent + s->rejected + s->queue_full + s->failed + s->shutdown;
}

/* What it had taken and not told of is lost. */
static void
lose_collector(struct collector *c)
{
	const struct export_queue *q;
	uint64_t had;

	end_collector(c); /* it takes no more */
	had = c->put + ring_taken(c->own);
	TAILQ_FOREACH (q, &c->queues, next)
		had += ring_taken(q->rings[SINK_COLLECTOR]);
	c->before = spans_of(c);
	memset(c->state, 0, sizeof(c->state));
	if (had > sum_of(&c->before))
		c->before.failed += had - sum_of(&c->before);
}

static void
start_later(struct collector *c)
{
	struct itimerspec when;

	if (c->again_ms == 0 ||
	    clock_boot() - c->started > AGAIN_MAX_MS * CLOCK_MS)
		c->again_ms = AGAIN_MS;
	else if (c->again_ms < AGAIN_MAX_MS / 2)
		c->again_ms *= 2;
	else
		c->again_ms = AGAIN_MAX_MS;
	memset(&when, 0, sizeof(when));
	when.it_value.tv_sec = c->again_ms / 1000;
	timerfd_settime(c->again_fd, 0, &when, NULL);
}

/* --- metrics --- */

/*
 * What was dropped since the last time, for everybody who looks at this host's
 * metrics. False: somebody had them for so long, and the next time has it all.
 */
static bool
count_drops(struct export *e, int64_t wait_ms)
{
	const struct collector *c = &e->collector;
	const struct exporter_state n = spans_of(c);
	const uint64_t now[TALLY_DROPS] = {
		[TALLY_QUEUE_FULL] = c->queue_full + n.queue_full +
		    (c->own == NULL ? 0 : ring_dropped(c->own)) +
		    e->file.queue_full,
		[TALLY_REJECTED] = n.rejected,
		[TALLY_FAILED] = n.failed + e->file.failed,
		[TALLY_SHUTDOWN] = n.shutdown,
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
	const char *what = "the exporter";
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
	if (prepare_collector(e, t, p) == -1 ||
	    start_collector(e, &what) == -1) {
		log_line(e->log, LOG_LEVEL_ERROR,
		    "%s: %s; nothing is sent to a collector", what,
		    strerror(errno));
		e->wanted[SINK_COLLECTOR] = false;
		forget_collector(&e->collector);
	} else if (metrics) {
		start_timer(e, t->interval_ms);
	}
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
	struct collector *c = &e->collector;

	q->fds[i] = ring_create(
	    (e->queue + SPANS_OF_A_RECORD - 1) / SPANS_OF_A_RECORD);
	if (q->fds[i] == -1)
		return -1;
	q->rings[i] = ring_map(q->fds[i]);
	if (q->rings[i] == NULL)
		return -1;
	if (i != SINK_COLLECTOR)
		return 0;
	q->id = ++c->next_id;
	/* When there is none, or it has just died, the next one is told. */
	if (!c->gone && hand_queue(c, q->fds[i], q->id, 0) == -1 &&
	    errno != EPIPE && errno != ECONNRESET)
		return -1;
	TAILQ_INSERT_TAIL(&c->queues, q, next);
	q->listed = true;
	return 0;
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
			export_queue_clear(e, q);
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

static void
put_own(struct export *e, const struct span *s)
{
	struct ring *own = e->collector.own;
	struct span *room = ring_room(own, span_count(s));

	if (room == NULL)
		return;
	*room = *s;
	if (ring_put(own, e->batch)) /* full: somebody is on his way */
		(void)send(e->put_fds[SINK_COLLECTOR], "", 1,
		    MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* While there is no exporter: what it has not taken waits for the next one. */
static void
save_queue(struct export *e, const struct export_queue *q)
{
	struct ring *rest = ring_map(q->fds[SINK_COLLECTOR]);
	unsigned most = RING_SLOTS_MAX;
	struct span s;

	if (rest == NULL)
		return;
	ring_take_over(rest);
	while (most-- > 0 && ring_take(rest, &s))
		put_own(e, &s);
	ring_unmap(rest);
}

/* The broker puts no more into it, and we put this beside it. */
static void
close_queue(struct export *e, struct export_queue *q, const struct span *s)
{
	struct collector *c = &e->collector;
	const struct ring *ring = q->rings[SINK_COLLECTOR];

	c->put += c->gone ? ring_taken(ring) : ring_count(ring);
	c->queue_full += ring_dropped(ring);
	if (c->gone)
		save_queue(e, q);
	if (s != NULL)
		put_own(e, s);
	TAILQ_REMOVE(&c->queues, q, next);
	q->listed = false;
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
export_queue_clear(struct export *e, struct export_queue *q)
{
	size_t i;

	if (q->listed) { /* nobody has put anything */
		TAILQ_REMOVE(&e->collector.queues, q, next);
		tell(e, EXPORTER_DONE, q->id, 0);
	}
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
	fds[SINK_COLLECTOR] = (struct pollfd){ e->collector.gone
		? e->collector.again_fd
		: e->collector.channel_fd, POLLIN, 0 };
	fds[SINK_FILE] = (struct pollfd){
		e->wanted[SINK_FILE] ? e->wake_fds[SINK_FILE] : -1, POLLIN, 0 };
	fds[TRACER_SINKS] = (struct pollfd){ e->timer_fd, POLLIN, 0 };
}

/* It has said something, or is gone and may be started again. */
static void
step_collector(struct export *e)
{
	struct collector *c = &e->collector;
	const char *what;
	uint64_t n;

	if (!c->gone) {
		hear_collector(e);
		if (!c->gone)
			return;
		lose_collector(c);
		count_drops(e, 0);
		start_later(c);
		log_line(e->log, LOG_LEVEL_ERROR,
		    "the exporter is gone; it is started again in %u s",
		    c->again_ms / 1000);
	} else if (read(c->again_fd, &n, sizeof(n)) == (ssize_t)sizeof(n) &&
	    start_collector(e, &what) == -1) {
		c->gone = true;
		start_later(c);
		log_line(e->log, LOG_LEVEL_ERROR,
		    "%s: %s; the exporter is started again in %u s", what,
		    strerror(errno), c->again_ms / 1000);
	}
}

void
export_step(struct export *e, const struct pollfd fds[EXPORT_POLLFDS])
{
	char drain[4096];
	uint64_t n;

	if (fds[SINK_COLLECTOR].revents != 0)
		step_collector(e);
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
	struct pollfd room = { c->channel_fd, POLLOUT, 0 };
	struct exporter_state n;
	unsigned ms;

	if (c->own == NULL)
		return;
	ms = c->timeout_ms < FLUSH_MS ? c->timeout_ms : FLUSH_MS;
	if (!c->gone) {
		/* One that has not read for so long never will. */
		poll(&room, 1, GRACE_MS);
		tell(e, EXPORTER_END, 0, ms);
		wait_for_collector(e, stop_fd,
		    clock_boot() + (ms + GRACE_MS) * CLOCK_MS);
	}
	c->put += ring_count(c->own);
	c->queue_full += ring_dropped(c->own);
	forget_collector(c);
	/* What nobody has spoken of is lost. */
	n = spans_of(c);
	if (sum_of(&n) < c->put)
		c->before.shutdown += c->put - sum_of(&n);
	n = spans_of(c);
	n.queue_full += c->queue_full;
	if (sum_of(&n) > n.sent)
		log_line(e->log, LOG_LEVEL_WARN,
		    "traces: %llu spans were sent and some dropped: queue_full "
		    "%llu, rejected %llu, failed %llu, shutdown %llu",
		    (unsigned long long)n.sent,
		    (unsigned long long)n.queue_full,
		    (unsigned long long)n.rejected,
		    (unsigned long long)n.failed,
		    (unsigned long long)n.shutdown);
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
