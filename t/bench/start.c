/*
 * How long commands take from spawn to their end, and from spawn to the moment
 * whose monotonic time they print (0: they print none): of each one a line with
 * both medians in nanoseconds. They run in turn, COUNT times, so that all of
 * them see the same machine. Usage: start COUNT COMMAND... [, COMMAND...]...
 * A command that begins with "@ LINE" is started once and gets LINE instead each
 * time: its end is an event "completed", and what it prints is in an "output".
 */

#include <sys/wait.h>

#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int
compare(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

#define COMMANDS 8
/* What one leaves to be done (the kernel's, or a server's for the next time) is
 * done before another is measured. */
#define PAUSE_NS 30000000L

struct command {
	char **argv;
	int64_t *took, *ready;
	const char *line; /* NULL: run argv each time */
	FILE *to, *from;
	pid_t pid;
};

/* Cut the arguments at each ","; how many commands there are, or 0. */
static size_t
take_commands(char **argv, size_t count, struct command c[COMMANDS])
{
	size_t n = 0;

	while (*argv != NULL && n < COMMANDS) {
		memset(&c[n], 0, sizeof(c[n]));
		if (strcmp(argv[0], "@") == 0 && argv[1] != NULL) {
			c[n].line = argv[1];
			argv += 2;
		}
		c[n].argv = argv;
		c[n].took = calloc(count, sizeof(*c[n].took));
		c[n].ready = calloc(count, sizeof(*c[n].ready));
		if (c[n].took == NULL || c[n].ready == NULL)
			return 0;
		n++;
		while (*argv != NULL && strcmp(*argv, ",") != 0)
			argv++;
		if (*argv != NULL)
			*argv++ = NULL;
	}
	return *argv == NULL ? n : 0;
}

static int
run(const struct command *c, size_t round, const int fds[2],
    const posix_spawn_file_actions_t *actions)
{
	int64_t begun = now();
	char text[64];
	int status;
	ssize_t n;
	pid_t pid;

	if (posix_spawnp(&pid, c->argv[0], actions, NULL, c->argv, environ) !=
		0 ||
	    waitpid(pid, &status, 0) == -1 || status != 0) {
		fprintf(stderr, "%s failed\n", c->argv[0]);
		return -1;
	}
	c->took[round] = now() - begun;
	n = read(fds[0], text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	c->ready[round] = strtoll(text, NULL, 10);
	if (c->ready[round] != 0)
		c->ready[round] -= begun;
	return 0;
}

/* Start the one that gets lines. */
static bool
serve(struct command *c)
{
	posix_spawn_file_actions_t actions;
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) == -1 || pipe2(out, O_CLOEXEC) == -1)
		return false;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	if (posix_spawnp(&c->pid, c->argv[0], &actions, NULL, c->argv,
		environ) != 0)
		return false;
	close(in[0]);
	close(out[1]);
	c->to = fdopen(in[1], "w");
	c->from = fdopen(out[0], "r");
	return c->to != NULL && c->from != NULL;
}

static int
ask(const struct command *c, size_t round)
{
	static const char text[] = "\"text\":\"";
	int64_t begun = now();
	char event[4096], *at;

	if (fprintf(c->to, "%s\n", c->line) < 0 || fflush(c->to) != 0)
		return -1;
	for (;;) {
		if (fgets(event, sizeof(event), c->from) == NULL ||
		    strstr(event, "\"event\":\"rejected\"") != NULL)
			return -1;
		at = strstr(event, text);
		if (at != NULL)
			c->ready[round] = strtoll(at + strlen(text), NULL, 10) -
			    begun;
		if (strstr(event, "\"event\":\"completed\"") == NULL)
			continue;
		c->took[round] = now() - begun;
		return strstr(event, "\"success\"") != NULL ? 0 : -1;
	}
}

static bool
serve_end(const struct command *c)
{
	int status;

	fclose(c->to);
	while (getc(c->from) != EOF)
		;
	fclose(c->from);
	return waitpid(c->pid, &status, 0) == c->pid && status == 0;
}

int
main(int argc, char **argv)
{
	size_t i, k, n, count = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	posix_spawn_file_actions_t actions;
	const struct timespec pause = { 0, PAUSE_NS };
	struct command c[COMMANDS];
	int fds[2];

	n = count == 0 ? 0 : take_commands(argv + 2, count, c);
	if (n == 0 || pipe2(fds, O_CLOEXEC) == -1)
		return 1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
	for (k = 0; k < n; k++) {
		if (c[k].line != NULL && !serve(&c[k]))
			return 1;
	}
	for (i = 0; i < count; i++) {
		for (k = 0; k < n; k++) {
			if ((c[k].line != NULL
				    ? ask(&c[k], i)
				    : run(&c[k], i, fds, &actions)) == -1)
				return 1;
			nanosleep(&pause, NULL);
		}
	}
	for (k = 0; k < n; k++) {
		if (c[k].line != NULL && !serve_end(&c[k]))
			return 1;
	}
	for (k = 0; k < n; k++) {
		qsort(c[k].took, count, sizeof(*c[k].took), compare);
		qsort(c[k].ready, count, sizeof(*c[k].ready), compare);
		printf("%lld %lld\n", (long long)c[k].took[count / 2],
		    (long long)c[k].ready[count / 2]);
	}
	return 0;
}
