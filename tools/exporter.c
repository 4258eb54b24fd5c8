/*
 * Spans to a collector. What the queues hold is looked at before it is encoded;
 * what the collector answers is bounded, scanned strictly and never repeated to
 * anybody. One request is on its way at a time, so a collector that is slow
 * fills the queues, and one of ours for what ended invocations left, and then
 * costs spans, but never memory, and never a call.
 */

#include "tools/exporter.h"

#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "audit/clock.h"
#include "audit/json.h"
#include "audit/ring.h"
#include "enforce/fdpass.h"
#include "enforce/fence.h"
#include "tools/program.h"
#include "tools/transfer.h"

#define DELAY_LEAST (100 * CLOCK_MS)
#define CHANNEL_FD PROGRAM_FD(EXPORTER_CHANNEL)
#define PEM_MAX ((size_t)1024 * 1024)
#define BODY_MAX ((size_t)16 * 1024 * 1024)
#define ANSWER_MAX ((size_t)64 * 1024) /* and of its headers */
#define METRICS_MAX ((size_t)4 * 1024 * 1024)
#define QUEUES_MAX 4096
#define RETRY_MS 1000 /* the first time; then twice as long each */
#define RETRY_MAX_MS 30000
#define MEMORY_MAX ((rlim_t)512 * 1024 * 1024)
#define FILES_MAX (QUEUES_MAX + 64)
#define NICENESS 10 /* calls go first */
#define IDLE_MS 60000

_Static_assert(EXPORTER_FDS <= PROGRAM_FDS, "each has its place");

struct queue {
	TAILQ_ENTRY(queue) next;
	uint64_t id;
	struct ring *ring; /* NULL: it is what ended invocations left */
};

TAILQ_HEAD(queue_list, queue);

/* A record that an ended invocation left. */
struct left {
	STAILQ_ENTRY(left) next;
	struct span span;
};

STAILQ_HEAD(left_list, left);

/* One kind of data: where it goes, and the request on its way. */
struct sender {
	char *url; /* NULL: it is not sent */
	struct curl_slist *fields;
	long timeout_ms;
	bool gzip;
	struct buf ca, certificate, key;
	const char *lost; /* what partial success calls what it did not take */
	CURL *easy;
	struct buf text, body; /* to send; body: compressed */
	unsigned items;	       /* in it; 0: there is none */
	unsigned tries;
	bool running;
	int64_t again_at, give_up_at;
	struct buf answer;
	size_t seen; /* bytes of headers */
	struct exporter_state state;
};

struct exporter {
	struct sender sender[EXPORTER_SIGNALS];
	struct buf resource;
	struct span_limits limits;
	unsigned batch, most; /* spans: of a request, and that may wait */
	int64_t delay, export_time, metric_time;
	CURLM *multi;
	/* the queues */
	struct queue_list queues;
	size_t queues_n;
	struct queue ended; /* one of them, with: */
	struct left_list left;
	unsigned left_n; /* spans */
	struct span held;   /* taken, and more than the batch before had room for */
	unsigned held_sent; /* so many of its spans; 0: there is none */
	bool due;	/* something waits */
	int64_t due_at; /* clock_boot: look then */
	struct buf metrics; /* the newest that has not been sent */
	bool told;	    /* the supervisor knows all */
	int64_t end_at;	    /* 0: not yet */
};

/* --- setting up --- */

static void
read_all(int fd, struct buf *b)
{
	ssize_t n;
	char *at;

	do {
		at = buf_reserve(b, 4096);
		if (at == NULL)
			errx(1, "too long");
		n = read(fd, at, 4096);
		if (n == -1 && errno != EINTR)
			err(1, "read");
		if (n > 0)
			buf_advance(b, (size_t)n);
	} while (n != 0);
	close(fd);
}

static unsigned
number(const cJSON *config, const char *name)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(config, name);

	if (!cJSON_IsNumber(v) || v->valuedouble < 0 || v->valuedouble > 1e9)
		errx(1, "%s", name);
	return (unsigned)v->valuedouble;
}

static const char *
text(const cJSON *config, const char *name)
{
	const char *s = cJSON_GetStringValue(
	    cJSON_GetObjectItemCaseSensitive(config, name));

	if (s == NULL)
		errx(1, "%s", name);
	return s;
}

