/*
 * A span for each call and one for what its tool did, put where the exporters
 * find them. What is put are words of our tables, ids, numbers and times, and
 * of HTTP the host and port that stand in the row: nothing else of what a skill
 * wrote gets near them. A queue that is full costs the span and not the call.
 */

#include "broker/tracer.h"

#include <sys/socket.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/clock.h"
#include "broker/rpc.h"
#include "tools/http.h"
#include "tools/registry.h"

#define UNKNOWN_TOOL "_unknown" /* SPEC 11: never a name of the skill's */

int
tracer_open(struct tracer *t, const struct tracer_job *job)
{
	size_t i;

	t->job = job;
	for (i = 0; i < TRACER_SINKS; i++) {
		if (job->sinks[i].fd == -1)
			continue;
		t->rings[i] = ring_map(job->sinks[i].fd);
		if (t->rings[i] == NULL) {
			tracer_close(t);
			return -1;
		}
		t->on = true;
	}
	return 0;
}

void
tracer_close(struct tracer *t)
{
	size_t i;

	for (i = 0; i < TRACER_SINKS; i++) {
		ring_unmap(t->rings[i]);
		t->rings[i] = NULL;
	}
	t->on = false;
}

/* In each queue that has room for it, where nobody sees it yet. */
static void
fill(struct tracer *t, const struct span *s)
{
	struct span *room;
	size_t i;

	for (i = 0; i < TRACER_SINKS; i++) {
		room = t->rings[i] == NULL
			   ? NULL
			   : ring_room(t->rings[i], span_count(s));
		t->filled[i] = room != NULL;
		if (room != NULL)
			memcpy(room, s, sizeof(*s));
	}
}

void
tracer_promise(struct tracer *t, uint64_t row)
{
	size_t i;

	for (i = 0; i < TRACER_SINKS; i++) {
		if (t->filled[i])
			ring_promise(t->rings[i], row);
	}
}

