#ifndef TOOLS_PROGRAM_H
#define TOOLS_PROGRAM_H

#include <stddef.h>
#include <sys/types.h>

/*
 * cyberos-net, the program of ours that has libcurl and a network, and how a
 * process becomes it: for HTTP calls, and for telemetry.
 */
#define PROGRAM_NET	"cyberos-net"
#define PROGRAM_EXPORT	"export"		/* its argument for telemetry */

/*
 * In a fresh child of parent: become it, with fds[0] as standard input, the
 * others from 3 on, and no other descriptor, environment or privilege. -1 among
 * them is /dev/null, which standard output and error are. argument is NULL or
 * its only one. Run by root it gets this uid and no groups. It dies with
 * parent. Returns to nobody.
 */
#define PROGRAM_FDS	12
#define PROGRAM_FD(i)	((i) == 0 ? 0 : (int)(i) + 2)	/* where fds[i] is then */
void	program_become(int program_fd, const char *argument, const int fds[],
	    size_t n, uid_t, pid_t parent) __attribute__((noreturn));

#endif
