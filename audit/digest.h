#ifndef AUDIT_DIGEST_H
#define AUDIT_DIGEST_H

#include <stddef.h>

#define DIGEST_LEN	32
#define DIGEST_HEX	65	/* 64 digits and the NUL */
#define DIGEST_TEXT	80	/* "hmac-sha256:", 64 digits and the NUL */

/*
 * SHA-256, or HMAC-SHA-256 when made with a key (SPEC 10: short values cannot
 * be guessed then). The algorithm is fetched once and the context reused,
 * which halves the cost of a short message.
 */
struct digest;

/* key NULL: plain SHA-256. NULL with errno ENOMEM or EIO (no provider). */
struct digest	*digest_new(const void *key, size_t keylen);
/* Another one of the same kind, with the same key. NULL with ENOMEM. */
struct digest	*digest_copy(const struct digest *);
void		 digest_free(struct digest *);

/* A message in pieces; digest_end leaves its text: hex, or "hmac-sha256:hex". */
void		 digest_start(struct digest *);
void		 digest_add(struct digest *, const void *, size_t);
void		 digest_end(struct digest *, char out[DIGEST_TEXT]);

/* A message in one piece. */
void		 digest_text(struct digest *, const void *, size_t,
		    char out[DIGEST_TEXT]);

#endif
