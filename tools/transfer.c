/*
 * A request to somebody else's server, for somebody else's program. The URL is
 * read once, by the library that will use it, and that very handle is judged;
 * each redirect is a new URL and judged like the first. The address is judged
 * where it counts, when a socket for it is asked for, and again before each
 * request, for a connection may be an old one. Nothing of what a server says
 * makes us use a proxy, a password, a cookie or another protocol.
 */

#include "tools/transfer.h"

#include <sys/socket.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <openssl/ssl.h>

#include "audit/clock.h"
#include "enforce/route.h"

#define PORT_HTTP 80
#define PORT_HTTPS 443

static bool keep_body(void *, const uint8_t *, size_t);

struct transfer *
transfer_new(const struct transfer_rules *rules, uint64_t id, cJSON *request,
    char *body, size_t body_len)
{
	struct transfer *t = calloc(1, sizeof(*t));

	if (t == NULL) {
		cJSON_Delete(request);
		freezero(body, body_len);
		return NULL;
	}
	t->rules = rules;
	t->id = id;
	t->request = request;
	t->body = body;
	t->body_len = body_len;
	t->own_fields = true;
	unpack_init(&t->unpack, keep_body, t);
	buf_init(&t->headers, HTTP_HEADERS);
	buf_init(&t->in, HTTP_BODY);
	buf_init(&t->out, sizeof(struct http_head) + sizeof(t->result) +
			      HTTP_URL + HTTP_HEADERS);
	return t;
}

void
transfer_free(struct transfer *t)
{
	if (t == NULL)
		return;
	curl_easy_cleanup(t->easy);
	curl_url_cleanup(t->url);
	curl_slist_free_all(t->fields);
	cJSON_Delete(t->request);
	freezero(t->body, t->body_len);
	curl_free(t->shown);
	unpack_clear(&t->unpack);
	buf_clear(&t->headers);
	buf_clear(&t->in);
	buf_clear(&t->out);
	free(t);
}

static const char *
wanted(const struct transfer *t, const char *name)
{
	return cJSON_GetStringValue(
	    cJSON_GetObjectItemCaseSensitive(t->request, name));
}

static bool
is_head(const struct transfer *t)
{
	const char *method = wanted(t, "method");

	return method != NULL && strcmp(method, "HEAD") == 0;
}

/* --- addresses --- */

/* May this address be connected to? *away: there is a way to it at all. */
static bool
address_allowed(
    const struct transfer_rules *rules, const struct sockaddr *sa, bool *away)
{
	enum route route;

	*away = true;
	if (host_in_networks(rules->networks, rules->networks_n, sa))
		return true;
	if (!host_public(sa))
		return false;
	route = route_to(rules->route_fd, sa);
	*away = route != ROUTE_NONE;
	return route == ROUTE_AWAY || route == ROUTE_NONE;
}

static curl_socket_t
open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct transfer *t = arg;
	bool away;

	if (purpose != CURLSOCKTYPE_IPCXN ||
	    !address_allowed(t->rules, &a->addr, &away)) {
		t->vetoed = true;
		return CURL_SOCKET_BAD;
	}
	if (!away)
		return CURL_SOCKET_BAD;
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

/*
 * What a server says of its end of a TLS connection, to the calls that are on
 * it. The library takes a line that was cut for one that was closed, and since
 * TLS 1.3 the refusal of a client without certificate for a broken answer.
 */
static void
take_alert(const SSL *tls, int where, int alert)
{
	const SSL_CTX *context = SSL_get_SSL_CTX(tls);
	struct transfer_list *calls = SSL_CTX_get_app_data(context);
	struct transfer *t;

	if (where != SSL_CB_READ_ALERT)
		return;
	TAILQ_FOREACH (t, calls, next) {
		if (!t->running || t->tls != context)
			continue;
		t->tls_closed = (alert & 0xff) == SSL_AD_CLOSE_NOTIFY;
		t->tls_refused = alert >> 8 == SSL3_AL_FATAL;
	}
}

