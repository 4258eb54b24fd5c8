/* The socket's place: what is shown of it is what was made, whatever its name
 * leads to by then. */

#include "broker/socket.h"

#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "t/unit/tap.h"

#define ID "01234567-89ab-4def-8123-456789abcdef"

int
main(void)
{
	char dir[] = "/tmp/cyberos-unit.XXXXXX", why[512], secret[64];
	struct socket_place s;
	struct stat st;
	int fd;

	if (mkdtemp(dir) == NULL)
		return 99;
	snprintf(secret, sizeof(secret), "%s/secret", dir);
	fd = open(secret, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd == -1)
		return 99;
	close(fd);

	socket_init(&s);
	ok(socket_bind(&s, dir, ID, geteuid(), why, sizeof(why)) == 0 &&
		socket_take(&s) == -1,
	    "nothing to take before it is published");
	is_int(socket_publish(&s, why, sizeof(why)), 0, "published");
	socket_settle(&s);
	if (unlink(s.path) == -1 || symlink(secret, s.path) == -1)
		return 99;
	fd = socket_take(&s);
	ok(fd != -1 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) &&
		st.st_dev == s.dev && st.st_ino == s.ino,
	    "its name was exchanged: what is taken is the socket");
	is_int(socket_take(&s), -1, "once");
	close(fd);
	socket_clear(&s);

	/* Between bind and publish: something else stands in the nest. */
	if (unlink(s.path) == -1)
		return 99;
	socket_init(&s);
	if (socket_bind(&s, dir, ID, geteuid(), why, sizeof(why)) == -1 ||
	    renameat(s.nest_fd, SOCKET_NEST_LEAF, s.dir_fd, "kept") == -1 ||
	    symlinkat(secret, s.nest_fd, SOCKET_NEST_LEAF) == -1)
		return 99;
	ok(socket_publish(&s, why, sizeof(why)) == -1 &&
		(errno == ESTALE || errno == ELOOP),
	    "a link in its place is not published as the socket");
	is_int(socket_take(&s), -1, "and nothing is taken");
	socket_clear(&s);
	remove_all(dir);
	return done();
}
