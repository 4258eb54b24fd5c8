/* The token bucket, on a clock that the test holds. */

#include "broker/limit.h"

#include <limits.h>

#include "audit/clock.h"
#include "t/unit/tap.h"

#define MINUTE (60 * CLOCK_SECOND)

/* Take n calls at one moment; how many may go on? */
static int
take(struct limit *l, int n, int64_t now)
{
	int may = 0;

	while (n-- > 0)
		may += limit_take(l, now) == 0;
	return may;
}

static void
test_unbounded(void)
{
	struct limit l;

	limit_init(&l, 0, 5);
	is_int(take(&l, 100000, 5), 100000, "0 is unbounded");
	is_int(take(&l, 10, 0), 10, "whatever the clock says");
}

static void
test_burst(void)
{
	struct limit l;

	limit_init(&l, 10, MINUTE);
	is_int(take(&l, 25, MINUTE), 10, "a minute's calls at once, no more");
	is_int(limit_take(&l, MINUTE), 6000, "the wait is to the next one");
	is_int(limit_take(&l, MINUTE + 1), 6000, "rounded up");
	is_int(limit_take(&l, MINUTE + 5999 * CLOCK_MS), 1, "and no longer");
	is_int(limit_take(&l, MINUTE + 6000 * CLOCK_MS), 0,
	    "it may go on when it was told");
	is_int(limit_take(&l, MINUTE + 6000 * CLOCK_MS), 6000,
	    "a refused one costs nothing, an allowed one does");
}

static void
test_idle(void)
{
	struct limit l;

	limit_init(&l, 3, 0);
	is_int(take(&l, 3, 0), 3, "three a minute");
	is_int(take(&l, 9, 1000 * MINUTE), 3, "idle hours earn one minute's");
	is_int(
	    take(&l, 9, 1000 * MINUTE + MINUTE / 3), 1, "then one each 20 s");
}

static void
test_long_run(void)
{
	static const unsigned rates[] = {1, 7, 59, 60, 1000, 1000000};
	struct limit l;
	unsigned i;
	int64_t t, done;

	for (i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		limit_init(&l, rates[i], 0);
		done = 0;
		for (t = 0; t < 3 * MINUTE; t += MINUTE / 100000)
			done += limit_take(&l, t) == 0;
		/* The burst, and what three minutes earn, and no more. */
		ok(done <= 4 * (int64_t)rates[i] + 4 &&
			(done >= 4 * (int64_t)rates[i] - 4 || done == 300000),
		    "%u a minute holds over three (%lld)", rates[i],
		    (long long)done);
	}
}

static void
test_extremes(void)
{
	struct limit l;

	limit_init(&l, UINT_MAX, 0);
	ok(take(&l, 1000, 0) == 1000 && l.interval > 0,
	    "the largest rate is still a rate");
	limit_init(&l, 1, INT64_MAX - 10 * MINUTE);
	is_int(take(&l, 5, INT64_MAX - 10 * MINUTE), 1, "one a minute");
	is_int(take(&l, 5, INT64_MAX - 8 * MINUTE), 1, "late in time as well");
	limit_init(&l, 1, 0);
	is_int(limit_take(&l, 0), 0, "the first of a minute");
	is_int(limit_take(&l, 0), 60000, "the second waits for all of it");
}

int
main(void)
{
	test_unbounded();
	test_burst();
	test_idle();
	test_long_run();
	test_extremes();
	return done();
}
