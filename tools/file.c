/*
 * Read, Write, Edit on what the check has opened. A file is replaced by a
 * finished and synced inode or not at all: nobody ever sees half of it, and
 * the rename happens by a name inside the directory that was judged.
 */

#include "tools/file.h"

#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <linux/limits.h>
#include <sys/xattr.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/digest.h"
#include "audit/json.h"

#define ACL "system.posix_acl_access"

bool
file_write_shape(struct call *c)
{
	const char *body = call_text(c, "body");
	const char *encoding = call_text(c, "encoding");
	char *data;
	size_t len;

	if (encoding == NULL || strcmp(encoding, "base64") != 0)
		return true;
	if (base64_decode(body, strlen(body), &data, &len) == -1) {
		strlcpy(
		    c->check.bad, "body: is not base64", sizeof(c->check.bad));
		return false;
	}
	freezero(data, len);
	return true;
}

/* File systems whose server may answer late or never. */
static bool
is_remote(int fd)
{
	static const long magics[] = {FUSE_SUPER_MAGIC, NFS_SUPER_MAGIC,
	    SMB_SUPER_MAGIC, SMB2_SUPER_MAGIC, CIFS_SUPER_MAGIC, V9FS_MAGIC,
	    CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC, CODA_SUPER_MAGIC};
	struct statfs fs;
	size_t i;

	if (fstatfs(fd, &fs) == -1)
		return true;
	for (i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
		if ((long)fs.f_type == magics[i])
			return true;
	}
	return false;
}

enum place
file_read_place(const struct call *c)
{
	if (c->check.on.st.st_size > CALL_IN_PLACE_MAX ||
	    is_remote(c->check.on.fd))
		return PLACE_FILE_WORKER;
	return PLACE_LOOP;
}

enum place
file_write_place(const struct call *c)
{
	(void)c;
	return PLACE_FILE_WORKER;
}

int
file_slurp(int fd, off_t max, char **out, size_t *outlen)
{
	struct stat st;
	char *data = NULL, *grown;
	size_t len = 0, size;
	ssize_t n;

	if (fstat(fd, &st) == -1)
		return -1;
	if (st.st_size > max) {
		errno = EFBIG;
		return -1;
	}
	size = (size_t)st.st_size + 1; /* one more sees that it ends there */
	data = malloc(size);
	if (data == NULL)
		return -1;
	for (;;) {
		n = pread(fd, data + len, size - len, (off_t)len);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			goto fail;
		if (n == 0)
			break;
		len += (size_t)n;
		if ((off_t)len > max) {
			errno = EFBIG;
			goto fail;
		}
		if (len == size) { /* it grew while we read */
			grown = recallocarray(data, size, size * 2, 1);
			if (grown == NULL)
				goto fail;
			data = grown;
			size *= 2;
		}
	}
	data[len] = '\0';
	*out = data;
	*outlen = len;
	return 0;
fail:
	freezero(data, size);
	return -1;
}

/*
 * A slice of a text that ends inside a character is shortened by it, so that
 * it stays text.
 */
static size_t
whole_characters(const char *p, size_t n, bool more)
{
	size_t cut;

	for (cut = 0; more && cut < 4 && cut < n; cut++) {
		if (json_is_utf8(p, n - cut))
			return n - cut;
	}
	return n;
}

/* What of a file was brought into memory: all of it, or a part from offset. */
struct slice {
	char *data;
	size_t len;
	int64_t from; /* offset of data in the file */
	int64_t size; /* of the file */
};

/* A part of a file that is too large to be held; it may grow as it likes. */
static int
slice_part(int fd, int64_t offset, int64_t want, struct slice *s)
{
	ssize_t n;

	s->from = offset;
	s->data = malloc((size_t)want);
	if (s->data == NULL)
		return -1;
	while ((int64_t)s->len < want) {
		n = pread(fd, s->data + s->len, (size_t)want - s->len,
		    (off_t)(offset + (int64_t)s->len));
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1) {
			freezero(s->data, (size_t)want);
			s->data = NULL;
			return -1;
		}
		if (n == 0)
			break;
		s->len += (size_t)n;
	}
	return 0;
}

