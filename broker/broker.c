/*
 * The life of one invocation, from top to bottom: load, open the segment,
 * bind, build the sandbox, record the start, let it go, serve, end. A step
 * that fails before the start leaves a "refused" row and no skill; a death of
 * this process takes the sandbox with it.
 */

#include "broker/broker.h"

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "audit/clock.h"
#include "audit/json.h"
#include "broker/clockwork.h"
#include "broker/dispatch.h"
#include "broker/rehearse.h"
#include "broker/server.h"
#include "broker/socket.h"
#include "enforce/bundle.h"
#include "enforce/cgroup.h"
#include "enforce/grant.h"
#include "enforce/libexec.h"
#include "enforce/narrow.h"
#include "enforce/path.h"
#include "enforce/signature.h"
#include "enforce/skill.h"
#include "enforce/spawn.h"
#include "enforce/spawner.h"
#include "enforce/trust.h"
#include "tools/expose.h"
#include "tools/http.h"
#include "tools/program.h"
#include "tools/registry.h"

#define ATTEMPT_ROWS 64 /* skill.cap_bypass_attempt; the last counts the rest */
#define OWN_PLACES 8 /* that are protected besides the job's */
#define RESCUE_TRIES 8 /* at the end, of RESCUE_MS at most */
#define RESCUE_MS 100
#define LAST_PEERS_NS (CLOCK_SECOND / 2)
#define GIVE_UP_NS (2 * CLOCK_SECOND) /* less than the supervisor waits */
#define TURN_NS (CLOCK_MS / 5)

/* Who wanted the end, when it was not the skill itself. */
enum ending {
	END_SKILL,
	END_CLOCK,	/* our SIGKILL at T */
	END_NO_CONNECT,
	END_CALLER
};

struct broker {
	struct broker_job job;
	struct log log;
	int skill_fd;
	char skill_path[PATH_MAX];
	struct stat skill_stat;
	struct bundle *bundle; /* its files, if they were verified */
	char id[65];
	char version[257];
	char files_sha256[DIGEST_HEX]; /* or "" */
	char held[512]; /* why the supervisor does not let it start, or "" */
	uint64_t attempts; /* those of the rows */
	char anchor[DIGEST_HEX];
	struct invocation inv;
	struct path_protect *protect;
	struct expose_place *places;
	size_t places_n;
	size_t places_max;
	struct grant *grant;
	struct narrow narrow;
	unsigned attempt_rows;
	struct {
		int nr;
		char target[SPAWN_TARGET];
	} attempt[ATTEMPT_ROWS - 1]; /* those that have a row */
	uint64_t attempts_told; /* by the skill's init, one by one */
	uint64_t attempts_rest; /* of it, a running total of the others */
	int part_fd, spool_fd; /* from the supervisor, when one was needed */
	bool asked_part, asked_spool;
	bool rescued; /* what waits at the end is in the spool */
	int64_t give_up_at; /* clock_boot: no more waiting for the dead; or 0 */
	int64_t mark_at;   /* clock_boot of the next mark */
	uint64_t marked;   /* the last row that one tells of */
	uint64_t attempts_more; /* those for which there is no row */
	uint64_t attempts_counted; /* of these two, in the metrics */
	int spawner_fd;
	pid_t spawner_pid;
	char abstract_name[64];
	int abstract_fd;
	struct digest *digest;
	struct digest *args_digest;
	struct segment *segment;
	struct counters *counters;
	struct socket_place socket;
	struct confine_plan plan;
	char self[PATH_MAX]; /* our program, shown as the client */
	int uid_lock;
	bool planned; /* with what is the same for every skill */
	struct spawned sandbox;
	struct clockwork clockwork;
	struct tracer tracer;
	struct dispatch dispatch;
	struct server *server;
	enum ending ending;
	int cancelled; /* the signal that did, before the start; 0: none */
	bool skill_ended;
	int page_error; /* errno: the counters are nobody's but ours */
	bool validated; /* how, and in what time: */
	enum tally_validation validation;
	int64_t validation_ns;
	struct spawn_message status; /* when init told it */
	bool have_status;
	struct broker_result result;
};

/* --- refusals before the start --- */

static bool
refused(struct broker *b, int exit_status, const char *why)
{
	b->result.outcome = BROKER_REFUSED;
	b->result.exit_status = exit_status;
	b->result.exit_code = -1;
	strlcpy(b->result.by, "supervisor", sizeof(b->result.by));
	strlcpy(b->result.error_message, why, sizeof(b->result.error_message));
	log_line(&b->log, LOG_LEVEL_ERROR, "%s", why);
	return false;
}

static bool
refused_errno(struct broker *b, const char *what)
{
	char why[512];

	snprintf(why, sizeof(why), "%s: %s", what, strerror(errno));
	return refused(b, EXIT_RUN_BROKER, why);
}

/* --- load --- */

static void
report_errors(struct broker *b, const struct manifest *m)
{
	const struct manifest_error *e;
	size_t i;

	for (i = 0; i < m->errors_n; i++) {
		e = &m->errors[i];
		log_line(&b->log, LOG_LEVEL_ERROR, "%s/SKILL.md:%u:%u: %s: %s: %s",
		    b->skill_path, e->line, e->column,
		    e->field[0] == '\0' ? "-" : e->field,
		    manifest_code_word(e->code), e->message);
	}
}

static bool
is_valid(struct broker *b, const struct manifest *m)
{
	char why[512];

	if (m->errors_n == 0)
		return true;
	report_errors(b, m);
	snprintf(why, sizeof(why), "SKILL.md is invalid: %s: %s",
	    manifest_code_word(m->errors[0].code), m->errors[0].message);
	return refused(b, EXIT_RUN_INVALID, why);
}

/*
 * The files that the hash is of are kept as they were hashed, with the SKILL.md
 * that was read, and run from there. What differs is one more error.
 */
static bool
take_files(struct broker *b, struct manifest *m, const char *text, size_t len)
{
	char why[512];

	if (manifest_check_files(m, b->skill_fd, true, &b->bundle, why,
		sizeof(why)) == -1)
		return refused(b, EXIT_RUN_BROKER, why);
	return b->bundle == NULL ||
	    bundle_add(b->bundle, "SKILL.md", 0644, text, len) == 0 ||
	    refused_errno(b, "SKILL.md");
}

static bool
has_main(struct broker *b)
{
	char why[512];

	if (b->bundle == NULL)
		return skill_check_main(b->skill_fd, why, sizeof(why)) ==
		    SKILL_FINE ||
		    refused(b, EXIT_RUN_NO_EXEC, why);
	return bundle_has_main(b->bundle) ||
	    refused(b, EXIT_RUN_NO_EXEC,
		"main: among the files that were signed there is no "
		"executable one of this name");
}

/* What SPEC 2 asks for besides a valid text. */
static bool
check_manifest(struct broker *b, const struct manifest *m)
{
	const struct broker_job *job = &b->job;
	char why[512];

	if (!is_valid(b, m))
		return false;
	if (job->skill_id != NULL && strcmp(job->skill_id, m->id) != 0) {
		snprintf(why, sizeof(why),
		    "the skill's id is %s and not %s, as its directory says",
		    m->id, job->skill_id);
		return refused(b, EXIT_RUN_INVALID, why);
	}
	if (!trust_allows(job->policy, m, why, sizeof(why)))
		return refused(b, EXIT_RUN_POLICY, why);
	if (m->pinned &&
	    skill_check_tenant(b->skill_fd, job->tenant, why, sizeof(why)) !=
		SKILL_FINE)
		return refused(b, EXIT_RUN_POLICY, why);
	return true;
}

static bool
open_skill(struct broker *b)
{
	char why[512];

	switch (skill_open(b->job.skill_dir, b->job.policy, &b->skill_fd,
	    b->skill_path, why, sizeof(why))) {
	case SKILL_FINE:
		break;
	case SKILL_MISSING:
	case SKILL_NO_MAIN:
		return refused(b, EXIT_RUN_NO_SKILL, why);
	case SKILL_UNTRUSTED:
	case SKILL_TENANT:
		return refused(b, EXIT_RUN_POLICY, why);
	case SKILL_BROKEN:
		return refused(b, EXIT_RUN_BROKER, why);
	}
	if (fstat(b->skill_fd, &b->skill_stat) == -1)
		return refused_errno(b, b->skill_path);
	return true;
}

static int
unreadable_status(int error)
{
	switch (error) {
	case ENOENT:
		return EXIT_RUN_NO_SKILL;
	case EINVAL: /* no regular file */
	case ELOOP:
	case EFBIG:
		return EXIT_RUN_INVALID;
	default: /* the machine, not the skill */
		return EXIT_RUN_BROKER;
	}
}

/* One word for each code. */
static enum tally_validation
class_of(enum manifest_code code)
{
	switch (code) {
	case MANIFEST_MISSING_FRONTMATTER:
	case MANIFEST_YAML_PARSE:
	case MANIFEST_DUPLICATE_KEY:
		return TALLY_PARSE_ERR;
	case MANIFEST_MISSING_FIELD:
		return TALLY_REQUIRED_MISSING;
	case MANIFEST_SIGNATURE_FAILED:
		return TALLY_SIGNATURE_FAILED;
	case MANIFEST_BROKER_TOO_OLD:
	case MANIFEST_BROKER_TOO_NEW:
		return TALLY_VERSION_SKEW;
	case MANIFEST_INVALID_TYPE:
	case MANIFEST_INVALID_ID:
	case MANIFEST_INVALID_VERSION:
	case MANIFEST_INVALID_DESCRIPTION:
	case MANIFEST_INVALID_MEMORY_SCOPE_GLOB:
	case MANIFEST_INVALID_FILE_GLOB:
	case MANIFEST_INVALID_DOMAIN_GLOB:
	case MANIFEST_UNKNOWN_TOOL:
	case MANIFEST_UNKNOWN_FIELD:
	case MANIFEST_INVALID_VALUE:
		return TALLY_INVALID_FIELD;
	}
	return TALLY_INVALID_FIELD;
}

