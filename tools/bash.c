/*
 * The way of a Bash call: its command into a file without a name, pipes for
 * its streams, a request to the spawner; then feed, drain and wait. Nothing of
 * the command stands in an argument vector, an environment or a row. A call is
 * over when the spawner says that its sandbox is gone, so nothing of it runs
 * when the skill gets its answer.
 */

#include "tools/bash.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/clock.h"
#include "audit/json.h"
#include "enforce/spawner.h"

#define PIECE ((size_t)64 * 1024) /* of a stream in one turn */
#define STREAMS 2
#define CHARACTER 4 /* bytes behind the cap that show what it cuts */
#define ATTEMPTS 64 /* to be taken by the broker */
#define END_MS 1000  /* for what was killed to be gone */
#define START_NS (30 * CLOCK_SECOND) /* for the spawner to answer */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

struct stream {
	int fd;
	struct buf text;
	uint64_t seen; /* bytes, kept or not */
};

struct shell {
	struct call *call;
	uint64_t id;
	struct spawned box; /* init's channel and pidfd, once it has started */
	int in_fd;
	const char *in;
	size_t in_left;
	struct stream out[STREAMS];
	int64_t until; /* clock_boot; 0: as long as the invocation */
	int64_t start_until;
	bool timed_out;
	bool have_status;
	struct spawn_message status;
	uint64_t rest; /* attempts that init has told of by number only */
	bool failed; /* the call's failure is set */
	bool gone;
};

struct bash {
	const struct invocation *inv;
	const struct log *log;
	int channel_fd;
	uint64_t next_id;
	struct shell shell[BASH_AT_ONCE];
	size_t n;
	struct call_queue waiting;
	struct spawn_attempt attempt[ATTEMPTS];
	size_t attempts, attempts_told;
	uint64_t attempts_rest;
	bool told; /* why a sandbox could not be had */
};

/* --- the shape of the arguments --- */

bool
bash_shape(struct call *c)
{
	const char *cwd = call_text(c, "cwd");
	const char *why = NULL;

	if (cwd != NULL && cwd[0] != '/')
		why = "must be an absolute path";
	else if (cwd != NULL && strlen(cwd) >= PATH_MAX)
		why = "is too long";
	if (why == NULL)
		return true;
	snprintf(c->check.bad, sizeof(c->check.bad), "cwd: %s", why);
	return false;
}

enum place
bash_place(const struct call *c)
{
	(void)c;
	return PLACE_BASH;
}

/* --- what there is of it --- */

struct bash *
bash_new(const struct invocation *inv, const struct log *log)
{
	struct bash *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	b->inv = inv;
	b->log = log;
	b->channel_fd = -1;
	TAILQ_INIT(&b->waiting);
	return b;
}

void
bash_use(struct bash *b, int channel_fd)
{
	b->channel_fd = channel_fd;
}

static void
close_fd(int *fd)
{
	if (*fd != -1)
		close(*fd);
	*fd = -1;
}

/* SIGKILL to its init ends all of it; the end of init's channel as well. */
static void
shell_kill(struct shell *s)
{
	spawn_kill(&s->box);
	close_fd(&s->box.control_fd);
}

static struct call *
shell_clear(struct bash *b, struct shell *s)
{
	struct call *c = s->call;
	int i;

	shell_kill(s);
	spawn_clear(&s->box);
	close_fd(&s->in_fd);
	for (i = 0; i < STREAMS; i++) {
		close_fd(&s->out[i].fd);
		buf_clear(&s->out[i].text);
	}
	b->n--;
	*s = b->shell[b->n];
	return c;
}

/* --- starting one --- */

static int
command_file(const char *text)
{
	size_t n = strlen(text), done = 0;
	ssize_t put;
	int fd;

	fd = memfd_create("command", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	if (fd == -1 && errno == EINVAL)
		fd = memfd_create("command", MFD_CLOEXEC);
	while (fd != -1 && done < n) {
		put = pwrite(fd, text + done, n - done, (off_t)done);
		if (put <= 0) {
			close(fd);
			return -1;
		}
		done += (size_t)put;
	}
	return fd;
}

/* Our end does not block, theirs does. 0, or -1 with errno. */
static int
make_pipe(int *ours, int *theirs, bool write)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) == -1)
		return -1;
	*ours = fds[write ? 1 : 0];
	*theirs = fds[write ? 0 : 1];
	return fcntl(*ours, F_SETFL, O_NONBLOCK);
}

