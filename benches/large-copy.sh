#!/usr/bin/env bash
# The memory of `gemelo volume receive` and of `gemelo volume send` for a snapshot that is mapped
# from end to end, to a few contents. Prints seconds and the most memory of each process; the bound
# is 64 MiB, and for a receiver the index beside it, which few contents leave empty.
#
#   benches/large-copy.sh [GIBIBYTES]...     16 1024
#
# BENCH_DIR is the file system (/var/tmp; 20 bytes for each block of 4 KiB). GEMELO is the program.
# A tebibyte takes about half an hour.
set -euo pipefail
cd "$(dirname "$0")/.."
gemelo=$(realpath "${GEMELO:-target/release/gemelo}")
[ -x "$gemelo" ] || { echo "build first: make build" >&2; exit 1; }
cargo build -q --release -p gemelo-copies --example large_stream
stream=$(realpath target/release/examples/large_stream)
directory=$(mktemp -d "${BENCH_DIR:-/var/tmp}/gemelo-large-copy.XXXXXX")
trap 'rm -rf "$directory"' EXIT

# measured WHO COMMAND: runs it by the shell, and prints its time and its most memory.
measured() {
    local cost
    cost=$(benches/lib/measured.py "$2")
    # shellcheck disable=SC2086
    printf '%-40s %8.1f s %8.1f MiB\n' "$1" $cost
}

for gib in "${@:-16 1024}"; do
    for gib in $gib; do
        pool=$directory/pool
        "$gemelo" pool create "$pool" --capacity 64m >/dev/null
        measured "receive, $gib GiB" "$stream $gib | $gemelo volume receive $pool/large"
        measured "send, $gib GiB" "$gemelo volume send $pool/large >$directory/out"
        measured "send --compress 3, $gib GiB" "$gemelo volume send --compress 3 $pool/large >$directory/out"
        rm -rf "$pool" "$directory/out"
    done
done
