/*
 * The rules of an import, as tables: which field means what, which name of a
 * tool is which of ours, which limits we can express. The text is a stranger's
 * and the result grants things, so the rule for all of it is: an author who
 * wrote a limit gets that limit or does not get the tool. x-allowed-files and
 * x-allowed-domains hold for all tools of their kind at once; so a path or host
 * is granted only when every tool that may use it was allowed to.
 */

#include "supervisor/mapping.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/json.h"
#include "enforce/glob.h"
#include "enforce/manifest.h"
#include "enforce/policy.h"
#include "tools/registry.h"

#define TOOLS_MAX 32
#define SPECS_MAX 128 /* limits on one tool */
#define WORD_MAX 256
#define WORDS_MAX 64 /* between two commas */
#define ID_MAX 64
#define DESCRIPTION_MAX 200
#define TAGS_MAX 10
#define TAG_MAX 30
#define KEPT_MAX 1000 /* bytes of a text that is kept as x-... */

/* What a limit on a tool names. */
enum class { CLASS_NONE, CLASS_FILES, CLASS_HOSTS, CLASSES };

static const char *const class_field[CLASSES] = {
    [CLASS_NONE] = NULL,
    [CLASS_FILES] = "x-allowed-files",
    [CLASS_HOSTS] = "x-allowed-domains",
};

/* Names that others have for tools of ours; letter case does not count. */
static const struct {
	const char *theirs;
	const char *ours;
	enum class class;
} names[] = {
    {"Read", "Read", CLASS_FILES},
    {"Write", "Write", CLASS_FILES},
    {"Edit", "Edit", CLASS_FILES},
    {"Glob", "Glob", CLASS_FILES},
    {"Grep", "Grep", CLASS_FILES},
    {"Bash", "Bash", CLASS_FILES},
    {"HttpFetch", "HttpFetch", CLASS_HOSTS},
    {"HttpPost", "HttpPost", CLASS_HOSTS},
    {"MemoryRead", "MemoryRead", CLASS_NONE},
    {"MemorySearch", "MemorySearch", CLASS_NONE},
    {"MemoryEmit", "MemoryEmit", CLASS_NONE},
    {"MultiEdit", "Edit", CLASS_FILES},
    {"LS", "Glob", CLASS_FILES},
    {"WebFetch", "HttpFetch", CLASS_HOSTS},
    {"web_fetch", "HttpFetch", CLASS_HOSTS},
    {"Fetch", "HttpFetch", CLASS_HOSTS},
    {"Shell", "Bash", CLASS_FILES},
    {"read_file", "Read", CLASS_FILES},
    {"write_file", "Write", CLASS_FILES},
    {"edit_file", "Edit", CLASS_FILES},
};

/* What was written about one tool of ours. */
struct grant {
	const char *name;
	enum class class;
	bool named;  /* it stood there, with limits that we can keep */
	bool bare;   /* without any limit */
	bool denied; /* stood in a list of what is forbidden */
	char *specs[SPECS_MAX];
	size_t specs_n;
};

struct list {
	char **v;
	size_t n;
};

struct make {
	struct mapping *out;
	const struct mapping_source *src;
	struct grant grants[TOOLS_MAX];
	size_t grants_n;
	/* lists and texts of ours, by field; borrowed from the source */
	const struct foreign_item *own[CLASSES];
	const struct foreign_item *scopes;
	const struct foreign_item *tools_from;
	const struct foreign_item *id_from, *description_from, *version_from;
	const struct foreign_item *tags_from;
	char id[ID_MAX + 1];
	char version[WORD_MAX];
	char *description; /* all of it, on one line */
	struct buf extra;  /* lines of fields that are kept as they are */
	bool no_memory;
	bool refused;
};

const char *
mapping_word(enum mapping_kind kind)
{
	static const char *const words[] = {
	    [MAPPING_MAPPED] = "mapped",
	    [MAPPING_NARROWED] = "narrowed",
	    [MAPPING_DROPPED] = "dropped",
	};

	return words[kind];
}

/* --- what is told --- */

__attribute__((format(printf, 5, 6))) static void
note(struct make *m, enum mapping_kind kind, unsigned line, const char *field,
    const char *fmt, ...)
{
	struct mapping *out = m->out;
	struct mapping_note *n;
	va_list ap;

	if (out->n == MAPPING_NOTES_MAX) {
		out->unlisted++;
		return;
	}
	n = &out->notes[out->n];
	va_start(ap, fmt);
	if (vasprintf(&n->text, fmt, ap) == -1)
		n->text = NULL;
	va_end(ap);
	n->field = strdup(field);
	n->kind = kind;
	n->line = line;
	out->n++;
	if (n->text == NULL || n->field == NULL)
		m->no_memory = true;
}

__attribute__((format(printf, 3, 4))) static void
refuse(struct make *m, unsigned line, const char *fmt, ...)
{
	va_list ap;

	if (m->refused)
		return;
	m->refused = true;
	m->out->line = line;
	va_start(ap, fmt);
	vsnprintf(m->out->why, sizeof(m->out->why), fmt, ap);
	va_end(ap);
}

static const char *
show(char out[WORD_MAX], const char *text)
{
	return manifest_printable(out, WORD_MAX, text);
}

/* --- texts --- */

/* The one text of a field; NULL, after a word about it, when there is none. */
static const char *
one_text(struct make *m, const struct foreign_item *item)
{
	if (item->kind == FOREIGN_TEXT && !item->hidden)
		return item->texts[0];
	note(m, MAPPING_DROPPED, item->line, item->field,
	    item->hidden ? "holds characters that nobody can see"
			 : "one text is wanted here");
	return NULL;
}

/* Letters and digits alone, in lower case: allowedTools is allowed-tools. */
static void
fold(char out[WORD_MAX], const char *field)
{
	size_t n = 0;

	for (; *field != '\0' && n + 1 < WORD_MAX; field++)
		if (*field != '-' && *field != '_')
			out[n++] = (char)tolower((unsigned char)*field);
	out[n] = '\0';
}

/* An id out of a title: "PDF Tools" is pdf-tools. False: none comes out. */
static bool
make_id(char out[ID_MAX + 1], const char *title)
{
	size_t n = 0;
	char c;

	for (; *title != '\0'; title++) {
		c = (char)tolower((unsigned char)*title);
		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
			;
		else if (strchr(" _-./:", c) != NULL)
			c = '-';
		else
			return false;
		if (c == '-' && (n == 0 || out[n - 1] == '-'))
			continue;
		if (n == ID_MAX)
			return false;
		out[n++] = c;
	}
	while (n > 0 && out[n - 1] == '-')
		n--;
	out[n] = '\0';
	return manifest_is_id(out);
}

static void
choose_id(struct make *m)
{
	const struct foreign_item *from = m->id_from;
	const char *text = NULL;
	char word[WORD_MAX];

	if (from != NULL && from->kind == FOREIGN_TEXT && !from->hidden)
		text = from->texts[0];
	if (m->src->wanted_id != NULL) {
		if (!manifest_is_id(m->src->wanted_id))
			refuse(m, 0, "--id: write a lower-case letter, then "
				     "lower-case letters, digits and dashes, "
				     "at most 64 in all");
		else
			strlcpy(m->id, m->src->wanted_id, sizeof(m->id));
		return;
	}
	if (text != NULL && make_id(m->id, text)) {
		note(m, MAPPING_MAPPED, from->line, from->field, "id %s%s",
		    m->id, strcmp(m->id, text) == 0 ? "" : ", since an id has "
							   "lower-case letters, "
							   "digits and dashes "
							   "only");
		return;
	}
	if (m->src->dir_name != NULL && make_id(m->id, m->src->dir_name)) {
		note(m, MAPPING_MAPPED, from == NULL ? 0 : from->line, "name",
		    "id %s, from the name of the directory: %s", m->id,
		    text == NULL ? "the file has no name"
				 : "the name in the file makes no id");
		return;
	}
	refuse(m, from == NULL ? 0 : from->line,
	    "no id can be made of %s%s%s; choose one with --id",
	    text == NULL ? "the name of the directory" : "the name `",
	    text == NULL ? "" : show(word, text), text == NULL ? "" : "`");
}

