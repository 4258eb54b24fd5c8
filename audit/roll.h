#ifndef AUDIT_ROLL_H
#define AUDIT_ROLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/digest.h"
#include "audit/store.h"

/*
 * The segments of one day: what lies on disk, and what the anchors say about
 * it. A check compares the two.
 */

/* A point of a chain that an anchor fixes. */
struct roll_mark {
	uint64_t seq;
	char	 head[DIGEST_HEX];	/* of row seq */
	unsigned part;			/* 0, or this part begins behind it */
	char	 day[CLOCK_DAY_SIZE];	/* whose file the anchor is in */
	uint64_t line;
};

struct roll_entry {
	char	 inv[STORE_UUID_SIZE];
	unsigned files;		/* the highest part on disk; 0: none */
	unsigned parts;		/* that anchors name; 0: none */
	bool	 closed;
	char	 head[DIGEST_HEX];	/* of segment_opened */
	char	 opened_day[CLOCK_DAY_SIZE];	/* whose file that is in */
	uint64_t opened_line;
	struct roll_mark *marks;
	size_t	 marks_n;
};

struct roll {
	char	 day[CLOCK_DAY_SIZE];
	bool	 unread;	/* its anchors cannot be read */
	struct roll_entry *entries;
	size_t	 n;
	size_t	 size;		/* of the hash table, a power of two or 0 */
	uint64_t salt;
};

void	roll_init(struct roll *, const char *day);
void	roll_clear(struct roll *);

/* The entry of an invocation, or NULL; it moves when others are added. */
struct roll_entry *roll_find(const struct roll *, const char *inv);

/* The same, made if it is not there; NULL with ENOMEM. */
struct roll_entry *roll_add(struct roll *, const char *inv);

/* Walk the entries: *at starts as 0. NULL after the last one. */
struct roll_entry *roll_next(const struct roll *, size_t *at);

/* Note a mark of an entry; 0 or -1 with ENOMEM. Forget those that it has. */
int	roll_mark(struct roll_entry *, const struct roll_mark *);
void	roll_forget(struct roll_entry *);

/*
 * List the files in the day's seg/, of one invocation when inv is not NULL.
 * stray is called with the name (relative to the day's directory) of what is
 * no name of a segment. 0, or -1 with errno; a day without segments is fine.
 */
int	roll_list(struct roll *, const struct store *, const char *inv,
	    void (*stray)(void *, const char *), void *);

#endif
