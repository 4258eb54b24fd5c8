#!/bin/sh
# Signatures from key to run: what is signed runs, what was changed does not,
# whoever changed it and whenever, and the operator decides whose word counts.
# shellcheck disable=SC2016 # the skills' scripts are not ours to expand
. t/lib.sh
. t/box.sh

HELPER=$(dirname "$(readlink -f "$CYBEROS")")/libexec/cyberos/cyberos-ed25519
S=$T/skills/ok
K=$T/key

sign() { "$CYBEROS" skill sign "$@" >"$T/out" 2>"$T/err"; }
validate() {
	"$CYBEROS" skill validate "$@" >"$T/out" 2>"$T/err"
	RC=$?
	OUT=$(cat "$T/out")
}
# fresh: a signed skill in $S
fresh() {
	skill ok <<'S'
#!/bin/sh
cat lib/word
S
	mkdir "$S/lib"
	echo ran >"$S/lib/word"
	ln -s word "$S/lib/link"
	printf '# About\n\nwords\n' >>"$S/SKILL.md"
	sign "$S" --key "$K" || note "$(cat "$T/err")"
}
# ran NAME: the last run did
ran() {
	is "$RC $OUT" "0 ran" "$1"
	[ "$RC" -eq 0 ] || note "$ERR"
}
# refusal STATUS REGEX NAME: not started, told why, one row
refusal() {
	is "$RC $OUT" "$1 " "$3: exit $1"
	like "$ERR" "$2" "$3: the log says why"
	is "$(result outcome) $(result exit_status) $(result exit_code)" \
	    "refused $1 null" "$3: --result"
	is "$(segment | jq -r '.kind + " " + .payload.outcome')" \
	    "skill.invoked_completed refused" "$3: one row, no start"
	like "$(rows skill.invoked_completed .error_message)" "$2" \
	    "$3: the row says why"
}

# --- keygen ---

"$CYBEROS" skill keygen "$K" >"$T/out" 2>"$T/err"
is "$?" 0 'keygen'
PUB=$(sed -n 's/.*key: "\([0-9a-f]\{64\}\)"$/\1/p' "$T/out")
is "${#PUB}" 64 'prints the key for the configuration'
is "$(stat -c %a "$K") $(stat -c %a "$K.pub")" '600 644' 'the private key is private'
is "$(openssl pkey -in "$K" -pubout)" "$(cat "$K.pub")" \
    'openssl reads the one and makes the other'
is "$(openssl pkey -pubin -in "$K.pub" -outform DER | tail -c 32 | od -An -tx1 |
    tr -d ' \n')" "$PUB" 'the digits are the key'
cp "$K" "$T/k"
"$CYBEROS" skill keygen "$K" >"$T/out" 2>"$T/err"
is "$?" 1 'a key that is there is not written over'
like "$(cat "$T/err")" 'File exists' 'and that is said'
cmp -s "$K" "$T/k"
ok $? 'it is still there'
: >"$T/other.pub"
"$CYBEROS" skill keygen "$T/other" >/dev/null 2>&1
is "$? $(find "$T" -maxdepth 1 -name other | wc -l | tr -d ' ')" '1 0' 'nor is a public key; then there is none'
rm "$T/other.pub"
"$CYBEROS" skill keygen "$T/none/key" 2>"$T/err"
is "$?" 1 'no directory, no key'
(cd "$T" && "$CYBEROS" skill keygen >/dev/null && [ -f skill.key.pub ])
ok $? 'without a name it is skill.key'
"$CYBEROS" skill keygen a b 2>/dev/null
is "$?" 2 'one file at a time'
"$CYBEROS" skill keygen "$T/other" >"$T/out"
OTHER=$(sed -n 's/.*key: "\([0-9a-f]\{64\}\)"$/\1/p' "$T/out")

# --- sign ---

fresh
like "$(cat "$T/out")" "^$S/SKILL.md: signed: ok 1.0.0 by $PUB$" 'sign says what it did'
validate "$S"
is "$RC $OUT" "0 $S/SKILL.md: valid: ok 1.0.0, signed by $PUB" 'validate tells the key'
validate --json "$S"
is "$(printf '%s' "$OUT" | jq -r .signed_by)" "$PUB" 'and so does --json'
broker_run ok
ran 'a signed skill'
is "$(rows skill.invoked_started | jq -r .frontmatter_hash)" \
    "$(sed -n '2,/^x-files/p' "$S/SKILL.md" | sed -z 's/\n$//' | sha256sum |
	cut -d ' ' -f 1)" \
    'the frontmatter hash is over all but the four lines'
