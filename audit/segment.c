/*
 * One invocation's chain. A row is made once and its bytes never change; the
 * file takes it now or it waits in a bounded queue, in order. SIGKILL at any
 * moment loses nothing that was acknowledged, since the write happens before
 * the answer; only a torn last line can be left, which readers see as such.
 */

#include "audit/segment.h"

#include <sys/eventfd.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/json.h"
#include "audit/lines.h"

#define SYNC_DELAY_MS 3 /* collect rows before a sync */

struct segment {
	int fd;
	char inv[37];
	uint64_t seq; /* of the next row */
	char head[DIGEST_HEX];
	enum segment_sync sync;
	struct digest *digest;
	struct buf queue; /* bytes the file has not taken yet */
	struct segment_counts counts;
	/* batch mode: the thread and what it shares with us */
	bool threaded;
	pthread_t thread;
	int wake_fd;
	atomic_bool stop;
	atomic_bool dirty; /* rows since the last sync began */
	atomic_int sync_errno;
};

/*
 * The thread knows a descriptor and nothing else. It allocates nothing and
 * takes no lock, so a fork of this process at any moment is safe.
 */
static void *
sync_thread(void *arg)
{
	struct segment *s = arg;
	struct pollfd wake = { s->wake_fd, POLLIN, 0 };
	uint64_t n;
	bool stop;

	do {
		if (read(s->wake_fd, &n, sizeof(n)) == -1 && errno != EINTR)
			break;
		stop = atomic_load(&s->stop);
		/* Only the end writes again before the flag is cleared. */
		if (!stop)
			poll(&wake, 1, SYNC_DELAY_MS);
		atomic_store(&s->dirty, false);
		if (fdatasync(s->fd) == -1)
			atomic_store(&s->sync_errno, errno);
	} while (!stop);
	return NULL;
}

static int
start_thread(struct segment *s)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int error;

	s->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (s->wake_fd == -1)
		return -1;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	error = pthread_create(&s->thread, &attr, sync_thread, s);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (error != 0) {
		errno = error;
		return -1;
	}
	s->threaded = true;
	return 0;
}

/* One wake-up for all rows until the thread has begun its next sync. */
static void
wake_thread(struct segment *s)
{
	const uint64_t one = 1;

	if (atomic_exchange(&s->dirty, true))
		return;
	if (write(s->wake_fd, &one, sizeof(one)) == -1)
		atomic_store(&s->sync_errno, errno);
}

struct segment *
segment_new(int fd, const char *inv, uint64_t seq, const char *prev,
    enum segment_sync sync, struct digest *digest)
{
	struct segment *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->fd = fd;
	s->wake_fd = -1;
	s->seq = seq;
	s->sync = sync;
	s->digest = digest;
	strlcpy(s->inv, inv, sizeof(s->inv));
	strlcpy(s->head, prev, sizeof(s->head));
	buf_init(&s->queue, SEGMENT_QUEUE_MAX);
	if (sync == SEGMENT_SYNC_BATCH && start_thread(s) == -1) {
		if (s->wake_fd != -1)
			close(s->wake_fd);
		free(s);
		return NULL;
	}
	return s;
}

/*
 * The kernel tells of a failed sync once and then forgets the pages, so a
 * later sync that succeeds proves nothing: from the first failure on, no row
 * counts as kept.
 */
static bool
is_durable(struct segment *s)
{
	int error = atomic_load(&s->sync_errno);

	if (error == 0)
		return true;
	errno = error;
	return false;
}

int
segment_flush(struct segment *s)
{
	ssize_t n;

	if (s->queue.len == 0)
		return is_durable(s) ? 0 : -1;
	while (s->queue.len > 0) {
		n = write(s->fd, s->queue.data, s->queue.len);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == 0)
			errno = ENOSPC;
		if (n <= 0)
			return -1;
		buf_consume(&s->queue, (size_t)n);
	}
	if (s->sync == SEGMENT_SYNC_BATCH)
		wake_thread(s);
	else if (s->sync == SEGMENT_SYNC_ROW && fdatasync(s->fd) == -1)
		atomic_store(&s->sync_errno, errno);
	if (!is_durable(s))
		return -1;
	s->counts.waiting = 0;
	return 0;
}

