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
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/clock.h"
#include "audit/json.h"
#include "audit/lines.h"
#include "audit/recount.h"
#include "audit/thread.h"

#define SYNC_DELAY_MS 3 /* collect rows before a sync */
#define PIECE ((size_t)64 * 1024)
#define RETRY_FIRST (50 * CLOCK_MS)
#define RETRY_MOST CLOCK_SECOND

/*
 * A row's bytes go one way: queue, or over the spool when that is full, then the
 * part; and, until a sync has covered them, they are kept, so that they can be
 * written again into the next part when this one fails. What comes first is in
 * "again", then in the spool, then in the queue.
 */
struct segment {
	_Atomic int fd; /* of the part */
	atomic_uint_fast64_t part; /* how many there were before it */
	char inv[37];
	uint64_t seq; /* of the next row */
	char head[DIGEST_HEX];
	enum segment_sync sync;
	struct digest *digest;
	struct buf again;
	struct buf queue;
	struct buf keep;
	uint64_t keep_at; /* the byte of the part where keep begins */
	bool retired;	  /* the part takes no more */
	int spool_fd;	  /* or -1 */
	uint64_t spool_end, spool_at; /* its bytes, and those delivered */
	uint64_t spool_rows;	      /* that are not delivered */
	int64_t retry_at, retry_after;
	struct segment_counts counts;
	/* batch mode: the thread and what it shares with us */
	bool threaded;
	pthread_t thread;
	int wake_fd;
	atomic_bool stop;
	atomic_bool dirty; /* rows since the last sync began */
	atomic_uint_fast64_t written; /* bytes in the part */
	/* marked with their part, see of_part() */
	atomic_uint_fast64_t synced; /* of these bytes, on disk for certain */
	atomic_uint_fast64_t failed; /* errno of a sync */
};

/*
 * A sync may end when its part has been given up and the next one has begun; what
 * it says is then of no interest. So each number goes with its part.
 */
#define PART_SHIFT 48

static uint64_t
with_part(uint64_t part, uint64_t n)
{
	return part << PART_SHIFT | n;
}

static uint64_t
of_part(const struct segment *s, uint64_t value)
{
	uint64_t part = atomic_load(&s->part);

	return (value >> PART_SHIFT) == part
		   ? value & ((UINT64_C(1) << PART_SHIFT) - 1)
		   : 0;
}

/* Of the part that there is now: an error and the bytes that are on disk. */
static int
sync_error(const struct segment *s)
{
	return (int)of_part(s, atomic_load(&s->failed));
}

static void
set_synced(struct segment *s, uint64_t part, uint64_t bytes, int error)
{
	if (error != 0)
		atomic_store(&s->failed, with_part(part, (uint64_t)error));
	else
		atomic_store(&s->synced, with_part(part, bytes));
}

/*
 * The thread knows a descriptor and counts, and nothing else. It allocates
 * nothing and takes no lock, so a fork of this process at any moment is safe.
 */
static void *
sync_thread(void *arg)
{
	struct segment *s = arg;
	struct pollfd wake = { s->wake_fd, POLLIN, 0 };
	uint64_t n, upto, part;
	bool stop;
	int fd;

	do {
		if (read(s->wake_fd, &n, sizeof(n)) == -1 && errno != EINTR)
			break;
		stop = atomic_load(&s->stop);
		/* Only the end writes again before the flag is cleared. */
		if (!stop)
			poll(&wake, 1, SYNC_DELAY_MS);
		atomic_store(&s->dirty, false);
		/* In this order; segment_part sets them in the other one. */
		part = atomic_load(&s->part);
		fd = atomic_load(&s->fd);
		upto = atomic_load(&s->written);
		set_synced(s, part, upto, fdatasync(fd) == -1 ? errno : 0);
	} while (!stop);
	return NULL;
}

void
segment_begin(struct segment *s)
{
	if (s->sync != SEGMENT_SYNC_BATCH || s->threaded)
		return;
	s->threaded = thread_start(&s->thread, sync_thread, s);
	if (!s->threaded)
		s->sync = SEGMENT_SYNC_ROW;
}

