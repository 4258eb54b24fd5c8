/*
 * What is done here can only add rows that say what was found. An invocation's
 * lock is held meanwhile, and what its anchors say is read again once it is
 * held, so two at a time close nothing twice.
 */

#include "audit/recover.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "audit/anchor.h"
#include "audit/books.h"
#include "audit/hostpage.h"
#include "audit/json.h"
#include "audit/lines.h"
#include "audit/roll.h"
#include "audit/row.h"
#include "audit/stray.h"
#include "audit/trace.h"

/* What the anchors say about one invocation. */
struct account {
	bool opened, closed;
	char inv[STORE_UUID_SIZE];
	char day[CLOCK_DAY_SIZE]; /* of its files */
	char hash[DIGEST_HEX];
	char skill_id[65];
	char version[257];
	int64_t began; /* wall clock, nanoseconds */
	struct books_parts parts;
	struct segment_mark mark; /* of the highest row, or none */
	bool disordered; /* parts that no writer makes so */
};

static void
tell(const struct recover *r, enum recover_did did, const char *name)
{
	if (r->tell != NULL)
		r->tell(r->arg, did, name);
}

/* The lock of an invocation, made when it is missing: a descriptor, or -1 with
 * EWOULDBLOCK when somebody holds it. */
static int
take_lock(const struct store *s, const char *inv)
{
	struct stat held, named;
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "%.36s.lock", inv);
	for (;;) {
		fd = store_file(s->run_fd, name, O_RDWR | O_CREAT);
		if (fd == -1)
			return -1;
		if (flock(fd, LOCK_EX | LOCK_NB) == -1) {
			close(fd);
			errno = EWOULDBLOCK;
			return -1;
		}
		/* Whoever held it may have removed it meanwhile. */
		if (fstat(fd, &held) == 0 &&
		    fstatat(s->run_fd, name, &named, AT_SYMLINK_NOFOLLOW) ==
			0 &&
		    held.st_ino == named.st_ino && held.st_dev == named.st_dev)
			return fd;
		close(fd);
	}
}

/* --- reading anchors --- */

/* "2026-11-30T10:00:00.004000Z" to the second. */
static int64_t
wall_of(const char *ts)
{
	struct tm tm;

	memset(&tm, 0, sizeof(tm));
	if (strptime(ts, "%Y-%m-%dT%H:%M:%S", &tm) == NULL)
		return 0;
	return (int64_t)timegm(&tm) * CLOCK_SECOND;
}

static void
take_opened(struct account *a, const struct row_read *r)
{
	char file[STORE_SEGMENT_NAME + 16];

	a->opened = true;
	a->closed = a->disordered = false;
	a->parts.n = 1;
	a->parts.start[0] = 1;
	a->mark.seq = 0;
	strlcpy(a->hash, r->hash, sizeof(a->hash));
	row_text_of(r, "file", file, sizeof(file));
	strlcpy(a->day, file, sizeof(a->day));
	row_text_of(r, "skill_id", a->skill_id, sizeof(a->skill_id));
	row_text_of(r, "version", a->version, sizeof(a->version));
	a->began = wall_of(r->ts);
}

static void
take_mark(struct account *a, uint64_t seq, const char *head)
{
	if (!a->opened || a->closed || seq < a->mark.seq)
		return;
	a->mark.seq = seq;
	strlcpy(a->mark.head, head, sizeof(a->mark.head));
}

/* Those of this invocation; there may be others in the same row. */
static void
take_marks(struct account *a, const struct row_read *r)
{
	struct json_span marks, one = {NULL, 0};
	char inv[STORE_UUID_SIZE], head[DIGEST_HEX];
	uint64_t seq;

	if (!json_scan(r->payload, r->payload_len, false, NULL, NULL) ||
	    !json_member(r->payload, r->payload_len, "marks", &marks))
		return;
	while (json_element(marks.p, marks.len, &one)) {
		if (json_text_of(one.p, one.len, "invocation_id", inv,
			sizeof(inv)) &&
		    strcmp(inv, a->inv) == 0 &&
		    json_uint_of(one.p, one.len, "seq", &seq) &&
		    json_text_of(one.p, one.len, "head", head, sizeof(head)))
			take_mark(a, seq, head);
	}
}

static void
take_part(struct account *a, const struct row_read *r)
{
	char head[DIGEST_HEX];
	uint64_t part, seq;

	if (!row_uint_of(r, "part", &part) || !row_uint_of(r, "seq", &seq) ||
	    !a->opened || part != a->parts.n + 1ULL || seq == 0 ||
	    part > BOOKS_PARTS_MAX)
		a->disordered = true;
	else
		a->parts.start[a->parts.n++] = seq;
	/* The row before it is as good as marked. */
	if (!a->disordered && row_text_of(r, "head", head, sizeof(head)))
		take_mark(a, seq - 1, head);
}

