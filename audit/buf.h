#ifndef AUDIT_BUF_H
#define AUDIT_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * A bounded byte buffer. It never grows past max; a put that would, or that
 * finds no memory, changes nothing, returns -1 with errno (ENOBUFS, ENOMEM)
 * and marks the buffer as failed, so that a run of puts can be checked once at
 * its end. The memory is zeroed when it is given back.
 */
struct buf {
	char	*data;		/* NULL while empty; not NUL-terminated */
	size_t	 len;
	size_t	 size;		/* never more than max */
	size_t	 max;
	bool	 failed;
};

/* An empty buffer of at most max bytes; allocates nothing. */
void	buf_init(struct buf *, size_t max);

/* Zero and free the memory; the buffer is empty and usable afterwards. */
void	buf_clear(struct buf *);

/* Forget the contents and the failure, keep the memory. */
void	buf_reset(struct buf *);

/*
 * Make room for n more bytes and return where to write them, or NULL with
 * ENOBUFS or ENOMEM. What was written becomes part of the buffer with
 * buf_advance.
 */
char	*buf_reserve(struct buf *, size_t n);
void	buf_advance(struct buf *, size_t n);

/*
 * Append; 0, or -1 with ENOBUFS or ENOMEM. A row of the ledger is some seventy
 * of these, so what has room is done where it is called.
 */
int	buf_put_grow(struct buf *, const void *, size_t);

static inline int
buf_put(struct buf *b, const void *p, size_t n)
{
	if (n > b->size - b->len)
		return buf_put_grow(b, p, n);
	if (n > 0) /* there may be no data at all */
		memcpy(b->data + b->len, p, n);
	b->len += n;
	return 0;
}

static inline int
buf_putc(struct buf *b, char c)
{
	return buf_put(b, &c, 1);
}

static inline int
buf_puts(struct buf *b, const char *s)
{
	return buf_put(b, s, strlen(s));
}

/* Several strings; the list ends with NULL, which buf_put_all adds. */
int	buf_put_list(struct buf *, const char *const *);
#define buf_put_all(b, ...)	\
	buf_put_list(b, (const char *const[]){ __VA_ARGS__, NULL })

/* A number in decimal. */
int	buf_put_int(struct buf *, int64_t);
int	buf_put_uint(struct buf *, uint64_t);
int	buf_printf(struct buf *, const char *, ...)
	    __attribute__((format(printf, 2, 3)));

/* Append n bytes in lower-case hexadecimal. */
int	buf_put_hex(struct buf *, const void *, size_t n);

/* Drop the first n bytes; n must not be larger than len. */
void	buf_consume(struct buf *, size_t n);

#endif
