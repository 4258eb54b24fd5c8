/*
 * tools/find: random trees, grants and searches against a model of a few lines
 * that walks everything and asks for each file whether it should be found.
 */

#include "tools/find.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <unistd.h>

#include "audit/clock.h"
#include "audit/json.h"
#include "t/unit/tap.h"

#define FILES_MAX 4096
#define TREES 20
#define ROUNDS 120

static char top[] = "/tmp/find.XXXXXX";
static char outside[] = "/tmp/find-out.XXXXXX";
static char *files[FILES_MAX]; /* every regular file, sorted */
static size_t files_n;
static struct policy policy;
static struct invocation inv;
static uint64_t state = 88172645463325252ULL;

static unsigned
random_below(unsigned n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 33) % n;
}

static const char *
pick(const char *const *v, unsigned n)
{
	return v[random_below(n)];
}

/* --- the tree --- */

static const char *const dirs[] = {"a", "b", "ab", "a.b", ".git", "c c"};
static const char *const names[] = {
    "a", "b.txt", "ab.txt", "a.c", ".x", "B.TXT", "z"};

static void
put(const char *path)
{
	static const char *const words[] = {
	    "needle", "hay", "Needle", "need\xffle", "", "xneedlex"};
	FILE *f = fopen(path, "w");
	unsigned n = random_below(5);

	if (f == NULL)
		return;
	while (n-- > 0)
		fprintf(f, "%s %s\n", pick(words, 6), pick(words, 6));
	if (random_below(3) == 0)
		fputs("the needle without an end", f);
	if (random_below(8) == 0)
		fputc(0, f);
	fclose(f);
}

static void
grow(const char *dir, unsigned depth)
{
	char path[512];
	unsigned n;

	for (n = random_below(5); n > 0; n--) {
		snprintf(path, sizeof(path), "%s/%s", dir, pick(names, 7));
		switch (random_below(8)) {
		case 0:
			(void)!symlink(outside, path);
			break;
		case 1:
			(void)!symlink("a", path);
			break;
		case 2:
			mkfifo(path, 0600);
			break;
		default:
			if (access(path, F_OK) == -1)
				put(path);
		}
	}
	for (n = depth == 0 ? 0 : 1 + random_below(4); n > 0; n--) {
		snprintf(path, sizeof(path), "%s/%s", dir, pick(dirs, 6));
		if (mkdir(path, 0700) == 0)
			grow(path, depth - 1);
	}
}

static int
note(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)flag;
	(void)at;
	if (S_ISREG(st->st_mode) && files_n < FILES_MAX)
		files[files_n++] = strdup(path);
	return 0;
}

static int
gone(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)st;
	(void)flag;
	(void)at;
	return remove(path);
}

static int
compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void
new_tree(void)
{
	char path[64];

	nftw(top, gone, 20, FTW_DEPTH | FTW_PHYS);
	while (files_n > 0)
		free(files[--files_n]);
	mkdir(top, 0700);
	grow(top, 4);
	snprintf(path, sizeof(path), "%s/a.txt", top);
	put(path);
	nftw(top, note, 20, FTW_PHYS);
	qsort(files, files_n, sizeof(files[0]), compare);
}

/* --- the model --- */

static bool
in_segment(const char *p, const char *pe, const char *s, const char *se)
{
	if (p == pe)
		return s == se;
	if (*p == '*')
		return in_segment(p + 1, pe, s, se) ||
		       (s < se && in_segment(p, pe, s + 1, se));
	return s < se && (*p == '?' || *p == *s) &&
	       in_segment(p + 1, pe, s + 1, se);
}

/* Patterns and paths by segments; reserved names only when spelled. */
static bool
model(const char *p, const char *s)
{
	const char *pe = p + strcspn(p, "/"), *se = s + strcspn(s, "/");
	bool reserved = (se - s == 4) && strncmp(s, ".git", 4) == 0;

	if (strncmp(p, "**", 2) == 0 && pe == p + 2) {
		/* In the end it stands for one segment at least. */
		if (*pe != '\0' && model(pe + 1, s))
			return true;
		if (*s == '\0' || reserved)
			return false;
		return *se == '\0' ? *pe == '\0' : model(p, se + 1);
	}
	if (reserved ? (pe - p != 4 || strncmp(p, s, 4) != 0)
		     : !in_segment(p, pe, s, se))
		return false;
	if (*pe == '\0' || *se == '\0')
		return *pe == *se;
	return model(pe + 1, se + 1);
}

