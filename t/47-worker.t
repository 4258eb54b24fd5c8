#!/bin/sh
# The file worker: what it holds, and that its death or sleep costs nobody more
# than the call it had.
# shellcheck source=t/lib.sh
. t/lib.sh
# shellcheck source=t/live.sh
. t/live.sh

D=$T/d
mkdir -p "$D/ok" "$D/out"
OK="x-allowed-files: [\"$D/ok/**\"]"
GRANT='allowed_tools: [Read, Write, Edit, MemoryEmit]'
SCOPE='allowed_memory_scopes: ["memories/**"]'

# ask CONN ID TOOL ARGS: send a call; hear CONN ID: wait for its answer
ask() {
	live_say "send $1 {\"jsonrpc\":\"2.0\",\"id\":$2,\"method\":\"tool.call\",\"params\":{\"tool\":\"$3\",\"args\":$4}}"
}
hear() {
	live_say "recv $1 60000"
	live_wait "\"id\":$2}" || note "no answer $2"
}
# heard ID: how it was answered, in short
heard() {
	grep "\"id\":$1}" "$T/live.out" | sed 's/^[0-9]* //' |
	    jq -r 'if .error then "\(.error.code) \(.error.message)" else "ok" end'
}
status() { live_say "send $1 {\"jsonrpc\":\"2.0\",\"id\":$2,\"method\":\"broker.status\"}"; }
write() { printf '{"path":"%s","body":"%s"%s}' "$D/ok/$1" "$2" "${3:+,\"mode\":\"$3\"}"; }

skill wire "$GRANT" "$OK" "$SCOPE" <"$WIRE/main"
live_start wire
live_say "open 1"
live_say "open 2"
ask 1 1 Read "{\"path\":\"$D/ok/none\"}"
hear 1 1
is "$(live_child cyberos-file)" "" "there is no worker before it is needed"
ask 1 2 Write "$(write f one)"
hear 1 2
worker=$(live_child cyberos-file)
like "$worker" '^[0-9]+$' "the first write starts one"
ask 1 3 Write "$(write f two)"
hear 1 3
is "$(live_child cyberos-file)" "$worker" "which is kept for the invocation"

# What it holds: three times /dev/null, its channel, the memory; no environment
if is_root; then
	is "$(find "/proc/$worker/fd" -mindepth 1 -printf '%f %l\n' | sort -n |
	    sed 's/\[[0-9]*\]//' | tr '\n' ' ')" \
	    "0 /dev/null 1 /dev/null 2 /dev/null 3 socket: 4 $STORE " \
	    "the worker holds no descriptor but its channel and the memory"
	is "$(tr -d '\0' <"/proc/$worker/environ" | wc -c)" 0 \
	    "and no environment"
else
	! ls "/proc/$worker/fd" >/dev/null 2>&1
	ok $? "a worker is not dumpable: its descriptors cannot be listed"
	! cat "/proc/$worker/environ" >/dev/null 2>&1
	ok $? "nor its environment be read"
fi
is "$(sed -n 's/^NoNewPrivs:[^0-9]*//p' "/proc/$worker/status")" 1 \
    "it can gain no rights"

# --- stopped: nobody else waits ---

kill -STOP "$worker"
ask 1 10 Write "$(write f three)"
status 2 11
hear 2 11
is "$(heard 11)" ok "a hung worker does not keep broker.status waiting"
is "$(heard 10)" "" "while its own call is still unanswered"
ask 2 12 Read "{\"path\":\"$D/ok/f\"}"
hear 2 12
is "$(grep '"id":12}' "$T/live.out" | sed 's/^2 //' | jq -r .result.body)" two \
    "a short read goes on, and sees the old file"
is "$(cat "$D/ok/f")" two "the file is the old one"
kill -CONT "$worker"
hear 1 10
is "$(heard 10) $(cat "$D/ok/f")" "ok three" "when it wakes up, the call is done"

# --- killed in mid-call ---

kill -STOP "$worker"
ask 1 20 Write "$(write f four)"
ask 1 21 Write "$(write g behind)"
status 2 22
hear 2 22
kill -KILL "$worker"
hear 1 20
is "$(heard 20)" "-32000 io_error" "SIGKILL in mid-call is io_error for this call"
is "$(cat "$D/ok/f")" three "the file is the old one"
hear 1 21
is "$(heard 21) $(cat "$D/ok/g")" "ok behind" "the call behind it is done by another"
ask 1 23 Write "$(write f five)"
hear 1 23
is "$(heard 23) $(cat "$D/ok/f")" "ok five" "and so is the next"
second=$(live_child cyberos-file)
[ -n "$second" ] && [ "$second" != "$worker" ]
ok $? "a fresh worker has taken over"

