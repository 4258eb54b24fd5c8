#!/bin/sh
# What the ledger says: every kind of row with its fields, pairs, hashes, what
# never gets into it. How it survives is in 61-durability.t.
# shellcheck source=t/lib.sh
. ./t/lib.sh

D=$T/d
mkdir -p "$D"
echo fine >"$D/a.txt"
notes() { # notes made by hand lie there before a skill asks for them
	mkdir -p "$STORE/memories/notes"
	chmod 700 "$STORE"
	printf 'a note\n' >"$STORE/memories/notes/n.md"
}
notes
FILES="x-allowed-files: [\"$D/**\"]"
SCOPES='allowed_memory_scopes: [memories/notes/**]'
TOOLS='allowed_tools: [Read, Write, MemoryRead, MemoryEmit]'

sum_of() { sha256sum | cut -d ' ' -f 1; } # of standard input
sha_of() { printf '%s' "$1" | sum_of; } # of a text
# host_rows KIND [JQ-FILTER]: payloads of anchors
host_rows() {
	cat "$STORE"/audit/*/host.jsonl |
	    jq -c "select(.kind == \"$1\") | .payload ${2:-}"
}

# --- every kind, with its fields in their order (SPEC 10, LEDGER.md)

SUBJECT='invocation_id skill_id trace_id'
fields() {
	case $1 in
	skill.invoked_started) echo "$SUBJECT version tenant_id" \
	    caller_persona request_id args_hash frontmatter_hash sandbox ;;
	skill.sandbox_attested) echo "$SUBJECT layers attempts" ;;
	skill.invoked_completed) echo "$SUBJECT version outcome duration_ms" \
	    exit_code signal calls denied rejected by error_message ;;
	skill.tool_call_started) echo "$SUBJECT tool_name args_hash" \
	    resource call ;;
	skill.tool_call_completed) echo "$SUBJECT tool_name call outcome" \
	    duration_ms result_hash error_message ;;
	skill.tool_denied) echo "$SUBJECT tool_name reason" \
	    attempted_args_hash violation ;;
	skill.timeout) echo "$SUBJECT elapsed_ms late_ms last_tool_call" ;;
	skill.no_connect) echo "$SUBJECT waited_ms" ;;
	skill.peer_refused) echo "$SUBJECT pid uid count" ;;
	note.taken) echo path content_hash trace_id skill_id invocation_id \
	    sync_class data ;;
	audit.day_opened) echo prev_day prev_head ;;
	audit.segment_opened) echo invocation_id file skill_id version \
	    frontmatter_hash durability append_only ;;
	audit.segment_closed) echo invocation_id reason parts rows bytes \
	    calls denied errors timeouts open_calls head torn_bytes \
	    torn_sha256 spooled duplicates lost ;;
	*) echo unknown kind ;;
	esac
}

in_skill "cyberos skill call Read path=$D/a.txt
cyberos skill call Read path=$D/none
cyberos skill call Read path=/etc/passwd
cyberos skill call MemoryEmit kind=note.taken path=memories/notes/e.md \
    payload='{\"b\":2,\"a\":1}' body=text
cyberos skill call Read
exit 0" "$TOOLS" "$SCOPES" "$FILES"
is "$RC" 0 'a skill that reads, is refused, fails and emits'
segment >"$T/rows"
is "$(jq -r .kind "$T/rows" | tr '\n' ' ')" \
    'skill.invoked_started skill.tool_call_started skill.tool_call_completed skill.tool_call_started skill.tool_call_completed skill.tool_denied skill.tool_call_started note.taken skill.tool_call_completed skill.invoked_completed ' \
    'its rows, in order'
is "$(jq -r .by "$T/rows" | sort | uniq -c | tr -s ' ' | tr -d '\n')" \
    ' 9 broker 1 skill' 'MemoryEmit'\''s row is the skill'\''s, all others the broker'\''s'
is "$(rows skill.invoked_completed \
    '| [.outcome, .exit_code, .signal, .calls, .denied, .rejected, .by]')" \
    '["success",0,null,4,1,1,"skill"]' 'the last row counts'
is "$(rows skill.tool_call_completed '| [.outcome, .error_message]' |
    sed 's/ E[A-Z]*//' | tr '\n' ' ')" \
    '["success",null] ["error","not_found"] ["success",null] ' \
    'a failure is a word of ours and an errno'
is "$(rows note.taken '| [.path, .data, .skill_id]')" \
    '["memories/notes/e.md",{"a":1,"b":2},"probe"]' 'what MemoryEmit asked for'
is "$(rows note.taken | jq -r .content_hash)" "$(sha_of text)" \
    'and the hash of its body'

printf '#!/bin/sh\ntrap "" TERM\nwhile :; do sleep 1; done\n' | skill deaf
broker_run --deadline 0.5 deaf
is "$RC" 124 'a skill that does not end'
segment >>"$T/rows"
is "$(rows skill.timeout '| [.last_tool_call, .elapsed_ms >= 500, .late_ms >= 0]')" \
    '[null,true,true]' 'its timeout'
broker_run --connect-timeout 0.2 deaf
is "$RC" 124 'a skill that does not connect'
segment >>"$T/rows"
is "$(rows skill.no_connect '| .waited_ms >= 200')" true 'its no_connect'

printf '#!/bin/sh\nexit 0\n' | skill ok
broker_run --attest ok
is "$RC" 0 'a skill whose sandbox is tried first'
segment >>"$T/rows"
is "$(segment | jq -r .kind | grep -n attested | cut -d : -f 1)" 1 \
    'what was found comes before the start'

# shellcheck source=t/live.sh
. ./t/live.sh
printf '#!/bin/sh\ncyberos skill call Read path=%s\necho up\nread x\nexit 0\n' \
    "$D/a.txt" | skill stays "$TOOLS" "$FILES"
ID=0a1b2c3d-0000-4000-8000-00000000abcd
live_start stays --invocation "$ID"
live_wait up
perl -MIO::Socket::UNIX -e '
    my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or exit 3;
    $s->recv(my $b, 1); exit(length($b) ? 4 : 0)' \
    "/tmp/cyberos-skill-broker.$ID.sock"
is "$?" 0 'a stranger is let in nowhere'
live_end
is "$RC" 0 'the skill does not notice'
segment >>"$T/rows"
is "$(rows skill.peer_refused '| [.uid, .count]')" "[$(id -u),1]" \
    'who it was is recorded'

cat "$STORE"/audit/*/host.jsonl >>"$T/rows"
jq -r '[.kind, (.payload | keys_unsorted | join(" "))] | join("|")' \
    "$T/rows" | sort -u >"$T/shapes"
while IFS='|' read -r kind names; do
	is "$names" "$(fields "$kind")" "$kind has its fields and no other"
done <"$T/shapes"
is "$(cut -d '|' -f 1 "$T/shapes" | wc -l | tr -d ' ')" 13 'thirteen kinds were seen'
is "$(jq -c 'select(.inv) | keys_unsorted' "$T/rows" | sort -u)" \
    '["v","inv","seq","ts","mono_ns","by","kind","payload","prev","hash"]' \
    'the form of a row'
is "$(jq -c 'select(.host) | keys_unsorted' "$T/rows" | sort -u)" \
    '["v","host","hseq","ts","mono_ns","by","kind","payload","prev","hash"]' \
    'the form of an anchor'
is "$(jq -r 'select(.ts | test("^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9][.][0-9]{6}Z$") | not) | .ts' "$T/rows")" \
    '' 'every time is UTC with microseconds'
is "$(jq -r 'select(.inv and .by == "broker") | .payload | select((.invocation_id and .trace_id) | not)' "$T/rows")" \
    '' 'every row of a segment has invocation and trace id'
verify_store

# --- acceptance

CALL='{"jsonrpc":"2.0","id":1,"method":"tool.call","params":'
PARENT=00-0123456789abcdef0123456789abcdef-0123456789abcdef-01
wire "open
send 1 $CALL{\"tool\":\"Read\",\"args\":{\"path\":\"$D/a.txt\"}}}
recv 1
send 1 $CALL{\"tool\":\"MemoryRead\",\"args\":{\"path\":\"memories/notes/n.md\"},\"traceparent\":\"$PARENT\"}}
recv 1" "$TOOLS" "$SCOPES" "$FILES"
is "$(rows skill.tool_call_started '| .call' | tr '\n' ' ')" '1 2 ' \
    'acceptance 14: one started per successful call'
is "$(rows skill.tool_call_completed '| [.call, .outcome]' | tr '\n' ' ')" \
    '[1,"success"] [2,"success"] ' 'acceptance 14: and one completed'
pairs() {
	segment | jq -c "select(.kind | startswith(\"skill.tool_call_\")) |
	    .payload | select(.call == $1) | [.invocation_id, .trace_id]" |
	    sort -u
}
inv=$(result invocation_id)
trace=$(rows skill.invoked_started '| .trace_id' | tr -d '"')
is "$(pairs 1)" "[\"$inv\",\"$trace\"]" \
    'acceptance 14: with the same invocation_id and trace_id'
is "$(pairs 2)" "[\"$inv\",\"0123456789abcdef0123456789abcdef\"]" \
    'acceptance 14: its own trace id where the call has one'
is "$(rows skill.tool_call_started '| select(.call == 2) | .invocation_trace_id')" \
    "\"$trace\"" 'the invocation'\''s beside it'
is "$(segment | grep -c 0123456789abcdef-01)" 0 'and no more of the header'
like "$OUT" '"result":\{"body":"fine' 'acceptance 14: the calls were answered'

printf 'secret\n' >"$T/outside.txt"
printf 'before\n' >"$T/target.txt"
mkdir -p "$STORE/memories/other"
printf 'other\n' >"$STORE/memories/other/o.md"
wire "open
send 1 $CALL{\"tool\":\"Bash\",\"args\":{\"cmd\":\"id\"}}}
recv 1
send 1 $CALL{\"tool\":\"Nonsense\",\"args\":{}}}
recv 1
send 1 $CALL{\"tool\":\"MemoryRead\",\"args\":{\"path\":\"memories/other/o.md\"}}}
recv 1
send 1 $CALL{\"tool\":\"Read\",\"args\":{\"path\":\"$T/outside.txt\"}}}
recv 1
send 1 $CALL{\"tool\":\"Write\",\"args\":{\"path\":\"$T/target.txt\",\"body\":\"after\"}}}
recv 1
send 1 $CALL{\"tool\":\"MemoryEmit\",\"args\":{\"kind\":\"a.b\",\"path\":\"memories/other/o.md\",\"body\":\"after\"}}}
recv 1" "$TOOLS" "$SCOPES" "$FILES" 'disallowed_tools: [MemoryEmit]'
is "$(rows skill.tool_denied '| [.tool_name, .reason, .violation]' |
    tr '\n' ' ')" \
    "[\"Bash\",\"tool_not_in_allowed_tools\",null] [\"Nonsense\",\"unknown_tool\",null] [\"MemoryRead\",\"scope_violation\",\"memories/other/o.md\"] [\"Read\",\"file_violation\",\"$T/outside.txt\"] [\"Write\",\"file_violation\",\"$T/target.txt\"] [\"MemoryEmit\",\"tool_in_disallowed_tools\",null] " \
    'acceptance 15: each violation has one denied row with its reason'
is "$(rows skill.tool_denied '| [.attempted_args_hash, .trace_id] | map(length)' |
    sort | uniq -c | tr -s ' ')" ' 6 [64,32]' \
    'acceptance 15: with attempted_args_hash and trace_id'
is "$(rows skill.tool_denied '| .attempted_args_hash' | head -n 1 | tr -d '"')" \
    "$(sha_of '{"cmd":"id"}')" 'acceptance 15: which is that of the arguments'
is "$(count skill.tool_call_started) $(count skill.tool_call_completed)" \
    '0 0' 'acceptance 15: nothing was started'
is "$(cat "$T/target.txt" "$STORE/memories/other/o.md")" 'before
other' 'acceptance 15: the world did not change'
unlike "$OUT" 'secret|"result"' 'acceptance 15: nothing was told'

wire "open
rep 1 2097152 a
recv 1
send 1 $CALL{\"tool\":\"Read\",\"args\":{\"path\":\"$D/a.txt\"}}}
recv 1" "$TOOLS" "$FILES"
is "$(printf '%s\n' "$OUT" | head -n 1 | grep -oE '"(id|message)":[^,}]*' |
    tr '\n' ' ')" '"message":"request_too_large" "id":null ' \
    'acceptance 16: a request of 2 MB is answered with request_too_large'
like "$OUT" '"result":\{"body":"fine' 'acceptance 16: the connection goes on'
is "$(rows skill.tool_denied '| [.tool_name, .reason, .attempted_args_hash]')" \
    "[null,\"request_too_large\",\"$(head -c 2097152 /dev/zero | tr '\0' a | sum_of)\"]" \
    'acceptance 16: one denied row, with the hash of the bytes'
is "$(count skill.tool_call_started)" 1 'acceptance 16: the good call alone ran'
is "$(result calls) $(result denied) $(result rejected)" '2 1 0' \
    'acceptance 16: it is counted as a call'

# --- hashes

in_skill "cyberos skill call MemoryEmit kind=a.b path=memories/notes/h.md \
    payload='{\"n\":[333333333.33333329,1E15,4.50,2e-3,0.000000000000000000000000001,-0],\"\\u20ac\":\"\\u20ac\$\\u000f\\u000aA'\\''\\u0042\\u0022\\u005c\\\\\\\"\\/\",\"l\":[null,true,false]}'" \
    "$TOOLS" "$SCOPES"
is "$(rows skill.tool_call_started '| .args_hash' | tr -d '"')" "$(sha_of \
    '{"kind":"a.b","path":"memories/notes/h.md","payload":{"l":[null,true,false],"n":[333333333.3333333,1000000000000000,4.5,0.002,1e-27,0],"€":"€$\u000f\nA'\''B\"\\\\\"/"}}')" \
    'args_hash is SHA-256 of the RFC 8785 form'
broker_run probe -- 'a b' '' '"é"'
is "$(rows skill.invoked_started '| .args_hash' | tr -d '"')" \
    "$(sha_of '["a b","","\"é\""]')" 'and that of the ARG array'
broker_run probe
is "$(rows skill.invoked_started '| .args_hash' | tr -d '"')" "$(sha_of '[]')" \
    'an empty one too'
wire "open
send 1 $CALL{\"tool\":\"Read\",\"args\":{\"path\":\"$D/a.txt\"}}}
recv 1" "$TOOLS" "$FILES"
printf '%s' "$OUT" | sed 's/^1 //' | jq -c .result | tr -d '\n' >"$T/r"
is "$(rows skill.tool_call_completed '| .result_hash' | tr -d '"')" \
    "$(sum_of <"$T/r")" 'result_hash is that of the bytes of the result'
is "$(rows skill.invoked_started '| .frontmatter_hash')" \
    "$(host_rows audit.segment_opened '| .frontmatter_hash' | tail -n 1)" \
    'the anchor names the same frontmatter'

printf '0123456789abcdef key' >"$T/key"
chmod 600 "$T/key"
printf 'args_hash_key_file: %s\n' "$T/key" >"$T/c.yaml"
hmac() { openssl dgst -sha256 -hmac '0123456789abcdef key' | sed 's/.*= *//'; }
printf '%s\n' open \
    "send 1 $CALL{\"tool\":\"Read\",\"args\":{\"path\":\"$D/a.txt\"}}}" \
    'recv 1' "send 1 $CALL{\"tool\":\"Bash\",\"args\":{\"cmd\":\"1234\"}}}" \
    'recv 1' 'rep 1 1048577 b' 'recv 1' >"$T/commands"
broker_run --config "$T/c.yaml" wire -- 1234 <"$T/commands"
is "$(rows skill.tool_call_started '| .args_hash' | tr -d '"')" \
    "hmac-sha256:$(printf '{"path":"%s"}' "$D/a.txt" | hmac)" \
    'with args_hash_key_file they are HMACs'
is "$(rows skill.tool_call_completed '| .result_hash' | tr -d '"')" \
    "hmac-sha256:$(hmac <"$T/r")" 'of results too'
is "$(rows skill.tool_denied '| .attempted_args_hash' | tr -d '"' |
    tr '\n' ' ')" "hmac-sha256:$(printf '{"cmd":"1234"}' | hmac) hmac-sha256:$(
	head -c 1048577 /dev/zero | tr '\0' b | hmac
) " 'and of what was refused'
is "$(rows skill.invoked_started '| .args_hash' | tr -d '"')" \
    "hmac-sha256:$(printf '["1234"]' | hmac)" 'and of the ARG array'
