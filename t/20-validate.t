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

# What is noticed further down is told where it is.
skill glued <<EOT
---
id: a
version: 1.0.0
description:foo
allowed_memory_scopes: []
allowed_tools: []
---
EOT
run "$dir/glued"
status 6 'no blank after a colon'
says "$dir/glued/SKILL.md:4:1: description: YamlParse: " 'has the place of its key'
says '; put a blank after the colon: "key: value";' 'and advice'
skill last <<EOT
---
$(printf '%s\n' "$fields" | sed 1d)
id:b
---
EOT
run "$dir/last"
says "$dir/last/SKILL.md:6:1: id: YamlParse: " 'in the last line as well'
skill open <<EOT
---
$(printf '%s\n' "$fields" | sed 's/^description.*/&\
tags: [a, b/')
---
EOT
run "$dir/open"
says "$dir/open/SKILL.md:5:7: tags: YamlParse: " 'a bracket that is not closed'

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

run --broker-version 0.1.0 "$dir/good"
status 0 'a skill that wants no version, and the oldest broker'
for v in 0.0.1 0.1.0-rc.1; do
	run --broker-version "$v" "$dir/good"
	status 6 "and $v"
	says ':1:1: min_broker_version: BrokerTooOld: ' 'by the default'
done

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
sed -i 's,/tmp/\*\*,/srv/x/**/*\, /srv/**/*/*\, /srv/**/x/*,
    s,memories/\*\*,memories/**/*,' "$dir/warn/SKILL.md"
run "$dir/warn"
says '`/srv/**/x/*` is one level only' 'a trailing star in a directory at any depth'
[ "$(grep -c 'one level' "$dir/out")" -eq 2 ]
ok $? 'behind a segment of two stars it is no level'
: >"$dir/warn/main"
run "$dir/warn"
says 'is not executable' 'a main that cannot be executed'
run --json "$dir/warn"
says '{"status":"ok",' 'json has no warnings'

# Warnings have a place, and each kind of grant that is meant seldom has one.
skill wide <<EOT
---
id: wide
version: 1.0.0
description: grants of all kinds
allowed_memory_scopes:
  - memories/notes/*
  - "**"
  - notes/**
  - memories/**/x
allowed_tools: [Read, Bash]
x-allowed-files:
  - /**
  - /etc/**
  - /home/alice/**
  - /home/*/**
  - /root/*
  - /**/id_rsa
  - /proc/**
  - /srv/made/for/it/**
  - /srv/one.txt
  - /home/alice/project/x.txt
  - /etc/hosts
  - "/{etc,srv}/**"
x-allowed-domains:
  - "*"
  - "*:8443"
  - "*.com"
  - "*.example.com"
  - api.example.com
  - "*.*"
  - "*.*:8443"
  - "*.*.com"
  - "*.*.*.com:8443"
  - "*.com."
  - a.*
  - "*.example.*"
  - "a.*:8443"
  - "*.c*"
  - "*.*.example.com"
  - "a.*.com"
  - "*a.com"
  - localhost
  - "::1"
  - "[::1]:8443"
  - 192.0.2.1
---
EOT
run "$dir/wide"
status 0 'wide grants are valid'
# warns LINE WORDS
warns()
{
	says "$dir/wide/SKILL.md:$1:5: $2" "a warning on line $1: $2"
}
warns 6 'allowed_memory_scopes: warning: `memories/notes/*` is one level only'
warns 7 'allowed_memory_scopes: warning: `**` covers all memory'
warns 8 'allowed_memory_scopes: warning: `notes/**` grants nothing'
warns 12 'x-allowed-files: warning: `/**` covers /, the whole'
warns 12 'x-allowed-files: warning: Bash together with `/**`'
warns 13 'x-allowed-files: warning: `/etc/**` covers /etc'
warns 14 'x-allowed-files: warning: `/home/alice/**` covers a home'
warns 15 'x-allowed-files: warning: `/home/*/**` covers a home'
warns 16 'x-allowed-files: warning: `/root/*` covers a home'
warns 16 'x-allowed-files: warning: `/root/*` is one level only'
warns 17 'x-allowed-files: warning: `/**/id_rsa` looks into every'
warns 18 'x-allowed-files: warning: `/proc/**` grants nothing'
warns 19 'x-allowed-files: warning: Bash together with `/srv/made/for/it/**`'
warns 23 'x-allowed-files: warning: `/{etc,srv}/**` covers /etc'
warns 25 'x-allowed-domains: warning: `*` covers every host of'
warns 26 'x-allowed-domains: warning: `*:8443` covers every host of'
warns 27 'x-allowed-domains: warning: `*.com` covers every host below'
warns 30 'x-allowed-domains: warning: `*.*` covers every host of'
warns 31 'x-allowed-domains: warning: `*.*:8443` covers every host of'
warns 32 'x-allowed-domains: warning: `*.*.com` covers every host below'
warns 33 'x-allowed-domains: warning: `*.*.*.com:8443` covers every host below'
warns 34 'x-allowed-domains: warning: `*.com.` covers every host below'
warns 35 'x-allowed-domains: warning: `a.*` covers this name in every domain'
warns 36 'x-allowed-domains: warning: `*.example.*` covers this name in every'
warns 37 'x-allowed-domains: warning: `a.*:8443` covers this name in every'
warns 38 'x-allowed-domains: warning: `*.c*` covers every host below'
for line in 9 20 21 22 28 29 39 40 41 42 43 44 45; do
	grep -q "SKILL.md:$line:" "$dir/out"
	[ $? -eq 1 ]
	ok $? "none on line $line"
done
sed 's/^allowed_tools.*/&\
disallowed_tools: [Bash]/' "$dir/wide/SKILL.md" >"$dir/out"
mv "$dir/out" "$dir/wide/SKILL.md"
run "$dir/wide"
grep -q 'Bash together' "$dir/out"
[ $? -eq 1 ]
ok $? 'none for Bash when it is disallowed'

