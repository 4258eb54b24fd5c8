#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "audit/digest.h"
#include "audit/segment.h"
#include "audit/tally.h"
#include "broker/job.h"
#include "enforce/confine.h"
#include "enforce/spawn.h"

/*
 * One broker, one invocation: a process that the supervisor forks. It loads
 * the skill, binds the socket, has the sandbox built, serves until the skill
 * ends, and tells the supervisor what came of it.
 */

#define BROKER_SOCKET_PREFIX	"cyberos-skill-broker."
#define BROKER_SOCKET_SUFFIX	".sock"

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
	BROKER_LOADED,		/* id, version, head, files, total_ms; "" unknown */
	BROKER_SOCKET,		/* dev, ino of the bound socket */
	BROKER_STARTED,		/* result.layers: main is running in these */
	BROKER_RESULT,
	BROKER_ATTEMPTS,	/* seq: refused escapes until now */
	BROKER_MARK,		/* seq, head: of the last row in the file */
	BROKER_WANT_PART,	/* seq, head: its first row, and what that follows */
	BROKER_WANT_SPOOL,
	/* from the supervisor */
	BROKER_OPENED,		/* head: hash of the segment_opened anchor; with
				   result.error_message, it must not start */
	BROKER_DURABLE,		/* what opened the segment is on disk */
	BROKER_PART,		/* with a descriptor, unless it cannot be */
	BROKER_SPOOL,		/* the same */
	BROKER_TERMINATE,	/* the caller wants the end */
	BROKER_KILL		/* at once */
};

/* Outcomes of SPEC 3; what is counted has these words (tally.h). */
enum broker_outcome {
	BROKER_SUCCESS = TALLY_END_SUCCESS,
	BROKER_ERROR = TALLY_END_ERROR,
	BROKER_PANIC = TALLY_END_PANIC,
	BROKER_KILLED = TALLY_END_KILLED,
	BROKER_TIMEOUT = TALLY_END_TIMEOUT,
	BROKER_NO_CONNECT = TALLY_END_NO_CONNECT,
	BROKER_REFUSED = TALLY_END_REFUSED
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
	char		 files[DIGEST_HEX];	/* of all files; for the quarantine */
	uint64_t	 seq;		/* of MARK: head is the hash of this row */
	int64_t		 total_ms;	/* T of SPEC 9; 0: it will not start */
	dev_t		 dev;
	ino_t		 ino;
	struct broker_result result;
};

/* The names that labels of metrics can have: of tools, and of system calls. */
struct broker_names {
	struct spawn_calls calls;
	struct tally_names names;
};
void	broker_names(struct broker_names *);

/*
 * Be a broker: get ready for whichever skill comes, with a sandbox that is half
 * built, wait for the job, and do it. Of any, what is the same for all jobs of
 * this supervisor is settled (the first part of struct broker_job), and no
 * descriptor besides. The exit status of this process; 0 too when the
 * supervisor went, or closed its end, before there was a job.
 */
int	broker_run(const struct broker_job *any, struct room *);

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