/* A line of the file that holds the word; -1 for a binary file. */
static int
first_line(const char *path, const char *word)
{
	char text[4096], *line, *next;
	FILE *f = fopen(path, "r");
	size_t n;
	int number = 1;

	n = f == NULL ? 0 : fread(text, 1, sizeof(text) - 1, f);
	if (f != NULL)
		fclose(f);
	if (memchr(text, 0, n) != NULL)
		return -1;
	text[n] = '\0';
	for (line = text; line != NULL; line = next, number++) {
		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		if (strstr(line, word) != NULL)
			return number;
	}
	return -1;
}

/* --- one search --- */

static char grants[4][256];
static unsigned grants_n;

static void
pattern_into(char *out, size_t size, const char *begin)
{
	static const char *const parts[] = {"a", "b", "ab", "*", "**", "?",
	    "a*", "*.txt", "a.b", ".git", "*b*"};
	unsigned n = 1 + random_below(3);
	const char *part, *before = "";

	strlcpy(out, begin, size);
	while (n-- > 0) {
		part = pick(parts, 11);
		if (strcmp(part, "**") == 0 && strcmp(before, "**") == 0)
			part = "*";
		if (out[0] != '\0')
			strlcat(out, "/", size);
		strlcat(out, part, size);
		before = part;
	}
}

static bool
new_grant(void)
{
	char text[4096];
	struct manifest m;
	unsigned i;

	grant_free(
	    inv.grant == NULL ? NULL : (struct grant *)(uintptr_t)inv.grant);
	inv.grant = NULL;
	strlcpy(text,
	    "---\nid: unit\nversion: 1.0.0\ndescription: a test\n"
	    "allowed_tools: [Glob, Grep]\nallowed_memory_scopes: []\n"
	    "x-allowed-files: [",
	    sizeof(text));
	grants_n = 1 + random_below(3);
	for (i = 0; i < grants_n; i++) {
		pattern_into(grants[i], sizeof(grants[i]), top);
		strlcat(text, i == 0 ? "\"" : ", \"", sizeof(text));
		strlcat(text, grants[i], sizeof(text));
		strlcat(text, "\"", sizeof(text));
	}
	strlcat(text, "]\n---\n", sizeof(text));
	if (manifest_parse(text, strlen(text), &policy, registry_names(),
		"1.0.0", &m) == -1 ||
	    m.errors_n > 0) {
		printf("# %s", text);
		return false;
	}
	inv.grant = grant_new(&m, &policy);
	manifest_clear(&m);
	return inv.grant != NULL;
}

static bool
is_granted(const char *path)
{
	unsigned i;

	for (i = 0; i < grants_n; i++) {
		if (model(grants[i] + 1, path + 1))
			return true;
	}
	return false;
}

/* Runs it: the members of the list; NULL when it was refused. */
static cJSON *
run(const char *tool, const char *args, const char *list, bool *failed)
{
	struct call *c = call_new();
	cJSON *all, *got = NULL;

	*failed = false;
	c->rpc.tool = strdup(tool);
	c->rpc.args = json_parse(args, strlen(args), false);
	if (registry_check(c, &inv) == CHECK_MAY &&
	    c->check.failure == FAIL_NONE) {
		c->check.tool->run(c, &inv);
		if (c->run.outcome == OUTCOME_SUCCESS) {
			all = json_parse(
			    c->run.result.data, c->run.result.len, false);
			got = cJSON_DetachItemFromObject(all, list);
			cJSON_Delete(all);
		} else {
			*failed = true;
		}
	}
	call_free(c);
	return got;
}

static unsigned bad, refused, hits;

