/*
 * One table says which members a request may have and of which kind each is.
 * What a line means is settled before anything is done about it, so a bad one
 * harms nothing.
 */

#include "supervisor/request.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/json.h"
#include "audit/store.h"

enum kind {
	KIND_TEXT,	/* anything but "" */
	KIND_ANY_TEXT,
	KIND_UUID,
	KIND_SECONDS,
	KIND_BOOL,
	KIND_LIST,	/* of texts */
	KIND_ID		/* a text or an integer */
};

#define RUN (1u << REQUEST_RUN)
#define CANCEL (1u << REQUEST_CANCEL)
#define STATUS (1u << REQUEST_STATUS)

static const struct member {
	const char *name;
	enum kind kind;
	unsigned may, must; /* of which operations */
} members[] = {
	{ "op", KIND_TEXT, RUN | CANCEL | STATUS, RUN | CANCEL | STATUS },
	{ "id", KIND_ID, RUN | CANCEL | STATUS, 0 },
	{ "invocation_id", KIND_UUID, RUN | CANCEL, CANCEL },
	{ "skill", KIND_TEXT, RUN, RUN },
	{ "tenant_id", KIND_UUID, RUN, 0 },
	{ "args", KIND_LIST, RUN, 0 },
	{ "traceparent", KIND_ANY_TEXT, RUN, 0 },
	{ "persona", KIND_ANY_TEXT, RUN, 0 },
	{ "request_id", KIND_ANY_TEXT, RUN, 0 },
	{ "deadline", KIND_SECONDS, RUN, 0 },
	{ "stdin", KIND_ANY_TEXT, RUN, 0 },
	{ "output", KIND_BOOL, RUN, 0 },
};

#define MEMBERS_N (sizeof(members) / sizeof(members[0]))

static const char *const kinds[] = {
	[KIND_TEXT] = "a string that is not empty",
	[KIND_ANY_TEXT] = "a string",
	[KIND_UUID] = "a UUID in lower-case form",
	[KIND_SECONDS] = "a number of seconds above 0",
	[KIND_BOOL] = "true or false",
	[KIND_LIST] = "a list of at most 1024 strings",
	[KIND_ID] = "a string of at most 254 bytes as JSON, or an integer",
};

static const char *const ops[] = {
	[REQUEST_RUN] = "run",
	[REQUEST_CANCEL] = "cancel",
	[REQUEST_STATUS] = "status",
};

#define OPS_N (sizeof(ops) / sizeof(ops[0]))

static int __attribute__((format(printf, 3, 4)))
refuse(struct request_fault *f, const char *reason, const char *fmt, ...)
{
	va_list ap;

	f->reason = reason;
	va_start(ap, fmt);
	vsnprintf(f->message, sizeof(f->message), fmt, ap);
	va_end(ap);
	return -1;
}

static const struct member *
find_member(const char *name)
{
	size_t i;

	for (i = 0; i < MEMBERS_N; i++) {
		if (strcmp(members[i].name, name) == 0)
			return &members[i];
	}
	return NULL;
}

static bool
is_list(const cJSON *v)
{
	const cJSON *e;
	size_t n = 0;

	if (!cJSON_IsArray(v))
		return false;
	cJSON_ArrayForEach(e, v) {
		if (!cJSON_IsString(e) || ++n > REQUEST_ARGS_MAX)
			return false;
	}
	return true;
}

/* From 2^53 on a double has no room for a fraction. */
static bool
is_whole(double n)
{
	const double all = 9007199254740992.0;

	return n <= -all || n >= all || n == (double)(int64_t)n;
}

/* Is the value of that kind? An id is looked at where its bytes are. */
static bool
is_kind(const cJSON *v, enum kind kind)
{
	switch (kind) {
	case KIND_TEXT:
		return cJSON_IsString(v) && v->valuestring[0] != '\0';
	case KIND_ANY_TEXT:
		return cJSON_IsString(v);
	case KIND_UUID:
		return cJSON_IsString(v) &&
		    store_is_uuid(v->valuestring);
	case KIND_SECONDS:
		return cJSON_IsNumber(v) && isfinite(v->valuedouble) &&
		    v->valuedouble > 0 && v->valuedouble <= 1e7;
	case KIND_BOOL:
		return cJSON_IsBool(v);
	case KIND_LIST:
		return is_list(v);
	case KIND_ID:
		return cJSON_IsString(v) ||
		    (cJSON_IsNumber(v) && is_whole(v->valuedouble));
	}
	return false;
}

static int
read_op(struct request *r, struct request_fault *f)
{
	const cJSON *op = cJSON_GetObjectItemCaseSensitive(r->tree, "op");
	size_t i;

	if (!cJSON_IsString(op))
		return refuse(f, "bad_request",
		    "op is missing: write run, cancel or status");
	for (i = 0; i < OPS_N; i++) {
		if (strcmp(op->valuestring, ops[i]) == 0) {
			r->op = (enum request_op)i;
			return 0;
		}
	}
	return refuse(f, "unknown_op", "there is no op %.64s",
	    op->valuestring);
}

