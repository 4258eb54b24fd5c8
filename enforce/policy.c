/*
 * The operator's configuration. It guarantees, against the owner of a later
 * file (an ordinary user, or an option of the command line), that what the
 * system's file has set can only be tightened; against a mistake in a file,
 * that an unknown key, a wrong type or a value out of range stops everything
 * instead of being passed over; and against others than root, that root never
 * takes a file that they can write. One table holds every key: reading, help
 * and rules come from its rows. A file counts as a whole or not at all.
 */

#include "enforce/policy.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "enforce/hex.h"
#include "enforce/yaml.h"

#define FILE_MAX_BYTES (1024 * 1024)
#define FILE_MAX_ITEMS 20000
#define OWNERS_UID_MIN 1000 /* below are the system's own users */
#define UIDS_FIRST 2000000000U
#define UIDS_LAST 2000065535U
#define UIDS_DEFAULT "2000000000-2000065535"
#define UID_LIMIT 4294967294U /* (uid_t)-1 is no user */
#define MESSAGE_MAX 768
#define WORD_MAX 160

enum type {
	TYPE_PATH,
	TYPE_LOG, /* a path, or the word "syslog" */
	TYPE_NUMBER,
	TYPE_BOOL,
	TYPE_SANDBOX,
	TYPE_SYNC,
	TYPE_UIDS,
	TYPE_WORDS,
	TYPE_ADDRESSES,
	TYPE_HASHES,
	TYPE_KEYS,
	TYPE_TOOLS,
	TYPE_GLOBS
};

/* What a later file may do to a key that the system's file has set. */
enum tighten {
	MAY_NOT_CHANGE,
	MAY_LOWER,
	MAY_LOWER_0_OFF, /* as above, 0 being no bound at all */
	MAY_RAISE,
	MAY_SET_TRUE,
	MAY_SET_FALSE,
	MAY_NARROW, /* a subset, a range inside */
	MAY_ADD,    /* the entries of both files count */
	ADDS_BOUND  /* both files' lists must allow, so any list tightens */
};

struct row {
	const char *name;
	enum type type;
	enum tighten tighten;
	size_t at;    /* offset in struct policy, or in its ceiling */
	size_t count; /* offset of the number of entries of a list */
	unsigned least;
	unsigned most;
	unsigned number; /* the default of numbers, switches and words */
	const char *help;
};

#define P(member) offsetof(struct policy, member)
#define C(member) offsetof(struct policy_ceiling, member)
#define LIST(name) P(name), P(name##_n), 0, 0, 0
#define PATHS(name) P(name), 0, 0, 0, 0

