#!/bin/sh
# What README.md tells a newcomer to type, typed.
. t/lib.sh

README=$PWD/README.md

# block MARK: the fenced block behind <!-- MARK -->
block() {
	awk -v mark="<!-- $1 -->" '
	    $0 == mark { found = 1; next }
	    found && /^```/ { if (on) exit; on = 1; next }
	    on' "$README"
}

cd "$T" || exit 99
ln -s "$CYBEROS" cyberos
ln -s "${README%/*}/man" man

block 'skill: begin' >begin
like "$(cat begin)" 'skill scaffold' 'README begins a skill'
sh -e begin >out 2>err
is "$? $(cat err)" '0 ' 'it is made and runs'
# Times and milliseconds are others each time.
timeless() { sed -E 's/^[0-9:.]{12} /TIME /; s/(success) +[0-9]+/\1 N/'; }
is "$(sed -n '/: valid: /,$p' out | timeless)" \
    "$(block 'skill: tried' | timeless)" 'what comes out is what README says'
# shellcheck disable=SC2065 # the skill's own test, no test(1)
CYBEROS=./cyberos hello/test >out
is "$? $(grep -c '^ok' out)" '0 3' 'its test passes'

block 'skill: more' >further
sh -e further >out 2>err
is "$?" 5 'a call that is refused: that is the exit status'
is "$(cat err)" "$(awk '/^cyberos: scope_violation/ { on = 1 }
    /^```/ { on = 0 }
    on' "$README")" 'what is said is what README says'

block 'skill: run' >run
sh -e run >out 2>err
is "$?" 5 'it runs with a store that stays'
is "$(sed -n 1p out)" 'Hello, world' 'its note is read back'
is "$(cat store/memories/hello/greeting)" 'Hello, world' \
    'the note is on disk'
is "$(jq -r 'select(.kind == "skill.tool_denied") | .payload.violation' \
    store/audit/*/seg/*/*.jsonl)" memories/secrets \
    'the refusal is in the ledger'

block 'skill: python' >python
like "$(cat python)" '^import cyberos$' 'README has the skill in Python'
# The interpreter that a skill sees, not one of this user's.
if /usr/bin/python3 -c 'import json, socket, struct' 2>/dev/null; then
	sh -e python >out 2>err
	is "$?" 0 'in Python: it runs to its end'
	is "$(cat out)" "hello, python
add a glob that matches the path to allowed_memory_scopes in SKILL.md" \
	    'in Python: one call does, the other does not'
	is "$(cat err)" '' 'in Python: nothing else is said'
	is "$(cat store/memories/hello/second)" 'hello, python' \
	    'in Python: the note is on disk'
else
	skip 'in Python' 'no /usr/bin/python3 with json (package python3)'
fi

# Its status names every command.
status() { awk '/^## Status/ { on = 1; next } /^## / { on = 0 } on' "$README"; }
missing=
./cyberos --help | sed -n 's/^  cyberos skill \(broker \)\{0,1\}\([a-z]*\).*/\2/p' \
    >words
# shellcheck disable=SC2016 # backquotes of Markdown
while read -r word; do
	status | grep -qF '`'"$word"'`' ||
	    missing="$missing $word"
done <words
[ "$(wc -l <words)" -ge 5 ] || missing="$missing (no commands)"
is "$missing" '' 'every command that is there is in its status'

# The files that it names are there.
cd - >/dev/null || exit 99
missing=
# shellcheck disable=SC2016 # backquotes of Markdown
for f in $(grep -o '`[A-Za-z0-9_.-]*/[A-Za-z0-9_./-]*`' "$README" | tr -d '`' |
    grep -Ev '^(store|hello|unit)/'); do
	[ -e "$f" ] || missing="$missing $f"
done
is "$missing" '' 'every file that README names is there'

done_testing
