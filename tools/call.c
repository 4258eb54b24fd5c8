/*
 * The call and the pieces of its result. A result never grows beyond the
 * budget of its answer, whatever a tool puts in.
 */

#include "tools/call.h"

#include <openssl/evp.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/json.h"

static const struct {
	const char *word;
	const char *detail;
} failures[FAIL_COUNT] = {
	[FAIL_NONE] = { "none", "" },
	[FAIL_NOT_FOUND] = { "not_found", "the file is not there, or for Edit what old says; directories are "
	    "not made" },
	[FAIL_EXISTS] = { "exists",
	    "the file is there already; mode create writes new files only" },
	[FAIL_IS_A_DIRECTORY] = { "is_a_directory",
	    "the path names a directory" },
	[FAIL_PERMISSION] = { "permission",
	    "the file system does not permit it to the broker" },
	[FAIL_TOO_LARGE] = { "too_large",
	    "it is larger, or for Bash its files are more, than this tool "
	    "takes" },
	[FAIL_NOT_UNIQUE] = { "not_unique",
	    "old occurs more than once; make it longer or say all" },
	[FAIL_TIMEOUT] = { "timeout", "the time for it ran out" },
	[FAIL_CANCELLED] = { "cancelled", "the invocation ended first" },
	[FAIL_NO_SPACE] = { "no_space",
	    "the disk, or this invocation's share of it, is full" },
	[FAIL_IO_ERROR] = { "io_error", "the machine failed" },
	/* Where the library has a reason, match_trouble tells it instead. */
	[FAIL_INVALID_PATTERN] = { "invalid_pattern",
	    "the pattern is no regular expression, or needs too much" },
	[FAIL_TOO_COMPLEX] = { "too_complex",
	    "the expression takes too long on a line; make it simpler" },
	[FAIL_HTTP_ERROR] = { "http_error",
	    "the server's answer was cut off, is not HTTP, cannot be unpacked "
	    "or leads in circles" },
	[FAIL_TLS_ERROR] = { "tls_error",
	    "no secure connection: certificate, name or protocol do not fit" },
	[FAIL_RESOLVE_ERROR] = { "resolve_error",
	    "the name server knows no address for the host" },
	[FAIL_CONNECT_ERROR] = { "connect_error",
	    "there is no connection to the host" },
};

struct call *
call_new(void)
{
	struct call *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->check.on.fd = c->check.on.parent_fd = -1;
	c->rpc.budget = CALL_RESPONSE_MAX;
	c->run.status = -1;
	buf_init(&c->run.result, CALL_RESPONSE_MAX);
	return c;
}

void
call_clear_resource(struct call *c)
{
	struct resource *on = &c->check.on;

	if (on->name != NULL)
		freezero(on->name, strlen(on->name));
	if (on->fd != -1)
		close(on->fd);
	if (on->parent_fd != -1)
		close(on->parent_fd);
	memset(on, 0, sizeof(*on));
	on->fd = on->parent_fd = -1;
}

void
call_free(struct call *c)
{
	if (c == NULL)
		return;
	freezero(c->rpc.id, c->rpc.id_len);
	if (c->rpc.tool != NULL)
		freezero(c->rpc.tool, strlen(c->rpc.tool));
	cJSON_Delete(c->rpc.args);
	free(c->rpc.traceparent);
	free(c->rpc.tracestate);
	call_clear_resource(c);
	buf_clear(&c->run.result);
	free(c);
}

const char *
call_text(const struct call *c, const char *name)
{
	return cJSON_GetStringValue(
	    cJSON_GetObjectItemCaseSensitive(c->rpc.args, name));
}

bool
call_flag(const struct call *c, const char *name)
{
	return cJSON_IsTrue(
	    cJSON_GetObjectItemCaseSensitive(c->rpc.args, name));
}

int64_t
call_int(const struct call *c, const char *name, int64_t absent)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(c->rpc.args, name);

	return v == NULL ? absent : (int64_t)v->valuedouble;
}

const char *
failure_word(enum failure f)
{
	return failures[f].word;
}

const char *
failure_detail(enum failure f)
{
	return failures[f].detail;
}

const char *
outcome_word(enum outcome o)
{
	return tally_word(TALLY_OUTCOME, o);
}

void
call_fail(struct call *c, enum failure f)
{
	c->run.outcome = f == FAIL_TIMEOUT ? OUTCOME_TIMEOUT : OUTCOME_ERROR;
	c->run.failure = f;
	buf_reset(&c->run.result);
}

void
call_fail_errno(struct call *c, int error)
{
	enum failure f = FAIL_IO_ERROR;

	if (error == ENOENT || error == ENOTDIR)
		f = FAIL_NOT_FOUND;
	else if (error == EEXIST)
		f = FAIL_EXISTS;
	else if (error == EISDIR)
		f = FAIL_IS_A_DIRECTORY;
	else if (error == EACCES || error == EPERM || error == EROFS ||
		 error == ETXTBSY)
		f = FAIL_PERMISSION;
	else if (error == EFBIG)
		f = FAIL_TOO_LARGE;
	else if (error == ENOSPC || error == EDQUOT)
		f = FAIL_NO_SPACE;
	call_fail(c, f);
	c->run.error = error;
}