/* 1, 1.2, v1.2.3 and versions by SemVer. */
static bool
make_version(char out[WORD_MAX], const char *text)
{
	size_t n, parts = 0;
	const char *p;

	if (text[0] == 'v' || text[0] == 'V')
		text++;
	if (strlcpy(out, text, WORD_MAX) >= WORD_MAX)
		return false;
	for (p = text; parts < 3 && isdigit((unsigned char)*p); parts++) {
		n = strspn(p, "0123456789");
		p += n;
		if (*p != '.')
			break;
		p++;
	}
	if (parts < 2 && *p == '\0' && p > text && p[-1] != '.')
		strlcat(out, parts == 0 ? ".0.0" : ".0", WORD_MAX);
	return manifest_is_version(out);
}

static void
choose_version(struct make *m)
{
	const struct foreign_item *from = m->version_from;
	const char *text = from == NULL ? NULL : one_text(m, from);
	char word[WORD_MAX];

	if (text == NULL) {
		strlcpy(m->version, "0.1.0", sizeof(m->version));
		note(m, MAPPING_MAPPED, 0, "version", "0.1.0, since there is "
						      "none");
	} else if (!make_version(m->version, text)) {
		strlcpy(m->version, "0.1.0", sizeof(m->version));
		note(m, MAPPING_DROPPED, from->line, from->field,
		    "`%s` is no version; 0.1.0 stands for it", show(word, text));
	} else {
		note(m, MAPPING_MAPPED, from->line, from->field, "version %s",
		    m->version);
	}
}

/* Runs of blanks and line ends become one blank. */
static char *
one_line(const char *text)
{
	char *out = malloc(strlen(text) + 1), *p = out;

	if (out == NULL)
		return NULL;
	for (; *text != '\0'; text++) {
		if (strchr(" \t\r\n", *text) == NULL)
			*p++ = *text;
		else if (p > out && p[-1] != ' ')
			*p++ = ' ';
	}
	while (p > out && p[-1] == ' ')
		p--;
	*p = '\0';
	return out;
}

/* How many bytes of a text to keep: whole words, with room for the dots. */
static size_t
cut_at(const char *s)
{
	size_t i, last = 0, hard = 0;

	for (i = 0; s[i] != '\0'; i++) {
		if (((unsigned char)s[i] & 0xc0) == 0x80)
			continue;
		if (json_utf8_points(s, i) > DESCRIPTION_MAX - 3)
			break;
		hard = i;
		if (s[i] == ' ')
			last = i;
	}
	return last > hard / 2 ? last : hard;
}

static void
choose_description(struct make *m)
{
	const struct foreign_item *from = m->description_from;

	if (from == NULL || from->kind != FOREIGN_TEXT || from->hidden) {
		refuse(m, from == NULL ? 0 : from->line,
		    from == NULL
			? "there is no description; add one, in 1 to 200 "
			  "characters"
			: from->hidden
			? "the description holds characters that nobody can "
			  "see; remove them"
			: "the description is no text; write one in quotes");
		return;
	}
	m->description = one_line(from->texts[0]);
	if (m->description == NULL)
		m->no_memory = true;
	else if (m->description[0] == '\0')
		refuse(m, from->line, "the description is empty; say what the "
				      "skill does");
	else if (json_utf8_points(m->description, strlen(m->description)) >
	    DESCRIPTION_MAX)
		note(m, MAPPING_NARROWED, from->line, from->field,
		    "shortened from %zu to 200 characters at most; all of it "
		    "stands first in the text",
		    json_utf8_points(m->description, strlen(m->description)));
	else
		note(m, MAPPING_MAPPED, from->line, from->field,
		    "description");
}

/* --- words --- */

/* Lists of words end with NULL; letter case does not count. */
static bool
is_one_of(const char *const words[], const char *s)
{
	size_t i;

	for (i = 0; words[i] != NULL; i++)
		if (strcasecmp(words[i], s) == 0)
			return true;
	return false;
}

/* "readOnly", "LSTool": a new word, with no sign before it. */
static bool
begins_part(const char *p)
{
	return isupper((unsigned char)p[0]) &&
	    (!isupper((unsigned char)p[-1]) || islower((unsigned char)p[1]));
}

/* The next word of a name, in lower case: read-only and readOnly have two. */
static bool
next_part(const char **at, char out[WORD_MAX])
{
	const char *p = *at;
	size_t n = 0;

	while (*p != '\0' && !isalnum((unsigned char)*p))
		p++;
	while (isalnum((unsigned char)*p) && n + 1 < WORD_MAX &&
	    (n == 0 || !begins_part(p)))
		out[n++] = (char)tolower((unsigned char)*p++);
	out[n] = '\0';
	*at = p;
	return n > 0;
}

static bool
has_part(const char *name, const char *const words[])
{
	char part[WORD_MAX];

	while (next_part(&name, part))
		if (is_one_of(words, part))
			return true;
	return false;
}

/* They limit or forbid what stands beside them, also as a part of a name. */
static const char *const limiting[] = { "apart", "aside", "avoid", "ban",
	"banned", "besides", "block", "blocked", "but", "cannot", "deny",
	"denied", "disable", "disabled", "disallow", "disallowed", "don",
	"dont", "except", "excepting", "exception", "exceptions", "exclude",
	"excluded", "excludes", "excluding", "false", "forbid", "forbidden",
	"ignore", "just", "limit", "limited", "limits", "minus", "never", "no",
	"non", "none", "not", "nothing", "off", "offline", "only", "other",
	"prohibited", "readonly", "restrict", "restricted", "sandbox",
	"sandboxed", "skip", "solely", "unless", "without", NULL };

/* What goes on from the words before it: "Bash, for git". */
static const char *const linking[] = { "as", "at", "by", "for", "from", "if",
	"in", "inside", "into", "of", "on", "outside", "than", "to", "under",
	"until", "using", "via", "when", "where", "while", "with", "within",
	NULL };

/* They stand for many tools or between some, and are none. */
static const char *const joining[] = { "all", "and", "any", "anything", "both",
	"each", "every", "everything", "or", "others", "rest", "true", "yes",
	NULL };

/*
 * Tools of others that we have nothing of. Whoever forbids one of these forbids
 * nothing here; whoever forbids another name may mean any tool.
 */
static const char *const foreign[] = { "Agent", "AskUserQuestion", "BashOutput",
	"codesearch", "doom_loop", "EnterPlanMode", "EnterWorktree",
	"ExitPlanMode", "ExitWorktree", "KillBash", "KillShell",
	"ListMcpResourcesTool", "LSP", "NotebookEdit", "NotebookRead",
	"question", "ReadMcpResourceTool", "Skill", "SlashCommand", "Task",
	"TaskCreate", "TaskGet", "TaskList", "TaskOutput", "TaskStop",
	"TaskUpdate", "TodoRead", "TodoWrite", "ToolSearch", "WebSearch",
	"web_search", NULL };

/* Words for what our tools do, by which somebody may mean them. */
static const char *const kinds[] = { "command", "commands", "directory", "exec",
	"execute", "file", "files", "filesystem", "http", "internet", "memory",
	"network", "path", "paths", "process", "sh", "terminal", "tool",
	"tools", "url", "web", NULL };

/* The name that a tool of ours has, or has elsewhere. */
static bool
is_known(const char *s)
{
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcasecmp(names[i].theirs, s) == 0)
			return true;
	return false;
}

static bool
is_plain(const char *s)
{
	return s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			   "0123456789_-")] == '\0';
}

/* Certainly a tool of others, and not by another name one of ours? */
static bool
is_foreign(const char *s)
{
	return is_one_of(foreign, s) ||
	    (strncmp(s, "mcp__", 5) == 0 && is_plain(s));
}

/* What marks a word as forbidden: "!Bash", "-Bash", a dash of any length. */
static size_t
signs(const char *s)
{
	size_t n = 0;

	while (s[n] != '\0' &&
	    (strchr("!^~-", s[n]) != NULL || ((unsigned char)s[n] & 0x80) != 0))
		n++;
	return n;
}