static const struct row rows[] = {
    {"skills", TYPE_PATH, MAY_NOT_CHANGE, PATHS(skills),
	"The directory in which skills are looked up by their id."},
    {"store", TYPE_PATH, MAY_NOT_CHANGE, PATHS(store),
	"The directory of memory, ledger and state."},
    {"spool", TYPE_PATH, MAY_NOT_CHANGE, PATHS(spool),
	"The directory in which rows wait when the ledger is full."},
    {"socket_dir", TYPE_PATH, MAY_NOT_CHANGE, PATHS(socket_dir),
	"The directory of the sockets."},
    {"sandbox", TYPE_SANDBOX, MAY_SET_FALSE, P(best_effort), 0, 0, 0, 0,
	"Whether a skill may run with layers of the sandbox missing."},
    {"uid_range", TYPE_UIDS, MAY_NARROW, P(uid_first), P(uid_last),
	OWNERS_UID_MIN, UID_LIMIT, 0,
	"The host uids that skills get when root runs them."},
    {"skill_owners", TYPE_WORDS, MAY_NARROW, LIST(skill_owners),
	"Users besides root whose skills root runs."},
    {"tmp_mb", TYPE_NUMBER, MAY_LOWER, P(tmp_mb), 0, 1, 1048576, 256,
	"The size of a skill's private /tmp in MiB."},
    {"log", TYPE_LOG, MAY_NOT_CHANGE, PATHS(log),
	"Where log lines go instead of standard error."},
    {"ceiling.tools", TYPE_TOOLS, ADDS_BOUND, C(tools), C(tools_n), 0, 0, 0,
	"The only tools that any skill may have."},
    {"ceiling.files", TYPE_GLOBS, ADDS_BOUND, C(files), GLOB_FILE, 0, 0, 0,
	"The only files that any skill may have."},
    {"ceiling.domains", TYPE_GLOBS, ADDS_BOUND, C(domains), GLOB_DOMAIN, 0, 0,
	0, "The only hosts that any skill may have."},
    {"ceiling.memory_scopes", TYPE_GLOBS, ADDS_BOUND, C(memory_scopes),
	GLOB_MEMORY, 0, 0, 0, "The only memory that any skill may have."},
    {"max_memory_mb", TYPE_NUMBER, MAY_LOWER, P(max_memory_mb), 0, 1, 1048576,
	512, "The most address space a skill may ask for, MiB."},
    {"max_processes", TYPE_NUMBER, MAY_LOWER, P(max_processes), 0, 1, 65536, 8,
	"The most processes a skill may ask for."},
    {"max_effort_minutes", TYPE_NUMBER, MAY_LOWER, P(max_effort_minutes), 0, 1,
	1440, 1440, "The most minutes a skill may ask for."},
    {"max_calls_per_minute", TYPE_NUMBER, MAY_LOWER_0_OFF,
	P(max_calls_per_minute), 0, 0, 1000000, 0,
	"The most tool calls a minute of one invocation; 0 is no bound."},
    {"max_invocations", TYPE_NUMBER, MAY_LOWER_0_OFF, P(max_invocations), 0, 0,
	1000000, 0, "The most invocations at one time; 0 is no bound."},
    {"max_write_mb", TYPE_NUMBER, MAY_LOWER, P(max_write_mb), 0, 0, 1048576,
	1024, "The most MiB that one invocation may write."},
    {"min_free_mb", TYPE_NUMBER, MAY_RAISE, P(min_free_mb), 0, 0, 1048576, 256,
	"What a file system keeps free of skills' writes, MiB."},
    {"max_ledger_mb", TYPE_NUMBER, MAY_LOWER, P(max_ledger_mb), 0, 1, 1048576,
	256, "The most MiB of ledger that one invocation fills."},
    {"http_allow_addresses", TYPE_ADDRESSES, MAY_NARROW,
	LIST(http_allow_addresses),
	"Networks that HTTP tools may reach though they are private."},
    {"ca_file", TYPE_PATH, MAY_NOT_CHANGE, PATHS(ca_file),
	"Certificate authorities instead of the system's."},
    {"require_signature", TYPE_BOOL, MAY_SET_TRUE, P(require_signature), 0, 0,
	0, false, "Whether only signed skills may run."},
    {"trusted_keys", TYPE_KEYS, ADDS_BOUND, C(keys), 0, 0, 0, 0,
	"The keys whose signatures count."},
    {"revoked", TYPE_HASHES, MAY_ADD, LIST(revoked),
	"Frontmatter hashes of skills that may not run."},
    {"audit_sync", TYPE_SYNC, MAY_RAISE, P(audit_sync), 0, 0, 0,
	POLICY_SYNC_BATCH, "When rows are forced to disk."},
    {"audit_required", TYPE_BOOL, MAY_SET_TRUE, P(audit_required), 0, 0, 0,
	false, "Whether calls are refused when no row can be kept."},
    {"audit_resources", TYPE_BOOL, MAY_NOT_CHANGE, P(audit_resources), 0, 0, 0,
	true, "Whether rows name files, memory paths and hosts."},
    {"audit_append_only", TYPE_BOOL, MAY_SET_TRUE, P(audit_append_only), 0, 0,
	0, false, "Whether segments get the append-only attribute."},
    {"audit_mark_seconds", TYPE_NUMBER, MAY_LOWER, P(audit_mark_seconds), 0, 1,
	86400, 10, "Seconds between marks of a growing segment."},
    {"args_hash_key_file", TYPE_PATH, MAY_NOT_CHANGE, PATHS(args_hash_key_file),
	"A key that makes hashes of arguments unguessable."},
    {"quarantine_after", TYPE_NUMBER, MAY_LOWER_0_OFF, P(quarantine_after), 0,
	0, 1000000, 0,
	"Failures after which a skill is quarantined; 0 is never."},
};

#define ROWS_N (sizeof(rows) / sizeof(rows[0]))

_Static_assert(ROWS_N <= 64, "struct policy has a bit for each row");
_Static_assert(sizeof(uid_t) == sizeof(unsigned), "uids are read as numbers");
_Static_assert(
    sizeof(enum policy_sync) == sizeof(unsigned), "read as a number");

/* Reading one file: its values go to fresh, and only at the end further. */
struct load {
	struct policy *policy;
	struct policy fresh;
	unsigned slot;
	const char *file;
	unsigned line[64]; /* where each row was set */
	unsigned column[64];
	bool failed;
	char *why;
	size_t why_len;
};

/* Every place in a policy that a row names, by its type. */

static void *
place(const struct row *row, struct policy *p, unsigned slot, size_t offset)
{
	char *base =
	    row->tighten == ADDS_BOUND ? (char *)&p->ceilings[slot] : (char *)p;

	return base + offset;
}

static char **
text_place(const struct row *row, struct policy *p)
{
	return place(row, p, 0, row->at);
}

static unsigned *
number_place(const struct row *row, struct policy *p)
{
	return place(row, p, 0, row->at);
}

static bool *
bool_place(const struct row *row, struct policy *p)
{
	return place(row, p, 0, row->at);
}

static char ***
list_place(const struct row *row, struct policy *p, unsigned slot)
{
	return place(row, p, slot, row->at);
}

static size_t *
count_place(const struct row *row, struct policy *p, unsigned slot)
{
	return place(row, p, slot, row->count);
}

static struct glob_set **
globs_place(const struct row *row, struct policy *p, unsigned slot)
{
	return place(row, p, slot, row->at);
}

static struct trust_list *
keys_place(const struct row *row, struct policy *p, unsigned slot)
{
	return place(row, p, slot, row->at);
}

