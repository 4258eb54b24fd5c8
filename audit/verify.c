/*
 * Proves the ledger or names what does not hold. Nothing that lies in the
 * store is believed but the bytes themselves: a file is opened by the name
 * that its anchor and its id give it and by no other, every count is made
 * anew, and a fragment is accepted only where an anchor names it. It reads
 * while others write; a thing that may be on its way is looked at again, and
 * what was found wrong stays found.
 */

#include "audit/verify.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "audit/anchor.h"
#include "audit/buf.h"
#include "audit/json.h"
#include "audit/lines.h"
#include "audit/roll.h"
#include "audit/row.h"
#include "audit/segment.h"

#define ZERO_HASH                                                              \
	"0000000000000000000000000000000000000000000000000000000000000000"
#define GAP_MAX ((size_t)1024 * 1024) /* no crash leaves more */
#define PATH_SIZE 320
#define SETTLE_ROUNDS 3
#define LAST_DAY "9999-99-99"

/* The kept sum of a day, to be found true at its anchor. */
struct kept {
	bool given;
	uint64_t hseq, offset;
	struct segment_totals totals;
};

struct verify {
	const struct store *store;
	const struct verify_wish *wish;
	struct verify_report *report;
	struct digest *digest;
	/* days that have a directory, in order; their rolls while needed */
	struct roll *days;
	size_t days_n;
	size_t at;  /* the day whose anchors are being read */
	bool known; /* the invocation that was asked for */
	bool expected;
	bool failed; /* no memory */
	bool newest; /* all anchors were read: what comes now is new */
	/* the chain of anchors */
	uint64_t hseq;
	char head[DIGEST_HEX];
	char before[CLOCK_DAY_SIZE]; /* the last day with anchors */
	bool resync; /* after a finding: take the next row's word */
	/* the day's file */
	int fd;
	struct lines lines;
	char file[PATH_SIZE];
	uint64_t line;
	bool first;
	struct buf gap; /* lines that are no rows, not explained yet */
	uint64_t gap_line;
	enum row_fault gap_fault;
	struct kept kept, sum;
	uint64_t done; /* segments of this day, for the progress */
};

static void __attribute__((format(printf, 6, 7)))
find(struct verify *v, enum verify_level level, const char *file, uint64_t line,
    const char *check, const char *fmt, ...)
{
	struct verify_report *r = v->report;
	struct verify_finding *f;
	va_list ap;

	r->level[level]++;
	if (r->n == VERIFY_FINDINGS_MAX)
		return;
	f = &r->finding[r->n++];
	f->level = level;
	f->line = line;
	f->check = check;
	strlcpy(f->file, file, sizeof(f->file));
	va_start(ap, fmt);
	vsnprintf(f->message, sizeof(f->message), fmt, ap);
	va_end(ap);
}

static void
unreadable(struct verify *v, const char *file)
{
	find(v, VERIFY_UNREADABLE, file, 0, "read", "cannot be read: %s",
	    strerror(errno));
}

/* It is there, for all that we know, and we cannot look at it. */
static bool
is_unreadable(int error)
{
	return error == EACCES || error == EMFILE || error == ENFILE ||
	       error == EIO;
}

/* Something else may stand where it should: that is no trouble of reading. */
static void
unopened(struct verify *v, const char *file)
{
	if (is_unreadable(errno))
		unreadable(v, file);
	else
		find(v, VERIFY_DAMAGED, file, 0, "file",
		    errno == ENOENT ? "is missing"
				    : "is not the kind of file that it was");
}

/* --- members of payloads that were scanned --- */

static bool
is_null(const struct row_read *r, const char *name)
{
	struct json_span v;

	return json_member(r->payload, r->payload_len, name, &v) &&
	       v.len == 4 && memcmp(v.p, "null", 4) == 0;
}

/* --- days --- */

static struct roll *
day_of(const struct verify *v, const char *day)
{
	size_t i;

	for (i = v->days_n; i > 0; i--) {
		if (strcmp(v->days[i - 1].day, day) == 0)
			return &v->days[i - 1];
	}
	return NULL;
}

static int
add_day(struct verify *v, const char *day)
{
	struct roll *days;

	if (day_of(v, day) != NULL)
		return 0;
	days = recallocarray(v->days, v->days_n, v->days_n + 1, sizeof(*days));
	if (days == NULL)
		return -1;
	v->days = days;
	roll_init(&v->days[v->days_n++], day);
	return 0;
}

/* The days that have a directory; called again, those that are new, which come
 * later than all others, whatever the clock says. */
static int
list_days(struct verify *v)
{
	struct store_days days;
	size_t i;
	int result = 0;

	if (store_days(v->store, &days) == -1)
		return -1;
	for (i = 0; i < days.n && result == 0; i++)
		result = add_day(v, days.day[i]);
	free(days.day);
	return result;
}

/* Could anchors of these days that cannot be read say something else? */
static bool
is_unknown(const struct verify *v, const char *from, const char *last)
{
	size_t i;

	for (i = 0; i < v->days_n; i++) {
		if (v->days[i].unread && strcmp(v->days[i].day, from) >= 0 &&
		    strcmp(v->days[i].day, last) <= 0)
			return true;
	}
	return false;
}

static bool
is_wanted(const struct verify *v, const char *inv, const char *day)
{
	return (v->wish->invocation == NULL ||
		   strcmp(v->wish->invocation, inv) == 0) &&
	       (v->wish->day == NULL || strcmp(v->wish->day, day) == 0);
}

struct stray {
	struct verify *v;
	const char *day;
};

static void
on_stray(void *arg, const char *name)
{
	const struct stray *s = arg;
	char file[PATH_SIZE];

	snprintf(file, sizeof(file), "audit/%s/%.280s", s->day, name);
	find(s->v, VERIFY_DAMAGED, file, 0, "anchor",
	    "is no segment's name, and no anchor names it");
}

/* Files that recovery could not place stay an error until somebody looks. */
static void
check_quarantine(struct verify *v, const char *day)
{
	char file[PATH_SIZE];
	struct dirent *e;
	uint64_t n = 0;
	int fd, day_fd = store_day(v->store, day, 0);
	DIR *d;

	if (day_fd == -1)
		return;
	fd = openat(day_fd, "quarantine",
	    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	close(day_fd);
	if (fd == -1 && errno == ENOENT)
		return;
	snprintf(file, sizeof(file), "audit/%s/quarantine", day);
	d = fd == -1 ? NULL : fdopendir(fd);
	if (d == NULL) {
		unopened(v, file);
		if (fd != -1)
			close(fd);
		return;
	}
	while ((e = readdir(d)) != NULL)
		n +=
		    strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	if (n > 0)
		find(v, VERIFY_DAMAGED, file, 0, "quarantine",
		    "%" PRIu64 " files that no anchor explains", n);
}

/* The temporary name of a kept sum, ".totals.PID". */
static bool
is_sum_in_making(const char *name)
{
	static const char begin[] = ".totals.";
	const char *pid = name + sizeof(begin) - 1;

	return strncmp(name, begin, sizeof(begin) - 1) == 0 && *pid != '\0' &&
	       pid[strspn(pid, "0123456789")] == '\0';
}

static bool
is_of_day(const char *name)
{
	static const char *const names[] = { "host.jsonl", "seg", "totals",
		"quarantine" };
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]) == 0)
			return true;
	}
	return is_sum_in_making(name);
}

