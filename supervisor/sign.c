/*
 * Making keys and signatures. A private key is written once, to a new file that
 * only its owner can read, and goes to cyberos-ed25519 and nowhere else. What
 * is signed is judged first as a run would judge it, then written as a whole or
 * not at all, and what is written has been verified.
 */

#include "supervisor/sign.h"

#include <sys/stat.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/buf.h"
#include "enforce/bundle.h"
#include "enforce/frontmatter.h"
#include "enforce/hex.h"
#include "enforce/manifest.h"
#include "enforce/signature.h"
#include "supervisor/exit.h"
#include "supervisor/outfile.h"
#include "supervisor/settings.h"
#include "supervisor/tree.h"
#include "tools/registry.h"

#define KEY_FILE "skill.key"
#define PUB ".pub"
#define KEY_HEX (SIGNATURE_KEY * 2 + 1)
#define FILES_KEY "x-files-sha256:"
#define TEXT_MAX (MANIFEST_FILE_MAX + 4096) /* more is refused by the reader */

static const char keygen_usage[] = "usage: cyberos skill keygen [FILE]\n";

static const char keygen_help[] =
    "\n"
    "Make a key that signs skills: FILE (skill.key) is the private key and stays\n"
    "with you, FILE.pub the public one. No file is written over.\n"
    "\n"
    "  --help         this text\n"
    "\n"
    "Exit status: 0 made, 1 not made, 2 usage.\n";

static const char sign_usage[] =
    "usage: cyberos skill sign DIR --key FILE [--config FILE]\n";

static const char sign_help[] =
    "\n"
    "Sign the skill in DIR: its SKILL.md gets the hash of all its files and a\n"
    "signature; old ones are replaced. Sign last: whatever is changed\n"
    "afterwards makes the signature invalid.\n"
    "\n"
    "  --key FILE     the private key, as `cyberos skill keygen` makes it\n"
    "  --config FILE  ceilings of this configuration too\n"
    "  --help         this text\n"
    "\n"
    "Exit status: 0 signed, 6 the skill is invalid, 1 failure, 2 usage,\n"
    "3 configuration.\n";

/* --- keys --- */

/* Why the program that holds the keys did not do it. */
static const char *
trouble(int answer)
{
	switch (answer) {
	case SIGNATURE_NO_KEY:
		return "holds no private key in PEM form; make one with "
		       "`cyberos skill keygen`";
	case SIGNATURE_LOCKED:
		return "is locked with a passphrase; write it without one: "
		       "openssl pkey -in FILE -out NEW";
	case SIGNATURE_OTHER_KEY:
		return "is no Ed25519 key; make one with `cyberos skill keygen`";
	case -1:
		return errno == EPERM
		    ? SIGNATURE_PROGRAM " could be written by others than root "
					"and you"
		    : errno == ENOENT
		    ? SIGNATURE_PROGRAM " is not installed"
		    : SIGNATURE_PROGRAM " failed";
	default:
		return SIGNATURE_PROGRAM " failed";
	}
}

/* In quotes, since digits alone would be a number. */
static void
print_key(const char *file, const char *hex)
{
	char name[PATH_MAX * 4];

	manifest_printable(name, sizeof(name), file);
	printf("private key: %s (keep it to yourself)\n"
	       "public key:  %s" PUB "\n"
	       "\n"
	       "Sign a skill:\n"
	       "\n"
	       "  cyberos skill sign DIR --key %s\n"
	       "\n"
	       "Trust it, for all ids or for some, in /etc/cyberos/broker.yaml:\n"
	       "\n"
	       "require_signature: true\n"
	       "trusted_keys:\n"
	       "  - key: \"%s\"\n"
	       "    ids: [\"*\"]\n",
	    name, name, name, hex);
}

/* The public half of a key: hex, and PEM text behind its bytes. */
static int
public_of(const void *pem, size_t len, char hex[KEY_HEX], char *out,
    size_t *out_len)
{
	int answer = signature_program("public", pem, len, out, out_len);

	if (answer != SIGNATURE_YES)
		return answer;
	if (*out_len <= SIGNATURE_KEY)
		return SIGNATURE_FAILED;
	hex_encode(hex, (unsigned char *)out, SIGNATURE_KEY);
	return SIGNATURE_YES;
}

