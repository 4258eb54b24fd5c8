#ifndef BROKER_RPC_H
#define BROKER_RPC_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "audit/buf.h"
#include "audit/json.h"

/* JSON-RPC 2.0: bytes to requests, and answers to bytes (SPEC 5). */

#define RPC_PARSE_ERROR		(-32700)
#define RPC_INVALID_REQUEST	(-32600)
#define RPC_NO_METHOD		(-32601)
#define RPC_INVALID_PARAMS	(-32602)
#define RPC_TOOL_FAILED		(-32000)

struct rpc_request {
	int		 code;		/* 0, or why it is no request */
	bool		 notification;	/* never answered */
	struct json_span id;		/* raw; {NULL, 0}: answer with null */
	const char	*method;
	const cJSON	*params;	/* object, array or NULL */
};

/*
 * Look at one request: node is its tree, text its raw bytes (json_scan has
 * accepted them). Everything in *r points into these two.
 */
void	rpc_request(const cJSON *node, struct json_span text,
	    struct rpc_request *r);

/*
 * Append an answer. result and data are JSON texts; data NULL leaves it out.
 * An id of {NULL, 0} is answered as null. 0 or -1 when out is full.
 */
int	rpc_result(struct buf *out, struct json_span id, const char *result,
	    size_t len);
int	rpc_error(struct buf *out, struct json_span id, int code,
	    const char *message, const struct buf *data);

/* The words of JSON-RPC for its own codes, "Parse error" and so on. */
const char *rpc_message(int code);

#endif
