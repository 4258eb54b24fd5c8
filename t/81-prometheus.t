#!/bin/sh
# What is installed for Prometheus and Grafana, and a real Prometheus that
# scrapes both forms, answers with the right numbers, and raises an alert.
# shellcheck source=t/lib.sh
. ./t/lib.sh
# shellcheck source=t/live.sh
. ./t/live.sh

RULES=$PWD/man/share/alerts.yml
DASHBOARD=$PWD/man/share/dashboard.json
D=$T/d
mkdir -p "$D" "$T/www"
echo fine >"$D/a.txt"
TOOLS='allowed_tools: [Read]'
FILES="x-allowed-files: [\"$D/**\"]"
metrics() { "$CYBEROS" skill broker metrics --store "$STORE" "$@"; }

# --- what is installed

# Names of series, as somebody asks for them.
metrics | sed -n 's/^\(skill_[a-z_]*\).*/\1/p' | sort -u >"$T/names"
jq -r '.panels[].targets[].expr, (.templating.list[].query.query? // empty)' \
    "$DASHBOARD" >"$T/asked" 2>"$T/err"
is "$? $(cat "$T/err")" '0 ' 'the dashboard is JSON'
asked() { grep -o 'skill_[a-z_]*' "$@" | sort -u; }
is "$(asked "$T/asked" | comm -23 - "$T/names")" '' \
    'the dashboard asks for series that there are'
is "$(asked "$RULES" | comm -23 - "$T/names")" '' 'so do the alerts'
metrics | sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p' | sort -u >"$T/families"
is "$(asked "$T/asked" | sed 's/_bucket$//' | sort -u | comm -13 - "$T/families")" '' \
    'and no family is left out of it'
is "$(jq -r '.panels | (map(.id) | unique | length) == length' "$DASHBOARD")" \
    true 'each panel has its id'
is "$(jq -r '[.panels[].gridPos | select(.x + .w > 24)] | length' "$DASHBOARD")" 0 \
    'and fits'
sed -n 's/.*\$\([a-z_]*\).*/\1/p' "$T/asked" | sort -u |
    grep -vxE '__rate_interval|__range|instance|datasource' >"$T/unknown"
is "$(cat "$T/unknown")" '' 'no variable that is not set'

if ! command -v promtool >/dev/null || ! command -v prometheus >/dev/null; then
	skip 'Prometheus' 'prometheus is not installed'
	done_testing
fi
like "$(promtool check rules "$RULES" 2>&1)" 'SUCCESS: 8 rules found' \
    'promtool check rules'
mkdir "$T/rules"
cp "$RULES" "$T/rules/alerts.yml"
cp t/alerts.yml "$T/rules/test.yml"
promtool test rules "$T/rules/test.yml" >"$T/said" 2>&1
is "$?" 0 'promtool test rules: each alert fires, and is silent'
grep -q SUCCESS "$T/said" || note "$(cat "$T/said")"
# What it tests is every alert.
is "$(sed -n 's/.*alertname: \([A-Za-z]*\).*/\1/p' t/alerts.yml | sort -u)" \
    "$(sed -n 's/^ *- alert: //p' "$RULES" | sort)" 'all of them are tested'
sed 's/skill_broker_cap_bypass_attempts_total/skill_broker_cap_bypass_total/' \
    "$RULES" >"$T/rules/alerts.yml"
promtool test rules "$T/rules/test.yml" >"$T/said" 2>&1
is "$?" 1 'an alert on a name that is wrong would be seen'

# Every expression of the dashboard is one.
sed 's/\$__rate_interval/5m/g; s/\$__range/6h/g; s/\$instance/.*/g' "$T/asked" |
    grep -v label_values |
    awk 'BEGIN { print "groups:\n- name: x\n  rules:" }
	{ gsub(/\047/, "\047\047"); printf "  - record: x:y%d\n    expr: \047%s\047\n", NR, $0 }' \
	>"$T/dashboard.yml"
promtool check rules "$T/dashboard.yml" >"$T/said" 2>&1
is "$?" 0 'every expression of the dashboard can be read'
grep -q SUCCESS "$T/said" || note "$(cat "$T/said")"

if ! command -v python3 >/dev/null; then
	skip 'a scrape' 'python3 is not installed'
	done_testing
fi

# --- a real one

# publish: what a collector would have now, both forms at once
publish() {
	metrics --output "$T/www/text"
	metrics --openmetrics --output "$T/www/open"
}
cat >"$T/serve.py" <<'EOT'
import http.server, os, socket, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        kind = {"/text": "text/plain; version=0.0.4; charset=utf-8",
                "/open": "application/openmetrics-text; version=1.0.0; charset=utf-8"}
        if self.path not in kind:
            self.send_error(404)
            return
        body = open("www" + self.path, "rb").read()
        self.send_response(200)
        self.send_header("Content-Type", kind[self.path])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
