#ifndef TOOLS_EXPORTER_H
#define TOOLS_EXPORTER_H

#include <stdint.h>

/*
 * The exporter: cyberos-net in another mode, started by the supervisor, which
 * sends what brokers left in their queues to a collector (SPEC 11). It is taken
 * to be the collector's one day: it has the operator's headers for the
 * collector, a way to it, and the queues, and what it says is numbers.
 */

/* Its descriptors: channel, configuration (a file, read to its end), what wakes
 * it (an eventfd), and for each signal authorities, certificate and key. */
enum exporter_fd {
	EXPORTER_CHANNEL,
	EXPORTER_CONFIG,
	EXPORTER_WAKE,
	EXPORTER_CA,
	EXPORTER_CERTIFICATE,
	EXPORTER_KEY,
	EXPORTER_METRICS_CA,	/* the same for metrics */
	EXPORTER_METRICS_CERTIFICATE,
	EXPORTER_METRICS_KEY,
	EXPORTER_FDS
};

enum exporter_signal {
	EXPORTER_TRACES,
	EXPORTER_METRICS,
	EXPORTER_SIGNALS
};

/*
 * The configuration is JSON, traces and metrics may be missing:
 *
 * {"traces": {"url","headers":[[name,value]...],"timeout_ms","gzip"},
 *  "metrics": the same, "resource": the text of an array,
 *  "delay_ms","export_ms","metric_ms","batch","queue","attributes","length"}
 */
#define EXPORTER_CONFIG_MAX	((size_t)60 * 1024)

enum exporter_kind {
	/* to the exporter */
	EXPORTER_QUEUE,		/* id, with the file of a queue */
	EXPORTER_DONE,		/* id: nobody puts any more; let it go */
	EXPORTER_COUNTS,	/* with a file: metrics, as they are sent */
	EXPORTER_END,		/* ms: send the rest in that time, and end */
	/* from it */
	EXPORTER_REPORT		/* counts, and what the last trouble was */
};

#define EXPORTER_OWN	0	/* id of the supervisor's own queue */

enum exporter_trouble {
	EXPORTER_FINE,
	EXPORTER_STATUS,	/* code: of HTTP */
	EXPORTER_LIBRARY,	/* code: of libcurl */
	EXPORTER_PARTIAL,	/* some were rejected */
	EXPORTER_WARNING,	/* none was, and it has something to say */
	EXPORTER_BAD_URL,
	EXPORTER_MEMORY,
	EXPORTER_TROUBLES
};

/* What became of spans, or of requests with metrics, since it started. */
struct exporter_state {
	uint64_t sent;
	uint64_t rejected;	/* by the collector, who took the others */
	uint64_t queue_full;	/* too much waited */
	uint64_t failed;
	uint64_t shutdown;	/* there was no time left */
	uint32_t trouble;	/* the last one */
	int32_t	 code;
};

struct exporter_message {
	uint32_t kind;
	uint32_t ms;
	uint64_t id;
	struct exporter_state state[EXPORTER_SIGNALS];
};

/* main of it, in cyberos-net. Returns to nobody. */
void	exporter_run(void) __attribute__((noreturn));

#endif
