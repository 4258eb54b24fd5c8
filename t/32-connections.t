#!/bin/sh
# Many connections, many calls in flight, slow readers, ends of every kind; and
# who may connect at all (SPEC 3, 5; CASES 139 to 145).
. t/lib.sh
. t/live.sh

STATUS='{"jsonrpc":"2.0","id":"s","method":"broker.status"}'
mkdir "$T/f" && chmod 777 "$T/f"
printf hello >"$T/f/a.txt"
head -c 4000000 /dev/zero | tr '\0' a >"$T/f/four"
FILES="x-allowed-files: [\"$T/f/**\"]"

call() { # ID TOOL ARGS
	printf '{"jsonrpc":"2.0","id":%s,"method":"tool.call",' "$1"
	printf '"params":{"tool":"%s","args":%s}}' "$2" "$3"
}
write() { call "$1" Write "{\"path\":\"$T/f/$2\",\"body\":\"$2\"}"; }
big() { call "$1" Read "{\"path\":\"$T/f/four\"}"; }
again() { # COUNT COMMAND
	t_n=0
	while [ "$t_n" -lt "$1" ]; do
		echo "$2"
		t_n=$((t_n + 1))
	done
}
live_segment() { cat "$STORE"/audit/*/seg/*/*.p*.jsonl; }
# until KIND COUNT: wait for that many rows in the only segment of the store
until_rows() {
	t_left=3000
	while [ "$t_left" -gt 0 ] && kill -0 "$LIVE" 2>/dev/null &&
	    [ "$(live_segment | grep -c "\"kind\":\"$1\"")" -lt "$2" ]; do
		sleep 0.02
		t_left=$((t_left - 1))
	done
	[ "$(live_segment | grep -c "\"kind\":\"$1\"")" -ge "$2" ]
}

# --- a slow reader with large answers, beside a fast one ---
wire "open
open
flood 1 6 $(big '#')
$(again 50 "send 2 $(call 7 Read "{\"path\":\"$T/f/a.txt\"}")
recv 2")
send 2 $(write 8 fast)
recv 2
$(again 6 'last 1')" "allowed_tools: [Read, Write]" "$FILES"
is "$(sed -n 's/^2 //p' "$T/out" | jq -c '.result.body // .id' | uniq -c |
    tr -s ' \n' ' ')" ' 50 "hello" 1 8 ' \
    "a slow reader with 24 MB unread: the other connection is served"
is "$(sed -n 's/^1 400[0-9]* bytes .*"truncated":false},"id":\([0-9]\)}$/\1/p' \
    "$T/out" | tr -d '\n')" 123456 "and it gets all of its own later"

# --- more unsent than 48 MiB: nothing new is read until somebody reads ---
rm -rf "$STORE"
skill wire "allowed_tools: [Read]" "$FILES" <"$WIRE/main"
live_start wire
live_say "open
open
send 2 $STATUS
recv 2
say ready"
live_wait '^ready'
live_say "flood 1 40 $(big '#')"
until_rows skill.tool_call_completed 8
ok $? "48 MiB unsent: 8 answers of 4 MB are made without a reader"
pid=$(live_broker)
live_say "send 2 $(echo "$STATUS" | sed 's/"s"/48/')
recv 2 700
say full"
live_wait '^full'
is "$(grep -c '^2 nothing' "$T/live.out")" 1 \
    "48 MiB unsent: no new call is read"
made=$(cat "$STORE"/audit/*/seg/*/*.jsonl | grep -c skill.tool_call_completed)
[ "$made" -ge 8 ] && [ "$made" -le 12 ]
ok $? "48 MiB unsent: what workers have to say waits as well ($made made)"
rss=$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status")
room=100000
! grep -q __asan_init "$CYBEROS" || room=2000000
[ "$rss" -gt 40000 ] && [ "$rss" -lt "$room" ]
ok $? "48 MiB unsent: memory is bounded ($rss kB)"
live_say "$(again 40 "last 1
sleep 10")
recv 2
say end"
live_wait '^end' 120
live_end
is "$(sed -n 's/^1 400[0-9]* bytes .*"truncated":false},"id":\([0-9]*\)}$/\1/p' \
    "$T/live.out" | sort -n | tr '\n' ' ')" "$(seq 40 | tr '\n' ' ')" \
    "48 MiB unsent: once read, every answer is whole and there once"
