#!/usr/bin/env bash
# Off-line deduplication beside --dedup off, and the rates of the finder. About two minutes.
#
#   benches/offline.sh [ROUNDS]     rounds in turn, default 3; each figure is the median of its rounds
#
# 1. Hot-spot 4 KiB random writes of personal contents over NBD, finder and collector always on:
#    throughput and latencies at peak and at half of the peak of --dedup off; what the finder has
#    done meanwhile, and its share of a core.
# 2. Deduplication with nothing else to do: from remembered fingerprints and from the page cache, in
#    MB of examined blocks a second of time and of processor time.
#
# BENCH_DIR is the file system of the pools (default /var/tmp). SECONDS_LOAD is the length of a load
# (5), MB the size of the volume (512). Words after ROUNDS are options of gemelo serve; DELAY is the
# delay of the finder (1s). GEMELO is the program to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
shift || true
size=${MB:-512}m
seconds=${SECONDS_LOAD:-5}
delay=${DELAY:-1s}
# shellcheck source=benches/lib/server.bash
. benches/lib/server.bash
begin offline python3

# serve MODE OPTIONS...: serves a new pool with a volume of this mode.
serve() {
    local mode=$1
    shift
    "$gemelo" pool create "$directory/pool" --capacity 16g >/dev/null
    "$gemelo" volume create "$directory/pool/disk" --size "$size" --dedup "$mode" >/dev/null
    start "$gemelo" serve "$directory/pool" --listen "unix:$socket" --finder-delay "$delay" \
        --finder-max-delay "$delay" "$@"
}

stat() {
    "$gemelo" pool stat "$directory/pool" --json "$directory/$1.json" --force >/dev/null
}

# write NAME OPTIONS...: writes over NBD; the result is NAME.json.
write() {
    local name=$1
    shift
    "$gemelo" bench --target "nbd+unix:///disk?socket=$directory/socket" --file-size "$size" --distribution personal --force \
        --json "$directory/$name.json" "$@" >/dev/null 2>"$directory/log" || { cat "$directory/log" >&2; exit 1; }
}

# load MODE LEG OPTIONS...: appends a line of figures of a load, with the finder's work meanwhile.
load() {
    local mode=$1 leg=$2
    shift 2
    stat before
    write load --pattern nurand --queue-depth 16 --time "${seconds}s" "$@"
    stat after
    python3 - "$directory" "$mode" "$leg" <<'END' >>"$directory/figures"
import json, sys
directory, mode, leg = sys.argv[1:]
read = lambda name: json.load(open(f"{directory}/{name}.json"))["result"]
writes = read("load")[0]["total"]["writes"]
at = dict(writes["latency"]["summary"]["percentiles_ns"])
before, after = read("before")["pool"], read("after")["pool"]
time = writes["operations"] / writes["operations_per_s"]
examined = after["activity"]["examined_blocks"] - before["activity"]["examined_blocks"]
cpu = after["finder"]["cpu_ns"] - before["finder"]["cpu_ns"]
held = sum(after["finder"]["held_back"].values()) - sum(before["finder"]["held_back"].values())
print(mode, leg, writes["operations_per_s"], *(at[share] / 1e6 for share in (50.0, 90.0, 99.0)),
      examined * after["block_bytes"] / 1e6 / time, cpu / 1e9 / time, held / 1e9 / time)
END
}

# settle NAME: examines everything with nothing else to do, and appends a line of figures.
settle() {
    stat before
    "$gemelo" pool dedup "$directory/pool" >/dev/null
    stat after
    python3 - "$directory" "$1" <<'END' >>"$directory/rates"
import json, sys
directory, name = sys.argv[1:]
pools = [json.load(open(f"{directory}/{part}.json"))["result"]["pool"] for part in ("before", "after")]
grown = lambda *keys: [pool[keys[0]][keys[1]] if len(keys) == 2 else pool[keys[0]][keys[1]][keys[2]] for pool in pools]
change = lambda *keys: grown(*keys)[1] - grown(*keys)[0]
megabytes = change("activity", "examined_blocks") * pools[1]["block_bytes"] / 1e6
hits, misses = change("finder", "remembered", "hits"), change("finder", "remembered", "misses")
print(name, megabytes / (change("finder", "working_ns") / 1e9), megabytes / (change("finder", "cpu_ns") / 1e9),
      hits / max(hits + misses, 1), change("activity", "found_blocks") / max(change("activity", "examined_blocks"), 1))
END
}

for _ in $(seq "$rounds"); do
    rate=
    for mode in off offline; do
        serve "$mode" "$@"
        load "$mode" peak
        # Half of what a volume without deduplication reaches in this round.
        [ -n "$rate" ] || rate=$(awk '$1 == "off" && $2 == "peak" { rate = int($3 / 2) } END { print rate }' "$directory/figures")
        load "$mode" half --rate "$rate"
        stop
    done
    # A core is free at a tenth of the peak or so, and fingerprints are taken.
    serve offline --finder-memory 64m "$@"
    "$gemelo" pool dedup "$directory/pool" --pause >/dev/null
    write fill --block-size 64k --rate 2000
    settle remembered
    stop
    serve offline --finder-memory 0 --io buffered "$@"
    "$gemelo" pool dedup "$directory/pool" --pause >/dev/null
    write fill --block-size 64k
    settle page-cache
    stop
done

python3 - "$directory" "$rounds" <<'END'
import collections, statistics, sys

directory, rounds = sys.argv[1:]
def rows(name, keys):
    found = collections.defaultdict(list)
    for line in open(f"{directory}/{name}"):
        words = line.split()
        found[tuple(words[:keys])].append([float(word) for word in words[keys:]])
    return found
median = lambda lines: [statistics.median(column) for column in zip(*lines)]
loads = rows("figures", 2)
print(f"hot-spot 4 KiB writes, medians of {rounds} rounds in turn; ms; in brackets the median ratio to off in the same round")
print(f"{'':<16}{'writes/s':>18}{'50 %':>16}{'90 %':>16}{'99 %':>16}{'examined':>12}{'core':>8}{'held':>8}")
for leg in ("peak", "half"):
    for mode in ("off", "offline"):
        mine, peer = loads[mode, leg], loads["off", leg]
        ratio = lambda at: statistics.median(a[at] / max(b[at], 1e-9) for a, b in zip(mine, peer))
        rate, half, most, slow, examined, core, held = median(mine)
        work = f"{examined:>7.0f} MB/s{100 * core:>6.1f} %{100 * held:>6.0f} %" if mode == "offline" else ""
        print(f"  {leg:<5}{mode:<9}{rate:>11,.0f} ({ratio(0):4.2f}){half:>9.3f} ({ratio(1):4.2f}){most:>9.3f} ({ratio(2):4.2f})"
              f"{slow:>9.3f} ({ratio(3):4.2f}){work}")
print("\ndeduplication with nothing else to do: MB of examined blocks a second of time and of processor time")
print(f"{'':<16}{'MB/s':>10}{'MB/s a core':>14}{'not read':>11}{'shared':>9}")
for (name,), lines in rows("rates", 1).items():
    rate, core, hits, shared = median(lines)
    print(f"  {name:<14}{rate:>10,.0f}{core:>14,.0f}{100 * hits:>9.0f} %{100 * shared:>7.0f} %")
END
