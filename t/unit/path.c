/*
 * enforce/path: a real tree below a fresh directory D. D/ok is what a grant
 * would name, D/out is outside, D/store is closed, D/ro is read-only.
 */

#include "enforce/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t/unit/tap.h"

#define RACES 20000
#define DEPTH 1000
#define TEXT 8192

#ifndef MS_NOSYMFOLLOW
#define MS_NOSYMFOLLOW 256
#endif

static char D[64];
static struct path_protect *set;

/* D/rest; four buffers, so that a call may use several. */
static const char *
at(const char *rest)
{
	static char buf[4][TEXT];
	static unsigned turn;
	char *to = buf[turn++ % 4];

	snprintf(to, TEXT, "%s/%s", D, rest);
	return to;
}

static void
must(int error, const char *what)
{
	if (error == -1) {
		printf("Bail out! %s: %s\n", what, strerror(errno));
		exit(1);
	}
}

static void
make_dir(const char *rest)
{
	must(mkdir(at(rest), 0755), rest);
}

static void
make_file(const char *rest, const char *body)
{
	int fd = open(at(rest), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	must(fd, rest);
	must(write(fd, body, strlen(body)) == (ssize_t)strlen(body) ? 0 : -1,
	    rest);
	close(fd);
}

static void
make_link(const char *target, const char *rest)
{
	must(symlink(target, at(rest)), rest);
}

static void
make_socket(const char *rest)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strlcpy(sun.sun_path, at(rest), sizeof(sun.sun_path));
	must(fd, "socket");
	must(bind(fd, (const struct sockaddr *)&sun, sizeof(sun)), rest);
	close(fd);
}

static size_t
count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	must(dir == NULL ? -1 : 0, "/proc/self/fd");
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

/*
 * What came out, as one line: "NULL", or the canonical path (below D without
 * D/), then "fd", "parent=leaf", the errno and the protection.
 */
static const char *
tell(const struct path_judged *j)
{
	static char out[TEXT];
	static const char *const protection[] = {"", " ro", " closed"};
	const char *name = j->canonical;
	size_t len = strlen(D);

	if (name == NULL) {
		if (j->fd != -1 || j->parent_fd != -1)
			return "NULL with a descriptor";
		return "NULL";
	}
	if (strncmp(name, D, len) == 0 && name[len] == '/')
		name += len + 1;
	snprintf(out, sizeof(out), "%s%s%s%s%s%s%s%s", name,
	    j->fd != -1 ? " fd" : "", j->parent_fd != -1 ? " parent=" : "",
	    j->parent_fd != -1 ? j->leaf : "",
	    j->absent == ENOENT ? " ENOENT" : "",
	    j->absent == ENOTDIR ? " ENOTDIR" : "",
	    j->absent == EACCES ? " EACCES" : "", protection[j->protection]);
	return out;
}

static const char *
judge_bytes(const char *path, size_t len)
{
	struct path_judged j;
	struct stat st;
	const char *line;

	path_judged_init(&j);
	if (path_judge(path, len, set, &j) == -1)
		return errno == EINVAL ? "EINVAL" : strerror(errno);
	line = tell(&j);
	if (j.fd != -1 &&
	    (j.absent != 0 ||
		fstatat(j.parent_fd, j.leaf, &st,
		    AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) == -1 ||
		st.st_dev != j.st.st_dev || st.st_ino != j.st.st_ino))
		line = "parent and leaf are another object";
	path_judged_clear(&j);
	return line;
}

static const char *
judge(const char *path)
{
	return judge_bytes(path, strlen(path));
}

struct row {
	const char *path; /* below D, or absolute */
	const char *want;
};

static void
rows(const struct row *row, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		is_str(judge(row[i].path[0] == '/' ? row[i].path
						   : at(row[i].path)),
		    row[i].want, row[i].path);
}
#define ROWS(r) rows((r), sizeof(r) / sizeof((r)[0]))

static void
make_tree(void)
{
	static const char *const dirs[] = {"ok", "ok/sub", "ok/sub/deep",
	    "ok-evil", "out", "out/dir", "store", "store/a", "store/a/b", "ro",
	    "ro/in", "conf", "ok/.cyberos", "ok/.cyberos/x", "ok/mnt",
	    "ok/proc", "ok/nosym", "ok/locked"};
	size_t i;

	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		make_dir(dirs[i]);
	make_file("ok/f", "inside");
	make_file("ok/sub/f", "inside");
	make_file("ok/x (deleted)", "not so");
	make_file("ok-evil/f", "evil");
	make_file("out/f", "MARKER");
	make_file("out/dir/f", "MARKER");
	make_file("store/row", "row");
	make_file("store/a/f", "row");
	make_file("ro/in/f", "ro");
	make_file("ok/key", "key");
	make_file("ok/.cyberos/x/f", "own");
	make_file("ok/.cyberosx", "no");
	must(link(at("out/f"), at("ok/hard")), "link");
	must(mkfifo(at("ok/fifo"), 0644), "mkfifo");
	make_socket("ok/sock");

	make_link("f", "ok/l");
	make_link("l", "ok/ll");
	make_link("sub/deep", "ok/ldir");
	make_link("sub/", "ok/lslash");
	make_link("f/", "ok/lfile");
	make_link("../out/f", "ok/lout");
	make_link(at("out/dir"), "ok/loutdir");
	make_link("none", "ok/dangling");
	make_link("sub/none/more", "ok/dangling2");
	make_link("dangling", "ok/ldangling");
	make_link("../out/none", "ok/danglingout");
	make_link("../store/none", "ok/danglingstore");
	make_link("../store", "ok/lstore");
	make_link("loop2", "ok/loop1");
	make_link("loop1", "ok/loop2");
	make_link("self/x", "ok/self");
	make_link("\xff", "ok/lbad");
	make_link("/", "ok/lroot");
	make_link("/proc/self/root", "ok/lmagic");

	must(path_protect_add(set, at("store"), PATH_CLOSED), "add");
	must(path_protect_add(set, at("ro"), PATH_READ_ONLY), "add");
	must(path_protect_add(set, at("ok/key"), PATH_CLOSED), "add");
	must(path_protect_add(set, at("conf/none/c.yaml"), PATH_CLOSED), "add");
}

