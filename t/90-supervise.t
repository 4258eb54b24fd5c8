#!/bin/sh
# supervise: requests in, events out, many invocations at once (SPEC 12).
# shellcheck source=t/lib.sh
. ./t/lib.sh

mkdir "$T/sock" && chmod 1777 "$T/sock"
set -- --store "$STORE" --skills "$T/skills" --socket-dir "$T/sock"
base="$*"

script() { # NAME SCRIPT: a skill that is a shell script
	printf '#!/bin/sh\n%s\n' "$2" | skill "$1"
}
script hello 'echo "hi $*"; echo err >&2'
script copy 'cat'
# shellcheck disable=SC2016 # the skill's words
script fds 'for n in 0 1 2; do echo "$(readlink /proc/$$/fd/$n)"; done'
# shellcheck disable=SC2016
script nap 'sleep "$1"'
# shellcheck disable=SC2016
script deaf 'trap "" TERM; while :; do sleep 1; done'

# supervise [OPTIONS]: requests on standard input; leaves RC, $T/out, $T/err
supervise() {
	# shellcheck disable=SC2086 # a list of options
	"$CYBEROS" skill broker supervise $base "$@" >"$T/out" 2>"$T/err"
	RC=$?
}
# begin [OPTIONS]: in the background, requests by `ask`, events in $T/out
begin() {
	rm -f "$T/in"
	mkfifo "$T/in"
	# shellcheck disable=SC2086
	"$CYBEROS" skill broker supervise $base "$@" <"$T/in" >"$T/out" \
	    2>"$T/err" &
	PID=$!
	exec 3>"$T/in"
}
ask() { (printf '%s\n' "$1" >&3) 2>"$T/null"; }
finish() {
	exec 3>&-
	wait "$PID"
	RC=$?
}
# until_count N JQ-FILTER: so many events are there
until_count() {
	t_tries=0
	while [ "$(jq -c "select($2)" "$T/out" 2>/dev/null | wc -l)" -lt "$1" ]; do
		t_tries=$((t_tries + 1))
		[ "$t_tries" -lt 300 ] || return 1
		sleep 0.1
	done
}
events() { jq -c "select($1) | $2" "$T/out"; }
uuid() { printf '00000000-0000-4000-8000-%012d' "$1"; }
nothing_left() { # NAME
	# What is the host's stays.
	is "$(ls -A "$T/sock")$(ls -A -I metrics -I slots "$STORE/run")" '' \
	    "$1: nothing is left"
}

# --- a request with every member, and its events ---
echo '{"op":"run","id":"a-1","skill":"hello","invocation_id":"'"$(uuid 1)"'",
"tenant_id":"11111111-1111-4111-8111-111111111111","args":["x","é \" y"],
"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
"persona":"someone","request_id":"r-1","deadline":60,"stdin":"","output":true}' |
	tr '\n' ' ' >"$T/req"
supervise <"$T/req"
is "$RC" 0 "the end of the input ends it"
is "$(jq -r .event "$T/out" | uniq | tr '\n' ' ')" \
    "accepted started output completed " "one event after the other"
is "$(jq -c '[.id, .invocation_id]' "$T/out" | sort -u)" \
    "[\"a-1\",\"$(uuid 1)\"]" "each names the request and the invocation"
is "$(events '.event == "output" and .stream == "stdout"' .text)" \
    '"hi x é \" y\n"' "what the skill wrote"
is "$(events '.event == "output" and .stream == "stderr"' .text)" \
    '"err\n"' "both streams"
is "$(events '.event == "started"' \
    '[(.pid > 1), .socket, .skill_id, .version, .sandbox.seccomp]')" \
    "[true,\"$T/sock/cyberos-skill-broker.$(uuid 1).sock\",\"hello\",\"1.0.0\",\"active\"]" \
    "started: pid, socket, sandbox"
is "$(events '.event == "completed"' \
    '[.skill_id, .outcome, .exit_status, .exit_code, .signal, .calls, .by]')" \
    '["hello","success",0,0,null,0,"skill"]' "completed: the result"
like "$(events '.event == "completed"' \
    'keys - ["event","id"] | sort | join(" ")')" \
    '"by calls denied duration_ms error_message exit_code exit_status head host_head hseq invocation_id outcome rejected sandbox segment signal skill_id version"' \
    "completed: every member of --result, at top level"
