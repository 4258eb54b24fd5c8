/*
 * A skill at its author's desk: judged, run behind the same sandbox and the
 * same operator's ceilings as anywhere else, and told about afterwards. Its
 * store is a directory of its own that is gone when this command ends, however
 * it ends; nothing of the caller's store is read or written. What the skill did
 * is taken from the rows of that store's ledger, what to change from the
 * table of reasons.
 */

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "audit/digest.h"
#include "audit/json.h"
#include "broker/broker.h"
#include "enforce/verdict.h"
#include "supervisor/author.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "supervisor/settings.h"
#include "supervisor/story.h"
#include "supervisor/terminal.h"
#include "supervisor/tree.h"
#include "tools/registry.h"

#define RESULT_MAX 65536
#define WORDS_MAX 24
#define HINT_INDENT 4

struct try {
	const char *dir;
	const char *config;
	const char *deadline;
	const char *sandbox;
	const char *tenant;
	char **args; /* of the skill, NULL-terminated */
	int args_n;
	char place[PATH_MAX]; /* the throw-away directory; "" before */
	char store[PATH_MAX];
	char result[PATH_MAX];
};

static const char try_usage[] =
    "usage: cyberos skill try [OPTIONS] DIR [-- ARG...]\n";

static const char try_help[] =
    "\n"
    "Run the skill in DIR with an empty memory that is thrown away afterwards,\n"
    "and tell what it did: every call, for a refused one what to change, how it\n"
    "ended. Nothing else is different from `cyberos skill broker run`.\n"
    "\n"
    "  --config FILE       operator's configuration\n"
    "  --deadline SECONDS  less time than the skill's effort_minutes\n"
    "  --sandbox MODE      required (default) or best-effort\n"
    "  --tenant UUID       for a skill that is pinned to a tenant\n"
    "  --help              this text\n"
    "\n"
    "Exit status: that of `run`: the skill's own; 6 SKILL.md is invalid, 126\n"
    "main cannot be executed, 127 there is no SKILL.md, 2 usage, 3\n"
    "configuration.\n";

