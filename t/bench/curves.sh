#!/bin/sh
# How cost grows: with rules, with rows, with the size of a body, with
# invocations that are alive; and the two goals that need other programs. Every
# point is measured in each round, in turn; what is shown is the median of the
# rounds with its spread. Absolute figures belong to the machine they were taken
# on. Leaves curves.tsv, curves.svg and curves.png.
# Usage: t/bench/curves.sh BUILD-DIRECTORY. Environment: ROUNDS (5), RULES, ROWS,
# BODIES (KiB), ALIVE: the points.
set -eu
rounds=${ROUNDS:-5}
rules=${RULES:-10 100 1000}
rows=${ROWS:-1 1000 1000000}
bodies=${BODIES:-1 16 256 4096 16000}
alive=${ALIVE:-1 10 100 1000}
modules=${CYBEROS_NPM:-${XDG_CACHE_HOME:-$HOME/.cache}/cyberos/npm}
mcp=$modules/node_modules/.bin/mcp-server-filesystem
# shellcheck source=t/bench/lib.sh
. t/bench/lib.sh
out=$bin/curves
# What was started here ends with its input; wait for it before removing.
finish() {
	exec 7>&-
	wait
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM
mkdir -p "$dir/store/memories/bench" "$dir/s"
chmod 700 "$dir/store"
echo 'max_ledger_mb: 4096' >"$dir/c.yaml"
: >"$dir/points"

# skill NAME [SCOPE...]: calls a tool again and again
skill() {
	mkdir -p "$dir/$1"
	{
		printf -- '---\nid: %s\nversion: 1.0.0\ndescription: b\n' "$1"
		printf 'allowed_tools: [MemoryRead]\nallowed_memory_scopes:\n'
		shift
		[ "$#" -eq 0 ] || printf -- '- %s\n' "$@"
		printf -- '- memories/bench/**\n---\n'
	} >"$dir/new"
	mv "$dir/new" "$dir/$(sed -n 's/^id: //p' "$dir/new")/SKILL.md"
}
script='#!/bin/sh
exec cyberos skill call --repeat "$1" MemoryRead "path=memories/bench/$2"'
for n in $rules; do
	# shellcheck disable=SC2046 # a list of globs
	skill "rules$n" $(seq -f 'memories/other%g/*.md' 2 "$n")
	printf '%s\n' "$script" >"$dir/rules$n/main"
	chmod 755 "$dir/rules$n/main"
done
skill calls
printf '%s\n' "$script" >"$dir/calls/main"
skill idle
printf '#!/bin/sh\nread line\n' >"$dir/idle/main"
skill first
cp "$bin/call" "$dir/first/main"
chmod 755 "$dir/calls/main" "$dir/idle/main"
head -c 1024 /dev/zero | tr '\0' n >"$dir/store/memories/bench/note"
for n in $bodies; do
	head -c $((n * 1024)) /dev/zero | tr '\0' n \
	    >"$dir/store/memories/bench/body$n"
done

run() {
	"$cyberos" skill broker run --quiet --config "$dir/c.yaml" \
	    --store "$dir/store" --socket-dir "$dir/s" "$@"
}
# point CURVE X VALUE
point() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$dir/points"; }
# p50 SKILL COUNT NOTE: nanoseconds
p50() {
	run "$dir/$1" -- "$2" "$3" |
	    sed -n 's/.*"p50_us":\([0-9.]*\).*/\1/p' |
	    awk '{ printf "%d\n", $1 * 1000 }'
}
# pss PID: its proportional set size in KiB; child PID: its first one
pss() {
	sed -n 's/^Pss: *\([0-9]*\) kB/\1/p' "/proc/$1/smaps_rollup" 2>/dev/null
}
child() { cut -d ' ' -f 1 "/proc/$1/task/$1/children" 2>/dev/null; }

i=0
mkfifo "$dir/hold"
while [ $i -lt "$rounds" ]; do
	for n in $rules; do
		point rules "$n" "$(p50 "rules$n" 1000 note)"
	done
	for n in $rows; do
		calls=$(((n + 1) / 2))
		[ $i -gt 0 ] && [ "$n" -gt 100000 ] ||
		    point rows "$n" "$(p50 calls "$calls" note)"
	done
	for n in $bodies; do
		point body "$n" "$(p50 calls "$((n > 1000 ? 10 : 200))" "body$n")"
	done
	if [ -x "$mcp" ]; then
		point mcp 1 "$("$bin/mcp" 500 \
		    "$dir/store/memories/bench/note" "$mcp" "$dir/store")"
		point ours 1 "$(run "$dir/first" -- 2000)"
	fi
	i=$((i + 1))
done
# Idle ones: each round would start them all anew, so once.
exec 7<>"$dir/hold"
up=0
for n in $alive; do
	while [ "$up" -lt "$n" ]; do
		run "$dir/idle" <"$dir/hold" 7>&- &
		last=$!
		up=$((up + 1))
	done
	while [ "$("$cyberos" skill broker status --store "$dir/store" |
	    sed -n 's/.*"active_invocations":\([0-9]*\).*/\1/p')" -lt "$n" ]; do
		kill -0 "$last" || exit 1
		sleep 0.1
	done
	for i in $(seq "$rounds"); do
		point alive "$n" "$("$bin/start" 5 "$cyberos" skill broker run \
		    --quiet --store "$dir/store" --socket-dir "$dir/s" \
		    "$dir/first" -- first | cut -d ' ' -f 2)"
	done
	broker=$(child "$last")
	point pss_kib "$n" "$(for p in "$last" "$broker" "$(child "$broker")"; do
		pss "$p"
	done | awk '{ sum += $1 } END { print sum + 0 }')"
