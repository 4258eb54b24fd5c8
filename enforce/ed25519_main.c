/*
 * cyberos-ed25519: keys and signatures by OpenSSL, in a process of its own, so
 * that nobody else loads that library, and what goes wrong in it goes wrong
 * here. It opens no file, reads no configuration, asks nobody for a passphrase;
 * everything comes on standard input and leaves by standard output or the exit
 * status (enforce/signature.h).
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "enforce/signature.h"

#define IN_MAX (SIGNATURE_PEM_MAX + SIGNATURE_SIGNED)

struct input {
	unsigned char bytes[IN_MAX + 1];
	size_t len;
};

static bool
read_all(struct input *in)
{
	ssize_t n;

	while (in->len < sizeof(in->bytes)) {
		n = read(STDIN_FILENO, in->bytes + in->len,
		    sizeof(in->bytes) - in->len);
		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		in->len += (size_t)n;
	}
	return false; /* longer than anything we take */
}

static bool
write_all(const void *what, size_t len)
{
	const char *p = what;
	ssize_t n;

	while (len > 0) {
		n = write(STDOUT_FILENO, p, len);
		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

/* Only 1 is success: 0 and several negative values are not. */
static enum signature_answer
verify(const struct input *in)
{
	const unsigned char *key = in->bytes, *bytes = key + SIGNATURE_KEY;
	const unsigned char *text = bytes + SIGNATURE_BYTES;
	enum signature_answer answer = SIGNATURE_FAILED;
	EVP_MD_CTX *context;
	EVP_PKEY *pkey;

	if (in->len != SIGNATURE_KEY + SIGNATURE_BYTES + SIGNATURE_SIGNED)
		return SIGNATURE_FAILED;
	context = EVP_MD_CTX_new();
	pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key,
	    SIGNATURE_KEY);
	if (pkey != NULL && context != NULL &&
	    EVP_DigestVerifyInit(context, NULL, NULL, NULL, pkey) == 1)
		answer = EVP_DigestVerify(context, bytes, SIGNATURE_BYTES, text,
			     SIGNATURE_SIGNED) == 1
		    ? SIGNATURE_YES
		    : SIGNATURE_NO;
	EVP_MD_CTX_free(context);
	EVP_PKEY_free(pkey);
	return answer;
}

/* Asked for a passphrase: there is none, and somebody wants to know. */
static int
no_passphrase(char *buf, int size, int writing, void *asked)
{
	(void)buf;
	(void)size;
	(void)writing;
	*(bool *)asked = true;
	return -1;
}

static EVP_PKEY *
read_key(const unsigned char *pem, size_t len, enum signature_answer *why)
{
	BIO *bio = BIO_new_mem_buf(pem, (int)len);
	EVP_PKEY *pkey = NULL;
	bool asked = false;

	*why = SIGNATURE_FAILED;
	if (bio != NULL) {
		pkey = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, &asked);
		*why = asked ? SIGNATURE_LOCKED : SIGNATURE_NO_KEY;
	}
	BIO_free(bio);
	if (pkey != NULL && EVP_PKEY_get_base_id(pkey) != EVP_PKEY_ED25519) {
		*why = SIGNATURE_OTHER_KEY;
		EVP_PKEY_free(pkey);
		return NULL;
	}
	return pkey;
}

static enum signature_answer
sign(const struct input *in)
{
	unsigned char bytes[SIGNATURE_BYTES];
	size_t len = sizeof(bytes);
	EVP_MD_CTX *context = NULL;
	enum signature_answer answer = SIGNATURE_NO_KEY;
	EVP_PKEY *pkey;

	if (in->len <= SIGNATURE_SIGNED)
		return SIGNATURE_NO_KEY;
	pkey = read_key(in->bytes + SIGNATURE_SIGNED,
	    in->len - SIGNATURE_SIGNED, &answer);
	if (pkey == NULL)
		return answer;
	context = EVP_MD_CTX_new();
	answer = context != NULL &&
		EVP_DigestSignInit(context, NULL, NULL, NULL, pkey) == 1 &&
		EVP_DigestSign(context, bytes, &len, in->bytes,
		    SIGNATURE_SIGNED) == 1 &&
		len == sizeof(bytes) && write_all(bytes, len)
	    ? SIGNATURE_YES
	    : SIGNATURE_FAILED;
	EVP_MD_CTX_free(context);
	EVP_PKEY_free(pkey);
	return answer;
}

/* What a PEM writer left in memory, behind these bytes. */
static bool
put(BIO *bio, const void *first, size_t first_len)
{
	char *pem;
	long len = BIO_get_mem_data(bio, &pem);

	return len > 0 && write_all(first, first_len) &&
	    write_all(pem, (size_t)len);
}

static enum signature_answer
keygen(void)
{
	EVP_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	BIO *bio = BIO_new(BIO_s_secmem());
	bool good;

	good = pkey != NULL && bio != NULL &&
	    PEM_write_bio_PrivateKey(bio, pkey, NULL, NULL, 0, NULL, NULL) ==
		1 &&
	    put(bio, "", 0);
	BIO_free(bio);
	EVP_PKEY_free(pkey);
	return good ? SIGNATURE_YES : SIGNATURE_FAILED;
}

static enum signature_answer
public(const struct input *in)
{
	unsigned char key[SIGNATURE_KEY];
	size_t len = sizeof(key);
	enum signature_answer answer;
	EVP_PKEY *pkey = read_key(in->bytes, in->len, &answer);
	BIO *bio = BIO_new(BIO_s_mem());

	if (pkey != NULL)
		answer = bio != NULL &&
			EVP_PKEY_get_raw_public_key(pkey, key, &len) == 1 &&
			len == sizeof(key) &&
			PEM_write_bio_PUBKEY(bio, pkey) == 1 &&
			put(bio, key, len)
		    ? SIGNATURE_YES
		    : SIGNATURE_FAILED;
	BIO_free(bio);
	EVP_PKEY_free(pkey);
	return answer;
}

int
main(int argc, char **argv)
{
	const char *command = argc == 2 ? argv[1] : "";
	enum signature_answer answer = SIGNATURE_FAILED;
	struct input in = { .len = 0 };

	if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1 ||
	    !read_all(&in))
		return SIGNATURE_FAILED;
	if (strcmp(command, "verify") == 0)
		answer = verify(&in);
	else if (strcmp(command, "sign") == 0)
		answer = sign(&in);
	else if (strcmp(command, "public") == 0)
		answer = public(&in);
	else if (strcmp(command, "keygen") == 0)
		answer = keygen();
	OPENSSL_cleanse(&in, sizeof(in));
	return (int)answer;
}
