/*
 * One event, one line, one write. Whatever a skill or a file name puts into it,
 * a terminal sees text: all else is shown as \xhh.
 */

#include "audit/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "audit/json.h"

static const struct {
	const char *word;
	int priority;
} levels[] = {
	[LOG_LEVEL_ALERT] = { "alert", LOG_ALERT },
	[LOG_LEVEL_ERROR] = { "error", LOG_ERR },
	[LOG_LEVEL_WARN] = { "warn", LOG_WARNING },
	[LOG_LEVEL_INFO] = { "info", LOG_INFO },
	[LOG_LEVEL_DEBUG] = { "debug", LOG_DEBUG },
};

int
log_open(struct log *l, const char *where)
{
	memset(l, 0, sizeof(*l));
	l->most = LOG_LEVEL_WARN;
	if (where == NULL) {
		l->fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
		/* No standard error at all is no reason to fail. */
		if (l->fd == -1)
			l->fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	} else if (strcmp(where, "syslog") == 0) {
		openlog("cyberos", LOG_PID | LOG_NDELAY, LOG_DAEMON);
		l->fd = -1;
		return 0;
	} else {
		l->fd = open(where,
		    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW |
			O_NONBLOCK | O_NOCTTY,
		    0600);
	}
	return l->fd == -1 ? -1 : 0;
}

/* Bytes of the character at s, which is NUL-terminated; 1 for a foreign byte. */
static size_t
character(const char *s)
{
	size_t n;

	for (n = 1; n <= 4 && s[n - 1] != '\0'; n++) {
		if (json_is_utf8(s, n))
			return n;
	}
	return 1;
}

/*
 * May a terminal show these bytes? Not control characters (the ones of 8 bits
 * too), nothing that cannot be seen, nothing that turns text around.
 */
static bool
is_plain(const char *s, size_t n)
{
	const unsigned char *b = (const unsigned char *)s;

	if (n == 1)
		return b[0] >= 0x20 && b[0] < 0x7f;
	if (n == 2) /* C1; U+061C */
		return !(b[0] == 0xc2 && b[1] < 0xa0) &&
		    !(b[0] == 0xd8 && b[1] == 0x9c);
	if (n == 3) /* U+200B to 200F, U+2028 to 202E, U+2060 to 206F, U+FEFF */
		return !(b[0] == 0xe2 && b[1] == 0x80 &&
			   ((b[2] >= 0x8b && b[2] <= 0x8f) ||
			       (b[2] >= 0xa8 && b[2] <= 0xae))) &&
		    !(b[0] == 0xe2 && b[1] == 0x81 && b[2] >= 0xa0 &&
			b[2] <= 0xaf) &&
		    !(b[0] == 0xef && b[1] == 0xbb && b[2] == 0xbf);
	return true;
}

static size_t
escape(const char *in, char *out, size_t size)
{
	size_t i, len, n = 0;

	for (; *in != '\0'; in += len) {
		len = character(in);
		if (n + 4 * len + 1 > size)
			break;
		if (is_plain(in, len)) {
			memcpy(out + n, in, len);
			n += len;
			continue;
		}
		for (i = 0; i < len; i++)
			n += (size_t)snprintf(out + n, size - n, "\\x%02x",
			    (unsigned char)in[i]);
	}
	out[n] = '\0';
	return n;
}

void
log_line(const struct log *l, enum log_level level, const char *fmt, ...)
{
	char text[2048], line[4096];
	va_list ap;
	size_t n;

	if (level > l->most)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	n = (size_t)snprintf(line, sizeof(line), "cyberos[%s] %s%s",
	    levels[level].word, l->invocation,
	    l->invocation[0] == '\0' ? "" : ": ");
	n += escape(text, line + n, sizeof(line) - n - 1);
	if (l->fd == -1) {
		syslog(levels[level].priority, "%s", line);
		return;
	}
	line[n++] = '\n';
	if (write(l->fd, line, n) == -1)
		return; /* nobody is left to be told */
}
