#ifndef SUPERVISOR_SETTINGS_H
#define SUPERVISOR_SETTINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "audit/store.h"
#include "enforce/policy.h"

/*
 * What the operator wants: the configuration files, the environment and the
 * command line, in this order of rank, none of them beyond what the system's
 * file has fixed (SPEC 1, 13).
 */
struct settings {
	struct policy	 policy;
	char		 store[PATH_MAX];
	char		*files[3];	/* configuration that was read; NULL ends */
};

#define SETTINGS_SYSTEM_FILE	"/etc/cyberos/broker.yaml"

/* From the command line; NULL means not given. */
struct settings_options {
	const char	*config;
	const char	*store;
	const char	*skills;
	const char	*socket_dir;
	const char	*sandbox;	/* "required" or "best-effort" */
};

/*
 * Fill *s. After it policy.skills and policy.socket_dir are set. 0, or -1 with
 * a sentence in why[]; the caller clears *s in any case.
 */
int	settings_load(struct settings *, const struct settings_options *,
	    char *why, size_t whylen);

/* A path from the root, as text: given, or below the working directory. */
int	settings_absolute(char path[PATH_MAX], const char *given);

void	settings_clear(struct settings *);

/* A store could not be looked at: say why, by errno. The exit status. */
int	settings_no_store(const char *path);

/*
 * Open a store for a command that only reads it; nothing is made. 0, or the exit
 * status, and standard error says why.
 */
int	settings_open_store(const char *path, struct store *);

/* The same, and one that is not there is fine: run_fd is -1 then. */
int	settings_open_any(const char *path, struct store *);

/*
 * The same for the store that these options mean. While there is none, wait for
 * it with settings_wait; wait is NULL for who does not.
 */
int	settings_look(const struct settings_options *, struct store *,
	    unsigned *wait);

/* Wait for a tenth of a second and count it off. False: none is left. */
bool	settings_wait(unsigned *tenths);

/*
 * Values of options that several commands have. False, and standard error says
 * what to write: no number of seconds above 0 (or, where zero may be, 0) and up
 * to 1e7; no word for --sandbox.
 */
bool	settings_seconds(double *out, const char *name, const char *value,
	    bool zero);
bool	settings_is_sandbox(const char *value);

#endif