static void
add_field(struct sender *s, const char *name, const char *value)
{
	size_t size = strlen(name) + strlen(value) + 3;
	char *line = malloc(size);
	struct curl_slist *longer;

	if (line == NULL)
		err(1, NULL);
	/* "Name:" alone keeps the library from sending one of its own. */
	snprintf(line, size, "%s:%s%s", name, *value == '\0' ? "" : " ", value);
	longer = curl_slist_append(s->fields, line);
	if (longer == NULL)
		err(1, NULL);
	s->fields = longer;
	freezero(line, size);
}

static void
read_fields(struct sender *s, const cJSON *headers)
{
	const char *name, *value;
	const cJSON *h;

	add_field(s, "Content-Type", "application/json");
	add_field(s, "Expect", "");
	if (s->gzip)
		add_field(s, "Content-Encoding", "gzip");
	cJSON_ArrayForEach (h, headers) {
		name = cJSON_GetStringValue(cJSON_GetArrayItem(h, 0));
		value = cJSON_GetStringValue(cJSON_GetArrayItem(h, 1));
		if (name == NULL || value == NULL)
			errx(1, "headers");
		add_field(s, name, value);
	}
}

static void
read_sender(struct sender *s, const cJSON *config, int first_fd)
{
	buf_init(&s->text, BODY_MAX);
	buf_init(&s->body, BODY_MAX);
	buf_init(&s->answer, ANSWER_MAX);
	buf_init(&s->ca, PEM_MAX);
	buf_init(&s->certificate, PEM_MAX);
	buf_init(&s->key, PEM_MAX);
	read_all(PROGRAM_FD(first_fd), &s->ca);
	read_all(PROGRAM_FD(first_fd + 1), &s->certificate);
	read_all(PROGRAM_FD(first_fd + 2), &s->key);
	if (config == NULL)
		return;
	s->url = strdup(text(config, "url"));
	if (s->url == NULL)
		err(1, NULL);
	s->timeout_ms = (long)number(config, "timeout_ms");
	s->gzip =
	    cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(config, "gzip"));
	read_fields(s, cJSON_GetObjectItemCaseSensitive(config, "headers"));
}

static void
read_config(struct exporter *e)
{
	struct buf b;
	cJSON *config;
	const char *resource;

	buf_init(&b, EXPORTER_CONFIG_MAX + 4096);
	read_all(PROGRAM_FD(EXPORTER_CONFIG), &b);
	config = json_parse(b.data, b.len, false);
	buf_clear(&b);
	if (!cJSON_IsObject(config))
		errx(1, "no configuration");
	resource = text(config, "resource");
	buf_init(&e->resource, strlen(resource));
	if (buf_puts(&e->resource, resource) == -1)
		err(1, NULL);
	e->delay = number(config, "delay_ms") * CLOCK_MS;
	if (e->delay < DELAY_LEAST) /* nobody sees the difference, but the CPU */
		e->delay = DELAY_LEAST;
	e->export_time = number(config, "export_ms") * CLOCK_MS;
	e->metric_time = number(config, "metric_ms") * CLOCK_MS;
	e->batch = number(config, "batch");
	e->most = number(config, "queue");
	e->limits.count = number(config, "attributes");
	e->limits.length = number(config, "length");
	read_sender(&e->sender[EXPORTER_TRACES],
	    cJSON_GetObjectItemCaseSensitive(config, "traces"), EXPORTER_CA);
	read_sender(&e->sender[EXPORTER_METRICS],
	    cJSON_GetObjectItemCaseSensitive(config, "metrics"),
	    EXPORTER_METRICS_CA);
	e->sender[EXPORTER_TRACES].lost = "rejectedSpans";
	e->sender[EXPORTER_METRICS].lost = "rejectedDataPoints";
	cJSON_Delete(config);
}

static void
limit(int what, rlim_t value)
{
	struct rlimit r = {value, value};

	if (setrlimit((__rlimit_resource_t)what, &r) == -1)
		err(1, "limits");
}

/* The port that the URL names; 0: it is no URL that can be used. */
static uint16_t
port_of(const char *url)
{
	CURLU *u = curl_url();
	char *port = NULL;
	unsigned long n = 0;

	if (u != NULL && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) ==
		CURLUE_OK)
		n = strtoul(port, NULL, 10);
	curl_free(port);
	curl_url_cleanup(u);
	return n > UINT16_MAX ? 0 : (uint16_t)n;
}

