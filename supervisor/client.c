/*
 * One tool call from inside the sandbox, for skills that are shell scripts.
 * Nothing here is trusted by anybody: it speaks the protocol of
 * cyberos-broker(7) like any other client, and shares no code with the broker
 * but what reads and writes JSON.
 */

#include <sys/socket.h>
#include <sys/un.h>

#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "audit/buf.h"
#include "audit/json.h"
#include "enforce/verdict.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "tools/registry.h"

#define REPLY_MAX ((size_t)17 * 1024 * 1024)
#define HEAD 4 /* bytes of a message's length, big-endian */
#define CODE_TOOL_FAILED (-32000) /* of cyberos-broker(7), as any client has */

static const char usage_text[] =
    "usage: cyberos skill call [--raw FIELD] TOOL [JSON | key=value ...]\n";

static const char help_text[] =
    "\n"
    "Call one tool from inside the sandbox and print its result as JSON.\n"
    "\n"
    "  key=value        one argument; numbers and true or false where the\n"
    "                   tool's schema asks for them, payload as JSON\n"
    "  JSON             all arguments as one object\n"
    "  --raw FIELD      print this field of the result alone, text as it is\n"
    "\n"
    "Exit status: 0 done, 1 the tool failed, 2 bad arguments, 4 no broker,\n"
    "5 refused. What was refused or failed is told on standard error.\n";

static int
connect_broker(void)
{
	const char *path = getenv("CYBEROS_BROKER_SOCKET");
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd;

	if (path == NULL ||
	    strlcpy(sun.sun_path, path, sizeof(sun.sun_path)) >=
		sizeof(sun.sun_path)) {
		warnx("CYBEROS_BROKER_SOCKET is not set: this command is for "
		      "skills, inside the sandbox");
		return -1;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd == -1 || connect(fd, (struct sockaddr *)&sun, sizeof(sun)) ==
		-1) {
		warn("%s", path);
		return -1;
	}
	return fd;
}

/* Is this argument one of those that are written as JSON? */
static bool
is_typed(const struct tool *tool, const char *name)
{
	const struct tool_arg *a = tool == NULL ? NULL : tool->args;

	while (a != NULL && a->name != NULL && strcmp(a->name, name) != 0)
		a++;
	return a != NULL && a->name != NULL &&
	    (a->type == ARG_INT || a->type == ARG_BOOL || a->type == ARG_ANY ||
		a->type == ARG_MAP);
}

/*
 * One member; a value as the tool's schema types it, as it was written. What
 * is no JSON goes as text: the broker judges it.
 */
static void
put_pair(struct buf *out, const struct tool *tool, const char *name,
    const char *value)
{
	size_t len = strlen(value);

	json_put_string(out, name, strlen(name));
	buf_putc(out, ':');
	if (is_typed(tool, name) && json_scan(value, len, false, NULL, NULL))
		buf_put(out, value, len);
	else
		json_put_string(out, value, len);
}

/* key=value words as one JSON object. */
static int
put_pairs(struct buf *out, const struct tool *tool, int argc, char **argv)
{
	char *equals;
	int i, j;

	buf_putc(out, '{');
	for (i = 0; i < argc; i++) {
		equals = strchr(argv[i], '=');
		if (equals == NULL || equals == argv[i]) {
			warnx("%s: write key=value", argv[i]);
			return -1;
		}
		if (!json_is_utf8(argv[i], strlen(argv[i]))) {
			warnx("argument %d is no UTF-8 text", i + 1);
			return -1;
		}
		*equals = '\0';
		for (j = 0; j < i; j++) {
			if (strcmp(argv[j], argv[i]) == 0) {
				warnx("%s: is there twice", argv[i]);
				return -1;
			}
		}
		if (i > 0)
			buf_putc(out, ',');
		put_pair(out, tool, argv[i], equals + 1);
	}
	return buf_putc(out, '}');
}

/* The arguments: JSON goes out as it was written, pairs as we build it. */
static int
put_args(struct buf *out, const char *tool_name, int argc, char **argv)
{
	const char *why;
	size_t at;

	if (argc != 1 || argv[0][0] != '{')
		return put_pairs(out, registry_find(tool_name), argc, argv);
	if (!json_scan(argv[0], strlen(argv[0]), false, &why, &at)) {
		warnx("the arguments are no valid JSON object: %s at byte %zu",
		    why, at);
		return -1;
	}
	return buf_puts(out, argv[0]);
}

/* One whole message, length and all. -1 after a message of what is wrong. */
static int
make_request(struct buf *out, const char *tool, int argc, char **argv)
{
	size_t len, i;

	buf_put(out, "\0\0\0\0", HEAD);
	buf_puts(out, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tool.call\","
		      "\"params\":{\"tool\":");
	json_put_string(out, tool, strlen(tool));
	buf_puts(out, ",\"args\":");
	if (put_args(out, tool, argc, argv) == -1)
		return -1;
	buf_puts(out, "}}");
	if (out->failed) {
		warnx("the arguments are too long");
		return -1;
	}
	len = out->len - HEAD;
	for (i = 0; i < HEAD; i++)
		out->data[i] = (char)(unsigned char)(len >> (24 - 8 * i));
	return 0;
}

static int
send_request(int fd, const struct buf *out)
{
	size_t sent = 0;
	ssize_t n;

	while (sent < out->len) {
		n = send(fd, out->data + sent, out->len - sent, MSG_NOSIGNAL);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return -1;
		sent += (size_t)n;
	}
	return 0;
}

