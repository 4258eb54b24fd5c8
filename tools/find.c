/*
 * Searches over granted files and memory. What is walked and opened is decided
 * in walk.c; here nothing is known but files that the skill might read one by
 * one, so results, counts and "truncated" cannot speak of others. A file goes
 * through a window of fixed size, lines that are longer are told of as not
 * searched whole, and whatever a pattern or a tree is like, the search ends:
 * with its results, too_complex, or timeout.
 */

#include "tools/find.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/clock.h"
#include "audit/json.h"
#include "tools/match.h"
#include "tools/walk.h"

#define SEARCH_NS (60 * CLOCK_SECOND)
#define WINDOW ((size_t)256 * 1024)
#define KEEP_MAX ((size_t)64 * 1024) /* before a line, for its context */
#define BINARY_HEAD ((size_t)64 * 1024)
#define TEXT_MAX ((size_t)8 * 1024) /* of a line, in a result */
#define LIMIT_DEFAULT 1000
#define LOOK_EVERY 64 /* lines between two looks at the clock */
#define RESERVE 128   /* what stands behind the list in a result */

/* --- which of the granted files are meant --- */

enum filter_kind {
	FILTER_ALL,
	FILTER_PATH,	 /* the whole path */
	FILTER_RELATIVE, /* below one of the bases */
	FILTER_NAME	 /* the last component */
};

struct filter {
	enum filter_kind kind;
	struct glob_set *set;
	struct places bases;
};

static bool
is_glob(const char *s)
{
	return strpbrk(s, "*?[{\\") != NULL;
}

/* The pattern that names files, NULL when there is none. */
static const char *
file_pattern(const struct call *c)
{
	return strcmp(c->check.tool->name, "Glob") == 0
		   ? call_text(c, "pattern")
		   : call_text(c, "glob");
}

static const char *
root_argument(const struct call *c)
{
	return strcmp(c->check.tool->name, "Glob") == 0 ? call_text(c, "root")
							: call_text(c, "path");
}

/* A set of this one pattern, or NULL with errno and, for EINVAL, *why. */
static struct glob_set *
one_glob(const char *pattern, bool memory, const char **why)
{
	enum glob_kind kind = pattern[0] == '/' ? GLOB_FILE : GLOB_RELATIVE;
	struct glob_set *set = glob_set_new(memory ? GLOB_MEMORY : kind);
	int saved;

	if (set == NULL ||
	    glob_set_add(set, pattern, strlen(pattern), why) == 0)
		return set;
	saved = errno;
	glob_set_free(set);
	errno = saved;
	return NULL;
}

static int
glob_root(const char *pattern, bool memory, char root[PATH_MAX])
{
	const char *why;
	struct glob_set *set = one_glob(pattern, memory, &why);
	size_t n;

	if (set == NULL)
		return -1;
	n = glob_set_prefix(set, 0);
	memcpy(root, pattern, n);
	root[n] = '\0';
	glob_set_free(set);
	return 0;
}

int
find_pattern_root(const struct call *c, char root[PATH_MAX])
{
	const char *pattern = file_pattern(c);

	if (pattern == NULL || pattern[0] != '/')
		return -1;
	return glob_root(pattern, false, root);
}

int
find_memory_path(const char *path, char canonical[PATH_MAX])
{
	size_t len = strlen(path);

	return is_glob(path) ? path_memory_glob(path, len, canonical)
			     : path_memory(path, len, canonical);
}

int
find_memory_root(const char *canonical, char root[PATH_MAX])
{
	if (is_glob(canonical))
		return glob_root(canonical, true, root);
	strlcpy(root, canonical, PATH_MAX);
	return 0;
}

bool
find_shape(struct call *c)
{
	bool memory = strcmp(c->check.tool->name, "MemorySearch") == 0;
	const char *name = strcmp(c->check.tool->name, "Glob") == 0 ? "pattern"
			   : memory				    ? "path"
								    : "glob";
	const char *pattern = call_text(c, name);
	const char *why = "out of memory";
	char canonical[PATH_MAX];
	struct glob_set *set;

	if (pattern == NULL || (memory && !is_glob(pattern)))
		return true;
	/* One that is too long is none, however short it would become. */
	if (memory && strlen(pattern) <= GLOB_PATTERN_MAX) {
		/* What is no memory path is refused, with a row. */
		if (find_memory_path(pattern, canonical) == -1 ||
		    !is_glob(canonical))
			return true;
		pattern = canonical;
	}
	set = one_glob(pattern, memory, &why);
	if (set == NULL)
		snprintf(
		    c->check.bad, sizeof(c->check.bad), "%s: %s", name, why);
	glob_set_free(set);
	return set != NULL;
}

