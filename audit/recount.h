#ifndef AUDIT_RECOUNT_H
#define AUDIT_RECOUNT_H

#include "audit/row.h"
#include "audit/tally.h"

/*
 * Count what a good row of a segment tells (SPEC 10), as its broker has counted it
 * when it wrote the row; times to the millisecond.
 */
void	recount_row(struct tally *, const struct row_read *);

#endif
