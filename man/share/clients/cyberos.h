/*
 * The capability broker's client for skills in C11 and C++11.
 *
 * Copy this file beside the skill's source; it needs POSIX alone.
 *
 *	#include "cyberos.h"
 *
 *	int
 *	main(void)
 *	{
 *		struct cyberos broker;
 *		struct cyberos_args args;
 *		char *note;
 *		size_t len;
 *
 *		if (cyberos_open(&broker, NULL) == -1)
 *			return CYBEROS_GONE;
 *		cyberos_args_init(&args);
 *		cyberos_put_text(&args, "path", "memories/notes/monday");
 *		if (cyberos_call(&broker, "MemoryRead", &args) == CYBEROS_DONE &&
 *		    (note = cyberos_body(&broker, &len)) != NULL) {
 *			fwrite(note, 1, len, stdout);
 *			free(note);
 *		} else
 *			fprintf(stderr, "%s: %s\n", broker.reason, broker.hint);
 *		cyberos_close(&broker);
 *		return (int)broker.status;
 *	}
 *
 * One call at a time; for several, open several. Nothing is kept outside the
 * struct, so each thread may have its own. See cyberos-client(7).
 *
 * SPDX-License-Identifier: ISC
 */
#ifndef CYBEROS_H
#define CYBEROS_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CYBEROS_SEND_MAX	((size_t)16 * 1024 * 1024) /* not even sent */
#define CYBEROS_ANSWER_MAX	((size_t)17 * 1024 * 1024)
#define CYBEROS_DEPTH_MAX	64

/* How a call ended; the exit statuses of "cyberos skill call". */
enum cyberos_status {
	CYBEROS_DONE = 0,		/* there is a result */
	CYBEROS_FAILED = 1,		/* the tool ran and failed */
	CYBEROS_BAD_ARGUMENTS = 2,	/* hint says which one, and why */
	CYBEROS_GONE = 4,		/* no broker, or its connection is lost */
	CYBEROS_REFUSED = 5		/* the grant does not have it */
};

/* Why, in one number. OTHER: a word that this header does not know. */
enum cyberos_error {
	CYBEROS_OTHER,
	CYBEROS_RATE_LIMITED,
	CYBEROS_UNKNOWN_TOOL,
	CYBEROS_TOOL_DISALLOWED,
	CYBEROS_TOOL_NOT_ALLOWED,
	CYBEROS_TOOL_CEILING,
	CYBEROS_SCOPE_VIOLATION,
	CYBEROS_SCOPE_CEILING,
	CYBEROS_FILE_VIOLATION,
	CYBEROS_FILE_CEILING,
	CYBEROS_PROTECTED,
	CYBEROS_HARD_LINK,
	CYBEROS_PRIVILEGED_FILE,
	CYBEROS_DOMAIN_VIOLATION,
	CYBEROS_DOMAIN_CEILING,
	CYBEROS_ADDRESS_NOT_PUBLIC,
	CYBEROS_REQUEST_TOO_LARGE,
	CYBEROS_DEADLINE,
	CYBEROS_AUDIT_UNAVAILABLE,
	CYBEROS_AUDIT_BUDGET,
	CYBEROS_NOT_FOUND,
	CYBEROS_EXISTS,
	CYBEROS_IS_A_DIRECTORY,
	CYBEROS_PERMISSION,
	CYBEROS_TOO_LARGE,
	CYBEROS_NOT_UNIQUE,
	CYBEROS_TIMEOUT,
	CYBEROS_CANCELLED,
	CYBEROS_NO_SPACE,
	CYBEROS_IO_ERROR,
	CYBEROS_INVALID_PATTERN,
	CYBEROS_TOO_COMPLEX,
	CYBEROS_HTTP_ERROR,
	CYBEROS_TLS_ERROR,
	CYBEROS_RESOLVE_ERROR,
	CYBEROS_CONNECT_ERROR
};

/* The arguments of a call in the making. */
struct cyberos_args {
	char	*text;
	size_t	 len;
	size_t	 size;
	int	 failed;	/* errno of the first put that failed, or 0 */
};

