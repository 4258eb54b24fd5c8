/*
 * The supervisor's half of an invocation. It reads nothing that a skill wrote;
 * from its broker it takes fixed-size fields that match their patterns. It
 * outlives the broker and has the books closed whatever happened to it. A
 * broker that was taken over cannot make it wait: its messages are few at a
 * time, its jobs one at a time, and what it does not read is not waited for.
 */

#include "supervisor/invocation.h"

#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/clock.h"
#include "audit/json.h"
#include "audit/stray.h"
#include "broker/socket.h"
#include "enforce/hex.h"
#include "enforce/manifest.h"

#define LOAD_MS 60000 /* for a broker to say what the skill is */
#define BACKSTOP (5 * CLOCK_SECOND) /* a broker that overstays T by this */
#define CALLER_GRACE_MS 10000	    /* between the caller's SIGTERM and SIGKILL */
#define MESSAGES_A_TURN 16
#define MARK_EVERY (CLOCK_SECOND / 2) /* at most; audit_mark_seconds is more */
#define MESSAGES_LEFT 1024 /* more than the socket of a dead broker holds */

static void
say(const struct invocation *inv, enum log_level level, const char *what)
{
	log_line(&inv->job.log, level, "%s: %s", what, strerror(errno));
}

void
invocation_give_up(struct invocation *inv, const char *fmt, ...)
{
	struct broker_result *res = &inv->result;
	va_list ap;

	memset(res, 0, sizeof(*res));
	res->outcome = BROKER_REFUSED;
	res->exit_status = EXIT_RUN_BROKER;
	res->exit_code = -1;
	strlcpy(res->by, "supervisor", sizeof(res->by));
	va_start(ap, fmt);
	vsnprintf(res->error_message, sizeof(res->error_message), fmt, ap);
	va_end(ap);
	log_line(&inv->job.log, LOG_LEVEL_ERROR, "%s", res->error_message);
}

void
invocation_init(struct invocation *inv, const struct supervisor *sup)
{
	inv->sup = sup;
	broker_job_init(&inv->job);
	inv->job.log = sup->log;
	inv->part_fd = inv->slot_fd = -1;
	ready_init(&inv->broker);
	export_queue_init(&inv->queue);
	strlcpy(inv->job.tenant, INVOCATION_NIL_TENANT,
	    sizeof(inv->job.tenant));
}

int
invocation_find(struct invocation *inv, const char *skill)
{
	inv->job.skill_dir = skill;
	if (strchr(skill, '/') != NULL)
		return 0;
	if (skill[0] == '\0' || strcmp(skill, ".") == 0 ||
	    strcmp(skill, "..") == 0)
		return -1;
	inv->job.skill_id = skill;
	snprintf(inv->skill_dir, sizeof(inv->skill_dir), "%.3000s/%.1000s",
	    inv->sup->settings.policy.skills, skill);
	inv->job.skill_dir = inv->skill_dir;
	return 0;
}

int
invocation_trace(struct invocation *inv, const char *traceparent)
{
	if (traceparent != NULL) {
		if (trace_parse(traceparent, strlen(traceparent),
			&inv->job.trace)) {
			inv->given = true;
			return 0;
		}
		log_line(&inv->job.log, LOG_LEVEL_WARN,
		    "the given traceparent is invalid; a new trace begins");
	}
	return trace_new(&inv->job.trace);
}

/* --- before the fork --- */

/* An id is used once per store and day, the day before included. */
static bool
id_is_fresh(const struct invocation *inv)
{
	const struct store *store = &inv->sup->store;
	char before[CLOCK_DAY_SIZE];

	clock_day(clock_wall() - 86400 * CLOCK_SECOND, before);
	return store_segment_exists(store, before, inv->job.invocation) == 0 &&
	    store_segment_exists(store, inv->day, inv->job.invocation) == 0;
}

