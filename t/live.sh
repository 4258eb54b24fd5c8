# shellcheck shell=sh
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
	    <"$T/live.in" >"$T/live.out" 2>"$T/live.err" &
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

# live_child COMM: the broker's children of this name
live_child() {
	t_broker=$(live_broker)
	for t_pid in $(cat "/proc/$t_broker/task/$t_broker/children"); do
		[ "$(cat "/proc/$t_pid/comm" 2>/dev/null)" = "$1" ] &&
		    echo "$t_pid"
	done
}

# calls LINES [YAML-LINE...]: tool calls one after the other, "TOOL ARGS" a
# line; answer N FILTER then asks the Nth answer (mind that wire undoes `\\`)
calls() {
	t_calls=$(printf '%s\n' "$1" | awk '
	    BEGIN { print "open 1" }
	    NF > 0 {
		tool = $1
		sub(/^[^ ]* /, "")
		printf "send 1 {\"jsonrpc\":\"2.0\",\"id\":%d,", NR
		printf "\"method\":\"tool.call\",\"params\":{\"tool\":\"%s\",", tool
		printf "\"args\":%s}}\nrecv 1 60000\n", $0
	    }')
	shift
	wire "$t_calls" "$@"
}
answer() { sed -n "$1s/^[0-9]* //p" "$T/out" | jq -r "$2"; }

# said N: a short form of the Nth answer: "ok", or code, message and reason
said() {
	answer "$1" 'if .error then "\(.error.code) \(.error.message) \(.error.data.reason // "-")" else "ok" end'
}

# sha FILE
sha() { sha256sum <"$1" | cut -d ' ' -f 1; }
