#!/usr/bin/env bash
# Reads of served volumes beside nbdkit file, on a disk: fio --ioengine=nbd, the servers in turn.
# Cold reads find nothing in the page cache, warm ones everything. "Arranged" reads follow on
# "gemelo pool defrag", and nbdkit reads the same file again. "Written" reads follow on two writes
# of all that they read, with a cache of gemelo that holds it; the others are made
# without that cache. About three minutes with one round.
#
#   benches/reads.sh [ROUNDS]     rounds, default 3; each figure is the median of its rounds
#
# BENCH_DIR is the file system that all servers store on (default /var/tmp; not tmpfs, which has
# nothing cold). RUN_MS is the length of a measurement (2000), MB the size of the volume (512).
# MODES are the modes of deduplication (off inline offline); further words after ROUNDS are options
# of gemelo serve. GEMELO is the program to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
shift || true
size=${MB:-512}m
cache_size=$((${MB:-512} * 5 / 4))m
# shellcheck source=benches/lib/server.bash
. benches/lib/server.bash
begin reads fio nbdkit python3

# fill OPTIONS...: writes all blocks once.
fill() {
    fio --name=x --ioengine=nbd --uri="nbd+unix:///?socket=$directory/socket" --size="$size" --refill_buffers \
        --randrepeat=0 --end_fsync=1 "$@" >/dev/null 2>&1
}

# load SERVER NAME OPTIONS...: appends one line of figures.
load() {
    local who=$1 name=$2
    shift 2
    fio --name=x --ioengine=nbd --uri="nbd+unix:///?socket=$directory/socket" --size="$size" --time_based \
        --runtime="${RUN_MS:-2000}ms" --randrepeat=0 --output-format=json --percentile_list=50:99 "$@" 2>/dev/null |
        python3 -c '
import json, sys
text = sys.stdin.read()  # fio tells of the connection first
read = json.loads(text[text.index("{"):])["jobs"][0]["read"]
latencies = [value / 1e6 for value in read["clat_ns"]["percentile"].values()]
print(sys.argv[1], sys.argv[2], read["iops"], read["bw_bytes"] / 1e6, *latencies)
' "$who" "$name" >>"$directory/figures"
}

# arrange SERVER: brings the blocks of a pool together again, after the finder has examined them.
# Prints what it did.
arrange() {
    [ "$1" = nbdkit ] && return
    "$gemelo" pool dedup "$directory/pool" >/dev/null
    echo "$1: $("$gemelo" pool defrag "$directory/pool")"
}

# written SERVER: reads what was written last. The second write finds the memory of the cache made.
written() {
    fill --bs=1m --rw=write --iodepth=4
    fill --bs=1m --rw=write --iodepth=4
    load "$1" written-1m --bs=1m --rw=read --iodepth=4
    load "$1" written-depth-16 --bs=4k --rw=randread --iodepth=16
}

# measure SERVER FILE: FILE holds the data.
measure() {
    local random="--bs=4k --rw=randread" sequential="--bs=1m --rw=read --iodepth=4"
    fill --bs=1m --rw=write --iodepth=4
    # shellcheck disable=SC2086 # the options are words
    {
        cache cold "$2"
        load "$1" cold-depth-1 $random
        cache cold "$2"
        load "$1" cold-depth-16 $random --iodepth=16
        cache cold "$2"
        load "$1" cold-hot-spot $random --iodepth=16 --random_distribution=zipf:1.1
        cache warm "$2"
        load "$1" warm-depth-16 $random --iodepth=16
        cache cold "$2"
        load "$1" cold-1m $sequential
        fill --bs=4k --rw=randwrite --iodepth=32
        cache cold "$2"
        load "$1" overwritten-1m $sequential
        cache warm "$2"
        load "$1" overwritten-warm-1m $sequential
        arrange "$1"
        cache cold "$2"
        load "$1" arranged-1m $sequential
        cache warm "$2"
        load "$1" arranged-warm-1m $sequential
    }
}

for _ in $(seq "$rounds"); do
    truncate -s "$size" "$directory/file"
    start nbdkit -f -U "$directory/socket" file "$directory/file"
    measure nbdkit "$directory/file"
    written nbdkit
    stop
    for mode in ${MODES:-off inline offline}; do
        "$gemelo" pool create "$directory/pool" --capacity 4g >/dev/null
        "$gemelo" volume create "$directory/pool/disk" --size "$size" >/dev/null
        "$gemelo" volume set "$directory/pool/disk" --dedup "$mode" >/dev/null
        serve=("$gemelo" serve "$directory/pool" --listen "unix:$directory/socket")
        start "${serve[@]}" --cache 0 "$@"
        measure "$mode" "$directory/pool/data"
        restart "${serve[@]}" --cache "$cache_size" "$@"
        written "$mode"
        stop
    done
done

python3 - "$directory/figures" "$rounds" <<'END'
import collections, statistics, sys
sys.path.insert(0, "benches/lib")
from figures import figure

lines = [line.split() for line in open(sys.argv[1])]
figures = collections.defaultdict(list)
for server, load, *values in lines:
    figures[load, server].append([float(value) for value in values])
print(f"medians of {sys.argv[2]} rounds in turn; in brackets the median ratio to nbdkit of the same round")
print(f"{'':<12}{'1/s':>18}{'MB/s':>9}{'50 % ms':>10}{'99 % ms':>17}")
for load in dict.fromkeys(line[1] for line in lines):
    print(load)
    peer = figures[load, "nbdkit"]
    for server in dict.fromkeys(line[0] for line in lines):
        rows = figures[load, server]
        rate, bandwidth, half, slow = [statistics.median(column) for column in zip(*rows)]
        ratio = lambda at: statistics.median(a[at] / b[at] for a, b in zip(rows, peer))
        print(f"  {server:<10}{rate:>10,.0f} ({ratio(0):5.2f}){bandwidth:>9,.0f}"
              f"{half:>10.3f}{slow:>9.3f} ({ratio(3):5.2f})")

def inline(load):
    """The median ratio of in-line volumes to nbdkit in requests a second."""
    return statistics.median(a[0] / b[0] for a, b in zip(figures[load, "inline"], figures[load, "nbdkit"]))

if ("cold-1m", "inline") in figures:
    command = f"benches/reads.sh {sys.argv[2]}"
    small = [inline(load) for load in ("cold-depth-1", "cold-depth-16", "cold-hot-spot", "warm-depth-16")]
    figure("nbd-read-4k", f"{min(small):.2f} to {max(small):.2f}", "times", command)
    figure("nbd-overwritten", f"{inline('overwritten-1m'):.2f}", "times", command)
    figure("nbd-arranged", f"{inline('arranged-1m'):.2f}", "times", command)
END