/* Of audit/; ".host.UUID" is a host.json in the making. */
static bool
is_of_audit(const char *name)
{
	return strcmp(name, "host.json") == 0 || store_is_day(name) ||
	       (strncmp(name, ".host.", 6) == 0 && store_is_uuid(name + 6));
}

/* Nothing else lies in a directory that the ledger has to itself. */
static void
check_names(struct verify *v, int at, const char *name, const char *where,
    bool (*is_ours)(const char *))
{
	char file[PATH_SIZE];
	struct dirent *e;
	DIR *d;
	int fd;

	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd == -1 ? NULL : fdopendir(fd);
	if (d == NULL) {
		if (errno == ENOTDIR)
			find(v, VERIFY_DAMAGED, where, 0, "name",
			    "is no directory");
		else
			unreadable(v, where);
		if (fd != -1)
			close(fd);
		return;
	}
	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 ||
		    strcmp(e->d_name, "..") == 0 || is_ours(e->d_name))
			continue;
		snprintf(file, sizeof(file), "%s/%.280s", where, e->d_name);
		find(v, VERIFY_DAMAGED, file, 0, "name",
		    "is not of the ledger");
	}
	closedir(d);
}

static void
list_segments(struct verify *v, struct roll *roll)
{
	struct stray stray = { v, roll->day };
	char file[PATH_SIZE];

	if (v->wish->day != NULL && strcmp(v->wish->day, roll->day) != 0)
		return;
	if (roll_list(roll, v->store, v->wish->invocation, on_stray, &stray) ==
	    -1) {
		snprintf(file, sizeof(file), "audit/%s/seg", roll->day);
		unreadable(v, file);
	}
	if (v->wish->invocation != NULL)
		return;
	snprintf(file, sizeof(file), "audit/%s", roll->day);
	check_names(v, v->store->audit_fd, roll->day, file, is_of_day);
	check_quarantine(v, roll->day);
}

/* --- one segment --- */

static const struct {
	const char *check;
	const char *message;
} faults[] = {
	[SEGMENT_HOLDS] = { "", "" },
	[SEGMENT_FORM] = { "form", "is not a row" },
	[SEGMENT_HASH] = { "hash", "was changed: its bytes have another hash" },
	[SEGMENT_INVOCATION] = { "invocation", "is of another invocation" },
	[SEGMENT_SEQ] = { "seq", "is not the next row" },
	[SEGMENT_PREV] = { "prev", "does not follow what stands before it" },
	[SEGMENT_PAYLOAD] = { "payload",
	    "its payload is no JSON, or about another invocation" },
	[SEGMENT_KIND] = { "kind", "its writer cannot have written this kind" },
	[SEGMENT_PAIR] = { "pair",
	    "started twice, or completed without started" },
	[SEGMENT_MARK] = { "mark", "another row was marked" },
};

_Static_assert(sizeof(faults) / sizeof(faults[0]) == SEGMENT_MARK + 1,
    "a sentence for each fault");

struct segment_check {
	struct segment_walk walk;
	bool began, ended;
	char file[PATH_SIZE]; /* of the part */
	uint64_t line;
	size_t mark; /* the next one that is due */
	/* Rows that parts had behind the beginning of the next one, which has
	 * them again. */
	char (*again)[DIGEST_HEX];
	uint64_t again_from;
	size_t again_n;
};

/* Rows that were lost, and say so, may have told of any number more: one row
 * may stand for many refusals. */
static bool
is_count(uint64_t said, uint64_t told, uint64_t lost)
{
	return lost == 0 ? said == told : said >= told;
}

/* What begins comes first, what ends last, and its counts are true. */
static bool
in_order(struct verify *v, struct segment_check *c, const struct row_read *r,
    const struct segment_walk *before)
{
	enum row_kind kind = row_kind_of(r->kind);
	uint64_t calls = 0, denied = 0;
	char outcome[16];

	if (c->ended) {
		find(v, VERIFY_DAMAGED, c->file, c->line, "order",
		    "stands behind the last row");
		return false;
	}
	if (strcmp(r->by, "skill") == 0)
		return true;
	if (kind == ROW_INVOKED_STARTED || kind == ROW_SANDBOX_ATTESTED) {
		if (c->began)
			find(v, VERIFY_DAMAGED, c->file, c->line, "order",
			    "begins a second time");
		if (c->began)
			return false;
		c->began = kind == ROW_INVOKED_STARTED;
	} else if (!c->began && strcmp(r->by, "supervisor") != 0 &&
		   strcmp(r->by, "recovery") != 0 &&
		   !(kind == ROW_INVOKED_COMPLETED &&
		       row_text_of(r, "outcome", outcome, sizeof(outcome)) &&
		       strcmp(outcome, "refused") == 0)) {
		find(v, VERIFY_DAMAGED, c->file, c->line, "order",
		    "stands before skill.invoked_started");
		return false;
	}
	if (kind != ROW_INVOKED_COMPLETED)
		return true;
	c->ended = true;
	if (!row_uint_of(r, "calls", &calls) ||
	    !row_uint_of(r, "denied", &denied) ||
	    !is_count(calls, before->calls, before->lost) ||
	    !is_count(denied, before->denied, before->lost)) {
		find(v, VERIFY_DAMAGED, c->file, c->line, "counts",
		    "says %" PRIu64 " calls, %" PRIu64 " denied; the rows say "
		    "%" PRIu64 " and %" PRIu64,
		    calls, denied, before->calls, before->denied);
		return false;
	}
	return true;
}

/* Do the marks of rows up to here agree? */
static bool
marks_hold(
    struct verify *v, struct segment_check *c, const struct roll_entry *e)
{
	const struct roll_mark *m;

	for (; c->mark < e->marks_n; c->mark++) {
		m = &e->marks[c->mark];
		if (m->part != 0) /* looked at where the parts meet */
			continue;
		if (m->seq > c->walk.seq)
			return true;
		if (m->seq == c->walk.seq && strcmp(m->head, c->walk.head) == 0)
			continue;
		find(v, VERIFY_DAMAGED, c->file, c->line, "mark",
		    "another row %" PRIu64 " was marked: audit/%s/host.jsonl:"
		    "%" PRIu64,
		    m->seq, m->day, m->line);
		return false;
	}
	return true;
}

/* A row that two parts have is the same in both. */
static bool
is_no_fork(
    struct verify *v, const struct segment_check *c, const struct row_read *r)
{
	if (r->seq < c->again_from ||
	    r->seq - c->again_from >= c->again_n ||
	    strcmp(r->hash, c->again[r->seq - c->again_from]) == 0)
		return true;
	find(v, VERIFY_DAMAGED, c->file, c->line, "fork",
	    "the part before it has another row %" PRIu64, r->seq);
	return false;
}

