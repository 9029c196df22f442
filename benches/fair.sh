#!/usr/bin/env bash
# The latency of a client at depth 1 while another client, of another volume, has 256 requests in
# flight: reads and writes of each beside reads and writes of the other, 4 KiB at random places. The
# goal is a median of at most 3 times the quiet one.
#
#   benches/fair.sh [ROUNDS]     rounds, default 3; each figure is the median of its rounds
#
# BENCH_DIR is the file system of the pool (default /var/tmp; a disk), MB the size of the volumes
# (256), SECONDS_EACH the time of a run (5). The words after ROUNDS are options of gemelo serve.
# GEMELO is the program to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
shift || true
size=${MB:-256}m
# shellcheck source=benches/lib/server.bash
. benches/lib/server.bash
begin fair fio python3

# load VOLUME OPTIONS...: fio on a volume.
load() {
    local volume=$1
    shift
    fio --name=x --ioengine=nbd --uri="nbd+unix:///$volume?socket=$socket" --size="$size" --bs=4k \
        --refill_buffers --output-format=json "$@" 2>/dev/null
}

# probe NAME KIND: the latency at depth 1.
probe() {
    load quiet --rw="rand$2" --iodepth=1 --time_based --runtime="${SECONDS_EACH:-5}" |
        python3 -c '
import json, sys
text = sys.stdin.read()  # fio tells of the connection first
job = json.loads(text[text.index("{"):])["jobs"][0]
part = job["write"] if job["write"]["total_ios"] else job["read"]
of = part["clat_ns"]["percentile"]
print(sys.argv[1], of["50.000000"] / 1e3, of["99.000000"] / 1e3)
' "$1" >>"$directory/figures"
}

"$gemelo" pool create "$directory/pool" --capacity 4g >/dev/null
for volume in quiet busy; do
    "$gemelo" volume create "$directory/pool/$volume" --size "$size" >/dev/null
done
start "$gemelo" serve "$directory/pool" --listen "unix:$socket" "$@"
load quiet --rw=write --iodepth=16 >/dev/null
load busy --rw=write --iodepth=16 >/dev/null
for _ in $(seq "$rounds"); do
    for kind in read write; do
        probe "$kind-alone" "$kind"
        for other in read write; do
            load busy --rw="rand$other" --iodepth=256 --time_based \
                --runtime="$((${SECONDS_EACH:-5} + 2))" >/dev/null &
            busy=$!
            sleep 1
            probe "$kind-beside-$other" "$kind"
            wait "$busy"
        done
    done
done
python3 - "$directory/figures" <<'END'
import statistics, sys
runs = {}
for line in open(sys.argv[1]):
    name, *figures = line.split()
    runs.setdefault(name, []).append([float(figure) for figure in figures])
middle = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in runs.items()}
print(f"{'load':22}{'median us':>11}{'99 % us':>11}{'of quiet':>10}")
worst = 0
for name, (median, high) in middle.items():
    ratio = median / middle[name.split('-')[0] + '-alone'][0]
    worst = max(worst, ratio)
    print(f"{name:22}{median:11.0f}{high:11.0f}{ratio:10.1f}")
print(f"the worst is {worst:.1f} of the quiet one; goal: at most 3")
END
stop
