#ifndef ENFORCE_YAML_H
#define ENFORCE_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Private to this folder: YAML text -> a small bounded tree in which each node
 * knows its line and column, for the frontmatter and the configuration. What
 * two YAML readers might see differently never gets into the tree: it is
 * reported instead, and the walk goes on where it can.
 */

#define YAML_DEPTH_MAX 16 /* levels of lists and mappings */

enum yaml_kind { YAML_KIND_TEXT, YAML_KIND_LIST, YAML_KIND_MAP };

/* What a scalar is by the core schema of YAML 1.2; quoted text is a string. */
enum yaml_type {
	YAML_TYPE_STRING,
	YAML_TYPE_NULL,
	YAML_TYPE_BOOL,
	YAML_TYPE_INT,
	YAML_TYPE_FLOAT
};

struct yaml_item {
	enum yaml_kind kind;
	enum yaml_type type;	 /* of a text */
	bool spoiled;		 /* reported already; judge it no more */
	char *text;		 /* of a text; NUL-terminated */
	size_t len;		 /* of text, which may hold a NUL */
	unsigned line;		 /* in the file, from 1 */
	unsigned column;	 /* in code points, from 1 */
	struct yaml_item *key;	 /* of a member of a mapping */
	struct yaml_item *child; /* the first element or member */
	struct yaml_item *last;
	struct yaml_item *next;	 /* the next one beside it */
	struct yaml_item *chain; /* all items, for the end */
};

enum yaml_fault {
	YAML_FAULT_SYNTAX,    /* what libyaml or our rules refuse */
	YAML_FAULT_DUPLICATE, /* a key that its mapping has already */
	YAML_FAULT_CHARACTER  /* a character that a person cannot see */
};

/* The field is the path of keys with dots, "" for none; both are printable. */
typedef void yaml_report(void *arg, enum yaml_fault, const char *field,
    unsigned line, unsigned column, const char *message);

struct yaml_source {
	const char *text;
	size_t len;
	unsigned first_line; /* the number of its first line */
	size_t items_max;
	bool start_marker; /* a "---" before the document is fine */
	yaml_report *report;
	void *arg;
};

struct yaml_tree {
	struct yaml_item *root; /* NULL: there is no document */
	struct yaml_item *chain;
	size_t items;
	bool whole; /* false: the walk ended early */
};

/*
 * Read a text. What is wrong with it goes to report; when the walk had to end
 * early, that message says so, the tree holds what came before, and whole is
 * false. 0, or -1 with ENOMEM. The caller clears *tree in any case.
 */
int yaml_tree_read(struct yaml_tree *tree, const struct yaml_source *);
void yaml_tree_clear(struct yaml_tree *);

/* The length of the character at s and its code point; 0: no valid UTF-8. */
size_t yaml_decode(const char *s, size_t len, uint32_t *point);

/* How many code points valid UTF-8 has. */
size_t yaml_points(const char *s, size_t len);

/* What kind of invisible character it is, as words, or NULL for a visible one.
 */
const char *yaml_invisible(uint32_t point);

/*
 * Text for a message: invisible characters and bytes that are not UTF-8
 * escaped, cut with dots when it does not fit. Returns out.
 */
const char *yaml_printable(char *out, size_t size, const char *s, size_t len);

/* Is it the text of this word? */
bool yaml_is(const struct yaml_item *, const char *word);

/* "text", "a list", "nothing" and so on: what an item is, for messages. */
const char *yaml_what(const struct yaml_item *);

/*
 * The value of a plain decimal integer without sign and leading zeros, at most
 * max. False when it is none.
 */
bool yaml_number(const struct yaml_item *, unsigned max, unsigned *value);

/*
 * The word of the list (ended by NULL) that was likely meant, or NULL. Upper
 * and lower case, and dash and underscore, count as the same.
 */
const char *yaml_guess(const char *word, const char *const words[]);

#endif
