#!/bin/sh
# What exporting spans costs a call: ratios to a run without it, all sides in one
# run, interleaved. Collectors that answer, hang, say 503, and one that is not
# there. Usage: t/bench/export.sh BUILD-DIRECTORY
set -eu
otlp=$PWD/t/otlp.js
rounds=${ROUNDS:-9}
calls=${CALLS:-5000}
command -v node >/dev/null || {
	echo '# export: node is not installed'
	exit 0
}
# shellcheck source=t/bench/lib.sh
. t/bench/lib.sh
pids=
bench_end() {
	for pid in $pids; do
		kill "$pid" 2>/dev/null || true
	done
	rm -rf "$dir"
}
trap bench_end EXIT
reader bench

# collector NAME SCRIPT
collector() {
	mkdir "$dir/$1"
	echo "$2" >"$dir/$1/script"
	(cd "$dir" && exec node "$otlp" "$1") &
	pids="$pids $!"
	while [ ! -s "$dir/$1/port" ]; do sleep 0.05; done
}
collector answers 200
collector hangs hang
collector busy 503

# one SIDE [NAME=VALUE...]: "p50 p99" of a run to the side's file
one() {
	side=$1
	shift
	env OTEL_EXPORTER_OTLP_TIMEOUT=1000 OTEL_EXPORTER_OTLP_COMPRESSION=gzip "$@" \
	    "$cyberos" skill broker run --quiet --store "$dir/store" $file \
	    "$dir/bench" -- "$calls" >>"$dir/$side.ns" 2>/dev/null
}
at() { echo "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:$(cat "$dir/$1/port")"; }

i=0
file=
while [ $i -lt "$rounds" ]; do
	one off
	one answers "$(at answers)"
	one hangs "$(at hangs)"
	one off2
	one busy "$(at busy)"
	one gone OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9
	file="--otel-file $dir/spans"
	one file
	file=
	i=$((i + 1))
done

printf '# what\tratio\tspread\tgoal\tours_ns\ttheirs_ns\n'
for side in off2 answers hangs busy gone file; do
	for column in 1 2; do
		cut -d ' ' -f $column "$dir/$side.ns" >"$dir/a"
		cut -d ' ' -f $column "$dir/off.ns" >"$dir/b"
		paste -d ' ' "$dir/a" "$dir/b" |
		    awk '{ printf "%.3f\n", $1 / $2 }' >"$dir/ratios"
		[ $column -eq 1 ] && name=p50 goal='<=1.05' || {
			name=p99 goal='<=1.2'
		}
		[ $side != off2 ] || goal=noise
		printf 'export_%s_%s\t%s\t%s\t%s\t%s\t%s\n' "$side" "$name" \
		    "$(median <"$dir/ratios")" "$(spread <"$dir/ratios")" \
		    "$goal" "$(median <"$dir/a")" "$(median <"$dir/b")"
	done
done