static void
test_existing(void)
{
	static const struct row row[] = {
	    {"ok/f", "ok/f fd parent=f"},
	    {"ok/./f", "ok/f fd parent=f"},
	    {"ok//sub///f", "ok/sub/f fd parent=f"},
	    {"ok/../ok/f", "ok/f fd parent=f"},
	    {"ok/sub/../../out/f", "out/f fd parent=f"},
	    {"ok", "ok fd parent=ok"},
	    {"ok/", "ok fd parent=ok"},
	    {"ok/sub/.", "ok/sub fd parent=sub"},
	    {"ok/sub/..", "ok fd parent=ok"},
	    {"ok-evil/f", "ok-evil/f fd parent=f"},
	    {"ok/x (deleted)", "ok/x (deleted) fd parent=x (deleted)"},
	    {"ok/hard", "ok/hard fd parent=hard"},
	    {"ok/fifo", "ok/fifo fd parent=fifo"},
	    {"ok/sock", "ok/sock fd parent=sock"},
	    {"/", "/ fd parent="},
	    {"//", "/ fd parent="},
	    {"/../..", "/ fd parent="},
	};

	ROWS(row);
}

static void
test_links(void)
{
	static const struct row row[] = {
	    {"ok/l", "ok/f fd parent=f"},
	    {"ok/ll", "ok/f fd parent=f"},
	    {"ok/l/", "ok/f ENOTDIR"},
	    {"ok/lfile", "ok/f ENOTDIR"},
	    {"ok/ldir", "ok/sub/deep fd parent=deep"},
	    {"ok/ldir/", "ok/sub/deep fd parent=deep"},
	    {"ok/ldir/../f", "ok/sub/f fd parent=f"},
	    {"ok/ldir/none", "ok/sub/deep/none parent=none ENOENT"},
	    {"ok/ldir/none/more", "ok/sub/deep/none/more ENOENT"},
	    {"ok/lslash", "ok/sub fd parent=sub"},
	    {"ok/lslash/f", "ok/sub/f fd parent=f"},
	    {"ok/lslash/none", "ok/sub/none parent=none ENOENT"},
	    {"ok/lout", "out/f fd parent=f"},
	    {"ok/loutdir/f", "out/dir/f fd parent=f"},
	    {"ok/loutdir/../f", "out/f fd parent=f"},
	    {"ok/loutdir/../none", "out/none parent=none ENOENT"},
	    {"ok/loutdir/none/../../f", "out/f fd parent=f"},
	    {"ok/lroot/none-such", "/none-such parent=none-such ENOENT"},
	    {"ok/dangling", "NULL"},
	    {"ok/dangling/", "NULL"},
	    {"ok/dangling/more", "NULL"},
	    {"ok/dangling2", "NULL"},
	    {"ok/ldangling", "NULL"},
	    {"ok/danglingout", "NULL"},
	    {"ok/danglingstore", "store/none ENOENT closed"},
	    {"ok/dangling/../f", "ok/f fd parent=f"},
	    {"ok/loop1", "NULL"},
	    {"ok/loop1/x", "NULL"},
	    {"ok/self", "NULL"},
	    {"ok/lbad", "NULL"},
	};

	ROWS(row);
}

static void
test_absent(void)
{
	char path[TEXT], want[TEXT], name[512];
	static const struct row row[] = {
	    {"ok/none", "ok/none parent=none ENOENT"},
	    {"ok/none/", "ok/none ENOENT"},
	    {"ok/none/.", "ok/none ENOENT"},
	    {"ok/./none", "ok/none parent=none ENOENT"},
	    {"ok/none/more", "ok/none/more ENOENT"},
	    {"ok/none/../f", "ok/f fd parent=f"},
	    {"ok/none/../more", "ok/more parent=more ENOENT"},
	    {"ok/none/../../out/f", "out/f fd parent=f"},
	    {"ok/none/../../../../../etc/none", "/etc/none parent=none ENOENT"},
	    {"ok/none/a/../b", "ok/none/b ENOENT"},
	    {"ok/f/", "ok/f ENOTDIR"},
	    {"ok/f/.", "ok/f ENOTDIR"},
	    {"ok/f/x", "ok/f/x ENOTDIR"},
	    {"ok/f/x/..", "ok/f ENOTDIR"},
	    {"ok/f/../f", "ok/f fd parent=f"},
	    {"ok/fifo/x", "ok/fifo/x ENOTDIR"},
	    {"/none-such", "/none-such parent=none-such ENOENT"},
	};

	ROWS(row);
	memset(name, 'n', sizeof(name));
	name[300] = '\0';
	snprintf(path, sizeof(path), "ok/%s", name);
	snprintf(want, sizeof(want), "ok/%s ENOENT", name);
	is_str(judge(at(path)), want, "a component of 300 bytes");
	snprintf(path, sizeof(path), "ok/%s/../f", name);
	is_str(judge(at(path)), "ok/f fd parent=f", "and back from it");
	name[255] = '\0';
	snprintf(path, sizeof(path), "ok/%s", name);
	snprintf(want, sizeof(want), "ok/%s parent=%s ENOENT", name, name);
	is_str(judge(at(path)), want, "a component of 255 bytes");
}

