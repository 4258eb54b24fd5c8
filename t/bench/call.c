/*
 * The client of the call benchmark: reads one memory file again and again and
 * prints the median and the 99th percentile of a round trip in nanoseconds.
 * Usage: call COUNT, with CYBEROS_BROKER_SOCKET in the environment. "call now"
 * prints the monotonic clock, "call first" the same after one answered call.
 */

#include <sys/socket.h>
#include <sys/un.h>

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char request[] =
    "{\"jsonrpc\":\"2.0\",\"method\":\"tool.call\",\"params\":{\"tool\":"
    "\"MemoryRead\",\"args\":{\"path\":\"memories/bench/note\"}},\"id\":1}";

static int64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void
get(int fd, void *p, size_t n)
{
	char *at = p;
	ssize_t r;

	while (n > 0) {
		r = read(fd, at, n);
		if (r <= 0)
			exit(1);
		at += r;
		n -= (size_t)r;
	}
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
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	const char *path = getenv("CYBEROS_BROKER_SOCKET");
	bool first = argc > 1 && strcmp(argv[1], "first") == 0;
	size_t i, count = argc > 1 && !first ? strtoul(argv[1], NULL, 10) : 1;
	int64_t *took = calloc(count + 1, sizeof(*took)), begun;
	char message[4 + sizeof(request)], answer[65536];
	uint32_t head = htonl(sizeof(request) - 1);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (argc > 1 && strcmp(argv[1], "now") == 0) {
		printf("%lld\n", (long long)now());
		return 0;
	}
	if (path == NULL || took == NULL || count == 0)
		return 1;
	strncpy(sun.sun_path, path, sizeof(sun.sun_path) - 1);
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == -1)
		return 1;
	memcpy(message, &head, 4);
	memcpy(message + 4, request, sizeof(request) - 1);
	for (i = 0; i < count; i++) {
		begun = now();
		if (write(fd, message, 4 + sizeof(request) - 1) == -1)
			return 1;
		get(fd, &head, 4);
		if (ntohl(head) > sizeof(answer))
			return 1;
		get(fd, answer, ntohl(head));
		took[i] = now() - begun;
		if (strstr(answer, "\"content_hash\"") == NULL)
			return 1;
	}
	if (first) {
		printf("%lld\n", (long long)now());
		return 0;
	}
	qsort(took, count, sizeof(*took), compare);
	printf("%lld %lld\n", (long long)took[count / 2],
	    (long long)took[count - 1 - count / 100]);
	return 0;
}
