#!/bin/sh
# cyberos skill broker verify: what somebody with the disk can do to the ledger
# is found and named by file, line and check, and t/verify.pl, which shares
# nothing with it, says the same. Single bits are in t/unit/verify.c.
# shellcheck disable=SC2016 # $ is the last line
# shellcheck source=t/lib.sh
. ./t/lib.sh
# shellcheck source=t/live.sh
. ./t/live.sh

D=$T/d
mkdir -p "$D"
echo fine >"$D/a.txt"
TOOLS='allowed_tools: [Read]'
FILES="x-allowed-files: [\"$D/**\"]"

# verify [OPTIONS]: leaves RC and OUT
verify() {
	OUT=$("$CYBEROS" skill broker verify --store "$STORE" "$@" 2>"$T/err")
	RC=$?
}
verify
is "$RC" 1 'a store that is not there proves nothing'

# --- a ledger of three invocations

for n in 1 2 3; do
	in_skill "cyberos skill call Read path=$D/a.txt
	cyberos skill call Read path=$D/none
	cyberos skill call Read path=/etc/passwd
	exit 0" "$TOOLS" "$FILES"
done
ID=$(result invocation_id)
DAY=$(basename "$(dirname "$STORE"/audit/*/host.jsonl)")
HOST=audit/$DAY/host.jsonl
SEG=audit/$DAY/seg/$(printf %.2s "$ID")/$ID.p1.jsonl
ROWS=$(wc -l <"$STORE/$SEG" | tr -d ' ')
ANCHORS=$(wc -l <"$STORE/$HOST" | tr -d ' ')
is "$ROWS $ANCHORS" '7 7' 'seven rows each, seven anchors'

verify
is "$RC" 0 'intact'
like "$OUT" '^intact: 21 rows in 3 segments \(0 running\), 7 anchors, 1 days$' \
    'with its counts'
like "$OUT" "^head 7:$(result host_head)\$" 'and its head'
verify --json
is "$(printf '%s' "$OUT" | jq -c '[.status, .rows, .anchors, .segments, .running, .days, .lost, .torn, .hseq, .found, .findings]')" \
    '["intact",21,7,3,0,1,0,0,7,0,[]]' '--json'
verify --invocation "$ID"
is "$RC" 0 '--invocation'
like "$OUT" '^intact: 7 rows in 1 segments' '--invocation: that one alone'
verify --day "$DAY"
is "$RC" 0 '--day'
verify --expect "7:$(result host_head)"
is "$RC" 0 '--expect: what a result said'
verify --expect "6:$(result host_head)"
is "$RC" 6 '--expect: another anchor'
like "$OUT" "^$HOST:6: expect: " '--expect: which is named'
verify --invocation "$ID" --expect "8:$(result host_head)"
is "$RC" 6 '--expect: an anchor that is not there'
verify --invocation 0a1b2c3d-0000-4000-8000-00000000abcd
is "$RC $OUT" '1 ' 'an unknown invocation is an error'
verify --day 2001-01-01
is "$RC $OUT" '1 ' 'so is an unknown day'
for bad in '--invocation x' '--day today' '--expect 7' "--expect 0:$(result host_head)" \
    "--day $DAY --invocation $ID" more; do
	# shellcheck disable=SC2086 # words
	verify $bad
	is "$RC" 2 "usage: $bad"
done
chmod 777 "$STORE"
verify
is "$RC" 5 'a store that others can write is refused'
chmod 700 "$STORE"

# --- what somebody can do to it

cp -a "$STORE" "$T/whole"
# chain FILE FROM: make hashes and links anew from this line on, as somebody
# would who hopes that nobody looks at the anchors
cat >"$T/chain.pl" <<'EOT'
use strict; use warnings; use Digest::SHA qw(sha256_hex);
my ($file, $from) = @ARGV;
open my $in, '<', $file or die; my @rows = <$in>; close $in;
my $prev;
for my $i (0 .. $#rows) {
	if ($i + 1 >= $from) {
		$rows[$i] =~ s/"prev":"[0-9a-f]{64}","hash"/"prev":"$prev","hash"/ if defined $prev;
		$rows[$i] =~ /^(.*),"hash":"[0-9a-f]{64}"\}$/s or die "row $i";
		my $h = sha256_hex($1);
		$rows[$i] = "$1,\"hash\":\"$h\"}\n";
	}
	($prev) = $rows[$i] =~ /"hash":"([0-9a-f]{64})"\}$/;
}
open my $out, '>', $file or die; print $out @rows; close $out or die;
EOT
chain() { perl "$T/chain.pl" "$STORE/$1" "$2"; }
# edit FILE SED-SCRIPT
edit() {
	sed "$2" "$STORE/$1" >"$T/edited"
	cp "$T/edited" "$STORE/$1"
}
again() {
	rm -rf "$STORE"
	cp -a "$T/whole" "$STORE"
}
# found NAME FILE-AND-LINE CHECK: the first finding; then all is put back
found() {
	verify
	is "$RC" 6 "$1: exit 6"
	like "$(printf '%s\n' "$OUT" | head -n 1)" "^$2: $3: " \
	    "$1: named by file, line and check"
	timeout 60 perl t/verify.pl "$STORE" >"$T/perl" 2>&1
	is "$?" 6 "$1: verify.pl agrees"
	again
}