static void
settle(struct exporter *e)
{
	uint16_t ports[EXPORTER_SIGNALS];
	struct sender *s;
	size_t i, n = 0;
	bool landlock;

	if (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK)
		errx(1, "libcurl");
	e->multi = curl_multi_init();
	if (e->multi == NULL)
		errx(1, "libcurl");
	for (i = 0; i < EXPORTER_SIGNALS; i++) {
		s = &e->sender[i];
		s->easy = curl_easy_init();
		if (s->easy == NULL)
			errx(1, "libcurl");
		if (s->url == NULL)
			continue;
		ports[n] = port_of(s->url);
		if (ports[n] == 0)
			s->state.trouble = EXPORTER_BAD_URL;
		else
			n++;
	}
	setpriority(PRIO_PROCESS, 0, NICENESS);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_NOFILE, FILES_MAX);
#if !defined(__SANITIZE_ADDRESS__)
	/* Queues are shared with their brokers and do not count. */
	limit(RLIMIT_DATA, MEMORY_MAX);
#endif
	if (fence_net(ports, n, &landlock) == -1)
		err(1, "confining");
}

/* --- queues --- */

static void
add_queue(struct exporter *e, uint64_t id, int fd)
{
	struct queue *q = calloc(1, sizeof(*q));

	if (q == NULL || e->queues_n == QUEUES_MAX ||
	    (q->ring = ring_map(fd)) == NULL) {
		free(q);
		e->sender[EXPORTER_TRACES].state.trouble = EXPORTER_MEMORY;
		e->told = false;
		return;
	}
	ring_take_over(q->ring); /* we may not be the first */
	q->id = id;
	e->queues_n++;
	TAILQ_INSERT_TAIL(&e->queues, q, next);
}

static void
drop_queue(struct exporter *e, struct queue *q)
{
	TAILQ_REMOVE(&e->queues, q, next);
	e->queues_n--;
	ring_unmap(q->ring);
	free(q);
}

static struct queue *
find_queue(struct exporter *e, uint64_t id)
{
	struct queue *q;

	TAILQ_FOREACH (q, &e->queues, next) {
		if (q->ring != NULL && q->id == id)
			return q;
	}
	return NULL;
}

/*
 * What an invocation left is ours from its end on. All of them together have the
 * room of one queue: a collector that is slow costs the newest spans, never
 * memory without bound.
 */
static void
keep(struct exporter *e, struct queue *q)
{
	struct sender *s = &e->sender[EXPORTER_TRACES];
	unsigned n, most = RING_SLOTS_MAX; /* whoever still writes to it */
	struct span span;
	struct left *l;

	while (most-- > 0 && ring_take(q->ring, &span)) {
		n = span_count(&span);
		l = e->left_n + n > e->most ? NULL : malloc(sizeof(*l));
		if (l == NULL) {
			s->state.queue_full += n;
			e->told = false;
			continue;
		}
		l->span = span;
		STAILQ_INSERT_TAIL(&e->left, l, next);
		e->left_n += n;
	}
	if (e->left_n >= e->batch)
		e->due = true;
}

static bool
take_left(struct exporter *e, struct span *s)
{
	struct left *l = STAILQ_FIRST(&e->left);

	if (l == NULL)
		return false;
	*s = l->span;
	STAILQ_REMOVE_HEAD(&e->left, next);
	e->left_n -= span_count(s);
	free(l);
	return true;
}

static bool
take_from(struct exporter *e, struct queue *q, struct span *s)
{
	return q->ring == NULL ? take_left(e, s) : ring_take(q->ring, s);
}

/*
 * One more record that can be believed, and how many of its spans are sent. Each
 * queue has its turn, whatever the others have; a queue of what cannot be
 * believed is not read without end.
 */
static bool
take(struct exporter *e, struct span *s, unsigned *sent)
{
	struct queue *q, *after;
	unsigned bad = 0;

	*sent = e->held_sent;
	if (e->held_sent > 0) {
		*s = e->held;
		e->held_sent = 0;
		return true;
	}
	for (q = TAILQ_FIRST(&e->queues); q != NULL; q = after) {
		after = TAILQ_NEXT(q, next);
		if (!take_from(e, q, s))
			continue;
		TAILQ_REMOVE(&e->queues, q, next);
		TAILQ_INSERT_TAIL(&e->queues, q, next);
		if (span_valid(s))
			return true;
		e->sender[EXPORTER_TRACES].state.failed++;
		if (++bad == RING_SLOTS_MAX)
			return false;
	}
	return false;
}