void
tracer_put(struct tracer *t)
{
	const struct ring_end *end;
	size_t i;

	for (i = 0; i < TRACER_SINKS; i++) {
		if (!t->filled[i])
			continue;
		t->filled[i] = false;
		end = &t->job->sinks[i];
		/* A channel that is full has somebody on the way to it. */
		if (ring_put(t->rings[i], end->wake_at))
			(void)send(end->wake_fd, "", 1,
			    MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

static void
times(const struct tracer *t, struct span *s, int64_t begun, int64_t ended)
{
	s->start = t->job->wall + begun;
	s->end = t->job->wall + ended;
}

void
tracer_validated(struct tracer *t, const struct trace *trace, int64_t begun,
    const char *invocation, const char *skill_id, const char *version,
    size_t errors, const char *code)
{
	int64_t now = clock_boot();
	struct span s;

	if (!t->on || (trace->flags & 1) == 0)
		return;
	span_init(&s, SPAN_VALIDATE);
	times(t, &s, begun, now);
	strlcpy(s.trace_id, trace->trace_id, sizeof(s.trace_id));
	if (trace_next_span(&t->ids, s.span_id) == -1)
		return;
	strlcpy(s.parent_id, t->job->span_id, sizeof(s.parent_id));
	s.flags = trace->flags;
	strlcpy(s.invocation_id, invocation, sizeof(s.invocation_id));
	strlcpy(s.skill_id, skill_id, sizeof(s.skill_id));
	strlcpy(s.version, version, sizeof(s.version));
	s.failed = errors > 0;
	s.errors = (int64_t)errors;
	s.duration_ms = (now - begun) / CLOCK_MS;
	strlcpy(s.outcome, errors > 0 ? "error" : "success", sizeof(s.outcome));
	if (code != NULL)
		strlcpy(s.error, code, sizeof(s.error));
	fill(t, &s);
	tracer_put(t);
}

void
tracer_begin(const struct tracer *t, struct call *c)
{
	if (t->on &&
	    (c->rpc.own_trace
		    ? trace_sampled(&t->job->sampler, &c->rpc.trace, true)
		    : (t->inv->trace.flags & 1) != 0))
		c->record.arrived = clock_boot();
}

/* Which trace it is in, and below what. */
static bool
take_context(struct tracer *t, const struct call *c, struct span *s)
{
	const struct trace *trace = &c->rpc.trace;

	s->flags = trace->flags;
	strlcpy(s->trace_id, trace->trace_id, sizeof(s->trace_id));
	if (c->rpc.own_trace) {
		strlcpy(s->parent_id, trace->span_id, sizeof(s->parent_id));
		s->remote = true;
		strlcpy(s->link_trace_id, t->inv->trace.trace_id,
		    sizeof(s->link_trace_id));
		strlcpy(s->link_span_id, t->job->span_id,
		    sizeof(s->link_span_id));
		s->link_flags = t->inv->trace.flags;
	} else {
		strlcpy(s->parent_id, t->job->span_id, sizeof(s->parent_id));
	}
	return trace_next_span(&t->ids, s->span_id) == 0;
}

static void
take_outcome(const struct call *c, struct span *s)
{
	bool refused =
	    c->run.outcome == OUTCOME_DENIED ||
	    (c->record.number == 0 && c->check.verdict.reason != REASON_NONE);
	const struct verdict_info *info = verdict_info(c->check.verdict.reason);

	strlcpy(s->outcome,
	    outcome_word(refused ? OUTCOME_DENIED : c->run.outcome),
	    sizeof(s->outcome));
	if (refused) {
		strlcpy(s->reason, info->reason, sizeof(s->reason));
		strlcpy(s->error, info->reason, sizeof(s->error));
		s->rpc_code = VERDICT_CODE;
	} else if (c->run.outcome != OUTCOME_SUCCESS) {
		strlcpy(s->error, failure_word(c->run.failure),
		    sizeof(s->error));
		s->rpc_code = RPC_TOOL_FAILED;
	} else {
		s->result_size = (int64_t)c->run.result.len;
	}
	s->failed = s->error[0] != '\0';
}

/* The host and port that the row names; nothing where the operator leaves them
 * out. */
static void
take_host(const struct tracer *t, const struct call *c, struct span *s)
{
	const char *name = c->check.on.name, *colon;

	if (name == NULL || !t->inv->policy->audit_resources)
		return;
	colon = strrchr(name, ':');
	if (colon == NULL || (size_t)(colon - name) >= sizeof(s->host))
		return;
	memcpy(s->host, name, (size_t)(colon - name));
	s->port = strtol(colon + 1, NULL, 10);
}

static bool
take_tool(struct tracer *t, struct call *c, int64_t now, struct span *s)
{
	const struct tool *tool = c->check.tool;

	/* Refused before anybody looked for it. */
	if (tool == NULL && c->rpc.tool != NULL)
		tool = registry_find(c->rpc.tool);
	strlcpy(s->tool_name, tool == NULL ? UNKNOWN_TOOL : tool->name,
	    sizeof(s->tool_name));
	if (tool == NULL || c->record.number == 0)
		return true; /* nothing ran */
	if (c->record.span_id[0] == '\0' &&
	    trace_next_span(&t->ids, c->record.span_id) == -1)
		return false;
	strlcpy(s->tool_span, tool->span, sizeof(s->tool_span));
	strlcpy(s->tool_span_id, c->record.span_id, sizeof(s->tool_span_id));
	s->tool_kind = (uint8_t)tool->span_kind;
	s->tool_start = t->job->wall + c->record.begun;
	s->tool_end = t->job->wall + now;
	if (tool->span_kind != SPAN_CLIENT) {
		if (c->run.status != -1)
			s->exit_code = c->run.status;
		return true;
	}
	strlcpy(s->method, http_method(c), sizeof(s->method));
	if (c->run.status != -1)
		s->status = c->run.status;
	take_host(t, c, s);
	return true;
}

void
tracer_end(struct tracer *t, struct call *c)
{
	int64_t now;
	struct span s;

	if (c->record.arrived == 0)
		return;
	now = clock_boot();
	span_init(&s, SPAN_CALL);
	times(t, &s, c->record.arrived, now);
	if (!take_context(t, c, &s) || !take_tool(t, c, now, &s))
		return;
	take_outcome(c, &s);
	s.duration_ms = (now - c->record.arrived) / CLOCK_MS;
	s.args_size = (int64_t)c->record.args_size;
	strlcpy(s.invocation_id, t->inv->id, sizeof(s.invocation_id));
	strlcpy(s.skill_id, t->skill_id, sizeof(s.skill_id));
	fill(t, &s);
	c->record.arrived = 0;
}
