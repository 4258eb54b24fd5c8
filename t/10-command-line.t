#!/bin/sh
# The command line: help of every command, usage errors, exit statuses.
# shellcheck source=t/lib.sh
. ./t/lib.sh

# cyberos ARG...: leaves RC, OUT, ERR
cyberos() {
	"$CYBEROS" "$@" >"$T/out" 2>"$T/err" </dev/null
	RC=$?
	OUT=$(cat "$T/out")
	ERR=$(cat "$T/err")
}

cyberos --version
is "$RC $OUT" '0 cyberos 1.0.0' '--version'

cyberos --help
is "$RC" 0 '--help exits 0'
is "$ERR" '' '--help says nothing on standard error'
help=$OUT
commands=$(printf '%s\n' "$help" | sed -n 's/^  cyberos \(\([a-z][a-z]* \)*[a-z][a-z]*\).*/\1/p')
is "$(printf '%s\n' "$commands" | grep -cE \
    '^skill (broker (run|status|doctor|tools)|validate|call)$')" 6 \
    'it lists the commands'

cyberos
is "$RC $OUT" '2 ' 'no command is a usage error'
is "$ERR" "$help" 'which shows the help'
cyberos skill --help
is "$RC" 0 'help of a group'
like "$OUT" 'cyberos skill call' 'it lists what is in the group'
cyberos skill broker --help
is "$RC" 0 'help of a group in it'
unlike "$OUT" 'cyberos skill (call|validate)' 'it lists nothing else'
for words in bogus 'skill bogus' 'skill broker bogus' 'skill broker' skill \
    'skill broker runn' 'skill bogus --help' --bogus '-h'; do
	# shellcheck disable=SC2086 # words
	cyberos $words
	is "$RC $OUT" '2 ' "$words: usage error, nothing on standard output"
	like "$ERR" '^usage: cyberos' "$words: shows what there is"
done
cyberos skill broker bogus
like "$ERR" '^cyberos: bogus: no such command' 'the wrong word is named'
cyberos skill broker ''
is "$RC" 2 'an empty word is no command'

# Every command that --help lists.
printf '%s\n' "$commands" >"$T/list"
while read -r command; do
	# shellcheck disable=SC2086 # words
	cyberos $command --help
	is "$RC" 0 "$command --help exits 0"
	like "$OUT" "^usage: cyberos $command" "$command --help: usage"
	is "$ERR" '' "$command --help: nothing on standard error"
	own=$OUT
	# shellcheck disable=SC2086 # words
	cyberos $command --no-such-option x
	is "$RC $OUT" '2 ' "$command: an unknown option is a usage error"
	like "$ERR" "^usage: cyberos $command" "$command: the error shows usage"
	# shellcheck disable=SC2086 # words
	"$CYBEROS" $command --help >/dev/full 2>"$T/err"
	is "$?" 1 "$command --help: no success on a full disk"
	case $command in 'skill broker '*)
		like "$own" '--store' "$command takes --store"
		like "$own" '--config' "$command takes --config"
		;;
	esac
	# What the help shows is taken, whatever comes of it.
	for option in $(printf '%s\n' "$own" | grep -oE -- \
	    '(^  |^ +\[|\[|\| )--[a-z-]+' | grep -oE -- '--[a-z-]+' | sort -u); do
		# shellcheck disable=SC2086 # words
		"$CYBEROS" $command "$option" --help --help 2>&1 </dev/null |
		    grep -E 'unrecognized|ambiguous'
	done >"$T/unknown"
	is "$(cat "$T/unknown")" '' "$command: its help shows only its options"
done <"$T/list"

# wrong NAME ARG...: run with a usage error, before anything is made
wrong() {
	name=$1
	shift
	rm -rf "$STORE"
	cyberos skill broker run --store "$STORE" --skills "$T/skills" "$@"
	is "$RC $OUT" '2 ' "run: $name"
	[ -e "$STORE" ] && note "$STORE was made" && RC=made
	unlike "$ERR $RC" '^ |made$' "run: $name: said why, made nothing"
}
printf '#!/bin/sh\nexit 0\n' | skill probe
wrong 'no skill'
wrong 'an empty skill' ''
wrong 'arguments without --' probe x
wrong 'an option behind the skill' probe --quiet
wrong 'an option without value' --persona
wrong 'id in capitals' --invocation 0A000000-0000-4000-8000-000000000000 probe
wrong 'id in braces' --invocation '{0a000000-0000-4000-8000-000000000000}' probe
wrong 'id too short' --invocation 0a000000-0000-4000-8000-00000000000 probe
wrong 'id too long' --invocation 0a000000-0000-4000-8000-0000000000000 probe
wrong 'id with a path' --invocation ../../../../../../etc/passwd-0123456789 probe
wrong 'empty id' --invocation '' probe
wrong 'tenant that is no UUID' --tenant acme probe
wrong 'tenant with a path' --tenant ../00000-0000-0000-0000-000000000000 probe
for seconds in 0 -1 x 1x '' nan inf 1e999; do
	wrong "--deadline '$seconds'" --deadline "$seconds" probe
done
for seconds in -1 x '' nan inf; do
	wrong "--connect-timeout '$seconds'" --connect-timeout "$seconds" probe
done
wrong '--stdio bogus' --stdio bogus probe
wrong '--stdio empty' --stdio '' probe
wrong 'the id .' .
wrong 'the id ..' ..
rm -rf "$STORE"
cyberos skill broker run --store "$STORE" --skills "$T/skills" probe -- --quiet
is "$RC" 0 'run: what stands behind -- is the skill'\''s'
cyberos skill broker run --store "$STORE" "$T/skills/probe/"
is "$RC" 0 'run: a directory is written with a slash'

cyberos skill broker status --store "$STORE" extra
is "$RC $OUT" '2 ' 'status: an argument too many'
cyberos skill broker status --store "$STORE" --tenant acme
is "$RC $OUT" '2 ' 'status: a tenant that is no UUID'
"$CYBEROS" skill broker status --store "$STORE" >/dev/full 2>"$T/err"
is "$?" 1 'status: no success on a full disk'
cyberos skill broker tools extra
is "$RC $OUT" '2 ' 'tools: an argument too many'
cyberos skill broker tools
is "$(printf '%s' "$OUT" | jq -r \
    '.tools | map(select(.inputSchema.type == "object")) | map(.name) | sort | join(" ")')" \
    'Bash Edit Glob Grep HttpFetch HttpPost MemoryEmit MemoryRead MemorySearch Read Write' \
    'tools: all eleven, each with a schema'
is "$RC" 0 'tools exits 0'
"$CYBEROS" skill broker tools >/dev/full 2>"$T/err"
is "$?" 1 'tools: no success on a full disk'
cyberos skill validate
is "$RC $OUT" '2 ' 'validate: without a directory'
cyberos skill call
is "$RC $OUT" '2 ' 'call: without a tool'
cyberos skill call --raw
is "$RC $OUT" '2 ' 'call: --raw without a field'

done_testing
