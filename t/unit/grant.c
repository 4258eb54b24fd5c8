/*
 * enforce/grant and enforce/verdict: what a manifest asks for within both
 * ceilings; missing and empty lists grant nothing; the order of the reasons.
 */

#include "enforce/grant.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "t/unit/tap.h"

static const char *const tools[] = {"Bash", "Read", "Write", NULL};
static char file[] = "/tmp/grant.XXXXXX";

static void
load(struct policy *p, unsigned slot, const char *yaml)
{
	char why[512];
	FILE *f;

	f = fopen(file, "w");
	if (f == NULL || fputs(yaml, f) == EOF || fclose(f) == EOF ||
	    policy_load(p, slot, file, why, sizeof(why)) == -1) {
		printf("Bail out! %s: %s\n", file, why);
		exit(1);
	}
}

/* A grant of these lines of frontmatter within these two configurations. */
static struct grant *
make(struct policy *p, const char *lines, const char *system, const char *user)
{
	struct manifest m;
	struct grant *g;
	char text[2048];

	if (policy_init(p) == -1)
		exit(99);
	if (system != NULL)
		load(p, 0, system);
	if (user != NULL)
		load(p, 1, user);
	snprintf(text, sizeof(text),
	    "---\nid: unit\nversion: 1.0.0\ndescription: a test\n%s---\n",
	    lines);
	if (manifest_parse(text, strlen(text), p, tools, "1.0.0", &m) == -1 ||
	    m.errors_n > 0) {
		printf("Bail out! %s\n",
		    m.errors_n > 0 ? m.errors[0].message : "no memory");
		exit(1);
	}
	g = grant_new(&m, p);
	ok(g != NULL && m.id == NULL && m.tools == NULL,
	    "the grant takes the manifest's contents");
	manifest_clear(&m);
	return g;
}

static void
end(struct policy *p, struct grant *g)
{
	grant_free(g);
	policy_clear(p);
}

#define NONE "allowed_tools: []\nallowed_memory_scopes: []\n"
#define SOME                                                                   \
	"allowed_tools: [Read, Write]\ndisallowed_tools: [Write, Bash]\n"      \
	"allowed_memory_scopes: [\"memories/a/**\"]\n"                         \
	"x-allowed-files: [\"/srv/a/**\", \"/srv/b\"]\n"                       \
	"x-allowed-domains: [\"a.example\", \"b.example:8080\"]\n"

static void
test_nothing(void)
{
	struct policy p;
	struct grant *g = make(&p, NONE, NULL, NULL);

	is_int(grant_tool(g, "Read"), REASON_TOOL_NOT_ALLOWED, "no tools");
	is_int(grant_memory(g, "memories/a"), REASON_SCOPE, "no memory");
	is_int(grant_file(g, "/srv/a/x"), REASON_FILE, "no files");
	is_int(grant_file(g, "/"), REASON_FILE, "not even the root");
	is_int(grant_host(g, "a.example", 80, true), REASON_DOMAIN, "no hosts");
	is_str(grant_manifest(g)->id, "unit", "the manifest is still there");
	end(&p, g);
	g = make(&p, NONE "x-allowed-files: []\nx-allowed-domains: []\n", NULL,
	    NULL);
	is_int(grant_file(g, "/srv/a/x"), REASON_FILE, "empty: no files");
	is_int(grant_host(g, "a.example", 80, true), REASON_DOMAIN,
	    "empty: no hosts");
	end(&p, g);
	grant_free(NULL);
}

static void
test_some(void)
{
	struct policy p;
	struct grant *g = make(&p, SOME, NULL, NULL);

	is_int(grant_tool(g, "Read"), REASON_NONE, "an allowed tool");
	is_int(grant_tool(g, "Write"), REASON_TOOL_DISALLOWED,
	    "the denylist beats the allowlist");
	is_int(
	    grant_tool(g, "Bash"), REASON_TOOL_DISALLOWED, "and speaks first");
	is_int(grant_tool(g, "read"), REASON_TOOL_NOT_ALLOWED,
	    "names are case-sensitive");
	is_int(grant_tool(g, ""), REASON_TOOL_NOT_ALLOWED, "an empty name");
	is_int(grant_memory(g, "memories/a/x"), REASON_NONE, "in scope");
	is_int(grant_memory(g, "memories/a"), REASON_SCOPE, "the root of it");
	is_int(grant_memory(g, "memories/ab"), REASON_SCOPE, "a like name");
	is_int(grant_file(g, "/srv/a/x/y"), REASON_NONE, "a granted file");
	is_int(grant_file(g, "/srv/b"), REASON_NONE, "an exact one");
	is_int(grant_file(g, "/srv/b/c"), REASON_FILE, "not below it");
	is_int(grant_file(g, "/srv/ab/x"), REASON_FILE, "a like directory");
	is_int(grant_host(g, "a.example", 443, true), REASON_NONE, "a host");
	is_int(grant_host(g, "a.example", 8443, false), REASON_DOMAIN,
	    "at another port");
	is_int(grant_host(g, "b.example", 8080, false), REASON_NONE,
	    "at the port that was named");
	is_int(grant_host(g, "c.a.example", 443, true), REASON_DOMAIN,
	    "a host below");
	end(&p, g);
}

