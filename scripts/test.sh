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
