#!/bin/sh
# What a skill finds when it looks around, and what it cannot do there.
. t/lib.sh
. t/box.sh

# --- environment, descriptors, working directory ---

perl_skill look <<'P'
$| = 1;
open my $e, '<', '/proc/self/environ';
local $/;
print "names ", join(' ', sort map { s/=.*//sr } split /\0/, <$e>), "\n";
print "$_ $ENV{$_}\n" for sort keys %ENV;
print "fds ", join(' ', grep { -l "/proc/self/fd/$_" && readlink("/proc/self/fd/$_") !~ m{^/proc/\d+/environ$} } 0 .. 300), "\n";
print "later ", `sh -c 'for n in 0 1 2 3 4 5 6 7 8 9 10 11 12 13; do [ -L /proc/self/fd/\$n ] && printf "%s " \$n; done'`, "\n";
print "escape ", (join ' ', grep { chdir "/proc/self/fd/$_" } 0 .. 300), "\n";
chdir '/skill';
print "cwd ", readlink('/proc/self/cwd'), "\n";
chdir '../../../../../..';
print "top ", readlink('/proc/self/cwd'), "\n";
print "args ", join('|', @ARGV), "\n";
P
for n in 3 4 5 6 7 8 9; do eval "exec $n</etc/passwd"; done
API_KEY=secret BASH_ENV=/etc/passwd ENV=/etc/passwd NODE_OPTIONS=-v \
    GCONV_PATH=/tmp LD_AUDIT='' LD_LIBRARY_PATH=/nowhere PERL5LIB=/nowhere \
    GLIBC_TUNABLES=glibc.malloc.check=0 CYBEROS_SKILLS=/nowhere \
    CYBEROS_EXTRA=1 RUST_LOG=debug broker_run look -- one 'two words' ''
for n in 3 4 5 6 7 8 9; do eval "exec $n<&-"; done
is "$RC" 0 "a skill runs in its sandbox"
is "$(val names)" "CYBEROS_BROKER_SOCKET CYBEROS_INVOCATION_ID CYBEROS_SKILL_ID CYBEROS_TENANT_ID RUST_LOG" \
    "acceptance 8: the environment is exactly five names"
is "$(val CYBEROS_INVOCATION_ID)" "$(result invocation_id)" "the invocation's id"
is "$(val CYBEROS_SKILL_ID)" look "the skill's id"
is "$(val CYBEROS_TENANT_ID)" 00000000-0000-0000-0000-000000000000 "the tenant"
is "$(val RUST_LOG)" warn "RUST_LOG is ours and not the caller's"
is "$(val CYBEROS_BROKER_SOCKET)" \
    "/tmp/cyberos-skill-broker.$(result invocation_id).sock" "the socket's path"
is "$(val fds)" "0 1 2" "acceptance 9: descriptors 0, 1 and 2 only"
is "$(val later)" "0 1 2 " "a program that it starts has no more"
is "$(val escape)" "" "no descriptor is a way out"
is "$(val cwd)" /skill "begins in its directory"
is "$(val top)" / "the root is the top"
is "$(val args)" "one|two words|" "arguments arrive as they were given"
nothing_left "a plain run"

# --- identity ---

perl_skill who <<'P'
use POSIX ();
open my $s, '<', '/proc/self/status';
while (<$s>) {
	print "$1 ", join(' ', split ' ', $2), "\n"
	    if /^(Uid|Gid|Groups|Cap\w+|NoNewPrivs|Sig(?:Blk|Ign)|Threads):\s*(.*)/;
}
for my $f (qw(uid_map gid_map oom_score_adj)) {
	open my $h, '<', "/proc/self/$f";
	print "$f ", join(' ', split ' ', <$h>), "\n";
}
print "session ", (POSIX::getpgrp() == $$ && syscall(124, 0) == $$ ? 'own' : 'shared'), "\n" if `uname -m` =~ /x86_64/;
open(my $tty, '+<', '/dev/tty') and print "tty open\n";
printf "umask %03o\n", umask;
print "parent ", getppid(), "\n";
POSIX::setuid(0); POSIX::setgid(0);
print "after $< $> ", (split ' ', $()[0], "\n";
# A set-id program gives nothing.
for (qw(/usr/bin/su /usr/bin/passwd /usr/bin/mount /bin/su)) {
	print "setid ", `sh -c 'cat /proc/self/status' 2>&1` =~ /^CapEff:\s*0+$/m ? "none\n" : "some\n" if -e;
	last if -e;
}
P
skill signals <<'S'
#!/bin/sh
sed -n 's/^\(Sig[BI][lg][kn]\):[[:space:]]*/\1 /p' /proc/self/status
S
run_ignoring() { # SKILL UMASK: by a caller that ignores signals, with a umask
	(
		trap '' HUP TERM USR1 PIPE ALRM
		umask "$2"
		# Some shells cannot ignore SIGCHLD.
		exec perl -e '$SIG{CHLD} = "IGNORE"; exec @ARGV' "$CYBEROS" skill broker run --store "$STORE" \
		    --skills "$T/skills" --result "$T/result.json" "$1"
	) >"$T/out" 2>"$T/err"
	RC=$?
}
run_ignoring signals 077
is "$(val SigIgn)" 0000000000000000 "no signal is ignored"
is "$(val SigBlk)" 0000000000000000 "no signal is blocked"
run_ignoring who 0
is "$RC" 0 "a caller with ignored signals and umask 0 changes nothing"
is "$(val Uid)" "1000 1000 1000 1000" "uid 1000 inside"
is "$(val Gid)" "1000 1000 1000 1000" "gid 1000 inside"
for set in CapInh CapPrm CapEff CapBnd CapAmb; do
	is "$(val $set)" 0000000000000000 "$set is empty"
done
is "$(val NoNewPrivs)" 1 "no_new_privs"
is "$(val umask)" 022 "umask 022, whatever the caller's is"
is "$(val oom_score_adj)" 1000 "first to go when memory runs out"
is "$(val session | sed 's/^$/own/')" own "a session of its own"
is "$(val tty)" "" "no terminal"
is "$(val parent)" 1 "its parent is init"
is "$(val after)" "1000 1000 1000" "cannot become root"
is "$(val setid | sort -u | sed 's/^$/none/')" none "nor through a set-id program"
map=$(val uid_map)
if is_root; then
	host=${map#1000 }
	host=${host% 1}
	like "$host" '^20000[0-9]{5}$' "on the host a uid of uid_range"
	is "$(val Groups)" "" "no supplementary group"
else
	is "$map" "1000 $(id -u) 1" "on the host the caller's uid"
fi
is "$(val gid_map | wc -w | tr -d ' ')" 3 "one gid is mapped"

if is_root; then
	perl_skill waiter <<'P'
$| = 1; print "up\n"; sleep 60;
P
	setpriv --groups 4,27 "$CYBEROS" skill broker run --store "$STORE" \
	    --skills "$T/skills" --result "$T/result.json" who >"$T/out" 2>"$T/err"
	is "$(val Groups)" "" "the caller's supplementary groups are dropped"
	start waiter -- "$T"
	until_true says up
	a=$(awk '/^Uid:/ {print $2}' "/proc/$(main_pid)/status")
	first=$RUN
	start waiter -- "$T"
	until_true says up
	b=$(awk '/^Uid:/ {print $2}' "/proc/$(main_pid)/status")
	holds "two invocations at once have two host uids ($a, $b)" \
	    [ "$a" != "$b" ]
	holds "neither is root" [ "${a:-0}" -ge 2000000000 ]
	holds "nor the other" [ "${b:-0}" -ge 2000000000 ]
	kill -TERM "$first" "$RUN"
	wait "$first"
	finish
	nothing_left "both"
fi

# --- /proc and the socket ---

skill looks <<'S'
#!/bin/sh
for f in locks keys key-users; do
	echo "$f $(cat /proc/$f | wc -c)"
done
echo 0 2>/dev/null >/proc/self/oom_score_adj
echo "oom $(cat /proc/self/oom_score_adj)"
chmod 777 "$CYBEROS_BROKER_SOCKET" 2>/dev/null && echo opened
echo "socket $(stat -c %a "$CYBEROS_BROKER_SOCKET")"
S
printf '#!/bin/sh\necho up\nexec sleep 60\n' | skill naps
start naps
until_true says up
other=$RUN
grep -q . /proc/locks
ok $? "the locks of another invocation are in the host's /proc"
"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
    --result "$T/result.json" looks >"$T/out" 2>"$T/err" </dev/null
is "$(tr '\n' ' ' <"$T/out")" "locks 0 keys 0 key-users 0 oom 1000 socket 600 " \
    "and in no sandbox's, nothing is written there, the socket keeps its mode"
kill -TERM "$other"
wait "$other"

# --- limits ---

perl_skill limits 'effort_minutes: 2' <<'P'
use POSIX ();
$| = 1;
for my $l (qw(t c n f v u r)) {
	print "$l ", `bash -c 'ulimit -S$l; ulimit -H$l'` =~ s/\s+/ /gr, "\n";
}
my @h;
while (open my $f, '<', '/dev/null') { push @h, $f; last if @h > 400; }
print "files ", scalar(@h), "\n";
@h = ();
my $n = 0;
for (1 .. 16) {
	my $p = fork;
	last if !defined $p;
	if ($p == 0) { sleep 30; POSIX::_exit(0) }
	$n++;
}
print "forks $n ", $!{EAGAIN} ? 'EAGAIN' : "$!", "\n";
kill 9, -1;
1 while wait > 0;
my $pid = fork // die;
if ($pid == 0) { my $n = 1 << 30; my $x = 'a' x $n; print "memory had\n"; POSIX::_exit(0) }
wait;
print "memory ", $? == 0 ? 'granted' : 'refused', "\n";
P
broker_run limits
is "$(val t)" "120 120 " "RLIMIT_CPU is effort_minutes in seconds"
is "$(val c)" "0 0 " "RLIMIT_CORE is 0"
is "$(val n)" "256 256 " "RLIMIT_NOFILE is 256"
is "$(val v)" "524288 524288 " "RLIMIT_AS is 512 MiB"
is "$(val r)" "0 0 " "no real-time priority"
is "$(val files)" 253 "the 254th file is refused"
is "$(val memory)" refused "acceptance 10: an allocation of 1 GiB fails"
is "$(val forks)" "7 EAGAIN" \
    "acceptance 11: of 16 children 7 start: with main there are 8 processes"

# What else runs under the same uid does not count.
n=0
while [ $n -lt 40 ]; do
	perl -e 'sleep 100' "$T" &
	n=$((n + 1))
	others="${others:-} $!"
done
broker_run limits
is "$(val forks)" "7 EAGAIN" "40 other processes of the caller count nothing"
# shellcheck disable=SC2086 # a list
kill $others
wait

sed -i 's/^effort/x-max-processes: 3\nx-memory-mb: 200\neffort/' \
    "$T/skills/limits/SKILL.md"
broker_run limits
is "$(val forks)" "2 EAGAIN" "x-max-processes counts"
is "$(val v)" "204800 204800 " "x-memory-mb counts"
(
	# shellcheck disable=SC3045 # dash and bash both know it
	ulimit -Sn 100
	broker_run limits
	[ "$(val n)" = "100 256 " ] && [ "$(val files)" = 97 ]
)
ok $? "a lower limit of the caller's stays"

# --- what is there ---

perl_skill tree <<'P'
use POSIX ();
use Errno;
sub names { opendir my $d, $_[0] or return "-"; join ' ', sort grep { !/^\.\.?$/ } readdir $d }
print "root ", names('/'), "\n";
print "etc ", names('/etc'), "\n";
print "dev ", names('/dev'), "\n";
print "tmp ", names('/tmp'), "\n";
print "skill ", names('/skill'), "\n";
print "sbin ", names('/usr/local/sbin'), "\n";
print "gone $_\n" for grep { -e } qw(/home /root /var /work /boot /srv /mnt
    /media /opt /run /sys /lost+found /etc/shadow /etc/cyberos /dev/mem /dev/sda
    /dev/vda /dev/kvm /dev/pts /dev/tty /oldroot /.old);
for my $d (qw(/ /usr /usr/bin /usr/local/sbin /etc /dev /skill /proc /etc/ssl)) {
	my $ok = open my $f, '>', "$d/planted";
	print "write $d ", $ok ? 'DONE' : 'refused', "\n";
}
for my $f (qw(/skill/main /skill/SKILL.md /etc/passwd /usr/local/sbin/cyberos /usr/bin/perl /etc/ld.so.cache)) {
	print "write $f ", open(my $h, '+<', $f) ? 'DONE' : 'refused', "\n";
	print "chmod $f ", chmod(0777, $f) ? 'DONE' : 'refused', "\n";
	print "unlink $f ", unlink($f) ? 'DONE' : 'refused', "\n";
}
print "mknod ", system('mknod /tmp/n c 1 3 2>/dev/null') ? 'refused' : 'DONE', "\n";
for my $c ('mount -o remount,rw /usr', 'mount -t tmpfs x /tmp', 'umount /usr',
    'umount /usr/local/sbin', 'mount --bind /tmp /etc', 'unshare -U true',
    'unshare -m true', 'unshare -n true', 'unshare -Ur true', 'chroot / /bin/true',
    'hostname other', 'mount -t proc x /proc') {
	print "try $c: ", system("$c >/dev/null 2>&1") ? 'refused' : 'DONE', "\n";
}
print "node ", (POSIX::uname())[1], "\n";
open my $h, '<', '/etc/hostname'; print "hostname ", <$h>;
P
broker_run tree
allowed=' bin dev etc lib lib32 lib64 libx32 proc sbin skill tmp usr '
strange=
for name in $(val root); do
	case $allowed in *" $name "*) ;; *) strange="$strange $name" ;; esac
done
is "$strange" "" "the root holds what it must and nothing else"
allowed=' alternatives ca-certificates group hostname hosts ld.so.cache localtime '
allowed="$allowed mime.types nsswitch.conf passwd protocols services ssl "
strange=
for name in $(val etc); do
	case $allowed in *" $name "*) ;; *) strange="$strange $name" ;; esac
