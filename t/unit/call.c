/*
 * tools/call: base64 both ways, bodies cut to their budget at a character or a
 * group, results that never exceed it, words of failures.
 */

#include "tools/call.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#include "audit/json.h"
#include "t/unit/tap.h"

static void
test_base64(void)
{
	static const struct {
		const char *text, *code;
	} good[] = {
	    {"", ""},
	    {"f", "Zg=="},
	    {"fo", "Zm8="},
	    {"foo", "Zm9v"},
	    {"foob", "Zm9vYg=="},
	    {"\xfb\xff\xfe", "+//+"},
	};
	static const char *const bad[] = {"Z", "Zg",
	    "Zg=", "Zg===", "====", "=", "Zh==", "Zm9=", "Zg==Zg==", "Zm 9v",
	    "Zm9v\n", "Zm-_", "Zg=a", "Z===", "\xc3\xa9\xc3\xa9", "Zm9v Zm9v",
	    "=m9v", "Zm9vZ"};
	struct buf b;
	char *out;
	size_t i, len;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		buf_init(&b, 100);
		ok(base64_encode(&b, good[i].text, strlen(good[i].text)) == 0 &&
			b.len == strlen(good[i].code) &&
			memcmp(b.len == 0 ? "" : b.data, good[i].code, b.len) ==
			    0,
		    "base64 of %zu bytes", strlen(good[i].text));
		buf_clear(&b);
		out = NULL;
		ok(base64_decode(
		       good[i].code, strlen(good[i].code), &out, &len) == 0 &&
			len == strlen(good[i].text) &&
			memcmp(out, good[i].text, len) == 0 && out[len] == '\0',
		    "and back: %s", good[i].code);
		free(out);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		out = NULL;
		errno = 0;
		if (!ok(base64_decode(bad[i], strlen(bad[i]), &out, &len) ==
				-1 &&
			    errno == EINVAL && out == NULL,
			"not base64 (%zu)", i))
			printf("# %s\n", bad[i]);
	}
	out = NULL;
	ok(base64_decode("Zg=\0", 4, &out, &len) == -1 && out == NULL,
	    "a NUL is no digit");
}

static void
test_base64_random(void)
{
	char data[300], *out;
	struct buf b;
	size_t i, n, len, wrong = 0;

	for (i = 0; i < 2000; i++) {
		n = arc4random_uniform(sizeof(data));
		arc4random_buf(data, n);
		buf_init(&b, 1000);
		out = NULL;
		if (base64_encode(&b, data, n) == -1 ||
		    b.len != (n + 2) / 3 * 4 ||
		    base64_decode(b.data, b.len, &out, &len) == -1 ||
		    len != n || memcmp(out, data, n) != 0)
			wrong++;
		free(out);
		buf_clear(&b);
	}
	is_int((long long)wrong, 0, "2000 random texts come back");
	buf_init(&b, 10);
	ok(base64_encode(&b, data, 100) == -1 && b.failed && b.len == 0,
	    "encoding does not exceed its buffer");
	buf_clear(&b);
}

/*
 * The body of n bytes with this budget; how many went in. The result has to be
 * a JSON object of at most budget bytes, whatever happens.
 */
static size_t
body(const char *p, size_t n, size_t budget, const char *encoding, bool *cut)
{
	struct call *c = call_new();
	const char *text, *enc;
	size_t taken, len = 0;
	char *bytes = NULL;
	cJSON *root;

	c->rpc.budget = budget;
	result_begin(c);
	taken = result_body(c, p, n, 64);
	result_int(c, "size", INT64_C(1) << 53);
	result_end(c);
	*cut = c->run.cut;
	root = json_parse(c->run.result.data, c->run.result.len, false);
	text = cJSON_GetStringValue(
	    cJSON_GetObjectItemCaseSensitive(root, "body"));
	enc = cJSON_GetStringValue(
	    cJSON_GetObjectItemCaseSensitive(root, "encoding"));
	if (text == NULL || enc == NULL || strcmp(enc, encoding) != 0) {
		taken = SIZE_MAX;
	} else if (strcmp(enc, "utf-8") == 0) {
		if (strlen(text) != taken || memcmp(text, p, taken) != 0)
			taken = SIZE_MAX;
	} else if (base64_decode(text, strlen(text), &bytes, &len) == -1 ||
		   len != taken || memcmp(bytes, p, taken) != 0) {
		taken = SIZE_MAX;
	}
	if (budget >= 256 && c->run.result.len > budget)
		taken = SIZE_MAX;
	free(bytes);
	cJSON_Delete(root);
	call_free(c);
	return taken;
}

static void
test_cut(void)
{
	static const char snow[] = "\xe2\x98\x83";
	char text[3001], bytes[3000];
	size_t budget, taken, wrong = 0, i, room;
	bool cut;

	for (i = 0; i < 3000; i++)
		text[i] = snow[i % 3];
	text[3000] = '\0';
	for (budget = 0; budget < 3400; budget++) {
		taken = body(text, 3000, budget, "utf-8", &cut);
		if (taken > 3000 || taken % 3 != 0 || cut != (taken < 3000))
			wrong++;
	}
	is_int((long long)wrong, 0, "text is cut between characters only");
	ok(body(text, 3000, 3400, "utf-8", &cut) == 3000 && !cut,
	    "with room enough it is whole");
	ok(body(text, 3000, 2000, "utf-8", &cut) > 1700 && cut,
	    "a cut one uses its budget");
	memset(text, '\x01', 3000);
	taken = body(text, 3000, 6000, "utf-8", &cut);
	ok(taken > 900 && taken < 1000 && cut, "escapes count in full");
	memset(text, '"', 3000);
	taken = body(text, 3000, 3000, "utf-8", &cut);
	ok(taken > 1300 && taken < 1500 && cut, "quotes count twice");
	memset(bytes, 0xff, sizeof(bytes));
	for (wrong = 0, budget = 0; budget < 4600; budget++) {
		taken = body(bytes, sizeof(bytes), budget, "base64", &cut);
		room = taken % 3;
		if (taken > 3000 || (taken < 3000 && room != 0) ||
		    cut != (taken < 3000))
			wrong++;
	}
	is_int((long long)wrong, 0, "base64 is cut between groups only");
	ok(body("", 0, 4096, "utf-8", &cut) == 0 && !cut, "an empty body");
	ok(body("", 0, 0, "utf-8", &cut) == 0 && !cut, "without any room");
	ok(body("a\0b", 3, 4096, "base64", &cut) == 3 && !cut,
	    "a NUL makes it bytes: no strict reader takes it in JSON");
}

