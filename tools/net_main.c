/*
 * cyberos-net: the one program of ours with a network, started by the broker
 * for one invocation, and against everything a server may send. It has no file
 * to write, no secret, no environment and no privilege; it knows the skill's
 * domains and nothing else of it. It ends when the broker's end of its channel
 * closes.
 */

#include <sys/prctl.h>
#include <sys/resource.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/json.h"
#include "enforce/fence.h"
#include "enforce/route.h"
#include "tools/exporter.h"
#include "tools/http.h"
#include "tools/program.h"
#include "tools/transfer.h"

#define CHANNEL_FD PROGRAM_FD(0)
#define CA_FD PROGRAM_FD(1)
#define CA_MAX ((size_t)16 * 1024 * 1024)
#define CONFIG_MAX ((size_t)64 * 1024 * 1024)
#define MESSAGE_MAX ((size_t)16 * 1024 * 1024)
#define CHUNK ((size_t)128 * 1024)
#define PORTS_MAX 4096
#define IDLE_MS 60000
#define BUSY_MS 1000
#define VETOED_MS 50
#define MEMORY_MAX ((rlim_t)1536 * 1024 * 1024)
#define FILES_MAX 256

struct net {
	struct transfer_rules rules;
	CURLM *multi;
	struct transfer_list calls;   /* checked or running */
	struct transfer_list answers; /* with their results */
	struct buf in;
	struct buf verdicts; /* go before the next answer */
	bool ended;
};

/* --- setting up --- */

static void
read_exactly(void *p, size_t n)
{
	char *at = p;
	ssize_t got;

	while (n > 0) {
		got = read(CHANNEL_FD, at, n);
		if (got == -1 && errno == EINTR)
			continue;
		if (got == 0)
			exit(0);
		if (got == -1)
			err(1, "channel");
		at += got;
		n -= (size_t)got;
	}
}

static cJSON *
read_config(void)
{
	struct http_head head;
	cJSON *config;
	char *text;

	read_exactly(&head, sizeof(head));
	if (head.kind != HTTP_CONFIG || head.len > CONFIG_MAX)
		errx(1, "no configuration");
	text = malloc(head.len + 1);
	if (text == NULL)
		err(1, NULL);
	read_exactly(text, head.len);
	config = cJSON_ParseWithLength(text, head.len);
	if (!cJSON_IsObject(config))
		errx(1, "configuration");
	free(text);
	return config;
}

static void
read_lists(struct transfer_rules *r, const cJSON *lists)
{
	const cJSON *list, *glob;
	struct glob_set *set;
	const char *why, *text;

	cJSON_ArrayForEach (list, lists) {
		set = glob_set_new(GLOB_DOMAIN);
		if (set == NULL || r->lists_n == TRANSFER_LISTS)
			errx(1, "domains");
		cJSON_ArrayForEach (glob, list) {
			text = cJSON_GetStringValue(glob);
			if (text == NULL ||
			    glob_set_add(set, text, strlen(text), &why) == -1)
				errx(1, "domains");
		}
		r->lists[r->lists_n++] = set;
	}
	/* Without a list everything would match. */
	if (r->lists_n == 0)
		errx(1, "domains");
}

static void
read_networks(struct transfer_rules *r, const cJSON *networks)
{
	const cJSON *n;
	const char *text;

	r->networks = calloc(
	    (size_t)cJSON_GetArraySize(networks) + 1, sizeof(*r->networks));
	if (r->networks == NULL)
		err(1, NULL);
	cJSON_ArrayForEach (n, networks) {
		text = cJSON_GetStringValue(n);
		if (text == NULL ||
		    !host_network(text, &r->networks[r->networks_n++]))
			errx(1, "networks");
	}
}

static void
read_authorities(struct transfer_rules *r)
{
	struct buf b;
	ssize_t n;
	char *at;

	buf_init(&b, CA_MAX);
	do {
		at = buf_reserve(&b, 4096);
		if (at == NULL)
			err(1, "ca_file");
		n = read(CA_FD, at, 4096);
		if (n == -1)
			err(1, "ca_file");
		buf_advance(&b, (size_t)n);
	} while (n > 0);
	close(CA_FD);
	if (b.len == 0)
		errx(1, "ca_file: is empty");
	r->ca.data = b.data;
	r->ca.len = b.len;
	r->ca.flags = CURL_BLOB_NOCOPY;
}

static void
limit(int what, rlim_t value)
{
	struct rlimit r = {value, value};

	if (setrlimit((__rlimit_resource_t)what, &r) == -1)
		err(1, "limits");
}

static void
set_limits(void)
{
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_NOFILE, FILES_MAX);
#if !defined(__SANITIZE_ADDRESS__)
	limit(RLIMIT_AS, MEMORY_MAX);
#endif
}

