#ifndef AUDIT_COUNTERS_H
#define AUDIT_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "audit/clock.h"
#include "audit/segment.h"
#include "audit/tally.h"

/*
 * The live page of one invocation, run/<inv>.status: one writer (its broker),
 * any number of readers, right to the last count when the writer is killed,
 * since the page belongs to the kernel.
 */

#define COUNTERS_SIZE	16384
#define COUNTERS_TALLY	1024	/* where the counts for the metrics begin */
#define COUNTERS_MAGIC	UINT64_C(0x31306c6c6f72736b)

struct counters {
	uint64_t magic;		/* written last when the page is set up */
	char	 invocation_id[40];
	char	 skill_id[72];
	char	 tenant_id[40];
	int64_t	 pid;		/* the broker's */
	int64_t	 started_wall;	/* nanoseconds */
	uint64_t socket_dev;	/* of its socket, for whoever has to remove it */
	uint64_t socket_ino;
	char	 socket_dir[108];
	_Atomic int64_t deadline_boot;	/* nanoseconds; 0: not started */
	_Atomic uint64_t calls;
	_Atomic uint64_t denied;
	_Atomic uint64_t errors;
	_Atomic uint64_t timeouts;
	_Atomic uint64_t rejected;
	/* The first four when the UTC day began in which it counted last. */
	_Atomic int64_t day;		/* days since 1970 */
	_Atomic uint64_t before[4];
	_Atomic uint64_t waiting;	/* rows in the memory queue */
};

_Static_assert(sizeof(struct counters) <= COUNTERS_TALLY &&
    COUNTERS_TALLY + sizeof(struct tally) <= COUNTERS_SIZE, "one page");

/*
 * Map the page of an open file for writing; it is made COUNTERS_SIZE long. With
 * -1, memory that nobody else sees. NULL with errno.
 */
struct counters	*counters_map(int fd);
void		 counters_unmap(struct counters *);

/* The metrics of a mapped page, to be counted with what tally.h has. */
struct tally	*counters_tally(struct counters *);

/* Copy the metrics of an open page; the same errors as counters_read. */
int		 counters_read_tally(int fd, struct tally *);

/*
 * Copy the page of an open file. 0, or -1 with errno; EBADMSG when it is no
 * page of ours. The texts of a copy end within their fields; what they say is
 * the writer's word.
 */
int		 counters_read(int fd, struct counters *);

/* Before the first four are counted: what is there is of the days before. */
void		 counters_turn(struct counters *, int64_t wall_ns);

/* What a copy has of a UTC day and the days after it. */
struct segment_totals counters_since(const struct counters *,
		    const char day[CLOCK_DAY_SIZE]);

#define counters_add(c, field) \
	atomic_fetch_add_explicit(&(c)->field, 1, memory_order_relaxed)
#define counters_get(c, field) \
	atomic_load_explicit(&(c)->field, memory_order_relaxed)

#endif