/* max_invocations: whoever is refused takes nobody's place. */
static int
take_slot(struct invocation *inv)
{
	inv->slot_fd = store_slot(&inv->sup->store,
	    inv->sup->settings.policy.max_invocations);
	if (inv->slot_fd != -1)
		return 0;
	if (errno != EAGAIN) {
		invocation_give_up(inv, "store: run: %s", strerror(errno));
		return -1;
	}
	strlcpy(inv->job.refuse, "max_invocations are running already",
	    sizeof(inv->job.refuse));
	return 0;
}

/*
 * The kernel tells an error once for each opening of a file, and only to those
 * that were there: so the supervisor has one of its own, from before the broker
 * writes, and takes nothing from it.
 */
static void
hold_part(struct invocation *inv, unsigned part)
{
	char name[STORE_SEGMENT_NAME];

	if (inv->part_fd != -1)
		close(inv->part_fd);
	store_segment_path(inv->day, inv->job.invocation, part, name);
	inv->part_fd = store_ledger_file(&inv->sup->store, name);
}

/* Where the file system and our rights allow it; the anchor says if it holds. */
static bool
make_append_only(const struct invocation *inv)
{
	return inv->sup->settings.policy.audit_append_only &&
	    store_append_only(inv->job.segment_fd, true);
}

static int
create_segment(struct invocation *inv)
{
	char name[STORE_SEGMENT_NAME];
	int day_fd = store_day(&inv->sup->store, inv->day, 1);

	if (day_fd == -1) {
		invocation_give_up(inv, "ledger: %s", strerror(errno));
		return -1;
	}
	inv->job.segment_fd =
	    store_segment(day_fd, inv->job.invocation, 1, name);
	if (inv->job.segment_fd == -1)
		invocation_give_up(inv, "ledger: segment: %s",
		    strerror(errno));
	close(day_fd);
	if (inv->job.segment_fd == -1)
		return -1;
	/* With its day: an anchor after midnight stands in another one. */
	snprintf(inv->segment, sizeof(inv->segment), "%s/%.68s", inv->day,
	    name);
	inv->append_only = make_append_only(inv);
	hold_part(inv, 1);
	return 0;
}

/* The file for notes of files in the making, with our own in front. */
static int
open_stray(struct invocation *inv)
{
	struct broker_job *job = &inv->job;
	char dir[PATH_MAX], real[PATH_MAX], *slash;
	size_t i;

	job->stray_fd = store_run_file(&inv->sup->store, job->invocation,
	    "stray");
	inv->made_stray = job->stray_fd != -1;
	for (i = 0; i < sizeof(inv->unfinished) / sizeof(inv->unfinished[0]) &&
	    job->stray_fd != -1 && inv->unfinished[i] != NULL;
	     i++) {
		strlcpy(dir, inv->unfinished[i], sizeof(dir));
		slash = strrchr(dir, '/');
		*slash = '\0';
		if (realpath(dir[0] == '\0' ? "/" : dir, real) == NULL)
			return -1;
		job->stray_len = stray_note(job->stray_fd, job->stray_len,
		    getpid(), real, slash + 1);
		if (job->stray_len == -1)
			return -1;
	}
	return job->stray_fd == -1 ? -1 : 0;
}

/* May it be, in this store? Nothing is made yet that is its own. */
static int
admit(struct invocation *inv)
{
	const struct store *store = &inv->sup->store;
	struct broker_job *job = &inv->job;

	job->memory_fd = store_memory(store, job->tenant);
	if (job->memory_fd == -1 || fstat(store->root_fd, &job->store) == -1) {
		invocation_give_up(inv, "store: memory: %s", strerror(errno));
		return -1;
	}
	if (anchor_day(store, inv->day) == -1) {
		invocation_give_up(inv, "store: audit: %s", strerror(errno));
		return -1;
	}
	if (!id_is_fresh(inv)) {
		invocation_give_up(inv,
		    "this invocation id has been used in this store");
		return -1;
	}
	return take_slot(inv);
}

