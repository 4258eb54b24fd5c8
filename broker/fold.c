/*
 * Against a skill that fills the disk with refusals: what it is refused is
 * counted to the last one, but takes a row only now and then.
 */

#include "broker/fold.h"

#include <stdlib.h>
#include <string.h>

#include "audit/clock.h"

bool
fold_begins(const struct fold *f, uint64_t bytes)
{
	return bytes >= f->budget / 10 * 9;
}

bool
fold_spent(const struct fold *f, uint64_t bytes)
{
	return bytes >= f->budget;
}

static bool
is_same(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool
fold_takes(const struct fold *f, enum reason reason, const char *tool,
    const char *violation, int64_t now)
{
	return f->active && now < f->until && f->reason == reason &&
	    is_same(f->tool, tool) && is_same(f->violation, violation);
}

void
fold_start(struct fold *f, enum reason reason, const char *tool,
    const char *violation, const char *args_hash, int64_t now)
{
	f->tool = tool == NULL ? NULL : strdup(tool);
	f->violation = violation == NULL ? NULL : strdup(violation);
	/* Without memory it is like no other. */
	f->active = (tool == NULL) == (f->tool == NULL) &&
	    (violation == NULL) == (f->violation == NULL);
	f->reason = reason;
	f->count = 0;
	f->until = now + CLOCK_SECOND;
	strlcpy(f->args_hash, args_hash, sizeof(f->args_hash));
}

void
fold_clear(struct fold *f)
{
	free(f->tool);
	free(f->violation);
	f->tool = f->violation = NULL;
	f->active = false;
	f->count = 0;
}
