#!/bin/sh
# Spans to a collector (SPEC 11): what arrives, decoded by classes that nobody
# here wrote, what becomes of it when the collector says no, is slow, hangs up or
# is not there, and that the password for it is nowhere else.
# Before lib.sh gives the test a home of its own.
MODULES=${CYBEROS_NPM:-${XDG_CACHE_HOME:-$HOME/.cache}/cyberos/npm}
# shellcheck source=t/lib.sh
. ./t/lib.sh
# shellcheck source=t/box.sh
. ./t/box.sh

NODE=$(command -v node) || {
	skip 'export to a collector' 'node is not installed'
	done_testing
}
[ -d "$MODULES/node_modules/@opentelemetry/otlp-transformer" ] || {
	skip 'payloads by the classes of the proto files' \
	    "npm has not installed them into $MODULES (make deps-test)"
	MODULES=
}
D=$T/d
mkdir -p "$D"
is_root || chmod 755 "$T"
echo content >"$D/f"
TOOLS='allowed_tools: [Read, Bash]'
GRANT="x-allowed-files: [\"$D/**\"]"
SERVER=
# shellcheck disable=SC2317 # the trap calls it
server_end() {
	status=$?
	[ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null
	wait 2>/dev/null
	(exit "$status")
	box_end
}
trap server_end EXIT

# collector SCRIPT-LINE...: one that answers so, in $C
collector() {
	C=$T/collector
	[ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null
	rm -f "$C"/port "$C"/requests "$C"/bodies "$C"/go
	mkdir -p "$C"
	printf '%s\n' "$@" >"$C/script"
	: >"$C/requests"
	: >"$C/bodies"
	OTLP_JS=$PWD/t/otlp.js
	(cd "$T" && exec "$NODE" "$OTLP_JS" collector "$MODULES") &
	SERVER=$!
	until_true test -s "$C/port" || exit 99
	OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:$(cat "$C/port")
	export OTEL_EXPORTER_OTLP_ENDPOINT
}
# requests FILTER; spans FILTER: of all that came in requests that were taken
requests() { jq -rc "$1" "$C/requests"; }
spans() {
	jq -rc 'select(.how == "200" or .how == "big") | .body.resourceSpans[].scopeSpans[].spans[]
	    | .attributes |= (map({key, value: (.value | to_entries[0].value)})
		| from_entries) | '"$1" "$C/bodies"
}
# dropped REASON: how many the last run says it has dropped for it
dropped() {
	printf '%s\n' "$ERR" | sed -n "s/.*traces: .* dropped: .*$1 \\([0-9]*\\).*/\\1/p"
}

# begin [OPTIONS]: a supervise that goes on as $RUN; ask N: N runs of `nothing`;
# until_ended N: so many have ended since it began
begin() {
	rm -f "$T/in"
	mkfifo "$T/in"
	"$CYBEROS" skill broker supervise --store "$STORE" --skills "$T/skills" \
	    "$@" <"$T/in" >"$T/out" 2>"$T/err" &
	RUN=$!
	exec 8>"$T/in"
}
ASKED=0
ask() {
	t_asked=0
	while [ "$t_asked" -lt "$1" ]; do
		t_asked=$((t_asked + 1))
		ASKED=$((ASKED + 1))
		printf '{"op":"run","id":%s,"skill":"nothing"}\n' "$ASKED"
	done >&8
}
ended() { [ "$(grep -c '"event":"completed"' "$T/out")" -eq "$1" ]; }
until_ended() { until_true ended "$1" || until_true ended "$1"; }
printf '#!/bin/sh\n' | skill nothing
# Spans of it: the frontmatter, the invocation.

printf '#!/bin/sh\ncyberos skill call Read path=%s/f >/dev/null\ncyberos skill call Read path=/etc/passwd 2>/dev/null\ncyberos skill call Bash cmd=true >/dev/null\n' \
    "$D" | skill few "$TOOLS" "$GRANT"
# Spans of it: 3 calls, 2 tools, the frontmatter, the invocation.
FEW=7
OTEL_EXPORTER_OTLP_TIMEOUT=5000
OTEL_METRICS_EXPORTER=none # but below
export OTEL_EXPORTER_OTLP_TIMEOUT OTEL_METRICS_EXPORTER

text() { "$CYBEROS" skill broker metrics --store "$STORE" | sed -n "s/^$1 //p"; }
drops() { text "skill_broker_spans_dropped_total{reason=\"$1\"}"; }
drops_are() { [ "$(drops "$1")" -eq "$2" ]; }

# --- a collector that takes it ---

collector 200
OTEL_EXPORTER_OTLP_HEADERS='authorization=Bearer%20t0ken,x-two=2' \
    OTEL_EXPORTER_OTLP_COMPRESSION=gzip OTEL_SERVICE_NAME=mine \
    broker_run --otel-file "$T/file" few
is "$RC $ERR" '0 ' 'nothing is said when all is fine'
is "$(requests '"\(.method) \(.path) \(.headers["content-type"]) \(.headers["content-encoding"])"' | sort -u)" \
    'POST /v1/traces application/json gzip' 'it is POSTed where it should be, with gzip'
is "$(requests '"\(.headers.authorization) \(.headers["x-two"])"' | sort -u)" \
    'Bearer t0ken 2' 'with the headers of the variable, decoded'
is "$(requests '.problems[]')" '' 'and decodes'
is "$(requests .spans | awk '{ n += $1 } END { print n }')" "$FEW" 'every span has arrived'
is "$(spans .name | sort | uniq -c | tr -s ' ')" ' 3 skill.broker.tool_call
 1 skill.frontmatter.validate
 1 skill.invocation
 1 skill.tool.bash.exec
 1 skill.tool.file.read' 'each once'
is "$(jq -c '.resourceSpans[].scopeSpans[].spans[]' "$T/file" | sort | sha256sum)" \
    "$(jq -c '.body.resourceSpans[].scopeSpans[].spans[]' "$C/bodies" | sort | sha256sum)" \
    'the file has the same spans, to the byte'
is "$("$NODE" t/otlp.js "$T/file" "$MODULES")" "$FEW" 'and it decodes as well'
is "$(jq -rc '.body.resourceSpans[].resource.attributes[] | select(.key == "service.name") | .value.stringValue' "$C/bodies" | sort -u)" \
    mine 'under the name of the variable'

collector 200
OTEL_BSP_MAX_EXPORT_BATCH_SIZE=1 broker_run few
is "$(requests .spans | sort | uniq -c | tr -s ' ') $(spans .spanId | sort -u | wc -l)" " $FEW 1 $FEW" \
    'a request has no more than it may, of a call and its tool neither'

# --- one that does not take all of it, or not yet ---

collector 'partial 3' 200
broker_run few
is "$(requests .how)" partial 'partial success is not tried again'
is "$(dropped rejected)" 3 'and what it cost is counted'
like "$ERR" 'took a part only' 'and said'
unlike "$ERR" 'peer-text' 'in words of ours'
collector 'partial 2 text'
broker_run few
is "$(dropped rejected)" 2 'a number may come as text'
collector 'partial 99999999999999'
broker_run few
is "$(dropped rejected)" "$FEW" 'no more is lost than was sent'
collector 'partial -1' 200
broker_run few
is "$RC $(dropped rejected)" '0 ' 'a number that is none counts nothing'
collector 'partial 0'
OTEL_BSP_MAX_EXPORT_BATCH_SIZE=1 broker_run few
is "$RC $(requests .how | sort | uniq -c | tr -s ' ')" "0  $FEW partial" \
    'one that takes all, with a message'
is "$ERR" 'cyberos[warn] traces: the collector took them, with a warning' \
    'is a warning, once, without its words'
collector 'partial 0 empty'
broker_run few
is "$RC $ERR" '0 ' 'an empty message is none'
collector 'partial 1' 400
OTEL_BSP_MAX_EXPORT_BATCH_SIZE=4 broker_run few
like "$ERR" 'collector answered 400' 'and other trouble is said as well'

for how in 502 503 504 close; do
	collector "$how" 200
	broker_run few
	is "$(requests .how | tr '\n' ' ')$(requests .spans | tail -n 1)" \
	    "$how 200 $FEW" "$how: it is tried again"
	unlike "$ERR" dropped "$how: and nothing is lost"
done
collector '429 1' 200
broker_run few
is "$(requests .how | tr '\n' ' ')" '429 200 ' '429: it is tried again'
is "$(requests .at | tr '\n' ' ' | awk '{ print ($2 - $1 >= 1000) }')" 1 \
    'when Retry-After says so'
collector '429 3600' 200
broker_run few
is "$(requests .how | tr '\n' ' ') $(dropped shutdown)" "429  $FEW" \
    'at the end nobody waits for an hour'
for how in 400 401 404 408 413 500 "moved http://127.0.0.1:$(cat "$C/port")/x"; do
	collector "$how" 200
	broker_run few
	is "$(requests .how | tr '\n' ' ')$(dropped failed)" \
	    "${how%% *} $FEW" "${how%% *}: it is dropped"
done
like "$ERR" 'collector answered 302' 'and the answer is named'
collector big
broker_run few
is "$RC $(requests .spans) $(dropped failed)" "0 $FEW " \
    'an answer that does not end is an answer'
collector junk
broker_run few
is "$RC $(requests .how) $(dropped failed)" "0 junk $FEW" 'what is no HTTP is none'

# --- one that is slow, or not there ---

printf '#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8 9 10; do cyberos skill call Read path=%s/f >/dev/null; done\n' \
    "$D" | skill ten "$TOOLS" "$GRANT"
collector hang
OTEL_EXPORTER_OTLP_TIMEOUT=700 OTEL_BSP_MAX_QUEUE_SIZE=10 \
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE=2 broker_run ten
is "$RC $(count skill.tool_call_completed)" '0 10' 'a collector that hangs: every call is answered'
is "$(($(dropped queue_full) + $(dropped failed) + $(dropped shutdown)))" 22 \
    'and every span is accounted for'
kill "$SERVER"
wait "$SERVER" 2>/dev/null
SERVER=
OTEL_EXPORTER_OTLP_TIMEOUT=300 broker_run ten
is "$RC $(count skill.tool_call_completed) $(dropped shutdown)" '0 10 22' \
    'none that listens: the same'
like "$ERR" 'did not answer' 'and it is said why'

# Many invocations that end meanwhile: what they leave has the room of one queue.
# held: a collector that has a request and answers it when $C/go is there
held() {
	collector hold
	OTEL_EXPORTER_OTLP_TIMEOUT=60000 OTEL_BSP_SCHEDULE_DELAY=100 begin --max 1
	ask 1
	until_ended 1
	until_true test -s "$C/requests"
}
arrived() { jq -s 'map(.spans) | add // 0' "$C/requests"; }
held
ask 100
until_ended 101
: >"$C/go"
exec 8>&-
finish
is "$RC $ERR" '0 ' 'as long as they fit, nothing is lost'
is "$(arrived)" 202 'and all of it is sent'
OTEL_BSP_MAX_QUEUE_SIZE=10
export OTEL_BSP_MAX_QUEUE_SIZE
held
ask 30
until_ended 31
: >"$C/go"
exec 8>&-
finish
unset OTEL_BSP_MAX_QUEUE_SIZE
is "$(($(arrived) + $(dropped queue_full))) $(dropped failed) $(dropped shutdown)" '62 0 0' \
    'what does not fit is dropped as queue_full'
like "$(arrived)" '^1[0-2]$' 'as many have waited as may'
jq -r '.body.resourceSpans[].scopeSpans[].spans[].attributes[]
    | select(.key == "invocation_id") | .value.stringValue' "$C/bodies" |
    sort -u >"$T/arrived"
is "$(jq -r 'select(.event == "completed") | .invocation_id' "$T/out" |
    head -n "$(wc -l <"$T/arrived")" | sort)" "$(cat "$T/arrived")" \
    'and the oldest'

# A signal does not have to wait for the last flush.
collector hang
start few
until_true test -s "$T/result.json"
until_true test -s "$C/requests"
kill -TERM "$RUN"
finish
is "$RC $(result outcome) $(dropped shutdown)" "143 success $FEW" \
    'a signal ends the last flush'
nothing_left 'an export that was cut short'
INV=

# --- what is not sent ---

collector 200
for set in OTEL_SDK_DISABLED=true OTEL_TRACES_EXPORTER=none \
    OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf \
    OTEL_TRACES_SAMPLER=always_off OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=ftp://x/; do
	(
		export "${set?}"
		broker_run few
		printf '%s\n%s\n' "$RC" "$ERR" >"$T/said"
	)
	is "$(sed -n 1p "$T/said") $(wc -l <"$C/requests" | tr -d ' ')" '0 0' \
	    "$set: nothing is sent"
	case $set in
	*PROTOCOL* | *ENDPOINT*) like "$(cat "$T/said")" 'warn.*OTEL_' "$set: with a warning" ;;
	*) is "$(sed -n 2p "$T/said")" '' "$set: without a word" ;;
	esac
