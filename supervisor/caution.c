/*
 * Advice on grants. Nothing here decides anything: what a glob covers is asked
 * of the matcher that decides, with names that no author writes, so that a
 * caution means the same as a grant.
 */

#include "supervisor/caution.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "enforce/glob.h"
#include "enforce/path.h"

/* Stands for any name; in a glob, nobody writes it. */
#define ANY "\x7f-any-name-\x7f"
#define ECHO_MAX 256

struct caution {
	const char *home;
	bool bash;
	caution_report *report;
	void *arg;
	/* the glob that is looked at, alone in a set */
	const char *field;
	const struct manifest_place *at;
	struct glob_set *set;
	char glob[ECHO_MAX]; /* printable */
};

__attribute__((format(printf, 2, 3))) static void
say(const struct caution *c, const char *fmt, ...)
{
	char message[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	c->report(c->arg, c->field, c->at, message);
}

/* Does the glob match every name in this directory, or below it? */
static bool
covers(const struct caution *c, const char *dir)
{
	char path[PATH_MAX + 64];
	int n;

	n = snprintf(path, sizeof(path), "%.4095s/" ANY, dir);
	if (glob_match_path(c->set, path, (size_t)n))
		return true;
	n = snprintf(path, sizeof(path), "%.4095s/" ANY "/" ANY, dir);
	return glob_match_path(c->set, path, (size_t)n);
}

static bool
ends_with(const char *s, const char *tail)
{
	size_t n = strlen(s), tail_n = strlen(tail);

	return n >= tail_n && strcmp(s + n - tail_n, tail) == 0;
}

/* "/home/alice" of "/home/alice/x", when all of it is literal. */
static bool
home_of(const char *glob, size_t literal, char out[PATH_MAX])
{
	size_t n;

	if (strncmp(glob, "/home/", 6) != 0)
		return false;
	n = 6 + strcspn(glob + 6, "/");
	if (n == 6 || n > literal || n >= PATH_MAX)
		return false;
	memcpy(out, glob, n);
	out[n] = '\0';
	return true;
}

/* The widest of the places that a file glob covers whole. */
static bool
caution_place(const struct caution *c, const char *glob, size_t literal)
{
	char home[PATH_MAX];

	if (covers(c, "")) {
		say(c,
		    "`%s` covers /, the whole file system; name the one "
		    "directory that is needed, as in /srv/data/**",
		    c->glob);
		return true;
	}
	if (covers(c, "/etc")) {
		say(c,
		    "`%s` covers /etc, where keys and passwords are; name the "
		    "files that are needed, as in /etc/hosts",
		    c->glob);
		return true;
	}
	if (covers(c, "/home") || covers(c, "/home/" ANY) ||
	    covers(c, "/root") || (c->home != NULL && covers(c, c->home)) ||
	    (home_of(glob, literal, home) && covers(c, home))) {
		say(c,
		    "`%s` covers a home directory, with the keys and mail in "
		    "it; name one directory in it",
		    c->glob);
		return true;
	}
	if (literal == 0) {
		say(c,
		    "`%s` looks into every directory of the host; begin it "
		    "with a directory by name, as in /srv/data/**",
		    c->glob);
		return true;
	}
	return false;
}

/* Places that no glob opens (SPEC 4.2). */
static bool
is_protected(const char *glob)
{
	static const char *const places[] = {"/proc", "/sys", "/dev"};
	size_t i, n;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		n = strlen(places[i]);
		if (strncmp(glob, places[i], n) == 0 &&
		    (glob[n] == '/' || glob[n] == '\0'))
			return true;
	}
	return false;
}

/* Behind a segment ** there is no end of levels, with a few more or without. */
static bool
is_one_level(const char *glob)
{
	char rest[GLOB_PATTERN_MAX + 1];

	if (!ends_with(glob, "/*"))
		return false;
	strlcpy(rest, glob, sizeof(rest));
	while (ends_with(rest, "/*"))
		rest[strlen(rest) - 2] = '\0';
	return strcmp(rest, "**") != 0 && !ends_with(rest, "/**");
}

static void
caution_level(const struct caution *c, const char *glob)
{
	if (is_one_level(glob))
		say(c,
		    "`%s` is one level only; write `%s*` for all that lies "
		    "below",
		    c->glob, c->glob);
}

