/*
 * The floor of a start: a program that does what a sandboxed invocation cannot do
 * without, and nothing else: five files made, a broker forked, a socket, an init
 * cloned into seven namespaces, their maps, a private root out of read-only
 * copies of mounts, capabilities, limits, Landlock, the same system call filter,
 * the exec of the skill, and one answered call with two rows. Nothing is checked,
 * recorded, explained or undone. Usage: start_floor DIRECTORY PROGRAM [ARG...]
 */

#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "enforce/filter.h"

#define INSIDE 1000
#define OUTSIDE 200777
#define ROW 600

static void
fail(const char *what)
{
	perror(what);
	_exit(1);
}

/* What the skill sees of the host, at the same place. */
static const char *const shown[] = { "/usr", "/etc/ld.so.cache",
	"/etc/nsswitch.conf", "/etc/localtime", "/etc/ssl/certs",
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom" };

static int
take(const char *from)
{
	return (int)syscall(SYS_open_tree, AT_FDCWD, from,
	    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

static void
show(int fd, const char *from, const char *to)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID };
	struct stat st;

	if (fd == -1 || fstat(fd, &st) == -1)
		fail(from);
	if (!S_ISCHR(st.st_mode))
		attr.attr_set |= MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY;
	if (S_ISDIR(st.st_mode))
		mkdir(to, 0755);
	else
		close(open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr,
		sizeof(attr)) == -1 ||
	    syscall(SYS_move_mount, fd, "", AT_FDCWD, to,
		MOVE_MOUNT_F_EMPTY_PATH) == -1)
		fail(from);
	close(fd);
}

static void
make_root(const char *dir)
{
	char path[64];
	int skill_fd;
	size_t i;

	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == -1)
		fail("root");
	skill_fd = take(dir);
	if (mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, NULL) == -1)
		fail("root");
	if (chdir("/tmp") == -1)
		fail("root");
	mkdir("etc", 0755);
	mkdir("etc/ssl", 0755);
	mkdir("dev", 0755);
	mkdir("proc", 0755);
	mkdir("tmp", 0755);
	for (i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		snprintf(path, sizeof(path), "%s", shown[i] + 1);
		show(take(shown[i]), shown[i], path);
	}
	show(skill_fd, dir, "skill");
	symlink("usr/bin", "bin");
	symlink("usr/lib", "lib");
	symlink("usr/lib64", "lib64");
	if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		"hidepid=2") == -1 ||
	    mount("tmpfs", "tmp", "tmpfs", MS_NOSUID | MS_NODEV,
		"size=64m") == -1 ||
	    syscall(SYS_pivot_root, ".", ".") == -1 ||
	    umount2(".", MNT_DETACH) == -1 || chdir("/") == -1 ||
	    sethostname("skill", 5) == -1)
		fail("root");
}

static void
limit(void)
{
	struct landlock_ruleset_attr all = { .handled_access_fs = 0x1fff };
	struct landlock_path_beneath_attr rule = { .allowed_access = 0xd };
	struct rlimit r = { 4096, 4096 };
	int ruleset;
	size_t i;

	for (i = 0; i < 4; i++)
		setrlimit(i == 0 ? RLIMIT_CORE : RLIMIT_NOFILE, &r);
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof(all),
	    0);
	for (i = 0; i < 2; i++) {
		rule.parent_fd = open(i == 0 ? "/usr" : "/", O_PATH | O_CLOEXEC);
		syscall(SYS_landlock_add_rule, ruleset,
		    LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
		close(rule.parent_fd);
	}
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) == -1)
		fail("landlock");
	close(ruleset);
}

struct birth {
	char **argv;
	char **envp;
};

static int
skill(void *arg)
{
	const struct birth *b = arg;
	const struct seccomp_program *f = filter_of(SECCOMP_SKILL, true, false);

	setsid();
	limit();
	if (filter_enter(f, true) == -1)
		fail("filter");
	execve(b->argv[0], b->argv, b->envp);
	fail(b->argv[0]);
	return 1;
}

