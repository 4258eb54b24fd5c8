/*
 * What this host can enforce: a real sandbox is built, the attempts of
 * enforce/probe are made in it, and each layer is said to hold or not. Nothing
 * is assumed from versions or settings.
 */

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/buf.h"
#include "audit/json.h"
#include "audit/store.h"
#include "enforce/probe.h"
#include "enforce/spawn.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "supervisor/settings.h"
#include "supervisor/terminal.h"

struct doctor {
	char dir[PATH_MAX];
	char socket[PATH_MAX + 8];
	char self[PATH_MAX];
	char abstract[64];
	int abstract_fd;
	int lock_fd;
	struct confine_plan plan;
	struct spawned sandbox;
	char why[512];
	bool started;
};

static int
listen_at(const char *path, size_t len)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (len > sizeof(sun.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(sun.sun_path, path, len);
	if (fd == -1 ||
	    bind(fd, (struct sockaddr *)&sun,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) ==
		-1 ||
	    listen(fd, 1) == -1)
		return -1;
	return fd;
}

static int
put_main(const char *dir)
{
	static const char text[] = "#!/bin/sh\nexit 0\n";
	char path[PATH_MAX + 8];
	int fd, result;

	snprintf(path, sizeof(path), "%s/main", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (fd == -1)
		return -1;
	result = write(fd, text, sizeof(text) - 1) > 0 ? 0 : -1;
	close(fd);
	return result;
}

static int
make_plan(struct doctor *d, const struct policy *policy)
{
	struct confine_plan *p = &d->plan;
	char id[STORE_UUID_SIZE];
	ssize_t n;
	int i;

	spawn_rights(p);
	if (p->root) {
		d->lock_fd = spawn_lock_uid(policy->uid_first,
		    policy->uid_last, &p->host_uid);
		if (d->lock_fd == -1)
			return -1;
		p->host_gid = (gid_t)p->host_uid;
	}
	store_new_uuid(id);
	snprintf(d->abstract, sizeof(d->abstract), "cyberos-doctor-%s", id);
	d->socket[0] = '\0';
	memcpy(d->socket + 1, d->abstract, strlen(d->abstract));
	d->abstract_fd = listen_at(d->socket, strlen(d->abstract) + 1);
	snprintf(d->socket, sizeof(d->socket), "%s/s", d->dir);
	if (d->abstract_fd == -1 ||
	    listen_at(d->socket, strlen(d->socket)) == -1 ||
	    put_main(d->dir) == -1)
		return -1;
	n = readlink("/proc/self/exe", d->self, sizeof(d->self) - 1);
	if (n <= 0)
		return -1;
	p->attest = true;
	p->abstract_name = d->abstract;
	p->broker_pid = getpid();
	p->tmp_mb = policy->tmp_mb;
	snprintf(p->tmp_options, sizeof(p->tmp_options),
	    "mode=1777,size=%um,nr_inodes=1024", p->tmp_mb);
	p->memory_mb = policy->max_memory_mb;
	p->cpu_seconds = 60;
	p->max_processes = policy->max_processes;
	p->files = RLIM_INFINITY;
	p->skill_path = d->dir;
	p->socket_name = "s";
	p->keep_fd = d->lock_fd;
	for (i = 0; i < 3; i++) {
		p->stdio[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
		p->stdio[i] = fcntl(p->stdio[i], F_DUPFD_CLOEXEC, 10);
	}
	spawn_bind_init(&p->skill);
	spawn_bind_init(&p->self);
	spawn_bind_init(&p->socket);
	return spawn_bind(&p->skill, d->dir) == -1 ||
		spawn_bind(&p->self, d->self) == -1 ||
		spawn_bind(&p->socket, d->socket) == -1
	    ? -1
	    : 0;
}

/* Where there is none as required, what a lesser one would be is worth knowing. */
static void
examine(struct doctor *d, const struct policy *policy)
{
	char lesser[sizeof(d->why)];

	if (make_plan(d, policy) == -1) {
		snprintf(d->why, sizeof(d->why), "preparing: %s",
		    strerror(errno));
		return;
	}
	spawn_init(&d->sandbox);
	d->started = spawn_start(&d->plan, &d->sandbox, d->why,
			 sizeof(d->why)) == 0;
	if (!d->started) {
		d->plan.best_effort = true;
		spawn_clear(&d->sandbox);
		spawn_init(&d->sandbox);
		d->started = spawn_start(&d->plan, &d->sandbox, lesser,
				 sizeof(lesser)) == 0;
	}
	if (!d->started)
		return;
	spawn_kill(&d->sandbox);
	spawn_wait(&d->sandbox, -1);
	spawn_clear(&d->sandbox);
}

/* Is all there that "required" asks for, and none of it broken? */
static bool
is_enough(const struct doctor *d)
{
	const struct confine_step *steps;
	size_t i, n;

	if (!d->started || d->plan.best_effort ||
	    confine_missing(d->sandbox.states, false) != NULL)
		return false;
	steps = confine_steps(&n);
	for (i = 0; i < n; i++) {
		if (probe_judge(steps[i].name, d->sandbox.states,
			d->sandbox.probes) == PROBE_BROKEN)
			return false;
	}
	return true;
}

#define TEXT_COLUMN 34

static void
put_line(const char *name, const char *word, const char *text)
{
	printf("%-18s %-14s ", name, word);
	terminal_sentence(text, TEXT_COLUMN, TEXT_COLUMN);
}

static void
print_human(const struct doctor *d)
{
	const struct confine_step *steps;
	const struct probe *probes;
	size_t i, n;

	if (!d->started) {
		terminal_sentence("No sandbox can be built here:", 0, 0);
		terminal_sentence(d->why, 0, 0);
		return;
	}
	steps = confine_steps(&n);
	printf("%-18s %-14s %s\n", "LAYER", "STATE", "WHAT IT GUARANTEES");
	for (i = 0; i < n; i++)
		put_line(steps[i].name,
		    probe_verdict_word(probe_judge(steps[i].name,
			d->sandbox.states, d->sandbox.probes)),
		    steps[i].guarantees);
	probes = probe_table(&n);
	printf("\n%-18s %-14s %s\n", "ATTEMPT", "RESULT", "TO");
	for (i = 0; i < n; i++)
		put_line(probes[i].name,
		    probe_result_word(d->sandbox.probes[i]), probes[i].what);
	printf("\n%s\n", is_enough(d)
		? "This host enforces all that --sandbox required asks for."
		: "This host does NOT enforce all that --sandbox required "
		  "asks for.");
	if (!is_enough(d) && d->plan.best_effort)
		printf("This is what --sandbox best-effort has. What failed:\n");
	if (!is_enough(d) && d->why[0] != '\0')
		terminal_sentence(d->why, 0, 0);
}

static void
print_json(const struct doctor *d)
{
	const struct confine_step *steps;
	const struct probe *probes;
	struct buf b;
	size_t i, n;

	buf_init(&b, 65536);
	buf_printf(&b, "{\"enforced\":%s,\"error\":",
	    is_enough(d) ? "true" : "false");
	if (d->started && !d->plan.best_effort)
		buf_puts(&b, "null");
	else
		json_put_string(&b, d->why, strlen(d->why));
	buf_puts(&b, ",\"layers\":{");
	steps = confine_steps(&n);
	for (i = 0; d->started && i < n; i++)
		buf_printf(&b, "%s\"%s\":\"%s\"", i == 0 ? "" : ",",
		    steps[i].name,
		    probe_verdict_word(probe_judge(steps[i].name,
			d->sandbox.states, d->sandbox.probes)));
	buf_printf(&b, "},\"cost_us\":{\"clone\":%lld",
	    (long long)(d->sandbox.clone_ns / 1000));
	for (i = 0; d->started && i < n; i++)
		buf_printf(&b, ",\"%s\":%lld", steps[i].name,
		    (long long)(d->sandbox.cost_ns[i] / 1000));
	buf_puts(&b, "},\"attempts\":{");
	probes = probe_table(&n);
	for (i = 0; d->started && i < n; i++)
		buf_printf(&b, "%s\"%s\":\"%s\"", i == 0 ? "" : ",",
		    probes[i].name, probe_result_word(d->sandbox.probes[i]));
	buf_puts(&b, "}}\n");
	fwrite(b.data, 1, b.len, stdout);
	buf_clear(&b);
}

static void
tidy(struct doctor *d)
{
	char path[PATH_MAX + 8];

	unlink(d->socket);
	snprintf(path, sizeof(path), "%s/main", d->dir);
	unlink(path);
	rmdir(d->dir);
}

static const char usage_text[] =
    "usage: cyberos skill broker doctor [--json] [--store DIR] [--config FILE]\n";

int
doctor_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "config", required_argument, NULL, 'c' },
		{ "store", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct settings_options o = { NULL, NULL, NULL, NULL, NULL };
	struct settings settings;
	struct doctor *d;
	char why[1024];
	bool json = false, enough;
	int opt;

	/* A limit on file sizes is an error of a write, not our end. */
	signal(SIGXFSZ, SIG_IGN);
	optind = 1;
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'j':
			json = true;
			break;
		case 'c':
			o.config = optarg;
			break;
		case 's':
			o.store = optarg;
			break;
		case 'h':
			printf("%s\nBuild a sandbox, try to break out of it, "
			       "and say which layers hold.\nExit status 0: all "
			       "that --sandbox required asks for holds; 1: "
			       "not.\n",
			    usage_text);
			return EXIT_FINE;
		default:
			fputs(usage_text, stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		fputs(usage_text, stderr);
		return EXIT_USAGE;
	}
	if (settings_load(&settings, &o, why, sizeof(why)) == -1) {
		warnx("%s", why);
		settings_clear(&settings);
		return EXIT_CONFIG;
	}
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		err(EXIT_FAILED, NULL);
	d->lock_fd = -1;
	strlcpy(d->dir, "/tmp/cyberos-doctor.XXXXXX", sizeof(d->dir));
	if (mkdtemp(d->dir) == NULL)
		err(EXIT_FAILED, "/tmp");
	/* As a skill's directory is: without an id-mapped mount others enter. */
	if (chmod(d->dir, 0755) == -1)
		err(EXIT_FAILED, "%s", d->dir);
	examine(d, &settings.policy);
	tidy(d);
	if (json)
		print_json(d);
	else
		print_human(d);
	enough = is_enough(d);
	free(d);
	settings_clear(&settings);
	return enough ? EXIT_FINE : EXIT_FAILED;
}
