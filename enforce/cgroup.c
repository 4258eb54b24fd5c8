/*
 * The invocation's cgroup. It adds to the limits and the kill that hold
 * without it, so whatever is missing here is no error; but the host's own tree
 * is its manager's, and is touched only where it was given away.
 */

#include "enforce/cgroup.h"

#include <sys/stat.h>
#include <sys/xattr.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
cgroup_init(struct cgroup *c)
{
	c->path[0] = '\0';
	c->dir_fd = c->kill_fd = -1;
}

/* Where the version 2 tree is mounted. */
static bool
find_mount(char point[PATH_MAX])
{
	char *line = NULL, *type, where[PATH_MAX];
	size_t size = 0;
	bool found = false;
	FILE *f = fopen("/proc/self/mountinfo", "re");

	while (f != NULL && !found && getline(&line, &size, f) > 0) {
		type = strstr(line, " - cgroup2 ");
		if (type != NULL &&
		    sscanf(line, "%*d %*d %*s %*s %4095s", where) == 1) {
			strlcpy(point, where, PATH_MAX);
			found = true;
		}
	}
	free(line);
	if (f != NULL)
		fclose(f);
	return found;
}

/* Which group of it this process is in. */
static bool
find_own(char own[PATH_MAX])
{
	char *line = NULL;
	size_t size = 0;
	bool found = false;
	FILE *f = fopen("/proc/self/cgroup", "re");

	while (f != NULL && !found && getline(&line, &size, f) > 0) {
		if (strncmp(line, "0::/", 4) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		found = strlcpy(own, line + 3, PATH_MAX) < PATH_MAX;
	}
	free(line);
	if (f != NULL)
		fclose(f);
	return found;
}

static bool
is_delegated(const char *path)
{
	static const char *const marks[] = { "user.delegate",
		"trusted.delegate" };
	char value[4];
	size_t i;

	if (geteuid() != 0)
		return true; /* whether he may is seen when he tries */
	for (i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		if (getxattr(path, marks[i], value, sizeof(value)) == 1 &&
		    value[0] == '1')
			return true;
	}
	return false;
}

int
cgroup_make(struct cgroup *c, const char *name)
{
	char point[PATH_MAX], own[PATH_MAX], parent[PATH_MAX];
	int n;

	cgroup_init(c);
	if (!find_mount(point) || !find_own(own)) {
		errno = ENOENT;
		return -1;
	}
	n = snprintf(parent, sizeof(parent), "%s%s", point,
	    strcmp(own, "/") == 0 ? "" : own);
	if (n < 0 || (size_t)n >= sizeof(parent) - 80) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if (!is_delegated(parent)) {
		errno = EPERM;
		return -1;
	}
	snprintf(c->path, sizeof(c->path), "%.4000s/cyberos-%.40s", parent,
	    name);
	if (mkdir(c->path, 0700) == -1) {
		c->path[0] = '\0';
		return -1;
	}
	c->dir_fd = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->dir_fd != -1)
		c->kill_fd = openat(c->dir_fd, "cgroup.kill",
		    O_WRONLY | O_CLOEXEC);
	if (c->dir_fd == -1 || c->kill_fd == -1) {
		cgroup_remove(c);
		return -1;
	}
	return 0;
}

static void
set(const struct cgroup *c, const char *file, unsigned long long value)
{
	char text[32];
	int fd = openat(c->dir_fd, file, O_WRONLY | O_CLOEXEC);

	if (fd == -1)
		return;
	snprintf(text, sizeof(text), "%llu", value);
	if (write(fd, text, strlen(text)) == -1)
		errno = 0; /* the other limits hold without it */
	close(fd);
}

void
cgroup_limit(const struct cgroup *c, unsigned memory_mb, unsigned processes)
{
	if (c->dir_fd == -1)
		return;
	set(c, "memory.max", (unsigned long long)memory_mb << 20);
	set(c, "memory.swap.max", 0);
	set(c, "pids.max", processes);
}

void
cgroup_kill(const struct cgroup *c)
{
	if (c->kill_fd != -1 && write(c->kill_fd, "1", 1) == -1)
		errno = 0; /* the pidfd of init does it as well */
}

void
cgroup_remove(struct cgroup *c)
{
	if (c->kill_fd != -1)
		close(c->kill_fd);
	if (c->dir_fd != -1)
		close(c->dir_fd);
	if (c->path[0] != '\0')
		rmdir(c->path);
	cgroup_init(c);
}
