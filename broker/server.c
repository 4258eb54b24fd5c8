/*
 * Many connections, one loop. A slow reader, a half-sent frame or a flood on
 * one connection costs the others nothing but their turn: reads and writes do
 * not block, memory is bounded, and each connection gets one request a turn.
 */

#include "broker/server.h"

#include <sys/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/clock.h"
#include "audit/json.h"
#include "broker/frame.h"

#define DRAIN_NS (CLOCK_SECOND / 2)
#define ELEMENT_ROOM 640 /* what an answer in a batch takes besides its id */
#define PEER_ROWS 64	 /* rows about strangers; the last one counts on */

/* A batch is worked off one request a turn; its answer is one message. */
struct batch {
	char *text;
	size_t len;
	cJSON *root;
	const cJSON *node;   /* the next one */
	struct json_span at; /* raw bytes of the one before */
	size_t left;
	bool waiting; /* a worker has the present one */
	struct buf reply;
};

struct conn {
	TAILQ_ENTRY(conn) next;
	uint64_t id;
	int fd;
	bool judged;
	bool ended; /* nothing more will be read */
	unsigned in_flight;
	struct frame frame;
	struct digest *digest;
	struct batch batch;
	struct buf out;
	size_t sent; /* of out */
};

TAILQ_HEAD(conn_list, conn);

struct server {
	int listen_fd;
	struct dispatch *dispatch;
	const struct spawned *sandbox;
	bool judge;
	uid_t uid;
	bool opened;
	bool connected;
	uint64_t next_id;
	unsigned conns;	 /* judged ones */
	unsigned waiting; /* not judged yet */
	unsigned in_flight;
	struct conn_list list;
	uint64_t strangers;
};

struct server *
server_new(int listen_fd, struct dispatch *dispatch,
    const struct spawned *sandbox, bool judge, uid_t uid)
{
	struct server *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->listen_fd = listen_fd;
	s->dispatch = dispatch;
	s->sandbox = sandbox;
	s->judge = judge;
	s->uid = uid;
	TAILQ_INIT(&s->list);
	return s;
}

static void
batch_clear(struct batch *b)
{
	cJSON_Delete(b->root);
	freezero(b->text, b->len);
	buf_clear(&b->reply);
	memset(b, 0, sizeof(*b));
	buf_init(&b->reply, CALL_RESPONSE_MAX);
}

static void
conn_free(struct server *s, struct conn *c)
{
	TAILQ_REMOVE(&s->list, c, next);
	if (c->judged)
		s->conns--;
	else
		s->waiting--;
	close(c->fd);
	frame_clear(&c->frame);
	digest_free(c->digest);
	batch_clear(&c->batch);
	buf_clear(&c->out);
	free(c);
}

void
server_free(struct server *s)
{
	struct conn *c;

	if (s == NULL)
		return;
	while ((c = TAILQ_FIRST(&s->list)) != NULL)
		conn_free(s, c);
	free(s);
}

static struct conn *
conn_find(struct server *s, uint64_t id)
{
	struct conn *c;

	TAILQ_FOREACH (c, &s->list, next) {
		if (c->id == id)
			return c;
	}
	return NULL;
}

bool
server_connected(const struct server *s)
{
	return s->connected;
}

void
server_open(struct server *s)
{
	s->opened = true;
}

/* --- writing --- */

static size_t
unsent(const struct server *s)
{
	const struct conn *c;
	size_t n = 0;

	TAILQ_FOREACH (c, &s->list, next)
		n += c->out.len - c->sent + c->batch.reply.len;
	return n;
}

/* False: the peer is gone. */
static bool
conn_write(struct conn *c)
{
	ssize_t n;

	while (c->sent < c->out.len) {
		n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent,
		    MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return errno == EAGAIN;
		c->sent += (size_t)n;
	}
	c->sent = 0;
	if (c->out.size > 65536)
		buf_clear(&c->out); /* give a large answer's memory back */
	else
		buf_reset(&c->out);
	return true;
}

/* --- requests --- */

