/*
 * Reading along. A row counts when its hash holds and its number is the next
 * one; what a part has twice, since it was written again after a fault, is
 * passed over. A line that is not complete yet is not there yet.
 */

#include "supervisor/trail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "audit/json.h"
#include "enforce/manifest.h"

static int
open_part(const struct trail *t, unsigned part)
{
	char name[STORE_SEGMENT_NAME];

	store_segment_path(t->day, t->inv, part, name);
	return store_ledger_file(t->store, name);
}

/* The newest day that has a file of it. */
static int
find_day(struct trail *t)
{
	struct dirent *e;
	int dir, fd, found = -1;
	char best[CLOCK_DAY_SIZE] = "";
	DIR *d;

	dir = openat(t->store->audit_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = dir == -1 ? NULL : fdopendir(dir);
	if (d == NULL)
		return -1;
	while ((e = readdir(d)) != NULL) {
		if (strlen(e->d_name) != CLOCK_DAY_SIZE - 1 ||
		    strspn(e->d_name, "0123456789-") != CLOCK_DAY_SIZE - 1 ||
		    strcmp(e->d_name, best) <= 0)
			continue;
		strlcpy(t->day, e->d_name, sizeof(t->day));
		fd = open_part(t, 1);
		if (fd == -1)
			continue;
		strlcpy(best, e->d_name, sizeof(best));
		if (found != -1)
			close(found);
		found = fd;
	}
	closedir(d);
	strlcpy(t->day, best, sizeof(t->day));
	if (found == -1)
		errno = ENOENT;
	return found;
}

int
trail_open(struct trail *t, const struct store *store, const char *inv,
    struct digest *digest)
{
	memset(t, 0, sizeof(*t));
	t->store = store;
	t->digest = digest;
	strlcpy(t->inv, inv, sizeof(t->inv));
	t->part = 1;
	t->fd = find_day(t);
	if (t->fd == -1)
		return -1;
	if (lines_init(&t->lines, t->fd, 0) == 0)
		return 0;
	close(t->fd);
	t->fd = -1;
	return -1;
}

void
trail_close(struct trail *t)
{
	if (t->fd == -1)
		return;
	lines_clear(&t->lines);
	close(t->fd);
	t->fd = -1;
}

/* At the end of a part: is there another one? */
static bool
next_part(struct trail *t)
{
	int fd = open_part(t, t->part + 1);

	if (fd == -1)
		return false;
	trail_close(t);
	t->fd = fd;
	t->part++;
	t->line = 0;
	return lines_init(&t->lines, fd, 0) == 0;
}

static void
take_times(const char *line, size_t len, struct trail_row *r)
{
	struct json_span v;

	r->time[0] = '\0';
	r->mono_ns = 0;
	if (json_member(line, len, "ts", &v) && v.len > 2 &&
	    v.len - 2 < sizeof(r->time)) {
		memcpy(r->time, v.p + 1, v.len - 2);
		r->time[v.len - 2] = '\0';
	}
	if (json_member(line, len, "mono_ns", &v))
		r->mono_ns = strtoll(v.p, NULL, 10);
}

enum trail_event
trail_next(struct trail *t, struct trail_row *r)
{
	const char *line;
	size_t len;

	for (;;) {
		switch (lines_next(&t->lines, &line, &len)) {
		case LINES_ROW:
			t->line++;
			if (row_read(line, len, false, t->inv, t->digest,
				&r->row) == -1) {
				/* Of a part that failed; the next one says
				 * whether anything is missing. */
				t->bad = true;
				if (next_part(t))
					continue;
				return TRAIL_BAD;
			}
			if (r->row.seq <= t->seq)
				continue;
			if (r->row.seq != t->seq + 1)
				return TRAIL_BAD;
			t->seq = r->row.seq;
			t->bad = false;
			take_times(line, len, r);
			return TRAIL_ROW;
		case LINES_TOO_LONG:
			t->line++;
			return TRAIL_BAD;
		case LINES_FAILED:
			return TRAIL_FAILED;
		case LINES_END:
		case LINES_TORN: /* not yet; or for ever, and then a part
				  * follows */
			if (!next_part(t))
				return t->bad ? TRAIL_BAD : TRAIL_END;
		}
	}
}

char *
trail_text(const struct trail_row *r, const char *name)
{
	struct json_span v;
	cJSON *value;
	char *text;

	if (!json_member(r->row.payload, r->row.payload_len, name, &v) ||
	    (v.len == 4 && memcmp(v.p, "null", 4) == 0))
		return NULL;
	if (v.p[0] != '"')
		return strndup(v.p, v.len);
	value = json_parse(v.p, v.len, false);
	text = cJSON_IsString(value) ? strdup(value->valuestring) : NULL;
	cJSON_Delete(value);
	return text;
}

const char *
trail_show(const char *text, char *out, size_t size)
{
	if (text == NULL)
		strlcpy(out, "-", size);
	else
		manifest_printable(out, size, text);
	return out;
}

bool
trail_is(const struct trail_row *r, enum row_kind kind)
{
	return strcmp(r->row.by, "skill") != 0 &&
	    row_kind_of(r->row.kind) == kind;
}
