/*
 * Between fork and exec of cyberos-net: what it is given is all that it has.
 */

#include "tools/program.h"

#include <sys/prctl.h>

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "enforce/spawn.h"

#define ABOVE 16 /* all that is put in place */

/* Put them where they belong, out of each other's way first. */
static int
put_in_place(int *program_fd, const int fds[], size_t n)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int high[PROGRAM_FDS], keep[PROGRAM_FDS + 3];
	size_t i;

	*program_fd = fcntl(*program_fd, F_DUPFD_CLOEXEC, ABOVE);
	if (null_fd == -1 || *program_fd == -1 || n > PROGRAM_FDS)
		return -1;
	for (i = 0; i < n; i++) {
		high[i] = fcntl(fds[i] == -1 ? null_fd : fds[i],
		    F_DUPFD_CLOEXEC, ABOVE);
		if (high[i] == -1)
			return -1;
	}
	if (dup2(null_fd, 1) == -1 || dup2(null_fd, 2) == -1)
		return -1;
	for (i = 0; i < n; i++) {
		if (dup2(high[i], PROGRAM_FD(i)) == -1)
			return -1;
		keep[i] = PROGRAM_FD(i);
	}
	keep[n] = 1;
	keep[n + 1] = 2;
	keep[n + 2] = *program_fd;
	return spawn_close_others(keep, n + 3);
}

void
program_become(int program_fd, const char *argument, const int fds[],
    size_t n, uid_t uid, pid_t parent)
{
	char name[] = PROGRAM_NET, *envp[] = {NULL};
	char *argv[] = {name, (char *)(uintptr_t)argument, NULL};

	if (put_in_place(&program_fd, fds, n) == -1)
		_exit(1);
	setsid();
	if (geteuid() == 0 &&
	    (setgroups(0, NULL) == -1 || setresgid(uid, uid, uid) == -1 ||
		setresuid(uid, uid, uid) == -1 || geteuid() != uid))
		_exit(1);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL) == -1 || getppid() != parent)
		_exit(1);
	fexecve(program_fd, argv, envp);
	_exit(1);
}
