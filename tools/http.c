/*
 * The broker's end of HTTP. The net worker reads what strangers send, so what
 * it says is looked at like what a stranger says: every length is compared,
 * every text scanned, a host that it names is judged here again before the
 * first byte leaves, and nonsense costs it its life. It can lie about what a
 * server said; it cannot make the broker do anything.
 */

#include "tools/http.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "audit/clock.h"
#include "audit/json.h"
#include "audit/trace.h"
#include "enforce/libexec.h"
#include "enforce/spawn.h"
#include "enforce/spawner.h"
#include "tools/program.h"

#define GRACE_MS 5000 /* beyond a call's own time; then it hangs */
#define CHUNK ((size_t)256 * 1024)
#define CONFIG_MAX ((size_t)64 * 1024 * 1024)
#define OUT_MAX (CONFIG_MAX + (size_t)32 * 1024 * 1024)
#define RESULT_MAX                                                             \
	(sizeof(struct http_result) + HTTP_URL + HTTP_HEADERS + HTTP_BODY)

enum stage {
	STAGE_ASKED,  /* the verdict is to come */
	STAGE_JUDGED, /* the broker is to say go */
	STAGE_GOES
};

struct pending {
	TAILQ_ENTRY(pending) next;
	struct call *call;
	uint64_t id;
	int64_t until; /* clock_boot; later it hangs */
	enum stage stage;
	bool lost; /* the worker that had it is gone */
};

TAILQ_HEAD(pending_list, pending);

struct http {
	struct invocation *inv;
	const struct log *log;
	struct pending_list list;
	struct buf out;
	struct buf in;
	uint64_t next_id;
	int channel_fd;	   /* to the spawner */
	uint64_t child_id; /* of the present worker */
	int fd;		   /* to it; -1: there is none */
	int pidfd;	   /* -1: not yet */
	bool told;	   /* that there is none */
};

/* --- the shape of the arguments --- */

static bool
bad(struct call *c, const char *name, const char *why)
{
	snprintf(c->check.bad, sizeof(c->check.bad), "%s: %s", name, why);
	return false;
}

/* Names of fields are compared without regard to case. */
static const cJSON *
find_field(const cJSON *headers, const char *name)
{
	const cJSON *f;

	cJSON_ArrayForEach (f, headers) {
		if (strcasecmp(f->string, name) == 0)
			return f;
	}
	return NULL;
}

bool
http_fetch_shape(struct call *c)
{
	const cJSON *headers, *f;
	const char *why = NULL;

	if (!host_url_text(call_text(c, "url"), &why))
		return bad(c, "url", why);
	headers = cJSON_GetObjectItemCaseSensitive(c->rpc.args, "headers");
	cJSON_ArrayForEach (f, headers) {
		if (!host_header(f->string, f->valuestring, &why))
			return bad(c, "headers", why);
	}
	return true;
}

bool
http_post_shape(struct call *c)
{
	const char *type = call_text(c, "content_type");
	const char *encoding = call_text(c, "encoding");
	const char *body = call_text(c, "body"), *why = NULL;
	size_t len;
	char *bytes;

	if (!http_fetch_shape(c))
		return false;
	if (type != NULL && !host_header_value(type, &why))
		return bad(c, "content_type", why);
	if (type != NULL &&
	    find_field(cJSON_GetObjectItemCaseSensitive(c->rpc.args, "headers"),
		"content-type") != NULL)
		return bad(c, "content_type", "is in headers as well");
	if (encoding == NULL || strcmp(encoding, "base64") != 0 || body == NULL)
		return true;
	if (base64_decode(body, strlen(body), &bytes, &len) == -1)
		return bad(c, "body", "is no base64");
	freezero(bytes, len);
	return true;
}

enum place
http_place(const struct call *c)
{
	(void)c;
	return PLACE_NET;
}

/* --- starting it --- */

struct http *
http_new(struct invocation *inv, const struct log *log)
{
	struct http *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	h->inv = inv;
	h->log = log;
	h->fd = h->pidfd = h->channel_fd = -1;
	TAILQ_INIT(&h->list);
	buf_init(&h->out, OUT_MAX);
	buf_init(&h->in, sizeof(struct http_head) + RESULT_MAX + CHUNK);
	return h;
}

