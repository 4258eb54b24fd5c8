#ifndef SUPERVISOR_MAPPING_H
#define SUPERVISOR_MAPPING_H

#include <stdbool.h>
#include <stddef.h>

#include "audit/buf.h"
#include "enforce/foreign.h"

/*
 * Somebody else's frontmatter -> ours. What comes out never allows more than
 * what the author wrote: a tool is taken by its name, a limit on it is either
 * kept in full or the tool goes, and whatever is not understood is left out and
 * listed, or, where it may have been a limit, refused.
 */

#define MAPPING_NOTES_MAX	256

enum mapping_kind {
	MAPPING_MAPPED,		/* is there, in our words */
	MAPPING_NARROWED,	/* is there, and allows or says less */
	MAPPING_DROPPED		/* is not there any more */
};

struct mapping_note {
	enum mapping_kind kind;
	unsigned	 line;		/* of the original; 0: none */
	char		*field;		/* of the original; printable */
	char		*text;		/* what became of it, and why; printable */
};

struct mapping {
	struct buf	 text;		/* a whole SKILL.md */
	struct mapping_note notes[MAPPING_NOTES_MAX];
	size_t		 n;
	size_t		 unlisted;	/* notes beyond the limit */
	/* why it is refused */
	char		 why[1024];
	unsigned	 line;
};

struct mapping_source {
	const struct foreign *fields;
	const char	*wanted_id;	/* from the command line, or NULL */
	const char	*dir_name;	/* an id when the file has none; or NULL */
	const char	*body;
	size_t		 body_len;
};

/*
 * Make it. 0, or -1 with errno: EINVAL with why and line set, ENOMEM. The
 * caller clears in any case.
 */
int	mapping_make(struct mapping *, const struct mapping_source *);
void	mapping_clear(struct mapping *);

/* "mapped" and so on. */
const char *mapping_word(enum mapping_kind);

#endif