enum place
find_place(const struct call *c)
{
	(void)c;
	return PLACE_WALK_WORKER;
}

/* What is below a base, or NULL. */
static const char *
below(const char *path, const char *base)
{
	if (!path_is_within(path, base))
		return NULL;
	path += strlen(base);
	return *path == '/' ? path + 1 : path;
}

static bool
relative_matches(const struct filter *f, const char *path, bool directory)
{
	const char *rest;
	size_t i;

	for (i = 0; i < f->bases.n; i++) {
		if (directory && path_is_within(f->bases.v[i], path))
			return true;
		rest = below(path, f->bases.v[i]);
		if (rest != NULL && (directory || rest[0] != '\0') &&
		    (directory ? glob_set_reaches(f->set, rest, strlen(rest))
			       : glob_match_path(f->set, rest, strlen(rest))))
			return true;
	}
	return false;
}

static bool
filter_wants(const struct filter *f, const char *path)
{
	const char *name;

	switch (f->kind) {
	case FILTER_ALL:
		break;
	case FILTER_PATH:
		return glob_match_path(f->set, path, strlen(path));
	case FILTER_RELATIVE:
		return relative_matches(f, path, false);
	case FILTER_NAME:
		name = strrchr(path, '/');
		name = name == NULL ? path : name + 1;
		return glob_match_path(f->set, name, strlen(name));
	}
	return true;
}

static bool
filter_wants_below(const struct filter *f, const char *dir)
{
	switch (f->kind) {
	case FILTER_ALL:
	case FILTER_NAME:
		break;
	case FILTER_PATH:
		return glob_set_reaches(f->set, dir, strlen(dir));
	case FILTER_RELATIVE:
		return relative_matches(f, dir, true);
	}
	return true;
}

static void
filter_clear(struct filter *f)
{
	glob_set_free(f->set);
	places_clear(&f->bases);
	memset(f, 0, sizeof(*f));
}

/* 0, or -1 with errno. */
static int
filter_set(struct filter *f, const struct call *c, const struct invocation *inv,
    const char *root, bool memory)
{
	const char *pattern = memory ? c->check.on.name : file_pattern(c);
	const char *why;

	if (pattern == NULL || (memory && !is_glob(pattern)))
		return 0;
	f->set = one_glob(pattern, memory, &why);
	if (f->set == NULL)
		return -1;
	f->kind = FILTER_PATH;
	if (memory || pattern[0] == '/')
		return 0;
	f->kind = FILTER_NAME;
	if (strcmp(c->check.tool->name, "Grep") == 0 &&
	    strchr(pattern, '/') == NULL)
		return 0;
	f->kind = FILTER_RELATIVE;
	if (root_argument(c) == NULL)
		return places_of_grants(&f->bases, inv->grant);
	f->bases.v = calloc(1, sizeof(*f->bases.v));
	if (f->bases.v == NULL)
		return -1;
	f->bases.v[0] = strdup(root);
	if (f->bases.v[0] == NULL)
		return -1;
	f->bases.n = 1;
	return 0;
}

/* --- a search --- */

struct search {
	struct call *call;
	struct filter filter;
	struct match *match;
	struct walk walk;
	bool memory;
	bool list; /* paths only: Glob */
	int64_t limit;
	size_t context; /* lines before and after */
	int64_t total;	/* of matches */
	int64_t given;	/* in the result */
	int64_t missed;
	bool truncated;
	enum failure failure;
	char *window;
	struct buf item;
};

static bool
wants(void *arg, const char *path)
{
	const struct search *s = arg;

	return filter_wants(&s->filter, path);
}

static bool
wants_below(void *arg, const char *dir)
{
	const struct search *s = arg;

	return filter_wants_below(&s->filter, dir);
}

static void
missed(void *arg)
{
	struct search *s = arg;

	s->missed++;
}

