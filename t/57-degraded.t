#!/bin/sh
# Poorer hosts: what is refused, what runs, and that it is said. The features
# are taken away by a filter that fails their system calls.
. t/lib.sh
. t/box.sh
# shellcheck source=t/live.sh
. t/live.sh

case $(uname -m) in
x86_64 | aarch64) ;;
*)
	skip "poorer hosts" "the filter knows x86-64 and aarch64"
	done_testing
	;;
esac

# without FEATURE,... COMMAND...: userns, landlock, landlock_rules, seccomp, umount,
# setsid, limit
cat >"$T/without" <<'P'
my ($what, @command) = @ARGV;
my ($prctl, $clone, $unshare) = `uname -m` =~ /x86_64/ ? (157, 56, 272) : (167, 220, 97);
my @f;
sub op { push @f, pack 'S C C L', @_ }
sub errno { op(0x06, 0, 0, 0x00050000 | $_[0]) }
op(0x20, 0, 0, 0);				# the number
if ($what =~ /userns/) {
	op(0x15, 0, 1, 435); errno(38);		# clone3: use clone
	op(0x15, 0, 1, $unshare); errno(1);
	op(0x15, 0, 4, $clone);			# clone with a namespace
	op(0x20, 0, 0, 16); op(0x45, 0, 1, 0x7e020000); errno(1);
	op(0x06, 0, 0, 0x7fff0000);
}
if ($what =~ /landlock$|landlock,/) { op(0x15, 0, 1, 444); errno(38) }
if ($what =~ /seccomp/) { op(0x15, 0, 1, `uname -m` =~ /x86_64/ ? 317 : 277); errno(38) }
if ($what =~ /landlock_rules/) { op(0x15, 0, 1, 445); errno(5) }
if ($what =~ /setsid/) { op(0x15, 0, 1, `uname -m` =~ /x86_64/ ? 112 : 157); errno(5) }
if ($what =~ /limit/) {				# of processes: done, with nothing done
	op(0x15, 0, 5, `uname -m` =~ /x86_64/ ? 302 : 261);
	op(0x20, 0, 0, 24); op(0x15, 0, 3, 6);
	op(0x20, 0, 0, 32); op(0x15, 1, 0, 0); errno(0);
	op(0x20, 0, 0, 0);
}
if ($what =~ /umount/) { op(0x15, 0, 1, `uname -m` =~ /x86_64/ ? 166 : 39); errno(16) }
op(0x06, 0, 0, 0x7fff0000);
my $code = join '', @f;
my $prog = pack 'S x![P] P', scalar @f, $code;
syscall($prctl, 38, 1, 0, 0, 0) == 0 && syscall($prctl, 22, 2, $prog) == 0 or exit 99;
exec @command or exit 98;
P
if ! perl "$T/without" userns,landlock true; then
	skip "poorer hosts" "no filter can be set here"
	done_testing
fi

run_without() { # FEATURES [OPTIONS] SKILL [-- ARG...]
	rm -f "$T/result.json"
	t_what=$1
	shift
	perl "$T/without" "$t_what" "$CYBEROS" skill broker run --store "$STORE" \
	    --skills "$T/skills" --result "$T/result.json" "$@" \
	    >"$T/out" 2>"$T/err" </dev/null
	RC=$?
	OUT=$(cat "$T/out")
	ERR=$(cat "$T/err")
}
start_without() { # the same in the background
	INV=$(new_id)
	t_what=$1
	shift
	: >"$T/out"
	rm -f "$T/result.json"
	perl "$T/without" "$t_what" "$CYBEROS" skill broker run --store "$STORE" \
	    --skills "$T/skills" --result "$T/result.json" --invocation "$INV" "$@" \
	    >"$T/out" 2>"$T/err" </dev/null &
	RUN=$!
}

NAMESPACES='user_namespace mount_namespace pid_namespace network_namespace
    ipc_namespace uts_namespace cgroup_namespace'

