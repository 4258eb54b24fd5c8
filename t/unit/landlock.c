/*
 * Landlock domains with nothing else around them: children enter one and try
 * each kind of access, the allowed and the refused; the parent looks at the
 * disk, at its listeners and at itself afterwards.
 */

#include "enforce/landlock.h"

#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "t/unit/tap.h"

static char directory[64];
static int abi, tcp_fd = -1, abstract_fd = -1;
static in_port_t tcp_port;
static struct sockaddr_un abstract;
static socklen_t abstract_len;

#define NEED(good)                                                             \
	do {                                                                   \
		if (!(good)) {                                                 \
			dprintf(1, "# line %d: %s (errno %d)\n", __LINE__,     \
			    #good, errno);                                     \
			_exit(1);                                              \
		}                                                              \
	} while (0)

#define REFUSED(error, call)                                                   \
	do {                                                                   \
		errno = 0;                                                     \
		NEED((call) == -1 && errno == (error));                        \
	} while (0)

/* What a step is given: an ABI to stay below, and scopes or none. */
struct way {
	int abi;
	bool scopes;
};

static void
enter(const struct way *w)
{
	static const struct {
		const char *path;
		enum landlock_access access;
	} rules[] = { { "list", LANDLOCK_LIST }, { "read", LANDLOCK_READ },
		{ "run", LANDLOCK_RUN }, { "write", LANDLOCK_WRITE },
		{ "write2", LANDLOCK_WRITE },
		{ "closed/one", LANDLOCK_READ },
		{ "closed/two", LANDLOCK_WRITE },
		{ "closed/three", LANDLOCK_LIST },
		{ "/usr", LANDLOCK_RUN }, { "/bin", LANDLOCK_RUN },
		{ "/lib", LANDLOCK_RUN }, { "/lib64", LANDLOCK_RUN },
		{ "/etc", LANDLOCK_READ }, { "/dev/null", LANDLOCK_DEVICE },
		{ "/dev/zero", LANDLOCK_WRITE } };
	int set;
	size_t i;

	set = landlock_ruleset(w->abi, w->scopes);
	NEED(set != -1 && fcntl(set, F_GETFD) == FD_CLOEXEC);
	for (i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		NEED(landlock_allow(set, w->abi, rules[i].path,
			 rules[i].access) == 0 ||
		    (errno == ENOENT && rules[i].path[0] == '/'));
	NEED(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	NEED(landlock_enter(set) == 0);
	close(set);
}

static void
in_domain(int most, bool scopes, void (*body)(void), const char *name)
{
	const struct way w = { most < abi ? most : abi, scopes };
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		enter(&w);
		body();
		_exit(0);
	}
	if (pid != -1)
		waitpid(pid, &status, 0);
	is_int(status, 0, name);
}

static int
put(const char *path, const char *text, mode_t mode)
{
	size_t len = strlen(text);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	int result;

	if (fd == -1)
		return -1;
	result = write(fd, text, len) == (ssize_t)len ? 0 : -1;
	close(fd);
	return result;
}

static int
opens(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd == -1)
		return -1;
	close(fd);
	return 0;
}

/* The status of a program, or -1 with errno when it could not start. */
static int
runs(const char *path)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		execl(path, path, NULL);
		_exit(100 + errno);
	}
	if (pid == -1 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	if (WEXITSTATUS(status) >= 100) {
		errno = WEXITSTATUS(status) - 100;
		return -1;
	}
	return WEXITSTATUS(status);
}

static bool
holds(const char *path, const char *text)
{
	char got[128];
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd == -1)
		return false;
	n = read(fd, got, sizeof(got));
	close(fd);
	return n == (ssize_t)strlen(text) && memcmp(got, text, (size_t)n) == 0;
}

/* --- files --- */

static void
list_and_read(void)
{
	NEED(opens("list", O_RDONLY | O_DIRECTORY) == 0);
	REFUSED(EACCES, opens("list/f", O_RDONLY));
	NEED(opens("read", O_RDONLY | O_DIRECTORY) == 0);
	NEED(holds("read/f", "text"));
	REFUSED(EACCES, opens("read/f", O_WRONLY));
	REFUSED(EACCES, opens("read/f", O_RDWR));
	REFUSED(EACCES, opens("read/new", O_WRONLY | O_CREAT));
	REFUSED(EACCES, unlink("read/f"));
	REFUSED(EACCES, mkdir("read/d", 0700));
	REFUSED(EACCES, runs("read/true"));
}

