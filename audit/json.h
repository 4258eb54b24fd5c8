#ifndef AUDIT_JSON_H
#define AUDIT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "audit/buf.h"

/*
 * JSON as SPEC 5 wants it: RFC 8259 plus I-JSON (RFC 7493). cJSON alone takes
 * texts that are not JSON, so nothing from outside reaches it before this
 * scanner has seen every byte. Text is always pointer and length.
 */

#define JSON_DEPTH_MAX	64	/* levels of arrays and objects */
#define JSON_ITEMS_MAX	65536	/* values in one text, the root included */

struct json_span {
	const char	*p;
	size_t		 len;
};

/*
 * Is the text exactly one JSON value? Valid UTF-8, no byte order mark, no
 * duplicate names after unescaping, no lone surrogates (noncharacters pass),
 * no escaped NUL, integers (numbers without fraction and exponent) within
 * 2^53, no number beyond the range of a double, JSON_DEPTH_MAX, JSON_ITEMS_MAX.
 * With rpc, the value of a member "id" of the root object, or of an object
 * that is an element of the root array, may be an integer of any size. Works
 * in time n log n at worst and never recurses deeper than JSON_DEPTH_MAX.
 * On false *why (when not NULL) is a constant sentence part ("duplicate name")
 * and *at the byte offset where it was seen.
 */
bool	json_scan(const char *text, size_t len, bool rpc, const char **why,
	    size_t *at);

/*
 * json_scan, then cJSON. The caller frees the tree with cJSON_Delete. NULL
 * when the text is refused (errno EINVAL) or memory is short (ENOMEM). Strings
 * of the tree hold no NUL, so strlen is their length.
 */
cJSON	*json_parse(const char *text, size_t len, bool rpc);

/*
 * The raw bytes of a member's value in the text of an object that json_scan
 * has accepted; names are compared after unescaping, case-sensitively. False
 * when there is no such member or the text is no object.
 */
bool	json_member(const char *text, size_t len, const char *name,
	    struct json_span *);

/* A member of a tree that is a string, borrowed; "" when there is none. */
const char *json_member_text(const cJSON *object, const char *name);

/*
 * The same, for a text without escapes that fits, with its NUL, and for a number
 * of at most 18 digits and no sign. False for anything else, which leaves ""
 * and 0.
 */
bool	json_text_of(const char *text, size_t len, const char *name, char *out,
	    size_t size);
bool	json_uint_of(const char *text, size_t len, const char *name, uint64_t *);

/*
 * Walk the elements of an array that json_scan has accepted: at starts as
 * {NULL, 0}, and each call leaves the raw bytes of the next element there.
 * False after the last one, or when the text is no array.
 */
bool	json_element(const char *text, size_t len, struct json_span *at);

/*
 * The canonical form of RFC 8785. 0, or -1 with errno (EDOM: no such number;
 * EINVAL: no JSON, deeper than JSON_DEPTH_MAX or a name twice); then nothing is
 * appended and the buffer is marked as failed. Mind that the form of 1e20 is an
 * integer beyond 2^53, which json_scan refuses.
 */
int	json_canonical(const cJSON *, struct buf *);

/* The shortest text of a number by the rules of RFC 8785, section 3.2.2.3. */
int	json_put_number(struct buf *, double);

/*
 * A string in quotes, escaped as RFC 8785 does. Bytes that are not UTF-8
 * become U+FFFD, one for each byte, so the output is always valid.
 */
int	json_put_string(struct buf *, const char *, size_t len);

/* Is it valid UTF-8 (no overlong form, no surrogate, at most U+10FFFF)? */
bool	json_is_utf8(const char *, size_t len);

/* How many code points valid UTF-8 has. */
size_t	json_utf8_points(const char *, size_t len);

/*
 * The length of the longest prefix of s, at most max bytes, that does not cut
 * a character of valid UTF-8 in two.
 */
size_t	json_utf8_cut(const char *s, size_t len, size_t max);

#endif
