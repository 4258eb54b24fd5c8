/*
 * The sum over all invocations: a fold that is killed at each of its system
 * calls, many that fold at once while others read, files that are broken.
 */

#include "audit/hostpage.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/counters.h"
#include "t/unit/tap.h"

static const char *const tools[] = {"Read", NULL};
static const char *const syscalls[] = {"bpf", NULL};
static const struct tally_names names = {tools, syscalls};
static char dir[] = "/tmp/hostpage.XXXXXX";
static struct store store;

static void
id_of(unsigned n, char inv[STORE_UUID_SIZE])
{
	snprintf(inv, STORE_UUID_SIZE, "0a1b2c3d-0000-4000-8000-%012u", n);
}

/* The page of an invocation that has made so many calls. */
static void
page(unsigned inv, unsigned calls)
{
	char id[STORE_UUID_SIZE];
	struct counters *c;
	int fd;

	id_of(inv, id);
	fd = store_run_file(&store, id, "status");
	c = fd == -1 ? NULL : counters_map(fd);
	if (c == NULL)
		abort();
	tally_init(counters_tally(c), &names);
	while (calls-- > 0)
		tally_call(counters_tally(c), "Read", TALLY_SUCCESS, 1000);
	counters_unmap(c);
	close(fd);
}

static bool
has_page(unsigned inv)
{
	char id[STORE_UUID_SIZE], name[64];

	id_of(inv, id);
	snprintf(name, sizeof(name), "%s.status", id);
	return faccessat(store.run_fd, name, F_OK, 0) == 0;
}

static int
fold(unsigned inv)
{
	char id[STORE_UUID_SIZE];

	id_of(inv, id);
	return hostpage_fold(&store, id, &names, NULL);
}

/* The calls that a reader is told of; -1: he is told nothing. */
static long long
calls(void)
{
	static struct metrics m;

	if (hostpage_read(&store, &names, &m) == -1)
		return -1;
	return (long long)m.tally.tools[1].calls[TALLY_SUCCESS];
}

static void
begin(void)
{
	unlinkat(store.run_fd, HOSTPAGE_FILE, 0);
	if (hostpage_make(&store, &names) == -1)
		abort();
}

static void
test_plain(void)
{
	char id[STORE_UUID_SIZE];
	struct tally rows;
	struct metrics m;
	int64_t since;

	ok(hostpage_read(&store, &names, &m) == 0 && m.since <= m.now &&
		m.tally.tools[1].calls[TALLY_SUCCESS] == 0 &&
		strcmp(m.tally.tools[1].name, "Read") == 0 && m.active == 0,
	    "before anything is counted");
	begin();
	ok(hostpage_read(&store, NULL, &m) == 0 &&
		strcmp(m.tally.tools[1].name, "Read") == 0 &&
		strcmp(m.tally.syscalls[1].name, "bpf") == 0,
	    "the sum knows the names");
	since = m.since;
	page(1, 3);
	is_int(calls(), 3, "a page that lives counts");
	is_int(hostpage_make(&store, &names), 0, "it is made once");
	page(2, 4);
	is_int(fold(1), 0, "a fold");
	ok(!has_page(1) && calls() == 7, "removes the page and keeps its counts");
	is_int(fold(1), 0, "the same again is nothing");
	is_int(calls(), 7, "and counts nothing");
	is_int(fold(2), 0, "another one");
	ok(hostpage_read(&store, NULL, &m) == 0 && m.since == since &&
		m.now >= m.since,
	    "since when does not move");
	is_int(calls(), 7, "all of it is in the sum");
	/* An id may come again after two days. */
	page(2, 5);
	is_int(calls(), 12, "the same id again is another page");
	fold(2);
	is_int(calls(), 12, "and folded like one");

	id_of(3, id);
	page(3, 1);
	tally_init(&rows, &names);
	tally_call(&rows, "Read", TALLY_SUCCESS, 1000);
	tally_call(&rows, "Read", TALLY_SUCCESS, 1000);
	rows.endings[TALLY_END_PANIC] = 1;
	is_int(hostpage_fold(&store, id, &names, &rows), 0, "with its rows");
	ok(calls() == 14 && hostpage_read(&store, NULL, &m) == 0 &&
		m.tally.endings[TALLY_END_PANIC] == 1,
	    "which count where they say more");
	close(store_run_file(&store, id, "status"));
	is_int(hostpage_fold(&store, id, &names, &rows), 0, "an empty page");
	ok(calls() == 16 && !has_page(3), "is one without counts");

	tally_init(&rows, &names);
	rows.spans_dropped[TALLY_FAILED] = 4;
	ok(hostpage_add(&store, &names, &rows, 1000) == 0 &&
		hostpage_add(&store, &names, &rows, 1000) == 0,
	    "what has no page is added");
	page(3, 1);
	ok(hostpage_read(&store, NULL, &m) == 0 &&
		m.tally.spans_dropped[TALLY_FAILED] == 8 && calls() == 17,
	    "each time, and to nothing else");
	fold(3);
	is_int(calls(), 17, "pages are folded as before");
}