done
is "$strange" "" "of /etc only the listed parts"
is "$(val dev)" "fd full null random shm stderr stdin stdout urandom zero" \
    "/dev is minimal"
is "$(val tmp)" "cyberos-skill-broker.$(result invocation_id).sock" \
    "/tmp holds this invocation's socket and no other"
is "$(val skill)" "SKILL.md main" "its own files are there"
is "$(val sbin)" cyberos "the client is in the search path"
is "$(val gone)" "" "nothing else of the host is there"
is "$(grep DONE "$T/out")" "" "no write, mount or namespace succeeds"
is "$(grep -c refused "$T/out")" 40 "all of them were tried"
is "$(val node) $(val hostname)" "skill skill" "it does not learn the host's name"

# --- /proc ---

perl_skill proc <<'P'
opendir my $d, '/proc';
print "pids ", join(' ', map { $_ == $$ ? 'self' : $_ } grep { /^\d+$/ } readdir $d), "\n";
print "own ", $$ > 1 ? 'later' : 'first', "\n";
for my $f (qw(environ mem maps exe cwd root fd/0 fd/3 fd/4 fd/5 fdinfo/3 stack syscall auxv ns/user task/1/environ)) {
	my $ok = -l "/proc/1/$f" ? defined readlink "/proc/1/$f" : open(my $h, '<', "/proc/1/$f");
	print "init $f ", $ok ? 'OPEN' : 'closed', "\n";
}
print "write $_ ", (open(my $h, '>', $_) && syswrite($h, "1\n")) ? 'OPEN' : 'closed', "\n"
    for qw(/proc/sys/kernel/hostname /proc/sysrq-trigger /proc/sys/kernel/core_pattern
    /proc/sys/user/max_user_namespaces /proc/self/uid_map /proc/self/setgroups
    /proc/sys/net/ipv4/ip_forward /proc/1/oom_score_adj);
