/*
 * Where configuration comes from. The system's file is root's word: whatever
 * it sets, a user's file, the environment and the command line can only
 * tighten, and an attempt to do more is an error and not silently ignored.
 */

#include "supervisor/settings.h"

#include <sys/stat.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/exit.h"
#include "tools/registry.h"

#define DEFAULT_SKILLS "/opt/cyberos/skills"
#define DEFAULT_SOCKET_DIR "/tmp"
#define ROOT_STORE "/var/lib/cyberos/store"

static const char *
environment(const char *name)
{
	const char *value = secure_getenv(name);

	return value == NULL || value[0] == '\0' ? NULL : value;
}

static const char *
home(void)
{
	const char *dir = environment("HOME");
	const struct passwd *pw;

	if (dir != NULL && dir[0] == '/')
		return dir;
	pw = getpwuid(geteuid());
	return pw == NULL ? "/" : pw->pw_dir;
}

/* A directory of the XDG kind, else the one below the user's home. */
static int
user_path(char path[PATH_MAX], const char *variable, const char *below_home,
    const char *rest)
{
	const char *dir = environment(variable);
	int n;

	if (dir != NULL && dir[0] == '/')
		n = snprintf(path, PATH_MAX, "%s/%s", dir, rest);
	else
		n = snprintf(path, PATH_MAX, "%s/%s/%s", home(), below_home,
		    rest);
	if (n >= 0 && n < PATH_MAX)
		return 0;
	errno = ENAMETOOLONG;
	return -1;
}

/* Only a file that is certainly not there may be left out. */
static bool
is_there(const char *file)
{
	struct stat st;

	if (stat(file, &st) == 0 || (errno != ENOENT && errno != ENOTDIR))
		return true; /* what cannot be looked at fails when read */
	return lstat(file, &st) == 0; /* a dangling link is somebody's word */
}

static int
load_file(struct settings *s, unsigned slot, const char *file, char *why,
    size_t whylen)
{
	size_t n = s->files[0] == NULL ? 0 : 1;

	s->files[n] = strdup(file);
	if (s->files[n] == NULL) {
		snprintf(why, whylen, "%s", strerror(errno));
		return -1;
	}
	return policy_load(&s->policy, slot, file, why, whylen);
}

static int
load_files(struct settings *s, const char *config, char *why, size_t whylen)
{
	char path[PATH_MAX];
	int error;

	if (is_there(SETTINGS_SYSTEM_FILE) &&
	    load_file(s, 0, SETTINGS_SYSTEM_FILE, why, whylen) == -1)
		return -1;
	error = config != NULL
	    ? settings_absolute(path, config)
	    : user_path(path, "XDG_CONFIG_HOME", ".config",
		  "cyberos/broker.yaml");
	if (error == -1) {
		snprintf(why, whylen, "configuration %s: %s",
		    config == NULL ? "of the user" : config, strerror(errno));
		return -1;
	}
	if (config == NULL && !is_there(path))
		return 0;
	return load_file(s, 1, path, why, whylen);
}

/* One of the values that may come from three places. */
static int
choose(const struct policy *policy, const char *key, char **value,
    const char *option, const char *env, const char *fallback, char *why,
    size_t whylen)
{
	const char *wanted = option != NULL ? option : env;

	if (wanted != NULL && wanted[0] == '\0') {
		snprintf(why, whylen, "%s: the value is empty", key);
		return -1;
	}
	if (wanted != NULL && *value != NULL && strcmp(wanted, *value) != 0 &&
	    policy_fixed(policy, key)) {
		snprintf(why, whylen, "%s: " SETTINGS_SYSTEM_FILE
				      " has set it to %s",
		    key, *value);
		return -1;
	}
	if (wanted == NULL && *value == NULL)
		wanted = fallback;
	if (wanted == NULL)
		return 0;
	free(*value);
	*value = strdup(wanted);
	if (*value == NULL) {
		snprintf(why, whylen, "%s", strerror(errno));
		return -1;
	}
	return 0;
}

