#!/bin/sh
# --result: what it says, and that the file is only ever replaced whole.
. t/lib.sh
. t/box.sh

ok_skill() {
	skill ok <<'S'
#!/bin/sh
echo ran
S
}
ok_skill
run() { # FILE [OPTIONS] SKILL
	t_file=$1
	shift
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --result "$t_file" "$@" >"$T/out" 2>"$T/err"
	RC=$?
	OUT=$(cat "$T/out")
	ERR=$(cat "$T/err")
}

# --- what it says ---

R=$T/result.json
run "$R" ok
is "$(jq -r 'keys_unsorted | join(" ")' "$R")" \
    "invocation_id skill_id version outcome exit_status exit_code signal duration_ms calls denied rejected sandbox error_message by segment head hseq host_head" \
    "the members of a result, always all of them"
is "$(wc -l <"$R" | tr -d ' ')" 1 "one line"
is "$(jq -r '[.skill_id, .version, .outcome, .exit_status, .exit_code, .signal, .calls, .denied, .rejected, .error_message, .by] | map(tostring) | join(" ")' "$R")" \
    "ok 1.0.0 success 0 0 null 0 0 0 null skill" "of a success"
is "$(jq -r .head "$R")" "$(segment | tail -n 1 | jq -r .hash)" \
    "head is the hash of the last row"
is "$(jq -r '"\(.hseq) \(.host_head)"' "$R")" \
    "$(tail -n 1 "$STORE"/audit/*/host.jsonl | jq -r '"\(.hseq) \(.hash)"')" \
    "hseq and host_head are those of the closing anchor"
is "$(jq -c .sandbox "$R")" \
    "$(rows skill.invoked_started '| .sandbox')" \
    "sandbox is what the ledger says"
is "$(jq -r '.sandbox | .[]' "$R" | sort -u | grep -vxE 'active|not available|not built')" \
    "" "each layer has one of the known states"
is "$(jq -r '.sandbox | [.user_namespace, .mount_namespace, .pid_namespace, .network_namespace, .private_root, .capabilities, .no_new_privs, .limits] | unique | join(" ")' "$R")" \
    active "those that must be there are active"

# --- where it goes ---

run "$T/new.json" ok
is "$RC $(jq -r .outcome "$T/new.json")" "0 success" "a new file"
printf 'old' >"$R"
chmod 600 "$R"
inode=$(stat -c %i "$R")
run "$R" ok
is "$(jq -r .outcome "$R")" success "an old file is replaced"
holds "by another one" [ "$(stat -c %i "$R")" != "$inode" ]
here=$PWD
mkdir "$T/sub"
cd "$T/sub" || exit 99
run here.json ok
cd "$here" || exit 99
is "$(jq -r .outcome "$T/sub/here.json")" success "a relative name"
is "$(ls -A "$T/sub")" here.json "no other file beside it"

# Readers see the old or the new one, never a part and never nothing.
printf '{"outcome":"old"}\n' >"$R"
perl -e 'my %seen;
	while (!-e "$ARGV[0]/stop") {
		open my $f, "<", "$ARGV[0]/result.json" or do { $seen{absent}++; next };
		local $/; my $t = <$f>;
		$seen{$t =~ /^\{.*"outcome":"(\w+)".*\}\n\z/s ? $1 : "torn"}++;
	}
	print join " ", sort keys %seen' "$T" >"$T/seen" &
reader=$!
for _ in 1 2 3 4 5; do run "$R" ok; done
: >"$T/stop"
wait $reader
like "$(cat "$T/seen")" '^(old success|success)$' "a reader never sees a part of it"

# --- where it must not go ---

refused_at() { # FILE NAME: not started, and what stands there stands
	before=$(stat -c '%i %F' "$1" 2>&1)
	run "$1" ok
	is "$RC $OUT" "125 " "$2: exit 125, not started"
	like "$ERR" "--result .*: " "$2: the log says why"
	is "$(stat -c '%i %F' "$1" 2>&1)" "$before" "$2: it stands as before"
}
echo victim >"$T/victim"
ln -s "$T/victim" "$T/link"
refused_at "$T/link" "a link"
is "$(cat "$T/victim")" victim "a link: its target is unchanged"
ln -s "$T/nothing" "$T/dangling"
refused_at "$T/dangling" "a link to nothing"
holds "a link to nothing: nothing was made" [ ! -e "$T/nothing" ]
mkdir "$T/dir"
refused_at "$T/dir" "a directory"
refused_at "$T/dir/" "a directory with a slash"
refused_at /dev/null "a device"
mkfifo "$T/fifo"
refused_at "$T/fifo" "a FIFO"
refused_at "$T/missing/r.json" "a directory that is not there"
refused_at "" "an empty name"
if ! is_root; then
	mkdir -m 555 "$T/closed"
	refused_at "$T/closed/r.json" "a directory that cannot be written"