like "$OUT" '^2 .*"id":48' "48 MiB unsent: and the other connection goes on"

# --- sixteen connections, and the next ---
wire "$(again 17 open)
$(n=1; while [ "$n" -le 16 ]; do echo "send $n $STATUS"; n=$((n + 1)); done)
$(n=1; while [ "$n" -le 16 ]; do echo "recv $n"; n=$((n + 1)); done)
send 17 $STATUS
recv 17 500
close 5
recv 17
send 1 $STATUS
recv 1"
is "$(grep -c '"id":"s"' "$T/out")" 18 "16 connections are served at once"
is "$(sed -n 17p "$T/out")" "17 nothing" "the 17th waits"
like "$(sed -n 18p "$T/out")" '^17 .*uptime_ms' \
    "and is served when another one closes"

# --- calls in flight ---
wire "open
flood 1 60 $(call '#' Write "{\"path\":\"$T/f/w#\",\"body\":\"#\"}")
$(again 60 'recv 1')" "allowed_tools: [Write]" "$FILES"
peak=$(segment | jq -r .kind | awk '
    /tool_call_started/ { n++; if (n > most) most = n }
    /tool_call_completed/ { n-- }
    END { print most + 0 }')
[ "$peak" -ge 2 ] && [ "$peak" -le 16 ]
ok $? "60 calls at once: several in flight, never more than 16 ($peak)"
is "$(sed 's/^1 //' "$T/out" | jq 'select(.result.bytes > 0) | .id' | sort -n |
    tr '\n' ' ')" "$(seq 60 | tr '\n' ' ')" "each of them is answered once"
n=1
wrong=0
while [ "$n" -le 60 ]; do
	[ "$(cat "$T/f/w$n" 2>/dev/null)" = "$n" ] || wrong=$((wrong + 1))
	n=$((n + 1))
done
is "$wrong" 0 "and each file has what its own call wrote"

# --- half-closed: the answers still come ---
wire "open
send 1 $STATUS
send 1 $(write 2 half)
send 1 [$(write 3 half3),$(write 4 half4)]
send 1 $(big 5)
shut 1
$(again 5 'last 1')
open
raw 2 \x00\x00\x00\x40{
shut 2
recv 2
open
send 3 $(write 6 gone)
close 3
open
send 4 $(write 7 after)
recv 4" "allowed_tools: [Read, Write]" "$FILES"
is "$(sed -n '1,4s/^1 //p' "$T/out" | sed 's/.*"truncated":false},"id":5}$/5/' |
    jq -c 'if type == "array" then map(.id) elif type == "number" then . else .id end' |
    sort | tr '\n' ' ')" '"s" 2 5 [3,4] ' \
    "half-closed: all four answers come"
is "$(sed -n 5p "$T/out") $(sed -n 6p "$T/out")" "1 closed 2 closed" \
    "and then the connection ends"
is "$(cat "$T/f/gone" "$T/f/after")" goneafter \
    "closed without waiting: the call is made all the same"
is "$(count skill.tool_call_started) $(count skill.tool_call_completed)" "6 6" \
    "each with its two rows"

# --- the end of the skill ---
wire "open
send 1 $STATUS
recv 1
flood 1 20 $(call '#' Bash '{"cmd":"true"}')
send 1 $(call 1 Read "{\"path\":\"$T/f/a.txt\"}")
exit 3" "allowed_tools: [Read]" "$FILES"
is "$RC $(count skill.tool_denied) $(rows skill.tool_call_completed '| .outcome')" \
    '3 20 "success"' "calls sent right before the end leave their rows"
