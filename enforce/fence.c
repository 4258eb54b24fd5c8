/*
 * The net worker reads what strangers on the network send, so it is taken to
 * be theirs one day. What it can open then is what every process of the host
 * may read about certificates and names; what it can reach are the ports that
 * the skill was granted anyway.
 */

#include "enforce/fence.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <errno.h>
#include <unistd.h>

#include "enforce/filter.h"
#include "enforce/landlock.h"

#define PORT_DNS 53

/* Each is there or not; a link is followed to what it names now. */
static const char *const readable[] = {"/etc/ssl", "/usr/lib/ssl",
    "/etc/ca-certificates", "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates", "/etc/pki", "/etc/resolv.conf",
    "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf",
    "/etc/services", "/etc/protocols", "/etc/ld.so.cache", "/usr/lib",
    "/usr/lib64", "/lib", "/lib64", "/dev/null", "/dev/urandom"};

static int
allow_files(int ruleset, int abi)
{
	size_t i;

	for (i = 0; i < sizeof(readable) / sizeof(readable[0]); i++) {
		if (landlock_allow(ruleset, abi, readable[i], LANDLOCK_READ) ==
			-1 &&
		    errno != ENOENT && errno != EACCES && errno != ENOTDIR)
			return -1;
	}
	return 0;
}

static int
allow_ports(int ruleset, int abi, const uint16_t *ports, size_t n)
{
	size_t i;

	if (abi < LANDLOCK_NETWORK_ABI)
		return 0;
	for (i = 0; i < n; i++) {
		if (landlock_allow_connect(ruleset, ports[i]) == -1)
			return -1;
	}
	return landlock_allow_connect(ruleset, PORT_DNS);
}

static int
enter_landlock(const uint16_t *ports, size_t n, bool *landlock)
{
	int abi = landlock_abi(), ruleset, result = -1;

	*landlock = false;
	if (abi == 0)
		return 0;
	ruleset = landlock_ruleset(abi, true);
	if (ruleset == -1)
		return -1;
	if (allow_files(ruleset, abi) == 0 &&
	    allow_ports(ruleset, abi, ports, n) == 0 &&
	    landlock_enter(ruleset) == 0) {
		*landlock = true;
		result = 0;
	}
	close(ruleset);
	return result;
}

int
fence_net(const uint16_t *ports, size_t n, bool *landlock)
{
	const struct rlimit none = {0, 0};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 ||
	    enter_landlock(ports, n, landlock) == -1 ||
	    setrlimit(RLIMIT_FSIZE, &none) == -1)
		return -1;
	return filter_enter(filter_of(SECCOMP_NET, false, false), false);
}
