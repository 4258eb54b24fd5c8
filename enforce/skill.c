/*
 * Whose files a skill is made of. The checks follow sshd's StrictModes: what
 * somebody else could have replaced is not run by root.
 */

#include "enforce/skill.h"

#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_FLAGS (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/* skill_owners holds user names or numbers. */
static bool
owner_trusted(uid_t uid, const struct policy *policy)
{
	const struct passwd *pw;
	const char *wrong;
	size_t i;
	uid_t trusted;

	if (uid == 0)
		return true;
	for (i = 0; i < policy->skill_owners_n; i++) {
		trusted = (uid_t)strtonum(policy->skill_owners[i], 0,
		    UINT_MAX - 1, &wrong);
		if (wrong != NULL) {
			pw = getpwnam(policy->skill_owners[i]);
			if (pw == NULL)
				continue;
			trusted = pw->pw_uid;
		}
		if (uid == trusted)
			return true;
	}
	return false;
}

/* The directory and all above it; sticky ones protect what is in them. */
static bool
tree_trusted(int dir_fd, const struct policy *policy)
{
	struct stat st, above;
	int fd, up;
	bool trusted = false;

	fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
	if (fd == -1 || fstat(fd, &st) == -1)
		goto out;
	if ((st.st_mode & 022) != 0)
		goto out;
	for (;;) {
		if (!owner_trusted(st.st_uid, policy) ||
		    ((st.st_mode & 022) != 0 && (st.st_mode & S_ISVTX) == 0))
			goto out;
		up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (up == -1 || fstat(up, &above) == -1) {
			if (up != -1)
				close(up);
			goto out;
		}
		close(fd);
		fd = up;
		if (above.st_dev == st.st_dev && above.st_ino == st.st_ino)
			break;
		st = above;
	}
	trusted = true;
out:
	if (fd != -1)
		close(fd);
	return trusted;
}

static bool
file_trusted(int dir_fd, const char *name, const struct policy *policy)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return errno == ENOENT;
	return S_ISLNK(st.st_mode) ||
	    (owner_trusted(st.st_uid, policy) && (st.st_mode & 022) == 0);
}

enum skill_trouble
skill_open(const char *path, const struct policy *policy, int *dir_fd,
    char *name, char *why, size_t whylen)
{
	char proc[64];
	ssize_t n;
	int fd;

	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd == -1) {
		snprintf(why, whylen, "%s: %s", path, strerror(errno));
		return errno == ENOENT || errno == ENOTDIR ? SKILL_MISSING
							   : SKILL_BROKEN;
	}
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	n = readlink(proc, name, PATH_MAX - 1);
	if (n <= 0 || name[0] != '/') {
		snprintf(why, whylen, "%s: its real name cannot be found", path);
		close(fd);
		return SKILL_BROKEN;
	}
	name[n] = '\0';
	if (geteuid() == 0 &&
	    (!tree_trusted(fd, policy) ||
		!file_trusted(fd, "SKILL.md", policy) ||
		!file_trusted(fd, "main", policy) ||
		!file_trusted(fd, ".tenant", policy))) {
		snprintf(why, whylen,
		    "%s: others than root can write it or a directory above "
		    "it; change owner and mode, or name the owner in "
		    "skill_owners",
		    name);
		close(fd);
		return SKILL_UNTRUSTED;
	}
	*dir_fd = fd;
	return SKILL_FINE;
}

enum skill_trouble
skill_check_main(int dir_fd, char *why, size_t whylen)
{
	struct stat st;

	if (fstatat(dir_fd, "main", &st, AT_SYMLINK_NOFOLLOW) == -1)
		snprintf(why, whylen, "main: %s", strerror(errno));
	else if (!S_ISREG(st.st_mode))
		snprintf(why, whylen, "main: is not a regular file");
	else if ((st.st_mode & 0111) == 0)
		snprintf(why, whylen, "main: is not executable (chmod +x main)");
	else
		return SKILL_FINE;
	return SKILL_NO_MAIN;
}

enum skill_trouble
skill_check_tenant(int dir_fd, const char *tenant, char *why, size_t whylen)
{
	char text[64];
	struct stat st;
	ssize_t n = -1;
	int fd;

	fd = openat(dir_fd, ".tenant", FILE_FLAGS);
	if (fd != -1) {
		if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
			n = read(fd, text, sizeof(text));
		close(fd);
	}
	if (n <= 0) {
		snprintf(why, whylen,
		    "the skill is pinned to a tenant and has no .tenant file");
		return SKILL_TENANT;
	}
	/* The UUID, and the line end that an editor leaves. */
	if (text[n - 1] == '\n')
		n--;
	if (n > 0 && text[n - 1] == '\r')
		n--;
	if ((size_t)n != strlen(tenant) ||
	    memcmp(text, tenant, (size_t)n) != 0) {
		snprintf(why, whylen, "the skill is pinned to another tenant");
		return SKILL_TENANT;
	}
	return SKILL_FINE;
}
