#ifndef SUPERVISOR_REQUEST_H
#define SUPERVISOR_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

/*
 * The requests of `supervise` (SPEC 12), one JSON object a line. A line is
 * either taken as a whole or refused with a reason; there is no member that is
 * silently ignored.
 */
#define REQUEST_LINE_MAX	1048576	/* bytes, without the line feed */
#define REQUEST_ID_MAX		256	/* bytes of the caller's own id, as JSON */
#define REQUEST_ARGS_MAX	1024

enum request_op {
	REQUEST_RUN,
	REQUEST_CANCEL,
	REQUEST_STATUS
};

struct request {
	enum request_op	 op;
	char		 id[REQUEST_ID_MAX + 1];	/* as JSON, or "" */
	char		 invocation[37];	/* "" where RUN has none */
	char		 tenant[37];
	const char	*skill;		/* these are the tree's */
	const char	*persona;
	const char	*request_id;
	const char	*traceparent;
	const char	*in;		/* for standard input, or NULL */
	const char	**args;		/* ends with NULL */
	double		 deadline;	/* seconds; 0: none given */
	bool		 output;
	size_t		 len;		/* of the line */
	cJSON		*tree;
};

/* Why a line is refused: a word for programs, a sentence for people. */
struct request_fault {
	const char	*reason;
	char		 message[256];
};

/*
 * Read a line. 0, or -1 with *fault, and what is left of the request may still
 * have the caller's id. The caller clears it in any case.
 */
int	request_read(struct request *, const char *line, size_t len,
	    struct request_fault *fault);
void	request_clear(struct request *);

/* Zero what the caller sent, in place: for a process that has no use for it. */
void	request_wipe(struct request *);

#endif
