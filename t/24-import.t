#!/bin/sh
# cyberos skill import: what comes out of files of other kinds, that it is never
# wider than what went in, that the original is only read, and carefully.
# shellcheck disable=SC2016,SC2088 # backquotes, dollars, tildes are text
. t/lib.sh

cd "$T" || exit 99
ROOT=$OLDPWD
CASE=0

# import DIR [ARG...]: leaves RC, OUT, ERR
import() {
	"$CYBEROS" skill import "$@" >"$T/out" 2>"$T/err" </dev/null
	RC=$?
	OUT=$(cat "$T/out")
	ERR=$(cat "$T/err")
}

# from NAME: import a SKILL.md from standard input; leaves GOT, on one line:
# tools|disallowed|files|domains
from() {
	CASE=$((CASE + 1))
	NAME=$1
	DIR=case$CASE
	mkdir "$DIR"
	cat >"$DIR/SKILL.md"
	before=$(sum "$DIR")
	import "$DIR"
	is "$(sum "$DIR")" "$before" "$NAME: the original is as it was"
	GOT=refused
	[ "$RC" -eq 0 ] || return 0
	is "$("$CYBEROS" skill validate --json "$DIR-cyberos" | jq -r .status)" \
	    ok "$NAME: valid"
	GOT="$(field allowed_tools)|$(field disallowed_tools)|$(field \
	    x-allowed-files)|$(field x-allowed-domains)"
}
sum() { find "$1" -exec ls -ld --time-style=full-iso {} + | cat - "$1"/SKILL.md | cksum; }
# field NAME: of the last result, without brackets and quotes
field() {
	sed -n "2,/^---/s/^$1: //p" "$DIR-cyberos/SKILL.md" | tr -d '[]" '
}
# gives TOOLS|DISALLOWED|FILES|DOMAINS
gives() { is "$GOT" "$1" "$NAME: the grants"; }
# told WORD PATTERN: a note of this kind, over all its lines
told() {
	tr -s ' \n' ' ' <"$T/out" | grep -qE -- "$1 +$2"
	ok "$?" "$NAME: told: $1 $2"
	tr -s ' \n' ' ' <"$T/out" | grep -qE -- "$1 +$2" || note "$OUT"
}
# refused_with PATTERN
refused_with() {
	is "$RC" 6 "$NAME: refused"
	like "$ERR" "$1" "$NAME: why"
	[ ! -e "$DIR-cyberos" ] && [ -z "$(find . -name "$DIR-cyberos.*")" ]
	ok "$?" "$NAME: nothing is written"
}
# tools LINE: a file that is fine but for its tools
tools() {
	from "${2:-$1}" <<EOT
---
name: some-skill
description: Does something
$1
---
# Text
EOT
}

# --- the usual kind ---

from 'the usual kind' <<'EOT'
---
name: pdf-tools
description: Fills forms
license: MIT
compatibility: needs python3
allowed-tools: Read Grep WebFetch(domain:example.com)
metadata:
  author: somebody
  version: "1.2"
  nested:
    deep: x
---
# Text
---
more
EOT
gives 'Read,Grep,HttpFetch|||example.com'
is "$(field id) $(field version)" 'pdf-tools 1.2.0' 'id and version'
is "$(field x-license) $(field x-author)" 'MIT somebody' 'kept for people'
is "$(sed '1,/^---$/d' case1-cyberos/SKILL.md)" '# Text
---
more' 'the text is as it was'
told mapped 'metadata.version \(line 9\): version 1.2.0'
told dropped 'metadata.nested.deep \(line 11\): there is no such field'
told narrowed 'x-allowed-files: Read, Grep allowed, but with nothing to reach'
told made 'main:'
told '' 'cyberos skill try case1-cyberos'
is "$(case1-cyberos/main 2>&1 <case1-cyberos/SKILL.md; echo $?)" \
    "sed: can't read SKILL.md: No such file or directory
2" 'main reads its own directory'
is "$(cd case1-cyberos && ./main)" '# Text
---
more' 'main prints the text'
is "$(cd case1-cyberos && ./main ../case1/x 2>&1; echo $?)" \
    "../case1/x: not below $T/case1-cyberos
2" 'and runs nothing from elsewhere'

# --- lists of tools in all shapes ---

