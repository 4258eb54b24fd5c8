#ifndef ENFORCE_INIT_H
#define ENFORCE_INIT_H

#include <stdatomic.h>

#include "enforce/confine.h"
#include "enforce/notify.h"
#include "enforce/probe.h"
#include "enforce/spawn.h"

/*
 * The small process between broker and skill: PID 1 of the sandbox where there
 * are namespaces. Private to enforce/.
 */

/* How one thing went. */
struct init_report {
	int step;  /* index in the table, or one of these */
	int error; /* 0: the step holds */
	int64_t at; /* CLOCK_MONOTONIC, nanoseconds: what each step costs */
};
#define INIT_REPORT_READY	(-1)	/* the skill's process waits */
#define INIT_REPORT_EXEC	(-2)	/* main could not be executed */
#define INIT_REPORT_FORK	(-3)
#define INIT_REPORT_PROBE	1000	/* plus the row of probe.c; error: result */

/*
 * Memory that the broker shares with init, for its life, and, until it executes its
 * program, the skill's process.
 *
 * The reports of a start: waking the broker for each of them would cost more
 * than the steps. One of the latter two writes at a time. READY and EXEC come
 * up the report pipe, whose end says that no more will come.
 *
 * The plan of a staged start; what it points to is in its room. The broker
 * writes both before it says INIT_PLAN, and then no more.
 *
 * How many refused attempts init has answered: one that is killed cannot tell any
 * more of its last ones.
 */
struct init_shared {
	_Atomic uint64_t attempts;
	_Atomic unsigned n;
	struct init_report at[CONFINE_STEPS_MAX + PROBES_MAX + 2];
	struct confine_plan plan;
};

/* What goes over the control socket, both ways. */
struct init_control {
	char what;
	struct spawn_message message;
};
#define INIT_MAPS_WANTED	'm'	/* as an ordinary user only */
#define INIT_MAPS_WRITTEN	'M'	/* as root with the trees of the binds */
#define INIT_PLAN		'P'	/* staged: streams, trees, the bundle's image */
#define INIT_DEADLINE		'D'	/* message.deadline: T is then */
#define INIT_TERMINATE		'T'
#define INIT_JUDGE		'J'	/* with a descriptor */
#define INIT_PEER		'j'
#define INIT_ATTEMPT		'a'
#define INIT_STATUS		's'

/* One message and at most one descriptor (-1: none). As sendmsg and recvmsg. */
ssize_t	init_send(int fd, const struct init_control *, int pass, int flags);
ssize_t	init_receive(int fd, struct init_control *, int *passed, int flags);

/* Everything after the clone; never returns. */
void	init_process(struct confine_plan *) __attribute__((noreturn));

#endif
