#!/bin/sh
# A crash in the middle of a write: the file is the old or the new one, and the
# temporary one is gone at the latest after the next start, whoever was killed.
# shellcheck source=t/lib.sh
. t/lib.sh
# shellcheck source=t/box.sh
. t/box.sh
# shellcheck source=t/live.sh
. t/live.sh

D=$T/d
mkdir -p "$D/ok"
OK="x-allowed-files: [\"$D/ok/**\"]"
GRANT='allowed_tools: [Write, Edit, MemoryEmit]'
SCOPE='allowed_memory_scopes: ["memories/**"]'

sweep() { "$CYBEROS" skill broker sweep --store "$STORE" >"$T/said" 2>&1; }
strays() { find "$D" "$STORE" "$T/result" -name '.cyberos-*' 2>/dev/null; }
has_strays() { [ -n "$(strays | grep -v "$T/result")" ]; }
run_left() { find "$STORE/run" -mindepth 1 ! -name 'metrics*' ! -name slots; }
state() { cat "$D/ok/f" "$STORE/memories/f" 2>/dev/null | tr '\n' ' '; }

# --- held at the one moment at which there is a name that must not stay ---

# The worker is made to wait in front of its rename(2).
can_hold() {
	command -v strace >/dev/null &&
	    strace -f -o /dev/null -e trace=none true 2>/dev/null
}

# held CALL: this call is under way, its file has both names, and it waits
held() {
	rm -rf "$STORE" "$D/ok" "$T/result"
	mkdir -p "$D/ok" "$T/result"
	echo old >"$D/ok/f"
	skill wire "$GRANT" "$OK" "$SCOPE" <"$WIRE/main"
	INV=$(new_id)
	rm -f "$T/live.in"
	: >"$T/live.out"
	mkfifo "$T/live.in"
	strace -f -qq -o "$T/trace" -e trace=renameat -e signal=none \
	    -e inject=renameat:delay_enter=20s:when=1 \
	    "$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --invocation "$INV" --result "$T/result/r" wire \
	    <"$T/live.in" >"$T/live.out" 2>"$T/live.err" &
	LIVE=$!
	exec 6>"$T/live.in"
	live_say "open
send 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tool.call\",\"params\":$1}"
	until_true has_strays
	SUPERVISOR=$(children "$LIVE" | tr -d ' ')
	BROKER=$(live_broker)
	# It is stopped for good as far as live_child can tell.
	WORKER=$(for pid in $(children "$BROKER"); do
		grep -lx cyberos-file "/proc/$pid/comm"
	done | sed 's,/proc/,,; s,/comm,,')
}
let_die() {
	kill -KILL "$@"
	for pid in "$@"; do
		until_true is_dead "$pid"
	done
	kill -KILL "$LIVE" 2>/dev/null # strace
	exec 6>&-
	wait "$LIVE" 2>/dev/null
	until_true none_alive
}
WRITE="{\"tool\":\"Write\",\"args\":{\"path\":\"$D/ok/f\",\"body\":\"new\"}}"
EDIT="{\"tool\":\"Edit\",\"args\":{\"path\":\"$D/ok/f\",\"old\":\"old\",\"new\":\"new\"}}"
EMIT='{"tool":"MemoryEmit","args":{"kind":"a.b","path":"memories/f","body":"new"}}'

if can_hold; then
	for tool in "$WRITE" "$EDIT" "$EMIT"; do
		name=$(printf '%s' "$tool" | jq -r .tool)
		held "$tool"
		[ -n "$BROKER" ] && [ -n "$WORKER" ] && has_strays
		ok $? "$name: there is a file in the making"
		let_die "$BROKER" "$WORKER"
		sweep
		is "$(strays)" "" "$name: broker and worker killed: nothing stays"
		is "$(state)" 'old ' "$name: the file is the old one"
		is "$(run_left)" "" "$name: nothing in run/ either"

		[ "$name" != Edit ] || continue
		held "$tool"
		let_die "$SUPERVISOR" "$BROKER"
		has_strays
		ok $? "$name: supervisor and broker killed: it is left"
		skill quiet <<'S'
