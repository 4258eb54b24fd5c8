/*
 * The steps of the confinement, in the order that works (comments say what
 * breaks in another one). They run in a process that is a fork of the broker,
 * so they ask the kernel and nothing else: no allocation, no stdio. Against
 * the skill they guarantee that what is not put into its root is not there.
 */

#include "enforce/confine.h"

#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "enforce/bundle.h"
#include "enforce/fdpass.h"
#include "enforce/filter.h"
#include "enforce/landlock.h"

/*
 * Where the new root is built. Nothing that is shown in the sandbox lies
 * below /sys, so covering it hides no source of a bind.
 */
#define NEW_ROOT "/sys"

#define ATTR_SHOWN (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define ATTR_DATA (ATTR_SHOWN | MOUNT_ATTR_NOEXEC)
#define ATTR_DEVICE                                                            \
	(MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

static int
write_file(const char *path, const char *text)
{
	size_t len = strlen(text);
	ssize_t n;
	int fd;

	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd == -1)
		return -1;
	n = write(fd, text, len);
	close(fd);
	return n == (ssize_t)len ? 0 : -1;
}

/* While init is dumpable and has the broker's uid: afterwards the file is
 * somebody else's. */
static int
step_oom_score(struct confine_plan *p)
{
	(void)p;
	return write_file("/proc/self/oom_score_adj", "1000");
}

/* Emptying the bounding set takes a capability, so it is done while there are
 * some. */
static int
drop_bounding_set(void)
{
	unsigned long cap;

	for (cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		;
	/* The first that the kernel does not know ends it. */
	return cap > 0 && errno == EINVAL ? 0 : -1;
}

/* As root the ids change; where they do, a death signal is lost, so it is set
 * by the step after this one. Before the mounts: what root makes in a tmpfs
 * while its uid is not mapped is EOVERFLOW. Inside a user namespace the
 * capabilities outlive the change, outside of one they do not. */
static int
step_identity(struct confine_plan *p)
{
	uid_t uid = p->namespaces ? CONFINE_INSIDE_ID : p->host_uid;
	gid_t gid = p->namespaces ? CONFINE_INSIDE_ID : p->host_gid;

	if (!p->root)
		return 0;
	if (uid == 0 || gid == 0) {
		errno = EPERM;
		return -1;
	}
	if (!p->namespaces && drop_bounding_set() == -1)
		return -1;
	if (setgroups(0, NULL) == -1 || setresgid(gid, gid, gid) == -1 ||
	    setresuid(uid, uid, uid) == -1)
		return -1;
	return 0;
}

/* Without a PID namespace init must outlive the broker for the moment that it
 * takes to end what is below it; the end of its channel tells it when. */
static int
step_death_signal(struct confine_plan *p)
{
	return p->namespaces ? prctl(PR_SET_PDEATHSIG, SIGKILL) : 0;
}

static int
step_not_dumpable(struct confine_plan *p)
{
	(void)p;
	return prctl(PR_SET_DUMPABLE, 0);
}

/*
 * The keys of whoever called us come with the session, and a possessor may use
 * them. Where the call is not there, the skill has no use of them either.
 */
static int
step_keyring(struct confine_plan *p)
{
	(void)p;
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) == -1 &&
	    errno != ENOSYS && errno != EPERM)
		return -1;
	return 0;
}

/*
 * A user namespace of its own would give the skill every capability over a
 * copy of its mounts. The number is that of our own namespace, and raising it
 * again takes a capability that the skill does not have.
 */
static int
step_nested_namespaces(struct confine_plan *p)
{
	(void)p;
	return write_file("/proc/sys/user/max_user_namespaces", "0");
}

/*
 * Of inotify whoever started us has little, and all that we make counts as his.
 * What waits at a listening socket is memory of the kernel's that no other limit
 * counts, and takes its time to go: so few of them come to little more than its
 * processes may have themselves.
 */
static int
step_kernel_limits(struct confine_plan *p)
{
	static const char *const limits[][2] = {
		{ "/proc/sys/user/max_inotify_instances", "8" },
		{ "/proc/sys/user/max_inotify_watches", "8192" },
		{ "/proc/sys/net/core/somaxconn", "16" },
	};
	int error = 0;
	size_t i;

	(void)p;
	for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (write_file(limits[i][0], limits[i][1]) == -1)
			error = errno;
	}
	errno = error;
	return error == 0 ? 0 : -1;
}

