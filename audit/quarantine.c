/*
 * Few and small files, each replaced as a whole: after a crash there is the old
 * one or the new one. One lock for all of them, held for a few milliseconds and
 * never by a broker.
 */

#include "audit/quarantine.h"

#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/anchor.h"
#include "audit/json.h"

#define DIRECTORY "quarantine"
#define LOCK ".lock"
#define WAIT_MS 10000
#define TOTAL_MOST (UINT64_C(1) << 32) /* attempts of one invocation */
#define FILE_MAX ((size_t)4 << 20)
#define INVOCATIONS_MAX 10000 /* remembered of one skill; the newest */
/* An invocation lives for a day at most: longer ago it can tell nothing new. */
#define REMEMBER_MS (2 * QUARANTINE_WINDOW_MS)

/* What one invocation did at one time. */
struct mark {
	char inv[STORE_UUID_SIZE];
	uint64_t total; /* what it had done until then */
	uint64_t fresh; /* of these, new */
	int64_t at_ms;
};

struct state {
	struct quarantine_skill skill;
	int64_t since_ms; /* 0: it is not held */
	uint64_t attempts;
	bool told; /* the anchor is written */
	struct mark *marks;
	size_t n;
};

struct place {
	const struct store *store;
	struct digest *digest;
	int dir_fd;
	int lock_fd;
	char key[QUARANTINE_KEY_SIZE];
};

static int64_t
now_ms(void)
{
	return clock_wall() / CLOCK_MS;
}

static void
key_of(struct digest *digest, const struct quarantine_skill *q,
    char key[QUARANTINE_KEY_SIZE])
{
	char text[2 * DIGEST_HEX], hash[DIGEST_TEXT];
	int n = snprintf(text, sizeof(text), "%s %s", q->frontmatter_hash,
	    q->files_sha256);

	digest_text(digest, text, (size_t)n, hash);
	strlcpy(key, hash, QUARANTINE_KEY_SIZE);
}

static bool
is_key(const char *s)
{
	return strlen(s) == QUARANTINE_KEY_SIZE - 1 &&
	    strspn(s, "0123456789abcdef") == QUARANTINE_KEY_SIZE - 1;
}

/* --- the file --- */

/* 1; 0: there is none; -1. Nothing is made for who only looks. */
static int
enter(struct place *p, bool make)
{
	p->lock_fd = -1;
	p->dir_fd = store_directory(p->store, DIRECTORY, make);
	if (p->dir_fd == -1)
		return errno == ENOENT && !make ? 0 : -1;
	p->lock_fd = store_file(p->dir_fd, LOCK, O_RDWR | O_CREAT);
	if (p->lock_fd == -1 || store_lock_file(p->lock_fd, WAIT_MS) == -1)
		return -1;
	return 1;
}

static void
leave(struct place *p)
{
	int saved = errno;

	if (p->lock_fd != -1)
		close(p->lock_fd);
	if (p->dir_fd != -1)
		close(p->dir_fd);
	errno = saved;
}

static void
clear(struct state *s)
{
	free(s->marks);
	memset(s, 0, sizeof(*s));
}

static int
read_text(const struct place *p, struct buf *b)
{
	char name[QUARANTINE_KEY_SIZE + 8], *room;
	struct stat st;
	ssize_t n = -1;
	int fd;

	snprintf(name, sizeof(name), "%s.json", p->key);
	fd = store_file(p->dir_fd, name, O_RDONLY);
	if (fd == -1)
		return -1;
	if (fstat(fd, &st) == 0 &&
	    (room = buf_reserve(b, (size_t)st.st_size + 1)) != NULL)
		n = read(fd, room, (size_t)st.st_size + 1);
	close(fd);
	if (n < 0)
		return -1;
	buf_advance(b, (size_t)n);
	return 0;
}

static bool
text_of(const cJSON *o, const char *name, char *out, size_t size)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);

	return cJSON_IsString(v) && strlcpy(out, v->valuestring, size) < size;
}

static bool
number_of(const cJSON *o, const char *name, uint64_t *out)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);

	if (!cJSON_IsNumber(v) || v->valuedouble < 0 || v->valuedouble > 0x1p53)
		return false;
	*out = (uint64_t)v->valuedouble;
	return true;
}

