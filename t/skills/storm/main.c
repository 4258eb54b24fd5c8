/* Thousands of calls: see SKILL.md beside this file. */

#include <sys/socket.h>
#include <sys/un.h>

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWERS 8192
#define LINES 64
#define SHOWN 3000

static struct {
	char *text;
	size_t len;
	uint32_t sum;
	unsigned long count;
} answers[ANSWERS];
static size_t answers_n;

static void
fail(const char *what)
{
	printf("storm: %s\n", what);
	exit(99);
}

static void
put(int fd, const void *p, size_t len)
{
	const char *at = p;
	ssize_t w;

	for (; len > 0; at += w, len -= (size_t)w) {
		w = send(fd, at, len, MSG_NOSIGNAL);
		if (w <= 0)
			fail("cannot send");
	}
}

static void
get(int fd, void *p, size_t len)
{
	char *at = p;
	ssize_t r;

	for (; len > 0; at += r, len -= (size_t)r) {
		r = read(fd, at, len);
		if (r <= 0)
			fail("the broker has hung up");
	}
}

static void
request(int fd, const char *params)
{
	static const char head[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":"
				   "\"tool.call\",\"params\":";
	size_t n = strlen(params);
	uint32_t len = htonl((uint32_t)(sizeof(head) - 1 + n + 1));

	put(fd, &len, sizeof(len));
	put(fd, head, sizeof(head) - 1);
	put(fd, params, n);
	put(fd, "}", 1);
}

static uint32_t
sum_of(const char *p, size_t n)
{
	uint32_t sum = 2166136261U;

	for (; n > 0; n--) {
		sum ^= (unsigned char)*p++;
		sum *= 16777619U;
	}
	return sum;
}

static void
answer(int fd)
{
	uint32_t head, sum;
	size_t i, len;
	char *text;

	get(fd, &head, sizeof(head));
	len = ntohl(head);
	text = malloc(len + 1);
	if (text == NULL)
		fail("no memory");
	get(fd, text, len);
	text[len] = '\0';
	sum = sum_of(text, len);
	for (i = 0; i < answers_n; i++) {
		if (answers[i].sum == sum && answers[i].len == len &&
		    memcmp(answers[i].text, text, len) == 0)
			break;
	}
	if (i == ANSWERS)
		fail("too many different answers");
	answers[i].count++;
	if (i < answers_n) {
		free(text);
		return;
	}
	answers[i].text = text;
	answers[i].sum = sum;
	answers[i].len = len;
	answers_n++;
}

static void
report(unsigned long count)
{
	size_t i;

	for (i = 0; i < answers_n; i++) {
		if (answers[i].len <= SHOWN)
			printf("%lu %s\n", answers[i].count, answers[i].text);
		else
			printf("%lu %.200s... %zu bytes %08x\n",
			    answers[i].count, answers[i].text, answers[i].len,
			    answers[i].sum);
		free(answers[i].text);
	}
	memset(answers, 0, sizeof(answers));
	answers_n = 0;
	printf("done %lu\n", count);
	fflush(stdout);
}

static void
round_of(int fd, char *const *lines, size_t n, unsigned long count,
    unsigned long window)
{
	unsigned long sent = 0, got = 0;

	while (got < count) {
		while (sent < count && sent - got < window) {
			request(fd, lines[sent % n]);
			sent++;
		}
		answer(fd);
		got++;
	}
	report(count);
}

static size_t
next_line(char **line)
{
	size_t size = 0;
	ssize_t n;

	*line = NULL;
	n = getline(line, &size, stdin);
	if (n <= 0)
		return 0;
	if ((*line)[n - 1] == '\n')
		(*line)[n - 1] = '\0';
	return (size_t)n;
}

int
main(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	const char *path = getenv("CYBEROS_BROKER_SOCKET");
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	unsigned long count, window;
	char *head, *lines[LINES];
	size_t i, n;

	if (path == NULL)
		fail("no broker");
	strncpy(sun.sun_path, path, sizeof(sun.sun_path) - 1);
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == -1)
		fail("cannot connect");
	while (next_line(&head) > 0) {
		if (sscanf(head, "%lu %lu %zu", &count, &window, &n) != 3 ||
		    n == 0 || n > LINES || window == 0)
			fail("what round is this?");
		free(head);
		for (i = 0; i < n; i++) {
			if (next_line(&lines[i]) == 0)
				fail("a line is missing");
		}
		round_of(fd, lines, n, count, window);
		for (i = 0; i < n; i++)
			free(lines[i]);
	}
	return 0;
}