/* Only the first message is kept: "FILE:LINE:COLUMN: key: text". */
__attribute__((format(printf, 5, 6))) static int
fail(struct load *l, unsigned line, unsigned column, const char *key,
    const char *fmt, ...)
{
	char text[MESSAGE_MAX];
	va_list ap;

	if (l->failed)
		return -1;
	l->failed = true;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(l->why, l->why_len, "%s:%u:%u: %s%s%s", l->file, line, column,
	    key, key[0] != '\0' ? ": " : "", text);
	return -1;
}

static int
fail_memory(struct load *l)
{
	if (!l->failed)
		snprintf(l->why, l->why_len, "%s: out of memory", l->file);
	l->failed = true;
	errno = ENOMEM;
	return -1;
}

static void
on_fault(void *arg, enum yaml_fault fault, const char *field, unsigned line,
    unsigned column, const char *message)
{
	(void)fault;
	(void)fail(arg, line, column, field, "%s", message);
}

/* Text of a value that may be a number too when it names a user. */
static bool
is_word(const struct yaml_item *item, bool number)
{
	return item->kind == YAML_KIND_TEXT && item->len > 0 &&
	       (item->type == YAML_TYPE_STRING ||
		   (number && item->type == YAML_TYPE_INT));
}

static int
wrong_type(struct load *l, const struct row *row, const struct yaml_item *item)
{
	struct policy_key key = {0};

	policy_key((size_t)(row - rows), &key);
	return fail(l, item->line, item->column, row->name,
	    "here is %s; write %s", yaml_what(item), key.type);
}

static int
read_path(struct load *l, const struct row *row, const struct yaml_item *value)
{
	char word[WORD_MAX];

	if (!is_word(value, false))
		return wrong_type(l, row, value);
	if (value->text[0] != '/' &&
	    !(row->type == TYPE_LOG && yaml_is(value, "syslog")))
		return fail(l, value->line, value->column, row->name,
		    "`%s` is not an absolute path; begin it with /",
		    yaml_printable(
			word, sizeof(word), value->text, value->len));
	if (value->len >= PATH_MAX)
		return fail(l, value->line, value->column, row->name,
		    "the path is too long");
	*text_place(row, &l->fresh) = strdup(value->text);
	return *text_place(row, &l->fresh) == NULL ? fail_memory(l) : 0;
}

static int
read_number(
    struct load *l, const struct row *row, const struct yaml_item *value)
{
	unsigned n;

	if (value->kind != YAML_KIND_TEXT || value->type != YAML_TYPE_INT)
		return wrong_type(l, row, value);
	if (!yaml_number(value, row->most, &n) || n < row->least)
		return fail(l, value->line, value->column, row->name,
		    "out of range; write a number from %u to %u in digits "
		    "without sign and leading zeros",
		    row->least, row->most);
	*number_place(row, &l->fresh) = n;
	return 0;
}

static int
read_bool(struct load *l, const struct row *row, const struct yaml_item *value)
{
	if (value->kind != YAML_KIND_TEXT || value->type != YAML_TYPE_BOOL ||
	    (!yaml_is(value, "true") && !yaml_is(value, "false")))
		return wrong_type(l, row, value);
	*bool_place(row, &l->fresh) = yaml_is(value, "true");
	return 0;
}

static int
read_sandbox(
    struct load *l, const struct row *row, const struct yaml_item *value)
{
	if (!yaml_is(value, "required") && !yaml_is(value, "best-effort"))
		return wrong_type(l, row, value);
	*bool_place(row, &l->fresh) = yaml_is(value, "best-effort");
	return 0;
}

static int
read_sync(struct load *l, const struct row *row, const struct yaml_item *value)
{
	if (yaml_is(value, "none"))
		l->fresh.audit_sync = POLICY_SYNC_NONE;
	else if (yaml_is(value, "batch"))
		l->fresh.audit_sync = POLICY_SYNC_BATCH;
	else if (yaml_is(value, "row"))
		l->fresh.audit_sync = POLICY_SYNC_ROW;
	else
		return wrong_type(l, row, value);
	return 0;
}

/* "FIRST-LAST", both in digits. */
static int
read_uids(struct load *l, const struct row *row, const struct yaml_item *value)
{
	struct yaml_item part = {.kind = YAML_KIND_TEXT, .type = YAML_TYPE_INT};
	unsigned first, last;
	char *dash;
	bool good;

	if (!is_word(value, false) || strchr(value->text, '-') == NULL)
		return wrong_type(l, row, value);
	dash = strchr(value->text, '-');
	part.text = value->text;
	part.len = (size_t)(dash - value->text);
	good = yaml_number(&part, row->most, &first);
	part.text = dash + 1;
	part.len = strlen(dash + 1);
	good = good && yaml_number(&part, row->most, &last);
	if (!good || first < row->least || first > last)
		return fail(l, value->line, value->column, row->name,
		    "write FIRST-LAST, both from %u to %u, the lower one first",
		    row->least, row->most);
	l->fresh.uid_first = first;
	l->fresh.uid_last = last;
	return 0;
}

