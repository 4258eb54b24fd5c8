/*
 * Read dispatch_call downwards: check; refused -> record it and say so;
 * record that it starts; run; record how it ended; answer. Nothing runs before
 * its "started" row is made, and nothing is answered before its last row is.
 */

#include "broker/dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/clock.h"
#include "audit/json.h"
#include "tools/match.h"
#include "tools/registry.h"

#define TOOL_NAME_SHOWN 64 /* of an unknown name, in an answer */
#define ENVELOPE_ROOM 64   /* of a result, besides its id */

/* --- rows --- */

static bool
is_losing(const struct dispatch *d)
{
	struct segment_counts n;

	segment_counts(d->segment, &n);
	return n.lost > d->lost_told;
}

/* What the ledger has come to, for the page; and for the caller. */
static struct segment_counts
count_rows(const struct dispatch *d)
{
	struct segment_counts n;

	segment_counts(d->segment, &n);
	atomic_store_explicit(
	    &d->counters->waiting, n.waiting, memory_order_relaxed);
	tally_set(&d->tally->rows, n.rows);
	tally_set(&d->tally->spooled, n.delayed);
	tally_set(&d->tally->dropped, n.lost);
	return n;
}

/* What became of a row: counted, and said once. */
static void
look_at_segment(struct dispatch *d, int result)
{
	struct segment_counts n = count_rows(d);

	if (result == -1 && n.lost == d->lost_told + 1) {
		d->lost_from = segment_last(d->segment) + 1;
		strlcpy(d->lost_head, segment_head(d->segment),
		    sizeof(d->lost_head));
	}
	if (result == 0 || d->warned_ledger)
		return;
	log_line(d->log, LOG_LEVEL_ERROR,
	    "the ledger cannot be written (%s); rows %s", strerror(errno),
	    result == 1 ? "wait" : "are lost");
	d->warned_ledger = true;
}

int
dispatch_row(struct dispatch *d, struct row *row)
{
	int result;

	if (row_end(row) == -1) {
		log_line(d->log, LOG_LEVEL_ALERT,
		    "a %s row could not be made: %s", row->kind,
		    strerror(errno));
		row_clear(row);
		return -1;
	}
	/* Once a row was lost, all are until skill.rows_lost can follow: a
	 * reader finds one gap and where it is. */
	if (is_losing(d)) {
		segment_lose(d->segment);
		row_clear(row);
		(void)count_rows(d);
		return -1;
	}
	result = segment_append(d->segment, ROW_BY_BROKER, row, NULL);
	row_clear(row);
	look_at_segment(d, result);
	return result;
}

/* skill.rows_lost: the numbers that they would have had, and what they would
 * have followed. */
static void
tell_lost(struct dispatch *d)
{
	struct segment_counts n;
	struct row_subject s;
	struct row row;
	uint64_t lost;

	segment_counts(d->segment, &n);
	lost = n.lost - d->lost_told;
	if (lost == 0 || n.waiting > 0)
		return;
	d->lost_told = n.lost;
	dispatch_subject(d, NULL, &s);
	row_begin(&row, ROW_ROWS_LOST, &s, d->inv->digest);
	row_int(&row, "from", (int64_t)d->lost_from);
	row_int(&row, "to", (int64_t)(d->lost_from + lost - 1));
	row_word(&row, "head", d->lost_head);
	dispatch_row(d, &row);
}

bool
dispatch_owes_rows(const struct dispatch *d)
{
	return d->warned_ledger || is_losing(d);
}

void
dispatch_retry(struct dispatch *d)
{
	if (segment_flush(d->segment) == -1)
		return;
	(void)count_rows(d);
	if (d->warned_ledger)
		log_line(d->log, LOG_LEVEL_WARN,
		    "the ledger is written again; no row waits");
	d->warned_ledger = false;
	tell_lost(d);
}

void
dispatch_subject(
    const struct dispatch *d, const struct call *c, struct row_subject *s)
{
	const struct trace *own =
	    c != NULL && c->rpc.own_trace ? &c->rpc.trace : NULL;

	s->invocation_id = d->inv->id;
	s->skill_id = grant_manifest(d->inv->grant)->id;
	s->trace_id = own != NULL ? own->trace_id : d->inv->trace.trace_id;
	s->invocation_trace_id = own != NULL ? d->inv->trace.trace_id : NULL;
}

