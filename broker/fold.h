#ifndef BROKER_FOLD_H
#define BROKER_FOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "audit/digest.h"
#include "audit/tally.h"
#include "enforce/verdict.h"

/*
 * The budget of rows that an invocation has (SPEC 10). Near its end a refusal
 * that is like the one before it, and comes within a second, takes no row of
 * its own; at its end further calls are refused and only counted.
 */
struct fold {
	uint64_t budget;	/* bytes */
	/* the refusal that has its row, and those like it that have none */
	bool	 active;
	uint64_t count;
	int64_t	 until;		/* clock_boot when these get one together */
	enum reason reason;
	char	*tool;		/* NULL: none */
	char	*violation;	/* NULL: none */
	char	 args_hash[DIGEST_TEXT];
	/* refused since the budget was spent: [0] of no tool that there is,
	 * behind it of each one by its registry_index */
	uint64_t over[TALLY_TOOLS];
};

/* May refusals be folded; is it spent? bytes are those of all rows. */
bool	fold_begins(const struct fold *, uint64_t bytes);
bool	fold_spent(const struct fold *, uint64_t bytes);

/* Is this refusal like the one before it, and does it come in time? */
bool	fold_takes(const struct fold *, enum reason, const char *tool,
	    const char *violation, int64_t now);

/* It has a row; those like it may be folded from now on. After fold_clear. */
void	fold_start(struct fold *, enum reason, const char *tool,
	    const char *violation, const char *args_hash, int64_t now);
void	fold_clear(struct fold *);

#endif
