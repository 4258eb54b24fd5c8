/* One row, one line: the table of kinds, cut texts, and what a reader takes. */

#include "audit/row.h"

#include <errno.h>

#include "audit/json.h"
#include "t/unit/tap.h"

#define INV "0a1b2c3d-0000-4000-8000-00000000eeee"
#define TRACE "0123456789abcdef0123456789abcdef"
#define ZERO "0000000000000000000000000000000000000000000000000000000000000000"

static struct digest *digest;
static const struct row_subject subject = {INV, "demo", TRACE, NULL};

/* The line of a finished row; its length, or 0. */
static size_t
line_of(struct row *row, struct buf *out)
{
	struct row_place at = {INV, NULL, 7, ROW_BY_BROKER, ZERO};
	char hash[DIGEST_HEX];

	buf_init(out, 2 * ROW_MAX);
	if (row_end(row) == -1 || row_line(row, &at, out, hash) == -1)
		return 0;
	return out->len;
}

static void
begin_denied(struct row *r)
{
	row_begin(r, ROW_TOOL_DENIED, &subject, digest);
	row_word(r, "tool_name", "Read");
	row_word(r, "reason", "protected");
	row_word(r, "attempted_args_hash", ZERO);
	row_word(r, "violation", "/x");
}

static void
test_table(void)
{
	struct buf line;
	struct row r;

	begin_denied(&r);
	ok(line_of(&r, &line) > 0 && memmem(line.data, line.len,
					 "\"violation\":\"/x\"}", 17) != NULL,
	    "optional fields may be left out");
	row_clear(&r);
	buf_clear(&line);
	begin_denied(&r);
	row_int(&r, "count", 3);
	ok(line_of(&r, &line) > 0, "or one of them");
	row_clear(&r);
	buf_clear(&line);
	begin_denied(&r);
	row_int(&r, "call", 1);
	row_int(&r, "count", 3);
	ok(line_of(&r, &line) > 0, "or none");
	row_clear(&r);
	buf_clear(&line);
	begin_denied(&r);
	row_int(&r, "count", 3);
	row_int(&r, "call", 1);
	ok(row_end(&r) == -1, "but in their order");
	row_clear(&r);
	begin_denied(&r);
	row_int(&r, "extra", 3);
	ok(row_end(&r) == -1, "a field that is not in the table");
	row_clear(&r);
	row_begin(&r, ROW_TOOL_DENIED, &subject, digest);
	row_word(&r, "tool_name", "Read");
	row_word(&r, "reason", "protected");
	errno = 0;
	ok(row_end(&r) == -1 && errno == EINVAL, "fields that are missing");
	row_clear(&r);
	row_begin(&r, ROW_TOOL_DENIED, &subject, digest);
	row_word(&r, "reason", "protected");
	row_word(&r, "tool_name", "Read");
	row_word(&r, "attempted_args_hash", ZERO);
	row_word(&r, "violation", "/x");
	ok(row_end(&r) == -1, "fields in another order");
	row_clear(&r);
	row_begin(&r, ROW_NO_CONNECT, &subject, digest);
	row_int(&r, "waited_ms", 1);
	row_int(&r, "waited_ms", 1);
	ok(row_end(&r) == -1, "a field twice");
	row_clear(&r);
}

/* Fill a field and look at what stands in the payload. */
static void
text(const char *s, size_t len, size_t shown, bool cut, const char *name)
{
	char want[DIGEST_TEXT];
	struct json_span value, hash = {NULL, 0};
	struct row r;
	bool good;

	row_begin(&r, ROW_CAP_BYPASS, &subject, digest);
	row_word(&r, "syscall", "x");
	row_text(&r, "target", s, len);
	row_int(&r, "count", 1);
	good = row_end(&r) == 0 &&
	       json_scan(r.payload.data, r.payload.len, false, NULL, NULL) &&
	       json_member(r.payload.data, r.payload.len, "target", &value) &&
	       value.len <= ROW_TEXT_MAX + 2 &&
	       (shown == 0 || value.len == shown + 2) &&
	       json_member(r.payload.data, r.payload.len, "target_sha256",
		   &hash) == cut;
	if (good && cut) {
		digest_text(digest, s, len, want);
		good = hash.len == 66 && memcmp(hash.p + 1, want, 64) == 0;
	}
	ok(good, "text: %s", name);
	row_clear(&r);
}

