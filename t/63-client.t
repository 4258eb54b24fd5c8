#!/bin/sh
# cyberos skill call: the client of skills that are shell scripts.
# shellcheck disable=SC2016,SC2119 # pieces of Perl; a name that may be left out
# shellcheck source=t/lib.sh
. ./t/lib.sh

D=$T/d
mkdir -p "$D" "$STORE/memories/notes"
chmod 700 "$STORE"
is_root || chmod 755 "$T"
printf 'one\ntwo\n' >"$D/a.txt"
printf '\000\377binary' >"$D/b.bin"
printf 'a note' >"$STORE/memories/notes/n.md"
FILES="x-allowed-files: [\"$D/**\"]"
SCOPES='allowed_memory_scopes: [memories/notes/**]'
TOOLS='allowed_tools: [Read, Write, Edit, MemoryRead, MemoryEmit]'

# call WORDS: what the client prints and returns inside the sandbox; leaves
# RC, OUT, ERR of the client
call() {
	in_skill "cyberos skill call $1" "$TOOLS" "$SCOPES" "$FILES"
}

# --- results

call "Read path=$D/a.txt"
is "$RC $(printf '%s' "$OUT" | jq -c '[.body, .encoding, .size]')" \
    '0 ["one\ntwo\n","utf-8",8]' 'a result is JSON on standard output'
is "$ERR" '' 'and nothing on standard error'
is "$(wc -l <"$T/out" | tr -d ' ')" 1 'one line of it'
call "--raw body Read path=$D/a.txt"
is "$RC $OUT" '0 one
two' '--raw: one field, as it is'
cmp -s "$T/out" "$D/a.txt"
ok $? '--raw body: byte for byte, with no line feed added'
call "--raw body Read path=$D/b.bin"
cmp -s "$T/out" "$D/b.bin"
ok $? '--raw body: base64 becomes bytes again'
in_skill "cyberos skill call --raw stdout Bash 'cmd=printf \"a\\n\\377\"'" \
    'allowed_tools: [Bash]'
if [ "$RC" -eq 0 ]; then
	is "$(od -An -tx1 "$T/out" | tr -d ' ')" 610aff 'so do those of Bash'
else
	skip 'so do those of Bash' 'no user namespaces for Bash'
fi
call "--raw=size Read path=$D/a.txt"
is "$RC $OUT" '0 8' '--raw=FIELD; numbers too'
call "--raw truncated Read path=$D/a.txt"
is "$RC $OUT" '0 false' 'and truth values'
call "--raw nosuch Read path=$D/a.txt"
is "$RC $OUT" '1 ' 'a field that is not there'
like "$ERR" 'no field nosuch' 'is named'

# --- arguments

# args_hash: of the last call; hash_of TEXT
args_hash() { rows skill.tool_call_started '| .args_hash' | tr -d '"'; }
hash_of() { printf '%s' "$1" | sha256sum | cut -d ' ' -f 1; }

call "Read path=$D/a.txt offset=4 limit=3"
is "$RC $(printf '%s' "$OUT" | jq -c .body)" '0 "two"' 'numbers become numbers'
is "$(args_hash)" "$(hash_of "{\"limit\":3,\"offset\":4,\"path\":\"$D/a.txt\"}")" \
    'as the ledger says'
call "Write path=$D/n.txt body=42"
is "$RC $(cat "$D/n.txt")" '0 42' 'a number stays text where text is wanted'
call "Edit path=$D/n.txt old=4 new=5 all=true"
is "$RC $(cat "$D/n.txt")" '0 52' 'truth values'
call "Write path=$D/n.txt 'body=a=b \"c\" é
d'"
is "$RC $(cat "$D/n.txt")" '0 a=b "c" é
d' 'a value may hold anything'
call "Write path=$D/n.txt body="
is "$RC $(wc -c <"$D/n.txt")" '0 0' 'or nothing'
call "'{\"path\":\"$D/a.txt\",\"offset\":4}'"
is "$RC" 2 'the tool comes first'
call "Read '{\"path\":\"$D/a.txt\",\"offset\":4}'"
is "$RC $(printf '%s' "$OUT" | jq -c .body)" '0 "two\n"' 'JSON arguments'
call "MemoryEmit '{\"kind\":\"a.b\",\"path\":\"memories/notes/e.md\",\"payload\":{\"n\":[0.1,1e-7,9007199254740991,-0.0,123456789.123456789]}}'"
is "$RC $(segment | grep -o '"data":[^}]*}')" \
    '0 "data":{"n":[0.1,1e-7,9007199254740991,0,123456789.12345679]}' \
    'JSON goes out as it was written'
