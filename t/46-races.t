#!/bin/sh
# Somebody renames things while calls run: never a byte from outside, never a
# byte to outside, and nothing leaks in the broker.
# shellcheck source=t/lib.sh
. t/lib.sh
# shellcheck source=t/live.sh
. t/live.sh

TAMPER=$PWD/t/skills/tamper/main
READS=${READS:-20000} # 50000 in the long form
WRITES=${WRITES:-4000} # 50000 in the long form
D=$T/d
OK="x-allowed-files: [\"$D/ok/**\"]"
GRANT='allowed_tools: [Read, Write, Edit, MemoryRead, MemoryEmit]'
SCOPE='allowed_memory_scopes: ["memories/ok/**"]'

# most A B: the larger number
most() { if [ "$1" -gt "$2" ]; then echo "$1"; else echo "$2"; fi; }
# flipping A B: exchange them until still
flipping() {
	rm -f "$T/hold"
	mkfifo "$T/hold"
	"$TAMPER" flip "$1" "$2" <"$T/hold" >"$T/flips" &
	FLIPPER=$!
	exec 5>"$T/hold"
}
still() {
	exec 5>&-
	wait "$FLIPPER"
	is $? 0 "$1: the names were exchanged all the time"
	like "$(cat "$T/flips")" 'flips [0-9]{3,}' "$1: many times"
}
# round COUNT PARAMS...: for a live storm; its answers end up in $T/round
round() {
	r_count=$1
	shift
	: >"$T/live.out"
	live_say "$r_count 8 $#"
	for r_params in "$@"; do
		live_say "$r_params"
	done
	live_wait "^done $r_count" 300
	ok $? "$r_count calls are answered"
	cp "$T/live.out" "$T/round"
}
# kinds: what the answers were, in short
kinds() {
	sed -n 's/^[0-9]* {/{/p' "$T/round" | jq -r '
	    if .error then "\(.error.code) \(.error.data.reason // .error.message)"
	    elif .result.body then "body \(.result.body | rtrimstr("\n"))"
	    else "ok" end' | sort -u
}
# descriptors of the broker: their number where the kernel tells it, and the
# size of the table, which only ever grows
descriptors() {
	f_pid=$(live_broker)
	if is_root; then
		find "/proc/$f_pid/fd" -mindepth 1 -maxdepth 1 | wc -l
	else
		sed -n 's/^FDSize:[^0-9]*//p' "/proc/$f_pid/status"
	fi
}

# --- a directory on the way is exchanged for a link out (case P5) ---

mkdir -p "$D/ok/sub" "$D/out"
echo inside >"$D/ok/sub/f"
echo MARKER >"$D/out/f"
ln -s "$D/out" "$D/ok/link"
skill storm "$GRANT" "$OK" "$SCOPE" <t/skills/storm/main
live_start storm
read_f="{\"tool\":\"Read\",\"args\":{\"path\":\"$D/ok/sub/f\"}}"
round 200 "$read_f" \
    "{\"tool\":\"Write\",\"args\":{\"path\":\"$D/ok/sub/n\",\"body\":\"x\"}}"
before=$(descriptors)
flipping "$D/ok/sub" "$D/ok/link"
round "$READS" "$read_f"
still "case P5"
is "$(descriptors)" "$before" "case P5: no descriptor is left open in the broker"
is "$(kinds)" "-32603 file_violation
body inside" "case P5: what is answered is the inside or a refusal"
unlike "$(cat "$T/round")" MARKER "case P5: nothing from outside"

# Writing: whatever is answered, nothing outside changes.
write_n="{\"tool\":\"Write\",\"args\":{\"path\":\"$D/ok/sub/n\",\"body\":\"written\"}}"
append_f="{\"tool\":\"Write\",\"args\":{\"path\":\"$D/ok/sub/log\",\"body\":\"x\",\"mode\":\"append\"}}"
create_c="{\"tool\":\"Write\",\"args\":{\"path\":\"$D/ok/sub/c\",\"body\":\"c\",\"mode\":\"create\"}}"
edit_f="{\"tool\":\"Edit\",\"args\":{\"path\":\"$D/ok/sub/f\",\"old\":\"MARKER\",\"new\":\"x\"}}"
was=$(stat -c '%i %Y %Z %s' "$D/out/f")
before=$(descriptors)
flipping "$D/ok/sub" "$D/ok/link"
round "$WRITES" "$write_n" "$append_f" "$create_c" "$edit_f"
still "case P5, writing"
is "$(descriptors)" "$before" "case P5, writing: no descriptor is left open"
is "$(stat -c '%i %Y %Z %s' "$D/out/f") $(ls -A "$D/out")" "$was f" \
    "case P5, writing: nothing was made or changed outside"
