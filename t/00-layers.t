#!/bin/sh
# The rooms of the house: who may include whom, what a file exports, that no
# program state hides at file scope.
# shellcheck source=t/lib.sh
. ./t/lib.sh

FOLDERS='audit enforce tools broker supervisor'

# allowed FOLDER: what its files may include
allowed() {
	case $1 in
	audit) echo audit ;;
	enforce) echo enforce ;;
	tools) echo 'audit enforce tools' ;;
	broker) echo 'audit enforce tools broker' ;;
	supervisor) echo "$FOLDERS" ;;
	esac
}

# Headers that only their own folder may see.
private() {
	case $1 in
	enforce/yaml.h | enforce/landlock.h | enforce/seccomp.h | \
	    enforce/filter.h) return 0 ;;
	broker/frame.h | broker/rpc.h | broker/dispatch.h | broker/limit.h | \
	    broker/clockwork.h | broker/server.h | broker/fold.h | \
	    broker/tracer.h) return 0 ;;
	esac
	return 1
}

# includes FILE: the names between quotes
includes() {
	sed -n 's/^[ 	]*#[ 	]*include[ 	]*"\([^"]*\)".*/\1/p' "$1"
}

# look FILE FOLDER: includes that its room does not allow
look() {
	for name in $(includes "$1"); do
		room=${name%/*}
		case " $(allowed "$2") " in
		*" $room "*) ;;
		*) echo "$1 includes $name" ;;
		esac
		private "$name" && [ "$room" != "$2" ] &&
		    echo "$1 includes $name, which is private"
	done
}

# none TEXT NAME: nothing was found
none() { is "$1" '' "$2"; }

look_at_folders() {
	for folder in $FOLDERS; do
		for file in "$folder"/*.[ch]; do
			look "$file" "$folder"
		done
	done
}
none "$(look_at_folders)" 'includes point down only'

# A unit test sees what its module sees, and the tests' own two headers, of which
# ledger.h is for those of audit/. Of a private header only
# the folder's own tests know. MODULE-WHAT.c is a further test of a module.
look_at_units() {
	for file in t/unit/*.c; do
		name=${file##*/}
		case $name in *-*.c) name=${name%%-*}.c ;; esac
		for folder in $FOLDERS; do
			[ -f "$folder/$name" ] || continue
			sed '/"t\/unit\/tap.h"/d; /"tap.h"/d' "$file" >"$T/unit.c"
			[ "$folder" != audit ] ||
			    sed -i '/"t\/unit\/ledger.h"/d' "$T/unit.c"
			look "$T/unit.c" "$folder" | sed "s|$T/unit.c|$file|"
			continue 2
		done
		echo "$file tests no module"
	done
	look t/unit/ledger.h audit
}
none "$(look_at_units)" 'unit tests include their module and what is below'

# The checks above see what they look for.
mkdir "$T/audit"
printf '#include "enforce/glob.h"\n # include "broker/frame.h"\n' \
    >"$T/audit/x.c"
is "$(look "$T/audit/x.c" audit | wc -l | tr -d ' ')" 3 \
    'a wrong include would be seen'

# One noun, one file, one header. Two pairs of files share a header, since the
# second file is one more part of the same noun.
look_for_headers() {
	for folder in $FOLDERS; do
		for file in "$folder"/*.c; do
			[ -f "${file%.c}.h" ] && continue
			case $file in
			enforce/filter_main.c)
				grep -q '"enforce/filter.h"' "$file"
				;;
			enforce/ed25519_main.c)
				grep -q '"enforce/signature.h"' "$file"
				;;
			tools/net_main.c) grep -q '"tools/http.h"' "$file" ;;
			broker/channel.c) grep -q '"broker/broker.h"' "$file" ;;
			supervisor/main.c | supervisor/run.c | \
			    supervisor/supervise.c | supervisor/quarantine.c | \
			    supervisor/client.c | \
			    supervisor/doctor.c | supervisor/bench.c | supervisor/ledger.c | \
			    supervisor/replay.c | supervisor/scaffold.c | \
			    supervisor/try.c | supervisor/import.c)
				grep -q '"supervisor/commands.h"' "$file"
				;;
			*) false ;;
			esac || echo "$file has no header"
		done
		for file in "$folder"/*.h; do
			[ -f "${file%.h}.c" ] && continue
			case $file in
			supervisor/commands.h | supervisor/exit.h) ;;
			*) echo "$file has no source" ;;
			esac
		done
	done
}
none "$(look_for_headers)" 'every source has its header'

first_include() {
	for file in audit/*.c enforce/*.c tools/*.c broker/*.c; do
		[ -f "${file%.c}.h" ] || continue
		[ "$(includes "$file" | head -n 1)" = "${file%.c}.h" ] ||
		    echo "$file"
	done
}
none "$(first_include)" 'a source includes its own header first'

top_comment() {
	for file in audit/*.c enforce/*.c tools/*.c broker/*.c supervisor/*.c; do
		[ "$(head -c 2 "$file")" = '/*' ] || echo "$file"
	done
}
none "$(top_comment)" 'a source says on top what it guarantees'

# State at file scope: objects in sections that can be written. What is made
# read-only once the program is relocated is constant; the C library's own have
# a version behind them or begin with two underscores. Libraries may be linked
# from archives: a local symbol is ours when its source is, and of global ones
# only those of libraries are known by their names.
state() {
	objdump -t "$CYBEROS" | awk -v ours="$(ls audit enforce tools broker \
	    supervisor | tr '\n' ' ')s.c " '
	    $2 == "l" && $3 == "df" { file = $NF; next }
	    $2 == "l" && index(" " ours, " " file " ") == 0 { next }
	    $NF ~ /^(OPENSSL_|_pcre2_|yaml_|sys_|arch_def_|seccomp_api_)/ { next }
	    $4 ~ /^\.(data|bss|tdata|tbss|data\.rel|data\.rel\.local)$/ &&
	    $3 == "O" || ($3 == "O" && $2 == "g" && $4 == "COMMON") {
		name = $NF
		if (name ~ /@/ || name ~ /^__/ || name ~ /^completed\.[0-9]+$/ ||
		    name ~ /[aut]san/ || name ~ /^\.?L?ASAN/ || name ~ /^\.L/)
			next
		print name
	    }'
}
is "$(objdump -t "$CYBEROS" | grep -c ' main$')" 1 'the program has its symbols'
none "$(state)" 'no state at file scope'
stateful=$(
	printf 'static int seen;\nint main(void) { return seen++; }\n' >"$T/s.c"
	cc -o "$T/s" "$T/s.c" && CYBEROS=$T/s state
)
is "$stateful" seen 'state at file scope would be seen'

# Words that have no place in what is shipped; spelt so that this file passes.
words="TO""DO|FIX""ME|\\.\\./sha""red"
found=$(grep -rnE "$words" Makefile README.md man audit enforce tools broker \
    supervisor t .ci 2>/dev/null --include='*.[ch1-9]' --include='*.t' \
    --include='*.sh' --include='*.md' --include=Makefile |
    grep -v '^t/vectors/')
none "$found" 'nothing is left undone, nothing points outside'

done_testing