cp -p "$S/SKILL.md" "$T/signed.md"
sign "$S" --key "$K"
cmp -s "$S/SKILL.md" "$T/signed.md"
ok $? 'signing again changes nothing'
sign "$S" --key "$T/other"
validate "$S"
like "$OUT" "signed by $OTHER" 'another key takes the place of the first'
is "$(grep -c '^signature:' "$S/SKILL.md") $(grep -c '^x-files' "$S/SKILL.md")" \
    '1 1' 'there is one signature and one hash'
chmod 640 "$S/SKILL.md"
sed -i 's/^version: .*/version: 1.0.1/' "$S/SKILL.md"
sign "$S" --key "$K"
is "$? $(stat -c %a "$S/SKILL.md")" '0 640' 'sign keeps the mode'
validate "$S"
like "$OUT" 'valid: ok 1.0.1' 'what was changed on purpose is signed anew'
is "$(ls -A "$S" | tr '\n' ' ')" 'SKILL.md lib main ' 'nothing else is left there'

bad_sign() { # STATUS REGEX NAME [ARG...]
	t_status=$1 t_regex=$2 t_name=$3
	shift 3
	cp -p "$S/SKILL.md" "$T/before"
	sign "$@"
	is "$?" "$t_status" "sign: $t_name"
	like "$(cat "$T/err")" "$t_regex" "sign: $t_name: why"
	cmp -s "$S/SKILL.md" "$T/before"
	ok $? "sign: $t_name: the file is as it was"
}
bad_sign 2 'which key' 'no key' "$S"
bad_sign 2 'usage' 'no directory' --key "$K"
bad_sign 1 'No such file' 'no such directory' "$T/none" --key "$K"
bad_sign 1 'No such file' 'no such key' "$S" --key "$T/none"
(umask 077; : >"$T/empty.key")
bad_sign 1 'empty\.key: holds no private key' 'an empty key' "$S" --key "$T/empty.key"
cp "$K.pub" "$T/k.pub"
chmod 600 "$T/k.pub"
bad_sign 1 'no private key' 'a public key' "$S" --key "$T/k.pub"
(umask 077; cat "$K" "$T/other" >"$T/two"
{ cat "$K"; yes | head -c 9000; cat "$T/other"; } >"$T/long")
bad_sign 1 'two: .*more than one private key' 'two keys' "$S" --key "$T/two"
bad_sign 1 'long: is too long' 'or what may be two' "$S" --key "$T/long"
chmod 644 "$T/k"
bad_sign 1 'chmod 600' 'a key that others can read' "$S" --key "$T/k"
openssl genpkey -algorithm ed25519 -aes128 -pass pass:x -out "$T/locked" 2>/dev/null
chmod 600 "$T/locked"
bad_sign 1 'passphrase' 'a key with a passphrase' "$S" --key "$T/locked"
openssl genpkey -algorithm x25519 -out "$T/x25519" 2>/dev/null
chmod 600 "$T/x25519"
bad_sign 1 'no Ed25519 key' 'a key of another kind' "$S" --key "$T/x25519"
cp -p "$K" "$S/lib/key"
bad_sign 1 'lies in the skill' "a key in the skill's directory" "$S" --key "$S/lib/key"
rm "$S/lib/key"
mkfifo "$S/lib/fifo"
bad_sign 6 'lib/fifo: is a FIFO' 'a FIFO' "$S" --key "$K"
rm "$S/lib/fifo"
sed -i 's/^version: .*/version: 1.0/' "$S/SKILL.md"
bad_sign 6 'SKILL.md:3:10: version: InvalidVersion' 'an invalid skill' "$S" --key "$K"
fresh
sed -i 's/^  algo: .*/  algo: x/' "$S/SKILL.md"
bad_sign 6 'something of a signature' 'half a signature' "$S" --key "$K"
skill ok 'x-note: |' '  signature_hex: x' </dev/null
bad_sign 6 'something of a signature' 'a line like one of a signature' "$S" --key "$K"
printf -- '---\n{id: ok, version: 1.0.0, description: d,\nallowed_tools: [], allowed_memory_scopes: []}\n---\n' \
    >"$S/SKILL.md"
