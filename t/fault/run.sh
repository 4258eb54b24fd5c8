#!/bin/sh
# The long form of the fault tests: figures, and exit 1 when a row is lost, the
# ledger does not hold or a check is wrong.
# Usage: t/fault/run.sh [kill|counts|spans|write|race|short|
# full|inject|power|model]... (as root)
# Before lib.sh gives us another home.
export CYBEROS_NPM="${CYBEROS_NPM:-${XDG_CACHE_HOME:-$HOME/.cache}/cyberos/npm}"
# shellcheck source=t/lib.sh
. t/lib.sh
. t/box.sh
# shellcheck source=t/live.sh
. t/live.sh

KILLS=${KILLS:-1000}
TRIES=${TRIES:-1000000}
LOSSES=${LOSSES:-50}
FAULTS=${FAULTS:-write:ENOSPC write:EIO fdatasync:ENOSPC fdatasync:EIO}
BUILD=${BUILD:-build}
mkdir -p "$T/f"
echo hello >"$T/f/a"
READ='{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"'$T'/f/a"}}}'
skill wire 'allowed_tools: [Read]' "x-allowed-files: [\"$T/f/**\"]" <"$WIRE/main"
bad=0

# reads N THEN: the commands for so many calls, each awaited
reads() {
	echo open
	n=0
	while [ $n -lt "$1" ]; do
		printf 'send 1 %s\nrecv 1\n%s\n' "$READ" "$2"
		n=$((n + 1))
	done
}

# long NAME TEST REGEX VARIABLE=VALUE...: a test in its long form, and the lines of
# its figures. One that ends early, skips or fails is bad.
long() {
	t_name=$1 t_test=$2 t_figures=$3
	shift 3
	env T_MUST=1 "$@" sh t/exec.sh "$t_test" >"$T/long" 2>&1
	status=$?
	grep -E "$t_figures|^not ok|# SKIP" "$T/long" | sed "s/^/$t_name: /"
	if [ $status -ne 0 ] || ! grep -q '^1\.\.' "$T/long" ||
	    grep -qE '^not ok|# SKIP' "$T/long"; then
		echo "$t_name: $t_test does not hold, status $status"
		bad=1
	fi
}

# SIGKILL of worker, broker, supervisor while files are written.
writes() {
	long write t/48-stray.t 'times killed' ROUNDS=$((KILLS / 2))
}

# SIGKILL of broker, supervisor, both at random moments under load.
kills() {
	long kill t/66-recovery.t \
	    'times killed|independent reader|left in run' ROUNDS="$KILLS"
}

# Metrics against the ledger: 10,000 calls of every outcome, kills in between.
counts() {
	long counts t/82-counts.t 'acceptance 23|^# .* calls|read meanwhile' \
	    CALLS="${CALLS:-10000}" BATCH=50 STOPS=16
}

# Spans against the ledger, all that is sent decoded.
spans() { long spans t/81-export.t 'spans|calls' T_CALLS="${CALLS:-10000}"; }

# Each write cut short; real full disks.
short() { long short t/61-durability.t 'cut short|full disk'; }
full() { long full t/70-spool.t 'full disk|disk that stays full'; }

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
	acks=$(grep -c '"body":"hello' "$T/out")
	# Nothing tried is nothing shown; and it goes on until a run is through.
	[ $tried -gt 0 ] && [ $n -lt 200 ] && [ "$acks" -eq 6 ] || bad=1
}

injections() {
	echo 'open' >"$T/quiet"
	reads 6 'sleep 8' >"$T/six"
	for which in segment host; do
		for fault in $FAULTS; do
			injected $which "${fault%:*}" "${fault#*:}"
		done
	done
}

# power_loss MODE N: the disk stops while calls are answered; what was answered
# before that has its rows after the next mount.
power_loss() {
	mount -o loop "$T/image" "$T/disk"
	rm -rf "$STORE" && mkdir -m 700 "$STORE" && sync -f "$T/disk"
	printf 'audit_sync: %s\n' "$1" >"$T/c.yaml"
	inv=$(new_id)
	live_start wire --config "$T/c.yaml" --invocation "$inv"
	live_say "$(cat "$T/many")" &
	says=$!
	after=$(($2 * 7 % 150 + 1))
	until_true has_acks "$after"
	broker=$(live_broker)
	acks=$(grep -c '"body":"hello' "$T/live.out")
	# EXT4_IOC_SHUTDOWN, and not even the journal is written
	perl -e '$f = pack "L", 2; open D, "<", $ARGV[0] and ioctl D, 0x8004587d, $f or die "$!\n"' "$T/disk"
	kill -KILL "$LIVE" "$broker"
	exec 6>&-
	wait "$LIVE" "$says" 2>/dev/null
	until_true is_dead "$broker"
	until_true umount "$T/disk" 2>/dev/null
	mount -o loop "$T/image" "$T/disk"
	"$CYBEROS" skill broker sweep --store "$STORE" >"$T/said" 2>&1
	rows=$(cat "$STORE"/audit/*/seg/*/"$inv".p*.jsonl 2>/dev/null |
	    grep -c '"kind":"skill.tool_call_completed"')
	gone=0
	[ "$rows" -ge "$acks" ] || gone=$((acks - rows))
	"$CYBEROS" skill broker verify --store "$STORE" >"$T/found" 2>&1 &&
	    perl t/verify.pl "$STORE" >>"$T/found" 2>&1 || {
		broken=$((broken + 1))
		note "$1 $2: $(tail -n 3 "$T/found")"
	}
	umount "$T/disk"
	# What named it in run/ was on the disk, too.
	rm -f "/tmp/cyberos-skill-broker.$inv.sock"
}

has_acks() { [ "$(grep -c '"body":"hello' "$T/live.out")" -ge "$1" ]; }

power() {
	mkdir "$T/disk"
	truncate -s 64M "$T/image"
	mkfs.ext4 -q "$T/image"
	STORE=$T/disk/store
	reads 2000 '' >"$T/many"
	for mode in row batch; do
		lost=0 most=0 broken=0
		n=0
		while [ $n -lt "$LOSSES" ]; do
			n=$((n + 1))
			power_loss $mode $n
			lost=$((lost + gone))
			[ $gone -le $most ] || most=$gone
		done
		echo "power: $LOSSES losses with audit_sync $mode: $lost acknowledged rows lost, at most $most at once, $broken ledgers that do not hold"
		[ $broken -eq 0 ] || bad=1
		[ $mode = batch ] || [ $lost -eq 0 ] || bad=1
	done
}

# What is allowed, in a million random tries each, against small models: paths
# of files and of memory, URLs, globs.
model() {
	for unit in model-paths model-urls glob; do
		MODEL_TRIES=$TRIES "$BUILD/unit/$unit.t" >"$T/model" 2>&1 || {
			bad=1
			grep -v '^ok' "$T/model"
		}
		grep -E 'SEED|tries|allowed|pairs,' "$T/model" | grep -v '^ok' |
		    sed "s/^# /model: $unit: /"
	done
}

# Fifty thousand reads and as many writes while names are exchanged.
races() {
	long race t/46-races.t 'swap|exchange|never' READS=50000 WRITES=50000
}

[ $# -gt 0 ] || set -- kill counts spans write race short full \
    inject power model
for what in "$@"; do
	case $what in
	kill) kills ;;
	counts) counts ;;
	write) writes ;;
	race) races ;;
	spans) spans ;;
	short) short ;;
	full) full ;;
	inject) injections ;;
	power) power ;;
	model) model ;;
	esac
done
exit $bad
