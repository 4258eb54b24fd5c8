/*
 * Hexadecimal digits. One spelling for each value, so that a text that was
 * changed anywhere is another value or none.
 */

#include "enforce/hex.h"

#include <string.h>

static const char digits[] = "0123456789abcdef";

void
hex_encode(char *out, const unsigned char *bytes, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		*out++ = digits[bytes[i] >> 4];
		*out++ = digits[bytes[i] & 15];
	}
	*out = '\0';
}

/* The value of a digit, or -1. */
static int
value_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool
hex_decode(unsigned char *out, const char *text, size_t n)
{
	int high, low;
	size_t i;

	for (i = 0; i < n; i++) {
		high = value_of(text[i * 2]);
		low = high == -1 ? -1 : value_of(text[i * 2 + 1]);
		if (low == -1)
			return false;
		out[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}

bool
hex_is(const char *text, size_t n)
{
	return strlen(text) == n * 2 && strspn(text, digits) == n * 2;
}
