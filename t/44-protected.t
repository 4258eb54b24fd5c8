#!/bin/sh
# Places that no glob opens: store, configuration, the result, /proc and its
# like, sockets; and those that can be read at most.
# shellcheck source=t/lib.sh
. t/lib.sh
# shellcheck source=t/live.sh
. t/live.sh

D=$T/d
mkdir -p "$D/ok"
P="-32603 file_violation protected"
GRANT='allowed_tools: [Read, Write, Edit]'
ALL='x-allowed-files: ["/**", "/**/.ssh/**", "/**/.git/**"]'

# all PATH: a Read, a Write of each kind and an Edit of it
all() {
	printf 'Read {"path":"%s"}\n' "$1"
	for mode in create overwrite append; do
		printf 'Write {"path":"%s","body":"SPOILT","mode":"%s"}\n' \
		    "$1" "$mode"
	done
	printf 'Edit {"path":"%s","old":"a","new":"SPOILT","all":true}\n' "$1"
}
# only_protected N NAME: all N answers of the last run are the same refusal
only_protected() {
	is "$(sed 's/^1 //' "$T/out" | jq -r '"\(.error.code) \(.error.message) \(.error.data.reason)"' | sort | uniq -c | sed 's/^ *//')" \
	    "$1 $P" "$2"
	is "$(count skill.tool_denied) $(count skill.tool_call_started)" "$1 0" \
	    "$2: a row for each, nothing started"
	unlike "$OUT" 'MARKER|root:|PATH=' "$2: nothing of it is told"
}
# safe: nothing in the test's directory was written to
safe() {
	is "$(grep -rl SPOILT "$T" --include='*' 2>/dev/null |
	    grep -v -e "^$T/commands$" -e "^$T/skills/")" "" "$1"
}

