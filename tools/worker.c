/*
 * Calls that may block, in a child of the broker. The child gets the opened
 * descriptors and the arguments' text, and gives back bytes whose lengths are
 * compared before they are used; it has no descriptor of the ledger, of the
 * socket or of another call, no environment and no key. The broker never waits
 * for it: not for an answer, not for its end, which on a disk that hangs may
 * take for ever. A child that was killed cannot clean up, so the broker does,
 * once it is dead, by the one temporary name that it had given it; and since
 * both may be killed, that name is noted before.
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "audit/json.h"
#include "audit/stray.h"
#include "enforce/fdpass.h"
#include "enforce/narrow.h"
#include "tools/registry.h"

#define WORKER_SOCKET_FD 3
#define WORKER_MEMORY_FD 4
#define WORKER_FDS_FREE 10 /* above all that is put in place */
#define CHUNK_MAX ((size_t)256 * 1024)
#define DYING_MAX 8   /* killed and not dead yet; then no more are started */
#define DYING_MS 1000 /* to wait for them at the very end */
#define AGAIN_MAX 16  /* times that one call is judged anew */

/* Both ends are the same binary, so the layout is the compiler's. */
struct request {
	size_t tool; /* index in the registry */
	size_t args_len;
	size_t name_len;
	size_t budget;
	uint64_t written;
	struct stat st;
	char leaf[NAME_MAX + 1];
	char temp[STRAY_NAME];
	bool has_fd, has_parent; /* in this order, with the first byte */
};

/* Plain numbers, for any bytes are a value of them. */
struct reply {
	uint32_t outcome;
	uint32_t failure;
	int32_t error;
	uint32_t cut;
	uint64_t written;
	char content_hash[DIGEST_HEX];
	size_t result_len;
};

/* A child that was killed, and what it may leave behind. */
struct dying {
	pid_t pid;
	int dir_fd;
	char temp[STRAY_NAME];
};

struct worker {
	enum worker_kind kind;
	struct invocation *inv;
	pid_t pid;
	int fd;
	struct call_queue queue; /* the first one is with the child */
	struct buf out;
	char memory[PATH_MAX]; /* the kernel's name of it; "": none */
	off_t noted;	       /* bytes in the file of notes */
	int pass[2]; /* descriptors that go with the first byte of out */
	size_t pass_n;
	struct buf in;
	struct dying dying[DYING_MAX];
	size_t dying_n;
};

/* How the service of a call went on. */
enum progress {
	PROGRESS_NONE,
	PROGRESS_DONE,
	PROGRESS_AGAIN, /* the file is another one by now: judge it anew */
	PROGRESS_BROKEN /* the child is gone or talks nonsense */
};

struct worker *
worker_new(struct invocation *inv, enum worker_kind kind)
{
	struct worker *w = calloc(1, sizeof(*w));
	char proc[64];
	ssize_t n;

	if (w == NULL)
		return NULL;
	w->kind = kind;
	w->inv = inv;
	w->pid = -1;
	w->fd = -1;
	w->noted = inv->stray_len;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", inv->memory_fd);
	n = readlink(proc, w->memory, sizeof(w->memory) - 1);
	w->memory[n < 0 ? 0 : n] = '\0';
	TAILQ_INIT(&w->queue);
	buf_init(&w->out, sizeof(struct request) + 8 * 1024 * 1024);
	buf_init(&w->in, sizeof(struct reply) + CALL_RESPONSE_MAX);
	return w;
}

/* Does this call make a file? One of memory has no descriptor yet. */
static bool
makes_file(const struct worker *w, const struct call *c)
{
	const struct resource *on = &c->check.on;

	return w->kind == WORKER_FILE && on->name != NULL &&
	       (on->parent_fd != -1 || on->fd == -1);
}

/* The directory in which this call may have made its temporary file, or -1. */
static int
temporary_place(const struct worker *w, const struct call *c)
{
	const struct resource *on = &c->check.on;
	char leaf[NAME_MAX + 1];

	if (!makes_file(w, c))
		return -1;
	if (on->parent_fd != -1)
		return fcntl(on->parent_fd, F_DUPFD_CLOEXEC, 3);
	return path_memory_parent(w->inv->memory_fd, on->name, false, leaf);
}

/*
 * Note the temporary name. What those that are not dead yet may leave stays
 * noted. Without a note the call goes on: only a crash of everybody would tell.
 */
static void
note_temporary(struct worker *w, const struct call *c)
{
	const struct resource *on = &c->check.on;
	bool memory = on->parent_fd == -1;
	char dir[PATH_MAX];
	off_t len;
	int n;

	if (w->inv->stray_fd == -1 || !makes_file(w, c))
		return;
	n = snprintf(dir, sizeof(dir), "%s%s%s", memory ? w->memory : "",
	    memory ? "/" : "", on->name);
	if (n < 0 || (size_t)n >= sizeof(dir) || dir[0] != '/')
		return;
	*strrchr(dir, '/') = '\0';
	if (w->dying_n == 0)
		w->noted = w->inv->stray_len;
	len = stray_note(w->inv->stray_fd, w->noted, w->pid,
	    dir[0] == '\0' ? "/" : dir, c->run.temp);
	if (len != -1)
		w->noted = len;
}