#!/bin/sh
exit 0
S
		broker_run quiet
		is "$(strays)" "" "$name: and gone with the next start, that of the result too"
		is "$(run_left)" "" "$name: nothing in run/ either"
	done
else
	skip 'killed in front of rename' 'strace cannot trace here'
fi

# --- killed at any moment ---

# The skill writes whole files of one letter, again and again.
perl_skill busy "$GRANT" "$OK" "$SCOPE" <<'P'
use Socket;
socket my $s, AF_UNIX, SOCK_STREAM, 0;
connect $s, sockaddr_un $ENV{CYBEROS_BROKER_SOCKET} or die;
my ($file, $n) = ($ARGV[0], 0);
sub call {
	my $m = '{"jsonrpc":"2.0","id":1,"method":"tool.call","params":' . shift() . '}';
	my ($head, $body) = ('', '');
	syswrite $s, pack('N', length $m) . $m;
	while (length $head < 4) { sysread $s, $head, 4 - length $head, length $head or exit }
	my $left = unpack 'N', $head;
	while (length $body < $left) { sysread $s, $body, $left - length $body, length $body or exit }
}
while (1) {
	my ($a, $b) = (chr 97 + $n % 26, chr 97 + ($n + 1) % 26);
	call('{"tool":"Write","args":{"path":"' . $file . '","body":"' . $a x 300000 . '"}}');
	call('{"tool":"Edit","args":{"path":"' . $file . '","old":"' . $a x 300000 . '","new":"' . $b x 300000 . '"}}');
	call('{"tool":"MemoryEmit","args":{"kind":"a.b","path":"memories/f","body":"' . $b x 300000 . '"}}');
	$n++;
}
P
# odd FILE: not 300,000 times one letter
odd() {
	[ -e "$1" ] || return 1
	perl -e 'local $/; open F, "<", $ARGV[0] or exit 0; $_ = <F>;
	    exit($_ eq substr($_, 0, 1) x 300000)' "$1"
}
rm -rf "$STORE" "$D/ok"
mkdir -p "$D/ok" "$T/result"
perl -e 'print "z" x 300000' >"$D/ok/f"
rounds=${ROUNDS:-16}
n=0 mixed=0 left=0 killed=0
while [ $n -lt "$rounds" ]; do
	n=$((n + 1))
	INV=$(new_id)
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --invocation "$INV" --result "$T/result/r" busy -- "$D/ok/f" \
	    >/dev/null 2>&1 &
	run=$!
	perl -e 'select undef, undef, undef, 0.05 + rand 0.3'
	broker=$(children $run | tr -d ' ')
	worker=$(for pid in $(children "$broker"); do
		grep -lx cyberos-file "/proc/$pid/comm" 2>/dev/null
	done | sed 's,/proc/,,; s,/comm,,')
	[ -z "$worker" ] || killed=$((killed + 1))
	case $((n % 4)) in
	0) kill -KILL ${worker:-$broker} ;;
	1) kill -KILL $broker ;;
	2) kill -KILL $worker $broker ;;
	3) kill -KILL $run $broker ;;
	esac 2>/dev/null
	[ $((n % 4)) -ne 0 ] || {
		perl -e 'select undef, undef, undef, rand 0.1'
		kill -TERM $run 2>/dev/null
	}
	wait $run 2>/dev/null
	until_true none_alive
	sweep
	for file in "$D/ok/f" "$STORE/memories/f"; do
		! odd "$file" || mixed=$((mixed + 1))
	done
	[ -z "$(strays)" ] || {
		left=$((left + 1))
		note "$n: $(strays)"
		find "$D" "$STORE" "$T/result" -name '.cyberos-*' -delete
	}
done
is "$mixed" 0 "$rounds times killed: every file is an old or a new one"
is "$left" 0 "$rounds times killed: nothing in the making is left"
[ $killed -gt $((rounds / 4)) ]
ok $? "$rounds times killed: $killed times while a worker was there"
is "$(run_left)" "" "$rounds times killed: nothing in run/ either"
verify_store "$rounds times killed: the ledger holds"
done_testing
