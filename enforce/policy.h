#ifndef ENFORCE_POLICY_H
#define ENFORCE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "enforce/glob.h"
#include "enforce/trust.h"

/*
 * The operator's configuration (SPEC 13, cyberos-broker.yaml(5)): one table of
 * keys with type, default and help in policy.c. /etc/cyberos/broker.yaml, when
 * root owns it, is a ceiling: what a second file sets can only tighten it.
 */

enum policy_sync {
	POLICY_SYNC_NONE,
	POLICY_SYNC_BATCH,
	POLICY_SYNC_ROW
};

/* One list of ceilings; a NULL member is not set and bounds nothing. */
struct policy_ceiling {
	char		**tools;	/* NULL when not set */
	size_t		 tools_n;
	struct glob_set	*files;
	struct glob_set	*domains;
	struct glob_set	*memory_scopes;
	struct trust_list keys;		/* trusted_keys; each list that is set
					 * must allow a signature */
};

#define POLICY_CEILINGS	2		/* the system's file and the user's */

struct policy {
	char		*skills;	/* NULL: the built-in default */
	char		*store;
	char		*spool;
	char		*socket_dir;
	bool		 best_effort;	/* sandbox: best-effort */
	uid_t		 uid_first;	/* uid_range */
	uid_t		 uid_last;
	char		**skill_owners;	/* user names or numbers */
	size_t		 skill_owners_n;
	unsigned	 tmp_mb;
	char		*log;		/* NULL: standard error; "syslog"; a path */
	struct policy_ceiling ceilings[POLICY_CEILINGS];	/* all must allow */
	unsigned	 max_memory_mb;
	unsigned	 max_processes;
	unsigned	 max_effort_minutes;
	unsigned	 max_calls_per_minute;	/* 0: unbounded */
	unsigned	 max_invocations;	/* 0: unbounded */
	unsigned	 max_write_mb;
	unsigned	 min_free_mb;
	unsigned	 max_ledger_mb;
	char		**http_allow_addresses;
	size_t		 http_allow_addresses_n;
	char		*ca_file;
	bool		 require_signature;
	char		**revoked;	/* frontmatter hashes, lower-case hex */
	size_t		 revoked_n;
	enum policy_sync audit_sync;
	bool		 audit_required;
	bool		 audit_resources;
	bool		 audit_append_only;
	unsigned	 audit_mark_seconds;
	char		*args_hash_key_file;
	unsigned	 quarantine_after;	/* 0: off */
	uint64_t	 set[POLICY_CEILINGS];	/* rows that each file has set */
	/* What ceiling.tools may name, up to a NULL; borrowed. NULL: any word. */
	const char *const *tool_names;
};

/* One row of the table of keys, for help, manual and tests. */
struct policy_key {
	const char	*name;		/* "ceiling.tools" for a key in a mapping */
	const char	*type;		/* what to write, in words */
	char		 value[32];	/* the default, as text */
	const char	*help;		/* one sentence */
};

/* Row i of the table. False when there is none; rows count from 0. */
bool	policy_key(size_t i, struct policy_key *);

/* Has the system's file set this key, so that nothing else may widen it? */
bool	policy_fixed(const struct policy *, const char *key);

/* Has any file set this key? */
bool	policy_is_set(const struct policy *, const char *key);

/* The built-in defaults. 0, or -1 with ENOMEM. */
int	policy_init(struct policy *);
void	policy_clear(struct policy *);

/*
 * Read one configuration file into the policy, tightening what an earlier call
 * has set (slot 0: the system's file, slot 1: the operator's or the user's).
 * 0, or -1 with a message in why[whylen] of the form "FILE:LINE:COLUMN: text".
 * A file that is missing is an error here: the caller decides which files
 * there are. The file is opened without blocking, must be regular, and, read
 * by root, must not be writable by others than root.
 */
int	policy_load(struct policy *, unsigned slot, const char *file,
	    char *why, size_t whylen);

/*
 * Can nobody but root have written this open file or put it where it is: the
 * file and every directory above its kernel's name root's and writable by no
 * one else (a sticky directory passes)? For other users than root always true.
 */
bool	policy_file_trusted(int fd);

#endif