/* Forget those that are dead by now, and what they have left. */
static void
bury(struct worker *w)
{
	struct dying *d;
	size_t i = 0;

	while (i < w->dying_n) {
		d = &w->dying[i];
		if (waitpid(d->pid, NULL, WNOHANG) == 0) {
			i++;
			continue;
		}
		if (d->dir_fd != -1) {
			unlinkat(d->dir_fd, d->temp, 0);
			close(d->dir_fd);
		}
		*d = w->dying[--w->dying_n];
	}
}

static void
end_child(struct worker *w)
{
	const struct call *c = TAILQ_FIRST(&w->queue);
	struct dying *d = &w->dying[w->dying_n];

	if (w->fd != -1)
		close(w->fd);
	if (w->pid != -1) { /* not reaped yet, so still ours */
		kill(w->pid, SIGKILL);
		d->pid = w->pid;
		d->dir_fd = c == NULL ? -1 : temporary_place(w, c);
		if (c != NULL)
			memcpy(d->temp, c->run.temp, sizeof(d->temp));
		w->dying_n++;
	}
	bury(w);
	w->fd = -1;
	w->pid = -1;
	w->pass_n = 0;
	buf_clear(&w->out);
	buf_clear(&w->in);
}

/* At the end there is nobody left to be kept waiting; but not for ever. */
static void
bury_all(struct worker *w)
{
	struct timespec pause = {.tv_nsec = 1000000};
	int ms;

	for (ms = 0; w->dying_n > 0 && ms < DYING_MS; ms++) {
		nanosleep(&pause, NULL);
		bury(w);
	}
	while (w->dying_n > 0) {
		if (w->dying[--w->dying_n].dir_fd != -1)
			close(w->dying[w->dying_n].dir_fd);
	}
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
	bury_all(w);
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
	ssize_t n = fdpass_receive(fd, r, sizeof(*r), passed, 2, 0);

	if (n <= 0)
		return -1;
	if (read_exactly(fd, (char *)r + n, sizeof(*r) - (size_t)n) == -1)
		return -1;
	/* One that got lost would look like a file that is not there. */
	return (passed[0] != -1) + (passed[1] != -1) ==
		       (int)r->has_fd + (int)r->has_parent
		   ? 0
		   : -1;
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
	c->check.tool = &registry_tools(&(size_t){0})[r.tool];
	c->rpc.budget = r.budget;
	c->rpc.args = json_parse(args, r.args_len, false);
	if (c->rpc.args == NULL)
		goto fail;
	c->check.on.st = r.st;
	memcpy(c->check.on.leaf, r.leaf, sizeof(r.leaf));
	memcpy(c->run.temp, r.temp, sizeof(r.temp));
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
	r.outcome = (uint32_t)c->run.outcome;
	r.failure = (uint32_t)c->run.failure;
	r.error = c->run.error;
	r.cut = c->run.cut;
	r.written = c->run.written;
	memcpy(r.content_hash, c->run.content_hash, sizeof(r.content_hash));
	r.result_len = c->run.result.len;
	if (write_exactly(fd, &r, sizeof(r)) == -1)
		return -1;
	return write_exactly(fd, c->run.result.data, r.result_len);
}

/* Keep the channel and the memory; nothing else is open afterwards. */
static int
keep_descriptors(struct invocation *inv, int fd)
{
	int i, null, sock, memory;

	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sock = fcntl(fd, F_DUPFD_CLOEXEC, WORKER_FDS_FREE);
	memory = fcntl(inv->memory_fd, F_DUPFD_CLOEXEC, WORKER_FDS_FREE);
	if (null == -1 || sock == -1 || memory == -1)
		return -1;
	for (i = 0; i < WORKER_SOCKET_FD; i++) {
		if (i != null && dup2(null, i) == -1)
			return -1;
	}
	if (dup3(sock, WORKER_SOCKET_FD, O_CLOEXEC) == -1 ||
	    dup3(memory, WORKER_MEMORY_FD, O_CLOEXEC) == -1 ||
	    syscall(SYS_close_range, WORKER_MEMORY_FD + 1, ~0U, 0) == -1)
		return -1;
	inv->memory_fd = WORKER_MEMORY_FD;
	return 0;
}

