#!/usr/bin/env bash
# Many volumes in one server: hot-spot 4 KiB writes of personal contents to all of them at once,
# each over a connection of its own, beside the same volumes with --dedup off. About a minute with
# one round.
#
#   benches/volumes.sh [ROUNDS]     rounds in turn, default 3; each figure is the median of its rounds
#
# The goals: the sum of all volumes within 10 % of that without deduplication, and the slowest
# volume at least 0.77 of the fastest. BENCH_DIR is the file system of the pools (default /var/tmp).
# VOLUMES is the number of volumes (8), MB the size of each (128), SECONDS_LOAD the length of a load
# (5), MODES the modes of deduplication (off inline offline). Words after ROUNDS are options of
# gemelo serve; DELAY is the delay of the finder (1s). GEMELO is the program to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
shift || true
volumes=${VOLUMES:-8}
size=${MB:-128}m
seconds=${SECONDS_LOAD:-5}
delay=${DELAY:-1s}
# shellcheck source=benches/lib/server.bash
. benches/lib/server.bash
begin volumes python3

stat() {
    "$gemelo" pool stat "$directory/pool" --json "$directory/$1.json" --force >/dev/null
}

# measure MODE OPTIONS...: loads all volumes at once, and appends a line of figures.
measure() {
    local mode=$1 loads=() number
    shift
    "$gemelo" pool create "$directory/pool" --capacity 16g >/dev/null
    for number in $(seq "$volumes"); do
        "$gemelo" volume create "$directory/pool/disk$number" --size "$size" --dedup "$mode" >/dev/null
    done
    start "$gemelo" serve "$directory/pool" --listen "unix:$socket" --finder-delay "$delay" --finder-max-delay "$delay" "$@"
    stat before
    for number in $(seq "$volumes"); do
        "$gemelo" bench --target "nbd+unix:///disk$number?socket=$socket" --file-size "$size" --distribution personal \
            --pattern nurand --queue-depth 16 --time "${seconds}s" --force --json "$directory/load$number.json" \
            >/dev/null 2>"$directory/log$number" &
        loads+=($!)
    done
    for number in "${loads[@]}"; do
        wait "$number"
    done
    stat after
    stop
    python3 - "$directory" "$mode" "$volumes" <<'END' >>"$directory/figures"
import json, sys
directory, mode, volumes = sys.argv[1:]
read = lambda name: json.load(open(f"{directory}/{name}.json"))["result"]
rates = [read(f"load{number + 1}")[0]["total"]["writes"]["operations_per_s"] for number in range(int(volumes))]
before, after = read("before")["pool"], read("after")["pool"]
examined = after["activity"]["examined_blocks"] - before["activity"]["examined_blocks"]
print(mode, sum(rates), min(rates) / max(rates), examined * after["block_bytes"] / 1e6)
END
}

for _ in $(seq "$rounds"); do
    for mode in ${MODES:-off inline offline}; do
        measure "$mode" "$@"
    done
done

python3 - "$directory/figures" "$rounds" "$volumes" <<'END'
import collections, statistics, sys

figures = collections.defaultdict(list)
for mode, *values in map(str.split, open(sys.argv[1])):
    figures[mode].append([float(value) for value in values])
print(f"hot-spot 4 KiB writes to {sys.argv[3]} volumes at once, medians of {sys.argv[2]} rounds in turn; "
      "in brackets the median ratio to off in the same round")
print(f"{'':<10}{'writes/s of all':>24}{'slowest/fastest':>18}{'examined, MB':>15}")
for mode, rows in figures.items():
    total, fairness, examined = [statistics.median(column) for column in zip(*rows)]
    ratio = statistics.median(mine[0] / peer[0] for mine, peer in zip(rows, figures["off"]))
    print(f"  {mode:<8}{total:>17,.0f} ({ratio:4.2f}){fairness:>18.2f}{examined:>15,.0f}")
END
