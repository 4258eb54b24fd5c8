#!/bin/sh
# What dead brokers and supervisors leave: found by verify, closed by sweep and
# by the next run, never repaired and never made to look well.
# shellcheck source=t/lib.sh
. t/lib.sh
. t/box.sh
# shellcheck source=t/live.sh
. t/live.sh

mkdir -p "$T/f"
echo hello >"$T/f/a"
TOOLS='allowed_tools: [Read]'
FILES="x-allowed-files: [\"$T/f/**\"]"
READ='{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"'$T'/f/a"}}}'

sweep() { "$CYBEROS" skill broker sweep --store "$STORE" >"$T/said" 2>&1; RC=$?; }
verify() { "$CYBEROS" skill broker verify --store "$STORE" >"$T/found" 2>&1; VRC=$?; }
seg() { ls "$STORE"/audit/*/seg/*/"$1".p"${2:-1}".jsonl 2>/dev/null; }
anchors() { # KIND; what a crash has left there is no JSON
	cat "$STORE"/audit/*/host.jsonl |
	    jq -Rc "fromjson? | select(.kind == \"$1\") | .payload"
}

# crashed: an invocation whose broker and supervisor died; its id is in INV
crashed() {
	skill wire "$TOOLS" "$FILES" <"$WIRE/main"
	INV=$(new_id)
	live_start wire --invocation "$INV"
	live_say "open
send 1 $READ
recv 1
say ready"
	live_wait '^ready'
	t_pid=$(live_broker)
	kill -KILL "$LIVE" "$t_pid"
	exec 6>&-
	wait "$LIVE" 2>/dev/null
	until_true is_dead "$t_pid"
}

# --- one that crashed ---

crashed
until_true [ -z "$(alive)" ]
is "$(alive)" "" "broker and supervisor killed: the skill is gone"
holds "its socket is left" [ -S "/tmp/cyberos-skill-broker.$INV.sock" ]
verify
is "$VRC" 1 "verify: leftovers"
like "$(cat "$T/found")" "$INV.p1.jsonl: lock: was never closed" "it names the segment"
today() { "$CYBEROS" skill broker status --store "$STORE" | jq -c '[.active_invocations, .tool_calls_today]'; }
is "$(today)" '[0,1]' "its calls are among today's"
sweep
is "$(today)" '[0,1]' "and are when its books are closed"
is "$RC" 0 "sweep"
is "$(cat "$T/said")" "removed the socket of $INV
closed the books of $INV" "it says what it did"
holds "the socket is gone" [ ! -e "/tmp/cyberos-skill-broker.$INV.sock" ]
is "$(ls -I metrics -I slots "$STORE/run")" "" "and the lock and the page"
is "$(jq -c '[.by, .payload.outcome, .payload.by, .payload.calls]' "$(seg "$INV" 2)")" \
    '["recovery","panic","recovery",1]' "the end is recorded in a new part"
is "$(jq -r .payload.trace_id "$(seg "$INV" 2)")" \
    "$(sed -n 1p "$(seg "$INV")" | jq -r .payload.trace_id)" "with its trace"
is "$(anchors audit.segment_closed | jq -c '[.reason, .parts, .calls, .torn_bytes]')" \
    '["crash",2,1,0]' "and its books are closed"
verify
is "$VRC" 0 "verify: intact"
verify_store "and an independent reader agrees"
before=$(cat "$STORE"/audit/*/host.jsonl | sha256sum)
sweep
is "$RC $(cat "$T/said")" "0 nothing to do" "a second sweep has nothing to do"
is "$(cat "$STORE"/audit/*/host.jsonl | sha256sum)" "$before" "and writes nothing"

# --- the next run does it ---

crashed
skill quiet "$TOOLS" <<'S'
#!/bin/sh
exit 0
S
broker_run quiet
is "$RC" 0 "the next run runs"
like "$ERR" "recovery closed the books of $INV" "and has closed the books of the one before"
verify
is "$VRC" 0 "verify: intact"

# --- two at once, and what runs is left alone ---

crashed
dead=$INV
skill wire "$TOOLS" "$FILES" <"$WIRE/main"
live_start wire
live_say "open
say up"
live_wait '^up'
alive_inv=$(ls "$STORE/run" | sed -n 's/\.lock$//p' | grep -v "$dead" | head -n 1)
n=0
pids=
while [ $n -lt 6 ]; do
	"$CYBEROS" skill broker sweep --store "$STORE" >"$T/sweep$n" 2>&1 &
	pids="$pids $!"
	n=$((n + 1))
