/*
 * Opened once, before the first skill starts, and the same for all of them:
 * what an operator changes meanwhile holds for the next supervisor.
 */

#include "supervisor/supervisor.h"

#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "audit/hostpage.h"
#include "supervisor/export.h"
#include "tools/registry.h"

/*
 * As many descriptors as we may have, for all that we start: the limit is also
 * that of what the user has on its way through sockets (unix(7)), to which all his
 * skills add, and they have a low one: before is what they may have.
 */
static int
raise_files(rlim_t *before)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == -1)
		return -1;
	*before = r.rlim_cur;
	r.rlim_cur = r.rlim_max;
	/* Where that is more than the kernel allows by now, it stays. */
	(void)setrlimit(RLIMIT_NOFILE, &r);
	return 0;
}

int
supervisor_init(struct supervisor *s)
{
	int fd;

	/* A stream that is closed must not become one of our files. */
	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	if (fd == -1 || close(fd) == -1 || raise_files(&s->files) == -1)
		return -1;
	s->store.root_fd = s->store.audit_fd = s->store.run_fd = -1;
	s->log.fd = -1;
	if (telemetry_take(&s->telemetry) == -1)
		return -1;
	s->export = export_new(&s->log);
	return s->export == NULL ? -1 : 0;
}

/* A tool that does not exist in a ceiling is a typo in what protects. */
static int
check_ceilings(const struct policy *p, char *why, size_t whylen)
{
	const struct policy_ceiling *c;
	size_t i, j;

	for (i = 0; i < POLICY_CEILINGS; i++) {
		c = &p->ceilings[i];
		for (j = 0; c->tools != NULL && j < c->tools_n; j++) {
			if (registry_find(c->tools[j]) == NULL) {
				snprintf(why, whylen,
				    "ceiling.tools: there is no tool %s",
				    c->tools[j]);
				return -1;
			}
		}
	}
	return 0;
}

void
supervisor_protect(struct supervisor *s, const char *path)
{
	size_t i;

	for (i = 0; i < s->protect_n; i++) {
		if (strcmp(s->protect[i], path) == 0)
			return;
	}
	/* The list has room for all that is ever protected, and its NULL. */
	if (s->protect_n + 1 < s->protect_max)
		s->protect[s->protect_n++] = path;
}

/* Files that no skill may reach, whatever its globs say (SPEC 4.2). */
static int
list_protected(struct supervisor *s)
{
	const struct policy *p = &s->settings.policy;
	const struct trust_list *keys;
	size_t i, j;
	const struct telemetry_target *to;

	s->protect_max = SUPERVISOR_PROTECT_MAX;
	for (i = 0; i < POLICY_CEILINGS; i++)
		s->protect_max += p->ceilings[i].keys.n;
	s->protect = calloc(s->protect_max, sizeof(*s->protect));
	if (s->protect == NULL)
		return -1;
	supervisor_protect(s, s->settings.store);
	for (i = 0; s->settings.files[i] != NULL; i++)
		supervisor_protect(s, s->settings.files[i]);
	supervisor_protect(s, "/etc/cyberos");
	if (p->spool != NULL)
		supervisor_protect(s, p->spool);
	if (p->log != NULL && p->log[0] == '/')
		supervisor_protect(s, p->log);
	if (p->args_hash_key_file != NULL)
		supervisor_protect(s, p->args_hash_key_file);
	for (i = 0; i < POLICY_CEILINGS; i++) {
		keys = &p->ceilings[i].keys;
		for (j = 0; j < keys->n; j++) {
			if (keys->v[j].file != NULL)
				supervisor_protect(s, keys->v[j].file);
		}
	}
	for (i = 0; i < TELEMETRY_SIGNALS; i++) {
		to = &s->telemetry.targets[i];
		if (to->client_key != NULL)
			supervisor_protect(s, to->client_key);
		if (to->client_certificate != NULL)
			supervisor_protect(s, to->client_certificate);
		if (to->certificate != NULL)
			supervisor_protect(s, to->certificate);
	}
	return 0;
}

int
supervisor_configure(struct supervisor *s,
    const struct settings_options *options, enum log_level most, char *why,
    size_t whylen)
{
	const struct policy *p = &s->settings.policy;

	if (settings_load(&s->settings, options, why, whylen) == -1)
		return -1;
	if (log_open(&s->log, p->log) == -1) {
		snprintf(why, whylen, "%s: %s", p->log, strerror(errno));
		return -1;
	}
	s->log.most = most;
	if (check_ceilings(p, why, whylen) == -1)
		return -1;
	telemetry_warn(&s->telemetry, &s->log);
	if (list_protected(s) == -1) {
		snprintf(why, whylen, "start: %s", strerror(errno));
		return -1;
	}
	/* A limit on file sizes is an error of a write, not our end. */
	signal(SIGXFSZ, SIG_IGN);
	/* Or the kernel would reap before anybody could ask how it ended. */
	signal(SIGCHLD, SIG_DFL);
	return 0;
}

int
supervisor_open(struct supervisor *s, char *why, size_t whylen)
{
	s->digest = digest_new(NULL, 0);
	if (s->digest == NULL) {
		snprintf(why, whylen, "start: %s", strerror(errno));
		return -1;
	}
	/* The sandbox is built with another working directory. */
	if (settings_absolute(s->socket_dir, s->settings.policy.socket_dir) ==
	    -1) {
		snprintf(why, whylen, "--socket-dir: %s", strerror(errno));
		return -1;
	}
	if (store_open(&s->store, s->settings.store) == -1) {
		snprintf(why, whylen, "store %s: %s", s->settings.store,
		    errno == EPERM
			? "must be a directory of yours that nobody else can "
			  "write, and no link"
		    : errno == EBADMSG
			? "audit/host.json:1: form: names no host"
			: strerror(errno));
		return -1;
	}
	/* Metrics stop nobody: without a sum, pages wait until there is one. */
	broker_names(&s->names);
	if (hostpage_make(&s->store, &s->names.names) == -1)
		log_line(&s->log, LOG_LEVEL_WARN, "metrics: %s",
		    strerror(errno));
	export_start(s->export, &s->telemetry, &s->settings.policy, &s->store,
	    &s->names.names);
	telemetry_wipe(&s->telemetry);
	return 0;
}

int
supervisor_events(int *signal_fd, int *timer_fd)
{
	struct sigaction hup;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGQUIT);
	if (sigaction(SIGHUP, NULL, &hup) == -1 || hup.sa_handler != SIG_IGN)
		sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGPIPE);
	if (sigprocmask(SIG_BLOCK, &set, NULL) == -1)
		return -1;
	sigdelset(&set, SIGPIPE);
	*signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	*timer_fd = timerfd_create(CLOCK_BOOTTIME,
	    TFD_CLOEXEC | TFD_NONBLOCK);
	return *signal_fd == -1 || *timer_fd == -1 ? -1 : 0;
}

void
supervisor_close(struct supervisor *s)
{
	export_free(s->export);
	s->export = NULL;
	telemetry_clear(&s->telemetry);
	store_close(&s->store);
	free(s->protect);
	s->protect = NULL;
	settings_clear(&s->settings);
	digest_free(s->digest);
	s->digest = NULL;
}