/* --- a request --- */

static size_t
take_answer(char *p, size_t size, size_t n, void *arg)
{
	struct sender *s = arg;

	(void)size; /* it is 1 */
	return buf_put(&s->answer, p, n) == 0 ? n : 0;
}

static size_t
take_header(char *p, size_t size, size_t n, void *arg)
{
	struct sender *s = arg;

	(void)p;
	(void)size;
	s->seen += n;
	return s->seen > ANSWER_MAX ? 0 : n;
}

static int
compress_body(struct sender *s)
{
	z_stream z = {.zalloc = Z_NULL};
	size_t most;
	char *out;
	int result;

	buf_reset(&s->body);
	/* 16: with the header of gzip. */
	if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, 8,
		Z_DEFAULT_STRATEGY) != Z_OK)
		return -1;
	most = deflateBound(&z, s->text.len);
	out = buf_reserve(&s->body, most);
	if (out == NULL) {
		deflateEnd(&z);
		return -1;
	}
	z.next_in = (unsigned char *)s->text.data;
	z.avail_in = (unsigned)s->text.len;
	z.next_out = (unsigned char *)out;
	z.avail_out = (unsigned)most;
	result = deflate(&z, Z_FINISH);
	buf_advance(&s->body, most - z.avail_out);
	deflateEnd(&z);
	return result == Z_STREAM_END ? 0 : -1;
}

static bool
set_blob(CURL *easy, CURLoption option, const struct buf *b)
{
	struct curl_blob blob = {b->data, b->len, CURL_BLOB_COPY};

	return b->len == 0 || curl_easy_setopt(easy, option, &blob) == CURLE_OK;
}

static bool
set_request(const struct exporter *e, struct sender *s, int64_t now)
{
	const struct buf *body = s->gzip ? &s->body : &s->text;
	int64_t left = (s->give_up_at - now) / CLOCK_MS;
	CURL *easy = s->easy;
	struct curl_blob ca = {s->ca.data, s->ca.len, CURL_BLOB_NOCOPY};

	if (e->end_at != 0 && (e->end_at - now) / CLOCK_MS < left)
		left = (e->end_at - now) / CLOCK_MS;
	if (left > s->timeout_ms)
		left = s->timeout_ms;
	curl_easy_reset(easy);
	return transfer_strict(easy, &ca) &&
	       set_blob(easy, CURLOPT_SSLCERT_BLOB, &s->certificate) &&
	       set_blob(easy, CURLOPT_SSLKEY_BLOB, &s->key) &&
	       curl_easy_setopt(easy, CURLOPT_URL, s->url) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_HTTPHEADER, s->fields) ==
		   CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
		   (curl_off_t)body->len) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body->data) ==
		   CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS,
		   left < 1 ? 1L : (long)left) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_answer) ==
		   CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_WRITEDATA, s) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header) ==
		   CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_HEADERDATA, s) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_PRIVATE, s) == CURLE_OK;
}

/* It is over: so many of its spans came to this. */
static void
forget(struct exporter *e, struct sender *s, uint64_t *count)
{
	*count += s->items;
	s->items = 0;
	s->tries = 0;
	s->again_at = 0;
	buf_reset(&s->text);
	buf_reset(&s->body);
	e->told = false;
}

static void
trouble(struct exporter *e, struct sender *s, enum exporter_trouble what,
    int code)
{
	s->state.trouble = what;
	s->state.code = code;
	e->told = false;
}

static void
send_request(struct exporter *e, struct sender *s)
{
	buf_reset(&s->answer);
	s->seen = 0;
	s->again_at = 0;
	if (s->state.trouble == EXPORTER_BAD_URL) {
		forget(e, s, &s->state.failed);
	} else if (!set_request(e, s, clock_boot()) ||
		   curl_multi_add_handle(e->multi, s->easy) != CURLM_OK) {
		trouble(e, s, EXPORTER_MEMORY, 0);
		forget(e, s, &s->state.failed);
	} else {
		s->running = true;
	}
}

