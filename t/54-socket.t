#!/bin/sh
# The socket in the file system: who owns it, what happens when its name is
# taken, who may speak to it.
. t/lib.sh
. t/box.sh

SOCK() { echo "${1:-/tmp}/cyberos-skill-broker.$INV.sock"; }

perl_skill serve 'allowed_tools: [MemoryRead]' \
    'allowed_memory_scopes: ["memories/**"]' <<'P'
use Socket;
$| = 1;
$SIG{TERM} = sub { exit 0 };
socket my $s, AF_UNIX, SOCK_STREAM, 0;
connect $s, pack_sockaddr_un($ENV{CYBEROS_BROKER_SOCKET}) or print "cannot connect\n";
sub call {
	my $m = '{"jsonrpc":"2.0","id":1,"method":"broker.status"}';
	syswrite $s, pack('N', length $m) . $m;
	sysread $s, my $h, 4 or return 'closed';
	my $b = '';
	while (length $b < unpack 'N', $h) { sysread $s, $b, 65536, length $b or return 'closed' }
	$b =~ /"result"/ ? 'answered' : $b;
}
print "first ", call(), "\n";
print "up\n";
my $n = 0;
while (1) { select undef, undef, undef, 0.05; print "again ", call(), "\n" if ++$n % 4 == 0 }
P
skill never <<'S'
#!/bin/sh
echo ran
S

# --- as it stands ---

start serve
until_true says up
is "$(stat -c '%a %F' "$(SOCK)")" "600 socket" "mode 0600"
owner=$(awk '/^Uid:/ {print $2}' "/proc/$(main_pid)/status")
is "$(stat -c %u "$(SOCK)")" "$owner" "owned by the skill's uid on the host"
is "$(val first)" answered "the skill is served"
holds "the directory it was made in is gone" [ ! -e "/tmp/.cyberos.$INV" ]

# --- strangers ---

# connects to a socket and says what came of it, a line a try
cat >"$T/stranger" <<'P'
use Socket;
my ($path, $times) = @ARGV;
for (1 .. $times) {
	socket my $s, AF_UNIX, SOCK_STREAM, 0;
	if (!connect $s, pack_sockaddr_un($path)) { print "refused\n"; next }
	my $m = '{"jsonrpc":"2.0","id":1,"method":"broker.status"}';
	local $SIG{PIPE} = 'IGNORE';
	syswrite $s, pack('N', length $m) . $m;
	print defined(sysread $s, my $b, 100) && length $b ? "SERVED\n" : "closed\n";
}
P
is "$(perl "$T/stranger" "$(SOCK)" 1)" closed \
    "a connection from outside by the caller himself gets no answer"
until_true says '^again answered'
if is_root; then
	is "$(setpriv --reuid "$owner" --regid "$owner" --clear-groups \
	    perl "$T/stranger" "$(SOCK)" 1)" closed \
	    "one by the skill's own host uid neither"
	is "$(setpriv --reuid 65534 --regid 65534 --clear-groups \
	    perl "$T/stranger" "$(SOCK)" 1)" refused "another uid cannot connect"
	strangers="0 $owner"
else
	strangers=$owner
fi
seen=$(grep -c '^again answered' "$T/out")
is "$(perl "$T/stranger" "$(SOCK)" 200 | sort | uniq -c | tr -s ' ')" " 200 closed" \
    "nor do 200 of them"
# shellcheck disable=SC2317 # until_true calls it
more() { [ "$(grep -c '^again answered' "$T/out")" -gt "$seen" ]; }
until_true more
holds "meanwhile the skill is served" more
kill -TERM "$RUN"
finish
rows=$(count skill.peer_refused)
holds "skill.peer_refused rows are there, and not without bound ($rows)" \
    [ "$rows" -ge 2 ]
holds "at most 64" [ "$rows" -le 64 ]
is "$(rows skill.peer_refused '| .uid' | sort -nu | tr '\n' ' ' | sed 's/ $//')" \
    "$strangers" "they name the uid"
