/*
 * The floor of a call: a server that does for each request what an audited
 * MemoryRead cannot do without (poll, read, open, read 1 KiB, three hashes, two
 * appends, write) and nothing else.
 * Usage: floor SOCKET NOTE LEDGER, until its input ends.
 */

#include <sys/socket.h>
#include <sys/un.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROW 600

static void
hash(EVP_MD_CTX *ctx, const EVP_MD *md, const void *p, size_t n,
    unsigned char out[32])
{
	EVP_DigestInit_ex2(ctx, md, NULL);
	EVP_DigestUpdate(ctx, p, n);
	EVP_DigestFinal_ex(ctx, out, NULL);
}

int
main(int argc, char **argv)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	EVP_MD *md = EVP_MD_fetch(NULL, "SHA256", NULL);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	char in[4096], note[2048], row[ROW], answer[4 + 1280];
	unsigned char out[32];
	uint32_t head = htonl(sizeof(answer) - 4);
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), fd, file, ledger;
	struct pollfd p;
	ssize_t n;

	if (argc < 4 || md == NULL || ctx == NULL)
		return 1;
	strncpy(sun.sun_path, argv[1], sizeof(sun.sun_path) - 1);
	ledger = open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0600);
	memset(row, 'x', sizeof(row));
	memset(answer, ' ', sizeof(answer));
	memcpy(answer, &head, 4);
	memcpy(answer + 4, "{\"content_hash\":1}", 18);
	if (bind(listener, (struct sockaddr *)&sun, sizeof(sun)) == -1 ||
	    listen(listener, 1) == -1 || ledger == -1)
		return 1;
	fd = accept(listener, NULL, NULL);
	for (;;) {
		p = (struct pollfd){ fd, POLLIN, 0 };
		poll(&p, 1, -1);
		n = read(fd, in, sizeof(in));
		if (n <= 0)
			return 0;
		hash(ctx, md, in, (size_t)n, out);
		file = open(argv[2], O_RDONLY | O_CLOEXEC);
		if (write(ledger, row, sizeof(row)) == -1)
			return 1;
		n = read(file, note, sizeof(note));
		close(file);
		hash(ctx, md, note, (size_t)n, out);
		hash(ctx, md, row, sizeof(row), out);
		if (write(ledger, row, sizeof(row)) == -1 ||
		    write(fd, answer, sizeof(answer)) == -1)
			return 1;
	}
}