static void
test_result(void)
{
	struct call *c = call_new();
	char *large;

	result_begin(c);
	result_text(c, "a", "x\"\n\xff");
	result_text(c, "b", NULL);
	result_int(c, "c", INT64_MIN);
	result_bool(c, "d", true);
	result_end(c);
	buf_putc(&c->run.result, '\0');
	is_str(c->run.result.data,
	    "{\"a\":\"x\\\"\\n\xef\xbf\xbd\",\"b\":null,"
	    "\"c\":-9223372036854775808,\"d\":true}",
	    "members are escaped and joined");
	call_free(c);

	c = call_new();
	large = malloc(CALL_RESPONSE_MAX + 1);
	memset(large, 'x', CALL_RESPONSE_MAX);
	large[CALL_RESPONSE_MAX] = '\0';
	result_begin(c);
	result_text(c, "a", large);
	result_end(c);
	ok(c->run.outcome == OUTCOME_ERROR &&
		c->run.failure == FAIL_TOO_LARGE && c->run.result.len == 0,
	    "a result beyond all bounds is a failure");
	free(large);
	call_free(c);
}

static void
test_failures(void)
{
	static const struct {
		int error;
		enum failure failure;
	} rows[] = {
	    {ENOENT, FAIL_NOT_FOUND},
	    {ENOTDIR, FAIL_NOT_FOUND},
	    {EEXIST, FAIL_EXISTS},
	    {EISDIR, FAIL_IS_A_DIRECTORY},
	    {EACCES, FAIL_PERMISSION},
	    {EPERM, FAIL_PERMISSION},
	    {EROFS, FAIL_PERMISSION},
	    {EFBIG, FAIL_TOO_LARGE},
	    {ENOSPC, FAIL_NO_SPACE},
	    {EDQUOT, FAIL_NO_SPACE},
	    {EIO, FAIL_IO_ERROR},
	    {ENOMEM, FAIL_IO_ERROR},
	    {0, FAIL_IO_ERROR},
	};
	struct call *c = call_new();
	unsigned i, j, twice = 0;
	size_t r;

	for (r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		result_begin(c);
		call_fail_errno(c, rows[r].error);
		ok(c->run.failure == rows[r].failure &&
			c->run.outcome == OUTCOME_ERROR &&
			c->run.error == rows[r].error && c->run.result.len == 0,
		    "errno %d is %s", rows[r].error,
		    failure_word(rows[r].failure));
	}
	call_fail(c, FAIL_TIMEOUT);
	is_str(
	    outcome_word(c->run.outcome), "timeout", "timeout is an outcome");
	call_free(c);
	call_free(NULL);
	for (i = 0; i < FAIL_COUNT; i++) {
		for (j = 0; j < i; j++)
			twice += strcmp(failure_word((enum failure)i),
				     failure_word((enum failure)j)) == 0;
		if (i != FAIL_NONE &&
		    failure_detail((enum failure)i)[0] == '\0')
			twice++;
	}
	is_int(twice, 0, "every failure has its own word, and a sentence");
}

static void
test_arguments(void)
{
	static const char text[] =
	    "{\"t\":\"x\",\"T\":\"y\",\"n\":5,\"b\":true,\"z\":null}";
	struct call *c = call_new();

	is_int(call_int(c, "n", 7), 7, "without arguments there is none");
	ok(call_text(c, "t") == NULL && !call_flag(c, "b"),
	    "nor a text or a flag");
	c->rpc.args = json_parse(text, sizeof(text) - 1, false);
	is_str(call_text(c, "t"), "x", "a text");
	is_str(call_text(c, "T"), "y", "names are case-sensitive");
	ok(call_text(c, "n") == NULL && call_text(c, "z") == NULL &&
		call_text(c, "none") == NULL,
	    "what is no text");
	ok(call_int(c, "n", 7) == 5 && call_int(c, "none", 7) == 7, "a number");
	ok(call_flag(c, "b") && !call_flag(c, "n") && !call_flag(c, "none"),
	    "a flag");
	call_free(c);
}

static void
test_resource(void)
{
	struct call *c = call_new();
	int fds[2];

	if (pipe(fds) == -1)
		exit(99);
	c->check.on.name = strdup("x");
	c->check.on.fd = fds[0];
	c->check.on.parent_fd = fds[1];
	call_clear_resource(c);
	ok(c->check.on.name == NULL && c->check.on.fd == -1 &&
		c->check.on.parent_fd == -1 && close(fds[0]) == -1 &&
		close(fds[1]) == -1,
	    "a resource that is let go is closed");
	call_clear_resource(c);
	call_free(c);
}

int
main(void)
{
	test_base64();
	test_base64_random();
	test_cut();
	test_result();
	test_failures();
	test_arguments();
	test_resource();
	return done();
}