validate "$S"
is "$RC" 0 'a frontmatter in braces is valid'
bad_sign 6 'a line' 'but not signed' "$S" --key "$K"
sed -i '2s/.*/x-files-sha256: "a"/; 2a id: ok\nversion: 1.0.0\ndescription: d\nallowed_tools: []\nallowed_memory_scopes: []' \
    "$S/SKILL.md"
sed -i '/^allowed_tools: \[\], /d' "$S/SKILL.md"
sign "$S" --key "$K"
is "$? $(grep -c '^x-files-sha256: [0-9a-f]*$' "$S/SKILL.md")" '0 1' \
    'a hash that stands elsewhere is replaced there'

while IFS='|' read -r line; do
	skill ok "$(printf '%b' "$line")" </dev/null
	forms=$((${forms:-0} + 1))
	bad_sign 6 'SKILL.md:[5-8]:[0-9]*: x-files-sha256: write key and value on' \
	    "a hash in another form, $forms" "$S" --key "$K"
done <<EOT
"x-files-sha256": $(printf %064d 0)
'x-files-sha256': $(printf %064d 0)
? x-files-sha256\\n: $(printf %064d 0)
x-files-sha256 : $(printf %064d 0)
x-files-sha256:\\n  $(printf %064d 0)
x-files-sha256:\\n  $(printf %064d 0)\\ntags: []
x-files-sha256:\\n\\n# x\\n  $(printf %064d 0)
x-files-sha256: >-\\n  $(printf %064d 0)
x-files-sha256: a\\nx-files-sha256: b
EOT
skill ok '"x-files-sha256": a' </dev/null
skill ok 'x-files-sha256:' 'x-files-sha256:a: b' </dev/null
sign "$S" --key "$K"
is "$? $(grep -c '^x-files-sha256:' "$S/SKILL.md")" '0 2' \
    'one without a value gets one, another key stays'

# --- CRLF, a byte order mark, no line end ---

fresh
sed 's/$/\r/' "$T/signed.md" >"$S/SKILL.md"
validate "$S"
is "$RC" 0 'the signature survives CRLF'
printf '\357\273\277' | cat - "$T/signed.md" >"$S/SKILL.md"
validate "$S"
is "$RC" 0 'and a byte order mark'
printf '\n\n' >>"$S/SKILL.md"
validate "$S"
is "$RC" 0 'and empty lines at the end'
skill ok <<'S'
#!/bin/sh
echo ran
S
printf '\357\273\277' | cat - "$S/SKILL.md" | sed 's/$/\r/' >"$T/crlf"
printf 'last line' >>"$T/crlf"
cp "$T/crlf" "$S/SKILL.md"
sign "$S" --key "$K"
is "$?" 0 'a file with CRLF is signed'
is "$(grep -vc "$(printf '\r')$" "$S/SKILL.md")" 1 'and keeps its line ends'
sed '/^x-files/d; /^signature/d; /^  /d' "$S/SKILL.md" | cmp -s - "$T/crlf"
ok $? 'and all else'
broker_run ok
ran 'it runs'
sed -i 's/\r$//' "$S/SKILL.md"
broker_run ok
ran 'with LF too'

# --- the recipe in the manual ---

fresh
awk '/^\.Sh SIGNATURE/ { on = 1 }
    on && /^export LC_ALL=C/ { text = 1 }
    text && /^\.Ed/ { exit }
    text' man/cyberos-skill.5 | sed 's/^\\&//; s/\\e/\\/g' >"$T/recipe"
mkdir "$S/deep" "$S/deep/er"
printf 'x' >"$S/deep/er/a b"
printf 'x' >"$S/deep.er"
chmod 750 "$S/deep"
chmod 400 "$S/deep.er"
: >"$S/back\\slash"
ln -s "/no/such  place" "$S/dangling"
: >"$S/.tenant"
sign "$S" --key "$K"
cp "$K" "$T/skills/skill.key"
recipe() { (cd "$S" && sh "$T/recipe"); }
is "$(recipe)" "$(grep -E '^(x-files-sha256|  signature_hex):' "$S/SKILL.md")" \
    'openssl and sha256sum come to the same'
sed -i 's/$/\r/' "$S/SKILL.md"
printf ' \t\r\n\r\n' >>"$S/SKILL.md"
is "$(recipe)" "$(grep -E '^(x-files-sha256|  signature_hex):' "$S/SKILL.md" |
    tr -d '\r')" 'with CRLF and blanks at the end too'