/* The digest of a message that is thrown away; keyed as the operator wants. */
static void
too_large(struct server *s, struct conn *c, const char *hash)
{
	size_t begun = frame_begin(&c->out);

	dispatch_too_large(s->dispatch, hash, &c->out);
	frame_end(&c->out, begun);
}

static void
end_message(struct conn *c, size_t begun)
{
	if (c->out.len == begun + 4)
		c->out.len = begun; /* nothing to say */
	else
		frame_end(&c->out, begun);
}

static void
garbage(struct server *s, struct conn *c, int code)
{
	size_t begun = frame_begin(&c->out);

	dispatch_garbage(s->dispatch, code, (struct json_span){ NULL, 0 },
	    &c->out);
	end_message(c, begun);
}

static void
single(struct server *s, struct conn *c, const cJSON *node,
    struct json_span text)
{
	struct rpc_request r;
	size_t begun = frame_begin(&c->out);

	rpc_request(node, text, &r);
	if (dispatch_request(s->dispatch, &r, CALL_RESPONSE_MAX, c->id,
		&c->out) == DISPATCH_LATER) {
		c->in_flight++;
		s->in_flight++;
	}
	end_message(c, begun);
}

/* Keep the bytes and the tree until every element has had its turn. */
static bool
batch_begin(struct conn *c, cJSON *root, struct json_span text)
{
	struct batch *b = &c->batch;

	b->text = malloc(text.len);
	if (b->text == NULL)
		return false;
	memcpy(b->text, text.p, text.len);
	b->len = text.len;
	b->root = root;
	b->node = root->child;
	b->left = (size_t)cJSON_GetArraySize(root);
	buf_puts(&b->reply, "[");
	return true;
}

static void
batch_end(struct conn *c)
{
	struct batch *b = &c->batch;
	size_t begun;

	if (b->reply.len > 1) {
		buf_putc(&b->reply, ']');
		begun = frame_begin(&c->out);
		buf_put(&c->out, b->reply.data, b->reply.len);
		frame_end(&c->out, begun);
	}
	batch_clear(b);
}

/* A separator that is taken back when the element is not answered. */
static size_t
element_begin(struct batch *b)
{
	if (b->reply.len > 1)
		buf_putc(&b->reply, ',');
	return b->reply.len;
}

static void
element_end(struct batch *b, size_t begun)
{
	if (b->reply.len == begun && begun > 1)
		b->reply.len--;
}

/* The bytes the present element's answer may take: the rest stays free for
 * the answers of those behind it. */
static size_t
element_budget(const struct batch *b)
{
	size_t reserved = b->left * ELEMENT_ROOM + b->len;
	size_t used = b->reply.len;

	if (used + reserved >= CALL_RESPONSE_MAX)
		return 0;
	return CALL_RESPONSE_MAX - used - reserved;
}

static void
batch_step(struct server *s, struct conn *c)
{
	struct batch *b = &c->batch;
	struct rpc_request r;
	const cJSON *node = b->node;
	size_t begun;

	if (node == NULL) {
		batch_end(c);
		return;
	}
	json_element(b->text, b->len, &b->at);
	b->node = node->next;
	b->left--;
	rpc_request(node, b->at, &r);
	begun = element_begin(b);
	if (dispatch_request(s->dispatch, &r, element_budget(b) + ELEMENT_ROOM,
		c->id, &b->reply) == DISPATCH_LATER) {
		b->waiting = true;
		c->in_flight++;
		s->in_flight++;
	}
	element_end(b, begun);
	if (b->node == NULL && !b->waiting)
		batch_end(c);
}

static void
message(struct server *s, struct conn *c, const char *text, size_t len)
{
	struct json_span span = { text, len };
	cJSON *root = json_parse(text, len, true);

	if (root == NULL) {
		garbage(s, c, RPC_PARSE_ERROR);
		return;
	}
	if (!cJSON_IsArray(root)) {
		single(s, c, root, span);
	} else if (root->child == NULL) {
		garbage(s, c, RPC_INVALID_REQUEST);
	} else if (batch_begin(c, root, span)) {
		return; /* the batch owns the tree now */
	}
	cJSON_Delete(root);
}

