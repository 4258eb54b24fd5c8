#!/bin/sh
# HttpFetch and HttpPost (SPEC 7.8): what was granted goes out and comes back,
# nothing else leaves, whatever a URL, a redirect, a name or a server says. The
# ground truth is the log of a server of our own, and nginx for TLS.
# shellcheck source=t/lib.sh
. ./t/lib.sh
# shellcheck source=t/box.sh
. ./t/box.sh

CONF=$T/conf.yaml
printf 'http_allow_addresses: [127.0.0.0/8]\n' >"$CONF"

# Without the name of the directory, by which processes are looked for.
WEB_PY=$PWD/t/web.py
(cd "$T" && exec python3 "$WEB_PY" . 3) &
WEB=$!
NGINX=
TLS=
# shellcheck disable=SC2317 # the trap calls it
http_end() {
	status=$?
	kill "$WEB" 2>/dev/null
	[ -z "$NGINX" ] || kill "$NGINX" 2>/dev/null
	[ -z "$TLS" ] || kill "$TLS" 2>/dev/null
	wait 2>/dev/null
	(exit "$status")
	box_end
}
trap http_end EXIT
until_true test -s "$T/ports" || exit 99
P1=$(sed -n 1p "$T/ports")
P2=$(sed -n 2p "$T/ports")
P3=$(sed -n 3p "$T/ports")
U1=http://localhost:$P1
U2=http://localhost:$P2
TOOLS='allowed_tools: [HttpFetch, HttpPost]'
HOSTS="x-allowed-domains: ['localhost:$P1', 'localhost:$P2', '127.0.0.1:$P1']"

# calls [OPTIONS...] -- YAML-LINE...: the calls on standard input, one a line,
# "TOOL ARGS"; the answers in order in $OUT, without what frames them
calls() {
	{
		echo open
		t_id=0
		while read -r t_tool t_args; do
			t_id=$((t_id + 1))
			printf 'send 1 {"jsonrpc":"2.0","id":%s,"method":"tool.call","params":{"tool":"%s","args":%s}}\nfull 1 60000\n' \
			    "$t_id" "$t_tool" "$t_args"
		done
	} >"$T/calls"
	t_options=
	while [ "$1" != -- ]; do
		t_options="$t_options $1"
		shift
	done
	shift
	skill wire "$@" <"$WIRE/main"
	: >"$T/log"
	# shellcheck disable=SC2086 # words
	broker_run $t_options wire <"$T/calls"
	OUT=$(sed -n 's/^1 //p' "$T/out")
}
# nth N FILTER: of the answers
nth() { printf '%s\n' "$OUT" | sed -n "$1p" | jq -r "$2"; }
# log: what the servers saw, without ports
log() { sed 's/^[0-9]* //' "$T/log"; }
seen() { grep -c ' HTTP/1' "$T/log"; }

# --- what is granted ---

calls --config "$CONF" -- "$TOOLS" "$HOSTS" <<EOT
HttpFetch {"url":"$U1/one","headers":{"X-Mine":"yes"}}
HttpFetch {"url":"$U1/two","method":"HEAD"}
HttpPost {"url":"$U1/post","body":"caf\\\\u00e9"}
HttpPost {"url":"$U1/post","body":"AAEC","encoding":"base64","content_type":"x/y"}
HttpFetch {"url":"$U1/gzip"}
HttpFetch {"url":"$U1/bytes"}
HttpFetch {"url":"$U1/status/404"}
HttpFetch {"url":"$U1/cookie"}
HttpFetch {"url":"$U1/again"}
HttpPost {"url":"$U1/nothing"}
HttpPost {"url":"$U1/own","body":"x","headers":{"content-Type":"o/w"}}
HttpFetch {"url":"$U1/brotli"}
EOT
is "$RC" 0 'the skill runs to its end'
is "$(nth 1 '.result | "\(.status) \(.body) \(.encoding) \(.truncated) \(.headers["content-length"])"')" \
    '200 hello utf-8 false 5' 'a fetch gives status, body and headers'
is "$(nth 1 .result.url)" "$U1/one" 'and the URL that answered'
is "$(nth 2 '.result | "\(.status) [\(.body)]"')" '200 []' 'HEAD has no body'
is "$(nth 5 .result.body)" unpacked 'gzip is undone'
is "$(nth 12 .result.body)" hello 'and so is brotli'
is "$(nth 6 .result.body | base64 -d | sha256sum)" \
    "$(perl -e 'print map { chr } 0 .. 255' | sha256sum)" 'bytes are base64'
is "$(nth 7 .result.status)" 404 '404 is a result'
is "$(nth 8 '.result.headers | "\(.["set-cookie"]) \(.["x-two"])"' | tr '\n' '|')" \
    'a=1|b=2 1, 2|' 'fields that come twice are one text'
is "$(log | grep -c '  x-mine: yes')" 1 'a header of the skill goes out'
is "$(log | grep -c "  body: b'caf\\\\xc3\\\\xa9'")" 1 'a body goes out as UTF-8'
is "$(log | grep -c "  body: b'\\\\x00\\\\x01\\\\x02'")" 1 'base64 goes out as bytes'
is "$(log | grep -c '  content-type: x/y')" 1 'with the type that was given'
is "$(log | grep -c '  content-type:')$(log | grep -c '  content-type: o/w')" 31 \
    'nothing has none, and the skill can name it in headers'
is "$(log | grep -c '  cookie:')" 0 'no cookie is kept'
is "$(log | sed -n 's/  from: //p' | sort -u | wc -l | tr -d ' ')" 1 \
    'one connection for all of it'
