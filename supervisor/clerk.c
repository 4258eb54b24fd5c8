/*
 * What a supervisor does in the ledger for one of its invocations. Nothing is
 * taken over from a broker but ids and hashes that match their patterns and
 * numbers; what the last anchor says of a segment is read from the segment.
 */

#include "supervisor/clerk.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/clock.h"
#include "audit/hostpage.h"
#include "audit/stray.h"
#include "audit/quarantine.h"
#include "enforce/fdpass.h"
#include "enforce/spawn.h"
#include "supervisor/invocation.h"

#define HIRE_EVERY (CLOCK_SECOND / 2) /* a clerk that dies is replaced */

_Static_assert(sizeof(struct clerk_job) < 64 * 1024, "one message");

struct clerk_waiting {
	struct clerk_waiting *next;
	struct invocation *inv;
	size_t len;
	struct clerk_job job; /* as much of it as len says */
};

struct clerk {
	const struct supervisor *sup;
	const struct clerk_job *job;
	struct clerk_answer *answer;
	struct log log;
	bool sync; /* the operator wants things on disk */
	int part_fd;
	struct tally rows; /* what they say, once they have been read again */
};

static int
fail(struct clerk *c, const char *what)
{
	c->answer->error = errno == 0 ? EIO : errno;
	log_line(&c->log, LOG_LEVEL_ERROR, "%s: %s", what,
	    strerror(c->answer->error));
	return -1;
}

static const char *
or_null(const char *s)
{
	return s[0] == '\0' ? NULL : s;
}

/* --- the quarantine --- */

/* Whose frontmatter and files are known; else nothing is counted. */
static bool
is_known(const struct clerk *c, struct quarantine_skill *q)
{
	const struct clerk_job *j = c->job;

	if (c->sup->settings.policy.quarantine_after == 0 ||
	    j->files_sha256[0] == '\0' || j->frontmatter_hash[0] == '\0')
		return false;
	memset(q, 0, sizeof(*q));
	strlcpy(q->skill_id, j->skill_id, sizeof(q->skill_id));
	strlcpy(q->version, j->version, sizeof(q->version));
	strlcpy(q->frontmatter_hash, j->frontmatter_hash,
	    sizeof(q->frontmatter_hash));
	strlcpy(q->files_sha256, j->files_sha256, sizeof(q->files_sha256));
	return true;
}

static int
ask_quarantine(struct clerk *c)
{
	struct quarantine_skill q;
	int held = is_known(c, &q)
	    ? quarantine_held(&c->sup->store, c->sup->digest, &q)
	    : 0;

	if (held == -1)
		return fail(c, "quarantine");
	c->answer->held = held == 1;
	return 0;
}

static void
count_attempts(struct clerk *c, uint64_t total)
{
	struct quarantine_skill q;
	bool held;

	if (total == 0 || !is_known(c, &q))
		return;
	if (quarantine_attempts(&c->sup->store, c->sup->digest, &q,
		c->job->invocation, total,
		c->sup->settings.policy.quarantine_after, &held) == -1)
		fail(c, "quarantine");
	c->answer->held = held;
	if (held)
		log_line(&c->log, LOG_LEVEL_ALERT,
		    "this version of the skill is quarantined from now on");
}

/* The rows that are read again know of all, whatever was told before. */
static void
count_again(struct clerk *c)
{
	uint64_t total = 0;
	size_t i;

	for (i = 0; i < TALLY_SYSCALLS; i++)
		total += c->rows.syscalls[i].attempts;
	count_attempts(c, total);
}

/* --- the books --- */

