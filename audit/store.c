/*
 * The store's directories. Whoever can write here can rewrite history, so a
 * store that is a link, belongs to somebody else or can be written by others
 * is refused, and everything below is reached through held descriptors.
 */

#include "audit/store.h"

#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <linux/fs.h>
#include <linux/openat2.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/clock.h"
#include "audit/random.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define STORE_SLOTS "slots"
#define STORE_SLOTS_BOUNDED (1u << 20) /* above the highest max_invocations */
#define NIL_TENANT "00000000-0000-0000-0000-000000000000"

/* Open a directory, made 0700 when make is set and it is missing. */
static int
open_dir(int at, const char *name, bool make)
{
	int fd = openat(at, name, DIR_FLAGS);

	if (fd != -1 || errno != ENOENT || !make)
		return fd;
	if (mkdirat(at, name, 0700) == -1 && errno != EEXIST)
		return -1;
	return openat(at, name, DIR_FLAGS);
}

static int
sync_dir(int at, const char *name)
{
	int fd = openat(at, name, DIR_FLAGS);
	int result;

	if (fd == -1)
		return -1;
	result = fsync(fd);
	close(fd);
	return result;
}

/* Ours alone: owner, and nobody else may write. */
static int
check_owner(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == -1)
		return -1;
	if (st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
		errno = EPERM;
		return -1;
	}
	return 0;
}

static int
open_part(int root, const char *name, bool make)
{
	int fd = open_dir(root, name, make);

	if (fd != -1 && check_owner(fd) == -1) {
		close(fd);
		errno = EPERM;
		return -1;
	}
	if (fd == -1 && (errno == ELOOP || errno == ENOTDIR))
		errno = EPERM; /* a link, or no directory */
	return fd;
}

/*
 * The path without what would make the kernel follow a link at its end: a
 * slash, or a slash and a dot.
 */
static int
plain_path(char out[PATH_MAX], const char *path)
{
	size_t len;

	len = strlcpy(out, path, PATH_MAX);
	if (len == 0 || len >= PATH_MAX) {
		errno = len == 0 ? ENOENT : ENAMETOOLONG;
		return -1;
	}
	for (;;) {
		if (len > 1 && out[len - 1] == '/')
			len--;
		else if (len > 2 && out[len - 1] == '.' && out[len - 2] == '/')
			len -= 2;
		else
			break;
	}
	out[len] = '\0';
	return 0;
}

/* Make the directories above the store; these may be other people's. */
static int
make_parents(const char *path)
{
	char part[PATH_MAX];
	char *slash;

	strlcpy(part, path, sizeof(part));
	for (slash = strchr(part + 1, '/'); slash != NULL;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(part, 0755) == -1 && errno != EEXIST)
			return -1;
		*slash = '/';
	}
	return 0;
}

int
store_file(int dir_fd, const char *name, int flags)
{
	struct stat st;
	int fd;

	fd = openat(dir_fd, name,
	    flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	if (fd == -1)
		return -1;
	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)) {
		close(fd);
		errno = EBADMSG;
		return -1;
	}
	return fd;
}

static int
open_host(const struct store *s)
{
	return store_file(s->audit_fd, "host.json", O_RDONLY);
}

/*
 * A complete file appears or none, and only one of two that try at once: link
 * fails if one is there. It is on disk, as are the directories that lead to
 * it, before the first row names this host.
 */
static int
make_host(const struct store *s)
{
	char text[128], name[64], host[STORE_UUID_SIZE];
	int fd, n, result = -1;

	store_new_uuid(host);
	snprintf(name, sizeof(name), ".host.%s", host);
	fd = openat(
	    s->audit_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd == -1)
		return -1;
	n = snprintf(text, sizeof(text), "{\"v\":1,\"host\":\"%s\"}\n", host);
	if (write(fd, text, (size_t)n) == n && fsync(fd) == 0 &&
	    (linkat(s->audit_fd, name, s->audit_fd, "host.json", 0) == 0 ||
		errno == EEXIST))
		result = 0;
	close(fd);
	unlinkat(s->audit_fd, name, 0);
	if (result == 0 &&
	    (fsync(s->audit_fd) == -1 || fsync(s->root_fd) == -1))
		result = -1;
	/* The directory above may be one that we cannot read. */
	(void)sync_dir(s->root_fd, "..");
	return result;
}

