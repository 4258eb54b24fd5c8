#!/bin/sh
# Which skill is run, and which is not: lookup, files, owners, tenants.
. t/lib.sh
. t/box.sh

# refusal STATUS REGEX NAME: not started, told why, one row
refusal() {
	is "$RC $OUT" "$1 " "$3: exit $1"
	like "$ERR" "$2" "$3: the log says why"
	is "$(result outcome) $(result exit_status) $(result exit_code)" \
	    "refused $1 null" "$3: --result"
	is "$(segment | jq -r '.kind + " " + .payload.outcome')" \
	    "skill.invoked_completed refused" "$3: one row, no start"
}
ran() { is "$RC $OUT" "0 ran" "$1"; }
ok_skill() {
	skill ok "$@" <<'S'
#!/bin/sh
echo ran
S
}

# --- by id and by directory ---

ok_skill
broker_run ok
ran "an id is looked up in the skills directory"
broker_run "$T/skills/ok"
ran "a directory"
broker_run "$T/skills/ok/"
ran "a directory with a slash at its end"
here=$PWD
cd "$T/skills" || exit 99
broker_run ./ok
ran "a relative directory"
cd "$here" || exit 99
cp -R "$T/skills/ok" "$T/skills/other"
broker_run "$T/skills/other"
ran "a directory's name need not be the id"
is "$(result skill_id)" ok "the id is that of SKILL.md"
broker_run other
refusal 6 "skill's id is ok and not other" "an id that is not the directory's name"
mkdir "$T/cwd"
cp -R "$T/skills/ok" "$T/cwd/local"
cd "$T/cwd" || exit 99
broker_run local
cd "$here" || exit 99
refusal 127 'local: No such file' "a name is never the working directory's"
ln -s "$T/skills/ok" "$T/link"
broker_run "$T/link/"
ran "a link to a skill's directory"
broker_run missing
refusal 127 'missing: No such file' "an id that is not installed"
broker_run "$T/missing/"
refusal 127 'No such file' "a directory that is not there"
broker_run "$T/skills/ok/main"
refusal 127 'Not a directory' "a file for a directory"
mkdir "$T/skills/empty"
broker_run empty
refusal 127 'SKILL.md: No such file' "a directory without SKILL.md"
for word in . ..; do
	broker_run $word
	is "$RC" 2 "'$word' is neither an id nor a directory"
done
CYBEROS_SKILLS=$T/cwd "$CYBEROS" skill broker run --store "$STORE" ok \
    >"$T/out" 2>/dev/null
is "$?" 127 "CYBEROS_SKILLS names the skills directory"
mv "$T/cwd/local" "$T/cwd/ok"
is "$(CYBEROS_SKILLS=$T/cwd "$CYBEROS" skill broker run --store "$STORE" ok)" ran \
    "and its skills are found"

# --- SKILL.md ---

ok_skill
mv "$T/skills/ok/SKILL.md" "$T/SKILL.real"
ln -s "$T/SKILL.real" "$T/skills/ok/SKILL.md"
broker_run ok
refusal 6 'SKILL.md: ' "SKILL.md is a link"
rm "$T/skills/ok/SKILL.md"
mkfifo "$T/skills/ok/SKILL.md"
broker_run ok
refusal 6 'is not a regular file' "SKILL.md is a FIFO"
rm "$T/skills/ok/SKILL.md"
mkdir "$T/skills/ok/SKILL.md"
broker_run ok
refusal 6 'is not a regular file' "SKILL.md is a directory"
rmdir "$T/skills/ok/SKILL.md"
{
	cat "$T/SKILL.real"
	head -c 1048576 /dev/zero | tr '\0' x
} >"$T/skills/ok/SKILL.md"
broker_run ok
refusal 6 'SKILL.md: ' "SKILL.md is over 1 MiB"
{
	cat "$T/SKILL.real"
	head -c 1040000 /dev/zero | tr '\0' x
} >"$T/skills/ok/SKILL.md"
broker_run ok
ran "SKILL.md is just below"
if ! is_root; then
	chmod 000 "$T/skills/ok/SKILL.md"
	broker_run ok
	refusal 125 'Permission denied' "SKILL.md cannot be read"
	chmod 644 "$T/skills/ok/SKILL.md"
fi
ok_skill 'allowed_tols: [Read]'
broker_run ok
refusal 6 'SKILL.md:[0-9]+:[0-9]+: allowed_tols: UnknownField' "an unknown key"
ok_skill 'min_broker_version: 99.0.0'
broker_run ok
refusal 6 'BrokerTooOld' "a skill for a later broker"

# --- main ---

