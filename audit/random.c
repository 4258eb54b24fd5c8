#include "audit/random.h"

#include <sys/random.h>

#include <stdlib.h>

void
random_bytes(void *p, size_t n)
{
	/* Where an outer sandbox has not heard of it, the library knows more. */
	if (getrandom(p, n, 0) != (ssize_t)n)
		arc4random_buf(p, n);
}
