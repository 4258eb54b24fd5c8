/*
 * Paths that a skill names, made into facts that can be decided by. Guarantee,
 * against a skill that chooses every byte of the path, plants links in what it
 * was granted and renames things while we look: a descriptor that is handed
 * out is of the very object whose kernel name is handed out with it, its
 * directory and leaf name that same object, and its protection was found by
 * device and inode of it and of every directory above it. Nothing is opened
 * but with O_PATH until that is settled, so that no FIFO, device or terminal
 * notices; links are followed by us and not by the kernel, so that what does
 * not exist is walked past in the same way as what does, and neither a ".."
 * nor the text of a planted link tells which of the two it was. Memory paths
 * are canonical by text alone and opened beneath a held directory, where no
 * link is followed at all.
 */

#include "enforce/path.h"

#include "enforce/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PATH_TRIES 8	/* times we start again when the tree changes */
#define PATH_LINKS 40	/* links on one way, as many as the kernel's */
#define PATH_MOUNTS 4	/* mounts of parts within mounts of parts */
#define PATH_CHANGED 1	/* neither 0 nor -1: look again */
#define PATH_PROC_FD 32 /* bytes of "/proc/self/fd/N" */

#ifndef ST_NOSYMFOLLOW
#define ST_NOSYMFOLLOW 0x2000 /* in f_flags: a mount whose links are dead */
#endif

