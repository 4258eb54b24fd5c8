#ifndef ENFORCE_SPAWNER_H
#define ENFORCE_SPAWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "enforce/confine.h"

/*
 * The one process that stays outside of what the broker confines itself to
 * (DESIGN, Processes): it takes requests of a fixed size, with descriptors, from
 * the broker, and has a child do each of them: build the sandbox of a Bash call,
 * or become the net worker. It parses nothing that a skill wrote.
 */

enum spawner_what {
	SPAWNER_BASH,		/* with four descriptors, below */
	SPAWNER_NET,		/* with one: the worker's end of its channel */
	SPAWNER_STARTED,	/* answers; with control and pidfd, or a pidfd */
	SPAWNER_FAILED,
	SPAWNER_GONE		/* the child is, and all that was below it */
};

#define SPAWNER_FDS	4
enum { SPAWNER_COMMAND, SPAWNER_STDIN, SPAWNER_STDOUT, SPAWNER_STDERR };

struct spawner_message {
	enum spawner_what what;
	uint64_t id;
	int	 code;		/* of FAILED: what shares said, or one of these */
	char	 text[4096];	/* the working directory; why it failed */
};

#define SPAWNER_NO_SANDBOX	0	/* and text says why */
#define SPAWNER_NO_CWD		(-1)	/* the working directory is not there */

/* What its children call, with the memory that the broker had when it forked. */
struct spawner_work {
	/* What of the host is shown now. 0, or a code above 0. */
	int	(*shares)(void *arg, struct shares *);
	/* While it runs: may it go on? 0, or a code above 0; then it is ended. */
	int	(*watch)(void *arg, const struct shares *);
	/* Start the net worker: a pidfd, or -1 with a sentence in why. */
	int	(*net)(void *arg, int channel_fd, char *why, size_t whylen);
	void	*arg;
};

/*
 * Fork it, with the descriptors in keep (-1: none), and return our end of its
 * channel, a SOCK_SEQPACKET socket, or -1 with errno. The plan is that of the
 * skill; what differs for Bash is set here. Before the broker has any secret
 * and before it confines itself.
 */
int	spawner_start(const struct confine_plan *, const struct spawner_work *,
	    const int keep[], size_t n, pid_t *pid);

/* One message with n descriptors. 0, or -1 with errno: EAGAIN when there is no room
 * for it and wait is false, as it is for the broker. */
int	spawner_send(int channel_fd, const struct spawner_message *,
	    const int fds[], size_t n, bool wait);

/*
 * Receive one; fds that did not come are -1. 1, 0 when there is none and
 * wait is false, or -1: the other end is gone.
 */
int	spawner_receive(int channel_fd, struct spawner_message *,
	    int fds[SPAWNER_FDS], bool wait);

#endif