/* What is in text goes out. */
static void
begin_request(struct exporter *e, struct sender *s, unsigned items,
    int64_t time)
{
	s->items = items;
	s->give_up_at = clock_boot() + time;
	if (s->text.failed || (s->gzip && compress_body(s) == -1)) {
		trouble(e, s, EXPORTER_MEMORY, 0);
		forget(e, s, &s->state.failed);
	} else {
		send_request(e, s);
	}
}

/* A batch out of the queues, if they have something. */
static void
next_spans(struct exporter *e)
{
	struct sender *s = &e->sender[EXPORTER_TRACES];
	struct span span;
	unsigned n = 0, sent, more;

	while (n < e->batch && take(e, &span, &sent)) {
		if (n == 0)
			span_begin(
			    &s->text, e->resource.data, e->resource.len);
		more = span_count(&span) - sent;
		if (more > e->batch - n) {
			more = e->batch - n;
			e->held = span;
			e->held_sent = sent + more;
		}
		span_put(&s->text, &span, sent, more, &e->limits);
		n += more;
	}
	e->due = n == e->batch; /* there may be more */
	e->due_at = clock_boot() + e->delay;
	if (n == 0)
		return;
	span_end(&s->text);
	begin_request(e, s, n, e->export_time);
}

/* The newest counts: those before them are in it. */
static void
next_metrics(struct exporter *e)
{
	struct sender *s = &e->sender[EXPORTER_METRICS];

	if (e->metrics.len == 0)
		return;
	buf_put(&s->text, e->metrics.data, e->metrics.len);
	buf_reset(&e->metrics);
	begin_request(e, s, 1, e->metric_time);
}

/* --- its answer --- */

static bool
is_partial(const struct sender *s, struct json_span *partial)
{
	return s->answer.len > 0 &&
	       json_scan(s->answer.data, s->answer.len, false, NULL, NULL) &&
	       json_member(s->answer.data, s->answer.len, "partialSuccess",
		   partial);
}

/* How many of them the collector did not take: a number, or one as text. */
static uint64_t
rejected(const struct sender *s, const struct json_span *partial)
{
	char digits[24];
	uint64_t n = 0;

	if (!json_uint_of(partial->p, partial->len, s->lost, &n) &&
	    json_text_of(partial->p, partial->len, s->lost, digits,
		sizeof(digits)) &&
	    strspn(digits, "0123456789") == strlen(digits))
		n = strtoull(digits, NULL, 10);
	return n > s->items ? s->items : n;
}

/* It took them all, and has something to say. */
static bool
warns(const struct json_span *partial)
{
	struct json_span message;

	return json_member(partial->p, partial->len, "errorMessage",
		   &message) &&
	       message.p[0] == '"' && message.len > sizeof("\"\"") - 1;
}

static void
accepted(struct exporter *e, struct sender *s)
{
	struct json_span partial;
	uint64_t n = 0;

	if (is_partial(s, &partial)) {
		n = rejected(s, &partial);
		if (n > 0)
			trouble(e, s, EXPORTER_PARTIAL, 0);
		else if (warns(&partial))
			trouble(e, s, EXPORTER_WARNING, 0);
	}
	s->state.rejected += n;
	s->items -= (unsigned)n;
	forget(e, s, &s->state.sent);
}

/* What another try may help. A request that was heard and never answered is
 * none of it: the collector may have taken it. */
static bool
may_try_again(CURLcode result, long status)
{
	switch ((int)result) {
	case CURLE_OK:
		return status == 429 || status == 502 || status == 503 ||
		       status == 504;
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
		return true;
	default:
		return false;
	}
}

/* From half of the time to once and a half of it. */
static int64_t
jitter(int64_t ms)
{
	return ms * CLOCK_MS / 1000 * (500 + (int64_t)arc4random_uniform(1001));
}

static void
try_later(struct exporter *e, struct sender *s)
{
	int64_t now = clock_boot(), wait;
	curl_off_t asked = 0;

	wait = RETRY_MAX_MS;
	if (s->tries < 5)
		wait = (int64_t)RETRY_MS << s->tries;
	wait = jitter(wait);
	curl_easy_getinfo(s->easy, CURLINFO_RETRY_AFTER, &asked);
	if (asked > 0)
		wait = (asked > 86400 ? 86400 : asked) * CLOCK_SECOND;
	s->tries++;
	s->again_at = now + wait;
	if (e->end_at != 0 && s->again_at >= e->end_at)
		forget(e, s, &s->state.shutdown);
	else if (s->again_at >= s->give_up_at)
		forget(e, s, &s->state.failed);
}

