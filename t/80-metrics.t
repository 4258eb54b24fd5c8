#!/bin/sh
# cyberos skill broker metrics: every family counts what it says, live and
# afterwards, through every death; the text has the form that others read.
# shellcheck source=t/lib.sh
. ./t/lib.sh
# shellcheck source=t/live.sh
. ./t/live.sh

if ! command -v python3 >/dev/null; then
	skip 'metrics' 'python3 is not installed'
	done_testing
fi
D=$T/d
mkdir -p "$D" "$STORE/memories/n"
chmod 700 "$STORE"
echo fine >"$D/a.txt"
head -c 14000000 /dev/zero >"$D/zeros"
TOOLS='allowed_tools: [Read, MemoryRead, Bash]'
FILES="x-allowed-files: [\"$D/**\"]"

metrics() { "$CYBEROS" skill broker metrics --store "$STORE" "$@"; }
# sum NAME [LABEL=VALUE...]: samples that match added up, of a text
sum() {
	t_name=$1
	shift
	awk -v OFMT=%.9f -v name="$t_name" -v want="$*" '
	    BEGIN { n = split(want, w, " ") }
	    /^#/ { next }
	    {
		at = match($0, /[{ ]/)
		if (substr($0, 1, at - 1) != name)
			next
		for (i = 1; i <= n; i++) {
			split(w[i], kv, "=")
			if (!index($0, kv[1] "=\"" kv[2] "\""))
				next
		}
		found = 1
		total += $NF
	    }
	    END { print found ? total : "none" }'
}
# value NAME [LABEL=VALUE...]: the same of now
value() { metrics | sum "$@"; }
# form NAME: both forms are what readers want
form() {
	metrics >"$T/text"
	is "$(python3 t/metrics.py check <"$T/text")" '' "$1: Prometheus text"
	metrics --openmetrics >"$T/open"
	is "$(python3 t/metrics.py check open <"$T/open")" '' "$1: OpenMetrics"
	if command -v promtool >/dev/null; then
		is "$(promtool check metrics <"$T/text" 2>&1)" '' \
		    "$1: promtool check metrics"
		# It wants a time for each sample, which a scrape adds.
		sed '/^#/!s/$/ 1700000000/' "$T/open" >"$T/open.t"
		promtool tsdb create-blocks-from openmetrics "$T/open.t" \
		    "$T/blocks" >"$T/said" 2>&1
		is "$?" 0 "$1: promtool reads OpenMetrics"
		rm -rf "$T/blocks"
	else
		skip "$1: promtool" 'prometheus is not installed'
	fi
}
# agrees NAME: counts and rows
agrees() {
	metrics | python3 t/metrics.py ledger "$STORE" >"$T/said"
	is "$?" 0 "$1: counts are those of the ledger ($(head -n 1 "$T/said"))"
	[ "$(wc -l <"$T/said")" -le 1 ] || note "$(cat "$T/said")"
}

# --- the checker sees what it looks for

bad() { printf '%b' "$1" | python3 t/metrics.py check; }
HEAD='# HELP a_total X.\n# TYPE a_total counter\n'
HIST='# HELP h X.\n# TYPE h histogram\n'
is "$(bad "${HEAD}a_total{x=\"1\"} 1\na_total{x=\"2\"} 2\n")" '' 'a good text'
like "$(bad "${HEAD}a_total 1\na_total 1\n")" 'a series twice' 'a series twice'
like "$(bad "${HEAD}a_total 1\n# HELP b X.\n# TYPE b gauge\nb 1\na_total{x=\"1\"} 1\n")" \
    'does not belong' 'a split family'
like "$(bad "${HEAD}a_total 1\n${HEAD}a_total{x=\"1\"} 1\n")" 'comes twice' 'a head twice'
like "$(bad "${HEAD}a_total 1")" 'line feed' 'no last line feed'
like "$(bad "${HEAD}a_total{x=\"1} 1\n")" 'neither|labels' 'a label without end'
like "$(bad "${HIST}h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n")" \
    'falls' 'a bucket that falls'
like "$(bad "${HIST}h_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n")" 'no .Inf' 'no +Inf'
like "$(bad "${HIST}h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n")" \
    '_count is not' 'a count that is not +Inf'

# --- nothing has happened

rm -rf "$STORE"
form 'before the first run'
is "$(value skill_broker_tool_calls_total)" 0 'all zero'
is "$(value skill_broker_build_info version=1.0.0)" 1 'but the version'
is "$([ -e "$STORE" ] && echo made)" '' 'no store is made'
mkdir -p "$STORE/memories/n"
chmod 700 "$STORE"
echo note >"$STORE/memories/n/a"

# --- each family

calls "Read {\"path\":\"$D/a.txt\"}
Read {\"path\":\"$D/a.txt\"}
Read {\"path\":\"$D/none\"}
Read {\"path\":\"/etc/passwd\"}
MemoryRead {\"path\":\"memories/n/a\"}
Bash {\"cmd\":\"sleep 5\",\"timeout_ms\":1}
Grep {\"pattern\":\"x\"}
Nonsense {}
Read {\"path\":1}" "$TOOLS" "$FILES" 'allowed_memory_scopes: [memories/n/**]'
C=skill_broker_tool_calls_total
is "$(value $C tool_name=Read outcome=success) $(value $C tool_name=Read outcome=error) $(value $C tool_name=Read outcome=denied)" \
    '2 1 1' 'acceptance 23: calls of a tool by outcome'
is "$(value $C tool_name=Grep outcome=denied) $(value $C tool_name=_unknown outcome=denied)" \
    '1 1' 'acceptance 23: one that is not granted, one that is no tool'
is "$(value $C tool_name=Bash) $(value $C)" "$(is_root && echo 1 || value $C tool_name=Bash) 8" \
    'acceptance 23: what never was a call is none'
is "$(value skill_broker_tool_duration_seconds_count tool_name=Read)" 3 \
    'times of those that ran'
is "$(value skill_broker_tool_duration_seconds_count tool_name=Grep)" 0 \
    'and of no other'
like "$(value skill_broker_tool_duration_seconds_sum tool_name=Read)" \
    '^0\.0*[1-9]' 'which are not nothing'
is "$(value skill_broker_invocations_total outcome=success) $(value skill_broker_invocations_total)" \
    '1 1' 'how it ended'
is "$(value skill_frontmatter_validation_total outcome=ok) $(value skill_frontmatter_validation_duration_seconds_count)" \
    '1 1' 'its frontmatter'
RX=$(value skill_broker_socket_bytes_total direction=rx)
SENT=$(sed -n 's/^send 1 //p' "$T/commands" | awk '{ n += length + 4 } END { print n }')
is "$RX" "$SENT" 'bytes from the skill, to the last one'
GOT=$(sed 's/^1 //' "$T/out" | awk '{ n += length + 4 } END { print n }')
is "$(value skill_broker_socket_bytes_total direction=tx)" "$GOT" 'and to it'
agrees 'one run'

calls "Read {\"path\":\"$D/zeros\"}" "$TOOLS" "$FILES"
is "$(value skill_broker_responses_truncated_total)" 1 'an answer that was cut'

wire 'open 1
send 1 {"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Grep","args":{},"traceparent":"00-nonsense"}}
recv 1
send 1 {"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Grep","args":{},"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
recv 1' "$TOOLS"
is "$(value skill_broker_traceparents_invalid_total)" 1 'an invalid traceparent'

in_skill 'unshare -m true; unshare -m true; exit 3' 2>/dev/null
is "$(value skill_broker_cap_bypass_attempts_total syscall=unshare)" \
    "$(rows skill.cap_bypass_attempt | jq -s 'map(select(.syscall == "unshare") | .count) | add')" \
    'refused escapes by system call'
like "$(value skill_broker_cap_bypass_attempts_total syscall=unshare)" '^[1-9]' \
    'of which there were some'
is "$(value skill_broker_invocations_total outcome=error)" 1 'an error'

# --- frontmatters

# judged OUTCOME YAML...: a run that is refused for it
judged() {
	t_outcome=$1
	shift
	t_before=$(value skill_frontmatter_validation_total "outcome=$t_outcome")
	t_refused=$(value skill_broker_invocations_total outcome=refused)
	printf '#!/bin/sh\n' | skill judged
	printf '%s\n' "$@" >"$T/skills/judged/SKILL.md"
	broker_run judged
	is "$(value skill_frontmatter_validation_total "outcome=$t_outcome") $(value skill_broker_invocations_total outcome=refused)" \
	    "$((t_before + 1)) $((t_refused + 1))" "a frontmatter: $t_outcome"
}
judged parse_err nothing
judged parse_err --- 'id: [' 'nonsense: 1' ---
judged required_missing --- 'id: judged' ---
judged invalid_field --- 'id: judged' 'version: x' 'description: d' \
    'allowed_tools: []' 'allowed_memory_scopes: []' ---
judged version_skew --- 'id: judged' 'version: 1.0.0' 'description: d' \
    'allowed_tools: []' 'allowed_memory_scopes: []' 'new: 1' \
    'min_broker_version: 9.0.0' ---
judged signature_failed --- 'id: judged' 'version: 1.0.0' 'description: d' \
    'allowed_tools: []' 'allowed_memory_scopes: []' 'signature: x' ---
broker_run none-such
is "$RC $(value skill_frontmatter_validation_total)" \
    "127 $(value skill_frontmatter_validation_duration_seconds_count)" \
    'where there is none, none is judged'
agrees 'refused ones'
form 'after some runs'

# --- while it runs

ID=0a1b2c3d-0000-4000-8000-00000000eeee
skill wire "$TOOLS" "$FILES" <"$WIRE/main"
BEFORE=$(value $C)
is "$(value skill_broker_active_invocations)" 0 'nothing runs'
ENDED=$(value skill_broker_invocations_total)
live_start wire --invocation "$ID" --deadline 300
live_say 'open 1'
live_say 'say ready'
live_wait ready
is "$(value skill_broker_active_invocations)" 1 'one runs'
READ='{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"Read","args":{"path":"'$D/a.txt'"}}}'
for n in 1 2 3; do
	live_say "send 1 $READ"
	live_say 'recv 1'
	live_say "say done $n"
	live_wait "done $n"
	is "$(value $C)" $((BEFORE + n)) "call $n of it is counted at once"
done
kill -KILL "$(live_broker)"
live_end
is "$RC $(value $C)" "125 $((BEFORE + 3))" 'a broker that is killed keeps its counts'
is "$(value skill_broker_invocations_total outcome=panic) $(value skill_broker_invocations_total)" \
    "1 $((ENDED + 1))" 'its end is one'
is "$(value skill_broker_active_invocations)" 0 'and nothing runs'
agrees 'killed'

# Its supervisor too: nobody has closed its books.
ID=0a1b2c3d-0000-4000-8000-00000000eeef
live_start wire --invocation "$ID" --deadline 300
live_say 'open 1'
live_say "send 1 $READ"
live_say 'recv 1'
live_wait fine
BROKER=$(live_broker)
kill -KILL "$LIVE"
live_end 2>"$T/said"
while ! is_dead "$BROKER"; do sleep 0.02; done
# What it had forked goes a moment later, and sweep leaves alone what is held.
until flock -n "$STORE/run/$ID.lock" true; do sleep 0.02; done
is "$(value $C) $(value skill_broker_invocations_total)" \
    "$((BEFORE + 4)) $((ENDED + 1))" 'of one that nobody has closed the counts are there'
"$CYBEROS" skill broker sweep --store "$STORE" >"$T/said"
is "$(value $C) $(value skill_broker_invocations_total outcome=panic)" \
    "$((BEFORE + 4)) 2" 'sweep counts its end, and nothing twice' ||
    note "$(cat "$T/said")"
"$CYBEROS" skill broker sweep --store "$STORE" >"$T/said"
is "$(value $C) $(value skill_broker_invocations_total)" \
    "$((BEFORE + 4)) $((ENDED + 2))" 'once'
is "$(find "$STORE/run" -name '*.status')" '' 'no page is left'
agrees 'swept'

# --- rows that wait, and rows that are lost

if is_root && command -v unshare >/dev/null && unshare -m true 2>/dev/null; then
	mkdir "$T/small"
	lines "$(yes "Read {\"path\":\"$D/a.txt\"}" | head -n 400)"
	# shellcheck disable=SC2016 # for the inner shell
	D=$D T=$T CYBEROS=$CYBEROS unshare -m sh -c '
		mount -t tmpfs -o size=300k,mode=700 none "$T/small"
		"$CYBEROS" skill broker run --store "$T/small/s" \
		    --skills "$T/skills" wire <"$T/commands" >/dev/null 2>"$T/err"
		"$CYBEROS" skill broker metrics --store "$T/small/s" >"$T/waited"
		mount -o remount,size=10m "$T/small"
		"$CYBEROS" skill broker sweep --store "$T/small/s" >/dev/null
		"$CYBEROS" skill broker metrics --store "$T/small/s" >"$T/lost"
		for f in "$T"/small/s/audit/*/seg/*/*.jsonl; do
			cat "$f"
			echo # behind a row that was torn
		done >"$T/kept"'
	like "$(sum skill_broker_audit_spooled_total <"$T/waited")" \
	    '^[1-9]' 'rows that had to wait'
	is "$(sum $C outcome=success <"$T/waited")" 400 \
	    'their calls count all the same'
	# 400 calls, its start and its end; what recovery has added is not its.
	is "$(sum skill_broker_audit_dropped_total <"$T/lost")" \
	    "$((802 - $(grep -c '"by":"broker".*"hash":"[0-9a-f]*"}$' "$T/kept")))" \
	    'a full disk: what is in no file and no spool is lost'
	is "$(sum $C outcome=success <"$T/lost")" 400 \
	    'and no call is counted twice'
	is "$(python3 t/metrics.py check <"$T/lost")" '' 'told in good form'
else
	root_does 'rows that wait' 'only root can mount a small file system here'
fi

# --- a file for a collector

mkdir "$T/o"
umask 077
metrics --output "$T/o/cyberos.prom" >"$T/out" 2>"$T/err"
is "$? $(cat "$T/out" "$T/err")" '0 ' '--output'
umask 022
is "$(cmp "$T/o/cyberos.prom" "$T/text" >/dev/null; sed 's/[^ ]*$//' "$T/o/cyberos.prom" | cksum)" \
    "$(metrics | sed 's/[^ ]*$//' | cksum)" 'the same text'
is "$(stat -c %a "$T/o/cyberos.prom")" 644 'for everybody to read, whatever the umask'
before=$(stat -c %i "$T/o/cyberos.prom")
metrics --output "$T/o/cyberos.prom" --openmetrics
is "$? $(tail -n 1 "$T/o/cyberos.prom")" '0 # EOF' '--output with --openmetrics'
[ "$(stat -c %i "$T/o/cyberos.prom")" != "$before" ]
ok $? 'is replaced, not written over'
is "$(ls -A "$T/o")" cyberos.prom 'nothing else is left there'
ln -s "$T/elsewhere" "$T/o/link.prom"
metrics --output "$T/o/link.prom" 2>"$T/err"
is "$?" 1 'a link is refused'
like "$(cat "$T/err")" 'not a regular file' 'with the reason'
metrics --output "$T/none/x.prom" 2>"$T/err"
is "$?" 1 'so is a directory that is not there'
[ ! -e /dev/full ] || {
	metrics >/dev/full 2>"$T/err"
	is "$?" 1 'a disk that is full is an error'
}
metrics nonsense >"$T/out" 2>"$T/err"
is "$? $(cat "$T/out")" '2 ' 'an argument too many'
"$CYBEROS" skill broker metrics --config "$T/none.yaml" >"$T/out" 2>&1
is "$?" 3 'no such configuration'
"$CYBEROS" skill broker metrics --help >"$T/out"
is "$? $(awk 'length > 80' "$T/out")" '0 ' '--help fits on 80 columns'

# --- by whom, and on what

if is_root; then
	cp "$CYBEROS" "$T/cyberos"
	setpriv --reuid 54321 --regid 54321 --clear-groups "$T/cyberos" skill \
	    broker metrics --store "$STORE" >"$T/out" 2>"$T/err"
	is "$? $(cat "$T/out")" '5 ' 'another user is told nothing'
fi
# A page that a broker left which had been taken over.
ID=0a1b2c3d-0000-4000-8000-00000000eef0
head -c 16384 /dev/zero | tr '\0' '\377' >"$STORE/run/$ID.status"
printf 'tally001' | dd of="$STORE/run/$ID.status" bs=1 seek=1024 conv=notrunc 2>/dev/null
form 'a page that lies'
is "$(value $C tool_name=Read outcome=success | grep -c '^[0-9]*$') $(value $C tool_name=Read outcome=success)" \
    "1 $(($(awk '/tool_calls_total.tool_name="Read",outcome="success"/ { print $2 }' "$T/text")))" \
    'harms no other number'
is "$(grep -c ' -' "$T/text")" 0 'and none wraps'
rm "$STORE/run/$ID.status"
head -c 100 /dev/urandom >"$STORE/run/$ID.status"
is "$(value $C)" $((BEFORE + 4)) 'a page that is none'
rm "$STORE/run/$ID.status"
ln -s /etc/passwd "$STORE/run/$ID.status"
is "$(value $C)" $((BEFORE + 4)) 'a page that is a link'
rm "$STORE/run/$ID.status"

# The names in it are the broker's own.
is "$("$CYBEROS" skill broker tools | jq -r '.tools[].name' | sort)" \
    "$(metrics | sed -n 's/^skill_broker_tool_duration_seconds_count{tool_name="\(.*\)"}.*/\1/p' | sort)" \
    'every tool has its time'
like "$(metrics | grep -c '^skill_broker_cap_bypass_attempts_total{')" \
    '^([5-9][0-9]|1[01][0-9])$' 'every system call that is told of has its count'

done_testing