static void
add_list(cJSON *lists, const struct glob_set *set)
{
	cJSON *list = cJSON_CreateArray();
	size_t i;

	for (i = 0; i < glob_set_count(set); i++)
		cJSON_AddItemToArray(
		    list, cJSON_CreateString(glob_set_pattern(set, i)));
	cJSON_AddItemToArray(lists, list);
}

/* The domains of the skill, those of each ceiling, the operator's networks. */
static char *
make_config(const struct http *h)
{
	const struct policy *p = h->inv->policy;
	cJSON *config = cJSON_CreateObject(), *lists, *networks;
	char *text = NULL;
	size_t i;

	lists = cJSON_AddArrayToObject(config, "domains");
	networks = cJSON_AddArrayToObject(config, "networks");
	if (lists == NULL || networks == NULL)
		goto out;
	add_list(lists, grant_manifest(h->inv->grant)->domains);
	for (i = 0; i < POLICY_CEILINGS; i++) {
		if (p->ceilings[i].domains != NULL)
			add_list(lists, p->ceilings[i].domains);
	}
	for (i = 0; i < p->http_allow_addresses_n; i++)
		cJSON_AddItemToArray(
		    networks, cJSON_CreateString(p->http_allow_addresses[i]));
	cJSON_AddBoolToObject(config, "ca_file", p->ca_file != NULL);
	text = cJSON_PrintUnformatted(config);
out:
	cJSON_Delete(config);
	return text;
}

static int
put_message(
    struct http *h, enum http_kind kind, uint64_t id, const void *p, size_t n)
{
	struct http_head head = {.kind = kind, .len = (uint32_t)n, .id = id};

	buf_put(&h->out, &head, sizeof(head));
	buf_put(&h->out, p, n);
	return h->out.failed ? -1 : 0;
}

static int
put_config(struct http *h)
{
	char *text = make_config(h);
	int result = -1;

	errno = ENOMEM;
	if (text != NULL && strlen(text) <= CONFIG_MAX)
		result = put_message(h, HTTP_CONFIG, 0, text, strlen(text));
	free(text);
	return result;
}

/* What a worker is made of: its program and, maybe, the authorities. */
static int
open_parts(const struct http *h, int *program_fd, int *ca_fd, char *why,
    size_t whylen)
{
	const char *ca_file = h->inv->policy->ca_file;
	const char *what = PROGRAM_NET;

	*ca_fd = -1;
	*program_fd = libexec_open(PROGRAM_NET);
	if (*program_fd != -1 && ca_file != NULL) {
		what = ca_file;
		*ca_fd = open(ca_file, O_RDONLY | O_CLOEXEC);
	}
	if (*program_fd != -1 && (ca_file == NULL || *ca_fd != -1))
		return 0;
	snprintf(why, whylen, "%s: %s", what, strerror(errno));
	if (*program_fd != -1)
		close(*program_fd);
	return -1;
}

int
http_check(const struct http *h, char *why, size_t whylen)
{
	int program_fd, ca_fd;

	if (open_parts(h, &program_fd, &ca_fd, why, whylen) == -1)
		return -1;
	close(program_fd);
	if (ca_fd != -1)
		close(ca_fd);
	return 0;
}

int
http_spawn(const struct http *h, int channel_fd, char *why, size_t whylen)
{
	const struct policy *p = h->inv->policy;
	int program_fd, ca_fd, pidfd = -1;
	pid_t parent = getpid(), pid;
	uid_t uid = geteuid();
	int fds[2];

	if (open_parts(h, &program_fd, &ca_fd, why, whylen) == -1)
		return -1;
	fds[0] = channel_fd;
	fds[1] = ca_fd; /* the authorities */
	/* Held by us, who live as long as it does. */
	if (uid == 0 &&
	    spawn_lock_uid(p->uid_first, p->uid_last, &uid) == -1) {
		snprintf(why, whylen, "no free uid in uid_range for %s",
		    PROGRAM_NET);
		return -1;
	}
	pid = fork();
	if (pid == 0)
		program_become(program_fd, NULL, fds, 2, uid, parent);
	if (pid != -1)
		pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd == -1)
		snprintf(why, whylen, "%s: %s", PROGRAM_NET, strerror(errno));
	close(program_fd);
	if (ca_fd != -1)
		close(ca_fd);
	return pidfd;
}