edit "$SEG" '3s/"Read"/"Rood"/'
found 'an edited row' "$SEG:3" hash
edit "$SEG" '3s/"Read"/"Rood"/'
chain "$SEG" 3
found 'an edited row, chained again' "$SEG:7" head
edit "$SEG" 3d
found 'a deleted row' "$SEG:3" seq
edit "$SEG" 2d
edit "$SEG" 's/"seq":3/"seq":2/; s/"seq":4/"seq":3/; s/"seq":5/"seq":4/; s/"seq":6/"seq":5/; s/"seq":7/"seq":6/'
perl -pi -e 'if ($. == 1) { ($h) = /"hash":"(\w+)"\}$/ } elsif ($. == 2) { s/"prev":"\w+"/"prev":"$h"/ }' "$STORE/$SEG"
chain "$SEG" 2
found 'a deleted start, counted and chained again' "$SEG:2" pair
edit "$SEG" '3{h;d};4{G}'
found 'two rows that changed places' "$SEG:3" seq
edit "$SEG" 3p
found 'a row twice' "$SEG:4" seq
edit "$SEG" '$d'
found 'a cut tail' "$SEG:7" rows
edit "$SEG" '3,$d'
found 'a tail of five rows' "$SEG:3" rows
: >"$STORE/$SEG"
found 'all rows of a segment' "$SEG:1" rows
truncate -s -1 "$STORE/$SEG"
found 'a line feed' "$SEG:7" rows
printf '{"v":1' >>"$STORE/$SEG"
found 'a fragment behind the end' "$HOST:7" torn_bytes
echo '{"v":1}' >>"$STORE/$SEG"
found 'a line behind the end' "$SEG:8" form
head -c 20000 /dev/zero >>"$STORE/$SEG"
found 'zeros behind the end' "$SEG:8" form
rm "$STORE/$SEG"
found 'a segment that is gone' "$SEG" file
ln -s /etc/passwd "$STORE/$SEG.x"
mv "$STORE/$SEG.x" "$STORE/$SEG"
found 'a link in its place' "$SEG" file
mv "$STORE/$SEG" "$T/moved"
ln -s "$T/moved" "$STORE/$SEG"
found 'a link to the segment itself' "$SEG" file
rm "$STORE/$SEG"
mkfifo -m 600 "$STORE/$SEG"
found 'a FIFO in its place' "$SEG" file
other=$(find "$STORE" -name '*.p1.jsonl' ! -name "$ID*" | head -n 1)
cp "$other" "$STORE/$SEG"
found 'another segment in its place' "$SEG:1" invocation
cp "$other" "$STORE/$SEG"
edit "$SEG" "s/$(basename "$other" .p1.jsonl)/$ID/g"
chain "$SEG" 1
found 'another one that was renamed inside' "$SEG:1" prev
mkdir -p "$STORE/audit/$DAY/seg/0a"
cp "$other" "$STORE/audit/$DAY/seg/0a/0a1b2c3d-0000-4000-8000-00000000abcd.p1.jsonl"
found 'a file without an anchor' "audit/$DAY/seg/0a/0a1b[^:]*" anchor
mkdir -p "$STORE/audit/$DAY/seg/0a"
mkfifo -m 600 "$STORE/audit/$DAY/seg/0a/0a1b2c3d-0000-4000-8000-00000000abcd.p1.jsonl"
found 'a FIFO without an anchor' "audit/$DAY/seg/0a/0a1b[^:]*" anchor
cp "$other" "${other%.p1.jsonl}.p2.jsonl"
found 'a part without an anchor' "audit/$DAY/seg/[^:]*\.p2\.jsonl" anchor
cp "$other" "$STORE/$SEG.old"
found 'a name that is none' "$SEG.old" anchor

