/*
 * What reading a file costs from a server of the Model Context Protocol over its
 * standard streams: the median and the 99th percentile of a round trip in
 * nanoseconds. Usage: mcp COUNT FILE COMMAND...
 */

#include <sys/wait.h>

#include <fcntl.h>
#include <spawn.h>
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

/* Send a line and wait for the answer that holds this text. */
static void
ask(FILE *to, FILE *from, const char *request, const char *wanted)
{
	static char line[262144];

	fputs(request, to);
	fputc('\n', to);
	fflush(to);
	do {
		if (fgets(line, sizeof(line), from) == NULL ||
		    strstr(line, "\"isError\":true") != NULL ||
		    strstr(line, "\"error\":") != NULL)
			exit(1);
	} while (strstr(line, wanted) == NULL);
}

int
main(int argc, char **argv)
{
	size_t i, count = argc > 3 ? strtoul(argv[1], NULL, 10) : 0;
	int64_t *took = calloc(count + 1, sizeof(*took)), begun;
	posix_spawn_file_actions_t actions;
	char request[4400];
	int in[2], out[2];
	FILE *to, *from;
	pid_t pid;

	if (count == 0 || took == NULL || pipe2(in, O_CLOEXEC) == -1 ||
	    pipe2(out, O_CLOEXEC) == -1)
		return 1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	if (posix_spawnp(&pid, argv[3], &actions, NULL, argv + 3, environ) != 0)
		return 1;
	close(in[0]);
	close(out[1]);
	to = fdopen(in[1], "w");
	from = fdopen(out[0], "r");
	if (to == NULL || from == NULL)
		return 1;
	ask(to, from, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\","
	    "\"params\":{\"protocolVersion\":\"2024-11-05\",\"capabilities\":{},"
	    "\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}",
	    "\"id\":0");
	fputs("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n",
	    to);
	snprintf(request, sizeof(request), "{\"jsonrpc\":\"2.0\",\"id\":1,"
	    "\"method\":\"tools/call\",\"params\":{\"name\":\"read_text_file\","
	    "\"arguments\":{\"path\":\"%.4000s\"}}}", argv[2]);
	for (i = 0; i < count; i++) {
		begun = now();
		ask(to, from, request, "\"id\":1");
		took[i] = now() - begun;
	}
	fclose(to);
	waitpid(pid, NULL, 0);
	qsort(took, count, sizeof(*took), compare);
	printf("%lld %lld\n", (long long)took[count / 2],
	    (long long)took[count - 1 - count / 100]);
	return 0;
}
