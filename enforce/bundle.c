/*
 * The files of a skill, read once. It guarantees, against whoever changes them
 * meanwhile, that the copy holds the very bytes, types and modes that the
 * digest is of: each chunk goes from one buffer to the hash and to a memory
 * file that has no name. Against their author: nothing outside the directory
 * is read, nothing is opened but regular files and directories, and number,
 * depth and size are bounded.
 */

#define OPENSSL_SUPPRESS_DEPRECATED /* see audit/digest.c */

#include "enforce/bundle.h"

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/sha.h>

#include "enforce/hex.h"
#include "enforce/path.h"
#include "enforce/room.h"
#include "enforce/yaml.h"

#define CHUNK 65536
#define ENTRY_PATH_MAX 1024 /* bytes of a path below the directory */
#define HEX_SIZE (SHA256_DIGEST_LENGTH * 2 + 1)
#define SPARE_PAGES 16

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

struct entry {
	char *path;
	char *target; /* of a link */
	char type;    /* 'f', 'd' or 'l', as in the digest */
	mode_t mode;
	off_t at; /* of a file: where its bytes are kept */
	off_t len;
	char sha256[HEX_SIZE]; /* "-" for a directory */
};

struct bundle {
	struct entry *v;
	size_t n;
	size_t room;
	off_t bytes;
	int image_fd; /* a memory file, or -1 */
	char sha256[HEX_SIZE];
};

/* One reading. */
struct reading {
	struct bundle *b;
	char path[ENTRY_PATH_MAX]; /* of what is being looked at */
	unsigned depth;
	char *why;
	size_t whylen;
};

/* The skill's fault: a sentence, EINVAL. The path leads it, if there is one. */
__attribute__((format(printf, 2, 3))) static int
refuse(struct reading *r, const char *fmt, ...)
{
	char name[256] = "", text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	yaml_printable(name, sizeof(name), r->path, strlen(r->path));
	snprintf(r->why, r->whylen, "%s%s%s", name,
	    name[0] != '\0' ? ": " : "", text);
	errno = EINVAL;
	return -1;
}

/* The system's answer; what is not there any more was changed under us. */
static int
fail(struct reading *r)
{
	char name[256];
	int error = errno;

	if (error == ENOENT || error == ELOOP || error == ENOTDIR)
		return refuse(r, "was changed while it was read");
	yaml_printable(name, sizeof(name), r->path, strlen(r->path));
	snprintf(r->why, r->whylen, "%s: %s", name[0] != '\0' ? name : ".",
	    strerror(error));
	errno = error;
	return -1;
}

static void
finish_hash(SHA256_CTX *hash, char out[HEX_SIZE])
{
	unsigned char raw[SHA256_DIGEST_LENGTH];

	SHA256_Final(raw, hash);
	hex_encode(out, raw, sizeof(raw));
}

static struct entry *
add_entry(struct bundle *b, const char *path, char type, mode_t mode)
{
	struct entry *v;

	if (b->n == b->room) {
		v = recallocarray(b->v, b->room, b->room * 2 + 64, sizeof(*v));
		if (v == NULL)
			return NULL;
		b->v = v;
		b->room = b->room * 2 + 64;
	}
	v = &b->v[b->n];
	v->path = strdup(path);
	if (v->path == NULL)
		return NULL;
	v->type = type;
	v->mode = mode & 07777;
	v->at = b->bytes;
	strlcpy(v->sha256, "-", sizeof(v->sha256));
	b->n++;
	return v;
}

static int
keep_bytes(const struct bundle *b, const char *p, size_t n)
{
	ssize_t put;

	while (b->image_fd != -1 && n > 0) {
		put = write(b->image_fd, p, n);
		if (put == -1 && errno == EINTR)
			continue;
		if (put == -1)
			return -1;
		p += put;
		n -= (size_t)put;
	}
	return 0;
}