/* Is this row an anchor of a segment, or marks? Of a segment, its invocation's
 * id is left in inv. */
static enum row_kind
segment_row(const struct recover *r, const char *line, size_t len,
    struct row_read *row, char inv[STORE_UUID_SIZE])
{
	enum row_kind kind;

	if (row_read(line, len, true, r->store->host, r->digest, row) == -1)
		return ROW_KINDS;
	kind = row_kind_of(row->kind);
	if (kind == ROW_SEGMENT_MARK)
		return kind;
	if ((kind != ROW_SEGMENT_OPENED && kind != ROW_SEGMENT_PART &&
		kind != ROW_SEGMENT_CLOSED) ||
	    !row_text_of(row, "invocation_id", inv, STORE_UUID_SIZE) ||
	    !store_is_uuid(inv))
		return ROW_KINDS;
	return kind;
}

/* Each line of a day's file; 0 or -1 with errno. */
static int
each_anchor(const struct recover *r, const char *day,
    void (*take)(void *, const char *line, size_t len), void *arg)
{
	enum lines_event event;
	struct lines lines;
	char name[32];
	const char *line;
	size_t len;
	int fd, result;

	snprintf(name, sizeof(name), "%s/host.jsonl", day);
	fd = store_ledger_file(r->store, name);
	if (fd == -1)
		return errno == ENOENT ? 0 : -1;
	result = lines_init(&lines, fd, 0);
	if (result == 0) {
		while ((event = lines_next_row(&lines, &line, &len)) ==
		       LINES_ROW)
			take(arg, line, len);
		result = event == LINES_FAILED ? -1 : 0;
		lines_clear(&lines);
	}
	close(fd);
	return result;
}

struct one {
	const struct recover *r;
	struct account *account;
};

static void
take_one(void *arg, const char *line, size_t len)
{
	struct one *one = arg;
	char inv[STORE_UUID_SIZE];
	struct row_read row;
	enum row_kind kind;

	if (memmem(line, len, one->account->inv, STORE_UUID_SIZE - 1) == NULL)
		return;
	kind = segment_row(one->r, line, len, &row, inv);
	if (kind == ROW_SEGMENT_MARK)
		take_marks(one->account, &row);
	if (kind == ROW_KINDS || kind == ROW_SEGMENT_MARK ||
	    strcmp(inv, one->account->inv) != 0)
		return;
	if (kind == ROW_SEGMENT_OPENED)
		take_opened(one->account, &row);
	else if (kind == ROW_SEGMENT_PART)
		take_part(one->account, &row);
	else if (kind == ROW_SEGMENT_CLOSED)
		one->account->closed = true;
}

/* An id is used once in two days, so the newest that is told of it counts. */
static int
read_account(const struct recover *r, const char *inv, struct account *a)
{
	struct one one = {r, a};
	struct store_days days;
	size_t i;
	int result = 0;

	memset(a, 0, sizeof(*a));
	strlcpy(a->inv, inv, sizeof(a->inv));
	if (store_days(r->store, &days) == -1)
		return -1;
	for (i = 0; i < days.n && result == 0; i++)
		result = each_anchor(r, days.day[i], take_one, &one);
	free(days.day);
	return result;
}

/* --- files that no anchor names --- */

static int
anchor_orphan(const struct recover *r, const char *file, const struct stat *st,
    bool quarantined)
{
	struct anchor a;
	struct row row;
	int result;

	row_begin(&row, ROW_ORPHAN_REMOVED, NULL, r->digest);
	row_word(&row, "file", file);
	row_int(&row, "bytes", (int64_t)st->st_size);
	row_bool(&row, "quarantined", quarantined);
	result = row_end(&row) == 0 ? anchor_append(r->store, &row,
					  ROW_BY_RECOVERY, r->digest, &a)
				    : -1;
	row_clear(&row);
	return result;
}

/* A file that can only be appended to can be neither removed nor moved. */
static void
release(const struct recover *r, const char *name)
{
	int fd = store_ledger_file(r->store, name);

	if (fd == -1)
		return;
	if (store_is_append_only(fd))
		(void)store_append_only(fd, false);
	close(fd);
}

