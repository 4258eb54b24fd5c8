/*
 * Counting for the metrics. A row is in the file before it is counted, so of a
 * broker that is killed the count is the higher of what its page and what its
 * rows say; both only ever grow. Pages come from processes that serve hostile
 * programs: what is in them is bounded, and never a label.
 */

#include "audit/tally.h"

#include <stdatomic.h>
#include <string.h>

#include "audit/clock.h"

#define WORDS_MAX 8
/* An invocation lives a day and has 16 calls at once: no count of things, bytes
 * or nanoseconds gets there. */
#define MOST (UINT64_C(1) << 51)

static const char *const words[TALLY_LISTS][WORDS_MAX] = {
    [TALLY_OUTCOME] = {[TALLY_SUCCESS] = "success",
	[TALLY_ERROR] = "error",
	[TALLY_DENIED] = "denied",
	[TALLY_TIMEOUT] = "timeout"},
    [TALLY_ENDING] = {[TALLY_END_SUCCESS] = "success",
	[TALLY_END_ERROR] = "error",
	[TALLY_END_PANIC] = "panic",
	[TALLY_END_KILLED] = "killed",
	[TALLY_END_TIMEOUT] = "timeout",
	[TALLY_END_NO_CONNECT] = "no_connect",
	[TALLY_END_REFUSED] = "refused"},
    [TALLY_VALIDATION] = {[TALLY_OK] = "ok",
	[TALLY_PARSE_ERR] = "parse_err",
	[TALLY_REQUIRED_MISSING] = "required_missing",
	[TALLY_INVALID_FIELD] = "invalid_field",
	[TALLY_SIGNATURE_FAILED] = "signature_failed",
	[TALLY_VERSION_SKEW] = "version_skew"},
    [TALLY_DIRECTION] = {[TALLY_RX] = "rx", [TALLY_TX] = "tx"},
    [TALLY_DROP] = {[TALLY_QUEUE_FULL] = "queue_full",
	[TALLY_REJECTED] = "rejected",
	[TALLY_FAILED] = "failed",
	[TALLY_SHUTDOWN] = "shutdown"},
};

_Static_assert(TALLY_OUTCOMES < WORDS_MAX && TALLY_ENDINGS < WORDS_MAX &&
		   TALLY_VALIDATIONS < WORDS_MAX && TALLY_DROPS < WORDS_MAX,
    "each list ends with NULL");

/* A broker answers in microseconds, a Bash call takes minutes. */
static const struct {
	int64_t ns;
	const char *text;
} bounds[TALLY_BUCKETS] = {
    {10 * 1000, "1e-05"},
    {25 * 1000, "2.5e-05"},
    {50 * 1000, "5e-05"},
    {100 * 1000, "0.0001"},
    {250 * 1000, "0.00025"},
    {500 * 1000, "0.0005"},
    {1 * CLOCK_MS, "0.001"},
    {5 * CLOCK_MS / 2, "0.0025"},
    {5 * CLOCK_MS, "0.005"},
    {10 * CLOCK_MS, "0.01"},
    {25 * CLOCK_MS, "0.025"},
    {50 * CLOCK_MS, "0.05"},
    {100 * CLOCK_MS, "0.1"},
    {250 * CLOCK_MS, "0.25"},
    {500 * CLOCK_MS, "0.5"},
    {1 * CLOCK_SECOND, "1.0"},
    {5 * CLOCK_SECOND / 2, "2.5"},
    {5 * CLOCK_SECOND, "5.0"},
    {10 * CLOCK_SECOND, "10.0"},
    {30 * CLOCK_SECOND, "30.0"},
    {60 * CLOCK_SECOND, "60.0"},
    {300 * CLOCK_SECOND, "300.0"},
    {3600 * CLOCK_SECOND, "3600.0"},
    {INT64_MAX, "+Inf"},
};

const char *
tally_word(enum tally_list list, size_t i)
{
	return i < WORDS_MAX ? words[list][i] : NULL;
}

int
tally_place(enum tally_list list, const char *word)
{
	int i;

	for (i = 0; words[list][i] != NULL; i++) {
		if (strcmp(words[list][i], word) == 0)
			return i;
	}
	return -1;
}

int64_t
tally_bound(size_t i)
{
	return bounds[i].ns;
}