static int
make_key(const char *file)
{
	char pub[PATH_MAX], pem[SIGNATURE_PEM_MAX], hex[KEY_HEX];
	char public[SIGNATURE_PEM_MAX];
	size_t len = sizeof(pem), public_len = sizeof(public);
	int answer, result = EXIT_FAILED;

	if (snprintf(pub, sizeof(pub), "%s" PUB, file) >= (int)sizeof(pub)) {
		warnx("the name is too long");
		return EXIT_FAILED;
	}
	answer = signature_program("keygen", NULL, 0, pem, &len);
	if (answer == SIGNATURE_YES)
		answer = public_of(pem, len, hex, public, &public_len);
	if (answer != SIGNATURE_YES) {
		warnx("%s", trouble(answer));
	} else if (outfile_new(AT_FDCWD, file, 0600, pem, len) == -1) {
		warn("%s", file);
	} else if (outfile_new(AT_FDCWD, pub, 0644, public + SIGNATURE_KEY,
		       public_len - SIGNATURE_KEY) == -1) {
		warn("%s", pub);
		unlink(file);
	} else {
		print_key(file, hex);
		result = EXIT_FINE;
	}
	explicit_bzero(pem, sizeof(pem));
	return result;
}

int
sign_keygen(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	optind = 0; /* glibc: begin anew */
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'h') {
			printf("%s%s", keygen_usage, keygen_help);
			return EXIT_FINE;
		}
		fputs(keygen_usage, stderr);
		return EXIT_USAGE;
	}
	if (argc - optind > 1 || (optind < argc && argv[optind][0] == '\0')) {
		fputs(keygen_usage, stderr);
		return EXIT_USAGE;
	}
	return make_key(optind < argc ? argv[optind] : KEY_FILE);
}

/* --- signing --- */

struct signing {
	const char *dir;
	const char *key_file;
	const char *config;
	char path[PATH_MAX];	    /* of SKILL.md */
	char shown[PATH_MAX * 4]; /* the same, for a terminal */
	struct settings settings;
	int dir_fd;
	struct stat st; /* of SKILL.md */
	char *text;
	size_t len;
	struct frontmatter f;
	struct signature old;
	char pem[SIGNATURE_PEM_MAX];
	size_t pem_len;
	char key[KEY_HEX];
	char files[65];
	struct buf out; /* SKILL.md as it will be */
};

static int
failed(const struct signing *s, int status, const char *why)
{
	warnx("%s: %s", s->shown, why);
	return status;
}

/* Two keys: which one was meant, nobody knows. Each has the mark twice. */
static bool
has_one_key(const char *pem, size_t len)
{
	static const char mark[] = "PRIVATE KEY-----";
	const char *p = pem, *end = pem + len;
	size_t n = 0;

	while ((p = memmem(p, (size_t)(end - p), mark, strlen(mark))) != NULL) {
		p += strlen(mark);
		n++;
	}
	return n <= 2;
}

static int
read_key(struct signing *s)
{
	struct stat st;
	ssize_t n = -1;
	int fd;

	fd = open(s->key_file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd == -1) {
		warn("%s", s->key_file);
		return EXIT_FAILED;
	}
	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)) {
		warnx("%s: is no regular file", s->key_file);
	} else if ((st.st_mode & 077) != 0) {
		warnx("%s: others can read it; run: chmod 600 %s", s->key_file,
		    s->key_file);
	} else if (tree_holds(s->dir, s->key_file)) {
		/* It would go to whoever gets the skill. */
		warnx("%s: the private key lies in the skill's directory, and "
		      "would go with it; move it elsewhere",
		    s->key_file);
	} else {
		n = read(fd, s->pem, sizeof(s->pem));
		if (n == -1)
			warn("%s", s->key_file);
		else if (n == 0)
			warnx("%s: %s", s->key_file, trouble(SIGNATURE_NO_KEY));
		else if ((size_t)n == sizeof(s->pem) ||
		    !has_one_key(s->pem, (size_t)n)) {
			warnx("%s: is too long, or holds more than one "
			      "private key; name a file with the one that is "
			      "to sign",
			    s->key_file);
			n = 0;
		}
	}
	close(fd);
	s->pem_len = n > 0 ? (size_t)n : 0;
	return n > 0 ? EXIT_FINE : EXIT_FAILED;
}

