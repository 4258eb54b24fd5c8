#!/bin/sh
# cyberos skill try: what it tells, that its status is the skill's, that it
# leaves nothing behind, however it ends, and loosens nothing.
. t/lib.sh

mkdir "$T/tmp" "$T/home"
export TMPDIR="$T/tmp"

# try NAME [ARG...]: leaves RC, OUT, ERR
try() {
	t_name=$1
	shift
	"$CYBEROS" skill try "$T/skills/$t_name" "$@" >"$T/out" 2>"$T/err" \
	    </dev/null
	RC=$?
	OUT=$(cat "$T/out")
	ERR=$(cat "$T/err")
}

# clean NAME: nothing is left where it could be
clean() {
	is "$(ls -A "$T/tmp")" '' "$1: nothing is left"
}

# line PATTERN NAME: a line of the output
line() { like "$OUT" "$1" "$2"; }

cat >"$T/main" <<'EOT'
#!/bin/sh
echo "said $1"
echo "also said" >&2
cyberos skill call MemoryEmit kind=a.b path=memories/mine/x body=text
cyberos skill call MemoryRead path=memories/mine/x
cyberos skill call MemoryRead path=memories/other
cyberos skill call Bash cmd=id
cyberos skill call Grab a=b
cyberos skill call Read path=/etc/passwd
cyberos skill call HttpFetch url=https://evil.example/
cyberos skill call MemoryRead
cyberos skill call MemoryRead path=memories/mine/none
exit 7
EOT
skill shown 'allowed_tools: [MemoryEmit, MemoryRead, Read, HttpFetch]' \
    'allowed_memory_scopes: [memories/mine/**]' <"$T/main"
try shown -- something
is "$RC" 7 "the skill's own status"
line 'shown/SKILL.md: valid: shown 1.0.0' 'it is judged first'
line '^said something$' 'its output is seen, and its arguments arrive'
like "$ERR" '^also said$' 'its standard error too'
line 'MemoryEmit +success .*memories/mine/x$' 'a call that was granted'
# refusal TOOL REASON: a line of the table, and below it the hint that the
# broker gave to the skill, which printed it
refusal() {
	grep -A 2 -E "$1 +denied .* $2" "$T/out" | sed 1d | tr -s ' \n' ' ' \
	    >"$T/hint"
	hint=$(grep -A 1 -E "^cyberos: (.*\()?$2" "$T/err" | sed -n '2s/^ *//p')
	[ -n "$hint" ] && grep -qF -- "$hint" "$T/hint"
	ok "$?" "$1: refused with $2, and the hint is below"
}
refusal MemoryRead scope_violation
refusal Bash tool_not_in_allowed_tools
refusal Grab unknown_tool
refusal Read file_violation
refusal HttpFetch domain_violation
line 'MemoryRead +error .*not_found' 'a failure'
line '^[0-9]+ calls, 5 denied, 1 rejected$' 'the counts'
line 'a rejected request had wrong arguments' 'and what rejected means'
line '^ended: error, exit status 7$' 'outcome and exit status'
is "$(awk 'length($0) > 80' "$T/out" | grep -v "$T\|row_id\|body")" '' \
    'nothing is wider than 80 columns'
clean 'after a run'

# Each time from the beginning, and nowhere else.
# shellcheck disable=SC2016 # the skill's
printf '#!/bin/sh\ncyberos skill call --raw body MemoryRead path=memories/a ||\n
cyberos skill call MemoryEmit kind=a.b path=memories/a body=old\n' |
    skill again 'allowed_tools: [MemoryEmit, MemoryRead]' \
    'allowed_memory_scopes: [memories/**]'
mkdir -p "$T/mine" && chmod 700 "$T/mine"
CYBEROS_STORE=$T/mine try again
is "$RC" 0 'a note is made'
CYBEROS_STORE=$T/mine try again
line 'MemoryRead +error .*not_found' 'and gone with the next try'
is "$(ls -A "$T/mine")" '' "the caller's store is not touched"

# --- how it can end ---

skill bad 'allowed_toolz: []' <"$T/main"
try bad
is "$RC" 6 'an invalid skill does not run'
line 'allowed_toolz: UnknownField: .*did you mean' 'and its errors are told'
unlike "$OUT$ERR" said 'it did not run'
try nothing
is "$RC" 127 'no skill'
mkdir -p "$T/skills/file"
"$CYBEROS" skill try "$T/out" >"$T/o" 2>&1
is "$?" 127 'a file is no skill'
printf 'echo no first line\n' | skill noexec
chmod 644 "$T/skills/noexec/main"
try noexec
is "$RC" 126 'a main that cannot be executed'
line 'chmod \+x' 'and what to do'
# shellcheck disable=SC2016 # the skill's
printf '#!/bin/sh\nkill -SEGV $$\n' | skill crash
try crash
is "$RC" 139 'a crash'
line '^ended: panic, exit status 139, signal 11$' 'is told'
printf '#!/bin/sh\nsleep 60\n' | skill slow
"$CYBEROS" skill try --deadline 0.5 "$T/skills/slow" >"$T/out" 2>"$T/err"
RC=$?
OUT=$(cat "$T/out")
is "$RC" 124 'out of time'
line '^ended: timeout, exit status 124' 'is told'
line 'raise effort_minutes' 'with advice'
clean 'after all these'

