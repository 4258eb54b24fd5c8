/*
 * A short benchmark for whoever operates a host: what a start, a call and an
 * idle skill cost here, and whether anything is left of them. Everything is
 * done by this same binary, started anew, in a directory of its own that is gone
 * afterwards; the operator's store is neither read nor written. Times are this
 * machine's, now, and are told beside those of a bare process of the same
 * minute. The leak check counts before and after: it can fail, and then the
 * exit status says so.
 */

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/clock.h"
#include "audit/json.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "supervisor/outfile.h"
#include "supervisor/tree.h"

extern char **environ;

#define RUNS 20
#define CALLS 2000
#define NOTE_SIZE 1024
#define WAIT_MS 20000

struct bench {
	const char *config;
	const char *sandbox;
	bool json;
	uint32_t runs;
	uint32_t calls;
	uint32_t started; /* invocations so far */
	char place[PATH_MAX];
};

/* Of one series, in nanoseconds. */
struct series {
	int64_t low, middle, high;
};

/* What may be left behind. */
struct census {
	long processes, descriptors, mounts, sockets, files;
};

static const char usage_text[] =
    "usage: cyberos skill broker bench [--runs N] [--calls N] [--json]\n"
    "           [--sandbox MODE] [--store DIR] [--config FILE]\n";

static const char help_text[] =
    "\n"
    "Measure what a start, a call and an idle skill cost on this host, and see\n"
    "whether anything is left of them. It takes some seconds and leaves your\n"
    "store alone. Times belong to this machine and this moment.\n"
    "\n"
    "  --runs N        starts to measure (20)\n"
    "  --calls N       calls to measure (2000)\n"
    "  --json          one JSON object\n"
    "  --sandbox MODE  required (default) or best-effort\n"
    "  --store DIR     accepted, and left alone: it has one of its own\n"
    "  --config FILE   operator's configuration\n"
    "  --help          this text\n"
    "\n"
    "Exit status: 0 nothing is left and the ledger holds, 1 something is, or it\n"
    "cannot be measured here, 2 usage.\n";

/* --- skills --- */

static int
put_file(const char *dir, const char *name, const char *text, mode_t mode)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >=
	    (int)sizeof(path))
		return -1;
	return outfile_new(AT_FDCWD, path, mode, text, strlen(text)) == 0
	    ? chmod(path, mode)
	    : -1;
}

/* A skill whose main is this script. */
static int
make_skill(const struct bench *b, const char *id, const char *script)
{
	char dir[PATH_MAX], text[512];

	snprintf(dir, sizeof(dir), "%.4000s/%s", b->place, id);
	snprintf(text, sizeof(text),
	    "---\nid: %s\nversion: 1.0.0\ndescription: for the benchmark\n"
	    "allowed_memory_scopes: [memories/note]\n"
	    "allowed_tools: [MemoryRead]\n---\n", id);
	if (mkdir(dir, 0755) == -1 ||
	    put_file(dir, "SKILL.md", text, 0644) == -1 ||
	    put_file(dir, "main", script, 0755) == -1)
		return -1;
	return 0;
}

static int
make_place(struct bench *b)
{
	char path[PATH_MAX], note[NOTE_SIZE + 1];

	if (tree_make(b->place, "bench") == -1)
		return -1;
	memset(note, 'n', NOTE_SIZE);
	note[NOTE_SIZE] = '\0';
	snprintf(path, sizeof(path), "%.4000s/s", b->place);
	if (mkdir(path, 0755) == -1 || chmod(b->place, 0755) == -1)
		return -1;
	snprintf(path, sizeof(path), "%.4000s/store", b->place);
	if (mkdir(path, 0700) == -1)
		return -1;
	strlcat(path, "/memories", sizeof(path));
	if (mkdir(path, 0700) == -1 || put_file(path, "note", note, 0600) == -1)
		return -1;
	return make_skill(b, "nothing", "#!/bin/sh\n") == 0 &&
		make_skill(b, "first", "#!/bin/sh\nexec cyberos skill call "
				       "MemoryRead path=memories/note\n") == 0 &&
		make_skill(b, "calls", "#!/bin/sh\nexec cyberos skill call "
				       "--repeat \"$1\" MemoryRead "
				       "path=memories/note\n") == 0 &&
		make_skill(b, "idle", "#!/bin/sh\necho up\nread line\n") == 0
	    ? 0
	    : -1;
}

/* --- starting what is measured --- */