is "$(rows skill.tool_call_started '| .resource' | sort -u)" \
    "\"localhost:$P1\"" 'rows name host and port and no path'
is "$(count skill.tool_call_completed)" 12 'each has its end'

# --- trace context ---

TP=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
HIGH=cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-what.else
trace_call() {
	printf 'send 1 {"jsonrpc":"2.0","id":1,"method":"tool.call","params":{"tool":"HttpFetch","args":{"url":"%s"}%s}}\nrecv 1 20000\n' \
	    "$U1/" "$1"
}
skill wire "$TOOLS" "$HOSTS" <"$WIRE/main"
: >"$T/log"
{
	echo open
	trace_call ",\"traceparent\":\"$TP\",\"tracestate\":\"a=1,b=2\""
	trace_call ",\"traceparent\":\"$HIGH\""
	trace_call ''
	trace_call ',"traceparent":"rubbish","tracestate":"a=1"'
} >"$T/calls"
broker_run --config "$CONF" \
    --traceparent 00-11111111111111111111111111111111-2222222222222222-00 \
    wire <"$T/calls"
is "$(log | sed -n 's/  traceparent: //p' | sed -n 1,2p)" "$TP
$HIGH" 'traceparent goes out exactly as given'
is "$(log | sed -n 's/  tracestate: //p')" 'a=1,b=2' 'and tracestate'
is "$(log | sed -n 's/  traceparent: //p' | sed -n 3,4p |
    grep -cE '^00-1{32}-[0-9a-f]{16}-00$')" 2 \
    "without a valid one the invocation's trace id goes out"

# --- redirects (cases S52, S54) ---

# Perhaps nothing listens there; if it did, it would be seen.
calls --config "$CONF" -- "$TOOLS" "$HOSTS" <<EOT
HttpFetch {"url":"$U1/to/302?/next"}
HttpFetch {"url":"$U1/to/302?$U2/x","headers":{"Authorization":"Bearer S","Cookie":"c=1","X-Mine":"m"}}
HttpPost {"url":"$U1/to/303?$U2/get","body":"B1"}
HttpPost {"url":"$U1/to/307?$U2/post","body":"B2","content_type":"a/b"}
HttpFetch {"url":"$U1/loop/5"}
HttpFetch {"url":"$U1/loop/6"}
HttpFetch {"url":"$U1/to/302?http://localhost:$P3/"}
HttpFetch {"url":"$U1/to/302?http://169.254.169.254/latest"}
HttpFetch {"url":"$U1/to/302?file:///etc/passwd"}
HttpFetch {"url":"$U1/to/302?http://u:p@localhost:$P1/"}
HttpFetch {"url":"$U1/to/302?//evil.test/"}
HttpFetch {"url":"$U1/to/302?http://127.0.0.1:$P1/"}
HttpPost {"url":"$U1/to/308?$U2/post","body":"QjM=","encoding":"base64","headers":{"Content-Type":"c/d"}}
HttpPost {"url":"$U1/to/308?/same","body":"B4","content_type":"e/f"}
HttpPost {"url":"$U1/to/307?$U2/empty","content_type":"g/h"}
HttpFetch {"url":"$U1/to/304?$U2/"}
EOT
is "$(nth 1 '.result | "\(.status) \(.url)"')" "200 $U1/next" 'a redirect is followed'
is "$(grep "^$P1 " "$T/log" | grep -c 'authorization: Bearer S')" 1 \
    'Authorization goes where it was meant to go'
is "$(grep "^$P2 " "$T/log" | grep -cE 'authorization|cookie|x-mine')" 0 \
    'to another origin go no headers of the skill'
is "$(grep -c "^$P2 GET /x " "$T/log")" 1 'though the request goes'
is "$(grep "^$P2 " "$T/log" | grep -cE 'GET /get |POST /post ')" 3 \
    '303 makes a GET, 307 repeats the POST'
is "$(grep "^$P2 " "$T/log" | grep -E "content-type: |body: b'" | sed 's/^[0-9]* *//' | tr '\n' ' ')" \
    "content-type: text/plain; charset=utf-8 body: b'B2' content-type: application/octet-stream body: b'B3' " \
    'with its body, and the type that it has by default'
is "$(log | grep -c 'content-type: [ac]/')$(log | grep -c 'content-type: e/f')$(log | grep -c 'content-type: g/h')" 221 \
    'a type of the skill stays with the origin'
is "$(nth 5 .result.body)" arrived 'five redirects are followed'
is "$(nth 6 '"\(.error.code) \(.error.message)"')" '-32000 http_error' 'six are not'
for i in 7 8 9 10 11; do
	is "$(nth $i '"\(.error.code) \(.error.data.reason)"')" \
	    '-32603 domain_violation' "redirect $i is refused"
done
is "$(nth 12 .result.status)" 200 'another granted spelling of a host is fine'
is "$(nth 16 .result.status)" 304 'not every 3xx is a redirect'
is "$(grep -c "^$P3 " "$T/log")" 0 'nothing went where nothing may go'
is "$(rows skill.tool_denied '| [.violation, .call]' | tr '\n' ' ')" \
    "[\"localhost:$P3\",7] [\"169.254.169.254:80\",8] [null,9] [\"localhost:$P1\",10] [\"evil.test:80\",11] " \
    'rows name the hop and the call'
is "$(rows skill.tool_call_completed '| select(.call >= 7 and .call <= 11) | .outcome' | sort -u)" \
    '"denied"' 'which ends as denied'
is "$(result calls) $(result denied)" '16 5' 'calls and refusals are counted once'
verify_store 'the ledger holds'

# --- a name with an underscore is a name ---