broken_main() { # STATUS REGEX NAME: what stands in $T/skills/ok/main
	broker_run ok
	is "$RC $OUT" "$1 " "main $3: exit $1"
	like "$ERR" "$2" "main $3: the log says why"
	is "$(result exit_status)" "$1" "main $3: --result"
	is "$(count skill.invoked_completed)" 1 "main $3: one end"
}
ok_skill
M=$T/skills/ok/main
rm "$M"
broken_main 126 'main: No such file' "is missing"
ln -s /bin/true "$M"
broken_main 126 'not a regular file' "is a link"
rm "$M"
mkdir "$M"
broken_main 126 'not a regular file' "is a directory"
rmdir "$M"
mkfifo "$M"
broken_main 126 'not a regular file' "is a FIFO"
rm "$M"
printf '#!/bin/sh\necho ran\n' >"$M"
chmod 644 "$M"
broken_main 126 'chmod \+x' "is not executable"
printf '#!/nonexistent/interpreter\n' >"$M"
chmod 755 "$M"
broken_main 126 'interpreter' "has an interpreter that is not there"
printf '#!/home/someone/bin/sh\n' >"$M"
broken_main 126 'interpreter' "has an interpreter that the sandbox does not show"
printf 'echo ran\n' >"$M"
broken_main 126 '#!/bin/sh' "has no first line"
: >"$M"
broken_main 126 'main: ' "is empty"
is "$(result outcome)" error "what began and could not be executed is an error"

# --- tenants ---

A=11111111-1111-4111-8111-111111111111
B=22222222-2222-4222-8222-222222222222
ok_skill 'tenant_scope: pinned'
D=$T/skills/ok
broker_run --tenant $A ok
refusal 5 'no .tenant file' "pinned without .tenant"
printf '%s\n' $A >"$D/.tenant"
broker_run --tenant $A ok
ran "pinned, its own tenant"
broker_run --tenant $B ok
refusal 5 'pinned to another tenant' "pinned, another tenant"
broker_run ok
refusal 5 'pinned to another tenant' "pinned, no tenant given"
printf '%s' $A >"$D/.tenant"
broker_run --tenant $A ok
ran ".tenant without a line end"
printf '%s\r\n' $A >"$D/.tenant"
broker_run --tenant $A ok
ran ".tenant with CR LF"
for text in "$A\n$B\n" "$A " "${A}0" '' '*\n' "\n$A\n" "$A\n\n" "$A\\0x"; do
	# shellcheck disable=SC2059 # escapes are meant
	printf "$text" >"$D/.tenant"
	broker_run --tenant $A ok
	is "$RC $OUT" "5 " \
	    ".tenant that holds $(od -An -tx1 "$D/.tenant" | tr -s ' \n' ' ')"
done
rm "$D/.tenant"
printf '%s\n' $A >"$T/tenant"
ln -s "$T/tenant" "$D/.tenant"
broker_run --tenant $A ok
refusal 5 'no .tenant' ".tenant is a link"
rm "$D/.tenant"
mkfifo "$D/.tenant"
broker_run --tenant $A ok
refusal 5 'no .tenant' ".tenant is a FIFO"

# --- signatures ---

ok_skill "x-files-sha256: $(printf '%064d' 0 | tr 0 a)"
broker_run ok
is "$RC $OUT" "6 " "x-files-sha256 that does not hold is refused"
ok_skill
sed -i "s/^allowed_memory.*/&\nsignature:\n  algo: ed25519\n  public_key_hex: $(printf '%064d' 1)\n  signature_hex: $(printf '%0128d' 1)/" \
    "$D/SKILL.md"
broker_run ok
refusal 6 'SignatureFailed' "a signature that does not hold"
ok_skill

# --- owners and modes ---

if is_root; then
	untrusted() { # NAME
		broker_run ok
		refusal 5 'skill_owners' "$1"
	}
	ok_skill
	chmod 775 "$D"
	untrusted "a directory that the group can write"
	chmod 757 "$D"
	untrusted "a directory that everybody can write"
	chmod 1777 "$D"
	untrusted "the skill's own directory is sticky and open"
	chmod 755 "$D"
	for file in main SKILL.md; do
		chmod 775 "$D/$file"
		untrusted "$file that the group can write"
		chmod 755 "$D/$file"
		chown 54321 "$D/$file"
		untrusted "$file of somebody else"
		chown 0 "$D/$file"
	done
	echo $A >"$D/.tenant"
	chmod 666 "$D/.tenant"
	untrusted ".tenant that everybody can write"
	rm "$D/.tenant"
	chmod 775 "$T/skills"
	untrusted "a directory above that the group can write"
	chmod 1777 "$T/skills"
	broker_run ok
	ran "a sticky directory above"
	chmod 755 "$T/skills"
	chown 54321 "$T/skills"
	untrusted "a directory above of somebody else"
	chown 0 "$T/skills"
	chown -R 54321 "$D"
	untrusted "a skill of somebody else"
	echo 'skill_owners: ["54321"]' >"$T/owners.yaml"
	broker_run --config "$T/owners.yaml" ok
	ran "whom skill_owners names"
	chown -R 0 "$D"
	chmod 700 "$D" "$D/main"
	chmod 600 "$D/SKILL.md"
	mkdir -m 700 "$D/lib"
	echo helper >"$D/lib/helper"
	chmod 600 "$D/lib/helper"
	printf '#!/bin/sh\ncat lib/helper\nstat -c %%u main\n' >"$D/main"
	broker_run ok
	is "$RC $(echo "$OUT" | tr '\n' ' ')" "0 helper 1000 " \
	    "what root keeps closed is readable inside, and only there"
	is "$(stat -c '%u %a' "$D/main")" "0 700" "and is root's as before"
	rm -rf "$D"
