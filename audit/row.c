/*
 * One row, one line. The table below is the whole vocabulary of the ledger;
 * whatever is not in it cannot be written, and a row that would lack a field
 * is refused here and not found by an auditor later.
 */

#include "audit/row.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/clock.h"
#include "audit/json.h"

#define FIELDS_MAX 20
#define PAYLOAD_MAX (ROW_MAX - 512) /* leaves room for the fields around it */
#define PAYLOAD_MOSTLY 512 /* asked for at once: most have no more */

/* A field that begins with '?' may be left out. */
static const struct row_kind_info {
	const char *word;
	const char *fields[FIELDS_MAX];
} kinds[ROW_KINDS] = {
	[ROW_INVOKED_STARTED] = { "skill.invoked_started",
	    { "version", "tenant_id", "caller_persona", "request_id",
		"args_hash", "frontmatter_hash", "sandbox" } },
	[ROW_SANDBOX_ATTESTED] = { "skill.sandbox_attested",
	    { "layers", "attempts" } },
	[ROW_INVOKED_COMPLETED] = { "skill.invoked_completed",
	    { "version", "outcome", "duration_ms", "exit_code", "signal",
		"calls", "denied", "rejected", "by", "error_message" } },
	[ROW_TOOL_STARTED] = { "skill.tool_call_started",
	    { "tool_name", "args_hash", "resource", "call" } },
	[ROW_TOOL_COMPLETED] = { "skill.tool_call_completed",
	    { "tool_name", "call", "outcome", "duration_ms", "result_hash",
		"error_message" } },
	[ROW_TOOL_DENIED] = { "skill.tool_denied",
	    { "tool_name", "reason", "attempted_args_hash", "violation",
		"?call", "?count" } },
	[ROW_TIMEOUT] = { "skill.timeout",
	    { "elapsed_ms", "late_ms", "last_tool_call" } },
	[ROW_NO_CONNECT] = { "skill.no_connect", { "waited_ms" } },
	[ROW_CAP_BYPASS] = { "skill.cap_bypass_attempt",
	    { "syscall", "target", "count" } },
	[ROW_PEER_REFUSED] = { "skill.peer_refused",
	    { "pid", "uid", "count" } },
	[ROW_ROWS_LOST] = { "skill.rows_lost", { "from", "to", "head" } },
	[ROW_DAY_OPENED] = { "audit.day_opened", { "prev_day", "prev_head" } },
	[ROW_SEGMENT_OPENED] = { "audit.segment_opened",
	    { "invocation_id", "file", "skill_id", "version",
		"frontmatter_hash", "durability", "append_only" } },
	[ROW_SEGMENT_MARK] = { "audit.segment_mark", { "marks" } },
	[ROW_SEGMENT_PART] = { "audit.segment_part",
	    { "invocation_id", "file", "part", "seq", "head" } },
	[ROW_SEGMENT_CLOSED] = { "audit.segment_closed",
	    { "invocation_id", "reason", "parts", "rows", "bytes", "calls",
		"denied", "errors", "timeouts", "open_calls", "head",
		"torn_bytes", "torn_sha256", "spooled", "duplicates",
		"lost", "?before" } },
	[ROW_RECOVERED] = { "audit.recovered",
	    { "torn_bytes", "torn_sha256" } },
	[ROW_ORPHAN_REMOVED] = { "audit.orphan_removed",
	    { "file", "bytes", "quarantined" } },
	[ROW_CLOCK_STEP] = { "audit.clock_step", { "prev_ts" } },
	[ROW_QUARANTINED] = { "skill.quarantined",
	    { "skill_id", "version", "frontmatter_hash", "files_sha256",
		"attempts" } },
	[ROW_RELEASED] = { "skill.quarantine_released",
	    { "skill_id", "version", "frontmatter_hash", "files_sha256",
		"attempts" } },
};

static const char *const by_words[] = {
	[ROW_BY_BROKER] = "broker",
	[ROW_BY_SUPERVISOR] = "supervisor",
	[ROW_BY_RECOVERY] = "recovery",
	[ROW_BY_SKILL] = "skill",
};

const char *
row_kind_word(enum row_kind kind)
{
	return kinds[kind].word;
}

enum row_kind
row_kind_of(const char *word)
{
	size_t i;

	for (i = 0; i < ROW_KINDS; i++) {
		if (strcmp(kinds[i].word, word) == 0)
			return (enum row_kind)i;
	}
	return ROW_KINDS;
}

static void
row_name(struct row *r, const char *name)
{
	buf_puts(&r->payload, r->payload.len > 1 ? ",\"" : "\"");
	buf_puts(&r->payload, name);
	buf_puts(&r->payload, "\":");
}