call "MemoryEmit kind=a.b path=memories/notes/e.md 'payload={\"x\":[1,null]}'"
is "$RC $(rows a.b '| .data')" '0 {"x":[1,null]}' 'payload is JSON'
call "MemoryEmit kind=a.b path=memories/notes/e.md 'payload=no JSON'"
is "$RC $(rows a.b '| .data')" '0 "no JSON"' 'or a text, when it is none'

# --- from files and standard input

# lead SCRIPT WORDS: call with a script before it
lead() {
	in_skill "$1 cyberos skill call $2" "$TOOLS" "$SCOPES" "$FILES"
}
lead 'printf "a\nb\"é\n" >/tmp/in;' "Write path=$D/n.txt body@=/tmp/in"
is "$RC $(cat "$D/n.txt")" '0 a
b"é' 'key@=FILE: the contents of a file'
is "$(wc -c <"$D/n.txt" | tr -d ' ')" 7 'whole'
lead 'printf "from input" |' "Write path=$D/n.txt body@=-"
is "$RC $(cat "$D/n.txt")" '0 from input' 'key@=-: standard input'
lead ': |' "Write path=$D/n.txt body@=-"
is "$RC $(wc -c <"$D/n.txt" | tr -d ' ')" '0 0' 'of no bytes'
lead "printf '\000\377binary' |" "Write path=$D/n.bin body@=-"
cmp -s "$D/n.bin" "$D/b.bin"
is "$? $RC" '0 0' 'bytes that are no text arrive as they are'
lead "printf '\000' |" "MemoryEmit kind=a.b path=memories/notes/e.md body@=-"
is "$RC $OUT $(result calls)" '2  0' \
    'where a tool takes text only they do not go'
like "$ERR" 'body: - holds bytes that are no text' 'it is said which'
lead "printf '{\"x\":[1]}' |" \
    "MemoryEmit kind=a.b path=memories/notes/e.md payload@=-"
is "$RC $(rows a.b '| .data')" '0 {"x":[1]}' 'JSON where JSON is wanted'
lead "printf '{\"path\":\"$D/a.txt\",\"offset\":4}' |" '--raw body Read -'
is "$RC $OUT" '0 two' 'all arguments from standard input'
call "Write path=$D/n.txt body=@/etc/passwd"
is "$RC $(cat "$D/n.txt")" '0 @/etc/passwd' 'a value that begins with @ is a value'
lead 'head -c 900000 /dev/zero | tr "\\000" x |' "Write path=$D/n.txt body@=-"
is "$RC $(wc -c <"$D/n.txt" | tr -d ' ')" '0 900000' \
    'more than fits into an argument'
lead 'head -c 1100000 /dev/zero | tr "\\000" x |' \
    "Write path=$D/n.txt body@=-"
is "$RC $OUT" '5 ' 'a request that is too large: exit 5'
like "$ERR" '^cyberos: request_too_large$' 'with its reason'
is "$(wc -c <"$D/n.txt" | tr -d ' ')" 900000 'the world did not change'
is "$(rows skill.tool_denied '| .reason')" '"request_too_large"' \
    'and the ledger has it'
lead 'head -c 20000000 /dev/zero |' "Write path=$D/n.txt body@=-"
is "$RC $OUT $(result denied)" '2  0' 'over 16 MiB it is not even sent'
like "$ERR" 'more than fits' 'it says so'

# --- answers whole

call "--json Read path=$D/a.txt"
is "$RC $(printf '%s' "$OUT" | jq -c '.result.body')" '0 "one\ntwo\n"' \
    '--json: a result'
call "--json Read path=$D/none.txt"
is "$RC $ERR $(printf '%s' "$OUT" | jq -c '[.error.code, .error.message]')" \
    '1  [-32000,"not_found"]' '--json: a failure, on standard output alone'
