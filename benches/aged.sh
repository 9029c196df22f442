#!/usr/bin/env bash
# Reads of 1 MiB of volumes of different ages beside nbdkit file, cold and warm, and writes of 1 MiB
# and 128 KiB: fio --ioengine=nbd, the servers in turn. A read is one pass over the volume at depth
# 4. Before a cold one the server is started again and the system's caches are dropped; before a
# warm one all was read. The ages: fresh, written once in a row; after a pass of random 128 KiB
# overwrites; after SLOW seconds of 4 KiB overwrites at RATE a second; after FAST seconds as fast as
# possible at depth 32, and then after REST seconds without requests. Needs root to drop the caches.
#
#   benches/aged.sh [ROUNDS]     rounds, default 3; each figure is the median of its rounds
#
# BENCH_DIR is the file system of the servers' files (default /var/tmp; a disk), MB the size of the
# volume (1024), SLOW, RATE, FAST and REST the settings above (60, 4000, 15 and 30). MODES are the
# modes of deduplication (off inline); AGES are the ages (fresh long slow fast rested). The words
# after ROUNDS are options of gemelo serve. GEMELO is the program to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
shift || true
size=${MB:-1024}m
# shellcheck source=benches/lib/server.bash
. benches/lib/server.bash
begin aged fio nbdkit python3

# use OPTIONS...: runs fio on the volume. Its contents never come again.
use() {
    fio --name=x --ioengine=nbd --uri="nbd+unix:///?socket=$socket" --size="$size" --randrepeat=0 \
        --refill_buffers --output-format=json "$@" 2>/dev/null
}

# measured SERVER AGE LOAD OPTIONS...: appends the rate of a run of fio, in MB/s and requests a second.
measured() {
    local who=$1 age=$2 load=$3
    shift 3
    use "$@" | python3 -c '
import json, sys
text = sys.stdin.read()  # fio tells of the connection first
job = json.loads(text[text.index("{"):])["jobs"][0]
# With the flush at the end, which bandwidths leave out.
seconds = job["job_runtime"] / 1e3
done = [job["read"], job["write"]]
print(*sys.argv[1:], sum(part["io_bytes"] for part in done) / 1e6 / seconds,
      sum(part["total_ios"] for part in done) / seconds)
' "$who" "$age" "$load" >>"$directory/figures"
}

# reads SERVER AGE FILE
reads() {
    restart "${serve[@]}"
    sync
    echo 3 >/proc/sys/vm/drop_caches
    measured "$1" "$2" cold --rw=read --bs=1m --iodepth=4
    cache warm "$3"
    use --rw=read --bs=1m --iodepth=4 >/dev/null
    measured "$1" "$2" warm --rw=read --bs=1m --iodepth=4
}

# measure SERVER FILE
measure() {
    local age
    for age in ${AGES:-fresh long slow fast rested}; do
        case $age in
        fresh)
            measured "$1" fresh write-1m --rw=write --bs=1m --iodepth=4 --end_fsync=1
            measured "$1" fresh rewrite-1m --rw=write --bs=1m --iodepth=4 --end_fsync=1
            ;;
        long) measured "$1" long write-128k --rw=randwrite --bs=128k --iodepth=8 --end_fsync=1 ;;
        slow)
            use --rw=randwrite --bs=4k --iodepth=8 --rate_iops="${RATE:-4000}" --time_based \
                --runtime="${SLOW:-60}" --norandommap --end_fsync=1 >/dev/null
            ;;
        fast)
            measured "$1" fast write-4k --rw=randwrite --bs=4k --iodepth=32 --time_based \
                --runtime="${FAST:-15}" --norandommap --end_fsync=1
            ;;
        rested) sleep "${REST:-30}" ;;
        esac
        reads "$1" "$age" "$2"
    done
}

for _ in $(seq "$rounds"); do
    truncate -s "$size" "$directory/file"
    serve=(nbdkit -f -U "$socket" file "$directory/file")
    start "${serve[@]}"
    measure nbdkit "$directory/file"
    stop
    for mode in ${MODES:-off inline}; do
        "$gemelo" pool create "$directory/pool" --capacity 4g >/dev/null
        "$gemelo" volume create "$directory/pool/disk" --size "$size" --dedup "$mode" >/dev/null
        serve=("$gemelo" serve "$directory/pool" --listen "unix:$socket" "$@")
        start "${serve[@]}"
        measure "$mode" "$directory/pool/data"
        stop
    done
done

python3 - "$directory/figures" "$rounds" <<'END'
import collections, statistics, sys

figures = collections.defaultdict(list)
for server, age, load, *values in map(str.split, open(sys.argv[1])):
    figures[age, load, server].append([float(value) for value in values])
print(f"medians of {sys.argv[2]} rounds in turn; in brackets the median ratio to nbdkit of the same round")
for age, load in dict.fromkeys(key[:2] for key in figures):
    cells = []
    for server in dict.fromkeys(key[2] for key in figures):
        rows = figures[age, load, server]
        ratio = statistics.median(a[0] / b[0] for a, b in zip(rows, figures[age, load, "nbdkit"]))
        cells.append(f"{server} {statistics.median(row[0] for row in rows):>6,.0f} MB/s ({ratio:4.2f})")
    print(f"{age:<8}{load:<12}", "  ".join(cells))
END
