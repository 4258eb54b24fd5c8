/*
 * tools/file: a file is put whole or not at all, on file systems with and
 * without nameless inodes, and nothing is left beside it.
 */

#include "tools/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "t/unit/tap.h"

static char dir[] = "/tmp/file.XXXXXX";
static int dir_fd;
static bool no_tmpfile;	 /* as on vfat or NFS */
static mode_t seen_mode; /* of a file in the making, named */

/* In front of the library's: a file system that has no nameless inodes. */
int openat(int at, const char *path, int flags, ...);
int
openat(int at, const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	va_start(ap, flags);
	if ((flags & (O_CREAT | __O_TMPFILE)) != 0)
		mode = va_arg(ap, mode_t);
	va_end(ap);
	if (no_tmpfile && (flags & O_TMPFILE) == O_TMPFILE) {
		errno = EOPNOTSUPP;
		return -1;
	}
	if ((flags & O_CREAT) != 0)
		seen_mode = mode;
	return (int)syscall(SYS_openat, at, path, flags, mode);
}

static void
set(const char *name, const char *text, mode_t mode)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd == -1 || write(fd, text, strlen(text)) == -1 ||
	    fchmod(fd, mode) == -1) {
		printf("Bail out! %s\n", strerror(errno));
		exit(1);
	}
	close(fd);
}

static bool
has(const char *name, const char *text)
{
	char *data;
	size_t len;
	bool same = false;
	int fd = openat(dir_fd, name, O_RDONLY);

	if (fd != -1 && file_slurp(fd, 100000, &data, &len) == 0) {
		same = len == strlen(text) && memcmp(data, text, len) == 0;
		free(data);
	}
	if (fd != -1)
		close(fd);
	return same;
}

static int
entries(void)
{
	DIR *d = opendir(dir);
	int n = -2;

	while (d != NULL && readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static mode_t
mode_of(const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, 0) == -1 ? 0 : st.st_mode & 07777;
}

static int
put(const char *leaf, const char *text, const char *like, bool replace)
{
	struct file_put p = {.dir_fd = dir_fd,
	    .leaf = leaf,
	    .temp = ".unit.tmp",
	    .data = text,
	    .len = strlen(text),
	    .mode = 0640,
	    .like_fd = -1,
	    .replace = replace};
	int result, saved;

	if (like != NULL)
		p.like_fd = openat(dir_fd, like, O_PATH);
	result = file_put(&p);
	saved = errno;
	if (p.like_fd != -1)
		close(p.like_fd);
	errno = saved;
	return result;
}

static void
test_put(const char *how)
{
	int before = entries();

	ok(put("new", "one", NULL, false) == 0 && has("new", "one") &&
		mode_of("new") == 0640,
	    "%s: a new file", how);
	ok(put("new", "two", NULL, false) == -1 && errno == EEXIST &&
		has("new", "one"),
	    "%s: which is not replaced", how);
	ok(put("new", "three", NULL, true) == 0 && has("new", "three"),
	    "%s: unless it may be", how);
	set("old", "old", 0604);
	ok(put("old", "new", "old", true) == 0 && has("old", "new") &&
		mode_of("old") == 0604,
	    "%s: in place of a file with its mode", how);
	ok(!no_tmpfile || seen_mode == 0600,
	    "%s: which nobody else could read before", how);
	set("setid", "old", 04755);
	ok(put("setid", "new", "setid", true) == 0 && mode_of("setid") == 0755,
	    "%s: set-id bits do not come along", how);
	set("other", "other", 0644);
	ok(put("old", "lost", "other", true) == -1 && errno == ESTALE &&
		has("old", "new"),
	    "%s: what is another file by now stays", how);
	ok(put("gone", "lost", "other", true) == -1 && errno == ESTALE &&
		faccessat(dir_fd, "gone", F_OK, 0) == -1,
	    "%s: what is gone by now stays away", how);
	mkdirat(dir_fd, "sub", 0700);
	ok(put("sub", "lost", NULL, true) == -1 && errno == EISDIR,
	    "%s: a directory is not replaced", how);
	ok(put("sub", "lost", NULL, false) == -1 && errno == EEXIST,
	    "%s: nor by create", how);
	ok(symlinkat("sub/target", dir_fd, "link") == 0 &&
		put("link", "mine", NULL, true) == 0 && has("link", "mine") &&
		faccessat(dir_fd, "sub/target", F_OK, 0) == -1,
	    "%s: a link is replaced, not followed", how);
	is_int(entries(), before + 6, "nothing is left beside them");
	unlinkat(dir_fd, "new", 0);
	unlinkat(dir_fd, "old", 0);
	unlinkat(dir_fd, "setid", 0);
	unlinkat(dir_fd, "other", 0);
	unlinkat(dir_fd, "link", 0);
	unlinkat(dir_fd, "sub", AT_REMOVEDIR);
}

static void
test_slurp(void)
{
	char *data;
	size_t len;
	int fd;

	set("s", "12345", 0600);
	fd = openat(dir_fd, "s", O_RDONLY);
	ok(file_slurp(fd, 5, &data, &len) == 0 && len == 5 &&
		strcmp(data, "12345") == 0,
	    "a file of exactly the bound");
	free(data);
	ok(file_slurp(fd, 4, &data, &len) == -1 && errno == EFBIG,
	    "one byte more is too much");
	close(fd);
	set("s", "", 0600);
	fd = openat(dir_fd, "s", O_RDONLY);
	ok(file_slurp(fd, 0, &data, &len) == 0 && len == 0 && data[0] == '\0',
	    "an empty one");
	free(data);
	close(fd);
	unlinkat(dir_fd, "s", 0);
}

static void
test_space(void)
{
	struct policy p;
	struct invocation inv;

	memset(&inv, 0, sizeof(inv));
	if (policy_init(&p) == -1)
		exit(99);
	inv.policy = &p;
	p.max_write_mb = 1;
	p.min_free_mb = 0;
	ok(!file_no_space(&inv, dir_fd, 1 << 20), "the share is all of it");
	ok(file_no_space(&inv, dir_fd, (1 << 20) + 1), "and no byte more");
	inv.written = 1 << 20;
	ok(!file_no_space(&inv, dir_fd, 0), "nothing fits always");
	ok(file_no_space(&inv, dir_fd, 1), "when it is used up");
	inv.written = (uint64_t)2 << 20;
	ok(file_no_space(&inv, dir_fd, 0), "beyond it there is nothing");
	ok(file_no_space(&inv, dir_fd, SIZE_MAX), "lengths do not wrap");
	inv.written = 0;
	p.max_write_mb = 1048576;
	p.min_free_mb = 1048576;
	ok(file_no_space(&inv, -1, 1), "what cannot be told is no space");
	policy_clear(&p);
}

int
main(void)
{
	umask(0);
	if (mkdtemp(dir) == NULL ||
	    (dir_fd = open(dir, O_PATH | O_DIRECTORY)) == -1)
		return 99;
	test_put("nameless");
	no_tmpfile = true;
	test_put("named");
	no_tmpfile = false;
	test_slurp();
	test_space();
	is_int(entries(), 0, "the directory is empty again");
	rmdir(dir);
	return done();
}