is "$(rows skill.peer_refused '| select(.pid <= 1 or .count < 1)')" "" \
    "and the pid and a count"
is "$(result calls)" 0 "no call was made for them"
nothing_left "strangers"

# --- the name is taken ---

taken() { # NAME: the run is refused, and what stood there stands
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --result "$T/result.json" --invocation "$INV" never \
	    >"$T/out" 2>"$T/err" </dev/null
	is "$? $(cat "$T/out")" "125 " "$1 at its place: exit 125, not started"
	like "$(cat "$T/err")" "$INV.sock: exists already" "$1: the log says so"
	is "$(result outcome) $(result exit_status) $(rows skill.invoked_completed '| .outcome')" \
	    'refused 125 "refused"' "$1: outcome refused"
	is "$(count skill.invoked_started)" 0 "$1: no start in the ledger"
	is "$(stat -c '%i %F %a' "$(SOCK)")" "$before" "$1: it is still there"
	holds "$1: no nest is left" [ ! -e "/tmp/.cyberos.$INV" ]
}
mark() { before=$(stat -c '%i %F %a' "$(SOCK)"); }

INV=$(new_id)
echo precious >"$(SOCK)"
mark
taken "a file"
is "$(cat "$(SOCK)")" precious "a file: unchanged"
rm "$(SOCK)"

INV=$(new_id)
echo precious >"$T/victim"
ln -s "$T/victim" "$(SOCK)"
mark
taken "a link"
is "$(cat "$T/victim") $(stat -c %a "$T/victim")" "precious 644" "a link: not followed"
rm "$(SOCK)"

INV=$(new_id)
ln -s "$T/nowhere" "$(SOCK)"
mark
taken "a link to nothing"
holds "a link to nothing: nothing was made there" [ ! -e "$T/nowhere" ]
rm "$(SOCK)"

INV=$(new_id)
mkdir "$(SOCK)"
mark
taken "a directory"
is "$(ls "$(SOCK)")" "" "a directory: nothing in it"
rmdir "$(SOCK)"

INV=$(new_id)
mkfifo "$(SOCK)"
mark
taken "a FIFO"
rm "$(SOCK)"

INV=$(new_id)
perl -MSocket -e 'socket my $s, AF_UNIX, SOCK_STREAM, 0;
    bind $s, pack_sockaddr_un($ARGV[0]) or die; listen $s, 5;
    my $r = ""; vec($r, fileno $s, 1) = 1;
    print select($r, undef, undef, 60) > 0 ? "came\n" : "nobody\n"' \
    "$(SOCK)" >"$T/listener" &
listener=$!
until_true [ -S "$(SOCK)" ]
mark
taken "a socket that answers"
kill "$listener"
wait "$listener" 2>/dev/null
is "$(cat "$T/listener")" "" "a socket that answers: nobody came"
rm "$(SOCK)"

INV=$(new_id)
mkdir "/tmp/.cyberos.$INV"
broker_run --invocation "$INV" never
is "$RC $(result outcome)" "125 refused" "the nest's name is taken: refused"
holds "and not removed" [ -d "/tmp/.cyberos.$INV" ]
rmdir "/tmp/.cyberos.$INV"

# What a killed broker left is not unlinked by the next one.
start serve -- "$T"
until_true says up
kill -9 "$(broker_pid)" "$RUN"
finish 2>/dev/null
until_true none_alive
mark
broker_run --invocation "$INV" never
is "$RC" 125 "the same id again: exit 125"
like "$ERR" 'has been used' "an id is used once"
is "$(result outcome) $(result exit_status)" "refused 125" "--result says so too"
holds "recovery has removed the old socket" [ ! -e "$(SOCK)" ]
rm -f "$(SOCK)"

# --- the socket directory ---

