/*
 * Where configuration comes from. The system's file is root's word: whatever
 * it sets, a user's file, the environment and the command line can only
 * tighten, and an attempt to do more is an error and not silently ignored.
 */

#include "supervisor/settings.h"

#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

	if (dir != NULL)
		return dir;
	pw = getpwuid(geteuid());
	return pw == NULL ? "/" : pw->pw_dir;
}

static int
user_file(char path[PATH_MAX])
{
	const char *dir = environment("XDG_CONFIG_HOME");

	if (dir != NULL && dir[0] == '/')
		snprintf(path, PATH_MAX, "%s/cyberos/broker.yaml", dir);
	else
		snprintf(path, PATH_MAX, "%s/.config/cyberos/broker.yaml",
		    home());
	return access(path, F_OK);
}

static int
load_files(struct settings *s, const char *config, char *why, size_t whylen)
{
	char path[PATH_MAX], absolute[PATH_MAX];
	size_t n = 0;

	if (access(SETTINGS_SYSTEM_FILE, F_OK) == 0) {
		s->files[n++] = strdup(SETTINGS_SYSTEM_FILE);
		if (policy_load(&s->policy, 0, SETTINGS_SYSTEM_FILE, why,
			whylen) == -1)
			return -1;
	}
	if (config == NULL && user_file(path) == 0)
		config = path;
	if (config == NULL)
		return 0;
	if (settings_absolute(absolute, config) == -1) {
		snprintf(why, whylen, "%s: %s", config, strerror(errno));
		return -1;
	}
	s->files[n++] = strdup(absolute);
	return policy_load(&s->policy, 1, config, why, whylen);
}

/* One of the values that may come from three places. */
static int
choose(const struct policy *policy, const char *key, char **value,
    const char *option, const char *env, const char *fallback, char *why,
    size_t whylen)
{
	const char *wanted = option != NULL ? option : env;

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

/*
 * The nearest .cyberos/memory/store upward. 1 found, 0 none, -1 one that must
 * not be trusted: it is never stepped over.
 */
static int
search_store(char store[PATH_MAX], char *why, size_t whylen)
{
	static const char *const parts[] = { "/.cyberos", "/memory", "/store" };
	char at[PATH_MAX], path[PATH_MAX];
	char *slash;
	struct stat st;
	size_t i;

	if (getcwd(at, sizeof(at)) == NULL)
		return 0;
	for (;;) {
		if (strcmp(at, "/") == 0)
			at[0] = '\0';
		snprintf(path, sizeof(path), "%.4000s/.cyberos/memory/store",
		    at);
		if (lstat(path, &st) == 0) {
			snprintf(path, sizeof(path), "%.4000s", at);
			for (i = 0; i < 3; i++) {
				strlcat(path, parts[i], sizeof(path));
				if (check_own(path, why, whylen) == -1)
					return -1;
			}
			strlcpy(store, path, PATH_MAX);
			return 1;
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
	const char *state;
	int found;

	if (choose(&s->policy, "store", &s->policy.store, option,
		environment("CYBEROS_STORE"), NULL, why, whylen) == -1)
		return -1;
	if (s->policy.store != NULL) {
		if (settings_absolute(s->store, s->policy.store) == 0)
			return 0;
		snprintf(why, whylen, "store: %s", strerror(errno));
		return -1;
	}
	if (geteuid() == 0) {
		strlcpy(s->store, ROOT_STORE, sizeof(s->store));
		return 0;
	}
	found = search_store(s->store, why, whylen);
	if (found != 0)
		return found == 1 ? 0 : -1;
	state = environment("XDG_STATE_HOME");
	if (state != NULL && state[0] == '/')
		snprintf(s->store, sizeof(s->store), "%s/cyberos/store", state);
	else
		snprintf(s->store, sizeof(s->store),
		    "%s/.local/state/cyberos/store", home());
	return 0;
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

int
settings_load(struct settings *s, const struct settings_options *o, char *why,
    size_t whylen)
{
	memset(s, 0, sizeof(*s));
	if (policy_init(&s->policy) == -1) {
		snprintf(why, whylen, "%s", strerror(errno));
		return -1;
	}
	if (load_files(s, o->config, why, whylen) == -1 ||
	    choose(&s->policy, "skills", &s->policy.skills, o->skills,
		environment("CYBEROS_SKILLS"), DEFAULT_SKILLS, why, whylen) ==
		-1 ||
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
