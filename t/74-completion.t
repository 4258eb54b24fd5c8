#!/bin/sh
# Completion of the command line, in bash and in zsh: it offers what the program
# has, command by command and option by option, and nothing else.
# shellcheck source=t/lib.sh
. ./t/lib.sh

FILE=$PWD/man/share/completion/cyberos
mkdir -p "$T/bin" "$T/skills/installed" "$T/dir/sub" "$T/zsh"
ln -s "$CYBEROS" "$T/bin/cyberos"
cp "$FILE" "$T/zsh/_cyberos"
: >"$T/skills/installed/SKILL.md"
: >"$T/dir/file.txt"

cat >"$T/bash.sh" <<'EOT'
. "$1"
shift
PATH=$T/bin:$PATH
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_cyberos_bash
[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}"
EOT
# The completion system of zsh needs a terminal: its two functions are played.
cat >"$T/zsh.sh" <<'EOT'
shift
path=($T/bin $path)
fpath=($T/zsh $fpath)
autoload -U _cyberos
compadd() { print -rl -- "${(P@)2}" }
compset() { PREFIX=${PREFIX#*=} }
_files() { for f in $PREFIX*(N); do [[ $# -eq 0 || -d $f ]] && print -r -- $f; done }
offered() {
	local -a words=("$@")
	local CURRENT=$# PREFIX=${@[-1]}
	_cyberos
}
offered "$@" | grep -e "^${${@[-1]}#--*=}"
EOT
export T
SHELLS=bash
if command -v zsh >/dev/null; then
	SHELLS='bash zsh'
else
	skip 'in zsh' 'zsh is not installed'
fi

# offers WORD...: what may stand in the last word's place, sorted
offers() {
	case $in in
	bash) bash "$T/bash.sh" "$FILE" cyberos "$@" ;;
	zsh) zsh -f "$T/zsh.sh" "$FILE" cyberos "$@" ;;
	esac 2>&1 | grep . | LC_ALL=C sort
}
row() { offers "$@" | tr '\n' ' ' | sed 's/ $//'; }

# What getopt_long knows, by its own word: an option of no letters at all could
# be any of them. Linked with glibc, that is.
# known WORDS...
known() {
	"$CYBEROS" "$@" --= 2>&1 | sed -n "s/.*possibilities: //p; s/.*option '\(--[a-z-]*\)' doesn't allow.*/\1/p" |
	    tr -d "'" | tr ' ' '\n' | grep . | LC_ALL=C sort
}
"$CYBEROS" --help | sed -n 's/$/ /; s/^  cyberos \(\([a-z]\{1,\} \)\{1,\}\).*/\1/p' \
    >"$T/commands"
ok "$([ "$(wc -l <"$T/commands")" -ge 10 ]; echo $?)" 'there are commands'

for in in $SHELLS; do
	missing=
	while read -r command; do
		last=${command##* }
		# shellcheck disable=SC2086 # the words of a command
		offers ${command% *} '' | grep -qx "$last" ||
		    missing="$missing $command is not offered;"
		# shellcheck disable=SC2086
		known $command >"$T/known"
		# shellcheck disable=SC2086
		offers $command -- | grep -- -- >"$T/offered"
		[ -s "$T/known" ] && cmp -s "$T/known" "$T/offered" ||
		    missing="$missing $command: $(diff "$T/known" "$T/offered" |
			tr '\n' ' ')"
	done <"$T/commands"
	is "$missing" '' "$in: every command with exactly its options"

	is "$(row '')" skill "$in: the first word"
	is "$(row -)" '--help --version' "$in: options without a command"
	is "$(row skill broker st)" status "$in: the beginning of a word"
	is "$(row nosuch '')" '' "$in: nothing behind a word that is none"
	is "$(row skill broker run --sandbox '')" 'best-effort required' \
	    "$in: the words of a value"
	is "$(row skill broker run --sandbox=r | sed 's/.*=//')" required \
	    "$in: also behind ="
	is "$(row skill broker run --stdio '')" 'inherit null relay' \
	    "$in: three words"
	is "$(row skill broker replay --format '')" 'csv json text' \
	    "$in: another three"
	is "$(row skill scaffold x --lang '')" 'c node python sh' \
	    "$in: four, of a value with a long name"
	is "$(row skill scaffold x --lang=p | sed 's/.*=//')" python \
	    "$in: one of them behind ="
	is "$(row skill broker verify --day '')" '' \
	    "$in: nothing where nothing can be known"
	is "$(row skill call MemoryS)" MemorySearch "$in: a tool"
	is "$(row skill call '' | tr ' ' '\n')" \
	    "$("$CYBEROS" skill broker tools | jq -r '[.tools[].name] | sort | .[]')" \
	    "$in: tools, and nothing else"
	is "$(row skill call Read '')" '' "$in: no second tool behind a tool"
	is "$(row skill call --raw text MemoryS)" MemorySearch \
	    "$in: the first behind an option and its value"
	is "$(row skill broker quarantine '')" 'list release' \
	    "$in: the words of a usage of several lines"
	is "$(row skill broker quarantine l)" list "$in: one of them"
	is "$(row skill broker quarantine list '')" '' "$in: nothing behind it"
	is "$(cd "$T/dir" && CYBEROS_SKILLS=$T/skills row skill broker quarantine release '')" \
	    'installed sub' "$in: a skill behind the other one"
	is "$(row skill broker replay '')" '' "$in: no value of an option alone"
	is "$(cd "$T/dir" && row skill validate sub '') $(cd "$T/dir" && row skill import sub sub '')" \
	    'sub ' "$in: as many directories as the usage has"
	is "$(cd "$T/dir" && CYBEROS_SKILLS=$T/skills row skill broker run '')" \
	    'installed sub' "$in: skills: installed ones and directories"
	is "$(cd "$T/dir" && row skill broker run --config '')" 'file.txt sub' \
	    "$in: a file"
	is "$(cd "$T/dir" && row skill broker run --quiet s)" sub \
	    "$in: behind an option that takes no value"
	is "$(cd "$T/dir" && row skill broker run x -- f)" file.txt \
	    "$in: files behind --"
done

# Ids of what runs are those of status.
# shellcheck source=t/live.sh
. ./t/live.sh
printf '#!/bin/sh\necho up; read x\n' | skill waits
live_start waits
live_wait '^up$'
id=$("$CYBEROS" skill broker status --store "$STORE" --json |
    jq -r '.invocations[0].invocation_id')
for in in $SHELLS; do
	is "$(CYBEROS_STORE=$STORE row skill broker tail --invocation '')" "$id" \
	    "$in: an invocation that runs"
	is "$(CYBEROS_STORE=$STORE row skill scaffold '')" '' \
	    "$in: which is no id of a new skill"
done
live_say x
live_end
is "$RC" 0 'which ended'

done_testing