/* A detached mount of a source, with these attributes on all of it. */
static int
take_tree(const char *path, uint64_t attributes)
{
	struct mount_attr attr = { .attr_set = attributes };
	int fd;

	fd = open_tree(AT_FDCWD, path,
	    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (fd == -1)
		return -1;
	if (mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
		sizeof(attr)) == -1) {
		close(fd);
		return -1;
	}
	return fd;
}

static int
attach(int tree_fd, const char *target)
{
	int result;

	result = move_mount(tree_fd, "", AT_FDCWD, target,
	    MOVE_MOUNT_F_EMPTY_PATH);
	close(tree_fd);
	return result;
}

/* Make the mount point that fits: a directory or an empty file. */
static int
make_point(int tree_fd, const char *target)
{
	struct stat st;
	int fd;

	if (fstat(tree_fd, &st) == -1)
		return -1;
	if (S_ISDIR(st.st_mode))
		return mkdir(target, 0755) == 0 || errno == EEXIST ? 0 : -1;
	fd = open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
	if (fd == -1)
		return -1;
	close(fd);
	return 0;
}

/* Show a path of the host; what is missing there is missing here. */
static int
show(const char *path, const char *target, uint64_t attributes)
{
	int fd = take_tree(path, attributes);

	if (fd == -1)
		return errno == ENOENT || errno == EACCES ? 0 : -1;
	if (make_point(fd, target) == -1) {
		close(fd);
		return -1;
	}
	return attach(fd, target);
}

/* Show what the broker has judged, and nothing else that took its place. */
static int
show_bind(const struct confine_bind *b, const char *target,
    uint64_t attributes)
{
	struct mount_attr attr = { .attr_set = attributes };
	struct stat st;
	int fd = b->tree_fd;

	if (fd == -1) {
		fd = take_tree(b->path, attributes);
		if (fd == -1)
			return -1;
	} else if (mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
		       sizeof(attr)) == -1) {
		return -1;
	}
	if (fstat(fd, &st) == -1)
		return -1;
	if (st.st_dev != b->dev || st.st_ino != b->ino) {
		errno = ESTALE;
		return -1;
	}
	if (make_point(fd, target) == -1)
		return -1;
	return attach(fd, target);
}

static int
put_file(const char *name, const char *text)
{
	size_t len = strlen(text);
	ssize_t n;
	int fd;

	fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (fd == -1)
		return -1;
	n = write(fd, text, len);
	close(fd);
	return n == (ssize_t)len ? 0 : -1;
}

/* /bin and its like are links into /usr on most hosts and directories on some. */
static int
show_top(const char *host, const char *name)
{
	char target[64];
	struct stat st;
	ssize_t n;

	if (lstat(host, &st) == -1)
		return 0;
	if (!S_ISLNK(st.st_mode))
		return show(host, name, ATTR_SHOWN);
	n = readlink(host, target, sizeof(target) - 1);
	if (n <= 0)
		return -1;
	target[n] = '\0';
	return symlink(target, name);
}

/* What programs need of /etc (SPEC 8); no secret is among it. */
static const char *const etc_shown[][2] = {
	{ "/etc/ld.so.cache", "etc/ld.so.cache" },
	{ "/etc/localtime", "etc/localtime" },
	{ "/etc/alternatives", "etc/alternatives" },
	{ "/etc/ssl/certs", "etc/ssl/certs" },
	{ "/etc/ssl/openssl.cnf", "etc/ssl/openssl.cnf" },
	{ "/etc/ca-certificates", "etc/ca-certificates" },
	{ "/etc/services", "etc/services" },
	{ "/etc/protocols", "etc/protocols" },
	{ "/etc/mime.types", "etc/mime.types" },
};

