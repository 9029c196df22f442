#!/usr/bin/env bash
# Writes and reads of volumes in pools that compress with LZ4 and zstd:1, beside a pool that does
# not and `nbdkit file`: unique blocks of 4 KiB, at random, over NBD, of which half can be
# compressed away, and of which nothing can. Goals with half of them: LZ4 writes at 0.8 of the rate
# without compression and at that of nbdkit, in at most 0.55 of the space; zstd:1 writes at 0.5;
# reads at 0.9 of those without, cold ones at 1.0. Contents that cannot be compressed: all within 3
# %. About four minutes with one round.
#
#   benches/compression.sh [ROUNDS]     rounds, default 3; each figure is the median of its rounds
#
# BENCH_DIR is the file system of the pools (default /var/tmp; a disk). MB is the size of a volume
# (1024), RUN_MS the length of a measurement of reads (3000). The words after ROUNDS are options of
# gemelo serve. GEMELO is the program to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
shift || true
size=${MB:-1024}m
# shellcheck source=benches/lib/server.bash
. benches/lib/server.bash
begin compression fio nbdkit python3

# use CONTENTS OPTIONS...: runs fio on the export.
use() {
    local contents=()
    [ "$1" = random ] || contents=(--buffer_compress_percentage="$1" --buffer_compress_chunk=4k)
    fio --name=x --ioengine=nbd --uri="nbd+unix:///${exported}?socket=$socket" --size="$size" --refill_buffers \
        --randrepeat=0 --output-format=json "${contents[@]}" "${@:2}" 2>/dev/null
}

# serve SYSTEM OPTIONS...: serves the pool or the file.
serve() {
    if [ "$1" = nbdkit ]; then
        start nbdkit --foreground --unix "$socket" file "$directory/file"
    else
        # Neither the arranger nor the collector shall work meanwhile.
        start "$gemelo" serve "$directory/pool" --listen "unix:$socket" --layout-rate 0 --collect-rate 0 "${@:2}"
    fi
}

# note SYSTEM CONTENTS FIGURE: reads the result of fio, and appends a line.
note() {
    python3 -c '
import json, sys
text = sys.stdin.read()  # fio tells of the connection first
job = json.loads(text[text.index("{"):])["jobs"][0]
print(*sys.argv[1:], max(job[way]["bw_bytes"] for way in ("read", "write")) / 1e6)
' "$@" >>"$directory/figures"
}

# space SYSTEM CONTENTS: appends the space of the data in MB.
space() {
    local mb
    if [ "$1" = nbdkit ]; then
        mb=$(($(du --block-size=1K "$directory/file" | cut -f1) / 1024))
    else
        mb=$("$gemelo" pool stat "$directory/pool" --json - | python3 -c '
import json, sys
pool = json.load(sys.stdin)["result"]["pool"]
print(pool["used_blocks"] * pool["block_bytes"] / 1e6)')
    fi
    echo "$1 $2 space $mb" >>"$directory/figures"
}

# measure SYSTEM CONTENTS OPTIONS...
measure() {
    local system=$1 contents=$2 data=$directory/pool/data
    shift 2
    if [ "$system" = nbdkit ]; then
        exported='' data=$directory/file
        truncate --size "$size" "$data"
    else
        exported=disk
        "$gemelo" pool create "$directory/pool" --capacity "$((${MB:-1024} * 2))m" --compression "$system" >/dev/null
        "$gemelo" volume create "$directory/pool/disk" --size "$size" >/dev/null
    fi
    serve "$system" "$@"
    use "$contents" --rw=randwrite --bs=4k --iodepth=32 --end_fsync=1 | note "$system" "$contents" writes
    space "$system" "$contents"
    # A new server has nothing in its write buffer.
    end
    serve "$system" "$@"
    local run=(--iodepth=32 --time_based --runtime="${RUN_MS:-3000}ms")
    cache cold "$data"
    use "$contents" --rw=randread --bs=4k "${run[@]}" | note "$system" "$contents" cold-reads
    cache warm "$data"
    use "$contents" --rw=randread --bs=4k "${run[@]}" | note "$system" "$contents" reads
    use "$contents" --rw=read --bs=1m "${run[@]}" --iodepth=4 | note "$system" "$contents" long-reads
    stop
}

for _ in $(seq "$rounds"); do
    for contents in 50 random; do
        for system in off lz4 zstd:1 nbdkit; do
            measure "$system" "$contents" "$@"
        done
    done
done

python3 - "$directory/figures" "$rounds" <<'END'
import collections, statistics, sys

figures = collections.defaultdict(list)
for system, contents, name, figure in map(str.split, open(sys.argv[1])):
    figures[contents, name, system].append(float(figure))
median = {key: statistics.median(values) for key, values in figures.items()}
print(f"median of {sys.argv[2]} rounds; MB/s, space in MB; in brackets, the ratio to off and to nbdkit")
for contents in ("50", "random"):
    print("\nhalf of each block can be compressed away" if contents == "50" else "\nnothing can be compressed")
    for name in ("writes", "space", "cold-reads", "reads", "long-reads"):
        row = []
        for system in ("off", "lz4", "zstd:1", "nbdkit"):
            value = median[contents, name, system]
            ratios = [value / max(median[contents, name, peer], 1e-9) for peer in ("off", "nbdkit")]
            row.append(f"{system} {value:8.1f} ({ratios[0]:.2f}, {ratios[1]:.2f})")
        print(f"  {name:10}  " + "   ".join(row))
END
