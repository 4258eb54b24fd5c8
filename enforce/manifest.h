#ifndef ENFORCE_MANIFEST_H
#define ENFORCE_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>

#include "enforce/glob.h"
#include "enforce/policy.h"

/*
 * SKILL.md -> what its author asks for, or every error of the file with its
 * line (SPEC 2, schema v1). The text is hostile: libyaml is used for its
 * events only, and aliases, anchors, tags, directives, duplicate keys and
 * everything that two YAML readers might see differently are refused.
 */

#define MANIFEST_FILE_MAX	(1024 * 1024)	/* bytes of SKILL.md */
#define MANIFEST_YAML_MAX	(64 * 1024)	/* bytes of frontmatter */
#define MANIFEST_ERRORS_MAX	100		/* listed; the rest is counted */

enum manifest_code {
	MANIFEST_MISSING_FRONTMATTER,
	MANIFEST_YAML_PARSE,
	MANIFEST_MISSING_FIELD,
	MANIFEST_INVALID_TYPE,
	MANIFEST_INVALID_ID,
	MANIFEST_INVALID_VERSION,
	MANIFEST_INVALID_DESCRIPTION,
	MANIFEST_INVALID_MEMORY_SCOPE_GLOB,
	MANIFEST_INVALID_FILE_GLOB,
	MANIFEST_INVALID_DOMAIN_GLOB,
	MANIFEST_UNKNOWN_TOOL,
	MANIFEST_UNKNOWN_FIELD,
	MANIFEST_DUPLICATE_KEY,
	MANIFEST_INVALID_VALUE,
	MANIFEST_SIGNATURE_FAILED,
	MANIFEST_BROKER_TOO_OLD,
	MANIFEST_BROKER_TOO_NEW
};

struct manifest_error {
	char			*field;		/* "" for the whole file */
	enum manifest_code	 code;
	char			*message;	/* what is wrong, what to write */
	unsigned		 line;		/* in SKILL.md, from 1 */
	unsigned		 column;	/* in code points, from 1 */
};

/* Where something stands, as in an error. */
struct manifest_place {
	unsigned	 line;
	unsigned	 column;
};

struct manifest {
	char		*id;
	char		*version;
	char		*description;
	struct glob_set	*memory_scopes;
	char		**tools;		/* allowed_tools, tools_n of them */
	size_t		 tools_n;
	char		**disallowed;
	size_t		 disallowed_n;
	struct glob_set	*files;			/* empty when absent */
	struct glob_set	*domains;		/* empty when absent */
	/* Of each glob of the three sets; NULL when the list is absent. */
	struct manifest_place *scopes_at;
	struct manifest_place *files_at;
	struct manifest_place *domains_at;
	bool		 shareable;		/* sync_class: shareable */
	bool		 pinned;		/* tenant_scope: pinned */
	unsigned	 effort_minutes;
	unsigned	 memory_mb;
	unsigned	 max_processes;
	unsigned	 max_calls_per_minute;	/* 0: unbounded */
	char		 files_sha256[65];	/* "" when absent */
	unsigned	 files_line;		/* where that stands */
	unsigned	 files_column;
	char		 frontmatter_hash[65];	/* lower-case hex */
	char		 signer[65];		/* the key, "" when unsigned */

	struct manifest_error *errors;
	size_t		 errors_n;
	size_t		 errors_dropped;	/* beyond MANIFEST_ERRORS_MAX */
};

/* "MissingFrontmatter" and so on: the wire word of a code. */
const char	*manifest_code_word(enum manifest_code);

/*
 * Read a SKILL.md text. The names of the registered tools come from the
 * caller, since the registry lives above this folder. A value above the
 * operator's ceiling is InvalidValue. broker_version is compared with
 * min_broker_version and max_broker_version. A signature is verified before all
 * that; one that does not hold is the first error. Always fills *m, which the
 * caller clears; the skill may be run only when errors_n is 0. 0, or -1 with
 * errno when the file could not be judged: ENOMEM, or as signature_verify.
 */
int		 manifest_parse(const char *text, size_t len,
		    const struct policy *, const char *const tools[],
		    const char *broker_version, struct manifest *m);

/*
 * Where x-files-sha256 is there: compare it with the files in the skill's
 * directory; what differs is one more error. *files is the caller's to free,
 * and NULL when there is nothing to compare or it differs; with keep it holds
 * the bytes that were compared. 0, or -1 with errno and a sentence when they
 * could not be read.
 */
struct bundle;
int		 manifest_check_files(struct manifest *, int dir_fd, bool keep,
		    struct bundle **files, char *why, size_t whylen);

void		 manifest_clear(struct manifest *);

/*
 * Open SKILL.md beneath a directory without following links and without
 * blocking, and read it: a regular file of at most MANIFEST_FILE_MAX bytes.
 * *text is the caller's to free. 0, or -1 with errno: ENOENT no such file,
 * EFBIG too large, EINVAL no regular file, ELOOP a link, and what open(2) says.
 */
int		 manifest_read(int dir_fd, char **text, size_t *len);

/* Is it a version by the grammar of SemVer 2.0.0 (at most 256 bytes)? */
bool		 manifest_is_version(const char *);

/* Is it an id that a skill may have? */
bool		 manifest_is_id(const char *);

/*
 * What stands before and behind an id in a frontmatter: a quote when it is a
 * word of YAML, of whichever version, else nothing.
 */
const char	*manifest_id_quote(const char *id);

/*
 * SemVer precedence of two valid versions: below, equal to or above zero.
 * Build metadata does not count.
 */
int		 manifest_version_cmp(const char *, const char *);

/*
 * Text of an author or a command line for a person's terminal: control,
 * direction and zero-width characters and bytes that are not UTF-8 become \x
 * and \u escapes; what does not fit is cut with dots. size is at least 16.
 * Returns out. The texts of a manifest_error are in this form already.
 */
const char	*manifest_printable(char *out, size_t size, const char *text);

#endif
