/*
 * Hosts and addresses without a network: the shared table of addresses, and
 * tables of our own for texts, hosts, header fields, networks and ports.
 */

#include <arpa/inet.h>
#include <netinet/in.h>

#include "enforce/host.h"
#include "t/unit/tap.h"

static bool
read_address(const char *text, struct sockaddr_storage *ss)
{
	struct sockaddr_in four = {.sin_family = AF_INET};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};

	memset(ss, 0, sizeof(*ss));
	if (inet_pton(AF_INET, text, &four.sin_addr) == 1) {
		memcpy(ss, &four, sizeof(four));
		return true;
	}
	if (inet_pton(AF_INET6, text, &six.sin6_addr) != 1)
		return false;
	memcpy(ss, &six, sizeof(six));
	return true;
}

static bool
is_public(const char *text)
{
	struct sockaddr_storage ss;

	if (!read_address(text, &ss)) {
		ok(false, "%s is no address", text);
		return false;
	}
	return host_public((struct sockaddr *)&ss);
}

static void
test_vectors(void)
{
	FILE *f = fopen("t/vectors/http-policy/address.tsv", "r");
	char line[512], *at, *address, *verdict;
	unsigned n = 0, wrong = 0;

	if (!ok(f != NULL, "the table of addresses"))
		return;
	while (fgets(line, sizeof(line), f) != NULL) {
		if (line[0] == '#')
			continue;
		at = line;
		address = strsep(&at, "\t\n");
		verdict = strsep(&at, "\t\n");
		n++;
		if (is_public(address) == (strcmp(verdict, "allow") == 0))
			continue;
		wrong++;
		printf("# %s should be: %s\n", address, verdict);
	}
	fclose(f);
	ok(wrong == 0 && n >= 54, "%u addresses of the table", n);
}

static void
test_addresses(void)
{
	static const char *const open[] = {"9.255.255.255", "11.0.0.0",
	    "100.63.255.255", "126.255.255.255", "128.0.0.0", "168.63.129.15",
	    "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.0.1",
	    "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.88.98.255",
	    "192.88.100.0", "198.17.255.255", "203.0.112.255", "203.0.114.0",
	    "223.255.255.255", "2000::1", "2001:200::1", "2003::1",
	    "2620:fe::fe", "3ffe::1", "64:ff9b::101:101", "2002:808:808::1",
	    "::ffff:1.1.1.1"};
	static const char *const closed[] = {"0.255.255.255", "10.255.255.255",
	    "100.100.100.200", "127.1.2.3", "169.254.170.2", "192.0.0.192",
	    "192.168.255.255", "223.255.255.255.", "225.1.2.3",
	    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
	    "64:ff9b::a9fe:a9fe", "64:ff9b:0:0:1::a00:1", "2002:a9fe:a9fe::1",
	    "2002:c0a8:1::", "2001:0:1::1", "2001:1ff:ffff::1",
	    "2001:db8:ffff::1", "fd00:ec2::254", "fe80::1", "ff0e::1",
	    "4000::1", "1fff::1", "::10.0.0.1"};
	struct sockaddr_storage ss;
	unsigned wrong = 0;
	size_t i;

	for (i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
		if (!is_public(open[i])) {
			printf("# %s is public\n", open[i]);
			wrong++;
		}
	}
	for (i = 0; i < sizeof(closed) / sizeof(closed[0]); i++) {
		if (read_address(closed[i], &ss) &&
		    host_public((struct sockaddr *)&ss)) {
			printf("# %s is not public\n", closed[i]);
			wrong++;
		}
	}
	memset(&ss, 0, sizeof(ss));
	ss.ss_family = AF_UNIX;
	ok(wrong == 0 && !host_public((struct sockaddr *)&ss),
	    "addresses beside the borders, and what is none");
}

static void
test_texts(void)
{
	static const char *const good[] = {"http://a.b/", "https://a.b",
	    "http://[::1]/", "http://a.b/?q=%20#x", "http://a@b/"};
	static const char *const bad[] = {"", "http:", "http:/a.b/",
	    "http:///a.b/", "https:///a", "http:a.b", "//a.b/", "a.b/",
	    "ftp://a.b/", "file:///etc/passwd", " http://a.b/", "http://a.b/ x",
	    "http://a.b/\r\nX: y", "http://a.b\\@c.d/", "http://a.b/\x7f",
	    "http://\xc3\xbc.b/", "http://", "https://", "httpx://a.b/",
	    "HTTP://a.b/", "http://a.b/\t"};
	const char *why;
	unsigned wrong = 0;
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		wrong += !host_url_text(good[i], &why);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why = NULL;
		if (host_url_text(bad[i], &why) || why == NULL) {
			printf("# passes: %s\n", bad[i]);
			wrong++;
		}
	}
	is_int(wrong, 0, "texts of URLs");
}

