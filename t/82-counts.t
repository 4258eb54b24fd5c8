#!/bin/sh
# Acceptance 23: counts are those of the ledger, exactly, after CALLS calls of
# every outcome, while brokers and supervisors are killed in between, and while
# others read. `make fault` has more of them.
# shellcheck source=t/lib.sh
. ./t/lib.sh
# shellcheck source=t/live.sh
. ./t/live.sh
# shellcheck source=t/box.sh
. ./t/box.sh

CALLS=${CALLS:-1000}
BATCH=${BATCH:-15}
STOPS=${STOPS:-6}
if ! command -v python3 >/dev/null; then
	skip 'counts' 'python3 is not installed'
	done_testing
fi
D=$T/d
mkdir -p "$D"
echo fine >"$D/a.txt"
TOOLS='allowed_tools: [Read, Write, Bash]'
FILES="x-allowed-files: [\"$D/**\"]"
metrics() { "$CYBEROS" skill broker metrics --store "$STORE"; }
all() { awk '/^skill_broker_tool_calls_total/ { n += $2 } END { print n + 0 }'; }

flood() {
	printf 'flood 1 %s {"jsonrpc":"2.0","id":#,"method":"tool.call","params":{"tool":"%s","args":%s}}\n' \
	    "$BATCH" "$1" "$2"
	n=0
	while [ $n -lt "$BATCH" ]; do
		echo 'recv 1 60000'
		n=$((n + 1))
	done
}
{
	echo open
	flood Read "{\"path\":\"$D/a.txt\"}"
	flood Read '{"path":"/etc/passwd"}'
	flood Write "{\"path\":\"$D/w\",\"body\":\"x\"}"
	flood Read "{\"path\":\"$D/none\"}"
	flood Nonsense '{}'
	flood Grep '{"pattern":"x"}'
	flood Read '{"path":1}'
} >"$T/mixed"
skill wire "$TOOLS" "$FILES" <"$WIRE/main"

# The same, and does not end before it is killed.
{
	cat "$T/mixed"
	echo 'send 1 {"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Bash","args":{"cmd":"sleep 60"}}}'
	echo 'recv 1 60000'
} >"$T/endless"

# Who reads meanwhile sees counts rise, and a whole text.
watch() {
	last=0 looks=0
	while [ -e "$T/watching" ]; do
		metrics >"$T/seen" || echo 'a read failed'
		now=$(all <"$T/seen")
		[ "$now" -ge "$last" ] || echo "$now calls after $last"
		last=$now looks=$((looks + 1))
		[ $((looks % 10)) -ne 1 ] || python3 t/metrics.py check <"$T/seen"
		sleep 0.05
	done
	echo "$looks" >"$T/looks"
}
: >"$T/watching"
watch >"$T/wrong" &
WATCH=$!

# in_a_moment PROCESS...: kill them, somewhere in the middle
random() { od -An -N2 -tu2 /dev/urandom | tr -d ' '; }
killed() {
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" --quiet \
	    wire <"$T/endless" >"$T/killed.out" 2>"$T/killed.err" &
	LIVE=$!
	# Somewhere between its first answer and its last.
	wanted=$(($(random) % (BATCH * 7) + 1))
	while [ "$(wc -l <"$T/killed.out")" -lt "$wanted" ] &&
	    kill -0 "$LIVE" 2>/dev/null; do
		[ "$(wc -l <"$T/killed.out")" -gt 0 ] || sleep 0.01
	done
	pid=$("$CYBEROS" skill broker status --store "$STORE" |
	    jq -r '.invocations[0].pid // empty')
	case $1 in
	broker) [ -n "$pid" ] && kill -KILL "$pid" ;;
	supervisor) kill -KILL "$LIVE" ;;
	both) kill -KILL "$LIVE" ${pid:+"$pid"} ;;
	esac 2>/dev/null && kills=$((kills + 1))
	wait "$LIVE"
	[ -z "$pid" ] || while ! is_dead "$pid"; do sleep 0.01; done
}
rounds=0 kills=0
while [ "$(metrics | all)" -lt "$CALLS" ] && [ $rounds -lt 1000 ]; do
	rounds=$((rounds + 1))
	case $((rounds % 4)) in
	0) broker_run --quiet wire <"$T/mixed" ;;
	1) killed broker ;;
	2) killed supervisor ;;
	3) killed both ;;
	esac 2>/dev/null
	[ $((rounds % 8)) -ne 7 ] || "$CYBEROS" skill broker sweep \
	    --store "$STORE" >"$T/said"