edit "$HOST" '3s/"normal"/"mormal"/'
found 'an edited anchor' "$HOST:3" hash
edit "$HOST" '3s/"rows":7/"rows":8/'
chain "$HOST" 3
found 'an edited anchor, chained again' "audit/$DAY/seg/[^:]*:8" rows
# Whoever does not look at these two fields finds nothing.
edit "$HOST" '$s/"normal"/"mormal"/'
chain "$HOST" "$ANCHORS"
verify
is "$RC" 6 'a reason that is none, chained again'
like "$(printf '%s\n' "$OUT" | head -n 1)" "^$HOST:$ANCHORS: closed: " 'which is named'
again
for by in broker skill nobody; do
	edit "$HOST" "\$s/\"by\":\"supervisor\"/\"by\":\"$by\"/"
	chain "$HOST" "$ANCHORS"
	verify
	is "$RC" 6 "an anchor by $by, chained again"
	like "$(printf '%s\n' "$OUT" | head -n 1)" "^$HOST:$ANCHORS: kind: " \
	    'which is named'
	again
done
edit "$HOST" 3d
found 'a deleted anchor' "$HOST:3" hseq
edit "$HOST" '4{h;d};5{G}'
found 'two anchors that changed places' "$HOST:4" hseq
edit "$HOST" 3p
found 'an anchor twice' "$HOST:4" hseq
edit "$HOST" 1d
found 'the first anchor' "$HOST:1" day
edit "$HOST" '1s/"prev_day":null/"prev_day":"2001-01-01"/'
chain "$HOST" 1
found 'a day before that is not there' "$HOST:1" link
edit "$HOST" '6s/"payload":{"invocation_id":"[^"]*/&/'
edit "$HOST" '$d'
rm -f "$STORE"/audit/*/totals
verify
is "$RC" 1 'the end of the anchors: a segment that was never closed'
like "$(printf '%s\n' "$OUT" | head -n 1)" "^$SEG: lock: " 'which is named'
again
edit "$HOST" '6,$d'
rm -f "$STORE"/audit/*/totals
found 'more of the end' "$SEG" anchor
edit "$HOST" '$d'
found 'the end, while the kept sum knows of it' "$HOST:7" totals
echo '{"v":1' >>"$STORE/$HOST"
found 'a line behind the anchors' "$HOST:8" form
edit "$HOST" '7s/normal/nirmal/'
broker_run probe # whose supervisor takes the last row for a fragment
found 'a changed row that was named as a fragment' "$HOST:7" hash
edit audit/host.json 's/"host":"./"host":"x/'
verify
is "$RC" 6 'a host that is none'
like "$(cat "$T/err")" 'audit/host.json' 'which is named'
again
# no_host NAME FILES-IN-AUDIT: for everybody; then all is put back
no_host() {
	verify
	is "$RC" 6 "$1: verify"
	like "$(cat "$T/err")" 'audit/host.json:1: form: ' "$1: which is named"
	"$CYBEROS" skill broker status --store "$STORE" >"$T/out" 2>&1
	is "$?" 6 "$1: status"
	broker_run probe
	like "$ERR" 'audit/host.json:1: form: ' "$1: no run"
	[ -s "$STORE/audit/host.json" ]
	is "$? $(ls "$STORE/audit")" "1 $2" "$1: no other id"
	again
}
rm "$STORE/audit/host.json"
no_host 'a host.json that is gone' "$DAY"
: >"$STORE/audit/host.json"
no_host 'an empty host.json' "$DAY
host.json"
edit audit/host.json 's/"host":"\(.\)\(.\)/"host":"\2\1/'
verify
if cmp -s "$T/whole/audit/host.json" "$STORE/audit/host.json"; then
	is "$RC" 0 'the same host'
else
	is "$RC" 6 'another host'