static int
request(struct bash *b, struct shell *s)
{
	const char *cwd = call_text(s->call, "cwd");
	struct spawner_message m;
	int fds[SPAWNER_FDS] = {-1, -1, -1, -1}, i, result = -1;

	memset(&m, 0, sizeof(m));
	m.what = SPAWNER_BASH;
	m.id = s->id;
	strlcpy(m.text, cwd == NULL ? "/tmp" : cwd, sizeof(m.text));
	fds[SPAWNER_COMMAND] = command_file(call_text(s->call, "cmd"));
	if (fds[SPAWNER_COMMAND] != -1 &&
	    make_pipe(&s->in_fd, &fds[SPAWNER_STDIN], true) == 0 &&
	    make_pipe(&s->out[0].fd, &fds[SPAWNER_STDOUT], false) == 0 &&
	    make_pipe(&s->out[1].fd, &fds[SPAWNER_STDERR], false) == 0)
		result = spawner_send(b->channel_fd, &m, fds, SPAWNER_FDS,
		    false);
	for (i = 0; i < SPAWNER_FDS; i++)
		close_fd(&fds[i]);
	return result;
}

static void
start(struct bash *b, struct call *c)
{
	struct shell *s = &b->shell[b->n++];
	int64_t ms = call_int(c, "timeout_ms", 0);
	int i;

	memset(s, 0, sizeof(*s));
	s->call = c;
	s->id = ++b->next_id;
	spawn_init(&s->box);
	s->box.namespaces = true;
	s->in_fd = -1;
	for (i = 0; i < STREAMS; i++) {
		s->out[i].fd = -1;
		buf_init(&s->out[i].text, BASH_STREAM_MAX + CHARACTER);
	}
	s->in = call_text(c, "stdin");
	s->in_left = s->in == NULL ? 0 : strlen(s->in);
	s->start_until = clock_boot() + START_NS;
	if (ms > 0)
		s->until = clock_boot() + ms * CLOCK_MS;
	if (b->channel_fd != -1 && request(b, s) == 0)
		return;
	call_fail(c, FAIL_IO_ERROR);
	s->failed = s->gone = true;
}

static void
start_waiting(struct bash *b)
{
	struct call *c;

	while (b->n < BASH_AT_ONCE &&
	    (c = TAILQ_FIRST(&b->waiting)) != NULL) {
		TAILQ_REMOVE(&b->waiting, c, next);
		start(b, c);
	}
}

void
bash_submit(struct bash *b, struct call *c)
{
	TAILQ_INSERT_TAIL(&b->waiting, c, next);
	start_waiting(b);
}

/* --- the streams --- */

static void
feed(struct shell *s)
{
	ssize_t n;

	while (s->in_fd != -1 && s->in_left > 0) {
		n = write(s->in_fd, s->in,
		    s->in_left < PIECE ? s->in_left : PIECE);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN)
			return;
		if (n <= 0)
			break; /* nobody reads it */
		s->in += n;
		s->in_left -= (size_t)n;
	}
	close_fd(&s->in_fd);
}

static void
keep(struct stream *o, const char *p, size_t n)
{
	size_t room = o->text.max - o->text.len;

	o->seen += n;
	buf_put(&o->text, p, n < room ? n : room);
}

/* One piece; false: that was all for now. */
static bool
drain(struct stream *o)
{
	char piece[PIECE];
	ssize_t n;

	if (o->fd == -1)
		return false;
	do
		n = read(o->fd, piece, sizeof(piece));
	while (n == -1 && errno == EINTR);
	if (n == -1 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		close_fd(&o->fd);
		return false;
	}
	keep(o, piece, (size_t)n);
	return true;
}

/* --- hearing of them --- */

static struct shell *
find(struct bash *b, uint64_t id)
{
	size_t i;

	for (i = 0; i < b->n; i++) {
		if (b->shell[i].id == id)
			return &b->shell[i];
	}
	return NULL;
}

static enum failure
failure_of(int code)
{
	if (code == SPAWNER_NO_CWD)
		return FAIL_NOT_FOUND;
	return code > 0 && code < FAIL_COUNT ? (enum failure)code
					     : FAIL_IO_ERROR;
}