static void
on_tls(struct transfer *t, const void *context)
{
	t->tls = context;
	t->tls_closed = t->tls_refused = false;
}

/* A new connection, which may outlive the call; each has its own context. */
static CURLcode
watch_tls(CURL *e, void *context, void *arg)
{
	struct transfer *t = arg;

	(void)e;
	on_tls(t, context);
	SSL_CTX_set_info_callback(context, take_alert);
	return SSL_CTX_set_app_data(context, t->rules->calls) == 1
		   ? CURLE_OK
		   : CURLE_OUT_OF_MEMORY;
}

/* The connection may be one that another call has made. */
static bool
find_tls(struct transfer *t)
{
	struct curl_tlssessioninfo *info = NULL;
	const void *context;

	if (curl_easy_getinfo(t->easy, CURLINFO_TLS_SSL_PTR, &info) !=
		CURLE_OK ||
	    info->internals == NULL)
		return false;
	context = SSL_get_SSL_CTX(info->internals);
	if (t->tls != context)
		on_tls(t, context);
	return true;
}

/* Each request, on an old connection too. */
static int
before_request(
    void *arg, char *peer, char *local, int peer_port, int local_port)
{
	struct transfer *t = arg;
	struct sockaddr_storage ss;
	bool away;

	(void)local;
	(void)peer_port;
	(void)local_port;
	if (!host_literal(peer, &ss) ||
	    !address_allowed(t->rules, (struct sockaddr *)&ss, &away)) {
		t->vetoed = true;
		return CURL_PREREQFUNC_ABORT;
	}
	return !t->target.https || find_tls(t) ? CURL_PREREQFUNC_OK
					       : CURL_PREREQFUNC_ABORT;
}

/* --- the URL --- */

static enum reason
judge_target(const struct transfer *t, const struct host_target *at)
{
	const struct transfer_rules *r = t->rules;
	struct sockaddr_storage ss;
	size_t i;
	bool away;

	for (i = 0; i < r->lists_n; i++) {
		if (!glob_match_host(r->lists[i], at->host, strlen(at->host),
			at->port, at->default_port))
			return i == 0 ? REASON_DOMAIN : REASON_DOMAIN_CEILING;
	}
	if (host_literal(at->host, &ss) &&
	    !address_allowed(r, (struct sockaddr *)&ss, &away))
		return REASON_ADDRESS_NOT_PUBLIC;
	return REASON_NONE;
}

static char *
part(CURLU *u, CURLUPart which, unsigned flags)
{
	char *text = NULL;

	return curl_url_get(u, which, &text, flags) == CURLUE_OK ? text : NULL;
}

/* Scheme and port as the library sees them. */
static bool
read_port(CURLU *u, struct host_target *at)
{
	char *scheme = part(u, CURLUPART_SCHEME, 0);
	char *port = part(u, CURLUPART_PORT, CURLU_DEFAULT_PORT);
	unsigned long n = 0;
	char *end;
	bool good = false;

	if (scheme != NULL && port != NULL) {
		at->https = strcmp(scheme, "https") == 0;
		n = strtoul(port, &end, 10);
		good = *port != '\0' && *end == '\0' && n <= UINT16_MAX &&
		       (at->https || strcmp(scheme, "http") == 0);
	}
	if (good) {
		at->port = (uint16_t)n;
		at->default_port = n == (at->https ? PORT_HTTPS : PORT_HTTP);
	}
	curl_free(scheme);
	curl_free(port);
	return good;
}

/* Make the handle say the clean host, so that what is judged is what is used.
 */
static bool
put_host(CURLU *u, const char *raw, const char *clean)
{
	char bracketed[HOST_SIZE + 2];
	char *now;
	bool same;

	snprintf(bracketed, sizeof(bracketed),
	    strchr(clean, ':') == NULL ? "%s" : "[%s]", clean);
	if (strcmp(raw, bracketed) == 0)
		return true;
	if (curl_url_set(u, CURLUPART_HOST, bracketed, 0) != CURLUE_OK)
		return false;
	now = part(u, CURLUPART_HOST, 0);
	same = now != NULL && strcmp(now, bracketed) == 0;
	curl_free(now);
	return same;
}

