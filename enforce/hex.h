#ifndef ENFORCE_HEX_H
#define ENFORCE_HEX_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Bytes as lower-case hexadecimal digits, the only form in which hashes, keys
 * and signatures are taken: upper case would be a second spelling of the same.
 */

/* n bytes to 2 * n digits and a NUL. */
void	hex_encode(char *out, const unsigned char *bytes, size_t n);

/* Exactly n bytes from 2 * n digits; what follows is not looked at. False, and
 * out is undefined, when one of them is no digit. */
bool	hex_decode(unsigned char *out, const char *digits, size_t n);

/* Is it a text of exactly 2 * n digits? */
bool	hex_is(const char *text, size_t n);

#endif
