/*
 * Which URL may be fetched, against a model of a few lines: random URLs of
 * hosts that are granted, nearly granted and disguised. What is asked is the
 * net worker itself, with the library that would make the request; then the
 * grant, as the broker does. The model cuts the text by itself.
 *
 * Environment: MODEL_TRIES (20000), MODEL_SEED (the time).
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "t/unit/tap.h"
#include "enforce/libexec.h"
#include "tools/http.h"
#include "tools/program.h"

#define GLOBS_MAX 4
#define ADDRESSES_MAX 128
#define TRIES_A_GRANT 1000
#define TOGETHER 50 /* URLs that are on their way at once */
#define NOBODY 54321
#define URL_SIZE 2048

struct glob {
	char host[HOST_SIZE]; /* lower case; "*" stands for what it does */
	unsigned port;	      /* 0: the usual one */
};

static struct glob globs[GLOBS_MAX];
static size_t globs_n;
static struct {
	char text[INET6_ADDRSTRLEN];
	bool open;
} addresses[ADDRESSES_MAX];
static size_t addresses_n;
static struct grant *grant;
static struct policy policy;
static int channel_fd = -1;
static pid_t worker = -1;
static uint64_t state;
static long allowed, denied, wrong;

static unsigned
roll(unsigned below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 33) % below;
}

#define PICK(v) (v)[roll(sizeof(v) / sizeof((v)[0]))]

/* --- the model (SPEC 4.1, 7.8) --- */

/* A star within a label, or labels where it stands for a whole first one. */
static bool
name_matches(const char *p, const char *s)
{
	size_t n;

	if (strcmp(p, "*") == 0)
		return true;
	if (strncmp(p, "*.", 2) == 0) {
		for (n = strlen(s); n > 0; n--) {
			if (s[n - 1] == '.' && n > 1 &&
			    name_matches(p + 2, s + n))
				return true;
		}
		return false;
	}
	for (; *p != '\0' && *p != '*'; p++, s++) {
		if (*p != *s)
			return false;
	}
	if (*p == '\0')
		return *s == '\0';
	for (;; s++) {
		if (name_matches(p + 1, s))
			return true;
		if (*s == '\0' || *s == '.')
			return false;
	}
}

static bool
is_literal(const char *host, char again[INET6_ADDRSTRLEN])
{
	uint8_t raw[16];
	int family = strchr(host, ':') == NULL ? AF_INET : AF_INET6;

	return inet_pton(family, host, raw) == 1 &&
	       inet_ntop(family, raw, again, INET6_ADDRSTRLEN) != NULL;
}

static bool
model_granted(const char *host, unsigned port, unsigned usual)
{
	char same[INET6_ADDRSTRLEN];
	bool literal = is_literal(host, same);
	size_t i;

	for (i = 0; i < globs_n; i++) {
		if ((globs[i].port == 0 ? usual : globs[i].port) != port)
			continue;
		if (literal ? strcmp(globs[i].host, host) == 0
			    : name_matches(globs[i].host, host))
			return true;
	}
	return false;
}

/* %XX undone, lower case, one final dot off; false when it is no name. */
static bool
model_name(const char *s, size_t n, char host[HOST_SIZE])
{
	char hex[3] = {0};
	size_t i, len = 0, label = 0, labels = 0, digits = 0, end;

	for (i = 0; i < n; i++) {
		char c = s[i];

		if (c == '%') {
			if (i + 2 >= n || strspn(s + i + 1, "0123456789abcdef"
							    "ABCDEF") < 2)
				return false;
			memcpy(hex, s + i + 1, 2);
			c = (char)strtoul(hex, NULL, 16);
			i += 2;
		}
		if (c >= 'A' && c <= 'Z')
			c = (char)(c + 32);
		if (c == '\0' || len + 2 >= HOST_SIZE ||
		    strchr("abcdefghijklmnopqrstuvwxyz0123456789-_.", c) == NULL)
			return false;
		host[len++] = c;
	}
	host[len] = '\0';
	if (is_literal(host, (char[INET6_ADDRSTRLEN]){0}))
		return len == n; /* nothing of it was %XX */
	if (len > 0 && host[len - 1] == '.')
		host[--len] = '\0';
	end = len;
	for (i = 0; i <= end; i++) {
		if (i < end && host[i] != '.') {
			label++;
			digits += host[i] >= '0' && host[i] <= '9';
			continue;
		}
		if (label == 0 || label > 63)
			return false;
		/* Whoever reads numbers would make an address of it. */
		if (i == end && (digits == label ||
				    (host[i - label] == '0' &&
					host[i - label + 1] == 'x')))
			return false;
		label = digits = 0;
		labels++;
	}
	return len <= 253 && (labels > 1 || strcmp(host, "localhost") == 0);
}