static void
run_only(void)
{
	NEED(runs("run/true") == 0);
	NEED(runs("/bin/true") == 0);
	REFUSED(EACCES, opens("run/true", O_WRONLY));
	REFUSED(EACCES, put("run/new", "x", 0700));
}

static void
write_all_kinds(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int s;

	NEED(put("write/a", "new", 0700) == 0 && holds("write/a", "new"));
	NEED(truncate("write/a", 1) == 0 && holds("write/a", "n"));
	NEED(mkdir("write/d", 0700) == 0 && rmdir("write/d") == 0);
	NEED(symlink("a", "write/l") == 0 && unlink("write/l") == 0);
	NEED(mkfifo("write/p", 0600) == 0 && unlink("write/p") == 0);
	NEED(link("write/a", "write/b") == 0 && unlink("write/b") == 0);
	NEED(rename("write/a", "write/c") == 0);
	strlcpy(sun.sun_path, "write/s", sizeof(sun.sun_path));
	NEED((s = socket(AF_UNIX, SOCK_STREAM, 0)) != -1);
	NEED(bind(s, (struct sockaddr *)&sun, sizeof(sun)) == 0);
	NEED(unlink("write/s") == 0);
	REFUSED(EACCES, mknod("write/n", S_IFCHR | 0666, 0x103));
	REFUSED(EACCES, runs("write/c"));
	REFUSED(EACCES, runs("write/true"));
}

static void
across(void)
{
	NEED(put("write/x", "x", 0600) == 0);
	NEED(rename("write/x", "write2/x") == 0);
	NEED(link("write2/x", "write/x") == 0);
	NEED(unlink("write/x") == 0);
}

/* Out of one place that is ours into one that is not, and back. */
static void
closed(void)
{
	REFUSED(EACCES, opens("closed", O_RDONLY | O_DIRECTORY));
	REFUSED(EACCES, opens("closed/f", O_RDONLY));
	REFUSED(EACCES, opens("closed/f", O_WRONLY));
	REFUSED(EACCES, put("closed/new", "x", 0600));
	REFUSED(EACCES, unlink("closed/f"));
	REFUSED(EACCES, mkdir("closed/d", 0700));
	REFUSED(EACCES, rmdir("closed/empty"));
	REFUSED(EACCES, symlink("f", "closed/l"));
	REFUSED(EACCES, runs("closed/true"));
	NEED(put("write/y", "y", 0600) == 0);
	REFUSED(EACCES, rename("write/y", "closed/y"));
	REFUSED(EACCES, link("write/y", "closed/y"));
	REFUSED(EACCES, rename("closed/f", "write/f"));
	NEED(link("closed/f", "write/f") == -1);
	NEED(rename("closed/empty", "write/empty") == -1);
	REFUSED(EACCES, opens("/", O_RDONLY | O_DIRECTORY));
	REFUSED(EACCES, opens("write/../closed/f", O_RDONLY));
	NEED(symlink("../closed/f", "write/out") == 0);
	REFUSED(EACCES, opens("write/out", O_RDONLY));
	NEED(unlink("write/out") == 0);
}

/* Rules on single files: what a file cannot have is left out. */
static void
single_files(void)
{
	NEED(holds("closed/one", "text"));
	REFUSED(EACCES, opens("closed/one", O_WRONLY));
	NEED(opens("closed/two", O_RDWR) == 0);
	REFUSED(EACCES, unlink("closed/two"));
	REFUSED(EACCES, opens("closed/three", O_RDONLY));
}

static void
truncates_not(void)
{
	REFUSED(EACCES, truncate("closed/f", 0));
	REFUSED(EACCES, truncate("closed/one", 0));
	REFUSED(EACCES, opens("read/f", O_RDONLY | O_TRUNC));
	NEED(truncate("closed/two", 4) == 0);
}