/* A file with several errors counts by the one behind which others stand. */
static enum tally_validation
judged(const struct manifest *m)
{
	static const enum tally_validation order[] = { TALLY_PARSE_ERR,
		TALLY_SIGNATURE_FAILED, TALLY_VERSION_SKEW,
		TALLY_REQUIRED_MISSING, TALLY_INVALID_FIELD };
	size_t i, j;

	for (i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		for (j = 0; j < m->errors_n; j++) {
			if (class_of(m->errors[j].code) == order[i])
				return order[i];
		}
	}
	return TALLY_OK;
}

static void
note_validation(struct broker *b, enum tally_validation outcome, int64_t begun)
{
	b->validation = outcome;
	b->validation_ns = clock_boot() - begun;
	b->validated = true;
}

/* When there is a page to count it in. */
static void
count_validation(struct broker *b)
{
	struct tally *t = b->dispatch.tally;

	if (!b->validated)
		return;
	tally_count(&t->validations[b->validation], 1);
	tally_observe(&t->validation, b->validation_ns);
}

static bool
load(struct broker *b, char frontmatter_hash[DIGEST_HEX])
{
	struct manifest m;
	char why[PATH_MAX + 64], *text = NULL;
	int64_t begun;
	size_t len;
	int error;
	bool good;

	if (b->job.refuse[0] != '\0')
		return refused(b, EXIT_RUN_POLICY, b->job.refuse);
	if (!open_skill(b))
		return false;
	begun = clock_boot();
	if (manifest_read(b->skill_fd, &text, &len) == -1) {
		error = errno;
		snprintf(why, sizeof(why), "%s/SKILL.md: %s", b->skill_path,
		    error == EINVAL ? "is not a regular file"
				    : strerror(error));
		if (unreadable_status(error) == EXIT_RUN_INVALID)
			note_validation(b, TALLY_PARSE_ERR, begun);
		return refused(b, unreadable_status(error), why);
	}
	memset(&m, 0, sizeof(m));
	if (manifest_parse(text, len, b->job.policy, registry_names(),
		CYBEROS_VERSION, &m) == -1) {
		good = refused_errno(b, errno == ENOMEM
			? "SKILL.md"
			: "SKILL.md: its signature: " SIGNATURE_PROGRAM);
		goto out;
	}
	strlcpy(frontmatter_hash, m.frontmatter_hash, DIGEST_HEX);
	if (m.errors_n == 0) {
		strlcpy(b->id, m.id, sizeof(b->id));
		strlcpy(b->version, m.version, sizeof(b->version));
		if (!take_files(b, &m, text, len)) {
			good = false;
			goto out;
		}
	}
	note_validation(b, judged(&m), begun);
	tracer_validated(&b->tracer, &b->job.trace, begun, b->job.invocation,
	    b->id, b->version, m.errors_n,
	    m.errors_n == 0 ? NULL : manifest_code_word(m.errors[0].code));
	good = check_manifest(b, &m) && has_main(b);
	if (good) {
		b->grant = grant_new(&m, b->job.policy);
		if (b->grant == NULL)
			good = refused_errno(b, "grant");
	}
out:
	manifest_clear(&m);
	free(text);
	return good;
}

/* T of SPEC 9: the skill's effort, which the caller can only shorten. */
static int64_t
total_ns(const struct broker *b)
{
	double effort = grant_manifest(b->grant)->effort_minutes * 60.0;
	double deadline = b->job.deadline;

	if (deadline > 0 && deadline < effort)
		effort = deadline;
	return (int64_t)(effort * 1e9);
}

/* A part or a spool that was asked for. Without a descriptor it cannot be had
 * now; it is asked for again when writing is tried again. */
static void
take_descriptor(struct broker *b, const struct broker_message *m, int passed)
{
	if (m->type == BROKER_PART)
		b->asked_part = false;
	if (m->type == BROKER_SPOOL)
		b->asked_spool = false;
	if (passed == -1 || b->segment == NULL)
		return;
	if (m->type == BROKER_PART) {
		if (b->part_fd != -1)
			close(b->part_fd);
		b->part_fd = passed;
		segment_part(b->segment, passed);
	} else if (m->type == BROKER_SPOOL && b->spool_fd == -1) {
		b->spool_fd = passed;
		segment_spool(b->segment, passed);
	} else {
		close(passed);
	}
}

/*
 * What the quarantine knows it by besides its frontmatter: settled before a
 * line of it runs.
 */
static bool
hash_files(struct broker *b)
{
	struct bundle *files;
	char why[512];

	if (b->job.policy->quarantine_after == 0)
		return true;
	if (b->bundle != NULL) { /* verified, and what will run */
		strlcpy(b->files_sha256, bundle_sha256(b->bundle),
		    sizeof(b->files_sha256));
		return true;
	}
	files = bundle_read(b->skill_fd, false, why, sizeof(why));
	if (files == NULL)
		return refused(b,
		    errno == EINVAL ? EXIT_RUN_INVALID : EXIT_RUN_BROKER, why);
	strlcpy(b->files_sha256, bundle_sha256(files),
	    sizeof(b->files_sha256));
	bundle_free(files);
	return true;
}

/* Tell the supervisor, which hangs the segment on its anchor. */
static bool
announce(struct broker *b, const char *frontmatter_hash)
{
	struct broker_message m;

	memset(&m, 0, sizeof(m));
	m.type = BROKER_LOADED;
	strlcpy(m.id, b->id, sizeof(m.id));
	strlcpy(m.version, b->version, sizeof(m.version));
	strlcpy(m.head, frontmatter_hash, sizeof(m.head));
	strlcpy(m.files, b->files_sha256, sizeof(m.files));
	m.total_ms = b->grant == NULL ? 0 : total_ns(b) / CLOCK_MS;
	return broker_send(b->job.control_fd, &m) == 0;
}

/* Wait until it does: no segment before that, and so no start. The caller may
 * have thought better of it meanwhile. */
static bool
await_anchor(struct broker *b)
{
	struct broker_message m;
	int passed = -1;

	if (b->anchor[0] != '\0')
		return true;
	do {
		if (broker_receive(b->job.control_fd, &m, true, &passed) == -1)
			return false;
		take_descriptor(b, &m, passed);
		if (m.type == BROKER_TERMINATE || m.type == BROKER_KILL)
			b->cancelled = m.result.signal;
	} while (m.type != BROKER_OPENED);
	strlcpy(b->anchor, m.head, sizeof(b->anchor));
	strlcpy(b->held, m.result.error_message, sizeof(b->held));
	return true;
}

static bool
open_segment(struct broker *b)
{
	static const enum segment_sync modes[] = {
		[POLICY_SYNC_NONE] = SEGMENT_SYNC_NONE,
		[POLICY_SYNC_BATCH] = SEGMENT_SYNC_BATCH,
		[POLICY_SYNC_ROW] = SEGMENT_SYNC_ROW,
	};

	if (!await_anchor(b))
		return false;
	b->segment = segment_new(b->job.segment_fd, b->job.invocation, 1,
	    b->anchor, modes[b->job.policy->audit_sync], b->digest);
	return b->segment != NULL;
}

/* --- the sandbox --- */

#ifndef CLIENT_BINARY
#define CLIENT_BINARY "/proc/self/exe"
#endif

static const char *
own_binary(char path[PATH_MAX])
{
	ssize_t n = readlink(CLIENT_BINARY, path, PATH_MAX - 1);

	if (n <= 0)
		return CLIENT_BINARY;
	path[n] = '\0';
	return path;
}

/* Ours, which is also what runs inside but for builds with sanitizers. */
static const char *
running_binary(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

	path[n > 0 ? n : 0] = '\0';
	return n > 0 ? path : "/proc/self/exe";
}

static unsigned
bundle_mb(const struct broker *b)
{
	return b->bundle == NULL
	    ? 0
	    : (unsigned)(bundle_room(b->bundle) >> 20) + 1;
}

/* The skill's directory as it is on the host, or what was verified of it. */
static bool
plan_files(struct broker *b)
{
	struct confine_plan *p = &b->plan;

	p->bundle = b->bundle;
	if (b->bundle != NULL) {
		bundle_tmpfs_options(b->bundle, p->bundle_options,
		    sizeof(p->bundle_options));
		return true;
	}
	if (spawn_bind(&p->skill, b->skill_path) == -1)
		return false;
	errno = ESTALE;
	return p->skill.dev == b->skill_stat.st_dev &&
	    p->skill.ino == b->skill_stat.st_ino;
}