print "read $_ ", open(my $h, '<', $_) ? 'OPEN' : 'closed', "\n" for qw(/proc/kcore /proc/kmsg);
kill 9, 1; kill 15, 1; kill 19, 1; select undef, undef, undef, 0.1;
kill 9, grep { $_ != $$ } 2 .. 40000;
kill 9, -1;
print "killed nobody\n";
P
broker_run proc
is "$RC" 0 "signals to everything reach nobody"
is "$(val killed)" nobody "init included"
is "$(val pids) $(val own)" "self later" "/proc shows its own processes only; the skill is not the first"
is "$(grep OPEN "$T/out")" "" "nothing of init or the kernel is open"
is "$(grep -c closed "$T/out")" 26 "all of them were tried"

# --- /tmp ---

printf 'tmp_mb: 4\n' >"$T/small.yaml"
perl_skill space <<'P'
my $b = 'x' x 65536;
open my $f, '>', '/tmp/big'; binmode $f; my $n = 0;
while (defined(my $w = syswrite $f, $b)) { $n += $w; last if $n > 20 << 20 }
print "filled ", int($n / 1048576), ' ', $!{ENOSPC} || $!{EFBIG} ? 'full' : "$!", "\n";
close $f; unlink '/tmp/big';
my $i = 0;
while ($i < 40000) { open my $h, '>', "/tmp/f$i" or last; $i++ }
print "files ", $i < 40000 ? 'limited' : 'unlimited', "\n";
unlink glob '/tmp/f*';
print "copy ", system('cp /bin/true /tmp/true && chmod 755 /tmp/true && cmp -s /bin/true /tmp/true') ? 'failed' : 'there', "\n";
print "exec ", system('/tmp/true 2>/dev/null') ? 'refused' : 'DONE', "\n";
my ($ld) = grep { -x } glob '/lib64/ld-linux* /lib/ld-linux*';
print "loader ", system("$ld /tmp/true 2>/dev/null") ? 'refused' : 'DONE', "\n";
print "shm ", open(my $h, '>', '/dev/shm/x') && -e '/tmp/x' ? 'in /tmp' : 'not', "\n";
system 'ln -s /etc/shadow /tmp/l';
print "link ", open(my $h2, '<', '/tmp/l') ? 'OPEN' : 'closed', "\n";
P
broker_run --config "$T/small.yaml" space
like "$(val filled)" '^[34] full$' "/tmp is limited to tmp_mb"
is "$(val files)" limited "and in the number of files"
is "$(val copy)" there "a program can be copied there"
is "$(val exec)" refused "a program in /tmp does not start"
is "$(val loader)" refused "nor through the dynamic loader"
is "$(val shm)" "in /tmp" "/dev/shm is in it"
is "$(val link)" closed "a link leads nowhere"
holds "nothing of it was on the host" [ ! -e /tmp/big ]