static void
test_ceilings(void)
{
	struct policy p;
	struct grant *g = make(&p, SOME,
	    "ceiling:\n  files: [\"/srv/**\"]\n  tools: [Read, Bash]\n",
	    "ceiling:\n  files: [\"/srv/a/**\"]\n"
	    "  memory_scopes: [\"memories/a/b/**\"]\n"
	    "  domains: [\"*.example\"]\n");

	is_int(grant_tool(g, "Read"), REASON_NONE, "a tool below the ceiling");
	is_int(grant_tool(g, "Bash"), REASON_TOOL_DISALLOWED,
	    "a ceiling does not grant");
	is_int(grant_file(g, "/srv/a/x"), REASON_NONE, "both ceilings allow");
	is_int(grant_file(g, "/srv/b"), REASON_FILE_CEILING, "one does not");
	is_int(grant_file(g, "/etc/x"), REASON_FILE, "the skill's list first");
	is_int(grant_memory(g, "memories/a/b/c"), REASON_NONE,
	    "memory below the ceiling");
	is_int(grant_memory(g, "memories/a/c"), REASON_SCOPE_CEILING,
	    "memory above it");
	is_int(grant_host(g, "a.example", 80, true), REASON_NONE,
	    "a host below the ceiling");
	is_int(grant_host(g, "b.example", 8080, false), REASON_DOMAIN_CEILING,
	    "its port is above it");
	end(&p, g);

	g = make(&p, SOME, NULL,
	    "ceiling:\n  files: []\n  tools: []\n  memory_scopes: []\n"
	    "  domains: []\n");
	is_int(grant_tool(g, "Read"), REASON_TOOL_CEILING, "no tool is left");
	is_int(grant_file(g, "/srv/a/x"), REASON_FILE_CEILING, "no file");
	is_int(
	    grant_memory(g, "memories/a/x"), REASON_SCOPE_CEILING, "no memory");
	is_int(grant_host(g, "a.example", 80, true), REASON_DOMAIN_CEILING,
	    "no host");
	end(&p, g);
}

/* A row for every reason; the classes are those of SPEC 5. */
static void
test_verdicts(void)
{
	static const char classes[] =
	    " none tool_not_allowed unknown_tool scope_violation file_violation"
	    " domain_violation rate_limited request_too_large deadline"
	    " audit_unavailable audit_budget ";
	const struct verdict_info *v;
	char word[64];
	int i, j, wrong = 0;

	for (i = 0; i < REASON_COUNT; i++) {
		v = verdict_info((enum reason)i);
		if (v == NULL || v->reason == NULL || v->class == NULL ||
		    v->hint == NULL || strlen(v->hint) < 10 ||
		    strchr(v->hint, '\n') != NULL) {
			wrong++;
			continue;
		}
		snprintf(word, sizeof(word), " %s ", v->class);
		if (strstr(classes, word) == NULL)
			wrong++;
	}
	is_int(wrong, 0, "every reason has a word, a class and a sentence");
	for (i = 0; i < REASON_COUNT; i++) {
		for (j = 0; j < i; j++)
			wrong += strcmp(verdict_info((enum reason)i)->hint,
				     verdict_info((enum reason)j)->hint) == 0;
		/* data.hint is cut there */
		wrong += strlen(verdict_info((enum reason)i)->hint) > 256;
	}
	is_int(wrong, 0, "and that is its own, and no longer than an answer has it");
}

int
main(void)
{
	int fd = mkstemp(file);

	if (fd == -1)
		return 99;
	close(fd);
	test_nothing();
	test_some();
	test_ceilings();
	test_verdicts();
	unlink(file);
	return done();
}
