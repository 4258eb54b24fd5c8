#!/bin/sh
# cyberos-tutorial(7), typed: each block of commands, one after the other, and
# after it what the page says that comes out.
# shellcheck disable=SC2016 # dollars are the commands' own
. t/lib.sh

PAGE=$PWD/man/cyberos-tutorial.7

if ! command -v python3 >/dev/null; then
	skip 'the tutorial' 'no python3 for its web server'
	done_testing
fi

mkdir "$T/bin" "$T/here"
ln -s "$CYBEROS" "$T/bin/cyberos"
PATH=$T/bin:$PATH
export PATH
tutorial_end() {
	status=$?
	[ -s "$T/here/server.pid" ] && kill "$(cat "$T/here/server.pid")" \
	    2>/dev/null
	(exit "$status")
	t_end
}
trap tutorial_end EXIT

# The page says 8000; here it is a port that is free.
PORT=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')

# Blocks: those with commands are run.N, what follows says.N.
awk -v dir="$T" '/^\.Bd -literal -offset indent$/ { out = dir "/run." ++n; next }
    /^\.Bd -literal -offset indent-two$/ { out = dir "/says." n; next }
    /^\.Ed/ { out = ""; next }
    out != "" { gsub(/\\e/, "\\"); sub(/^\\&/, ""); print > out }' "$PAGE"
sed -i "s/8000/$PORT/g" "$T"/run.*
N=$(find "$T" -name 'run.*' | wc -l)
[ "$N" -ge 9 ]
ok "$?" "the page has commands ($N blocks)"

cd "$T/here" || exit 99
n=0
while [ "$n" -lt "$N" ]; do
	n=$((n + 1))
	sh "$T/run.$n" >"$T/out" 2>&1 </dev/null
	rc=$?
	head=$(head -n 1 "$T/run.$n" | cut -c 1-50)
	# A block ends with a status of its own only where something is refused.
	want=0
	grep -q 'exit status 5\|address_not_public' "$T/says.$n" 2>/dev/null && want=5
	grep -q SignatureFailed "$T/says.$n" 2>/dev/null && want=6
	is "$rc" "$want" "block $n: $head"
	[ "$rc" -eq "$want" ] || note "$(cat "$T/out")"
	missing=
	[ -f "$T/says.$n" ] || : >"$T/says.$n"
	while IFS= read -r line; do
		grep -qF -- "$line" "$T/out" || missing="$missing
$line"
	done <"$T/says.$n"
	is "$missing" '' "block $n: what the page says comes out"
	[ -z "$missing" ] || note "$(cat "$T/out")"
	grep -q 'http.server' "$T/run.$n" || continue
	tries=0
	until python3 -c "import socket
socket.create_connection(('127.0.0.1', $PORT))" 2>/dev/null ||
	    [ "$((tries += 1))" -gt 300 ]; do
		sleep 0.1
	done
done
server=$(cat server.pid)
tries=0
while kill -0 "$server" 2>/dev/null && [ "$((tries += 1))" -le 100 ]; do
	sleep 0.1
done
kill -0 "$server" 2>/dev/null
is "$?" 1 'nothing is left running'
is "$(grep -c 'GET / ' server.log)" 4 'the page was fetched when it should be'
is "$(jq -r 'select(.kind == "skill.tool_call_started") | .payload.resource' \
    store/audit/*/seg/*/*.jsonl | sort | uniq -c | tr -s ' \n' ' ')" \
    " 2 localhost:$PORT 2 memories/clip/latest " \
    'the ledger has the host and the note of both runs'
is "$(find . -name 'cyberos-try*' | wc -l)" 0 'and nothing else'

done_testing