static void
test_malformed(void)
{
	static const char nul[] = "/etc\0/passwd";
	char path[TEXT];
	int fd;

	is_str(judge(""), "EINVAL", "empty");
	is_str(judge("x"), "EINVAL", "relative");
	is_str(judge("./x"), "EINVAL", "dot");
	is_str(judge("~/x"), "EINVAL", "tilde");
	is_str(judge("file:///etc/passwd"), "EINVAL", "URL");
	is_str(judge_bytes(nul, sizeof(nul) - 1), "EINVAL", "a NUL inside");
	is_str(judge_bytes("/etc/passwd", 4), "/etc fd parent=etc",
	    "not more than len bytes");

	memset(path, '/', sizeof(path));
	path[PATH_MAX - 1] = '\0';
	is_str(judge(path), "/ fd parent=", "4095 slashes");
	path[PATH_MAX - 1] = '/';
	path[PATH_MAX] = '\0';
	is_str(judge(path), "NULL", "4096 slashes");

	fd = open(at("ok/\xff"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	must(fd, "bad name");
	close(fd);
	is_str(judge(at("ok/\xff")), "NULL", "invalid UTF-8, exists");
	is_str(judge(at("ok/lbad")), "NULL", "invalid UTF-8 through a link");
	is_str(judge(at("ok/\xc0\xaf")), "NULL", "overlong, absent");
	is_str(judge(at("ok/\xed\xa0\x80")), "NULL", "surrogate, absent");
	is_str(judge(at("ok/\xff/../f")), "ok/f fd parent=f", "taken away");
}

static void
test_protection(void)
{
	static const struct row row[] = {
	    {"store", "store fd parent=store closed"},
	    {"store/row", "store/row fd parent=row closed"},
	    {"store/a/f", "store/a/f fd parent=f closed"},
	    {"store/none", "store/none parent=none ENOENT closed"},
	    {"store/a/none/x", "store/a/none/x ENOENT closed"},
	    {"ok/lstore/row", "store/row fd parent=row closed"},
	    {"ok/lstore/none", "store/none parent=none ENOENT closed"},
	    {"ok/../store/../ok/f", "ok/f fd parent=f"},
	    {"ro/in/f", "ro/in/f fd parent=f ro"},
	    {"ro/none", "ro/none parent=none ENOENT ro"},
	    {"ok/key", "ok/key fd parent=key closed"},
	    {"ok/key2", "ok/key2 parent=key2 ENOENT"},
	    {"conf/none", "conf/none parent=none ENOENT"},
	    {"conf/none/c.yaml", "conf/none/c.yaml ENOENT closed"},
	    {"conf/none/c.yaml2", "conf/none/c.yaml2 ENOENT"},
	    {"conf/none/x/../c.yaml", "conf/none/c.yaml ENOENT closed"},
	    {"ok/.cyberos", "ok/.cyberos fd parent=.cyberos closed"},
	    {"ok/.cyberos/x/f", "ok/.cyberos/x/f fd parent=f closed"},
	    {"ok/none/.cyberos/x", "ok/none/.cyberos/x ENOENT closed"},
	    {"ok/.cyberosx", "ok/.cyberosx fd parent=.cyberosx"},
	    {"/usr", "/usr fd parent=usr ro"},
	    {"/usr/none", "/usr/none parent=none ENOENT ro"},
	    {"/library", "/library parent=library ENOENT ro"},
	    {"/etc/ld.so.none", "/etc/ld.so.none parent=ld.so.none ENOENT ro"},
	    {"/etc/ld.xx", "/etc/ld.xx parent=ld.xx ENOENT"},
	    {"/dev/null", "/dev/null fd parent=null closed"},
	    {"/sys/none", "/sys/none parent=none ENOENT closed"},
	    {"/proc/version", "/proc/version fd parent=version closed"},
	    {"/proc/none", "/proc/none parent=none ENOENT closed"},
	    {"/proc/self/environ", "/proc/self/environ EACCES closed"},
	    {"/proc/self/root/etc", "/proc/self/root/etc EACCES closed"},
	    {"ok/lmagic/etc", "/proc/self/root/etc EACCES closed"},
	    {"/proc/1/environ", "/proc/1/environ fd parent=environ closed"},
	};
	struct path_judged j;

	ROWS(row);
	path_judged_init(&j);
	ok(path_judge("/bin/sh", 7, set, &j) == 0 && j.canonical != NULL &&
		j.fd != -1 && j.protection == PATH_READ_ONLY,
	    "/bin/sh is read-only");
	path_judged_clear(&j);
	must(mkdir(at("conf/none"), 0755), "mkdir");
	make_file("conf/none/c.yaml", "made later");
	is_str(judge(at("conf/none/c.yaml")),
	    "conf/none/c.yaml fd parent=c.yaml closed", "made after the set");
	make_file("ok/key.new", "new");
	must(rename(at("ok/key.new"), at("ok/key")), "rename");
	is_str(judge(at("ok/key")), "ok/key fd parent=key closed",
	    "replaced after the set");
	ok(path_protect_add(set, "relative", PATH_CLOSED) == -1 &&
		errno == EINVAL,
	    "add: a relative path");
	ok(path_protect_add(set, at("ok/loop1"), PATH_CLOSED) == 0,
	    "add: a looping link is no error");
}

static void
test_deleted(void)
{
	char path[128], want[160];
	int fd;

	make_file("ok/gone", "gone");
	fd = open(at("ok/gone"), O_RDONLY | O_CLOEXEC);
	must(fd, "open");
	must(unlink(at("ok/gone")), "unlink");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	snprintf(want, sizeof(want), "%s EACCES closed", path);
	is_str(judge(path), want, "a deleted file by its descriptor");
	snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)getpid(), fd);
	snprintf(want, sizeof(want), "%s EACCES closed", path);
	is_str(judge(path), want, "and by its process");
	must(symlink(path, at("ok/lfd")), "symlink");
	is_str(judge(at("ok/lfd")), want, "and by a planted link");
	close(fd);
	/* A descriptor that is not there is refused in the same words. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	snprintf(want, sizeof(want), "%s EACCES closed", path);
	is_str(judge(path), want, "a descriptor that is closed");
}

/* What the check would answer when D/ok is granted, and nothing else. */
static const char *
outcome(const char *path)
{
	const char *line = judge(path);

	return strncmp(line, "ok/", 3) == 0 ? line : "file_violation";
}

/*
 * A way through a directory outside and back must not tell what is there; nor
 * must a link that the skill has planted.
 */
static void
test_oracle(void)
{
	static const char *const name[] = {
	    "dir", "f", "none", "none/none", "f/none", "shut", "shut/none"};
	static const char *const way[] = {"%s/out/%s", "%s/out/%s/",
	    "%s/out/%s/../../ok/f", "%s/out/%s/../../ok/none",
	    "%s/out/%s/../../../../../../../../../../etc/passwd",
	    "%s/ok/loutdir/../%s", "%s/ok/loutdir/../%s/../f",
	    "%s/ok/loutdir/../%s/../../ok/f"};
	char path[TEXT], first[TEXT], target[TEXT];
	size_t i, k;
	bool good;

	must(mkdir(at("out/shut"), 0), "mkdir");
	for (i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
		good = true;
		for (k = 0; k < sizeof(name) / sizeof(name[0]); k++) {
			/* "a/b/.." is one up less. */
			if (strchr(name[k], '/') != NULL &&
			    strstr(way[i], "%s/..") != NULL)
				continue;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			snprintf(path, sizeof(path), way[i], D, name[k]);
			snprintf(target, sizeof(target), way[i], D, name[k]);
#pragma GCC diagnostic pop
			must(symlink(target, at("ok/plant")), "symlink");
			if (k == 0)
				strlcpy(first, outcome(path), sizeof(first));
			if (strcmp(outcome(path), first) != 0)
				good = false;
			if (strcmp(first, "ok/f fd parent=f") == 0 &&
			    strcmp(outcome(at("ok/plant")), first) != 0)
				good = false;
			if (strcmp(first, "file_violation") == 0 &&
			    strcmp(outcome(at("ok/plant")), first) != 0)
				good = false;
			unlink(at("ok/plant"));
		}
		ok(good, "no oracle: %s: %s", way[i], first);
	}
	/* A planted link into a closed place: there or not, the same words. */
	good = true;
	must(symlink(at("store/row"), at("ok/plant")), "symlink");
	good = strstr(judge(at("ok/plant")), " closed") != NULL;
	unlink(at("ok/plant"));
	must(symlink(at("store/nope"), at("ok/plant")), "symlink");
	good = good && strstr(judge(at("ok/plant")), " closed") != NULL;
	unlink(at("ok/plant"));
	ok(good, "no oracle: links into a closed place");
}

/* The number of a protected file that is gone goes to none that comes. */
static void
test_number(void)
{
	struct path_protect *own = path_protect_new();
	struct path_judged j;
	char name[32];
	bool open_all = true;
	int i;

	must(own == NULL ? -1 : 0, "path_protect_new");
	make_file("ok/old", "protected");
	must(path_protect_add(own, at("ok/old"), PATH_CLOSED), "add");
	must(unlink(at("ok/old")), "unlink");
	must(mkdir(at("ok/many"), 0755), "mkdir");
	for (i = 0; i < 300 && open_all; i++) {
		snprintf(name, sizeof(name), "ok/many/%d", i);
		make_file(name, "new");
		open_all = path_judge(at(name), strlen(at(name)), own, &j) == 0 &&
			   j.protection == PATH_OPEN;
		path_judged_clear(&j);
	}
	ok(open_all, "a new file is not taken for one that was protected");
	path_protect_free(own);
}

static void
test_permission(void)
{
	static const struct row row[] = {
	    {"ok/locked", "ok/locked fd parent=locked"},
	    {"ok/locked/x", "ok/locked/x EACCES"},
	    {"ok/locked/x/y", "ok/locked/x/y EACCES"},
	    {"ok/locked/../f", "ok/f fd parent=f"},
	    {"ok/locked/x/../../f", "ok/f fd parent=f"},
	};

	if (geteuid() == 0) {
		must(mkdir(at("ok/sticky"), 0755), "mkdir");
		must(chmod(at("ok/sticky"), 01777), "chmod");
		make_link("../f", "ok/sticky/mine");
		make_link("../f", "ok/sticky/theirs");
		must(lchown(at("ok/sticky/theirs"), 12345, 12345), "lchown");
		is_str(judge(at("ok/sticky/mine")), "ok/f fd parent=f",
		    "own link in a sticky directory");
		is_str(judge(at("ok/sticky/theirs")), "ok/sticky/theirs EACCES",
		    "a stranger's link in a sticky directory");
		return;
	}
	must(chmod(at("ok/locked"), 0), "chmod");
	ROWS(row);
	must(chmod(at("ok/locked"), 0755), "chmod");
}

/* Deep trees: by name up to PATH_MAX, and never beyond. */
static void
test_deep(void)
{
	char path[TEXT], want[TEXT + 64], name[251];
	size_t i, used;
	int fd, next;

	strlcpy(path, at("ok/d"), sizeof(path));
	must(mkdir(path, 0755), "mkdir");
	used = strlen(path);
	for (i = 1; i < DEPTH; i++) {
		strlcpy(path + used, "/d", sizeof(path) - used);
		used += 2;
		must(mkdir(path, 0755), "mkdir");
	}
	snprintf(want, sizeof(want), "%s fd parent=d", path + strlen(D) + 1);
	is_str(judge(path), want, "1000 directories deep");
	strlcat(path, "/none/none", sizeof(path));
	snprintf(want, sizeof(want), "%s ENOENT", path + strlen(D) + 1);
	is_str(judge(path), want, "1000 directories deep, absent");

	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	fd = open(at("ok"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	strlcpy(path, at("ok"), sizeof(path));
	for (i = 0; i < 20; i++) {
		must(mkdirat(fd, name, 0755), "mkdirat");
		next = openat(fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		must(next, "openat");
		close(fd);
		fd = next;
		if (i == 8) {
			for (used = 0; used <= i; used++) {
				strlcat(path, "/", sizeof(path));
				strlcat(path, name, sizeof(path));
			}
			must(symlink(path, at("ok/half")), "symlink");
			strlcpy(path, at("ok/half"), sizeof(path));
		} else if (i > 8) {
			strlcat(path, "/", sizeof(path));
			strlcat(path, name, sizeof(path));
		}
	}
	close(fd);
	ok(strlen(path) < PATH_MAX, "asked for within PATH_MAX");
	is_str(judge(path), "NULL", "the kernel's name is over PATH_MAX");
	strlcat(path, "/none", sizeof(path));
	is_str(judge(path), "NULL", "and below it");
	while (strlen(path) < PATH_MAX)
		strlcat(path, "/none", sizeof(path));
	is_str(judge(path), "NULL", "asked for beyond PATH_MAX");
}

/* In a mount namespace of our own; the exit status is the failed row. */
static int
mounted(void)
{
	static const struct row row[] = {
	    {"ok/mnt/row", "ok/mnt/row fd parent=row closed"},
	    {"ok/mnt/none", "ok/mnt/none parent=none ENOENT closed"},
	    {"ok/mnt", "ok/mnt fd parent=mnt closed"},
	    {"store/a/b/f", "store/a/b/f fd parent=f closed"},
	    {"ok/proc/version", "ok/proc/version fd parent=version closed"},
	    {"ok/proc/self/root/etc", "ok/proc/self/root/etc EACCES closed"},
	    {"ok/nosym/l", "ok/nosym/l EACCES"},
	    {"ok/nosym/f", "ok/nosym/f fd parent=f"},
	};
	size_t i;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == -1 ||
	    mount(at("store"), at("ok/mnt"), NULL, MS_BIND, NULL) == -1 ||
	    mount(at("store/a"), at("store/a/b"), NULL, MS_BIND, NULL) == -1 ||
	    mount("/proc", at("ok/proc"), NULL, MS_BIND | MS_REC, NULL) == -1 ||
	    mount("none", at("ok/nosym"), "tmpfs", 0, NULL) == -1)
		return 255;
	make_file("ok/nosym/f", "f");
	make_link("f", "ok/nosym/l");
	if (mount("none", at("ok/nosym"), NULL, MS_REMOUNT | MS_NOSYMFOLLOW,
		NULL) == -1)
		return 255;
	for (i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		if (strcmp(judge(at(row[i].path)), row[i].want) != 0) {
			fprintf(stderr, "# %s: %s\n", row[i].path,
			    judge(at(row[i].path)));
			return (int)i + 1;
		}
	}
	return 0;
}

static bool
put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);
	bool good =
	    fd != -1 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd != -1)
		close(fd);
	return good;
}