# --- network, IPC, keys (case S60) ---

perl -MSocket -e '
	my ($dir, $marker) = @ARGV;
	socket my $t, AF_INET, SOCK_STREAM, 0 or die;
	bind $t, pack_sockaddr_in(0, inet_aton("127.0.0.1")) or die;
	listen $t, 5;
	socket my $a, AF_UNIX, SOCK_STREAM, 0 or die;
	my $name = "\0cyberos-test-$$";
	bind $a, pack_sockaddr_un($name) or die;
	listen $a, 5;
	my $id = shmget($$, 4096, 0600 | 01000);
	open my $f, ">", "$dir/net.tmp";
	printf $f "%d %d %d\n", (unpack_sockaddr_in getsockname $t)[0], $$, $$;
	close $f;
	rename "$dir/net.tmp", "$dir/net";
	$SIG{TERM} = sub { shmctl $id, 0, 0; exit };
	my $r = "";
	vec($r, fileno $t, 1) = vec($r, fileno $a, 1) = 1;
	if (select(my $got = $r, undef, undef, 100) > 0) {
		open my $g, ">", "$dir/reached";
	}
	sleep 100;
' "$T" &
listener=$!
until_true [ -e "$T/net" ]
read -r port abstract key <"$T/net"
perl_skill net <<'P'
use Socket;
my ($port, $abstract, $key) = @ARGV;
open my $d, '<', '/proc/net/dev';
print "interfaces ", join(' ', map { /^\s*(\w+):/ ? $1 : () } <$d>), "\n";
open my $r, '<', '/proc/net/route'; my @r = <$r>; print "routes ", @r - 1, "\n";
socket my $s, AF_INET, SOCK_STREAM, 0;
my $flags = pack 'a16 s x22', 'lo', 0;
ioctl $s, 0x8913, $flags;
print "lo ", (unpack 'x16 s', $flags) & 1 ? 'up' : 'down', "\n";
print "tcp ", connect($s, pack_sockaddr_in($port, inet_aton('127.0.0.1'))) ? 'CONNECTED' : 'refused', "\n";
socket my $u, AF_INET, SOCK_DGRAM, 0;
print "udp ", defined send($u, 'x', 0, pack_sockaddr_in(53, inet_aton('127.0.0.53'))) ? 'SENT' : 'refused', "\n";
socket my $a, AF_UNIX, SOCK_STREAM, 0;
print "abstract ", connect($a, pack_sockaddr_un("\0cyberos-test-$abstract")) ? 'CONNECTED' : 'refused', "\n";
print "shm ", defined shmget($key, 4096, 0) ? 'FOUND' : 'absent', "\n";
print "up ", system('ip link set lo up >/dev/null 2>&1; ifconfig lo up >/dev/null 2>&1') ? 'refused' : 'DONE', "\n";
my ($b, $t, $n) = ("\0" x 64, 'user', 'cyberos-test');
print "key ", (syscall(250, 11, $key + 0, $b, 64) > 0 || syscall(250, 10, -3, $t, $n, 0) > 0
    ? 'READ' : 'closed'), "\n" if `uname -m` =~ /x86_64/;
