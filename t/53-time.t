#!/bin/sh
# Time: SIGTERM at 90 %, SIGKILL at 100 %, whatever the skill does about it.
# Lower bounds are exact, upper ones leave room for a slow machine.
. t/lib.sh
. t/box.sh

timed_out() { # NAME: the ending of SPEC 9 with our SIGKILL
	is "$RC $(result outcome) $(result by) $(result exit_status) $(result signal)" \
	    "124 timeout clock 124 9" "$1: exit status and --result"
	is "$(rows skill.invoked_completed '| "\(.outcome) \(.by)"')" \
	    '"timeout clock"' "$1: its row"
	is "$(count skill.timeout)" 1 "$1: one skill.timeout"
}

# What it does comes as an argument; $ARGV[0] is the mark.
perl_skill clock 'effort_minutes: 1' 'allowed_tools: [MemoryRead]' \
    'allowed_memory_scopes: ["**"]' <<'P'
use POSIX ();
use Socket;
use Time::HiRes qw(time sleep);
$| = 1;
my ($mark, $how) = @ARGV;
my $s;
sub call {
	my $m = sprintf '{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"%s","args":{"path":"memories/none"}}}', $_[0];
	syswrite $s, pack('N', length $m) . $m;
	my ($h, $b) = ('', '');
	sysread $s, $h, 4 or return 'closed';
	while (length $b < unpack 'N', $h) { sysread $s, $b, 65536, length $b or return 'closed' }
	$b =~ /"reason":"(\w+)"/ ? $1 : $b =~ /"message":"(\w+)"/ ? $1 : $b;
}
if ($how =~ /call/) {
	socket $s, AF_UNIX, SOCK_STREAM, 0;
	connect $s, pack_sockaddr_un($ENV{CYBEROS_BROKER_SOCKET}) or print "cannot connect\n";
	print "before ", call('MemoryRead'), "\n";
}
sub told { printf "term %d\n", time * 1000 }
$SIG{TERM} = $how =~ /deaf/ ? sub { told }
    : $how =~ /call/ ? sub { told; print "after ", call('MemoryRead'), "\n"; print "denied ", call('Bash'), "\n"; exit 0 }
    : sub { told; exit 5 };
if ($how =~ /held/) {
	my $p = fork;
	if ($p == 0) { exec 'perl', '-e', 'sleep 300', $mark }
	print "up\n";
	sleep 5;
	exit 0;
}
if ($how =~ /family/) {
	for my $kind (qw(plain session orphan stopped deaf)) {
		my $p = fork;
		if ($p == 0) {
			fork and POSIX::_exit(0) if $kind eq 'orphan';
			POSIX::setsid() if $kind ne 'plain';
			exec 'perl', '-e', '$SIG{TERM} = "IGNORE" if $ARGV[1] eq "deaf"; sleep 300', $mark, $kind;
		}
		kill 'STOP', $p if $kind eq 'stopped';
	}
}
if ($how =~ /fork/) { while (1) { my $p = fork; if (defined $p && !$p) { sleep 0.001; POSIX::_exit(0) } waitpid $p, 0 if $p } }
print "up\n";
kill 'STOP', $$ if $how =~ /stop/;
exit 0 if $how =~ /quick/;
sleep 300 while 1;
P
now() { perl -MTime::HiRes=time -e 'printf "%d\n", time * 1000'; }
between() { # N LOW HIGH NAME
	holds "$4 ($1 ms)" [ "$1" -ge "$2" ]
	holds "$4, and not much later" [ "$1" -le "$3" ]
}

# --- the two moments ---

begun=$(now)
start --deadline 2 clock -- "$T" deaf
until_true says '^term'
finish
ended=$(now)
between $(($(val term | head -n 1) - begun)) 1800 4800 \
    "acceptance 12: SIGTERM at 90 % of the time"