mkdir "$T/d"
start --socket-dir "$T/d" serve
until_true says up
holds "--socket-dir: it stands there" [ -S "$(SOCK "$T/d")" ]
holds "and not in /tmp" [ ! -e "$(SOCK)" ]
kill -TERM "$RUN"
finish
is "$(ls -A "$T/d")" "" "and nothing of it is left"
is "$(val first)" answered "inside it is where it always is"
here=$PWD
cd "$T" || exit 99
broker_run --socket-dir d never
cd "$here" || exit 99
is "$RC $OUT" "0 ran" "a relative --socket-dir"

long=$T/$(printf '%0150d' 7)
mkdir "$long"
broker_run --socket-dir "$long" never
is "$RC $OUT $(result outcome)" "125  refused" "a path that is too long: exit 125"
like "$ERR" 'the limit is 107' "the message names the limit"
is "$(ls -A "$long")" "" "no file with a cut name"
# 107 bytes with the name of 63 are allowed, 108 are not.
base=$T/$(printf '%0200d' 7)
edge=$(printf '%.44s' "$base")
mkdir "$edge"
broker_run --socket-dir "$edge" never
is "$RC $OUT" "0 ran" "a path of exactly 107 bytes"
mkdir "${edge}7"
broker_run --socket-dir "${edge}7" never
is "$RC" 125 "a path of 108 bytes"
broker_run --socket-dir "$T/missing" never
is "$RC $(result outcome)" "125 refused" "a directory that is not there"
echo >"$T/plain"
broker_run --socket-dir "$T/plain" never
is "$RC $(result outcome)" "125 refused" "a file for a directory"
if ! is_root; then
	mkdir -m 555 "$T/closed"
	broker_run --socket-dir "$T/closed" never
	is "$RC $(result outcome)" "125 refused" "a directory that cannot be written"
fi

# --- from the first moment ---

if is_root; then
	mkdir -m 1777 "$T/open"
	# shellcheck disable=SC2016 # Perl's variables
	setpriv --reuid 65534 --regid 65534 --clear-groups perl -MSocket -e '
		my $end = time + 60;
		while (time < $end && !-e "$ARGV[0]/stop") {
			for (glob "$ARGV[0]/cyberos-*.sock $ARGV[0]/.cyberos.*/s") {
				socket my $s, AF_UNIX, SOCK_STREAM, 0;
				print connect($s, pack_sockaddr_un($_)) ? "CONNECTED\n" : "refused\n";
			}
		}' "$T/open" >"$T/watch" &
	watcher=$!
	n=0
	while [ $n -lt 20 ]; do
		(umask 0 && broker_run --socket-dir "$T/open" never)
		n=$((n + 1))
	done
	: >"$T/open/stop"
	wait $watcher
	is "$(grep -c CONNECTED "$T/watch")" 0 \
	    "another uid never gets through while sockets are made ($(wc -l <"$T/watch") tries)"
	holds "it has seen them" [ -s "$T/watch" ]
fi

# --- descriptors that come along ---

if is_root && [ -x /usr/bin/python3 ]; then
	skill sender <<'S'
#!/usr/bin/python3
import array, os, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["CYBEROS_BROKER_SOCKET"])
m = b'{"jsonrpc":"2.0","id":1,"method":"broker.status"}'
fds = array.array("i", [0, 1, 2] * 20)
for _ in range(100):
    s.sendmsg([len(m).to_bytes(4, "big") + m],
              [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    n = int.from_bytes(s.recv(4, socket.MSG_WAITALL), "big")
    s.recv(n, socket.MSG_WAITALL)
print("sent", flush=True)
time.sleep(60)
S
	start sender -- "$T"
	until_true says sent
	n=$(find "/proc/$(broker_pid)/fd" -type l | wc -l)
	says sent
	ok $? "60 descriptors with each of 100 requests"
	holds "none of them stays in the broker ($n open)" [ "$n" -lt 40 ]
	kill -KILL "$(main_pid)"
	finish
	nothing_left "descriptors"
elif is_root; then # root's turn: only root can look at the broker
	skip "descriptors that are sent vanish" "needs /usr/bin/python3"
fi
done_testing
