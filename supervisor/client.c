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
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "audit/buf.h"
#include "audit/clock.h"
#include "audit/json.h"
#include "enforce/verdict.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "tools/call.h"
#include "tools/registry.h"

#define REPLY_MAX ((size_t)17 * 1024 * 1024)
/* More is not even sent; what lies between the broker's limit and this is, so
 * that the ledger has it. */
#define REQUEST_MAX ((size_t)16 * 1024 * 1024)
#define HEAD 4 /* bytes of a message's length, big-endian */
#define CODE_TOOL_FAILED (-32000) /* of cyberos-broker(7), as any client has */

static const char usage_text[] =
    "usage: cyberos skill call [--raw FIELD | --json | --repeat N] TOOL\n"
    "           [JSON | - | key=value ...]\n";

static const char help_text[] =
    "\n"
    "Call one tool from inside the sandbox and print its result as JSON.\n"
    "\n"
    "  key=value        one argument; numbers and true or false where the\n"
    "                   tool's schema asks for them, payload as JSON\n"
    "  key@=FILE        the same with the contents of FILE, - for standard\n"
    "                   input; a body that is no text goes as base64\n"
    "  JSON             all arguments as one object\n"
    "  -                the same object, from standard input\n"
    "  --raw FIELD      print this field of the result alone, text as it is\n"
    "  --json           print the answer whole, {\"result\":...} or\n"
    "                   {\"error\":...}, and nothing on standard error\n"
    "  --repeat N       make the call N times over one connection, and print\n"
    "                   how long one took instead of the result\n"
    "\n"
    "Exit status: 0 done, 1 the tool failed, 2 bad arguments, 4 no broker,\n"
    "5 refused. What was refused or failed is told on standard error.\n";

/* How the answer is printed. */
struct form {
	const char *raw;	/* this field alone, or NULL */
	bool json;		/* the answer whole, errors too */
	uint32_t times;		/* how often the call is made; 0: just once */
};

