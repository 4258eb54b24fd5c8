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
 * false makes refused attempts plain EPERM (no one listens); connect_notified
 * adds connect() to what is notified, for hosts without a private mount
 * namespace. 0, or -1 with errno. It takes most of a millisecond, so it is done
 * when we are built; what runs asks filter.h.
 */
int	seccomp_compile(uint32_t arch, enum seccomp_role, bool notify,
	    bool connect_notified, struct seccomp_program *);
void	seccomp_program_clear(struct seccomp_program *);

/* The name of a system call number of this machine; "unknown" at worst. */
const char *seccomp_call_name(int nr, char out[32]);

/*
 * Is there a call in the tables that no machine knows, that two rows answer
 * for, or whose rules do not fit together? Then its name is in name.
 */
bool	seccomp_trouble(char name[32]);

#endif