static bool
parse_mark(const cJSON *o, struct mark *m)
{
	uint64_t at;

	if (!text_of(o, "invocation_id", m->inv, sizeof(m->inv)) ||
	    !number_of(o, "total", &m->total) ||
	    !number_of(o, "new", &m->fresh) || !number_of(o, "at_ms", &at))
		return false;
	m->at_ms = (int64_t)at;
	return true;
}

static bool
parse(const cJSON *o, struct state *s)
{
	const cJSON *e,
	    *list = cJSON_GetObjectItemCaseSensitive(o, "marks");
	uint64_t since;

	if (!text_of(o, "skill_id", s->skill.skill_id,
		sizeof(s->skill.skill_id)) ||
	    !text_of(o, "version", s->skill.version,
		sizeof(s->skill.version)) ||
	    !text_of(o, "frontmatter_hash", s->skill.frontmatter_hash,
		sizeof(s->skill.frontmatter_hash)) ||
	    !text_of(o, "files_sha256", s->skill.files_sha256,
		sizeof(s->skill.files_sha256)) ||
	    !number_of(o, "since_ms", &since) ||
	    !number_of(o, "attempts", &s->attempts) || !cJSON_IsArray(list))
		return false;
	s->since_ms = (int64_t)since;
	s->told =
	    cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "told"));
	/* One more than there are: the next mark. */
	s->marks = calloc((size_t)cJSON_GetArraySize(list) + 1,
	    sizeof(*s->marks));
	if (s->marks == NULL)
		return false;
	cJSON_ArrayForEach (e, list) {
		if (!parse_mark(e, &s->marks[s->n++]))
			return false;
	}
	return true;
}

/* 1; 0: it has none; -1: what is there is not ours, and nobody knows. */
static int
load(const struct place *p, struct state *s)
{
	struct buf b;
	cJSON *tree;
	int result = -1;

	memset(s, 0, sizeof(*s));
	buf_init(&b, FILE_MAX);
	if (read_text(p, &b) == -1) {
		result = errno == ENOENT ? 0 : -1;
	} else {
		tree = json_parse(b.data, b.len, false);
		errno = EBADMSG;
		if (tree != NULL && parse(tree, s))
			result = 1;
		cJSON_Delete(tree);
	}
	buf_clear(&b);
	if (result == -1)
		clear(s);
	return result;
}

static void
put(struct buf *b, const struct state *s)
{
	const struct mark *m;
	size_t i;

	buf_puts(b, "{\"v\":1,\"skill_id\":");
	json_put_string(b, s->skill.skill_id, strlen(s->skill.skill_id));
	buf_puts(b, ",\"version\":");
	json_put_string(b, s->skill.version, strlen(s->skill.version));
	buf_printf(b,
	    ",\"frontmatter_hash\":\"%s\",\"files_sha256\":\"%s\","
	    "\"since_ms\":%lld,\"attempts\":%llu,\"told\":%s,\"marks\":[",
	    s->skill.frontmatter_hash, s->skill.files_sha256,
	    (long long)s->since_ms, (unsigned long long)s->attempts,
	    s->told ? "true" : "false");
	for (i = 0; i < s->n; i++) {
		m = &s->marks[i];
		buf_printf(b,
		    "%s\n{\"invocation_id\":\"%s\",\"total\":%llu,"
		    "\"new\":%llu,\"at_ms\":%lld}",
		    i == 0 ? "" : ",", m->inv, (unsigned long long)m->total,
		    (unsigned long long)m->fresh, (long long)m->at_ms);
	}
	buf_puts(b, "]}\n");
}

static int
write_all(int fd, const struct buf *b)
{
	ssize_t n = write(fd, b->data, b->len);

	if (n >= 0 && (size_t)n != b->len)
		errno = ENOSPC;
	return n == (ssize_t)b->len ? fsync(fd) : -1;
}

