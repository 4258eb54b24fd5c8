#ifndef SUPERVISOR_TELEMETRY_H
#define SUPERVISOR_TELEMETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/buf.h"
#include "audit/log.h"
#include "audit/span.h"
#include "audit/trace.h"

/*
 * The standard variables of OpenTelemetry (SPEC 11). They hold passwords: they
 * are taken out of the environment before anything else happens, so that no
 * child and nobody who looks at /proc sees them.
 */

enum telemetry_signal {
	TELEMETRY_TRACES,
	TELEMETRY_METRICS,
	TELEMETRY_SIGNALS
};

#define TELEMETRY_VARIABLES	64
#define TELEMETRY_WARNINGS	16

/* Where one kind of data goes, and how. */
struct telemetry_target {
	char		*url;		/* NULL: it is not sent */
	struct buf	 headers;	/* a JSON object; secrets */
	const char	*certificate;	/* PEM files, or NULL; borrowed */
	const char	*client_key;
	const char	*client_certificate;
	unsigned	 timeout_ms;	/* of one request */
	bool		 gzip;
};

struct telemetry {
	char		*values[TELEMETRY_VARIABLES];
	const char	*warnings[TELEMETRY_WARNINGS][2];	/* variable, why */
	size_t		 warnings_n;
	struct telemetry_target targets[TELEMETRY_SIGNALS];
	struct trace_sampler sampler;
	struct span_limits limits;
	unsigned	 queue, batch;		/* spans */
	unsigned	 delay_ms, export_ms;	/* of traces */
	unsigned	 interval_ms, metric_ms;	/* of metrics */
};

/*
 * Take the variables, wiping what the environment and /proc show of all that
 * begin with OTEL_, and read them. An empty one is as good as none; one that
 * cannot be read leaves its default and a warning. 0, or -1 with ENOMEM.
 */
int	telemetry_take(struct telemetry *);

/* Say what could not be read; never what the value was. */
void	telemetry_warn(const struct telemetry *, const struct log *);

/* Attributes of the resource as the text of a JSON array. The host's id is what
 * metrics of this host have in common. 0, or -1 with errno. */
int	telemetry_resource(const struct telemetry *, const char *host_id,
	    struct buf *);

/* Overwrite all but the names of files, before anything is forked. */
void	telemetry_wipe(struct telemetry *);
void	telemetry_clear(struct telemetry *);

/* The variables and their defaults, for the manual's test; false at the end. */
bool	telemetry_variable(size_t i, const char **name, const char **fallback);

#endif