row=$(cat "$STORE"/audit/*/seg/00/"$(uuid 1)".p1.jsonl | head -n 1)
is "$(printf '%s' "$row" | jq -c '.payload | [.tenant_id, .caller_persona,
    .request_id, .trace_id]')" \
    '["11111111-1111-4111-8111-111111111111","someone","r-1","0af7651916cd43dd8448eb211c80319c"]' \
    "the ledger has what the request said"
nothing_left "one request"

# --- streams ---
{
	printf '%s\n' '{"op":"run","id":1,"skill":"copy","stdin":"caf\u00e9\n\u0001","output":true}'
	echo '{"op":"run","id":2,"skill":"copy","output":true}'
	echo '{"op":"run","id":3,"skill":"fds","output":true}'
	echo '{"op":"run","id":4,"skill":"fds"}'
	echo '{"op":"run","id":5,"skill":"copy","stdin":"nobody asks for it"}'
} >"$T/req"
supervise <"$T/req"
is "$(events '.event == "output" and .id == 1' .text)" '"café\n\u0001"' \
    "stdin is fed to the skill"
is "$(events '.event == "output" and .id == 2' .text)" '' \
    "without stdin there is nothing to read"
like "\"$(jq -j 'select(.event == "output" and .id == 3) | .text' "$T/out" |
    tr '\n' '|')\"" \
    '^"/dev/null\|pipe:\[[0-9]+\]\|pipe:\[[0-9]+\]\|"$' \
    "pipes of ours, and /dev/null"
is "$(events '.event == "output" and (.id == 4 or .id == 5)' 1)" '' \
    "output that is not asked for is not told"
is "$(events '.event == "completed"' .outcome | sort | uniq -c | tr -d ' ')" \
    '5"success"' "all of them succeeded"
unlike "$(cat "$T/out" "$T/err")" "nobody asks" "and nothing of it is anywhere"

# What is cut between two bytes of a character, what is no text, what is long.
# shellcheck disable=SC2016
script split 'printf "a\303"; sleep 0.3; printf "\251b"'
script bytes "printf 'x\\377y\\000z'"
script half "printf 'end\\342\\202'"
script long 'head -c 17825792 /dev/zero | tr "\0" a'
{
	echo '{"op":"run","id":1,"skill":"split","output":true}'
	echo '{"op":"run","id":2,"skill":"bytes","output":true}'
	echo '{"op":"run","id":3,"skill":"half","output":true}'
	echo '{"op":"run","id":4,"skill":"long","output":true}'
} >"$T/req"
supervise <"$T/req"
is "$(jq -rj 'select(.event == "output" and .id == 1) | .text' "$T/out")" \
    "aéb" "a character that comes in two pieces is whole"
is "$(events '.event == "output" and .id == 2' '[.text, .encoding]')" \
    '["eP95AHo=","base64"]' "bytes that are no text are base64, and exact"
is "$(jq -j 'select(.event == "output" and .id == 3) |
    if .encoding == "base64" then .text | "+" + . else .text end' "$T/out")" \
    "end+4oI=" "half a character at the end is not lost"
is "$(jq -j 'select(.event == "output" and .id == 4) | .text' "$T/out" | wc -c)" \
    16777216 "of a stream 16 MiB are told"
is "$(events '.id == 4 and .dropped' .dropped)" 1048576 \
    "and how much was dropped"
is "$(jq -c 'select(.event == "output") | .text | length' "$T/out" | sort -n |
    tail -n 1)" 16384 "in pieces that are bounded"

# --- lines that are no requests ---
{
	echo '{"op":"run","id":"first","skill":"hello"}'
	echo 'no json'
	echo
	echo '[1]'
	echo '{"op":"jump","id":5}'
	echo '{"op":"run","id":"i"}'
	echo '{"op":"run","skill":"hello","deadlin":3}'
	echo '{"op":"run","skill":"hello","skill":"copy"}'
	echo '{"op":"run","skill":"hello","deadline":0}'
	echo '{"op":"run","skill":"hello","args":[1]}'
	echo '{"op":"run","skill":"hello","invocation_id":"../x"}'
	echo '{"op":"run","skill":"hello","tenant_id":"11111111-1111-4111-8111-11111111111A"}'
	echo '{"op":"run","skill":"hello","output":"yes"}'
	echo '{"op":"status","skill":"hello"}'
	echo '{"op":"cancel"}'
	printf '{"op":"run","skill":"hello","stdin":"\377"}\n'
	printf '{"op":"run","skill":"hello","id":{"a":1}}\n'
	printf '{"op":"run","skill":"hello","stdin":"%s"}\n' \
	    "$(head -c 2000000 /dev/zero | tr '\0' a)"
	printf '{"op":"run","skill":"copy","id":"large","output":true,"stdin":"%s"}\n' \
	    "$(head -c 1000000 /dev/zero | tr '\0' b)"
	printf '{"op":"run","id":"last","skill":"hello"}'
} >"$T/req"
supervise <"$T/req"
is "$(events '.event == "rejected"' '[.line, .reason, .id]' | tr '\n' ' ')" \
    '[2,"not_json",null] [4,"bad_request",null] [5,"unknown_op",5] [6,"bad_request","i"] [7,"bad_request",null] [8,"not_json",null] [9,"bad_request",null] [10,"bad_request",null] [11,"bad_request",null] [12,"bad_request",null] [13,"bad_request",null] [14,"bad_request",null] [15,"bad_request",null] [16,"not_json",null] [17,"bad_request",null] [18,"line_too_long",null] ' \
    "each bad line is answered with its number, and why"
is "$(events '.event == "rejected" and (.message | length) < 8' .)" '' \
    "and with a sentence"
is "$(events '.event == "completed"' '[.id, .outcome]' | sort | tr '\n' ' ')" \
    '["first","success"] ["large","success"] ["last","success"] ' \
    "the good ones ran, the last without a line feed, too"
is "$(jq -j 'select(.event == "output" and .id == "large") | .text' "$T/out" |
    wc -c)" 1000000 "a line of a megabyte is one"
is "$RC" 0 "and that is no failure"

# What cannot be run is accepted, and refused in time.
{
	echo '{"op":"run","id":1,"skill":"no-such"}'
	echo '{"op":"run","id":2,"skill":".."}'
	echo '{"op":"run","id":3,"skill":"hello","invocation_id":"'"$(uuid 1)"'"}'
} >"$T/req"
supervise <"$T/req"
is "$(events '.event == "completed"' '[.id, .outcome, .exit_status]' | sort |
    tr '\n' ' ')" \
    '[1,"refused",127] [2,"refused",125] [3,"refused",125] ' \
    "no such skill, no id, an id used before"

# --- some at once, the rest in order ---
for n in 1 2 3 4 5 6; do
	echo '{"op":"run","id":'"$n"',"skill":"nap","args":["0.4"]}'
done >"$T/req"
supervise --max 2 <"$T/req"
is "$(jq -c 'select(.event == "started" or .event == "completed") | .event' \
    "$T/out" | awk '/started/ { n++; if (n > most) most = n }
    /completed/ { n-- } END { print most }')" 2 "never more than --max"
is "$(events '.event == "accepted"' .id | tr '\n' ' ')" "1 2 3 4 5 6 " \
    "all were accepted"
is "$(events '.event == "started"' .id | paste -sd' ' |
    awk '{ print ($1 + $2 == 3) ($3 + $4 == 7) ($5 + $6 == 11) }')" 111 \
    "and started in order"
is "$(events '.event == "started"' .pid | sort -u | wc -l | tr -d ' ')" 6 \
    "each with a broker of its own"

# --- cancel, status ---
begin --max 1
ask '{"op":"run","id":"r","skill":"nap","args":["60"],"invocation_id":"'"$(uuid 11)"'"}'
until_count 1 '.event == "started"'
ask '{"op":"run","id":"w","skill":"nap","args":["60"],"invocation_id":"'"$(uuid 12)"'"}'
ask '{"op":"run","id":"d","skill":"hello","invocation_id":"'"$(uuid 11)"'"}'
ask '{"op":"status","id":"s"}'
ask '{"op":"cancel","invocation_id":"'"$(uuid 12)"'"}'
until_count 1 '.event == "completed"'
is "$(events '.event == "rejected"' '[.line, .reason, .id]')" \
    '[3,"id_in_use","d"]' "one invocation_id is one invocation"
is "$(events '.event == "status"' '[.id, .running, .waiting, .max, .stopping,
    .active_invocations, (.invocations | map([.invocation_id, .skill_id]))]')" \
    "[\"s\",1,1,1,false,1,[[\"$(uuid 11)\",\"nap\"]]]" "status"
is "$(events '.event == "completed"' '[.id, .outcome, .by, .exit_status]')" \
    '["w","refused","caller",143]' "cancel: one that waits never starts"
ask '{"op":"cancel","id":"c","invocation_id":"'"$(uuid 11)"'"}'
until_count 2 '.event == "completed"'
is "$(events '.event == "completed" and .id == "r"' '[.outcome, .by, .exit_status]')" \
    '["killed","caller",143]' "cancel: one that runs gets SIGTERM"
ask '{"op":"cancel","id":"c","invocation_id":"'"$(uuid 11)"'"}'
until_count 2 '.event == "rejected"'
is "$(events '.reason == "unknown_invocation"' .id)" '"c"' \
    "cancel: it is over"
ask '{"op":"run","id":"k","skill":"deaf","invocation_id":"'"$(uuid 13)"'"}'
until_count 2 '.event == "started"'
ask '{"op":"cancel","invocation_id":"'"$(uuid 13)"'"}'
ask '{"op":"cancel","invocation_id":"'"$(uuid 13)"'"}'
until_count 3 '.event == "completed"'
is "$(events '.event == "completed" and .id == "k"' '[.outcome, .by]')" \
    '["killed","caller"]' "cancel twice: SIGKILL"
finish
is "$RC" 0 "what was cancelled is no failure of ours"
is "$(cat "$STORE"/audit/*/seg/00/"$(uuid 11)".p1.jsonl |
    jq -r 'select(.kind == "skill.invoked_completed") | .payload.outcome')" \
    killed "the ledger says killed"