done
# shellcheck disable=SC2086 # a list
wait $pids
is "$(anchors audit.segment_closed | grep -c "$dead")" 1 "closed once, however many sweep"
holds "the running one keeps its socket" [ -S "/tmp/cyberos-skill-broker.$alive_inv.sock" ]
is "$(anchors audit.segment_closed | grep -c "$alive_inv")" 0 "and its books open"
live_say "send 1 $READ
recv 1"
live_end
is "$RC $(result outcome)" "0 success" "and runs on to its end"

# --- what a crash leaves of a row ---

crashed
printf '{"v":1,"inv":"%s","seq":9,"ts":"2026-' "$INV" >>"$(seg "$INV")"
sweep
is "$RC" 0 "a torn row"
is "$(anchors audit.segment_closed | tail -n 1 | jq -c '[.reason, .torn_bytes > 0, (.torn_sha256 | length)]')" \
    '["crash",true,64]' "is named by length and hash"
verify
is "$VRC" 0 "verify: intact"
like "$(cat "$T/found")" 'fragments that crashes left' "and tells of it"
printf '{"v":1,"host":"' >>"$(ls -d "$STORE"/audit/*/host.jsonl | tail -n 1)"
sweep
is "$RC $(cat "$T/said")" "0 named what a crash had left at the end of the anchors" \
    "sweep names it, when there is nothing else to do"
verify
is "$VRC" 0 "verify: intact"
sweep
is "$(cat "$T/said")" "nothing to do" "once"
printf '{"v":1,"host":"' >>"$(ls -d "$STORE"/audit/*/host.jsonl | tail -n 1)"
crashed
sweep
is "$RC $(anchors audit.recovered 2>/dev/null | wc -l | tr -d ' ')" "0 2" \
    "a torn anchor is named by the next one"
verify
is "$VRC" 0 "verify: intact"

# A fragment that is longer than all before it, and one that is longer than a row.
crashed
head -c 12000 /dev/zero | tr '\0' y >>"$(seg "$INV")"
sweep
is "$(anchors audit.segment_closed | tail -n 1 | jq -r .torn_sha256)" \
    "$(tail -n 1 "$(seg "$INV")" | sha256sum | cut -d ' ' -f 1)" "a long fragment is hashed as it lies"
