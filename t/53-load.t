#!/bin/sh
# Time before the start: a broker that never comes to say what its skill is does
# not live for ever. Lower bounds are exact, upper ones leave room for a slow
# machine.
. t/lib.sh
. t/box.sh

skill never <<'S'
#!/bin/sh
echo ran
S

# It hangs where it makes its socket.
cat >"$T/hang.c" <<'C'
#include <sys/socket.h>
#include <unistd.h>

int
bind(int fd, const struct sockaddr *address, socklen_t len)
{
	(void)fd;
	(void)address;
	(void)len;
	for (;;)
		pause();
}
C
${CC:-cc} -shared -fPIC -o "$T/hang.so" "$T/hang.c"
INV=$(new_id)
begun=$(date +%s)
LD_PRELOAD=$T/hang.so "$CYBEROS" skill broker run --store "$STORE" \
    --skills "$T/skills" --invocation "$INV" --result "$T/result.json" never \
    </dev/null >"$T/out" 2>"$T/err"
rc=$?
took=$(($(date +%s) - begun))
is "$rc $(jq -r '[.outcome, .by] | join(" ")' "$T/result.json")" \
    "125 panic supervisor" "a broker that hangs before the start is killed"
holds "a minute and 5 s after it got its job ($took s)" [ $took -ge 64 ]
holds "and not much later" [ $took -lt 120 ]
like "$(cat "$T/err")" overstayed "the log says so"
is "$(cat "$T/out")" '' "the skill never ran"
is "$(pgrep -f -- "$INV")" '' "nothing is left"
holds "and no socket" [ ! -e "/tmp/cyberos-skill-broker.$INV.sock" ]
"$CYBEROS" skill broker verify --store "$STORE" >"$T/found" 2>&1
is "$?" 0 "verify: intact" || note "$(cat "$T/found")"
done_testing
