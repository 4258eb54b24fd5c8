#!/bin/sh
# Configuration and the store: where they are looked for, who wins, what is
# refused rather than passed over.
# shellcheck source=t/lib.sh
. ./t/lib.sh

printf '#!/bin/sh\nexit 0\n' | skill probe
mkdir -p "$T/xdg/cyberos"
USER_FILE=$T/xdg/cyberos/broker.yaml

# config TEXT: the operator's file
config() { printf '%b' "$1" >"$T/c.yaml"; }

# run_config: run the probe under $T/c.yaml
run_config() { broker_run --config "$T/c.yaml" probe; }

# status_config: the same with a command that only looks
status_config() {
	"$CYBEROS" skill broker status --store "$STORE" --config "$T/c.yaml" \
	    >"$T/out" 2>"$T/err"
	RC=$?
	ERR=$(cat "$T/err")
}

# --- files

# refused_config TEXT PLACE REGEX: both commands refuse, naming the place
refused_config() {
	config "$1"
	rm -rf "$STORE"
	run_config
	is "$RC" 125 "run exits 125: $2 $3"
	like "$ERR" "c\.yaml:$2: .*$3" "run names the place: $2 $3"
	is "$(find "$STORE" 2>/dev/null)" '' "nothing was made: $2 $3"
	status_config
	is "$RC" 3 "status exits 3: $2 $3"
	like "$ERR" "c\.yaml:$2: .*$3" "status names the place: $2 $3"
}
config 'tmp_mb: 16\n'
run_config
is "$RC" 0 'a good file is taken'
refused_config 'tmp_mb: 16\nmax_memory: 5\n' 2:1 'max_memory_mb'
refused_config 'audit_sync: never\n' 1:13 'none, batch or row'
refused_config 'store: [a]\n' 1:8 'audit|path'
refused_config 'ceiling:\n  tool: []\n' 2:3 'ceiling.tools'
refused_config 'ceiling:\n  tools: [Read, Raed]\n' 2:17 'ceiling.tools: .Raed. is no tool'
refused_config 'store: a: b\n' 1:9 'YAML'
config ''
rm "$T/c.yaml"
run_config
is "$RC" 125 'a file that --config names must be there'
mkfifo "$T/c.yaml"
run_config
is "$RC" 125 'a pipe is no configuration, and does not block'
rm "$T/c.yaml"
broker_run --config '' probe
is "$RC" 125 'an empty --config is refused'

# The user's file counts when there is no --config, and not with one.
echo 'nonsense: 1' >"$USER_FILE"
broker_run probe
is "$RC" 125 'the user'\''s file is read'
like "$ERR" "cyberos/broker\.yaml:1:1: nonsense" 'and named'
config 'tmp_mb: 16\n'
run_config
is "$RC" 0 '--config replaces it'
rm "$USER_FILE"
ln -s "$T/nowhere" "$USER_FILE"
broker_run probe
is "$RC" 125 'a dangling link is not "no file"'
rm "$USER_FILE"
broker_run probe
is "$RC" 0 'no file at all is fine'
if ! is_root; then
	mkdir "$T/closed"
	mkdir "$T/closed/cyberos"
	echo 'tmp_mb: 16' >"$T/closed/cyberos/broker.yaml"
	chmod 0 "$T/closed"
	XDG_CONFIG_HOME=$T/closed broker_run probe
	is "$RC" 125 'a file that cannot be looked at is not "no file"'
	chmod 700 "$T/closed"
fi
if is_root; then
	config 'tmp_mb: 16\n'
	for mode in 664 646; do
		chmod "$mode" "$T/c.yaml"
		run_config
		is "$RC" 125 "root takes no file of mode $mode"
	done
	chmod 600 "$T/c.yaml"
	chown 54321 "$T/c.yaml"
	run_config
	is "$RC" 125 'nor one of somebody else'
	mkdir -m 777 "$T/open"
	chmod 777 "$T/open"
	rm "$T/c.yaml"
	config 'tmp_mb: 16\n'
	cp "$T/c.yaml" "$T/open/c.yaml"
	broker_run --config "$T/open/c.yaml" probe
	is "$RC" 125 'nor one below a directory that others write'
	like "$ERR" 'below a directory' 'it says so'
	ln -s "$T/open/c.yaml" "$T/link.yaml"
	broker_run --config "$T/link.yaml" probe
	is "$RC" 125 'nor a link to it'
	chmod 1777 "$T/open"
	broker_run --config "$T/open/c.yaml" probe
	is "$RC" 0 'a sticky directory passes'
fi

