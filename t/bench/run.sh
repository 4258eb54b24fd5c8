#!/bin/sh
# Benchmarks: ratios, all sides in one run. Absolute times belong to the
# machine they were taken on. Usage: t/bench/run.sh BUILD-DIRECTORY
set -eu
rounds=${ROUNDS:-7}
calls=${CALLS:-3000}
# shellcheck source=t/bench/lib.sh
. t/bench/lib.sh
trap 'rm -rf "$dir"' EXIT
reader bench
reader exit

: >"$dir/ours"; : >"$dir/floor"; : >"$dir/start"; : >"$dir/bwrap"
# What the floor of a start shows and reads.
mkdir "$dir/least"
cp "$bin/call" "$dir/least/main"
cp "$dir/store/memories/bench/note" "$dir/least/note"
i=0
while [ $i -lt "$rounds" ]; do
	"$cyberos" skill broker run --store "$dir/store" "$dir/bench" -- \
	    "$calls" >>"$dir/ours"
	"$bin/floor" "$dir/f$i" "$dir/store/memories/bench/note" \
	    "$dir/ledger" &
	floor=$!
	while [ ! -S "$dir/f$i" ]; do sleep 0.01; done
	CYBEROS_BROKER_SOCKET=$dir/f$i "$bin/call" "$calls" >>"$dir/floor"
	wait $floor
	set -- "$bin/start" 30 \
	    "$cyberos" skill broker run --quiet --store "$dir/store" \
	    "$dir/exit/" -- first , "$cyberos" --version , "$bin/call" now , \
	    @ '{"op":"run","skill":"'"$dir"'/exit/","args":["first"],"output":true}' \
	    "$cyberos" skill broker supervise --quiet --store "$dir/store" , \
	    "$bin/start_floor" "$dir/least" /skill/main first
	if command -v bwrap >/dev/null; then
		set -- "$@" , bwrap --unshare-all --ro-bind /usr /usr \
		    --symlink usr/bin /bin --symlink usr/lib /lib \
		    --symlink usr/lib64 /lib64 --proc /proc --dev /dev \
		    --tmpfs /tmp --ro-bind "$bin" /b /b/call now
	fi
	"$@" >"$dir/lines"
	sed -n 1p "$dir/lines" >>"$dir/start"
	sed -n 2p "$dir/lines" >>"$dir/load"
	sed -n 3p "$dir/lines" >>"$dir/skill_load"
	sed -n 4p "$dir/lines" >>"$dir/supervise"
	sed -n 5p "$dir/lines" >>"$dir/least.start"
	sed -n 6p "$dir/lines" >>"$dir/bwrap"
	"$cyberos" skill broker doctor --json >>"$dir/doctor"
	i=$((i + 1))
done

# ratio NAME GOAL OURS COLUMN THEIRS COLUMN
ratio() {
	cut -d ' ' -f "$4" "$3" >"$dir/a"
	cut -d ' ' -f "$6" "$5" >"$dir/b"
	paste -d ' ' "$dir/a" "$dir/b" |
	    awk '{ printf "%.2f\n", $1 / $2 }' >"$dir/ratios"
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$(median <"$dir/ratios")" \
	    "$(spread <"$dir/ratios")" "$2" "$(median <"$dir/a")" \
	    "$(median <"$dir/b")"
}

printf '# what\tratio\tspread\tgoal\tours_ns\ttheirs_ns\n'
ratio call_p50_to_floor '<=1.3' "$dir/ours" 1 "$dir/floor" 1
ratio call_p99_to_floor '<=2' "$dir/ours" 2 "$dir/floor" 2
ratio first_answer_to_floor none "$dir/start" 2 "$dir/least.start" 2
ratio first_answer_in_supervise_to_floor none \
    "$dir/supervise" 2 "$dir/least.start" 2
if [ -s "$dir/bwrap" ]; then
	ratio first_answer_to_bwrap '<=0.5' "$dir/start" 2 "$dir/bwrap" 2
	ratio first_answer_in_supervise_to_bwrap '<=0.35' \
	    "$dir/supervise" 2 "$dir/bwrap" 2
	ratio start_floor_to_bwrap none "$dir/least.start" 2 "$dir/bwrap" 2
	ratio whole_run_to_bwrap none "$dir/start" 1 "$dir/bwrap" 1
fi
# What each part costs of the way to the first answer, in hundredths: our own
# program and the skill's until their main(), the clone with all its namespaces,
# each step of the sandbox (doctor's, which says what they took in a start), and
# the rest: supervisor, broker, ledger, one call and the hand-overs. Parts that
# run beside others make the sum larger than the whole and the rest smaller.
if command -v jq >/dev/null; then
	column() { cut -d ' ' -f "$2" "$1" | median; }
	printf '# part_of_start\tshare\tmedian_us\n'
	{
		printf 'own_program\t%s\n' "$(column "$dir/load" 1)"
		printf 'skill_program\t%s\n' "$(column "$dir/skill_load" 2)"
		jq -rs 'map(.cost_us | del(.session)) | . as $all
		    | .[0] | keys_unsorted[] | . as $k
		    | [., ([$all[] | .[$k]] | sort | .[length / 2 | floor]) * 1000]
		    | @tsv' "$dir/doctor"
	} | awk -F '\t' -v all="$(column "$dir/start" 2)" '
		$2 > 0 { sum += $2; print }
		END { printf "rest\t%d\n", all - sum }' |
	    sort -t "$(printf '\t')" -k 2,2 -rn |
	    awk -F '\t' -v all="$(column "$dir/start" 2)" \
		'{ printf "%s\t%.3f\t%d\n", $1, $2 / all, $2 / 1000 }'
fi
