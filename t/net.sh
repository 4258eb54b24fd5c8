# shellcheck shell=sh
# A network of the test's own: run happens where the interface lo has the
# addresses $GOOD and $BAD and t/dns.py is the name server, whose notes are in
# $T/log. Source it after t/box.sh, as root, with both variables set.

printf 'nameserver 127.0.0.53\noptions timeout:1 attempts:1\n' >"$T/resolv.conf"
printf '127.0.0.1 localhost\n' >"$T/hosts"
printf 'hosts: files dns\n' >"$T/nsswitch.conf"
REAL=$CYBEROS
DNS_PY=$PWD/t/dns.py
mkdir "$T/log"
cat >"$T/inside" <<EOF
mount --bind $T/resolv.conf /etc/resolv.conf &&
mount --bind $T/hosts /etc/hosts &&
mount --bind $T/nsswitch.conf /etc/nsswitch.conf &&
ip link set lo up || exit 99
for a in $GOOD $BAD; do
	ip addr add \$a/32 dev lo || exit 99
done
rm -f $T/log/up
(cd $T && exec python3 $DNS_PY log $GOOD $BAD) &
dns=\$!
n=0
while [ ! -e $T/log/up ] && [ \$n -lt 200 ]; do sleep 0.05; n=\$((n + 1)); done
$REAL "\$@"
status=\$?
kill \$dns
wait \$dns 2>/dev/null
exit \$status
EOF
printf '#!/bin/sh\nexec unshare -mn sh %s/inside "$@"\n' "$T" >"$T/wrapped"
chmod 755 "$T/wrapped"
CYBEROS=$T/wrapped
reached() { sort -u "$T/log/reached" | tr '\n' ' '; }
# asked REGEX: how often the name server was asked for such a name
asked() { grep -Ec "$1" "$T/log/names"; }
