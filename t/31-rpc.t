#!/bin/sh
# JSON-RPC 2.0 and strict JSON on the socket; the order of the checks; trace
# context in the rows (SPEC 4, 5, 6).
. t/lib.sh

STATUS='{"jsonrpc":"2.0","id":"s","method":"broker.status"}'
mkdir "$T/f" && chmod 777 "$T/f"
printf 'hello' >"$T/f/a.txt"
printf 'secret' >"$T/other.txt"
FILES="x-allowed-files: [\"$T/f/**\"]"

# call ID TOOL ARGS: a request as the client's commands want it
call() {
	printf '{"jsonrpc":"2.0","id":%s,"method":"tool.call",' "$1"
	printf '"params":{"tool":"%s","args":%s}}' "$2" "$3"
}
read_a=$(call 1 Read "{\"path\":\"$T/f/a.txt\"}")
# got N FILTER: the Nth line that the client printed, without its number
got() { sed -n "$1s/^[0-9]* //p" "$T/out" | jq -c "$2"; }
class='[.error.code, .error.message, .error.data.reason, .id]'

# --- the vectors: requests that end well there are mapped to broker.status ---
vectors=t/vectors/json-rpc/cases.jsonl
jq -r '
    def escape: gsub("\\\\"; "\\\\") | gsub("\n"; "\\x0a");
    def mapped: gsub("\"(subtract|sum|get_data)\", ?\"params\": ?(\\[[^\\]]*\\]|\\{[^}]*\\})"; "\"broker.status\"")
	| gsub("\"get_data\""; "\"broker.status\"");
    def ends_well: if type == "array" then any(.[]; has("result"))
	elif type == "object" then has("result") else false end;
    (if (.response | ends_well) then .request | mapped else .request end
	| "send 1 " + escape),
    "send 1 {\"jsonrpc\":\"2.0\",\"id\":\"mark\",\"method\":\"tool.list\"}",
    "recv 1",
    if .response != null then "recv 1" else empty end' "$vectors" >"$T/all"
wire "open
$(cat "$T/all")" "$FILES"
# Each answer: results stand for themselves, batches in the order of their ids.
shape='def one: if type != "object" then "broken"
    elif has("result") then ["result", .jsonrpc, .id]
    else ["error", .jsonrpc, .error.code, .error.message, .id] end;
    if type == "array" then map(one) | sort else one end'
at=1
total=0
while IFS= read -r case; do
	name=$(printf '%s\n' "$case" | jq -r .name)
	want=$(printf '%s\n' "$case" | jq -c ".response | $shape")
	total=$((total + 1))
	if [ "$(printf '%s\n' "$case" | jq -r .response)" != null ]; then
		is "$(got "$at" "$shape")" "$want" "vector $name"
		at=$((at + 1))
	fi
	mark=$(got "$at" .id)
	at=$((at + 1))
	[ "$mark" = '"mark"' ] || is "$mark" '"mark"' "vector $name: no more"
	[ "$(printf '%s\n' "$case" | jq -r .response)" != null ] ||
	    is "$mark" '"mark"' "vector $name: no answer"
done <"$vectors"
is "$total" 42 "all vectors were tried"
like "$OUT" '^1 \{.*"id":9007199254740993\}$' "the big id's text is the same"

# --- ids, byte for byte (CASES 68) ---
ids='2147483648
9007199254740993
18446744073709551615
-1
0
-0
1.0
1e3
1.50E+2
"a"
""
"\u0061\/\n"
"\ud83c\udf78"
"é"
null'
long=$(printf '%0400d' 7 | tr 0 3)
big=$(head -c 20000 /dev/zero | tr '\0' x)
printf '%s\n' "$ids" "$long" >"$T/ids"
wire "open
$(sed 's/\\/\\\\/g' "$T/ids" | while IFS= read -r id; do
	echo "send 1 {\"jsonrpc\":\"2.0\",\"id\":$id,\"method\":\"broker.status\"}"
	echo "recv 1"
done)
send 1 {\"id\" : 5 ,\"jsonrpc\":\"2.0\",\"method\":\"x\"}
recv 1
send 1 {\"\\u0069d\":6,\"jsonrpc\":\"2.0\",\"method\":\"x\"}
recv 1
send 1 {\"id\":\"$big\",\"jsonrpc\":\"2.0\",\"method\":\"x\"}
full 1"
n=1
while IFS= read -r id; do
	is "$(sed -n "${n}s/.*,\"id\":\(.*\)}$/\1/p" "$T/out")" "$id" \
	    "id comes back as it was: $(printf %.40s "$id" | tr '\134' /)"
	n=$((n + 1))
done <"$T/ids"
is "$(sed -n "${n}s/.*,\"id\"://p" "$T/out")" '5}' "blanks around it are not its"
n=$((n + 1))
is "$(sed -n "${n}s/.*,\"id\"://p" "$T/out")" '6}' "an escaped name is its name"
n=$((n + 1))
is "$(sed -n "${n}s/.*,\"id\"://p" "$T/out")" "\"$big\"}" "a long id is whole"