/* Root needs no user namespace, everybody else one in which he is root. */
static bool
own_mounts(void)
{
	char uids[64], gids[64];

	if (geteuid() == 0)
		return unshare(CLONE_NEWNS) == 0;
	snprintf(uids, sizeof(uids), "0 %u 1", (unsigned)geteuid());
	snprintf(gids, sizeof(gids), "0 %u 1", (unsigned)getegid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       put("/proc/self/setgroups", "deny") &&
	       put("/proc/self/uid_map", uids) &&
	       put("/proc/self/gid_map", gids);
}

static void
test_mounts(void)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	must(pid, "fork");
	if (pid == 0)
		_exit(own_mounts() ? mounted() : 255);
	must(waitpid(pid, &status, 0), "waitpid");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 255)
		ok(true, "bind mounts # SKIP no mount namespace");
	else
		ok(status == 0, "bind mounts of protected places");
}

static pid_t
flipper(const char *a, const char *b)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	must(pid, "fork");
	while (pid == 0) {
		if (syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b,
			2 /* RENAME_EXCHANGE */) == -1 ||
		    getppid() == 1)
			_exit(1);
	}
	return pid;
}

static void
test_race(void)
{
	unsigned i, inside = 0, outside = 0, refused = 0, wrong = 0;
	struct path_judged j;
	struct stat marker, parent, out;
	char path[2][TEXT];
	int status;
	pid_t pid;

	make_dir("ok/race");
	make_file("ok/race/f", "inside");
	make_link("../out", "ok/flip");
	must(stat(at("out/f"), &marker), "stat");
	must(stat(at("out"), &out), "stat");
	strlcpy(path[0], at("ok/race/f"), TEXT);
	strlcpy(path[1], at("ok/race/none"), TEXT);
	pid = flipper(at("ok/race"), at("ok/flip"));
	for (i = 0; i < RACES; i++) {
		path_judged_init(&j);
		if (path_judge(path[i % 2], strlen(path[i % 2]), set, &j) ==
		    -1) {
			wrong++;
		} else if (j.canonical == NULL) {
			refused++;
		} else if (strncmp(j.canonical, at("ok/"), strlen(at("ok/"))) ==
			   0) {
			inside++;
			if ((j.fd != -1 && j.st.st_ino == marker.st_ino) ||
			    (j.parent_fd != -1 &&
				(fstat(j.parent_fd, &parent) == -1 ||
				    parent.st_ino == out.st_ino)))
				wrong++;
		} else {
			outside++;
		}
		path_judged_clear(&j);
	}
	kill(pid, SIGKILL);
	must(waitpid(pid, &status, 0), "waitpid");
	ok(WIFSIGNALED(status), "the flipper flipped to the end");
	ok(wrong == 0, "a race never gives the outside an inside name");
	ok(inside > 0 && outside > 0, "both sides were seen");
	printf("# inside %u outside %u refused %u\n", inside, outside, refused);
	/* The last flip may have left a link under either name. */
	if (readlink(at("ok/race"), path[0], TEXT) > 0)
		must(syscall(SYS_renameat2, AT_FDCWD, at("ok/race"), AT_FDCWD,
			 at("ok/flip"), 2) == -1
			 ? -1
			 : 0,
		    "rename");
}