static bool
is_late(struct search *s)
{
	if (clock_boot() > s->walk.until)
		s->walk.late = true;
	return s->walk.late;
}

/*
 * Put the item into the result, if the limit and the answer's budget allow it.
 * False: the search need not go on.
 */
static bool
give(struct search *s)
{
	struct buf *out = &s->call->run.result;

	s->total++;
	if (s->given == s->limit) {
		s->truncated = true;
	} else if (s->item.failed ||
		   out->len + s->item.len + RESERVE > s->call->rpc.budget) {
		s->truncated = s->call->run.cut = true;
		s->limit = s->given;
	} else {
		if (s->given++ > 0)
			buf_putc(out, ',');
		buf_put(out, s->item.data, s->item.len);
	}
	return s->memory || !s->truncated;
}

static bool
list_file(void *arg, const struct walk_file *f)
{
	struct search *s = arg;

	buf_reset(&s->item);
	json_put_string(&s->item, f->path, strlen(f->path));
	return give(s);
}

/* --- the lines of a file --- */

/* A file in the window. Offsets are the window's. */
struct scan {
	struct search *s;
	const char *path;
	int fd;
	off_t size;
	off_t taken; /* of the file */
	char *data;
	size_t len;
	size_t at;	/* the first line that was not looked at yet */
	size_t counted; /* line ends before this are in line */
	int64_t line;	/* the number of the line at counted, from 1 */
	bool eof;
	bool binary;
	bool skipping; /* what comes is the rest of a line that is too long */
	bool cut;      /* a line, or the file, was not searched to its end */
};

static void
fill(struct scan *f)
{
	size_t room;
	ssize_t n;
	char *nul;

	while (!f->eof && f->len < WINDOW) {
		room = WINDOW - f->len;
		n = read(f->fd, f->data + f->len, room);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			f->cut = true;
		if (n <= 0) {
			f->eof = true;
			return;
		}
		nul = memchr(f->data + f->len, '\0', (size_t)n);
		if (nul != NULL) {
			/* As if the file ended here, or were not there. */
			n = nul - (f->data + f->len);
			f->eof = f->cut = true;
			f->binary = f->taken + n < (off_t)BINARY_HEAD;
		}
		f->taken += n;
		f->len += (size_t)n;
		if ((size_t)n < room && f->taken >= f->size)
			f->eof = true;
	}
}

static size_t
line_begin(const struct scan *f, size_t floor, size_t at)
{
	const char *p = memrchr(f->data + floor, '\n', at - floor);

	return p == NULL ? floor : (size_t)(p - f->data) + 1;
}

static size_t
line_end(const struct scan *f, size_t at)
{
	const char *p = memchr(f->data + at, '\n', f->len - at);

	return p == NULL ? f->len : (size_t)(p - f->data);
}

static void
count_to(struct scan *f, size_t at)
{
	const char *p = f->data + f->counted, *end = f->data + at;

	while (p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
		f->line++;
		p++;
	}
	f->counted = at;
}

/* The beginning of the lines before at that its context needs. */
static size_t
context_begin(const struct scan *f, size_t at)
{
	size_t floor = at > KEEP_MAX ? at - KEEP_MAX : 0, n;
	size_t whole = at;

	for (n = f->s->context; n > 0 && at > floor; n--) {
		at = line_begin(f, floor, at - 1);
		/* Half a line is none. */
		if (at > floor || at == 0)
			whole = at;
	}
	return whole;
}

/* Is what comes after this line in the window, as far as it is wanted? */
static bool
has_after(const struct scan *f, size_t end)
{
	size_t n;

	for (n = f->s->context; n > 0 && end < f->len; n--)
		end = line_end(f, end + 1 > f->len ? f->len : end + 1);
	return f->eof || end < f->len;
}

/* Is there more before a line, or behind it, than the window holds? */
static bool
context_is_cut(const struct scan *f, size_t from, size_t end)
{
	size_t begin = context_begin(f, from), at, n = 0;

	for (at = begin; at < from; at = line_end(f, at) + 1)
		n++;
	return (n < f->s->context &&
		   (begin > 0 || f->taken > (off_t)f->len)) ||
	       !has_after(f, end);
}