static int
take_key(struct signing *s)
{
	char public[SIGNATURE_PEM_MAX];
	size_t len = sizeof(public);
	int answer = read_key(s);

	if (answer != EXIT_FINE)
		return answer;
	answer = public_of(s->pem, s->pem_len, s->key, public, &len);
	if (answer == SIGNATURE_YES)
		return EXIT_FINE;
	warnx("%s: %s", s->key_file, trouble(answer));
	return EXIT_FAILED;
}

static int
read_skill(struct signing *s)
{
	const char *why;

	s->dir_fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd == -1 ||
	    manifest_read(s->dir_fd, &s->text, &s->len) == -1 ||
	    fstatat(s->dir_fd, "SKILL.md", &s->st, AT_SYMLINK_NOFOLLOW) == -1)
		return failed(s, EXIT_FAILED,
		    errno == EINVAL || errno == ELOOP
			? "is no regular file"
			: strerror(errno));
	why = frontmatter_cut(s->text, s->len, &s->f);
	if (why != NULL)
		return failed(s, EXIT_INVALID, why);
	signature_read(&s->f, &s->old);
	if (s->old.shape == SIGNATURE_BROKEN)
		return failed(s, EXIT_INVALID,
		    "something of a signature is left in it that is no "
		    "signature; remove these lines");
	return EXIT_FINE;
}

static int
hash_files(struct signing *s)
{
	char why[512];
	struct bundle *b;

	b = bundle_read(s->dir_fd, false, why, sizeof(why));
	if (b == NULL) {
		warnx("%s: %s", s->shown, why);
		return errno == EINVAL ? EXIT_INVALID : EXIT_FAILED;
	}
	strlcpy(s->files, bundle_sha256(b), sizeof(s->files));
	if (!bundle_has_main(b))
		warnx("%s: warning: there is no executable main; the skill "
		      "cannot run",
		    s->dir);
	bundle_free(b);
	return EXIT_FINE;
}

/* Is the next line with something to say indented, and so a part of this one? */
static bool
goes_on(const char *p, const char *end)
{
	const char *line;
	size_t n, blanks;

	while (frontmatter_line(&p, end, &line, &n)) {
		for (blanks = 0; blanks < n; blanks++)
			if (line[blanks] != ' ' && line[blanks] != '\t')
				break;
		if (blanks < n && line[blanks] != '#')
			return blanks > 0;
	}
	return false;
}

/* Is it the whole field, in the form that is written here? */
static bool
is_hash_line(const char *line, size_t n, const char *next, const char *end)
{
	size_t key = strlen(FILES_KEY);

	return n >= key && memcmp(line, FILES_KEY, key) == 0 &&
	    (n == key || line[key] == ' ') && !goes_on(next, end);
}

/* The frontmatter without its old signature, with this line for the hash. */
static void
put_yaml(struct signing *s, const char *hash, const char *eol)
{
	const char *p = s->f.yaml, *end = p + s->old.offset, *line, *from;
	bool put = false;
	size_t n;

	for (from = p; frontmatter_line(&p, end, &line, &n); from = p) {
		if (put || !is_hash_line(line, n, p, end)) {
			buf_put(&s->out, from, (size_t)(p - from));
			continue;
		}
		buf_put_all(&s->out, hash, eol);
		put = true;
	}
	if (!put)
		buf_put_all(&s->out, hash, eol);
}