static void
test_text(void)
{
	char s[40000];
	size_t i;

	memset(s, 'a', sizeof(s));
	text(s, 0, 0, false, "nothing");
	text(s, 1024, 1024, false, "1,024 bytes");
	text(s, 1025, 1024, true, "one more");
	text(s, sizeof(s), 1024, true, "very many");
	memset(s, '"', sizeof(s));
	text(s, 512, 1024, false, "512 quotes are 1,024 escaped");
	text(s, 513, 0, true, "513 are more");
	memset(s, 1, sizeof(s));
	text(s, 170, 1020, false, "control characters take six bytes");
	text(s, 171, 0, true, "one more is too many");
	memset(s, 0xff, sizeof(s));
	text(s, 341, 1023, false, "foreign bytes take three");
	text(s, 342, 0, true, "one more is too many");
	text(s, sizeof(s), 0, true, "many foreign bytes");
	for (i = 0; i + 4 <= 4000; i += 4)
		memcpy(s + i, "\xf0\x9f\x8d\xb8", 4);
	text(s, 1024, 1024, false, "256 characters of four bytes");
	text(s, 4000, 1024, true, "more of them");
	text(s, 1011, 1017, false, "a character that was cut before us");
	memcpy(s, "a\nb\"c", 5);
	text(s, 5, 7, false, "a line feed and a quote");
}

/* Each row has room, whatever is in it. */
static void
test_room(void)
{
	struct row_place at = {
	    INV, NULL, 9999999999999999999U, ROW_BY_RECOVERY, ZERO};
	struct row_read read;
	struct buf line, json;
	struct row r;
	char hash[DIGEST_HEX], kind[129], s[3000];
	size_t i;

	memset(s, 1, sizeof(s));
	row_begin(&r, ROW_INVOKED_STARTED, &subject, digest);
	buf_init(&json, 8192);
	buf_putc(&json, '{');
	for (i = 0; i < 60; i++)
		buf_printf(&json,
		    "%s\"layer_of_the_sandbox_%zu\":\"not built\"",
		    i == 0 ? "" : ",", i);
	buf_putc(&json, '}');
	row_text(&r, "version", s, sizeof(s));
	row_word(&r, "tenant_id", INV);
	row_text(&r, "caller_persona", s, sizeof(s));
	row_text(&r, "request_id", s, sizeof(s));
	row_word(&r, "args_hash", "hmac-sha256:" ZERO);
	row_word(&r, "frontmatter_hash", ZERO);
	row_json(&r, "sandbox", json.data, json.len);
	ok(line_of(&r, &line) > 0 && line.len > 5000 && line.len <= ROW_MAX,
	    "the longest start fits");
	buf_clear(&line);
	buf_clear(&json);
	row_clear(&r);

	memset(kind, 'k', 128);
	kind[128] = '\0';
	row_begin_skill(&r, kind, digest);
	buf_init(&json, ROW_MAX);
	buf_putc(&json, '"');
	while (json.len + r.payload.len + 10 < ROW_MAX - 512)
		buf_putc(&json, 'x');
	buf_putc(&json, '"');
	row_json(&r, "data", json.data, json.len);
	buf_init(&line, 2 * ROW_MAX);
	ok(row_end(&r) == 0 && row_line(&r, &at, &line, hash) == 0 &&
		line.len > ROW_MAX - 300 && line.len <= ROW_MAX,
	    "the longest of a skill fits");
	ok(row_read(line.data, line.len - 1, false, INV, digest, &read) == 0 &&
		strcmp(read.kind, kind) == 0 &&
		strcmp(read.by, "recovery") == 0 && read.seq == at.seq,
	    "and is read");
	row_clear(&r);
	row_begin_skill(&r, kind, digest);
	buf_reset(&json);
	while (json.len < ROW_MAX - 512)
		buf_putc(&json, '1');
	row_json(&r, "data", json.data, json.len);
	errno = 0;
	ok(row_end(&r) == -1 && errno == ENOBUFS, "a longer one is refused");
	row_clear(&r);
	buf_clear(&json);
	buf_clear(&line);
}