[ ! -e "$(echo "$STORE"/audit/*/seg/00/"$(uuid 12)".p1.jsonl)" ]
ok $? "and nothing of what never started"
nothing_left "cancel"

# --- SIGTERM ---
begin --max 1
ask '{"op":"run","id":1,"skill":"nap","args":["5"]}'
until_count 1 '.event == "started"'
ask '{"op":"run","id":2,"skill":"hello"}'
until_count 2 '.event == "accepted"'
kill -TERM "$PID"
until_count 1 '.event == "completed"'
ask '{"op":"run","id":3,"skill":"hello"}'
wait "$PID"
RC=$?
exec 3>&-
is "$(events '.event == "completed"' '[.id, .outcome, .by]' | tr '\n' ' ')" \
    '[2,"refused","caller"] [1,"success","skill"] ' \
    "SIGTERM: what waits is refused, what runs ends by itself"
is "$(events '.id == 3' .event)" '' "SIGTERM: nothing more is taken"
is "$RC" 7 "SIGTERM: exit 7, something was cut off"
begin
ask '{"op":"run","id":1,"skill":"deaf"}'
ask '{"op":"run","id":2,"skill":"nap","args":["60"]}'
until_count 2 '.event == "started"'
kill -TERM "$PID"
sleep 0.3
is "$(events '.event == "completed"' .id)" '' "SIGTERM: it waits"
kill -TERM "$PID"
wait "$PID"
is "$?" 7 "SIGTERM twice: exit 7"
exec 3>&-
is "$(events '.event == "completed"' '[.outcome, .by]' | sort -u)" \
    '["killed","caller"]' "SIGTERM twice: all is killed, and told"
