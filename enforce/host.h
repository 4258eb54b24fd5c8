#ifndef ENFORCE_HOST_H
#define ENFORCE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "enforce/glob.h"

/*
 * What of a URL and of an address can be judged without a URL library and
 * without a network (SPEC 4.1, 7.8): the text, the host, header fields, and
 * whether an address is one that the public internet may have.
 */

#define HOST_SIZE	256	/* a clean host and its NUL */
#define HOST_RESOURCE	(HOST_SIZE + 8)	/* "[host]:port" */

/* Where a request goes, as the rules look at it. */
struct host_target {
	char		 host[HOST_SIZE];	/* clean; no brackets */
	uint16_t	 port;
	bool		 default_port;	/* the one that its scheme means */
	bool		 https;
};

/*
 * May this text go to a URL parser? Printable ASCII without blank and
 * backslash, exactly http:// or https:// in front and no further slash. False with *why a constant part of a sentence.
 */
bool	host_url_text(const char *url, const char **why);

/*
 * The one form of a host that a URL parser has found (an IPv6 address in
 * brackets): lower case, one final dot of a name removed, brackets off, an
 * address in its usual spelling. False, and out untouched, for anything that
 * is neither a name of two or more labels (or localhost) nor an address.
 */
bool	host_clean(const char *raw, char out[HOST_SIZE]);

/*
 * The host as somebody wrote it in a URL, or in a reference to one, without
 * brackets and no more of it than fits. False, and out untouched, for a
 * reference that leaves the host as it is. No parser: it tells only whether
 * what a parser has found is spelled so.
 */
bool	host_written(const char *text, char out[HOST_SIZE]);

/* Is a clean host an address? Then it is in *ss, else that is untouched. */
bool	host_literal(const char *clean, struct sockaddr_storage *ss);

/* "host:port" for rows, an IPv6 address in brackets. */
void	host_resource(const struct host_target *, char out[HOST_RESOURCE]);

/* May a skill send this header field? False with *why. */
bool	host_header(const char *name, const char *value, const char **why);

/*
 * Does a value (a media type, say), which is UTF-8, fit into a header field?
 */
bool	host_header_value(const char *value, const char **why);

struct host_network {
	uint8_t		 bytes[16];	/* an IPv4 network is mapped */
	unsigned	 bits;		/* of these 128 */
};

/* ADDRESS or ADDRESS/BITS. False when it is neither. */
bool	host_network(const char *text, struct host_network *);

/*
 * Is it an address of the public internet? Loopback, private, link-local,
 * multicast, reserved and cloud metadata addresses are not, nor is an IPv6
 * address that wraps one of these, nor what is no IP address at all.
 */
bool	host_public(const struct sockaddr *);

/* Is it, or what it wraps, in one of these networks? */
bool	host_in_networks(const struct host_network *, size_t n,
	    const struct sockaddr *);

/*
 * The ports that a set of domain globs names, and 80 and 443 when one of them
 * names none: at most max of them into ports. Returns how many there are.
 */
size_t	host_ports(const struct glob_set *, uint16_t *ports, size_t max);

#endif
