#!/bin/sh
# A day of many segments: what operators wait for, and how fast rows are appended.
# Usage: t/bench/ledger.sh BUILD-DIRECTORY. Environment: SEGMENTS (1000), CALLS
# (49, which is 100 rows), ROUNDS (7). The goals are for SEGMENTS=10000.
set -eu
segments=${SEGMENTS:-1000}
calls=${CALLS:-49}
rounds=${ROUNDS:-7}
# shellcheck source=t/bench/lib.sh
. t/bench/lib.sh
ledger=$bin/ledger start=$bin/start
trap 'rm -rf "$dir"' EXIT
mkdir -m 700 "$dir/store"
inv=$("$ledger" fill "$dir/store" "$segments" "$calls")
rows=$((segments * (2 * calls + 2)))

# took NAME GOAL ARGUMENT...: the median time from spawn to end
took() {
	name=$1 goal=$2
	shift 2
	ns=$("$start" "$rounds" "$cyberos" "$@" | cut -d ' ' -f 1)
	awk -v n="$name" -v g="$goal" -v ns="$ns" \
	    'BEGIN { printf "%s\t%.1f ms\t%s\n", n, ns / 1e6, g }'
}
echo "# a day of $segments segments, $rows rows"
took version none --version
took status '<=5 ms' skill broker status --store "$dir/store"
took replay '<=10 ms' skill broker replay --store "$dir/store" --invocation "$inv"
took verify_one none skill broker verify --store "$dir/store" --invocation "$inv"
begun=$(date +%s%N)
"$cyberos" skill broker verify --store "$dir/store" >/dev/null
ended=$(date +%s%N)
awk -v rows="$rows" -v ns=$((ended - begun)) \
    'BEGIN { printf "verify\t%.0f rows/s\t>=500000\n", rows / ns * 1e9 }'

echo '# appends of n writers, rows/s: ours, write alone, ratio'
for n in 1 8 32; do
	"$ledger" append "$dir" $n $((40000 / n)) | awk -v n=$n \
	    '{ printf "append_%d\t%d\t%d\t%.2f\t>=0.5\n", n, $1, $2, $1 / $2 }'
done