calls --config "$CONF" -- "$TOOLS" "x-allowed-domains: ['a_b.localhost:$P1', '*:$P2']" <<EOT
HttpFetch {"url":"http://A_b.localhost:$P1/"}
HttpFetch {"url":"http://_c.a_b.localhost:$P2/"}
HttpFetch {"url":"http://a-b.localhost:$P1/"}
EOT
is "$(nth 1 .result.status) $(nth 2 .result.status) $(nth 3 .error.data.reason)" \
    '200 200 domain_violation' 'a host with an underscore is granted, by its name or by *'
is "$(log | sed -n 's/  host: //p' | tr '\n' ' ')" \
    "a_b.localhost:$P1 _c.a_b.localhost:$P2 " 'and sees its name'

# --- a redirect as browsers read it ---

calls --config "$CONF" -- "$TOOLS" "$HOSTS" <<EOT
HttpFetch {"url":"$U1/to/302?$U2/a%20b"}
HttpFetch {"url":"$U1/to/302?$U2/caf%C3%A9?q=%20%C3%A9%23f%20g"}
HttpFetch {"url":"$U1/to/302?HTTP://LOCALHOST:$P2/c%20d"}
HttpFetch {"url":"$U1/to/302?/caf%C3%A9%20e"}
HttpFetch {"url":"$U1/to/302?http://localhost%20:$P2/"}
HttpFetch {"url":"$U1/to/302?http://caf%C3%A9.localhost:$P2/"}
HttpFetch {"url":"$U1/to/302?http://localhost:99999/"}
HttpFetch {"url":"$U1/to/302?$U2/%01"}
HttpFetch {"url":"$U1/to/302?http://localhost:$P3/a%20b"}
HttpFetch {"url":"$U1/to/302?http://u@localhost:$P2/a%20b"}
HttpFetch {"url":"$U1/to/302?mailto:a@b.example%20x"}
EOT
is "$(nth 1 .result.url) $(nth 2 .result.url)" "$U2/a%20b $U2/caf%C3%A9?q=%20%C3%A9#f%20g" \
    'a blank and UTF-8 in a redirect are followed'
is "$(nth 3 .result.url) $(nth 4 .result.status)" "$U2/c%20d 200" 'whoever writes the scheme in capitals'
for i in 5 6 7 8; do
	is "$(nth $i .error.message)" http_error "redirect $i is no URL"
done
is "$(nth 9 .error.data.reason) $(nth 10 .error.data.reason) $(nth 11 .error.data.reason)" \
    'domain_violation domain_violation domain_violation' 'each is judged like a first request'
is "$(rows skill.tool_denied '| [.violation, .call]' | tr '\n' ' ')" \
    "[\"localhost:$P3\",9] [\"localhost:$P2\",10] [null,11] " 'and rows say what was refused'

# --- what would help ---

hint() { nth "$1" .error.data.hint; }
calls --config "$CONF" -- "$TOOLS" "$HOSTS" <<EOT
HttpFetch {"url":"http://other.example/"}
HttpFetch {"url":"http://u@localhost:$P1/"}
HttpFetch {"url":"http://127.1:$P1/"}
HttpFetch {"url":"http://127.1:$P2/"}
HttpFetch {"url":"http://intranet/"}
HttpFetch {"url":"http://localhost:0/"}
HttpFetch {"url":"$U1/to/302?http://u@localhost:$P1/"}
HttpFetch {"url":"$U1/to/302?http://127.1:$P1/"}
HttpFetch {"url":"$U1/to/302?http://127.1:$P2/"}
HttpFetch {"url":"$U1/to/302?ftp://localhost/"}
EOT
is "$(printf '%s\n' "$OUT" | jq -r '"\(.error.message) \(.error.data.reason)"' | sort -u)" \
    'domain_violation domain_violation' 'one word for all of them'
like "$(hint 1)" '^add the host to x-allowed-domains' 'a host that is not granted'
for i in 2 7; do like "$(hint $i)" '^take the user out' "a user ($i)"; done
for i in 3 4 5 6 8 9; do
	like "$(hint $i)" '^write the host as a full name' "what cannot be granted ($i)"
done
like "$(hint 10)" 'neither http nor https' 'another scheme'

# --- an address has one spelling ---

n=0
: >"$T/odd"
for h in 127.1 127.0.1 2130706433 0x7f.1 0x7F000001 0177.0.0.1 017700000001 \
    %31%32%37.0.0.1 127.0.0.%31 127.0.0.1. '[0::1]' '[0:0:0:0:0:0:0:1]' \
    '[::0.0.0.1]'; do
	printf 'HttpFetch {"url":"http://%s:%s/odd"}\n' "$h" "$P1"
	printf 'HttpFetch {"url":"%s/to/302?http://%s:%s/odd"}\n' "$U1" "$(printf '%s' "$h" | sed 's/%/%25/g')" "$P1"
	printf '%s\n' "$h" >>"$T/odd"
	n=$((n + 2))
done >"$T/odd-calls"
{
	cat "$T/odd-calls"
	cat <<EOT
HttpFetch {"url":"$U1/to/307?//127.1:$P1/odd"}
HttpFetch {"url":"$U1/to/307?HTTP:/127.1:$P1/odd"}
HttpFetch {"url":"http://127.0.0.1:$P1/to/301?http://0x7f.1:$P1/odd"}
HttpFetch {"url":"http://127.0.0.1:$P1/to/301?//127.0.0.1:$P1/even"}
HttpFetch {"url":"http://127.0.0.1:$P1/to/301?/even?http://127.1/"}
HttpFetch {"url":"http://127.0.0.1:$P1/to/301?../even"}
EOT
} >"$T/all-calls"
printf 'http_allow_addresses: [127.0.0.0/8, "::1"]\n' >"$T/odd.yaml"
calls --config "$T/odd.yaml" -- "$TOOLS" \
    "x-allowed-domains: ['localhost:$P1', '127.0.0.1:$P1', '[::1]:$P1']" <"$T/all-calls"
