/*
 * `quarantine list` and `quarantine release`: what the operator sees of the
 * skills that are held, and lets go.
 */

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/json.h"
#include "audit/quarantine.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "supervisor/settings.h"

static const char usage_text[] =
    "usage: cyberos skill broker quarantine list [--json] [--store DIR]\n"
    "           [--config FILE]\n"
    "       cyberos skill broker quarantine release KEY|SKILL\n"
    "           [--store DIR] [--config FILE]\n";

static const char help_text[] =
    "\n"
    "Skills that tried to escape their sandbox (quarantine_after): list those\n"
    "that are held or have attempts of the last 24 hours; release one that is\n"
    "held, by its key (its first digits will do) or, when only one version of\n"
    "it is held, by its id.\n"
    "\n"
    "  --json          one JSON object\n"
    "  --store DIR     where ledger and memory live\n"
    "  --config FILE   operator's configuration\n"
    "  --help          this text\n"
    "\n"
    "Exit status: 0 fine, 1 failed or none such is held, 2 usage,\n"
    "3 configuration, 5 not permitted.\n";

struct wish {
	struct settings_options options;
	const char *what; /* to release; NULL: list */
	bool json;
};

static void
print_json(const struct quarantine_entry *list, size_t n)
{
	char since[CLOCK_STAMP_SIZE];
	struct buf b;
	size_t i;

	buf_init(&b, n * 2048 + 64);
	buf_puts(&b, "{\"skills\":[");
	for (i = 0; i < n; i++) {
		buf_printf(&b, "%s{\"key\":\"%s\",\"skill_id\":",
		    i == 0 ? "" : ",", list[i].key);
		json_put_string(&b, list[i].skill.skill_id,
		    strlen(list[i].skill.skill_id));
		buf_puts(&b, ",\"version\":");
		json_put_string(&b, list[i].skill.version,
		    strlen(list[i].skill.version));
		buf_printf(&b, ",\"frontmatter_hash\":\"%s\","
			       "\"files_sha256\":\"%s\",\"held\":%s,\"since\":",
		    list[i].skill.frontmatter_hash, list[i].skill.files_sha256,
		    list[i].held ? "true" : "false");
		clock_stamp(list[i].since_ms * CLOCK_MS, since);
		if (list[i].held)
			buf_printf(&b, "\"%s\"", since);
		else
			buf_puts(&b, "null");
		buf_printf(&b, ",\"attempts\":%llu}",
		    (unsigned long long)list[i].attempts);
	}
	buf_puts(&b, "]}\n");
	fwrite(b.data, 1, b.len, stdout);
	buf_clear(&b);
}

static void
print_table(const struct quarantine_entry *list, size_t n)
{
	char since[CLOCK_STAMP_SIZE];
	size_t i;

	if (n == 0) {
		puts("nothing is held");
		return;
	}
	printf("%-12s %-24s %-12s %8s %s\n", "KEY", "SKILL", "VERSION",
	    "ATTEMPTS", "HELD SINCE (UTC)");
	for (i = 0; i < n; i++) {
		clock_stamp(list[i].since_ms * CLOCK_MS, since);
		/* id and version are of our patterns: no terminal minds them. */
		printf("%.12s %-24.24s %-12.12s %8llu %.19s\n", list[i].key,
		    list[i].skill.skill_id, list[i].skill.version,
		    (unsigned long long)list[i].attempts,
		    list[i].held ? since : "-");
	}
}

/* How many that are held go by this key or id; *at is the last of them. */
static size_t
find(const struct quarantine_entry *list, size_t n, const char *what,
    size_t *at)
{
	size_t i, found = 0;

	for (i = 0; i < n; i++) {
		if (list[i].held &&
		    (strcmp(list[i].skill.skill_id, what) == 0 ||
			(strlen(what) >= 8 &&
			    strncmp(list[i].key, what, strlen(what)) == 0))) {
			*at = i;
			found++;
		}
	}
	return found;
}

static int
release(const struct store *store, struct digest *digest,
    const struct quarantine_entry *list, size_t n, const char *what)
{
	size_t at = 0, found = find(list, n, what, &at);

	if (found == 0) {
		warnx("%s: no such skill is held; see quarantine list", what);
		return EXIT_FAILED;
	}
	if (found > 1) {
		warnx("%s: %zu versions are held; name one by its key", what,
		    found);
		return EXIT_FAILED;
	}
	if (quarantine_release(store, digest, list[at].key) == -1) {
		warn("%s", what);
		return EXIT_FAILED;
	}
	printf("released %s %s\n", list[at].skill.skill_id,
	    list[at].skill.version);
	return EXIT_FINE;
}

static int
do_it(const struct store *store, const struct wish *w)
{
	struct quarantine_entry *list;
	struct digest *digest = digest_new(NULL, 0);
	size_t n;
	int result = EXIT_FINE;

	if (digest == NULL)
		err(EXIT_FAILED, NULL);
	if (quarantine_list(store, digest, &list, &n) == -1) {
		warn("quarantine");
		digest_free(digest);
		return EXIT_FAILED;
	}
	if (w->what != NULL)
		result = release(store, digest, list, n, w->what);
	else if (w->json)
		print_json(list, n);
	else
		print_table(list, n);
	free(list);
	digest_free(digest);
	return result;
}

static bool
take_operands(struct wish *w, int argc, char **argv)
{
	if (argc == 1 && strcmp(argv[0], "list") == 0)
		return true;
	if (argc != 2 || strcmp(argv[0], "release") != 0 || w->json)
		return false;
	w->what = argv[1];
	return true;
}

int
quarantine_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "store", required_argument, NULL, 's' },
		{ "config", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'H' },
		{ NULL, 0, NULL, 0 },
	};
	struct wish w;
	struct store store;
	int opt, result;

	memset(&w, 0, sizeof(w));
	optind = 0; /* glibc: begin anew */
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'j':
			w.json = true;
			break;
		case 's':
			w.options.store = optarg;
			break;
		case 'c':
			w.options.config = optarg;
			break;
		case 'H':
			printf("%s%s", usage_text, help_text);
			return EXIT_FINE;
		default:
			fputs(usage_text, stderr);
			return EXIT_USAGE;
		}
	}
	if (!take_operands(&w, argc - optind, argv + optind)) {
		fputs(usage_text, stderr);
		return EXIT_USAGE;
	}
	result = settings_look(&w.options, &store, NULL);
	if (result != EXIT_FINE)
		return result;
	result = do_it(&store, &w);
	store_close(&store);
	return result;
}