static int
save(const struct place *p, const struct state *s)
{
	char name[QUARANTINE_KEY_SIZE + 8], fresh[QUARANTINE_KEY_SIZE + 8];
	struct buf b;
	int fd, result = -1;

	snprintf(name, sizeof(name), "%s.json", p->key);
	snprintf(fresh, sizeof(fresh), ".%s.new", p->key);
	buf_init(&b, FILE_MAX);
	put(&b, s);
	fd = store_file(p->dir_fd, fresh, O_WRONLY | O_CREAT | O_TRUNC);
	if (fd != -1 && !b.failed && write_all(fd, &b) == 0 &&
	    renameat(p->dir_fd, fresh, p->dir_fd, name) == 0)
		result = fsync(p->dir_fd);
	if (fd != -1)
		close(fd);
	buf_clear(&b);
	return result;
}

/* --- what is counted --- */

/* Of one who comes from the future, after a clock was set back, it is now. */
static bool
is_within(const struct mark *m, int64_t now, int64_t window)
{
	return m->at_ms > now || now - m->at_ms < window;
}

static uint64_t
recent(const struct state *s, int64_t now)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < s->n; i++) {
		if (is_within(&s->marks[i], now, QUARANTINE_WINDOW_MS))
			sum += s->marks[i].fresh;
	}
	return sum;
}

static void
forget(struct state *s, int64_t now)
{
	size_t i, n = 0, skip = 0;

	if (s->n >= INVOCATIONS_MAX)
		skip = s->n - INVOCATIONS_MAX + 1;
	for (i = skip; i < s->n; i++) {
		if (is_within(&s->marks[i], now, REMEMBER_MS))
			s->marks[n++] = s->marks[i];
	}
	s->n = n;
}

/* False: this invocation has told that already. */
static bool
add_mark(struct state *s, const char *inv, uint64_t total, int64_t now)
{
	uint64_t before = 0;
	struct mark *m;
	size_t i;

	for (i = 0; i < s->n; i++) {
		if (strcmp(s->marks[i].inv, inv) == 0 &&
		    s->marks[i].total > before)
			before = s->marks[i].total;
	}
	if (total <= before)
		return false;
	m = &s->marks[s->n++];
	strlcpy(m->inv, inv, sizeof(m->inv));
	m->total = total;
	m->fresh = total - before;
	m->at_ms = now;
	return true;
}

/* --- the ledger --- */

static int
tell(const struct place *p, const struct state *s, enum row_kind kind)
{
	struct anchor anchor;
	struct row row;
	int result;

	row_begin(&row, kind, NULL, p->digest);
	row_word(&row, "skill_id", s->skill.skill_id);
	row_word(&row, "version", s->skill.version);
	row_word(&row, "frontmatter_hash", s->skill.frontmatter_hash);
	row_word(&row, "files_sha256", s->skill.files_sha256);
	row_int(&row, "attempts", (int64_t)s->attempts);
	result = row_end(&row) == 0 ? anchor_append(p->store, &row,
					  ROW_BY_SUPERVISOR, p->digest, &anchor)
				    : -1;
	row_clear(&row);
	return result;
}

/* The state first, so that it holds whatever happens to us in between. */
static int
tell_held(const struct place *p, struct state *s)
{
	if (s->since_ms == 0 || s->told)
		return 0;
	if (tell(p, s, ROW_QUARANTINED) == -1)
		return -1;
	s->told = true;
	return save(p, s);
}

int
quarantine_held(const struct store *store, struct digest *digest,
    const struct quarantine_skill *q)
{
	struct place p = { .store = store, .digest = digest };
	struct state s;
	int result;

	key_of(digest, q, p.key);
	result = enter(&p, false);
	if (result == 1) {
		result = load(&p, &s);
		if (result == 1) {
			result = tell_held(&p, &s) == -1 ? -1
							 : s.since_ms != 0;
			clear(&s);
		}
	}
	leave(&p);
	return result;
}

static int
count_attempts(struct place *p, const struct quarantine_skill *q,
    const char *inv, uint64_t total, unsigned after, bool *held)
{
	int64_t now = now_ms();
	struct state s;
	int result = load(p, &s);

	if (result == -1)
		return -1;
	if (result == 0 && (s.marks = calloc(1, sizeof(*s.marks))) == NULL)
		return -1;
	s.skill = *q;
	forget(&s, now);
	result = 0;
	if (add_mark(&s, inv, total, now)) {
		*held = s.since_ms == 0 && recent(&s, now) >= after;
		if (*held) {
			s.since_ms = now;
			s.attempts = recent(&s, now);
			s.told = false;
		}
		result = save(p, &s);
	}
	if (result == 0)
		result = tell_held(p, &s);
	clear(&s);
	return result;
}

