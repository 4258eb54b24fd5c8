/*
 * The messages between supervisor and broker: fixed size, whole or not at
 * all, and every text in them ends inside its field whatever was sent.
 */

#include <sys/socket.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "audit/json.h"
#include "broker/broker.h"
#include "enforce/fdpass.h"

const char *
broker_outcome_word(enum broker_outcome o)
{
	return tally_word(TALLY_ENDING, o);
}

int
broker_send_fd(int fd, const struct broker_message *m, int pass)
{
	ssize_t n = fdpass_send(fd, m, sizeof(*m), &pass, pass != -1, 0);

	return n == (ssize_t)sizeof(*m) ? 0 : -1;
}

int
broker_send(int fd, const struct broker_message *m)
{
	return broker_send_fd(fd, m, -1);
}

#define END(field) field[sizeof(field) - 1] = '\0'

int
broker_receive(int fd, struct broker_message *m, bool block, int *passed)
{
	ssize_t n;

	n = fdpass_receive(
	    fd, m, sizeof(*m), passed, 1, block ? 0 : MSG_DONTWAIT);
	if (n == -1)
		return -1;
	if (n != (ssize_t)sizeof(*m) || (unsigned)m->type > BROKER_KILL ||
	    (unsigned)m->result.outcome > BROKER_REFUSED) {
		if (*passed != -1)
			close(*passed);
		*passed = -1;
		errno = n == 0 ? EPIPE : EBADMSG;
		return -1;
	}
	END(m->id);
	END(m->version);
	END(m->head);
	END(m->files);
	END(m->result.by);
	END(m->result.error_message);
	return 0;
}

int
broker_layers(const struct broker_result *r, struct buf *out)
{
	const struct confine_step *steps;
	size_t i, n;

	steps = confine_steps(&n);
	buf_putc(out, '{');
	for (i = 0; i < n; i++) {
		buf_printf(out, "%s\"%s\":", i == 0 ? "" : ",", steps[i].name);
		json_put_string(out,
		    confine_state_word((enum confine_state)r->layers[i]),
		    strlen(confine_state_word(
			(enum confine_state)r->layers[i])));
	}
	buf_putc(out, '}');
	return out->failed ? -1 : 0;
}