tools 'allowed-tools: Read, Write,Edit'
gives 'Read,Write,Edit|||'
tools 'allowed-tools: Read Write Edit'
gives 'Read,Write,Edit|||'
tools 'allowed-tools: [Read, Write]'
gives 'Read,Write|||'
tools 'allowed-tools:
  - Read
  - Write' 'a block list'
gives 'Read,Write|||'
tools 'allowed-tools: >-
  Read,
  Write' 'a folded text'
gives 'Read,Write|||'
tools 'allowed-tools: |
  - Read
  - Write' 'a list within a text'
gives 'Read,Write|||'
tools 'allowed-tools: ["Read, Write", Edit]'
gives 'Read,Write,Edit|||'
tools 'allowedTools: [Read]'
gives 'Read|||'
tools 'allowed_tools: Read'
gives 'Read|||'
tools 'tools: Read, Grep'
gives 'Read,Grep|||'
tools 'tools: {read: true, bash: false, webfetch: true}'
gives 'Read,HttpFetch|Bash||'
tools 'permissions: {allow: [Read, Bash], deny: ["Bash(rm:*)"]}'
gives 'Read|Bash||'
told narrowed 'permissions.deny .*`Bash\(rm:\*\)`: Bash is forbidden as a whole'
tools 'permission: {edit: deny, bash: ask, read: allow}'
gives 'Read|Bash,Write,Edit||'
# What is read as all of Bash, or loses a limit, would be wider.
tools 'allowed-tools: Bash(//opt/x/run.sh), Read'
gives 'Read|||'
tools 'allowed-tools: Grep(//srv/**), Write(//srv/**)
permissions:
  deny: [Read(//srv/secret/**), Edit(//srv/secret/**)]'
gives '|Read,Write,Edit,Glob,Grep||'
tools 'allowed-tools: MultiEdit, LS, WebFetch, read_file'
gives 'Read,Edit,Glob,HttpFetch|||'
tools 'allowed-tools: WebSearch, Task, mcp__a__b, Read'
gives 'Read|||'
told dropped 'allowed-tools .*`WebSearch`: there is no such tool'
told dropped 'allowed-tools .*`mcp__a__b`: tools of MCP'
tools 'allowed-tools: "*"'
gives '|||'
told dropped 'allowed-tools .*names no tool'
tools 'allowed-tools:' 'no value'
gives '|||'
tools 'allowed-tools: []'
gives '|||'
tools 'license: MIT' 'no tools at all'
gives '|||'
told narrowed 'allowed_tools: none, since the original names none'

# --- limits: kept whole, or the tool goes ---

tools 'allowed-tools: Bash(git:*)'
gives '|||'
told dropped 'allowed-tools .*`Bash\(git:\*\)`: Bash is allowed as a whole'
tools 'allowed-tools: Bash(git add:*), Bash(git commit -m *), Read'
gives 'Read|||'
tools 'allowed-tools: [Bash(git add:*, git commit:*), Read]'
gives 'Read|||'
tools 'allowed-tools: Bash (git:*) Read' 'a blank before the parenthesis'
gives 'Read|||'
tools 'allowed-tools: Bash git status, Read' 'words behind a tool'
gives 'Read|||'
told dropped 'allowed-tools .*`Bash git status`: one of these words'
tools 'allowed-tools: Bash and git, all, Read' 'words between tools'
gives 'Read|||'
tools 'allowed-tools: none'
gives '|||'
tools 'allowed-tools: Bash(*)'
gives 'Bash|||'
tools 'allowed-tools: Bash, Bash(git:*)' 'a limit besides none'
gives 'Bash|||'
tools 'allowed-tools: "Read !Bash"'
gives 'Read|Bash||'
tools 'allowed-tools: "Bash, !Bash"'
gives '|Bash||'
tools 'allowed-tools: Bash, -Bash'
gives '|Bash||'
tools 'allowed-tools: Bash, -Bash(rm:*)' 'a part behind a dash'
gives '|Bash||'
tools 'allowed-tools: Bash, –Bash' 'a longer dash'
gives '|Bash||'
tools 'allowed-tools: Read(//srv/**), -Read(//srv/secret/**)'
gives '|Read,Glob,Grep||'
tools 'allowed-tools: >-
  - Read
  - Write' 'a folded list within a text'
gives 'Read,Write|||'
tools 'allowed-tools: |
  Tools:
  - Read' 'a list below a heading'
gives 'Read|||'
tools 'allowed-tools: Read(//srv/data/**)'
gives 'Read||/srv/data/**|'
for path in ./src/** src/** '~/x' /srv/x '//srv/{a,b}' '//srv/[!a]' '*' \
    '//srv/../etc/x' '//srv/a**' ''; do
	tools "allowed-tools: 'Read($path)'" "Read($path)"
	gives '|||'
done
tools 'allowed-tools: Read(//srv/a/**), Write(//srv/b/**)'
gives 'Read,Write|||'
told narrowed 'allowed-tools .*`/srv/a/\*\*` is not granted: x-allowed-files'
tools 'allowed-tools: Read(//srv/a), Read(//srv/b), Write(//srv/b)'
gives 'Read,Write||/srv/b|'
tools 'allowed-tools: Read, Write(//srv/b)' 'a limit on one tool only'
gives 'Read,Write||/srv/b|'
tools 'allowed-tools: Read(//srv/a), Write(//srv/b), Write' 'one is free'
gives 'Read,Write||/srv/a|'
tools 'allowed-tools: [Read(//srv/a), Write]
disallowed-tools: Write' 'what is forbidden does not count'
gives 'Read|Write|/srv/a|'
tools 'allowed-tools: WebFetch(domain:*.example.com), WebFetch(domain:a.org)'
gives 'HttpFetch|||*.example.com,a.org'
for host in https://example.com/x domain:example.com/x domain:10.0.0.* \
    example.com 'domain:a b' url:x; do
	tools "allowed-tools: 'WebFetch($host)'" "WebFetch($host)"
	gives '|||'
done
tools 'allowed-tools: HttpFetch(domain:a.org), HttpPost(domain:b.org)'
gives 'HttpFetch,HttpPost|||'
tools 'allowed-tools: Read
x-allowed-files: [/srv/x, /srv/y]' 'files of ours'
gives 'Read||/srv/x,/srv/y|'
tools 'allowed-tools: Read(//srv/x)
x-allowed-files: [/srv/x, /srv/y]' 'files of ours and a limit'
gives 'Read||/srv/x|'
tools 'allowed-tools: MemoryRead
allowed_memory_scopes: [memories/a/**]
tenant_scope: pinned
effort_minutes: 5' 'fields of ours'
gives 'MemoryRead|||'
is "$(field allowed_memory_scopes) $(field tenant_scope) $(field \
    effort_minutes)" 'memories/a/** pinned 5' 'fields of ours are kept'
tools 'disallowed-tools: [Bash, WebSearch, "WebFetch(domain:evil.org)"]
allowed-tools: [Bash, WebFetch, Read]' 'what is forbidden'
gives 'Read|Bash,HttpFetch||'

tools 'allowed-tools: Read(//srv/**), Bash
disallowed-tools: [-Bash]' 'a dash in a list of what is forbidden'
gives 'Read|Bash|/srv/**|'
tools 'permissions: {allow: [Bash], deny: ["-Bash"]}'
gives '|Bash||'
tools 'permission: {bash: allow, "-bash": deny}'
gives '|Bash||'
tools 'permission: {"-bash": deny, read: allow}'
gives 'Read|Bash||'
tools 'tools: {bash: true, "-Bash": true}' 'a dash before what is switched on'
gives '|Bash||'
tools 'allowed-tools: Bash
disallowed-tools: [TodoWrite, NotebookEdit, websearch, mcp__a__read]' \
    'what others have alone'
gives 'Bash|||'
tools 'allowed-tools: todowrite task Read' 'the same where it is allowed'
gives 'Read|||'

# --- what may be a limit and is not understood is refused ---

tools 'allowed-tools: Bash(git'
refused_with 'case[0-9]*/SKILL.md:4:1: allowed-tools: a \( is not closed'
tools 'allowed-tools: Bash(git:*)x Read'
refused_with 'separate tools by commas'
tools 'allowed-tools: (git:*)'
refused_with 'a limit without a tool'
tools 'allowed-tools: "Read ! Bash"'
refused_with 'separate tools by commas'
tools 'allowed-tools: {Bash: {git: true}}'
refused_with 'may be a limit, and is not understood'
tools 'allowed-tools: [Read, [Write]]'
refused_with 'neither a text nor a list of texts'
tools 'allowed-tools: [Read, {Bash: git}]'
refused_with 'neither a text nor a list of texts'
tools 'allowed-tools: "Read\u200b"'
refused_with 'allowed-tools'
tools 'allowed-tools: Read
allowed_tools: Bash' 'two lists'
refused_with 'keep one of the two'
tools 'disallowed-tools: "Bash*"
allowed-tools: Bash' 'a pattern of what is forbidden'
refused_with 'may forbid any tool'
for word in BashTool Bash-git bash-rm web-fetch LSTool 'Bash;' 'Bash:git' \
    'not Bash' rm Everything WebAccess -rm yes Run Search Frob; do
	tools "allowed-tools: Bash
disallowed-tools: ['$word']" "forbidden: $word"
	refused_with 'disallowed-tools: `.*` may forbid any tool'
done
tools 'tools: {bash: true, bash-rm: false}'
refused_with 'tools.bash-rm: `bash-rm` may forbid any tool'
tools 'tools: {bash: true, readOnly: true}'
refused_with 'tools.readOnly: may be a limit'
while IFS= read -r list; do
	tools "allowed-tools: $list"
	refused_with ':4:1: allowed-tools: `.*` may limit other tools'
done <<'EOT'
WebFetch(domain:*), except domain:internal.example.com
Bash, but only git
[Bash, "except rm"]
Read(//srv/**), except //srv/secret/**
Bash, without rm
Bash, for git
Bash, read-only
Bash, ReadOnly
Bash, NoBash
Bash, except(rm)
Bash, git-only
Bash, don't delete
Bash git only, Read
Bash, Bash-
all tools except Bash
all, but Bash, Read
EOT
while IFS= read -r list; do
	tools "allowed-tools: $list"
	refused_with ':4:1: allowed-tools: '
done <<'EOT'
Bash, - Bash(rm:*)
"Bash\n- Bash(rm:*)"
"*, - Bash"
all - Bash
[Bash, "- rm"]
Bash, – rm
Bash, -rm
Bash -Recurse
Read(//srv/**), -//srv/secret/**
WebFetch(domain:*), !internal.example.com
EOT
for key in denied-commands forbidden-tools blocked_hosts exclude-paths \
    restrict-to read-only permission-mode allowed-domains sandbox; do
	tools "allowed-tools: Bash
$key: x" "$key"
	refused_with "$key: may be a limit, and is not understood"
done
while IFS= read -r line; do
	tools "allowed-tools: Bash
$line"
	refused_with ":5:1: [^ ]*: may be a limit, and is not understood"
done <<'EOT'
network: false
mode: read-only
limits: {write: none}
offline: true
without: Bash
except: Bash
never: Bash
ban: Bash
avoid: [Bash]
no-tools: true
noTools: true
skip-tools: Bash
requires-approval: true
requiresApproval: true
domains: [example.com]
domains: []
domain: example.com
domain: [devops, example.com]
domain: none
domain: []
metadata: {domain: "*"}
hosts: [example.com]
scope: project
max-calls: 3
deny: {Bash: }
bash: false
Bash: {git: true}
auto-edit: no
"Bash(rm:*)": deny
web: false
http: false
egress: none
outbound: deny
filesystem: read
capabilities: [read]
capabilities: []
tool: Read
toolset: [Read]
policies: [no-network]
rules: [deny Bash]
bash-commands: [git]
shell-commands: [ls]
some-field: low
rules: [{tool: Bash, action: deny}]
rules: [{deny: "Bash(rm:*)"}]
rules: {}
policies: [{tool: Bash, effect: deny}]
x-rules: [{deny: Bash}]
guards: [[no-bash]]
reach: [{network: none}]
claude: {disallowed-tools: Bash}
metadata: {rules: [{forbid: Bash}]}
metadata: {list: [{network: none}]}
metadata: {list: [[[no-bash]]]}
metadata: {list: [a, {b: [{c: deny}]}]}
metadata: {list: [{may: [Read]}]}
metadata: {list: [Read, Write]}
metadata: {web: false}
metadata: {filesystem: read}
metadata: {"li\u200bst": a}
metadata: {list: "a\u200b"}
metadata: {uses: Edit|Write}
metadata: {paths: [/srv]}
requires: [{network: false}]
examples: [{deny: Bash}]
license: {network: none}
type: read-only
requirements: [no network]
hooks: {PreToolUse: [{matcher: "*", hooks: [{command: ./check}]}]}
glob: false
shell: none
EOT
# What a long name loses hides nothing.
tools "allowed-tools: Bash
metadata: {$(printf 'a%.0s' $(seq 120)): {$(printf 'b%.0s' $(seq 120)): {long: {deny: Bash}}}}" \
    'a name that is cut'
refused_with 'may be a limit, and is not understood'
tools 'allowed-tools: Bash
description: Use when: asked
  network: none' 'a limit that would become text'
refused_with 'case[0-9]*/SKILL.md:5:'
tools 'allowed-tools: Read
license: MIT
homepage: https://example.com
author: somebody
tags: [no, only]
keywords: never
category: network
model: some-model
color: none
icon: x
language: bash
shell: bash
glob: "*.md"
compatibility: no network
requirements: [python3]
requires: {bins: [git]}
dependencies: none
notes: not much
when_not_to_use: never
read_when: [reading]
maxTurns: 3
mode: subagent
network:
offline: ""
blocked-hosts: []
metadata:
  domain: devops
  scope: implementation
  python-tools: "x, y"' 'what is no limit'
gives 'Read|||'
tools 'allowed-tools: Read
category: testing
difficulty: hard
risk: none
source: community
date_added: "2026-02-27"
domain: [devops, security]
triggers: ["do not know which file"]
platforms: [linux, macos]
examples:
  - input: read a file
    output: text
  - input: no command at all
authors: [{name: a, url: "https://example.com"}]
dependencies: [{name: jq, version: 1.7}]
inputs: [{name: file, type: text, required: true}]
repository: {type: git, url: "https://example.com/x", path: x}
metadata:
  beta: true
  openclaw:
    emoji: "⚙️"
    requires: {bins: [bash, grep], env: [API_KEY], config: [a.b]}
    install:
      - {id: brew, kind: brew, formula: jq, bins: [jq], label: Install jq}
      - {id: get, kind: download, url: "https://example.com", targetDir: x}
  list: [[a], {b: c}]
x-team: {lead: somebody}' 'lists of mappings that are no limit'
gives 'Read|||'
told dropped 'metadata.openclaw.install.2.targetDir \(line [0-9]+\): there is no'
told dropped 'metadata.list.1 \(line [0-9]+\): there is no such field'
tools 'allowed-tools: Read
tenant_scope: [pinned]' 'a limit of ours that cannot be read'
refused_with 'tenant_scope'
tools 'allowed-tools: Read
tenant_scope: pined' 'and one that is misspelt'
refused_with 'what comes out is not valid: tenant_scope'

# --- names, versions, descriptions ---

# head NAME YAML: a file with these fields
head_of() {
	from "$1" <<EOT
---
$2
allowed-tools: Read
---
Text
EOT
}
# becomes NAME ID VERSION
becomes() { is "$(field id) $(field version)" "$2 $3" "$1: id and version"; }
n=0
while IFS='|' read -r name id; do
	n=$((n + 1))
	head_of "name $name" "name: $name
description: x"
	becomes "name $name" "$id" 0.1.0
done <<'EOT'
simple|simple
PDF Tools|pdf-tools
"a_b.c/d: e"|a-b-c-d-e
--x--|x
EOT
for name in true false null yes no on off y n; do
	head_of "name $name" "name: '$name'
description: x"
	becomes "name $name" "$name" 0.1.0
	like "$(cat "$DIR-cyberos/SKILL.md")" "^id: \"$name\"$" \
	    "name $name: in quotes, since YAML has such a word"
done
for name in '日本語' 3d '"!"' '[a]' 12; do
	head_of "name $name" "name: $name
description: x"
	becomes "name $name" "case$CASE" 0.1.0
	told mapped 'name.*from the name of the directory'
done
while IFS='|' read -r version want; do
	head_of "version $version" "name: v
description: x
version: $version"
	becomes "version $version" v "$want"
done <<'EOT'
1|1.0.0
1.0|1.0.0
1.10|1.10.0
"2.3.4"|2.3.4
v1.2.3|1.2.3
1.2.3-rc.1|1.2.3-rc.1
01.2|0.1.0
latest|0.1.0
1.2.3.4|0.1.0
1.|0.1.0
[1]|0.1.0
EOT
head_of 'both versions' 'name: v
version: 1.0.0
description: x
metadata:
  version: 2.0.0'
becomes 'both versions' v 1.0.0
told dropped 'metadata.version .*line 3 says it already'
long=$(awk 'BEGIN { for (i = 0; i < 60; i++) printf "word%d ", i }')
head_of 'two authors' 'name: t
description: d
author: one
metadata: {author: two}'
is "$(field x-author)" one 'the first is kept'
told dropped 'metadata.author .*: x-author is there already'
head_of 'a long description' "name: long
description: $long"
told narrowed 'description .*shortened from'
is "$(sed '1,/^---$/d' "$DIR-cyberos/SKILL.md" | sed -n 2p)" "${long% }" \
    'all of it stands in the text'
like "$(field description)" '^word0.*\.\.\.$' 'and its beginning in the head'
head_of 'a folded description' 'name: f
description: >
  one
  two
   three'
is "$(sed -n 's/^description: //p' "$DIR-cyberos/SKILL.md")" \
    '"one two three"' 'is one line'
head_of 'a quoted one' 'name: q
description: "say \"hi\" \\ # no"'
is "$(sed -n 's/^description: //p' "$DIR-cyberos/SKILL.md")" \
    '"say \"hi\" \\ # no"' 'is quoted again'
head_of 'tags' 'name: t
description: x
tags: a, b , c
keywords: [d]'
is "$(field tags)" a,b,c 'tags of one text'
head_of 'no description' 'name: t'
refused_with 'there is no description'
head_of 'an empty one' 'name: t
description: ""'
refused_with 'the description is empty'
head_of 'one that hides something' 'name: t
description: "a\u202eb"'
refused_with 'nobody can see'
mkdir '3' && printf -- '---\ndescription: x\n---\n' >3/SKILL.md
import 3
is "$RC" 6 'no name at all'
like "$ERR" 'choose one with --id' 'says what to do'
import 3 --id three
is "$RC $(sed -n 's/^id: //p' 3-cyberos/SKILL.md)" '0 three' '--id'
import 3 null --id null
is "$RC $(sed -n 's/^id: //p' null/SKILL.md)" '0 "null"' '--id null'
import 3 other --id 3
is "$RC" 6 '--id that is none'
import 3 'other/
a' --id b
is "$RC" 1 'OUT in a directory that is not there'

# --- not quite YAML ---

head_of 'a colon' 'name: c
description: Use when: (1) asked: often'
told mended 'line 3:'
is "$(sed -n 's/^description: //p' "$DIR-cyberos/SKILL.md")" \
    '"Use when: (1) asked: often"' 'a colon: all of it'
tools 'allowed-tools: Bash(git: *), Read # and Write'
gives 'Read|||'
tools 'allowed-tools: *Bash # Read'
gives '|||'
tools 'globs: *.md, **/*.txt
argument-hint: [action] [args]
allowed-tools: Read' 'stars and brackets'
gives 'Read|||'
told dropped 'globs .*grants nothing'
tools 'allowed-tools: [Bash(git: *), Read]
paths:
  - *.md' 'in lists'
gives 'Read|||'
from 'CRLF and a byte order mark' <<EOT
$(printf '\357\273\277---\r')
name: crlf$(printf '\r')
description: Use when: x$(printf '\r')
allowed-tools: Read, Bash(git: *)$(printf '\r')
hooks:$(printf '\r')
  PreToolUse: [x]$(printf '\r')
---$(printf '\r')
# Text$(printf '\r')
EOT
gives 'Read|||'
is "$(tail -n 1 "$DIR-cyberos/SKILL.md" | od -c | head -n 1)" \
    "$(printf '# Text\r\n' | od -c | head -n 1)" 'the text keeps its line ends'
told dropped 'hooks.PreToolUse .*the broker runs nothing but main'
tools 'allowed-tools: &t [Read]
tools: *t' 'an alias'
refused_with 'anchors'
tools 'allowed-tools: !!seq [Read]'
refused_with 'tags'
tools 'allowed-tools: Read
allowed-tools: Bash' 'a key twice'
refused_with ':5:1: allowed-tools: .*stands on line 4 already'
tools '	allowed-tools: Read' 'a tab'
refused_with 'tab'
from 'no frontmatter' <<'EOT'
# Text
EOT
refused_with 'line 1 is not exactly ---'
from 'an empty file' </dev/null
refused_with 'the file is empty'

# Each table of valid and broken files: refused, or valid and no wider.
# wider: a tool in the result that the original does not name
wider=
count=0
while IFS='	' read -r file rest; do
	case $file in '#'*) continue ;; esac
	rm -rf vector vector-cyberos
	mkdir vector
	cp "$ROOT/t/vectors/yaml/$file" vector/SKILL.md
	import vector
	case $RC in
	0)
		count=$((count + 1))
		DIR=vector
		for tool in $(field allowed_tools | tr ',' ' '); do
			grep -aq "$tool" vector/SKILL.md ||
			    wider="$wider $file:$tool"
		done
		"$CYBEROS" skill validate vector-cyberos >/dev/null ||
		    wider="$wider $file"
		;;
	1 | 6) ;;
	*) wider="$wider $file($RC)" ;;
	esac
done <"$ROOT/t/vectors/yaml/frontmatter.tsv"
is "$wider" '' "of all vectors, $count come out, valid and no wider"

# --- the files beside it ---

mkdir -p files/scripts files/.git/x files/deep
printf -- '---\nname: files\ndescription: x\n---\n' >files/SKILL.md
printf '#!/bin/sh\necho "ran $1"\n' >files/scripts/run
chmod 755 files/scripts/run
echo data >files/deep/data
chmod 600 files/deep/data
echo secret >outside
ln -s "$T/outside" files/absolute
ln -s ../outside files/relative
ln -s deep files/directory
ln -s nowhere files/dangling
mkfifo files/pipe
echo tenant >files/.tenant
odd=$(printf 'odd\n\033[31m')
echo odd >"files/$odd"
before=$(sum files)
import files
is "$RC" 0 'files are copied'
is "$(sum files)" "$before" 'and as they were'
is "$(cd files-cyberos && find . ! -name 'odd*' | sort | tr '\n' ' ')" \
    '. ./SKILL.md ./deep ./deep/data ./main ./scripts ./scripts/run ' \
    'regular files only'
for name in absolute relative directory dangling pipe .git .tenant; do
	like "$OUT" "^left out +$name: " "$name is left out, and told"
done
is "$(cat files-cyberos/deep/data) $(stat -c %a files-cyberos/deep/data \
    files-cyberos/scripts/run | tr '\n' ' ')" 'data 600 755 ' \
    'bytes and the bits'
LC_ALL=C grep -q "$(printf '\033')" "$T/out"
is "$?" 1 'no escape reaches the terminal'
"$CYBEROS" skill try files-cyberos -- scripts/run it >"$T/out" 2>&1
is "$?" 0 'a script of it runs'
like "$(cat "$T/out")" '^ran it$' 'with its arguments'

mkdir private private/closed private/open
printf -- '---\nname: private\ndescription: x\n---\n' >private/SKILL.md
for mode in 600 640 644 666 700 711 750 755 4777 400; do
	: >"private/$mode"
	chmod "$mode" "private/$mode"
done
chmod 2777 private/open
chmod 700 private/closed
chmod 640 private/SKILL.md
chmod 750 private
# modes DIR: of all that is in it
modes() { (cd "$1" && stat -c '%n:%a' . * | tr '\n' ' '); }
import private
is "$RC $(modes private-cyberos)" '0 .:750 400:600 4777:755 600:600 640:640 644:644 666:644 700:700 711:711 750:750 755:755 SKILL.md:640 closed:700 main:755 open:755 ' \
    'what was private stays private'
chmod 700 private
chmod 600 private/SKILL.md
(umask 027 && import private under && [ "$RC" -eq 0 ])
ok "$?" 'a directory for its owner alone'
is "$(modes under)" '.:700 400:600 4777:750 600:600 640:640 644:640 666:640 700:700 711:710 750:750 755:750 SKILL.md:600 closed:700 main:750 open:750 ' \
    'and the umask counts'
if is_root; then
	chgrp -R 54321 private
	chmod 750 private
	import private group
	is "$(modes group | tr ' ' '\n' | grep -E '^(\.|640|711|750|SKILL.md|755):' |
	    tr '\n' ' ')" '.:700 640:600 711:711 750:700 755:755 SKILL.md:600 ' \
	    'another group gets what all others had'