/* A handle that the library has read: is it one of ours? */
static enum http_ruling
judge_url(const struct transfer *t, CURLU *u, struct host_target *at,
    enum reason *reason)
{
	char *raw = part(u, CURLUPART_HOST, 0);
	char *zone = part(u, CURLUPART_ZONEID, 0);
	enum http_ruling ruling = HTTP_REFUSED;
	bool clean;

	*reason = REASON_DOMAIN;
	if (raw == NULL || !read_port(u, at)) {
		ruling = HTTP_MALFORMED;
		goto out;
	}
	clean = host_clean(raw, at->host);
	if (!clean) /* for the record */
		strlcpy(at->host, raw, sizeof(at->host));
	if (!clean || zone != NULL || at->port == 0) {
		*reason = REASON_URL_HOST;
		goto out;
	}
	*reason = judge_target(t, at);
	if (*reason == REASON_NONE)
		ruling = put_host(u, raw, at->host) ? HTTP_MAY : HTTP_MALFORMED;
out:
	curl_free(raw);
	curl_free(zone);
	return ruling;
}

/* What the host would have been of a URL with a user in it, for the record. */
static void
note_host(const char *text, struct host_target *at)
{
	CURLU *u = curl_url();
	char *raw = NULL;

	if (u != NULL && curl_url_set(u, CURLUPART_URL, text, 0) == CURLUE_OK &&
	    read_port(u, at))
		raw = part(u, CURLUPART_HOST, 0);
	if (raw != NULL && !host_clean(raw, at->host))
		at->host[0] = '\0';
	curl_free(raw);
	curl_url_cleanup(u);
}

/*
 * Is an address spelled in the text as it is usual? The library makes one of
 * every spelling. If not, the target has the host as written, for the record.
 */
static bool
is_spelled(const char *text, struct host_target *at)
{
	char written[HOST_SIZE];
	struct sockaddr_storage ss;

	if (!host_literal(at->host, &ss) || !host_written(text, written) ||
	    strcasecmp(written, at->host) == 0)
		return true;
	strlcpy(at->host, written, sizeof(at->host));
	return false;
}

/* Is it granted, or could SKILL.md grant it? */
static bool
is_grantable(enum reason reason)
{
	return reason == REASON_NONE || reason == REASON_DOMAIN;
}

/*
 * Read a URL: on HTTP_MAY *url is its handle. A failed set would leave an
 * older URL in a handle, so each text gets a fresh one.
 */
static enum http_ruling
read_url(const struct transfer *t, const char *text, struct host_target *at,
    enum reason *reason, CURLU **url)
{
	enum http_ruling ruling = HTTP_MALFORMED;
	const char *why;
	CURLU *u;

	memset(at, 0, sizeof(*at));
	*reason = REASON_DOMAIN;
	if (!host_url_text(text, &why) || strlen(text) > HTTP_URL / 2)
		return HTTP_MALFORMED;
	u = curl_url();
	if (u == NULL)
		return HTTP_MALFORMED;
	switch (
	    (int)curl_url_set(u, CURLUPART_URL, text, CURLU_DISALLOW_USER)) {
	case CURLUE_OK:
		ruling = judge_url(t, u, at, reason);
		if (is_grantable(*reason) && !is_spelled(text, at)) {
			ruling = HTTP_REFUSED;
			*reason = REASON_URL_HOST;
		}
		break;
	case CURLUE_USER_NOT_ALLOWED:
		note_host(text, at);
		ruling = HTTP_REFUSED;
		*reason = REASON_URL_USER;
		break;
	case CURLUE_BAD_HOSTNAME:
	case CURLUE_BAD_IPV6:
		ruling = HTTP_REFUSED;
		*reason = REASON_URL_HOST;
		break;
	default:
		break;
	}
	if (ruling == HTTP_MAY) {
		*url = u;
		return HTTP_MAY;
	}
	curl_url_cleanup(u);
	return ruling;
}

