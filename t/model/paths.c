/*
 * What the check allows, against a model of a few lines that says what should
 * be allowed: random trees with links, hard links, FIFOs and odd names, random
 * grants, random paths through all of it. The model goes by name, asks for each
 * name on the way what it is, and matches by an expression made of the glob; it
 * shares nothing with the product.
 *
 * Environment: MODEL_TRIES (20000 for each half), MODEL_SEED (the time).
 */

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "t/unit/tap.h"
#include "tools/registry.h"

#define NODES_MAX 512
#define GLOBS_MAX 4
#define TEXT 16384 /* more than any path, twice */
#define TRIES_A_GRANT 60
#define GRANTS_A_TREE 12

enum verdict_of_model { BAD, REFUSED, ABSENT, FORBIDDEN, DIRECTORY, MAY };

static const char *const words[] = {
    "bad arguments", "refused", "not_found", "permission", "is_a_directory",
    "may"};

static char top[] = "/tmp/model.XXXXXX";
static char outside[] = "/tmp/model-out.XXXXXX";
static char *nodes[NODES_MAX]; /* every name in both trees, and some more */
static size_t nodes_n;
static char globs[GLOBS_MAX][GLOB_PATTERN_MAX + 1];
static pcre2_code *expressions[GLOBS_MAX][64];
static size_t expressions_n[GLOBS_MAX];
static size_t globs_n;
static char closed[PATH_MAX], readonly[PATH_MAX]; /* protected in this tree */
static struct policy policy;
static struct invocation inv;
static uint64_t state;
static bool shuts; /* some directories are closed to their owner */
static long tally[MAY + 1], wrong;

static unsigned
roll(unsigned below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 33) % below;
}

#define PICK(v) (v)[roll(sizeof(v) / sizeof((v)[0]))]

/* --- the model: what a glob means (SPEC 4.1) --- */

static void
add(char *out, const char *s)
{
	strlcat(out, s, TEXT);
}

static void
add_some(char *out, const char *s, size_t n)
{
	size_t at = strlen(out);

	if (n > TEXT - 1 - at)
		n = TEXT - 1 - at;
	memcpy(out + at, s, n);
	out[at + n] = '\0';
}

/* Where a brace that begins at p ends. */
static const char *
brace_end(const char *p)
{
	int depth = 0;

	for (;; p++) {
		if (*p == '\\')
			p++;
		else if (*p == '{')
			depth++;
		else if (*p == '}' && --depth == 0)
			return p;
	}
}

static void compile(const char *, size_t);

/* Compile each alternative of the first brace, or all if there is none. */
static void
expand(const char *glob, size_t at)
{
	const char *open = glob, *end, *from, *p;
	char one[TEXT];
	int depth = 0;

	for (; *open != '\0' && *open != '{'; open++) {
		if (*open == '\\')
			open++;
		else if (*open == '[')
			open = strchr(open, ']');
	}
	if (*open == '\0') {
		compile(glob, at);
		return;
	}
	end = brace_end(open);
	for (p = from = open + 1; p <= end; p++) {
		if (*p == '\\') {
			p++;
		} else if (depth == 0 && (*p == ',' || *p == '}')) {
			one[0] = '\0';
			add_some(one, glob, (size_t)(open - glob));
			add_some(one, from, (size_t)(p - from));
			add(one, end + 1);
			expand(one, at);
			from = p + 1;
		} else {
			depth += (*p == '{') - (*p == '}');
		}
	}
}

#define NOT_SPELT "(?!\\.(?:git|ssh)(?:/|\\z))"

/* A segment as an expression; *plain: nothing in it is special. */
static void
segment(const char *s, size_t n, char *out, bool *plain)
{
	char one[16];
	size_t i;

	out[0] = '\0';
	*plain = true;
	for (i = 0; i < n; i++) {
		if (s[i] == '*') {
			add(out, "[^/]*");
			*plain = false;
		} else if (s[i] == '?') {
			add(out, "[^/]");
			*plain = false;
		} else if (s[i] == '[') {
			add(out, "(?!/)[");
			for (i++; s[i] != ']'; i++) {
				snprintf(one, sizeof(one), "%c",
				    s[i] == '!' ? '^' : s[i]);
				add(out, one);
			}
			add(out, "]");
			*plain = false;
		} else {
			if (s[i] == '\\')
				i++;
			snprintf(one, sizeof(one), "\\x{%02x}",
			    (unsigned char)s[i]);
			if ((unsigned char)s[i] >= 0x80)
				snprintf(one, sizeof(one), "%c", s[i]);
			add(out, one);
		}
	}
}