static int
fill_etc(void)
{
	/* Who looks a name up is told at once that there is none, and is not seen
	 * trying to reach a server. */
	static const char names[] = "passwd: files\ngroup: files\n"
				    "hosts: files\nnetworks: files\n"
				    "protocols: files\nservices: files\n";
	size_t i;

	if (mkdir("etc", 0755) == -1 || mkdir("etc/ssl", 0755) == -1)
		return -1;
	if (put_file("etc/passwd",
		"skill:x:1000:1000:skill:/tmp:/bin/sh\n"
		"nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n") == -1 ||
	    put_file("etc/group", "skill:x:1000:\nnogroup:x:65534:\n") == -1 ||
	    put_file("etc/hostname", CONFINE_HOSTNAME "\n") == -1 ||
	    put_file("etc/hosts",
		"127.0.0.1 localhost " CONFINE_HOSTNAME "\n") == -1 ||
	    put_file("etc/nsswitch.conf", names) == -1)
		return -1;
	for (i = 0; i < sizeof(etc_shown) / sizeof(etc_shown[0]); i++) {
		if (show(etc_shown[i][0], etc_shown[i][1], ATTR_DATA) == -1)
			return -1;
	}
	return 0;
}

/* Nothing of the host's directory is here, so nothing in it can be exchanged. */
static int
lay_out(const struct confine_plan *p, const char *target)
{
	struct mount_attr attr = { .attr_set = ATTR_SHOWN };

	if (mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV,
		p->bundle_options) == -1 ||
	    bundle_unpack(p->bundle, target) == -1)
		return -1;
	return mount_setattr(AT_FDCWD, target, 0, &attr, sizeof(attr));
}

static int
mount_tmp(const struct confine_plan *p)
{
	return mount("tmpfs", "tmp", "tmpfs",
	    MS_NOSUID | MS_NODEV | MS_NOEXEC, p->tmp_options);
}

/* What was there a moment ago and is not now has been moved by somebody. */
static int
take_bind(struct confine_bind *b, uint64_t attributes)
{
	b->tree_fd = take_tree(b->path, attributes);
	if (b->tree_fd == -1 &&
	    (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		errno = ESTALE;
	return b->tree_fd == -1 ? -1 : 0;
}

/* Without root's rights, while the host's paths are there: what it is given. */
static int
take_binds(struct confine_plan *p)
{
	if (p->bundle == NULL && take_bind(&p->skill, ATTR_SHOWN) == -1)
		return -1;
	return take_bind(&p->socket, ATTR_DATA);
}

static int
step_private_root(struct confine_plan *p)
{
	static const char *const top[][2] = { { "/bin", "bin" },
		{ "/sbin", "sbin" }, { "/lib", "lib" }, { "/lib32", "lib32" },
		{ "/lib64", "lib64" }, { "/libx32", "libx32" } };
	size_t i;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == -1 ||
	    mount("tmpfs", NEW_ROOT, "tmpfs", MS_NOSUID | MS_NODEV,
		"mode=755,size=1m,nr_inodes=4096") == -1 ||
	    chdir(NEW_ROOT) == -1)
		return -1;
	if (show("/usr", "usr", ATTR_SHOWN) == -1)
		return -1;
	for (i = 0; i < sizeof(top) / sizeof(top[0]); i++) {
		if (show_top(top[i][0], top[i][1]) == -1)
			return -1;
	}
	if (fill_etc() == -1 || mkdir("proc", 0555) == -1 ||
	    mkdir("tmp", 01777) == -1)
		return -1;
	if (p->bash)
		return mount_tmp(p);
	if (mkdir("skill", 0755) == -1)
		return -1;
	return p->mounts ? 0 : take_binds(p);
}

static int
step_skill_files(struct confine_plan *p)
{
	if (p->bash)
		return 0;
	return p->bundle != NULL ? lay_out(p, "skill")
				 : show_bind(&p->skill, "skill", ATTR_SHOWN);
}

/*
 * The client, first in the default search path of every shell. The host's
 * /usr/local/sbin is read-only here, so an empty directory covers it.
 */
static int
step_client(struct confine_plan *p)
{
	struct mount_attr attr = { .attr_set = ATTR_SHOWN };

	if (p->bash)
		return 0;
	if (mount("tmpfs", "usr/local/sbin", "tmpfs", MS_NOSUID | MS_NODEV,
		"mode=755,size=4k,nr_inodes=8") == -1)
		return -1;
	if (show_bind(&p->self, "usr/local/sbin/cyberos", ATTR_SHOWN) == -1)
		return -1;
	return mount_setattr(AT_FDCWD, "usr/local/sbin", 0, &attr,
	    sizeof(attr));
}

static int
step_private_tmp(struct confine_plan *p)
{
	char name[256] = "tmp/";

	/* That of a Bash call came with its root: some of what is shown in it may
	 * lie there. */
	if (p->bash)
		return 0;
	if (mount_tmp(p) == -1)
		return -1;
	if (strlcat(name, p->socket_name, sizeof(name)) >= sizeof(name)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	/* That nobody opens it to others; one can connect to it all the same. */
	return show_bind(&p->socket, name, ATTR_DATA);
}

static int
step_devices(struct confine_plan *p)
{
	static const char *const nodes[][2] = { { "/dev/null", "dev/null" },
		{ "/dev/zero", "dev/zero" }, { "/dev/full", "dev/full" },
		{ "/dev/random", "dev/random" },
		{ "/dev/urandom", "dev/urandom" } };
	static const char *const links[][2] = { { "/proc/self/fd", "dev/fd" },
		{ "/proc/self/fd/0", "dev/stdin" },
		{ "/proc/self/fd/1", "dev/stdout" },
		{ "/proc/self/fd/2", "dev/stderr" }, { "/tmp", "dev/shm" } };
	size_t i;

	(void)p;
	if (mkdir("dev", 0755) == -1)
		return -1;
	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		if (show(nodes[i][0], nodes[i][1], ATTR_DEVICE) == -1)
			return -1;
	}
	for (i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		if (symlink(links[i][0], links[i][1]) == -1)
			return -1;
	}
	return 0;
}

/*
 * Before the old root is gone: the kernel wants to see a whole proc once. Nobody
 * writes to it, and what tells of others' files and keys is covered.
 */
static int
step_proc(struct confine_plan *p)
{
	static const char *const others[] = { "proc/locks", "proc/keys",
		"proc/key-users" };
	static const char empty[] = ".none";
	struct mount_attr attr = { .attr_set = ATTR_DATA };
	size_t i;

	(void)p;
	if (mount("proc", "proc", "proc",
		MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY,
		"hidepid=2") == -1 ||
	    put_file(empty, "") == -1)
		return -1;
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (mount(empty, others[i], NULL, MS_BIND, NULL) == -1 &&
		    errno != ENOENT)
			return -1;
	}
	if (mount_setattr(AT_FDCWD, "proc", AT_RECURSIVE, &attr,
		sizeof(attr)) == -1)
		return -1;
	return unlink(empty);
}