/* May this word take away from what stands beside it, or before it? */
static bool
is_limiting(const char *s)
{
	size_t n = strlen(s);

	if (is_known(s) || is_foreign(s) || n == 0)
		return false;
	return has_part(s, limiting) || is_one_of(linking, s) ||
	    signs(s + n - 1) > 0;
}

/* "BashTool", "bash-rm": a tool of ours, or what may be meant for one. */
static bool
speaks_of_ours(const char *s)
{
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *const name[] = { names[i].theirs, NULL };

		/* "ls" is in "tools" too. */
		if (strlen(name[0]) > 3 ? strcasestr(s, name[0]) != NULL
					: has_part(s, name))
			return true;
	}
	return has_part(s, kinds);
}

/* Every "*" that stands for all. */
static bool
is_everything(const char *spec)
{
	return strcmp(spec, "*") == 0 || strcmp(spec, "**") == 0 ||
	    strcmp(spec, ":*") == 0;
}

/* Does it look like the name of a tool, of whatever product? */
static bool
is_name(const char *s)
{
	if (is_known(s) || is_foreign(s) || is_everything(s) ||
	    strncmp(s, "mcp__", 5) == 0)
		return true;
	if (!isupper((unsigned char)s[0]) || is_limiting(s) ||
	    is_one_of(joining, s))
		return false;
	while (isalnum((unsigned char)*s) || *s == '_')
		s++;
	return *s == '\0';
}

/* --- tools --- */

static void
init_grants(struct make *m)
{
	const char *const *name;
	struct grant *g;
	size_t i;

	for (name = registry_names(); *name != NULL; name++) {
		if (m->grants_n == TOOLS_MAX)
			break;
		g = &m->grants[m->grants_n++];
		g->name = *name;
		for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (strcmp(names[i].ours, *name) == 0)
				g->class = names[i].class;
	}
}

static struct grant *
find_grant(struct make *m, const char *theirs)
{
	size_t i, j;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcasecmp(names[i].theirs, theirs) != 0)
			continue;
		for (j = 0; j < m->grants_n; j++)
			if (strcmp(m->grants[j].name, names[i].ours) == 0)
				return &m->grants[j];
	}
	return NULL;
}

/* One word of a list of tools, as it was written. */
struct token {
	char name[WORD_MAX];
	char spec[WORD_MAX];
	bool has_spec;
	bool too_long;
	bool glued;  /* something stands right behind the parenthesis */
	bool alone;  /* a comma, a line end or the end of the item follows */
};

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/*
 * Take the next word. 1; 0 at the end; -1: a parenthesis that is not closed.
 * A parenthesis belongs to the name before it, blanks between them or not:
 * "Bash (git:*)" must never be Bash.
 */
static int
next_token(const char **at, struct token *t)
{
	const char *p = *at, *start;
	size_t depth, n;

	memset(t, 0, sizeof(*t));
	p += strspn(p, " \t\r\n,");
	if (*p == '\0')
		return 0;
	n = strcspn(p, " \t\r\n,(");
	t->too_long = n >= sizeof(t->name);
	if (!t->too_long)
		memcpy(t->name, p, n);
	p += n;
	start = p + strspn(p, " \t\r\n");
	if (*start == '(') {
		t->has_spec = true;
		for (p = ++start, depth = 1; *p != '\0'; p++) {
			depth += *p == '(';
			depth -= *p == ')';
			if (depth == 0)
				break;
		}
		if (*p == '\0')
			return -1;
		n = (size_t)(p - start);
		t->too_long = t->too_long || n >= sizeof(t->spec);
		if (!t->too_long)
			memcpy(t->spec, start, n);
		p++;
		t->glued = *p != '\0' && strchr(" \t\r\n,", *p) == NULL;
	}
	*at = p;
	while (is_blank(*p))
		p++;
	t->alone = *p == '\0' || *p == ',' || *p == '\n';
	return 1;
}

/*
 * A limit in our words, or NULL: "//srv/x" is a path from the root, and
 * "domain:example.com" a host. Other paths belong to a project, other hosts to
 * a URL of which we could keep only a part.
 */
static char *
own_spec(enum class class, const char *spec)
{
	struct glob_set *set;
	const char *text = NULL, *why;
	bool good = false;

	if (class == CLASS_FILES && strncmp(spec, "//", 2) == 0 &&
	    strpbrk(spec, "{}[]\\!") == NULL)
		text = spec + 1;
	else if (class == CLASS_HOSTS && strncmp(spec, "domain:", 7) == 0)
		text = spec + 7;
	if (text == NULL)
		return NULL;
	set = glob_set_new(class == CLASS_FILES ? GLOB_FILE : GLOB_DOMAIN);
	if (set != NULL)
		good = glob_set_add(set, text, strlen(text), &why) == 0;
	glob_set_free(set);
	return good ? strdup(text) : NULL;
}

/* Why a limit cannot be kept, and what can be done. */
static const char *
why_not(const struct grant *g)
{
	if (strcmp(g->name, "Bash") == 0)
		return "Bash is allowed as a whole here or not at all; allow "
		       "it by hand only if any command will do";
	if (g->class == CLASS_FILES)
		return "a path of a project has no place here; allow the tool "
		       "by hand and write the path from the root into "
		       "x-allowed-files";
	if (g->class == CLASS_HOSTS)
		return "only domain:HOST can be kept; allow the tool by hand "
		       "and write the host into x-allowed-domains";
	return "this limit has no place here; allow the tool by hand and "
	       "write allowed_memory_scopes";
}

static void
add_limit(struct make *m, struct grant *g, const struct token *t,
    const struct foreign_item *item)
{
	char word[WORD_MAX], name[WORD_MAX];
	/* A command is no path, whatever it begins with. */
	char *spec = strcmp(g->name, "Bash") == 0
	    ? NULL
	    : own_spec(g->class, t->spec);

	show(name, t->name);
	show(word, t->spec);
	if (spec == NULL || g->specs_n == SPECS_MAX) {
		free(spec);
		note(m, MAPPING_DROPPED, item->line, item->field, "`%s(%s)`: %s",
		    name, word, why_not(g));
		return;
	}
	g->specs[g->specs_n++] = spec;
	g->named = true;
	note(m, MAPPING_MAPPED, item->line, item->field,
	    "`%s(%s)`: %s, limited by %s", name, word, g->name,
	    class_field[g->class]);
}

static void
allow(struct make *m, const struct token *t, const struct foreign_item *item)
{
	struct grant *g = find_grant(m, t->name);
	char name[WORD_MAX];

	show(name, t->name);
	if (g == NULL) {
		if (is_everything(t->name))
			note(m, MAPPING_DROPPED, item->line, item->field,
			    "`%s` names no tool; write each that is needed",
			    name);
		else if (strncmp(t->name, "mcp__", 5) == 0)
			note(m, MAPPING_DROPPED, item->line, item->field,
			    "`%s`: tools of MCP servers cannot be had through "
			    "this broker",
			    name);
		else
			note(m, MAPPING_DROPPED, item->line, item->field,
			    "`%s`: there is no such tool here", name);
		return;
	}
	if (t->has_spec && !is_everything(t->spec)) {
		add_limit(m, g, t, item);
		return;
	}
	/* "Read(*)" is everything in a project, and so less than everything. */
	if (t->has_spec && strcmp(g->name, "Bash") != 0 &&
	    g->class != CLASS_HOSTS) {
		note(m, MAPPING_DROPPED, item->line, item->field, "`%s(%s)`: %s",
		    name, t->spec, why_not(g));
		return;
	}
	g->named = g->bare = true;
	if (strcasecmp(t->name, g->name) == 0)
		note(m, MAPPING_MAPPED, item->line, item->field, "%s", g->name);
	else
		note(m, MAPPING_MAPPED, item->line, item->field, "`%s` is %s",
		    name, g->name);
}

/* Elsewhere Read stands for all that read, and Edit for all that write. */
static void
deny_kin(struct make *m, const char *name)
{
	static const char *const kin[][2] = { { "Read", "Glob" },
		{ "Read", "Grep" }, { "Edit", "Write" } };
	struct grant *g;
	size_t i;

	for (i = 0; i < sizeof(kin) / sizeof(kin[0]); i++) {
		g = strcmp(kin[i][0], name) == 0 ? find_grant(m, kin[i][1])
						 : NULL;
		if (g != NULL)
			g->denied = true;
	}
}