const char *
tally_bound_text(size_t i)
{
	return bounds[i].text;
}

/* --- names --- */

/* As registries have them, and fit to be a label as they are. */
static bool
is_name(const char name[TALLY_NAME])
{
	size_t i;

	for (i = 0; i < TALLY_NAME && name[i] != '\0'; i++) {
		if (!((name[i] >= 'a' && name[i] <= 'z') ||
			(name[i] >= 'A' && name[i] <= 'Z') ||
			(name[i] >= '0' && name[i] <= '9') || name[i] == '_'))
			return false;
	}
	return i > 0 && i < TALLY_NAME;
}

static struct tally_tool *
find_tool(struct tally *t, const char *name)
{
	size_t i;

	for (i = 1; name != NULL && i < TALLY_TOOLS &&
		    t->tools[i].name[0] != '\0';
	     i++) {
		if (strcmp(t->tools[i].name, name) == 0)
			return &t->tools[i];
	}
	return &t->tools[0];
}

static struct tally_syscall *
find_syscall(struct tally *t, const char *name)
{
	size_t i;

	for (i = 1; i < TALLY_SYSCALLS && t->syscalls[i].name[0] != '\0'; i++) {
		if (strcmp(t->syscalls[i].name, name) == 0)
			return &t->syscalls[i];
	}
	return &t->syscalls[0];
}

/* What finds no place, or is too long, is counted as unknown. */
void
tally_extend(struct tally *t, const struct tally_names *names)
{
	const char *const *n;
	size_t i;

	for (n = names->tools; *n != NULL; n++) {
		for (i = 1; i < TALLY_TOOLS && t->tools[i].name[0] != '\0' &&
			    strcmp(t->tools[i].name, *n) != 0;
		     i++)
			;
		if (i < TALLY_TOOLS && strlen(*n) < TALLY_NAME)
			strlcpy(t->tools[i].name, *n, TALLY_NAME);
	}
	for (n = names->syscalls; *n != NULL; n++) {
		for (i = 1;
		     i < TALLY_SYSCALLS && t->syscalls[i].name[0] != '\0' &&
		     strcmp(t->syscalls[i].name, *n) != 0;
		     i++)
			;
		if (i < TALLY_SYSCALLS && strlen(*n) < TALLY_NAME)
			strlcpy(t->syscalls[i].name, *n, TALLY_NAME);
	}
}

/* The same for an empty one, in one step each: lists have a name once. */
static void
fill(struct tally *t, const struct tally_names *names)
{
	const char *const *n;
	size_t i;

	for (n = names->tools, i = 1; *n != NULL && i < TALLY_TOOLS; n++) {
		if (strlen(*n) < TALLY_NAME)
			strlcpy(t->tools[i++].name, *n, TALLY_NAME);
	}
	for (n = names->syscalls, i = 1; *n != NULL && i < TALLY_SYSCALLS;
	     n++) {
		if (strlen(*n) < TALLY_NAME)
			strlcpy(t->syscalls[i++].name, *n, TALLY_NAME);
	}
}

void
tally_init(struct tally *t, const struct tally_names *names)
{
	memset(t, 0, sizeof(*t));
	strlcpy(t->tools[0].name, TALLY_UNKNOWN, TALLY_NAME);
	strlcpy(t->syscalls[0].name, TALLY_UNKNOWN, TALLY_NAME);
	if (names != NULL)
		fill(t, names);
	/* Last: before it is there, a page is none. */
	atomic_thread_fence(memory_order_release);
	t->magic = TALLY_MAGIC;
}

/* --- counting --- */

void
tally_count(uint64_t *cell, uint64_t n)
{
	__atomic_fetch_add(cell, n, __ATOMIC_RELAXED);
}

void
tally_set(uint64_t *cell, uint64_t n)
{
	__atomic_store_n(cell, n, __ATOMIC_RELAXED);
}

void
tally_observe(struct tally_histogram *h, int64_t ns)
{
	size_t i;

	if (ns < 0)
		ns = 0;
	for (i = 0; ns > bounds[i].ns; i++)
		;
	tally_count(&h->bucket[i], 1);
	tally_count(&h->sum, (uint64_t)ns);
}

void
tally_call(
    struct tally *t, const char *tool, enum tally_outcome outcome, int64_t ns)
{
	struct tally_tool *of = find_tool(t, tool);

