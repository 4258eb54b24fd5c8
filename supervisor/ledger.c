/*
 * What auditors ask of the ledger: is it whole, what happened, what happens
 * now. Everything here only reads. Whatever a skill had recorded, a terminal
 * sees text: control, C1 and bidirectional characters are escaped.
 */

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/buf.h"
#include "audit/clock.h"
#include "audit/json.h"
#include "audit/store.h"
#include "audit/verify.h"
#include "enforce/manifest.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "supervisor/settings.h"

#define BAR_WIDTH 30

/* The words of a command line that are not its own. */
struct asked {
	struct settings_options options;
	const char *invocation;
	const char *day;
	const char *expect;
	bool json;
};

/* --- verify --- */

static const char verify_usage[] =
    "usage: cyberos skill broker verify [--invocation ID | --day YYYY-MM-DD]\n"
    "           [--expect HSEQ:HASH] [--json] [--store DIR] [--config FILE]\n";

static const char verify_help[] =
    "\n"
    "Prove the ledger intact, or name what does not hold by file, line and\n"
    "check. It may run while skills run.\n"
    "\n"
    "  --invocation ID     the segment of this invocation, and its anchors\n"
    "  --day YYYY-MM-DD    the segments of this day (UTC), and their anchors\n"
    "  --expect HSEQ:HASH  anchor HSEQ must be there, with this hash: what\n"
    "                      you kept of a --result (hseq, host_head)\n"
    "  --json              one JSON object\n"
    "  --store DIR         where ledger and memory live\n"
    "  --config FILE       operator's configuration\n"
    "  --help              this text\n"
    "\n"
    "Exit status: 0 intact; 6 tampered with or damaged; 1 a crash left\n"
    "something, or it cannot be read; 2 usage, 3 configuration, 5 not "
    "permitted.\n";

struct progress {
	int64_t begun;
	int64_t shown; /* clock_boot of the last time; 0: never */
};

/* A bar for who waits longer than a second. */
static void
show_progress(void *arg, const char *day, uint64_t done, uint64_t of)
{
	struct progress *p = arg;
	int64_t now = clock_boot();
	int i, filled;

	if (now - p->begun < CLOCK_SECOND || now - p->shown < 100 * CLOCK_MS ||
	    of == 0)
		return;
	p->shown = now;
	if (done > of)
		done = of;
	filled = (int)(done * BAR_WIDTH / of);
	fprintf(stderr, "\r%s [", day);
	for (i = 0; i < BAR_WIDTH; i++)
		fputc(i < filled ? '#' : ' ', stderr);
	fprintf(stderr, "] %3d %%", (int)(done * 100 / of));
}

static void
end_progress(const struct progress *p)
{
	if (p->shown != 0)
		fprintf(stderr, "\r%*s\r", BAR_WIDTH + 20, "");
}

static const char *
verify_status(const struct verify_report *r)
{
	return r->level[VERIFY_DAMAGED] > 0	 ? "damaged"
	       : r->level[VERIFY_UNREADABLE] > 0 ? "unreadable"
	       : r->level[VERIFY_LEFT] > 0	 ? "leftovers"
						 : "intact";
}

static void
verify_json(const struct verify_report *r)
{
	static const char *const levels[] = { "damaged", "leftover",
		"unreadable" };
	const struct verify_finding *f;
	struct buf b;
	size_t i;

	printf("{\"status\":\"%s\",\"rows\":%" PRIu64 ",\"anchors\":%" PRIu64
	       ",\"segments\":%" PRIu64 ",\"running\":%" PRIu64
	       ",\"days\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"torn\":%" PRIu64
	       ",\"hseq\":%" PRIu64 ",\"host_head\":\"%s\",\"found\":%" PRIu64
	       ",\"findings\":[",
	    verify_status(r), r->rows, r->anchors, r->segments, r->running,
	    r->days, r->lost, r->torn, r->hseq, r->head,
	    r->level[VERIFY_DAMAGED] + r->level[VERIFY_LEFT] +
		r->level[VERIFY_UNREADABLE]);
	for (i = 0; i < r->n; i++) {
		f = &r->finding[i];
		buf_init(&b, 8192);
		buf_puts(&b, "\"file\":");
		json_put_string(&b, f->file, strlen(f->file));
		if (f->line > 0)
			buf_printf(&b, ",\"line\":%" PRIu64, f->line);
		else
			buf_puts(&b, ",\"line\":null");
		buf_printf(&b, ",\"check\":\"%s\",\"message\":", f->check);
		json_put_string(&b, f->message, strlen(f->message));
		printf("%s{\"level\":\"%s\",%.*s}", i == 0 ? "" : ",",
		    levels[f->level], (int)b.len, b.data);
		buf_clear(&b);
	}
	printf("]}\n");
}

