#ifndef SUPERVISOR_INVOCATION_H
#define SUPERVISOR_INVOCATION_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/broker.h"
#include "supervisor/clerk.h"
#include "supervisor/export.h"
#include "supervisor/ready.h"
#include "supervisor/supervisor.h"

/*
 * One invocation from outside: its files, its broker, the clock behind the
 * broker's clock, its books. It never waits: whoever has it polls control_fd and
 * pidfd, watches the time, and has the jobs of the books done, at once or by
 * somebody else. It has no state of the process, so a process may have many.
 */

#define INVOCATION_NIL_TENANT	"00000000-0000-0000-0000-000000000000"

enum invocation_state {
	INVOCATION_NEW,
	INVOCATION_RUNNING,	/* the broker lives */
	INVOCATION_ENDING,	/* it is gone; the books are being closed */
	INVOCATION_DONE		/* result is what came of it */
};

struct invocation {
	const struct supervisor *sup;
	/* Called with each job; its answer goes to invocation_answer, now or
	 * later. There is one at a time. */
	void		 (*submit)(struct invocation *, const struct clerk_job *);
	struct ready	*ready;		/* a broker to begin with, or NULL */
	void		*owner;		/* of whoever has it */
	const char	*unfinished[2];	/* its output files' temporary paths */
	enum invocation_state state;
	struct broker_job job;
	char		 skill_dir[PATH_MAX];
	bool		 given;		/* the trace is the caller's */
	struct export_queue queue;	/* of its spans */
	/* the segment */
	char		 day[CLOCK_DAY_SIZE];
	char		 segment[STORE_SEGMENT_NAME];
	bool		 append_only;
	struct anchor	 opened, closed;
	bool		 anchored;
	struct segment_mark marked;	/* the last one; no head: it may be missing */
	int64_t		 mark_at;	/* clock_boot of the next one at the earliest */
	struct books_parts parts;
	int		 part_fd;	/* of the newest, an opening of our own */
	bool		 tidy;		/* nothing of it is left in the making */
	bool		 folded;	/* its page is in the metrics */
	bool		 unsure;	/* nobody knows what became of a job */
	char		 head[DIGEST_HEX];	/* of the finished segment */
	struct ready	 broker;	/* pid <= 0: none was made */
	bool		 silent;	/* it will say no more there */
	int		 slot_fd;	/* its place among max_invocations */
	int64_t		 begun;		/* clock_boot */
	int64_t		 backstop;	/* when the broker is killed; 0: never */
	bool		 loaded;	/* it has said what the skill is */
	bool		 busy;		/* a job is on its way */
	enum clerk_task	 task;		/* that one */
	bool		 holding;	/* held needs a job, and one is on its way */
	struct broker_message held;
	char		 id[65];
	char		 version[257];
	char		 frontmatter_hash[DIGEST_HEX];
	char		 files_sha256[DIGEST_HEX];	/* for the quarantine */
	uint64_t	 attempts;	/* refused escapes that it told of */
	dev_t		 socket_dev;
	ino_t		 socket_ino;
	bool		 started;	/* main runs; in result.layers */
	struct broker_result result;
	bool		 have_result;
	bool		 made_status, made_stray;
	int		 terminated;	/* how often its end was asked for */
	int		 signal;	/* the first time */
};

/*
 * A fresh one, with the nil tenant, where all bytes are zero. The caller fills
 * job (invocation, tenant, skill_dir, args, persona, request_id, trace, deadline,
 * connect_timeout, attest, stdio; texts stay his) and then starts it.
 */
void	invocation_init(struct invocation *, const struct supervisor *);

/*
 * What SKILL on a command line means goes to job.skill_dir and job.skill_id. 0,
 * or -1: it is neither a directory nor an id.
 */
int	invocation_find(struct invocation *, const char *skill);

/* The trace of a W3C traceparent or, where that is NULL or invalid, a new one. 0
 * or -1 with errno. */
int	invocation_trace(struct invocation *, const char *traceparent);

/*
 * Make its files and fork the broker. 0: it runs. -1: it is done, and result
 * says why. job.stdio is the caller's to close, before and after.
 */
int	invocation_start(struct invocation *);

/* No skill was started, for a reason that is logged and goes to result. */
void	invocation_give_up(struct invocation *, const char *fmt, ...)
	    __attribute__((format(printf, 2, 3)));

/* What to poll for its messages; -1: nothing now. */
int	invocation_control(const struct invocation *);

/* It is readable or hung up: take a few messages, never all. */
void	invocation_heard(struct invocation *);

/* pidfd is readable: reap the broker, clean up, and have the books closed. */
void	invocation_broker_gone(struct invocation *);

/* The answer of the job on its way; new_fd, or -1, is taken over. answer is NULL
 * when whoever had it is gone: nobody knows what it came to. */
void	invocation_answer(struct invocation *, const struct clerk_answer *,
	    int new_fd);

/* Ask for its end: SIGTERM to the skill, the second time SIGKILL; signal is what
 * the caller got. */
void	invocation_terminate(struct invocation *, int signal);
/* SIGKILL to the skill at once. */
void	invocation_kill(struct invocation *, int signal);

/* clock_boot of the backstop (0: none), and what happens then. */
int64_t	invocation_due(const struct invocation *);
void	invocation_overdue(struct invocation *);

/* The result's members (SPEC 12) without braces, for a JSON object. */
void	invocation_put_result(const struct invocation *, struct buf *);

/* Where its socket stands, as a JSON string. */
void	invocation_put_socket(const struct invocation *, struct buf *);

/* Remove what names it in run/, unless recovery has to find it, and close. */
void	invocation_clear(struct invocation *);

#endif
