#ifndef ENFORCE_SIGNATURE_H
#define ENFORCE_SIGNATURE_H

#include <stddef.h>

#include "enforce/frontmatter.h"

/*
 * The signature of a SKILL.md (SPEC 2; cyberos-skill(5), SIGNATURE): four
 * lines at the end of the frontmatter, Ed25519 over 64 bytes: the hash of the
 * rest of the frontmatter and the hash of the body.
 */

#define SIGNATURE_KEY		32
#define SIGNATURE_BYTES		64
#define SIGNATURE_SIGNED	(2 * FRONTMATTER_HASH)

enum signature_shape {
	SIGNATURE_NONE,
	SIGNATURE_WHOLE,	/* the four lines, and nothing else like them */
	SIGNATURE_BROKEN	/* something of a signature, but not these */
};

struct signature {
	enum signature_shape shape;
	unsigned	 line;		/* in the YAML, from 1, of its first line */
	size_t		 offset;	/* of a whole one, in the YAML */
	unsigned char	 key[SIGNATURE_KEY];
	unsigned char	 bytes[SIGNATURE_BYTES];
	/* What is signed. Its first half is the frontmatter hash, by which the
	 * ledger and the operator's list of revoked ones know the skill; the
	 * second half, of the body, is made for a whole signature only. */
	unsigned char	 text[SIGNATURE_SIGNED];
};

/* Find the signature and hash the rest. Looks at the text only. */
void	signature_read(const struct frontmatter *, struct signature *);

/*
 * May this public key be used? NULL, or a sentence: the points of small order,
 * for which anybody can make a signature, and second spellings of a key are
 * refused.
 */
const char *signature_bad_key(const unsigned char key[SIGNATURE_KEY]);

/*
 * Does a whole signature hold? 1 yes, 0 no, -1 with errno when it could not be
 * found out (as for signature_program).
 */
int	signature_verify(const struct signature *);

/* What cyberos-ed25519 exits with. */
enum signature_answer {
	SIGNATURE_YES = 0,
	SIGNATURE_NO = 1,	/* it does not hold */
	SIGNATURE_NO_KEY = 2,	/* the PEM text is no private key */
	SIGNATURE_LOCKED = 3,	/* the key has a passphrase */
	SIGNATURE_OTHER_KEY = 4,	/* it is not Ed25519 */
	SIGNATURE_FAILED = 5	/* the library did */
};

#define SIGNATURE_PROGRAM	"cyberos-ed25519"
#define SIGNATURE_PEM_MAX	8192	/* bytes of a key file */

/*
 * Run that program, the only one that has keys in OpenSSL's hands; loading it
 * all would cost each start of a skill. Its input is in[], its output goes to
 * out[], of *out_len bytes, which becomes what came:
 *
 *	verify	key, signature, text		-
 *	keygen	-				PEM text of a private key
 *	public	PEM text of a private key	the key, PEM text of it
 *	sign	text, PEM text of a private key	signature
 *
 * The answer, or -1 with errno: ENOENT, EPERM it is missing or could be written
 * by others, EIO it was not what it should be.
 */
int	signature_program(const char *command, const void *in, size_t in_len,
	    void *out, size_t *out_len);

#endif
