#!/bin/sh
# How many may run, and what each may take from the others (SPEC 13): a bound
# that holds whoever starts at one moment, and a flood that costs its neighbours
# no more than their share.
# shellcheck source=t/lib.sh
. ./t/lib.sh

# shellcheck disable=SC2016 # the skill's words
printf '#!/bin/sh\nread -r go\n' | skill waits
echo 'max_invocations: 4' >"$T/four.yaml"

# --- twelve `run` at one moment ---
mkfifo "$T/go"
exec 3<>"$T/go"
n=0
while [ $n -lt 12 ]; do
	"$CYBEROS" skill broker run --store "$STORE" --config "$T/four.yaml" \
	    --connect-timeout 0 --result "$T/r.$n" "$T/skills/waits" \
	    <"$T/go" >"$T/null" 2>&1 &
	n=$((n + 1))
done
# ended: how many have
ended() { find "$T" -maxdepth 1 -name 'r.*' ! -name '.*' | wc -l | tr -d ' '; }
tries=0
while [ "$(ended)" -lt 8 ] && [ $tries -lt 600 ]; do
	tries=$((tries + 1))
	sleep 0.1
done
sleep 0.5
is "$(ended)" 8 "of twelve at one moment eight are refused"
is "$(jq -r '.outcome + " " + (.exit_status | tostring) + " " + .error_message' \
    "$T"/r.* | sort -u)" 'refused 5 max_invocations are running already' \
    "and told why"
tries=0
while [ "$("$CYBEROS" skill broker status --store "$STORE" |
    jq '[.invocations[] | select(.remaining_ms > 0)] | length')" != 4 ] &&
    [ $tries -lt 300 ]; do
	tries=$((tries + 1))
	sleep 0.1
done
is "$("$CYBEROS" skill broker status --store "$STORE" | jq .active_invocations)" \
    4 "four run, not fewer"
printf 'x\nx\nx\nx\n' >&3
wait
exec 3>&-
is "$(jq -r .outcome "$T"/r.* | sort | uniq -c | tr -s ' \n' ' ')" \
    ' 8 refused 4 success ' "and run to their end"
rm -f "$T"/r.*
broker_run --config "$T/four.yaml" waits </dev/null
is "$(result outcome)" error "then there is room again"

# One that is killed gives its place back at once.
echo 'max_invocations: 1' >"$T/one.yaml"
printf '#!/bin/sh\nsleep 60\n' | skill naps
"$CYBEROS" skill broker run --store "$STORE" --config "$T/one.yaml" \
    --connect-timeout 0 "$T/skills/naps" >"$T/null" 2>&1 </dev/null &
nap=$!
tries=0
while [ "$("$CYBEROS" skill broker status --store "$STORE" |
    jq .active_invocations)" != 1 ] && [ $tries -lt 300 ]; do
	tries=$((tries + 1))
	sleep 0.1
done
kill -KILL $nap
wait $nap 2>"$T/null"
broker_run --config "$T/one.yaml" waits </dev/null
is "$(result outcome)" error "SIGKILL of a supervisor frees its place"

# --- supervise has the same bound, and waits ---
n=0
while [ $n -lt 6 ]; do
	printf '{"op":"run","skill":"%s/skills/waits","stdin":"x\\n"}\n' "$T"
	n=$((n + 1))
done >"$T/req"
"$CYBEROS" skill broker supervise --store "$STORE" --config "$T/four.yaml" \
    --max 6 <"$T/req" >"$T/out" 2>"$T/err"
is "$(jq -r 'select(.event == "completed") | .outcome' "$T/out" | sort |
    uniq -c | tr -s ' \n' ' ')" ' 6 success ' "supervise: all six have their turn"
is "$(jq -r 'select(.event == "started" or .event == "completed") | .event' \
    "$T/out" | awk '/started/ { n++; if (n > most) most = n }
    /completed/ { n-- } END { print (most <= 4) }')" 1 \
    "supervise: never more than max_invocations at once"

# --- a flood beside five who are steady ---
# Each has the same number of calls to make; the flood makes as many as it can,
# from sixteen connections. With as many runnable skills the machine is shared
# by at most as many as there are, so the slowest may take a few times as long
# as alone times that number, and no longer.
mkdir "$T/f"
chmod 755 "$T/f"
echo hello >"$T/f/a"
READ='{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"'$T'/f/a"}}}'
grants() {
	skill "$1" 'allowed_tools: [Read]' "x-allowed-files: [\"$T/f/**\"]" \
	    <"$WIRE/main"
}
grants steady
grants flood
{
	echo open
	n=0
	while [ $n -lt 300 ]; do
		printf 'send 1 %s\nrecv 1\n' "$READ"
		n=$((n + 1))
	done
} >"$T/steady.txt"
{
	n=1
	while [ $n -le 16 ]; do
		echo open
		n=$((n + 1))
	done
	round=0
	while [ $round -lt 2000 ]; do
		n=1
		while [ $n -le 16 ]; do
			printf 'send %d %s\n' "$n" "$READ"
			n=$((n + 1))
		done
		n=1
		while [ $n -le 16 ]; do
			echo "recv $n"
			n=$((n + 1))
		done
		round=$((round + 1))
	done
} >"$T/flood.txt"
steady() { # FILE: how long 300 calls take, in milliseconds
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --result "$1" steady <"$T/steady.txt" >"$T/null" 2>&1
}
steady "$T/alone.json"
alone=$(jq .duration_ms "$T/alone.json")
"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
    --result "$T/flood.json" flood <"$T/flood.txt" >"$T/null" 2>&1 &
flood=$!
sleep 1
pids=
for n in 1 2 3 4 5; do
	steady "$T/with.$n.json" &
	pids="$pids $!"
done
# shellcheck disable=SC2086
wait $pids
kill -TERM "$flood" 2>"$T/null"
wait "$flood"
is "$(jq -r '[.outcome, (.calls | tostring)] | join(" ")' "$T"/with.*.json |
    sort -u)" "success 300" "beside a flood every call is answered"
most=$(jq .duration_ms "$T"/with.*.json | sort -n | tail -n 1)
note "300 calls alone: $alone ms; beside a flood and four others: $most ms at most"
[ "$most" -le $((alone * 6 * 4 + 2000)) ]
ok $? "and none waits beyond its share of the machine"
is "$(jq '.calls > 0' "$T/flood.json")" true "there was a flood"
verify_store
done_testing
