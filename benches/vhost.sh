#!/usr/bin/env bash
# Volumes by shared memory: vhost-user of gemelo serve beside its own NBD and beside qemu-storage-daemon with vhost-user on a raw
# file, by one client (gemelo bench, one process), the servers in turn; medians, and the medians of the rounds' ratios to the
# first two. All data is in the page cache. About three minutes.
#
#   benches/vhost.sh [ROUNDS]     rounds, default 5
#
# BENCH_DIR is the file system that all servers store on (default /dev/shm), RUN_MS the length of a measurement (1500), SIZE that
# of the volume and the file (512m). Words in ONLY choose legs by a part of their names. GEMELO is the program to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
run_ms=${RUN_MS:-1500}
size=${SIZE:-512m}
export BENCH_DIR=${BENCH_DIR:-/dev/shm}
# shellcheck source=benches/lib/server.bash
. benches/lib/server.bash
begin vhost qemu-storage-daemon python3
declare -A targets=(
    [nbd]="nbd+unix:///disk?socket=$socket"
    [vhost]="vhost-user:$directory/disk.sock"
    [qemu]="vhost-user:$directory/qemu.sock"
)

# load TARGET OPTIONS...: operations of a run, and its result.
load() {
    local target=$1
    shift
    "$gemelo" bench --target "$target" --file-size "$size" --distribution unique --force --json - "$@" 2>"$directory/log" ||
        { cat "$directory/log" >&2; exit 1; }
}

rate() {
    load "$@" --time "${run_ms}ms" | python3 -c '
import json, sys
total = json.load(sys.stdin)["result"][0]["total"]
print(round(sum((total[kind] or {"operations_per_s": 0})["operations_per_s"] for kind in ("reads", "writes"))))'
}

"$gemelo" pool create "$directory/pool" --capacity 4g >/dev/null
"$gemelo" volume create "$directory/pool/disk" --size "$size" >/dev/null
"$gemelo" volume set "$directory/pool/disk" --dedup off >/dev/null
start "$gemelo" serve "$directory/pool" --listen "unix:$socket" --vhost-user "$directory"
truncate -s "$size" "$directory/file"
qemu-storage-daemon --blockdev "driver=file,filename=$directory/file,node-name=disk" \
    --export "vhost-user-blk,id=disk,addr.type=unix,addr.path=$directory/qemu.sock,node-name=disk,writable=on" &
qemu=$!
trap 'kill $qemu; finish' EXIT
for _ in $(seq 200); do
    [ -S "$directory/qemu.sock" ] && break
    sleep 0.05
done
for name in nbd qemu; do
    load "${targets[$name]}" --operation write --pattern sequential --block-size 64k --queue-depth 8 --bytes "$size" >/dev/null
done

# leg NAME OPTIONS...: measures all servers in turn, and prints a line.
leg() {
    local name=$1 peer figures=()
    shift
    if [ -n "${ONLY:-}" ]; then
        local word is_chosen=
        for word in $ONLY; do [[ $name == *"$word"* ]] && is_chosen=1; done
        [ -n "$is_chosen" ] || return 0
    fi
    for _ in $(seq "$rounds"); do
        for peer in nbd qemu vhost; do figures+=("$(rate "${targets[$peer]}" --pattern uniform "$@")"); done
    done
    python3 - "$name" "${figures[@]}" <<'END'
import statistics, sys
name, figures = sys.argv[1], [int(figure) for figure in sys.argv[2:]]
nbd, qemu, vhost = figures[0::3], figures[1::3], figures[2::3]
ratio = lambda peer: statistics.median(own / other for own, other in zip(vhost, peer))
print(f"{name:<24}" + "".join(f" {statistics.median(row):>12,.0f}" for row in (vhost, nbd, qemu)) +
      f" {ratio(nbd):>9.2f} {ratio(qemu):>9.2f}")
END
}

echo "operations of 4 KiB a second, medians of $rounds rounds in turn"
printf '%-24s %12s %12s %12s %9s %9s\n' "" vhost-user nbd qemu/raw "to nbd" "to qemu"
leg "read, depth 1" --operation read --queue-depth 1 --populate none
leg "read, depth 32" --operation read --queue-depth 32 --populate none
leg "write, depth 1" --operation write --queue-depth 1
leg "write, depth 32" --operation write --queue-depth 32