/* What was forbidden in part is forbidden whole. */
static void
deny(struct make *m, const struct token *t, const struct foreign_item *item)
{
	size_t skip = signs(t->name);
	struct grant *g = find_grant(m, t->name + skip);
	char name[WORD_MAX], word[WORD_MAX];

	show(name, g == NULL ? t->name : t->name + skip);
	show(word, t->spec);
	if (g == NULL && !is_foreign(t->name + skip)) {
		refuse(m, item->line,
		    "%s: `%s` may forbid any tool; write the names of tools",
		    item->field, name);
	} else if (g == NULL) {
		note(m, MAPPING_DROPPED, item->line, item->field,
		    "`%s`: there is no such tool here, so nobody can call it",
		    name);
	} else {
		g->denied = true;
		deny_kin(m, g->name);
		note(m, t->has_spec ? MAPPING_NARROWED : MAPPING_MAPPED,
		    item->line, item->field, t->has_spec
			? "`%s(%s)`: %s is forbidden as a whole, since a part "
			  "of it cannot be"
			: "`%s%s`: %s is forbidden",
		    name, word, g->name);
	}
}

/* "!Bash" in a list of what is allowed forbids it. */
static bool
is_forbidding(const struct token *t)
{
	return signs(t->name) > 0;
}

/* The words between two commas or line ends. */
struct chunk {
	struct token v[WORDS_MAX];
	size_t n;
	bool unclear; /* one of them is no name of a tool */
};

/* As it was written, but for what stands in parentheses. */
static void
show_chunk(char out[WORD_MAX], const struct chunk *c)
{
	char text[WORD_MAX] = "";
	size_t i;

	for (i = 0; i < c->n; i++) {
		if (i > 0)
			strlcat(text, " ", sizeof(text));
		strlcat(text, c->v[i].name, sizeof(text));
		strlcat(text, c->v[i].has_spec ? "(...)" : "", sizeof(text));
	}
	show(out, text);
}

static bool
may_limit_others(const struct chunk *c)
{
	size_t i;

	for (i = 0; i < c->n; i++)
		if (is_limiting(c->v[i].name))
			return true;
	return false;
}

/*
 * A word that is no name may belong to what stands beside it ("Bash git
 * status", "all and Bash"): then nothing there is taken. One that limits may
 * belong to any tool before it, also over a comma ("Bash, but only git").
 */
static void
take_chunk(
    struct make *m, struct chunk *c, const struct foreign_item *item)
{
	char word[WORD_MAX];
	size_t i;

	show_chunk(word, c);
	if (may_limit_others(c))
		refuse(m, item->line,
		    "%s: `%s` may limit other tools there, and is not "
		    "understood; write the names of tools alone",
		    item->field, word);
	else if (c->unclear && c->n > 1)
		note(m, MAPPING_DROPPED, item->line, item->field,
		    "`%s`: one of these words is no name of a tool and may "
		    "limit the others; separate tools by commas",
		    word);
	else
		for (i = 0; i < c->n; i++)
			allow(m, &c->v[i], item);
	c->n = 0;
	c->unclear = false;
}

/* A word that cannot be read at all? */
static bool
is_broken(const struct token *t)
{
	return t->too_long || t->glued || t->name[signs(t->name)] == '\0';
}

static void
take_word(struct make *m, const struct token *t, struct chunk *c,
    const struct foreign_item *item, bool denied)
{
	if (is_broken(t) || c->n == WORDS_MAX) {
		refuse(m, item->line,
		    "%s: a word is too long, or stands right behind a ), or "
		    "is a limit without a tool; separate tools by commas",
		    item->field);
	} else if (denied || is_forbidding(t)) {
		deny(m, t, item);
	} else {
		c->unclear = c->unclear || !is_name(t->name);
		c->v[c->n++] = *t;
	}
}

static bool
is_dash(const struct token *t)
{
	return strcmp(t->name, "-") == 0 && !t->has_spec;
}

/*
 * A dash alone is the mark of a list within a text that begins with one, perhaps
 * below a heading. Elsewhere it may be a minus.
 */
static bool
has_marks(const char *text)
{
	struct token t;
	size_t n;

	while (next_token(&text, &t) == 1) {
		n = strlen(t.name);
		if (is_dash(&t))
			return true;
		if (n == 0 || t.name[n - 1] != ':')
			return false;
	}
	return false;
}

/* A list of tools, as one text, or the items of one, each on a line. */
static void
take_words(struct make *m, const char *text, const struct foreign_item *item,
    bool denied)
{
	struct chunk *c = calloc(1, sizeof(*c));
	struct token t;
	bool marks = denied ||
	    (item->kind == FOREIGN_TEXT && has_marks(text));
	int got = 0;

	if (c == NULL) {
		m->no_memory = true;
		return;
	}
	while (!m->refused && (got = next_token(&text, &t)) == 1) {
		if (!marks || !is_dash(&t))
			take_word(m, &t, c, item, denied);
		if (t.alone)
			take_chunk(m, c, item);
	}
	take_chunk(m, c, item);
	if (got == -1)
		refuse(m, item->line, "%s: a ( is not closed", item->field);
	free(c);
}

/*
 * The items of a list, each ending a word; one that was split at a comma within
 * parentheses is put together again.
 */
static void
take_tools(struct make *m, const struct foreign_item *item, bool denied)
{
	struct buf b;
	size_t i;

	if (item->kind == FOREIGN_NOTHING)
		return;
	if (item->kind == FOREIGN_OTHER || item->hidden) {
		refuse(m, item->line,
		    "%s: neither a text nor a list of texts that can be read",
		    item->field);
		return;
	}
	buf_init(&b, 1024 * 1024);
	for (i = 0; i < item->n; i++) {
		buf_puts(&b, item->texts[i]);
		buf_puts(&b, ",\n");
	}
	buf_putc(&b, '\0');
	if (b.failed)
		m->no_memory = true;
	else
		take_words(m, b.data, item, denied);
	buf_clear(&b);
}

/* --- fields --- */

/* The first one counts, and a second spelling of it is told. */
static bool
first(struct make *m, const struct foreign_item **slot,
    const struct foreign_item *item)
{
	if (*slot == NULL) {
		*slot = item;
		return true;
	}
	note(m, MAPPING_DROPPED, item->line, item->field,
	    "`%s` on line %u says it already", (*slot)->field, (*slot)->line);
	return false;
}

static void
take_id(struct make *m, const struct foreign_item *item)
{
	first(m, &m->id_from, item);
}

static void
take_description(struct make *m, const struct foreign_item *item)
{
	first(m, &m->description_from, item);
}

static void
take_version(struct make *m, const struct foreign_item *item)
{
	first(m, &m->version_from, item);
}

/* "allowed-tools: none" */
static bool
says_none(const struct foreign_item *item)
{
	static const char *const words[] = { "none", "false", NULL };

	return item->kind == FOREIGN_TEXT && !item->hidden &&
	    is_one_of(words, item->texts[0]);
}

/* Of two lists of tools nobody knows which one counts. */
static void
take_allowed(struct make *m, const struct foreign_item *item)
{
	if (m->tools_from != NULL)
		refuse(m, item->line,
		    "`%s` and, on line %u, `%s`: keep one of the two",
		    item->field, m->tools_from->line, m->tools_from->field);
	m->tools_from = item;
	if (says_none(item))
		note(m, MAPPING_MAPPED, item->line, item->field, "no tool");
	else
		take_tools(m, item, false);
}

static void
take_denied(struct make *m, const struct foreign_item *item)
{
	take_tools(m, item, true);
}