int
quarantine_attempts(const struct store *store, struct digest *digest,
    const struct quarantine_skill *q, const char *inv, uint64_t total,
    unsigned after, bool *held)
{
	struct place p = { .store = store, .digest = digest };
	int result;

	*held = false;
	/* A broker's word: all totals together must stay a number in JSON. */
	if (total > TOTAL_MOST)
		total = TOTAL_MOST;
	key_of(digest, q, p.key);
	result = enter(&p, true) == 1
	    ? count_attempts(&p, q, inv, total, after, held)
	    : -1;
	leave(&p);
	return result;
}

static int
list_one(const struct place *p, struct quarantine_entry **list, size_t *n)
{
	struct quarantine_entry *e;
	int64_t now = now_ms();
	struct state s;
	uint64_t sum;
	int result = load(p, &s);

	if (result != 1)
		return result;
	sum = recent(&s, now);
	if (s.since_ms == 0 && sum == 0) {
		clear(&s);
		return 0;
	}
	e = recallocarray(*list, *n, *n + 1, sizeof(*e));
	if (e != NULL) {
		*list = e;
		e += (*n)++;
		strlcpy(e->key, p->key, sizeof(e->key));
		e->skill = s.skill;
		e->held = s.since_ms != 0;
		e->since_ms = s.since_ms;
		e->attempts = e->held ? s.attempts : sum;
	}
	clear(&s);
	return e == NULL ? -1 : 0;
}

static int
by_key(const void *a, const void *b)
{
	const struct quarantine_entry *x = a, *y = b;

	return strcmp(x->key, y->key);
}

static int
list_all(struct place *p, struct quarantine_entry **list, size_t *n)
{
	struct dirent *e;
	DIR *d;
	int fd, result = 0;

	fd = openat(p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd == -1 ? NULL : fdopendir(fd);
	if (d == NULL) {
		if (fd != -1)
			close(fd);
		return -1;
	}
	while (result == 0 && (e = readdir(d)) != NULL) {
		if (strlcpy(p->key, e->d_name, sizeof(p->key)) !=
			sizeof(p->key) - 1 + 5 ||
		    !is_key(p->key))
			continue;
		result = list_one(p, list, n);
	}
	closedir(d);
	if (*n > 0)
		qsort(*list, *n, sizeof(**list), by_key);
	return result;
}

int
quarantine_list(const struct store *store, struct digest *digest,
    struct quarantine_entry **list, size_t *n)
{
	struct place p = { .store = store, .digest = digest };
	int result;

	*list = NULL;
	*n = 0;
	result = enter(&p, false);
	if (result == 1)
		result = list_all(&p, list, n);
	leave(&p);
	if (result == -1) {
		free(*list);
		*list = NULL;
		*n = 0;
	}
	return result;
}

static int
release(const struct place *p)
{
	struct state s;
	size_t i;
	int result = load(p, &s);

	if (result != 1)
		return result;
	if (s.since_ms == 0) {
		clear(&s);
		return 0;
	}
	/* In the ledger first: nothing is let go unseen. What runs may tell its
	 * total again, so that is remembered, and counts no more. */
	result = tell_held(p, &s);
	if (result == 0)
		result = tell(p, &s, ROW_RELEASED);
	s.since_ms = 0;
	s.attempts = 0;
	for (i = 0; i < s.n; i++)
		s.marks[i].fresh = 0;
	if (result == 0)
		result = save(p, &s);
	clear(&s);
	return result == 0 ? 1 : -1;
}

int
quarantine_release(const struct store *store, struct digest *digest,
    const char *key)
{
	struct place p = { .store = store, .digest = digest };
	int result = 0;

	if (is_key(key)) {
		strlcpy(p.key, key, sizeof(p.key));
		result = enter(&p, false);
		if (result == 1)
			result = release(&p);
		leave(&p);
	}
	if (result == 0)
		errno = ENOENT;
	return result == 1 ? 0 : -1;
}
