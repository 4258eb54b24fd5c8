#!/bin/sh
# Traces (SPEC 6, 11), looked at through --otel-file: one span for a call and one
# for its tool, in the right trace below the right parent, as many as the ledger
# has rows, and nothing of what the skill said or got.
# shellcheck source=t/lib.sh
. ./t/lib.sh
# shellcheck source=t/box.sh
. ./t/box.sh

D=$T/d
F=$T/spans.jsonl
mkdir -p "$D" "$STORE/memories/notes"
chmod 700 "$STORE"
is_root || chmod 755 "$T"
echo secret-content >"$D/file-name.txt"
(cd "$T" && exec python3 "$OLDPWD/t/web.py" . 1) &
WEB=$!
# shellcheck disable=SC2317 # the trap calls it
web_end() {
	status=$?
	kill "$WEB" 2>/dev/null
	wait 2>/dev/null
	(exit "$status")
	box_end
}
trap web_end EXIT
until_true test -s "$T/ports" || exit 99
P=$(sed -n 1p "$T/ports")
printf 'http_allow_addresses: [127.0.0.0/8]\n' >"$T/conf.yaml"
TOOLS='allowed_tools: [Read, Write, Edit, Glob, Grep, MemoryRead, MemorySearch, MemoryEmit, HttpFetch, HttpPost, Bash]'
GRANT="x-allowed-files: [\"$D/**\"]"
HOSTS="x-allowed-domains: ['localhost:$P']"
SCOPES='allowed_memory_scopes: ["memories/notes/**"]'

# spans FILTER: each span of the file, attributes as an object of texts
spans() {
	jq -rc '.resourceSpans[].scopeSpans[].spans[]
	    | .attributes |= (map({key, value: (.value | to_entries[0].value)})
		| from_entries)
	    | '"$1" "$F"
}
# named NAME [FILTER]: those of that name
named() { spans "select(.name == \"$1\") ${2:-}"; }

# calls LINES [OPTIONS...]: the parameters of tool.call, one a line
calls() {
	{
		echo open
		printf '%s\n' "$1" | while read -r t_params; do
			[ -n "$t_params" ] || continue
			printf 'send 1 {"jsonrpc":"2.0","id":1,"method":"tool.call","params":%s}\nrecv 1 60000\n' \
			    "$t_params"
		done
	} >"$T/calls"
	shift
	skill wire "$TOOLS" "$GRANT" "$HOSTS" "$SCOPES" <"$WIRE/main"
	rm -f "$F"
	: >"$T/log"
	broker_run --config "$T/conf.yaml" --otel-file "$F" "$@" wire <"$T/calls"
}

# --- a span for each call, one for each tool ---

calls '{"tool":"Read","args":{"path":"'"$D"'/file-name.txt"}}
{"tool":"Write","args":{"path":"'"$D"'/other.txt","body":"secret-body"}}
{"tool":"Edit","args":{"path":"'"$D"'/other.txt","old":"secret","new":"hidden"}}
{"tool":"Glob","args":{"pattern":"**/*.txt"}}
{"tool":"Grep","args":{"pattern":"secret-.*"}}
{"tool":"MemoryEmit","args":{"kind":"note.added","path":"memories/notes/n","body":"secret-note"}}
{"tool":"MemoryRead","args":{"path":"memories/notes/n"}}
{"tool":"MemorySearch","args":{"query":"secret-note"}}
{"tool":"Bash","args":{"cmd":"echo secret-command; exit 7"}}
{"tool":"HttpFetch","args":{"url":"http://localhost:'"$P"'/secret-path?secret-query"}}
{"tool":"HttpPost","args":{"url":"http://localhost:'"$P"'/status/503","body":"secret-post"}}
{"tool":"Read","args":{"path":"/etc/secret-denied"}}
{"tool":"Read","args":{"path":"'"$D"'/secret-missing"}}
{"tool":"SecretTool","args":{}}
{"tool":"Read","args":{"secret":1}}'
is "$RC" 0 'the skill runs to its end'
is "$(named skill.broker.tool_call .attributes.outcome | sort | uniq -c | tr -s ' \n' ' ')" \
    ' 2 denied 1 error 11 success ' 'a span for each call (-32602 is none)'