/* The name of what was decided on, unless the operator leaves it out. */
static void
resource_field(const struct dispatch *d, struct row *row, const char *field,
    const char *name)
{
	if (name == NULL || !d->inv->policy->audit_resources)
		row_word(row, field, NULL);
	else
		row_string(row, field, name);
}

static void
record_started(struct dispatch *d, struct call *c)
{
	struct row_subject s;
	struct row row;

	c->record.number = ++d->calls_started;
	c->record.begun = clock_boot();
	strlcpy(d->last_tool, c->check.tool->name, sizeof(d->last_tool));
	dispatch_subject(d, c, &s);
	row_begin(&row, ROW_TOOL_STARTED, &s, d->inv->digest);
	row_word(&row, "tool_name", c->check.tool->name);
	row_word(&row, "args_hash", c->record.args_hash);
	resource_field(d, &row, "resource", c->check.on.name);
	row_int(&row, "call", (int64_t)c->record.number);
	dispatch_row(d, &row);
	counters_turn(d->counters, clock_wall());
	counters_add(d->counters, calls);
}

/* Why it failed: our word, with errno or a library's number. */
static void
failure_text(const struct call *c, char *out, size_t size)
{
	const char *error =
	    c->run.error == 0 ? NULL : strerrorname_np(c->run.error);

	if (c->run.outcome == OUTCOME_DENIED)
		strlcpy(out, verdict_info(c->check.verdict.reason)->reason,
		    size);
	else if (c->run.code != 0)
		snprintf(out, size, "%s %d", failure_word(c->run.failure),
		    c->run.code);
	else
		snprintf(out, size, "%s%s%s", failure_word(c->run.failure),
		    error == NULL ? "" : " ", error == NULL ? "" : error);
}

static void
record_completed(struct dispatch *d, struct call *c)
{
	int64_t took = clock_boot() - c->record.begun;
	char message[96];
	struct row_subject s;
	struct row row;

	/* A word that its row does not name is one that nobody expects. */
	if (c->run.outcome == OUTCOME_ERROR &&
	    !registry_may_fail(c->check.tool, c->run.failure))
		c->run.failure = FAIL_IO_ERROR;
	if (c->run.outcome == OUTCOME_SUCCESS)
		digest_text(d->inv->args_digest, c->run.result.data,
		    c->run.result.len, c->record.result_hash);
	failure_text(c, message, sizeof(message));
	dispatch_subject(d, c, &s);
	row_begin(&row, ROW_TOOL_COMPLETED, &s, d->inv->digest);
	row_word(&row, "tool_name", c->check.tool->name);
	row_int(&row, "call", (int64_t)c->record.number);
	row_word(&row, "outcome", outcome_word(c->run.outcome));
	row_int(&row, "duration_ms", took / CLOCK_MS);
	row_word(&row, "result_hash",
	    c->record.result_hash[0] == '\0' ? NULL : c->record.result_hash);
	row_word(&row, "error_message",
	    c->run.outcome == OUTCOME_SUCCESS ? NULL : message);
	tracer_end(d->tracer, c);
	tracer_promise(d->tracer, segment_last(d->segment) + 1);
	dispatch_row(d, &row);
	tracer_put(d->tracer);
	tally_call(d->tally, c->check.tool->name,
	    (enum tally_outcome)c->run.outcome, took);
	counters_turn(d->counters, clock_wall());
	if (c->run.outcome == OUTCOME_ERROR)
		counters_add(d->counters, errors);
	else if (c->run.outcome == OUTCOME_TIMEOUT)
		counters_add(d->counters, timeouts);
}

