#!/bin/sh
# Bash: what runs, what it sees of the host, and that nothing of it outlives the
# answer or tells what was run.
# shellcheck source=t/lib.sh
. t/lib.sh
. t/box.sh
# shellcheck source=t/live.sh
. t/live.sh

D=$T/d
MARK=marker-$$
mkdir -p "$D/w/sub" "$D/w/.git" "$D/w/.ssh" "$D/w/.cyberos" "$D/w/deep/.ssh" \
    "$D/one" "$D/out"
TOOLS='allowed_tools: [Bash, Read, Write]'
FILES="x-allowed-files: [\"$D/w/**\", \"$D/one/*.md\"]"

# bash_ COMMAND [MORE-ARGUMENTS]: a line for calls
bash_() { printf 'Bash %s\n' "$(jq -nc --arg c "$1" "{cmd: \$c} + {${2:-}}")"; }
# one COMMAND [MORE-ARGUMENTS]: run just this
one() { calls "$(bash_ "$@")" "$TOOLS" "$FILES"; }
got() { answer "${2:-1}" ".result.$1"; }
flat() { got "$@" | xargs; }
# long CALLS: calls whose answers may be long
long() {
	skill wire "$TOOLS" "$FILES" <"$WIRE/main"
	lines "$1"
	sed 's/^recv 1/full 1/' "$T/commands" >"$T/full"
	broker_run wire <"$T/full"
}

# --- what runs ---

