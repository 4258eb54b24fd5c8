#ifndef AUDIT_TALLY_H
#define AUDIT_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What is counted for the metrics (SPEC 11): of one invocation, in the page that
 * its broker has (counters.h); of its rows, when they are read again (recount.h);
 * of a host, in its page (hostpage.h). Every label comes from a closed list: the words
 * below, and the names of tools and system calls, which a tally carries with it,
 * so that it can be read by another version and by who has no registry.
 */

#define TALLY_NAME	24	/* bytes of a name, its NUL included */
#define TALLY_TOOLS	32	/* [0] is TALLY_UNKNOWN; "" is free */
#define TALLY_SYSCALLS	128	/* the same */
#define TALLY_BUCKETS	24	/* the last one has no bound */
#define TALLY_UNKNOWN	"_unknown"	/* whatever is in no list */
#define TALLY_MAGIC	UINT64_C(0x313030796c6c6174)

/* The closed lists of words; tally_word has the texts. */
enum tally_list {
	TALLY_OUTCOME,
	TALLY_ENDING,
	TALLY_VALIDATION,
	TALLY_DIRECTION,
	TALLY_DROP,
	TALLY_LISTS
};

/* What came of a call. */
enum tally_outcome {
	TALLY_SUCCESS,
	TALLY_ERROR,
	TALLY_DENIED,
	TALLY_TIMEOUT,
	TALLY_OUTCOMES
};

/* How an invocation ended. */
enum tally_ending {
	TALLY_END_SUCCESS,
	TALLY_END_ERROR,
	TALLY_END_PANIC,
	TALLY_END_KILLED,
	TALLY_END_TIMEOUT,
	TALLY_END_NO_CONNECT,
	TALLY_END_REFUSED,
	TALLY_ENDINGS
};

/* What came of a look at a frontmatter. */
enum tally_validation {
	TALLY_OK,
	TALLY_PARSE_ERR,
	TALLY_REQUIRED_MISSING,
	TALLY_INVALID_FIELD,
	TALLY_SIGNATURE_FAILED,
	TALLY_VERSION_SKEW,
	TALLY_VALIDATIONS
};

/* Bytes on the invocation's socket. */
enum tally_direction {
	TALLY_RX,		/* from the skill */
	TALLY_TX,
	TALLY_DIRECTIONS
};

/* Why a span was not exported. */
enum tally_drop {
	TALLY_QUEUE_FULL,
	TALLY_REJECTED,		/* the collector took the batch and not this */
	TALLY_FAILED,		/* it did not take the batch, also later */
	TALLY_SHUTDOWN,		/* left when the time for the last flush was over */
	TALLY_DROPS
};

struct tally_histogram {
	uint64_t bucket[TALLY_BUCKETS];	/* each for itself */
	uint64_t sum;			/* nanoseconds */
};

struct tally_tool {
	char	 name[TALLY_NAME];
	uint64_t calls[TALLY_OUTCOMES];
	struct tally_histogram took;	/* of those that ran */
	uint64_t last;			/* nanoseconds, of the newest of these */
};

struct tally_syscall {
	char	 name[TALLY_NAME];
	uint64_t attempts;
};

struct tally {
	uint64_t magic;			/* of this layout */
	struct tally_tool tools[TALLY_TOOLS];
	struct tally_syscall syscalls[TALLY_SYSCALLS];
	uint64_t endings[TALLY_ENDINGS];
	uint64_t validations[TALLY_VALIDATIONS];
	struct tally_histogram validation;
	uint64_t bytes[TALLY_DIRECTIONS];
	uint64_t spans_dropped[TALLY_DROPS];
	uint64_t truncated;		/* answers that were cut */
	uint64_t bad_traces;		/* invalid traceparents of calls */
	uint64_t rows;			/* of the ledger, made or found */
	uint64_t spooled;		/* of these, had to wait */
	uint64_t dropped;		/* of these, are lost */
};

/* The names that this program knows; lists end with NULL. */
struct tally_names {
	const char *const *tools;
	const char *const *syscalls;
};

/* A word of a list, NULL behind the last one; and its place, or -1. */
const char	*tally_word(enum tally_list, size_t);
int		 tally_place(enum tally_list, const char *word);

/* The upper bound of a bucket, included in it: nanoseconds, and seconds as the
 * canonical text of OpenMetrics. The last one: INT64_MAX, "+Inf". */
int64_t		 tally_bound(size_t);
const char	*tally_bound_text(size_t);

/* All zero, with these names; or those added that are not there yet. */
void		 tally_init(struct tally *, const struct tally_names *);
void		 tally_extend(struct tally *, const struct tally_names *);

/*
 * One writer at a time may count with these in a page that others read: what
 * they add is there when the writer is killed behind it.
 */
void		 tally_count(uint64_t *, uint64_t n);
void		 tally_set(uint64_t *, uint64_t n);
void		 tally_observe(struct tally_histogram *, int64_t ns);

/* A call of a tool, by its name, which may be NULL or no tool's at all; ns < 0:
 * it never ran. Or so many of them that never ran. */
void		 tally_call(struct tally *, const char *tool,
		    enum tally_outcome, int64_t ns);
void		 tally_call_many(struct tally *, const char *tool,
		    enum tally_outcome, uint64_t n);
/* Refused escapes by this system call. */
void		 tally_attempt(struct tally *, const char *syscall, uint64_t n);

/* How many there are in a histogram. */
uint64_t	 tally_observed(const struct tally_histogram *);

/*
 * Add another one, which nobody needs to have looked at: names that into does
 * not have count as unknown, a number that no invocation can reach as the
 * highest that one can, and sums stop rather than wrap. With another magic it
 * adds nothing.
 */
void		 tally_add(struct tally *into, const struct tally *);

/*
 * What the rows of an invocation say, put into its page's copy where that has
 * less: its broker was killed between a row and the count. Both were made with
 * the same names. Rows that were made and not found are dropped ones.
 */
void		 tally_raise(struct tally *, const struct tally *rows);

#endif