static void
test_exhausted(void)
{
	struct rlimit old, few;
	struct path_judged j;
	bool good = true;
	size_t base, i;
	char path[TEXT];
	int probe;

	strlcpy(path, at("ok/ldir/../f"), sizeof(path));
	probe = dup(0);
	must(probe, "dup");
	close(probe);
	base = (size_t)probe;
	must(getrlimit(RLIMIT_NOFILE, &old), "getrlimit");
	few = old;
	for (i = 0; i < 8; i++) {
		few.rlim_cur = base + i;
		must(setrlimit(RLIMIT_NOFILE, &few), "setrlimit");
		path_judged_init(&j);
		if (path_judge(path, strlen(path), set, &j) == -1)
			good = good && errno == EMFILE && j.fd == -1 &&
			       j.canonical == NULL;
		else
			good = good && j.fd != -1 && i >= 2;
		path_judged_clear(&j);
	}
	must(setrlimit(RLIMIT_NOFILE, &old), "setrlimit");
	ok(good, "too few descriptors: -1 with EMFILE, nothing half done");
}

static void
test_reopen(void)
{
	struct path_judged j;
	char body[16] = "";
	int fd;

	path_judged_init(&j);
	must(path_judge(at("ok/l"), strlen(at("ok/l")), set, &j), "judge");
	fd = path_reopen(j.fd, O_RDONLY);
	ok(fd != -1 && read(fd, body, sizeof(body) - 1) == 6 &&
		strcmp(body, "inside") == 0,
	    "reopened for reading");
	ok((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0, "close-on-exec");
	close(fd);
	ok(path_reopen(j.fd, O_RDWR | O_CREAT) == -1 && errno == EINVAL &&
		path_reopen(-1, O_RDONLY) == -1 && errno == EBADF,
	    "what reopen refuses");
	path_judged_clear(&j);
	ok(j.fd == -1 && j.parent_fd == -1 && j.canonical == NULL, "cleared");
	path_judged_clear(&j);
	must(
	    path_judge(at("ok/fifo"), strlen(at("ok/fifo")), set, &j), "judge");
	fd = path_reopen(j.fd, O_RDONLY);
	ok(fd != -1, "a FIFO does not block");
	close(fd);
	path_judged_clear(&j);
}

struct memory_row {
	const char *path, *canonical;
	bool good;
};

static void
test_memory(void)
{
	static const struct memory_row row[] = {
	    {"memories/a", "memories/a", true},
	    {"/memories//a/./b/", "memories/a/b", true},
	    {"memories/projects/a/../../people/pay", "memories/people/pay",
		true},
	    {"memories/../memories/a", "memories/a", true},
	    {"memories/a/../../meta/b", "meta/b", true},
	    {"meta", "meta", true},
	    {"company/a", "company/a", true},
	    {"module/a", "module/a", true},
	    {"member/a", "member/a", true},
	    {"client/a", "client/a", true},
	    {"project/a", "project/a", true},
	    {"persona/a", "persona/a", true},
	    {"memories/\xc3\xa4 b", "memories/\xc3\xa4 b", true},
	    {"memories/ a", "memories/ a", true},
	    {"memories/*", "memories/*", true},
	    {"memories/**/../{a/b}/..", "memories/{a", true},
	    {"memories/\xf4\x8f\xbf\xbf", "memories/\xf4\x8f\xbf\xbf", true},
	    {"", "", false},
	    {"/", "", false},
	    {".", "", false},
	    {"..", "..", false},
	    {"memories/..", "", false},
	    {"../memories/a", "../memories/a", false},
	    {"memories/../../memories/a", "../memories/a", false},
	    {"memories/../../memories/../meta/a", "../memories/../meta/a",
		false},
	    {"memories/../../../etc/passwd", "../../etc/passwd", false},
	    {"etc/passwd", "etc/passwd", false},
	    {"Memories/a", "Memories/a", false},
	    {"memoriesx/a", "memoriesx/a", false},
	    {"memorie", "memorie", false},
	    {"a/memories", "a/memories", false},
	    {"memories/.git", "memories/.git", false},
	    {"memories/.a/../b", "memories/.a/../b", false},
	    {"memories/a/../.a/../b", "memories/.a/../b", false},
	    {"memories/...", "memories/...", false},
	    {"memories/a.", "memories/a.", false},
	    {"memories/a ", "memories/a ", false},
	    {"memories/a /b", "memories/a /b", false},
	    {"memories/ ", "memories/ ", false},
	    {"memories /a", "memories /a", false},
	    {"memories/a\n", "memories/a\n", false},
	    {"memories/a\tb", "memories/a\tb", false},
	    {"memories/a\x7f", "memories/a\x7f", false},
	    {"memories/a\x1f/b", "memories/a\x1f/b", false},
	    {"memories/\xc2\x80", "memories/\xc2\x80", false},
	    {"memories/\xc2\x9f", "memories/\xc2\x9f", false},
	    {"memories/\xc2\xa0x", "memories/\xc2\xa0x", true},
	    {"memories/\xff/b", "", false},
	    {"memories/\xc0\xaf", "", false},
	    {"memories/\xed\xa0\x80", "", false},
	    {"memories/\xf4\x90\x80\x80", "", false},
	    {"memories/\xe2\x82", "", false},
	    {"memories\\..\\a", "memories\\..\\a", false},
	};
	char out[PATH_MAX], again[PATH_MAX];
	size_t i;
	int error;

	for (i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		error = path_memory(row[i].path, strlen(row[i].path), out);
		if (error == -1 && path_memory(out, strlen(out), again) == 0)
			ok(false, "memory row %zu: has the name of another", i);
		ok((error == 0) == row[i].good &&
			(error == 0 || errno == EINVAL) &&
			strcmp(out, row[i].canonical) == 0,
		    "memory row %zu: %d %zu bytes", i, error, strlen(out));
	}
	ok(path_memory("memories/a\0b", 12, out) == -1 &&
		strcmp(out, "") == 0,
	    "memory: NUL");
	ok(path_memory("memories/abc", 10, out) == 0 &&
		strcmp(out, "memories/a") == 0,
	    "memory: not more than len bytes");
}

static void
test_memory_globs(void)
{
	static const struct memory_row row[] = {
	    {"memories/a*", "memories/a*", true},
	    {"/memories//a/./b*/", "memories/a/b*", true},
	    {"memories/ok/../o*", "memories/o*", true},
	    {"memories/o*/../ok", "memories/ok", true},
	    {"memories/a/../../meta/?", "meta/?", true},
	    {"memories/[../../x]/../b*", "memories/[../../x]/../b*", true},
	    {"memories/{a,**}/../b/../c", "memories/{a,**}/../c", true},
	    {"memories/[]/../x]*", "memories/[]/../x]*", true},
	    {"memories/[!]/../x]*", "memories/[!]/../x]*", true},
	    {"memories/[\\]/../]*", "memories/[\\]/../]*", true},
	    {"memories/{a,b//c/../d}/./e", "memories/{a,b//c/../d}/e", true},
	    {"memories/{a,{b,c}}/../d*", "memories/d*", true},
	    {"memories/\\{/../d*", "memories/d*", true},
	    {"memories/a}/../d*", "memories/d*", true},
	    {"memories/{a/b,c}/../d", "memories/{a/b,c}/../d", true},
	    {"memories/**/../d", "memories/**/../d", true},
	    {"memories/*/**/../../d", "memories/*/**/../../d", true},
	    {"memories/{a/../..", "memories/{a/../..", true},
	    {"memories/[a/../..", "memories/[a/../..", true},
	    {"{memories,meta}/a", "{memories,meta}/a", true},
	    {"**", "**", true},
	    {"memories/ .*", "memories/ .*", true},
	    {"../memories/*", "../memories/*", false},
	    {"memories/../../memories/*", "../memories/*", false},
	    {"*/..", "", false},
	    {"*/../..", "..", false},
	    {"audit/*", "audit/*", false},
	    {"memories/.x/*", "memories/.x/*", false},
	    {"memories/*/a.", "memories/*/a.", false},
	    {"memories/*/.x/../b", "memories/*/.x/../b", false},
	    {"memories/a\x01*", "memories/a\x01*", false},
	    {"memories/[\xc2\x85]", "memories/[\xc2\x85]", false},
	    {"memories/\xff*", "", false},
	    {"memories/a\\", "memories/a\\", true},
	    {"memories/[", "memories/[", true},
	};
	char out[PATH_MAX];
	size_t i;
	int error;

	for (i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		error = path_memory_glob(row[i].path, strlen(row[i].path), out);
		ok((error == 0) == row[i].good &&
			(error == 0 || errno == EINVAL) &&
			strcmp(out, row[i].canonical) == 0,
		    "memory glob row %zu: %d %s", i, error,
		    row[i].good ? out : "");
	}
}

static void
test_memory_long(void)
{
	const size_t huge = 900000;
	char *text = malloc(huge), out[PATH_MAX];
	size_t i;

	must(text == NULL ? -1 : 0, "malloc");
	memset(text, 'a', huge);
	memcpy(text, "memories/", 9);
	ok(path_memory(text, 9 + 255, out) == 0 && strlen(out) == 9 + 255,
	    "memory: a segment of 255 bytes");
	ok(path_memory(text, 9 + 256, out) == -1 && strlen(out) == 9 + 256,
	    "memory: a segment of 256 bytes");
	ok(path_memory(text, huge, out) == -1 && strcmp(out, "") == 0,
	    "memory: 900,000 letters");
	for (i = 10; i < huge; i += 2)
		text[i] = '/';
	ok(path_memory(text, PATH_MAX - 1, out) == 0 &&
		strlen(out) == PATH_MAX - 2 - (PATH_MAX % 2 == 0 ? 0 : 1),
	    "memory: as long as fits");
	ok(path_memory(text, huge, out) == -1 && strcmp(out, "") == 0,
	    "memory: 450,000 segments");
	for (i = 9; i + 5 <= huge; i += 5)
		memcpy(text + i, "x/../", 5);
	ok(path_memory(text, i, out) == 0 && strcmp(out, "memories") == 0,
	    "memory: long, but short in the end");
	free(text);
}

static void
memory_open_is(int root, const char *path, int error)
{
	struct stat st;
	int fd;

	errno = 0;
	fd = path_memory_open(root, path, &st);
	ok(error == 0 ? fd != -1 && S_ISREG(st.st_mode)
		      : fd == -1 && errno == error,
	    "memory open %s: %s", path, fd == -1 ? strerror(errno) : "open");
	if (fd != -1)
		close(fd);
}

static void
memory_parent_is(int root, const char *path, bool make, int error)
{
	char leaf[NAME_MAX + 1] = "unset";
	const char *last = strrchr(path, '/');
	struct stat st;
	int fd;

	errno = 0;
	fd = path_memory_parent(root, path, make, leaf);
	ok(error == 0
		? fd != -1 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) &&
		      fsync(fd) == 0 &&
		      strcmp(leaf, last == NULL ? path : last + 1) == 0
		: fd == -1 && errno == error && strcmp(leaf, "unset") == 0,
	    "memory parent%s %.40s: %s", make ? ", made," : "", path,
	    fd == -1 ? strerror(errno) : leaf);
	if (fd != -1)
		close(fd);
}

