#!/bin/sh
# Edit: the one place that is meant, and not a byte beside it.
# shellcheck source=t/lib.sh
. t/lib.sh
# shellcheck source=t/live.sh
. t/live.sh

D=$T/d
mkdir -p "$D/ok/dir" "$D/out"
OK="x-allowed-files: [\"$D/ok/**\"]"
GRANT='allowed_tools: [Edit]'

# e NAME OLD NEW [all]
e() {
	printf 'Edit {"path":"%s","old":"%s","new":"%s"%s}\n' "$D/ok/$1" "$2" \
	    "$3" "${4:+,\"all\":$4}"
}
put() { printf '%b' "$2" >"$D/ok/$1"; }
has() { printf '%b' "$2" | cmp -s - "$D/ok/$1"; }

put a 'one two three\n'
put b 'x x x\n'
put c 'aaa'
put d 'abab-aba'
put f 'abc'
put g 'aXbXc'
put h 'aaaa'
put empty ''
calls "$(e a two 2)
$(e a two 2)
$(e b x y)
$(e b x y true)
$(e c aa b)
$(e d aba c)
$(e f abc '')
$(e g X '' true)
$(e h aa b true)
$(e empty x y)
$(e a ONE x)
$(e c aaaa x)
$(e b y z false)" "$GRANT" "$OK"
is "$(said 1) $(cat "$D/ok/a")" "ok one 2 three" "the one place is replaced"
is "$(answer 1 '.result | "\(.replacements) \(.content_hash)"')" \
    "1 $(sha "$D/ok/a")" "replacements and content_hash"
is "$(said 2)" "-32000 not_found -" "old that is absent is not_found"
is "$(said 3)" "-32000 not_unique -" "old that occurs more than once is not_unique"
is "$(answer 4 .result.replacements) $(cat "$D/ok/b")" "3 y y y" \
    "all replaces every one"
is "$(said 5) $(cat "$D/ok/c")" "-32000 not_unique - aaa" \
    "aa occurs twice in aaa"
is "$(said 6) $(cat "$D/ok/d")" "-32000 not_unique - abab-aba" \
    "aba occurs again in abab-aba"
is "$(said 7) $(wc -c <"$D/ok/f")" "ok 0" "new may be empty"
is "$(answer 8 .result.replacements) $(cat "$D/ok/g")" "2 abc" \
    "all with an empty new"
is "$(answer 9 .result.replacements) $(cat "$D/ok/h")" "2 bb" \
    "all goes from left to right, without overlaps"
is "$(said 10)" "-32000 not_found -" "nothing is found in an empty file"
is "$(said 11)" "-32000 not_found -" "upper and lower case differ"
is "$(said 12)" "-32000 not_found -" "old may be longer than the file"
is "$(said 13)" "-32000 not_unique -" "all: false is no all"
is "$(rows skill.tool_call_completed '| .error_message // "-"' | sort | uniq -c | sed 's/^ *//' | tr '\n' ' ')" \
    '5 "-" 4 "not_found" 4 "not_unique" ' "the ledger has the words"
is "$(count skill.tool_call_started)" 13 "and a start of each"

# --- bytes around it ---

