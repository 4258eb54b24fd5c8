#ifndef T_UNIT_TAP_H
#define T_UNIT_TAP_H

/*
 * TAP for the unit tests: ok() and is_*() count, done() prints the plan. A test
 * program ends with "return done();". Why something failed goes to standard
 * error, which prove(1) shows. Test programs may keep state at file scope; the
 * product may not.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned tap_run, tap_failed;

__attribute__((format(printf, 2, 3), unused)) static bool
ok(bool good, const char *fmt, ...)
{
	va_list ap;

	char name[1000];

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	printf("%sok %u - %s\n", good ? "" : "not ", ++tap_run, name);
	if (!good) {
		tap_failed++;
		fprintf(stderr, "# failed: %s\n", name);
	}
	return good;
}

__attribute__((unused)) static bool
is_str(const char *got, const char *want, const char *name)
{
	bool good = got != NULL && want != NULL && strcmp(got, want) == 0;

	ok(good, "%s", name);
	if (!good)
		fprintf(stderr, "#      got: %.1000s\n# expected: %.1000s\n",
		    got ? got : "(null)", want ? want : "(null)");
	return good;
}

__attribute__((unused)) static bool
is_int(long long got, long long want, const char *name)
{
	ok(got == want, "%s", name);
	if (got != want)
		fprintf(stderr, "#      got: %lld\n# expected: %lld\n", got,
		    want);
	return got == want;
}

/* A test's own directory, with what is in it; a test that cannot is over. */
__attribute__((unused)) static void
remove_all(const char *dir)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	if (system(command) != 0)
		abort();
}

__attribute__((unused)) static int
done(void)
{
	printf("1..%u\n", tap_run);
	return tap_failed == 0 ? 0 : 1;
}

/*
 * Vector files: fields separated by a tab, "\\" and "\xhh" escapes. Decodes in
 * place and returns the length; the text stays NUL-terminated.
 */
__attribute__((unused)) static size_t
vector_decode(char *s)
{
	char *in = s, *out = s, hex[3] = { 0 };

	while (*in != '\0') {
		if (in[0] == '\\' && in[1] == 'x') {
			hex[0] = in[2];
			hex[1] = in[3];
			*out++ = (char)strtoul(hex, NULL, 16);
			in += 4;
		} else if (in[0] == '\\' && in[1] == '\\') {
			*out++ = '\\';
			in += 2;
		} else {
			*out++ = *in++;
		}
	}
	*out = '\0';
	return (size_t)(out - s);
}

#endif