/* One row for so many refusals; count 0: it tells of one and says no number. */
static void
denied_row(struct dispatch *d, const struct call *c, const char *tool,
    enum reason reason, const char *args_hash, const char *violation,
    uint64_t count)
{
	struct row_subject s;
	struct row row;

	dispatch_subject(d, c, &s);
	row_begin(&row, ROW_TOOL_DENIED, &s, d->inv->digest);
	row_string(&row, "tool_name", tool);
	row_word(&row, "reason", verdict_info(reason)->reason);
	row_word(&row, "attempted_args_hash",
	    args_hash[0] == '\0' ? NULL : args_hash);
	resource_field(d, &row, "violation", violation);
	/* Refused while it runs: the number says which start it belongs to. */
	if (c != NULL && c->record.number != 0)
		row_int(&row, "call", (int64_t)c->record.number);
	if (count > 0)
		row_int(&row, "count", (int64_t)count);
	if (c != NULL)
		tracer_promise(d->tracer, segment_last(d->segment) + 1);
	dispatch_row(d, &row);
}

/* The refusals that were folded get their row. */
static void
unfold(struct dispatch *d)
{
	struct fold *f = &d->fold;

	if (f->count > 0)
		denied_row(d, NULL, f->tool, f->reason, f->args_hash,
		    f->violation, f->count);
	fold_clear(f);
}

/* Those that came when the budget was spent: a row for each tool. */
static void
unfold_over(struct dispatch *d)
{
	const char *const *names = registry_names();
	size_t i;

	for (i = 0; i == 0 || names[i - 1] != NULL; i++) {
		if (d->fold.over[i] > 0)
			denied_row(d, NULL, i == 0 ? NULL : names[i - 1],
			    REASON_AUDIT_BUDGET, "", NULL, d->fold.over[i]);
		d->fold.over[i] = 0;
	}
}

void
dispatch_unfold(struct dispatch *d, bool last)
{
	if (d->fold.active && (last || clock_boot() >= d->fold.until))
		unfold(d);
	if (last)
		unfold_over(d);
}

int
dispatch_due(const struct dispatch *d)
{
	return d->fold.count == 0 ? -1 : clock_until_ms(d->fold.until);
}

static uint64_t
bytes_of_rows(const struct dispatch *d)
{
	struct segment_counts n;

	segment_counts(d->segment, &n);
	return n.bytes;
}

/* True: this refusal takes no row of its own. */
static bool
is_folded(struct dispatch *d, const struct call *c)
{
	enum reason reason = c->check.verdict.reason;
	const char *tool = c->rpc.tool, *violation = c->check.on.name;
	const struct tool *known;
	int64_t now = clock_boot();

	if (reason == REASON_AUDIT_BUDGET) {
		known = registry_find(tool); /* one that was read whole */
		d->fold.over[known == NULL ? 0 : registry_index(known) + 1]++;
		return true;
	}
	if (fold_takes(&d->fold, reason, tool, violation, now)) {
		d->fold.count++;
		return true;
	}
	unfold(d);
	if (fold_begins(&d->fold, bytes_of_rows(d)))
		fold_start(&d->fold, reason, tool, violation,
		    c->record.args_hash, now);
	return false;
}

static void
record_denied(struct dispatch *d, struct call *c)
{
	bool ran = c->record.number != 0;

	tracer_end(d->tracer, c);
	if (ran || !is_folded(d, c))
		denied_row(d, c, c->rpc.tool, c->check.verdict.reason,
		    c->record.args_hash, c->check.on.name, 0);
	tracer_put(d->tracer);
	counters_turn(d->counters, clock_wall());
	if (!ran) {
		counters_add(d->counters, calls);
		tally_call(d->tally, c->rpc.tool, TALLY_DENIED, -1);
	}
	counters_add(d->counters, denied);
}

/* --- answers --- */

static struct json_span
call_id(const struct call *c)
{
	return (struct json_span){c->rpc.id, c->rpc.id_len};
}

static void
data_text(struct buf *data, const char *name, const char *s, size_t max)
{
	size_t len = s == NULL ? 0 : strlen(s);

	buf_printf(data, "%s\"%s\":", data->len > 1 ? "," : "{", name);
	if (s == NULL)
		buf_puts(data, "null");
	else
		json_put_string(
		    data, s, len > max ? json_utf8_cut(s, len, max) : len);
}

