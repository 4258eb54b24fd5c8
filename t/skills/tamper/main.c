/* The hands of somebody outside: see SKILL.md beside this file. */

#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH 200 /* times between two looks at standard input */

static bool
over(void)
{
	struct pollfd in = {STDIN_FILENO, POLLIN, 0};
	char c;

	return poll(&in, 1, 0) == 1 && read(STDIN_FILENO, &c, 1) <= 0;
}

static int
flip(const char *a, const char *b)
{
	unsigned long n = 0;
	int i;

	while (!over()) {
		for (i = 0; i < BATCH; i++, n++) {
			if (renameat2(AT_FDCWD, a, AT_FDCWD, b,
				RENAME_EXCHANGE) == -1) {
				perror("flip");
				return 1;
			}
		}
	}
	/* As they were. */
	if (n % 2 == 1)
		renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
	printf("flips %lu\n", n);
	return 0;
}

/* Another directory comes and goes at that place. */
static int
cover(const char *place, const char *with)
{
	unsigned long n = 0;

	for (; !over(); n++) {
		if (mount(with, place, NULL, MS_BIND, NULL) == -1 ||
		    umount2(place, MNT_DETACH) == -1) {
			perror("cover");
			return 1;
		}
	}
	printf("flips %lu\n", n);
	return 0;
}

static int
whole(const char *file, size_t size)
{
	unsigned long reads = 0, mixed = 0, wrong = 0;
	char *data = malloc(size + 2);
	size_t i, len;
	ssize_t n;
	int fd;

	if (data == NULL)
		return 1;
	for (; !over(); reads++) {
		fd = open(file, O_RDONLY);
		if (fd == -1) {
			wrong++;
			continue;
		}
		for (len = 0; len <= size; len += (size_t)n) {
			n = read(fd, data + len, size + 1 - len);
			if (n <= 0)
				break;
		}
		close(fd);
		for (i = 1; i < len && data[i] == data[0]; i++)
			;
		wrong += len != size;
		mixed += i < len;
	}
	free(data);
	printf("reads %lu mixed %lu wrong %lu\n", reads, mixed, wrong);
	return 0;
}

static int
setx(const char *file, const char *name, const char *hex)
{
	char value[4096], pair[3] = "";
	size_t n = 0;

	for (; hex[0] != '\0' && hex[1] != '\0' && n < sizeof(value);
	     hex += 2) {
		memcpy(pair, hex, 2);
		value[n++] = (char)strtoul(pair, NULL, 16);
	}
	if (setxattr(file, name, value, n, 0) == -1) {
		perror(name);
		return 1;
	}
	return 0;
}

static int
getx(const char *file, const char *name)
{
	unsigned char value[4096];
	ssize_t i, n;

	n = getxattr(file, name, value, sizeof(value));
	if (n == -1) {
		perror(name);
		return 1;
	}
	for (i = 0; i < n; i++)
		printf("%02x", value[i]);
	putchar('\n');
	return 0;
}

static int
leave_socket(const char *path)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strncpy(sun.sun_path, path, sizeof(sun.sun_path) - 1);
	return bind(fd, (struct sockaddr *)&sun, sizeof(sun)) == -1;
}

int
main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";

	if (argc == 4 && strcmp(word, "flip") == 0)
		return flip(argv[2], argv[3]);
	if (argc == 4 && strcmp(word, "cover") == 0)
		return cover(argv[2], argv[3]);
	if (argc == 4 && strcmp(word, "whole") == 0)
		return whole(argv[2], (size_t)strtoul(argv[3], NULL, 10));
	if (argc == 5 && strcmp(word, "setx") == 0)
		return setx(argv[2], argv[3], argv[4]);
	if (argc == 4 && strcmp(word, "getx") == 0)
		return getx(argv[2], argv[3]);
	if (argc == 3 && strcmp(word, "socket") == 0)
		return leave_socket(argv[2]);
	return 2;
}
