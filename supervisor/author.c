/*
 * The commands for authors. They judge with the same reader and the same
 * operator's ceilings as a run does, so that what passes here runs there. The
 * directories may be anybody's: nothing in them is executed, nothing but
 * SKILL.md is read, no link is followed, and what is echoed cannot play with
 * the terminal.
 */

#include "supervisor/author.h"

#include <sys/stat.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "enforce/glob.h"
#include "enforce/manifest.h"
#include "supervisor/settings.h"
#include "tools/registry.h"

/* SPEC 1, exit status of all commands but run. */
enum status {
	STATUS_FINE = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,
	STATUS_CONFIG = 3,
	STATUS_INVALID = 6
};

struct validate {
	bool json;
	const char *broker_version;
	const char *config;
	struct settings settings;
	cJSON *results; /* an array, with json */
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
		errx(STATUS_FAILED, "out of memory");
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

static void
print_errors(const char *path, const struct manifest *m)
{
	const struct manifest_error *e;
	size_t i;

	for (i = 0; i < m->errors_n; i++) {
		e = &m->errors[i];
		printf("%s:%u:%u: %s: %s: %s\n", path, e->line, e->column,
		    e->field[0] != '\0' ? e->field : "-",
		    manifest_code_word(e->code), e->message);
	}
	if (m->errors_dropped > 0)
		printf("%s: %zu more errors are not listed\n", path,
		    m->errors_dropped);
}

/* A trailing star is one level here; authors often mean the whole tree. */
static void
warn_globs(const char *path, const char *field, const struct glob_set *set)
{
	const char *glob;
	char word[256];
	size_t i, len;

	for (i = 0; i < glob_set_count(set); i++) {
		glob = glob_set_pattern(set, i);
		len = strlen(glob);
		if (len >= 2 && strcmp(glob + len - 2, "/*") == 0)
			printf("%s: warning: %s: `%s` is one level only; write "
			       "`%s*` for all that lies below\n",
			    path, field,
			    manifest_printable(word, sizeof(word), glob), word);
	}
}

static void
warn_main(const char *dir, int dir_fd)
{
	struct stat st;
	char path[PATH_MAX * 4];

	skill_path(path, sizeof(path), dir, "main");
	if (fstatat(dir_fd, "main", &st, AT_SYMLINK_NOFOLLOW) == -1)
		printf("%s: warning: %s; the skill cannot run without it\n",
		    path, strerror(errno));
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
	cJSON_AddItemToArray(v->results, object);
}

/* There is no file to judge: why, from errno. 6 when something is in its place.
 */
static int
unreadable(struct validate *v, const char *path, int error)
{
	enum manifest_code code = MANIFEST_MISSING_FRONTMATTER;
	int status = STATUS_FAILED;
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
		status = STATUS_INVALID;
		break;
	case EFBIG:
		message = "SKILL.md is larger than 1 MiB; move text into files "
			  "beside it";
		code = MANIFEST_YAML_PARSE;
		status = STATUS_INVALID;
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
print_valid(
    const char *path, const char *dir, int dir_fd, const struct manifest *m)
{
	warn_globs(path, "allowed_memory_scopes", m->memory_scopes);
	warn_globs(path, "x-allowed-files", m->files);
	warn_main(dir, dir_fd);
	printf("%s: valid: %s %s\n", path, m->id, m->version);
}

static int
validate_one(struct validate *v, const char *dir)
{
	struct manifest m = {0};
	char path[PATH_MAX * 4], *text = NULL;
	int status;
	size_t len;
	int dir_fd;

	skill_path(path, sizeof(path), dir, "SKILL.md");
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd == -1 || manifest_read(dir_fd, &text, &len) == -1) {
		status = unreadable(v, path, errno);
		goto out;
	}
	if (manifest_parse(text, len, &v->settings.policy, registry_names(),
		v->broker_version, &m) == -1)
		err(STATUS_FAILED, "%s", path);
	status = m.errors_n == 0 ? STATUS_FINE : STATUS_INVALID;
	if (v->json)
		add_result(v, &m);
	else if (m.errors_n > 0)
		print_errors(path, &m);
	else
		print_valid(path, dir, dir_fd, &m);
out:
	manifest_clear(&m);
	free(text);
	if (dir_fd != -1)
		close(dir_fd);
	return status;
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
	*status = STATUS_USAGE;
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
			*status = STATUS_FINE;
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
		errx(STATUS_FAILED, "out of memory");
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
		status = STATUS_CONFIG;
		goto out;
	}
	v.results = need(cJSON_CreateArray());
	status = STATUS_FINE;
	for (i = optind; i < argc; i++) {
		one = validate_one(&v, argv[i]);
		if (one > status)
			status = one;
	}
	if (v.json)
		print_json(&v);
	if (fflush(stdout) == EOF) {
		warn("standard output");
		status = STATUS_FAILED;
	}
out:
	cJSON_Delete(v.results);
	settings_clear(&v.settings);
	return status;
}