# A port for Prometheus, which has to be told one.
other = socket.socket()
other.bind(("127.0.0.1", 0))
ports = "%d %d\n" % (server.server_address[1], other.getsockname()[1])
other.close()
with open("ports.new", "w") as f:
    f.write(ports)
os.rename("ports.new", "ports")
server.serve_forever()
EOT
SERVER='' PROM=''
stop() {
	[ -z "$PROM" ] || kill "$PROM" 2>/dev/null
	[ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null
	wait 2>/dev/null
}
trap 'stop; t_end' EXIT

in_skill "cyberos skill call Read path=$D/a.txt
cyberos skill call Read path=$D/a.txt
cyberos skill call Read path=$D/none
cyberos skill call Read path=/etc/passwd
cyberos skill call Nonsense x=1
exit 0" "$TOOLS" "$FILES"
publish
(cd "$T" && exec python3 serve.py) >"$T/serve.log" 2>&1 &
SERVER=$!
waited=0
while [ ! -e "$T/ports" ] && [ $waited -lt 600 ]; do
	sleep 0.1
	waited=$((waited + 1))
done
read -r from port <"$T/ports"
cat >"$T/prometheus.yml" <<EOT
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["$RULES"]
scrape_configs:
  - {job_name: text, metrics_path: /text, static_configs: [{targets: ["127.0.0.1:$from"]}]}
  - {job_name: open, metrics_path: /open, static_configs: [{targets: ["127.0.0.1:$from"]}]}
EOT
is "$(promtool check config "$T/prometheus.yml" >"$T/said" 2>&1; echo $?)" 0 \
    'its configuration names the rules'
prometheus --config.file="$T/prometheus.yml" --storage.tsdb.path="$T/tsdb" \
    --web.listen-address="127.0.0.1:$port" >"$T/prometheus.log" 2>&1 &
PROM=$!

# ask QUERY: "value" of each series, a line each, sorted
ask() {
	python3 - "$port" "$1" <<'EOT' 2>/dev/null
import json, sys, urllib.parse, urllib.request
url = "http://127.0.0.1:%s/api/v1/query?query=%s" % (
    sys.argv[1], urllib.parse.quote(sys.argv[2]))
answer = json.load(urllib.request.urlopen(url, timeout=60))
for line in sorted(r["value"][1] for r in answer["data"]["result"]):
    print(line)
EOT
}
# until QUERY ANSWER [SECONDS]
until_is() {
	t_left=${3:-120}
	while [ "$(ask "$1")" != "$2" ] && [ "$t_left" -gt 0 ] &&
	    kill -0 "$PROM" 2>/dev/null; do
		sleep 0.5
		t_left=$((t_left - 1))
	done
	[ "$(ask "$1")" = "$2" ]
}
until_is 'sum(up)' 2
ok $? 'it scrapes both forms'
C=skill_broker_tool_calls_total
for job in text open; do
	is "$(ask "sum(${C}{job=\"$job\",tool_name=\"Read\",outcome=\"success\"})") $(ask "sum(${C}{job=\"$job\",outcome=\"denied\"})") $(ask "sum(${C}{job=\"$job\"})")" \
	    '2 2 5' "$job: calls"
	is "$(ask "skill_broker_tool_duration_seconds_count{job=\"$job\",tool_name=\"Read\"}") $(ask "skill_broker_tool_duration_seconds_bucket{job=\"$job\",tool_name=\"Read\",le=\"+Inf\"}")" \
	    '3 3' "$job: times"
	like "$(ask "histogram_quantile(0.5, sum by (le) (skill_broker_tool_duration_seconds_bucket{job=\"$job\"}))")" \
	    '^[0-9.e-]+$' "$job: a quantile"
	is "$(ask "skill_broker_build_info{job=\"$job\",version=\"1.0.0\"}")" 1 \
	    "$job: the version"
done
N='{__name__=~"skill_.*",job="'
is "$(ask "count(${N}text\"})")" "$(metrics | grep -vc '^#')" 'no series was dropped'
is "$(ask "count(${N}open\"})") $(ask "sum(${N}open\"})")" \
    "$(ask "count(${N}text\"})") $(ask "sum(${N}text\"})")" \
    'and both forms are the same'

# --- it goes on

is "$(ask 'ALERTS{alertname="SkillBrokerEscapeAttempt"}')" '' 'no alert so far'
in_skill "cyberos skill call Read path=$D/a.txt
unshare -m true
exit 0" "$TOOLS" "$FILES"
publish
until_is "${C}{job=\"text\",tool_name=\"Read\",outcome=\"success\"}" 3
ok $? 'the next scrape has the next call'
until_is 'count(ALERTS{alertname="SkillBrokerEscapeAttempt",alertstate="firing",syscall="unshare"})' 1
ok $? 'and the first attempt to escape raises an alert'
stop
SERVER='' PROM=''
is "$(pgrep -f "$T/tsdb")" '' 'nothing of it is left'

done_testing