static bool
is_open(const char *host)
{
	size_t i;

	for (i = 0; i < addresses_n; i++) {
		if (strcmp(addresses[i].text, host) == 0)
			return addresses[i].open;
	}
	return false;
}

static bool
model(const char *url, char host[HOST_SIZE], unsigned *port)
{
	const char *p, *end, *colon, *after;
	char inner[INET6_ADDRSTRLEN];
	unsigned usual = 80;

	for (p = url; *p != '\0'; p++) {
		if (*p <= ' ' || *p > '~' || *p == '\\')
			return false;
	}
	if (strncmp(url, "http://", 7) == 0)
		p = url + 7;
	else if (strncmp(url, "https://", 8) == 0) {
		p = url + 8;
		usual = 443;
	} else
		return false;
	end = p + strcspn(p, "/?#");
	if (end == p || memchr(p, '@', (size_t)(end - p)) != NULL)
		return false;
	if (*p == '[') {
		after = memchr(p, ']', (size_t)(end - p));
		if (after == NULL || (size_t)(after - p) > sizeof(inner))
			return false;
		memcpy(inner, p + 1, (size_t)(after - p - 1));
		inner[after - p - 1] = '\0';
		if (strchr(inner, ':') == NULL || !is_literal(inner, host) ||
		    strcasecmp(inner, host) != 0)
			return false;
		after++;
	} else {
		colon = memchr(p, ':', (size_t)(end - p));
		after = colon == NULL ? end : colon;
		if (!model_name(p, (size_t)(after - p), host))
			return false;
	}
	*port = usual;
	if (after < end) {
		if (*after++ != ':' ||
		    strspn(after, "0123456789") < (size_t)(end - after) ||
		    end - after > 9)
			return false;
		if (after < end)
			*port = (unsigned)strtoul(after, NULL, 10);
		if (*port < 1 || *port > 65535)
			return false;
	}
	return model_granted(host, *port, usual) &&
	       (!is_literal(host, inner) || is_open(host));
}

/* --- random grants and URLs --- */

/* What fits of these three. */
static void
join(char out[HOST_SIZE], const char *a, const char *b, const char *c)
{
	strlcpy(out, a, HOST_SIZE);
	strlcat(out, b, HOST_SIZE);
	strlcat(out, c, HOST_SIZE);
}

static const char *const labels[] = {"a", "b", "ab", "a-b", "xn--bcher-kva",
    "a_b", "api", "x1", "1x", "0xg", "good", "evil"};
static const char *const tails[] = {"example", "test", "example.com", "good.test",
    "localhost", "co.uk"};

static void
random_name(char *out, bool pattern)
{
	static const char *const stars[] = {"*", "*", "a*", "*b", "x*1"};
	unsigned n;

	out[0] = '\0';
	if (roll(12) == 0) {
		join(out, pattern && roll(2) == 0 ? "*" : "localhost", "", "");
		return;
	}
	for (n = roll(3); n > 0; n--) {
		strlcat(out, pattern && roll(3) == 0 ? PICK(stars) : PICK(labels),
		    HOST_SIZE);
		strlcat(out, ".", HOST_SIZE);
	}
	strlcat(out, PICK(labels), HOST_SIZE);
	strlcat(out, ".", HOST_SIZE);
	strlcat(out, PICK(tails), HOST_SIZE);
}

static const unsigned ports[] = {0, 0, 0, 80, 443, 8080, 8443, 65535, 1};

