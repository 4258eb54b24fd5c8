#ifndef ENFORCE_CONFINE_H
#define ENFORCE_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "enforce/share.h"

/*
 * The confinement of a skill (SPEC 8) as one ordered table. Each row is a
 * layer: what it guarantees, where it is applied, and whether a start without
 * it is possible. --result, the ledger and the manual are made of it.
 */

enum confine_need {
	CONFINE_ALWAYS,		/* no skill starts without it */
	CONFINE_REQUIRED,	/* only --sandbox best-effort does without it,
				 * and then without every namespace */
	CONFINE_IF_ABLE,	/* missing: one WARN line */
	CONFINE_EXTRA		/* only where the host provides for it */
};

enum confine_place {
	CONFINE_AT_CLONE,	/* a flag of clone3 */
	CONFINE_IN_INIT,	/* in the small init, PID 1 of the sandbox; the
				 * same whichever skill it is for */
	CONFINE_FOR_SKILL,	/* in init, when it knows which */
	CONFINE_IN_SKILL	/* in the skill's process, before exec */
};

enum confine_state {
	CONFINE_MISSING,
	CONFINE_ACTIVE
};

struct bundle;
struct cgroup;
struct confine_plan;
struct init_shared;
struct room;
struct seccomp_program;

struct confine_step {
	const char		*name;
	enum confine_need	 need;
	enum confine_place	 place;
	bool			 inside;	/* only where there are namespaces */
	uint64_t		 flag;		/* CONFINE_AT_CLONE */
	/* 0 or -1 with errno; async-signal-safe: runs between fork and exec. */
	int			(*apply)(struct confine_plan *);
	const char		*instead;	/* a layer that makes up for it, or NULL */
	const char		*guarantees;
};

#define CONFINE_STEPS_MAX	40

const struct confine_step *confine_steps(size_t *n);

/*
 * Are the layers that are there enough for the mode? A required layer may be
 * made up for by the one that its row names. NULL, or the first that is missing.
 */
const struct confine_step *confine_missing(const uint8_t states[],
	    bool best_effort);

/* Is the layer of that name active? */
bool	confine_is_active(const uint8_t states[], const char *name);

/* "active", "not available". */
const char	*confine_state_word(enum confine_state);

/* Something of the host that shows in the sandbox. */
struct confine_bind {
	const char	*path;		/* opened in the new mount namespace */
	int		 source_fd;	/* O_PATH, held */
	uid_t		 owner;		/* whose files in it are the skill's */
	bool		 for_all;	/* a file that anybody may read and run */
	int		 tree_fd;	/* set by spawn as root: a detached mount */
	dev_t		 dev;		/* what path must turn out to be */
	ino_t		 ino;
};

/* Everything the steps need, laid out before the clone. */
struct confine_plan {
	bool		 best_effort;
	bool		 root;		/* we are host root */
	bool		 mounts;	/* and may copy mounts: CAP_SYS_ADMIN */
	bool		 namespaces;	/* set by spawn: all of them, or none */
	uid_t		 host_uid;	/* what uid 1000 inside is outside */
	gid_t		 host_gid;
	struct confine_bind skill;	/* directory, shown as /skill */
	const struct bundle *bundle;	/* or what was verified: laid out there */
	char		 bundle_options[64];	/* of its tmpfs */
	struct confine_bind self;	/* file, /usr/local/sbin/cyberos */
	struct confine_bind socket;	/* file, shown in /tmp */
	const char	*socket_name;	/* its last path component */
	const char	*skill_path;	/* of the directory, on the host */
	unsigned	 tmp_mb;
	char		 tmp_options[64];	/* of the tmpfs, from tmp_mb */
	unsigned	 memory_mb;
	unsigned	 cpu_seconds;
	unsigned	 max_processes;
	rlim_t		 files;		/* the caller's limit of descriptors */
	unsigned	 tasks;		/* of our uid on the host, counted */
	int		 stdio[3];	/* each at 10 or above */
	char		**argv;		/* argv[0] is filled in */
	const char	*main_path[2];	/* of main: on the host, and inside */
	char *const	*envp[2];	/* likewise; the socket's path differs */
	int		 landlock_abi;	/* 0: the kernel has none */
	const struct seccomp_program *filter;	/* set by spawn */
	bool		 listen;	/* set by spawn: attempts are recorded */
	bool		 attest;	/* try the attempts of probe.c first */
	const struct seccomp_program *silent;	/* set by spawn, for these */
	const char	*abstract_name;	/* of a socket outside, or "" */
	pid_t		 broker_pid;
	bool		 bash;		/* a Bash call: shares instead of skill,
					 * client and socket */
	struct shares	 shares;
	const char	*cwd;		/* in there */
	int		 command_fd;	/* shown as CONFINE_COMMAND_FD */
	int64_t		 total_ns;	/* T of SPEC 9: init ends it then, too */
	struct confine_detach *detach;	/* init's */
	struct init_shared *shared;	/* set by spawn */
	struct room	*room;		/* set by spawn, where staged */
	bool		 staged;	/* set by spawn, as root: init is begun with
					 * what is the same for all, the rest comes
					 * later */
	int		 report_fd;	/* set by spawn */
	int		 go_fd;		/* set by spawn */
	int		 control_fd;	/* set by spawn: init's end */
	const struct cgroup *cgroup;	/* to be born in, or NULL */
	int		 keep_fd;	/* held by init while it lives, or -1 */
};

/*
 * The unmounting of the host's root waits for every processor to have seen it,
 * and nothing else has to wait for that but the word that the skill is ready:
 * a thread of init does it, beside the steps that follow.
 */
struct confine_detach {
	_Atomic pid_t	 tid;	/* of the thread; the kernel clears it at its end */
	int		 error;	/* then: 0, or the errno */
	void		*stack;	/* NULL: there was none */
};

/*
 * Wait for the end of that thread; async-signal-safe, for init and for the
 * skill's process while it has init's memory. 0 when the host's file system
 * is gone, or there was nothing to do, else the errno.
 */
int	confine_detached(struct confine_detach *);
void	confine_detach_clear(struct confine_detach *);

/* Where the skill's process has what its start needs, until the exec. */
#define CONFINE_REPORT_FD	3
#define CONFINE_GO_FD		4
#define CONFINE_NOTIFY_FD	5	/* to init, for the listener */

/* What a Bash call reads its command from. */
#define CONFINE_COMMAND_FD	6
#define CONFINE_FDS_FREE	10	/* from here on nothing is put in place */

#define CONFINE_INSIDE_ID	1000	/* uid and gid in the sandbox */
#define CONFINE_SKILL_DIR	"/skill"
#define CONFINE_HOSTNAME	"skill"
#define CONFINE_FILES	256	/* descriptors */

#endif