static int
add_line(struct segment *s, const struct row *row, const struct row_place *at,
    char hash[DIGEST_HEX])
{
	size_t before = s->queue.len;
	int result = row_line(row, at, &s->queue, hash);

	s->queue.failed = false;
	if (result == 0)
		s->counts.bytes += s->queue.len - before;
	return result;
}

int
segment_append(
    struct segment *s, enum row_by by, const struct row *row, uint64_t *seq)
{
	struct row_place at = { s->inv, NULL, s->seq, by, s->head };
	char hash[DIGEST_HEX];

	s->counts.rows++;
	if (add_line(s, row, &at, hash) == -1 &&
	    (segment_flush(s) == -1 || add_line(s, row, &at, hash) == -1)) {
		s->counts.lost++;
		return -1;
	}
	if (seq != NULL)
		*seq = s->seq;
	s->seq++;
	strlcpy(s->head, hash, sizeof(s->head));
	s->counts.waiting++;
	if (segment_flush(s) == -1) {
		s->counts.delayed++;
		return 1;
	}
	return 0;
}

void
segment_counts(const struct segment *s, struct segment_counts *out)
{
	*out = s->counts;
}

uint64_t
segment_last(const struct segment *s)
{
	return s->seq - 1;
}

const char *
segment_head(const struct segment *s)
{
	return s->head;
}

int
segment_end(struct segment *s)
{
	int result;

	if (s == NULL)
		return 0;
	result = segment_flush(s);
	if (s->threaded) {
		atomic_store(&s->stop, true);
		atomic_store(&s->dirty, false);
		wake_thread(s);
		pthread_join(s->thread, NULL);
		if (atomic_load(&s->sync_errno) != 0) {
			errno = atomic_load(&s->sync_errno);
			result = -1;
		}
	}
	if (s->wake_fd != -1)
		close(s->wake_fd);
	buf_clear(&s->queue);
	free(s);
	return result;
}

void
segment_walk_begin(struct segment_walk *w, const char *inv, const char *prev)
{
	memset(w, 0, sizeof(*w));
	strlcpy(w->inv, inv, sizeof(w->inv));
	strlcpy(w->head, prev, sizeof(w->head));
}

static int64_t
payload_int(const struct row_read *r, const char *name)
{
	struct json_span value;

	if (!json_member(r->payload, r->payload_len, name, &value))
		return -1;
	return strtoll(value.p, NULL, 10);
}

static bool
payload_is(const struct row_read *r, const char *name, const char *word)
{
	struct json_span value;
	size_t n = strlen(word);

	return json_member(r->payload, r->payload_len, name, &value) &&
	       value.len == n + 2 && memcmp(value.p + 1, word, n) == 0;
}

/* Where a call stands among the open ones; their number: it is none of them. */
static size_t
find_call(const struct segment_walk *w, int64_t call)
{
	size_t i;

	for (i = 0; i < w->open_calls && w->open[i] != call; i++)
		;
	return i;
}

static bool
count_started(const struct row_read *r, struct segment_walk *w)
{
	int64_t call = payload_int(r, "call");

	if (w->open_calls == SEGMENT_OPEN_MAX ||
	    find_call(w, call) < w->open_calls)
		return false;
	w->open[w->open_calls++] = call;
	w->calls++;
	return true;
}

static bool
count_completed(const struct row_read *r, struct segment_walk *w)
{
	size_t i = find_call(w, payload_int(r, "call"));

	if (i == w->open_calls)
		return false;
	w->open[i] = w->open[--w->open_calls];
	if (payload_is(r, "outcome", "error"))
		w->errors++;
	if (payload_is(r, "outcome", "timeout"))
		w->timeouts++;
	return true;
}

static void
count_denied(const struct row_read *r, struct segment_walk *w)
{
	int64_t count = payload_int(r, "count");
	uint64_t n = count > 1 ? (uint64_t)count : 1;

	w->denied += n;
	/* Refused while it ran: its start has been counted. */
	if (payload_int(r, "call") < 0)
		w->calls += n;
}

