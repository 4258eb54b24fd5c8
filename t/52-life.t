#!/bin/sh
# How an invocation ends, whoever ends it: exit status, outcome, ledger, and
# that nothing is left.
. t/lib.sh
. t/box.sh

ended() { # OUTCOME BY STATUS CODE SIGNAL NAME
	is "$RC $(result outcome) $(result by) $(result exit_status) $(result exit_code) $(result signal)" \
	    "$3 $1 $2 $3 $4 $5" "$6: exit status and --result"
	is "$(rows skill.invoked_completed '| [.outcome, .by, .exit_code, .signal] | map(tostring) | join(" ")')" \
	    "\"$1 $2 $4 $5\"" "$6: its row"
	is "$(count skill.invoked_started)$(count skill.timeout)" 10 \
	    "$6: one start, no timeout"
}
now() { perl -MTime::HiRes=time -e 'printf "%d\n", time * 1000'; }

# A skill that is there until somebody ends it, with children of every kind:
# in a session of their own, orphaned, stopped, deaf to SIGTERM.
perl_skill stay <<'P'
use POSIX ();
$| = 1;
my $mark = shift;
sub child { my $what = shift; my $p = fork; return $p if $p; $what->(); exec 'perl', '-e', '$SIG{TERM} = "IGNORE" if $ARGV[1]; sleep 300', $mark, @_; }
child(sub {});
child(sub { POSIX::setsid() });
child(sub { fork and POSIX::_exit(0); POSIX::setsid(); });
my $s = child(sub {}); kill 'STOP', $s;
child(sub {}, 'deaf');
my $how = shift // '';
$SIG{TERM} = 'IGNORE' if $how eq 'deaf';
$SIG{TERM} = sub { print "term\n"; exit 7 } if $how eq 'polite';
print "up\n";
if ($how eq 'exit') { exit 0 }
# A signal right before a long sleep would wait for its end.
select undef, undef, undef, 0.05 while 1;
P

# --- by itself ---

for code in 0 3 125 255; do
	in_skill "exit $code"
	[ $code = 0 ] && outcome=success || outcome=error
	ended "$outcome" skill $code $code null "exit $code"
done
for sig in 11:SEGV 6:ABRT 8:FPE 4:ILL 7:BUS 5:TRAP 31:SYS; do
	in_skill "kill -${sig#*:} \$\$"
	ended panic skill $((128 + ${sig%:*})) null "${sig%:*}" "SIG${sig#*:}"
done
for sig in 9:KILL 15:TERM 10:USR1 13:PIPE; do
	in_skill "kill -${sig#*:} \$\$"
	ended killed kernel $((128 + ${sig%:*})) null "${sig%:*}" "SIG${sig#*:}"
done
start stay -- "$T" exit
finish
ended success skill 0 0 null "main ends, its children do not"
nothing_left "children in their own sessions, orphaned, stopped, deaf"

# --- from outside ---

start stay -- "$T"
until_true says up
kill -9 "$(main_pid)"
finish
ended killed kernel 137 null 9 "SIGKILL to main"
nothing_left "SIGKILL to main"

start stay -- "$T"
until_true says up
kill -9 "$(init_pid)"
finish
ended killed kernel 137 null 9 "SIGKILL to init"
nothing_left "SIGKILL to init"

for sig in TERM INT HUP QUIT; do
	case $sig in TERM) n=15 ;; INT) n=2 ;; HUP) n=1 ;; QUIT) n=3 ;; esac
	start stay -- "$T" polite
	until_true says up
	kill -$sig "$RUN"
	finish
	ended killed caller $((128 + n)) 7 null "SIG$sig to run"
	like "$OUT" '^term$' "SIG$sig to run is SIGTERM to the skill"
	nothing_left "SIG$sig to run"
done

start stay -- "$T" deaf
until_true says up
kill -TERM "$RUN"
sleep 0.5
holds "SIGTERM alone does not end a deaf skill at once" kill -0 "$RUN"
begun=$(now)
kill -INT "$RUN"
finish
took=$(($(now) - begun))
ended killed caller 143 null 9 "a second signal kills"
holds "and does so at once ($took ms)" [ $took -lt 4000 ]
nothing_left "a second signal"

start stay -- "$T" deaf
until_true says up
begun=$(now)
kill -INT "$RUN"
finish
took=$(($(now) - begun))
ended killed caller 130 null 9 "a deaf skill and one SIGINT"
holds "SIGKILL after 10 s ($took ms)" [ $took -ge 9900 ]
holds "and not long after" [ $took -lt 14000 ]
nothing_left "a deaf skill"

