/* The conformance driver for skills in C and C++; see t/73-clients.t. */

#include <sys/wait.h>

#include "cyberos.h"

static void
show(const struct cyberos *c, const char *field)
{
	char pointer[64], *bytes;
	const char *raw;
	size_t len, i;

	snprintf(pointer, sizeof(pointer), "/%s", field + (*field == '#'));
	if (*field == '#' || strcmp(field, "body") == 0 ||
	    strcmp(field, "stdout") == 0) {
		bytes = cyberos_bytes(c, pointer, &len);
		if (*field == '#')
			printf("done %zu\n", len);
		else
			printf("done ");
		for (i = 0; *field != '#' && i < len; i++)
			printf("%02x", (unsigned)(unsigned char)bytes[i]);
		if (*field != '#')
			puts("");
		free(bytes);
	} else if ((bytes = cyberos_text(c, pointer, &len)) != NULL) {
		printf("done %s\n", bytes);
		free(bytes);
	} else {
		raw = cyberos_find(c, pointer, &len);
		printf("done %.*s\n", raw == NULL ? 0 : (int)len,
		    raw == NULL ? "" : raw);
	}
}

/* A word of the false broker's has no number; every other one has. */
static const char *
known(const struct cyberos *c)
{
	return c->error == CYBEROS_OTHER &&
		strcmp(c->reason, "of_tomorrow") != 0
	    ? " without a number"
	    : "";
}

static void
say(const struct cyberos *c, const char *field)
{
	switch (c->status) {
	case CYBEROS_DONE:
		show(c, field);
		break;
	case CYBEROS_FAILED:
		printf("failed %s%s\n", c->group,
		    known(c));
		break;
	case CYBEROS_BAD_ARGUMENTS:
		puts("arguments");
		break;
	case CYBEROS_GONE:
		puts("gone");
		break;
	case CYBEROS_REFUSED:
		printf("refused %s%s%s%s\n", c->group,
		    strcmp(c->group, c->reason) == 0 ? "" : " ",
		    strcmp(c->group, c->reason) == 0 ? "" : c->reason,
		    known(c));
		break;
	default:
		puts("no status");
	}
	fflush(stdout);
}

static char *
slurp(const char *name)
{
	FILE *f = fopen(name, "r");
	char *text = (char *)malloc(4000000);
	size_t n;

	if (f == NULL || text == NULL)
		exit(99);
	n = fread(text, 1, 3999999, f);
	text[n] = '\0';
	fclose(f);
	return text;
}

static void
cases(struct cyberos *c)
{
	char line[512], tool[64], field[64], file[256], *text;

	while (fgets(line, sizeof(line), stdin) != NULL) {
		if (sscanf(line, "%63s %63s %255s", tool, field, file) != 3)
			exit(99);
		text = slurp(file);
		(void)cyberos_call_json(c, tool, text);
		free(text);
		say(c, field);
	}
}

/* Two calls over two connections; the second lets the first end. */
static void
both(struct cyberos *c, const char *place)
{
	struct cyberos_args args;
	char text[512];
	pid_t pid = fork();
	int late = 1;

	cyberos_args_init(&args);
	if (pid == 0) {
		if (cyberos_open(c, NULL) == -1)
			_exit(99);
		snprintf(text, sizeof(text),
		    "until [ -e %s/go ]; do sleep 0.01; done; sleep 0.3", place);
		cyberos_put_text(&args, "cmd", text);
		cyberos_put_int(&args, "timeout_ms", 60000);
		_exit(cyberos_call(c, "Bash", &args) == CYBEROS_DONE &&
		    cyberos_bool(c, "/timed_out", &late) == 0 ? late : 99);
	}
	snprintf(text, sizeof(text), "%s/go", place);
	cyberos_put_text(&args, "path", text);
	cyberos_put_bytes(&args, "body", "", 0);
	(void)cyberos_call(c, "Write", &args);
	say(c, "bytes");
	if (waitpid(pid, &late, 0) == pid)
		printf("slow %s\n", late == 0 ? "false" : "true");
}

/* One value of a text, by its pointer. */
static int
finds(const char *json, const char *pointer, const char *wanted)
{
	struct cyberos c;
	char *text;
	const char *raw;
	size_t len;
	int same;

	memset(&c, 0, sizeof(c));
	c.value = json;
	c.value_len = strlen(json);
	text = cyberos_text(&c, pointer, &len);
	raw = cyberos_find(&c, pointer, &len);
	if (wanted == NULL)
		same = raw == NULL;
	else if (text != NULL)
		same = strcmp(text, wanted) == 0;
	else
		same = raw != NULL && len == strlen(wanted) &&
		    memcmp(raw, wanted, len) == 0;
	if (!same)
		printf("%s in %s: %s\n", pointer, json, text == NULL ? "-"
			: text);
	free(text);
	return same;
}