else
	ok_skill
	chmod 775 "$D"
	broker_run ok
	ran "an ordinary user may run what his group can write"
	chmod 700 "$D" "$D/main"
	broker_run ok
	ran "and what is his alone"
fi

# --- edited while it runs ---

skill edit 'allowed_tools: [MemoryRead]' <<'S'
#!/bin/sh
echo old
until [ -e /skill/go ]; do sleep 0.05; done
echo still old
S
start edit
until_true says old
sed -i 's/^version.*/version: 2.0.0/; s/MemoryRead/Bash/' "$T/skills/edit/SKILL.md"
cp "$T/skills/edit/main" "$T/new"
: >"$T/skills/edit/go"
finish
is "$RC $(result version)" "0 1.0.0" "the running one keeps what it was loaded with"
is "$(val still)" old "to its end"
broker_run edit
is "$(result version)" 2.0.0 "the next one reads the new"

# --- languages ---

language() { # PROGRAM NAME [YAML-LINE...]: main on standard input prints "ran"
	t_program=$1
	t_name=$2
	shift 2
	if [ ! -x "$t_program" ]; then
		# Node is nothing that the tests ask for.
		[ "$t_program" = /usr/bin/node ] ||
			skip "$t_name" "no $t_program"
		cat >/dev/null
		return
	fi
	skill lang "$@"
	broker_run --config "$T/large.yaml" lang -- arg
	is "$RC $OUT" "0 ran" "$t_name"
	[ -z "$ERR" ] || note "$ERR"
}
printf 'max_memory_mb: 16384\nmax_processes: 32\n' >"$T/large.yaml"
language /bin/sh "a shell script" <<'S'
#!/bin/sh
[ "$1" = arg ] && echo hello | sed 's/.*/ran/' | sort
S
language /bin/bash "bash, with process substitution and here-documents" <<'S'
#!/bin/bash
cat <(echo ran) <<<x
S
language /usr/bin/perl "Perl, with a child and a file" <<'P'
#!/usr/bin/perl
use POSIX; use Socket;
open my $f, '>', '/tmp/x' or die; print $f 'ra'; close $f;
print `cat /tmp/x`, "n\n";
P
language /usr/bin/python3 "Python, with a thread and a subprocess" <<'P'
#!/usr/bin/python3
import subprocess, threading, sys, os
out = []
t = threading.Thread(target=lambda: out.append(subprocess.check_output(["/bin/echo", "ran"]).decode()))
t.start(); t.join()
sys.stdout.write(out[0])
P
language /usr/bin/node "Node, given memory and processes" 'x-memory-mb: 16384' \
    'x-max-processes: 32' <<'J'
#!/usr/bin/node
const fs = require('fs');
fs.readFile(__filename, () => require('child_process').exec('echo ran',
    (e, out) => process.stdout.write(e ? String(e) : out)));
J
# shellcheck disable=SC2094 # language only looks whether it is there
if command -v cc >/dev/null && echo 'int main(void) { return 0; }' |
    cc -static -x c -o "$T/static" - 2>/dev/null; then
	cc -static -x c -o "$T/static" - <<'C'
#include <stdio.h>
int main(void) { return puts("ran") == EOF; }
C
	language "$T/static" "a static program" <"$T/static"
else
	skip "a static program" "no static libc"
fi

# --- more arguments than there is room for in what was begun before ---

# shellcheck disable=SC2016 # the skill's
printf '#!/bin/sh\necho "$# ${#1}"\n' | skill many
long=$(head -c 120000 /dev/zero | tr '\0' x)
(
	# shellcheck disable=SC3045 # dash and bash have it
	ulimit -s unlimited 2>"$T/null" || exit 99
	set --
	while [ $# -lt 45 ]; do set -- "$@" "$long"; done
	"$CYBEROS" skill broker run --store "$STORE" --skills "$T/skills" many -- "$@"
) >"$T/out" 2>"$T/err"
rc=$?
if [ "$rc" -ne 99 ]; then
	is "$rc $(cat "$T/out")" "0 45 120000" "5 MiB of arguments arrive"
else
	skip "5 MiB of arguments arrive" "the size of the stack is limited"
fi
done_testing