static void
answered(struct exporter *e, struct sender *s, CURLcode result)
{
	long status = 0;

	curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_multi_remove_handle(e->multi, s->easy);
	s->running = false;
	/* An answer that is too long is one; nobody reads the rest of it. */
	if (result == CURLE_WRITE_ERROR && status != 0)
		result = CURLE_OK;
	if (result == CURLE_OK && status >= 200 && status < 300) {
		accepted(e, s);
		return;
	}
	trouble(e, s, result == CURLE_OK ? EXPORTER_STATUS : EXPORTER_LIBRARY,
	    result == CURLE_OK ? (int)status : (int)result);
	if (may_try_again(result, status))
		try_later(e, s);
	else if (result == CURLE_OPERATION_TIMEDOUT && e->end_at != 0)
		forget(e, s, &s->state.shutdown);
	else
		forget(e, s, &s->state.failed);
}

static void
finish_requests(struct exporter *e)
{
	struct sender *s;
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(e->multi, &left)) != NULL) {
		s = NULL;
		curl_easy_getinfo(
		    m->easy_handle, CURLINFO_PRIVATE, (char **)&s);
		if (m->msg == CURLMSG_DONE && s != NULL)
			answered(e, s, m->data.result);
	}
}

/* --- the supervisor --- */

static void
report(struct exporter *e, int flags)
{
	struct exporter_message m;
	size_t i;

	if (e->told)
		return;
	memset(&m, 0, sizeof(m));
	m.kind = EXPORTER_REPORT;
	for (i = 0; i < EXPORTER_SIGNALS; i++)
		m.state[i] = e->sender[i].state;
	if (fdpass_send(CHANNEL_FD, &m, sizeof(m), NULL, 0, flags) ==
	    (ssize_t)sizeof(m))
		e->told = true;
}

static void
drop_request(struct exporter *e, struct sender *s)
{
	if (s->running)
		curl_multi_remove_handle(e->multi, s->easy);
	s->running = false;
	if (s->items > 0)
		forget(e, s, &s->state.shutdown);
}

/* What is left when there is no time any more. */
static void
give_up_spans(struct exporter *e)
{
	struct sender *s = &e->sender[EXPORTER_TRACES];
	struct span span;
	unsigned sent;

	drop_request(e, s);
	while (take(e, &span, &sent))
		s->state.shutdown += span_count(&span) - sent;
	e->told = false;
}

static void
give_up_metrics(struct exporter *e)
{
	struct sender *s = &e->sender[EXPORTER_METRICS];

	drop_request(e, s);
	if (e->metrics.len > 0)
		s->state.shutdown++;
	buf_reset(&e->metrics);
	e->told = false;
}

/* A collector that wants to be left alone until after the end. */
static bool
is_too_late(const struct exporter *e, const struct sender *s)
{
	return s->items > 0 && s->again_at >= e->end_at;
}

static void
on_end(struct exporter *e, uint32_t ms)
{
	e->end_at = clock_boot() + ms * CLOCK_MS;
	e->due = true;
	if (is_too_late(e, &e->sender[EXPORTER_TRACES]))
		give_up_spans(e);
	if (is_too_late(e, &e->sender[EXPORTER_METRICS]))
		give_up_metrics(e);
}

/* Its spans, and in the supervisor's queue the one of the invocation. */
static void
on_done(struct exporter *e, uint64_t id)
{
	struct queue *q = find_queue(e, id), *own = find_queue(e, EXPORTER_OWN);

	if (q != NULL) {
		keep(e, q);
		drop_queue(e, q);
	}
	if (own != NULL)
		keep(e, own);
}

/* A file with the counts of now, which replace those that still wait. */
static void
on_metrics(struct exporter *e, int fd)
{
	char *at;
	ssize_t n = 0;
	off_t from = 0;

	buf_reset(&e->metrics);
	do {
		from += n;
		at = buf_reserve(&e->metrics, 65536);
		n = at == NULL ? 0 : pread(fd, at, 65536, from);
		if (n > 0)
			buf_advance(&e->metrics, (size_t)n);
	} while (n > 0);
	if (e->metrics.failed)
		buf_reset(&e->metrics);
}

