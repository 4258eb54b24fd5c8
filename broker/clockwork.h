#ifndef BROKER_CLOCKWORK_H
#define BROKER_CLOCKWORK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The moments of an invocation (SPEC 9): SIGTERM at 90 % of its time T, the
 * end of the grace for new calls 10 s later, SIGKILL at T; the time until the
 * skill must have connected; the grace after the caller's SIGTERM.
 */
enum clock_event {
	CLOCK_NOTHING,
	CLOCK_TERMINATE,	/* 0.9 T */
	CLOCK_KILL,		/* T */
	CLOCK_NO_CONNECT,
	CLOCK_CALLER_KILL	/* 10 s after the caller asked for the end */
};

struct clockwork {
	int	timer_fd;	/* readable when something is due */
	int64_t	started;	/* clock_boot of the exec */
	int64_t	terminate_at;
	int64_t	refuse_at;	/* new calls get "deadline" from here on */
	int64_t	kill_at;
	int64_t	connect_at;	/* INT64_MAX: off, or it has connected */
	int64_t	caller_at;	/* INT64_MAX: the caller said nothing */
	bool	terminated;
};

/* 0 or -1 with errno. total and connect are nanoseconds; connect 0 is off. */
int	clockwork_start(struct clockwork *, int64_t total, int64_t connect);
void	clockwork_stop(struct clockwork *);

/* The skill has connected. */
void	clockwork_connected(struct clockwork *);

/* The caller asked for the end now. */
void	clockwork_caller(struct clockwork *);

/* The next thing that is due, one at a time; sets the timer for the rest. */
enum clock_event clockwork_due(struct clockwork *);

/* Are new calls refused by now? */
bool	clockwork_refuses(const struct clockwork *);
int64_t	clockwork_remaining_ms(const struct clockwork *);

#endif
