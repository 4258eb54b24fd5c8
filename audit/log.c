/*
 * One event, one line, one write. Control characters never reach a terminal:
 * they are shown as \xhh.
 */

#include "audit/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

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

static size_t
escape(const char *in, char *out, size_t size)
{
	size_t n = 0;

	for (; *in != '\0' && n + 5 < size; in++) {
		if ((unsigned char)*in < 0x20 || *in == 0x7f)
			n += (size_t)snprintf(out + n, size - n, "\\x%02x",
			    (unsigned char)*in);
		else
			out[n++] = *in;
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
