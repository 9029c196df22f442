#!/usr/bin/env bash
# What checked reads cost: the same volume served with --verify-reads on and off, in turn; 4 KiB
# random reads by fio --ioengine=nbd, all of them in the page cache, at depths 1 and 32. "off2" is
# off once more: the difference between equal programs. About a minute and a half with five rounds.
#
#   benches/checked.sh [ROUNDS]     rounds, default 5; each figure is the median of its rounds
#
# BENCH_DIR is the file system of the pool (default /var/tmp). RUN_MS is the length of a measurement
# (2000), MB the size of the volume (512). GEMELO is the program to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
size=${MB:-512}m
# shellcheck source=benches/lib/server.bash
. benches/lib/server.bash
begin checked fio python3

# serve SETTING: serves the pool.
serve() {
    start "$gemelo" serve "$directory/pool" --listen "unix:$socket" --verify-reads "$1"
}

# end: ends the server and keeps the pool.
end() {
    kill "$server"
    wait "$server" || true
    server=
    rm -f "$socket"
}

# load NAME DEPTH: appends one line of figures: reads a second, and processor time of the server for
# each, in microseconds.
load() {
    local before after
    before=$(awk '{ print $14 + $15 }' "/proc/$server/stat")
    fio --name=x --ioengine=nbd --uri="nbd+unix:///?socket=$socket" --size="$size" --time_based --runtime="${RUN_MS:-2000}ms" \
        --randrepeat=0 --output-format=json --bs=4k --rw=randread --iodepth="$2" 2>/dev/null >"$directory/load.json"
    after=$(awk '{ print $14 + $15 }' "/proc/$server/stat")
    python3 - "$directory/load.json" "$1" "$2" "$((after - before))" "$(getconf CLK_TCK)" <<'END' >>"$directory/figures"
import json, sys
path, name, depth, ticks, per_second = sys.argv[1:]
text = open(path).read()  # fio tells of the connection first
read = json.loads(text[text.index("{"):])["jobs"][0]["read"]
print(name, depth, read["iops"], int(ticks) / int(per_second) / read["total_ios"] * 1e6)
END
}

"$gemelo" pool create "$directory/pool" --capacity 2g >/dev/null
"$gemelo" volume create "$directory/pool/disk" --size "$size" >/dev/null
serve on
fio --name=x --ioengine=nbd --uri="nbd+unix:///?socket=$socket" --size="$size" --refill_buffers --randrepeat=0 --end_fsync=1 \
    --bs=1m --rw=write --iodepth=4 >/dev/null 2>&1
end
for _ in $(seq "$rounds"); do
    for setting in off on off2; do
        serve "${setting%2}"
        cache warm "$directory/pool/data"
        for depth in 1 32; do
            load "$setting" "$depth"
        done
        end
    done
done

python3 - "$directory/figures" "$rounds" <<'END'
import collections, statistics, sys

figures = collections.defaultdict(list)
for line in open(sys.argv[1]):
    name, depth, *values = line.split()
    figures[int(depth), name].append([float(value) for value in values])
print(f"4 KiB random reads from the page cache, medians of {sys.argv[2]} rounds in turn; in brackets the median ratio to off of "
      "the same round")
print(f"{'':<24}{'reads/s':>18}{'server, us each':>24}")
for depth in (1, 32):
    for name in ("off", "on", "off2"):
        rows, peer = figures[depth, name], figures[depth, "off"]
        rate, cpu = [statistics.median(column) for column in zip(*rows)]
        ratio = lambda at: statistics.median(mine[at] / other[at] for mine, other in zip(rows, peer))
        print(f"  depth {depth:<3} checks {name:<8}{rate:>11,.0f} ({ratio(0):4.2f}){cpu:>17.2f} ({ratio(1):4.2f})")
END
