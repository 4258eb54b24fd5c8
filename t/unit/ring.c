/*
 * audit/ring: what is put comes out once and in order, a full queue counts and
 * forgets the newest, and whatever one side writes into it, the other keeps
 * within bounds.
 */

#include "audit/ring.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "t/unit/tap.h"

static bool
put(struct ring *r, int64_t n, unsigned wake_at, bool *woke)
{
	struct span *s = ring_room(r, 2);
	bool wake;

	if (s == NULL)
		return false;
	span_init(s, SPAN_CALL);
	s->start = n;
	wake = ring_put(r, wake_at);
	if (woke != NULL)
		*woke = wake;
	return true;
}

static int64_t
take(struct ring *r)
{
	struct span s;

	return ring_take(r, &s) ? s.start : -1;
}

static void
test_order(void)
{
	int fd = ring_create(4), i;
	struct ring *in = ring_map(fd), *out = ring_map(fd);
	bool woke[6] = {false}, good = true;

	ok(in != NULL && out != NULL, "both sides map it");
	is_int(take(out), -1, "it is empty");
	for (i = 0; i < 6; i++)
		good = put(in, i, 3, &woke[i]) == (i < 4) && good;
	ok(good, "four have room, and two have not");
	is_int((long long)ring_dropped(out), 4, "their spans are counted");
	ok(!woke[0] && !woke[1] && woke[2] && !woke[3],
	    "it wakes when it has grown so far, and once");
	for (i = 0, good = true; i < 4; i++)
		good = take(out) == i && good;
	ok(good && take(out) == -1, "they come out in order, once");
	for (i = 0, good = true; i < 1000; i++)
		good = put(in, i, 9, NULL) && take(out) == i && good;
	ok(good, "round and round");
	ring_unmap(in);
	ring_unmap(out);
	close(fd);
}

static void
test_kill(void)
{
	int fd = ring_create(100), i;
	struct ring *out = ring_map(fd), *in;
	bool good = true;
	pid_t pid = fork();

	if (pid == 0) {
		in = ring_map(fd);
		for (i = 0; i < 50; i++)
			put(in, i, 0, NULL);
		raise(SIGKILL);
	}
	waitpid(pid, NULL, 0);
	for (i = 0; i < 50; i++)
		good = take(out) == i && good;
	ok(good && take(out) == -1, "a killed process leaves all it has put");
	pid = fork();
	if (pid == 0) {
		ring_take(out, &(struct span){.what = 0});
		_exit(0);
	}
	waitpid(pid, &i, 0);
	ok(WIFSIGNALED(i), "a fork does not have it");
	ring_unmap(out);
	close(fd);
}

/* Another takes where the one before him has died. */
static void
test_next(void)
{
	int fd = ring_create(4);
	struct ring *in = ring_map(fd), *out = ring_map(fd), *next;
	bool good = true;
	int i;

	for (i = 0; i < 10; i++)
		good = put(in, i, 0, NULL) && take(out) == i && good;
	for (; i < 13; i++)
		good = put(in, i, 0, NULL) && good;
	ok(good && take(out) == 10, "one has taken some");
	ring_unmap(out);
	next = ring_map(fd);
	ring_take_over(next);
	ok(take(next) == 11 && take(next) == 12 && take(next) == -1,
	    "the next one has the others");
	ok(put(in, 13, 0, NULL) && take(next) == 13, "and what comes then");
	ok(ring_taken(in) == 14 && ring_count(in) == 14, "each is counted");
	ring_unmap(in);
	ring_unmap(next);
	close(fd);
}

/* What the other side may write: the positions lie in the first two lines. */
static void
test_hostile(void)
{
	int fd = ring_create(4);
	struct ring *in = ring_map(fd), *out = ring_map(fd);
	uint64_t *raw = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
	    0);
	uint64_t values[] = {UINT64_MAX / 2, 5, 1000};
	bool good = true;
	struct span s;
	size_t i;

	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		raw[8] = values[i]; /* taken, more than was put */
		good = ring_room(in, 1) == NULL && good;
	}
	ok(good, "a position that cannot be looks full");
	raw[8] = 0;
	ok(put(in, 7, 0, NULL), "and does no lasting harm");
	for (i = 0, good = true; i < sizeof(values) / sizeof(values[0]); i++) {
		raw[0] = values[i]; /* put, more than there is room */
		good = !ring_take(out, &s) && good;
	}
	ok(good, "nor can one looks like more than there is");
	raw[0] = 1;
	is_int(take(out), 7, "what was there comes");
	ring_unmap(in);
	ring_unmap(out);
	munmap(raw, 4096);
	close(fd);
}

/* What was promised is put when its row is written, and once. */
static void
test_promise(void)
{
	int fd = ring_create(2);
	struct ring *in = ring_map(fd), *out = ring_map(fd), *by = ring_map(fd);
	int64_t n;

	for (n = 1; n <= 3; n++) {
		span_init(ring_room(in, 1), SPAN_CALL);
		ring_room(in, 1)->start = n;
		ring_promise(in, (uint64_t)(n * 10));
		is_int(take(out), -1, "what is promised is not there");
		ring_settle(by, (uint64_t)(n * 10 - 1));
		is_int(take(out), -1, "nor when its row is not written");
		ring_put(in, 0);
		ring_settle(by, UINT64_MAX);
		is_int(take(out), n, "what was put");
		is_int(take(out), -1, "is put once");
	}
	span_init(ring_room(in, 2), SPAN_CALL);
	ring_room(in, 2)->start = 7;
	ring_promise(in, 40);
	ring_settle(by, 40);
	is_int(take(out), 7, "a promise whose row is written is kept");
	ring_settle(by, 40);
	is_int(take(out), -1, "once");
	is_int((long long)ring_count(by), 4, "and counted");
	ring_unmap(in);
	ring_unmap(out);
	ring_unmap(by);
	close(fd);
}

static void
test_file(void)
{
	int fd = ring_create(8), other;

	ok(ftruncate(fd, 0) == -1 && ftruncate(fd, 1 << 20) == -1,
	    "its file can be neither cut nor made longer");
	close(fd);
	ok(ring_create(0) == -1 && ring_create(RING_SLOTS_MAX + 1) == -1,
	    "sizes have bounds");
	other = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ok(ftruncate(other, 1 << 20) == 0 && ring_map(other) == NULL &&
		errno == EINVAL,
	    "what is not sealed is refused");
	close(other);
	other = open("/dev/null", O_RDWR);
	ok(ring_map(other) == NULL, "and what is no such file");
	close(other);
	ring_unmap(NULL);
}

int
main(void)
{
	test_order();
	test_kill();
	test_promise();
	test_next();
	test_hostile();
	test_file();
	return done();
}