# What holds on every host ("Always" in SPEC 8), and what lies outside.
perl_skill always <<'P'
use Socket;
use POSIX ();
$| = 1;
my ($secret, $port, $pid) = @ARGV;
open my $e, '<', '/proc/self/environ'; local $/;
print "names ", join(' ', sort keys %ENV), "\n";
print "fds ", join(' ', grep { defined POSIX::dup2($_, 200) } 0 .. 60), "\n";
POSIX::close(200);
print "ids $> ", scalar(split ' ', $)), "\n";
open my $s, '<', '/proc/self/status';
my $status = defined $s ? <$s> : '';
print "$1 $2\n" while $status =~ /^(Cap\w+|NoNewPrivs):\s*(\S+)$/mg;
print "secret ", open(my $f, '<', $secret) ? 'READ' : 'refused', "\n";
print "write ", open(my $g, '>', "$secret.new") ? 'DONE' : 'refused', "\n";
socket my $t, AF_INET, SOCK_STREAM, 0;
print "tcp ", defined $t && connect($t, pack_sockaddr_in($port, inet_aton('127.0.0.1'))) ? 'CONNECTED' : 'refused', "\n";
print "signal ", kill(0, $pid) ? 'REACHED' : 'refused', "\n";
kill 9, $pid;
socket my $u, AF_UNIX, SOCK_STREAM, 0;
print "broker ", connect($u, pack_sockaddr_un($ENV{CYBEROS_BROKER_SOCKET})) ? 'connected' : 'refused', "\n";
my $n = 0;
for (1 .. 16) { my $p = fork; last if !defined $p; if (!$p) { sleep 20; POSIX::_exit(0) } $n++; kill 0, $p; push @kids, $p }
print "forks $n\n";
open my $l, '<', '/proc/self/limits';
print "limit $1\n" if defined $l && <$l> =~ /^Max processes\s+(\d+)/m;
kill 9, @kids;
print "cwd ", -e 'SKILL.md' ? 'its own' : 'elsewhere', "\n";
P
# Where processes are counted by user, those of other tests count as well.
printf 'max_processes: 300\n' >"$T/many.yaml"
perl_skill orphans 'x-max-processes: 300' <<'P'
use POSIX ();
$| = 1;
my $mark = shift;
for my $kind (qw(plain session orphan deaf stopped)) {
	my $p = fork;
	defined $p or print("cannot fork\n"), exit 1;
	if ($p == 0) {
		fork and POSIX::_exit(0) if $kind eq 'orphan';
		POSIX::setsid() if $kind ne 'plain';
		exec 'perl', '-e', '$SIG{TERM} = "IGNORE" if $ARGV[1] eq "deaf"; sleep 300', $mark, $kind;
	}
	select undef, undef, undef, 0.1;
	kill 'STOP', $p if $kind eq 'stopped';
}
$SIG{TERM} = 'IGNORE';
print "up\n";
exit 0 if shift eq 'exit';
sleep 300 while 1;
P
echo secret >"$T/secret"
perl -MSocket -e 'socket my $t, AF_INET, SOCK_STREAM, 0;
    bind $t, pack_sockaddr_in(0, inet_aton("127.0.0.1")); listen $t, 5;
    open my $f, ">", "$ARGV[0].new"; print $f +(unpack_sockaddr_in getsockname $t)[0]; close $f;
    rename "$ARGV[0].new", $ARGV[0]; sleep 300' "$T/port" &
bystander=$!
until_true [ -s "$T/port" ]
port=$(cat "$T/port")