/* All of SKILL.md, with this line for the hash, and this signature or none. */
static void
compose_with(struct signing *s, const char *hash, const unsigned char *signature)
{
	const char *rest = s->f.yaml + s->f.yaml_len;
	const char *eol = s->f.crlf ? "\r\n" : "\n";
	char hex[SIGNATURE_BYTES * 2 + 1];

	buf_reset(&s->out);
	buf_put(&s->out, s->text, (size_t)(s->f.yaml - s->text));
	put_yaml(s, hash, eol);
	if (signature != NULL) {
		hex_encode(hex, signature, SIGNATURE_BYTES);
		buf_printf(&s->out,
		    "signature:%s  algo: ed25519%s  public_key_hex: %s%s"
		    "  signature_hex: %s%s",
		    eol, eol, s->key, eol, hex, eol);
	}
	buf_put(&s->out, rest, (size_t)(s->text + s->len - rest));
}

static void
compose(struct signing *s, const unsigned char *signature)
{
	char hash[sizeof(FILES_KEY) + sizeof(s->files)];

	snprintf(hash, sizeof(hash), FILES_KEY " %s", s->files);
	compose_with(s, hash, signature);
}

/*
 * With a comment in the place of our line there is no hash left, unless there
 * is one in another form, which nothing here could replace.
 */
static int
check_form(struct signing *s)
{
	struct manifest m = { 0 };
	int status = EXIT_FINE;

	compose_with(s, "#", NULL);
	if (s->out.failed ||
	    manifest_parse(s->out.data, s->out.len, &s->settings.policy,
		registry_names(), CYBEROS_VERSION, &m) == -1) {
		status = failed(s, EXIT_FAILED, "is too large, or out of memory");
	} else if (m.files_line != 0) {
		fprintf(stderr, "%s:%u:%u: " FILES_KEY " write key and value on "
				"one line and the key without quotes, or "
				"remove both; then sign again\n",
		    s->shown, m.files_line, m.files_column);
		status = failed(s, EXIT_INVALID, "is not signed");
	}
	manifest_clear(&m);
	return status;
}

/* Is what was composed valid, and signed by this key ("" for none)? */
static int
check(struct signing *s, const char *key, struct manifest *m)
{
	const struct manifest_error *e;
	size_t i;

	if (s->out.failed)
		return failed(s, EXIT_FAILED, "is too large, or out of memory");
	if (manifest_parse(s->out.data, s->out.len, &s->settings.policy,
		registry_names(), CYBEROS_VERSION, m) == -1)
		return failed(s, EXIT_FAILED, trouble(-1));
	for (i = 0; i < m->errors_n; i++) {
		e = &m->errors[i];
		fprintf(stderr, "%s:%u:%u: %s: %s: %s\n", s->shown, e->line,
		    e->column, e->field[0] != '\0' ? e->field : "-",
		    manifest_code_word(e->code), e->message);
	}
	if (m->errors_n > 0)
		return failed(s, EXIT_INVALID,
		    "is not signed: correct it first; a frontmatter that is "
		    "signed has one \"key: value\" a line, and begins each at "
		    "the left (the lines are those of the signed file, where "
		    FILES_KEY " and signature: are put last)");
	if (strcmp(m->signer, key) != 0 ||
	    strcmp(m->files_sha256, s->files) != 0)
		return failed(s, EXIT_INVALID,
		    "is not signed: write the frontmatter with one \"key: "
		    "value\" a line");
	return EXIT_FINE;
}

static int
make_signature(struct signing *s, unsigned char signature[SIGNATURE_BYTES])
{
	unsigned char in[SIGNATURE_SIGNED + SIGNATURE_PEM_MAX];
	struct frontmatter f;
	struct signature empty;
	size_t len = SIGNATURE_BYTES;
	int answer;

	memset(signature, 0, SIGNATURE_BYTES);
	compose(s, signature);
	if (s->out.failed || frontmatter_cut(s->out.data, s->out.len, &f) != NULL)
		return failed(s, EXIT_FAILED, "is too large, or out of memory");
	signature_read(&f, &empty);
	if (empty.shape != SIGNATURE_WHOLE)
		return failed(s, EXIT_INVALID,
		    "is not signed: a line of it looks like one of a "
		    "signature; write it otherwise");
	memcpy(in, empty.text, SIGNATURE_SIGNED);
	memcpy(in + SIGNATURE_SIGNED, s->pem, s->pem_len);
	answer = signature_program("sign", in, SIGNATURE_SIGNED + s->pem_len,
	    signature, &len);
	explicit_bzero(in, sizeof(in));
	if (answer == SIGNATURE_YES && len == SIGNATURE_BYTES)
		return EXIT_FINE;
	warnx("%s: %s", s->key_file, trouble(answer));
	return EXIT_FAILED;
}

