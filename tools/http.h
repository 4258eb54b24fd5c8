#ifndef TOOLS_HTTP_H
#define TOOLS_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "audit/log.h"
#include "enforce/host.h"
#include "tools/call.h"
#include "tools/registry.h"

/*
 * HttpFetch and HttpPost (SPEC 7.8). The broker has no URL library and no
 * network: both are in cyberos-net, a program of its own that is started once
 * for an invocation. For each call the broker sends the request, hears what
 * the URL means to the library, records that, says go, and hears the result.
 * What it hears is taken to be hostile.
 */

#define HTTP_MS		30000			/* a call, redirects included */
#define HTTP_HOPS	5			/* redirects */
#define HTTP_HEADERS	((size_t)256 * 1024)	/* of all its answers */
#define HTTP_BODY	((size_t)16 * 1024 * 1024)	/* decompressed */
#define HTTP_URL	((size_t)2 * 1024 * 1024)

/* --- between broker and net worker: a head, then len bytes; one build --- */

enum http_kind {
	/* to the net worker */
	HTTP_CONFIG,	/* JSON; once, first */
	HTTP_CALL,	/* struct http_call, JSON, body */
	HTTP_GO,	/* after a verdict: do it */
	HTTP_DROP,	/* forget the call */
	/* from it */
	HTTP_VERDICT,	/* struct http_verdict */
	HTTP_RESULT	/* struct http_result, url, headers, body */
};

struct http_head {
	uint32_t kind;
	uint32_t len;
	uint64_t id;
};

struct http_call {
	uint32_t json_len;
	uint32_t body_len;
};

enum http_ruling {
	HTTP_MAY,
	HTTP_MALFORMED,	/* the library cannot read the URL */
	HTTP_REFUSED	/* reason says why */
};

struct http_verdict {
	uint32_t ruling;
	uint32_t reason;
	uint32_t port;
	char	 host[HOST_SIZE];	/* "": none was found */
};

enum http_outcome {
	HTTP_DONE,
	HTTP_FAILED,	/* failure and code */
	HTTP_DENIED	/* reason, host and port: on the way */
};

struct http_result {
	uint32_t outcome;
	uint32_t failure;
	uint32_t reason;
	int32_t	 code;		/* the library's, or 0 */
	uint32_t status;
	uint32_t truncated;
	uint32_t port;
	char	 host[HOST_SIZE];
	uint32_t url_len;
	uint32_t headers_len;	/* lines "name:value\n", names in lower case */
	uint32_t body_len;
};

/* --- the broker's side --- */

/* SPEC 7.8's shape: the URL's text, header fields, the body's encoding. */
bool		 http_fetch_shape(struct call *);
bool		 http_post_shape(struct call *);
enum place	 http_place(const struct call *);

/* The request method of a call of either tool: its argument's, or GET or POST. */
const char	*http_method(const struct call *);

struct http;

/* The invocation is borrowed. NULL with ENOMEM. */
struct http	*http_new(struct invocation *, const struct log *);

/*
 * Could a net worker be started? 0, or -1 with a sentence in why; only before
 * the broker confines itself.
 */
int		 http_check(const struct http *, char *why, size_t whylen);

/* The spawner's channel, which stays the caller's; -1: there is none any more.
 * A net worker is asked for at once, so that it is there when it is wanted. */
void		 http_use(struct http *, int channel_fd);

/* In the spawner: start the net worker. Its pidfd, or -1 and why. */
int		 http_spawn(const struct http *, int channel_fd, char *why,
		    size_t whylen);

/* What the spawner says of such a child; takes the descriptors. Its ids have
 * HTTP_CHILD in them. */
#define HTTP_CHILD	(UINT64_C(1) << 63)
struct spawner_message;
void		 http_heard(struct http *, const struct spawner_message *,
		    int fds[]);

/* Ends the net worker; the calls that it still had are freed. A worker that
 * died costs these; the next call gets a fresh one. */
void		 http_free(struct http *);

/* Give it a call, which is not recorded yet. 0, or -1 with ENOMEM. */
int		 http_submit(struct http *, struct call *);

int		 http_fd(const struct http *);
short		 http_events(const struct http *);

/* Milliseconds until http_service is due anyway, or -1. */
int		 http_due(const struct http *);

enum http_event {
	HTTP_EVENT_GO,	/* record its start, then http_go; it stays here */
	HTTP_EVENT_END	/* it is back: refused, malformed, or run */
};

/* Go on after poll: a call and what became of it, or NULL. */
struct call	*http_service(struct http *, enum http_event *);
void		 http_go(struct http *, struct call *);

/* End the net worker and take back a call that did not finish; NULL: none. */
struct call	*http_abort(struct http *);

#endif
