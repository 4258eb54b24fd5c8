/*
 * Reading what others wrote. The text is hostile: it goes through enforce/yaml
 * with all its bounds, and mending a line puts in quotes what YAML would give to
 * its value, never takes a comment for text, and never touches a value that YAML
 * can read. A line is mended once; what is still not YAML then is refused with
 * its place.
 */

#include "enforce/foreign.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "enforce/yaml.h"

#define ITEMS_MAX 2000
#define DEPTH_MAX 16 /* keys in a field's name: as deep as YAML may be */
#define FIELD_MAX 256

/* One line of the text that is being mended. */
struct line {
	char *text; /* without its end */
	bool mended;
};

struct mender {
	struct line *lines;
	size_t n;
	unsigned first_line;
};

struct reader {
	struct foreign *f;
	bool failed;
	bool final; /* no line can help: a key twice */
};

static void
on_fault(void *arg, enum yaml_fault fault, const char *field, unsigned line,
    unsigned column, const char *message)
{
	struct reader *r = arg;

	/* An item with a character that nobody sees is marked by its reader. */
	if (fault == YAML_FAULT_CHARACTER || r->failed)
		return;
	r->failed = true;
	r->final = fault == YAML_FAULT_DUPLICATE;
	snprintf(r->f->why, sizeof(r->f->why), "%s%s%s", field,
	    field[0] == '\0' ? "" : ": ", message);
	r->f->line = line;
	r->f->column = column;
}

/* --- lines --- */

static int
split(struct mender *m, const char *yaml, size_t len)
{
	const char *p = yaml, *end = yaml + len, *lf;
	size_t n = 1, line_len;

	while (p < end)
		n += *p++ == '\n';
	m->lines = calloc(n, sizeof(*m->lines));
	if (m->lines == NULL)
		return -1;
	for (p = yaml; p < end; p = lf == NULL ? end : lf + 1) {
		lf = memchr(p, '\n', (size_t)(end - p));
		line_len = (size_t)((lf == NULL ? end : lf) - p);
		if (lf != NULL && line_len > 0 && p[line_len - 1] == '\r')
			line_len--;
		m->lines[m->n].text = strndup(p, line_len);
		if (m->lines[m->n].text == NULL)
			return -1;
		m->n++;
	}
	return 0;
}

static char *
join(const struct mender *m, size_t *len)
{
	size_t i, n, at = 0, size = 1;
	char *text;

	for (i = 0; i < m->n; i++)
		size += strlen(m->lines[i].text) + 1;
	text = malloc(size);
	if (text == NULL)
		return NULL;
	for (i = 0; i < m->n; i++) {
		n = strlen(m->lines[i].text);
		memcpy(text + at, m->lines[i].text, n);
		at += n;
		text[at++] = '\n';
	}
	*len = at;
	return text;
}

static size_t
indent_of(const char *s)
{
	return strspn(s, " ");
}

