#!/bin/sh
# DNS rebinding (SPEC 7.8): whatever a name server says, and whenever it says
# something else, nothing reaches an address that is not allowed. The ground
# truth is who was connected to, in a network of the test's own.
# shellcheck source=t/lib.sh
. ./t/lib.sh
# shellcheck source=t/box.sh
. ./t/box.sh
# shellcheck source=t/live.sh
. ./t/live.sh

if ! is_root || ! unshare -mn true 2>/dev/null || ! command -v ip >/dev/null; then
	root_does 'rebinding' 'root, namespaces and iproute2 are needed'
	done_testing
fi

# The address that the operator allows is on an interface of this host, as all
# others are; so are a few of the forbidden kinds.
GOOD=10.9.9.9
BAD='10.9.9.10 192.168.7.7 169.254.169.254 100.64.0.1 11.22.33.44'
printf 'http_allow_addresses: [%s]\n' "$GOOD" >"$T/conf.yaml"
# shellcheck source=t/net.sh
. ./t/net.sh

TOOLS='allowed_tools: [HttpFetch]'
HOSTS='x-allowed-domains: ["*.rebind.test"]'
fetch() { printf 'HttpFetch {"url":"http://%s.rebind.test/%s"}\n' "$1" "${2:-}"; }
# run CONFIG CALLS
run() {
	skill wire "$TOOLS" "$HOSTS" <"$WIRE/main"
	lines "$2"
	# shellcheck disable=SC2086 # words or none
	broker_run $1 wire <"$T/commands"
}

# --- one address at a time ---

run "--config $T/conf.yaml" "$(fetch one)
$(fetch chain)
$(fetch bad)
$(fetch alias)
$(fetch six)
$(fetch mapped)
$(fetch wrap)
$(fetch none)"
is "$(answer 1 .result.body) $(answer 2 .result.body)" "$GOOD $GOOD" \
    'the address that the operator allows is reached, by an alias as well'
for i in 3 4 5 6 7; do
	is "$(said $i)" '-32603 domain_violation address_not_public' \
	    "a name of loopback in some form is refused ($i)"
done
is "$(said 8)" '-32000 resolve_error -' 'a name without an address'
is "$(reached)" "$GOOD " 'and nobody else was reached'
is "$(rows skill.tool_denied '| .reason' | sort | uniq -c | tr -s ' ')" \
    ' 5 "address_not_public"' 'each refusal has its row'

# --- several at once: what is forbidden is not even tried ---

run "--config $T/conf.yaml" "$(fetch both)
$(fetch htob)
$(fetch many)
$(fetch htob-ttl0)"
for i in 1 2 3 4; do
	like "$(answer $i '.result.body // .error.data.reason')" \
	    "^($GOOD|address_not_public)\$" "several addresses ($i)"
done
is "$(reached)" "$GOOD " 'only the allowed one of them was reached'
run '' "$(fetch both)
$(fetch many)"
is "$(said 1) $(said 2)" '-32603 domain_violation address_not_public -32603 domain_violation address_not_public' \
    'without the operator none is'
is "$(reached)" '' 'nobody was reached'

# --- first this, then that ---

many=
n=0
while [ $n -lt 8 ]; do
	n=$((n + 1))
	many="$many$(fetch flip-$n)
$(fetch flip-$n-ttl0)
"
done
run "--config $T/conf.yaml" "$many"
is "$(reached)" "$GOOD " 'names that lead here and there: only the allowed address is reached'
is "$(printf '%s\n' "$OUT" | sed 's/^1 //' |
    jq -r '.result.body // .error.data.reason' | sort | uniq -c | tr -s ' \n' ' ')" \
    " 8 $GOOD 8 address_not_public " 'and it answers, or there is a refusal'
# A connection that is kept is to the address that was looked at.
run "--config $T/conf.yaml" "$(fetch flip-1 keep1)
$(fetch flip-1 keep2)
$(fetch flip-1 keep3)"
is "$(reached) $(wc -l <"$T/log/reached" | tr -d ' ')" "$GOOD  1" \
    'a connection that is kept leads where it led'
is "$(printf '%s\n' "$OUT" | sed 's/^1 //' | jq -r .result.body | sort -u)" "$GOOD" \
    'for as long as it is used'

# --- what is granted is the name, not where it leads ---

HOSTS='x-allowed-domains: ["one.rebind.test"]'
run "--config $T/conf.yaml" "$(fetch bad)
$(fetch one)"
is "$(said 1) $(answer 2 .result.body)" "-32603 domain_violation domain_violation $GOOD" \
    'a name that is not granted'
is "$(grep -c '^bad' "$T/log/names")" 0 'is never asked for'
verify_store
done_testing
