#ifndef TOOLS_MEMORY_H
#define TOOLS_MEMORY_H

#include "audit/segment.h"
#include "tools/registry.h"

/*
 * MemoryRead and MemoryEmit (SPEC 7.6): memory is a plain directory tree below
 * the held root of the invocation's tenant.
 */
bool		 memory_emit_shape(struct call *);
enum place	 memory_emit_place(const struct call *);
void		 memory_read(struct call *, struct invocation *);

/* Puts the body, when there is one; the row is the broker's to write. */
void		 memory_emit(struct call *, struct invocation *);

/*
 * Append the row that a successful MemoryEmit asked for, by "skill", and make
 * the result with its identity. Runs in the broker, which alone has the ledger.
 */
void		 memory_record(struct call *, struct invocation *,
		    struct segment *);

#endif
