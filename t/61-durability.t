#!/bin/sh
# What of the ledger survives: syncs, kills, full disks, torn lines, a lock that
# somebody holds. What it says is in 60-ledger.t.
# shellcheck source=t/lib.sh
. ./t/lib.sh
# shellcheck source=t/live.sh
. ./t/live.sh

notes() {
	mkdir -p "$1/memories/notes"
	chmod 700 "$1"
	printf 'a note\n' >"$1/memories/notes/n.md"
}
notes "$STORE"
TOOLS='allowed_tools: [MemoryRead]'
SCOPES='allowed_memory_scopes: [memories/notes/**]'
READ='{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"MemoryRead","args":{"path":"memories/notes/n.md"}}}'
skill wire "$TOOLS" "$SCOPES" <"$WIRE/main"
printf '#!/bin/sh\nexit 0\n' | skill ok
host_file() { echo "$STORE"/audit/*/host.jsonl; }
host_rows() { jq -c "select(.kind == \"$1\") | .payload ${2:-}" "$(host_file)"; }

# Somebody holds the lock of the host's file for longer than anybody waits.
# That takes its time, so it goes on beside the rest, in a store of its own.
SLOW=$T/slow
"$CYBEROS" skill broker run --store "$SLOW" --skills "$T/skills" ok
printf '#!/bin/sh\necho ran\n' | skill says
(
	exec 9>>"$(echo "$SLOW"/audit/*/host.jsonl)"
	flock 9
	"$CYBEROS" skill broker run --store "$SLOW" --skills "$T/skills" \
	    --result "$T/slow.json" says >"$T/slow.out" 2>"$T/slow.err" 9>&-
	echo $? >"$T/slow.rc"
) &
SLOW_PID=$!

# --- when rows are forced to disk