done

# --- the process, and the password ---

cat >"$T/wait" <<EOT
#!/bin/sh
cyberos skill call Read path=$D/f >/dev/null
echo ready
cyberos skill call Bash cmd='env; ls /proc; until [ -e $D/go ]; do sleep 0.1; done'
EOT
skill waits "$TOOLS" "$GRANT" <"$T/wait"
export OTEL_EXPORTER_OTLP_HEADERS='authorization=tok-4711'
start waits
until_true says ready
unset OTEL_EXPORTER_OTLP_HEADERS
exporter() {
	for t_pid in $(children "$RUN"); do
		[ "$(cat "/proc/$t_pid/comm" 2>/dev/null)" = cyberos-export ] &&
		    echo "$t_pid"
	done
}
until_true test -n "$(exporter)"
X=$(exporter)
like "$X" '^[0-9]+$' 'there is one exporter'
is "$(tr '\0' ' ' <"/proc/$X/cmdline")" 'cyberos-net export ' 'its arguments hold nothing'
is "$(sed -n 's/^\(NoNewPrivs\|Seccomp\|CapEff\|CapPrm\):[[:space:]]*//p' "/proc/$X/status" | tr '\n' ' ')" \
    '0000000000000000 0000000000000000 1 2 ' 'it has no capability, no new privileges, a filter'