#define DETACH_STACK 16384

static int
detach_old_root(void *arg)
{
	struct confine_detach *d = arg;

	if (umount2(".", MNT_DETACH) == 0)
		d->error = 0;
	else if (errno != 0)
		d->error = errno;
	return 0;
}

/*
 * In a thread with a working directory and capabilities of its own, which both
 * change here meanwhile; errno is shared, so a failure may make a step that
 * runs beside it look as if it had failed, and the start ends in any case.
 * Where no thread can be had, at once.
 */
static int
leave_old_root(struct confine_detach *d)
{
	d->stack = mmap(NULL, DETACH_STACK, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	d->error = EIO; /* until it is known to be gone */
	if (d->stack == MAP_FAILED)
		d->stack = NULL;
	else if (clone(detach_old_root, (char *)d->stack + DETACH_STACK,
		     CLONE_VM | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			 CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
		     d, &d->tid, NULL, &d->tid) != -1)
		return 0;
	detach_old_root(d);
	errno = d->error;
	return d->error == 0 ? 0 : -1;
}

int
confine_detached(struct confine_detach *d)
{
	pid_t tid;

	while ((tid = atomic_load(&d->tid)) != 0)
		syscall(SYS_futex, &d->tid, FUTEX_WAIT, tid, NULL, NULL, 0);
	return d->error;
}

void
confine_detach_clear(struct confine_detach *d)
{
	if (d->stack != NULL)
		munmap(d->stack, DETACH_STACK);
	d->stack = NULL;
}

static int
step_pivot_root(struct confine_plan *p)
{
	struct mount_attr attr = { .attr_set = ATTR_DATA };

	/* The last that needs the old one. */
	if (p->bash && shares_show(&p->shares) == -1)
		return -1;
	if (syscall(SYS_pivot_root, ".", ".") == -1 ||
	    leave_old_root(p->detach) == -1 || chdir("/") == -1)
		return -1;
	return mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr));
}

static int
step_hostname(struct confine_plan *p)
{
	(void)p;
	if (setdomainname("(none)", 6) == -1)
		return -1;
	return sethostname(CONFINE_HOSTNAME, sizeof(CONFINE_HOSTNAME) - 1);
}

