/*
 * The two clocks. Limits use the one that nobody can set; the wall clock only
 * ever becomes text in a row.
 */

#include "audit/clock.h"

#include <stdio.h>

static int64_t
read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * CLOCK_SECOND + ts.tv_nsec;
}

int64_t
clock_boot(void)
{
	return read_clock(CLOCK_BOOTTIME);
}

int64_t
clock_wall(void)
{
	return read_clock(CLOCK_REALTIME);
}

void
clock_stamp(int64_t wall_ns, char out[CLOCK_STAMP_SIZE])
{
	time_t s = (time_t)(wall_ns / CLOCK_SECOND);
	struct tm tm;
	char text[64];

	gmtime_r(&s, &tm);
	snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ",
	    tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
	    tm.tm_sec, (int)(wall_ns % CLOCK_SECOND / 1000));
	snprintf(out, CLOCK_STAMP_SIZE, "%.27s", text);
}

void
clock_day(int64_t wall_ns, char out[CLOCK_DAY_SIZE])
{
	char stamp[CLOCK_STAMP_SIZE];

	clock_stamp(wall_ns, stamp);
	snprintf(out, CLOCK_DAY_SIZE, "%.10s", stamp);
}
