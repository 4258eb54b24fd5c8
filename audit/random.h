#ifndef AUDIT_RANDOM_H
#define AUDIT_RANDOM_H

#include <stddef.h>

/*
 * Unpredictable bytes, up to 256, from getrandom(2): for the few that a start
 * needs, the state of a generator of our own would cost more than it saves. It
 * does not fail.
 */
void	random_bytes(void *, size_t);

#endif
