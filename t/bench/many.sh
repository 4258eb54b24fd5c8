#!/bin/sh
# Many invocations: alive at once, one after another, many at a time, one broker
# killed among busy ones. Figures as TSV; exit 1 when something is left over, a
# row is missing, or the ledger does not hold. Usage: t/bench/many.sh
# BUILD-DIRECTORY; ALIVE, SERIES, AT_ONCE, BUSY, CALLS: how many.
set -eu
alive=${ALIVE:-1000}
series=${SERIES:-10000}
at_once=${AT_ONCE:-200}
busy=${BUSY:-100}
calls=${CALLS:-500}
# shellcheck source=t/bench/lib.sh
. t/bench/lib.sh
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/sock" "$dir/store/memories/bench"
chmod 700 "$dir/store"
chmod 1777 "$dir/sock"
head -c 1024 /dev/zero | tr '\0' 'n' >"$dir/store/memories/bench/note"
bad=0

skill() { # NAME; main on standard input
	mkdir -p "$dir/skills/$1"
	printf -- '---\nid: %s\nversion: 1.0.0\ndescription: many\n%s\n%s\n---\n' \
	    "$1" 'allowed_tools: [MemoryRead]' \
	    'allowed_memory_scopes: ["memories/bench/**"]' \
	    >"$dir/skills/$1/SKILL.md"
	cat >"$dir/skills/$1/main"
	chmod 755 "$dir/skills/$1/main"
}
printf '#!/bin/sh\nexec sleep 3600\n' | skill sleeps
printf '#!/bin/sh\nexit 0\n' | skill ends
skill calls <"$bin/call"

say() { printf '%s\t%s\t%s\n' "$1" "$2" "$3"; }
wrong() {
	echo "# not good: $*"
	bad=1
}
now() { date +%s%N; }
begin() { # MAX
	rm -f "$dir/in"
	mkfifo "$dir/in"
	"$cyberos" skill broker supervise --store "$dir/store" --skills \
	    "$dir/skills" --socket-dir "$dir/sock" --connect-timeout 0 \
	    --max "$1" <"$dir/in" >"$dir/out" 2>"$dir/err" &
	pid=$!
	exec 3>"$dir/in"
}
# number EVENT: how many of these have come
number() { grep -c "^{\"event\":\"$1\"" "$dir/out" || true; }
until_number() { # N EVENT
	while [ "$(number "$2")" -lt "$1" ]; do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
}
rss() { awk '/^VmRSS/ { print $2 }' "/proc/$pid/status"; }
files() { find "/proc/$pid/fd" -mindepth 1 | wc -l; }
mounts() { wc -l </proc/self/mountinfo; }
mounts_before=$(mounts)

left_over() { # NAME
	[ -z "$(ls -A "$dir/sock")" ] || wrong "$1: sockets are left"
	[ -z "$(ls -A -I metrics -I slots "$dir/store/run")" ] ||
	    wrong "$1: run/ has $(find "$dir/store/run" -type f | wc -l) files"
	[ -z "$(pgrep -P "$$" -x 'cyberos.*' || true)" ] || wrong "$1: processes are left"
	[ "$(mounts)" = "$mounts_before" ] || wrong "$1: mounts are left"
	"$cyberos" skill broker verify --store "$dir/store" >"$dir/verify" 2>&1 ||
	    wrong "$1: verify: $(tail -n 2 "$dir/verify")"
}

# --- alive at once ---
t0=$(now)
begin "$alive"
yes '{"op":"run","skill":"sleeps"}' | head -n "$alive" >&3
until_number "$alive" started
say alive_at_once "$(number started)" "$((($(now) - t0) / 1000000)) ms"
[ "$(number started)" = "$alive" ] || wrong "alive: only $(number started)"
say alive_descriptors_each "$(($(files) / alive))" "of the supervisor"
say alive_supervisor_kib_each "$(($(rss) / alive))" "VmRSS"
if command -v jq >/dev/null; then
	n=0 all=0
	for p in $(grep '^{"event":"started"' "$dir/out" | head -n 20 | jq .pid); do
		for q in $p $(pgrep -P "$p"); do
			all=$((all + $(awk '/^Pss:/ { print $2 }' \
			    "/proc/$q/smaps_rollup" 2>/dev/null || echo 0)))
		done
		n=$((n + 1))
	done
	say alive_broker_and_init_kib "$((all / n))" "proportional"
fi
t0=$(now)
kill -TERM "$pid"
sleep 0.2
kill -TERM "$pid"
wait "$pid" || true
exec 3>&-
say alive_killed "$(number completed)" "$((($(now) - t0) / 1000000)) ms"
[ "$(number completed)" = "$alive" ] || wrong "alive: $(number completed) completed"
left_over alive

# --- one after another, and many at a time ---
for max in 1 "$at_once"; do
	begin "$max"
	yes '{"op":"run","skill":"ends"}' | head -n "$max" >&3
	until_number "$max" completed
	kib=$(rss) fds=$(files)
	t0=$(now)
	yes '{"op":"run","skill":"ends"}' | head -n "$((series - max))" >&3
	until_number "$series" completed
	say "series_of_${max}_ms_each" \
	    "$((($(now) - t0) / 1000 / (series - max)))" "us, $series in all"
	say "series_of_${max}_kib" "$kib..$(rss)" "VmRSS of the supervisor"
	[ "$(rss)" -le $((kib + kib / 2 + 2048)) ] || wrong "series: memory grows"
	[ "$(files)" -le "$fds" ] || wrong "series: descriptors grow ($fds..$(files))"
	exec 3>&-
	wait "$pid" || wrong "series: exit $?"
	[ "$(grep '^{"event":"completed"' "$dir/out" |
	    grep -c '"outcome":"success"')" = "$series" ] ||
	    wrong "series: not all succeeded"
	left_over "series of $max"
done

# --- a busy broker is killed among others ---
if command -v jq >/dev/null; then
	for kill in no yes; do
		begin "$busy"
		yes '{"op":"run","skill":"calls","args":["'"$calls"'"],"output":true}' |
		    head -n "$busy" >&3
		until_number "$busy" started
		if [ $kill = yes ]; then
			kill -KILL "$(grep '^{"event":"started"' "$dir/out" |
			    tail -n 1 | jq .pid)" 2>/dev/null || true
		fi
		exec 3>&-
		wait "$pid" || true
		jq -r 'select(.event == "output" and .stream == "stdout") | .text' \
		    "$dir/out" | awk 'NF >= 2 { print $2 }' | sort -n >"$dir/p99.$kill"
		n=$(grep '^{"event":"completed"' "$dir/out" |
		    grep -c '"outcome":"success"')
		[ "$n" -ge $((busy - 1)) ] || wrong "busy: $n of $busy succeeded"
	done
	median() { awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }' "$1"; }
	say busy_p99_with_one_killed \
	    "$(awk -v a="$(median "$dir/p99.yes")" -v b="$(median "$dir/p99.no")" \
	    'BEGIN { printf "%.2f", a / b }')" "to none killed; goal <=1.5"
	left_over busy
fi
exit "$bad"