/* "tools: {read: true, bash: false}", "permission: {edit: deny}" */
static void
take_switch(struct make *m, const struct foreign_item *item)
{
	static const char *const yes[] = { "true", "allow", NULL };
	static const char *const no[] = { "false", "deny", "ask", NULL };
	const char *name = strchr(item->field, '.') + 1;
	const char *value = item->kind == FOREIGN_TEXT ? item->texts[0] : "";
	struct token t;

	memset(&t, 0, sizeof(t));
	strlcpy(t.name, name, sizeof(t.name));
	if (item->hidden || strchr(name, '.') != NULL) /* a part of a tool */
		value = "";
	if (is_one_of(yes, value) && is_forbidding(&t))
		deny(m, &t, item);
	else if (is_one_of(yes, value) && !is_limiting(name))
		allow(m, &t, item);
	else if (is_one_of(no, value))
		deny(m, &t, item);
	else
		refuse(m, item->line,
		    "%s: may be a limit, and is not understood; write "
		    "allowed-tools with the names of tools",
		    item->field);
}

static void
take_tags(struct make *m, const struct foreign_item *item)
{
	first(m, &m->tags_from, item);
}

static void
take_files(struct make *m, const struct foreign_item *item)
{
	m->own[CLASS_FILES] = item;
}

static void
take_domains(struct make *m, const struct foreign_item *item)
{
	m->own[CLASS_HOSTS] = item;
}

static void
take_scopes(struct make *m, const struct foreign_item *item)
{
	m->scopes = item;
}

/* A field of ours: as it stands; the reader judges it at the end. */
static void
take_own(struct make *m, const struct foreign_item *item)
{
	if (item->kind != FOREIGN_TEXT || item->hidden) {
		refuse(m, item->line, "%s: one word or number is wanted",
		    item->field);
		return;
	}
	buf_puts(&m->extra, item->field);
	buf_puts(&m->extra, ": ");
	/* A number stands without quotes. */
	if (item->texts[0][strspn(item->texts[0], "0123456789")] == '\0')
		buf_puts(&m->extra, item->texts[0]);
	else
		json_put_string(&m->extra, item->texts[0],
		    strlen(item->texts[0]));
	buf_putc(&m->extra, '\n');
	note(m, MAPPING_MAPPED, item->line, item->field, "as it is");
}

/* Is a line of this name there already? */
static bool
is_kept(const struct make *m, const char *name)
{
	char line[WORD_MAX + 8];
	size_t n;
	const char *p = m->extra.data, *end = p + m->extra.len;

	n = (size_t)snprintf(line, sizeof(line), "x-%s: ", name);
	if (n >= sizeof(line))
		return false;
	while (p < end) {
		if ((size_t)(end - p) >= n && memcmp(p, line, n) == 0)
			return true;
		p = (const char *)memchr(p, '\n', (size_t)(end - p)) + 1;
	}
	return false;
}

/* For people: kept under a name that the broker does not read. */
static void
take_kept(struct make *m, const struct foreign_item *item)
{
	const char *name = strrchr(item->field, '.');
	const char *text = one_text(m, item);

	name = name == NULL ? item->field : name + 1;
	if (text == NULL)
		return;
	if (strlen(text) > KEPT_MAX) {
		note(m, MAPPING_DROPPED, item->line, item->field,
		    "too long for the frontmatter; put it into the text");
		return;
	}
	if (is_kept(m, name)) {
		note(m, MAPPING_DROPPED, item->line, item->field,
		    "x-%s is there already, by the line of another field",
		    name);
		return;
	}
	buf_puts(&m->extra, "x-");
	buf_puts(&m->extra, name);
	buf_puts(&m->extra, ": ");
	json_put_string(&m->extra, text, strlen(text));
	buf_putc(&m->extra, '\n');
	note(m, MAPPING_MAPPED, item->line, item->field,
	    "kept as x-%s, for people", name);
}

#define FOR_AGENT                                                              \
	"for the agent that reads the text; the broker has no use for it"

/* Names as fold() leaves them. NULL: dropped, and why. */
static const struct rule {
	const char *name;
	void (*take)(struct make *, const struct foreign_item *);
	const char *why;
} rules[] = {
    {"id", take_id, NULL},
    {"name", take_id, NULL},
    {"description", take_description, NULL},
    {"version", take_version, NULL},
    {"metadata.version", take_version, NULL},
    {"allowedtools", take_allowed, NULL},
    {"tools", take_allowed, NULL},
    {"permissions.allow", take_allowed, NULL},
    {"permission.allow", take_allowed, NULL},
    {"disallowedtools", take_denied, NULL},
    {"deniedtools", take_denied, NULL},
    {"permissions.deny", take_denied, NULL},
    {"permission.deny", take_denied, NULL},
    {"permissions.ask", take_denied, NULL},
    {"permission.ask", take_denied, NULL},
    {"tags", take_tags, NULL},
    {"keywords", take_tags, NULL},
    {"metadata.tags", take_tags, NULL},
    {"license", take_kept, NULL},
    {"compatibility", take_kept, NULL},
    {"author", take_kept, NULL},
    {"metadata.author", take_kept, NULL},
    {"homepage", take_kept, NULL},
    {"repository", take_kept, NULL},
    {"allowedmemoryscopes", take_scopes, NULL},
    {"syncclass", take_own, NULL},
    {"tenantscope", take_own, NULL},
    {"effortminutes", take_own, NULL},
    {"minbrokerversion", take_own, NULL},
    {"maxbrokerversion", take_own, NULL},
    {"signature", NULL, "a signature is of another text"},
    {"globs", NULL, "tells when an agent picks the skill, and grants nothing"},
    {"paths", NULL, "tells when an agent picks the skill, and grants nothing"},
    {"alwaysapply", NULL, FOR_AGENT},
    {"argumenthint", NULL, FOR_AGENT},
    {"model", NULL, FOR_AGENT},
    {"context", NULL, FOR_AGENT},
    {"agent", NULL, FOR_AGENT},
    {"userinvocable", NULL, FOR_AGENT},
    {"disablemodelinvocation", NULL, FOR_AGENT},
    {"whentouse", NULL, FOR_AGENT},
    {"whennottouse", NULL, FOR_AGENT},
    {"donotuse", NULL, FOR_AGENT},
    {"donotusewhen", NULL, FOR_AGENT},
    {"donotusefor", NULL, FOR_AGENT},
    {"notfor", NULL, FOR_AGENT},
    {"hooks", NULL, "the broker runs nothing but main"},
};

/* Keys of ours that begin with x-, with their exact names. */
static const struct rule own_rules[] = {
    {"x-allowed-files", take_files, NULL},
    {"x-allowed-domains", take_domains, NULL},
    {"x-memory-mb", take_own, NULL},
    {"x-max-processes", take_own, NULL},
    {"x-max-calls-per-minute", take_own, NULL},
    {"x-files-sha256", NULL, "a signature is of another text"},
};

static const struct rule *
find_rule(const char *field)
{
	char folded[WORD_MAX];
	size_t i;

	for (i = 0; i < sizeof(own_rules) / sizeof(own_rules[0]); i++)
		if (strcmp(own_rules[i].name, field) == 0)
			return &own_rules[i];
	fold(folded, field);
	for (i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (strcmp(rules[i].name, folded) == 0)
			return &rules[i];
	/* What is within a field that is dropped is dropped for its reason. */
	folded[strcspn(folded, ".")] = '\0';
	for (i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].take == NULL && strcmp(rules[i].name, folded) == 0)
			return &rules[i];
	return NULL;
}

/* --- keys that may be limits --- */

/*
 * What is dropped must be known to be no limit. At the top that takes a name of
 * these lists; in metadata and in x-..., where everybody invents names, one that
 * has no word in it by which people limit things. Names as fold() leaves them.
 */

/* Sentences for people, or for the agent: nobody looks for limits in them. */
static const char *const prose[] = { "about", "acknowledgements", "answer",
	"args", "arguments", "audience", "benefits", "changelog", "citation",
	"commandargmode", "commandtool", "comment", "comments", "displayname",
	"example", "examples", "expected", "goal", "goals", "input", "inputs",
	"installation", "keyword", "longdescription", "note", "notes",
	"objective", "objectives", "outcome", "outcomes", "output",
	"outputformat", "outputs", "overview", "parameters", "params",
	"persona", "prompt", "prompts", "purpose", "query", "question",
	"readwhen", "response", "seealso", "shortdescription", "style",
	"subtitle", "summary", "tagline", "title", "tone", "trigger",
	"triggerkeywords", "triggerphrases", "triggers", "triggerwords",
	"usageexamples", "usecase", "usecases", "usewhen", "voice", NULL };