static bool
plan_sandbox(struct broker *b)
{
	const struct manifest *m = grant_manifest(b->grant);
	struct confine_plan *p = &b->plan;

	p->attest = b->job.attest;
	p->tmp_mb = b->job.policy->tmp_mb;
	snprintf(p->tmp_options, sizeof(p->tmp_options),
	    "mode=1777,size=%um,nr_inodes=16384", p->tmp_mb);
	p->memory_mb = m->memory_mb;
	p->cpu_seconds = m->effort_minutes * 60;
	p->max_processes = m->max_processes;
	p->skill_path = b->skill_path;
	p->socket_name = b->socket.name;
	memcpy(p->stdio, b->job.stdio, sizeof(p->stdio));
	if (p->cgroup != NULL)
		cgroup_limit(p->cgroup,
		    m->memory_mb + p->tmp_mb + bundle_mb(b),
		    m->max_processes + 1);
	if (!plan_files(b))
		return refused_errno(b, "sandbox: the skill's directory");
	/* By the descriptor: others may write where its name is. */
	if (spawn_bind_held(&p->socket, b->socket.path,
		socket_take(&b->socket)) == -1)
		return refused_errno(b, b->socket.path);
	return true;
}

/* Something outside for the attempts of --attest to reach for. */
static int
listen_abstract(char *name, size_t size, const char *invocation)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(name, size, "cyberos-attest-%s", invocation);
	memcpy(sun.sun_path + 1, name, strlen(name));
	if (fd == -1 ||
	    bind(fd, (struct sockaddr *)&sun,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
		    strlen(name))) == -1 ||
	    listen(fd, 1) == -1)
		name[0] = '\0'; /* then this attempt is "not tried" */
	return fd;
}

/* What is the same for every skill. The name of what failed, or NULL. */
static const char *
plan_any(struct broker *b)
{
	struct confine_plan *p = &b->plan;

	p->best_effort = b->job.best_effort;
	p->files = b->job.files;
	spawn_rights(p);
	p->broker_pid = getpid();
	p->abstract_name = b->abstract_name;
	p->cgroup = b->job.cgroup;
	p->keep_fd = -1;
	if (spawn_bind(&p->self, own_binary(b->self)) == -1)
		return "sandbox: our own program";
	if (!p->root)
		return NULL;
	b->uid_lock = spawn_lock_uid(b->job.policy->uid_first,
	    b->job.policy->uid_last, &p->host_uid);
	p->keep_fd = b->uid_lock;
	p->host_gid = (gid_t)p->host_uid;
	return b->uid_lock == -1 ? "no free uid in uid_range" : NULL;
}

/* From here on it tells that we live. */
static void
publish_counters(struct broker *b)
{
	struct counters *c = b->counters;

	strlcpy(c->invocation_id, b->job.invocation,
	    sizeof(c->invocation_id));
	strlcpy(c->skill_id, b->id, sizeof(c->skill_id));
	strlcpy(c->tenant_id, b->job.tenant, sizeof(c->tenant_id));
	strlcpy(c->socket_dir, b->job.socket_dir, sizeof(c->socket_dir));
	c->socket_dev = b->socket.dev;
	c->socket_ino = b->socket.ino;
	c->pid = getpid();
	c->started_wall = clock_wall();
	counters_turn(c, c->started_wall);
	c->magic = COUNTERS_MAGIC;
}

static bool
bind_socket(struct broker *b)
{
	struct broker_message m;
	char why[512];

	if (socket_bind(&b->socket, b->job.socket_dir, b->job.invocation,
		b->plan.host_uid, why, sizeof(why)) == -1)
		return refused(b, EXIT_RUN_BROKER, why);
	/* First, so that the supervisor can remove it whenever we die, and who
	 * sweeps when both have. */
	publish_counters(b);
	memset(&m, 0, sizeof(m));
	m.type = BROKER_SOCKET;
	m.dev = b->socket.dev;
	m.ino = b->socket.ino;
	if (broker_send(b->job.control_fd, &m) == -1)
		return refused_errno(b, "supervisor");
	if (socket_publish(&b->socket, why, sizeof(why)) == -1)
		return refused(b, EXIT_RUN_BROKER, why);
	return true;
}

/* The sandbox has it all; a copy here would keep pipes open and mounts busy. */
static void
release_plan(struct broker *b)
{
	int *const fds[] = { &b->skill_fd, &b->plan.stdio[0],
		&b->plan.stdio[1], &b->plan.stdio[2] };
	size_t i;

	bundle_free(b->bundle);
	b->bundle = NULL;
	b->plan.bundle = NULL;
	spawn_bind_clear(&b->plan.skill);
	spawn_bind_clear(&b->plan.self);
	spawn_bind_clear(&b->plan.socket);

	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] != -1)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

/* Init has begun with it; is it whole? */
static bool
finish_sandbox(struct broker *b)
{
	const struct confine_step *steps;
	char why[512];
	size_t i, n;

	if (spawn_start(&b->plan, &b->sandbox, why, sizeof(why)) == -1)
		return refused(b, EXIT_RUN_BROKER, why);
	if (why[0] != '\0')
		log_line(&b->log, LOG_LEVEL_WARN, "%s: %s",
		    b->plan.namespaces ? "not all of the sandbox"
				       : "without namespaces",
		    why);
	if (!b->plan.namespaces && !b->plan.root)
		log_line(&b->log, LOG_LEVEL_WARN,
		    "limits: the skill's processes are counted together with "
		    "all others of this user");
	steps = confine_steps(&n);
	memcpy(b->result.layers, b->sandbox.states, sizeof(b->result.layers));
	for (i = 0; i < n; i++) {
		if (b->sandbox.states[i] == CONFINE_MISSING &&
		    steps[i].need != CONFINE_EXTRA)
			log_line(&b->log, LOG_LEVEL_WARN,
			    "sandbox: %s is not available; not guaranteed: %s",
			    steps[i].name,
			    steps[i].guarantees);
	}
	b->result.sandboxed = true;
	release_plan(b);
	return true;
}

/* --- rows of the life of the invocation --- */

static void
hash_arguments(struct broker *b, char hash[DIGEST_TEXT])
{
	cJSON *array = cJSON_CreateArray();
	struct buf text;
	char *const *a;

	buf_init(&text, CALL_RESPONSE_MAX);
	for (a = b->job.args; *a != NULL; a++)
		cJSON_AddItemToArray(array, cJSON_CreateString(*a));
	json_canonical(array, &text);
	digest_text(b->args_digest, text.data, text.len, hash);
	buf_clear(&text);
	cJSON_Delete(array);
}

static bool
record_start(struct broker *b)
{
	const struct manifest *m = grant_manifest(b->grant);
	char hash[DIGEST_TEXT];
	struct row_subject s;
	struct buf layers;
	struct row row;
	int result;

	hash_arguments(b, hash);
	buf_init(&layers, 4096);
	broker_layers(&b->result, &layers);
	dispatch_subject(&b->dispatch, NULL, &s);
	row_begin(&row, ROW_INVOKED_STARTED, &s, b->digest);
	row_string(&row, "version", m->version);
	row_word(&row, "tenant_id", b->job.tenant);
	row_string(&row, "caller_persona", b->job.persona);
	row_string(&row, "request_id", b->job.request_id);
	row_word(&row, "args_hash", hash);
	row_word(&row, "frontmatter_hash", m->frontmatter_hash);
	row_json(&row, "sandbox", layers.data, layers.len);
	result = dispatch_row(&b->dispatch, &row);
	buf_clear(&layers);
	return result == 0;
}

static void
record_end(struct broker *b)
{
	const struct broker_result *r = &b->result;
	struct row_subject s = { b->job.invocation,
		b->id[0] == '\0' ? NULL : b->id, b->job.trace.trace_id, NULL };
	struct row row;

	row_begin(&row, ROW_INVOKED_COMPLETED, &s, b->digest);
	row_string(&row, "version",
	    b->version[0] == '\0' ? NULL : b->version);
	row_word(&row, "outcome", broker_outcome_word(r->outcome));
	row_int(&row, "duration_ms", r->duration_ms);
	if (r->exit_code >= 0)
		row_int(&row, "exit_code", r->exit_code);
	else
		row_word(&row, "exit_code", NULL);
	if (r->signal > 0)
		row_int(&row, "signal", r->signal);
	else
		row_word(&row, "signal", NULL);
	row_int(&row, "calls", (int64_t)r->calls);
	row_int(&row, "denied", (int64_t)r->denied);
	row_int(&row, "rejected", (int64_t)r->rejected);
	row_word(&row, "by", r->by);
	row_string(&row, "error_message",
	    r->error_message[0] == '\0' ? NULL : r->error_message);
	dispatch_row(&b->dispatch, &row);
}

static void
record_timeout(struct broker *b, int64_t due)
{
	int64_t now = clock_boot();
	struct row_subject s;
	struct row row;

	dispatch_subject(&b->dispatch, NULL, &s);
	row_begin(&row, ROW_TIMEOUT, &s, b->digest);
	row_int(&row, "elapsed_ms", (now - b->clockwork.started) / CLOCK_MS);
	row_int(&row, "late_ms", (now - due) / CLOCK_MS);
	row_word(&row, "last_tool_call",
	    b->dispatch.last_tool[0] == '\0' ? NULL : b->dispatch.last_tool);
	dispatch_row(&b->dispatch, &row);
}

static void
record_no_connect(struct broker *b)
{
	struct row_subject s;
	struct row row;

	dispatch_subject(&b->dispatch, NULL, &s);
	row_begin(&row, ROW_NO_CONNECT, &s, b->digest);
	row_int(&row, "waited_ms",
	    (clock_boot() - b->clockwork.started) / CLOCK_MS);
	dispatch_row(&b->dispatch, &row);
}

