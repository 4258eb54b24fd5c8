/*
 * How long a command takes from spawn to its end, and from spawn to the moment
 * whose monotonic time it prints: the medians of COUNT runs in nanoseconds.
 * Usage: start COUNT COMMAND...
 */

#include <sys/wait.h>

#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

int
main(int argc, char **argv)
{
	size_t i, count = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	int64_t *took = calloc(count + 1, sizeof(*took)), begun;
	int64_t *ready = calloc(count + 1, sizeof(*ready));
	posix_spawn_file_actions_t actions;
	char text[64];
	int status, fds[2];
	ssize_t n;
	pid_t pid;

	if (count == 0 || took == NULL || ready == NULL ||
	    pipe2(fds, O_CLOEXEC) == -1)
		return 1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
	for (i = 0; i < count; i++) {
		begun = now();
		if (posix_spawnp(&pid, argv[2], &actions, NULL, argv + 2,
			environ) != 0)
			return 1;
		if (waitpid(pid, &status, 0) == -1 || status != 0) {
			fprintf(stderr, "%s: status %d\n", argv[2], status);
			return 1;
		}
		took[i] = now() - begun;
		n = read(fds[0], text, sizeof(text) - 1);
		text[n > 0 ? n : 0] = '\0';
		ready[i] = strtoll(text, NULL, 10) - begun;
	}
	qsort(took, count, sizeof(*took), compare);
	qsort(ready, count, sizeof(*ready), compare);
	printf("%lld %lld\n", (long long)took[count / 2],
	    (long long)ready[count / 2]);
	return 0;
}
