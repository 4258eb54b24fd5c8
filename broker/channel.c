/*
 * The messages between supervisor and broker: fixed size, whole or not at
 * all, and every text in them ends inside its field whatever was sent.
 */

#include <sys/socket.h>

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "audit/json.h"
#include "broker/broker.h"

static const char *const outcomes[] = {
	[BROKER_SUCCESS] = "success",
	[BROKER_ERROR] = "error",
	[BROKER_PANIC] = "panic",
	[BROKER_KILLED] = "killed",
	[BROKER_TIMEOUT] = "timeout",
	[BROKER_NO_CONNECT] = "no_connect",
	[BROKER_REFUSED] = "refused",
};

const char *
broker_outcome_word(enum broker_outcome o)
{
	return outcomes[o];
}

int
broker_send_fd(int fd, const struct broker_message *m, int pass)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ancillary = { .room = { 0 } };
	struct iovec io = { (void *)(uintptr_t)m, sizeof(*m) };
	struct msghdr h = { .msg_iov = &io, .msg_iovlen = 1 };
	struct cmsghdr *c;
	ssize_t n;

	if (pass != -1) {
		h.msg_control = &ancillary;
		h.msg_controllen = sizeof(ancillary);
		c = CMSG_FIRSTHDR(&h);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &pass, sizeof(int));
	}
	do
		n = sendmsg(fd, &h, MSG_NOSIGNAL);
	while (n == -1 && errno == EINTR);
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
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	struct iovec io = { m, sizeof(*m) };
	struct msghdr h = { .msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = &ancillary,
		.msg_controllen = sizeof(ancillary) };
	struct cmsghdr *c;
	ssize_t n;

	*passed = -1;
	do
		n = recvmsg(fd, &h, MSG_CMSG_CLOEXEC | (block ? 0 : MSG_DONTWAIT));
	while (n == -1 && errno == EINTR);
	if (n == -1)
		return -1;
	c = n == 0 ? NULL : CMSG_FIRSTHDR(&h);
	if (c != NULL && c->cmsg_level == SOL_SOCKET &&
	    c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(passed, CMSG_DATA(c), sizeof(int));
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