/* To its end, whatever size it had when we began. */
static int
take_bytes(struct reading *r, struct entry *e, int fd)
{
	struct bundle *b = r->b;
	SHA256_CTX hash;
	char chunk[CHUNK];
	ssize_t n;

	SHA256_Init(&hash);
	for (;;) {
		n = read(fd, chunk, sizeof(chunk));
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return fail(r);
		if (n == 0)
			break;
		if ((size_t)n > BUNDLE_BYTES_MAX - (size_t)b->bytes)
			return refuse(r, "the files of the skill are more than "
					 "%lu MiB in all",
			    BUNDLE_BYTES_MAX >> 20);
		b->bytes += n;
		e->len += n;
		SHA256_Update(&hash, chunk, (size_t)n);
		if (keep_bytes(b, chunk, (size_t)n) == -1)
			return fail(r);
	}
	finish_hash(&hash, e->sha256);
	return 0;
}

static int
take_file(struct reading *r, int path_fd)
{
	struct entry *e;
	struct stat st;
	int fd, result = -1;

	fd = path_reopen(path_fd, O_RDONLY);
	if (fd == -1 || fstat(fd, &st) == -1)
		goto fail;
	e = add_entry(r->b, r->path, 'f', st.st_mode);
	if (e == NULL)
		goto fail;
	result = take_bytes(r, e, fd);
	close(fd);
	return result;
fail:
	result = fail(r);
	if (fd != -1)
		close(fd);
	return result;
}

static int
take_link(struct reading *r, int path_fd, const struct stat *st)
{
	char target[PATH_MAX];
	struct entry *e;
	SHA256_CTX hash;
	ssize_t n;

	n = readlinkat(path_fd, "", target, sizeof(target) - 1);
	if (n == -1)
		return fail(r);
	target[n] = '\0';
	e = add_entry(r->b, r->path, 'l', st->st_mode);
	if (e == NULL || (e->target = strdup(target)) == NULL)
		return fail(r);
	SHA256_Init(&hash);
	SHA256_Update(&hash, target, (size_t)n);
	finish_hash(&hash, e->sha256);
	return 0;
}

static int take_directory(struct reading *, int path_fd);

/* What r->path names, in this directory. */
static int
take_entry(struct reading *r, int dir_fd, const char *name)
{
	struct stat st;
	int fd, result = -1;

	fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1)
		return fail(r);
	if (fstat(fd, &st) == -1) {
		result = fail(r);
	} else if (S_ISREG(st.st_mode)) {
		result = take_file(r, fd);
	} else if (S_ISLNK(st.st_mode)) {
		result = take_link(r, fd, &st);
	} else if (!S_ISDIR(st.st_mode)) {
		result = refuse(r, "is a %s; a skill is made of files, "
				   "directories and links",
		    S_ISFIFO(st.st_mode)     ? "FIFO"
			: S_ISSOCK(st.st_mode) ? "socket"
					       : "device");
	} else if (add_entry(r->b, r->path, 'd', st.st_mode) == NULL) {
		result = fail(r);
	} else {
		result = take_directory(r, fd);
	}
	close(fd);
	return result;
}

/* A line of the digest must be one line of text, the same for every reader. */
static bool
is_plain(const char *name)
{
	size_t len = strlen(name), n;
	uint32_t point;

	for (; len > 0; name += n, len -= n) {
		n = yaml_decode(name, len, &point);
		if (n == 0 || point < 0x20 || (point >= 0x7f && point < 0xa0))
			return false;
	}
	return true;
}

static bool
is_left_out(const struct reading *r, const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	       (r->depth == 1 && (strcmp(name, "SKILL.md") == 0 ||
				     strcmp(name, ".tenant") == 0));
}

