#!/bin/sh
# Frames: lengths that lie, pieces, floods, and what is too long (SPEC 5).
. t/lib.sh
. t/live.sh

STATUS='{"jsonrpc":"2.0","id":"s","method":"broker.status"}'

# got N FILTER: the Nth line that the client printed, without its number
got() { sed -n "$1s/^[0-9]* //p" "$T/out" | jq -c "$2"; }
class='[.error.code, .error.message, .error.data.reason, .id]'
good='.id == "s" and (.result | has("uptime_ms"))'

# --- no request at all (CASES 64) ---
wire "open
send 1 
recv 1
send 1 $STATUS
recv 1
send 1  
recv 1
send 1 $STATUS
recv 1
send 1 null
recv 1
send 1 $STATUS
recv 1
send 1 []
recv 1
send 1 $STATUS
recv 1
rep 1 1048576 \x20
recv 1
send 1 $STATUS
recv 1"
set -- "an empty frame" -32700 "a frame of one blank" -32700 \
    "a frame of null" -32600 "a frame of []" -32600 \
    "a frame of 1,048,576 blanks" -32700
n=1
while [ $# -gt 0 ]; do
	is "$(got "$n" '[.error.code, .id]')" "[$2,null]" "$1: $2, id null"
	is "$(got "$((n + 1))" "$good")" true "$1: the connection goes on"
	n=$((n + 2))
	shift 2
done
is "$(result rejected)" 5 "each counts as rejected"
is "$(count skill.tool_denied)" 0 "none of them is a refused call"

# --- pieces ---
is "${#STATUS}" 51 "the length that is written below is right"
HEAD='\x00\x00\x00\x33'
wire "open
open
raw 1 \x00\x00
send 2 $STATUS
recv 2
raw 1 \x00
raw 1 \x33$(printf %.20s "$STATUS")
send 2 $STATUS
recv 2
raw 1 $(printf %s "$STATUS" | cut -c 21-)
recv 1
drip 1 $STATUS
recv 1
raw 1 $HEAD$STATUS$HEAD$STATUS$HEAD$STATUS$HEAD$(printf %.50s "$STATUS")
recv 1
recv 1
recv 1
recv 1 300
raw 1 }
recv 1"
is "$(cut -c 1-2 "$T/out" | tr -d '\n')" "2 2 1 1 1 1 1 1 1 " \
    "half a length and half a frame hold up nobody else"
for n in 1 2 3 4 5 6 7 9; do
	is "$(got "$n" "$good")" true "pieces: answer $n is whole"
done
is "$(sed -n 8p "$T/out")" "1 nothing" "one byte short: no answer yet"

