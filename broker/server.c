/*
 * Many connections, one loop. A slow reader, a half-sent frame or a flood on
 * one connection costs the others nothing but their turn: reads and writes do
 * not block, memory is bounded, and between two looks at the clock one request
 * is handled, of each connection in turn. An answer leaves whole or its
 * connection ends; no byte of one is ever taken for a part of another.
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
#include "broker/sink.h"

#define DRAIN_NS (CLOCK_SECOND / 2)
#define PEER_ROWS 64 /* rows about strangers; the last one counts the rest */
#define BATCHES 1    /* answers of batches that grow at the same time */
#define IN_PLACE_MAX ((size_t)1024 * 1024) /* an answer made in the loop */
#define CHUNK ((size_t)64 * 1024)      /* small answers share that much */
#define SEND_MAX ((size_t)1024 * 1024) /* bytes of one turn */

/*
 * Bytes that an answer in a batch may always take besides what it echoes: any
 * refusal, any failure, any result without a body. The limits of the scanner
 * (bytes of a request, values in it) let a batch of nothing else stay below
 * CALL_RESPONSE_MAX.
 */
#define ELEMENT_ROOM ((size_t)640)

/* Complete answers, and the one that is being made, on their way out. */
struct chunk {
	TAILQ_ENTRY(chunk) next;
	struct buf text;
	size_t sent;
};

TAILQ_HEAD(chunk_list, chunk);

/* A batch is worked off one request a turn; its answer is one message. */
struct batch {
	char *text;
	size_t len;
	cJSON *root;
	const cJSON *node;   /* the next one */
	struct json_span at; /* raw bytes of the one before */
	size_t left;
	bool waiting; /* a worker has the present one */
	struct chunk *reply;
};

struct conn {
	TAILQ_ENTRY(conn) next;
	uint64_t id;
	int fd;
	bool judged;
	bool ended;  /* nothing more will be read */
	bool deaf;   /* nothing more will be written */
	bool broken; /* an answer could not be made: to be closed */
	bool parked; /* its next message is a batch that has to wait */
	unsigned in_flight;
	struct frame frame;
	struct digest *digest;
	struct batch batch;
	struct chunk_list out;
	size_t unsent; /* bytes of out */
};

TAILQ_HEAD(conn_list, conn);

struct server {
	int listen_fd;
	struct dispatch *dispatch;
	const struct spawned *sandbox;
	struct sink *sink;
	bool opened;
	bool connected;
	uint64_t next_id;
	unsigned conns;	  /* judged ones */
	unsigned waiting; /* not judged yet */
	unsigned in_flight;
	unsigned batches;
	size_t unsent;	       /* of all connections */
	struct conn_list list; /* whose turn is next comes first */
	uint64_t strangers;
	pid_t last_pid; /* of the newest one */
	uid_t last_uid;
};

struct server *
server_new(int listen_fd, struct dispatch *dispatch,
    const struct spawned *sandbox)
{
	struct server *s = calloc(1, sizeof(*s));

	if (s == NULL || (s->sink = sink_new()) == NULL) {
		free(s);
		return NULL;
	}
	s->listen_fd = listen_fd;
	s->dispatch = dispatch;
	s->sandbox = sandbox;
	TAILQ_INIT(&s->list);
	return s;
}

static void
chunk_free(struct chunk *k)
{
	if (k == NULL)
		return;
	buf_clear(&k->text);
	free(k);
}

static struct chunk *
chunk_new(void)
{
	struct chunk *k = calloc(1, sizeof(*k));

	if (k != NULL)
		buf_init(&k->text, CHUNK + 4 + CALL_RESPONSE_MAX);
	return k;
}

static void
batch_clear(struct batch *b)
{
	cJSON_Delete(b->root);
	freezero(b->text, b->len);
	chunk_free(b->reply);
	memset(b, 0, sizeof(*b));
}

