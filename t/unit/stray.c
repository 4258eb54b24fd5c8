/*
 * Notes of files in the making: what is removed by them, and what is not,
 * whatever they say.
 */

#include "audit/stray.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "t/unit/tap.h"

#define INV "0a1b2c3d-0000-4000-8000-00000000eeee"
#define NAME ".cyberos-0123456789abcdef.tmp"

static char top[] = "/tmp/stray.XXXXXX";
static struct store store;
static char path[256], dir[128];

static const char *
at(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void
make(const char *name)
{
	close(open(at(name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static bool
there(const char *name)
{
	struct stat st;

	return lstat(at(name), &st) == 0;
}

/* Notes are made with these bytes, and then believed. */
static int
believe(const char *notes, size_t len)
{
	int fd = store_run_file(&store, INV, "stray");

	if (fd == -1 || write(fd, notes, len) != (ssize_t)len)
		exit(99);
	close(fd);
	return stray_remove(&store, INV, 0);
}

static void
note_and_remove(const char *where, const char *name)
{
	char notes[512];
	int n = snprintf(notes, sizeof(notes), "0%c%s%c%s", 0, name, 0, where);

	believe(notes, (size_t)n + 1);
}

static void
test_notes(void)
{
	char a[STRAY_NAME], b[STRAY_NAME], c[STRAY_NAME];
	struct stat st;
	off_t len;
	int fd;

	stray_name(a);
	stray_name(b);
	stray_name(c);
	ok(strcmp(a, b) != 0 && strlen(a) == strlen(NAME), "names are fresh");
	make(a);
	make(b);
	make(c);
	fd = store_run_file(&store, INV, "stray");
	len = stray_note(fd, 0, 0, dir, a);
	ok(stray_note(fd, len, 0, dir, c) > len &&
		stray_note(fd, len, 0, dir, b) > len && fstat(fd, &st) == 0 &&
		st.st_size > len,
	    "one note behind the other, and one instead of another");
	close(fd);
	is_int(stray_remove(&store, INV, 0), 0, "what is noted is removed");
	ok(!there(a) && !there(b) && there(c), "and nothing else");
	is_int(stray_remove(&store, INV, 0), 0, "once; there is no file any more");
	ok(fstatat(store.run_fd, INV ".stray", &st, 0) == -1, "none at all");
	make(a);
	fd = store_run_file(&store, INV, "stray");
	len = stray_note(fd, 0, 0, dir, a);
	stray_note(fd, len, 0, dir, c);
	close(fd);
	ok(stray_remove(&store, INV, len) == 0 && there(a) && !there(c),
	    "only what is noted from there on");
	store_run_unlink(&store, INV, "stray");
	unlink(at(a));
}

static void
test_hostile(void)
{
	static const char *const names[] = {"f", ".cyberos-", ".cyberos-x.tmp",
	    ".cyberos-0123456789abcde.tmp", ".cyberos-0123456789abcdef.tmpx",
	    ".cyberos-0123456789abcdef0.tmp", ".cyberos-0123456789ABCDEF.tmp",
	    "x.cyberos-0123456789abcdef.tmp"};
	static const char cut[] = "0\0" NAME "\0/tmp"; /* its NUL is left off */
	char other[512];
	size_t i, lost = 0;
	int n;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		make(names[i]);
		note_and_remove(dir, names[i]);
		lost += !there(names[i]);
		unlink(at(names[i]));
	}
	make("f");
	note_and_remove(dir, "../f");
	note_and_remove(dir, "sub/../f");
	lost += !there("f");
	is_int((long long)lost, 0, "names of another form stay");
	mkdir(at("sub"), 0700);
	make("sub/" NAME);
	(void)!symlink("sub", at("link"));
	note_and_remove(at("link"), NAME);
	ok(there("sub/" NAME), "no link is followed to them");
	note_and_remove("sub", NAME);
	note_and_remove("", NAME);
	ok(there("sub/" NAME), "and no relative name");
	note_and_remove(at("sub"), NAME);
	ok(!there("sub/" NAME), "but the name itself");
	mkdir(at(NAME), 0700);
	note_and_remove(dir, NAME);
	ok(there(NAME), "a directory stays");
	rmdir(at(NAME));
	(void)!symlink("f", at(NAME));
	note_and_remove(dir, NAME);
	ok(there(NAME) && there("f"), "and so does a link");
	unlink(at(NAME));
	make(NAME);
	n = snprintf(other, sizeof(other), "0%c" NAME "%c%s", 0, 0, dir);
	believe(other, (size_t)n);
	is_int(believe(cut, sizeof(cut) - 1), 0, "a note without its end");
	is_int(believe("", 0), 0, "no note");
	ok(there(NAME), "says nothing");
	unlink(at(NAME));
	unlink(at("f"));
	unlink(at("link"));
	rmdir(at("sub"));
}

static void
test_living(void)
{
	char notes[512];
	pid_t pid = fork();
	int n;

	if (pid == 0) {
		prctl(PR_SET_NAME, "cyberos-file");
		for (;;)
			pause();
	}
	usleep(100000);
	n = snprintf(notes, sizeof(notes), "%ld%c" NAME "%c%s", (long)pid, 0, 0,
	    dir);
	make(NAME);
	ok(believe(notes, (size_t)n + 1) == -1 && errno == EBUSY,
	    "a worker that does not die may make it yet");
	make(NAME);
	kill(pid, SIGKILL);
	ok(stray_remove(&store, INV, 0) == 0 && !there(NAME),
	    "once it is dead nothing is left");
	waitpid(pid, NULL, 0);
}

int
main(void)
{
	char name[256];

	if (mkdtemp(top) == NULL)
		exit(99);
	snprintf(dir, sizeof(dir), "%s/d", top);
	snprintf(name, sizeof(name), "%s/store", top);
	if (mkdir(dir, 0700) == -1 || store_open(&store, name) == -1)
		exit(99);
	test_notes();
	test_hostile();
	test_living();
	store_close(&store);
	remove_all(top);
	return done();
}
