/*
 * How long a command takes from spawn to end: the median of COUNT runs in
 * nanoseconds, its output thrown away. Usage: start COUNT COMMAND...
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
	posix_spawn_file_actions_t actions;
	int status;
	pid_t pid;

	if (count == 0 || took == NULL)
		return 1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY,
	    0);
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
	}
	qsort(took, count, sizeof(*took), compare);
	printf("%lld\n", (long long)took[count / 2]);
	return 0;
}
