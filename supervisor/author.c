/*
 * validate: it judges with the same reader and the same operator's ceilings as
 * a run does, so that what passes here runs there. The directories may be
 * anybody's: nothing in them is executed, nothing is read but SKILL.md and what
 * its x-files-sha256 covers, no link is followed, and what is echoed cannot play
 * with the terminal.
 */

#include "supervisor/author.h"

#include <sys/stat.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "enforce/bundle.h"
#include "enforce/excerpt.h"
#include "enforce/glob.h"
#include "enforce/manifest.h"
#include "enforce/trust.h"
#include "supervisor/caution.h"
#include "supervisor/exit.h"
#include "supervisor/settings.h"
#include "supervisor/terminal.h"
#include "tools/registry.h"

#define GUTTER 8   /* "  123 | " */

struct validate {
	bool json;
	const char *broker_version;
	const char *config;
	struct settings settings;
	size_t columns; /* of the terminal; 0: it is none */
	const char *home;
	cJSON *results; /* an array, with json */
};

/* A SKILL.md and what messages call it. */
struct source {
	const struct validate *v;
	const char *path;
	char *text;
	size_t len;
};

static const char validate_usage[] =
    "usage: cyberos skill validate DIR... [--json] [--broker-version V]\n"
    "           [--config FILE]\n";

static const char validate_help[] =
    "\n"
    "Check the SKILL.md of each directory and print every error with its "
    "place.\n"
    "\n"
    "  --json              one JSON object, an array for several directories\n"
    "  --broker-version V  judge for this version of the broker\n"
    "  --config FILE       ceilings of this configuration too\n"
    "  --help              this text\n"
    "\n"
    "Exit status: 0 valid, 6 invalid, 1 no SKILL.md, 2 usage, 3 "
    "configuration.\n";

static cJSON *
need(cJSON *made)
{
	if (made == NULL)
		errx(EXIT_FAILED, "out of memory");
	return made;
}

/* "DIR/SKILL.md" for a terminal. */
static void
skill_path(char *out, size_t size, const char *dir, const char *name)
{
	char path[PATH_MAX * 2];
	size_t len = strlen(dir);

	while (len > 1 && dir[len - 1] == '/')
		len--;
	if (len >= PATH_MAX)
		len = PATH_MAX;
	snprintf(path, sizeof(path), "%.*s/%s", (int)len, dir, name);
	manifest_printable(out, size, path);
}

/* On a terminal, the line that a message is about, and a mark below. */
static void
print_place(const struct source *src, unsigned line, unsigned column)
{
	struct excerpt x;
	bool color = terminal_color();

	if (src->v->columns == 0 ||
	    !excerpt_make(&x, src->text, src->len, line, column,
		src->v->columns > GUTTER ? src->v->columns - GUTTER : 0))
		return;
	printf("%5u | %s\n      | %*s%s^%s\n", line, x.line, (int)x.indent, "",
	    color ? "\033[1;31m" : "", color ? "\033[0m" : "");
}

/* Fields that other products have in a file of this name. */
static bool
is_other_kind(const struct manifest *m)
{
	size_t i;

	for (i = 0; i < m->errors_n; i++)
		if (m->errors[i].code == MANIFEST_UNKNOWN_FIELD &&
		    (strcmp(m->errors[i].field, "name") == 0 ||
			strcmp(m->errors[i].field, "license") == 0 ||
			strcmp(m->errors[i].field, "metadata") == 0))
			return true;
	return false;
}

static void
print_errors(const struct source *src, const struct manifest *m)
{
	const struct manifest_error *e;
	size_t i;

	for (i = 0; i < m->errors_n; i++) {
		e = &m->errors[i];
		printf("%s:%u:%u: %s: %s: %s\n", src->path, e->line, e->column,
		    e->field[0] != '\0' ? e->field : "-",
		    manifest_code_word(e->code), e->message);
		/* What is not there has no place to show. */
		if (e->code != MANIFEST_MISSING_FIELD)
			print_place(src, e->line, e->column);
	}
	if (m->errors_dropped > 0)
		printf("%s: %zu more errors are not listed\n", src->path,
		    m->errors_dropped);
	if (is_other_kind(m))
		printf("%s: note: this is a SKILL.md of another kind; `cyberos "
		       "skill import` makes one of ours\n",
		    src->path);
}

static void
print_caution(void *arg, const char *field, const struct manifest_place *at,
    const char *message)
{
	const struct source *src = arg;

	printf("%s:%u:%u: %s: warning: %s\n", src->path, at->line, at->column,
	    field, message);
	print_place(src, at->line, at->column);
}