/* Words that say what a skill is, looks like, needs or comes from. */
static const char *const plain[] = { "alias", "aliases", "always", "anybins",
	"apiversion", "apt", "arch", "argument", "author", "authors",
	"authorurl", "avatar", "badge", "badges", "banner", "beta", "binaries",
	"bins", "branch", "brew", "build", "categories", "category", "channel",
	"checksum", "color", "colour", "commanddispatch", "commit",
	"compatibility", "complexity", "contact", "contributors", "copyright",
	"cover", "created", "createdat", "createdby", "credits", "date",
	"dateadded", "dependencies", "depends", "dependson", "deprecated",
	"difficulty", "docs", "documentation", "doi", "downloads", "effort",
	"email", "emoji", "engine", "engines", "env", "environmentvariables",
	"envvars", "estimatedtime", "experimental", "favicon", "featured",
	"fileextensions", "filetypes", "format", "formats", "formula",
	"framework", "frameworks", "funding", "github", "hash", "homepage",
	"icon", "icons", "image", "images", "install", "kind", "label",
	"labels", "lang", "language", "languages", "lastmodified",
	"lastreviewed", "lastupdated", "libraries", "library", "license",
	"licenseurl", "link", "links", "locale", "locales", "logo",
	"maintainer", "maintainers", "maturity", "maxiterations", "maxsteps",
	"maxtokens", "maxturns", "mcp", "mcpservers", "metadataversion",
	"minversion", "model", "modified", "node", "nodeversion", "npm",
	"optionaldependencies", "order", "org", "organization", "origin", "os",
	"outputtype", "owner", "package", "packages", "pip", "platform",
	"platforms", "prerequisites", "price", "pricing", "primaryenv",
	"primarytool", "priority", "published", "publisher", "python",
	"pythontools", "pythonversion", "rank", "rating", "readingtime",
	"readme", "readtime", "reasoningeffort", "reference", "references",
	"related", "relatedskills", "release", "releasedate", "replaces",
	"repository", "requirements", "requires", "reviewed", "risk", "schema",
	"schemaversion", "screenshot", "screenshots", "sha256", "similar",
	"since", "skillauthor", "skillkey", "slug", "sort", "source", "sources",
	"sourceurl", "specversion", "sponsor", "stability", "stack", "stars",
	"status", "subcategory", "subtask", "supersedes", "tag", "tags", "team",
	"technologies", "techstack", "temperature", "testedon", "testedwith",
	"theme", "thumbnail", "tooltype", "topic", "topics", "topp", "twitter",
	"type", "updated", "updatedat", "updatedby", "upstream", "url", "uuid",
	"vendor", "version", "versions", "website", "weight", NULL };

/* Letters anywhere in a key, as fold() leaves it. */
static bool
has_letters(const char *folded, const char *const letters[])
{
	size_t i;

	for (i = 0; letters[i] != NULL; i++)
		if (strstr(folded, letters[i]) != NULL)
			return true;
	return false;
}

/* A key that forbids: an empty list of these is no limit. */
static bool
forbids(const char *key)
{
	static const char *const letters[] = { "blacklist", "block", "denied",
		"deny", "disable", "disallow", "exclu", "forbid", "prohibit",
		"without", NULL };
	static const char *const words[] = { "avoid", "ban", "banned", "bans",
		"cannot", "dont", "except", "exceptions", "ignore", "ignored",
		"never", "no", "non", "none", "not", "protect", "protected",
		"skip", NULL };
	char folded[WORD_MAX];

	fold(folded, key);
	return has_letters(folded, letters) || has_part(key, words);
}

/* One that bounds what may be done, or says where. */
static bool
bounds(const char *key)
{
	static const char *const letters[] = { "allow", "approv", "authoriz",
		"capabilit", "domains", "egress", "entitle", "guardrail",
		"hosts", "inbound", "ingress", "limit", "network", "offline",
		"online", "only", "outbound", "permission", "permit", "policies",
		"policy", "pretooluse", "privileg", "restrict", "sandbox",
		"whitelist", "workdir", NULL };
	static const char *const words[] = { "access", "acl", "action", "ask",
		"budget", "can", "chroot", "confine", "confined", "confirm",
		"confirmation", "connect", "connections", "constraint",
		"constraints", "contained", "cwd", "deadline", "directories",
		"dirs", "domain", "dry", "duration", "effect", "firewall",
		"folders", "grant", "granted", "grants", "guard", "guards",
		"host", "internet", "isolated", "isolation", "jail", "level",
		"lock", "locked", "may", "max", "maximum", "mode", "must", "net",
		"port", "ports", "profile", "proxy", "quota", "quotas", "rate",
		"remote", "right", "rights", "root", "rule", "rules", "safe",
		"safety", "scope", "scoped", "scopes", "secure", "security",
		"strict", "timeout", "timeouts", "trust", "trusted", "workspace",
		NULL };
	char folded[WORD_MAX];

	fold(folded, key);
	return has_letters(folded, letters) || has_part(key, words);
}

/* One that names a tool of ours, or what such tools work on. */
static bool
concerns_ours(const char *key)
{
	static const char *const letters[] = { "bash", "command", "fetch",
		"shell", "tool", NULL };
	static const char *const words[] = { "delete", "deletes", "download",
		"downloads", "executable", "executes", "post", "posts",
		"readable", "reads", "run", "runs", "upload", "uploads",
		"writable", "writeable", "writes", NULL };
	char folded[WORD_MAX];
	size_t i;

	fold(folded, key);
	if (is_known(key) || has_letters(folded, letters) ||
	    has_part(key, words) || has_part(key, kinds))
		return true;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *const name[] = { names[i].theirs, NULL };

		if (has_part(key, name))
			return true;
	}
	return false;
}

/* What has a rule by which it is dropped is dropped whatever it says. */
static bool
is_prose(const char *key, bool top)
{
	const struct rule *rule = top ? find_rule(key) : NULL;
	char folded[WORD_MAX];

	fold(folded, key);
	return is_one_of(prose, folded) || (rule != NULL && rule->take == NULL);
}

static bool
is_plain_key(const char *key)
{
	char folded[WORD_MAX];

	fold(folded, key);
	return is_one_of(plain, folded);
}

/* May this key limit something? What is above it does not. */
static bool
is_limit_key(const char *key, bool top, bool described)
{
	if (is_prose(key, top) || is_plain_key(key))
		return false;
	if (top && strcasecmp(key, "metadata") != 0 &&
	    strncasecmp(key, "x-", 2) != 0)
		return true;
	/* A backslash: characters that nobody sees. */
	return strchr(key, '\\') != NULL || forbids(key) || bounds(key) ||
	    (!described && concerns_ours(key));
}

/* "Bash", "Read, Write", "Edit|Write" */
static bool
names_tools(const char *s)
{
	char name[WORD_MAX];
	size_t n, count = 0;

	for (; *s != '\0'; s += n) {
		s += strspn(s, " \t\r\n,;|/+&");
		n = strcspn(s, " \t\r\n,;|/+&");
		snprintf(name, sizeof(name), "%.*s", (int)n, s);
		if (n > 0 && !is_known(name))
			return false;
		count += n > 0;
	}
	return count > 0;
}

/* A word that decides, or several of which one takes something away. */
static bool
is_limit_text(const char *s)
{
	static const char *const verdicts[] = { "block", "blocked", "deny",
		"denied", "disallow", "disallowed", "forbid", "forbidden",
		"offline", "prohibited", "readonly", "restricted", "sandbox",
		"sandboxed", NULL };

	return is_one_of(verdicts, s) ||
	    (has_part(s, limiting) && speaks_of_ours(s));
}

