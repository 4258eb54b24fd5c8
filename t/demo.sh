#!/bin/sh
# The main job on one screen: a useful skill, a curious one, the ledger.
set -eu

cyberos=$PWD/cyberos
demo=$(mktemp -d "${TMPDIR:-/tmp}/cyberos-demo.XXXXXX")
store=$demo/store
sleeper=
tidy() {
	[ -z "$sleeper" ] || kill "$sleeper" 2>/dev/null || true
	wait
	rm -rf "$demo"
}
trap tidy EXIT
trap 'exit 130' INT TERM HUP PIPE

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	bold=$(printf '\033[1m') good=$(printf '\033[32m')
	bad=$(printf '\033[31m') plain=$(printf '\033[0m')
else
	bold='' good='' bad='' plain=''
fi
title() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }

new_id() { cat /proc/sys/kernel/random/uuid; }

# skill_of NAME: the shipped skill, with this run's directory in its grants
skill_of() {
	mkdir -p "$demo/skills/$1"
	sed "s|@DEMO@|$demo|" "t/skills/$1/SKILL.md" >"$demo/skills/$1/SKILL.md"
	cp "t/skills/$1/main" "$demo/skills/$1/main"
	chmod 755 "$demo/skills/$1/main"
}

# show FILE: what was asked, and beside it what came back
show() {
	awk -F '\t' -v good="$good" -v bad="$bad" -v plain="$plain" '{
		got = $3
		sub(/^cyberos: /, "", got); sub(/:$/, "", got)
		sub(/^bash: (connect|line [0-9]+): /, "", got)
		if (length(got) > 36) got = substr(got, 1, 33) "..."
		printf "  %-37s %s%-3s %s%s\n", $2, $1 == "yes" ? good : bad,
		    $1, got, plain
	}' "$1"
}

run() {
	"$cyberos" skill broker run --store "$store" "$@"
}

# readable FILE: one line a row
readable() {
	awk '
	function field(name,    at, s) {
		at = index($0, "\"" name "\":")
		if (at == 0) return ""
		s = substr($0, at + length(name) + 3)
		if (substr(s, 1, 1) == "\"") {
			s = substr(s, 2)
			return substr(s, 1, index(s, "\"") - 1)
		}
		match(s, /^[^,}]*/)
		return substr(s, 1, RLENGTH)
	}
	{
		what = field("tool_name")
		more = field("reason")
		if (more == "") more = field("outcome")
		if (more == "") more = field("resource")
		if (more == "null") more = ""
		kind = field("kind")
		sub(/^skill\./, "", kind)
		printf "  %2d %s %-19s %-10s %-25s %s\n", field("seq"),
		    substr(field("ts"), 12, 8), kind, what, more,
		    substr($0, length($0) - 65, 8)
	}' "$1"
}

mkdir -p "$demo/files" "$store/memories/notes" "$store/memories/hr"
chmod 755 "$demo"
chmod 700 "$store"
echo 'the roof leaks' | tr -d '\n' >"$store/memories/notes/monday"
echo 'the roofer comes' | tr -d '\n' >"$store/memories/notes/tuesday"
echo 'what people earn' >"$store/memories/hr/pay"
chmod -R go= "$store"
ln -s /etc/passwd "$demo/files/innocent"
skill_of notes
skill_of curious
mkdir -p "$demo/skills/other"
cp "$demo/skills/notes/SKILL.md" "$demo/skills/other/SKILL.md"
printf '#!/bin/sh\nexec sleep 30\n' >"$demo/skills/other/main"
chmod 755 "$demo/skills/other/main"

# A second invocation, so that there is another socket to be curious about.
other=$(new_id)
"$cyberos" skill broker run --store "$store" --invocation "$other" \
    "$demo/skills/other" </dev/null >/dev/null 2>&1 &
sleeper=$!
tries=0
while [ ! -S "/tmp/cyberos-skill-broker.$other.sock" ] && [ $tries -lt 100 ]; do
	sleep 0.05
	tries=$((tries + 1))
done

title 'A useful skill asked:                    and got:'
useful=$(new_id)
run --invocation "$useful" "$demo/skills/notes" -- "$demo" >"$demo/useful"
show "$demo/useful"

title 'A curious skill asked:                   and got:'
curious=$(new_id)
run --invocation "$curious" "$demo/skills/curious" -- "$demo" "$other" \
    >"$demo/curious"
show "$demo/curious"

title 'What the ledger says of the curious one (each row holds the hash of the one before):'
readable "$(ls "$store"/audit/*/seg/*/"$curious".p1.jsonl)"

title 'cyberos skill broker status --human'
"$cyberos" skill broker status --store "$store" --human | sed 's/^/  /'

cat <<EOT

Both skills ran in a sandbox without network, without a file of this host but
what /usr holds, and asked for everything through one socket. What SKILL.md did
not grant was refused, and every call is a row. Next: README.md, or
"man man/cyberos-skill-broker.1".
EOT