static void
settle(struct net *n)
{
	uint16_t ports[PORTS_MAX];
	size_t count;
	bool landlock;

	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1)
		err(1, "dumpable");
	prctl(PR_SET_NAME, PROGRAM_NET);
	n->rules.route_fd = route_open();
	if (n->rules.route_fd == -1)
		err(1, "netlink");
	/* What transfer.c does to a connection with TLS, it does to OpenSSL. */
	if (curl_global_sslset(CURLSSLBACKEND_OPENSSL, NULL, NULL) !=
	    CURLSSLSET_OK)
		errx(1, "libcurl: has no OpenSSL");
	if (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK)
		errx(1, "libcurl");
	n->multi = curl_multi_init();
	if (n->multi == NULL)
		errx(1, "libcurl");
	count = host_ports(n->rules.lists[0], ports, PORTS_MAX);
	if (count > PORTS_MAX)
		errx(1, "domains: too many ports");
	if (fcntl(CHANNEL_FD, F_SETFL, O_NONBLOCK) == -1)
		err(1, "channel");
	set_limits();
	if (fence_net(ports, count, &landlock) == -1)
		err(1, "confining");
}

/* --- answers --- */

/* The result of a call, laid out; its body is sent from where it is. */
static void
answer(struct net *n, struct transfer *t)
{
	struct http_result *r = &t->result;
	struct http_head head = {.kind = HTTP_RESULT, .id = t->id};

	r->url_len = t->shown == NULL ? 0 : (uint32_t)strlen(t->shown);
	r->headers_len = (uint32_t)t->headers.len;
	r->body_len = (uint32_t)t->in.len;
	head.len =
	    (uint32_t)sizeof(*r) + r->url_len + r->headers_len + r->body_len;
	buf_put(&t->out, &head, sizeof(head));
	buf_put(&t->out, r, sizeof(*r));
	buf_put(&t->out, t->shown, r->url_len);
	buf_put(&t->out, t->headers.data, r->headers_len);
	if (t->out.failed)
		errx(1, "memory");
	TAILQ_REMOVE(&n->calls, t, next);
	TAILQ_INSERT_TAIL(&n->answers, t, next);
}

/* Send some of these bytes; how many, or 0 when the channel is full. */
static size_t
send_some(const char *p, size_t n)
{
	ssize_t put = write(CHANNEL_FD, p, n);

	if (put == -1 && errno != EAGAIN && errno != EINTR)
		exit(errno == EPIPE ? 0 : 1);
	return put == -1 ? 0 : (size_t)put;
}

/* An answer that has begun is finished first; then verdicts, which are small.
 */
static void
send_answers(struct net *n)
{
	struct transfer *t;
	size_t put;

	for (;;) {
		t = TAILQ_FIRST(&n->answers);
		if (n->verdicts.len > 0 && (t == NULL || t->sent == 0)) {
			put = send_some(n->verdicts.data, n->verdicts.len);
			buf_consume(&n->verdicts, put);
			if (n->verdicts.len > 0)
				return;
			continue;
		}
		if (t == NULL)
			return;
		if (t->sent < t->out.len)
			put = send_some(
			    t->out.data + t->sent, t->out.len - t->sent);
		else
			put = send_some(t->in.data + (t->sent - t->out.len),
			    t->in.len - (t->sent - t->out.len));
		if (put == 0)
			return;
		t->sent += put;
		if (t->sent == t->out.len + t->in.len) {
			TAILQ_REMOVE(&n->answers, t, next);
			transfer_free(t);
		}
	}
}

/* --- what the broker asks --- */

static struct transfer *
find(struct net *n, uint64_t id)
{
	struct transfer *t;

	TAILQ_FOREACH (t, &n->calls, next) {
		if (t->id == id)
			return t;
	}
	return NULL;
}

static void
new_call(struct net *n, uint64_t id, const char *p, size_t len)
{
	struct http_head head = {
	    .kind = HTTP_VERDICT, .len = sizeof(struct http_verdict), .id = id};
	struct http_verdict verdict;
	struct http_call sizes;
	struct transfer *t;
	cJSON *request;
	char *body;

	if (len < sizeof(sizes))
		errx(1, "a short call");
	memcpy(&sizes, p, sizeof(sizes));
	p += sizeof(sizes);
	if (sizes.json_len > len - sizeof(sizes) ||
	    sizes.body_len != len - sizeof(sizes) - sizes.json_len)
		errx(1, "a call that does not add up");
	request = json_parse(p, sizes.json_len, false);
	body = malloc((size_t)sizes.body_len + 1);
	if (request == NULL || body == NULL)
		errx(1, "a call that is no JSON");
	memcpy(body, p + sizes.json_len, sizes.body_len);
	body[sizes.body_len] = '\0';
	t = transfer_new(&n->rules, id, request, body, sizes.body_len);
	if (t == NULL)
		err(1, NULL);
	transfer_check(t, &verdict);
	buf_put(&n->verdicts, &head, sizeof(head));
	buf_put(&n->verdicts, &verdict, sizeof(verdict));
	if (n->verdicts.failed)
		errx(1, "memory");
	if (verdict.ruling == HTTP_MAY)
		TAILQ_INSERT_TAIL(&n->calls, t, next);
	else
		transfer_free(t);
}