/* ADDRESS or ADDRESS/BITS. */
static bool
is_network(const char *text)
{
	struct yaml_item bits = {.kind = YAML_KIND_TEXT, .type = YAML_TYPE_INT};
	unsigned char address[16];
	char host[INET6_ADDRSTRLEN];
	unsigned most = 32, n;
	size_t len;
	char *slash;

	len = strcspn(text, "/");
	if (len >= sizeof(host))
		return false;
	memcpy(host, text, len);
	host[len] = '\0';
	if (inet_pton(AF_INET, host, address) != 1) {
		if (inet_pton(AF_INET6, host, address) != 1)
			return false;
		most = 128;
	}
	slash = strchr(text, '/');
	if (slash == NULL)
		return true;
	bits.text = slash + 1;
	bits.len = strlen(slash + 1);
	return yaml_number(&bits, most, &n);
}

/* A slip of the pen must not silently become "no tool". */
static bool
is_tool(const struct load *l, const char *text)
{
	const char *const *name = l->policy->tool_names;

	while (name != NULL && *name != NULL && strcmp(*name, text) != 0)
		name++;
	return name == NULL || *name != NULL;
}

/* One entry of a list of texts, or NULL after a message. */
static char *
entry_text(struct load *l, const struct row *row, const struct yaml_item *item)
{
	char word[WORD_MAX], *text, *p;

	/* A hash of digits alone is a number to YAML, and still a hash. */
	if (row->type == TYPE_HASHES ? item->kind != YAML_KIND_TEXT
				     : !is_word(item, row->type == TYPE_WORDS)) {
		wrong_type(l, row, item);
		return NULL;
	}
	if (row->type == TYPE_ADDRESSES && !is_network(item->text)) {
		fail(l, item->line, item->column, row->name,
		    "`%s` is no network; write ADDRESS or ADDRESS/BITS",
		    yaml_printable(word, sizeof(word), item->text, item->len));
		return NULL;
	}
	if (row->type == TYPE_TOOLS && !is_tool(l, item->text)) {
		fail(l, item->line, item->column, row->name,
		    "`%s` is no tool; see `cyberos skill broker tools`",
		    yaml_printable(word, sizeof(word), item->text, item->len));
		return NULL;
	}
	text = strdup(item->text);
	if (text == NULL)
		fail_memory(l);
	for (p = text; row->type == TYPE_HASHES && p != NULL && *p != '\0'; p++)
		*p = (char)tolower((unsigned char)*p);
	if (row->type != TYPE_HASHES || text == NULL || hex_is(text, 32))
		return text;
	free(text);
	fail(l, item->line, item->column, row->name,
	    "`%s` is no hash; write 64 hexadecimal digits in quotes, as the "
	    "ledger has them",
	    yaml_printable(word, sizeof(word), item->text, item->len));
	return NULL;
}

/* An empty list is one that was set: its pointer is not NULL. */
static int
read_list(struct load *l, const struct row *row, const struct yaml_item *value)
{
	const struct yaml_item *item;
	size_t n = 0, *count;
	char **list;

	if (value->kind != YAML_KIND_LIST)
		return wrong_type(l, row, value);
	for (item = value->child; item != NULL; item = item->next)
		n++;
	list = calloc(n + 1, sizeof(*list));
	if (list == NULL)
		return fail_memory(l);
	*list_place(row, &l->fresh, l->slot) = list;
	count = count_place(row, &l->fresh, l->slot);
	for (item = value->child; item != NULL; item = item->next) {
		list[*count] = entry_text(l, row, item);
		if (list[*count] == NULL)
			return -1;
		(*count)++;
	}
	return 0;
}

static int
read_globs(struct load *l, const struct row *row, const struct yaml_item *value)
{
	const struct yaml_item *item;
	const char *why = "it cannot be read";
	struct glob_set *set;
	char word[WORD_MAX];

	if (value->kind != YAML_KIND_LIST)
		return wrong_type(l, row, value);
	/* The row holds the kind where others hold an offset. */
	set = glob_set_new((enum glob_kind)row->count);
	if (set == NULL)
		return fail_memory(l);
	*globs_place(row, &l->fresh, l->slot) = set;
	for (item = value->child; item != NULL; item = item->next) {
		if (!is_word(item, false))
			return wrong_type(l, row, item);
		if (glob_set_add(set, item->text, item->len, &why) == 0)
			continue;
		if (errno == ENOMEM)
			return fail_memory(l);
		return fail(l, item->line, item->column, row->name, "`%s`: %s",
		    yaml_printable(word, sizeof(word), item->text, item->len),
		    errno == E2BIG ? "the list is too long" : why);
	}
	return 0;
}

static int
read_keys(struct load *l, const struct row *row, const struct yaml_item *value)
{
	const struct yaml_item *at = value;
	char why[MESSAGE_MAX];

	errno = 0;
	if (trust_read(keys_place(row, &l->fresh, l->slot), value, &at, why,
		sizeof(why)) == 0)
		return 0;
	if (errno == ENOMEM)
		return fail_memory(l);
	return fail(l, at->line, at->column, row->name, "%s", why);
}