verify_store 'rows are chained by plain hashes all the same'
# no_key WHY: such a key file is no key, and nothing runs without one
no_key() {
	broker_run --config "$T/c.yaml" probe
	is "$RC $(result outcome)" '125 refused' "a key file $1 is refused"
}
chmod 644 "$T/key"
no_key 'that others can read'
printf short >"$T/key"
chmod 600 "$T/key"
no_key 'of a few bytes'
rm "$T/key"
no_key 'that is missing'
mkfifo -m 600 "$T/key"
no_key 'that is a pipe'
rm "$T/key"

# --- what is never told

printf 'audit_resources: false\n' >"$T/c.yaml"
printf '%s\n' open \
    "send 1 $CALL{\"tool\":\"Read\",\"args\":{\"path\":\"$D/a.txt\"}}}" \
    'recv 1' "send 1 $CALL{\"tool\":\"Read\",\"args\":{\"path\":\"/etc/passwd\"}}}" \
    'recv 1' >"$T/commands"
broker_run --config "$T/c.yaml" wire <"$T/commands"
is "$(rows skill.tool_call_started '| .resource') $(rows skill.tool_denied \
    '| .violation')" 'null null' 'audit_resources: false names nothing'
is "$(segment | grep -cE 'passwd|a\.txt')" 0 'in the whole segment'

