/*
 * One invocation from outside: options, store, anchors, one fork. The
 * supervisor reads nothing that a skill wrote; from its broker it takes
 * fixed-size fields that match their patterns. It outlives the broker and
 * closes the books whatever happened to it.
 */

#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/fs.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/anchor.h"
#include "audit/books.h"
#include "audit/clock.h"
#include "audit/json.h"
#include "audit/store.h"
#include "broker/broker.h"
#include "broker/socket.h"
#include "enforce/cgroup.h"
#include "enforce/manifest.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "supervisor/outfile.h"
#include "supervisor/relay.h"
#include "supervisor/settings.h"
#include "supervisor/sweep.h"
#include "tools/registry.h"

#define NIL_UUID "00000000-0000-0000-0000-000000000000"
#define BACKSTOP (5 * CLOCK_SECOND) /* a broker that overstays T by this */
#define CALLER_GRACE_MS 10000	    /* between the caller's SIGTERM and SIGKILL */
#define PROTECT_MAX 16

struct run {
	struct settings_options options;
	struct settings settings;
	struct store store;
	struct broker_job job;
	const char *result_path;
	char result_absolute[PATH_MAX];
	const char *traceparent;
	enum relay_mode stdio;
	enum log_level most;
	char skill_dir[PATH_MAX];
	char socket_dir[PATH_MAX];
	const char *protect[PROTECT_MAX];
	struct outfile result_file;
	struct relay relay;
	struct cgroup cgroup;
	struct digest *digest;
	/* the segment */
	int day_fd;
	char day[CLOCK_DAY_SIZE];
	char segment[STORE_SEGMENT_NAME];
	struct anchor opened, closed;
	bool anchored;
	uint64_t marked; /* the last row that a mark tells of */
	struct books_parts parts;
	int part_fd; /* of the newest, an opening of our own; or -1 */
	bool books_closed;
	/* the broker */
	pid_t pid;
	int pidfd;
	int control_fd;
	int signal_fd;
	int timer_fd;
	int64_t backstop; /* clock_boot when the broker is killed; 0: never */
	char id[65];
	char version[257];
	char frontmatter_hash[DIGEST_HEX];
	char head[DIGEST_HEX]; /* of the finished segment */
	dev_t socket_dev;
	ino_t socket_ino;
	struct broker_result result;
	bool have_result;
	bool made_lock, made_status;
	int signals; /* how many the caller has sent */
	int last_signal;
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
	if (strlen(value) != 36 || !store_is_uuid(value)) {
		warnx("%s: %s is no UUID in lower-case form", name, value);
		return false;
	}
	strlcpy(out, value, 37);
	return true;
}

static bool
take_seconds(double *out, const char *name, const char *value, bool zero)
{
	char *end;
	double n = strtod(value, &end);

	if (end == value || *end != '\0' || !isfinite(n) || n < 0 ||
	    (n == 0 && !zero) || n > 1e7) {
		warnx("%s: %s is no number of seconds%s", name, value,
		    zero ? "" : " above 0");
		return false;
	}
	*out = n;
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
		return take_uuid(r->job.invocation, "--invocation", optarg);
	case OPT_TENANT:
		return take_uuid(r->job.tenant, "--tenant", optarg);
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
		r->job.persona = optarg;
		return true;
	case OPT_REQUEST_ID:
		r->job.request_id = optarg;
		return true;
	case OPT_DEADLINE:
		return take_seconds(&r->job.deadline, "--deadline", optarg,
		    false);
	case OPT_CONNECT:
		return take_seconds(&r->job.connect_timeout,
		    "--connect-timeout", optarg, true);
	case OPT_SANDBOX:
		r->options.sandbox = optarg;
		if (strcmp(optarg, "required") == 0 ||
		    strcmp(optarg, "best-effort") == 0)
			return true;
		warnx("--sandbox: write required or best-effort");
		return false;
	case OPT_STDIO:
		return take_stdio(&r->stdio, optarg);
	case OPT_RESULT:
		r->result_path = optarg;
		return true;
	case OPT_CONFIG:
		r->options.config = optarg;
		return true;
	case OPT_ATTEST:
		r->job.attest = true;
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

	strlcpy(r->job.tenant, NIL_UUID, sizeof(r->job.tenant));
	r->job.connect_timeout = 60;
	r->most = LOG_LEVEL_WARN;
	optind = 1;
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
	r->job.skill_dir = argv[optind++];
	if (optind < argc && strcmp(argv[optind], "--") == 0)
		optind++;
	else if (optind < argc) {
		warnx("%s: arguments for the skill come after --",
		    argv[optind]);
		return EXIT_USAGE + 1;
	}
	r->job.args = argv + optind;
	return 0;
}