is "$(cat "$D/ok/sub/f") $(cat "$D/ok/sub/n")" "inside written" \
    "case P5, writing: but inside"
is "$(kinds | grep -v -e '^ok$' -e '^-32000 exists' -e '^-32000 not_found' -e '^-32000 permission' -e '^-32603 file_violation')" \
    "" "case P5, writing: the answers are the expected ones"
is "$(find "$D" -name '.cyberos-*')" "" "no temporary file is left"

# The last component: a file for a link out, for a hard link, for a FIFO.
echo inside >"$D/ok/g"
ln -s "$D/out/f" "$D/ok/g.link"
flipping "$D/ok/g" "$D/ok/g.link"
round "$(most $((READS / 4)) 5000)" "{\"tool\":\"Read\",\"args\":{\"path\":\"$D/ok/g\"}}"
still "a link in the last place"
is "$(kinds | grep -v -e '^body inside$' -e '^-32603 file_violation$')" "" \
    "a link in the last place: the inside or a refusal"
flipping "$D/ok/g" "$D/ok/g.link"
round $((WRITES / 5)) "{\"tool\":\"Write\",\"args\":{\"path\":\"$D/ok/g\",\"body\":\"inside\"}}" \
    "{\"tool\":\"Write\",\"args\":{\"path\":\"$D/ok/g\",\"body\":\"!\",\"mode\":\"append\"}}" \
    "{\"tool\":\"Edit\",\"args\":{\"path\":\"$D/ok/g\",\"old\":\"inside\",\"new\":\"insid\"}}"
still "a link in the last place, writing"
is "$(stat -c '%i %Y %Z %s' "$D/out/f")" "$was" \
    "a link in the last place, writing: nothing was changed outside"
echo inside >"$D/ok/h"
ln "$D/out/f" "$D/ok/h.link"
was=$(stat -c '%i %Y %s' "$D/out/f")
flipping "$D/ok/h" "$D/ok/h.link"
round $((WRITES / 2)) "{\"tool\":\"Write\",\"args\":{\"path\":\"$D/ok/h\",\"body\":\"SPOILT\",\"mode\":\"append\"}}" \
    "{\"tool\":\"Edit\",\"args\":{\"path\":\"$D/ok/h\",\"old\":\"M\",\"new\":\"SPOILT\"}}"
still "a hard link"
is "$(stat -c '%i %Y %s' "$D/out/f") $(cat "$D/out/f")" "$was MARKER" \
    "a hard link: the file outside is as it was"
rm -f "$D/ok/h.link"
mkfifo "$D/ok/p"
echo inside >"$D/ok/q"
flipping "$D/ok/p" "$D/ok/q"
round "$(most $((READS / 7)) 3000)" "{\"tool\":\"Read\",\"args\":{\"path\":\"$D/ok/q\"}}"
still "a FIFO"
is "$(kinds | grep -v -e '^body inside$' -e '^-32603 file_violation$')" "" \
    "a FIFO: nobody waits for it"

# A granted directory is moved out while it is used.
mkdir "$D/ok/mv" "$D/out/mv"
echo inside >"$D/ok/mv/f"
echo MARKER >"$D/out/mv/f"
flipping "$D/ok/mv" "$D/out/mv"
round "$(most $((READS / 4)) 5000)" "{\"tool\":\"Read\",\"args\":{\"path\":\"$D/ok/mv/f\"}}"
still "a directory that is moved"
# Either of them is really there, half of the time: no lie in either answer.
is "$(kinds | grep -v -e '^body inside$' -e '^body MARKER$' -e '^-32603 file_violation$' -e '^-32000 not_found$' -e '^-32000 permission$')" \
    "" "a directory that is moved: what was there or a refusal"

# --- the store ---

mkdir -p "$STORE/memories/ok/sub" "$STORE/memories/hr"
echo inside >"$STORE/memories/ok/sub/f"
echo MARKER >"$STORE/memories/hr/f"
ln -s ../hr "$STORE/memories/ok/link"
was=$(stat -c '%i %Y %Z %s' "$STORE/memories/hr/f")
before=$(descriptors)
flipping "$STORE/memories/ok/sub" "$STORE/memories/ok/link"
round "$(most "$READS" 20000)" '{"tool":"MemoryRead","args":{"path":"memories/ok/sub/f"}}'
is "$(kinds | grep -v -e '^body inside$' -e '^-32603 scope_violation$')" "" \
    "memory: the inside or a refusal"
round "$(most $((WRITES / 2)) 2000)" '{"tool":"MemoryEmit","args":{"kind":"a.b","path":"memories/ok/sub/new/f","body":"x"}}'
still "memory"
is "$(kinds | grep -v -e '^ok$' -e '^-32603 scope_violation' -e '^-32000 io_error')" "" \
    "memory: emitted or refused"
