#!/bin/sh
# URLs that look like a granted one (cases U40 to S52): where they lead nobody
# goes, and nobody is even asked for their names.
# shellcheck source=t/lib.sh
. ./t/lib.sh
# shellcheck source=t/box.sh
. ./t/box.sh
# shellcheck source=t/live.sh
. ./t/live.sh

if ! is_root || ! unshare -mn true 2>/dev/null || ! command -v ip >/dev/null; then
	root_does 'URLs' 'root, namespaces and iproute2 are needed'
	done_testing
fi
# Both have a server, and the operator allows both: only the name decides.
GOOD=10.9.9.9
BAD=10.9.9.10
printf 'http_allow_addresses: [10.9.9.0/24]\n' >"$T/conf.yaml"
# shellcheck source=t/net.sh
. ./t/net.sh

TOOLS='allowed_tools: [HttpFetch]'
# ask DOMAINS URL...: one call each; a backslash is doubled for wire
ask() {
	t_domains="x-allowed-domains: [$1]"
	shift
	t_lines=
	for t_url in "$@"; do
		t_lines="${t_lines}HttpFetch {\"url\":\"$t_url\"}
"
	done
	skill wire "$TOOLS" "$t_domains" <"$WIRE/main"
	lines "$t_lines"
	broker_run --config "${CONF:-$T/conf.yaml}" wire <"$T/commands"
}
# verdicts: of all answers, in short
verdicts() {
	printf '%s\n' "$OUT" | sed 's/^1 //' |
	    jq -r '.result.body // .error.data.reason // .error.code' | tr '\n' ' '
}
D=domain_violation

ask docs.example.org http://docs.example.org.evil.test/ http://docs.example.orgx/ \
    http://xdocs.example.org/
is "$(verdicts)" "$D $D $D " 'case U40: a trusted name as the beginning of another'
is "$(rows skill.tool_denied '| .violation' | tr -d '"' | tr '\n' ' ')" \
    'docs.example.org.evil.test:80 docs.example.orgx:80 xdocs.example.org:80 ' \
    'case U40: the row names the host'
is "$(reached)$(wc -l <"$T/log/names" | tr -d ' ')" 0 'case U40: no query leaves'

ask good.test 'http://evil.test\\\\@good.test/' 'http://good.test\\\\@evil.test/' \
    http://good.test@evil.test/ http://evil.test@good.test/ http://good.test/
is "$(verdicts)" "-32602 -32602 $D $D $GOOD " 'case U42: backslash and user'
is "$(rows skill.tool_denied '| .violation' | head -n 1)" '"evil.test:80"' \
    'case U42: the row says who was meant'
is "$(reached) $(asked evil)" "$GOOD  0" 'case U42: nobody went to the other'

ask '"*.good.test"' 'http://evil.test\\u0000.good.test/' http://evil.test%00.good.test/ \
    http://evil.test%0d.good.test/ http://evil.test%2f.good.test/ http://good.good.test/
is "$(verdicts)" "-32700 $D $D $D $GOOD " 'case U44: a NUL and its like in the host'
is "$(asked evil) $(reached)" "0 $GOOD " 'case U44: no query for the other'

ask API.Example.com http://api.example.COM./v1 http://api.example.com../ \
    http://API.EXAMPLE.com/v2 http://api.example.com.:80/
is "$(verdicts)" "$GOOD $D $GOOD $GOOD " 'case U46: case and one final dot'
is "$(asked '^api.example.com ')" "$(asked .)" 'case U46: the name is asked for in its one form'

# --- S ---

odd='2130706433 0x7f000001 0177.0.0.1 127.1 017700000001 0'
# shellcheck disable=SC2046,SC2086 # a list of words
ask '"*"' $(printf 'http://%s/ ' $odd)
is "$(verdicts)" "$D $D $D $D $D $D " 'case S48: odd spellings match no star'
# shellcheck disable=SC2046,SC2086
ask '"*", 127.0.0.1' $(printf 'http://%s/ ' $odd)
is "$(verdicts | xargs -n 1 | sort -u | xargs) " "address_not_public $D " \
    'case S48: nor are they more than the address that is granted'
is "$(reached)" '' 'case S48: loopback sees nothing'

printf '{}\n' >"$T/none.yaml"
CONF=$T/none.yaml ask good.test http://good.test/
is "$(verdicts)" 'address_not_public ' 'case S50: an allowed name that points inside'
is "$(segment | jq -r .kind | grep tool | sed 's/skill.tool_//' | sort | tr '\n' ' ')" \
    'call_completed call_started denied ' 'case S50: three rows'
is "$(rows skill.tool_call_completed '| .outcome')" '"denied"' 'case S50: which ends as denied'
is "$(reached)" '' 'case S50: nobody is reached'
ask good.test http://good.test/
is "$(verdicts)" "$GOOD " 'case S50: unless the operator allows it'
verify_store
done_testing