fi
again
edit audit/host.json 's/"v":1/"v":2/'
verify
perl t/verify.pl "$STORE" >"$T/perl" 2>&1
is "$RC $?" '6 6' 'a form that is not ours'
like "$(cat "$T/err")" 'audit/host.json' 'which is named'
again
edit "audit/$DAY/totals" 's/"calls":/&1/'
verify
is "$RC" 6 'a kept sum that is not the sum'
like "$OUT" "^audit/$DAY/totals: totals: " 'which is named'
again
mkdir -m 700 "$STORE/audit/$DAY/quarantine"
verify
is "$RC" 0 'an empty quarantine'
cp "$STORE/$SEG" "$STORE/audit/$DAY/quarantine/"
found 'a file that was put aside' "audit/$DAY/quarantine" quarantine
mkdir -m 700 "$STORE/audit/$DAY/quarantine"
mv "$STORE/$SEG" "$STORE/audit/$DAY/quarantine/"
verify --day "$DAY"
is "$RC" 6 'what recovery put aside stays an error'
like "$OUT" "^audit/$DAY/quarantine: quarantine: 1 " 'which is named'
again
verify
is "$RC" 0 'put right, it is intact again'

# stranger NAME: below audit/, made there by somebody
stranger() {
	verify
	is "$RC" 6 "audit/$1 is not of the ledger"
	like "$OUT" "^audit/$1: name: is not of the ledger\$" 'which is named'
	again
}
: >"$STORE/audit/$DAY/notes"
stranger "$DAY/notes"
mkdir "$STORE/audit/$DAY/.totals.x"
stranger "$DAY/.totals.x"
: >"$STORE/audit/host.json.old"
stranger host.json.old
cp -a "$STORE/audit/$DAY" "$STORE/audit/$DAY.bak"
stranger "$DAY.bak"
: >"$STORE/audit/2001-01-01"
verify
is "$RC" 6 'a day that is no directory'
again
: >"$STORE/audit/$DAY/.totals.123"
: >"$STORE/audit/.host.$ID"
verify
is "$RC" 0 'names of what is being made are'
again

# one of many is cut: asked for that one alone, and for another
edit "$SEG" '$d'
verify --invocation "$ID"
is "$RC" 6 'CASES 129: --invocation of a cut one'
verify --invocation "$(basename "$other" .p1.jsonl)"
is "$RC" 0 'of another one'
again
rm "$STORE/$SEG"
verify --invocation "$ID"
is "$RC" 6 '--invocation of one that is gone'
like "$OUT" "^$SEG: file: is missing" 'which is named'
again

# --- what crashes leave

: >"$STORE/audit/$DAY/seg/$(printf %.2s "$ID")/$(printf %.2s "$ID")1b2c3d-0000-4000-8000-00000000abcd.p1.jsonl"
verify
is "$RC" 1 'an empty segment without an anchor is a leftover'
like "$OUT" '\.p1\.jsonl: anchor: is empty' 'which is named'
again
printf '{"v":1,"host":"x' >>"$STORE/$HOST"
verify
is "$RC" 1 'so is a torn last anchor'
like "$OUT" "^$HOST:8: torn: " 'which is named'
broker_run probe
verify
is "$RC" 0 'the next run mends it'
like "$OUT" '^1 fragments that crashes left' 'and the ledger says so'
edit "$HOST" 8d
found 'a fragment that is taken out' "$HOST:8" torn
# owner COMMAND...: by whom the store belongs to, who is not root; leaves RC, OUT
cp "$CYBEROS" "$T/cyberos"
owner() {
	set -- "$T/cyberos" skill broker "$@" --store "$STORE"
	if is_root; then
		chown -R 54321 "$STORE"
		set -- setpriv --reuid 54321 --regid 54321 --clear-groups "$@"
	fi
	OUT=$("$@" 2>&1)
	RC=$?
}
chmod 0 "$STORE/$HOST"
owner verify
is "$RC $(printf '%s\n' "$OUT" | sed '$d')" "1 $HOST: read: cannot be read: Permission denied
unreadable: 0 rows in 0 segments (0 running), 0 anchors, 0 days" \
    'anchors that cannot be read: nothing is said of their segments'
chmod 600 "$STORE/$HOST"
tomorrow=$(date -u -d "$DAY + 1 day" +%F)
mkdir -m 700 "$STORE/audit/$tomorrow"
sed -n 1p "$STORE/$HOST" | sed "s/\"prev_day\":null,\"prev_head\":null/\"prev_day\":\"$DAY\",\"prev_head\":\"$(tail -n 1 "$STORE/$HOST" | jq -r .hash)\"/
s/\"hseq\":1,/\"hseq\":$((ANCHORS + 1)),/
s/\"prev\":\"[0-9a-f]*\"/\"prev\":\"$(tail -n 1 "$STORE/$HOST" | jq -r .hash)\"/" \
    >"$STORE/audit/$tomorrow/host.jsonl"
