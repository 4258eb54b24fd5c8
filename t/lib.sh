# shellcheck shell=sh
# What the shell tests share: a directory of their own, TAP, skills made on the
# spot, a look at the ledger. Source it from the repository's root.

set -u
CYBEROS=${CYBEROS:-$PWD/cyberos}
WIRE=${WIRE:-$PWD/t/skills/wire}
T=$(mktemp -d "${TMPDIR:-/tmp}/cyberos-t.XXXXXX") || exit 99
chmod 755 "$T"
STORE=$T/store
T_RUN=0
T_FAILED=0
# What one test sees must not come from the machine it runs on.
unset CYBEROS_STORE CYBEROS_SKILLS
export XDG_CONFIG_HOME="$T/xdg" HOME="$T"
umask 022

t_end() {
	status=$?
	# What supervisors that were killed have left outside.
	find "$T" -name '*.p1.jsonl' 2>/dev/null |
	    sed -n 's|.*/\([0-9a-f-]*\)\.p1\.jsonl$|/tmp/cyberos-skill-broker.\1.sock|p' |
	    xargs -r rm -f
	rm -rf "$T"
	exit "$status"
}
trap t_end EXIT
trap 'exit 130' INT TERM

is_root() { [ "$(id -u)" -eq 0 ]; }

# ok STATUS NAME
ok() {
	T_RUN=$((T_RUN + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $T_RUN - $2"
	else
		echo "not ok $T_RUN - $2"
		T_FAILED=$((T_FAILED + 1))
		why "failed: $2"
	fi
}

note() { printf '%s\n' "$*" | sed 's/^/# /'; }
# Of a failure: prove(1) shows it when it comes by standard error.
why() { note "$*" | cut -c 1-1000 >&2; }

# is GOT WANTED NAME
is() {
	if [ "$1" = "$2" ]; then
		ok 0 "$3"
	else
		ok 1 "$3"
		why "     got: $1"
		why "expected: $2"
	fi
}

# like TEXT EXTENDED-REGEX NAME; unlike: the reverse
like() {
	if printf '%s\n' "$1" | grep -Eq -- "$2"; then
		ok 0 "$3"
	else
		ok 1 "$3"
		why "   got: $1"
		why "wanted: $2"
	fi
}
unlike() {
	if printf '%s\n' "$1" | grep -Eq -- "$2"; then
		ok 1 "$3"
		why "     got: $1"
		why "unwanted: $2"
	else
		ok 0 "$3"
	fi
}

# skip NAME WHY: a missing feature; with T_MUST=1 that is a failure
skip() {
	if [ "${T_MUST:-0}" = 1 ]; then
		ok 1 "$1"
		why "must not be skipped: $2"
	else
		T_RUN=$((T_RUN + 1))
		echo "ok $T_RUN - $1 # SKIP $2"
	fi
}

# root_does NAME WHY: the same for what no ordinary user can try: their turn may
# go without it, since root has one too
root_does() {
	if is_root; then
		skip "$1" "$2"
	else
		T_RUN=$((T_RUN + 1))
		echo "ok $T_RUN - $1 # SKIP root's turn: $2"
	fi
}

done_testing() {
	echo "1..$T_RUN"
	[ "$T_FAILED" -eq 0 ]
	exit $?
}

# skill NAME [YAML-LINE...]: $T/skills/NAME with these lines on top of a valid
# frontmatter; main comes on standard input.
skill() {
	t_dir=$T/skills/$1
	rm -rf "$t_dir"
	mkdir -p "$t_dir"
	{
		printf -- '---\nid: %s\nversion: 1.0.0\ndescription: a test\n' \
		    "$1"
		shift
		t_tools='allowed_tools: []' t_scopes='allowed_memory_scopes: []'
		for t_line in "$@"; do
			case $t_line in
			allowed_tools:*) t_tools= ;;
			allowed_memory_scopes:*) t_scopes= ;;
			esac
			printf '%s\n' "$t_line"
		done
		printf '%s\n%s\n---\n' "$t_tools" "$t_scopes"
	} | grep -v '^$' >"$t_dir/SKILL.md"
	cat >"$t_dir/main"
	chmod 755 "$t_dir/main"
}

# broker_run [OPTIONS] SKILL [-- ARG...]: `run` in the test's store; leaves RC,
# $T/out, $T/err, $T/result.json
# shellcheck disable=SC2034 # the tests read these three
broker_run() {
	rm -f "$T/result.json"
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --result "$T/result.json" "$@" >"$T/out" 2>"$T/err"
	RC=$?
	OUT=$(cat "$T/out")
	ERR=$(cat "$T/err")
}

# in_skill SCRIPT [YAML-LINE...]: run a shell script as the skill "probe"
in_skill() {
	t_script=$1
	shift
	printf '#!/bin/sh\n%s\n' "$t_script" | skill probe "$@"
	broker_run probe
}

# wire COMMANDS [YAML-LINE...]: run the wire client as a skill with these grants
wire() {
	t_commands=$1
	shift
	skill wire "$@" <"$WIRE/main"
	printf '%s\n' "$t_commands" >"$T/commands"
	broker_run wire <"$T/commands"
}

# result FIELD: of the last run's --result
result() { jq -r ".$1" "$T/result.json"; }

# segment: the rows of the last run, one a line
segment() {
	t_inv=$(result invocation_id)
	cat "$STORE"/audit/*/seg/*/"$t_inv".p*.jsonl
}

# rows KIND [JQ-FILTER]: payloads of this kind
rows() { segment | jq -c "select(.kind == \"$1\") | .payload ${2:-}"; }

# count KIND
count() { rows "$1" | wc -l | tr -d ' '; }

# refused REASON TOOL: the last run's ledger has a refusal with this reason,
# nothing was started, and the answer on standard error said so. A crash, a
# signal or 127 is never a refusal.
refused() {
	is "$(rows skill.tool_denied "| .reason" | tr -d '"' | sort -u)" "$1" \
	    "$2: refused with $1"
	is "$(rows skill.tool_denied \
	    '| select((.attempted_args_hash | test("^[0-9a-f]{64}$")) and (.trace_id | test("^[0-9a-f]{32}$"))) | 1' |
	    sort -u)" 1 "$2: its row has args hash and trace id"
	is "$(rows skill.tool_call_started | grep -c "\"tool_name\":\"$2\"")" 0 \
	    "$2: nothing was started"
}

# verify_store [NAME]: the whole ledger of the test's store holds, by a checker
# that shares nothing with the product
verify_store() {
	t_said=$(perl t/verify.pl "$STORE" 2>&1)
	t_status=$?
	is "$t_status" 0 "${1:-the ledger holds}"
	[ "$t_status" -eq 0 ] || note "$t_said"
}
