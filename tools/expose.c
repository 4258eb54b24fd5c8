/*
 * From globs to mounts. Every directory and file is judged as Read and Write
 * judge what a skill names, by the kernel's name and by inode; what is closed
 * or read-only below a directory is found by every name that the mounts give it
 * and covered there. A protected directory that is not where it was refuses the
 * call: somebody has moved it, perhaps to where nothing covers it.
 */

#include "tools/expose.h"

#include <sys/statvfs.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/clock.h"
#include "enforce/mount.h"
#include "tools/walk.h"

#define LOOK_NS (2 * CLOCK_SECOND) /* for the files that globs match */

struct collect {
	const struct invocation *inv;
	struct shares *out;
	struct mounts *mounts;
	enum failure failure;
};

static bool
fails(struct collect *c, enum failure why)
{
	c->failure = why;
	return false;
}

/* The directory of a path, and its last component. */
static const char *
split(const char *path, char dir[PATH_MAX])
{
	const char *slash = strrchr(path, '/');

	strlcpy(dir, path, PATH_MAX);
	dir[slash == path ? 1 : slash - path] = '\0';
	return slash + 1;
}

void
expose_place(struct expose_place *p, const char *path, bool closed)
{
	char dir[PATH_MAX], real[PATH_MAX];
	const char *leaf;
	struct stat st;

	memset(p, 0, sizeof(*p));
	p->closed = closed;
	if (path[0] != '/')
		return;
	leaf = split(path, dir);
	if (realpath(path, p->path) == NULL &&
	    (realpath(dir, real) == NULL ||
		snprintf(p->path, sizeof(p->path), "%s/%s",
		    strcmp(real, "/") == 0 ? "" : real, leaf) >=
		    (int)sizeof(p->path)))
		strlcpy(p->path, path, sizeof(p->path));
	if (stat(p->path, &st) == 0) {
		p->there = true;
		p->directory = S_ISDIR(st.st_mode);
		p->dev = st.st_dev;
		p->ino = st.st_ino;
	}
	split(p->path, dir);
	if (stat(dir, &st) == 0) {
		p->parent_dev = st.st_dev;
		p->parent_ino = st.st_ino;
	}
}

/* --- the list --- */

static struct share *
find_share(const struct collect *c, const char *path)
{
	size_t i;

	for (i = 0; i < c->out->n; i++) {
		if (strcmp(c->out->v[i].path, path) == 0)
			return &c->out->v[i];
	}
	return NULL;
}

static bool
add_share(struct collect *c, const char *path, enum share_kind kind,
    const struct stat *st, int source_fd)
{
	struct shares *all = c->out;
	struct share *v;

	if (all->n == SHARE_MAX) {
		close(source_fd);
		return fails(c, FAIL_TOO_LARGE);
	}
	v = recallocarray(all->v, all->n, all->n + 1, sizeof(*v));
	if (v == NULL) {
		close(source_fd);
		return fails(c, FAIL_IO_ERROR);
	}
	all->v = v;
	v = &all->v[all->n++];
	v->path = strdup(path);
	v->kind = kind;
	v->directory = S_ISDIR(st->st_mode);
	v->dev = st->st_dev;
	v->ino = st->st_ino;
	v->source_fd = source_fd;
	v->tree_fd = -1;
	return v->path != NULL || fails(c, FAIL_IO_ERROR);
}

/* Names that only a pattern which spells them matches (SPEC 4.1). */
static bool
is_own_name(const char *name, size_t n)
{
	return (n == 4 && (memcmp(name, ".git", 4) == 0 ||
			      memcmp(name, ".ssh", 4) == 0)) ||
	       (n == 8 && memcmp(name, ".cyberos", 8) == 0);
}

/* Does "**" behind this directory match all the way down to the path? */
static bool
is_covered(const char *path, const char *dir)
{
	const char *at = path + strlen(dir);
	size_t n;

	if (!path_is_within(path, dir))
		return false;
	while (*at == '/') {
		n = strcspn(++at, "/");
		if (is_own_name(at, n))
			return false;
		at += n;
	}
	return true;
}

