/* The bounded buffer: growth, bounds, failures that change nothing. */

#include "audit/buf.h"

#include <errno.h>
#include <stdint.h>

#include "t/unit/tap.h"

static void
test_bounds(void)
{
	struct buf b;
	char big[300];

	memset(big, 'x', sizeof(big));
	buf_init(&b, 300);
	ok(b.data == NULL && b.len == 0 && !b.failed, "empty at first");
	ok(buf_put(&b, "", 0) == 0 && b.data == NULL, "nothing put is nothing");
	ok(buf_put(&b, big, 300) == 0 && b.len == 300, "exactly full");
	errno = 0;
	ok(buf_putc(&b, 'y') == -1 && errno == ENOBUFS && b.failed &&
		b.len == 300,
	    "one more is refused and marked");
	ok(buf_put(&b, "", 0) == 0, "nothing fits even then");
	buf_reset(&b);
	ok(b.len == 0 && !b.failed && b.data != NULL,
	    "reset forgets both and keeps the memory");
	errno = 0;
	ok(buf_put(&b, big, SIZE_MAX) == -1 && errno == ENOBUFS && b.len == 0,
	    "a length that would wrap around");
	buf_reset(&b);
	buf_put(&b, big, 10);
	ok(buf_reserve(&b, SIZE_MAX - 5) == NULL && b.failed, "in reserve too");
	buf_clear(&b);
	ok(b.data == NULL && b.size == 0 && b.len == 0 && b.max == 300,
	    "clear leaves a usable one");
	buf_clear(&b);
	buf_init(&b, 0);
	ok(buf_putc(&b, 'x') == -1 && b.data == NULL, "a bound of nothing");
}

static void
test_growth(void)
{
	struct buf b;
	size_t i;
	bool good = true;

	buf_init(&b, 1000003);
	for (i = 0; i < 1000003; i++)
		good = good && buf_putc(&b, (char)('a' + i % 26)) == 0;
	for (i = 0; i < b.len; i++)
		good = good && b.data[i] == (char)('a' + i % 26);
	ok(good && b.len == 1000003 && b.size <= b.max,
	    "a million bytes, one by one, to an odd bound");
	ok(buf_putc(&b, 'x') == -1, "and no further");
	buf_consume(&b, 26 * 1000);
	ok(b.len == 1000003 - 26000 && b.data[0] == 'a',
	    "the first are dropped");
	buf_consume(&b, b.len);
	ok(b.len == 0, "all are dropped");
	buf_consume(&b, 0);
	buf_clear(&b);
}

static void
test_text(void)
{
	struct buf b;

	buf_init(&b, 12);
	ok(buf_printf(&b, "%d-%s", 42, "abc") == 0 && b.len == 6 &&
		memcmp(b.data, "42-abc", 6) == 0,
	    "printf appends, without its NUL");
	ok(buf_printf(&b, "%s", "1234567") == -1 && b.failed && b.len == 6,
	    "printf beyond the bound changes nothing");
	buf_reset(&b);
	ok(buf_put_hex(&b, "\x00\x7f\xff", 3) == 0 && b.len == 6 &&
		memcmp(b.data, "007fff", 6) == 0,
	    "hexadecimal");
	ok(buf_put_hex(&b, "\x00\x7f\xff\x01", 4) == -1 && b.len == 6,
	    "hexadecimal beyond the bound");
	ok(buf_put_hex(&b, "", SIZE_MAX) == -1,
	    "a length that would wrap around");
	buf_reset(&b);
	ok(buf_puts(&b, "") == 0 && buf_puts(&b, "ab") == 0 && b.len == 2,
	    "puts");
	ok(buf_reserve(&b, 10) != NULL && b.len == 2, "reserve moves nothing");
	buf_advance(&b, 3);
	ok(b.len == 5, "advance does");
	buf_clear(&b);
}

int
main(void)
{
	test_bounds();
	test_growth();
	test_text();
	return done();
}
