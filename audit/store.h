#ifndef AUDIT_STORE_H
#define AUDIT_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "audit/clock.h"

/*
 * The directory tree of one store (LEDGER.md): who may own it, where things
 * lie, all below descriptors that are held. Directories are made 0700.
 */
struct store {
	char	*path;		/* the store's absolute kernel name */
	int	 root_fd;
	int	 audit_fd;	/* audit/ */
	int	 run_fd;	/* run/ */
	char	 host[37];	/* host id of audit/host.json */
};

#define STORE_UUID_SIZE	37

/*
 * Open the store, making what is missing. Refused with errno EPERM: a link, no
 * directory, another owner, writable by group or others; with EBADMSG: a
 * host.json that names no host, or none where there are days. 0 or -1 with errno.
 */
int	store_open(struct store *, const char *path);

/* The same for who only reads: nothing is made; ENOENT when it is not there. */
int	store_look(struct store *, const char *path);
void	store_close(struct store *);

/*
 * The memory root of a tenant: the store itself for the nil tenant, else
 * tenants/<tenant>/ in it. An O_DIRECTORY descriptor, or -1 with errno.
 */
int	store_memory(const struct store *, const char *tenant);

/*
 * Open a file in a directory of the store with these flags, made 0600 with
 * O_CREAT. No link is followed, and what is no regular file, a FIFO say, is not
 * waited for. Descriptor or -1 with errno: EBADMSG, it is no regular file.
 */
int	store_file(int dir_fd, const char *name, int flags);

/* A day's directory in audit/; with make it is created. Descriptor or -1. */
int	store_day(const struct store *, const char day[CLOCK_DAY_SIZE],
	    int make);

/*
 * Create the file of a new segment part, "seg/ab/<inv>.p<part>.jsonl" in the
 * day's directory; its name relative to the day goes to name[]. A descriptor
 * that appends, or -1 with errno: EEXIST when the id was used that day.
 */
#define STORE_SEGMENT_NAME	80
int	store_segment(int day_fd, const char *inv, unsigned part,
	    char name[STORE_SEGMENT_NAME]);

/* The name of a segment's part relative to audit/, its day in front. */
void	store_segment_path(const char day[CLOCK_DAY_SIZE], const char *inv,
	    unsigned part, char name[STORE_SEGMENT_NAME]);

/*
 * Open a file of the ledger by its name relative to audit/, to read it. No link
 * is followed anywhere and nothing but a regular file is opened. Descriptor or
 * -1 with errno.
 */
int	store_ledger_file(const struct store *, const char *name);
/* The same, to read and to append. */
int	store_ledger_append(const struct store *, const char *name);

/*
 * Open the spool of an invocation, <inv>.jsonl in dir or, where that is NULL, in
 * the store's spool/, for reading and writing; with make both are created. A
 * directory that is not the caller's alone is EPERM. Descriptor or -1 with errno.
 */
int	store_spool(const struct store *, const char *dir, const char *inv,
	    bool make);
void	store_spool_unlink(const struct store *, const char *dir,
	    const char *inv);

/*
 * The append-only attribute (FS_APPEND_FL) of an open file: has it, set or take
 * it away. False: it has not, or the file system or our rights do not allow it.
 */
bool	store_is_append_only(int fd);
bool	store_append_only(int fd, bool on);

/* Put the names that lead to a new segment on disk. 0 or -1 with errno. */
int	store_sync_segment(int day_fd, const char *inv);

/* Was the id used on that day? 1, 0, or -1 with errno. */
int	store_segment_exists(const struct store *, const char *day,
	    const char *inv);

/* The days that have a directory, in order; free(day) when done. 0, or -1 with
 * errno and nothing to free. */
struct store_days {
	char	(*day)[CLOCK_DAY_SIZE];
	size_t	 n;
};
int	store_days(const struct store *, struct store_days *);

/*
 * A directory of ours in the store, made when that is wanted and it is missing.
 * A descriptor, or -1 with errno: ENOENT; EPERM, it is not the caller's alone.
 */
int	store_directory(const struct store *, const char *name, bool make);

/* Has it the form of a day, "2026-11-30"? */
bool	store_is_day(const char *);

/*
 * flock(2) an open file, exclusively, waiting at most so many milliseconds. 0, or
 * -1 with errno: ETIMEDOUT.
 */
int	store_lock_file(int fd, int64_t ms);

/* Is the lock of an invocation held? The kernel drops it with its holder. */
bool	store_running(const struct store *, const char *inv);

/*
 * Call each with every invocation that has run/<inv><suffix> (".lock"), in no
 * order, until it returns other than 0: that is the result. 0 after all of them;
 * -1 with errno when the directory cannot be read.
 */
int	store_run_each(const struct store *, const char *suffix,
	    int (*each)(void *arg, const char *inv), void *arg);

/* How many invocations hold their lock now; -1 with errno. */
int	store_count_running(const struct store *);

/*
 * One place among at most so many invocations (0: unbounded) that run in this
 * store at once, held as long as the descriptor is open and not unlocked with
 * store_slot_free. However many ask at one moment, all places are given and no
 * more. -1 with errno: EAGAIN, there is none.
 */
int	store_slot(const struct store *, unsigned most);

/* Give it back, also when a child that is being forked has a copy. */
void	store_slot_free(int fd);

/*
 * Create run/<inv>.lock, locked before anybody can see it: one that is there and
 * not locked belongs to nobody any more. Descriptor or -1 with errno (EEXIST).
 */
int	store_run_lock(const struct store *, const char *inv);

/* Create run/<inv>.<suffix>, exclusively. Descriptor or -1 with errno. */
int	store_run_file(const struct store *, const char *inv,
	    const char *suffix);
void	store_run_unlink(const struct store *, const char *inv,
	    const char *suffix);

/* Is it a UUID in canonical lower-case form? */
int	store_is_uuid(const char *);
/* A fresh random UUID (version 4). */
void	store_new_uuid(char out[STORE_UUID_SIZE]);

#endif