leaks=
for t_proc in /proc/[0-9]*; do
	[ "$t_proc" != "/proc/$$" ] || continue
	for t_file in environ cmdline; do
		tr '\0' '\n' 2>/dev/null <"$t_proc/$t_file" |
		    grep -q tok-4711 && leaks="$leaks $t_proc/$t_file"
	done
done
is "$leaks" '' 'no process on the host shows the password'
if is_root; then
	is "$(awk '/^Uid:/ { print ($2 >= 2000000000), $2 == $3 && $3 == $4 }' "/proc/$X/status")" \
	    '1 1' 'it has a uid of its own'
	is "$(find "/proc/$X/fd" -lname '/*' ! -lname /dev/null ! -lname '/memfd:*' | wc -l | tr -d ' ')" 0 \
	    'and no file is open'
	is "$(tr -d '\0' <"/proc/$X/environ")" '' 'and no environment'
fi
is "$(sed -n 's/^Max core file size *\([0-9]*\) *\([0-9]*\).*/\1 \2/p' "/proc/$X/limits")" '0 0' \
    'it leaves no core'
: >"$D/go"
finish
rm "$D/go"
is "$(cat "$T/out" "$T/err" | grep -c tok-4711) $(grep -rl tok-4711 "$STORE" | wc -l | tr -d ' ')" \
    '0 0' 'nor does the skill, a log or the ledger'
