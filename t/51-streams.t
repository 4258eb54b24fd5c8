#!/bin/sh
# Standard input, output and error of a skill: what passes, and what a skill
# can do with the caller's files through them.
. t/lib.sh
. t/box.sh

run() { # [OPTIONS] SKILL [-- ARG...]; streams are the caller's
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --result "$T/result.json" "$@"
	RC=$?
}
sum() { sha256sum "$1" | cut -d' ' -f1; }

# --- regular files ---

# What it finds goes to descriptor 2; 0 and 1 are attacked.
perl_skill grab <<'P'
use Fcntl;
sub try { print STDERR "$_[0] ", ($_[1] ? 'DONE' : 'refused'), "\n" }
for my $n (0, 1, 2) {
	my $p = "/proc/self/fd/$n";
	print STDERR "is$n ", readlink($p) =~ /^pipe:/ ? 'pipe' : readlink($p), "\n";
	try "truncate$n", truncate $p, 0;
	try "seek$n", sysseek $n == 0 ? STDIN : $n == 1 ? STDOUT : STDERR, 0, 0;
}
# A pipe may be opened again, but there is no file behind it.
if (sysopen my $h, '/proc/self/fd/0', O_WRONLY | O_NONBLOCK) { syswrite $h, "into the pipe\n" }
if (sysopen my $h, '/proc/self/fd/1', O_RDONLY | O_NONBLOCK) { sysread $h, my $b, 9; print STDERR "got $b\n" }
try 'map', 0;
$| = 1;
print "said\n";
P
printf 'first line\n' >"$T/in.file"
printf 'kept\n' >"$T/out.file"
before=$(sum "$T/in.file")
run grab <"$T/in.file" >>"$T/out.file" 2>"$T/out"
is "$RC" 0 "regular files as standard streams"
is "$(val is0) $(val is1) $(val is2)" "pipe pipe pipe" "the skill has pipes instead"
is "$(grep DONE "$T/out")" "" "it cannot truncate or seek them"
is "$(grep -c refused "$T/out")" 7 "it has tried"
is "$(val got)" "" "nor read what stood in the file"
is "$(sum "$T/in.file")" "$before" "the input file is unchanged"
is "$(cat "$T/out.file")" "kept
said" "the output file has the old line and the new one"

skill copy <<'S'
#!/bin/sh
cat
echo end >&2
S
printf 'a\0b\377\n' >"$T/bin"
run copy <"$T/bin" >"$T/got" 2>/dev/null
is "$(sum "$T/got")" "$(sum "$T/bin")" "bytes pass as they are"
run copy <"$T/bin" >"$T/both" 2>&1
is "$(tail -n 1 "$T/both")" end "one file for output and error"
skill turns <<'S'
#!/bin/sh
for n in 1 2 3 4 5; do
	echo o$n
	echo e$n >&2
done
S
run turns </dev/null >"$T/both" 2>&1
is "$(xargs <"$T/both")" "o1 e1 o2 e2 o3 e3 o4 e4 o5 e5" "what goes to one file keeps its order"
run turns </dev/null >"$T/got" 2>"$T/both"
is "$(xargs <"$T/got") $(xargs <"$T/both")" "o1 o2 o3 o4 o5 e1 e2 e3 e4 e5" "two files get their own"
head -c 3000000 /dev/urandom >"$T/large"
run copy <"$T/large" >"$T/got" 2>/dev/null
is "$(sum "$T/got")" "$(sum "$T/large")" "3 MB from a file to a file"
skill head <<'S'
#!/bin/sh
head -n 1
S
yes 'a line' | head -n 200000 >"$T/lines"
run head <"$T/lines" >"$T/got" 2>/dev/null
is "$RC $(cat "$T/got")" "0 a line" "a skill that does not read all its input"

# --- pipes and sockets of the caller's, relayed ---

# Whose pipe it is shows by what comes out of it: nothing of the skill's may be
# in its input, and it must not take what others write to its output.
perl_skill pipes <<'P'
use Fcntl;
$| = 1;
for my $n (0, 1, 2) {
	for my $how (O_RDONLY, O_WRONLY, O_RDWR) {
		sysopen my $h, "/proc/self/fd/$n", $how | O_NONBLOCK or next;
		syswrite $h, "injected\n" if $how != O_RDONLY && $n == 0;
		$taken .= $b if $how != O_WRONLY && $n > 0 && sysread $h, $b, 100;
	}
}
print STDERR "size ", fcntl(STDIN, 1031, 1 << 20) || fcntl(STDOUT, 1031, 4096) ? "DONE" : $!, "\n";
print STDERR "taken $taken\n";
P
mkfifo "$T/in" "$T/shared"
exec 7<>"$T/in" 8<>"$T/shared"
echo somebody >&8
run --stdio relay pipes <&7 >&8 2>"$T/out"
is "$RC" 0 "pipes as standard streams"
echo end >&7
read -r line <&7
is "$line" end "nothing of the skill's is in its input"
read -r line <&8
is "$line $(val taken)" "somebody " \
    "what others wrote to its output is there, and it did not see that"