static int
slice_load(int fd, int64_t offset, int64_t want, struct slice *s)
{
	struct stat st;

	memset(s, 0, sizeof(*s));
	if (file_slurp(fd, CALL_FILE_MAX, &s->data, &s->len) == 0) {
		s->size = (int64_t)s->len;
		return 0;
	}
	if (errno != EFBIG || fstat(fd, &st) == -1)
		return -1;
	/* What was too large a moment ago may have shrunk since. */
	s->size = st.st_size > CALL_FILE_MAX ? st.st_size : CALL_FILE_MAX + 1;
	return slice_part(fd, offset, want, s);
}

void
file_answer(struct call *c, struct invocation *inv, int fd, bool memory)
{
	int64_t offset = call_int(c, "offset", 0);
	int64_t want = call_int(c, "limit", CALL_FILE_MAX);
	char hash[DIGEST_TEXT];
	size_t skip, n;
	struct slice s;

	if (want > CALL_FILE_MAX)
		want = CALL_FILE_MAX;
	if (slice_load(fd, offset, want, &s) == -1) {
		call_fail_errno(c, errno);
		return;
	}
	skip = (size_t)(offset - s.from);
	if (skip > s.len)
		skip = s.len;
	n = s.len - skip > (size_t)want ? (size_t)want : s.len - skip;
	n = whole_characters(s.data + skip, n, offset + (int64_t)n < s.size);
	result_begin(c);
	n = result_body(c, s.data + skip, n, 256);
	if (s.size <= CALL_FILE_MAX) {
		digest_text(inv->digest, s.data, s.len, hash);
		result_text(c, "content_hash", hash);
	} else {
		result_text(c, "content_hash", NULL);
	}
	if (!memory)
		result_int(c, "size", s.size);
	if (!memory || offset + (int64_t)n < s.size)
		result_bool(c, "truncated", offset + (int64_t)n < s.size);
	result_end(c);
	freezero(s.data, s.len);
}

void
file_read(struct call *c, struct invocation *inv)
{
	int fd = path_reopen(c->check.on.fd, O_RDONLY);

	if (fd == -1) {
		call_fail_errno(c, errno);
		return;
	}
	file_answer(c, inv, fd, false);
	close(fd);
}

/* --- putting a file --- */

