#!/usr/bin/env bash
# Pools of sizes that no disk here holds, beside VDO's published requirements: a table with a column
# for each size, and a picture of rates and of bytes for each block by the size.
#
#   benches/large.sh [SIZES [POLICY [CACHE_MIB [SECONDS]]]]     1g,10g compact 0 10
#
# A cache of 0 MiB is as large as the metadata need. The memory is printed beside what `gemelo pool
# estimate` says of a pool that the volume fills.
#
# The metadata are written to BENCH_DIR (/var/tmp): 60 bytes for each block of 4 KiB, and up to twice
# as many while a checkpoint is written. The data disk takes 4 bytes of memory for each block. A pool
# of 10g takes about two minutes. PICTURE is the file of the picture (target/large.svg).
set -euo pipefail
cd "$(dirname "$0")/.."
sizes=${1:-1g,10g}
table=$(mktemp)
trap 'rm -f "$table"' EXIT
cargo bench -p gemelo-volume --bench large -- "${BENCH_DIR:-/var/tmp}" "$sizes" "${2:-compact}" "${3:-0}" "${4:-10}" |
    tee "$table"
benches/lib/growth.py "$table" "${PICTURE:-target/large.svg}"