rm -f "$T/f/late"*
wire "open
send 1 $STATUS
recv 1
flood 1 100 $(call '#' Write "{\"path\":\"$T/f/late#\",\"body\":\"late\"}")
exit 0" "allowed_tools: [Write]" "$FILES"
started=$(count skill.tool_call_started)
[ "$started" -ge 1 ]
ok $? "calls in flight at the end: started ($started)"
is "$(count skill.tool_call_completed)" "$started" "and each one completed"
is "$(rows skill.tool_call_completed |
    jq -r '.outcome + " " + (.error_message // "")' |
    grep -Evc '^(success |error cancelled)$')" 0 "as success or as cancelled"
bad=0
for file in "$T/f/late"*; do
	[ ! -e "$file" ] || [ "$(cat "$file")" = late ] || bad=$((bad + 1))
done
is "$bad" 0 "and no file is half written"
heard=0
for n in 1 2 3 4 5 6 7 8 9 10; do
	wire "open
send 1 $(call 1 Bash '{"cmd":"true"}')
exit 0"
	heard=$((heard + $(count skill.tool_denied)))
done
is "$heard $(count skill.peer_refused)" "10 0" \
    "connect, one request, exit: heard every time, and no stranger"
wire "open
raw 1 \x00\x00\x10\x00{\"jsonrpc\"
open
rep 2 2000000 y
exit 0"
is "$RC $(result outcome)" "0 success" "an end in mid-frame is an end"

# --- strangers ---
outside() { # PATH: the wire client outside the sandbox
	printf 'open\nsend 1 %s\nrecv 1 5000\n' "$STATUS" |
	    CYBEROS_BROKER_SOCKET=$1 "$WIRE/main" 2>&1
}
rm -rf "$STORE"
inv=$(cat /proc/sys/kernel/random/uuid)
sock=/tmp/cyberos-skill-broker.$inv.sock
skill wire <"$WIRE/main"
live_start wire --invocation "$inv"
live_say "$(again 15 open)
$(n=1; while [ "$n" -le 15 ]; do echo "send $n $STATUS"; n=$((n + 1)); done)
$(n=1; while [ "$n" -le 15 ]; do echo "recv $n"; n=$((n + 1)); done)
say ready"
live_wait '^ready'
is "$(stat -c '%F %a' "$sock")" "socket 600" "the socket's mode is 0600"
outside "$sock" >"$T/outside"
unlike "$(cat "$T/outside")" uptime_ms "a process outside gets no answer"
until_rows skill.peer_refused 1
ok $? "its row is there at once"
live_say "open
send 16 $STATUS
recv 16
say end"
live_wait '^end'
live_end
is "$(grep -c '"id":"s"' "$T/live.out")" 16 "the skill has all its places"
is "$(rows skill.peer_refused '| [.uid, .count]')" "[$(id -u),1]" \
    "and the stranger its row"
[ ! -e "$sock" ]
ok $? "the socket is removed at the end"

# --- the socket's name is taken (CASES 145), stays what it was ---
taken() { # WHAT
	inv=$(cat /proc/sys/kernel/random/uuid)
	name=$T/s/cyberos-skill-broker.$inv.sock
	case $1 in
	link) ln -s "$T/f/a.txt" "$name" ;;
	"dangling link") ln -s "$T/nowhere" "$name" ;;
	directory) mkdir "$name" ;;
	FIFO) mkfifo "$name" ;;
	file) echo keep >"$name" ;;
	esac
	before=$(stat -c '%i %F %a %Y %N' "$name")
	broker_run --socket-dir "$T/s" --invocation "$inv" probe
	is "$RC" 125 "socket path is a $1: exit 125"
	like "$ERR" 'exists' "socket path is a $1: says so"
	is "$(stat -c '%i %F %a %Y %N' "$name")" "$before" \
	    "socket path is a $1: left alone"
	[ ! -e "$T/ran" ] && [ ! -e "$T/nowhere" ]
	ok $? "socket path is a $1: the skill did not start"
	is "$(result outcome) $(count skill.invoked_started)" "refused 0" \
	    "socket path is a $1: refused, and the ledger says so"
	rm -rf "$name"
}
mkdir "$T/s"
printf '#!/bin/sh\ncyberos skill call Write path=%s body=x\n' "$T/ran" |
    skill probe "allowed_tools: [Write]" "x-allowed-files: [\"$T/ran\"]"