/* A connection, and the answer to the last call over it. */
struct cyberos {
	int		 fd;		/* -1: gone */
	unsigned long	 last;		/* id of the last request */
	char		*answer;	/* the whole of it, owned */
	size_t		 answer_len;
	const char	*value;		/* of it: the result or error object */
	size_t		 value_len;
	enum cyberos_status status;
	enum cyberos_error error;	/* unless status is DONE */
	char		 group[64];	/* error.message: the class or word */
	char		 reason[64];	/* data.reason, else the same */
	char		 hint[512];	/* data.hint or data.detail, cut */
	long long	 retry_after_ms; /* or -1 */
};

/* --- what a skill calls -------------------------------------------------- */

/*
 * Connect to path, or to $CYBEROS_BROKER_SOCKET when it is NULL. 0, or -1 with
 * errno; ENOENT also when there is no such variable. Close it either way.
 */
static inline int	cyberos_open(struct cyberos *, const char *path);
static inline void	cyberos_close(struct cyberos *);

/*
 * Arguments, one member after the other. A put that fails is remembered, and
 * the call is then BAD_ARGUMENTS. bytes: a text when they are UTF-8 without a
 * NUL, else base64, and "encoding" says so. json: any JSON, as it is.
 */
static inline void	cyberos_args_init(struct cyberos_args *);
static inline void	cyberos_args_clear(struct cyberos_args *);
static inline void	cyberos_put_text(struct cyberos_args *,
			    const char *name, const char *text);
static inline void	cyberos_put_bytes(struct cyberos_args *,
			    const char *name, const void *, size_t len);
static inline void	cyberos_put_int(struct cyberos_args *,
			    const char *name, long long);
static inline void	cyberos_put_bool(struct cyberos_args *,
			    const char *name, int);
static inline void	cyberos_put_json(struct cyberos_args *,
			    const char *name, const char *json);

/*
 * Call a tool and wait for its answer. The arguments are empty again
 * afterwards; NULL: none. cyberos_call_json takes them as one JSON object.
 */
static inline enum cyberos_status cyberos_call(struct cyberos *,
			    const char *tool, struct cyberos_args *);
static inline enum cyberos_status cyberos_call_json(struct cyberos *,
			    const char *tool, const char *args);

/*
 * A value of the last answer by its JSON pointer (RFC 6901): "/size",
 * "/matches/0/path"; of the result, or of the error object. All return -1 or
 * NULL when there is none of that type.
 *
 * text: a fresh copy, NUL-terminated, for the caller to free. bytes: the same
 * of "/body", "/stdout" or "/stderr", decoded if need be; body: of "/body".
 * find: the raw JSON, valid until the next call. count: of an array or object.
 */
static inline char	*cyberos_text(const struct cyberos *,
			    const char *pointer, size_t *len);
static inline char	*cyberos_bytes(const struct cyberos *,
			    const char *pointer, size_t *len);
static inline char	*cyberos_body(const struct cyberos *, size_t *len);
static inline int	cyberos_int(const struct cyberos *,
			    const char *pointer, long long *);
static inline int	cyberos_bool(const struct cyberos *,
			    const char *pointer, int *);
static inline long	cyberos_count(const struct cyberos *,
			    const char *pointer);
static inline const char *cyberos_find(const struct cyberos *,
			    const char *pointer, size_t *len);

/* --- how it is done ------------------------------------------------------ */

struct cyberos_word_ {
	const char	*group;
	const char	*reason;	/* NULL: a failure of a tool */
	enum cyberos_error error;
};