/* Ask the spawner for one. Until it is there, what we send waits for it. */
static void
ask_for_worker(struct http *h)
{
	struct spawner_message m;
	int fds[2];

	if (h->channel_fd == -1 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == -1)
		return;
	memset(&m, 0, sizeof(m));
	m.what = SPAWNER_NET;
	m.id = HTTP_CHILD | ++h->next_id;
	h->child_id = m.id;
	if (fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0 &&
	    spawner_send(h->channel_fd, &m, &fds[1], 1, false) == 0 &&
	    put_config(h) == 0)
		h->fd = fds[0];
	else
		close(fds[0]);
	close(fds[1]);
}

void
http_use(struct http *h, int channel_fd)
{
	h->channel_fd = channel_fd;
	if (channel_fd != -1)
		ask_for_worker(h);
}

void
http_heard(struct http *h, const struct spawner_message *m, int fds[])
{
	if (m->id != h->child_id)
		return;
	if (m->what == SPAWNER_STARTED && h->pidfd == -1 && h->fd != -1) {
		h->pidfd = fds[0];
		fds[0] = -1;
	} else if (m->what == SPAWNER_FAILED) {
		log_line(h->log, LOG_LEVEL_ERROR, "%s", m->text);
	}
}

/* --- the end of it --- */

static void
end_child(struct http *h)
{
	struct pending *p;

	if (h->fd != -1)
		close(h->fd);
	h->fd = -1;
	buf_clear(&h->out);
	buf_clear(&h->in);
	TAILQ_FOREACH (p, &h->list, next)
		p->lost = true;
	/* One that has not come to life yet finds its channel closed. */
	if (h->pidfd != -1) {
		syscall(SYS_pidfd_send_signal, h->pidfd, SIGKILL, NULL, 0);
		close(h->pidfd);
	}
	h->pidfd = -1;
}

static struct call *
take(struct http *h, struct pending *p)
{
	struct call *c = p->call;

	TAILQ_REMOVE(&h->list, p, next);
	free(p);
	return c;
}

struct call *
http_abort(struct http *h)
{
	struct pending *p = TAILQ_FIRST(&h->list);

	end_child(h);
	return p == NULL ? NULL : take(h, p);
}

void
http_free(struct http *h)
{
	struct call *c;

	if (h == NULL)
		return;
	while ((c = http_abort(h)) != NULL)
		call_free(c);
	free(h);
}

/* --- asking --- */

static int
trace_field(const struct http *h, struct call *c, cJSON *request)
{
	char text[64];

	if (c->rpc.traceparent != NULL) {
		cJSON_AddStringToObject(
		    request, "traceparent", c->rpc.traceparent);
		if (c->rpc.tracestate != NULL && c->rpc.tracestate[0] != '\0')
			cJSON_AddStringToObject(
			    request, "tracestate", c->rpc.tracestate);
		return 0;
	}
	/* Its own span, which is exported under the same id. */
	if (trace_new_span(c->record.span_id) == -1)
		return -1;
	snprintf(text, sizeof(text), "00-%s-%s-%02x", h->inv->trace.trace_id,
	    c->record.span_id, h->inv->trace.flags & 1U);
	cJSON_AddStringToObject(request, "traceparent", text);
	return 0;
}

/* A body without a type of its own says what it is. */
static const char *
default_type(const struct call *c)
{
	const char *encoding = call_text(c, "encoding");

	if (call_text(c, "body") == NULL)
		return NULL;
	return encoding != NULL && strcmp(encoding, "base64") == 0
		   ? "application/octet-stream"
		   : "text/plain; charset=utf-8";
}

static bool
is_post(const struct call *c)
{
	return strcmp(c->check.tool->name, "HttpPost") == 0;
}

