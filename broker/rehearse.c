/*
 * Warming up. What is done here must have no effect: it reads, judges and
 * computes, and gives back what it took.
 */

#include "broker/rehearse.h"

#include <string.h>

#include "audit/buf.h"
#include "audit/json.h"
#include "audit/row.h"
#include "enforce/grant.h"
#include "enforce/manifest.h"
#include "enforce/path.h"
#include "tools/registry.h"

static const char skill[] =
    "---\n"
    "id: sample\n"
    "version: 1.0.0\n"
    "description: What a skill may look like\n"
    "allowed_tools: [MemoryRead, Read, Bash]\n"
    "allowed_memory_scopes: [\"memories/sample/**\"]\n"
    "x-allowed-files: [\"/tmp/sample/**\"]\n"
    "---\n";

static const char call[] =
    "{\"jsonrpc\":\"2.0\",\"method\":\"tool.call\",\"params\":{\"tool\":"
    "\"MemoryRead\",\"args\":{\"path\":\"memories/sample/note\"}},\"id\":1}";

static void
read_skill(const struct policy *policy)
{
	struct manifest m;
	struct grant *g;

	memset(&m, 0, sizeof(m));
	if (manifest_parse(skill, sizeof(skill) - 1, policy, registry_names(),
		CYBEROS_VERSION, &m) == 0 &&
	    m.errors_n == 0) {
		g = grant_new(&m, policy);
		if (g != NULL)
			(void)grant_file(g, "/tmp/sample/file");
		grant_free(g);
	}
	manifest_clear(&m);
}

static void
judge_places(const char *const *places)
{
	struct path_protect *protect = path_protect_new();
	struct path_judged j;

	if (protect == NULL)
		return;
	for (; *places != NULL; places++)
		(void)path_protect_add(protect, *places, PATH_CLOSED);
	path_judged_init(&j);
	(void)path_judge("/tmp", 4, protect, &j);
	path_judged_clear(&j);
	path_protect_free(protect);
}

static void
read_call(struct digest *digest)
{
	const struct row_subject subject = { "", NULL, "", NULL };
	const struct row_place place = { "", NULL, 1, ROW_BY_BROKER, "" };
	cJSON *tree = json_parse(call, sizeof(call) - 1, true);
	char hash[DIGEST_HEX];
	struct buf text;
	struct row row;

	buf_init(&text, 65536);
	if (tree != NULL)
		(void)json_canonical(tree, &text);
	row_begin(&row, ROW_NO_CONNECT, &subject, digest);
	row_int(&row, "waited_ms", 0);
	(void)row_end(&row);
	(void)row_line(&row, &place, &text, hash);
	row_clear(&row);
	buf_clear(&text);
	cJSON_Delete(tree);
}

void
broker_rehearse(const struct broker_job *any, struct digest *digest)
{
	read_skill(any->policy);
	judge_places(any->protect);
	read_call(digest);
}