static void
warn_main(const char *dir, int dir_fd)
{
	struct stat st;
	char path[PATH_MAX * 4];

	skill_path(path, sizeof(path), dir, "main");
	if (fstatat(dir_fd, "main", &st, AT_SYMLINK_NOFOLLOW) == -1)
		printf("%s: warning: %s; the skill cannot run without it%s\n",
		    path, strerror(errno),
		    faccessat(dir_fd, "Makefile", F_OK, 0) == 0
			? ", run make there"
			: "");
	else if (!S_ISREG(st.st_mode))
		printf("%s: warning: is no regular file; the skill cannot "
		       "run\n",
		    path);
	else if ((st.st_mode & 0111) == 0)
		printf("%s: warning: is not executable; run: chmod +x\n", path);
}

static void
add_strings(cJSON *object, const char *name, char *const *list, size_t n)
{
	cJSON *array = need(cJSON_AddArrayToObject(object, name));
	size_t i;

	for (i = 0; i < n; i++)
		cJSON_AddItemToArray(array, need(cJSON_CreateString(list[i])));
}

static void
add_globs(cJSON *object, const char *name, const struct glob_set *set)
{
	cJSON *array = need(cJSON_AddArrayToObject(object, name));
	size_t i;

	for (i = 0; i < glob_set_count(set); i++)
		cJSON_AddItemToArray(
		    array, need(cJSON_CreateString(glob_set_pattern(set, i))));
}

static void
add_error(cJSON *errors, const char *field, const char *code,
    const char *message, unsigned line, unsigned column)
{
	cJSON *e = need(cJSON_CreateObject());

	need(cJSON_AddStringToObject(e, "field", field));
	need(cJSON_AddStringToObject(e, "code", code));
	need(cJSON_AddStringToObject(e, "message", message));
	need(cJSON_AddNumberToObject(e, "line", line));
	need(cJSON_AddNumberToObject(e, "column", column));
	cJSON_AddItemToArray(errors, e);
}

/* {"status":"invalid","errors":[]}; the array is returned. */
static cJSON *
add_invalid(struct validate *v)
{
	cJSON *object = need(cJSON_CreateObject());

	need(cJSON_AddStringToObject(object, "status", "invalid"));
	cJSON_AddItemToArray(v->results, object);
	return need(cJSON_AddArrayToObject(object, "errors"));
}

static void
add_result(struct validate *v, const struct manifest *m)
{
	const struct manifest_error *e;
	cJSON *object, *errors;
	size_t i;

	if (m->errors_n > 0) {
		errors = add_invalid(v);
		for (i = 0; i < m->errors_n; i++) {
			e = &m->errors[i];
			add_error(errors, e->field, manifest_code_word(e->code),
			    e->message, e->line, e->column);
		}
		return;
	}
	object = need(cJSON_CreateObject());
	need(cJSON_AddStringToObject(object, "status", "ok"));
	need(cJSON_AddStringToObject(object, "id", m->id));
	need(cJSON_AddStringToObject(object, "version", m->version));
	add_globs(object, "allowed_memory_scopes", m->memory_scopes);
	add_strings(object, "allowed_tools", m->tools, m->tools_n);
	if (m->signer[0] != '\0')
		need(cJSON_AddStringToObject(object, "signed_by", m->signer));
	cJSON_AddItemToArray(v->results, object);
}

/* There is no file to judge: why, from errno. 6 when something is in its place.
 */
static int
unreadable(struct validate *v, const char *path, int error)
{
	enum manifest_code code = MANIFEST_MISSING_FRONTMATTER;
	int status = EXIT_FAILED;
	const char *message;

	switch (error) {
	case ENOENT:
	case ENOTDIR:
		message = "no SKILL.md; write one, or name the directory that "
			  "holds it";
		break;
	case ELOOP:
	case EINVAL:
		message = "SKILL.md is no regular file; put the file itself "
			  "there, not a link";
		status = EXIT_INVALID;
		break;
	case EFBIG:
		message = "SKILL.md is larger than 1 MiB; move text into files "
			  "beside it";
		code = MANIFEST_YAML_PARSE;
		status = EXIT_INVALID;
		break;
	default:
		message = strerror(error);
		break;
	}
	if (v->json)
		add_error(add_invalid(v), "", manifest_code_word(code), message,
		    1, 1);
	else
		printf("%s:1:1: -: %s: %s\n", path, manifest_code_word(code),
		    message);
	return status;
}

static void
warn_files(const char *path, int dir_fd, const struct manifest *m)
{
	char why[512];
	struct bundle *b;

	if (m->files_sha256[0] == '\0' || m->signer[0] != '\0')
		return;
	b = bundle_read(dir_fd, false, why, sizeof(why));
	if (b == NULL)
		printf("%s: warning: x-files-sha256: %s; the skill cannot "
		       "run\n",
		    path, why);
	else if (strcmp(bundle_sha256(b), m->files_sha256) != 0)
		printf("%s: warning: x-files-sha256: the files of the skill "
		       "are not those of this hash; the skill cannot run\n",
		    path);
	bundle_free(b);
}