const char *
http_method(const struct call *c)
{
	const char *method = is_post(c) ? "POST" : call_text(c, "method");

	return method == NULL ? "GET" : method;
}

/* The skill's own fields: a type that it gives is one of them. */
static void
add_fields(cJSON *request, const struct call *c)
{
	const cJSON *headers =
	    cJSON_GetObjectItemCaseSensitive(c->rpc.args, "headers");
	const char *type = is_post(c) ? call_text(c, "content_type") : NULL;
	cJSON *own = headers == NULL ? cJSON_CreateObject()
				     : cJSON_Duplicate(headers, true);

	if (type != NULL)
		cJSON_AddStringToObject(own, "Content-Type", type);
	cJSON_AddItemToObject(request, "headers", own);
}

static char *
request_text(const struct http *h, struct call *c)
{
	const char *type = is_post(c) ? default_type(c) : NULL;
	cJSON *request = cJSON_CreateObject();
	char *text = NULL;

	cJSON_AddStringToObject(request, "url", call_text(c, "url"));
	cJSON_AddStringToObject(request, "method", http_method(c));
	cJSON_AddNumberToObject(
	    request, "timeout_ms", (double)call_int(c, "timeout_ms", HTTP_MS));
	if (type != NULL) /* where its own fields do not go */
		cJSON_AddStringToObject(request, "content_type", type);
	add_fields(request, c);
	if (trace_field(h, c, request) == 0)
		text = cJSON_PrintUnformatted(request);
	cJSON_Delete(request);
	return text;
}

/* The bytes to send; they were looked at by the shape check. */
static int
request_body(const struct call *c, char **body, size_t *len)
{
	const char *text = call_text(c, "body");
	const char *encoding = call_text(c, "encoding");

	*body = NULL;
	*len = 0;
	if (text == NULL)
		return 0;
	if (encoding != NULL && strcmp(encoding, "base64") == 0)
		return base64_decode(text, strlen(text), body, len);
	*body = strdup(text);
	*len = strlen(text);
	return *body == NULL ? -1 : 0;
}

static int
put_call(struct http *h, const struct pending *p)
{
	struct http_call sizes;
	struct http_head head = {.kind = HTTP_CALL, .id = p->id};
	char *text = request_text(h, p->call), *body = NULL;
	size_t len = 0;
	int result = -1;

	if (text == NULL || request_body(p->call, &body, &len) == -1)
		goto out;
	sizes.json_len = (uint32_t)strlen(text);
	sizes.body_len = (uint32_t)len;
	head.len = (uint32_t)sizeof(sizes) + sizes.json_len + sizes.body_len;
	buf_put(&h->out, &head, sizeof(head));
	buf_put(&h->out, &sizes, sizeof(sizes));
	buf_put(&h->out, text, sizes.json_len);
	buf_put(&h->out, body, len);
	result = h->out.failed ? -1 : 0;
out:
	if (text != NULL)
		freezero(text, strlen(text));
	freezero(body, len);
	return result;
}

static int64_t
due(const struct call *c)
{
	int64_t ms = call_int(c, "timeout_ms", HTTP_MS);

	return clock_boot() +
	       ((ms < HTTP_MS ? ms : HTTP_MS) + GRACE_MS) * CLOCK_MS;
}

int
http_submit(struct http *h, struct call *c)
{
	struct pending *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return -1;
	p->call = c;
	p->id = ++h->next_id;
	p->until = due(c);
	TAILQ_INSERT_TAIL(&h->list, p, next);
	if (h->fd == -1)
		ask_for_worker(h);
	if (h->fd == -1 || put_call(h, p) == -1)
		end_child(h);
	return 0;
}

int
http_fd(const struct http *h)
{
	return h->fd;
}

short
http_events(const struct http *h)
{
	return h->out.len > 0 ? POLLIN | POLLOUT : POLLIN;
}

int
http_due(const struct http *h)
{
	int64_t first = INT64_MAX;
	const struct pending *p;

	TAILQ_FOREACH (p, &h->list, next) {
		if (p->lost)
			return 0;
		if (p->until < first)
			first = p->until;
	}
	return clock_until_ms(first);
}

