#ifndef ENFORCE_TRUST_H
#define ENFORCE_TRUST_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whose signatures count, for which skills and from which version on: the
 * operator's trusted_keys, and the judgement of SPEC 2 and 13 that is made with
 * them.
 */

struct manifest;
struct policy;
struct yaml_item;

struct trust_least {
	char	*ids;			/* an id, or a pattern with * */
	char	*version;
};

struct trust_key {
	char	 key[65];		/* lower-case hex */
	char	*file;			/* that it came from; NULL: written there */
	char	**ids;			/* patterns; NULL: every id */
	size_t	 ids_n;
	struct trust_least *least;	/* min_version */
	size_t	 least_n;
};

struct trust_list {
	bool	 set;
	struct trust_key *v;
	size_t	 n;
};

/*
 * Read a list of keys: each 64 hexadecimal digits or the absolute path of a PEM
 * file, or a mapping of key, ids and min_version. Key files are read now and,
 * by root, must not be writable by others. 0, or -1 with a sentence in why[]
 * and *at the item that is wrong; the list is cleared by the caller in any
 * case. errno is ENOMEM where it was that.
 */
int	trust_read(struct trust_list *, const struct yaml_item *,
	    const struct yaml_item **at, char *why, size_t whylen);
void	trust_clear(struct trust_list *);

/*
 * The one public key in a PEM text "PUBLIC KEY", as openssl-pkey(1) writes it
 * for Ed25519, in hex. NULL, or what is wrong with the file that holds it.
 */
const char *trust_pem(const char *pem, size_t len, char key[65]);

/*
 * May a skill with this valid manifest run, as far as signatures go? Each file
 * of the configuration that sets trusted_keys must allow it. False with a
 * sentence in why[].
 */
bool	trust_allows(const struct policy *, const struct manifest *, char *why,
	    size_t whylen);

#endif