# --- killed while it has nothing to do ---

for i in 30 31 32 33 34; do
	idle=$(live_child cyberos-file)
	kill -KILL "$idle"
	until is_dead "$idle"; do
		sleep 0.01
	done
	ask 1 $i Write "$(write f "idle$i")"
	hear 1 $i
done
is "$(for i in 30 31 32 33 34; do heard $i; done | sort -u) $(cat "$D/ok/f")" \
    "ok idle34" "SIGKILL of an idle worker costs no call"
ask 1 35 Write "$(write f idle34)"
hear 1 35
is "$(live_child cyberos-file | wc -l)" 1 "there is one worker, and no dead ones"
pid=$(live_broker)
read -r children <"/proc/$pid/task/$pid/children"
is "$(for p in $children; do
	sed -n 's/^State:[^A-Z]*\(Z\).*/\1/p' "/proc/$p/status"
done)" "" "nor zombies"

# --- the end of the skill with a call in a worker that hangs ---

worker=$(live_child cyberos-file)
kill -STOP "$worker"
ask 1 40 Write "$(write f late)"
status 2 41
hear 2 41
live_end
is "$RC $(result outcome)" "0 success" "the skill's end does not wait for a worker"
is "$(cat "$D/ok/f")" idle34 "what was cancelled has not been done"
kill -0 "$worker" 2>/dev/null
is $? 1 "the worker is gone"
is "$(rows skill.tool_call_completed '| select(.outcome != "success") | .error_message' | tr '\n' ' ')" \
    '"not_found" "io_error" "cancelled" ' "every end is in the ledger with its word"
is "$(rows skill.tool_call_started '| .call' | sort -n | tr '\n' ' ')" \
    "$(rows skill.tool_call_completed '| .call' | sort -n | tr '\n' ' ')" \
    "each started call has its completed row"
is "$(find "$D" -name '*.tmp' | wc -l)" 0 "no temporary file is left"

# --- many large ones at once ---

head -c 900000 /dev/zero | tr '\0' L >"$T/large"
skill storm "$GRANT" "$OK" "$SCOPE" <t/skills/storm/main
{
	echo "48 16 8"
	for i in 1 2 3 4 5 6; do
		printf '{"tool":"Write","args":{"path":"%s","body":"%s"}}\n' \
		    "$D/ok/large$i" "$(cat "$T/large")"
	done
	printf '{"tool":"MemoryEmit","args":{"kind":"a.b","path":"memories/large","body":"%s"}}\n' \
	    "$(cat "$T/large")"
	printf '{"tool":"Edit","args":{"path":"%s","old":"L%s","new":"M"}}\n' \
	    "$D/ok/large1" "$(head -c 899999 "$T/large")"
} >"$T/in"
broker_run storm <"$T/in"
is "$RC" 0 "48 large calls, sixteen at once"
is "$(printf '%s\n' "$OUT" | sed -n 's/^\([0-9]*\) .*"error":{"code":\(-[0-9]*\),"message":"\([a-z_]*\)".*/\1 \2 \3/p')" \
    "" "none fails"
is "$(for i in 2 3 4 5 6; do cmp "$T/large" "$D/ok/large$i" 2>&1; done)" "" \
    "and every file is whole"
cmp -s "$T/large" "$STORE/memories/large"
ok $? "the memory file too"
is "$(count skill.tool_call_completed)" 48 "all are in the ledger"