static int
take_name(struct reading *r, int dir_fd, const char *name)
{
	size_t len = strlen(r->path);
	int n, result;

	if (is_left_out(r, name))
		return 0;
	n = snprintf(r->path + len, sizeof(r->path) - len, "%s%s",
	    len > 0 ? "/" : "", name);
	if (n < 0 || (size_t)n >= sizeof(r->path) - len)
		result = refuse(r, "the path is longer than %d bytes",
		    ENTRY_PATH_MAX - 1);
	else if (!is_plain(name))
		result = refuse(r, "the name holds control characters or is "
				   "not UTF-8; rename it");
	else if (r->b->n == BUNDLE_ENTRIES_MAX)
		result = refuse(r, "the skill has more than %d files",
		    BUNDLE_ENTRIES_MAX);
	else
		result = take_entry(r, dir_fd, name);
	r->path[len] = '\0';
	return result;
}

static int
take_directory(struct reading *r, int path_fd)
{
	struct dirent *e;
	DIR *dir = NULL;
	int fd, result = -1;

	if (r->depth == BUNDLE_DEPTH_MAX)
		return refuse(r, "directories lie more than %d deep",
		    BUNDLE_DEPTH_MAX);
	fd = path_reopen(path_fd, O_RDONLY | O_DIRECTORY);
	if (fd == -1 || (dir = fdopendir(fd)) == NULL) {
		result = fail(r);
		if (fd != -1)
			close(fd);
		return result;
	}
	r->depth++;
	do {
		errno = 0;
		e = readdir(dir);
		if (e == NULL && errno == 0)
			result = 0;
		else if (e == NULL)
			result = fail(r);
	} while (e != NULL && take_name(r, fd, e->d_name) == 0);
	r->depth--;
	closedir(dir);
	return result;
}

static int
compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return strcmp(x->path, y->path);
}

/* Sorted, so that a directory also stands before what lies in it. */
static void
make_digest(struct bundle *b)
{
	SHA256_CTX hash;
	char line[HEX_SIZE + 32];
	size_t i;

	if (b->n > 0)
		qsort(b->v, b->n, sizeof(*b->v), compare);
	SHA256_Init(&hash);
	for (i = 0; i < b->n; i++) {
		snprintf(line, sizeof(line), "%c %o %s ", b->v[i].type,
		    (unsigned)b->v[i].mode, b->v[i].sha256);
		SHA256_Update(&hash, line, strlen(line));
		SHA256_Update(&hash, b->v[i].path, strlen(b->v[i].path));
		SHA256_Update(&hash, "\n", 1);
	}
	finish_hash(&hash, b->sha256);
}

/* A memory file that nobody can execute, where the kernel knows of that. */
static int
make_image(void)
{
	int fd;

	fd = memfd_create("cyberos-skill",
	    MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	if (fd == -1 && errno == EINVAL)
		fd = memfd_create("cyberos-skill", MFD_CLOEXEC);
	return fd;
}

struct bundle *
bundle_read(int dir_fd, bool keep, char *why, size_t whylen)
{
	struct reading *r = calloc(1, sizeof(*r));
	struct bundle *b = calloc(1, sizeof(*b));
	int result = -1, saved;

	if (b != NULL)
		b->image_fd = -1;
	if (r == NULL || b == NULL) {
		snprintf(why, whylen, "%s", strerror(errno));
		goto out;
	}
	r->b = b;
	r->why = why;
	r->whylen = whylen;
	if (keep && (b->image_fd = make_image()) == -1)
		result = fail(r);
	else
		result = take_directory(r, dir_fd);
	if (result == 0)
		make_digest(b);
out:
	saved = errno;
	free(r);
	if (result == -1) {
		bundle_free(b);
		b = NULL;
	}
	errno = saved;
	return b;
}

void
bundle_free(struct bundle *b)
{
	size_t i;

	if (b == NULL)
		return;
	for (i = 0; i < b->n; i++) {
		free(b->v[i].path);
		free(b->v[i].target);
	}
	free(b->v);
	if (b->image_fd != -1)
		close(b->image_fd);
	free(b);
}

const char *
bundle_sha256(const struct bundle *b)
{
	return b->sha256;
}

bool
bundle_has_main(const struct bundle *b)
{
	size_t i;

	for (i = 0; i < b->n; i++) {
		if (strcmp(b->v[i].path, "main") == 0)
			return b->v[i].type == 'f' &&
			       (b->v[i].mode & S_IXUSR) != 0;
	}
	return false;
}

int
bundle_add(struct bundle *b, const char *name, mode_t mode, const void *bytes,
    size_t len)
{
	struct entry *e = add_entry(b, name, 'f', mode);

	if (e == NULL || keep_bytes(b, bytes, len) == -1)
		return -1;
	e->len = (off_t)len;
	b->bytes += e->len;
	return 0;
}

/* A short target lies in the inode, a long one takes a page. */
size_t
bundle_room(const struct bundle *b)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = SPARE_PAGES, i;

	for (i = 0; i < b->n; i++) {
		if (b->v[i].type == 'l')
			pages++;
		pages += ((size_t)b->v[i].len + page - 1) / page;
	}
	return pages * page;
}