is "$(val size)" "Operation not permitted" "a pipe keeps its size"
exec 7>&- 8>&-
if [ -x /usr/bin/python3 ]; then
	cat >"$T/sockets.py" <<'P'
import socket, subprocess, sys
ours, theirs = [], []
for _ in range(3):
    a, b = socket.socketpair()
    ours.append(a)
    theirs.append(b)
ours[0].sendall(b"one line\n")
ours[0].shutdown(socket.SHUT_WR)
p = subprocess.Popen(sys.argv[1:], stdin=theirs[0], stdout=theirs[1], stderr=theirs[2])
for s in theirs:
    s.close()
# All of the first before anything of the second is taken.
for n in (1, 2):
    text, passed = b"", 0
    while True:
        data, anc, flags, _ = ours[n].recvmsg(65536, 2048)
        passed += len(anc)
        if not data:
            break
        text += data
    print("got%d" % n, text[:20].decode().strip(), len(text), passed)
print("exit", p.wait())
P
	skill sockets <<'S'
#!/usr/bin/python3
import array, os, socket, stat, sys
print(sys.stdin.readline().strip(), flush=True)
for n in (0, 1, 2):
    if stat.S_ISSOCK(os.fstat(n).st_mode):
        s = socket.socket(fileno=os.dup(n))
        print("SOCKET", n, flush=True)
        s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
sys.stderr.write("e" * 100000) # more than the socket takes, less than with a pipe
S
	timeout 60 python3 "$T/sockets.py" "$CYBEROS" skill broker run --store "$STORE" \
	    --skills "$T/skills" --quiet --stdio relay sockets >"$T/out"
	is "$(cat "$T/out")" "got1 one line 9 0
got2 eeeeeeeeeeeeeeeeeeee 100000 0
exit 0" "sockets: bytes pass, nothing else, and each to its own end"

	# What others take meanwhile is not waited for.
	skill nap <<'S'
#!/bin/sh
exec sleep 2
S
	cat >"$T/shared.py" <<'P'
import os, subprocess, sys, time
r, w = os.pipe()
all = [subprocess.Popen(sys.argv[1:], stdin=r) for _ in range(3)]
until = time.time() + 60
n = 0
while any(p.poll() is None for p in all) and time.time() < until:
    if n < 60000:
        os.write(w, b"x")
        n += 1
    time.sleep(0.0005)
print(" ".join(str(p.poll()) for p in all))
for p in all:
    if p.poll() is None:
        p.kill()
P
	is "$(python3 "$T/shared.py" "$CYBEROS" skill broker run --store "$STORE" \
	    --skills "$T/skills" --quiet --stdio relay nap)" "0 0 0" \
	    "three with one pipe for their input: all end"
else
	skip "sockets" "needs /usr/bin/python3"
fi

# --- directories, devices, closed streams ---

skill never <<'S'
#!/bin/sh
echo ran
S
run never <"$T" >"$T/got" 2>"$T/out"
is "$RC $(cat "$T/got")" "125 " "a directory as standard input: not started"
like "$(cat "$T/out")" 'standard streams: Is a directory' "and told why"
is "$(result outcome)" refused "its outcome is refused"

perl_skill ends <<'P'
print STDERR join(' ', map { readlink "/proc/self/fd/$_" } 0 .. 2), "\n";
my $n = sysread STDIN, my $b, 9;
open my $h, '>', '/tmp/seen'; print $h defined $n ? $n : "$!";
exit(defined $n && $n == 0 ? 0 : 9);
P
run ends <&- >"$T/got" 2>"$T/out"
is "$RC" 0 "closed standard input is empty input"
like "$(cat "$T/out")" '^/dev/null ' "it is /dev/null"
run ends <&- >&- 2>&-
is "$RC $(result outcome)" "0 success" "all three closed: runs, and the result is whole"
run ends >&- </dev/null 2>"$T/out"
like "$(cat "$T/out")" ' /dev/null ' "closed standard output is none of our files"
run never >/dev/full 2>/dev/null </dev/null
is "$RC" 1 "a device is inherited: its error is the skill's to see"

# --- --stdio ---

skill both <<'S'
#!/bin/sh
echo "$(cat)/out"
echo err >&2
for n in 0 1 2; do readlink /proc/$$/fd/$n >&2; done
S
echo input | run --stdio null both >"$T/got" 2>"$T/out"
is "$(cat "$T/got" "$T/out")" "" "--stdio null: nothing comes out"
# shellcheck disable=SC2030,SC2031 # RC of the pipeline's last part
got=$(echo input | run --stdio null both | wc -c)
is "$got" 0 "nor through a pipe"
is "$(echo input | run --stdio relay both 2>"$T/out")" input/out \
    "--stdio relay: input and output pass"