fi
is "$(find "$T" -name '.cyberos*')" "" "no unfinished file is left"

# Exchanged while the skill runs: neither followed nor replaced.
skill swap <<'S'
#!/bin/sh
echo up
read -r _
S
swap() { # COMMAND...: done to $T/swap.json in mid-run
	rm -rf "$T/swap.json"
	rm -f "$T/in"
	mkfifo "$T/in"
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --result "$T/swap.json" swap <"$T/in" >"$T/out" 2>"$T/err" &
	RUN=$!
	exec 8>"$T/in"
	until_true says up
	"$@"
	echo >&8
	exec 8>&-
	finish
}
swap ln -s "$T/victim" "$T/swap.json"
is "$(readlink "$T/swap.json") $(cat "$T/victim")" "$T/victim victim" \
    "a link that appears in mid-run is not followed and not replaced"
like "$ERR" "--result: " "and the log says so"
swap mkdir "$T/swap.json"
holds "a directory neither" [ -d "$T/swap.json" ]
swap mkfifo "$T/swap.json"
holds "a FIFO neither" [ -p "$T/swap.json" ]
swap true
is "$(jq -r .outcome "$T/swap.json")" success "without that it is written"
# The directory is held: its name may change.
mkdir "$T/held"
rm -f "$T/in"
mkfifo "$T/in"
: >"$T/out" # what the run before said is not said by this one
"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
    --result "$T/held/r.json" swap <"$T/in" >"$T/out" 2>"$T/err" &
RUN=$!
exec 8>"$T/in"
until_true says up
mv "$T/held" "$T/held2"
mkdir "$T/held"
exec 8>&-
finish
is "$(ls -A "$T/held") $(ls -A "$T/held2")" " r.json" \
    "the directory that was opened gets it, whatever its name is by then"

# --- the skill and the file ---

skill writer 'allowed_tools: [Read, Write]' "x-allowed-files: ['$T/**']" <"$WIRE/main"
call() { # NAME ARGS
	printf 'open 1\nsend 1 {"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"%s","args":%s}}\nrecv 1\n' "$1" "$2"
}
{
	call Write "{\"path\":\"$T/r.json\",\"body\":\"forged\",\"mode\":\"overwrite\"}"
	call Write "{\"path\":\"$T/free.json\",\"body\":\"mine\",\"mode\":\"create\"}" |
	    sed 's/ 1 / 2 /; s/ 1$/ 2/'
} >"$T/commands"
echo old >"$T/r.json"
run "$T/r.json" writer <"$T/commands"
is "$(jq -r .outcome "$T/r.json")" success "a skill cannot write its own result"
like "$OUT" 'protected|file_violation' "it is told so"
is "$(cat "$T/free.json")" mine "a file beside it, it can"

# --- refused before the start: the file says so, and nothing old stays ---

stale() { # STATUS NAME [OPTIONS] SKILL
	t_status=$1
	t_name=$2
	shift 2
	echo '{"outcome":"success","stale":true}' >"$R"
	run "$R" "$@"
	is "$RC $(jq -r '"\(.outcome) \(.exit_status) \(.stale) \(.by)"' "$R")" \
	    "$t_status refused $t_status null supervisor" "$t_name"
	holds "$t_name: with a message" [ -n "$(jq -r .error_message "$R")" ]
}
stale 127 "no such skill" missing
mkdir -m 777 "$T/badstore"
chmod 777 "$T/badstore"
stale 125 "a store that others can write" --store "$T/badstore" ok
ln -s "$STORE" "$T/storelink"
stale 125 "a store that is a link" --store "$T/storelink" ok
id=$(new_id)
run "$R" --invocation "$id" ok
stale 125 "an id that was used" --invocation "$id" ok
mkdir -p "$T/dir"
stale 125 "the same file for the traces" --otel-file "$T/dir/../${R##*/}" ok
echo '{"outcome":"success","stale":true}' >"$R"
run "$R" ok <"$T"
is "$RC $(jq -r .outcome "$R")" "125 refused" "a directory as standard input"
run "$R" --deadline nonsense ok
is "$RC" 2 "a usage error is before all that"
done_testing