static void
do_open(struct clerk *c)
{
	static const char *const durability[] = { "none", "batch", "row" };
	const struct clerk_job *j = c->job;
	struct row row;

	if (ask_quarantine(c) == -1)
		return;
	row_begin(&row, ROW_SEGMENT_OPENED, NULL, c->sup->digest);
	row_word(&row, "invocation_id", j->invocation);
	row_word(&row, "file", j->segment);
	row_word(&row, "skill_id", or_null(j->skill_id));
	row_word(&row, "version", or_null(j->version));
	row_word(&row, "frontmatter_hash", or_null(j->frontmatter_hash));
	row_word(&row, "durability",
	    durability[c->sup->settings.policy.audit_sync]);
	row_bool(&row, "append_only", j->append_only);
	if (row_end(&row) == -1 ||
	    anchor_append(&c->sup->store, &row, ROW_BY_SUPERVISOR,
		c->sup->digest, &c->answer->anchor) == -1)
		fail(c, "ledger: segment_opened");
	row_clear(&row);
}

/* What the broker started is on disk, directories and all. */
static void
do_sync(struct clerk *c)
{
	int day_fd = store_day(&c->sup->store, c->job->day, 0);

	if (day_fd == -1 ||
	    store_sync_segment(day_fd, c->job->invocation) == -1 ||
	    anchor_sync(&c->sup->store, &c->job->opened) == -1)
		fail(c, "ledger: sync");
	if (day_fd != -1)
		close(day_fd);
}

/* An anchor for what has grown: its end cannot be cut off unseen any more. It
 * never claims what is not on disk. */
static void
do_mark(struct clerk *c)
{
	const struct clerk_job *j = c->job;
	char mark[192];
	struct anchor anchor;
	struct row row;

	if (c->sync && fdatasync(c->part_fd) == -1) {
		fail(c, "ledger: sync");
		return;
	}
	snprintf(mark, sizeof(mark),
	    "[{\"invocation_id\":\"%.36s\",\"seq\":%llu,\"head\":\"%s\"}]",
	    j->invocation, (unsigned long long)j->seq, j->head);
	row_begin(&row, ROW_SEGMENT_MARK, NULL, c->sup->digest);
	row_json(&row, "marks", mark, strlen(mark));
	if (row_end(&row) == -1 ||
	    anchor_append(&c->sup->store, &row, ROW_BY_SUPERVISOR,
		c->sup->digest, &anchor) == -1)
		fail(c, "ledger: segment_mark");
	row_clear(&row);
}

/* The books of this invocation; the caller closes day_fd. */
static int
open_books(struct clerk *c, struct books *b)
{
	const struct clerk_job *j = c->job;

	memset(b, 0, sizeof(*b));
	b->store = &c->sup->store;
	b->digest = c->sup->digest;
	b->by = ROW_BY_SUPERVISOR;
	b->inv = j->invocation;
	b->spool = c->sup->settings.policy.spool;
	b->opened = j->opened.hash;
	b->skill_id = or_null(j->skill_id);
	b->version = or_null(j->version);
	b->trace_id = j->trace_id;
	b->sync = c->sync;
	b->parts.n = j->parts.n;
	memcpy(b->parts.start, j->parts.start,
	    j->parts.n * sizeof(j->parts.start[0]));
	strlcpy(b->day, j->day, sizeof(b->day));
	b->day_fd = store_day(b->store, j->day, 0);
	return b->day_fd == -1 ? -1 : 0;
}

static void
do_part(struct clerk *c, int *new_fd)
{
	const struct clerk_job *j = c->job;
	struct books b;

	if (open_books(c, &b) == -1) {
		fail(c, "ledger: new part");
		return;
	}
	b.walk.seq = j->seq - 1;
	strlcpy(b.walk.head, j->head, sizeof(b.walk.head));
	*new_fd = books_part(&b);
	if (*new_fd == -1)
		fail(c, "ledger: new part");
	/* A part whose sync failed has its anchor all the same. */
	c->answer->parts = b.parts.n;
	c->answer->start = b.parts.start[b.parts.n - 1];
	close(b.day_fd);
}

/* The broker died: its last words are ours, in a new part. */
static int
end_segment(struct clerk *c, struct books *b)
{
	const struct clerk_job *j = c->job;
	struct books_end end = { broker_outcome_word(j->outcome),
		j->duration_ms, j->error_message };

	return books_end(b, &end);
}

