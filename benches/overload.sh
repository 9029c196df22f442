#!/usr/bin/env bash
# In-line writes of unique contents at peak, over NBD, with the two policies of --inline-overload.
# About a minute.
#
#   benches/overload.sh [ROUNDS]     rounds in turn, default 3; each figure is the median of its rounds
#
# "deferred" is the share of the written blocks that was left to the finder. BENCH_DIR is the file
# system of the pools (default /var/tmp), SECONDS_LOAD the length of a load (4), MB the size of the
# volume (2048). Words after ROUNDS are options of gemelo serve. GEMELO is the program to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
shift || true
size=${MB:-2048}m
seconds=${SECONDS_LOAD:-4}
# shellcheck source=benches/lib/server.bash
. benches/lib/server.bash
begin overload python3

# load POLICY NAME OPTIONS...: appends a line of figures of a load on a new pool.
load() {
    local policy=$1 name=$2
    shift 2
    "$gemelo" pool create "$directory/pool" --capacity 32g >/dev/null
    "$gemelo" volume create "$directory/pool/disk" --size "$size" --dedup "${policy%-*}" >/dev/null
    start "$gemelo" serve "$directory/pool" --listen "unix:$socket" --inline-overload "${policy#*-}" "${serve_options[@]}"
    "$gemelo" bench --target "nbd+unix:///disk?socket=$socket" --file-size "$size" --distribution unique --force \
        --json "$directory/load.json" --time "${seconds}s" "$@" >/dev/null 2>"$directory/log" || { cat "$directory/log" >&2; exit 1; }
    "$gemelo" pool stat "$directory/pool" --json "$directory/stat.json" --force >/dev/null
    python3 - "$directory" "$policy" "$name" <<'END' >>"$directory/figures"
import json, sys
directory, policy, name = sys.argv[1:]
read = lambda file: json.load(open(f"{directory}/{file}.json"))["result"]
writes = read("load")[0]["total"]["writes"]
at = dict(writes["latency"]["summary"]["percentiles_ns"])
stat = read("stat")["volumes"][0]["stat"]
blocks = stat["written_bytes"] / 4096
print(policy, name, writes["bytes_per_s"] / 1e6, at[50.0] / 1e6, at[99.0] / 1e6, stat["deferred_blocks"] / max(blocks, 1))
END
    stop
}

serve_options=("$@")
for _ in $(seq "$rounds"); do
    for policy in off-wait inline-wait inline-defer; do
        load "$policy" random-4k --pattern uniform --queue-depth 32
        load "$policy" sequential-128k --pattern sequential --block-size 128k --queue-depth 8
    done
done

python3 - "$directory" <<'END'
import collections, statistics, sys
rows = collections.defaultdict(list)
for line in open(f"{sys.argv[1]}/figures"):
    policy, name, *figures = line.split()
    rows[name, policy].append([float(figure) for figure in figures])
print(f"{'':<18}{'':<14}{'MB/s':>8}{'50 % ms':>10}{'99 % ms':>10}{'deferred':>10}")
for (name, policy), lines in sorted(rows.items()):
    rate, median, slow, deferred = (statistics.median(column) for column in zip(*lines))
    print(f"{name:<18}{policy:<14}{rate:>8,.0f}{median:>10.3f}{slow:>10.3f}{100 * deferred:>9.1f} %")
END