done
holds 'brokers and supervisors were killed' [ $kills -gt 3 ]
# A call that was in flight when the time was over.
{
	echo open
	tail -n 2 "$T/endless"
} >"$T/late"
broker_run --deadline 2 wire <"$T/late"
# Killed when its nth row is in the file, and not counted yet.
{
	echo open
	for n in 1 2 3; do
		echo 'send 1 {"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"'"$D"'/a.txt"}}}'
		echo 'recv 1 60000'
	done
} >"$T/three"
echo 'audit_sync: row' >"$T/row.yaml"
stopped=0
if strace -f -o "$T/traced" true 2>"$T/err"; then
	left=$STOPS
else
	skip 'killed behind a row' "strace cannot trace here: $(cat "$T/err")"
	left=0
fi
while [ $left -gt 0 ]; do
	timeout 120 strace -f -o /dev/null -e trace=fdatasync \
	    -e inject=fdatasync:signal=KILL:when=$((STOPS - left + 2)) "$CYBEROS" \
	    skill broker run --store "$STORE" --skills "$T/skills" --quiet \
	    --config "$T/row.yaml" wire <"$T/three" >"$T/out" 2>&1 ||
		stopped=$((stopped + 1))
	left=$((left - 1))
done
[ ! -s "$T/traced" ] ||
    holds 'killed behind a row, each time while there were any' [ "$stopped" -ge 6 ]
# The broker alone, right behind its nth row: if that ends a call, it has its
# span. The supervisor does not sync that file so often.
wrong=
n=3
# Whose descriptors are, only root can look at.
while [ -s "$T/traced" ] && is_root && [ $n -lt 8 ]; do
	n=$((n + 1))
	INV=$(new_id)
	file=$STORE/audit/$(date -u +%F)/seg/$(printf %.2s "$INV")/$INV.p1.jsonl
	rm -f "$T/spans"
	timeout 120 strace -f -o /dev/null -P "$file" -e trace=fdatasync \
	    -e inject=fdatasync:signal=KILL:when=$n "$CYBEROS" skill broker run \
	    --store "$STORE" --skills "$T/skills" --quiet --invocation "$INV" \
	    --otel-file "$T/spans" --config "$T/row.yaml" wire <"$T/three" >"$T/out" 2>&1
	rows=$(grep -c '"skill.tool_call_completed"' "$file")
	spans=$(grep -o '"name":"skill.broker.tool_call"' "$T/spans" | wc -l)
	[ "$?/$rows/$spans" = "0/$(((n - 1) / 2))/$rows" ] ||
	    wrong="$wrong row $n: $rows completed, $spans spans;"
done
if ! is_root; then
	root_does 'a broker that dies behind a row' 'strace has to know its files'
elif [ -s "$T/traced" ]; then
	is "$wrong" '' 'a broker that dies behind a row: the spans are those of the rows'
fi
rm "$T/watching"
wait "$WATCH"
"$CYBEROS" skill broker sweep --store "$STORE" >"$T/said"

metrics >"$T/text"
python3 t/metrics.py ledger "$STORE" <"$T/text" >"$T/said"
is "$?" 0 "acceptance 23: after $kills kills in $rounds runs, and behind $stopped of its rows, all counts are those of the ledger"
note "$(cat "$T/said")"
is "$(cat "$T/wrong")" '' "nobody who read meanwhile ($(cat "$T/looks") times) saw anything else"
is "$(find "$STORE/run" -name '*.status')" '' 'every page is in the sum'
missing=
for outcome in success error denied timeout; do
	grep -q "^skill_broker_tool_calls_total{.*,outcome=\"$outcome\"} [1-9]" \
	    "$T/text" || missing="$missing $outcome"
done
is "$missing" '' 'every outcome was among them'
is "$(python3 t/metrics.py check <"$T/text")" '' 'in good form'
verify_store

done_testing
