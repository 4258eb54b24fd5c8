/*
 * Signatures. They guarantee, against whoever changed a file on its way, that
 * what is signed is what the owner of the key wrote: one place and one spelling
 * for the four lines, so that no other byte of the file can be changed and
 * nothing be left of a signature unseen; keys for which anybody could sign are
 * refused before the library is asked; only its plain yes is one.
 */

#include "enforce/signature.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "enforce/hex.h"
#include "enforce/libexec.h"
#include "enforce/spawn.h"

#define CHILD_FDS 10 /* above all that is put in place */

/* The four lines; a number of bytes in hex follows. */
static const struct part {
	const char *text;
	size_t bytes;
} parts[] = {
	{ "signature:", 0 },
	{ "  algo: ed25519", 0 },
	{ "  public_key_hex: ", SIGNATURE_KEY },
	{ "  signature_hex: ", SIGNATURE_BYTES },
};

#define PARTS_N (sizeof(parts) / sizeof(parts[0]))

struct line {
	const char *text;
	size_t len;
	unsigned number;
};

static bool
begins(const char *text, size_t len, const char *with)
{
	return len >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

/*
 * Is it, or was it, a line of a signature? Whichever byte of the four lines is
 * changed, one of these is left.
 */
static bool
is_marker(const char *text, size_t len)
{
	if (begins(text, len, "signature:"))
		return true;
	while (len > 0 && (*text == ' ' || *text == '\t')) {
		text++;
		len--;
	}
	return begins(text, len, "public_key_hex:") ||
	    begins(text, len, "signature_hex:");
}

static bool
fits(const struct part *part, const struct line *line, unsigned char *out)
{
	size_t n = strlen(part->text);

	return line->len == n + part->bytes * 2 &&
	    memcmp(line->text, part->text, n) == 0 &&
	    hex_decode(out, line->text + n, part->bytes);
}

void
signature_read(const struct frontmatter *f, struct signature *s)
{
	const char *p = f->yaml, *end = p + f->yaml_len;
	struct line last[PARTS_N], line;
	unsigned first = 0, markers = 0;
	unsigned char *const out[PARTS_N] = { NULL, NULL, s->key, s->bytes };
	bool whole;
	size_t i;

	memset(s, 0, sizeof(*s));
	memset(last, 0, sizeof(last));
	for (line.number = 1; frontmatter_line(&p, end, &line.text, &line.len);
	     line.number++) {
		memmove(last, last + 1, sizeof(last) - sizeof(last[0]));
		last[PARTS_N - 1] = line;
		if (!is_marker(line.text, line.len))
			continue;
		markers++;
		if (first == 0)
			first = line.number;
	}
	whole = markers == PARTS_N - 1; /* "algo" is no marker */
	for (i = 0; i < PARTS_N && whole; i++)
		whole = fits(&parts[i], &last[i], out[i]);
	s->line = first;
	s->shape = whole	 ? SIGNATURE_WHOLE
	    : markers > 0	 ? SIGNATURE_BROKEN
				 : SIGNATURE_NONE;
	s->offset = whole ? (size_t)(last[0].text - f->yaml) : f->yaml_len;
	frontmatter_hash(f->yaml, s->offset, s->text);
	if (whole)
		frontmatter_hash(f->body, f->body_len,
		    s->text + FRONTMATTER_HASH);
}

/*
 * The y coordinates, least byte first, of the points whose order divides 8;
 * the last two are p and p + 1, second spellings of 0 and 1.
 */
static const unsigned char small_order[][SIGNATURE_KEY] = {
	{ 0x00 },
	{ 0x01 },
	{ 0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4,
	    0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6,
	    0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05 },
	{ 0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b,
	    0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39,
	    0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a },
	{ 0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f },
	{ 0xed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f },
	{ 0xee, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f },
};

/* Whatever the sign of x says in the top bit. */
static bool
has_small_order(const unsigned char point[SIGNATURE_KEY])
{
	unsigned char y[SIGNATURE_KEY];
	size_t i;

	memcpy(y, point, sizeof(y));
	y[SIGNATURE_KEY - 1] &= 0x7f;
	for (i = 0; i < sizeof(small_order) / sizeof(small_order[0]); i++) {
		if (memcmp(y, small_order[i], sizeof(y)) == 0)
			return true;
	}
	return false;
}

/* Is y below p = 2^255 - 19? */
static bool
is_canonical(const unsigned char point[SIGNATURE_KEY])
{
	size_t i;

	if ((point[SIGNATURE_KEY - 1] & 0x7f) != 0x7f || point[0] < 0xed)
		return true;
	for (i = 1; i < SIGNATURE_KEY - 1; i++) {
		if (point[i] != 0xff)
			return true;
	}
	return false;
}

const char *
signature_bad_key(const unsigned char key[SIGNATURE_KEY])
{
	if (has_small_order(key))
		return "the key is one of those for which anybody can make a "
		       "signature (small order)";
	if (!is_canonical(key))
		return "the key is written in a second spelling (not below "
		       "2^255 - 19)";
	return NULL;
}

int
signature_verify(const struct signature *s)
{
	unsigned char in[SIGNATURE_KEY + SIGNATURE_BYTES + SIGNATURE_SIGNED];
	size_t none = 0;
	int answer;

	if (s->shape != SIGNATURE_WHOLE || signature_bad_key(s->key) != NULL ||
	    has_small_order(s->bytes) || !is_canonical(s->bytes))
		return 0;
	memcpy(in, s->key, SIGNATURE_KEY);
	memcpy(in + SIGNATURE_KEY, s->bytes, SIGNATURE_BYTES);
	memcpy(in + SIGNATURE_KEY + SIGNATURE_BYTES, s->text,
	    SIGNATURE_SIGNED);
	answer = signature_program("verify", in, sizeof(in), NULL, &none);
	if (answer == SIGNATURE_YES || answer == SIGNATURE_NO)
		return answer == SIGNATURE_YES;
	if (answer != -1)
		errno = EIO;
	return -1;
}

/* --- the program --- */

static void
become(int program_fd, int channel_fd, const char *command, pid_t parent)
{
	char name[] = SIGNATURE_PROGRAM;
	char *argv[] = { name, (char *)(uintptr_t)command, NULL };
	char *envp[] = { NULL };
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int program = fcntl(program_fd, F_DUPFD_CLOEXEC, CHILD_FDS);
	int channel = fcntl(channel_fd, F_DUPFD_CLOEXEC, CHILD_FDS);
	int keep[] = { 0, 1, 2, program };

	if (null_fd == -1 || program == -1 || channel == -1 ||
	    dup2(channel, 0) == -1 || dup2(channel, 1) == -1 ||
	    dup2(null_fd, 2) == -1 ||
	    spawn_close_others(keep, sizeof(keep) / sizeof(keep[0])) == -1 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL) == -1 || getppid() != parent)
		_exit(SIGNATURE_FAILED);
	fexecve(program, argv, envp);
	_exit(SIGNATURE_FAILED);
}

