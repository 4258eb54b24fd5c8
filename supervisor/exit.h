#ifndef SUPERVISOR_EXIT_H
#define SUPERVISOR_EXIT_H

/* Exit statuses (SPEC 1). Those of "run" are in broker/broker.h. */
enum {
	EXIT_FINE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_CONFIG = 3,
	EXIT_NETWORK = 4,
	EXIT_DENIED = 5,
	EXIT_INVALID = 6,
	EXIT_INTERRUPTED = 7
};

#endif