static int
read_row(struct load *l, const struct row *row, const struct yaml_item *value)
{
	switch (row->type) {
	case TYPE_PATH:
	case TYPE_LOG:
		return read_path(l, row, value);
	case TYPE_NUMBER:
		return read_number(l, row, value);
	case TYPE_BOOL:
		return read_bool(l, row, value);
	case TYPE_SANDBOX:
		return read_sandbox(l, row, value);
	case TYPE_SYNC:
		return read_sync(l, row, value);
	case TYPE_UIDS:
		return read_uids(l, row, value);
	case TYPE_WORDS:
	case TYPE_ADDRESSES:
	case TYPE_HASHES:
	case TYPE_TOOLS:
		return read_list(l, row, value);
	case TYPE_KEYS:
		return read_keys(l, row, value);
	case TYPE_GLOBS:
		return read_globs(l, row, value);
	}
	return fail(l, value->line, value->column, row->name, "unreadable");
}

static int
unknown_key(struct load *l, const struct yaml_item *key, const char *name)
{
	const char *names[ROWS_N + 2], *guess;
	char word[WORD_MAX];
	size_t i;

	for (i = 0; i < ROWS_N; i++)
		names[i] = rows[i].name;
	names[ROWS_N] = "ceiling";
	names[ROWS_N + 1] = NULL;
	guess = yaml_guess(name, names);
	yaml_printable(word, sizeof(word), name, strlen(name));
	if (guess != NULL)
		return fail(l, key->line, key->column, word,
		    "there is no such key; did you mean `%s`?", guess);
	return fail(l, key->line, key->column, word,
	    "there is no such key; cyberos-broker.yaml(5) lists them");
}

/* One key and its value; prefix is what its row has before the key. */
static int
read_pair(struct load *l, const struct yaml_item *value, const char *prefix)
{
	const struct yaml_item *key = value->key;
	char name[WORD_MAX];
	size_t i;

	if (snprintf(name, sizeof(name), "%s%s", prefix, key->text) >=
	    (int)sizeof(name))
		return unknown_key(l, key, "(a long key)");
	for (i = 0; i < ROWS_N; i++)
		if (strcmp(rows[i].name, name) == 0)
			break;
	/* "ceiling.tools" is a row, but no key that may be written so. */
	if (i == ROWS_N || strchr(key->text, '.') != NULL)
		return unknown_key(l, key, name);
	l->line[i] = key->line;
	l->column[i] = key->column;
	l->fresh.set[l->slot] |= UINT64_C(1) << i;
	return read_row(l, &rows[i], value);
}

/* "ceiling" holds a mapping, every other key a value. */
static int
read_root(struct load *l, const struct yaml_item *root)
{
	const struct yaml_item *value, *member;

	if (root->kind != YAML_KIND_MAP)
		return fail(l, root->line, root->column, "",
		    "here is %s; write one \"key: value\" a line",
		    yaml_what(root));
	for (value = root->child; value != NULL; value = value->next) {
		if (!yaml_is(value->key, "ceiling")) {
			if (read_pair(l, value, "") == -1)
				return -1;
			continue;
		}
		if (value->kind != YAML_KIND_MAP)
			return fail(l, value->line, value->column, "ceiling",
			    "here is %s; write a mapping of tools, files, "
			    "domains and memory_scopes",
			    yaml_what(value));
		for (member = value->child; member != NULL;
		     member = member->next)
			if (read_pair(l, member, "ceiling.") == -1)
				return -1;
	}
	return 0;
}

static bool
is_set(const struct policy *p, unsigned slot, const struct row *row)
{
	return (p->set[slot] >> (row - rows) & 1) != 0;
}

static bool
in_list(char *const *list, size_t n, const char *text)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (strcmp(list[i], text) == 0)
			return true;
	return false;
}

/* Is the new value inside the old one? */
static bool
narrows(const struct row *row, struct policy *old, struct policy *now)
{
	size_t i;

	if (row->type == TYPE_UIDS)
		return now->uid_first >= old->uid_first &&
		       now->uid_last <= old->uid_last;
	for (i = 0; i < *count_place(row, now, 0); i++)
		if (!in_list(*list_place(row, old, 0),
			*count_place(row, old, 0),
			(*list_place(row, now, 0))[i]))
			return false;
	return true;
}

static bool
same(const struct row *row, struct policy *old, struct policy *now)
{
	if (row->type == TYPE_BOOL)
		return *bool_place(row, old) == *bool_place(row, now);
	return strcmp(*text_place(row, old), *text_place(row, now)) == 0;
}

/* Does the new value allow nothing that the system's file does not? */
static bool
tightens(const struct row *row, struct policy *old, struct policy *now)
{
	unsigned before, after;

	switch (row->tighten) {
	case MAY_NOT_CHANGE:
		return same(row, old, now);
	case MAY_LOWER:
		return *number_place(row, now) <= *number_place(row, old);
	case MAY_LOWER_0_OFF:
		before = *number_place(row, old);
		after = *number_place(row, now);
		return before == 0 || (after != 0 && after <= before);
	case MAY_RAISE:
		return *number_place(row, now) >= *number_place(row, old);
	case MAY_SET_TRUE:
		return *bool_place(row, now) || !*bool_place(row, old);
	case MAY_SET_FALSE:
		return !*bool_place(row, now) || *bool_place(row, old);
	case MAY_NARROW:
		return narrows(row, old, now);
	case MAY_ADD:
	case ADDS_BOUND:
		return true;
	}
	return false;
}