/* Is it there already, by a directory that is shared? */
static bool
is_shared(const struct collect *c, const char *path)
{
	const struct share *s;
	size_t i;

	for (i = 0; i < c->out->n; i++) {
		s = &c->out->v[i];
		if (s->directory && s->kind != SHARE_EMPTY &&
		    is_covered(path, s->path))
			return true;
	}
	return false;
}

/* The private root shows these anyway, and what is in them may be run. */
static bool
is_system(const char *path)
{
	static const char *const dirs[] = {"/usr", "/bin", "/sbin", "/lib",
	    "/lib32", "/lib64", "/libx32", NULL};
	const char *const *d;

	for (d = dirs; *d != NULL; d++) {
		if (path_is_within(path, *d))
			return true;
	}
	return false;
}

/* --- what was granted --- */

/* "/a/b" of the pattern "/a/b" and slash and two stars; "" is the root. */
static bool
directory_of(const struct glob_set *set, size_t i, char dir[PATH_MAX])
{
	const char *text = glob_set_pattern(set, i);
	size_t n = glob_set_prefix(set, i);

	if (strcmp(text + n, "/**") != 0)
		return false;
	memcpy(dir, text, n);
	dir[n] = '\0';
	return true;
}

static bool
set_covers(const struct glob_set *set, const char *path)
{
	char dir[PATH_MAX];
	size_t i;

	for (i = 0; i < glob_set_count(set); i++) {
		if (directory_of(set, i, dir) && is_covered(path, dir))
			return true;
	}
	return false;
}

/* The skill's list and each of the operator's that is set. */
static size_t
all_sets(const struct invocation *inv,
    const struct glob_set *sets[1 + POLICY_CEILINGS])
{
	size_t i, n = 0;

	sets[n++] = grant_manifest(inv->grant)->files;
	for (i = 0; i < POLICY_CEILINGS; i++) {
		if (inv->policy->ceilings[i].files != NULL)
			sets[n++] = inv->policy->ceilings[i].files;
	}
	return n;
}

enum expose_part
expose_part(const struct invocation *inv, const char *path)
{
	const struct glob_set *sets[1 + POLICY_CEILINGS];
	size_t n = all_sets(inv, sets), s, i;
	char dir[PATH_MAX];
	bool itself = strrchr(path, '/') == path; /* of a grant of everything */

	for (s = 0; s < n; s++) {
		if (!set_covers(sets[s], path))
			return EXPOSE_NOT;
		for (i = 0; i < glob_set_count(sets[s]); i++)
			itself = itself || (directory_of(sets[s], i, dir) &&
					       strcmp(dir, path) == 0);
	}
	return itself ? EXPOSE_ITSELF : EXPOSE_INSIDE;
}

/*
 * Judged like what a skill names. Adds nothing for what is closed or gone, and a
 * file only with files: "FILE" and a slash and two stars does not match FILE.
 */
static bool
add_granted(struct collect *c, const char *path, bool files)
{
	enum share_kind kind = SHARE_WRITE;
	struct path_judged j;
	bool good = true;

	if (is_system(path) || find_share(c, path) != NULL)
		return true;
	path_judged_init(&j);
	if (path_judge(path, strlen(path), c->inv->protect, &j) == -1)
		good = fails(c, FAIL_IO_ERROR);
	else if (j.absent == 0 && j.canonical != NULL &&
		 strcmp(j.canonical, path) == 0 &&
		 j.protection != PATH_CLOSED &&
		 (S_ISDIR(j.st.st_mode) ||
		     (files && S_ISREG(j.st.st_mode)))) {
		if (j.protection == PATH_READ_ONLY ||
		    (S_ISREG(j.st.st_mode) &&
			(j.st.st_nlink > 1 ||
			    (j.st.st_mode & (S_ISUID | S_ISGID)) != 0)))
			kind = SHARE_READ;
		good = add_share(c, path, kind, &j.st, j.fd);
		if (good)
			c->out->v[c->out->n - 1].granted = true;
		j.fd = -1;
	}
	path_judged_clear(&j);
	return good;
}

/* A grant of everything is one of each thing in the root directory. */
static bool
add_root(struct collect *c)
{
	char path[PATH_MAX];
	struct dirent *e;
	bool good = true;
	DIR *d = opendir("/");

	while (good && d != NULL && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "/%s", e->d_name);
		if (!is_own_name(e->d_name, strlen(e->d_name)))
			good = add_granted(c, path, true);
	}
	if (d != NULL)
		closedir(d);
	return good;
}

