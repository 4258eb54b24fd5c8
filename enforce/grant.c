/*
 * The skill's authority, in one place. Every question is asked of the skill's
 * own list first and of each ceiling after it; the first "no" is the answer.
 */

#include "enforce/grant.h"

#include <stdlib.h>
#include <string.h>

struct grant {
	struct manifest manifest;
	const struct policy *policy;
};

struct grant *
grant_new(struct manifest *m, const struct policy *policy)
{
	struct grant *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return NULL;
	g->manifest = *m;
	memset(m, 0, sizeof(*m));
	g->policy = policy;
	return g;
}

void
grant_free(struct grant *g)
{
	if (g == NULL)
		return;
	manifest_clear(&g->manifest);
	free(g);
}

static bool
listed(char *const *list, size_t n, const char *name)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (strcmp(list[i], name) == 0)
			return true;
	}
	return false;
}

enum reason
grant_tool(const struct grant *g, const char *tool)
{
	const struct manifest *m = &g->manifest;
	size_t i;

	if (listed(m->disallowed, m->disallowed_n, tool))
		return REASON_TOOL_DISALLOWED;
	if (!listed(m->tools, m->tools_n, tool))
		return REASON_TOOL_NOT_ALLOWED;
	for (i = 0; i < POLICY_CEILINGS; i++) {
		const struct policy_ceiling *c = &g->policy->ceilings[i];

		if (c->tools != NULL && !listed(c->tools, c->tools_n, tool))
			return REASON_TOOL_CEILING;
	}
	return REASON_NONE;
}

enum reason
grant_memory(const struct grant *g, const char *path)
{
	size_t i, n = strlen(path);

	if (!glob_match_path(g->manifest.memory_scopes, path, n))
		return REASON_SCOPE;
	for (i = 0; i < POLICY_CEILINGS; i++) {
		const struct glob_set *c = g->policy->ceilings[i].memory_scopes;

		if (c != NULL && !glob_match_path(c, path, n))
			return REASON_SCOPE_CEILING;
	}
	return REASON_NONE;
}

enum reason
grant_file(const struct grant *g, const char *path)
{
	size_t i, n = strlen(path);

	if (!glob_match_path(g->manifest.files, path, n))
		return REASON_FILE;
	for (i = 0; i < POLICY_CEILINGS; i++) {
		const struct glob_set *c = g->policy->ceilings[i].files;

		if (c != NULL && !glob_match_path(c, path, n))
			return REASON_FILE_CEILING;
	}
	return REASON_NONE;
}

enum reason
grant_memory_below(const struct grant *g, const char *dir)
{
	size_t i, n = strlen(dir);

	if (!glob_set_reaches(g->manifest.memory_scopes, dir, n))
		return REASON_SCOPE;
	for (i = 0; i < POLICY_CEILINGS; i++) {
		const struct glob_set *c = g->policy->ceilings[i].memory_scopes;

		if (c != NULL && !glob_set_reaches(c, dir, n))
			return REASON_SCOPE_CEILING;
	}
	return REASON_NONE;
}

enum reason
grant_file_below(const struct grant *g, const char *dir)
{
	size_t i, n = strlen(dir);

	if (!glob_set_reaches(g->manifest.files, dir, n))
		return REASON_FILE;
	for (i = 0; i < POLICY_CEILINGS; i++) {
		const struct glob_set *c = g->policy->ceilings[i].files;

		if (c != NULL && !glob_set_reaches(c, dir, n))
			return REASON_FILE_CEILING;
	}
	return REASON_NONE;
}

enum reason
grant_host(const struct grant *g, const char *host, uint16_t port,
    bool default_port)
{
	size_t i, n = strlen(host);

	if (!glob_match_host(g->manifest.domains, host, n, port, default_port))
		return REASON_DOMAIN;
	for (i = 0; i < POLICY_CEILINGS; i++) {
		const struct glob_set *c = g->policy->ceilings[i].domains;

		if (c != NULL &&
		    !glob_match_host(c, host, n, port, default_port))
			return REASON_DOMAIN_CEILING;
	}
	return REASON_NONE;
}

const struct manifest *
grant_manifest(const struct grant *g)
{
	return &g->manifest;
}