# --- notifications (CASES 66) ---
note_call() { call 0 "$1" "$2" | sed 's/"id":0,//'; }
wire "open
send 1 $(note_call Read "{\"path\":\"$T/f/a.txt\"}")
send 1 $(note_call Bash '{"cmd":"true"}')
send 1 $(note_call Read '{"path":5}')
send 1 {\"jsonrpc\":\"2.0\",\"method\":\"no.such\"}
send 1 {\"jsonrpc\":\"2.0\",\"method\":\"tool.list\",\"params\":[1]}
send 1 $(note_call Write "{\"path\":\"$T/f/noted\",\"body\":\"n\"}")
send 1 {\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"broker.status\"}
recv 1
send 1 $(call null Bash '{"cmd":"true"}')
recv 1
send 1 $(call 9 Write "{\"path\":\"$T/f/noted\",\"body\":\"o\",\"mode\":\"append\"}")
recv 1
recv 1 200" "allowed_tools: [Read, Write]" "$FILES"
is "$(got 1 '[.id, (.result | has("calls"))]')" '[null,true]' \
    "notifications get no answer; id null is a request"
is "$(got 2 "$class")" \
    '[-32603,"tool_not_allowed","tool_not_in_allowed_tools",null]' \
    "a refusal with id null is answered"
is "$(got 3 .id)" 9 "and the next answer is to the next request"
is "$(sed -n 4p "$T/out")" "1 nothing" "no other frame comes"
is "$(rows skill.tool_call_started '| .tool_name' | sort | uniq -c | tr -s ' \n' ' ')" \
    ' 1 "Read" 2 "Write" ' "allowed notifications leave their started rows"
is "$(rows skill.tool_call_completed '| select(.tool_name == "Write") | .outcome' | uniq -c | tr -s ' ')" \
    ' 2 "success"' "and their completed rows"
is "$(cat "$T/f/noted")" no "and do what they say"
is "$(count skill.tool_denied)" 2 "each refused one leaves its denied row"
is "$(result rejected)" 3 "those that are no call are counted as rejected"

# --- strict JSON (CASES 70 to 76) ---
deep() { # LEVELS inside the request, which is the first
	printf '{"jsonrpc":"2.0","id":1,"method":"broker.status","params":'
	printf "%$(($1 - 1))s" '' | tr ' ' '['
	printf "%$(($1 - 1))s" '' | tr ' ' ']'
	printf '}'
}
bad_json='{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","tool":"Bash","args":{"path":"@/f/a.txt"}}}
{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"@/f/a.txt","path":"@/other.txt"}}}
{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"@/f/a.txt","p\\u0061th":"@/other.txt"}}}
{"jsonrpc":"2.0","id":1,"id":2,"method":"broker.status"}
{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"@/f/a.txt\\u0000/../../../etc/passwd"}}}
{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"@/f/a.txt\x00"}}}
{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"MemoryRead","args":{"path":"memories/a\\u0000"}}}
{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Write","args":{"path":"@/f/s","body":"\\ud800"}}}
{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Write","args":{"path":"@/f/s","body":"\\udc00\\ud800"}}}
{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Write","args":{"path":"@/f/s","body":"\xed\xa0\x80"}}}
{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Write","args":{"path":"@/f/s","body":"\xc0\xaf"}}}
{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"@/f/a.txt","offset":9007199254740993}}}
{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"@/f/a.txt","offset":1e999}}}
{"jsonrpc":"2.0","id":1,"method":"broker.status"}\x00
{"jsonrpc":"2.0","id":1,"method":"broker.status",}
'\''{"jsonrpc":"2.0","id":1}'\''
{"jsonrpc":"2.0","id":NaN,"method":"broker.status"}
[{"jsonrpc":"2.0","id":1,"method":"broker.status"},]'
printf '%s\n' "$bad_json" | sed "s|@|$T|g" >"$T/bad"
mkdir -p "$STORE/memories" && chmod 700 "$STORE"
wire "open
$(while IFS= read -r text; do
	echo "send 1 $text"
	echo "recv 1"
	echo "send 1 $STATUS"
	echo "recv 1"
done <"$T/bad")
rep 1 100000 [
recv 1
rep 1 1000000 [
recv 1
rep 1 209715 {\"a\":
recv 1
send 1 $(deep 64)
recv 1
send 1 $(deep 65)
recv 1
send 1 $STATUS
recv 1
wrap 1 65534 [0|,0|]
full 1
wrap 1 65535 [0|,0|]
recv 1
send 1 $(call 1 Write "{\"path\":\"$T/f/cocktail\",\"body\":\"\\\\ud83c\\\\udf78\"}")
recv 1" "allowed_tools: [Read, Write, MemoryRead]" "$FILES" \
    'allowed_memory_scopes: ["memories/**"]'
n=1
while IFS= read -r text; do
	is "$(got "$n" '[.error.code, .error.message, .id]')" \
	    '[-32700,"Parse error",null]' \
	    "strict JSON: $(printf '%s\n' "$text" | sed "s|$T||g" | cut -c 36-110 |
	    tr '\134' /)"
	[ "$(got "$((n + 1))" .id)" = '"s"' ] ||
	    is "$(got "$((n + 1))" .id)" '"s"' "the connection goes on"
	n=$((n + 2))
done <"$T/bad"
for what in "100,000 brackets" "a million brackets" "1 MB of {\"a\":"; do
	is "$(got "$n" '[.error.code, .id]')" '[-32700,null]' "$what: -32700"
	n=$((n + 1))
done
is "$(got "$n" .error.code)" -32602 "64 levels are read"
is "$(got "$((n + 1))" .error.code)" -32700 "65 are not"
is "$(got "$((n + 2))" .id)" '"s"' "the same connection still works"
is "$(got "$((n + 3))" 'length, (map(.error.code) | unique)' | tr '\n' ' ')" \
    '65535 [-32600] ' "65,536 values are read"
is "$(got "$((n + 4))" .error.code)" -32700 "65,537 are not"
is "$(od -An -tx1 "$T/f/cocktail" | tr -d ' ')" f09f8db8 \
    "a pair of surrogates is written as the four bytes"
[ ! -e "$T/f/s" ]
ok $? "none of the refused texts wrote its file"
is "$(rows skill.tool_call_started '| .tool_name')" '"Write"' \
    "none of them started anything"
is "$(count skill.tool_denied)" 0 "and none of them is a call"

# --- batches ---
wire "open
send 1 [$read_a,$(call 2 Read "{\"path\":\"$T/other.txt\"}"),7,{\"jsonrpc\":\"2.0\",\"method\":\"no.such\"},$(note_call Read "{\"path\":\"$T/other.txt\"}"),$(call '"w"' Write "{\"path\":\"$T/f/b1\",\"body\":\"1\"}"),{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"broker.status\"},[],{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"broker.status\"},$(call 4 Read '{}'),$(call 5 Write "{\"path\":\"$T/f/b2\",\"body\":\"2\"}")]
full 1
send 1 [$(note_call Write "{\"path\":\"$T/f/b3\",\"body\":\"3\"}"),$(note_call Read "{\"path\":\"$T/other.txt\"}")]
send 1 [$(note_call Read "{\"path\":\"$T/other.txt\"}"),$(call 6 Write "{\"path\":\"$T/f/b4\",\"body\":\"4\"}"),$(note_call Write "{\"path\":\"$T/f/b5\",\"body\":\"5\"}")]
recv 1
recv 1 300" "allowed_tools: [Read, Write]" "$FILES"
is "$(got 1 'map([.id, .error.code, has("result")])')" \
    '[[1,null,true],[2,-32603,false],[null,-32600,false],["w",null,true],[null,-32600,false],[null,-32600,false],[3,null,true],[4,-32602,false],[5,null,true]]' \
    "a mixed batch: each element for itself, one answer"
is "$(got 1 '.[0].result.body')" '"hello"' "its results are those of single calls"
is "$(got 2 'map([.id, has("result")])')" '[[6,true]]' \
    "a batch of notifications gets no answer, the next one gets one"
is "$(sed -n 3p "$T/out")" "1 nothing" "and nothing else comes"
is "$(cat "$T/f/b1" "$T/f/b2" "$T/f/b3" "$T/f/b4" "$T/f/b5" | tr -d '\n')" 12345 \
    "what a worker does for a batch is done"
is "$(count skill.tool_denied) $(count skill.tool_call_started) $(count skill.tool_call_completed)" \
    "4 6 6" "each element has its rows"

# A batch's answer and those of single calls do not run into each other.
wire "open
send 1 $(call 1 Write "{\"path\":\"$T/f/m1\",\"body\":\"1\"}")
send 1 $(call 2 Write "{\"path\":\"$T/f/m2\",\"body\":\"2\"}")
send 1 [$(call 3 Write "{\"path\":\"$T/f/m3\",\"body\":\"3\"}"),$(call 4 Write "{\"path\":\"$T/f/m4\",\"body\":\"4\"}")]
send 1 $(call 5 Write "{\"path\":\"$T/f/m5\",\"body\":\"5\"}")
recv 1
recv 1
recv 1
recv 1
recv 1 200" "allowed_tools: [Write]" "$FILES"
is "$(sed -n '1,4s/^1 //p' "$T/out" |
    jq -c 'if type == "array" then map(.id) else .id end' | sort | tr '\n' ' ')" \
    "1 2 5 [3,4] " "single calls in flight keep out of a batch's answer"

wire "open
wrap 1 999 [$(call 1 Read "{\"path\":\"$T/other.txt\"}")|,$(call 1 Read "{\"path\":\"$T/other.txt\"}")|]
full 1
flood 1 1000 $(call '#' Read "{\"path\":\"$T/f/a.txt\"}")
$(n=0; while [ "$n" -lt 1000 ]; do echo "recv 1"; n=$((n + 1)); done)" \
    "allowed_tools: [Read]" "$FILES"
is "$(got 1 'length, (map(.error.message) | unique)' | tr '\n' ' ')" \
    '1000 ["file_violation"] ' "a batch of 1,000: one answer with all"
is "$(sed 's/^1 //' "$T/out" | tail -n +2 | jq .id | sort -nu | wc -l | tr -d ' ')" \
    1000 "SPEC 14: 1,000 rapid calls are answered"
is "$(count skill.tool_denied) $(count skill.tool_call_started) $(count skill.tool_call_completed)" \
    "1000 1000 1000" "SPEC 14: and each one recorded"
is "$(result calls) $(result denied)" "2000 1000" "and counted"

# --- near-miss names (CASES 30) ---
names='bash
BASH
Bash 
 Bash
B\xd0\xb0sh
Bash\\n
Read\\u0009

mcp__x__y
__proto__'
printf '%s\n' "$names" >"$T/names"
letters=$(head -c 100000 /dev/zero | tr '\0' a)
wire "open
$(while IFS= read -r name; do
	echo "send 1 $(call 1 "$name" '{"cmd":"touch '"$T"'/f/ran"}')"
	echo "recv 1"
done <"$T/names")
send 1 $(call 1 "$letters" '{}')
recv 1
send 1 $(call 1 'Bash\\u0000' '{}')
recv 1" "allowed_tools: [Bash, Read]" "$FILES"
n=1
while IFS= read -r name; do
	is "$(got "$n" "$class")" '[-32603,"unknown_tool","unknown_tool",1]' \
	    "near miss \"$(printf '%s\n' "$name" | tr '\134' /)\": unknown_tool"
	n=$((n + 1))
done <"$T/names"
is "$(got "$n" "$class")" '[-32603,"unknown_tool","unknown_tool",1]' \
    "100 kB of letters: unknown_tool"
[ "$(sed -n "${n}p" "$T/out" | wc -c)" -lt 1000 ]
ok $? "and the answer does not repeat them"
is "$(got "$((n + 1))" '[.error.code, .id]')" '[-32700,null]' \
    "an escaped NUL: -32700"
is "$(count skill.tool_denied) $(count skill.tool_call_started)" "$n 0" \
    "near misses: one denied row each, nothing started"
is "$(rows skill.tool_denied '| select(.tool_name | length > 500) |
    [(.tool_name | length <= 1024), has("tool_name_sha256"), .reason]')" \
    '[true,true,"unknown_tool"]' "the long name is capped in its row"
is "$(rows skill.tool_denied '| .tool_name' | sed -n 6p)" '"Bash\n"' \
    "a line feed in a name is escaped in its row"
[ ! -e "$T/f/ran" ]
ok $? "near misses: nothing ran"

# --- parameters ---
refuse_params='{"tool":"Read"}
{"tool":"Read","args":null}
{"tool":"Read","args":[]}
{"tool":"Read","args":"x"}
{"tool":"Read","args":{}}
{"tool":"Read","args":{"path":5}}
{"tool":"Read","args":{"path":""}}
{"tool":"Read","args":{"path":"a.txt"}}
{"tool":"Read","args":{"path":"@/f/a.txt","Limit":1}}
{"tool":"Read","args":{"path":"@/f/a.txt","limit":0}}
{"tool":"Read","args":{"path":"@/f/a.txt","limit":"1"}}
{"tool":"Read","args":{"path":"@/f/a.txt","limit":1.5}}
{"tool":"Read","args":{"path":"@/f/a.txt"},"Args":{}}
{"tool":"Read","args":{"path":"@/f/a.txt"},"name":"x"}
{"tool":5,"args":{}}
{"tool":null,"args":{}}
{"args":{"path":"@/f/a.txt"}}
{}
["Read",{"path":"@/f/a.txt"}]
[]'
printf '%s\n' "$refuse_params" | sed "s|@|$T|g" >"$T/params"
wire "open
$(while IFS= read -r params; do
	echo "send 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tool.call\",\"params\":$params}"
	echo "recv 1"
done <"$T/params")
send 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tool.call\"}
recv 1
send 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tool.list\",\"params\":{\"x\":1}}
recv 1
send 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"broker.status\",\"params\":[1]}
recv 1
send 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"broker.status\",\"params\":{}}
recv 1
send 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"Tool.call\",\"params\":{}}
recv 1
send 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"rpc.discover\"}
recv 1
send 1 $read_a
recv 1" "allowed_tools: [Read]" "$FILES"
n=1
while IFS= read -r params; do
	is "$(got "$n" '[.error.code, (.error.data.detail | length > 5)]')" \
	    '[-32602,true]' "params $(printf '%s\n' "$params" |
	    sed "s|$T||g"): -32602 with a word why"
	n=$((n + 1))
done <"$T/params"
is "$(got "$n" .error.code)" -32602 "no params: -32602"
is "$(got "$((n + 1))" .error.code)" -32602 "tool.list takes none"
is "$(got "$((n + 2))" .error.code)" -32602 "nor does broker.status"
is "$(got "$((n + 3))" '.result | has("calls")')" true "empty ones are none"
is "$(got "$((n + 4))" .error.code)" -32601 "method names have their case"
is "$(got "$((n + 5))" .error.code)" -32601 "no other method"
is "$(got "$((n + 6))" .result.body)" '"hello"' "right ones work (granted)"
is "$(got 9 '.error.data.detail | contains("Limit")')" true \
    "the detail names the argument"
is "$(count skill.tool_denied) $(count skill.tool_call_started)" "0 1" \
    "bad parameters leave no row of a call"
is "$(result rejected) $(result calls)" "$((n + 4)) 1" "they are rejected"

# --- the order of the checks (SPEC 4) ---
wire 'open
send 1 {"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Nope","args":{},"x":1}}
recv 1
send 1 {"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Bash","args":{},"x":1}}
recv 1' "allowed_tools: [Read]" "$FILES"
is "$(got 1 .error.data.reason) $(got 2 .error.data.reason) $(count skill.tool_denied)" \
    '"unknown_tool" "tool_not_in_allowed_tools" 2' "a member too many hides no refusal"
wire "open
send 1 $(call 1 Nope '{"x":1}')
recv 1
send 1 $(call 1 Bash '{"x":1}')
recv 1
send 1 $(call 1 Edit '{"x":1}')
recv 1
send 1 $(call 1 Read "{\"path\":\"$T/other.txt\",\"x\":1}")
recv 1
send 1 $(call 1 Read "{\"path\":\"$T/other.txt\"}")
recv 1
send 1 $read_a
recv 1" "allowed_tools: [Read, Bash]" "disallowed_tools: [Bash]" "$FILES"
is "$(got 1 .error.data.reason)" '"unknown_tool"' "the registry comes first"
is "$(got 2 .error.data.reason)" '"tool_in_disallowed_tools"' \
    "acceptance 3: the denylist beats the allowlist, and comes before the shape"
is "$(got 3 .error.data.reason)" '"tool_not_in_allowed_tools"' \
    "the allowlist comes before the shape"
is "$(got 4 .error.code)" -32602 "the shape comes before the resource"
is "$(got 5 .error.data.reason)" '"file_violation"' "then the resource"
is "$(got 6 .result.body)" '"hello"' "and what passes all of it runs"
is "$(sed -n '1,3p;5p' "$T/out" | sed 's/^1 //' | jq -c .error.code | sort -u)" \
    -32603 "acceptance 17: enforcement errors are -32603"
is "$(got 2 '[.error.data.tool, .error.data.skill_id, (.error.data.hint | length > 10)]')" \
    '["Bash","wire",true]' "a refusal names tool and skill, and has a hint"
unlike "$(sed -n 5p "$T/out")" "other.txt|$T" "and no path"
is "$(rows skill.tool_denied '| [.tool_name, .reason]' | tr '\n' ' ')" \
    '["Nope","unknown_tool"] ["Bash","tool_in_disallowed_tools"] ["Edit","tool_not_in_allowed_tools"] ["Read","file_violation"] ' \
    "acceptance 2, 15: the ledger has one row for each refusal"

# --- tool.list and broker.status ---
wire "open
send 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tool.list\"}
full 1
send 1 $read_a
recv 1
send 1 $(call 2 Bash '{}')
recv 1
send 1 $STATUS
recv 1" "allowed_tools: [Write, Read, Bash]" "disallowed_tools: [Bash]" "$FILES"
is "$(got 1 '.result.tools | map(.name)')" '["Read","Write"]' \
    "tool.list shows what may be called, and nothing that is denied"
is "$(got 1 '.result.tools | map((.description | length > 10) and
    .inputSchema.type == "object" and .inputSchema.additionalProperties == false
    and (.inputSchema.required | index("path") != null)) | all')" true \
    "each with its description and schema"
is "$(got 4 '.result | keys')" \
    '["calls","denied","invocation_id","remaining_ms","skill_id","uptime_ms","version"]' \
    "broker.status has its members"
is "$(got 4 '.result | [.skill_id, .version, .calls, .denied]')" \
    '["wire","1.0.0",2,1]' "with their values"
is "$(got 4 .result.invocation_id)" "\"$(result invocation_id)\"" "the id too"
is "$(got 4 '.result | (.uptime_ms >= 0) and (.uptime_ms < 600000) and
    (.remaining_ms > 1200000) and (.remaining_ms <= 1800000)')" true \
    "and times that can be"
wire "open
send 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tool.list\"}
recv 1"
is "$(got 1 .result)" '{"tools":[]}' "nothing granted: an empty list"

# --- trace context ---
own=0af7651916cd43dd8448eb211c80319c
trace_call() { # ID TRACEPARENT [TRACESTATE]
	printf '{"jsonrpc":"2.0","id":%s,"method":"tool.call","params":{"tool":"Read","args":{"path":"%s/f/a.txt"},"traceparent":%s%s}}' \
	    "$1" "$T" "$2" "${3:+,\"tracestate\":$3}"
}
tid=4bf92f3577b34da6a3ce929d0e0e4736
traced="open
send 1 $(trace_call 1 "\"00-$own-b7ad6b7169203331-01\"" '"a=1"')
recv 1
send 1 $(trace_call 2 "\"cc-$own-b7ad6b7169203331-01-more\"")
recv 1
send 1 $(trace_call 3 "\"00-$own-b7ad6b7169203331-01\"" '"a=1,,=bad"')
recv 1
send 1 {\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tool.call\",\"params\":{\"tool\":\"Bash\",\"args\":{},\"traceparent\":\"00-$own-b7ad6b7169203331-00\"}}
recv 1
$(for v in "\"00-$(echo $own | tr a-f A-F)-b7ad6b7169203331-01\"" \
    '"00-00000000000000000000000000000000-b7ad6b7169203331-01"' \
    "\"00-$own-0000000000000000-01\"" "\"ff-$own-b7ad6b7169203331-01\"" \
    "\"00-$own-b7ad6b7169203331-01-x\"" "\" 00-$own-b7ad6b7169203331-01\"" \
    "\"00-$own-b7ad6b7169203331\"" '""' 7 null "[]"; do
	echo "send 1 $(trace_call 5 "$v" '"a=1"')"
	echo "recv 1"
done)
send 1 $(trace_call 6 "\"00-$own-b7ad6b7169203331-01\"" 5)
recv 1"
skill wire "allowed_tools: [Read]" "$FILES" <"$WIRE/main"
printf '%s\n' "$traced" >"$T/commands"
broker_run --traceparent "00-$tid-00f067aa0ba902b7-01" wire <"$T/commands"
is "$(sed 's/^1 //' "$T/out" | jq -c '[.id, .error.code]' | sort | uniq -c |
    tr -s ' \n' ' ')" \
    ' 1 [1,null] 1 [2,null] 1 [3,null] 1 [4,-32603] 11 [5,null] 1 [6,null] ' \
    "an invalid trace context is never an error"
like "$(cat "$T/err")" 'an invalid traceparent was ignored calls=11' \
    "it is counted, and said once"
is "$(rows skill.invoked_started '| [.trace_id, .invocation_trace_id]')" \
    "[\"$tid\",null]" "--traceparent is the invocation's trace"
with_own=$(segment | jq -c "select(.payload.trace_id == \"$own\") |
    [.kind, .payload.invocation_trace_id]" | sort | uniq -c | tr -s ' \n' ' ')
is "$with_own" " 4 [\"skill.tool_call_completed\",\"$tid\"] 4 [\"skill.tool_call_started\",\"$tid\"] 1 [\"skill.tool_denied\",\"$tid\"] " \
    "a call's own trace is in its rows, with the invocation's beside it"
is "$(segment | jq -c "select(.kind | startswith(\"skill.tool_\")) |
    select(.payload.trace_id == \"$tid\") | .payload | has(\"invocation_trace_id\")" |
    sort | uniq -c | tr -s ' \n' ' ')" " 22 false " \
    "an invalid one leaves the invocation's trace in the rows"
broker_run wire <"$T/commands"
is "$(rows skill.invoked_started '| .trace_id | test("^[0-9a-f]{32}$")')" true \
    "without --traceparent the invocation has a trace of its own"

# --- acceptance 14 ---
wire "open
send 1 $read_a
recv 1" "allowed_tools: [Read]" "$FILES"
is "$(segment | jq -c 'select(.kind | startswith("skill.tool_call")) | [.kind,
    .payload.call, .payload.invocation_id, .payload.trace_id]' |
    sed "s/$(result invocation_id)/INV/;s/$(rows skill.invoked_started '| .trace_id' |
    tr -d '"')/TRACE/" | tr '\n' ' ')" \
    '["skill.tool_call_started",1,"INV","TRACE"] ["skill.tool_call_completed",1,"INV","TRACE"] ' \
    "acceptance 14: one started and one completed, of one invocation and trace"
sum=$(printf '{"path":"%s/f/a.txt"}' "$T" | sha256sum | cut -d ' ' -f 1)
is "$(rows skill.tool_call_started '| [.args_hash, .resource]')" \
    "[\"$sum\",\"$T/f/a.txt\"]" "the row has the hash of the canonical args"
sum=$(sed -n '1s/^1 .*"result":\(.*\),"id":1}$/\1/p' "$T/out" | tr -d '\n' |
    sha256sum | cut -d ' ' -f 1)
is "$(rows skill.tool_call_completed '| .result_hash')" "\"$sum\"" \
    "and the hash of the result's bytes as sent"
done_testing
