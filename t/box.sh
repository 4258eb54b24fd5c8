# shellcheck shell=sh disable=SC2034 # RC, OUT and ERR are for the tests
# For tests that look at a sandbox from outside. Source it after t/lib.sh.
# Whatever a test starts has $T in its command line; what is still there is
# found by that.

# perl_skill NAME [YAML-LINE...]: a skill whose main is Perl, from standard input
perl_skill() {
	{
		echo '#!/usr/bin/perl'
		cat
	} >"$T/perl_main"
	skill "$@" <"$T/perl_main"
	rm -f "$T/perl_main"
}

# val KEY: the rest of the last run's output line that begins with KEY
val() { sed -n "s/^$1 //p" "$T/out"; }

# holds STATUS-COMMAND...: ok for a command's exit status; NAME is the first
holds() {
	t_name=$1
	shift
	if "$@" >/dev/null 2>&1; then ok 0 "$t_name"; else ok 1 "$t_name"; fi
}

new_id() {
	perl -e 'my @b = map { int rand 256 } 1 .. 16;
	    $b[6] = $b[6] & 15 | 64; $b[8] = $b[8] & 63 | 128;
	    my $h = join "", map { sprintf "%02x", $_ } @b;
	    $h =~ s/^(.{8})(.{4})(.{4})(.{4})/$1-$2-$3-$4-/; print $h'
}

# start [OPTIONS] SKILL [-- ARG...]: `run` in the background as $RUN, with the
# invocation id $INV
start() {
	INV=$(new_id)
	rm -f "$T/result.json"
	: >"$T/out"
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --invocation "$INV" --result "$T/result.json" "$@" \
	    >"$T/out" 2>"$T/err" </dev/null &
	RUN=$!
}

# until_true COMMAND...: wait for it, at most 20 s
until_true() {
	t_left=1000
	while [ "$t_left" -gt 0 ]; do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.02
		t_left=$((t_left - 1))
	done
	note "never came true: $*"
	return 1
}

# says REGEX: the output of the run has such a line by now
says() { grep -Eq -- "$1" "$T/out"; }

# finish: wait for the background run
finish() {
	wait "$RUN"
	RC=$?
	OUT=$(cat "$T/out")
	ERR=$(cat "$T/err")
}

# children PID
children() { cat "/proc/$1/task/$1/children" 2>/dev/null; }

broker_pid() {
	for t_pid in $(children "$RUN"); do
		if [ "$(cat "/proc/$t_pid/comm" 2>/dev/null)" = cyberos-broker ]; then
			echo "$t_pid"
		fi
	done
}

# init is the broker's child that is number 1 in a namespace of its own
init_pid() {
	for t_pid in $(children "$(broker_pid)"); do
		if grep -Eqs '^NSpid:.*[[:space:]]1$' "/proc/$t_pid/status"; then
			echo "$t_pid"
		fi
	done
}

main_pid() { children "$(init_pid)" | tr ' ' '\n' | head -n 1; }

# alive: processes with the test's directory in their command line; a zombie
# has none
alive() {
	# shellcheck disable=SC2062 # files, not a pattern
	printf '%s\n' "$T" | grep -aFl -f - /proc/[0-9]*/cmdline 2>/dev/null |
	    sed 's,/proc/,,; s,/cmdline,,' | sort -n | tr '\n' ' '
}

# Whatever went wrong, no process of ours stays.
box_end() {
	status=$?
	for t_pid in $(alive); do
		kill -9 "$t_pid" 2>/dev/null
	done
	(exit $status)
	t_end
}
trap box_end EXIT

none_alive() { [ -z "$(alive)" ]; }

# nothing_left NAME: no process, no socket, no nest of the last run
nothing_left() {
	t_inv=${INV:-$(result invocation_id)}
	t_left=$(alive)
	if [ -n "$t_left" ]; then
		sleep 0.2 # the kernel may still be at it when `run` was killed
		t_left=$(alive)
	fi
	for t_name in /tmp/cyberos-skill-broker."$t_inv".sock \
	    /tmp/.cyberos."$t_inv" "$STORE/run/$t_inv".*; do
		[ ! -e "$t_name" ] && [ ! -L "$t_name" ] ||
		    t_left="$t_left $t_name"
	done
	is "$t_left" "" "$1: nothing is left"
}