static void
reply_refusal(const struct dispatch *d, const struct call *c, struct buf *reply)
{
	const struct verdict_info *info = verdict_info(c->check.verdict.reason);
	struct buf data;

	if (c->rpc.id == NULL)
		return;
	buf_init(&data, 4096);
	data_text(&data, "reason", info->reason, 64);
	data_text(&data, "tool", c->rpc.tool, TOOL_NAME_SHOWN);
	data_text(&data, "skill_id", grant_manifest(d->inv->grant)->id, 64);
	if (c->check.verdict.reason == REASON_RATE_LIMITED)
		buf_printf(&data, ",\"retry_after_ms\":%u",
		    c->check.verdict.retry_after_ms);
	data_text(&data, "hint", info->hint, 256);
	buf_putc(&data, '}');
	rpc_error(reply, call_id(c), VERDICT_CODE, info->class, &data);
	buf_clear(&data);
}

static void
reply_outcome(const struct dispatch *d, const struct call *c, struct buf *reply)
{
	char detail[256];
	struct buf data;

	if (c->rpc.id == NULL)
		return;
	if (c->run.outcome == OUTCOME_SUCCESS) {
		rpc_result(
		    reply, call_id(c), c->run.result.data, c->run.result.len);
		if (c->run.cut) {
			tally_count(&d->tally->truncated, 1);
			log_line(d->log, LOG_LEVEL_WARN,
			    "an answer of %s was cut to its limit",
			    c->check.tool->name);
		}
		return;
	}
	buf_init(&data, 4096);
	data_text(&data, "tool", c->check.tool->name, 64);
	if (c->run.failure == FAIL_INVALID_PATTERN && c->run.error < 0)
		match_trouble(c->run.error, detail, sizeof(detail));
	else
		strlcpy(detail, failure_detail(c->run.failure), sizeof(detail));
	data_text(&data, "detail", detail, 256);
	buf_putc(&data, '}');
	rpc_error(reply, call_id(c), RPC_TOOL_FAILED,
	    failure_word(c->run.failure), &data);
	buf_clear(&data);
}

static void
dispatch_reject(struct dispatch *d, int code, struct json_span id,
    const char *detail, struct buf *reply)
{
	struct buf data;

	counters_add(d->counters, rejected);
	if (reply == NULL)
		return;
	buf_init(&data, 4096);
	if (detail != NULL) {
		data_text(&data, "detail", detail, 512);
		buf_putc(&data, '}');
	}
	rpc_error(
	    reply, id, code, rpc_message(code), detail == NULL ? NULL : &data);
	buf_clear(&data);
}

/* --- the way of a call --- */

/* False: there is no memory for it, and the hash stays empty. */
static bool
hash_args(struct dispatch *d, struct call *c)
{
	struct buf text;
	bool good;

	buf_init(&text, 8 * CALL_RESPONSE_MAX);
	if (c->rpc.args == NULL)
		good = buf_puts(&text, "null") == 0;
	else
		good = json_canonical(c->rpc.args, &text) == 0;
	if (good)
		digest_text(d->inv->args_digest, text.data, text.len,
		    c->record.args_hash);
	c->record.args_size = text.len;
	buf_clear(&text);
	return good;
}

/* With audit_required, a ledger that takes no rows takes no calls either. */
static bool
ledger_missing(struct dispatch *d)
{
	struct segment_counts n;

	if (!d->inv->policy->audit_required)
		return false;
	segment_flush(d->segment);
	segment_counts(d->segment, &n);
	return n.waiting > 0;
}

static enum check_result
check_call(struct dispatch *d, struct call *c, unsigned wait_ms)
{
	bool hashed = hash_args(d, c);

	c->check.verdict.retry_after_ms = wait_ms;
	if (wait_ms > 0)
		c->check.verdict.reason = REASON_RATE_LIMITED;
	else if (clockwork_refuses(d->clockwork))
		c->check.verdict.reason = REASON_DEADLINE;
	else if (!hashed || ledger_missing(d))
		c->check.verdict.reason = REASON_AUDIT_UNAVAILABLE;
	else if (fold_spent(&d->fold, bytes_of_rows(d)))
		c->check.verdict.reason = REASON_AUDIT_BUDGET;
	else
		return registry_check(c, d->inv);
	return CHECK_REFUSED;
}

