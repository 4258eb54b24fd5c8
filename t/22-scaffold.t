#!/bin/sh
# cyberos skill scaffold: a skill in each language that runs at once, is valid,
# passes its own test, and never costs anybody a file.
# shellcheck disable=SC2065 # test is a file of ours
. t/lib.sh
export CYBEROS

cd "$T" || exit 99

# scaffold ARG...: leaves RC, OUT, ERR
scaffold() {
	"$CYBEROS" skill scaffold "$@" >"$T/out" 2>"$T/err" </dev/null
	RC=$?
	OUT=$(cat "$T/out")
	ERR=$(cat "$T/err")
}

# has WHAT LANGUAGE: can such a skill run here? By the names that it uses.
has() {
	case $1 in
	python) [ -x /usr/bin/python3 ] ;;
	node) [ -x /usr/bin/node ] ;;
	c) command -v cc >/dev/null && command -v make >/dev/null ;;
	esac
}

for lang in sh python node c; do
	scaffold "my-$lang" --lang "$lang"
	is "$RC $ERR" '0 ' "$lang: it is made"
	like "$OUT" "cyberos skill try my-$lang" "$lang: and says how to go on"
	long=$(awk 'length($0) > 80' "my-$lang"/* "$T/out")
	is "$long" '' "$lang: nothing is wider than 80 columns"
	is "$(grep -l '@ID@' "my-$lang"/*)" '' "$lang: the id is everywhere"
	if [ "$lang" != sh ] && ! has "$lang"; then
		skip "$lang: it runs" "no $lang here"
		continue
	fi
	if [ "$lang" = c ]; then
		like "$("$CYBEROS" skill validate my-c)" 'run make there' \
		    'c: what is missing is told'
		make -s -C my-c CFLAGS='-Wall -Wextra -Werror' >"$T/make" 2>&1
		is "$? $(cat "$T/make")" '0 ' 'c: it is built without a warning'
	fi
	is "$("$CYBEROS" skill validate "my-$lang")" \
	    "my-$lang/SKILL.md: valid: my-$lang 0.1.0" \
	    "$lang: it is valid, without a warning"
	"$CYBEROS" skill try "my-$lang" -- '"you\' >"$T/out" 2>"$T/err"
	is "$? $(cat "$T/err")" '0 ' "$lang: it runs"
	like "$(cat "$T/out")" 'Hello, .*you' "$lang: and greets"
	"my-$lang/test" >"$T/out" 2>&1
	is "$? $(grep -c '^ok - ' "$T/out")" '0 3' "$lang: its test passes"
	# A test that cannot fail is none.
	sed -i 's/^allowed_memory_scopes.*/allowed_memory_scopes: []/' \
	    "my-$lang/SKILL.md"
	"my-$lang/test" >"$T/out" 2>&1
	is "$? $(grep -c '^not ok - ' "$T/out")" '1 3' \
	    "$lang: its test fails without the grant"
	like "$(cat "$T/out")" 'allowed_memory_scopes in SKILL.md' \
	    "$lang: and says what to do"
done
like "$(my-sh/test)" '^not ok' 'the test is found from elsewhere'
ln -s "$CYBEROS" cyberos
scaffold relative
CYBEROS=./cyberos ./relative/test >"$T/out"
is "$?" 0 'and finds the program by a path from here'
PATH=$T:$PATH CYBEROS=cyberos ./relative/test >"$T/out"
is "$?" 0 'and by its name'
CYBEROS=none ./relative/test >"$T/out"
is "$?" 1 'a program that is not there'
like "$(cat "$T/out")" 'set CYBEROS' 'is told'

for id in true false null yes no on off y n; do
	scaffold "$id"
	is "$RC $(sed -n 's/^id: //p' "$id/SKILL.md")" "0 \"$id\"" \
	    "$id: is a word of YAML, and in quotes"
	is "$("$CYBEROS" skill validate "$id")" \
	    "$id/SKILL.md: valid: $id 0.1.0" "$id: it is valid"
done
"$CYBEROS" skill try null -- you >"$T/out" 2>&1
is "$?" 0 'null runs'
scaffold nullable
is "$(sed -n 's/^id: //p' nullable/SKILL.md)" nullable \
    'other ids have no quotes'

scaffold plain
is "$RC $(ls plain | tr '\n' ' ')" '0 SKILL.md main test ' \
    'the shell is the default'
scaffold deep not/there
is "$RC" 1 'a directory above that is not there'
mkdir given
echo mine >given/notes
scaffold given given
is "$RC $(cat given/notes)" '0 mine' 'a directory that has other files'

# --- nothing is written over ---

for taken in SKILL.md main test; do
	for kind in file link directory; do
		rm -rf taken
		mkdir taken
		case $kind in
		file) echo mine >"taken/$taken" ;;
		link) ln -s "$T/outside" "taken/$taken" ;;
		directory) mkdir "taken/$taken" ;;
		esac
		before=$(ls -lR --time-style=full-iso taken)
		scaffold taken
		is "$RC $(ls -lR --time-style=full-iso taken)" "1 $before" \
		    "$taken is there, a $kind: nothing is written"
		like "$ERR" "taken/$taken: is there; nothing was written" \
		    "$taken is there, a $kind: it says so"
	done
done
[ ! -e outside ]
ok "$?" 'no link was followed'
ln -s given linked
scaffold given linked
is "$RC" 1 'a link to a directory that has such files'
echo file >file
scaffold given file
is "$RC $(cat file)" '1 file' 'a file is no directory'
if ! is_root; then
	mkdir -m 555 closed
	scaffold given closed
	is "$RC $(ls closed)" '1 ' 'a directory that cannot be written'
fi

# --- what is no id ---

for id in '' A a_b 1a -- ../up 'a b' 'a
allowed_tools: [Bash]' "$(printf '%065d' 0 | tr 0 a)" 'a # b' 'a: b'; do
	scaffold -- "$id" there
	is "$RC" 2 "no id: $(printf %s "$id" | tr '\n' '?')"
	[ -n "$ERR" ]
	ok "$?" 'it says so'
done
[ ! -e there ]
ok "$?" 'and nothing was made'
scaffold good --lang perl
is "$RC" 2 'no such language'
like "$ERR" 'write sh, python, c or node' 'it names those that there are'
scaffold good one two
is "$RC" 2 'too many words'
scaffold
is "$RC" 2 'no id at all'
[ ! -e good ]
ok "$?" 'and nothing was made'

done_testing