/* The value of a row in words. */
static void
describe(const struct row *row, struct policy *p, char *out, size_t size)
{
	static const char *const syncs[] = {[POLICY_SYNC_NONE] = "none",
	    [POLICY_SYNC_BATCH] = "batch",
	    [POLICY_SYNC_ROW] = "row"};
	const char *text;

	switch (row->type) {
	case TYPE_PATH:
	case TYPE_LOG:
		text = *text_place(row, p);
		yaml_printable(out, size, text == NULL ? "(built in)" : text,
		    text == NULL ? strlen("(built in)") : strlen(text));
		break;
	case TYPE_NUMBER:
		snprintf(out, size, "%u", *number_place(row, p));
		break;
	case TYPE_BOOL:
		strlcpy(out, *bool_place(row, p) ? "true" : "false", size);
		break;
	case TYPE_SANDBOX:
		strlcpy(out, p->best_effort ? "best-effort" : "required", size);
		break;
	case TYPE_SYNC:
		strlcpy(out, syncs[p->audit_sync], size);
		break;
	case TYPE_UIDS:
		snprintf(out, size, "%u-%u", (unsigned)p->uid_first,
		    (unsigned)p->uid_last);
		break;
	case TYPE_WORDS:
	case TYPE_ADDRESSES:
	case TYPE_HASHES:
		snprintf(out, size, "a list of %zu", *count_place(row, p, 0));
		break;
	case TYPE_KEYS:
	case TYPE_TOOLS:
	case TYPE_GLOBS:
		strlcpy(out, "(no bound)", size);
		break;
	}
}

static int
check_tightens(struct load *l)
{
	static const char *const advice[] = {
	    [MAY_NOT_CHANGE] = "it cannot be changed here; remove it",
	    [MAY_LOWER] = "write at most that",
	    [MAY_LOWER_0_OFF] = "write at most that, and not 0",
	    [MAY_RAISE] = "write at least that",
	    [MAY_SET_TRUE] = "remove it",
	    [MAY_SET_FALSE] = "remove it",
	    [MAY_NARROW] = "write only what is in there",
	    [MAY_ADD] = "",
	    [ADDS_BOUND] = "",
	};
	char old[WORD_MAX];
	size_t i;

	if (l->slot == 0)
		return 0;
	for (i = 0; i < ROWS_N; i++) {
		if (!is_set(&l->fresh, l->slot, &rows[i]) ||
		    !is_set(l->policy, 0, &rows[i]) ||
		    tightens(&rows[i], l->policy, &l->fresh))
			continue;
		describe(&rows[i], l->policy, old, sizeof(old));
		return fail(l, l->line[i], l->column[i], rows[i].name,
		    "the system's file says %s, which can only be tightened; "
		    "%s",
		    old, advice[rows[i].tighten]);
	}
	return 0;
}

static const struct row *
row_of(const char *name)
{
	size_t i;

	for (i = 0; i < ROWS_N; i++)
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	return NULL;
}

/* What must hold between keys, over both files. */
static int
check_together(struct load *l)
{
	const struct row *require = row_of("require_signature");
	const struct row *trusted = row_of("trusted_keys");
	const struct row *at;
	const struct trust_list *keys;
	bool required, some = false, none = false;
	unsigned slot;

	required = is_set(&l->fresh, l->slot, require)
		       ? l->fresh.require_signature
		       : l->policy->require_signature;
	for (slot = 0; slot < POLICY_CEILINGS; slot++) {
		keys = slot == l->slot && is_set(&l->fresh, slot, trusted)
			   ? &l->fresh.ceilings[slot].keys
			   : &l->policy->ceilings[slot].keys;
		some = some || keys->n > 0;
		none = none || (keys->set && keys->n == 0);
	}
	if (!required || (some && !none))
		return 0;
	at = is_set(&l->fresh, l->slot, require) ? require : trusted;
	if (!is_set(&l->fresh, l->slot, at))
		return fail(l, 1, 1, require->name, "no trusted_keys");
	return fail(l, l->line[at - rows], l->column[at - rows], at->name,
	    "signatures are required, but no key is trusted; list at least one "
	    "in trusted_keys");
}

/* The entries of both lists; the old ones are taken over. */
static int
merge_list(const struct row *row, struct policy *old, struct policy *now)
{
	char ***list = list_place(row, now, 0), ***before;
	size_t *n = count_place(row, now, 0), *before_n, i;
	char **both;

	before = list_place(row, old, 0);
	before_n = count_place(row, old, 0);
	both = calloc(*n + *before_n + 1, sizeof(*both));
	if (both == NULL)
		return -1;
	for (i = 0; i < *n; i++)
		both[i] = (*list)[i];
	for (i = 0; i < *before_n; i++)
		both[*n + i] = (*before)[i];
	*n += *before_n;
	*before_n = 0;
	free(*list);
	*list = both;
	return 0;
}