/* A buffer that is full keeps what it had. */
static void
test_full(void)
{
	struct row_place at = {INV, NULL, 1, ROW_BY_BROKER, ZERO};
	char hash[DIGEST_HEX] = "untouched";
	struct buf out;
	struct row r;
	size_t max;
	bool good = true;

	begin_denied(&r);
	row_end(&r);
	for (max = 5; max < 600; max += 7) {
		buf_init(&out, max);
		buf_puts(&out, "first");
		if (row_line(&r, &at, &out, hash) == 0)
			break;
		good = good && out.len == 5;
		buf_clear(&out);
	}
	ok(good && max > 300 && max < 600, "what does not fit leaves no piece");
	buf_clear(&out);
	row_clear(&r);
}

static void
test_read(void)
{
	struct row_place at = {NULL, INV, 3, ROW_BY_SUPERVISOR, ZERO};
	struct row_read read;
	struct buf line;
	struct row r;
	char hash[DIGEST_HEX], kept;
	size_t i;
	bool good = true;

	row_begin(&r, ROW_DAY_OPENED, NULL, digest);
	row_word(
	    &r, "prev_day", "x\",\"prev\":\"" ZERO "\",\"hash\":\"" ZERO "\"}");
	row_word(&r, "prev_head", NULL);
	buf_init(&line, ROW_MAX);
	ok(row_end(&r) == 0 && row_line(&r, &at, &line, hash) == 0 &&
		line.data[line.len - 1] == '\n' &&
		memchr(line.data, '\n', line.len - 1) == NULL,
	    "one line");
	ok(row_read(line.data, line.len - 1, true, INV, digest, &read) == 0 &&
		read.seq == 3 && strcmp(read.kind, "audit.day_opened") == 0 &&
		strcmp(read.by, "supervisor") == 0 &&
		strcmp(read.prev, ZERO) == 0 && strcmp(read.hash, hash) == 0 &&
		read.payload[0] == '{' &&
		read.payload[read.payload_len - 1] == '}',
	    "read as it was written, whatever its texts look like");
	ok(row_read(line.data, line.len - 1, false, INV, digest, &read) == -1,
	    "an anchor is no row of a segment");
	ok(row_read(line.data, line.len - 1, true, TRACE, digest, &read) == -1,
	    "nor one of another host");
	ok(row_read(line.data, line.len, true, INV, digest, &read) == -1,
	    "its line feed is not part of it");
	for (i = 0; i + 1 < line.len; i++) {
		kept = line.data[i];
		line.data[i] ^= 1;
		good = good && row_read(line.data, line.len - 1, true, INV,
				   digest, &read) == -1;
		line.data[i] = kept;
	}
	ok(good, "any byte changed is seen: %zu", i);
	good = true;
	for (i = 0; i + 1 < line.len; i++)
		good = good &&
		       row_read(line.data, i, true, INV, digest, &read) == -1;
	ok(good, "any stump is seen");
	row_clear(&r);
	buf_clear(&line);
}

/* A line with a hash that holds, but not of our form. */
static void
foreign(const char *format, const char *name)
{
	struct row_read read;
	struct buf line;
	char hash[DIGEST_TEXT];

	buf_init(&line, ROW_MAX);
	buf_puts(&line, format);
	buf_puts(&line, ",\"prev\":\"" ZERO "\"");
	digest_text(digest, line.data, line.len, hash);
	buf_printf(&line, ",\"hash\":\"%s\"}", hash);
	ok(row_read(line.data, line.len, false, INV, digest, &read) == -1,
	    "foreign: %s", name);
	buf_clear(&line);
}

static void
test_foreign(void)
{
#define HEAD "{\"v\":1,\"inv\":\"" INV "\",\"seq\":"
#define REST                                                                   \
	",\"ts\":\"2026-11-30T10:00:00.004000Z\",\"mono_ns\":1,"               \
	"\"by\":\"broker\",\"kind\":\"skill.x\",\"payload\":"
	foreign(HEAD "01" REST "{}", "a number with a zero before it");
	foreign(HEAD "-1" REST "{}", "a negative number");
	foreign(HEAD REST "{}", "no number");
	foreign(HEAD "99999999999999999999" REST "{}", "a number too large");
	foreign(HEAD "1 " REST "{}", "a blank");
	foreign(HEAD "1" REST "[]", "a payload that is no object");
	foreign(HEAD "1" REST, "no payload");
	foreign("{\"v\":2,\"inv\":\"" INV "\",\"seq\":1" REST "{}",
	    "another version");
	foreign("", "nothing");
}

int
main(void)
{
	digest = digest_new(NULL, 0);
	test_table();
	test_text();
	test_room();
	test_full();
	test_read();
	test_foreign();
	digest_free(digest);
	return done();
}
