#ifndef TOOLS_TRANSFER_H
#define TOOLS_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <cjson/cJSON.h>
#include <curl/curl.h>

#include "audit/buf.h"
#include "enforce/glob.h"
#include "enforce/host.h"
#include "tools/http.h"
#include "tools/unpack.h"

/* One HTTP call in the net worker: the URL's reading, its hops, its answer. */

#define TRANSFER_LISTS	3	/* the skill's and two ceilings */

TAILQ_HEAD(transfer_list, transfer);

struct transfer_rules {
	struct glob_set	*lists[TRANSFER_LISTS];	/* all must match */
	size_t		 lists_n;
	struct host_network *networks;	/* that the operator allows */
	size_t		 networks_n;
	struct curl_blob ca;		/* len 0: the system's */
	struct transfer_list *calls;	/* all that run are in it */
	int		 route_fd;
};

struct transfer {
	TAILQ_ENTRY(transfer) next;
	const struct transfer_rules *rules;
	uint64_t	 id;
	cJSON		*request;
	char		*body;		/* to send */
	size_t		 body_len;
	CURL		*easy;
	CURLU		*url;		/* checked; what is used */
	struct curl_slist *fields;
	struct host_target target;
	bool		 running;
	bool		 post;
	bool		 own_fields;	/* still at the first origin */
	unsigned	 hops;
	int64_t		 until;		/* clock_boot */
	bool		 vetoed;	/* an address of this hop */
	bool		 overflow;	/* too many header bytes */
	size_t		 seen;		/* header bytes */
	bool		 headed;	/* the head of the answer is there */
	bool		 framed;	/* and says where the body ends */
	struct unpack	 unpack;
	const void	*tls;		/* context of its connection; to compare */
	bool		 tls_closed;	/* the server said that it ends */
	bool		 tls_refused;	/* or that it will have none of us */
	struct buf	 headers;
	struct buf	 in;		/* the body */
	struct http_result result;
	char		*shown;		/* the last URL */
	struct buf	 out;		/* the answer but its body */
	size_t		 sent;		/* of out and in */
};

/*
 * For each of our handles: HTTP alone, no proxy, password file or redirect, and
 * TLS that is verified, by these authorities alone if there are any. The
 * library makes no copy of them.
 */
bool		 transfer_strict(CURL *, const struct curl_blob *ca);

/* Takes request and body. NULL with ENOMEM; then they are freed. */
struct transfer	*transfer_new(const struct transfer_rules *, uint64_t id,
		    cJSON *request, char *body, size_t body_len);
void		 transfer_free(struct transfer *);

/* Read the URL and judge it; nothing touches the network. */
void		 transfer_check(struct transfer *, struct http_verdict *);

/* Begin, after transfer_check said HTTP_MAY. False: the result is made. */
bool		 transfer_start(struct transfer *, CURLM *);

/*
 * The library is done with a request. False: a redirect was followed and it
 * goes on; true: the result is made.
 */
bool		 transfer_ended(struct transfer *, CURLM *, CURLcode);

#endif
