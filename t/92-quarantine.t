#!/bin/sh
# Quarantine (SPEC 13, quarantine_after): a version of a skill that tries to
# escape too often is not started any more; nobody else's is.
# shellcheck source=t/lib.sh
. ./t/lib.sh

echo 'quarantine_after: 3' >"$T/q.yaml"
# shellcheck disable=SC2016 # the skill's words
TRY='#!/bin/sh
n=0
while [ $n -lt "${1:-0}" ]; do
	unshare -U true 2>/dev/null
	n=$((n + 1))
done
[ -z "${2:-}" ] || read -r go
echo done'
printf '%s\n' "$TRY" | skill sly
try() { # ATTEMPTS [OPTIONS]
	t_n=$1
	shift
	broker_run --config "$T/q.yaml" "$@" sly -- "$t_n"
}
list() { "$CYBEROS" skill broker quarantine list --json --store "$STORE"; }
anchors() { cat "$STORE"/audit/*/host.jsonl | jq -c "select(.kind == \"$1\") | .payload"; }

# --- below the number, at it, above it ---
try 0
is "$RC $(result outcome)" "0 success" "no attempt: it runs"
[ ! -e "$STORE/quarantine" ]
ok $? "and nothing is kept of it"
try 1
attempts=$(rows skill.cap_bypass_attempt '| .count' |
    awk '{ n += $1 } END { print n }')
if [ "${attempts:-0}" -lt 1 ]; then
	skip "quarantine" "system calls that are refused are not told here"
	done_testing
fi
is "$attempts" 1 "one attempt has one row"
try 1
is "$RC $OUT" "0 done" "two of three: it runs still"
is "$(list | jq -c '.skills | map([.skill_id, .held, .since, .attempts])')" \
    '[["sly",false,null,2]]' "and the list shows it"
try 2
is "$RC $OUT" "0 done" "the one that makes it too many runs to its end"
is "$(anchors skill.quarantined | jq -c '[.skill_id, .version, .attempts >= 3,
    (.frontmatter_hash | length), (.files_sha256 | length)]')" \
    '["sly","1.0.0",true,64,64]' "the ledger has the decision, once"
like "$ERR" 'alert.*quarantined' "and the log, with level alert"
try 0
is "$RC $(result outcome) $OUT" "5 refused " "the next one is refused, exit 5"
like "$(result error_message)" 'quarantined.*quarantine list' "and told why"
is "$(segment | jq -r .kind)" skill.invoked_completed "with the row of a refusal"
is "$(result sandbox)" null "and nothing was started"
is "$(list | jq -c '.skills | map([.skill_id, .held, .attempts >= 3])')" \
    '[["sly",true,true]]' "the list says it is held"
like "$("$CYBEROS" skill broker quarantine list --store "$STORE")" \
    '^[0-9a-f]{12} sly +1\.0\.0 +[0-9]+ 20[0-9-]+T' "for people, too"
broker_run sly -- 0
is "$RC $OUT" "0 done" "without quarantine_after nobody asks"

# --- whose it is ---
mkdir "$T/other"
cp -R "$T/skills/sly" "$T/other/sly"
printf '%s\n# another author\n' "$TRY" >"$T/other/sly/main"
broker_run --config "$T/q.yaml" "$T/other/sly/" -- 0
is "$RC $OUT" "0 done" "the same frontmatter with other files is another skill"
cp "$T/skills/sly/main" "$T/other/sly/main"
broker_run --config "$T/q.yaml" "$T/other/sly/" -- 0
is "$RC $(result outcome)" "5 refused" "the same files elsewhere are the same"
sed -i 's/^version: .*/version: 1.0.1/' "$T/other/sly/SKILL.md"
broker_run --config "$T/q.yaml" "$T/other/sly/" -- 0
is "$RC $OUT" "0 done" "another version is another one"
printf '%s\n' "$TRY" | skill innocent
broker_run --config "$T/q.yaml" innocent -- 0
is "$RC $OUT" "0 done" "another id with the same main is another one"
# One that has another's id and tries as often as it likes.
broker_run --config "$T/q.yaml" innocent -- 0
mkdir "$T/evil"
cp -R "$T/skills/innocent" "$T/evil/"
echo '# evil' >>"$T/evil/innocent/main"
broker_run --config "$T/q.yaml" "$T/evil/innocent/" -- 9
broker_run --config "$T/q.yaml" "$T/evil/innocent/" -- 0
is "$RC" 5 "whoever takes another's id and tries is held"
broker_run --config "$T/q.yaml" innocent -- 0
is "$RC $OUT" "0 done" "and the other one is not"
chmod 755 "$T/skills/innocent/main"
ln -s main "$T/evil/innocent/link"
broker_run --config "$T/q.yaml" "$T/evil/innocent/" -- 0
is "$RC" 0 "one more file: another skill"

# --- what runs goes on; what is told is told at once ---
printf '%s\n' "$TRY" | skill long
mkfifo "$T/go"
exec 3<>"$T/go"
"$CYBEROS" skill broker run --config "$T/q.yaml" --store "$STORE" \
    --skills "$T/skills" --connect-timeout 0 --result "$T/long.json" long -- \
    4 wait <"$T/go" >"$T/null" 2>&1 &
long=$!
held() { list | jq -e '.skills | any(.skill_id == "long" and .held)' >"$T/null"; }
tries=0
until held || [ $tries -gt 300 ]; do
	tries=$((tries + 1))
	sleep 0.1
done
held
ok $? "it is held while the one that tried still runs"
broker_run --config "$T/q.yaml" long -- 0
is "$RC" 5 "so the next one does not start"
echo >&3
wait "$long"
exec 3>&-
is "$(jq -r .outcome "$T/long.json")" success "and what ran goes on to its end"

# --- many at once: no attempt is lost, and none counts twice ---
echo 'quarantine_after: 1000' >"$T/many.yaml"
printf '%s\n' "$TRY" | skill crowd
for n in 1 2 3 4 5 6; do
	"$CYBEROS" skill broker run --config "$T/many.yaml" --store "$STORE" \
	    --skills "$T/skills" --result "$T/c.$n" crowd -- 5 \
	    >"$T/null" 2>&1 &
done
wait
is "$(list | jq '.skills[] | select(.skill_id == "crowd") | .attempts')" 30 \
    "six at once with five attempts each are thirty"
# Under supervise as well.
echo '{"op":"run","skill":"crowd","args":["2"]}
{"op":"run","skill":"crowd","args":["3"]}' | "$CYBEROS" skill broker supervise \
    --config "$T/many.yaml" --store "$STORE" --skills "$T/skills" \
    >"$T/out" 2>"$T/err"
is "$(list | jq '.skills[] | select(.skill_id == "crowd") | .attempts')" 35 \
    "under supervise, too"
# A broker that dies takes no attempt with it.
mkfifo "$T/go2"
exec 3<>"$T/go2"
"$CYBEROS" skill broker run --config "$T/many.yaml" --store "$STORE" \
    --skills "$T/skills" --connect-timeout 0 --result "$T/dead.json" crowd -- \
    4 wait <"$T/go2" >"$T/null" 2>&1 &
run=$!
tries=0
until [ "$(list | jq '.skills[] | select(.skill_id == "crowd") | .attempts')" -ge 36 ] ||
    [ $tries -gt 300 ]; do
	tries=$((tries + 1))
	sleep 0.1
done
kill -KILL "$("$CYBEROS" skill broker status --store "$STORE" |
    jq '.invocations[] | select(.skill_id == "crowd") | .pid')"
