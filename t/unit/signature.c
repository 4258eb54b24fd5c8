/*
 * Which four lines are a signature, what is hashed, which keys are refused. The
 * rest is in t/26-sign.t, with the program that holds the keys.
 */

#include "enforce/signature.h"

#include <openssl/evp.h>

#include "enforce/hex.h"

#include "t/unit/tap.h"

#define KEY "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
#define SIG                                                                    \
	"e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8" \
	"821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
#define BLOCK                                                                  \
	"signature:\n  algo: ed25519\n  public_key_hex: " KEY                  \
	"\n  signature_hex: " SIG "\n"

static void
hash_hex(const char *text, char hex[65])
{
	unsigned char raw[32];

	EVP_Digest(text, strlen(text), raw, NULL, EVP_sha256(), NULL);
	hex_encode(hex, raw, sizeof(raw));
}

static enum signature_shape
shape_of(const char *yaml, struct signature *s)
{
	char text[4096];
	struct frontmatter f;

	snprintf(text, sizeof(text), "---\n%s---\nbody\n", yaml);
	if (frontmatter_cut(text, strlen(text), &f) != NULL)
		return SIGNATURE_NONE;
	signature_read(&f, s);
	return s->shape;
}

static void
is_shape(const char *yaml, enum signature_shape want, unsigned line,
    const char *name)
{
	struct signature s;
	enum signature_shape got = shape_of(yaml, &s);

	ok(got == want && s.line == line, "%s", name);
	if (got != want || s.line != line)
		printf("# shape %d, line %u\n", (int)got, s.line);
}

static void
test_shapes(void)
{
	is_shape("id: a\n", SIGNATURE_NONE, 0, "no signature");
	is_shape("id: a\n" BLOCK, SIGNATURE_WHOLE, 2, "one at the end");
	is_shape(BLOCK, SIGNATURE_WHOLE, 1, "one alone");
	is_shape("x-signature: a\n", SIGNATURE_NONE, 0, "another key");
	is_shape(BLOCK "id: a\n", SIGNATURE_BROKEN, 1, "not at the end");
	is_shape(BLOCK "\n", SIGNATURE_BROKEN, 1, "an empty line behind it");
	is_shape(BLOCK "# x\n", SIGNATURE_BROKEN, 1, "a comment behind it");
	is_shape(BLOCK BLOCK, SIGNATURE_BROKEN, 1, "two of them");
	is_shape("signature: x\n" BLOCK, SIGNATURE_BROKEN, 1, "two keys");
	is_shape("signature: x\n", SIGNATURE_BROKEN, 1, "a word");
	is_shape("x: 1\nsignature:\n  algo: ed25519\n", SIGNATURE_BROKEN, 2,
	    "half of one");
	is_shape("signature:\n  algo: ed448\n  public_key_hex: " KEY
		 "\n  signature_hex: " SIG "\n",
	    SIGNATURE_BROKEN, 1, "another algorithm");
	is_shape("signature:\n  algo: ed25519\n  signature_hex: " SIG
		 "\n  public_key_hex: " KEY "\n",
	    SIGNATURE_BROKEN, 1, "another order");
	is_shape("signature:\n    algo: ed25519\n    public_key_hex: " KEY
		 "\n    signature_hex: " SIG "\n",
	    SIGNATURE_BROKEN, 1, "four blanks");
	is_shape("signature:\n  algo: ed25519\n  public_key_hex: \"" KEY
		 "\"\n  signature_hex: " SIG "\n",
	    SIGNATURE_BROKEN, 1, "quotes");
	is_shape("signature:\n  algo: ed25519\n  public_key_hex: " KEY
		 "\n  signature_hex: " SIG " \n",
	    SIGNATURE_BROKEN, 1, "a blank at the end of a line");
	is_shape("x: 1\n  public_key_hex: a\n", SIGNATURE_BROKEN, 2,
	    "what is left when the first line is gone");
	is_shape("x-a: {signature_hex: b}\n", SIGNATURE_NONE, 0,
	    "the words within a line");
}

/* Whichever byte of the block is another: never none, and whole only where a
 * digit became another digit. */
static void
test_every_byte(void)
{
	static const char digits[] = "0123456789abcdef";
	char yaml[] = "id: a\n" BLOCK;
	struct signature s;
	unsigned none = 0, whole = 0;
	size_t i;
	int c;

	for (i = 6; i + 2 < sizeof(yaml); i++) {
		for (c = 1; c < 256; c++) {
			char was = yaml[i];

			if ((unsigned char)was == c)
				continue;
			yaml[i] = (char)c;
			switch (shape_of(yaml, &s)) {
			case SIGNATURE_NONE:
				none++;
				break;
			case SIGNATURE_WHOLE:
				if (strchr(digits, c) == NULL ||
				    strchr(digits, was) == NULL)
					whole++;
				break;
			case SIGNATURE_BROKEN:
				break;
			}
			yaml[i] = was;
		}
	}
	is_int(none, 0, "a changed signature is never none");
	is_int(whole, 0, "and never one in another spelling");
}

static void
is_text(const char *file, const char *front, const char *body, const char *name)
{
	struct frontmatter f;
	struct signature s;
	char want[129], got[129];

	if (!ok(frontmatter_cut(file, strlen(file), &f) == NULL, "%s: cut",
		name))
		return;
	signature_read(&f, &s);
	hash_hex(front, want);
	hash_hex(body, want + 64);
	hex_encode(got, s.text, sizeof(s.text));
	if (s.shape != SIGNATURE_WHOLE)
		got[64] = want[64] = '\0';
	is_str(got, want, name);
}

static void
test_text(void)
{
	is_text("---\nid: a\nb: c\n---\n# Body\n", "id: a\nb: c", "",
	    "unsigned: all of the frontmatter");
	is_text("---\nid: a\nb: c\n" BLOCK "---\n# Body\n", "id: a\nb: c",
	    "# Body", "signed: without the four lines");
	is_text("\xef\xbb\xbf--- \t\r\n\r\nid: a\r\nb: c \r\nsignature:\r\n"
		"  algo: ed25519\r\n  public_key_hex: " KEY
		"\r\n  signature_hex: " SIG "\r\n---\r\n\r\n# B\r\n\r\nx \r\n ",
	    "id: a\nb: c", "# B\n\nx", "CRLF, a BOM, blanks at the ends");
	is_text("---\na: \"\r\r\n\rb\"\n" BLOCK "---\n\r", "a: \"\r\n\rb\"", "",
	    "a CR that no LF follows stays");
	is_text("---\n" BLOCK "---", "", "", "nothing at all");
}

static void
test_keys(void)
{
	static const char *const bad[] = {
	    "0000000000000000000000000000000000000000000000000000000000000000",
	    "0100000000000000000000000000000000000000000000000000000000000000",
	    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	    /* only a second spelling: p + 2 to p + 18 */
	    "efffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"};
	unsigned char key[32];
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		hex_decode(key, bad[i], 32);
		ok(signature_bad_key(key) != NULL, "refused: %.8s...%s", bad[i],
		    bad[i] + 60);
		key[31] |= 0x80;
		ok(signature_bad_key(key) != NULL, "refused: its negative");
	}
	hex_decode(key, KEY, 32);
	ok(signature_bad_key(key) == NULL, "a key of RFC 8032 is fine");
	memset(key, 0xff, 32);
	key[0] = 0xeb;
	key[31] = 0x7f;
	ok(signature_bad_key(key) == NULL, "so is p - 2");
}

int
main(void)
{
	test_shapes();
	test_every_byte();
	test_text();
	test_keys();
	return done();
}
