#ifndef ENFORCE_SECCOMP_H
#define ENFORCE_SECCOMP_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * System call filters as named groups of calls, compiled by libseccomp to the
 * plain BPF that a child loads (SPEC 8). Private to enforce/.
 */

enum seccomp_role {
	SECCOMP_SKILL,		/* an allowlist; the attack list is notified */
	SECCOMP_BASH,		/* the same without sockets */
	SECCOMP_BROKER,		/* the broker after start-up */
	SECCOMP_WORKER,		/* the file worker */
	SECCOMP_WALKER,		/* the one that searches: it reads */
	SECCOMP_NET,		/* the net worker: a program of its own */
	SECCOMP_ROLES
};

struct seccomp_program {
	const struct sock_filter *code;
	unsigned short	 len;
};

/*
 * Compile the filter of a role for a machine by its AUDIT_ARCH number. notify
 * false makes refused attempts plain EPERM (no one listens). bare is for hosts
 * without a private mount namespace: connect() is notified, if somebody listens,
 * and modes, owners, times and attributes of files are not to be changed, since
 * these are the host's. 0, or -1 with errno. It takes milliseconds, so it is done
 * when we are built; what runs asks filter.h.
 */
int	seccomp_compile(uint32_t arch, enum seccomp_role, bool notify,
	    bool bare, struct seccomp_program *);
void	seccomp_program_clear(struct seccomp_program *);

/* The name of a system call number of this machine; "unknown" at worst. */
const char *seccomp_call_name(int nr, char out[32]);

/*
 * The calls of a skill whose refusal is notified, each once: their names, and how
 * many there are (of which at most max were put there).
 */
size_t	seccomp_notified(char (*names)[32], size_t max);

/*
 * Is there a call in the tables that no machine knows, that two rows answer
 * for, or whose rules do not fit together? Then its name is in name.
 */
bool	seccomp_trouble(char name[32]);

#endif
