#ifndef SUPERVISOR_REPORT_H
#define SUPERVISOR_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "audit/buf.h"

/*
 * The events of `supervise`, one JSON object a line, on their way to standard
 * output. Whoever reads them may be slow or go away: nothing here waits.
 */
struct report {
	int		 fd;		/* a description of ours where possible */
	bool		 own;		/* it is, and it does not block */
	bool		 is_socket;
	bool		 gone;		/* nobody reads any more; events are dropped */
	struct buf	 out;
	size_t		 sent;		/* bytes of out that are written */
};

void	report_open(struct report *, int stream);
void	report_close(struct report *);

/*
 * Begin an event; the buffer takes further members, each with a comma in front.
 * id is JSON, or "". report_end ends the line.
 */
struct buf *report_begin(struct report *, const char *event, const char *id);
void	report_end(struct report *);

/*
 * Is there room for what can wait (output, answers to further requests)? What
 * cannot wait is always taken: it is bounded by what was accepted.
 */
bool	report_room(const struct report *);
bool	report_pending(const struct report *);

/* Nobody reads any more: nothing waits to be written from now on. */
void	report_lost(struct report *);

/* Write what can be written now. */
void	report_flush(struct report *);

#endif