/* May another request of this connection begin? */
static bool
conn_may_begin(const struct server *s, const struct conn *c)
{
	return s->opened && c->judged && !c->batch.waiting &&
	    s->in_flight < SERVER_CONNS && unsent(s) < SERVER_UNSENT;
}

static bool
conn_has_work(const struct conn *c)
{
	return c->batch.root != NULL || frame_ready(&c->frame);
}

/* One request of this connection, if it has one and may. */
static void
conn_step(struct server *s, struct conn *c)
{
	char hash[DIGEST_TEXT];
	const char *text;
	size_t len = 0;

	if (!conn_may_begin(s, c))
		return;
	if (c->batch.root != NULL) {
		batch_step(s, c);
		return;
	}
	switch (frame_next(&c->frame, &text, &len, hash)) {
	case FRAME_NOTHING:
		return;
	case FRAME_TOO_LARGE:
		too_large(s, c, hash);
		return;
	case FRAME_MESSAGE:
		message(s, c, text, len);
		frame_done(&c->frame, len);
		return;
	}
}

/* A worker's call is back: its answer belongs to a connection, if that lives. */
void
server_finished(struct server *s, struct call *call, enum failure why)
{
	struct conn *c = conn_find(s, call->rpc.conn);
	struct buf *reply, nowhere;
	size_t begun = 0;
	bool batch = c != NULL && c->batch.waiting;

	s->in_flight--;
	buf_init(&nowhere, CALL_RESPONSE_MAX + FRAME_MAX);
	if (c == NULL) {
		reply = &nowhere;
	} else {
		c->in_flight--;
		reply = batch ? &c->batch.reply : &c->out;
		begun = batch ? element_begin(&c->batch) : frame_begin(reply);
	}
	if (why == FAIL_NONE)
		dispatch_finish(s->dispatch, call, reply);
	else
		dispatch_abandon(s->dispatch, call, why, reply);
	if (batch) {
		element_end(&c->batch, begun);
		c->batch.waiting = false;
		if (c->batch.node == NULL)
			batch_end(c);
	} else if (c != NULL) {
		end_message(c, begun);
	}
	buf_clear(&nowhere);
}

/* --- peers --- */

static void
stranger(struct server *s, struct conn *c)
{
	struct dispatch *d = s->dispatch;
	struct ucred cred = { 0, (uid_t)-1, (gid_t)-1 };
	socklen_t len = sizeof(cred);
	struct row_subject subject;
	struct row row;

	getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	if (++s->strangers <= PEER_ROWS) {
		dispatch_subject(d, NULL, &subject);
		row_begin(&row, ROW_PEER_REFUSED, &subject, d->inv->digest);
		row_int(&row, "pid", cred.pid);
		row_int(&row, "uid", cred.uid);
		row_int(&row, "count", (int64_t)s->strangers);
		dispatch_row(d, &row);
		log_line(d->log, LOG_LEVEL_WARN,
		    "a connection from outside the sandbox was refused "
		    "(pid %ld, uid %lu)",
		    (long)cred.pid, (unsigned long)cred.uid);
	}
	conn_free(s, c);
}

static void
admit(struct server *s, struct conn *c)
{
	c->judged = true;
	s->waiting--;
	s->conns++;
	s->connected = true;
}

void
server_peer(struct server *s, const struct spawn_message *m)
{
	struct conn *c;

	TAILQ_FOREACH (c, &s->list, next) {
		if (!c->judged)
			break;
	}
	if (c == NULL)
		return;
	if (m->pid > 0)
		admit(s, c);
	else
		stranger(s, c);
}

/* Without init's witness the uid must do; recorded as a missing layer. */
static void
judge_by_uid(struct server *s, struct conn *c)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
	    cred.uid == s->uid)
		admit(s, c);
	else
		stranger(s, c);
}