static inline const struct cyberos_word_ *
cyberos_words_(size_t *n)
{
	static const struct cyberos_word_ words[] = {
		{ "rate_limited", "rate_limited", CYBEROS_RATE_LIMITED },
		{ "unknown_tool", "unknown_tool", CYBEROS_UNKNOWN_TOOL },
		{ "tool_not_allowed", "tool_in_disallowed_tools",
		    CYBEROS_TOOL_DISALLOWED },
		{ "tool_not_allowed", "tool_not_in_allowed_tools",
		    CYBEROS_TOOL_NOT_ALLOWED },
		{ "tool_not_allowed", "ceiling", CYBEROS_TOOL_CEILING },
		{ "scope_violation", "scope_violation",
		    CYBEROS_SCOPE_VIOLATION },
		{ "scope_violation", "ceiling", CYBEROS_SCOPE_CEILING },
		{ "file_violation", "file_violation", CYBEROS_FILE_VIOLATION },
		{ "file_violation", "ceiling", CYBEROS_FILE_CEILING },
		{ "file_violation", "protected", CYBEROS_PROTECTED },
		{ "file_violation", "hard_link", CYBEROS_HARD_LINK },
		{ "file_violation", "privileged_file",
		    CYBEROS_PRIVILEGED_FILE },
		{ "domain_violation", "domain_violation",
		    CYBEROS_DOMAIN_VIOLATION },
		{ "domain_violation", "ceiling", CYBEROS_DOMAIN_CEILING },
		{ "domain_violation", "address_not_public",
		    CYBEROS_ADDRESS_NOT_PUBLIC },
		{ "request_too_large", "request_too_large",
		    CYBEROS_REQUEST_TOO_LARGE },
		{ "deadline", "deadline", CYBEROS_DEADLINE },
		{ "audit_unavailable", "audit_unavailable",
		    CYBEROS_AUDIT_UNAVAILABLE },
		{ "audit_budget", "audit_budget", CYBEROS_AUDIT_BUDGET },
		{ "not_found", NULL, CYBEROS_NOT_FOUND },
		{ "exists", NULL, CYBEROS_EXISTS },
		{ "is_a_directory", NULL, CYBEROS_IS_A_DIRECTORY },
		{ "permission", NULL, CYBEROS_PERMISSION },
		{ "too_large", NULL, CYBEROS_TOO_LARGE },
		{ "not_unique", NULL, CYBEROS_NOT_UNIQUE },
		{ "timeout", NULL, CYBEROS_TIMEOUT },
		{ "cancelled", NULL, CYBEROS_CANCELLED },
		{ "no_space", NULL, CYBEROS_NO_SPACE },
		{ "io_error", NULL, CYBEROS_IO_ERROR },
		{ "invalid_pattern", NULL, CYBEROS_INVALID_PATTERN },
		{ "too_complex", NULL, CYBEROS_TOO_COMPLEX },
		{ "http_error", NULL, CYBEROS_HTTP_ERROR },
		{ "tls_error", NULL, CYBEROS_TLS_ERROR },
		{ "resolve_error", NULL, CYBEROS_RESOLVE_ERROR },
		{ "connect_error", NULL, CYBEROS_CONNECT_ERROR },
	};

	*n = sizeof(words) / sizeof(words[0]);
	return words;
}

/* Append to the text; the first failure stays. */
static inline void
cyberos_put_(struct cyberos_args *a, const void *p, size_t n)
{
	size_t size = a->size == 0 ? 256 : a->size;
	char *text;

	if (a->failed != 0)
		return;
	if (n > CYBEROS_SEND_MAX - a->len) {
		a->failed = EMSGSIZE;
		return;
	}
	while (size < a->len + n)
		size *= 2;
	if (size != a->size) {
		text = (char *)realloc(a->text, size);
		if (text == NULL) {
			a->failed = ENOMEM;
			return;
		}
		a->text = text;
		a->size = size;
	}
	if (n > 0)
		memcpy(a->text + a->len, p, n);
	a->len += n;
}

/* The length of the UTF-8 character at p, or 0; never a NUL. */
static inline size_t
cyberos_character_(const unsigned char *p, size_t n)
{
	size_t len, i;

	if (n == 0 || p[0] == 0 || (p[0] >= 0x80 && p[0] < 0xc2) || p[0] > 0xf4)
		return 0;
	len = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (len > n)
		return 0;
	for (i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return len;
}

/* A text in quotes; one that is no UTF-8, or has a NUL, fails. */
static inline void
cyberos_put_string_(struct cyberos_args *a, const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text;
	char escape[8];
	size_t i, n;

	cyberos_put_(a, "\"", 1);
	for (i = 0; i < len; i += n) {
		n = cyberos_character_(p + i, len - i);
		if (n == 0) {
			if (a->failed == 0)
				a->failed = EILSEQ;
			return;
		}
		if (p[i] == '"' || p[i] == '\\') {
			escape[0] = '\\';
			escape[1] = text[i];
			cyberos_put_(a, escape, 2);
		} else if (p[i] < 0x20) {
			snprintf(escape, sizeof(escape), "\\u%04x",
			    (unsigned)p[i]);
			cyberos_put_(a, escape, 6);
		} else {
			cyberos_put_(a, text + i, n);
		}
	}
	cyberos_put_(a, "\"", 1);
}

static inline void
cyberos_put_name_(struct cyberos_args *a, const char *name)
{
	if (a->len > 0)
		cyberos_put_(a, ",", 1);
	cyberos_put_string_(a, name, strlen(name));
	cyberos_put_(a, ":", 1);
}

static inline void
cyberos_put_base64_(struct cyberos_args *a, const unsigned char *p, size_t len)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned long three;
	char four[4];
	size_t i, n;

	cyberos_put_(a, "\"", 1);
	for (i = 0; i < len; i += 3) {
		n = len - i;
		three = (unsigned long)p[i] << 16;
		if (n > 1)
			three |= (unsigned long)p[i + 1] << 8;
		if (n > 2)
			three |= p[i + 2];
		four[0] = digits[three >> 18 & 63];
		four[1] = digits[three >> 12 & 63];
		four[2] = n > 1 ? digits[three >> 6 & 63] : '=';
		four[3] = n > 2 ? digits[three & 63] : '=';
		cyberos_put_(a, four, 4);
	}
	cyberos_put_(a, "\"", 1);
}

