#ifndef SUPERVISOR_EXPORT_H
#define SUPERVISOR_EXPORT_H

#include <sys/queue.h>

#include <poll.h>

#include "audit/log.h"
#include "audit/ring.h"
#include "audit/store.h"
#include "audit/tally.h"
#include "broker/broker.h"
#include "supervisor/telemetry.h"

/*
 * Where spans go (SPEC 11): from the brokers' queues to a file here, or to a
 * collector through a process of its own. Nothing that goes wrong with it is an
 * error of an invocation; what was dropped is counted and said.
 */
struct export;

#define EXPORT_POLLFDS	3

/* The log is borrowed. NULL with ENOMEM. */
struct export	*export_new(const struct log *);
void		 export_free(struct export *);

/*
 * --otel-file: open it; *unfinished is the path that it has until the end. 0, or
 * -1 with errno as outfile_open.
 */
int	export_open_file(struct export *, const char *path,
	    const char **unfinished);

/*
 * Start what is wanted; with neither a collector nor a file that is nothing. The
 * metrics of the store are its host's, so one supervisor at a time sends them.
 * Store and names are borrowed.
 */
void	export_start(struct export *, const struct telemetry *,
	    const struct policy *, const struct store *,
	    const struct tally_names *);

/* The queues of one invocation. */
struct export_queue {
	TAILQ_ENTRY(export_queue) next;
	bool		 on, listed;
	uint64_t	 id;		/* of the collector's, to the exporter */
	bool		 given;		/* its parent is the caller's */
	char		 span_id[17];	/* of skill.invocation */
	int64_t		 wall;		/* wall time when clock_boot was 0 */
	int		 fds[TRACER_SINKS];
	struct ring	*rings[TRACER_SINKS];
};

void	export_queue_init(struct export_queue *);

/*
 * Make them and fill in job->tracer, before the broker is forked. given: the
 * trace came from a caller; the sampler decides and marks job->trace.
 */
void	export_queue_begin(struct export *, struct export_queue *,
	    struct broker_job *, bool given);

/* The broker died between a row and its span: this row is its last one. */
void	export_queue_settle(struct export_queue *, uint64_t last);

/* The broker is gone: what it left, and the span of the invocation, which the
 * supervisor sees the end of whatever happens to the broker. */
void	export_queue_end(struct export *, struct export_queue *,
	    const struct broker_job *, const char *skill_id,
	    const char *version, const struct broker_result *, int64_t begun);
void	export_queue_clear(struct export *, struct export_queue *);

/* For poll(2), and after it. */
void	export_poll(const struct export *, struct pollfd fds[EXPORT_POLLFDS]);
void	export_step(struct export *, const struct pollfd fds[EXPORT_POLLFDS]);

/*
 * Send what is left, within the time that it may take; what comes in on stop_fd
 * (-1: nothing) ends that. The file gets its name. Says what was dropped.
 */
void	export_end(struct export *, int stop_fd);

#endif
