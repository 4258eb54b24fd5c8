#!/bin/sh
# The budget of rows: a skill cannot fill the disk with what it is refused, and
# every refusal is counted all the same.
# shellcheck source=t/lib.sh
. t/lib.sh
. t/box.sh

mkdir -p "$T/f"
echo hello >"$T/f/a"
TOOLS='allowed_tools: [Read]'
FILES="x-allowed-files: [\"$T/f/**\"]"
CONF=$T/broker.yaml
echo 'max_ledger_mb: 1' >"$CONF"
verify() { "$CYBEROS" skill broker verify --store "$STORE" >"$T/found" 2>&1; }

# ask N PATH...: so many calls, each path in turn; what was answered, counted
cat >"$T/ask.pl" <<'P'
use Socket;
socket my $s, AF_UNIX, SOCK_STREAM, 0;
connect $s, sockaddr_un $ENV{CYBEROS_BROKER_SOCKET} or die;
my %said;
sub take { my ($n) = @_; my $b = ''; while (length $b < $n) { sysread $s, $b, $n - length $b, length $b or die 'end' } $b }
while (@ARGV) {
	my ($n, $path) = splice @ARGV, 0, 2;
	for (1 .. $n) {
		my $call = '{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"' . $path . '"}}}';
		syswrite $s, pack('N', length $call) . $call;
		my $answer = take(unpack 'N', take(4));
		$said{$answer =~ /"reason":"([a-z_]+)"/ ? $1 : $answer =~ /"result"/ ? 'ok' : 'other'}++;
	}
}
print "$_ $said{$_}\n" for sort keys %said;
P
{ echo '#!/usr/bin/perl'; cat "$T/ask.pl"; } | skill ask "$TOOLS" "$FILES"
run() { broker_run --config "$CONF" ask -- "$@"; }
size() { segment | wc -c; }
# told FILTER: how many calls the rows of refusals tell of
told() { rows skill.tool_denied "| select($1) | .count // 1" | awk '{ n += $1 } END { print n + 0 }'; }
counts() { rows skill.invoked_completed '| [.calls, .denied]'; }

run 12000 /etc/passwd
is "$RC $(val file_violation)" "0 12000" "12,000 refusals, each answered"
is "$(told '.reason == "file_violation"')" 12000 "the rows tell of all of them"
is "$(counts)" "[12000,12000]" "and so does the end"
[ "$(count skill.tool_denied)" -lt 2500 ]
ok $? "from 90 % of the budget on, equal ones share a row ($(count skill.tool_denied) rows)"
[ "$(size)" -lt 1048576 ]
ok $? "so the budget is not spent"
verify
ok $? "the ledger holds"

run 2000 /etc/passwd 2000 "$T/f/a" 500 /etc/passwd
is "$(val ok) $(val audit_budget)" "$(val ok) $((4500 - $(val file_violation) - $(val ok)))" \
    "calls that are granted use it up"
[ "$(val audit_budget)" -gt 500 ] && [ "$(val ok)" -gt 10 ]
ok $? "then further calls get audit_budget ($(val ok) were served, $(val audit_budget) not)"
is "$(told '.reason == "audit_budget"')" "$(val audit_budget)" "they are counted"
is "$(rows skill.tool_denied '| select(.reason == "audit_budget") | [.tool_name, .violation]')" \
    '["Read",null]' "in one row for the tool"
is "$("$CYBEROS" skill broker metrics --store "$STORE" |
    awk '/^skill_broker_tool_calls_total{.*denied/ { n += $NF } END { print n }')" \
    "$((12000 + 4500 - $(val ok)))" "the metrics have each of them once"
is "$(counts)" "[4500,$((4500 - $(val ok)))]" "the end is recorded, with all counts"
[ "$(size)" -lt 1120000 ]
ok $? "and the segment stays near its budget ($(size) bytes)"
verify
ok $? "the ledger holds"
verify_store "and an independent reader agrees"

echo 'max_ledger_mb: 256' >"$CONF"
run 3000 /etc/passwd
is "$(count skill.tool_denied)" 3000 "far from the budget each refusal has its row"
done_testing
