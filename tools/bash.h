#ifndef TOOLS_BASH_H
#define TOOLS_BASH_H

#include <poll.h>

#include "audit/log.h"
#include "enforce/spawn.h"
#include "tools/call.h"
#include "tools/registry.h"

/*
 * Bash (SPEC 7.7), the broker's end: the spawner builds a sandbox for each
 * call; its streams are fed and drained here, a piece at a time, so that the
 * loop never waits for a shell.
 */

#define BASH_AT_ONCE	4
#define BASH_STREAM_MAX	((size_t)1024 * 1024)	/* bytes kept of a stream */
#define BASH_POLLFDS	(BASH_AT_ONCE * 4)

/* SPEC 7.7's shape: cwd is absolute. */
bool		 bash_shape(struct call *);
enum place	 bash_place(const struct call *);

struct bash;

/* The invocation is borrowed. NULL with ENOMEM. */
struct bash	*bash_new(const struct invocation *, const struct log *);

/* Ends what runs; the calls that it still had are freed. */
void		 bash_free(struct bash *);

/* The spawner's channel, which stays the caller's; -1: there is none any more. */
void		 bash_use(struct bash *, int channel_fd);

/* Give it a call, whose start is recorded. */
void		 bash_submit(struct bash *, struct call *);

/* Fill at most BASH_POLLFDS entries; returns how many. */
size_t		 bash_poll(const struct bash *, struct pollfd *);

/* Milliseconds until bash_step is due anyway, or -1. Calls that have ended count
 * when there is room for their answers. */
int		 bash_due(const struct bash *, bool room);

/* What the spawner says of its child id; takes the descriptors. */
struct spawner_message;
void		 bash_heard(struct bash *, const struct spawner_message *,
		    int fds[]);

/* Go on with what poll found. */
void		 bash_step(struct bash *, const struct pollfd *, size_t n);

/* A call that has come to its end, or NULL. */
struct call	*bash_finished(struct bash *);

/* A refused escape attempt of one of them, to be recorded; false: none. */
bool		 bash_attempt(struct bash *, struct spawn_attempt *);

/* End a call that did not finish and take it back; NULL: no more. */
struct call	*bash_abort(struct bash *);

#endif
