#ifndef ENFORCE_LIBEXEC_H
#define ENFORCE_LIBEXEC_H

#include <stddef.h>

/*
 * Our programs besides cyberos itself. They are looked for beside the running
 * binary, then where they are installed, never by environment.
 */

#define LIBEXEC_BESIDE	"/libexec/cyberos"	/* of the running binary */

/* The directory beside the running binary. 0, or -1 with errno. */
int	libexec_beside(char *path, size_t size);

/*
 * Open one of them (O_PATH), to be executed by fexecve(3). A descriptor, or -1
 * with errno: EPERM when others than root and the caller could have written it.
 */
int	libexec_open(const char *name);

#endif
