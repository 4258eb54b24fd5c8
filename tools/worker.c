/*
 * Calls that may block, in a child of the broker. The child gets the opened
 * descriptors and the arguments' text, and gives back bytes whose lengths are
 * compared before they are used; it has no descriptor of the ledger, of the
 * socket or of another call.
 */

#include "tools/worker.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/json.h"
#include "tools/registry.h"

#define WORKER_SOCKET_FD 3
#define WORKER_MEMORY_FD 4
#define CHUNK_MAX ((size_t)256 * 1024)

/* Both ends are the same binary, so the layout is the compiler's. */
struct request {
	size_t tool; /* index in the registry */
	size_t args_len;
	size_t name_len;
	size_t budget;
	uint64_t written;
	struct stat st;
	char leaf[NAME_MAX + 1];
	bool has_fd, has_parent; /* in this order, with the first byte */
};

struct reply {
	enum outcome outcome;
	enum failure failure;
	int error;
	bool cut;
	uint64_t written;
	char content_hash[DIGEST_HEX];
	size_t result_len;
};

struct worker {
	struct invocation *inv;
	pid_t pid;
	int fd;
	struct call_queue queue; /* the first one is with the child */
	struct buf out;
	int pass[2]; /* descriptors that go with the first byte of out */
	size_t pass_n;
	struct buf in;
};

struct worker *
worker_new(struct invocation *inv)
{
	struct worker *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->inv = inv;
	w->pid = -1;
	w->fd = -1;
	TAILQ_INIT(&w->queue);
	buf_init(&w->out, sizeof(struct request) + 8 * 1024 * 1024);
	buf_init(&w->in, sizeof(struct reply) + CALL_RESPONSE_MAX);
	return w;
}

static void
end_child(struct worker *w)
{
	if (w->fd != -1)
		close(w->fd);
	if (w->pid != -1) {
		kill(w->pid, SIGKILL); /* not reaped yet, so still ours */
		while (waitpid(w->pid, NULL, 0) == -1 && errno == EINTR)
			;
	}
	w->fd = -1;
	w->pid = -1;
	w->pass_n = 0;
	buf_clear(&w->out);
	buf_clear(&w->in);
}

void
worker_free(struct worker *w)
{
	struct call *c;

	if (w == NULL)
		return;
	while ((c = worker_abort(w)) != NULL)
		call_free(c);
	end_child(w);
	free(w);
}

/* --- in the child --- */

static int
read_exactly(int fd, void *p, size_t n)
{
	char *at = p;
	ssize_t got;

	while (n > 0) {
		got = read(fd, at, n);
		if (got == -1 && errno == EINTR)
			continue;
		if (got <= 0)
			return -1;
		at += got;
		n -= (size_t)got;
	}
	return 0;
}

static int
write_exactly(int fd, const void *p, size_t n)
{
	const char *at = p;
	ssize_t put;

	while (n > 0) {
		put = send(fd, at, n, MSG_NOSIGNAL);
		if (put == -1 && errno == EINTR)
			continue;
		if (put <= 0)
			return -1;
		at += put;
		n -= (size_t)put;
	}
	return 0;
}