/* In every list a directory covers it: it is as good as granted itself. */
static bool
add_directories(struct collect *c)
{
	const struct glob_set *sets[1 + POLICY_CEILINGS];
	size_t n = all_sets(c->inv, sets), s, i, k;
	char dir[PATH_MAX];

	for (s = 0; s < n; s++) {
		for (i = 0; i < glob_set_count(sets[s]); i++) {
			if (!directory_of(sets[s], i, dir))
				continue;
			for (k = 0; k < n && set_covers(sets[k], dir); k++)
				;
			if (k < n)
				continue;
			if (!(dir[0] == '\0' ? add_root(c)
					     : add_granted(c, dir, false)))
				return false;
		}
	}
	return true;
}

static bool
wants_file(void *arg, const char *path)
{
	return !is_shared(arg, path) && !is_system(path);
}

static bool
take_file(void *arg, const struct walk_file *f)
{
	return add_granted(arg, f->path, true);
}

static void
missed(void *arg)
{
	(void)arg; /* what cannot be looked at cannot be shown */
}

/* Is a pattern of the skill's not done with by a directory? */
static bool
must_look(const struct collect *c)
{
	const struct glob_set *files = grant_manifest(c->inv->grant)->files;
	char dir[PATH_MAX];
	size_t i;

	for (i = 0; i < glob_set_count(files); i++) {
		if (!directory_of(files, i, dir))
			return true;
		if (dir[0] != '\0' && !is_shared(c, dir) && !is_system(dir) &&
		    access(dir, F_OK) == 0)
			return true;
	}
	return false;
}

static bool
add_files(struct collect *c)
{
	struct walk w = {.inv = c->inv,
	    .until = clock_boot() + LOOK_NS,
	    .wants = wants_file,
	    .wants_below = wants_file,
	    .file = take_file,
	    .missed = missed,
	    .arg = c};

	if (!must_look(c))
		return true;
	if (walk_run(&w, "") == -1)
		return fails(c, FAIL_IO_ERROR);
	if (w.late)
		return fails(c, FAIL_TOO_LARGE);
	return c->failure == FAIL_NONE;
}

/* --- what covers it --- */

/* Is it below a directory that is shared, whatever it is called? */
static bool
is_below_share(const struct collect *c, const char *path)
{
	const struct share *s;
	size_t i;

	for (i = 0; i < c->out->n; i++) {
		s = &c->out->v[i];
		if (s->directory && s->kind != SHARE_EMPTY &&
		    path_is_within(path, s->path) && strcmp(path, s->path) != 0)
			return true;
	}
	return false;
}

/* What is covered is this object; in show it must still be the one there. */
static bool
cover(struct collect *c, const char *path, bool closed, int fd,
    const struct stat *st)
{
	int copy;

	if (find_share(c, path) != NULL)
		return true;
	if (closed)
		return add_share(c, path, SHARE_EMPTY, st, -1);
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return copy != -1 ? add_share(c, path, SHARE_READ, st, copy)
			  : fails(c, FAIL_IO_ERROR);
}

/*
 * The object of a place that is below a share. One that was there and is not, or
 * is another one, has been moved, perhaps to where nothing covers it; only a
 * file in the same directory as before may have been replaced. -1: refuse, or
 * with *absent nothing is there, as it was.
 */
static int
open_place(const struct expose_place *p, struct stat *st, bool *absent)
{
	char dir[PATH_MAX];
	const char *leaf = split(p->path, dir);
	int dir_fd, fd = -1;
	struct stat parent;

	*absent = false;
	dir_fd = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd == -1 || fstat(dir_fd, &parent) == -1) {
		*absent = p->parent_ino == 0;
		goto out;
	}
	if (p->parent_ino != 0 && (parent.st_dev != p->parent_dev ||
				      parent.st_ino != p->parent_ino))
		goto out;
	fd = openat(dir_fd, leaf, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1) {
		*absent = !p->there && errno == ENOENT;
		goto out;
	}
	if (fstat(fd, st) == -1 || S_ISLNK(st->st_mode) ||
	    (p->there && (p->directory || S_ISDIR(st->st_mode)) &&
		(st->st_dev != p->dev || st->st_ino != p->ino))) {
		close(fd);
		fd = -1;
	}