/* One glob without braces. Paths and globs begin with a slash here. */
static void
compile(const char *glob, size_t at)
{
	char re[TEXT], seg[TEXT];
	const char *p = glob, *end;
	PCRE2_SIZE where;
	bool plain, last;
	int error;

	strlcpy(re, "\\A", sizeof(re));
	while (*p == '/') {
		for (end = ++p; *end != '\0' && *end != '/'; end++) {
			if (*end == '\\')
				end++;
		}
		last = *end == '\0';
		if (end - p == 2 && memcmp(p, "**", 2) == 0) {
			add(re, last ? "(?:/" NOT_SPELT "[^/]+)+"
				     : "(?:/" NOT_SPELT "[^/]+)*");
		} else {
			segment(p, (size_t)(end - p), seg, &plain);
			add(re, "/");
			if (!plain)
				add(re, NOT_SPELT);
			add(re, seg);
		}
		p = end;
	}
	add(re, "\\z");
	if (expressions_n[at] == 64)
		return;
	expressions[at][expressions_n[at]] =
	    pcre2_compile((PCRE2_SPTR)re, PCRE2_ZERO_TERMINATED,
		PCRE2_UTF | PCRE2_DOTALL, &error, &where, NULL);
	if (expressions[at][expressions_n[at]] == NULL) {
		printf("Bail out! %s: %d at %zu\n", re, error, where);
		exit(1);
	}
	expressions_n[at]++;
}

static bool
granted(const char *path)
{
	pcre2_match_data *m;
	size_t i, j;
	bool yes = false;

	for (i = 0; i < globs_n && !yes; i++) {
		for (j = 0; j < expressions_n[i] && !yes; j++) {
			m = pcre2_match_data_create(1, NULL);
			yes = pcre2_match(expressions[i][j], (PCRE2_SPTR)path,
				  PCRE2_ZERO_TERMINATED, 0, 0, m, NULL) >= 0;
			pcre2_match_data_free(m);
		}
	}
	return yes;
}

static bool
is_text(const char *s)
{
	pcre2_code *c;
	PCRE2_SIZE where;
	int error;

	/* Somebody else's idea of UTF-8. */
	c = pcre2_compile((PCRE2_SPTR)s, PCRE2_ZERO_TERMINATED,
	    PCRE2_UTF | PCRE2_LITERAL, &error, &where, NULL);
	pcre2_code_free(c);
	return c != NULL;
}

/* --- the model: where a path leads (SPEC 4.2) --- */

struct lead {
	char there[TEXT]; /* a name without links; "" is the root */
	char gone[TEXT];  /* what of it is not there */
	int why;
	bool dangles, wants_dir, lost;
	unsigned links;
	struct stat st;
};

static bool
within(const char *path, const char *place)
{
	size_t n = strlen(place);

	return n > 0 && strncmp(path, place, n) == 0 &&
	       (path[n] == '/' || path[n] == '\0');
}

static bool
kernel_shows(const char *path)
{
	return within(path, "/proc") || within(path, "/sys") ||
	       within(path, "/dev");
}

static bool
in_closed(const char *path)
{
	const char *p;

	for (p = path; (p = strcasestr(p, "/.cyberos")) != NULL; p++) {
		if (p[9] == '/' || p[9] == '\0')
			return true;
	}
	return kernel_shows(path) || within(path, closed);
}