/* Recorded first: what is gone then and not recorded cannot be. */
static int
remove_orphan(const struct recover *r, const char *day, const char *inv,
    unsigned part)
{
	char name[STORE_SEGMENT_NAME], to[STORE_SEGMENT_NAME + 16];
	struct stat st;
	bool empty;
	int audit = r->store->audit_fd;

	store_segment_path(day, inv, part, name);
	if (fstatat(audit, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return errno == ENOENT ? 0 : -1;
	empty = S_ISREG(st.st_mode) && st.st_size == 0;
	if (anchor_orphan(r, name, &st, !empty) == -1)
		return -1;
	release(r, name);
	if (empty) {
		tell(r, RECOVER_REMOVED, name);
		return unlinkat(audit, name, 0);
	}
	snprintf(to, sizeof(to), "%s/quarantine", day);
	if (mkdirat(audit, to, 0700) == -1 && errno != EEXIST)
		return -1;
	snprintf(to, sizeof(to), "%s/quarantine/%s.p%u.jsonl", day, inv, part);
	tell(r, RECOVER_QUARANTINED, name);
	return renameat2(audit, name, audit, to, RENAME_NOREPLACE);
}

/* --- closing --- */

/* The trace of its first row, or a new one. */
static void
find_trace(const struct recover *r, const struct account *a,
    char id[TRACE_ID_SIZE])
{
	char name[STORE_SEGMENT_NAME];
	struct trace fresh;
	struct row_read row;
	struct lines lines;
	const char *line;
	size_t len;
	int fd;

	id[0] = '\0';
	store_segment_path(a->day, a->inv, 1, name);
	fd = store_ledger_file(r->store, name);
	if (fd != -1 && lines_init(&lines, fd, 0) == 0) {
		if (lines_next(&lines, &line, &len) == LINES_ROW &&
		    row_read(line, len, false, a->inv, r->digest, &row) == 0)
			row_text_of(&row, "trace_id", id, TRACE_ID_SIZE);
		lines_clear(&lines);
	}
	if (fd != -1)
		close(fd);
	if (id[0] != '\0')
		return;
	memset(id, '0', TRACE_ID_SIZE - 1);
	id[TRACE_ID_SIZE - 1] = '\0';
	if (trace_new(&fresh) == 0)
		strlcpy(id, fresh.trace_id, TRACE_ID_SIZE);
}

/* How long it had lived when its last row was written. */
static int64_t
lived_ms(const struct recover *r, const struct account *a)
{
	char name[STORE_SEGMENT_NAME];
	struct stat st;
	int64_t ms;

	store_segment_path(a->day, a->inv, a->parts.n, name);
	if (fstatat(r->store->audit_fd, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return 0;
	ms = (int64_t)st.st_mtim.tv_sec * 1000 - a->began / CLOCK_MS;
	return a->began == 0 || ms < 0 ? 0 : ms;
}

static int
close_account(
    const struct recover *r, const struct account *a, struct tally *rows)
{
	struct books_end end = {"panic", 0,
	    "the broker and its supervisor died"};
	char trace_id[TRACE_ID_SIZE];
	struct books b = {.store = r->store,
	    .digest = r->digest,
	    .spool = r->spool,
	    .sync = true,
	    .tally = rows,
	    .by = ROW_BY_RECOVERY,
	    .inv = a->inv,
	    .opened = a->hash,
	    .skill_id = a->skill_id[0] == '\0' ? NULL : a->skill_id,
	    .version = a->version[0] == '\0' ? NULL : a->version,
	    .trace_id = trace_id};
	struct anchor closed;
	int result = -1;

	if (a->disordered) {
		errno = EINVAL;
		return -1;
	}
	b.parts = a->parts;
	b.mark = a->mark;
	strlcpy(b.day, a->day, sizeof(b.day));
	b.day_fd = store_day(r->store, a->day, 0);
	if (b.day_fd == -1 || books_walk(&b) == -1) {
		if (b.day_fd != -1)
			close(b.day_fd);
		if (errno != ENOENT)
			return -1;
		rows->rows = UINT64_MAX;
		/* Closing what is missing would make a deletion look well. */
		tell(r, RECOVER_MISSING, a->inv);
		return 0;
	}
	find_trace(r, a, trace_id);
	end.duration_ms = lived_ms(r, a);
	/* First what was to be the next part, and did not get its anchor. */
	if (remove_orphan(r, a->day, a->inv, a->parts.n + 1) == 0 &&
	    (b.walk.damaged || books_merge(&b) == 0) &&
	    (b.walk.damaged || b.walk.completed || books_end(&b, &end) == 0) &&
	    books_sync(&b) == 0 && books_close(&b, "crash", 0, &closed) == 0) {
		anchor_sync(r->store, &closed);
		anchor_keep_totals(r->store, closed.day);
		if (b.walk.damaged)
			rows->rows = UINT64_MAX;
		tell(r, b.walk.damaged ? RECOVER_DAMAGED : RECOVER_CLOSED,
		    a->inv);
		result = 0;
	}
	close(b.day_fd);
	return result;
}

/* --- one invocation --- */

/* The files of an invocation that has no anchor, on whatever day. */
static int
remove_orphans(const struct recover *r, const char *inv)
{
	struct store_days days;
	size_t i;
	int result = 0;

	if (store_days(r->store, &days) == -1)
		return -1;
	for (i = 0; i < days.n && result == 0; i++)
		result = remove_orphan(r, days.day[i], inv, 1);
	free(days.day);
	return result;
}

static bool
has_page(const struct recover *r, const char *inv)
{
	char name[64];

	snprintf(name, sizeof(name), "%.36s.status", inv);
	return faccessat(r->store->run_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) ==
	       0;
}

/* Its books were closed, and then there was no time to fold the page. */
static int
read_closed(
    const struct recover *r, const struct account *a, struct tally *rows)
{
	struct books b = {.store = r->store,
	    .digest = r->digest,
	    .tally = rows,
	    .inv = a->inv,
	    .opened = a->hash,
	    .parts = a->parts};

	if (!has_page(r, a->inv))
		return 0;
	strlcpy(b.day, a->day, sizeof(b.day));
	if (books_walk(&b) == -1 && errno != ENOENT)
		return -1;
	return 0;
}

/* What the rows say of it is left in rows; rows->rows is UINT64_MAX where they
 * do not say how many there were. */
static int
recover_invocation(
    const struct recover *r, const char *inv, struct tally *rows)
{
	struct account a;

	if (anchor_mend(r->store, r->digest) == -1 ||
	    read_account(r, inv, &a) == -1)
		return -1;
	if (a.opened && !a.closed)
		return close_account(r, &a, rows);
	rows->rows = UINT64_MAX;
	return a.opened ? read_closed(r, &a, rows) : remove_orphans(r, inv);
}

void
recover_one(const struct recover *r, const char *inv)
{
	struct tally rows;
	int fd;

	if (store_running(r->store, inv))
		return;
	fd = take_lock(r->store, inv);
	if (fd == -1) {
		if (errno != EWOULDBLOCK)
			tell(r, RECOVER_FAILED, inv);
		return;
	}
	if (r->locked != NULL)
		r->locked(r->arg, inv);
	tally_init(&rows, r->names);
	/* Whoever comes next looks again, as long as the lock is there. */
	if (recover_invocation(r, inv, &rows) == 0 &&
	    hostpage_fold(r->store, inv, r->names, &rows) == 0 &&
	    stray_remove(r->store, inv, 0) == 0) {
		store_run_unlink(r->store, inv, "lock");
	} else {
		tell(r, RECOVER_FAILED, inv);
	}
	close(fd);
}

/* --- everything --- */

struct everything {
	const struct recover *r;
	struct roll roll; /* of all days; closed says whether it needs us */
	bool failed;
};

static void
take_all(void *arg, const char *line, size_t len)
{
	struct everything *all = arg;
	char inv[STORE_UUID_SIZE];
	struct roll_entry *e;
	struct row_read row;
	enum row_kind kind = segment_row(all->r, line, len, &row, inv);

	if (kind == ROW_KINDS || kind == ROW_SEGMENT_MARK)
		return;
	e = roll_add(&all->roll, inv);
	if (e == NULL)
		all->failed = true;
	else
		e->closed = kind == ROW_SEGMENT_CLOSED;
}

static void
no_stray(void *arg, const char *name)
{
	(void)arg;
	(void)name; /* verify tells of it */
}

/* Those with files and without an anchor join those that are open. */
static int
add_orphans(struct everything *all, const struct store_days *days)
{
	struct roll_entry *e, *known;
	struct roll here;
	size_t i, at;
	int result = 0;

	for (i = 0; i < days->n && result == 0; i++) {
		roll_init(&here, days->day[i]);
		result = roll_list(&here, all->r->store, NULL, no_stray, NULL);
		for (at = 0; result == 0 && (e = roll_next(&here, &at));) {
			if (roll_find(&all->roll, e->inv) != NULL)
				continue;
			known = roll_add(&all->roll, e->inv);
			result = known == NULL ? -1 : 0;
		}
		roll_clear(&here);
	}
	return result;
}

int
recover_all(const struct recover *r)
{
	struct everything all = {.r = r};
	struct roll_entry *e;
	struct store_days days;
	size_t i, at;
	int result = 0;

	result = anchor_mend(r->store, r->digest);
	if (result == 1)
		tell(r, RECOVER_MENDED, "the anchors");
	if (result == -1 || store_days(r->store, &days) == -1)
		return -1;
	result = 0;
	roll_init(&all.roll, "");
	for (i = 0; i < days.n && result == 0; i++)
		result = each_anchor(r, days.day[i], take_all, &all);
	if (all.failed || result == -1 || add_orphans(&all, &days) == -1)
		result = -1;
	for (at = 0; result == 0 && (e = roll_next(&all.roll, &at)) != NULL;) {
		if (!e->closed)
			recover_one(r, e->inv);
	}
	roll_clear(&all.roll);
	free(days.day);
	return result;
}