EXTRAS="cgroup|connect_guard" # need no warning
always() { # NAME
	is "$RC" 0 "$1: runs"
	is "$(val names)" "CYBEROS_BROKER_SOCKET CYBEROS_INVOCATION_ID CYBEROS_SKILL_ID CYBEROS_TENANT_ID RUST_LOG" \
	    "$1: the environment is exactly five names"
	is "$(val fds | cut -d' ' -f1-3)" "0 1 2" "$1: three descriptors"
	is "$(val broker)" connected "$1: the skill reaches its broker"
	is "$(val cwd)" "its own" "$1: the working directory is its own"
	unlike "$(val ids)" '^0 ' "$1: not root"
	is "$(jq -c .sandbox "$T/result.json")" \
	    "$(rows skill.invoked_started '| .sandbox')" \
	    "$1: the ledger says which layers there are"
	t_missing=
	for t_layer in $(jq -r '.sandbox | to_entries[] | select(.value == "not available") | .key' "$T/result.json" | grep -vxE "$EXTRAS"); do
		grep -q "^cyberos\[warn\].* sandbox: $t_layer is not available" \
		    "$T/err" || t_missing="$t_missing $t_layer"
	done
	is "$t_missing" "" "$1: one WARN line for each that is missing"
	is "$(grep -c ' is not available;' "$T/err")" \
	    "$(jq '[.sandbox | del(.cgroup, .connect_guard)[] | select(. == "not available")] | length' "$T/result.json")" \
	    "$1: and none for another"
	holds "$1: the bystander lives" kill -0 "$bystander"
}
layer() { jq -r ".sandbox.$1" "$T/result.json"; }
no_orphans() { # FEATURES MODE
	start_without "$1" --config "$T/many.yaml" --sandbox "$2" orphans -- "$T" exit
	finish
	is "$RC $(alive | wc -w | tr -d ' ')" "0 1" \
	    "without $1: nothing of the skill is left when main ends"
	start_without "$1" --config "$T/many.yaml" --sandbox "$2" \
	    --deadline 2 orphans -- "$T" stay
	finish
	is "$RC $(alive | wc -w | tr -d ' ')" "124 1" \
	    "without $1: nor when its time is over"
	start_without "$1" --config "$T/many.yaml" --sandbox "$2" orphans -- "$T" stay
	until_true says up
	kill -9 "$(broker_pid)"
	finish
	until_true one_alive
	is "$RC $(alive | wc -w | tr -d ' ')" "125 1" \
	    "without $1: nor when the broker dies"
	start_without "$1" --config "$T/many.yaml" --sandbox "$2" orphans -- "$T" stay
	until_true says up
	kill -9 "$RUN"
	finish 2>/dev/null
	until_true one_alive
	is "$(alive | wc -w | tr -d ' ')" 1 "without $1: nor when the supervisor dies"
	rm -f "/tmp/cyberos-skill-broker.$INV.sock"
}
# shellcheck disable=SC2317 # the bystander's command line has the mark, too
one_alive() { [ "$(alive | wc -w | tr -d ' ')" = 1 ]; }

# --- as it is ---

run_without nothing always -- "$T/secret" "$port" "$bystander"
always "with all of it"
unlike "$ERR" 'available' "with all of it: no warning"

# --- neither user namespaces nor Landlock ---

run_without userns,landlock always -- "$T/secret" "$port" "$bystander"
is "$RC $OUT" "125 " "required, neither namespaces nor Landlock: not started"
is "$(result outcome)" refused "its outcome is refused"
like "$ERR" 'sandbox: .*user\.max_user_namespaces' "the message names the sysctl"
like "$ERR" 'best-effort' "and the way out"
is "$(count skill.invoked_started)" 0 "no start in the ledger"

run_without userns,landlock --sandbox best-effort always -- \
    "$T/secret" "$port" "$bystander"
if is_root; then
	always "best-effort without both"
	is "$(val signal)" refused "best-effort without both: its own uid keeps signals in"
	like "$(val ids)" '^20000[0-9]{5} ' "best-effort without both: a uid of uid_range"
	is "$(val write)" refused "best-effort without both: root's files are not its own"
	is "$(val forks)" 7 "best-effort without both: 8 processes"
else
	# Nothing keeps its signals from the caller's processes here: that is
	# what the warnings say. The bystander may be gone.
	kill -0 "$bystander" 2>/dev/null || {
		perl -e 'sleep 300' "$T/port" &
		bystander=$!
	}
	always "best-effort without both"
	holds "best-effort without both: processes are limited ($(val limit))" \
	    [ "$(val limit)" -lt 1000 ]
	like "$ERR" 'counted together' "and a WARN says how"
