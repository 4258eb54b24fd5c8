/*
 * W3C trace context from callers that are not trusted: what is accepted here
 * may go into a header of an upstream request, so nothing but visible ASCII of
 * a bounded length gets through, and every id is exactly lower-case
 * hexadecimal. Our own ids come from the kernel's random numbers.
 */

#include "audit/trace.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

#define PARENT_LEN 55 /* version 00, and the start of any other */
#define MEMBERS_MAX 32
#define KEY_MAX 256
#define VALUE_MAX 256
#define SAMPLED 0x01

struct member {
	const char *key;
	size_t len;
};

static bool
is_hex(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if ((p[i] < '0' || p[i] > '9') && (p[i] < 'a' || p[i] > 'f'))
			return false;
	return true;
}

static bool
is_zero(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (p[i] != '0')
			return false;
	return true;
}

static uint8_t
hex_value(char c)
{
	return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* May these bytes follow the flags in a version that we do not know? */
static bool
future_valid(const char *p, size_t n)
{
	size_t i;

	if (n > 0 && p[0] != '-')
		return false;
	for (i = 0; i < n; i++)
		if (p[i] < 0x21 || p[i] > 0x7e)
			return false;
	return true;
}

bool
trace_parse(const char *text, size_t len, struct trace *t)
{
	if (len < PARENT_LEN || len > TRACE_PARENT_MAX)
		return false;
	if (!is_hex(text, 2) || text[2] != '-' || !is_hex(text + 3, 32) ||
	    text[35] != '-' || !is_hex(text + 36, 16) || text[52] != '-' ||
	    !is_hex(text + 53, 2))
		return false;
	if (memcmp(text, "ff", 2) == 0 || is_zero(text + 3, 32) ||
	    is_zero(text + 36, 16))
		return false;
	if (memcmp(text, "00", 2) == 0 && len != PARENT_LEN)
		return false;
	if (!future_valid(text + PARENT_LEN, len - PARENT_LEN))
		return false;
	memcpy(t->trace_id, text + 3, 32);
	t->trace_id[32] = '\0';
	memcpy(t->span_id, text + 36, 16);
	t->span_id[16] = '\0';
	t->flags = (uint8_t)(hex_value(text[53]) << 4 | hex_value(text[54]));
	return true;
}

static void
put_hex(char *id, const unsigned char *bytes, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	size_t i;

	for (i = 0; i < n; i++) {
		id[i * 2] = digits[bytes[i] >> 4];
		id[i * 2 + 1] = digits[bytes[i] & 15];
	}
	id[n * 2] = '\0';
}

/* n random bytes, not all zero, as 2n digits and a NUL; n is at most 16. */
static int
random_id(char *id, size_t n)
{
	unsigned char bytes[16], any;
	ssize_t got;
	size_t i;

	do {
		got = getrandom(bytes, n, 0);
		if (got == -1 && errno != EINTR)
			return -1;
		any = 0;
		if (got == (ssize_t)n)
			for (i = 0; i < n; i++)
				any |= bytes[i];
	} while (any == 0);
	put_hex(id, bytes, n);
	return 0;
}

int
trace_new_span(char id[17])
{
	return random_id(id, 8);
}

int
trace_next_span(struct trace_ids *ids, char id[17])
{
	do {
		if (ids->left < 8) {
			/* So few bytes come at once or not at all. */
			if (getrandom(ids->bytes, sizeof(ids->bytes), 0) !=
			    (ssize_t)sizeof(ids->bytes))
				return -1;
			ids->left = sizeof(ids->bytes);
		}
		ids->left -= 8;
		put_hex(id, ids->bytes + ids->left, 8);
	} while (is_zero(id, 16));
	return 0;
}

bool
trace_sampled(
    const struct trace_sampler *s, const struct trace *t, bool given)
{
	uint64_t low = 0;
	size_t i;

	if (given && s->parent)
		return (t->flags & SAMPLED) != 0;
	for (i = 16; i < 32; i++)
		low = low << 4 | hex_value(t->trace_id[i]);
	return (low & (TRACE_ALWAYS - 1)) < s->below;
}

int
trace_new(struct trace *t)
{
	struct trace fresh;

	if (random_id(fresh.trace_id, 16) == -1 ||
	    random_id(fresh.span_id, 8) == -1)
		return -1;
	fresh.flags = SAMPLED;
	*t = fresh;
	return 0;
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool
key_valid(const char *p, size_t n)
{
	size_t i;
	bool word;

	if (n == 0 || n > KEY_MAX)
		return false;
	for (i = 0; i < n; i++) {
		word = (p[i] >= 'a' && p[i] <= 'z') ||
		       (p[i] >= '0' && p[i] <= '9');
		if (!word && (i == 0 || memchr("_-*/@", p[i], 5) == NULL))
			return false;
	}
	return true;
}

/* Blanks at its end are already gone. */
static bool
value_valid(const char *p, size_t n)
{
	size_t i;

	if (n == 0 || n > VALUE_MAX)
		return false;
	for (i = 0; i < n; i++)
		if (p[i] < 0x20 || p[i] > 0x7e || p[i] == '=')
			return false;
	return true;
}

/* Check one member that is not empty and add its key to the n there are. */
static bool
add_member(const char *p, size_t len, struct member *v, size_t *n)
{
	const char *equals = memchr(p, '=', len);
	size_t i, key;

	if (equals == NULL || *n == MEMBERS_MAX)
		return false;
	key = (size_t)(equals - p);
	if (!key_valid(p, key) || !value_valid(equals + 1, len - key - 1))
		return false;
	for (i = 0; i < *n; i++)
		if (v[i].len == key && memcmp(v[i].key, p, key) == 0)
			return false;
	v[*n].key = p;
	v[*n].len = key;
	++*n;
	return true;
}

bool
trace_state_valid(const char *text, size_t len)
{
	struct member members[MEMBERS_MAX];
	size_t first, i = 0, last, n = 0;

	if (len > TRACE_STATE_MAX)
		return false;
	while (i < len) {
		while (i < len && is_blank(text[i]))
			i++;
		first = i;
		while (i < len && text[i] != ',')
			i++;
		last = i++;
		while (last > first && is_blank(text[last - 1]))
			last--;
		if (last > first &&
		    !add_member(text + first, last - first, members, &n))
			return false;
	}
	return true;
}