static int
receive_request(int fd, struct request *r, int passed[2])
{
	union {
		char room[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	struct iovec io = { r, sizeof(*r) };
	struct msghdr m = { .msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = &ancillary,
		.msg_controllen = sizeof(ancillary) };
	struct cmsghdr *h;
	ssize_t n;

	passed[0] = passed[1] = -1;
	do
		n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	while (n == -1 && errno == EINTR);
	if (n <= 0)
		return -1;
	h = CMSG_FIRSTHDR(&m);
	if (h != NULL && h->cmsg_type == SCM_RIGHTS)
		memcpy(passed, CMSG_DATA(h), h->cmsg_len - CMSG_LEN(0));
	return read_exactly(fd, (char *)r + n, sizeof(*r) - (size_t)n);
}

/* Rebuild the call on this side. */
static struct call *
receive_call(int fd)
{
	struct request r;
	struct call *c = call_new();
	char *args = NULL;
	int passed[2];

	if (c == NULL || receive_request(fd, &r, passed) == -1)
		goto fail;
	args = malloc(r.args_len + 1);
	c->check.on.name = calloc(1, r.name_len + 1);
	if (args == NULL || c->check.on.name == NULL ||
	    read_exactly(fd, args, r.args_len) == -1 ||
	    read_exactly(fd, c->check.on.name, r.name_len) == -1)
		goto fail;
	c->check.tool = &registry_tools(&(size_t){ 0 })[r.tool];
	c->rpc.budget = r.budget;
	c->rpc.args = json_parse(args, r.args_len, false);
	if (c->rpc.args == NULL)
		goto fail;
	c->check.on.st = r.st;
	memcpy(c->check.on.leaf, r.leaf, sizeof(r.leaf));
	c->check.on.fd = r.has_fd ? passed[0] : -1;
	c->check.on.parent_fd = r.has_parent ? passed[r.has_fd] : -1;
	c->run.written = r.written;
	freezero(args, r.args_len);
	return c;
fail:
	free(args);
	call_free(c);
	return NULL;
}

static int
send_reply(int fd, const struct call *c)
{
	struct reply r;

	memset(&r, 0, sizeof(r));
	r.outcome = c->run.outcome;
	r.failure = c->run.failure;
	r.error = c->run.error;
	r.cut = c->run.cut;
	r.written = c->run.written;
	memcpy(r.content_hash, c->run.content_hash, sizeof(r.content_hash));
	r.result_len = c->run.result.len;
	if (write_exactly(fd, &r, sizeof(r)) == -1)
		return -1;
	return write_exactly(fd, c->run.result.data, r.result_len);
}

static void
child(struct invocation *inv, int fd, pid_t parent)
{
	struct call *c;
	int sock, memory, result;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	sock = fcntl(fd, F_DUPFD_CLOEXEC, 10);
	memory = fcntl(inv->memory_fd, F_DUPFD_CLOEXEC, 10);
	if (dup3(sock, WORKER_SOCKET_FD, O_CLOEXEC) == -1 ||
	    dup3(memory, WORKER_MEMORY_FD, O_CLOEXEC) == -1 ||
	    syscall(SYS_close_range, WORKER_MEMORY_FD + 1, ~0U, 0) == -1)
		_exit(1);
	inv->memory_fd = WORKER_MEMORY_FD;
	while ((c = receive_call(WORKER_SOCKET_FD)) != NULL) {
		inv->written = c->run.written;
		c->run.written = 0;
		c->check.tool->run(c, inv);
		result = send_reply(WORKER_SOCKET_FD, c);
		call_free(c);
		if (result == -1)
			break;
	}
	_exit(0);
}

/* --- in the broker --- */

static int
start_child(struct worker *w)
{
	pid_t parent = getpid();
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == -1)
		return -1;
	w->pid = fork();
	if (w->pid == 0)
		child(w->inv, fds[1], parent);
	close(fds[1]);
	if (w->pid == -1 || fcntl(fds[0], F_SETFL, O_NONBLOCK) == -1) {
		close(fds[0]);
		end_child(w);
		return -1;
	}
	w->fd = fds[0];
	return 0;
}

/* Lay out the request of the first call in the queue. */
static int
prepare(struct worker *w)
{
	struct call *c = TAILQ_FIRST(&w->queue);
	const struct resource *on = &c->check.on;
	struct request r;
	char *args;

	if (w->fd == -1 && start_child(w) == -1)
		return -1;
	args = cJSON_PrintUnformatted(c->rpc.args);
	if (args == NULL)
		return -1;
	memset(&r, 0, sizeof(r));
	r.tool = registry_index(c->check.tool);
	r.args_len = strlen(args);
	r.name_len = on->name == NULL ? 0 : strlen(on->name);
	r.budget = c->rpc.budget;
	r.written = w->inv->written;
	r.st = on->st;
	memcpy(r.leaf, on->leaf, sizeof(r.leaf));
	r.has_fd = on->fd != -1;
	r.has_parent = on->parent_fd != -1;
	w->pass_n = 0;
	if (r.has_fd)
		w->pass[w->pass_n++] = on->fd;
	if (r.has_parent)
		w->pass[w->pass_n++] = on->parent_fd;
	buf_reset(&w->out);
	buf_put(&w->out, &r, sizeof(r));
	buf_put(&w->out, args, r.args_len);
	buf_put(&w->out, on->name, r.name_len);
	freezero(args, r.args_len);
	return w->out.failed ? -1 : 0;
}

/* Send what goes; 0 also when the socket is full. */
static int
send_some(struct worker *w)
{
	union {
		char room[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} ancillary = { .room = { 0 } };
	struct iovec io = { w->out.data, w->out.len };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1 };
	struct cmsghdr *h;
	ssize_t n;

	if (w->pass_n > 0) {
		m.msg_control = &ancillary;
		m.msg_controllen = CMSG_SPACE(w->pass_n * sizeof(int));
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(w->pass_n * sizeof(int));
		memcpy(CMSG_DATA(h), w->pass, w->pass_n * sizeof(int));
	}
	n = sendmsg(w->fd, &m, MSG_NOSIGNAL);
	if (n == -1)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	w->pass_n = 0;
	buf_consume(&w->out, (size_t)n);
	return 0;
}

/* Is the whole reply here, and does it make sense? 1 yes, 0 not yet, -1 no. */
static int
take_reply(struct worker *w, struct call *c)
{
	struct reply r;

	if (w->in.len < sizeof(r))
		return 0;
	memcpy(&r, w->in.data, sizeof(r));
	if (r.result_len > CALL_RESPONSE_MAX ||
	    (unsigned)r.outcome > OUTCOME_TIMEOUT ||
	    (unsigned)r.failure >= FAIL_COUNT)
		return -1;
	if (w->in.len < sizeof(r) + r.result_len)
		return 0;
	if (w->in.len > sizeof(r) + r.result_len)
		return -1;
	r.content_hash[DIGEST_HEX - 1] = '\0';
	c->run.outcome = r.outcome;
	c->run.failure = r.failure;
	c->run.error = r.error;
	c->run.cut = r.cut;
	c->run.written = r.written;
	memcpy(c->run.content_hash, r.content_hash, sizeof(r.content_hash));
	buf_reset(&c->run.result);
	if (buf_put(&c->run.result, w->in.data + sizeof(r), r.result_len) == -1)
		return -1;
	buf_clear(&w->in);
	w->inv->written += r.written;
	return 1;
}

/* 1 the reply is complete, 0 not yet, -1 the child is gone or talks nonsense. */
static int
receive_some(struct worker *w, struct call *c)
{
	char *at;
	ssize_t n;

	at = buf_reserve(&w->in,
	    w->in.max - w->in.len < CHUNK_MAX ? w->in.max - w->in.len
					      : CHUNK_MAX);
	if (at == NULL)
		return -1;
	n = read(w->fd, at,
	    w->in.max - w->in.len < CHUNK_MAX ? w->in.max - w->in.len
					      : CHUNK_MAX);
	if (n == -1)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (n == 0)
		return -1;
	buf_advance(&w->in, (size_t)n);
	return take_reply(w, c);
}

/* Begin with the first call; without a child it fails at the next service. */
static void
begin(struct worker *w)
{
	if (!TAILQ_EMPTY(&w->queue) && (prepare(w) == -1 || send_some(w) == -1))
		end_child(w);
}

void
worker_submit(struct worker *w, struct call *c)
{
	bool idle = TAILQ_EMPTY(&w->queue);

	TAILQ_INSERT_TAIL(&w->queue, c, next);
	if (idle)
		begin(w);
}

bool
worker_failed(const struct worker *w)
{
	return w->fd == -1 && !TAILQ_EMPTY(&w->queue);
}

int
worker_fd(const struct worker *w)
{
	return w->fd;
}

short
worker_events(const struct worker *w)
{
	return w->out.len > 0 ? POLLIN | POLLOUT : POLLIN;
}

struct call *
worker_service(struct worker *w)
{
	struct call *c = TAILQ_FIRST(&w->queue);
	int got = -1;

	if (c == NULL) {
		if (w->fd != -1)
			end_child(w); /* it spoke unasked, or it died */
		return NULL;
	}
	if (w->fd != -1) {
		got = w->out.len > 0 ? send_some(w) : 0;
		if (got == 0)
			got = receive_some(w, c);
	}
	if (got == 0)
		return NULL;
	if (got == -1) {
		end_child(w);
		call_fail(c, FAIL_IO_ERROR);
	}
	TAILQ_REMOVE(&w->queue, c, next);
	begin(w);
	return c;
}

struct call *
worker_abort(struct worker *w)
{
	struct call *c = TAILQ_FIRST(&w->queue);

	end_child(w);
	if (c != NULL)
		TAILQ_REMOVE(&w->queue, c, next);
	return c;
}
