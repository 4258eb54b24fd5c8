#ifndef BROKER_TRACER_H
#define BROKER_TRACER_H

#include "audit/ring.h"
#include "audit/trace.h"
#include "broker/broker.h"
#include "tools/call.h"

/*
 * The broker's spans (SPEC 6, 11): each is put into the queues of those who
 * export it, which takes no system call and never waits. Private to broker/.
 */

struct tracer {
	const struct tracer_job *job;
	const struct invocation *inv;
	const char	*skill_id;
	struct ring	*rings[TRACER_SINKS];
	bool		 filled[TRACER_SINKS];	/* and not put yet */
	struct trace_ids ids;
	bool		 on;
};

/*
 * Map the queues, whose files stay the caller's; before anything is forked. The
 * job is borrowed. 0, or -1 with errno; then there are no spans.
 */
int	tracer_open(struct tracer *, const struct tracer_job *);
void	tracer_close(struct tracer *);

/* SKILL.md was looked at, from then to now: how many errors, the first one's
 * code or NULL. */
void	tracer_validated(struct tracer *, const struct trace *, int64_t begun,
	    const char *invocation, const char *skill_id, const char *version,
	    size_t errors, const char *code);

/* A call has come; what governs it is in rpc. */
void	tracer_begin(const struct tracer *, struct call *);

/*
 * It has ended, refused ones included. Once for each call: its spans are made,
 * and seen after tracer_put. In between its row is written, whose number
 * tracer_promise tells, so that a broker that dies then leaves both or neither.
 */
void	tracer_end(struct tracer *, struct call *);
void	tracer_promise(struct tracer *, uint64_t row);
void	tracer_put(struct tracer *);

#endif
