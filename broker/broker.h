#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "audit/digest.h"
#include "audit/log.h"
#include "audit/segment.h"
#include "audit/trace.h"
#include "enforce/policy.h"
#include "enforce/confine.h"

/*
 * One broker, one invocation: a process that the supervisor forks. It loads
 * the skill, binds the socket, has the sandbox built, serves until the skill
 * ends, and tells the supervisor what came of it.
 */

#define BROKER_SOCKET_PREFIX	"cyberos-skill-broker."
#define BROKER_SOCKET_SUFFIX	".sock"

/* What the supervisor lays out before the fork; all borrowed. */
struct broker_job {
	pid_t		 supervisor;	/* whose death is ours */
	char		 invocation[37];
	char		 tenant[37];
	const char	*skill_dir;	/* path of the skill's directory */
	const char	*skill_id;	/* what its id must be, or NULL */
	char		*const *args;	/* for main, NULL-terminated */
	const char	*refuse;	/* why it must not start, or NULL */
	const char	*persona;	/* or NULL */
	const char	*request_id;	/* or NULL */
	struct trace	 trace;
	double		 deadline;	/* seconds; 0: the skill's own */
	double		 connect_timeout;	/* seconds; 0: off */
	bool		 best_effort;
	const struct cgroup *cgroup;	/* made for it, or NULL */
	bool		 attest;	/* try the sandbox before the skill */
	const char	*socket_dir;
	const char	*const *protect;	/* files out of reach, NULL-terminated */
	const struct policy *policy;
	struct log	 log;
	int		 memory_fd;	/* the tenant's memory root */
	int		 segment_fd;
	int		 lock_fd;
	int		 status_fd;
	int		 control_fd;	/* SOCK_SEQPACKET, the supervisor's */
	int		 stdio[3];	/* for the skill, each at 10 or above */
};

/* Exit statuses of "run" besides the skill's own (SPEC 1). */
enum {
	EXIT_RUN_POLICY = 5,
	EXIT_RUN_INVALID = 6,
	EXIT_RUN_DEADLINE = 124,
	EXIT_RUN_BROKER = 125,
	EXIT_RUN_NO_EXEC = 126,
	EXIT_RUN_NO_SKILL = 127,
	EXIT_RUN_SIGNAL = 128	/* plus the signal */
};

enum broker_message_type {
	/* to the supervisor */
	BROKER_LOADED,		/* id, version, head, total_ms; "" unknown */
	BROKER_SOCKET,		/* dev, ino of the bound socket */
	BROKER_RESULT,
	BROKER_MARK,		/* seq, head: of the last row in the file */
	BROKER_WANT_PART,	/* seq, head: its first row, and what that follows */
	BROKER_WANT_SPOOL,
	/* from the supervisor */
	BROKER_OPENED,		/* head: hash of the segment_opened anchor */
	BROKER_DURABLE,		/* what opened the segment is on disk */
	BROKER_PART,		/* with a descriptor, unless it cannot be */
	BROKER_SPOOL,		/* the same */
	BROKER_TERMINATE,	/* the caller wants the end */
	BROKER_KILL		/* at once */
};

/* Outcomes of SPEC 3. */
enum broker_outcome {
	BROKER_SUCCESS,
	BROKER_ERROR,
	BROKER_PANIC,
	BROKER_KILLED,
	BROKER_TIMEOUT,
	BROKER_NO_CONNECT,
	BROKER_REFUSED
};

const char *broker_outcome_word(enum broker_outcome);

struct broker_result {
	enum broker_outcome outcome;
	int		 exit_status;	/* of run */
	int		 exit_code;	/* the skill's, or -1 */
	int		 signal;	/* that ended it, or 0 */
	char		 by[16];
	int64_t		 duration_ms;
	uint64_t	 calls;
	uint64_t	 denied;
	uint64_t	 rejected;
	uint64_t	 rows;		/* of the segment */
	uint64_t	 lost;
	uint8_t		 layers[CONFINE_STEPS_MAX];	/* enum confine_state */
	bool		 sandboxed;	/* layers mean something */
	char		 error_message[512];
};

struct broker_message {
	enum broker_message_type type;
	char		 id[65];
	char		 version[257];
	char		 head[DIGEST_HEX];	/* frontmatter_hash, or the anchor */
	uint64_t	 seq;		/* of MARK: head is the hash of this row */
	int64_t		 total_ms;	/* T of SPEC 9; 0: it will not start */
	dev_t		 dev;
	ino_t		 ino;
	struct broker_result result;
};

/* Run the invocation; the process's exit status. Never returns to a caller that
 * goes on: the supervisor's fork ends with it. */
int	broker_run(const struct broker_job *);

/*
 * One message, whole or not at all, with a descriptor or without one (-1). 0, or
 * -1 with errno (EPIPE: the end).
 */
int	broker_send(int fd, const struct broker_message *);
int	broker_send_fd(int fd, const struct broker_message *, int pass);
int	broker_receive(int fd, struct broker_message *, bool block,
	    int *passed);

/* The sandbox's layers as a JSON object {"name":"state",...}. */
int	broker_layers(const struct broker_result *, struct buf *);

#endif