/* --- before the fork --- */

static void
say(const struct run *r, enum log_level level, const char *what)
{
	log_line(&r->job.log, level, "%s: %s", what, strerror(errno));
}

/* No skill was started, and --result says why as well. */
static int __attribute__((format(printf, 2, 3)))
give_up(struct run *r, const char *fmt, ...)
{
	struct broker_result *res = &r->result;
	va_list ap;

	memset(res, 0, sizeof(*res));
	res->outcome = BROKER_REFUSED;
	res->exit_status = EXIT_RUN_BROKER;
	res->exit_code = -1;
	strlcpy(res->by, "supervisor", sizeof(res->by));
	va_start(ap, fmt);
	vsnprintf(res->error_message, sizeof(res->error_message), fmt, ap);
	va_end(ap);
	log_line(&r->job.log, LOG_LEVEL_ERROR, "%s", res->error_message);
	return EXIT_RUN_BROKER;
}

static bool
find_skill(struct run *r)
{
	if (strchr(r->job.skill_dir, '/') != NULL)
		return true;
	r->job.skill_id = r->job.skill_dir;
	if (strcmp(r->job.skill_id, ".") == 0 ||
	    strcmp(r->job.skill_id, "..") == 0) {
		warnx("%s: a directory is written with a /, an id is a name",
		    r->job.skill_id);
		return false;
	}
	snprintf(r->skill_dir, sizeof(r->skill_dir), "%.3000s/%.1000s",
	    r->settings.policy.skills, r->job.skill_id);
	r->job.skill_dir = r->skill_dir;
	return true;
}

static bool
take_trace(struct run *r)
{
	if (r->traceparent != NULL) {
		if (trace_parse(r->traceparent, strlen(r->traceparent),
			&r->job.trace))
			return true;
		log_line(&r->job.log, LOG_LEVEL_WARN,
		    "--traceparent is invalid; a new trace begins");
	}
	return trace_new(&r->job.trace) == 0;
}

/* An id is used once per store and day, the day before included. */
static bool
id_is_fresh(struct run *r)
{
	char before[CLOCK_DAY_SIZE];

	clock_day(clock_wall() - 86400 * CLOCK_SECOND, before);
	if (store_segment_exists(&r->store, before, r->job.invocation) == 0 &&
	    store_segment_exists(&r->store, r->day, r->job.invocation) == 0)
		return true;
	return false;
}

/* max_invocations: ours is among them, since its lock is held from here on. */
static int
count_in(struct run *r)
{
	unsigned most = r->settings.policy.max_invocations;
	int n;

	if (most == 0)
		return 0;
	n = store_count_running(&r->store);
	if (n == -1)
		return give_up(r, "store: run: %s", strerror(errno));
	if ((unsigned)n > most)
		r->job.refuse = "max_invocations are running already";
	return 0;
}

/*
 * The kernel tells an error once for each opening of a file, and only to those
 * that were there: so the supervisor has one of its own, from before the broker
 * writes, and takes nothing from it.
 */
static void
hold_part(struct run *r, unsigned part)
{
	char name[STORE_SEGMENT_NAME];

	if (r->part_fd != -1)
		close(r->part_fd);
	store_segment_path(r->day, r->job.invocation, part, name);
	r->part_fd = store_ledger_file(&r->store, name);
}

static int
create_files(struct run *r)
{
	char name[STORE_SEGMENT_NAME];

	clock_day(clock_wall(), r->day);
	if (!id_is_fresh(r))
		return give_up(r,
		    "this invocation id has been used in this store");
	/* Before there is anything that could be thought abandoned. */
	r->job.lock_fd = store_run_lock(&r->store, r->job.invocation);
	r->made_lock = r->job.lock_fd != -1;
	if (!r->made_lock)
		return give_up(r, "store: run: %s", strerror(errno));
	r->job.status_fd =
	    store_run_file(&r->store, r->job.invocation, "status");
	r->made_status = r->job.status_fd != -1;
	if (!r->made_status)
		return give_up(r, "store: run: %s", strerror(errno));
	r->day_fd = store_day(&r->store, r->day, 1);
	if (r->day_fd == -1)
		return give_up(r, "ledger: %s", strerror(errno));
	r->job.segment_fd = store_segment(r->day_fd, r->job.invocation, 1,
	    name);
	/* With its day: an anchor after midnight stands in another one. */
	snprintf(r->segment, sizeof(r->segment), "%s/%.68s", r->day, name);
	if (r->job.segment_fd == -1)
		return give_up(r, "ledger: segment: %s", strerror(errno));
	hold_part(r, 1);
	return count_in(r);
}

