/* The test client: see SKILL.md beside this file for its commands. */

#include <sys/socket.h>
#include <sys/un.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNS 64

static int conns[CONNS + 1];
static int opened;

static size_t
decode(char *s)
{
	char *in = s, *out = s, hex[3] = "";

	while (*in != '\0') {
		if (in[0] == '\\' && in[1] == 'x') {
			memcpy(hex, in + 2, 2);
			*out++ = (char)strtoul(hex, NULL, 16);
			in += 4;
		} else if (in[0] == '\\' && in[1] == '\\') {
			*out++ = '\\';
			in += 2;
		} else {
			*out++ = *in++;
		}
	}
	*out = '\0';
	return (size_t)(out - s);
}

static void
put(int n, const void *p, size_t len)
{
	const char *at = p;
	ssize_t w;

	while (len > 0) {
		w = send(conns[n], at, len, MSG_NOSIGNAL);
		if (w <= 0) {
			printf("%d cannot send: %s\n", n, strerror(errno));
			return;
		}
		at += w;
		len -= (size_t)w;
	}
}

static void
frame(int n, const void *p, size_t len)
{
	uint32_t head = htonl((uint32_t)len);

	put(n, &head, sizeof(head));
	put(n, p, len);
}

static void
repeat(int n, size_t count, const char *p, size_t len)
{
	char *all = malloc(count * len + 1);
	size_t i;

	if (all == NULL)
		exit(99);
	for (i = 0; i < count; i++)
		memcpy(all + i * len, p, len);
	frame(n, all, count * len);
	free(all);
}

static void
zeros(int n, size_t count)
{
	static const char none[65536];
	size_t now;

	for (; count > 0; count -= now) {
		now = count < sizeof(none) ? count : sizeof(none);
		put(n, none, now);
	}
}

static int
get(int n, void *p, size_t len, int ms)
{
	struct pollfd fd = { conns[n], POLLIN, 0 };
	char *at = p;
	ssize_t r;

	while (len > 0) {
		if (poll(&fd, 1, ms) == 0)
			return 0;
		r = read(conns[n], at, len);
		if (r <= 0)
			return -1;
		at += r;
		len -= (size_t)r;
	}
	return 1;
}

static void
receive(int n, int ms)
{
	uint32_t head;
	char *text;
	size_t len;
	int got;

	got = get(n, &head, sizeof(head), ms);
	if (got != 1) {
		printf("%d %s\n", n, got == 0 ? "nothing" : "closed");
		return;
	}
	len = ntohl(head);
	text = malloc(len + 1);
	if (text == NULL || get(n, text, len, 20000) != 1) {
		printf("%d broken frame of %zu\n", n, len);
	} else if (len > 4096) {
		printf("%d %zu bytes %.200s\n", n, len, text);
	} else {
		text[len] = '\0';
		printf("%d %s\n", n, text);
	}
	free(text);
}

static void
open_one(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	const char *path = getenv("CYBEROS_BROKER_SOCKET");
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (opened == CONNS || path == NULL)
		exit(99);
	strncpy(sun.sun_path, path, sizeof(sun.sun_path) - 1);
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == -1)
		printf("cannot connect: %s\n", strerror(errno));
	conns[++opened] = fd;
}

static void
obey(char *line)
{
	char word[16], *text;
	int n = 0, used = 0;
	long count = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%15s %d%n", word, &n, &used) < 1 || line[0] == '#')
		return;
	text = line + used + (line[used] == ' ');
	if (n < 0 || (n > CONNS && strcmp(word, "sleep") != 0))
		exit(99);
	if (strcmp(word, "open") == 0) {
		open_one();
	} else if (strcmp(word, "send") == 0) {
		frame(n, text, decode(text));
	} else if (strcmp(word, "rep") == 0) {
		count = strtol(text, &text, 10);
		repeat(n, (size_t)count, text + 1, decode(text + 1));
	} else if (strcmp(word, "raw") == 0) {
		put(n, text, decode(text));
	} else if (strcmp(word, "zeros") == 0) {
		zeros(n, (size_t)strtol(text, NULL, 10));
	} else if (strcmp(word, "recv") == 0) {
		count = strtol(text, NULL, 10);
		receive(n, count > 0 ? (int)count : 10000);
	} else if (strcmp(word, "shut") == 0) {
		shutdown(conns[n], SHUT_WR);
	} else if (strcmp(word, "close") == 0) {
		close(conns[n]);
	} else if (strcmp(word, "sleep") == 0) {
		usleep((useconds_t)n * 1000);
	} else if (strcmp(word, "exit") == 0) {
		exit(n);
	} else {
		printf("what is %s?\n", word);
	}
}

int
main(void)
{
	char *line = NULL;
	size_t size = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (getline(&line, &size, stdin) > 0)
		obey(line);
	free(line);
	return 0;
}