/* Behind "- " and "key: ", where a value begins; NULL: there is none. */
static const char *
value_of(const char *s)
{
	static const char word[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
	bool any = false;
	size_t n;

	s += indent_of(s);
	while (s[0] == '-' && s[1] == ' ') {
		s += 1 + strspn(s + 1, " ");
		any = true;
	}
	n = strspn(s, word);
	if (n > 0 && s[n] == ':' && s[n + 1] == ' ') {
		s += n + 1;
		s += strspn(s, " ");
		any = true;
	}
	return any && s[0] != '\0' ? s : NULL;
}

/* Where a comment begins in a plain value, or its end without blanks. */
static size_t
plain_length(const char *s)
{
	size_t n;

	for (n = 0; s[n] != '\0'; n++)
		if (s[n] == '#' && (n == 0 || s[n - 1] == ' ' ||
				       s[n - 1] == '\t'))
			break;
	while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\t'))
		n--;
	return n;
}

static bool
has_colon(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (s[i] == ':' &&
		    (i + 1 == n || s[i + 1] == ' ' || s[i + 1] == '\t'))
			return true;
	return false;
}

/* "[action] [args]": brackets that are closed before the value ends. */
static bool
is_bracket_text(const char *s, size_t n)
{
	const char *close = memchr(s, ']', n);

	return s[0] == '[' && close != NULL && (size_t)(close - s) + 1 < n &&
	    memchr(s, '"', n) == NULL && memchr(s, '\'', n) == NULL;
}

/* May a plain value be put into quotes: is that its only other reading? */
static bool
is_mendable(const char *s, size_t n)
{
	if (n == 0 || strchr("\"'|>&!%@`{?", s[0]) != NULL)
		return false;
	if (s[0] == '[')
		return is_bracket_text(s, n);
	return s[0] == '*' || has_colon(s, n);
}

/* In single quotes, behind what stands before it on its line. */
static int
put_quoted(struct line *line, size_t prefix, const char *s, size_t n)
{
	char *text, *p;
	size_t i;

	text = malloc(prefix + 2 * n + 3);
	if (text == NULL)
		return -1;
	memcpy(text, line->text, prefix);
	p = text + prefix;
	*p++ = '\'';
	for (i = 0; i < n; i++) {
		if (s[i] == '\'')
			*p++ = '\'';
		*p++ = s[i];
	}
	*p++ = '\'';
	*p = '\0';
	free(line->text);
	line->text = text;
	line->mended = true;
	return 0;
}

/* The items of "[a: b, *.md]", each in quotes; parentheses hold together. */
static int
mend_list(struct line *line, size_t prefix, const char *s, size_t n)
{
	char *text, *p;
	size_t i = 1, start, end, depth;

	if (n < 2 || s[n - 1] != ']' || memchr(s + 1, '[', n - 1) != NULL ||
	    memchr(s, ']', n - 1) != NULL || strpbrk(s, "\"'{}") != NULL)
		return 0;
	text = malloc(prefix + 4 * n + 8);
	if (text == NULL)
		return -1;
	memcpy(text, line->text, prefix);
	p = text + prefix;
	*p++ = '[';
	while (i < n - 1) {
		start = i + strspn(s + i, " \t");
		/* An anchor, a tag: no mistake, and not for us. */
		if (strchr("&!%@`|>?", s[start]) != NULL) {
			free(text);
			return 0;
		}
		for (depth = 0, end = start; end < n - 1; end++) {
			if (s[end] == '(')
				depth++;
			else if (s[end] == ')' && depth > 0)
				depth--;
			else if (s[end] == ',' && depth == 0)
				break;
		}
		i = end + 1;
		while (end > start && (s[end - 1] == ' ' || s[end - 1] == '\t'))
			end--;
		if (p[-1] != '[')
			*p++ = ',';
		*p++ = '\'';
		memcpy(p, s + start, end - start);
		p += end - start;
		*p++ = '\'';
	}
	*p++ = ']';
	*p = '\0';
	free(line->text);
	line->text = text;
	line->mended = true;
	return 1;
}

/* A value that goes on in lines that are indented further: one line of it. */
static char *
whole_value(struct mender *m, size_t at, const char *value)
{
	size_t i, len = 0, n = plain_length(value), size = n + 1;
	size_t indent = indent_of(m->lines[at].text);
	const char *s;
	char *text;

	for (i = at + 1; i < m->n; i++)
		size += strlen(m->lines[i].text) + 1;
	text = malloc(size);
	if (text == NULL)
		return NULL;
	memcpy(text, value, n);
	len = n;
	for (i = at + 1; i < m->n; i++) {
		s = m->lines[i].text;
		if (s[strspn(s, " \t")] != '\0' && indent_of(s) <= indent)
			break;
		s += strspn(s, " \t");
		n = plain_length(s);
		if (n > 0 && len > 0)
			text[len++] = ' ';
		memcpy(text + len, s, n);
		len += n;
		/* The line stays, so that those behind it keep their number. */
		m->lines[i].text[0] = '\0';
	}
	text[len] = '\0';
	return text;
}

/* Is it a key that speaks of limits? Read line by line it would be one. */
static bool
is_limit_key(const char *s)
{
	static const char *const words[] = { "access", "allow", "ban", "bash",
		"block", "capab", "den", "disable", "egress", "except", "exclu",
		"fetch", "forbid", "grant", "guard", "host", "http", "limit",
		"network", "only", "permi", "polic", "privileg", "restrict",
		"rule", "sandbox", "shell", "tool", "web", "write" };
	const char *value = value_of(s), *at;
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		at = strcasestr(s, words[i]);
		if (value != NULL && at != NULL && at < value)
			return true;
	}
	return false;
}

/* Would a limit become a part of the text that this line begins? */
static bool
swallows_limit(const struct mender *m, size_t at)
{
	size_t i, indent = indent_of(m->lines[at].text);
	const char *s;

	for (i = at + 1; i < m->n; i++) {
		s = m->lines[i].text;
		if (s[strspn(s, " \t")] != '\0' && indent_of(s) <= indent)
			break;
		if (is_limit_key(s))
			return true;
	}
	return false;
}

