/*
 * `run`: one invocation, in the foreground of whoever wants it. Its streams
 * and signals are the caller's, and its books are kept in place: there is
 * nobody else who could be made to wait.
 */

#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/clock.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "supervisor/export.h"
#include "supervisor/invocation.h"
#include "supervisor/outfile.h"
#include "supervisor/relay.h"
#include "supervisor/sweep.h"

struct run {
	struct settings_options options;
	const char *skill;
	const char *traceparent;
	const char *result_path;
	char result_absolute[PATH_MAX];
	const char *otel_path;
	char otel_absolute[PATH_MAX];
	enum relay_mode stdio;
	enum log_level most;
	struct supervisor sup;
	struct invocation inv;
	struct relay relay;
	struct outfile result_file;
	struct ready ready;
	int signal_fd;
	int timer_fd;
	int64_t armed; /* for when */
};

static const char usage_text[] =
    "usage: cyberos skill broker run [OPTIONS] SKILL [-- ARG...]\n";

static const char help_text[] =
    "\n"
    "Run one skill in a sandbox, to its end. SKILL is a directory (with a /)\n"
    "or the id of an installed skill.\n"
    "\n"
    "  --store DIR              where ledger and memory live\n"
    "  --skills DIR             where installed skills are\n"
    "  --config FILE            operator's configuration\n"
    "  --invocation UUID        id of this invocation (random)\n"
    "  --tenant UUID            whose memory (the nil UUID)\n"
    "  --persona NAME           recorded with the start\n"
    "  --request-id ID          recorded with the start\n"
    "  --traceparent V          W3C trace context of the caller\n"
    "  --deadline SECONDS       less time than the skill's effort_minutes\n"
    "  --connect-timeout SECS   end a skill that never connects (60; 0 off)\n"
    "  --sandbox MODE           required (default) or best-effort\n"
    "  --attest                 try the sandbox first; refuse if it leaks\n"
    "  --socket-dir DIR         where the socket is bound (/tmp)\n"
    "  --stdio MODE             inherit (default), null or relay\n"
    "  --result FILE            write what came of it as JSON\n"
    "  --otel-file FILE         write its spans as lines of OTLP JSON\n"
    "  --quiet, -v              fewer or more log lines\n"
    "  --help                   this text\n"
    "\n"
    "Exit status: the skill's own; 124 out of time, 125 the broker failed,\n"
    "126 main cannot be executed, 127 no such skill, 128+N ended by signal N,\n"
    "6 SKILL.md is invalid, 5 the operator's policy refuses it, 2 usage.\n";

enum {
	OPT_INVOCATION = 256,
	OPT_TENANT,
	OPT_STORE,
	OPT_SKILLS,
	OPT_SOCKET_DIR,
	OPT_TRACEPARENT,
	OPT_PERSONA,
	OPT_REQUEST_ID,
	OPT_DEADLINE,
	OPT_CONNECT,
	OPT_SANDBOX,
	OPT_STDIO,
	OPT_RESULT,
	OPT_OTEL_FILE,
	OPT_CONFIG,
	OPT_ATTEST,
	OPT_QUIET,
	OPT_HELP
};

static const struct option long_options[] = {
	{ "invocation", required_argument, NULL, OPT_INVOCATION },
	{ "tenant", required_argument, NULL, OPT_TENANT },
	{ "store", required_argument, NULL, OPT_STORE },
	{ "skills", required_argument, NULL, OPT_SKILLS },
	{ "socket-dir", required_argument, NULL, OPT_SOCKET_DIR },
	{ "traceparent", required_argument, NULL, OPT_TRACEPARENT },
	{ "persona", required_argument, NULL, OPT_PERSONA },
	{ "request-id", required_argument, NULL, OPT_REQUEST_ID },
	{ "deadline", required_argument, NULL, OPT_DEADLINE },
	{ "connect-timeout", required_argument, NULL, OPT_CONNECT },
	{ "sandbox", required_argument, NULL, OPT_SANDBOX },
	{ "stdio", required_argument, NULL, OPT_STDIO },
	{ "result", required_argument, NULL, OPT_RESULT },
	{ "otel-file", required_argument, NULL, OPT_OTEL_FILE },
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "attest", no_argument, NULL, OPT_ATTEST },
	{ "quiet", no_argument, NULL, OPT_QUIET },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

/* --- options --- */

