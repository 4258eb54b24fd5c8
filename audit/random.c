/*
 * Bytes that nobody can guess: for names and ids, and for where a search for a
 * free place begins. They come from the kernel, or from the library where an
 * outer sandbox has not heard of the call; it never returns without them.
 */

#include "audit/random.h"

#include <sys/random.h>

#include <stdlib.h>

void
random_bytes(void *p, size_t n)
{
	if (getrandom(p, n, 0) != (ssize_t)n)
		arc4random_buf(p, n);
}