static inline void
cyberos_args_init(struct cyberos_args *a)
{
	memset(a, 0, sizeof(*a));
}

static inline void
cyberos_args_clear(struct cyberos_args *a)
{
	free(a->text);
	cyberos_args_init(a);
}

static inline void
cyberos_put_text(struct cyberos_args *a, const char *name, const char *text)
{
	cyberos_put_name_(a, name);
	cyberos_put_string_(a, text, strlen(text));
}

static inline void
cyberos_put_bytes(struct cyberos_args *a, const char *name, const void *bytes,
    size_t len)
{
	const unsigned char *p = (const unsigned char *)bytes;
	size_t i = 0, n = 1;

	while (i < len && (n = cyberos_character_(p + i, len - i)) > 0)
		i += n;
	cyberos_put_name_(a, name);
	if (n > 0) {
		cyberos_put_string_(a, (const char *)bytes, len);
		return;
	}
	cyberos_put_base64_(a, p, len);
	cyberos_put_text(a, "encoding", "base64");
}

static inline void
cyberos_put_int(struct cyberos_args *a, const char *name, long long value)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%lld", value);

	cyberos_put_name_(a, name);
	cyberos_put_(a, text, (size_t)n);
}

static inline void
cyberos_put_bool(struct cyberos_args *a, const char *name, int value)
{
	cyberos_put_json(a, name, value ? "true" : "false");
}

static inline void
cyberos_put_json(struct cyberos_args *a, const char *name, const char *json)
{
	cyberos_put_name_(a, name);
	cyberos_put_(a, json, strlen(json));
}

/* --- reading JSON: never outside [p, end), never deeper than the bound --- */

