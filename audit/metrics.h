#ifndef AUDIT_METRICS_H
#define AUDIT_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/buf.h"
#include "audit/tally.h"

/*
 * The metrics of SPEC 11 as texts: one table of families, from which Prometheus
 * text, OpenMetrics and OTLP are made, so that they cannot differ.
 */

/* What there is at one moment; hostpage_read fills it. */
struct metrics {
	struct tally	 tally;
	uint64_t	 active;	/* invocations that run */
	int64_t		 since;		/* wall clock: the counters began */
	int64_t		 now;		/* wall clock: they were read */
};

enum metrics_kind {
	METRICS_COUNTER,
	METRICS_GAUGE,
	METRICS_HISTOGRAM,
	METRICS_INFO		/* 1, and its labels are what it says */
};

struct metrics_sample;

struct metrics_family {
	const char	*name;
	enum metrics_kind kind;
	const char	*unit;		/* the name's, before _total; or NULL */
	const char	*otlp_unit;	/* UCUM */
	const char	*labels[2];	/* or NULL */
	const char	*help;
	/* The samples in order; false: there is no such one. */
	bool		(*sample)(const struct metrics *, size_t at,
			    struct metrics_sample *);
};

/* The table and its size. */
const struct metrics_family *metrics_families(size_t *n);

/*
 * All families: Prometheus text 0.0.4, or OpenMetrics 1.0.0. 0, or -1 with errno
 * (ENOBUFS, ENOMEM).
 */
int	metrics_text(struct buf *, const struct metrics *, bool openmetrics);

/*
 * The same as an OTLP ExportMetricsServiceRequest in JSON, without a line feed:
 * cumulative, since metrics->since. resource is the JSON object that stands for
 * the resource ({"attributes":[...]}), or NULL: service.name cyberos and our
 * version. 0, or -1 with errno. Some 40 KiB.
 */
int	metrics_otlp(struct buf *, const struct metrics *,
	    const char *resource);

#endif
