#!/bin/sh
# Limits of what comes and goes: calls a minute, 16 MiB an answer, the answer
# of a batch (SPEC 4, 5).
. t/lib.sh

STATUS='{"jsonrpc":"2.0","id":"s","method":"broker.status"}'
mkdir "$T/f" && chmod 777 "$T/f"
printf hello >"$T/f/a.txt"
FILES="x-allowed-files: [\"$T/f/**\"]"
MAX=16777216

call() { # ID TOOL ARGS
	printf '{"jsonrpc":"2.0","id":%s,"method":"tool.call",' "$1"
	printf '"params":{"tool":"%s","args":%s}}' "$2" "$3"
}
read_file() { call "$1" Read "{\"path\":\"$T/f/$2\"}"; }
got() { sed -n "$1s/^[0-9]* //p" "$T/out" | jq -c "$2"; }
length() { sed -n "$1s/^[0-9]* \([0-9]*\) bytes .*/\1/p" "$T/out"; }

# --- calls a minute: one comes back every 15 seconds, so the clock of a slow
# machine has room ---
wire "open
send 1 $(read_file 1 a.txt)
recv 1
send 1 $(read_file 2 a.txt)
recv 1
send 1 $(read_file 3 a.txt)
recv 1
send 1 $(call 4 Bash '{"cmd":"x"}')
recv 1
send 1 $(read_file 5 a.txt)
recv 1
send 1 $(call 6 Nope '{"x":1}')
recv 1
send 1 $(call 7 Read '{}')
recv 1
send 1 $(call 8 Write "{\"path\":\"$T/f/limited\",\"body\":\"x\"}")
recv 1
send 1 $STATUS
recv 1
send 1 {\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tool.list\"}
recv 1" "allowed_tools: [Read, Write]" "$FILES" "x-max-calls-per-minute: 4"
is "$(sed -n 1,3p "$T/out" | sed 's/^1 //' | jq -r .result.body | tr '\n' ' ')" \
    "hello hello hello " "within the rate: served"
is "$(got 4 .error.message)" '"tool_not_allowed"' "a refused call is one, too"
for n in 5 6 7 8; do
	is "$(got "$n" '[.error.code, .error.message, .error.data.reason,
	    (.error.data.retry_after_ms | . > 0 and . <= 15000), .id]')" \
	    "[-32603,\"rate_limited\",\"rate_limited\",true,$n]" \
	    "over the rate, before any other check: call $n is rate_limited"
done
[ ! -e "$T/f/limited" ]
ok $? "over the rate: nothing is written"
is "$(got 9 '.result.calls') $(got 10 '.result.tools | length')" "8 2" \
    "what is no tool.call goes on"
is "$(rows skill.tool_denied '| .reason' | sort | uniq -c | tr -s ' \n' ' ')" \
    ' 4 "rate_limited" 1 "tool_not_in_allowed_tools" ' \
    "each refusal has its row"
is "$(count skill.tool_call_started)" 3 "and nothing more was started"
is "$(result calls) $(result denied)" "8 5" "the counts say so"