like "$(cat "$T/out")" '^err$' "and errors"
is "$(grep -c '^pipe:' "$T/out")" 3 "all of it through pipes"
is "$(echo input | run --stdio inherit both 2>/dev/null)" input/out \
    "--stdio inherit: pipes are inherited"
run --stdio none both >"$T/got" 2>"$T/out" </dev/null
is "$RC" 2 "another word is a usage error"

# --- much of it ---

skill much <<'S'
#!/bin/sh
head -c 104857600 /dev/zero
S
is "$(run much 2>/dev/null </dev/null | wc -c)" 104857600 "100 MB through a pipe"
run much >"$T/got" 2>/dev/null </dev/null
is "$(wc -c <"$T/got")" 104857600 "100 MB into a file"
is "$(result outcome)" success "without trouble"
rm -f "$T/got"

# --- readers that go or stay away ---

skill endless <<'S'
#!/bin/sh
exec yes "$@"
S
for mode in inherit relay; do
	rm -f "$T/result.json"
	run --stdio $mode endless -- "$T" 2>/dev/null </dev/null | head -n 1 >"$T/got"
	until_true none_alive
	is "$(cat "$T/got")" "$T" "$mode: the reader got what it wanted"
	until_true [ -s "$T/result.json" ]
	is "$(result outcome) $(result signal) $(result exit_status)" "killed 13 141" \
	    "$mode: when the reader goes, the skill gets SIGPIPE"
	nothing_left "$mode"
done

rm -f "$T/result.json"
mkfifo "$T/fifo"
exec 9<>"$T/fifo"
INV=$(new_id)
"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
    --result "$T/result.json" --invocation "$INV" --stdio relay endless -- "$T" \
    >"$T/fifo" 2>/dev/null </dev/null &
RUN=$!
until_true [ -S "/tmp/cyberos-skill-broker.$INV.sock" ]
sleep 0.3
kill -TERM "$RUN"
until_true [ -s "$T/result.json" ]
is "$(result outcome) $(result by) $(result exit_status)" "killed caller 143" \
    "a reader that never reads: SIGTERM still ends the skill"
is "$(segment | tail -n 1 | jq -r .kind)" skill.invoked_completed \
    "and its ledger is complete"
kill -TERM "$RUN"
wait "$RUN" 2>/dev/null
is "$?" 143 "a second one ends the wait for the reader"
exec 9>&-
nothing_left "the stuck reader"

# A process that keeps the stream open does not keep the run.
skill leaves <<'S'
#!/bin/sh
perl -e 'sleep 300' "$1" &
setsid perl -e 'sleep 300' "$1" &
echo left
S
is "$(run leaves -- "$T" 2>/dev/null </dev/null)" left \
    "output ends with the skill, whoever still holds the pipe"
nothing_left "children with the pipe"

# --- a terminal ---

# A terminal of the caller's: what the skill says is shown, its input can be
# read, and nothing can be pushed into the input as if the user had typed it.
perl_skill typist <<'P'
sub try { my ($name, $request, $arg) = @_; printf "%s %s\n", $name, (ioctl(STDIN, $request, $arg) ? 'DONE' : 0 + $!); }
$| = 1;
printf "terminal %s\n", -t STDIN ? 'yes' : 'no';
my $c = 'Z';
try 'push', 0x5412, $c;                              # TIOCSTI
try 'high', 0x5412 + (1 << 32), $c;                  # the same to the kernel
my $sub = pack 'C', 2;
try 'paste', 0x541c, $sub;                           # TIOCLINUX
try 'own', 0x540e, 1;                                # TIOCSCTTY
printf "tty %s\n", open(my $h, '<', '/dev/tty') ? 'OPEN' : 'none';
P
cat >"$T/terminal.py" <<'P'
import os, pty, select, sys
pid, master = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen = b''
while True:
    if not select.select([master], [], [], 60)[0]:
        break
    try:
        piece = os.read(master, 4096)
    except OSError:
        break
    if not piece:
        break
    seen += piece
sys.stdout.write(seen.decode(errors='replace').replace('\r', ''))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
P
python3 "$T/terminal.py" "$CYBEROS" skill broker run --store "$STORE" \
    --skills "$T/skills" --result "$T/result.json" typist >"$T/out"
is "$?" 0 "a skill on a terminal"
is "$(val terminal)" yes "it has the terminal as its standard input"
is "$(val push) $(val high) $(val paste)" "1 1 1" \
    "nothing is pushed into its input (EPERM)"
unlike "$(cat "$T/out")" 'Z' "nor seen there"
unlike "$(val own)" DONE "it does not become its terminal"
is "$(val tty)" none "and there is no /dev/tty"
is "$(rows skill.cap_bypass_attempt '| [.syscall, .target, .count]')" \
    '["ioctl","request 0x5412",1]
["ioctl","request 0x541c",1]
["*",null,1]' "the ledger names what was tried, and counts what was tried again"
done_testing