void
bundle_tmpfs_options(const struct bundle *b, char *out, size_t size)
{
	snprintf(out, size, "mode=755,size=%zu,nr_inodes=%zu", bundle_room(b),
	    b->n + SPARE_PAGES);
}

static int
unpack_file(const struct bundle *b, const struct entry *e, int dir_fd)
{
	off_t at = e->at, left = e->len;
	ssize_t n;
	int fd, result = -1, saved;

	fd = openat(dir_fd, e->path,
	    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd == -1)
		return -1;
	while (left > 0) {
		n = sendfile(fd, b->image_fd, &at, (size_t)left);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == 0)
			errno = EIO;
		if (n <= 0)
			goto out;
		left -= n;
	}
	result = fchmod(fd, e->mode & 01777);
out:
	saved = errno;
	close(fd);
	errno = saved;
	return result;
}

static int
unpack_entry(const struct bundle *b, const struct entry *e, int dir_fd)
{
	if (e->type == 'd')
		return mkdirat(dir_fd, e->path, 0700);
	if (e->type == 'l')
		return symlinkat(e->target, dir_fd, e->path);
	return unpack_file(b, e, dir_fd);
}

struct bundle *
bundle_copy(const struct bundle *b, struct room *room)
{
	struct bundle *copy = room_take(room, sizeof(*copy));
	struct entry *e;
	size_t i;

	if (copy == NULL)
		return NULL;
	*copy = *b;
	copy->room = b->n;
	copy->v = room_take(room, b->n * sizeof(*b->v));
	if (copy->v == NULL)
		return NULL;
	memcpy(copy->v, b->v, b->n * sizeof(*b->v));
	for (i = 0; i < b->n; i++) {
		e = &copy->v[i];
		if (!room_text(room, (const char **)(uintptr_t)&e->path) ||
		    !room_text(room, (const char **)(uintptr_t)&e->target))
			return NULL;
	}
	return copy;
}

int
bundle_image(const struct bundle *b)
{
	return b->image_fd;
}

void
bundle_take_image(struct bundle *b, int fd)
{
	b->image_fd = fd;
}

int
bundle_unpack(const struct bundle *b, const char *dir)
{
	size_t i;
	int dir_fd, result = 0, saved;

	dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd == -1)
		return -1;
	for (i = 0; i < b->n && result == 0; i++)
		result = unpack_entry(b, &b->v[i], dir_fd);
	/* From the inmost outwards: one may forbid us to look into it. */
	for (i = b->n; i > 0 && result == 0; i--) {
		if (b->v[i - 1].type == 'd')
			result = fchmodat(dir_fd, b->v[i - 1].path,
			    b->v[i - 1].mode & 01777, 0);
	}
	saved = errno;
	close(dir_fd);
	errno = saved;
	return result;
}