/* What was put, against the text it should be. */
static int
puts_as(struct cyberos_args *a, const char *wanted)
{
	int same = wanted == NULL
		? a->failed != 0
		: a->failed == 0 && a->len == strlen(wanted) &&
		    memcmp(a->text, wanted, a->len) == 0;

	if (!same)
		printf("%.*s, not %s\n", (int)a->len, a->text == NULL ? ""
			: a->text, wanted == NULL ? "-" : wanted);
	cyberos_args_clear(a);
	return same;
}

static int
writer(void)
{
	struct cyberos_args a;
	int good = 1;

	cyberos_args_init(&a);
	cyberos_put_text(&a, "a\"b", "\\ \n\x01 \xc3\xa9 \xf0\x9f\x98\x80");
	cyberos_put_int(&a, "n", -9007199254740991LL);
	cyberos_put_bool(&a, "t", 7);
	cyberos_put_json(&a, "j", "[1,{}]");
	good &= puts_as(&a, "\"a\\\"b\":\"\\\\ \\u000a\\u0001 \xc3\xa9 "
	    "\xf0\x9f\x98\x80\",\"n\":-9007199254740991,\"t\":true,"
	    "\"j\":[1,{}]");
	cyberos_put_bytes(&a, "body", "text", 4);
	good &= puts_as(&a, "\"body\":\"text\"");
	cyberos_put_bytes(&a, "body", "\0", 1);
	good &= puts_as(&a, "\"body\":\"AA==\",\"encoding\":\"base64\"");
	cyberos_put_bytes(&a, "body", "\xff\xfe", 2);
	good &= puts_as(&a, "\"body\":\"//4=\",\"encoding\":\"base64\"");
	cyberos_put_bytes(&a, "body", "\xed\xa0\x80", 3);
	good &= puts_as(&a, "\"body\":\"7aCA\",\"encoding\":\"base64\"");
	cyberos_put_bytes(&a, "body", "\xc3", 1);
	good &= puts_as(&a, "\"body\":\"ww==\",\"encoding\":\"base64\"");
	cyberos_put_text(&a, "body", "\xc0\xaf");
	good &= puts_as(&a, NULL);
	return good;
}

/* Both ends of the JSON, without a broker. */
static int
both_ends(void)
{
	static const char json[] = " {\"a\" : [ 1 , {\"b/c~d\":\"x\"}, [] ],"
	    "\"\\u0065\":\"\\u00e9\\ud83d\\ude00\\n\\/\\ud800.\","
	    "\"\":true,\"n\":null,\"o\":{\"]\":\"}\\\"\"},\"z\":-1.5e3 }";
	char deep[300], *copy;
	size_t i, len;
	int good = writer();

	good &= finds(json, "/a/0", "1");
	good &= finds(json, "/a/1/b~1c~0d", "x");
	good &= finds(json, "/a/2", "[]");
	good &= finds(json, "/a/3", NULL);
	good &= finds(json, "/a/-", NULL);
	good &= finds(json, "/a/", NULL);
	good &= finds(json, "/a/99999999999999999999", NULL);
	good &= finds(json, "/e",
	    "\xc3\xa9\xf0\x9f\x98\x80\n/\xef\xbf\xbd.");
	good &= finds(json, "/", "true");
	good &= finds(json, "/n", "null");
	good &= finds(json, "/n/x", NULL);
	good &= finds(json, "/o/]", "}\"");
	good &= finds(json, "/z", "-1.5e3");
	good &= finds(json, "/none", NULL);
	memset(deep, '[', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	good &= finds(deep, "/0", NULL);
	/* Cut anywhere, nothing outside is read: the sanitizer's to see. */
	for (i = 0; i <= strlen(json); i++) {
		copy = (char *)malloc(i + 1);
		if (copy == NULL)
			return 1;
		memcpy(copy, json, i);
		copy[i] = '\0';
		(void)cyberos_find_in_(copy, i, "/o/]", &len);
		(void)cyberos_find_in_(copy, i, "/e", &len);
		free(copy);
	}
	puts(good ? "both ends hold" : "both ends do not hold");
	return !good;
}

static void
words(void)
{
	const struct cyberos_word_ *w;
	size_t n, i;

	for (w = cyberos_words_(&n), i = 0; i < n; i++)
		printf("%s %s\n", w[i].reason == NULL ? "-" : w[i].group,
		    w[i].reason == NULL ? w[i].group : w[i].reason);
}

int
main(int argc, char **argv)
{
	struct cyberos c;

	if (argc > 1 && strcmp(argv[1], "words") == 0) {
		words();
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "ends") == 0)
		return both_ends();
	if (cyberos_open(&c, NULL) == -1)
		say(&c, "");
	else if (argc > 1 && strcmp(argv[1], "cases") == 0)
		cases(&c);
	else if (argc > 2 && strcmp(argv[1], "both") == 0)
		both(&c, argv[2]);
	else if (argc > 1) {
		(void)cyberos_call_json(&c, "Read", "{\"path\":\"x\"}");
		say(&c, "body");
	}
	cyberos_close(&c);
	return 0;
}
