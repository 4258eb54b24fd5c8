/*
 * The second line behind the checks: what the broker may open at all. A broken
 * glob, a confused path or code that a skill took over meets the kernel here.
 */

#include "enforce/narrow.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "enforce/filter.h"
#include "enforce/landlock.h"
#include "enforce/path.h"

/* Read and write what the operator's root grants; end our own sandbox. */
static const unsigned kept_capabilities[] = { CAP_DAC_OVERRIDE,
	CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_CHOWN, CAP_KILL };
#define KEPT (sizeof(kept_capabilities) / sizeof(kept_capabilities[0]))

static bool
is_kept(unsigned long cap)
{
	size_t i;

	for (i = 0; i < KEPT; i++) {
		if (kept_capabilities[i] == cap)
			return true;
	}
	return false;
}

static int
drop_capabilities(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct data[2], now[2];
	unsigned long cap;
	unsigned bit;
	size_t i;

	if (syscall(SYS_capget, &head, now) == -1)
		return -1;
	/* The first that the kernel does not know, behind this one, ends it;
	 * without the right to drop there is little to drop. */
	for (cap = 0;
	     is_kept(cap) || prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		;
	if (errno != EPERM && (errno != EINVAL || cap <= CAP_SETPCAP))
		return -1;
	memset(data, 0, sizeof(data));
	for (i = 0; i < KEPT; i++) {
		cap = kept_capabilities[i];
		bit = 1U << (cap % 32);
		data[cap / 32].permitted |= now[cap / 32].permitted & bit;
		data[cap / 32].effective |= now[cap / 32].effective & bit;
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == -1)
		return -1;
	return (int)syscall(SYS_capset, &head, data);
}

/* Does the skill have a tool that writes files? */
static bool
writes_files(const struct grant *g)
{
	return grant_tool(g, "Write") == REASON_NONE ||
	    grant_tool(g, "Edit") == REASON_NONE;
}

/*
 * The nearest existing directory at or above a granted prefix. A file that may
 * be written needs its directory, since it is replaced by rename.
 */
static int
allow_prefix(int ruleset, int abi, const char *pattern, size_t len, bool write)
{
	char path[PATH_MAX];
	struct stat st;
	char *slash;
	int fd, result;

	if (len >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(path, pattern, len);
	path[len] = '\0';
	for (;;) {
		fd = open(path[0] == '\0' ? "/" : path, O_PATH | O_CLOEXEC);
		if (fd != -1 && fstat(fd, &st) == 0 &&
		    (S_ISDIR(st.st_mode) || !write))
			break;
		if (fd != -1)
			close(fd);
		slash = strrchr(path, '/');
		if (slash == NULL)
			return 0;
		*slash = '\0';
	}
	result = landlock_allow_fd(ruleset, abi, fd,
	    write ? LANDLOCK_WRITE : LANDLOCK_READ);
	close(fd);
	return result;
}

static int
allow_files(int ruleset, int abi, const struct grant *g, bool write)
{
	const struct glob_set *files = grant_manifest(g)->files;
	size_t i;

	write = write && writes_files(g);
	for (i = 0; i < glob_set_count(files); i++) {
		if (allow_prefix(ruleset, abi, glob_set_pattern(files, i),
			glob_set_prefix(files, i), write) == -1)
			return -1;
	}
	return 0;
}

/* Could this scope match something below the memory directory? */
static bool
scope_reaches(const struct glob_set *scopes, size_t i, const char *dir)
{
	const char *pattern = glob_set_pattern(scopes, i);
	size_t prefix = glob_set_prefix(scopes, i);
	size_t n = strlen(dir);

	if (prefix == 0)
		return true; /* nothing literal: it may be any of them */
	return strncmp(pattern, dir, n) == 0 &&
	    (pattern[n] == '/' || pattern[n] == '\0');
}

static int
allow_memory(int ruleset, int abi, const struct narrow *n, bool write)
{
	const struct glob_set *scopes =
	    grant_manifest(n->grant)->memory_scopes;
	const char *const *dir;
	size_t i;
	int fd, result;

	for (dir = path_memory_roots(); *dir != NULL; dir++) {
		for (i = 0; i < glob_set_count(scopes); i++) {
			if (scope_reaches(scopes, i, *dir))
				break;
		}
		if (i == glob_set_count(scopes))
			continue;
		if (write && mkdirat(n->memory_fd, *dir, 0700) == -1 &&
		    errno != EEXIST)
			return -1;
		fd = openat(n->memory_fd, *dir,
		    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd == -1)
			continue; /* a link or a file there is nobody's memory */
		result = landlock_allow_fd(ruleset, abi, fd,
		    write ? LANDLOCK_WRITE : LANDLOCK_READ);
		close(fd);
		if (result == -1)
			return -1;
	}
	return 0;
}

/* 1: the domain holds; 0: this host has none; -1 with errno. */
static int
enter_landlock(const struct narrow *n, bool write)
{
	int abi = landlock_abi(), ruleset, result = -1;

	if (abi == 0)
		return 0;
	/* No scopes: a signal to our own init must go on working. */
	ruleset = landlock_ruleset(abi, false);
	if (ruleset == -1)
		return -1;
	if (landlock_allow(ruleset, abi, "/dev/null", LANDLOCK_DEVICE) == 0 &&
	    allow_files(ruleset, abi, n->grant, write) == 0 &&
	    allow_memory(ruleset, abi, n, write) == 0 &&
	    landlock_enter(ruleset) == 0)
		result = 1;
	close(ruleset);
	return result;
}

int
narrow_broker(struct narrow *n)
{
	int domain;

	if (geteuid() == 0 && drop_capabilities() == -1)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1)
		return -1;
	domain = enter_landlock(n, true);
	if (domain == -1)
		return -1;
	n->landlock = domain == 1;
	return filter_enter(filter_of(SECCOMP_BROKER, false, false), false);
}

int
narrow_worker(void)
{
	narrow_environment();
	return filter_enter(filter_of(SECCOMP_WORKER, false, false), false);
}

int
narrow_walker(const struct narrow *n, int memory_fd)
{
	const struct narrow here = { .grant = n->grant,
		.memory_fd = memory_fd };

	narrow_environment();
	if (enter_landlock(&here, false) == -1)
		return -1;
	return filter_enter(filter_of(SECCOMP_WALKER, false, false), false);
}

void
narrow_environment(void)
{
	char **e;

	for (e = environ; e != NULL && *e != NULL; e++)
		memset(*e, 0, strlen(*e));
}
