#!/bin/sh
# How long `broker.status` takes while a search, an HTTP call that is not
# answered and a Bash call that spins run in the same invocation; and without.
# In ms, of the machine. Usage: t/bench/busy.sh BUILD-DIRECTORY. Environment:
# FILES (20000), ASKS (1000).
set -eu
files=${FILES:-20000}
asks=${ASKS:-1000}
command -v python3 >/dev/null || {
	echo '# busy: python3 is not installed'
	exit 0
}
# shellcheck source=t/bench/lib.sh
. t/bench/lib.sh
server=
bench_end() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	rm -rf "$dir"
}
trap bench_end EXIT
mkdir -m 700 "$dir/store"
mkdir "$dir/skill" "$dir/tree"
awk -v n="$files" -v dir="$dir/tree" 'BEGIN {
	for (i = 0; i < 200; i++)
		text = text "no such word is to be found in this line\n"
	for (i = 0; i < n; i++) {
		if (i % 500 == 0)
			system("mkdir " (at = dir "/d" i))
		printf "%s", text >(name = at "/f" i)
		close(name)
	}
}'
# Takes connections and says nothing.
python3 -c '
import socket, sys, time
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
time.sleep(600)' >"$dir/port" &
server=$!
while [ ! -s "$dir/port" ]; do sleep 0.05; done
port=$(cat "$dir/port")
printf 'http_allow_addresses: [127.0.0.0/8]\n' >"$dir/conf.yaml"
cat >"$dir/skill/SKILL.md" <<EOT
---
id: busy
version: 1.0.0
description: Asks for the status while much is going on
allowed_tools: [Grep, HttpFetch, Bash]
allowed_memory_scopes: []
x-allowed-files: ["$dir/tree/**"]
x-allowed-domains: ["127.0.0.1:$port"]
---
EOT
cat >"$dir/skill/main" <<'EOT'
#!/usr/bin/python3
import json, os, socket, struct, sys, threading, time

def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ['CYBEROS_BROKER_SOCKET'])
    return s

def ask(s, method, params=None):
    m = {'jsonrpc': '2.0', 'id': 1, 'method': method}
    if params:
        m['params'] = params
    text = json.dumps(m).encode()
    s.sendall(struct.pack('>I', len(text)) + text)
    size = struct.unpack('>I', s.recv(4, socket.MSG_WAITALL))[0]
    return json.loads(s.recv(size, socket.MSG_WAITALL))

asks, tree, port, loads = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
stop = False
done = {}

def load(tool, args):
    s = connect()
    while not stop:
        a = ask(s, 'tool.call', {'tool': tool, 'args': args})
        if not stop:
            said = a.get('error', {}).get('message', 'ok')
            done[tool, said] = done.get((tool, said), 0) + 1

for tool, args in [
        ('Grep', {'pattern': 'nowhere[0-9]+', 'path': tree}),
        ('HttpFetch', {'url': f'http://127.0.0.1:{port}/', 'timeout_ms': 30000}),
        ('Bash', {'cmd': 'while :; do :; done', 'timeout_ms': 30000}),
        ] if loads == 'yes' else []:
    threading.Thread(target=load, args=(tool, args), daemon=True).start()
time.sleep(1)
s = connect()
took, calls = [], 0
for i in range(asks):
    t = time.monotonic_ns()
    a = ask(s, 'broker.status')
    took.append((time.monotonic_ns() - t) / 1e6)
    calls += 'result' in a
    time.sleep(0.003)
stop = True
took.sort()
print('%.3f %.3f %.3f %d' % (took[asks // 2], took[asks * 99 // 100], took[-1], calls),
    ' '.join(f'{tool}:{said}={n}' for (tool, said), n in sorted(done.items())), flush=True)
os._exit(0)
EOT
chmod 755 "$dir/skill/main"
printf '# what\tp50_ms\tp99_ms\tmost_ms\tgoal\tanswers\tcalls_that_ended\n'
for loads in no yes; do
	"$cyberos" skill broker run --quiet --config "$dir/conf.yaml" \
	    --store "$dir/store" --deadline 120 "$dir/skill" -- "$asks" \
	    "$dir/tree" "$port" $loads >"$dir/out"
	read -r p50 p99 most answers ended <"$dir/out"
	[ "$loads" = yes ] && goal='<=5' name=status_beside_three_loads ||
	    { goal=none name=status_alone; }
	printf '%s\t%s\t%s\t%s\t%s\t%s of %s\t%s\n' $name "$p50" "$p99" "$most" \
	    "$goal" "$answers" "$asks" "$ended"
done