rm "$T/skills/skill.key" "$T/skills/signed"

# --- every byte ---

fresh
cat >"$T/flip.py" <<'P'
import json, os, subprocess, sys
binary, skill, name = sys.argv[1:4]
path = os.path.join(skill, name)
data = open(path, 'rb').read()
fences = [0]
at = data.index(b'\n---\n') + 1
wrong, unnamed, tried = [], [], 0
for i in range(0, len(data), int(os.environ.get('T_STEP', 1))):
    for change in sys.argv[4:]:
        new = data[i] ^ int(change)
        with open(path, 'wb') as f:
            f.write(data[:i] + bytes([new]) + data[i + 1:])
        p = subprocess.run([binary, 'skill', 'validate', '--json', skill],
                           capture_output=True)
        tried += 1
        if p.returncode != 6:
            wrong.append((i, change))
            continue
        errors = json.loads(p.stdout)['errors']
        # The lines that begin and end the frontmatter, and their ends.
        fence = i < 4 or at - 1 <= i < at + 4
        if errors[0]['code'] != 'SignatureFailed' and not fence:
            unnamed.append((i, change))
with open(path, 'wb') as f:
    f.write(data)
print(tried, wrong, unnamed)
P
size=$((($(wc -c <"$S/SKILL.md") + ${T_STEP:-1} - 1) / ${T_STEP:-1}))
is "$(python3 "$T/flip.py" "$CYBEROS" "$S" SKILL.md 1)" "$size [] []" \
    'every byte changed is refused, and named as the signature'

# --- what was changed ---

n=0
# changed REGEX NAME COMMAND...: done to a fresh skill
changed() {
	t_regex=$1 t_what=$2
	shift 2
	fresh
	(cd "$S" && "$@")
	broker_run ok
	refusal 6 "$t_regex" "$t_what"
	n=$((n + 1))
	[ $((n % 3)) -eq 1 ] || return 0
	validate "$S"
	is "$RC" 6 "$t_what: validate says so too"
	like "$OUT" 'SignatureFailed' "$t_what: and why"
}
skillmd='SignatureFailed: the signature does not hold'
files='SignatureFailed: the files of the skill are not those'
changed "$skillmd" 'the body' sed -i 's/words/swords/' SKILL.md
changed "$skillmd" 'a grant' sed -i 's/^allowed_tools: .*/allowed_tools: [Bash]/' SKILL.md
changed "$skillmd" 'the hash of the files' sed -i '/^x-files/d' SKILL.md
changed "$skillmd" 'the key' sed -i "s/$PUB/$OTHER/" SKILL.md
changed "$skillmd" 'a space within a line' sed -i 's/^id: ok/id:  ok/' SKILL.md
changed "$files" 'main' sed -i 's/cat/tac/' main
changed "$files" 'a file' sh -c 'echo x >>lib/word'
changed "$files" "main's mode" chmod 700 main
changed "$files" "a directory's mode" chmod 700 lib
changed "$files" 'one more file' sh -c ': >lib/none'
changed "$files" 'one file less' rm lib/link
changed "$files" 'a link elsewhere' ln -sfn /etc/passwd lib/link
changed "$files" 'a file in place of a link' sh -c 'rm lib/link; printf word >lib/link'
changed "$files" 'a link in place of main' sh -c 'mv main m; ln -s m main'
changed "$files" 'another name' mv lib/word lib/w
changed "$files" 'main is gone' rm main
changed 'is a FIFO' 'a FIFO' mkfifo lib/fifo
changed 'a signature is the last four lines' 'capitals' \
    sed -i '/public_key_hex/y/abcdef/ABCDEF/' SKILL.md
changed 'a signature is the last four lines' 'a key behind it' \
    sed -i '/^  signature_hex/a x-a: 1' SKILL.md
changed 'a signature is the last four lines' 'two of them' \
    sed -i '/^x-files/a signature: 1' SKILL.md
changed 'here it is written otherwise' 'another style' \
    sed -i '/^  /d; s/^signature:/"signature": {}/' SKILL.md
