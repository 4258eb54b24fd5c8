#ifndef TOOLS_MATCH_H
#define TOOLS_MATCH_H

#include <stdbool.h>
#include <stddef.h>

/*
 * What a search looks for in a line: a text, or a Perl-compatible regular
 * expression that a stranger wrote. No pattern and no line costs more than a
 * bounded time; where the bound is met, the answer is MATCH_TOO_COMPLEX and
 * never "no".
 */
#define MATCH_LINE_MAX ((size_t)8 * 1024) /* of a line, for an expression */

enum match_result { MATCH_NO, MATCH_YES, MATCH_TOO_COMPLEX };

struct match;

/*
 * literal: the pattern is a text. fold: upper and lower case alike. NULL with
 * errno EINVAL (it is no regular expression, or one that needs too much) or
 * ENOMEM; after EINVAL *trouble, unless trouble is NULL, is a number for
 * match_trouble, less than 0.
 */
struct match *match_new(const char *pattern, bool literal, bool fold,
    int *trouble);

/* What is wrong with a pattern, and where, in the library's words; of a number
 * less than 0. */
void	match_trouble(int trouble, char *out, size_t size);
void match_free(struct match *);

/*
 * The first place at or after from where a line of this text may match, or
 * len: lines before the one that holds it need no look.
 */
size_t match_candidate(
    const struct match *, const char *text, size_t from, size_t len);

/*
 * Does this line (without its end) match, and where first (a byte offset)?
 * Of a line over MATCH_LINE_MAX an expression sees only the beginning, and
 * *cut is set.
 */
enum match_result match_line(
    struct match *, const char *line, size_t len, size_t *at, bool *cut);

#endif