void
bash_heard(struct bash *b, const struct spawner_message *m, int fds[])
{
	struct shell *s = find(b, m->id);

	if (s == NULL)
		return;
	switch (m->what) {
	case SPAWNER_STARTED:
		if (s->box.init_pidfd != -1)
			break;
		s->box.control_fd = fds[0];
		s->box.init_pidfd = fds[1];
		fds[0] = fds[1] = -1;
		if (s->timed_out)
			shell_kill(s);
		feed(s);
		break;
	case SPAWNER_FAILED:
		call_fail(s->call, failure_of(m->code));
		s->failed = true;
		if (m->text[0] != '\0' && !b->told)
			log_line(b->log, LOG_LEVEL_ERROR, "Bash: %s", m->text);
		b->told = true;
		break;
	case SPAWNER_GONE:
		/* Before it was built: nothing has run. */
		if (s->box.init_pidfd == -1 && !s->failed && !s->timed_out) {
			call_fail(s->call, FAIL_IO_ERROR);
			s->failed = true;
		}
		s->gone = true;
		break;
	case SPAWNER_BASH:
	case SPAWNER_NET:
		break; /* never from there */
	}
}

/* Of those beyond its own bound, init tells how many there are in all. */
static void
take_attempt(struct bash *b, struct shell *s, const struct spawn_attempt *a)
{
	if (a->nr == -1) {
		b->attempts_rest += a->count - s->rest;
		s->rest = a->count;
	} else if (b->attempts < ATTEMPTS) {
		b->attempt[b->attempts++] = *a;
	} else {
		b->attempts_rest += a->count;
	}
}

static void
on_init(struct bash *b, struct shell *s)
{
	struct spawn_message m;

	while (s->box.control_fd != -1) {
		switch (spawn_receive(&s->box, &m)) {
		case SPAWN_ATTEMPT:
			take_attempt(b, s, &m.attempt);
			break;
		case SPAWN_STATUS:
			s->status = m;
			s->have_status = true;
			shell_kill(s);
			break;
		case SPAWN_GONE:
			close_fd(&s->box.control_fd);
			break;
		case SPAWN_PEER:
			break;
		case SPAWN_NOTHING:
			return;
		}
	}
}

bool
bash_attempt(struct bash *b, struct spawn_attempt *a)
{
	if (b->attempts_told < b->attempts) {
		*a = b->attempt[b->attempts_told++];
		return true;
	}
	b->attempts = b->attempts_told = 0;
	if (b->attempts_rest == 0)
		return false;
	*a = (struct spawn_attempt){.nr = -1, .count = b->attempts_rest};
	b->attempts_rest = 0;
	return true;
}

size_t
bash_poll(const struct bash *b, struct pollfd *fds)
{
	const struct shell *s;
	size_t i, n = 0;

	for (i = 0; i < b->n; i++) {
		s = &b->shell[i];
		fds[n++] = (struct pollfd){s->box.control_fd, POLLIN, 0};
		/* Fed when there is somebody to read it. */
		fds[n++] = (struct pollfd){
		    s->box.init_pidfd == -1 ? -1 : s->in_fd, POLLOUT, 0};
		fds[n++] = (struct pollfd){s->out[0].fd, POLLIN, 0};
		fds[n++] = (struct pollfd){s->out[1].fd, POLLIN, 0};
	}
	return n;
}

int
bash_due(const struct bash *b, bool room)
{
	int64_t first = INT64_MAX;
	const struct shell *s;
	size_t i;

	for (i = 0; i < b->n; i++) {
		s = &b->shell[i];
		if (s->gone || b->channel_fd == -1) {
			if (room)
				return 0;
			continue;
		}
		if (s->until != 0 && !s->timed_out && !s->have_status &&
		    s->until < first)
			first = s->until;
		if (s->box.init_pidfd == -1 && s->start_until < first)
			first = s->start_until;
	}
	return clock_until_ms(first);
}

static void
look_at_clock(struct bash *b, struct shell *s)
{
	int64_t now = clock_boot();

	if (s->until != 0 && now >= s->until && !s->timed_out &&
	    !s->have_status) {
		s->timed_out = true;
		shell_kill(s);
	}
	if (b->channel_fd != -1 &&
	    (s->box.init_pidfd != -1 || now < s->start_until))
		return;
	/* There is no spawner any more, or it hangs. */
	if (!s->gone && !s->failed)
		call_fail(s->call, FAIL_IO_ERROR);
	s->failed = s->gone = true;
}

void
bash_step(struct bash *b, const struct pollfd *fds, size_t n)
{
	struct shell *s;
	size_t i;

	for (i = 0; i < b->n; i++, fds += 4) {
		s = &b->shell[i];
		if (i * 4 + 4 <= n) {
			if (fds[0].revents != 0 &&
			    fds[0].fd == s->box.control_fd)
				on_init(b, s);
			if (fds[1].revents != 0)
				feed(s);
			if (fds[2].revents != 0)
				drain(&s->out[0]);
			if (fds[3].revents != 0)
				drain(&s->out[1]);
		}
		look_at_clock(b, s);
	}
}

