#ifndef AUDIT_TRACE_H
#define AUDIT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_PARENT_MAX	512	/* bytes; 55 but for unknown versions */
#define TRACE_STATE_MAX		32768	/* bytes; 32 longest members need 16447 */

/*
 * W3C Trace Context (https://www.w3.org/TR/trace-context/, SPEC 6). Ids are
 * kept as lower-case hexadecimal text, since that is how every row, header and
 * export wants them.
 */
#define TRACE_ID_SIZE	33

struct trace {
	char	trace_id[TRACE_ID_SIZE];
	char	span_id[17];
	uint8_t	flags;
};

/*
 * Read a traceparent parameter. Exactly: no blanks around it. Version 00 is 55
 * characters; a higher version (not ff) is read like 00 when a dash or nothing
 * follows the flags, and is visible ASCII of at most TRACE_PARENT_MAX bytes, so
 * that it may go into a header as it is; all-zero ids are invalid. False leaves
 * *t untouched.
 */
bool	trace_parse(const char *text, size_t len, struct trace *t);

/* A fresh random trace id and span id, sampled. 0, or -1 with errno. */
int	trace_new(struct trace *);

/* A fresh random span id into id[17]. 0, or -1 with errno. */
int	trace_new_span(char id[17]);

/* The same for who needs many: the kernel is asked for some dozens at once. */
struct trace_ids {
	unsigned char	bytes[256];
	size_t		left;
};
int	trace_next_span(struct trace_ids *, char id[17]);

/* Which traces are recorded, by OTEL_TRACES_SAMPLER. */
struct trace_sampler {
	bool	 parent;	/* who has a parent follows it */
	uint64_t below;		/* of the low 63 bits of the trace id */
};

#define TRACE_ALWAYS	(UINT64_C(1) << 63)

/* Is it recorded? given: it came from a caller and has a parent's word. */
bool	trace_sampled(const struct trace_sampler *, const struct trace *,
	    bool given);

/*
 * Is it a tracestate that may be passed on? At most 32 members, keys and
 * values by the grammar of the recommendation, no duplicate key, at most
 * TRACE_STATE_MAX bytes. Empty members (not counted) and blanks around members
 * are fine. One bad member spoils all of it. An empty text is valid and says
 * nothing.
 */
bool	trace_state_valid(const char *text, size_t len);

#endif