fi

mkdir given
printf '#!/bin/sh\necho own\n' >given/main
chmod 755 given/main
printf -- '---\nname: given\ndescription: x\n---\n' >given/SKILL.md
import given
is "$(cat given-cyberos/main)" "$(cat given/main)" 'a main of its own is kept'

# --- OUT ---

import given
is "$RC" 1 'OUT is there'
like "$ERR" 'given-cyberos: is there; remove it' 'says so'
mkdir empty
import given empty
is "$RC $(ls empty | tr '\n' ' ')" '0 SKILL.md main ' 'an empty directory'
ln -s given-cyberos linked
import given linked
is "$RC $(readlink linked)" '1 given-cyberos' 'a link'
: >file
import given file
is "$RC" 1 'a file'
mkdir given/empty
ln -s given/empty inner
ln -s given alias
before=$(find given -exec ls -ld --time-style=full-iso {} +)
for out in given/within given/empty given/empty/../within given/empty/deep \
    "$T/given/within" ./given//within/ inner/within alias/within; do
	import given/ "$out"
	is "$RC" 1 "OUT within DIR: $out"
	like "$ERR" 'lies in the original.*name a directory elsewhere' 'says so'
done
import alias given/within
is "$RC" 1 'DIR by a link'
(cd given && "$CYBEROS" skill import . within >"$T/out" 2>&1)
is "$?" 1 'DIR as the working directory'
is "$(find given -exec ls -ld --time-style=full-iso {} +)" "$before" \
    'the original is as it was'
