#!/bin/sh
# The conformance driver for skills in shell: one line for each case. How the
# four drivers are called, and what they print, is in t/73-clients.t.

# ask TOOL FIELD: arguments on standard input
ask() {
	name=${2#\#}
	cyberos skill call --raw "$name" "$1" - >"$tmp/out" 2>"$tmp/err"
	case $? in
	0)
		case $2 in
		\#*) n=$(wc -c <"$tmp/out") && echo "done $((n))" ;;
		body | stdout)
			echo "done $(od -An -v -tx1 "$tmp/out" | tr -d ' \n')"
			;;
		*) echo "done $(cat "$tmp/out")" ;;
		esac
		;;
	1) echo "failed $(word)" ;;
	2) echo arguments ;;
	4) echo gone ;;
	5) echo "refused $(word)" ;;
	*) echo "status $?" ;;
	esac
}

# word: "cyberos: CLASS (REASON)" as CLASS REASON
word() {
	sed -n '1s/^cyberos: \([a-z_]*\) (\([a-z_]*\))$/\1 \2/p; t
	    1s/^cyberos: //p' "$tmp/err"
}

tmp=$(mktemp -d) || exit 99
case $1 in
cases)
	while IFS='	' read -r tool field file; do
		ask "$tool" "$field" <"$file"
	done
	;;
one) echo '{"path":"x"}' | ask Read body ;;
both)
	{
		printf '{"cmd":"until [ -e %s/go ]; do sleep 0.01; done; sleep 0.3",' "$2"
		printf '"timeout_ms":60000}'
	} >"$tmp/slow"
	cyberos skill call --raw timed_out Bash - <"$tmp/slow" >"$tmp/timed" &
	echo "{\"path\":\"$2/go\",\"body\":\"\"}" | ask Write bytes
	wait "$!" && echo "slow $(cat "$tmp/timed")"
	;;
esac
rm -rf "$tmp"
