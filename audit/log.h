#ifndef AUDIT_LOG_H
#define AUDIT_LOG_H

#include <stdbool.h>

/*
 * Log lines for the operator (SPEC 12): "cyberos[LEVEL] INVOCATION: text", one
 * line each. Never a raw argument or result; text from outside is escaped.
 */
enum log_level {
	LOG_LEVEL_ALERT,
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARN,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG
};

struct log {
	int		 fd;		/* a stream or an appended file; -1: syslog */
	enum log_level	 most;		/* lines above it are not written */
	char		 invocation[37];	/* or "" */
};

/*
 * Open by the configuration's word: NULL standard error, "syslog", or the path
 * of a file (made 0600, appended to). 0, or -1 with errno.
 */
int	log_open(struct log *, const char *where);

void	log_line(const struct log *, enum log_level, const char *, ...)
	    __attribute__((format(printf, 3, 4)));

#endif
