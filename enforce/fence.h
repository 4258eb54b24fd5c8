#ifndef ENFORCE_FENCE_H
#define ENFORCE_FENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the net worker keeps of the host: reading certificates and the
 * resolver's files, connecting to these ports and to port 53, no program to
 * run, no Unix socket, no file to write. no_new_privs, Landlock, a system call
 * filter. No thread may exist yet. *landlock tells whether there is Landlock.
 * 0, or -1 with errno when a layer that this host has could not be applied.
 */
int	fence_net(const uint16_t *ports, size_t n, bool *landlock);

#endif