/* --- the result --- */

static bool
is_text(const struct stream *o)
{
	return o->text.len == 0 ||
	       (memchr(o->text.data, '\0', o->text.len) == NULL &&
		   json_is_utf8(o->text.data, o->text.len));
}

static void
result_stream(struct call *c, const char *name, const struct stream *o,
    bool text, size_t most)
{
	struct buf *b = &c->run.result;
	const char *p = o->text.len == 0 ? "" : o->text.data;
	size_t n = o->text.len < most ? o->text.len : most;

	buf_printf(b, "%s\"%s\":", b->len > 1 ? "," : "", name);
	if (text) {
		json_put_string(b, p, json_utf8_cut(p, o->text.len, n));
		return;
	}
	buf_putc(b, '"');
	base64_encode(b, p, n - (n < o->text.len ? n % 3 : 0));
	buf_putc(b, '"');
}

/* Not in the middle of a character. */
static void
cap(struct stream *o)
{
	if (o->text.len > BASH_STREAM_MAX)
		o->text.len = json_utf8_cut(
		    o->text.data, o->text.len, BASH_STREAM_MAX);
}

static void
put_result(struct call *c, struct shell *s, size_t most)
{
	bool text, cut = false;
	int i;

	for (i = 0; i < STREAMS; i++) {
		cap(&s->out[i]);
		cut = cut || s->out[i].seen > s->out[i].text.len ||
		      s->out[i].text.len > most;
	}
	text = is_text(&s->out[0]) && is_text(&s->out[1]);
	result_begin(c);
	result_stream(c, "stdout", &s->out[0], text, most);
	result_stream(c, "stderr", &s->out[1], text, most);
	if (!text)
		result_text(c, "encoding", "base64");
	if (s->have_status && s->status.code == CLD_EXITED) {
		result_int(c, "exit_code", s->status.status);
		c->run.status = s->status.status;
		result_text(c, "signal", NULL);
	} else {
		result_text(c, "exit_code", NULL);
		result_int(c, "signal",
		    s->have_status ? s->status.status : SIGKILL);
	}
	result_bool(c, "timed_out", s->timed_out);
	result_bool(c, "truncated", cut);
	if (cut) {
		result_int(c, "stdout_bytes", (int64_t)s->out[0].seen);
		result_int(c, "stderr_bytes", (int64_t)s->out[1].seen);
	}
	result_end(c);
}

/* Within what the answer may take: the streams are shortened alike. */
static void
make_result(struct call *c, struct shell *s)
{
	size_t most = BASH_STREAM_MAX;

	put_result(c, s, most);
	while (c->run.outcome == OUTCOME_SUCCESS &&
	    c->run.result.len > c->rpc.budget) {
		if (most == 0) {
			call_fail(c, FAIL_TOO_LARGE);
			return;
		}
		most /= 2;
		buf_reset(&c->run.result);
		put_result(c, s, most);
		c->run.cut = true;
	}
}

struct call *
bash_finished(struct bash *b)
{
	struct shell *s;
	struct call *c;
	size_t i;

	for (i = 0; i < b->n && !b->shell[i].gone; i++)
		;
	if (i == b->n)
		return NULL;
	s = &b->shell[i];
	on_init(b, s);
	if (!s->failed) {
		/* All writers are dead: what is in the pipes is all there is. */
		while (drain(&s->out[0]))
			;
		while (drain(&s->out[1]))
			;
		make_result(s->call, s);
	}
	c = shell_clear(b, s);
	start_waiting(b);
	return c;
}

struct call *
bash_abort(struct bash *b)
{
	struct pollfd end = {-1, POLLIN, 0};
	struct shell *s;
	struct call *c;

	if (b->n > 0) {
		s = &b->shell[b->n - 1];
		shell_kill(s);
		end.fd = s->box.init_pidfd;
		poll(&end, 1, end.fd == -1 ? 0 : END_MS);
		return shell_clear(b, s);
	}
	c = TAILQ_FIRST(&b->waiting);
	if (c != NULL)
		TAILQ_REMOVE(&b->waiting, c, next);
	return c;
}

void
bash_free(struct bash *b)
{
	struct call *c;

	if (b == NULL)
		return;
	while ((c = bash_abort(b)) != NULL)
		call_free(c);
	free(b);
}