printf fine >"$D/ok/f"
calls "Read {\"path\":\"$D/ok/f\"}
Write {\"path\":\"$D/ok/g\",\"body\":\"x\"}" "$GRANT" "$ALL"
is "$(said 1) $(said 2)" "ok ok" "with /** the rest of the host is granted"

# --- the store and everything .cyberos ---

mkdir -p "$STORE/memories" "$D/ok/.cyberos/x" "$D/ok/.CyberOS"
printf MARKER | tee "$STORE/memories/m" "$D/ok/.cyberos/x/f" >"$D/ok/.CyberOS/f"
for day in "$STORE"/audit/2*; do
	:
done
calls "$(all "$STORE/memories/m")
$(all "$STORE/memories/new")
$(all "$STORE/audit/host.json")
$(all "$day/host.jsonl")
$(all "$STORE/run/none/none")
$(all "$STORE/none")
$(all "$STORE")
$(all "$D/ok/.cyberos/x/f")
$(all "$D/ok/.cyberos/new")
$(all "$D/ok/.cyberos")
$(all "$D/new/.cyberos/new")
$(all "$D/ok/.CyberOS/f")" "$GRANT" "$ALL"
only_protected 60 "the store and .cyberos"
is "$(cat "$STORE/memories/m") $(find "$STORE/memories" "$D/ok/.cyberos" | wc -l)" \
    "MARKER 5" "nothing there was made or changed"
safe "the bytes are nowhere"

# Through links and by other ways
ln -s "$STORE" "$D/ok/store"
ln -s "$STORE/memories/m" "$D/ok/m"
ln -s "$D/ok/.cyberos" "$D/ok/plain"
ln -s ../../store/nothing "$D/ok/dangling"
calls "$(all "$D/ok/store/memories/m")
$(all "$D/ok/store/memories/new")
$(all "$D/ok/m")
$(all "$D/ok/plain/x/f")
$(all "$D/ok/plain/new")
$(all "$D/ok/dangling")
$(all "$D/ok/../../store/memories/m")
$(all "$D/ok/store/../store/memories/m")" "$GRANT" "$ALL"
only_protected 40 "the store through links"
safe "the bytes are nowhere, through links"

# --- configuration, keys and output files of this invocation ---

printf 'min_free_mb: 0\nargs_hash_key_file: %s\n# MARKER\n' "$T/hash.key" \
    >"$T/broker.yaml"
head -c 32 /dev/urandom >"$T/hash.key"
chmod 600 "$T/hash.key"
was=$(sha "$T/broker.yaml") key=$(sha "$T/hash.key")
ln "$T/broker.yaml" "$D/ok/hard.yaml"
ln -s "$T/hash.key" "$D/ok/key"
skill wire "$GRANT" "$ALL" <"$WIRE/main"
lines "$(all "$T/broker.yaml")
$(all "$D/ok/hard.yaml")
$(all "$T/hash.key")
$(all "$D/ok/key")
$(all "$T/result.json")
$(all /etc/cyberos/broker.yaml)
$(all /etc/cyberos/new)"
broker_run --config "$T/broker.yaml" wire <"$T/commands"
only_protected 35 "configuration, key and result"
is "$(sha "$T/broker.yaml") $(sha "$T/hash.key")" "$was $key" \
    "configuration and key are as they were"
is "$(result outcome)" success "the result is ours"
rm -f "$D/ok/hard.yaml"
# The result's file is protected by name before it exists, and by its directory
# however that is reached.
mkdir "$T/results"
ln -s "$T/results" "$D/ok/results"
lines "$(all "$T/results/r.json")
$(all "$D/ok/results/r.json")"
"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
    --result "$T/results/r.json" wire <"$T/commands" >"$T/out" 2>"$T/err"
cp "$T/results/r.json" "$T/result.json"
only_protected 10 "a result file that does not exist yet"
is "$(ls -A "$T/results")" r.json "there is the result and nothing else"

# --- what the kernel shows (case P11) ---

calls "$(all /proc/self/environ)
$(all /proc/1/environ)
$(all /proc/self/maps)
$(all /proc/self/fd/0)
$(all /proc/self/root/etc/passwd)
$(all /proc/self/cwd/Makefile)
$(all /proc/none)
$(all /sys/kernel/uevent_helper)
$(all /sys/none)
$(all /dev/null)
$(all /dev/mem)
$(all /dev/cyberos-none)
$(all /dev/fd/0)
$(all /dev/stdin)
$(all /dev/shm/cyberos-test)
$(all /proc)" "$GRANT" "$ALL"
only_protected 80 "case P11: /proc, /sys and /dev"
[ ! -e /dev/cyberos-none ] && [ ! -e /dev/shm/cyberos-test ]
ok $? "case P11: nothing was made there"
ln -s /proc/self/environ "$D/ok/environ"
ln -s /proc/self "$D/ok/self"
ln -s /dev/null "$D/ok/null"
calls "$(all "$D/ok/environ")
$(all "$D/ok/self/environ")
$(all "$D/ok/null")" "$GRANT" "$ALL"
only_protected 15 "case P11: through links of the skill's own"

# --- sockets of brokers ---

skill wire "$GRANT" "$ALL" <"$WIRE/main"
live_start wire
live_say 'open 1'
live_say 'send 1 {"jsonrpc":"2.0","id":0,"method":"broker.status"}'
live_say 'recv 1'
live_wait '"id":0'
inv=$(sed -n 's/^1 //p' "$T/live.out" | jq -r .result.invocation_id)
[ -S "/tmp/cyberos-skill-broker.$inv.sock" ]
ok $? "a broker's socket is there"
lines "$(all "/tmp/cyberos-skill-broker.$inv.sock")"
sed -i 1d "$T/commands"
while read -r line; do
	live_say "$line"
done <"$T/commands"
live_wait '"id":5'
live_end
cp "$T/live.out" "$T/out"
is "$(sed '1d; s/^1 //' "$T/out" | jq -r .error.message | sort -u)" file_violation \
    "and is refused"
is "$(count skill.tool_denied) $(result outcome)" "5 success" \
    "with a row for each, and works on"

# --- readable at most ---

skill other <"$WIRE/main"
id=cyberos-test-$$
new=
for dir in /usr /usr/bin /bin /sbin /usr/local/lib /lib /etc/ld.so.conf.d \
    "$T/skills" "$T/skills/other" "$T/skills/wire"; do
	[ ! -d "$dir" ] || new="$new
Write {\"path\":\"$dir/$id\",\"body\":\"SPOILT\",\"mode\":\"create\"}"
done
[ ! -d /boot ] || new="$new
Write {\"path\":\"/boot/$id\",\"body\":\"SPOILT\",\"mode\":\"create\"}"
new="$new
Write {\"path\":\"/lib-$id\",\"body\":\"SPOILT\",\"mode\":\"create\"}
Write {\"path\":\"/etc/ld.so.$id\",\"body\":\"SPOILT\",\"mode\":\"create\"}
Write {\"path\":\"$T/skills/wire/main\",\"body\":\"SPOILT\",\"mode\":\"append\"}
Write {\"path\":\"$T/skills/other/SKILL.md\",\"body\":\"SPOILT\"}
Edit {\"path\":\"$T/skills/wire/SKILL.md\",\"old\":\"wire\",\"new\":\"SPOILT\",\"all\":true}"
calls "$new" "$GRANT" "$ALL"
only_protected "$(printf '%s\n' "$new" | grep -c .)" \
    "system and skills directories are not written"
is "$(find /usr /bin /sbin /lib /boot /etc / -maxdepth 1 -name "*$id" 2>/dev/null)" \
    "" "nothing was made there"
is "$(find "$T/skills" -name "$id")$(grep -l SPOILT "$T"/skills/*/main)" "" \
    "nor in the skills"
calls "Read {\"path\":\"$T/skills/other/SKILL.md\"}
Read {\"path\":\"$T/skills/wire/SKILL.md\"}
Read {\"path\":\"/usr/bin/env\",\"limit\":4}
Read {\"path\":\"/etc/passwd\",\"limit\":4}" "$GRANT" "$ALL"
is "$(said 1) $(said 2) $(said 3) $(said 4)" "ok ok ok ok" \
    "but they are read, when they are granted"
like "$(answer 1 .result.body)" 'id: other' "with what is in them"

# cyberos itself, wherever it lies. (A sanitized build cannot run in a sandbox
# and gives skills a plain client, which is then the one that counts.)
if ! grep -q __asan_init "$CYBEROS"; then
	mkdir "$D/ok/bin"
	cp "$CYBEROS" "$D/ok/bin/cyberos"
	was=$(sha "$CYBEROS")
	own=$CYBEROS
	CYBEROS=$D/ok/bin/cyberos
	calls "Write {\"path\":\"$D/ok/bin/cyberos\",\"body\":\"SPOILT\"}
Write {\"path\":\"$D/ok/bin/cyberos\",\"body\":\"SPOILT\",\"mode\":\"append\"}
Edit {\"path\":\"$D/ok/bin/cyberos\",\"old\":\"usage\",\"new\":\"SPOILT\",\"all\":true}
Write {\"path\":\"$D/ok/bin/other\",\"body\":\"fine\"}" "$GRANT" "$ALL"
	CYBEROS=$own
	is "$(said 1) $(said 2) $(said 3)" "$P $P $P" \
	    "the running cyberos is not written, though its directory is granted"
	is "$(sha "$D/ok/bin/cyberos") $(cat "$D/ok/bin/other")" "$was fine" \
	    "and is as it was; what lies beside it is"
	rm -rf "$D/ok/bin"
fi

# --- mounts: it is the inode that counts, not the name ---

if can_mount; then
	mkdir -p "$D/ok/a" "$D/ok/b" "$D/ok/c" "$D/ok/proc" "$D/ok/host"
	: >"$D/ok/file"
	skill wire "$GRANT" "$ALL" <"$WIRE/main"
	lines "$(all "$D/ok/a/memories/m")
$(all "$D/ok/a/memories/new")
$(all "$D/ok/b/m")
$(all "$D/ok/file")
$(all "$D/ok/proc/self/environ")
$(all "$D/ok/proc/1/environ")
$(all "$D/ok/host$STORE/memories/m")
$(all "$D/ok/host/proc/self/environ")
Write {\"path\":\"$D/ok/c/$id\",\"body\":\"SPOILT\",\"mode\":\"create\"}
Write {\"path\":\"$D/ok/host/usr/$id\",\"body\":\"SPOILT\",\"mode\":\"create\"}"
	# shellcheck disable=SC2016 # for the shell in the namespace
	mounted 'mount --bind "$STORE" "$D/ok/a" &&
	    mount --bind "$STORE/memories" "$D/ok/b" &&
	    mount --bind /usr "$D/ok/c" &&
	    mount --bind "$T/hash.key" "$D/ok/file" &&
	    mount -t proc proc "$D/ok/proc" &&
	    mount --rbind / "$D/ok/host"' 'find "$STORE/memories" | wc -l' \
	    --config "$T/broker.yaml"
	only_protected 42 "bind mounts of protected places"
	is "$(cat "$T/after") $(cat "$STORE/memories/m") $(sha "$T/hash.key")" \
	    "2 MARKER $key" "and nothing was changed through them"
	[ ! -e "/usr/$id" ]
	ok $? "nor made"
fi

done_testing
