#!/bin/sh
# cyberos skill broker bench: its form, that it counts what is left, and that it
# leaves nothing itself. No time is compared with another: machines differ.
# shellcheck source=t/lib.sh
. ./t/lib.sh

# A short one: the paths of sockets have their limit.
chmod 1777 "$T"
export TMPDIR="$T"
bench() {
	"$CYBEROS" skill broker bench --runs 2 --calls 50 "$@" \
	    >"$T/out" 2>"$T/err"
	RC=$?
}

bench --json
is "$RC $(cat "$T/err")" '0 ' 'it runs, and finds nothing left'
is "$(jq -c '[.left[], .ledger_intact, .clean]' "$T/out")" \
    '[0,0,0,0,0,true,true]' 'it says so, kind by kind'
# A warm-up of each kind, then RUNS of two kinds, the calls, the idle one.
is "$(jq .invocations "$T/out")" 9 'it tells how many invocations it started'
is "$(jq -c '[.start_ns[], .call_us] | map(.min <= .median and .median <= .max
    and .min > 0) | all' "$T/out")" true 'every figure lies in its spread'
is "$(jq '.memory_kib > 100 and .memory_kib < 100000' "$T/out")" true \
    'memory is some'
is_root && is "$(jq .memory_is_share "$T/out")" true 'root: shared out'
is "$(ls -d "$TMPDIR"/cyberos-bench.* 2>/dev/null)" '' 'its directory is gone'
bench
is "$RC" 0 'as a table'
like "$(cat "$T/out")" '^Times belong to this machine' 'it says whose times'
like "$(cat "$T/out")" 'Nothing is left behind' 'and what is left'
is "$(awk 'length > 80' "$T/out")" '' 'in 80 columns'
bench --json --store "$STORE"
is "$RC" 0 'with a store of ours'
[ ! -e "$STORE" ]
ok $? 'no store of ours was made'

CYBEROS_STORE=/nonexistent/store bench --json
is "$RC" 0 'a store in the environment is not looked at'
# What is left is seen: each command of ours leaves a file and a process.
cat >"$T/leave.c" <<'EOT'
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void
leave(int argc, char **argv)
{
	char path[4200];
	FILE *f;
	int i;

	for (i = 1; i + 1 < argc; i++) {
		if (strcmp(argv[i], "--socket-dir") != 0)
			continue;
		snprintf(path, sizeof(path), "%s/left.%d", argv[i + 1],
		    (int)getpid());
		f = fopen(path, "w");
		if (f != NULL)
			fclose(f);
		if (fork() == 0) {
			setsid();
			for (i = 0; i < 1024; i++)
				close(i);
			/* Until the benchmark removes its directory. */
			for (i = 0; i < 600 && access(path, F_OK) == 0; i++)
				usleep(100000);
			_exit(0);
		}
	}
}
EOT
"${CC:-cc}" -shared -fPIC -o "$T/leave.so" "$T/leave.c" &&
    chmod 755 "$T/leave.so"
case ${PLANTED:-} in
*/asan/*) ;; # the sanitizer wants to be the first library
*)
	LD_PRELOAD=$T/leave.so bench --json
	is "$RC $(jq -c '[.left.temporary_files, .left.processes, .clean]' \
	    "$T/out")" '1 [8,8,false]' 'a file and a process that stay are seen'
	LD_PRELOAD=$T/leave.so bench
	like "$(cat "$T/out")" '^SOMETHING IS LEFT BEHIND' 'and told'
	is "$RC" 1 'by its exit status too'
	;;
esac

printf 'nonsense: true\n' >"$T/c.yaml"
bench --config "$T/c.yaml"
is "$RC" 1 'a configuration that is wrong'
like "$(cat "$T/err")" 'nonsense' 'it is told'
is "$(ls -d "$TMPDIR"/cyberos-bench.* 2>/dev/null)" '' 'and nothing is left'
for words in '--runs 0' '--calls many' '--nonsense' 'more'; do
	# shellcheck disable=SC2086 # words
	bench $words
	is "$RC" 2 "wrong usage: $words"
done
TMPDIR=$T/none bench
is "$RC" 1 'no place to work in'

done_testing