put nul 'a\0000\0377\0376old\0000\0200z'
put utf8 'x\0303\0251y'
put crlf 'one\r\ntwo\r\n'
put cut '\0303\0251\0303'
calls "$(e nul old new)
$(e utf8 é e)
$(e crlf 'two\r' 2)
$(e cut é 'è€')
Edit {\"path\":\"$D/ok/nul\",\"old\":\"a\",\"new\":\"\\t\\\"\\/\"}" "$GRANT" "$OK"
has nul '\t"/\0000\0377\0376new\0000\0200z'
ok $? "NUL and bytes that are no UTF-8 stay as they are"
has utf8 xey
ok $? "a character of two bytes"
has crlf 'one\r\n2\n'
ok $? "line ends are bytes like others"
has cut '\0303\0250\0342\0202\0254\0303'
ok $? "half a character at the end stays"
is "$(answer 5 .result.content_hash)" "$(sha "$D/ok/nul")" "and the hash is right"

# --- bad arguments and refusals: nothing changes ---

put k keep
chmod 640 "$D/ok/k"
printf keep >"$D/out/k"
ln -s "$D/out/k" "$D/ok/link"
was=$(stat -c '%i %Y %s' "$D/ok/k" "$D/out/k")
calls "$(e k '' x)
Edit {\"path\":\"$D/ok/k\",\"old\":\"k\"}
Edit {\"path\":\"$D/ok/k\",\"new\":\"k\"}
Edit {\"path\":\"$D/ok/k\",\"old\":\"k\",\"new\":\"x\",\"all\":\"yes\"}
Edit {\"path\":\"$D/ok/k\",\"old\":\"k\",\"new\":1}
Edit {\"path\":\"k\",\"old\":\"k\",\"new\":\"x\"}
$(e absent k x)
$(e dir k x)
$(e link k x)
Edit {\"path\":\"$D/out/k\",\"old\":\"k\",\"new\":\"x\"}" "$GRANT" "$OK"
for i in 1 2 3 4 5 6; do
	is "$(said $i)" "-32602 Invalid params -" "bad arguments are -32602 ($i)"
done
is "$(answer 1 .error.data.detail)" "old: must not be empty" "an empty old"
is "$(said 7)" "-32000 not_found -" "a file that is absent is not_found"
is "$(said 8)" "-32000 is_a_directory -" "a directory is is_a_directory"
is "$(said 9) $(said 10)" \
    "-32603 file_violation file_violation -32603 file_violation file_violation" \
    "outside of the grant is file_violation"
is "$(stat -c '%i %Y %s' "$D/ok/k" "$D/out/k")" "$was" "nothing has changed"
[ ! -e "$D/ok/absent" ]
ok $? "nothing was made"

# --- sizes ---

head -c 16777216 /dev/zero >"$D/ok/16m"
printf needle | dd of="$D/ok/16m" bs=1 seek=9000000 conv=notrunc 2>/dev/null
cp "$D/ok/16m" "$D/ok/16m1"
printf x >>"$D/ok/16m1"
head -c 200000 /dev/zero | tr '\0' a >"$D/ok/grow"
was=$(sha "$D/ok/16m1") grow=$(sha "$D/ok/grow")
long=$(head -c 500 /dev/zero | tr '\0' b)
calls "$(e 16m needle noodle)
$(e 16m noodle noodles)
$(e 16m1 needle noodle)
$(e grow a "$long" true)
$(e grow aaaa b true)" "$GRANT" "$OK"
is "$(said 1) $(tail -c +9000001 "$D/ok/16m" | head -c 6) $(wc -c <"$D/ok/16m")" \
    "ok noodle 16777216" "a file of 16 MiB is edited"
is "$(said 2) $(wc -c <"$D/ok/16m")" "-32000 too_large - 16777216" \
    "but does not grow beyond that"
is "$(said 3) $(sha "$D/ok/16m1")" "-32000 too_large - $was" \
    "a larger one is too_large"
is "$(said 4)" "-32000 too_large -" "so is what would become larger"
[ "$grow" != "$(sha "$D/ok/grow")" ] && [ "$(wc -c <"$D/ok/grow")" = 50000 ]
ok $? "and the file is still the old one for the next"
is "$(answer 5 .result.replacements)" 50000 "fifty thousand replacements in one"

# --- several at once: none is lost ---

i=0
: >"$D/ok/many"
lines=
while [ $i -lt 16 ]; do
	printf '[slot%02d]\n' $i >>"$D/ok/many"
	lines="$lines
$(printf '{"tool":"Edit","args":{"path":"%s","old":"[slot%02d]","new":"[done%02d]"}}' \
	"$D/ok/many" $i $i)"
	i=$((i + 1))
done
skill storm "$GRANT" "$OK" <t/skills/storm/main
{
	echo "16 16 16"
	printf '%s\n' "$lines" | grep .
} >"$T/in"
broker_run storm <"$T/in"
is "$(grep -c "done" "$D/ok/many") $(grep -c slot "$D/ok/many")" "16 0" \
    "sixteen edits of one file, all in flight at once, are all in it"
unlike "$OUT" '"error"' "and each was answered with success"
is "$(count skill.tool_call_started) $(count skill.tool_call_completed)" "16 16" \
    "each is in the ledger once"
is "$(find "$D" -name '*.tmp' | wc -l)" 0 "no temporary file is left"

done_testing