/* Mode and owner stay. */
static int
replace(struct signing *s)
{
	struct outfile o;
	int result = EXIT_FINE;

	outfile_init(&o);
	if (outfile_open(&o, s->path) == -1 ||
	    (geteuid() == 0 &&
		fchown(o.fd, s->st.st_uid, s->st.st_gid) == -1) ||
	    fchmod(o.fd, s->st.st_mode & 07777) == -1 ||
	    outfile_commit(&o, s->out.data, s->out.len) == -1)
		result = failed(s, EXIT_FAILED, strerror(errno));
	outfile_clear(&o);
	return result;
}

static int
sign_it(struct signing *s)
{
	unsigned char signature[SIGNATURE_BYTES];
	struct manifest before = { 0 }, after = { 0 };
	char why[1024];
	struct settings_options o = { s->config, NULL, NULL, NULL, NULL };
	int status;

	if (settings_load(&s->settings, &o, why, sizeof(why)) == -1) {
		warnx("%s", why);
		return EXIT_CONFIG;
	}
	if ((status = read_skill(s)) != EXIT_FINE ||
	    (status = take_key(s)) != EXIT_FINE ||
	    (status = hash_files(s)) != EXIT_FINE)
		return status;
	status = check_form(s);
	if (status != EXIT_FINE)
		return status;
	compose(s, NULL);
	status = check(s, "", &before);
	if (status == EXIT_FINE)
		status = make_signature(s, signature);
	if (status == EXIT_FINE) {
		compose(s, signature);
		status = check(s, s->key, &after);
	}
	if (status == EXIT_FINE)
		status = replace(s);
	if (status == EXIT_FINE)
		printf("%s: signed: %s %s by %s\n", s->shown, after.id,
		    after.version, s->key);
	manifest_clear(&before);
	manifest_clear(&after);
	return status;
}

static bool
sign_options(struct signing *s, int argc, char **argv, int *status)
{
	static const struct option options[] = {
		{ "key", required_argument, NULL, 'k' },
		{ "config", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	optind = 0; /* glibc: begin anew */
	*status = EXIT_USAGE;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'k':
			s->key_file = optarg;
			break;
		case 'c':
			s->config = optarg;
			break;
		case 'h':
			printf("%s%s", sign_usage, sign_help);
			*status = EXIT_FINE;
			return false;
		default:
			fputs(sign_usage, stderr);
			return false;
		}
	}
	if (argc - optind == 1 && argv[optind][0] != '\0' &&
	    s->key_file == NULL)
		warnx("which key? Name it with --key; `cyberos skill keygen` "
		      "makes one");
	if (argc - optind != 1 || argv[optind][0] == '\0' ||
	    s->key_file == NULL) {
		fputs(sign_usage, stderr);
		return false;
	}
	s->dir = argv[optind];
	return true;
}

int
sign_skill(int argc, char **argv)
{
	struct signing *s = calloc(1, sizeof(*s));
	size_t len;
	int status;

	if (s == NULL)
		err(EXIT_FAILED, NULL);
	s->dir_fd = -1;
	buf_init(&s->out, TEXT_MAX);
	if (!sign_options(s, argc, argv, &status))
		goto out;
	len = strlen(s->dir);
	while (len > 1 && s->dir[len - 1] == '/')
		len--;
	if (snprintf(s->path, sizeof(s->path), "%.*s/SKILL.md", (int)len,
		s->dir) >= (int)sizeof(s->path)) {
		warnx("the name is too long");
		status = EXIT_FAILED;
		goto out;
	}
	manifest_printable(s->shown, sizeof(s->shown), s->path);
	status = sign_it(s);
out:
	if (s->dir_fd != -1)
		close(s->dir_fd);
	settings_clear(&s->settings);
	buf_clear(&s->out);
	free(s->text);
	freezero(s, sizeof(*s));
	return status;
}