out:
	if (dir_fd != -1)
		close(dir_fd);
	return fd;
}

/* By its own name and by each that another mount gives it. */
static bool
cover_place(struct collect *c, const struct expose_place *p)
{
	struct stat st, other;
	char name[PATH_MAX];
	bool absent, good = true;
	int fd = -1;
	size_t i;

	for (i = 0; good && mounts_name(c->mounts, p->path, i, name); i++) {
		if (!is_below_share(c, name))
			continue;
		if (fd == -1) {
			fd = open_place(p, &st, &absent);
			if (fd == -1)
				return absent || fails(c, FAIL_IO_ERROR);
		}
		good = lstat(name, &other) == 0 &&
		       other.st_dev == st.st_dev && other.st_ino == st.st_ino
			   ? cover(c, name, p->closed, fd, &st)
			   : fails(c, FAIL_IO_ERROR);
	}
	if (fd != -1)
		close(fd);
	return good;
}

/* Whatever has this name now, if anything. A link leads to what is judged, and
 * covered, by its own name. */
static bool
cover_name(struct collect *c, const char *path, bool closed)
{
	struct stat st;
	bool good = true;
	int fd;

	if (!is_below_share(c, path))
		return true;
	fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ||
		       fails(c, FAIL_IO_ERROR);
	if (fstat(fd, &st) == 0 && !S_ISLNK(st.st_mode))
		good = cover(c, path, closed, fd, &st);
	close(fd);
	return good;
}

static bool
cover_own_names(struct collect *c)
{
	static const struct {
		const char *name;
		bool closed;
	} own[] = {{".git", false}, {".ssh", true}, {".cyberos", true}};
	char path[PATH_MAX + 16];
	size_t i, k, n = c->out->n;

	for (i = 0; i < n; i++) {
		if (!c->out->v[i].directory)
			continue;
		for (k = 0; k < sizeof(own) / sizeof(own[0]); k++) {
			snprintf(path, sizeof(path), "%s/%s",
			    c->out->v[i].path, own[k].name);
			if (!cover_name(c, path, own[k].closed))
				return false;
		}
	}
	return true;
}

static bool
cover_loader(struct collect *c)
{
	char path[PATH_MAX];
	struct dirent *e;
	bool good = true;
	DIR *d = opendir("/etc");

	while (good && d != NULL && (e = readdir(d)) != NULL) {
		if (strncmp(e->d_name, "ld.so", 5) != 0)
			continue;
		snprintf(path, sizeof(path), "/etc/%s", e->d_name);
		good = cover_name(c, path, false);
	}
	if (d != NULL)
		closedir(d);
	return good;
}

/* Is another mount, a later one, at the same point? */
static bool
is_hidden(const struct collect *c, size_t i, const char *point)
{
	const char *other;
	uint64_t id;

	while ((other = mounts_point(c->mounts, ++i, &id)) != NULL) {
		if (strcmp(other, point) == 0)
			return true;
	}
	return false;
}

/* The mount is judged, and not what stands at its point in the meantime. */
static bool
cover_mount(struct collect *c, const char *point, uint64_t id)
{
	struct path_judged j;
	struct stat st;
	uint64_t found = 0;
	bool good;

	path_judged_init(&j);
	good = path_judge(point, strlen(point), c->inv->protect, &j) == 0 &&
	       j.absent == 0 && j.canonical != NULL &&
	       strcmp(j.canonical, point) == 0 &&
	       mounts_stat(j.fd, "", &st, &found) == 0 &&
	       (found == 0 || found == id);
	if (!good)
		fails(c, FAIL_IO_ERROR);
	else if (j.protection != PATH_OPEN)
		good = cover(c, point, j.protection == PATH_CLOSED, j.fd,
		    &j.st);
	path_judged_clear(&j);
	return good;
}

