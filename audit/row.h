#ifndef AUDIT_ROW_H
#define AUDIT_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/buf.h"
#include "audit/clock.h"
#include "audit/digest.h"

/*
 * Rows of the ledger (SPEC 10, LEDGER.md). A const table says which fields a
 * kind has and in which order; a row is filled field by field against it, so
 * that no kind can gain, lose or reorder a field unnoticed.
 */

#define ROW_MAX		16384	/* bytes of one line, line feed included */
#define ROW_TEXT_MAX	1024	/* escaped bytes of one free text */

enum row_kind {
	ROW_INVOKED_STARTED,
	ROW_SANDBOX_ATTESTED,
	ROW_INVOKED_COMPLETED,
	ROW_TOOL_STARTED,
	ROW_TOOL_COMPLETED,
	ROW_TOOL_DENIED,
	ROW_TIMEOUT,
	ROW_NO_CONNECT,
	ROW_CAP_BYPASS,
	ROW_PEER_REFUSED,
	ROW_ROWS_LOST,
	ROW_DAY_OPENED,
	ROW_SEGMENT_OPENED,
	ROW_SEGMENT_MARK,
	ROW_SEGMENT_PART,
	ROW_SEGMENT_CLOSED,
	ROW_RECOVERED,
	ROW_ORPHAN_REMOVED,
	ROW_CLOCK_STEP,
	ROW_QUARANTINED,
	ROW_RELEASED,
	ROW_KINDS
};

enum row_by {
	ROW_BY_BROKER,
	ROW_BY_SUPERVISOR,
	ROW_BY_RECOVERY,
	ROW_BY_SKILL
};

/* Who a segment's row is about; the first fields of every payload in it. */
struct row_subject {
	const char *invocation_id;
	const char *skill_id;		/* NULL while unknown */
	const char *trace_id;
	const char *invocation_trace_id; /* NULL unless the call has its own */
};

struct row {
	const char	*kind;
	const char *const *field;	/* the next one that is due */
	struct digest	*digest;	/* for the hash of a cut text */
	struct buf	 payload;
};

/* The wire word of a kind, "skill.tool_denied". */
const char *row_kind_word(enum row_kind);

/* The kind of a wire word; ROW_KINDS when it is none of the table. */
enum row_kind row_kind_of(const char *word);

/*
 * Begin a row; subject is NULL for anchors, which have none. The digest must
 * be a plain one; it is borrowed until row_clear. A field that is not the next
 * one in the table marks the row as failed.
 */
void	row_begin(struct row *, enum row_kind, const struct row_subject *,
	    struct digest *);

/* Begin a row that the skill asked for (MemoryEmit): any fields, in any order. */
void	row_begin_skill(struct row *, const char *kind, struct digest *);

/*
 * One field each. row_text is for free text: what escapes to more than
 * ROW_TEXT_MAX bytes is cut at a character and gets its SHA-256 beside it as
 * NAME_sha256; row_string is the same for a text with its NUL. NULL means null.
 * row_json takes a text that is JSON already.
 */
void	row_text(struct row *, const char *name, const char *, size_t);
void	row_string(struct row *, const char *name, const char *);
void	row_word(struct row *, const char *name, const char *);
void	row_int(struct row *, const char *name, int64_t);
void	row_bool(struct row *, const char *name, bool);
void	row_json(struct row *, const char *name, const char *, size_t);

/*
 * Close the payload. 0, or -1 with errno EINVAL when fields are missing or out
 * of order (our own mistake), ENOMEM, ENOBUFS when it does not fit in a row.
 */
int	row_end(struct row *);
void	row_clear(struct row *);

/* Where a row stands in its chain. */
struct row_place {
	const char	*inv;		/* of a segment, or NULL */
	const char	*host;		/* of the host ledger, or NULL */
	uint64_t	 seq;
	enum row_by	 by;
	const char	*prev;		/* hash of the row before it */
};

/*
 * The finished line, line feed included, appended to out; its hash to hash.
 * The hash covers the exact bytes before ,"hash":". 0, or -1 with errno.
 */
int	row_line(const struct row *, const struct row_place *, struct buf *out,
	    char hash[DIGEST_HEX]);

/* Why a line is no row of ours. */
enum row_fault {
	ROW_FAULT_FORM,		/* not the fixed form */
	ROW_FAULT_OWNER,	/* of another invocation or host */
	ROW_FAULT_HASH		/* the bytes are not the ones that were hashed */
};

/* What a reader needs of a line. */
struct row_read {
	enum row_fault	 fault;		/* when row_read failed */
	uint64_t	 seq;		/* seq or hseq */
	char		 ts[CLOCK_STAMP_SIZE];
	char		 kind[136];	/* MemoryEmit: at most 128 bytes */
	char		 by[16];
	char		 prev[DIGEST_HEX];
	char		 hash[DIGEST_HEX];
	const char	*payload;	/* inside the line */
	size_t		 payload_len;
};

/* Members of its payload: as json_text_of and json_uint_of (audit/json.h). */
bool	row_text_of(const struct row_read *, const char *name, char *out,
	    size_t size);
bool	row_uint_of(const struct row_read *, const char *name, uint64_t *);

/*
 * Read a line (without its line feed) that must have exactly our form: fixed
 * field order, inv or host as expected in owner, and a hash that holds. 0, or
 * -1 with errno EBADMSG and the first thing that is wrong in fault.
 */
int	row_read(const char *line, size_t len, bool host, const char *owner,
	    struct digest *, struct row_read *);

#endif
