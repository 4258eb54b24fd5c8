#ifndef BROKER_SINK_H
#define BROKER_SINK_H

#include <stdbool.h>
#include <stddef.h>

#include "enforce/fdpass.h"

/*
 * Where descriptors end that came along with a request: nobody asked for them
 * (SPEC 3). Closing one can take the kernel long, a listening socket with all who
 * wait at it, say, or the last of a large file; the loop has no time for that,
 * so a thread does it, which begins with the first of them.
 */

struct sink;

/* NULL with errno. What its thread is at work on is gone after sink_free. */
struct sink	*sink_new(void);
void		 sink_free(struct sink *);

/*
 * Close them all: they end at the first that is -1, or with FDPASS_MAX. When the
 * thread still has others, or none can be had, here and now.
 */
void		 sink_take(struct sink *, const int fds[FDPASS_MAX]);

/* Is the thread at work? Then nothing should be received that would have to
 * wait for it. */
bool		 sink_busy(const struct sink *);

/* Readable when the thread has done; -1 when it has nothing to do. */
int		 sink_fd(const struct sink *);

/* That was readable: it is not busy any more. */
void		 sink_done(struct sink *);

#endif