static void
accept_one(struct server *s)
{
	struct conn *c;
	int fd;

	fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd == -1)
		return;
	c = calloc(1, sizeof(*c));
	if (c == NULL || (c->digest = digest_new(NULL, 0)) == NULL) {
		free(c);
		close(fd);
		return;
	}
	c->fd = fd;
	c->id = ++s->next_id;
	frame_init(&c->frame, c->digest);
	batch_clear(&c->batch);
	buf_init(&c->out, SERVER_UNSENT + CALL_RESPONSE_MAX + FRAME_MAX);
	TAILQ_INSERT_TAIL(&s->list, c, next);
	s->waiting++;
	if (!s->judge)
		judge_by_uid(s, c);
	else if (spawn_judge(s->sandbox, fd) == -1)
		stranger(s, c);
}

/* --- the turn --- */

static bool
wants_read(const struct server *s, const struct conn *c)
{
	return c->judged && !c->ended && !conn_has_work(c) && s->opened &&
	    s->in_flight < SERVER_CONNS;
}

size_t
server_poll(struct server *s, struct pollfd *fds)
{
	struct conn *c;
	size_t n = 0;

	fds[n].fd = s->conns < SERVER_CONNS && s->waiting < SERVER_JUDGED
	    ? s->listen_fd
	    : -1;
	fds[n++].events = POLLIN;
	TAILQ_FOREACH (c, &s->list, next) {
		fds[n].fd = c->fd;
		fds[n].events = 0;
		if (wants_read(s, c) && unsent(s) < SERVER_UNSENT)
			fds[n].events |= POLLIN;
		if (c->sent < c->out.len)
			fds[n].events |= POLLOUT;
		/* A closed peer would wake us without end. */
		if (fds[n].events == 0)
			fds[n].fd = -1;
		n++;
	}
	return n;
}

bool
server_busy(const struct server *s)
{
	const struct conn *c;

	TAILQ_FOREACH (c, &s->list, next) {
		if (conn_has_work(c) && conn_may_begin(s, c))
			return true;
	}
	return false;
}

static void
conn_turn(struct server *s, struct conn *c, short revents)
{
	int got;

	if ((revents & (POLLIN | POLLHUP | POLLERR)) != 0 && wants_read(s, c)) {
		got = frame_read(&c->frame, c->fd);
		if (got == 0 || (got == -1 && errno != EAGAIN))
			c->ended = true;
	}
	conn_step(s, c);
	if (c->sent < c->out.len && !conn_write(c)) {
		conn_free(s, c);
		return;
	}
	if (c->ended && c->in_flight == 0 && c->out.len == 0 &&
	    !conn_has_work(c))
		conn_free(s, c);
}

void
server_step(struct server *s, const struct pollfd *fds, size_t n)
{
	struct conn *c, *after;
	size_t i = 1;

	for (c = TAILQ_FIRST(&s->list); c != NULL && i < n; c = after) {
		after = TAILQ_NEXT(c, next);
		if (c->judged)
			conn_turn(s, c, fds[i].fd == c->fd ? fds[i].revents : 0);
		i++;
	}
	if (n > 0 && fds[0].fd != -1 && (fds[0].revents & POLLIN) != 0)
		accept_one(s);
}

void
server_drain(struct server *s, enum failure why)
{
	int64_t until = clock_boot() + DRAIN_NS;
	struct conn *c;
	struct call *call;
	bool more = why == FAIL_CANCELLED;

	while (more && clock_boot() < until) {
		more = false;
		TAILQ_FOREACH (c, &s->list, next) {
			if (!c->judged || s->in_flight >= SERVER_CONNS)
				continue;
			if (!conn_has_work(c) && !c->ended &&
			    frame_read(&c->frame, c->fd) <= 0)
				c->ended = true;
			if (conn_has_work(c) && conn_may_begin(s, c)) {
				conn_step(s, c);
				more = true;
			} else if (!c->ended) {
				more = true;
			}
		}
	}
	while ((call = worker_abort(s->dispatch->worker)) != NULL)
		server_finished(s, call, why);
}