open my $c, '<', '/proc/self/cgroup'; print "cgroup $_" for <$c>;
P
broker_run net -- "$port" "$abstract" "$key"
is "$(val interfaces)" lo "no interface but loopback"
is "$(val lo)" down "and that is down"
is "$(val routes | sed 's/^-1$/0/')" 0 "no route"
is "$(val tcp) $(val udp)" "refused refused" "neither TCP nor UDP leaves it"
is "$(val abstract)" refused "an abstract socket of the host is not there"
is "$(val shm)" absent "nor its System V memory"
is "$(val up)" refused "it cannot bring loopback up"
unlike "$(val cgroup)" ':/.*[a-z]' "its cgroup is the root of what it sees"
holds "the listeners have seen nobody" [ ! -e "$T/reached" ]
# The ground truth of that: the same client outside gets through.
perl -MSocket -e 'socket my $s, AF_INET, SOCK_STREAM, 0;
    connect $s, pack_sockaddr_in($ARGV[0], inet_aton("127.0.0.1")) or exit 1' \
    "$port"
ok $? "outside it gets through"
until_true [ -e "$T/reached" ]
kill "$listener"
wait "$listener"

if [ "$(uname -m)" = x86_64 ] && [ -r /proc/keys ]; then
	# A session with a key in it calls us: keyctl(JOIN), add_key, exec.
	cat >"$T/session" <<'P'
