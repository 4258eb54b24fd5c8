#!/bin/sh
# The long form of the fault tests: figures, and exit 1 when a row is lost or the
# ledger does not hold. Usage: t/fault/run.sh [kill|inject]... (as root)
# shellcheck source=t/lib.sh
. t/lib.sh
. t/box.sh

KILLS=${KILLS:-1000}
mkdir -p "$T/f"
echo hello >"$T/f/a"
READ='{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"'$T'/f/a"}}}'
skill wire 'allowed_tools: [Read]' "x-allowed-files: [\"$T/f/**\"]" <"$WIRE/main"
bad=0

# SIGKILL of broker, supervisor, both at random moments under load.
kills() {
	ROUNDS=$KILLS sh t/66-recovery.t >"$T/kills" 2>&1
	grep -E 'times killed|independent reader|left in run' "$T/kills" | sed 's/^/kill: /'
	grep -q '^not ok' "$T/kills" && bad=1
}

# injected FILE CALL ERROR: fail the Nth such call on a file of the ledger, for
# N = 1, 2, ... until a run goes through without.
injected() {
	tried=0 refused=0 lost=0 broken=0
	n=0
	while :; do
		n=$((n + 1))
		rm -rf "$STORE"
		broker_run wire <"$T/quiet" # the day and its files are there
		inv=$(new_id)
		day=$(basename "$(ls -d "$STORE"/audit/2*)")
		ab=$(printf %s "$inv" | cut -c 1-2)
		case $1 in
		segment) file=$STORE/audit/$day/seg/$ab/$inv.p1.jsonl ;;
		host) file=$STORE/audit/$day/host.jsonl ;;
		esac
		timeout 60 strace -f -o "$T/trace" -P "$file" -e trace="$2" \
		    -e inject="$2:error=$3:when=$n" "$CYBEROS" skill broker run \
		    --store "$STORE" --skills "$T/skills" --invocation "$inv" wire \
		    <"$T/six" >"$T/out" 2>"$T/err"
		status=$?
		grep -q INJECTED "$T/trace" || break
		tried=$((tried + 1))
		[ $status -ne 125 ] || refused=$((refused + 1))
		"$CYBEROS" skill broker sweep --store "$STORE" >"$T/said" 2>&1
		acks=$(grep -c '"body":"hello' "$T/out")
		rows=$(cat "$STORE"/audit/*/seg/*/"$inv".p*.jsonl 2>/dev/null |
		    grep -o '"seq":[0-9]*.*tool_call_completed' |
		    grep -o '^"seq":[0-9]*' | sort -u | wc -l)
		[ "$rows" -ge "$acks" ] || lost=$((lost + acks - rows))
		"$CYBEROS" skill broker verify --store "$STORE" >"$T/found" 2>&1 &&
		    perl t/verify.pl "$STORE" >>"$T/found" 2>&1 || {
			broken=$((broken + 1))
			note "$1 $2 $3 $n: $(tail -n 3 "$T/found")"
		}
		[ $n -lt 200 ] || break
	done
	echo "inject: $2 of the $1 file fails with $3: $tried places, $refused runs refused, $lost acknowledged rows lost, $broken ledgers that do not hold"
	[ $lost -eq 0 ] && [ $broken -eq 0 ] || bad=1
}

injections() {
	echo 'open' >"$T/quiet"
	{
		echo open
		n=0
		while [ $n -lt 6 ]; do
			printf 'send 1 %s\nrecv 1\nsleep 8\n' "$READ"
			n=$((n + 1))
		done
	} >"$T/six"
	for which in segment host; do
		for call in write fdatasync; do
			for error in ENOSPC EIO; do
				injected $which $call $error
			done
		done
	done
}

for what in ${*:-kill inject}; do
	case $what in
	kill) kills ;;
	inject) injections ;;
	esac
done
exit $bad
