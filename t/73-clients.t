#!/bin/sh
# The clients for skills in shell, Python, Node, C and C++: one table of cases
# through all of them, behind a broker and behind a false one. Each has a driver
# in t/clients/ that knows
#
#	cases		TOOL, FIELD and a file of arguments a line; prints a
#			line for each: "done VALUE", "refused CLASS [REASON]",
#			"failed WORD", "arguments" or "gone"
#	both DIRECTORY	two calls at once, the second lets the first end
#	one		a single Read, for the false broker
#	words		every class and reason, "-" and every word of a failure
#
# A value is hexadecimal for body and stdout, a length for #body.
# shellcheck disable=SC2016,SC2034 # pieces of Perl; FILE for in_clients
# shellcheck source=t/lib.sh
. ./t/lib.sh

D=$T/d
LIBS=$PWD/man/share/clients
DRIVERS=$PWD/t/clients
mkdir -p "$D/sub" "$T/args" "$STORE/memories/notes" "$T/bin"
chmod 700 "$STORE"
chmod 777 "$D"
is_root || chmod 755 "$T"

# --- they compile, and their tables are those of the broker ---

WARN='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-qual
    -Wwrite-strings -Wformat=2 -Werror'
# compile NAME COMPILER-AND-OPTIONS
compile() {
	t_name=$1
	shift
	if ! command -v "$1" >/dev/null; then
		skip "$t_name: compiles" "$1 is not installed"
		return
	fi
	# shellcheck disable=SC2086 # a list of options
	"$@" $WARN -I"$LIBS" -o "$T/bin/$t_name" "$DRIVERS/driver.c" \
	    >"$T/cc.out" 2>&1
	ok "$?" "$t_name: compiles without a warning ($*)"
	note "$(cat "$T/cc.out")"
}
compile c "${CC:-cc}" -std=c11 -O2 -Wstrict-prototypes
compile cxx g++ -x c++ -std=c++11 -O2
compile sanitized "${CC:-cc}" -std=c11 -g -fsanitize=address,undefined \
    -fno-sanitize-recover=all
is "$("$T/bin/sanitized" ends 2>&1)" 'both ends hold' \
    'c: JSON is written and read, and never outside its text'
if command -v mypy >/dev/null; then
	is "$(cd "$LIBS" && mypy --strict --cache-dir "$T/mypy" cyberos.py \
	    2>&1 | tail -n 1)" 'Success: no issues found in 1 source file' \
	    'python: mypy --strict finds nothing'
else
	skip 'python: mypy --strict finds nothing' 'mypy is not installed'
fi

# The clients that can run here, beside their drivers.
CLIENTS=
have() { # NAME DRIVER [LIBRARY]
	CLIENTS="$CLIENTS $1"
	mkdir -p "$T/$1"
	cp "$2" "$T/$1/main"
	[ "$#" -lt 3 ] || cp "$LIBS/$3" "$T/$1/"
	chmod -R go+rX "$T/$1"
}
have shell "$DRIVERS/driver.sh"
have c "$T/bin/c"
[ ! -x "$T/bin/cxx" ] || have cxx "$T/bin/cxx"
if /usr/bin/python3 -c 'import json, socket' 2>/dev/null; then
	have python "$DRIVERS/driver.py" cyberos.py
else
	skip 'python' 'no /usr/bin/python3'
fi
if /usr/bin/node -e 0 2>/dev/null; then
	have node "$DRIVERS/driver.js" cyberos.js
else
	skip 'node' 'no /usr/bin/node (package nodejs)'
fi

cat >"$T/words.c" <<'EOT'
#include <stdio.h>
#include <string.h>

#include "enforce/verdict.h"
#include "tools/call.h"