/* Fold in a child that dies at its nth stop at a system call. True: it lived. */
static bool
fold_killed(unsigned inv, unsigned n)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit(fold(inv) == 0 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	while (WIFSTOPPED(status) && n-- > 0) {
		ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
		waitpid(pid, &status, 0);
	}
	if (!WIFSTOPPED(status))
		return WIFEXITED(status) && WEXITSTATUS(status) == 0;
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return false;
}

static void
test_killed(void)
{
	unsigned n;
	bool right = true, again = true, other = true, lived = false;

	for (n = 0; n < 1000 && !lived; n++) {
		begin();
		page(1, 2);
		fold(1);
		page(2, 5);
		lived = fold_killed(2, n);
		right = right && calls() == 7;
		page(3, 10);
		right = right && calls() == 17;
		/* Somebody else's comes first, or the same one again. */
		if (n % 2 == 0)
			other = other && fold(3) == 0 && calls() == 17;
		again = again && fold(2) == 0 && !has_page(2) && calls() == 17;
		other = other && fold(3) == 0 && !has_page(3) && calls() == 17;
	}
	ok(lived && n > 10, "killed at each of %u stops", n);
	ok(right, "a reader sees each count once");
	ok(again, "the next try finishes it");
	ok(other, "and so does another fold");
	for (n = 0, lived = false, right = true; n < 1000 && !lived; n++) {
		unlinkat(store.run_fd, HOSTPAGE_FILE, 0);
		page(1, 2);
		lived = fold_killed(1, n);
		right = right && calls() == 2 && fold(1) == 0 && calls() == 2;
	}
	ok(lived && right, "also when it makes the sum: %u stops", n);
}

#define FOLDERS 3
#define EACH 60

static void
test_many(void)
{
	unsigned i, j, running = FOLDERS, reads = 0;
	bool right = true;

	begin();
	for (i = 0; i < FOLDERS * EACH; i++)
		page(i, 1);
	for (i = 0; i < FOLDERS; i++) {
		if (fork() != 0)
			continue;
		for (j = i * EACH; j < (i + 1) * EACH; j++) {
			if (fold(j) == -1)
				_exit(1);
		}
		_exit(0);
	}
	while (running > 0) {
		int status;

		right = right && calls() == FOLDERS * EACH;
		reads++;
		while (running > 0 && waitpid(-1, &status, WNOHANG) > 0) {
			right = right && status == 0;
			running--;
		}
	}
	ok(right && calls() == FOLDERS * EACH,
	    "%u readers saw every count while %d folded", reads,
	    FOLDERS * EACH);
}

static void
scratch(off_t at, size_t n)
{
	char bad[16384];
	int fd = openat(store.run_fd, HOSTPAGE_FILE, O_WRONLY);

	memset(bad, 0xa5, sizeof(bad));
	if (fd == -1 || pwrite(fd, bad, n, at) != (ssize_t)n)
		abort();
	close(fd);
}

static void
test_broken(void)
{
	begin();
	page(1, 1);
	fold(1); /* slot 1 */
	page(2, 2);
	fold(2); /* slot 0 */
	scratch(4096 + 100, 64);
	is_int(calls(), 1, "of a slot that was half written the one before it");
	page(3, 4);
	fold(3);
	is_int(calls(), 5, "on which the next one builds");
	page(4, 8);
	fold(4);
	is_int(calls(), 13, "and the one behind that");
	scratch(4096 + 100, 64);
	scratch(4096 + 16384 + 100, 64);
	is_int(calls(), 0, "when both are broken");
	page(5, 1);
	is_int(calls(), 1, "what lives counts");
	fold(5);
	is_int(calls(), 1, "and a new sum begins");
	scratch(0, 8);
	page(6, 1);
	fold(6);
	is_int(calls(), 1, "the same without a header");
	unlinkat(store.run_fd, HOSTPAGE_FILE, 0);
	if (symlinkat("elsewhere", store.run_fd, HOSTPAGE_FILE) == -1)
		abort();
	page(7, 1);
	ok(fold(7) == -1 && has_page(7), "a link is no sum, and the page stays");
	ok(calls() == -1, "nor is it read");
	unlinkat(store.run_fd, HOSTPAGE_FILE, 0);
	is_int(fold(7), 0, "until it is gone");
}

int
main(void)
{

	if (mkdtemp(dir) == NULL || store_open(&store, dir) == -1)
		abort();
	test_plain();
	test_killed();
	test_many();
	test_broken();
	store_close(&store);
	remove_all(dir);
	return done();
}