begin
ask '{"op":"status"}'
until_count 1 '.event == "status"'
kill -TERM "$PID"
wait "$PID"
is "$?" 0 "SIGTERM: nothing ran, nothing is cut off"
exec 3>&-
nothing_left "SIGTERM"

# --- a reader who is slow, and one who goes ---
mkfifo "$T/slow"
# shellcheck disable=SC2086
(echo '{"op":"run","id":"clock","skill":"deaf","deadline":1}'
	echo '{"op":"run","id":"loud","skill":"long","output":true}'
	sleep 4) | "$CYBEROS" skill broker supervise $base >"$T/slow" 2>"$T/err" &
PID=$!
exec 4<"$T/slow"
sleep 3
cat <&4 >"$T/out"
exec 4<&-
wait "$PID"
is "$(events '.event == "completed" and .id == "clock"' \
    '[.outcome, (.duration_ms < 2500)]')" '["timeout",true]' \
    "a reader who does not read stops no clock"
is "$(jq -j 'select(.event == "output") | .text' "$T/out" | wc -c)" 16777216 \
    "and misses nothing"
# shellcheck disable=SC2086
{ echo '{"op":"run","id":1,"skill":"nap","args":["1"],"invocation_id":"'"$(uuid 21)"'"}'
	sleep 0.7
	echo '{"op":"status"}'
	sleep 3
	echo '{"op":"run","skill":"hello","invocation_id":"'"$(uuid 22)"'"}'; } |
	{ "$CYBEROS" skill broker supervise $base 2>"$T/err"
	echo $? >"$T/rc"; } | head -n 1 >"$T/out"
