#!/bin/sh
# Tool lists, and Read: what a skill may see of the files on this host, how the
# bytes reach it, and what it is told when it may not.
# shellcheck source=t/lib.sh
. t/lib.sh
# shellcheck source=t/live.sh
. t/live.sh

D=$T/d
mkdir -p "$D/ok/sub" "$D/private" "$D/ok-evil"
printf 'hello\n' >"$D/ok/f"
printf 'MARKER-evil\n' >"$D/ok-evil/s"
printf 'MARKER-present\n' >"$D/private/present"
OK="x-allowed-files: [\"$D/ok/**\"]"

path() { printf '{"path":"%s"}' "$1"; }

# --- which tools ---

calls "Read $(path "$D/ok/f")" 'allowed_tools: [Read]' "$OK"
is "$(answer 1 .result.body)" hello "acceptance 1: an allowed tool succeeds"
is "$(count skill.tool_call_started) $(count skill.tool_call_completed) $(count skill.tool_denied)" \
    "1 1 0" "acceptance 1: one started, one completed, none denied"
is "$(rows skill.tool_call_completed '| .outcome + " " + .tool_name')" \
    '"success Read"' "acceptance 1: completed with success"
is "$(rows skill.tool_call_started '| .resource')" "\"$D/ok/f\"" \
    "the resource of the decision is in the row"

calls "Write {\"path\":\"$D/ok/new\",\"body\":\"x\"}" \
    'allowed_tools: [Read]' "$OK"
is "$(said 1)" "-32603 tool_not_allowed tool_not_in_allowed_tools" \
    "acceptance 2: a tool outside allowed_tools is refused"
refused tool_not_in_allowed_tools Write
is "$(count skill.tool_denied)" 1 "acceptance 2: one skill.tool_denied"
[ ! -e "$D/ok/new" ]
ok $? "acceptance 2: nothing was written"

