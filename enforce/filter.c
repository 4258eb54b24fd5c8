/*
 * Loading a filter: what a process of ours or a skill may ask of the kernel from
 * here on. Nothing is compiled or allocated, so it may stand between fork and
 * exec.
 */

#include "enforce/filter.h"

#include <sys/syscall.h>

#include <errno.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <unistd.h>

/* Headers may be older than the kernel. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

const struct seccomp_program *
filter_of(enum seccomp_role role, bool notify, bool bare)
{
	return &filter_table[filter_index(role, notify, bare)];
}

int
filter_enter(const struct seccomp_program *p, bool listener)
{
	struct sock_fprog program = { p->len,
		(struct sock_filter *)(uintptr_t)p->code };
	long result;

	if (!listener)
		return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0,
		    &program);
	/* Once we have the call, only a fatal signal interrupts its caller. */
	result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
	    SECCOMP_FILTER_FLAG_NEW_LISTENER |
		SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
	    &program);
	if (result == -1 && errno == EINVAL)
		result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		    SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	return (int)result;
}