is "$(printf '%s\n' "$OUT" | head -n $((n + 3)) | jq -r '"\(.error.code) \(.error.data.reason)"' | sort | uniq -c | tr -s ' ')" \
    " $((n + 3)) -32603 domain_violation" 'no other spelling of a granted address is taken'
is "$(printf '%s\n' "$OUT" | tail -n 3 | jq -r .result.status | tr '\n' ' ')" \
    '200 200 200 ' 'its own is, by each kind of redirect'
is "$(grep -c ' /odd ' "$T/log") $(grep -c ' /even' "$T/log")" '0 3' 'nothing went to the others'
sed 's/.*/"&:'"$P1"'"/p' "$T/odd" >"$T/wanted"
is "$(rows skill.tool_denied '| .violation' | head -n $n)" "$(cat "$T/wanted")" \
    'rows have the spelling'

# --- addresses ---

calls -- "$TOOLS" "x-allowed-domains: ['localhost:$P1', '127.0.0.1:$P1', '[::1]:$P1', '0.0.0.0:$P1', '*']" \
    "x-http-allow-addresses: ['127.0.0.0/8']" <<EOT
HttpFetch {"url":"$U1/"}
HttpFetch {"url":"http://127.0.0.1:$P1/"}
HttpFetch {"url":"http://2130706433:$P1/"}
HttpFetch {"url":"http://[::1]:$P1/"}
HttpFetch {"url":"http://0:$P1/"}
HttpFetch {"url":"http://x.localhost/"}
EOT
for i in 1 2 3 4 5 6; do
	is "$(nth $i '"\(.error.code) \(.error.message) \(.error.data.reason)"')" \
	    '-32603 domain_violation address_not_public' "private address $i is refused"
done
is "$(seen)" 0 'and no server saw anything'
is "$(rows skill.tool_call_started '| .resource' | tr '\n' ' ')" \
    "\"localhost:$P1\" \"x.localhost:80\" " 'names start, for they have to be looked up'
is "$(rows skill.tool_call_completed '| .outcome' | sort -u)" '"denied"' 'and end as denied'
is "$(count skill.tool_denied)" 6 'each has its row'

# A proxy in the environment is nobody's.
http_proxy=http://127.0.0.1:$P3 https_proxy=$http_proxy ALL_PROXY=$http_proxy
export http_proxy https_proxy ALL_PROXY
calls --config "$CONF" -- "$TOOLS" "$HOSTS" <<EOT
HttpFetch {"url":"$U1/direct"}
EOT
unset http_proxy https_proxy ALL_PROXY
is "$(nth 1 .result.status) $(grep -c "^$P3 " "$T/log")" '200 0' 'no proxy is asked'

# --- every URL of the shared table ---

python3 - >"$T/urls" <<'EOT'
import json
for line in open("t/vectors/http-policy/url.tsv", encoding="ascii"):
    if line.startswith("#"):
        continue
    text, verdict = line.rstrip("\n").split("\t")[:2]
    text = text.replace("\\\\", "\0")
    out = b""
    while text:
        if text.startswith("\\x"):
            out += bytes([int(text[2:4], 16)])
            text = text[4:]
        else:
            out += text[0].encode()
            text = text[1:]
    url = out.replace(b"\0", b"\\").decode()
    args = json.dumps({"url": url, "timeout_ms": 5000})
    print(verdict, "HttpFetch", args.replace("\\", "\\\\"))
EOT
sed 's/^[a-z]* //' "$T/urls" | sed 's/\\/\\\\/g' >"$T/url-calls"
calls -- "$TOOLS" 'x-allowed-domains: [allowed.example]' <"$T/url-calls"
printf '%s\n' "$OUT" | jq -r 'if .error.code == -32603 and .error.message == "domain_violation" and .error.data.reason == "domain_violation" or .error.code == -32602 then "deny" else "allow" end' >"$T/verdicts"
sed 's/ .*//' "$T/urls" >"$T/wanted"
is "$(paste "$T/wanted" "$T/verdicts" | awk '$1 != $2 { print NR, $0 }')" '' \
    'every URL of the table comes out as it should'
is "$(wc -l <"$T/verdicts" | tr -d ' ')" 58 'all 58'
is "$(rows skill.tool_call_started '| .resource' | sort | uniq -c | tr -s ' \n' ' ')" \
    ' 1 "allowed.example:443" 4 "allowed.example:80" ' 'only the right host was ever looked for'
is "$(rows skill.tool_denied '| .violation' | grep -c 'evil.example:80')" 7 \
    'and rows say who was meant'

# --- bad arguments (case S56) ---

calls --config "$CONF" -- "$TOOLS" "$HOSTS" <<EOT
HttpFetch {"url":"$U1/","headers":{"X-A":"1\\\\r\\\\nX-Evil: 1"}}
HttpFetch {"url":"$U1/","headers":{"Host":"x"}}
HttpFetch {"url":"$U1/","headers":{"proxy-authorization":"x"}}
HttpFetch {"url":"$U1/","headers":{"traceparent":"$TP"}}
HttpFetch {"url":"$U1/","headers":{"X-A":""}}
HttpFetch {"url":"$U1/","headers":{"a b":"x"}}
HttpFetch {"url":"$U1/ x"}
HttpFetch {"url":"http://localhost:99999/"}
HttpPost {"url":"$U1/","body":"???","encoding":"base64"}
HttpPost {"url":"$U1/","content_type":"a\\\\nB: c"}
HttpFetch {"url":"$U1/","headers":{"X-A":"a\\\\u0085b"}}
HttpPost {"url":"$U1/","content_type":"a/b\\\\u009f"}
HttpPost {"url":"$U1/","content_type":"a/b","headers":{"Content-type":"c/d"}}
EOT
is "$(printf '%s\n' "$OUT" | jq -r .error.code | sort | uniq -c | tr -s ' ')" \
    ' 13 -32602' 'bad arguments are -32602'