static const struct option options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "deadline", required_argument, NULL, 'd' },
	{ "sandbox", required_argument, NULL, 's' },
	{ "tenant", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* 0 go on; else the exit status, plus one. */
static int
parse_options(struct try *t, int argc, char **argv)
{
	int opt;

	optind = 0; /* glibc: begin anew */
	while ((opt = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		switch (opt) {
		case 'c':
			t->config = optarg;
			break;
		case 'd':
			t->deadline = optarg;
			break;
		case 's':
			t->sandbox = optarg;
			break;
		case 't':
			t->tenant = optarg;
			break;
		case 'h':
			printf("%s%s", try_usage, try_help);
			return EXIT_FINE + 1;
		default:
			fputs(try_usage, stderr);
			return EXIT_USAGE + 1;
		}
	}
	if (optind >= argc || argv[optind][0] == '\0') {
		warnx("which skill? Name its directory");
		fputs(try_usage, stderr);
		return EXIT_USAGE + 1;
	}
	t->dir = argv[optind++];
	if (optind < argc && strcmp(argv[optind], "--") == 0)
		optind++;
	else if (optind < argc) {
		warnx("%s: arguments for the skill come after --",
		    argv[optind]);
		return EXIT_USAGE + 1;
	}
	t->args = argv + optind;
	t->args_n = argc - optind;
	return 0;
}

/* --- the place --- */

/* 0, or the exit status after a message. */
static int
make_place(struct try *t)
{
	if (tree_make(t->place, "try") == -1)
		return EXIT_FAILED;
	snprintf(t->store, sizeof(t->store), "%.4000s/store", t->place);
	snprintf(t->result, sizeof(t->result), "%.4000s/result", t->place);
	return 0;
}

/* --- words for other commands --- */

struct words {
	char *v[WORDS_MAX + 1];
	int n;
};

static void
add_word(struct words *w, const char *word)
{
	/* One more than there is room for is seen by its NULL. */
	if (w->n < WORDS_MAX)
		w->v[w->n++] = strdup(word);
}

static void
add_option(struct words *w, const char *name, const char *value)
{
	if (value == NULL)
		return;
	add_word(w, name);
	add_word(w, value);
}

static bool
words_whole(const struct words *w)
{
	int i;

	for (i = 0; i < w->n; i++)
		if (w->v[i] == NULL)
			return false;
	return w->n < WORDS_MAX;
}

static void
free_words(struct words *w)
{
	while (w->n > 0)
		free(w->v[--w->n]);
}

/* --- before --- */

/* The same judgement as a run's, with all errors and warnings. */
static int
judge(const struct try *t)
{
	struct words w = { .n = 0 };
	int status = EXIT_RUN_BROKER;

	add_word(&w, "validate");
	add_option(&w, "--config", t->config);
	add_word(&w, "--");
	add_word(&w, t->dir);
	if (words_whole(&w))
		status = author_validate(w.n, w.v);
	else
		warn(NULL);
	free_words(&w);
	if (fflush(stdout) != 0 || ferror(stdout))
		return EXIT_RUN_BROKER; /* nobody would see the calls */
	return status == EXIT_FAILED ? EXIT_RUN_NO_SKILL : status;
}

/* May it have a store of its own? 0, or the exit status after a message. */
static int
check_settings(const struct try *t)
{
	struct settings_options o = { t->config, t->store, NULL, NULL,
		t->sandbox };
	struct settings s = { 0 };
	char why[1024];
	int status = 0;

	if (settings_load(&s, &o, why, sizeof(why)) == -1) {
		warnx("%s", why);
		if (strncmp(why, "store:", 6) == 0)
			warnx("try needs a store of its own; use `cyberos "
			      "skill broker run`, or ask the operator");
		status = EXIT_CONFIG;
	}
	settings_clear(&s);
	return status;
}

/* --- the run --- */

/* In the child: run, with words as from a command line. */
static int
run_words(const struct try *t)
{
	struct words w = { .n = 0 };
	char **argv, dir[PATH_MAX + 4];

	add_word(&w, "run");
	add_option(&w, "--store", t->store);
	add_option(&w, "--result", t->result);
	add_option(&w, "--config", t->config);
	add_option(&w, "--deadline", t->deadline);
	add_option(&w, "--sandbox", t->sandbox);
	add_option(&w, "--tenant", t->tenant);
	/* With a slash it is a directory, never an id; and never an option. */
	snprintf(dir, sizeof(dir), "%s%s/", t->dir[0] == '/' ? "" : "./",
	    t->dir);
	add_word(&w, dir);
	add_word(&w, "--");
	argv = calloc((size_t)(w.n + t->args_n) + 1, sizeof(*argv));
	if (argv == NULL || !words_whole(&w))
		return EXIT_RUN_BROKER;
	memcpy(argv, w.v, (size_t)w.n * sizeof(*argv));
	memcpy(argv + w.n, t->args, (size_t)t->args_n * sizeof(*argv));
	return run_main(w.n + t->args_n, argv);
}

/* From here on nothing ends us before everything is removed. */
static void
hold_signals(sigset_t *held, sigset_t *before)
{
	sigemptyset(held);
	sigaddset(held, SIGINT);
	sigaddset(held, SIGTERM);
	sigaddset(held, SIGQUIT);
	sigaddset(held, SIGHUP);
	sigaddset(held, SIGPIPE);
	sigaddset(held, SIGCHLD);
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_BLOCK, held, before);
}

/*
 * Wait for the child. What somebody sends us is the child's; what the terminal
 * sends, it got by itself.
 */
static int
wait_for(pid_t pid, const sigset_t *held)
{
	siginfo_t info;
	int status;
	pid_t got;

	for (;;) {
		got = waitpid(pid, &status, WNOHANG);
		if (got == pid)
			break;
		if (got == -1 && errno != EINTR)
			return EXIT_RUN_BROKER;
		if (sigwaitinfo(held, &info) > 0 && info.si_signo != SIGCHLD &&
		    info.si_signo != SIGPIPE && info.si_code != SI_KERNEL)
			kill(pid, info.si_signo);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 128 + WTERMSIG(status);
}

static int
run(const struct try *t, const sigset_t *held, const sigset_t *before)
{
	pid_t pid, parent = getpid();
	int status;

	pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, before, NULL);
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			_exit(EXIT_RUN_BROKER);
		status = run_words(t);
		fflush(stdout);
		_exit(status);
	}
	if (pid == -1) {
		warn("fork");
		return EXIT_RUN_BROKER;
	}
	return wait_for(pid, held);
}

/* --- afterwards --- */

/* A sentence below a line. */
static void
print_hint(const char *hint)
{
	printf("%*s", HINT_INDENT, "");
	terminal_sentence(hint, HINT_INDENT, HINT_INDENT);
}

/* A ceiling has one word for four tables: which one, by the tool's argument. */
static enum reason
ceiling_of(const struct story_entry *e)
{
	const struct tool *tool =
	    e->tool == NULL ? NULL : registry_find(e->tool);
	const struct tool_arg *a;

	if (tool == NULL || e->resource == NULL)
		return REASON_TOOL_CEILING;
	for (a = tool->args; a->name != NULL; a++) {
		switch (a->check) {
		case CHECK_NONE:
			break;
		case CHECK_FILE_READ:
		case CHECK_FILE_WRITE:
		case CHECK_FILE_BELOW:
			return REASON_FILE_CEILING;
		case CHECK_MEMORY_READ:
		case CHECK_MEMORY_WRITE:
		case CHECK_MEMORY_BELOW:
			return REASON_SCOPE_CEILING;
		}
	}
	return REASON_DOMAIN_CEILING;
}

