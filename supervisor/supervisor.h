#ifndef SUPERVISOR_SUPERVISOR_H
#define SUPERVISOR_SUPERVISOR_H

#include <sys/resource.h>

#include <limits.h>
#include <stddef.h>

#include "audit/digest.h"
#include "audit/log.h"
#include "audit/store.h"
#include "broker/broker.h"
#include "supervisor/settings.h"
#include "supervisor/telemetry.h"

/*
 * What all invocations of one supervisor share: the operator's settings, the
 * store, the log, and the files that no skill may reach.
 */
#define SUPERVISOR_PROTECT_MAX	32	/* besides the files of trusted keys */

struct export;

struct supervisor {
	struct settings	 settings;
	struct store	 store;
	rlim_t		 files;		/* the caller's limit of descriptors */
	struct digest	*digest;	/* a plain one */
	struct broker_names names;	/* for the metrics */
	struct log	 log;
	char		 socket_dir[PATH_MAX];
	const char	**protect;	/* ends with NULL */
	size_t		 protect_n;
	size_t		 protect_max;
	struct telemetry telemetry;
	/* In a broker's process, first of all: forget what is none of its
	 * business; or NULL. */
	void		 (*forget)(void *owner);
	void		*owner;
	struct export	*export;	/* where spans go */
};

/*
 * Nothing is open, where all bytes are zero. Before anything else happens: this
 * takes what may be secret out of the environment. 0, or -1 with errno.
 */
int	supervisor_init(struct supervisor *);

/*
 * Read the settings, open the log, and list what SPEC 4.2 protects. 0, or -1
 * with a sentence in why[].
 */
int	supervisor_configure(struct supervisor *,
	    const struct settings_options *, enum log_level most, char *why,
	    size_t whylen);

/* Open the store and what belongs to it, start what exports spans. 0, or -1 with
 * a sentence in why[]. */
int	supervisor_open(struct supervisor *, char *why, size_t whylen);

/* One more file out of every skill's reach; borrowed. */
void	supervisor_protect(struct supervisor *, const char *path);

/*
 * From here on signals are messages on one descriptor, and the other is a timer of
 * clock_boot; a SIGHUP that was ignored when we came stays so, as nohup(1) wants
 * it. 0, or -1 with errno.
 */
int	supervisor_events(int *signal_fd, int *timer_fd);

void	supervisor_close(struct supervisor *);

#endif