/* Files that no skill may reach, whatever its globs say (SPEC 4.2). */
static void
list_protected(struct run *r)
{
	const struct policy *p = &r->settings.policy;
	size_t i, n = 0;

	r->protect[n++] = r->settings.store;
	for (i = 0; r->settings.files[i] != NULL; i++)
		r->protect[n++] = r->settings.files[i];
	r->protect[n++] = "/etc/cyberos";
	if (p->spool != NULL)
		r->protect[n++] = p->spool;
	if (p->log != NULL && p->log[0] == '/')
		r->protect[n++] = p->log;
	if (p->args_hash_key_file != NULL)
		r->protect[n++] = p->args_hash_key_file;
	if (r->result_path != NULL) {
		r->protect[n++] = r->result_absolute;
		r->protect[n++] = r->result_file.temp_path;
	}
	r->protect[n] = NULL;
	r->job.protect = r->protect;
}

static int
open_result(struct run *r)
{
	if (r->result_path == NULL)
		return 0;
	if (settings_absolute(r->result_absolute, r->result_path) == 0 &&
	    outfile_open(&r->result_file, r->result_absolute) == 0)
		return 0;
	return give_up(r, "--result %s: %s", r->result_path,
	    errno == EINVAL ? "is there and is not a regular file"
			    : strerror(errno));
}

static int
open_places(struct run *r)
{
	r->digest = digest_new(NULL, 0);
	if (r->digest == NULL || !take_trace(r))
		return give_up(r, "start: %s", strerror(errno));
	/* The sandbox is built with another working directory. */
	if (settings_absolute(r->socket_dir, r->settings.policy.socket_dir) ==
	    -1)
		return give_up(r, "--socket-dir: %s", strerror(errno));
	if (store_open(&r->store, r->settings.store) == -1)
		return give_up(r, "store %s: %s", r->settings.store,
		    errno == EPERM
			? "must be a directory of yours that nobody else can "
			  "write, and no link"
			: strerror(errno));
	r->job.memory_fd = store_memory(&r->store, r->job.tenant);
	if (r->job.memory_fd == -1)
		return give_up(r, "store: memory: %s", strerror(errno));
	if (relay_open(&r->relay, r->stdio) == -1)
		return give_up(r, "standard streams: %s", strerror(errno));
	return 0;
}

/*
 * From here on signals are messages. One that was ignored when we came stays
 * ignored only where nohup(1) wants it so. SIGCHLD must not be ignored, here
 * or below: the kernel would reap before anybody could ask how it ended.
 */
static int
open_events(struct run *r)
{
	struct sigaction hup;
	sigset_t set;

	signal(SIGCHLD, SIG_DFL);
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
	r->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	r->timer_fd = timerfd_create(CLOCK_BOOTTIME,
	    TFD_CLOEXEC | TFD_NONBLOCK);
	return r->signal_fd == -1 || r->timer_fd == -1 ? -1 : 0;
}

/* A tool that does not exist in a ceiling is a typo in what protects. */
static bool
ceilings_known(const struct run *r)
{
	const struct policy_ceiling *c;
	size_t i, j;

	for (i = 0; i < POLICY_CEILINGS; i++) {
		c = &r->settings.policy.ceilings[i];
		for (j = 0; c->tools != NULL && j < c->tools_n; j++) {
			if (registry_find(c->tools[j]) == NULL) {
				warnx("ceiling.tools: there is no tool %s",
				    c->tools[j]);
				return false;
			}
		}
	}
	return true;
}

/* Keys that this version reads and does not act on: said, never silent. */
static void
warn_unused(const struct run *r)
{
	static const char *const keys[] = { "quarantine_after", "revoked" };
	size_t i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (policy_is_set(&r->settings.policy, keys[i]))
			log_line(&r->job.log, LOG_LEVEL_WARN,
			    "configuration: %s has no effect in this version",
			    keys[i]);
	}
}