/* Free what a row holds. */
static void
clear_row(const struct row *row, struct policy *p, unsigned slot)
{
	char ***list;
	size_t *n, i;

	switch (row->type) {
	case TYPE_PATH:
	case TYPE_LOG:
		free(*text_place(row, p));
		*text_place(row, p) = NULL;
		break;
	case TYPE_WORDS:
	case TYPE_ADDRESSES:
	case TYPE_HASHES:
	case TYPE_TOOLS:
		list = list_place(row, p, slot);
		n = count_place(row, p, slot);
		for (i = 0; i < *n; i++)
			free((*list)[i]);
		free(*list);
		*list = NULL;
		*n = 0;
		break;
	case TYPE_KEYS:
		trust_clear(keys_place(row, p, slot));
		break;
	case TYPE_GLOBS:
		glob_set_free(*globs_place(row, p, slot));
		*globs_place(row, p, slot) = NULL;
		break;
	case TYPE_NUMBER:
	case TYPE_BOOL:
	case TYPE_SANDBOX:
	case TYPE_SYNC:
	case TYPE_UIDS:
		break;
	}
}

/* Move a row's value from one policy to another. */
static void
move_row(const struct row *row, struct policy *to, struct policy *from,
    unsigned slot)
{
	clear_row(row, to, slot);
	switch (row->type) {
	case TYPE_PATH:
	case TYPE_LOG:
		*text_place(row, to) = *text_place(row, from);
		*text_place(row, from) = NULL;
		break;
	case TYPE_NUMBER:
		*number_place(row, to) = *number_place(row, from);
		break;
	case TYPE_SYNC:
		to->audit_sync = from->audit_sync;
		break;
	case TYPE_BOOL:
	case TYPE_SANDBOX:
		*bool_place(row, to) = *bool_place(row, from);
		break;
	case TYPE_UIDS:
		to->uid_first = from->uid_first;
		to->uid_last = from->uid_last;
		break;
	case TYPE_WORDS:
	case TYPE_ADDRESSES:
	case TYPE_HASHES:
	case TYPE_TOOLS:
		*list_place(row, to, slot) = *list_place(row, from, slot);
		*count_place(row, to, slot) = *count_place(row, from, slot);
		*list_place(row, from, slot) = NULL;
		*count_place(row, from, slot) = 0;
		break;
	case TYPE_KEYS:
		*keys_place(row, to, slot) = *keys_place(row, from, slot);
		memset(keys_place(row, from, slot), 0,
		    sizeof(struct trust_list));
		break;
	case TYPE_GLOBS:
		*globs_place(row, to, slot) = *globs_place(row, from, slot);
		*globs_place(row, from, slot) = NULL;
		break;
	}
}

/* Everything is checked: the file's values become the policy's. */
static int
commit(struct load *l)
{
	const struct row *revoked = row_of("revoked");
	size_t i;

	if (is_set(&l->fresh, l->slot, revoked) &&
	    merge_list(revoked, l->policy, &l->fresh) == -1)
		return fail_memory(l);
	for (i = 0; i < ROWS_N; i++)
		if (is_set(&l->fresh, l->slot, &rows[i]))
			move_row(&rows[i], l->policy, &l->fresh, l->slot);
	l->policy->set[l->slot] |= l->fresh.set[l->slot];
	return 0;
}

static int
parse(struct load *l, const char *text, size_t len)
{
	struct yaml_source src = {.text = text,
	    .len = len,
	    .first_line = 1,
	    .items_max = FILE_MAX_ITEMS,
	    .start_marker = true,
	    .report = on_fault,
	    .arg = l};
	struct yaml_tree tree;
	int ret = -1;

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		src.text += 3;
		src.len -= 3;
	}
	if (yaml_tree_read(&tree, &src) == -1)
		fail_memory(l);
	if (l->failed || !tree.whole)
		goto out;
	/* A file of comments alone sets nothing. */
	if (tree.root != NULL && read_root(l, tree.root) == -1)
		goto out;
	if (check_tightens(l) == -1 || check_together(l) == -1)
		goto out;
	ret = commit(l);
out:
	yaml_tree_clear(&tree);
	return ret;
}

/* Read to the end, at most max bytes; -1 with EFBIG beyond. */
static ssize_t
read_all(int fd, char *to, size_t max)
{
	size_t got = 0;
	ssize_t n;

	for (;;) {
		n = read(fd, to + got, max + 1 - got);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return -1;
		if (n == 0)
			return (ssize_t)got;
		got += (size_t)n;
		if (got > max) {
			errno = EFBIG;
			return -1;
		}
	}
}

static bool
only_root_writes(const struct stat *st)
{
	bool shared = (st->st_mode & (S_IWGRP | S_IWOTH)) != 0;

	if (S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) != 0)
		shared = false; /* what lies in it is looked at by itself */
	return st->st_uid == 0 && !shared;
}

/*
 * The kernel's name has no links in it, and above a directory that only root
 * writes nothing can be exchanged, so looking at the names from the top is safe.
 */
bool
policy_file_trusted(int fd)
{
	char proc[64], name[PATH_MAX], *slash;
	struct stat st;
	ssize_t n;

	if (geteuid() != 0)
		return true;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	n = readlink(proc, name, sizeof(name) - 1);
	if (n <= 0 || name[0] != '/' || fstat(fd, &st) == -1 ||
	    !only_root_writes(&st))
		return false;
	name[n] = '\0';
	if (stat("/", &st) == -1 || !only_root_writes(&st))
		return false;
	for (slash = strchr(name + 1, '/'); slash != NULL;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (lstat(name, &st) == -1 || !S_ISDIR(st.st_mode) ||
		    !only_root_writes(&st))
			return false;
		*slash = '/';
	}
	return true;
}