/*
 * All five sets. The bounding set can be emptied by an ordinary user only
 * inside a user namespace; without one, no_new_privs makes it moot. Root
 * without one has emptied it in step_identity.
 */
static int
step_capabilities(struct confine_plan *p)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct none[2];

	if (drop_bounding_set() == -1 && p->namespaces)
		return -1;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == -1)
		return -1;
	if (prctl(PR_SET_SECUREBITS,
		SECBIT_NOROOT | SECBIT_NOROOT_LOCKED |
		    SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED |
		    SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
		    SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
		0, 0, 0) == -1 &&
	    p->namespaces)
		return -1;
	memset(none, 0, sizeof(none));
	return (int)syscall(SYS_capset, &head, none);
}

static int
step_no_new_privs(struct confine_plan *p)
{
	(void)p;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int
step_session(struct confine_plan *p)
{
	(void)p;
	return setsid() == -1 ? -1 : 0;
}

/* By the plain call: the C library keeps two signals to itself, and a caller
 * may have left them ignored. */
static int
step_signals(struct confine_plan *p)
{
	/* Handler, flags, restorer and mask, all zero: the default. */
	static const unsigned long by_default[8];
	sigset_t none;
	int sig;

	(void)p;
	for (sig = 1; sig < NSIG; sig++) {
		if (sig != SIGKILL && sig != SIGSTOP &&
		    syscall(SYS_rt_sigaction, sig, by_default, NULL,
			sizeof(unsigned long)) == -1)
			return -1;
	}
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Only ever down: what the caller had limited further stays so. */
static int
limit(int resource, rlim_t value)
{
	struct rlimit r;

	if (getrlimit((__rlimit_resource_t)resource, &r) == -1)
		return -1;
	if (r.rlim_cur > value)
		r.rlim_cur = value;
	if (r.rlim_max > value)
		r.rlim_max = value;
	return setrlimit((__rlimit_resource_t)resource, &r);
}

/* A file a little larger than all of /tmp, so that a program which fills it is
 * told so by an error and not by a signal.
 * Processes last: it counts our init, which shares the uid, and, where there
 * is neither a user namespace nor a uid of its own, what else runs under it.
 * No priority above others: a skill could keep the broker's clock from
 * running. */
static int
step_limits(struct confine_plan *p)
{
	if (limit(RLIMIT_CORE, 0) == -1 ||
	    limit(RLIMIT_CPU, p->cpu_seconds) == -1 ||
	    limit(RLIMIT_FSIZE, ((rlim_t)p->tmp_mb + 1) << 20) == -1 ||
	    limit(RLIMIT_AS, (rlim_t)p->memory_mb << 20) == -1 ||
	    limit(RLIMIT_RTPRIO, 0) == -1 || limit(RLIMIT_NICE, 0) == -1 ||
	    limit(RLIMIT_MSGQUEUE, 0) == -1 ||
	    limit(RLIMIT_SIGPENDING, 1024) == -1)
		return -1;
	return limit(RLIMIT_NPROC,
	    p->max_processes + 1 +
		(p->namespaces || p->root ? 0 : (rlim_t)p->tasks));
}

static int
step_working_directory(struct confine_plan *p)
{
	if (p->bash)
		return chdir(p->cwd);
	return chdir(p->namespaces ? CONFINE_SKILL_DIR : p->skill_path);
}

/* Descriptors 0, 1, 2 and three close-on-exec ones of the start are left, and
 * the command of a Bash call. */
static int
step_descriptors(struct confine_plan *p)
{
	int i;

	for (i = 0; i < 3; i++) {
		if (dup2(p->stdio[i], i) == -1)
			return -1;
	}
	if (p->bash && dup2(p->command_fd, CONFINE_COMMAND_FD) == -1)
		return -1;
	return (int)syscall(SYS_close_range,
	    p->bash ? CONFINE_COMMAND_FD + 1 : CONFINE_NOTIFY_FD + 1, ~0U, 0);
}

/* What the skill may do with files: as little as programs can live with. */
static const struct {
	const char *path;
	enum landlock_access access;
} rules_inside[] = {
	{ "/", LANDLOCK_LIST },
	{ "/usr", LANDLOCK_RUN },
	{ "/bin", LANDLOCK_RUN },
	{ "/sbin", LANDLOCK_RUN },
	{ "/lib", LANDLOCK_RUN },
	{ "/lib32", LANDLOCK_RUN },
	{ "/lib64", LANDLOCK_RUN },
	{ "/etc", LANDLOCK_READ },
	{ "/proc", LANDLOCK_READ },
	{ "/dev", LANDLOCK_DEVICE },
	{ "/tmp", LANDLOCK_WRITE },
	{ CONFINE_SKILL_DIR, LANDLOCK_RUN },
}, rules_outside[] = {
	{ "/usr", LANDLOCK_RUN },
	{ "/bin", LANDLOCK_RUN },
	{ "/sbin", LANDLOCK_RUN },
	{ "/lib", LANDLOCK_RUN },
	{ "/lib32", LANDLOCK_RUN },
	{ "/lib64", LANDLOCK_RUN },
	{ "/etc/ld.so.cache", LANDLOCK_READ },
	{ "/etc/nsswitch.conf", LANDLOCK_READ },
	{ "/etc/passwd", LANDLOCK_READ },
	{ "/etc/group", LANDLOCK_READ },
	{ "/etc/localtime", LANDLOCK_READ },
	{ "/etc/alternatives", LANDLOCK_READ },
	{ "/etc/ssl/certs", LANDLOCK_READ },
	{ "/etc/ssl/openssl.cnf", LANDLOCK_READ },
	{ "/proc/cpuinfo", LANDLOCK_READ },
	{ "/proc/meminfo", LANDLOCK_READ },
	{ "/dev/null", LANDLOCK_DEVICE },
	{ "/dev/zero", LANDLOCK_DEVICE },
	{ "/dev/full", LANDLOCK_DEVICE },
	{ "/dev/random", LANDLOCK_DEVICE },
	{ "/dev/urandom", LANDLOCK_DEVICE },
};

static int
allow_shares(int ruleset, const struct confine_plan *p)
{
	const struct share *s;
	size_t i;

	for (i = 0; i < p->shares.n; i++) {
		s = &p->shares.v[i];
		if (s->kind != SHARE_EMPTY &&
		    landlock_allow(ruleset, p->landlock_abi, s->path,
			s->kind == SHARE_WRITE ? LANDLOCK_WRITE
					       : LANDLOCK_READ) == -1 &&
		    errno != ENOENT && errno != EACCES)
			return -1;
	}
	return 0;
}

static int
allow_all(int ruleset, const struct confine_plan *p)
{
	size_t i, n = p->namespaces
	    ? sizeof(rules_inside) / sizeof(rules_inside[0])
	    : sizeof(rules_outside) / sizeof(rules_outside[0]);
	const char *path;
	enum landlock_access access;

	for (i = 0; i < n; i++) {
		path = p->namespaces ? rules_inside[i].path
				     : rules_outside[i].path;
		access = p->namespaces ? rules_inside[i].access
				       : rules_outside[i].access;
		/* What is not there needs no rule. */
		if (landlock_allow(ruleset, p->landlock_abi, path, access) ==
			-1 &&
		    errno != ENOENT && errno != EACCES)
			return -1;
	}
	if (p->bash)
		return allow_shares(ruleset, p);
	return p->namespaces ? 0
			     : landlock_allow(ruleset, p->landlock_abi,
				   p->skill_path, LANDLOCK_RUN);
}

static int
step_landlock(struct confine_plan *p)
{
	int ruleset, result;

	if (p->landlock_abi == 0) {
		errno = ENOSYS;
		return -1;
	}
	ruleset = landlock_ruleset(p->landlock_abi, true);
	if (ruleset == -1)
		return -1;
	result = allow_all(ruleset, p) == 0 ? landlock_enter(ruleset) : -1;
	close(ruleset);
	return result;
}

/* Entered with the ruleset of the step before; here it is only said whether
 * this kernel's Landlock has scopes. */
static int
step_landlock_scope(struct confine_plan *p)
{
	if (p->landlock_abi >= LANDLOCK_SCOPE_ABI)
		return 0;
	errno = ENOSYS;
	return -1;
}

/* Done by the filter of the step after this one, if init listens to it. */
static int
step_connect_guard(struct confine_plan *p)
{
	if (!p->namespaces && p->listen)
		return 0;
	errno = ENOTSUP;
	return -1;
}

/* From here on only the list. Init gets the listener. */
static int
step_seccomp(struct confine_plan *p)
{
	ssize_t n;
	int fd;

	fd = filter_enter(p->filter, p->listen);
	if (fd == -1 || !p->listen)
		return fd;
	n = fdpass_send(CONFINE_NOTIFY_FD, "l", 1, &fd, 1, 0);
	close(fd);
	close(CONFINE_NOTIFY_FD);
	return n == 1 ? 0 : -1;
}

/*
 * Last, when the listener has gone: the limit is also that of all of the user's
 * that are on their way through sockets (unix(7)), and another skill of his may
 * have some there.
 */
static int
step_descriptor_limit(struct confine_plan *p)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == -1)
		return -1;
	if (r.rlim_max > CONFINE_FILES)
		r.rlim_max = CONFINE_FILES;
	r.rlim_cur = p->files < r.rlim_max ? p->files : r.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &r);
}