	tally_count(&of->calls[outcome], 1);
	if (ns < 0)
		return;
	tally_observe(&of->took, ns);
	tally_set(&of->last, (uint64_t)ns);
}

void
tally_call_many(struct tally *t, const char *tool, enum tally_outcome outcome,
    uint64_t n)
{
	tally_count(&find_tool(t, tool)->calls[outcome], n);
}

void
tally_attempt(struct tally *t, const char *syscall, uint64_t n)
{
	tally_count(&find_syscall(t, syscall)->attempts, n);
}

uint64_t
tally_observed(const struct tally_histogram *h)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < TALLY_BUCKETS; i++)
		n += h->bucket[i];
	return n;
}

/* --- sums --- */

static void
add(uint64_t *to, const uint64_t *from, size_t n)
{
	uint64_t more;
	size_t i;

	for (i = 0; i < n; i++) {
		more = from[i] < MOST ? from[i] : MOST;
		to[i] = to[i] < INT64_MAX - more ? to[i] + more : INT64_MAX;
	}
}

static void
add_histogram(struct tally_histogram *to, const struct tally_histogram *from)
{
	add(to->bucket, from->bucket, TALLY_BUCKETS);
	add(&to->sum, &from->sum, 1);
}

void
tally_add(struct tally *into, const struct tally *from)
{
	const struct tally_syscall *call;
	const struct tally_tool *tool;
	struct tally_syscall *c;
	struct tally_tool *t;
	size_t i;

	if (from->magic != TALLY_MAGIC)
		return;
	for (i = 0; i < TALLY_TOOLS; i++) {
		tool = &from->tools[i];
		t = &into->tools[i];
		/* Most often both have the same names in the same places. */
		if (tool->name[0] == '\0' ||
		    memcmp(t->name, tool->name, TALLY_NAME) != 0)
			t = find_tool(
			    into, is_name(tool->name) ? tool->name : NULL);
		add(t->calls, tool->calls, TALLY_OUTCOMES);
		add_histogram(&t->took, &tool->took);
	}
	for (i = 0; i < TALLY_SYSCALLS; i++) {
		call = &from->syscalls[i];
		c = &into->syscalls[i];
		if (call->name[0] == '\0' ||
		    memcmp(c->name, call->name, TALLY_NAME) != 0)
			c = find_syscall(
			    into, is_name(call->name) ? call->name : "");
		add(&c->attempts, &call->attempts, 1);
	}
	add(into->endings, from->endings, TALLY_ENDINGS);
	add(into->validations, from->validations, TALLY_VALIDATIONS);
	add_histogram(&into->validation, &from->validation);
	add(into->bytes, from->bytes, TALLY_DIRECTIONS);
	add(into->spans_dropped, from->spans_dropped, TALLY_DROPS);
	add(&into->truncated, &from->truncated, 1);
	add(&into->bad_traces, &from->bad_traces, 1);
	add(&into->rows, &from->rows, 1);
	add(&into->spooled, &from->spooled, 1);
	add(&into->dropped, &from->dropped, 1);
}

static void
raise_all(uint64_t *to, const uint64_t *from, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (to[i] < from[i])
			to[i] = from[i];
	}
}

/* Rows know milliseconds only: of one that was not counted any more that is
 * what we have, and of more of them than a kill can leave it is all. */
static void
raise_tool(struct tally_tool *t, const struct tally_tool *rows)
{
	uint64_t have = tally_observed(&t->took);
	uint64_t want = tally_observed(&rows->took);

	raise_all(t->calls, rows->calls, TALLY_OUTCOMES);
	if (want == have + 1)
		tally_observe(&t->took, (int64_t)rows->last);
	else if (want > have)
		t->took = rows->took;
}

void
tally_raise(struct tally *t, const struct tally *rows)
{
	size_t i;

	for (i = 0; i < TALLY_TOOLS; i++)
		raise_tool(&t->tools[i], &rows->tools[i]);
	for (i = 0; i < TALLY_SYSCALLS; i++)
		raise_all(&t->syscalls[i].attempts,
		    &rows->syscalls[i].attempts, 1);
	raise_all(t->endings, rows->endings, TALLY_ENDINGS);
	if (t->rows > rows->rows && t->dropped < t->rows - rows->rows)
		t->dropped = t->rows - rows->rows;
}
