/*
 * Landlock domains, against a process that we no longer trust: files only
 * below what was allowed, no TCP, and with scopes no abstract socket and no
 * signal out of the domain. Each kernel is asked for all that its ABI has and
 * for nothing more, so a new right is not lost on an old kernel without our
 * saying so: the caller knows the ABI. What an ABI lacks is in this file's
 * tables. The kernel's own header may be older than the kernel, so the numbers
 * are ours.
 */

#include "enforce/landlock.h"

#include <sys/stat.h>
#include <sys/syscall.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define GET_VERSION 1U /* of landlock_create_ruleset */
#define PATH_BENEATH 1 /* of landlock_add_rule */
#define NET_PORT 2

/* Rights to files, as bits. */
#define EXECUTE (1ULL << 0)
#define WRITE_FILE (1ULL << 1)
#define READ_FILE (1ULL << 2)
#define READ_DIR (1ULL << 3)
#define REMOVE_DIR (1ULL << 4)
#define REMOVE_FILE (1ULL << 5)
#define MAKE_CHAR (1ULL << 6)
#define MAKE_DIR (1ULL << 7)
#define MAKE_REG (1ULL << 8)
#define MAKE_SOCK (1ULL << 9)
#define MAKE_FIFO (1ULL << 10)
#define MAKE_BLOCK (1ULL << 11)
#define MAKE_SYM (1ULL << 12)
#define REFER (1ULL << 13)     /* ABI 2 */
#define TRUNCATE (1ULL << 14)  /* ABI 3 */
#define IOCTL_DEV (1ULL << 15) /* ABI 5 */

/* Rights to the network and what has a scope. */
#define BIND_TCP (1ULL << 0)	/* ABI 4 */
#define CONNECT_TCP (1ULL << 1) /* ABI 4 */
#define ABSTRACT (1ULL << 0)	/* ABI 6 */
#define SIGNAL (1ULL << 1)	/* ABI 6 */

/* What a rule on something that is no directory may name. */
#define OF_A_FILE (EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV)

/* The kernel takes a longer structure than its own if the rest is zero. */
struct ruleset_attr {
	uint64_t files;
	uint64_t network;
	uint64_t scoped;
};

struct beneath_attr {
	uint64_t allowed;
	int32_t fd;
} __attribute__((packed));

struct port_attr {
	uint64_t allowed;
	uint64_t port;
};

static const uint64_t rights[] = {
	[LANDLOCK_LIST] = READ_DIR,
	[LANDLOCK_READ] = READ_DIR | READ_FILE,
	[LANDLOCK_RUN] = READ_DIR | READ_FILE | EXECUTE,
	/* Devices are nobody's to make, and what was written never runs. */
	[LANDLOCK_WRITE] = READ_DIR | READ_FILE | WRITE_FILE | TRUNCATE |
	    REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK |
	    MAKE_FIFO | MAKE_SYM | REFER,
	[LANDLOCK_DEVICE] = READ_DIR | READ_FILE | WRITE_FILE | IOCTL_DEV,
};

/* All file rights that an ABI knows. */
static uint64_t
known_rights(int abi)
{
	uint64_t all = EXECUTE | WRITE_FILE | READ_FILE | READ_DIR |
	    REMOVE_DIR | REMOVE_FILE | MAKE_CHAR | MAKE_DIR | MAKE_REG |
	    MAKE_SOCK | MAKE_FIFO | MAKE_BLOCK | MAKE_SYM;

	if (abi < 1)
		return 0;
	if (abi >= 2)
		all |= REFER;
	if (abi >= 3)
		all |= TRUNCATE;
	if (abi >= 5)
		all |= IOCTL_DEV;
	return all;
}

int
landlock_abi(void)
{
	long abi;

	abi = syscall(SYS_landlock_create_ruleset, NULL, 0, GET_VERSION);
	return abi < 0 ? 0 : (int)abi;
}

int
landlock_ruleset(int abi, bool scopes)
{
	struct ruleset_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.files = known_rights(abi);
	if (attr.files == 0) {
		errno = EOPNOTSUPP;
		return -1;
	}
	if (abi >= 4)
		attr.network = BIND_TCP | CONNECT_TCP;
	if (abi >= 6 && scopes)
		attr.scoped = ABSTRACT | SIGNAL;
	/* Close-on-exec comes with it. */
	return (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr),
	    0);
}

int
landlock_allow_fd(int ruleset, int abi, int fd, enum landlock_access access)
{
	struct beneath_attr attr;
	struct stat st;

	if ((unsigned)access >= sizeof(rights) / sizeof(rights[0])) {
		errno = EINVAL;
		return -1;
	}
	if (fstat(fd, &st) == -1)
		return -1;
	memset(&attr, 0, sizeof(attr));
	attr.fd = fd;
	attr.allowed = rights[access] & known_rights(abi);
	if (!S_ISDIR(st.st_mode))
		attr.allowed &= OF_A_FILE;
	/* Listing a file: there is nothing to allow, and that is allowed. */
	if (attr.allowed == 0)
		return 0;
	return (int)syscall(SYS_landlock_add_rule, ruleset, PATH_BENEATH,
	    &attr, 0);
}

int
landlock_allow(int ruleset, int abi, const char *path,
    enum landlock_access access)
{
	int fd, result, saved;

	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd == -1)
		return -1;
	result = landlock_allow_fd(ruleset, abi, fd, access);
	saved = errno;
	close(fd);
	errno = saved;
	return result;
}

int
landlock_allow_connect(int ruleset, uint16_t port)
{
	struct port_attr attr = { CONNECT_TCP, port };

	return (int)syscall(SYS_landlock_add_rule, ruleset, NET_PORT, &attr, 0);
}

int
landlock_enter(int ruleset)
{
	return (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
}