static int
create_files(struct invocation *inv)
{
	const struct store *store = &inv->sup->store;
	struct broker_job *job = &inv->job;

	/* Before there is anything that could be thought abandoned. */
	job->lock_fd = store_run_lock(store, job->invocation);
	if (job->lock_fd != -1)
		job->status_fd =
		    store_run_file(store, job->invocation, "status");
	inv->made_status = job->status_fd != -1;
	if (!inv->made_status || open_stray(inv) == -1) {
		invocation_give_up(inv, "store: run: %s", strerror(errno));
		return -1;
	}
	return create_segment(inv);
}

/* The page is the broker's, as is the memory. The lock is held by both of us:
 * until the books are closed nobody else may think that they were left open. */
static void
close_brokers(struct invocation *inv)
{
	int *const fds[] = { &inv->job.memory_fd, &inv->job.status_fd,
		&inv->job.stray_fd, &inv->job.segment_fd };
	size_t i;

	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] != -1)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

/* One that is ready, unless it has died meanwhile, or a new one. */
static int
give_job(struct invocation *inv)
{
	struct broker_job *job = &inv->job;
	/* Whole: the broker is forked with it, and has no old stack of ours. */
	struct ready own = { .pid = -1 };

	if (inv->ready != NULL && inv->ready->pid != -1 &&
	    ready_give(inv->ready, job, &inv->broker) == 0)
		return 0;
	if (ready_start(&own, inv->sup, job->invocation, false) == -1)
		return -1;
	return ready_give(&own, job, &inv->broker);
}

static void
done(struct invocation *inv)
{
	inv->state = INVOCATION_DONE;
	export_queue_end(inv->sup->export, &inv->queue, &inv->job, inv->id,
	    inv->version, &inv->result, inv->begun);
}

/* Nothing ran; a broker that waits for its files goes without them. */
static int
start_failed(struct invocation *inv)
{
	close_brokers(inv);
	ready_end(&inv->broker, 0);
	done(inv);
	return -1;
}

/* Whatever the broker does, in so many milliseconds and a little it is gone. */
static void
arm_backstop(struct invocation *inv, int64_t total_ms)
{
	int64_t at = clock_boot() + total_ms * CLOCK_MS + BACKSTOP;

	if (inv->backstop == 0 || at < inv->backstop)
		inv->backstop = at;
}

int
invocation_start(struct invocation *inv)
{
	inv->begun = clock_boot();
	export_queue_begin(inv->sup->export, &inv->queue, &inv->job,
	    inv->given);
	if (admit(inv) == -1)
		return start_failed(inv);
	/* It reads the skill while we make its files. */
	if (give_job(inv) == -1) {
		invocation_give_up(inv, "start: %s", strerror(errno));
		return start_failed(inv);
	}
	if (create_files(inv) == -1)
		return start_failed(inv);
	/* Of one that has died already its pidfd will tell. */
	if (broker_files_send(inv->broker.control_fd, &inv->job) == -1 &&
	    errno != EPIPE && errno != ECONNRESET) {
		invocation_give_up(inv, "start: %s", strerror(errno));
		return start_failed(inv);
	}
	close_brokers(inv);
	inv->state = INVOCATION_RUNNING;
	arm_backstop(inv, LOAD_MS);
	return 0;
}

/* --- while it runs --- */

int64_t
invocation_due(const struct invocation *inv)
{
	return inv->state == INVOCATION_RUNNING ? inv->backstop : 0;
}

static void
kill_broker(const struct invocation *inv)
{
	syscall(SYS_pidfd_send_signal, inv->broker.pidfd, SIGKILL, NULL, 0);
}

void
invocation_overdue(struct invocation *inv)
{
	inv->backstop = 0;
	/* One that has said all waits for the kernel alone. */
	if (!inv->have_result)
		log_line(&inv->job.log, LOG_LEVEL_ERROR,
		    "the broker overstayed its time and is killed");
	kill_broker(inv);
}

