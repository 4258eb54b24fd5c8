/*
 * The hashes of the ledger. A digest that cannot be computed would leave a
 * hole in the chain, so after digest_new has succeeded a failure of the library
 * ends the process instead of yielding a wrong value.
 */

#include "audit/digest.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct digest {
	EVP_MD *md;
	EVP_MD_CTX *ctx;
	EVP_MAC_CTX *mac; /* NULL without a key */
};

static int
digest_set_key(struct digest *d, const void *key, size_t keylen)
{
	char name[] = "SHA256";
	OSSL_PARAM params[2];
	EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);

	if (hmac == NULL)
		return -1;
	params[0] = OSSL_PARAM_construct_utf8_string(
	    OSSL_MAC_PARAM_DIGEST, name, 0);
	params[1] = OSSL_PARAM_construct_end();
	d->mac = EVP_MAC_CTX_new(hmac);
	EVP_MAC_free(hmac);
	if (d->mac == NULL || EVP_MAC_init(d->mac, key, keylen, params) != 1)
		return -1;
	return 0;
}

struct digest *
digest_new(const void *key, size_t keylen)
{
	struct digest *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return NULL;
	d->md = EVP_MD_fetch(NULL, "SHA256", NULL);
	d->ctx = EVP_MD_CTX_new();
	if (d->md == NULL || d->ctx == NULL ||
	    (key != NULL && digest_set_key(d, key, keylen) == -1)) {
		digest_free(d);
		errno = EIO;
		return NULL;
	}
	return d;
}

struct digest *
digest_copy(const struct digest *from)
{
	struct digest *d = digest_new(NULL, 0);

	if (d == NULL || from->mac == NULL)
		return d;
	d->mac = EVP_MAC_CTX_dup(from->mac);
	if (d->mac == NULL) {
		digest_free(d);
		errno = ENOMEM;
		return NULL;
	}
	return d;
}

void
digest_free(struct digest *d)
{
	if (d == NULL)
		return;
	EVP_MAC_CTX_free(d->mac);
	EVP_MD_CTX_free(d->ctx);
	EVP_MD_free(d->md);
	free(d);
}

static void
digest_must(int result)
{
	if (result != 1)
		errx(125, "the hash library failed");
}

void
digest_start(struct digest *d)
{
	if (d->mac != NULL)
		digest_must(EVP_MAC_init(d->mac, NULL, 0, NULL));
	else
		digest_must(EVP_DigestInit_ex2(d->ctx, d->md, NULL));
}

void
digest_add(struct digest *d, const void *p, size_t n)
{
	if (d->mac != NULL)
		digest_must(EVP_MAC_update(d->mac, p, n));
	else
		digest_must(EVP_DigestUpdate(d->ctx, p, n));
}

void
digest_end(struct digest *d, char out[DIGEST_TEXT])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char raw[EVP_MAX_MD_SIZE];
	size_t n = 0;
	int i;

	if (d->mac != NULL) {
		digest_must(EVP_MAC_final(d->mac, raw, &n, sizeof(raw)));
		strlcpy(out, "hmac-sha256:", DIGEST_TEXT);
		out += strlen(out);
	} else {
		digest_must(EVP_DigestFinal_ex(d->ctx, raw, NULL));
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