/* May what stands under this key be a limit, though its name does not say so? */
static bool
says_limit(const char *key, bool top, const struct foreign_item *item)
{
	bool strange = !is_plain_key(key);
	size_t i;

	if (is_prose(key, top))
		return false;
	for (i = 0; i < item->n; i++)
		if (is_limit_text(item->texts[i]) ||
		    (strange && names_tools(item->texts[i])))
			return true;
	return strange && item->hidden;
}

/* "devops" of a domain of knowledge, and no host. */
static bool
is_knowledge(const struct foreign_item *item)
{
	size_t i;

	for (i = 0; i < item->n; i++)
		if (strpbrk(item->texts[i], ".*:/") != NULL ||
		    strcasecmp(item->texts[i], "localhost") == 0 ||
		    is_one_of(limiting, item->texts[i]))
			return false;
	return item->n > 0;
}

/* What many write under a key that elsewhere is a limit. */
static bool
is_usual(const char *key, const struct foreign_item *item)
{
	static const struct {
		const char *key;
		const char *const words[10];
	} usual[] = {
	    {"level", {"advanced", "beginner", "easy", "expert", "hard",
			  "intermediate", NULL}},
	    {"mode", {"agent", "all", "false", "primary", "subagent", "true",
			 NULL}},
	    {"scope", {"architecture", "design", "implementation",
			  "infrastructure", "optimization", "system-design",
			  "testing", NULL}},
	    {"shell", {"bash", "dash", "fish", "powershell", "pwsh", "sh",
			  "zsh", NULL}},
	};
	char folded[WORD_MAX];
	size_t i;

	fold(folded, key);
	if (item->hidden)
		return false;
	if (strcmp(folded, "domain") == 0)
		return is_knowledge(item);
	/* Hooks without a command: names, and nothing that could say no. */
	if (item->kind == FOREIGN_LIST)
		return strcmp(folded, "pretooluse") == 0;
	if (item->kind != FOREIGN_TEXT)
		return false;
	for (i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		if (strcmp(folded, usual[i].key) == 0)
			return is_one_of(usual[i].words, item->texts[0]);
	return strcmp(folded, "glob") == 0 && /* of what the skill is for */
	    strpbrk(item->texts[0], ".*/") != NULL;
}

/* Plainly nothing; but an empty list of what is allowed allows nothing. */
static bool
is_empty(const char *key, const struct foreign_item *item)
{
	if (item->hidden)
		return false;
	if (item->kind == FOREIGN_LIST)
		return item->n == 0 && forbids(key);
	return item->kind == FOREIGN_NOTHING ||
	    (item->kind == FOREIGN_TEXT && item->texts[0][0] == '\0');
}

static bool
is_number(const char *key)
{
	return key[0] != '\0' && key[strspn(key, "0123456789")] == '\0';
}

/*
 * Might something be allowed that its author did not allow, if this field was
 * dropped? The items of a list are judged by the name of the list.
 */
static bool
may_limit(const char *field, const struct foreign_item *item)
{
	char key[WORD_MAX], name[WORD_MAX] = "";
	bool top = true, described = false;
	size_t n;

	for (;; field += n + 1) {
		n = strcspn(field, ".");
		snprintf(key, sizeof(key), "%.*s", (int)n, field);
		if (name[0] == '\0' || !is_number(key)) {
			top = name[0] == '\0';
			strlcpy(name, key, sizeof(name));
		}
		if (field[n] == '\0')
			break;
		if (is_limit_key(name, top, described))
			return true;
		described = described || is_prose(name, top) ||
		    is_plain_key(name);
	}
	return !is_empty(name, item) && !is_usual(name, item) &&
	    (is_limit_key(name, top, described) || says_limit(name, top, item));
}

/* A name that was too long lost what it ends with, or holds. */
static bool
is_cut(const char *field)
{
	return strstr(field, "...") != NULL;
}

static void
take_field(struct make *m, const struct foreign_item *item)
{
	const struct rule *rule = find_rule(item->field);

	if (rule != NULL && rule->take != NULL)
		rule->take(m, item);
	else if (strncasecmp(item->field, "tools.", 6) == 0 ||
	    strncasecmp(item->field, "permission.", 11) == 0)
		take_switch(m, item);
	else if (is_cut(item->field) || may_limit(item->field, item))
		refuse(m, item->line,
		    "%s: may be a limit, and is not understood; remove it, or "
		    "write allowed-tools with the names of tools; what only "
		    "describes may stand in metadata",
		    item->field);
	else
		note(m, MAPPING_DROPPED, item->line, item->field, "%s",
		    rule != NULL ? rule->why : "there is no such field here");
}

/* --- the grants together --- */

static bool
list_has(const char *const *list, size_t n, const char *text)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (strcmp(list[i], text) == 0)
			return true;
	return false;
}

static bool
is_allowed(const struct grant *g)
{
	return g->named && !g->denied;
}

/* Is this path or host granted to every tool of its class that is allowed? */
static bool
all_have(const struct make *m, enum class class, const char *spec)
{
	const struct foreign_item *own = m->own[class];
	const struct grant *g;
	size_t i;

	if (own != NULL &&
	    !list_has((const char *const *)own->texts, own->n, spec))
		return false;
	for (i = 0; i < m->grants_n; i++) {
		g = &m->grants[i];
		if (g->class == class && is_allowed(g) && !g->bare &&
		    !list_has((const char *const *)g->specs, g->specs_n, spec))
			return false;
	}
	return true;
}

/* Add what every tool has; what one of them has alone is told. */
static void
gather(struct make *m, enum class class, const char *spec, unsigned line,
    const char *field, struct list *granted)
{
	char word[WORD_MAX];

	if (list_has((const char *const *)granted->v, granted->n, spec))
		return;
	if (all_have(m, class, spec)) {
		granted->v[granted->n] = strdup(spec);
		if (granted->v[granted->n] == NULL)
			m->no_memory = true;
		else
			granted->n++;
		return;
	}
	note(m, MAPPING_NARROWED, line, field,
	    "`%s` is not granted: %s holds for all tools of its kind, and not "
	    "all of them had it",
	    show(word, spec), class_field[class]);
}

static void
grants_of(struct make *m, enum class class, struct list *granted)
{
	const struct foreign_item *own = m->own[class];
	const char *field = m->tools_from == NULL ? "tools"
						  : m->tools_from->field;
	unsigned line = m->tools_from == NULL ? 0 : m->tools_from->line;
	size_t i, j, room = 1;

	for (i = 0; i < m->grants_n; i++)
		room += m->grants[i].specs_n;
	room += own == NULL ? 0 : own->n;
	granted->v = calloc(room, sizeof(*granted->v));
	if (granted->v == NULL) {
		m->no_memory = true;
		return;
	}
	if (own != NULL && (own->kind != FOREIGN_LIST || own->hidden)) {
		refuse(m, own->line, "%s: a list is wanted", own->field);
		return;
	}
	for (i = 0; own != NULL && i < own->n; i++)
		gather(m, class, own->texts[i], own->line, own->field, granted);
	for (i = 0; i < m->grants_n; i++)
		for (j = 0; m->grants[i].class == class &&
		     is_allowed(&m->grants[i]) && j < m->grants[i].specs_n;
		     j++)
			gather(m, class, m->grants[i].specs[j], line, field,
			    granted);
}

/* Tools that are allowed and can reach nothing: said, not guessed. */
static void
tell_empty(struct make *m, enum class class, const char *field,
    const char *example)
{
	const struct grant *g;
	char list[WORD_MAX] = "";
	size_t i;

	for (i = 0; i < m->grants_n; i++) {
		g = &m->grants[i];
		if (g->class != class || !is_allowed(g))
			continue;
		if (list[0] != '\0')
			strlcat(list, ", ", sizeof(list));
		strlcat(list, g->name, sizeof(list));
	}
	if (list[0] != '\0')
		note(m, MAPPING_NARROWED, 0, field,
		    "%s allowed, but with nothing to reach: the author named "
		    "none that holds here; write %s: [%s]",
		    list, field, example);
}

/* --- the new text --- */

static void
put_texts(struct buf *b, const char *field, const char *const *list, size_t n)
{
	size_t i;

	buf_put_all(b, field, ": [");
	for (i = 0; i < n; i++) {
		if (i > 0)
			buf_puts(b, ", ");
		json_put_string(b, list[i], strlen(list[i]));
	}
	buf_puts(b, "]\n");
}