static inline const char *
cyberos_blank_(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

/* Behind the string that begins at p, or NULL. */
static inline const char *
cyberos_skip_string_(const char *p, const char *end)
{
	if (p >= end || *p != '"')
		return NULL;
	for (p++; p < end && *p != '"'; p++) {
		if (*p == '\\' && ++p == end)
			return NULL;
	}
	return p < end ? p + 1 : NULL;
}

/* Behind the value that begins at p, or NULL. */
static inline const char *
cyberos_skip_(const char *p, const char *end)
{
	const char *begin = p;
	int depth = 0;

	do {
		if (p >= end)
			return NULL;
		if (*p == '"') {
			p = cyberos_skip_string_(p, end);
			if (p == NULL)
				return NULL;
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if (*p == '}' || *p == ']')
			depth--;
		else if (depth == 0)
			break;
		if (depth < 0 || depth > CYBEROS_DEPTH_MAX)
			return NULL;
		p++;
	} while (depth > 0);
	if (p > begin) /* a string, an array or an object */
		return p;
	while (p < end && strchr(",]} \t\r\n", *p) == NULL)
		p++;
	return p > begin ? p : NULL;
}

static inline unsigned long
cyberos_hex_(const char *p)
{
	char text[5];

	memcpy(text, p, 4);
	text[4] = '\0';
	return strtoul(text, NULL, 16);
}

/* One code point as UTF-8; its length. */
static inline size_t
cyberos_utf8_(unsigned long c, char *out)
{
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, i;

	if (n == 1) {
		out[0] = (char)c;
		return 1;
	}
	for (i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)((0xf00 >> n & 0xff) | c);
	return n;
}

/*
 * The string at p without quotes and escapes into out, which has room for
 * what lies between p and end; its length. A surrogate alone becomes U+FFFD.
 */
static inline size_t
cyberos_unescape_(const char *p, const char *end, char *out)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *known;
	unsigned long c, low;
	size_t n = 0;

	for (p++; p < end && *p != '"'; p++) {
		if (*p != '\\') {
			out[n++] = *p;
			continue;
		}
		p++;
		known = *p == '\0' ? NULL : strchr(from, *p);
		if (*p != 'u') {
			out[n++] = known == NULL ? *p : to[known - from];
			continue;
		}
		if (end - p < 6)
			return n;
		c = cyberos_hex_(p + 1);
		p += 4;
		low = end - p > 7 && p[1] == '\\' && p[2] == 'u'
			? cyberos_hex_(p + 3)
			: 0;
		if (c >= 0xd800 && c < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
			p += 6;
		} else if (c >= 0xd800 && c < 0xe000) {
			c = 0xfffd;
		}
		n += cyberos_utf8_(c, out + n);
	}
	return n;
}

/* Is the key at p, which ends before end, this word of a JSON pointer? */
static inline int
cyberos_is_key_(const char *p, const char *end, const char *word, size_t len)
{
	char key[256], c;
	size_t n, i, at = 0;

	if ((size_t)(end - p) > sizeof(key))
		return 0;
	n = cyberos_unescape_(p, end, key);
	for (i = 0; i < len; i++) {
		c = word[i];
		if (c == '~' && i + 1 < len)
			c = word[++i] == '1' ? '/' : '~';
		if (at >= n || key[at++] != c)
			return 0;
	}
	return at == n;
}

/*
 * Step through an array or object: *at is behind its bracket or behind the
 * last value. The next value's begin, and in *at its end; NULL after the last.
 */
static inline const char *
cyberos_next_(const char **at, const char *end, const char **key)
{
	const char *p = cyberos_blank_(*at, end), *behind;

	if (p < end && *p == ',')
		p = cyberos_blank_(p + 1, end);
	if (p >= end || *p == ']' || *p == '}')
		return NULL;
	if (key != NULL) {
		*key = p;
		p = cyberos_skip_string_(p, end);
		if (p == NULL)
			return NULL;
		p = cyberos_blank_(p, end);
		if (p >= end || *p != ':')
			return NULL;
		p = cyberos_blank_(p + 1, end);
	}
	behind = cyberos_skip_(p, end);
	if (behind == NULL)
		return NULL;
	*at = behind;
	return p;
}

/* The member or element that one word of a pointer names. */
static inline const char *
cyberos_step_(const char *p, const char **end, const char *word, size_t len)
{
	const char *at = p + 1, *value, *key = NULL;
	size_t index = 0, i;
	int is_object = *p == '{';

	if (!is_object && *p != '[')
		return NULL;
	for (i = 0; !is_object && i < len; i++) {
		if (word[i] < '0' || word[i] > '9' || index > 100000000)
			return NULL;
		index = index * 10 + (size_t)(word[i] - '0');
	}
	if (!is_object && len == 0)
		return NULL;
	for (i = 0;; i++) {
		value = cyberos_next_(&at, *end, is_object ? &key : NULL);
		if (value == NULL)
			return NULL;
		if (is_object ? cyberos_is_key_(key, value, word, len)
			      : i == index)
			break;
	}
	*end = at;
	return value;
}

/* cyberos_find in any text. */
static inline const char *
cyberos_find_in_(const char *p, size_t n, const char *pointer, size_t *len)
{
	const char *end = p + n;
	size_t word;

	p = n == 0 ? NULL : cyberos_blank_(p, end);
	while (p != NULL && p < end && *pointer == '/') {
		pointer++;
		word = strcspn(pointer, "/");
		p = cyberos_step_(p, &end, pointer, word);
		pointer += word;
	}
	if (p == NULL || p >= end || *pointer != '\0')
		return NULL;
	*len = (size_t)(end - p);
	return p;
}

static inline const char *
cyberos_find(const struct cyberos *c, const char *pointer, size_t *len)
{
	return cyberos_find_in_(c->value, c->value_len, pointer, len);
}

static inline char *
cyberos_text(const struct cyberos *c, const char *pointer, size_t *len)
{
	size_t n;
	const char *p = cyberos_find(c, pointer, &n);
	char *text;

	if (p == NULL || *p != '"')
		return NULL;
	text = (char *)malloc(n + 1);
	if (text == NULL)
		return NULL;
	n = cyberos_unescape_(p, p + n, text);
	text[n] = '\0';
	if (len != NULL)
		*len = n;
	return text;
}

/* A digit of base64, or 64. */
static inline unsigned
cyberos_digit_(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (unsigned)(c - 'A');
	if (c >= 'a' && c <= 'z')
		return (unsigned)(c - 'a') + 26;
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0') + 52;
	return c == '+' ? 62 : c == '/' ? 63 : 64;
}

static inline char *
cyberos_bytes(const struct cyberos *c, const char *pointer, size_t *len)
{
	size_t own;
	char *body = cyberos_text(c, pointer, len = len == NULL ? &own : len);
	char *encoding = cyberos_text(c, "/encoding", NULL);
	unsigned held = 0, bits = 0, digit;
	size_t i, n = 0;

	if (body != NULL && encoding != NULL && strcmp(encoding, "base64") ==
		0) {
		for (i = 0; i < *len; i++) {
			digit = cyberos_digit_(body[i]);
			if (digit == 64)
				break;
			held = (held << 6 | digit) & 0xffff;
			bits += 6;
			if (bits >= 8) {
				bits -= 8;
				body[n++] = (char)(held >> bits & 0xff);
			}
		}
		body[n] = '\0';
		*len = n;
	}
	free(encoding);
	return body;
}

static inline char *
cyberos_body(const struct cyberos *c, size_t *len)
{
	return cyberos_bytes(c, "/body", len);
}

static inline int
cyberos_int(const struct cyberos *c, const char *pointer, long long *out)
{
	size_t n;
	const char *p = cyberos_find(c, pointer, &n);
	char text[32], *end;
	long long value;

	if (p == NULL || n >= sizeof(text) ||
	    (*p != '-' && (*p < '0' || *p > '9')))
		return -1;
	memcpy(text, p, n);
	text[n] = '\0';
	value = strtoll(text, &end, 10);
	if (*end != '\0')
		return -1;
	*out = value;
	return 0;
}

static inline int
cyberos_bool(const struct cyberos *c, const char *pointer, int *out)
{
	size_t n;
	const char *p = cyberos_find(c, pointer, &n);

	if (p == NULL || !((n == 4 && memcmp(p, "true", 4) == 0) ||
		(n == 5 && memcmp(p, "false", 5) == 0)))
		return -1;
	*out = n == 4;
	return 0;
}

static inline long
cyberos_count(const struct cyberos *c, const char *pointer)
{
	size_t n;
	const char *p = cyberos_find(c, pointer, &n), *at, *key;
	long count = 0;

	if (p == NULL || (*p != '{' && *p != '['))
		return -1;
	at = p + 1;
	while (cyberos_next_(&at, p + n, *p == '{' ? &key : NULL) != NULL)
		count++;
	return count;
}

/* --- the connection ------------------------------------------------------ */

static inline int
cyberos_open(struct cyberos *c, const char *path)
{
	struct sockaddr_un sun;
	int saved;

	memset(c, 0, sizeof(*c));
	c->fd = -1;
	c->status = CYBEROS_GONE;
	if (path == NULL)
		path = getenv("CYBEROS_BROKER_SOCKET");
	memset(&sun, 0, sizeof(sun));
	sun.sun_family = AF_UNIX;
	if (path == NULL || strlen(path) >= sizeof(sun.sun_path)) {
		errno = path == NULL ? ENOENT : ENAMETOOLONG;
		return -1;
	}
	memcpy(sun.sun_path, path, strlen(path));
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd == -1)
		return -1;
	if (connect(c->fd, (struct sockaddr *)&sun, sizeof(sun)) == -1) {
		saved = errno;
		close(c->fd);
		c->fd = -1;
		errno = saved;
		return -1;
	}
	c->status = CYBEROS_DONE;
	return 0;
}

