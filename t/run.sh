#!/bin/sh
# Run every test: as the caller, and, when that is root, once more as an
# ordinary user on a copy. Usage: t/run.sh BUILD-DIRECTORY [TEST...]
set -eu
build=$1
shift
here=$PWD
tests=${*:-$(ls t/*.t "$build"/unit/*.t)}

# shellcheck disable=SC2086 # a list of file names
prove_all() { prove ${T_PROVE:--j 2} --exec '' $tests; }

if [ "$(id -u)" -ne 0 ]; then
	prove_all
	exit
fi
echo "As root:"
prove_all
[ "${T_USER:-1}" = 1 ] || exit 0

copy=$(mktemp -d "${TMPDIR:-/tmp}/cyberos-user.XXXXXX")
trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy/$build"
cp -R cyberos t man README.md Makefile audit enforce tools broker supervisor \
    "$copy/"
cp -R "$build/unit" "$copy/$build/"
chown -R 54321:54321 "$copy"
cd "$copy"
echo "As an ordinary user:"
HOME=$copy setpriv --reuid 54321 --regid 54321 --clear-groups \
    prove ${T_PROVE:--j 2} --exec '' $tests
cd "$here"