void
transfer_check(struct transfer *t, struct http_verdict *v)
{
	const char *method = wanted(t, "method");
	const char *text = wanted(t, "url");
	enum reason reason = REASON_DOMAIN;

	memset(v, 0, sizeof(*v));
	t->post = method != NULL && strcmp(method, "POST") == 0;
	v->ruling = text == NULL
			? HTTP_MALFORMED
			: read_url(t, text, &t->target, &reason, &t->url);
	v->reason = reason;
	v->port = t->target.port;
	strlcpy(v->host, t->target.host, sizeof(v->host));
}

/* --- what comes in --- */

/* The head of a new answer, after "100 Continue" say: the old one is gone. */
static bool
is_status_line(const char *line, size_t n)
{
	return n >= 5 && memcmp(line, "HTTP/", 5) == 0;
}

/* One line of text: no control character but a tab, blanks at its ends off. */
static void
put_value(struct buf *b, const char *p, size_t n)
{
	char *at;
	size_t i;

	while (n > 0 && strchr(" \t\r\n", p[n - 1]) != NULL)
		n--;
	while (n > 0 && (*p == ' ' || *p == '\t')) {
		p++;
		n--;
	}
	at = n == 0 ? NULL : buf_reserve(b, n);
	if (at == NULL)
		return;
	for (i = 0; i < n; i++) {
		at[i] = p[i];
		if (((unsigned char)p[i] < ' ' && p[i] != '\t') || p[i] == 0x7f)
			at[i] = ' ';
	}
	buf_advance(b, n);
}

static void
put_field(struct buf *b, const char *line, size_t n)
{
	const char *colon = memchr(line, ':', n);
	size_t i, len = colon == NULL ? 0 : (size_t)(colon - line);
	char c;

	if (*line == ' ' || *line == '\t') { /* more of the line before */
		if (b->len == 0)
			return;
		b->data[b->len - 1] = ' ';
		put_value(b, line, n);
		buf_putc(b, '\n');
		return;
	}
	for (i = 0; i < len; i++) {
		if ((unsigned char)line[i] <= ' ' ||
		    (unsigned char)line[i] >= 0x7f)
			return;
	}
	if (len == 0)
		return;
	for (i = 0; i < len; i++) {
		c = line[i];
		buf_putc(b, c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c);
	}
	buf_putc(b, ':');
	put_value(b, colon + 1, n - len - 1);
	buf_putc(b, '\n');
}

/* The field's value, if a line, which has n bytes, is such a field. */
static const char *
value_of(const char *line, size_t n, const char *name, size_t *len)
{
	size_t at = strlen(name);

	if (n <= at || memcmp(line, name, at) != 0 || line[at] != ':')
		return NULL;
	*len = n - at - 1;
	return line + at + 1;
}

/*
 * The head is complete: how is the body packed, and does it say where it ends?
 * Transfers are never packed: nobody has asked for it, and the library would
 * not see the end of that.
 */
static bool
end_head(struct transfer *t)
{
	const char *line = t->headers.data, *value, *end;
	size_t left, n, len;

	t->headed = true;
	for (left = t->headers.len; left > 0; left -= n + 1, line += n + 1) {
		end = memchr(line, '\n', left);
		if (end == NULL) /* there was no memory for it */
			return false;
		n = (size_t)(end - line);
		value = value_of(line, n, "content-encoding", &len);
		if (value != NULL)
			unpack_add(&t->unpack, value, len);
		value = value_of(line, n, "content-length", &len);
		t->framed = t->framed || value != NULL;
		value = value_of(line, n, "transfer-encoding", &len);
		if (value == NULL ||
		    (len == 8 && strncasecmp(value, "identity", len) == 0))
			continue;
		t->framed = true;
		if (len != 7 || strncasecmp(value, "chunked", len) != 0)
			t->unpack.failed = true;
	}
	return !t->unpack.failed;
}

