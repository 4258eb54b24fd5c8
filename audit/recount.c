/*
 * The metrics that the ledger knows, counted from its rows: the hashes of those
 * have been looked at, so what they say is what the broker wrote.
 */

#include "audit/recount.h"

#include <string.h>

#include "audit/clock.h"

static uint64_t
count_of(const struct row_read *r)
{
	uint64_t n;

	return row_uint_of(r, "count", &n) && n > 1 ? n : 1;
}

static void
completed_row(struct tally *t, const struct row_read *r)
{
	char tool[TALLY_NAME], outcome[16];
	uint64_t ms;
	int place;

	row_text_of(r, "tool_name", tool, sizeof(tool));
	row_text_of(r, "outcome", outcome, sizeof(outcome));
	row_uint_of(r, "duration_ms", &ms);
	place = tally_place(TALLY_OUTCOME, outcome);
	if (ms > (uint64_t)(INT64_MAX / CLOCK_MS))
		ms = (uint64_t)(INT64_MAX / CLOCK_MS);
	if (place != -1)
		tally_call(t, tool, (enum tally_outcome)place,
		    (int64_t)ms * CLOCK_MS);
}

/* One that was refused while it ran counts when it is completed. */
static void
denied_row(struct tally *t, const struct row_read *r)
{
	char tool[TALLY_NAME];
	uint64_t call;

	if (row_uint_of(r, "call", &call))
		return;
	row_text_of(r, "tool_name", tool, sizeof(tool));
	tally_call_many(t, tool, TALLY_DENIED, count_of(r));
}

static void
ending_row(struct tally *t, const struct row_read *r)
{
	char outcome[16];
	int place;

	row_text_of(r, "outcome", outcome, sizeof(outcome));
	place = tally_place(TALLY_ENDING, outcome);
	if (place != -1)
		tally_count(&t->endings[place], 1);
}

void
recount_row(struct tally *t, const struct row_read *r)
{
	bool by_skill = strcmp(r->by, "skill") == 0;
	enum row_kind kind;
	char name[32];

	/* Those of a supervisor are none that the broker has made. */
	if (by_skill || strcmp(r->by, "broker") == 0)
		t->rows++;
	if (by_skill)
		return;
	kind = row_kind_of(r->kind);
	if (kind == ROW_TOOL_COMPLETED) {
		completed_row(t, r);
	} else if (kind == ROW_TOOL_DENIED) {
		denied_row(t, r);
	} else if (kind == ROW_INVOKED_COMPLETED) {
		ending_row(t, r);
	} else if (kind == ROW_CAP_BYPASS) {
		row_text_of(r, "syscall", name, sizeof(name));
		tally_attempt(t, name, count_of(r));
	}
}
