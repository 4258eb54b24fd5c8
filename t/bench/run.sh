#!/bin/sh
# Benchmarks: ratios, all sides in one run. Absolute times belong to the
# machine they were taken on. Usage: t/bench/run.sh BUILD-DIRECTORY
set -eu
cyberos=$PWD/cyberos
bin=$PWD/$1/bench
rounds=${ROUNDS:-7}
calls=${CALLS:-3000}
dir=$(mktemp -d "${TMPDIR:-/tmp}/cyberos-bench.XXXXXX")
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"

median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
spread() { sort -n | awk '{ v[NR] = $1 } END { printf "%s..%s", v[1], v[NR] }'; }

mkdir -p "$dir/skill" "$dir/store/memories/bench"
chmod 700 "$dir/store"
head -c 1024 /dev/zero | tr '\0' 'n' >"$dir/store/memories/bench/note"
cat >"$dir/skill/SKILL.md" <<'EOT'
---
id: bench
version: 1.0.0
description: Reads a note again and again
allowed_tools: [MemoryRead]
allowed_memory_scopes: ["memories/bench/**"]
---
EOT
cp "$bin/call" "$dir/skill/main"
mkdir -p "$dir/exit"
sed 's/^id: .*/id: exit/' "$dir/skill/SKILL.md" >"$dir/exit/SKILL.md"
cp "$bin/call" "$dir/exit/main"

: >"$dir/ours"; : >"$dir/floor"; : >"$dir/start"; : >"$dir/bwrap"
i=0
while [ $i -lt "$rounds" ]; do
	"$cyberos" skill broker run --store "$dir/store" "$dir/skill" -- \
	    "$calls" >>"$dir/ours"
	"$bin/floor" "$dir/f$i" "$dir/store/memories/bench/note" \
	    "$dir/ledger" &
	floor=$!
	while [ ! -S "$dir/f$i" ]; do sleep 0.01; done
	CYBEROS_BROKER_SOCKET=$dir/f$i "$bin/call" "$calls" >>"$dir/floor"
	wait $floor
	"$bin/start" 30 "$cyberos" skill broker run --quiet --store \
	    "$dir/store" "$dir/exit/" -- first >>"$dir/start"
	if command -v bwrap >/dev/null; then
		"$bin/start" 30 bwrap --unshare-all --ro-bind /usr /usr \
		    --symlink usr/bin /bin --symlink usr/lib /lib \
		    --symlink usr/lib64 /lib64 --proc /proc --dev /dev \
		    --tmpfs /tmp --ro-bind "$bin" /b /b/call now \
		    >>"$dir/bwrap"
	fi
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
if [ -s "$dir/bwrap" ]; then
	ratio first_answer_to_bwrap '<=0.5' "$dir/start" 2 "$dir/bwrap" 2
	ratio whole_run_to_bwrap none "$dir/start" 1 "$dir/bwrap" 1
fi
# What each layer costs of the start of a sandbox, in hundredths.
if command -v jq >/dev/null; then
	printf '# layer\tshare\tmedian_us\n'
	jq -rs 'map(.cost_us | del(.session)) | . as $all | (.[0] | keys_unsorted)
	    | map({ name: ., us: ([.  as $k | $all[] | .[$k]] | sort | .[length / 2 | floor]) })
	    | (map(.us) | add) as $sum | sort_by(-.us)[] | select(.us > 0)
	    | "\(.name)\t\(.us / $sum * 100 | round / 100)\t\(.us)"' \
	    "$dir/doctor"
fi
