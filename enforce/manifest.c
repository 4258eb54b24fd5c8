/*
 * SKILL.md -> what its author asks for. It guarantees, against the author and
 * whoever changed the file on its way, that a skill is granted only what an
 * operator reading the file would see: one reading of the text, known keys
 * only, exact types, no invisible characters, nothing above the operator's
 * ceilings, and every error of the file named at its place in one go. A
 * signature or a hash of its files that does not hold is an error, whether or
 * not the operator asks for one.
 */

#include "enforce/manifest.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "enforce/bundle.h"
#include "enforce/frontmatter.h"
#include "enforce/hex.h"
#include "enforce/signature.h"
#include "enforce/yaml.h"

#define ID_MAX 64
#define VERSION_MAX 256
#define DESCRIPTION_MAX 200
#define TAGS_MAX 10
#define TAG_POINTS_MAX 30
#define EFFORT_MAX 1440
#define EFFORT_DEFAULT 30
#define MEMORY_DEFAULT 512
#define PROCS_DEFAULT 8
#define YAML_ITEMS_MAX 2000
#define ECHO_MAX 160 /* bytes of a value that a message repeats */

struct reader {
	struct manifest *m;
	const struct policy *policy;
	const char *const *tools;
	const char *broker_version;
	const struct signature *signature;
	unsigned signature_line; /* where the YAML reader saw that key */
	bool no_memory;
};

struct field {
	const char *name;
	const char *example; /* of a required field; NULL: optional */
	void (*read)(
	    struct reader *, const char *name, const struct yaml_item *);
};

const char *
manifest_code_word(enum manifest_code code)
{
	static const char *const words[] = {
	    [MANIFEST_MISSING_FRONTMATTER] = "MissingFrontmatter",
	    [MANIFEST_YAML_PARSE] = "YamlParse",
	    [MANIFEST_MISSING_FIELD] = "MissingField",
	    [MANIFEST_INVALID_TYPE] = "InvalidType",
	    [MANIFEST_INVALID_ID] = "InvalidId",
	    [MANIFEST_INVALID_VERSION] = "InvalidVersion",
	    [MANIFEST_INVALID_DESCRIPTION] = "InvalidDescription",
	    [MANIFEST_INVALID_MEMORY_SCOPE_GLOB] = "InvalidMemoryScopeGlob",
	    [MANIFEST_INVALID_FILE_GLOB] = "InvalidFileGlob",
	    [MANIFEST_INVALID_DOMAIN_GLOB] = "InvalidDomainGlob",
	    [MANIFEST_UNKNOWN_TOOL] = "UnknownTool",
	    [MANIFEST_UNKNOWN_FIELD] = "UnknownField",
	    [MANIFEST_DUPLICATE_KEY] = "DuplicateKey",
	    [MANIFEST_INVALID_VALUE] = "InvalidValue",
	    [MANIFEST_SIGNATURE_FAILED] = "SignatureFailed",
	    [MANIFEST_BROKER_TOO_OLD] = "BrokerTooOld",
	    [MANIFEST_BROKER_TOO_NEW] = "BrokerTooNew",
	};

	_Static_assert(
	    sizeof(words) / sizeof(words[0]) == MANIFEST_BROKER_TOO_NEW + 1,
	    "a code without a word");
	return words[code];
}

const char *
manifest_printable(char *out, size_t size, const char *text)
{
	return yaml_printable(out, size, text, strlen(text));
}

/* Add one error; beyond the limit it is only counted. */
static void
add_error(struct reader *r, const char *field, enum manifest_code code,
    unsigned line, unsigned column, const char *message)
{
	struct manifest *m = r->m;
	struct manifest_error *e;

	if (m->errors_n == MANIFEST_ERRORS_MAX) {
		m->errors_dropped++;
		return;
	}
	if (m->errors == NULL)
		m->errors = calloc(MANIFEST_ERRORS_MAX, sizeof(*m->errors));
	if (m->errors == NULL) {
		r->no_memory = true;
		return;
	}
	e = &m->errors[m->errors_n++];
	e->code = code;
	e->line = line;
	e->column = column;
	e->field = strdup(field);
	e->message = strdup(message);
	if (e->field == NULL || e->message == NULL)
		r->no_memory = true;
}

/* An error of one item of the tree. */
__attribute__((format(printf, 5, 6))) static void
refuse(struct reader *r, const char *field, const struct yaml_item *at,
    enum manifest_code code, const char *fmt, ...)
{
	char *message = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&message, fmt, ap);
	va_end(ap);
	if (n < 0) {
		r->no_memory = true;
		return;
	}
	add_error(r, field, code, at->line, at->column, message);
	free(message);
}

/* What the walk over the YAML refuses. */
static void
on_fault(void *arg, enum yaml_fault fault, const char *field, unsigned line,
    unsigned column, const char *message)
{
	enum manifest_code code = MANIFEST_YAML_PARSE;

	switch (fault) {
	case YAML_FAULT_SYNTAX:
		break;
	case YAML_FAULT_DUPLICATE:
		code = MANIFEST_DUPLICATE_KEY;
		break;
	case YAML_FAULT_CHARACTER:
		code = MANIFEST_INVALID_VALUE;
		break;
	}
	add_error(arg, field, code, line, column, message);
}