fi
for set in CapInh CapPrm CapEff CapAmb; do
	is "$(val $set | sed 's/^$/unknown/')" 0000000000000000 \
	    "best-effort without both: $set is empty"
done
is "$(val NoNewPrivs)" 1 "best-effort without both: no_new_privs"
for name in $NAMESPACES private_root private_tmp landlock; do
	is "$(layer "$name")" "not available" "best-effort without both: $name"
done
no_orphans userns,landlock best-effort
rm -f "$T/secret.new" # without any layer for files a user's skill may write

# --- no user namespaces, but Landlock ---

run_without landlock --sandbox required always -- "$T/secret" "$port" "$bystander"
if [ "$(layer user_namespace)" = active ]; then
	always "without Landlock"
	is "$(layer landlock)" "not available" "without Landlock: --result says so"
	is "$(val secret) $(val write) $(val tcp) $(val signal)" \
	    "refused refused refused refused" \
	    "without Landlock: the namespaces hold files, network and signals"
	is "$(val forks)" 7 "without Landlock: 8 processes"
fi
if [ "$(run_without nothing always -- x 1 1 && layer landlock)" = active ]; then
	run_without userns always -- "$T/secret" "$port" "$bystander"
	always "Landlock without namespaces"
	is "$(val secret) $(val write) $(val tcp) $(val signal)" \
	    "refused refused refused refused" \
	    "Landlock without namespaces: it holds files, network and signals"
	for name in $NAMESPACES private_root private_tmp; do
		is "$(layer "$name")" "not available" \
		    "Landlock without namespaces: $name"
	done
	no_orphans userns required
	# What Landlock does not know: modes, owners, times, attributes.
	perl_skill changes <<-'P'
	use POSIX ();
	my $f = shift;
	open my $h, '<', 'main';
	print "chmod ", chmod(0777, $f) + chmod(0700, 'main') + chmod(0700, $h), "\n";
	print "utime ", utime(1, 1, $f) + utime(1, 1, $h), "\n";
	print "chown ", chown($>, -1, $f) + chown($>, -1, $h), "\n";
	my ($n, $v) = ("user.x", "y");
	print "xattr ", syscall(188, $f, $n, $v, 1, 0), "\n";
	P
	chmod 600 "$T/secret"
	was=$(stat -c '%a %u %Y %Z' "$T/secret" "$T/skills/changes/main")
	run_without userns --attest changes -- "$T/secret"
	is "$RC $(echo $OUT)" "0 chmod 0 utime 0 chown 0 xattr -1" \
	    "Landlock without namespaces: nothing of a file can be changed"
	is "$(stat -c '%a %u %Y %Z' "$T/secret" "$T/skills/changes/main")" "$was" \
	    "Landlock without namespaces: nothing was"
	is "$(rows skill.cap_bypass_attempt .syscall | sort -u | grep -c -e chmod -e chown -e utim -e xattr)" \
	    6 "Landlock without namespaces: each is an attempt"
	chmod 644 "$T/secret"
	# Nor of these: attributes, what others do, names for the whole host.
	perl_skill looks <<-'P'
	use Socket;
	my ($n, $v, $f) = ("user.x", " " x 9, shift);
	print "get ", syscall(191, $f, $n, $v, 9) == -1 ? 0 + $! : "GOT", "\n";
	print "list ", syscall(194, $f, $v, 9) == -1 ? 0 + $! : "GOT", "\n";
	my $i = syscall 294, 0;
	print "watch ", $i == -1 || syscall(254, $i, $f, 32) == -1 ? 0 + $! : "WATCHES", "\n";
	socket my $s, AF_UNIX, SOCK_STREAM, 0;
	for (pack("S a*", 1, "\0name"), pack("S", 1)) {
		print "bind ", bind($s, $_) ? "BOUND" : 0 + $!, "\n";
	}
	P
	setfattr -n user.x -v y "$T/secret" 2>/dev/null
	run_without userns looks -- "$T/secret"
	is "$RC $(echo $OUT)" "0 get 95 list 95 watch 38 bind 1 bind 1" \
	    "Landlock without namespaces: attributes, watches and names are refused"
	is "$(count skill.cap_bypass_attempt)" 0 "quietly"
	run_without nothing looks -- /etc/hostname
	like "$(echo $OUT)" 'get (2|61) list .* watch (2|WATCHES) bind BOUND' \
	    "they are fine in a root of its own"
