/*
 * Hosts and addresses, against a skill that wants to reach what it was not
 * given and a name server that helps it. A text that two parsers could read in
 * two ways is refused before the first one sees it; a host has exactly one form
 * before any rule is asked; and an address is public only if it is known to be:
 * of IPv6 what is not global unicast is not, and what wraps an IPv4 address is
 * judged as that one.
 */

#include "enforce/host.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_LEN 253
#define LABEL_MAX_LEN 63
#define MAPPED_BITS 96

#define PORT_HTTP 80
#define PORT_HTTPS 443

/* --- the text --- */

bool
host_url_text(const char *url, const char **why)
{
	const unsigned char *p;
	size_t scheme;

	for (p = (const unsigned char *)url; *p != '\0'; p++) {
		if (*p > 0x7e) {
			*why = "is ASCII only; write the xn-- form of a host "
			       "and %XX in a path";
			return false;
		}
		if (*p <= ' ' || *p == '\\') {
			*why = "holds a blank, a control character or a "
			       "backslash";
			return false;
		}
	}
	if (strncmp(url, "http://", 7) == 0)
		scheme = 7;
	else if (strncmp(url, "https://", 8) == 0)
		scheme = 8;
	else {
		*why = "must begin with http:// or https://";
		return false;
	}
	if (url[scheme] == '\0' || url[scheme] == '/') {
		*why = "has no host";
		return false;
	}
	return true;
}

/* --- the host --- */

/* Would somebody's parser take the last label for (a part of) an address? */
static bool
ends_in_number(const char *host)
{
	const char *last = strrchr(host, '.');

	last = last == NULL ? host : last + 1;
	return last[strspn(last, "0123456789")] == '\0' ||
	       (last[0] == '0' && last[1] == 'x');
}

static bool
is_name(const char *host)
{
	const char *p;
	size_t label = 0;
	bool dotted = false;

	if (strlen(host) > NAME_MAX_LEN)
		return false;
	for (p = host; *p != '\0'; p++) {
		if (*p == '.') {
			if (label == 0)
				return false;
			label = 0;
			dotted = true;
		} else if ((*p >= 'a' && *p <= 'z') ||
			   (*p >= '0' && *p <= '9') || *p == '-' || *p == '_') {
			if (++label > LABEL_MAX_LEN)
				return false;
		} else {
			return false;
		}
	}
	/* A single label would be looked up in the host's own domains. */
	return label > 0 && (dotted || strcmp(host, "localhost") == 0);
}

static bool
clean_six(const char *raw, size_t len, char out[HOST_SIZE])
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr a;

	if (len < 2 || raw[len - 1] != ']' || len - 2 >= sizeof(text))
		return false;
	memcpy(text, raw + 1, len - 2);
	text[len - 2] = '\0';
	return inet_pton(AF_INET6, text, &a) == 1 &&
	       inet_ntop(AF_INET6, &a, out, HOST_SIZE) != NULL;
}

bool
host_clean(const char *raw, char out[HOST_SIZE])
{
	char name[HOST_SIZE];
	struct in_addr a;
	size_t i, len = strlen(raw);
	bool dot = false;

	if (raw[0] == '[')
		return clean_six(raw, len, out);
	if (len == 0 || len >= sizeof(name))
		return false;
	for (i = 0; i <= len; i++)
		name[i] = raw[i] >= 'A' && raw[i] <= 'Z'
			      ? (char)(raw[i] - 'A' + 'a')
			      : raw[i];
	if (name[len - 1] == '.') {
		name[--len] = '\0';
		dot = true;
	}
	if (ends_in_number(name)) {
		/* inet_pton takes the usual spelling only. */
		if (dot || inet_pton(AF_INET, name, &a) != 1)
			return false;
	} else if (!is_name(name)) {
		return false;
	}
	memcpy(out, name, len + 1);
	return true;
}

bool
host_written(const char *text, char out[HOST_SIZE])
{
	size_t n = 0;

	if (strncasecmp(text, "http:", 5) == 0)
		text += 5;
	else if (strncasecmp(text, "https:", 6) == 0)
		text += 6;
	else if (strncmp(text, "//", 2) != 0)
		return false;
	text += strspn(text, "/");
	if (*text == '[') {
		text++;
		n = strcspn(text, "]");
	} else {
		while (text[n] > ' ' && text[n] < 0x7f &&
		       strchr(":/?#", text[n]) == NULL)
			n++;
	}
	if (n >= HOST_SIZE)
		n = HOST_SIZE - 1;
	memcpy(out, text, n);
	out[n] = '\0';
	return true;
}

