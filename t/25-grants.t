#!/bin/sh
# The worked grants of cyberos-skill(5): each is valid, without a warning that
# the page does not speak of, and each call beside it has the outcome that
# stands there.
# shellcheck disable=SC2016 # dollars are the skill's
. t/lib.sh

# The lines of example $1 and, in $T/calls.$1, the calls.
awk -v dir="$T" '/^\.Ss Worked grants/ { on = 1 }
    /^\.Sh/ { on = 0 }
    !on { next }
    /^\.It$/ { n++ }
    /^\.Bd/ { out = dir "/" (/indent/ ? "calls." : "lines.") n; next }
    /^\.Ed/ { out = ""; next }
    out != "" { print > out }' man/cyberos-skill.5

is "$(find "$T" -name 'lines.*' | wc -l) $(find "$T" -name 'calls.*' | wc -l)" \
    '10 10' 'there are ten'

# argument TOOL TEXT: its words on a command line
argument() {
	case $1 in
	Http*) echo "url=$2" ;;
	Bash) echo "cmd='$2'" ;;
	MemoryEmit) echo "kind=a.b path=$2" ;;
	Write) echo "path=$2 body=x" ;;
	*) echo "path=$2" ;;
	esac
}

for n in 1 2 3 4 5 6 7 8 9 10; do
	# What may go out is not tried: it would leave the machine.
	grep -vE '^Http.* yes$' "$T/calls.$n" |
	    while read -r tool text; do
		echo "cyberos skill call $tool $(argument "$tool" "${text%  *}") >/tmp/out 2>&1 </dev/null"
		echo 'echo "$?"'
	done >"$T/script"
	grep -vE '^Http.* yes$' "$T/calls.$n" | sed 's/.*  //' >"$T/want"
	set -- "$(cat "$T/script")"
	while IFS= read -r line; do
		set -- "$@" "$line"
	done <"$T/lines.$n"
	in_skill "$@"
	is "$RC $(printf '%s\n' "$OUT" | wc -l)" "0 $(wc -l <"$T/want")" \
	    "grant $n: valid, and every call was made"
	printf '%s\n' "$OUT" | paste - "$T/want" >"$T/both"
	while read -r status want; do
		if [ "$want" = yes ]; then
			[ "$status" -le 1 ]
			ok "$?" "grant $n: a call is granted ($status)"
		else
			is "$status" 5 "grant $n: a call is refused"
		fi
	done <"$T/both"
	is "$(rows skill.tool_denied '| .reason' | tr -d '"')" \
	    "$(grep -v '^yes$' "$T/want")" "grant $n: with these reasons"
	warned=$("$CYBEROS" skill validate "$T/skills/probe" |
	    grep -c 'warning' | tr -d ' ')
	case $n in
	9) want=1 ;;	# Bash together with a tree
	10) want=1 ;;	# one level, on purpose
	*) want=0 ;;
	esac
	is "$warned" "$want" "grant $n: warnings"
done
like "$(grep -E '^Http' "$T"/calls.* | grep -c ' yes$')" '^[1-9]' \
    'granted requests are in the page'

done_testing