between $((ended - begun)) 2000 6000 "acceptance 13: the end at 100 %"
timed_out "acceptance 13: SIGKILL at 100 %"
elapsed=$(rows skill.timeout '| .elapsed_ms')
between "$elapsed" 2000 4000 "acceptance 13: elapsed_ms"
holds "late_ms is how late it was" \
    [ "$(rows skill.timeout '| .late_ms')" -eq $((elapsed - 2000)) ]
is "$(rows skill.timeout '| .last_tool_call')" null "no tool call, none named"
is "$(val term | wc -l | tr -d ' ')" 1 "one SIGTERM and no more"
nothing_left "a deaf skill"

# T is the skill's effort_minutes, and the caller can only shorten it.
for option in '' '--deadline 3600'; do
	# shellcheck disable=SC2086 # two words or none
	start $option clock -- "$T" polite
	until_true says up
	left=$("$CYBEROS" skill broker status --store "$STORE" --json |
	    jq '.invocations[0].remaining_ms')
	between "$left" 30000 60000 \
	    "acceptance 12: effort_minutes 1 is 60 s ${option:-by itself}"
	kill -TERM "$RUN"
	finish
done

# --- whatever it does ---

start --deadline 0.7 clock -- "$T" family-deaf
finish
timed_out "children in sessions, orphaned, stopped, deaf"
nothing_left "children in sessions, orphaned, stopped, deaf"

start --deadline 0.7 clock -- "$T" deaf-fork
finish
timed_out "a loop of forks"
nothing_left "a loop of forks"

start --deadline 0.7 clock -- "$T" deaf-stop
finish
timed_out "a skill that stops itself"
like "$OUT" '^term ' "it is woken for its SIGTERM"

start --deadline 0.7 clock -- "$T" deaf-call
finish
timed_out "a skill that has called"
is "$(rows skill.timeout '| .last_tool_call')" '"MemoryRead"' \
    "its last tool call is named"

# --- it ends by itself ---

start --deadline 1 clock -- "$T" polite
finish
is "$RC $(result outcome) $(result by) $(result exit_code) $(result signal)" \
    "124 timeout clock 5 null" "an end after our SIGTERM is a timeout"
is "$(count skill.timeout)" 0 "without SIGKILL there is no skill.timeout"
is "$(rows skill.invoked_completed '| .outcome')" '"timeout"' "its row says so"

start --deadline 30 clock -- "$T" quick
finish
is "$RC $(result outcome) $(result by)" "0 success skill" "an end before that is none"

start --deadline 1.5 clock -- "$T" call
finish
is "$(val before)" not_found "a call before SIGTERM"
is "$(val after)" not_found "a call after SIGTERM is served like any other"
is "$(val denied)" tool_not_in_allowed_tools "and refused like any other"
is "$RC $(result outcome) $(result calls)" "124 timeout 3" "all are counted"

# --- nobody connects ---

begun=$(now)
start --connect-timeout 0.5 clock -- "$T" deaf
finish
between $(($(now) - begun)) 500 4500 "no_connect when its time is over"
is "$RC $(result outcome) $(result by) $(result exit_status)" \
    "124 no_connect clock 124" "no_connect: exit status and --result"
is "$(rows skill.invoked_completed '| .outcome')" '"no_connect"' "its row"
between "$(rows skill.no_connect '| .waited_ms')" 500 3000 "waited_ms"
is "$(count skill.timeout)" 0 "that is no skill.timeout"
nothing_left "no_connect"

start --connect-timeout 0.3 --deadline 1.2 clock -- "$T" call
finish
is "$(result outcome) $(count skill.no_connect)" "timeout 0" \
    "who has connected may stay"
start --connect-timeout 0 --deadline 0.6 clock -- "$T" deaf
finish
is "$(result outcome) $(count skill.no_connect)" "timeout 0" \
    "--connect-timeout 0 is off"
start --connect-timeout 20 clock -- "$T" quick
finish
is "$(result outcome) $(count skill.no_connect)" "success 0" \
    "a skill that ends without ever connecting is no error"