M=MaRkEr1234567
printf '%s in a file\n' "$M" >"$D/marked.txt"
printf '%s in a note\n' "$M" >"$STORE/memories/notes/marked.md"
in_skill "call() { echo \"\$*\" >&2; cyberos skill call \"\$@\"; } 2>/dev/null
call Read path=$D/marked.txt
call MemoryRead path=memories/notes/marked.md
call Write path=$D/w.txt body=$M
call Write path=/etc/w.txt body=$M
call Bash cmd=$M stdin=$M
call HttpFetch url=http://$M@$M.example/$M?$M
call HttpPost url=http://a.example/ body=$M headers='{\"Authorization\":\"$M\"}'
call MemorySearch query=$M
call Read path=$D/a.txt $M=1
call Read path=$D/a.txt limit=$M" "$TOOLS" "$SCOPES" "$FILES"
is "$RC" 2 'a skill that handles secrets'
is "$(cat "$D/w.txt")" "$M" 'its work was done'
like "$OUT" "$M in a file" 'and answered'
broker_run --persona x probe -- "$M"
is "$(grep -rlF "$M" "$STORE/audit" "$STORE/run" "$T/result.json")" '' \
    'CASES 133: secrets are nowhere in the trail'
is "$(printf '%s\n' "$ERR" | grep -F 'cyberos[' | grep -cF "$M")" 0 \
    'CASES 133: nor in the log'