# Killed again and again while it writes: whole files, answers for everything.
printf old >"$D/ok/churn"
{
	echo "60 4 1"
	printf '{"tool":"Write","args":{"path":"%s","body":"%s"}}\n' \
	    "$D/ok/churn" "$(cat "$T/large")"
} >"$T/in"
skill storm "$GRANT" "$OK" "$SCOPE" <t/skills/storm/main
live_start storm
(
	sleep 0.2
	while kill -0 "$LIVE" 2>/dev/null && [ ! -e "$T/enough" ]; do
		for w in $(live_child cyberos-file 2>/dev/null); do
			kill -KILL "$w" 2>/dev/null && echo killed >>"$T/kills"
		done
		sleep 0.02
	done
) 2>/dev/null &
killer=$!
cat "$T/in" >&6
live_wait '^done 60' 120
ok $? "60 writes are answered while workers are killed"
touch "$T/enough"
wait "$killer"
live_end
[ -s "$T/kills" ]
ok $? "workers were killed ($(wc -l <"$T/kills"))"
is "$RC $(result outcome)" "0 success" "the broker has lived through it"
is "$(sed -n 's/.*"message":"\([a-z_]*\)".*/\1/p' "$T/live.out" | sort -u | grep -v io_error)" \
    "" "calls were done or are io_error"
case $(wc -c <"$D/ok/churn") in
3 | 900000) ok 0 "the file is the old or the new one" ;;
*) ok 1 "the file is the old or the new one" ;;
esac
is "$(find "$D" -name '*.tmp' | wc -l)" 0 \
    "and the dead have left no temporary file"
is "$(count skill.tool_call_started)" "$(count skill.tool_call_completed)" \
    "each started call has its completed row"

# --- secrets (case A133) ---

M=SECRET-b2f1c0
printf '%s old' "$M" >"$D/ok/secret"
mkdir -p "$STORE/memories/n"
printf '%s' "$M" >"$STORE/memories/n/m"
calls "Write {\"path\":\"$D/ok/s\",\"body\":\"$M\"}
Write {\"path\":\"$D/ok/none/s\",\"body\":\"$M\"}
Write {\"path\":\"$D/out/s\",\"body\":\"$M\"}
Write {\"path\":\"$D/ok/s\",\"body\":\"$M\",\"encoding\":\"base64\"}
Read {\"path\":\"$D/ok/secret\"}
Edit {\"path\":\"$D/ok/secret\",\"old\":\"$M\",\"new\":\"$M-2\"}
Edit {\"path\":\"$D/ok/secret\",\"old\":\"$M\",\"new\":5}
MemoryRead {\"path\":\"memories/n/m\"}
Bash {\"cmd\":\"echo $M\",\"stdin\":\"$M\"}
MemorySearch {\"query\":\"$M\"}
Grep {\"pattern\":\"$M\"}
HttpFetch {\"url\":\"http://u:$M@localhost/?q=$M\",\"headers\":{\"Authorization\":\"$M\"}}
HttpPost {\"url\":\"http://localhost/\",\"body\":\"$M\"}
Read {\"path\":\"$D/ok/f\",\"$M\":1}" \
    'allowed_tools: [Read, Write, Edit, MemoryRead, Bash, MemorySearch, Grep, HttpFetch, HttpPost]' \
    "$OK" "$SCOPE"
is "$(printf '%s\n' "$OUT" | grep -c .)" 14 "case A133: calls with a secret in each"
is "$(said 1) $(answer 5 .result.body)" "ok $M old" "case A133: they do their work"
is "$(printf '%s\n' "$OUT" | grep -v '"result"' | grep -c "$M-2")" 0 \
    "case A133: errors do not repeat what was sent"
is "$(grep -rl "$M" "$STORE" | sed "s|^$STORE/||")" memories/n/m \
    "case A133: it is nowhere in the store but in the memory file itself"
unlike "$ERR$(cat "$T/result.json")" "$M" \
    "case A133: nor in the log or the result"
# The word of another kind of secret: the hash of short arguments can be keyed.
head -c 32 /dev/urandom >"$T/key"
chmod 600 "$T/key"
printf 'args_hash_key_file: %s\n' "$T/key" >"$T/keyed.yaml"
lines "Read {\"path\":\"$D/ok/f\"}
Read {\"path\":\"$D/out/f\"}"
broker_run --config "$T/keyed.yaml" wire <"$T/commands"
is "$(segment | grep -o '"[a-z_]*args_hash":"[a-z0-9-]*:' | sort | uniq -c | sed 's/^ *//')" \
    '2 "args_hash":"hmac-sha256:
1 "attempted_args_hash":"hmac-sha256:' "with a key, hashes of arguments are keyed"
unlike "$(segment)" "$(printf '{"path":"%s"}' "$D/ok/f" | sha256sum | cut -d ' ' -f 1)" \
    "and the plain one is not there"

done_testing
