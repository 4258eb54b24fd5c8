/* Where descriptors end: all of them, soon, one load at a time. */

#include "broker/sink.h"

#include <sys/resource.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "t/unit/tap.h"

/* n pipes; fds gets the ends to give away, held the others. */
static void
make(int fds[FDPASS_MAX], int held[FDPASS_MAX], int n)
{
	int ends[2], i;

	for (i = 0; i < n; i++) {
		if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) == -1)
			exit(99);
		fds[i] = ends[0];
		held[i] = ends[1];
	}
	if (n < FDPASS_MAX)
		fds[n] = -1;
}

/* How many of them have lost their other end? They are closed. */
static int
gone(const int held[FDPASS_MAX], int n)
{
	int i, count = 0;

	for (i = 0; i < n; i++) {
		count += write(held[i], "x", 1) == -1 && errno == EPIPE;
		close(held[i]);
	}
	return count;
}

static bool
wait_for(struct sink *s)
{
	struct pollfd p = { sink_fd(s), POLLIN, 0 };

	return poll(&p, 1, 60000) == 1;
}

int
main(void)
{
	int fds[FDPASS_MAX], held[FDPASS_MAX], more[FDPASS_MAX];
	int other[FDPASS_MAX];
	struct rlimit r = { 1024, 1024 };
	struct sink *s = sink_new();

	signal(SIGPIPE, SIG_IGN);
	if (getrlimit(RLIMIT_NOFILE, &r) == -1 || r.rlim_max < 1024)
		exit(99);
	r.rlim_cur = r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r) == -1)
		exit(99);
	ok(s != NULL && !sink_busy(s) && sink_fd(s) == -1, "idle at first");
	fds[0] = -1;
	sink_take(s, fds);
	ok(!sink_busy(s), "none is nothing to do");
	make(fds, held, FDPASS_MAX);
	sink_take(s, fds);
	ok(sink_busy(s) && sink_fd(s) != -1, "busy with the most there can be");
	make(more, other, 3);
	sink_take(s, more);
	is_int(gone(other, 3), 3, "what comes meanwhile is closed at once");
	ok(wait_for(s), "the thread tells when it has done");
	is_int(gone(held, FDPASS_MAX), FDPASS_MAX, "all of them are closed");
	ok(sink_busy(s), "it is busy until that was taken note of");
	sink_done(s);
	ok(!sink_busy(s) && sink_fd(s) == -1, "then idle");
	sink_done(s);
	make(fds, held, 1);
	sink_take(s, fds);
	ok(wait_for(s), "a second load");
	is_int(gone(held, 1), 1, "is closed as well");
	sink_done(s);
	make(fds, held, 100);
	sink_take(s, fds);
	sink_free(s);
	is_int(gone(held, 100), 100, "what it has is gone when it is freed");
	sink_free(NULL);
	return done();
}
