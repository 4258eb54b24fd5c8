#!/bin/sh
# skill.schema.json against the validator: the same names and limits, and the
# same verdict on every file that a schema can judge.
# shellcheck disable=SC2016 # backquotes and dollars are text
MODULES=${CYBEROS_NPM:-${XDG_CACHE_HOME:-$HOME/.cache}/cyberos/npm}
. t/lib.sh

SCHEMA=$PWD/man/share/skill.schema.json
VECTORS=$PWD/t/vectors

# --- names and limits ---

# s FILTER: of the schema
s() { jq -r "$1" "$SCHEMA"; }
# limit NAME: a constant of the reader
limit() { sed -n "s/^#define $1[ 	]*\\([0-9]*\\).*/\\1/p" enforce/manifest.c enforce/glob.h; }

is "$(s '."$defs".tool.enum | sort | .[]')" \
    "$("$CYBEROS" skill broker tools | jq -r '[.tools[].name] | sort | .[]')" \
    'the tools are those of the registry'
is "$(s '.properties | keys[]' | sort)" \
    "$(sed -n '/struct field fields\[\]/,/^};/s/^    {"\([^"]*\)".*/\1/p' \
	enforce/manifest.c | sort)" 'the keys are those of the reader'
is "$(s '.required | sort | .[]')" \
    "$(sed -n '/struct field fields\[\]/,/^};/s/^    {"\([^"]*\)", "[^"]*".*/\1/p' \
	enforce/manifest.c | sort)" 'and so are the required ones'
# same CONSTANT FILTER
same() { is "$(s "$2")" "$(limit "$1")" "$1 is the same"; }
same ID_MAX .properties.id.maxLength
same VERSION_MAX '."$defs".version.maxLength'
same DESCRIPTION_MAX .properties.description.maxLength
same TAGS_MAX .properties.tags.maxItems
same TAG_POINTS_MAX .properties.tags.items.maxLength
same EFFORT_MAX .properties.effort_minutes.maximum
same EFFORT_DEFAULT .properties.effort_minutes.default
same MEMORY_DEFAULT '.properties."x-memory-mb".default'
same PROCS_DEFAULT '.properties."x-max-processes".default'
same GLOB_PATTERN_MAX '."$defs".memory_glob.maxLength'
same GLOB_PATTERN_MAX '."$defs".file_glob.maxLength'
same GLOB_PATTERN_MAX '."$defs".host_glob.maxLength'
is "$(s .properties.sync_class.enum[])" 'private
shareable' 'the words of sync_class'
is "$(s .properties.tenant_scope.enum[])" 'any
pinned' 'the words of tenant_scope'

if [ -x cyberos ] && [ -x libexec/cyberos/cyberos-net ] &&
    command -v make >/dev/null; then
	make -s -o build install DESTDIR="$T/root" PREFIX=/usr >"$T/out" 2>&1
	cmp -s "$SCHEMA" "$T/root/usr/share/cyberos/skill.schema.json"
	ok "$?" 'it is installed below share/'
else
	skip 'it is installed below share/' 'the build is elsewhere'
fi

# --- verdicts ---

if ! command -v node >/dev/null ||
    ! [ -d "$MODULES/node_modules/ajv" ]; then
	skip 'verdicts of the schema' \
	    'no node, or no ajv and yaml from npm (make deps-test)'
	done_testing
fi

# field NAME YAML-VALUE: one more file that is fine but for this field
field() { printf '%s\t%s\n' "$1" "$2" >>"$T/fields"; }
# long COUNT TEXT: the text so many times
long() { awk -v n="$1" -v s="$2" 'BEGIN { while (n-- > 0) printf "%s", s }'; }

while IFS='	' read -r file rest; do
	case $file in '#'*) continue ;; esac
	name=${file##*/}
	mkdir -p "$T/cases/vector-${name%.md}"
	cp "$VECTORS/yaml/$file" "$T/cases/vector-${name%.md}/SKILL.md"
done <"$VECTORS/yaml/frontmatter.tsv"

for v in a a1 a-b Abc 1a -a a_b a.b '"a "' '""' '[a]' true 12 "$(long 64 a)" \
    "$(long 65 a)"; do
	field id "$v"
done
for v in 1.0.0 1.0 1 01.0.0 1.0.0-a.1 1.0.0-01 1.0.0-0a 1.0.0+01 1.0.0- 1.0.0+ \
    1.0.0-a..b v1.0.0 '"1.0.0"' "1.0.0-$(long 250 a)" "1.0.0-$(long 251 a)" \
    1.0.0-a_b '1.0.0-a+b+c'; do
	field version "$v"
	[ "$v" != 1.0.0 ] && field x-my-version "$v"
done
for v in x '""' "$(long 200 x)" "$(long 201 x)" "$(long 200 é)" \
    "$(long 201 é)" '"a\u202eb"' '"a\u200bb"' '"a\x07b"' '"a\nb"' '"a\tb"' \
    '"a\U000e0041b"' '"a\ufffeb"' no 1.5 '[]' '{}' null ~ '"\uFEFFa"' \
    '"\u00adsoft"' '"\U0001F600"'; do
	field description "$v"
	field x-text "$v"
	field x-deep "{a: [$v]}"
done
for v in '[]' '[Read]' '[Read, Read]' '[read]' '["Bash(git:*)"]' Read '[null]' \
    '[1]' '{}' '[mcp__a__b]' null "[$(long 3 'Read, ')Bash]" '[[Read]]'; do
	field allowed_tools "$v"
	field disallowed_tools "$v"
done
for v in private shareable Private any pinned '[any]' null true; do
	field sync_class "$v"
	field tenant_scope "$v"
done
for v in 0 1 8 1440 1441 -1 '"5"' 1.5 null 99999999999 2147483648; do
	field effort_minutes "$v"
	field x-max-processes "$v"
	field x-memory-mb "$v"
	field x-max-calls-per-minute "$v"
done
for v in '[]' '[a]' '[""]' "[$(long 9 'a, ')a]" "[$(long 10 'a, ')a]" \
    "[$(long 30 x)]" "[$(long 31 x)]" '[1]' '[~]' '["a\u200b"]' a; do
	field tags "$v"
done
for v in 0.1.0 9.9.9 1 '"x"' 1.0.0-rc.1; do
	field min_broker_version "$v"
	field max_broker_version "$v"
done
for v in "$(long 64 a)" "$(long 64 F)" "$(long 63 a)" "$(long 64 g)" 12; do
	field x-files-sha256 "$v"
done
for v in example.com '*.example.com' '*' localhost LOCALHOST. '*:8443' \
    example.com:0 example.com:65535 example.com:65536 example.com:080 \
    example.com: 192.0.2.1 192.0.2.01 192.0.2 192.0.2.1. 192.0.2.256 1.2.3.0x4 \
    0x7f.1 '10.0.0.*' '*.1' example.com. '.example.com' 'a..b' host 'a*.b.org' \
    '**.example.com' '*.*' '*.' http://example.com example.com/x \
    user@example.com '[::1]' '[::1]:8443' ::1 2001:db8::1 '2001:DB8::1' \
    '[2001:db8::1]:8443' 'fe80::1%eth0' münchen.de xn--mnchen-3ya.de \
    '{a,b}.com' 'a b.com' a_b.com A_b.C_d:80 '_*_.com' a_b 'a|b.com' \
    "$(long 63 _).com" "$(long 64 _).com" "$(long 63 a).com" "$(long 64 a).com" \
    "$(long 130 a.)com" "$(long 60 abc.)com" "$(long 70 abc.)com" '*a*b*.c.org' \
    "$(long 125 a.)com" "$(long 125 a.)com." "$(long 125 a.)coma" \
    "$(long 125 a.)coma." "$(long 125 a.)com:80" "$(long 31 a)*$(long 32 a).com" \
    "$(long 31 a)*$(long 33 a).com" 255fA255:: ::: :::: 1.A:: :: 1:: ::1: :1 \
    1::2::3 12345:: 1:2:3:4:5:6:7:8 1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 \
    1:0:3:4:5:6:7:8 1::3:4:5:6:7:8 1:0:0:4:5:6:7:8 1::4:5:6:7:8 01::2 \
    1::0:0:4:5:6 1:0:0:4::7:8 1::4:0:0:7:8 1:0:0:4:5::8 1:0:0:4:: 0::1 ::0:1 \
    1:0:0:0:5:: ::4:0:0:0:0 ::1.2.3.4 ::0.0.3.4 ::102:304 ::ffff:1.2.3.4 \
    ::FFFF:0.0.0.1 ::ffff:102:304 ::fffe:1.2.3.4 ::ffff:1.2.3 1::1.2.3.4 \
    '[1::]:80' '[:::]:80' '[::]' '[::]x' '[::]:0' '[::1' '::1]'; do
	field x-allowed-domains "[\"$v\"]"
done
# Globs of other people, and the rules of ours one by one.
{
	cut -f 2 "$VECTORS/globset/under-spec.tsv" | sed 1d
	printf '%s\n' a/ /a // a//b . .. ./a ../a a/./b a/../b .a ..a a/.b/c \
	    '**' '**/a' 'a/**' 'a**' '**a' 'a/**b' '***' 'a/**/b' 'a/{**,b}/c' \
	    '{a,b}' '{a,}' '{,a}' '{}' '{a' 'a}' '{a,{b,c}}' '[a]' '[' '[]' '[]]' \
	    '[!]]' '[!a]' '[^a]' '[a-z]' '[z-a]' '[a' '[a/b]' 'a]' 'a\\*b' 'a\\' \
	    'a,b' 'a,,b' '?' 'a?' 'memories/*' '/srv/**' '/' '/..' '/a/..' '/a..b' \
	    '/{a,b}/c' '//a' '/a/' '' 'é/**' '[é]' 'a\\/b' '{a/,b}c' '{**/,}x' \
	    ',**' '**,' '/,**' '**,/a' ',' '/,' '{a},,{b}' '{a},}' '{a,,b}' \
	    '\\.' '\\.\\./a' '\\/a' 'a/\\..' 'a\\/.\\.\\/b' '/\\..' \
	    '\\...' '{/a}' '{a,/b}' '/{/x' '/{/x}' '/a{/x}' '/?{/}' '/?{/}a' \
	    '/{a,b/}' '/{a,b/}/c' '/{a,b/}c' '/{.,a}' '/{.,a}b' '/{./a}' \
	    '/x{./a}' '{a,..}' '{a,..}/b' '{a,..}b' '{a/,b/}..' '{[,],a}' \
	    '{[}],a/}/b' '**{/a}' '**{/a,/b}' '**{a}' '{**}' '{**}a' '{**}/a' \
	    'a{**}' 'a/{**,b}' 'a{/**,b}' '{a/,b/}**' '{a/,b}**' \
	    '{a}}' '{{a},b}' '{{a/,b},c}/**' '{{a}' '.{.}/b' '{a,b}{c,**}' \
	    "$(long 1024 a)" "$(long 1025 a)" "/$(long 1023 a)" "/$(long 1024 a)" \
	    "$(long 512 é)" "$(long 513 é)" "/$(long 512 é)"
} | sort -u >"$T/globs"
# As a scalar in quotes; the backslash of the vectors is written double.
perl -ne 'chomp; s/"/\\"/g; print "allowed_memory_scopes\t[\"$_\"]\n",
    "x-allowed-files\t[\"$_\"]\n", "x-allowed-files\t[\"/srv/$_\"]\n"' \
    "$T/globs" >>"$T/fields"
perl -e 'my ($dir, $n) = (shift, 0);
while (<>) {
	chomp;
	my ($name, $value) = split /\t/, $_, 2;
	my $case = sprintf("%s/field-%04d", $dir, ++$n);
	mkdir $case or die $case;
	open my $f, ">", "$case/SKILL.md" or die $case;
	print $f "---\n", map({ /^\Q$name\E:/ ? () : "$_\n" } "id: demo",
	    "version: 1.0.0", "description: a test",
	    "allowed_memory_scopes: []", "allowed_tools: []"),
	    "$name: $value\n---\n";
}' "$T/cases" "$T/fields"

cd "$T/cases" || exit 99
ls >"$T/names"
"$CYBEROS" skill validate --json -- * | jq -r '.[] |
    if .status == "ok" then "accept -"
    else "reject " + ([.errors[].code] | unique | join(",")) end' >"$T/ours"
node "$OLDPWD/t/schema.js" "$MODULES" "$SCHEMA" ./* >"$T/theirs" 2>"$T/err"
is "$?$(cat "$T/err")" 0 'the schema is a schema, by strict rules'

# One verdict: a valid file is taken, an invalid one is not, but for what a
# schema never sees (the text before it is parsed, versions, signatures) and
# what is listed here. Prints the cases that are not so.
seen='MissingFrontmatter|YamlParse|DuplicateKey|BrokerTooOld|BrokerTooNew|SignatureFailed'
paste "$T/names" "$T/ours" "$T/theirs" | awk -F'\t' -v seen="$seen" \
    -v listed="$T/listed" '
{
	split($2, ours, " ")
	split($3, theirs, " ")
	if (ours[1] == "accept") {
		accepted++
		if (theirs[1] != "accept") print $0
		next
	}
	n = split(ours[2], codes, ",")
	blind = 1
	for (i = 1; i <= n; i++)
		if (codes[i] !~ "^(" seen ")$") blind = 0
	if (blind) next
	if (theirs[1] == "accept") print $1 > listed
	else rejected++
}
END { print accepted + 0, rejected + 0 > (listed ".counts") }' >"$T/wrong"
touch "$T/listed"
is "$(cat "$T/wrong")" '' 'what is valid, the schema takes'
read -r accepted rejected <"$T/listed.counts"
note "$accepted taken by both, $rejected refused by both"
[ "$accepted" -ge 200 ] && [ "$rejected" -ge 200 ]
ok "$?" 'hundreds of each were compared'

# A number is a number once it is parsed, however it was written.
is "$(grep '^vector-' "$T/listed" | tr '\n' ' ')" \
    'vector-effort-float vector-effort-hex vector-effort-octal vector-effort-plus ' \
    'of the vectors it takes four that we refuse: spellings of a number'
# In these the rest is counting: braces in braces, ranges, bytes, numbers of the
# operator; or what braces and the text beside them say together.
unseen=
while IFS= read -r name; do
	case $name in vector-*) continue ;; esac
	line=$(tail -n 2 "$name/SKILL.md" | head -n 1)
	case $line in
	'x-memory-mb: 1440' | 'x-memory-mb: 1441') ;;
	'x-max-processes: 1440' | 'x-max-processes: 1441') ;;
	*'[z-a]"]' | *'"{{a}"]' | *'/{{a}"]') ;;
	*ééé*) ;;
	*'".{.}/b"]' | *'/.{.}/b"]' | *'{a,b}{c,**}"]') ;;
	*) unseen="$unseen
$line" ;;
	esac
done <"$T/listed"
is "$unseen" '' 'of the others it takes what the manual lists'
cd "$OLDPWD" || exit 99

done_testing
