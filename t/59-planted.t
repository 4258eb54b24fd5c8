#!/bin/sh
# A matcher that grants everything (a test build): the broker's own confinement
# still keeps it to the memory directories and the granted prefixes.
# shellcheck source=t/lib.sh
. t/lib.sh

PLANTED=${PLANTED:-$PWD/build/unit/planted}
mkdir -p "$T/ok" "$T/off" "$STORE/memories" "$STORE/company"
chmod 700 "$STORE"
echo inside >"$T/ok/f"
echo secret >"$T/off/f"
echo inside >"$STORE/memories/m"
echo secret >"$STORE/company/m"
chmod 600 "$STORE/memories/m" "$STORE/company/m"

script="try() { cyberos skill call \"\$@\" 2>&1 | tr '\n' ' '; echo; }
try --raw body Read path=$T/ok/f
try --raw body Read path=$T/off/f
try --raw body Read path=/etc/hostname
try --raw bytes Write path=$T/ok/new body=x
try --raw bytes Write path=$T/off/new body=x
try --raw bytes Write path=$T/off/f body=x
try --raw bytes Write path=$T/off/f body=x mode=append
try --raw replacements Edit path=$T/off/f old=secret new=x
try --raw body MemoryRead path=memories/m
try --raw body MemoryRead path=company/m
try --raw row_id MemoryEmit kind=a.b path=company/new body=x
exit 0"
tools='allowed_tools: [Read, Write, Edit, MemoryRead, MemoryEmit]'
files="x-allowed-files: ['$T/ok/**']"
scopes="allowed_memory_scopes: ['memories/**']"

# The build is broken as meant: with both directories granted it reads both.
CYBEROS=$PLANTED
in_skill "cyberos skill call --raw body Read path=$T/off/f" \
    "$tools" "x-allowed-files: ['$T/ok/nothing-like-it', '$T/off/x']"
is "$OUT" secret 'the planted bug grants what no glob does'

in_skill "$script" "$tools" "$files" "$scopes"
line() { sed -n "${1}p" "$T/out" | sed 's/  *$//'; }
is "$(result sandbox.landlock)" active 'Landlock is there'
is "$(line 1)" inside 'the granted file is read'
like "$(line 2)" 'permission' 'a file outside is not'
like "$(line 3)" 'permission' 'nor one of /etc'
is "$(line 4)" 1 'a granted file is written'
like "$(line 5)" 'permission' 'none is made outside'
like "$(line 6)" 'permission' 'none is replaced outside'
like "$(line 7)" 'permission' 'nothing is appended outside'
like "$(line 8)" 'permission' 'nothing is edited outside'
is "$(line 9)" inside 'granted memory is read'
like "$(line 10)" 'permission' 'memory no scope can reach is not'
like "$(line 11)" 'permission' 'and nothing is put there'
is "$(cat "$T/off/f")" secret 'the file outside is as it was'
is "$(ls "$T/off" "$STORE/company" | tr '\n' ' ')" \
    "$T/off: f  $STORE/company: m " 'nothing new is outside'
unlike "$OUT" secret 'nothing of it was ever answered'
done_testing
