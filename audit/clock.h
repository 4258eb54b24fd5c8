#ifndef AUDIT_CLOCK_H
#define AUDIT_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_SECOND	INT64_C(1000000000)	/* in nanoseconds */
#define CLOCK_MS	INT64_C(1000000)

#define CLOCK_STAMP_SIZE	28	/* "2026-11-30T10:00:00.004000Z" */
#define CLOCK_DAY_SIZE		11	/* "2026-11-30" */

/*
 * Time that never jumps and goes on while the machine sleeps: CLOCK_BOOTTIME
 * in nanoseconds (SPEC 9). Every limit and duration is measured with it.
 */
int64_t	clock_boot(void);

/* From now to a clock_boot in milliseconds, rounded up, for poll(2): 0 when it is
 * past, -1 for INT64_MAX (never). */
int	clock_until_ms(int64_t at);

/* Wall time in nanoseconds since 1970: for people to read, never compared. */
int64_t	clock_wall(void);

/* Wall time as text, UTC: with microseconds, or the day alone. */
void	clock_stamp(int64_t wall_ns, char out[CLOCK_STAMP_SIZE]);
void	clock_day(int64_t wall_ns, char out[CLOCK_DAY_SIZE]);

#endif
