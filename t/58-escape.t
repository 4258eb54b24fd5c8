#!/bin/sh
# The probe inside the sandbox: nothing escapes, and what is an attack is a row.
# shellcheck source=t/lib.sh
. t/lib.sh

PROBE=$PWD/t/skills/probe
command -v python3 >/dev/null || {
	skip 'the escape probe' 'python3 is not installed'
	done_testing
}

# What lies outside: a secret, a socket with a name, one without, a port.
mkdir -p "$T/outside"
echo secret >"$T/outside/secret"
chmod 755 "$T/outside"
chmod 644 "$T/outside/secret"
name=cyberos-t-$$
python3 - "$T" "$name" <<'EOT' &
import os, socket, sys, threading
t, name = sys.argv[1:3]
hits = open(t + "/hits", "w")
def listen(family, address):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.bind(address)
    s.listen()
    return s
def serve(s):
    while True:
        s.accept()
        hits.write("hit\n"); hits.flush()
socks = [listen(socket.AF_UNIX, t + "/outside/socket"),
         listen(socket.AF_UNIX, "\0" + name),
         listen(socket.AF_INET, ("127.0.0.1", 0))]
os.chmod(t + "/outside/socket", 0o777)
for s in socks:
    threading.Thread(target=serve, args=(s,), daemon=True).start()
with open(t + "/port.new", "w") as f:
    f.write(str(socks[2].getsockname()[1]))
os.rename(t + "/port.new", t + "/port")
threading.Event().wait(120)
EOT
listener=$!
tries=0
while [ ! -s "$T/port" ] && [ $tries -lt 200 ]; do
	sleep 0.05
	tries=$((tries + 1))
done
port=$(cat "$T/port")

# attempt HOW: run all attempts; $T/found has what escaped
attempt() {
	skill probe <"$PROBE/main"
	broker_run probe -- "$1" "$T/outside" "$name" "$port" "$$"
	is "$RC" 0 "$1: the probe ran to its end"
	is "$(cut -f 1 "$T/out" | wc -l | tr -d ' ')" \
	    "$("$PROBE/main" list | wc -l | tr -d ' ')" \
	    "$1: every attempt was made"
	is "$(awk -F '\t' '$2 != "refused" { print $1 }' "$T/out")" '' \
	    "$1: nothing escaped"
}

for how in main child thread exec; do
	attempt $how
	is "$(result 'sandbox.seccomp')" active "$how: the filter was on"
	is "$(count skill.cap_bypass_attempt |
	    awk '{ print ($1 > 20 && $1 <= 64) }')" 1 \
	    "$how: attempts are rows, 64 at most"
done

# One attempt at a time: a row with the call's name, or none.
# one NAME SYSCALL
one_of() {
	printf '%s\n' "$calls" | grep -qx "$1"
	ok $? "a row names $1"
}
calls=$(rows skill.cap_bypass_attempt '| .syscall' | tr -d '"' | sort -u)
for call in unshare clone setns mount umount2 fsopen open_tree move_mount \
    mount_setattr pivot_root chroot ptrace process_vm_readv \
    process_vm_writev pidfd_getfd kcmp socket bpf perf_event_open \
    userfaultfd io_uring_setup keyctl add_key request_key init_module \
    finit_module kexec_load reboot swapon ioctl memfd_create \
    open_by_handle_at fchmod; do
	one_of $call
done
is "$(rows skill.cap_bypass_attempt |
    jq -r 'select(.syscall == "socket") | .target' | grep -c 'inet stream')" \
    1 'the row of a socket says of which kind'
is "$(rows skill.cap_bypass_attempt |
    jq -r 'select(.target == null and .syscall != "*") | .syscall' | sort -u | tr '\n' ' ')" \
    'init_module ' 'all but one that names nothing say what they aimed at'
if [ "$(uname -m)" = x86_64 ]; then
	# A kernel without 32-bit calls ends their process itself.
	is "$(rows skill.cap_bypass_attempt |
	    jq -r 'select(.syscall == "unknown") | .target' |
	    sed '/^call [0-9]* of architecture 0x40000003$/d')" 'x32 call 272' \
	    'calls of other architectures, whose processes are ended, are rows'
fi
is "$(cat "$T/hits")" '' 'no listener outside was reached'
is "$(cat "$T/outside/secret")" secret 'the secret is as it was'

# A flood is folded, the count is right, and calls go on.
skill probe 'allowed_tools: [MemoryRead]' \
    'allowed_memory_scopes: ["memories/**"]' <"$PROBE/main"
broker_run probe -- flood 20000
is "$RC" 0 'a flood of attempts ends by itself'
is "$(count skill.cap_bypass_attempt)" 2 'it is one row, and one for the rest'
is "$(rows skill.cap_bypass_attempt '| .count' | awk '{ n += $1 } END { print n }')" \
    20000 'each attempt was counted'

# Calls of x32 from one that does not mind SIGSYS.
if [ "$(uname -m)" = x86_64 ]; then
	in_skill "perl -e '\$SIG{SYS} = q(IGNORE); print syscall(0x40000000 | 39), 0 + \$!, qq(\\n) for 1 .. 3; print qq(end\\n)'; perl -e 'syscall(0x40000000 | 39)'; echo \$?"
	is "$(echo $OUT)" "-11 -11 -11 end 159" "EPERM, and for others the end by SIGSYS"
	is "$(rows skill.cap_bypass_attempt '| [.syscall, .target, .count]' | tr '\n' ' ')" \
	    '["unknown","x32 call 39",1] ["*",null,3] ' "all of them are counted"
fi

# Programs that mean no harm leave no such row.
honest() {
	in_skill "$2"
	is "$RC" 0 "$1 works"
	[ "$RC" -eq 0 ] || note "$ERR"
	is "$(count skill.cap_bypass_attempt)" 0 "$1 is not taken for an attack"
}
honest 'a shell script' 'for i in 1 2 3; do echo $i | sort >/tmp/x; done
ls / /usr /etc >/dev/null; cat /etc/passwd | grep -c skill; mkfifo /tmp/f;
date >/dev/null; sleep 0.1; (sleep 0.1 & wait); test -w /tmp'
honest 'perl' 'perl -e "open(F, q(>/tmp/p)); print F 1; close F; fork; print getppid"'
honest 'python' 'python3 -c "
import threading, subprocess, tempfile, os, sqlite3, json
t = threading.Thread(target=lambda: None); t.start(); t.join()
subprocess.run([\"true\"], check=True)
tempfile.NamedTemporaryFile(dir=\"/tmp\").close()
sqlite3.connect(\":memory:\").execute(\"create table a (b)\")
os.listdir(\"/\")"'
command -v git >/dev/null &&
	honest git 'cd /tmp && export HOME=/tmp && git init -q r && cd r &&
echo a >a && git add a &&
git -c user.name=a -c user.email=a@b commit -q -m a && git log -1 >/dev/null'
if command -v node >/dev/null && [ -x /usr/bin/node ]; then
	printf '#!/usr/bin/node\nconsole.log(1)\n' | skill nodeskill
	broker_run nodeskill
	is "$(result outcome | grep -c 'success\|error\|panic\|killed')" 1 \
	    'node ends one way or the other under the default limits'
fi

kill "$listener" 2>/dev/null
wait "$listener" 2>/dev/null
done_testing