# The signature of another skill of the same author.
fresh
cp -r "$S" "$T/skills/old"
sed -i 's/^version: .*/version: 2.0.0/' "$S/SKILL.md"
sign "$S" --key "$K"
sed -i "s/^  signature_hex: .*/$(grep '^  signature_hex' "$T/skills/old/SKILL.md")/" \
    "$S/SKILL.md"
broker_run ok
refusal 6 "$skillmd" 'the signature of an older version'
rm -r "$T/skills/old"

# A hash without a signature holds as well.
fresh
sed -i '/^signature:/d; /^  /d' "$S/SKILL.md"
broker_run ok
ran 'a hash of the files without a signature'
echo x >>"$S/lib/word"
broker_run ok
refusal 6 'x-files-sha256: InvalidValue|InvalidValue: the files' \
    'and a file that is not that'
validate "$S"
like "$RC $OUT" '^0 .*warning: x-files-sha256: the files' 'of which validate warns'
# And a signature without a hash.
fresh
sed -i '/^x-files/d' "$S/SKILL.md"
cat >"$T/resign.py" <<'P'
# The four lines anew over whatever stands there, and keys and signatures that
# no honest tool makes.
import hashlib, subprocess, sys
path, pem, kind = sys.argv[1:4]
L = 2**252 + 27742317777372353535851937790883648493
data = open(path, 'rb').read()
_, yaml, body = data.split(b'---\n', 2)
yaml = b''.join(l for l in yaml.splitlines(True)
                if not l.startswith((b'signature:', b'  ')))
text = b''.join(hashlib.sha256(t.strip(b' \t\r\n')).digest()
                for t in (yaml, body))
der = subprocess.run(['openssl', 'pkey', '-in', pem, '-outform', 'DER'],
                     capture_output=True, check=True).stdout
h = hashlib.sha512(der[-32:]).digest()
a = int.from_bytes(h[:32], 'little') & (2**254 - 8) | 2**254
key = subprocess.run(['openssl', 'pkey', '-in', pem, '-pubout', '-outform',
                      'DER'], capture_output=True, check=True).stdout[-32:]
open(pem + '.text', 'wb').write(text)
sig = subprocess.run(['openssl', 'pkeyutl', '-sign', '-rawin', '-inkey', pem,
                      '-in', pem + '.text'], capture_output=True,
                     check=True).stdout
s = int.from_bytes(sig[32:], 'little')
one = b'\1' + bytes(31)
if kind == 'big-s':                     # the same point, another spelling
    sig = sig[:32] + (s + L).to_bytes(32, 'little')
elif kind == 'small-r':                 # R = 1: S = k * a
    k = int.from_bytes(hashlib.sha512(one + key + text).digest(), 'little')
    sig = one + (k * a % L).to_bytes(32, 'little')
elif kind == 'small-key':               # A = R = 1, S = 0: holds for any text
    key, sig = one, one + bytes(32)
elif kind == 'odd-key':                 # the same with p + 1 for 1
    key = (2**255 - 19 + 1).to_bytes(32, 'little')
    sig = one + bytes(32)
elif kind == 'odd-r':
    k = int.from_bytes(hashlib.sha512(b'\xee' + b'\xff' * 30 + b'\x7f' + key +
                                      text).digest(), 'little')
    sig = b'\xee' + b'\xff' * 30 + b'\x7f' + (k * a % L).to_bytes(32, 'little')
elif kind == 'zero':
    sig = bytes(64)
with open(path, 'wb') as f:
    f.write(b'---\n' + yaml + b'signature:\n  algo: ed25519\n'
            b'  public_key_hex: ' + key.hex().encode() +
            b'\n  signature_hex: ' + sig.hex().encode() + b'\n---\n' + body)
with open(pem + '.in', 'wb') as f:
    f.write(key + sig + text)
P
resign() { python3 "$T/resign.py" "$S/SKILL.md" "$K" "$1"; }
resign plain
broker_run ok
ran 'a signature that openssl made, over SKILL.md alone'
validate "$S"
like "$OUT" 'warning: signature: it does not cover' 'of which validate warns'

# --- keys and signatures that nobody makes by accident ---

for kind in big-s small-r small-key odd-key odd-r zero; do
	fresh
	resign $kind
	"$HELPER" verify <"$K.in"
	note "$kind: the library alone says $?"
	broker_run ok
	refusal 6 'SignatureFailed' "signature: $kind"
done
fresh
resign small-key
validate "$S"
like "$OUT" 'small order' 'a key for which anybody can sign is named as such'

