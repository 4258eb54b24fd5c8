/*
 * The command line: one table, from which help is made and which finds what
 * to run. No command begins with the words of another.
 */

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/author.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "supervisor/sign.h"

static const struct command {
	const char *words;
	const char *args;
	int (*run)(int, char **);
	const char *help;
} commands[] = {
	{ "skill broker run", "[OPTIONS] SKILL [-- ARG...]", run_main,
	    "run one skill to its end" },
	{ "skill broker supervise", "[--max N] [OPTIONS]", supervise_main,
	    "run many: requests in, events out, one JSON a line" },
	{ "skill broker status", "[--json|--human]", inspect_status,
	    "what runs now, and today's totals" },
	{ "skill broker tail", "--invocation ID [--json] [--wait SECONDS]",
	    ledger_tail, "a line for each call, as it occurs" },
	{ "skill broker replay", "--invocation ID [--json|--format csv]",
	    ledger_replay, "the calls of a past invocation" },
	{ "skill broker verify",
	    "[--invocation ID|--day DAY] [--expect HSEQ:HASH] [--json]",
	    ledger_verify, "prove the ledger intact, or name what is not" },
	{ "skill broker metrics", "[--openmetrics] [--output FILE]",
	    inspect_metrics, "what was counted, as Prometheus text" },
	{ "skill broker sweep", "", sweep_main,
	    "clean up after brokers and supervisors that died" },
	{ "skill broker quarantine", "list|release KEY|SKILL", quarantine_main,
	    "skills that tried to escape: show them, let one go" },
	{ "skill broker doctor", "[--json]", doctor_main,
	    "what this host can enforce, tried" },
	{ "skill broker bench", "[--json]", bench_main,
	    "what a start and a call cost here, and what is left" },
	{ "skill broker tools", "", inspect_tools,
	    "every tool with its JSON Schema" },
	{ "skill validate", "DIR...", author_validate,
	    "check SKILL.md and say what to change" },
	{ "skill scaffold", "ID [DIR] [--lang LANGUAGE]", scaffold_main,
	    "begin a skill that runs" },
	{ "skill try", "[OPTIONS] DIR [-- ARG...]", try_main,
	    "run a skill in a store that is thrown away, and tell" },
	{ "skill import", "DIR [OUT] [--id ID]", import_main,
	    "make a skill of a SKILL.md of another kind" },
	{ "skill keygen", "[FILE]", sign_keygen,
	    "make a key that signs skills" },
	{ "skill sign", "DIR --key FILE", sign_skill,
	    "sign a skill and all its files" },
	{ "skill call", "TOOL [JSON | - | key=value ...]", client_call,
	    "inside the sandbox: one tool call" },
};

#define COMMANDS_N (sizeof(commands) / sizeof(commands[0]))

/* Does the command begin with these words? */
static bool
begins(const char *words, int argc, char **argv)
{
	size_t n;
	int i;

	for (i = 0; i < argc; i++) {
		n = strlen(argv[i]);
		if (n == 0 || strcspn(words, " ") != n ||
		    memcmp(words, argv[i], n) != 0)
			return false;
		words += n + (words[n] == ' ');
	}
	return true;
}

static size_t
count(int argc, char **argv)
{
	size_t i, n = 0;

	for (i = 0; i < COMMANDS_N; i++)
		n += begins(commands[i].words, argc, argv);
	return n;
}

/* The commands that begin with these words. */
static void
help(FILE *out, int argc, char **argv)
{
	size_t i;

	fputs("usage: cyberos COMMAND ...\n\n", out);
	for (i = 0; i < COMMANDS_N; i++) {
		if (!begins(commands[i].words, argc, argv))
			continue;
		fprintf(out, "  cyberos %s%s%s\n      %s\n",
		    commands[i].words, commands[i].args[0] == '\0' ? "" : " ",
		    commands[i].args, commands[i].help);
	}
	fputs("\n  cyberos COMMAND --help tells more; cyberos --version the "
	      "version.\n",
	    out);
}

/* How many words of argv the command's name takes; 0: it is another one. */
static int
match(const char *words, int argc, char **argv)
{
	size_t n;
	int used = 0;

	while (*words != '\0') {
		n = strcspn(words, " ");
		if (used >= argc || strlen(argv[used]) != n ||
		    memcmp(argv[used], words, n) != 0)
			return 0;
		used++;
		words += n + (words[n] == ' ');
	}
	return used;
}

/* No command of ours: the help that was asked for, or what comes near. */
static int
no_command(int argc, char **argv)
{
	int known = argc;

	if (argc > 0 && strcmp(argv[argc - 1], "--help") == 0 &&
	    count(argc - 1, argv) > 0) {
		help(stdout, argc - 1, argv);
		return EXIT_FINE;
	}
	while (count(known, argv) == 0)
		known--;
	if (known < argc)
		fprintf(stderr, "cyberos: %s: no such command\n", argv[known]);
	help(stderr, known, argv);
	return EXIT_USAGE;
}

static int
command(int argc, char **argv)
{
	size_t i;
	int used;

	if (argc > 0 && strcmp(argv[0], "--version") == 0) {
		puts("cyberos " CYBEROS_VERSION);
		return EXIT_FINE;
	}
	for (i = 0; i < COMMANDS_N; i++) {
		used = match(commands[i].words, argc, argv);
		if (used > 0)
			return commands[i].run(argc - used + 1, argv + used - 1);
	}
	return no_command(argc, argv);
}

int
main(int argc, char **argv)
{
	int status = command(argc > 0 ? argc - 1 : 0, argv + 1);

	/* Half an answer is no answer. */
	if ((fflush(stdout) != 0 || ferror(stdout)) && status == EXIT_FINE) {
		fputs("cyberos: standard output cannot be written\n", stderr);
		status = EXIT_FAILED;
	}
	return status;
}
