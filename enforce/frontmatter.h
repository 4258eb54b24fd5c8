#ifndef ENFORCE_FRONTMATTER_H
#define ENFORCE_FRONTMATTER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Where the frontmatter of a SKILL.md begins and ends (SPEC 2), found by our
 * own eyes and not by a YAML reader's idea of a document. All borrow the text.
 */
struct frontmatter {
	const char	*yaml;		/* between the fences */
	size_t		 yaml_len;
	const char	*body;		/* behind the second one */
	size_t		 body_len;
	bool		 crlf;		/* the first line ends with CRLF */
};

/* NULL, or a sentence that says why there is none. */
const char	*frontmatter_cut(const char *text, size_t len,
		    struct frontmatter *);

/*
 * The line at *p, without its LF or CRLF; *p moves behind it. False at the
 * end.
 */
bool		 frontmatter_line(const char **p, const char *end,
		    const char **line, size_t *len);

#define FRONTMATTER_HASH	32

/*
 * SHA-256 of a text in canonical form: CRLF is LF, and blanks, tabs, CR and LF
 * at both ends are gone.
 */
void		 frontmatter_hash(const char *text, size_t len,
		    unsigned char hash[FRONTMATTER_HASH]);

#endif
