/*
 * Going through trees that somebody else changes while we look. Each directory
 * is judged as a file is that a skill names (its kernel name must be the path
 * that we think we are at, and nothing that protects it may be above it), each
 * file by its own inode and mount, and only what was judged is opened. So a
 * directory that is exchanged for a link or moved away gives nothing outside
 * the grant, and the walk does not depend on the depth of the stack.
 */

#include "tools/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/buf.h"
#include "audit/clock.h"
#include "enforce/mount.h"

#define DEPTH_MAX 200 /* directories open at one time */
#define LOOK_EVERY 64 /* entries between two looks at the clock */
#define NAMES_MAX ((size_t)64 * 1024 * 1024) /* of one directory */

/* A directory: its wanted entries in order, a directory's with a final "/". */
struct level {
	int fd;
	struct path_dir near;
	size_t path_len; /* of its path in struct way */
	struct buf names;
	const char **entry;
	size_t n;
	size_t next;
};

struct way {
	struct walk *walk;
	char path[PATH_MAX];
	struct level level[DEPTH_MAX];
	size_t depth;
	unsigned seen;
	bool enough;
};

/* --- what is allowed --- */

static bool
is_granted(const struct walk *w, const char *path)
{
	char canonical[PATH_MAX];

	if (!w->memory)
		return grant_file(w->inv->grant, path) == REASON_NONE;
	return path_memory(path, strlen(path), canonical) == 0 &&
	       strcmp(path, canonical) == 0 &&
	       grant_memory(w->inv->grant, path) == REASON_NONE;
}

static bool
is_granted_below(const struct walk *w, const char *dir)
{
	char canonical[PATH_MAX];

	if (!w->memory)
		return grant_file_below(w->inv->grant, dir) == REASON_NONE;
	return path_memory(dir, strlen(dir), canonical) == 0 &&
	       strcmp(dir, canonical) == 0 &&
	       grant_memory_below(w->inv->grant, dir) == REASON_NONE;
}

static bool
is_wanted(const struct walk *w, const char *path)
{
	return is_granted(w, path) && w->wants(w->arg, path);
}

static bool
is_wanted_below(const struct walk *w, const char *dir)
{
	return is_granted_below(w, dir) && w->wants_below(w->arg, dir);
}

/* What cannot be looked at is told of only if it is granted by its name. */
static void
miss(const struct way *way)
{
	if (is_granted(way->walk, way->path))
		way->walk->missed(way->walk->arg);
}

static bool
is_late(struct way *way)
{
	if (++way->seen % LOOK_EVERY == 0 && clock_boot() > way->walk->until)
		way->walk->late = true;
	return way->walk->late;
}

/* --- a directory --- */

static void
level_clear(struct level *l)
{
	if (l->fd != -1)
		close(l->fd);
	buf_clear(&l->names);
	free(l->entry);
	memset(l, 0, sizeof(*l));
	l->fd = -1;
}

static int
compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Append a name to the path; false when it does not fit. */
static bool
enter_name(struct way *way, size_t len, const char *name)
{
	const char *slash = len > 0 || !way->walk->memory ? "/" : "";

	return (size_t)snprintf(way->path + len, sizeof(way->path) - len,
		   "%s%s", slash, name) < sizeof(way->path) - len;
}

/* The type of an entry, where the file system does not say it by itself. */
static unsigned char
type_of(int fd, const struct dirent *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type;
	if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return DT_UNKNOWN;
	return S_ISDIR(st.st_mode)   ? DT_DIR
	       : S_ISREG(st.st_mode) ? DT_REG
				     : DT_UNKNOWN;
}

static int
take_entry(struct way *way, struct level *l, const struct dirent *e)
{
	unsigned char type = type_of(l->fd, e);
	bool wanted;

	if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
	    !enter_name(way, l->path_len, e->d_name))
		return 0;
	if (type == DT_DIR)
		wanted = is_wanted_below(way->walk, way->path);
	else
		wanted = type == DT_REG && is_wanted(way->walk, way->path);
	if (!wanted)
		return 0;
	l->n++;
	return buf_puts(&l->names, e->d_name) == -1 ||
		       (type == DT_DIR && buf_putc(&l->names, '/') == -1) ||
		       buf_putc(&l->names, '\0') == -1
		   ? -1
		   : 0;
}

