/*
 * The operator's word on signatures. It guarantees, against the author and
 * against a key that is good for something else, that where signatures are
 * required only what a trusted key may sign is run, with all its files covered,
 * and nothing older than the operator said; against a typo, that a key, id or
 * version that cannot be one stops everything.
 */

#include "enforce/trust.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "enforce/hex.h"
#include "enforce/manifest.h"
#include "enforce/policy.h"
#include "enforce/signature.h"
#include "enforce/yaml.h"

#define WORD_MAX 160
#define ID_MAX 64

/* Where the reading stands, and what is wrong. */
struct reading {
	const struct yaml_item **at;
	char *why;
	size_t whylen;
};

__attribute__((format(printf, 3, 4))) static int
refuse(struct reading *r, const struct yaml_item *at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->why, r->whylen, fmt, ap);
	va_end(ap);
	*r->at = at;
	errno = EINVAL;
	return -1;
}

static bool
is_text(const struct yaml_item *item)
{
	return item->kind == YAML_KIND_TEXT && item->len > 0 &&
	       strlen(item->text) == item->len;
}

/* --- a key --- */

#define PEM_BEGIN "-----BEGIN PUBLIC KEY-----"
#define PEM_END "-----END PUBLIC KEY-----"
/* SEQUENCE { SEQUENCE { OID 1.3.101.112 } BIT STRING of 32 bytes }, RFC 8410:
 * its first 12 bytes are these 16 digits, the key is the other 44. */
#define PEM_ED25519 "MCowBQYDK2VwAyEA"
#define PEM_DIGITS 60

static int
base64_value(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c == '\0' ? NULL : strchr(digits, c);

	return at == NULL ? -1 : (int)(at - digits);
}

/* 43 digits and a "=" are 32 bytes; the last two bits are nothing. */
static bool
base64_key(const char digits[44], unsigned char key[SIGNATURE_KEY])
{
	unsigned bits = 0, have = 0;
	size_t i, n = 0;
	int value;

	for (i = 0; i < 43; i++) {
		value = base64_value(digits[i]);
		if (value == -1)
			return false;
		bits = (bits << 6 | (unsigned)value) & 0xffff;
		have += 6;
		if (have >= 8) {
			have -= 8;
			key[n++] = (unsigned char)(bits >> have);
		}
	}
	return digits[43] == '=' && (bits & 3) == 0;
}

#define NO_KEY                                                                 \
	"holds no Ed25519 public key in PEM form; name the .pub file that "    \
	"`cyberos skill keygen` wrote"

const char *
trust_pem(const char *pem, size_t len, char key[65])
{
	const char *p, *end, *last = pem + len;
	char digits[PEM_DIGITS];
	unsigned char raw[SIGNATURE_KEY];
	size_t n = 0;

	p = memmem(pem, len, PEM_BEGIN, strlen(PEM_BEGIN));
	if (p == NULL)
		return NO_KEY;
	p += strlen(PEM_BEGIN);
	/* Which of two was meant, nobody knows. */
	if (memmem(p, (size_t)(last - p), PEM_BEGIN, strlen(PEM_BEGIN)) != NULL)
		return "holds more than one key; write each into a file of its "
		       "own, and name them all";
	end = memmem(p, (size_t)(last - p), PEM_END, strlen(PEM_END));
	for (; end != NULL && p < end; p++) {
		if (*p == '\n' || *p == '\r' || *p == ' ' || *p == '\t')
			continue;
		if (n == sizeof(digits))
			return NO_KEY;
		digits[n++] = *p;
	}
	if (end == NULL || n != sizeof(digits) ||
	    memcmp(digits, PEM_ED25519, strlen(PEM_ED25519)) != 0 ||
	    !base64_key(digits + strlen(PEM_ED25519), raw))
		return NO_KEY;
	hex_encode(key, raw, sizeof(raw));
	return NULL;
}

static int
read_file(struct reading *r, struct trust_key *k, const struct yaml_item *item)
{
	char word[WORD_MAX], text[SIGNATURE_PEM_MAX];
	const char *bad;
	struct stat st;
	ssize_t n = -1;
	bool trusted = false;
	int fd;

	yaml_printable(word, sizeof(word), item->text, item->len);
	fd = open(item->text,
	    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd == -1)
		return refuse(r, item, "%s: %s", word, strerror(errno));
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		trusted = policy_file_trusted(fd);
		n = read(fd, text, sizeof(text));
	}
	close(fd);
	if (n == -1)
		return refuse(r, item, "%s: is no regular file", word);
	if (!trusted)
		return refuse(r, item,
		    "%s: others than root can write it or a directory above "
		    "it; change owner and mode, or move it",
		    word);
	/* Another key may stand in what was not read. */
	bad = (size_t)n == sizeof(text) ? "is too long for a file with one key"
					: trust_pem(text, (size_t)n, k->key);
	if (bad != NULL)
		return refuse(r, item, "%s: %s", word, bad);
	k->file = strdup(item->text);
	return k->file == NULL ? -1 : 0;
}

