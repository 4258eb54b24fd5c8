/* The counter page: what a reader takes, and what it refuses. */

#include "audit/counters.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t/unit/tap.h"

static char file[] = "/tmp/counters.XXXXXX";

static void
put(const struct counters *c, size_t size)
{
	int fd = open(file, O_WRONLY | O_TRUNC);

	if (fd == -1 || write(fd, c, size) != (ssize_t)size)
		abort();
	close(fd);
}

static bool
taken(int fd)
{
	struct counters c;

	errno = 0;
	return counters_read(fd, &c) == 0 || errno != EBADMSG;
}

int
main(void)
{
	struct counters good, bad, seen, *c;
	struct stat st;
	int fd = mkstemp(file);
	pid_t pid;

	ok(!taken(fd), "an empty file is no page");
	c = counters_map(fd);
	ok(c != NULL && fstat(fd, &st) == 0 && st.st_size == COUNTERS_SIZE &&
		st.st_blocks > 0,
	    "the page has a block behind it");
	ok(!taken(fd), "without its magic it is none");
	strlcpy(c->invocation_id, "0a1b2c3d-0000-4000-8000-00000000eeee",
	    sizeof(c->invocation_id));
	memset(c->skill_id, 'x', 64);
	strlcpy(c->tenant_id, "00000000-0000-0000-0000-000000000000",
	    sizeof(c->tenant_id));
	c->magic = COUNTERS_MAGIC;
	ok(counters_read(fd, &seen) == 0 &&
		strcmp(seen.invocation_id, c->invocation_id) == 0 &&
		strlen(seen.skill_id) == 64,
	    "the texts");
	pid = fork();
	if (pid == 0) {
		c = counters_map(fd); /* a fork does not get the page */
		counters_add(c, calls);
		counters_add(c, calls);
		counters_add(c, denied);
		raise(SIGKILL);
	}
	waitpid(pid, NULL, 0);
	ok(counters_read(fd, &seen) == 0 && counters_get(&seen, calls) == 2 &&
		counters_get(&seen, denied) == 1 &&
		counters_get(&seen, errors) == 0,
	    "every count up to the SIGKILL");
	good = seen;
	bad = good;
	bad.invocation_id[36] = 'x';
	put(&bad, sizeof(bad));
	ok(!taken(fd), "an invocation id without an end");
	bad = good;
	bad.skill_id[64] = 'x';
	put(&bad, sizeof(bad));
	ok(!taken(fd), "a skill id without an end");
	bad = good;
	bad.tenant_id[36] = 'x';
	put(&bad, sizeof(bad));
	ok(!taken(fd), "a tenant id without an end");
	bad = good;
	bad.magic++;
	put(&bad, sizeof(bad));
	ok(!taken(fd), "another magic");
	put(&good, sizeof(good) - 1);
	ok(!taken(fd), "a page that was cut");
	put(&good, sizeof(good));
	ok(taken(fd), "put right it is one again");
	counters_unmap(c);
	counters_unmap(NULL);
	close(fd);
	ok(counters_read(fd, &seen) == -1 && errno == EBADF,
	    "what cannot be read");
	unlink(file);
	return done();
}
