#ifndef ENFORCE_ROOM_H
#define ENFORCE_ROOM_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Memory that a process maps before it forks and that both fill and read
 * afterwards: it has one address, so that a pointer into it means the same to
 * both. It is filled from the front and never emptied; pages that nobody has
 * written cost nothing.
 */
struct room {
	size_t	size, used;	/* of the bytes */
	_Alignas(max_align_t) char bytes[];
};

/* For size bytes. NULL with errno. */
struct room	*room_map(size_t size);
void		 room_unmap(struct room *);	/* NULL: nothing */

/* Aligned for anything; NULL with errno E2BIG: nothing is left. */
void		*room_take(struct room *, size_t size);

/* Copy what *text points to, and have *text point to the copy. NULL stays. False:
 * no room. */
bool		 room_text(struct room *, const char **text);

/* The same for a list with NULL at its end, whose first entries are not looked
 * at and become NULL. */
bool		 room_texts(struct room *, char *const *from, size_t first,
		    char ***to);

/* Whoever is forked from now on does not have it. 0 or -1 with errno. */
int		 room_hide(struct room *);

/*
 * From now on it is this process's alone, at the same address, with what is in
 * it and no room for much more: whoever else has it mapped changes nothing here.
 * 0 or -1 with errno; then it must not be used.
 */
int		 room_own(struct room *);

#endif
