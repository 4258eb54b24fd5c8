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

/* COUNT frames in one write; each # is the frame's number. */
static void
flood(int n, int count, const char *p, size_t len)
{
	char *all = malloc((size_t)count * (len * 8 + 4)), *at = all;
	char *begun;
	uint32_t head;
	size_t i;
	int k;

	if (all == NULL)
		exit(99);
	for (k = 1; k <= count; k++) {
		begun = at;
		at += sizeof(head);
		for (i = 0; i < len; i++) {
			if (p[i] == '#')
				at += sprintf(at, "%d", k);
			else
				*at++ = p[i];
		}
		head = htonl((uint32_t)(at - begun) - 4);
		memcpy(begun, &head, sizeof(head));
	}
	put(n, all, (size_t)(at - all));
	free(all);
}

/* A frame of PRE, COUNT times MID, POST, from the text PRE|MID|POST. */
static void
wrap(int n, size_t count, char *text)
{
	char *mid = strchr(text, '|'), *post, *all, *at;
	size_t i, pre_len, mid_len, post_len;

	post = mid == NULL ? NULL : strchr(mid + 1, '|');
	if (post == NULL)
		exit(99);
	*mid++ = '\0';
	*post++ = '\0';
	pre_len = decode(text);
	mid_len = decode(mid);
	post_len = decode(post);
	all = at = malloc(pre_len + count * mid_len + post_len + 1);
	if (all == NULL)
		exit(99);
	memcpy(at, text, pre_len);
	at += pre_len;
	for (i = 0; i < count; i++, at += mid_len)
		memcpy(at, mid, mid_len);
	memcpy(at, post, post_len);
	frame(n, all, pre_len + count * mid_len + post_len);
	free(all);
}

/* A frame, one byte a write. */
static void
drip(int n, const char *p, size_t len)
{
	uint32_t head = htonl((uint32_t)len);
	size_t i;

	for (i = 0; i < sizeof(head); i++)
		put(n, (char *)&head + i, 1);
	for (i = 0; i < len; i++)
		put(n, p + i, 1);
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
	struct pollfd fd = {conns[n], POLLIN, 0};
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

enum form { SHORT, WHOLE, LAST };

static void
show(int n, const char *text, size_t len, enum form form)
{
	const char *end;

	if (form == WHOLE || len <= 4096) {
		printf("%d %s\n", n, text);
		return;
	}
	end = text + len - 200;
	while (((unsigned char)*end & 0xc0) == 0x80)
		end++; /* whole characters */
	if (form == LAST)
		printf("%d %zu bytes %s\n", n, len, end);
	else
		printf("%d %zu bytes %.200s\n", n, len, text);
}

static void
receive(int n, int ms, enum form form)
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
	} else {
		text[len] = '\0';
		show(n, text, len, form);
	}
	free(text);
}

static void
open_one(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	const char *path = getenv("CYBEROS_BROKER_SOCKET");
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (opened == CONNS || path == NULL)
		exit(99);
	strncpy(sun.sun_path, path, sizeof(sun.sun_path) - 1);
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == -1)
		printf("cannot connect: %s\n", strerror(errno));
	conns[++opened] = fd;
}

/* Commands whose text begins with a number. */
static int
obey_counted(const char *word, int n, const char *arg)
{
	char *text;
	long count = strtol(arg, &text, 10);
	int ms = count > 0 ? (int)count : 20000;

	if (*text == ' ')
		text++;
	if (strcmp(word, "rep") == 0)
		repeat(n, (size_t)count, text, decode(text));
	else if (strcmp(word, "flood") == 0)
		flood(n, (int)count, text, decode(text));
	else if (strcmp(word, "wrap") == 0)
		wrap(n, (size_t)count, text);
	else if (strcmp(word, "zeros") == 0)
		zeros(n, (size_t)count);
	else if (strcmp(word, "recv") == 0)
		receive(n, ms, SHORT);
	else if (strcmp(word, "full") == 0)
		receive(n, ms, WHOLE);
	else if (strcmp(word, "last") == 0)
		receive(n, ms, LAST);
	else
		return 0;
	return 1;
}

static void
obey(char *line)
{
	char word[16], *text;
	int n = 0, used = 0;

	line[strcspn(line, "\n")] = '\0';
	if (strncmp(line, "say ", 4) == 0) {
		puts(line + 4);
		return;
	}
	if (sscanf(line, "%15s %d%n", word, &n, &used) < 1 || line[0] == '#')
		return;
	text = line + used + (line[used] == ' ');
	if (n < 0 || (n > CONNS && strcmp(word, "sleep") != 0))
		exit(99);
	if (strcmp(word, "open") == 0) {
		open_one();
	} else if (strcmp(word, "send") == 0) {
		frame(n, text, decode(text));
	} else if (strcmp(word, "drip") == 0) {
		drip(n, text, decode(text));
	} else if (strcmp(word, "raw") == 0) {
		put(n, text, decode(text));
	} else if (strcmp(word, "shut") == 0) {
		shutdown(conns[n], SHUT_WR);
	} else if (strcmp(word, "close") == 0) {
		close(conns[n]);
	} else if (strcmp(word, "sleep") == 0) {
		usleep((useconds_t)n * 1000);
	} else if (strcmp(word, "exit") == 0) {
		exit(n);
	} else if (!obey_counted(word, n, text)) {
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