/* Mend this line. 1 done, 0 it is none that can be, -1 with ENOMEM. */
static int
mend_line(struct mender *m, size_t at, bool goes_on)
{
	struct line *line = &m->lines[at];
	const char *value = value_of(line->text);
	size_t prefix, n;
	char *whole;
	int result;

	if (value == NULL || line->mended)
		return 0;
	n = plain_length(value);
	prefix = (size_t)(value - line->text);
	if (value[0] == '[' && !is_bracket_text(value, n))
		return mend_list(line, prefix, value, n);
	if (!is_mendable(value, n) &&
	    !(goes_on && n > 0 && strchr("\"'|>&!%@`{?[", value[0]) == NULL))
		return 0;
	if (swallows_limit(m, at))
		return 0;
	whole = whole_value(m, at, value);
	if (whole == NULL)
		return -1;
	result = put_quoted(line, prefix, whole, strlen(whole));
	free(whole);
	return result == -1 ? -1 : 1;
}

/*
 * Mend what the fault on this line comes from: the line itself, or the one
 * above it whose value it goes on with.
 */
static int
mend(struct mender *m, unsigned line, unsigned *mended)
{
	size_t at, i, indent;
	int result;

	if (line < m->first_line || line - m->first_line >= m->n)
		return 0;
	at = line - m->first_line;
	*mended = line;
	result = mend_line(m, at, false);
	if (result != 0)
		return result;
	indent = indent_of(m->lines[at].text);
	for (i = at; i-- > 0;) {
		if (m->lines[i].text[0] == '\0' ||
		    indent_of(m->lines[i].text) >= indent)
			continue;
		*mended = m->first_line + (unsigned)i;
		return mend_line(m, i, true);
	}
	return 0;
}

static void
mender_clear(struct mender *m)
{
	size_t i;

	for (i = 0; i < m->n; i++)
		free(m->lines[i].text);
	free(m->lines);
}

/* --- from the tree to fields --- */

static int
take_text(struct foreign_item *to, const struct yaml_item *from)
{
	/* A NUL would cut it short. */
	if (from->spoiled || memchr(from->text, '\0', from->len) != NULL) {
		to->hidden = true;
		return 0;
	}
	to->texts[to->n] = strdup(from->text);
	if (to->texts[to->n] == NULL)
		return -1;
	to->n++;
	return 0;
}

static bool
is_text(const struct yaml_item *value)
{
	return value->kind == YAML_KIND_TEXT && value->type != YAML_TYPE_NULL;
}

/* A list with anything but texts in it, and a mapping, are something else. */
static enum foreign_kind
kind_of(const struct yaml_item *value)
{
	const struct yaml_item *item;

	if (value->kind == YAML_KIND_TEXT)
		return is_text(value) ? FOREIGN_TEXT : FOREIGN_NOTHING;
	if (value->kind != YAML_KIND_LIST)
		return FOREIGN_OTHER;
	for (item = value->child; item != NULL; item = item->next)
		if (!is_text(item))
			return FOREIGN_OTHER;
	return FOREIGN_LIST;
}

static int
take_value(struct foreign_item *to, const struct yaml_item *value)
{
	const struct yaml_item *item;
	size_t n = 1;

	for (item = value->child; item != NULL; item = item->next)
		n++;
	to->texts = calloc(n, sizeof(*to->texts));
	if (to->texts == NULL)
		return -1;
	to->kind = kind_of(value);
	if (to->kind == FOREIGN_TEXT)
		return take_text(to, value);
	if (to->kind != FOREIGN_LIST)
		return 0;
	for (item = value->child; item != NULL; item = item->next)
		if (take_text(to, item) == -1)
			return -1;
	return 0;
}

/* The name of what is within; one that is too long loses its end. */
static void
name_below(char out[FIELD_MAX], const char *above, const char *name)
{
	if (snprintf(out, FIELD_MAX, "%s%s%s", above,
		above[0] == '\0' ? "" : ".", name) >= FIELD_MAX)
		strlcpy(out + FIELD_MAX - 4, "...", 4);
}

static int take_field(struct foreign *f, const struct yaml_item *value,
    const char *field, const struct yaml_item *place, size_t depth);

/* The members of a mapping below this name. */
static int
take_map(struct foreign *f, const struct yaml_item *map, const char *above,
    size_t depth)
{
	char field[FIELD_MAX], key[FIELD_MAX / 2];
	const struct yaml_item *value;

	for (value = map->child; value != NULL; value = value->next) {
		if (value->key->kind != YAML_KIND_TEXT)
			continue; /* refused by the reader */
		yaml_printable(key, sizeof(key), value->key->text,
		    value->key->len);
		name_below(field, above, key);
		if (take_field(f, value, field, value->key, depth) == -1)
			return -1;
	}
	return 0;
}

