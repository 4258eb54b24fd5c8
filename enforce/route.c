/*
 * A public address can be this host: on an interface, or in the routing table
 * only. The kernel is asked how it would route each address, just before it is
 * connected to, and only the answer "to another machine" counts as that.
 */

#include "enforce/route.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_SECONDS 2

struct question {
	struct nlmsghdr head;
	struct rtmsg route;
	struct rtattr attr;
	uint8_t address[16];
};

int
route_open(void)
{
	struct timeval limit = {.tv_sec = ANSWER_SECONDS};
	int fd;

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd != -1 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit,
			    sizeof(limit)) == -1) {
		close(fd);
		return -1;
	}
	return fd;
}

/* The bytes of the address, a mapped one as the IPv4 address that it is. */
static size_t
address_of(const struct sockaddr *sa, uint8_t out[16], unsigned char *family)
{
	struct sockaddr_in four;
	struct sockaddr_in6 six;

	*family = (unsigned char)sa->sa_family;
	if (sa->sa_family == AF_INET) {
		memcpy(&four, sa, sizeof(four));
		memcpy(out, &four.sin_addr, 4);
		return 4;
	}
	if (sa->sa_family != AF_INET6)
		return 0;
	memcpy(&six, sa, sizeof(six));
	if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
		*family = AF_INET;
		memcpy(out, (const uint8_t *)&six.sin6_addr + 12, 4);
		return 4;
	}
	memcpy(out, &six.sin6_addr, 16);
	return 16;
}

static enum route
judge_error(int error)
{
	switch (-error) {
	case ENETUNREACH:
	case EHOSTUNREACH:
	case EACCES: /* a "prohibit" route */
	case EINVAL: /* a "blackhole" one */
		return ROUTE_NONE;
	default:
		return ROUTE_UNKNOWN;
	}
}

static enum route
judge(const char *answer, size_t n, uint32_t seq)
{
	struct nlmsghdr head;
	struct nlmsgerr error;
	struct rtmsg route;

	if (n < sizeof(head))
		return ROUTE_UNKNOWN;
	memcpy(&head, answer, sizeof(head));
	if (head.nlmsg_seq != seq || head.nlmsg_len > n)
		return ROUTE_UNKNOWN;
	if (head.nlmsg_type == NLMSG_ERROR &&
	    head.nlmsg_len >= NLMSG_LENGTH(sizeof(error.error))) {
		memcpy(
		    &error.error, answer + NLMSG_HDRLEN, sizeof(error.error));
		return judge_error(error.error);
	}
	if (head.nlmsg_type != RTM_NEWROUTE ||
	    head.nlmsg_len < NLMSG_LENGTH(sizeof(route)))
		return ROUTE_UNKNOWN;
	memcpy(&route, answer + NLMSG_HDRLEN, sizeof(route));
	switch (route.rtm_type) {
	case RTN_UNICAST:
		return ROUTE_AWAY;
	case RTN_UNREACHABLE:
	case RTN_BLACKHOLE:
	case RTN_PROHIBIT:
	case RTN_THROW:
		return ROUTE_NONE;
	default: /* local, broadcast, anycast, multicast and what may come */
		return ROUTE_HERE;
	}
}

enum route
route_to(int fd, const struct sockaddr *sa)
{
	struct question q;
	char answer[4096];
	ssize_t n;
	size_t len;

	memset(&q, 0, sizeof(q));
	len = address_of(sa, q.address, &q.route.rtm_family);
	if (len == 0)
		return ROUTE_UNKNOWN;
	q.route.rtm_dst_len = (unsigned char)(len * 8);
	q.attr.rta_type = RTA_DST;
	q.attr.rta_len = (unsigned short)RTA_LENGTH(len);
	q.head.nlmsg_type = RTM_GETROUTE;
	q.head.nlmsg_flags = NLM_F_REQUEST;
	q.head.nlmsg_len =
	    (uint32_t)(NLMSG_LENGTH(sizeof(q.route)) + RTA_LENGTH(len));
	/* What is left of an earlier question must not answer this one. */
	while (recv(fd, answer, sizeof(answer), MSG_DONTWAIT) > 0)
		;
	q.head.nlmsg_seq = 1;
	if (send(fd, &q, q.head.nlmsg_len, 0) == -1)
		return ROUTE_UNKNOWN;
	do
		n = recv(fd, answer, sizeof(answer), 0);
	while (n == -1 && errno == EINTR);
	return n == -1 ? ROUTE_UNKNOWN
		       : judge(answer, (size_t)n, q.head.nlmsg_seq);
}
