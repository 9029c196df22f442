#!/usr/bin/env bash
# Load: gemelo bench beside fio, the two in turn, medians of operations a second and their ratio.
#
#   benches/load.sh [ROUNDS]     rounds of each pair, default 5
#
# BENCH_DIR is a directory on the file system to measure with direct I/O (default: a temporary
# directory under /var/tmp).
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
gemelo="$PWD/target/release/gemelo"
[ -x "$gemelo" ] || { echo "build first: make build" >&2; exit 1; }
for tool in fio python3; do
    command -v "$tool" >/dev/null || { echo "benches/load.sh needs $tool" >&2; exit 1; }
done
disk=$(mktemp -d "${BENCH_DIR:-/var/tmp}/gemelo-bench.XXXXXX")
memory=$(mktemp -d /dev/shm/gemelo-bench.XXXXXX)
trap 'rm -rf "$disk" "$memory"' EXIT

# Operations a second: reads and writes, all processes.
ours() {
    "$gemelo" bench --distribution personal --json - "$@" 2>/dev/null | python3 -c '
import json, sys
total = json.load(sys.stdin)["result"][0]["total"]
print(round(sum((total[kind] or {"operations_per_s": 0})["operations_per_s"] for kind in ("reads", "writes"))))'
}

theirs() {
    fio --name=peer --bs=4k --group_reporting --dedupe_percentage=25 --refill_buffers --output-format=json "$@" | python3 -c '
import json, sys
job = json.load(sys.stdin)["jobs"][0]
print(round(job["read"]["iops"] + job["write"]["iops"]))'
}

# pair NAME 'gemelo options' 'fio options' [FIGURE]: FIGURE is the entry in
# docs/results/figures.toml for the ratio.
pair() {
    local mine=() peer=()
    for _ in $(seq "$rounds"); do
        # shellcheck disable=SC2086 # the options are words
        mine+=("$(ours $2)")
        # shellcheck disable=SC2086
        peer+=("$(theirs $3)")
    done
    python3 - "$1" "${mine[*]}" "${peer[*]}" "${4:-}" "benches/load.sh $rounds" <<'PY'
import statistics, sys
sys.path.insert(0, "benches/lib")
from figures import figure
name, mine, peer = sys.argv[1], [int(n) for n in sys.argv[2].split()], [int(n) for n in sys.argv[3].split()]
ratio = statistics.median(a / b for a, b in zip(mine, peer))
print(f"{name:<44} {statistics.median(mine):>12,.0f} {statistics.median(peer):>12,.0f} {ratio:>7.2f}")
if sys.argv[4]:
    figure(sys.argv[4], f"{ratio:.2f}", "times", sys.argv[5])
PY
}

echo "operations of 4 KiB a second, medians of $rounds rounds in turn"
printf '%-44s %12s %12s %7s\n' "" gemelo fio ratio
pair "null, one core, personal contents" \
    "--target null: --file-size 4g --time 3s" \
    "--ioengine=null --rw=write --size=4g --time_based --runtime=3" load-null
pair "tmpfs, sequential writes, 2 processes" \
    "--target $memory --file-size 1g --processes 2 --force" \
    "--ioengine=psync --rw=write --size=1g --numjobs=2 --directory=$memory --unlink=1"

# One file for both, written once, so that both read and write the same blocks of the disk.
file="$disk/file"
fio --name=fill --filename="$file" --size=1g --bs=1m --rw=write --ioengine=psync --end_fsync=1 >/dev/null
direct="--file-size 1g --time 5s --engine io-uring --queue-depth 32 --sync direct --force --populate none --pattern uniform"
peer="--filename=$file --size=1g --time_based --runtime=5 --ioengine=io_uring --iodepth=32 --direct=1 --norandommap"
pair "io_uring, direct, depth 32, random reads" "--target $file --operation read $direct" "$peer --rw=randread"
pair "io_uring, direct, depth 32, random writes" "--target $file --operation write $direct" "$peer --rw=randwrite"
