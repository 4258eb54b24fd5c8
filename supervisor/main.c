/*
 * The command line: one table, from which help is made and which finds what
 * to run. The longest match of leading words wins.
 */

#include <stdio.h>
#include <string.h>

#include "supervisor/author.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"

static const struct command {
	const char *words;
	const char *args;
	int (*run)(int, char **);
	const char *help;
} commands[] = {
	{ "skill broker run", "[OPTIONS] SKILL [-- ARG...]", run_main,
	    "run one skill to its end" },
	{ "skill broker status", "[--json|--human]", inspect_status,
	    "what runs now, and today's totals" },
	{ "skill broker tools", "", inspect_tools,
	    "every tool with its JSON Schema" },
	{ "skill validate", "DIR...", author_validate,
	    "check SKILL.md and say what to change" },
	{ "skill call", "TOOL [JSON | key=value ...]", client_call,
	    "inside the sandbox: one tool call" },
};

#define COMMANDS_N (sizeof(commands) / sizeof(commands[0]))

static void
help(FILE *out)
{
	size_t i;

	fputs("usage: cyberos COMMAND ...\n\n", out);
	for (i = 0; i < COMMANDS_N; i++)
		fprintf(out, "  cyberos %s %s\n      %s\n", commands[i].words,
		    commands[i].args, commands[i].help);
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

int
main(int argc, char **argv)
{
	size_t i;
	int used;

	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		puts("cyberos " CYBEROS_VERSION);
		return EXIT_FINE;
	}
	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		help(stdout);
		return EXIT_FINE;
	}
	for (i = 0; argc > 1 && i < COMMANDS_N; i++) {
		used = match(commands[i].words, argc - 1, argv + 1);
		if (used > 0)
			return commands[i].run(argc - used, argv + used);
	}
	help(stderr);
	return EXIT_USAGE;
}
