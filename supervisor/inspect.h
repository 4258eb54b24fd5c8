#ifndef SUPERVISOR_INSPECT_H
#define SUPERVISOR_INSPECT_H

#include "audit/buf.h"
#include "audit/store.h"

/*
 * What `status --json` says of a store, as members of a JSON object without
 * braces. 0, or -1 with errno; then the buffer may have some of it.
 */
int	inspect_put_status(const struct store *, struct buf *);

#endif