static void
out_clear(struct server *s, struct conn *c)
{
	struct chunk *k;

	while ((k = TAILQ_FIRST(&c->out)) != NULL) {
		TAILQ_REMOVE(&c->out, k, next);
		chunk_free(k);
	}
	s->unsent -= c->unsent;
	c->unsent = 0;
}

static void
batch_gone(struct server *s, struct conn *c)
{
	if (c->batch.root == NULL)
		return;
	batch_clear(&c->batch);
	s->batches--;
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
	batch_gone(s, c);
	out_clear(s, c);
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
	sink_free(s->sink);
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

/* The tag of a call says whether a batch waits for it. */
static bool
is_of_batch(const struct call *call)
{
	return (call->rpc.conn & 1) != 0;
}

/*
 * Would an answer of that many bytes keep within what may be unsent? A batch
 * that is being worked off has its whole answer set aside. With nothing unsent
 * there is always room, so nothing here waits for itself.
 */
static bool
has_room(const struct server *s, size_t answer)
{
	return s->unsent + s->batches * CALL_RESPONSE_MAX + answer <=
	       SERVER_UNSENT;
}

/* The room of a batch's answer is that of its calls. */
bool
server_has_room(const struct server *s, const struct call *call)
{
	return (call != NULL && is_of_batch(call)) ||
	       has_room(s, CALL_RESPONSE_MAX);
}

/* Where the next answer goes; NULL: no memory, and the connection is broken. */
static struct buf *
answer_begin(struct conn *c, size_t *begun)
{
	struct chunk *k = TAILQ_LAST(&c->out, chunk_list);

	if (k == NULL || k->text.len >= CHUNK) {
		k = chunk_new();
		if (k == NULL) {
			c->broken = true;
			return NULL;
		}
		TAILQ_INSERT_TAIL(&c->out, k, next);
	}
	*begun = frame_begin(&k->text);
	return &k->text;
}

static void
answer_end(struct server *s, struct conn *c, struct buf *text, size_t begun)
{
	if (text == NULL)
		return;
	if (text->failed) {
		text->len = begun;
		c->broken = true;
	} else if (text->len == begun + 4) {
		text->len = begun; /* nothing to say */
	} else {
		frame_end(text, begun);
		c->unsent += text->len - begun;
		s->unsent += text->len - begun;
	}
}

/* Send what goes. False: the peer is gone. */
static bool
conn_write(struct server *s, struct conn *c)
{
	struct chunk *k;
	size_t most, left = SEND_MAX;
	ssize_t n;

	while (c->unsent > 0 && left > 0) {
		k = TAILQ_FIRST(&c->out);
		most = k->text.len - k->sent;
		n = send(c->fd, k->text.data + k->sent,
		    most < left ? most : left, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return errno == EAGAIN;
		tally_count(&s->dispatch->tally->bytes[TALLY_TX], (uint64_t)n);
		k->sent += (size_t)n;
		left -= (size_t)n;
		c->unsent -= (size_t)n;
		s->unsent -= (size_t)n;
		if (k->sent < k->text.len)
			continue;
		k->sent = 0;
		buf_reset(&k->text);
		/* The memory of a small one is kept for the next answer. */
		if (TAILQ_NEXT(k, next) != NULL || k->text.size > CHUNK) {
			TAILQ_REMOVE(&c->out, k, next);
			chunk_free(k);
		}
	}
	return true;
}

/* --- requests --- */

/* A call that a worker has knows its connection, and whether a batch waits. */
static uint64_t
call_tag(const struct conn *c, bool batch)
{
	return c->id << 1 | batch;
}

static void
in_flight(struct server *s, struct conn *c)
{
	c->in_flight++;
	s->in_flight++;
}

static void
too_large(struct server *s, struct conn *c, const char *hash)
{
	size_t begun = 0;
	struct buf *text = answer_begin(c, &begun);

	dispatch_too_large(s->dispatch, hash, text);
	answer_end(s, c, text, begun);
}

static void
garbage(struct server *s, struct conn *c, int code)
{
	size_t begun = 0;
	struct buf *text = answer_begin(c, &begun);

	dispatch_garbage(s->dispatch, code, (struct json_span){NULL, 0}, text);
	answer_end(s, c, text, begun);
}

static void
single(
    struct server *s, struct conn *c, const cJSON *node, struct json_span text)
{
	struct rpc_request r;
	size_t begun = 0;
	struct buf *reply = answer_begin(c, &begun);

	if (reply == NULL)
		return;
	rpc_request(node, text, &r);
	if (dispatch_request(s->dispatch, &r, CALL_RESPONSE_MAX,
		call_tag(c, false), reply) == DISPATCH_LATER)
		in_flight(s, c);
	answer_end(s, c, reply, begun);
}

/* Keep the bytes and the tree until every element has had its turn. */
static bool
batch_begin(
    struct server *s, struct conn *c, cJSON *root, struct json_span text)
{
	struct batch *b = &c->batch;

	b->text = malloc(text.len);
	b->reply = chunk_new();
	if (b->text == NULL || b->reply == NULL) {
		free(b->text);
		chunk_free(b->reply);
		memset(b, 0, sizeof(*b));
		c->broken = true;
		return false;
	}
	memcpy(b->text, text.p, text.len);
	b->len = text.len;
	b->root = root;
	b->node = root->child;
	b->left = (size_t)cJSON_GetArraySize(root);
	frame_begin(&b->reply->text);
	buf_putc(&b->reply->text, '[');
	s->batches++;
	return true;
}

#define BATCH_BEGUN ((size_t)5) /* the length, and the bracket */

static void
batch_end(struct server *s, struct conn *c)
{
	struct chunk *k = c->batch.reply;

	if (k->text.len > BATCH_BEGUN || k->text.failed) {
		buf_putc(&k->text, ']');
		TAILQ_INSERT_TAIL(&c->out, k, next);
		c->batch.reply = NULL;
		answer_end(s, c, &k->text, 0);
	}
	batch_gone(s, c);
}

/* A separator that is taken back when the element is not answered. */
static size_t
element_begin(struct batch *b)
{
	if (b->reply->text.len > BATCH_BEGUN)
		buf_putc(&b->reply->text, ',');
	return b->reply->text.len;
}

static void
element_end(struct batch *b, size_t begun)
{
	if (b->reply->text.len == begun && begun > BATCH_BEGUN)
		b->reply->text.len--;
}

/*
 * The bytes that the present element's answer may take: what all behind it may
 * always take, and all that they can echo, stays free.
 */
static size_t
element_budget(const struct batch *b)
{
	size_t taken = b->reply->text.len + b->left * ELEMENT_ROOM + b->len;

	if (taken + ELEMENT_ROOM >= CALL_RESPONSE_MAX)
		return ELEMENT_ROOM;
	return CALL_RESPONSE_MAX - taken;
}

static void
batch_step(struct server *s, struct conn *c)
{
	struct batch *b = &c->batch;
	struct rpc_request r;
	const cJSON *node = b->node;
	size_t begun;

	json_element(b->text, b->len, &b->at);
	b->node = node->next;
	b->left--;
	rpc_request(node, b->at, &r);
	begun = element_begin(b);
	if (dispatch_request(s->dispatch, &r, element_budget(b),
		call_tag(c, true), &b->reply->text) == DISPATCH_LATER) {
		b->waiting = true;
		in_flight(s, c);
	}
	element_end(b, begun);
	if (b->node == NULL && !b->waiting)
		batch_end(s, c);
}

static bool
may_begin_batch(const struct server *s)
{
	return s->batches < BATCHES && has_room(s, CALL_RESPONSE_MAX);
}

static bool
looks_like_batch(const char *text, size_t len)
{
	while (len > 0 && strchr(" \t\r\n", *text) != NULL && *text != '\0') {
		text++;
		len--;
	}
	return len > 0 && *text == '[';
}

/* False: not now, the message stays where it is. */
static bool
message(struct server *s, struct conn *c, const char *text, size_t len)
{
	struct json_span span = {text, len};
	cJSON *root;

	c->parked = looks_like_batch(text, len) && !may_begin_batch(s);
	if (c->parked)
		return false;
	root = json_parse(text, len, true);
	if (root == NULL) {
		garbage(s, c, RPC_PARSE_ERROR);
		return true;
	}
	if (!cJSON_IsArray(root)) {
		single(s, c, root, span);
	} else if (root->child == NULL) {
		garbage(s, c, RPC_INVALID_REQUEST);
	} else if (batch_begin(s, c, root, span)) {
		return true; /* the batch owns the tree now */
	}
	cJSON_Delete(root);
	return true;
}

/* May another request of this connection begin? A batch has its room. */
static bool
conn_may_begin(const struct server *s, const struct conn *c)
{
	if (!s->opened || !c->judged || c->broken ||
	    s->in_flight >= SERVER_CONNS)
		return false;
	if (c->batch.root != NULL)
		return !c->batch.waiting;
	return c->parked ? may_begin_batch(s) : has_room(s, IN_PLACE_MAX);
}

static bool
conn_has_work(const struct conn *c)
{
	return c->batch.root != NULL || frame_ready(&c->frame);
}

/* One request of a connection that has one and may begin it. */
static void
conn_step(struct server *s, struct conn *c)
{
	char hash[DIGEST_TEXT];
	const char *text;
	size_t len = 0;

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
		if (message(s, c, text, len))
			frame_done(&c->frame, len);
		return;
	}
}

/* A worker's call is back: its answer belongs to a connection, if that lives.
 */
void
server_finished(struct server *s, struct call *call, enum failure why)
{
	struct conn *c = conn_find(s, call->rpc.conn >> 1);
	struct buf *reply = NULL, nowhere;
	size_t begun = 0;
	bool batch = is_of_batch(call);

	s->in_flight--;
	buf_init(&nowhere, CALL_RESPONSE_MAX + FRAME_MAX);
	if (c != NULL) {
		c->in_flight--;
		if (batch) {
			reply = &c->batch.reply->text;
			begun = element_begin(&c->batch);
		} else {
			reply = answer_begin(c, &begun);
		}
	}
	if (why == FAIL_NONE)
		dispatch_finish(
		    s->dispatch, call, reply == NULL ? &nowhere : reply);
	else
		dispatch_abandon(
		    s->dispatch, call, why, reply == NULL ? &nowhere : reply);
	buf_clear(&nowhere);
	if (c == NULL)
		return;
	if (!batch) {
		answer_end(s, c, reply, begun);
		return;
	}
	element_end(&c->batch, begun);
	c->batch.waiting = false;
	if (c->batch.node == NULL)
		batch_end(s, c);
}

/* --- peers --- */

static void
record_stranger(struct server *s, pid_t pid, uid_t uid, uint64_t count)
{
	struct dispatch *d = s->dispatch;
	struct row_subject subject;
	struct row row;

	dispatch_subject(d, NULL, &subject);
	row_begin(&row, ROW_PEER_REFUSED, &subject, d->inv->digest);
	row_int(&row, "pid", pid);
	row_int(&row, "uid", uid);
	row_int(&row, "count", (int64_t)count);
	dispatch_row(d, &row);
}

static void
stranger(struct server *s, struct conn *c)
{
	struct dispatch *d = s->dispatch;
	struct ucred cred = {0, (uid_t)-1, (gid_t)-1};
	socklen_t len = sizeof(cred);

	getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	if (++s->strangers < PEER_ROWS) {
		record_stranger(s, cred.pid, cred.uid, 1);
		log_line(d->log, LOG_LEVEL_WARN,
		    "a connection from outside the sandbox was refused "
		    "(pid %ld, uid %lu)",
		    (long)cred.pid, (unsigned long)cred.uid);
	}
	s->last_pid = cred.pid;
	s->last_uid = cred.uid;
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

/* False: nobody is there, or nobody can be let in. */
static bool
accept_one(struct server *s)
{
	struct conn *c;
	int fd;

	fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd == -1)
		return false;
	c = calloc(1, sizeof(*c));
	if (c == NULL ||
	    (c->digest = digest_copy(s->dispatch->inv->args_digest)) == NULL) {
		free(c);
		close(fd);
		return false;
	}
	c->fd = fd;
	c->id = ++s->next_id;
	frame_init(&c->frame, c->digest);
	TAILQ_INIT(&c->out);
	TAILQ_INSERT_TAIL(&s->list, c, next);
	s->waiting++;
	if (spawn_judge(s->sandbox, fd) == 0)
		return true;
	/* With init all is over: as if it had come later, to no socket at all. */
	if (errno == EPIPE || errno == ECONNRESET)
		conn_free(s, c);
	else
		stranger(s, c);
	return true;
}

/* --- the turn --- */

/* While the sink is busy, more descriptors would have to wait for it. */
static bool
wants_read(const struct server *s, const struct conn *c)
{
	return !sink_busy(s->sink) && c->judged && !c->ended &&
	       !conn_has_work(c) && s->opened &&
	       s->in_flight < SERVER_CONNS && has_room(s, IN_PLACE_MAX);
}

/*
 * One whose verdict is due counts as the skill's: it may be. Strangers lose
 * their place as soon as init has spoken.
 */
static bool
wants_accept(const struct server *s)
{
	return s->conns + s->waiting < SERVER_CONNS &&
	       s->waiting < SERVER_JUDGED;
}

size_t
server_poll(struct server *s, struct pollfd *fds)
{
	struct conn *c;
	size_t n = 0;

	fds[n].fd = wants_accept(s) ? s->listen_fd : -1;
	fds[n++].events = POLLIN;
	fds[n].fd = sink_fd(s->sink);
	fds[n++].events = POLLIN;
	TAILQ_FOREACH (c, &s->list, next) {
		fds[n].fd = c->fd;
		fds[n].events = 0;
		if (wants_read(s, c))
			fds[n].events |= POLLIN;
		if (c->unsent > 0)
			fds[n].events |= POLLOUT;
		/* A closed peer would wake us without end. */
		if (fds[n].events == 0)
			fds[n].fd = -1;
		n++;
	}
	return n;
}

/* Whose turn it is: the first that has something to do and may do it. */
static struct conn *
next_turn(const struct server *s)
{
	struct conn *c;

	TAILQ_FOREACH (c, &s->list, next) {
		if (conn_has_work(c) && conn_may_begin(s, c))
			return c;
	}
	return NULL;
}

bool
server_busy(const struct server *s)
{
	return next_turn(s) != NULL;
}

/* The same as frame_read, counted, and nothing but bytes. */
static int
take_bytes(struct server *s, struct conn *c)
{
	int passed[FDPASS_MAX];
	int got = frame_read(&c->frame, c->fd, passed);

	sink_take(s->sink, passed);
	if (got > 0)
		tally_count(
		    &s->dispatch->tally->bytes[TALLY_RX], (uint64_t)got);
	return got;
}

static void
conn_read(struct server *s, struct conn *c)
{
	int got;

	if (!wants_read(s, c))
		return;
	got = take_bytes(s, c);
	if (got == 0 || (got == -1 && errno != EAGAIN))
		c->ended = true;
}

/*
 * Write what is there, and see whether that was all of this connection. What
 * a peer sent before it went away is handled like anything else, only that
 * nobody hears the answers.
 */
static void
conn_settle(struct server *s, struct conn *c)
{
	if (!c->broken && !c->deaf && c->unsent > 0)
		c->deaf = !conn_write(s, c);
	if (c->deaf)
		out_clear(s, c);
	if (c->broken || (c->ended && c->in_flight == 0 && c->unsent == 0 &&
			     !conn_has_work(c)))
		conn_free(s, c);
}

void
server_step(struct server *s, const struct pollfd *fds, size_t n)
{
	struct conn *c, *after;
	size_t i = 2;

	if (n > 1 && fds[1].fd != -1 && fds[1].revents != 0)
		sink_done(s->sink);
	for (c = TAILQ_FIRST(&s->list); c != NULL && i < n;
	     c = TAILQ_NEXT(c, next), i++) {
		if (fds[i].fd == c->fd && (fds[i].revents & ~POLLOUT) != 0)
			conn_read(s, c);
	}
	c = next_turn(s);
	if (c != NULL) {
		conn_step(s, c);
		TAILQ_REMOVE(&s->list, c, next);
		TAILQ_INSERT_TAIL(&s->list, c, next);
	}
	for (c = TAILQ_FIRST(&s->list); c != NULL; c = after) {
		after = TAILQ_NEXT(c, next);
		if (c->judged)
			conn_settle(s, c);
	}
	if (n > 0 && fds[0].fd != -1 && (fds[0].revents & POLLIN) != 0)
		accept_one(s);
}

bool
server_settling(struct server *s)
{
	while (wants_accept(s) && accept_one(s))
		;
	return s->waiting > 0;
}

/* --- the end --- */

/* Handle or read a piece of one connection; false: it has no more. */
static bool
drain_one(struct server *s, struct conn *c)
{
	if (conn_has_work(c)) {
		if (!conn_may_begin(s, c))
			return false;
		conn_step(s, c);
		out_clear(s, c); /* nobody is left to read it */
		return true;
	}
	if (c->ended || c->broken)
		return false;
	if (sink_busy(s->sink))
		return true;
	c->ended = take_bytes(s, c) <= 0;
	return true;
}

/* Descriptors are closed beside us to the last; false: not by then. */
static bool
sink_is_free(struct server *s, int64_t until)
{
	struct pollfd done = { sink_fd(s->sink), POLLIN, 0 };

	if (sink_busy(s->sink) && poll(&done, 1, clock_until_ms(until)) == 1)
		sink_done(s->sink);
	return !sink_busy(s->sink);
}

static void
drain_strangers(struct server *s)
{
	struct conn *c, *after;

	for (c = TAILQ_FIRST(&s->list); c != NULL; c = after) {
		after = TAILQ_NEXT(c, next);
		if (!c->judged)
			stranger(s, c);
	}
	if (s->strangers >= PEER_ROWS)
		record_stranger(s, s->last_pid, s->last_uid,
		    s->strangers - (PEER_ROWS - 1));
}

void
server_drain(struct server *s, enum failure why)
{
	int64_t until = clock_boot() + DRAIN_NS;
	struct conn *c;
	struct call *call;
	bool more = why == FAIL_CANCELLED;

	/* No answer leaves and no worker starts from here on: nothing has to
	 * wait for the ledger's start. */
	s->opened = true;
	s->dispatch->ending = true;
	while ((call = worker_abort(s->dispatch->worker)) != NULL ||
	       (call = worker_abort(s->dispatch->walker)) != NULL)
		server_finished(s, call, why);
	while ((call = http_abort(s->dispatch->http)) != NULL)
		server_finished(s, call, why);
	while ((call = bash_abort(s->dispatch->bash)) != NULL)
		server_finished(s, call, why);
	TAILQ_FOREACH (c, &s->list, next)
		out_clear(s, c);
	while (more && clock_boot() < until && sink_is_free(s, until)) {
		more = false;
		TAILQ_FOREACH (c, &s->list, next) {
			if (c->judged && drain_one(s, c))
				more = true;
		}
	}
	drain_strangers(s);
}