static void
complain(const char *what, const char *path, const char *args)
{
	unsigned i;

	if (bad++ >= 3)
		return;
	printf("# %s: %s for %s\n", what, path, args);
	for (i = 0; i < grants_n; i++)
		printf("#   granted %s\n", grants[i]);
}

/* Each file that should be there is, in order, and no other. */
static void
check_list(const cJSON *got, const char *args, const char *pattern,
    const char *root, const char *word)
{
	const cJSON *at = got == NULL ? NULL : got->child;
	const char *path;
	size_t i, n = strlen(root);

	for (i = 0; i < files_n; i++) {
		path = files[i];
		if (!is_granted(path) || strncmp(path, root, n) != 0 ||
		    (path[n] != '/' && (path[n] != '\0' || word == NULL)))
			continue;
		if (pattern != NULL && !model(pattern, path + n + 1))
			continue;
		if (word != NULL && first_line(path, word) == -1)
			continue;
		if (at == NULL) {
			complain("is missing", path, args);
			return;
		}
		hits++;
		if (word == NULL) {
			if (strcmp(at->valuestring, path) != 0)
				complain("is not", path, args);
			at = at->next;
			continue;
		}
		if (strcmp(cJSON_GetObjectItem(at, "path")->valuestring,
			path) != 0 ||
		    cJSON_GetObjectItem(at, "line")->valueint !=
			first_line(path, word))
			complain("is not the first of", path, args);
		while (at != NULL &&
		       strcmp(cJSON_GetObjectItem(at, "path")->valuestring,
			   path) == 0)
			at = at->next;
	}
	if (at != NULL)
		complain("is too much",
		    word == NULL ? at->valuestring
				 : cJSON_GetObjectItem(at, "path")->valuestring,
		    args);
}

static void
one_round(void)
{
	char args[1024], pattern[256], root[512];
	cJSON *got;
	bool failed;

	strlcpy(root, top, sizeof(root));
	if (random_below(2) == 0) {
		strlcat(root, "/", sizeof(root));
		strlcat(root, pick(dirs, 4), sizeof(root));
	}
	pattern_into(pattern, sizeof(pattern), "");
	snprintf(args, sizeof(args),
	    "{\"pattern\":\"%s\",\"root\":\"%s\",\"limit\":100000}", pattern,
	    root);
	got = run("Glob", args, "paths", &failed);
	if (failed)
		complain("failed", "", args);
	refused += got == NULL;
	check_list(got, args, pattern, root, NULL);
	cJSON_Delete(got);

	snprintf(args, sizeof(args),
	    "{\"pattern\":\"%s\",\"path\":\"%s\",\"limit\":100000}",
	    random_below(2) == 0 ? "needle" : "nee[d]le", root);
	got = run("Grep", args, "matches", &failed);
	if (failed)
		complain("failed", "", args);
	check_list(got, args, NULL, root, "needle");
	cJSON_Delete(got);

	got = run("Grep", "{\"pattern\":\"needle\",\"limit\":100000}",
	    "matches", &failed);
	if (got == NULL)
		complain("was refused", "", "all");
	check_list(got, "all", NULL, top, "needle");
	cJSON_Delete(got);
}

int
main(void)
{
	unsigned tree, round;

	if (policy_init(&policy) == -1 || mkdtemp(top) == NULL ||
	    mkdtemp(outside) == NULL)
		return 99;
	inv.policy = &policy;
	inv.protect = path_protect_new();
	inv.digest = digest_new(NULL, 0);
	inv.memory_fd = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	put(outside);
	for (tree = 0; tree < TREES; tree++) {
		new_tree();
		for (round = 0; round < ROUNDS; round++) {
			if (new_grant())
				one_round();
			else
				bad++;
		}
	}
	is_int(bad, 0, "searches find what the model finds, in its order");
	ok(hits > 1000, "there was enough to find (%u)", hits);
	ok(refused > 10 && refused < TREES * ROUNDS / 2,
	    "and some roots were refused (%u)", refused);
	nftw(top, gone, 20, FTW_DEPTH | FTW_PHYS);
	nftw(outside, gone, 20, FTW_DEPTH | FTW_PHYS);
	return done();
}