# --- a signal, a reader that goes ---

# begun: the skill is there
printf '#!/bin/sh\necho begun\nsleep 60\n' | skill long
for sig in INT TERM HUP; do
	: >"$T/out" # what the last one said is no sign of this one
	sh -c 'trap - INT; exec "$@"' - "$CYBEROS" skill try "$T/skills/long" \
	    >"$T/out" 2>"$T/err" &
	pid=$!
	n=0
	until grep -q begun "$T/out" || [ "$((n += 1))" -gt 300 ]; do
		sleep 0.1
	done
	kill -"$sig" "$pid"
	wait "$pid"
	rc=$?
	OUT=$(cat "$T/out")
	if [ "$sig" = INT ] && [ "$rc" -eq 0 ]; then
		rc=130 # ignored by a shell in the background
	fi
	[ "$rc" -gt 128 ]
	ok "$?" "SIG$sig: the skill ends with it ($rc)"
	line '^ended: killed, exit status 1[0-9][0-9]' "SIG$sig: and that is told"
	clean "SIG$sig"
done
"$CYBEROS" skill try "$T/skills/shown" 2>/dev/null | head -n 1 >"$T/out"
n=0
while [ -n "$(ls -A "$T/tmp")" ] && [ "$((n += 1))" -le 100 ]; do
	sleep 0.1
done
clean 'a reader that goes'

# --- the operator's word holds ---

echo 'ceiling: {tools: [MemoryEmit], memory_scopes: ["memories/mine/**"]}' \
    >"$T/config"
chmod 644 "$T/config"
"$CYBEROS" skill try --config "$T/config" "$T/skills/shown" >"$T/out" \
    2>"$T/err"
OUT=$(cat "$T/out")
line 'MemoryRead +denied .* ceiling' 'a ceiling'
line "the operator's ceiling leaves this tool out" 'and its hint'
echo 'ceiling: {memory_scopes: ["memories/mine/y"]}' >"$T/config"
"$CYBEROS" skill try --config "$T/config" "$T/skills/shown" >"$T/out" \
    2>"$T/err"
OUT=$(cat "$T/out")
line "the operator's ceiling leaves this memory path out" \
    'a ceiling of memory has its own'
echo 'max_effort_minutes: 10' >"$T/config"
skill much 'effort_minutes: 11' <"$T/main"
"$CYBEROS" skill try --config "$T/config" "$T/skills/much" >"$T/out" 2>&1
is "$?" 6 'a ceiling of the file'
echo 'nonsense: 1' >"$T/config"
"$CYBEROS" skill try --config "$T/config" "$T/skills/shown" >"$T/out" 2>&1
is "$?" 3 'a wrong configuration'
clean 'with a configuration'
if is_root && touch "$T/flag" && chattr +a "$T/flag" 2>/dev/null; then
	chattr -a "$T/flag"
	echo 'audit_append_only: true' >"$T/config"
	"$CYBEROS" skill try --config "$T/config" "$T/skills/shown" \
	    >"$T/out" 2>&1
	clean 'rows that are append-only'
else
	note 'append-only files: not tried (needs root and a file system for it)'
fi

# --- usage ---

"$CYBEROS" skill try >"$T/out" 2>&1
is "$?" 2 'no directory'
"$CYBEROS" skill try "$T/skills/shown" more >"$T/out" 2>&1
is "$?" 2 'arguments without --'
TMPDIR=$T/none "$CYBEROS" skill try "$T/skills/shown" >"$T/out" 2>"$T/err"
is "$?" 1 'nowhere to put it'
like "$(cat "$T/err")" 'set TMPDIR' 'says what to do'
cd "$T/skills/shown" || exit 99
"$CYBEROS" skill try . >"$T/out" 2>&1
is "$?" 7 'the working directory'
cd "$OLDPWD" || exit 99
mkdir "$T/skills/--help"
cp "$T/skills/crash"/* "$T/skills/--help/"
cd "$T/skills" || exit 99
"$CYBEROS" skill try -- --help >"$T/out" 2>&1
is "$?" 139 'a directory with the name of an option'
cd "$OLDPWD" || exit 99

done_testing