verify
is "$VRC" 0 "verify: intact"
verify_store "an independent reader agrees"
day=$(ls -d "$STORE"/audit/*/host.jsonl | tail -n 1)
head -c 20000 /dev/zero >>"$day"
before=$(today)
crashed
sweep
is "$(today)" "$(echo "$before" | jq -c '.[1] += 1')" "totals go on behind a fragment of zeros"
verify
is "$VRC" 0 "verify: intact" || note "$(cat "$T/found")"
# The next anchor, of which a crash has left almost all.
crashed
cp -a "$STORE" "$T/copy"
lines=$(wc -l <"$day")
sweep
tail -n +$((lines + 1)) "$day" | head -n 1 >"$T/next" # names part 2
for cut in 1 2 3 4; do
	rm -rf "$STORE"
	cp -a "$T/copy" "$STORE"
	head -c -$cut "$T/next" >>"$day"
	[ $cut -gt 1 ] || : >"$(seg "$INV" | sed 's/p1/p2/')"
	verify
	is "$VRC $(grep -c ': torn: ' "$T/found")" '1 1' \
	    "an anchor without its last $cut bytes is a leftover" || note "$(cat "$T/found")"
	sweep
	verify
	is "$VRC" 0 "which sweep names" || why "$(cat "$T/said" "$T/found")"
	verify_store "an independent reader agrees"
done
rm -rf "$T/copy"

# --- files without an anchor ---

day=$(basename "$(ls -d "$STORE"/audit/2* | tail -n 1)")
orphan=$(new_id)
ab=$(printf '%s' "$orphan" | cut -c 1-2)
mkdir -p "$STORE/audit/$day/seg/$ab"
: >"$STORE/audit/$day/seg/$ab/$orphan.p1.jsonl"
verify
is "$VRC" 1 "an empty file without an anchor: a leftover"
sweep
is "$RC $(seg "$orphan")" "0 " "it is removed"
is "$(anchors audit.orphan_removed | tail -n 1 | jq -c '[.bytes, .quarantined]')" \
    '[0,false]' "which is recorded"
mkdir -p "$STORE/audit/$day/seg/$ab"
sed -n 1p "$(seg "$dead")" >"$STORE/audit/$day/seg/$ab/$orphan.p1.jsonl"
kept=$(sha "$(seg "$orphan")")
sweep
is "$RC" 6 "rows without an anchor: exit 6"
is "$(sha "$STORE/audit/$day/quarantine/$orphan.p1.jsonl")" "$kept" \
    "they are quarantined, not deleted"
verify
is "$VRC" 6 "verify: damaged, until somebody looks"
rm -r "$STORE/audit/$day/quarantine"

# --- a deletion is not made to look well ---

crashed
rm "$(seg "$INV")"
sweep
is "$RC" 6 "its segment is missing: exit 6"
like "$(cat "$T/said")" "missing: $INV" "it says so"
is "$(anchors audit.segment_closed | grep -c "$INV")" 0 "and closes nothing"
verify
is "$VRC" 6 "verify: damaged"
rm -rf "$STORE"
crashed
perl -pi -e 's/"tool_name":"Read"/"tool_name":"Edit"/ if $. == 2' "$(seg "$INV")"
sweep
is "$RC $(anchors audit.segment_closed | jq -r .reason)" "6 damaged" \
    "rows that do not hold are never signed off as good"
verify
is "$VRC" 6 "verify: damaged"

# --- another row in the spool than in the segment ---

rm -rf "$STORE"
crashed
mkdir -m 700 "$STORE/spool"
tail -n 1 "$(seg "$INV")" | perl -MDigest::SHA=sha256_hex -pe \
    's/"Read"/"Bash"/; s/^(.*),"hash":"\w+"/"$1,\"hash\":\"" . sha256_hex($1) . "\""/e' \
    >"$STORE/spool/$INV.jsonl"
kept=$(sha "$STORE/spool/$INV.jsonl")
sweep
is "$RC $(tail -n 1 "$T/said")" "6 closed the books, as damaged, of $INV" \
    "a spool with another row: exit 6"
is "$(anchors audit.segment_closed | jq -c '[.reason, .spooled, .duplicates, .lost]')" \
    '["damaged",1,0,1]' "it is no duplicate"
is "$(sha "$STORE/spool/$INV.jsonl")" "$kept" "and stays where it is"
verify
is "$VRC" 6 "verify: damaged"
like "$(cat "$T/found")" "closed: $INV" "it names the segment"

# --- a socket that is somebody else's ---

rm -rf "$STORE"
crashed
sock=/tmp/cyberos-skill-broker.$INV.sock
mv "$sock" "$T/kept.sock"
python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$sock"
sweep
is "$RC $(cat "$T/said")" "0 closed the books of $INV" "a socket with that name"
holds "that is another one stays" [ -S "$sock" ]
rm -f "$sock"

# --- a death right behind the socket's birth ---

if is_root && command -v strace >/dev/null; then
	INV=$(new_id)
	skill wire "$TOOLS" "$FILES" <"$WIRE/main"
	ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" strace -f -qq -o /dev/null \
	    -e trace=renameat2,linkat,link,rename \
	    -e inject=renameat2,linkat,link,rename:delay_exit=2000000 \
	    "$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --invocation "$INV" wire </dev/null >"$T/out" 2>"$T/err" &
	until_true [ -S "/tmp/cyberos-skill-broker.$INV.sock" ]
	pkill -KILL -f -- "$INV"
	wait $! 2>/dev/null
	until_true [ -z "$(pgrep -f -- "$INV")" ]
	sweep
	holds "a socket that has just been made is removed" \
	    [ ! -e "/tmp/cyberos-skill-broker.$INV.sock" ]
	verify
	is "$VRC" 0 "verify: intact" || note "$(cat "$T/found")"
fi

# --- a death before it has said what the skill is ---

if is_root && command -v strace >/dev/null; then
	for call in bind listen fchownat; do
		ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" strace -f -qq \
		    -o /dev/null -e trace=$call -e inject=$call:signal=KILL:when=1 \
		    "$CYBEROS" skill broker run --store "$STORE" \
		    --skills "$T/skills" --invocation "$(new_id)" \
		    --result "$T/result.json" wire </dev/null >"$T/out" 2>"$T/err"
		is "$? $(jq -r '[.outcome, .by] | join(" ")' "$T/result.json")" \
		    "125 panic supervisor" "a death at $call: a panic"
		verify
		is "$VRC" 0 "verify: intact at once" || note "$(cat "$T/found")"
	done
fi

# --- killed at any moment ---

# The skill writes down what was answered; each of these has its row.
rm -rf "$STORE"
perl_skill busy "$TOOLS" "$FILES" <<'P'
use Socket;
$| = 1;
my $read = '{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"' . $ARGV[0] . '"}}}';
socket my $s, AF_UNIX, SOCK_STREAM, 0;
connect $s, sockaddr_un $ENV{CYBEROS_BROKER_SOCKET} or die;
while (1) {
	syswrite $s, pack('N', length $read) . $read;
	my ($head, $body) = ('', '');
	while (length $head < 4) { sysread $s, $head, 4 - length $head, length $head or exit }
	my $n = unpack 'N', $head;
	while (length $body < $n) { sysread $s, $body, $n - length $body, length $body or exit }
	syswrite STDOUT, ".";
}
P
rounds=${ROUNDS:-25}
n=0
lost=0 twice=0 acked=0
while [ $n -lt "$rounds" ]; do
	n=$((n + 1))
	INV=$(new_id)
	: >"$T/acks"
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --invocation "$INV" busy -- "$T/f/a" >"$T/acks" 2>/dev/null &
	pid=$!
	perl -e 'select undef, undef, undef, rand 0.12'
	broker=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
	case $((n % 3)) in
	0) kill -KILL $pid ;;
	1) kill -KILL ${broker:-$pid} ;;
	2) kill -KILL ${broker:-$pid} $pid ;;
	esac 2>/dev/null
	wait $pid 2>/dev/null
	[ -z "$broker" ] || until_true is_dead "${broker% }"
	sweep
	[ "$RC" -eq 0 ] || note "round $n: sweep: $(cat "$T/said")"
	# One look at the rows, after the acknowledgements: a broker that nobody
	# saw before it lost its supervisor may be busy for a moment.
	acks=$(wc -c <"$T/acks")
	cat "$STORE"/audit/*/seg/*/"$INV".p*.jsonl >"$T/rows" 2>/dev/null
	done_=$(grep -c 'tool_call_completed.*"hash":"[0-9a-f]*"}$' "$T/rows") # not a torn one
	acked=$((acked + acks))
	[ "$done_" -ge "$acks" ] || lost=$((lost + acks - done_))
	calls=$(sed -n 's/.*"skill.tool_call_completed".*"call":\([0-9]*\).*"}$/\1/p' \
	    "$T/rows" | sort -u | wc -l)
	twice=$((twice + done_ - calls))
done
is "$lost $twice" '0 0' \
    "$rounds times killed: of $acked acknowledged rows none is lost, none is there twice"
holds "$rounds times killed: while calls were answered" [ "$acked" -ge "$rounds" ]
verify
is "$VRC" 0 "$rounds times killed: the ledger holds" || note "$(cat "$T/found")"
verify_store "and an independent reader agrees"
is "$(ls -I metrics -I slots "$STORE/run")" "" "nothing is left in run/"
# --- a pipe in place of a file: nobody waits for it ---

rm -rf "$STORE"
broker_run quiet
pipe=$(new_id)
mkfifo -m 600 "$STORE/run/$pipe.lock"
timeout 20 "$CYBEROS" skill broker sweep --store "$STORE" >"$T/said" 2>&1
is "$? $([ -p "$STORE/run/$pipe.lock" ] && echo kept)" "1 kept" \
    "a lock that is a pipe: sweep fails"
like "$(cat "$T/said")" "$pipe" "and names it"
timeout 20 "$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
    quiet >"$T/out" 2>&1
is "$?" 0 "it is in nobody's way"
rm "$STORE/run/$pipe.lock"
for name in "run/$pipe.stray" "run/$pipe.status" "spool/$pipe.jsonl"; do
	mkdir -p "$STORE/spool"
	: >"$STORE/run/$pipe.lock"
	mkfifo -m 600 "$STORE/$name"
	timeout 20 "$CYBEROS" skill broker sweep --store "$STORE" >"$T/said" 2>&1
	is "$(($? < 2))" 1 "${name##*.} that is a pipe: sweep comes to its end"
	rm -f "$STORE/$name" "$STORE/run/$pipe.lock"
done
for name in run/slots run/metrics audit/host.json \
    "audit/$(ls "$STORE/audit" | head -n 1)/host.jsonl"; do
	mv "$STORE/$name" "$T/moved"
	mkfifo -m 600 "$STORE/$name"
	for command in status sweep verify metrics; do
		timeout 20 "$CYBEROS" skill broker $command --store "$STORE" \
		    >"$T/out" 2>&1
		is "$(($? < 7))" 1 "$name that is a pipe: $command comes to its end"
	done
	timeout 20 "$CYBEROS" skill broker run --store "$STORE" \
	    --skills "$T/skills" quiet >"$T/out" 2>&1
	is "$(($? == 124 || $? == 137))" 0 "$name that is a pipe: run as well"
	rm "$STORE/$name"
	mv "$T/moved" "$STORE/$name"
done
sweep # a segment that got no anchor
verify
is "$RC $VRC" "0 0" "put right, it is intact"

done_testing