static int
close_books(struct clerk *c, struct books *b)
{
	const struct clerk_job *j = c->job;
	bool completed;

	b->tally = &c->rows;
	b->mark.seq = j->seq;
	strlcpy(b->mark.head, j->head, sizeof(b->mark.head));
	if (books_walk(b) == -1)
		return fail(c, "ledger: segment");
	if (!b->walk.damaged && books_merge(b) == -1)
		return fail(c, "ledger: rows stay in the spool until recovery");
	completed = b->walk.completed;
	/* Before we say how it ended: that row is no call. */
	c->answer->calls = b->walk.calls;
	c->answer->denied = b->walk.denied;
	c->answer->read = true;
	c->answer->last = b->walk.seq;
	/* What is not whole, or not on disk, is not closed: recovery's to do. */
	if (!completed && !b->walk.damaged && end_segment(c, b) == -1)
		return fail(c, "ledger: last part");
	if (c->sync && (fdatasync(c->part_fd) == -1 || books_sync(b) == -1))
		return fail(c, "ledger: sync");
	if (books_close(b,
		!j->have_result			  ? "crash"
		    : !completed || j->lost > 0 ? "incomplete"
						: "normal",
		j->lost, &c->answer->anchor) == -1)
		return fail(c, "ledger: segment_closed");
	c->answer->closed = true;
	c->answer->rows = b->walk.rows;
	strlcpy(c->answer->head, b->walk.head, sizeof(c->answer->head));
	return 0;
}

/* A page that cannot be put in stays, and is recovery's to do. */
static void
fold_page(struct clerk *c)
{
	c->answer->folded = hostpage_fold(&c->sup->store, c->job->invocation,
				&c->sup->names.names, &c->rows) == 0;
	if (!c->answer->folded)
		log_line(&c->log, LOG_LEVEL_WARN, "metrics: %s",
		    strerror(errno));
}

/* No row says how it ended, or how many there were. */
static void
do_fold(struct clerk *c)
{
	c->rows.endings[c->job->outcome] = 1;
	c->rows.rows = UINT64_MAX;
	fold_page(c);
}

static void
do_close(struct clerk *c)
{
	const struct store *store = &c->sup->store;
	const struct anchor *a = &c->answer->anchor;
	struct books b;

	if (open_books(c, &b) == -1) {
		fail(c, "ledger: segment");
		return;
	}
	if (close_books(c, &b) == 0) {
		if (b.walk.damaged)
			log_line(&c->log, LOG_LEVEL_ALERT,
			    "ledger: closed as damaged; see cyberos skill "
			    "broker verify");
		count_again(c);
		if (c->sync && anchor_sync(store, a) == -1)
			fail(c, "ledger: sync");
		if (anchor_keep_totals(store, a->day) == -1)
			log_line(&c->log, LOG_LEVEL_WARN, "ledger: totals: %s",
			    strerror(errno));
		if (b.walk.damaged)
			c->rows.rows = UINT64_MAX;
		fold_page(c);
	}
	close(b.day_fd);
}

static void
remove_stray(struct clerk *c)
{
	c->answer->tidy = stray_remove(&c->sup->store, c->job->invocation,
			      c->job->stray_from) == 0;
}

void
clerk_do(const struct supervisor *sup, const struct clerk_job *job,
    int part_fd, struct clerk_answer *answer, int *new_fd)
{
	struct clerk c = { .sup = sup,
		.job = job,
		.answer = answer,
		.log = sup->log,
		.sync = sup->settings.policy.audit_sync != POLICY_SYNC_NONE,
		.part_fd = part_fd };

	memset(answer, 0, sizeof(*answer));
	answer->task = job->task;
	tally_init(&c.rows, &sup->names.names);
	*new_fd = -1;
	strlcpy(c.log.invocation, job->invocation, sizeof(c.log.invocation));
	switch (job->task) {
	case CLERK_OPEN:
		do_open(&c);
		break;
	case CLERK_SYNC:
		do_sync(&c);
		break;
	case CLERK_ATTEMPTS:
		count_attempts(&c, job->seq);
		break;
	case CLERK_MARK:
		do_mark(&c);
		break;
	case CLERK_PART:
		do_part(&c, new_fd);
		break;
	case CLERK_CLOSE:
		do_close(&c);
		remove_stray(&c);
		break;
	case CLERK_FOLD:
		do_fold(&c);
		remove_stray(&c);
		break;
	}
}

