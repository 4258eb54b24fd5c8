/* What the metrics make of rows. */

#include "audit/recount.h"

#include "audit/clock.h"
#include "t/unit/tap.h"

#define INV "0a1b2c3d-0000-4000-8000-00000000eeee"
#define HASH "1111111111111111111111111111111111111111111111111111111111111111"

static const char *const tools[] = {"Bash", "Read", NULL};
static const char *const syscalls[] = {"mount", "bpf", NULL};
static const struct tally_names names = {tools, syscalls};
static struct digest *digest;
static const struct row_subject subject = {
    INV, "demo", "0123456789abcdef0123456789abcdef", NULL};

/* Through a line, as who reads the ledger has it. */
static void
take(struct tally *t, struct row *row, enum row_by by)
{
	struct row_place at = {INV, NULL, 1, by, HASH};
	char hash[DIGEST_HEX];
	struct row_read r;
	struct buf line;

	buf_init(&line, 65536);
	if (row_end(row) == -1 || row_line(row, &at, &line, hash) == -1 ||
	    row_read(line.data, line.len - 1, false, INV, digest, &r) == -1)
		abort();
	recount_row(t, &r);
	buf_clear(&line);
	row_clear(row);
}

static void
completed(struct tally *t, const char *tool, const char *outcome, int64_t ms)
{
	struct row row;

	row_begin(&row, ROW_TOOL_COMPLETED, &subject, digest);
	row_word(&row, "tool_name", tool);
	row_int(&row, "call", 1);
	row_word(&row, "outcome", outcome);
	row_int(&row, "duration_ms", ms);
	row_word(&row, "result_hash", NULL);
	row_word(&row, "error_message", NULL);
	take(t, &row, ROW_BY_BROKER);
}

static void
denied(struct tally *t, const char *tool, int64_t call, int64_t count)
{
	struct row row;

	row_begin(&row, ROW_TOOL_DENIED, &subject, digest);
	row_word(&row, "tool_name", tool);
	row_word(&row, "reason", "unknown_tool");
	row_word(&row, "attempted_args_hash", HASH);
	row_word(&row, "violation", NULL);
	if (call > 0)
		row_int(&row, "call", call);
	if (count > 0)
		row_int(&row, "count", count);
	take(t, &row, ROW_BY_BROKER);
}

static void
ended(struct tally *t, const char *outcome, enum row_by by)
{
	struct row row;

	row_begin(&row, ROW_INVOKED_COMPLETED, &subject, digest);
	row_word(&row, "version", NULL);
	row_word(&row, "outcome", outcome);
	row_int(&row, "duration_ms", 1);
	row_word(&row, "exit_code", NULL);
	row_word(&row, "signal", NULL);
	row_int(&row, "calls", 1);
	row_int(&row, "denied", 1);
	row_int(&row, "rejected", 1);
	row_word(&row, "by", "skill");
	row_word(&row, "error_message", NULL);
	take(t, &row, by);
}

static void
test_rows(void)
{
	struct tally t;
	struct row row;

	tally_init(&t, &names);
	completed(&t, "Read", "success", 0);
	completed(&t, "Read", "denied", 7);
	denied(&t, "Read", 2, 0); /* while it ran: counted above */
	denied(&t, "Read", 0, 0);
	denied(&t, "Read", 0, 40);
	denied(&t, "R\\u0000", 0, 0);
	denied(&t, NULL, 0, 0);
	completed(&t, "Gone", "timeout", 60000);
	completed(&t, "Read", "nonsense", 1);
	completed(&t, "Bash", "success", INT64_C(999999999999999999));
	row_begin(&row, ROW_CAP_BYPASS, &subject, digest);
	row_word(&row, "syscall", "mount");
	row_word(&row, "target", NULL);
	row_int(&row, "count", 4);
	take(&t, &row, ROW_BY_BROKER);
	ended(&t, "panic", ROW_BY_SUPERVISOR);
	row_begin_skill(&row, "note.added", digest);
	row_word(&row, "invocation_id", INV);
	row_word(&row, "outcome", "success");
	take(&t, &row, ROW_BY_SKILL);
	ok(t.tools[2].calls[TALLY_SUCCESS] == 1 &&
		t.tools[2].calls[TALLY_DENIED] == 42,
	    "rows count a call once, a folded refusal as often as it says");
	is_int((long long)t.tools[0].calls[TALLY_DENIED], 2,
	    "names that are none");
	is_int((long long)t.tools[0].calls[TALLY_TIMEOUT], 1,
	    "a tool of another version");
	ok(tally_observed(&t.tools[2].took) == 2 &&
		t.tools[2].took.sum == 7 * (uint64_t)CLOCK_MS,
	    "how long");
	is_int((long long)t.syscalls[1].attempts, 4, "refused escapes");
	ok(t.endings[TALLY_END_PANIC] == 1 && t.endings[TALLY_END_SUCCESS] == 0,
	    "how it ended");
	is_int((long long)t.tools[1].took.bucket[TALLY_BUCKETS - 1], 1,
	    "a time that is none");
	is_int((long long)t.rows, 12,
	    "rows of broker and skill, none of the supervisor");
}

int
main(void)
{
	digest = digest_new(NULL, 0);
	test_rows();
	digest_free(digest);
	return done();
}
