/*
 * Whose signature counts for what: public keys out of PEM texts, and the
 * judgement over one or two lists.
 */

#include "enforce/trust.h"

#include <fcntl.h>
#include <unistd.h>

#include "enforce/manifest.h"
#include "enforce/policy.h"

#include "t/unit/tap.h"

#define K1 "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
#define K2 "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
#define HASH "000000000000000000000000000000000000000000000000000000000000000f"
#define PEM                                                                    \
	"-----BEGIN PUBLIC KEY-----\n"                                         \
	"MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"       \
	"-----END PUBLIC KEY-----\n"

static void
is_pem(const char *pem, const char *want, const char *name)
{
	char key[65];

	if (want == NULL)
		ok(trust_pem(pem, strlen(pem), key) != NULL, "refused: %s", name);
	else
		ok(trust_pem(pem, strlen(pem), key) == NULL &&
			strcmp(key, want) == 0,
		    "%s", name);
}

static void
test_pem(void)
{
	is_pem(PEM, K1, "a PEM file");
	is_pem("Key of Ann\n" PEM "\n", K1, "with words around it");
	is_pem("-----BEGIN PUBLIC KEY-----\r\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7T"
	       "\r\nyWQHOg7hcvPapiMlrwIaaPcHURo=\r\n-----END PUBLIC KEY-----",
	    K1, "in several lines, CRLF");
	is_pem(PEM PEM, NULL, "two keys");
	is_pem(PEM "-----BEGIN PUBLIC KEY-----\n", NULL, "a key and a half");
	is_pem("", NULL, "nothing");
	is_pem("-----BEGIN PUBLIC KEY-----\n", NULL, "no end");
	is_pem("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyW"
	       "QHOg7hcvPapiMlrwIaaPcHURo=",
	    NULL, "no last line");
	is_pem("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyW"
	       "QHOg7hcvPapiMlrwIaaPcHURp=\n-----END PUBLIC KEY-----\n",
	    NULL, "bits that are not there");
	is_pem("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VuAyEA11qYAYKxCrfVS/7TyW"
	       "QHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n",
	    NULL, "X25519");
	is_pem("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyW"
	       "QHOg7hcvPapiMlrwIaaPcHUR==\n-----END PUBLIC KEY-----\n",
	    NULL, "31 bytes");
	is_pem("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyW"
	       "QHOg7hcvPapiMlrwIaaPcHURo=AAAA\n-----END PUBLIC KEY-----\n",
	    NULL, "more than a key");
	is_pem("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/Vpgu"
	       "oRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n",
	    NULL, "a private key");
}

static struct policy policy;
static char why[512];

static void
configure(const char *first, const char *second)
{
	const char *const text[] = {first, second};
	char file[] = "/tmp/cyberos-trust.XXXXXX";
	int fd = mkstemp(file);
	unsigned i;

	policy_clear(&policy);
	policy_init(&policy);
	for (i = 0; i < 2; i++) {
		if (text[i] == NULL)
			continue;
		if (ftruncate(fd, 0) == -1 ||
		    pwrite(fd, text[i], strlen(text[i]), 0) == -1 ||
		    policy_load(&policy, i, file, why, sizeof(why)) == -1)
			ok(false, "configuration: %s", why);
	}
	close(fd);
	unlink(file);
}

/* NULL: allowed; else what the refusal says. */
static void
judge(const char *id, const char *version, const char *key, const char *files,
    const char *want, const char *name)
{
	struct manifest m = {0};
	bool allowed;

	m.id = strdup(id);
	m.version = strdup(version);
	strlcpy(m.signer, key, sizeof(m.signer));
	strlcpy(m.files_sha256, files, sizeof(m.files_sha256));
	strlcpy(m.frontmatter_hash, HASH, sizeof(m.frontmatter_hash));
	why[0] = '\0';
	allowed = trust_allows(&policy, &m, why, sizeof(why));
	ok(want == NULL ? allowed : !allowed && strstr(why, want) != NULL,
	    "%s: %s", want == NULL ? "runs" : "refused", name);
	if (want != NULL && strstr(why, want) == NULL)
		printf("# %s\n", why);
	free(m.id);
	free(m.version);
}

static void
test_judge(void)
{
	configure("", NULL);
	judge("a", "1.0.0", "", "", NULL, "unsigned");
	judge("a", "1.0.0", K1, "", NULL, "by a key that nobody knows");
	configure("revoked: [" HASH "]", NULL);
	judge("a", "1.0.0", "", "", "revoked", "a revoked one, unsigned");
	judge("a", "1.0.0", K1, HASH, "revoked", "a revoked one, signed");
	configure("revoked: [" K1 "]", NULL);
	judge("a", "1.0.0", "", "", NULL, "when another one is revoked");
	configure("trusted_keys: [{key: " K1 ", ids: [b]}]", NULL);
	judge("a", "1.0.0", "", "", NULL, "unsigned, where it is not required");

	configure("require_signature: true\ntrusted_keys:\n"
		  "  - key: " K1 "\n    ids: [memory-*, note]\n"
		  "    min_version: {memory-capture: 1.2.0, \"*\": 0.5.0}\n"
		  "  - " K2 "\n",
	    NULL);
	judge("note", "1.0.0", "", "", "has none", "unsigned");
	judge("note", "1.0.0", K1, "", "x-files-sha256", "without its files");
	judge("note", "1.0.0", HASH, HASH, "not among", "another key");
	judge("note", "1.0.0", K1, HASH, NULL, "an id that is listed");
	judge("notes", "1.0.0", K1, HASH, "may not sign for the id notes",
	    "an id that is not");
	judge("memory-capture", "1.2.0", K1, HASH, NULL, "a pattern");
	judge("memory-capture", "1.10.0", K1, HASH, NULL, "a later version");
	judge("memory-capture", "1.2.0-rc.1", K1, HASH, "min_version, 1.2.0",
	    "a version before it");
	judge("note", "0.4.9", K1, HASH, "min_version, 0.5.0",
	    "a version below that of all");
	judge("whatever", "0.0.1", K2, HASH, NULL, "a key for everything");
	configure("require_signature: true\ntrusted_keys:\n"
		  "  - {key: " K1 ", ids: [a]}\n  - {key: " K1 ", ids: [b]}\n",
	    NULL);
	judge("b", "1.0.0", K1, HASH, NULL, "what one of two entries allows");
	configure("require_signature: true\ntrusted_keys:\n"
		  "  - {key: " K1 ", ids: []}\n",
	    NULL);
	judge("a", "1.0.0", K1, HASH, "may not sign", "by a key for no id");

	configure("require_signature: true\ntrusted_keys: [" K1 "]\n",
	    "trusted_keys: [" K2 "]\n");
	judge("a", "1.0.0", K1, HASH, "not among", "what the second file omits");
	judge("a", "1.0.0", K2, HASH, "not among", "what the second file adds");
	configure("trusted_keys: [" K1 ", " K2 "]\n",
	    "require_signature: true\ntrusted_keys: [{key: " K2
	    ", ids: [a]}]\n");
	judge("a", "1.0.0", K2, HASH, NULL, "what both files allow");
	judge("b", "1.0.0", K2, HASH, "may not sign", "what one of them does");
	policy_clear(&policy);
	policy.require_signature = true;
	judge("a", "1.0.0", K1, HASH, "trusts no key", "without any list");
}

int
main(void)
{
	test_pem();
	test_judge();
	policy_clear(&policy);
	return done();
}
