#!/bin/sh
# cyberos skill validate: verdicts, exit statuses, the two forms of output.
# shellcheck disable=SC2016 # backquotes in expected messages are text

cyberos=${CYBEROS:-./cyberos}
vectors=t/vectors/yaml
n=0
failed=0
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' HUP INT TERM

# ok STATUS NAME: one line of TAP.
ok()
{
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $n - $2"
	else
		echo "not ok $n - $2"
		failed=$((failed + 1))
		sed 's/^/# /' "$dir/out" "$dir/err"
	fi
}

# run ARG...: validate with output in $dir/out and $dir/err, status in $rc.
run()
{
	"$cyberos" skill validate "$@" >"$dir/out" 2>"$dir/err"
	rc=$?
}

# status WANT NAME
status()
{
	[ "$rc" -eq "$1" ]
	ok $? "$2 (exit $rc)"
}

# says TEXT NAME: the output has a line with this fixed text.
says()
{
	grep -qF -e "$1" "$dir/out"
	ok $? "$2"
}

# is TEXT NAME: the output is exactly this line.
is()
{
	[ "$(cat "$dir/out")" = "$1" ]
	ok $? "$2"
}

# skill NAME: a directory with SKILL.md from stdin and a main.
skill()
{
	mkdir -p "$dir/$1"
	cat >"$dir/$1/SKILL.md"
	printf '#!/bin/sh\n' >"$dir/$1/main"
	chmod 755 "$dir/$1/main"
}

