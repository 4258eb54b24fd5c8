#!/bin/sh
# When the ledger cannot be written: rows wait in memory, in the spool, in a new
# part; nothing that was acknowledged is lost, and what is lost is told.
# shellcheck source=t/lib.sh
. t/lib.sh
. t/box.sh
# shellcheck source=t/live.sh
. t/live.sh

# With mounts of our own, full disks are real ones.
if can_mount && [ -z "${T_NAMESPACE:-}" ]; then
	rm -rf "$T"
	T_NAMESPACE=1 exec unshare -m sh "$0"
fi

mkdir -p "$T/f"
echo hello >"$T/f/a"
TOOLS='allowed_tools: [Read]'
FILES="x-allowed-files: [\"$T/f/**\"]"
READ='{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"'$T'/f/a"}}}'
skill wire "$TOOLS" "$FILES" <"$WIRE/main"
verify() { "$CYBEROS" skill broker verify --store "$STORE" >"$T/found" 2>&1; VRC=$?; }
sweep() { "$CYBEROS" skill broker sweep --store "$STORE" "$@" >"$T/said" 2>&1; RC=$?; }
closed() {
	cat "$STORE"/audit/*/host.jsonl | jq -Rc "fromjson? |
	    select(.kind == \"audit.segment_closed\") | .payload | $1" | tail -n 1
}
# rows of an invocation, each once, in order
all_rows() {
	for part in "$STORE"/audit/*/seg/*/"$INV".p*.jsonl; do
		cat "$part"
		echo
	done | jq -Rc 'fromjson?' | jq -sc 'unique_by(.seq)[]'
}
kinds() { all_rows | jq -r .kind | sort | uniq -c | sed 's/^ *//' | tr '\n' ' '; }
asks() { # N: so many calls, each answered
	t_n=0
	while [ $t_n -lt "$1" ]; do
		printf 'send 1 %s\nrecv 1\n' "$READ"
		t_n=$((t_n + 1))
	done
}

# --- files may not grow: what does not fit goes to the spool at the end ---

INV=$(new_id)
{ echo open; asks 40; } >"$T/commands"
(
	ulimit -f 64
	exec "$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --invocation "$INV" --result "$T/result.json" wire \
	    <"$T/commands" >"$T/out" 2>"$T/err"
)
is "$? $(grep -c '"body":"hello' "$T/out")" "0 40" "a limit on file sizes: every call is answered"
like "$(cat "$T/err")" 'the ledger cannot be written' "the log says so"
like "$(cat "$T/err")" 'rows are left in the spool' "and where the rows are"
verify
is "$VRC" 0 "verify: intact"
is "$(kinds)" "1 skill.invoked_completed 1 skill.invoked_started 40 skill.tool_call_completed 40 skill.tool_call_started " \
    "every row is there, once"
is "$(closed '[.reason, .parts, .spooled > 10, .lost, .calls]')" '["normal",2,true,0,40]' \
    "the supervisor has put them into a second part"
is "$(ls "$STORE/spool")" "" "the spool is gone"
verify_store "an independent reader agrees"

# --- a disk that fails: the part is given up ---

if is_root; then
	rm -rf "$STORE"
	mkdir -m 700 "$STORE"
	INV=$(new_id)
	{ echo open; n=0; while [ $n -lt 8 ]; do asks 2; echo "sleep 30"; n=$((n + 1)); done; } >"$T/commands"
	"$CYBEROS" skill broker tail --store "$STORE" --invocation "$INV" --json \
	    --wait 60 >"$T/tail" 2>&1 &
	TAIL=$!
	ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" strace -f -o "$T/trace" \
	    -e trace=fdatasync -e inject=fdatasync:error=EIO:when=7 \
	    "$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --invocation "$INV" --result "$T/result.json" wire \
	    <"$T/commands" >"$T/out" 2>"$T/err"
	is "$? $(grep -c '"body":"hello' "$T/out")" "0 16" "a sync that fails: every call is answered"
	like "$(cat "$T/err")" 'part 2 is begun' "a new part is begun"
	is "$(ls "$STORE"/audit/*/seg/*/ | wc -l | tr -d ' ')" 2 "and only one"
	is "$(kinds)" "1 skill.invoked_completed 1 skill.invoked_started 16 skill.tool_call_completed 16 skill.tool_call_started " \
	    "every row is there"
	wait "$TAIL"
	is "$? $(jq -r '.tool // .outcome' "$T/tail" | uniq -c | tr -s ' \n' ' ')$(jq .seq "$T/tail" | sort -u | wc -l)" \
	    "0  16 Read 1 success 17" "tail has told of each once, over the change of parts"
	verify
	is "$VRC" 0 "verify: intact" || note "$(cat "$T/found")"
	is "$(closed '[.reason, .parts, .lost]')" '["normal",2,0]' "closed as what it is"
	verify_store "an independent reader agrees"

	# Nothing is signed off that may not be on disk.
	rm -rf "$STORE"
	mkdir -m 700 "$STORE"
	INV=$(new_id)
	{ echo open; asks 2; } >"$T/commands"
	ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" strace -f -o "$T/trace" \
	    -e trace=fdatasync -e inject=fdatasync:error=EIO:when=2+ \
	    "$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --invocation "$INV" --result "$T/result.json" wire \
	    <"$T/commands" >"$T/out" 2>"$T/err"
	is "$(grep -c '"body":"hello' "$T/out")" 2 "no sync succeeds any more: calls are answered"
	is "$(closed .reason)" "" "the books stay open"
	verify
	is "$VRC" 1 "verify tells that somebody has to look" || note "$(cat "$T/found")"
	"$CYBEROS" skill broker sweep --store "$STORE" >"$T/out" 2>&1
	is "$?" 0 "sweep closes them" || note "$(cat "$T/out")"
	is "$(kinds)" "1 skill.invoked_completed 1 skill.invoked_started 2 skill.tool_call_completed 2 skill.tool_call_started " \
	    "every row is there"
	verify
	is "$VRC" 0 "verify: intact" || note "$(cat "$T/found")"
	verify_store "an independent reader agrees"
fi

# --- a full disk ---

if [ -n "${T_NAMESPACE:-}" ]; then
	STORE=$T/disk/store
	mkdir "$T/disk" "$T/spool"
	chmod 700 "$T/spool"
	mount -t tmpfs -o size=2m,mode=755 tmpfs "$T/disk"
	fill() { dd if=/dev/zero of="$T/disk/fill" bs=4k 2>/dev/null; }

	# for a while
	INV=$(new_id)
	live_start wire --invocation "$INV"
	live_say "open
$(asks 3)
say a"
	live_wait '^a'
	fill
	live_say "$(asks 40)
say b"
	live_wait '^b'
	ok $? "a full disk: calls go on"
	[ "$("$CYBEROS" skill broker status --store "$STORE" | jq .spooled_rows)" -gt 30 ]
	ok $? "status tells how many rows wait"
	rm "$T/disk/fill"
	n=0
	while [ "$("$CYBEROS" skill broker status --store "$STORE" | jq .spooled_rows)" -gt 0 ] &&
	    [ $n -lt 100 ]; do
		sleep 0.05
		n=$((n + 1))
	done
	[ $n -lt 100 ]
	ok $? "with room again they are written, without another call"
	live_say "$(asks 2)"
	live_end
	is "$RC" 0 "and the invocation goes on"
	like "$ERR" 'the ledger is written again' "the log says so"
	is "$(kinds)" "1 skill.invoked_completed 1 skill.invoked_started 45 skill.tool_call_completed 45 skill.tool_call_started " \
	    "no row is lost"
	verify
	is "$VRC" 0 "verify: intact" || note "$(cat "$T/found")"
	is "$(closed '[.reason, .parts, .lost]')" '["normal",1,0]' "in one part"

	# to the end, with a spool elsewhere
	echo "spool: $T/spool" >"$T/c.yaml"
	INV=$(new_id)
	live_start wire --invocation "$INV" --config "$T/c.yaml"
	live_say "open
$(asks 3)
say a"
	live_wait '^a'
	fill
	live_say "$(asks 20)"
	live_end
	is "$RC $(result outcome)" "0 success" "a disk that stays full: the invocation ends as it should"
	holds "its rows are in the operator's spool" [ -s "$T/spool/$INV.jsonl" ]
	n=2048
	while [ $n -lt 2096 ]; do
		n=$((n + 4))
		mount -o "remount,size=${n}k" "$T/disk"
		sweep --config "$T/c.yaml"
		[ "$RC" -eq 0 ] && break
	done
	parts=$(ls "$STORE"/audit/*/seg/*/"$INV".p*.jsonl | wc -l)
	[ "$parts" -le 3 ] && [ $n -gt 2052 ]
	ok $? "sweeps that find no room use up no parts ($parts after $(((n - 2048) / 4)) sweeps)"
	is "$(grep -c 'failed at' "$T/said")" "$((RC != 0))" "none is tried twice in one"
	rm "$T/disk/fill"
	[ "$RC" -eq 0 ] || sweep --config "$T/c.yaml"
	is "$RC" 0 "sweep"
	is "$(kinds)" "1 skill.invoked_completed 1 skill.invoked_started 23 skill.tool_call_completed 23 skill.tool_call_started " \
	    "no row is lost"
	verify
	is "$VRC" 0 "verify: intact" || note "$(cat "$T/found")"

	# audit_required
	echo "audit_required: true" >"$T/c.yaml"
	INV=$(new_id)
	live_start wire --invocation "$INV" --config "$T/c.yaml"
	live_say "open
$(asks 1)
say a"
	live_wait '^a'
	fill
	live_say "$(asks 4)
say b"
	live_wait '^b'
	rm "$T/disk/fill"
	sleep 1.2
	live_say "$(asks 1)"
	live_end
	like "$OUT" 'audit_unavailable' "audit_required: new calls are refused"
	is "$(grep -c '"body":"hello' "$T/live.out")" "$(($(all_rows | grep -c tool_call_completed)))" \
	    "what was done is recorded"
	like "$(tail -n 1 "$T/live.out")" hello "and served again when there is room"

	# beyond memory and spool: told, never silent
	INV=$(new_id)
	perl_skill flood "$TOOLS" "$FILES" <<'P'
use Socket;
socket my $s, AF_UNIX, SOCK_STREAM, 0;
connect $s, sockaddr_un $ENV{CYBEROS_BROKER_SOCKET} or die;
$| = 1;
my $call = '{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"/etc/' . ('x' x 900) . '"}}}';
sub take { my ($n) = @_; my $b = ''; while (length $b < $n) { sysread $s, $b, $n - length $b, length $b or die } $b }
sub ask { syswrite $s, pack('N', length $call) . $call; take(unpack 'N', take(4)) }
ask(); print "up\n"; readline STDIN;
ask() for 1 .. 6000;
print "full\n"; readline STDIN;
sleep 2; ask(); print "end\n";
P
	live_start flood --invocation "$INV"
	live_wait '^up'
	fill
	live_say go
	live_wait '^full' 120
	rm "$T/disk/fill"
	mount -o remount,size=64m "$T/disk"
	live_say go
	live_end
	is "$RC" 0 "6,000 refusals while nothing can be written"
	lost=$(closed .lost)
	[ "$lost" -gt 100 ]
	ok $? "some rows are lost ($lost)"
	is "$(all_rows | jq -c 'select(.kind == "skill.rows_lost") | .payload | .to - .from + 1')" \
	    "$lost" "skill.rows_lost tells how many"
	verify
	is "$VRC" 0 "verify: what is there holds"
	is "$(closed '[.calls, .denied]') $(all_rows | jq -c 'select(.kind == "skill.invoked_completed") | .payload | [.calls, .denied]')" \
	    '[6002,6002] [6002,6002]' "the counts have those whose rows are lost"
	verify_store "an independent reader agrees"
	like "$(cat "$T/found")" "$lost rows were lost" "and it tells of them"
	umount "$T/disk"
fi
done_testing