#define ATTESTED_NAME 32

/* What the attempts of --attest came to; false when a layer is broken, which is
 * named then, or the ledger does not take it. */
static bool
record_attested(struct broker *b, char broken[ATTESTED_NAME])
{
	const struct confine_step *steps;
	const struct probe *probes;
	enum probe_verdict v;
	struct row_subject s;
	struct buf layers, attempts;
	struct row row;
	size_t i, n;
	bool recorded;

	broken[0] = '\0';
	buf_init(&layers, 4096);
	buf_init(&attempts, 4096);
	steps = confine_steps(&n);
	for (i = 0; i < n; i++) {
		v = probe_judge(steps[i].name, b->sandbox.states,
		    b->sandbox.probes);
		if (v == PROBE_BROKEN && broken[0] == '\0')
			strlcpy(broken, steps[i].name, ATTESTED_NAME);
		buf_printf(&layers, "%c\"%s\":\"%s\"", i == 0 ? '{' : ',',
		    steps[i].name, probe_verdict_word(v));
	}
	buf_putc(&layers, '}');
	probes = probe_table(&n);
	for (i = 0; i < n; i++)
		buf_printf(&attempts, "%c\"%s\":\"%s\"", i == 0 ? '{' : ',',
		    probes[i].name, probe_result_word(b->sandbox.probes[i]));
	buf_putc(&attempts, '}');
	b->dispatch.segment = b->segment;
	dispatch_subject(&b->dispatch, NULL, &s);
	row_begin(&row, ROW_SANDBOX_ATTESTED, &s, b->digest);
	row_json(&row, "layers", layers.data, layers.len);
	row_json(&row, "attempts", attempts.data, attempts.len);
	recorded = dispatch_row(&b->dispatch, &row) == 0;
	buf_clear(&layers);
	buf_clear(&attempts);
	return recorded && broken[0] == '\0';
}

/* --- the loop --- */

/* What is killed may take the kernel long to take apart; what is to be said of it
 * does not wait for more than this, so that nobody's outcome depends on it. */
static void
kill_skill(struct broker *b)
{
	spawn_kill(&b->sandbox);
	if (b->give_up_at == 0)
		b->give_up_at = clock_boot() + GIVE_UP_NS;
}

static bool
gave_up(const struct broker *b)
{
	return b->give_up_at != 0 && clock_boot() >= b->give_up_at;
}

static void
on_clock(struct broker *b)
{
	int64_t kill_at = b->clockwork.kill_at;
	enum clock_event event;

	while ((event = clockwork_due(&b->clockwork)) != CLOCK_NOTHING) {
		switch (event) {
		case CLOCK_NOTHING:
			break;
		case CLOCK_TERMINATE:
			spawn_terminate(&b->sandbox);
			break;
		case CLOCK_KILL:
			log_line(&b->log, LOG_LEVEL_WARN,
			    "its time is over: the skill is killed");
			kill_skill(b);
			if (b->ending == END_SKILL)
				b->ending = END_CLOCK;
			record_timeout(b, kill_at);
			break;
		case CLOCK_NO_CONNECT:
			if (server_connected(b->server))
				break;
			kill_skill(b);
			if (b->ending == END_SKILL)
				b->ending = END_NO_CONNECT;
			record_no_connect(b);
			log_line(&b->log, LOG_LEVEL_WARN,
			    "nothing has connected within %g s: the skill is "
			    "killed", b->job.connect_timeout);
			break;
		case CLOCK_CALLER_KILL:
			kill_skill(b);
			break;
		}
	}
}

static void
attempt_row(struct broker *b, const char *call, const char *target,
    uint64_t count)
{
	struct row_subject s;
	struct row row;

	dispatch_subject(&b->dispatch, NULL, &s);
	row_begin(&row, ROW_CAP_BYPASS, &s, b->digest);
	row_word(&row, "syscall", call);
	row_string(&row, "target", target[0] == '\0' ? NULL : target);
	row_int(&row, "count", (int64_t)count);
	dispatch_row(&b->dispatch, &row);
}

static void
ask(struct broker *b, enum broker_message_type what, uint64_t seq,
    const char *head)
{
	struct broker_message m;

	memset(&m, 0, sizeof(m));
	m.type = what;
	m.seq = seq;
	strlcpy(m.head, head, sizeof(m.head));
	broker_send(b->job.control_fd, &m);
}

/* For the quarantine, which has to know while the skill still runs. */
static void
tell_attempts(struct broker *b)
{
	if (b->files_sha256[0] != '\0')
		ask(b, BROKER_ATTEMPTS, b->attempts + b->attempts_counted, "");
}

/* Their row comes at the end, and their count now. */
static void
count_other_attempts(struct broker *b)
{
	uint64_t all = b->attempts_rest + b->attempts_more;

	if (all == b->attempts_counted)
		return;
	tally_attempt(b->dispatch.tally, TALLY_UNKNOWN,
	    all - b->attempts_counted);
	b->attempts_counted = all;
	tell_attempts(b);
}

/* The same from another sandbox of this invocation: a Bash call's, say. */
static bool
has_attempt_row(const struct broker *b, const struct spawn_attempt *a)
{
	unsigned i;

	for (i = 0; i < b->attempt_rows; i++) {
		if (b->attempt[i].nr == a->nr &&
		    strcmp(b->attempt[i].target, a->target) == 0)
			return true;
	}
	return false;
}

/* A refused escape attempt, of the skill or of a Bash call; when it has a row, or
 * there are too many for rows, one at the end counts the others. */
static void
record_attempt(struct broker *b, const struct spawn_attempt *a)
{
	char name[32];

	if (a->nr == -1 || b->attempt_rows == ATTEMPT_ROWS - 1 ||
	    has_attempt_row(b, a)) {
		b->attempts_more += a->count;
		count_other_attempts(b);
		return;
	}
	b->attempt[b->attempt_rows].nr = a->nr;
	strlcpy(b->attempt[b->attempt_rows].target, a->target, SPAWN_TARGET);
	b->attempt_rows++;
	spawn_call_name(a->nr, name);
	attempt_row(b, name, a->target, a->count);
	tally_attempt(b->dispatch.tally, name, a->count);
	b->attempts += a->count;
	tell_attempts(b);
	log_line(&b->log, LOG_LEVEL_WARN,
	    "the skill tried what its sandbox refuses: %s %s", name, a->target);
}

static void
record_other_attempts(struct broker *b)
{
	uint64_t all = b->attempts_rest + b->attempts_more;

	if (all > 0)
		attempt_row(b, "*", "", all);
}

static void
on_supervisor(struct broker *b)
{
	struct broker_message m;
	int passed;

	while (broker_receive(b->job.control_fd, &m, false, &passed) == 0) {
		take_descriptor(b, &m, passed);
		if (m.type == BROKER_DURABLE) {
			server_open(b->server);
		} else if (m.type == BROKER_TERMINATE) {
			if (b->ending == END_SKILL)
				b->ending = END_CALLER;
			b->result.signal = m.result.signal;
			clockwork_caller(&b->clockwork);
			spawn_terminate(&b->sandbox);
		} else if (m.type == BROKER_KILL) {
			if (b->ending == END_SKILL)
				b->ending = END_CALLER;
			kill_skill(b);
		}
	}
}

/* False: init is gone. */
static bool
on_init(struct broker *b)
{
	struct spawn_message m;

	for (;;) {
		switch (spawn_receive(&b->sandbox, &m)) {
		case SPAWN_NOTHING:
			return true;
		case SPAWN_PEER:
			server_peer(b->server, &m);
			break;
		case SPAWN_ATTEMPT:
			if (m.attempt.nr == -1) {
				b->attempts_rest = m.attempt.count;
				count_other_attempts(b);
			} else {
				b->attempts_told++;
				record_attempt(b, &m.attempt);
			}
			break;
		case SPAWN_STATUS:
			b->status = m;
			b->have_status = true;
			b->skill_ended = true;
			break;
		case SPAWN_GONE:
			b->skill_ended = true;
			return false;
		}
	}
}

static void
on_worker(struct broker *b, struct worker *w)
{
	struct call *call;

	do {
		call = worker_service(w);
		if (call != NULL)
			server_finished(b->server, call, FAIL_NONE);
	} while (worker_failed(w));
}

static void
on_net(struct broker *b)
{
	enum http_event event;
	struct call *call;

	while (server_has_room(b->server, NULL) &&
	    (call = http_service(b->dispatch.http, &event)) != NULL) {
		if (event == HTTP_EVENT_GO)
			dispatch_go(&b->dispatch, call);
		else
			server_finished(b->server, call, FAIL_NONE);
	}
}

/* A worker's answer is not even read while nobody takes those before it. */
static struct pollfd
poll_worker(const struct broker *b, const struct call *next, int fd,
    short events)
{
	if (!server_has_room(b->server, next))
		events &= ~POLLIN;
	return (struct pollfd){ events == 0 ? -1 : fd, events, 0 };
}

static void
ask_for_help(struct broker *b, bool spool)
{
	char head[DIGEST_HEX];
	uint64_t seq;

	if ((spool || segment_wants_spool(b->segment)) && b->spool_fd == -1 &&
	    !b->asked_spool) {
		b->asked_spool = true;
		ask(b, BROKER_WANT_SPOOL, 0, "");
	}
	if (segment_wants_part(b->segment, &seq, head) && !b->asked_part) {
		b->asked_part = true;
		ask(b, BROKER_WANT_PART, seq, head);
	}
}

