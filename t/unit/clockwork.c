/* The moments of an invocation, in their order, without waiting for them. */

#include <poll.h>
#include <stdint.h>

#include "audit/clock.h"
#include "broker/clockwork.h"

#include "t/unit/tap.h"

#define MINUTE (60 * CLOCK_SECOND)

static bool
wakes(const struct clockwork *c, int ms)
{
	struct pollfd fd = { c->timer_fd, POLLIN, 0 };

	return poll(&fd, 1, ms) == 1;
}

static void
test_moments(void)
{
	struct clockwork c;

	ok(clockwork_start(&c, MINUTE, 0) == 0, "starts");
	ok(c.terminate_at - c.started == 54 * CLOCK_SECOND,
	    "SIGTERM at 54 s of 60");
	ok(c.kill_at - c.started == MINUTE, "SIGKILL at 60 s");
	ok(c.refuse_at - c.terminate_at == 10 * CLOCK_SECOND,
	    "new calls for 10 s more");
	ok(clockwork_remaining_ms(&c) <= 60000 &&
		clockwork_remaining_ms(&c) > 50000,
	    "what is left");
	ok(clockwork_due(&c) == CLOCK_NOTHING && !wakes(&c, 0),
	    "nothing is due at the start");
	ok(!clockwork_refuses(&c), "nothing is refused at the start");
	c.refuse_at = clock_boot();
	ok(clockwork_refuses(&c), "refused when the grace is over");
	clockwork_stop(&c);
	ok(c.timer_fd == -1, "stops");
}

static void
test_order(void)
{
	struct clockwork c;

	clockwork_start(&c, 2 * CLOCK_SECOND, 20 * CLOCK_MS);
	ok(wakes(&c, 10000) && clockwork_due(&c) == CLOCK_NO_CONNECT,
	    "the time to connect");
	ok(!c.terminated, "that is no SIGTERM");
	ok(wakes(&c, 10000) && clockwork_due(&c) == CLOCK_TERMINATE,
	    "then SIGTERM");
	ok(c.terminated, "is remembered");
	ok(wakes(&c, 10000) && clockwork_due(&c) == CLOCK_KILL,
	    "then SIGKILL");
	ok(clockwork_due(&c) == CLOCK_NOTHING && !wakes(&c, 0),
	    "each comes once");
	ok(clockwork_remaining_ms(&c) == 0, "nothing is left");
	clockwork_stop(&c);
}

/* A machine that slept through all of it. */
static void
test_late(void)
{
	struct clockwork c;

	clockwork_start(&c, MINUTE, MINUTE);
	c.terminate_at = c.kill_at = c.connect_at = clock_boot() - MINUTE;
	ok(clockwork_due(&c) == CLOCK_KILL, "late: SIGKILL comes first");
	ok(clockwork_due(&c) == CLOCK_NOTHING, "late: and nothing after it");
	clockwork_stop(&c);
}

static void
test_connect_and_caller(void)
{
	struct clockwork c;

	clockwork_start(&c, MINUTE, 200 * CLOCK_MS);
	clockwork_connected(&c);
	ok(!wakes(&c, 300) && clockwork_due(&c) == CLOCK_NOTHING,
	    "connected: no event");
	clockwork_caller(&c);
	ok(c.connect_at == INT64_MAX, "who is to end need not connect");
	ok(c.caller_at - clock_boot() > 9 * CLOCK_SECOND,
	    "the caller's grace is 10 s");
	c.caller_at = clock_boot();
	ok(clockwork_due(&c) == CLOCK_CALLER_KILL, "then SIGKILL");
	ok(clockwork_due(&c) == CLOCK_NOTHING, "once");
	clockwork_stop(&c);
}

int
main(void)
{
	test_moments();
	test_order();
	test_late();
	test_connect_and_caller();
	return done();
}