/* The items of a list below its name, by their numbers. */
static int
take_items(struct foreign *f, const struct yaml_item *list, const char *above,
    size_t depth)
{
	char field[FIELD_MAX], number[24];
	const struct yaml_item *item;
	unsigned n = 0;

	for (item = list->child; item != NULL; item = item->next) {
		snprintf(number, sizeof(number), "%u", ++n);
		name_below(field, above, number);
		if (take_field(f, item, field, item, depth) == -1)
			return -1;
	}
	return 0;
}

/*
 * What stands under a name, and what is within that. Each takes one item for
 * one of the tree, so the reader's bounds hold here too.
 */
static int
take_field(struct foreign *f, const struct yaml_item *value, const char *field,
    const struct yaml_item *place, size_t depth)
{
	struct foreign_item *to;

	if (value->kind == YAML_KIND_MAP && value->child != NULL &&
	    depth < DEPTH_MAX)
		return take_map(f, value, field, depth + 1);
	to = &f->items[f->n++];
	to->line = place->line;
	to->hidden = place->spoiled;
	to->field = strdup(field);
	if (to->field == NULL || take_value(to, value) == -1)
		return -1;
	if (to->kind == FOREIGN_OTHER && depth < DEPTH_MAX)
		return take_items(f, value, field, depth + 1);
	return 0;
}

static int
take_tree(struct foreign *f, const struct yaml_tree *tree)
{
	if (tree->root == NULL || tree->root->kind != YAML_KIND_MAP) {
		strlcpy(f->why, "the frontmatter must be fields, one \"key: "
				"value\" a line", sizeof(f->why));
		errno = EINVAL;
		return -1;
	}
	f->items = calloc(ITEMS_MAX, sizeof(*f->items));
	return f->items == NULL ? -1 : take_map(f, tree->root, "", 1);
}

/* Read once. 1: a fault, which may be mended. */
static int
read_once(struct foreign *f, const char *text, size_t len, unsigned first_line)
{
	struct reader r = {.f = f};
	struct yaml_source src = {.text = text,
	    .len = len,
	    .first_line = first_line,
	    .items_max = ITEMS_MAX,
	    .report = on_fault,
	    .arg = &r};
	struct yaml_tree tree;
	int result;

	f->line = first_line;
	f->column = 1;
	result = yaml_tree_read(&tree, &src);
	if (result == 0 && r.failed) {
		errno = EINVAL;
		result = r.final ? -1 : 1;
	} else if (result == 0) {
		result = take_tree(f, &tree);
	}
	yaml_tree_clear(&tree);
	return result;
}

int
foreign_read(struct foreign *f, const char *yaml, size_t len,
    unsigned first_line)
{
	struct mender m = {.first_line = first_line};
	unsigned mended = 0;
	char *text;
	int result, done;

	memset(f, 0, sizeof(*f));
	result = read_once(f, yaml, len, first_line);
	/* Lines are C strings from here on: no NUL may be in them. */
	if (result != 1 || memchr(yaml, '\0', len) != NULL)
		return result == 1 ? -1 : result;
	if (split(&m, yaml, len) == -1)
		result = -1;
	while (result == 1 && f->mended_n < FOREIGN_MENDED_MAX) {
		done = mend(&m, f->line, &mended);
		if (done == -1)
			result = -1;
		if (done != 1)
			break;
		f->mended[f->mended_n++] = mended;
		text = join(&m, &len);
		result = text == NULL ? -1 : read_once(f, text, len, first_line);
		free(text);
	}
	mender_clear(&m);
	if (result == 1)
		errno = EINVAL;
	return result == 0 ? 0 : -1;
}

const struct foreign_item *
foreign_find(const struct foreign *f, const char *field)
{
	size_t i;

	for (i = 0; i < f->n; i++)
		if (strcmp(f->items[i].field, field) == 0)
			return &f->items[i];
	return NULL;
}

void
foreign_clear(struct foreign *f)
{
	size_t i, j;

	for (i = 0; i < f->n; i++) {
		for (j = 0; j < f->items[i].n; j++)
			free(f->items[i].texts[j]);
		free(f->items[i].texts);
		free(f->items[i].field);
	}
	free(f->items);
	memset(f, 0, sizeof(*f));
}