static bool
send_all(int fd, const char *p, size_t len)
{
	ssize_t n;

	while (len > 0) {
		n = send(fd, p, len, MSG_NOSIGNAL);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return shutdown(fd, SHUT_WR) == 0;
}

/* Up to its end; more than there is room for is no answer of ours. */
static bool
receive_all(int fd, char *out, size_t *len)
{
	size_t room = *len;
	char more;
	ssize_t n;

	*len = 0;
	for (;;) {
		n = *len < room ? recv(fd, out + *len, room - *len, 0)
				: recv(fd, &more, 1, 0);
		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		if (*len == room)
			return false;
		*len += (size_t)n;
	}
}

int
signature_program(const char *command, const void *in, size_t in_len,
    void *out, size_t *out_len)
{
	int fds[2], program_fd, status = 0;
	pid_t pid, parent = getpid();
	bool good;

	program_fd = libexec_open(SIGNATURE_PROGRAM);
	if (program_fd == -1)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == -1) {
		close(program_fd);
		return -1;
	}
	pid = fork();
	if (pid == 0)
		become(program_fd, fds[1], command, parent);
	close(program_fd);
	close(fds[1]);
	good = pid != -1 && send_all(fds[0], in, in_len) &&
	    receive_all(fds[0], out, out_len);
	close(fds[0]);
	while (pid != -1 && waitpid(pid, &status, 0) == -1) {
		if (errno != EINTR)
			good = false;
		if (errno != EINTR)
			break;
	}
	if (good && WIFEXITED(status) && WEXITSTATUS(status) < SIGNATURE_FAILED)
		return WEXITSTATUS(status);
	errno = EIO;
	return -1;
}
