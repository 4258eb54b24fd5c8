#ifndef AUDIT_SPAN_H
#define AUDIT_SPAN_H

#include <stdbool.h>
#include <stdint.h>

#include "audit/buf.h"
#include "audit/trace.h"

/*
 * Spans (SPEC 11): what a broker notes of a call in a record of a fixed size,
 * and what becomes of it in OTLP JSON. A record holds words of ours, numbers,
 * ids, and a host with its port; never an argument, a path, a query, a command
 * or a result.
 */

/* The semantic conventions that the names beside ours follow (span.c). */
#define SPAN_CONVENTIONS	"1.44 and GenAI of September 2026"

enum span_what {
	SPAN_INVOCATION,	/* skill.invocation */
	SPAN_VALIDATE,		/* skill.frontmatter.validate */
	SPAN_CALL,		/* skill.broker.tool_call */
	SPAN_TOOL,		/* its child; in a record only with its call */
	SPAN_WHATS
};

/* The kinds of the proto files. */
enum span_kind {
	SPAN_INTERNAL = 1,
	SPAN_SERVER = 2,
	SPAN_CLIENT = 3
};

#define SPAN_NAME	32
#define SPAN_WORD	48
#define SPAN_HOST	256
#define SPAN_NOTHING	INT64_MIN	/* a number that is not known */

struct span {
	uint8_t	 what;
	uint8_t	 failed;	/* status Error */
	uint8_t	 flags;		/* of the trace context */
	uint8_t	 remote;	/* the parent is another process's */
	char	 trace_id[TRACE_ID_SIZE];
	char	 span_id[17];
	char	 parent_id[17];		/* "": a root */
	char	 link_trace_id[TRACE_ID_SIZE];	/* "": no link */
	char	 link_span_id[17];
	uint8_t	 link_flags;
	int64_t	 start, end;		/* wall time in nanoseconds */
	/* the tool's own span below a call; name "": it never ran */
	char	 tool_span[SPAN_NAME];
	char	 tool_span_id[17];
	uint8_t	 tool_kind;		/* enum span_kind */
	int64_t	 tool_start, tool_end;
	/* attributes; "" and SPAN_NOTHING are left out */
	char	 invocation_id[37];
	char	 tenant_id[37];
	char	 skill_id[65];
	char	 version[65];
	char	 tool_name[SPAN_NAME];
	char	 outcome[16];
	char	 reason[SPAN_WORD];	/* of a refusal */
	char	 error[SPAN_WORD];	/* error.type */
	char	 method[8];		/* of HTTP */
	char	 host[SPAN_HOST];
	int64_t	 port;
	int64_t	 status;		/* of HTTP */
	int64_t	 exit_code;
	int64_t	 rpc_code;
	int64_t	 duration_ms;
	int64_t	 args_size;
	int64_t	 result_size;
	int64_t	 errors;		/* in a frontmatter */
	int64_t	 calls, denied, rejected;
};

/* Empty, with a start: no text, every number SPAN_NOTHING. */
void	span_init(struct span *, enum span_what);

/* How many spans a record stands for: 2 when the tool has its own. */
unsigned span_count(const struct span *);

/*
 * May it be believed so far that it can be encoded? Every text ends in its
 * field and is visible ASCII, ids are ids, nothing ends before it starts.
 */
bool	span_valid(const struct span *);

/* OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT and ..._VALUE_LENGTH_LIMIT. */
struct span_limits {
	unsigned count;
	unsigned length;
};

/*
 * One ExportTraceServiceRequest in OTLP JSON: begin, then of each record the n
 * spans after the first skip, then end. resource is the text of a JSON array of
 * attributes, as span_text makes them. 0, or -1 with errno; the buffer is marked
 * as failed then.
 */
int	span_begin(struct buf *, const char *resource, size_t len);
int	span_put(struct buf *, const struct span *, unsigned skip, unsigned n,
	    const struct span_limits *);
int	span_end(struct buf *);

/* One attribute of text, {"key":...,"value":{"stringValue":...}}. */
int	span_text(struct buf *, const char *key, const char *value, size_t len);

/* The names of the spans, and of their attributes: ours and the conventions'
 * (NULL: none). False after the last one. For the manual's test. */
const char *span_name(enum span_what);
bool	span_attribute(size_t i, const char **ours, const char **theirs);

#endif