/* Hang up. What the last call said stays, its answer goes. */
static inline void
cyberos_hang_up_(struct cyberos *c)
{
	if (c->fd != -1)
		close(c->fd);
	c->fd = -1;
}

static inline void
cyberos_forget_(struct cyberos *c)
{
	free(c->answer);
	c->answer = NULL;
	c->value = NULL;
	c->answer_len = c->value_len = 0;
	c->error = CYBEROS_OTHER;
	c->group[0] = c->reason[0] = c->hint[0] = '\0';
	c->retry_after_ms = -1;
}

static inline void
cyberos_close(struct cyberos *c)
{
	cyberos_hang_up_(c);
	free(c->answer);
	c->answer = NULL;
	c->value = NULL;
	c->answer_len = c->value_len = 0;
}

static inline enum cyberos_status
cyberos_say_(struct cyberos *c, enum cyberos_status status, const char *word,
    const char *hint)
{
	c->status = status;
	snprintf(c->group, sizeof(c->group), "%s", word);
	snprintf(c->reason, sizeof(c->reason), "%s", word);
	snprintf(c->hint, sizeof(c->hint), "%s", hint);
	if (status == CYBEROS_GONE)
		cyberos_hang_up_(c);
	return status;
}

static inline int
cyberos_send_(int fd, const char *p, size_t n)
{
	ssize_t sent;

	while (n > 0) {
		sent = send(fd, p, n, MSG_NOSIGNAL);
		if (sent == -1 && errno == EINTR)
			continue;
		if (sent == -1)
			return -1;
		p += sent;
		n -= (size_t)sent;
	}
	return 0;
}