/* Make room behind the line at f->at, and read on. False: nothing changed. */
static bool
slide(struct scan *f)
{
	size_t keep = context_begin(f, f->at);

	if (f->eof || (keep == 0 && f->len == WINDOW))
		return false;
	count_to(f, f->at);
	memmove(f->data, f->data + keep, f->len - keep);
	f->len -= keep;
	f->at -= keep;
	f->counted -= keep;
	fill(f);
	return true;
}

static size_t
trimmed(const struct scan *f, size_t from, size_t to)
{
	return to > from && f->data[to - 1] == '\r' ? to - 1 : to;
}

static void
put_line(struct scan *f, size_t from, size_t to)
{
	struct buf *out = &f->s->item;
	size_t len = trimmed(f, from, to) - from;

	if (len > TEXT_MAX)
		len = json_utf8_cut(f->data + from, len, TEXT_MAX);
	json_put_string(out, f->data + from, len);
}

static void
put_before(struct scan *f, size_t at)
{
	size_t from = context_begin(f, at), end;
	const char *comma = "";

	buf_puts(&f->s->item, ",\"before\":[");
	for (; from < at; from = end + 1) {
		end = line_end(f, from);
		buf_puts(&f->s->item, comma);
		put_line(f, from, end);
		comma = ",";
	}
	buf_putc(&f->s->item, ']');
}

static void
put_after(struct scan *f, size_t from)
{
	const char *comma = "";
	size_t n, end;

	buf_puts(&f->s->item, ",\"after\":[");
	for (n = f->s->context; n > 0 && from < f->len; n--) {
		end = line_end(f, from);
		buf_puts(&f->s->item, comma);
		put_line(f, from, end);
		comma = ",";
		from = end + 1;
	}
	buf_putc(&f->s->item, ']');
}

static bool
give_line(struct scan *f, size_t from, size_t end, size_t column)
{
	struct search *s = f->s;

	count_to(f, from);
	if (s->given == s->limit) /* counted, but not shown */
		return give(s);
	buf_reset(&s->item);
	buf_puts(&s->item, "{\"path\":");
	json_put_string(&s->item, f->path, strlen(f->path));
	buf_printf(&s->item, ",\"line\":%lld", (long long)f->line);
	if (!s->memory)
		buf_printf(&s->item, ",\"column\":%zu", column + 1);
	buf_puts(&s->item, ",\"text\":");
	put_line(f, from, end);
	if (s->context > 0) {
		put_before(f, from);
		put_after(f, end + 1);
		f->cut |= context_is_cut(f, from, end);
	}
	buf_putc(&s->item, '}');
	return give(s);
}

/*
 * The lines from f->at up to end. False: the search is over. When the context
 * of a match is not there yet, it stops at its line.
 */
static bool
scan_lines(struct scan *f, size_t end)
{
	struct match *m = f->s->match;
	size_t found, from, to, column = 0;
	enum match_result got;
	unsigned n = 0;
	bool cut;

	while (f->at < end) {
		found = match_candidate(m, f->data, f->at, end);
		if (found >= end)
			break;
		if (++n % LOOK_EVERY == 0 && is_late(f->s))
			return false;
		from = line_begin(f, f->at, found);
		to = line_end(f, found);
		f->at = from;
		got = match_line(m, f->data + from, trimmed(f, from, to) - from,
		    &column, &cut);
		f->cut |= cut;
		if (got == MATCH_TOO_COMPLEX) {
			f->s->failure = FAIL_TOO_COMPLEX;
			return false;
		}
		if (got == MATCH_YES && !has_after(f, to) && slide(f))
			return true;
		if (got == MATCH_YES && !give_line(f, from, to, column))
			return false;
		f->at = to < end ? to + 1 : end;
	}
	f->at = end;
	return true;
}

/* Up to the last line that is whole; a line that fills the window is one. */
static size_t
whole_lines(struct scan *f)
{
	const char *last;

	if (f->eof)
		return f->len;
	last = memrchr(f->data + f->at, '\n', f->len - f->at);
	if (last != NULL)
		return (size_t)(last - f->data) + 1;
	if (f->len < WINDOW || context_begin(f, f->at) > 0)
		return f->at; /* there is room for more of it */
	f->skipping = f->cut = true;
	return f->len;
}