static void
begin_head(struct transfer *t, const char *line, size_t n)
{
	buf_reset(&t->headers);
	unpack_clear(&t->unpack);
	t->headed = false;
	t->framed = n >= 6 && line[5] >= '2'; /* by frames */
}

static size_t
take_header(char *line, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;

	(void)size; /* it is 1 */
	t->seen += n;
	if (t->seen > HTTP_HEADERS) {
		t->overflow = true;
		return 0;
	}
	if (is_status_line(line, n))
		begin_head(t, line, n);
	else if (n > 0 && (*line == '\r' || *line == '\n'))
		return t->headed || end_head(t) ? n : 0;
	else if (n > 0)
		put_field(&t->headers, line, n);
	return n;
}

static size_t
take_body(char *p, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;

	(void)size;
	return unpack_put(&t->unpack, p, n) ? n : 0;
}

/* Unpacked: this is what counts. */
static bool
keep_body(void *arg, const uint8_t *p, size_t n)
{
	struct transfer *t = arg;
	size_t room = HTTP_BODY - t->in.len;

	if (n <= room)
		return buf_put(&t->in, p, n) == 0;
	if (buf_put(&t->in, p, room) == 0)
		t->result.truncated = 1;
	return false;
}

/* --- the request --- */

static bool
add_line(struct transfer *t, const char *name, const char *value)
{
	size_t size = strlen(name) + strlen(value) + 3;
	struct curl_slist *longer;
	char *line = malloc(size);

	if (line == NULL)
		return false;
	/* "Name:" alone keeps the library from sending one of its own. */
	snprintf(line, size, "%s:%s%s", name, *value == '\0' ? "" : " ", value);
	longer = curl_slist_append(t->fields, line);
	freezero(line, size);
	if (longer != NULL)
		t->fields = longer;
	return longer != NULL;
}

static bool
add_own_fields(struct transfer *t)
{
	const cJSON *f;

	cJSON_ArrayForEach (
	    f, cJSON_GetObjectItemCaseSensitive(t->request, "headers")) {
		/* The body that it spoke of is not sent any more. */
		if (!t->post && t->hops > 0 &&
		    strcasecmp(f->string, "content-type") == 0)
			continue;
		if (!add_line(t, f->string, f->valuestring))
			return false;
	}
	return true;
}

/* Is it among the skill's fields, and do these go along? */
static bool
is_own(const struct transfer *t, const char *name)
{
	const cJSON *f;

	cJSON_ArrayForEach (
	    f, cJSON_GetObjectItemCaseSensitive(t->request, "headers")) {
		if (strcasecmp(f->string, name) == 0)
			return t->own_fields;
	}
	return false;
}

static bool
make_fields(struct transfer *t)
{
	const char *type = wanted(t, "content_type");
	const char *state = wanted(t, "tracestate");
	const char *parent = wanted(t, "traceparent");

	curl_slist_free_all(t->fields);
	t->fields = NULL;
	if (!add_line(t, "Expect", "") || parent == NULL ||
	    !add_line(t, "traceparent", parent) ||
	    (state != NULL && !add_line(t, "tracestate", state)))
		return false;
	/* A range is one of what was packed, and so of no use to anybody. */
	if (!is_own(t, "accept-encoding") &&
	    !add_line(t, "Accept-Encoding",
		is_own(t, "range") ? "identity" : "gzip, br"))
		return false;
	if (t->post && !is_own(t, "content-type") &&
	    !add_line(t, "Content-Type", type == NULL ? "" : type))
		return false;
	return !t->own_fields || add_own_fields(t);
}