static int
connect_broker(void)
{
	const char *path = getenv("CYBEROS_BROKER_SOCKET");
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd;

	if (path == NULL || path[0] == '\0' ||
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

/* Does the tool take bytes for this argument, as base64? */
static bool
takes_bytes(const struct tool *tool, const char *name)
{
	const struct tool_arg *a = tool == NULL ? NULL : tool->args;

	if (strcmp(name, "body") != 0)
		return false;
	while (a != NULL && a->name != NULL && strcmp(a->name, "encoding") != 0)
		a++;
	return a != NULL && a->name != NULL;
}

/* All of a file, or of standard input, into out. -1 after a message. */
static int
read_input(const char *file, struct buf *out)
{
	bool input = strcmp(file, "-") == 0;
	int fd = input ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd == -1 ? -1 : 1;
	char *p;

	while (n > 0 && (p = buf_reserve(out, 65536)) != NULL) {
		do {
			n = read(fd, p, 65536);
		} while (n == -1 && errno == EINTR);
		if (n > 0)
			buf_advance(out, (size_t)n);
	}
	if (n == -1)
		warn("%s", input ? "standard input" : file);
	else if (n > 0)
		warnx("%s: more than fits into a request",
		    input ? "standard input" : file);
	if (!input && fd != -1)
		close(fd);
	return n == 0 ? 0 : -1;
}

/* Text for the broker: NUL is no part of JSON's texts there. */
static bool
is_text(const char *p, size_t len)
{
	return json_is_utf8(p, len) && (len == 0 || memchr(p, 0, len) == NULL);
}

/*
 * One member; a value as the tool's schema types it, as it was written. What
 * is no JSON goes as text: the broker judges it. Bytes that are no text go as
 * base64 where the tool takes that. -1: they cannot go at all.
 */
static int
put_pair(struct buf *out, const struct tool *tool, const char *name,
    const char *value, size_t len)
{
	json_put_string(out, name, strlen(name));
	buf_putc(out, ':');
	if (is_typed(tool, name) && json_scan(value, len, false, NULL, NULL))
		return buf_put(out, value, len);
	if (is_text(value, len))
		return json_put_string(out, value, len);
	if (!takes_bytes(tool, name))
		return -1;
	buf_putc(out, '"');
	base64_encode(out, value, len);
	return buf_puts(out, "\",\"encoding\":\"base64\"");
}

/* key=value or key@=FILE as one member; the name is cut off in its place. */
static int
put_word(struct buf *out, const struct tool *tool, char *word)
{
	char *equals = strchr(word, '=');
	struct buf input;
	bool file;
	int rc = -1;

	file = equals != NULL && equals > word && equals[-1] == '@';
	if (equals == NULL || equals - word == file) {
		warnx("%s: write key=value", word);
		return -1;
	}
	equals[file ? -1 : 0] = '\0';
	buf_init(&input, REQUEST_MAX);
	if (!json_is_utf8(word, strlen(word)))
		warnx("the name of an argument is no UTF-8 text");
	else if (!file && !json_is_utf8(equals + 1, strlen(equals + 1)))
		warnx("%s: no UTF-8 text; write %s@=FILE for bytes", word, word);
	else if (!file)
		rc = put_pair(out, tool, word, equals + 1, strlen(equals + 1));
	else if (read_input(equals + 1, &input) == 0 &&
	    (rc = put_pair(out, tool, word, input.data == NULL ? ""
		: input.data, input.len)) == -1)
		warnx("%s: %s holds bytes that are no text, and this argument "
		      "takes text only", word, equals + 1);
	buf_clear(&input);
	return out->failed ? 0 : rc;
}

/* key=value words as one JSON object. */
static int
put_pairs(struct buf *out, const struct tool *tool, int argc, char **argv)
{
	int i, j;

	buf_putc(out, '{');
	for (i = 0; i < argc; i++) {
		if (i > 0)
			buf_putc(out, ',');
		if (put_word(out, tool, argv[i]) == -1)
			return -1;
		for (j = 0; j < i; j++) {
			if (strcmp(argv[j], argv[i]) == 0) {
				warnx("%s: is there twice", argv[i]);
				return -1;
			}
		}
	}
	return buf_putc(out, '}');
}

/* All arguments as one object, which goes out as it was written. */
static int
put_object(struct buf *out, const char *text, size_t len)
{
	const char *why;
	size_t at;

	if (!json_scan(text, len, false, &why, &at)) {
		warnx("the arguments are no valid JSON object: %s at byte %zu",
		    why, at);
		return -1;
	}
	return buf_put(out, text, len);
}

static int
put_args(struct buf *out, const char *tool_name, int argc, char **argv)
{
	struct buf input;
	int rc;

	if (argc == 1 && argv[0][0] == '{')
		return put_object(out, argv[0], strlen(argv[0]));
	if (argc != 1 || strcmp(argv[0], "-") != 0)
		return put_pairs(out, registry_find(tool_name), argc, argv);
	buf_init(&input, REQUEST_MAX);
	rc = read_input("-", &input);
	if (rc == 0)
		rc = put_object(out, input.len == 0 ? "" : input.data,
		    input.len);
	buf_clear(&input);
	return rc;
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
	if (put_args(out, tool, argc, argv) == -1 && !out->failed)
		return -1;
	buf_puts(out, "}}");
	if (out->failed) {
		warnx("the arguments are more than fits into a request");
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

static int
error_status(const cJSON *error)
{
	const cJSON *code = cJSON_GetObjectItemCaseSensitive(error, "code");
	int number = code == NULL ? 0 : (int)code->valuedouble;

	if (number == VERDICT_CODE)
		return EXIT_DENIED;
	return number == CODE_TOOL_FAILED ? EXIT_FAILED : EXIT_USAGE;
}

static void
print_error(const cJSON *error)
{
	const cJSON *data = cJSON_GetObjectItemCaseSensitive(error, "data");
	const char *reason = json_member_text(data, "reason");
	const char *detail = json_member_text(data, "detail");

	if (detail[0] == '\0')
		detail = json_member_text(data, "hint");
	if (strcmp(reason, json_member_text(error, "message")) == 0)
		reason = "";
	fprintf(stderr, "cyberos: %s%s%s%s\n", json_member_text(error, "message"),
	    reason[0] == '\0' ? "" : " (", reason,
	    reason[0] == '\0' ? "" : ")");
	if (detail[0] != '\0')
		fprintf(stderr, "    %s\n", detail);
}

/* Is this field of a result one that its encoding is about? */
static bool
is_encoded(const cJSON *result, const char *name)
{
	return strcmp(json_member_text(result, "encoding"), "base64") == 0 &&
	    (strcmp(name, "body") == 0 || strcmp(name, "stdout") == 0 ||
		strcmp(name, "stderr") == 0);
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
	} else if (is_encoded(result, name) &&
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

/* The answer whole, as one object with one member. */
static void
print_whole(const char *name, const struct json_span *value)
{
	printf("{\"%s\":", name);
	fwrite(value->p, 1, value->len, stdout);
	puts("}");
}

/* Print one answer. The exit status. */
static int
print_reply(const char *text, size_t len, const struct form *form)
{
	struct json_span span;
	cJSON *root = json_parse(text, len, true);
	const cJSON *error, *value;
	int status = EXIT_FINE;

	error = cJSON_GetObjectItemCaseSensitive(root, "error");
	value = cJSON_GetObjectItemCaseSensitive(root, "result");
	if (error != NULL && json_member(text, len, "error", &span)) {
		status = error_status(error);
		if (form->json)
			print_whole("error", &span);
		else
			print_error(error);
	} else if (value == NULL || !json_member(text, len, "result", &span)) {
		warnx("the broker's answer is no answer");
		status = EXIT_NETWORK;
	} else if (form->json) {
		print_whole("result", &span);
	} else if (form->raw != NULL) {
		status = print_field(value, form->raw);
	} else {
		fwrite(span.p, 1, span.len, stdout);
		putchar('\n');
	}
	cJSON_Delete(root);
	return status;
}

/* One round trip: the answer, for the caller to free, or NULL after a message. */
static char *
ask(int fd, const struct buf *request, size_t *len)
{
	char *reply = NULL;

	if (send_request(fd, request) == -1 ||
	    (reply = receive_reply(fd, len)) == NULL)
		warnx("the broker: %s", errno == EPIPE
			? "has closed the connection"
			: strerror(errno));
	return reply;
}

static int
compare(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* How long the calls took, in microseconds with a fraction. */
static int
print_times(int64_t *took, uint32_t n)
{
	qsort(took, n, sizeof(*took), compare);
	printf("{\"calls\":%u,\"min_us\":%.1f,\"p50_us\":%.1f,"
	       "\"p99_us\":%.1f,\"max_us\":%.1f}\n",
	    n, (double)took[0] / 1e3, (double)took[n / 2] / 1e3,
	    (double)took[n - 1 - n / 100] / 1e3, (double)took[n - 1] / 1e3);
	return EXIT_FINE;
}

/* The call again and again; the first error is printed and ends it. */
static int
repeat(int fd, const struct buf *request, const struct form *form)
{
	int64_t *took = calloc(form->times, sizeof(*took)), begun;
	int status = EXIT_FINE;
	struct json_span span;
	char *reply;
	size_t len;
	uint32_t i;

	if (took == NULL) {
		warn(NULL);
		return EXIT_FAILED;
	}
	for (i = 0; i < form->times && status == EXIT_FINE; i++) {
		begun = clock_boot();
		reply = ask(fd, request, &len);
		took[i] = clock_boot() - begun;
		if (reply == NULL)
			status = EXIT_NETWORK;
		else if (!json_scan(reply, len, true, NULL, NULL) ||
		    !json_member(reply, len, "result", &span))
			status = print_reply(reply, len, form);
		if (reply != NULL)
			freezero(reply, len);
	}
	if (status == EXIT_FINE)
		status = print_times(took, form->times);
	free(took);
	return status;
}

/* Ask and print. The exit status. */
static int
call(const struct buf *request, const struct form *form)
{
	int fd = connect_broker(), status = EXIT_NETWORK;
	char *reply;
	size_t len;

	if (fd == -1)
		return status;
	if (form->times > 0) {
		status = repeat(fd, request, form);
	} else if ((reply = ask(fd, request, &len)) != NULL) {
		status = print_reply(reply, len, form);
		freezero(reply, len);
	}
	close(fd);
	return status;
}

/* 0 and *form, or 1: it was --help; -1: wrong usage, which is told. */
static int
read_options(int argc, char **argv, struct form *form)
{
	static const struct option options[] = {
		{ "raw", required_argument, NULL, 'r' },
		{ "json", no_argument, NULL, 'j' },
		{ "repeat", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'H' },
		{ NULL, 0, NULL, 0 },
	};
	const char *why = NULL;
	int opt;

	memset(form, 0, sizeof(*form));
	optind = 0; /* glibc: begin anew */
	while ((opt = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (opt == 'r') {
			form->raw = optarg;
		} else if (opt == 'j') {
			form->json = true;
		} else if (opt == 'n') {
			form->times = (uint32_t)strtonum(optarg, 1, 1000000,
			    &why);
			if (why != NULL) {
				warnx("--repeat %s: write a number from 1 to "
				      "1000000", optarg);
				return -1;
			}
		} else if (opt == 'H') {
			printf("%s%s", usage_text, help_text);
			return 1;
		} else {
			fputs(usage_text, stderr);
			return -1;
		}
	}
	if (optind < argc && argv[optind][0] != '\0' &&
	    argv[optind][0] != '{' && argv[optind][0] != '-' &&
	    json_is_utf8(argv[optind], strlen(argv[optind])) &&
	    (form->raw != NULL) + form->json + (form->times > 0) <= 1)
		return 0;
	fputs(usage_text, stderr);
	return -1;
}

int
client_call(int argc, char **argv)
{
	struct buf request;
	struct form form;
	int status = EXIT_USAGE, rc;

	rc = read_options(argc, argv, &form);
	if (rc != 0)
		return rc == 1 ? EXIT_FINE : EXIT_USAGE;
	buf_init(&request, REQUEST_MAX + 4096);
	if (make_request(&request, argv[optind], argc - optind - 1,
		argv + optind + 1) == 0)
		status = call(&request, &form);
	buf_clear(&request);
	return status;
}