static void
go(struct lead *l, const char *path, bool own)
{
	char name[TEXT], target[PATH_MAX];
	const char *p = path, *end;
	ssize_t n;

	for (; !l->lost && *p != '\0'; p = end) {
		p += strspn(p, "/");
		end = p + strcspn(p, "/");
		l->wants_dir = true;
		if (end == p || (end - p == 1 && *p == '.'))
			continue;
		if (end - p == 2 && p[0] == '.' && p[1] == '.') {
			char *s = l->gone[0] != '\0' ? l->gone : l->there;

			if (strrchr(s, '/') != NULL)
				*strrchr(s, '/') = '\0';
			if (l->gone[0] == '\0') {
				l->why = 0;
				l->dangles = false;
			}
			continue;
		}
		l->wants_dir = false;
		strlcpy(name, l->there, sizeof(name));
		add(name, "/");
		add_some(name, p, (size_t)(end - p));
		if (l->gone[0] != '\0') {
			add(l->gone, "/");
			add_some(l->gone, p, (size_t)(end - p));
		} else if (lstat(name, &l->st) == -1 ||
			   (S_ISLNK(l->st.st_mode) && in_closed(l->there))) {
			/* A link in a closed place leads nowhere. */
			l->why = lstat(name, &l->st) == 0 ? EACCES : errno;
			if (l->why == ENAMETOOLONG)
				l->why = ENOENT;
			l->dangles = !own && l->why != EACCES;
			strlcpy(l->gone, "/", sizeof(l->gone));
			add_some(l->gone, p, (size_t)(end - p));
		} else if (!S_ISLNK(l->st.st_mode)) {
			strlcpy(l->there, name, sizeof(l->there));
		} else if (++l->links > 40) {
			l->lost = true;
		} else {
			n = readlink(name, target, sizeof(target) - 1);
			target[n < 0 ? 0 : n] = '\0';
			if (target[0] == '/')
				l->there[0] = '\0';
			go(l, target, false);
		}
	}
}

static bool
is_same(const char *path, const struct stat *st)
{
	struct stat other;

	return path[0] != '\0' && lstat(path, &other) == 0 &&
	       other.st_dev == st->st_dev && other.st_ino == st->st_ino;
}

static enum verdict_of_model
judge(const char *path, bool write, char canonical[TEXT])
{
	struct lead l;
	struct stat dir;
	char *slash;

	memset(&l, 0, sizeof(l));
	canonical[0] = '\0';
	if (path[0] != '/')
		return BAD;
	if (strlen(path) >= PATH_MAX)
		return REFUSED;
	go(&l, path, true);
	strlcpy(canonical, l.there, TEXT);
	add(canonical, l.gone);
	if (canonical[0] == '\0')
		strlcpy(canonical, "/", TEXT);
	if (l.lost || strlen(canonical) >= PATH_MAX || !is_text(canonical) ||
	    l.dangles || !granted(canonical) || in_closed(canonical))
		return REFUSED;
	if (lstat(l.there[0] == '\0' ? "/" : l.there, &l.st) == -1)
		return ABSENT;
	/* A hard link of what is protected is that. */
	if (is_same(closed, &l.st) || (write && is_same(readonly, &l.st)))
		return REFUSED;
	if (write && (within(canonical, readonly) || within(canonical, "/usr") ||
			 strncmp(canonical, "/etc/ld.so", 10) == 0))
		return REFUSED;
	if (l.gone[0] != '\0') {
		if (l.why == EACCES)
			return FORBIDDEN;
		slash = strrchr(l.gone, '/');
		if (!write || l.why != ENOENT || slash != l.gone ||
		    l.wants_dir || strlen(l.gone) > NAME_MAX + 1)
			return ABSENT;
		return stat(l.there[0] == '\0' ? "/" : l.there, &dir) == 0 &&
			       S_ISDIR(dir.st_mode)
			   ? MAY
			   : ABSENT;
	}
	if (S_ISDIR(l.st.st_mode))
		return DIRECTORY;
	if (l.wants_dir)
		return ABSENT;
	if (!S_ISREG(l.st.st_mode) || (write && l.st.st_nlink > 1) ||
	    (write && (l.st.st_mode & (S_ISUID | S_ISGID)) != 0))
		return REFUSED;
	return MAY;
}

/* --- trees --- */

static const char *const names[] = {"a", "b", "ab", "a.b", "f", "g.txt",
    "ab.txt", ".git", ".ssh", ".cyberos", ".Cyberos", ".x", "c c", "-n", "*",
    "?", "[a]", "{b}", "\\", "x\ny", "\xc3\xa9", "\xe2\x82\xac", "\xff",
    "a\xfe", "...", "~", "none"};

static const char *
a_name(void)
{
	return names[roll(roll(3) == 0 ? sizeof(names) / sizeof(names[0]) : 7)];
}

static void
keep(const char *path)
{
	if (nodes_n < NODES_MAX)
		nodes[nodes_n++] = strdup(path);
}