/*
 * A store without host.json is a fresh one. It is there before the first day
 * is, so where there are days and still no host.json somebody took it away, and
 * another id would not be that of their anchors.
 */
static int
find_host(const struct store *s, bool make)
{
	struct store_days days;
	int fd = open_host(s);

	if (fd != -1 || errno != ENOENT)
		return fd;
	if (store_days(s, &days) == -1)
		return -1;
	free(days.day);
	if (days.n == 0 && !make) {
		errno = ENOENT;
		return -1;
	}
	if (days.n == 0 && make_host(s) == -1)
		return -1;
	fd = open_host(s);
	if (fd == -1 && errno == ENOENT)
		errno = EBADMSG;
	return fd;
}

static int
read_host(struct store *s, bool make)
{
	static const char form[] = "{\"v\":1,\"host\":\"%36[0-9a-f-]\"}";
	char text[128];
	ssize_t n;
	int fd = find_host(s, make);

	if (fd == -1)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n == -1)
		return -1;
	text[n] = '\0';
	if (sscanf(text, form, s->host) != 1 || !store_is_uuid(s->host)) {
		errno = EBADMSG;
		return -1;
	}
	return 0;
}

/* Without run/ nothing has run; with days and no host of theirs it is worse. */
static int
open_parts(struct store *s, bool make)
{
	s->audit_fd = open_part(s->root_fd, "audit", make);
	if (s->audit_fd == -1)
		return -1;
	s->run_fd = open_part(s->root_fd, "run", make);
	if (s->run_fd == -1 && errno != ENOENT)
		return -1;
	if (read_host(s, make) == -1)
		return -1;
	if (s->run_fd == -1) {
		errno = ENOENT;
		return -1;
	}
	return 0;
}

static int
open_store(struct store *s, const char *path, bool make)
{
	char proc[64], name[PATH_MAX];
	ssize_t n;

	memset(s, 0, sizeof(*s));
	s->root_fd = s->audit_fd = s->run_fd = -1;
	if (plain_path(name, path) == -1 || (make && make_parents(name) == -1))
		return -1;
	s->root_fd = open_part(AT_FDCWD, name, make);
	if (s->root_fd == -1)
		goto fail;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", s->root_fd);
	n = readlink(proc, name, sizeof(name) - 1);
	if (n <= 0)
		goto fail;
	name[n] = '\0';
	s->path = strdup(name);
	if (s->path == NULL || open_parts(s, make) == -1)
		goto fail;
	return 0;
fail:
	store_close(s);
	return -1;
}

int
store_open(struct store *s, const char *path)
{
	return open_store(s, path, true);
}

int
store_look(struct store *s, const char *path)
{
	return open_store(s, path, false);
}

void
store_close(struct store *s)
{
	int saved = errno;

	if (s->root_fd != -1)
		close(s->root_fd);
	if (s->audit_fd != -1)
		close(s->audit_fd);
	if (s->run_fd != -1)
		close(s->run_fd);
	free(s->path);
	s->path = NULL;
	s->root_fd = s->audit_fd = s->run_fd = -1;
	errno = saved;
}

int
store_memory(const struct store *s, const char *tenant)
{
	int tenants, fd;

	if (strcmp(tenant, NIL_TENANT) == 0)
		return fcntl(s->root_fd, F_DUPFD_CLOEXEC, 3);
	tenants = open_dir(s->root_fd, "tenants", true);
	if (tenants == -1)
		return -1;
	fd = open_dir(tenants, tenant, true);
	close(tenants);
	return fd;
}

int
store_day(const struct store *s, const char day[CLOCK_DAY_SIZE], int make)
{
	return open_dir(s->audit_fd, day, make != 0);
}