is "$(requests .headers.authorization | sort -u)" tok-4711 'but the collector has it'
nothing_left 'an export'

# A killed exporter is started again, as it was; what waits in queues is not lost.
# restarted PID: another one than that is there
restarted() { t_now=$(exporter) && [ -n "$t_now" ] && [ "$t_now" != "$1" ]; }
collector 200
OTEL_EXPORTER_OTLP_HEADERS='authorization=tok-4711' OTEL_BSP_SCHEDULE_DELAY=60000
export OTEL_EXPORTER_OTLP_HEADERS OTEL_BSP_SCHEDULE_DELAY
start waits
unset OTEL_EXPORTER_OTLP_HEADERS OTEL_BSP_SCHEDULE_DELAY
until_true says ready
if is_root; then
	is "$(find /proc/[0-9]*/fd -lname '/memfd:exporter*' 2>/dev/null | cut -d / -f 3 | sort -u)" \
	    "$RUN" 'what it is started with is nobody else'"'"'s'
fi
X=$(exporter)
kill -9 "$X"
holds 'a killed exporter: there is another one' until_true restarted "$X"
: >"$D/go"
finish
rm "$D/go"
is "$RC $(result outcome)" '0 success' 'the skill runs to its end'
like "$ERR" 'exporter is gone; it is started again in 1 s' 'and it is said'
unlike "$ERR" 'dropped' 'nothing is lost'
is "$(spans .spanId | sort -u | wc -l) $(requests .headers.authorization | sort -u)" \
    '6 tok-4711' 'all of it is sent, with the password'
nothing_left 'a killed exporter'