static bool
set_method(struct transfer *t)
{
	CURL *e = t->easy;

	if (t->post)
		return curl_easy_setopt(e, CURLOPT_POST, 1L) == CURLE_OK &&
		       curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE,
			   (curl_off_t)t->body_len) == CURLE_OK &&
		       curl_easy_setopt(e, CURLOPT_POSTFIELDS,
			   t->body == NULL ? "" : t->body) == CURLE_OK;
	if (is_head(t))
		return curl_easy_setopt(e, CURLOPT_NOBODY, 1L) == CURLE_OK;
	return curl_easy_setopt(e, CURLOPT_HTTPGET, 1L) == CURLE_OK;
}

#define SET(option, value)                                                     \
	do {                                                                   \
		if (c == CURLE_OK)                                             \
			c = curl_easy_setopt(e, option, value);                \
	} while (0)

bool
transfer_strict(CURL *e, const struct curl_blob *ca)
{
	CURLcode c = CURLE_OK;

	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_PROXY, "");
	SET(CURLOPT_NOPROXY, "*");
	SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	SET(CURLOPT_NOSIGNAL, 1L);
	/* A look-up that hangs must not keep the others waiting. */
	SET(CURLOPT_QUICK_EXIT, 1L);
	SET(CURLOPT_HTTP09_ALLOWED, 0L);
	SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
	SET(CURLOPT_USERAGENT, "cyberos/" CYBEROS_VERSION);
	if (ca->len > 0) {
		SET(CURLOPT_CAINFO, NULL);
		SET(CURLOPT_CAPATH, NULL);
		SET(CURLOPT_CAINFO_BLOB, ca);
	}
	return c == CURLE_OK;
}

/* What the library may do, and what it may not. */
static bool
set_rules(struct transfer *t)
{
	CURL *e = t->easy;
	CURLcode c = transfer_strict(e, &t->rules->ca) ? CURLE_OK
						       : CURLE_FAILED_INIT;

	/* A length that no number holds is an error then, and not ignored. */
	SET(CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)INT64_MAX);
	SET(CURLOPT_SSL_CTX_FUNCTION, watch_tls);
	SET(CURLOPT_SSL_CTX_DATA, t);
	SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
	SET(CURLOPT_OPENSOCKETDATA, t);
	SET(CURLOPT_PREREQFUNCTION, before_request);
	SET(CURLOPT_PREREQDATA, t);
	SET(CURLOPT_HEADERFUNCTION, take_header);
	SET(CURLOPT_HEADERDATA, t);
	SET(CURLOPT_WRITEFUNCTION, take_body);
	SET(CURLOPT_WRITEDATA, t);
	SET(CURLOPT_PRIVATE, t);
	return c == CURLE_OK;
}
#undef SET

static long
left_ms(const struct transfer *t)
{
	int64_t left = (t->until - clock_boot()) / CLOCK_MS;

	return left < 1 ? 1 : (long)left;
}

/* Send the request of this hop. */
static bool
begin(struct transfer *t, CURLM *multi)
{
	CURL *e = t->easy;

	t->vetoed = false;
	t->headed = false;
	on_tls(t, NULL);
	buf_reset(&t->headers);
	unpack_clear(&t->unpack);
	buf_reset(&t->in);
	curl_easy_reset(e);
	if (!set_rules(t) || !make_fields(t) || !set_method(t) ||
	    curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->fields) != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_CURLU, t->url) != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, left_ms(t)) != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, left_ms(t)) !=
		CURLE_OK ||
	    curl_multi_add_handle(multi, e) != CURLM_OK)
		return false;
	t->running = true;
	return true;
}

/* --- the result --- */

static bool
fail(struct transfer *t, enum failure why, int code)
{
	t->result.outcome = HTTP_FAILED;
	t->result.failure = why;
	t->result.code = code;
	buf_clear(&t->in);
	buf_clear(&t->headers);
	return true;
}

