/*
 * Threads of processes that fork and wait for signals elsewhere: none is ever
 * delivered to a thread that was not asked.
 */

#include "audit/thread.h"

#include <signal.h>

#define STACK ((size_t)64 * 1024)

bool
thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, old;
	bool started;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	started = pthread_create(thread, &attr, run, arg) == 0;
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return started;
}
