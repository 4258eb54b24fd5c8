#!/bin/sh
# The operator's ceilings: whatever SKILL.md says, no skill has more.
# shellcheck source=t/lib.sh
. t/lib.sh
# shellcheck source=t/live.sh
. t/live.sh

D=$T/d
mkdir -p "$D/a" "$D/b"
printf in >"$D/a/f"
printf 'MARKER' >"$D/b/f"
mkdir -m 700 "$STORE"
mkdir -p "$STORE/memories/a" "$STORE/memories/b"
printf in >"$STORE/memories/a/m"
printf MARKER >"$STORE/memories/b/m"

GRANT='allowed_tools: [Read, Write, MemoryRead, MemoryEmit]'
FILES="x-allowed-files: [\"$D/a/**\", \"$D/b/**\"]"
SCOPES='allowed_memory_scopes: ["memories/a/**", "memories/b/**"]'
CALLS="Read {\"path\":\"$D/a/f\"}
Read {\"path\":\"$D/b/f\"}
Read {\"path\":\"$D/b/none\"}
Write {\"path\":\"$D/a/new\",\"body\":\"x\"}
Write {\"path\":\"$D/b/new\",\"body\":\"x\"}
MemoryRead {\"path\":\"memories/a/m\"}
MemoryRead {\"path\":\"memories/b/m\"}
MemoryRead {\"path\":\"memories/b/none\"}
MemoryEmit {\"kind\":\"a.b\",\"path\":\"memories/a/new\",\"body\":\"x\"}
MemoryEmit {\"kind\":\"a.b\",\"path\":\"memories/b/new\",\"body\":\"x\"}
Read {\"path\":\"$D/c\"}
MemoryRead {\"path\":\"memories/c\"}"

# under YAML...: the calls under this configuration
under() {
	printf '%s\n' "$@" >"$T/ceiling.yaml"
	rm -rf "$D/a/new" "$D/b/new" "$STORE/memories/a/new" \
	    "$STORE/memories/b/new"
	skill wire "$GRANT" "$FILES" "$SCOPES" <"$WIRE/main"
	lines "$CALLS"
	printf 'send 1 {"jsonrpc":"2.0","id":99,"method":"tool.list"}\nrecv 1\n' \
	    >>"$T/commands"
	broker_run --config "$T/ceiling.yaml" wire <"$T/commands"
}
# these NUMBERS: what these calls were answered, each kind once
these() {
	for i in $1; do
		said "$i"
	done | sort -u
}
OWN="-32603 file_violation file_violation
-32603 scope_violation scope_violation"

under 'min_free_mb: 0'
is "$(these '1 2 4 5 6 7 9 10')" ok "without a ceiling SKILL.md decides"
is "$(these '3 8')" "-32000 not_found -" "what is absent is not_found"
is "$(these '11 12')" "$OWN" "what SKILL.md does not grant has its own reason"

under 'ceiling:' '  tools: [Read, MemoryRead]'
is "$(these '4 5 9 10')" "-32603 tool_not_allowed ceiling" \
    "a tool above the ceiling is refused with reason ceiling"
is "$(these '1 2 6 7')" ok "those below it work"
[ ! -e "$D/a/new" ] && [ ! -e "$STORE/memories/a/new" ]
ok $? "nothing was written"
is "$(rows skill.tool_denied '| select(.reason == "ceiling") | .tool_name' | tr -d '"' | tr '\n' ' ')" \
    "Write Write MemoryEmit MemoryEmit " "with a row for each"
is "$(answer 13 '[.result.tools[].name] | join(" ")')" "Read MemoryRead" \
    "tool.list shows what is left"

under 'ceiling:' "  files: [\"$D/a/**\"]"
is "$(these '2 3 5')" "-32603 file_violation ceiling" \
    "a file above the ceiling is refused with reason ceiling"
is "$(these '1 4 6 7 9 10')" ok "those below it work"
is "$(these '11')" "-32603 file_violation file_violation" \
    "SKILL.md is asked first"
[ -e "$D/a/new" ] && [ ! -e "$D/b/new" ]
ok $? "what is written lies below the ceiling"
unlike "$(sed -n 2p "$T/out")" MARKER "nothing of the file is told"
is "$(answer 2 'del(.id) | tostring')" "$(answer 3 'del(.id) | tostring')" \
    "nor whether it exists"
is "$(rows skill.tool_denied '| select(.reason == "ceiling") | .violation' | tr -d '"' | tr '\n' ' ')" \
    "$D/b/f $D/b/none $D/b/new " "with a row for each"

under 'ceiling:' '  memory_scopes: ["memories/a/**"]'
is "$(these '7 8 10')" "-32603 scope_violation ceiling" \
    "memory above the ceiling is refused with reason ceiling"
is "$(these '1 2 4 5 6 9')" ok "that below it works"
is "$(these '12')" "-32603 scope_violation scope_violation" \
    "SKILL.md is asked first"
[ -e "$STORE/memories/a/new" ] && [ ! -e "$STORE/memories/b/new" ]
ok $? "what is emitted lies below the ceiling"
is "$(answer 7 'del(.id) | tostring')" "$(answer 8 'del(.id) | tostring')" \
    "nor is told whether something exists"
is "$(rows skill.tool_denied '| select(.reason == "ceiling") | .violation' | tr -d '"' | tr '\n' ' ')" \
    "memories/b/m memories/b/none memories/b/new " "with a row for each"

under 'ceiling:' '  tools: []' '  files: []' '  memory_scopes: []'
is "$(these '1 2 3 4 5 6 7 8 9 10 11 12')" "-32603 tool_not_allowed ceiling" \
    "empty lists leave nothing"
is "$(answer 13 '.result.tools | length')" 0 "and tool.list is empty"
under 'ceiling:' '  files: []' '  memory_scopes: []'
is "$(these '1 2 3 4 5 6 7 8 9 10')" \
    "-32603 file_violation ceiling
-32603 scope_violation ceiling" "empty lists of files and scopes too"
is "$(find "$D" "$STORE/memories" -name new)" "" "nothing was made"

under 'ceiling:' '  tools: [Bash, HttpFetch]' '  files: ["/nowhere/**"]'
is "$(these '1 2 3 4 5 6 7 8 9 10')" "-32603 tool_not_allowed ceiling" \
    "a ceiling does not grant what SKILL.md does not ask for"
under 'ceiling:' '  files: ["/**"]' '  tools: [Read, Write]' \
    '  memory_scopes: ["**"]'
is "$(these '1 2 4 5')" ok "a wide ceiling takes nothing away"
is "$(these '11')" "-32603 file_violation file_violation" "and gives nothing"
# The denylist and a ceiling: the skill's own list speaks first.
skill wire "$GRANT" 'disallowed_tools: [Write]' "$FILES" "$SCOPES" <"$WIRE/main"
broker_run --config "$T/ceiling.yaml" wire <"$T/commands"
is "$(these '4 5')" "-32603 tool_not_allowed tool_in_disallowed_tools" \
    "the denylist speaks before the ceiling"

# links are judged by where they lead, under a ceiling too
ln -s "$D/b/f" "$D/a/link"
printf 'ceiling:\n  files: ["%s/a/**"]\n' "$D" >"$T/ceiling.yaml"
skill wire "$GRANT" "$FILES" "$SCOPES" <"$WIRE/main"
lines "Read {\"path\":\"$D/a/link\"}
Read {\"path\":\"$D/a/../b/f\"}"
broker_run --config "$T/ceiling.yaml" wire <"$T/commands"
is "$(these '1 2')" "-32603 file_violation ceiling" \
    "a link below the ceiling to a file above it is refused"

# what is no ceiling is no run
for bad in 'ceiling: {files: ["relative/**"]}' \
    'ceiling: {file: []}' 'ceiling: [Read]' 'ceiling: {memory_scopes: ["a**"]}' \
    'ceiling: {tools: }'; do
	printf '%s\n' "$bad" >"$T/ceiling.yaml"
	broker_run --config "$T/ceiling.yaml" wire <"$T/commands"
	is "$RC" 125 "a configuration error stops everything: $bad"
done
broker_run --config "$T/none.yaml" wire <"$T/commands"
is "$RC" 125 "so does a file that is not there"

# The system's file and the user's: both must allow.
if can_mount; then
	mkdir "$T/etc"
	cp -R /etc/passwd /etc/group /etc/ld.so* "$T/etc/"
	[ ! -d /etc/alternatives ] || cp -R /etc/alternatives "$T/etc/"
	mkdir "$T/etc/cyberos"
	printf 'ceiling:\n  tools: [Read, Write]\n  files: ["%s/a/**"]\nmax_write_mb: 1\n' \
	    "$D" >"$T/etc/cyberos/broker.yaml"
	printf 'ceiling:\n  tools: [Read, MemoryRead]\n  files: ["%s/b/**", "%s/a/f"]\n' \
	    "$D" "$D" >"$T/user.yaml"
	skill wire "$GRANT" "$FILES" "$SCOPES" <"$WIRE/main"
	lines "$CALLS"
	# shellcheck disable=SC2016 # for the shell in the namespace
	mounted 'mount --bind "$T/etc" /etc' true --config "$T/user.yaml"
	is "$(these '1')" ok "what both the system's and the user's ceiling allow"
	is "$(these '4 5 6 7 8 9 10')" "-32603 tool_not_allowed ceiling" \
	    "a tool that one of them leaves out is refused"
	is "$(these '2 3')" "-32603 file_violation ceiling" \
	    "and a file that one of them leaves out"
	printf 'max_write_mb: 2\n' >"$T/user.yaml"
	# shellcheck disable=SC2016
	mounted 'mount --bind "$T/etc" /etc' true --config "$T/user.yaml"
	is "$RC" 125 "the user's file cannot widen what the system's has set"
fi

# --- max_invocations: one more is refused, and has its row ---
echo 'max_invocations: 1' >"$T/one.yaml"
printf '#!/bin/sh\ntouch /tmp/up; exec sleep 20\n' | skill waits
"$CYBEROS" skill broker run --store "$STORE" --connect-timeout 0 \
    "$T/skills/waits" >/dev/null 2>&1 </dev/null &
waits=$!
tries=0
until [ "$("$CYBEROS" skill broker status --store "$STORE" |
    jq .active_invocations)" = 1 ] || [ $tries -gt 100 ]; do
	sleep 0.1
	tries=$((tries + 1))
done
printf '#!/bin/sh\necho ran\n' | skill second
broker_run --config "$T/one.yaml" second
is "$RC $(result outcome) $OUT" '5 refused ' 'max_invocations: one too many is refused'
is "$(result error_message)" 'max_invocations are running already' 'and told why'
is "$(segment | jq -r .kind)" skill.invoked_completed 'and has the one row of a refusal'
broker_run second
is "$RC $OUT" '0 ran' 'without the bound it runs beside the other'
kill "$waits"
wait "$waits" 2>/dev/null
broker_run --config "$T/one.yaml" second
is "$RC $OUT" '0 ran' 'and within the bound when the other has ended'

done_testing