/* When nothing waits any more, by whatever flush, that is still to be told. */
static int64_t
ledger_retry_at(const struct broker *b)
{
	int64_t at = segment_retry_at(b->segment);

	return at == INT64_MAX && dispatch_owes_rows(&b->dispatch) ? 0 : at;
}

/* Rows that wait: what they need is asked for, and they are tried again. */
static void
tend_ledger(struct broker *b)
{
	if (clock_boot() < ledger_retry_at(b))
		return;
	ask_for_help(b, false);
	dispatch_retry(&b->dispatch);
}

static int
ledger_due(const struct broker *b)
{
	return clock_until_ms(ledger_retry_at(b));
}

/* At the end of the invocation: what waits finds a part, or the spool. */
static void
rescue_rows(struct broker *b)
{
	struct pollfd answer = { b->job.control_fd, POLLIN, 0 };
	struct broker_message m;
	struct segment_counts n;
	int passed, tries;

	for (tries = 0; tries < RESCUE_TRIES; tries++) {
		dispatch_retry(&b->dispatch);
		segment_counts(b->segment, &n);
		if (n.waiting == 0 && segment_sync(b->segment) == 0)
			return;
		ask_for_help(b, true);
		if (poll(&answer, 1, RESCUE_MS) == 1 &&
		    broker_receive(b->job.control_fd, &m, false, &passed) == 0)
			take_descriptor(b, &m, passed);
	}
	b->rescued = segment_rescue(b->segment);
	if (b->rescued)
		log_line(&b->log, LOG_LEVEL_WARN,
		    "%llu rows are left in the spool",
		    (unsigned long long)n.waiting);
}

/* Now and then the supervisor gets a mark of a segment that has grown. */
static void
mark(struct broker *b)
{
	int64_t every = (int64_t)b->job.policy->audit_mark_seconds *
	    CLOCK_SECOND;
	struct broker_message m;

	if (clock_boot() < b->mark_at)
		return;
	b->mark_at = clock_boot() + every;
	/* Not before it is known that no sync has failed meanwhile. */
	if (segment_last(b->segment) == b->marked ||
	    segment_flush(b->segment) == -1)
		return;
	memset(&m, 0, sizeof(m));
	m.type = BROKER_MARK;
	m.seq = b->marked = segment_last(b->segment);
	strlcpy(m.head, segment_head(b->segment), sizeof(m.head));
	broker_send(b->job.control_fd, &m);
}

static int
mark_due(const struct broker *b)
{
	return segment_last(b->segment) == b->marked
	    ? -1
	    : clock_until_ms(b->mark_at);
}

static void
take_bash_attempts(struct broker *b)
{
	struct spawn_attempt a;

	while (bash_attempt(b->dispatch.bash, &a))
		record_attempt(b, &a);
}

/* News of the spawner's children. */
static void
on_spawner(struct broker *b)
{
	struct spawner_message m;
	int fds[SPAWNER_FDS], got = 0, i;

	while (b->spawner_fd != -1 &&
	    (got = spawner_receive(b->spawner_fd, &m, fds, false)) == 1) {
		if ((m.id & HTTP_CHILD) != 0)
			http_heard(b->dispatch.http, &m, fds);
		else
			bash_heard(b->dispatch.bash, &m, fds);
		for (i = 0; i < SPAWNER_FDS; i++) {
			if (fds[i] != -1)
				close(fds[i]);
		}
	}
	if (got != -1)
		return;
	log_line(&b->log, LOG_LEVEL_ERROR,
	    "the spawner is gone; Bash and HTTP calls fail from now on");
	close(b->spawner_fd);
	b->spawner_fd = -1;
	bash_use(b->dispatch.bash, -1);
	http_use(b->dispatch.http, -1);
}

static void
on_bash(struct broker *b, const struct pollfd *fds, size_t n)
{
	struct call *call;

	bash_step(b->dispatch.bash, fds, n);
	take_bash_attempts(b);
	while (server_has_room(b->server, NULL) &&
	    (call = bash_finished(b->dispatch.bash)) != NULL)
		server_finished(b->server, call, FAIL_NONE);
}

static int
poll_timeout(const struct broker *b)
{
	int due[6], first = -1;
	size_t i;

	if (server_busy(b->server) || worker_failed(b->dispatch.worker) ||
	    worker_failed(b->dispatch.walker))
		return 0;
	due[0] = dispatch_due(&b->dispatch);
	due[1] = server_has_room(b->server, NULL) ? http_due(b->dispatch.http)
						   : -1;
	due[2] = bash_due(
	    b->dispatch.bash, server_has_room(b->server, NULL));
	due[3] = mark_due(b);
	due[4] = ledger_due(b);
	due[5] = b->give_up_at == 0 ? -1 : clock_until_ms(b->give_up_at);
	for (i = 0; i < sizeof(due) / sizeof(due[0]); i++) {
		if (due[i] != -1 && (first == -1 || due[i] < first))
			first = due[i];
	}
	return first;
}

static void
serve(struct broker *b)
{
	enum { TIMER, SUPERVISOR, INIT, PIDFD, WORKER, WALKER, NET, SPAWNER,
		FIXED };
	struct pollfd fds[FIXED + SERVER_POLLFDS + BASH_POLLFDS];
	size_t n, shells;

	while (!b->skill_ended && !gave_up(b)) {
		fds[TIMER] = (struct pollfd){ b->clockwork.timer_fd, POLLIN, 0 };
		fds[SUPERVISOR] =
		    (struct pollfd){ b->job.control_fd, POLLIN, 0 };
		fds[INIT] =
		    (struct pollfd){ b->sandbox.control_fd, POLLIN, 0 };
		fds[PIDFD] =
		    (struct pollfd){ b->sandbox.init_pidfd, POLLIN, 0 };
		fds[WORKER] = poll_worker(b, worker_next(b->dispatch.worker),
		    worker_fd(b->dispatch.worker),
		    worker_events(b->dispatch.worker));
		fds[WALKER] = poll_worker(b, worker_next(b->dispatch.walker),
		    worker_fd(b->dispatch.walker),
		    worker_events(b->dispatch.walker));
		fds[NET] = poll_worker(b, NULL, http_fd(b->dispatch.http),
		    http_events(b->dispatch.http));
		fds[SPAWNER] = (struct pollfd){ b->spawner_fd, POLLIN, 0 };
		n = server_poll(b->server, fds + FIXED);
		shells = bash_poll(b->dispatch.bash, fds + FIXED + n);
		if (poll(fds, FIXED + n + shells, poll_timeout(b)) == -1 &&
		    errno != EINTR)
			break;
		if (fds[TIMER].revents != 0)
			on_clock(b);
		if (fds[SUPERVISOR].revents != 0)
			on_supervisor(b);
		if (fds[INIT].revents != 0)
			on_init(b);
		if (fds[PIDFD].revents != 0)
			b->skill_ended = true;
		if (fds[WORKER].revents != 0 ||
		    worker_failed(b->dispatch.worker))
			on_worker(b, b->dispatch.worker);
		if (fds[WALKER].revents != 0 ||
		    worker_failed(b->dispatch.walker))
			on_worker(b, b->dispatch.walker);
		if (fds[NET].revents != 0 || http_due(b->dispatch.http) == 0)
			on_net(b);
		on_bash(b, fds + FIXED + n, shells);
		dispatch_unfold(&b->dispatch, false);
		mark(b);
		tend_ledger(b);
		if (fds[SPAWNER].revents != 0)
			on_spawner(b);
		server_step(b->server, fds + FIXED, n);
		if (server_connected(b->server))
			clockwork_connected(&b->clockwork);
	}
	on_init(b);
}

/* --- the end --- */

static bool
own_making(int sig)
{
	return sig == SIGSEGV || sig == SIGABRT || sig == SIGBUS ||
	    sig == SIGFPE || sig == SIGILL || sig == SIGSYS || sig == SIGTRAP;
}

static void
set_outcome(struct broker *b, enum broker_outcome outcome, int exit_status,
    const char *by)
{
	b->result.outcome = outcome;
	b->result.exit_status = exit_status;
	strlcpy(b->result.by, by, sizeof(b->result.by));
}

/* How the skill's own process ended, when nobody else had a hand in it. */
/* What an author whose program died of our limits should know. */
static void
advise_limits(struct broker *b)
{
	const struct manifest *m = grant_manifest(b->grant);

	if (b->status.status != SIGTRAP && b->status.status != SIGABRT &&
	    b->status.status != SIGSEGV)
		return;
	snprintf(b->result.error_message, sizeof(b->result.error_message),
	    "main ended by SIG%s within %u MiB of address space and %u "
	    "processes; a runtime such as Node needs x-memory-mb: 16384 and "
	    "x-max-processes: 16 (and the operator's max_memory_mb and "
	    "max_processes)",
	    sigabbrev_np(b->status.status), m->memory_mb, m->max_processes);
	log_line(&b->log, LOG_LEVEL_WARN, "%s", b->result.error_message);
}

