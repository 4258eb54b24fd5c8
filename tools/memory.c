/*
 * The skill's memory: a plain directory tree that people can read. What the
 * check has matched is opened beneath the tenant's root, links refused, and a
 * file is put in one durable step before the row that tells of it is written.
 */

#include "tools/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/json.h"
#include "tools/file.h"

#define PAYLOAD_MAX (12 * 1024) /* canonical bytes, so that a row holds it */

/* ^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$ */
static bool
is_kind(const char *s)
{
	bool dot = false, first = true;

	for (; *s != '\0'; s++) {
		if (*s == '.') {
			if (first)
				return false;
			dot = first = true;
		} else if (*s >= 'a' && *s <= 'z') {
			first = false;
		} else if (first || !((*s >= '0' && *s <= '9') || *s == '_')) {
			return false;
		}
	}
	return dot && !first;
}

bool
memory_emit_shape(struct call *c)
{
	const cJSON *payload =
	    cJSON_GetObjectItemCaseSensitive(c->rpc.args, "payload");
	const char *kind = call_text(c, "kind");
	struct buf text;
	bool scans;

	if (!is_kind(kind)) {
		strlcpy(c->check.bad,
		    "kind: must be lower-case words joined by dots, such as "
		    "note.added",
		    sizeof(c->check.bad));
		return false;
	}
	if (strncmp(kind, "skill.", 6) == 0 ||
	    strncmp(kind, "audit.", 6) == 0) {
		strlcpy(c->check.bad, "kind: skill. and audit. are reserved",
		    sizeof(c->check.bad));
		return false;
	}
	if (payload == NULL)
		return true;
	/* 1e20 prints as an integer that no strict reader of a row takes. */
	buf_init(&text, CALL_RESPONSE_MAX);
	scans = json_canonical(payload, &text) == 0 &&
	    json_scan(text.data, text.len, false, NULL, NULL);
	buf_clear(&text);
	if (!scans)
		strlcpy(c->check.bad,
		    "payload: holds an integer beyond 2^53, write it as text",
		    sizeof(c->check.bad));
	return scans;
}

enum place
memory_emit_place(const struct call *c)
{
	return call_text(c, "body") == NULL ? PLACE_LOOP : PLACE_FILE_WORKER;
}

void
memory_read(struct call *c, struct invocation *inv)
{
	file_answer(c, inv, c->check.on.fd, true);
}

static bool
payload_fits(const struct call *c)
{
	const cJSON *payload =
	    cJSON_GetObjectItemCaseSensitive(c->rpc.args, "payload");
	struct buf text;
	bool fits;

	if (payload == NULL)
		return true;
	buf_init(&text, PAYLOAD_MAX);
	fits = json_canonical(payload, &text) == 0;
	buf_clear(&text);
	return fits;
}

void
memory_emit(struct call *c, struct invocation *inv)
{
	const char *body = call_text(c, "body");
	char hash[DIGEST_TEXT], leaf[NAME_MAX + 1];
	struct file_put put = { .leaf = leaf,
		.temp = c->run.temp,
		.data = body,
		.mode = 0600,
		.like_fd = -1,
		.replace = true };

	if (!payload_fits(c)) {
		call_fail(c, FAIL_TOO_LARGE);
		return;
	}
	if (body == NULL)
		return;
	put.len = strlen(body);
	put.dir_fd = path_memory_parent(inv->memory_fd, c->check.on.name, true,
	    leaf);
	if (put.dir_fd == -1) {
		call_fail_errno(c, errno);
		return;
	}
	/* Something else stands there since the check: it has the word. */
	if (path_memory_leaf(put.dir_fd, leaf) == -1) {
		call_fail_errno(c, ESTALE);
	} else if (file_no_space(inv, put.dir_fd, put.len)) {
		call_fail(c, FAIL_NO_SPACE);
	} else if (file_put(&put) == -1) {
		call_fail_errno(c, errno);
	} else {
		c->run.written = put.len;
		digest_text(inv->digest, body, put.len, hash);
		strlcpy(c->run.content_hash, hash, sizeof(c->run.content_hash));
	}
	close(put.dir_fd);
}

void
memory_record(struct call *c, struct invocation *inv, struct segment *segment)
{
	const struct manifest *m = grant_manifest(inv->grant);
	const cJSON *payload =
	    cJSON_GetObjectItemCaseSensitive(c->rpc.args, "payload");
	const char *hash =
	    c->run.content_hash[0] == '\0' ? NULL : c->run.content_hash;
	struct buf data;
	struct row row;
	uint64_t seq;
	char id[64];

	buf_init(&data, PAYLOAD_MAX);
	if (payload != NULL)
		json_canonical(payload, &data);
	row_begin_skill(&row, call_text(c, "kind"), inv->digest);
	row_string(&row, "path", c->check.on.name);
	row_word(&row, "content_hash", hash);
	row_word(&row, "trace_id", c->rpc.trace.trace_id);
	row_word(&row, "skill_id", m->id);
	row_word(&row, "invocation_id", inv->id);
	row_word(&row, "sync_class", m->shareable ? "shareable" : "private");
	row_json(&row, "data", payload == NULL ? NULL : data.data, data.len);
	if (data.failed || row_end(&row) == -1 ||
	    segment_append(segment, ROW_BY_SKILL, &row, &seq) == -1) {
		call_fail(c, FAIL_IO_ERROR);
	} else {
		snprintf(id, sizeof(id), "%s:%llu", inv->id,
		    (unsigned long long)seq);
		result_begin(c);
		result_text(c, "row_id", id);
		result_int(c, "seq", (int64_t)seq);
		result_text(c, "content_hash", hash);
		result_text(c, "trace_id", c->rpc.trace.trace_id);
		result_end(c);
	}
	row_clear(&row);
	buf_clear(&data);
}
