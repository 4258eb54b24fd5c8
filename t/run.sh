#!/bin/sh
# Run every test: as the caller, and, when that is root, once more as an
# ordinary user on a copy. Usage: t/run.sh BUILD-DIRECTORY [TEST...]
#
# Environment: BIN, the binary (cyberos); T_USER=0, not again as an ordinary
# user; T_JOBS, how many at once (2); T_MUST=1, a skip is a failure.
set -eu
build=$1
shift
bin=${BIN:-cyberos}
jobs=${T_JOBS:-2}
tests=${*:-$(ls t/*.t "$build"/unit/*.t)}

# prove runs a shell test through sh, a unit test as it is
prove_all() {
	# shellcheck disable=SC2086 # a list of file names
	CYBEROS=$PWD/$bin PLANTED=$PWD/$build/unit/planted \
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
# The sources too: some tests compare the manual with them.
cp -R .ci t man README.md Makefile audit enforce tools broker supervisor "$copy/"
mkdir -p "$copy/$build" "$copy/$(dirname "$bin")"
cp "$bin" "$copy/$bin"
cp -R "$(dirname "$bin")/libexec" "$copy/$(dirname "$bin")/"
cp -R "$build/unit" "$copy/$build/"
chown -R 54321:54321 "$copy"
echo "As an ordinary user:"
cd "$copy"
export build bin jobs tests
# shellcheck disable=SC2016 # the words are the inner shell's
HOME=$copy setpriv --reuid 54321 --regid 54321 --clear-groups sh -c '
	CYBEROS=$PWD/$bin PLANTED=$PWD/$build/unit/planted \
	    prove -j "$jobs" --timer --exec "sh t/exec.sh" $tests'