/* What a skill asked to have recorded is in no table, and none of ours. */
static bool
is_own_kind(const struct row_read *r, bool by_skill)
{
	bool reserved = strncmp(r->kind, "skill.", 6) == 0 ||
			strncmp(r->kind, "audit.", 6) == 0;

	return by_skill ? !reserved
			: reserved && row_kind_of(r->kind) < ROW_DAY_OPENED;
}

static enum segment_fault
count_row(const struct row_read *r, struct segment_walk *w)
{
	bool by_skill = strcmp(r->by, "skill") == 0;

	if (!json_scan(r->payload, r->payload_len, false, NULL, NULL) ||
	    !payload_is(r, "invocation_id", w->inv))
		return SEGMENT_PAYLOAD;
	if (!is_own_kind(r, by_skill))
		return SEGMENT_KIND;
	if (by_skill)
		return SEGMENT_HOLDS;
	if (strcmp(r->kind, row_kind_word(ROW_TOOL_STARTED)) == 0)
		return count_started(r, w) ? SEGMENT_HOLDS : SEGMENT_PAIR;
	if (strcmp(r->kind, row_kind_word(ROW_TOOL_COMPLETED)) == 0)
		return count_completed(r, w) ? SEGMENT_HOLDS : SEGMENT_PAIR;
	if (strcmp(r->kind, row_kind_word(ROW_TOOL_DENIED)) == 0)
		count_denied(r, w);
	else if (strcmp(r->kind, row_kind_word(ROW_INVOKED_COMPLETED)) == 0)
		w->completed = true;
	return SEGMENT_HOLDS;
}

enum segment_fault
segment_walk_row(struct segment_walk *w, const char *line, size_t len,
    struct digest *digest, struct row_read *r)
{
	enum segment_fault fault;

	if (row_read(line, len, false, w->inv, digest, r) == -1)
		return r->fault == ROW_FAULT_HASH    ? SEGMENT_HASH
		       : r->fault == ROW_FAULT_OWNER ? SEGMENT_INVOCATION
						     : SEGMENT_FORM;
	if (r->seq != w->seq + 1)
		return SEGMENT_SEQ;
	if (strcmp(r->prev, w->head) != 0)
		return SEGMENT_PREV;
	fault = count_row(r, w);
	if (fault != SEGMENT_HOLDS)
		return fault;
	w->seq = r->seq;
	w->rows++;
	w->bytes += len + 1;
	strlcpy(w->head, r->hash, sizeof(w->head));
	return SEGMENT_HOLDS;
}

void
segment_walk_torn(
    struct segment_walk *w, const char *rest, size_t len, struct digest *digest)
{
	char text[DIGEST_TEXT];

	w->torn_bytes = len;
	digest_text(digest, rest, len, text);
	strlcpy(w->torn_sha256, text, sizeof(w->torn_sha256));
}

int
segment_walk_part(
    int fd, uint64_t until, struct digest *digest, struct segment_walk *w)
{
	enum lines_event event = LINES_END;
	struct row_read r;
	struct lines lines;
	const char *line = NULL;
	size_t len = 0;
	bool holds = true;

	if (lines_init(&lines, fd, 0) == -1)
		return -1;
	while (holds && (until == 0 || w->seq + 1 < until) &&
	       (event = lines_next(&lines, &line, &len)) == LINES_ROW)
		holds = segment_walk_row(w, line, len, digest, &r) ==
			SEGMENT_HOLDS;
	if (event == LINES_TORN)
		segment_walk_torn(w, line, len, digest);
	w->damaged = w->damaged || !holds || event == LINES_TOO_LONG;
	lines_clear(&lines);
	return event == LINES_FAILED ? -1 : 0;
}

int
segment_walk(int fd, const char *inv, const char *prev, struct digest *digest,
    struct segment_walk *w)
{
	segment_walk_begin(w, inv, prev);
	return segment_walk_part(fd, 0, digest, w);
}