void
http_go(struct http *h, struct call *c)
{
	struct pending *p;

	TAILQ_FOREACH (p, &h->list, next) {
		if (p->call == c)
			break;
	}
	if (p == NULL || p->lost)
		return;
	p->stage = STAGE_GOES;
	p->until = due(c);
	if (put_message(h, HTTP_GO, p->id, NULL, 0) == -1)
		end_child(h);
}

/* --- hearing --- */

static struct pending *
find(struct http *h, uint64_t id, enum stage stage)
{
	struct pending *p;

	TAILQ_FOREACH (p, &h->list, next) {
		if (p->id == id)
			return p->stage == stage && !p->lost ? p : NULL;
	}
	return NULL;
}

/* Bytes that may stand in a row and an answer: visible ASCII. */
static bool
is_visible(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if ((unsigned char)p[i] <= ' ' || (unsigned char)p[i] >= 0x7f)
			return false;
	}
	return true;
}

static bool
is_host(const char host[HOST_SIZE])
{
	size_t n = strnlen(host, HOST_SIZE);

	return n < HOST_SIZE && is_visible(host, n);
}

/* Name what was decided on. */
static bool
name_resource(struct call *c, const char *host, uint16_t port)
{
	struct host_target at = {.port = port};
	char text[HOST_RESOURCE];

	free(c->check.on.name);
	c->check.on.name = NULL;
	if (host[0] == '\0')
		return true;
	strlcpy(at.host, host, sizeof(at.host));
	host_resource(&at, text);
	c->check.on.name = strdup(text);
	return c->check.on.name != NULL;
}

/* The port that the URL's scheme means by itself. */
static unsigned
own_port(const char *url)
{
	return strncmp(url, "https:", 6) == 0 ? 443 : 80;
}

/* False: nonsense. */
static bool
take_verdict(struct http *h, struct pending *p, const char *at)
{
	struct http_verdict v;
	struct call *c = p->call;

	memcpy(&v, at, sizeof(v));
	if (v.ruling > HTTP_REFUSED || v.reason >= REASON_COUNT ||
	    v.port > UINT16_MAX || !is_host(v.host) ||
	    !name_resource(c, v.host, (uint16_t)v.port))
		return false;
	p->stage = STAGE_JUDGED;
	switch ((enum http_ruling)v.ruling) {
	case HTTP_MALFORMED:
		bad(c, "url", "is not a URL");
		return true;
	case HTTP_REFUSED:
		c->check.verdict.reason = (enum reason)v.reason;
		return v.reason != REASON_NONE;
	case HTTP_MAY:
		break;
	}
	/* The last word on what the skill was granted is ours. */
	c->check.verdict.reason = grant_host(h->inv->grant, v.host,
	    (uint16_t)v.port, v.port == own_port(call_text(c, "url")));
	return true;
}

struct field {
	const char *name, *value;
	size_t name_len, value_len, at;
};

static int
by_name(const void *a, const void *b)
{
	const struct field *f = a, *g = b;
	size_t n = f->name_len < g->name_len ? f->name_len : g->name_len;
	int order = memcmp(f->name, g->name, n);

	if (order == 0)
		order =
		    (f->name_len > g->name_len) - (f->name_len < g->name_len);
	return order != 0 ? order : (f->at > g->at) - (f->at < g->at);
}

static bool
read_field(const char *p, size_t n, struct field *f)
{
	const char *colon = memchr(p, ':', n);
	size_t i;

	if (colon == NULL || colon == p)
		return false;
	f->name = p;
	f->name_len = (size_t)(colon - p);
	f->value = colon + 1;
	f->value_len = n - f->name_len - 1;
	for (i = 0; i < f->value_len; i++) {
		if (((unsigned char)f->value[i] < ' ' && f->value[i] != '\t') ||
		    f->value[i] == 0x7f)
			return false;
	}
	return is_visible(f->name, f->name_len);
}

/* The lines into a fresh array; -1 when they are nonsense or memory is short.
 */
