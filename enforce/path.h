#ifndef ENFORCE_PATH_H
#define ENFORCE_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * Paths that a skill names (SPEC 4.2). A file is opened first (O_PATH) and
 * judged afterwards by the kernel's own name for what was opened; the
 * descriptor that was judged is the one that is used. Nothing here decides:
 * it finds the facts that the check in tools/registry decides by.
 */

/*
 * A memory path: split on "/", drop empty and "." segments, ".." removes the
 * last. Refused (-1, EINVAL): a ".." above the root, a control character,
 * invalid UTF-8, a segment that begins with ".", ends in a blank or a dot or
 * is over 255 bytes, a first segment outside the eight of SPEC 4.2, an empty
 * result, a result that does not fit. The canonical form lands in out; of what
 * was refused a name for the row that tells of it, which is never a path that
 * would be taken: from what is not in order on, no ".." removes anything, and
 * what cannot be written down is "".
 */
int	path_memory(const char *path, size_t len, char out[PATH_MAX]);

/*
 * The same for a glob: its segments are those outside of braces and classes,
 * and of one with something special in it only the characters are looked at.
 * A ".." stays, for the compiler to refuse, behind what may stand for more
 * than one segment.
 */
int	path_memory_glob(const char *glob, size_t len, char out[PATH_MAX]);

/* The eight first segments of SPEC 4.2, NULL-terminated. */
const char *const *path_memory_roots(void);

/*
 * Open an existing memory file beneath root_fd for reading, links refused
 * (openat2 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS):
 * regular, one link, never blocking. The descriptor, or -1 with errno: ENOENT,
 * ENOTDIR, EISDIR a directory, ELOOP a link on the way, EMLINK several links,
 * EFTYPE is not on Linux so ENODEV no regular file.
 */
int	path_memory_open(int root_fd, const char *canonical, struct stat *);

/*
 * Open the directory that holds (or will hold) a memory file, beneath root_fd,
 * links refused; with make, missing directories are made with mode 0700. The
 * last segment is copied to leaf. A descriptor, or -1 with errno as above.
 */
int	path_memory_parent(int root_fd, const char *canonical, bool make,
	    char leaf[NAME_MAX + 1]);

/*
 * May a memory file be put here, in a directory that is held? 0 where there is
 * nothing, or a regular file with one link; else -1 with errno: EISDIR a
 * directory, ENODEV a link or anything else, EMLINK several links.
 */
int	path_memory_leaf(int dir_fd, const char *leaf);

/* How far a place on this host is out of reach, whatever the globs say. */
enum path_protection {
	PATH_OPEN,		/* the globs decide */
	PATH_READ_ONLY,		/* may be read, never written */
	PATH_CLOSED		/* neither */
};

struct path_protect;		/* the set of such places, by device and inode */

/*
 * The set with what SPEC 4.2 names on every host: /proc, /sys, /dev closed;
 * /usr, /bin, /sbin, /lib*, /boot, /etc/ld.so* read-only. A component
 * ".cyberos" is closed by name, the file systems of /proc and /sys wherever
 * they are mounted. It holds for the root directory that it was made in, and
 * for the mounts that were there then: a part of a protected place that is
 * mounted elsewhere is protected there too. NULL with errno.
 */
struct path_protect *path_protect_new(void);
void	path_protect_free(struct path_protect *);

/*
 * Add one file or directory and all below it (links followed), and its name in
 * the directory where it lies: a file that is made or replaced afterwards is
 * protected too, and one that does not exist is no error. The set holds an
 * O_PATH descriptor of what is there, so that another file cannot be taken for
 * it by its number. 0, or -1 with errno (EINVAL: not absolute).
 */
int	path_protect_add(struct path_protect *, const char *path,
	    enum path_protection);

struct path_judged {
	char	*canonical;	/* the kernel's name; NULL: it has none */
	int	 fd;		/* O_PATH descriptor of the object, or -1 */
	int	 parent_fd;	/* O_PATH descriptor of its directory, or -1 */
	char	 leaf[NAME_MAX + 1];	/* its name in there */
	struct stat st;		/* when fd is not -1 */
	int	 absent;	/* 0 it exists; else ENOENT, ENOTDIR or EACCES */
	enum path_protection protection;
};

/*
 * Find what an absolute path names. Existing: opened with O_PATH, links
 * followed; canonical is the kernel's name; parent_fd and leaf name the same
 * object (compared by device and inode). Absent: canonical is the kernel's
 * name of the nearest existing ancestor plus the rest; parent_fd is set only
 * when nothing but the last component is missing. A ".." takes away the name
 * before it whether that exists or not ("/ok/none/../f" is "/ok/f"; after a
 * link it leads to where the link's target lies): whether some other directory
 * exists cannot be told by a way through it and back. Links in closed places,
 * all of /proc's among them, are not followed: absent is EACCES. canonical
 * stays NULL for a dangling or looping link (unless it leads into a closed
 * place), a name that is not valid UTF-8 or that the kernel cannot give, a path
 * over PATH_MAX, or when the tree keeps changing under our hands: the check
 * refuses these. 0, or -1 with errno (EINVAL: empty, relative or with a NUL;
 * ENOMEM, EMFILE) when nothing could be found out; the caller clears *j in any
 * case.
 */
int	path_judge(const char *path, size_t len, const struct path_protect *,
	    struct path_judged *j);
void	path_judged_init(struct path_judged *);
void	path_judged_clear(struct path_judged *);

/*
 * For those who look at many files of one directory: what was found about it
 * says for most of them that they are protected as it is itself, no less and
 * no more. For the others path_judge has to be asked.
 */
struct path_dir {
	uint64_t mount;
	bool	 inner;		/* something in it may be protected by name */
};

/* The directory was judged. 0, or -1 with errno. */
int	path_dir_look(const struct path_protect *, const struct path_judged *,
	    struct path_dir *);

/*
 * Is the object with this status and mount (mounts_stat), which lies directly
 * in that directory under that name and is no directory, certainly protected
 * as the directory is?
 */
bool	path_dir_vouches(const struct path_protect *, const struct path_dir *,
	    const char *name, const struct stat *, uint64_t mount);

/* Is the path this place, or below it? "" is the root, or all of memory. */
bool	path_is_within(const char *path, const char *place);

/*
 * Open again, for I/O, the object behind an O_PATH descriptor, through
 * /proc/self/fd and never by name; flags as in open(2) but O_CREAT, O_EXCL and
 * O_NOFOLLOW (EINVAL), O_CLOEXEC and O_NOCTTY and O_NONBLOCK added. A
 * descriptor or -1 with errno.
 */
int	path_reopen(int fd, int flags);

#endif