rm -f "$D/marked.txt" "$STORE/memories/notes/marked.md"

# --- names made to look like rows

FALSE='{\"kind\":\"skill.invoked_completed\"}'
wire "open
send 1 $CALL{\"tool\":\"Read\",\"args\":{\"path\":\"$D/x\\\\n$FALSE\"}}}
recv 1
send 1 $CALL{\"tool\":\"Read\",\"args\":{\"path\":\"/etc/x\\\\r\\\\n$FALSE\\\\u2028\"}}}
recv 1
send 1 $CALL{\"tool\":\"No\\\\n$FALSE\",\"args\":{}}}
recv 1
send 1 $CALL{\"tool\":\"MemoryRead\",\"args\":{\"path\":\"memories/x\\\\n$FALSE\"}}}
recv 1" "$TOOLS" "$FILES" "$SCOPES"
is "$(segment | wc -l | tr -d ' ') $(segment | jq -r .kind | sort |
    uniq -c | sort -rn | tr -s ' ' | head -n 1)" "$(segment | jq -s length) $(
	segment | jq -r .kind | sort | uniq -c | sort -rn | tr -s ' ' | head -n 1
)" 'CASES 131: a line is a row'
is "$(count skill.invoked_completed)" 1 'CASES 131: and none was made up'
is "$(rows skill.tool_denied '| select(.tool_name | startswith("No")) | .tool_name')" \
    "\"No\\n$FALSE\"" 'CASES 131: the break is in the text, escaped'
broker_run --persona "$(printf 'x\n{"kind":"y"}')" \
    --request-id "$(printf '\033[31m\r\n')" probe
is "$(rows skill.invoked_started '| [.caller_persona, .request_id]')" \
    '["x\n{\"kind\":\"y\"}","\u001b[31m\r"]' 'the caller'\''s texts as well'
verify_store

# --- long texts

# cut TEXT-OF-ARGUMENT EXPECTED-TEXT NAME: what a refused tool's name becomes
cut_name() {
	wire "open
send 1 $CALL{\"tool\":\"$1\",\"args\":{}}}
recv 1"
	is "$(rows skill.tool_denied '| .tool_name' | wc -c | tr -d ' ')" "$2" "$4"
	is "$(rows skill.tool_denied '| .tool_name_sha256')" "$3" "$4: its hash"
}
a1024=$(head -c 1024 /dev/zero | tr '\0' a)
cut_name "$a1024" 1027 null '1,024 bytes are kept'
cut_name "${a1024}b" 1027 "\"$(sha_of "${a1024}b")\"" 'one more is cut'
long=$(head -c 30000 /dev/zero | tr '\0' c)
cut_name "$long" 1027 "\"$(sha_of "$long")\"" 'so are 30,000'
control=$(head -c 600 /dev/zero | sed 's/\x0/\\\\u0001/g')
wire "open
send 1 $CALL{\"tool\":\"$control\",\"args\":{}}}
recv 1"
segment | grep -oE '"tool_name":"[^"]*"' >"$T/name"
is "$(expr "$(wc -c <"$T/name")" - 15 '<=' 1024)" 1 \
    'what counts is the length of the escaped text'
is "$(rows skill.tool_denied '| .tool_name_sha256' | tr -d '"')" \
    "$(head -c 600 /dev/zero | tr '\0' '\001' | sum_of)" 'the hash is of all of it'
euro=$(printf '€%.0s' $(seq 400))
broker_run --persona "$euro" probe
rows skill.invoked_started '| .caller_persona' | tr -d '"\n' >"$T/name"
is "$(wc -c <"$T/name" | tr -d ' ') $(iconv -f UTF-8 -t UTF-8 "$T/name" |
    tail -c 3)" '1023 €' 'no character is cut in two'
is "$(rows skill.invoked_started '| .caller_persona_sha256' | tr -d '"')" \
    "$(sha_of "$euro")" 'its hash'
deep=$D/$(printf 'd%.0s' $(seq 200))/$(printf 'é%.0s' $(seq 100))
deep=$deep/$deep/$deep/$deep
in_skill "cyberos skill call Read path='$deep'
cyberos skill call Read path='/x/$deep'" "$TOOLS" "$FILES"
is "$(rows skill.tool_denied '| [(.violation | utf8bytelength) <= 1024, (.violation_sha256 | length)]')" \
    '[true,64]' 'long paths too'
verify_store

# --- invocations that never start

# refused_run STATUS NAME [OPTIONS] SKILL: one row, and no skill ran
refused_run() {
	want=$1 name=$2
	shift 2
	broker_run "$@"
	is "$RC $(result outcome)" "$want refused" "$name: exit $want"
	is "$(segment | jq -c '[.seq, .kind, .payload.outcome, .payload.by]')" \
	    '[1,"skill.invoked_completed","refused","supervisor"]' \
	    "$name: one row, and that says refused"
	is "$(rows skill.invoked_completed '| [.calls, .duration_ms, .exit_code, (.error_message | length > 5)]')" \
	    '[0,0,null,true]' "$name: and why"
	[ -e "$D/ran" ] && note 'the skill ran' && RC=ran
	is "$RC" "$want" "$name: the skill did not run"
}
ran() { printf '#!/bin/sh\nexit 9\n'; }
ran | skill bad 'effort_minutes: 0'
refused_run 6 'an invalid SKILL.md' bad
is "$(rows skill.invoked_completed '| [.skill_id, .version]')" '[null,null]' \
    'what is not known is null'
refused_run 127 'no such skill' nowhere
mkdir "$T/skills/empty"
refused_run 127 'no SKILL.md' empty
ran | skill plain
chmod 644 "$T/skills/plain/main"
refused_run 126 'main that is not executable' plain
is "$(rows skill.invoked_completed '| [.skill_id, .version]')" \
    '["plain","1.0.0"]' 'what is known is there'
rm "$T/skills/plain/main"
refused_run 126 'no main' plain
ran | skill named
mv "$T/skills/named" "$T/skills/alias"
refused_run 6 'an id that is not the directory'\''s' alias
ran | skill pinned 'tenant_scope: pinned'
refused_run 5 'pinned, without .tenant' pinned
ran | skill signed 'signature:' '  algo: ed25519'
refused_run 6 'a signature that does not hold' signed
: >"$T/skills/blocked"
ran | skill open
mkdir "$T/sockets"
: >"$T/sockets/cyberos-skill-broker.$ID.sock"
ID2=0a1b2c3d-0000-4000-8000-00000000abce
: >"$T/sockets/cyberos-skill-broker.$ID2.sock"
refused_run 125 'a socket that is there already' --socket-dir "$T/sockets" \
    --invocation "$ID2" open
verify_store

# --- ids

printf '#!/bin/sh\nexit 0\n' | skill ok
ID3=0a1b2c3d-0000-4000-8000-00000000abcf
broker_run --invocation "$ID3" ok
is "$RC" 0 'an id of the caller'\''s'
kept=$(segment | sum_of)
anchors=$(cat "$STORE"/audit/*/host.jsonl | wc -l)
broker_run --invocation "$ID3" ok
is "$RC" 125 'cannot be used twice in a store'
like "$ERR" 'has been used' 'it says so'
is "$(cat "$STORE"/audit/*/seg/*/"$ID3".p*.jsonl | sum_of)" "$kept" \
    'the first segment is as it was'
is "$(cat "$STORE"/audit/*/host.jsonl | wc -l)" "$anchors" 'so are the anchors'
broker_run --invocation "$ID2" open
is "$RC" 125 'one that was refused is used too'
day=$(basename "$STORE"/audit/*-*-*)
yesterday=$(date -u -d "$day - 1 day" +%F)
before=$(date -u -d "$day - 2 days" +%F)
ID4=0a1b2c3d-0000-4000-8000-00000000abd0
ID5=0a1b2c3d-0000-4000-8000-00000000abd1
mkdir -p "$STORE/audit/$yesterday/seg/0a" "$STORE/audit/$before/seg/0a"
: >"$STORE/audit/$yesterday/seg/0a/$ID4.p1.jsonl"
: >"$STORE/audit/$before/seg/0a/$ID5.p1.jsonl"
broker_run --invocation "$ID4" ok
is "$RC" 125 'nor one of the day before'
broker_run --invocation "$ID5" ok
is "$RC" 0 'older ones are free'
rm -r "$STORE/audit/$yesterday" "$STORE/audit/$before"
broker_run --store "$T/second" --invocation "$ID3" ok
is "$RC" 0 'in another store too'
verify_store

# --- many at once

skill storm "$TOOLS" "$SCOPES" <t/skills/storm/main
cat >"$T/round" <<EOT
200 8 4
{"tool":"MemoryRead","args":{"path":"memories/notes/n.md"}}
{"tool":"Read","args":{"path":"/etc/passwd"}}
{"tool":"MemoryRead","args":{"path":"memories/notes/none.md"}}
{"tool":"MemoryRead","args":{"path":"memories/notes/n.md"}}
EOT
sed '1s/200 8/8 2/' "$T/round" >"$T/small"

# The checker itself sees what it is there for.
rm -rf "$STORE"
notes
broker_run storm <"$T/small"
broker_run storm <"$T/small"
verify_store 'a small ledger holds'
file=$(find "$STORE/audit" -name '*.p1.jsonl' | head -n 1)
host=$(find "$STORE/audit" -name host.jsonl)
last=\$d # what sed calls the last line
# seen NAME FILE SED-SCRIPT
seen() {
	cp "$2" "$T/saved"
	sed -i "$3" "$2"
	perl t/verify.pl "$STORE" >"$T/said"
	t_seen=$?
	cmp -s "$2" "$T/saved" && t_seen=unchanged
	is "$t_seen" 6 "$1 would be seen"
	cp "$T/saved" "$2"
}
seen 'a changed row' "$file" '5s/"call":[0-9]*/"call":99/'
seen 'a row taken out' "$file" '5d'
seen 'rows exchanged' "$file" '5{h;d};6G'
seen 'a row doubled' "$file" '5p'
seen 'the last row gone' "$file" "$last"
seen 'the first row gone' "$file" '1d'
seen 'all rows gone' "$file" d
seen 'an anchor taken out' "$host" '3d'
seen 'the last anchor gone' "$host" "$last"
seen 'a changed anchor' "$host" '2s/"append_only":false/"append_only":true/'
mv "$file" "$T/saved"
perl t/verify.pl "$STORE" >"$T/said"
is "$?" 6 'a segment taken away would be seen'
cp "$T/saved" "$file"
cp "$file" "${file%1.jsonl}2.jsonl"
perl t/verify.pl "$STORE" >"$T/said"
is "$?" 6 'a segment without an anchor would be seen'
rm "${file%1.jsonl}2.jsonl"
verify_store 'put right, it holds again'

# CASES 125.
STORM=${STORM:-2000}
sed "1s/200 /$STORM /" "$T/round" >"$T/storm"
i=0
rm -rf "$STORE"
notes
while [ "$i" -lt 16 ]; do
	i=$((i + 1))
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --result "$T/r.$i" storm <"$T/storm" >"$T/o.$i" 2>"$T/e.$i" &
done
wait
is "$(jq -c '[.outcome, .calls, .denied, .rejected]' "$T"/r.* | sort |
    uniq -c | tr -s ' ')" " 16 [\"success\",$STORM,$((STORM / 4)),0]" \
    "CASES 125: 16 brokers, $STORM calls each"
is "$(cat "$T"/e.*)" '' 'CASES 125: without a word'
verify_store 'CASES 125: the ledger holds'
is "$(cat "$STORE"/audit/*/seg/*/* | jq -c '[.kind, .payload.outcome]' | 
    tr -d '"' | LC_ALL=C sort | uniq -c | tr -s ' ')" " 16 [skill.invoked_completed,success]
 16 [skill.invoked_started,null]
 $((4 * STORM)) [skill.tool_call_completed,error]
 $((8 * STORM)) [skill.tool_call_completed,success]
 $((12 * STORM)) [skill.tool_call_started,null]
 $((4 * STORM)) [skill.tool_denied,null]" 'CASES 125: no row more, no row less'
is "$(cat "$STORE"/audit/*/host.jsonl | jq -r .hseq | tr '\n' ' ')" \
    "$(seq 33 | tr '\n' ' ')" 'CASES 125: one day and 32 anchors in turn'

done_testing
