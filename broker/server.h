#ifndef BROKER_SERVER_H
#define BROKER_SERVER_H

#include <stddef.h>
#include <poll.h>

#include "broker/dispatch.h"
#include "enforce/spawn.h"

/*
 * The connections of one invocation: accepted, judged, read frame by frame,
 * answered. At most SERVER_CONNS of the skill's, with as many calls in flight;
 * strangers never take one of these places. Nothing here blocks.
 */

#define SERVER_CONNS	16	/* connections, and calls in flight (SPEC 5) */
#define SERVER_JUDGED	4	/* connections that wait for their verdict */
#define SERVER_UNSENT	((size_t)48 * 1024 * 1024) /* bytes of answers */
#define SERVER_POLLFDS	(SERVER_CONNS + SERVER_JUDGED + 2)

struct server;

/*
 * listen_fd is the bound, listening, non-blocking socket; it stays the
 * caller's. The sandbox's init is asked who a peer is. NULL with errno.
 */
struct server	*server_new(int listen_fd, struct dispatch *,
		    const struct spawned *sandbox);
void		 server_free(struct server *);

/* Fill at most SERVER_POLLFDS entries; returns how many. */
size_t		 server_poll(struct server *, struct pollfd *);

/* Is there work that needs no event: poll must not sleep then. */
bool		 server_busy(const struct server *);

/* Handle what poll found, and at most one request a connection. */
void		 server_step(struct server *, const struct pollfd *, size_t n);

/* Init's answer about the connection that was asked about first. */
void		 server_peer(struct server *, const struct spawn_message *);

/*
 * The skill's own process has ended: let in what had connected by then. True
 * while init's answer about one of these is due.
 */
bool		 server_settling(struct server *);

/* Until then requests wait: no answer before the ledger's start is durable. */
void		 server_open(struct server *);

/* Has a process of the sandbox connected yet? */
bool		 server_connected(const struct server *);

/*
 * Is there room for the longest answer that a worker may have to this call
 * (NULL: to any)? While there is not, what it has to say waits with it.
 */
bool		 server_has_room(const struct server *, const struct call *);

/* A call that a worker gave back; why is FAIL_NONE when it has finished. */
void		 server_finished(struct server *, struct call *, enum failure why);

/* The skill is gone: handle what it had sent completely, cancel the rest. */
void		 server_drain(struct server *, enum failure why);

#endif