/* A real directory of ours that nobody else can write. */
static int
check_own(const char *path, char *why, size_t whylen)
{
	struct stat st;

	if (lstat(path, &st) == -1) {
		snprintf(why, whylen, "%s: %s", path, strerror(errno));
		return -1;
	}
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 022) != 0) {
		snprintf(why, whylen,
		    "%s: must be a directory of yours that nobody else can "
		    "write, or name another with --store",
		    path);
		return -1;
	}
	return 0;
}

/* The three directories of a store that lies in a project. */
static int
check_parts(char store[PATH_MAX], const char *above, char *why, size_t whylen)
{
	static const char *const parts[] = { "/.cyberos", "/memory", "/store" };
	char path[PATH_MAX];
	size_t i;

	strlcpy(path, above, sizeof(path));
	for (i = 0; i < 3; i++) {
		strlcat(path, parts[i], sizeof(path));
		if (check_own(path, why, whylen) == -1)
			return -1;
	}
	strlcpy(store, path, PATH_MAX);
	return 0;
}

/*
 * The nearest .cyberos/memory/store upward. 1 found, 0 none, -1 one that must
 * not be trusted: it is never stepped over, nor is one that we cannot see.
 */
static int
search_store(char store[PATH_MAX], char *why, size_t whylen)
{
	char at[PATH_MAX], path[PATH_MAX];
	struct stat st;
	char *slash;

	/* A working directory that has no name has nothing above it. */
	if (getcwd(at, sizeof(at)) == NULL || at[0] != '/')
		return 0;
	for (;;) {
		if (strcmp(at, "/") == 0)
			at[0] = '\0';
		errno = ENAMETOOLONG;
		if (snprintf(path, sizeof(path), "%s/.cyberos/memory/store",
			at) < (int)sizeof(path) &&
		    lstat(path, &st) == 0)
			return check_parts(store, at, why, whylen) == 0 ? 1 : -1;
		if (errno != ENOENT && errno != ENOTDIR) {
			snprintf(why, whylen, "%.900s/.cyberos/memory/store: %s",
			    at, strerror(errno));
			return -1;
		}
		slash = strrchr(at, '/');
		if (slash == NULL)
			return 0;
		*slash = '\0';
	}
}

static int
choose_store(struct settings *s, const char *option, char *why, size_t whylen)
{
	int found = 0, error = 0;

	if (choose(&s->policy, "store", &s->policy.store, option,
		environment("CYBEROS_STORE"), NULL, why, whylen) == -1)
		return -1;
	if (s->policy.store != NULL)
		error = settings_absolute(s->store, s->policy.store);
	else if (geteuid() == 0)
		strlcpy(s->store, ROOT_STORE, sizeof(s->store));
	else if ((found = search_store(s->store, why, whylen)) == 0)
		error = user_path(s->store, "XDG_STATE_HOME", ".local/state",
		    "cyberos/store");
	if (error == -1)
		snprintf(why, whylen, "store: %s", strerror(errno));
	return error == -1 || found == -1 ? -1 : 0;
}

static int
choose_sandbox(struct settings *s, const char *option, char *why,
    size_t whylen)
{
	if (option == NULL)
		return 0;
	if (strcmp(option, "required") == 0) {
		s->policy.best_effort = false;
		return 0;
	}
	if (strcmp(option, "best-effort") != 0) {
		snprintf(why, whylen,
		    "--sandbox: write required or best-effort");
		return -1;
	}
	if (policy_fixed(&s->policy, "sandbox") && !s->policy.best_effort) {
		snprintf(why, whylen,
		    "sandbox: " SETTINGS_SYSTEM_FILE " has set it to required");
		return -1;
	}
	s->policy.best_effort = true;
	return 0;
}