static void
keep(struct reader *r, char **where, const char *text)
{
	free(*where);
	*where = strdup(text);
	if (*where == NULL)
		r->no_memory = true;
}

/* The text of a value that must be text, or NULL after a report. */
static const char *
text_of(struct reader *r, const char *name, const struct yaml_item *value)
{
	const char *whose = value->key == NULL ? "an item of " : "";
	char word[ECHO_MAX];

	if (value->kind == YAML_KIND_TEXT && value->type == YAML_TYPE_STRING)
		return value->text;
	if (value->kind == YAML_KIND_TEXT && value->len > 0)
		refuse(r, name, value, MANIFEST_INVALID_TYPE,
		    "%s`%s` must be text, but %s is %s to YAML; write it in "
		    "quotes: \"%s\"",
		    whose, name,
		    yaml_printable(word, sizeof(word), value->text, value->len),
		    yaml_what(value), word);
	else
		refuse(r, name, value, MANIFEST_INVALID_TYPE,
		    "%s`%s` must be text, but here is %s; write one text, in "
		    "quotes if it begins with [ or {",
		    whose, name, yaml_what(value));
	return NULL;
}

/* Is it a list? Else a report. */
static bool
list_of(struct reader *r, const char *name, const struct yaml_item *value)
{
	if (value->kind == YAML_KIND_LIST)
		return true;
	if (value->kind == YAML_KIND_TEXT && value->type == YAML_TYPE_NULL)
		refuse(r, name, value, MANIFEST_INVALID_TYPE,
		    "`%s` must be a list, but here is %s; write [] for none",
		    name, yaml_what(value));
	else
		refuse(r, name, value, MANIFEST_INVALID_TYPE,
		    "`%s` must be a list, but here is %s; write [one, two], or "
		    "one \"- item\" a line, or [] for none",
		    name, yaml_what(value));
	return false;
}

bool
manifest_is_id(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-");

	return s[0] >= 'a' && s[0] <= 'z' && s[n] == '\0' && n <= ID_MAX;
}

const char *
manifest_id_quote(const char *id)
{
	static const char *const words[] = {"false", "n", "no", "null", "off",
	    "on", "true", "y", "yes"};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(words[i], id) == 0)
			return "\"";
	return "";
}

static void
read_id(struct reader *r, const char *name, const struct yaml_item *value)
{
	const char *text = text_of(r, name, value);
	char word[ECHO_MAX];

	if (text == NULL)
		return;
	if (value->len > ID_MAX || !manifest_is_id(text)) {
		refuse(r, name, value, MANIFEST_INVALID_ID,
		    "`%s` is no id; write a lower-case letter, then lower-case "
		    "letters, digits and dashes, at most %d in all",
		    yaml_printable(word, sizeof(word), text, value->len),
		    ID_MAX);
		return;
	}
	keep(r, &r->m->id, text);
}

/* One part between dots: of digits alone, it may have no leading zero. */
static bool
version_part(const char *s, size_t len, bool zero_counts)
{
	bool digits = true;
	size_t i;

	for (i = 0; i < len; i++) {
		if (!isalnum((unsigned char)s[i]) && s[i] != '-')
			return false;
		if (!isdigit((unsigned char)s[i]))
			digits = false;
	}
	return len > 0 && !(zero_counts && digits && len > 1 && s[0] == '0');
}

/* Parts with dots between them up to one of the stops; *s is left there. */
static bool
version_parts(const char **s, const char *stops, bool zero_counts)
{
	size_t n;

	for (;;) {
		n = strcspn(*s, stops);
		if (strcspn(*s, ".") < n)
			n = strcspn(*s, ".");
		if (!version_part(*s, n, zero_counts))
			return false;
		*s += n;
		if (**s != '.')
			return true;
		(*s)++;
	}
}

bool
manifest_is_version(const char *s)
{
	size_t i, n;

	if (strlen(s) > VERSION_MAX)
		return false;
	for (i = 0; i < 3; i++) {
		n = strspn(s, "0123456789");
		if (n == 0 || (n > 1 && s[0] == '0'))
			return false;
		s += n;
		if (i < 2 && *s++ != '.')
			return false;
	}
	if (*s == '-') {
		s++;
		if (!version_parts(&s, "+", true))
			return false;
	}
	if (*s == '+') {
		s++;
		if (!version_parts(&s, "", false))
			return false;
	}
	return *s == '\0';
}

/* Two parts: numbers by value, below words; words by their bytes. */
static int
part_cmp(const char *a, size_t a_len, const char *b, size_t b_len)
{
	bool a_number = strspn(a, "0123456789") >= a_len;
	bool b_number = strspn(b, "0123456789") >= b_len;
	int c;

	if (a_number != b_number)
		return a_number ? -1 : 1;
	if (a_number && a_len != b_len)
		return a_len < b_len ? -1 : 1;
	c = memcmp(a, b, a_len < b_len ? a_len : b_len);
	if (c != 0)
		return c;
	return a_len == b_len ? 0 : a_len < b_len ? -1 : 1;
}