#define KEY_ADVICE                                                             \
	"write 64 hexadecimal digits in quotes, or the absolute path of a "    \
	".pub file; `cyberos skill keygen` makes both"

/* 64 digits, in which people may write capitals, or a file. */
static int
read_key(struct reading *r, struct trust_key *k, const struct yaml_item *item)
{
	unsigned char raw[SIGNATURE_KEY];
	char word[WORD_MAX];
	const char *bad;
	size_t i;

	if (is_text(item) && item->text[0] == '/') {
		if (read_file(r, k, item) == -1)
			return -1;
	} else if (is_text(item) && item->len == SIGNATURE_KEY * 2) {
		for (i = 0; i < item->len; i++)
			k->key[i] = (char)tolower((unsigned char)item->text[i]);
		k->key[i] = '\0';
	}
	if (!is_text(item))
		return refuse(r, item, "here is %s; " KEY_ADVICE,
		    yaml_what(item));
	if (!hex_is(k->key, SIGNATURE_KEY) ||
	    !hex_decode(raw, k->key, SIGNATURE_KEY))
		return refuse(r, item, "`%s` is no key; " KEY_ADVICE,
		    yaml_printable(word, sizeof(word), item->text, item->len));
	bad = signature_bad_key(raw);
	return bad == NULL ? 0 : refuse(r, item, "%s", bad);
}

/* --- what it may sign --- */

static int
check_ids(struct reading *r, const struct yaml_item *item)
{
	char word[WORD_MAX];

	if (is_text(item) && item->len <= ID_MAX &&
	    strspn(item->text, "abcdefghijklmnopqrstuvwxyz0123456789-*") ==
		item->len)
		return 0;
	return refuse(r, item,
	    "`%s` is no id; write ids such as memory-capture, or patterns such "
	    "as \"memory-*\"",
	    is_text(item)
		? yaml_printable(word, sizeof(word), item->text, item->len)
		: yaml_what(item));
}

static int
read_ids(struct reading *r, struct trust_key *k, const struct yaml_item *value)
{
	const struct yaml_item *item;
	size_t n = 0;

	if (value->kind != YAML_KIND_LIST)
		return refuse(r, value, "ids: here is %s; write a list of ids",
		    yaml_what(value));
	for (item = value->child; item != NULL; item = item->next)
		n++;
	k->ids = calloc(n + 1, sizeof(*k->ids));
	if (k->ids == NULL)
		return -1;
	for (item = value->child; item != NULL; item = item->next) {
		if (check_ids(r, item) == -1)
			return -1;
		k->ids[k->ids_n] = strdup(item->text);
		if (k->ids[k->ids_n++] == NULL)
			return -1;
	}
	return 0;
}

static int
read_least(struct reading *r, struct trust_key *k,
    const struct yaml_item *value)
{
	const struct yaml_item *item;
	struct trust_least *least;
	size_t n = 0;

	if (value->kind != YAML_KIND_MAP)
		return refuse(r, value,
		    "min_version: here is %s; write a mapping of ids to "
		    "versions, as {memory-capture: 1.2.0}",
		    yaml_what(value));
	for (item = value->child; item != NULL; item = item->next)
		n++;
	k->least = calloc(n + 1, sizeof(*k->least));
	if (k->least == NULL)
		return -1;
	for (item = value->child; item != NULL; item = item->next) {
		if (check_ids(r, item->key) == -1)
			return -1;
		if (!is_text(item) || !manifest_is_version(item->text))
			return refuse(r, item,
			    "min_version: write a version such as 1.0.0");
		least = &k->least[k->least_n++];
		least->ids = strdup(item->key->text);
		least->version = strdup(item->text);
		if (least->ids == NULL || least->version == NULL)
			return -1;
	}
	return 0;
}

static int
read_mapping(struct reading *r, struct trust_key *k,
    const struct yaml_item *item)
{
	static const char *const names[] = {"key", "ids", "min_version", NULL};
	const struct yaml_item *member;
	const char *guess;
	char word[WORD_MAX];
	int error = 0;

	for (member = item->child; member != NULL && error == 0;
	     member = member->next) {
		if (yaml_is(member->key, "key"))
			error = read_key(r, k, member);
		else if (yaml_is(member->key, "ids"))
			error = read_ids(r, k, member);
		else if (yaml_is(member->key, "min_version"))
			error = read_least(r, k, member);
		else {
			guess = yaml_guess(member->key->text, names);
			error = refuse(r, member->key,
			    "there is no `%s` here; %s%s%s",
			    yaml_printable(word, sizeof(word),
				member->key->text, member->key->len),
			    guess != NULL ? "did you mean `" : "write key, ids",
			    guess != NULL ? guess : " and min_version",
			    guess != NULL ? "`?" : "");
		}
	}
	if (error == 0 && k->key[0] == '\0')
		error = refuse(r, item, "an entry without `key`; write key: "
					"and 64 hexadecimal digits");
	/* What is not written is not granted. */
	if (error == 0 && k->ids == NULL)
		error = refuse(r, item, "an entry without `ids`; write the ids "
					"that it may sign, [\"*\"] for all");
	return error;
}