is "$(stat -c '%i %Y %Z %s' "$STORE/memories/hr/f") $(ls -A "$STORE/memories/hr")" \
    "$was f" "memory: nothing was made or changed outside of the scope"
echo inside >"$STORE/memories/ok/e"
ln "$STORE/memories/hr/f" "$STORE/memories/ok/e.link"
was=$(stat -c '%i %Y %s' "$STORE/memories/hr/f")
flipping "$STORE/memories/ok/e" "$STORE/memories/ok/e.link"
round $((WRITES / 2)) '{"tool":"MemoryEmit","args":{"kind":"a.b","path":"memories/ok/e","body":"x"}}'
still "memory, a hard link"
is "$(kinds | grep -v -e '^ok$' -e '^-32603 scope_violation')" "" \
    "memory, a hard link: emitted or refused"
is "$(stat -c '%i %Y %s' "$STORE/memories/hr/f") $(cat "$STORE/memories/hr/f")" \
    "$was MARKER" "memory, a hard link: the other file is as it was"
is "$(descriptors)" "$before" "memory: no descriptor is left open"

live_end
is "$(find "$D" "$STORE" -name '.cyberos-*')" "" "no file in the making is left"
is "$RC $(result outcome)" "0 success" "the broker has lived through all of it"
# jq would take its time for so many rows.
# One that was refused while it ran has a start as well, and its number.
segment | grep -v '"violation":.*,"call":[0-9]*}' | sed 's/.*"by":"broker","kind":"\([a-z_.]*\)".*/\1/' | sort | uniq -c |
    sed 's/^ *//' >"$T/kinds"
kind() { sed -n "s/ skill.$1$//p" "$T/kinds"; }
is "$(kind tool_call_started)" "$(kind tool_call_completed)" \
    "every call that was started was completed"
is "$(($(kind tool_call_started) + $(kind tool_denied)))" "$(result calls)" \
    "and every call is in the ledger"
is "$(segment | grep -c MARKER)" 0 "nothing of the outside is in the ledger"

# --- the store is mounted into the grant and taken away again ---

if is_root && unshare -m true 2>/dev/null; then
	mkdir -p "$D/ok/m/memories/hr"
	echo inside >"$D/ok/m/memories/hr/f"
	unshare -m sleep 600 &
	SPACE=$!
	until_apart() {
		[ "$(readlink "/proc/$SPACE/ns/mnt")" != "$(readlink /proc/self/ns/mnt)" ]
	}
	until until_apart; do sleep 0.02; done
	REAL=$CYBEROS
	printf '#!/bin/sh\nexec nsenter -m -t %s -- %s "$@"\n' "$SPACE" "$REAL" >"$T/there"
	chmod 755 "$T/there"
	CYBEROS=$T/there
	was=$(stat -c '%i %Y %Z %s' "$STORE/memories/hr/f")
	live_start storm
	read_m="{\"tool\":\"Read\",\"args\":{\"path\":\"$D/ok/m/memories/hr/f\"}}"
	round 200 "$read_m" \
	    "{\"tool\":\"Write\",\"args\":{\"path\":\"$D/ok/m/memories/hr/n\",\"body\":\"written\"}}"
	before=$(descriptors)
	rm -f "$T/hold"
	mkfifo "$T/hold"
	nsenter -m -t "$SPACE" -- "$TAMPER" cover "$D/ok/m" "$STORE" <"$T/hold" >"$T/flips" &
	FLIPPER=$!
	exec 5>"$T/hold"
	round $((READS / 10)) "$read_m"
	is "$(kinds | grep -v -e '^body inside$' -e '^-32603 protected$' -e '^-32603 file_violation$')" \
	    "" "a mount of the store: the inside or a refusal"
	round "$((WRITES / 2))" \
	    "{\"tool\":\"Write\",\"args\":{\"path\":\"$D/ok/m/memories/hr/n\",\"body\":\"written\"}}" \
	    "{\"tool\":\"Write\",\"args\":{\"path\":\"$D/ok/m/memories/hr/f\",\"body\":\"inside\"}}" \
	    "{\"tool\":\"Edit\",\"args\":{\"path\":\"$D/ok/m/memories/hr/f\",\"old\":\"MARKER\",\"new\":\"x\"}}"
	still "a mount of the store"
	is "$(stat -c '%i %Y %Z %s' "$STORE/memories/hr/f") $(ls -A "$STORE/memories/hr")" \
	    "$was f" "a mount of the store: nothing was made or changed in it"
	is "$(descriptors)" "$before" "a mount of the store: no descriptor is left open"
	live_end
	is "$(find "$D" "$STORE" -name '.cyberos-*')" "" "a mount of the store: no file in the making is left"
	CYBEROS=$REAL
	kill "$SPACE"
	wait "$SPACE" 2>/dev/null
fi
done_testing
