# What the benchmarks share: a place, a skill that reads a note of 1 KiB, and
# how a list of numbers is told. The first argument of a benchmark is the build
# directory; it removes $dir.
# shellcheck shell=sh

# shellcheck disable=SC2034 # the benchmarks use them
cyberos=${CYBEROS:-$PWD/cyberos}
bin=$PWD/${1:-build}/bench
dir=$(mktemp -d "${TMPDIR:-/tmp}/cyberos-bench.XXXXXX")
chmod 755 "$dir"

# Of numbers on standard input, one a line.
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
spread() { sort -n | awk '{ v[NR] = $1 } END { printf "%s..%s", v[1], v[NR] }'; }

# reader NAME: a skill in $dir/NAME that runs build/bench/call, with its note in
# the memory of $dir/store
reader() {
	mkdir -p "$dir/$1" "$dir/store/memories/bench"
	chmod 700 "$dir/store"
	head -c 1024 /dev/zero | tr '\0' 'n' >"$dir/store/memories/bench/note"
	cat >"$dir/$1/SKILL.md" <<-EOT
	---
	id: $1
	version: 1.0.0
	description: Reads a note again and again
	allowed_tools: [MemoryRead]
	allowed_memory_scopes: ["memories/bench/**"]
	---
	EOT
	cp "$bin/call" "$dir/$1/main"
}
