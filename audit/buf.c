/*
 * The bounded byte buffer that everything from outside goes through: no length
 * of a peer can make it larger than the bound it was made with.
 */

#include "audit/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
buf_init(struct buf *b, size_t max)
{
	memset(b, 0, sizeof(*b));
	b->max = max;
}

void
buf_clear(struct buf *b)
{
	freezero(b->data, b->size);
	buf_init(b, b->max);
}

void
buf_reset(struct buf *b)
{
	b->len = 0;
	b->failed = false;
}

char *
buf_reserve(struct buf *b, size_t n)
{
	char *grown;
	size_t size;

	if (n > b->max || b->len > b->max - n) {
		b->failed = true;
		errno = ENOBUFS;
		return NULL;
	}
	if (b->size - b->len < n) {
		size = b->size == 0 ? 256 : b->size;
		while (size - b->len < n)
			size = size > b->max / 2 ? b->max : size * 2;
		if (size > b->max) /* buf_put relies on it */
			size = b->max;
		grown = recallocarray(b->data, b->size, size, 1);
		if (grown == NULL) {
			b->failed = true;
			errno = ENOMEM;
			return NULL;
		}
		b->data = grown;
		b->size = size;
	}
	return b->data + b->len;
}

void
buf_advance(struct buf *b, size_t n)
{
	b->len += n;
}

int
buf_put_grow(struct buf *b, const void *p, size_t n)
{
	if (buf_reserve(b, n) == NULL)
		return -1;
	return buf_put(b, p, n);
}

int
buf_put_list(struct buf *b, const char *const *s)
{
	int result = 0;

	for (; *s != NULL && result == 0; s++)
		result = buf_puts(b, *s);
	return result;
}

int
buf_put_uint(struct buf *b, uint64_t n)
{
	char text[20], *p = text + sizeof(text);

	do {
		*--p = (char)('0' + n % 10);
		n /= 10;
	} while (n > 0);
	return buf_put(b, p, (size_t)(text + sizeof(text) - p));
}

int
buf_put_int(struct buf *b, int64_t n)
{
	if (n < 0 && buf_putc(b, '-') == -1)
		return -1;
	return buf_put_uint(b, n < 0 ? -(uint64_t)n : (uint64_t)n);
}

int
buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	char *at;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -1;
	at = buf_reserve(b, (size_t)n + 1);
	if (at == NULL)
		return -1;
	va_start(ap, fmt);
	vsnprintf(at, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
	return 0;
}

int
buf_put_hex(struct buf *b, const void *p, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *bytes = p;
	char *at;
	size_t i;

	if (n > b->max / 2) {
		b->failed = true;
		errno = ENOBUFS;
		return -1;
	}
	at = buf_reserve(b, n * 2);
	if (at == NULL)
		return -1;
	for (i = 0; i < n; i++) {
		at[i * 2] = digits[bytes[i] >> 4];
		at[i * 2 + 1] = digits[bytes[i] & 15];
	}
	b->len += n * 2;
	return 0;
}

void
buf_consume(struct buf *b, size_t n)
{
	if (n == 0) /* there may be no data at all */
		return;
	memmove(b->data, b->data + n, b->len - n);
	b->len -= n;
}
