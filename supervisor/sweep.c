/*
 * The sweep. A lock that nobody holds is the mark of a broker and a supervisor
 * that are gone; the kernel has dropped it with them, so no process id is
 * guessed. A socket is removed only if it is the one that was made, and nobody
 * answers at it.
 */

#include "supervisor/sweep.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/counters.h"
#include "audit/roll.h"
#include "broker/broker.h"
#include "broker/socket.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "supervisor/settings.h"

#define SOME 16 /* locks that one start looks at */

struct sweep {
	struct recover recover;
	struct broker_names names;
	const char *socket_dir; /* where sockets are now; or NULL */
	const struct log *log;	/* NULL: standard output */
	size_t most;		/* invocations that are still looked at */
	uint64_t did[RECOVER_FAILED + 1];
	uint64_t sockets;
	struct roll failed; /* at these, in this sweep */
};

static const char *const sentences[] = {
	[RECOVER_CLOSED] = "closed the books of",
	[RECOVER_DAMAGED] = "closed the books, as damaged, of",
	[RECOVER_MISSING] = "cannot close, since its segment is missing:",
	[RECOVER_REMOVED] = "removed an empty segment that no anchor names:",
	[RECOVER_QUARANTINED] = "quarantined a segment that no anchor names:",
	[RECOVER_MENDED] = "named what a crash had left at the end of",
	[RECOVER_FAILED] = "failed at",
};

static void
on_done(void *arg, enum recover_did did, const char *name)
{
	struct sweep *s = arg;
	const char *why = did != RECOVER_FAILED ? ""
			  : errno == EXFULL
			      ? "its segment has as many parts as it may have"
			      : strerror(errno);
	const char *dash = did == RECOVER_FAILED ? ": " : "";

	s->did[did]++;
	if (did == RECOVER_FAILED)
		(void)roll_add(&s->failed, name);
	if (s->log != NULL)
		log_line(s->log, LOG_LEVEL_WARN, "recovery %s %s%s%s",
		    sentences[did], name, dash, why);
	else
		printf("%s %s%s%s\n", sentences[did], name, dash, why);
}

/* Its lock is held, so nobody listens there. */
static void
remove_socket(void *arg, const char *inv)
{
	struct sweep *s = arg;
	struct counters page;
	char name[64];
	bool removed = false;
	int fd;

	snprintf(name, sizeof(name), "%.36s.status", inv);
	fd = store_file(s->recover.store->run_fd, name, O_RDONLY);
	if (fd != -1 && counters_read(fd, &page) == 0 &&
	    page.socket_dir[0] == '/')
		removed = socket_sweep(page.socket_dir, inv,
		    (dev_t)page.socket_dev, (ino_t)page.socket_ino, true);
	/* One that died before it had said where it would be. */
	else if (s->socket_dir != NULL)
		removed = socket_sweep(s->socket_dir, inv, 0, 0, true);
	if (fd != -1)
		close(fd);
	if (!removed)
		return;
	s->sockets++;
	if (s->log == NULL)
		printf("removed the socket of %s\n", inv);
}

/* A lock in run/ that nobody holds. 1: it was enough. */
static int
sweep_lock(void *arg, const char *inv)
{
	struct sweep *s = arg;

	if (store_running(s->recover.store, inv) ||
	    roll_find(&s->failed, inv) != NULL)
		return 0;
	recover_one(&s->recover, inv);
	return --s->most == 0;
}

static void
sweep_init(struct sweep *s, const struct store *store, const char *spool,
    struct digest *digest)
{
	memset(s, 0, sizeof(*s));
	roll_init(&s->failed, "");
	s->recover.store = store;
	s->recover.digest = digest;
	s->recover.spool = spool;
	broker_names(&s->names);
	s->recover.names = &s->names.names;
	s->recover.locked = remove_socket;
	s->recover.tell = on_done;
	s->recover.arg = s;
}

