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

block 'skill: shell' >shell
like "$(cat shell)" 'skill broker run' 'README has the skill in shell'
sh -e shell >out 2>err
is "$?" 5 'in shell: the last call is refused, and that is the exit status'
is "$(sed -n 1p out)" 'hello/SKILL.md: valid: hello 1.0.0' \
    'in shell: it is valid'
like "$(sed -n 2p out)" '^\{"row_id":".*:3","seq":3,' \
    'in shell: the note is recorded'
is "$(sed -n '3,$p' out)" 'hello, world' 'in shell: and read back'
is "$(cat store/memories/hello/first)" 'hello, world' \
    'in shell: the note is on disk'
is "$(cat err)" "$(awk '/^cyberos: scope_violation/ { on = 1 }
    /^```/ { on = 0 }
    on' "$README")" 'in shell: what is said is what README says'
is "$(jq -r 'select(.kind == "skill.tool_denied") | .payload.violation' \
    store/audit/*/seg/*/*.jsonl)" memories/secrets \
    'in shell: the refusal is in the ledger'

block 'skill: python' >hello/main
like "$(cat hello/main)" '^import json, os, socket, struct$' \
    'README has the skill in Python'
# The interpreter that a skill sees, not one of this user's.
if /usr/bin/python3 -c 'import json, os, socket, struct' 2>/dev/null; then
	./cyberos skill broker run --store store ./hello >out 2>err
	is "$?" 0 'in Python: it runs to its end'
	is "$(cat out)" "hello, socket
add a glob that matches the path to allowed_memory_scopes in SKILL.md" \
	    'in Python: one call does, the other does not'
	is "$(cat err)" '' 'in Python: nothing else is said'
	is "$(cat store/memories/hello/second)" 'hello, socket' \
	    'in Python: the note is on disk'
else
	skip 'in Python' 'no /usr/bin/python3 with json (package python3)'
fi

# What it says is not there is not there, and nothing else is missing.
status() { awk '/^## Status/ { on = 1; next } /^## / { on = 0 } on' "$README"; }
there=
# shellcheck disable=SC2016 # backquotes of Markdown
status | sed -n '/^Not here yet/,/^`cyberos/p' | grep -o '`[a-z]*`' | tr -d '`' \
    >words
while read -r word; do
	for group in 'skill broker' skill; do
		# shellcheck disable=SC2086 # two words
		./cyberos $group "$word" --help >/dev/null 2>&1
		[ "$?" -eq 2 ] || there="$there $group $word;"
	done
done <words
[ "$(wc -l <words)" -ge 8 ] || there="$there (no words)"
is "$there" '' 'no command that it calls missing is there'
missing=
./cyberos --help | sed -n 's/^  cyberos skill \(broker \)\{0,1\}\([a-z]*\).*/\2/p' \
    >words
# shellcheck disable=SC2016 # backquotes of Markdown
while read -r word; do
	status | sed '/^Not here yet/,$d' | grep -qF '`'"$word"'`' ||
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
