/*
 * Every reason for which a call can be refused, in one table to read aloud.
 * The sentences say what the author could change and never more than the
 * skill already knows.
 */

#include "enforce/verdict.h"

static const struct verdict_info reasons[REASON_COUNT] = {
	[REASON_NONE] = { "none", "none", "not refused" },
	[REASON_RATE_LIMITED] = { "rate_limited", "rate_limited",
	    "wait retry_after_ms before the next call, or ask the operator for "
	    "a higher x-max-calls-per-minute" },
	[REASON_UNKNOWN_TOOL] = { "unknown_tool", "unknown_tool",
	    "tool.list names the tools that this skill may call" },
	[REASON_TOOL_DISALLOWED] = { "tool_in_disallowed_tools",
	    "tool_not_allowed",
	    "remove the tool from disallowed_tools in SKILL.md" },
	[REASON_TOOL_NOT_ALLOWED] = { "tool_not_in_allowed_tools",
	    "tool_not_allowed", "add the tool to allowed_tools in SKILL.md" },
	[REASON_TOOL_CEILING] = { "ceiling", "tool_not_allowed",
	    "the operator's ceiling leaves this tool out; SKILL.md cannot "
	    "widen it" },
	[REASON_SCOPE] = { "scope_violation", "scope_violation",
	    "add a glob that matches the path to allowed_memory_scopes in "
	    "SKILL.md" },
	[REASON_SCOPE_CEILING] = { "ceiling", "scope_violation",
	    "the operator's ceiling leaves this memory path out; SKILL.md "
	    "cannot widen it" },
	[REASON_FILE] = { "file_violation", "file_violation",
	    "add a glob that matches the file's real path to x-allowed-files "
	    "in SKILL.md; what is neither file nor directory is never granted" },
	[REASON_FILE_CEILING] = { "ceiling", "file_violation",
	    "the operator's ceiling leaves this file out; SKILL.md cannot "
	    "widen it" },
	[REASON_PROTECTED] = { "protected", "file_violation",
	    "this place is protected whatever x-allowed-files says; use "
	    "another one" },
	[REASON_HARD_LINK] = { "hard_link", "file_violation",
	    "a file with several hard links is not written; write a copy" },
	[REASON_PRIVILEGED_FILE] = { "privileged_file", "file_violation",
	    "a set-id file or one with security attributes is not written" },
	[REASON_DOMAIN] = { "domain_violation", "domain_violation",
	    "add the host to x-allowed-domains in SKILL.md; without a port "
	    "only the scheme's own port is meant" },
	[REASON_URL_USER] = { "domain_violation", "domain_violation",
	    "take the user out of the URL; a password goes into a header field "
	    "such as Authorization" },
	[REASON_URL_HOST] = { "domain_violation", "domain_violation",
	    "write the host as a full name or localhost, or as an address in "
	    "its usual spelling without a zone, and no port 0; nothing else "
	    "can be granted" },
	[REASON_URL_SCHEME] = { "domain_violation", "domain_violation",
	    "the server leads to something that is neither http nor https; "
	    "that is not followed" },
	[REASON_URL_DOWNGRADE] = { "domain_violation", "domain_violation",
	    "the server leads from https to http; that is not followed" },
	[REASON_DOMAIN_CEILING] = { "ceiling", "domain_violation",
	    "the operator's ceiling leaves this host out; SKILL.md cannot "
	    "widen it" },
	[REASON_ADDRESS_NOT_PUBLIC] = { "address_not_public",
	    "domain_violation",
	    "the name leads to an address that is not public; only the "
	    "operator can allow it (http_allow_addresses)" },
	[REASON_REQUEST_TOO_LARGE] = { "request_too_large",
	    "request_too_large", "send at most 1048576 bytes in one request" },
	[REASON_DEADLINE] = { "deadline", "deadline",
	    "the invocation is at its end; ask for more effort_minutes in "
	    "SKILL.md" },
	[REASON_AUDIT_UNAVAILABLE] = { "audit_unavailable",
	    "audit_unavailable",
	    "the ledger cannot be written and the operator requires it" },
	[REASON_AUDIT_BUDGET] = { "audit_budget", "audit_budget",
	    "the invocation has used up its share of the ledger" },
};

const struct verdict_info *
verdict_info(enum reason reason)
{
	return &reasons[reason];
}
