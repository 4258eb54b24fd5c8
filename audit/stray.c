/*
 * The names of files in the making. They are random and of one form, and that
 * form is all that is ever removed, whoever has written the note.
 */

#include "audit/stray.h"

#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/random.h"

#define PREFIX ".cyberos-"
#define SUFFIX ".tmp"
#define DIGITS 16
#define DYING_MS 200
#define NOTES_MAX ((off_t)16 * 1024) /* a broker has a few at a time */

_Static_assert(sizeof(PREFIX) + DIGITS + sizeof(SUFFIX) - 1 <= STRAY_NAME,
    "a name fits");

void
stray_name(char out[STRAY_NAME])
{
	uint32_t r[2];

	random_bytes(r, sizeof(r));
	snprintf(out, STRAY_NAME, PREFIX "%08x%08x" SUFFIX, r[0], r[1]);
}

static bool
is_stray_name(const char *s)
{
	const size_t prefix = sizeof(PREFIX) - 1;

	return strncmp(s, PREFIX, prefix) == 0 &&
	    strspn(s + prefix, "0123456789abcdef") == DIGITS &&
	    strcmp(s + prefix + DIGITS, SUFFIX) == 0;
}

/* A note: three texts, each with its NUL. */
off_t
stray_note(int fd, off_t len, pid_t pid, const char *dir, const char *name)
{
	char note[PATH_MAX + STRAY_NAME + 32];
	int n = snprintf(note, sizeof(note), "%ld%c%s%c%s", (long)pid, 0, name,
	    0, dir);

	if (n < 0 || (size_t)n >= sizeof(note)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	n++;
	if (ftruncate(fd, len) == -1 || pwrite(fd, note, (size_t)n, len) != n)
		return -1;
	return len + n;
}

/* Is this process, if it is still what was noted, dead within that time? */
static bool
is_gone(pid_t pid, int ms)
{
	char name[64], comm[32] = "";
	struct pollfd p = { .events = POLLIN };
	bool gone = true;
	int fd;

	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p.fd == -1)
		return true;
	snprintf(name, sizeof(name), "/proc/%ld/comm", (long)pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd != -1 && read(fd, comm, sizeof(comm) - 1) > 0 &&
	    strncmp(comm, "cyberos-", 8) == 0)
		gone = poll(&p, 1, ms) == 1;
	if (fd != -1)
		close(fd);
	close(p.fd);
	return gone;
}

static void
remove_one(const char *dir, const char *name)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS,
	};
	struct stat st;
	int fd;

	if (dir[0] != '/' || !is_stray_name(name))
		return;
	fd = (int)syscall(SYS_openat2, AT_FDCWD, dir, &how, sizeof(how));
	if (fd == -1)
		return;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISREG(st.st_mode))
		unlinkat(fd, name, 0);
	close(fd);
}

/* The next text of what is left, or NULL when it has no end. */
static const char *
take(const char **p, const char *end)
{
	const char *text = *p;
	const char *nul = memchr(text, '\0', (size_t)(end - text));

	if (nul == NULL)
		return NULL;
	*p = nul + 1;
	return text;
}

/* False when one of the processes lives on. */
static bool
remove_noted(const char *p, const char *end)
{
	const char *pid, *name, *dir;
	bool all = true;
	long number;

	while (p < end && (pid = take(&p, end)) != NULL &&
	    (name = take(&p, end)) != NULL && (dir = take(&p, end)) != NULL) {
		number = strtol(pid, NULL, 10);
		all = (number <= 0 || number > INT_MAX ||
			  is_gone((pid_t)number, all ? DYING_MS : 0)) &&
		    all;
		remove_one(dir, name);
	}
	return all;
}

int
stray_remove(const struct store *s, const char *inv, off_t from)
{
	char name[64], *notes;
	struct stat st;
	bool all;
	ssize_t n;
	int fd;

	snprintf(name, sizeof(name), "%.36s.stray", inv);
	fd = store_file(s->run_fd, name, O_RDONLY);
	if (fd == -1)
		return errno == ENOENT ? 0 : -1;
	if (fstat(fd, &st) == -1 || st.st_size > NOTES_MAX ||
	    (notes = malloc((size_t)st.st_size + 1)) == NULL) {
		close(fd);
		errno = EIO;
		return -1;
	}
	n = pread(fd, notes, (size_t)st.st_size, from);
	close(fd);
	all = n == -1 || remove_noted(notes, notes + n);
	free(notes);
	if (!all) {
		errno = EBUSY;
		return -1;
	}
	if (from == 0) /* else what is in front is still its owner's */
		store_run_unlink(s, inv, "stray");
	return 0;
}