bool
host_literal(const char *clean, struct sockaddr_storage *ss)
{
	struct sockaddr_in four = {.sin_family = AF_INET};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};

	if (inet_pton(AF_INET, clean, &four.sin_addr) == 1) {
		memset(ss, 0, sizeof(*ss));
		memcpy(ss, &four, sizeof(four));
		return true;
	}
	if (inet_pton(AF_INET6, clean, &six.sin6_addr) == 1) {
		memset(ss, 0, sizeof(*ss));
		memcpy(ss, &six, sizeof(six));
		return true;
	}
	return false;
}

void
host_resource(const struct host_target *t, char out[HOST_RESOURCE])
{
	snprintf(out, HOST_RESOURCE,
	    strchr(t->host, ':') == NULL ? "%s:%u" : "[%s]:%u", t->host,
	    (unsigned)t->port);
}

/* --- header fields --- */

/* What belongs to the connection, to us, or to the trace. */
static const char *const ours[] = {"host", "content-length",
    "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade",
    "expect", "http2-settings", "traceparent", "tracestate"};

static bool
is_token(const char *s)
{
	static const char others[] = "!#$%&'*+-.^_`|~";

	if (*s == '\0')
		return false;
	for (; *s != '\0'; s++) {
		if (!(*s >= 'a' && *s <= 'z') && !(*s >= 'A' && *s <= 'Z') &&
		    !(*s >= '0' && *s <= '9') && strchr(others, *s) == NULL)
			return false;
	}
	return true;
}

bool
host_header_value(const char *value, const char **why)
{
	const unsigned char *p;
	bool blank = true;

	for (p = (const unsigned char *)value; *p != '\0'; p++) {
		if (*p < ' ' || *p == 0x7f ||
		    (p[0] == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f)) {
			*why = "a value holds a control character";
			return false;
		}
		blank = blank && *p == ' ';
	}
	if (blank)
		*why = "a value is empty";
	return !blank;
}

bool
host_header(const char *name, const char *value, const char **why)
{
	size_t i;

	if (!is_token(name)) {
		*why = "a name is no header field name";
		return false;
	}
	for (i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		if (strcasecmp(name, ours[i]) == 0)
			break;
	}
	if (i < sizeof(ours) / sizeof(ours[0]) ||
	    strncasecmp(name, "proxy-", 6) == 0) {
		*why = "Host, Connection, Content-Length, traceparent and "
		       "their like are the broker's";
		return false;
	}
	return host_header_value(value, why);
}

/* --- addresses --- */

struct range {
	const char *first;
	unsigned bits;
};

/* Of IPv4, what is not for the public (IANA's registry, and one of a cloud). */
static const struct range closed_four[] = {
    {"0.0.0.0", 8},	   /* this network */
    {"10.0.0.0", 8},	   /* private */
    {"100.64.0.0", 10},	   /* shared address space */
    {"127.0.0.0", 8},	   /* loopback */
    {"168.63.129.16", 32}, /* a cloud's own, seen from inside a host */
    {"169.254.0.0", 16},   /* link-local, metadata */
    {"172.16.0.0", 12},	   /* private */
    {"192.0.0.0", 24},	   /* protocol assignments */
    {"192.0.2.0", 24},	   /* documentation */
    {"192.88.99.0", 24},   /* 6to4 relays */
    {"192.168.0.0", 16},   /* private */
    {"198.18.0.0", 15},	   /* benchmarking */
    {"198.51.100.0", 24},  /* documentation */
    {"203.0.113.0", 24},   /* documentation */
    {"224.0.0.0", 3},	   /* multicast, reserved, broadcast */
};

/* Global unicast of IPv6, and what of it is not for the public. */
static const struct range open_six = {"2000::", 3};
static const struct range closed_six[] = {
    {"2001::", 23},	/* protocol assignments, Teredo among them */
    {"2001:db8::", 32}, /* documentation */
    {"3fff::", 20},	/* documentation */
};

static const struct range nat64 = {"64:ff9b::", 96};
static const struct range six_to_four = {"2002::", 16};

static bool
same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole) != 0)
		return false;
	return rest == 0 ||
	       ((a[whole] ^ b[whole]) & (0xff << (8 - rest) & 0xff)) == 0;
}

static bool
in_range(const struct range *r, int family, const uint8_t *bytes)
{
	uint8_t first[16];

	return inet_pton(family, r->first, first) == 1 &&
	       same_bits(first, bytes, r->bits);
}

static void
map_four(const uint8_t four[4], uint8_t out[16])
{
	memset(out, 0, 10);
	out[10] = out[11] = 0xff;
	memcpy(out + 12, four, 4);
}

