/* Time as text, and that the two clocks are what they say. */

#include "audit/clock.h"

#include "t/unit/tap.h"

static void
stamp(int64_t ns, const char *want)
{
	char got[CLOCK_STAMP_SIZE], day[CLOCK_DAY_SIZE], want_day[11];

	clock_stamp(ns, got);
	is_str(got, want, want);
	clock_day(ns, day);
	snprintf(want_day, sizeof(want_day), "%.10s", want);
	is_str(day, want_day, "its day");
}

int
main(void)
{
	struct timespec real, boot;
	int64_t before, after;

	/* The machine's zone must not matter. */
	setenv("TZ", "Pacific/Kiritimati", 1);
	tzset();
	stamp(0, "1970-01-01T00:00:00.000000Z");
	stamp(1, "1970-01-01T00:00:00.000000Z");
	stamp(CLOCK_SECOND - 1, "1970-01-01T00:00:00.999999Z");
	stamp(951782399 * CLOCK_SECOND, "2000-02-28T23:59:59.000000Z");
	stamp(951782400 * CLOCK_SECOND, "2000-02-29T00:00:00.000000Z");
	stamp(1796083199 * CLOCK_SECOND + 999999999,
	    "2026-11-30T23:59:59.999999Z");
	stamp(1796083200 * CLOCK_SECOND, "2026-12-01T00:00:00.000000Z");
	stamp(4102444800 * CLOCK_SECOND + 4 * CLOCK_MS,
	    "2100-01-01T00:00:00.004000Z");
	before = clock_boot();
	clock_gettime(CLOCK_BOOTTIME, &boot);
	after = clock_boot();
	ok(before <= boot.tv_sec * CLOCK_SECOND + boot.tv_nsec &&
		boot.tv_sec * CLOCK_SECOND + boot.tv_nsec <= after,
	    "clock_boot is CLOCK_BOOTTIME");
	clock_gettime(CLOCK_REALTIME, &real);
	ok(clock_wall() - real.tv_sec * CLOCK_SECOND - real.tv_nsec <
		60 * CLOCK_SECOND,
	    "clock_wall is CLOCK_REALTIME");
	return done();
}