static void
memory_leaf_is(int root, const char *leaf, int error)
{
	int fd = openat(root, "memories", O_PATH | O_DIRECTORY | O_CLOEXEC);

	errno = 0;
	ok(path_memory_leaf(fd, leaf) == (error == 0 ? 0 : -1) &&
		(error == 0 || errno == error),
	    "memory leaf %s: %s", leaf, strerror(errno));
	close(fd);
}

static void
test_memory_files(void)
{
	char name[300] = "memories/";
	struct stat st;
	int root;

	make_dir("mem");
	make_dir("mem/memories");
	make_dir("mem/memories/dir");
	make_file("mem/memories/f", "f");
	make_file("mem/memories/dir/f", "f");
	make_file("mem/memories/h1", "f");
	must(link(at("mem/memories/h1"), at("mem/memories/h2")), "link");
	make_link("f", "mem/memories/l");
	make_link("dir", "mem/memories/ldir");
	make_link(at("out"), "mem/memories/lout");
	make_link("none", "mem/memories/dangling");
	must(mkfifo(at("mem/memories/fifo"), 0644), "mkfifo");
	make_socket("mem/memories/sock");
	root = open(at("mem"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	must(root, "open");

	memory_open_is(root, "memories/f", 0);
	memory_open_is(root, "memories/dir/f", 0);
	memory_open_is(root, "memories/none", ENOENT);
	memory_open_is(root, "memories/none/x", ENOENT);
	memory_open_is(root, "memories/f/x", ENOTDIR);
	memory_open_is(root, "memories/dir", EISDIR);
	memory_open_is(root, "memories/l", ELOOP);
	memory_open_is(root, "memories/ldir/f", ELOOP);
	memory_open_is(root, "memories/lout/f", ELOOP);
	memory_open_is(root, "memories/h1", EMLINK);
	memory_open_is(root, "memories/fifo", ENODEV);
	memory_open_is(root, "memories/sock", ENODEV);
	memory_open_is(root, "../out/f", EXDEV);
	memory_open_is(root, at("mem/memories/f"), EXDEV);

	memory_leaf_is(root, "f", 0);
	memory_leaf_is(root, "none", 0);
	memory_leaf_is(root, "dir", EISDIR);
	memory_leaf_is(root, "l", ENODEV);
	memory_leaf_is(root, "ldir", ENODEV);
	memory_leaf_is(root, "dangling", ENODEV);
	memory_leaf_is(root, "h2", EMLINK);
	memory_leaf_is(root, "fifo", ENODEV);
	memory_leaf_is(root, "sock", ENODEV);

	memory_parent_is(root, "memories/new", false, 0);
	memory_parent_is(root, "memories", false, 0);
	memory_parent_is(root, "memories/a/b/c", false, ENOENT);
	memory_parent_is(root, "memories/a/b/c", true, 0);
	memory_parent_is(root, "memories/a/b/c", true, 0);
	memory_parent_is(root, "meta/x", true, 0);
	memory_parent_is(root, "memories/f/x", true, ENOTDIR);
	memory_parent_is(root, "memories/l/x", true, ELOOP);
	memory_parent_is(root, "memories/ldir/x", true, ELOOP);
	memory_parent_is(root, "memories/lout/x/y", true, ELOOP);
	memory_parent_is(root, "memories/dangling/x", true, ELOOP);
	memory_parent_is(root, "../out/x", true, EXDEV);
	memory_parent_is(root, "memories/", true, EINVAL);
	memory_parent_is(root, "memories/..", true, EINVAL);
	memset(name + 9, 'n', 256);
	memory_parent_is(root, name, true, ENAMETOOLONG);
	ok(stat(at("mem/memories/a/b"), &st) == 0 &&
		(st.st_mode & 07777) == 0700,
	    "made with mode 0700");
	ok(access(at("out/x"), F_OK) == -1 &&
		access(at("mem/memories/none"), F_OK) == -1,
	    "nothing was made outside or behind a link");
	close(root);
}

static void
remove_tree(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		chmod(at("out/shut"), 0700);
		execlp("rm", "rm", "-rf", "--", D, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

int
main(void)
{
	size_t before, after;

	setvbuf(stdout, NULL, _IOLBF, 0);
	umask(022);
	alarm(300);
	strlcpy(D, "/tmp/path-test.XXXXXX", sizeof(D));
	must(mkdtemp(D) == NULL ? -1 : 0, "mkdtemp");
	set = path_protect_new();
	must(set == NULL ? -1 : 0, "path_protect_new");
	make_tree();
	before = count_fds();

	test_existing();
	test_links();
	test_absent();
	test_malformed();
	test_protection();
	test_deleted();
	test_oracle();
	test_number();
	test_permission();
	test_deep();
	test_mounts();
	test_race();
	test_exhausted();
	test_reopen();
	test_memory();
	test_memory_globs();
	test_memory_long();
	test_memory_files();

	after = count_fds();
	is_int((long long)after, (long long)before, "no descriptor leaks");
	path_protect_free(set);
	path_protect_free(NULL);
	remove_tree();
	return done();
}