# On a terminal the line is shown, with a mark below the place.
# screen COLUMNS DIRECTORY: what a terminal gets
screen()
{
	TERM=xterm script -q -e -c "stty cols $1; '$cyberos' skill validate \
	    '$2'" /dev/null </dev/null >"$dir/typed" 2>"$dir/err"
	rc=$?
	tr -d '\r' <"$dir/typed" >"$dir/out"
}
# shown NAME: the lines from stdin are on the screen, one after the other
shown()
{
	cat >"$dir/want"
	awk 'NR == FNR { want = want $0 "\n"; next } { got = got $0 "\n" }
	    END { exit index(got, want) == 0 }' "$dir/want" "$dir/out"
	ok $? "$1"
}
tab=$(printf '\t')
skill classic <<EOT
---
id: Classic
version: 1.0.0
description: "日本語 é ${tab}x"
tags: ["日本語", ok, 日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語あ]
allowed_memory_scopes: []
allowed_tools: [MemoryRead, MemorySearch, MemoryEmit, Read, Write, Edit, Glob, Grip]
effort_minutes:${tab}0
allowed-tools: []
---
EOT
if command -v script >/dev/null && command -v stty >/dev/null; then
	NO_COLOR=1
	export NO_COLOR
	screen 80 "$dir/classic"
	status 6 'on a terminal'
	shown 'the line and a mark' <<EOT
    2 | id: Classic
      |     ^
EOT
	shown 'wide characters' <<EOT
    5 | tags: ["日本語", ok, 日本語日本語日本語日本語日本語日本語日本語日本語...
      |                      ^
EOT
	shown 'a long line is cut' <<EOT
    7 | ...[MemoryRead, MemorySearch, MemoryEmit, Read, Write, Edit, Glob, Grip]
      |                                                                    ^
EOT
	shown 'a tab' <<EOT
    8 | effort_minutes: 0
      |                 ^
EOT
	screen 40 "$dir/classic"
	shown 'to the width of the terminal' <<EOT
    7 | ...ead, Write, Edit, Glob, Grip]
      |                            ^
EOT
	screen 80 "$dir/wide"
	shown 'a warning has its line' <<EOT
   13 |   - /**
      |     ^
EOT
	LC_ALL=C grep -q "$(printf '\033')" "$dir/typed"
	[ $? -eq 1 ]
	ok $? 'no colour with NO_COLOR'
	unset NO_COLOR
	screen 80 "$dir/classic"
	LC_ALL=C grep -q "$(printf '\033\\[1;31m^')" "$dir/typed"
	ok $? 'a red mark without'
	run "$dir/classic"
	grep -q '^ *[0-9]* |' "$dir/out"
	[ $? -eq 1 ]
	ok $? 'not on a terminal: one line an error'
elif [ "${T_MUST:-0}" = 1 ]; then
	ok 1 'on a terminal: script(1) and stty(1) are missing, and must not be'
else
	echo "ok $((n += 1)) - on a terminal # SKIP no script(1) or stty(1)"
fi

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

# The skill that a broker in stock rehearses with: one that is refused warms little.
mkdir "$dir/sample"
sed -n '/^static const char skill/,/;$/s/^    "\(.*\)\\n";\{0,1\}$/\1/p' \
    broker/rehearse.c | sed 's/\\"/"/g' >"$dir/sample/SKILL.md"
run "$dir/sample"
status 0 'what is rehearsed is a skill'
says 'sample 1.0.0' 'and is found in the source'

echo "1..$n"
[ "$failed" -eq 0 ]
