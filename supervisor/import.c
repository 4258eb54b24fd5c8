/*
 * Somebody else's skill becomes one of ours, in a directory of its own. The
 * original is only read, and read as what a stranger sent: bounded in number,
 * depth and bytes, no link is followed, nothing but regular files is opened for
 * reading, nothing is executed. The result appears complete under its name or
 * not at all.
 */

#include <sys/stat.h>

#include <dirent.h>
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

#include "enforce/foreign.h"
#include "enforce/frontmatter.h"
#include "enforce/manifest.h"
#include "enforce/policy.h"
#include "supervisor/author.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "supervisor/mapping.h"
#include "supervisor/outfile.h"
#include "supervisor/terminal.h"
#include "supervisor/tree.h"
#include "tools/registry.h"

#define BYTES_MAX ((size_t)64 * 1024 * 1024)
#define ENTRIES_MAX 4096
#define DEPTH_MAX 16
#define LISTED_MAX 100 /* files that are left out, by name */
#define FIRST_LINE 2   /* of the frontmatter */
#define WORD_COLUMN 10 /* where a note begins, behind its first word */
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define FILE_FLAGS (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

struct import {
	const char *dir;
	const char *out;
	const char *id; /* of the command line, or NULL */
	char name[NAME_MAX + 1];  /* of the directory */
	char out_path[PATH_MAX];  /* without slashes at its end */
	char shown_dir[PATH_MAX * 2], shown_out[PATH_MAX * 2]; /* printable */
	char temp[PATH_MAX + 16]; /* where it is made; "" before */
	int dir_fd, temp_fd;
	dev_t temp_dev;
	ino_t temp_ino;
	char *text;
	size_t len;
	struct frontmatter parts;
	struct foreign fields;
	struct mapping mapping;
	/* of the files */
	size_t files, bytes, entries, left_out;
	bool has_main;
};

static const char import_usage[] =
    "usage: cyberos skill import DIR [OUT] [--id ID]\n";

static const char import_help[] =
    "\n"
    "Make a skill of ours out of the SKILL.md of another kind in DIR and the\n"
    "files beside it, in OUT (default DIR-cyberos), and tell what was mapped,\n"
    "narrowed and dropped, and why. It never allows more than the original.\n"
    "DIR is left as it is; OUT must not lie in it, and not be there, or be\n"
    "empty.\n"
    "\n"
    "  --id ID   the skill's id, when its name makes none\n"
    "  --help    this text\n"
    "\n"
    "Exit status: 0; 1 no SKILL.md, or OUT cannot be made, 2 usage, 6 the\n"
    "original cannot be read, or says what we cannot express.\n";

static const struct option import_options[] = {
	{ "id", required_argument, NULL, 'i' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* What main is when the original has none. */
static const char main_text[] =
    "#!/bin/sh\n"
    "# Made by `cyberos skill import`: the original has no program, but a text\n"
    "# for an agent. Without arguments this prints that text; with the name of\n"
    "# one of the files here it runs that file with the other arguments. Put a\n"
    "# program of your own in its place, or let main do one thing well.\n"
    "case ${1-} in\n"
    "'') exec sed '1,/^---[[:blank:]]*$/d' SKILL.md ;;\n"
    "/* | ../* | */../*) echo \"$1: not below $PWD\" >&2; exit 2 ;;\n"
    "esac\n"
    "file=$1\n"
    "shift\n"
    "exec \"./$file\" \"$@\"\n";

/* --- what is told --- */

static void
say(const char *word, const char *text)
{
	printf("%-*s", WORD_COLUMN, word);
	terminal_sentence(text, WORD_COLUMN, WORD_COLUMN);
}

static void
say_left_out(struct import *i, const char *path, const char *why)
{
	char name[512], text[768];

	if (i->left_out++ >= LISTED_MAX)
		return;
	snprintf(text, sizeof(text), "%s: %s",
	    manifest_printable(name, sizeof(name), path), why);
	say("left out", text);
}

static void
tell_mapping(const struct import *i)
{
	const struct mapping_note *n;
	char text[2048];
	size_t j;

	for (j = 0; j < i->fields.mended_n; j++) {
		snprintf(text, sizeof(text),
		    "line %u: is no YAML without quotes, and was read as one "
		    "text",
		    i->fields.mended[j]);
		say("mended", text);
	}
	for (j = 0; j < i->mapping.n; j++) {
		n = &i->mapping.notes[j];
		if (n->line == 0)
			snprintf(text, sizeof(text), "%s: %s", n->field,
			    n->text);
		else
			snprintf(text, sizeof(text), "%s (line %u): %s",
			    n->field, n->line, n->text);
		say(mapping_word(n->kind), text);
	}
	if (i->mapping.unlisted > 0)
		printf("%zu more are not listed\n", i->mapping.unlisted);
}

static int
refuse_at(const struct import *i, unsigned line, unsigned column,
    const char *why)
{
	if (line > 0)
		fprintf(stderr, "%s/SKILL.md:%u:%u: %s\n", i->shown_dir, line, column,
		    why);
	else
		fprintf(stderr, "%s/SKILL.md: %s\n", i->shown_dir, why);
	fprintf(stderr, "cyberos: nothing was written\n");
	return EXIT_INVALID;
}

/* --- the files --- */

/*
 * The mode of a copy, whose group will be this one. Nobody may do more with it
 * than with the original, but for its owner, who writes it and throws it away.
 */
static mode_t
copied_mode(const struct stat *st, gid_t gid)
{
	bool is_dir = S_ISDIR(st->st_mode);
	bool is_program = is_dir || (st->st_mode & S_IXUSR) != 0;
	mode_t mode = st->st_mode & (is_program ? 0755 : 0644);
	mode_t both = mode & (mode >> 3) & 07;

	/* Those of one group may be the others of another one. */
	if (st->st_gid != gid)
		mode = (mode & 0700) | both << 3 | both;
	return mode | (is_dir ? 0700 : 0600);
}

/* Copy what is left of an open file. -1 with errno; EFBIG: over the bound. */
static int
copy_bytes(struct import *i, int from, int to)
{
	char data[65536];
	ssize_t n;

	for (;;) {
		n = read(from, data, sizeof(data));
		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return (int)n;
		i->bytes += (size_t)n;
		if (i->bytes > BYTES_MAX) {
			errno = EFBIG;
			return -1;
		}
		if (outfile_put(to, data, (size_t)n) == -1)
			return -1;
	}
}

static int
copy_file(struct import *i, int from_dir, int to_dir, const char *name,
    const char *path)
{
	struct stat st;
	int from, to = -1, result = -1, error;

	from = openat(from_dir, name, FILE_FLAGS);
	if (from == -1 && (errno == EACCES || errno == ELOOP)) {
		say_left_out(i, path, strerror(errno));
		return 0;
	}
	if (from == -1 || fstat(from, &st) == -1)
		goto out;
	/* Exchanged since it was looked at. */
	if (!S_ISREG(st.st_mode)) {
		say_left_out(i, path, "no regular file");
		result = 0;
		goto out;
	}
	to = openat(to_dir, name,
	    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	    copied_mode(&st, getegid()));
	if (to == -1 || copy_bytes(i, from, to) == -1)
		goto out;
	i->files++;
	result = 0;
out:
	error = errno;
	if (from != -1)
		close(from);
	if (to != -1 && close(to) == -1)
		result = -1;
	errno = error;
	return result;
}

static int copy_tree(struct import *, int from_dir, int to_dir,
    const char *path, unsigned depth);

static int
copy_directory(struct import *i, int from_dir, int to_dir, const char *name,
    const char *path, unsigned depth)
{
	struct stat st;
	int from, to = -1, result = -1;

	if (depth >= DEPTH_MAX) {
		say_left_out(i, path, "directories are nested too deeply");
		return 0;
	}
	from = openat(from_dir, name, DIR_FLAGS);
	if (from == -1) {
		say_left_out(i, path, strerror(errno));
		return 0;
	}
	if (fstat(from, &st) == 0 &&
	    mkdirat(to_dir, name, copied_mode(&st, getegid())) == 0)
		to = openat(to_dir, name, DIR_FLAGS);
	if (to != -1)
		result = copy_tree(i, from, to, path, depth + 1);
	else
		close(from);
	if (to != -1)
		close(to);
	return result;
}

/* Ours to write, or of no use in a skill. NULL, or why it is left out. */
static const char *
unwanted(const char *name, unsigned depth, const struct stat *st)
{
	if (strcmp(name, ".git") == 0)
		return "is not part of a skill";
	if (depth == 0 && strcmp(name, ".tenant") == 0)
		return "is the installer's to write";
	if (S_ISLNK(st->st_mode))
		return "is a link; put the file itself there";
	if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
		return "is no regular file";
	return NULL;
}

static int
copy_entry(struct import *i, int from_dir, int to_dir, const char *name,
    const char *above, unsigned depth)
{
	char path[PATH_MAX];
	struct stat st;
	const char *why;

	if (snprintf(path, sizeof(path), "%s%s%s", above,
		above[0] == '\0' ? "" : "/", name) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if (++i->entries > ENTRIES_MAX) {
		errno = EFBIG;
		return -1;
	}
	if (depth == 0 && strcmp(name, "SKILL.md") == 0)
		return 0;
	if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return errno == ENOENT ? 0 : -1;
	/* OUT may lie in DIR all the same, by a mount. */
	if (st.st_dev == i->temp_dev && st.st_ino == i->temp_ino)
		return 0;
	why = unwanted(name, depth, &st);
	if (why != NULL) {
		say_left_out(i, path, why);
		return 0;
	}
	if (depth == 0 && strcmp(name, "main") == 0)
		i->has_main = true;
	return S_ISDIR(st.st_mode)
	    ? copy_directory(i, from_dir, to_dir, name, path, depth)
	    : copy_file(i, from_dir, to_dir, name, path);
}

/* All that is in a directory, whose descriptor is taken. */
static int
copy_tree(struct import *i, int from_dir, int to_dir, const char *path,
    unsigned depth)
{
	DIR *dir = fdopendir(from_dir);
	struct dirent *e;
	int result = 0, error;

	if (dir == NULL) {
		close(from_dir);
		return -1;
	}
	for (;;) {
		errno = 0;
		e = readdir(dir);
		if (e == NULL) {
			result = errno == 0 ? 0 : -1;
			break;
		}
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		result = copy_entry(i, dirfd(dir), to_dir, e->d_name, path,
		    depth);
		if (result == -1)
			break;
	}
	error = errno;
	closedir(dir);
	errno = error;
	return result;
}

/* --- one import --- */

/* Without slashes at its end, and the last part of it. */
static int
name_paths(struct import *i)
{
	char dir[PATH_MAX];
	const char *slash;
	size_t n = strlcpy(dir, i->dir, sizeof(dir));

	manifest_printable(i->shown_dir, sizeof(i->shown_dir), i->dir);
	if (n >= sizeof(dir) - 16)
		return -1;
	while (n > 1 && dir[n - 1] == '/')
		dir[--n] = '\0';
	slash = strrchr(dir, '/');
	strlcpy(i->name, slash == NULL ? dir : slash + 1, sizeof(i->name));
	if (strcmp(i->name, ".") == 0 || strcmp(i->name, "..") == 0)
		i->name[0] = '\0';
	if (i->out == NULL && i->name[0] == '\0')
		return -1;
	if (i->out == NULL)
		snprintf(i->out_path, sizeof(i->out_path), "%.4080s-cyberos",
		    dir);
	else if (strlcpy(i->out_path, i->out, sizeof(i->out_path)) >=
	    sizeof(i->out_path))
		return -1;
	n = strlen(i->out_path);
	while (n > 1 && i->out_path[n - 1] == '/')
		i->out_path[--n] = '\0';
	manifest_printable(i->shown_out, sizeof(i->shown_out), i->out_path);
	return 0;
}

/* The original is left as it is: nothing is made in it. */
static bool
out_lies_in_dir(const struct import *i)
{
	char above[PATH_MAX];
	char *slash;

	strlcpy(above, i->out_path, sizeof(above));
	slash = strrchr(above, '/');
	if (slash == NULL)
		strlcpy(above, ".", sizeof(above));
	else
		slash[slash == above ? 1 : 0] = '\0';
	return tree_holds(i->dir, above);
}

/* There may be an empty directory in its place, and nothing else. */
static bool
out_is_free(const struct import *i)
{
	struct stat st;
	struct dirent *e;
	bool empty = true;
	DIR *dir;

	if (lstat(i->out_path, &st) == -1)
		return errno == ENOENT;
	if (!S_ISDIR(st.st_mode))
		return false;
	dir = opendir(i->out_path);
	if (dir == NULL)
		return false;
	while ((e = readdir(dir)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			empty = false;
	closedir(dir);
	return empty;
}

/* Where it is made: beside its place, so that it can be renamed. */
static int
make_temp(struct import *i)
{
	struct stat from, st;
	mode_t mask = umask(0);

	umask(mask);
	snprintf(i->temp, sizeof(i->temp), "%s.XXXXXX", i->out_path);
	if (mkdtemp(i->temp) == NULL) {
		i->temp[0] = '\0';
		return -1;
	}
	i->temp_fd = open(i->temp, DIR_FLAGS);
	if (i->temp_fd == -1 || fstat(i->temp_fd, &st) == -1 ||
	    fstat(i->dir_fd, &from) == -1 ||
	    fchmod(i->temp_fd, copied_mode(&from, st.st_gid) & ~mask) == -1)
		return -1;
	i->temp_dev = st.st_dev;
	i->temp_ino = st.st_ino;
	return 0;
}

static int
fill_temp(struct import *i)
{
	int fd = openat(i->dir_fd, ".", DIR_FLAGS);
	struct stat st;

	if (fd == -1 || copy_tree(i, fd, i->temp_fd, "", 0) == -1 ||
	    fstatat(i->dir_fd, "SKILL.md", &st, AT_SYMLINK_NOFOLLOW) == -1 ||
	    outfile_new(i->temp_fd, "SKILL.md",
		copied_mode(&st, getegid()) & 0644, i->mapping.text.data,
		i->mapping.text.len) == -1)
		return -1;
	if (!i->has_main &&
	    outfile_new(i->temp_fd, "main", 0755, main_text, sizeof(main_text) - 1) == -1)
		return -1;
	return 0;
}

static int
make_out(struct import *i)
{
	if (!out_is_free(i)) {
		warnx("%s: is there; remove it, or name another directory",
		    i->shown_out);
		return EXIT_FAILED;
	}
	if (make_temp(i) == 0 && fill_temp(i) == 0 &&
	    rename(i->temp, i->out_path) == 0) {
		i->temp[0] = '\0';
		return EXIT_FINE;
	}
	if (errno == EFBIG)
		warnx("%s: more than 64 MiB or 4096 files; nothing was "
		      "written, take out what the skill does not need",
		    i->shown_dir);
	else
		warn("%s: nothing was written", i->shown_out);
	return errno == EFBIG ? EXIT_INVALID : EXIT_FAILED;
}

static void
tell_files(const struct import *i)
{
	char text[256];

	if (i->left_out > LISTED_MAX)
		printf("%zu more files are left out\n",
		    i->left_out - LISTED_MAX);
	if (i->files > 0) {
		snprintf(text, sizeof(text), "%zu file%s, %zu bytes", i->files,
		    i->files == 1 ? "" : "s", i->bytes);
		say("copied", text);
	}
	if (!i->has_main)
		say("made", "main: the original has no program; this one prints "
			    "its text, or runs the file that is named");
}

/* What we made, through the door that every skill goes through. */
static int
judge(const struct import *i)
{
	char name[] = "validate", end[] = "--";
	char *argv[] = { name, end, strdup(i->out_path), NULL };
	int status = EXIT_FAILED;

	putchar('\n');
	if (argv[2] != NULL)
		status = author_validate(3, argv);
	free(argv[2]);
	if (status == EXIT_FINE)
		printf("Read it, then try it: cyberos skill try %s\n",
		    i->shown_out);
	return status;
}

/* Is there anything to do? */
static bool
is_ours(const struct import *i)
{
	struct policy policy;
	struct manifest m;
	bool ours = false;

	if (policy_init(&policy) == -1)
		return false;
	if (manifest_parse(i->text, i->len, &policy, registry_names(),
		CYBEROS_VERSION, &m) == 0)
		ours = m.errors_n == 0;
	manifest_clear(&m);
	policy_clear(&policy);
	return ours;
}

static int
read_original(struct import *i)
{
	const char *why;

	i->dir_fd = open(i->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (i->dir_fd == -1 ||
	    manifest_read(i->dir_fd, &i->text, &i->len) == -1) {
		if (errno == EINVAL || errno == ELOOP)
			return refuse_at(i, 0, 0, "is no regular file");
		if (errno == EFBIG)
			return refuse_at(i, 0, 0, "is larger than 1 MiB");
		warn("%s/SKILL.md", i->shown_dir);
		return EXIT_FAILED;
	}
	if (is_ours(i)) {
		warnx("%s is a skill of ours already; run it, or copy it with "
		      "cp -r",
		    i->shown_dir);
		return EXIT_FAILED;
	}
	why = frontmatter_cut(i->text, i->len, &i->parts);
	if (why != NULL)
		return refuse_at(i, 1, 1, why);
	if (i->parts.yaml_len > MANIFEST_YAML_MAX)
		return refuse_at(i, 1, 1,
		    "the frontmatter is larger than 64 KiB");
	if (foreign_read(&i->fields, i->parts.yaml, i->parts.yaml_len,
		FIRST_LINE) == 0)
		return EXIT_FINE;
	if (errno == EINVAL)
		return refuse_at(i, i->fields.line, i->fields.column,
		    i->fields.why);
	warn("%s", i->shown_dir);
	return EXIT_FAILED;
}

static int
map_original(struct import *i)
{
	struct mapping_source src = { .fields = &i->fields,
		.wanted_id = i->id,
		.dir_name = i->name[0] == '\0' ? NULL : i->name,
		.body = i->parts.body,
		.body_len = i->parts.body_len };

	if (mapping_make(&i->mapping, &src) == 0)
		return EXIT_FINE;
	if (errno == EINVAL)
		return refuse_at(i, i->mapping.line, 1, i->mapping.why);
	warn("%s", i->shown_dir);
	return EXIT_FAILED;
}

static int
import(struct import *i)
{
	int status;

	if (name_paths(i) == -1) {
		warnx("name the directory for the result: import %s OUT",
		    i->shown_dir);
		return EXIT_USAGE;
	}
	if (out_lies_in_dir(i)) {
		warnx("%s: lies in the original, which is left as it is; name "
		      "a directory elsewhere",
		    i->shown_out);
		return EXIT_FAILED;
	}
	status = read_original(i);
	if (status == EXIT_FINE)
		status = map_original(i);
	if (status != EXIT_FINE)
		return status;
	tell_mapping(i);
	status = make_out(i);
	if (status != EXIT_FINE)
		return status;
	tell_files(i);
	return judge(i);
}

static void
clear_import(struct import *i)
{
	if (i->temp[0] != '\0')
		tree_remove(i->temp);
	if (i->dir_fd != -1)
		close(i->dir_fd);
	if (i->temp_fd != -1)
		close(i->temp_fd);
	mapping_clear(&i->mapping);
	foreign_clear(&i->fields);
	free(i->text);
}

int
import_main(int argc, char **argv)
{
	struct import *i = calloc(1, sizeof(*i));
	int opt, status = EXIT_USAGE;

	if (i == NULL)
		err(EXIT_FAILED, NULL);
	i->dir_fd = i->temp_fd = -1;
	optind = 0; /* glibc: begin anew */
	while ((opt = getopt_long(argc, argv, "", import_options, NULL)) !=
	    -1) {
		if (opt == 'h') {
			printf("%s%s", import_usage, import_help);
			free(i);
			return EXIT_FINE;
		}
		if (opt != 'i')
			break;
		i->id = optarg;
	}
	if (opt != -1 || argc - optind < 1 || argc - optind > 2 ||
	    argv[optind][0] == '\0') {
		fputs(import_usage, stderr);
	} else {
		i->dir = argv[optind];
		i->out = argc - optind == 2 ? argv[optind + 1] : NULL;
		status = import(i);
		clear_import(i);
	}
	free(i);
	return status;
}