ask() { # ask N: commands for N calls, each awaited
	echo open
	t_n=0
	while [ "$t_n" -lt "$1" ]; do
		t_n=$((t_n + 1))
		printf 'send 1 %s\nrecv 1\n' "$READ"
	done
}
# traced MODE: run six calls under strace. The processes show their memory to
# nobody, so who and what is told by numbers: BROKER is the supervisor's first
# child, SEGMENT the descriptor of its rows.
traced() {
	printf 'audit_sync: %s\n' "$1" >"$T/c.yaml"
	ask 6 >"$T/commands"
	# A sanitizer's look for leaks cannot be traced.
	ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" strace -f \
	    -o "$T/trace" -e \
	    trace=openat,clone,clone3,fork,fdatasync,fsync,sync,syncfs,write,sendto \
	    "$CYBEROS" skill broker run --store "$STORE" --config "$T/c.yaml" \
	    --skills "$T/skills" wire <"$T/commands" >"$T/out" 2>"$T/err"
	is "$? $(grep -c '"result":{"body"' "$T/out")" '0 6' \
	    "audit_sync $1: the calls were answered"
	BROKER=$(awk 'NR == 1 { me = $1 }
	    /clone3?\(.*= [0-9]+$/ && $1 == me { print $NF; exit }
	    /clone3?( resumed|\().*= [0-9]+$/ && $1 == me { print $NF; exit }' \
	    "$T/trace")
	# It came over a socket; nothing else is written to as often but what wakes
	# the thread that syncs, by 8 bytes each.
	SEGMENT=$(sed -n "/, 8[ )]/d
	    s/^$BROKER  *write(\([0-9]*\), .*/\1/p" "$T/trace" |
	    sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')
	is "$(grep -cE "^$BROKER +write\($SEGMENT, " "$T/trace")" \
	    14 "audit_sync $1: a write for each row"
	is "$(host_rows audit.segment_opened '| .durability' | tail -n 1)" \
	    "\"$1\"" "audit_sync $1: the anchor says so"
}
# What the broker sends without waiting are its answers.
ANSWER='sendto\(.*MSG_DONTWAIT'
broker_run ok # makes store and day
traced none
is "$(grep -cE '(sync|syncfs)\(' "$T/trace")" 0 'none: no sync at all'
traced batch
is "$(grep -cE "^$BROKER .*sync\(" "$T/trace")" 0 \
    'batch: none in the thread that answers'
SYNCER=$(grep -E 'fdatasync\(' "$T/trace" | cut -d ' ' -f 1 | sort -u)
is "$(printf '%s\n' "$SYNCER" | grep -c .)" 2 \
    'batch: a thread beside it, and the supervisor, do it'
# How many names were synced before the first answer.
opened_first() {
	t_first=$(grep -nE "^$BROKER +$ANSWER" "$T/trace" | head -n 1)
	head -n "${t_first%%:*}" "$T/trace" | grep -v "^$BROKER " |
	    grep -cE ' fsync\('
}
is "$(opened_first)" 4 'batch: the names of the segment before the first answer'
traced row
is "$(opened_first)" 4 'row: the names of the segment before the first answer'
awk -v broker="$BROKER" -v segment="$SEGMENT" -v answer="$ANSWER" '
    $1 != broker { next }
    index($2, "write(" segment ",") == 1 { due = 1; rows++ }
    index($2, "fdatasync(" segment) == 1 { due = 0 }
    $0 ~ answer { answers++; bad += due }
    END { print rows + 0, answers + 0, bad + 0 }' "$T/trace" >"$T/order"
is "$(cat "$T/order")" '14 6 0' 'row: no answer before its rows are on disk'
verify_store

# --- a kill at any moment

# answered: completed calls that the skill was told of
answered() { grep -c '"result":{"body"' "$T/live.out"; }
kept() { jq -r 'select(.kind == "skill.tool_call_completed") | .kind' "$1" | wc -l | tr -d ' '; }
ID=0a1b2c3d-0000-4000-8000-00000000aaaa
broker_pid() {
	"$CYBEROS" skill broker status --store "$STORE" |
	    jq -r ".invocations[] | select(.invocation_id == \"$1\") | .pid"
}
live_start wire --invocation "$ID" --socket-dir "$T"
ask 30 >&6
live_say 'sleep 60000'
live_wait '.' # the first answer
kill -KILL "$(broker_pid "$ID")"
live_end
is "$RC $(result outcome) $(result by)" '125 panic supervisor' \
    'a broker that is killed'
part1=$(find "$STORE/audit" -name "$ID.p1.jsonl")
ok "$([ "$(kept "$part1")" -ge "$(answered)" ] && [ "$(answered)" -ge 1 ]; echo $?)" \
    'every call that was answered has its row'
is "$(jq -c '[.by, .kind, .payload.outcome, .payload.by]' "${part1%1.jsonl}2.jsonl")" \
    '["supervisor","skill.invoked_completed","panic","supervisor"]' \
    'the supervisor wrote its end into a second part'
is "$(host_rows audit.segment_part '| keys_unsorted | join(" ")')" \
    '"invocation_id file part seq head"' 'which has its anchor'
is "$(host_rows audit.segment_closed '| [.reason, .parts]' | tail -n 1)" \
    '["crash",2]' 'the segment is closed'
is "$(find "$STORE/run" "$T" -maxdepth 1 -name "*$ID*")" '' \
    'nothing of it is left'
verify_store

ID=0a1b2c3d-0000-4000-8000-00000000aaab
live_start wire --invocation "$ID" --socket-dir "$T"
ask 30 >&6
live_say 'sleep 60000'
live_wait '.'
broker=$(broker_pid "$ID")
skill_pid=$(pgrep -P "$broker" | head -n 1)
kill -KILL "$LIVE"
live_end 2>/dev/null
waited=0
while [ -d "/proc/$skill_pid" ] || [ -d "/proc/$broker" ]; do
	sleep 0.05
	waited=$((waited + 1))
	[ "$waited" -lt 400 ] || break
done
ok "$([ "$waited" -lt 400 ]; echo $?)" \
    'a supervisor that is killed takes broker and skill with it'
part1=$(find "$STORE/audit" -name "$ID.p1.jsonl")
grep -E '"}$' "$part1" >"$T/whole"
ok "$([ "$(kept "$T/whole")" -ge "$(answered)" ] && [ "$(answered)" -ge 1 ]; echo $?)" \
    'and no row of an answered call'
is "$("$CYBEROS" skill broker status --store "$STORE" |
    jq -c '[.active_invocations, (.invocations | length)]')" '[0,0]' \
    'status does not count it'
broker_run ok
is "$RC" 0 'the next invocation runs'
rm -f "$T/cyberos-skill-broker.$ID.sock"

# --- torn lines of the host's file

rm -rf "$STORE"
notes "$STORE"
broker_run ok
HOST=$(host_file)
# mended NAME: the next run names what lies there, and the chain goes on
mended() {
	before=$(sha "$HOST")
	size=$(wc -c <"$HOST")
	broker_run ok
	is "$RC" 0 "$1: the next invocation runs"
	is "$(head -c "$size" "$HOST" | sha256sum | cut -d ' ' -f 1)" "$before" \
	    "$1: the stump is kept as it was"
	verify_store "$1: the chain holds"
}
recovered() { grep -h '"kind":"audit.recovered"' "$HOST" | jq -c '[.by, (.payload | keys_unsorted | join(" ")), .payload.torn_bytes, .payload.torn_sha256]' | tail -n 1; }
tail -n 1 "$HOST" | head -c 300 >"$T/stump"
cat "$T/stump" >>"$HOST"
mended 'a torn last line'
is "$(recovered)" \
    "[\"recovery\",\"torn_bytes torn_sha256\",300,\"$(sha "$T/stump")\"]" \
    'audit.recovered names it by length and hash'
printf '\n{"v":1,"ho\n\n{"v"' >"$T/stump"
cat "$T/stump" >>"$HOST"
mended 'stumps of several crashes'
is "$(recovered)" \
    "[\"recovery\",\"torn_bytes torn_sha256\",17,\"$(sha "$T/stump")\"]" \
    'they are named together'
printf '{"v":1,"host":"' >"$T/stump"
(cat "$T/stump" && echo) >>"$HOST"
mended 'a stump that was closed, but not named'
is "$(recovered)" \
    "[\"recovery\",\"torn_bytes torn_sha256\",15,\"$(sha "$T/stump")\"]" \
    'it is named now'
head -c 100000 /dev/zero | tr '\0' z >"$T/stump"
cat "$T/stump" >>"$HOST"
mended 'a long stump'
count=$(grep -c . "$HOST")
truncate -s -1 "$HOST" # only the line feed is gone
broker_run ok
is "$RC" 0 'a last row without its line feed'
is "$(grep -c . "$HOST") $(grep -c recovered "$HOST")" "$((count + 2)) 4" \
    'is whole: it stays the row it was'
verify_store
head -c 2000000 /dev/zero | tr '\0' z >>"$HOST"
size=$(wc -c <"$HOST")
broker_run says
is "$RC $OUT" '125 ' 'more rubbish than crashes leave: no skill is started'
is "$(wc -c <"$HOST")" "$size" 'and nothing is appended'
rm -rf "$STORE"
notes "$STORE"
broker_run ok
HOST=$(host_file)
head -c 100 "$HOST" >"$T/stump" # a first line that is torn
cp "$T/stump" "$HOST"
find "$STORE/audit" -name '*.p1.jsonl' -delete
mended 'a torn first line'
is "$(jq -R -c 'fromjson? | [.hseq, .kind]' "$HOST" | head -n 2 | tr '\n' ' ')" \
    '[1,"audit.day_opened"] [2,"audit.recovered"] ' \
    'the day is opened, then it is named'

# --- the lock of the host's file

(
	exec 9>>"$HOST"
	flock 9
	: >"$T/held"
	sleep 0.6
) &
while [ ! -e "$T/held" ]; do sleep 0.02; done
broker_run says
wait $!
is "$RC $OUT" '0 ran' 'a lock that is held for a moment is waited for'
verify_store

# --- a file that takes no more

# A limit on the size of files stands for a full disk: it can be lifted from
# outside, and every user can set it. Without the signal it is an errno.
# limited [OPTIONS]: the wire skill with at most 20 KiB a file: more than its page
# of counts has, and less than its rows
limited() {
	rm -f "$T/live.in"
	mkfifo "$T/live.in"
	: >"$T/live.out"
	(
		trap '' XFSZ
		exec prlimit --fsize=20480: "$CYBEROS" skill broker run --store "$STORE" --skills \
		    "$T/skills" --result "$T/result.json" --invocation "$ID" \
		    "$@" wire <"$T/live.in" 2>"$T/live.err" | cat >"$T/live.out"
	) &
	LIVE=$!
	exec 6>"$T/live.in"
}
unlimited() { prlimit --pid "$(broker_pid "$ID")" --fsize=unlimited: || note 'prlimit failed'; }
status() { "$CYBEROS" skill broker status --store "$STORE" | jq -c "$1"; }
rm -rf "$STORE"
notes "$STORE"
broker_run ok
ID=0a1b2c3d-0000-4000-8000-00000000aaac
limited
ask 80 >&6
live_say 'send 1 {"jsonrpc":"2.0","id":"last","method":"broker.status"}'
live_say 'recv 1'
live_wait '"id":"last"'
is "$(answered)" 80 'with a full disk the calls complete'
ok "$([ "$(status .spooled_rows)" -gt 100 ]; echo $?)" 'status tells how many rows wait'
like "$("$CYBEROS" skill broker status --human --store "$STORE")" \
    '^[0-9]+ rows wait' 'also to people'
is "$(grep -c 'ledger cannot be written' "$T/live.err")" 1 'the log says it once'
unlimited
live_say "send 1 $READ"
live_say 'recv 1'
live_say 'send 1 {"jsonrpc":"2.0","id":"later","method":"broker.status"}'
live_say 'recv 1'
live_wait '"id":"later"'
is "$(status .spooled_rows)" 0 'with space again nothing waits'
live_end
is "$(count skill.tool_call_started) $(count skill.tool_call_completed)" \
    '81 81' 'every row is there'
verify_store 'in its order, once'

printf 'audit_required: true\n' >"$T/c.yaml"
ID=0a1b2c3d-0000-4000-8000-00000000aaad
limited --config "$T/c.yaml"
ask 80 >&6
live_say 'send 1 {"jsonrpc":"2.0","id":"last","method":"broker.status"}'
live_say 'recv 1'
live_wait '"id":"last"'
told=$(answered)
refused=$(grep -c '"message":"audit_unavailable"' "$T/live.out")
is "$((told + refused))" 80 'audit_required: every call is answered'
ok "$([ "$told" -ge 1 ] && [ "$refused" -ge 40 ]; echo $?)" \
    'audit_required: those that could not be recorded are refused'
unlimited
live_say "send 1 $READ"
live_say 'recv 1'
live_say 'send 1 {"jsonrpc":"2.0","id":"later","method":"broker.status"}'
live_say 'recv 1'
live_wait '"id":"later"'
is "$(answered)" "$((told + 1))" 'audit_required: with space again they run'
live_end
is "$(count skill.tool_call_started)" "$((told + 1))" \
    'audit_required: nothing ran that was refused'
is "$(rows skill.tool_denied '| .reason' | sort | uniq -c | tr -s ' ')" \
    " $refused \"audit_unavailable\"" 'audit_required: the refusals are rows'
verify_store

# The host's file takes nothing, or a part of a line.
HOST=$(host_file)
for room in 0 100; do
	anchors=$(grep -c segment_opened "$HOST")
	(
		trap '' XFSZ
		exec prlimit --fsize="$(($(wc -c <"$HOST") + room)):" \
		    "$CYBEROS" skill broker run --store "$STORE" --skills \
		    "$T/skills" says
	) >"$T/out" 2>"$T/err"
	is "$? $(cat "$T/out")" '125 ' "no room for an anchor but $room bytes: no skill"
	is "$(grep -c segment_opened "$HOST")" "$anchors" 'and no anchor'
	broker_run says
	is "$RC $OUT" '0 ran' 'with space again it runs'
	verify_store
done
is "$(recovered | jq -c '.[2]')" 100 'what was torn is named'

if is_root; then
	# A real full disk: nothing starts, and nothing dies of it.
	# shellcheck disable=SC2016 # expanded inside
	unshare -m sh -c 'mkdir -m 700 "$1/disk" && mount -t tmpfs -o \
	    size=256k,mode=700 t "$1/disk" || exit 99
	    run() { "$2" skill broker run --store "$1/disk/s" --skills \
		"$1/skills" says; }
	    run "$@" && (head -c 1000000 /dev/zero >"$1/disk/fill") 2>/dev/null
	    run "$@"
	    echo "full $?"
	    rm "$1/disk/fill"
	    run "$@"
	    echo "space $?"' sh "$T" "$CYBEROS" >"$T/out" 2>"$T/err"
	is "$(cat "$T/out")" 'ran
full 125
ran
space 0' 'a full disk: no skill is started; with space again all is well'
	unlike "$(cat "$T/err")" 'broker died' 'the broker says why and ends'
	rmdir "$T/disk"
fi

# --- writes cut short

# short N: three calls, by the product that has the Nth write to a file halved
short() {
	rm -rf "$STORE"
	notes "$STORE"
	printf '%020d' "$1" | dd of="$T/page" bs=1 seek=32 conv=notrunc status=none
	head -c 8 /dev/zero | dd of="$T/page" bs=1 seek=64 conv=notrunc status=none
	CYBEROS_TEST_PAGE=$T/page "$FAULTY" skill broker run --store "$STORE" \
	    --skills "$T/skills" wire <"$T/three" >"$T/out" 2>"$T/err"
	acks=$(grep -c '"body":"a note' "$T/out")
	# The next one finds what this one left.
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" ok &&
	    "$CYBEROS" skill broker sweep --store "$STORE" >"$T/said" 2>&1 &&
	    "$CYBEROS" skill broker verify --store "$STORE" >"$T/found" 2>&1 &&
	    perl t/verify.pl "$STORE" >>"$T/found" 2>&1
	holds=$?
	rows=$(cat "$STORE"/audit/*/seg/*/* 2>/dev/null |
	    grep -c '"kind":"skill.tool_call_completed"')
	return $holds
}
FAULTY=${FAULTY:-$PWD/build/unit/faulty}
truncate -s 4096 "$T/page"
ask 3 >"$T/three"
n=0 lost=0 broken=0
while :; do
	n=$((n + 1))
	short $n || {
		broken=$((broken + 1))
		note "write $n: $(tail -n 2 "$T/found")"
	}
	[ "$rows" -ge "$acks" ] || lost=$((lost + acks - rows))
	[ "$(od -An -tu8 -j64 -N8 "$T/page")" -ge $n ] || break
	[ $n -lt 100 ] || break
done
is "$lost $broken" '0 0' "each of $((n - 1)) writes cut short: no row lost, the ledger holds"
ok "$([ $n -gt 8 ] && [ $n -lt 100 ] && [ "$acks" -eq 3 ]; echo $?)" \
    'until a run goes through without'

# --- the lock that was held all the time

wait "$SLOW_PID"
is "$(cat "$T/slow.rc")" 125 'a lock that is never let go: no skill is started'
is "$(cat "$T/slow.out")" '' 'it did not run'
is "$(grep -c segment_opened "$SLOW"/audit/*/host.jsonl)" 1 'no anchor was written'
like "$(cat "$T/slow.err")" 'ledger of this host cannot be written' 'it says why'
"$CYBEROS" skill broker run --store "$SLOW" --skills "$T/skills" ok
is "$?" 0 'once it is free all is well'

done_testing