# --- rank: command line, environment, file

mkdir -p "$T/other"
cp -R "$T/skills/probe" "$T/other/probe"
printf '#!/bin/sh\nexit 7\n' >"$T/other/probe/main"
config "skills: $T/other\n"
"$CYBEROS" skill broker run --store "$STORE" --config "$T/c.yaml" probe
is "$?" 7 'skills: from the file'
CYBEROS_SKILLS=$T/skills "$CYBEROS" skill broker run --store "$STORE" \
    --config "$T/c.yaml" probe
is "$?" 0 'skills: the environment beats the file'
CYBEROS_SKILLS=$T/skills "$CYBEROS" skill broker run --store "$STORE" \
    --config "$T/c.yaml" --skills "$T/other" probe
is "$?" 7 'skills: the option beats the environment'
CYBEROS_SKILLS='' "$CYBEROS" skill broker run --store "$STORE" \
    --config "$T/c.yaml" probe
is "$?" 7 'an empty variable is not set'
broker_run --skills '' probe
is "$RC" 125 'an empty option is refused'

# --- where the store is

# at DIRECTORY [OPTIONS]: run there without --store, in a clean environment
at() {
	t_at=$1
	shift
	rm -f "$T/result.json"
	(cd "$t_at" && exec "$CYBEROS" skill broker run --skills "$T/skills" \
	    --result "$T/result.json" "$@" probe) >"$T/out" 2>"$T/err"
	RC=$?
	ERR=$(cat "$T/err")
}
# has_run STORE NAME: the last run left its segment there
has_run() {
	t_found=$(find "$1/audit" -name "$(result invocation_id).p1.jsonl" \
	    2>/dev/null | wc -l)
	is "$((t_found))" 1 "$2"
}
mkdir "$T/home" "$T/project" "$T/project/deep" "$T/elsewhere"
HOME=$T/home
if ! is_root; then
	at "$T/elsewhere"
	has_run "$HOME/.local/state/cyberos/store" 'the default is below HOME'
	is "$(stat -c %a "$HOME/.local/state/cyberos/store")" 700 'made 0700'
	export XDG_STATE_HOME="$T/state"
	at "$T/elsewhere"
	has_run "$T/state/cyberos/store" 'or below XDG_STATE_HOME'
	export XDG_STATE_HOME=relative
	at "$T/elsewhere"
	has_run "$HOME/.local/state/cyberos/store" 'when that is absolute'
	unset XDG_STATE_HOME

	mkdir -p "$T/project/.cyberos/memory/store"
	chmod 700 "$T/project/.cyberos/memory/store"
	at "$T/project"
	has_run "$T/project/.cyberos/memory/store" 'the store of a project'
	at "$T/project/deep"
	has_run "$T/project/.cyberos/memory/store" 'from below it too'
	mkdir -p "$T/project/deep/.cyberos/memory"
	at "$T/project/deep"
	has_run "$T/project/.cyberos/memory/store" \
	    'a .cyberos without a store is none'

	# bad_near NAME: one is in the way; it is an error, and none is used
	bad_near() {
		before=$(find "$T/project" "$HOME" "$T/elsewhere" | sort)
		at "$T/project/deep"
		is "$RC" 125 "$1 is an error"
		like "$ERR" '\.cyberos' "$1 is named"
		is "$(find "$T/project" "$HOME" "$T/elsewhere" | sort)" \
		    "$before" "$1: nothing was made anywhere"
	}
	near=$T/project/deep/.cyberos
	ln -s "$T/elsewhere" "$near/memory/store"
	bad_near 'a store that is a link'
	rm "$near/memory/store"
	echo >"$near/memory/store"
	bad_near 'a store that is a file'
	rm "$near/memory/store"
	mkdir "$near/memory/store"
	for part in "$near/memory/store" "$near/memory" "$near"; do
		chmod 770 "$part"
		bad_near "a group-writable ${part##*/}"
		chmod 702 "$part"
		bad_near "an others-writable ${part##*/}"
		chmod 700 "$part"
	done
	chmod 0 "$near"
	bad_near 'one that cannot be looked into'
	chmod 700 "$near"
	mv "$near" "$T/moved"
	ln -s "$T/moved" "$near"
	bad_near 'a .cyberos that is a link'
	rm "$near"
	mv "$T/moved" "$near"
	at "$T/project/deep"
	has_run "$near/memory/store" 'put right, it is the nearest'
	at "$T/project/deep" --store "$T/elsewhere/s"
	has_run "$T/elsewhere/s" '--store beats it'