is "$(spans .name | grep '^skill\.tool\.' | sort | uniq -c | tr -s ' ')" \
    ' 1 skill.tool.bash.exec
 1 skill.tool.file.edit
 1 skill.tool.file.glob
 1 skill.tool.file.grep
 2 skill.tool.file.read
 1 skill.tool.file.write
 2 skill.tool.http.request
 1 skill.tool.memory.emit
 1 skill.tool.memory.read
 1 skill.tool.memory.search' 'and one for each tool that ran'
is "$(named skill.broker.tool_call '| select(.attributes.outcome != "denied") | .attributes.tool_name')" \
    "$(rows skill.tool_call_completed '| .tool_name' | tr -d '"')" \
    'as many as the ledger has rows, in the same order'
is "$(named skill.broker.tool_call '| select(.attributes.outcome == "denied") | .attributes.reason')" \
    "$(rows skill.tool_denied '| .reason' | tr -d '"')" 'refusals too'
is "$(named skill.broker.tool_call '| select(.attributes.outcome == "denied") | .status.code, .attributes["error.type"], .attributes["rpc.response.status_code"]' | tr '\n' ' ')" \
    '2 file_violation -32603 2 unknown_tool -32603 ' 'which are errors, with the reason'
is "$(named skill.broker.tool_call '| select(.attributes.outcome == "error") | "\(.status.code) \(.attributes["error.type"]) \(.attributes.reason)"')" \
    '2 not_found null' 'so is a failure, with its word'
is "$(spans 'select(.attributes.outcome == "success" and .name != "skill.frontmatter.validate") | .status' | sort -u)" \
    '{}' 'a success has no status, and HTTP 503 is one'
is "$(named skill.broker.tool_call '| [.attributes | .skill_id, .tool_name, .outcome, .duration_ms, .args_size_bytes, .invocation_id] | map(select(. != null)) | length' | sort -u)" \
    6 'each has the attributes of the contract'
is "$(named skill.broker.tool_call '| select(.attributes.tool_name == "Write") | .attributes | "\(.args_size_bytes) \(.result_size_bytes > "1") \(.["gen_ai.tool.name"]) \(.["rpc.method"])"')" \
    "$(printf '{"body":"secret-body","path":"%s/other.txt"}' "$D" | wc -c | tr -d ' ') true Write tool.call" \
    'sizes are of the canonical arguments; names of the conventions beside ours'
is "$(named skill.broker.tool_call '| select(.attributes.tool_name == "_unknown") | .attributes["gen_ai.tool.name"]')" \
    _unknown 'a tool that is none has no name of the skill'
is "$(named skill.tool.bash.exec '.attributes["process.exit.code"]')" 7 \
    'Bash has its exit status'
is "$(named skill.tool.http.request '| .attributes | "\(.["http.request.method"]) \(.["http.response.status_code"]) \(.["server.address"]) \(.["server.port"])"')" \
    "GET 200 localhost $P
POST 503 localhost $P" 'HTTP has method, status, host and port'
is "$(grep -ciE 'secret|file-name|hidden|status/503|other.txt' "$F")" 0 \
    'no argument, path, query, command or result'
is "$(spans 'select(.parentSpanId == null) | .name')" skill.invocation \
    'the invocation is the root'
ROOT=$(named skill.invocation .spanId)
is "$(named skill.broker.tool_call .parentSpanId | sort -u)" "$ROOT" 'calls are below it'
is "$(named skill.frontmatter.validate '| "\(.parentSpanId) \(.attributes.outcome) \(.attributes.errors)"')" \
    "$ROOT success 0" 'and so is the look at the frontmatter'
is "$(spans 'select(.name | startswith("skill.tool.")) | .parentSpanId' | sort)" \
    "$(named skill.broker.tool_call '| select(.attributes.outcome != "denied") | .spanId' | sort)" \
    'tools are below their calls'