# Requests that never became a call count as well.
wire "open
send 1 {
recv 1
send 1 7
recv 1
send 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no.such\"}
recv 1
send 1 {\"jsonrpc\":\"2.0\",\"method\":\"no.such\"}
send 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tool.list\",\"params\":[1]}
recv 1
send 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tool.call\"}
recv 1
send 1 $(call 1 Read '{}')
recv 1
rep 1 1048577 x
recv 1
send 1 [3,4]
recv 1
send 1 $(read_file 2 a.txt)
recv 1
send 1 $(read_file 3 a.txt)
recv 1
send 1 {
recv 1" "allowed_tools: [Read]" "$FILES" "x-max-calls-per-minute: 11"
is "$(sed 's/^1 //' "$T/out" | jq -c 'if type == "array" then map(.error.code)
    else .error.code end' | tr '\n' ' ')" \
    '-32700 -32600 -32601 -32602 -32602 -32602 -32603 [-32600,-32600] null -32603 -32700 ' \
    "every rejected request counts against the rate"
is "$(got 10 '[.error.message, (.error.data.retry_after_ms <= 5455)]')" \
    '["rate_limited",true]' "so that the second good call is over it"
is "$(result rejected) $(result calls) $(result denied)" "10 3 2" \
    "rejected, calls and denied in --result"
is "$(rows skill.invoked_completed '| [.calls, .denied, .rejected]')" '[3,2,10]' \
    "and in the last row"

# The operator's rate is the smaller one, also where the skill names none.
printf 'max_calls_per_minute: 2\n' >"$T/broker.yaml"
chmod 644 "$T/broker.yaml"
printf 'open\n' >"$T/commands"
for n in 1 2 3; do
	printf 'send 1 %s\nrecv 1\n' "$(read_file "$n" a.txt)" >>"$T/commands"
done
for line in "" "x-max-calls-per-minute: 1"; do
	skill wire "allowed_tools: [Read]" "$FILES" "$line" <"$WIRE/main"
	broker_run --config "$T/broker.yaml" wire <"$T/commands"
	is "$(sed 's/^1 //' "$T/out" | jq -c .error.message | tr '\n' ' ')" \
	    "$([ -n "$line" ] && echo 'null "rate_limited" "rate_limited" ' ||
	        echo 'null null "rate_limited" ')" \
	    "the operator's 2 a minute, the skill's ${line:-none}"
done

# --- an answer of 16 MiB ---
head -c "$MAX" /dev/zero | tr '\0' '\1' >"$T/f/control"
head -c "$MAX" /dev/zero | tr '\0' a >"$T/f/text"
head -c "$MAX" /dev/zero | tr '\0' '\377' >"$T/f/binary"
# Three bytes a character: a cut must not fall into one.
awk 'BEGIN { for (i = 0; i < 5592405; i++) printf "%s", "\342\202\254" }' \
    >"$T/f/euro"
head -c 2000000 "$T/f/control" >"$T/f/small"
rm -rf "$T/pieces"
wire "open
send 1 $(read_file 1 control)
last 1
send 1 $(read_file 2 text)
last 1
send 1 $(read_file 3 binary)
last 1
send 1 $(read_file 4 euro)
last 1
send 1 $(read_file 5 small)
last 1
send 1 $(read_file 6 a.txt)
recv 1" "allowed_tools: [Read]" "$FILES"
n=1
for file in control text binary euro; do
	len=$(length "$n")
	[ "$len" -le "$MAX" ] && [ "$len" -gt $((MAX - 4096)) ]
	ok $? "16 MiB of $file: the answer fills $MAX bytes and no more ($len)"
	like "$(sed -n "${n}p" "$T/out")" \
	    "\"content_hash\":\"$(sha256sum <"$T/f/$file" | cut -c 1-64)\",\"size\":$(stat -c %s "$T/f/$file"),\"truncated\":true},\"id\":$n}\$" \
	    "16 MiB of $file: truncated, with size and hash of the whole file"
	n=$((n + 1))
done
like "$(sed -n 5p "$T/out")" '"truncated":false},"id":5}$' \
    "2 MB of control characters fit: not truncated"
is "$(got 6 .result.body)" '"hello"' "and the connection goes on"
is "$(printf '%s\n' "$ERR" | grep -c 'warn.*cut')" 4 \
    "each cut is logged as a warning"
is "$(rows skill.tool_call_completed '| .outcome' | sort | uniq -c |
    tr -s ' \n' ' ')" ' 6 "success" ' "a cut answer is a success"
wire "open
send 1 $(read_file 1 control)
full 1
send 1 $(read_file 2 euro)
full 1
send 1 $(read_file 3 binary)
full 1" "allowed_tools: [Read]" "$FILES"
body() { LC_ALL=C sed -n "${1}s/.*\"body\":\"\([^\"]*\)\".*/\1/p" "$T/out"; }
is "$(body 1 | LC_ALL=C sed 's/\\u0001//g')$(body 1 | cut -c 1-12)" '\u0001\u0001' \
    "what is left of control characters is whole"
is "$(body 2 | LC_ALL=C sed 's/€//g')$(body 2 | head -c 6)" €€ \
    "a text is cut between two characters"
body 3 | tr -d '\n' >"$T/b64"
is "$(($(wc -c <"$T/b64") % 4)) $(base64 -d <"$T/b64" | tr -d '\377' | wc -c)" \
    "0 0" "base64 is cut at a multiple of 4"

# --- a batch's answer is one, too ---
many=$(n=0; while [ "$n" -lt 20 ]; do
	printf ',%s' "$(read_file "$((n + 10))" a.txt)"
	n=$((n + 1))
done)
wire "open
send 1 [$(read_file 1 control)]
full 1
send 1 [$(read_file 2 text)$many,$(read_file 3 binary),$(call 4 Bash '{}'),$(read_file 5 text)]
full 1
send 1 $STATUS
recv 1" "allowed_tools: [Read]" "$FILES"
one=$(sed -n 1p "$T/out" | wc -c)
all=$(sed -n 2p "$T/out" | wc -c)
[ "$one" -le $((MAX + 3)) ] && [ "$one" -gt $((MAX - 8192)) ]
ok $? "a batch of one large read: at most 16 MiB ($one)"
is "$(got 1 'map([.id, .result.truncated])')" '[[1,true]]' "and whole"
[ "$all" -le $((MAX + 3)) ]
ok $? "a batch of large and small ones: at most 16 MiB ($all)"
is "$(got 2 'map(select(.id < 10) | [.id, .result.truncated, .error.code])')" \
    '[[2,true,null],[3,true,null],[4,null,-32603],[5,true,null]]' \
    "each large one is cut to what is left"
is "$(got 2 'map(select(.id >= 10) | .result.body) | [length, unique]')" \
    '[20,["hello"]]' "and the small ones behind it are whole"
is "$(got 3 .id)" '"s"' "the connection goes on"

wire "open
wrap 1 9000 [1|,{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tool.list\"}|,2]
full 1
send 1 $STATUS
recv 1" "allowed_tools: [Bash, Read, Write, Edit, Glob, Grep, MemoryRead, MemorySearch, MemoryEmit, HttpFetch, HttpPost]"
[ "$(sed -n 1p "$T/out" | wc -c)" -le $((MAX + 3)) ]
ok $? "9,000 times tool.list in a batch: at most 16 MiB"
is "$(got 1 '[length, (map(.result.tools | length) | max),
    (map(.error.message) | unique)]')" \
    '[9002,11,[null,"Invalid Request","too_large"]]' \
    "those without room say too_large, each in its place"
is "$(got 2 .id)" '"s"' "the connection goes on"

# Several batches with large answers at once: what may be unsent has room for
# three of them, whoever reads first; the others follow.
for n in 1 2 3 4 5; do
	echo open
done >"$T/commands"
for n in 1 2 3 4 5; do
	echo "send $n [$(read_file 1 text),$(read_file 2 a.txt),$(read_file 3 text)]"
done >>"$T/commands"
for n in 3 2 1 5 4; do
	echo "last $n 120000"
done >>"$T/commands"
wire "$(cat "$T/commands")" "allowed_tools: [Read]" "$FILES"
is "$(sed 's/^\([0-9]\) 167[0-9]* bytes .*"truncated":true},"id":3}\]$/\1/' \
    "$T/out" | tr '\n' ' ')" "3 2 1 5 4 " \
    "five batches of 16 MiB at once, read in another order"
done_testing
