#!/usr/bin/env bash
# Latency and large writes of served volumes beside nbdkit file, on a disk: fio --ioengine=nbd, the
# servers in turn. The loads are 4 KiB hot-spot writes at a fixed rate (Zipf, 1.1), 4 KiB writes of
# eight clients with one request in flight each, 1 MiB writes at depth 4, and 128 KiB writes at
# depth 8, all of unique contents; and the long writes of the same few contents again and again. The
# peer has its file in the page cache then, and writes nothing to the disk meanwhile. "Fresh" writes
# are the first ones of 1 GiB, with a flush at the end; "null" is nbdkit null, which drops what it
# receives: what fio can send. A mode with "-aged" is the same in a pool of which two thirds are in
# use and were overwritten at random with twice their size, and that was opened twice since. About
# ten minutes with three rounds.
#
#   benches/latency.sh [ROUNDS]     rounds, default 3; each figure is the median of its rounds
#
# BENCH_DIR is the file system that all servers store on (default /var/tmp). RATE is the rate of the
# hot-spot writes (20000), SECONDS_LOW and SECONDS_LARGE the lengths of the measurements (8 and 3).
# MODES are the modes of deduplication (off inline offline), and AGED those that are measured in an
# aged pool as well (inline); further words after ROUNDS are options of gemelo serve. GEMELO is the
# program to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
shift || true
# shellcheck source=benches/lib/server.bash
. benches/lib/server.bash
# shellcheck source=benches/lib/aged.bash
. benches/lib/aged.bash
begin latency fio nbdkit python3

# load SERVER NAME SECONDS OPTIONS...: appends one line of figures.
load() {
    local who=$1 name=$2 seconds=$3
    shift 3
    fio --name=x --ioengine=nbd --uri="nbd+unix:///?socket=$directory/socket" --size=1g --time_based --runtime="$seconds" \
        --randrepeat=0 --output-format=json --percentile_list=50:99:99.9 "$@" 2>/dev/null |
        python3 -c '
import json, sys
text = sys.stdin.read()  # fio tells of the connection first
write = json.loads(text[text.index("{"):])["jobs"][0]["write"]
latencies = [value / 1e6 for value in write["clat_ns"]["percentile"].values()]
print(sys.argv[1], sys.argv[2], write["bw_bytes"] / 1e6, *latencies, write["clat_ns"]["max"] / 1e6)
' "$who" "$name" >>"$directory/figures"
}

measure() {
    load "$1" 1m-fresh 0 --bs=1m --rw=write --iodepth=4 --refill_buffers --time_based=0 --end_fsync=1
    load "$1" hot-spot "${SECONDS_LOW:-8}" --bs=4k --rw=randwrite --random_distribution=zipf:1.1 --iodepth=32 \
        --rate_iops="${RATE:-20000}" --refill_buffers
    load "$1" clients "${SECONDS_LARGE:-3}" --bs=4k --rw=randwrite --numjobs=8 --group_reporting --refill_buffers
    load "$1" 1m "${SECONDS_LARGE:-3}" --bs=1m --rw=write --iodepth=4 --refill_buffers
    load "$1" 128k "${SECONDS_LARGE:-3}" --bs=128k --rw=write --iodepth=8 --refill_buffers
    # fio writes the contents of its first buffers again.
    load "$1" 1m-same "${SECONDS_LARGE:-3}" --bs=1m --rw=write --iodepth=4 --scramble_buffers=0
    load "$1" 128k-same "${SECONDS_LARGE:-3}" --bs=128k --rw=write --iodepth=8 --scramble_buffers=0
}

for _ in $(seq "$rounds"); do
    start nbdkit -f -U "$directory/socket" null 2g
    measure null
    stop
    rm -f "$directory/file"
    truncate -s 2g "$directory/file"
    start nbdkit -f -U "$directory/socket" file "$directory/file"
    measure nbdkit
    stop
    for mode in ${MODES:-off inline offline}; do
        "$gemelo" pool create "$directory/pool" --capacity 12g >/dev/null
        "$gemelo" volume create "$directory/pool/disk" --size 2g >/dev/null
        "$gemelo" volume set "$directory/pool/disk" --dedup "$mode" >/dev/null
        start "$gemelo" serve "$directory/pool" --listen "unix:$directory/socket" "$@"
        measure "$mode"
        stop
    done
    for mode in ${AGED-inline}; do
        "$gemelo" pool create "$directory/pool" --capacity 3g >/dev/null
        "$gemelo" volume create "$directory/pool/disk" --size 2g >/dev/null
        "$gemelo" volume set "$directory/pool/disk" --dedup "$mode" >/dev/null
        serve=("$gemelo" serve "$directory/pool" --listen "unix:$directory/socket" "$@")
        start "${serve[@]}"
        age "$directory/socket" 2g restart "${serve[@]}"
        measure "$mode-aged"
        stop
    done
done

python3 - "$directory/figures" "$rounds" <<'END'
import collections, statistics, sys
sys.path.insert(0, "benches/lib")
from figures import figure

shown = {"1m-fresh": "nbd-write-fresh", "1m": "nbd-write-1m", "128k": "nbd-write-128k"}
lines = [line.split() for line in open(sys.argv[1])]
figures = collections.defaultdict(list)
for server, load, *values in lines:
    figures[load, server].append([float(value) for value in values])
median = lambda rows: [statistics.median(column) for column in zip(*rows)]
print(f"medians of {sys.argv[2]} rounds in turn; ms; in brackets the median ratio to nbdkit of the same round")
for load in ("1m-fresh", "hot-spot", "clients", "1m", "128k", "1m-same", "128k-same"):
    print(f"{load:<12}{'MB/s':>16}{'50 %':>9}{'99 %':>16}{'99.9 %':>16}{'max':>9}")
    peer = figures[load, "nbdkit"]
    for server in dict.fromkeys(line[0] for line in lines):
        rows = figures[load, server]
        rate, half, slow, slowest, most = median(rows)
        ratio = lambda at: statistics.median(a[at] / b[at] for a, b in zip(rows, peer))
        print(f"  {server:<10}{rate:>8,.0f} ({ratio(0):4.2f}){half:>9.2f}"
              f"{slow:>9.2f} ({ratio(2):4.2f}){slowest:>9.2f} ({ratio(3):4.2f}){most:>9.1f}")
        if server.endswith("-aged"):
            fresh = figures[load, server.removesuffix("-aged")]
            pairs = [(a[0] / b[0], a[2] / b[2]) for a, b in zip(rows, fresh)]
            rate, slow = [statistics.median(column) for column in zip(*pairs)]
            print(f"  {'':<10}{rate:>8.2f} of fresh, 99 %: {slow:.2f}")
        if server == "inline" and load in shown:
            figure(shown[load], f"{ratio(0):.2f}", "times", f"benches/latency.sh {sys.argv[2]}")
END