is "$(cat "$T/rc")" 1 "a reader who goes: exit 1"
like "$(cat "$T/err")" 'nobody reads the events' "and a line in the log"
is "$(cat "$STORE"/audit/*/seg/00/"$(uuid 21)".p1.jsonl |
    jq -r 'select(.kind == "skill.invoked_completed") | .payload.outcome')" \
    success "what ran goes on to its end"
[ ! -e "$(echo "$STORE"/audit/*/seg/00/"$(uuid 22)".p1.jsonl)" ]
ok $? "and nothing new is taken"

# --- a broker dies, and again ---
begin
for n in 1 2 3 4; do
	ask '{"op":"run","id":"o'"$n"'","skill":"nap","args":["2"]}'
done
ask '{"op":"run","id":"v","skill":"deaf"}'
until_count 5 '.event == "started"'
kill -KILL "$(events '.id == "v" and .event == "started"' .pid)"
until_count 1 '.id == "v" and .event == "completed"'
is "$(events '.id == "v" and .event == "completed"' \
    '[.outcome, .exit_status, .by, .error_message]')" \
    '["panic",125,"supervisor","the broker died"]' "a broker that dies: panic"
until_count 5 '.event == "completed"'
is "$(events '.event == "completed" and .id != "v"' .outcome | sort | uniq -c |
    tr -d ' ')" '4"success"' "the others notice nothing"
finish
begin
for n in 1 2 3 4 5; do
	ask '{"op":"run","id":"v'"$n"'","skill":"deaf"}'
	until_count "$n" '.event == "started" and .skill_id == "deaf"'
	kill -KILL "$(events ".id == \"v$n\" and .event == \"started\"" .pid)"
	until_count "$n" '.event == "completed" and .outcome == "panic"'
done
ask '{"op":"run","id":"v6","skill":"deaf","invocation_id":"'"$(uuid 31)"'"}'
ask '{"op":"run","id":"other","skill":"hello"}'
until_count 1 '.id == "other" and .event == "completed"'
is "$(events '.id == "v6"' .event)" '"accepted"' \
    "brokers that die at once: the next start of that skill waits"
is "$(grep -o 'waits ms=[0-9]*' "$T/err" | tr '\n' ' ')" \
    "waits ms=200 waits ms=400 waits ms=800 waits ms=1600 waits ms=3200 " "longer each time"
until_count 6 '.event == "started" and .skill_id == "deaf"'
ok $? "and then it has its turn"
ask '{"op":"cancel","invocation_id":"'"$(uuid 31)"'"}'
ask '{"op":"cancel","invocation_id":"'"$(uuid 31)"'"}'
finish
nothing_left "brokers that died"
verify_store "the ledger holds"

