#!/bin/sh
# Marks: the end of a segment that still grows hangs on an anchor; and the
# append-only attribute.
# shellcheck source=t/lib.sh
. t/lib.sh
. t/box.sh
# shellcheck source=t/live.sh
. t/live.sh

mkdir -p "$T/f"
echo hello >"$T/f/a"
CONF=$T/broker.yaml
READ='{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"'$T'/f/a"}}}'
marks() {
	cat "$STORE"/audit/*/host.jsonl |
	    jq -c 'select(.kind == "audit.segment_mark") | .payload.marks[]'
}
verify() { "$CYBEROS" skill broker verify --store "$STORE" >"$T/found" 2>&1; VRC=$?; }

echo 'audit_mark_seconds: 1' >"$CONF"
skill wire 'allowed_tools: [Read]' "x-allowed-files: [\"$T/f/**\"]" <"$WIRE/main"
INV=$(new_id)
live_start wire --config "$CONF" --invocation "$INV"
live_say "open
send 1 $READ
recv 1
say one"
live_wait '^one'
seg=$(ls "$STORE"/audit/*/seg/*/"$INV".p1.jsonl)
n=0
while [ -z "$(marks)" ] && [ $n -lt 200 ]; do
	sleep 0.05
	n=$((n + 1))
done
is "$(marks | jq -r '"\(.invocation_id) \(.seq) \(.head)"')" \
    "$INV 3 $(tail -n 1 "$seg" | jq -r .hash)" "a growing segment gets a mark"
sleep 1.3
is "$(marks | wc -l | tr -d ' ')" 1 "one that does not grow gets no other"
verify
is "$VRC" 0 "verify: intact while it runs"
pid=$(live_broker)
kill -KILL "$LIVE" "$pid"
exec 6>&-
wait "$LIVE" 2>/dev/null
until_true is_dead "$pid"
cp "$seg" "$T/kept"
sed -i '$d' "$seg"
verify
is "$VRC" 6 "the end cut off up to before the mark: damaged"
like "$(cat "$T/found")" 'row[s]? 3 to 3 are missing; they were marked' "and the mark tells"
perl t/verify.pl "$STORE" >"$T/perl" 2>&1
is "$? $(grep -c 'row 3: mark' "$T/perl")" "6 1" "an independent reader as well"
# closed: how books were closed, and with which last row
closed() {
	cat "$STORE"/audit/*/host.jsonl | jq -r "select(.kind == \"audit.segment_closed\") |
	    .payload | \"\(.reason) \(.rows) \(.head)\""
}
sweeps() { "$CYBEROS" skill broker sweep --store "$STORE" >"$T/said"; RC=$?; }
cp -a "$STORE" "$T/whole"
sweeps
is "$RC $(closed)" "6 damaged 2 $(tail -n 1 "$seg" | jq -r .hash)" \
    "sweep does not sign it off"
verify
is "$VRC" 6 "nor does verify then"
rm -rf "$STORE"
cp -a "$T/whole" "$STORE"
perl -MDigest::SHA=sha256_hex -pe 'if ($. == 3) { s/"Read"/"Bash"/;
    s/^(.*),"hash":"\w+"/"$1,\"hash\":\"" . sha256_hex($1) . "\""/e }' "$T/kept" >"$seg"
sweeps
is "$RC $(closed)" "6 damaged 2 $(sed -n 2p "$seg" | jq -r .hash)" \
    "another row than the one that was marked: nor that"
rm -rf "$STORE"
cp -a "$T/whole" "$STORE"
cp "$T/kept" "$seg"
"$CYBEROS" skill broker sweep --store "$STORE" >"$T/said"
verify
is "$VRC" 0 "with its end, recovered, it holds"
verify_store "and an independent reader agrees"


# The supervisor knows its marks as well.
rm -rf "$STORE"
live_start wire --config "$CONF"
live_say "open
send 1 $READ
recv 1
say two"
live_wait '^two'
n=0
while [ -z "$(marks)" ] && [ $n -lt 200 ]; do
	sleep 0.05
	n=$((n + 1))
done
seg=$(ls "$STORE"/audit/*/seg/*/*.p1.jsonl)
kill -STOP "$(live_broker)"
sed -i '$d' "$seg"
kill -KILL "$(live_broker)"
live_end
is "$(closed)" "damaged 2 $(tail -n 1 "$seg" | jq -r .hash)" \
    "an end that is cut off while it runs: its supervisor closes it as damaged"
like "$ERR" 'closed as damaged' "and logs it"

rm -rf "$STORE"
echo 'audit_append_only: true' >"$CONF"
broker_run --config "$CONF" wire </dev/null
seg=$(ls "$STORE"/audit/*/seg/*/*.jsonl)
said=$(cat "$STORE"/audit/*/host.jsonl | jq -c 'select(.kind == "audit.segment_opened") | .payload.append_only')
touch "$T/try"
if is_root && chattr +a "$T/try" 2>/dev/null; then
	chattr -a "$T/try"
	is "$said $(lsattr "$seg" | cut -c 6)" "true a" "audit_append_only: the attribute is set"
	(: >"$seg") 2>/dev/null
	[ -s "$seg" ]
	ok $? "so nobody truncates it"
	# The next part as well, and an orphan is no trap for recovery.
	INV=$(new_id)
	live_start wire --config "$CONF" --invocation "$INV"
	live_say 'say up'
	live_wait '^up'
	kill -KILL "$(live_broker)"
	live_end
	day=$(date -u +%Y-%m-%d)
	dir=$STORE/audit/$day/seg/$(printf %.2s "$INV")
	is "$(lsattr "$dir/$INV.p1.jsonl" "$dir/$INV.p2.jsonl" | cut -c 6 | tr -d '\n')" aa \
	    "every part has it"
	empty=$(new_id) full=$(new_id)
	for id in $empty $full; do
		mkdir -p "$STORE/audit/$day/seg/$(printf %.2s "$id")"
		orphan=$STORE/audit/$day/seg/$(printf %.2s "$id")/$id.p1.jsonl
		[ "$id" = "$empty" ] || head -n 1 "$seg" >"$orphan"
		(umask 077; : >>"$orphan") && chattr +a "$orphan"
	done
	"$CYBEROS" skill broker sweep --store "$STORE" >"$T/said" 2>&1
	is "$? $(grep -c "$empty" "$T/said") $(grep -c "$full" "$T/said")" "6 1 1" \
	    "sweep: files that no anchor names, with the attribute"
	is "$(find "$STORE/audit" -name "$empty*" -o -name "$full*" | sed "s|.*/audit/$day/||")" \
	    "quarantine/$full.p1.jsonl" "are removed, or put aside"
	rm "$STORE/audit/$day/quarantine/$full.p1.jsonl"
	chattr -R -a "$STORE/audit"
else
	is "$said" false "audit_append_only: where it cannot be set, the anchor says so"
fi
verify
is "$VRC" 0 "and it holds"
done_testing