static int
sort_entries(struct level *l)
{
	const char *name = l->names.data;
	size_t i;

	l->entry = calloc(l->n + 1, sizeof(*l->entry));
	if (l->entry == NULL)
		return -1;
	for (i = 0; i < l->n; i++, name += strlen(name) + 1)
		l->entry[i] = name;
	qsort(l->entry, l->n, sizeof(*l->entry), compare);
	return 0;
}

/* Read all of it; the path is the directory's again afterwards. */
static int
read_entries(struct way *way, struct level *l)
{
	DIR *d;
	const struct dirent *e;
	int fd, result = 0;

	fd = fcntl(l->fd, F_DUPFD_CLOEXEC, 3);
	d = fd == -1 ? NULL : fdopendir(fd);
	if (d == NULL) {
		if (fd != -1)
			close(fd);
		miss(way);
		return 0;
	}
	while (result == 0 && !is_late(way) && (e = readdir(d)) != NULL)
		result = take_entry(way, l, e);
	closedir(d);
	way->path[l->path_len] = '\0';
	return result == -1 ? -1 : sort_entries(l);
}

/* A readable descriptor of the judged directory that the path names, or -1. */
static int
open_directory(const struct way *way, struct path_dir *near)
{
	const struct invocation *inv = way->walk->inv;
	const char *path = way->path[0] == '\0' ? "/" : way->path;
	struct path_judged j;
	int fd = -1;

	if (path_judge(path, strlen(path), inv->protect, &j) == 0 &&
	    j.absent == 0 && j.canonical != NULL && j.fd != -1 &&
	    strcmp(j.canonical, path) == 0 && S_ISDIR(j.st.st_mode) &&
	    j.protection != PATH_CLOSED) {
		fd = openat(
		    j.fd, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd == -1)
			miss(way);
		else if (path_dir_look(inv->protect, &j, near) == -1)
			near->inner = true;
	}
	path_judged_clear(&j);
	return fd;
}

static int
open_memory(const struct way *way)
{
	char inside[PATH_MAX], leaf[NAME_MAX + 1];
	int fd;

	if ((size_t)snprintf(inside, sizeof(inside), "%s/x", way->path) >=
	    sizeof(inside))
		return -1;
	fd = path_memory_parent(way->walk->inv->memory_fd, inside, false, leaf);
	if (fd == -1 && errno == EACCES)
		miss(way);
	return fd;
}

/* Go into the directory that the path names, if it is what it should be. */
static int
push(struct way *way)
{
	struct level *l = &way->level[way->depth];

	if (way->depth == DEPTH_MAX) {
		miss(way);
		return 0;
	}
	memset(l, 0, sizeof(*l));
	buf_init(&l->names, NAMES_MAX);
	l->path_len = strlen(way->path);
	l->fd = way->walk->memory ? open_memory(way)
				  : open_directory(way, &l->near);
	if (l->fd == -1)
		return 0;
	way->depth++;
	return read_entries(way, l);
}

/* --- a file --- */

/* Ask for this very path, as a Read of it would. */
static bool
judge_file(const struct walk *w, const char *path, struct stat *st)
{
	struct path_judged j;
	bool good;

	good = path_judge(path, strlen(path), w->inv->protect, &j) == 0 &&
	       j.absent == 0 && j.canonical != NULL && j.fd != -1 &&
	       strcmp(j.canonical, path) == 0 && S_ISREG(j.st.st_mode) &&
	       j.protection != PATH_CLOSED;
	if (good)
		*st = j.st;
	path_judged_clear(&j);
	return good;
}

/*
 * Is what lies in this directory under the name (or is open, without a name)
 * the regular file that a Read of the path would get?
 */