# --- what is in a broker's memory ---
# It is a fork of the supervisor, which has what all the others asked for.
cat >"$T/search.pl" <<'EOT'
# search.pl PID WORD: is the word in the memory of that process?
my ($pid, $word, $all, $found) = (@ARGV, 0, 0);
open my $maps, '<', "/proc/$pid/maps" or die "maps: $!";
open my $mem, '<:raw', "/proc/$pid/mem" or die "mem: $!";
while (<$maps>) {
	my ($from, $to, $mode) = /^(\w+)-(\w+) (\S+)/ or next;
	next if $mode !~ /^rw/;
	my ($at, $len, $text) = (hex $from, hex($to) - hex $from);
	seek $mem, $at, 0;
	read($mem, $text, $len) or next;
	$all += length $text;
	$found++ while $text =~ /\Q$word\E/g;
}
die 'nothing to read' if !$all;
print $found ? "found\n" : "none\n";
EOT
if is_root && perl "$T/search.pl" $$ PATH >"$T/null" 2>&1; then
	begin --max 2
	# Joined here, so that the words are nowhere in this shell's requests.
	m1=alpha-$$-one m2=beta-$$-two
	ask '{"op":"run","id":1,"skill":"nap","args":["60"],"stdin":"'"$m1"'","invocation_id":"'"$(uuid 41)"'"}'
	ask '{"op":"run","id":2,"skill":"hello","args":["'"$m2"'"],"output":true}'
	ask '{"op":"run","id":3,"skill":"nap","args":["60"],"invocation_id":"'"$(uuid 42)"'","persona":"'"$m2"'3"}'
	ask '{"op":"run","id":4,"skill":"nap","args":["61"],"stdin":"'"$m2"'4"}'
	until_count 1 '.event == "started" and .id == 3'
	first=$(events '.event == "started" and .id == 1' .pid)
	third=$(events '.event == "started" and .id == 3' .pid)
	is "$(perl "$T/search.pl" "$PID" "$m2") $(perl "$T/search.pl" "$third" "$m2"3)" \
	    "found found" "a search finds what is there"
	for p in $first $third $(pgrep -P "$first") $(pgrep -P "$third"); do
		printf '%s ' "$(perl "$T/search.pl" "$p" "$m1")"
	done >"$T/found"
	unlike "$(cat "$T/found")" found "what is fed to a skill is in no broker or init"
	is "$(perl "$T/search.pl" "$(pgrep -P "$third" -x cyberos-init)" "$m2"3)" \
	    none "what is said of an invocation is not in its init"
	is "$(perl "$T/search.pl" "$first" "$m2") $(perl "$T/search.pl" "$third" "$m2"4)" \
	    "none none" "nor is what others asked for, or were told"
	kill -TERM "$PID"
	kill -TERM "$PID"
	sleep 0.5
	kill -TERM "$PID" 2>"$T/null"
	wait "$PID"
	exec 3>&-
else
	root_does "memory of brokers" "this user cannot look at it"
fi

# --- brokers in stock ---
stock() { pgrep -P "$PID" -x cyberos-ready | tr '\n' ' '; }
# stocked N: so many are there
stocked() {
	t_tries=0
	while [ "$(stock | wc -w)" -ne "$1" ]; do
		t_tries=$((t_tries + 1))
		[ "$t_tries" -lt 300 ] || return 1
		sleep 0.1
	done
}
begin
stocked 2
ok $? "two brokers are ready before anything is asked for"
one=$(stock)
ended() { for pid in $(stock); do ps -o stat= --ppid "$pid"; done | grep -c Z; }
t_tries=0
while [ "$(ended)" -ne 0 ] && [ $t_tries -lt 100 ]; do
	t_tries=$((t_tries + 1))
	sleep 0.1
done
is "$(ended)" 0 "and have reaped who helped them with that"
is "$("$CYBEROS" skill broker status --store "$STORE" --json | jq ".invocations | length")" 0 \
    "which are no invocations"
ask '{"op":"run","id":1,"skill":"hello","args":["a"],"output":true}'
ask '{"op":"run","id":2,"skill":"hello","args":["b"],"output":true}'
ask '{"op":"run","id":3,"skill":"hello","args":["c"],"output":true}'
until_count 3 '.event == "completed"'
is "$(events '.event == "output" and .stream == "stdout"' '[.id, .text]' | sort | tr '\n' ' ')" \
    '[1,"hi a\n"] [2,"hi b\n"] [3,"hi c\n"] ' "each does what it was asked for"
known=0
for pid in $(events '.event == "started"' .pid); do
	case " $one " in *" $pid "*) known=$((known + 1)) ;; esac