/* Pass over the rest of a line that was too long. */
static void
skip_rest(struct scan *f)
{
	size_t end;

	while (f->skipping && !f->eof) {
		f->len = f->at = f->counted = 0;
		fill(f);
		end = line_end(f, 0);
		if (end < f->len) {
			f->skipping = false;
			f->line++;
			f->at = f->counted = end + 1;
		}
	}
	if (f->skipping)
		f->at = f->len;
}

static bool
scan_file(struct scan *f)
{
	bool more = true;

	fill(f);
	while (more && !f->binary && f->at < f->len) {
		more = scan_lines(f, whole_lines(f)) && !is_late(f->s);
		if (!more || (f->eof && f->at == f->len))
			break;
		if (f->skipping && f->at == f->len) {
			count_to(f, f->at);
			skip_rest(f);
		} else {
			slide(f);
		}
	}
	return more;
}

static bool
search_file(void *arg, const struct walk_file *file)
{
	struct search *s = arg;
	struct scan f = {.s = s,
	    .path = file->path,
	    .fd = file->fd,
	    .size = file->size,
	    .data = s->window,
	    .line = 1};
	bool more;

	more = scan_file(&f);
	if (f.cut && !f.binary)
		s->missed++;
	return more;
}

/* --- the tools --- */

static void
search_end(struct search *s, int result)
{
	struct call *c = s->call;

	if (s->failure != FAIL_NONE) {
		call_fail(c, s->failure);
	} else if (s->walk.late) {
		call_fail(c, FAIL_TIMEOUT);
	} else if (result == -1) {
		call_fail_errno(c, ENOMEM);
	} else {
		buf_putc(&c->run.result, ']');
		if (s->memory)
			result_int(c, "total", s->total);
		result_bool(c, "truncated", s->truncated);
		if (s->missed > 0)
			result_int(c, "incomplete", s->missed);
		result_end(c);
	}
	filter_clear(&s->filter);
	match_free(s->match);
	freezero(s->window, s->window == NULL ? 0 : WINDOW);
	buf_clear(&s->item);
}

/* From the root that the check has found. */
static void
search_run(struct search *s, struct call *c, struct invocation *inv)
{
	const char *root = c->check.on.name == NULL ? "" : c->check.on.name;
	char memory_root[PATH_MAX];
	int result = -1;

	s->call = c;
	s->limit = call_int(c, "limit", LIMIT_DEFAULT);
	s->context = (size_t)call_int(c, "context", 0);
	buf_init(&s->item, CALL_RESPONSE_MAX);
	if (s->memory && find_memory_root(root, memory_root) == 0)
		root = memory_root;
	if (strcmp(root, "/") == 0)
		root = "";
	s->walk.inv = inv;
	s->walk.memory = s->memory;
	s->walk.opens = !s->list;
	s->walk.until = clock_boot() + SEARCH_NS;
	s->walk.wants = wants;
	s->walk.wants_below = wants_below;
	s->walk.file = s->list ? list_file : search_file;
	s->walk.missed = missed;
	s->walk.arg = s;
	result_begin(c);
	buf_puts(&c->run.result, s->list ? "\"paths\":[" : "\"matches\":[");
	if (!s->list)
		s->window = malloc(WINDOW);
	if ((s->list || s->window != NULL) &&
	    filter_set(&s->filter, c, inv, root, s->memory) == 0)
		result = walk_run(&s->walk, root);
	search_end(s, result);
}

void
find_glob(struct call *c, struct invocation *inv)
{
	struct search s = {.list = true};

	search_run(&s, c, inv);
}

static void
search_lines(struct call *c, struct invocation *inv, const char *pattern,
    bool literal, bool memory)
{
	struct search s = {.memory = memory};
	int trouble = 0;

	s.match = match_new(
	    pattern, literal, call_flag(c, "ignore_case"), &trouble);
	if (s.match != NULL)
		search_run(&s, c, inv);
	else if (errno == EINVAL) {
		call_fail(c, FAIL_INVALID_PATTERN);
		c->run.error = trouble;
	} else
		call_fail_errno(c, errno);
}

void
find_grep(struct call *c, struct invocation *inv)
{
	search_lines(c, inv, call_text(c, "pattern"), false, false);
}

void
find_memory(struct call *c, struct invocation *inv)
{
	search_lines(
	    c, inv, call_text(c, "query"), !call_flag(c, "regex"), true);
}