/* A broker whose socket is full does not read: it is stuck, or wants us to be. */
static void
tell(struct invocation *inv, struct broker_message *m, int fd)
{
	if (broker_send_fd(inv->broker.control_fd, m, fd) == 0 || errno != EAGAIN)
		return;
	log_line(&inv->job.log, LOG_LEVEL_ERROR,
	    "the broker does not listen and is killed");
	kill_broker(inv);
}

void
invocation_terminate(struct invocation *inv, int signal)
{
	struct broker_message m;

	if (inv->state != INVOCATION_RUNNING)
		return;
	memset(&m, 0, sizeof(m));
	m.type = inv->terminated++ == 0 ? BROKER_TERMINATE : BROKER_KILL;
	if (inv->terminated == 1)
		inv->signal = signal;
	m.result.signal = inv->signal;
	tell(inv, &m, -1);
	/* The broker answers unless it is stuck. */
	arm_backstop(inv, m.type == BROKER_TERMINATE ? CALLER_GRACE_MS : 0);
}

void
invocation_kill(struct invocation *inv, int signal)
{
	if (inv->terminated == 0) {
		inv->terminated = 1;
		inv->signal = signal;
	}
	invocation_terminate(inv, signal);
}

static void
submit(struct invocation *inv, struct clerk_job *j)
{
	strlcpy(j->invocation, inv->job.invocation, sizeof(j->invocation));
	strlcpy(j->day, inv->day, sizeof(j->day));
	strlcpy(j->segment, inv->segment, sizeof(j->segment));
	j->append_only = inv->append_only;
	strlcpy(j->skill_id, inv->id, sizeof(j->skill_id));
	strlcpy(j->version, inv->version, sizeof(j->version));
	strlcpy(j->frontmatter_hash, inv->frontmatter_hash,
	    sizeof(j->frontmatter_hash));
	strlcpy(j->files_sha256, inv->files_sha256, sizeof(j->files_sha256));
	strlcpy(j->trace_id, inv->job.trace.trace_id, sizeof(j->trace_id));
	j->opened = inv->opened;
	j->parts.n = inv->parts.n;
	memcpy(j->parts.start, inv->parts.start,
	    inv->parts.n * sizeof(inv->parts.start[0]));
	inv->busy = true;
	inv->task = j->task;
	inv->submit(inv, j);
}

static void
submit_task(struct invocation *inv, enum clerk_task task, uint64_t seq,
    const char *head)
{
	struct clerk_job j;

	memset(&j, 0, offsetof(struct clerk_job, parts));
	j.task = task;
	j.seq = seq;
	strlcpy(j.head, head, sizeof(j.head));
	submit(inv, &j);
}

static void
open_books(struct invocation *inv)
{
	inv->loaded = true;
	submit_task(inv, CLERK_OPEN, 0, "");
}

/* What the skill is, as the broker says. */
static void
note_skill(struct invocation *inv, const struct broker_message *m)
{
	if (manifest_is_id(m->id))
		strlcpy(inv->id, m->id, sizeof(inv->id));
	if (manifest_is_version(m->version))
		strlcpy(inv->version, m->version, sizeof(inv->version));
	if (hex_is(m->head, 32))
		strlcpy(inv->frontmatter_hash, m->head,
		    sizeof(inv->frontmatter_hash));
	/* Before main runs; what it is counted under changes no more. */
	if (hex_is(m->files, 32))
		strlcpy(inv->files_sha256, m->files,
		    sizeof(inv->files_sha256));
}

static void
on_loaded(struct invocation *inv, const struct broker_message *m)
{
	int64_t most;

	if (inv->loaded)
		return;
	note_skill(inv, m);
	/* Its word is taken as far as the operator lets anybody run. */
	most = (int64_t)inv->sup->settings.policy.max_effort_minutes * 60000;
	if (inv->terminated == 0)
		inv->backstop = 0;
	arm_backstop(inv,
	    m->total_ms > 0 && m->total_ms < most ? m->total_ms : most);
	open_books(inv);
}