static int
prepare(struct run *r)
{
	char why[1024];
	int status;

	if (settings_load(&r->settings, &r->options, why, sizeof(why)) == -1) {
		warnx("%s", why);
		return EXIT_RUN_BROKER;
	}
	if (log_open(&r->job.log, r->settings.policy.log) == -1) {
		warn("%s", r->settings.policy.log);
		return EXIT_RUN_BROKER;
	}
	r->job.log.most = r->most;
	if (!ceilings_known(r))
		return EXIT_RUN_BROKER;
	/* A limit on file sizes is an error of a write, not our end. */
	signal(SIGXFSZ, SIG_IGN);
	warn_unused(r);
	if (r->job.invocation[0] == '\0')
		store_new_uuid(r->job.invocation);
	strlcpy(r->job.log.invocation, r->job.invocation,
	    sizeof(r->job.log.invocation));
	if (!find_skill(r))
		return EXIT_USAGE;
	if ((status = open_result(r)) != 0 || (status = open_places(r)) != 0)
		return status;
	if (open_events(r) == -1)
		return give_up(r, "start: %s", strerror(errno));
	/* What others left behind is in nobody's way but the auditor's. */
	sweep_some(&r->store, r->settings.policy.spool, r->digest,
	    &r->job.log);
	return create_files(r);
}

/* In the broker: what is the supervisor's alone. The broker reaches audit/ and
 * run/ by no name, and keeps no end of a pipe that somebody waits on. */
static void
shed(struct run *r)
{
	relay_shed(&r->relay);
	store_close(&r->store);
	if (r->result_file.dir_fd != -1) {
		close(r->result_file.dir_fd);
		close(r->result_file.fd);
	}
	close(r->day_fd);
	close(r->signal_fd);
	close(r->timer_fd);
}

static int
fork_broker(struct run *r)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == -1)
		return -1;
	r->job.supervisor = getpid();
	r->job.policy = &r->settings.policy;
	r->job.socket_dir = r->socket_dir;
	r->job.best_effort = r->settings.policy.best_effort;
	memcpy(r->job.stdio, r->relay.skill, sizeof(r->job.stdio));
	list_protected(r);
	if (cgroup_make(&r->cgroup, r->job.invocation) == 0)
		r->job.cgroup = &r->cgroup;
	prctl(PR_SET_DUMPABLE, 0);
	r->pid = fork();
	if (r->pid == -1) {
		close(fds[0]);
		close(fds[1]);
		return -1;
	}
	if (r->pid == 0) {
		close(fds[0]);
		r->job.control_fd = fds[1];
		shed(r);
		_exit(broker_run(&r->job));
	}
	close(fds[1]);
	r->control_fd = fds[0];
	r->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
	relay_forked(&r->relay);
	/* The page is the broker's. The lock is held by both of us: until the
	 * books are closed nobody else may think that they were left open. */
	close(r->job.memory_fd);
	close(r->job.status_fd);
	r->job.status_fd = -1;
	return r->pidfd == -1 ? -1 : 0;
}

/* --- anchors --- */

static const char *
or_null(const char *s)
{
	return s[0] == '\0' ? NULL : s;
}

/* Where the file system and our rights allow it; the anchor says if it holds. */
static bool
make_append_only(const struct run *r)
{
	int flags;

	if (!r->settings.policy.audit_append_only ||
	    ioctl(r->job.segment_fd, FS_IOC_GETFLAGS, &flags) == -1)
		return false;
	flags |= FS_APPEND_FL;
	return ioctl(r->job.segment_fd, FS_IOC_SETFLAGS, &flags) == 0;
}

static int
anchor_opened(struct run *r)
{
	static const char *const durability[] = { "none", "batch", "row" };
	struct row row;
	int result;

	row_begin(&row, ROW_SEGMENT_OPENED, NULL, r->digest);
	row_word(&row, "invocation_id", r->job.invocation);
	row_word(&row, "file", r->segment);
	row_word(&row, "skill_id", or_null(r->id));
	row_word(&row, "version", or_null(r->version));
	row_word(&row, "frontmatter_hash", or_null(r->frontmatter_hash));
	row_word(&row, "durability",
	    durability[r->settings.policy.audit_sync]);
	row_bool(&row, "append_only", make_append_only(r));
	result = row_end(&row) == 0
	    ? anchor_append(&r->store, &row, ROW_BY_SUPERVISOR, r->digest,
		  &r->opened)
	    : -1;
	row_clear(&row);
	r->anchored = result == 0;
	r->parts.n = 1;
	r->parts.start[0] = 1;
	return result;
}