static int
write_all(int fd, const char *p, size_t n)
{
	ssize_t w;

	while (n > 0) {
		w = write(fd, p, n);
		if (w == -1 && errno == EINTR)
			continue;
		if (w == -1)
			return -1;
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

static int
copy_attribute(const char *from, int to_fd, const char *name)
{
	char value[XATTR_SIZE_MAX];
	ssize_t n;

	n = getxattr(from, name, value, sizeof(value));
	if (n == -1)
		return errno == ENODATA ? 0 : -1;
	return fsetxattr(to_fd, name, value, (size_t)n, 0);
}

static int
copy_user_attributes(const char *from, int to_fd)
{
	char list[XATTR_LIST_MAX];
	const char *name;
	ssize_t n;

	n = listxattr(from, list, sizeof(list));
	if (n == -1)
		return errno == ENOTSUP ? 0 : -1;
	for (name = list; name < list + n; name += strlen(name) + 1) {
		if (strncmp(name, "user.", 5) == 0 &&
		    copy_attribute(from, to_fd, name) == -1)
			return -1;
	}
	return 0;
}

/*
 * The ACL last, since it and the mode are two views of one thing; and one that
 * the directory gave the new inode goes, for the old file may have none.
 * Without its ACL a file would be open to its whole group: that is an error.
 */
static int
copy_mode(const char *from, int to_fd, mode_t mode)
{
	if (fremovexattr(to_fd, ACL) == -1 && errno != ENODATA &&
	    errno != ENOTSUP)
		return -1;
	if (fchmod(to_fd, mode & 0777) == -1)
		return -1;
	return copy_attribute(from, to_fd, ACL) == 0 || errno == ENOTSUP ? 0
									 : -1;
}

/*
 * rwx bits, owner where we may, ACL and user attributes of the file that is
 * replaced; never set-id bits or security attributes.
 */
static int
make_alike(int fd, int like_fd)
{
	char proc[64];
	struct stat st;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", like_fd);
	if (fstat(like_fd, &st) == -1 || copy_user_attributes(proc, fd) == -1)
		return -1;
	if (fchown(fd, st.st_uid, st.st_gid) == -1 &&
	    fchown(fd, (uid_t)-1, st.st_gid) == -1 && errno != EPERM &&
	    errno != EINVAL) /* an owner without a number in our namespace */
		return -1;
	return copy_mode(proc, fd, st.st_mode);
}

/*
 * An inode without a name where the file system has that, so that a crash
 * leaves nothing; else a named one. What is going to replace a file may be
 * secret, so nobody else reads it before it has that file's mode.
 */
static int
new_inode(const struct file_put *p, bool *named)
{
	mode_t mode = p->like_fd == -1 ? p->mode : 0600;
	int fd;

	*named = false;
	fd = openat(p->dir_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
	if (fd != -1 ||
	    (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
		return fd;
	fd = openat(p->dir_fd, p->temp,
	    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	*named = fd != -1;
	return fd;
}

/* Is what was judged still what its name leads to? If not, ESTALE. */
static bool
is_current(int dir_fd, const char *leaf, int fd)
{
	struct stat judged, now;

	if (fstat(fd, &judged) == -1)
		return false;
	if (fstatat(dir_fd, leaf, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
	    now.st_dev == judged.st_dev && now.st_ino == judged.st_ino)
		return true;
	errno = ESTALE;
	return false;
}

/* Give the finished inode its name. */
static int
place_inode(const struct file_put *p, int fd, bool *named)
{
	char proc[64];

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	if (!p->replace && *named)
		return renameat2(
		    p->dir_fd, p->temp, p->dir_fd, p->leaf, RENAME_NOREPLACE);
	if (!p->replace)
		return linkat(
		    AT_FDCWD, proc, p->dir_fd, p->leaf, AT_SYMLINK_FOLLOW);
	if (!*named &&
	    linkat(AT_FDCWD, proc, p->dir_fd, p->temp, AT_SYMLINK_FOLLOW) == -1)
		return -1;
	*named = true;
	if (p->like_fd != -1 && !is_current(p->dir_fd, p->leaf, p->like_fd))
		return -1;
	return renameat(p->dir_fd, p->temp, p->dir_fd, p->leaf);
}

static int
sync_directory(int dir_fd)
{
	int fd, result;

	fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd == -1) /* writable but not readable: nothing to sync by */
		return errno == EACCES ? 0 : -1;
	result = fsync(fd);
	close(fd);
	return result;
}

int
file_put(const struct file_put *p)
{
	bool named;
	int fd, saved, result = -1;

	fd = new_inode(p, &named);
	if (fd == -1)
		return -1;
	if (write_all(fd, p->data, p->len) == 0 &&
	    (p->like_fd == -1 || make_alike(fd, p->like_fd) == 0) &&
	    fsync(fd) == 0 && place_inode(p, fd, &named) == 0) {
		result = sync_directory(p->dir_fd);
	} else if (named) {
		saved = errno;
		unlinkat(p->dir_fd, p->temp, 0);
		errno = saved;
	}
	saved = errno;
	close(fd);
	errno = saved;
	return result;
}

bool
file_no_space(const struct invocation *inv, int dir_fd, size_t n)
{
	uint64_t share = (uint64_t)inv->policy->max_write_mb << 20;
	uint64_t keep = (uint64_t)inv->policy->min_free_mb << 20;
	struct statvfs fs;

	if (n > share || inv->written > share - n)
		return true;
	if (fstatvfs(dir_fd, &fs) == -1)
		return true;
	return (uint64_t)fs.f_bavail * fs.f_frsize < keep + n;
}

/* May the broker write the file that is there? Renaming would not ask. */
static bool
may_write(int fd)
{
	char proc[64];

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return faccessat(AT_FDCWD, proc, W_OK, AT_EACCESS) == 0;
}

static void
write_answer(struct call *c, struct invocation *inv, const char *data,
    size_t len, size_t bytes)
{
	char hash[DIGEST_TEXT];

	digest_text(inv->digest, data, len, hash);
	c->run.written = bytes;
	result_begin(c);
	result_int(c, "bytes", (int64_t)bytes);
	result_text(c, "content_hash", hash);
	result_end(c);
}

/*
 * What of an append did not get whole onto the disk is taken back, unless
 * somebody else has appended behind it.
 */
static void
take_back(struct call *c, int fd, off_t was, off_t wanted)
{
	struct stat st;

	if (fstat(fd, &st) == -1 || st.st_size <= was ||
	    st.st_size > was + wanted)
		return;
	if (ftruncate(fd, was) == -1)
		c->run.error = errno;
}

static void
append_answer(struct call *c, struct invocation *inv, int fd, size_t bytes)
{
	char hash[DIGEST_TEXT], *all;
	size_t all_len;

	c->run.written = bytes;
	result_begin(c);
	result_int(c, "bytes", (int64_t)bytes);
	if (file_slurp(fd, CALL_FILE_MAX, &all, &all_len) == 0) {
		digest_text(inv->digest, all, all_len, hash);
		result_text(c, "content_hash", hash);
		freezero(all, all_len);
	} else {
		result_text(c, "content_hash", NULL);
	}
	result_end(c);
}

/* Append in place, to the very file that was judged. */
static void
append(struct call *c, struct invocation *inv, const char *data, size_t len)
{
	const struct resource *on = &c->check.on;
	struct stat st;
	int fd;

	fd = path_reopen(on->fd, O_RDWR | O_APPEND);
	if (fd == -1 || !is_current(on->parent_fd, on->leaf, fd) ||
	    fstat(fd, &st) == -1) {
		call_fail_errno(c, errno);
	} else if (st.st_nlink > 1) { /* a link was made since the check */
		call_fail(c, FAIL_PERMISSION);
	} else if (write_all(fd, data, len) == -1 || fsync(fd) == -1) {
		call_fail_errno(c, errno);
		take_back(c, fd, st.st_size, (off_t)len);
	} else {
		append_answer(c, inv, fd, len);
	}
	if (fd != -1)
		close(fd);
}

static void
put_bytes(struct call *c, struct invocation *inv, const char *mode,
    const char *data, size_t len)
{
	const struct resource *on = &c->check.on;
	bool create = strcmp(mode, "create") == 0;
	struct file_put put = {.dir_fd = on->parent_fd,
	    .leaf = on->leaf,
	    .temp = c->run.temp,
	    .data = data,
	    .len = len,
	    .mode = 0666,
	    .like_fd = on->fd,
	    .replace = on->fd != -1};

	if (on->fd != -1 && create) {
		call_fail(c, FAIL_EXISTS);
	} else if (file_no_space(inv, on->parent_fd, len)) {
		call_fail(c, FAIL_NO_SPACE);
	} else if (on->fd != -1 && !may_write(on->fd)) {
		call_fail(c, FAIL_PERMISSION);
	} else if (on->fd != -1 && strcmp(mode, "append") == 0) {
		append(c, inv, data, len);
	} else if (file_put(&put) == -1) {
		/* It was not there when it was judged, and now it is. */
		call_fail_errno(c, errno == EEXIST && !create ? ESTALE : errno);
	} else {
		write_answer(c, inv, data, len, len);
	}
}

void
file_write(struct call *c, struct invocation *inv)
{
	const char *body = call_text(c, "body");
	const char *encoding = call_text(c, "encoding");
	const char *mode = call_text(c, "mode");
	char *decoded = NULL;
	size_t len = strlen(body);

	if (encoding != NULL && strcmp(encoding, "base64") == 0) {
		if (base64_decode(body, len, &decoded, &len) == -1) {
			call_fail_errno(c, errno);
			return;
		}
		body = decoded;
	}
	put_bytes(c, inv, mode == NULL ? "overwrite" : mode, body, len);
	freezero(decoded, len);
}

/* How often a text occurs; overlapping occurrences count, two are enough. */
static size_t
occurrences(const char *p, size_t n, const char *old, size_t old_len)
{
	const char *at = memmem(p, n, old, old_len);

	if (at == NULL)
		return 0;
	at++;
	return memmem(at, n - (size_t)(at - p), old, old_len) == NULL ? 1 : 2;
}

/* Replace from left to right; how many, or 0 with errno when it cannot be. */
static size_t
replace(const struct slice *s, const char *old, const char *new, bool all,
    struct buf *out)
{
	size_t old_len = strlen(old), count = 0;
	const char *p = s->data, *end = s->data + s->len, *at;

	while ((count == 0 || all) &&
	       (at = memmem(p, (size_t)(end - p), old, old_len)) != NULL) {
		buf_put(out, p, (size_t)(at - p));
		buf_puts(out, new);
		p = at + old_len;
		count++;
	}
	buf_put(out, p, (size_t)(end - p));
	return out->failed ? 0 : count;
}

static void
edit_bytes(struct call *c, struct invocation *inv, const struct slice *s)
{
	const struct resource *on = &c->check.on;
	const char *old = call_text(c, "old");
	bool all = call_flag(c, "all");
	struct file_put put = {.dir_fd = on->parent_fd,
	    .leaf = on->leaf,
	    .temp = c->run.temp,
	    .mode = 0666,
	    .like_fd = on->fd,
	    .replace = true};
	char hash[DIGEST_TEXT];
	struct buf out;
	size_t found, count;

	buf_init(&out, (size_t)CALL_FILE_MAX);
	found = occurrences(s->data, s->len, old, strlen(old));
	if (found == 0) {
		call_fail(c, FAIL_NOT_FOUND);
	} else if (found > 1 && !all) {
		call_fail(c, FAIL_NOT_UNIQUE);
	} else if ((count = replace(s, old, call_text(c, "new"), all, &out)) ==
		   0) {
		call_fail(c, FAIL_TOO_LARGE);
	} else if (file_no_space(inv, on->parent_fd, out.len)) {
		call_fail(c, FAIL_NO_SPACE);
	} else {
		put.data = out.data;
		put.len = out.len;
		if (file_put(&put) == -1) {
			call_fail_errno(c, errno);
		} else {
			c->run.written = out.len;
			digest_text(inv->digest, out.data, out.len, hash);
			result_begin(c);
			result_int(c, "replacements", (int64_t)count);
			result_text(c, "content_hash", hash);
			result_end(c);
		}
	}
	buf_clear(&out);
}

void
file_edit(struct call *c, struct invocation *inv)
{
	struct slice s = {NULL, 0, 0, 0};
	int fd;

	if (c->check.on.fd == -1) {
		call_fail(c, FAIL_NOT_FOUND);
		return;
	}
	fd = path_reopen(c->check.on.fd, O_RDONLY);
	if (fd == -1) {
		call_fail_errno(c, errno);
		return;
	}
	if (!is_current(c->check.on.parent_fd, c->check.on.leaf, fd))
		call_fail_errno(c, errno);
	else if (!may_write(c->check.on.fd))
		call_fail(c, FAIL_PERMISSION);
	else if (file_slurp(fd, CALL_FILE_MAX, &s.data, &s.len) == -1)
		call_fail_errno(c, errno);
	else
		edit_bytes(c, inv, &s);
	freezero(s.data, s.len);
	close(fd);
}