/* A message that says nothing else. */
static void
tell_type(struct invocation *inv, enum broker_message_type type, int fd)
{
	struct broker_message m;

	memset(&m, 0, sizeof(m));
	m.type = type;
	tell(inv, &m, fd);
}

static void
after_open(struct invocation *inv, const struct clerk_answer *a)
{
	struct broker_message m;

	if (a->error != 0) {
		invocation_give_up(inv,
		    "the ledger of this host cannot be written: %s",
		    strerror(a->error));
		kill_broker(inv);
		return;
	}
	inv->opened = a->anchor;
	inv->anchored = true;
	inv->parts.n = 1;
	inv->parts.start[0] = 1;
	memset(&m, 0, sizeof(m));
	m.type = BROKER_OPENED;
	strlcpy(m.head, inv->opened.hash, sizeof(m.head));
	if (a->held)
		strlcpy(m.result.error_message,
		    "this version of the skill is quarantined, since it tried "
		    "to escape; see cyberos skill broker quarantine list",
		    sizeof(m.result.error_message));
	tell(inv, &m, -1);
	if (inv->state != INVOCATION_RUNNING)
		return;
	if (inv->sup->settings.policy.audit_sync == POLICY_SYNC_NONE) {
		tell_type(inv, BROKER_DURABLE, -1);
	} else {
		submit_task(inv, CLERK_SYNC, 0, "");
	}
}

static void
after_sync(struct invocation *inv, const struct clerk_answer *a)
{
	/* With "row" nothing is answered that is not on disk. */
	if (a->error != 0 &&
	    inv->sup->settings.policy.audit_sync == POLICY_SYNC_ROW) {
		kill_broker(inv);
		return;
	}
	tell_type(inv, BROKER_DURABLE, -1);
}

static void
on_attempts(struct invocation *inv, const struct broker_message *m)
{
	if (!inv->anchored || inv->files_sha256[0] == '\0' ||
	    m->seq <= inv->attempts)
		return;
	inv->attempts = m->seq;
	submit_task(inv, CLERK_ATTEMPTS, m->seq, "");
}

static void
on_mark(struct invocation *inv, const struct broker_message *m)
{
	/* A broker may not fill the host's ledger; a mark may be missing. */
	if (!inv->anchored || !hex_is(m->head, 32) || m->seq <= inv->marked.seq ||
	    clock_boot() < inv->mark_at)
		return;
	inv->mark_at = clock_boot() + MARK_EVERY;
	inv->marked.seq = m->seq;
	strlcpy(inv->marked.head, m->head, sizeof(inv->marked.head));
	submit_task(inv, CLERK_MARK, m->seq, m->head);
}

static void
tell_part(struct invocation *inv, int fd)
{
	if (fd == -1)
		log_line(&inv->job.log, LOG_LEVEL_ERROR,
		    "ledger: there is no new part");
	else
		log_line(&inv->job.log, LOG_LEVEL_WARN,
		    "ledger: part %u is begun", inv->parts.n);
	tell_type(inv, BROKER_PART, fd);
}

/* The part that the broker has fails: another file, and its anchor. */
static void
on_want_part(struct invocation *inv, const struct broker_message *m)
{
	/* It begins where the one before it did, or later. */
	if (!inv->anchored || inv->parts.n == 0 ||
	    m->seq < inv->parts.start[inv->parts.n - 1] || !hex_is(m->head, 32)) {
		tell_part(inv, -1);
		return;
	}
	submit_task(inv, CLERK_PART, m->seq, m->head);
}

static void
after_part(struct invocation *inv, const struct clerk_answer *a, int fd)
{
	if (a->parts > inv->parts.n && a->parts <= BOOKS_PARTS_MAX) {
		inv->parts.n = a->parts;
		inv->parts.start[a->parts - 1] = a->start;
	}
	if (fd != -1)
		hold_part(inv, inv->parts.n);
	tell_part(inv, fd);
}