# What it had is lost, and counted at once.
collector hang hang 200
OTEL_EXPORTER_OTLP_TIMEOUT=60000 OTEL_BSP_SCHEDULE_DELAY=100 begin --max 1
had=$(drops failed)
lost() { [ "$(drops failed)" -gt "$1" ]; }
asked() { [ "$(requests .how | wc -l)" -eq "$1" ]; }
for n in 1 2; do
	ask 1
	until_true asked "$n"
	X=$(exporter)
	now=$(drops failed)
	kill -9 "$X"
	holds "killed with a request on its way: counted as failed ($n)" \
	    until_true lost "$now"
	ask 1
	until_true restarted "$X"
done
exec 8>&-
finish
like "$ERR" 'started again in 1 s' 'it is started again'
like "$ERR" 'started again in 2 s' 'the second time later'
is "$(($(spans .spanId | sort -u | wc -l) + $(dropped failed)))" 8 \
    'and every span is accounted for'
is "$(drops failed)" $((had + $(dropped failed))) 'each once'
nothing_left 'an exporter that was killed twice'
INV=

# A killed broker: what it had done gets out.
collector 200
start waits
until_true says ready
kill -9 "$(broker_pid)"
finish
is "$RC $(spans .name | sort | tr '\n' ' ')" \
    '125 skill.broker.tool_call skill.frontmatter.validate skill.invocation skill.tool.file.read ' \
    'a killed broker: what it had done arrives'
is "$(spans 'select(.name == "skill.invocation") | .attributes.outcome')" panic \
    'with its end, from the supervisor'
nothing_left 'a killed broker'
INV=

# --- TLS ---

if openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -keyout "$T/tls.key" \
    -out "$T/tls.pem" >/dev/null 2>&1; then
	mkdir -p "$T/collector"
	cp "$T/tls.key" "$T/tls.pem" "$T/collector"
	collector 200
	OTEL_EXPORTER_OTLP_ENDPOINT=https://localhost:$(cat "$C/port")
	export OTEL_EXPORTER_OTLP_ENDPOINT
	broker_run few
	is "$RC $(wc -l <"$C/requests" | tr -d ' ') $(dropped failed)" "0 0 $FEW" \
	    'TLS: a collector that nobody vouches for gets nothing'
	OTEL_EXPORTER_OTLP_CERTIFICATE=$T/tls.pem broker_run few
	is "$RC $(requests .spans)" "0 $FEW" 'TLS: with its certificate it does'
	cp "$T/tls.pem" "$C/client-ca.pem"
	collector 200
	OTEL_EXPORTER_OTLP_ENDPOINT=https://localhost:$(cat "$C/port")
	export OTEL_EXPORTER_OTLP_ENDPOINT
	OTEL_EXPORTER_OTLP_CERTIFICATE=$T/tls.pem broker_run few
	is "$(wc -l <"$C/requests" | tr -d ' ')" 0 'TLS: one that wants a certificate'
	OTEL_EXPORTER_OTLP_CERTIFICATE=$T/tls.pem \
	    OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=$T/tls.pem \
	    OTEL_EXPORTER_OTLP_CLIENT_KEY=$T/tls.key broker_run few
	is "$RC $(requests .spans)" "0 $FEW" 'TLS: gets one'
	# The key is out of a skill's reach, in a directory that was granted too.
	cp "$T/tls.key" "$D/tls.key"
	printf '#!/bin/sh\ncyberos skill call Read path=%s/tls.key\n' "$D" |
	    skill probe "$TOOLS" "$GRANT"
	OTEL_EXPORTER_OTLP_CLIENT_KEY=$D/tls.key broker_run probe
	is "$(rows skill.tool_denied .reason)" '"protected"' \
	    'TLS: the key is out of the reach of skills'
	OTEL_EXPORTER_OTLP_CERTIFICATE=$T/none broker_run few
	is "$RC" 0 'TLS: a certificate that is not there'
	like "$ERR" 'OTEL_EXPORTER_OTLP_CERTIFICATE .*nothing is sent' 'TLS: is said'
	rm -f "$C"/tls.* "$C/client-ca.pem"
else
	skip 'TLS to a collector' 'openssl makes no certificate'
fi

# --- metrics ---

collector 400
had=$(drops failed)
OTEL_BSP_SCHEDULE_DELAY=100 begin
ask 1
holds 'spans are counted as dropped while the supervisor goes on' \
    until_true drops_are failed $((had + 2))
