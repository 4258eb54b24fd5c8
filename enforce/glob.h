#ifndef ENFORCE_GLOB_H
#define ENFORCE_GLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The one matcher for memory, file and domain globs (SPEC 4.1): sets of
 * patterns, compiled once, matched in time linear in the text whatever the
 * pattern is. Only canonical texts may come in: paths with "..", empty or "."
 * segments removed, hosts in lower case without a trailing dot.
 */

#define GLOB_PATTERN_MAX	1024	/* bytes of one pattern */
#define GLOB_SET_MAX		4096	/* patterns in one set */

enum glob_kind {
	GLOB_MEMORY,		/* paths without a leading slash */
	GLOB_FILE,		/* paths that begin with a slash */
	GLOB_RELATIVE,		/* what is left of these below a directory */
	GLOB_DOMAIN		/* hosts, optionally with ":port" */
};

struct glob_set;		/* opaque; immutable once it is filled */

/* An empty set, which matches nothing. NULL with ENOMEM. */
struct glob_set	*glob_set_new(enum glob_kind);
void		 glob_set_free(struct glob_set *);

/*
 * Compile a pattern into the set. 0, or -1 with errno EINVAL and *why a
 * constant sentence that says what to write instead, or ENOMEM, or E2BIG when
 * the set is full. The pattern must be valid UTF-8.
 */
int		 glob_set_add(struct glob_set *, const char *pattern,
		    size_t len, const char **why);

size_t		 glob_set_count(const struct glob_set *);

/* The text of pattern i, NUL-terminated, owned by the set. */
const char	*glob_set_pattern(const struct glob_set *, size_t i);

/* Does any pattern match the whole canonical path? */
bool		 glob_match_path(const struct glob_set *, const char *path,
		    size_t len);

/*
 * Could a path below this directory match, at any depth? The directory is a
 * canonical path without a final slash ("" is the root). False is certain;
 * true means that the directory is worth a look.
 */
bool		 glob_set_reaches(const struct glob_set *, const char *dir,
		    size_t len);

/*
 * Does any pattern match this host and port? The host is lower case, without
 * a trailing dot, an IPv6 literal without brackets; default_port tells that
 * the port is the one its scheme means by itself.
 */
bool		 glob_match_host(const struct glob_set *, const char *host,
		    size_t len, uint16_t port, bool default_port);

/*
 * How many leading bytes of pattern i are literal whole segments: the
 * directory below which everything that it can match lies ("/srv/data" for
 * "/srv/data/x?/y", without a final slash; 0 when nothing is literal). Escapes
 * are not undone: a segment with a backslash ends the prefix. The whole length
 * when nothing in the pattern is special; 0 for a host.
 */
size_t		 glob_set_prefix(const struct glob_set *, size_t i);

#endif