# A stranger's connection is not the skill's.
start --connect-timeout 1 clock -- "$T" deaf
until_true [ -S "/tmp/cyberos-skill-broker.$INV.sock" ]
perl -MSocket -e 'socket my $s, AF_UNIX, SOCK_STREAM, 0;
    connect $s, pack_sockaddr_un($ARGV[0]) or exit 1; sysread $s, my $b, 1' \
    "/tmp/cyberos-skill-broker.$INV.sock"
finish
is "$(result outcome) $(count skill.no_connect) $(count skill.peer_refused)" \
    "no_connect 1 1" "a stranger's connection does not count"

# --- the caller and the clock ---

start --deadline 3 clock -- "$T" deaf
until_true says up
kill -TERM "$RUN"
finish
is "$(result exit_status)" "$RC" "the caller's SIGTERM and then the deadline"
holds "ends at the deadline and not 10 s later" \
    [ "$(result duration_ms)" -lt 8000 ]

# --- a broker that does not do its part ---

begun=$(now)
start --deadline 4 clock -- "$T" deaf
until_true says up
kill -STOP "$(broker_pid)"
finish
between $(($(now) - begun)) 9000 16000 "the supervisor is the last line"
is "$RC $(result outcome) $(result by)" "125 panic supervisor" \
    "a stopped broker is killed 5 s after the deadline"
like "$ERR" 'overstayed' "and the log says so"
nothing_left "a stopped broker"

# One of the skill's processes that the kernel cannot take apart yet does not keep
# its outcome from being known: here it is held by whoever traces it.
if is_root && [ -x /usr/bin/python3 ]; then
	cat >"$T/hold.py" <<'P'
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
SEIZE = 0x4206
if libc.ptrace(SEIZE, int(sys.argv[1]), 0, 0) == -1:
    sys.exit(ctypes.get_errno())
print("held", flush=True)
time.sleep(300)
P
	start --deadline 3 clock -- "$T" deaf
	until_true says up
	/usr/bin/python3 "$T/hold.py" "$(main_pid)" >"$T/held" &
	holder=$!
	if until_true grep -q held "$T/held"; then
		finish
		timed_out "a process that stays dead for long"
		unlike "$ERR" 'broker died|overstayed' "its broker has done its part"
		kill "$holder"
		wait "$holder" 2>/dev/null
		until_true none_alive
		nothing_left "a process that stays dead for long"

		# Also where it ends long before its time.
		start clock -- "$T" held
		until_true says up
		/usr/bin/python3 "$T/hold.py" "$(children "$(main_pid)")" >"$T/held" &
		holder=$!
		until_true grep -q held "$T/held"
		finish
		is "$RC $(result outcome) $(result by)" "0 success skill" \
		    "a child that stays dead for long, of one that has ended"
		kill "$holder"
		wait "$holder" 2>/dev/null
		until_true none_alive
		nothing_left "a child that stays dead for long"
	else
		finish
		skip "a process that stays dead for long" "nobody may trace here"
	fi
fi

# What it tries until init is killed, and it with it, is counted to the last; for a
# moment nobody answers then, and that is ENOSYS.
perl_skill flood <<'P'
$| = 1;
$SIG{TERM} = 'IGNORE';
for (my $n = 0;;) {
	syscall 272, 0x10000000;
	$! == 1 or next;
	print "n $n\n" if ++$n % 100 == 0;
}
P
if [ "$(uname -m)" = x86_64 ]; then
	start --deadline 2 flood -- "$T"
	finish
	n=$(val n | tail -n 1)
	counted=$(rows skill.cap_bypass_attempt '| .count' | awk '{ n += $1 } END { print n }')
	holds "each attempt of a killed skill is counted ($counted of $n and some)" \
	    [ "$counted" -ge "$n" ]
	holds "and no other" [ "$counted" -le $((n + 101)) ]
fi

# --- what is no time ---

for value in 0 -1 nan inf abc 1e99 5s ''; do
	broker_run --deadline "$value" clock
	is "$RC" 2 "--deadline '$value' is a usage error"
done
broker_run --connect-timeout -1 clock
is "$RC" 2 "--connect-timeout -1 is a usage error"
done_testing
