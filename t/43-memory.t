#!/bin/sh
# MemoryRead and MemoryEmit: scopes, the tree that people can read, the row that
# goes with it, and one tree for each tenant.
# shellcheck source=t/lib.sh
. t/lib.sh
# shellcheck source=t/live.sh
. t/live.sh

GRANT='allowed_tools: [MemoryRead, MemorySearch, MemoryEmit]'
SCOPE='allowed_memory_scopes: ["memories/ok/**"]'
S=scope_violation
TENANT=11111111-2222-4333-8444-555555555555
OTHER=99999999-2222-4333-8444-555555555555

r() { printf 'MemoryRead {"path":"%s"}\n' "$1"; }
# em PATH BODY [KIND]
em() {
	printf 'MemoryEmit {"kind":"%s","path":"%s","body":"%s"}\n' \
	    "${3:-note.added}" "$1" "$2"
}
mem() {
	mkdir -p "$STORE/$(dirname "$1")"
	printf '%s\n' "$2" >"$STORE/$1"
}

mkdir -m 700 "$STORE"
mem memories/ok/a 'inside needle'
mem memories/hr/pay 'MARKER needle'
mem memories/people/pay MARKER

# --- in and out of scope ---

calls "$(r memories/ok/a)
$(r memories/hr/pay)
$(r memories/ok)
$(r memories/ok/none)
$(r memories/hr/none)
$(r memories/okay)" "$GRANT" "$SCOPE"
is "$(answer 1 .result.body)" "inside needle" \
    "acceptance 4: a memory path in scope is read"
is "$(answer 1 '.result | "\(keys | join(" ")) \(.content_hash)"')" \
    "body content_hash encoding $(sha "$STORE/memories/ok/a")" \
    "acceptance 4: with body, encoding and content_hash"
is "$(said 2)" "-32603 $S $S" "acceptance 4: one out of scope is refused"
unlike "$OUT" MARKER "acceptance 4: nothing of it is in the answer"
is "$(said 3) $(said 6)" "-32603 $S $S -32603 $S $S" \
    "acceptance 4: nor is the directory itself, or a like name, in scope"
is "$(said 4) $(said 5)" "-32000 not_found - -32603 $S $S" \
    "what is absent is told in scope only"
is "$(answer 2 'del(.id) | tostring')" "$(answer 5 'del(.id) | tostring')" \
    "present and absent out of scope: the same bytes"
is "$(rows skill.tool_denied '| .violation' | tr -d '"' | tr '\n' ' ')" \
    "memories/hr/pay memories/ok memories/hr/none memories/okay " \
    "acceptance 4: the rows name the paths"

# --- dot-dot (acceptance 5, case M22) ---

calls "$(r memories/ok/../people/pay)
$(r memories/ok/../../memories/people/pay)
$(em memories/ok/../people/pay x)
$(r memories/ok/x/../a)
$(r ../audit/host.json)
$(r memories/../../x)
$(r memories/ok/../../../etc/passwd)" "$GRANT" "$SCOPE"
for i in 1 2 3; do
	is "$(said $i)" "-32603 $S $S" \
	    "acceptance 5: .. does not bypass the scope (case M22, $i)"
done
is "$(rows skill.tool_denied '| .violation' | head -n 3 | sort -u)" \
    '"memories/people/pay"' "case M22: the row has the canonical path"
is "$(answer 4 .result.body)" "inside needle" ".. within the scope is a way"
for i in 5 6 7; do
	is "$(said $i)" "-32603 $S $S" "above the root there is nothing ($i)"
done
is "$(rows skill.tool_denied '| .violation' | tail -n 3 | tr -d '"' | tr '\n' ' ')" \
    "../audit/host.json ../x ../etc/passwd " "and the rows say that they are above"
is "$(cat "$STORE/memories/people/pay")" MARKER "acceptance 5: nothing was written"
is "$(count skill.tool_call_started) $(count skill.tool_denied)" "1 6" \
    "case M22: one denied row each, and nothing started"
