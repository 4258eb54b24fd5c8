#ifndef ENFORCE_LANDLOCK_H
#define ENFORCE_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Landlock rulesets (SPEC 8), at the best ABI that the kernel has. Private to
 * enforce/. Everything but landlock_abi may be called between fork and exec.
 */

#define LANDLOCK_SCOPE_ABI	6	/* abstract sockets and signals */

/* The kernel's ABI version; 0 when there is no Landlock. */
int	landlock_abi(void);

enum landlock_access {
	LANDLOCK_LIST,		/* read directories only */
	LANDLOCK_READ,		/* read files and directories */
	LANDLOCK_RUN,		/* the same, and execute */
	LANDLOCK_WRITE,		/* read, write, make, remove, rename; no execute */
	LANDLOCK_DEVICE		/* read, write, ioctl on devices */
};

/*
 * A ruleset descriptor that handles all file rights, TCP bind and connect, and,
 * where scopes is set, abstract sockets and signals, as far as abi goes. -1
 * with errno.
 */
int	landlock_ruleset(int abi, bool scopes);

/*
 * Allow access below a directory (or to a file), by an open descriptor or by
 * path. 0, or -1 with errno; rights that a file cannot have are left out.
 */
int	landlock_allow_fd(int ruleset, int abi, int fd, enum landlock_access);
int	landlock_allow(int ruleset, int abi, const char *path,
	    enum landlock_access);

/* Allow TCP connections to a port; needs ABI 4. 0, or -1 with errno. */
#define LANDLOCK_NETWORK_ABI	4
int	landlock_allow_connect(int ruleset, uint16_t port);

/* Enter the domain; no_new_privs must be set. Closes nothing. 0 or -1. */
int	landlock_enter(int ruleset);

#endif