syscall(250, 1, 0);
my ($t, $n, $v) = ('user', 'cyberos-test', 'secret');
my $id = syscall 248, $t, $n, $v, 6, -3;
exit 99 if $id < 0;
my $b = "\0" x 64;
print 'mine ', syscall(250, 11, $id, $b, 64), "\n";
$| = 1; print '';
exec @ARGV, $id;
P
	perl "$T/session" "$CYBEROS" skill broker run --store "$STORE" \
	    --skills "$T/skills" --result "$T/result.json" net -- 1 1 \
	    >"$T/out" 2>"$T/err"
	if [ $? -eq 99 ]; then
		skip "the caller's keys are out of reach" "no keyrings here"
	else
		is "$(val mine)" 6 "the caller can read its key"
		is "$(val key)" closed "the caller's keys are out of reach"
	fi
else
	skip "the caller's keys are out of reach" "no /proc/keys"
fi

# --- two invocations ---

perl_skill twin <<'P'
use Socket;
$| = 1;
socket my $own, AF_UNIX, SOCK_STREAM, 0;
print "own ", connect($own, pack_sockaddr_un($ENV{CYBEROS_BROKER_SOCKET})) ? 'connected' : 'refused', "\n";
open my $f, '>', '/tmp/mine'; print $f $$; close $f;
print "up\n";
my $other = <STDIN>; # the other one is there now
chomp $other;
socket my $s, AF_UNIX, SOCK_STREAM, 0;
print "other ", connect($s, pack_sockaddr_un($other)) ? 'CONNECTED' : 'refused', "\n";
opendir my $d, '/tmp'; print "tmp ", join(' ', sort grep { !/^\./ } readdir $d), "\n";
opendir my $p, '/proc'; print "pids ", join(' ', map { $_ == $$ ? 'self' : $_ } grep { /^\d+$/ } readdir $p), "\n";
print "signal ", (scalar grep { $_ != $$ && kill 0, $_ } 2 .. 40000), "\n";
P
twin() { # NUMBER
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --result "$T/twin$1.json" --invocation "$2" twin -- "$T" \
	    <"$T/in$1" >"$T/twin$1" 2>"$T/err$1" &
}
mkfifo "$T/in1" "$T/in2"
id1=$(new_id) id2=$(new_id)
twin 1 "$id1"
pid1=$!
twin 2 "$id2"
pid2=$!
exec 7>"$T/in1" 8>"$T/in2"
until_true grep -q up "$T/twin1"
until_true grep -q up "$T/twin2"
holds "the first one's socket stands" [ -S /tmp/cyberos-skill-broker."$id1".sock ]
holds "and so does the second one's" [ -S /tmp/cyberos-skill-broker."$id2".sock ]
echo "/tmp/cyberos-skill-broker.$id2.sock" >&7
echo "/tmp/cyberos-skill-broker.$id1.sock" >&8
exec 7>&- 8>&-
wait $pid1 && wait $pid2
ok $? "two invocations of one skill run at once"
for n in 1 2; do
	cp "$T/twin$n" "$T/out"
	[ $n = 1 ] && own=$id1 || own=$id2
	is "$(val own)" connected "acceptance 24: invocation $n reaches its own socket"
	is "$(val other)" refused "acceptance 24: and not the other one's"
	is "$(val tmp)" "cyberos-skill-broker.$own.sock mine" \
	    "acceptance 24: nor its /tmp"
	is "$(val pids) $(val signal)" "self 0" "acceptance 24: nor its processes"
