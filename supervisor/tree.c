/*
 * Directories that are thrown away: those of a try and of a benchmark, and of an
 * import that came to nothing. And what lies in a directory.
 */

#include "supervisor/tree.h"

#include <sys/stat.h>

#include <err.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/store.h"
#include "enforce/path.h"

int
tree_make(char path[PATH_MAX], const char *name)
{
	const char *tmp = secure_getenv("TMPDIR");

	if (tmp == NULL || tmp[0] != '/')
		tmp = "/tmp";
	if (snprintf(path, PATH_MAX, "%s/cyberos-%s.XXXXXX", tmp, name) <
		PATH_MAX - 64 &&
	    mkdtemp(path) != NULL)
		return 0;
	warn("%s: no directory can be made there; set TMPDIR to another one",
	    tmp);
	path[0] = '\0';
	return -1;
}

/* What the operator has made append-only is ours to throw away all the same. */
static void
allow_removal(const char *name)
{
	int fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd == -1)
		return;
	if (store_is_append_only(fd))
		(void)store_append_only(fd, false);
	close(fd);
}

static int
remove_entry(const FTSENT *e)
{
	return e->fts_info == FTS_DP ? rmdir(e->fts_accpath)
				     : unlink(e->fts_accpath);
}

void
tree_remove(const char *path)
{
	char *roots[2] = { strdup(path), NULL };
	FTS *fts = NULL;
	FTSENT *e;

	if (roots[0] != NULL)
		fts = fts_open(roots, FTS_PHYSICAL | FTS_XDEV, NULL);
	if (fts == NULL)
		warn("%s is left", path);
	while (fts != NULL && (e = fts_read(fts)) != NULL) {
		if (e->fts_info == FTS_D || remove_entry(e) == 0)
			continue;
		allow_removal(e->fts_accpath);
		if (remove_entry(e) == -1)
			warn("%s is left", e->fts_path);
	}
	if (fts != NULL)
		fts_close(fts);
	free(roots[0]);
}

bool
tree_holds(const char *dir, const char *path)
{
	char *place = realpath(dir, NULL), *real = realpath(path, NULL);
	bool holds = false;

	if (place != NULL && real != NULL)
		holds = path_is_within(real,
		    strcmp(place, "/") == 0 ? "" : place);
	free(place);
	free(real);
	return holds;
}
