#ifndef ENFORCE_SPAWN_H
#define ENFORCE_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "enforce/confine.h"
#include "enforce/probe.h"

/*
 * A child that lives just to make a user namespace, in our own memory. It is
 * killed at once and reaped when nobody waits for us any more; until then its
 * stack is here.
 */
struct spawn_maker {
	pid_t	 pid;
	int	 pidfd;
	int	 map_fd;	/* the namespace, or -1 */
	_Alignas(16) char stack[4096];
};

/*
 * Start the sandbox: clone, the steps of confine.c, a small init that is not
 * the skill. The failing step and its errno come up a pipe. Call it from the
 * main thread, before any other thread exists.
 */
struct spawned {
	pid_t	 init_pid;
	int	 init_pidfd;
	int	 control_fd;	/* to init; a SOCK_SEQPACKET socket */
	int	 report_fd;
	int	 go_fd;
	struct spawn_maker ours; /* of what is our own */
	bool	 namespaces;
	const struct cgroup *cgroup;	/* it was born in, or NULL */
	uint8_t	 states[CONFINE_STEPS_MAX];	/* enum confine_state */
	int64_t	 cost_ns[CONFINE_STEPS_MAX];	/* of each step; 0 for clone's */
	int64_t	 clone_ns;	/* of the clone with all its flags, and the maps */
	uint8_t	 probes[PROBES_MAX];	/* enum probe_result, with attest */
	const char *failed;	/* the last step that a try came to; at its end
				 * the one that failed */
	int	 error;		/* and its errno */
	struct init_shared *shared;	/* with init, once it has begun */
	bool	 begun;
	int64_t	 begun_at;	/* CLOCK_MONOTONIC, nanoseconds: of the try */
};

/* Close every descriptor but these; -1 stands for none. Sorts them. Only calls
 * that are allowed after fork. 0, or -1 with errno. */
int	spawn_close_others(int *keep, size_t n);

void	spawn_init(struct spawned *);
void	spawn_clear(struct spawned *);

/* Who we are and what we may, for a plan; the ids are ours until spawn_lock_uid
 * has others. */
void	spawn_rights(struct confine_plan *);

/*
 * What is to be shown: opened now, with its device and inode. path is
 * borrowed. 0 or -1 with errno; spawn_bind_clear takes an unfilled one too.
 */
void	spawn_bind_init(struct confine_bind *);
int	spawn_bind(struct confine_bind *, const char *path);

/* The same of what is held: an O_PATH descriptor, which becomes its own (-1: errno
 * says why not). What path leads to later must turn out to be that. */
int	spawn_bind_held(struct confine_bind *, const char *path, int fd);
void	spawn_bind_clear(struct confine_bind *);

/*
 * Begin with what is the same for every skill, before it is known for which; of
 * the plan root, best_effort, host ids, self, cgroup and keep_fd are
 * settled. spawn_begin, or spawn_kill and spawn_wait, must follow. Optional: where
 * it fails, or what follows does not fit, spawn_begin begins anew.
 */
void	spawn_prepare(struct confine_plan *, struct spawned *);

/* While nobody waits: reap what helped with that. Else it is done later. */
void	spawn_reap(struct spawned *);

/*
 * Begin with the sandbox and come back while init builds it; spawn_start, or
 * spawn_kill and spawn_wait, must follow. Optional, and it tells nothing:
 * spawn_start knows how it went. Until then the plan is init's as well, and no
 * thread may be made.
 */
void	spawn_begin(struct confine_plan *, struct spawned *);

/*
 * Build the sandbox up to the point where the skill's process waits for one
 * byte. 0, or -1 with a sentence in why[] that names the step; then nothing of
 * it is left. Namespaces come all or not at all: when it had to do without
 * something, the result is 0 and why[] says what stood in the way; otherwise
 * it is "" then.
 */
int	spawn_start(struct confine_plan *, struct spawned *, char *why,
	    size_t whylen);

/* Let the skill go; then wait for it: 0 when its program was executed, else
 * the errno. */
void	spawn_release(struct spawned *);
int	spawn_executed(struct spawned *);

/* Init sends SIGTERM, then SIGCONT, to every process of the skill. */
void	spawn_terminate(const struct spawned *);

/*
 * SIGKILL to init: the kernel ends everything in the sandbox. Without a PID
 * namespace init is told to do it: it alone has the uid of what it ends.
 */
void	spawn_kill(struct spawned *);

/*
 * After spawn_kill: wait until init is gone, and with it what was below it, for
 * so many milliseconds (-1: as long as it takes). It may be called again.
 */
void	spawn_wait(const struct spawned *, int ms);

/* Ask init who is at the other end of an accepted connection. 0, or -1 with
 * errno; EPIPE or ECONNRESET: init is gone. */
int	spawn_judge(const struct spawned *, int conn_fd);

/* T, on clock_boot's clock: init ends everything then if we do not. */
void	spawn_deadline(const struct spawned *, int64_t at);

enum spawn_event {
	SPAWN_NOTHING,
	SPAWN_STATUS,		/* the skill's process has ended */
	SPAWN_PEER,		/* the answer to spawn_judge, in order */
	SPAWN_ATTEMPT,		/* something was refused and is to be recorded */
	SPAWN_GONE		/* init has closed its end */
};

#define SPAWN_TARGET	96	/* bytes of what an attempt aimed at */

/* A refused escape attempt; each distinct one is told once. */
struct spawn_attempt {
	int	 nr;		/* of the system call; -1: all the others */
	uint64_t count;		/* of the others a running total */
	char	 target[SPAWN_TARGET];	/* printable, for the record only */
};

struct spawn_message {
	int	 code;		/* si_code: CLD_EXITED, CLD_KILLED, CLD_DUMPED */
	int	 status;	/* exit code or signal */
	pid_t	 pid;		/* of the peer, in the sandbox; 0: a stranger */
	uid_t	 uid;
	int64_t	 deadline;
	struct spawn_attempt attempt;
};

/* How many refused attempts there were in it; also when init is gone. */
uint64_t spawn_attempts(const struct spawned *);

/* The name of a system call, for rows. */
const char *spawn_call_name(int nr, char out[32]);

/* All names that a SPAWN_ATTEMPT can have, but for "unknown"; NULL ends them. */
#define SPAWN_CALLS_MAX	126
struct spawn_calls {
	char	 text[SPAWN_CALLS_MAX][32];
	const char *names[SPAWN_CALLS_MAX + 1];
};
void	 spawn_calls(struct spawn_calls *);

/* Receive one message from init; never blocks. */
enum spawn_event spawn_receive(const struct spawned *, struct spawn_message *);

#define SPAWN_UID_DIR	"/run/cyberos"	/* with the locks of uids in it */

/*
 * As root: a host uid of its own for an invocation, out of first..last, locked
 * host-wide while the returned descriptor (or a copy in init) is open. The
 * descriptor, or -1 with errno; EBUSY when all are taken.
 */
int	spawn_lock_uid(uid_t first, uid_t last, uid_t *);

#endif
