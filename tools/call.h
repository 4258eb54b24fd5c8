#ifndef TOOLS_CALL_H
#define TOOLS_CALL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include <cjson/cJSON.h>

#include "audit/buf.h"
#include "audit/digest.h"
#include "audit/stray.h"
#include "audit/tally.h"
#include "audit/trace.h"
#include "enforce/grant.h"
#include "enforce/path.h"
#include "enforce/verdict.h"

/*
 * One call on its way: it enters as bytes and leaves as bytes. Each stage
 * fills its own block and only reads the others.
 */

#define CALL_RESPONSE_MAX	((size_t)16 * 1024 * 1024)	/* SPEC 5 */
#define CALL_FILE_MAX		((off_t)16 * 1024 * 1024)
#define CALL_IN_PLACE_MAX	((off_t)64 * 1024)	/* larger: a worker's */

struct expose_place;
struct narrow;

/* What one invocation's calls have in common. */
struct invocation {
	char		 id[37];
	char		 tenant[37];
	struct trace	 trace;
	const struct grant *grant;
	const struct policy *policy;
	const struct path_protect *protect;	/* NULL: no path is judged */
	const struct narrow *narrow;	/* for the workers */
	int		 memory_fd;	/* the tenant's memory root */
	int		 stray_fd;	/* notes of files in the making, or -1 */
	off_t		 stray_len;	/* of which so much is the supervisor's */
	struct digest	*digest;	/* plain SHA-256 */
	struct digest	*args_digest;	/* keyed when the operator says so */
	uint64_t	 written;	/* bytes written so far */
};

/* Why a tool that ran has failed: the stable words of SPEC 5, one table. */
enum failure {
	FAIL_NONE,
	FAIL_NOT_FOUND,
	FAIL_EXISTS,
	FAIL_IS_A_DIRECTORY,
	FAIL_PERMISSION,
	FAIL_TOO_LARGE,
	FAIL_NOT_UNIQUE,
	FAIL_TIMEOUT,
	FAIL_CANCELLED,
	FAIL_NO_SPACE,
	FAIL_IO_ERROR,
	FAIL_INVALID_PATTERN,
	FAIL_TOO_COMPLEX,
	FAIL_HTTP_ERROR,
	FAIL_TLS_ERROR,
	FAIL_RESOLVE_ERROR,
	FAIL_CONNECT_ERROR,
	FAIL_COUNT
};

/* What is counted has these words (tally.h). */
enum outcome {
	OUTCOME_SUCCESS = TALLY_SUCCESS,
	OUTCOME_ERROR = TALLY_ERROR,
	OUTCOME_DENIED = TALLY_DENIED,
	OUTCOME_TIMEOUT = TALLY_TIMEOUT
};

struct tool;

struct call {
	TAILQ_ENTRY(call) next;

	/* rpc: the request */
	struct {
		char		*id;		/* raw JSON text; NULL: notification */
		size_t		 id_len;
		char		*tool;		/* as the skill wrote it, UTF-8 */
		cJSON		*args;		/* owned; NULL when missing */
		bool		 odd;		/* a member beside them that is none */
		struct trace	 trace;		/* governs this call */
		bool		 own_trace;	/* it came with the call */
		char		*traceparent;	/* the call's own, as given */
		char		*tracestate;	/* to pass on, or NULL */
		size_t		 budget;	/* bytes the result may take */
		uint64_t	 conn;		/* who gets the answer */
	} rpc;

	/* check: may it, and on what */
	struct {
		const struct tool *tool;
		struct verdict {
			enum reason	 reason;
			unsigned	 retry_after_ms;
		} verdict;
		enum failure	 failure;	/* known before it runs */
		char		 bad[160];	/* -32602: which one, and why */
		struct resource {
			char		*name;	/* canonical, or NULL */
			int		 fd;	/* what was judged, or -1 */
			int		 parent_fd;
			char		 leaf[NAME_MAX + 1];
			struct stat	 st;	/* when fd is not -1 */
		} on;
	} check;

	/* run: what came out */
	struct {
		enum outcome	 outcome;
		enum failure	 failure;
		int		 error;		/* errno behind it, or 0 */
		int		 code;		/* or a library's number */
		int		 status;	/* of HTTP, or an exit status; -1: none */
		struct buf	 result;	/* a JSON object's text */
		bool		 cut;		/* shortened to the budget */
		uint64_t	 written;	/* bytes put on disk */
		unsigned	 again;		/* times it was judged anew */
		char		 temp[STRAY_NAME];	/* of a file in the making */
		char		 content_hash[DIGEST_HEX];	/* MemoryEmit */
	} run;

	/* record: for the rows */
	struct {
		uint64_t	 number;	/* pairs started and completed */
		int64_t		 arrived;	/* clock_boot; 0: no span */
		int64_t		 begun;		/* clock_boot */
		size_t		 args_size;	/* of the canonical text */
		char		 span_id[17];	/* of the tool, once it has one */
		char		 args_hash[DIGEST_TEXT];
		char		 result_hash[DIGEST_TEXT];
	} record;
};

TAILQ_HEAD(call_queue, call);

/* An empty call, or NULL with ENOMEM; call_free takes a half-filled one too. */
struct call	*call_new(void);
void		 call_free(struct call *);

/* Let go of what the check has opened. */
void		 call_clear_resource(struct call *);

/* Text of an argument that the shape check has seen, or NULL when absent. */
const char	*call_text(const struct call *, const char *name);
bool		 call_flag(const struct call *, const char *name);
int64_t		 call_int(const struct call *, const char *name, int64_t absent);

/* "not_found" and so on; and the sentence for data.detail. */
const char	*failure_word(enum failure);
const char	*failure_detail(enum failure);
const char	*outcome_word(enum outcome);

/* End a run with a failure (outcome error), from a word or from errno. */
void		 call_fail(struct call *, enum failure);
void		 call_fail_errno(struct call *, int error);

/*
 * The result object, member by member, into run.result. result_body adds
 * "body" and "encoding": text when the bytes are UTF-8 without a NUL, else
 * base64; shortened at a character (at a multiple of 4) to what the budget
 * leaves beside reserve bytes, which the other members take. Returns how many
 * of the n bytes went in.
 */
void		 result_begin(struct call *);
void		 result_text(struct call *, const char *name, const char *);
void		 result_int(struct call *, const char *name, int64_t);
void		 result_bool(struct call *, const char *name, bool);
size_t		 result_body(struct call *, const char *p, size_t n,
		    size_t reserve);
void		 result_end(struct call *);

/*
 * Decode base64 (RFC 4648, section 4, with padding, strict) into a fresh
 * buffer. 0, or -1 with errno EINVAL or ENOMEM.
 */
int		 base64_decode(const char *, size_t, char **out, size_t *outlen);
int		 base64_encode(struct buf *, const char *, size_t);

#endif
