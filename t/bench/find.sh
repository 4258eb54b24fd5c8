#!/bin/sh
# Grep against `rg -j1` on the same tree, in turns, in one run.
# Usage: t/bench/find.sh. Environment: FILES (2000), FILE_BYTES (10700), ROUNDS
# (7). The goal of 1.5 is for FILES=100000, which is 1 GiB.
set -eu
wire=$PWD/t/skills/wire/main
files=${FILES:-2000}
bytes=${FILE_BYTES:-10700}
rounds=${ROUNDS:-7}
command -v rg >/dev/null || {
	echo "# find: no rg here (Debian: ripgrep), so nothing to compare with"
	exit 0
}
# shellcheck source=t/bench/lib.sh
. t/bench/lib.sh
trap 'rm -rf "$dir"' EXIT

# Words of the same shape every time; one file in a thousand has a needle.
mkdir -p "$dir/tree" "$dir/skill"
awk -v files="$files" -v bytes="$bytes" -v dir="$dir/tree" '
    function word(   n, w) {
	w = ""
	for (n = 2 + int(rand() * 8); n > 0; n--)
		w = w substr("etaoinsrhldcumfpgwybvkxjqz", 1 + int(rand() * 26), 1)
	return w
    }
    BEGIN {
	srand(1)
	for (i = 0; i < 2000; i++)
		words[i] = word()
	for (i = 0; i < 16; i++) {
		for (text = ""; length(text) < bytes; text = text "\n")
			for (n = 3 + int(rand() * 10); n > 0; n--)
				text = text words[int(rand() * 2000)] " "
		texts[i] = text
	}
	for (i = 0; i < files; i++) {
		if (i % 50 == 0) {
			at = sprintf("%s/d%03d/e%02d", dir, i / 1000, i / 50 % 20)
			system("mkdir -p " at)
		}
		name = at "/f" i ".txt"
		printf "%s", texts[i % 16] >name
		if (i % 1000 == 7)
			printf "the Needle%d lies here\n", i >name
		close(name)
	}
    }'
cat >"$dir/skill/SKILL.md" <<EOT
---
id: find
version: 1.0.0
description: Searches the tree of the benchmark
allowed_tools: [Grep]
allowed_memory_scopes: []
x-allowed-files: ["$dir/tree/**"]
---
EOT
cp "$wire" "$dir/skill/main"
mkdir -m 700 "$dir/store"

now() { date +%s%N; }

# ours ARGS: the time of the second of two calls in one invocation, from the
# skill's side, in ns, and how many lines it found
ours() {
	printf 'open 1\n%s\n%s\n' "$(ask 1 "$1")" "$(ask 2 "$1")" >"$dir/commands"
	"$cyberos" skill broker run --quiet --store "$dir/store" \
	    --result "$dir/result" "$dir/skill" <"$dir/commands" >"$dir/out"
	id=$(jq -r .invocation_id "$dir/result")
	cat "$dir"/store/audit/*/seg/*/"$id".p*.jsonl |
	    jq -r 'select(.kind == "skill.tool_call_completed") |
		.payload.duration_ms * 1000000' | tail -n 1
}
ask() {
	printf 'send 1 {"jsonrpc":"2.0","id":%d,"method":"tool.call","params":{"tool":"Grep","args":%s}}\nfull 1 120000' \
	    "$1" "$2"
}

# turn NAME JSON-ARGS RG-ARGS...
turn() {
	name=$1 args=$2
	shift 2
	: >"$dir/ours" ; : >"$dir/theirs"
	i=0
	while [ $i -lt "$rounds" ]; do
		ours "$args" >>"$dir/ours"
		begun=$(now)
		rg -j1 --no-config --no-ignore --hidden --column -n --sort path "$@" \
		    "$dir/tree" >"$dir/rg"
		echo $(($(now) - begun)) >>"$dir/theirs"
		i=$((i + 1))
	done
	got=$(tail -n 1 "$dir/out" | sed 's/^1 //' | jq '.result.matches | length')
	[ "$got" = "$(wc -l <"$dir/rg")" ] || {
		echo "$name: $got lines found, rg finds $(wc -l <"$dir/rg")" >&2
		exit 1
	}
	paste -d ' ' "$dir/ours" "$dir/theirs" |
	    awk '{ printf "%.2f\n", $1 / $2 }' >"$dir/ratios"
	printf 'grep_%s_to_rg\t%s\t%s\t<=1.5\t%s\t%s\n' "$name" \
	    "$(median <"$dir/ratios")" "$(spread <"$dir/ratios")" \
	    "$(median <"$dir/ours")" "$(median <"$dir/theirs")"
}

# peak PATH: the most memory that the worker had, in KiB, for all of PATH
peak() {
	mkfifo "$dir/in"
	: >"$dir/out"
	"$cyberos" skill broker run --quiet --store "$dir/store" "$dir/skill" \
	    <"$dir/in" >>"$dir/out" &
	run=$!
	exec 4>"$dir/in"
	printf 'open 1\n%s\n' "$(ask 1 "{\"pattern\":\"[A-Z][a-z]+[0-9]+\",\"path\":\"$1\",\"limit\":100000}")" >&4
	while [ ! -s "$dir/out" ] && kill -0 $run; do sleep 0.1; done
	broker=$("$cyberos" skill broker status --store "$dir/store" --json |
	    jq '.invocations[0].pid')
	awk '/^VmHWM/ { print $2 }' \
	    "/proc/$(pgrep -P "$broker" -x cyberos-walk)/status"
	exec 4>&-
	wait $run
	rm "$dir/in"
}

printf '# what\tratio\tspread\tgoal\tours_ns\ttheirs_ns (%s files)\n' "$files"
turn literal '{"pattern":"Needle","limit":100000}' Needle
turn regex '{"pattern":"Needle[0-9]+ l.es","limit":100000}' 'Needle[0-9]+ l.es'
turn nocase '{"pattern":"needle","ignore_case":true,"limit":100000}' -i needle
turn class '{"pattern":"[A-Z][a-z]+[0-9]+","limit":100000}' '[A-Z][a-z]+[0-9]+'
few=$(peak "$dir/tree/d000")
all=$(peak "$dir/tree")
printf 'walk_worker_peak_kib\t%s\t%s\tflat\n' "$(awk "BEGIN { printf \"%.2f\", $all / $few }")" \
    "$few for the first thousand files, $all for all"
