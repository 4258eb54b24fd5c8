#ifndef AUDIT_RECOVER_H
#define AUDIT_RECOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "audit/digest.h"
#include "audit/store.h"
#include "audit/tally.h"

/*
 * Recovery (LEDGER.md): what dead brokers and supervisors left in the ledger is
 * closed, never mended. It may be done by several at once and any number of
 * times. A segment whose file is missing is not closed: that stays an error for
 * verify.
 */

enum recover_did {
	RECOVER_CLOSED,		/* the books of an invocation: reason "crash" */
	RECOVER_DAMAGED,	/* the same, and its segment does not hold */
	RECOVER_MISSING,	/* its file is gone: left as it is */
	RECOVER_REMOVED,	/* an empty file without an anchor */
	RECOVER_QUARANTINED,	/* a file with rows and without an anchor */
	RECOVER_MENDED,		/* the end of the anchors, torn by a crash */
	RECOVER_FAILED		/* errno says why */
};

struct recover {
	const struct store *store;
	struct digest	*digest;	/* a plain one */
	const char	*spool;		/* the operator's directory, or NULL */
	const struct tally_names *names;	/* for the metrics */
	/* Its lock is held, and its status page is still there; or NULL. */
	void		(*locked)(void *, const char *inv);
	/* What became of what; called for each. name is an id or a file. */
	void		(*tell)(void *, enum recover_did, const char *name);
	void		*arg;
};

/* One invocation, unless somebody holds its lock; its page is folded into the
 * metrics of the host, and its lock removed, when nothing is left to do. */
void	recover_one(const struct recover *, const char *inv);

/*
 * Everything in the ledger that is open and whose lock is free. 0, or -1 with
 * errno when it could not be looked at.
 */
int	recover_all(const struct recover *);

#endif