else
	mkdir -p "$T/project/.cyberos/memory/store"
	store_of_root=/var/lib/cyberos/store
	mkdir "$T/var"
	# shellcheck disable=SC2016 # expanded inside
	unshare -m sh -c 'mkdir -p /var/lib/cyberos && mount --bind "$1/var" \
	    /var/lib/cyberos && cd "$1/project" && exec "$2" skill broker run \
	    --skills "$1/skills" --result "$1/result.json" probe' sh "$T" \
	    "$CYBEROS"
	has_run "$T/var/store" "root's is $store_of_root; root never searches"
	rmdir /var/lib/cyberos 2>/dev/null # it was made as a mount point
fi
export CYBEROS_STORE="$T/env"
at "$T/project"
has_run "$T/env" 'CYBEROS_STORE beats what is searched for'
at "$T/project" --store "$T/option"
has_run "$T/option" '--store beats CYBEROS_STORE'
config "store: $T/file\n"
at "$T/project" --config "$T/c.yaml"
has_run "$T/env" 'CYBEROS_STORE beats the file'
unset CYBEROS_STORE
at "$T/project" --config "$T/c.yaml"
has_run "$T/file" 'the file beats what is searched for'
at "$T/elsewhere" --store relative
has_run "$T/elsewhere/relative" 'a relative one is below the working directory'
at "$T/elsewhere" --store ''
is "$RC" 125 'an empty one is refused'
is "$(find "$T/elsewhere" -name audit | wc -l | tr -d ' ')" \
    "$(if is_root; then echo 1; else echo 2; fi)" 'and is not the directory one stands in'

# --- whose the store is

# bad_store NAME PATH: refused by both commands, and nothing is written there
bad_store() {
	before=$(find "$T/bad" | sort)
	broker_run --store "$2" probe
	is "$RC" 125 "run: $1 is refused"
	like "$ERR" 'store.*(directory of yours|[Dd]enied)' "run: $1: says so"
	"$CYBEROS" skill broker status --store "$2" >"$T/out" 2>"$T/err"
	is "$? $(cat "$T/out")" '5 ' "status: $1 is refused"
	is "$(find "$T/bad" | sort)" "$before" "$1: nothing was made"
}
mkdir -m 700 "$T/bad" "$T/bad/real"
ln -s real "$T/bad/link"
bad_store 'a link' "$T/bad/link"
bad_store 'a link with a slash' "$T/bad/link/"
bad_store 'a link with a dot' "$T/bad/link/."
bad_store 'a link with slashes and dots' "$T/bad/link//.//"
echo >"$T/bad/plain"
bad_store 'a file' "$T/bad/plain"
for mode in 770 702 777 1777; do
	mkdir "$T/bad/$mode"
	chmod "$mode" "$T/bad/$mode"
	bad_store "a store of mode $mode" "$T/bad/$mode"
done
if is_root; then
	mkdir -m 700 "$T/bad/other"
	chown 54321 "$T/bad/other"
	bad_store "somebody else's" "$T/bad/other"
	mkdir -m 700 "$T/bad/part" "$T/bad/part/audit"
	chown 54321 "$T/bad/part/audit"
	bad_store "one whose audit is somebody else's" "$T/bad/part"
else
	bad_store "somebody else's" /usr
fi
mkdir -m 700 "$T/bad/inner" "$T/bad/inner/run"
ln -s "$T/elsewhere" "$T/bad/inner/audit"
broker_run --store "$T/bad/inner" probe
is "$RC" 125 'a store whose audit is a link is refused'
broker_run --store "$T/new/" probe
is "$RC" 0 'a missing store is made'
is "$(find "$T/new" -type d ! -perm 700)" '' 'all its directories are 0700'
is "$(find "$T/new" -type f ! -perm 600)" '' 'all its files are 0600'
is "$(stat -c %a "$T/new")" 700 'itself too, whatever slash was behind it'
(umask 0 && "$CYBEROS" skill broker run --store "$T/new2" --skills \
    "$T/skills" probe)
is "$(find "$T/new2" -perm /077)" '' 'whatever the umask'
before=$(find "$T" | sort)
"$CYBEROS" skill broker status --store "$T/none/at/all" >"$T/out"
is "$? $(jq -c '[.active_invocations, .tool_calls_today]' <"$T/out")" \
    '0 [0,0]' 'status of a store that is not there: nothing has happened'
is "$(find "$T" | sort)" "$before" 'and status made nothing'

if ! is_root; then
	done_testing
fi

# --- the system's file, over a copy of /etc in a private mount namespace