static void
bad_args(struct dispatch *d, struct call *c, struct buf *reply)
{
	dispatch_reject(d, RPC_INVALID_PARAMS, call_id(c), c->check.bad,
	    c->rpc.id == NULL ? NULL : reply);
	call_free(c);
}

static void
refused(struct dispatch *d, struct call *c, struct buf *reply)
{
	record_denied(d, c);
	reply_refusal(d, c, reply);
	call_free(c);
}

static bool
is_for_net(const struct call *c)
{
	const struct tool *tool = c->check.tool;

	return c->check.failure == FAIL_NONE && tool->place != NULL &&
	    tool->place(c) == PLACE_NET;
}

/* What it asks for is known when the net worker has spoken. */
static enum dispatched
ask_net(struct dispatch *d, struct call *c, struct buf *reply)
{
	if (!d->ending && http_submit(d->http, c) == 0)
		return DISPATCH_LATER;
	dispatch_abandon(
	    d, c, d->ending ? FAIL_CANCELLED : FAIL_IO_ERROR, reply);
	return DISPATCH_DONE;
}

static enum dispatched
dispatch_call(
    struct dispatch *d, struct call *c, unsigned wait_ms, struct buf *reply)
{
	const struct tool *tool;
	enum place place = PLACE_LOOP;

	switch (check_call(d, c, wait_ms)) {
	case CHECK_BAD_ARGS:
		bad_args(d, c, reply);
		return DISPATCH_DONE;
	case CHECK_REFUSED:
		refused(d, c, reply);
		return DISPATCH_DONE;
	case CHECK_MAY:
		break;
	}
	if (is_for_net(c))
		return ask_net(d, c, reply);
	record_started(d, c);
	tool = c->check.tool;
	if (c->check.failure == FAIL_NONE && tool->place != NULL)
		place = tool->place(c);
	if (c->check.failure != FAIL_NONE) {
		call_fail(c, c->check.failure);
	} else if (place == PLACE_LOOP) {
		tool->run(c, d->inv);
	} else if (d->ending) {
		call_fail(c, FAIL_CANCELLED);
	} else if (place == PLACE_BASH) {
		bash_submit(d->bash, c);
		return DISPATCH_LATER;
	} else {
		worker_submit(
		    place == PLACE_WALK_WORKER ? d->walker : d->worker, c);
		return DISPATCH_LATER;
	}
	dispatch_finish(d, c, reply);
	return DISPATCH_DONE;
}

void
dispatch_go(struct dispatch *d, struct call *c)
{
	record_started(d, c);
	http_go(d->http, c);
}

/* True: before it could start it was refused, or it is no call at all. */
static bool
finish_unstarted(struct dispatch *d, struct call *c, struct buf *reply)
{
	if (c->record.number != 0)
		return false;
	if (c->check.bad[0] != '\0') {
		bad_args(d, c, reply);
		return true;
	}
	if (c->check.verdict.reason != REASON_NONE) {
		refused(d, c, reply);
		return true;
	}
	record_started(d, c);
	return false;
}

void
dispatch_finish(struct dispatch *d, struct call *c, struct buf *reply)
{
	if (finish_unstarted(d, c, reply))
		return;
	if (c->run.outcome == OUTCOME_SUCCESS && c->check.tool->record != NULL)
		c->check.tool->record(c, d->inv, d->segment);
	if (c->run.outcome == OUTCOME_DENIED)
		record_denied(d, c);
	record_completed(d, c);
	if (c->run.outcome == OUTCOME_DENIED)
		reply_refusal(d, c, reply);
	else
		reply_outcome(d, c, reply);
	call_free(c);
}

void
dispatch_abandon(
    struct dispatch *d, struct call *c, enum failure why, struct buf *reply)
{
	if (c->record.number == 0)
		record_started(d, c);
	call_fail(c, why);
	record_completed(d, c);
	reply_outcome(d, c, reply);
	call_free(c);
}

