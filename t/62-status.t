#!/bin/sh
# cyberos skill broker status: right while skills run, after they ended, and
# after something was killed.
# shellcheck source=t/lib.sh
. ./t/lib.sh
# shellcheck source=t/live.sh
. ./t/live.sh

mkdir -p "$STORE/memories/notes"
chmod 700 "$STORE"
printf 'a note\n' >"$STORE/memories/notes/n.md"
TOOLS='allowed_tools: [MemoryRead]'
SCOPES='allowed_memory_scopes: [memories/notes/**]'
call() { printf '{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"%s","args":{"path":"%s"}}}' "$1" "$2"; }
skill wire "$TOOLS" "$SCOPES" <"$WIRE/main"
printf '#!/bin/sh\nexit 0\n' | skill ok

# status FILTER [OPTIONS]
status() {
	t_filter=$1
	shift
	"$CYBEROS" skill broker status --store "$STORE" "$@" | jq -c "$t_filter"
}
NUMBERS='[.active_invocations, .tool_calls_today, .denied_today, .errors_today, .timeouts_today, .spooled_rows]'
# ask CALL: one call of the running skill, awaited
ask() {
	t_before=$(wc -l <"$T/live.out")
	live_say "send 1 $1"
	live_say 'recv 1'
	while [ "$(wc -l <"$T/live.out")" -eq "$t_before" ] &&
	    kill -0 "$LIVE" 2>/dev/null; do
		sleep 0.01
	done
}

# --- nothing has happened

is "$(status keys_unsorted)" \
    '["active_invocations","tool_calls_today","denied_today","errors_today","timeouts_today","spooled_rows","version","invocations"]' \
    'acceptance 20: status is JSON with the fields of SPEC 12'
is "$(status "$NUMBERS")" '[0,0,0,0,0,0]' 'acceptance 20: all zero at first'
is "$(status .version)" '"1.0.0"' 'acceptance 20: and the version'
is "$(find "$STORE" -newer "$T/skills/ok/main" | grep -c audit)" 0 \
    'it only reads: no ledger was made'

# --- while a skill runs

ID=0a1b2c3d-0000-4000-8000-00000000eeee
TENANT=12345678-1234-4123-8123-123456789abc
mkdir -p "$STORE/tenants/$TENANT/memories/notes"
chmod 700 "$STORE/tenants" "$STORE/tenants/$TENANT"
printf 'theirs\n' >"$STORE/tenants/$TENANT/memories/notes/n.md"
live_start wire --invocation "$ID" --tenant "$TENANT" --deadline 500
live_say open
ask "$(call MemoryRead memories/notes/n.md)"
is "$(status "$NUMBERS")" '[1,1,0,0,0,0]' 'acceptance 20: one call, live'
ask "$(call MemoryRead memories/notes/none.md)"
is "$(status "$NUMBERS")" '[1,2,0,1,0,0]' 'acceptance 20: an error, live'
ask "$(call MemoryRead memories/other/n.md)"
ask "$(call Bash x)"
ask '{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"MemoryRead","args":{}}}'
ask 'no json'
is "$(status "$NUMBERS")" '[1,4,2,1,0,0]' \
    'acceptance 20: refused calls count, what never was a call does not'
is "$(status '.invocations | length, (.[0] | keys_unsorted)' | tr '\n' ' ')" \
    '1 ["invocation_id","skill_id","tenant_id","pid","started_at","calls","denied","remaining_ms"] ' \
    'acceptance 20: the running one is listed with its fields'
is "$(status '.invocations[0] | [.invocation_id, .skill_id, .tenant_id, .calls, .denied]')" \
    "[\"$ID\",\"wire\",\"$TENANT\",4,2]" 'which are right'
is "$(status '.invocations[0] | [(.remaining_ms > 100000 and .remaining_ms <= 500000), (.started_at | test("^20.*[0-9]Z$")), (.started_at | .[0:19] + "Z" | fromdate - now | . < 5 and . > -300)]')" \
    '[true,true,true]' 'times too'
PID=$(status '.invocations[0].pid')
is "$(cat "/proc/$PID/comm")" cyberos-broker 'the pid is the broker'\''s'

# --- tenants

live_first=$LIVE
exec 7>&6
mv "$T/live.in" "$T/first.in"
mv "$T/live.out" "$T/first.out"
ID2=0a1b2c3d-0000-4000-8000-00000000eeef
live_start wire --invocation "$ID2"
live_say open
ask "$(call MemoryRead memories/notes/n.md)"
is "$(status "$NUMBERS")" '[2,5,2,1,0,0]' 'two tenants'
is "$(status '.invocations | map(.invocation_id)')" "[\"$ID\",\"$ID2\"]" \
    'in the order in which they began'
is "$(status '[.active_invocations, .tool_calls_today, (.invocations | map(.invocation_id))]' \
    --tenant "$TENANT")" "[1,5,[\"$ID\"]]" \
    '--tenant lists that tenant'\''s; totals stay the host'\''s'
is "$(status '[.active_invocations, .invocations]' \
    --tenant 12345678-1234-4123-8123-000000000000)" '[0,[]]' \
    'a tenant without any'

# --- for people

"$CYBEROS" skill broker status --store "$STORE" --human >"$T/human"
is "$(awk 'length > 80' "$T/human")" '' '--human fits on 80 columns'
like "$(cat "$T/human")" '^cyberos 1\.0\.0: 2 running$' 'how many run'
like "$(cat "$T/human")" \
    '^today \(UTC\): 5 calls, 2 denied, 1 failed, 0 timed out$' 'today'