static void
child(const struct worker *w, int fd, pid_t parent)
{
	bool walks = w->kind == WORKER_WALK;
	struct invocation *inv = w->inv;
	struct call *c;
	int result;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	prctl(PR_SET_NAME, walks ? "cyberos-walk" : "cyberos-file");
	signal(SIGXFSZ, SIG_IGN); /* a limit is an error, not our end */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 ||
	    keep_descriptors(inv, fd) == -1)
		_exit(1);
	digest_free(inv->args_digest); /* it holds a key */
	inv->args_digest = NULL;
	if ((walks ? narrow_walker(inv->narrow, inv->memory_fd)
		   : narrow_worker()) == -1)
		_exit(1);
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

	bury(w);
	if (w->dying_n == DYING_MAX) {
		errno = EBUSY;
		return -1;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == -1)
		return -1;
	w->pid = fork();
	if (w->pid == 0)
		child(w, fds[1], parent);
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
	stray_name(c->run.temp);
	note_temporary(w, c);
	memcpy(r.temp, c->run.temp, sizeof(r.temp));
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
	ssize_t n =
	    fdpass_send(w->fd, w->out.data, w->out.len, w->pass, w->pass_n, 0);

	if (n == -1)
		return errno == EAGAIN ? 0 : -1;
	w->pass_n = 0;
	buf_consume(&w->out, (size_t)n);
	return 0;
}

static enum progress
take_reply(struct worker *w, struct call *c)
{
	struct reply r;

	if (w->in.len < sizeof(r))
		return PROGRESS_NONE;
	memcpy(&r, w->in.data, sizeof(r));
	if (r.result_len > CALL_RESPONSE_MAX || r.outcome > OUTCOME_TIMEOUT ||
	    r.failure >= FAIL_COUNT)
		return PROGRESS_BROKEN;
	if (w->in.len < sizeof(r) + r.result_len)
		return PROGRESS_NONE;
	if (w->in.len > sizeof(r) + r.result_len)
		return PROGRESS_BROKEN;
	r.content_hash[DIGEST_HEX - 1] = '\0';
	c->run.outcome = (enum outcome)r.outcome;
	c->run.failure = (enum failure)r.failure;
	c->run.error = r.error;
	c->run.cut = r.cut != 0;
	/* One that only reads has no say in what was written. */
	c->run.written = w->kind == WORKER_WALK ? 0 : r.written;
	memcpy(c->run.content_hash, r.content_hash, sizeof(r.content_hash));
	buf_reset(&c->run.result);
	if (buf_put(&c->run.result, w->in.data + sizeof(r), r.result_len) == -1)
		return PROGRESS_BROKEN;
	buf_clear(&w->in);
	w->inv->written += c->run.written;
	return r.error == ESTALE && ++c->run.again <= AGAIN_MAX ? PROGRESS_AGAIN
								: PROGRESS_DONE;
}

static enum progress
receive_some(struct worker *w, struct call *c)
{
	size_t room = w->in.max - w->in.len;
	char *at;
	ssize_t n;

	if (room > CHUNK_MAX)
		room = CHUNK_MAX;
	at = buf_reserve(&w->in, room);
	if (at == NULL)
		return PROGRESS_BROKEN;
	n = read(w->fd, at, room);
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return PROGRESS_NONE;
	if (n <= 0)
		return PROGRESS_BROKEN;
	buf_advance(&w->in, (size_t)n);
	return take_reply(w, c);
}

/*
 * Begin with the first call. A child that has died since its last call takes
 * no byte of this one, so another may have it; without any, the call fails at
 * the next service.
 */
static void
begin(struct worker *w)
{
	int tries;

	for (tries = 0; !TAILQ_EMPTY(&w->queue) && tries < 2; tries++) {
		if (prepare(w) == 0 && send_some(w) == 0)
			return;
		end_child(w);
	}
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

const struct call *
worker_next(const struct worker *w)
{
	return TAILQ_FIRST(&w->queue);
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

/* The call's file was replaced under it: look again, and do it to the new one.
 */
static bool
begin_again(struct worker *w, struct call *c)
{
	enum check_result found = registry_check_again(c, w->inv);

	c->run.error = 0;
	if (found == CHECK_REFUSED &&
	    c->check.verdict.reason != REASON_NONE) {
		c->run.outcome = OUTCOME_DENIED;
		return false;
	}
	if (found != CHECK_MAY) {
		call_fail(c, FAIL_PERMISSION);
		return false;
	}
	if (c->check.failure != FAIL_NONE) {
		call_fail(c, c->check.failure);
		return false;
	}
	begin(w);
	return true;
}

/* A child without a call says nothing: one that does, or died, is ended. */
static void
watch_idle(struct worker *w)
{
	char c;

	if (w->fd != -1 && (recv(w->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) != -1 ||
			       (errno != EAGAIN && errno != EINTR)))
		end_child(w);
}

struct call *
worker_service(struct worker *w)
{
	struct call *c = TAILQ_FIRST(&w->queue);
	enum progress got = PROGRESS_BROKEN;

	bury(w);
	if (c == NULL) {
		watch_idle(w);
		return NULL;
	}
	if (w->fd != -1 && (w->out.len == 0 || send_some(w) == 0))
		got = receive_some(w, c);
	switch (got) {
	case PROGRESS_NONE:
		return NULL;
	case PROGRESS_AGAIN:
		if (begin_again(w, c))
			return NULL;
		break;
	case PROGRESS_BROKEN:
		end_child(w);
		call_fail(c, FAIL_IO_ERROR);
		break;
	case PROGRESS_DONE:
		break;
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