/* in, out: descriptors of the child; the parent keeps its own. -1 or a pid. */
static pid_t
start(char *const argv[], int in, int out)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t usual;
	pid_t pid = -1;
	int rc;

	sigemptyset(&usual);
	sigaddset(&usual, SIGINT);
	sigaddset(&usual, SIGTERM);
	sigaddset(&usual, SIGHUP);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigdefault(&attr, &usual);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	rc = posix_spawn(&pid, argv[0], &actions, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	errno = rc;
	return rc == 0 ? pid : -1;
}

/* The exit status, or -1. */
static int
reap(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) == -1) {
		if (errno != EINTR)
			return -1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* One of our own commands, on the bench's store. */
static pid_t
start_ours(struct bench *b, const char *command, const char *skill,
    const char *arg, int in, int out)
{
	static const char self[] = "/proc/self/exe";
	char store[PATH_MAX], dir[PATH_MAX], sockets[PATH_MAX];
	const char *argv[24];
	int n = 0;

	snprintf(store, sizeof(store), "%.4000s/store", b->place);
	argv[n++] = self;
	argv[n++] = "skill";
	argv[n++] = "broker";
	argv[n++] = command;
	argv[n++] = "--store";
	argv[n++] = store;
	if (b->config != NULL) {
		argv[n++] = "--config";
		argv[n++] = b->config;
	}
	if (skill != NULL) {
		snprintf(dir, sizeof(dir), "%.4000s/%s", b->place, skill);
		snprintf(sockets, sizeof(sockets), "%.4000s/s", b->place);
		argv[n++] = "--socket-dir";
		argv[n++] = sockets;
		argv[n++] = "--sandbox";
		argv[n++] = b->sandbox;
		argv[n++] = "--quiet";
		argv[n++] = dir;
		argv[n++] = "--";
		if (arg != NULL)
			argv[n++] = arg;
		b->started++;
	}
	argv[n] = NULL;
	return start((char *const *)(uintptr_t)argv, in, out);
}

/* What the command printed; -1 when it did not end with 0. */
static int
output_of(struct bench *b, const char *command, const char *skill,
    const char *arg, char *text, size_t size)
{
	size_t n = 0;
	ssize_t got = 1;
	int fds[2], null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	pid_t pid;

	if (null_fd == -1 || pipe2(fds, O_CLOEXEC) == -1)
		return -1;
	pid = start_ours(b, command, skill, arg, null_fd, fds[1]);
	close(null_fd);
	close(fds[1]);
	while (pid != -1 && n < size - 1 && got > 0) {
		got = read(fds[0], text + n, size - 1 - n);
		n += got > 0 ? (size_t)got : 0;
	}
	text[n] = '\0';
	close(fds[0]);
	return pid != -1 && reap(pid) == 0 ? 0 : -1;
}

/* --- start and call --- */

static int
compare(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void
sum_up(int64_t *took, uint32_t n, struct series *s)
{
	qsort(took, n, sizeof(*took), compare);
	s->low = took[0];
	s->middle = took[n / 2];
	s->high = took[n - 1];
}

/* One process from its start to its end: a bare one, or one of our skills. */
static int64_t
time_one(struct bench *b, const char *skill)
{
	char name[] = "/bin/true", *const bare[] = { name, NULL };
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int64_t begun = clock_boot();
	pid_t pid;

	if (null_fd == -1)
		return -1;
	pid = skill == NULL
	    ? start(bare, null_fd, null_fd)
	    : start_ours(b, "run", skill, NULL, null_fd, null_fd);
	close(null_fd);
	return pid != -1 && reap(pid) == 0 ? clock_boot() - begun : -1;
}

/* The three kinds in turn, so that all see the same machine. */
static int
measure_starts(struct bench *b, struct series out[3])
{
	static const char *const kinds[3] = { NULL, "nothing", "first" };
	int64_t *took = calloc((size_t)b->runs * 3, sizeof(*took));
	uint32_t i, k;

	if (took == NULL)
		return -1;
	for (k = 0; k < 3; k++) /* what only the first one pays */
		(void)time_one(b, kinds[k]);
	for (i = 0; i < b->runs; i++) {
		for (k = 0; k < 3; k++) {
			took[k * b->runs + i] = time_one(b, kinds[k]);
			if (took[k * b->runs + i] == -1) {
				free(took);
				return -1;
			}
		}
	}
	for (k = 0; k < 3; k++)
		sum_up(took + k * b->runs, b->runs, &out[k]);
	free(took);
	return 0;
}

struct calls {
	double low, middle, p99, high; /* microseconds */
};

static int
measure_calls(struct bench *b, struct calls *c)
{
	char count[16], text[512];
	cJSON *root;
	const cJSON *v[4];

	snprintf(count, sizeof(count), "%u", b->calls);
	if (output_of(b, "run", "calls", count, text, sizeof(text)) == -1)
		return -1;
	root = json_parse(text, strcspn(text, "\n"), false);
	v[0] = cJSON_GetObjectItemCaseSensitive(root, "min_us");
	v[1] = cJSON_GetObjectItemCaseSensitive(root, "p50_us");
	v[2] = cJSON_GetObjectItemCaseSensitive(root, "p99_us");
	v[3] = cJSON_GetObjectItemCaseSensitive(root, "max_us");
	if (v[0] == NULL || v[1] == NULL || v[2] == NULL || v[3] == NULL) {
		cJSON_Delete(root);
		return -1;
	}
	*c = (struct calls){ v[0]->valuedouble, v[1]->valuedouble,
		v[2]->valuedouble, v[3]->valuedouble };
	cJSON_Delete(root);
	return 0;
}

/* --- memory --- */

/* A line "NAME: N kB" of a file of a process, or -1. */
static long
read_kib(pid_t pid, const char *file, const char *name)
{
	char path[64], line[256];
	long kib = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	f = fopen(path, "re");
	if (f == NULL)
		return -1;
	while (kib == -1 && fgets(line, sizeof(line), f) != NULL) {
		if (strncmp(line, name, strlen(name)) == 0)
			kib = strtol(line + strlen(name), NULL, 10);
	}
	fclose(f);
	return kib;
}

/* The first child of a process, or -1. */
static pid_t
child_of(pid_t pid)
{
	char path[64];
	int child = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid,
	    (int)pid);
	f = fopen(path, "re");
	if (f == NULL)
		return -1;
	if (fscanf(f, "%d", &child) != 1)
		child = -1;
	fclose(f);
	return child;
}

struct memory {
	long kib;	/* of supervisor, broker and init together */
	bool is_share;	/* proportional; else resident, what is shared counted whole */
};

static void
weigh(pid_t pid, struct memory *m)
{
	pid_t family[3];
	long kib;
	int i;

	family[0] = pid;
	family[1] = child_of(pid);
	family[2] = family[1] == -1 ? -1 : child_of(family[1]);
	m->is_share = true;
	m->kib = 0;
	for (i = 0; i < 3; i++) {
		kib = read_kib(family[i], "smaps_rollup", "Pss:");
		m->is_share = m->is_share && kib >= 0;
		m->kib += kib;
	}
	if (m->is_share)
		return;
	for (m->kib = 0, i = 0; i < 3; i++) {
		kib = read_kib(family[i], "status", "VmRSS:");
		m->kib += kib > 0 ? kib : 0;
	}
}

/* An idle skill: the three processes that are ours. */
static int
measure_memory(struct bench *b, struct memory *m)
{
	struct pollfd p = { -1, POLLIN, 0 };
	int in[2], out[2], rc = -1;
	char text[16];
	pid_t pid;

	if (pipe2(in, O_CLOEXEC) == -1 || pipe2(out, O_CLOEXEC) == -1)
		return -1;
	pid = start_ours(b, "run", "idle", NULL, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	p.fd = out[0];
	if (pid != -1 && poll(&p, 1, WAIT_MS) == 1 &&
	    read(out[0], text, sizeof(text)) > 0) {
		weigh(pid, m);
		rc = m->kib > 0 ? 0 : -1;
	}
	close(in[1]); /* the end of its input is its end */
	close(out[0]);
	if (pid != -1)
		(void)reap(pid);
	return rc;
}

/* --- what is left --- */

static long
entries(const char *path)
{
	DIR *dir = opendir(path);
	long n = 0;

	if (dir == NULL)
		return -1;
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n - 2;
}

/* Lines of a file of the kernel's that hold this text. */
static long
lines_with(const char *path, const char *text)
{
	FILE *f = fopen(path, "re");
	char line[4096];
	long n = 0;

	if (f == NULL)
		return -1;
	while (fgets(line, sizeof(line), f) != NULL)
		n += strstr(line, text) != NULL;
	fclose(f);
	return n;
}

/* Processes below us, orphans included: we are their reaper. */
static long
processes(void)
{
	FILE *f = fopen("/proc/thread-self/children", "re");
	long n = 0;
	int pid;

	if (f == NULL)
		return -1;
	while (fscanf(f, "%d", &pid) == 1)
		n++;
	fclose(f);
	return n;
}

static void
count_all(const struct bench *b, struct census *c)
{
	char path[PATH_MAX];

	c->processes = processes();
	c->descriptors = entries("/proc/self/fd");
	c->mounts = lines_with("/proc/self/mountinfo", "");
	snprintf(path, sizeof(path), "%.4000s/s", b->place);
	c->sockets = lines_with("/proc/net/unix", path);
	c->files = entries(path);
	snprintf(path, sizeof(path), "%.4000s/store/run", b->place);
	c->files += entries(path) > 0 ? entries(path) : 0;
}

/* Both lists are of the same names. */
static const struct {
	const char *name;
	size_t at;
} kinds[] = {
	{ "processes", offsetof(struct census, processes) },
	{ "descriptors", offsetof(struct census, descriptors) },
	{ "mounts", offsetof(struct census, mounts) },
	{ "sockets", offsetof(struct census, sockets) },
	{ "temporary_files", offsetof(struct census, files) },
};

#define KINDS_N (sizeof(kinds) / sizeof(kinds[0]))

static long
left(const struct census *before, const struct census *after, size_t kind)
{
	long was, is;

	memcpy(&was, (const char *)before + kinds[kind].at, sizeof(was));
	memcpy(&is, (const char *)after + kinds[kind].at, sizeof(is));
	return is - was;
}

/* --- the table --- */

struct found {
	struct series starts[3];
	struct calls calls;
	struct memory memory;
	struct census before, after;
	bool intact;	/* verify found the ledger whole */
	bool clean;	/* and nothing is left */
};

static void
print_start(const char *name, const struct series *s, const struct series *bare)
{
	printf("  %-38s %8.2f  %8.2f .. %-8.2f", name, (double)s->middle / 1e6,
	    (double)s->low / 1e6, (double)s->high / 1e6);
	if (s == bare)
		puts("       1");
	else
		printf(" %7.1f\n", (double)s->middle / (double)bare->middle);
}

static void
print_table(const struct bench *b, const struct found *f)
{
	struct utsname u;
	size_t i;

	if (uname(&u) == -1)
		memset(&u, 0, sizeof(u));
	printf("cyberos %s on %s %s, %ld processors\n"
	       "Times belong to this machine and this moment: compare them with"
	       " one another.\n\n",
	    CYBEROS_VERSION, u.sysname, u.release,
	    sysconf(_SC_NPROCESSORS_ONLN));
	printf("  %-38s %8s  %-20s %7s\n", "start to end, ms", "median",
	    "lowest .. highest", "to bare");
	print_start("a bare process", &f->starts[0], &f->starts[0]);
	print_start("a skill that does nothing", &f->starts[1], &f->starts[0]);
	print_start("a skill in shell that makes one call", &f->starts[2],
	    &f->starts[0]);
	printf("\n  %-38s %8s  %-20s %7s\n", "a call, us", "median",
	    "lowest .. highest", "p99");
	printf("  %-38s %8.1f  %8.1f .. %-8.1f %7.1f\n",
	    "MemoryRead of 1 KiB, recorded", f->calls.middle, f->calls.low,
	    f->calls.high, f->calls.p99);
	printf("\n  an idle skill costs %ld KiB beside its own: supervisor,"
	       " broker, init\n  (%s)\n",
	    f->memory.kib, f->memory.is_share
		? "each page shared out among those who have it"
		: "shared pages counted each time; root sees less");
	printf("\n  left behind by %u invocations\n", b->started);
	for (i = 0; i < KINDS_N; i++)
		printf("  %-38s %8ld\n", kinds[i].name,
		    left(&f->before, &f->after, i));
	printf("  %-38s %8s\n", "ledger", f->intact ? "intact" : "DAMAGED");
	puts(f->clean ? "\nNothing is left behind."
		      : "\nSOMETHING IS LEFT BEHIND.");
}

static void
print_json(const struct bench *b, const struct found *f)
{
	static const char *const names[3] = { "bare_process", "nothing",
		"first_call" };
	size_t i;

	printf("{\"version\":\"%s\",\"invocations\":%u,\"start_ns\":{",
	    CYBEROS_VERSION, b->started);
	for (i = 0; i < 3; i++)
		printf("%s\"%s\":{\"median\":%lld,\"min\":%lld,\"max\":%lld}",
		    i == 0 ? "" : ",", names[i],
		    (long long)f->starts[i].middle,
		    (long long)f->starts[i].low, (long long)f->starts[i].high);
	printf("},\"call_us\":{\"median\":%.1f,\"min\":%.1f,\"max\":%.1f,"
	       "\"p99\":%.1f},\"memory_kib\":%ld,\"memory_is_share\":%s,"
	       "\"left\":{",
	    f->calls.middle, f->calls.low, f->calls.high, f->calls.p99,
	    f->memory.kib, f->memory.is_share ? "true" : "false");
	for (i = 0; i < KINDS_N; i++)
		printf("%s\"%s\":%ld", i == 0 ? "" : ",", kinds[i].name,
		    left(&f->before, &f->after, i));
	printf("},\"ledger_intact\":%s,\"clean\":%s}\n",
	    f->intact ? "true" : "false", f->clean ? "true" : "false");
}

/* --- all of it --- */

static int
measure(struct bench *b, struct found *f)
{
	char text[4096];
	size_t i;

	(void)time_one(b, "nothing"); /* makes what a first one makes */
	count_all(b, &f->before);
	if (measure_starts(b, f->starts) == -1 ||
	    measure_calls(b, &f->calls) == -1 ||
	    measure_memory(b, &f->memory) == -1)
		return -1;
	f->intact = output_of(b, "verify", NULL, NULL, text, sizeof(text)) == 0;
	count_all(b, &f->after);
	f->clean = f->intact;
	for (i = 0; i < KINDS_N; i++)
		f->clean = f->clean && left(&f->before, &f->after, i) == 0;
	return 0;
}

/* 0 go on, else 1 + exit status. */
static int
read_options(struct bench *b, int argc, char **argv)
{
	static const struct option options[] = {
		{ "runs", required_argument, NULL, 'r' },
		{ "calls", required_argument, NULL, 'n' },
		{ "json", no_argument, NULL, 'j' },
		{ "sandbox", required_argument, NULL, 's' },
		{ "store", required_argument, NULL, 'S' },
		{ "config", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'H' },
		{ NULL, 0, NULL, 0 },
	};
	const char *why = NULL;
	int opt;

	optind = 0; /* glibc: begin anew */
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'r') {
			b->runs = (uint32_t)strtonum(optarg, 1, 10000, &why);
		} else if (opt == 'n') {
			b->calls = (uint32_t)strtonum(optarg, 1, 1000000, &why);
		} else if (opt == 'j') {
			b->json = true;
		} else if (opt == 's') {
			b->sandbox = optarg;
		} else if (opt == 'c') {
			b->config = optarg;
		} else if (opt == 'H') {
			printf("%s%s", usage_text, help_text);
			return 1 + EXIT_FINE;
		} else if (opt != 'S') {
			fputs(usage_text, stderr);
			return 1 + EXIT_USAGE;
		}
		/* --store is every broker command's; there is nothing in it
		 * for this one. */
		if (why != NULL) {
			warnx("%s: a number from 1 to %s is wanted", optarg,
			    opt == 'r' ? "10000" : "1000000");
			return 1 + EXIT_USAGE;
		}
	}
	if (optind == argc)
		return 0;
	fputs(usage_text, stderr);
	return 1 + EXIT_USAGE;
}

int
bench_main(int argc, char **argv)
{
	struct bench b = { NULL, "required", false, RUNS, CALLS, 0, "" };
	struct found found;
	int status = EXIT_FAILED, rc;

	rc = read_options(&b, argc, argv);
	if (rc != 0)
		return rc - 1;
	memset(&found, 0, sizeof(found));
	/* Whoever ends us ends what we measure, and then we tidy up. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	/* What loses its parent becomes ours, and is seen. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (make_place(&b) == -1) {
		warn("a directory for the benchmark");
	} else if (measure(&b, &found) == -1) {
		warnx("it cannot be measured here; `cyberos skill broker "
		      "doctor` tells what this host lacks");
	} else {
		if (b.json)
			print_json(&b, &found);
		else
			print_table(&b, &found);
		status = found.clean ? EXIT_FINE : EXIT_FAILED;
	}
	if (b.place[0] != '\0')
		tree_remove(b.place);
	return status;
}