/* The frontmatter's line of it, and what the worker is told. */
static void
new_globs(char *json, size_t size)
{
	char one[HOST_SIZE + 16];
	struct glob *g;

	strlcpy(json, "[", size);
	for (globs_n = 0; globs_n < 1 + roll(GLOBS_MAX - 1); globs_n++) {
		g = &globs[globs_n];
		if (addresses_n > 0 && roll(4) == 0)
			strlcpy(g->host, addresses[roll((unsigned)addresses_n)].text,
			    sizeof(g->host));
		else
			random_name(g->host, true);
		g->port = PICK(ports);
		snprintf(one, sizeof(one),
		    g->port == 0 ? "%s\"%s\"" : strchr(g->host, ':') == NULL
			? "%s\"%s:%u\""
			: "%s\"[%s]:%u\"",
		    globs_n == 0 ? "" : ",", g->host, g->port);
		strlcat(json, one, size);
	}
	strlcat(json, "]", size);
}

/* What a glob could mean: its stars become something. */
static void
fill(const char *glob, char *out)
{
	static const char *const fills[] = {"a", "b", "ab", "a.b", "", "."};

	out[0] = '\0';
	for (; *glob != '\0'; glob++) {
		size_t n = strlen(out);

		if (*glob == '*') {
			strlcat(out, PICK(fills), HOST_SIZE);
		} else {
			out[n] = *glob;
			out[n + 1] = '\0';
		}
	}
}

/* The same host in other words, or another one that looks like it. */
static void
disguise(char *host)
{
	static const char *const ends[] = {".", "..", ".evil.test", "x",
	    "%2eevil.test", "%00", "%2f", ":80", "@evil.test", ".1", ".0x1"};
	static const char *const behind[] = {"evil.test@", "evil.test/",
	    "evil.test?", "evil.test#", "evil.test\\", "x"};
	char copy[HOST_SIZE], hex[4];
	struct in_addr address;
	size_t n = strlen(host), at = roll((unsigned)n + 1);

	strlcpy(copy, host, sizeof(copy));
	switch (roll(8)) {
	case 0:
		if (at < n && host[at] >= 'a' && host[at] <= 'z')
			host[at] = (char)(host[at] - 32);
		break;
	case 1: /* %XX */
		snprintf(hex, sizeof(hex), "%%%02x", (unsigned char)copy[at]);
		if (at < n) {
			copy[at] = '\0';
			join(host, copy, hex, copy + at + 1);
		}
		break;
	case 2:
		strlcat(host, PICK(ends), HOST_SIZE);
		break;
	case 3:
	case 4:
		join(host, PICK(behind), copy, "");
		break;
	case 5:
		join(host, "[", copy, "]");
		break;
	case 6: /* one odd byte somewhere */
		if (at < n)
			host[at] = "_|~!$&'()*+,;=%<>\"`{}^.-:@[]\\ \t\x7f/?#"[roll(39)];
		break;
	default: /* as one number */
		snprintf(host, HOST_SIZE, "%u",
		    inet_pton(AF_INET, copy, &address) == 1
			? ntohl(address.s_addr)
			: roll(UINT32_MAX));
	}
}

static void
random_url(char out[URL_SIZE])
{
	static const char *const schemes[] = {"http://", "https://", "http://",
	    "https://", "http://", "https://", "http://", "https://", "HTTP://",
	    "http:/", "http:///", "ftp://", "//", "http:", "https:\\\\"};
	static const char *const rests[] = {"/", "", "/x?y#z", "?a=@b", "#@evil.test",
	    "/@evil.test/", "/\\", "/%00", "/a b", "//", "/../", "?", ";x", "/:1"};
	static const char *const odd_ports[] = {":", ":0", ":65536", ":080",
	    ":+80", ":80x", ":8 0", ":-1", ":99999999999", ":80:80", ":4294967376",
	    ":0443"};
	char host[HOST_SIZE];
	const struct glob *g = &globs[roll((unsigned)globs_n)];
	char port[32] = "";

	if (roll(3) != 0)
		fill(g->host, host);
	else if (roll(3) == 0)
		strlcpy(host, addresses[roll((unsigned)addresses_n)].text,
		    sizeof(host));
	else
		random_name(host, false);
	if (strchr(host, ':') != NULL && roll(10) != 0) {
		char copy[HOST_SIZE];

		strlcpy(copy, host, sizeof(copy));
		join(host, "[", copy, "]");
	}
	if (roll(4) == 0)
		disguise(host);
	if (roll(15) == 0)
		strlcpy(port, PICK(odd_ports), sizeof(port));
	else if (g->port != 0 && roll(4) != 0)
		snprintf(port, sizeof(port), ":%u", g->port);
	else if (roll(4) == 0)
		snprintf(port, sizeof(port), ":%u", PICK(ports));
	strlcpy(out, PICK(schemes), URL_SIZE);
	strlcat(out, host, URL_SIZE);
	strlcat(out, port, URL_SIZE);
	strlcat(out, PICK(rests), URL_SIZE);
}