else
	skip "Landlock without namespaces" "this kernel has no Landlock"
fi
# --- no system call filter ---

# What the broker cannot confine itself with is known before a skill runs.
skill any <<'S'
#!/bin/sh
echo ran
S
for what in seccomp landlock_rules; do
	for mode in required best-effort; do
		for n in 1 2 3; do
			run_without $what --sandbox $mode any
			[ "$RC $OUT $(result outcome)" = "125  refused" ] || break
		done
		is "$RC $OUT $(result outcome) $(count skill.invoked_started)" \
		    "125  refused 0" "without $what, $mode: no skill runs"
	done
done
like "$ERR" 'confining the broker: ' "and told why"
run_without seccomp any
like "$ERR" 'sandbox: seccomp: .*; without namespaces network_namespace is required' \
    "what failed comes first"
run_without setsid --attest any
like "$ERR" 'session: Input/output error' "--attest names the step that failed"
perl "$T/without" setsid "$CYBEROS" skill broker doctor >"$T/out" 2>&1
like "$(cat "$T/out")" 'session: Input/output error' "and so does doctor"

perl "$T/without" userns,landlock "$CYBEROS" skill broker doctor >"$T/out" 2>&1
is "$? $(grep -c '^mount_namespace  *not available' "$T/out")" "1 1" \
    "doctor tells what best-effort would have"
like "$(tail -n 5 "$T/out" | tr '\n' ' ')" 'What failed: sandbox: ' "and what failed"
is "$(awk 'length > 80' "$T/out")" "" "in lines of a terminal"

# --- limits that are not there ---

perl "$T/without" limit "$CYBEROS" skill broker doctor --json >"$T/out" 2>"$T/err"
is "$? $(jq -r '.layers.limits, .layers.descriptor_limit, .attempts.exceed_limits' "$T/out" | xargs)" \
    "1 BROKEN enforced POSSIBLE" "doctor tries the limit of processes"
run_without limit --attest any
is "$RC $OUT" "125 " "and --attest refuses"

# --- an old root that cannot be left ---

# Init finds out while other steps go on; a skill never begins beside it.
run_without umount,landlock always -- "$T/secret" "$port" "$bystander"
is "$RC $OUT" "125 " "a root that cannot be left: required is refused"
like "$ERR" 'pivot_root: Device or resource busy' "and the step is named"
run_without umount,landlock --sandbox best-effort always -- "$T/nowhere/x" 1 1
is "$RC $(layer mount_namespace) $(layer pivot_root)" \
    "0 not available not available" \
    "best-effort: it does without namespaces, and says so"

is "$(cat "$T/secret")" secret "what lies outside is as it was"
holds "and nothing was added" [ ! -e "$T/secret.new" ]

# --- how it ends there ---

# What becomes of it, and how long that took.
ends() { "$@"; echo "$RC $(result outcome) $(result by)"; }
took() { result duration_ms; }
skill deaf <<'S'
#!/usr/bin/perl
use POSIX ();
$SIG{TERM} = 'IGNORE';
for my $kind (qw(plain session orphan)) {
	next if fork;
	if ($kind eq 'orphan') { fork and POSIX::_exit(0) }
	POSIX::setsid() if $kind ne 'plain';
	$SIG{TERM} = sub { syswrite STDOUT, "$kind\n"; POSIX::_exit(0) };
	sleep 1 while 1;
}
syswrite STDOUT, "up\n";
sleep 1 while 1;
S
is "$(ends run_without userns --deadline 4 deaf)" '124 timeout clock' "a deadline ends it"
is "$(sort "$T/out" | tr '\n' ' ')" 'orphan plain session up ' \
    "SIGTERM goes to all that it has started, before"
