#ifndef ENFORCE_PROBE_H
#define ENFORCE_PROBE_H

#include <stddef.h>

#include "enforce/confine.h"

/*
 * Does a layer hold? A const table of attempts, each tried from inside a
 * finished sandbox and judged by its effect: what "doctor" prints and what
 * "run --attest" records (skill.sandbox_attested).
 */

enum probe_result {
	PROBE_REFUSED,		/* it could not be done: the layer holds */
	PROBE_DONE,		/* it could be done */
	PROBE_UNTRIED		/* the start ended before */
};

struct probe {
	const char	*name;
	const char	*layer;		/* a row of the confinement table */
	const char	*instead;	/* another that refuses it too, or NULL */
	enum probe_result (*attempt)(const struct confine_plan *);
	const char	*what;		/* for people */
};

#define PROBES_MAX	32

const struct probe *probe_table(size_t *n);

/* "refused", "POSSIBLE", "not tried". */
const char *probe_result_word(uint8_t);

/* What the states and the results of a layer's attempts come to. */
enum probe_verdict {
	PROBE_ENFORCED,
	PROBE_NOT_AVAILABLE,
	PROBE_BROKEN		/* said to be active, and an attempt succeeded */
};
enum probe_verdict probe_judge(const char *layer, const uint8_t states[],
	    const uint8_t results[]);
const char *probe_verdict_word(enum probe_verdict);

#endif
