#!/usr/bin/env bash
# Sequential reads of volumes that were overwritten at random, before and after "gemelo pool
# arrange", where volumes share their blocks: each block has as many references as there are
# volumes. The peer is a lone volume whose blocks nobody shares. The reads are cold. About two
# minutes with one round.
#
#   benches/arrange.sh [ROUNDS]     rounds, default 3; each figure is the median of its rounds
#
# BENCH_DIR is the file system of the pools (default /var/tmp; a disk). REFERENCES are the numbers
# of volumes (1 2 4 16), MB the size of each (256), RUN_MS the length of a measurement (2000). The
# words after ROUNDS are options of gemelo serve. GEMELO is the program to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
shift || true
size=${MB:-256}m
# shellcheck source=benches/lib/server.bash
. benches/lib/server.bash
begin arrange fio python3

# use NUMBER OPTIONS...: runs fio on a volume. The seed is fixed: the same blocks with the same
# contents in the same order.
use() {
    local number=$1
    shift
    fio --name=x --ioengine=nbd --uri="nbd+unix:///disk$number?socket=$socket" --size="$size" --randrepeat=1 \
        --allrandrepeat=1 --randseed=7 --output-format=json "$@" 2>/dev/null
}

# serve OPTIONS...: serves the pool. The arranger of the background would work before it is
# measured.
serve() {
    start "$gemelo" serve "$directory/pool" --listen "unix:$socket" --layout-rate 0 "$@"
}

# sequential REFERENCES WHEN NUMBER OPTIONS...: appends a line of figures. A new server has nothing
# in its write buffer.
sequential() {
    local references=$1 when=$2
    kill "$server"
    wait "$server" || true
    rm -f "$socket"
    serve "${@:4}"
    cache cold "$directory/pool/data"
    use "$3" --rw=read --bs=1m --iodepth=4 --time_based --runtime="${RUN_MS:-2000}ms" | python3 -c '
import json, sys
text = sys.stdin.read()  # fio tells of the connection first
print(*sys.argv[1:], json.loads(text[text.index("{"):])["jobs"][0]["read"]["bw_bytes"] / 1e6)
' "$references" "$when" >>"$directory/figures"
}

# measure REFERENCES OPTIONS...
measure() {
    local references=$1 number
    shift
    "$gemelo" pool create "$directory/pool" --capacity 16g >/dev/null
    for number in $(seq "$references"); do
        "$gemelo" volume create "$directory/pool/disk$number" --size "$size" --dedup offline >/dev/null
    done
    serve "$@"
    for number in $(seq "$references"); do
        use "$number" --rw=randwrite --bs=4k --iodepth=32 --refill_buffers --end_fsync=1 >/dev/null
    done
    "$gemelo" pool dedup "$directory/pool" >/dev/null
    sequential "$references" before 1 "$@"
    sequential "$references" before "$references" "$@"
    echo "$references: $("$gemelo" pool defrag "$directory/pool")"
    sequential "$references" after 1 "$@"
    sequential "$references" after "$references" "$@"
    "$gemelo" pool stat "$directory/pool" | grep -i ratio | sed "s/^/$references: /" || true
    stop
}

for _ in $(seq "$rounds"); do
    for references in ${REFERENCES:-1 2 4 16}; do
        measure "$references" "$@"
    done
done

python3 - "$directory/figures" "$rounds" <<'END'
import collections, statistics, sys

figures = collections.defaultdict(list)
for references, when, rate in map(str.split, open(sys.argv[1])):
    figures[int(references), when].append(float(rate))
print(f"sequential reads of 1 MiB, cold, medians of {sys.argv[2]} rounds with the first and the last volume each; "
      "in brackets the ratio to blocks with one reference")
print(f"{'references':<12}{'overwritten':>20}{'arranged':>20}")
median = lambda *key: statistics.median(figures[key])
for references in sorted({key[0] for key in figures}):
    cells = [f"{median(references, when):>8,.0f} MB/s ({median(references, when) / median(1, when):4.2f})"
             if (1, when) in figures else f"{median(references, when):>8,.0f} MB/s" for when in ("before", "after")]
    print(f"{references:<12}{cells[0]:>20}{cells[1]:>20}")
END