# A stopped skill gets its SIGTERM all the same.
start stay -- "$T" polite
until_true says up
kill -STOP "$(main_pid)"
kill -TERM "$RUN"
finish
ended killed caller 143 7 null "SIGTERM while main is stopped"

# Callers with odd dispositions.
# shellcheck disable=SC2016 # Perl's variables
timeout -k 1 60 perl -e '$SIG{CHLD} = "IGNORE"; exec @ARGV' \
    "$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
    --result "$T/result.json" probe >"$T/out" 2>"$T/err"
RC=$?
ended killed kernel 141 null 13 "a caller that ignores SIGCHLD"
INV=$(new_id)
(
	trap '' HUP
	exec "$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --invocation "$INV" --result "$T/result.json" stay -- "$T"
) >"$T/out" 2>"$T/err" &
RUN=$!
until_true says up
kill -HUP "$RUN"
sleep 0.3
holds "under nohup SIGHUP does nothing" kill -0 "$RUN"
kill -TERM "$RUN"
finish
is "$RC" 143 "and SIGTERM ends it"

# --- the broker dies ---

start stay -- "$T"
until_true says up
kill -9 "$(broker_pid)"
finish
is "$RC $(result outcome) $(result by) $(result exit_status)" \
    "125 panic supervisor 125" "SIGKILL to the broker: exit status and --result"
is "$(rows skill.invoked_completed '| [.outcome, .by] | join(" ")')" \
    '"panic supervisor"' "SIGKILL to the broker: the supervisor writes the end"
holds "in a part of its own" [ -s "$STORE"/audit/*/seg/*/"$INV".p2.jsonl ]
is "$(jq -r "select(.kind == \"audit.segment_closed\" and .payload.invocation_id == \"$INV\") | .payload | \"\(.reason) \(.parts)\"" \
    "$STORE"/audit/*/host.jsonl)" "crash 2" "and closes the segment as crashed"
is "$(jq -r "select(.kind == \"audit.segment_part\") | .payload.invocation_id" \
    "$STORE"/audit/*/host.jsonl)" "$INV" "the part hangs on an anchor"
nothing_left "SIGKILL to the broker"

# --- the supervisor dies ---

start stay -- "$T"
until_true says up
kill -9 "$RUN"
finish 2>/dev/null
left=1
for _ in 1 2 3 4 5 6 7 8 9 10; do
	none_alive && left=0 && break
	sleep 0.05
done
is $left 0 "SIGKILL to the supervisor: broker, init and skill are gone in a moment"
holds "its socket is what sweep is for" \
    [ -S "/tmp/cyberos-skill-broker.$INV.sock" ]
rm -f "/tmp/cyberos-skill-broker.$INV.sock"

start stay -- "$T"
until_true says up
kill -9 "$(broker_pid)" "$RUN"
finish 2>/dev/null
until_true none_alive
holds "SIGKILL to both: nothing is alive" none_alive
rm -f "/tmp/cyberos-skill-broker.$INV.sock"

# --- at any moment ---

# $1: whose death; the moments are spread over the start. After each, nothing
# lives, and where the supervisor lives it has told how it ended.
moments() {
	bad=
	n=0
	while [ $n -lt 25 ]; do
		n=$((n + 1))
		rm -f "$T/result.json"
		start stay -- "$T" exit
		perl -e 'select undef, undef, undef, $ARGV[0] * 0.0008' $n
		case $1 in
		supervisor) victim=$RUN ;;
		broker) victim=$(broker_pid) ;;
		init) victim=$(init_pid) ;;
		esac
		[ -n "$victim" ] && kill -9 "$victim" 2>/dev/null
		finish 2>/dev/null
		none_alive || until_true none_alive || bad="$bad $n:alive"
		if [ "$1" != supervisor ]; then
			case $RC in
			0 | 125 | 137) ;;
			*) bad="$bad $n:status=$RC" ;;
			esac
			[ "$(result exit_status)" = "$RC" ] || bad="$bad $n:result"
			[ ! -e "/tmp/cyberos-skill-broker.$INV.sock" ] ||
			    bad="$bad $n:socket"
			[ ! -e "/tmp/.cyberos.$INV" ] || bad="$bad $n:nest"
		fi
		rm -rf "/tmp/cyberos-skill-broker.$INV.sock" "/tmp/.cyberos.$INV"
	done
	is "$bad" "" "SIGKILL to the $1 at 25 moments of the start"
}
moments broker
moments init
moments supervisor
done_testing