static inline int
cyberos_receive_(int fd, char *p, size_t n)
{
	ssize_t got;

	while (n > 0) {
		got = recv(fd, p, n, 0);
		if (got == -1 && errno == EINTR)
			continue;
		if (got == 0)
			errno = EPIPE;
		if (got <= 0)
			return -1;
		p += got;
		n -= (size_t)got;
	}
	return 0;
}

/* One text of the answer into a fixed field, cut if need be. */
static inline void
cyberos_field_(const struct cyberos *c, const char *pointer, char *out,
    size_t size)
{
	char *text = cyberos_text(c, pointer, NULL);

	if (text != NULL)
		snprintf(out, size, "%s", text);
	free(text);
}

/* The error object of the answer, taken apart. */
static inline enum cyberos_status
cyberos_judge_(struct cyberos *c)
{
	const struct cyberos_word_ *words;
	long long code = 0;
	size_t i, n;

	(void)cyberos_int(c, "/code", &code);
	(void)cyberos_int(c, "/data/retry_after_ms", &c->retry_after_ms);
	cyberos_field_(c, "/message", c->group, sizeof(c->group));
	cyberos_field_(c, "/message", c->reason, sizeof(c->reason));
	cyberos_field_(c, "/data/reason", c->reason, sizeof(c->reason));
	cyberos_field_(c, "/data/hint", c->hint, sizeof(c->hint));
	cyberos_field_(c, "/data/detail", c->hint, sizeof(c->hint));
	c->status = code == -32603 ? CYBEROS_REFUSED
	    : code == -32000	   ? CYBEROS_FAILED
				   : CYBEROS_BAD_ARGUMENTS;
	words = cyberos_words_(&n);
	for (i = 0; i < n; i++) {
		if (strcmp(words[i].group, c->group) == 0 &&
		    (words[i].reason == NULL
			    ? c->status == CYBEROS_FAILED
			    : c->status == CYBEROS_REFUSED &&
				strcmp(words[i].reason, c->reason) == 0))
			c->error = words[i].error;
	}
	return c->status;
}

/* Is it the answer to the last request? One without an id is. */
static inline int
cyberos_is_ours_(const struct cyberos *c)
{
	char text[32];
	size_t n;
	const char *id = cyberos_find_in_(c->answer, c->answer_len, "/id", &n);

	snprintf(text, sizeof(text), "%lu", c->last);
	return id != NULL && ((n == 4 && memcmp(id, "null", 4) == 0) ||
	    (n == strlen(text) && memcmp(id, text, n) == 0));
}