wire "open
flood 1 2000 {\"jsonrpc\":\"2.0\",\"id\":#,\"method\":\"broker.status\"}
$(n=0; while [ "$n" -lt 2000 ]; do echo "recv 1"; n=$((n + 1)); done)"
is "$(sed 's/^1 //' "$T/out" | jq .id | sort -n | uniq | wc -l | tr -d ' ')" \
    2000 "2,000 frames in one write: 2,000 answers"

# --- exactly the limit, and one more ---
pad=$((1048576 - 51 + 1))
wire "open
wrap 1 $((pad - 1)) {|\x20|$(printf %s "$STATUS" | cut -c 2-)
recv 1
wrap 1 $pad {|\x20|$(printf %s "$STATUS" | cut -c 2-)
recv 1
send 1 $STATUS
recv 1"
is "$(got 1 "$good")" true "a request of 1,048,576 bytes is served"
is "$(got 2 "$class")" '[-32603,"request_too_large","request_too_large",null]' \
    "one of 1,048,577 is refused"
is "$(got 3 "$good")" true "and the connection goes on"

# --- acceptance 16: 2 MB ---
wire "open
rep 1 2000000 x
send 1 $STATUS
recv 1
recv 1"
is "$(got 1 "$class")" '[-32603,"request_too_large","request_too_large",null]' \
    "acceptance 16: a 2 MB request is request_too_large, id null"
is "$(got 2 "$good")" true "acceptance 16: the connection goes on"
is "$(count skill.tool_denied)" 1 "acceptance 16: one denied row"
hash=$(head -c 2000000 /dev/zero | tr '\0' x | sha256sum | cut -d ' ' -f 1)
is "$(rows skill.tool_denied '| [.tool_name, .reason, .attempted_args_hash]')" \
    "[null,\"request_too_large\",\"$hash\"]" \
    "acceptance 16: tool_name null and the hash of the bytes"
is "$(result calls) $(result denied) $(result rejected)" "1 1 0" \
    "acceptance 16: it counts as a refused call"

# Two of them at once, in turns, each with its own hash.
wire "open
open
raw 1 \x00\x1e\x84\x80aaaa
raw 2 \x00\x1e\x84\x80bbbb
$(n=0; while [ "$n" -lt 8 ]; do
	echo "zeros 1 249999"
	echo "zeros 2 249999"
	n=$((n + 1))
done)
zeros 1 4
zeros 2 4
recv 1
recv 2
send 1 $STATUS
recv 1"
a=$( (printf aaaa; head -c 1999996 /dev/zero) | sha256sum | cut -d ' ' -f 1)
b=$( (printf bbbb; head -c 1999996 /dev/zero) | sha256sum | cut -d ' ' -f 1)
is "$(rows skill.tool_denied '| .attempted_args_hash' | sort)" \
    "$(printf '"%s"\n"%s"\n' "$a" "$b" | sort)" \
    "two oversize requests at once do not mix their bytes"
is "$(got 3 "$good")" true "and both are read to their end"

# --- the length of all ones (CASES 62) ---
rss() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status"; }
room=24000
! grep -q __asan_init "$CYBEROS" || room=600000
skill wire <"$WIRE/main"
live_start wire
live_say "open
open
send 2 $STATUS
recv 2"
live_wait '^2 .*uptime_ms'
ok $? "0xFFFFFFFF: it runs"
pid=$(live_broker)
before=$(rss "$pid")
live_say 'raw 1 \xff\xff\xff\xff
zeros 1 1000000
recv 1 300'
live_say "send 2 {\"jsonrpc\":\"2.0\",\"id\":62,\"method\":\"broker.status\"}
recv 2
say megabyte"
live_wait '^megabyte'
like "$(cat "$T/live.out")" '^1 nothing$' "0xFFFFFFFF: no answer to the length"
like "$(cat "$T/live.out")" '^2 .*"id":62' \
    "0xFFFFFFFF: the other connection is served meanwhile"
[ "$(rss "$pid")" -lt $((before + room)) ]
ok $? "0xFFFFFFFF: the broker does not grow for 1 MB of it"
live_say "zeros 1 4293967295
say sent
recv 1 60000
send 1 {\"jsonrpc\":\"2.0\",\"id\":63,\"method\":\"broker.status\"}
recv 1
say after"
most=0
while ! grep -q '^sent' "$T/live.out" && kill -0 "$LIVE" 2>/dev/null; do
	now=$(rss "$pid")
	[ "${now:-0}" -le "$most" ] || most=$now
	sleep 0.05
done
[ "$most" -gt 0 ] && [ "$most" -lt $((before + room)) ]
ok $? "0xFFFFFFFF: nor for 4 GiB ($before then $most kB)"
live_wait '^after'
live_end
is "$(sed -n 's/^1 \(.*too_large.*\)/\1/p' "$T/live.out" | jq -c "$class")" \
    '[-32603,"request_too_large","request_too_large",null]' \
    "0xFFFFFFFF: request_too_large once, after the bytes"
like "$OUT" '^1 .*"id":63' "0xFFFFFFFF: the first connection works again"
is "$(rows skill.tool_denied '| [.tool_name, .attempted_args_hash]')" \
    '[null,"318eea1453f3a536e42d9637db593982c5c297220b2019bd4b7ad08e88d91e4b"]' \
    "0xFFFFFFFF: one denied row with the hash of 4,294,967,295 bytes"

# --- left in the middle ---
wire "open
raw 1 \x00\x00\x10\x00{
close 1
open
raw 2 \xff\xff\xff\xff12
close 2
open
raw 3 \x00
shut 3
recv 3
open
send 4 $STATUS
recv 4"
is "$(sed -n 1p "$T/out")" "3 closed" "half a length and no more: closed"
is "$(got 2 "$good")" true "connections left in mid-frame cost nothing"
is "$(count skill.tool_denied) $(result rejected)" "0 0" \
    "and what never came complete leaves no row"
done_testing