# The program by itself: only a plain yes is one.
resign plain
for cut in 0 1 159 161 9000; do
	head -c 9000 /dev/zero | cat "$K.in" - | head -c "$cut" |
	    "$HELPER" verify
	is "$?" 5 "verify: $cut bytes are no question"
done
"$HELPER" verify <"$K.in"
is "$?" 0 'verify: 160 are'
"$HELPER" nonsense <"$K.in"
is "$?" 5 'no such command'
printf 'x' | "$HELPER" sign
is "$?" 2 'sign: no key'

# --- without the program ---

fresh
mkdir "$T/bare"
cp "$CYBEROS" "$T/bare/cyberos"
CYBEROS_OK=$CYBEROS CYBEROS=$T/bare/cyberos
if [ ! -e /usr/local/libexec/cyberos/cyberos-ed25519 ]; then
	broker_run ok
	is "$RC $OUT" '125 ' 'without cyberos-ed25519 nothing signed runs'
	like "$ERR" 'cyberos-ed25519: No such file' 'and it says what is missing'
fi
mkdir -p "$T/bare/libexec/cyberos"
printf '#!/bin/sh\nexit 0\n' >"$T/bare/libexec/cyberos/cyberos-ed25519"
chmod 777 "$T/bare/libexec/cyberos/cyberos-ed25519"
broker_run ok
is "$RC $OUT" '125 ' 'one that others could have written is not asked'
chmod 755 "$T/bare/libexec/cyberos/cyberos-ed25519"
printf '#!/bin/sh\nkill -9 $$\n' >"$T/bare/libexec/cyberos/cyberos-ed25519"
broker_run ok
is "$RC $OUT" '125 ' 'one that dies has not said yes'
CYBEROS=$CYBEROS_OK

# --- the operator ---

config() { # YAML-LINE...
	printf '%s\n' "$@" >"$T/broker.yaml"
	chmod 600 "$T/broker.yaml"
}
run_config() { broker_run --config "$T/broker.yaml" ok; }
only="require_signature: true"

config "$only"
fresh
run_config
is "$RC" 125 'require_signature without trusted_keys is an error'
like "$ERR" 'broker.yaml:1:1: require_signature: .*trusted_keys' 'that says what to do'
config "$only" "trusted_keys: [$PUB]"
run_config
ran 'a trusted key'
skill ok </dev/null
run_config
refusal 5 'requires a signature and this skill has none' 'an unsigned skill'
validate --config "$T/broker.yaml" "$S"
like "$RC $OUT" '^0 .*warning: signature: the operator requires' 'of which validate warns'
fresh
sign "$S" --key "$T/other"
run_config
refusal 5 "the key $OTHER is not among" 'another key'
fresh
sed -i '/^x-files/d' "$S/SKILL.md"
resign plain
run_config
refusal 5 'does not cover' 'a signature over SKILL.md alone'
fresh
sed -i 's/words/swords/' "$S/SKILL.md"
run_config
refusal 6 "$skillmd" 'a trusted key that did not sign this'
fresh
config "$only" "trusted_keys:" "  - key: $PUB" '    ids: [other, "o?", "o-*"]'
run_config
is "$RC" 125 'an id is no glob of another kind'
config "$only" "trusted_keys:" "  - key: $PUB" '    ids: [other, "o-*"]'
run_config
refusal 5 "may not sign for the id ok" 'an id that the key may not sign'
config "$only" "trusted_keys:" "  - key: $PUB" '    ids: ["o*"]' \
    '    min_version: {ok: 1.0.0}'
run_config
ran 'a pattern and a version that is just new enough'
config "$only" "trusted_keys:" "  - key: $PUB" '    ids: ["o*"]' \
    '    min_version: {ok: 1.0.1}'
run_config
refusal 5 'version 1.0.0 of ok is below' 'a version that is too old'
hash=$(sed -n '2,/^x-files/p' "$S/SKILL.md" | sed -z 's/\n$//' | sha256sum |
    cut -d ' ' -f 1)