/* --- processes of their own --- */

/* What there is of it: the parts that are not there are not sent. */
static size_t
job_len(const struct clerk_job *j)
{
	return offsetof(struct clerk_job, parts.start) +
	    j->parts.n * sizeof(j->parts.start[0]);
}

/* As the supervisor wrote it, or nothing. */
static bool
job_whole(const struct clerk_job *j, ssize_t n)
{
	return n >= (ssize_t)offsetof(struct clerk_job, parts.start) &&
	    j->parts.n <= BOOKS_PARTS_MAX && n == (ssize_t)job_len(j);
}

static void
settle_clerk(const struct supervisor *sup, pid_t parent, int fd)
{
	int keep[] = { 0, 1, 2, fd, sup->store.root_fd, sup->store.audit_fd,
		sup->store.run_fd, sup->log.fd };
	int null_fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_NAME, "cyberos-clerk");
	/* 0 and 1 are the supervisor's channels, and nobody else's. */
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd == -1 || dup2(null_fd, 0) == -1 || dup2(null_fd, 1) == -1 ||
	    spawn_close_others(keep, sizeof(keep) / sizeof(keep[0])) == -1)
		_exit(1);
}

static void __attribute__((noreturn))
work(const struct supervisor *sup, pid_t parent, int fd)
{
	static const struct clerk_answer nothing;
	struct clerk_answer answer;
	struct clerk_job job;
	int part_fd, new_fd;
	ssize_t n;

	settle_clerk(sup, parent, fd);
	for (;;) {
		n = fdpass_receive(fd, &job, sizeof(job), &part_fd, 1, 0);
		if (!job_whole(&job, n))
			_exit(n == 0 ? 0 : 1);
		answer = nothing;
		clerk_do(sup, &job, part_fd, &answer, &new_fd);
		if (fdpass_send(fd, &answer, sizeof(answer), &new_fd,
			new_fd != -1, 0) != (ssize_t)sizeof(answer))
			_exit(1);
		if (part_fd != -1)
			close(part_fd);
		if (new_fd != -1)
			close(new_fd);
	}
}

static int
hire(struct clerks *c, struct clerk_seat *seat)
{
	pid_t parent = getpid();
	int fds[2];

	seat->fd = -1;
	seat->pid = -1;
	c->hired = clock_boot();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == -1)
		return -1;
	seat->pid = fork();
	if (seat->pid == 0)
		work(c->sup, parent, fds[1]);
	close(fds[1]);
	if (seat->pid == -1)
		close(fds[0]);
	else
		seat->fd = fds[0];
	return seat->pid == -1 ? -1 : 0;
}

static void
dismiss(struct clerk_seat *seat)
{
	if (seat->fd == -1)
		return;
	close(seat->fd);
	kill(seat->pid, SIGKILL);
	while (waitpid(seat->pid, NULL, 0) == -1 && errno == EINTR)
		;
	seat->fd = -1;
	seat->pid = -1;
}

int
clerks_start(struct clerks *c, const struct supervisor *sup, size_t n)
{
	memset(c, 0, sizeof(*c));
	c->sup = sup;
	c->last = &c->first;
	for (c->n = 0; c->n < n && c->n < CLERKS_MAX; c->n++) {
		if (hire(c, &c->seat[c->n]) == -1) {
			clerks_stop(c);
			return -1;
		}
	}
	return 0;
}