static int
read_fields(const char *p, size_t n, struct field **out, size_t *count)
{
	const char *end;
	struct field *f;
	size_t i, lines = 0;

	for (i = 0; i < n; i++)
		lines += p[i] == '\n';
	f = calloc(lines + 1, sizeof(*f));
	if (f == NULL)
		return -1;
	for (i = 0; i < lines; i++) {
		end = memchr(p, '\n', n);
		if (!read_field(p, (size_t)(end - p), &f[i])) {
			free(f);
			return -1;
		}
		f[i].at = i;
		n -= (size_t)(end - p) + 1;
		p = end + 1;
	}
	if (n != 0) {
		free(f);
		return -1;
	}
	qsort(f, lines, sizeof(*f), by_name);
	*out = f;
	*count = lines;
	return 0;
}

/* One text for a name that came several times, as RFC 9110 joins them. */
static void
put_fields(struct buf *out, const struct field *f, size_t n)
{
	struct buf value;
	size_t i, j;
	const char *between;

	buf_init(&value, 2 * HTTP_HEADERS);
	buf_puts(out, ",\"headers\":{");
	for (i = 0; i < n; i = j) {
		between = f[i].name_len == 10 &&
				  memcmp(f[i].name, "set-cookie", 10) == 0
			      ? "\n"
			      : ", ";
		buf_reset(&value);
		for (j = i; j < n && f[j].name_len == f[i].name_len &&
			    memcmp(f[j].name, f[i].name, f[i].name_len) == 0;
		     j++) {
			buf_puts(&value, j == i ? "" : between);
			buf_put(&value, f[j].value, f[j].value_len);
		}
		buf_puts(out, i == 0 ? "" : ",");
		json_put_string(out, f[i].name, f[i].name_len);
		buf_putc(out, ':');
		json_put_string(
		    out, value.len == 0 ? "" : value.data, value.len);
	}
	buf_putc(out, '}');
	buf_clear(&value);
}

/* The result as the skill gets it. False: what came is nonsense. */
static bool
make_result(struct call *c, const struct http_result *r, const char *p)
{
	const char *headers = p + r->url_len, *body = headers + r->headers_len;
	size_t taken, n = 0, reserve = r->url_len * 2 + 128;
	struct field *f = NULL;
	char *url;

	if (r->status < 100 || r->status > 999 || !is_visible(p, r->url_len) ||
	    read_fields(headers, r->headers_len, &f, &n) == -1)
		return false;
	url = strndup(p, r->url_len);
	result_begin(c);
	result_int(c, "status", (int64_t)r->status);
	c->run.status = (int)r->status;
	put_fields(&c->run.result, f, n);
	taken =
	    result_body(c, r->body_len == 0 ? "" : body, r->body_len, reserve);
	result_text(c, "url", url == NULL ? "" : url);
	result_bool(c, "truncated", r->truncated != 0 || taken < r->body_len);
	result_end(c);
	free(f);
	free(url);
	if (c->run.outcome == OUTCOME_SUCCESS &&
	    c->run.result.len > c->rpc.budget)
		call_fail(c, FAIL_TOO_LARGE);
	return true;
}

static bool
take_result(struct call *c, const char *p, size_t n)
{
	struct http_result r;

	memcpy(&r, p, sizeof(r));
	if (r.outcome > HTTP_DENIED || r.failure >= FAIL_COUNT ||
	    r.reason >= REASON_COUNT || r.port > UINT16_MAX ||
	    !is_host(r.host) || r.url_len > HTTP_URL ||
	    r.headers_len > HTTP_HEADERS || r.body_len > HTTP_BODY ||
	    (uint64_t)r.url_len + r.headers_len + r.body_len != n - sizeof(r))
		return false;
	switch ((enum http_outcome)r.outcome) {
	case HTTP_DONE:
		return make_result(c, &r, p + sizeof(r));
	case HTTP_FAILED:
		if (r.failure == FAIL_NONE)
			return false;
		call_fail(c, (enum failure)r.failure);
		c->run.code = r.code;
		return true;
	case HTTP_DENIED:
		if (r.reason == REASON_NONE ||
		    !name_resource(c, r.host, (uint16_t)r.port))
			return false;
		c->check.verdict.reason = (enum reason)r.reason;
		c->run.outcome = OUTCOME_DENIED;
		return true;
	}
	return false;
}