import given given-within
is "$RC" 0 'a name that begins as that of DIR does'
rmdir given/empty
(cd given && "$CYBEROS" skill import . >"$T/out" 2>"$T/err")
is "$?" 2 'the working directory has no name for OUT'
like "$(cat "$T/err")" 'import . OUT' 'says what to write'
if ! is_root; then
	mkdir closed
	chmod 555 closed
	import given closed/out
	is "$RC" 1 'OUT where nothing can be written'
	mkdir locked
	cp given/SKILL.md locked/
	: >locked/secret
	chmod 000 locked/secret
	import locked
	is "$RC" 0 'a file that cannot be read'
	like "$OUT" '^left out +secret: ' 'is left out, and told'
fi

# --- hostile directories ---

mkdir big
cp given/SKILL.md big/
truncate -s 65M big/data
import big
is "$RC" 6 'more than 64 MiB'
like "$ERR" 'take out what the skill does not need' 'says what to do'
mkdir many
cp given/SKILL.md many/
(cd many && seq 1 4200 | xargs touch)
import many
is "$RC" 6 'more than 4096 files'
mkdir nested
cp given/SKILL.md nested/
mkdir -p "nested/$(awk 'BEGIN { while (i++ < 30) printf "d/" }')"
import nested
is "$RC" 0 'deep directories'
like "$(tr -s ' \n' ' ' <"$T/out")" 'are nested too deeply' 'are left out from some depth on'
mkdir linkmd fifomd largemd
ln -s ../given/SKILL.md linkmd/SKILL.md
import linkmd
is "$RC" 6 'a SKILL.md that is a link'
mkfifo fifomd/SKILL.md
import fifomd
is "$RC" 6 'one that is a pipe'
truncate -s 1048577 largemd/SKILL.md
import largemd
is "$RC" 6 'one that is too large'
import nothing
is "$RC" 1 'none'
import case1-cyberos
is "$RC" 1 'one of ours'
like "$ERR" 'is a skill of ours already' 'says so'
is "$(find . -maxdepth 1 -name '*-cyberos.*')" '' 'nothing unfinished is left'

# --- usage, and the way here ---

import
is "$RC" 2 'no directory'
import a b c
is "$RC" 2 'too many'
is "$("$CYBEROS" skill validate case1 | tail -n 1)" \
    'case1/SKILL.md: note: this is a SKILL.md of another kind; `cyberos skill import` makes one of ours' \
    'validate knows the way'
note "$CASE files of other kinds"
[ "$CASE" -ge 30 ]
ok "$?" 'at least thirty'

done_testing
