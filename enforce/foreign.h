#ifndef ENFORCE_FOREIGN_H
#define ENFORCE_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The frontmatter of somebody else's SKILL.md, as a flat list of fields: what
 * the text says and nothing about what it means. It is read by the same strict
 * reader as ours, so that no alias, tag or second key with the same name is
 * ever interpreted. Only two faults that most such files have are mended first,
 * where no other reading is possible: a plain value with a colon and a blank in
 * it, and one that begins with a star.
 */

#define FOREIGN_MENDED_MAX	64	/* lines that are mended in one file */

enum foreign_kind {
	FOREIGN_NOTHING,	/* a key without a value, or null */
	FOREIGN_TEXT,		/* texts[0] */
	FOREIGN_LIST,		/* of texts, perhaps empty */
	FOREIGN_OTHER		/* deeper: what is in it follows as items */
};

struct foreign_item {
	char		*field;		/* "metadata.version", "rules.1.tool" of
					 * a list's first item; printable */
	enum foreign_kind kind;
	char		**texts;	/* as written; no NUL in them */
	size_t		 n;
	bool		 hidden;	/* holds characters that nobody sees */
	unsigned	 line;		/* in the file, from 1 */
};

struct foreign {
	struct foreign_item *items;
	size_t		 n;
	unsigned	 mended[FOREIGN_MENDED_MAX];	/* their lines */
	size_t		 mended_n;
	/* of what cannot be read */
	char		 why[1024];
	unsigned	 line, column;
};

/*
 * Read a frontmatter, the text between the fences, whose first line has this
 * number. 0, or -1 with errno: EINVAL with why, line and column set, ENOMEM.
 * The caller clears in any case.
 */
int	foreign_read(struct foreign *, const char *yaml, size_t len,
	    unsigned first_line);
void	foreign_clear(struct foreign *);

/* The field of this name, or NULL. */
const struct foreign_item *foreign_find(const struct foreign *,
	    const char *field);

#endif
