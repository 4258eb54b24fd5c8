#!/bin/sh
# Glob, Grep, MemorySearch: only what is granted is found, nothing tells of the
# rest, no pattern and no tree keeps anybody waiting.
# shellcheck source=t/lib.sh
. t/lib.sh
# shellcheck source=t/live.sh
. t/live.sh

D=$T/d
F=file_violation
S=scope_violation
GRANT='allowed_tools: [Glob, Grep, MemorySearch, Read, Write]'
mkdir -p "$D/t/sub" "$D/out" "$D/ok/a/b"

glob() { printf 'Glob {"pattern":"%s"%s}\n' "$1" "${2:+,\"root\":\"$2\"}"; }
# grep_ PATTERN [PATH [MORE]]
grep_() {
	printf 'Grep {"pattern":"%s"%s%s}\n' "$1" "${2:+,\"path\":\"$2\"}" \
	    "${3:+,$3}"
}
# full CALLS [YAML-LINE...]: calls whose answers may be long
full() {
	t_calls=$1
	shift
	skill wire "$@" <"$WIRE/main"
	lines "$t_calls"
	sed 's/^recv 1/full 1/' "$T/commands" >"$T/full"
	broker_run wire <"$T/full"
}
# found N: the paths of the Nth answer, in short
found() {
	answer "$1" 'if .error then .error.message else
	    [(.result.paths // [.result.matches[] | "\(.path):\(.line)"])[] |
	    ltrimstr("'"$D"'/")] | join(" ") end'
}

# --- case T32: what Read refuses is not found ---

echo 'plain MARKER' >"$D/t/a.txt"
echo 'MARKER in a key' >"$D/t/k.pem"
echo 'MARKER below' >"$D/t/sub/a.txt"
echo 'MARKER outside' >"$D/out/o.txt"
ln -s "$D/out" "$D/t/sub2"
ln -s "$D/out/o.txt" "$D/t/link.txt"
ln -s "$D/t/k.pem" "$D/t/key.txt"
mkfifo "$D/t/fifo.txt"
mkdir "$D/t/dir.txt"
before=$(find "$D" | sort | sha256sum)
calls "$(grep_ MARKER "$D/t")
$(glob '**' "$D/t")
$(glob '**')
$(grep_ MARKER)
$(grep_ MARKER "$D")
$(grep_ MARKER "$D/t/a.txt")
$(glob "$D/**")
$(grep_ MARKER '' '"glob":"*.pem"')
$(grep_ MARKER "$D/t" '"limit":1')
$(glob '*.txt' "$D/t/sub2")
$(grep_ MARKER "$D/t/k.pem")
$(grep_ MARKER "$D/t/sub")
$(grep_ MARKER "$D/out")
$(glob '*' "$D/none")
$(glob "$D/out/*")
$(grep_ MARKER "$D/t/link.txt")" "$GRANT" "x-allowed-files: [\"$D/t/*.txt\"]"
for i in 1 4 5 6; do
	is "$(found $i)" t/a.txt:1 "case T32: Grep shows a line of the granted file ($i)"
done
for i in 2 3 7; do
	is "$(found $i)" t/a.txt "case T32: Glob shows the granted file ($i)"
done
is "$(found 8)" "" "case T32: asked for by glob, the others are not there"
is "$(answer 1 '.result | keys | join(" ")') $(answer 9 .result.truncated)" \
    "matches truncated false" "case T32: no count and no truncated tells of them"
for i in 10 11 12 13 14 15 16; do
	is "$(said $i)" "-32603 $F $F" "a root without anything granted is refused ($i)"
done
is "$(answer 13 'del(.id, .error.data.tool)')" "$(answer 14 'del(.id, .error.data.tool)')" \
    "whether it exists or not"
is "$(rows skill.tool_denied '| .violation' | tr -d '"' | sed "s|$D/||" | tr '\n' ' ')" \
    "out t/k.pem t/sub out none out out/o.txt " "each has its row, with the real name"
is "$(count skill.tool_denied) $(count skill.tool_call_started)" "7 9" \
    "case T32: no row for what was passed over"
unlike "$OUT" 'key|below|outside|pem' "case T32: nothing else is in any answer"
is "$(find "$D" | sort | sha256sum)" "$before" "and nothing has changed"
verify_store

# --- nothing granted, no tool granted ---

calls "$(glob '**')
$(grep_ x)
MemorySearch {\"query\":\"x\"}" "$GRANT"
is "$(said 1) $(said 2) $(said 3)" "-32603 $F $F -32603 $F $F -32603 $S $S" \
    "without a grant every search is refused"
is "$(count skill.tool_denied) $(count skill.tool_call_started)" "3 0" "with a row each"
calls "$(grep_ MARKER "$D/t")" 'allowed_tools: [Read]' \
    "x-allowed-files: [\"$D/t/*.txt\"]"
refused tool_not_in_allowed_tools Grep

# --- the operator's ceiling ---

printf 'ceiling: {files: ["%s/ok/**"], memory_scopes: ["memories/ok/**"]}\n' "$D" >"$T/c.yaml"
echo 'MARKER' >"$D/ok/f"
mkdir -m 700 "$STORE" 2>/dev/null
mkdir -p "$STORE/memories/ok" "$STORE/memories/hr"
echo 'first needle' >"$STORE/memories/ok/a"
echo 'needle of hr' >"$STORE/memories/hr/b"
lines "$(grep_ MARKER)
$(grep_ MARKER "$D/t")
MemorySearch {\"query\":\"needle\"}
MemorySearch {\"query\":\"needle\",\"path\":\"memories/hr\"}"
skill wire "$GRANT" "x-allowed-files: [\"$D/**\"]" \
    'allowed_memory_scopes: ["memories/**"]' <"$WIRE/main"
broker_run --config "$T/c.yaml" wire <"$T/commands"
is "$(found 1)" ok/f:1 "the ceiling bounds Grep"
is "$(said 2)" "-32603 $F ceiling" "and its root, with its row"
is "$(found 3)" memories/ok/a:1 "the ceiling bounds MemorySearch"
is "$(said 4)" "-32603 $S ceiling" "and its path"
is "$(rows skill.tool_denied '| .reason' | sort | uniq -c | sed 's/^ *//')" '2 "ceiling"' "the rows say so"
calls "$(grep_ MARKER '' '"limit":9')" "$GRANT" "x-allowed-files: [\"$D/**\"]"
is "$(found 1)" "ok/f:1 out/o.txt:1 t/a.txt:1 t/k.pem:1 t/sub/a.txt:1" \
    "without it all is found, sorted, links and FIFOs passed over"

# --- protected places ---

mkdir -p "$D/ok/.cyberos"
echo MARKER >"$D/ok/.cyberos/x"
mkdir -p "$D/ok/.git" "$D/ok/a/.ssh"
echo MARKER >"$D/ok/.git/config"
echo MARKER >"$D/ok/a/.ssh/id"
grep -rq hseq "$STORE/audit"
ok $? "the store has something to be found"
calls "$(grep_ 'hse[q]' "$T" '"limit":5')
$(glob '**' "$STORE")
$(glob '**' "$D/ok/.cyberos")
$(grep_ MARKER "$D/ok")
$(glob '**/.git/*' "$D/ok")
$(grep_ . /proc/self)" "$GRANT" "x-allowed-files: [\"/**\"]"
is "$(found 1)" "" "the store lies in the grant, and nothing of it is found"
is "$(said 2) $(said 3) $(said 6)" "-32603 $F protected -32603 $F protected -32603 $F protected" \
    "a protected root is refused"
is "$(found 4) $(found 5)" "ok/f:1 " ".cyberos, .git and .ssh are passed over"
[ "$(count skill.tool_denied)" -eq 3 ] && [ -s "$D/ok/.cyberos/x" ]
ok $? "a row for each root, none for what lay on the way"
# A file that is protected by its name in a granted directory, and one by inode.
printf 'MARKER-config: 1\n' >"$D/ok/result.json"
ln "$T/c.yaml" "$D/ok/alias"
lines "$(grep_ 'MARKER|ceiling' "$D/ok")"
skill wire "$GRANT" "x-allowed-files: [\"$D/**\"]" <"$WIRE/main"
"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" --config "$T/c.yaml" \
    --result "$D/ok/result.json" wire <"$T/commands" >"$T/out" 2>"$T/err"
is "$(found 1)" ok/f:1 "nor is a file that is protected by its name or its inode"
rm "$D/ok/alias" "$D/ok/result.json"

# Other names of protected places, and of one that is not.
if can_mount; then
	mkdir "$D/ok/m" "$D/ok/n"
	: >"$D/ok/mf"
	lines "$(grep_ 'MARKER|ceiling|hse[q]' "$D/ok")
$(grep_ 'hse[q]' "$D/ok/m")
$(grep_ ceiling "$D/ok/mf")
$(glob '**' "$D/ok")"
	skill wire "$GRANT" "x-allowed-files: [\"$D/**\"]" <"$WIRE/main"
	# shellcheck disable=SC2016 # for the inner shell
	mounted 'mount --bind "$STORE/audit" "$D/ok/m" &&
	    mount --bind "$T/c.yaml" "$D/ok/mf" && mount --bind "$D/out" "$D/ok/n"' \
	    true --config "$T/c.yaml"
	if [ $? -ne 99 ]; then
		is "$(found 1)" "ok/f:1 ok/n/o.txt:1" \
		    "a mount of a protected place or file is passed over, another is not"
		is "$(said 2) $(said 3)" "-32603 $F protected -32603 $F protected" \
		    "and refused as a root"
		is "$(found 4)" "ok/f ok/n/o.txt" "and not listed"
	else
		skip 'mounts' 'cannot mount here'
	fi
	rm -r "$D/ok/m" "$D/ok/n" "$D/ok/mf"
else
	# What cannot be read is counted if it is granted, and only then.
	echo MARKER >"$D/ok/closed"
	echo MARKER >"$D/out/closed"
	mkdir "$D/ok/dark"
	chmod 000 "$D/ok/closed" "$D/out/closed" "$D/ok/dark" "$D/ok/.cyberos/x"
	calls "$(grep_ MARKER)
$(grep_ MARKER "$D")" "$GRANT" "x-allowed-files: [\"$D/ok/**\"]"
	is "$(found 1) $(answer 1 .result.incomplete) $(answer 2 .result.incomplete)" \
	    "ok/f:1 2 2" "what is granted and cannot be read is counted, nothing else"
	chmod 700 "$D/ok/closed" "$D/out/closed" "$D/ok/dark"
	rm -r "$D/ok/closed" "$D/out/closed" "$D/ok/dark"
fi

# --- case M24, M22, M26: memory ---

mkdir "$STORE/memories/ok/.hidden"
echo needle >"$STORE/memories/ok/.hidden/x"
echo needle >"$STORE/memories/ok/.x"
ln -s "$STORE/memories/hr" "$STORE/memories/ok/l"
ln -s /etc/passwd "$STORE/memories/ok/p"
ln "$STORE/memories/hr/b" "$STORE/memories/ok/hard"
mem() { printf 'MemorySearch {"query":"%s"%s}\n' "$1" "${2:+,$2}"; }
calls "$(mem needle)
$(mem needle '"path":"memories/ok/../hr/b"')
$(mem needle '"path":"memories/hr/**"')
$(mem needle '"path":"**"')
$(mem NEEDLE '"ignore_case":true,"path":"memories/ok"')
$(mem 'n.*e$' '"regex":true')
$(mem 'n.*e$')
$(mem root '"path":"memories/ok/p"')
$(mem needle '"path":"memories/ok/none"')
$(mem needle '"path":"audit"')
$(mem needle '"path":"../memories/hr"')
$(mem '(' '"regex":true')" "$GRANT" 'allowed_memory_scopes: ["memories/ok/**"]'
is "$(answer 1 '.result | tostring')" \
    '{"matches":[{"path":"memories/ok/a","line":1,"text":"first needle"}],"total":1,"truncated":false}' \
    "case M24: only what is in scope, and total and truncated say no more"
is "$(said 2) $(said 3)" "-32603 $S $S -32603 $S $S" "case M22: out of scope by .. or by glob is refused"
is "$(rows skill.tool_denied '| .violation' | head -n 2 | tr -d '"' | tr '\n' ' ')" \
    "memories/hr/b memories/hr/** " "case M22: its row has the canonical path"
is "$(found 4) $(found 5) $(found 6)" "memories/ok/a:1 memories/ok/a:1 memories/ok/a:1" \
    "by glob, by path, by expression"
is "$(answer 7 .result.total) $(answer 8 .result.total) $(answer 9 .result.total)" "0 0 0" \
    "case M26: a text is no expression; links and what is not there hold nothing"
is "$(said 10) $(said 11)" "-32603 $S $S -32603 $S $S" "there is no other memory"
is "$(said 12)" "-32000 invalid_pattern -" "an expression that is none"
like "$(answer 12 .error.data.detail)" '\(byte [0-9]+\)$' "and what is wrong with it, and where"
unlike "$OUT" 'of hr|root:|hidden|hard' "case M24: nothing in the answers mentions hr"
is "$(cat "$STORE/memories/hr/b")" 'needle of hr' "and it is as it was"
for i in 1 2 3 4 5; do echo "needle $i" >>"$STORE/memories/ok/many"; done
calls "$(mem needle '"limit":2')" "$GRANT" 'allowed_memory_scopes: ["memories/ok/**"]'
is "$(answer 1 '.result | "\(.matches | length) \(.total) \(.truncated)"')" "2 6 true" \
    "the limit bounds the list, not the total"

# A glob is looked at as a path is.
calls "$(mem needle '"path":"memories/ok/../hr/b*"')
$(mem needle '"path":"memories/hr/b*"')
$(mem needle '"path":"../memories/ok/*"')
$(mem needle '"path":"memories/*/../../../memories/ok/*"')
$(mem needle '"path":"memories/ok/a\\u0001*"')
$(mem needle '"path":"audit/*"')
$(mem needle '"path":"memories/ok/.hidden/*"')
$(mem first '"path":"memories/hr/../ok//./a*"')
$(mem first '"path":"/memories/ok/a*/"')
$(mem first '"path":"memories/h*/../ok"')
$(mem first '"path":"memories/{hr,ok/.}/a*"')
$(mem first '"path":"memories/**/../ok/a*"')
$(mem first "\"path\":\"memories/ok/a$(head -c 1100 /dev/zero | tr '\0' '*')\"")" \
    "$GRANT" 'allowed_memory_scopes: ["memories/ok/**", "a*/*"]'
for i in 1 2 3 4 5 6 7; do
	is "$(said $i)" "-32603 $S $S" "a glob that is no memory path, or out of scope ($i)"
done
is "$(rows skill.tool_denied '| .violation' | tr -d '"' | tr '\n' ' ')" \
    'memories/hr/b* memories/hr/b* ../memories/ok/* ../memories/ok/* memories/ok/a\u0001* audit/* memories/ok/.hidden/* ' \
    "is refused with a row in the canonical form"
is "$(found 8) $(found 9) $(found 10)" "memories/ok/a:1 memories/ok/a:1 memories/ok/a:1" \
    "others are resolved first"
for i in 11 12 13; do
	is "$(answer $i .error.code)" -32602 "what cannot be resolved is no glob ($i)"
done
is "$(count skill.tool_denied) $(result rejected)" "7 3" "and counts as such"

{ head -c 20000 /dev/zero | tr '\0' y; echo ' needle7'; } >"$STORE/memories/ok/long"
cp "$STORE/memories/ok/long" "$STORE/memories/hr/long"
full "$(mem 'needle[7]' '"regex":true')
$(mem needle7)
$(mem 'needle[7]' '"regex":true,"path":"memories/ok/a"')" \
    "$GRANT" 'allowed_memory_scopes: ["memories/ok/**"]'
is "$(answer 1 '.result | "\(.total) \(.truncated) \(.incomplete)"')" "0 false 1" \
    "an expression does not see all of a long line, and the answer says so"
is "$(found 2) $(answer 2 .result.incomplete) $(answer 3 .result.incomplete)" \
    "memories/ok/long:1 null null" "where nothing was missed it says nothing"
if ! is_root; then
	chmod 000 "$STORE/memories/ok/a"
	calls "$(mem first)" "$GRANT" 'allowed_memory_scopes: ["memories/ok/**"]'
	is "$(answer 1 .result.incomplete)" 1 "a memory file that cannot be read is counted"
	chmod 600 "$STORE/memories/ok/a"
fi

# --- patterns ---

cat >"$D/ok/p.sh" <<EOF
#!/bin/sh
touch $D/ok/PWNED
EOF
chmod 755 "$D/ok/p.sh"
printf 'aaa\nBBB x\nccc --help\n\nddd\r\n' >"$D/ok/l"
printf 'no\377utf needle8 \303\251\n' >"$D/ok/bad"
printf 'needle8\n\0needle8\n' >"$D/ok/bin"
{ head -c 20000 /dev/zero | tr '\0' y; echo ' needle9'; } >"$D/ok/long"
full "$(grep_ "--pre=$D/ok/p.sh" "$D/ok")
$(grep_ '-f/etc/passwd' "$D/ok")
$(grep_ '--help' "$D/ok/l")
$(grep_ -e "$D/ok/l")
$(glob '-rf' "$D/ok")
$(grep_ '^B+ ' "$D/ok/l" '"context":1')
$(grep_ 'bbb X' "$D/ok/l" '"ignore_case":true')
$(grep_ '^$' "$D/ok/l")
$(grep_ 'd$' "$D/ok/l")
$(grep_ 'needle8' "$D/ok")
$(grep_ 'utf.needle8 .$' "$D/ok")
$(grep_ needle9 "$D/ok")
$(grep_ 'needle[9]' "$D/ok")
$(grep_ y "$D/ok/long")
$(grep_ '(' "$D/ok")
$(grep_ '\\\\C' "$D/ok")
$(grep_ x "$D/ok" '"glob":"[a"')
$(grep_ x relative)
$(glob '../*' "$D/ok")" "$GRANT" "x-allowed-files: [\"$D/ok/**\"]"
is "$(found 1) $(found 2) $(found 3) $(found 4) $(found 5)" "  ok/l:3  " \
    "case T36: patterns that begin with a dash are patterns"
unlike "$OUT" '[Uu]sage|root:x' "case T36: no help text, no password file"
[ ! -e "$D/ok/PWNED" ]
ok $? "case T36: and nothing was run"
is "$(answer 6 '.result.matches[0] | tostring' | sed "s|$D/||")" \
    '{"path":"ok/l","line":2,"column":1,"text":"BBB x","before":["aaa"],"after":["ccc --help"]}' \
    "line, column, text and context"
is "$(found 7) $(found 8) $(found 9)" "ok/l:2 ok/l:4 ok/l:5" \
    "case folded, an empty line, a line that ends in CRLF"
is "$(found 10) $(found 11)" "ok/bad:1 ok/bad:1" \
    "bytes that are no UTF-8 hide nothing; binary files are passed over"
is "$(found 12) $(found 13)" "ok/long:1 " "a text is found in a long line"
is "$(answer 13 .result.incomplete) $(answer 14 '.result.matches[0].text | length')" "1 8192" \
    "of which an expression sees 8 KiB, and the answer says and holds no more"
for i in 15 16; do
	is "$(said $i)" "-32000 invalid_pattern -" "an expression that is none ($i)"
done
for i in 17 18 19; do
	is "$(answer $i .error.code)" -32602 "an argument that is none ($i)"
done

# What lies too deep, and a context that does not fit, are told.
deep=$D/ok/deep$(printf '/e%.0s' $(seq 205))
mkdir -p "$deep"
echo needle9 >"$deep/f"
{ head -c 70000 /dev/zero | tr '\0' p; echo; echo needle9; echo after; } >"$D/ok/wide"
{ seq 40; echo needle9; seq 5; } >"$D/ok/narrow"
calls "Glob {\"pattern\":\"**/f\",\"root\":\"$D/ok/deep\"}
$(grep_ needle9 "$D/ok/wide" '"context":1')
$(grep_ needle9 "$D/ok/narrow" '"context":100')
$(grep_ needle9 "$D/ok/wide")" "$GRANT" "x-allowed-files: [\"$D/ok/**\"]"
is "$(answer 1 '.result | "\(.paths) \(.incomplete)"')" '[] 1' \
    "Glob says that it did not go into a directory that lies too deep"
is "$(answer 2 '.result | "\(.matches[0].before) \(.matches[0].after[0]) \(.incomplete)"')" \
    '[] after 1' "a line before that does not fit is told of"
is "$(answer 3 '.result | "\(.matches[0].before | length) \(.matches[0].after | length) \(.incomplete)"')" \
    '40 5 null' "the ends of a file cut nothing off"
is "$(answer 4 .result.incomplete)" null "nor what was not asked for"
rm -r "$D/ok/deep" "$D/ok/wide" "$D/ok/narrow"

{ echo needle6; head -c 70000 /dev/zero | tr '\0' '\n'; printf '\0\nneedle6\n'; } >"$D/ok/late"
{ echo needle6; head -c 600000 /dev/zero | tr '\0' '\n'; printf 'needle6\n\0'; } >"$D/ok/later"
{ echo needle6; head -c 70000 /dev/zero; echo needle6; } >"$D/ok/early"
cp "$D/ok/late" "$D/out/late"
cp "$D/ok/late" "$D/ok/early" "$STORE/memories/ok"
calls "$(grep_ needle6 "$D/ok")
$(grep_ needle6 "$D/ok/early")
$(grep_ 'needle[6]' "$D" '"glob":"late"')
$(mem needle6)" "$GRANT" "x-allowed-files: [\"$D/ok/**\"]" \
    'allowed_memory_scopes: ["memories/ok/**"]'
is "$(found 1) $(answer 1 .result.incomplete)" "ok/late:1 ok/later:1 ok/later:600002 2" \
    "a file is searched up to a NUL, and the answer says that it goes on"
is "$(found 2) $(answer 2 .result.incomplete)" " null" \
    "one that is binary from the start is not counted"
is "$(found 3) $(answer 3 .result.incomplete)" "ok/late:1 1" "counted are granted files only"
is "$(found 4) $(answer 4 .result.incomplete)" "memories/ok/late:1 1" "and those of memory"
rm "$D/ok/late" "$D/ok/later" "$D/ok/early" "$D/out/late" "$STORE/memories/ok/late" \
    "$STORE/memories/ok/early"

# --- names with control characters ---

mkdir "$D/ok/odd"
nl='
'
echo needle5 >"$D/ok/odd/new${nl}line.txt"
echo needle5 >"$D/ok/odd/$(printf 'c1\302\205.txt')"
echo needle5 >"$D/ok/odd/plain.txt"
calls "$(glob '*' "$D/ok/odd")
$(glob 'new\\nline.*' "$D/ok/odd")
$(glob "$D/ok/odd/new\\\\nline.txt")
$(grep_ needle5 "$D/ok" '"glob":"new\\nline.txt"')
$(grep_ needle5 "$D/ok" '"glob":"odd/c1\\u0085.*"')
$(grep_ needle5 "$D/ok" '"glob":"{a,/b}"')" "$GRANT" "x-allowed-files: [\"$D/ok/**\"]"
is "$(answer 1 '.result.paths | length') $(answer 2 '.result.paths | length') $(answer 3 '.result.paths | length')" \
    "3 1 1" "a pattern may name a file with a line feed in its name"
is "$(answer 4 '.result.matches[].path') $(answer 5 '.result.matches | length')" \
    "$D/ok/odd/new${nl}line.txt 1" "and so may the glob of Grep, with any control character"
unlike "$(answer 6 .error.data.detail)" memory "what is refused in it is not told in words of memory"
rm -r "$D/ok/odd"

# --- globs, relative and absolute ---

touch "$D/ok/a/x.c" "$D/ok/a/b/y.c" "$D/ok/a.c"
calls "$(glob '*.c')
$(glob '**/*.c')
$(glob "$D/ok/a/**/*.c")
$(glob 'a/**' "$D/ok")
$(glob '*.c' "$D/ok/a/b")
$(grep_ '^' '' '"glob":"*.c"')
Glob {\"pattern\":\"**\",\"root\":\"$D\",\"limit\":1}
$(glob '*' "$D/ok/absent")
$(glob "*" "$D/./ok/../ok/a")" "$GRANT" \
    "x-allowed-files: [\"$D/ok/a/**\", \"$D/ok/*.c\", \"$D/t/a.txt\"]"
is "$(found 1)" "ok/a.c ok/a/x.c" "a relative pattern applies below each grant, in the order of bytes"
is "$(found 2) $(found 3)" "ok/a.c ok/a/b/y.c ok/a/x.c ok/a/b/y.c ok/a/x.c" \
    "at any depth, and absolute"
is "$(found 4) $(found 5)" "ok/a/b/y.c ok/a/x.c ok/a/b/y.c" "below a root"
is "$(found 6)" "" "empty files have no lines"
is "$(found 7) $(answer 7 .result.truncated)" "ok/a.c true" "limited, and it says so"
is "$(said 8) $(found 9)" "-32603 $F $F ok/a/x.c" "the root is what it really is"

# --- case R38: time ---

{ head -c 60 /dev/zero | tr '\0' a; echo ' '; } >"$D/ok/evil60"
{ head -c 100000 /dev/zero | tr '\0' a; echo ' '; } >"$D/ok/evil"
skill wire "$GRANT" "x-allowed-files: [\"$D/ok/**\"]" <"$WIRE/main"
live_start wire
live_say "open 1"
live_say "open 2"
ask() {
	live_say "send $1 {\"jsonrpc\":\"2.0\",\"id\":$2,\"method\":\"tool.call\",\"params\":{\"tool\":\"$3\",\"args\":$4}}"
}
hear() {
	live_say "recv $1 60000"
	live_wait "\"id\":$2}" || note "no answer $2"
}
heard() {
	grep "\"id\":$1}" "$T/live.out" | sed 's/^[0-9]* //' |
	    jq -r 'if .error then "\(.error.code) \(.error.message)" else "ok" end'
}
n=10
for p in '(a+)+$' '^(a|a)*b' '(.*){1,32000}x' '(a*)*[0-9]'; do
	for f in evil evil60; do
		ask 1 $n Grep "{\"pattern\":\"$p\",\"path\":\"$D/ok/$f\"}"
		live_say "send 2 {\"jsonrpc\":\"2.0\",\"id\":$((n + 50)),\"method\":\"broker.status\"}"
		hear 2 $((n + 50))
		hear 1 $n
		n=$((n + 1))
	done
done
is "$(heard 10)" "-32000 too_complex" "case R38: (a+)+\$ on 100 kB is too_complex"
is "$(heard 14) $(heard 15)" "-32000 invalid_pattern -32000 invalid_pattern" \
    "case R38: a repeat that is too large is invalid_pattern"
is "$(for i in 60 61 62 63 64 65 66 67; do heard $i; done | sort -u)" ok \
    "case R38: broker.status is answered beside them"

# A search that cannot go on keeps no write waiting.
ask 1 20 Grep '{"pattern":"x"}'
hear 1 20
walker=$(live_child cyberos-walk)
like "$walker" '^[0-9]+$' "searches have a worker of their own"
is "$(sed -n 's/^Seccomp:[^0-9]*//p' "/proc/$walker/status")" 2 "with a filter"
kill -STOP "$walker"
ask 1 21 Grep '{"pattern":"x"}'
ask 2 22 Write "{\"path\":\"$D/ok/w\",\"body\":\"written\"}"
hear 2 22
is "$(heard 22) $(cat "$D/ok/w") $(heard 21)" "ok written " \
    "a write goes on while a search hangs"
kill -KILL "$walker"
hear 1 21
is "$(heard 21)" "-32000 io_error" "SIGKILL of its worker is io_error for the search"
ask 1 23 Grep '{"pattern":"written"}'
hear 1 23
is "$(heard 23)" ok "and the next one has a fresh worker"
live_end
is "$(rows skill.tool_call_completed '| select(.error_message == "too_complex") | .outcome' | sort -u)" \
    '"error"' "case R38: recorded as errors"
slowest=$(rows skill.tool_call_completed '| select(.tool_name == "Grep" and .error_message == "too_complex") | .duration_ms' |
    sort -n | tail -n 1)
[ "${slowest:-99999}" -lt 2000 ]
ok $? "case R38: none took long"
note "the slowest took $slowest ms"
verify_store

# --- large answers and large files ---

awk 'BEGIN { for (i = 1; i <= 300000; i++) print "line", i, i % 1000 == 0 ? "hit" : "" }' >"$D/ok/big"
full "$(grep_ hit "$D/ok/big" '"limit":100000,"context":2')
$(grep_ 'line' "$D/ok/big" '"limit":100000,"context":100')
$(grep_ 'h[i]t' "$D/ok/big" '"limit":100000')
$(grep_ ' 2[0-9]*000 h' "$D/ok/big" '"ignore_case":true')" "$GRANT" \
    "x-allowed-files: [\"$D/ok/**\"]"
is "$(answer 1 '.result.matches | map(select(.text == "line \(.line) hit" and
    .before[1] == "line \(.line - 1) " and (.line == 300000 or .after[0] == "line \(.line + 1) "))) | length')" 300 \
    "every hit of a large file, with its number and context"
is "$(answer 3 '[.result.matches[] | select(.text == "line \(.line) hit")] | length')" 300 \
    "an expression finds them as well"
is "$(answer 4 '[.result.matches[].line] | "\(length) \(first) \(last)"')" "111 2000 299000" \
    "and so does one without regard to case"
is "$(answer 2 '.result | .truncated')" true "an answer over the limit is cut, and says so"
size=$(sed -n 2p "$T/out" | wc -c)
[ "$size" -gt 10000000 ] && [ "$size" -le 16777300 ]
ok $? "it fills the 16 MiB and no more"

# --- races: a directory that is exchanged for a link ---

mkdir -p "$D/race/in/sub" "$D/secret/sub"
i=0
while [ $i -lt 40 ]; do
	echo plain >"$D/race/in/sub/f$i"
	echo SECRET >"$D/secret/sub/f$i"
	i=$((i + 1))
done
ln -s "$D/secret" "$D/race/link"
cat >"$T/swap.py" <<'EOF'
import ctypes, os, sys
libc = ctypes.CDLL(None)
a, b = (p.encode() for p in sys.argv[1:3])
parent = os.getppid()
while os.getppid() == parent:
    for i in range(64):
        libc.renameat2(-100, a, -100, b, 2)
EOF
python3 "$T/swap.py" "$D/race/in" "$D/race/link" &
swap=$!
n=0
many=
while [ $n -lt 150 ]; do
	many="$many$(grep_ . '' '"limit":5000')
"
	n=$((n + 1))
done
calls "$many" "$GRANT" "x-allowed-files: [\"$D/race/**\"]"
kill $swap
wait $swap 2>/dev/null
like "$OUT" plain "granted files are found while their directory is exchanged"
unlike "$OUT" SECRET "and never one byte of those behind the link"
is "$(printf '%s\n' "$OUT" | grep -c '"result"')" 150 "every search has its answer"

done_testing