/* How far one message got us. */
enum heard { HEARD_NOTHING, HEARD_ONE, HEARD_NONSENSE };

static enum heard
hear(struct http *h, struct call **call, enum http_event *event)
{
	struct http_head head;
	struct pending *p;
	const char *at;
	bool good = false;

	if (h->in.len < sizeof(head))
		return HEARD_NOTHING;
	memcpy(&head, h->in.data, sizeof(head));
	if (head.kind == HTTP_VERDICT
		? head.len != sizeof(struct http_verdict)
		: head.kind != HTTP_RESULT ||
		      head.len < sizeof(struct http_result) ||
		      head.len > RESULT_MAX)
		return HEARD_NONSENSE;
	p = find(
	    h, head.id, head.kind == HTTP_VERDICT ? STAGE_ASKED : STAGE_GOES);
	if (p == NULL)
		return HEARD_NONSENSE;
	if (h->in.len - sizeof(head) < head.len)
		return HEARD_NOTHING;
	at = h->in.data + sizeof(head);
	good = head.kind == HTTP_VERDICT ? take_verdict(h, p, at)
					 : take_result(p->call, at, head.len);
	if (!good)
		return HEARD_NONSENSE;
	buf_consume(&h->in, sizeof(head) + head.len);
	if (h->in.len == 0)
		buf_clear(&h->in);
	*call = p->call;
	*event = HTTP_EVENT_END;
	if (head.kind == HTTP_VERDICT && p->call->check.bad[0] == '\0' &&
	    p->call->check.verdict.reason == REASON_NONE)
		*event = HTTP_EVENT_GO;
	else
		take(h, p);
	return HEARD_ONE;
}

static int
send_some(struct http *h)
{
	ssize_t n;

	if (h->out.len == 0)
		return 0;
	n = send(h->fd, h->out.data, h->out.len, MSG_NOSIGNAL);
	if (n == -1)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	buf_consume(&h->out, (size_t)n);
	if (h->out.len == 0)
		buf_clear(&h->out);
	return 0;
}

/* 0 also when there is nothing to read yet. */
static int
receive_some(struct http *h)
{
	char *at = buf_reserve(&h->in, CHUNK);
	ssize_t n;

	if (at == NULL)
		return -1;
	n = recv(h->fd, at, CHUNK, 0);
	if (n == -1)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (n == 0)
		return -1;
	buf_advance(&h->in, (size_t)n);
	return 0;
}

/* A call that a net worker took with it, or for which there was none. */
static struct call *
orphan(struct http *h)
{
	struct pending *p;
	struct call *c;

	TAILQ_FOREACH (p, &h->list, next) {
		if (p->lost)
			break;
	}
	if (p == NULL)
		return NULL;
	if (!h->told)
		log_line(h->log, LOG_LEVEL_ERROR,
		    "the net worker is gone, with the calls it had");
	h->told = true;
	c = p->call;
	call_fail(c,
	    clock_boot() > p->until ? FAIL_TIMEOUT : FAIL_CONNECT_ERROR);
	return take(h, p);
}

/* A call whose time is long over: the net worker hangs. */
static bool
hangs(const struct http *h)
{
	const struct pending *p;

	TAILQ_FOREACH (p, &h->list, next) {
		if (clock_boot() > p->until)
			return true;
	}
	return false;
}

struct call *
http_service(struct http *h, enum http_event *event)
{
	struct call *c = NULL;
	enum heard heard;

	*event = HTTP_EVENT_END;
	c = orphan(h);
	if (c != NULL || h->fd == -1)
		return c;
	heard = hear(h, &c, event);
	if (heard == HEARD_NOTHING &&
	    (send_some(h) == -1 || receive_some(h) == -1 || hangs(h)))
		heard = HEARD_NONSENSE;
	else if (heard == HEARD_NOTHING)
		heard = hear(h, &c, event);
	if (heard == HEARD_NONSENSE) {
		end_child(h);
		return orphan(h);
	}
	return c;
}
