#ifndef SUPERVISOR_CLERK_H
#define SUPERVISOR_CLERK_H

#include <stdbool.h>
#include <stdint.h>

#include "audit/anchor.h"
#include "audit/books.h"
#include "broker/broker.h"
#include "supervisor/supervisor.h"

/*
 * The supervisor's steps in the ledger (LEDGER.md, "Who writes what"): each one
 * takes a lock that another supervisor may hold, or waits for a disk. A job and
 * its answer are flat, so that they can be handed to another process.
 */
enum clerk_task {
	CLERK_OPEN,	/* append audit.segment_opened */
	CLERK_SYNC,	/* what opened the segment is on disk */
	CLERK_ATTEMPTS,	/* count refused escapes for the quarantine */
	CLERK_MARK,	/* append audit.segment_mark */
	CLERK_PART,	/* begin the next part */
	CLERK_CLOSE,	/* read again, end where need be, append segment_closed; and
			   put the broker's page into the metrics of the host */
	CLERK_FOLD	/* the page alone: there are no books */
};

struct clerk_job {
	enum clerk_task	 task;
	char		 invocation[STORE_UUID_SIZE];
	char		 day[CLOCK_DAY_SIZE];	/* in which it was opened */
	char		 segment[STORE_SEGMENT_NAME];	/* part 1, with its day */
	bool		 append_only;
	char		 skill_id[65];		/* "" unknown, as the next two */
	char		 version[257];
	char		 frontmatter_hash[DIGEST_HEX];
	char		 files_sha256[DIGEST_HEX];
	char		 trace_id[33];
	struct anchor	 opened;	/* not of OPEN */
	/* MARK: this row is in the file. PART: its first row, what that follows.
	 * ATTEMPTS: how many until now. CLOSE: the newest mark, or none. */
	uint64_t	 seq;
	char		 head[DIGEST_HEX];
	/* CLOSE: what the broker told, if it did; FOLD: outcome */
	bool		 have_result;
	enum broker_outcome outcome;
	int64_t		 duration_ms;
	uint64_t	 lost;
	char		 error_message[512];
	off_t		 stray_from;	/* CLOSE, FOLD: its notes begin here */
	struct books_parts parts;	/* last: seldom more than one of them */
};

struct clerk_answer {
	enum clerk_task	 task;
	int		 error;		/* an errno; 0: it is done */
	struct anchor	 anchor;	/* of OPEN and CLOSE */
	unsigned	 parts;		/* PART: how many there are now */
	uint64_t	 start;		/* PART: the first row of the newest */
	bool		 held;		/* OPEN: this skill must not start; ATTEMPTS: nor
					   any more of it */
	bool		 closed;	/* CLOSE: the anchor is written */
	bool		 folded;	/* CLOSE, FOLD: the page is in and gone */
	bool		 tidy;		/* CLOSE, FOLD: nothing is left in the making */
	uint64_t	 rows, calls, denied;	/* CLOSE */
	bool		 read;		/* CLOSE: the broker's rows, of which this is */
	uint64_t	 last;		/* the last one */
	char		 head[DIGEST_HEX];	/* CLOSE: of the last row */
};

/*
 * Do a job, however long it takes. part_fd is the supervisor's own opening of
 * the newest part (the kernel tells an error of writing to each opening once);
 * *new_fd is, for PART, the new one's descriptor, else -1. What goes wrong is
 * logged and in the answer.
 */
void	clerk_do(const struct supervisor *, const struct clerk_job *,
	    int part_fd, struct clerk_answer *, int *new_fd);

/*
 * For a supervisor of many: a few processes that do jobs, so that no invocation
 * waits for the lock or the disk of another. Jobs wait in order for the first
 * one that has nothing to do.
 */
#define CLERKS_MAX	8

struct invocation;
struct clerk_waiting;

struct clerks {
	const struct supervisor *sup;
	size_t		 n;
	struct clerk_seat {
		pid_t	 pid;
		int	 fd;		/* -1: nobody sits there */
		struct invocation *inv;	/* whose job is on its way, or NULL */
	} seat[CLERKS_MAX];
	struct clerk_waiting *first, **last;
	int64_t		 hired;		/* clock_boot of the last one */
};

/* Fork n of them. 0, or -1 with errno and none left. */
int	clerks_start(struct clerks *, const struct supervisor *, size_t n);

/* The answer goes to invocation_answer: from clerks_heard, or, when there is
 * nobody left, at once. */
void	clerks_submit(struct clerks *, struct invocation *,
	    const struct clerk_job *);

/* The descriptor of seat i is readable. It may be another one afterwards. */
void	clerks_heard(struct clerks *, size_t i);

/* End them; jobs that are on their way are given up. */
void	clerks_stop(struct clerks *);

#endif