static void
row_subject(struct row *r, const struct row_subject *s)
{
	row_name(r, "invocation_id");
	json_put_string(
	    &r->payload, s->invocation_id, strlen(s->invocation_id));
	row_name(r, "skill_id");
	if (s->skill_id == NULL)
		buf_puts(&r->payload, "null");
	else
		json_put_string(&r->payload, s->skill_id, strlen(s->skill_id));
	row_name(r, "trace_id");
	json_put_string(&r->payload, s->trace_id, strlen(s->trace_id));
	if (s->invocation_trace_id != NULL) {
		row_name(r, "invocation_trace_id");
		json_put_string(&r->payload, s->invocation_trace_id,
		    strlen(s->invocation_trace_id));
	}
}

void
row_begin(struct row *r, enum row_kind kind, const struct row_subject *subject,
    struct digest *digest)
{
	r->kind = kinds[kind].word;
	r->field = kinds[kind].fields;
	r->digest = digest;
	buf_init(&r->payload, PAYLOAD_MAX);
	buf_reserve(&r->payload, PAYLOAD_MOSTLY);
	buf_putc(&r->payload, '{');
	if (subject != NULL)
		row_subject(r, subject);
}

void
row_begin_skill(struct row *r, const char *kind, struct digest *digest)
{
	r->kind = kind;
	r->field = NULL;
	r->digest = digest;
	buf_init(&r->payload, PAYLOAD_MAX);
	buf_putc(&r->payload, '{');
}

/* Take the next field of the table; anything else is a mistake of ours. */
static void
row_due(struct row *r, const char *name)
{
	if (r->field != NULL) {
		while (*r->field != NULL && (*r->field)[0] == '?' &&
		       strcmp(*r->field + 1, name) != 0)
			r->field++;
		if (*r->field == NULL ||
		    strcmp(*r->field + ((*r->field)[0] == '?'), name) != 0)
			r->payload.failed = true;
		else
			r->field++;
	}
	row_name(r, name);
}

void
row_text(struct row *r, const char *name, const char *s, size_t len)
{
	char cut_name[64], hash[DIGEST_TEXT];
	size_t start, cut = len;

	if (s == NULL) {
		row_word(r, name, NULL);
		return;
	}
	row_due(r, name);
	start = r->payload.len;
	/* An escape is at most six bytes, a foreign byte three. */
	if (cut > ROW_TEXT_MAX)
		cut = json_utf8_cut(s, len, ROW_TEXT_MAX);
	json_put_string(&r->payload, s, cut);
	while (r->payload.len - start > ROW_TEXT_MAX + 2) {
		r->payload.len = start;
		cut = json_utf8_cut(s, cut, cut - cut / 8 - 1);
		json_put_string(&r->payload, s, cut);
	}
	if (cut == len)
		return;
	digest_text(r->digest, s, len, hash);
	snprintf(cut_name, sizeof(cut_name), "%s_sha256", name);
	row_name(r, cut_name);
	buf_put_all(&r->payload, "\"", hash, "\"");
}

void
row_string(struct row *r, const char *name, const char *s)
{
	row_text(r, name, s, s == NULL ? 0 : strlen(s));
}

void
row_word(struct row *r, const char *name, const char *s)
{
	row_due(r, name);
	if (s == NULL)
		buf_puts(&r->payload, "null");
	else
		json_put_string(&r->payload, s, strlen(s));
}

void
row_int(struct row *r, const char *name, int64_t n)
{
	row_due(r, name);
	buf_put_int(&r->payload, n);
}

void
row_bool(struct row *r, const char *name, bool b)
{
	row_due(r, name);
	buf_puts(&r->payload, b ? "true" : "false");
}

void
row_json(struct row *r, const char *name, const char *s, size_t len)
{
	row_due(r, name);
	if (s == NULL)
		buf_puts(&r->payload, "null");
	else
		buf_put(&r->payload, s, len);
}

int
row_end(struct row *r)
{
	buf_putc(&r->payload, '}');
	while (r->field != NULL && *r->field != NULL && (*r->field)[0] == '?')
		r->field++;
	if (r->field != NULL && *r->field != NULL) {
		errno = EINVAL;
		return -1;
	}
	if (r->payload.failed) {
		errno = ENOBUFS;
		return -1;
	}
	return 0;
}

void
row_clear(struct row *r)
{
	buf_clear(&r->payload);
}

int
row_line(const struct row *r, const struct row_place *at, struct buf *out,
    char hash[DIGEST_HEX])
{
	char stamp[CLOCK_STAMP_SIZE], text[DIGEST_TEXT];
	size_t start = out->len;

	clock_stamp(clock_wall(), stamp);
	buf_puts(out, at->host != NULL ? "{\"v\":1,\"host\":\""
				      : "{\"v\":1,\"inv\":\"");
	buf_puts(out, at->host != NULL ? at->host : at->inv);
	buf_puts(out, at->host != NULL ? "\",\"hseq\":" : "\",\"seq\":");
	buf_put_uint(out, at->seq);
	buf_put_all(out, ",\"ts\":\"", stamp, "\",\"mono_ns\":");
	buf_put_int(out, clock_boot());
	buf_put_all(out, ",\"by\":\"", by_words[at->by], "\",\"kind\":\"",
	    r->kind, "\",\"payload\":");
	buf_put(out, r->payload.data, r->payload.len);
	buf_put_all(out, ",\"prev\":\"", at->prev, "\"");
	if (out->failed) {
		out->len = start;
		return -1;
	}
	digest_text(r->digest, out->data + start, out->len - start, text);
	if (buf_put_all(out, ",\"hash\":\"", text, "\"}\n") == -1) {
		out->len = start;
		return -1;
	}
	memcpy(hash, text, DIGEST_HEX);
	return 0;
}