# What is refused is never told of by the name of something that is allowed.
long=$(head -c 5000 /dev/zero | tr '\0' a)
calls "$(r memories/ok/../../../memories/ok/a)
$(em ../memories/ok/a x)
$(r memories/ok/.x/../a)
MemorySearch {\"query\":\"x\",\"path\":\"../memories/ok/a\"}
$(r "memories/ok/a/$long")" "$GRANT" "$SCOPE"
is "$(rows skill.tool_denied '| .violation' | tr '\n' ' ')" \
    '"../memories/ok/a" "../memories/ok/a" "memories/ok/.x/../a" "../memories/ok/a" "" ' \
    "a row of what is refused does not name what is allowed"
# The third tool of case M22; more of it is in 48-find.t.
calls 'MemorySearch {"query":"needle","path":"memories/ok/../people/pay"}
MemorySearch {"query":"needle"}' "$GRANT" "$SCOPE"
is "$(said 1)" "-32603 $S $S" "case M22: nor for a search"
is "$(answer 2 '[.result.matches[].path] | join(" ")') $(answer 2 .result.total)" \
    "memories/ok/a 1" "case M24: a search finds nothing that it should not"
unlike "$OUT" 'MARKER|hr|pay' "case M24: and its answer mentions nothing"

# --- paths that are none ---

bad='/memories/../x
memory/ok/a
memories/ok/.hidden
memories/ok/.git/x
memories/ok/a.
memories/ok/a\u0020
memories/ok/a\u0001
memories/ok/a\u0085b
memories/ok/\u007f
.cyberos/x
audit/x
run/x
tenants/x
tenants/'$OTHER'/memories/ok/a
.
/'
lines=
old=$IFS
IFS='
'
for p in $bad "memories/ok/$(head -c 256 /dev/zero | tr '\0' a)"; do
	lines="$lines
$(r "$p")
$(em "$p" x)"
done
IFS=$old
wide='allowed_memory_scopes: ["**", "memories/**"]'
before=$(find "$STORE" -path "$STORE/audit" -prune -o -path "$STORE/run" -prune -o -type f -print | sort)
calls "$lines" "$GRANT" "$wide"
n=$(printf '%s\n' "$lines" | grep -c .)
is "$(sed 's/^1 //' "$T/out" | jq -r '"\(.error.code) \(.error.data.reason)"' | sort | uniq -c | sed 's/^ *//')" \
    "$n -32603 $S" "paths that are no memory paths are $S, whatever the scope"
is "$(find "$STORE" -path "$STORE/audit" -prune -o -path "$STORE/run" -prune -o -type f -print | sort)" \
    "$before" "and nothing was made by them"
calls "$(r //memories/./ok//a)
MemoryRead {\"path\":\"\"}
MemoryRead {}
MemoryRead {\"path\":\"memories/ok/a\",\"offset\":1}" "$GRANT" "$SCOPE"
is "$(said 1)" ok "slashes and dots more than needed are dropped"
is "$(said 2) $(said 3) $(said 4)" \
    "-32602 Invalid params - -32602 Invalid params - -32602 Invalid params -" \
    "bad arguments are -32602"

# --- links in the store (case M26), and other things that are no files ---

ln -s /etc "$STORE/memories/ok/l"
ln -s a "$STORE/memories/ok/in"
ln -s /etc/passwd "$STORE/memories/ok/leaf"
ln "$STORE/memories/hr/pay" "$STORE/memories/ok/hard"
mkfifo "$STORE/memories/ok/fifo"
mkdir "$STORE/memories/ok/dir"
calls "$(r memories/ok/l/passwd)
$(r memories/ok/leaf)
$(r memories/ok/in)
$(r memories/ok/hard)
$(r memories/ok/fifo)
$(r memories/ok/dir)
$(r memories/ok/a/b)
$(em memories/ok/l/cyberos-test x)
$(em memories/ok/dir x)
$(em memories/ok/a/b x)
$(em memories/ok/leaf mine)
$(em memories/ok/in mine)
$(em memories/ok/hard mine)
$(em memories/ok/fifo mine)
MemoryEmit {\"kind\":\"a.b\",\"path\":\"memories/ok/leaf\"}" "$GRANT" "$SCOPE"
for i in 1 2 3 4 5; do
	is "$(said $i)" "-32603 $S $S" \
	    "case M26: links, hard links and FIFOs are refused ($i)"
done
unlike "$OUT" 'root:|MARKER' "case M26: nothing from outside"
is "$(said 6) $(said 7)" "-32000 is_a_directory - -32000 not_found -" \
    "a directory, and what would lie below a file"
is "$(said 8)" "-32603 $S $S" "case M26: MemoryEmit does not follow a link either"
[ ! -e /etc/cyberos-test ]
ok $? "case M26: nothing was made outside"
is "$(said 9) $(said 10)" "-32000 is_a_directory - -32000 not_found -" \
    "MemoryEmit does not replace a directory, nor go below a file"
for i in 11 12 13 14; do
	is "$(said $i)" "-32603 $S $S" \
	    "case M26: nor does it replace a link, a hard link or a FIFO ($i)"
done
is "$(cd "$STORE/memories/ok" && stat -c '%F %h' leaf in hard fifo | tr '\n' ' ')" \
    "symbolic link 1 symbolic link 1 regular file 2 fifo 1 " \
    "case M26: they are as they were"
is "$(cat "$STORE/memories/ok/hard") $(cat "$STORE/memories/ok/a")" \
    "MARKER needle inside needle" "case M26: and so is what they lead to"
is "$(rows skill.tool_denied '| .violation' | tr -d '"' | tail -n 4 | tr '\n' ' ')" \
    "memories/ok/leaf memories/ok/in memories/ok/hard memories/ok/fifo " \
    "case M26: with a row each"
is "$(said 15)" ok "an event about such a path is only a row"
rm -f "$STORE/memories/ok/hard"
is "$(find "$STORE/memories" -name '*.tmp' | wc -l)" 0 "no temporary file is left"
head -c 65537 /dev/zero | tr '\0' m >"$STORE/memories/ok/large"
printf '\377\000' >"$STORE/memories/ok/bytes"
in_skill 'cyberos skill call --raw body MemoryRead path=memories/ok/large | wc -c
cyberos skill call --raw encoding MemoryRead path=memories/ok/bytes' \
    "$GRANT" "$SCOPE"
is "$OUT" "65537
base64" "a memory file over 64 KiB, and one of bytes"

# --- MemoryEmit: the file and the row (acceptance 19) ---

p='{"kind":"note.added","path":"memories/ok/new/deep/n","body":"text\n","payload":{"b":[1,2],"a":"é"}}'
calls "MemoryEmit $p
$(r memories/ok/new/deep/n)
MemoryEmit {\"kind\":\"note.seen\",\"path\":\"memories/ok/a\"}
MemoryEmit {\"kind\":\"note.seen\",\"path\":\"memories/ok/empty\",\"body\":\"\"}
$(em memories/ok/new/deep/n changed)
MemorySearch {\"query\":\"changed\",\"path\":\"memories/ok/new\"}" "$GRANT" "$SCOPE"
is "$(said 1) $(said 2)" "ok ok" "MemoryEmit puts a file that MemoryRead finds at once"
is "$(answer 2 .result.body)" text "with its body"
is "$(answer 6 '.result.matches[].path')" memories/ok/new/deep/n "and MemorySearch too"
is "$(answer 1 '.result | "\(.row_id) \(.seq) \(.content_hash) \(.trace_id)"')" \
    "$(result invocation_id):3 3 $(printf 'text\n' | sha256sum | cut -d ' ' -f 1) $(rows skill.invoked_started '| .trace_id' | tr -d '"')" \
    "the result names the row"
is "$(segment | jq -c 'select(.seq == 3) | [.by, .kind, .payload]')" \
    "[\"skill\",\"note.added\",{\"path\":\"memories/ok/new/deep/n\",\"content_hash\":\"$(answer 1 .result.content_hash)\",\"trace_id\":\"$(answer 1 .result.trace_id)\",\"skill_id\":\"wire\",\"invocation_id\":\"$(result invocation_id)\",\"sync_class\":\"private\",\"data\":{\"a\":\"é\",\"b\":[1,2]}}]" \
    "acceptance 19: the row is by the skill and has the trace id"
is "$(segment | jq -c 'select(.kind == "note.seen") | [.payload.content_hash != null, .payload.data]' | tr '\n' ' ')" \
    '[false,null] [true,null] ' "without body no hash, without payload no data"
is "$(cat "$STORE/memories/ok/a")" "inside needle" "without body no file is touched"
is "$(stat -c %a "$STORE/memories/ok/new/deep/n" "$STORE/memories/ok/new/deep" "$STORE/memories/ok/new" | tr '\n' ' ')" \
    "600 700 700 " "memory files are 0600 and their directories 0700"
is "$(cat "$STORE/memories/ok/new/deep/n")" changed "a second one replaces the first"
is "$(segment | jq -r 'select(.by == "skill") | .seq' | tr '\n' ' ')" \
    "$(segment | jq -r 'select(.kind | test("^note")) | .seq' | tr '\n' ' ')" \
    "all rows of the skill are marked as such"
trace=0af7651916cd43dd8448eb211c80319c
wire "open 1
send 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tool.call\",\"params\":{\"tool\":\"MemoryEmit\",\"args\":{\"kind\":\"a.b\",\"path\":\"memories/ok/a\"},\"traceparent\":\"00-$trace-b7ad6b7169203331-01\"}}
recv 1" "$GRANT" "$SCOPE" 'sync_class: shareable'
is "$(answer 1 .result.trace_id) $(segment | jq -r 'select(.kind == "a.b") | .payload | .trace_id + " " + .sync_class')" \
    "$trace $trace shareable" "acceptance 19: a call's own trace id goes into its row"

# --- kinds and payloads ---

k() { printf 'MemoryEmit {"kind":"%s","path":"memories/ok/k","body":"x"}\n' "$1"; }
lines=
for kind in note Note.x note. .x note..x note.X note.1x 1.x note-x.y 'note x.y' \
    skill.x skill.tool_denied audit.x audit.segment_closed note.é a..b; do
	lines="$lines
$(k "$kind")"
done
calls "$lines
$(k skills.x)
$(k a.b.c_2)" "$GRANT" "$SCOPE"
i=1
while [ $i -le 16 ]; do
	is "$(said $i)" "-32602 Invalid params -" \
	    "not a kind, or one of ours ($(printf '%s\n' "$lines" | grep . | sed -n "${i}s/.*kind\":\"\([^\"]*\).*/\1/p"))"
	i=$((i + 1))
done
is "$(said 17) $(said 18)" "ok ok" "kinds of the skill's own"
is "$(segment | jq -r 'select(.by == "skill") | .kind' | tr '\n' ' ')" \
    "skills.x a.b.c_2 " "no other row was made"
like "$(answer 11 .error.data.detail)" reserved "reserved kinds are called so"

rm -f "$STORE/memories/ok/k" "$STORE/memories/ok/big"
fits=$(head -c 12286 /dev/zero | tr '\0' p)
pay() {
	printf 'MemoryEmit {"kind":"a.b","path":"memories/ok/big","body":"x","payload":%s}\n' "$1"
}
calls "$(pay "\"${fits}p\"")
$(pay "\"$fits\"")
$(pay null)
$(pay 12345678901234567890123)
$(pay 1e20)
$(pay 0.1)
MemoryEmit {\"kind\":\"a.b\",\"path\":\"memories/ok/x\",\"body\":5}
MemoryEmit {\"path\":\"memories/ok/x\",\"body\":\"x\"}
MemoryEmit {\"kind\":\"a.b\",\"body\":\"x\"}" "$GRANT" "$SCOPE"
is "$(said 1)" "-32000 too_large -" "a payload over 12 KiB is too_large"
is "$(said 2) $(said 3) $(said 6)" "ok ok ok" "one of 12 KiB, null and a number are fine"
is "$(answer 4 .error.code) $(said 5)" "-32700 -32602 Invalid params -" \
    "integers that no reader takes exactly are refused"
is "$(said 7) $(said 8) $(said 9)" \
    "-32602 Invalid params - -32602 Invalid params - -32602 Invalid params -" \
    "bad arguments are -32602"
is "$(segment | jq -r 'select(.by == "skill") | .payload.data | tostring | length' | tr '\n' ' ')" \
    "12286 4 3 " "and three rows hold what was asked to be recorded"
is "$(segment | awk 'length > 16384' | wc -l)" 0 "no row is over 16 KiB"
rm -f "$STORE/memories/ok/big"
calls "$(pay "\"${fits}p\"")" "$GRANT" "$SCOPE"
[ ! -e "$STORE/memories/ok/big" ]
ok $? "a payload that is too large puts no file either"

# --- tenants ---

mem memories/ok/t nil-secret
skill wire "$GRANT" "$wide" <"$WIRE/main"
lines "$(r memories/ok/t)
$(em memories/ok/mine tenant-secret)
$(r memories/ok/mine)"
broker_run --tenant "$TENANT" wire <"$T/commands"
is "$(said 1)" "-32000 not_found -" "a tenant does not see the nil tenant's memory"
is "$(said 2) $(answer 3 .result.body)" "ok tenant-secret" "it has its own"
is "$(cat "$STORE/tenants/$TENANT/memories/ok/mine")" tenant-secret \
    "below tenants/ in the store"
[ ! -e "$STORE/memories/ok/mine" ]
ok $? "and not in the nil tenant's tree"
lines "$(r memories/ok/mine)
$(r "tenants/$TENANT/memories/ok/mine")
$(r "memories/../tenants/$TENANT/memories/ok/mine")
$(r memories/ok/t)"
broker_run wire <"$T/commands"
is "$(said 1) $(said 2) $(said 3)" "-32000 not_found - -32603 $S $S -32603 $S $S" \
    "the nil tenant does not see a tenant's"
is "$(answer 4 .result.body)" nil-secret "but its own"
broker_run --tenant "$OTHER" wire <"$T/commands"
is "$(said 1) $(said 2) $(said 4)" "-32000 not_found - -32603 $S $S -32000 not_found -" \
    "nor does another tenant"
is "$(stat -c %a "$STORE/tenants" "$STORE/tenants/$TENANT" | tr '\n' ' ')" \
    "700 700 " "tenants' directories are 0700"

# --- two invocations, one path ---

one=$(head -c 300000 /dev/zero | tr '\0' 1)
two=$(head -c 300000 /dev/zero | tr '\0' 2)
skill storm "$GRANT" "$SCOPE" <t/skills/storm/main
for b in "$one" "$two"; do
	{
		echo "40 4 1"
		printf '{"tool":"MemoryEmit","args":{"kind":"a.b","path":"memories/ok/race","body":"%s"}}\n' "$b"
	} >"$T/in.$(printf %.1s "$b")"
done
"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" storm \
    <"$T/in.1" >"$T/out.1" 2>&1 &
broker_run storm <"$T/in.2"
wait
is "$(tail -n 1 "$T/out.1") $(printf '%s\n' "$OUT" | tail -n 1)" "done 40 done 40" \
    "two invocations emit to one path forty times each"
unlike "$(cat "$T/out.1") $OUT" '"error"' "without an error"
case $(cat "$STORE/memories/ok/race") in
"$one" | "$two") ok 0 "and end in one whole file" ;;
*) ok 1 "and end in one whole file" ;;
esac
is "$(find "$STORE" -name '*.tmp' | wc -l)" 0 "no temporary file is left"

# --- globs over memory (cases G16, G18) ---

glob() {
	g_scope=$1
	shift
	g_lines=
	for g_path in "$@"; do
		g_lines="$g_lines
$(r "memories/$g_path")"
	done
	calls "$g_lines" "$GRANT" "allowed_memory_scopes: [\"$g_scope\"]"
	g_i=1 g_got=
	for g_path in "$@"; do
		case $(said $g_i) in
		*scope*) g_got="$g_got no" ;;
		*) g_got="$g_got yes" ;;
		esac
		g_i=$((g_i + 1))
	done
	echo "$g_got"
}
is "$(glob 'memories/a/**' a a/b a/b/c)" " no yes yes" "case G16: a/**"
is "$(glob 'memories/a/**/b' a/b a/x/b a/x/y/b aa/b)" " yes yes yes no" \
    "case G16: a/**/b"
is "$(glob '**/x' x a/x ax)" " yes yes no" "case G16: **/x"
calls "$(r x)" "$GRANT" "allowed_memory_scopes: [\"***************X***\"]"
is "$RC" 6 "case G18: glued stars are an error of the file"
like "$ERR" InvalidMemoryScopeGlob "case G18: InvalidMemoryScopeGlob"
stars='*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*X'
skill wire "$GRANT" "allowed_memory_scopes: [\"$stars\", \"memories/$stars\"]" \
    <"$WIRE/main"
lines "$(r "$(head -c 900000 /dev/zero | tr '\0' a)")
$(r "memories/$(head -c 250 /dev/zero | tr '\0' a)")"
broker_run wire <"$T/commands"
is "$(said 1) $(said 2)" "-32603 $S $S -32603 $S $S" \
    "case G18: many stars and a letter that never comes"
[ "$(result duration_ms)" -lt 2000 ]
ok $? "case G18: without taking its time ($(result duration_ms) ms)"

done_testing