static void
on_want_spool(struct invocation *inv)
{
	int fd = store_spool(&inv->sup->store,
	    inv->sup->settings.policy.spool, inv->job.invocation, true);

	if (fd == -1)
		say(inv, LOG_LEVEL_ERROR, "ledger: spool");
	tell_type(inv, BROKER_SPOOL, fd);
	if (fd != -1)
		close(fd);
}

static bool
needs_job(enum broker_message_type type)
{
	return type == BROKER_LOADED || type == BROKER_ATTEMPTS ||
	    type == BROKER_MARK ||
	    type == BROKER_WANT_PART;
}

static void
on_message(struct invocation *inv, const struct broker_message *m)
{
	switch (m->type) {
	case BROKER_LOADED:
		on_loaded(inv, m);
		break;
	case BROKER_SOCKET:
		inv->socket_dev = m->dev;
		inv->socket_ino = m->ino;
		break;
	case BROKER_STARTED:
		inv->started = true;
		inv->result.sandboxed = m->result.sandboxed;
		memcpy(inv->result.layers, m->result.layers,
		    sizeof(inv->result.layers));
		break;
	case BROKER_ATTEMPTS:
		on_attempts(inv, m);
		break;
	case BROKER_MARK:
		on_mark(inv, m);
		break;
	case BROKER_WANT_PART:
		on_want_part(inv, m);
		break;
	case BROKER_WANT_SPOOL:
		on_want_spool(inv);
		break;
	case BROKER_RESULT:
		inv->result = m->result;
		inv->have_result = true;
		arm_backstop(inv, 0); /* it has nothing more to do */
		break;
	case BROKER_OPENED:
	case BROKER_DURABLE:
	case BROKER_PART:
	case BROKER_SPOOL:
	case BROKER_TERMINATE:
	case BROKER_KILL:
		break; /* never from a broker */
	}
}

/* One message, if there is one; false: not now, or no more. */
static bool
take_message(struct invocation *inv, struct broker_message *m)
{
	int passed;

	if (broker_receive(inv->broker.control_fd, m, false, &passed) == -1) {
		/* Its end is seen by its pidfd. */
		inv->silent = inv->silent || errno == EPIPE;
		return false;
	}
	if (passed != -1)
		close(passed); /* a broker has nothing to give */
	return true;
}

int
invocation_control(const struct invocation *inv)
{
	return inv->state == INVOCATION_RUNNING && !inv->silent && !inv->holding
	    ? inv->broker.control_fd
	    : -1;
}

void
invocation_heard(struct invocation *inv)
{
	struct broker_message m;
	int n;

	for (n = 0; n < MESSAGES_A_TURN && !inv->holding; n++) {
		if (inv->silent || !take_message(inv, &m))
			break;
		if (inv->busy && needs_job(m.type)) {
			inv->held = m;
			inv->holding = true;
		} else {
			on_message(inv, &m);
		}
	}
}

/* --- afterwards --- */

static void
broker_died(struct invocation *inv)
{
	struct broker_result *res = &inv->result;

	if (!inv->anchored) { /* after_open has said why, or it came to nothing */
		if (res->error_message[0] == '\0')
			invocation_give_up(inv,
			    "the broker died before the start");
		return;
	}
	res->outcome = BROKER_PANIC;
	res->exit_status = EXIT_RUN_BROKER;
	res->exit_code = -1;
	res->duration_ms = (clock_boot() - inv->begun) / CLOCK_MS;
	strlcpy(res->by, "supervisor", sizeof(res->by));
	strlcpy(res->error_message, "the broker died",
	    sizeof(res->error_message));
	log_line(&inv->job.log, LOG_LEVEL_ERROR, "the broker died");
}