done
is "$(cat "$STORE"/audit/*/seg/*/"$id1".p1.jsonl "$STORE"/audit/*/seg/*/"$id2".p1.jsonl |
    grep -c peer_refused)" 0 "acceptance 24: nobody even came to a socket"
# --- a cgroup, where one was delegated ---
# Ours to give away is a group that we make: the one that we are in is left
# alone. A host without a version 2 tree runs skills without it.
in_group() { # COMMAND...: in the group $GROUP, in a process of its own
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$GROUP" "$@"
}
TREE=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
GROUP=$TREE$(sed -n 's/^0:://p' /proc/self/cgroup)/cyberos-t-$$
skill deep <<'S'
#!/bin/sh
echo "within $(sed -n 's/^0:://p' /proc/self/cgroup)"
setsid sleep 300 </dev/null >/dev/null 2>&1 &
S
if is_root && [ -n "$TREE" ] && mkdir "$GROUP" 2>"$T/err"; then
	state() { jq -r .sandbox.cgroup "$T/result.json"; }
	in_group "$CYBEROS" skill broker run --store "$STORE" --skills \
	    "$T/skills" --result "$T/result.json" deep >"$T/out" 2>"$T/err"
	is "$(state)" "not available" "a cgroup that nobody delegated is left alone"
	setfattr -n user.delegate -v 1 "$GROUP"
	in_group "$CYBEROS" skill broker run --store "$STORE" --skills \
	    "$T/skills" --result "$T/result.json" deep >"$T/out" 2>"$T/err"
	is "$? $(state)" "0 active" "in a delegated one the layer is active"
	is "$(val within)" "/" "the skill sees no more of the tree than its own"
	is "$(find "$GROUP" -mindepth 1 -type d)" "" \
	    "its group is gone afterwards, and so is what it had left in it"
	{
		n=0
		until find "$GROUP" -mindepth 1 -type d | wc -l >"$T/groups" &&
		    [ "$(cat "$T/groups")" -ge 2 ]; do
			n=$((n + 1))
			[ $n -lt 300 ] || break
			sleep 0.1
		done
		echo '{"op":"run","skill":"deep"}'
	} | in_group "$CYBEROS" skill broker supervise --store "$STORE" \
	    --skills "$T/skills" >"$T/out" 2>"$T/err"
	is "$? $(jq -r 'select(.event == "completed") | .outcome + " " + .sandbox.cgroup' "$T/out") $(cat "$T/groups")" \
	    "0 success active 2" "brokers in stock have theirs"
	is "$(find "$GROUP" -mindepth 1 -type d)" "" "which go with them"
	rmdir "$GROUP"
else
	broker_run deep
	is "$RC $(jq -r .sandbox.cgroup "$T/result.json")" "0 not available" \
	    "without a delegated cgroup the layer is not available, and that is all"
fi

# --- what would be used up for others, or tells of the host ---

skill few <<'S'
#!/bin/sh
cat /proc/sys/kernel/domainname
cat /proc/sys/user/max_inotify_instances /proc/sys/user/max_inotify_watches
awk '/pending signals/ { print ($4 <= 1024 ? "few" : $4) }' /proc/self/limits
S
broker_run few
is "$OUT" "(none)
8
8192
few" "the domain's name, inotify's instances and watches, pending signals"

# --- what covers a part of /proc, and names ---