/* Wait for the answer and look at it. */
static inline enum cyberos_status
cyberos_answer_(struct cyberos *c)
{
	unsigned char head[4];
	size_t len;

	if (cyberos_receive_(c->fd, (char *)head, sizeof(head)) == -1)
		return cyberos_say_(c, CYBEROS_GONE, "gone", strerror(errno));
	len = (size_t)head[0] << 24 | (size_t)head[1] << 16 |
	    (size_t)head[2] << 8 | head[3];
	if (len > CYBEROS_ANSWER_MAX)
		return cyberos_say_(c, CYBEROS_GONE, "gone",
		    "an answer that is too large");
	c->answer = (char *)malloc(len + 1);
	if (c->answer == NULL ||
	    cyberos_receive_(c->fd, c->answer, len) == -1)
		return cyberos_say_(c, CYBEROS_GONE, "gone", strerror(errno));
	c->answer[len] = '\0';
	c->answer_len = len;
	if (cyberos_is_ours_(c)) {
		c->value = cyberos_find_in_(c->answer, len, "/error",
		    &c->value_len);
		if (c->value != NULL)
			return cyberos_judge_(c);
		c->value = cyberos_find_in_(c->answer, len, "/result",
		    &c->value_len);
		if (c->value != NULL && *c->value == '{')
			return c->status = CYBEROS_DONE;
	}
	return cyberos_say_(c, CYBEROS_GONE, "gone",
	    "an answer to no request of ours");
}

/* args: the text of an object's members, or of a whole object. */
static inline enum cyberos_status
cyberos_ask_(struct cyberos *c, const char *tool, const char *args, size_t len,
    int is_whole)
{
	static const char head[] = "{\"jsonrpc\":\"2.0\",\"method\":"
				   "\"tool.call\",\"params\":{\"tool\":";
	struct cyberos_args out;
	char tail[48];
	size_t n, i;
	int rc;

	cyberos_forget_(c);
	if (c->fd == -1)
		return cyberos_say_(c, CYBEROS_GONE, "gone", "not connected");
	cyberos_args_init(&out);
	cyberos_put_(&out, "\0\0\0\0", 4);
	cyberos_put_(&out, head, sizeof(head) - 1);
	cyberos_put_string_(&out, tool, strlen(tool));
	cyberos_put_(&out, ",\"args\":{", is_whole ? 8 : 9);
	cyberos_put_(&out, args, len);
	snprintf(tail, sizeof(tail), "%s},\"id\":%lu}", is_whole ? "" : "}",
	    ++c->last);
	cyberos_put_(&out, tail, strlen(tail));
	if (out.failed != 0) {
		rc = out.failed;
		cyberos_args_clear(&out);
		if (rc != EMSGSIZE)
			return cyberos_say_(c, CYBEROS_BAD_ARGUMENTS,
			    "bad_arguments", strerror(rc));
		c->error = CYBEROS_REQUEST_TOO_LARGE;
		return cyberos_say_(c, CYBEROS_REFUSED, "request_too_large",
		    "send at most 1048576 bytes in one request");
	}
	n = out.len - 4;
	for (i = 0; i < 4; i++)
		out.text[i] = (char)(unsigned char)(n >> (24 - 8 * i));
	rc = cyberos_send_(c->fd, out.text, out.len);
	cyberos_args_clear(&out);
	if (rc == -1)
		return cyberos_say_(c, CYBEROS_GONE, "gone", strerror(errno));
	return cyberos_answer_(c);
}

static inline enum cyberos_status
cyberos_call_json(struct cyberos *c, const char *tool, const char *args)
{
	return cyberos_ask_(c, tool, args, strlen(args), 1);
}

static inline enum cyberos_status
cyberos_call(struct cyberos *c, const char *tool, struct cyberos_args *a)
{
	enum cyberos_status status;

	if (a == NULL)
		return cyberos_ask_(c, tool, "", 0, 0);
	if (a->failed != 0) {
		cyberos_forget_(c);
		if (a->failed == EMSGSIZE)
			c->error = CYBEROS_REQUEST_TOO_LARGE;
		status = cyberos_say_(c, a->failed == EMSGSIZE
			? CYBEROS_REFUSED : CYBEROS_BAD_ARGUMENTS,
		    a->failed == EMSGSIZE ? "request_too_large"
					  : "bad_arguments",
		    strerror(a->failed));
	} else {
		status = cyberos_ask_(c, tool, a->text, a->len, 0);
	}
	cyberos_args_clear(a);
	return status;
}

#endif
