/*
 * Reading along. A row counts when its hash holds and its number is the next
 * one; what a part has twice, since it was written again after a fault, is
 * passed over. A line that is not complete yet is not there yet.
 */

#include "supervisor/trail.h"

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

/* Its first part, on the newest day that has one. */
static int
find_day(struct trail *t)
{
	struct store_days days;
	int fd = -1, error = ENOENT;

	if (store_days(t->store, &days) == -1)
		return -1;
	while (fd == -1 && days.n > 0) {
		strlcpy(t->day, days.day[--days.n], sizeof(t->day));
		fd = open_part(t, 1);
		/* It may be there; one of another day is taken all the same. */
		if (fd == -1 && errno != ENOENT && errno != ENOTDIR)
			error = errno;
	}
	free(days.day);
	errno = error;
	return fd;
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

/* At the end of a part: 1, there is another one; 0, there is none; -1. */
static int
next_part(struct trail *t)
{
	struct lines lines;
	int fd = open_part(t, t->part + 1);

	if (fd == -1)
		return errno == ENOENT ? 0 : -1;
	if (lines_init(&lines, fd, 0) == -1) {
		close(fd);
		return -1;
	}
	trail_close(t);
	t->fd = fd;
	t->lines = lines;
	t->part++;
	t->line = 0;
	return 1;
}

enum trail_event
trail_next(struct trail *t, struct trail_row *r)
{
	const char *line;
	size_t len;
	int more;

	for (;;) {
		switch (lines_next(&t->lines, &line, &len)) {
		case LINES_ROW:
			t->line++;
			if (row_read(line, len, false, t->inv, t->digest,
				&r->row) == -1) {
				/* Of a part that failed; the next one says
				 * whether anything is missing. */
				t->bad = true;
				more = next_part(t);
				if (more == 1)
					continue;
				return more == 0 ? TRAIL_BAD : TRAIL_FAILED;
			}
			if (r->row.seq <= t->seq)
				continue;
			if (r->row.seq != t->seq + 1)
				return TRAIL_BAD;
			t->seq = r->row.seq;
			t->bad = false;
			return TRAIL_ROW;
		case LINES_PIECE:
			continue;
		case LINES_LAST:
			t->line++;
			t->bad = true;
			more = next_part(t);
			if (more != 1)
				return more == 0 ? TRAIL_BAD : TRAIL_FAILED;
			continue;
		case LINES_FAILED:
			return TRAIL_FAILED;
		case LINES_END:
		case LINES_TORN: /* not yet; or for ever, and then a part
				  * follows */
			more = next_part(t);
			if (more == -1)
				return TRAIL_FAILED;
			if (more == 0)
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
