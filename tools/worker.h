#ifndef TOOLS_WORKER_H
#define TOOLS_WORKER_H

#include "tools/call.h"

/*
 * A child that runs calls one after the other, so that the loop never waits
 * for a disk: started on first use, kept for the invocation. One that crashes
 * or is killed costs the call it had; the next call gets a fresh one.
 */
struct worker;

enum worker_kind {
	WORKER_FILE,	/* writes, syncs, large reads */
	WORKER_WALK	/* searches: it can only read, and what is granted */
};

/* The invocation is borrowed; it must be final. NULL with ENOMEM. */
struct worker	*worker_new(struct invocation *, enum worker_kind);

/* Ends the child; the calls it still had are freed. */
void		 worker_free(struct worker *);

/* Give it a call; it is owned until worker_service or worker_abort returns it. */
void		 worker_submit(struct worker *, struct call *);

/* What to poll: -1 while there is no child; POLLIN and, while sending, POLLOUT. */
int		 worker_fd(const struct worker *);
short		 worker_events(const struct worker *);

/* The call that worker_service gives back next, or NULL. */
const struct call *worker_next(const struct worker *);

/* Has it calls and no child for them? Then worker_service is due at once. */
bool		 worker_failed(const struct worker *);

/* Go on after poll. A call whose run block is filled, or NULL. */
struct call	*worker_service(struct worker *);

/* Kill the child and take back a call that did not finish; NULL: no more. */
struct call	*worker_abort(struct worker *);

#endif
