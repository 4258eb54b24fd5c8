#ifndef AUDIT_THREAD_H
#define AUDIT_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/*
 * A thread beside a loop: it hears no signal and has a small stack (64 KiB). What
 * runs in it allocates nothing and takes no lock, so that a fork of the process at
 * any moment is safe. False: there can be none.
 */
bool	thread_start(pthread_t *, void *(*run)(void *), void *arg);

#endif