static void
put_tools(const struct make *m, struct buf *b)
{
	bool any = false, denied = false;
	size_t i;

	buf_puts(b, "allowed_tools: [");
	for (i = 0; i < m->grants_n; i++) {
		denied = denied || m->grants[i].denied;
		if (!is_allowed(&m->grants[i]))
			continue;
		buf_put_all(b, any ? ", " : "", m->grants[i].name);
		any = true;
	}
	buf_puts(b, "]\n");
	if (!denied)
		return;
	buf_puts(b, "disallowed_tools: [");
	for (i = 0, any = false; i < m->grants_n; i++) {
		if (!m->grants[i].denied)
			continue;
		buf_put_all(b, any ? ", " : "", m->grants[i].name);
		any = true;
	}
	buf_puts(b, "]\n");
}

/* One tag without blanks around it; what is too long or too many is told. */
static void
put_tag(struct make *m, struct buf *b, const char *s, size_t len, size_t *n)
{
	const struct foreign_item *from = m->tags_from;

	while (len > 0 && is_blank(s[0]))
		s++, len--;
	while (len > 0 && is_blank(s[len - 1]))
		len--;
	if (len == 0)
		return;
	if (json_utf8_points(s, len) > TAG_MAX || *n == TAGS_MAX) {
		note(m, MAPPING_DROPPED, from->line, from->field,
		    *n == TAGS_MAX ? "there is room for 10 tags"
				   : "a tag has at most 30 characters");
		return;
	}
	buf_puts(b, (*n)++ == 0 ? "tags: [" : ", ");
	json_put_string(b, s, len);
}

static void
put_tags(struct make *m, struct buf *b)
{
	const struct foreign_item *from = m->tags_from;
	size_t i, len, n = 0;
	const char *s;

	if (from == NULL || from->hidden ||
	    (from->kind != FOREIGN_TEXT && from->kind != FOREIGN_LIST)) {
		if (from != NULL)
			note(m, MAPPING_DROPPED, from->line, from->field,
			    "no texts");
		return;
	}
	for (i = 0; i < from->n; i++) {
		for (s = from->texts[i]; *s != '\0'; s += len + (s[len] != '\0')) {
			/* One text holds them with commas between. */
			len = from->kind == FOREIGN_TEXT ? strcspn(s, ",")
							 : strlen(s);
			put_tag(m, b, s, len, &n);
		}
	}
	if (n > 0) {
		buf_puts(b, "]\n");
		note(m, MAPPING_MAPPED, from->line, from->field, "tags");
	}
}

static void
put_description(const struct make *m, struct buf *b)
{
	size_t len = strlen(m->description), keep = len;
	char text[DESCRIPTION_MAX * 4 + 4];

	if (json_utf8_points(m->description, len) > DESCRIPTION_MAX)
		keep = cut_at(m->description);
	memcpy(text, m->description, keep);
	strlcpy(text + keep, keep < len ? "..." : "", 4);
	buf_puts(b, "description: ");
	json_put_string(b, text, strlen(text));
	buf_putc(b, '\n');
}

static void
put_class(struct make *m, struct buf *b, enum class class, const char *example)
{
	struct list granted = {NULL, 0};

	grants_of(m, class, &granted);
	if (granted.n > 0) {
		put_texts(b, class_field[class],
		    (const char *const *)granted.v, granted.n);
		if (m->own[class] != NULL)
			note(m, MAPPING_MAPPED, m->own[class]->line,
			    m->own[class]->field, "%s", class_field[class]);
	} else {
		tell_empty(m, class, class_field[class], example);
	}
	while (granted.n > 0)
		free(granted.v[--granted.n]);
	free(granted.v);
}

static void
put_all(struct make *m)
{
	struct buf *b = &m->out->text;
	const struct foreign_item *scopes = m->scopes;
	const char *quote = manifest_id_quote(m->id);

	if (scopes != NULL && (scopes->kind != FOREIGN_LIST || scopes->hidden)) {
		refuse(m, scopes->line, "%s: a list is wanted", scopes->field);
		return;
	}
	buf_puts(b, "---\n# Made by `cyberos skill import` from a SKILL.md of "
		    "another kind.\n");
	buf_put_all(b, "id: ", quote, m->id, quote, "\nversion: ", m->version,
	    "\n");
	put_description(m, b);
	put_texts(b, "allowed_memory_scopes",
	    scopes == NULL ? NULL : (const char *const *)scopes->texts,
	    scopes == NULL ? 0 : scopes->n);
	if (scopes != NULL)
		note(m, MAPPING_MAPPED, scopes->line, scopes->field,
		    "as it is");
	else
		tell_empty(m, CLASS_NONE, "allowed_memory_scopes",
		    "\"memories/notes/**\"");
	put_tools(m, b);
	put_class(m, b, CLASS_FILES, "\"/srv/data/**\"");
	put_class(m, b, CLASS_HOSTS, "\"api.example.com\"");
	put_tags(m, b);
	buf_put(b, m->extra.data, m->extra.len);
	buf_puts(b, "---\n");
	if (json_utf8_points(m->description, strlen(m->description)) > DESCRIPTION_MAX)
		buf_put_all(b, "\n", m->description, "\n\n");
	buf_put(b, m->src->body, m->src->body_len);
}

/* Elsewhere that may mean all tools of a session; here it is none. */
static void
tell_no_tools(struct make *m)
{
	size_t i;

	for (i = 0; i < m->grants_n; i++)
		if (m->grants[i].named)
			return;
	note(m, MAPPING_NARROWED, 0, "allowed_tools",
	    "none, since the original names none; write the tools that the "
	    "skill needs");
}

/* By the reader that decides about a run. */
static void
judge(struct make *m)
{
	struct policy policy;
	struct manifest manifest;
	int result;

	if (policy_init(&policy) == -1) {
		m->no_memory = true;
		return;
	}
	result = manifest_parse(m->out->text.data, m->out->text.len, &policy,
	    registry_names(), CYBEROS_VERSION, &manifest);
	if (result == -1)
		m->no_memory = true;
	else if (manifest.errors_n > 0)
		refuse(m, 0, "what comes out is not valid: %s: %s",
		    manifest.errors[0].field, manifest.errors[0].message);
	manifest_clear(&manifest);
	policy_clear(&policy);
}

static void
clear_make(struct make *m)
{
	size_t i, j;

	for (i = 0; i < m->grants_n; i++)
		for (j = 0; j < m->grants[i].specs_n; j++)
			free(m->grants[i].specs[j]);
	free(m->description);
	buf_clear(&m->extra);
}

int
mapping_make(struct mapping *out, const struct mapping_source *src)
{
	struct make *m = calloc(1, sizeof(*m));
	size_t i;
	int result = -1;

	memset(out, 0, sizeof(*out));
	buf_init(&out->text, (size_t)2 * MANIFEST_FILE_MAX);
	if (m == NULL)
		return -1;
	m->out = out;
	m->src = src;
	buf_init(&m->extra, MANIFEST_YAML_MAX);
	init_grants(m);
	for (i = 0; i < src->fields->n && !m->refused; i++)
		take_field(m, &src->fields->items[i]);
	if (!m->refused && m->tools_from == NULL)
		tell_no_tools(m);
	if (!m->refused)
		choose_id(m);
	if (!m->refused)
		choose_version(m);
	if (!m->refused)
		choose_description(m);
	if (!m->refused && !m->no_memory)
		put_all(m);
	if (out->text.failed || m->extra.failed)
		refuse(m, 0, "it is too large");
	if (!m->refused && !m->no_memory)
		judge(m);
	if (m->no_memory)
		errno = ENOMEM;
	else if (m->refused)
		errno = EINVAL;
	else
		result = 0;
	clear_make(m);
	free(m);
	return result;
}

void
mapping_clear(struct mapping *m)
{
	size_t i;

	for (i = 0; i < m->n; i++) {
		free(m->notes[i].field);
		free(m->notes[i].text);
	}
	buf_clear(&m->text);
	memset(m, 0, sizeof(*m));
}