static void
close_books(struct invocation *inv)
{
	const struct broker_result *res = &inv->result;
	struct clerk_job j;

	if (!inv->have_result)
		broker_died(inv);
	/* An empty file is sweep's to remove; what is not known, to look at. */
	if (inv->unsure) {
		done(inv);
		return;
	}
	memset(&j, 0, offsetof(struct clerk_job, parts));
	j.task = inv->anchored ? CLERK_CLOSE : CLERK_FOLD;
	j.have_result = inv->have_result;
	j.outcome = res->outcome;
	j.duration_ms = res->duration_ms;
	j.lost = res->lost;
	if (inv->marked.head[0] != '\0') {
		j.seq = inv->marked.seq;
		strlcpy(j.head, inv->marked.head, sizeof(j.head));
	}
	j.stray_from = inv->job.stray_len;
	strlcpy(j.error_message, res->error_message, sizeof(j.error_message));
	submit(inv, &j);
}

static void
after_close(struct invocation *inv, const struct clerk_answer *a)
{
	inv->folded = a->folded;
	inv->tidy = a->tidy;
	if (!inv->have_result) {
		inv->result.calls = a->calls;
		inv->result.denied = a->denied;
		if (a->read)
			export_queue_settle(&inv->queue, a->last);
	}
	if (a->closed) {
		inv->closed = a->anchor;
		inv->result.rows = a->rows;
		strlcpy(inv->head, a->head, sizeof(inv->head));
	}
	done(inv);
}

void
invocation_broker_gone(struct invocation *inv)
{
	struct broker_message m;
	siginfo_t info;
	int n;

	memset(&info, 0, sizeof(info));
	/* A readable pidfd is a hint; this decides. */
	while (waitid(P_PIDFD, (id_t)inv->broker.pidfd, &info,
		   WEXITED | WNOHANG) == -1 &&
	    errno == EINTR)
		;
	if (info.si_pid == 0)
		return;
	inv->state = INVOCATION_ENDING;
	/* Its last words; what needs a job comes too late. */
	for (n = 0; n < MESSAGES_LEFT && take_message(inv, &m); n++) {
		if (!needs_job(m.type))
			on_message(inv, &m);
		else if (m.type == BROKER_LOADED && !inv->loaded)
			note_skill(inv, &m);
	}
	inv->holding = false;
	socket_sweep(inv->sup->socket_dir, inv->job.invocation,
	    inv->socket_dev, inv->socket_ino, false);
	cgroup_remove(&inv->broker.cgroup);
	if (inv->busy)
		return;
	/* What died before it said what the skill is has its rows, too. */
	if (!inv->loaded && !inv->unsure)
		open_books(inv);
	else
		close_books(inv);
}

static void
after(struct invocation *inv, const struct clerk_answer *a, int new_fd)
{
	switch (a->task) {
	case CLERK_OPEN:
		after_open(inv, a);
		break;
	case CLERK_SYNC:
		after_sync(inv, a);
		break;
	case CLERK_ATTEMPTS: /* what is missing is found when it closes */
		if (a->held)
			inv->attempts = UINT64_MAX;
		break;
	case CLERK_MARK:
		if (a->error != 0)
			inv->marked.head[0] = '\0';
		break;
	case CLERK_PART:
		after_part(inv, a, new_fd);
		break;
	case CLERK_CLOSE:
		after_close(inv, a);
		break;
	case CLERK_FOLD:
		inv->folded = a->folded;
		inv->tidy = a->tidy;
		done(inv);
		break;
	}
}

/* A mark or a sync can be missing. The rest is recovery's to find. */
static void
after_nobody(struct invocation *inv)
{
	struct clerk_answer a = { .task = inv->task, .error = EIO };

	if (inv->task == CLERK_MARK || inv->task == CLERK_SYNC ||
	    inv->task == CLERK_ATTEMPTS) {
		after(inv, &a, -1);
		return;
	}
	inv->unsure = true;
	if (inv->state == INVOCATION_RUNNING)
		kill_broker(inv);
	else if (inv->task == CLERK_CLOSE || inv->task == CLERK_FOLD)
		done(inv);
}

