#!/bin/sh
# Failing disks and power cuts, the short form: a write and a sync of each file of
# the ledger that fail at every place, and a file system that stops in the middle.
# shellcheck source=t/lib.sh
. t/lib.sh
. t/box.sh

if ! is_root; then
	root_does 'failing disks' 'a file system of our own has to be mounted'
	done_testing
fi
# In a mount space of its own, which takes its mounts with it.
FAULTS='write:ENOSPC fdatasync:EIO' LOSSES=2 unshare -m \
    sh t/fault/run.sh inject power >"$T/out" 2>"$T/err"
is "$? $(cat "$T/err")" '0 ' 'nothing is lost, every ledger holds'
is "$(sed -n 's/: [1-9][0-9]* places, [0-9]* runs refused, 0 acknowledged rows lost, 0 ledgers .*//p' "$T/out" |
    tr '\n' ';')" 'inject: write of the segment file fails with ENOSPC;inject: fdatasync of the segment file fails with EIO;inject: write of the host file fails with ENOSPC;inject: fdatasync of the host file fails with EIO;' \
    'each was tried'
like "$(cat "$T/out")" '^power: 2 losses with audit_sync row: 0 acknowledged rows lost' \
    'power cuts: with audit_sync row no acknowledged row is lost'
like "$(cat "$T/out")" '^power: 2 losses with audit_sync batch: .* 0 ledgers that do not hold' \
    'with batch the ledger holds'
note "$(cat "$T/out")"
done_testing