/* What the author can do about it, or NULL. */
static const char *
hint_of(const struct story_entry *e)
{
	int i;

	if (!e->is_call && strcmp(e->outcome, "skill.cap_bypass_attempt") != 0)
		return NULL;
	if (!e->is_call)
		return e->tool != NULL && strcmp(e->tool, "socket") == 0
		    ? "there is no network in the sandbox; HttpFetch and "
		      "HttpPost reach what x-allowed-domains names"
		    : "the sandbox refused this system call; a skill asks the "
		      "broker for what it needs";
	if (e->reason == NULL)
		return NULL;
	if (strcmp(e->reason, verdict_info(REASON_TOOL_CEILING)->reason) == 0)
		return verdict_info(ceiling_of(e))->hint;
	for (i = REASON_NONE + 1; i < REASON_COUNT; i++)
		if (strcmp(e->reason, verdict_info((enum reason)i)->reason) ==
		    0)
			return verdict_info((enum reason)i)->hint;
	return NULL;
}

static void
print_calls(const struct story *s)
{
	bool color = terminal_color();
	const char *hint;
	size_t i;

	putchar('\n');
	if (s->n > 0)
		story_heading();
	for (i = 0; i < s->n; i++) {
		story_line(&s->v[i], color);
		hint = hint_of(&s->v[i]);
		if (hint != NULL)
			print_hint(hint);
	}
}

/* The calls of its only invocation, from the ledger. */
static void
tell_calls(const struct try *t, const char *invocation)
{
	const struct story_entry *done;
	enum trail_event event = TRAIL_FAILED;
	struct digest *digest = digest_new(NULL, 0);
	struct trail_row row;
	struct trail trail;
	struct story s;
	struct store store;

	memset(&s, 0, sizeof(s));
	if (digest == NULL || settings_open_store(t->store, &store) != 0)
		goto out;
	if (trail_open(&trail, &store, invocation, digest) == 0) {
		while ((event = trail_next(&trail, &row)) == TRAIL_ROW &&
		    story_take(&s, &row, &done) != -1)
			continue;
		trail_close(&trail);
	}
	store_close(&store);
	print_calls(&s);
out:
	if (event != TRAIL_END)
		warnx("the ledger cannot be read to its end");
	story_clear(&s);
	digest_free(digest);
}

static cJSON *
read_result(const struct try *t)
{
	char text[RESULT_MAX];
	cJSON *root = NULL;
	ssize_t n;
	int fd;

	fd = open(t->result, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1)
		return NULL;
	n = read(fd, text, sizeof(text));
	if (n > 0)
		root = json_parse(text, (size_t)n, false);
	close(fd);
	return root;
}

static int
number_of(const cJSON *result, const char *name)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(result, name);

	return cJSON_IsNumber(v) ? (int)v->valuedouble : 0;
}

/* What can be done about an end that is not the skill's own. */
static void
hint_end(const char *outcome, int status)
{
	if (strcmp(outcome, "timeout") == 0)
		print_hint("it took too long; raise effort_minutes in "
			   "SKILL.md, or --deadline");
	else if (strcmp(outcome, "no_connect") == 0)
		print_hint("it ran for a minute and asked the broker for "
			   "nothing");
	else if (status == EXIT_RUN_NO_EXEC)
		print_hint("main needs a first line such as #!/bin/sh with a "
			   "program that is there, and chmod +x");
	else if (strcmp(outcome, "panic") == 0 && status > 128)
		print_hint("it crashed; if memory ran out, see x-memory-mb");
}

static void
tell_end(const cJSON *result, int status)
{
	const char *outcome = json_member_text(result, "outcome");
	const char *why = json_member_text(result, "error_message");
	int signal_no = number_of(result, "signal"), rejected;
	char shown[2048];

	rejected = number_of(result, "rejected");
	printf("%d calls, %d denied, %d rejected\n",
	    number_of(result, "calls"), number_of(result, "denied"), rejected);
	if (rejected > 0)
		print_hint("a rejected request had wrong arguments or was no "
			   "JSON-RPC; the answer to it says which");
	printf("ended: %s, exit status %d", outcome, status);
	if (signal_no != 0)
		printf(", signal %d", signal_no);
	printf("\n");
	if (why[0] != '\0')
		print_hint(manifest_printable(shown, sizeof(shown), why));
	hint_end(outcome, status);
}

static void
tell(const struct try *t, int status)
{
	cJSON *result = read_result(t);
	const char *invocation = json_member_text(result, "invocation_id");
	const char *segment = json_member_text(result, "segment");

	if (result == NULL) {
		printf("ended: exit status %d\n", status);
		return;
	}
	if (segment[0] != '\0')
		tell_calls(t, invocation);
	tell_end(result, status);
	cJSON_Delete(result);
}

int
try_main(int argc, char **argv)
{
	struct try t = { 0 };
	sigset_t held, before;
	int status;

	status = parse_options(&t, argc, argv);
	if (status != 0)
		return status - 1;
	status = judge(&t);
	if (status != 0)
		return status;
	hold_signals(&held, &before);
	status = make_place(&t);
	if (status != 0)
		return status;
	status = check_settings(&t);
	if (status == 0) {
		status = run(&t, &held, &before);
		tell(&t, status);
	}
	tree_remove(t.place);
	return status;
}