static void
caution_file(const struct caution *c, const char *glob, size_t literal)
{
	bool wide = caution_place(c, glob, literal);

	if (is_protected(glob))
		say(c,
		    "`%s` grants nothing: /proc, /sys and /dev are protected; "
		    "remove it",
		    c->glob);
	else if (c->bash && ends_with(glob, "/**"))
		say(c,
		    "Bash together with `%s`: a command may change or delete "
		    "all that is there, %s",
		    c->glob,
		    wide ? "so nearly everything; grant a directory of its own"
			 : ".git and .ssh in deeper directories too; grant a "
			   "directory of its own");
	caution_level(c, glob);
}

static void
caution_scope(const struct caution *c, const char *glob, size_t literal)
{
	const char *const *root;
	bool any = false, all = true;
	char path[128];
	int n;

	(void)literal;
	for (root = path_memory_roots(); *root != NULL; root++) {
		any = any || glob_set_reaches(c->set, *root, strlen(*root)) ||
		      glob_match_path(c->set, *root, strlen(*root));
		n = snprintf(path, sizeof(path), "%s/" ANY "/" ANY, *root);
		all = all && glob_match_path(c->set, path, (size_t)n);
	}
	if (!any)
		say(c,
		    "`%s` grants nothing: a memory path begins with memories, "
		    "meta, company, module, member, client, project or "
		    "persona",
		    c->glob);
	else if (all)
		say(c,
		    "`%s` covers all memory; name the part that is needed, as "
		    "in memories/notes/**",
		    c->glob);
	caution_level(c, glob);
}

/*
 * A label that is a bare * names nobody. A name has an owner only with its last
 * label and one more: "*:8443", "*.*.com" and "a.*" have not.
 */
static void
caution_domain(const struct caution *c, const char *glob, size_t literal)
{
	size_t labels = 0, bare = 0, n;
	const char *covered;
	bool last = false;

	(void)literal;
	for (; *glob != '\0' && *glob != ':'; glob += n + (glob[n] == '.')) {
		n = strcspn(glob, ".:");
		last = n == 1 && *glob == '*';
		bare += last;
		labels++;
	}
	if (bare > 0 && bare == labels)
		covered = "every host of the network";
	else if (last)
		covered = "this name in every domain, whoever owns it";
	else if (bare > 0 && bare == labels - 1)
		covered = "every host below this name";
	else
		return;
	say(c,
	    "`%s` covers %s; name each host that is needed, as in "
	    "api.example.com",
	    c->glob, covered);
}

static int
each_glob(struct caution *c, const char *field, enum glob_kind kind,
    const struct glob_set *set, const struct manifest_place *at,
    void (*look)(const struct caution *, const char *, size_t))
{
	const char *glob, *why;
	size_t i;

	c->field = field;
	for (i = 0; i < glob_set_count(set); i++) {
		glob = glob_set_pattern(set, i);
		manifest_printable(c->glob, sizeof(c->glob), glob);
		c->at = &at[i];
		c->set = glob_set_new(kind);
		if (c->set == NULL ||
		    glob_set_add(c->set, glob, strlen(glob), &why) == -1) {
			glob_set_free(c->set);
			errno = ENOMEM;
			return -1;
		}
		look(c, glob, glob_set_prefix(c->set, 0));
		glob_set_free(c->set);
	}
	return 0;
}

/* May it be called: allowed, and not disallowed? */
static bool
has_tool(const struct manifest *m, const char *name)
{
	bool has = false;
	size_t i;

	for (i = 0; i < m->tools_n; i++)
		has = has || strcmp(m->tools[i], name) == 0;
	for (i = 0; i < m->disallowed_n; i++)
		has = has && strcmp(m->disallowed[i], name) != 0;
	return has;
}

int
caution_each(const struct manifest *m, const char *home, caution_report *report,
    void *arg)
{
	struct caution c = {.home = home,
	    .bash = has_tool(m, "Bash"),
	    .report = report,
	    .arg = arg};

	/* A home that is the root is the root. */
	if (home != NULL && (home[0] != '/' || home[1] == '\0'))
		c.home = NULL;
	if (each_glob(&c, "allowed_memory_scopes", GLOB_MEMORY,
		m->memory_scopes, m->scopes_at, caution_scope) == -1 ||
	    each_glob(&c, "x-allowed-files", GLOB_FILE, m->files, m->files_at,
		caution_file) == -1 ||
	    each_glob(&c, "x-allowed-domains", GLOB_DOMAIN, m->domains,
		m->domains_at, caution_domain) == -1)
		return -1;
	return 0;
}