/* --- the net worker --- */

static int
open_program(void)
{
	const char *binary = getenv("CYBEROS");
	char path[4096], *slash;

	strlcpy(path, binary == NULL ? "./cyberos" : binary, sizeof(path));
	slash = strrchr(path, '/');
	if (slash == NULL)
		return -1;
	strlcpy(slash, LIBEXEC_BESIDE "/" PROGRAM_NET,
	    sizeof(path) - (size_t)(slash - path));
	return open(path, O_PATH | O_CLOEXEC);
}

static void
become(int program_fd, int fd)
{
	char name[] = PROGRAM_NET, *argv[] = {name, NULL}, *envp[] = {NULL};

	if (dup2(fd, 0) == -1 ||
	    (geteuid() == 0 && (setgroups(0, NULL) == -1 ||
				   setresgid(NOBODY, NOBODY, NOBODY) == -1 ||
				   setresuid(NOBODY, NOBODY, NOBODY) == -1)))
		_exit(1);
	fexecve(program_fd, argv, envp);
	_exit(1);
}

static void
tell(uint32_t kind, uint64_t id, const void *p, size_t n)
{
	struct http_head head = {.kind = kind, .len = (uint32_t)n, .id = id};

	if (write(channel_fd, &head, sizeof(head)) != (ssize_t)sizeof(head) ||
	    (n > 0 && write(channel_fd, p, n) != (ssize_t)n)) {
		printf("Bail out! the net worker is gone\n");
		exit(1);
	}
}

static void
end_worker(void)
{
	if (worker == -1)
		return;
	close(channel_fd);
	waitpid(worker, NULL, 0);
	worker = -1;
}

static void
start_worker(int program_fd, const char *list)
{
	char config[4096];
	int fds[2];

	end_worker();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == -1)
		exit(99);
	worker = fork();
	if (worker == 0)
		become(program_fd, fds[1]);
	close(fds[1]);
	channel_fd = fds[0];
	snprintf(config, sizeof(config),
	    "{\"domains\":[%s],\"networks\":[],\"ca_file\":false}", list);
	tell(HTTP_CONFIG, 0, config, strlen(config));
}

static void
ask(uint64_t id, const char *url)
{
	cJSON *request = cJSON_CreateObject();
	struct http_call sizes = {0, 0};
	char both[URL_SIZE * 3], *text;

	cJSON_AddStringToObject(request, "url", url);
	cJSON_AddStringToObject(request, "method", "GET");
	text = cJSON_PrintUnformatted(request);
	sizes.json_len = (uint32_t)strlen(text);
	memcpy(both, &sizes, sizeof(sizes));
	memcpy(both + sizeof(sizes), text, sizes.json_len);
	tell(HTTP_CALL, id, both, sizeof(sizes) + sizes.json_len);
	tell(HTTP_DROP, id, NULL, 0);
	free(text);
	cJSON_Delete(request);
}

static void
hear(void *p, size_t n)
{
	char *at = p;
	ssize_t got;

	for (; n > 0; at += got, n -= (size_t)got) {
		got = read(channel_fd, at, n);
		if (got <= 0) {
			printf("Bail out! the net worker says nothing\n");
			exit(1);
		}
	}
}

/* --- one after the other --- */