static bool
is_readable(const struct way *way, const struct level *l, const char *name,
    int fd, struct stat *st)
{
	const struct path_protect *set = way->walk->inv->protect;
	struct stat judged;
	uint64_t mount;

	if (mounts_stat(fd == -1 ? l->fd : fd, fd == -1 ? name : "", st,
		&mount) == -1 ||
	    !S_ISREG(st->st_mode))
		return false;
	return path_dir_vouches(set, &l->near, name, st, mount) ||
	       (judge_file(way->walk, way->path, &judged) &&
		   judged.st_dev == st->st_dev && judged.st_ino == st->st_ino);
}

/* Why it could not be opened: what is not there any more was not missed. */
static void
miss_file(const struct way *way, int error)
{
	struct stat st;

	if (error == ENOENT || error == ELOOP || error == ENXIO ||
	    error == ENODEV || error == EMLINK || error == EISDIR)
		return;
	if (way->walk->memory || judge_file(way->walk, way->path, &st))
		miss(way);
}

/*
 * The entry of a directory is known to be a regular file; it may have become
 * anything since, so no bytes are read before it was looked at again.
 */
static int
open_entry(const struct way *way, const struct level *l, const char *name)
{
	struct stat st;

	if (way->walk->memory)
		return path_memory_open(
		    way->walk->inv->memory_fd, way->path, &st);
	return openat(l->fd, name,
	    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static void
visit(struct way *way, const struct level *l, const char *name)
{
	struct walk *w = way->walk;
	struct walk_file f = {.path = way->path, .fd = -1};
	struct stat st = {.st_size = 0};

	if (w->opens) {
		f.fd = open_entry(way, l, name);
		if (f.fd == -1) {
			miss_file(way, errno);
			return;
		}
	}
	if (w->memory || is_readable(way, l, name, f.fd, &st)) {
		f.size = st.st_size;
		way->enough = !w->file(w->arg, &f);
	}
	if (f.fd != -1)
		close(f.fd);
}

/* --- the way --- */

static int
step(struct way *way)
{
	struct level *l = &way->level[way->depth - 1];
	const char *name;
	size_t len;

	if (l->next == l->n) {
		level_clear(l);
		way->depth--;
		return 0;
	}
	name = l->entry[l->next++];
	if (!enter_name(way, l->path_len, name))
		return 0;
	len = strlen(way->path);
	if (way->path[len - 1] == '/') {
		way->path[len - 1] = '\0';
		return push(way);
	}
	visit(way, l, name);
	return 0;
}

/* A place to begin at, which is a file: seen from its directory. */
static void
begin_at_file(struct way *way)
{
	struct level l = {.fd = -1};
	struct path_judged j;

	if (!is_wanted(way->walk, way->path))
		return;
	if (way->walk->memory) {
		visit(way, &l, "");
		return;
	}
	if (path_judge(way->path, strlen(way->path), way->walk->inv->protect,
		&j) == 0 &&
	    j.parent_fd != -1 && j.fd != -1 && S_ISREG(j.st.st_mode)) {
		l.fd = j.parent_fd;
		l.near.inner = true; /* nothing vouches: it is judged again */
		visit(way, &l, j.leaf);
	}
	path_judged_clear(&j);
}

static int
walk_from(struct way *way, const char *start, bool directory)
{
	int result = 0;

	if (strlcpy(way->path, start, sizeof(way->path)) >= sizeof(way->path))
		return 0;
	if (!directory)
		begin_at_file(way);
	else if (is_wanted_below(way->walk, way->path))
		result = push(way);
	while (result == 0 && way->depth > 0 && !way->enough && !is_late(way))
		result = step(way);
	while (way->depth > 0)
		level_clear(&way->level[--way->depth]);
	return result;
}

/* --- where to begin --- */

void
places_clear(struct places *p)
{
	size_t i;

	for (i = 0; i < p->n; i++)
		free(p->v[i]);
	free(p->v);
	p->v = NULL;
	p->n = 0;
}

static int
places_add(struct places *p, const char *text, size_t len, const char *behind)
{
	char **v = recallocarray(p->v, p->n, p->n + 1, sizeof(*v));
	char *copy;

	if (v == NULL)
		return -1;
	p->v = v;
	if (asprintf(&copy, "%.*s%s", (int)len, text, behind) == -1)
		return -1;
	p->v[p->n++] = copy;
	return 0;
}

/* In order, without those that lie within another. All end in "/" or none. */
static void
places_settle(struct places *p)
{
	size_t i, kept = 0;

	if (p->n == 0)
		return;
	qsort(p->v, p->n, sizeof(*p->v), compare);
	for (i = 1; i < p->n; i++) {
		if (strncmp(p->v[i], p->v[kept], strlen(p->v[kept])) == 0)
			free(p->v[i]);
		else
			p->v[++kept] = p->v[i];
	}
	p->n = kept + 1;
}

int
places_of_grants(struct places *p, const struct grant *g)
{
	const struct glob_set *files = grant_manifest(g)->files;
	const char *text;
	size_t i, j, len;

	for (i = 0; i < glob_set_count(files); i++) {
		text = glob_set_pattern(files, i);
		len = glob_set_prefix(files, i);
		/* A file is spoken of in its directory. */
		if (text[len] == '\0')
			while (len > 0 && text[--len] != '/')
				continue;
		for (j = 0; j < p->n; j++) {
			if (strlen(p->v[j]) == len &&
			    strncmp(p->v[j], text, len) == 0)
				break;
		}
		if (j == p->n && places_add(p, text, len, "") == -1)
			return -1;
	}
	return 0;
}

/* Where the grants begin, as far as it is at or below root, each with "/". */
static int
file_starts(const struct walk *w, const char *root, struct places *p)
{
	const struct glob_set *files = grant_manifest(w->inv->grant)->files;
	char prefix[GLOB_PATTERN_MAX + 1];
	int result = 0;
	size_t i;

	for (i = 0; i < glob_set_count(files) && result == 0; i++) {
		strlcpy(prefix, glob_set_pattern(files, i), sizeof(prefix));
		prefix[glob_set_prefix(files, i)] = '\0';
		if (path_is_within(prefix, root))
			result = places_add(p, prefix, strlen(prefix), "/");
		else if (path_is_within(root, prefix))
			result = places_add(p, root, strlen(root), "/");
	}
	return result;
}

static int
memory_starts(const char *root, struct places *p)
{
	const char *const *dir;
	int result = 0;

	for (dir = path_memory_roots(); *dir != NULL && result == 0; dir++) {
		if (root[0] == '\0')
			result = places_add(p, *dir, strlen(*dir), "/");
		else if (path_is_within(root, *dir))
			result = places_add(p, root, strlen(root), "/");
	}
	return result;
}

/* Is there a directory? Its name is kept only if so with its final slash. */
static bool
is_directory(const struct walk *w, const char *path)
{
	struct path_judged j;
	struct stat st;
	bool is;

	if (w->memory)
		return path_memory_open(w->inv->memory_fd, path, &st) == -1 &&
		       errno == EISDIR;
	if (path[0] == '\0')
		return true;
	is = path_judge(path, strlen(path), w->inv->protect, &j) == 0 &&
	     j.absent == 0 && S_ISDIR(j.st.st_mode);
	path_judged_clear(&j);
	return is;
}

int
walk_run(struct walk *w, const char *root)
{
	struct places starts = {NULL, 0};
	struct way *way = calloc(1, sizeof(*way));
	size_t i, len;
	bool directory;
	int result = -1;

	if (way == NULL)
		goto out;
	way->walk = w;
	if ((w->memory ? memory_starts(root, &starts)
		       : file_starts(w, root, &starts)) == -1)
		goto out;
	places_settle(&starts);
	for (i = 0; i < starts.n; i++) {
		len = strlen(starts.v[i]) - 1;
		starts.v[i][len] = '\0';
		if (is_directory(w, starts.v[i]))
			starts.v[i][len] = '/';
	}
	/* A directory sorts as what is in it does. */
	if (starts.n > 0)
		qsort(starts.v, starts.n, sizeof(*starts.v), compare);
	result = 0;
	for (i = 0; i < starts.n && result == 0 && !way->enough; i++) {
		len = strlen(starts.v[i]);
		directory = len > 0 && starts.v[i][len - 1] == '/';
		if (directory)
			starts.v[i][len - 1] = '\0';
		result = walk_from(way, starts.v[i], directory);
	}
out:
	places_clear(&starts);
	free(way);
	return result;
}