broker_run --socket-dir "$T/s" probe
is "$RC $(cat "$T/ran")" "0 x" "a free name: the skill runs"
rm -f "$T/ran"
for what in link "dangling link" directory FIFO file; do
	taken "$what"
done
is "$(cat "$T/f/a.txt")" hello "what the link pointed to is as it was"
is "$(find "$T/s" -mindepth 1 | wc -l | tr -d ' ')" 0 "nothing is left there"

# --- a path that is too long (CASES 139) ---
long=$T/$(printf '%0100d' 0)/$(printf '%0100d' 0)
mkdir -p "$long"
broker_run --socket-dir "$long" probe
is "$RC" 125 "a socket directory of 200 bytes: exit 125"
like "$ERR" '107' "and the message names the limit"
is "$(result outcome)" refused "outcome refused"
is "$(find "$T/s" "$long" "${long%/*}" -name '*cyberos*' | wc -l | tr -d ' ')" \
    0 "no file with a cut name"
[ ! -e "$T/ran" ]
ok $? "the skill did not start"

# --- left over after a crash (CASES 141) ---
inv=$(cat /proc/sys/kernel/random/uuid)
name=$T/s/cyberos-skill-broker.$inv.sock
skill wire <"$WIRE/main"
live_start wire --invocation "$inv" --socket-dir "$T/s"
live_say "open
send 1 $STATUS
recv 1"
live_wait uptime_ms
pid=$(live_broker)
kill -KILL "$LIVE" "$pid"
wait "$LIVE" 2>/dev/null
exec 6>&-
until is_dead "$pid"; do sleep 0.02; done
[ -S "$name" ]
ok $? "killed supervisor and broker leave the socket"
broker_run --socket-dir "$T/s" --invocation "$inv" probe
is "$RC $([ -e "$name" ] || echo gone)" "125 gone" \
    "the same id again: exit 125; recovery has removed what was left"
broker_run --socket-dir "$T/s" probe
is "$RC $(cat "$T/ran")" "0 x" "another id runs"
rm -f "$name"

# --- another user at the socket (CASES 143); only root can be one ---
if is_root; then
	cp "$WIRE/main" "$T/knock" && chmod 755 "$T/knock"
	rm -f "$T/stop"
	(
		umask 0
		while [ ! -e "$T/stop" ]; do
			for s in "$T"/s/*.sock "$T"/s/.cyberos-*/*; do
				[ -S "$s" ] || continue
				printf 'open\nsend 1 %s\nrecv 1 50\n' \
				    "$STATUS" |
				    CYBEROS_BROKER_SOCKET=$s setpriv \
				    --reuid 54322 --regid 54322 --clear-groups \
				    "$T/knock"
			done
		done
	) >"$T/knocks" 2>&1 &
	knocker=$!
	chmod 755 "$T/s"
	printf '#!/bin/sh\nsleep 0.05\n' | skill nap
	n=0
	while [ "$n" -lt 20 ]; do
		(umask 0; exec "$CYBEROS" skill broker run --store "$STORE" \
		    --skills "$T/skills" --socket-dir "$T/s" nap) || break
		n=$((n + 1))
	done
	: >"$T/stop"
	wait "$knocker"
	is "$n" 20 "umask 0: 20 starts"
	like "$(cat "$T/knocks")" 'Permission denied' "another user is refused"
	unlike "$(cat "$T/knocks")" 'uptime_ms' "another user never gets an answer"
fi
done_testing