perl_skill covers <<'P'
for ("/proc/locks", "/proc/keys", "/proc/key-users") {
	next if !-e;
	print "chmod $_\n" if chmod 0755, $_;
	print "open $_\n" if open my $f, "+<", $_;
	print "exec $_\n" if !system { $_ } $_;
}
open my $m, "<", "/proc/self/mountinfo";
while (<$m>) {
	my ($point, $flags) = (split)[4, 5];
	next if $point eq "/tmp";
	print "writable $point\n" if $flags !~ /^ro\b/;
	print "executable $point\n" if $flags !~ /\bnoexec\b/ && $point !~ m{^/(usr|s?bin|lib\w*|skill)(/|$)};
}
print "landlock ", (syscall(444, 0, 0, 1) == -1 ? 0 + $! : "THERE"), "\n";
print join(" ", map { unpack "C4", $_ } (gethostbyname "skill")[4]), "\n";
print gethostbyname("example.com") ? "RESOLVED" : "no", "\n";
P
broker_run covers
is "$RC $OUT" "0 landlock 38
127 0 0 1
no" "nothing is writable or runs but where it should, names are looked up in files"
is "$(count skill.cap_bypass_attempt)" 0 "and no look-up is taken for an attack"

# --- memory of the kernel's that no other limit counts ---

perl_skill kernel <<'P'
use Socket;
use Fcntl;
socket my $l, AF_UNIX, SOCK_STREAM, 0;
bind $l, pack_sockaddr_un("/tmp/l") or die;
listen $l, 4096;
my ($n, @all) = 0;
for (1 .. 200) {
	socket my $c, AF_UNIX, SOCK_STREAM, 0;
	fcntl $c, F_SETFL, O_NONBLOCK;
	connect $c, pack_sockaddr_un("/tmp/l") or last;
	push @all, $c;
	$n++;
}
print "queue $n $!\n";
sub get { unpack "i", getsockopt $l, SOL_SOCKET, $_[0] }
my $was = get(SO_SNDBUF);
print "sndbuf ", setsockopt($l, SOL_SOCKET, SO_SNDBUF, pack "i", 4 << 20) ? "" : "no ",
    get(SO_SNDBUF) == $was ? "same" : get(SO_SNDBUF), "\n";
my $large = pack "i", 4 << 20;
print "upper ", syscall(54, fileno $l, SOL_SOCKET | 1 << 32, SO_SNDBUF, $large, 4), " ", get(SO_SNDBUF) == $was ? "same" : get(SO_SNDBUF), "\n";
print "force ", setsockopt($l, SOL_SOCKET, 32, pack "i", 4 << 20) ? "done" : $!, "\n";
# one instruction: let everything through
my $code = pack "SCCL", 6, 0, 0, 0xffff;
for (26, 51) {
	print "attach $_ ", setsockopt($l, SOL_SOCKET, $_, pack "Sx6P", 1, $code) ? "done" : $!, "\n";
}
print "other ", setsockopt($l, SOL_SOCKET, SO_PASSCRED, pack "i", 1) ? "done" : $!, "\n";
open my $f, ">", "/tmp/f";
sub attribute {
	my $v = "x" x $_[0];
	my $name = "user.a";
	syscall(190, fileno $f, $name, $v, length $v, 0) == 0 ? "done" : $!;
}
print "small ", attribute(4095), "\n";
print "large ", attribute(4096), "\n";
P
broker_run kernel
is "$OUT" "queue 17 Resource temporarily unavailable
sndbuf same
upper 0 same
force Operation not permitted
attach 26 Operation not permitted
attach 51 Operation not permitted
other done
small done
large Argument list too long" "queues, sizes of buffers, filters, attributes"
is "$(count skill.cap_bypass_attempt)" 0 "quietly"

# --- descriptors on their way count for all that a user runs ---

# Root may have as many as it likes, and each skill has a uid of its own.
# shellcheck disable=SC3045 # dash and bash have it
if is_root; then
	:
elif [ -x /usr/bin/python3 ] && [ "$(ulimit -Hn)" != unlimited ] &&
    [ "$(ulimit -Hn)" -ge 4096 ]; then
	skill plain <<'S'
#!/bin/sh
echo ran
S
	/usr/bin/python3 - <<'S' >"$T/flying" &
import array, resource, socket, time, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
for _ in range(8):
    a, b = socket.socketpair()
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 253))])
    held += [a, b]
print("flying", flush=True)
time.sleep(600)
S
	flying=$!
	until_true [ -s "$T/flying" ]
	broker_run plain
	is "$RC $OUT" "0 ran" "2,024 of the same user's are on their way: a skill starts"
	kill "$flying"
	wait "$flying" 2>/dev/null
else
	skip "descriptors on their way" "needs /usr/bin/python3 and ulimit -Hn 4096"
fi
done_testing