done
is "$known" 2 "those that were ready, then another"
stocked 2
ok $? "there are two again"
if is_root; then
	# Its init has what is the same for every skill.
	for pid in $(stock); do
		init=$(pgrep -P "$pid" -x cyberos-init)
		printf '%s ' "$(ls -m "/proc/$init/root")" \
		    "$(ls -A "/proc/$init/root/skill" "/proc/$init/root/tmp" | wc -w)"
		awk '$5 !~ "^/(usr|bin|sbin|lib.*|etc/.*|dev/.*|proc.*|)$" { print $5 }' \
		    "/proc/$init/mountinfo"
		find "/proc/$init/fd" -lname '/*' ! -lname '/run/cyberos/uids' \
		    ! -lname '/dev/null' -printf '%l '
	done >"$T/found" 2>&1
	# The memory that a job comes in: the newer has not got the older one's.
	is "$(for pid in $(stock); do
		perl -ne '/^(\w+)-(\w+) rw-s/ && hex($2) - hex($1) >= 8 << 20 and $n++;
		    END { print $n + 0, " " }' "/proc/$pid/maps"
	done)" "1 1 " "each has room for its own job and for no other"
	unlike "$(cat "$T/found")" 'home|root|var|seg|memories' \
	    "a sandbox in stock has nothing of the host but what every skill sees"
	like "$(cat "$T/found")" 'skill, .*tmp, usr' "and has that"
fi
for pid in $(stock); do
	kill -KILL "$pid"
done
until_count 3 '.event == "completed"'
ask '{"op":"run","id":4,"skill":"hello","args":["d"],"output":true}'
until_count 4 '.event == "completed"'
is "$(events '.event == "completed" and .id == 4' .outcome)" '"success"' \
    "one that was killed is nobody's broker"
stocked 2
ok $? "and is made up for"
last=$(stock)
finish
is "$RC $(for pid in $last; do [ -e "/proc/$pid" ] && echo "$pid"; done)" "0 " \
    "the end: none is left"
nothing_left "brokers in stock"

# --- the supervisor dies ---
begin
for n in 1 2 3; do
	ask '{"op":"run","id":'"$n"',"skill":"deaf"}'
done
until_count 3 '.event == "started"'
stocked 2
family=$(pgrep -P "$PID" -d ' ')
for pid in $(stock); do
	family="$family $(pgrep -P "$pid" -d ' ')"
done
brokers=$(events '.event == "started"' .pid | tr '\n' ' ')
inits=$(for b in $brokers; do pgrep -P "$b"; done | tr '\n' ' ')
kill -KILL "$PID"
wait "$PID" 2>"$T/null"
exec 3>&-
# alive PID...: those that are, zombies being none
alive() {
	for t_pid in "$@"; do
		case $(sed 's/.*) //; s/ .*//' "/proc/$t_pid/stat" \
		    2>"$T/null") in
		'' | Z | X) ;;
		*) echo "$t_pid" ;;
		esac
	done
}
n=0
# shellcheck disable=SC2086 # lists of numbers
while left=$(alive $brokers $inits $family) && [ -n "$left" ] &&
    [ "$n" -lt 100 ]; do
	sleep 0.05
	n=$((n + 1))
done
is "$left" '' "SIGKILL of the supervisor: no broker, init, skill or clerk lives"
echo '{"op":"run","skill":"hello"}' >"$T/req"
supervise <"$T/req"
is "$RC" 0 "the next one works"
is "$(grep -c 'recovery closed the books of' "$T/err")" 3 \
    "and closes the books of the one before"
nothing_left "the supervisor died"
verify_store "the ledger holds after that"

# --- the command line ---
for options in "--max 0" "--max x" "--max 10001" "--nope" "extra" \
    "--connect-timeout -1" "--sandbox maybe"; do
	# shellcheck disable=SC2086
	"$CYBEROS" skill broker supervise $options </dev/null >"$T/out" 2>"$T/err"
	is "$? $(wc -c <"$T/out" | tr -d ' ')" "2 0" "usage: $options"
done
printf 'nonsense: 1\n' >"$T/bad.yaml"
supervise --config "$T/bad.yaml" </dev/null
is "$RC" 3 "configuration: exit 3"
supervise <&-
is "$RC $(wc -c <"$T/out" | tr -d ' ')" '1 0' "standard input is closed: that is an error"
# shellcheck disable=SC2086 # options
"$CYBEROS" skill broker supervise $base >&- 2>"$T/err" </dev/null
is "$? $(grep -c 'standard output' "$T/err")" '1 1' "so is standard output"
supervise <"$T"
is "$RC $(grep -c 'cannot be read' "$T/err")" '1 1' "a standard input that cannot be read is told of"
# shellcheck disable=SC3045 # dash and bash have it
(ulimit -n 200; supervise --max 100 </dev/null; exit "$RC")
is "$?" 1 "--max beyond the hard limit of descriptors is said at once"
done_testing
