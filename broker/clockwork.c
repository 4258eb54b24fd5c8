/*
 * One timer for every moment that matters, on a clock that cannot be set and
 * that goes on while the machine sleeps.
 */

#include "broker/clockwork.h"

#include <sys/timerfd.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "audit/clock.h"

#define GRACE (10 * CLOCK_SECOND)

static void
arm(struct clockwork *c)
{
	const int64_t moments[] = { c->terminate_at, c->kill_at, c->connect_at,
		c->caller_at };
	struct itimerspec when;
	int64_t next = INT64_MAX;
	size_t i;

	for (i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
		if (moments[i] < next)
			next = moments[i];
	}
	memset(&when, 0, sizeof(when));
	if (next != INT64_MAX) {
		when.it_value.tv_sec = next / CLOCK_SECOND;
		when.it_value.tv_nsec = next % CLOCK_SECOND;
	}
	timerfd_settime(c->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

int
clockwork_start(struct clockwork *c, int64_t total, int64_t connect)
{
	memset(c, 0, sizeof(*c));
	c->timer_fd = timerfd_create(CLOCK_BOOTTIME,
	    TFD_CLOEXEC | TFD_NONBLOCK);
	if (c->timer_fd == -1)
		return -1;
	c->started = clock_boot();
	c->terminate_at = c->started + total / 10 * 9;
	c->refuse_at = c->terminate_at + GRACE;
	c->kill_at = c->started + total;
	c->connect_at = connect == 0 ? INT64_MAX : c->started + connect;
	c->caller_at = INT64_MAX;
	arm(c);
	return 0;
}

void
clockwork_stop(struct clockwork *c)
{
	if (c->timer_fd != -1)
		close(c->timer_fd);
	c->timer_fd = -1;
}

void
clockwork_connected(struct clockwork *c)
{
	if (c->connect_at == INT64_MAX)
		return;
	c->connect_at = INT64_MAX;
	arm(c);
}

void
clockwork_caller(struct clockwork *c)
{
	c->caller_at = clock_boot() + GRACE;
	c->connect_at = INT64_MAX; /* it need not any more */
	arm(c);
}

enum clock_event
clockwork_due(struct clockwork *c)
{
	int64_t now = clock_boot();
	enum clock_event event = CLOCK_NOTHING;
	uint64_t ticks;

	if (read(c->timer_fd, &ticks, sizeof(ticks)) == -1 && errno != EAGAIN)
		return CLOCK_NOTHING;
	if (now >= c->kill_at) {
		event = CLOCK_KILL;
		/* After the end nothing else can become due. */
		c->kill_at = c->terminate_at = INT64_MAX;
		c->connect_at = c->caller_at = INT64_MAX;
	} else if (now >= c->terminate_at) {
		event = CLOCK_TERMINATE;
		c->terminate_at = INT64_MAX;
		c->terminated = true;
	} else if (now >= c->caller_at) {
		event = CLOCK_CALLER_KILL;
		c->caller_at = INT64_MAX;
	} else if (now >= c->connect_at) {
		event = CLOCK_NO_CONNECT;
		c->connect_at = INT64_MAX;
	}
	arm(c);
	return event;
}

bool
clockwork_refuses(const struct clockwork *c)
{
	return clock_boot() >= c->refuse_at;
}

int64_t
clockwork_remaining_ms(const struct clockwork *c)
{
	int64_t left = c->kill_at == INT64_MAX ? 0 : c->kill_at - clock_boot();

	return left < 0 ? 0 : left / CLOCK_MS;
}