int
main(void)
{
	const struct verdict_info *v;
	int i;

	for (i = REASON_NONE + 1; i < REASON_COUNT; i++) {
		v = verdict_info((enum reason)i);
		printf("%s %s\n", v->class, v->reason);
	}
	for (i = FAIL_NONE + 1; i < FAIL_COUNT; i++)
		printf("- %s\n", failure_word((enum failure)i));
	return 0;
}
EOT
"${CC:-cc}" -w -D_GNU_SOURCE -DCYBEROS_VERSION='"0"' -I. -isystem /usr/include/bsd -DLIBBSD_OVERLAY \
    -ffunction-sections -Wl,--gc-sections -o "$T/words" "$T/words.c" \
    enforce/verdict.c tools/call.c audit/*.c -lcjson -lcrypto -lbsd -lm \
    -lpthread 2>"$T/cc.out"
ok "$?" 'the words of the broker can be printed'
"$T/words" | sort -u >"$T/words.wanted"
ok "$([ "$(wc -l <"$T/words.wanted")" -ge 30 ]; echo $?)" 'there are some'
for client in $CLIENTS; do
	[ "$client" != shell ] || continue
	(cd "$T/$client" && ./main words) 2>&1 | sort >"$T/words.got"
	is "$(diff "$T/words.got" "$T/words.wanted")" '' \
	    "$client: has every class, reason and word, and no other"
done

# The manual has each of them, with the name that each client gives it.
python3 -c '
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import cyberos
for (group, reason), kind in cyberos.REFUSALS.items():
    print(group if group == reason else f"{group} , {reason}", kind.__name__)
for word, kind in cyberos.FAILURES.items():
    print(word, kind.__name__)
' "$LIBS" >"$T/names"
tr '\n\t' '  ' <"$LIBS/cyberos.h" | grep -o '{ "[a-z_]*", *["A-Za-z_]*, *CYBEROS_[A-Z_]* }' |
    sed 's/.*\(CYBEROS_[A-Z_]*\) }/\1/' | paste -d ' ' "$T/names" - \
    >"$T/names.wanted"
awk '/^\.Sh NAMES OF ERRORS/ { on = 1; next } /^\.Sh/ { on = 0 }
    !on { next }
    /^\.It Cm/ || /^\.El/ { if (item != "") print item, class, dv }
    /^\.It Cm/ { item = substr($0, 8); class = dv = "" }
    /^\.Vt/ && class == "" { class = $2 }
    / Dv / { dv = $NF }' man/cyberos-client.7 >"$T/names.got"
is "$(diff "$T/names.got" "$T/names.wanted")" '' \
    "client(7): has every name ($(wc -l <"$T/names.wanted"))"

# --- the table ---

printf 'one\ntwo\n' >"$D/a.txt"
printf '\000\377binary' >"$D/b.bin"
printf 'linked' >"$D/l1"
ln "$D/l1" "$D/l2"
head -c 3000000 /dev/zero | tr '\0' a >"$D/large.txt"
head -c 16000000 /dev/zero | tr '\0' '"' >"$D/cut.txt"
printf outside >"$T/outside.txt"
printf 'a note' >"$STORE/memories/notes/n"
chmod a+rw "$D"/*
printf 'ceiling:\n  files: ["%s/**"]\nmax_write_mb: 64\n' "$T" >"$T/c.yaml"

: >"$T/cases"
: >"$T/wanted"
: >"$T/hashes.wanted"
# of TOOL FIELD ARGUMENTS WANTED [call]: call: one that has a row with its hash
of() {
	t_n=$(wc -l <"$T/cases")
	printf '%s' "$3" >"$T/args/$t_n.json"
	printf '%s\targs/%s.json\n' "$1	$2" "$t_n" >>"$T/cases"
	printf '%s\n' "$4" >>"$T/wanted"
	[ "$4" = arguments ] || [ "$4" = 'refused request_too_large' ] ||
	    jq -Sjc . "$T/args/$t_n.json" | sha256sum |
	    cut -d ' ' -f 1 >>"$T/hashes.wanted"
}
hex() { od -An -v -tx1 | tr -d ' \n'; }
of Read body "{\"path\":\"$D/a.txt\"}" 'done 6f6e650a74776f0a'
of Read size "{\"path\":\"$D/a.txt\"}" 'done 8'
of Read encoding "{\"path\":\"$D/b.bin\"}" 'done base64'
of Read body "{\"path\":\"$D/b.bin\"}" 'done 00ff62696e617279'
of Write bytes "{\"path\":\"$D/w.txt\",\"body\":\"é \\\"q\\\" \\\\ \\n😀\"}" \
    'done 14'
of Read body "{\"path\":\"$D/w.txt\"}" "done $(printf 'é "q" \\ \n😀' | hex)"
of Write bytes "{\"path\":\"$D/w.txt\",\"body\":\"\"}" 'done 0'
of Read body "{\"path\":\"$D/w.txt\"}" 'done '
of Read '#body' "{\"path\":\"$D/large.txt\"}" 'done 3000000'
of Read truncated "{\"path\":\"$D/large.txt\",\"limit\":10}" 'done true'
of Read truncated "{\"path\":\"$D/cut.txt\"}" 'done true'
of Read truncated "{\"path\":\"$D/a.txt\"}" 'done false'
of MemoryRead body '{"path":"memories/notes/n"}' 'done 61206e6f7465'
of MemoryEmit content_hash \
    '{"kind":"a.b","path":"memories/notes/e","payload":{"x":[1,null,{"é":true}]}}' \
    'done null'
# The broker takes 64 levels, three of them around the payload.
nested() { printf "%0$1d" 0 | tr 0 '['; printf "%0$1d" 0 | tr 0 ']'; }
of MemoryEmit content_hash \
    "{\"kind\":\"a.b\",\"path\":\"memories/notes/e\",\"payload\":$(nested 61)}" 'done null'
of Read body "{\"path\":\"$D/none\"}" 'failed not_found'
of Read body "{\"path\":\"$D/sub\"}" 'failed is_a_directory'
of Write bytes "{\"path\":\"$D/a.txt\",\"body\":\"\",\"mode\":\"create\"}" \
    'failed exists'
of Grep truncated "{\"pattern\":\"(\",\"path\":\"$D/a.txt\"}" \
    'failed invalid_pattern'
of Read body "{\"path\":\"$T/outside.txt\"}" 'refused file_violation'
of Write bytes "{\"path\":\"$T/outside.txt\",\"body\":\"no\"}" \
    'refused file_violation'
of Read body '{"path":"/etc/hostname"}' 'refused file_violation ceiling'
of Read body "{\"path\":\"$STORE/audit/x\"}" 'refused file_violation protected'
of Write bytes "{\"path\":\"$D/l1\",\"body\":\"no\"}" \
    'refused file_violation hard_link'
of MemoryRead body '{"path":"memories/../notes/n"}' 'refused scope_violation'
of Bash stdout '{"cmd":"true"}' \
    'refused tool_not_allowed tool_in_disallowed_tools'
of HttpFetch body '{"url":"http://example.org/"}' \
    'refused tool_not_allowed tool_not_in_allowed_tools'
of Nonsense body '{}' 'refused unknown_tool'
of Read body '{}' arguments
of Read body '{"path":7}' arguments
of Read body "{\"path\":\"$D/a.txt\",\"more\":1}" arguments
of Write bytes "{\"path\":\"$D/w.txt\",\"body\":\"$(head -c 1100000 /dev/zero |
    tr '\0' x)\"}" 'refused request_too_large'
of Read body "{\"path\":\"$D/a.txt\"}" 'done 6f6e650a74776f0a'
of Write bytes "{\"path\":\"$D/w.txt\",\"body\":\"$(head -c 900000 /dev/zero |
    tr '\0' x)\"}" 'done 900000'

# in_client NAME [YAML-LINE...]: make its skill
in_client() {
	t_client=$1
	shift
	skill "$t_client" "$@" <"$T/$t_client/main"
	for t_more in "$T/$t_client"/cyberos.*; do
		[ ! -e "$t_more" ] || cp "$t_more" "$T/skills/$t_client/"
	done
	cp -R "$T/args" "$T/skills/$t_client/"
}
ALL='Read, Write, Grep, MemoryRead, MemoryEmit, Bash'
for client in $CLIENTS; do
	in_client "$client" "allowed_tools: [$ALL]" 'disallowed_tools: [Bash]' \
	    "x-allowed-files: [\"$D/**\", /etc/hostname, \"$STORE/**\"]" \
	    'allowed_memory_scopes: [memories/notes/**]'
	broker_run --config "$T/c.yaml" "$client" -- cases <"$T/cases"
	is "$RC $(diff "$T/out" "$T/wanted")" '0 ' "$client: every case"
	[ -s "$T/err" ] && note "$ERR"
	segment | jq -r '.payload | .args_hash // .attempted_args_hash' |
	    sed 1d | grep -v null >"$T/hashes"
	# What was too large to be read is known by the hash of its bytes.
	grep -vxF "$(rows skill.tool_denied \
	    '| select(.reason == "request_too_large") | .attempted_args_hash' |
	    tr -d '"')" "$T/hashes" >"$T/hashes.got"
	is "$(diff "$T/hashes.got" "$T/hashes.wanted")" '' \
	    "$client: the broker got what the table says"
	is "$(result rejected) $(count skill.tool_denied)" '3 10' \
	    "$client: and the ledger counts the rest"
	is "$(cat "$T/outside.txt") $(cat "$D/l2")" 'outside linked' \
	    "$client: the world did not change"
done

# --- two at once ---

mkdir "$D/both"
chmod 777 "$D/both"
for client in $CLIENTS; do
	rm -f "$D/both/go"
	in_client "$client" 'allowed_tools: [Write, Bash]' \
	    "x-allowed-files: [\"$D/both/**\"]"
	broker_run "$client" -- both "$D/both"
	if grep -q io_error "$T/err" "$T/out"; then
		skip "$client: two calls at once" 'no user namespaces for Bash'
		continue
	fi
	is "$RC $OUT" '0 done 0
slow false' "$client: two calls at once, answered in the other order"
	is "$(rows skill.tool_call_completed '| .tool_name' | tr '\n' ' ')" \
	    '"Write" "Bash" ' "$client: as the ledger says"
done

# --- a false broker ---

cat >"$T/false.pl" <<'EOT'
use strict;
use IO::Socket::UNIX;
my ($socket, $code) = @ARGV;
my $l = IO::Socket::UNIX->new(Local => $socket, Listen => 1) or die;
open my $up, ">", "$socket.up" or die;
our $c = $l->accept;
$c->autoflush(1);
read $c, my $n, 4;
read $c, our $request, unpack "N", $n;
our ($id) = $request =~ /"id":(\d+)/;
sub answer { print $c pack("N", length $_[0]) . $_[0] }
sub error { answer(qq({"jsonrpc":"2.0","id":$id,"error":$_[0]})) }
sub result { answer(qq({"jsonrpc":"2.0","id":$id,"result":$_[0]})) }
$SIG{PIPE} = "IGNORE";
eval $code;
die $@ if $@;
EOT
# false_broker PERL WANTED NAME: every client asks it once
false_broker() {
	for client in $CLIENTS; do
		rm -f "$T/false" "$T/false.up"
		perl "$T/false.pl" "$T/false" "$1" 2>"$T/false.err" &
		t_false=$!
		while [ ! -e "$T/false.up" ] && kill -0 "$t_false"; do
			sleep 0.01
		done
		t_path=$PATH
		[ "$client" != shell ] || {
			ln -sf "$CYBEROS" "$T/bin/cyberos"
			t_path=$T/bin:$PATH
		}
		got=$(cd "$T/$client" && PATH=$t_path \
		    CYBEROS_BROKER_SOCKET=$T/false ./main one 2>&1)
		is "$got" "$2" "$client: $3"
		wait "$t_false" || note "$(cat "$T/false.err")"
	done
}
false_broker 'result(q({"body":"ok"}))' 'done 6f6b' 'a plain answer'
false_broker 'answer(qq({ "result" : {"x":[1,{"body":"no"}], "body" : "ok" },
    "id" : $id , "jsonrpc":"2.0"}))' 'done 6f6b' 'in another order, with blanks'
false_broker 'my $t = qq({"id":$id,"result":{"body":"\\u00e9\\ud83d\\ude00"}});
    for (split //, pack("N", length $t) . $t) {
	print $c $_; select undef, undef, undef, 0.001 }' 'done c3a9f09f9880' \
    'an answer that comes byte by byte'
false_broker 'close $c' gone 'a broker that hangs up'
false_broker 'print $c pack("N", 100) . "{"; close $c' gone \
    'in the middle of its answer'
false_broker 'print $c "\0\0"; close $c' gone 'in the middle of a length'
false_broker 'print $c pack("N", 0xffffffff); <$c>' gone 'a length of 4 GiB'
false_broker 'answer("")' gone 'an answer of no bytes'
false_broker 'answer("no json")' gone 'no JSON'
false_broker 'answer("[]")' gone 'no object'
false_broker 'answer(qq({"id":$id}))' gone 'neither result nor error'
false_broker 'error(q({"code":-32603,"message":"file_violation","data":{
    "reason":"of_tomorrow"}}))' 'refused file_violation of_tomorrow' \
    'a reason that a later broker has'
false_broker 'error(q({"code":-32603,"message":"of_tomorrow"}))' \
    'refused of_tomorrow' 'a class that a later broker has'
false_broker 'error(q({"code":-32000,"message":"of_tomorrow"}))' \
    'failed of_tomorrow' 'a failure that a later broker has'
false_broker 'error(q({"code":-32603,"message":"deadline","data":7}))' \
    'refused deadline' 'data that is none'
false_broker 'error(7)' arguments 'an error that is none'
false_broker 'answer(q({"id":null,"error":{"code":-32700,"message":"x"}}))' \
    arguments 'an answer without an id is to the only request'
CLIENTS=$(echo "$CLIENTS" | sed 's/shell//') # it asks once and leaves
false_broker 'answer(q({"id":777,"result":{"body":""}})); <$c>' gone \
    'an answer to another request'

# --- no broker ---

for client in $CLIENTS; do
	is "$(cd "$T/$client" && CYBEROS_BROKER_SOCKET=$T/none ./main one 2>&1)" \
	    gone "$client: a socket that is not there"
	is "$(cd "$T/$client" && env -u CYBEROS_BROKER_SOCKET ./main one 2>&1)" \
	    gone "$client: no socket is named"
done

verify_store
done_testing
