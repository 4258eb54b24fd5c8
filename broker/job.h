#ifndef BROKER_JOB_H
#define BROKER_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "audit/log.h"
#include "audit/ring.h"
#include "audit/trace.h"
#include "enforce/policy.h"
#include "enforce/room.h"

/*
 * What a broker is to do, and how the supervisor tells it.
 */

struct cgroup;
struct tally_names;

#define TRACER_SINKS	2	/* a collector and a file */

/* Where spans go, and what is common to them. */
struct tracer_job {
	struct ring_end	 sinks[TRACER_SINKS];
	struct trace_sampler sampler;
	char		 span_id[17];	/* of skill.invocation */
	int64_t		 wall;		/* wall time when clock_boot was 0 */
};

/* All borrowed. */
struct broker_job {
	/* the same for all of a supervisor's, and settled by the fork */
	pid_t		 supervisor;	/* whose death is ours */
	bool		 best_effort;
	rlim_t		 files;		/* the caller's limit of descriptors */
	bool		 early;		/* there is time before it comes */
	const struct cgroup *cgroup;	/* made for it, or NULL */
	const char	*socket_dir;
	const char	*const *protect;	/* files out of reach, NULL-terminated */
	const struct policy *policy;
	const struct tally_names *names;	/* of what is counted */
	int		 control_fd;	/* SOCK_SEQPACKET, the supervisor's */
	struct log	 log;		/* its fd; the rest comes with the job */
	/* this one's */
	char		 invocation[37];
	char		 tenant[37];
	const char	*skill_dir;	/* path of the skill's directory */
	const char	*skill_id;	/* what its id must be, or NULL */
	char		*const *args;	/* for main, NULL-terminated */
	const char	*persona;	/* or NULL */
	const char	*request_id;	/* or NULL */
	struct trace	 trace;
	struct tracer_job tracer;
	double		 deadline;	/* seconds; 0: the skill's own */
	double		 connect_timeout;	/* seconds; 0: off */
	bool		 attest;	/* try the sandbox before the skill */
	char		 refuse[64];	/* why it must not start, or "" */
	int		 stdio[3];	/* for the skill */
	/* what follows: its files */
	struct stat	 store;		/* of the store's directory, which is held */
	off_t		 stray_len;	/* so much of that file is the supervisor's */
	int		 memory_fd;	/* the tenant's memory root */
	int		 segment_fd;
	int		 lock_fd;
	int		 status_fd;
	int		 stray_fd;	/* notes of files in the making */
};

/* Nothing is open, nothing said. */
void	broker_job_init(struct broker_job *);

/*
 * Give a broker its job, once, but for its files: descriptors stay the caller's,
 * and what the job points to goes into the room that the broker was forked with.
 * 0, or -1 with errno: E2BIG when it does not fit, EPIPE and its like when the
 * broker is gone.
 */
int	broker_job_send(int control_fd, const struct broker_job *,
	    struct room *);

/* Its files, which are made while it reads the skill. 0 or -1 with errno. */
int	broker_files_send(int control_fd, const struct broker_job *);

/*
 * In the broker: wait for it on job->control_fd. What the fork settled stays;
 * the rest is the job's, its descriptors ours, the room our own. 0 or -1.
 */
int	broker_job_receive(struct broker_job *, struct room *);
int	broker_files_receive(struct broker_job *);

#endif
