#!/bin/bash
# Changes the engine in one place at a time and looks whether a test notices: see docs/internals/tests.md.
# Arguments: files, from the root of the checkout; without any, the whole engine.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo mutants --version >/dev/null 2>&1; then
    echo "scripts/mutants.sh needs cargo-mutants: cargo install cargo-mutants --locked" >&2
    exit 2
fi
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
    files=('crates/volume/src/engine/*.rs' 'crates/volume/src/backend/**/*.rs' 'crates/volume/src/pool/*.rs'
        crates/volume/src/journal.rs crates/volume/src/space.rs crates/volume/src/readers.rs
        crates/format/src/journal.rs)
fi
# Few rounds: a mutation that only a long run notices wants a test of its own.
export GEMELO_TEST_ROUNDS="${GEMELO_TEST_ROUNDS:-8}"
# The engine's tests also judge what is read from disk, so they run for all mutants.
exec cargo mutants --package gemelo-volume --package gemelo-format \
    --test-package gemelo-volume --test-package gemelo-format "${files[@]/#/--file=}"
