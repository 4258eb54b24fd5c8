#ifndef ENFORCE_VERDICT_H
#define ENFORCE_VERDICT_H

/*
 * Why a call is refused. A refusal is a value, answered and recorded, never an
 * error path. The table in verdict.c holds for each reason its wire word, its
 * class (the JSON-RPC message) and the sentence that tells the author what to
 * change (some share a word and differ in that sentence); protocol answers,
 * rows, cyberos-broker(7) and the tests are made of it (SPEC 5).
 */
enum reason {
	REASON_NONE,		/* not refused */
	REASON_RATE_LIMITED,
	REASON_UNKNOWN_TOOL,
	REASON_TOOL_DISALLOWED,
	REASON_TOOL_NOT_ALLOWED,
	REASON_TOOL_CEILING,
	REASON_SCOPE,
	REASON_SCOPE_CEILING,
	REASON_FILE,
	REASON_FILE_CEILING,
	REASON_PROTECTED,
	REASON_HARD_LINK,
	REASON_PRIVILEGED_FILE,
	REASON_DOMAIN,
	REASON_URL_USER,	/* also domain_violation, as SPEC 5 has it: */
	REASON_URL_HOST,	/* what no glob can grant */
	REASON_URL_SCHEME,
	REASON_URL_DOWNGRADE,
	REASON_DOMAIN_CEILING,
	REASON_ADDRESS_NOT_PUBLIC,
	REASON_REQUEST_TOO_LARGE,
	REASON_DEADLINE,
	REASON_AUDIT_UNAVAILABLE,
	REASON_AUDIT_BUDGET,
	REASON_COUNT
};

#define VERDICT_CODE	(-32603)	/* of every refusal (SPEC 5) */

struct verdict_info {
	const char *reason;	/* data.reason, and the row's reason */
	const char *class;	/* error.message */
	const char *hint;	/* data.hint: one sentence for the author */
};

/* The row of the table; constant, never NULL for a reason below COUNT. */
const struct verdict_info *verdict_info(enum reason);

#endif
