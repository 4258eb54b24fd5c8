/* The rate of one invocation's calls. Time itself is the credit. */

#include "broker/limit.h"

#include "audit/clock.h"

void
limit_init(struct limit *l, unsigned per_minute, int64_t now)
{
	l->interval = per_minute == 0 ? 0 : 60 * CLOCK_SECOND / per_minute;
	l->burst = l->interval * per_minute;
	l->credit = l->burst;
	l->at = now;
}

unsigned
limit_take(struct limit *l, int64_t now)
{
	int64_t missing;

	if (l->interval == 0)
		return 0;
	l->credit += now - l->at;
	l->at = now;
	if (l->credit > l->burst)
		l->credit = l->burst;
	if (l->credit >= l->interval) {
		l->credit -= l->interval;
		return 0;
	}
	missing = l->interval - l->credit;
	return (unsigned)((missing + CLOCK_MS - 1) / CLOCK_MS);
}