int
manifest_version_cmp(const char *a, const char *b)
{
	size_t a_len, b_len, i;
	int c;

	for (i = 0;; i++) {
		a_len = strcspn(a, i < 3 ? ".-+" : ".+");
		b_len = strcspn(b, i < 3 ? ".-+" : ".+");
		c = part_cmp(a, a_len, b, b_len);
		if (c != 0)
			return c;
		a += a_len;
		b += b_len;
		/* After the three numbers, one without a pre-release is above.
		 */
		if (i == 2 && (*a == '-') != (*b == '-'))
			return *a == '-' ? -1 : 1;
		if (*a == '\0' || *a == '+' || *b == '\0' || *b == '+')
			break;
		a++;
		b++;
	}
	if ((*a == '.') == (*b == '.'))
		return 0;
	return *a == '.' ? 1 : -1;
}

/* A version, or NULL after a report. A number is one written too short. */
static const char *
version_of(struct reader *r, const char *name, const struct yaml_item *value)
{
	char word[ECHO_MAX];
	const char *text;

	if (value->kind == YAML_KIND_TEXT &&
	    (value->type == YAML_TYPE_INT || value->type == YAML_TYPE_FLOAT)) {
		refuse(r, name, value, MANIFEST_INVALID_VERSION,
		    "%s is a number, no version; write three numbers with "
		    "dots: 1.0.0",
		    yaml_printable(
			word, sizeof(word), value->text, value->len));
		return NULL;
	}
	text = text_of(r, name, value);
	if (text == NULL)
		return NULL;
	if (!manifest_is_version(text)) {
		refuse(r, name, value, MANIFEST_INVALID_VERSION,
		    "`%s` is no version by SemVer 2.0.0; write three numbers "
		    "with dots and without leading zeros, as 1.0.0 or "
		    "1.0.0-beta.1",
		    yaml_printable(word, sizeof(word), text, value->len));
		return NULL;
	}
	return text;
}

static void
read_version(struct reader *r, const char *name, const struct yaml_item *value)
{
	const char *text = version_of(r, name, value);

	if (text != NULL)
		keep(r, &r->m->version, text);
}

static void
read_min_broker(
    struct reader *r, const char *name, const struct yaml_item *value)
{
	const char *text = version_of(r, name, value);

	if (text != NULL && manifest_version_cmp(text, r->broker_version) > 0)
		refuse(r, name, value, MANIFEST_BROKER_TOO_OLD,
		    "the skill wants a broker of version %s or later, this is "
		    "%s; update the broker, or lower `%s`",
		    text, r->broker_version, name);
}

static void
read_max_broker(
    struct reader *r, const char *name, const struct yaml_item *value)
{
	const char *text = version_of(r, name, value);

	if (text != NULL && manifest_version_cmp(text, r->broker_version) < 0)
		refuse(r, name, value, MANIFEST_BROKER_TOO_NEW,
		    "the skill wants a broker of version %s or earlier, this "
		    "is %s; try the skill with it and raise `%s`",
		    text, r->broker_version, name);
}

static void
read_description(
    struct reader *r, const char *name, const struct yaml_item *value)
{
	const char *text = text_of(r, name, value);
	size_t points;

	if (text == NULL)
		return;
	points = yaml_points(text, value->len);
	if (points == 0)
		refuse(r, name, value, MANIFEST_INVALID_DESCRIPTION,
		    "the description is empty; say in 1 to %d characters what "
		    "the skill does",
		    DESCRIPTION_MAX);
	else if (points > DESCRIPTION_MAX)
		refuse(r, name, value, MANIFEST_INVALID_DESCRIPTION,
		    "the description has %zu characters, at most %d are "
		    "allowed; shorten it%s",
		    points, DESCRIPTION_MAX,
		    text[value->len - 1] == '\n'
			? " (the line feed at its end counts: write >- or |-)"
			: " and put the rest below the second ---");
	else
		keep(r, &r->m->description, text);
}

/* All patterns of a list into a set, and where each stands. */
static void
read_globs(struct reader *r, const char *name, const struct yaml_item *value,
    enum manifest_code code, struct glob_set *set, struct manifest_place **at)
{
	const struct yaml_item *item;
	const char *why, *text;
	char word[ECHO_MAX];
	size_t n = 0;

	if (!list_of(r, name, value))
		return;
	for (item = value->child; item != NULL; item = item->next)
		n++;
	*at = calloc(n + 1, sizeof(**at));
	if (*at == NULL) {
		r->no_memory = true;
		return;
	}
	for (item = value->child; item != NULL; item = item->next) {
		if (item->spoiled)
			continue;
		text = text_of(r, name, item);
		if (text == NULL)
			continue;
		why = "it cannot be read";
		if (glob_set_add(set, text, item->len, &why) == 0) {
			(*at)[glob_set_count(set) - 1] =
			    (struct manifest_place){item->line, item->column};
			continue;
		}
		if (errno == ENOMEM) {
			r->no_memory = true;
			return;
		}
		refuse(r, name, item, code, "`%s`: %s",
		    yaml_printable(word, sizeof(word), text, item->len),
		    errno == E2BIG ? "the list is too long; write wider globs"
				   : why);
	}
}