chain "audit/$tomorrow/host.jsonl" 1
chmod 600 "$STORE/audit/$tomorrow/host.jsonl"
owner verify
is "$RC" 0 'another day behind them'
chmod 0 "$STORE/$HOST"
owner verify
is "$RC $(printf '%s\n' "$OUT" | grep -c ': ')" '1 2' 'nor of that one'
again
rm "$STORE/$HOST"
ln -s /etc/passwd "$STORE/$HOST"
found 'a link in place of the anchors' "$HOST" file
chmod 0 "$STORE/$SEG"
for command in replay tail; do
	owner $command --invocation "$ID"
	is "$RC $OUT" "1 cyberos: $ID: Permission denied" \
	    "$command: a segment that cannot be read is not one that is missing"
	owner $command --invocation 0a1b2c3d-0000-4000-8000-00000000abcd
	like "$RC $OUT" '^1 .*: not in this ledger$' "$command: which is another thing"
done
again
if ! is_root; then
	chmod 0 "$STORE/$SEG"
	verify
	is "$RC" 1 'what cannot be read is no proof'
	like "$OUT" "^$SEG: read: " 'which is named'
	again
fi

# --- while it runs, and after a broker was killed

printf '#!/bin/sh\ncyberos skill call Read path=%s\necho up\nread x\nexit 0\n' \
    "$D/a.txt" | skill stays "$TOOLS" "$FILES"
live_start stays
live_wait up
verify
is "$RC" 0 'a segment that grows is no error'
like "$OUT" '^intact: 24 rows in 4 segments \(1 running\)' 'as far as it has come'
live_id=$(jq -r 'select(.kind == "audit.segment_opened") | .payload.invocation_id' \
    "$STORE/$HOST" | tail -n 1)
verify --invocation "$live_id"
is "$RC" 0 'alone too'
kill -KILL "$(live_broker)"
live_end
is "$RC" 125 'its broker is killed'
verify
is "$RC" 0 'its last words are in another part'
verify_store "the ledger holds"
rm -rf "$T/whole"
cp -a "$STORE" "$T/whole"
SEG2=$(find "$STORE" -name "$live_id.p2.jsonl")
SEG2=${SEG2#"$STORE/"}
chmod 0 "$STORE/$SEG2"
for command in replay tail; do
	owner $command --invocation "$live_id"
	like "$RC $(printf '%s\n' "$OUT" | grep '^cyberos: ')" \
	    "^1 cyberos: $live_id: Permission denied" "$command: nor is a part"
done
again
rm "$STORE/$SEG2"
found 'a part that is gone' "$SEG2" file
SEG1=${SEG2%.p2.jsonl}.p1.jsonl
edit "$SEG1" '$d'
found 'a tail before a part' "$SEG1:2" part
edit "$SEG2" 's/"panic"/"error"/'
chain "$SEG2" 1
found 'a part that was chained again' "$SEG2:1" head

# A bar on a terminal, after a second and not before; never in a file.
if strace -o "$T/traced" true 2>"$T/err"; then
	set -- "$CYBEROS" skill broker verify --store "$STORE"
	slowly() {
		ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" "$@" strace -f \
		    -o "$T/traced" -e trace=openat -e inject=openat:delay_enter=150000 \
		    "$CYBEROS" skill broker verify --store "$STORE" >"$T/screen" \
		    2>"$T/err" </dev/null
	}
	slowly python3 t/terminal.py
	like "$(tr '\r' '\n' <"$T/screen")" "^$DAY \\[#+ *\\] +[0-9]+ %$" 'progress on a terminal'
	like "$(tr -d '\r' <"$T/screen" | tail -n 1)" '^head ' 'and the result below it'
	python3 t/terminal.py "$@" >"$T/screen" </dev/null
	unlike "$(cat "$T/screen")" '%' 'none when it is quick'
	slowly env
	is "$(grep -c % "$T/screen" "$T/err" | sed 's/.*://' | tr '\n' ' ')" '0 0 ' \
	    'none in a file'
else
	skip 'progress on a terminal' "strace cannot trace here: $(cat "$T/err")"
fi

# Many at once, and verify beside them.
i=0
while [ "$i" -lt 8 ]; do
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" probe \
	    >/dev/null 2>&1 &
	i=$((i + 1))
done
bad=0
n=0
while [ "$n" -lt 10 ]; do
	n=$((n + 1))
	verify
	[ "$RC" -eq 0 ] || { bad=$((bad + 1)) && note "$OUT"; }
done
wait
is "$bad" 0 'never wrong while others begin and end'
verify
is "$RC" 0 'and intact at the end'

done_testing
