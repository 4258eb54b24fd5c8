#!/bin/sh
# replay and tail: what happened, call by call, and what happens now.
# shellcheck source=t/lib.sh
. t/lib.sh
. t/box.sh
# shellcheck source=t/live.sh
. t/live.sh

mkdir -p "$T/f"
echo hello >"$T/f/a"
echo odd >"$T/f/o,\"d"
printf 'x' >"$T/f/$(printf 'red\033[31m')"
TOOLS='allowed_tools: [Read, MemoryEmit]'
FILES="x-allowed-files: [\"$T/f/**\"]"
read_() { printf 'Read {"path":"%s"}\n' "$1"; }
replay() { "$CYBEROS" skill broker replay --store "$STORE" "$@" >"$T/said" 2>"$T/err"; RC=$?; }
call() { printf '{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"%s","args":%s}}' "$1" "$2"; }

calls "$(read_ "$T/f/a")
$(read_ "$T/f/none")
$(read_ /etc/passwd)
Bash {\"cmd\":\"true\"}
$(read_ "$T/f/o,\\\\u0022d")
$(read_ "$T/f/red\\\\u001b[31m")
MemoryEmit {\"kind\":\"note.added\",\"path\":\"memories/n\",\"payload\":{\"a\":1}}" \
    "$TOOLS" "$FILES" 'allowed_memory_scopes: ["memories/**"]'
INV=$(result invocation_id)
replay --invocation "$INV"
is "$RC" 0 "replay"
is "$(sed -n 's/^[0-9][0-9]:[0-9:.]* //p' "$T/said" | sed 's/  */ /g;s/ [0-9][0-9]* / N /' | sed "s|$T|T|")" \
    "Read success N T/f/a
Read error N not_found T/f/none
Read denied - file_violation /etc/passwd
Bash denied - tool_not_in_allowed_tools
Read success N T/f/o,\"d
Read success N T/f/red\\x1b[31m
MemoryEmit success N memories/n
note.added memories/n" "each call with what came of it, and what else was recorded"
is "$(sed -n '1,3p' "$T/said")" "invocation $INV
skill wire 1.0.0
tenant 00000000-0000-0000-0000-000000000000" "whose it was"
is "$(tail -n 1 "$T/said")" "7 calls, 2 denied, 1 failed, 0 timed out, 0 gaps" "totals"
like "$(cat "$T/said")" '^ended: success, exit 0, by skill, after [0-9]+ ms$' "the end"
is "$(LC_ALL=C grep -c '[^ -~]' "$T/said")" 0 "nothing for the terminal but text"
replay --invocation "$INV" --json
is "$(jq -c '[.invocation_id, .skill_id, .outcome, .exit_code, .totals.calls, .totals.denied, .totals.gaps, (.sequence | length)]' "$T/said")" \
    "[\"$INV\",\"wire\",\"success\",0,7,2,0,8]" "--json is one object"
is "$(jq -c '.sequence[0] | [.call, .tool, .outcome, .resource, .reason, .gap, (.args_hash | length), (.result_hash | length)]' "$T/said")" \
    "[1,\"Read\",\"success\",\"$T/f/a\",null,false,64,64]" "with every call's hashes"
is "$(jq -c '.sequence[2] | [.tool, .outcome, .reason, .resource, .call]' "$T/said")" \
    '["Read","denied","file_violation","/etc/passwd",null]' "and why it was refused"
replay --invocation "$INV" --format csv
is "$(python3 -c '
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], newline="")))
print(len(rows), rows[4]["resource"].endswith("/o,\"d"), rows[2]["reason"], rows[0]["duration_ms"].isdigit())' "$T/said")" \
    '8 True file_violation True' "--format csv is read by others"
is "$(replay --invocation "$(new_id)"; echo "$RC $(cat "$T/err")" | sed 's/[0-9a-f-]*: not/ID not/')" \
    "1 cyberos: ID not in this ledger" "an unknown id is an error"
replay --invocation x
is "$RC" 2 "what is no id is usage"
perl -pi -e 's/"Read"/"Edit"/ if $. == 4' "$(ls "$STORE"/audit/*/seg/*/"$INV".p1.jsonl)"
replay --invocation "$INV"
is "$RC" 6 "a row that does not hold: exit 6"
like "$(cat "$T/err")" "$INV.p1.jsonl:4: does not hold" "and where it is"
like "$(cat "$T/said")" "Read +success.*f/a" "what stands before it is shown"

# --- a gap ---

rm -rf "$STORE"
skill wire 'allowed_tools: [Read, Bash]' "$FILES" <"$WIRE/main"
INV=$(new_id)
live_start wire --invocation "$INV"
live_say "open
send 1 $(call Read "{\"path\":\"$T/f/a\"}")
recv 1
say up"
live_wait '^up'
seg=$(ls "$STORE"/audit/*/seg/*/"$INV".p1.jsonl)

# --- tail, while it runs ---

