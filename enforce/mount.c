/*
 * Where a mount's root lies in its file system. It guarantees, against a place
 * that is protected as such and mounted in part somewhere else, that the other
 * name can be found: by what the kernel lists, the same for every reader of
 * /proc/self/mountinfo. Only names are found here; whoever uses one compares
 * the object, since mounts cover each other and may change.
 */

#include "enforce/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "enforce/path.h"

struct mount {
	uint64_t id;
	unsigned major;
	unsigned minor;
	char *root;  /* in the file system; "" when it is all of it */
	char *point; /* where it is mounted; "" for the root directory */
};

struct mounts {
	struct mount *v;
	size_t n;
	size_t room;
};

/* The kernel writes blank, tab, line feed and backslash in octal. */
static void
unescape(char *s)
{
	char *in = s, *out = s, digits[4] = "";

	while (*in != '\0') {
		if (in[0] == '\\' && strspn(in + 1, "01234567") >= 3) {
			memcpy(digits, in + 1, 3);
			*out++ = (char)strtoul(digits, NULL, 8);
			in += 4;
		} else
			*out++ = *in++;
	}
	*out = '\0';
	if (out == s + 1 && s[0] == '/')
		s[0] = '\0';
}

/* Next field of a line of fields with one blank between them, or NULL. */
static char *
field(char **line)
{
	char *f = strsep(line, " \n");

	return f == NULL || *f == '\0' ? NULL : f;
}

/* 36 35 98:0 /root /point options... */
static int
take_line(struct mounts *m, char *line)
{
	struct mount *v, got;
	char *id, *dev, *root, *point;

	id = field(&line);
	if (field(&line) == NULL || (dev = field(&line)) == NULL ||
	    (root = field(&line)) == NULL || (point = field(&line)) == NULL ||
	    sscanf(dev, "%u:%u", &got.major, &got.minor) != 2)
		return 0;
	got.id = strtoull(id, NULL, 10);
	unescape(root);
	unescape(point);
	if (m->n == m->room) {
		v = reallocarray(m->v, m->room * 2 + 32, sizeof(*v));
		if (v == NULL)
			return -1;
		m->v = v;
		m->room = m->room * 2 + 32;
	}
	got.root = strdup(root);
	got.point = strdup(point);
	m->v[m->n++] = got;
	return got.root == NULL || got.point == NULL ? -1 : 0;
}

struct mounts *
mounts_new(void)
{
	struct mounts *m = calloc(1, sizeof(*m));
	char *line = NULL;
	size_t size = 0;
	FILE *f;
	int error = 0;

	f = fopen("/proc/self/mountinfo", "re");
	if (m == NULL || f == NULL)
		error = -1;
	while (error == 0 && getline(&line, &size, f) > 0)
		error = take_line(m, line);
	if (error == 0 && ferror(f) != 0)
		error = -1;
	free(line);
	if (f != NULL)
		fclose(f);
	if (error == 0)
		return m;
	mounts_free(m);
	return NULL;
}

void
mounts_free(struct mounts *m)
{
	int saved = errno;
	size_t i;

	if (m == NULL)
		return;
	for (i = 0; i < m->n; i++) {
		free(m->v[i].root);
		free(m->v[i].point);
	}
	free(m->v);
	free(m);
	errno = saved;
}

/* Does it show the root of the other, from further above? */
static bool
shows(const struct mount *m, const struct mount *other)
{
	size_t len = strlen(m->root);

	return m->major == other->major && m->minor == other->minor &&
	       strncmp(m->root, other->root, len) == 0 &&
	       other->root[len] == '/';
}

bool
mounts_origin(
    const struct mounts *m, uint64_t id, size_t nth, char path[PATH_MAX])
{
	const struct mount *of = NULL;
	size_t i;
	int n;

	for (i = 0; i < m->n && of == NULL; i++) {
		if (m->v[i].id == id)
			of = &m->v[i];
	}
	if (of == NULL || of->root[0] == '\0')
		return false;
	for (i = 0; i < m->n; i++) {
		if (!shows(&m->v[i], of) || nth-- > 0)
			continue;
		n = snprintf(path, PATH_MAX, "%s%s", m->v[i].point,
		    of->root + strlen(m->v[i].root));
		return n > 0 && n < PATH_MAX;
	}
	return false;
}

bool
mounts_name(const struct mounts *m, const char *path, size_t nth,
    char name[PATH_MAX])
{
	const struct mount *in = NULL, *v;
	char inside[PATH_MAX]; /* the path in its file system */
	size_t i;
	int n;

	for (i = 0; i < m->n; i++) {
		if (path_is_within(path, m->v[i].point) &&
		    (in == NULL || strlen(m->v[i].point) >= strlen(in->point)))
			in = &m->v[i];
	}
	if (in == NULL)
		return false;
	n = snprintf(inside, sizeof(inside), "%s%s", in->root,
	    path + strlen(in->point));
	if (n < 0 || n >= (int)sizeof(inside))
		return false;
	for (i = 0; i < m->n; i++) {
		v = &m->v[i];
		if (v->major != in->major || v->minor != in->minor ||
		    !path_is_within(inside, v->root) || nth-- > 0)
			continue;
		n = snprintf(name, PATH_MAX, "%s%s", v->point,
		    inside + strlen(v->root));
		return n > 0 && n < PATH_MAX;
	}
	return false;
}

const char *
mounts_point(const struct mounts *m, size_t i, uint64_t *id)
{
	if (i >= m->n)
		return NULL;
	*id = m->v[i].id;
	return m->v[i].point;
}

int
mounts_stat(int dir_fd, const char *name, struct stat *st, uint64_t *id)
{
	struct statx x;

	if (statx(dir_fd, name,
		AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW |
		    (name[0] == '\0' ? AT_EMPTY_PATH : 0),
		STATX_TYPE | STATX_MODE | STATX_INO | STATX_MNT_ID, &x) == -1)
		return -1;
	memset(st, 0, sizeof(*st));
	st->st_dev = makedev(x.stx_dev_major, x.stx_dev_minor);
	st->st_ino = x.stx_ino;
	st->st_mode = x.stx_mode;
	*id = (x.stx_mask & STATX_MNT_ID) != 0 ? x.stx_mnt_id : 0;
	return 0;
}
