#!/bin/sh
# make install and uninstall, and the package: what lies where, that it runs from
# there, and that nothing is left. The objects are those of the build; only what
# knows the place of libexec is compiled anew.
# shellcheck source=t/lib.sh
. ./t/lib.sh

# The sanitized build links with options of its own; the plain one lies beside it.
objects=$PWD/build
case ${PLANTED:-} in
*/asan/unit/planted) objects=$PWD/build/plain ;;
*/unit/planted) objects=${PLANTED%/unit/planted} ;;
esac
mkdir -p "$T/b/deb/objects"
for room in filters audit enforce tools broker supervisor; do
	cp -Rp "$objects/$room" "$T/b/"
	cp -Rp "$objects/$room" "$T/b/deb/objects/"
done
# make_ TARGET VARIABLE=VALUE...: with programs of its own
make_() {
	unset MAKEFLAGS MAKELEVEL MFLAGS
	${MAKE:-make} --no-print-directory B="$T/b" BIN="$T/b/cyberos" "$@" \
	    >"$T/make.out" 2>&1
	t_status=$?
	[ "$t_status" -eq 0 ] || note "$(tail "$T/make.out")"
	return "$t_status"
}
files() { (cd "$1" && find . ! -type d | sed 's|^\./||' | LC_ALL=C sort); }

# --- into a DESTDIR ---

(umask 077 && make_ install DESTDIR="$T/dest" PREFIX=/opt/x \
    LIBEXECDIR=/opt/x/lib/cyberos)
ok "$?" 'make install'
{
	echo bin/cyberos
	echo lib/cyberos/cyberos-ed25519
	echo lib/cyberos/cyberos-net
	(cd man && for p in *.[1-9]; do echo "share/man/man${p##*.}/$p"; done)
	(cd man/share && find . -type f ! -path './completion/*' \
	    ! -path '*/.*/*' ! -name '*.pyc' | sed 's|^\.|share/cyberos|')
	echo share/bash-completion/completions/cyberos
	echo share/zsh/site-functions/_cyberos
} | sed 's|^|opt/x/|' | LC_ALL=C sort >"$T/wanted"
files "$T/dest" >"$T/got"
is "$(diff "$T/got" "$T/wanted")" '' \
    "every file is where it should be ($(wc -l <"$T/got"))"
is "$(find "$T/dest" -type f -printf '%m %P\n' | sed 's/^644 .*//
    s|^755 opt/x/bin/cyberos$||; s|^755 opt/x/lib/cyberos/cyberos-[a-z0-9]*$||' |
    grep .)" '' 'with its mode, whatever the umask'
is "$(find "$T/dest/opt" -type d ! -perm 755)" '' 'and so the directories'
is "$(grep -aqF /opt/x/lib/cyberos "$T/dest/opt/x/bin/cyberos" && echo yes)" yes 'the program knows its LIBEXECDIR'
: >"$T/dest/opt/x/share/cyberos/of-somebody-else"
make_ uninstall DESTDIR="$T/dest" PREFIX=/opt/x LIBEXECDIR=/opt/x/lib/cyberos
is "$? $(files "$T/dest")" '0 opt/x/share/cyberos/of-somebody-else' \
    'make uninstall: what was installed is gone, and nothing else'
is "$(find "$T/dest" -type d -name cyberos)" \
    "$T/dest/opt/x/share/cyberos" 'with its directories, when they are empty'

# --- where it can be run ---

make_ install PREFIX="$T/inst"
ok "$?" 'make install without DESTDIR'
printf '#!/bin/sh
cyberos skill call MemoryRead path=memories/none 2>&1 | head -n 1
cyberos skill call HttpFetch url=http://127.0.0.1:1/ 2>&1 | head -n 1\n' |
    skill fetches 'allowed_tools: [MemoryRead, HttpFetch]' \
	'allowed_memory_scopes: [memories/**]' 'x-allowed-domains: ["127.0.0.1:1"]'
mkdir "$T/elsewhere"
# installed: run it from another directory
installed() {
	(cd "$T/elsewhere" && CYBEROS=$T/inst/bin/cyberos broker_run fetches
	echo "$RC $OUT")
}
is "$(installed)" '0 cyberos: not_found
cyberos: domain_violation (address_not_public)' \
    'a skill runs, and the program in libexec is found'
mv "$T/inst/libexec" "$T/inst/gone"
unlike "$(installed)" 'address_not_public' 'nobody else could have said that'
mv "$T/inst/gone" "$T/inst/libexec"
is "$("$T/inst/bin/cyberos" --version)" "$("$CYBEROS" --version)" \
    'it is this version'
if command -v man >/dev/null; then
	is "$(MANPATH=$T/inst/share/man man -w cyberos-client)" \
	    "$T/inst/share/man/man7/cyberos-client.7" 'man finds its pages'
fi

# --- the package ---

if ! command -v dpkg-shlibdeps >/dev/null; then
	skip 'the package' 'dpkg-dev is not installed'
	done_testing
fi
unset MAKEFLAGS MAKELEVEL MFLAGS
version=$("$CYBEROS" --version | sed 's/.* //')
SOURCE_DATE_EPOCH=1700000000 sh .ci/deb/build "$T/b" "$version" \
    >"$T/deb.out" 2>&1
ok "$?" 'make deb'
deb=$(echo "$T"/b/cyberos_*.deb)
is "$deb" "$T/b/cyberos_${version}_$(dpkg --print-architecture).deb" \
    'it has the name that it should have'
field() { dpkg-deb -f "$deb" "$1"; }
is "$(field Package) $(field Version)" "cyberos $version" 'and says so itself'
like "$(field Depends)" 'libc6 \(>=' 'it depends on the C library'
like "$(field Depends)" 'libcurl' 'and on what libexec needs'
is "$(dpkg-deb --ctrl-tarfile "$deb" | tar -t | sort | tr '\n' ' ')" \
    './ ./control ./md5sums ' 'it runs no script when it is installed'
dpkg-deb --fsys-tarfile "$deb" | tar -tv >"$T/list"
is "$(awk '{ print $2 }' "$T/list" | sort -u)" root/root 'all of it is root'"'s"
sed 's|^opt/x/lib/|usr/libexec/|; s|^opt/x/|usr/|; s|site-functions|vendor-completions|
    s|^\(usr/share/man/.*\)|\1.gz|' "$T/wanted" >"$T/wanted.deb"
printf 'usr/share/doc/cyberos/%s\n' copyright changelog.gz >>"$T/wanted.deb"
awk '!/^d/ { sub(/^\.\//, "", $6); print $6 }' "$T/list" |
    LC_ALL=C sort >"$T/got.deb"
is "$(LC_ALL=C sort "$T/wanted.deb" | diff "$T/got.deb" -)" '' \
    'it has what make install has, and its copyright'
dpkg-deb -x "$deb" "$T/x"
is "$("$T/x/usr/bin/cyberos" --version)" "cyberos $version" 'its program runs'

done_testing