static bool
is_mapped(const uint8_t bytes[16])
{
	static const uint8_t prefix[12] = {
	    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	return memcmp(bytes, prefix, sizeof(prefix)) == 0;
}

/* Any IP address in 16 bytes; one of IPv4 is the same as its mapped form. */
static bool
to_bytes(const struct sockaddr *sa, uint8_t out[16])
{
	struct sockaddr_in four;
	struct sockaddr_in6 six;

	if (sa->sa_family == AF_INET) {
		memcpy(&four, sa, sizeof(four));
		map_four((const uint8_t *)&four.sin_addr, out);
		return true;
	}
	if (sa->sa_family == AF_INET6) {
		memcpy(&six, sa, sizeof(six));
		memcpy(out, &six.sin6_addr, 16);
		return true;
	}
	return false;
}

/* The IPv4 address that gateways make of this one. */
static bool
unwrap(const uint8_t bytes[16], uint8_t out[16])
{
	if (in_range(&nat64, AF_INET6, bytes)) {
		map_four(bytes + 12, out);
		return true;
	}
	if (in_range(&six_to_four, AF_INET6, bytes)) {
		map_four(bytes + 2, out);
		return true;
	}
	return false;
}

static bool
four_public(const uint8_t four[4])
{
	size_t i;

	for (i = 0; i < sizeof(closed_four) / sizeof(closed_four[0]); i++) {
		if (in_range(&closed_four[i], AF_INET, four))
			return false;
	}
	return true;
}

bool
host_public(const struct sockaddr *sa)
{
	uint8_t bytes[16], inner[16];
	size_t i;

	if (!to_bytes(sa, bytes))
		return false;
	if (is_mapped(bytes))
		return four_public(bytes + 12);
	if (unwrap(bytes, inner))
		return four_public(inner + 12);
	if (!in_range(&open_six, AF_INET6, bytes))
		return false;
	for (i = 0; i < sizeof(closed_six) / sizeof(closed_six[0]); i++) {
		if (in_range(&closed_six[i], AF_INET6, bytes))
			return false;
	}
	return true;
}

bool
host_network(const char *text, struct host_network *out)
{
	char address[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	size_t len = slash == NULL ? strlen(text) : (size_t)(slash - text);
	struct host_network net;
	uint8_t four[4];
	unsigned long bits, most = 128;
	char *end;

	if (len >= sizeof(address))
		return false;
	memcpy(address, text, len);
	address[len] = '\0';
	if (inet_pton(AF_INET, address, four) == 1) {
		map_four(four, net.bytes);
		most = 32;
	} else if (inet_pton(AF_INET6, address, net.bytes) != 1) {
		return false;
	}
	bits = most;
	if (slash != NULL) {
		if (!isdigit((unsigned char)slash[1]))
			return false;
		bits = strtoul(slash + 1, &end, 10);
		if (*end != '\0' || bits > most)
			return false;
	}
	net.bits = (unsigned)bits + (most == 32 ? MAPPED_BITS : 0);
	*out = net;
	return true;
}

static bool
in_any(const struct host_network *nets, size_t n, const uint8_t bytes[16])
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (same_bits(nets[i].bytes, bytes, nets[i].bits))
			return true;
	}
	return false;
}

bool
host_in_networks(
    const struct host_network *nets, size_t n, const struct sockaddr *sa)
{
	uint8_t bytes[16], inner[16];

	if (!to_bytes(sa, bytes))
		return false;
	return in_any(nets, n, bytes) ||
	       (unwrap(bytes, inner) && in_any(nets, n, inner));
}

/* --- ports --- */

/* The port that a domain glob names, or 0. The glob has been compiled. */
static uint16_t
glob_port(const char *pattern)
{
	const char *colon = strrchr(pattern, ':');
	const char *bracket = strrchr(pattern, ']');

	if (colon == NULL || (bracket != NULL && bracket > colon))
		return 0;
	/* More colons and no bracket: a bare IPv6 address. */
	if (bracket == NULL && strchr(pattern, ':') != colon)
		return 0;
	return (uint16_t)strtoul(colon + 1, NULL, 10);
}

static size_t
add_port(uint16_t port, uint16_t *ports, size_t n, size_t max)
{
	size_t i;

	for (i = 0; i < n && i < max; i++) {
		if (ports[i] == port)
			return n;
	}
	if (n < max)
		ports[n] = port;
	return n + 1;
}

size_t
host_ports(const struct glob_set *set, uint16_t *ports, size_t max)
{
	size_t i, n = 0;
	uint16_t port;

	for (i = 0; i < glob_set_count(set); i++) {
		port = glob_port(glob_set_pattern(set, i));
		if (port != 0) {
			n = add_port(port, ports, n, max);
			continue;
		}
		n = add_port(PORT_HTTP, ports, n, max);
		n = add_port(PORT_HTTPS, ports, n, max);
	}
	return n;
}