static void
init(const char *dir, int go, char **argv)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3,
		0 };
	struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };
	char path[] = "CYBEROS_BROKER_SOCKET=/skill/s";
	char *envp[] = { path, NULL };
	struct birth b = { argv, envp };
	static char stack[65536];
	char c;
	int cap, status;

	if (read(go, &c, 1) != 1)
		_exit(1);
	setgroups(0, NULL);
	if (setresgid(INSIDE, INSIDE, INSIDE) == -1 ||
	    setresuid(INSIDE, INSIDE, INSIDE) == -1)
		fail("ids");
	prctl(PR_SET_KEEPCAPS, 0);
	make_root(dir);
	for (cap = 0; prctl(PR_CAPBSET_DROP, cap) == 0; cap++)
		;
	syscall(SYS_capset, &head, none);
	if (clone(skill, stack + sizeof(stack),
		CLONE_VM | CLONE_VFORK | SIGCHLD, &b) == -1)
		fail("clone");
	while (wait(&status) == -1 && errno == EINTR)
		;
	_exit(WEXITSTATUS(status));
}

static void
map(pid_t pid, const char *file)
{
	char path[64], text[64];
	int fd, n;

	snprintf(path, sizeof(path), "/proc/%ld/%s", (long)pid, file);
	n = snprintf(text, sizeof(text), "%d %d 1", INSIDE, OUTSIDE);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd == -1 || write(fd, text, (size_t)n) != n)
		fail(file);
	close(fd);
}

static void
answer(int listener, int ledger, const char *note)
{
	char in[4096], text[2048], row[ROW], out[4 + 1280];
	uint32_t head = htonl(sizeof(out) - 4);
	int fd = accept(listener, NULL, NULL), file;

	memset(row, 'x', sizeof(row));
	memset(out, ' ', sizeof(out));
	memcpy(out, &head, 4);
	memcpy(out + 4, "{\"content_hash\":1}", 18);
	if (read(fd, in, sizeof(in)) <= 0)
		return;
	file = open(note, O_RDONLY | O_CLOEXEC);
	if (write(ledger, row, sizeof(row)) == -1 ||
	    read(file, text, sizeof(text)) == -1 ||
	    write(ledger, row, sizeof(row)) == -1 ||
	    write(fd, out, sizeof(out)) == -1)
		fail("call");
}

static void
broker(const char *dir, int ledger, char **argv)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct clone_args args;
	char note[PATH_MAX];
	int go[2], listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t pid;
	siginfo_t info;

	if (pipe2(go, O_CLOEXEC) == -1)
		fail("pipe");
	memset(&args, 0, sizeof(args));
	args.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
	    CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
	args.exit_signal = SIGCHLD;
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == -1)
		fail("clone3");
	if (pid == 0)
		init(dir, go[0], argv);
	map(pid, "uid_map");
	map(pid, "gid_map");
	if (write(go[1], "g", 1) != 1)
		fail("go");
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/s", dir);
	unlink(sun.sun_path);
	if (bind(listener, (struct sockaddr *)&sun, sizeof(sun)) == -1 ||
	    chmod(sun.sun_path, 0777) == -1 || listen(listener, 8) == -1)
		fail("socket");
	snprintf(note, sizeof(note), "%s/note", dir);
	answer(listener, ledger, note);
	waitid(P_PID, (id_t)pid, &info, WEXITED);
	_exit(info.si_status);
}

int
main(int argc, char **argv)
{
	char path[PATH_MAX];
	int i, fd = -1, status;
	pid_t pid;

	if (argc < 3)
		return 2;
	pid = fork();
	for (i = 0; i < 5 && pid != 0; i++) {
		snprintf(path, sizeof(path), "%s/%ld.%d", argv[1],
		    (long)getpid(), i);
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd == -1)
			fail(path);
	}
	if (pid == 0) {
		snprintf(path, sizeof(path), "%s/ledger", argv[1]);
		fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		broker(argv[1], fd, argv + 2);
	}
	waitpid(pid, &status, 0);
	for (i = 0; i < 5; i++) {
		snprintf(path, sizeof(path), "%s/%ld.%d", argv[1],
		    (long)getpid(), i);
		unlink(path);
	}
	return WEXITSTATUS(status);
}