static void
test_hosts(void)
{
	static const struct {
		const char *raw;
		const char *clean; /* NULL: refused */
	} rows[] = {{"Example.COM", "example.com"},
	    {"example.com.", "example.com"}, {"example.com..", NULL},
	    {".example.com", NULL}, {"a..b", NULL}, {".", NULL}, {"", NULL},
	    {"localhost", "localhost"}, {"LOCALHOST.", "localhost"},
	    {"intranet", NULL},
	    {"xn--bcher-kva.example", "xn--bcher-kva.example"},
	    {"A_b.example", "a_b.example"}, {"a_b", NULL},
	    {"_x.a_.example", "_x.a_.example"}, {"a|b.example", NULL}, {"a%2eb", NULL},
	    {"127.0.0.1", "127.0.0.1"}, {"127.0.0.1.", NULL}, {"127.1", NULL},
	    {"0x7f.1", NULL}, {"2130706433", NULL}, {"a.0x7f", NULL},
	    {"a.1", NULL}, {"256.256.256.256", NULL}, {"01.2.3.4", NULL},
	    {"[::1]", "::1"}, {"[0:0:0:0:0:0:0:1]", "::1"},
	    {"[::FFFF:7f00:1]", "::ffff:127.0.0.1"}, {"[::1", NULL},
	    {"[]", NULL}, {"[", NULL}, {"[::1%25eth0]", NULL}, {"[::1]a", NULL},
	    {"::1", NULL}};
	char out[HOST_SIZE], longest[400];
	unsigned wrong = 0;
	bool clean;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		strlcpy(out, "untouched", sizeof(out));
		clean = host_clean(rows[i].raw, out);
		if (clean == (rows[i].clean != NULL) &&
		    strcmp(out, clean ? rows[i].clean : "untouched") == 0)
			continue;
		wrong++;
		printf("# %s: %s\n", rows[i].raw, out);
	}
	is_int(wrong, 0, "hosts in their one form");
	memset(longest, 'a', sizeof(longest));
	for (i = 50; i < sizeof(longest); i += 51)
		longest[i] = '.';
	longest[253] = '\0';
	ok(host_clean(longest, out), "a name of 253 characters");
	longest[253] = 'a';
	longest[254] = '\0';
	ok(!host_clean(longest, out), "and none of 254");
	longest[399] = '\0';
	longest[254] = 'a';
	ok(!host_clean(longest, out), "nor of 399");
}

static void
test_written(void)
{
	static const struct {
		const char *text, *host;
	} rows[] = {{"http://127.1/", "127.1"}, {"https://A.b:8/x", "A.b"},
	    {"http://%31.0.0.1?x", "%31.0.0.1"}, {"http://a.b#c", "a.b"},
	    {"http://[::1]:80/", "::1"}, {"http://[0::1", "0::1"},
	    {"HTTPS://a.b", "a.b"}, {"http:/a.b/", "a.b"},
	    {"http:///a.b/", "a.b"}, {"http:a.b", "a.b"}, {"//a.b/c", "a.b"},
	    {"//a b/c", "a"}, {"//a\xff/c", "a"}, {"http://", ""}, {"", NULL},
	    {"/a.b/", NULL}, {"a.b", NULL}, {"?//a.b", NULL},
	    {"ftp://a.b/", NULL}};
	char out[HOST_SIZE], longest[2 * HOST_SIZE] = "//";
	unsigned wrong = 0;
	bool has;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		strlcpy(out, "untouched", sizeof(out));
		has = host_written(rows[i].text, out);
		if (has == (rows[i].host != NULL) &&
		    strcmp(out, has ? rows[i].host : "untouched") == 0)
			continue;
		wrong++;
		printf("# %s: %s\n", rows[i].text, out);
	}
	is_int(wrong, 0, "hosts as they are written");
	memset(longest + 2, 'a', sizeof(longest) - 3);
	ok(host_written(longest, out) && strlen(out) == HOST_SIZE - 1,
	    "and no more than fits");
}