static bool
take_uuid(char out[37], const char *name, const char *value)
{
	if (!store_is_uuid(value)) {
		warnx("%s: %s is no UUID in lower-case form", name, value);
		return false;
	}
	strlcpy(out, value, 37);
	return true;
}

static bool
take_stdio(enum relay_mode *out, const char *value)
{
	if (strcmp(value, "inherit") == 0)
		*out = RELAY_INHERIT;
	else if (strcmp(value, "null") == 0)
		*out = RELAY_NULL;
	else if (strcmp(value, "relay") == 0)
		*out = RELAY_ALWAYS;
	else {
		warnx("--stdio: write inherit, null or relay");
		return false;
	}
	return true;
}

static bool
take_option(struct run *r, int opt)
{
	switch (opt) {
	case OPT_INVOCATION:
		return take_uuid(r->inv.job.invocation, "--invocation", optarg);
	case OPT_TENANT:
		return take_uuid(r->inv.job.tenant, "--tenant", optarg);
	case OPT_STORE:
		r->options.store = optarg;
		return true;
	case OPT_SKILLS:
		r->options.skills = optarg;
		return true;
	case OPT_SOCKET_DIR:
		r->options.socket_dir = optarg;
		return true;
	case OPT_TRACEPARENT:
		r->traceparent = optarg;
		return true;
	case OPT_PERSONA:
		r->inv.job.persona = optarg;
		return true;
	case OPT_REQUEST_ID:
		r->inv.job.request_id = optarg;
		return true;
	case OPT_DEADLINE:
		return settings_seconds(&r->inv.job.deadline, "--deadline", optarg,
		    false);
	case OPT_CONNECT:
		return settings_seconds(&r->inv.job.connect_timeout,
		    "--connect-timeout", optarg, true);
	case OPT_SANDBOX:
		r->options.sandbox = optarg;
		return settings_is_sandbox(optarg);
	case OPT_STDIO:
		return take_stdio(&r->stdio, optarg);
	case OPT_RESULT:
		r->result_path = optarg;
		return true;
	case OPT_OTEL_FILE:
		r->otel_path = optarg;
		return true;
	case OPT_CONFIG:
		r->options.config = optarg;
		return true;
	case OPT_ATTEST:
		r->inv.job.attest = true;
		return true;
	case OPT_QUIET:
		r->most = LOG_LEVEL_ERROR;
		return true;
	case 'v':
		r->most = LOG_LEVEL_DEBUG;
		return true;
	default:
		return false;
	}
}

/* 0 go on; else the exit status, plus one. */
static int
parse_options(struct run *r, int argc, char **argv)
{
	int opt;

	r->inv.job.connect_timeout = 60;
	r->most = LOG_LEVEL_WARN;
	optind = 0; /* glibc: begin anew */
	/* '+': what stands behind SKILL is the skill's. */
	while ((opt = getopt_long(argc, argv, "+v", long_options, NULL)) !=
	    -1) {
		if (opt == OPT_HELP) {
			printf("%s%s", usage_text, help_text);
			return EXIT_FINE + 1;
		}
		if (!take_option(r, opt)) {
			fputs(usage_text, stderr);
			return EXIT_USAGE + 1;
		}
	}
	if (optind >= argc || argv[optind][0] == '\0') {
		warnx("which skill? Name a directory or an id");
		fputs(usage_text, stderr);
		return EXIT_USAGE + 1;
	}
	r->skill = argv[optind++];
	if (optind < argc && strcmp(argv[optind], "--") == 0)
		optind++;
	else if (optind < argc) {
		warnx("%s: arguments for the skill come after --",
		    argv[optind]);
		return EXIT_USAGE + 1;
	}
	r->inv.job.args = argv + optind;
	return 0;
}

/* --- before the start --- */

static int
give_up(struct run *r, const char *what, const char *why)
{
	invocation_give_up(&r->inv, "%s%s", what, why);
	return r->inv.result.exit_status;
}

static int
no_output(struct run *r, const char *option, const char *path)
{
	invocation_give_up(&r->inv, "%s %s: %s", option, path,
	    errno == EINVAL ? "is there and is not a regular file"
			    : strerror(errno));
	return r->inv.result.exit_status;
}

static int
open_result(struct run *r)
{
	if (r->result_path == NULL)
		return 0;
	if (settings_absolute(r->result_absolute, r->result_path) == 0 &&
	    outfile_open(&r->result_file, r->result_absolute) == 0) {
		supervisor_protect(&r->sup, r->result_absolute);
		supervisor_protect(&r->sup, r->result_file.temp_path);
		r->inv.unfinished[0] = r->result_file.temp_path;
		return 0;
	}
	return no_output(r, "--result", r->result_path);
}

