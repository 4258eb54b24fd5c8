/* SHA-256 and HMAC-SHA-256 by the vectors of FIPS 180-2 and RFC 4231. */

#include "audit/digest.h"

#include "t/unit/tap.h"

static void
is_digest(struct digest *d, const void *p, size_t n, const char *want,
    const char *name)
{
	char got[DIGEST_TEXT];

	digest_text(d, p, n, got);
	is_str(got, want, name);
}

static void
test_plain(void)
{
	struct digest *d = digest_new(NULL, 0);
	char million[1000], got[DIGEST_TEXT];
	int i;

	is_digest(d, "", 0,
	    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	    "nothing");
	is_digest(d, "abc", 3,
	    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
	    "abc");
	is_digest(d, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	    56,
	    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
	    "two blocks");
	memset(million, 'a', sizeof(million));
	digest_start(d);
	for (i = 0; i < 1000; i++)
		digest_add(d, million, sizeof(million));
	digest_end(d, got);
	is_str(got,
	    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
	    "a million, in pieces");
	digest_start(d);
	digest_add(d, "abandoned", 9);
	is_digest(d, "abc", 3,
	    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
	    "one that was begun before leaves no trace");
	digest_free(d);
	digest_free(NULL);
}

static void
test_keyed(void)
{
	struct digest *d, *copy, *plain;
	char key[131], got[DIGEST_TEXT];

	memset(key, 0x0b, 20);
	d = digest_new(key, 20);
	is_digest(d, "Hi There", 8,
	    "hmac-sha256:"
	    "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
	    "RFC 4231, 1");
	is_digest(d, "Hi There", 8,
	    "hmac-sha256:"
	    "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
	    "and once more");
	copy = digest_copy(d);
	digest_start(d);
	digest_add(d, "Hi", 2);
	is_digest(copy, "Hi There", 8,
	    "hmac-sha256:"
	    "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
	    "a copy has the key");
	digest_add(d, " There", 6);
	digest_end(d, got);
	is_str(got,
	    "hmac-sha256:"
	    "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
	    "and does not disturb the original");
	digest_free(d);
	digest_free(copy);
	d = digest_new("Jefe", 4);
	is_digest(d, "what do ya want for nothing?", 28,
	    "hmac-sha256:"
	    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
	    "RFC 4231, 2");
	digest_free(d);
	memset(key, 0xaa, sizeof(key));
	d = digest_new(key, sizeof(key));
	is_digest(d, "Test Using Larger Than Block-Size Key - Hash Key First",
	    54,
	    "hmac-sha256:"
	    "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
	    "RFC 4231, 6: a key longer than a block");
	digest_free(d);
	plain = digest_new(NULL, 0);
	copy = digest_copy(plain);
	is_digest(copy, "abc", 3,
	    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
	    "a copy of a plain one is plain");
	digest_free(copy);
	digest_free(plain);
}

int
main(void)
{
	test_plain();
	test_keyed();
	return done();
}
