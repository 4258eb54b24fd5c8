#ifndef TOOLS_WALK_H
#define TOOLS_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "tools/call.h"

/*
 * The granted files, in the order of their paths' bytes. Whatever is handed
 * out is a regular file whose canonical path the skill's list and the ceilings
 * allow and which is not protected; no link is followed, and no directory is
 * read below which nothing could be granted.
 */
struct walk_file {
	const char *path; /* canonical */
	int fd;		  /* to read it, the walk's; or -1 */
	off_t size;	  /* with fd: what it was a moment ago */
};

struct walk {
	const struct invocation *inv;
	bool memory;   /* the memory tree, else files */
	bool opens;    /* files are opened */
	int64_t until; /* clock_boot: no further than that */
	/* Of what is granted anyway: is it wanted? Below this directory? */
	bool (*wants)(void *, const char *path);
	bool (*wants_below)(void *, const char *dir);
	/* False: it is enough. */
	bool (*file)(void *, const struct walk_file *);
	/* Something granted could not be looked at. */
	void (*missed)(void *);
	void *arg;
	bool late; /* set: the time ran out */
};

/*
 * All that is granted at or below root, a canonical path; "" is everything.
 * 0, or -1 with ENOMEM.
 */
int walk_run(struct walk *, const char *root);

/* Some paths. */
struct places {
	char **v;
	size_t n;
};
void places_clear(struct places *);

/*
 * The directories that the grants of files speak of, for what is said
 * relative to "each grant". 0, or -1 with ENOMEM.
 */
int places_of_grants(struct places *, const struct grant *);

#endif