/* One wake-up for all rows until the thread has begun its next sync. */
static void
wake_thread(struct segment *s)
{
	const uint64_t one = 1;

	if (atomic_exchange(&s->dirty, true))
		return;
	if (write(s->wake_fd, &one, sizeof(one)) == -1)
		set_synced(s, atomic_load(&s->part), 0, errno);
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
	s->spool_fd = -1;
	buf_init(&s->again, 3 * SEGMENT_QUEUE_MAX);
	buf_init(&s->queue, SEGMENT_QUEUE_MAX);
	buf_init(&s->keep, SEGMENT_QUEUE_MAX);
	if (sync != SEGMENT_SYNC_BATCH)
		return s;
	/* What is appended before the thread is there wakes it later. */
	s->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (s->wake_fd == -1) {
		free(s);
		return NULL;
	}
	return s;
}

static uint64_t
count_rows(const struct buf *b)
{
	const char *p = b->data, *end = b->data + b->len;
	uint64_t n = 0;

	while (b->len > 0 && (p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
		n++;
		p++;
	}
	return n;
}

/* Forget what a sync has covered, whole rows only. */
static void
trim(struct segment *s)
{
	uint64_t synced = of_part(s, atomic_load(&s->synced));
	const char *feed;
	size_t n;

	if (synced <= s->keep_at || s->keep.len == 0)
		return;
	n = synced - s->keep_at < s->keep.len ? (size_t)(synced - s->keep_at)
					       : s->keep.len;
	feed = memrchr(s->keep.data, '\n', n);
	if (feed == NULL)
		return;
	n = (size_t)(feed - s->keep.data) + 1;
	buf_consume(&s->keep, n);
	s->keep_at += n;
}

/*
 * The part is given up. The kernel tells of a failed sync once and may have
 * dropped the pages, so all that no sync has covered is to be written again.
 */
static void
retire(struct segment *s)
{
	struct buf all;

	if (s->retired)
		return;
	s->retired = true;
	trim(s);
	/* What the part took comes before what it was still to get. */
	buf_init(&all, s->again.max);
	if (buf_put(&all, s->keep.data, s->keep.len) == -1 ||
	    buf_put(&all, s->again.data, s->again.len) == -1) {
		s->counts.lost += count_rows(&s->keep);
		buf_clear(&all);
	} else {
		buf_clear(&s->again);
		s->again = all;
	}
	buf_reset(&s->keep);
}

static int
sync_now(struct segment *s)
{
	int error = fdatasync(atomic_load(&s->fd)) == -1 ? errno : 0;

	set_synced(s, atomic_load(&s->part), atomic_load(&s->written), error);
	errno = error;
	return error == 0 ? 0 : -1;
}

/*
 * How much may be written before a sync has covered more: what no sync has
 * covered is kept. 0 with EAGAIN when that is full and the thread has it to do,
 * or with the errno of a sync.
 */
static size_t
room_to_keep(struct segment *s)
{
	trim(s);
	if (s->keep.len < s->keep.max)
		return s->keep.max - s->keep.len;
	if (s->threaded) {
		wake_thread(s);
		errno = EAGAIN;
	} else if (sync_now(s) == 0) {
		trim(s);
	}
	return s->keep.max - s->keep.len;
}

/* A part that is only full, or waits for its sync, may take more later. */
static bool
may_go_on(int error)
{
	return error == ENOSPC || error == EDQUOT || error == EFBIG ||
	       error == EAGAIN || error == ENOMEM;
}

/* Bytes into the part, and what is kept of them. 0, or -1 with errno. */
static int
put_some(struct segment *s, struct buf *from, size_t n)
{
	size_t room = room_to_keep(s);
	ssize_t done;

	if (room == 0)
		return -1;
	if (n > room)
		n = room;
	if (buf_reserve(&s->keep, n) == NULL)
		return -1;
	do
		done = write(atomic_load(&s->fd), from->data, n);
	while (done == -1 && errno == EINTR);
	if (done == 0)
		errno = ENOSPC;
	if (done <= 0)
		return -1;
	buf_put(&s->keep, from->data, (size_t)done); /* has its place */
	atomic_fetch_add(&s->written, (uint64_t)done);
	if (s->sync == SEGMENT_SYNC_NONE) /* then nobody waits for a sync */
		set_synced(s, atomic_load(&s->part), atomic_load(&s->written),
		    0);
	buf_consume(from, (size_t)done);
	return 0;
}

/* The same; a part that fails is given up. */
static int
put(struct segment *s, struct buf *from, size_t n)
{
	int saved;

	if (put_some(s, from, n) == 0)
		return 0;
	saved = errno;
	if (!may_go_on(saved))
		retire(s);
	errno = saved;
	return -1;
}

/* A spool that cannot be read is no fault of the part: it is tried again. */
static int
put_spool(struct segment *s)
{
	struct buf piece;
	char *at;
	uint64_t rows;
	ssize_t n;
	size_t had;
	int result = 0;

	buf_init(&piece, PIECE);
	while (result == 0 && s->spool_at < s->spool_end) {
		at = buf_reserve(&piece, PIECE);
		n = at == NULL ? -1
			       : pread(s->spool_fd, at, PIECE,
				     (off_t)s->spool_at);
		if (n <= 0) {
			errno = n == 0 ? EIO : errno;
			result = -1;
			break;
		}
		buf_advance(&piece, (size_t)n);
		while (result == 0 && piece.len > 0) {
			had = piece.len;
			rows = count_rows(&piece);
			result = put(s, &piece, piece.len);
			s->spool_at += had - piece.len;
			s->spool_rows -= rows - count_rows(&piece);
		}
		buf_reset(&piece);
	}
	buf_clear(&piece);
	return result;
}

static bool
is_pending(const struct segment *s)
{
	return s->again.len > 0 || s->spool_at < s->spool_end ||
	       s->queue.len > 0;
}

static int
put_all(struct segment *s)
{
	int result = 0;

	while (result == 0 && s->again.len > 0)
		result = put(s, &s->again, s->again.len);
	if (result == 0)
		result = put_spool(s);
	while (result == 0 && s->queue.len > 0)
		result = put(s, &s->queue, s->queue.len);
	return result;
}

static int
flush(struct segment *s)
{
	int error = sync_error(s);
	bool pending = is_pending(s);

	trim(s);
	if (error != 0)
		retire(s);
	if (s->retired) {
		errno = error != 0 ? error : EIO;
		return -1;
	}
	if (put_all(s) == -1)
		return -1;
	if (pending && s->sync == SEGMENT_SYNC_BATCH)
		wake_thread(s);
	else if (pending && s->sync == SEGMENT_SYNC_ROW && sync_now(s) == -1) {
		retire(s);
		return -1;
	}
	trim(s);
	return 0;
}

int
segment_flush(struct segment *s)
{
	int saved, result = flush(s);

	if (result == 0) {
		s->retry_after = 0;
		return 0;
	}
	saved = errno;
	/* What is tried in between, with each new row, delays nothing. */
	if (s->retry_after == 0 || clock_boot() >= s->retry_at) {
		s->retry_after =
		    s->retry_after == 0 ? RETRY_FIRST : s->retry_after * 2;
		if (s->retry_after > RETRY_MOST)
			s->retry_after = RETRY_MOST;
		s->retry_at = clock_boot() + s->retry_after;
	}
	errno = saved;
	return -1;
}

static void
stop_thread(struct segment *s)
{
	if (!s->threaded)
		return;
	atomic_store(&s->stop, true);
	atomic_store(&s->dirty, false);
	wake_thread(s);
	pthread_join(s->thread, NULL);
	s->threaded = false;
}

int
segment_sync(struct segment *s)
{
	if (segment_flush(s) == -1)
		return -1;
	stop_thread(s); /* with a last sync */
	if (s->sync == SEGMENT_SYNC_BATCH)
		s->sync = SEGMENT_SYNC_ROW;
	return segment_flush(s);
}

int64_t
segment_retry_at(const struct segment *s)
{
	return s->retired || is_pending(s) ? s->retry_at : INT64_MAX;
}

/* --- a new part, and the spool --- */

/* The first row that the next part gets: its line, or "" when there is none. */
static void
first_pending(const struct segment *s, char line[ROW_MAX])
{
	const struct buf *b = s->again.len > 0 ? &s->again : &s->queue;
	size_t n = b->len < ROW_MAX - 1 ? b->len : ROW_MAX - 1;
	ssize_t got;

	line[0] = '\0';
	if (s->again.len == 0 && s->spool_at < s->spool_end) {
		got = pread(s->spool_fd, line, ROW_MAX - 1, (off_t)s->spool_at);
		line[got > 0 ? got : 0] = '\0';
	} else if (n > 0) {
		memcpy(line, b->data, n);
		line[n] = '\0';
	}
	line[strcspn(line, "\n")] = '\0';
}

bool
segment_wants_part(
    const struct segment *s, uint64_t *seq, char prev[DIGEST_HEX])
{
	char line[ROW_MAX];
	struct json_span number, hash;

	if (!s->retired)
		return false;
	*seq = s->seq;
	strlcpy(prev, s->head, DIGEST_HEX);
	first_pending(s, line);
	if (json_member(line, strlen(line), "seq", &number) &&
	    json_member(line, strlen(line), "prev", &hash) &&
	    hash.len == DIGEST_HEX + 1) {
		*seq = strtoull(number.p, NULL, 10);
		memcpy(prev, hash.p + 1, DIGEST_HEX - 1);
	}
	return true;
}

void
segment_part(struct segment *s, int fd)
{
	atomic_store(&s->written, 0);
	atomic_store(&s->fd, fd);
	atomic_fetch_add(&s->part, 1);
	s->keep_at = 0;
	buf_reset(&s->keep);
	s->retired = false;
	segment_flush(s);
}

bool
segment_wants_spool(const struct segment *s)
{
	return s->spool_fd == -1 && s->queue.len > SEGMENT_QUEUE_MAX / 4;
}

void
segment_spool(struct segment *s, int fd)
{
	s->spool_fd = fd;
}

/* These bytes, behind what the spool has; how many of them. */
static size_t
put_to_spool(struct segment *s, const char *p, size_t len)
{
	size_t done = 0;
	ssize_t n;

	while (s->spool_fd != -1 && done < len) {
		n = pwrite(
		    s->spool_fd, p + done, len - done, (off_t)s->spool_end);
		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		s->spool_end += (uint64_t)n;
		done += (size_t)n;
	}
	return done;
}

/*
 * The part may have the first half of a row and the queue the second: in the
 * spool a row is whole, so that it can be read alone. The half that the part
 * has is delivered already.
 */
static bool
put_first_half(struct segment *s)
{
	const char *feed = s->keep.len == 0
			       ? NULL
			       : memrchr(s->keep.data, '\n', s->keep.len);
	const char *half = feed == NULL ? s->keep.data : feed + 1;
	size_t len = (size_t)(s->keep.data + s->keep.len - half);
	uint64_t before = s->spool_end;

	if (s->retired || s->spool_at < before || s->keep.len == 0 || len == 0)
		return true;
	/* A piece of it would be taken for delivered, or for a row. */
	if (put_to_spool(s, half, len) < len) {
		s->spool_end = before;
		return false;
	}
	s->spool_at = s->spool_end;
	return true;
}

/* False: not all of it. */
static bool
spool(struct segment *s, struct buf *b)
{
	uint64_t rows;

	if (s->spool_fd == -1 || b->len == 0)
		return b->len == 0;
	if (!put_first_half(s))
		return false;
	rows = count_rows(b);
	buf_consume(b, put_to_spool(s, b->data, b->len));
	s->spool_rows += rows - count_rows(b);
	return b->len == 0;
}

bool
segment_rescue(struct segment *s)
{
	bool good;

	/* Rows that are to be written again come first; where there are others
	 * in the spool, its readers put them in order. */
	good = spool(s, &s->again);
	good = spool(s, &s->queue) && good;
	return good && s->spool_fd != -1 &&
	       fdatasync(s->spool_fd) == 0;
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
	/* When the queue is full, the spool takes what is in it. */
	if (add_line(s, row, &at, hash) == -1 &&
	    ((segment_flush(s) == -1 && !spool(s, &s->queue)) ||
		add_line(s, row, &at, hash) == -1)) {
		s->counts.lost++;
		return -1;
	}
	if (seq != NULL)
		*seq = s->seq;
	s->seq++;
	memcpy(s->head, hash, sizeof(s->head));
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
	out->waiting = count_rows(&s->again) + s->spool_rows +
		       count_rows(&s->queue);
}

void
segment_lose(struct segment *s)
{
	s->counts.rows++;
	s->counts.lost++;
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
	if (s->sync == SEGMENT_SYNC_BATCH && !s->threaded)
		sync_now(s);
	stop_thread(s);
	if (sync_error(s) != 0) {
		errno = sync_error(s);
		result = -1;
	}
	if (s->wake_fd != -1)
		close(s->wake_fd);
	buf_clear(&s->again);
	buf_clear(&s->queue);
	buf_clear(&s->keep);
	free(s);
	return result;
}

void
segment_totals_read(const char *object, size_t len, struct segment_totals *t)
{
	json_uint_of(object, len, "calls", &t->calls);
	json_uint_of(object, len, "denied", &t->denied);
	json_uint_of(object, len, "errors", &t->errors);
	json_uint_of(object, len, "timeouts", &t->timeouts);
}

void
segment_totals_add(
    struct segment_totals *sum, const char *payload, size_t len)
{
	struct segment_totals all, before = { 0, 0, 0, 0 };
	struct json_span said;

	segment_totals_read(payload, len, &all);
	if (json_member(payload, len, "before", &said))
		segment_totals_read(said.p, said.len, &before);
	sum->calls += all.calls - before.calls;
	sum->denied += all.denied - before.denied;
	sum->errors += all.errors - before.errors;
	sum->timeouts += all.timeouts - before.timeouts;
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

	if (i < w->open_calls)
		w->open[i] = w->open[--w->open_calls];
	else if (w->lost > 0)
		w->calls++; /* its start is among the lost ones */
	else
		return false;
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

/* Calls whose rows were lost are counted there, and nowhere else. */
static void
count_ending(const struct row_read *r, struct segment_walk *w)
{
	uint64_t calls, denied;

	w->completed = true;
	if (w->lost == 0)
		return;
	if (row_uint_of(r, "calls", &calls) && calls > w->calls)
		w->calls = calls;
	if (row_uint_of(r, "denied", &denied) && denied > w->denied)
		w->denied = denied;
}

static void
count_lost(const struct row_read *r, struct segment_walk *w)
{
	int64_t from = payload_int(r, "from"), to = payload_int(r, "to");

	if (from > 0 && to >= from)
		w->lost += (uint64_t)(to - from) + 1;
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
	else if (strcmp(r->kind, row_kind_word(ROW_ROWS_LOST)) == 0)
		count_lost(r, w);
	else if (strcmp(r->kind, row_kind_word(ROW_INVOKED_COMPLETED)) == 0)
		count_ending(r, w);
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
	if (r->seq == w->mark.seq && strcmp(r->hash, w->mark.head) != 0)
		return SEGMENT_MARK;
	w->in_day = w->in_day || strcmp(r->ts, w->day) >= 0;
	fault = count_row(r, w);
	if (fault != SEGMENT_HOLDS)
		return fault;
	if (!w->in_day)
		w->before = (struct segment_totals){ w->calls, w->denied,
			w->errors, w->timeouts };
	if (w->tally != NULL)
		recount_row(w->tally, r);
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

	segment_walk_piece(w, rest, len, true, digest);
	w->torn_bytes = w->pieces;
	w->pieces = 0;
	digest_end(digest, text);
	strlcpy(w->torn_sha256, text, sizeof(w->torn_sha256));
}

void
segment_walk_piece(struct segment_walk *w, const char *piece, size_t len,
    bool more, struct digest *digest)
{
	if (w->pieces == 0)
		digest_start(digest);
	digest_add(digest, piece, len);
	w->pieces = more ? w->pieces + len : 0;
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
	while (holds && (event = lines_next(&lines, &line, &len)) != LINES_END &&
	       event != LINES_TORN && event != LINES_FAILED) {
		/* Behind it the next part counts. */
		if (until == 0 || w->seq + 1 < until)
			holds = event == LINES_ROW &&
				segment_walk_row(w, line, len, digest, &r) ==
				    SEGMENT_HOLDS;
		else if (event != LINES_ROW)
			segment_walk_piece(w, line, len, event == LINES_PIECE,
			    digest);
	}
	if (event == LINES_TORN)
		segment_walk_torn(w, line, len, digest);
	w->damaged = w->damaged || !holds;
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
