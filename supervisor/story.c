/*
 * From rows to what a person asks for: which call, what came of it, how long it
 * took. Texts that a skill chose are shown escaped.
 */

#include "supervisor/story.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/json.h"
#include "supervisor/terminal.h"

static void
entry_clear(struct story_entry *e)
{
	free(e->tool);
	free(e->outcome);
	free(e->resource);
	free(e->reason);
	free(e->error);
	free(e->args_hash);
	free(e->result_hash);
}

void
story_clear(struct story *s)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		entry_clear(&s->v[i]);
	free(s->v);
	free(s->skill_id);
	free(s->version);
	free(s->tenant_id);
	free(s->started_at);
	free(s->outcome);
	free(s->by);
	free(s->exit_code);
	free(s->signal);
	free(s->error);
	memset(s, 0, sizeof(*s));
}

static int64_t
number(const struct trail_row *r, const char *name, int64_t absent)
{
	char *text = trail_text(r, name);
	int64_t n = text == NULL ? absent : strtoll(text, NULL, 10);

	free(text);
	return n;
}

static struct story_entry *
add(struct story *s, const struct trail_row *r)
{
	struct story_entry *e;
	void *v;

	/* By steps that grow, so that a million rows do not take a million. */
	if ((s->n & (s->n - 1)) == 0) {
		v = recallocarray(
		    s->v, s->n, s->n == 0 ? 1 : s->n * 2, sizeof(*s->v));
		if (v == NULL)
			return NULL;
		s->v = v;
	}
	e = &s->v[s->n++];
	memset(e, 0, sizeof(*e));
	e->seq = r->row.seq;
	strlcpy(e->time, r->row.ts, sizeof(e->time));
	e->call = e->duration_ms = -1;
	e->count = 1;
	return e;
}

/* The open call of this number: among the last ones, since few are open. */
static struct story_entry *
find_open(struct story *s, int64_t call)
{
	size_t i;

	for (i = s->n; i-- > 0;) {
		if (s->v[i].open && s->v[i].call == call)
			return &s->v[i];
	}
	return NULL;
}

static int
take_started(struct story *s, const struct trail_row *r)
{
	struct story_entry *e = add(s, r);

	if (e == NULL)
		return -1;
	e->is_call = e->open = true;
	e->call = number(r, "call", -1);
	e->tool = trail_text(r, "tool_name");
	e->resource = trail_text(r, "resource");
	e->args_hash = trail_text(r, "args_hash");
	s->calls++;
	return 0;
}

static int
take_completed(struct story *s, const struct trail_row *r,
    const struct story_entry **done)
{
	struct story_entry *e = find_open(s, number(r, "call", -1));

	if (e == NULL)
		return 0;
	e->open = false;
	e->outcome = trail_text(r, "outcome");
	e->duration_ms = number(r, "duration_ms", -1);
	e->error = trail_text(r, "error_message");
	e->result_hash = trail_text(r, "result_hash");
	if (e->outcome != NULL && strcmp(e->outcome, "error") == 0)
		s->errors++;
	if (e->outcome != NULL && strcmp(e->outcome, "timeout") == 0)
		s->timeouts++;
	*done = e;
	return 1;
}

static int
take_denied(struct story *s, const struct trail_row *r,
    const struct story_entry **done)
{
	int64_t call = number(r, "call", -1), count = number(r, "count", 1);
	struct story_entry *e = call == -1 ? NULL : find_open(s, call);

	s->denied += count > 1 ? (uint64_t)count : 1;
	if (e != NULL) { /* while it ran: its end comes next */
		e->reason = trail_text(r, "reason");
		free(e->resource);
		e->resource = trail_text(r, "violation");
		return 0;
	}
	e = add(s, r);
	if (e == NULL)
		return -1;
	s->calls += count > 1 ? (uint64_t)count : 1;
	e->is_call = true;
	e->count = count;
	e->outcome = strdup("denied");
	e->tool = trail_text(r, "tool_name");
	e->reason = trail_text(r, "reason");
	e->resource = trail_text(r, "violation");
	e->args_hash = trail_text(r, "attempted_args_hash");
	*done = e;
	return 1;
}

static int
take_event(struct story *s, const struct trail_row *r,
    const struct story_entry **done)
{
	struct story_entry *e = add(s, r);

	if (e == NULL)
		return -1;
	e->outcome = strdup(r->row.kind);
	e->count = number(r, "count", 1);
	e->tool = trail_text(r, "syscall");
	e->resource = trail_text(r, "target");
	if (e->resource == NULL)
		e->resource = trail_text(r, "path");
	*done = e;
	return 1;
}

static void
take_start(struct story *s, const struct trail_row *r)
{
	s->skill_id = trail_text(r, "skill_id");
	s->version = trail_text(r, "version");
	s->tenant_id = trail_text(r, "tenant_id");
	s->started_at = strdup(r->row.ts);
}

static void
take_end(struct story *s, const struct trail_row *r)
{
	s->ended = true;
	if (s->skill_id == NULL)
		s->skill_id = trail_text(r, "skill_id");
	if (s->version == NULL)
		s->version = trail_text(r, "version");
	s->outcome = trail_text(r, "outcome");
	s->by = trail_text(r, "by");
	s->exit_code = trail_text(r, "exit_code");
	s->signal = trail_text(r, "signal");
	s->error = trail_text(r, "error_message");
	s->duration_ms = number(r, "duration_ms", -1);
}