call "--json Read path=/nowhere"
is "$RC $ERR $(printf '%s' "$OUT" | jq -c '[.error.code, .error.data.reason]')" \
    '5  [-32603,"file_violation"]' '--json: a refusal'
call "--json Read"
is "$RC $ERR $(printf '%s' "$OUT" | jq -c '.error.code')" \
    '2  -32602' '--json: a wrong argument'

# --- again and again

call "--repeat 20 Read path=$D/a.txt"
is "$RC $(printf '%s' "$OUT" | jq -c '[.calls, .min_us <= .p50_us,
    .p50_us <= .p99_us, .p99_us <= .max_us]')" '0 [20,true,true,true]' \
    '--repeat: how long one took'
is "$(count skill.tool_call_completed)" 20 'each of them is in the ledger'
call "--repeat 20 Read path=$D/none.txt"
is "$RC $OUT $(count skill.tool_call_completed)" '1  1' \
    '--repeat: the first failure ends it'

# wrong WORDS REGEX NAME: a usage error before anything is asked
wrong() {
	call "$1"
	is "$RC $OUT" '2 ' "$3: exit 2"
	like "$ERR" "$2" "$3: is named"
	is "$(result calls) $(result rejected)" '0 0' "$3: nothing was asked"
}
wrong "Read $D/a.txt" 'write key=value' 'an argument without ='
wrong "Read =x" 'write key=value' 'an argument without a key'
wrong "Read path=a path=b" 'path: is there twice' 'an argument given twice'
wrong "Read '{\"path\":}'" 'no valid JSON.*at byte' 'JSON that is none'
wrong "Read '{\"path\":1,\"path\":2}'" 'no valid JSON.*duplicate' \
    'a member given twice'
wrong "Read \"path=\$(printf '\\377')\"" 'UTF-8' 'bytes that are no text'
wrong '' '^usage' 'no tool'
wrong '--bogus Read' '^usage' 'an unknown option'
wrong '--raw' '^usage' 'an option without its value'
wrong '--repeat 0 Read' 'write a number' 'no times at all'
wrong '--repeat 2 --json Read' '^usage' 'an answer that is not printed'
wrong '--json --raw body Read' '^usage' 'two forms at once'
wrong '- Read' '^usage' 'the tool behind its arguments'
wrong "Read path@=/nowhere/in" '/nowhere/in: No such file' 'a file that is not there'
wrong "Read path@=/tmp" '/tmp: Is a directory' 'a file that is a directory'
wrong "Read @=/tmp/x" 'write key=value' 'a file without a key'
wrong "Read - </dev/null" 'no valid JSON' 'no JSON on standard input'
wrong "Read - x=y </dev/null" 'write key=value' 'more than standard input'
# the broker's word on the rest
call 'Read'
is "$RC $OUT" '2 ' 'a missing argument: exit 2'
like "$ERR" 'path' 'it is named'
call "Read path=$D/a.txt limit=many"
is "$RC $OUT" '2 ' 'a wrong type: exit 2'
call "Read path=$D/a.txt nosuch=1"
is "$RC $OUT" '2 ' 'an unknown argument: exit 2'
like "$ERR" 'nosuch' 'it is named'

# --- failures and refusals

call "Read path=$D/none.txt"
is "$RC $OUT" '1 ' 'a tool that fails: exit 1'
like "$ERR" '^cyberos: not_found' 'the word is on standard error'
printf 'outside\n' >"$T/outside.txt"
call "Read path=$T/outside.txt"
is "$RC $OUT" '5 ' 'a refusal: exit 5'
like "$ERR" '^cyberos: file_violation$' 'with its reason, once'
like "$ERR" 'x-allowed-files' 'and what the author can change'
refused file_violation Read
call "Write path=$T/outside.txt body=changed"
is "$RC $(cat "$T/outside.txt")" '5 outside' 'the world did not change'
call 'Bash cmd=true'
is "$RC" 5 'a tool that is not granted: exit 5'
like "$ERR" '^cyberos: tool_not_allowed \(tool_not_in_allowed_tools\)$' \
    'with its class and reason'
call 'Nonsense x=1'
is "$RC" 5 'a tool that is none: exit 5'
like "$ERR" 'unknown_tool' 'with its reason'

# --- no broker

