#ifndef ENFORCE_SECCOMP_H
#define ENFORCE_SECCOMP_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * System call filters as named groups of calls, compiled by libseccomp in the
 * parent and loaded as plain BPF in the child (SPEC 8). Private to enforce/.
 */

enum seccomp_role {
	SECCOMP_SKILL,		/* an allowlist; the attack list is notified */
	SECCOMP_BROKER,		/* the broker after start-up */
	SECCOMP_WORKER,		/* the file worker */
	SECCOMP_WALKER,		/* the one that searches: it reads */
	SECCOMP_NET		/* the net worker: a program of its own */
};

struct seccomp_program {
	struct sock_filter *code;
	unsigned short	 len;
};

/*
 * Compile the filter of a role. notify false makes refused attempts plain
 * EPERM (no one listens); connect_notified adds connect() to what is notified,
 * for hosts without a private mount namespace. 0, or -1 with errno.
 */
int	seccomp_compile(enum seccomp_role, bool notify, bool connect_notified,
	    struct seccomp_program *);
void	seccomp_program_clear(struct seccomp_program *);

/* The same for a machine by its AUDIT_ARCH number: the tests look at both. */
int	seccomp_compile_for(uint32_t arch, enum seccomp_role, bool notify,
	    bool connect_notified, struct seccomp_program *);

/*
 * Load a program in this process; no_new_privs must be set. With listener the
 * descriptor of the notifications is returned (close-on-exec), else 0; -1 with
 * errno. Async-signal-safe.
 */
int	seccomp_enter(const struct seccomp_program *, bool listener);

/* The name of a system call number of this machine; "unknown" at worst. */
const char *seccomp_call_name(int nr, char out[32]);

/*
 * Is there a call in the tables that no machine knows, that two rows answer
 * for, or whose rules do not fit together? Then its name is in name.
 */
bool	seccomp_trouble(char name[32]);

#endif