config "$only" "trusted_keys: [$PUB]" "revoked: [\"$hash\"]"
run_config
refusal 5 "revoked this skill \\($hash\\)" 'a revoked skill'
is "$(rows skill.invoked_completed | jq -r .version)" 1.0.0 'it is named in the row'
jq -r "select(.payload.invocation_id == \"$(result invocation_id)\") |
    .payload.frontmatter_hash // empty" "$STORE"/audit/*/host.jsonl \
    "$STORE"/audit/*/*.jsonl 2>/dev/null | sort -u >"$T/hashes"
is "$(cat "$T/hashes")" "$hash" 'by the hash that the ledger has of it'
config "revoked: [$(printf %s "$hash" | tr a-f A-F)]"
run_config
refusal 5 "revoked this skill" 'also where no signature is required'
config 'revoked: [abc]'
run_config
is "$RC" 125 'a hash that is none is an error'
# A key in a file.
mkdir "$T/keys"
cp "$K.pub" "$T/keys/ann.pub"
config "$only" "trusted_keys:" "  - key: $T/keys/ann.pub" '    ids: [ok]'
run_config
if is_root; then
	# Everything above $T is root's or sticky.
	ran 'a key in a file'
	chmod 666 "$T/keys/ann.pub"
	run_config
	is "$RC" 125 'a key file that others can write'
	like "$ERR" 'ann.pub: others than root' 'is refused by root'
	chmod 644 "$T/keys/ann.pub"
	chmod 777 "$T/keys"
	run_config
	is "$RC" 125 'so is one in a directory that they can write'
	chmod 755 "$T/keys"
	chown 12345 "$T/keys/ann.pub"
	run_config
	is "$RC" 125 'and one of somebody else'
	chown 0 "$T/keys/ann.pub"
else
	ran 'a key in a file'
fi
ln -s ann.pub "$T/keys/link.pub"
config "$only" "trusted_keys: [$T/keys/link.pub]"
run_config
is "$RC" 125 'a key file that is a link'
config "$only" "trusted_keys: [$K]"
run_config
like "$RC $ERR" '^125 .*no Ed25519 public key' 'a private key is no public one'
# It is out of reach.
cat "$K.pub" "$T/other.pub" >"$T/keys/two.pub"
config "$only" "trusted_keys: [$T/keys/two.pub]"
run_config
is "$RC" 125 'a file with two keys'
like "$ERR" 'two.pub: holds more than one key; write each into a file' 'says so'
{ cat "$K.pub"; yes | head -c 9000; cat "$T/other.pub"; } >"$T/keys/two.pub"
run_config
is "$RC" 125 'also when the second is far away'
rm "$T/keys/two.pub"
config "trusted_keys: [$T/keys/ann.pub, $T/keys/ann.pub]"
skill reader 'allowed_tools: [Read, Bash]' "x-allowed-files: [\"$T/keys/**\"]" <<S
#!/bin/sh
cyberos skill call Read path=$T/keys/note
cyberos skill call Read path=$T/keys/ann.pub
cyberos skill call Bash cmd='cat $T/keys/note; wc -c <$T/keys/ann.pub'
S
echo fine >"$T/keys/note"
broker_run --config "$T/broker.yaml" reader
like "$OUT" '"body":"fine' 'a file beside a trusted key is read'
is "$(rows skill.tool_denied | jq -r .reason)" protected 'the key is protected'
unlike "$OUT" 'BEGIN PUBLIC' 'and not shown'
like "$OUT" '"stdout":"fine\\n0' 'nor in Bash'

# --- what was verified is what runs ---

# A skill looks at itself while everything on the host is exchanged.
skill ok <<'S'
#!/bin/sh
echo ready
read -r go
cat lib/word SKILL.md
test -e .tenant && echo tenant
(echo x >>main) 2>/dev/null && echo writable
(: >new) 2>/dev/null && echo writable
(rm main) 2>/dev/null && echo removable
(chmod 777 main) 2>/dev/null && echo changeable
exec ./lib/more
S
mkdir "$S/lib"
echo word >"$S/lib/word"
printf '#!/bin/sh\necho more\n' >"$S/lib/more"
chmod 700 "$S/lib/more"
: >"$S/.tenant"
sign "$S" --key "$K"
cp -r "$S" "$T/copy"
mkfifo "$T/in"
INV=$(new_id)
"$CYBEROS" skill broker run --store "$STORE" --invocation "$INV" \
    --result "$T/result.json" "$S/" <"$T/in" >"$T/out" 2>"$T/err" &
RUN=$!
exec 9>"$T/in"
until_true says ready
echo evil >"$S/lib/word"
printf '#!/bin/sh\necho evil\n' >"$S/lib/more"
echo evil >>"$S/SKILL.md"
rm -r "$S"
ln -s /nonexistent "$S"
echo go >&9
exec 9>&-
finish
is "$RC" 0 'the skill goes on when its directory is gone'
is "$OUT" "ready
word
$(cat "$T/copy/SKILL.md")
more" 'and finds its own files, which it cannot change'
nothing_left 'a skill that ran from its copy'
rm "$S"

# main, a file, SKILL.md are exchanged all the time: it is the signed one or none.
skill ok <<'S'
#!/bin/sh
exec /bin/sh lib/word
S
mkdir "$S/lib"
echo 'echo ran' >"$S/lib/word"
sign "$S" --key "$K"
cp -rp "$S" "$T/good"
cp -rp "$S" "$T/evil"
printf '#!/bin/sh\necho evil\n' >"$T/evil/main"
echo 'echo evil' >"$T/evil/lib/word"
sed -i 's/^description: .*/description: evil/' "$T/evil/SKILL.md"
cat >"$T/swap.pl" <<'P'
my ($from, $to, $stop, @names) = @ARGV;
my $n = 0;
until (-e $stop) {
	for my $name (@names) {
		my $src = $n % 2 ? "$from/good" : "$from/evil";
		system('cp', '-p', "$src/$name", "$from/$name.new" =~ s,/lib/,/lib-,r) == 0 or die;
		rename "$from/$name.new" =~ s,/lib/,/lib-,r, "$to/$name" or die;
	}
	$n++;
}
print "$n\n";
P
t_all_ran=0 t_all_refused=0
race() { # NAME FILE...
	t_race=$1
	shift
	rm -f "$T/stop"
	perl "$T/swap.pl" "$T" "$S" "$T/stop" "$@" >"$T/swaps" 2>&1 &
	t_swap=$!
	t_ran=0 t_refused=0 t_other=
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
		broker_run ok
		case $RC,$OUT in
		0,ran) t_ran=$((t_ran + 1)) ;;
		6,) t_refused=$((t_refused + 1)) ;;
		*) t_other="$t_other $RC,$OUT" ;;
		esac
	done
	: >"$T/stop"
	wait $t_swap
	is "$t_other" '' "exchanged all the time: $t_race"
	like "$(cat "$T/swaps")" '^[0-9]{2,}$' "exchanged all the time: $t_race, many times"
	note "$t_race: ran $t_ran, refused $t_refused, $(cat "$T/swaps") exchanges"
	t_all_ran=$((t_all_ran + t_ran))
	t_all_refused=$((t_all_refused + t_refused))
}
race main main
cp -p "$T/good/main" "$S/main"
race 'a file' lib/word
cp -p "$T/good/lib/word" "$S/lib/word"
race SKILL.md SKILL.md
cp -p "$T/good/SKILL.md" "$S/SKILL.md"
race 'all of it' main lib/word SKILL.md
holds 'some were run' [ $t_all_ran -gt 0 ]
holds 'and some were refused' [ $t_all_refused -gt 0 ]
rm -rf "$S" "$T/good" "$T/evil"

# Nothing of the sandbox is weaker for it.
fresh
broker_run --attest ok
ran 'a signed skill in a sandbox that was tried'
is "$(rows skill.sandbox_attested | jq -r '.layers.private_root')" enforced \
    'its root holds'
skill big </dev/null
printf '#!/bin/sh\nstat -c %%s big\ndf -k --output=avail . | tail -n 1\n' \
    >"$T/skills/big/main"
head -c 60000000 /dev/zero >"$T/skills/big/big"
sign "$T/skills/big" --key "$K"
is "$?" 0 '60 MB are signed'
broker_run big
like "$RC $(echo $OUT)" '^0 60000000 [0-9]+$' 'and run'
head -c 8000000 /dev/zero >>"$T/skills/big/big"
sign "$T/skills/big" --key "$K"
is "$?" 6 'more than 64 MiB are not'
broker_run big
refusal 6 'more than 64 MiB' 'nor run'
rm -r "$T/skills/big"

if is_root; then
	# What is root's alone is the skill's to read, and no more.
	fresh
	chmod 600 "$S/lib/word"
	chmod 700 "$S/lib" "$S/main" "$S"
	sign "$S" --key "$K"
	broker_run ok
	ran 'files that only root can read'
fi

done_testing