is "$(seen) $(count skill.tool_call_started) $(result rejected)" '0 0 13' \
    'start nothing and count as rejected'

# --- servers that misbehave ---

calls --config "$CONF" -- "$TOOLS" "$HOSTS" 'effort_minutes: 5' <<EOT
HttpFetch {"url":"$U1/slow/20","timeout_ms":300}
HttpFetch {"url":"$U1/cut"}
HttpFetch {"url":"$U1/garbage"}
HttpFetch {"url":"$U1/heads/400"}
HttpFetch {"url":"http://localhost:1/"}
HttpFetch {"url":"$U1/after"}
EOT
is "$(nth 1 '"\(.error.code) \(.error.message)"')" '-32000 timeout' 'a slow server ends in a timeout'
is "$(nth 2 .error.message)" http_error 'a body that is cut off is no result'
is "$(nth 3 .error.message)" http_error 'nor is what is not HTTP'
is "$(nth 4 .error.message)" too_large 'headers have a limit'
is "$(nth 5 .error.data.reason)" domain_violation 'another port is another place'
is "$(nth 6 .result.status)" 200 'and then everything works'
is "$(rows skill.tool_call_completed '| [.outcome, .error_message]' | sed -n 1,4p | tr '\n' ' ')" \
    '["timeout","timeout 28"] ["error","http_error 18"] ["error","http_error 1"] ["error","too_large 23"] ' \
    'rows have the word and the number of the library'

# Answers as bytes, after which the connection is closed: what each is, as a
# status and a body, or as the word.
python3 - "$U1" >"$T/broken" <<'EOT'
import gzip, json, sys, urllib.parse, zlib
def case(wanted, head, body=b"", status=b"200 OK"):
    text = b"HTTP/1.1 %s\r\n" % status + head + (b"\r\n" if head is not cut else b"") + body
    url = sys.argv[1] + "/raw?" + urllib.parse.quote(text, safe="")
    print(wanted + "\tHttpFetch " + json.dumps({"url": url}))
def packed(coding, body, wanted, **more):
    case(wanted, b"Content-Encoding: %s\r\n" % coding, body, **more)
    case(wanted, b"Content-Encoding: %s\r\nContent-Length: %d\r\n" % (coding, len(body)), body, **more)
