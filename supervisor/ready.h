#ifndef SUPERVISOR_READY_H
#define SUPERVISOR_READY_H

#include <stdbool.h>
#include <sys/types.h>

#include "broker/broker.h"
#include "enforce/cgroup.h"
#include "enforce/room.h"
#include "supervisor/supervisor.h"

/*
 * A broker before its invocation: forked ahead, with a sandbox that is built as
 * far as it is the same for every skill, so that a start has less to wait for. It
 * holds nothing of any invocation, and becomes the broker of exactly one.
 */
struct ready {
	pid_t		 pid;		/* -1: there is none */
	int		 pidfd;
	int		 control_fd;	/* readable when it is gone */
	struct room	*room;		/* NULL: it has its job */
	struct cgroup	 cgroup;
};

void	ready_init(struct ready *);

/*
 * Fork one, when what sup says will not change any more; name is for its cgroup,
 * where there are such. It forgets what the supervisor knows (sup->forget). early:
 * nobody waits for it yet. 0, or -1 with errno and nothing left.
 */
int	ready_start(struct ready *, const struct supervisor *,
	    const char *name, bool early);

/*
 * Give it the job; the descriptors stay the caller's. 0: it has moved to *to. -1
 * with errno: E2BIG, or EPIPE and its like when it has died; it is ended then.
 */
int	ready_give(struct ready *, const struct broker_job *, struct ready *to);

/*
 * End it, if there is one, and all below it, before it has the files of its job:
 * it sees that the channel ends, ends what it has begun and goes, or is killed
 * after so many milliseconds. It is reaped, its cgroup is gone, *r is empty.
 */
void	ready_end(struct ready *, int ms);
#define READY_LEAVE_MS	1000	/* for one that has nothing to do */

#endif