static bool
row_holds(struct verify *v, struct segment_check *c, const struct roll_entry *e,
    const char *line, size_t len)
{
	enum segment_fault fault;
	struct row_read r;

	c->line++;
	fault = segment_walk_row(&c->walk, line, len, v->digest, &r);
	if (fault != SEGMENT_HOLDS) {
		if (fault == SEGMENT_SEQ && r.seq > c->walk.seq + 1)
			find(v, VERIFY_DAMAGED, c->file, c->line,
			    faults[fault].check,
			    "rows %" PRIu64 " to %" PRIu64 " are missing",
			    c->walk.seq + 1, r.seq - 1);
		else
			find(v, VERIFY_DAMAGED, c->file, c->line,
			    faults[fault].check, "%s", faults[fault].message);
		return false;
	}
	v->report->rows++;
	return is_no_fork(v, c, &r) && in_order(v, c, &r, &c->walk) &&
	       marks_hold(v, c, e);
}

/*
 * Behind the beginning of the next part: it counts there. What does not hold is
 * nobody's word: the pages of a sync that failed may have come to nothing.
 */
static bool
keep_again(struct verify *v, struct segment_check *c, const char *line,
    size_t len)
{
	struct row_read r;
	void *again;

	c->line++;
	if (row_read(line, len, false, c->walk.inv, v->digest, &r) == -1)
		return true;
	if (!is_no_fork(v, c, &r))
		return false;
	if (c->again_n > 0 && r.seq != c->again_from + c->again_n)
		return true;
	/* By steps that grow. */
	if ((c->again_n & (c->again_n - 1)) == 0) {
		again = recallocarray(c->again, c->again_n,
		    c->again_n == 0 ? 1 : 2 * c->again_n, sizeof(*c->again));
		if (again == NULL) {
			v->failed = true;
			return false;
		}
		c->again = again;
	}
	if (c->again_n == 0)
		c->again_from = r.seq;
	strlcpy(c->again[c->again_n++], r.hash, DIGEST_HEX);
	return true;
}

/* The anchor of a part; NULL: it has none. */
static const struct roll_mark *
part_anchor(const struct roll_entry *e, unsigned part)
{
	size_t i;

	for (i = 0; i < e->marks_n; i++) {
		if (e->marks[i].part == part)
			return &e->marks[i];
	}
	return NULL;
}

static bool
rows_hold(struct verify *v, struct segment_check *c, const struct roll_entry *e,
    int fd, uint64_t end)
{
	enum lines_event event;
	struct lines lines;
	const char *line;
	bool holds = true;
	size_t len;

	if (lines_init(&lines, fd, 0) == -1) {
		v->failed = true;
		return false;
	}
	while (
	    holds && (event = lines_next(&lines, &line, &len)) != LINES_END) {
		switch (event) {
		case LINES_ROW:
			holds = c->walk.seq < end
				    ? row_holds(v, c, e, line, len)
				    : keep_again(v, c, line, len);
			continue;
		case LINES_PIECE:
		case LINES_LAST:
			if (c->walk.seq >= end) {
				segment_walk_piece(&c->walk, line, len,
				    event == LINES_PIECE, v->digest);
				c->line += event == LINES_LAST;
				continue;
			}
			find(v, VERIFY_DAMAGED, c->file, c->line + 1, "form",
			    "is longer than any row");
			holds = false;
			break;
		case LINES_TORN:
			segment_walk_torn(&c->walk, line, len, v->digest);
			break;
		case LINES_FAILED:
			unreadable(v, c->file);
			holds = false;
			break;
		case LINES_END:
			break;
		}
		break;
	}
	lines_clear(&lines);
	return holds;
}

static bool
part_holds(struct verify *v, struct segment_check *c,
    const struct roll_entry *e, const char *day, unsigned part)
{
	const struct roll_mark *next;
	char name[STORE_SEGMENT_NAME];
	bool holds;
	int fd;

	store_segment_path(day, e->inv, part, name);
	snprintf(c->file, sizeof(c->file), "audit/%s", name);
	c->line = 0;
	fd = store_ledger_file(v->store, name);
	if (fd == -1) {
		if (is_unreadable(errno))
			unreadable(v, c->file);
		else
			find(v, VERIFY_DAMAGED, c->file, 0, "file",
			    errno == ENOENT
				? "is missing; it was opened: audit/%s/"
				  "host.jsonl:%" PRIu64
				: "is no regular file; it was opened: audit/%s/"
				  "host.jsonl:%" PRIu64,
			    e->opened_day, e->opened_line);
		return false;
	}
	next = part_anchor(e, part + 1);
	holds = rows_hold(v, c, e, fd, next == NULL ? UINT64_MAX : next->seq);
	close(fd);
	return holds;
}

/* The next part begins where its anchor says that the one before ended. */
static bool
joint_holds(struct verify *v, struct segment_check *c,
    const struct roll_entry *e, unsigned part)
{
	const struct roll_mark *m = part_anchor(e, part);

	if (m != NULL && m->seq == c->walk.seq &&
	    strcmp(m->head, c->walk.head) == 0)
		return true;
	find(v, VERIFY_DAMAGED, c->file, c->line, "part",
	    "ends with row %" PRIu64 "; row %" PRIu64 " was anchored: "
	    "audit/%s/host.jsonl:%" PRIu64,
	    c->walk.seq, m == NULL ? 0 : m->seq, m == NULL ? "" : m->day,
	    m == NULL ? 0 : m->line);
	return false;
}

/* All parts of a segment as far as anchors name them. */
static bool
parts_hold(struct verify *v, const struct roll *roll,
    const struct roll_entry *e, struct segment_check *c)
{
	const struct roll_mark *m;
	unsigned part;

	for (part = 1; part <= e->parts; part++) {
		if (part > 1 && !joint_holds(v, c, e, part))
			return false;
		if (!part_holds(v, c, e, roll->day, part))
			return false;
	}
	if (!marks_hold(v, c, e))
		return false;
	if (c->mark < e->marks_n) {
		m = &e->marks[c->mark];
		find(v, VERIFY_DAMAGED, c->file, c->line + 1, "mark",
		    "rows %" PRIu64 " to %" PRIu64 " are missing; they were "
		    "marked: audit/%s/host.jsonl:%" PRIu64,
		    c->walk.seq + 1, m->seq, m->day, m->line);
		return false;
	}
	return true;
}

static bool
segment_holds(struct verify *v, const struct roll *roll,
    const struct roll_entry *e, const char *day, struct segment_check *c)
{
	bool holds;

	memset(c, 0, sizeof(*c));
	segment_walk_begin(&c->walk, e->inv, e->head);
	if (day != NULL)
		strlcpy(c->walk.day, day, sizeof(c->walk.day));
	holds = parts_hold(v, roll, e, c);
	free(c->again);
	c->again = NULL;
	c->again_n = 0;
	return holds;
}

static void
count_segment(struct verify *v, const struct roll *roll)
{
	v->report->segments++;
	v->done++;
	if (v->wish->progress != NULL)
		v->wish->progress(v->wish->arg, roll->day, v->done, roll->n);
}

/*
 * What segment_closed says of the days before its own. It has to, where the
 * segment is of another day, and has nothing to say where it is of this one.
 */