/* What the broker started is on disk, directories and all. */
static int
make_durable(struct run *r)
{
	if (r->settings.policy.audit_sync == POLICY_SYNC_NONE)
		return 0;
	return store_sync_segment(r->day_fd, r->job.invocation) == -1 ||
		anchor_sync(&r->store, &r->opened) == -1
	    ? -1
	    : 0;
}

/* --- the watch --- */

/* Whatever the broker does, in so many milliseconds and a little it is gone. */
static void
arm_backstop(struct run *r, int64_t total_ms)
{
	int64_t at = clock_boot() + total_ms * CLOCK_MS + BACKSTOP;
	struct itimerspec when;

	if (r->backstop != 0 && r->backstop < at)
		return;
	r->backstop = at;
	memset(&when, 0, sizeof(when));
	when.it_value.tv_sec = at / CLOCK_SECOND;
	when.it_value.tv_nsec = at % CLOCK_SECOND;
	timerfd_settime(r->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static bool
is_id(const char *s)
{
	size_t i;

	if (s[0] < 'a' || s[0] > 'z')
		return false;
	for (i = 0; s[i] != '\0'; i++) {
		if (!((s[i] >= 'a' && s[i] <= 'z') ||
			(s[i] >= '0' && s[i] <= '9') || s[i] == '-'))
			return false;
	}
	return i <= 64;
}

static bool
is_hash(const char *s)
{
	return strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64;
}

static void
kill_broker(const struct run *r)
{
	syscall(SYS_pidfd_send_signal, r->pidfd, SIGKILL, NULL, 0);
}

static void
on_loaded(struct run *r, const struct broker_message *m)
{
	struct broker_message answer;

	if (m->id[0] != '\0' && is_id(m->id))
		strlcpy(r->id, m->id, sizeof(r->id));
	if (manifest_is_version(m->version))
		strlcpy(r->version, m->version, sizeof(r->version));
	if (is_hash(m->head))
		strlcpy(r->frontmatter_hash, m->head,
		    sizeof(r->frontmatter_hash));
	if (anchor_opened(r) == -1) {
		give_up(r, "the ledger of this host cannot be written: %s",
		    strerror(errno));
		kill_broker(r);
		return;
	}
	memset(&answer, 0, sizeof(answer));
	answer.type = BROKER_OPENED;
	strlcpy(answer.head, r->opened.hash, sizeof(answer.head));
	broker_send(r->control_fd, &answer);
	if (m->total_ms > 0)
		arm_backstop(r, m->total_ms);
	if (make_durable(r) == -1) {
		say(r, LOG_LEVEL_ERROR, "ledger: sync");
		/* With "row" nothing is answered that is not on disk. */
		if (r->settings.policy.audit_sync == POLICY_SYNC_ROW) {
			kill_broker(r);
			return;
		}
	}
	answer.type = BROKER_DURABLE;
	broker_send(r->control_fd, &answer);
}

/* An anchor for what has grown: its end cannot be cut off unseen any more. It
 * never claims what is not on disk. */
static void
on_mark(struct run *r, const struct broker_message *m)
{
	char mark[192];
	struct anchor anchor;
	struct row row;

	if (!r->anchored || !is_hash(m->head) || m->seq <= r->marked)
		return;
	if (r->settings.policy.audit_sync != POLICY_SYNC_NONE &&
	    fdatasync(r->part_fd) == -1) {
		say(r, LOG_LEVEL_ERROR, "ledger: sync");
		return;
	}
	snprintf(mark, sizeof(mark),
	    "[{\"invocation_id\":\"%.36s\",\"seq\":%llu,\"head\":\"%s\"}]",
	    r->job.invocation, (unsigned long long)m->seq, m->head);
	row_begin(&row, ROW_SEGMENT_MARK, NULL, r->digest);
	row_json(&row, "marks", mark, strlen(mark));
	if (row_end(&row) == -1 ||
	    anchor_append(&r->store, &row, ROW_BY_SUPERVISOR, r->digest,
		&anchor) == -1)
		say(r, LOG_LEVEL_ERROR, "ledger: segment_mark");
	else
		r->marked = m->seq;
	row_clear(&row);
}

/* The part that the broker has fails: another file, and its anchor. */
static int
new_part(struct run *r, const struct broker_message *m)
{
	struct books b = { .store = &r->store,
		.digest = r->digest,
		.by = ROW_BY_SUPERVISOR,
		.inv = r->job.invocation,
		.day_fd = r->day_fd,
		.sync = r->settings.policy.audit_sync != POLICY_SYNC_NONE,
		.parts = r->parts };
	int fd;

	/* It begins where the one before it did, or later. */
	if (!r->anchored || m->seq < r->parts.start[r->parts.n - 1] ||
	    !is_hash(m->head))
		return -1;
	strlcpy(b.day, r->day, sizeof(b.day));
	b.walk.seq = m->seq - 1;
	strlcpy(b.walk.head, m->head, sizeof(b.walk.head));
	fd = books_part(&b);
	if (fd != -1)
		hold_part(r, b.parts.n);
	r->parts = b.parts;
	return fd;
}

static void
on_want_part(struct run *r, const struct broker_message *m)
{
	struct broker_message answer;
	int fd = new_part(r, m);

	if (fd == -1)
		say(r, LOG_LEVEL_ERROR, "ledger: new part");
	else
		log_line(&r->job.log, LOG_LEVEL_WARN,
		    "ledger: part %u is begun", r->parts.n);
	memset(&answer, 0, sizeof(answer));
	answer.type = BROKER_PART;
	broker_send_fd(r->control_fd, &answer, fd);
	if (fd != -1)
		close(fd);
}

static void
on_want_spool(struct run *r)
{
	struct broker_message answer;
	int fd = store_spool(&r->store, r->settings.policy.spool,
	    r->job.invocation, true);

	if (fd == -1)
		say(r, LOG_LEVEL_ERROR, "ledger: spool");
	memset(&answer, 0, sizeof(answer));
	answer.type = BROKER_SPOOL;
	broker_send_fd(r->control_fd, &answer, fd);
	if (fd != -1)
		close(fd);
}

static void
on_message(struct run *r)
{
	struct broker_message m;
	int passed;

	while (broker_receive(r->control_fd, &m, false, &passed) == 0) {
		if (passed != -1)
			close(passed); /* a broker has nothing to give */
		switch (m.type) {
		case BROKER_LOADED:
			if (!r->anchored)
				on_loaded(r, &m);
			break;
		case BROKER_SOCKET:
			r->socket_dev = m.dev;
			r->socket_ino = m.ino;
			break;
		case BROKER_MARK:
			on_mark(r, &m);
			break;
		case BROKER_WANT_PART:
			on_want_part(r, &m);
			break;
		case BROKER_WANT_SPOOL:
			on_want_spool(r);
			break;
		case BROKER_RESULT:
			r->result = m.result;
			r->have_result = true;
			break;
		case BROKER_OPENED:
		case BROKER_DURABLE:
		case BROKER_PART:
		case BROKER_SPOOL:
		case BROKER_TERMINATE:
		case BROKER_KILL:
			break; /* never from a broker */
		}
	}
}

static void
on_signal(struct run *r)
{
	struct signalfd_siginfo info;
	struct broker_message m;

	while (read(r->signal_fd, &info, sizeof(info)) ==
	    (ssize_t)sizeof(info)) {
		memset(&m, 0, sizeof(m));
		m.type = r->signals++ == 0 ? BROKER_TERMINATE : BROKER_KILL;
		if (r->signals == 1)
			r->last_signal = (int)info.ssi_signo;
		m.result.signal = r->last_signal;
		broker_send(r->control_fd, &m);
		/* The broker answers unless it is stuck. */
		arm_backstop(r, r->signals == 1 ? CALLER_GRACE_MS : 0);
	}
}

static void
watch(struct run *r)
{
	enum { CONTROL, BROKER, SIGNAL, TIMER, FIXED };
	struct pollfd fds[FIXED + RELAY_POLLFDS];
	uint64_t ticks;

	for (;;) {
		fds[CONTROL] = (struct pollfd){ r->control_fd, POLLIN, 0 };
		fds[BROKER] = (struct pollfd){ r->pidfd, POLLIN, 0 };
		fds[SIGNAL] = (struct pollfd){ r->signal_fd, POLLIN, 0 };
		fds[TIMER] = (struct pollfd){ r->timer_fd, POLLIN, 0 };
		relay_poll(&r->relay, fds + FIXED);
		if (poll(fds, FIXED + RELAY_POLLFDS, -1) == -1 &&
		    errno != EINTR)
			break;
		if ((fds[CONTROL].revents & POLLIN) != 0)
			on_message(r);
		if (fds[BROKER].revents != 0)
			break;
		if (fds[SIGNAL].revents != 0)
			on_signal(r);
		if (fds[TIMER].revents != 0 &&
		    read(r->timer_fd, &ticks, sizeof(ticks)) > 0) {
			log_line(&r->job.log, LOG_LEVEL_ERROR,
			    "the broker overstayed its time and is killed");
			kill_broker(r);
		}
		/* The broker's end is seen by its pidfd. */
		if ((fds[CONTROL].revents & (POLLIN | POLLHUP)) == POLLHUP) {
			close(r->control_fd);
			r->control_fd = -1;
		}
		relay_step(&r->relay, fds + FIXED);
	}
	if (r->control_fd != -1)
		on_message(r);
}

/* --- afterwards --- */

static void
broker_died(struct run *r, int64_t begun)
{
	if (!r->anchored) { /* on_loaded has said why, or it came to nothing */
		if (r->result.error_message[0] == '\0')
			give_up(r, "the broker died before the start");
		return;
	}
	r->result.outcome = BROKER_PANIC;
	r->result.exit_status = EXIT_RUN_BROKER;
	r->result.exit_code = -1;
	r->result.duration_ms = (clock_boot() - begun) / CLOCK_MS;
	strlcpy(r->result.by, "supervisor", sizeof(r->result.by));
	strlcpy(r->result.error_message, "the broker died",
	    sizeof(r->result.error_message));
	log_line(&r->job.log, LOG_LEVEL_ERROR, "the broker died");
}

static int
end_segment(struct run *r, struct books *b)
{
	struct books_end end = { broker_outcome_word(r->result.outcome),
		r->result.duration_ms, r->result.error_message };

	/* The broker died: its last words are ours, in a new part. */
	if (!r->have_result) {
		r->result.calls = b->walk.calls;
		r->result.denied = b->walk.denied;
	}
	return books_end(b, &end);
}

static void
close_books(struct run *r)
{
	struct books b = { .store = &r->store,
		.digest = r->digest,
		.by = ROW_BY_SUPERVISOR,
		.inv = r->job.invocation,
		.day_fd = r->day_fd,
		.spool = r->settings.policy.spool,
		.opened = r->opened.hash,
		.skill_id = or_null(r->id),
		.version = or_null(r->version),
		.trace_id = r->job.trace.trace_id };
	bool sync = r->settings.policy.audit_sync != POLICY_SYNC_NONE;
	bool completed;

	b.sync = sync;

	if (!r->anchored)
		return; /* an empty file: sweep's to remove */
	b.parts = r->parts;
	strlcpy(b.day, r->day, sizeof(b.day));
	if (books_walk(&b) == -1) {
		say(r, LOG_LEVEL_ERROR, "ledger: segment");
		return;
	}
	if (!b.walk.damaged && books_merge(&b) == -1) {
		say(r, LOG_LEVEL_ERROR,
		    "ledger: rows stay in the spool until recovery");
		return;
	}
	completed = b.walk.completed;
	/* What is not whole, or not on disk, is not closed: recovery's to do. */
	if (!completed && !b.walk.damaged && end_segment(r, &b) == -1) {
		say(r, LOG_LEVEL_ERROR, "ledger: last part");
		return;
	}
	if (sync && (fdatasync(r->part_fd) == -1 || books_sync(&b) == -1)) {
		say(r, LOG_LEVEL_ERROR, "ledger: sync");
		return;
	}
	if (books_close(&b,
		!r->have_result				? "crash"
		    : !completed || r->result.lost > 0 ? "incomplete"
							: "normal",
		r->result.lost, &r->closed) == -1) {
		say(r, LOG_LEVEL_ERROR, "ledger: segment_closed");
		return;
	}
	r->books_closed = true;
	if (sync && anchor_sync(&r->store, &r->closed) == -1)
		say(r, LOG_LEVEL_ERROR, "ledger: sync");
	if (anchor_keep_totals(&r->store, r->closed.day) == -1)
		say(r, LOG_LEVEL_WARN, "ledger: totals");
	r->result.rows = b.walk.rows;
	strlcpy(r->head, b.walk.head, sizeof(r->head));
}

static void
json_member_text(struct buf *b, const char *name, const char *value)
{
	buf_printf(b, "%s\"%s\":", b->len > 1 ? "," : "", name);
	if (value == NULL)
		buf_puts(b, "null");
	else
		json_put_string(b, value, strlen(value));
}

static void
json_member_int(struct buf *b, const char *name, int64_t n, bool null)
{
	buf_printf(b, ",\"%s\":", name);
	if (null)
		buf_puts(b, "null");
	else
		buf_printf(b, "%lld", (long long)n);
}

static void
result_json(const struct run *r, struct buf *b)
{
	const struct broker_result *res = &r->result;

	buf_putc(b, '{');
	json_member_text(b, "invocation_id", r->job.invocation);
	json_member_text(b, "skill_id", or_null(r->id));
	json_member_text(b, "version", or_null(r->version));
	json_member_text(b, "outcome", broker_outcome_word(res->outcome));
	json_member_int(b, "exit_status", res->exit_status, false);
	json_member_int(b, "exit_code", res->exit_code, res->exit_code < 0);
	json_member_int(b, "signal", res->signal, res->signal == 0);
	json_member_int(b, "duration_ms", res->duration_ms, false);
	json_member_int(b, "calls", (int64_t)res->calls, false);
	json_member_int(b, "denied", (int64_t)res->denied, false);
	json_member_int(b, "rejected", (int64_t)res->rejected, false);
	buf_puts(b, ",\"sandbox\":");
	if (res->sandboxed)
		broker_layers(res, b);
	else
		buf_puts(b, "null");
	json_member_text(b, "error_message", or_null(res->error_message));
	json_member_text(b, "by", or_null(res->by));
	json_member_text(b, "segment", r->anchored ? r->segment : NULL);
	json_member_text(b, "head", or_null(r->head));
	json_member_int(b, "hseq", (int64_t)r->closed.hseq,
	    r->closed.hseq == 0);
	json_member_text(b, "host_head", or_null(r->closed.hash));
	buf_puts(b, "}\n");
}

static void
write_result(struct run *r)
{
	struct buf b;

	if (r->result_file.dir_fd == -1)
		return;
	buf_init(&b, 65536);
	result_json(r, &b);
	if (outfile_commit(&r->result_file, b.data, b.len) == -1)
		say(r, LOG_LEVEL_ERROR, "--result");
	buf_clear(&b);
}

static int
supervise_one(struct run *r)
{
	int64_t begun = clock_boot();
	siginfo_t info;

	if (fork_broker(r) == -1)
		return give_up(r, "start: %s", strerror(errno));
	watch(r);
	while (waitid(P_PIDFD, (id_t)r->pidfd, &info, WEXITED) == -1 &&
	    errno == EINTR)
		;
	if (!r->have_result)
		broker_died(r, begun);
	socket_sweep(r->job.socket_dir, r->job.invocation, r->socket_dev,
	    r->socket_ino, false);
	cgroup_remove(&r->cgroup);
	close_books(r);
	return r->result.exit_status;
}

/* Last of all, so that a reader that never reads holds up nothing but itself;
 * a signal ends us here as it ends any program, but for the one that a reader
 * who went has left pending. */
static void
finish_output(struct run *r)
{
	sigset_t none;

	if (r->pid <= 0)
		return;
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	relay_drain(&r->relay);
}

int
run_main(int argc, char **argv)
{
	struct run *r;
	int status;

	/* A stream that is closed must not become one of our files. */
	do
		status = open("/dev/null", O_RDWR);
	while (status >= 0 && status <= 2);
	if (status == -1 || close(status) == -1 ||
	    (r = calloc(1, sizeof(*r))) == NULL)
		err(EXIT_RUN_BROKER, NULL);
	r->job.segment_fd = r->job.lock_fd = r->job.status_fd = -1;
	r->store.root_fd = r->store.audit_fd = r->store.run_fd = -1;
	r->day_fd = r->part_fd = r->control_fd = r->pidfd = -1;
	outfile_init(&r->result_file);
	cgroup_init(&r->cgroup);
	status = parse_options(r, argc, argv);
	if (status != 0) {
		free(r);
		return status - 1;
	}
	status = prepare(r);
	if (status == 0)
		status = supervise_one(r);
	if (r->made_status)
		store_run_unlink(&r->store, r->job.invocation, "status");
	/* Open books are found by it. */
	if (r->made_lock && (r->books_closed || !r->anchored))
		store_run_unlink(&r->store, r->job.invocation, "lock");
	write_result(r);
	finish_output(r);
	outfile_clear(&r->result_file);
	store_close(&r->store);
	settings_clear(&r->settings);
	digest_free(r->digest);
	free(r);
	return status;
}