calls "Read $(path "$D/ok/f")
Write {\"path\":\"$D/ok/new\",\"body\":\"x\"}" \
    'allowed_tools: [Read, Write]' 'disallowed_tools: [Write]' "$OK"
is "$(said 1)" ok "acceptance 3: beside a denied tool the others work"
is "$(said 2)" "-32603 tool_not_allowed tool_in_disallowed_tools" \
    "acceptance 3: the denylist overrides the allowlist"
[ ! -e "$D/ok/new" ]
ok $? "acceptance 3: nothing was written"
is "$(rows skill.tool_denied '| .reason')" '"tool_in_disallowed_tools"' \
    "acceptance 3: its row"

# T28: a list that somebody enforces
lines=$(cat <<END
Bash {"cmd":"echo MARKER >$D/ok/bash"}
Read $(path "$D/ok/f")
Write {"path":"$D/ok/new","body":"x"}
Edit {"path":"$D/ok/f","old":"hello","new":"x"}
Glob {"pattern":"**"}
Grep {"pattern":"x"}
MemoryRead {"path":"memories/a"}
MemorySearch {"query":"x"}
MemoryEmit {"kind":"a.b","path":"memories/a","body":"x"}
HttpFetch {"url":"http://localhost/"}
HttpPost {"url":"http://localhost/","body":"x"}
END
)
calls "$lines" 'allowed_tools: [Read]' "$OK" \
    'allowed_memory_scopes: ["memories/**"]' 'x-allowed-domains: ["*"]'
got=
for i in 1 2 3 4 5 6 7 8 9 10 11; do
	got="$got$(said $i)
"
done
is "$(printf '%s' "$got" | sort | uniq -c | sed 's/^ *//')" \
    "10 -32603 tool_not_allowed tool_not_in_allowed_tools
1 ok" "case T28: of eleven tools one works and ten are refused"
is "$(rows skill.tool_denied '| select(.reason == "tool_not_in_allowed_tools") | .tool_name' | sort -u | wc -l)" \
    10 "case T28: ten denied rows, one for each"
is "$(count skill.tool_call_started)" 1 "case T28: only Read has started"
is "$(cat "$D/ok/f")" hello "case T28: Edit has not touched the file"
[ ! -e "$D/ok/bash" ] && [ ! -e "$D/ok/new" ] && [ ! -e "$STORE/memories/a" ]
ok $? "case T28: nothing was written"
wire 'open 1
send 1 {"jsonrpc":"2.0","id":1,"method":"tool.list"}
recv 1' 'allowed_tools: [Read]' "$OK"
is "$(answer 1 '[.result.tools[].name] | join(" ")')" Read \
    "case T28: tool.list shows Read only"

# --- which files ---

outside=$(mktemp /tmp/cyberos-x.XXXXXX)
mv "$outside" "$outside.txt"
printf 'in tmp\n' >"$outside.txt"
calls "Read $(path "$outside.txt")
Read $(path /etc/passwd)" 'allowed_tools: [Read]' 'x-allowed-files: ["/tmp/**"]'
rm -f "$outside.txt"
is "$(answer 1 .result.body)" "in tmp" \
    "acceptance 6: x-allowed-files [/tmp/**] reads /tmp/x.txt"
is "$(said 2)" "-32603 file_violation file_violation" \
    "acceptance 6: but not /etc/passwd"
unlike "$OUT" 'root:' "acceptance 6: nothing of it is in the answer"
refused file_violation Nothing
is "$(rows skill.tool_denied '| .violation')" '"/etc/passwd"' \
    "acceptance 6: the row names it"

# P1: a sibling that shares a text prefix
calls "Read $(path "$D/ok-evil/s")
Read $(path "$D/ok")" 'allowed_tools: [Read]' "$OK"
is "$(said 1) $(said 2)" \
    "-32603 file_violation file_violation -32603 file_violation file_violation" \
    "case P1: a sibling directory and the directory itself are refused"
is "$(rows skill.tool_denied '| .violation' | tr '\n' ' ')" \
    "\"$D/ok-evil/s\" \"$D/ok\" " "case P1: two rows with canonical paths"
is "$(count skill.tool_call_started)" 0 "case P1: nothing has started"
unlike "$OUT" MARKER "case P1: nothing was read"

# P3: links
ln -s /etc/passwd "$D/ok/t"
ln -s t "$D/ok/t2"
ln -s f "$D/ok/inside"
ln -s "$D/ok" "$D/private/in"
ln -s nowhere "$D/ok/dangling"
ln -s loop "$D/ok/loop"
calls "Read $(path "$D/ok/t")
Read $(path "$D/ok/t2")
Read $(path "$D/ok/inside")
Read $(path "$D/private/in/f")
Read $(path "$D/ok/dangling")
Read $(path "$D/ok/loop")" 'allowed_tools: [Read]' "$OK"
is "$(said 1) $(said 2)" \
    "-32603 file_violation file_violation -32603 file_violation file_violation" \
    "case P3: a link to a file outside, and a chain of two, are refused"
is "$(rows skill.tool_denied '| .violation' | head -n 2 | tr '\n' ' ')" \
    '"/etc/passwd" "/etc/passwd" ' "case P3: the row names what it led to"
unlike "$OUT" 'root:|/etc' "case P3: the answer tells nothing of the target"
is "$(answer 3 .result.body)" hello "case P3: a link to a file inside is read"
is "$(answer 4 .result.body)" hello "a link from outside to inside is judged by its end"
is "$(said 5) $(said 6)" \
    "-32603 file_violation file_violation -32603 file_violation file_violation" \
    "dangling and looping links are refused"

# P9: types
mkfifo "$D/ok/p"
t/skills/tamper/main socket "$D/ok/s"
request() {
	printf 'send %d {"jsonrpc":"2.0","id":%d,"method":"tool.call","params":{"tool":"%s","args":%s}}\n' \
	    "$1" "$1" "$2" "$3"
}
# With /** no glob stands in the way: it is the type that is refused.
wire "open 1
open 2
$(request 1 Read "$(path "$D/ok/p")")
send 2 {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"broker.status\"}
recv 2 5000
recv 1 5000
$(request 1 Write "{\"path\":\"$D/ok/p\",\"body\":\"x\"}")
recv 1 5000
$(request 1 Write "{\"path\":\"$D/ok/p\",\"body\":\"x\",\"mode\":\"append\"}")
recv 1 5000
$(request 1 Edit "{\"path\":\"$D/ok/p\",\"old\":\"x\",\"new\":\"y\"}")
recv 1 5000
$(request 1 Read "$(path "$D/ok/s")")
recv 1 5000
$(request 1 Read "$(path "$D/ok/sub")")
recv 1 5000" 'allowed_tools: [Read, Write, Edit]' "$OK"
is "$(answer 1 .result.skill_id)" wire \
    "case P9: broker.status is answered beside it"
for i in 2 3 4 5 6; do
	is "$(said $i)" "-32603 file_violation file_violation" \
	    "case P9: a FIFO or socket is refused and blocks nobody ($i)"
done
[ -p "$D/ok/p" ]
ok $? "case P9: the FIFO is still there"
is "$(said 7)" "-32000 is_a_directory -" "a directory is is_a_directory"

# P13: whether something exists is not told
mkdir -p "$D/private/dir"
ln -s /etc/passwd "$D/private/link"
ln -s nothing "$D/private/gone"
mkfifo "$D/private/fifo"
lines=
for p in present absent dir dir/absent present/x absent/x link gone fifo \
    absent/../present; do
	lines="$lines
Read $(path "$D/private/$p")"
done
for p in present absent dir link gone fifo absent/x; do
	for m in create overwrite append; do
		lines="$lines
Write {\"path\":\"$D/private/$p\",\"body\":\"x\",\"mode\":\"$m\"}"
	done
	lines="$lines
Edit {\"path\":\"$D/private/$p\",\"old\":\"MARKER\",\"new\":\"y\"}"
done
calls "$lines" 'allowed_tools: [Read, Write, Edit]' "$OK"
n=$(printf '%s\n' "$lines" | grep -c .)
is "$(grep -c '"id":' "$T/out")" "$n" "case P13: every call is answered"
is "$(sed 's/^1 //; s/,"id":[0-9]*//; s/"tool":"[A-Za-z]*"/"tool":"-"/' "$T/out" |
    sort -u | wc -l)" 1 "case P13: all answers are the same bytes"
