#ifndef TOOLS_FIND_H
#define TOOLS_FIND_H

#include "tools/registry.h"

/*
 * Glob, Grep, MemorySearch (SPEC 7.4-7.6): they run in the walk worker and give
 * nothing that the matching Read would refuse, nor a hint that it is there.
 */
bool find_shape(struct call *);
enum place find_place(const struct call *);
void find_glob(struct call *, struct invocation *);
void find_grep(struct call *, struct invocation *);
void find_memory(struct call *, struct invocation *);

/*
 * The directory (or file) below which an absolute pattern of a file search lies
 * altogether, canonical as far as text can tell. 0, or -1 when the call has no
 * such pattern.
 */
int find_pattern_root(const struct call *, char root[PATH_MAX]);

/*
 * The canonical form of the path of a memory search, which may be a glob. 0, or
 * -1 when nothing can be called so, and then what the row calls it.
 */
int find_memory_path(const char *path, char canonical[PATH_MAX]);

/*
 * The directory (or file) below which what such a form names lies altogether;
 * "" is all of memory. 0, or -1 when there is no memory to find out.
 */
int find_memory_root(const char *canonical, char root[PATH_MAX]);

#endif
