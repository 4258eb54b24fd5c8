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

/* What a page has when its writer was killed. */
static void
count_and_die(int fd)
{
	struct counters *c;
	pid_t pid = fork();

	if (pid != 0) {
		waitpid(pid, NULL, 0);
		return;
	}
	c = counters_map(fd); /* a fork does not get the page */
	counters_add(c, calls);
	counters_add(c, calls);
	counters_add(c, denied);
	tally_count(&counters_tally(c)->truncated, 5);
	raise(SIGKILL);
}

static void
check_counts(int fd)
{
	struct counters seen, *c;
	struct tally t;
	struct stat st;

	ok(!taken(fd), "an empty file is no page");
	c = counters_map(fd);
	ok(c != NULL && fstat(fd, &st) == 0 && st.st_size == COUNTERS_SIZE &&
		st.st_blocks > 0,
	    "the page has a block behind it");
	ok(!taken(fd), "without its magic it is none");
	ok(counters_read_tally(fd, &t) == -1 && errno == EBADMSG,
	    "without that of the metrics it has none");
	strlcpy(c->invocation_id, "0a1b2c3d-0000-4000-8000-00000000eeee",
	    sizeof(c->invocation_id));
	memset(c->skill_id, 'x', 64);
	strlcpy(c->tenant_id, "00000000-0000-0000-0000-000000000000",
	    sizeof(c->tenant_id));
	c->magic = COUNTERS_MAGIC;
	tally_init(counters_tally(c), NULL);
	ok(counters_read(fd, &seen) == 0 &&
		strcmp(seen.invocation_id, c->invocation_id) == 0 &&
		strlen(seen.skill_id) == 64,
	    "the texts");
	count_and_die(fd);
	ok(counters_read(fd, &seen) == 0 && counters_get(&seen, calls) == 2 &&
		counters_get(&seen, denied) == 1 &&
		counters_get(&seen, errors) == 0,
	    "every count up to the SIGKILL");
	ok(counters_read_tally(fd, &t) == 0 && t.truncated == 5,
	    "and every metric");
	counters_unmap(c);
}

static void
check_refused(int fd)
{
	struct counters good, bad;

	if (counters_read(fd, &good) == -1)
		abort();
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
}

static void
check_days(void)
{
	struct counters *c = counters_map(-1);

	ok(c != NULL && c->magic == 0, "one that nobody sees");
	counters_turn(c, INT64_C(1796083199) * CLOCK_SECOND);
	counters_add(c, calls);
	counters_add(c, calls);
	ok(counters_since(c, "2026-11-30").calls == 2 &&
		counters_since(c, "2026-12-01").calls == 0,
	    "what was counted is of its day");
	counters_turn(c, INT64_C(1796083200) * CLOCK_SECOND);
	counters_add(c, calls);
	counters_add(c, errors);
	ok(counters_since(c, "2026-12-01").calls == 1 &&
		counters_since(c, "2026-12-01").errors == 1,
	    "after midnight of the next one");
	counters_turn(c, INT64_C(1796083100) * CLOCK_SECOND);
	counters_add(c, calls);
	ok(counters_since(c, "2026-12-01").calls == 2,
	    "where it stays when the clock is set back");
	c->before[0] = UINT64_MAX;
	ok(counters_since(c, "2026-12-01").calls == 0, "nonsense is nothing");
	counters_unmap(c);
}

int
main(void)
{
	struct counters seen;
	int fd = mkstemp(file);

	check_counts(fd);
	check_refused(fd);
	check_days();
	counters_unmap(NULL);
	close(fd);
	ok(counters_read(fd, &seen) == -1 && errno == EBADF,
	    "what cannot be read");
	unlink(file);
	return done();
}