"$CYBEROS" skill broker tail --store "$STORE" --invocation "$INV" >"$T/tail" 2>&1 &
TAIL=$!
"$CYBEROS" skill broker tail --store "$STORE" --invocation "$INV" --json >"$T/tail.json" 2>&1 &
JSON=$!
until_true grep -q f/a "$T/tail"
ok $? "tail: what is there comes at once"
live_say "send 1 $(call Read '{"path":"/etc/passwd"}')
recv 1
say asked"
live_wait '^asked'
until_true grep -q file_violation "$T/tail"
ok $? "acceptance 21: a line for each call, as it occurs"
is "$(grep -c . "$T/tail")" 3 "one line each, below the heading"
kill -0 $TAIL
ok $? "it goes on while the invocation does"
# What a broker leaves that is killed between the two rows of a call.
live_say "send 1 $(call Bash '{"cmd":"sleep 300"}')"
until_true grep -q '"tool_name":"Bash"' "$seg"
kill -KILL "$(live_broker)"
live_end
wait $TAIL
is "$?" 0 "tail ends with the invocation"
wait $JSON
like "$(tail -n 1 "$T/tail")" '^ended: panic, by supervisor$' \
    "also when its end stands in another part"
is "$(jq -c '[.tool, .outcome]' "$T/tail.json" | sed -n 1,2p | tr '\n' ' ')" \
    '["Read","success"] ["Read","denied"] ' "--json: an object a line"
is "$(sed -n '$p' "$T/tail.json")" '{"ended":true,"outcome":"panic","by":"supervisor"}' \
    "and one at the end"
is "$("$CYBEROS" skill broker tail --store "$STORE" --invocation "$INV" | tail -n 1)" \
    "ended: panic, by supervisor" "tail of a past one shows it and ends"
"$CYBEROS" skill broker tail --store "$STORE" --invocation "$(new_id)" >"$T/out" 2>&1
is "$?" 1 "tail: an unknown id is an error"
replay --invocation "$INV"
like "$(cat "$T/said")" '^ended: panic, exit -, by supervisor' "replay of one that crashed"
like "$(cat "$T/said")" '^[0-9:.]+ Bash +GAP +-  started, and nothing tells of its end$' \
    "a call without an end is a gap"
like "$(cat "$T/said")" '^3 calls, 1 denied, 0 failed, 0 timed out, 1 gaps$' "and counted"
replay --invocation "$INV" --json
is "$(jq -c '.totals.gaps, (.sequence[] | select(.gap) | [.tool, .outcome])' "$T/said" | tr '\n' ' ')" \
    '1 ["Bash",null] ' "--json: marked as well"

# What tail tells of it, by the end or later.
"$CYBEROS" skill broker tail --store "$STORE" --invocation "$INV" >"$T/said"
like "$(grep -c ' GAP' "$T/said") $(tail -n 1 "$T/said")" '^1 ended: ' 'tail has the gap too, before the end'

# --- what a skill chose, in a table for others ---