static void
sweep_most(const struct store *store, const char *spool,
    struct digest *digest, const struct log *log, size_t most)
{
	struct sweep s;

	sweep_init(&s, store, spool, digest);
	s.log = log;
	s.most = most;
	(void)store_run_each(store, ".lock", sweep_lock, &s);
	roll_clear(&s.failed);
}

void
sweep_some(const struct store *store, const char *spool,
    struct digest *digest, const struct log *log)
{
	sweep_most(store, spool, digest, log, SOME);
}

void
sweep_rest(const struct store *store, const char *spool,
    struct digest *digest, const struct log *log)
{
	sweep_most(store, spool, digest, log, SIZE_MAX);
}

/* --- the command --- */

static const char usage_text[] =
    "usage: cyberos skill broker sweep [--store DIR] [--config FILE]\n";

static const char help_text[] =
    "\n"
    "Clean up after brokers and supervisors that died: remove their sockets and\n"
    "locks, close their books in the ledger. What runs is not touched, and\n"
    "nothing is repaired: what does not hold stays there for verify.\n"
    "\n"
    "  --store DIR     where ledger and memory live\n"
    "  --config FILE   operator's configuration\n"
    "  --help          this text\n"
    "\n"
    "Exit status: 0 done, also when there was nothing to do; 1 something could\n"
    "not be done, 2 usage, 3 configuration, 5 not permitted, 6 a segment is\n"
    "missing or does not hold.\n";

static int
sweep_store(const struct settings *settings)
{
	struct store store;
	struct sweep s;
	struct digest *digest = digest_new(NULL, 0);
	uint64_t all = 0;
	size_t i;
	int result;

	if (digest == NULL)
		err(EXIT_FAILED, NULL);
	result = settings_open_any(settings->store, &store);
	if (result != EXIT_FINE || store.run_fd == -1) {
		digest_free(digest);
		if (result == EXIT_FINE)
			puts("nothing to do");
		return result;
	}
	sweep_init(&s, &store, settings->policy.spool, digest);
	s.socket_dir = settings->policy.socket_dir;
	s.most = SIZE_MAX;
	/* What has no books has a lock at most. */
	if (recover_all(&s.recover) == -1 ||
	    store_run_each(&store, ".lock", sweep_lock, &s) == -1) {
		warn("sweep");
		result = EXIT_FAILED;
	}
	for (i = 0; i <= RECOVER_FAILED; i++)
		all += s.did[i];
	if (all == 0 && s.sockets == 0 && result == EXIT_FINE)
		puts("nothing to do");
	if (s.did[RECOVER_FAILED] > 0)
		result = EXIT_FAILED;
	else if (result == EXIT_FINE &&
	    (s.did[RECOVER_DAMAGED] > 0 || s.did[RECOVER_MISSING] > 0 ||
		s.did[RECOVER_QUARANTINED] > 0))
		result = EXIT_INVALID;
	roll_clear(&s.failed);
	store_close(&store);
	digest_free(digest);
	return result;
}

int
sweep_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "store", required_argument, NULL, 's' },
		{ "config", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'H' },
		{ NULL, 0, NULL, 0 },
	};
	struct settings_options o;
	struct settings settings;
	char why[1024];
	int opt, result = EXIT_CONFIG;

	memset(&o, 0, sizeof(o));
	signal(SIGXFSZ, SIG_IGN); /* a limit is an error, not our end */
	optind = 0; /* glibc: begin anew */
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 's') {
			o.store = optarg;
		} else if (opt == 'c') {
			o.config = optarg;
		} else if (opt == 'H') {
			printf("%s%s", usage_text, help_text);
			return EXIT_FINE;
		} else {
			fputs(usage_text, stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		fputs(usage_text, stderr);
		return EXIT_USAGE;
	}
	if (settings_load(&settings, &o, why, sizeof(why)) == -1)
		warnx("%s", why);
	else
		result = sweep_store(&settings);
	settings_clear(&settings);
	return result;
}
