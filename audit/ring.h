#ifndef AUDIT_RING_H
#define AUDIT_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "audit/span.h"

/*
 * A bounded queue of spans in memory that two processes share: one puts, one
 * takes, neither waits or makes a system call. What was put is there when the
 * one who put it is killed at any moment. Neither side believes the other: what
 * is read is a copy, and nothing that the other side writes is an index.
 */
struct ring;

/* What the one who puts is given; fd -1: nobody takes. */
struct ring_end {
	int	 fd;
	int	 wake_fd;	/* a stream socket: a byte, when wake_at records wait */
	unsigned wake_at;
};

#define RING_SLOTS_MAX	65536

/* A sealed memory file for so many records (1 to RING_SLOTS_MAX); descriptor,
 * or -1 with errno. */
int	ring_create(unsigned slots);

/*
 * Map one, for this process alone: a fork of it does not have it. NULL with
 * errno; EINVAL when the file is none or could be cut under our feet.
 */
struct ring	*ring_map(int fd);
void		 ring_unmap(struct ring *);

/*
 * The one who puts: room for a record to fill, or NULL when the queue is full,
 * which counts these spans as dropped. ring_put makes it visible and tells
 * whether the queue has just grown to wake_at records.
 */
struct span	*ring_room(struct ring *, unsigned spans);
bool		 ring_put(struct ring *, unsigned wake_at);

/*
 * A span whose row is written between ring_room and ring_put: when the one who
 * puts dies on that way, whoever made the queue sees by the ledger how far it
 * came. ring_promise, before the row: the room is filled, for this row.
 * ring_settle, by any mapping when it is dead: the last row that is written; what
 * was promised for one of these rows is put.
 */
void		 ring_promise(struct ring *, uint64_t row);
void		 ring_settle(struct ring *, uint64_t last);

/* The one who takes: a copy of the oldest. False: there is none. ring_take_over,
 * before: go on where another one, who is dead, has come to. */
bool		 ring_take(struct ring *, struct span *);
void		 ring_take_over(struct ring *);

/* How many spans were put, taken, and found no room. */
uint64_t	 ring_count(const struct ring *);
uint64_t	 ring_taken(const struct ring *);
uint64_t	 ring_dropped(const struct ring *);

#endif