INV=$(new_id)
printf '%s\n' 'open
send 1 {"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"=cmd|x","args":{}}}
recv 1
send 1 {"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"\\u001b[31mX\\r\\ny\\u202e\\u009b","args":{}}}
recv 1
send 1 {"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"a,\\"b","args":{}}}
recv 1' | broker_run --invocation "$INV" wire
replay --invocation "$INV" --format csv
is "$(python3 -c '
import csv, sys
for row in csv.DictReader(open(sys.argv[1], newline="")):
    if row["reason"]: print(row["tool"])
' "$T/said" | tr '\n' ' ')" "'=cmd|x \\x1b[31mX\\x0d\\ny\\u202e\\x9b a,\"b " \
    "--format csv: escaped, and no formula"
is "$(LC_ALL=C tr -d '\r\n -~' <"$T/said" | wc -c)" 0 "--format csv: nothing for a terminal"

# --- the recipes of the manual ---

# Each one runs as it stands there, and finds what is here to be found.
awk '/^\.Sh EXAMPLES/ { on = 1 } /^\.Sh SEE/ { on = 0 }
    on && /^\.Ed/ && text ~ /^[$] rows[(]/ { rows = substr(text, 3) }
    on && /^\.Ed/ && text ~ /^[$] rows [|]/ { n++
	print rows substr(text, 3) >(dir "/recipe." n) }
    on && /^\.Bd/ { text = ""; next }
    on { text = text $0 "\n" }' dir="$T" man/cyberos-ledger.5
# What did not happen in this store, so that there is something for each of them.
mkdir -p "$T/asked/audit/2026-01-01/seg/ab"
cp -R "$STORE/audit/." "$T/asked/audit/"
cat >"$T/asked/audit/2026-01-01/seg/ab/more.jsonl" <<'J'
{"ts":"t","inv":"i","kind":"skill.cap_bypass_attempt","payload":{"skill_id":"s","syscall":"mount","target":"/","count":3}}
{"ts":"t","inv":"i","kind":"skill.tool_call_started","payload":{"call":1,"tool_name":"Write","resource":"/d/f","skill_id":"s","args_hash":"a"}}
{"ts":"t","inv":"i","kind":"skill.tool_call_completed","payload":{"call":1,"tool_name":"Write","skill_id":"s","duration_ms":1500}}
{"ts":"t","inv":"i","kind":"skill.tool_call_started","payload":{"call":2,"tool_name":"HttpFetch","resource":"h.test:443","skill_id":"s","args_hash":"b"}}
{"ts":"t","inv":"i","kind":"skill.invoked_completed","payload":{"skill_id":"s","outcome":"timeout","by":"broker","error_message":"m"}}
J
trace=$(cat "$STORE"/audit/*/seg/*/*.jsonl | head -n 1 | jq -r .payload.trace_id)
n=0
failed=
for recipe in "$T"/recipe.*; do
	n=$((n + 1))
	(cd "$T/asked" && TRACE=$trace sh -e "$recipe") >"$T/found" 2>"$T/err" &&
	    [ ! -s "$T/err" ] || failed="$failed ${recipe##*/} $(cat "$T/err")"
	[ -s "$T/found" ] || failed="$failed ${recipe##*/} finds nothing"
done
is "$n$failed" 10 "ten recipes of the manual run, and find what is there"
# A part that ends in a fragment, and one that has a row of it again.
mkdir "$T/parts"
(cd "$T/parts" && mkdir -p audit/d/seg/ab && cd audit/d/seg/ab &&
    printf '{"inv":"i","seq":1}\n{"inv":"i","seq":2}\n{"inv":"i","se' >a.p1.jsonl &&
    printf '{"inv":"i","seq":2}\n{"inv":"i","seq":3}\n' >a.p2.jsonl)
is "$(cd "$T/parts" && sed -n '1,/^$/p' "$T/recipe.1" | sed '/| jq -r/,$d' >"$T/rows" &&
    echo rows >>"$T/rows" && sh "$T/rows" | jq .seq | xargs)" '1 2 3' "each row once, and no fragment"

# --- tail, before it begins ---

INV=$(new_id)
"$CYBEROS" skill broker tail --store "$STORE" --invocation "$INV" --wait 30 >"$T/tail" 2>&1 &
TAIL=$!
wire_commands="open
send 1 $(call Read "{\"path\":\"$T/f/a\"}")
recv 1"
printf '%s\n' "$wire_commands" >"$T/commands"
broker_run --invocation "$INV" wire <"$T/commands"
wait $TAIL
is "$? $(grep -c success "$T/tail")" "0 2" "--wait: one that is not there yet"
"$CYBEROS" skill broker tail --store "$T/later" --invocation "$INV" --wait 30 >"$T/tail" 2>&1 &
TAIL=$!
"$CYBEROS" skill broker tail --store "$T/later" --invocation "$INV" >"$T/said" 2>&1
is "$? $(cat "$T/said")" "1 cyberos: store $T/later: no invocation has run in it yet" \
    "without it a store that is not there is an error"
STORE=$T/later broker_run --invocation "$INV" wire <"$T/commands"
wait $TAIL
is "$? $(grep -c success "$T/tail")" "0 2" "with it, it is waited for as well"

# --- on a terminal ---

# colours ENVIRONMENT: which of them use any
colours() {
	for t_command in replay tail; do
		env "$@" python3 t/terminal.py "$CYBEROS" skill broker $t_command \
		    --store "$STORE" --invocation "$INV" >"$T/screen" 2>"$T/err" </dev/null
		! grep -q 'Read' "$T/screen" || printf '%s %s ' $t_command \
		    "$(grep -c "$(printf '\033')\[" "$T/screen" | sed 's/^[1-9].*/colour/')"
	done
}
is "$(colours -u NO_COLOR)" 'replay colour tail colour ' "colours on a terminal"
is "$(colours NO_COLOR=1)" 'replay 0 tail 0 ' "none with NO_COLOR"
"$CYBEROS" skill broker tail --store "$STORE" --invocation "$INV" >"$T/said"
is "$(grep -c "$(printf '\033')" "$T/said")" 0 "none in a file"
deep=$T/f/$(printf 'd\303\244%.0s' $(seq 80))
INV=$(new_id)
mkdir -p "$deep" && printf x >"$deep/the-end"
printf '%s\n' "open
send 1 $(call Read "{\"path\":\"$deep/the-end\"}")
recv 1
send 1 $(call Read '{"path":"/etc/a/long/path/that/nobody/has/granted/to/anybody/at/all/ever/the-end"}')
recv 1" | broker_run --invocation "$INV" wire
python3 t/terminal.py "$CYBEROS" skill broker replay --store "$STORE" --invocation "$INV" </dev/null |
    sed "s/$(printf '\033')\[[0-9;]*m//g; s/$(printf '\r')\$//" >"$T/wide"
is "$(python3 -c 'import sys; print(max(len(l.rstrip("\n")) for l in open(sys.argv[1], encoding="utf-8")) in (79, 80))' "$T/wide")" \
    True "a long path fits on the line"
is "$(grep -c '  \.\.\..*/the-end' "$T/wide")" 2 "it loses its beginning"
replay --invocation "$INV"
is "$(grep -cF "  $deep/the-end" "$T/said")" 1 "in a file it is whole"
done_testing