done

# --- what came of it ---

printf '# curve\tx\tmedian\tlowest\thighest\n' >"$out.tsv"
grep -Ev '^(mcp|ours)	' "$dir/points" |
    LC_ALL=C sort -t "$(printf '\t')" -k 1,1 -k 2,2n -k 3,3n |
    awk -F '\t' '
	function flush() {
		if (n > 0)
			printf "%s\t%s\t%s\t%s\t%s\n", curve, x,
			    v[int((n + 1) / 2)], v[1], v[n]
	}
	$1 != curve || $2 != x { flush(); n = 0; curve = $1; x = $2 }
	{ v[++n] = $3 }
	END { flush() }' >>"$out.tsv"
cat "$out.tsv"
printf '# what\tratio\tspread\tgoal\n'
awk -F '\t' '$1 == "pss_kib" { print "idle_pss_mib\t" $3 / 1024 "\tof " $2 \
    " alive\t<=2" }' "$out.tsv"
if [ -x "$mcp" ]; then
	for column in 1 2; do
		for side in mcp ours; do
			sed -n "s/^$side	1	//p" "$dir/points" |
			    cut -d ' ' -f "$column" >"$dir/$side"
		done
		paste -d ' ' "$dir/mcp" "$dir/ours" |
		    awk '{ printf "%.1f\n", $1 / $2 }' | sort -n |
		    awk -v p="$([ "$column" = 1 ] && echo p50 || echo p99)" '
			{ v[NR] = $1 }
			END { printf "filesystem_server_to_call_%s\t%s\t%s..%s\t%s\n",
			    p, v[int((NR + 1) / 2)], v[1], v[NR],
			    p == "p50" ? ">=10" : "none" }'
	done
else
	echo '# filesystem_server_to_call: its package from npm is not installed'
fi

command -v gnuplot >/dev/null || { echo '# no plot: no gnuplot'; exit 0; }
for form in svg png; do
	case $form in
	svg) terminal='svg size 1000,760 font "sans,12" background "white"' ;;
	png) terminal='pngcairo size 1000,760 font "sans,10"' ;;
	esac
	gnuplot <<EOT
set terminal $terminal
set output '$out.$form'
set datafile separator '\t'
set multiplot layout 2,2 title 'Cost on $(uname -sr), $(nproc) processors, $(date -u +%F): median, lowest and highest'
set logscale x; set grid; unset key; set yrange [0:*]
pick(c, y) = '< grep "^' . c . '	" $out.tsv'
set title 'a call, by rules that do not match'; set xlabel 'rules'; set ylabel 'us'
plot pick('rules',0) using 2:(\$3/1e3):(\$4/1e3):(\$5/1e3) with yerrorlines lw 2 pt 7
set title 'a call, by rows of the invocation'; set xlabel 'rows'
plot pick('rows',0) using 2:(\$3/1e3):(\$4/1e3):(\$5/1e3) with yerrorlines lw 2 pt 7
set title 'a call, by size of the body (dotted: proportional)'; set xlabel 'KiB'; set ylabel 'ms'; set logscale y; set yrange [*:*]
stats pick('body',0) using (\$3/1e6/\$2) name 'B' nooutput
plot pick('body',0) using 2:(\$3/1e6):(\$4/1e6):(\$5/1e6) with yerrorlines lw 2 pt 7, B_min * x with lines dt 3 lc 'gray40'
unset logscale y; set yrange [0:*]
set title 'start to first answer, by invocations that are alive'; set xlabel 'alive'
plot pick('alive',0) using 2:(\$3/1e6):(\$4/1e6):(\$5/1e6) with yerrorlines lw 2 pt 7
unset multiplot
EOT
done
echo "# $out.svg $out.png"
