/*
 * The hashes of the ledger, by the library's plain calls: they need none of
 * its providers and none of its configuration, so nothing is loaded or fetched
 * at start, and they cannot fail. The keyed form is RFC 2104 on top of them.
 */

#define OPENSSL_SUPPRESS_DEPRECATED

#include "audit/digest.h"

#include <openssl/sha.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(SHA256_DIGEST_LENGTH == DIGEST_LEN, "what the texts have room for");

struct digest {
	SHA256_CTX now;
	bool keyed;
	/* What every message begins with: the key's block, as RFC 2104 has it. */
	SHA256_CTX inner, outer;
};

static void
digest_set_key(struct digest *d, const void *key, size_t keylen)
{
	unsigned char block[SHA256_CBLOCK] = {0};
	size_t i;

	if (keylen > sizeof(block)) {
		SHA256_Init(&d->now);
		SHA256_Update(&d->now, key, keylen);
		SHA256_Final(block, &d->now);
	} else {
		memcpy(block, key, keylen);
	}
	for (i = 0; i < sizeof(block); i++)
		block[i] ^= 0x36;
	SHA256_Init(&d->inner);
	SHA256_Update(&d->inner, block, sizeof(block));
	for (i = 0; i < sizeof(block); i++)
		block[i] ^= 0x36 ^ 0x5c;
	SHA256_Init(&d->outer);
	SHA256_Update(&d->outer, block, sizeof(block));
	explicit_bzero(block, sizeof(block));
	d->keyed = true;
}

struct digest *
digest_new(const void *key, size_t keylen)
{
	struct digest *d = calloc(1, sizeof(*d));

	if (d != NULL && key != NULL)
		digest_set_key(d, key, keylen);
	return d;
}

struct digest *
digest_copy(const struct digest *from)
{
	struct digest *d = malloc(sizeof(*d));

	if (d != NULL)
		memcpy(d, from, sizeof(*d));
	return d;
}

void
digest_free(struct digest *d)
{
	if (d != NULL)
		freezero(d, sizeof(*d));
}

void
digest_start(struct digest *d)
{
	if (d->keyed)
		d->now = d->inner;
	else
		SHA256_Init(&d->now);
}

void
digest_add(struct digest *d, const void *p, size_t n)
{
	SHA256_Update(&d->now, p, n);
}

void
digest_end(struct digest *d, char out[DIGEST_TEXT])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char raw[DIGEST_LEN];
	int i;

	SHA256_Final(raw, &d->now);
	if (d->keyed) {
		d->now = d->outer;
		SHA256_Update(&d->now, raw, sizeof(raw));
		SHA256_Final(raw, &d->now);
		strlcpy(out, "hmac-sha256:", DIGEST_TEXT);
		out += strlen(out);
	}
	for (i = 0; i < DIGEST_LEN; i++) {
		*out++ = digits[raw[i] >> 4];
		*out++ = digits[raw[i] & 15];
	}
	*out = '\0';
}

void
digest_text(struct digest *d, const void *p, size_t n, char out[DIGEST_TEXT])
{
	digest_start(d);
	digest_add(d, p, n);
	digest_end(d, out);
}