static void
drop(struct net *n, struct transfer *t)
{
	if (t->running)
		curl_multi_remove_handle(n->multi, t->easy);
	TAILQ_REMOVE(&n->calls, t, next);
	transfer_free(t);
}

static void
message(struct net *n, const struct http_head *head, const char *p)
{
	struct transfer *t;

	if (head->kind == HTTP_CALL) {
		new_call(n, head->id, p, head->len);
		return;
	}
	t = find(n, head->id);
	if (t == NULL)
		return;
	if (head->kind == HTTP_GO && t->easy == NULL) {
		if (!transfer_start(t, n->multi))
			answer(n, t);
	} else if (head->kind == HTTP_DROP) {
		drop(n, t);
	}
}

static void
listen_to_broker(struct net *n)
{
	struct http_head head;
	ssize_t got;
	char *at;

	at = buf_reserve(&n->in, CHUNK);
	if (at == NULL)
		errx(1, "memory");
	got = read(CHANNEL_FD, at, CHUNK);
	if (got == 0)
		n->ended = true;
	if (got <= 0) {
		if (got == -1 && errno != EAGAIN && errno != EINTR)
			n->ended = true;
		return;
	}
	buf_advance(&n->in, (size_t)got);
	while (n->in.len >= sizeof(head)) {
		memcpy(&head, n->in.data, sizeof(head));
		if (head.len > MESSAGE_MAX)
			errx(1, "a message that is too long");
		if (n->in.len - sizeof(head) < head.len)
			break;
		message(n, &head, n->in.data + sizeof(head));
		buf_consume(&n->in, sizeof(head) + head.len);
	}
	if (n->in.len == 0)
		buf_clear(&n->in);
}

/* --- the loop --- */

static void
finish_transfers(struct net *n)
{
	struct transfer *t;
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(n->multi, &left)) != NULL) {
		if (m->msg != CURLMSG_DONE)
			continue;
		t = NULL;
		curl_easy_getinfo(
		    m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
		if (t != NULL && transfer_ended(t, n->multi, m->data.result))
			answer(n, t);
	}
}

/*
 * The library sleeps too long where the next address of several has its turn
 * after a timer, and that has run out unseen on a busy host: then a call whose
 * addresses were all refused ends by its time limit and not with the refusal. It
 * looks at everything again whenever it is called.
 */
static int
most_ms(const struct net *n)
{
	const struct transfer *t;
	int most = IDLE_MS;

	TAILQ_FOREACH (t, &n->calls, next) {
		if (t->running && t->vetoed)
			return VETOED_MS;
		if (t->running)
			most = BUSY_MS;
	}
	return most;
}

static void
serve(struct net *n)
{
	struct curl_waitfd channel = {.fd = CHANNEL_FD};
	int running;

	while (!n->ended) {
		if (curl_multi_perform(n->multi, &running) != CURLM_OK)
			errx(1, "libcurl");
		finish_transfers(n);
		send_answers(n);
		channel.events = CURL_WAIT_POLLIN;
		channel.revents = 0;
		if (n->verdicts.len > 0 || !TAILQ_EMPTY(&n->answers))
			channel.events |= CURL_WAIT_POLLOUT;
		if (curl_multi_poll(n->multi, &channel, 1, most_ms(n), NULL) !=
		    CURLM_OK)
			errx(1, "libcurl");
		if (channel.revents != 0)
			listen_to_broker(n);
	}
}

int
main(int argc, char **argv)
{
	struct net n;
	cJSON *config;

	memset(&n, 0, sizeof(n));
	TAILQ_INIT(&n.calls);
	TAILQ_INIT(&n.answers);
	n.rules.calls = &n.calls;
	buf_init(&n.in, sizeof(struct http_head) + MESSAGE_MAX + CHUNK);
	buf_init(&n.verdicts, CONFIG_MAX);
	if (geteuid() == 0)
		errx(1, "is not run by root, and not by hand");
	if (argc > 1 && strcmp(argv[1], PROGRAM_EXPORT) == 0)
		exporter_run();
	config = read_config();
	read_lists(&n.rules, cJSON_GetObjectItem(config, "domains"));
	read_networks(&n.rules, cJSON_GetObjectItem(config, "networks"));
	if (cJSON_IsTrue(cJSON_GetObjectItem(config, "ca_file")))
		read_authorities(&n.rules);
	cJSON_Delete(config);
	settle(&n);
	serve(&n);
	_exit(0);
}