void
dispatch_too_large(struct dispatch *d, const char *hash, struct buf *reply)
{
	struct call *c = call_new();
	static const char null_id[] = "null";

	if (c == NULL)
		return;
	c->check.verdict.reason = REASON_REQUEST_TOO_LARGE;
	strlcpy(c->record.args_hash, hash, sizeof(c->record.args_hash));
	c->rpc.id = strdup(null_id);
	c->rpc.id_len = sizeof(null_id) - 1;
	c->rpc.trace = d->inv->trace;
	tracer_begin(d->tracer, c);
	limit_take(&d->limit, clock_boot());
	record_denied(d, c);
	if (reply != NULL)
		reply_refusal(d, c, reply);
	call_free(c);
}

/* --- methods --- */

/* Only these members may be in the parameters. */
static const char *
unknown_param(const cJSON *params, const char *const *known)
{
	const char *const *k;
	const cJSON *p;

	cJSON_ArrayForEach (p, params) {
		for (k = known; *k != NULL && strcmp(*k, p->string) != 0; k++)
			;
		if (*k == NULL)
			return p->string;
	}
	return NULL;
}

/* A call's own trace context; one that is invalid counts, and is as if not given. */
static void
take_trace(const struct dispatch *d, const cJSON *params, struct call *c)
{
	const cJSON *given =
	    cJSON_GetObjectItemCaseSensitive(params, "traceparent");
	const char *parent = cJSON_GetStringValue(given);
	const char *state = cJSON_GetStringValue(
	    cJSON_GetObjectItemCaseSensitive(params, "tracestate"));

	c->rpc.trace = d->inv->trace;
	if (given == NULL)
		return;
	if (parent == NULL ||
	    !trace_parse(parent, strlen(parent), &c->rpc.trace)) {
		tally_count(&d->tally->bad_traces, 1);
		return;
	}
	c->rpc.own_trace = true;
	c->rpc.traceparent = strdup(parent);
	if (state != NULL && trace_state_valid(state, strlen(state)))
		c->rpc.tracestate = strdup(state);
}

static int
take_call(const struct dispatch *d, const struct rpc_request *r, struct call *c)
{
	static const char *const known[] = {
	    "tool", "args", "traceparent", "tracestate", NULL};
	const cJSON *args = cJSON_GetObjectItemCaseSensitive(r->params, "args");

	c->rpc.odd = unknown_param(r->params, known) != NULL;
	if (!r->notification) {
		c->rpc.id_len = r->id.len;
		c->rpc.id = malloc(r->id.len);
		if (c->rpc.id == NULL)
			return -1;
		memcpy(c->rpc.id, r->id.p, r->id.len);
	}
	c->rpc.tool = strdup(
	    cJSON_GetObjectItemCaseSensitive(r->params, "tool")->valuestring);
	if (c->rpc.tool == NULL)
		return -1;
	take_trace(d, r->params, c);
	/* The very tree that was scanned; what is hashed is what runs. */
	if (args != NULL) {
		c->rpc.args = cJSON_DetachItemViaPointer(
		    (cJSON *)(uintptr_t)r->params, (cJSON *)(uintptr_t)args);
	}
	return 0;
}

static enum dispatched
method_call(struct dispatch *d, const struct rpc_request *r, unsigned wait_ms,
    size_t budget, uint64_t conn, struct buf *reply)
{
	const char *bad = NULL;
	struct call *c;

	if (!cJSON_IsObject(r->params))
		bad = "params: must be an object with tool and args";
	else if (!cJSON_IsString(
		     cJSON_GetObjectItemCaseSensitive(r->params, "tool")))
		bad = "tool: must be a string";
	c = bad == NULL ? call_new() : NULL;
	if (c != NULL && take_call(d, r, c) == -1) {
		call_free(c);
		c = NULL;
	}
	if (c == NULL) {
		dispatch_reject(d, RPC_INVALID_PARAMS, r->id,
		    bad == NULL ? "out of memory" : bad,
		    r->notification ? NULL : reply);
		return DISPATCH_DONE;
	}
	tracer_begin(d->tracer, c);
	c->rpc.conn = conn;
	c->rpc.budget = budget > r->id.len + ENVELOPE_ROOM
			    ? budget - r->id.len - ENVELOPE_ROOM
			    : 0;
	return dispatch_call(d, c, wait_ms, reply);
}