/* False: it cannot be handed over, so whoever sits there is of no use. */
static bool
hand_over(struct clerk_seat *seat, struct invocation *inv,
    const struct clerk_job *job, size_t len)
{
	if (fdpass_send(seat->fd, job, len, &inv->part_fd,
		inv->part_fd != -1, MSG_DONTWAIT) != (ssize_t)len)
		return false;
	seat->inv = inv;
	return true;
}

static void
put_in_line(struct clerks *c, struct invocation *inv,
    const struct clerk_job *job, size_t len)
{
	struct clerk_waiting *w =
	    calloc(1, offsetof(struct clerk_waiting, job) + len);

	if (w == NULL) {
		invocation_answer(inv, NULL, -1);
		return;
	}
	w->inv = inv;
	w->len = len;
	memcpy(&w->job, job, len);
	*c->last = w;
	c->last = &w->next;
}

/* The first in line for whoever has nothing to do. */
static void
next_job(struct clerks *c, struct clerk_seat *seat)
{
	struct clerk_waiting *w = c->first;

	if (w == NULL || seat->fd == -1 || seat->inv != NULL ||
	    !hand_over(seat, w->inv, &w->job, w->len))
		return;
	c->first = w->next;
	if (c->first == NULL)
		c->last = &c->first;
	free(w);
}

void
clerks_submit(struct clerks *c, struct invocation *inv,
    const struct clerk_job *job)
{
	size_t i, len = job_len(job);
	bool any = false;

	for (i = 0; i < c->n; i++) {
		if (c->seat[i].fd == -1 &&
		    clock_boot() - c->hired >= HIRE_EVERY)
			hire(c, &c->seat[i]);
	}
	for (i = 0; i < c->n && c->first == NULL; i++) {
		if (c->seat[i].fd != -1 && c->seat[i].inv == NULL &&
		    hand_over(&c->seat[i], inv, job, len))
			return;
	}
	for (i = 0; i < c->n; i++)
		any = any || c->seat[i].fd != -1;
	if (any)
		put_in_line(c, inv, job, len);
	else
		invocation_answer(inv, NULL, -1);
}

/* Nobody is left who could do what waits. */
static void
give_up_line(struct clerks *c)
{
	struct clerk_waiting *w;

	while ((w = c->first) != NULL) {
		c->first = w->next;
		if (c->first == NULL)
			c->last = &c->first;
		invocation_answer(w->inv, NULL, -1);
		free(w);
	}
}

/* One that dies is replaced, but not one that dies at once again. */
static void
replace(struct clerks *c, struct clerk_seat *seat)
{
	struct invocation *inv = seat->inv;
	size_t i;

	log_line(&c->sup->log, LOG_LEVEL_ERROR,
	    "a process that keeps the books is gone");
	dismiss(seat);
	seat->inv = NULL;
	if (clock_boot() - c->hired >= HIRE_EVERY)
		hire(c, seat);
	if (inv != NULL)
		invocation_answer(inv, NULL, -1);
	for (i = 0; i < c->n; i++) {
		if (c->seat[i].fd != -1)
			return;
	}
	give_up_line(c);
}

void
clerks_heard(struct clerks *c, size_t i)
{
	struct clerk_seat *seat = &c->seat[i];
	struct invocation *inv = seat->inv;
	struct clerk_answer answer;
	int new_fd;
	ssize_t n;

	n = fdpass_receive(seat->fd, &answer, sizeof(answer), &new_fd, 1,
	    MSG_DONTWAIT);
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof(answer) || inv == NULL) {
		if (new_fd != -1)
			close(new_fd);
		replace(c, seat);
	} else {
		seat->inv = NULL;
		invocation_answer(inv, &answer, new_fd);
	}
	next_job(c, seat);
}

void
clerks_stop(struct clerks *c)
{
	struct clerk_waiting *w;
	size_t i;

	for (i = 0; i < c->n; i++)
		dismiss(&c->seat[i]);
	c->n = 0;
	while ((w = c->first) != NULL) {
		c->first = w->next;
		free(w);
	}
	c->last = &c->first;
}
