#ifndef ENFORCE_ROUTE_H
#define ENFORCE_ROUTE_H

#include <sys/socket.h>

/*
 * Which addresses are this host's own, by the kernel's word (SPEC 7.8): it
 * knows more of them than the interfaces show.
 */
enum route {
	ROUTE_AWAY,	/* to another machine */
	ROUTE_HERE,	/* this host itself, or no single machine */
	ROUTE_NONE,	/* there is no way to it: connecting fails */
	ROUTE_UNKNOWN	/* cannot tell: treat it as ROUTE_HERE */
};

/* A socket to ask with, or -1 with errno. */
int	route_open(void);

/* Where would the kernel send a packet for this address? */
enum route route_to(int fd, const struct sockaddr *);

#endif