late=$(rows skill.timeout '| .late_ms')
[ "$(took)" -lt $((4100 + late)) ] && [ "$late" -lt 2000 ]
ok $? "and SIGKILL is not left to init's own timer ($(took) ms, late $late)"
is "$(ends run_without userns --connect-timeout 1 deaf)" '124 no_connect clock' \
    "nobody connects"
[ "$(took)" -lt 9000 ]
ok $? "that ends it as well ($(took) ms)"
start_without userns deaf
until_true says up
kill -TERM "$RUN"
sleep 0.5
kill -TERM "$RUN"
finish
is "$RC $(result outcome) $(result by)" '143 killed caller' "the second signal ends it at once"
is "$(alive)" "$bystander " "nothing is left"

# Init connects what was never used, and nothing else: what is in a socket would
# go at its expense.
perl_skill used <<'P'
use Socket;
$| = 1;
my $to = pack_sockaddr_un($ENV{CYBEROS_BROKER_SOCKET});
socketpair my $a, my $b, AF_UNIX, SOCK_STREAM, 0;
print "pair ", connect($a, $to) ? "CONNECTED" : 0 + $!, "\n";
socket my $s, AF_UNIX, SOCK_STREAM, 0;
print "fresh ", connect($s, $to) ? "connected" : 0 + $!, "\n";
print "again ", connect($s, $to) ? "CONNECTED" : 0 + $!, "\n";
open my $f, "<", "/usr/bin/env";
print "file ", syscall(42, fileno $f, $to, length $to) == 0 ? "CONNECTED" : 0 + $!, "\n";
P
run_without userns used
is "$(echo $OUT)" "pair 106 fresh connected again 106 file 88" \
    "init connects fresh sockets only"

# Init has no time to wait for a place in the broker's queue.
skill crowd <<'S'
#!/usr/bin/perl
use Socket;
$SIG{TERM} = 'IGNORE';
if (!fork) { # whoever asks init again and again not to be hurried
	socket my $u, AF_UNIX, SOCK_STREAM, 0;
	connect $u, pack_sockaddr_un($ENV{CYBEROS_BROKER_SOCKET});
}
while (1) {
	socket my $u, AF_UNIX, SOCK_STREAM, 0;
	setsockopt $u, SOL_SOCKET, SO_SNDTIMEO, pack('qq', 0, 0);
	connect $u, pack_sockaddr_un($ENV{CYBEROS_BROKER_SOCKET}) or last;
	push @all, $u;
}
print $!{EAGAIN} ? "full\n" : "$!\n";
$| = 1;
sleep 1 while 1;
S
is "$(ends run_without userns --deadline 4 crowd)" '124 timeout clock' \
    "a queue that is full holds nobody up"

# Who makes a new one for each that is killed gets nowhere.
cat >"$T/relay.c" <<'C'
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int
main(int argc, char **argv)
{
	size_t n = (size_t)64 << 20, i;
	pid_t p;
	char *m;

	signal(SIGTERM, SIG_IGN);
	if (fork() != 0) {
		sleep((unsigned)atoi(argv[argc - 1]));
		_exit(0);
	}
	setsid();
	for (;;) {
		while ((p = fork()) < 0)
			;
		if (p != 0) {
			m = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			madvise(m, n, MADV_DONTFORK);
			for (i = 0; m != MAP_FAILED && i < n; i += 4096)
				m[i] = 1;
			for (;;)
				pause();
		}
		setsid();
	}
}
C
if cc -O1 -o "$T/relay" "$T/relay.c" 2>/dev/null; then
	skill relay <"$T/relay"
	none_but_bystander() { [ "$(alive)" = "$bystander " ]; }
	is "$(ends run_without userns --deadline 30 relay -- 1)" '0 success skill' \
	    "one that goes on behind itself ends" || note "$ERR"
	holds "and leaves nothing" until_true none_but_bystander
	is "$(ends run_without userns --deadline 2 relay -- 60)" '124 timeout clock' \
	    "or at the deadline" || note "$ERR"
	holds "and leaves nothing" until_true none_but_bystander