mkdir "$T/etc"
(cd /etc && tar -cf - --exclude=./ssl .) | (cd "$T/etc" && tar -xpf -)
mkdir -p "$T/etc/cyberos"
cp "$CYBEROS" "$T/cyberos" # where everybody can execute it

# system TEXT COMMAND...: with this file; leaves RC, ERR
system() {
	printf '%b' "$1" >"$T/etc/cyberos/broker.yaml"
	shift
	# shellcheck disable=SC2016 # expanded inside
	unshare -m sh -c 'mount --bind "$1/etc" /etc && shift && exec "$@"' \
	    sh "$T" "$@" >"$T/out" 2>"$T/err"
	RC=$?
	ERR=$(cat "$T/err")
}
RUN="$T/cyberos skill broker run --skills $T/skills --store $STORE"
# system_run TEXT [OPTIONS] SKILL
system_run() {
	text=$1
	shift
	# shellcheck disable=SC2086 # words
	system "$text" $RUN "$@"
}
system_run 'tmp_mb: 16\n' probe
is "$RC" 0 'a system file is taken'
system_run 'tmp_mb: 16\nnonsense: 1\n' probe
is "$RC" 125 'its errors stop everything'
like "$ERR" '/etc/cyberos/broker\.yaml:2:1: nonsense' 'and are named'

# fixed SYSTEM USER: the user's file may not say this
fixed() {
	config "$2"
	system_run "$1" --config "$T/c.yaml" probe
	is "$RC" 125 "$1 cannot become $2"
	like "$ERR" "c\.yaml:1:.*the system's file says" "$2: says why"
}
fixed 'max_memory_mb: 100' 'max_memory_mb: 101'
fixed 'min_free_mb: 100' 'min_free_mb: 99'
fixed 'sandbox: required' 'sandbox: best-effort'
fixed 'audit_required: true' 'audit_required: false'
fixed 'audit_sync: row' 'audit_sync: batch'
fixed 'audit_resources: true' 'audit_resources: false'
fixed 'skills: /opt/a' 'skills: /opt/b'
config 'max_memory_mb: 99\naudit_sync: row\n'
system_run 'max_memory_mb: 100\naudit_sync: batch\n' --config "$T/c.yaml" probe
is "$RC" 0 'tighter is taken'
system_run "skills: $T/other\n" probe
is "$RC" 125 'skills: --skills cannot leave what the system has set'
like "$ERR" 'skills: /etc/cyberos/broker.yaml has set it' 'and says so'
system "skills: $T/other\n" env "CYBEROS_SKILLS=$T/skills" "$T/cyberos" skill \
    broker run --store "$STORE" probe
is "$RC" 125 'nor can the environment'
system "store: $T/fixed\n" env "CYBEROS_STORE=$STORE" "$T/cyberos" skill \
    broker run --skills "$T/skills" probe
is "$RC" 125 'store: the environment cannot leave it either'
system_run "store: $STORE\n" probe
is "$RC" 0 'the same value is fine'
system_run 'sandbox: required\n' --sandbox best-effort probe
is "$RC" 125 '--sandbox cannot widen'
system_run 'sandbox: best-effort\n' --sandbox required probe
is "$RC" 0 '--sandbox can tighten'
system_run 'socket_dir: /tmp\n' --socket-dir "$T" probe
is "$RC" 125 '--socket-dir cannot leave it'

# A ceiling for an ordinary user, which counts even if he cannot read it.
mkdir "$T/user"
chown 54321 "$T/user"
AS_USER='setpriv --reuid 54321 --regid 54321 --clear-groups env HOME=/nowhere'
USER_RUN="$AS_USER $T/cyberos skill broker run --skills $T/skills"
USER_RUN="$USER_RUN --store $T/user/store"
# shellcheck disable=SC2086 # words
system 'tmp_mb: 16\n' $USER_RUN probe
is "$RC" 0 'an ordinary user runs under it'
# shellcheck disable=SC2086 # words
system 'skills: /opt/other\n' $USER_RUN probe
is "$RC" 125 'and cannot leave it'
chmod 700 "$T/etc/cyberos"
# shellcheck disable=SC2086 # words
system 'tmp_mb: 16\n' $USER_RUN probe
is "$RC" 125 'a directory that he cannot look into is not "no ceiling"'
chmod 755 "$T/etc/cyberos"
chmod 600 "$T/etc/cyberos/broker.yaml"
# shellcheck disable=SC2086 # words
system 'tmp_mb: 16\n' $USER_RUN probe
is "$RC" 125 'nor is a file that he cannot read'

done_testing
