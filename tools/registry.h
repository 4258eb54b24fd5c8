#ifndef TOOLS_REGISTRY_H
#define TOOLS_REGISTRY_H

#include <stddef.h>
#include <stdint.h>

#include "audit/buf.h"
#include "audit/segment.h"
#include "audit/span.h"
#include "tools/call.h"

/*
 * The tools (SPEC 7): one const row each, in order. Whatever may be asked of a
 * tool follows from its row: the JSON Schema, the shape check, the resource
 * check, where it runs. A handler gets what the check opened, never a name
 * that it could open again.
 */

enum arg_type {
	ARG_TEXT,	/* a string of min..max bytes */
	ARG_WORD,	/* one of words */
	ARG_INT,	/* an integer in min..max */
	ARG_BOOL,
	ARG_ANY,	/* any JSON value */
	ARG_MAP		/* an object of strings */
};

/* What the value of an argument names, and what is done to it. */
enum arg_check {
	CHECK_NONE,
	CHECK_FILE_READ,
	CHECK_FILE_WRITE,
	CHECK_FILE_BELOW,	/* where a search of files begins; may be left out */
	CHECK_MEMORY_READ,
	CHECK_MEMORY_WRITE,
	CHECK_MEMORY_BELOW	/* the same for memory, a path or glob */
};

enum place {
	PLACE_LOOP,		/* short and never blocking: in the broker */
	PLACE_FILE_WORKER,	/* writes, syncs, reads more than 64 KiB */
	PLACE_WALK_WORKER,	/* searches */
	PLACE_NET,		/* the net worker, which has a program of its own */
	PLACE_BASH		/* a sandbox of its own, built by the spawner */
};

struct tool_arg {
	const char	*name;
	enum arg_type	 type;
	bool		 required;
	int64_t		 min;
	int64_t		 max;
	const char *const *words;
	enum arg_check	 check;
	const char	*help;
};

#define TOOL_ARGS_MAX	8

struct tool {
	const char	*name;
	const char	*description;
	struct tool_arg	 args[TOOL_ARGS_MAX];
	/* Shape beyond the table; false and a sentence in check.bad. */
	bool		(*shape)(struct call *);
	/* NULL: in the loop. */
	enum place	(*place)(const struct call *);
	/* NULL: the place has its own way. */
	void		(*run)(struct call *, struct invocation *);
	/*
	 * NULL, or what is left to do in the broker after a success elsewhere:
	 * it alone has the ledger.
	 */
	void		(*record)(struct call *, struct invocation *,
			    struct segment *);
	/* How it may fail besides FAILS_ALWAYS: a bit for each enum failure. */
	uint32_t	fails;
	/* Its own span below the call's (SPEC 11). */
	const char	*span;
	enum span_kind	 span_kind;
};

#define FAILS(word)	(UINT32_C(1) << FAIL_##word)
#define FAILS_ALWAYS	(FAILS(TIMEOUT) | FAILS(CANCELLED) | FAILS(IO_ERROR))

_Static_assert(FAIL_COUNT <= 32, "each failure has a bit");

/* Is this word one of those that the tool's row, and so the manual, names? */
bool		 registry_may_fail(const struct tool *, enum failure);

/* The table and its size. */
const struct tool *registry_tools(size_t *n);
const struct tool *registry_find(const char *name);
size_t		 registry_index(const struct tool *);

/* The names, NULL-terminated, in table order. */
const char *const *registry_names(void);

/*
 * Is the table consistent: names unique, every argument with a name and a
 * sensible range, one resource at most, words where they are needed? NULL, or
 * a sentence that says what is wrong; then the broker must not start.
 */
const char	*registry_trouble(void);

/*
 * Is a tool granted that reaches files of the host: one with an argument that
 * names them, or that runs programs? To the others none is judged, and none is
 * open.
 */
bool		 registry_reaches_files(const struct grant *);

/* The JSON Schema of a tool's arguments (an object), made of its row. */
int		 registry_schema(const struct tool *, struct buf *);

enum check_result {
	CHECK_MAY,		/* go on; check.failure may name a failure */
	CHECK_REFUSED,		/* check.verdict says why */
	CHECK_BAD_ARGS		/* check.bad says which one and why: -32602 */
};

/*
 * SPEC 4, in its order: registry, denylist, allowlist, ceiling, argument
 * shape, resource. Opens the resource; everything after this uses what is in
 * call->check.on.
 */
enum check_result registry_check(struct call *, struct invocation *);

/*
 * The resource once more, for a call whose file was replaced by another (by
 * the call before it, say) after it was judged. CHECK_REFUSED also when the
 * path leads to another name by now: the record tells of the first.
 */
enum check_result registry_check_again(struct call *, struct invocation *);

#endif
