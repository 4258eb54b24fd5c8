# shellcheck shell=sh
# shellcheck disable=SC2013,SC2034 # words are wanted; the variables are for tests
# A skill that goes on while the test looks at it from outside. Source it after
# t/lib.sh. The skill's standard input is a FIFO that the test writes to.

# live_start SKILL [OPTIONS]: run it in the background
live_start() {
	t_skill=$1
	shift
	rm -f "$T/live.in" "$T/result.json"
	: >"$T/live.out"
	mkfifo "$T/live.in"
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --result "$T/result.json" "$@" "$t_skill" \
	    <"$T/live.in" >>"$T/live.out" 2>"$T/live.err" &
	LIVE=$!
	exec 6>"$T/live.in"
}

live_say() { printf '%s\n' "$1" >&6; }

# live_wait EXTENDED-REGEX [SECONDS]: until its output has such a line
live_wait() {
	t_left=$((${2:-60} * 50))
	while [ "$t_left" -gt 0 ]; do
		grep -Eq -- "$1" "$T/live.out" && return 0
		kill -0 "$LIVE" 2>/dev/null || break
		sleep 0.02
		t_left=$((t_left - 1))
	done
	grep -Eq -- "$1" "$T/live.out"
}

# live_end: end of its input; leaves RC, OUT, ERR as broker_run does
live_end() {
	exec 6>&-
	wait "$LIVE"
	RC=$?
	OUT=$(cat "$T/live.out")
	ERR=$(cat "$T/live.err")
}

# live_broker: the process id of the broker, from `status`
live_broker() {
	"$CYBEROS" skill broker status --store "$STORE" --json |
	    jq -r '.invocations[0].pid'
}

# is_dead PID: gone, or waiting to be reaped, and no thread of it holds its files
is_dead() {
	case $(sed -n 's/^State:[^A-Z]*\([A-Z]\).*/\1/p; s/^Threads:[^0-9]*//p' \
	    "/proc/$1/status" 2>/dev/null | tr -d '\n') in
	'' | Z | X | [ZX][01]) return 0 ;;
	*) return 1 ;;
	esac
}

# live_child COMM: the broker's living children of this name
live_child() {
	t_broker=$(live_broker)
	for t_pid in $(cat "/proc/$t_broker/task/$t_broker/children"); do
		[ "$(cat "/proc/$t_pid/comm" 2>/dev/null)" = "$1" ] &&
		    ! is_dead "$t_pid" && echo "$t_pid"
	done
}

# calls LINES [YAML-LINE...]: tool calls one after the other, "TOOL ARGS" a
# line; answer N FILTER then asks the Nth answer (mind that wire undoes `\\`)
calls() {
	t_calls=$1
	shift
	skill wire "$@" <"$WIRE/main"
	lines "$t_calls"
	broker_run wire <"$T/commands"
}
answer() { sed -n "$1s/^[0-9]* //p" "$T/out" | jq -r "$2"; }

# said N: a short form of the Nth answer: "ok", or code, message and reason
said() {
	answer "$1" 'if .error then "\(.error.code) \(.error.message) \(.error.data.reason // "-")" else "ok" end'
}

# sha FILE
sha() { sha256sum <"$1" | cut -d ' ' -f 1; }

# lines CALLS: these calls as commands for wire, into $T/commands
lines() {
	printf '%s\n' "$1" | awk '
	    BEGIN { print "open 1" }
	    NF > 0 {
		tool = $1
		sub(/^[^ ]* /, "")
		printf "send 1 {\"jsonrpc\":\"2.0\",\"id\":%d,", NR
		printf "\"method\":\"tool.call\",\"params\":{\"tool\":\"%s\",", tool
		printf "\"args\":%s}}\nrecv 1 60000\n", $0
	    }' >"$T/commands"
}

# can_mount: may this test mount something for itself?
can_mount() { is_root && unshare -m true 2>/dev/null; }

# mounted MOUNT AFTER [OPTIONS]: the skill wire with $T/commands where the shell
# commands MOUNT have set up mounts that nobody else sees (99: they could not
# be); what the commands AFTER print is left in $T/after.
mounted() {
	t_mount=$1 t_after=$2
	shift 2
	export D T STORE CYBEROS
	# shellcheck disable=SC2016 # for the inner shell
	unshare -m sh -c "{ $t_mount
	} || exit 99"'
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --result "$T/result.json" "$@" wire \
	    <"$T/commands" >"$T/out" 2>"$T/err"
	echo $? >"$T/rc"
	'"{ $t_after
	} >\"\$T/after\" 2>&1; true" sh "$@"
	[ $? -ne 99 ] || return 99
	RC=$(cat "$T/rc")
	OUT=$(cat "$T/out")
	ERR=$(cat "$T/err")
}