else
	skip 'a relay' 'no C compiler'
fi

# A thread is as good as another.
skill threads <<'S'
#!/usr/bin/python3
import os, socket, threading
def go():
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(os.environ['CYBEROS_BROKER_SOCKET'])
        print('connected')
    except OSError as e:
        print(e)
t = threading.Thread(target=go)
t.start()
t.join()
S
if [ -x /usr/bin/python3 ]; then
	run_without userns threads
	is "$OUT" connected "a thread connects to the broker" || note "$ERR"
fi

# --- a shortage is not a host that lacks something ---

skill short <<'S'
#!/bin/sh
echo ran
S
n=10 ran=0 refused=0
while [ $n -lt 200 ] && [ $ran -lt 15 ]; do
	n=$((n + 1))
	rm -f "$T/result.json"
	# shellcheck disable=SC3045 # dash and bash have it
	(ulimit -n $n
	exec "$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --result "$T/result.json" short >"$T/out" 2>"$T/err" </dev/null)
	case $? in
	0)
		ran=$((ran + 1))
		[ "$(layer user_namespace)" = active ] || note "$n descriptors: $(cat "$T/result.json")"
		[ "$(layer user_namespace)" = active ] || refused=-100
		;;
	*)
		refused=$((refused + 1))
		;;
	esac
done
holds "too few descriptors: some were refused, and what ran had all layers" \
    [ "$((refused > 10 && ran == 15))" = 1 ]

# Nor is one that is killed while its sandbox is built.
cat >"$T/killed.c" <<'C'
#include <stdarg.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
static int *done;
static char at[16];
static int is_init;
__attribute__((constructor)) static void
begin(void)
{
	const char *where = getenv("KILLED_AT");

	done = mmap(NULL, sizeof(*done), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	strncpy(at, where == NULL ? "" : where, sizeof(at) - 1);
}
static void
die(const char *where)
{
	if (strcmp(at, where) == 0 && __atomic_exchange_n(done, 1, __ATOMIC_SEQ_CST) == 0)
		kill(getpid(), SIGKILL);
}
int
prctl(int what, ...)
{
	unsigned long a[4];
	va_list ap;
	int i;

	va_start(ap, what);
	for (i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (what == PR_SET_NAME && strcmp((const char *)a[0], "cyberos-init") == 0)
		is_init = 1, die("first");
	return (int)syscall(SYS_prctl, what, a[0], a[1], a[2], a[3]);
}
ssize_t
sendmsg(int fd, const struct msghdr *m, int flags)
{
	ssize_t n = syscall(SYS_sendmsg, fd, m, flags);

	if (is_init)
		die("sent");
	return n;
}
int
sethostname(const char *name, size_t len)
{
	die("later");
	return (int)syscall(SYS_sethostname, name, len);
}
C
if cc -shared -fPIC -O1 -o "$T/killed.so" "$T/killed.c" 2>"$T/err"; then
	for at in first sent later; do
		rm -f "$T/result.json"
		KILLED_AT=$at LD_PRELOAD=$T/killed.so "$CYBEROS" skill broker run \
		    --store "$STORE" --skills "$T/skills" --result "$T/result.json" \
		    short >"$T/out" 2>"$T/err" </dev/null
		RC=$?
		case $RC in
		0) is "$(layer user_namespace)$(layer private_root)" activeactive \
		    "killed at $at: it was begun again, with all layers" ||
			note "$(cat "$T/err")" ;;
		*) is "$RC $(cat "$T/out")$(grep -c 'its process was killed' "$T/err")" '125 1' \
		    "killed at $at: nothing runs" || note "$(cat "$T/err")" ;;
		esac
	done
else
	skip 'a killed init' 'no C compiler'
fi

# --- what was verified is what runs, or nothing does ---

