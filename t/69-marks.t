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
cp "$T/kept" "$seg"
"$CYBEROS" skill broker sweep --store "$STORE" >"$T/said"
verify
is "$VRC" 0 "with its end, recovered, it holds"
verify_store "and an independent reader agrees"

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
	chattr -a "$seg"
else
	is "$said" false "audit_append_only: where it cannot be set, the anchor says so"
fi
verify
is "$VRC" 0 "and it holds"
done_testing
