/*
 * The envelope. An id goes back byte for byte as it came, so that no number is
 * ever rounded; what is no valid request is answered with the id only where
 * one could be read.
 */

#include "broker/rpc.h"

#include <string.h>

const char *
rpc_message(int code)
{
	switch (code) {
	case RPC_PARSE_ERROR:
		return "Parse error";
	case RPC_INVALID_REQUEST:
		return "Invalid Request";
	case RPC_NO_METHOD:
		return "Method not found";
	default:
		return "Invalid params";
	}
}

void
rpc_request(const cJSON *node, struct json_span text, struct rpc_request *r)
{
	const cJSON *version, *method, *id;

	memset(r, 0, sizeof(*r));
	r->code = RPC_INVALID_REQUEST;
	if (!cJSON_IsObject(node))
		return;
	version = cJSON_GetObjectItemCaseSensitive(node, "jsonrpc");
	method = cJSON_GetObjectItemCaseSensitive(node, "method");
	id = cJSON_GetObjectItemCaseSensitive(node, "id");
	r->params = cJSON_GetObjectItemCaseSensitive(node, "params");
	if (id != NULL) {
		if (!cJSON_IsString(id) && !cJSON_IsNumber(id) &&
		    !cJSON_IsNull(id))
			return;
		json_member(text.p, text.len, "id", &r->id);
	}
	if (!cJSON_IsString(version) ||
	    strcmp(version->valuestring, "2.0") != 0 ||
	    !cJSON_IsString(method) ||
	    (r->params != NULL && !cJSON_IsObject(r->params) &&
		!cJSON_IsArray(r->params)))
		return;
	r->notification = id == NULL;
	r->method = method->valuestring;
	r->code = 0;
}

static void
envelope(struct buf *out, const char *name)
{
	buf_printf(out, "{\"jsonrpc\":\"2.0\",\"%s\":", name);
}

static int
finish(struct buf *out, struct json_span id)
{
	buf_puts(out, ",\"id\":");
	if (id.p == NULL)
		buf_puts(out, "null");
	else
		buf_put(out, id.p, id.len);
	return buf_putc(out, '}') == -1 || out->failed ? -1 : 0;
}

int
rpc_result(struct buf *out, struct json_span id, const char *result, size_t len)
{
	envelope(out, "result");
	buf_put(out, result, len);
	return finish(out, id);
}

int
rpc_error(struct buf *out, struct json_span id, int code, const char *message,
    const struct buf *data)
{
	envelope(out, "error");
	buf_printf(out, "{\"code\":%d,\"message\":\"%s\"", code, message);
	if (data != NULL) {
		buf_puts(out, ",\"data\":");
		buf_put(out, data->data, data->len);
	}
	buf_putc(out, '}');
	return finish(out, id);
}