static void
read_scopes(struct reader *r, const char *name, const struct yaml_item *value)
{
	read_globs(r, name, value, MANIFEST_INVALID_MEMORY_SCOPE_GLOB,
	    r->m->memory_scopes, &r->m->scopes_at);
}

static void
read_files(struct reader *r, const char *name, const struct yaml_item *value)
{
	read_globs(r, name, value, MANIFEST_INVALID_FILE_GLOB, r->m->files,
	    &r->m->files_at);
}

static void
read_domains(struct reader *r, const char *name, const struct yaml_item *value)
{
	read_globs(r, name, value, MANIFEST_INVALID_DOMAIN_GLOB, r->m->domains,
	    &r->m->domains_at);
}

/* Why the broker has no such tool, and what to write instead. */
static void
unknown_tool(struct reader *r, const char *name, const struct yaml_item *item)
{
	static const struct {
		const char *theirs, *ours;
	} elsewhere[] = {{"WebFetch", "HttpFetch"}, {"Fetch", "HttpFetch"},
	    {"MultiEdit", "Edit"}, {"LS", "Glob"}, {"Shell", "Bash"}};
	char word[ECHO_MAX], bare[ECHO_MAX];
	const char *guess;
	size_t i;

	yaml_printable(word, sizeof(word), item->text, item->len);
	if (strncmp(item->text, "mcp__", 5) == 0) {
		refuse(r, name, item, MANIFEST_UNKNOWN_TOOL,
		    "`%s`: tools of MCP servers cannot be had through this "
		    "broker; remove it",
		    word);
		return;
	}
	strlcpy(bare, item->text, sizeof(bare));
	bare[strcspn(bare, "( ")] = '\0';
	guess = yaml_guess(bare, r->tools);
	for (i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (guess == NULL && strcasecmp(bare, elsewhere[i].theirs) == 0)
			guess = elsewhere[i].ours;
	if (strchr(item->text, '(') != NULL)
		refuse(r, name, item, MANIFEST_UNKNOWN_TOOL,
		    "`%s`: a tool is allowed as a whole, without arguments; "
		    "write `%s`",
		    word, guess != NULL ? guess : "the bare name");
	else if (strchr(item->text, ' ') != NULL ||
		 strchr(item->text, ',') != NULL)
		refuse(r, name, item, MANIFEST_UNKNOWN_TOOL,
		    "`%s`: one tool an item; write [Read, Grep]", word);
	else if (guess != NULL)
		refuse(r, name, item, MANIFEST_UNKNOWN_TOOL,
		    "there is no tool `%s`; did you mean `%s`?", word, guess);
	else
		refuse(r, name, item, MANIFEST_UNKNOWN_TOOL,
		    "there is no tool `%s`; `cyberos skill broker tools` lists "
		    "what there is",
		    word);
}

/* A list of names of tools. A name that stands twice counts once. */
static void
read_tool_list(struct reader *r, const char *name,
    const struct yaml_item *value, char ***list, size_t *list_n)
{
	const struct yaml_item *item;
	size_t i, n = 0;

	if (!list_of(r, name, value))
		return;
	for (item = value->child; item != NULL; item = item->next)
		n++;
	*list = calloc(n + 1, sizeof(**list));
	if (*list == NULL) {
		r->no_memory = true;
		return;
	}
	for (item = value->child; item != NULL; item = item->next) {
		if (item->spoiled || text_of(r, name, item) == NULL)
			continue;
		for (i = 0; r->tools[i] != NULL; i++)
			if (strcmp(r->tools[i], item->text) == 0)
				break;
		if (r->tools[i] == NULL) {
			unknown_tool(r, name, item);
			continue;
		}
		for (i = 0; i < *list_n; i++)
			if (strcmp((*list)[i], item->text) == 0)
				break;
		if (i < *list_n)
			continue;
		keep(r, &(*list)[*list_n], item->text);
		if (r->no_memory)
			return;
		(*list_n)++;
	}
}

static void
read_tools(struct reader *r, const char *name, const struct yaml_item *value)
{
	read_tool_list(r, name, value, &r->m->tools, &r->m->tools_n);
}

/* A typo here would allow what the author meant to deny: same rules. */
static void
read_disallowed(
    struct reader *r, const char *name, const struct yaml_item *value)
{
	read_tool_list(r, name, value, &r->m->disallowed, &r->m->disallowed_n);
}

#define SIGNATURE_ADVICE                                                       \
	"sign the skill again with `cyberos skill sign`, or remove what is "    \
	"left of its signature"

/* The text was looked at before any YAML reader saw it; here is only what that
 * look did not take for a signature, such as one in another style. */
static void
read_signature(
    struct reader *r, const char *name, const struct yaml_item *value)
{
	r->signature_line = value->key->line;
	if (r->signature->shape == SIGNATURE_NONE)
		refuse(r, name, value->key, MANIFEST_SIGNATURE_FAILED,
		    "a signature is the four lines that `cyberos skill sign` "
		    "writes, and here it is written otherwise; "
		    SIGNATURE_ADVICE);
}

/* Before anything else of the file is believed. 0, or -1 with errno. */
static int
check_signature(struct reader *r, const struct signature *s)
{
	const char *why = NULL;
	int good;

	hex_encode(r->m->frontmatter_hash, s->text, FRONTMATTER_HASH);
	if (s->shape == SIGNATURE_NONE)
		return 0;
	if (s->shape == SIGNATURE_BROKEN) {
		why = "a signature is the last four lines of the frontmatter, "
		      "exactly as `cyberos skill sign` writes them, and here "
		      "they are not; " SIGNATURE_ADVICE;
	} else {
		why = signature_bad_key(s->key);
		good = signature_verify(s);
		if (good == -1)
			return -1;
		if (good == 0 && why == NULL)
			why = "the signature does not hold: the file was "
			      "changed after it was signed, or it is the "
			      "signature of another file or key; " SIGNATURE_ADVICE;
		if (good == 1)
			hex_encode(r->m->signer, s->key, SIGNATURE_KEY);
	}
	if (why != NULL)
		add_error(r, "signature", MANIFEST_SIGNATURE_FAILED,
		    s->line + 1, 1, why);
	return 0;
}

/* One of two words; true means the second. */
static void
read_choice(struct reader *r, const char *name, const struct yaml_item *value,
    const char *first, const char *second, bool *out)
{
	const char *const words[] = {first, second, NULL};
	const char *text = text_of(r, name, value), *guess;
	char word[ECHO_MAX];

	if (text == NULL)
		return;
	if (strcmp(text, first) == 0 || strcmp(text, second) == 0) {
		*out = strcmp(text, second) == 0;
		return;
	}
	guess = yaml_guess(text, words);
	refuse(r, name, value, MANIFEST_INVALID_VALUE,
	    "`%s` is neither `%s` nor `%s`%s%s%s",
	    yaml_printable(word, sizeof(word), text, value->len), first, second,
	    guess != NULL ? "; did you mean `" : "; write one of the two",
	    guess != NULL ? guess : "", guess != NULL ? "`?" : "");
}

static void
read_sync_class(
    struct reader *r, const char *name, const struct yaml_item *value)
{
	read_choice(r, name, value, "private", "shareable", &r->m->shareable);
}

static void
read_tenant_scope(
    struct reader *r, const char *name, const struct yaml_item *value)
{
	read_choice(r, name, value, "any", "pinned", &r->m->pinned);
}

/*
 * A positive integer up to max and up to the operator's ceiling, where 0 is no
 * ceiling.
 */
static void
read_number(struct reader *r, const char *name, const struct yaml_item *value,
    unsigned max, unsigned ceiling, const char *ceiling_key, unsigned *out)
{
	char word[ECHO_MAX];
	unsigned n;

	if (value->kind != YAML_KIND_TEXT || value->type != YAML_TYPE_INT) {
		refuse(r, name, value, MANIFEST_INVALID_TYPE,
		    "`%s` must be a whole number, but here is %s%s", name,
		    yaml_what(value),
		    value->kind == YAML_KIND_TEXT && value->len > 0
			? "; write digits without quotes, point or unit"
			: "; write one number after the colon");
		return;
	}
	yaml_printable(word, sizeof(word), value->text, value->len);
	if (!yaml_number(value, max, &n) || n == 0) {
		refuse(r, name, value, MANIFEST_INVALID_VALUE,
		    "%s is out of range; write a number from 1 to %u, in "
		    "digits without sign and leading zeros",
		    word, ceiling != 0 && ceiling < max ? ceiling : max);
		return;
	}
	if (ceiling != 0 && n > ceiling) {
		refuse(r, name, value, MANIFEST_INVALID_VALUE,
		    "%u is above the operator's ceiling `%s`, which is %u; "
		    "write at most %u, or ask the operator to raise it",
		    n, ceiling_key, ceiling, ceiling);
		return;
	}
	*out = n;
}

static void
read_effort(struct reader *r, const char *name, const struct yaml_item *value)
{
	read_number(r, name, value, EFFORT_MAX, r->policy->max_effort_minutes,
	    "max_effort_minutes", &r->m->effort_minutes);
}

static void
read_memory(struct reader *r, const char *name, const struct yaml_item *value)
{
	read_number(r, name, value, INT32_MAX, r->policy->max_memory_mb,
	    "max_memory_mb", &r->m->memory_mb);
}

static void
read_processes(
    struct reader *r, const char *name, const struct yaml_item *value)
{
	read_number(r, name, value, INT32_MAX, r->policy->max_processes,
	    "max_processes", &r->m->max_processes);
}

static void
read_calls(struct reader *r, const char *name, const struct yaml_item *value)
{
	/* A rate is the smaller of the skill's and the operator's (SPEC 13). */
	unsigned most = r->policy->max_calls_per_minute;

	read_number(r, name, value, INT32_MAX, 0, "max_calls_per_minute",
	    &r->m->max_calls_per_minute);
	if (most != 0 && r->m->max_calls_per_minute > most)
		r->m->max_calls_per_minute = most;
}

static void
read_tags(struct reader *r, const char *name, const struct yaml_item *value)
{
	const struct yaml_item *item;
	char word[ECHO_MAX];
	size_t n = 0;

	if (!list_of(r, name, value))
		return;
	for (item = value->child; item != NULL; item = item->next) {
		if (n++ == TAGS_MAX)
			refuse(r, name, item, MANIFEST_INVALID_VALUE,
			    "more than %d tags; remove this one and what "
			    "follows",
			    TAGS_MAX);
		if (item->spoiled || text_of(r, name, item) == NULL)
			continue;
		if (item->len == 0)
			refuse(r, name, item, MANIFEST_INVALID_VALUE,
			    "a tag is empty; remove it");
		else if (yaml_points(item->text, item->len) > TAG_POINTS_MAX)
			refuse(r, name, item, MANIFEST_INVALID_VALUE,
			    "the tag `%s` is longer than %d characters; "
			    "shorten it",
			    yaml_printable(
				word, sizeof(word), item->text, item->len),
			    TAG_POINTS_MAX);
	}
}

static void
read_files_hash(
    struct reader *r, const char *name, const struct yaml_item *value)
{
	const char *text = text_of(r, name, value);

	r->m->files_line = value->line;
	r->m->files_column = value->column;
	if (text == NULL)
		return;
	if (value->len == 64 && hex_is(text, 32))
		strlcpy(r->m->files_sha256, text, sizeof(r->m->files_sha256));
	else
		refuse(r, name, value, MANIFEST_INVALID_VALUE,
		    "`%s` must be a SHA-256 in 64 lower-case hexadecimal "
		    "digits; let `cyberos skill sign` write it, or remove it",
		    name);
}

/* Every key that the schema knows; parsing and suggestions come from here. */
static const struct field fields[] = {
    {"id", "id: my-skill", read_id},
    {"version", "version: 1.0.0", read_version},
    {"description", "description: \"What the skill does\"", read_description},
    {"allowed_memory_scopes", "allowed_memory_scopes: [] (none)", read_scopes},
    {"allowed_tools", "allowed_tools: [] (none)", read_tools},
    {"signature", NULL, read_signature},
    {"min_broker_version", NULL, read_min_broker},
    {"max_broker_version", NULL, read_max_broker},
    {"disallowed_tools", NULL, read_disallowed},
    {"sync_class", NULL, read_sync_class},
    {"tenant_scope", NULL, read_tenant_scope},
    {"effort_minutes", NULL, read_effort},
    {"tags", NULL, read_tags},
    {"x-allowed-files", NULL, read_files},
    {"x-allowed-domains", NULL, read_domains},
    {"x-memory-mb", NULL, read_memory},
    {"x-max-processes", NULL, read_processes},
    {"x-max-calls-per-minute", NULL, read_calls},
    {"x-files-sha256", NULL, read_files_hash},
};

#define FIELDS_N (sizeof(fields) / sizeof(fields[0]))

/* A key that the schema does not know: what was likely meant. */
static void
unknown_field(struct reader *r, const struct yaml_item *key)
{
	const char *names[FIELDS_N + 1], *guess;
	char word[ECHO_MAX];
	size_t i;

	for (i = 0; i < FIELDS_N; i++)
		names[i] = fields[i].name;
	names[FIELDS_N] = NULL;
	guess = yaml_guess(key->text, names);
	if (yaml_is(key, "name"))
		guess = "id";
	else if (yaml_is(key, "tools"))
		guess = "allowed_tools";
	yaml_printable(word, sizeof(word), key->text, key->len);
	if (yaml_is(key, "<<"))
		refuse(r, word, key, MANIFEST_UNKNOWN_FIELD,
		    "merge keys (<<) are not allowed; write the keys out");
	else if (guess != NULL)
		refuse(r, word, key, MANIFEST_UNKNOWN_FIELD,
		    "there is no field `%s`; did you mean `%s`?", word, guess);
	else if (strchr(key->text, ':') != NULL)
		refuse(r, word, key, MANIFEST_UNKNOWN_FIELD,
		    "there is no field `%s`; write a blank after the colon",
		    word);
	else
		refuse(r, word, key, MANIFEST_UNKNOWN_FIELD,
		    "there is no field `%s`; remove it, or begin a key of your "
		    "own with `x-`",
		    word);
}

static const struct field *
find_field(const struct yaml_item *key)
{
	size_t i;

	for (i = 0; i < FIELDS_N; i++)
		if (yaml_is(key, fields[i].name))
			return &fields[i];
	return NULL;
}

static void
read_fields(struct reader *r, const struct yaml_item *root)
{
	const struct yaml_item *value, *key;
	const struct field *f;

	for (value = root->child; value != NULL; value = value->next) {
		key = value->key;
		if (key->kind != YAML_KIND_TEXT || key->spoiled)
			continue;
		f = find_field(key);
		if (f != NULL) {
			if (!value->spoiled || f->read == read_signature)
				f->read(r, f->name, value);
		} else if (strncmp(key->text, "x-", 2) != 0) {
			unknown_field(r, key);
		}
	}
}

static bool
has_key(const struct yaml_item *root, const char *name)
{
	const struct yaml_item *value;

	for (value = root->child; value != NULL; value = value->next)
		if (yaml_is(value->key, name))
			return true;
	return false;
}

/* Required fields that are not there, however they would have been read. */
static void
check_missing(struct reader *r, const struct yaml_item *root)
{
	char message[ECHO_MAX];
	size_t i;

	for (i = 0; i < FIELDS_N; i++) {
		if (fields[i].example == NULL || has_key(root, fields[i].name))
			continue;
		snprintf(message, sizeof(message),
		    "the required field `%s` is missing; add %s",
		    fields[i].name, fields[i].example);
		add_error(
		    r, fields[i].name, MANIFEST_MISSING_FIELD, 1, 1, message);
	}
}

/* A skill that does not say which broker it wants wants this one, or later. */
static void
check_broker(struct reader *r, const struct yaml_item *root)
{
	static const char name[] = "min_broker_version", least[] = "0.1.0";
	char message[2 * ECHO_MAX];

	if (has_key(root, name) ||
	    manifest_version_cmp(least, r->broker_version) <= 0)
		return;
	snprintf(message, sizeof(message),
	    "without `%s` a skill wants a broker of version %s or later, this "
	    "is %.100s; update the broker",
	    name, least, r->broker_version);
	add_error(r, name, MANIFEST_BROKER_TOO_OLD, 1, 1, message);
}

/* Does this one belong before the other? What is verified first comes first. */
static bool
is_before(const struct manifest_error *a, const struct manifest_error *b)
{
	bool first = a->code == MANIFEST_SIGNATURE_FAILED;

	if (first != (b->code == MANIFEST_SIGNATURE_FAILED))
		return first;
	return a->line < b->line ||
	       (a->line == b->line && a->column <= b->column);
}

/* In the order of their places; few enough for the plainest sort. */
static void
sort_errors(struct manifest *m)
{
	struct manifest_error e;
	size_t i, j;

	for (i = 1; i < m->errors_n; i++) {
		e = m->errors[i];
		for (j = i; j > 0 && !is_before(&m->errors[j - 1], &e); j--)
			m->errors[j] = m->errors[j - 1];
		m->errors[j] = e;
	}
}

static unsigned
smaller(unsigned wanted, unsigned ceiling)
{
	return wanted < ceiling ? wanted : ceiling;
}

/* What holds when the file is silent, never more than the operator allows. */
static int
set_defaults(struct manifest *m, const struct policy *policy)
{
	memset(m, 0, sizeof(*m));
	m->effort_minutes = smaller(EFFORT_DEFAULT, policy->max_effort_minutes);
	m->memory_mb = smaller(MEMORY_DEFAULT, policy->max_memory_mb);
	m->max_processes = smaller(PROCS_DEFAULT, policy->max_processes);
	m->max_calls_per_minute = policy->max_calls_per_minute;
	m->memory_scopes = glob_set_new(GLOB_MEMORY);
	m->files = glob_set_new(GLOB_FILE);
	m->domains = glob_set_new(GLOB_DOMAIN);
	return m->memory_scopes == NULL || m->files == NULL ||
		       m->domains == NULL
		   ? -1
		   : 0;
}

static int
read_yaml(struct reader *r, const char *yaml, size_t len)
{
	struct yaml_source src = {.text = yaml,
	    .len = len,
	    .first_line = 2,
	    .items_max = YAML_ITEMS_MAX,
	    .report = on_fault,
	    .arg = r};
	struct yaml_tree tree;
	int ret;

	ret = yaml_tree_read(&tree, &src);
	if (ret == -1)
		goto out;
	if (tree.root != NULL && tree.root->kind == YAML_KIND_MAP) {
		read_fields(r, tree.root);
		if (tree.whole) {
			check_missing(r, tree.root);
			check_broker(r, tree.root);
		}
	} else if (tree.whole) {
		add_error(r, "", MANIFEST_YAML_PARSE,
		    tree.root != NULL ? tree.root->line : 2, 1,
		    tree.root != NULL
			? "the frontmatter must be fields, one \"key: value\" "
			  "a line"
			: "the frontmatter is empty; write the fields between "
			  "the two lines ---");
	}
out:
	yaml_tree_clear(&tree);
	return ret;
}

int
manifest_parse(const char *text, size_t len, const struct policy *policy,
    const char *const tools[], const char *broker_version, struct manifest *m)
{
	struct reader r = {.m = m,
	    .policy = policy,
	    .tools = tools,
	    .broker_version = broker_version};
	struct frontmatter f;
	struct signature signature;
	const char *why;

	if (set_defaults(m, policy) == -1)
		goto no_memory;
	if (!manifest_is_version(broker_version)) {
		errno = EINVAL;
		return -1;
	}
	if (len > MANIFEST_FILE_MAX) {
		add_error(&r, "", MANIFEST_YAML_PARSE, 1, 1,
		    "SKILL.md is larger than 1 MiB; move text into files "
		    "beside it");
		return r.no_memory ? -1 : 0;
	}
	why = frontmatter_cut(text, len, &f);
	if (why != NULL) {
		add_error(&r, "", MANIFEST_MISSING_FRONTMATTER, 1, 1, why);
	} else if (f.yaml_len > MANIFEST_YAML_MAX) {
		add_error(&r, "", MANIFEST_YAML_PARSE, 1, 1,
		    "the frontmatter is larger than 64 KiB and was not looked "
		    "at; make it shorter");
	} else {
		signature_read(&f, &signature);
		r.signature = &signature;
		if (check_signature(&r, &signature) == -1)
			return -1;
		if (read_yaml(&r, f.yaml, f.yaml_len) == -1)
			goto no_memory;
		/* Both must have seen the same. */
		if (signature.shape == SIGNATURE_WHOLE && m->errors_n == 0 &&
		    r.signature_line != signature.line + 1)
			add_error(&r, "signature", MANIFEST_SIGNATURE_FAILED,
			    signature.line + 1, 1,
			    "the four lines are no key of the frontmatter; "
			    SIGNATURE_ADVICE);
	}
	if (r.no_memory)
		goto no_memory;
	sort_errors(m);
	return 0;
no_memory:
	errno = ENOMEM;
	return -1;
}

int
manifest_check_files(struct manifest *m, int dir_fd, bool keep,
    struct bundle **files, char *why, size_t whylen)
{
	struct reader r = {.m = m};
	struct bundle *b;

	if (m->files_sha256[0] == '\0')
		return 0;
	b = bundle_read(dir_fd, keep, why, whylen);
	if (b == NULL && errno != EINVAL)
		return -1;
	if (b != NULL && strcmp(bundle_sha256(b), m->files_sha256) == 0) {
		*files = b;
		return 0;
	}
	if (b != NULL)
		snprintf(why, whylen, "the files of the skill are not those of "
				      "this hash: one was changed, added or "
				      "removed, or has another mode; restore "
				      "it, or sign the skill again");
	bundle_free(b);
	add_error(&r, "x-files-sha256",
	    m->signer[0] != '\0' ? MANIFEST_SIGNATURE_FAILED
				 : MANIFEST_INVALID_VALUE,
	    m->files_line, m->files_column, why);
	sort_errors(m);
	errno = ENOMEM;
	return r.no_memory ? -1 : 0;
}

static void
clear_list(char **list, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

void
manifest_clear(struct manifest *m)
{
	size_t i;

	for (i = 0; i < m->errors_n; i++) {
		free(m->errors[i].field);
		free(m->errors[i].message);
	}
	free(m->errors);
	clear_list(m->tools, m->tools_n);
	clear_list(m->disallowed, m->disallowed_n);
	glob_set_free(m->memory_scopes);
	glob_set_free(m->files);
	glob_set_free(m->domains);
	free(m->scopes_at);
	free(m->files_at);
	free(m->domains_at);
	free(m->id);
	free(m->version);
	free(m->description);
	memset(m, 0, sizeof(*m));
}

/* Read to the end, at most max bytes; -1 with EFBIG beyond. */
static ssize_t
read_all(int fd, char *to, size_t max)
{
	size_t got = 0;
	ssize_t n;
	char more;

	while (got < max) {
		n = read(fd, to + got, max - got);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return -1;
		if (n == 0)
			return (ssize_t)got;
		got += (size_t)n;
	}
	do
		n = read(fd, &more, 1);
	while (n == -1 && errno == EINTR);
	if (n > 0)
		errno = EFBIG;
	return n == 0 ? (ssize_t)got : -1;
}

int
manifest_read(int dir_fd, char **text, size_t *len)
{
	struct stat st;
	char *data = NULL;
	ssize_t n = -1;
	int fd, saved;

	fd = openat(dir_fd, "SKILL.md",
	    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd == -1) {
		/* A socket cannot be opened at all. */
		if (errno == ENXIO)
			errno = EINVAL;
		return -1;
	}
	if (fstat(fd, &st) == -1)
		goto out;
	if (!S_ISREG(st.st_mode)) {
		errno = EINVAL;
		goto out;
	}
	data = malloc(MANIFEST_FILE_MAX);
	if (data == NULL)
		goto out;
	n = read_all(fd, data, MANIFEST_FILE_MAX);
	if (n == -1)
		goto out;
	*text = data;
	*len = (size_t)n;
	data = NULL;
out:
	saved = errno;
	free(data);
	close(fd);
	errno = saved;
	return n == -1 ? -1 : 0;
}
