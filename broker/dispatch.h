#ifndef BROKER_DISPATCH_H
#define BROKER_DISPATCH_H

#include "audit/counters.h"
#include "audit/log.h"
#include "audit/segment.h"
#include "broker/clockwork.h"
#include "broker/fold.h"
#include "broker/limit.h"
#include "broker/rpc.h"
#include "broker/tracer.h"
#include "tools/bash.h"
#include "tools/call.h"
#include "tools/http.h"
#include "tools/worker.h"

/*
 * What happens to a request: check, record, run, record, answer. The only
 * caller of the tools and the only writer of rows about calls.
 */
struct dispatch {
	struct invocation	*inv;
	struct segment		*segment;
	struct counters		*counters;
	struct tally		*tally;		/* in the page of these */
	struct worker		*worker;	/* of files */
	struct worker		*walker;	/* of searches */
	struct http		*http;
	struct bash		*bash;
	struct limit		 limit;
	struct fold		 fold;
	const struct clockwork	*clockwork;
	struct tracer		*tracer;
	const struct log	*log;
	uint64_t		 calls_started;	/* numbers the pairs */
	char			 last_tool[64];	/* for skill.timeout */
	bool			 warned_ledger;
	uint64_t		 lost_told;	/* rows that skill.rows_lost tells of */
	uint64_t		 lost_from;	/* number of the first other one */
	char			 lost_head[DIGEST_HEX];
	bool			 ending;	/* workers get nothing new */
};

enum dispatched {
	DISPATCH_DONE,		/* the answer, if one is due, is in reply */
	DISPATCH_LATER		/* a worker has it; dispatch_finish follows */
};

/*
 * Handle one request. budget is what its answer may take in bytes; conn comes
 * back in the finished call as rpc.conn.
 */
enum dispatched dispatch_request(struct dispatch *, const struct rpc_request *,
	    size_t budget, uint64_t conn, struct buf *reply);

/* A worker's call has come back: record it, answer it, free it. */
void	dispatch_finish(struct dispatch *, struct call *, struct buf *reply);

/* The net worker has read a call's URL and it may: record it, let it go. */
void	dispatch_go(struct dispatch *, struct call *);

/* End a call that a worker did not finish: cancelled, or out of time. */
void	dispatch_abandon(struct dispatch *, struct call *, enum failure,
	    struct buf *reply);

/*
 * What is no request (-32700, -32600, -32601): counted as rejected, against the
 * rate limit too, and answered where reply is not NULL.
 */
void	dispatch_garbage(struct dispatch *, int code, struct json_span id,
	    struct buf *reply);

/*
 * A message over the limit was thrown away; hash is of its bytes. Answered
 * where reply is not NULL.
 */
void	dispatch_too_large(struct dispatch *, const char *hash,
	    struct buf *reply);

/* Refusals that were folded get their row: those that are due, or, with last,
 * all that are left. */
void	dispatch_unfold(struct dispatch *, bool last);

/* Milliseconds until dispatch_unfold is due, or -1. */
int	dispatch_due(const struct dispatch *);

/* Is there something that dispatch_retry has to tell, though no row waits? */
bool	dispatch_owes_rows(const struct dispatch *);

/* Try to write the rows that wait, and tell of those that were lost. */
void	dispatch_retry(struct dispatch *);

/* Append a finished row by the broker; logs when it has to wait or is lost. */
int	dispatch_row(struct dispatch *, struct row *);
void	dispatch_subject(const struct dispatch *, const struct call *,
	    struct row_subject *);

#endif