static void
hear(struct exporter *e, const struct exporter_message *m, int fd)
{
	if (m->kind == EXPORTER_QUEUE && fd != -1)
		add_queue(e, m->id, fd);
	else if (m->kind == EXPORTER_COUNTS && fd != -1)
		on_metrics(e, fd);
	else if (m->kind == EXPORTER_DONE)
		on_done(e, m->id);
	else if (m->kind == EXPORTER_END)
		on_end(e, m->ms);
}

static void
listen_to_supervisor(struct exporter *e)
{
	struct exporter_message m;
	ssize_t n;
	int fd;

	for (;;) {
		n = fdpass_receive(
		    CHANNEL_FD, &m, sizeof(m), &fd, 1, MSG_DONTWAIT);
		if (n == 0 || (n == -1 && errno != EAGAIN))
			_exit(0);
		if (n == -1)
			return;
		if (n == (ssize_t)sizeof(m))
			hear(e, &m, fd);
		if (fd != -1)
			close(fd);
	}
}

/* --- the loop --- */

static int
sooner(int a, int b)
{
	return a == -1 || (b != -1 && b < a) ? b : a;
}

static int
timeout(const struct exporter *e)
{
	const struct sender *s;
	int ms = IDLE_MS;
	size_t i;

	for (i = 0; i < EXPORTER_SIGNALS; i++) {
		s = &e->sender[i];
		if (s->items > 0 && !s->running)
			ms = sooner(ms, clock_until_ms(s->again_at));
	}
	if (e->sender[EXPORTER_TRACES].items == 0)
		ms = e->due ? 0 : sooner(ms, clock_until_ms(e->due_at));
	if (e->sender[EXPORTER_METRICS].items == 0 && e->metrics.len > 0)
		ms = 0;
	if (e->end_at != 0)
		ms = sooner(ms, clock_until_ms(e->end_at));
	return ms;
}

static void
step(struct exporter *e)
{
	int64_t now = clock_boot();
	struct sender *s;
	size_t i;

	for (i = 0; i < EXPORTER_SIGNALS; i++) {
		s = &e->sender[i];
		if (s->items > 0 && !s->running && now >= s->again_at)
			send_request(e, s);
	}
	if (e->sender[EXPORTER_TRACES].items == 0 &&
	    (e->due || now >= e->due_at))
		next_spans(e);
	if (e->sender[EXPORTER_METRICS].items == 0)
		next_metrics(e);
}

static bool
is_over(const struct exporter *e)
{
	if (e->end_at == 0)
		return false;
	return clock_boot() >= e->end_at ||
	       (!e->due && e->sender[EXPORTER_TRACES].items == 0 &&
		   e->metrics.len == 0 &&
		   e->sender[EXPORTER_METRICS].items == 0);
}

static void
serve(struct exporter *e)
{
	struct curl_waitfd fds[2] = {{.fd = CHANNEL_FD},
	    {.fd = PROGRAM_FD(EXPORTER_WAKE)}};
	char drain[4096];
	int running;

	for (;;) {
		step(e);
		if (curl_multi_perform(e->multi, &running) != CURLM_OK)
			errx(1, "libcurl");
		finish_requests(e);
		report(e, MSG_DONTWAIT);
		if (is_over(e))
			break;
		fds[0].events = fds[1].events = CURL_WAIT_POLLIN;
		fds[0].revents = fds[1].revents = 0;
		if (curl_multi_poll(e->multi, fds, 2, timeout(e), NULL) !=
		    CURLM_OK)
			errx(1, "libcurl");
		if (fds[0].revents != 0)
			listen_to_supervisor(e);
		if (fds[1].revents != 0 &&
		    recv(PROGRAM_FD(EXPORTER_WAKE), drain, sizeof(drain),
			MSG_DONTWAIT) > 0)
			e->due = true;
	}
	give_up_spans(e);
	give_up_metrics(e);
	report(e, 0);
}

void
exporter_run(void)
{
	struct exporter e;

	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1)
		err(1, "dumpable");
	prctl(PR_SET_NAME, "cyberos-export");
	memset(&e, 0, sizeof(e));
	TAILQ_INIT(&e.queues);
	TAILQ_INSERT_TAIL(&e.queues, &e.ended, next);
	STAILQ_INIT(&e.left);
	buf_init(&e.metrics, METRICS_MAX);
	read_config(&e);
	settle(&e);
	e.due_at = clock_boot() + e.delay;
	serve(&e);
	_exit(0);
}
