#ifndef TOOLS_FILE_H
#define TOOLS_FILE_H

#include "tools/registry.h"

/*
 * Read, Write, Edit (SPEC 7.1-7.3). They act on what the check opened:
 * call->check.on.fd (O_PATH) and, to put a new inode in its place, a name in
 * call->check.on.parent_fd. Results and failures land in call->run.
 */
bool		 file_write_shape(struct call *);
enum place	 file_read_place(const struct call *);
enum place	 file_write_place(const struct call *);
void		 file_read(struct call *, struct invocation *);
void		 file_write(struct call *, struct invocation *);
void		 file_edit(struct call *, struct invocation *);

/*
 * Read a whole regular file of at most max bytes behind a readable descriptor
 * into a fresh NUL-terminated buffer. 0, or -1 with errno; EFBIG: it is larger.
 */
int		 file_slurp(int fd, off_t max, char **data, size_t *len);

/* The answer of Read and MemoryRead about a readable descriptor. */
void		 file_answer(struct call *, struct invocation *, int fd,
		    bool memory);

/*
 * Put bytes as a file named leaf into a directory: a temporary inode, synced,
 * renamed over whatever is there. like_fd lends it rwx bits, owner where we
 * may, ACL and user attributes, else mode is used; when leaf is another file by
 * now, ESTALE. The directory is synced as well. With replace false an existing
 * name is EEXIST. 0, or -1 with errno and, unless only that last sync failed,
 * nothing changed. Should we be killed in between, temp is all that is left.
 */
struct file_put {
	int		 dir_fd;
	const char	*leaf;
	const char	*temp;		/* a name that nobody else can have */
	const char	*data;
	size_t		 len;
	mode_t		 mode;
	int		 like_fd;	/* O_PATH of the old file, or -1 */
	bool		 replace;
};
int		 file_put(const struct file_put *);

/* Would n more bytes pass the invocation's share or leave the disk too full? */
bool		 file_no_space(const struct invocation *, int dir_fd, size_t n);

#endif