/* Root takes only what nobody else can write. */
static int
check_owner(struct load *l, int fd)
{
	struct stat st;

	if (fstat(fd, &st) == -1)
		return fail(l, 1, 1, "", "cannot be read: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fail(l, 1, 1, "", "is no regular file");
	if (geteuid() != 0)
		return 0;
	if (st.st_uid != 0)
		return fail(l, 1, 1, "",
		    "does not belong to root; run: chown root FILE");
	if (!only_root_writes(&st))
		return fail(l, 1, 1, "",
		    "can be written by others than root; run: chmod go-w FILE");
	if (!policy_file_trusted(fd))
		return fail(l, 1, 1, "",
		    "lies below a directory that others than root can write; "
		    "move it");
	return 0;
}

int
policy_load(
    struct policy *p, unsigned slot, const char *file, char *why, size_t whylen)
{
	struct load l = {.policy = p,
	    .slot = slot,
	    .file = file,
	    .why = why,
	    .why_len = whylen};
	char *text = NULL;
	ssize_t n;
	int fd, ret = -1;

	fd = open(file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (slot >= POLICY_CEILINGS || fd == -1) {
		fail(&l, 1, 1, "", "cannot be opened: %s", strerror(errno));
		goto out;
	}
	if (check_owner(&l, fd) == -1)
		goto out;
	text = malloc(FILE_MAX_BYTES + 1);
	if (text == NULL) {
		fail_memory(&l);
		goto out;
	}
	n = read_all(fd, text, FILE_MAX_BYTES);
	if (n == -1)
		fail(&l, 1, 1, "", "cannot be read: %s", strerror(errno));
	else
		ret = parse(&l, text, (size_t)n);
out:
	free(text);
	if (fd != -1)
		close(fd);
	policy_clear(&l.fresh);
	if (ret == -1)
		errno = EINVAL;
	return ret;
}

int
policy_init(struct policy *p)
{
	size_t i;

	memset(p, 0, sizeof(*p));
	p->uid_first = UIDS_FIRST;
	p->uid_last = UIDS_LAST;
	for (i = 0; i < ROWS_N; i++) {
		if (rows[i].type == TYPE_NUMBER)
			*number_place(&rows[i], p) = rows[i].number;
		else if (rows[i].type == TYPE_BOOL)
			*bool_place(&rows[i], p) = rows[i].number != 0;
	}
	p->audit_sync = POLICY_SYNC_BATCH;
	return 0;
}

void
policy_clear(struct policy *p)
{
	unsigned slot;
	size_t i;

	for (i = 0; i < ROWS_N; i++)
		for (slot = 0; slot < POLICY_CEILINGS; slot++)
			if (slot == 0 || rows[i].tighten == ADDS_BOUND)
				clear_row(&rows[i], p, slot);
	memset(p, 0, sizeof(*p));
}

bool
policy_key(size_t i, struct policy_key *key)
{
	static const struct {
		const char *type, *value;
	} words[] = {
	    [TYPE_PATH] = {"an absolute path", "built in"},
	    [TYPE_LOG] = {"an absolute path or syslog", "standard error"},
	    [TYPE_NUMBER] = {"a whole number", NULL},
	    [TYPE_BOOL] = {"true or false", NULL},
	    [TYPE_SANDBOX] = {"required or best-effort", "required"},
	    [TYPE_SYNC] = {"none, batch or row", "batch"},
	    [TYPE_UIDS] = {"FIRST-LAST, two numbers of users", UIDS_DEFAULT},
	    [TYPE_WORDS] = {"a list of words", "[]"},
	    [TYPE_ADDRESSES] = {"a list of ADDRESS or ADDRESS/BITS", "[]"},
	    [TYPE_HASHES] = {"a list of SHA-256 in hex", "[]"},
	    [TYPE_KEYS] = {"a list of keys", "none"},
	    [TYPE_TOOLS] = {"a list of names of tools", "no bound"},
	    [TYPE_GLOBS] = {"a list of globs", "no bound"},
	};

	if (i >= ROWS_N)
		return false;
	key->name = rows[i].name;
	key->type = words[rows[i].type].type;
	key->help = rows[i].help;
	key->value[0] = '\0';
	if (words[rows[i].type].value != NULL)
		strlcpy(
		    key->value, words[rows[i].type].value, sizeof(key->value));
	else if (rows[i].type == TYPE_BOOL)
		strlcpy(key->value, rows[i].number != 0 ? "true" : "false",
		    sizeof(key->value));
	else
		snprintf(key->value, sizeof(key->value), "%u", rows[i].number);
	return true;
}

bool
policy_fixed(const struct policy *p, const char *key)
{
	size_t i;

	for (i = 0; i < ROWS_N; i++) {
		if (strcmp(rows[i].name, key) == 0)
			return (p->set[0] >> i & 1) != 0;
	}
	return true; /* a key that is not in the table: ask nothing of it */
}

bool
policy_is_set(const struct policy *p, const char *key)
{
	size_t i;

	for (i = 0; i < ROWS_N; i++) {
		if (strcmp(rows[i].name, key) == 0)
			return ((p->set[0] | p->set[1]) >> i & 1) != 0;
	}
	return false;
}