printf '#!/bin/sh\necho ran\n' | skill signed
"$CYBEROS" skill keygen "$T/key" >/dev/null
"$CYBEROS" skill sign "$T/skills/signed" --key "$T/key" >/dev/null
run_without nothing signed
is "$RC $OUT" '0 ran' 'signed: with all of it'
run_without landlock signed
is "$RC $OUT" '0 ran' 'signed: without Landlock'
for mode in required best-effort; do
	run_without userns --sandbox $mode signed
	is "$RC $OUT" '125 ' "signed: not without a private root ($mode)"
	like "$ERR" 'x-files-sha256 .* private root.*user\.max_user_namespaces' \
	    "signed: and why ($mode)"
	is "$(count skill.invoked_started)" 0 "signed: no start in the ledger ($mode)"
done
sed -i '/^x-files/d; /^signature/d; /^  /d' "$T/skills/signed/SKILL.md"
run_without userns --sandbox best-effort signed
is "$RC $OUT" '0 ran' 'the same without hash and signature runs there'

# --- the sysctl itself ---

if ! is_root && unshare -U --map-user=5000 --map-group=5000 --keep-caps \
    sh -c 'echo 0 >/proc/sys/user/max_user_namespaces' 2>/dev/null; then
	# shellcheck disable=SC2016 # the inner shell's
	unshare -U --map-user=5000 --map-group=5000 --keep-caps sh -c '
		echo 0 >/proc/sys/user/max_user_namespaces
		exec setpriv --inh-caps=-all --ambient-caps=-all \
		    perl "$0" landlock "$@"' "$T/without" "$CYBEROS" skill broker \
	    run --store "$STORE" --skills "$T/skills" \
	    --result "$T/result.json" always -- x 1 1 >"$T/out" 2>"$T/err" </dev/null
	is "$? $(cat "$T/out")" "125 " "user.max_user_namespaces=0: required is refused"
	like "$(cat "$T/err")" 'No space left on device.*user\.max_user_namespaces' \
	    "and the sysctl is named"
elif ! is_root; then # root's turn is below
	skip "user.max_user_namespaces=0" "unshare(1) cannot do it here"
fi

# --- root that may not mount ---

if is_root; then
	skill shown <<'S'
#!/bin/sh
id -u
ls -d /home /skill 2>/dev/null
exit 0
S
	setpriv --bounding-set -sys_admin "$CYBEROS" skill broker run \
	    --store "$STORE" --skills "$T/skills" --result "$T/result.json" shown \
	    >"$T/out" 2>"$T/err" </dev/null
	is "$? $(xargs <"$T/out")" "0 1000 /skill" "root without CAP_SYS_ADMIN: a skill runs"
	is "$(jq -r '.sandbox | to_entries[] | select(.value != "active") | .key' "$T/result.json" |
	    grep -Ev "^($EXTRAS)$")" "" "in a whole sandbox" || note "$(cat "$T/err")"
	mkdir -m 755 "$T/given"
	echo x >"$T/given/all"
	echo y >"$T/given/own"
	chmod 666 "$T/given/all"
	chmod 600 "$T/given/own"
	skill wire 'allowed_tools: [Bash]' "x-allowed-files: [\"$T/given/**\"]" <"$WIRE/main"
	lines "Bash $(jq -nc --arg c "cd $T/given; cat all own; echo more >>all; ls /home" '{cmd: $c}')"
	setpriv --bounding-set -sys_admin "$CYBEROS" skill broker run \
	    --store "$STORE" --skills "$T/skills" wire <"$T/commands" >"$T/out" 2>"$T/err"
	is "$(answer 1 .result.stdout) $(xargs <"$T/given/all")" "x x more" \
	    "its Bash reads and writes what all may" || note "$(cat "$T/out" "$T/err")"
fi

# --- root that has only one uid ---

if is_root && unshare -Ur true 2>/dev/null; then
	for mode in required best-effort; do
		unshare -Ur "$CYBEROS" skill broker run --store "$STORE" \
		    --skills "$T/skills" --result "$T/result.json" --sandbox $mode \
		    always -- x 1 1 >"$T/out" 2>"$T/err" </dev/null
		is "$? $(cat "$T/out")" "125 " \
		    "root that cannot give the skill another uid: refused ($mode)"
	done
fi
kill "$bystander"
wait "$bystander" 2>/dev/null
done_testing