int
trust_read(struct trust_list *list, const struct yaml_item *value,
    const struct yaml_item **at, char *why, size_t whylen)
{
	struct reading r = {at, why, whylen};
	const struct yaml_item *item;
	struct trust_key *k;
	size_t n = 0;
	int error = 0;

	list->set = true;
	if (value->kind != YAML_KIND_LIST)
		return refuse(&r, value, "here is %s; write a list of keys",
		    yaml_what(value));
	for (item = value->child; item != NULL; item = item->next)
		n++;
	list->v = calloc(n + 1, sizeof(*list->v));
	if (list->v == NULL)
		return -1;
	for (item = value->child; item != NULL && error == 0;
	     item = item->next) {
		k = &list->v[list->n++];
		error = item->kind == YAML_KIND_MAP ? read_mapping(&r, k, item)
						    : read_key(&r, k, item);
	}
	return error;
}

void
trust_clear(struct trust_list *list)
{
	struct trust_key *k;
	size_t i, j;

	for (i = 0; i < list->n; i++) {
		k = &list->v[i];
		for (j = 0; j < k->ids_n; j++)
			free(k->ids[j]);
		for (j = 0; j < k->least_n; j++) {
			free(k->least[j].ids);
			free(k->least[j].version);
		}
		free(k->ids);
		free(k->least);
		free(k->file);
	}
	free(list->v);
	memset(list, 0, sizeof(*list));
}

/* --- the judgement --- */

static bool
may_sign(const struct trust_key *k, const char *id)
{
	size_t i;

	for (i = 0; i < k->ids_n; i++) {
		if (fnmatch(k->ids[i], id, 0) == 0)
			return true;
	}
	return k->ids == NULL;
}

/* The version that an id must have at least and has not, or NULL. */
static const char *
too_old(const struct trust_key *k, const struct manifest *m)
{
	size_t i;

	for (i = 0; i < k->least_n; i++) {
		if (fnmatch(k->least[i].ids, m->id, 0) == 0 &&
		    manifest_version_cmp(m->version, k->least[i].version) < 0)
			return k->least[i].version;
	}
	return NULL;
}

/* One list; a key may stand in it more than once. */
static bool
list_allows(const struct trust_list *list, const struct manifest *m, char *why,
    size_t whylen)
{
	const struct trust_key *k;
	const char *least;
	size_t i;

	snprintf(why, whylen,
	    "the key %s is not among the operator's trusted_keys", m->signer);
	for (i = 0; i < list->n; i++) {
		k = &list->v[i];
		if (strcmp(k->key, m->signer) != 0)
			continue;
		least = too_old(k, m);
		if (!may_sign(k, m->id))
			snprintf(why, whylen,
			    "the key %s may not sign for the id %s", m->signer,
			    m->id);
		else if (least != NULL)
			snprintf(why, whylen,
			    "version %s of %s is below the operator's "
			    "min_version, %s",
			    m->version, m->id, least);
		else
			return true;
	}
	return false;
}

static bool
is_revoked(const struct policy *policy, const struct manifest *m)
{
	size_t i;

	for (i = 0; i < policy->revoked_n; i++) {
		if (strcmp(policy->revoked[i], m->frontmatter_hash) == 0)
			return true;
	}
	return false;
}

bool
trust_allows(const struct policy *policy, const struct manifest *m, char *why,
    size_t whylen)
{
	const struct trust_list *list;
	bool allowed = false;
	size_t i;

	if (is_revoked(policy, m)) {
		snprintf(why, whylen,
		    "the operator has revoked this skill (%s)",
		    m->frontmatter_hash);
		return false;
	}
	if (!policy->require_signature)
		return true;
	if (m->signer[0] == '\0') {
		snprintf(why, whylen, "the operator requires a signature and "
				      "this skill has none");
		return false;
	}
	if (m->files_sha256[0] == '\0') {
		snprintf(why, whylen, "the signature does not cover the "
				      "skill's files (x-files-sha256); sign it "
				      "again with `cyberos skill sign`");
		return false;
	}
	snprintf(why, whylen, "the operator trusts no key");
	for (i = 0; i < POLICY_CEILINGS; i++) {
		list = &policy->ceilings[i].keys;
		if (!list->set)
			continue;
		if (!list_allows(list, m, why, whylen))
			return false;
		allowed = true;
	}
	return allowed;
}