static void
verify_text(const struct verify_report *r)
{
	char file[1300], message[900];
	const struct verify_finding *f;
	uint64_t all = r->level[VERIFY_DAMAGED] + r->level[VERIFY_LEFT] +
		       r->level[VERIFY_UNREADABLE];
	size_t i;

	for (i = 0; i < r->n; i++) {
		f = &r->finding[i];
		manifest_printable(file, sizeof(file), f->file);
		manifest_printable(message, sizeof(message), f->message);
		if (f->line > 0)
			printf("%s:%" PRIu64 ": %s: %s\n", file, f->line,
			    f->check, message);
		else
			printf("%s: %s: %s\n", file, f->check, message);
	}
	if (all > r->n)
		printf("... and %" PRIu64 " more\n", all - r->n);
	printf("%s: %" PRIu64 " rows in %" PRIu64 " segments (%" PRIu64
	       " running), %" PRIu64 " anchors, %" PRIu64 " days\n",
	    verify_status(r), r->rows, r->segments, r->running, r->anchors,
	    r->days);
	if (r->lost > 0)
		printf("%" PRIu64 " rows were lost when they could not be "
		       "written, as the ledger says\n",
		    r->lost);
	if (r->torn > 0)
		printf("%" PRIu64 " fragments that crashes left, as the ledger "
		       "says\n",
		    r->torn);
	printf("head %" PRIu64 ":%s\n", r->hseq, r->head);
}

static int
verify_of(const struct asked *a, const struct verify_wish *wish)
{
	struct verify_report *r = calloc(1, sizeof(*r));
	struct progress p = { clock_boot(), 0 };
	struct verify_wish w = *wish;
	struct store store;
	int result;

	if (r == NULL)
		err(EXIT_FAILED, NULL);
	if (isatty(STDERR_FILENO)) {
		w.progress = show_progress;
		w.arg = &p;
	}
	result = settings_look(&a->options, &store, NULL);
	if (result != EXIT_FINE) {
		free(r);
		return result;
	}
	if (verify_run(&store, &w, r) == -1) {
		result = EXIT_FAILED;
		end_progress(&p);
		if (errno == ENOENT &&
		    (a->invocation != NULL || a->day != NULL))
			warnx("%s: not in this ledger",
			    a->invocation != NULL ? a->invocation : a->day);
		else
			warn("verify");
	} else {
		end_progress(&p);
		(a->json ? verify_json : verify_text)(r);
		result = r->level[VERIFY_DAMAGED] > 0 ? EXIT_INVALID
			 : r->level[VERIFY_LEFT] > 0 ||
				 r->level[VERIFY_UNREADABLE] > 0
			     ? EXIT_FAILED
			     : EXIT_FINE;
	}
	store_close(&store);
	free(r);
	return result;
}

/* "HSEQ:HASH" */
static bool
take_expect(const char *text, struct verify_wish *w)
{
	char *end;

	if (text == NULL)
		return true;
	if (text[0] < '1' || text[0] > '9')
		return false;
	errno = 0;
	w->expect_hseq = strtoull(text, &end, 10);
	w->expect_hash = end + 1;
	return errno == 0 && *end == ':' &&
	       strlen(w->expect_hash) == DIGEST_HEX - 1 &&
	       strspn(w->expect_hash, "0123456789abcdef") == DIGEST_HEX - 1;
}

int
ledger_verify(int argc, char **argv)
{
	static const struct option options[] = {
		{ "invocation", required_argument, NULL, 'i' },
		{ "day", required_argument, NULL, 'd' },
		{ "expect", required_argument, NULL, 'e' },
		{ "json", no_argument, NULL, 'j' },
		{ "store", required_argument, NULL, 's' },
		{ "config", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'H' },
		{ NULL, 0, NULL, 0 },
	};
	struct asked a;
	struct verify_wish w;
	int opt;
	bool fine = true;

	memset(&a, 0, sizeof(a));
	memset(&w, 0, sizeof(w));
	w.patience = VERIFY_PATIENCE;
	optind = 0; /* glibc: begin anew */
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'i':
			a.invocation = w.invocation = optarg;
			break;
		case 'd':
			a.day = w.day = optarg;
			break;
		case 'e':
			a.expect = optarg;
			break;
		case 'j':
			a.json = true;
			break;
		case 's':
			a.options.store = optarg;
			break;
		case 'c':
			a.options.config = optarg;
			break;
		case 'H':
			printf("%s%s", verify_usage, verify_help);
			return EXIT_FINE;
		default:
			fine = false;
		}
	}
	if (!fine || optind < argc || (a.invocation != NULL && a.day != NULL) ||
	    (a.invocation != NULL && !store_is_uuid(a.invocation)) ||
	    (a.day != NULL && !store_is_day(a.day)) || !take_expect(a.expect, &w)) {
		fputs(verify_usage, stderr);
		return EXIT_USAGE;
	}
	return verify_of(&a, &w);
}