kill -9 "$RUN"
exec 8>&-
finish
is "$(drops failed)" $((had + 2)) 'and stay so when it is killed'
collector 400
OTEL_BSP_SCHEDULE_DELAY=100 begin
ask 1
until_true drops_are failed $((had + 4))
exec 8>&-
finish
is "$(drops failed)" $((had + 4)) 'and are counted once'

# value FAMILY FILTER: of a counter in the last payload of metrics
payloads() { jq -c 'select(.body.resourceMetrics) | .body' "$C/bodies"; }
value() {
	payloads | tail -n 1 | jq -r ".resourceMetrics[].scopeMetrics[].metrics[]
	    | select(.name | startswith(\"$1\")) | (.sum // .gauge).dataPoints[]
	    | . + {a: (.attributes | map({key, value: .value.stringValue}) | from_entries)}
	    | select($2) | .asInt"
}
is "$(drops rejected)" $((3 + 2 + FEW + 1)) \
    'what was dropped above is in the metrics: rejected'
like "$(drops failed)" '^[1-9][0-9]+$' \
    'failed'
like "$(drops shutdown)" '^[1-9][0-9]+$' \
    'shutdown'
collector 200
OTEL_METRICS_EXPORTER=otlp OTEL_TRACES_EXPORTER=none broker_run few
is "$RC $ERR" '0 ' 'metrics are pushed'
is "$(requests '"\(.method) \(.path) \(.headers["content-type"])"')" \
    'POST /v1/metrics application/json' 'once, at the end'
is "$(requests '.problems[]')" '' 'and decode'
for outcome in success denied; do
	is "$(value skill_broker_tool_calls ".a.tool_name == \"Read\" and .a.outcome == \"$outcome\"")" \
	    "$(text "skill_broker_tool_calls_total{tool_name=\"Read\",outcome=\"$outcome\"}")" \
	    "with the same numbers: $outcome"
done
is "$(payloads | jq -r '.resourceMetrics[].resource.attributes[] | select(.key == "service.instance.id") | .value.stringValue')" \
    "$(jq -r .host "$STORE/audit/host.json")" 'of this host'
printf '#!/bin/sh\nsleep 3\n' | skill naps
collector 200
OTEL_METRICS_EXPORTER=otlp OTEL_METRIC_EXPORT_INTERVAL=300 broker_run naps
like "$(payloads | wc -l)" '^ *([3-9]|1[0-9])$' 'and all the time while it runs'
is "$(payloads | jq -r '[.. | .startTimeUnixNano? // empty] | unique | .[]' | sort -u | wc -l | tr -d ' ')" 1 \
    'since one and the same time'
is "$(requests '.problems[]')$(requests .path | sort -u | tr '\n' ' ')" \
    '/v1/metrics /v1/traces ' 'beside traces'
collector 200
perl -MFcntl=:flock -e 'open(F, ">>", $ARGV[0]); flock(F, LOCK_EX); $| = 1; print "ready\n"; sleep 60' \
    "$STORE/run/metrics.push" >"$T/holds" &
HOLDS=$!
until_true grep -q ready "$T/holds"
OTEL_METRICS_EXPORTER=otlp broker_run few
is "$RC $(requests .path | sort -u)" '0 /v1/traces' 'by one supervisor at a time'
kill "$HOLDS"
wait "$HOLDS" 2>/dev/null
collector 503
OTEL_METRICS_EXPORTER=otlp OTEL_TRACES_EXPORTER=none \
    OTEL_EXPORTER_OTLP_METRICS_TIMEOUT=2000 broker_run few
is "$RC" 0 'a collector that takes none costs nothing'
like "$ERR" 'metrics: the collector answered 503' 'and is named'

# --- many calls, mixed ---

cat >"$T/perl_mixed" <<'EOT'
use IO::Socket::UNIX;
$| = 1;
my ($n, $d) = @ARGV;
my $s = IO::Socket::UNIX->new($ENV{CYBEROS_BROKER_SOCKET}) or die;
my @calls = (qq({"tool":"Read","args":{"path":"$d/f"}}),
    q({"tool":"Read","args":{"path":"/etc/passwd"}}),
    qq({"tool":"Read","args":{"path":"$d/none"}}),
    q({"tool":"None","args":{}}), q({"tool":"Read","args":{}}),
    qq({"tool":"Read","args":{"path":"$d/f"},"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}),
    qq({"tool":"Read","args":{"path":"$d/f"},"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}));
for my $i (0 .. $n - 1) {
	my $m = qq({"jsonrpc":"2.0","id":$i,"method":"tool.call","params":$calls[$i % @calls]});
	print $s pack("N", length $m), $m;
	$s->flush;
	my $len = '';
	read($s, $len, 4) == 4 or die;
	read($s, my $answer, unpack("N", $len)) or die;
}
print "ready\n";
<STDIN>;
EOT
S=$((${T_CALLS:-1400} / 7)) # turns of the seven
CALLS=$((7 * S))
ALL=$((5 * S + 3 * S + 2)) # calls that are sampled, tools that ran, two more
perl_skill mixed "$TOOLS" "$GRANT" <"$T/perl_mixed"

# begin_mixed CALLS: that many calls in a run that goes on; RUN is its supervisor
begin_mixed() {
	mkfifo "$T/hold"
	INV=$(new_id)
	rm -f "$T/result.json"
	: >"$T/out"
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" \
	    --invocation "$INV" --result "$T/result.json" mixed -- "$1" "$D" \
	    <"$T/hold" >"$T/out" 2>"$T/err" &
	RUN=$!
	exec 7>"$T/hold"
	until_true says ready || until_true says ready
}

# Its memory is bounded by the queue: so many spans more make it no larger.
peaks() { # CALLS: the most KiB of broker and exporter, with a queue of 1024
	OTEL_BSP_MAX_QUEUE_SIZE=1024 OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=1000 begin_mixed "$1"
	for p in $(broker_pid) $(children "$RUN"); do
		case $(cat "/proc/$p/comm") in
		cyberos-broker | cyberos-export) sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$p/status" ;;
		esac
	done | sort -n | tail -n 1
	exec 7>&-
	finish
	rm "$T/hold"
}
collector hang
few=$(peaks 700)
many=$(peaks 14000)
note "memory with a collector that hangs: $few KiB after 700 calls, $many after 14000"
holds 'a collector that hangs: memory is bounded by the queue' \
    [ "$many" -lt $((few + few / 4 + 2048)) ]
export OTEL_EXPORTER_OTLP_COMPRESSION=gzip OTEL_BSP_MAX_QUEUE_SIZE=65536 \
    OTEL_BSP_SCHEDULE_DELAY=100 OTEL_EXPORTER_OTLP_TIMEOUT=60000
# all_but N: so many of all spans are not there yet, at most
all_but() { [ "$(arrived)" -ge $((ALL - $1)) ]; }
# mixed: run them; what is in time is not the last flush's
mixed() {
	collector 200
	begin_mixed "$CALLS"
	until_true all_but 1 || until_true all_but 1
}
outcomes() {
	spans 'select(.name == "skill.broker.tool_call") | .attributes.outcome' |
	    sort | uniq -c | tr -s ' \n' ' '
}
WANTED=" $((2 * S)) denied $S error $((2 * S)) success "
mixed
exec 7>&-
finish
rm "$T/hold"
is "$RC" 0 "$CALLS calls of mixed outcome"
is "$(requests '.problems[]' | sort -u)" '' 'every payload decodes'
is "$(requests 'select(.spans > 512) | .spans')" '' 'no batch is larger than it may be'
is "$(outcomes)" "$WANTED" 'a span for each, but what is not sampled'
is "$(arrived)" "$ALL" 'with its tool, the frontmatter and the invocation'
is "$(rows skill.tool_call_completed .outcome | sort | uniq -c | tr -s ' \n' ' ')$(count skill.tool_denied)" \
    " $S \"error\" $((3 * S)) \"success\" $((2 * S))" 'and rows'
is "$(spans .spanId | sort -u | wc -l)" "$(spans .spanId | wc -l)" 'no span came twice'
is "$(spans 'select(.name == "skill.invocation") | .attributes | "\(.calls) \(.denied) \(.rejected)"')" \
    "$((6 * S)) $((2 * S)) $S" 'the invocation has them all'
unlike "$ERR" dropped 'and none was lost'
mixed
kill -9 "$(broker_pid)"
exec 7>&-
finish
is "$RC$(outcomes)" "125$WANTED" 'a broker that is killed then: the same'
is "$(arrived)" "$ALL" 'to the last one'
verify_store
done_testing
