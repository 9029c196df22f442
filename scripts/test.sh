#!/usr/bin/env bash
# Runs the tests, and beside them what needs no quiet machine: lint, documentation tests and
# licences. Tests wait for a third of their time, so these cost next to none of it. What they print
# comes at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-target}"
# Building for the next build's sake takes longer, and leaves small functions out of their callers.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
mkdir -p "$target"

# Tests that were killed leave mounts behind, and while one of these has lost its server, mkfs.btrfs
# refuses every device.
remove_dead_mounts() {
    local directory device
    { findmnt --raw --noheadings --types fuse --output TARGET || true; } |
        while read -r directory; do
            [[ "$directory" == "${TMPDIR:-/tmp}"/gemelo-*/fuse-* ]] || continue
            ! stat "$directory" >/dev/null 2>&1 || continue
            umount --lazy "${directory%/*}/mnt" 2>/dev/null || true
            losetup --list --noheadings --raw --output NAME,BACK-FILE |
                awk -v of="$directory/" 'index($2, of) == 1 { print $1 }' |
                while read -r device; do losetup --detach "$device"; done
            umount --lazy "$directory"
        done
}
[ "$(id -u)" -ne 0 ] || remove_dead_mounts

if ! cargo nextest --version >/dev/null 2>&1; then
    exec make --no-print-directory lint units doctests licences
fi
# Tests are built first, and run from lists of what was built: cargo would have them wait for the
# lint otherwise.
cargo nextest list --workspace --locked --list-type binaries-only --message-format json \
    >"$target/test-binaries.json"
cargo metadata --format-version 1 --locked >"$target/test-metadata.json"
nice -n 19 make --no-print-directory --keep-going lint doctests licences >"$target/lint.log" 2>&1 &
status=0
NEXTEST_PROFILE=${NEXTEST_PROFILE:-all} cargo nextest run --no-fail-fast \
    --test-threads "$((3 * $(nproc)))" --cargo-metadata "$target/test-metadata.json" \
    --binaries-metadata "$target/test-binaries.json" || status=$?
wait "$!" || status=$?
cat "$target/lint.log"
exit "$status"