#define MEMORY_RESOLVE                                                         \
	(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

struct entry {
	dev_t dev;
	ino_t ino;
	int fd; /* held, lest its number goes to another object; or -1 */
	enum path_protection protection;
	bool prefix; /* below is only how a name begins */
	char *below; /* "": it, and all below; else a path in it */
};

struct path_protect {
	dev_t root_dev; /* of "/"; known to be no kernel_fs() */
	ino_t root_ino;
	struct mounts *mounts; /* as they were then */
	struct entry *v;
	size_t n;
};

/* An opened object and where the kernel says that it lies. */
struct place {
	struct stat st;
	int parent_fd;
	char leaf[NAME_MAX + 1];
	char name[PATH_MAX]; /* "" for the root */
};

/* How far a path leads. */
struct reach {
	int fd;		     /* the object, or its nearest existing ancestor */
	int absent;	     /* 0, or why what follows fd is not there */
	bool nameless;	     /* dangling, looping or too long */
	bool want_dir;	     /* ends like the name of a directory */
	char gone[PATH_MAX]; /* what follows fd: "" or "/x/y" */
};

struct walk {
	const struct path_protect *set;
	struct reach *to;
	unsigned links;
	size_t own;	   /* the end of todo that no link has said */
	const char *next;  /* in todo */
	char at[PATH_MAX]; /* to->fd without any link; "" is the root */
	char todo[PATH_MAX];
};

/* The length of the UTF-8 character at s, at most n bytes; 0 if it is none. */
static size_t
utf8_char(const unsigned char *s, size_t n, uint32_t *code)
{
	uint32_t c = s[0], least;
	size_t i, len;

	if (c < 0x80) {
		*code = c;
		return 1;
	} else if (c >= 0xc2 && c <= 0xdf) {
		len = 2;
		least = 0x80;
		c &= 0x1f;
	} else if (c >= 0xe0 && c <= 0xef) {
		len = 3;
		least = 0x800;
		c &= 0x0f;
	} else if (c >= 0xf0 && c <= 0xf4) {
		len = 4;
		least = 0x10000;
		c &= 0x07;
	} else
		return 0;
	if (n < len)
		return 0;
	for (i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*code = c;
	return len;
}

static bool
is_utf8(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t left = strlen(s), n;
	uint32_t code;

	for (; left > 0; p += n, left -= n) {
		n = utf8_char(p, left, &code);
		if (n == 0)
			return false;
	}
	return true;
}

/* openat2(2), which has no wrapper everywhere; O_CLOEXEC is added. */
static int
open_how(int dir_fd, const char *path, int flags, uint64_t resolve)
{
	struct open_how how;
	unsigned i;
	int fd = -1;

	memset(&how, 0, sizeof(how));
	how.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC);
	how.resolve = resolve;
	for (i = 0; i < PATH_TRIES; i++) {
		fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
		if (fd != -1 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return fd;
}

/* Our own trouble, which says nothing about the path. */
static bool
is_ours(int error)
{
	return error == ENOMEM || error == EMFILE || error == ENFILE ||
	       error == ENOSYS || error == EINTR;
}

static int
changed_unless_ours(void)
{
	return is_ours(errno) ? -1 : PATH_CHANGED;
}

static void
close_fd(int *fd)
{
	int saved = errno;

	if (*fd != -1)
		close(*fd);
	*fd = -1;
	errno = saved;
}

static bool
same_object(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/*
 * Memory paths
 */

/* A canonical path, or glob, in the making. */
struct memory_path {
	bool glob;
	char *out;
	size_t used;
	size_t depth;
	uint16_t start[PATH_MAX / 2]; /* of each segment, with its slash */
};

/* Append "/seg" (the first without the slash); false when it does not fit. */
static bool
memory_push(struct memory_path *m, const char *seg, size_t len)
{
	size_t slash = m->used > 0 ? 1 : 0;

	if (len >= PATH_MAX - m->used - slash)
		return false;
	m->start[m->depth++] = (uint16_t)m->used;
	if (slash)
		m->out[m->used] = '/';
	memcpy(m->out + m->used + slash, seg, len);
	m->used += slash + len;
	m->out[m->used] = '\0';
	return true;
}

/* Take the last segment away; false when it may stand for none or several. */
static bool
memory_pop(struct memory_path *m)
{
	size_t start = m->start[m->depth - 1];
	const char *seg = m->out + start + (start > 0);

	if (m->glob && (strchr(seg, '/') != NULL || strstr(seg, "**") != NULL ||
			   strcmp(seg, "..") == 0))
		return false;
	m->out[start] = '\0';
	m->used = start;
	m->depth--;
	return true;
}

/* The bytes of a class up to its "]", which is none where it comes first. */
static size_t
class_length(const char *s, size_t len)
{
	size_t i = 1;

	if (i < len && (s[i] == '!' || s[i] == '^'))
		i++;
	do {
		i += i < len && s[i] == '\\' ? 2 : 1;
	} while (i < len && s[i] != ']');
	return i;
}

/* The bytes of a segment. A slash within braces or a class ends none. */
static size_t
segment_length(const char *s, size_t len, bool glob)
{
	size_t i, depth = 0;

	for (i = 0; i < len && (depth > 0 || s[i] != '/'); i++) {
		if (!glob)
			continue;
		if (s[i] == '\\')
			i++;
		else if (s[i] == '[')
			i += class_length(s + i, len - i);
		else if (s[i] == '{')
			depth++;
		else if (s[i] == '}' && depth > 0)
			depth--;
	}
	return i < len ? i : len;
}

/* Does a segment of a glob stand for others than itself? */
static bool
is_special(const char *seg, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if (seg[i] != '\0' && strchr("*?[{\\", seg[i]) != NULL)
			return true;
	}
	return false;
}

/* May it be a segment? *stop when it cannot even be written down. */
static bool
memory_segment_ok(const char *seg, size_t len, bool special, bool *stop)
{
	const unsigned char *p = (const unsigned char *)seg;
	bool good;
	uint32_t code;
	size_t i, n;

	good = special || (len <= NAME_MAX && seg[0] != '.' &&
			      seg[len - 1] != '.' && seg[len - 1] != ' ');
	for (i = 0; i < len; i += n) {
		n = utf8_char(p + i, len - i, &code);
		if (n == 0 || code == 0) {
			*stop = true;
			return false;
		}
		if (code < 0x20 || (code >= 0x7f && code <= 0x9f))
			good = false;
	}
	return good;
}

const char *const *
path_memory_roots(void)
{
	static const char *const roots[] = {"memories", "meta", "company",
	    "module", "member", "client", "project", "persona", NULL};

	return roots;
}

static bool
memory_first_ok(const char *canonical)
{
	const char *const *first;
	size_t len = strcspn(canonical, "/");

	for (first = path_memory_roots(); *first != NULL; first++) {
		if (strlen(*first) == len &&
		    memcmp(*first, canonical, len) == 0)
			return true;
	}
	return false;
}

static int
memory_canonical(const char *path, size_t len, bool glob, char out[PATH_MAX])
{
	bool good = true, stop = false, up, special;
	struct memory_path m;
	size_t i, n;

	m.glob = glob;
	m.out = out;
	m.used = m.depth = 0;
	out[0] = '\0';
	for (i = 0; i < len && !stop; i += n + 1) {
		n = segment_length(path + i, len - i, glob);
		if (n == 0 || (n == 1 && path[i] == '.'))
			continue;
		up = n == 2 && memcmp(path + i, "..", 2) == 0;
		if (up && m.depth == 0)
			good = false;
		/* What is refused is named as it was written from there on. */
		if (up && good && memory_pop(&m))
			continue;
		special = glob && is_special(path + i, n);
		/* Also one that a later ".." removes has to be in order. */
		if (!up && !memory_segment_ok(path + i, n, special, &stop))
			good = false;
		if (!stop && !memory_push(&m, path + i, n))
			stop = true;
	}
	/* Half a name might be one that is allowed. */
	if (stop)
		out[0] = '\0';
	special = glob && is_special(out, strcspn(out, "/"));
	if (stop || !good || (!special && !memory_first_ok(out))) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}

int
path_memory(const char *path, size_t len, char out[PATH_MAX])
{
	return memory_canonical(path, len, false, out);
}

int
path_memory_glob(const char *glob, size_t len, char out[PATH_MAX])
{
	return memory_canonical(glob, len, true, out);
}

/* 0 for a memory file, or the errno that says what stands there instead. */
static int
memory_error(const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return EISDIR;
	if (!S_ISREG(st->st_mode))
		return ENODEV;
	if (st->st_nlink == 1)
		return 0;
	return st->st_nlink == 0 ? ENOENT : EMLINK;
}

int
path_memory_open(int root_fd, const char *canonical, struct stat *st)
{
	struct stat got;
	int fd, error;

	fd = open_how(root_fd, canonical, O_RDONLY | O_NONBLOCK | O_NOCTTY,
	    MEMORY_RESOLVE);
	if (fd == -1) {
		/* What a socket or a device without driver says. */
		if (errno == ENXIO)
			errno = ENODEV;
		return -1;
	}
	error = fstat(fd, &got) == -1 ? errno : memory_error(&got);
	if (error != 0) {
		close_fd(&fd);
		errno = error;
		return -1;
	}
	*st = got;
	return fd;
}

int
path_memory_leaf(int dir_fd, const char *leaf)
{
	struct stat st;
	int error;

	error = fstatat(dir_fd, leaf, &st,
		    AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == -1
		    ? errno
		    : memory_error(&st);
	/* Also one that was replaced while we look is not there. */
	if (error == 0 || error == ENOENT)
		return 0;
	errno = error;
	return -1;
}

/* A directory's name has to last as long as what will be put in it. */
static int
sync_dir(int dir_fd)
{
	int fd, error;

	fd = open_how(dir_fd, ".", O_RDONLY | O_DIRECTORY, MEMORY_RESOLVE);
	if (fd == -1)
		return -1;
	error = fsync(fd);
	close_fd(&fd);
	return error;
}

/* Go down one directory, which is made if it is missing. */
static int
memory_down(int *fd, const char *name, int flags)
{
	int next;

	if (mkdirat(*fd, name, 0700) == 0) {
		if (sync_dir(*fd) == -1)
			return -1;
	} else if (errno != EEXIST)
		return -1;
	next = open_how(*fd, name, flags | O_DIRECTORY, MEMORY_RESOLVE);
	if (next == -1)
		return -1;
	close_fd(fd);
	*fd = next;
	return 0;
}

/* Those on the way may be closed to us for reading, hence O_PATH. */
static int
memory_make(int root_fd, char *dir)
{
	char *name = dir, *slash;
	int fd;

	fd = open_how(root_fd, ".", O_PATH | O_DIRECTORY, MEMORY_RESOLVE);
	while (fd != -1 && name != NULL) {
		slash = strchr(name, '/');
		if (slash != NULL)
			*slash++ = '\0';
		if (memory_down(&fd, name, slash != NULL ? O_PATH : O_RDONLY) ==
		    -1)
			close_fd(&fd);
		name = slash;
	}
	return fd;
}

int
path_memory_parent(
    int root_fd, const char *canonical, bool make, char leaf[NAME_MAX + 1])
{
	char dir[PATH_MAX];
	const char *name;
	size_t len;
	int fd;

	name = strrchr(canonical, '/');
	name = name == NULL ? canonical : name + 1;
	len = (size_t)(name - canonical);
	if (*name == '\0' || strcmp(name, ".") == 0 ||
	    strcmp(name, "..") == 0) {
		errno = EINVAL;
		return -1;
	}
	if (len >= sizeof(dir) || strlen(name) > NAME_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(dir, canonical, len);
	dir[len > 0 ? len - 1 : 0] = '\0';
	fd = open_how(root_fd, dir[0] != '\0' ? dir : ".",
	    O_RDONLY | O_DIRECTORY, MEMORY_RESOLVE);
	if (fd == -1 && errno == ENOENT && make)
		fd = memory_make(root_fd, dir);
	if (fd != -1)
		strlcpy(leaf, name, NAME_MAX + 1);
	return fd;
}

/*
 * Protected places
 */

/*
 * The file systems that are windows into the kernel. They lie in /proc and
 * /sys, and are as closed wherever else they are mounted.
 */
static bool
kernel_fs(const struct statfs *fs)
{
	static const unsigned long magic[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC,
	    DEBUGFS_MAGIC, TRACEFS_MAGIC, SECURITYFS_MAGIC, CGROUP_SUPER_MAGIC,
	    CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC, BINFMTFS_MAGIC,
	    DEVPTS_SUPER_MAGIC, EFIVARFS_MAGIC, PSTOREFS_MAGIC, SELINUX_MAGIC,
	    SMACK_MAGIC, NSFS_MAGIC};
	size_t i;

	for (i = 0; i < sizeof(magic) / sizeof(magic[0]); i++) {
		if ((unsigned long)fs->f_type == magic[i])
			return true;
	}
	return false;
}

/* The object itself, when below is "" (fd is taken then), else names in it. */
static int
add_entry(struct path_protect *set, int fd, const struct stat *st,
    const char *below, bool prefix, enum path_protection protection)
{
	struct entry *v, *e;
	char *copy;

	copy = strdup(below);
	v = copy == NULL
		? NULL
		: recallocarray(set->v, set->n, set->n + 1, sizeof(*v));
	if (v == NULL) {
		free(copy);
		close_fd(&fd);
		return -1;
	}
	set->v = v;
	e = &v[set->n++];
	e->dev = st->st_dev;
	e->ino = st->st_ino;
	e->fd = fd;
	e->protection = protection;
	e->prefix = prefix;
	e->below = copy;
	return 0;
}

/* A path that does not lead anywhere, now and to us. */
static bool
leads_nowhere(int error)
{
	return error == ENOENT || error == ENOTDIR || error == EACCES ||
	       error == ELOOP;
}

/* Collapse slashes and "."; false if there is a ".." or it does not fit. */
static bool
tidy(const char *path, char out[PATH_MAX])
{
	size_t len, used = 0;

	out[0] = '\0';
	for (; *path != '\0'; path += len) {
		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (len == 0 || (len == 1 && path[0] == '.'))
			continue;
		if (len == 2 && path[0] == '.' && path[1] == '.')
			return false;
		if (len >= PATH_MAX - used - 1)
			return false;
		out[used++] = '/';
		memcpy(out + used, path, len);
		used += len;
		out[used] = '\0';
	}
	return true;
}

/*
 * Protect the name as well, in the nearest directory that exists: the file may
 * be made, or replaced by another, after the set was.
 */
static int
add_name(
    struct path_protect *set, const char *path, enum path_protection protection)
{
	char full[PATH_MAX], dir[PATH_MAX], *slash;
	struct stat st;

	if (!tidy(path, full) || full[0] == '\0')
		return 0;
	memcpy(dir, full, sizeof(dir));
	for (;;) {
		slash = strrchr(dir, '/');
		if (slash == NULL) {
			errno = ENOENT;
			return -1;
		}
		*slash = '\0';
		if (stat(dir[0] != '\0' ? dir : "/", &st) == 0)
			break;
		if (!leads_nowhere(errno))
			return -1;
	}
	return add_entry(
	    set, -1, &st, full + (slash - dir) + 1, false, protection);
}

int
path_protect_add(
    struct path_protect *set, const char *path, enum path_protection protection)
{
	struct stat st;
	int fd;

	if (path[0] != '/') {
		errno = EINVAL;
		return -1;
	}
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd == -1 && !leads_nowhere(errno))
		return -1;
	if (fd != -1) {
		if (fstat(fd, &st) == -1) {
			close_fd(&fd);
			return -1;
		}
		if (add_entry(set, fd, &st, "", false, protection) == -1)
			return -1;
	}
	return add_name(set, path, protection);
}

/* All that begin so, those that are there and those that are made later. */
static int
add_beginning(struct path_protect *set, const char *dir, const char *begin,
    enum path_protection protection)
{
	char pattern[64];
	struct stat st;
	int error = -1;
	size_t i;
	glob_t g;

	memset(&g, 0, sizeof(g));
	if (stat(dir, &st) == -1)
		return leads_nowhere(errno) ? 0 : -1;
	if (add_entry(set, -1, &st, begin, true, protection) == -1)
		return -1;
	snprintf(pattern, sizeof(pattern), "%s/%s*", dir, begin);
	switch (glob(pattern, GLOB_NOSORT, NULL, &g)) {
	case 0:
		break;
	case GLOB_NOMATCH:
		error = 0;
		goto out;
	default:
		errno = ENOMEM;
		goto out;
	}
	for (i = 0; i < g.gl_pathc; i++) {
		if (path_protect_add(set, g.gl_pathv[i], protection) == -1)
			goto out;
	}
	error = 0;
out:
	globfree(&g);
	return error;
}

struct path_protect *
path_protect_new(void)
{
	static const struct {
		const char *path;
		enum path_protection protection;
	} fixed[] = {
	    {"/proc", PATH_CLOSED},
	    {"/sys", PATH_CLOSED},
	    {"/dev", PATH_CLOSED},
	    {"/usr", PATH_READ_ONLY},
	    {"/bin", PATH_READ_ONLY},
	    {"/sbin", PATH_READ_ONLY},
	    {"/boot", PATH_READ_ONLY},
	};
	struct path_protect *set;
	struct stat st;
	size_t i;

	set = calloc(1, sizeof(*set));
	if (set == NULL)
		return NULL;
	if (stat("/", &st) == -1)
		goto fail;
	set->root_dev = st.st_dev;
	set->root_ino = st.st_ino;
	set->mounts = mounts_new();
	if (set->mounts == NULL)
		goto fail;
	for (i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
		if (path_protect_add(set, fixed[i].path, fixed[i].protection) ==
		    -1)
			goto fail;
	}
	if (add_beginning(set, "/", "lib", PATH_READ_ONLY) == -1 ||
	    add_beginning(set, "/etc", "ld.so", PATH_READ_ONLY) == -1)
		goto fail;
	return set;
fail:
	path_protect_free(set);
	return NULL;
}

void
path_protect_free(struct path_protect *set)
{
	int saved = errno;
	size_t i;

	if (set == NULL)
		return;
	for (i = 0; i < set->n; i++) {
		close_fd(&set->v[i].fd);
		free(set->v[i].below);
	}
	free(set->v);
	mounts_free(set->mounts);
	free(set);
	errno = saved;
}

static bool
entry_covers(const struct entry *e, const struct stat *st, const char *below)
{
	size_t len;

	if (e->dev != st->st_dev || e->ino != st->st_ino)
		return false;
	len = strlen(e->below);
	if (len == 0)
		return true;
	return strncmp(below, e->below, len) == 0 &&
	       (e->prefix || below[len] == '\0' || below[len] == '/');
}

static void
protect_by_inode(const struct path_protect *set, const struct stat *st,
    const char *below, enum path_protection *found)
{
	size_t i;

	for (i = 0; i < set->n; i++) {
		if (set->v[i].protection > *found &&
		    entry_covers(&set->v[i], st, below))
			*found = set->v[i].protection;
	}
}

/*
 * The way up from a directory. Each step is one system call, by ".." repeated;
 * only every PATH_UPS-th directory is opened, so that the cost stays linear.
 * That the steps are not one chain of descriptors gives nothing away: a place
 * stays above what is in it, unless somebody may write there anyway.
 */
struct climb {
	int base_fd;
	bool owned;
	unsigned ups; /* so far above base_fd */
};

#define PATH_UPS 8

/* What to ask base_fd for: "" is base_fd itself. */
static const char *
climb_name(const struct climb *c)
{
	static const char up[] = "../../../../../../../..";

	_Static_assert(sizeof(up) == 3 * PATH_UPS, "\"..\" and what follows");
	return c->ups == 0 ? "" : up + sizeof(up) - 3 * (size_t)c->ups;
}

static int
climb_open(const struct climb *c)
{
	return openat(c->base_fd, c->ups == 0 ? "." : climb_name(c),
	    O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void
climb_clear(struct climb *c)
{
	if (c->owned)
		close_fd(&c->base_fd);
	c->owned = false;
}

static int
climb_up(struct climb *c)
{
	int fd;

	if (++c->ups < PATH_UPS)
		return 0;
	fd = climb_open(c);
	if (fd == -1)
		return -1;
	climb_clear(c);
	c->base_fd = fd;
	c->owned = true;
	c->ups = 0;
	return 0;
}

static int
climb_stat(const struct climb *c, struct stat *st, uint64_t *mount)
{
	return mounts_stat(c->base_fd, climb_name(c), st, mount);
}

/*
 * Each file system on the way is asked once; the root's was when the set was
 * made. fd is that of the object, -1 for where the climb is.
 */
static int
protect_by_fs(const struct path_protect *set, int fd, const struct climb *c,
    const struct stat *st, dev_t *asked, enum path_protection *found)
{
	struct statfs fs;
	int own = -1;

	if (st->st_dev == set->root_dev || st->st_dev == *asked)
		return 0;
	*asked = st->st_dev;
	if (fd == -1) {
		fd = own = climb_open(c);
		if (fd == -1)
			return -1;
	}
	if (fstatfs(fd, &fs) == -1 || kernel_fs(&fs))
		*found = PATH_CLOSED;
	close_fd(&own);
	return 0;
}

/* Some file systems take any case for the same name. */
static bool
has_own_name(const char *full)
{
	static const char own[] = ".cyberos";
	const size_t len = sizeof(own) - 1;

	for (; *full != '\0'; full += strcspn(full, "/")) {
		full += strspn(full, "/");
		if (strncasecmp(full, own, len) == 0 &&
		    (full[len] == '\0' || full[len] == '/'))
			return true;
	}
	return false;
}

static int locate(int fd, struct place *p);
static int protection_at(const struct path_protect *set, int fd,
    const struct place *p, const char *full, unsigned depth,
    enum path_protection *out);

/* A mount that a climb leaves by its root, and what the name says below that.
 */
struct crossing {
	uint64_t mount;
	struct stat root;
	const char *below;
	unsigned depth;
};

/*
 * What lies above the root in its file system is seen by its other name, if
 * that leads to the same object and not into the very mount again.
 */
static int
protect_by_origin(const struct path_protect *set, const struct crossing *x,
    const char *name, enum path_protection *found)
{
	enum path_protection there = PATH_OPEN;
	char full[PATH_MAX];
	struct place p;
	struct stat st;
	uint64_t mount;
	int fd, error = 0;

	p.parent_fd = -1;
	fd = open_how(AT_FDCWD, name, O_PATH, RESOLVE_NO_SYMLINKS);
	if (fd == -1)
		return is_ours(errno) ? -1 : 0;
	if (mounts_stat(fd, "", &st, &mount) == -1 || mount == x->mount ||
	    !same_object(&st, &x->root))
		goto out;
	error = locate(fd, &p);
	if (error != 0)
		goto out;
	if ((size_t)snprintf(full, sizeof(full), "%s%s%s", p.name,
		x->below[0] == '\0' ? "" : "/", x->below) >= sizeof(full))
		there = PATH_CLOSED;
	else
		error = protection_at(set, fd, &p, full, x->depth + 1, &there);
	if (error == 0 && there > *found)
		*found = there;
out:
	close_fd(&p.parent_fd);
	close_fd(&fd);
	return error;
}

/* Mounts within each other's parts, without an end: nothing is believed. */
static int
protect_by_mount(const struct path_protect *set, const struct crossing *x,
    enum path_protection *found)
{
	char name[PATH_MAX];
	size_t i;
	int error = 0;

	for (i = 0; error == 0 && *found != PATH_CLOSED &&
		    mounts_origin(set->mounts, x->mount, i, name);
	     i++) {
		if (x->depth == PATH_MOUNTS)
			*found = PATH_CLOSED;
		else
			error = protect_by_origin(set, x, name, found);
	}
	return error;
}

/*
 * One step up, and what is found there. below is what the full name says below
 * the place that is reached.
 */
static int
climb_step(const struct path_protect *set, const struct climb *c,
    const char *below, struct stat *st, uint64_t *mount, dev_t *asked,
    unsigned depth, enum path_protection *found)
{
	const char *inside = below + strcspn(below, "/");
	struct crossing x = {*mount, *st, inside + (inside[0] == '/'), depth};
	int error = 0;

	if (climb_stat(c, st, mount) == -1)
		return -1;
	if (x.mount != *mount)
		error = protect_by_mount(set, &x, found);
	if (error != 0)
		return error;
	protect_by_inode(set, st, below, found);
	return protect_by_fs(set, -1, c, st, asked, found);
}

/*
 * The strictest protection of the object at p, of each directory above it and
 * of what the full name says further. As many steps up as the name has
 * components must lead to the root: a mount whose root is its own parent's
 * twin does not end the walk early, and a rename on the way is noticed.
 */
static int
protection_at(const struct path_protect *set, int fd, const struct place *p,
    const char *full, unsigned depth, enum path_protection *out)
{
	struct climb c = {.base_fd = p->parent_fd};
	enum path_protection found = PATH_OPEN;
	size_t end = strlen(p->name);
	const char *below = full + end + (full[end] == '/');
	struct stat st;
	uint64_t mount;
	dev_t asked = set->root_dev;
	int error;

	if (mounts_stat(fd, "", &st, &mount) == -1)
		return changed_unless_ours();
	if (has_own_name(full))
		found = PATH_CLOSED;
	protect_by_inode(set, &st, below, &found);
	error = protect_by_fs(set, fd, &c, &st, &asked, &found);
	while (error == 0 && end > 0 && found != PATH_CLOSED) {
		while (full[end - 1] != '/')
			end--;
		below = full + end--;
		error = climb_step(
		    set, &c, below, &st, &mount, &asked, depth, &found);
		if (error == 0 && end > 0)
			error = climb_up(&c);
	}
	climb_clear(&c);
	if (error != 0)
		return error == -1 ? changed_unless_ours() : error;
	if (found != PATH_CLOSED &&
	    (st.st_dev != set->root_dev || st.st_ino != set->root_ino))
		return PATH_CHANGED;
	*out = found;
	return 0;
}

static int
protection_of(const struct path_protect *set, int fd, const struct place *p,
    const char *full, enum path_protection *out)
{
	return protection_at(set, fd, p, full, 0, out);
}

/*
 * Finding the object
 */

/*
 * Where does it lie? The kernel's name is a text again; it is believed only if
 * it leads back to the same object, and no link may be on that way.
 */
static int
locate(int fd, struct place *p)
{
	char proc[PATH_PROC_FD], *slash;
	struct stat st;
	ssize_t n;
	bool root;

	p->parent_fd = -1;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	if (fstat(fd, &p->st) == -1)
		return -1;
	n = readlink(proc, p->name, sizeof(p->name));
	if (n == -1)
		return errno == ENAMETOOLONG ? PATH_CHANGED : -1;
	if ((size_t)n >= sizeof(p->name) || p->name[0] != '/')
		return PATH_CHANGED;
	p->name[n] = '\0';
	slash = strrchr(p->name, '/');
	if (strlcpy(p->leaf, slash + 1, sizeof(p->leaf)) >= sizeof(p->leaf))
		return PATH_CHANGED;
	root = p->leaf[0] == '\0';
	*slash = '\0';
	p->parent_fd = open_how(AT_FDCWD, p->name[0] != '\0' ? p->name : "/",
	    O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
	if (p->parent_fd == -1)
		return changed_unless_ours();
	if (!root)
		*slash = '/';
	if (fstatat(p->parent_fd, p->leaf, &st,
		AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT |
		    (root ? AT_EMPTY_PATH : 0)) == -1 ||
	    !same_object(&st, &p->st)) {
		close_fd(&p->parent_fd);
		return PATH_CHANGED;
	}
	return 0;
}

/* What is at w->next is not there, or not for us. */
static void
lose(struct walk *w, const char *seg, size_t len, int error)
{
	struct reach *r = w->to;

	r->absent = error;
	/* A link has said this name: it dangles. */
	r->nameless = error != EACCES && strlen(seg) > w->own;
	if (len + 1 >= sizeof(r->gone))
		len = sizeof(r->gone) - 2;
	r->gone[0] = '/';
	memcpy(r->gone + 1, seg, len);
	r->gone[len + 1] = '\0';
}

static bool
append(char to[PATH_MAX], const char *seg, size_t len)
{
	size_t used = strlen(to);

	if (len + 1 >= PATH_MAX - used)
		return false;
	to[used] = '/';
	memcpy(to + used + 1, seg, len);
	to[used + 1 + len] = '\0';
	return true;
}

static void
cut_last(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash != NULL)
		*slash = '\0';
}

/* Be at the directory (or file) that w->at names. */
static int
go_to(struct walk *w)
{
	int fd;

	fd = open_how(AT_FDCWD, w->at[0] != '\0' ? w->at : "/", O_PATH,
	    RESOLVE_NO_SYMLINKS);
	if (fd == -1)
		return changed_unless_ours();
	close_fd(&w->to->fd);
	w->to->fd = fd;
	return 0;
}

/*
 * ".." takes away a name that is missing just as one that is there. Asking the
 * kernel would fail on the one and not on the other, and what follows may well
 * be granted: anybody's directories could be guessed that way.
 */
static int
step_up(struct walk *w)
{
	struct reach *r = w->to;

	if (r->gone[0] != '\0') {
		cut_last(r->gone);
		if (r->gone[0] == '\0') {
			r->absent = 0;
			r->nameless = false;
		}
		return 0;
	}
	cut_last(w->at);
	return go_to(w);
}

/*
 * Links that lead nowhere for us: on mounts without links, in a sticky
 * directory by a stranger (as fs.protected_symlinks has it; the kernel does
 * not see that we follow), and all in closed places, where magic ones are.
 */
static int
link_is_dead(struct walk *w, int link_fd, const struct stat *st, bool *dead)
{
	enum path_protection protection = PATH_CLOSED;
	const int dir_fd = w->to->fd;
	struct place p;
	struct statfs fs;
	int error;

	*dead = true;
	if (fstatfs(link_fd, &fs) == -1 || kernel_fs(&fs) ||
	    ((unsigned long)fs.f_flags & ST_NOSYMFOLLOW) != 0)
		return 0;
	error = locate(dir_fd, &p);
	if (error == 0)
		error = protection_of(w->set, dir_fd, &p, p.name, &protection);
	close_fd(&p.parent_fd);
	if (error != 0)
		return error;
	if ((p.st.st_mode & (S_ISVTX | S_IWOTH)) == (S_ISVTX | S_IWOTH) &&
	    st->st_uid != geteuid() && st->st_uid != p.st.st_uid)
		return 0;
	*dead = protection == PATH_CLOSED;
	return 0;
}

/*
 * Put what the link says in front of what is left to do. *over when that
 * cannot be gone on with: the path has then no name.
 */
static int
follow(struct walk *w, int link_fd, bool *over)
{
	char todo[PATH_MAX];
	size_t len;
	ssize_t n;

	n = readlinkat(link_fd, "", todo, sizeof(todo));
	if (n <= 0)
		return n == -1 ? changed_unless_ours() : PATH_CHANGED;
	len = strlen(w->next);
	if (++w->links > PATH_LINKS || (size_t)n + len >= sizeof(todo)) {
		*over = true;
		return 0;
	}
	if (len < w->own)
		w->own = len;
	memcpy(todo + n, w->next, len + 1);
	memcpy(w->todo, todo, (size_t)n + len + 1);
	w->next = w->todo;
	if (todo[0] != '/')
		return 0;
	w->at[0] = '\0';
	return go_to(w);
}

static int
step_to_link(
    struct walk *w, int link_fd, const struct stat *st, const char *seg)
{
	bool dead = true, over = false;
	size_t len = (size_t)(w->next - seg);
	int error;

	error = link_is_dead(w, link_fd, st, &dead);
	if (error != 0)
		return error;
	if (dead) {
		lose(w, seg, len, EACCES);
		return 0;
	}
	error = follow(w, link_fd, &over);
	if (error == 0 && over) {
		lose(w, seg, len, ENOENT);
		w->to->nameless = true;
		w->next = "";
	}
	return error;
}

static int
step_down(struct walk *w, const char *seg, size_t len)
{
	char name[NAME_MAX + 1];
	struct reach *r = w->to;
	struct stat st;
	int fd, error;

	if (len > NAME_MAX) {
		lose(w, seg, len, ENOENT);
		return 0;
	}
	memcpy(name, seg, len);
	name[len] = '\0';
	fd = openat(r->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1) {
		if (is_ours(errno))
			return -1;
		/* Whatever else it is that keeps us from looking. */
		if (errno == ENAMETOOLONG)
			errno = ENOENT;
		lose(w, seg, len,
		    errno == ENOENT || errno == ENOTDIR ? errno : EACCES);
		return 0;
	}
	if (fstat(fd, &st) == -1)
		error = -1;
	else if (S_ISLNK(st.st_mode))
		error = step_to_link(w, fd, &st, seg);
	else if (!append(w->at, seg, len)) {
		lose(w, seg, len, ENOENT);
		r->nameless = true;
		w->next = "";
		error = 0;
	} else {
		close_fd(&r->fd);
		r->fd = fd;
		return 0;
	}
	close_fd(&fd);
	return error;
}

/* One component. What is missing grows by text only. */
static int
step(struct walk *w, const char *seg, size_t len)
{
	struct reach *r = w->to;

	r->want_dir = true;
	if (len == 0 || (len == 1 && seg[0] == '.'))
		return 0;
	if (len == 2 && seg[0] == '.' && seg[1] == '.')
		return step_up(w);
	r->want_dir = false;
	if (r->gone[0] == '\0')
		return step_down(w, seg, len);
	if (!append(r->gone, seg, len)) {
		r->nameless = true;
		w->next = "";
	}
	return 0;
}

/* Where the kernel saw a link or nothing: go the whole way by ourselves. */
static int
walk(const char *path, const struct path_protect *set, struct reach *r)
{
	struct walk w;
	struct stat st;
	const char *seg;
	size_t len;
	int error;

	w.set = set;
	w.to = r;
	w.links = 0;
	w.own = SIZE_MAX;
	w.at[0] = '\0';
	strlcpy(w.todo, path, sizeof(w.todo));
	w.next = w.todo;
	error = go_to(&w);
	while (error == 0 && *w.next != '\0') {
		seg = w.next + strspn(w.next, "/");
		len = strcspn(seg, "/");
		w.next = seg + len;
		error = step(&w, seg, len);
	}
	if (error != 0 || r->absent != 0 || !r->want_dir)
		return error;
	if (fstat(r->fd, &st) == -1)
		return -1;
	if (!S_ISDIR(st.st_mode))
		r->absent = ENOTDIR;
	return 0;
}

/* Without links and existing, which is most often: one system call. */
static int
reach(const char *path, const struct path_protect *set, struct reach *r)
{
	r->fd = open_how(AT_FDCWD, path, O_PATH, RESOLVE_NO_SYMLINKS);
	r->absent = 0;
	r->nameless = false;
	r->want_dir = false;
	r->gone[0] = '\0';
	if (r->fd != -1)
		return 0;
	if (is_ours(errno))
		return -1;
	return walk(path, set, r);
}

/*
 * Hand out what was found. A link that dangles into a closed place keeps its
 * name, so that it is refused with the words of one that does not dangle.
 */
static int
report(struct path_judged *j, struct reach *r, struct place *p,
    const char *full, bool fits, enum path_protection protection)
{
	const char *leaf = r->gone + (r->gone[0] == '/');

	if (!fits || !is_utf8(full) ||
	    (r->nameless && protection != PATH_CLOSED)) {
		j->protection = protection;
		return 0;
	}
	j->canonical = strdup(full[0] != '\0' ? full : "/");
	if (j->canonical == NULL)
		return -1;
	j->absent = r->absent;
	j->protection = protection;
	if (r->absent == 0) {
		j->fd = r->fd;
		j->parent_fd = p->parent_fd;
		j->st = p->st;
		memcpy(j->leaf, p->leaf, sizeof(j->leaf));
		r->fd = p->parent_fd = -1;
	} else if (r->absent == ENOENT && !r->nameless && !r->want_dir &&
		   leaf[0] != '\0' && strchr(leaf, '/') == NULL &&
		   strlen(leaf) < sizeof(j->leaf)) {
		j->parent_fd = r->fd;
		strlcpy(j->leaf, leaf, sizeof(j->leaf));
		r->fd = -1;
	}
	return 0;
}

static int
judge_once(
    const char *path, const struct path_protect *set, struct path_judged *j)
{
	enum path_protection protection = PATH_CLOSED;
	char full[PATH_MAX];
	struct reach r;
	struct place p;
	bool fits;
	int error;

	p.parent_fd = -1;
	error = reach(path, set, &r);
	if (error != 0)
		goto out;
	error = locate(r.fd, &p);
	if (error != 0)
		goto out;
	strlcpy(full, p.name, sizeof(full));
	fits = strlcat(full, r.gone, sizeof(full)) < sizeof(full);
	error = protection_of(set, r.fd, &p, full, &protection);
	if (error == 0)
		error = report(j, &r, &p, full, fits, protection);
out:
	close_fd(&p.parent_fd);
	close_fd(&r.fd);
	return error;
}

int
path_judge(const char *path, size_t len, const struct path_protect *set,
    struct path_judged *j)
{
	char text[PATH_MAX];
	int error = PATH_CHANGED;
	unsigned i;

	path_judged_init(j);
	if (len == 0 || path[0] != '/' || memchr(path, '\0', len) != NULL ||
	    set == NULL) {
		errno = EINVAL;
		return -1;
	}
	if (len >= sizeof(text))
		return 0;
	memcpy(text, path, len);
	text[len] = '\0';
	/* A file that is replaced all the time is no reason to refuse it. */
	for (i = 0; i < PATH_TRIES && error == PATH_CHANGED; i++)
		error = judge_once(text, set, j);
	return error == -1 ? -1 : 0;
}

/* Does an entry of this place name something below the rest of a path? */
static bool
names_below(const struct path_protect *set, const struct stat *st,
    const char *rest)
{
	size_t i, len = strlen(rest);
	const struct entry *e;

	for (i = 0; i < set->n; i++) {
		e = &set->v[i];
		if (e->dev == st->st_dev && e->ino == st->st_ino &&
		    e->below[0] != '\0' && strncmp(e->below, rest, len) == 0 &&
		    (len == 0 || e->below[len] == '/'))
			return true;
	}
	return false;
}

/*
 * The way up as in protection_at(). Where it leaves a mount that shows a part
 * of a file system, the directories above that part are not looked at: then
 * nothing is vouched for.
 */
int
path_dir_look(const struct path_protect *set, const struct path_judged *dir,
    struct path_dir *d)
{
	struct climb c = {.base_fd = dir->parent_fd};
	const char *name = dir->canonical;
	char other[PATH_MAX];
	size_t end = strcmp(name, "/") == 0 ? 0 : strlen(name);
	uint64_t mount, last;
	struct stat st;
	bool inner;
	int error = 0;

	if (mounts_stat(dir->fd, "", &st, &mount) == -1)
		return -1;
	last = mount;
	inner = names_below(set, &st, "") ||
		mounts_origin(set->mounts, mount, 0, other);
	while (error == 0 && end > 0 && !inner) {
		while (name[end - 1] != '/')
			end--;
		error = climb_stat(&c, &st, &last);
		if (error == 0)
			inner = names_below(set, &st, name + end) ||
				mounts_origin(set->mounts, last, 0, other);
		if (--end > 0 && error == 0)
			error = climb_up(&c);
	}
	climb_clear(&c);
	if (error != 0)
		return -1;
	d->mount = mount;
	d->inner = inner;
	return 0;
}

bool
path_dir_vouches(const struct path_protect *set, const struct path_dir *d,
    const char *name, const struct stat *st, uint64_t mount)
{
	size_t i;

	if (d->inner || mount != d->mount || S_ISDIR(st->st_mode) ||
	    has_own_name(name))
		return false;
	for (i = 0; i < set->n; i++) {
		if (set->v[i].dev == st->st_dev && set->v[i].ino == st->st_ino)
			return false;
	}
	return true;
}

void
path_judged_init(struct path_judged *j)
{
	memset(j, 0, sizeof(*j));
	j->fd = -1;
	j->parent_fd = -1;
	j->absent = ENOENT;
	j->protection = PATH_CLOSED;
}

void
path_judged_clear(struct path_judged *j)
{
	if (j->canonical != NULL)
		freezero(j->canonical, strlen(j->canonical));
	close_fd(&j->fd);
	close_fd(&j->parent_fd);
	path_judged_init(j);
}

bool
path_is_within(const char *path, const char *place)
{
	size_t n = strlen(place);

	return n == 0 || (strncmp(path, place, n) == 0 &&
			     (path[n] == '/' || path[n] == '\0'));
}

int
path_reopen(int fd, int flags)
{
	char proc[PATH_PROC_FD];

	/* Nothing is to be made here, and the way there is a link. */
	if (fd < 0 || (flags & (O_CREAT | O_EXCL | O_NOFOLLOW)) != 0) {
		errno = fd < 0 ? EBADF : EINVAL;
		return -1;
	}
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return open(proc, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}