static void
test_fields(void)
{
	static const char *const bad[] = {"Host", "host", "Content-Length",
	    "Transfer-Encoding", "connection", "Keep-Alive", "TE", "Trailer",
	    "Upgrade", "Expect", "Proxy-Authorization", "proxy-x",
	    "traceparent", "TraceState", "HTTP2-Settings", "", "a b",
	    "a:", "a\r\n", "\xc3\xbc", "X;", "(x)"};
	static const char *const values[] = {
	    "", " ", "   ", "a\r\nB: c", "a\n", "\x01", "a\x7f", "a\tb",
	    "a\xc2\x80", "\xc2\x85z", "a\xc2\x9f"};
	const char *why;
	unsigned wrong = 0;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		wrong += host_header(bad[i], "x", &why);
	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		wrong += host_header("X-A", values[i], &why);
	wrong += !host_header("X-A", "b c", &why);
	wrong += !host_header("X-A", "\xc2\xa0\xc3\x85\xe2\x82\x80", &why);
	wrong += !host_header("Authorization", "Bearer x", &why);
	wrong += !host_header("tea", "x", &why);
	is_int(wrong, 0, "header fields");
}

static bool
in_network(const char *network, const char *address)
{
	struct sockaddr_storage ss;
	struct host_network n;

	return host_network(network, &n) && read_address(address, &ss) &&
	       host_in_networks(&n, 1, (struct sockaddr *)&ss);
}

static void
test_networks(void)
{
	struct host_network n;

	ok(in_network("10.0.0.0/8", "10.255.0.1") &&
		in_network("10.1.0.0/9", "10.127.0.1") &&
		in_network("0.0.0.0/0", "8.8.8.8") &&
		in_network("127.0.0.1", "127.0.0.1") &&
		in_network("10.0.0.0/8", "::ffff:10.0.0.1") &&
		in_network("10.0.0.0/8", "64:ff9b::a00:1") &&
		in_network("fc00::/7", "fd12::1") && in_network("::1", "::1"),
	    "what lies in a network");
	ok(!in_network("10.0.0.0/8", "11.0.0.1") &&
		!in_network("10.1.0.0/9", "10.128.0.1") &&
		!in_network("127.0.0.1", "127.0.0.2") &&
		!in_network("0.0.0.0/0", "::1") &&
		!in_network("0.0.0.0/0", "fe80::1") &&
		!in_network("::1", "127.0.0.1") &&
		!in_network("fc00::/7", "fe00::1"),
	    "what does not");
	ok(!host_network("10.0.0.0/33", &n) && !host_network("10/8", &n) &&
		!host_network("", &n) && !host_network("::1/129", &n) &&
		!host_network("10.0.0.0/", &n) &&
		!host_network("10.0.0.0/-1", &n) &&
		!host_network("10.0.0.0/8x", &n),
	    "what is none");
}

static void
test_ports(void)
{
	static const char *const globs[] = {"a.example", "b.example:8443",
	    "[2001:db8::1]:99", "2001:db8::2", "*.c.example:8443"};
	struct glob_set *set = glob_set_new(GLOB_DOMAIN);
	uint16_t ports[8];
	const char *why;
	size_t i;

	for (i = 0; i < sizeof(globs) / sizeof(globs[0]); i++)
		glob_set_add(set, globs[i], strlen(globs[i]), &why);
	is_int((long long)host_ports(set, ports, 8), 4, "four ports");
	ok(ports[0] == 80 && ports[1] == 443 && ports[2] == 8443 &&
		ports[3] == 99,
	    "the right ones");
	glob_set_free(set);
}

static void
test_resources(void)
{
	struct host_target t = {.host = "::1", .port = 80};
	char out[HOST_RESOURCE];

	host_resource(&t, out);
	is_str(out, "[::1]:80", "an address in brackets");
	strlcpy(t.host, "a.example", sizeof(t.host));
	host_resource(&t, out);
	is_str(out, "a.example:80", "a name");
}

int
main(void)
{
	test_vectors();
	test_addresses();
	test_texts();
	test_hosts();
	test_written();
	test_fields();
	test_networks();
	test_ports();
	test_resources();
	return done();
}