static bool
read_before(struct verify *v, const struct row_read *r, const char *opened,
    const char *closed, struct segment_totals *before)
{
	bool wanted = strcmp(opened, closed) != 0, there;
	char day[CLOCK_DAY_SIZE] = "";
	struct json_span said;

	memset(before, 0, sizeof(*before));
	there = json_member(r->payload, r->payload_len, "before", &said);
	if (there && json_text_of(said.p, said.len, "day", day, sizeof(day)))
		segment_totals_read(said.p, said.len, before);
	if (there == wanted && (!wanted || strcmp(day, closed) == 0))
		return true;
	find(v, VERIFY_DAMAGED, v->file, v->line, "before",
	    wanted ? "says nothing of the days before %s"
		   : "says of days before %s, on which it was opened",
	    closed);
	return false;
}

static bool
before_holds(struct verify *v, const struct segment_check *c,
    const struct segment_totals *said)
{
	const struct segment_totals *is = &c->walk.before;

	if (c->walk.day[0] == '\0' || memcmp(said, is, sizeof(*is)) == 0)
		return true;
	find(v, VERIFY_DAMAGED, v->file, v->line, "before",
	    "%.36s: before %s there were %" PRIu64 " calls, %" PRIu64
	    " denied, %" PRIu64 " errors, %" PRIu64 " timeouts",
	    c->walk.inv, c->walk.day, is->calls, is->denied, is->errors,
	    is->timeouts);
	return false;
}

/* What segment_closed says against what the files say. */
static bool
close_holds(struct verify *v, const struct segment_check *c, unsigned parts,
    const struct row_read *r)
{
	const struct segment_walk *w = &c->walk;
	const struct {
		const char *name;
		uint64_t is;
	} counts[] = { { "parts", parts }, { "rows", w->rows },
		{ "bytes", w->bytes }, { "calls", w->calls },
		{ "denied", w->denied }, { "errors", w->errors },
		{ "timeouts", w->timeouts }, { "open_calls", w->open_calls },
		{ "torn_bytes", w->torn_bytes } };
	char text[DIGEST_HEX];
	uint64_t said, duplicates;
	size_t i;

	/* What was lost last has no row to tell of it. */
	if (!row_uint_of(r, "lost", &said) || said < w->lost) {
		find(v, VERIFY_DAMAGED, v->file, v->line, "lost",
		    "%.36s: lost is %" PRIu64
		    ", rows of the segment tell of %" PRIu64,
		    w->inv, said, w->lost);
		return false;
	}
	if (!row_uint_of(r, "spooled", &said) ||
	    !row_uint_of(r, "duplicates", &duplicates) || duplicates > said) {
		find(v, VERIFY_DAMAGED, v->file, v->line, "spooled",
		    "%.36s: spooled and duplicates are no counts", w->inv);
		return false;
	}
	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		if (row_uint_of(r, counts[i].name, &said) && said == counts[i].is)
			continue;
		if (i == 1 && said > w->rows)
			find(v, VERIFY_DAMAGED, c->file, c->line + 1, "rows",
			    "rows %" PRIu64 " to %" PRIu64 " are missing; they "
			    "were closed: %.100s:%" PRIu64,
			    w->rows + 1, said, v->file, v->line);
		else
			find(v, VERIFY_DAMAGED, v->file, v->line,
			    counts[i].name,
			    "%.36s: %s is %" PRIu64
			    ", the segment has %" PRIu64,
			    w->inv, counts[i].name, said, counts[i].is);
		return false;
	}
	if (!row_text_of(r, "head", text, sizeof(text)) ||
	    strcmp(text, w->head) != 0) {
		find(v, VERIFY_DAMAGED, c->file, c->line, "head",
		    "another last row was closed: %.100s:%" PRIu64, v->file,
		    v->line);
		return false;
	}
	if (w->torn_bytes == 0
		? !is_null(r, "torn_sha256")
		: !row_text_of(r, "torn_sha256", text, sizeof(text)) ||
		      strcmp(text, w->torn_sha256) != 0) {
		find(v, VERIFY_DAMAGED, c->file, c->line + 1, "torn_sha256",
		    "another fragment was closed: %.100s:%" PRIu64, v->file,
		    v->line);
		return false;
	}
	return true;
}

/* --- anchors --- */

