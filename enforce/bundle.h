#ifndef ENFORCE_BUNDLE_H
#define ENFORCE_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * The files of a skill as one thing: their digest (SPEC 2, x-files-sha256) and,
 * where it is wanted, a copy in memory of exactly the bytes that were hashed,
 * to be laid out where the skill runs.
 *
 * The digest is SHA-256 over one line for each entry below the directory but
 * SKILL.md and .tenant (those in the directory itself), sorted by the bytes of
 * the path:
 *
 *	<f|d|l> <octal mode> <sha256> <path> LF
 *
 * with the hash of the bytes of a file or of the target of a link, and "-" for
 * a directory; the path has no leading "./".
 */

#define BUNDLE_BYTES_MAX	(64UL << 20)	/* of all files and targets */
#define BUNDLE_ENTRIES_MAX	10000
#define BUNDLE_DEPTH_MAX	32		/* directories within each other */

struct bundle;
struct room;

/*
 * Read what lies beneath an open directory: no link is followed, nothing
 * blocks on a FIFO or touches a device. With keep the bytes are kept too.
 * NULL with errno and a sentence in why[]: EINVAL for what a skill cannot be
 * made of (a socket, FIFO or device; a name with control characters or that is
 * not UTF-8; more than the limits; an entry that went while it was read), else
 * what the system said.
 */
struct bundle	*bundle_read(int dir_fd, bool keep, char *why, size_t whylen);
void		 bundle_free(struct bundle *);

/* The digest, in lower-case hex. */
const char	*bundle_sha256(const struct bundle *);

/* Is there a regular file "main" that its owner may execute? */
bool		 bundle_has_main(const struct bundle *);

/*
 * Add a regular file to a bundle that keeps its bytes; the digest does not
 * cover it. 0, or -1 with errno.
 */
int		 bundle_add(struct bundle *, const char *name, mode_t mode,
		    const void *bytes, size_t len);

/* Bytes that its files take in memory, in whole pages. */
size_t		 bundle_room(const struct bundle *);

/* Options of a tmpfs that it fits in, and nothing besides. */
void		 bundle_tmpfs_options(const struct bundle *, char *out,
		    size_t size);

/*
 * A copy for another process that has the same room. Its bytes stay where they
 * are, in the descriptor; bundle_take_image says what that is there. Nothing of the
 * copy is freed. NULL with errno E2BIG.
 */
struct bundle	*bundle_copy(const struct bundle *, struct room *);
int		 bundle_image(const struct bundle *);
void		 bundle_take_image(struct bundle *, int fd);

/*
 * Lay a kept bundle out in an empty directory, modes as they were but for
 * set-id bits. Only calls that are allowed after fork. 0, or -1 with errno.
 */
int		 bundle_unpack(const struct bundle *, const char *dir);

#endif
