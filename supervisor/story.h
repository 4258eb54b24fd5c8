#ifndef SUPERVISOR_STORY_H
#define SUPERVISOR_STORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/buf.h"
#include "supervisor/trail.h"

/*
 * What happened in an invocation, told by its rows: each call once, from its
 * start to its end, and between them whatever else was recorded.
 */
struct story_entry {
	uint64_t seq;		/* of its first row */
	char	 time[40];	/* of its first row */
	bool	 is_call;	/* else an event: outcome is its kind */
	bool	 open;		/* started, and nothing tells of its end */
	int64_t	 call;		/* its number, or -1 */
	int64_t	 duration_ms;	/* or -1 */
	int64_t	 count;		/* a row for so many */
	/* NULL where there is none. */
	char	*tool, *outcome, *resource, *reason, *error;
	char	*args_hash, *result_hash;
};

struct story {
	/* from the first and the last row; NULL while unknown */
	char	*skill_id, *version, *tenant_id, *started_at;
	char	*outcome, *by, *exit_code, *signal, *error;
	int64_t	 duration_ms;	/* or -1 */
	bool	 ended;
	struct story_entry *v;
	size_t	 n;
	uint64_t calls, denied, errors, timeouts;
};

void	story_clear(struct story *);

/*
 * Take the next row. -1 with ENOMEM; 0; or 1 and *done, the entry that has come
 * to its end with it.
 */
int	story_take(struct story *, const struct trail_row *,
	    const struct story_entry **done);

/* One line; on a terminal its resource, which comes last, is cut to its width. */
void	story_line(const struct story_entry *, bool color);

/* "time tool outcome ..." above such lines. */
void	story_heading(void);

/* One JSON object. */
void	story_json(const struct story_entry *, struct buf *);

#endif