static void __attribute__((format(printf, 3, 4)))
find_here(struct verify *v, const char *check, const char *fmt, ...)
{
	char message[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	find(v, VERIFY_DAMAGED, v->file, v->line, check, "%s", message);
	v->resync = true;
}

/* The open segment of an id: of this day, or of one before it. */
static struct roll_entry *
open_entry(const struct verify *v, const char *inv, struct roll **roll)
{
	struct roll_entry *e;
	size_t i;

	for (i = v->at + 1; i > 0; i--) {
		*roll = &v->days[i - 1];
		e = roll_find(*roll, inv);
		if (e != NULL && e->parts > 0)
			return e->closed ? NULL : e;
	}
	return NULL;
}

/* "DAY/seg/ab/ID.pN.jsonl", in the one spelling it can have. */
static bool
names_file(
    const struct row_read *r, const char *day, const char *inv, unsigned part)
{
	char file[STORE_SEGMENT_NAME], name[STORE_SEGMENT_NAME];

	store_segment_path(day, inv, part, name);
	return row_text_of(r, "file", file, sizeof(file)) &&
	       strcmp(file, name) == 0;
}

static void
on_opened(struct verify *v, const struct row_read *r, const char *inv)
{
	char file[STORE_SEGMENT_NAME], day[CLOCK_DAY_SIZE];
	struct roll_entry *e;
	struct roll *roll;

	row_text_of(r, "file", file, sizeof(file));
	strlcpy(day, file, sizeof(day));
	roll = store_is_day(day) ? day_of(v, day) : NULL;
	if (!store_is_day(day) || !names_file(r, day, inv, 1) ||
	    strcmp(day, v->days[v->at].day) > 0) {
		find_here(v, "file", "names no segment of this invocation");
		return;
	}
	if (!is_wanted(v, inv, day))
		return;
	v->known = true;
	if (roll == NULL) {
		find_here(v, "file", "audit/%s is missing", file);
		return;
	}
	e = roll_add(roll, inv);
	if (e == NULL) {
		v->failed = true;
		return;
	}
	if (e->parts > 0) {
		find_here(v, "opened",
		    "%s was opened before: audit/%s/"
		    "host.jsonl:%" PRIu64,
		    inv, e->opened_day, e->opened_line);
		return;
	}
	e->parts = 1;
	strlcpy(e->head, r->hash, sizeof(e->head));
	strlcpy(e->opened_day, v->days[v->at].day, sizeof(e->opened_day));
	e->opened_line = v->line;
}

/* In a part of the ledger, anchors of segments outside it are not looked at. */
static struct roll_entry *
must_be_open(struct verify *v, const char *inv, struct roll **roll)
{
	struct roll_entry *e = open_entry(v, inv, roll);

	if (e == NULL && v->wish->day == NULL &&
	    !is_unknown(v, "", v->days[v->at].day) &&
	    (v->wish->invocation == NULL ||
		(strcmp(v->wish->invocation, inv) == 0 && v->known)))
		find_here(v, "opened", "%s is not open", inv);
	return e;
}

static void
add_mark(struct verify *v, struct roll_entry *e, uint64_t seq, const char *head,
    unsigned part)
{
	struct roll_mark m;

	memset(&m, 0, sizeof(m));
	m.seq = seq;
	m.part = part;
	m.line = v->line;
	strlcpy(m.head, head, sizeof(m.head));
	strlcpy(m.day, v->days[v->at].day, sizeof(m.day));
	if (roll_mark(e, &m) == -1)
		v->failed = true;
}

static void
on_part(struct verify *v, const struct row_read *r, const char *inv)
{
	char head[DIGEST_HEX];
	struct roll_entry *e;
	struct roll *roll;
	uint64_t part, seq;

	e = must_be_open(v, inv, &roll);
	if (e == NULL)
		return;
	if (!row_uint_of(r, "part", &part) || part != e->parts + 1 ||
	    !names_file(r, roll->day, inv, e->parts + 1) ||
	    !row_uint_of(r, "seq", &seq) || seq == 0 ||
	    !row_text_of(r, "head", head, sizeof(head))) {
		find_here(v, "part", "is not the next part of %s", inv);
		return;
	}
	e->parts++;
	add_mark(v, e, seq - 1, head, e->parts);
}

/* One that books_close can have written, and not "damaged". */
static bool
reason_holds(struct verify *v, const struct row_read *r, const char *inv)
{
	static const char *const reasons[] =
	    { "normal", "incomplete", "crash" };
	char reason[32] = "";
	size_t i;

	row_text_of(r, "reason", reason, sizeof(reason));
	for (i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (strcmp(reason, reasons[i]) == 0)
			return true;
	}
	find(v, VERIFY_DAMAGED, v->file, v->line, "closed",
	    strcmp(reason, "damaged") == 0
		? "%s was closed as damaged"
		: "%s was closed for a reason that nobody writes",
	    inv);
	return false;
}

static void
on_closed(struct verify *v, const struct row_read *r, const char *inv)
{
	struct segment_check c;
	struct segment_totals before;
	struct roll_entry *e;
	struct roll *roll;
	const char *day = v->days[v->at].day;
	uint64_t lost;

	e = must_be_open(v, inv, &roll);
	if (e == NULL)
		return;
	e->closed = true;
	if (read_before(v, r, roll->day, day, &before) &&
	    segment_holds(v, roll, e,
		strcmp(roll->day, day) != 0 ? day : NULL, &c) &&
	    close_holds(v, &c, e->parts, r) && before_holds(v, &c, &before)) {
		if (reason_holds(v, r, inv) && !c.ended)
			find(v, VERIFY_DAMAGED, c.file, c.line, "order",
			    "has no skill.invoked_completed");
		v->report->torn += c.walk.torn_bytes > 0;
	}
	if (row_uint_of(r, "lost", &lost))
		v->report->lost += lost;
	roll_forget(e);
	count_segment(v, roll);
}

static void
on_marks(struct verify *v, const struct row_read *r)
{
	struct json_span marks, one = { NULL, 0 };
	char inv[STORE_UUID_SIZE], head[DIGEST_HEX];
	struct roll_entry *e;
	struct roll *roll;
	uint64_t seq;

	if (!json_member(r->payload, r->payload_len, "marks", &marks))
		marks.len = 0;
	if (marks.len == 0 || marks.p[0] != '[') {
		find_here(v, "mark", "has no list of marks");
		return;
	}
	while (json_element(marks.p, marks.len, &one)) {
		if (!json_text_of(one.p, one.len, "invocation_id", inv,
			sizeof(inv)) ||
		    !json_uint_of(one.p, one.len, "seq", &seq) ||
		    !json_text_of(one.p, one.len, "head", head,
			sizeof(head))) {
			find_here(v, "mark", "has a mark of no row");
			return;
		}
		e = must_be_open(v, inv, &roll);
		if (e != NULL)
			add_mark(v, e, seq, head, 0);
	}
}

static void
sum_closed(struct verify *v, const struct row_read *r)
{
	segment_totals_add(&v->sum.totals, r->payload, r->payload_len);
}

/* The first row of a day hangs on the last one of the day before. */
static void
on_day(struct verify *v, const struct row_read *r)
{
	char day[CLOCK_DAY_SIZE], head[DIGEST_HEX];
	bool named = row_text_of(r, "prev_day", day, sizeof(day));

	row_text_of(r, "prev_head", head, sizeof(head));
	if (!named && !is_null(r, "prev_day")) {
		find_here(v, "link", "names no day");
	} else if (!named && v->hseq > 0) {
		find_here(v, "link", "is not the first day: %s came before it",
		    v->before);
	} else if (named && strcmp(day, v->before) != 0) {
		find_here(v, "link", "the day %s before it is missing", day);
	} else if (named && strcmp(head, v->head) != 0 && !v->resync) {
		find_here(v, "link", "another last row of %s was linked", day);
	}
}

static void
on_invocation(struct verify *v, enum row_kind kind, const struct row_read *r)
{
	char inv[STORE_UUID_SIZE];

	if (!row_text_of(r, "invocation_id", inv, sizeof(inv)) ||
	    !store_is_uuid(inv))
		find_here(v, "payload", "names no invocation");
	else if (kind == ROW_SEGMENT_OPENED)
		on_opened(v, r, inv);
	else if (kind == ROW_SEGMENT_PART)
		on_part(v, r, inv);
	else
		on_closed(v, r, inv);
}

static void
on_anchor(struct verify *v, enum row_kind kind, const struct row_read *r)
{
	if (kind == ROW_SEGMENT_CLOSED)
		sum_closed(v, r);
	if (kind == ROW_SEGMENT_MARK)
		on_marks(v, r);
	else if (kind >= ROW_SEGMENT_OPENED && kind <= ROW_SEGMENT_CLOSED)
		on_invocation(v, kind, r);
	else if (kind < ROW_DAY_OPENED || kind == ROW_KINDS)
		find_here(v, "kind", "is no kind of anchor");
}

/* --- fragments --- */

/*
 * Could this be more than what a crash leaves? A torn row has no end, so what
 * has a hash and an end is a row that somebody changed.
 */
static bool
has_row(const struct buf *gap)
{
	static const char mark[] = "\"hash\":\"", close[] = "\"}";
	const char *p = gap->data, *end = gap->data + gap->len;
	size_t i;

	while (p != NULL && p < end &&
	       (p = memmem(p, (size_t)(end - p), mark, sizeof(mark) - 1)) !=
		   NULL) {
		p += sizeof(mark) - 1;
		for (i = 0; i < DIGEST_HEX - 1 && p + i < end &&
			    ((p[i] >= '0' && p[i] <= '9') ||
				(p[i] >= 'a' && p[i] <= 'f'));
		     i++)
			;
		if (i == DIGEST_HEX - 1 && end - (p + i) >= 2 &&
		    memcmp(p + i, close, 2) == 0)
			return true;
	}
	return false;
}

static void
find_gap(struct verify *v, enum verify_level level)
{
	static const enum segment_fault as[] = {
		[ROW_FAULT_FORM] = SEGMENT_FORM,
		[ROW_FAULT_OWNER] = SEGMENT_INVOCATION,
		[ROW_FAULT_HASH] = SEGMENT_HASH,
	};
	const char *check = faults[as[v->gap_fault]].check;
	const char *message = faults[as[v->gap_fault]].message;

	if (v->gap_fault == ROW_FAULT_OWNER) {
		check = "host";
		message = "is of another host";
	}
	if (level == VERIFY_LEFT) {
		check = "torn";
		message = "was torn by a crash; recovery will name it";
	}
	find(v, level, v->file, v->gap_line, check, "%s", message);
	buf_reset(&v->gap);
	v->resync = true;
}

static void
keep_gap(struct verify *v, const char *line, size_t len, bool feed,
    enum row_fault fault)
{
	if (v->gap.len == 0) {
		v->gap_line = v->line;
		v->gap_fault = fault;
	}
	if (buf_put(&v->gap, line, len) == -1 ||
	    (feed && buf_putc(&v->gap, '\n') == -1))
		v->gap.failed = true; /* then no anchor can name it */
}

/* audit.recovered names what lies before it, all of it and nothing else. */
static void
on_recovered(struct verify *v, const struct row_read *r)
{
	char text[DIGEST_TEXT], said[DIGEST_HEX];
	struct buf *gap = &v->gap;
	uint64_t bytes;

	if (gap->len > 0 && gap->data[gap->len - 1] == '\n')
		gap->len--;
	digest_text(v->digest, gap->data, gap->len, text);
	if (gap->len == 0 || gap->failed || has_row(gap) ||
	    !row_uint_of(r, "torn_bytes", &bytes) || bytes != gap->len ||
	    !row_text_of(r, "torn_sha256", said, sizeof(said)) ||
	    strcmp(said, text) != 0) {
		if (gap->len > 0)
			find_gap(v, VERIFY_DAMAGED);
		else
			find_here(v, "torn", "names a fragment that is gone");
		return;
	}
	v->report->torn++;
	buf_reset(gap);
}

/* --- the chain of anchors --- */

static void
check_kept(struct verify *v, const struct row_read *r, uint64_t begin)
{
	const struct kept *k = &v->kept;
	char file[PATH_SIZE];

	if (!k->given || k->hseq >= r->seq)
		return;
	v->kept.given = false;
	/* The sum covers the rows before this one, so it must end here. */
	if (k->hseq == r->seq - 1 && k->offset <= begin &&
	    memcmp(&k->totals, &v->sum.totals, sizeof(k->totals)) == 0 &&
	    k->offset >= v->sum.offset)
		return;
	snprintf(file, sizeof(file), "audit/%s/totals", v->days[v->at].day);
	find(v, VERIFY_DAMAGED, file, 0, "totals",
	    "the sum up to anchor %" PRIu64
	    " is not what the anchors add up to",
	    k->hseq);
}

static void
check_expected(struct verify *v, const struct row_read *r)
{
	if (v->wish->expect_hash == NULL || r->seq != v->wish->expect_hseq)
		return;
	v->expected = true;
	if (strcmp(v->wish->expect_hash, r->hash) != 0)
		find_here(
		    v, "expect", "anchor %" PRIu64 " has another hash", r->seq);
}

static void
check_place(struct verify *v, const struct row_read *r, enum row_kind kind)
{
	if (v->gap.len > 0 && kind != ROW_DAY_OPENED && kind != ROW_RECOVERED)
		find_gap(v, VERIFY_DAMAGED);
	if (v->first != (kind == ROW_DAY_OPENED))
		find_here(v, "day",
		    v->first ? "the day does not begin with audit.day_opened"
			     : "the day begins a second time");
	if (kind == ROW_DAY_OPENED)
		on_day(v, r);
	if (!v->resync && r->seq > v->hseq + 1)
		find_here(v, "hseq",
		    "anchors %" PRIu64 " to %" PRIu64 " are missing",
		    v->hseq + 1, r->seq - 1);
	else if (!v->resync && r->seq != v->hseq + 1)
		find_here(v, "hseq", "is not the next anchor");
	else if (!v->resync && strcmp(r->prev, v->head) != 0)
		find_here(v, "prev", "%s", faults[SEGMENT_PREV].message);
}

static void
take_anchor(struct verify *v, const char *line, size_t len, uint64_t begin)
{
	enum row_kind kind;
	struct row_read r;

	bool whole = row_read(line, len, true, v->store->host, v->digest, &r) ==
		     0;

	if (!whole || !json_scan(r.payload, r.payload_len, false, NULL, NULL)) {
		keep_gap(v, line, len, true, whole ? ROW_FAULT_FORM : r.fault);
		return;
	}
	kind = row_kind_of(r.kind);
	check_kept(v, &r, begin);
	check_place(v, &r, kind);
	if (strcmp(r.by, "supervisor") != 0 && strcmp(r.by, "recovery") != 0)
		find_here(v, faults[SEGMENT_KIND].check, "%s",
		    faults[SEGMENT_KIND].message);
	v->first = false;
	v->resync = false;
	v->hseq = r.seq;
	strlcpy(v->head, r.hash, sizeof(v->head));
	strlcpy(v->before, v->days[v->at].day, sizeof(v->before));
	v->report->anchors++;
	check_expected(v, &r);
	if (kind == ROW_RECOVERED)
		on_recovered(v, &r);
	else
		on_anchor(v, kind, &r);
	v->resync = false;
	v->sum.offset = lines_offset(&v->lines);
	v->sum.hseq = r.seq;
}

/* Rows of the day's file, up to where it ends now. */
static enum lines_event
read_on(struct verify *v)
{
	enum lines_event event;
	const char *line;
	uint64_t begin;
	size_t len;

	for (;;) {
		begin = lines_offset(&v->lines);
		event = lines_next(&v->lines, &line, &len);
		if (v->failed)
			return LINES_FAILED;
		if (event == LINES_ROW) {
			v->line++;
			take_anchor(v, line, len, begin);
		} else if (event == LINES_PIECE || event == LINES_LAST) {
			v->line += v->gap.len == 0;
			keep_gap(v, line, len, event == LINES_LAST,
			    ROW_FAULT_FORM);
		} else {
			return event;
		}
	}
}

/*
 * A row that is being written looks torn: with the lock held nobody writes,
 * and what is still torn then stays so.
 */
static enum lines_event
read_end(struct verify *v)
{
	const struct timespec nap = { 0, 1000000 };
	enum lines_event event = read_on(v);
	int64_t until = clock_boot() + v->wish->patience;

	if (event != LINES_TORN)
		return event;
	while (flock(v->fd, LOCK_SH | LOCK_NB) == -1 && clock_boot() < until)
		nanosleep(&nap, NULL);
	event = read_on(v);
	flock(v->fd, LOCK_UN);
	return event;
}

static void
read_kept(struct verify *v)
{
	char name[32], file[PATH_SIZE], text[ANCHOR_TOTALS_SIZE];
	struct kept *k = &v->kept;
	struct anchor_totals t;
	ssize_t n;
	int fd;

	memset(k, 0, sizeof(*k));
	memset(&t, 0, sizeof(t));
	memset(&v->sum, 0, sizeof(v->sum));
	snprintf(name, sizeof(name), "%s/totals", v->days[v->at].day);
	fd = store_ledger_file(v->store, name);
	if (fd == -1 && errno == ENOENT)
		return;
	snprintf(file, sizeof(file), "audit/%s", name);
	n = fd == -1 ? -1 : pread(fd, text, sizeof(text), 0);
	if (n == -1)
		unopened(v, file);
	if (fd != -1)
		close(fd);
	if (n <= 0)
		return;
	k->given = anchor_totals_parse(text, (size_t)n, &t);
	k->hseq = t.hseq;
	k->offset = t.offset;
	k->totals = (struct segment_totals){ t.calls, t.denied, t.errors,
		t.timeouts };
	if (!k->given)
		find(v, VERIFY_DAMAGED, file, 0, "totals", "is no kept sum");
}

/* The next anchor that can be read follows one that cannot. */
static void
skip_day(struct verify *v)
{
	struct roll *roll = &v->days[v->at];

	unreadable(v, v->file);
	roll->unread = true;
	v->resync = true;
	strlcpy(v->before, roll->day, sizeof(v->before));
}

/* The whole next row, but for the line feed that recovery will give it. */
static bool
is_next_row(const struct verify *v)
{
	struct row_read r;

	return row_read(v->gap.data, v->gap.len, true, v->store->host,
		   v->digest, &r) == 0 &&
	       r.seq == v->hseq + 1 && strcmp(r.prev, v->head) == 0;
}

/* What the file's end says that no further row can say. */
static void
end_day(struct verify *v, enum lines_event event, bool newest)
{
	struct row_read end;
	const char *rest = NULL;
	size_t len = 0;
	bool fresh = v->gap.len == 0;

	if (event == LINES_FAILED && !v->failed) {
		skip_day(v);
		return;
	}
	if (event == LINES_TORN &&
	    lines_next(&v->lines, &rest, &len) == LINES_TORN) {
		v->line += fresh;
		keep_gap(v, rest, len, false, ROW_FAULT_FORM);
	}
	if (v->gap.len > 0)
		find_gap(v, newest && fresh && event == LINES_TORN &&
				    !v->gap.failed &&
				    (!has_row(&v->gap) || is_next_row(v))
				? VERIFY_LEFT
				: VERIFY_DAMAGED);
	memset(&end, 0, sizeof(end));
	end.seq = v->hseq + 1;
	if (v->kept.given && v->kept.hseq > v->hseq)
		find(v, VERIFY_DAMAGED, v->file, v->line + 1, "totals",
		    "anchors %" PRIu64 " to %" PRIu64 " are missing; they "
		    "were summed up",
		    v->hseq + 1, v->kept.hseq);
	else
		check_kept(v, &end, lines_offset(&v->lines));
}

static void
close_day(struct verify *v)
{
	if (v->fd == -1)
		return;
	lines_clear(&v->lines);
	close(v->fd);
	v->fd = -1;
}

/* The anchors of a day; its file stays open, so that more can be read. */
static enum lines_event
walk_day(struct verify *v)
{
	char name[32];

	v->line = 0;
	v->first = true;
	v->done = 0;
	buf_reset(&v->gap);
	list_segments(v, &v->days[v->at]);
	read_kept(v);
	snprintf(name, sizeof(name), "%s/host.jsonl", v->days[v->at].day);
	snprintf(v->file, sizeof(v->file), "audit/%s", name);
	v->fd = store_ledger_file(v->store, name);
	if (v->fd == -1) {
		/* What it should anchor is found to have no anchor. */
		if (is_unreadable(errno))
			skip_day(v);
		else if (errno != ENOENT)
			find(v, VERIFY_DAMAGED, v->file, 0, "file",
			    "is no regular file");
		v->first = false;
		return LINES_END;
	}
	v->report->days++;
	if (lines_init(&v->lines, v->fd, 0) == -1) {
		v->failed = true;
		close(v->fd);
		v->fd = -1;
		return LINES_FAILED;
	}
	return read_end(v);
}

/* Rolls of days that nothing will come to any more. */
static void
drop_old(struct verify *v, void (*end)(struct verify *, struct roll *))
{
	struct roll_entry *e;
	bool open;
	size_t i, at;

	for (i = 0; i + 1 < v->at; i++) {
		if (v->days[i].n == 0)
			continue;
		open = false;
		for (at = 0; (e = roll_next(&v->days[i], &at)) != NULL;)
			open |= e->parts > 0 && !e->closed;
		if (open)
			continue;
		end(v, &v->days[i]);
		roll_clear(&v->days[i]);
	}
}

/* --- what is left when all anchors were read --- */

/* Read what has been anchored since; true when something came. */
static void
follow(struct verify *v)
{
	size_t had = v->days_n;

	if (v->fd != -1)
		(void)read_end(v);
	if (list_days(v) == -1 || v->days_n == had)
		return;
	while (v->at + 1 < v->days_n && !v->failed) {
		if (v->fd != -1) {
			end_day(v, read_end(v), false);
			close_day(v);
		}
		v->at++;
		(void)walk_day(v);
	}
}

/* Not closed although nobody holds its lock, or on disk without an anchor. */
static bool
is_unsettled(const struct verify *v, const struct roll_entry *e)
{
	return !store_running(v->store, e->inv) &&
	       ((e->parts > 0 && !e->closed) || e->files > e->parts);
}

/*
 * Whoever opens or closes books holds the lock meanwhile, so what has none is
 * settled, or was settled after its anchors were read: then they say so now.
 */
static void
settle(struct verify *v)
{
	const struct timespec nap = { 0, 20000000 };
	struct roll_entry *e;
	bool waiting;
	size_t i, at;
	int rounds = 0;

	do {
		follow(v);
		waiting = false;
		for (i = 0; i < v->days_n && !waiting; i++) {
			for (at = 0;
			     !waiting && (e = roll_next(&v->days[i], &at));)
				waiting = is_unsettled(v, e);
		}
		waiting = waiting && !v->failed && ++rounds < SETTLE_ROUNDS &&
			  v->wish->patience > 0;
		if (waiting)
			nanosleep(&nap, NULL);
	} while (waiting);
}

/* A file above the parts that are anchored. */
static void
check_orphan(
    struct verify *v, struct roll *roll, const char *inv, unsigned part)
{
	char name[STORE_SEGMENT_NAME], file[PATH_SIZE];
	struct roll_entry *e;
	struct stat st;

	store_segment_path(roll->day, inv, part, name);
	if (fstatat(v->store->audit_fd, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return;
	snprintf(file, sizeof(file), "audit/%s", name);
	if (S_ISREG(st.st_mode) && st.st_size == 0) {
		if (!store_running(v->store, inv) &&
		    !is_unknown(v, roll->day, LAST_DAY))
			find(v, VERIFY_LEFT, file, 0, "anchor",
			    "is empty, and no anchor names it");
		return;
	}
	if (v->newest)
		follow(v); /* it may have got its anchor just now */
	e = roll_find(roll, inv);
	if ((e == NULL || e->parts < part) &&
	    !is_unknown(v, roll->day, LAST_DAY))
		find(v, VERIFY_DAMAGED, file, 0, "anchor",
		    "has rows, and no anchor names it");
}

static void
check_open(struct verify *v, struct roll *roll, const char *inv)
{
	struct roll_entry *e = roll_find(roll, inv);
	struct segment_check c;
	bool running = store_running(v->store, inv);

	/* One that has ended by now was closed before it let go of its lock. */
	if (!running && v->newest) {
		follow(v);
		e = roll_find(roll, inv);
	}
	if (e == NULL || e->closed)
		return;
	if (segment_holds(v, roll, e, NULL, &c)) {
		if (running)
			v->report->running++;
		else if (!is_unknown(v, roll->day, LAST_DAY))
			find(v, VERIFY_LEFT, c.file, 0, "lock",
			    "was never closed, and nobody writes it");
	}
	count_segment(v, roll);
}

/* The last look at a day's segments. */
static void
end_roll(struct verify *v, struct roll *roll)
{
	char inv[STORE_UUID_SIZE] = "";
	struct roll_entry *e;
	unsigned part, files;
	size_t at;

	for (at = 0; !v->failed && (e = roll_next(roll, &at)) != NULL;) {
		strlcpy(inv, e->inv, sizeof(inv));
		files = e->files;
		if (e->parts > 0 && !e->closed)
			check_open(v, roll, inv);
		e = roll_find(roll, inv);
		/* The entry may move: only its name is used from here on. */
		for (part = e->parts + 1; part <= files; part++)
			check_orphan(v, roll, inv, part);
	}
}

/* --- from where to where --- */

/* The last row of a day, for who begins with the next one. */
static int
seed(struct verify *v, size_t day)
{
	enum lines_event event;
	struct lines lines;
	struct row_read r;
	const char *line;
	char name[32];
	size_t len;
	int fd;

	snprintf(name, sizeof(name), "%s/host.jsonl", v->days[day].day);
	fd = store_ledger_file(v->store, name);
	if (fd == -1)
		return errno == ENOENT ? 0 : -1;
	if (lines_init(&lines, fd, 0) == -1) {
		close(fd);
		return -1;
	}
	while ((event = lines_next_row(&lines, &line, &len)) == LINES_ROW) {
		if (row_read(line, len, true, v->store->host, v->digest, &r) ==
		    -1)
			continue;
		v->hseq = r.seq;
		strlcpy(v->head, r.hash, sizeof(v->head));
		strlcpy(v->before, v->days[day].day, sizeof(v->before));
	}
	lines_clear(&lines);
	close(fd);
	return 0;
}

/* The first and the last day that the wish is about. -1 with ENOENT: none. */
static int
choose_days(struct verify *v, size_t *from, size_t *last)
{
	const char *inv = v->wish->invocation;
	bool found = false;
	size_t i;

	*from = 0;
	*last = v->days_n;
	for (i = 0; i < v->days_n; i++) {
		if (v->wish->day != NULL
			? strcmp(v->wish->day, v->days[i].day) != 0
			: inv == NULL || store_segment_exists(v->store,
					     v->days[i].day, inv) != 1)
			continue;
		if (!found)
			*from = i;
		found = true;
		*last = i;
	}
	if (!found && v->wish->day != NULL) {
		errno = ENOENT;
		return -1;
	}
	/* A file that is gone is looked for in all anchors. */
	if (v->wish->expect_hash != NULL || !found)
		*from = 0;
	if (v->wish->expect_hash != NULL || !found)
		*last = v->days_n;
	for (i = *from; i > 0 && v->before[0] == '\0'; i--) {
		if (seed(v, i - 1) == -1)
			return -1;
	}
	return 0;
}

/* Is everything that was asked for closed, so that later days say nothing? */
static bool
is_enough(const struct verify *v, size_t last)
{
	struct roll_entry *e;
	size_t i, at;

	/* What was begun at midnight is anchored on the day after. */
	if (last == v->days_n || v->at < last + (v->wish->day != NULL))
		return false;
	for (i = 0; i <= v->at; i++) {
		for (at = 0; (e = roll_next(&v->days[i], &at)) != NULL;) {
			if (!e->closed && is_wanted(v, e->inv, v->days[i].day))
				return false;
		}
	}
	return true;
}

static void
walk_all(struct verify *v, size_t from, size_t last)
{
	enum lines_event event;
	size_t i;

	for (v->at = from; v->at < v->days_n; v->at++) {
		event = walk_day(v);
		if (v->failed)
			return;
		if (v->at + 1 == v->days_n || is_enough(v, last))
			break;
		if (v->fd != -1)
			end_day(v, event, false);
		close_day(v);
		drop_old(v, end_roll);
	}
	/* Nothing to read at all, or a day behind which others are. */
	if (v->at == v->days_n)
		return;
	v->newest = v->at + 1 == v->days_n;
	if (v->newest)
		settle(v);
	if (v->fd != -1)
		end_day(v, read_end(v), v->newest);
	for (i = 0; i < v->days_n; i++)
		end_roll(v, &v->days[i]);
	close_day(v);
}

/* host.json has one form; every row names the id in it. */
static void
check_host(struct verify *v)
{
	char text[128], want[128];
	ssize_t n = -1;
	int fd = store_ledger_file(v->store, "host.json");

	if (fd != -1) {
		n = read(fd, text, sizeof(text));
		close(fd);
	}
	if (n == -1) {
		unopened(v, "audit/host.json");
		return;
	}
	snprintf(
	    want, sizeof(want), "{\"v\":1,\"host\":\"%s\"}\n", v->store->host);
	if ((size_t)n != strlen(want) || memcmp(text, want, (size_t)n) != 0)
		find(v, VERIFY_DAMAGED, "audit/host.json", 1, "form",
		    "is not what was written when the store was made");
}

static int
run(struct verify *v)
{
	size_t from, last;

	check_host(v);
	if (v->wish->invocation == NULL && v->wish->day == NULL)
		check_names(v, v->store->audit_fd, ".", "audit", is_of_audit);
	if (list_days(v) == -1 || choose_days(v, &from, &last) == -1)
		return -1;
	walk_all(v, from, last);
	if (v->failed) {
		errno = ENOMEM;
		return -1;
	}
	if (v->wish->expect_hash != NULL && !v->expected &&
	    !is_unknown(v, "", LAST_DAY))
		find(v, VERIFY_DAMAGED, v->file, v->line, "expect",
		    "there is no anchor %" PRIu64 ": the ledger ends with "
		    "%" PRIu64,
		    v->wish->expect_hseq, v->hseq);
	if (v->wish->invocation != NULL && !v->known && v->report->n == 0) {
		errno = ENOENT;
		return -1;
	}
	v->report->hseq = v->hseq;
	strlcpy(v->report->head, v->head, sizeof(v->report->head));
	return 0;
}

int
verify_run(const struct store *s, const struct verify_wish *wish,
    struct verify_report *report)
{
	struct verify v;
	int result = -1, saved;
	size_t i;

	memset(&v, 0, sizeof(v));
	memset(report, 0, sizeof(*report));
	v.store = s;
	v.wish = wish;
	v.report = report;
	v.fd = -1;
	strlcpy(v.head, ZERO_HASH, sizeof(v.head));
	buf_init(&v.gap, GAP_MAX);
	v.digest = digest_new(NULL, 0);
	if (v.digest != NULL)
		result = run(&v);
	saved = errno;
	close_day(&v);
	for (i = 0; i < v.days_n; i++)
		roll_clear(&v.days[i]);
	free(v.days);
	buf_clear(&v.gap);
	digest_free(v.digest);
	errno = saved;
	return result;
}