static void
devices(void)
{
	int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDWR);
	int dummy;

	NEED(null != -1 && zero != -1 && write(null, "x", 1) == 1);
	REFUSED(ENOTTY, ioctl(null, TIOCGPGRP, &dummy));
	REFUSED(EACCES, ioctl(zero, TIOCGPGRP, &dummy));
	REFUSED(EACCES, opens("/dev/urandom", O_RDONLY));
}

/* An ABI that lacks a right leaves the access alone, and nothing else. */
static void
first_abi(void)
{
	NEED(truncate("closed/spare", 0) == 0);
	NEED(put("write/z", "z", 0600) == 0);
	REFUSED(EXDEV, rename("write/z", "write2/z"));
	NEED(unlink("write/z") == 0);
	REFUSED(EACCES, opens("closed/f", O_RDONLY));
	REFUSED(EACCES, runs("read/true"));
}

/* --- network, signals --- */

static int
connects(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_port = tcp_port };
	int s = socket(AF_INET, SOCK_STREAM, 0), result, saved;

	if (s == -1)
		return -1;
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	result = connect(s, (struct sockaddr *)&sin, sizeof(sin));
	saved = errno;
	close(s);
	errno = saved;
	return result;
}

static int
binds(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	int s = socket(AF_INET, SOCK_STREAM, 0), result, saved;

	if (s == -1)
		return -1;
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	result = bind(s, (struct sockaddr *)&sin, sizeof(sin));
	saved = errno;
	close(s);
	errno = saved;
	return result;
}

static int
reaches_abstract(void)
{
	int s = socket(AF_UNIX, SOCK_STREAM, 0), result, saved;

	if (s == -1)
		return -1;
	result = connect(s, (struct sockaddr *)&abstract, abstract_len);
	saved = errno;
	close(s);
	errno = saved;
	return result;
}

static void
no_tcp(void)
{
	REFUSED(EACCES, connects());
	REFUSED(EACCES, binds());
}

static void
tcp(void)
{
	NEED(connects() == 0);
	NEED(binds() == 0);
}

static void
scoped(void)
{
	pid_t pid;

	REFUSED(EPERM, reaches_abstract());
	REFUSED(EPERM, kill(getppid(), 0));
	REFUSED(EPERM, kill(getppid(), SIGTERM));
	NEED((pid = fork()) != -1);
	if (pid == 0) {
		for (;;)
			pause();
	}
	NEED(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

static void
not_scoped(void)
{
	NEED(reaches_abstract() == 0);
	NEED(kill(getppid(), 0) == 0);
}

/* How many wait to be accepted; takes them. */
static int
callers(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };
	int n = 0, conn;

	while (poll(&p, 1, 0) == 1) {
		conn = accept(fd, NULL, NULL);
		if (conn == -1)
			break;
		close(conn);
		n++;
	}
	return n;
}

static bool
listen_here(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	tcp_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	abstract_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (tcp_fd == -1 || abstract_fd == -1 ||
	    bind(tcp_fd, (struct sockaddr *)&sin, sizeof(sin)) == -1 ||
	    getsockname(tcp_fd, (struct sockaddr *)&sin, &len) == -1 ||
	    listen(tcp_fd, 8) == -1)
		return false;
	tcp_port = sin.sin_port;
	abstract.sun_family = AF_UNIX;
	abstract_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
	    (size_t)snprintf(abstract.sun_path + 1, 64, "cyberos-u-%ld",
		(long)getpid()));
	return bind(abstract_fd, (struct sockaddr *)&abstract, abstract_len) ==
	    0 &&
	    listen(abstract_fd, 8) == 0;
}

static void
test_network(void)
{
	if (!listen_here()) {
		ok(true, "network # SKIP no loopback here");
		return;
	}
	in_domain(3, true, tcp, "ABI 3: TCP is left alone");
	is_int(callers(tcp_fd), 1, "and somebody called");
	if (abi >= 4) {
		in_domain(99, true, no_tcp, "no TCP connect or bind");
		is_int(callers(tcp_fd), 0, "and nobody called");
	}
	in_domain(99, false, not_scoped, "without scopes: socket and signal");
	is_int(callers(abstract_fd), 1, "and somebody called");
	if (abi >= 6) {
		in_domain(99, true, scoped, "with scopes: neither");
		is_int(callers(abstract_fd), 0, "and nobody called");
		in_domain(5, true, not_scoped, "ABI 5: scopes are left out");
	}
	close(tcp_fd);
	close(abstract_fd);
}