static int
read_exactly(int fd, char *p, size_t n)
{
	ssize_t got;

	while (n > 0) {
		got = read(fd, p, n);
		if (got == -1 && errno == EINTR)
			continue;
		if (got == 0)
			errno = EPIPE;
		if (got <= 0)
			return -1;
		p += got;
		n -= (size_t)got;
	}
	return 0;
}

static char *
receive_reply(int fd, size_t *len)
{
	unsigned char head[HEAD];
	char *text;

	if (read_exactly(fd, (char *)head, sizeof(head)) == -1)
		return NULL;
	*len = (size_t)head[0] << 24 | (size_t)head[1] << 16 |
	    (size_t)head[2] << 8 | head[3];
	if (*len > REPLY_MAX) {
		errno = EMSGSIZE;
		return NULL;
	}
	text = malloc(*len + 1);
	if (text == NULL || read_exactly(fd, text, *len) == -1) {
		free(text);
		return NULL;
	}
	text[*len] = '\0';
	return text;
}

static const char *
member_text(const cJSON *object, const char *name)
{
	const char *s = cJSON_GetStringValue(
	    cJSON_GetObjectItemCaseSensitive(object, name));

	return s == NULL ? "" : s;
}

static int
print_error(const cJSON *error)
{
	const cJSON *data = cJSON_GetObjectItemCaseSensitive(error, "data");
	const cJSON *code = cJSON_GetObjectItemCaseSensitive(error, "code");
	const char *reason = member_text(data, "reason");
	const char *detail = member_text(data, "detail");
	int number = code == NULL ? 0 : (int)code->valuedouble;

	if (detail[0] == '\0')
		detail = member_text(data, "hint");
	if (strcmp(reason, member_text(error, "message")) == 0)
		reason = "";
	fprintf(stderr, "cyberos: %s%s%s%s\n", member_text(error, "message"),
	    reason[0] == '\0' ? "" : " (", reason,
	    reason[0] == '\0' ? "" : ")");
	if (detail[0] != '\0')
		fprintf(stderr, "    %s\n", detail);
	if (number == VERDICT_CODE)
		return EXIT_DENIED;
	return number == CODE_TOOL_FAILED ? EXIT_FAILED : EXIT_USAGE;
}

/* One field alone; text without quotes, bytes as they were. */
static int
print_field(const cJSON *result, const char *name)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(result, name);
	char *bytes, *text;
	size_t len;

	if (v == NULL) {
		warnx("the result has no field %s", name);
		return EXIT_FAILED;
	}
	if (!cJSON_IsString(v)) {
		text = cJSON_PrintUnformatted(v);
		puts(text == NULL ? "" : text);
		free(text);
	} else if (strcmp(name, "body") == 0 &&
	    strcmp(member_text(result, "encoding"), "base64") == 0 &&
	    base64_decode(v->valuestring, strlen(v->valuestring), &bytes,
		&len) == 0) {
		fwrite(bytes, 1, len, stdout);
		free(bytes);
	} else {
		fputs(v->valuestring, stdout);
		if (strcmp(name, "body") != 0)
			putchar('\n');
	}
	return EXIT_FINE;
}

static int
print_reply(const char *text, size_t len, const char *raw)
{
	struct json_span result;
	cJSON *root = json_parse(text, len, true);
	const cJSON *error, *value;
	int status = EXIT_FINE;

	error = cJSON_GetObjectItemCaseSensitive(root, "error");
	value = cJSON_GetObjectItemCaseSensitive(root, "result");
	if (error != NULL) {
		status = print_error(error);
	} else if (value == NULL ||
	    !json_member(text, len, "result", &result)) {
		warnx("the broker's answer is no answer");
		status = EXIT_NETWORK;
	} else if (raw != NULL) {
		status = print_field(value, raw);
	} else {
		fwrite(result.p, 1, result.len, stdout);
		putchar('\n');
	}
	cJSON_Delete(root);
	if (fflush(stdout) != 0)
		status = EXIT_FAILED;
	return status;
}

/* Ask and print. The exit status. */
static int
call(const struct buf *request, const char *raw)
{
	char *reply = NULL;
	size_t len;
	int fd, status = EXIT_NETWORK;

	fd = connect_broker();
	if (fd == -1)
		return status;
	if (send_request(fd, request) == -1 ||
	    (reply = receive_reply(fd, &len)) == NULL)
		warnx("the broker: %s", errno == EPIPE
			? "has closed the connection"
			: strerror(errno));
	else
		status = print_reply(reply, len, raw);
	free(reply);
	close(fd);
	return status;
}

int
client_call(int argc, char **argv)
{
	const char *raw = NULL;
	struct buf request;
	int at = 1, status = EXIT_USAGE;

	if (at < argc && strcmp(argv[at], "--help") == 0) {
		printf("%s%s", usage_text, help_text);
		return EXIT_FINE;
	}
	if (at + 1 < argc && strcmp(argv[at], "--raw") == 0) {
		raw = argv[at + 1];
		at += 2;
	} else if (at < argc && strncmp(argv[at], "--raw=", 6) == 0) {
		raw = argv[at++] + 6;
	}
	if (at >= argc || argv[at][0] == '-' || argv[at][0] == '{' ||
	    !json_is_utf8(argv[at], strlen(argv[at]))) {
		fputs(usage_text, stderr);
		return EXIT_USAGE;
	}
	buf_init(&request, REPLY_MAX);
	if (make_request(&request, argv[at], argc - at - 1, argv + at + 1) == 0)
		status = call(&request, raw);
	buf_clear(&request);
	return status;
}