static void
random_link(const char *path)
{
	static const char *const far[] = {"/etc/passwd", "/usr/bin/env",
	    "/proc/self/root", "/proc/self/cwd", "/proc/self/environ",
	    "/dev/fd/0", "/dev/null", "/", "/..", "/tmp", "/etc/ld.so.conf",
	    "/nowhere/at/all"};
	static const char *const odd[] = {"../", ".//", "none/../", "a//"};
	char target[PATH_MAX];

	switch (roll(12)) {
	case 0:
		strlcpy(target, outside, sizeof(target));
		break;
	case 1:
		strlcpy(target, outside, sizeof(target));
		strlcat(target, "/", sizeof(target));
		strlcat(target, a_name(), sizeof(target));
		break;
	case 2:
	case 3:
	case 5:
		strlcpy(target, PICK(odd), sizeof(target));
		strlcat(target, a_name(), sizeof(target));
		break;
	case 4:
		strlcpy(target, PICK(far), sizeof(target));
		break;
	case 6:
	case 7:
		if (nodes_n > 0) {
			strlcpy(target, nodes[roll((unsigned)nodes_n)],
			    sizeof(target));
			break;
		}
		/* FALLTHROUGH */
	case 8:
		strlcpy(target, "..", sizeof(target));
		break;
	default:
		strlcpy(target, a_name(), sizeof(target));
	}
	if (symlink(target, path) == 0)
		keep(path);
}