/* --- the interface --- */

static void
test_interface(void)
{
	int set, n;

	errno = 0;
	ok(landlock_ruleset(0, false) == -1 && errno == EOPNOTSUPP,
	    "no ABI, no ruleset");
	for (n = 1; n <= abi; n++) {
		set = landlock_ruleset(n, true);
		ok(set != -1 &&
			landlock_allow(set, n, "write", LANDLOCK_WRITE) == 0 &&
			landlock_allow(set, n, "closed/f", LANDLOCK_WRITE) ==
			    0 &&
			landlock_allow(set, n, "closed/f", LANDLOCK_DEVICE) ==
			    0 &&
			landlock_allow(set, n, "closed/f", LANDLOCK_LIST) == 0,
		    "ABI %d: a ruleset with rules", n);
		close(set);
	}
	set = landlock_ruleset(abi, false);
	errno = 0;
	ok(landlock_allow(set, abi, "missing", LANDLOCK_READ) == -1 &&
		errno == ENOENT,
	    "a missing path is an error");
	errno = 0;
	ok(landlock_allow_fd(set, abi, -1, LANDLOCK_READ) == -1 &&
		errno == EBADF,
	    "and so is no descriptor");
	errno = 0;
	ok(landlock_allow_fd(set, abi, set, (enum landlock_access)77) == -1 &&
		errno == EINVAL,
	    "and so is no access");
	close(set);
	ok(landlock_enter(-1) == -1, "or no ruleset");
}

static bool
copy_true(const char *to)
{
	char command[128];

	snprintf(command, sizeof(command), "cp -L /bin/true %s", to);
	return system(command) == 0;
}

static bool
furnish(void)
{
	static const char *const dirs[] = { "list", "read", "run", "write",
		"write2", "closed", "closed/empty" };
	static const char *const files[] = { "list/f", "read/f", "closed/f",
		"closed/one", "closed/two", "closed/three", "closed/spare" };
	size_t i;

	strlcpy(directory, "/tmp/cyberos-u.XXXXXX", sizeof(directory));
	if (mkdtemp(directory) == NULL || chdir(directory) == -1)
		return false;
	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		if (mkdir(dirs[i], 0700) == -1)
			return false;
	}
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (put(files[i], "text", 0600) == -1)
			return false;
	}
	return copy_true("read/true") && copy_true("run/true") &&
	    copy_true("write/true") && copy_true("closed/true");
}

static void
test_files(void)
{
	static const char *const gone[] = { "closed/new", "closed/y",
		"closed/d", "closed/l", "write/f", "write/empty", "read/new",
		"read/d", "run/new" };
	struct stat st;
	unsigned made = 0;
	size_t i;

	in_domain(99, true, list_and_read, "list is not read is not write");
	in_domain(99, true, run_only, "run is not write");
	in_domain(99, true, write_all_kinds, "write is not run, nor devices");
	if (abi >= 2)
		in_domain(99, true, across, "from one place to another");
	in_domain(99, true, closed, "what is not named is closed");
	in_domain(99, true, single_files, "rules on files");
	if (abi >= 3)
		in_domain(99, true, truncates_not, "truncate is a write");
	if (abi >= 5)
		in_domain(99, true, devices, "ioctl on named devices only");
	in_domain(1, true, first_abi, "ABI 1: later rights are left alone");
	for (i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) {
		if (lstat(gone[i], &st) == 0)
			made++;
	}
	ok(made == 0 && lstat("closed/empty", &st) == 0 &&
		holds("closed/f", "text") && holds("closed/one", "text") &&
		holds("closed/two", "text") && holds("read/f", "text"),
	    "the disk agrees");
	ok(holds("write2/x", "x") && holds("write/y", "y"),
	    "and has what was allowed");
}

int
main(void)
{
	abi = landlock_abi();
	if (abi == 0) {
		ok(true, "all of it # SKIP no Landlock in this kernel");
		return done();
	}
	printf("# Landlock ABI %d\n", abi);
	if (ok(furnish(), "files to try it on")) {
		test_interface();
		test_files();
		test_network();
	}
	ok(chdir("/") == 0, "tidy");
	remove_all(directory);
	return done();
}