/* The caller's own id goes back to him byte for byte. */
static int
read_id(struct request *r, const char *line, size_t len,
    struct request_fault *f)
{
	const cJSON *id = cJSON_GetObjectItemCaseSensitive(r->tree, "id");
	struct json_span span;

	if (id == NULL || cJSON_IsNull(id))
		return 0;
	if (!is_kind(id, KIND_ID) || !json_member(line, len, "id", &span) ||
	    span.len > REQUEST_ID_MAX)
		return refuse(f, "bad_request", "id must be %s",
		    kinds[KIND_ID]);
	memcpy(r->id, span.p, span.len);
	r->id[span.len] = '\0';
	return 0;
}

static int
check_members(const struct request *r, struct request_fault *f)
{
	unsigned op = 1u << r->op;
	const struct member *m;
	const cJSON *v;
	size_t i;

	cJSON_ArrayForEach(v, r->tree) {
		m = find_member(v->string);
		if (m == NULL || (m->may & op) == 0)
			return refuse(f, "bad_request",
			    "%.64s is no member of op %s", v->string,
			    ops[r->op]);
		if (!cJSON_IsNull(v) && !is_kind(v, m->kind))
			return refuse(f, "bad_request", "%s must be %s",
			    m->name, kinds[m->kind]);
	}
	for (i = 0; i < MEMBERS_N; i++) {
		v = cJSON_GetObjectItemCaseSensitive(r->tree, members[i].name);
		if ((members[i].must & op) != 0 &&
		    (v == NULL || cJSON_IsNull(v)))
			return refuse(f, "bad_request", "%s is missing: %s",
			    members[i].name, kinds[members[i].kind]);
	}
	return 0;
}

static const char *
text(const struct request *r, const char *name)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(r->tree, name);

	return cJSON_IsString(v) ? v->valuestring : NULL;
}

static int
read_args(struct request *r)
{
	const cJSON *list, *e;
	size_t n = 0;

	list = cJSON_GetObjectItemCaseSensitive(r->tree, "args");
	r->args = calloc((size_t)cJSON_GetArraySize(list) + 1,
	    sizeof(*r->args));
	if (r->args == NULL)
		return -1;
	cJSON_ArrayForEach(e, list)
		r->args[n++] = e->valuestring;
	return 0;
}

static int
read_values(struct request *r, struct request_fault *f)
{
	const char *value;
	const cJSON *v;

	value = text(r, "invocation_id");
	if (value != NULL)
		strlcpy(r->invocation, value, sizeof(r->invocation));
	value = text(r, "tenant_id");
	if (value != NULL)
		strlcpy(r->tenant, value, sizeof(r->tenant));
	r->skill = text(r, "skill");
	r->persona = text(r, "persona");
	r->request_id = text(r, "request_id");
	r->traceparent = text(r, "traceparent");
	r->in = text(r, "stdin");
	v = cJSON_GetObjectItemCaseSensitive(r->tree, "deadline");
	if (cJSON_IsNumber(v))
		r->deadline = v->valuedouble;
	v = cJSON_GetObjectItemCaseSensitive(r->tree, "output");
	r->output = cJSON_IsTrue(v);
	if (read_args(r) == -1)
		return refuse(f, "no_memory", "there is no memory for it");
	return 0;
}

int
request_read(struct request *r, const char *line, size_t len,
    struct request_fault *f)
{
	const char *why = "";
	size_t at = 0;

	memset(r, 0, sizeof(*r));
	r->len = len;
	if (!json_scan(line, len, false, &why, &at))
		return refuse(f, "not_json", "not JSON: %s at byte %zu", why,
		    at + 1);
	r->tree = json_parse(line, len, false);
	if (r->tree == NULL)
		return refuse(f, "no_memory", "there is no memory for it");
	if (!cJSON_IsObject(r->tree))
		return refuse(f, "bad_request", "a request is a JSON object");
	if (read_id(r, line, len, f) == -1 || read_op(r, f) == -1 ||
	    check_members(r, f) == -1)
		return -1;
	return read_values(r, f);
}

static void
wipe_tree(cJSON *v)
{
	cJSON *e;

	cJSON_ArrayForEach (e, v) {
		if (e->valuestring != NULL)
			explicit_bzero(e->valuestring, strlen(e->valuestring));
		if (e->child != NULL) /* args: texts alone, so no deeper */
			wipe_tree(e);
	}
}

void
request_wipe(struct request *r)
{
	wipe_tree(r->tree);
	explicit_bzero(r->id, sizeof(r->id));
}

void
request_clear(struct request *r)
{
	request_wipe(r);
	cJSON_Delete(r->tree);
	free(r->args);
	memset(r, 0, sizeof(*r));
}