static bool
deny(struct transfer *t, enum reason reason, const struct host_target *at)
{
	t->result.outcome = HTTP_DENIED;
	t->result.reason = reason;
	t->result.port = at->port;
	strlcpy(t->result.host, at->host, sizeof(t->result.host));
	buf_clear(&t->in);
	buf_clear(&t->headers);
	return true;
}

static enum failure
failure_of(CURLcode c)
{
	switch ((int)c) { /* older and newer libraries have other codes */
	case CURLE_COULDNT_RESOLVE_HOST:
		return FAIL_RESOLVE_ERROR;
	case CURLE_COULDNT_CONNECT:
		return FAIL_CONNECT_ERROR;
	case CURLE_OPERATION_TIMEDOUT:
		return FAIL_TIMEOUT;
	case CURLE_OUT_OF_MEMORY:
		return FAIL_IO_ERROR;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_ENGINE_NOTFOUND:
	case CURLE_SSL_ENGINE_SETFAILED:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_USE_SSL_FAILED:
	case CURLE_SSL_ENGINE_INITFAILED:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_SHUTDOWN_FAILED:
	case CURLE_SSL_CRL_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
	case CURLE_SSL_INVALIDCERTSTATUS:
	case CURLE_SSL_CLIENTCERT:
		return FAIL_TLS_ERROR;
	default:
		return FAIL_HTTP_ERROR;
	}
}

static bool
done(struct transfer *t, long status)
{
	if (curl_url_get(t->url, CURLUPART_URL, &t->shown, 0) != CURLUE_OK ||
	    strlen(t->shown) > HTTP_URL)
		return fail(t, FAIL_IO_ERROR, 0);
	if (t->headers.failed)
		return fail(t, FAIL_TOO_LARGE, 0);
	t->result.outcome = HTTP_DONE;
	t->result.status = (uint32_t)status;
	return true;
}

/* --- hops --- */

static bool
is_redirect(long status)
{
	return status == 301 || status == 302 || status == 303 ||
	       status == 307 || status == 308;
}

static bool
same_origin(const struct host_target *a, const struct host_target *b)
{
	return a->https == b->https && a->port == b->port &&
	       strcmp(a->host, b->host) == 0;
}

/* As the server wrote it: the library tells only what it made of it. */
static bool
location_is_spelled(const struct transfer *t, struct host_target *at)
{
	struct curl_header *h;
	size_t i;

	for (i = 0; curl_easy_header(t->easy, "Location", i, CURLH_HEADER, -1,
			&h) == CURLHE_OK;
	     i++) {
		if (!is_spelled(h->value, at))
			return false;
	}
	return true;
}

/* How much of a text is http:// or https://, in any case; 0: neither. */
static size_t
web_scheme(const char *text)
{
	if (strncasecmp(text, "http://", 7) == 0)
		return 7;
	return strncasecmp(text, "https://", 8) == 0 ? 8 : 0;
}

/* Does it name a scheme, and one that is not ours? */
static bool
is_foreign(const char *text)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz"
				"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");

	return n > 0 && text[n] == ':' && web_scheme(text) == 0;
}

/*
 * A redirect as browsers read it: behind the authority, a blank or a byte that
 * is not ASCII means its %XX. The library writes it so if it is relative only.
 */
static char *
spell_out(const char *where)
{
	size_t i, n = 0, scheme = web_scheme(where);
	size_t authority = scheme + strcspn(where + scheme, "/?#");
	char *out = malloc(3 * strlen(where) + 1);
	unsigned char c;

	if (out == NULL)
		return NULL;
	for (i = 0; where[i] != '\0'; i++) {
		c = (unsigned char)where[i];
		if (i >= authority && (c == ' ' || c >= 0x80))
			n += (size_t)snprintf(out + n, 4, "%%%02X", c);
		else
			out[n++] = i < scheme ? (char)tolower(c) : (char)c;
	}
	out[n] = '\0';
	return out;
}

