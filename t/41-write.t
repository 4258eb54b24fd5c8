#!/bin/sh
# Write: what is put, what stays as it was, and that a file is the old one or
# the new one and never a mix.
# shellcheck source=t/lib.sh
. t/lib.sh
# shellcheck source=t/live.sh
. t/live.sh

TAMPER=$PWD/t/skills/tamper/main
D=$T/d
mkdir -p "$D/ok/sub" "$D/out"
OK="x-allowed-files: [\"$D/ok/**\"]"
GRANT='allowed_tools: [Read, Write, Edit]'
F=file_violation

# w NAME BODY [MODE]: a line for calls
w() {
	printf 'Write {"path":"%s","body":"%s"%s}\n' "$D/ok/$1" "$2" \
	    "${3:+,\"mode\":\"$3\"}"
}
mode() { stat -c %a "$1"; }
# leftovers: temporary files anywhere
leftovers() { find "$D" "$STORE" -name '*.tmp' -o -name '.cyberos-*' | wc -l; }

# --- the three modes ---

printf old >"$D/ok/f"
calls "$(w new one create)
$(w new two create)
$(w f changed)
$(w log a append)
$(w log bc append)
$(w empty '')
$(w f2 x overwrite)
Write {\"path\":\"$D/ok/bin\",\"body\":\"AP8KDQ==\",\"encoding\":\"base64\"}
Write {\"path\":\"$D/ok/text\",\"body\":\"é\\n\",\"encoding\":\"utf-8\"}" \
    "$GRANT" "$OK"
is "$(said 1) $(cat "$D/ok/new")" "ok one" "create makes a file"
is "$(said 2)" "-32000 exists -" "create does not replace one"
is "$(said 3) $(cat "$D/ok/f")" "ok changed" "overwrite is the default"
is "$(answer 3 '.result | "\(.bytes) \(.content_hash)"')" \
    "7 $(sha "$D/ok/f")" "bytes and content_hash"
is "$(said 4) $(said 5) $(cat "$D/ok/log")" "ok ok abc" \
    "append makes a file and adds to it"
is "$(answer 5 '.result | "\(.bytes) \(.content_hash)"')" \
    "2 $(sha "$D/ok/log")" "bytes of the call, hash of the whole file"
is "$(said 6) $(wc -c <"$D/ok/empty")" "ok 0" "an empty body makes an empty file"
is "$(said 7) $(cat "$D/ok/f2")" "ok x" "overwrite makes a file"
is "$(od -An -tx1 "$D/ok/bin")" " 00 ff 0a 0d" "base64 is decoded"
is "$(answer 8 .result.bytes)" 4 "bytes counts what was written"
is "$(od -An -tx1 "$D/ok/text")" " c3 a9 0a" "text is UTF-8"
is "$(mode "$D/ok/new")" 644 "a new file has the caller's usual mode"
is "$(stat -c %u "$D/ok/new")" "$(id -u)" "and belongs to the caller"
is "$(leftovers)" 0 "no temporary file is left"
is "$(rows skill.tool_call_completed '| .outcome' | sort | uniq -c | sed 's/^ *//' | tr '\n' ' ')" \
    '1 "error" 8 "success" ' "all are in the ledger"

# --- bad arguments, and what is not there ---

calls "Write {\"path\":\"$D/ok/q\"}
Write {\"body\":\"x\"}
$(w q x truncate)
Write {\"path\":\"$D/ok/q\",\"body\":\"x\",\"encoding\":\"hex\"}
Write {\"path\":\"$D/ok/q\",\"body\":\"A\",\"encoding\":\"base64\"}
Write {\"path\":\"$D/ok/q\",\"body\":\"QUJ=\",\"encoding\":\"base64\"}
Write {\"path\":\"$D/ok/q\",\"body\":\"QU JD\",\"encoding\":\"base64\"}
Write {\"path\":\"$D/ok/q\",\"body\":5}
Write {\"path\":\"ok/q\",\"body\":\"x\"}
$(w none/q x)
$(w f/q x)
$(w sub x)
$(w sub/ x)" "$GRANT" "$OK"
for i in 1 2 3 4 5 6 7 8 9; do
	is "$(said $i)" "-32602 Invalid params -" "bad arguments are -32602 ($i)"
done
is "$(said 10) $(said 11)" "-32000 not_found - -32000 not_found -" \
    "directories are not made"
is "$(said 12) $(said 13)" "-32000 is_a_directory - -32000 is_a_directory -" \
    "a directory is not written"
[ ! -e "$D/ok/q" ] && [ ! -e "$D/ok/none" ] && [ -d "$D/ok/sub" ]
ok $? "none of them has changed anything"

# --- what a file keeps (case W148) ---

printf '#!/bin/sh\n' >"$D/ok/x755"
chmod 755 "$D/ok/x755"
printf secret >"$D/ok/x600"
chmod 600 "$D/ok/x600"
printf ro >"$D/ok/x640"
chmod 640 "$D/ok/x640"
calls "$(w x755 new)
$(w x600 new)
$(w x640 new)
$(w x640 more append)
Edit {\"path\":\"$D/ok/x755\",\"old\":\"n\",\"new\":\"m\"}" "$GRANT" "$OK"
is "$(mode "$D/ok/x755") $(mode "$D/ok/x600") $(mode "$D/ok/x640")" \
    "755 600 640" "case W148: the mode is kept"
is "$(cat "$D/ok/x755") $(cat "$D/ok/x640")" "mew newmore" \
    "case W148: and the contents are new"

# An ACL: user::rw- user:54322:rw- group::--- mask::rw- other::---
ACL=0200000001000600ffffffff0200060032d4000004000000ffffffff10000600ffffffff20000000ffffffff
printf old >"$D/ok/acl"
if "$TAMPER" setx "$D/ok/acl" user.note 616263 2>/dev/null &&
    "$TAMPER" setx "$D/ok/acl" system.posix_acl_access "$ACL" 2>/dev/null; then
	was=$(mode "$D/ok/acl")
	calls "$(w acl new)
Edit {\"path\":\"$D/ok/acl\",\"old\":\"n\",\"new\":\"m\"}" "$GRANT" "$OK"
	is "$(said 1) $(said 2) $(cat "$D/ok/acl")" "ok ok mew" \
	    "case W148: a file with ACL and attributes is written"
	is "$("$TAMPER" getx "$D/ok/acl" user.note)" 616263 \
	    "case W148: its user attribute is kept"
	is "$("$TAMPER" getx "$D/ok/acl" system.posix_acl_access)" "$ACL" \
	    "case W148: its ACL is kept"
	is "$(mode "$D/ok/acl")" "$was" "case W148: its mode is kept"

	# A file without an ACL gets none from its directory's default.
	mkdir "$D/ok/default"
	printf old >"$D/ok/default/f"
	chmod 660 "$D/ok/default/f"
	"$TAMPER" setx "$D/ok/default" system.posix_acl_default "$ACL"
	calls "$(w default/f new)
$(w default/n new)" "$GRANT" "$OK"
	is "$(cat "$D/ok/default/f") $(mode "$D/ok/default/f")" "new 660" \
	    "case W148: no other mode from the directory's default ACL"
	"$TAMPER" getx "$D/ok/default/f" system.posix_acl_access \
	    >/dev/null 2>&1
	is $? 1 "case W148: and no ACL"
	is "$("$TAMPER" getx "$D/ok/default/n" system.posix_acl_access)" \
	    "$ACL" "case W148: which a new file does get"
else
	skip "case W148: ACL and attributes" "no ACL or xattr on this file system"
fi

mkdir "$D/ok/setgid"
printf old >"$D/ok/setgid/old"
if is_root; then
	chgrp 54399 "$D/ok/setgid"
	chown 54321:54321 "$D/ok/setgid/old"
fi
chmod 2775 "$D/ok/setgid"
group=$(stat -c %g "$D/ok/setgid")
owner=$(stat -c %u:%g "$D/ok/setgid/old")
calls "$(w setgid/new x)
$(w setgid/old y)
Edit {\"path\":\"$D/ok/setgid/old\",\"old\":\"y\",\"new\":\"z\"}" "$GRANT" "$OK"
is "$(stat -c %g "$D/ok/setgid/new")" "$group" \
    "case W148: a new file in a set-gid directory has its group"
is "$(stat -c %u:%g "$D/ok/setgid/old") $(cat "$D/ok/setgid/old")" "$owner z" \
    "case W148: an old one keeps owner and group"

# --- what is not written (case P7) ---

printf target >"$D/out/f"
ln "$D/out/f" "$D/ok/hard"
[ "$(id -u)" -ne 0 ] || chmod 666 "$D/out/f"
was=$(stat -c '%i %s %Y %h' "$D/out/f")
calls "$(w hard x)
$(w hard x append)
$(w hard x create)
Edit {\"path\":\"$D/ok/hard\",\"old\":\"t\",\"new\":\"x\",\"all\":true}
Read {\"path\":\"$D/ok/hard\"}" "$GRANT" "$OK"
for i in 1 2 3 4; do
	is "$(said $i)" "-32603 $F hard_link" \
	    "case P7: a file with several links is not written ($i)"
done
is "$(said 5)" ok "case P7: reading it is another matter"
is "$(stat -c '%i %s %Y %h' "$D/out/f") $(cat "$D/out/f")" "$was target" \
    "case P7: it is as it was"
is "$(rows skill.tool_denied '| .reason' | uniq -c | sed 's/^ *//')" \
    '4 "hard_link"' "case P7: four rows"

for m in 4755 2755 6755; do
	cp "$D/ok/x755" "$D/ok/set$m"
	chmod "$m" "$D/ok/set$m"
done
calls "$(w set4755 x)
$(w set2755 x append)
Edit {\"path\":\"$D/ok/set6755\",\"old\":\"m\",\"new\":\"x\"}" "$GRANT" "$OK"
for i in 1 2 3; do
	is "$(said $i)" "-32603 $F privileged_file" \
	    "a set-id file is not written ($i)"
done
is "$(mode "$D/ok/set4755") $(mode "$D/ok/set2755") $(mode "$D/ok/set6755")" \
    "4755 2755 6755" "and keeps its bits"
is "$(cat "$D/ok/set4755" "$D/ok/set2755" "$D/ok/set6755")" mewmewmew \
    "and its contents"
# A file capability, which only root can give: cap_net_bind_service=ep
printf x >"$D/ok/cap"
if ! is_root; then
	:
elif "$TAMPER" setx "$D/ok/cap" security.capability \
    0100000200040000000000000000000000000000 2>/dev/null; then
	calls "$(w cap y)
$(w cap y append)" "$GRANT" "$OK"
	is "$(said 1) $(said 2)" \
	    "-32603 $F privileged_file -32603 $F privileged_file" \
	    "a file with capabilities is not written"
	is "$(cat "$D/ok/cap")" x "and is as it was"
else
	skip "a file with capabilities" "no security attributes here"
fi

ln -s "$D/out/f2" "$D/ok/dangling"
ln -s "$D/out" "$D/ok/dir"
printf out >"$D/out/g"
ln -s "$D/out/g" "$D/ok/leaf"
printf in >"$D/ok/real"
ln -s real "$D/ok/alias"
calls "$(w dangling x)
$(w dangling x create)
$(w dir/new x)
$(w leaf x)
$(w leaf x append)
$(w alias x)
Write {\"path\":\"$D/ok/../out/h\",\"body\":\"x\"}
Write {\"path\":\"$D/out/h\",\"body\":\"x\",\"mode\":\"create\"}" "$GRANT" "$OK"
for i in 1 2 3 4 5 7 8; do
	is "$(said $i)" "-32603 $F $F" "links and dot-dot do not lead out ($i)"
done
is "$(cd "$D/out" && echo * && cat g)" "f g
out" "and nothing outside was made or changed"
is "$(said 6) $(cat "$D/ok/real")" "ok x" "a link to a file inside is followed"
[ -L "$D/ok/alias" ]
ok $? "and stays a link"

# --- who may ---

printf old >"$D/ok/readonly"
chmod 444 "$D/ok/readonly"
mkdir "$D/ok/locked"
printf old >"$D/ok/locked/f"
chmod 555 "$D/ok/locked"
if is_root; then
	if command -v chattr >/dev/null && chattr +i "$D/ok/readonly" 2>/dev/null
	then
		calls "$(w readonly x)
$(w readonly x append)" "$GRANT" "$OK"
		chattr -i "$D/ok/readonly"
		is "$(said 1) $(said 2)" \
		    "-32000 permission - -32000 permission -" \
		    "an immutable file is permission"
	else
		skip "an immutable file" "no chattr +i here"
	fi
else
	calls "$(w readonly x)
$(w readonly x append)
Edit {\"path\":\"$D/ok/readonly\",\"old\":\"o\",\"new\":\"x\"}
$(w locked/f x)
$(w locked/new x)" "$GRANT" "$OK"
	for i in 1 2 3 4 5; do
		is "$(said $i)" "-32000 permission -" \
		    "what the caller may not write is permission ($i)"
	done
fi
is "$(cat "$D/ok/readonly") $(ls "$D/ok/locked") $(cat "$D/ok/locked/f")" \
    "old f old" "and it is as it was"
chmod 755 "$D/ok/locked"

# --- limits ---

printf 'max_write_mb: 1\nmin_free_mb: 0\n' >"$T/share.yaml"
big=$(head -c 600000 /dev/zero | tr '\0' a)
skill wire "$GRANT" "$OK" <"$WIRE/main"
lines "$(w b1 "$big")
$(w b2 "$big")
$(w b1 "$big")
$(w b3 small)
Edit {\"path\":\"$D/ok/b1\",\"old\":\"a\",\"new\":\"b\",\"all\":true}"
broker_run --config "$T/share.yaml" wire <"$T/commands"
is "$(said 1) $(said 2) $(said 3) $(said 4) $(said 5)" \
    "ok -32000 no_space - -32000 no_space - ok -32000 no_space -" \
    "max_write_mb is the share of one invocation"
[ ! -e "$D/ok/b2" ] && [ "$(cat "$D/ok/b1")" = "$big" ]
ok $? "what is beyond it is not written"
broker_run wire <"$T/commands"
is "$(said 1) $(said 2) $(said 3)" "ok ok ok" "the default share is larger"
is "$(wc -c <"$D/ok/b2")" 600000 "and the next invocation has its own"
printf 'min_free_mb: 1048576\n' >"$T/free.yaml"
free=$(df -Pm "$D" | awk 'NR == 2 { print $4 }')
if [ "$free" -lt 1000000 ]; then
	rm -f "$D/ok/b2"
	broker_run --config "$T/free.yaml" wire <"$T/commands"
	is "$(said 1) $(said 4)" "-32000 no_space - -32000 no_space -" \
	    "min_free_mb keeps the file system from filling up"
	[ ! -e "$D/ok/b2" ]
	ok $? "nothing was written"
else
	skip "min_free_mb" "this file system has a TiB free"
fi

mkdir "$D/ok/mnt"
printf 'min_free_mb: 0\n' >"$T/full.yaml"
# shellcheck disable=SC2016 # for the shell in the namespace
full='ls -A "$D/ok/mnt"; wc -c <"$D/ok/mnt/f"; stat -c %a "$D/ok/mnt/f"'
if can_mount; then
	lines "$(w mnt/f "$big")
$(w mnt/f2 "$big")
$(w mnt/f3 "$big" append)
$(w mnt/f "$big")
$(w mnt/f "$big" append)"
	# shellcheck disable=SC2016
	mounted 'mount -t tmpfs -o size=1m none "$D/ok/mnt" &&
	    printf old >"$D/ok/mnt/f" && chmod 640 "$D/ok/mnt/f"' "$full" \
	    --config "$T/full.yaml"
	is "$(said 1) $(said 2) $(said 3) $(said 4) $(said 5)" \
	    "ok -32000 no_space - -32000 no_space - -32000 no_space - -32000 no_space -" \
	    "a full disk is no_space"
	is "$(cat "$T/after")" "f
600000
640" "and leaves the old file whole, and nothing beside it"
	is "$(rows skill.tool_call_completed \
	    '| select(.outcome == "error") | .error_message' | cut -c 1-9 | sort -u)" \
	    '"no_space' "with the word in the row"

	lines "$(w mnt/f x)
$(w mnt/new x create)
$(w mnt/f x append)
Read {\"path\":\"$D/ok/mnt/f\"}"
	printf old >"$D/ok/mnt/f"
	# shellcheck disable=SC2016
	mounted 'mount --bind "$D/ok/mnt" "$D/ok/mnt" &&
	    mount -o remount,bind,ro "$D/ok/mnt"' 'ls -A "$D/ok/mnt"' \
	    --config "$T/full.yaml"
	is "$(said 1) $(said 2) $(said 3) $(said 4)" \
	    "-32000 permission - -32000 permission - -32000 permission - ok" \
	    "a read-only mount is permission"
	is "$(cat "$T/after") $(cat "$D/ok/mnt/f")" "f old" \
	    "and nothing is changed"
fi

# --- old or new, never a mix ---

one=$(head -c 200000 /dev/zero | tr '\0' 1)
two=$(head -c 200000 /dev/zero | tr '\0' 2)
printf '%s' "$one" >"$D/ok/whole"
skill storm "$GRANT" "$OK" <t/skills/storm/main
{
	echo "300 4 2"
	printf '{"tool":"Write","args":{"path":"%s","body":"%s"}}\n' \
	    "$D/ok/whole" "$one" "$D/ok/whole" "$two"
} >"$T/in"
mkfifo "$T/hold"
"$TAMPER" whole "$D/ok/whole" 200000 <"$T/hold" >"$T/seen" &
exec 5>"$T/hold"
broker_run storm <"$T/in"
exec 5>&-
wait
is "$(printf '%s\n' "$OUT" | sed -n '$p') $(printf '%s\n' "$OUT" | grep -c '"error"')" \
    "done 300 0" "300 overwrites, four at a time"
like "$(cat "$T/seen")" 'mixed 0 wrong 0$' \
    "somebody who reads all the while sees whole files only"
like "$(cat "$T/seen")" '^reads [1-9][0-9]+' "($(cat "$T/seen"))"
is "$(leftovers)" 0 "no temporary file is left at the end"

done_testing
