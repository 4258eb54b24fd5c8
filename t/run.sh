#!/bin/sh
# Run every test: as the caller, and, when that is root, once more as an
# ordinary user on a copy. Usage: t/run.sh BUILD-DIRECTORY [TEST...]
#
# Environment: BIN, the binary (cyberos); T_USER=0, not again as an ordinary
# user; T_JOBS, how many at once (one more than processors, since many of them
# wait); T_MUST=1, a skip is a failure.
#
# The second time without what compares texts, tables, protocols and clients, or
# calculates: that comes out the same whoever runs it. And with fewer rounds.
set -eu
build=$1
shift
bin=${BIN:-cyberos}
jobs=${T_JOBS:-$(($(nproc) + 1))}
tests=${*:-$(ls t/*.t "$build"/unit/*.t)}
# What .ci/deps has put there, also for those with another home.
export CYBEROS_NPM="${CYBEROS_NPM:-${XDG_CACHE_HOME:-$HOME/.cache}/cyberos/npm}"

# prove runs a shell test through sh, a unit test as it is
prove_all() {
	# shellcheck disable=SC2086 # a list of file names
	CYBEROS=$PWD/$bin PLANTED=$PWD/$build/unit/planted \
	FAULTY=$PWD/$build/unit/faulty \
	    prove -j "$jobs" --timer --exec "sh t/exec.sh" $tests
}

if [ "$(id -u)" -ne 0 ]; then
	prove_all
	exit
fi
echo "As root:"
prove_all
[ "${T_USER:-1}" = 1 ] || exit 0

copy=$(mktemp -d "${TMPDIR:-/tmp}/cyberos-user.XXXXXX")
trap 'rm -rf "$copy"' EXIT
trap 'exit 130' INT TERM HUP
# The sources too: some tests compare the manual with them; and the objects, with
# their times, since one test links them anew.
cp -Rp .ci t man README.md Makefile audit enforce tools broker supervisor "$copy/"
mkdir -p "$copy/$build" "$copy/$(dirname "$bin")"
cp "$bin" "$copy/$bin"
cp -R "$(dirname "$bin")/libexec" "$copy/$(dirname "$bin")/"
for t_room in unit filters audit enforce tools broker supervisor; do
	cp -Rp "$build/$t_room" "$copy/$build/"
done
if [ -d "$CYBEROS_NPM" ]; then
	cp -R "$CYBEROS_NPM" "$copy/npm"
	CYBEROS_NPM=$copy/npm
fi
chown -R 54321:54321 "$copy"
echo "As an ordinary user:"
cd "$copy"
same='00-layers 05-manual 21-schema 24-import 26-sign 30-frames 31-rpc 33-limits
    48-stray 53-load 73-clients
    74-completion 75-install 81-export 81-prometheus unit/model unit/glob.t unit/verify.t unit/json.t unit/match.t
    unit/excerpt.t'
for name in $same; do
	tests=$(printf '%s\n' $tests | grep -vF "$name")
done
export READS="${READS:-10000}" WRITES="${WRITES:-1000}" T_CALLS="${T_CALLS:-500}" \
    T_STEP="${T_STEP:-7}" STORM="${STORM:-200}"
export build bin jobs tests
# shellcheck disable=SC2016 # the words are the inner shell's
HOME=$copy setpriv --reuid 54321 --regid 54321 --clear-groups sh -c '
	CYBEROS=$PWD/$bin PLANTED=$PWD/$build/unit/planted \
	FAULTY=$PWD/$build/unit/faulty \
	    prove -j "$jobs" --timer --exec "sh t/exec.sh" $tests'