"$CYBEROS" skill call Read path=x >"$T/out" 2>"$T/err"
is "$? $(cat "$T/out")" '4 ' 'outside the sandbox: exit 4'
like "$(cat "$T/err")" 'CYBEROS_BROKER_SOCKET is not set' 'it says so'
CYBEROS_BROKER_SOCKET=$T/none "$CYBEROS" skill call Read path=x \
    >"$T/out" 2>"$T/err"
is "$? $(cat "$T/out")" '4 ' 'a socket that is not there: exit 4'
long=$T/$(printf 'x%.0s' $(seq 120))
CYBEROS_BROKER_SOCKET=$long "$CYBEROS" skill call Read path=x \
    >"$T/out" 2>"$T/err"
is "$? $(cat "$T/out")" '4 ' 'a socket whose name is too long: exit 4'

# server PERL: a false broker that reads one request and answers by this code
server() {
	perl -MIO::Socket::UNIX -e '
	    my $l = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die;
	    open my $up, ">", "$ARGV[0].up"; close $up;
	    my $c = $l->accept; read $c, my $n, 4;
	    read $c, my $text, unpack "N", $n;
	    sub answer { print $c pack("N", length $_[0]) . $_[0] }
	    '"$1" "$T/false" &
	while [ ! -e "$T/false.up" ]; do sleep 0.01; done
	CYBEROS_BROKER_SOCKET=$T/false "$CYBEROS" skill call Read path=x \
	    >"$T/out" 2>"$T/err"
	RC="$? $(cat "$T/out")"
	wait $!
	rm -f "$T/false" "$T/false.up"
}
server 'close $c'
is "$RC" '4 ' 'a broker that hangs up: exit 4'
server 'print $c pack("N", 100) . "{"; close $c'
is "$RC" '4 ' 'in the middle of its answer: exit 4'
server 'my $a = q({"jsonrpc":"2.0","id":1,"result":{"x":"é"}});
    $c->autoflush(1);
    for (split //, pack("N", length $a) . $a) { print $c $_; select undef, undef, undef, 0.001 }'
is "$RC" '0 {"x":"é"}' 'an answer that comes byte by byte'
server 'print $c pack("N", 0xffffffff); close $c'
is "$RC" '4 ' 'a length of 4 GiB: exit 4'
server 'answer("no json")'
is "$RC" '4 ' 'no JSON: exit 4'
server 'answer("[]")'
is "$RC" '4 ' 'no answer: exit 4'
server 'answer(q({"jsonrpc":"2.0","id":1}))'
is "$RC" '4 ' 'neither result nor error: exit 4'
server 'answer(q({"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}))'
is "$RC" '5 ' 'an error without data'
server 'answer(q({"jsonrpc":"2.0","id":1,"error":7}))'
is "$RC" '2 ' 'an error that is none'

# --- size

head -c 15000000 /dev/zero | tr '\0' a >"$D/large.txt"
in_skill "cyberos skill call --raw body Read path=$D/large.txt | cksum
cyberos skill call Read path=$D/large.txt | wc -c" "$TOOLS" "$FILES"
is "$RC $(printf '%s\n' "$OUT" | head -n 1)" "0 $(cksum <"$D/large.txt")" \
    'an answer of 15 MB'
size=$(printf '%s\n' "$OUT" | tail -n 1)
ok "$([ "$size" -gt 15000000 ]; echo $?)" 'whole as JSON too'
head -c 16000000 /dev/zero | tr '\0' '"' >"$D/large.txt"
in_skill "cyberos skill call Read path=$D/large.txt >/tmp/a
tail -c 300 /tmp/a | grep -o '\"truncated\":[a-z]*'
wc -c </tmp/a" "$TOOLS" "$FILES"
is "$RC $(printf '%s\n' "$OUT" | head -n 1)" '0 "truncated":true' \
    'one that was cut at 16 MiB'
size=$(printf '%s\n' "$OUT" | tail -n 1)
ok "$([ "$size" -gt 16700000 ] && [ "$size" -le 16777217 ]; echo $?)" \
    'of nearly 16 MiB'
rm "$D/large.txt"
in_skill "cyberos skill call Read path=$D/a.txt >/dev/full" "$TOOLS" "$FILES"
is "$RC" 1 'output that cannot be written: exit 1'
like "$ERR" 'standard output cannot be written' 'and it says so'

verify_store
done_testing