/* Two names of one file, which need not be there yet. */
static bool
is_same_file(const char *a, const char *b)
{
	const char *leaf_a = strrchr(a, '/'), *leaf_b = strrchr(b, '/');
	char dir_a[PATH_MAX], dir_b[PATH_MAX];
	struct stat st_a, st_b;

	if (leaf_a == NULL || leaf_b == NULL || strcmp(leaf_a, leaf_b) != 0)
		return false;
	snprintf(dir_a, sizeof(dir_a), "%.*s/", (int)(leaf_a - a), a);
	snprintf(dir_b, sizeof(dir_b), "%.*s/", (int)(leaf_b - b), b);
	return stat(dir_a, &st_a) == 0 && stat(dir_b, &st_b) == 0 &&
	       st_a.st_dev == st_b.st_dev && st_a.st_ino == st_b.st_ino;
}

static int
open_otel_file(struct run *r)
{
	const char *unfinished;

	if (r->otel_path == NULL)
		return 0;
	if (r->result_path != NULL &&
	    settings_absolute(r->otel_absolute, r->otel_path) == 0 &&
	    is_same_file(r->result_absolute, r->otel_absolute)) {
		invocation_give_up(&r->inv,
		    "--otel-file %s: --result names the same file",
		    r->otel_path);
		return r->inv.result.exit_status;
	}
	if (settings_absolute(r->otel_absolute, r->otel_path) == -1 ||
	    export_open_file(r->sup.export, r->otel_absolute, &unfinished) ==
		-1)
		return no_output(r, "--otel-file", r->otel_path);
	supervisor_protect(&r->sup, r->otel_absolute);
	supervisor_protect(&r->sup, unfinished);
	r->inv.unfinished[r->inv.unfinished[0] != NULL] = unfinished;
	return 0;
}

/* The books of the only one there is are kept at once. */
static void
do_job(struct invocation *inv, const struct clerk_job *job)
{
	struct clerk_answer answer;
	int new_fd;

	clerk_do(inv->sup, job, inv->part_fd, &answer, &new_fd);
	invocation_answer(inv, &answer, new_fd);
}

/* What the settings say, and where the result goes. */
static int
settle(struct run *r)
{
	struct broker_job *job = &r->inv.job;
	char why[1024];
	int status;

	if (supervisor_configure(&r->sup, &r->options, r->most, why,
		sizeof(why)) == -1) {
		warnx("%s", why);
		return EXIT_RUN_BROKER;
	}
	if (job->invocation[0] == '\0')
		store_new_uuid(job->invocation);
	job->log = r->sup.log;
	strlcpy(job->log.invocation, job->invocation,
	    sizeof(job->log.invocation));
	if (invocation_find(&r->inv, r->skill) == -1) {
		warnx("%s: a directory is written with a /, an id is a name",
		    r->skill);
		return EXIT_USAGE;
	}
	status = open_result(r);
	return status != 0 ? status : open_otel_file(r);
}

/* Beside all that is still to be opened, when no secret is in our memory any
 * more. Without it the start does it. */
static void
get_ready(struct run *r)
{
	if (ready_start(&r->ready, &r->sup, r->inv.job.invocation, false) == 0)
		r->inv.ready = &r->ready;
}

static int
prepare(struct run *r)
{
	char why[1024];
	int status = settle(r);

	if (status != 0)
		return status;
	if (supervisor_open(&r->sup, why, sizeof(why)) == -1)
		return give_up(r, "", why);
	get_ready(r);
	if (invocation_trace(&r->inv, r->traceparent) == -1)
		return give_up(r, "start: ", strerror(errno));
	if (relay_open(&r->relay, r->stdio) == -1)
		return give_up(r, "standard streams: ", strerror(errno));
	memcpy(r->inv.job.stdio, r->relay.skill, sizeof(r->inv.job.stdio));
	if (supervisor_events(&r->signal_fd, &r->timer_fd) == -1)
		return give_up(r, "start: ", strerror(errno));
	return 0;
}

/* --- the watch --- */

static void
on_signal(struct run *r)
{
	struct signalfd_siginfo info;

	while (read(r->signal_fd, &info, sizeof(info)) ==
	    (ssize_t)sizeof(info))
		invocation_terminate(&r->inv, (int)info.ssi_signo);
}

