#!/usr/bin/env bash
# The benchmarks in Rust whose figures README.md shows: the contents of load, and a pool of 100 GB
# that opens after a crash. The metadata of the pool take 1.2 GB of the temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# bench COMMAND...: prints the output of a benchmark and keeps it.
bench() {
    "$@" | tee "$output"
}

bench cargo bench -p gemelo-content
benches/lib/figures.py content-random "$(awk '/^exact, random bytes / { print $4 }' "$output")" GB/s \
    "cargo bench -p gemelo-content"

bench cargo bench -p gemelo-volume --bench open
benches/lib/figures.py open-processor-time \
    "$(sed -n 's/^opened after a crash in .* with \([0-9.]*\) s of processor time$/\1/p' "$output")" s \
    "cargo bench -p gemelo-volume --bench open"
