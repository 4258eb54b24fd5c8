#!/bin/sh
# The ledger over a change of day and with a clock that is set back, by the
# product with a wall clock that the test sets (t/faulty.c): no row is lost,
# each day's totals have what happened in it, one chain whatever the clock does.
# shellcheck source=t/lib.sh
. t/lib.sh
# shellcheck source=t/box.sh
. t/box.sh

CYBEROS=${FAULTY:-$PWD/build/unit/faulty}
export CYBEROS_TEST_PAGE="$T/page"
truncate -s 4096 "$T/page"
NOON=$(($(date +%s) / 86400 * 86400 + 43200))
# wall SECONDS: from now on it is so long after today's noon
wall() {
	printf %020d $((NOON + $1 - $(date +%s))) |
	    dd of="$T/page" conv=notrunc status=none
}
day_of() { date -u -d "@$((NOON + $1))" +%Y-%m-%d; }
DAY=86400
D1=$(day_of 0) D2=$(day_of $DAY)

# today TOTALS...: what status says, by its own clock
today() {
	"$CYBEROS" skill broker status --store "$STORE" --json |
	    jq -c '[.tool_calls_today, .denied_today, .errors_today]'
}
verifies() {
	"$CYBEROS" skill broker verify --store "$STORE" "$@" >"$T/found" 2>&1
	is "$?" 0 "verify $* holds"
}

mkdir -p "$STORE/memories/notes"
chmod 700 "$STORE" "$STORE/memories" "$STORE/memories/notes"
(umask 077; echo hello >"$STORE/memories/notes/n.md")
skill storm 'allowed_tools: [MemoryRead, Read]' \
    'allowed_memory_scopes: ["memories/notes/**"]' <t/skills/storm/main
round() {
	cat <<-'E'
	40 8 4
	{"tool":"MemoryRead","args":{"path":"memories/notes/n.md"}}
	{"tool":"Read","args":{"path":"/etc/passwd"}}
	{"tool":"MemoryRead","args":{"path":"memories/notes/none.md"}}
	{"tool":"MemoryRead","args":{"path":"memories/notes/n.md"}}
	E
}

# --- CASES 137: brokers that write while the day changes ---

wall 0
BROKERS=16
i=0 runs=
while [ "$i" -lt $BROKERS ]; do
	i=$((i + 1))
	mkfifo "$T/in.$i"
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --result "$T/r.$i" storm <"$T/in.$i" >"$T/o.$i" 2>"$T/e.$i" &
	runs="$runs $!"
done
feed() {
	i=0
	while [ "$i" -lt $BROKERS ]; do
		i=$((i + 1))
		round >>"$T/in.$i"
	done
}
# None ends before all may, and no writer waits for a reader.
perl -e 'open $in[@in], "+<", $_ or die for @ARGV; $| = 1; print "held\n"; sleep 300' \
    "$T"/in.* >"$T/held" &
HOLD=$!
until_true grep -q held "$T/held"
done_rounds() { [ "$(cat "$T"/o.* | grep -c '^done')" -eq "$1" ]; }
feed
until_true done_rounds $BROKERS
ok $? "each has done a round on the first day"
is "$(today)" "[$((BROKERS * 40)),$((BROKERS * 10)),$((BROKERS * 10))]" \
    "status counts them"
wall $((DAY / 2 + 60))
feed
until_true done_rounds $((BROKERS * 2))
ok $? "and one after midnight"
is "$(today)" "[$((BROKERS * 40)),$((BROKERS * 10)),$((BROKERS * 10))]" \
    "while they run status has those of the second day alone"
wall $DAY
kill $HOLD
wait $HOLD 2>/dev/null
for run in $runs; do
	wait "$run"
done
is "$(jq -c '[.outcome, .calls, .denied]' "$T"/r.* | sort | uniq -c | tr -s ' ')" \
    " $BROKERS [\"success\",80,20]" "CASES 137: all of it was answered"
is "$(cat "$T"/e.*)" '' "without a word"
is "$(cat "$STORE/audit/$D1"/seg/*/* | jq -r .kind | sort | uniq -c | tr -s ' ')" \
    " $BROKERS skill.invoked_completed
 $BROKERS skill.invoked_started
 $((BROKERS * 60)) skill.tool_call_completed
 $((BROKERS * 60)) skill.tool_call_started
 $((BROKERS * 20)) skill.tool_denied" "no row is lost or doubled"
is "$(jq -r 'select(.kind == "audit.segment_closed") | .payload.before | "\(.day) \(.calls) \(.denied) \(.errors)"' \
    "$STORE/audit/$D2/host.jsonl" | sort | uniq -c | tr -s ' ')" \
    " $BROKERS $D2 40 10 10" "the end says what belongs to the day before"
is "$(today)" "[$((BROKERS * 40)),$((BROKERS * 10)),$((BROKERS * 10))]" \
    "the second day has its own calls alone"
verifies
verifies --day "$D1"
verify_store "an independent reader agrees"

# --- a clock that is set back ---

wall -60
broker_run storm <<E
$(round)
E
is "$RC" 0 "the clock is set back by a day: a skill runs"
is "$(tail -n 2 "$STORE/audit/$D2/host.jsonl" | jq -r .kind | tr '\n' ' ')" \
    "audit.segment_opened audit.segment_closed " "its anchors stand in the newest day"
is "$(jq -r 'select(.kind == "audit.clock_step") | .payload.prev_ts[:10]' "$STORE/audit/$D2/host.jsonl")" \
    "$D2" "and the step is told of, once"
is "$(today)" "[$((BROKERS * 40 + 40)),$((BROKERS * 10 + 10)),$((BROKERS * 10 + 10))]" \
    "today is the ledger's newest day"
verifies
verify_store "an independent reader agrees"
wall $((2 * DAY))
broker_run storm <<E
$(round)
E
is "$(jq -r 'select(.kind == "audit.day_opened") | .payload.prev_day' "$STORE/audit/$(day_of $((2 * DAY)))/host.jsonl")" \
    "$D2" "the next day hangs on it"
verifies
done_testing