is "$(said 1)" "-32603 file_violation file_violation" "case P13: file_violation"
is "$(count skill.tool_denied)" "$n" "case P13: one row for each"
is "$(cat "$D/private/present")" MARKER-present "case P13: nothing was changed"
is "$(find "$D/private" | wc -l)" 7 "case P13: nothing was made"

# P15: spellings
calls "Read $(path x.txt)
Read $(path ./f)
Read {\"path\":\"~/f\"}
Read $(path file:///etc/passwd)
Read $(path '')
Read $(path //etc/passwd)
Read $(path "$D/ok/../ok/f")
Read $(path "$D/ok/none/../f")
Read $(path "/$D//ok/./f")
Read $(path "$D/ok/../private/present")
Read $(path "$D/ok/f/")
Read $(path "$D/ok/f/../f")" 'allowed_tools: [Read]' "$OK"
for i in 1 2 3 4 5; do
	is "$(said $i)" "-32602 Invalid params -" \
	    "case P15: a spelling that is not absolute is -32602 ($i)"
done
is "$(said 6)" "-32603 file_violation file_violation" \
    "case P15: //etc/passwd is refused"
is "$(rows skill.tool_denied '| .violation' | head -n 1)" '"/etc/passwd"' \
    "case P15: as /etc/passwd"
for i in 7 8 9 12; do
	is "$(answer $i .result.body)" hello "case P15: a way there and back ($i)"
done
is "$(said 10)" "-32603 file_violation file_violation" \
    "case P15: dot-dot out of the grant is refused"
is "$(said 11)" "-32000 not_found -" "a file with a slash behind is not found"
is "$(result rejected)" 5 "case P15: the five count as rejected"

# G20: `?` and classes
mkdir "$D/g" "$D/g/stab"
for f in sta star stab/x é; do
	echo x >"$D/g/$f"
done
calls "Read $(path "$D/g/sta")
Read $(path "$D/g/star")
Read $(path "$D/g/sta/")
Read $(path "$D/g/stab/x")
Read $(path "$D/g/é")" 'allowed_tools: [Read]' \
    "x-allowed-files: [\"$D/g/sta?\", \"$D/g/?\", \"$D/g/stab[!a]x\", \"$D/g/stab[.-0]x\"]"
is "$(said 1)" "-32603 file_violation file_violation" "case G20: sta? not on sta"
is "$(said 2)" ok "case G20: sta? on star"
is "$(said 3)" "-32603 file_violation file_violation" "case G20: sta? not on sta/"
is "$(said 4)" "-32603 file_violation file_violation" \
    "case G20: neither ? nor a class matches a slash"
is "$(said 5)" ok "case G20: ? is one code point of two bytes"

# .git and .ssh want to be spelled
mkdir "$D/ok/.git" "$D/ok/.ssh" "$D/ok/.dot"
echo x | tee "$D/ok/.git/c" "$D/ok/.ssh/c" >"$D/ok/.dot/c"
calls "Read $(path "$D/ok/.git/c")
Read $(path "$D/ok/.ssh/c")
Read $(path "$D/ok/.dot/c")" 'allowed_tools: [Read]' "$OK" 
is "$(said 1) $(said 2) $(said 3)" \
    "-32603 file_violation file_violation -32603 file_violation file_violation ok" \
    ".git and .ssh are not meant by **, other dots are"
calls "Read $(path "$D/ok/.git/c")" 'allowed_tools: [Read]' \
    "x-allowed-files: [\"$D/ok/.git/**\"]"
is "$(said 1)" ok ".git is meant when it is spelled"

# nothing listed, nothing granted
for list in '' 'x-allowed-files: []'; do
	calls "Read $(path "$D/ok/f")" 'allowed_tools: [Read]' "$list"
	is "$(said 1)" "-32603 file_violation file_violation" \
	    "no file is granted by ${list:-a missing list}"
done
in_skill 'exit 0' 'allowed_tools:'
is "$RC" 6 "a key without a value is no list of tools"
unlike "$ERR" 'panic|signal' "and an error of the file"

# --- every refusal has its code and its row ---

printf 'x\n' >"$D/ok/h1"
ln "$D/ok/h1" "$D/ok/h2"
lines="Nonsense {}
Bash {\"cmd\":\"id\"}
Grep {\"pattern\":\"x\"}
Read $(path "$D/private/present")
Read $(path /proc/self/environ)
Write {\"body\":\"x\",\"path\":\"$D/ok/h1\"}
MemoryRead {\"path\":\"memories/no\"}"
calls "$lines" 'allowed_tools: [Read, Write, Bash, MemoryRead]' \
    'disallowed_tools: [Bash]' \
    "x-allowed-files: [\"$D/ok/**\", \"/proc/**\"]" \
    'allowed_memory_scopes: ["memories/yes/**"]'
got=
for i in 1 2 3 4 5 6 7; do
	got="$got$(said $i)
"
done
is "$(printf '%s' "$got" | cut -d ' ' -f 1 | sort -u)" -32603 \
    "acceptance 17: every refusal is -32603"
is "$(printf '%s' "$got" | cut -d ' ' -f 2-)" \
    "unknown_tool unknown_tool
tool_not_allowed tool_in_disallowed_tools
tool_not_allowed tool_not_in_allowed_tools
file_violation file_violation
file_violation protected
file_violation hard_link
scope_violation scope_violation" "acceptance 17: with class and reason"
is "$(rows skill.tool_denied '| .reason' | tr -d '"')" \
    "$(printf '%s' "$got" | cut -d ' ' -f 3)" \
    "acceptance 15: each violation has one row, in order, with its reason"
is "$(rows skill.tool_denied '| .attempted_args_hash' | tr -d '"')" \
    "$(printf '%s\n' "$lines" | sed 's/^[^ ]* //' |
	while read -r args; do
		printf '%s' "$args" | sha256sum | cut -d ' ' -f 1
	done)" "acceptance 15: with the hash of the canonical arguments"
is "$(rows skill.tool_denied '| .trace_id' | sort -u)" \
    "$(rows skill.invoked_started '| .trace_id')" \
    "acceptance 15: with the trace id"
is "$(result denied) $(result calls)" "7 7" "acceptance 15: and is counted"
is "$(answer 4 '.error.data.hint | test("x-allowed-files")')" true \
    "the hint says what the author could change"

# A131: line breaks stay inside
calls "Read {\"path\":\"$D/x\\n{\\\"kind\\\":\\\"skill.invoked_completed\\\"}\"}
Read\\n{\\\"kind\\\":\\\"skill.timeout\\\"} {}" 'allowed_tools: [Read]' "$OK"
is "$(said 1) $(said 2)" \
    "-32603 file_violation file_violation -32603 unknown_tool unknown_tool" \
    "case A131: names with line breaks are refused like others"
is "$(segment | wc -l) $(count skill.invoked_completed) $(count skill.timeout)" \
    "4 1 0" "case A131: four physical rows, none is forged"
is "$(segment | jq -r .kind | tr '\n' ' ')" \
    "skill.invoked_started skill.tool_denied skill.tool_denied skill.invoked_completed " \
    "case A131: and all are JSON"
is "$(rows skill.tool_denied '| .violation // empty')" \
    "\"$D/x\\n{\\\"kind\\\":\\\"skill.invoked_completed\\\"}\"" \
    "case A131: the break is escaped in the string"

# --- the bytes ---

printf 'a\303\251\342\202\254\360\235\204\236z' >"$D/ok/utf8"
printf 'a\000b\377' >"$D/ok/bin"
printf 'a\000b' >"$D/ok/nul"
: >"$D/ok/empty"
r="Read {\"path\":\"$D/ok"
calls "$r/f\"}
$r/f\",\"offset\":1,\"limit\":3}
$r/f\",\"offset\":6}
$r/f\",\"offset\":600,\"limit\":5}
$r/empty\"}
$r/bin\"}
$r/utf8\"}
$r/utf8\",\"limit\":2}
$r/utf8\",\"limit\":5}
$r/utf8\",\"limit\":9}
$r/utf8\",\"offset\":2,\"limit\":1}
$r/utf8\",\"limit\":10}
$r/utf8\",\"offset\":1}
$r/nul\"}" 'allowed_tools: [Read]' "$OK"
is "$(answer 1 '.result | "\(.body)\(.encoding) \(.size) \(.truncated) \(.content_hash)"')" \
    "hello
utf-8 6 false $(sha "$D/ok/f")" "a whole file"
is "$(answer 2 '.result | "\(.body) \(.size) \(.truncated) \(.content_hash)"')" \
    "ell 6 true $(sha "$D/ok/f")" \
    "offset and limit count bytes; the hash is of the whole file"
is "$(answer 3 '.result | "[\(.body)] \(.size) \(.truncated)"')" "[] 6 false" \
    "from the very end"
is "$(answer 4 '.result | "[\(.body)] \(.size) \(.truncated)"')" "[] 6 false" \
    "from beyond the end"
is "$(answer 5 '.result | "[\(.body)] \(.encoding) \(.size) \(.truncated) \(.content_hash)"')" \
    "[] utf-8 0 false $(sha "$D/ok/empty")" "an empty file"
is "$(answer 6 '.result | "\(.body) \(.encoding) \(.size) \(.content_hash)"')" \
    "YQBi/w== base64 4 $(sha "$D/ok/bin")" "bytes that are no text are base64"
is "$(answer 7 '.result | "\(.body) \(.truncated)"')" "aé€𝄞z false" "UTF-8"
is "$(answer 8 '.result | "\(.body) \(.encoding) \(.truncated)"')" \
    "a utf-8 true" "a limit within a character of two bytes leaves it out"
is "$(answer 9 '.result | "\(.body) \(.truncated)"')" "aé true" \
    "within one of three bytes"
is "$(answer 10 '.result | "\(.body) \(.truncated)"')" "aé€ true" \
    "within one of four bytes"
is "$(answer 11 '.result | "\(.body) \(.encoding)"')" "qQ== base64" \
    "the middle of a character alone is bytes"
is "$(answer 12 '.result | "\(.body) \(.truncated)"')" "aé€𝄞 true" \
    "right behind a character"
is "$(answer 13 '.result | "\(.body) \(.truncated)"')" "é€𝄞z false" \
    "offset within text"
is "$(answer 14 '.result | "\(.body) \(.encoding) \(.size)"')" "YQBi base64 3" \
    "a NUL makes text bytes: strict readers of JSON take none"
in_skill "cyberos skill call --raw body Read path=$D/ok/nul | od -An -tx1" \
    'allowed_tools: [Read]' "$OK"
is "$OUT" " 61 00 62" "so that our own client reads such a file"

calls "Read {}
Read []
Read {\"path\":5}
Read {\"path\":null}
$r/f\",\"offset\":-1}
$r/f\",\"limit\":0}
$r/f\",\"limit\":1.5}
$r/f\",\"offset\":\"1\"}
$r/f\",\"offst\":1}
$r/f\",\"PATH\":\"/etc/passwd\"}
$r/f\",\"limit\":1.0}
$r/f\",\"limit\":9007199254740992}
$r/absent\"}
$r/absent/x\"}" 'allowed_tools: [Read]' "$OK"
for i in 1 2 3 4 5 6 7 8 9 10; do
	is "$(said $i)" "-32602 Invalid params -" "bad arguments are -32602 ($i)"
done
is "$(answer 1 .error.data.detail)" "path: is missing" "and say which and why"
is "$(answer 9 .error.data.detail)" "offst: is not an argument of this tool" \
    "also for a name that is mistyped"
is "$(said 11) $(said 12)" "ok ok" "1.0 is an integer, and a large limit is fine"
is "$(said 13) $(said 14)" "-32000 not_found - -32000 not_found -" \
    "what is granted and absent is not_found"
is "$(rows skill.tool_call_completed '| select(.outcome == "error") | .error_message' | sort -u)" \
    '"not_found"' "with the word in the row"
is "$(count skill.tool_denied)" 0 "and is no refusal"

if is_root; then
	ok 0 "root reads what it likes"
	mknod "$D/ok/null" c 1 3 2>/dev/null
	if [ -c "$D/ok/null" ]; then
		calls "Read $(path "$D/ok/null")
Write {\"path\":\"$D/ok/null\",\"body\":\"x\"}" \
		    'allowed_tools: [Read, Write]' "$OK"
		is "$(said 1) $(said 2)" \
		    "-32603 file_violation file_violation -32603 file_violation file_violation" \
		    "a device in a granted directory is refused"
		[ -c "$D/ok/null" ]
		ok $? "and left alone"
	else
		skip "a device in a granted directory" "no mknod here"
	fi
else
	cp "$D/ok/f" "$D/ok/closed"
	chmod 0 "$D/ok/closed"
	mkdir "$D/ok/shut"
	chmod 0 "$D/ok/shut"
	calls "Read $(path "$D/ok/closed")
Read $(path "$D/ok/shut/x")" 'allowed_tools: [Read]' "$OK"
	is "$(said 1) $(said 2)" "-32000 permission - -32000 permission -" \
	    "what the broker may not read is permission"
	chmod 700 "$D/ok/shut"
fi

# Sizes around the places where something changes: 64 KiB goes to the worker,
# above 16 MiB there is no hash, and no answer is larger than 16 MiB.
yes 0123456789abcde | head -c 65536 >"$D/ok/64k"
cp "$D/ok/64k" "$D/ok/64k1"
printf x >>"$D/ok/64k1"
yes 0123456789abcde | head -c 16777216 >"$D/ok/16m"
cp "$D/ok/16m" "$D/ok/16m1"
printf x >>"$D/ok/16m1"
head -c 3000000 /dev/urandom >"$D/ok/random"
in_skill "
for f in 64k 64k1 16m 16m1 random; do
	cyberos skill call Read path=$D/ok/\$f >/tmp/a || exit 1
	cyberos skill call --raw body Read path=$D/ok/\$f >/tmp/b
	set -- \$(wc -c </tmp/b) \$(sha256sum </tmp/b)
	echo \$f \$1 \$2 \$(tail -c 200 /tmp/a | tr ',}' '\n\n' |
	    grep -E 'content_hash|size|truncated' | sed 's/.*://')
done
cyberos skill call Read path=$D/ok/16m1 offset=16777210 limit=100
cyberos skill call Read path=$D/ok/16m1 offset=16777300" \
    'allowed_tools: [Read]' "$OK"
is "$RC" 0 "large files are read"
line() { printf '%s\n' "$OUT" | sed -n "$1p"; }
for f in 64k 64k1 random; do
	is "$(printf '%s\n' "$OUT" | grep "^$f ")" \
	    "$f $(wc -c <"$D/ok/$f") $(sha "$D/ok/$f") \"$(sha "$D/ok/$f")\" $(wc -c <"$D/ok/$f") false" \
	    "$f: all of it, byte for byte"
done
# shellcheck disable=SC2046 # words of a line
set -- $(line 3)
[ "$2" -lt 16777216 ] && [ "$2" -gt 15000000 ]
ok $? "16 MiB of text are cut to fit an answer ($2 bytes)"
is "$3" "$(head -c "$2" "$D/ok/16m" | sha256sum | cut -d ' ' -f 1)" \
    "and what is left is its beginning"
is "$4 $5 $6" "\"$(sha "$D/ok/16m")\" 16777216 true" \
    "16 MiB: hash of the whole, truncated"
# shellcheck disable=SC2046
set -- $(line 4)
is "$4 $5 $6" "null 16777217 true" "above 16 MiB content_hash is null"
is "$(line 6)" '{"body":"abcde\nx","encoding":"utf-8","content_hash":null,"size":16777217,"truncated":false}' \
    "the end of a file above 16 MiB is read by offset"
is "$(line 7)" '{"body":"","encoding":"utf-8","content_hash":null,"size":16777217,"truncated":false}' \
    "and beyond it there is nothing"
like "$ERR" '\[warn\].*an answer of Read was cut' "a cut answer is logged"
rm -f "$D/ok/16m" "$D/ok/16m1" "$D/ok/random"

# A file that grows while it is read: the hash is of what was read.
(
	while [ ! -e "$T/stop" ]; do
		head -c 8000 "$D/ok/64k" >>"$D/ok/grow"
		[ "$(wc -c <"$D/ok/grow")" -lt 2000000 ] || : >"$D/ok/grow"
	done
) &
writer=$!
in_skill "
n=0
while [ \$n -lt 30 ]; do
	a=\$(cyberos skill call Read path=$D/ok/grow) || echo failed
	printf '%s\n' \"\$a\" | grep -q '\"truncated\":false' || echo cut
	n=\$((n + 1))
done
echo \$n" 'allowed_tools: [Read]' "$OK"
touch "$T/stop"
wait "$writer"
[ -s "$D/ok/grow" ]
ok $? "a file grows while it is read"
is "$OUT" 30 "a file that grows can be read all the time"

done_testing