static void
result_name(struct call *c, const char *name)
{
	if (c->run.result.len > 1)
		buf_putc(&c->run.result, ',');
	buf_printf(&c->run.result, "\"%s\":", name);
}

void
result_begin(struct call *c)
{
	buf_reset(&c->run.result);
	buf_putc(&c->run.result, '{');
}

void
result_text(struct call *c, const char *name, const char *s)
{
	result_name(c, name);
	if (s == NULL)
		buf_puts(&c->run.result, "null");
	else
		json_put_string(&c->run.result, s, strlen(s));
}

void
result_int(struct call *c, const char *name, int64_t n)
{
	result_name(c, name);
	buf_printf(&c->run.result, "%lld", (long long)n);
}

void
result_bool(struct call *c, const char *name, bool b)
{
	result_name(c, name);
	buf_puts(&c->run.result, b ? "true" : "false");
}

/* How many escaped bytes a text of UTF-8 takes between its quotes. */
static size_t
escaped_len(unsigned char b)
{
	if (b == '"' || b == '\\' || b == '\b' || b == '\t' || b == '\n' ||
	    b == '\f' || b == '\r')
		return 2;
	return b < 0x20 ? 6 : 1;
}

static size_t
body_as_text(struct call *c, const char *p, size_t n, size_t room)
{
	size_t i, used = 0;

	for (i = 0; i < n; i++) {
		used += escaped_len((unsigned char)p[i]);
		if (used > room)
			break;
	}
	if (i < n)
		i = json_utf8_cut(p, n, i);
	json_put_string(&c->run.result, p, i);
	return i;
}

size_t
result_body(struct call *c, const char *p, size_t n, size_t reserve)
{
	size_t room, taken;
	/* A strict reader of JSON, ours among them, takes no escaped NUL. */
	bool text = json_is_utf8(p, n) && (n == 0 || memchr(p, 0, n) == NULL);

	reserve += c->run.result.len + 64; /* names, quotes, the encoding */
	room = c->rpc.budget > reserve ? c->rpc.budget - reserve : 0;
	result_name(c, "body");
	if (text) {
		taken = body_as_text(c, p, n, room);
	} else {
		taken = n > room / 4 * 3 ? room / 4 * 3 : n;
		buf_putc(&c->run.result, '"');
		base64_encode(&c->run.result, p, taken);
		buf_putc(&c->run.result, '"');
	}
	if (taken < n)
		c->run.cut = true;
	result_text(c, "encoding", text ? "utf-8" : "base64");
	return taken;
}

void
result_end(struct call *c)
{
	buf_putc(&c->run.result, '}');
	if (c->run.result.failed) {
		call_fail(c, FAIL_TOO_LARGE);
		c->run.result.failed = false;
	}
}

int
base64_encode(struct buf *b, const char *p, size_t n)
{
	char *out;

	if (n > INT_MAX / 2) {
		errno = EFBIG;
		return -1;
	}
	out = buf_reserve(b, (n + 2) / 3 * 4 + 1); /* it writes a NUL as well */
	if (out == NULL)
		return -1;
	EVP_EncodeBlock((unsigned char *)out, (const unsigned char *)p, (int)n);
	buf_advance(b, (n + 2) / 3 * 4);
	return 0;
}

/*
 * The library's decoder is lenient with blanks and padding, so the text is
 * looked at before, and the last group is encoded again after it: bits that
 * the padding says are not there must be zero.
 */
int
base64_decode(const char *s, size_t n, char **out, size_t *outlen)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned char again[8], *bytes;
	size_t i, len, pad = 0;

	while (pad < 2 && pad < n && s[n - 1 - pad] == '=')
		pad++;
	for (i = 0; i < n - pad && s[i] != '\0' && strchr(digits, s[i]); i++)
		;
	if (n % 4 != 0 || n > INT_MAX || i != n - pad)
		goto bad;
	bytes = malloc(n / 4 * 3 + 1);
	if (bytes == NULL)
		return -1;
	len = 0;
	if (n > 0 &&
	    EVP_DecodeBlock(bytes, (const unsigned char *)s, (int)n) > 0)
		len = n / 4 * 3 - pad;
	if (pad > 0) {
		EVP_EncodeBlock(again, bytes + n / 4 * 3 - 3, (int)(3 - pad));
		if (memcmp(again, s + n - 4, 4) != 0) {
			freezero(bytes, n / 4 * 3 + 1);
			goto bad;
		}
	}
	bytes[len] = '\0';
	*out = (char *)bytes;
	*outlen = len;
	return 0;
bad:
	errno = EINVAL;
	return -1;
}