int
story_take(struct story *s, const struct trail_row *r,
    const struct story_entry **done)
{
	if (trail_is(r, ROW_TOOL_STARTED))
		return take_started(s, r);
	if (trail_is(r, ROW_TOOL_COMPLETED))
		return take_completed(s, r, done);
	if (trail_is(r, ROW_TOOL_DENIED))
		return take_denied(s, r, done);
	if (trail_is(r, ROW_INVOKED_STARTED) && s->started_at == NULL)
		take_start(s, r);
	else if (trail_is(r, ROW_INVOKED_COMPLETED) && !s->ended)
		take_end(s, r);
	else
		return take_event(s, r, done);
	return 0;
}

/* --- for people --- */

void
story_heading(void)
{
	printf("%-12s %-12s %-8s %7s  %s\n", "time (UTC)", "tool", "outcome",
	    "ms", "resource, reason");
}

static const char *
color_of(const struct story_entry *e)
{
	if (!e->is_call || e->open)
		return "\033[35m";
	if (e->outcome != NULL && strcmp(e->outcome, "success") == 0)
		return "\033[32m";
	if (e->outcome != NULL && strcmp(e->outcome, "denied") == 0)
		return "\033[33m";
	return "\033[31m";
}

/* "10:00:00.004" of "2026-11-30T10:00:00.004000Z" */
static const char *
clock_part(const char *time)
{
	return strlen(time) > 11 ? time + 11 : time;
}

static bool
begins_character(char c)
{
	return ((unsigned char)c & 0xc0) != 0x80;
}

/*
 * A path, two blanks before it, where used columns of the line are taken: what
 * does not fit loses its beginning, since its end tells more.
 */
static void
print_resource(const char *resource, size_t used)
{
	char shown[4096];
	const char *text = trail_show(resource, shown, sizeof(shown));
	size_t width = terminal_columns(), n = json_utf8_points(text, strlen(text)), room;

	room = width > used + 2 ? width - used - 2 : 0;
	if (width == 0 || n <= room) {
		printf("  %s", text);
		return;
	}
	/* On a narrow screen at least a part of it, though the line breaks. */
	room = room < 16 ? 16 : room;
	while (n > room - 3 || !begins_character(*text))
		n -= begins_character(*text++);
	printf("  ...%s", text);
}

void
story_line(const struct story_entry *e, bool color)
{
	char tool[24], why[512], ms[24] = "-", many[32] = "";
	const char *outcome = e->open ? "GAP" : e->outcome;
	int used = 0;

	if (e->duration_ms >= 0)
		snprintf(ms, sizeof(ms), "%" PRId64, e->duration_ms);
	if (e->count != 1)
		snprintf(many, sizeof(many), " (%" PRId64 " times)", e->count);
	used += printf("%-12.12s ", clock_part(e->time));
	if (e->is_call)
		used += printf("%-12s ", trail_show(e->tool, tool, sizeof(tool)));
	if (color)
		printf("%s", color_of(e));
	used += printf(e->is_call ? "%-8s" : "%s",
	    trail_show(outcome, why, sizeof(why)));
	if (color)
		printf("\033[0m");
	if (e->is_call)
		used += printf(" %7s", ms);
	else if (e->tool != NULL)
		used += printf("  %s", trail_show(e->tool, tool, sizeof(tool)));
	if (e->open)
		used += printf("  started, and nothing tells of its end");
	else if (e->reason != NULL || e->error != NULL)
		used += printf("  %s",
		    trail_show(e->reason != NULL ? e->reason : e->error, why,
			sizeof(why)));
	if (e->resource != NULL)
		print_resource(e->resource, (size_t)used + strlen(many));
	printf("%s\n", many);
}

/* --- for programs --- */

static void
member(struct buf *b, const char *name, const char *text)
{
	buf_printf(b, ",\"%s\":", name);
	if (text == NULL)
		buf_puts(b, "null");
	else
		json_put_string(b, text, strlen(text));
}

static void
member_number(struct buf *b, const char *name, int64_t n)
{
	buf_printf(b, ",\"%s\":", name);
	if (n == -1)
		buf_puts(b, "null");
	else
		buf_printf(b, "%" PRId64, n);
}

void
story_json(const struct story_entry *e, struct buf *b)
{
	buf_printf(b, "{\"seq\":%" PRIu64, e->seq);
	member(b, "time", e->time);
	if (!e->is_call) {
		member(b, "kind", e->outcome);
		member(b, "syscall", e->tool);
		member(b, "target", e->resource);
		member_number(b, "count", e->count);
		buf_putc(b, '}');
		return;
	}
	member_number(b, "call", e->call);
	member(b, "tool", e->tool);
	member(b, "outcome", e->outcome);
	member_number(b, "duration_ms", e->duration_ms);
	member(b, "resource", e->resource);
	member(b, "reason", e->reason);
	member(b, "error_message", e->error);
	member(b, "args_hash", e->args_hash);
	member(b, "result_hash", e->result_hash);
	member_number(b, "count", e->count);
	buf_printf(b, ",\"gap\":%s}", e->open ? "true" : "false");
}
