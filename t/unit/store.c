/* The directories of a store: whose they must be, and what is made where. */

#include "audit/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t/unit/tap.h"

#define INV "0a1b2c3d-0000-4000-8000-00000000eeee"
#define NIL "00000000-0000-0000-0000-000000000000"
#define TENANT "12345678-1234-4123-8123-123456789abc"

static char dir[] = "/tmp/store.XXXXXX";
static char path[256];

static const char *
at(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void
link_to(const char *target, const char *name)
{
	if (symlink(target, at(name)) == -1)
		abort();
}

static int
mode_of(const char *name)
{
	struct stat st;

	return lstat(at(name), &st) == 0 ? (int)(st.st_mode & 07777) : -1;
}

static bool
refused(const char *name)
{
	struct store s;
	bool good;

	errno = 0;
	good = store_open(&s, at(name)) == -1 && errno == EPERM;
	errno = 0;
	return good && store_look(&s, at(name)) == -1 && errno == EPERM &&
	       s.root_fd == -1 && s.audit_fd == -1 && s.run_fd == -1;
}

/* For who writes and for who reads. */
static bool
no_host(const char *name)
{
	struct store s;
	bool good;

	errno = 0;
	good = store_open(&s, at(name)) == -1 && errno == EBADMSG;
	errno = 0;
	return store_look(&s, at(name)) == -1 && errno == EBADMSG && good;
}

static void
test_open(void)
{
	struct store s, again;
	char host[37];

	umask(0);
	errno = 0;
	ok(store_look(&s, at("a/b/s")) == -1 && errno == ENOENT &&
		mode_of("a") == -1,
	    "looking makes nothing");
	ok(store_open(&s, at("a/b/s//./")) == 0, "opening makes it");
	is_str(s.path, at("a/b/s"), "its name is the kernel's");
	ok(mode_of("a/b/s") == 0700 && mode_of("a/b/s/audit") == 0700 &&
		mode_of("a/b/s/run") == 0700 &&
		mode_of("a/b/s/audit/host.json") == 0600,
	    "all of it for its owner alone, whatever the umask");
	strlcpy(host, s.host, sizeof(host));
	ok(store_is_uuid(host), "it has a host id");
	ok(store_open(&again, at("a/b/s")) == 0 &&
		strcmp(again.host, host) == 0,
	    "which stays");
	store_close(&again);
	ok(store_look(&again, at("a/b/s")) == 0 &&
		strcmp(again.host, host) == 0,
	    "for readers too");
	store_close(&again);
	store_close(&s);
	store_close(&s);
	ok(s.root_fd == -1 && s.path == NULL, "closing twice does no harm");
	errno = 0;
	ok(store_open(&s, "") == -1 && errno == ENOENT, "no name");
}

static void
test_refused(void)
{
	struct store s;
	FILE *f;

	mkdir(at("real"), 0700);
	link_to("real", "link");
	ok(refused("link") && refused("link/") && refused("link/.") &&
		refused("link//.//"),
	    "a link, however it is written");
	f = fopen(at("file"), "w");
	fclose(f);
	ok(refused("file"), "a file");
	mkfifo(at("pipe"), 0600);
	ok(refused("pipe"), "a pipe, without blocking");
	mkdir(at("group"), 0720);
	mkdir(at("others"), 0702);
	ok(refused("group") && refused("others"), "what others can write");
	mkdir(at("parts"), 0700);
	link_to("../real", "parts/audit");
	ok(refused("parts"), "an audit that is a link");
	unlink(at("parts/audit"));
	mkdir(at("parts/audit"), 0770);
	chmod(at("parts/audit"), 0770);
	ok(refused("parts"), "an audit that a group can write");
	chmod(at("parts/audit"), 0700);
	link_to("../real", "parts/run");
	ok(refused("parts"), "a run that is a link");
	unlink(at("parts/run"));
	f = fopen(at("parts/audit/host.json"), "w");
	fputs("{\"v\":1,\"host\":\"../../x\"}\n", f);
	fclose(f);
	errno = 0;
	ok(store_open(&s, at("parts")) == -1 && errno == EBADMSG,
	    "a host id that is none");
	unlink(at("parts/audit/host.json"));
	link_to("../../file", "parts/audit/host.json");
	errno = 0;
	ok(store_open(&s, at("parts")) == -1 && errno == ELOOP,
	    "a host.json that is a link");
	unlink(at("parts/audit/host.json"));
	mkfifo(at("parts/audit/host.json"), 0600);
	ok(no_host("parts"), "a host.json that is a pipe, without blocking");
	unlink(at("parts/audit/host.json"));
	fclose(fopen(at("parts/audit/host.json"), "w"));
	ok(no_host("parts"), "one that is empty");
	unlink(at("parts/audit/host.json"));
	mkdir(at("parts/audit/2026-11-30"), 0700);
	ok(no_host("parts") && mode_of("parts/audit/host.json") == -1,
	    "one that is missing where there are days: no other is made");
	rmdir(at("parts/run"));
	ok(no_host("parts"), "nor is it a fresh one without run");
	rmdir(at("parts/audit/2026-11-30"));
	ok(store_open(&s, at("parts")) == 0, "put right it opens");
	store_close(&s);
	if (geteuid() == 0) {
		if (chown(at("real"), 54321, (gid_t)-1) == -1)
			abort();
		ok(refused("real"), "somebody else's");
	} else {
		struct store other;

		errno = 0;
		ok(store_open(&other, "/usr") == -1 && errno == EPERM,
		    "somebody else's");
	}
}

/* Many begin at once: one host id, and no leftover. */
static void
test_race(void)
{
	struct store s;
	char host[37];
	int i, status, bad = 0, fds[2];

	if (pipe(fds) == -1)
		abort();
	for (i = 0; i < 8; i++) {
		if (fork() == 0) {
			if (store_open(&s, at("race")) == -1 ||
			    write(fds[1], s.host, 36) != 36)
				_exit(1);
			_exit(0);
		}
	}
	for (i = 0; i < 8; i++) {
		wait(&status);
		bad += status != 0;
	}
	if (store_open(&s, at("race")) == -1)
		abort();
	for (i = 0; i < 8; i++) {
		memset(host, 0, sizeof(host));
		bad +=
		    read(fds[0], host, 36) != 36 || strcmp(host, s.host) != 0;
	}
	is_int(bad, 0, "eight that begin at once agree on the host id");
	snprintf(path, sizeof(path),
	    "test \"$(ls -A %s/race/audit)\" = host.json", dir);
	is_int(system(path), 0, "and leave nothing else");
	store_close(&s);
	close(fds[0]);
	close(fds[1]);
}

static void
test_memory(struct store *s)
{
	struct stat root, st;
	int fd;

	fd = store_memory(s, NIL);
	ok(fd != -1 && fstat(fd, &st) == 0 && fstat(s->root_fd, &root) == 0 &&
		st.st_ino == root.st_ino && fd != s->root_fd,
	    "the nil tenant's memory is the store's root");
	close(fd);
	fd = store_memory(s, TENANT);
	ok(fd != -1 && mode_of("s/tenants/" TENANT) == 0700,
	    "another one has a tree of its own");
	close(fd);
	rmdir(at("s/tenants/" TENANT));
	link_to("../..", "s/tenants/" TENANT);
	ok(store_memory(s, TENANT) == -1, "which is no link");
	unlink(at("s/tenants/" TENANT));
}

static void
test_segment(struct store *s)
{
	char name[STORE_SEGMENT_NAME];
	int day, fd;

	ok(store_day(s, "2026-11-30", 0) == -1 && errno == ENOENT,
	    "no day before it is made");
	ok(store_segment_exists(s, "2026-11-30", INV) == 0,
	    "nothing was used in it");
	day = store_day(s, "2026-11-30", 1);
	ok(day != -1 && mode_of("s/audit/2026-11-30") == 0700, "a day");
	fd = store_segment(day, INV, 1, name);
	ok(fd != -1 &&
		mode_of("s/audit/2026-11-30/seg/0a/" INV ".p1.jsonl") == 0600,
	    "a segment");
	is_str(name, "seg/0a/" INV ".p1.jsonl", "and its name");
	ok((fcntl(fd, F_GETFL) & O_APPEND) != 0 &&
		fcntl(fd, F_GETFD) == FD_CLOEXEC,
	    "it appends, and no program inherits it");
	close(fd);
	errno = 0;
	ok(store_segment(day, INV, 1, name) == -1 && errno == EEXIST,
	    "once only");
	fd = store_segment(day, INV, 2, name);
	ok(fd != -1, "another part");
	close(fd);
	link_to("/tmp/cyberos-nowhere",
	    "s/audit/2026-11-30/seg/0a/" INV ".p3.jsonl");
	ok(store_segment(day, INV, 3, name) == -1, "no link is followed");
	ok(store_sync_segment(day, INV) == 0, "its names can be synced");
	ok(store_segment_exists(s, "2026-11-30", INV) == 1 &&
		store_segment_exists(s, "2026-11-30", TENANT) == 0,
	    "its id is used");
	close(day);
}

static void
test_run(struct store *s)
{
	int fd = store_run_file(s, INV, "lock");

	ok(fd != -1 && mode_of("s/run/" INV ".lock") == 0600, "a run file");
	errno = 0;
	ok(store_run_file(s, INV, "lock") == -1 && errno == EEXIST,
	    "once only");
	close(fd);
	store_run_unlink(s, INV, "lock");
	ok(mode_of("s/run/" INV ".lock") == -1, "and gone");
}

/* As many places as there are, to whoever comes first, and back again. */
static void
test_slots(struct store *s)
{
	int fd[5], free_fd, i, n = 0;

	for (i = 0; i < 5; i++) {
		fd[i] = store_slot(s, 4);
		n += fd[i] != -1;
	}
	ok(n == 4 && fd[4] == -1 && errno == EAGAIN, "four places of four");
	free_fd = store_slot(s, 0);
	ok(free_fd != -1, "without a bound there is always one");
	ok(store_slot(s, 4) == -1 && errno == EAGAIN, "no more for the others");
	store_slot_free(free_fd);
	i = dup(fd[2]); /* as in a child that is being forked */
	store_slot_free(fd[2]);
	fd[2] = store_slot(s, 4);
	ok(fd[2] != -1, "one that is given back is free, whoever has a copy");
	close(i);
	for (i = 0; i < 4; i++)
		store_slot_free(fd[i]);
	fd[0] = store_slot(s, 1);
	ok(fd[0] != -1, "all are free again");
	store_slot_free(fd[0]);
	store_slot_free(-1);
}

static void
test_uuid(void)
{
	static const char *const bad[] = {"", "x", INV "0",
	    "0A1b2c3d-0000-4000-8000-00000000eeee",
	    "0a1b2c3d00000-4000-8000-00000000eeee",
	    "0a1b2c3d-0000-4000-8000-00000000eee",
	    "0a1b2c3d-0000-4000-8000-00000000eeeg",
	    "../1b2c3d-0000-4000-8000-00000000eee",
	    "-a1b2c3d-0000-4000-8000-00000000eeee"};
	char a[STORE_UUID_SIZE], b[STORE_UUID_SIZE];
	size_t i, n = 0;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		n += store_is_uuid(bad[i]) != 0;
	is_int((long long)n, 0, "what is no UUID");
	ok(store_is_uuid(INV) && store_is_uuid(NIL), "what is one");
	store_new_uuid(a);
	store_new_uuid(b);
	ok(store_is_uuid(a) && strcmp(a, b) != 0 && a[14] == '4' &&
		strchr("89ab", a[19]) != NULL,
	    "a fresh one is random, version 4");
}

int
main(void)
{
	struct store s;

	if (mkdtemp(dir) == NULL)
		return 1;
	test_open();
	test_refused();
	test_race();
	if (store_open(&s, at("s")) == -1)
		return 1;
	test_memory(&s);
	test_segment(&s);
	test_run(&s);
	test_slots(&s);
	store_close(&s);
	test_uuid();
	remove_all(dir);
	return done();
}