static void
judge_status(struct broker *b)
{
	const struct spawn_message *s = &b->status;

	if (s->code == CLD_EXITED) {
		b->result.exit_code = s->status;
		set_outcome(b, s->status == 0 ? BROKER_SUCCESS : BROKER_ERROR,
		    s->status, "skill");
		return;
	}
	b->result.signal = s->status;
	advise_limits(b);
	set_outcome(b, own_making(s->status) ? BROKER_PANIC : BROKER_KILLED,
	    EXIT_RUN_SIGNAL + s->status, own_making(s->status) ? "skill" : "kernel");
}

static void
judge_end(struct broker *b)
{
	int caller_signal = b->result.signal;

	b->result.signal = 0;
	b->result.exit_code = -1;
	if (b->have_status) {
		judge_status(b);
	} else { /* init is gone without a word: SIGKILL from outside */
		b->result.signal = SIGKILL;
		set_outcome(b, BROKER_KILLED, EXIT_RUN_SIGNAL + SIGKILL, "kernel");
	}
	if (b->ending == END_NO_CONNECT) {
		set_outcome(b, BROKER_NO_CONNECT, EXIT_RUN_DEADLINE, "clock");
	} else if (b->ending == END_CALLER) {
		set_outcome(b, BROKER_KILLED,
		    EXIT_RUN_SIGNAL +
			(caller_signal == 0 ? SIGTERM : caller_signal),
		    "caller");
	} else if (b->ending == END_CLOCK || b->clockwork.terminated) {
		set_outcome(b, BROKER_TIMEOUT, EXIT_RUN_DEADLINE, "clock");
	}
}

static enum failure
abandon_word(const struct broker *b)
{
	return b->ending == END_CLOCK || b->clockwork.terminated
	    ? FAIL_TIMEOUT
	    : FAIL_CANCELLED;
}

/*
 * A process that connects, says something and ends is heard like any other:
 * init lives on to tell who it was.
 */
static void
last_peers(struct broker *b)
{
	struct pollfd fd = { b->sandbox.control_fd, POLLIN, 0 };
	int64_t until = clock_boot() + LAST_PEERS_NS;

	while (server_settling(b->server) && clock_boot() < until) {
		if (poll(&fd, 1, LAST_PEERS_NS / CLOCK_MS) == 1 && !on_init(b))
			break;
	}
}

static void
finish(struct broker *b)
{
	last_peers(b);
	/* When init is reaped, the kernel has ended all that was below it. */
	kill_skill(b);
	spawn_wait(&b->sandbox, clock_until_ms(b->give_up_at));
	if (b->dispatch.tally->bad_traces > 0)
		log_line(&b->log, LOG_LEVEL_WARN,
		    "an invalid traceparent was ignored calls=%llu",
		    (unsigned long long)b->dispatch.tally->bad_traces);
	server_drain(b->server, abandon_word(b));
	dispatch_unfold(&b->dispatch, true);
	take_bash_attempts(b);
	/* Init may have been killed before it could tell of them. */
	if (spawn_attempts(&b->sandbox) > b->attempts_told)
		b->attempts_rest =
		    spawn_attempts(&b->sandbox) - b->attempts_told;
	count_other_attempts(b);
	record_other_attempts(b);
	b->result.duration_ms =
	    (clock_boot() - b->clockwork.started) / CLOCK_MS;
	judge_end(b);
}

static void
take_counts(struct broker *b)
{
	struct segment_counts n = { .rows = 0 };

	if (b->counters != NULL) {
		b->result.calls = counters_get(b->counters, calls);
		b->result.denied = counters_get(b->counters, denied);
		b->result.rejected = counters_get(b->counters, rejected);
	}
	if (b->segment != NULL)
		segment_counts(b->segment, &n);
	b->result.rows = n.rows;
	b->result.lost = n.lost + (b->rescued ? 0 : n.waiting);
}

/* --- setting up --- */

static bool
protect(struct broker *b, const char *path, enum path_protection how)
{
	if (b->places_n == b->places_max) {
		errno = E2BIG;
		return refused_errno(b, path);
	}
	expose_place(&b->places[b->places_n++], path, how == PATH_CLOSED);
	return path_protect_add(b->protect, path, how) == 0 ||
	    refused_errno(b, path);
}

/*
 * Is the store that is held among what its name has just put out of reach? If
 * somebody moved it meanwhile, another directory is there in its place.
 */
static bool
store_is_protected(struct broker *b)
{
	struct path_judged j;
	char name[64];
	bool covered = false, closed;
	size_t i;

	for (i = 0; i < b->places_n && !covered; i++)
		covered = b->places[i].closed && b->places[i].directory &&
		    b->places[i].dev == b->job.store.st_dev &&
		    b->places[i].ino == b->job.store.st_ino;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", b->job.memory_fd);
	path_judged_init(&j);
	closed = path_judge(name, strlen(name), b->protect, &j) == 0 &&
	    j.protection == PATH_CLOSED;
	path_judged_clear(&j);
	return (covered && closed) ||
	    refused(b, EXIT_RUN_BROKER, "the store has been moved meanwhile");
}

/*
 * Names of sockets are out of reach of a Bash call, by a cover over all of their
 * directory, whatever else is there: that may be a skill's doing. One that is
 * everybody's, or what was granted itself, cannot be covered.
 */
static void
cover_sockets(struct broker *b)
{
	struct expose_place *p = &b->places[b->places_n];
	enum expose_part part;
	struct stat st;

	if (grant_tool(b->grant, "Bash") != REASON_NONE)
		return;
	expose_place(p, b->job.socket_dir, true);
	part = expose_part(&b->inv, p->path);
	if (part != EXPOSE_ITSELF && stat(p->path, &st) == 0 &&
	    (st.st_mode & S_IWOTH) == 0)
		b->places_n++;
	else if (part != EXPOSE_NOT)
		log_line(&b->log, LOG_LEVEL_WARN,
		    "Bash may write in %s, where sockets are made, and so keep "
		    "others of this user's skills from starting; choose another "
		    "--socket-dir",
		    p->path);
}

static bool
protect_places(struct broker *b)
{
	char exe[PATH_MAX], beside[PATH_MAX + sizeof(LIBEXEC_BESIDE)];
	const char *const *p;

	b->protect = path_protect_new();
	for (p = b->job.protect; *p != NULL; p++)
		b->places_max++;
	b->places_max += OWN_PLACES;
	b->places = calloc(b->places_max, sizeof(*b->places));
	if (b->protect == NULL || b->places == NULL)
		return refused_errno(b, "protected places");
	for (p = b->job.protect; *p != NULL; p++) {
		if (!protect(b, *p, PATH_CLOSED))
			return false;
	}
	if (!protect(b, SPAWN_UID_DIR, PATH_CLOSED) ||
	    !protect(b, b->job.policy->skills, PATH_READ_ONLY) ||
	    !protect(b, b->skill_path, PATH_READ_ONLY) ||
	    !protect(b, own_binary(exe), PATH_READ_ONLY) ||
	    !protect(b, running_binary(exe), PATH_READ_ONLY) ||
	    !protect(b, LIBEXECDIR, PATH_READ_ONLY))
		return false;
	/* Where a program of ours is looked for first. */
	if (libexec_beside(beside, sizeof(beside)) == -1)
		return refused_errno(b, "protected places");
	cover_sockets(b);
	return protect(b, beside, PATH_READ_ONLY) && store_is_protected(b);
}

static bool
read_hash_key(struct broker *b)
{
	const char *file = b->job.policy->args_hash_key_file;
	char key[4096];
	struct stat st;
	ssize_t n = -1;
	int fd;

	if (file == NULL) {
		b->args_digest = digest_new(NULL, 0);
		return b->args_digest != NULL || refused_errno(b, "hash");
	}
	fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd == -1)
		return refused_errno(b, file);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    (st.st_mode & 077) == 0 && policy_file_trusted(fd))
		n = read(fd, key, sizeof(key));
	close(fd);
	if (n < 16)
		return refused(b, EXIT_RUN_BROKER,
		    "args_hash_key_file: must be a regular file of mode 0600 "
		    "with 16 bytes or more, run by root in a place that only "
		    "root can write");
	b->args_digest = digest_new(key, (size_t)n);
	explicit_bzero(key, sizeof(key));
	return b->args_digest != NULL || refused_errno(b, "hash");
}

void
broker_names(struct broker_names *n)
{
	spawn_calls(&n->calls);
	n->names = (struct tally_names){ registry_names(), n->calls.names };
}

/* Without the page we count for nobody, and there will be no skill. */
static bool
open_counters(struct broker *b)
{
	int error;

	b->counters = counters_map(b->job.status_fd);
	error = b->counters == NULL ? errno : 0;
	if (b->counters == NULL)
		b->counters = counters_map(-1);
	if (b->counters == NULL)
		return false;
	b->dispatch.counters = b->counters;
	b->dispatch.tally = counters_tally(b->counters);
	tally_init(b->dispatch.tally, b->job.names);
	b->page_error = error;
	return true;
}