static void
print_valid(struct source *src, const char *dir, int dir_fd,
    const struct manifest *m)
{
	char why[512];

	if (caution_each(m, src->v->home, print_caution, src) == -1)
		err(EXIT_FAILED, "%s", src->path);
	warn_main(dir, dir_fd);
	warn_files(src->path, dir_fd, m);
	if (!trust_allows(&src->v->settings.policy, m, why, sizeof(why)))
		printf("%s: warning: signature: %s; the skill is not run "
		       "here\n",
		    src->path, why);
	else if (m->signer[0] != '\0' && m->files_sha256[0] == '\0')
		printf("%s: warning: signature: it does not cover the skill's "
		       "files; sign it with `cyberos skill sign`\n",
		    src->path);
	printf("%s: valid: %s %s%s%s\n", src->path, m->id, m->version,
	    m->signer[0] != '\0' ? ", signed by " : "", m->signer);
}

static int
validate_one(struct validate *v, const char *dir)
{
	struct manifest m = {0};
	struct bundle *files = NULL;
	char path[PATH_MAX * 4], why[512];
	struct source src = {v, path, NULL, 0};
	int status, dir_fd;

	skill_path(path, sizeof(path), dir, "SKILL.md");
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd == -1 || manifest_read(dir_fd, &src.text, &src.len) == -1) {
		status = unreadable(v, path, errno);
		goto out;
	}
	if (manifest_parse(src.text, src.len, &v->settings.policy,
		registry_names(), v->broker_version, &m) == -1)
		err(EXIT_FAILED, "%s", path);
	/* Without a signature it says nothing of the file: warn_files. */
	if (m.signer[0] != '\0' &&
	    manifest_check_files(&m, dir_fd, false, &files, why, sizeof(why)) ==
		-1)
		errx(EXIT_FAILED, "%s: %s", path, why);
	bundle_free(files);
	status = m.errors_n == 0 ? EXIT_FINE : EXIT_INVALID;
	if (v->json)
		add_result(v, &m);
	else if (m.errors_n > 0)
		print_errors(&src, &m);
	else
		print_valid(&src, dir, dir_fd, &m);
out:
	manifest_clear(&m);
	free(src.text);
	if (dir_fd != -1)
		close(dir_fd);
	return status;
}

/* Whose home a grant should not cover: the caller's. */
static const char *
own_home(void)
{
	const struct passwd *pw = getpwuid(geteuid());

	return pw == NULL ? NULL : pw->pw_dir;
}

/* The ceilings that a run would have. */
static int
load_policy(struct validate *v)
{
	struct settings_options o = { v->config, NULL, NULL, NULL, NULL };
	char why[1024], line[2048];

	if (settings_load(&v->settings, &o, why, sizeof(why)) == 0)
		return 0;
	warnx("%s", manifest_printable(line, sizeof(line), why));
	return -1;
}

/* False after a message, with the exit status in *status. */
static bool
validate_options(struct validate *v, int argc, char **argv, int *status)
{
	static const struct option options[] = {
	    {"json", no_argument, NULL, 'j'},
	    {"broker-version", required_argument, NULL, 'b'},
	    {"config", required_argument, NULL, 'c'},
	    {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	int c;

	optind = 0; /* glibc: begin anew */
	*status = EXIT_USAGE;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			v->json = true;
			break;
		case 'b':
			v->broker_version = optarg;
			break;
		case 'c':
			v->config = optarg;
			break;
		case 'h':
			fputs(validate_usage, stdout);
			fputs(validate_help, stdout);
			*status = EXIT_FINE;
			return false;
		default:
			fputs(validate_usage, stderr);
			return false;
		}
	}
	if (!manifest_is_version(v->broker_version)) {
		warnx("--broker-version: write a version such as 1.0.0");
		return false;
	}
	if (optind >= argc)
		fputs(validate_usage, stderr);
	return optind < argc;
}

static void
print_json(const struct validate *v)
{
	const cJSON *what = v->results;
	char *text;

	if (cJSON_GetArraySize(what) == 1)
		what = cJSON_GetArrayItem(what, 0);
	text = cJSON_PrintUnformatted(what);
	if (text == NULL)
		errx(EXIT_FAILED, "out of memory");
	puts(text);
	cJSON_free(text);
}

int
author_validate(int argc, char **argv)
{
	struct validate v = {.broker_version = CYBEROS_VERSION};
	int status, one;
	int i;

	if (!validate_options(&v, argc, argv, &status))
		return status;
	if (load_policy(&v) == -1) {
		status = EXIT_CONFIG;
		goto out;
	}
	v.columns = terminal_columns();
	v.home = own_home();
	v.results = need(cJSON_CreateArray());
	status = EXIT_FINE;
	for (i = optind; i < argc; i++) {
		one = validate_one(&v, argv[i]);
		if (one > status)
			status = one;
	}
	if (v.json)
		print_json(&v);
	if (fflush(stdout) == EOF) {
		warn("standard output");
		status = EXIT_FAILED;
	}
out:
	cJSON_Delete(v.results);
	settings_clear(&v.settings);
	return status;
}
