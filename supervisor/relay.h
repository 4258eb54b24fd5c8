#ifndef SUPERVISOR_RELAY_H
#define SUPERVISOR_RELAY_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * The skill's standard streams (SPEC 1). A terminal or a pipe is inherited; a
 * regular file goes through a pipe of ours, since a descriptor of it could be
 * opened again for writing, and both outputs through one where they are the same
 * file; a directory is refused.
 */
enum relay_mode {
	RELAY_INHERIT,		/* as above */
	RELAY_NULL,		/* /dev/null */
	RELAY_ALWAYS		/* pipes, whatever they are */
};

struct relay {
	int	skill[3];	/* what the skill gets; each at 10 or above */
	struct relay_pump {
		int	from;	/* -1: nothing to do */
		int	to;
		bool	shared;	/* the caller's is a pipe or a socket, which
				 * others may have too */
		char	data[4096];	/* at most PIPE_BUF, so that a write
					 * that poll allows never waits */
		size_t	len;
	} pump[3];
};

#define RELAY_POLLFDS	3

/* 0, or -1 with errno; EISDIR: a stream is a directory. */
int	relay_open(struct relay *, enum relay_mode);

/* After the fork: the supervisor's copies of the skill's ends are closed. */
void	relay_forked(struct relay *);

/* Fill RELAY_POLLFDS entries (fd -1 where nothing is to do). */
void	relay_poll(const struct relay *, struct pollfd *);
void	relay_step(struct relay *, const struct pollfd *);

/* Copy what is left of the skill's output; its processes are gone. */
void	relay_drain(struct relay *);

/*
 * For who has no streams to pass on: one for a skill, at 10 or above, a pipe
 * with our end, which does not block, when it is wanted, else /dev/null. 0, or
 * -1 with errno and perhaps one of the two.
 */
int	relay_pipe(int stream, bool wanted, int *skill, int *ours);

/*
 * A description of our own of standard stream 1 or 2 that does not block,
 * close-on-exec; the stream itself where there can be none (a socket, a file).
 * (One of a pipe to read from would not see that its writers have gone before.)
 */
int	relay_unblocked(int stream);

#endif