static bool
set_up(struct broker *b)
{
	struct invocation *inv = &b->inv;
	const char *trouble = registry_trouble();

	if (trouble != NULL) {
		log_line(&b->log, LOG_LEVEL_ALERT,
		    "the registry of tools is inconsistent: %s", trouble);
		return refused(b, EXIT_RUN_BROKER, trouble);
	}
	strlcpy(inv->id, b->job.invocation, sizeof(inv->id));
	strlcpy(inv->tenant, b->job.tenant, sizeof(inv->tenant));
	inv->trace = b->job.trace;
	inv->grant = b->grant;
	inv->policy = b->job.policy;
	inv->digest = b->digest;
	inv->memory_fd = b->job.memory_fd;
	inv->stray_fd = b->job.stray_fd;
	inv->stray_len = b->job.stray_len;
	/* A skill whose tools reach no file has nothing judged. */
	if (registry_reaches_files(b->grant) && !protect_places(b))
		return false;
	inv->protect = b->protect;
	b->dispatch.inv = inv;
	b->dispatch.log = &b->log;
	b->dispatch.clockwork = &b->clockwork;
	b->tracer.inv = inv;
	b->tracer.skill_id = b->id;
	b->dispatch.tracer = &b->tracer;
	b->dispatch.fold.budget = (uint64_t)b->job.policy->max_ledger_mb << 20;
	limit_init(&b->dispatch.limit,
	    grant_manifest(b->grant)->max_calls_per_minute, clock_boot());
	b->dispatch.worker = worker_new(inv, WORKER_FILE);
	b->dispatch.walker = worker_new(inv, WORKER_WALK);
	b->dispatch.http = http_new(inv, &b->log);
	b->dispatch.bash = bash_new(inv, &b->log);
	return (b->dispatch.worker != NULL && b->dispatch.walker != NULL &&
	    b->dispatch.http != NULL && b->dispatch.bash != NULL) ||
	    refused_errno(b, "worker");
}

/* main itself is there and executable: what else can it be? */
static const char *
exec_advice(int error)
{
	if (error == ENOENT)
		return " (is the interpreter of its first line, or its dynamic "
		       "loader, under /usr?)";
	if (error == ENOEXEC)
		return " (a script's first line names its interpreter: "
		       "#!/bin/sh)";
	return "";
}

static void
tell_started(struct broker *b)
{
	struct broker_message m;

	memset(&m, 0, sizeof(m));
	m.type = BROKER_STARTED;
	m.result = b->result;
	broker_send(b->job.control_fd, &m);
}

/*
 * While the skill's program is being loaded: of what it sends, or init has to
 * say of it, nothing is read before this has held.
 */
static bool
confine_broker(struct broker *b)
{
	b->narrow.grant = b->grant;
	b->narrow.memory_fd = b->inv.memory_fd;
	b->inv.narrow = &b->narrow;
	if (narrow_broker(&b->narrow) == -1)
		return false;
	if (!b->narrow.landlock)
		log_line(&b->log, LOG_LEVEL_WARN,
		    "landlock is not available to the broker itself");
	segment_begin(b->segment);
	return true;
}

/* The skill was let go, and came to nothing. */
static void __attribute__((format(printf, 5, 6)))
fell_through(struct broker *b, enum broker_outcome outcome, int exit_status,
    const char *by, const char *fmt, ...)
{
	va_list ap;

	spawn_kill(&b->sandbox);
	spawn_wait(&b->sandbox, -1);
	set_outcome(b, outcome, exit_status, by);
	b->result.exit_code = -1;
	va_start(ap, fmt);
	vsnprintf(b->result.error_message, sizeof(b->result.error_message),
	    fmt, ap);
	va_end(ap);
	log_line(&b->log, LOG_LEVEL_ERROR, "%s", b->result.error_message);
}

/* From here on the skill lives: the clock starts, and we serve. */
static bool
go(struct broker *b)
{
	/* The skill's process has filter and domain already, which is as good as
	 * a try. Else ours come first: without them no skill may run. */
	const bool late = confine_is_active(b->sandbox.states, "seccomp") &&
	    confine_is_active(b->sandbox.states, "landlock");
	int error;

	b->dispatch.segment = b->segment;
	b->server =
	    server_new(b->socket.listen_fd, &b->dispatch, &b->sandbox);
	if (b->server == NULL)
		return refused_errno(b, "server");
	if (!late && !confine_broker(b))
		return refused_errno(b, "confining the broker");
	if (!record_start(b))
		return refused(b, EXIT_RUN_BROKER,
		    "the ledger does not take the start of the invocation");
	if (clockwork_start(&b->clockwork, total_ns(b),
		(int64_t)(b->job.connect_timeout * 1e9)) == -1)
		return refused_errno(b, "timer");
	atomic_store(&b->counters->deadline_boot, b->clockwork.kill_at);
	spawn_deadline(&b->sandbox, b->clockwork.kill_at);
	b->mark_at = clock_boot() +
	    (int64_t)b->job.policy->audit_mark_seconds * CLOCK_SECOND;
	spawn_release(&b->sandbox);
	error = spawn_executed(&b->sandbox);
	if (error != 0) {
		fell_through(b, BROKER_ERROR, EXIT_RUN_NO_EXEC, "supervisor",
		    "main: %s%s", strerror(error), exec_advice(error));
		return true;
	}
	if (late && !confine_broker(b)) {
		fell_through(b, BROKER_KILLED, EXIT_RUN_BROKER, "supervisor",
		    "confining the broker: %s", strerror(errno));
		return true;
	}
	tell_started(b);
	serve(b);
	finish(b);
	return true;
}

static char **
make_argv(const struct broker_job *job)
{
	char **argv;
	size_t n = 0;

	while (job->args[n] != NULL)
		n++;
	argv = calloc(n + 2, sizeof(*argv)); /* [0] is the sandbox's to fill */
	if (argv != NULL)
		memcpy(argv + 1, job->args, n * sizeof(*argv));
	return argv;
}

static int
collect_shares(void *arg, struct shares *shares)
{
	const struct broker *b = arg;

	return (int)expose_collect(&b->inv, b->places, b->places_n, shares);
}

static int
watch_shares(void *arg, const struct shares *shares)
{
	const struct broker *b = arg;

	return expose_has_room(&b->inv, shares) ? 0 : (int)FAIL_NO_SPACE;
}

static int
spawn_net(void *arg, int channel_fd, char *why, size_t whylen)
{
	const struct broker *b = arg;

	return http_spawn(b->dispatch.http, channel_fd, why, whylen);
}

/* Later nobody here may build a sandbox or start a program. */
static bool
start_spawner(struct broker *b)
{
	struct spawner_work work = { collect_shares, watch_shares, spawn_net,
		b };
	bool net = grant_tool(b->grant, "HttpFetch") == REASON_NONE ||
	    grant_tool(b->grant, "HttpPost") == REASON_NONE;
	char why[512];

	if (!net && grant_tool(b->grant, "Bash") != REASON_NONE)
		return true;
	if (net && http_check(b->dispatch.http, why, sizeof(why)) == -1) {
		/* Other authorities than the operator's would be more than he
		 * said. */
		if (b->job.policy->ca_file != NULL)
			return refused(b, EXIT_RUN_BROKER, why);
		log_line(&b->log, LOG_LEVEL_ERROR,
		    "%s; HTTP calls will fail", why);
	}
	b->spawner_fd = spawner_start(&b->plan, &work, &b->uid_lock, 1,
	    &b->spawner_pid);
	if (b->spawner_fd == -1)
		return refused_errno(b, "spawner");
	bash_use(b->dispatch.bash, b->spawner_fd);
	if (net)
		http_use(b->dispatch.http, b->spawner_fd);
	return true;
}

/* Before it started, so nothing of it ever ran. */
static bool
was_cancelled(struct broker *b)
{
	if (b->cancelled == 0)
		return false;
	refused(b, EXIT_RUN_SIGNAL + b->cancelled,
	    "cancelled before it started");
	strlcpy(b->result.by, "caller", sizeof(b->result.by));
	return true;
}

/* What stood in the way of the preparation may have gone; else it is told when
 * the skill has been judged. */
static bool
plan_again(struct broker *b)
{
	const char *trouble;

	if (b->planned)
		return true;
	spawn_bind_clear(&b->plan.self);
	trouble = plan_any(b);
	return trouble == NULL || refused_errno(b, trouble);
}

static bool
build_sandbox(struct broker *b)
{
	char inside[160], outside[160], id[96], inv[64], tenant[64];
	char log[] = "RUST_LOG=warn", main_path[PATH_MAX + 8];
	char *envp_in[] = { inside, id, inv, tenant, log, NULL };
	char *envp_out[] = { outside, id, inv, tenant, log, NULL };
	bool good;

	if (b->job.attest)
		b->abstract_fd = listen_abstract(b->abstract_name,
		    sizeof(b->abstract_name), b->job.invocation);
	if (!plan_sandbox(b))
		return false;
	snprintf(inside, sizeof(inside), "CYBEROS_BROKER_SOCKET=/tmp/%s",
	    b->socket.name);
	snprintf(outside, sizeof(outside), "CYBEROS_BROKER_SOCKET=%s",
	    b->socket.path);
	snprintf(id, sizeof(id), "CYBEROS_SKILL_ID=%s", b->id);
	snprintf(inv, sizeof(inv), "CYBEROS_INVOCATION_ID=%s",
	    b->job.invocation);
	snprintf(tenant, sizeof(tenant), "CYBEROS_TENANT_ID=%s",
	    b->job.tenant);
	snprintf(main_path, sizeof(main_path), "%s/main", b->skill_path);
	b->plan.main_path[0] = main_path;
	b->plan.main_path[1] = CONFINE_SKILL_DIR "/main";
	b->plan.envp[0] = envp_out;
	b->plan.envp[1] = envp_in;
	b->plan.argv = make_argv(&b->job);
	if (b->plan.argv == NULL)
		return refused_errno(b, "arguments");
	/* Init builds while we and the supervisor get ready. */
	spawn_begin(&b->plan, &b->sandbox);
	good = set_up(b) && (open_segment(b) || refused_errno(b, "ledger")) &&
	    (b->held[0] == '\0' || refused(b, EXIT_RUN_POLICY, b->held)) &&
	    !was_cancelled(b) && finish_sandbox(b);
	free(b->plan.argv);
	b->plan.argv = NULL;
	return good;
}