void
invocation_answer(struct invocation *inv, const struct clerk_answer *a,
    int new_fd)
{
	inv->busy = false;
	if (a != NULL)
		after(inv, a, new_fd);
	else
		after_nobody(inv);
	if (new_fd != -1)
		close(new_fd);
	if (inv->busy)
		return;
	if (inv->state == INVOCATION_ENDING) {
		close_books(inv);
	} else if (inv->holding) {
		inv->holding = false;
		on_message(inv, &inv->held);
	}
}

/* --- what came of it --- */

static const char *
or_null(const char *s)
{
	return s[0] == '\0' ? NULL : s;
}

static void
member_text(struct buf *b, const char *name, const char *value)
{
	buf_printf(b, ",\"%s\":", name);
	if (value == NULL)
		buf_puts(b, "null");
	else
		json_put_string(b, value, strlen(value));
}

static void
member_int(struct buf *b, const char *name, int64_t n, bool null)
{
	buf_printf(b, ",\"%s\":", name);
	if (null)
		buf_puts(b, "null");
	else
		buf_put_int(b, n);
}

void
invocation_put_result(const struct invocation *inv, struct buf *b)
{
	const struct broker_result *res = &inv->result;

	buf_printf(b, "\"invocation_id\":\"%s\"", inv->job.invocation);
	member_text(b, "skill_id", or_null(inv->id));
	member_text(b, "version", or_null(inv->version));
	member_text(b, "outcome", broker_outcome_word(res->outcome));
	member_int(b, "exit_status", res->exit_status, false);
	member_int(b, "exit_code", res->exit_code, res->exit_code < 0);
	member_int(b, "signal", res->signal, res->signal == 0);
	member_int(b, "duration_ms", res->duration_ms, false);
	member_int(b, "calls", (int64_t)res->calls, false);
	member_int(b, "denied", (int64_t)res->denied, false);
	member_int(b, "rejected", (int64_t)res->rejected, false);
	buf_puts(b, ",\"sandbox\":");
	if (res->sandboxed)
		broker_layers(res, b);
	else
		buf_puts(b, "null");
	member_text(b, "error_message", or_null(res->error_message));
	member_text(b, "by", or_null(res->by));
	member_text(b, "segment", inv->anchored ? inv->segment : NULL);
	member_text(b, "head", or_null(inv->head));
	member_int(b, "hseq", (int64_t)inv->closed.hseq,
	    inv->closed.hseq == 0);
	member_text(b, "host_head", or_null(inv->closed.hash));
}

void
invocation_put_socket(const struct invocation *inv, struct buf *b)
{
	char path[PATH_MAX + 128];

	snprintf(path, sizeof(path),
	    "%s/" BROKER_SOCKET_PREFIX "%.36s" BROKER_SOCKET_SUFFIX,
	    inv->sup->socket_dir, inv->job.invocation);
	json_put_string(b, path, strlen(path));
}

void
invocation_clear(struct invocation *inv)
{
	const struct store *store = &inv->sup->store;
	int *const fds[] = { &inv->part_fd, &inv->broker.control_fd,
		&inv->broker.pidfd, &inv->job.lock_fd };
	size_t i;

	/* Nothing ran and nothing was counted, or it is gone already. */
	if (inv->made_status && inv->broker.pid <= 0)
		store_run_unlink(store, inv->job.invocation, "status");
	if (inv->made_stray && (inv->tidy || inv->broker.pid <= 0))
		store_run_unlink(store, inv->job.invocation, "stray");
	/* Open books, counts that are not in the metrics and what was left in
	 * the making are found by it. */
	if (inv->job.lock_fd != -1 && !inv->unsure &&
	    ((inv->folded && inv->tidy) || inv->broker.pid <= 0))
		store_run_unlink(store, inv->job.invocation, "lock");
	/* A broker that is being forked may have a copy for a moment. */
	if (inv->job.lock_fd != -1)
		flock(inv->job.lock_fd, LOCK_UN);
	store_slot_free(inv->slot_fd);
	inv->slot_fd = -1;
	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] != -1)
			close(*fds[i]);
		*fds[i] = -1;
	}
	export_queue_clear(inv->sup->export, &inv->queue);
}