static void
leave_socket(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd;

	if (strlen(path) >= sizeof(at.sun_path))
		return;
	memcpy(at.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd != -1 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		keep(path);
	close(fd);
}

static void
put_file(const char *path)
{
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

	if (fd == -1)
		return;
	if (roll(20) == 0)
		fchmod(fd, 04755);
	close(fd);
	keep(path);
}

static void
grow(const char *dir, unsigned depth)
{
	char path[PATH_MAX];
	unsigned n;

	for (n = 2 + roll(5); n > 0; n--) {
		snprintf(path, sizeof(path), "%s/%s", dir, a_name());
		switch (roll(12)) {
		case 0:
		case 1:
		case 2:
			random_link(path);
			break;
		case 3:
			if (mkfifo(path, 0600) == 0)
				keep(path);
			break;
		case 4:
			leave_socket(path);
			break;
		case 5:
			if (nodes_n > 0 &&
			    linkat(AT_FDCWD, nodes[roll((unsigned)nodes_n)],
				AT_FDCWD, path, 0) == 0)
				keep(path);
			break;
		case 6:
		case 7:
		case 8:
			if (depth > 0 && mkdir(path, 0700) == 0) {
				keep(path);
				grow(path, depth - 1);
				if (shuts && roll(12) == 0)
					chmod(path, 0);
			}
			break;
		default:
			put_file(path);
		}
	}
}

static int
open_up(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)st;
	(void)at;
	if (flag == FTW_DNR || flag == FTW_D)
		chmod(path, 0700);
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

static void
fell(const char *path)
{
	int i;

	/* What was closed shows what else is once it is open. */
	for (i = 0; i < 6; i++)
		nftw(path, open_up, 20, FTW_PHYS);
	nftw(path, gone, 20, FTW_DEPTH | FTW_PHYS);
}

static void
new_tree(void)
{
	fell(top);
	fell(outside);
	while (nodes_n > 0)
		free(nodes[--nodes_n]);
	if (mkdir(top, 0700) == -1 || mkdir(outside, 0700) == -1)
		exit(99);
	grow(outside, 1);
	grow(top, 3);
	keep(top);
	/* Two places of it are protected, one may not be there. */
	path_protect_free(inv.protect == NULL
			      ? NULL
			      : (struct path_protect *)(uintptr_t)inv.protect);
	inv.protect = NULL;
}

static void
protect(void)
{
	struct path_protect *set = path_protect_new();
	char real[PATH_MAX];
	const char *at;

	closed[0] = readonly[0] = '\0';
	/* Names without links on the way, so that text is enough here. */
	at = nodes[roll((unsigned)nodes_n)];
	if (realpath(at, real) != NULL && strcmp(at, real) == 0 &&
	    strcmp(at, top) != 0)
		strlcpy(closed, at, sizeof(closed));
	at = nodes[roll((unsigned)nodes_n)];
	if (realpath(at, real) != NULL && strcmp(at, real) == 0 &&
	    strcmp(at, top) != 0)
		strlcpy(readonly, at, sizeof(readonly));
	if (set == NULL ||
	    (closed[0] != '\0' &&
		path_protect_add(set, closed, PATH_CLOSED) == -1) ||
	    (readonly[0] != '\0' &&
		path_protect_add(set, readonly, PATH_READ_ONLY) == -1))
		exit(99);
	inv.protect = set;
}

/* --- grants --- */

static void
escaped(char *out, const char *s)
{
	size_t n = strlen(out);

	for (; *s != '\0' && n + 2 < GLOB_PATTERN_MAX; s++) {
		if (strchr("*?[]{},\\!", *s) != NULL)
			out[n++] = '\\';
		out[n++] = *s;
	}
	out[n] = '\0';
}

static void
random_segments(char *out)
{
	static const char *const pieces[] = {"*", "**", "?", "a*", "*.txt",
	    "[ab]", "[!a]*", "[a-f]", "{a,b}", "{a,ab}.txt", "{a,b/f}",
	    "{*,.git}", "{a,{b,c c}}", "\\*", ".*", "??", "*b*", "{.ssh,*}",
	    "**", "**"};
	unsigned n;

	for (n = 1 + roll(3); n > 0; n--) {
		strlcat(out, "/", GLOB_PATTERN_MAX);
		if (roll(2) == 0)
			strlcat(out, PICK(pieces), GLOB_PATTERN_MAX);
		else
			escaped(out, a_name());
	}
}

static void
random_glob(char *out, const char *root)
{
	out[0] = '\0';
	switch (roll(12)) {
	case 0:
	case 10:
		strlcpy(out, "/**", GLOB_PATTERN_MAX);
		break;
	case 1:
	case 2:
		escaped(out, nodes[roll((unsigned)nodes_n)]);
		break;
	case 3:
	case 4:
		escaped(out, nodes[roll((unsigned)nodes_n)]);
		strlcat(out, "/**", GLOB_PATTERN_MAX);
		break;
	case 5:
	case 11:
		strlcpy(out, root, GLOB_PATTERN_MAX);
		strlcat(out, "/**", GLOB_PATTERN_MAX);
		break;
	default:
		strlcpy(out, root, GLOB_PATTERN_MAX);
		random_segments(out);
	}
}

static void
new_grant(bool memory, const char *root)
{
	static const char text[] =
	    "---\nid: unit\nversion: 1.0.0\ndescription: a test\n"
	    "allowed_tools: [Read, Write, Edit, MemoryRead, MemoryEmit]\n"
	    "allowed_memory_scopes: []\n---\n";
	struct manifest m;
	struct glob_set *set;
	const char *why, *glob;
	size_t i, j;

	for (i = 0; i < GLOBS_MAX; i++) {
		for (j = 0; j < expressions_n[i]; j++)
			pcre2_code_free(expressions[i][j]);
		expressions_n[i] = 0;
	}
	grant_free((struct grant *)(uintptr_t)inv.grant);
	if (manifest_parse(text, sizeof(text) - 1, &policy, registry_names(),
		"1.0.0", &m) == -1 ||
	    m.errors_n > 0)
		exit(99);
	set = memory ? m.memory_scopes : m.files;
	for (globs_n = 0; globs_n < 1 + roll(GLOBS_MAX - 1);) {
		random_glob(globs[globs_n], root);
		glob = globs[globs_n] + (memory ? 1 : 0);
		if (glob_set_add(set, glob, strlen(glob), &why) == -1)
			continue;
		expand(globs[globs_n], globs_n);
		globs_n++;
	}
	inv.grant = grant_new(&m, &policy);
	manifest_clear(&m);
	if (inv.grant == NULL)
		exit(99);
}

/* --- paths --- */

/* Somewhere in the tree, and on from there, with all that means nothing. */
static void
random_path(char *out, size_t size)
{
	static const char *const more[] = {"/", "//", "/.", "/..", "/./", "/../",
	    "/none/..", "/none/../", "/f", "/a", "/a/b", "/.git/f", "/../a",
	    "/../../a", "/a/../..", "/\xc3\xa9", "/x\ny"};
	const char *node = nodes[roll((unsigned)nodes_n)], *p;
	unsigned n;

	if (roll(3) == 0) {
		strlcpy(out, node, size);
		return;
	}
	out[0] = '\0';
	if (roll(40) == 0) {
		static const char *const odd[] = {"", "a", "./a", "~/a", "//",
		    "/", "/etc/passwd", "//etc/passwd", "/proc/self/environ",
		    "/proc/self/root/etc/passwd", "/dev/stdin", "/proc/1/root",
		    "/tmp", "/usr/bin/env", "/usr/none", "file:///etc/passwd"};

		strlcpy(out, PICK(odd), size);
		return;
	}
	/* The node's own path, with detours. */
	for (p = node; *p != '\0';) {
		size_t len = strcspn(p + 1, "/") + 1;

		if (roll(6) == 0)
			strlcat(out, PICK(more), size);
		n = (unsigned)strlen(out);
		if (n + len < size) {
			memcpy(out + n, p, len);
			out[n + len] = '\0';
		}
		p += len;
	}
	for (n = roll(3); n > 0; n--) {
		if (roll(3) == 0) {
			strlcat(out, PICK(more), size);
		} else {
			strlcat(out, "/", size);
			strlcat(out, a_name(), size);
		}
	}
	if (roll(200) == 0) {
		strlcat(out, "/", size);
		for (n = roll(5000); n > 0; n--)
			strlcat(out, n % 256 == 0 ? "/" : "y", size);
	}
}

/* --- asking the product --- */

static struct call *
ask(const char *tool, const char *path, enum check_result *result)
{
	struct call *c = call_new();
	cJSON *args = cJSON_CreateObject();

	c->rpc.tool = strdup(tool);
	c->rpc.args = args;
	cJSON_AddStringToObject(args, "path", path);
	if (strcmp(tool, "Write") == 0 || strcmp(tool, "MemoryEmit") == 0)
		cJSON_AddStringToObject(args, "body", "x");
	if (strcmp(tool, "Edit") == 0) {
		cJSON_AddStringToObject(args, "old", "x");
		cJSON_AddStringToObject(args, "new", "y");
	}
	if (strcmp(tool, "MemoryEmit") == 0)
		cJSON_AddStringToObject(args, "kind", "a.b");
	*result = registry_check(c, &inv);
	return c;
}

static enum verdict_of_model
said(const struct call *c, enum check_result result)
{
	if (result == CHECK_BAD_ARGS)
		return BAD;
	if (result == CHECK_REFUSED)
		return REFUSED;
	switch ((int)c->check.failure) {
	case FAIL_NONE:
		return MAY;
	case FAIL_NOT_FOUND:
		return ABSENT;
	case FAIL_IS_A_DIRECTORY:
		return DIRECTORY;
	case FAIL_PERMISSION:
		return FORBIDDEN;
	default:
		return BAD;
	}
}

/* What may be used is the very object that the model means. */
static bool
same_thing(const struct call *c, const char *canonical)
{
	const struct resource *on = &c->check.on;
	struct stat want, got;
	char parent[TEXT], *slash;

	if (on->name == NULL || strcmp(on->name, canonical) != 0)
		return false;
	strlcpy(parent, canonical, sizeof(parent));
	slash = strrchr(parent, '/');
	*slash = '\0';
	if (on->parent_fd == -1 || strcmp(on->leaf, slash + 1) != 0 ||
	    fstat(on->parent_fd, &got) == -1 ||
	    stat(parent[0] == '\0' ? "/" : parent, &want) == -1 ||
	    got.st_dev != want.st_dev || got.st_ino != want.st_ino)
		return false;
	if (on->fd == -1)
		return lstat(canonical, &want) == -1 && errno == ENOENT;
	return fstat(on->fd, &got) == 0 && lstat(canonical, &want) == 0 &&
	       got.st_dev == want.st_dev && got.st_ino == want.st_ino;
}

static void
complain(const char *tool, const char *path, const char *canonical,
    const struct call *c, enum verdict_of_model want, enum verdict_of_model got)
{
	size_t i;

	if (wrong++ >= 10)
		return;
	printf("# %s %s\n#   is %s (%s)\n#   and should be %s (%s)\n", tool,
	    path, words[got], c->check.on.name == NULL ? "-" : c->check.on.name,
	    words[want], canonical);
	for (i = 0; i < globs_n; i++)
		printf("#   grant %s\n", globs[i]);
	printf("#   closed %s\n#   read-only %s\n", closed, readonly);
}

static void
try_file(void)
{
	static const char *const tools[] = {"Read", "Write", "Edit"};
	const char *tool = PICK(tools);
	char path[2 * PATH_MAX], canonical[TEXT];
	enum verdict_of_model want, got;
	enum check_result result;
	struct call *c;

	random_path(path, sizeof(path));
	want = judge(path, strcmp(tool, "Read") != 0, canonical);
	if (path[0] == '\0')
		want = BAD;
	c = ask(tool, path, &result);
	got = said(c, result);
	tally[got]++;
	if (got != want || (got == MAY && !same_thing(c, canonical)))
		complain(tool, path, canonical, c, want, got);
	call_free(c);
}

/* The names themselves: is the model right? The C library has a word in it. */
static void
check_model(void)
{
	char real[PATH_MAX];
	struct lead l;
	size_t i, n = 0;

	for (i = 0; i < nodes_n; i++) {
		memset(&l, 0, sizeof(l));
		go(&l, nodes[i], true);
		if (realpath(nodes[i], real) == NULL || in_closed(real) ||
		    l.links > 40)
			continue;
		if (l.gone[0] != '\0' && in_closed(l.there))
			continue;
		if (l.gone[0] != '\0' ||
		    strcmp(l.there[0] == '\0' ? "/" : l.there, real) != 0) {
			printf("# %s: the model says %s%s, realpath %s\n",
			    nodes[i], l.there, l.gone, real);
			n++;
		}
	}
	wrong += (long)n;
}

static long
tries(void)
{
	const char *s = getenv("MODEL_TRIES");

	return s == NULL ? 20000 : atol(s);
}

static void
test_files(void)
{
	long n = 0;
	int g, i;

	wrong = 0;
	shuts = true;
	memset(tally, 0, sizeof(tally));
	while (n < tries()) {
		new_tree();
		protect();
		check_model();
		for (g = 0; g < GRANTS_A_TREE; g++) {
			new_grant(false, roll(4) == 0 ? outside : top);
			for (i = 0; i < TRIES_A_GRANT; i++, n++)
				try_file();
		}
	}
	printf("# files: %ld tries; %ld may, %ld refused, %ld not there, "
	       "%ld directories, %ld bad\n",
	    n, tally[MAY], tally[REFUSED], tally[ABSENT] + tally[FORBIDDEN],
	    tally[DIRECTORY], tally[BAD]);
	ok(tally[MAY] > n / 100 && tally[REFUSED] > n / 10 &&
		tally[ABSENT] > n / 200 && tally[DIRECTORY] > n / 200 &&
		tally[BAD] > 0,
	    "files: the tries are worth it");
	is_int(wrong, 0,
	    "files: allowed is what a grant matches, and nothing else");
}

/* --- memory --- */

static bool
memory_part_ok(const char *p, size_t n)
{
	size_t i;

	if (n > 255 || p[0] == '.' || p[n - 1] == ' ' || p[n - 1] == '.')
		return false;
	for (i = 0; i < n; i++) {
		if ((unsigned char)p[i] < ' ' || p[i] == 0x7f)
			return false;
	}
	return true;
}

/* The canonical form, with a slash in front, or false. */
static bool
memory_name(const char *path, char canonical[TEXT])
{
	static const char *const first[] = {"memories", "meta", "company",
	    "module", "member", "client", "project", "persona"};
	const char *p, *end;
	size_t i, n;
	bool good = true, known = false;

	canonical[0] = '\0';
	for (p = path; *p != '\0'; p = end) {
		p += strspn(p, "/");
		end = p + strcspn(p, "/");
		n = (size_t)(end - p);
		if (n == 0 || (n == 1 && *p == '.'))
			continue;
		if (n == 2 && p[0] == '.' && p[1] == '.') {
			if (canonical[0] == '\0')
				return false;
			*strrchr(canonical, '/') = '\0';
			continue;
		}
		/* One that is taken away again must be good, too. */
		good = good && memory_part_ok(p, n);
		add(canonical, "/");
		add_some(canonical, p, n);
	}
	n = strcspn(canonical + (canonical[0] == '/'), "/");
	for (i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		known = known || (strlen(first[i]) == n &&
				     strncmp(canonical + 1, first[i], n) == 0);
	return good && known && is_text(path) &&
	       strlen(canonical) < PATH_MAX;
}

/* Is there a link among these directories, or something that is none? */
static enum verdict_of_model
memory_walk(const char *full, bool write)
{
	char name[TEXT];
	const char *p = full + strlen(top), *end;
	struct stat st;
	bool last;

	for (; *p == '/'; p = end) {
		end = p + 1 + strcspn(p + 1, "/");
		last = *end == '\0';
		name[0] = '\0';
		add_some(name, full, (size_t)(end - full));
		if (lstat(name, &st) == -1)
			return errno == EACCES ? FORBIDDEN
			       : write	       ? MAY
					       : ABSENT;
		if (S_ISLNK(st.st_mode))
			return REFUSED;
		if (last && S_ISDIR(st.st_mode))
			return DIRECTORY;
		if (last)
			return S_ISREG(st.st_mode) && st.st_nlink == 1
				   ? MAY
				   : REFUSED;
		if (!S_ISDIR(st.st_mode))
			return ABSENT;
	}
	return ABSENT;
}

static void
try_memory(void)
{
	const char *tool = roll(3) == 0 ? "MemoryEmit" : "MemoryRead";
	char path[2 * PATH_MAX], canonical[TEXT], full[TEXT];
	enum verdict_of_model want, got;
	enum check_result result;
	struct call *c;
	const char *p;
	struct stat a, b;
	bool good;

	random_path(path, sizeof(path));
	/* Memory begins where the tree does. */
	p = strncmp(path, top, strlen(top)) == 0 ? path + strlen(top) : path;
	if (p[0] == '/' && roll(4) != 0)
		p++;
	want = p[0] == '\0'			   ? BAD
	       : !memory_name(p, canonical)	   ? REFUSED
	       : !granted(canonical)		   ? REFUSED
						   : MAY;
	strlcpy(full, top, sizeof(full));
	add(full, canonical);
	if (want == MAY)
		want = memory_walk(full, strcmp(tool, "MemoryEmit") == 0);
	c = ask(tool, p, &result);
	got = said(c, result);
	tally[got]++;
	good = got == want;
	if (good && got == MAY)
		good = strcmp(c->check.on.name, canonical + 1) == 0 &&
		       (c->check.on.fd == -1 ||
			   (fstat(c->check.on.fd, &a) == 0 &&
			       lstat(full, &b) == 0 && a.st_ino == b.st_ino));
	if (!good)
		complain(tool, p, canonical, c, want, got);
	call_free(c);
}

static void
test_memory(void)
{
	static const char *const roots[] = {"memories", "meta", "project", "a"};
	char path[PATH_MAX];
	long n = 0;
	size_t i;
	int g;

	wrong = 0;
	shuts = false;
	memset(tally, 0, sizeof(tally));
	closed[0] = readonly[0] = '\0';
	while (n < tries()) {
		new_tree();
		protect();
		for (i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
			snprintf(path, sizeof(path), "%s/%s", top, roots[i]);
			if (mkdir(path, 0700) == 0) {
				keep(path);
				grow(path, 2);
			}
		}
		inv.memory_fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
		for (g = 0; g < GRANTS_A_TREE; g++) {
			char root[64];

			snprintf(root, sizeof(root), "/%s", PICK(roots));
			/* Names of nodes are below the tree's here. */
			for (i = 0; i < nodes_n; i++) {
				size_t len = strlen(top);

				if (strncmp(nodes[i], top, len) == 0 &&
				    nodes[i][len] == '/')
					memmove(nodes[i], nodes[i] + len,
					    strlen(nodes[i] + len) + 1);
			}
			new_grant(true, root);
			for (i = 0; i < TRIES_A_GRANT; i++, n++)
				try_memory();
		}
		close(inv.memory_fd);
	}
	printf("# memory: %ld tries; %ld may, %ld refused, %ld not there, "
	       "%ld directories\n",
	    n, tally[MAY], tally[REFUSED], tally[ABSENT] + tally[FORBIDDEN],
	    tally[DIRECTORY]);
	ok(tally[MAY] > n / 100 && tally[REFUSED] > n / 10 &&
		tally[ABSENT] > n / 200,
	    "memory: the tries are worth it");
	is_int(wrong, 0,
	    "memory: allowed is what a scope matches, and nothing else");
}

int
main(void)
{
	const char *seed = getenv("MODEL_SEED");

	setvbuf(stdout, NULL, _IOLBF, 0);
	state = seed != NULL ? strtoull(seed, NULL, 10)
			     : (uint64_t)time(NULL) * 1000003 +
				   (uint64_t)getpid();
	printf("# MODEL_SEED=%llu\n", (unsigned long long)state);
	if (state == 0 || mkdtemp(top) == NULL || mkdtemp(outside) == NULL ||
	    policy_init(&policy) == -1)
		exit(99);
	inv.policy = &policy;
	inv.memory_fd = -1;
	test_files();
	test_memory();
	fell(top);
	fell(outside);
	return done();
}