#define CLONE_STEP(name, need, flag, instead, guarantees)                      \
	{ name, need, CONFINE_AT_CLONE, true, flag, NULL, instead, guarantees }
#define INIT_STEP(name, need, apply, instead, guarantees)                      \
	{ name, need, CONFINE_IN_INIT, false, 0, apply, instead, guarantees }
#define INSIDE_STEP(name, need, apply, instead, guarantees)                    \
	{ name, need, CONFINE_IN_INIT, true, 0, apply, instead, guarantees }
#define OWN_STEP(name, need, apply, instead, guarantees)                       \
	{ name, need, CONFINE_FOR_SKILL, false, 0, apply, instead, guarantees }
#define OWN_INSIDE_STEP(name, need, apply, instead, guarantees)                \
	{ name, need, CONFINE_FOR_SKILL, true, 0, apply, instead, guarantees }
#define SKILL_STEP(name, need, apply, instead, guarantees)                     \
	{ name, need, CONFINE_IN_SKILL, false, 0, apply, instead, guarantees }

static const struct confine_step steps[] = {
	CLONE_STEP("user_namespace", CONFINE_IF_ABLE, CLONE_NEWUSER, NULL,
	    "no identity and no capability of the host"),
	CLONE_STEP("mount_namespace", CONFINE_REQUIRED, CLONE_NEWNS,
	    "landlock", "mounts of its own"),
	CLONE_STEP("pid_namespace", CONFINE_REQUIRED, CLONE_NEWPID,
	    "landlock_scope",
	    "sees and signals its own processes only; all end together"),
	CLONE_STEP("network_namespace", CONFINE_REQUIRED, CLONE_NEWNET,
	    "seccomp", "no interface but a loopback that is down"),
	CLONE_STEP("ipc_namespace", CONFINE_IF_ABLE, CLONE_NEWIPC, NULL,
	    "no System V objects or message queues of the host"),
	CLONE_STEP("uts_namespace", CONFINE_IF_ABLE, CLONE_NEWUTS, NULL,
	    "a host name of its own"),
	CLONE_STEP("cgroup_namespace", CONFINE_IF_ABLE, CLONE_NEWCGROUP, NULL,
	    "does not see where it stands among the host's cgroups"),
	CLONE_STEP("cgroup", CONFINE_EXTRA, CLONE_INTO_CGROUP, NULL,
	    "a limit on all of it together, where a cgroup was delegated"),
	INIT_STEP("oom_score", CONFINE_IF_ABLE, step_oom_score, NULL,
	    "when memory runs out, the skill is ended first"),
	INIT_STEP("identity", CONFINE_ALWAYS, step_identity, NULL,
	    "never host root; as root a host uid of its own"),
	INIT_STEP("death_signal", CONFINE_ALWAYS, step_death_signal, NULL,
	    "dies when the broker dies"),
	INIT_STEP("not_dumpable", CONFINE_ALWAYS, step_not_dumpable, NULL,
	    "init's memory and descriptors cannot be looked at"),
	INIT_STEP("keyring", CONFINE_IF_ABLE, step_keyring, NULL,
	    "no key of the caller's session"),
	INSIDE_STEP("nested_namespaces", CONFINE_IF_ABLE, step_nested_namespaces,
	    NULL,
	    "cannot make a user namespace of its own"),
	INSIDE_STEP("kernel_limits", CONFINE_IF_ABLE, step_kernel_limits, NULL,
	    "few inotify watches, short queues at its sockets"),
	INSIDE_STEP("private_root", CONFINE_REQUIRED, step_private_root,
	    "landlock",
	    "read-only /usr, parts of /etc, no more"),
	INSIDE_STEP("client", CONFINE_IF_ABLE, step_client, NULL,
	    "the cyberos command is in the search path"),
	INSIDE_STEP("devices", CONFINE_REQUIRED, step_devices, "landlock",
	    "null, zero, full, random, urandom and no other device"),
	INSIDE_STEP("proc", CONFINE_IF_ABLE, step_proc, NULL,
	    "a /proc that shows its own processes only"),
	INSIDE_STEP("pivot_root", CONFINE_REQUIRED, step_pivot_root, "landlock",
	    "the host's file system is not there any more"),
	INSIDE_STEP("hostname", CONFINE_IF_ABLE, step_hostname, NULL,
	    "does not learn the host's name"),
	OWN_INSIDE_STEP("skill_files", CONFINE_REQUIRED, step_skill_files,
	    "landlock", "the skill's directory, read-only"),
	OWN_INSIDE_STEP("private_tmp", CONFINE_REQUIRED, step_private_tmp,
	    "connect_guard",
	    "a limited /tmp with this invocation's socket and no other"),
	OWN_STEP("capabilities", CONFINE_ALWAYS, step_capabilities, NULL,
	    "none, in all five sets"),
	OWN_STEP("no_new_privs", CONFINE_ALWAYS, step_no_new_privs, NULL,
	    "no program gives it more rights than it has"),
	SKILL_STEP("session", CONFINE_ALWAYS, step_session, NULL,
	    "no controlling terminal, a process group of its own"),
	SKILL_STEP("signals", CONFINE_ALWAYS, step_signals, NULL,
	    "default dispositions, nothing blocked"),
	SKILL_STEP("working_directory", CONFINE_ALWAYS,
	    step_working_directory, NULL, "begins in the skill's directory"),
	SKILL_STEP("descriptors", CONFINE_ALWAYS, step_descriptors, NULL,
	    "0, 1 and 2 only"),
	SKILL_STEP("limits", CONFINE_ALWAYS, step_limits, NULL,
	    "memory, processor time, processes, files, no core dumps"),
	SKILL_STEP("landlock", CONFINE_IF_ABLE, step_landlock, NULL,
	    "files, devices and TCP once more, by rules of its own"),
	SKILL_STEP("landlock_scope", CONFINE_IF_ABLE, step_landlock_scope,
	    NULL, "no abstract socket and no signal reaches the outside"),
	SKILL_STEP("connect_guard", CONFINE_EXTRA, step_connect_guard, NULL,
	    "without a /tmp of its own: init connects it to its socket only"),
	SKILL_STEP("seccomp", CONFINE_REQUIRED, step_seccomp, NULL,
	    "a list of system calls; refused attempts are recorded"),
	SKILL_STEP("descriptor_limit", CONFINE_ALWAYS, step_descriptor_limit,
	    NULL, "256 descriptors at most"),
};

_Static_assert(sizeof(steps) / sizeof(steps[0]) <= CONFINE_STEPS_MAX,
    "the table fits where its states are kept");

const struct confine_step *
confine_steps(size_t *n)
{
	*n = sizeof(steps) / sizeof(steps[0]);
	return steps;
}

bool
confine_is_active(const uint8_t states[], const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (strcmp(steps[i].name, name) == 0)
			return states[i] == CONFINE_ACTIVE;
	}
	return false;
}

const struct confine_step *
confine_missing(const uint8_t states[], bool best_effort)
{
	const struct confine_step *s;
	size_t i;

	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		s = &steps[i];
		if (states[i] == CONFINE_ACTIVE ||
		    s->need == CONFINE_IF_ABLE || s->need == CONFINE_EXTRA)
			continue;
		if (s->need == CONFINE_ALWAYS)
			return s;
		if (best_effort ||
		    (s->instead != NULL && confine_is_active(states, s->instead)))
			continue;
		return s;
	}
	return NULL;
}

const char *
confine_state_word(enum confine_state state)
{
	return state == CONFINE_ACTIVE ? "active" : "not available";
}