is "$(spans .traceId | sort -u)" "$(rows skill.invoked_started '| .trace_id' | tr -d '"')" \
    'all is in the trace that the rows name'
is "$(spans .spanId | sort -u | wc -l)" "$(spans .spanId | wc -l)" 'ids are used once'
is "$(spans 'select((.endTimeUnixNano | tonumber) < (.startTimeUnixNano | tonumber)) | .name')" '' \
    'nothing ends before it starts'
is "$(named skill.invocation '| .attributes | "\(.outcome) \(.calls) \(.denied) \(.rejected) \(.exit_code) \(.version)"')" \
    "success 14 2 1 0 1.0.0" 'the invocation has its totals'
is "$(jq -rc '.resourceSpans[].resource.attributes[] | select(.key == "service.name" or .key == "service.instance.id") | .value.stringValue' "$F" | sort -u)" \
    "$(printf '%s\nunknown_service:cyberos\n' "$(jq -r .host "$STORE/audit/host.json")" | sort)" \
    'the resource names service and host'
verify_store

# --- the trace goes on to the web server (acceptance 18) ---

TP=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
FETCH='"tool":"HttpFetch","args":{"url":"http://localhost:'"$P"'/x"}'
headers() { sed -n 's/^[0-9]*   traceparent: //p' "$T/log"; }
calls "{$FETCH}
{$FETCH,\"traceparent\":\"$TP\",\"tracestate\":\"a=1\"}
{$FETCH,\"traceparent\":\"junk\"}
{\"tool\":\"MemoryEmit\",\"args\":{\"kind\":\"note.added\",\"path\":\"memories/notes/n\"}}
{\"tool\":\"MemoryEmit\",\"args\":{\"kind\":\"note.added\",\"path\":\"memories/notes/n\"},\"traceparent\":\"$TP\"}" \
    --traceparent 00-11111111111111111111111111111111-2222222222222222-01
is "$(headers | sed -n 2p)" "$TP" 'a traceparent of the call goes out as it is'
is "$(headers | sed -n '1p;3p')" \
    "$(named skill.tool.http.request '| "00-\(.traceId)-\(.spanId)-01"' | sed -n '1p;3p')" \
    'without one: the trace, and the very span that is exported'
is "$(named skill.invocation '| "\(.traceId) \(.parentSpanId) \(.flags)"')" \
    '11111111111111111111111111111111 2222222222222222 769' \
    'the invocation is below the caller, who is remote'
is "$(named skill.broker.tool_call '| select(.traceId != "11111111111111111111111111111111") | "\(.traceId) \(.parentSpanId) \(.flags) \(.links[0].traceId)"' | sort -u)" \
    '0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 769 11111111111111111111111111111111' \
    'a call with its own context is there, below its parent, linked to the invocation'
is "$(named skill.broker.tool_call '| .links[0].spanId // empty' | sort -u)" \
    "$(named skill.invocation .spanId)" 'by its span'
is "$(rows skill.tool_call_completed '| select(.trace_id != "11111111111111111111111111111111") | .invocation_trace_id' | sort -u)" \
    '"11111111111111111111111111111111"' 'as its rows say'
is "$(rows note.added .trace_id | tr -d '"')" \
    "$(spans 'select(.name == "skill.tool.memory.emit") | .traceId')" \
    'MemoryEmit writes the trace id of its span (acceptance 19)'

# --- flag 00: rows and no span ---

calls "{$FETCH}
{$FETCH,\"traceparent\":\"$TP\"}
{$FETCH,\"traceparent\":\"${TP%01}00\"}" \
    --traceparent 00-11111111111111111111111111111111-2222222222222222-00
is "$(spans '"\(.name) \(.traceId)"')" \
    'skill.broker.tool_call 0af7651916cd43dd8448eb211c80319c
skill.tool.http.request 0af7651916cd43dd8448eb211c80319c' \
    'not sampled: only the call that is has spans'
is "$(count skill.tool_call_completed) $(headers | sed 's/.*-//' | tr '\n' ' ')" \
    '3 00 01 00 ' 'rows for all of them, and each flag goes on'
OTEL_TRACES_SAMPLER=parentbased_always_off
export OTEL_TRACES_SAMPLER
calls "{$FETCH}"
unset OTEL_TRACES_SAMPLER
is "$(spans .name | wc -l) $(headers | sed 's/.*-//')" '0 00' \
    'a sampler that takes none: none, and the header says so'

# --- calls that do not come back, brokers that die, skills that never start ---

printf '#!/bin/sh\ncyberos skill call Bash cmd="sleep 60"\n' |
    skill slow "$TOOLS" "$GRANT"
rm -f "$F"
broker_run --otel-file "$F" --deadline 1 slow
is "$(named skill.broker.tool_call '| "\(.attributes.outcome) \(.attributes["error.type"]) \(.status.code)"')" \
    'timeout timeout 2' 'a call that is out of time has its span'
is "$(named skill.invocation '.attributes["error.type"]')" timeout 'and the invocation'
printf '#!/bin/sh\ncyberos skill call Bash cmd="sleep 60" &\ncyberos skill call Read path=%s/file-name.txt >/dev/null\n' \
    "$D" | skill leaves "$TOOLS" "$GRANT"
rm -f "$F"
broker_run --otel-file "$F" leaves
is "$(named skill.broker.tool_call '| select(.attributes.tool_name == "Bash") | "\(.attributes.outcome) \(.attributes["error.type"])"')" \
    "$(rows skill.tool_call_completed '| select(.tool_name == "Bash") | "error \(.error_message)"' | tr -d '"')" \
    'a call that is cancelled has as many spans as rows'
cat >"$T/die" <<EOT
#!/bin/sh
for i in 1 2 3; do cyberos skill call Read path=$D/file-name.txt >/dev/null; done
echo ready
sleep 60
EOT
skill die "$TOOLS" "$GRANT" <"$T/die"
rm -f "$F"
start --otel-file "$F" die
until_true says ready
kill -9 "$(broker_pid)"
finish
is "$RC $(named skill.broker.tool_call .attributes.outcome | sort | uniq -c | tr -s ' ')" \
    '125  3 success' 'a killed broker: what it had done has its spans'
is "$(named skill.invocation '.attributes.outcome')" panic 'and so has its end'
nothing_left 'a killed broker'
INV=
printf '#!/bin/sh\ntrue\n' | skill broken 'tags: 7'
rm -f "$F"
broker_run --otel-file "$F" broken
is "$RC $(named skill.frontmatter.validate '| "\(.status.code) \(.attributes["error.type"]) \(.attributes.errors)"')" \
    '6 2 InvalidType 1' 'an invalid frontmatter is an error of its span'
is "$(named skill.invocation .attributes.outcome)" refused 'and a refused invocation'

# What has no room is counted while the supervisor, which was asleep, lives.
full() { "$CYBEROS" skill broker metrics --store "$STORE" | sed -n 's/^skill_broker_spans_dropped_total{reason="queue_full"} //p'; }
counted() { [ "$(full)" -gt 0 ]; }
cat >"$T/full" <<EOT
#!/bin/sh
echo ready
cyberos skill call Bash cmd='until [ -e $D/go ]; do sleep 0.1; done'
for i in 1 2 3 4 5 6 7 8 9 10; do cyberos skill call Read path=$D/file-name.txt >/dev/null; done
cyberos skill call Bash cmd='touch $D/done; sleep 60'
EOT
skill full "$TOOLS" "$GRANT" <"$T/full"
is "$(full)" 0 'so far every span has had room'
OTEL_BSP_MAX_QUEUE_SIZE=10
export OTEL_BSP_MAX_QUEUE_SIZE
start --otel-file "$F" full
unset OTEL_BSP_MAX_QUEUE_SIZE
until_true says ready
kill -STOP "$RUN"
: >"$D/go"
until_true test -e "$D/done"
kill -CONT "$RUN"
holds 'those without room are counted while it goes on' until_true counted
n=$(full)
kill -9 "$RUN"
finish
is "$(full)" "$n" 'and stay counted when it is killed'
rm "$D/go" "$D/done"
INV=

# --- the file itself ---

rm -f "$F"
OTEL_BSP_MAX_EXPORT_BATCH_SIZE=1 calls "{\"tool\":\"Read\",\"args\":{\"path\":\"$D/file-name.txt\"}}"
is "$(jq -c '[.resourceSpans[].scopeSpans[].spans[].name]' "$F" | sort)" \
    '["skill.broker.tool_call"]
["skill.frontmatter.validate"]
["skill.invocation"]
["skill.tool.file.read"]' 'a line has no more spans than it may, of a call and its tool neither'

is "$(stat -c '%F %h' "$F")" 'regular file 1' 'it is a file'
broker_run --otel-file "$T" broken
is "$RC" 125 'a directory is no place for it'
ln -s "$F" "$T/link"
broker_run --otel-file "$T/link" broken
is "$RC" 125 'nor is a link'
like "$ERR" 'otel-file .*regular file' 'it says so'
# Within a granted directory it is out of reach, finished or not.
F=$D/spans.jsonl
printf '#!/bin/sh\ncyberos skill call Read path=%s/spans.jsonl\ncyberos skill call Write path=%s/spans.jsonl body=x\ncyberos skill call Bash cmd="wc -c %s/spans.jsonl %s/.cyberos-*"\n' \
    "$D" "$D" "$D" "$D" | skill probe "$TOOLS" "$GRANT"
broker_run --otel-file "$F" probe
is "$(rows skill.tool_denied .reason | sort | uniq -c | tr -s ' ')" ' 2 "protected"' \
    'a skill neither reads nor writes it'
is "$(named skill.broker.tool_call .attributes.outcome | tr '\n' ' ')" \
    'denied denied success ' 'and it has what it should'
unlike "$OUT" '[1-9][0-9]* .*spans.jsonl' 'nor in Bash'
is "$(find "$D" -name '.cyberos-*')" '' 'nothing unfinished is left'

# --- no standard variable reaches anybody ---

printf '#!/bin/sh\nenv; cyberos skill call Bash cmd=env; sleep 5\n' |
    skill probe "$TOOLS" "$GRANT"
OTEL_EXPORTER_OTLP_HEADERS=authorization=tok-4711
OTEL_EXPORTER_OTLP_LOGS_HEADERS=x=tok-4711
OTEL_BSP_MAX_QUEUE_SIZE=tok-4711
OTEL_EXPORTER_OTLP_ENDPOINT=tok-4711
export OTEL_EXPORTER_OTLP_HEADERS OTEL_EXPORTER_OTLP_LOGS_HEADERS \
    OTEL_BSP_MAX_QUEUE_SIZE OTEL_EXPORTER_OTLP_ENDPOINT
start --otel-file "$F" probe
until_true says exit_code
unset OTEL_EXPORTER_OTLP_HEADERS OTEL_EXPORTER_OTLP_LOGS_HEADERS \
    OTEL_BSP_MAX_QUEUE_SIZE OTEL_EXPORTER_OTLP_ENDPOINT
leaks=
for t_pid in $RUN $(children "$RUN") $(children "$(broker_pid)") $(init_pid) $(main_pid); do
	for t_file in environ cmdline; do
		# The test itself may not look at some of them, as nobody may.
		tr '\0' '\n' 2>/dev/null <"/proc/$t_pid/$t_file" |
		    grep -q 'tok-4711\|OTEL' && leaks="$leaks $t_pid:$t_file"
	done
done
is "$leaks" '' 'no process has a token in its environment or arguments'
finish
is "$(cat "$T/out" "$T/err" | grep -c tok-4711)" 0 'and nothing prints it'
like "$ERR" 'OTEL_BSP_MAX_QUEUE_SIZE: is no number' 'a bad number is a warning'
like "$ERR" 'OTEL_EXPORTER_OTLP_ENDPOINT: does not begin with http' \
    'so is what is no URL'
done_testing