/* What is mounted in a shared directory comes with it, unless it may not. */
static bool
cover_mounts(struct collect *c)
{
	const char *point;
	uint64_t id;
	size_t i;

	for (i = 0; (point = mounts_point(c->mounts, i, &id)) != NULL; i++) {
		if (is_below_share(c, point) && !is_hidden(c, i, point) &&
		    !cover_mount(c, point, id))
			return false;
	}
	return true;
}

/* Of all that is shown around it the innermost decides. */
static bool
is_renamable(const struct collect *c, const char *path)
{
	const struct share *s, *in = NULL;
	size_t i;

	for (i = 0; i < c->out->n; i++) {
		s = &c->out->v[i];
		if (path_is_within(path, s->path) &&
		    (in == NULL || strlen(s->path) > strlen(in->path)))
			in = s;
	}
	return in != NULL && in->kind == SHARE_WRITE;
}

/*
 * What leads to a cover must stay where it is: a directory that is renamed takes
 * what is in it along, the thing that is covered too, and another could be put
 * in its place for whoever comes next. Mounted over itself it is EBUSY.
 */
static bool
fix_directory(struct collect *c, const char *path)
{
	struct stat st;
	int fd;

	if (!is_renamable(c, path) || find_share(c, path) != NULL)
		return true;
	fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1 || fstat(fd, &st) == -1) {
		if (fd != -1)
			close(fd);
		return fails(c, FAIL_IO_ERROR);
	}
	return add_share(c, path, SHARE_WRITE, &st, fd);
}

static bool
fix_directories(struct collect *c)
{
	char path[PATH_MAX];
	size_t i, n = c->out->n;
	char *slash;

	for (i = 0; i < n; i++) {
		strlcpy(path, c->out->v[i].path, sizeof(path));
		while ((slash = strrchr(path, '/')) != NULL && slash != path) {
			*slash = '\0';
			if (!fix_directory(c, path))
				return false;
		}
	}
	return true;
}

/* --- the whole --- */

static int
by_path(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	return strcmp(x->path, y->path);
}

/* The share that has this one's place, or NULL. All are in order. */
static const struct share *
around(const struct shares *all, size_t i)
{
	size_t k;

	for (k = i; k-- > 0;) {
		if (path_is_within(all->v[i].path, all->v[k].path))
			return &all->v[k];
	}
	return NULL;
}

/* In order, and without covers of what is covered already. */
static void
settle(struct shares *all)
{
	const struct share *outer;
	size_t i = 0;

	if (all->n > 0)
		qsort(all->v, all->n, sizeof(*all->v), by_path);
	while (i < all->n) {
		outer = around(all, i);
		if (outer == NULL || outer->kind != SHARE_EMPTY ||
		    all->v[i].granted) {
			all->v[i++].within =
			    outer != NULL && outer->kind != SHARE_EMPTY;
			continue;
		}
		free(all->v[i].path);
		if (all->v[i].source_fd != -1)
			close(all->v[i].source_fd);
		memmove(&all->v[i], &all->v[i + 1],
		    (--all->n - i) * sizeof(*all->v));
	}
}

bool
expose_has_room(const struct invocation *inv, const struct shares *all)
{
	uint64_t least = (uint64_t)inv->policy->min_free_mb << 20;
	struct statvfs v;
	size_t i;

	for (i = 0; i < all->n; i++) {
		if (all->v[i].kind == SHARE_WRITE &&
		    fstatvfs(all->v[i].source_fd, &v) == 0 &&
		    (uint64_t)v.f_bavail * v.f_frsize < least)
			return false;
	}
	return true;
}

enum failure
expose_collect(const struct invocation *inv, const struct expose_place *places,
    size_t n, struct shares *out)
{
	struct collect c = {.inv = inv, .out = out};
	size_t i;

	c.mounts = mounts_new();
	if (c.mounts == NULL)
		return FAIL_IO_ERROR;
	if (!add_directories(&c) || !add_files(&c))
		goto out;
	if (!expose_has_room(inv, out)) {
		fails(&c, FAIL_NO_SPACE);
		goto out;
	}
	for (i = 0; i < n; i++) {
		if (!cover_place(&c, &places[i]))
			goto out;
	}
	if (cover_mounts(&c) && cover_loader(&c) && cover_own_names(&c) &&
	    fix_directories(&c))
		settle(out);
out:
	mounts_free(c.mounts);
	return c.failure;
}