fields='id: demo
version: 1.0.0
description: A demo skill
allowed_memory_scopes: [memories/**]
allowed_tools: [Read]'

skill good <<EOT
---
$fields
---
# Body
EOT
skill bad <<EOT
---
$fields
allowed-tools: [Bash]
effort_minutes: 0
---
EOT
mkdir "$dir/empty"

# The whole table through the binary.
wrong=
mkdir "$dir/row"
: >"$dir/row/main"
tab=$(printf '\t')
while IFS=$tab read -r file verdict code; do
	case $file in '#'*) continue ;; esac
	# An empty code lets read take the reason for it; words have a blank.
	case $code in *' '*) code=${code%%"$tab"*} ;; esac
	cp "$vectors/$file" "$dir/row/SKILL.md"
	run --json "$dir/row"
	want=6
	[ "$verdict" = accept ] && want=0
	[ "$rc" -eq $want ] || wrong="$wrong $file"
	case $code in
	MissingFrontmatter* | YamlParse* | Invalid* | Unknown* | Duplicate*)
		grep -qF "\"code\":\"${code%%"$tab"*}\"" "$dir/out" ||
		    wrong="$wrong $file" ;;
	esac
done <"$vectors/frontmatter.tsv"
[ -z "$wrong" ]
ok $? "every file of the table gets its verdict and code$wrong"

run "$dir/good"
status 0 'a valid skill'
is "$dir/good/SKILL.md: valid: demo 1.0.0" 'says so'
run --json "$dir/good"
is '{"status":"ok","id":"demo","version":"1.0.0","allowed_memory_scopes":["memories/**"],"allowed_tools":["Read"]}' \
    'json: a valid skill'

run "$dir/bad"
status 6 'an invalid skill'
says "$dir/bad/SKILL.md:7:1: allowed-tools: UnknownField: there is no field \`allowed-tools\`; did you mean \`allowed_tools\`?" \
    'path, line, column, field, code, message'
says "$dir/bad/SKILL.md:8:17: effort_minutes: InvalidValue: " 'all errors at once'
[ "$(wc -l <"$dir/out")" -eq 2 ]
ok $? 'one error a line'
run "$dir/bad" --json
status 6 'options may follow'
says '{"status":"invalid","errors":[{"field":"allowed-tools","code":"UnknownField","message":"' \
    'json: an invalid skill'
says '"line":8,"column":17}]}' 'json: numbers'

run --json "$dir/good" "$dir/bad" "$dir/good/"
status 6 'several directories'
says '[{"status":"ok",' 'json: an array of them'
says '},{"status":"invalid",' 'json: in their order'

run "$dir/empty"
status 1 'no SKILL.md'
says "$dir/empty/SKILL.md:1:1: -: MissingFrontmatter: no SKILL.md" 'says so'
run "$dir/nothing"
status 1 'no directory'
run "$dir/good/SKILL.md"
status 1 'a file is no directory'
run "$dir/empty" "$dir/bad"
status 6 'invalid counts more than missing'
run "$dir/empty" "$dir/good"
status 1 'missing counts more than valid'
run --json "$dir/empty"
says '{"status":"invalid","errors":[{"field":"","code":"MissingFrontmatter"' \
    'json: no SKILL.md'

mkdir "$dir/link" "$dir/pipe" "$dir/large"
ln -s ../good/SKILL.md "$dir/link/SKILL.md"
run "$dir/link"
status 6 'a link is not followed'
mkfifo "$dir/pipe/SKILL.md"
run "$dir/pipe"
status 6 'a pipe does not block'
dd if=/dev/zero of="$dir/large/SKILL.md" bs=1048577 count=1 2>"$dir/err"
run "$dir/large"
status 6 'more than 1 MiB'

run
status 2 'no directory named'
run --nonsense "$dir/good"
status 2 'an unknown option'
run --broker-version 1.0 "$dir/good"
status 2 'no version'
run --help
status 0 'help'
says 'usage: cyberos skill validate DIR...' 'help says how'

skill new <<EOT
---
$fields
min_broker_version: 1.5.0
max_broker_version: 1.9.0
---
EOT
run --broker-version 1.4.9 "$dir/new"
says ': min_broker_version: BrokerTooOld: ' 'a broker that is too old'
run --broker-version=1.5.0 "$dir/new"
status 0 'one that is just right'
run --broker-version 2.0.0 "$dir/new"
says ': max_broker_version: BrokerTooNew: ' 'one that is too new'

skill signed <<EOT
---
$fields
signature:
  algo: ed25519
---
EOT
run "$dir/signed"
status 6 'a signature that is not verified'
says ':7:1: signature: SignatureFailed: ' 'is never passed over'

printf 'max_effort_minutes: 10\n' >"$dir/config"
skill long <<EOT
---
$fields
effort_minutes: 11
---
EOT
run "$dir/long"
status 0 'within the built-in ceiling'
run --config "$dir/config" "$dir/long"
status 6 "above the operator's"
says 'ceiling `max_effort_minutes`, which is 10' 'which is named'
printf 'max_effort_minute: 10\n' >"$dir/config"
run --config "$dir/config" "$dir/good"
status 3 'a bad configuration'
grep -qF "$dir/config:1:1: max_effort_minute: there is no such key; did you mean \`max_effort_minutes\`?" "$dir/err"
ok $? 'has a place and advice'
run --config "$dir/none" "$dir/good"
status 3 'a missing configuration'

skill warn <<EOT
---
$fields
x-allowed-files: [/srv/*, /tmp/**]
---
EOT
rm "$dir/warn/main"
run "$dir/warn"
status 0 'warnings are no errors'
says '`/srv/*` is one level only; write `/srv/**`' 'a trailing star'
says "$dir/warn/main: warning: " 'no main'
: >"$dir/warn/main"
run "$dir/warn"
says 'is not executable' 'a main that cannot be executed'
run --json "$dir/warn"
says '{"status":"ok",' 'json has no warnings'

# What is echoed cannot play with the terminal.
evil=$dir/$(printf 'a\033[31m\342\200\256b')
mkdir "$evil"
printf -- '---\nid: "a\\e[31m"\n"\\u202ex": 1\n---\n' >"$evil/SKILL.md"
run "$evil"
LC_ALL=C grep -q "$(printf '[\033\256]')" "$dir/out"
[ $? -eq 1 ]
ok $? 'no escape, no direction override in the output'
says '\x1b[31m\u202eb/SKILL.md:2:5: id: InvalidValue: ' 'they are spelled out'
run --json "$evil"
LC_ALL=C grep -q "$(printf '[\033\256]')" "$dir/out"
[ $? -eq 1 ]
ok $? 'nor in json'

echo "1..$n"
[ "$failed" -eq 0 ]