static void
list_tools(const struct dispatch *d, struct buf *out)
{
	const struct tool *tools;
	const char *comma = "";
	size_t i, n;

	tools = registry_tools(&n);
	buf_puts(out, "{\"tools\":[");
	for (i = 0; i < n; i++) {
		if (grant_tool(d->inv->grant, tools[i].name) != REASON_NONE)
			continue;
		buf_printf(out, "%s{\"name\":\"%s\",\"description\":", comma,
		    tools[i].name);
		json_put_string(
		    out, tools[i].description, strlen(tools[i].description));
		buf_puts(out, ",\"inputSchema\":");
		registry_schema(&tools[i], out);
		buf_putc(out, '}');
		comma = ",";
	}
	buf_puts(out, "]}");
}

static void
broker_status(const struct dispatch *d, struct buf *out)
{
	const struct manifest *m = grant_manifest(d->inv->grant);

	buf_printf(out,
	    "{\"invocation_id\":\"%s\",\"skill_id\":\"%s\",\"version\":\"%s\","
	    "\"uptime_ms\":%lld,\"remaining_ms\":%lld,\"calls\":%llu,"
	    "\"denied\":%llu}",
	    d->inv->id, m->id, m->version,
	    (long long)((clock_boot() - d->clockwork->started) / CLOCK_MS),
	    (long long)clockwork_remaining_ms(d->clockwork),
	    (unsigned long long)counters_get(d->counters, calls),
	    (unsigned long long)counters_get(d->counters, denied));
}

/* In a batch that asks for too much, which is the only way to get here. */
static void
reply_no_room(const struct rpc_request *r, struct buf *reply)
{
	struct buf data;

	buf_init(&data, 4096);
	data_text(&data, "detail",
	    "the answer of this batch is full; ask again "
	    "in another one",
	    256);
	buf_putc(&data, '}');
	rpc_error(
	    reply, r->id, RPC_TOOL_FAILED, failure_word(FAIL_TOO_LARGE), &data);
	buf_clear(&data);
}

/* Methods besides tool.call: no parameters, an answer made of what we know. */
static const struct {
	const char *name;
	void (*answer)(const struct dispatch *, struct buf *);
} methods[] = {
    {"tool.list", list_tools},
    {"broker.status", broker_status},
};

static void
method_plain(struct dispatch *d, const struct rpc_request *r, size_t which,
    size_t budget, struct buf *reply)
{
	struct buf out;

	if (r->params != NULL && r->params->child != NULL) {
		limit_take(&d->limit, clock_boot());
		dispatch_reject(d, RPC_INVALID_PARAMS, r->id,
		    "params: this method takes none",
		    r->notification ? NULL : reply);
		return;
	}
	if (r->notification)
		return;
	buf_init(&out, CALL_RESPONSE_MAX);
	methods[which].answer(d, &out);
	if (out.failed || out.len + r->id.len + ENVELOPE_ROOM > budget)
		reply_no_room(r, reply);
	else
		rpc_result(reply, r->id, out.data, out.len);
	buf_clear(&out);
}

void
dispatch_garbage(
    struct dispatch *d, int code, struct json_span id, struct buf *reply)
{
	limit_take(&d->limit, clock_boot());
	dispatch_reject(d, code, id, NULL, reply);
}

enum dispatched
dispatch_request(struct dispatch *d, const struct rpc_request *r, size_t budget,
    uint64_t conn, struct buf *reply)
{
	size_t i;

	if (r->code != 0) {
		dispatch_garbage(d, r->code, r->id, reply);
		return DISPATCH_DONE;
	}
	if (strcmp(r->method, "tool.call") == 0)
		return method_call(d, r, limit_take(&d->limit, clock_boot()),
		    budget, conn, reply);
	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strcmp(r->method, methods[i].name) == 0) {
			method_plain(d, r, i, budget, reply);
			return DISPATCH_DONE;
		}
	}
	dispatch_garbage(
	    d, RPC_NO_METHOD, r->id, r->notification ? NULL : reply);
	return DISPATCH_DONE;
}