calls "$(bash_ 'echo out; echo err >&2; exit 3')
$(bash_ 'kill -9 $$')
$(bash_ 'pwd; env | grep -v ^_= | sort | tr "\n" " "; echo "$0 $#"')
$(bash_ 'cat; echo "end"' 'stdin: "fed"')
$(bash_ 'cat')
$(bash_ 'pwd' "cwd: \"$D/w/sub\"")
$(bash_ 'if true; then
  echo "two lines"
fi # and a comment')
$(bash_ 'set -e; false; echo not reached')
$(bash_ 'exec 7>&2; : ; trap "echo trapped" EXIT')
$(bash_ 'echo é | head -c 1')
$(bash_ 'syntax error (')
$(bash_ 'ls /proc/self/fd')" "$TOOLS" "$FILES"
is "$(got stdout) $(got stderr) $(got exit_code) $(got signal)" "out err 3 null" \
    "both streams and the exit code"
is "$(got exit_code 2) $(got signal 2)" "null 9" "ended by a signal"
is "$(got stdout 3)" "/tmp
PWD=/tmp SHLVL=1 /bin/bash 0" "in /tmp, without an environment"
is "$(got stdout 4)" "fedend" "stdin is fed, then it ends"
is "$(got stdout 5) $(got exit_code 5)" " 0" "without stdin there is none"
is "$(got stdout 6)" "$D/w/sub" "cwd"
is "$(got stdout 7)" "two lines" "several lines"
is "$(got stdout 8) $(got exit_code 8)" " 1" "set -e"
is "$(got stdout 9)" trapped "a trap"
is "$(got encoding 10) $(got stdout 10)" "base64 ww==" "bytes that are no text"
is "$(got exit_code 11) $(got stdout 11)" "$(bash -c 'syntax error (' 2>/dev/null; echo $?) " \
    "a syntax error is bash's to tell"
like "$(got stderr 11)" 'syntax error' "and it does"
is "$(flat stdout 12)" "0 1 2 3" "no descriptor but its streams"
is "$(answer 1 '.result | keys_unsorted | join(" ")')" \
    "stdout stderr exit_code signal timed_out truncated" "the members of a result"
is "$(count skill.tool_call_started) $(count skill.tool_call_completed)" "12 12" \
    "a started and a completed row each"
is "$(rows skill.tool_call_completed '| .outcome' | sort -u)" '"success"' \
    "whatever the command says, the tool has done its work"

# --- its shape ---

calls "Bash {}
Bash {\"cmd\":\"\"}
Bash {\"cmd\":\"true\",\"cwd\":\"w\"}
Bash {\"cmd\":\"true\",\"timeout_ms\":0}
$(bash_ true "cwd: \"$D/none\"")
$(bash_ true "cwd: \"$D/out\"")" "$TOOLS" "$FILES"
is "$(said 1) $(said 2) $(said 3) $(said 4)" \
    "-32602 Invalid params - -32602 Invalid params - -32602 Invalid params - -32602 Invalid params -" \
    "arguments that are none"
is "$(said 5) $(said 6)" "-32000 not_found - -32000 not_found -" \
    "a working directory that is not there, for whatever reason"
in_skill 'cyberos skill call Bash cmd=id; echo "status $?"' 'allowed_tools: []'
refused tool_not_in_allowed_tools Bash

# --- what it sees ---

echo granted >"$D/w/a.txt"
echo deep >"$D/w/sub/b.txt"
echo ref >"$D/w/.git/HEAD"
echo key >"$D/w/.ssh/id"
echo state >"$D/w/.cyberos/x"
echo deepkey >"$D/w/deep/.ssh/id"
echo md >"$D/one/x.md"
echo txt >"$D/one/x.txt"
echo linked >"$D/one/l.md"
ln "$D/one/l.md" "$D/out/l"
echo secret >"$D/out/s"
ln -s "$D/out/s" "$D/w/link"
ln -s "$D/out" "$D/w/dirlink"
calls "$(bash_ "cat $D/w/a.txt $D/w/sub/b.txt $D/one/x.md")
$(bash_ "echo more >>$D/w/a.txt; echo new >$D/w/sub/new; mkdir $D/w/made; rm $D/w/sub/b.txt")
$(bash_ "cat $D/one/x.txt")
$(bash_ "cat $D/out/s")
$(bash_ "cat $D/w/link $D/w/dirlink/s")
$(bash_ "cat /proc/self/root$D/out/s /proc/1/root$D/out/s /proc/self/cwd/../..$D/out/s")
$(bash_ "cat <$D/out/s; echo \$(<$D/out/s); cat $D/w/../out/s")
$(bash_ "ls -A $D; ls -A $D/one")
$(bash_ "cat $D/w/.ssh/id; ls -A $D/w/.ssh $D/w/.cyberos; touch $D/w/.ssh/y")
$(bash_ "cat $D/w/.git/HEAD; echo bad >$D/w/.git/HEAD; rm -r $D/w/.git")
$(bash_ "cat $D/one/l.md; echo bad >$D/one/l.md")
$(bash_ "echo changed >$D/one/x.md; echo more >$D/one/y.md; ls $D/one")
$(bash_ "cp /bin/true $D/w/run && $D/w/run")
$(bash_ "ls -a /skill /root /home /tmp/*.sock; ls /tmp /usr/local/sbin/cyberos")
$(bash_ "cat /etc/shadow /etc/hostname; cat $STORE/audit/host.json; ls $STORE")" \
    "$TOOLS" "$FILES"
is "$(got stdout)" "granted
deep
md" "what was granted is there"
is "$(got exit_code 2)" 0 "and can be written"
is "$(cat "$D/w/a.txt" | tr '\n' ' ')$(cat "$D/w/sub/new") $([ -d "$D/w/made" ] && echo made)$(ls "$D/w/sub/b.txt" 2>/dev/null)" \
    "granted more new made" "on the host"
is "$(stat -c %u "$D/w/sub/new" "$D/w/made" | sort -u)" "$(id -u)" \
    "what it makes is the caller's"
for n in 3 4 5 6 7; do
	is "$(got stdout $n | tr -d '\n')" "" "not granted, not there ($n)"
done
is "$(flat stdout 8)" "one w l.md x.md" "not even as names"
is "$(got exit_code 9)" 1 ".ssh is covered"
is "$(got stdout 9 | grep -c '^[^/]')" 0 "with nothing in it, .cyberos as well"
is "$(got stdout 10) $(cat "$D/w/.git/HEAD")" "ref ref" ".git is read-only"
is "$(got stdout 11) $(cat "$D/out/l")" "linked linked" \
    "a file with several links is read-only"
is "$(cat "$D/one/x.md") $(find "$D/one" -type f -printf "%f\n" | sort | xargs)" "changed l.md x.md x.txt" "a file of a glob is written in place, none is added"
is "$(got exit_code 13)" 126 "what was written does not run"
is "$(flat stdout 14)" "/tmp: ${T#/tmp/}" "no skill, no socket, no client"
is "$(got stdout 15)" skill "nothing of the host's /etc, nothing of the store"
is "$(count skill.cap_bypass_attempt)" 0 "and nobody takes that for an attack"

calls "$(bash_ --help)
$(bash_ '-c')
$(bash_ 'echo "[$REPLY]"; # --')
$(bash_ '
echo second')" "$TOOLS" "$FILES"
is "$(got stdout) $(got exit_code) $(got exit_code 2)" " 127 127" \
    "a command that begins with a dash is a command, and no option"
is "$(got stdout 3) $(got stdout 4)" "[] second" "and none finds itself in a variable"

# --- closed places within a grant ---

mkdir -p "$D/w/inner"
chmod 700 "$D/w/inner"
STORE=$D/w/inner one "ls -A $D/w/inner; echo x >$D/w/inner/run/x"
is "$(got stdout) $(got exit_code)" " 1" "the store in a granted directory is covered"
STORE=$D/w/inner one "mv $D/w/inner $D/w/gone; rm -rf $D/w/inner"
holds "and is where it was" [ -d "$D/w/inner/audit" ]
mkdir -p "$D/w/tools/x"
cat >"$D/config.yaml" <<Y
ceiling:
  files: ["$D/w/sub/**", "$D/one/**"]
Y
calls "$(bash_ "find $D -type f | sort")" "$TOOLS" "$FILES" >/dev/null
rm -f "$T/result.json"
"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" --config \
    "$D/config.yaml" --result "$T/result.json" wire <"$T/commands" \
    >"$T/out" 2>"$T/err"
is "$(flat stdout | sed "s|$D/||g")" \
    "one/l.md one/x.md w/sub/new" "a ceiling within a grant: that much is there"

# FILE/** does not match FILE, for Read or for Bash.
echo secret >"$D/out/file"
calls "Read {\"path\":\"$D/out/file\"}
$(bash_ "cat $D/out/file; echo more >>$D/out/file")" "$TOOLS" \
    "x-allowed-files: [\"$D/out/file/**\"]"
is "$(answer 1 .error.message) $(got stdout 2) $(cat "$D/out/file")" \
    "file_violation  secret" "a file is no directory to be granted"
cat >"$D/config.yaml" <<Y
ceiling:
  files: ["$D/w/a.txt/**"]
Y
calls "$(bash_ "cat $D/w/a.txt; echo more >>$D/w/a.txt")" "$TOOLS" "$FILES" >/dev/null
rm -f "$T/result.json"
"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" --config \
    "$D/config.yaml" --result "$T/result.json" wire <"$T/commands" \
    >"$T/out" 2>"$T/err"
is "$(got stdout) $(grep -c granted "$D/w/a.txt")" " 1" \
    "nor is it one in a ceiling"
rm "$D/out/file"

if can_mount; then
	mkdir -p "$D/w/mnt" "$T/elsewhere"
	skill wire "$TOOLS" "$FILES" <"$WIRE/main"
	lines "$(bash_ "ls -A $D/w/mnt/d/w $D/w/mnt/store; cat $D/w/mnt/store/audit/host.json")"
	mounted 'mount --bind "$T" "$D/w/mnt"' 'true'
	unlike "$(got stdout)" 'host|audit' \
	    "the store by another name of its file system is covered"
	like "$(got stderr)" 'host.json' "which was tried"
	mounted 'mount -t proc proc "$D/w/mnt"' 'true'
	lines "$(bash_ "ls $D/w/mnt/1; ls $D/w/mnt | wc -l")"
	mounted 'mount -t proc proc "$D/w/mnt"' 'true'
	is "$(got stdout)" 0 "a mounted proc is covered"
fi

# What is protected is where it was, or there is no Bash: whoever moves it cannot
# reach it by its new name in the next call.
mkdir -p "$D/w/conf"
echo 'max_write_mb: 7' >"$D/w/conf/c.yaml"
lines "$(bash_ "cat $D/w/conf/c.yaml; echo bad >>$D/w/conf/c.yaml")
$(bash_ "mv $D/w/conf $D/w/moved; echo \$?")
$(bash_ "cat $D/w/moved/c.yaml; echo bad >>$D/w/moved/c.yaml")"
skill wire "$TOOLS" "$FILES" <"$WIRE/main"
broker_run --config "$D/w/conf/c.yaml" wire <"$T/commands"
is "$(got stdout) $(got exit_code)" " 1" "the configuration in a granted directory is covered"
is "$(got stdout 2) $(got stdout 3)" "1 " "nor is it moved away with its directory"
is "$(cat "$D/w/conf/c.yaml")" "max_write_mb: 7" "and nobody has changed it"
rm -rf "$D/w/conf"
# The store and the installed skills, each deeper down: what leads there stays, all
# else in it may go.
mkdir -p "$D/w/a/b/inner" "$D/w/a/b/c" "$D/w/o/p/skills" "$D/w/free/sub"
chmod 700 "$D/w/a/b/inner"
skill wire "$TOOLS" "$FILES" <"$WIRE/main"
cp -Rp "$T/skills/wire" "$D/w/o/p/skills/wire"
lines "$(bash_ "cd $D/w; mkdir n a/n a/b/n; perl -e '
for (qw(a a/b a/b/inner o o/p o/p/skills)) {
	for my \$to (qw(x n/x a/x a/n/x a/b/x a/b/n/x /tmp/x)) { print qq(\$_ \$to ) if rename \$_, \$to }
	for my \$to (qw(n a/n)) {
		my (\$x, \$y) = (qq(\$_), qq(\$to));
		syscall 316, -100, \$x, -100, \$y, 2 or print qq(\$_ exchanged );
	}
	rmdir and print qq(\$_ removed );
}'")
$(bash_ "cd $D/w; mv a/b/c a/b/d && mv free freed && touch a/new a/b/new o/new && mv a/new freed && ls freed")
$(bash_ "cd $D/w/o/p; mkdir skills/evil; echo x >skills/wire/main; ls skills")"
rm -f "$T/result.json"
"$CYBEROS" skill broker run --store "$D/w/a/b/inner" --skills "$D/w/o/p/skills" \
    --result "$T/result.json" wire <"$T/commands" >"$T/out" 2>"$T/err"
is "$(got stdout) $(got exit_code) $(cd "$D/w" && ls -d a/b/inner/audit o/p/skills/wire | tr '\n' ' ')" \
    " 0 a/b/inner/audit o/p/skills/wire " "what leads to the store and to the skills stays where it is"
is "$(got stdout 2 | tr '\n' ' ') $(ls "$D/w/a/b" | tr '\n' ' ')" "new sub   d inner n new " \
    "what is beside it is the skill's to move"
is "$(got stdout 3) $(ls "$D/w/o/p/skills" | tr '\n' ' ')" "wire wire " "and in it nothing is made"
rm -rf "$D/w/a" "$D/w/o" "$D/w/n" "$D/w/freed"
cat >"$D/w/flip.py" <<P
import ctypes, os, time
libc = ctypes.CDLL(None)
while not os.path.exists('$D/w/go'):
    time.sleep(0.001)
n = 0
while not os.path.exists('$D/w/stop'):
    if libc.renameat2(-100, b'$D/w/flip', -100, b'$D/w/flop', 2) == 0:
        n += 1
    if n == 1:
        open('$D/w/flipping', 'w').close()
print(n)
P
# flips_begin: two directories, one to be a store's, that change places from when
# $D/w/go is there until $D/w/stop is.
flips_begin() {
	rm -rf "$D/w/flip" "$D/w/flop" "$D/w/stop" "$D/w/flipping"
	mkdir -p "$D/w/flip/x" "$D/w/flop/x"
	chmod 700 "$D/w/flip/x"
	python3 "$D/w/flip.py" >"$T/flips" &
}
flips_end() {
	: >"$D/w/stop"
	wait $!
}
n=0
while [ $n -lt 25 ]; do
	bash_ "cat $D/w/fl?p/x/audit/host.json; echo PWN >$D/w/flip/x/audit/pwn; echo PWN >$D/w/flop/x/audit/pwn"
	n=$((n + 1))
done >"$T/tries"
skill wire "$TOOLS" "$FILES" <"$WIRE/main"
lines "$(bash_ "touch $D/w/go")
$(cat "$T/tries")"
flips_begin
STORE=$D/w/flip/x broker_run wire <"$T/commands"
flips_end
is "$(grep -c '"host' "$T/out") $(find "$D/w" -name pwn | wc -l | tr -d ' ')" "0 0" \
    "a store whose parent is exchanged all the time is never reached"
holds "which was tried ($(cat "$T/flips") times)" [ "$(cat "$T/flips")" -gt 100 ]
# Nor while it is opened: what is out of reach then is the store that is held. A store
# that was is a directory like any other, so that each run has its own.
head -n 5 "$T/tries" >"$T/few"
lines "$(cat "$T/few")"
: >"$D/w/go"
n=0
pwned=0
: >"$T/all"
while [ $n -lt 12 ]; do
	n=$((n + 1))
	flips_begin
	while [ ! -e "$D/w/flipping" ]; do sleep 0.01; done
	"$CYBEROS" skill broker run --store "$D/w/flip/x" --skills "$T/skills" \
	    wire <"$T/commands" >>"$T/all" 2>>"$T/err"
	flips_end
	pwned=$((pwned + $(find "$D/w" -name pwn | wc -l)))
done
is "$(grep -c '"host' "$T/all") $pwned" "0 0" "nor is one that is exchanged while it is opened"
rm -rf "$D/w/flip" "$D/w/flop"
if can_mount; then
	skill wire "$TOOLS" "x-allowed-files: [\"$D/w/mnt/**\"]" <"$WIRE/main"
	lines "$(bash_ "ls -A $D/w/mnt/.ssh; sleep 0.2")"
	mounted 'mount -t tmpfs none "$D/w/mnt" && mount --make-shared "$D/w/mnt" &&
	    mkdir "$D/w/mnt/.ssh" && echo key >"$D/w/mnt/.ssh/id"' \
	    'ls "$D/w/mnt/.ssh"; grep -c " $D/w/mnt" /proc/self/mountinfo'
	is "$(got stdout) $(got exit_code)" " 0" "a cover on a shared mount covers"
	is "$(tr '\n' ' ' <"$T/after")" "id 1 " "and is not passed on to the host"
fi

# --- no way out ---

cat >"$D/w/families.py" <<'P'
import socket, os
for f, t in ((socket.AF_UNIX, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_STREAM),
             (socket.AF_INET6, socket.SOCK_STREAM), (socket.AF_NETLINK, socket.SOCK_RAW)):
    try:
        socket.socket(f, t)
        print('SOCKET')
    except OSError as e:
        print(e.errno)
a, b = socket.socketpair()
a.send(b'pair')
print(b.recv(9).decode())
def tries(visit): # an end of a pair is a socket: may it be taken elsewhere?
    try:
        visit()
        print('VISITED')
    except OSError as e:
        print(e.errno)
tries(lambda: a.connect('$D/w/listens'))
tries(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', '$D/w/hears'))
tries(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].connect('$D/w/hears'))
P
sed -i "s|\$D|$D|" "$D/w/families.py"
# Somebody outside who would be glad of a visit or a letter.
perl -MIO::Socket::UNIX -MIO::Select -e '
    $s = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die;
    $d = IO::Socket::UNIX->new(Local => $ARGV[1], Type => SOCK_DGRAM) or die;
    chmod 0777, @ARGV;
    print "visited\n" if IO::Select->new($s, $d)->can_read(60)' \
    "$D/w/listens" "$D/w/hears" >"$T/visits" &
LISTENS=$!
until_true [ -S "$D/w/hears" ]
calls "$(bash_ "python3 $D/w/families.py")
$(bash_ 'unshare -U true; mount -t tmpfs none /tmp; echo $?')
$(bash_ 'grep -E "^(Cap|NoNew|Seccomp:)" /proc/self/status; id -u; ls /sys')
$(bash_ 'for i in $(seq 30); do sleep 5 & done; jobs | wc -l')
$(bash_ 'exec 3<>/dev/tcp/127.0.0.1/80')" "$TOOLS" "$FILES"
is "$(flat stdout)" "1 1 1 1 pair 106 1 1" \
    "no socket of any family, but pairs; and those connect to none in a granted directory"
like "$(got stderr 5)" "socket: Operation not permitted" "nor has the shell one of its own"
kill "$LISTENS"
wait "$LISTENS" 2>/dev/null
is "$(cat "$T/visits")" "" "nobody came"
rm "$D/w/listens" "$D/w/hears"
unlike "$(got stdout 2)" '^0$' "no namespace, no mount"
is "$(got stdout 3 | tr -d '\t' | xargs)" \
    "CapInh:0000000000000000 CapPrm:0000000000000000 CapEff:0000000000000000 CapBnd:0000000000000000 CapAmb:0000000000000000 NoNewPrivs:1 Seccomp:2 1000" \
    "no capability, no new one, a filter"
like "$(got stderr 4)" 'Resource temporarily unavailable' "processes are limited"
is "$(rows skill.cap_bypass_attempt '| .syscall' | sort -u | tr '\n' ' ')" \
    '"*" "mount" "socket" "unshare" ' "attempts are recorded"
is "$(rows skill.cap_bypass_attempt '| [.syscall, .target]' | sort | uniq -d)" "" \
    "one that several commands make has one row"

# --- case T34: a search from above ---

mkdir -p "$D/private"
echo SECRET >"$D/private/s"
echo SECRET >"$D/private/k.pem"
echo "SECRET granted" >"$D/w/granted"
calls "$(bash_ "grep -r SECRET $D")
$(bash_ "cat $D/private/s")
$(bash_ 'find / -name "*.pem" -path "*/private/*"')
$(bash_ "ls $D/private; cat $D/w/../private/s /proc/1/root$D/private/s /proc/self/root$D/private/s")
$(bash_ "cp -r $D/private $D/w/copy; cat $D/w/copy/s")
$(bash_ "ln -s $D/private $D/w/way; cat $D/w/way/s; rm $D/w/way")" "$TOOLS" "$FILES"
is "$(got stdout 1)" "$D/w/granted:SECRET granted" "case T34: a search from above finds what is granted"
is "$(for i in 2 3 4 5 6; do got stdout $i; done | tr -d '\n')" "" \
    "case T34: nothing else is there"
[ "$(got exit_code 2)" -ne 0 ] && [ "$(got exit_code 4)" -ne 0 ]
ok $? "case T34: and that is the command's failure"
is "$(rows skill.tool_call_completed '| .outcome' | sort | uniq -c | tr -s ' ')" \
    ' 6 "success"' "case T34: the calls themselves succeed"
rm -f "$D/w/granted"

# --- streams ---

long "$(bash_ 'yes aaaaaaa | head -c 3000000; yes bbbbbbb | head -c 2000000 >&2')
$(bash_ 'yes é | head -c 1500000')
$(bash_ 'cat | tee /dev/stderr' "stdin: (\"x\" * 900000)")
$(bash_ 'exec >&-; exec 2>&-; sleep 0.1')
$(bash_ 'true' "stdin: (\"x\" * 900000)")"
is "$(got 'stdout|length') $(got 'stderr|length') $(got truncated) $(got stdout_bytes) $(got stderr_bytes)" \
    "1048576 1048576 true 3000000 2000000" "1 MiB of each stream, the rest counted"
is "$(got 'stdout|utf8bytelength' 2) $(got truncated 2)" "1048575 true" \
    "cut between characters"
is "$(got 'stdout|length' 3) $(got 'stderr|length' 3)" "900000 900000" \
    "all of stdin, while both streams flow"
is "$(got exit_code 4) $(got exit_code 5)" "0 0" \
    "closed streams, and stdin that nobody reads"

# --- time, and what is left ---

begun=$(date +%s)
calls "$(bash_ "sleep 300; echo late" 'timeout_ms: 300')
$(bash_ "perl -e 'sleep 300' $MARK & setsid perl -e 'sleep 300' $MARK & echo back")
$(bash_ "trap '' TERM INT; while :; do :; done" 'timeout_ms: 300')
$(bash_ "ps -e | grep -c perl")" "$TOOLS" "$FILES"
is "$(got timed_out) $(got stdout) $(got exit_code) $(got signal) $(got timed_out 3)" \
    "true  null 9 true" "timeout_ms ends it, whatever it does about signals"
is "$(got stdout 2) $(got timed_out 2)" "back false" \
    "background jobs do not keep the answer"
is "$(got stdout 4)" 0 "and are dead by then"
[ $(($(date +%s) - begun)) -lt 60 ]
ok $? "nothing waited for them"
is "$(rows skill.tool_call_completed '| .outcome' | sort -u)" '"success"' \
    "timed_out is a success with that flag"

rm -f "$D/w/log"
touch "$D/w/log"
skill wire "$TOOLS" "$FILES" <"$WIRE/main"
{
	echo open
	n=1
	while [ $n -le 8 ]; do
		echo "send 1 {\"jsonrpc\":\"2.0\",\"id\":$n,\"method\":\"tool.call\",\"params\":{\"tool\":\"Bash\",\"args\":{\"cmd\":\"echo + >>$D/w/log; sleep 0.5; echo - >>$D/w/log\"}}}"
		n=$((n + 1))
	done
	n=1
	while [ $n -le 8 ]; do
		echo recv 1 60000
		n=$((n + 1))
	done
} >"$T/commands"
broker_run wire <"$T/commands"
is "$(awk '/[+]/ { n++; if (n > m) m = n } /-/ { n-- } END { print m, NR }' "$D/w/log")" \
    "4 16" "four at once, the others wait"

# --- the loop goes on, and what is seen from outside ---

skill wire "$TOOLS" "$FILES" <"$WIRE/main"
live_start wire
live_say "open
open
send 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tool.call\",\"params\":{\"tool\":\"Bash\",\"args\":{\"cmd\":\"echo up >$D/w/up; : $MARK; while :; do :; done\"}}}
send 2 {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"broker.status\"}
recv 2
say alive"
live_wait '^alive'
ok $? "broker.status is answered beside a spinning shell"
n=0
while [ ! -e "$D/w/up" ] && [ $n -lt 200 ]; do
	sleep 0.05
	n=$((n + 1))
done
cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' >"$T/cmdlines"
is "$(grep -c "up; : $MARK" "$T/cmdlines")" 0 \
    "no process has the command in its arguments"
spawner=$(live_child cyberos-spawner)
[ -n "$spawner" ]
ok $? "the spawner is a child of the broker"
builder=$(cat "/proc/$spawner/task/$spawner/children")
kill -KILL ${builder% } 2>/dev/null
live_say "recv 1 20000
send 1 {\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tool.call\",\"params\":{\"tool\":\"Bash\",\"args\":{\"cmd\":\"echo again\"}}}
recv 1 20000
say second"
live_wait '^second' 60
like "$(cat "$T/live.out")" '^1 .*"signal":9.*"id":1|^1 .*"id":1.*"signal":9' \
    "one that is killed from outside is told as such"
like "$(cat "$T/live.out")" '^1 .*again' "and the next call is served"
kill -KILL "$spawner"
live_say "send 1 {\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tool.call\",\"params\":{\"tool\":\"Bash\",\"args\":{\"cmd\":\"echo x\"}}}
recv 1 20000
send 1 {\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tool.call\",\"params\":{\"tool\":\"Read\",\"args\":{\"path\":\"$D/w/a.txt\"}}}
recv 1 20000
say third"
live_wait '^third' 60
live_end
is "$(sed -n 's/^1 .*"message":"\([a-z_]*\)".*/\1/p' "$T/live.out")" io_error \
    "without a spawner Bash fails"
like "$OUT" '^1 .*granted' "and nothing else does"
is "$(rows skill.tool_call_completed '| "\(.outcome) \(.error_message)"' | sort | uniq -c | sed 's/^ *//' | tr '\n' ' ')" \
    '1 "error io_error" 3 "success null" ' "each has its row"
is "$(cat "$STORE"/audit/*/seg/*/*.jsonl "$STORE"/audit/*/host.jsonl | grep -c "$MARK")" 0 \
    "no command is in the ledger"
nothing_left "Bash"

# The skill ends while its shell runs.
skill quick "$TOOLS" "$FILES" <<S
#!/bin/sh
cyberos skill call Bash cmd="perl -e 'sleep 300' $T" >/dev/null 2>&1 &
sleep 0.5
S
broker_run quick
is "$(rows skill.tool_call_completed '| "\(.outcome) \(.error_message)"')" \
    '"error cancelled"' "a shell that the skill does not wait for is cancelled"
nothing_left "a shell that was left behind"

# --- names of sockets ---

# Those of other invocations in a directory of their own, below a granted one.
mkdir "$D/w/socks"
chmod 700 "$D/w/socks"
skill nap <<S
#!/bin/sh
echo up
exec perl -e 'sleep 300' "$T"
S
inv=$(new_id)
"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" --invocation "$inv" \
    --socket-dir "$D/w/socks" nap >"$T/nap" 2>/dev/null </dev/null &
nap=$!
until_true grep -q up "$T/nap"
lines "$(bash_ "ls -A $D/w/socks; echo x >$D/w/socks/x; rm -f $D/w/socks/*; chmod 777 $D/w/socks; mv $D/w/socks $D/w/socks2; echo end; cat $D/w/a.txt")"
skill wire "$TOOLS" "$FILES" <"$WIRE/main"
broker_run --socket-dir "$D/w/socks" wire <"$T/commands"
like "$(flat stdout)" '^end granted' "sockets in a directory of their own: Bash sees none"
is "$(cd "$D/w/socks" && echo *)" "cyberos-skill-broker.$inv.sock" "and they stay"
is "$(stat -c %a "$D/w/socks")" 700 "their directory, too"
unlike "$ERR" 'where sockets are made' "nothing to warn of"
kill "$nap"
wait "$nap"
warns() { # NAME
	like "$ERR" "Bash may write in $D/w/socks, where sockets are made" "$1: a warning"
}
skill wire "$TOOLS" "x-allowed-files: [\"$D/w/**\", \"$D/w/socks/**\"]" <"$WIRE/main"
lines "$(bash_ "ls -A $D/w/socks")"
broker_run --socket-dir "$D/w/socks" wire <"$T/commands"
warns "one that was granted itself cannot be covered"
skill wire "$TOOLS" "$FILES" <"$WIRE/main"
chmod 1777 "$D/w/socks"
broker_run --socket-dir "$D/w/socks" wire <"$T/commands"
warns "nor one that is everybody's"
chmod 700 "$D/w/socks"
echo x >"$D/w/socks/file"
broker_run --socket-dir "$D/w/socks" wire <"$T/commands"
is "$(got stdout)" "" "one with other things is covered with them, since a skill may have put them there"
unlike "$ERR" 'where sockets are made' "nothing to warn of"
rm -rf "$D/w/socks"

# --- limits of the host ---

mkdir "$D/many"
i=0
while [ $i -lt 260 ]; do
	echo $i >"$D/many/$i.md"
	i=$((i + 1))
done
calls "$(bash_ true)" "$TOOLS" "x-allowed-files: [\"$D/many/*.md\"]"
is "$(said 1)" "-32000 too_large -" "more than 256 files: it says so"
rm "$D"/many/2[0-9][0-9].md
calls "$(bash_ "cat $D/many/*.md | wc -l")" "$TOOLS" \
    "x-allowed-files: [\"$D/many/*.md\"]"
is "$(got stdout)" 200 "200 are there"
echo 'min_free_mb: 1048576' >"$D/config.yaml"
lines "$(bash_ true)"
skill wire "$TOOLS" "$FILES" <"$WIRE/main"
broker_run --config "$D/config.yaml" wire <"$T/commands"
is "$(said 1)" "-32000 no_space -" "too little room where it could write"
calls "$(bash_ 'ls -d /etc/passwd /var/log /usr/bin/env; grep -c . /etc/passwd; touch /usr/x /boot/x; echo x >/etc/ld.so.cache; ls /sys /proc/sys/kernel/hostname; echo end')" \
    "$TOOLS" 'x-allowed-files: ["/**"]'
like "$(got stdout)" '^/var/log' "a grant of everything: the host is there"
like "$(flat stdout)" ' end$' "and bash runs in it"
holds "but what is read-only stays so" [ ! -e /usr/x ]
holds "all of it" [ ! -e /boot/x ]

# A skill with so many descriptors on their way that the filter's listener cannot
# be handed over by anybody who may have no more than it: Bash is refused then, and
# does not run without a record. Else it runs.
if [ -x /usr/bin/python3 ]; then
	skill flight "$TOOLS" "$FILES" <<'S'
#!/usr/bin/python3
import array, os, socket
a, b = socket.socketpair()
try:
    while True:
        a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 253))])
except OSError:
    pass
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["CYBEROS_BROKER_SOCKET"])
m = b'{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Bash","args":{"cmd":"echo ran"}}}'
s.send(len(m).to_bytes(4, "big") + m)
print(s.recv(int.from_bytes(s.recv(4), "big")).decode())
S
	broker_run flight
	like "$OUT" '"stdout":"ran.n"' "descriptors on their way do not keep Bash from running"
	(
		# shellcheck disable=SC3045 # dash and bash have it
		ulimit -n 256
		broker_run flight
		echo "$OUT" >"$T/flight"
	)
	OUT=$(cat "$T/flight")
	# an ordinary user's broker cannot even ask who it is, and hangs up
	is_root && like "$OUT" '"message":"io_error"' "a sandbox without its listener is none"
	unlike "$OUT" ran "and nothing runs"
else
	skip "descriptors on their way" "needs /usr/bin/python3"
fi
verify_store
done_testing
