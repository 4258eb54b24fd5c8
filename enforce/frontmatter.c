/*
 * The two parts of a SKILL.md and their canonical form, on which signature and
 * ledger agree: one definition, so that a hash in a row, in the operator's list
 * of revoked ones and under a signature is of the same bytes.
 */

#define OPENSSL_SUPPRESS_DEPRECATED /* see audit/digest.c */

#include "enforce/frontmatter.h"

#include <string.h>

#include <openssl/sha.h>

_Static_assert(FRONTMATTER_HASH == SHA256_DIGEST_LENGTH, "it is a SHA-256");

bool
frontmatter_line(const char **p, const char *end, const char **line,
    size_t *len)
{
	const char *lf;

	if (*p == end)
		return false;
	lf = memchr(*p, '\n', (size_t)(end - *p));
	*line = *p;
	*len = (size_t)((lf != NULL ? lf : end) - *p);
	*p = lf != NULL ? lf + 1 : end;
	if (*len > 0 && (*line)[*len - 1] == '\r')
		(*len)--;
	return true;
}

/* Exactly the three characters, blanks at the end apart. */
static bool
is_fence(const char *line, size_t len, const char *dashes)
{
	while (len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\t'))
		len--;
	return len == 3 && memcmp(line, dashes, 3) == 0;
}

/* Why there is no opening fence, for the person who wrote the file. */
static const char *
no_fence(const char *text, size_t len)
{
	if (len == 0)
		return "the file is empty; begin it with a line ---, the "
		       "fields, and a line ---";
	if (len >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 ||
			    memcmp(text, "\xfe\xff", 2) == 0))
		return "the file is UTF-16; save it as UTF-8";
	if (len > 4 && memcmp(text, "---\r", 4) == 0)
		return "the lines end with a bare carriage return; end them "
		       "with LF or CRLF";
	return "line 1 is not exactly ---; begin the file with it, without "
	       "blank lines or blanks before";
}

const char *
frontmatter_cut(const char *text, size_t len, struct frontmatter *f)
{
	const char *p = text, *end = text + len, *line;
	size_t n;
	bool dots = false;

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		p += 3;
	if (!frontmatter_line(&p, end, &line, &n) || !is_fence(line, n, "---"))
		return no_fence(text, len);
	f->yaml = p;
	f->crlf = p - line >= 2 && p[-2] == '\r';
	while (frontmatter_line(&p, end, &line, &n)) {
		if (is_fence(line, n, "---")) {
			f->yaml_len = (size_t)(line - f->yaml);
			f->body = p;
			f->body_len = (size_t)(end - p);
			return NULL;
		}
		dots = dots || is_fence(line, n, "...");
	}
	return dots ? "the frontmatter is closed with ...; close it with ---"
		    : "the frontmatter has no end; close it with a line that "
		      "is exactly ---";
}

static bool
is_outer_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void
frontmatter_hash(const char *text, size_t len,
    unsigned char hash[FRONTMATTER_HASH])
{
	const char *p = text, *end = text + len, *cr;
	SHA256_CTX context;

	while (p < end && is_outer_blank(*p))
		p++;
	while (end > p && is_outer_blank(end[-1]))
		end--;
	SHA256_Init(&context);
	while (p < end) {
		cr = memchr(p, '\r', (size_t)(end - p));
		if (cr == NULL)
			cr = end;
		SHA256_Update(&context, p, (size_t)(cr - p));
		/* One that a LF follows is left out; what is trimmed ends with
		 * neither. */
		if (cr < end && cr[1] != '\n')
			SHA256_Update(&context, cr, 1);
		p = cr < end ? cr + 1 : end;
	}
	SHA256_Final(hash, &context);
}