/* Where the answer sends us, judged like a first request. */
static bool
hop(struct transfer *t, CURLM *multi, const char *where, long status)
{
	struct host_target at;
	enum reason reason;
	CURLU *url = NULL;

	if (t->hops == HTTP_HOPS)
		return fail(t, FAIL_HTTP_ERROR, CURLE_TOO_MANY_REDIRECTS);
	if (read_url(t, where, &at, &reason, &url) == HTTP_MALFORMED)
		return is_foreign(where)
			   ? deny(t, REASON_URL_SCHEME, &at)
			   : fail(t, FAIL_HTTP_ERROR, CURLE_URL_MALFORMAT);
	if (is_grantable(reason) && t->target.https && !at.https)
		reason = REASON_URL_DOWNGRADE;
	else if (is_grantable(reason) && !location_is_spelled(t, &at))
		reason = REASON_URL_HOST;
	if (reason != REASON_NONE) {
		curl_url_cleanup(url);
		return deny(t, reason, &at);
	}
	t->hops++;
	if (!same_origin(&t->target, &at))
		t->own_fields = false; /* and never again */
	if (status != 307 && status != 308)
		t->post = false;
	t->target = at;
	curl_easy_setopt(t->easy, CURLOPT_CURLU, NULL);
	curl_url_cleanup(t->url);
	t->url = url;
	return begin(t, multi) ? false : fail(t, FAIL_IO_ERROR, 0);
}

bool
transfer_start(struct transfer *t, CURLM *multi)
{
	const cJSON *ms =
	    cJSON_GetObjectItemCaseSensitive(t->request, "timeout_ms");
	int64_t limit = HTTP_MS;

	if (cJSON_IsNumber(ms) && ms->valuedouble < HTTP_MS)
		limit = (int64_t)ms->valuedouble;
	t->until = clock_boot() + limit * CLOCK_MS;
	t->easy = curl_easy_init();
	if (t->easy == NULL || !begin(t, multi)) {
		fail(t, FAIL_IO_ERROR, 0);
		return false;
	}
	return true;
}

/* Is all of the answer there? The library looks at lengths and chunks. */
static bool
is_whole(const struct transfer *t, long status)
{
	if (!t->headed || status < 200 || !unpack_whole(&t->unpack))
		return false;
	if (t->framed || is_head(t) || status == 204 || status == 304)
		return true;
	/* Only the end of the connection ends it. */
	return unpack_some(&t->unpack) && (t->tls_closed || !t->target.https);
}

/* What became of it, by what the library says and what we have seen. */
static CURLcode
ending(const struct transfer *t, CURLcode code, long status)
{
	if (code == CURLE_WRITE_ERROR && t->result.truncated)
		return CURLE_OK;
	if (code == CURLE_WRITE_ERROR && t->unpack.failed)
		return CURLE_BAD_CONTENT_ENCODING;
	if (code == CURLE_OK && !is_whole(t, status))
		return CURLE_PARTIAL_FILE;
	return code;
}

bool
transfer_ended(struct transfer *t, CURLM *multi, CURLcode code)
{
	char *where = NULL, *copy;
	long status = 0;
	bool ended;

	t->running = false;
	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	code = ending(t, code, status);
	if (code == CURLE_OK && !t->result.truncated)
		curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &where);
	copy = where == NULL || !is_redirect(status) ? NULL : spell_out(where);
	curl_multi_remove_handle(multi, t->easy);
	if (t->overflow)
		return fail(t, FAIL_TOO_LARGE, (int)code);
	if ((code == CURLE_COULDNT_CONNECT ||
		code == CURLE_ABORTED_BY_CALLBACK) &&
	    t->vetoed)
		return deny(t, REASON_ADDRESS_NOT_PUBLIC, &t->target);
	if (code != CURLE_OK && status == 0 && t->tls_refused)
		return fail(t, FAIL_TLS_ERROR, (int)code);
	if (code != CURLE_OK)
		return fail(t, failure_of(code), (int)code);
	if (copy == NULL)
		return done(t, status);
	ended = hop(t, multi, copy, status);
	free(copy);
	return ended;
}