static void
new_grant(int program_fd)
{
	char list[1024], text[2048];
	struct manifest m;

	new_globs(list, sizeof(list));
	snprintf(text, sizeof(text),
	    "---\nid: unit\nversion: 1.0.0\ndescription: a test\n"
	    "allowed_tools: [HttpFetch]\nallowed_memory_scopes: []\n"
	    "x-allowed-domains: %s\n---\n",
	    list);
	grant_free(grant);
	if (manifest_parse(text, strlen(text), &policy, registry_names(),
		"1.0.0", &m) == -1)
		exit(99);
	if (m.errors_n > 0) {
		printf("Bail out! %s: %s\n", list, m.errors[0].message);
		exit(1);
	}
	grant = grant_new(&m, &policy);
	manifest_clear(&m);
	start_worker(program_fd, list);
}

static void
compare(const char *url, const struct http_verdict *v)
{
	char host[HOST_SIZE] = "";
	unsigned port = 0;
	const char *why;
	bool want = model(url, host, &port), got;
	size_t i;

	/* What the broker does before and after. */
	got = host_url_text(url, &why) && v->ruling == HTTP_MAY &&
	      grant_host(grant, v->host, (uint16_t)v->port,
		  v->port == (strncmp(url, "https:", 6) == 0 ? 443U : 80U)) ==
		  REASON_NONE;
	allowed += got;
	denied += !got;
	if (got == want &&
	    (!got || (strcmp(v->host, host) == 0 && v->port == port)))
		return;
	if (wrong++ >= 10)
		return;
	printf("# %s\n#   is %s %s:%u\n#   and should be %s %s:%u\n", url,
	    got ? "allowed" : "denied", v->host, v->port,
	    want ? "allowed" : "denied", host, port);
	for (i = 0; i < globs_n; i++)
		printf("#   grant %s:%u\n", globs[i].host, globs[i].port);
}

static void
some_urls(uint64_t *id)
{
	static char urls[TOGETHER][URL_SIZE];
	struct http_verdict v;
	struct http_head head;
	size_t i;

	for (i = 0; i < TOGETHER; i++) {
		random_url(urls[i]);
		ask(++*id, urls[i]);
	}
	for (i = 0; i < TOGETHER; i++) {
		hear(&head, sizeof(head));
		hear(&v, sizeof(v));
		if (head.id != *id - TOGETHER + 1 + i)
			exit(99);
		compare(urls[i], &v);
	}
}

static void
read_addresses(void)
{
	static const char *const more[][2] = {
	    {"8.8.8.8", "allow"}, {"93.184.216.34", "allow"},
	    {"2620:fe::fe", "allow"}};
	FILE *f = fopen("t/vectors/http-policy/address.tsv", "r");
	char line[512], *at, *text, *verdict;
	size_t i;

	for (i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		strlcpy(addresses[addresses_n].text, more[i][0],
		    INET6_ADDRSTRLEN);
		addresses[addresses_n++].open = true;
	}
	while (f != NULL && fgets(line, sizeof(line), f) != NULL &&
	       addresses_n < ADDRESSES_MAX) {
		at = line;
		text = strsep(&at, "\t\n");
		verdict = strsep(&at, "\t\n");
		if (line[0] == '#' ||
		    !is_literal(text, addresses[addresses_n].text))
			continue;
		addresses[addresses_n++].open = strcmp(verdict, "allow") == 0;
	}
	if (f != NULL)
		fclose(f);
}

int
main(void)
{
	const char *seed = getenv("MODEL_SEED"), *s = getenv("MODEL_TRIES");
	long n, tries = s == NULL ? 20000 : atol(s);
	uint64_t id = 0;
	int program_fd = open_program(), i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	state = seed != NULL ? strtoull(seed, NULL, 10)
			     : (uint64_t)time(NULL) * 1000003 +
				   (uint64_t)getpid();
	printf("# MODEL_SEED=%llu\n", (unsigned long long)state);
	if (state == 0 || program_fd == -1 || policy_init(&policy) == -1)
		exit(99);
	read_addresses();
	for (n = 0; n < tries; n += TRIES_A_GRANT) {
		new_grant(program_fd);
		for (i = 0; i < TRIES_A_GRANT / TOGETHER; i++)
			some_urls(&id);
	}
	end_worker();
	printf("# URLs: %ld allowed, %ld denied\n", allowed, denied);
	ok(addresses_n > 50 && allowed > n / 20 && denied > n / 5,
	    "URLs: the tries are worth it");
	is_int(wrong, 0, "URLs: allowed is what a grant matches, and nothing else");
	return done();
}