static void
segment_name(const char *inv, unsigned part, char name[STORE_SEGMENT_NAME])
{
	snprintf(name, STORE_SEGMENT_NAME, "seg/%.2s/%.36s.p%u.jsonl", inv, inv,
	    part);
}

int
store_segment(
    int day_fd, const char *inv, unsigned part, char name[STORE_SEGMENT_NAME])
{
	char ab[3] = { inv[0], inv[1], '\0' };
	int seg, dir, fd = -1;

	seg = open_dir(day_fd, "seg", true);
	if (seg == -1)
		return -1;
	dir = open_dir(seg, ab, true);
	if (dir != -1) {
		segment_name(inv, part, name);
		fd = openat(day_fd, name,
		    O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
		close(dir);
	}
	close(seg);
	return fd;
}

void
store_segment_path(const char day[CLOCK_DAY_SIZE], const char *inv,
    unsigned part, char name[STORE_SEGMENT_NAME])
{
	snprintf(name, STORE_SEGMENT_NAME, "%.10s/seg/%.2s/%.36s.p%u.jsonl",
	    day, inv, inv, part);
}

static int
ledger_file(const struct store *s, const char *name, int flags)
{
	struct open_how how;
	struct stat st;
	int fd;

	memset(&how, 0, sizeof(how));
	how.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NOFOLLOW |
					 O_NONBLOCK | O_NOCTTY);
	how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
	fd = (int)syscall(SYS_openat2, s->audit_fd, name, &how, sizeof(how));
	if (fd == -1)
		return -1;
	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)) {
		close(fd);
		errno = EINVAL;
		return -1;
	}
	return fd;
}

int
store_ledger_file(const struct store *s, const char *name)
{
	return ledger_file(s, name, O_RDONLY);
}

int
store_ledger_append(const struct store *s, const char *name)
{
	return ledger_file(s, name, O_RDWR | O_APPEND);
}

bool
store_is_append_only(int fd)
{
	int flags;

	return ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 &&
	       (flags & FS_APPEND_FL) != 0;
}

bool
store_append_only(int fd, bool on)
{
	int flags;

	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == -1)
		return false;
	flags = on ? flags | FS_APPEND_FL : flags & ~FS_APPEND_FL;
	return ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
}

int
store_sync_segment(int day_fd, const char *inv)
{
	char dir[16];

	snprintf(dir, sizeof(dir), "seg/%.2s", inv);
	if (sync_dir(day_fd, dir) == -1 || sync_dir(day_fd, "seg") == -1 ||
	    fsync(day_fd) == -1)
		return -1;
	return sync_dir(day_fd, ".."); /* the first of a day made its name */
}

int
store_segment_exists(const struct store *s, const char *day, const char *inv)
{
	char name[STORE_SEGMENT_NAME];
	struct stat st;
	int fd, found;

	fd = store_day(s, day, 0);
	if (fd == -1)
		return errno == ENOENT ? 0 : -1;
	segment_name(inv, 1, name);
	found = fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!found && errno != ENOENT && errno != ENOTDIR)
		found = -1;
	close(fd);
	return found;
}

bool
store_is_day(const char *s)
{
	size_t i;

	for (i = 0; i < CLOCK_DAY_SIZE - 1; i++) {
		if (i == 4 || i == 7 ? s[i] != '-' : s[i] < '0' || s[i] > '9')
			return false;
	}
	return s[i] == '\0';
}