/* Step over a fixed text; false when the line has something else there. */
static bool
skip(const char **p, const char *end, const char *text)
{
	size_t n = strlen(text);

	if ((size_t)(end - *p) < n || memcmp(*p, text, n) != 0)
		return false;
	*p += n;
	return true;
}

/* Copy a text without quotes or escapes up to its closing quote. */
static bool
take_word(const char **p, const char *end, char *out, size_t size)
{
	const char *quote = memchr(*p, '"', (size_t)(end - *p));

	if (quote == NULL || (size_t)(quote - *p) >= size ||
	    memchr(*p, '\\', (size_t)(quote - *p)) != NULL)
		return false;
	memcpy(out, *p, (size_t)(quote - *p));
	out[quote - *p] = '\0';
	*p = quote + 1;
	return true;
}

/* "2026-11-30T10:00:00.004000Z", as clock_stamp writes it. */
static bool
is_stamp(const char *ts)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.ddddddZ";
	size_t i;

	for (i = 0; i < sizeof(form) - 1; i++) {
		if (form[i] == 'd' ? ts[i] < '0' || ts[i] > '9'
				   : ts[i] != form[i])
			return false;
	}
	return ts[i] == '\0';
}

static bool
take_number(const char **p, const char *end, uint64_t *out)
{
	uint64_t n = 0;
	const char *s = *p;

	while (s < end && *s >= '0' && *s <= '9' && s - *p < 19)
		n = n * 10 + (uint64_t)(*s++ - '0');
	if (s == *p || (**p == '0' && s - *p > 1))
		return false;
	*p = s;
	*out = n;
	return true;
}

/*
 * The tail has a fixed length, so it is found from the end: a payload may hold
 * any text, also one that looks like the fields behind it.
 */
#define TAIL_LEN                                                               \
	(sizeof(",\"prev\":\"\",\"hash\":\"\"}") - 1 + 2 * (DIGEST_HEX - 1))

int
row_read(const char *line, size_t len, bool host, const char *owner,
    struct digest *digest, struct row_read *out)
{
	const char *p = line, *end, *tail;
	char owned_by[40], hash[DIGEST_TEXT];
	uint64_t ignored;

	memset(out, 0, sizeof(*out));
	if (len < TAIL_LEN || len >= ROW_MAX)
		goto bad;
	end = line + len;
	tail = end - TAIL_LEN;
	if (!skip(&p, tail,
		host ? "{\"v\":1,\"host\":\"" : "{\"v\":1,\"inv\":\"") ||
	    !take_word(&p, tail, owned_by, sizeof(owned_by)) ||
	    !skip(&p, tail, host ? ",\"hseq\":" : ",\"seq\":") ||
	    !take_number(&p, tail, &out->seq) ||
	    !skip(&p, tail, ",\"ts\":\"") ||
	    !take_word(&p, tail, out->ts, sizeof(out->ts)) ||
	    !is_stamp(out->ts) || !skip(&p, tail, ",\"mono_ns\":") ||
	    !take_number(&p, tail, &ignored) || !skip(&p, tail, ",\"by\":\"") ||
	    !take_word(&p, tail, out->by, sizeof(out->by)) ||
	    !skip(&p, tail, ",\"kind\":\"") ||
	    !take_word(&p, tail, out->kind, sizeof(out->kind)) ||
	    !skip(&p, tail, ",\"payload\":") || *p != '{')
		goto bad;
	out->payload = p;
	out->payload_len = (size_t)(tail - p);
	p = tail;
	if (!skip(&p, end, ",\"prev\":\"") ||
	    !take_word(&p, end, out->prev, sizeof(out->prev)))
		goto bad;
	digest_text(digest, line, (size_t)(p - line), hash);
	if (!skip(&p, end, ",\"hash\":\"") ||
	    !take_word(&p, end, out->hash, sizeof(out->hash)) ||
	    !skip(&p, end, "}") || p != end)
		goto bad;
	out->fault = ROW_FAULT_HASH;
	if (strcmp(hash, out->hash) != 0)
		goto bad;
	out->fault = ROW_FAULT_OWNER;
	if (strcmp(owned_by, owner) != 0)
		goto bad;
	return 0;
bad:
	errno = EBADMSG;
	return -1;
}

bool
row_text_of(const struct row_read *r, const char *name, char *out, size_t size)
{
	return json_text_of(r->payload, r->payload_len, name, out, size);
}

bool
row_uint_of(const struct row_read *r, const char *name, uint64_t *out)
{
	return json_uint_of(r->payload, r->payload_len, name, out);
}