int
settings_absolute(char path[PATH_MAX], const char *given)
{
	char cwd[PATH_MAX];
	int n;

	if (given[0] == '/')
		n = snprintf(path, PATH_MAX, "%s", given);
	else if (getcwd(cwd, sizeof(cwd)) == NULL)
		return -1;
	else
		n = snprintf(path, PATH_MAX, "%s/%s", cwd, given);
	if (n < 0 || n >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return 0;
}

static int
make_absolute(char **path, char *why, size_t whylen)
{
	char absolute[PATH_MAX];

	if (settings_absolute(absolute, *path) == -1) {
		snprintf(why, whylen, "%s: %s", *path, strerror(errno));
		return -1;
	}
	free(*path);
	*path = strdup(absolute);
	return *path == NULL ? -1 : 0;
}

int
settings_load(struct settings *s, const struct settings_options *o, char *why,
    size_t whylen)
{
	memset(s, 0, sizeof(*s));
	if (policy_init(&s->policy) == -1) {
		snprintf(why, whylen, "%s", strerror(errno));
		return -1;
	}
	s->policy.tool_names = registry_names();
	if (load_files(s, o->config, why, whylen) == -1 ||
	    choose(&s->policy, "skills", &s->policy.skills, o->skills,
		environment("CYBEROS_SKILLS"), DEFAULT_SKILLS, why, whylen) ==
		-1 ||
	    make_absolute(&s->policy.skills, why, whylen) == -1 ||
	    choose(&s->policy, "socket_dir", &s->policy.socket_dir,
		o->socket_dir, NULL, DEFAULT_SOCKET_DIR, why, whylen) == -1 ||
	    choose_store(s, o->store, why, whylen) == -1 ||
	    choose_sandbox(s, o->sandbox, why, whylen) == -1)
		return -1;
	return 0;
}

void
settings_clear(struct settings *s)
{
	size_t i;

	for (i = 0; i < 3; i++)
		free(s->files[i]);
	policy_clear(&s->policy);
}

int
settings_no_store(const char *path)
{
	int error = errno;

	warnx("store %s: %s", path,
	    error == EPERM ? "must be a directory of yours that nobody else can "
			     "write, and no link"
		: error == EBADMSG ? "audit/host.json:1: form: names no host"
		: error == ENOENT ? "no invocation has run in it yet"
				   : strerror(error));
	return error == EPERM || error == EACCES ? EXIT_DENIED
	    : error == EBADMSG			 ? EXIT_INVALID
						 : EXIT_FAILED;
}

int
settings_open_store(const char *path, struct store *store)
{
	return store_look(store, path) == 0 ? EXIT_FINE
					    : settings_no_store(path);
}

int
settings_open_any(const char *path, struct store *store)
{
	if (store_look(store, path) == 0 || errno == ENOENT)
		return EXIT_FINE;
	return settings_no_store(path);
}

bool
settings_wait(unsigned *tenths)
{
	if (*tenths == 0)
		return false;
	--*tenths;
	usleep(100000);
	return true;
}

int
settings_look(const struct settings_options *options, struct store *store,
    unsigned *wait)
{
	struct settings settings;
	char why[1024];
	int result;

	if (settings_load(&settings, options, why, sizeof(why)) == -1) {
		warnx("%s", why);
		result = EXIT_CONFIG;
	} else {
		do
			result = store_look(store, settings.store);
		while (result == -1 && errno == ENOENT && wait != NULL &&
		    settings_wait(wait));
		if (result == -1)
			result = settings_no_store(settings.store);
	}
	settings_clear(&settings);
	return result;
}

bool
settings_seconds(double *out, const char *name, const char *value, bool zero)
{
	char *end;
	double n = strtod(value, &end);

	if (end == value || *end != '\0' || !isfinite(n) || n < 0 ||
	    (n == 0 && !zero) || n > 1e7) {
		warnx("%s: %s is no number of seconds%s", name, value,
		    zero ? "" : " above 0");
		return false;
	}
	*out = n;
	return true;
}

bool
settings_is_sandbox(const char *value)
{
	if (strcmp(value, "required") == 0 || strcmp(value, "best-effort") == 0)
		return true;
	warnx("--sandbox: write required or best-effort");
	return false;
}