static bool
run_skill(struct broker *b)
{
	char broken[ATTESTED_NAME], why[128];

	if (!build_sandbox(b))
		return false;
	if (b->abstract_fd != -1)
		close(b->abstract_fd);
	b->abstract_fd = -1;
	if (!start_spawner(b))
		return false;
	/* Secrets are read when init has left with its copy of our memory. */
	if (!read_hash_key(b))
		return false;
	b->inv.args_digest = b->args_digest;
	if (b->job.attest && !record_attested(b, broken)) {
		snprintf(why, sizeof(why),
		    broken[0] == '\0'
			? "--attest: the ledger does not take what was found%s"
			: "--attest: %s is said to be active and does not hold; "
			  "see skill.sandbox_attested",
		    broken);
		return refused(b, EXIT_RUN_BROKER, why);
	}
	return go(b);
}

/* Ours are those of the job, and come with it. What the caller has open besides
 * is none of a skill's business, and its standard input and output are the
 * skill's. */
static int
settle_descriptors(const struct broker_job *job)
{
	int keep[] = { 0, 1, 2, job->control_fd, job->log.fd,
		job->cgroup == NULL ? -1 : job->cgroup->dir_fd,
		job->cgroup == NULL ? -1 : job->cgroup->kill_fd };
	struct log again;
	int null_fd;

	if (job->log.fd == -1)
		closelog();
	if (spawn_close_others(keep, sizeof(keep) / sizeof(keep[0])) == -1)
		return -1;
	if (job->log.fd == -1)
		log_open(&again, "syslog");
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd == -1 || dup2(null_fd, 0) == -1 || dup2(null_fd, 1) == -1)
		return -1;
	return close(null_fd);
}

/*
 * Little to do, but soon, however many of the skill's processes want the CPU:
 * short turns come earlier (sched_setattr(2), the runtime of a normal task; kernels
 * before 6.12 pass over it). Its children have turns as everybody's.
 */
static void
be_prompt(void)
{
	/* struct sched_attr, whose header and <sched.h> exclude each other */
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} a = { .size = sizeof(a),
		.policy = SCHED_OTHER,
		.flags = 1, /* SCHED_FLAG_RESET_ON_FORK */
		.nice = getpriority(PRIO_PROCESS, 0),
		.runtime = TURN_NS };

	(void)syscall(SYS_sched_setattr, 0, &a, 0U);
}

static void
settle_process(const struct broker_job *job)
{
	sigset_t ours;

	be_prompt();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != job->supervisor)
		_exit(1);
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_NAME, "cyberos-ready");
	/* The supervisor passes signals on as messages. */
	sigemptyset(&ours);
	sigaddset(&ours, SIGINT);
	sigaddset(&ours, SIGTERM);
	sigaddset(&ours, SIGHUP);
	sigaddset(&ours, SIGQUIT);
	sigaddset(&ours, SIGPIPE);
	/* A stopped terminal stops the caller, not the clock of the skill. */
	sigaddset(&ours, SIGTSTP);
	sigaddset(&ours, SIGTTIN);
	sigaddset(&ours, SIGTTOU);
	sigprocmask(SIG_BLOCK, &ours, NULL);
}

/* The end of its channel is its own; it takes its children with it. */
static void
end_spawner(struct broker *b)
{
	if (b->spawner_fd != -1)
		close(b->spawner_fd);
	b->spawner_fd = -1;
	if (b->spawner_pid <= 0)
		return;
	kill(b->spawner_pid, SIGKILL);
	while (waitpid(b->spawner_pid, NULL, 0) == -1 && errno == EINTR)
		;
}

static void
clear(struct broker *b)
{
	worker_free(b->dispatch.worker);
	worker_free(b->dispatch.walker);
	http_free(b->dispatch.http);
	bash_free(b->dispatch.bash);
	end_spawner(b);
	server_free(b->server);
	spawn_kill(&b->sandbox);
	spawn_wait(&b->sandbox, -1);
	spawn_clear(&b->sandbox);
	socket_clear(&b->socket);
	clockwork_stop(&b->clockwork);
	bundle_free(b->bundle);
	grant_free(b->grant);
	path_protect_free(b->protect);
	free(b->places);
	digest_free(b->digest);
	digest_free(b->args_digest);
	counters_unmap(b->counters);
	tracer_close(&b->tracer);
}

static void
init(struct broker *b, const struct broker_job *any)
{
	b->job = *any;
	b->log = any->log;
	b->skill_fd = b->uid_lock = b->abstract_fd = b->spawner_fd = -1;
	b->part_fd = b->spool_fd = -1;
	spawn_bind_init(&b->plan.skill);
	spawn_bind_init(&b->plan.self);
	spawn_bind_init(&b->plan.socket);
	socket_init(&b->socket);
	b->clockwork.timer_fd = -1;
	b->result.exit_code = -1;
	spawn_init(&b->sandbox);
}

/* The supervisor has made our files meanwhile. False: there will be no
 * invocation. */
static bool
take_job_files(struct broker *b, bool *loaded)
{
	if (broker_files_receive(&b->job) == -1 || !open_counters(b))
		return false;
	count_validation(b);
	errno = b->page_error;
	if (*loaded && errno != 0)
		*loaded = refused_errno(b, "status page");
	return true;
}

/* One that no skill ran in. */
static void
end_sandbox(struct broker *b)
{
	spawn_kill(&b->sandbox);
	spawn_wait(&b->sandbox, -1);
	spawn_clear(&b->sandbox);
}

/* The whole life of the invocation; the exit status of this process. */
static int
live(struct broker *b)
{
	const struct broker_job *job = &b->job;
	char frontmatter_hash[DIGEST_HEX] = "";
	struct broker_message m;
	bool loaded;

	loaded = load(b, frontmatter_hash) && hash_files(b);
	if (!take_job_files(b, &loaded)) {
		end_sandbox(b);
		return 1;
	}
	/* Files are made before the supervisor syncs those of its books: one
	 * that is made meanwhile would wait for that. */
	loaded = loaded && plan_again(b) && bind_socket(b);
	socket_settle(&b->socket);
	if (!announce(b, frontmatter_hash)) {
		end_sandbox(b);
		return 1;
	}
	loaded = loaded && run_skill(b);
	if (!loaded)
		end_sandbox(b);
	if (b->segment == NULL && !open_segment(b))
		return 1;
	take_counts(b);
	b->dispatch.segment = b->segment;
	b->dispatch.log = &b->log;
	b->inv.digest = b->digest;
	record_end(b);
	rescue_rows(b);
	take_counts(b);
	if (segment_end(b->segment) == -1)
		log_line(&b->log, LOG_LEVEL_ERROR, "the ledger: %s",
		    strerror(errno));
	memset(&m, 0, sizeof(m));
	m.type = BROKER_RESULT;
	m.result = b->result;
	broker_send(job->control_fd, &m);
	clear(b);
	return loaded ? 0 : 1;
}

/* Whatever comes: init builds what is the same for every skill. */
static bool
get_ready(struct broker *b, struct room *room)
{
	/* A limit on file sizes is an error of a write, not our end. */
	signal(SIGXFSZ, SIG_IGN);
	settle_process(&b->job);
	b->digest = digest_new(NULL, 0);
	if (settle_descriptors(&b->job) == -1 || b->digest == NULL) {
		log_line(&b->log, LOG_LEVEL_ERROR, "start: %s",
		    strerror(errno));
		return false;
	}
	/* What a job says is the broker's alone. */
	if (room_hide(room) == -1)
		return false;
	b->planned = plan_any(b) == NULL;
	if (b->planned)
		spawn_prepare(&b->plan, &b->sandbox);
	if (b->job.early) {
		broker_rehearse(&b->job, b->digest);
		spawn_reap(&b->sandbox);
	}
	return true;
}

/* False: there will be none. */
static bool
take_job(struct broker *b, struct room *room)
{
	struct ring_end *sinks = b->job.tracer.sinks;
	size_t i;

	if (broker_job_receive(&b->job, room) == -1)
		return false;
	prctl(PR_SET_NAME, "cyberos-broker");
	b->log = b->job.log;
	if (tracer_open(&b->tracer, &b->job.tracer) == -1)
		log_line(&b->log, LOG_LEVEL_ERROR, "no spans: %s",
		    strerror(errno));
	for (i = 0; i < TRACER_SINKS; i++) {
		if (sinks[i].fd != -1)
			close(sinks[i].fd); /* it is mapped */
	}
	return true;
}

int
broker_run(const struct broker_job *any, struct room *room)
{
	struct broker *b = calloc(1, sizeof(*b));
	int status = 1;

	if (b == NULL)
		return 1;
	init(b, any);
	if (get_ready(b, room)) {
		status = 0;
		if (take_job(b, room))
			status = live(b);
		else
			end_sandbox(b);
	}
	free(b);
	return status;
}