static int
add_day(struct store_days *days, const char *day)
{
	void *grown;

	grown = recallocarray(
	    days->day, days->n, days->n + 1, sizeof(*days->day));
	if (grown == NULL)
		return -1;
	days->day = grown;
	strlcpy(days->day[days->n++], day, CLOCK_DAY_SIZE);
	return 0;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

int
store_days(const struct store *s, struct store_days *days)
{
	struct dirent *e;
	DIR *d;
	int fd, result = 0;

	memset(days, 0, sizeof(*days));
	fd = openat(s->audit_fd, ".", DIR_FLAGS);
	d = fd == -1 ? NULL : fdopendir(fd);
	if (d == NULL) {
		if (fd != -1)
			close(fd);
		return -1;
	}
	while (result == 0 && (e = readdir(d)) != NULL) {
		if (store_is_day(e->d_name))
			result = add_day(days, e->d_name);
	}
	closedir(d);
	if (result == -1) {
		free(days->day);
		memset(days, 0, sizeof(*days));
	} else if (days->n > 0) {
		qsort(days->day, days->n, sizeof(*days->day), by_name);
	}
	return result;
}

bool
store_running(const struct store *s, const char *inv)
{
	char name[64];
	bool held;
	int fd;

	snprintf(name, sizeof(name), "%.36s.lock", inv);
	fd = store_file(s->run_fd, name, O_RDONLY);
	if (fd == -1)
		return false;
	held = flock(fd, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK;
	close(fd);
	return held;
}

int
store_lock_file(int fd, int64_t ms)
{
	const struct timespec nap = { 0, 500000 };
	int64_t until = clock_boot() + ms * CLOCK_MS;

	while (flock(fd, LOCK_EX | LOCK_NB) == -1) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -1;
		if (clock_boot() > until) {
			errno = ETIMEDOUT;
			return -1;
		}
		nanosleep(&nap, NULL);
	}
	return 0;
}

int
store_run_each(const struct store *s, const char *suffix,
    int (*each)(void *, const char *), void *arg)
{
	char inv[STORE_UUID_SIZE];
	struct dirent *e;
	DIR *d;
	int fd, result = 0;

	fd = openat(s->run_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd == -1 ? NULL : fdopendir(fd);
	if (d == NULL) {
		if (fd != -1)
			close(fd);
		return -1;
	}
	while (result == 0 && (e = readdir(d)) != NULL) {
		if (strlcpy(inv, e->d_name, sizeof(inv)) ==
			sizeof(inv) - 1 + strlen(suffix) &&
		    strcmp(e->d_name + sizeof(inv) - 1, suffix) == 0 &&
		    store_is_uuid(inv))
			result = each(arg, inv);
	}
	closedir(d);
	return result;
}

struct running {
	const struct store *store;
	int n;
};

static int
count_one(void *arg, const char *inv)
{
	struct running *r = arg;

	r->n += store_running(r->store, inv);
	return 0;
}

int
store_count_running(const struct store *s)
{
	struct running r = { s, 0 };

	return store_run_each(s, ".lock", count_one, &r) == 0 ? r.n : -1;
}

/* A byte of run/slots is a place; those without a bound are behind all others. */
static int
slot_lock(int fd, int command, short type, off_t start, off_t len)
{
	struct flock lock = { .l_type = type,
		.l_whence = SEEK_SET,
		.l_start = start,
		.l_len = len };

	if (fcntl(fd, command, &lock) == 0)
		return command == F_OFD_GETLK && lock.l_type != F_UNLCK;
	if (errno == EACCES)
		errno = EAGAIN;
	return -1;
}

/* Any free byte of so many from first on. */
static int
slot_take(int fd, unsigned first, unsigned most)
{
	unsigned i, at;

	random_bytes(&at, sizeof(at));
	at %= most; /* anywhere to begin with */
	for (i = 0; i < most; i++) {
		if (slot_lock(fd, F_OFD_SETLK, F_WRLCK,
			(off_t)first + (at + i) % most, 1) == 0)
			return 0;
		if (errno != EAGAIN)
			return -1;
	}
	return -1;
}

/*
 * Those that were started under another bound may have places behind ours: then
 * the locks of invocations are counted, too.
 */
static int
slot_check(const struct store *s, int fd, unsigned most)
{
	int others = slot_lock(fd, F_OFD_GETLK, F_WRLCK, (off_t)most, 0);

	if (others == 1)
		others = store_count_running(s);
	if (others >= 0 && (unsigned)others >= most) {
		errno = EAGAIN;
		return -1;
	}
	return others == -1 ? -1 : 0;
}

int
store_slot(const struct store *s, unsigned most)
{
	int fd, saved;

	fd = store_file(s->run_fd, STORE_SLOTS, O_RDWR | O_CREAT);
	if (fd == -1)
		return -1;
	if (most == 0 ? slot_take(fd, STORE_SLOTS_BOUNDED, STORE_SLOTS_BOUNDED)
		: slot_take(fd, 0, most) == -1 ? -1
					       : slot_check(s, fd, most)) {
		saved = errno;
		store_slot_free(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

void
store_slot_free(int fd)
{
	if (fd == -1)
		return;
	slot_lock(fd, F_OFD_SETLK, F_UNLCK, 0, 0);
	close(fd);
}

int
store_run_lock(const struct store *s, const char *inv)
{
	char fresh[64], name[64];
	int fd;

	snprintf(fresh, sizeof(fresh), ".%.36s.new", inv);
	snprintf(name, sizeof(name), "%.36s.lock", inv);
	fd = openat(
	    s->run_fd, fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd == -1)
		return -1;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	    renameat2(s->run_fd, fresh, s->run_fd, name, RENAME_NOREPLACE) == 0)
		return fd;
	close(fd);
	unlinkat(s->run_fd, fresh, 0);
	return -1;
}

int
store_run_file(const struct store *s, const char *inv, const char *suffix)
{
	char name[64];

	snprintf(name, sizeof(name), "%.36s.%.16s", inv, suffix);
	return openat(
	    s->run_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

void
store_run_unlink(const struct store *s, const char *inv, const char *suffix)
{
	char name[64];

	snprintf(name, sizeof(name), "%.36s.%.16s", inv, suffix);
	unlinkat(s->run_fd, name, 0);
}

int
store_is_uuid(const char *s)
{
	int i;

	for (i = 0; i < 36; i++) {
		if (i == 8 || i == 13 || i == 18 || i == 23) {
			if (s[i] != '-')
				return 0;
		} else if (!((s[i] >= '0' && s[i] <= '9') ||
			       (s[i] >= 'a' && s[i] <= 'f'))) {
			return 0;
		}
	}
	return s[36] == '\0';
}

void
store_new_uuid(char out[STORE_UUID_SIZE])
{
	unsigned char r[16];
	int i, n = 0;

	random_bytes(r, sizeof(r));
	r[6] = (unsigned char)((r[6] & 0x0f) | 0x40);
	r[8] = (unsigned char)((r[8] & 0x3f) | 0x80);
	for (i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			out[n++] = '-';
		snprintf(out + n, 3, "%02x", r[i]);
		n += 2;
	}
}

int
store_directory(const struct store *s, const char *name, bool make)
{
	return open_part(s->root_fd, name, make);
}

static int
spool_dir(const struct store *s, const char *dir, bool make)
{
	struct stat st;
	int fd;

	if (dir == NULL)
		dir = "spool";
	if (make && mkdirat(s->root_fd, dir, 0700) == -1 && errno != EEXIST)
		return -1;
	fd = openat(s->root_fd, dir,
	    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1)
		return -1;
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	    (st.st_mode & 022) == 0)
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

int
store_spool(const struct store *s, const char *dir, const char *inv, bool make)
{
	char name[64];
	int dir_fd = spool_dir(s, dir, make), fd, saved;

	if (dir_fd == -1)
		return -1;
	snprintf(name, sizeof(name), "%.36s.jsonl", inv);
	fd = store_file(dir_fd, name, O_RDWR | (make ? O_CREAT : 0));
	saved = errno;
	close(dir_fd);
	errno = saved;
	return fd;
}

void
store_spool_unlink(const struct store *s, const char *dir, const char *inv)
{
	char name[64];
	int dir_fd = spool_dir(s, dir, false);

	if (dir_fd == -1)
		return;
	snprintf(name, sizeof(name), "%.36s.jsonl", inv);
	unlinkat(dir_fd, name, 0);
	close(dir_fd);
}