static void
arm_timer(struct run *r)
{
	int64_t at = invocation_due(&r->inv);
	struct itimerspec when;

	if (at == r->armed)
		return;
	r->armed = at;
	memset(&when, 0, sizeof(when));
	when.it_value.tv_sec = at / CLOCK_SECOND;
	when.it_value.tv_nsec = at % CLOCK_SECOND;
	timerfd_settime(r->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void
watch(struct run *r)
{
	enum { CONTROL, BROKER, SIGNAL, TIMER, EXPORT,
		FIXED = EXPORT + EXPORT_POLLFDS };
	struct pollfd fds[FIXED + RELAY_POLLFDS];
	struct invocation *inv = &r->inv;
	uint64_t ticks;

	while (inv->state == INVOCATION_RUNNING) {
		arm_timer(r);
		fds[CONTROL] = (struct pollfd){
			invocation_control(inv), POLLIN, 0 };
		fds[BROKER] = (struct pollfd){ inv->broker.pidfd, POLLIN, 0 };
		fds[SIGNAL] = (struct pollfd){ r->signal_fd, POLLIN, 0 };
		fds[TIMER] = (struct pollfd){ r->timer_fd, POLLIN, 0 };
		export_poll(r->sup.export, fds + EXPORT);
		relay_poll(&r->relay, fds + FIXED);
		if (poll(fds, FIXED + RELAY_POLLFDS, -1) == -1) {
			if (errno == EINTR)
				continue;
			err(EXIT_RUN_BROKER, "poll"); /* the broker ends, too */
		}
		if (fds[CONTROL].revents != 0)
			invocation_heard(inv);
		if (fds[BROKER].revents != 0)
			invocation_broker_gone(inv);
		if (fds[SIGNAL].revents != 0)
			on_signal(r);
		if (fds[TIMER].revents != 0 &&
		    read(r->timer_fd, &ticks, sizeof(ticks)) > 0)
			invocation_overdue(inv);
		export_step(r->sup.export, fds + EXPORT);
		relay_step(&r->relay, fds + FIXED);
	}
}

/* --- afterwards --- */

static void
write_result(struct run *r)
{
	struct buf b;

	if (r->result_file.dir_fd == -1)
		return;
	buf_init(&b, 65536);
	buf_putc(&b, '{');
	invocation_put_result(&r->inv, &b);
	buf_puts(&b, "}\n");
	if (outfile_commit(&r->result_file, b.data, b.len) == -1)
		log_line(&r->inv.job.log, LOG_LEVEL_ERROR, "--result: %s",
		    strerror(errno));
	buf_clear(&b);
}

/* Last of all, so that a reader that never reads holds up nothing but itself;
 * a signal ends us here as it ends any program, but for the one that a reader
 * who went has left pending. */
static void
finish_output(struct run *r)
{
	sigset_t none;

	if (r->inv.broker.pid <= 0)
		return;
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	relay_drain(&r->relay);
}

static int
run_one(struct run *r)
{
	bool runs = invocation_start(&r->inv) == 0;

	if (runs)
		relay_forked(&r->relay);
	/* What others left behind is in nobody's way but the auditor's; the
	 * broker has enough to do meanwhile. */
	sweep_some(&r->sup.store, r->sup.settings.policy.spool, r->sup.digest,
	    &r->inv.job.log);
	if (runs)
		watch(r);
	return r->inv.result.exit_status;
}

int
run_main(int argc, char **argv)
{
	struct run *r;
	int status;

	/* From the kernel, which zeroes only the pages that are used. */
	r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r == MAP_FAILED)
		err(EXIT_RUN_BROKER, NULL);
	r->signal_fd = -1;
	if (supervisor_init(&r->sup) == -1)
		err(EXIT_RUN_BROKER, NULL);
	invocation_init(&r->inv, &r->sup);
	ready_init(&r->ready);
	r->inv.submit = do_job;
	outfile_init(&r->result_file);
	status = parse_options(r, argc, argv);
	if (status != 0) {
		supervisor_close(&r->sup);
		munmap(r, sizeof(*r));
		return status - 1;
	}
	status = prepare(r);
	if (status == 0)
		status = run_one(r);
	write_result(r);
	invocation_clear(&r->inv);
	ready_end(&r->ready, READY_LEAVE_MS);
	export_end(r->sup.export, r->signal_fd);
	finish_output(r);
	outfile_clear(&r->result_file);
	supervisor_close(&r->sup);
	munmap(r, sizeof(*r));
	return status;
}