cut = b"X-A: 1\r\nContent-Le"
bare = zlib.compressobj(9, zlib.DEFLATED, -15)
bare = bare.compress(b"bare") + bare.flush()
one, two, framed = gzip.compress(b"one"), gzip.compress(b"two"), zlib.compress(b"framed")
brotli = bytes.fromhex("0b028068656c6c6f03")
twice = gzip.compress(one)
# whole
packed(b"GZip", one, "200 one")
packed(b"gzip", one + two, "200 onetwo")
packed(b"gzip", one + b"\0\0", "200 one")
packed(b"deflate", framed, "200 framed")
packed(b"deflate", bare, "200 bare")
packed(b"br", brotli, "200 hello")
packed(b"gzip, x-gzip", twice, "200 one")
packed(b"gzip\r\nContent-Encoding: gzip", twice, "200 one")
packed(b"identity", b"plain", "200 plain")
packed(b"gzip", b"", "204 ", status=b"204 No")
case("200 ", b"Content-Encoding: gzip\r\nContent-Length: 0\r\n")
case("200 ", b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n")
case("200 hello", b"Transfer-Encoding: Chunked\r\n", b"5\r\nhello\r\n0\r\nContent-Encoding: gzip\r\n\r\n")
case("200 one", b"Content-Encoding:\r\n gzip\r\n", one)
# not
for n in range(1, len(one)):
    case("http_error", b"Content-Encoding: gzip\r\n", one[:n])
packed(b"gzip", one[:20], "http_error")
packed(b"gzip", one + two[:1], "http_error")
packed(b"gzip", one[:-8] + b"\0\0\0\0" + one[-4:], "http_error")
packed(b"deflate", b"x", "http_error")
packed(b"deflate", framed[:-1], "http_error")
packed(b"deflate", bare[:-1], "http_error")
packed(b"br", b"xyz", "http_error")
packed(b"br", brotli[:-1], "http_error")
packed(b"gzip, gzip", twice[:-1], "http_error")
packed(b"gzip, gzip", gzip.compress(one[:-1]), "http_error")
packed(b"gzip, gzip, gzip", gzip.compress(twice), "http_error")
packed(b"gzip", b"plain", "http_error")
packed(b"else", b"plain", "http_error")
case("http_error", b"Content-Encoding: gzip\r\n")
case("http_error", b"Transfer-Encoding: gzip, chunked\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(one), one))
case("http_error", cut)
case("http_error", cut, status=b"302 Found\r\nLocation: /next")
case("http_error", cut, status=b"103 Early\r\n\r\nHTTP/1.1 200 OK")
case("http_error", b"", status=b"100 Continue")
case("http_error", b"Content-Length: 99999999999999999999\r\n", b"hello")
case("http_error", b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n")
EOT
cut -f 2 "$T/broken" >"$T/broken-calls"
calls --config "$CONF" -- "$TOOLS" "$HOSTS" <"$T/broken-calls"
cut -f 1 "$T/broken" >"$T/wanted"
printf '%s\n' "$OUT" | jq -r 'if .error then .error.message else "\(.result.status) \(.result.body)" end' >"$T/got"
is "$(paste "$T/wanted" "$T/got" | awk -F '\t' '$1 != $2 { print NR, $0 }')" '' \
    'an answer that breaks off is none, however it was packed'
is "$(wc -l <"$T/got")" "$(wc -l <"$T/wanted")" 'and each has its own'
is "$(rows skill.tool_call_completed '| .outcome' | sort | uniq -c | tr -s ' \n' ' ')" \
    " $(grep -c http_error "$T/wanted") \"error\" $(grep -c '^20' "$T/wanted") \"success\" " 'and its row'

# The spawner's child is its parent: it holds the uid as long as it lives.
net_pid() {
	for t_spawner in $(children "$(broker_pid)"); do
		for t_holder in $(children "$t_spawner"); do
			for t_pid in $(children "$t_holder"); do
				[ "$(cat "/proc/$t_pid/comm" 2>/dev/null)" = cyberos-net ] &&
				    echo "$t_pid"
			done
		done
	done
}
# kib PID FIELD: of its memory
kib() { sed -n "s/^$2:[^0-9]*\([0-9]*\) kB/\1/p" "/proc/$1/status"; }

# Bodies (case S58): the answer is cut, and the memory of worker and broker is
# bounded: by the body, what it is copied to, and what the other side holds.
cat >"$T/size.sh" <<'EOT'
read -r begin
for what in size/16777216 size/16777217 bomb endless empties heads/200 heads/100000; do
	cyberos skill call HttpFetch "url=$1/$what" >/tmp/r 2>&1
	printf '%s %s %s\n' "$what" "$(wc -c </tmp/r)" "$(tail -c 20 /tmp/r)"
done
echo over
read -r end
EOT
{ echo '#!/bin/sh'; cat "$T/size.sh"; } | skill sizes "$TOOLS" "$HOSTS" 'effort_minutes: 5'
mkfifo "$T/go"
INV=$(new_id)
rm -f "$T/result.json"
"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" --invocation "$INV" \
    --result "$T/result.json" --config "$CONF" sizes -- "$U1" \
    <"$T/go" >"$T/out" 2>"$T/err" &
RUN=$!
exec 7>"$T/go"
until_true test -n "$(until_true net_pid && net_pid)"
NET=$(net_pid)
BROKER=$(broker_pid)
net_idle=$(kib "$NET" VmRSS) broker_idle=$(kib "$BROKER" VmRSS)
echo begin >&7
n=0
while ! says '^over$' && [ $n -lt 1500 ]; do
	sleep 0.1
	n=$((n + 1))
done
net_most=$(($(kib "$NET" VmHWM) - net_idle)) broker_most=$(($(kib "$BROKER" VmHWM) - broker_idle))
exec 7>&-
finish
INV=
note "over idle: net worker $net_most KiB, broker $broker_most KiB"
[ "$net_most" -lt 65536 ]
ok $? 'case S58: the net worker takes less than 64 MiB for them'
[ "$broker_most" -lt 65536 ]
ok $? 'case S58: and so does the broker'
is "$(head -n 4 "$T/out" | awk '{ print ($2 > 10000000 && $2 <= 16 * 1024 * 1024 + 1) }' | sort -u)" 1 \
    'large bodies come up to the limit of an answer'
is "$(grep -c '"truncated":true}' "$T/out")" 4 'and say that they were cut'
like "$(grep '^empties' "$T/out")" 'in circles$' 'much of nothing is not gone through'

# --- the worker ---

printf '#!/bin/sh\ncyberos skill call HttpFetch url=%s/slow/60\necho "was $?"\ncyberos skill call HttpFetch url=%s/\necho "is $?"\n' \
    "$U1" "$U1" | skill victim "$TOOLS" "$HOSTS"
: >"$T/log"
start --config "$CONF" victim
until_true grep -q slow/60 "$T/log"
NET=$(net_pid)
like "$NET" '^[0-9]+$' 'there is one net worker'
is "$(tr -d '\0' <"/proc/$NET/environ" 2>/dev/null)" '' 'its environment is empty'
is "$(sed -n 's/^\(NoNewPrivs\|Seccomp\|CapEff\|CapPrm\):[[:space:]]*//p' "/proc/$NET/status" | tr '\n' ' ')" \
    '0000000000000000 0000000000000000 1 2 ' 'it has no capability, no new privileges, a filter'
if is_root; then
	is "$(awk '/^Uid:/ { print ($2 >= 2000000000), $2 == $3 && $3 == $4 }' "/proc/$NET/status")" '1 1' \
	    'and a uid of its own'
	is "$(find "/proc/$NET/fd" -lname '/*' ! -lname /dev/null | wc -l | tr -d ' ')" 0 'and no file is open'
fi
kill -9 "$NET"
finish
is "$(grep -E '^(was|is) ' "$T/out" | tr '\n' ' ')" 'was 1 is 0 ' 'a call that it takes with it fails, the next one has a fresh worker'
is "$(rows skill.tool_call_completed '| [.outcome, .error_message]' | sort -u)" \
    '["error","connect_error"]
["success",null]' 'and both are recorded'
like "$ERR" 'net worker' 'and the log says so'
nothing_left 'a killed net worker'
INV=

# One that hangs is as good as dead, a few seconds after the call's own time.
printf '#!/bin/sh\ncyberos skill call HttpFetch url=%s/slow/4 timeout_ms=4000\ncyberos skill call HttpFetch url=%s/ timeout_ms=100\n' \
    "$U1" "$U1" | skill victim "$TOOLS" "$HOSTS"
: >"$T/log"
start --config "$CONF" victim
until_true grep -q slow/4 "$T/log"
kill -STOP "$(net_pid)"
sleep 1
finish
is "$(rows skill.tool_call_completed '| [.outcome, .error_message]' | sort | tr '\n' ' ')" \
    '["success",null] ["timeout","timeout"] ' 'a net worker that hangs costs what it has'
nothing_left 'a stopped net worker'
INV=

# --- names that lead inside ---

REAL=$CYBEROS
# hosts SETUP: run with names of our own, in a mount namespace of its own
hosts() {
	printf '127.0.0.1 localhost\n%s\n' "$2" >"$T/hosts"
	# shellcheck disable=SC2016 # the inner shell's
	printf '#!/bin/sh\nexec unshare %s sh -c '"'"'mount --bind %s/hosts /etc/hosts && %s exec "$0" "$@"'"'"' %s "$@"\n' \
	    "$1" "$T" "$3" "$REAL" >"$T/wrapped"
	chmod 755 "$T/wrapped"
	CYBEROS=$T/wrapped
}
if is_root && unshare -m true 2>/dev/null; then
	hosts -m '10.0.0.5 good.test
169.254.169.254 meta.test
::ffff:127.0.0.1 mapped.test
127.0.0.1 a.test b.test' ''
	calls -- "$TOOLS" 'x-allowed-domains: ["*", "*:1", "a.test:'"$P1"'"]' <<EOT
HttpFetch {"url":"http://good.test/"}
HttpFetch {"url":"http://meta.test/"}
HttpFetch {"url":"http://mapped.test/"}
HttpFetch {"url":"http://a.test:$P1/"}
EOT
	is "$(printf '%s\n' "$OUT" | jq -r .error.data.reason | sort | uniq -c | tr -s ' ')" \
	    ' 4 address_not_public' 'names of private addresses are refused'
	is "$(segment | jq -r .kind | grep tool | sort | uniq -c | tr -s ' \n' ' ')" \
	    ' 4 skill.tool_call_completed 4 skill.tool_call_started 4 skill.tool_denied ' \
	    'each with three rows'
	calls --config "$CONF" -- "$TOOLS" "x-allowed-domains: ['a.test:$P1', 'b.test:$P2']" <<EOT
HttpFetch {"url":"http://A.test.:$P1/","headers":{"Authorization":"S"}}
HttpFetch {"url":"http://a.test:$P1/to/302?http://b.test:$P2/","headers":{"Authorization":"S"}}
EOT
	is "$(nth 1 .result.status) $(nth 2 .result.status)" '200 200' 'the operator can allow them'
	is "$(log | sed -n 's/  host: //p' | tr '\n' ' ')" "a.test:$P1 a.test:$P1 b.test:$P2 " \
	    'the server sees the host in its one form'
	is "$(grep "^$P2 " "$T/log" | grep -c authorization)" 0 'and another host no authorization'
	if command -v ip >/dev/null; then
		hosts -mn '11.22.33.44 own.test
11.22.33.45 other.test' 'ip link set lo up && ip addr add 11.22.33.44/32 dev lo &&'
		calls -- "$TOOLS" 'x-allowed-domains: ["*"]' <<EOT
HttpFetch {"url":"http://own.test/"}
HttpFetch {"url":"http://other.test/"}
HttpFetch {"url":"http://none.test/"}
EOT
		is "$(nth 1 .error.data.reason) $(nth 2 .error.message)" \
		    'address_not_public connect_error' "an address of this host's own is not public"
		is "$(nth 3 .error.message)" resolve_error 'a name that nobody knows'
	fi
	CYBEROS=$REAL
fi

# --- what does not ask for it does not get it ---

in_skill 'cyberos skill call HttpFetch url=http://localhost/' 'allowed_tools: [Read]' "$HOSTS"
refused tool_not_in_allowed_tools HttpFetch
in_skill "cyberos skill call HttpFetch url=$U1/" "$TOOLS"
refused domain_violation HttpFetch

# --- TLS, with nginx ---

NGINX_BIN=$(command -v nginx || ls /usr/sbin/nginx 2>/dev/null)
if [ -z "$NGINX_BIN" ]; then
	skip 'TLS' 'nginx is not installed'
	done_testing
fi
mkdir "$T/tls" && cd "$T/tls" || exit 99
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key" 2>/dev/null; }
cat >ca.cnf <<'EOT'
[ca]
default_ca = d
[d]
database = index
serial = serial
new_certs_dir = .
default_md = sha256
policy = p
unique_subject = no
[p]
commonName = supplied
EOT
: >index
echo 01 >serial
key ca
openssl req -x509 -new -key ca.key -out ca.pem -subj '/CN=Test CA' -days 2 2>/dev/null
# cert NAME HOST [START END]
cert() {
	key "$1"
	openssl req -new -key "$1.key" -out "$1.csr" -subj "/CN=$2" 2>/dev/null
	printf 'subjectAltName=DNS:%s\n' "$2" >ext
	openssl ca -batch -notext -config ca.cnf -cert ca.pem -keyfile ca.key -in "$1.csr" -out "$1.pem" \
	    -extfile ext -startdate "${3:-20200101000000Z}" -enddate "${4:-20400101000000Z}" 2>/dev/null
}
cert good localhost
cert old localhost 20200101000000Z 20200102000000Z
cert other elsewhere.example
key self
openssl req -x509 -new -key self.key -out self.pem -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -days 2 2>/dev/null
cd "$OLDPWD" || exit 99
ports=$(python3 -c '
import socket
held = [socket.socket() for i in range(6)]
for s in held:
    s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in held])')
# shellcheck disable=SC2086 # one word each
set -- $ports
{
	printf 'daemon off;\nmaster_process off;\npid %s/tls/pid;\nerror_log %s/tls/error;\n' "$T" "$T"
	echo 'events { worker_connections 64; }'
	# shellcheck disable=SC2016 # the variables are nginx's
	printf 'http { log_format l "$server_port $server_protocol $ssl_protocol $request_uri"; access_log %s/tls/log l;\n' "$T"
	for d in client_body proxy fastcgi uwsgi scgi; do
		printf '%s_temp_path %s/tls/%s;\n' "$d" "$T" "$d"
	done
	server() { # PORT CERT PROTOCOLS [http2]
		printf 'server { listen 127.0.0.1:%s ssl %s; ssl_certificate %s/tls/%s.pem; ssl_certificate_key %s/tls/%s.key; ssl_protocols %s; location /down { return 302 %s/; } location / { return 200 "tls\\n"; } }\n' \
		    "$1" "${4:-}" "$T" "$2" "$T" "$2" "$3" "$U1"
	}
	server "$1" good TLSv1.2
	server "$2" good TLSv1.3 http2
	server "$3" old TLSv1.3
	server "$4" other TLSv1.3
	server "$5" self TLSv1.3
	server "$6" good 'TLSv1 TLSv1.1'
	echo '}'
} >"$T/tls/nginx.conf"
"$NGINX_BIN" -p "$T/tls" -c "$T/tls/nginx.conf" >/dev/null 2>&1 &
NGINX=$!
until_true python3 -c "import socket; socket.create_connection(('127.0.0.1', $6), 1)" ||
    note "$(cat "$T/tls/error")"
TLS_HOSTS="x-allowed-domains: ['localhost:$1', 'localhost:$2', 'localhost:$3', 'localhost:$4', 'localhost:$5', 'localhost:$6', 'localhost:$P1']"
{ cat "$CONF"; printf 'ca_file: %s\n' "$T/tls/ca.pem"; } >"$T/tls.yaml"
tls_calls() {
	calls --config "$1" -- "$TOOLS" "$TLS_HOSTS" <<EOT
HttpFetch {"url":"https://localhost:$2/"}
HttpFetch {"url":"https://localhost:$3/"}
HttpFetch {"url":"https://localhost:$4/"}
HttpFetch {"url":"https://localhost:$5/"}
HttpFetch {"url":"https://localhost:$6/"}
HttpFetch {"url":"https://localhost:$7/"}
HttpFetch {"url":"https://localhost:$3/down"}
EOT
}
tls_calls "$T/tls.yaml" "$@"
is "$(nth 1 .result.body) $(nth 2 .result.body)" 'tls tls' 'TLS 1.2 and 1.3 with the authority of the operator'
is "$(sed -n "s/^$1 //p" "$T/tls/log")" 'HTTP/1.1 TLSv1.2 /' 'it was TLS 1.2'
is "$(sed -n "s/^$2 //p" "$T/tls/log" | head -n 1)" 'HTTP/2.0 TLSv1.3 /' 'and HTTP/2 over TLS 1.3'
is "$(nth 3 .error.message)" tls_error 'an expired certificate'
is "$(nth 4 .error.message)" tls_error 'one for another name'
is "$(nth 5 .error.message)" tls_error 'one that vouches for itself'
is "$(nth 6 .error.message)" tls_error 'TLS 1.1'
is "$(grep -cE "^($3|$4|$5|$6) " "$T/tls/log")" 0 'got no request'
is "$(nth 7 .error.data.reason) $(seen)" 'domain_violation 0' 'from https nothing leads to http'
like "$(nth 7 .error.data.hint)" 'from https to http' 'and the hint says so'
tls_calls "$CONF" "$@"
is "$(nth 1 .error.message) $(nth 2 .error.message)" 'tls_error tls_error' \
    'the authorities of the system do not know it'

# How a connection ends, and who is asked for a certificate.
TLS_PY=$PWD/t/tls.py
(cd "$T" && exec python3 "$TLS_PY" . tls/good.pem tls/good.key) &
TLS=$!
until_true test -s "$T/tls-ports" || exit 99
for p in $(cat "$T/tls-ports"); do
	printf 'HttpFetch {"url":"https://localhost:%s/"}\n' "$p"
done >"$T/tls-calls"
calls --config "$T/tls.yaml" -- "$TOOLS" \
    "x-allowed-domains: ['localhost:$(sed "s/ /', 'localhost:/g" "$T/tls-ports")']" <"$T/tls-calls"
is "$(nth 1 .result.body) $(nth 2 .result.body) $(nth 7 .result.body)" 'partial partial partial' \
    'a body that ends with its connection, or with its stream'
is "$(printf '%s\n' "$OUT" | sed -n 3,6p | jq -r .error.message | uniq -c | tr -s ' ')" ' 4 http_error' \
    'one that was cut where TLS was not closed, or within its stream, is none'
is "$(nth 8 .error.message)" http_error 'nor is a reset'
is "$(nth 9 .error.message) $(nth 10 .error.message)" 'tls_error tls_error' \
    'a server that wants a certificate of ours gets none'

printf 'http_allow_addresses: []\nca_file: %s/none.pem\n' "$T" >"$T/bad.yaml"
calls --config "$T/bad.yaml" -- "$TOOLS" "$TLS_HOSTS" </dev/null
is "$RC" 125 'without the authorities that the operator named nothing starts'

done_testing