wait "$run"
exec 3>&-
recorded=$(cat "$STORE"/audit/*/seg/*/"$(jq -r .invocation_id "$T/dead.json")".p*.jsonl |
    jq 'select(.kind == "skill.cap_bypass_attempt") | .payload.count' |
    awk '{ n += $1 } END { print n + 0 }')
now=$(list | jq '.skills[] | select(.skill_id == "crowd") | .attempts')
[ "$now" -ge $((35 + recorded)) ] && [ "$now" -le 39 ] && [ "$recorded" -ge 1 ]
ok $? "a broker that dies takes no recorded attempt with it ($now)"

# --- release ---
release() {
	OUT=$("$CYBEROS" skill broker quarantine release --store "$STORE" \
	    "$@" 2>&1)
	RC=$?
}
release crowd
is "$RC" 1 "release: crowd is not held"
release nobody
is "$RC" 1 "release: nobody by that name"
release sly
is "$RC $OUT" "0 released sly 1.0.0" "release by id"
is "$(anchors skill.quarantine_released | jq -r .skill_id)" sly \
    "the ledger has it"
try 0
is "$RC $OUT" "0 done" "and it runs again"
try 2
is "$RC $(list | jq -c '.skills[] | select(.skill_id == "sly") |
    [.held, .attempts]')" '0 [false,2]' "what it did before does not count"
try 1
try 0
is "$RC" 5 "three new ones do"
is "$(anchors skill.quarantined | jq -r 'select(.skill_id == "sly") | 1' |
    wc -l | tr -d ' ')" 2 "and are in the ledger"
key=$(list | jq -r '.skills[] | select(.skill_id == "sly") | .key')
release "$(echo "$key" | cut -c 1-7)"
is "$RC" 1 "release: a key has eight digits at least"
release "$(echo "$key" | cut -c 1-12)"
is "$RC" 0 "release by key"
try 0
is "$RC" 0 "and it runs"
sed -i 's/^version: .*/version: 2.0.0/' "$T/skills/long/SKILL.md"
broker_run --config "$T/q.yaml" long -- 5
release long
is "$RC" 1 "release: an id of which two versions are held is not enough"
like "$OUT" 'name one by its key' "and says what to do"

# --- a state that cannot be read starts nothing; time lets attempts go ---
file=$STORE/quarantine/$key.json
cp "$file" "$T/state"
echo '{' >"$file"
try 0
is "$RC" 125 "a state that nobody can read: nothing is started"
# The last attempts were more than a day ago.
jq -c '.marks |= map(.at_ms -= 86400001)' "$T/state" >"$file"
try 2
is "$(list | jq -c '.skills[] | select(.skill_id == "sly") | [.held, .attempts]')" \
    '[false,2]' "what is older than 24 hours does not count"
# Decided, and killed before the ledger had it: it is told by the next one.
jq -c '.since_ms = 1 | .told = false | .attempts = 7777' "$T/state" >"$file"
try 0
is "$RC $(anchors skill.quarantined | jq -c 'select(.attempts == 7777) | 1')" "5 1" \
    "a decision that is not in the ledger yet is told, and holds"
try 0
is "$(anchors skill.quarantined | jq -c 'select(.attempts == 7777) | 1')" 1 \
    "once"
chmod 777 "$STORE/quarantine"
try 0
is "$RC" 125 "a directory that others can write is not believed"
chmod 700 "$STORE/quarantine"

for args in "" "list x" "release" "release a b" "release --json sly" "hold sly"; do
	# shellcheck disable=SC2086
	"$CYBEROS" skill broker quarantine $args >"$T/null" 2>&1
	is "$?" 2 "usage: quarantine $args"
done
verify_store
"$CYBEROS" skill broker sweep --store "$STORE" >"$T/null"
"$CYBEROS" skill broker verify --store "$STORE" >"$T/null"
is "$?" 0 "verify takes the new anchors"
done_testing