like "$(cat "$T/human")" "^$ID +wire +4 +2 +[0-9]+s$" 'each of them'
is "$(LC_ALL=C grep -c '[^ -~]' "$T/human")" 0 'no escape sequence in it'

# --- by whom

if is_root; then
	cp "$CYBEROS" "$T/cyberos"
	setpriv --reuid 54321 --regid 54321 --clear-groups "$T/cyberos" skill \
	    broker status --store "$STORE" >"$T/out" 2>"$T/err"
	is "$? $(cat "$T/out")" '5 ' 'another user is told nothing'
	unlike "$(cat "$T/err")" "$ID" 'on standard error neither'
	chmod 755 "$STORE"
	setpriv --reuid 54321 --regid 54321 --clear-groups "$T/cyberos" skill \
	    broker status --store "$STORE" >"$T/out" 2>"$T/err"
	is "$? $(cat "$T/out")" '5 ' 'whatever the mode of the store'
	chmod 700 "$STORE"
fi

# --- the end

live_end
is "$RC" 0 'the second one ends'
is "$(status "$NUMBERS")" '[1,5,2,1,0,0]' 'totals stay when a skill ends'
is "$(status '.invocations | map(.invocation_id)')" "[\"$ID\"]" \
    'the list does not keep it'
rm -f "$STORE"/audit/*/totals
is "$(status "$NUMBERS")" '[1,5,2,1,0,0]' 'the kept sum is a cache, no more'
printf 'garbage' >"$(echo "$STORE"/audit/*-*)/totals"
is "$(status "$NUMBERS")" '[1,5,2,1,0,0]' 'garbage in its place does no harm'
rm "$STORE"/audit/*/totals
mkfifo -m 600 "$(echo "$STORE"/audit/*-*)/totals"
is "$(timeout 20 "$CYBEROS" skill broker status --store "$STORE" | jq -c "$NUMBERS")" \
    '[1,5,2,1,0,0]' 'a pipe neither: nobody waits for it'
broker_run ok
is "$(status "$NUMBERS")" '[1,5,2,1,0,0]' 'and is replaced'
is "$(jq -c '[.calls, .denied]' "$STORE"/audit/*/totals)" '[1,0]' \
    'by what is closed so far'

# --- killed

exec 6>&7 7>&-
LIVE=$live_first
kill -KILL "$PID"
waited=0
while [ "$(status .active_invocations)" != 0 ] && [ "$waited" -lt 400 ]; do
	waited=$((waited + 1))
	sleep 0.02
done
exec 6>&-
wait "$LIVE"
is "$?" 125 'a broker that is killed'
is "$(status "$NUMBERS")" '[0,5,2,1,0,0]' 'every count of it was kept'
is "$(status .invocations)" '[]' 'it is not listed'
is "$(find "$STORE/run" -type f ! -name metrics ! -name slots)" '' 'its page and lock are gone'

# A page and a lock that a crash of everything left behind.
ID3=0a1b2c3d-0000-4000-8000-00000000eef0
: >"$STORE/run/$ID3.lock"
head -c 4096 /dev/zero >"$STORE/run/$ID3.status"
is "$(status .active_invocations)" 0 'a lock that nobody holds is nobody'
(
	exec 9<"$STORE/run/$ID3.lock"
	flock 9
	: >"$T/held"
	read -r _ <"$T/first.in"
) &
while [ ! -e "$T/held" ]; do sleep 0.02; done
is "$(status .active_invocations)" 0 'nor is one that holds it without a page'
# Pages come from processes that serve hostile programs: nothing in them may
# get out of its place.
page() { # page MAGIC INVOCATION SKILL TENANT
	{
		printf '%s' "$1"
		for field in "40 $2" "72 $3" "40 $4"; do
			t_text=${field#* }
			printf '%s' "$t_text"
			head -c $((${field%% *} - ${#t_text})) /dev/zero
		done
		head -c 4000 /dev/zero
	} | head -c 4096 >"$STORE/run/$ID3.status"
}
long=$(head -c 72 /dev/zero | tr '\0' x)
NIL=00000000-0000-0000-0000-000000000000
page ksrollo0 "$ID3" ok "$NIL"
is "$(status .active_invocations)" 0 'a page of another kind is none'
page ksroll01 "$ID3" 'a"b' "$NIL"
is "$(status '.invocations | map(.skill_id)')" '["a\"b"]' 'texts are escaped'
page ksroll01 "$ID3" "$long" "$NIL"
is "$(status .active_invocations)" 0 'a text without an end'
page ksroll01 "$ID2" ok "$NIL"
is "$(status .active_invocations)" 0 'a page of another invocation'
page ksroll01 "$ID3" ok '","x":"'
is "$(status .active_invocations)" 0 'a tenant that is no UUID'
page ksroll01 "$ID3" "$(printf 'a\033[31m')" "$NIL"
"$CYBEROS" skill broker status --store "$STORE" --human >"$T/human"
is "$(LC_ALL=C grep -c '[^ -~]' "$T/human") $(grep -c "^$ID3" "$T/human")" \
    '0 1' 'nor does a terminal see control characters'
truncate -s 100 "$STORE/run/$ID3.status"
is "$(status .active_invocations)" 0 'a page that is too short'
ln -sf /etc/passwd "$STORE/run/$ID3.status"
is "$(status .active_invocations)" 0 'a page that is a link'
echo >"$T/first.in"
wait $!

done_testing
