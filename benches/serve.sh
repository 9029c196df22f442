#!/usr/bin/env bash
# Volumes over NBD: gemelo serve beside nbdkit file, qemu-nbd on qcow2 and, where installed,
# zfs-fuse with dedup; 4 KiB by fio --ioengine=nbd on one connection, the servers in turn; medians,
# and the median of the rounds' ratios. About four minutes.
#
#   benches/serve.sh [ROUNDS]     rounds of each pair, default 5
#
# BENCH_DIR is the file system that all servers store on (default /dev/shm: the page cache without a
# disk behind it), SYNC_DIR the one for writes with a flush after each (default /var/tmp). RUN_MS is
# the length of a measurement (1500). Words in ONLY choose legs by a part of their names. GEMELO is
# the program to measure, if not the one of this checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
run_ms=${RUN_MS:-1500}
gemelo="${GEMELO:-$PWD/target/release/gemelo}"
[ -x "$gemelo" ] || { echo "build first: make build" >&2; exit 1; }
for tool in fio nbdkit python3; do
    command -v "$tool" >/dev/null || { echo "benches/serve.sh needs $tool" >&2; exit 1; }
done
directory=$(mktemp -d "${BENCH_DIR:-/dev/shm}/gemelo-serve.XXXXXX")
synced=$(mktemp -d "${SYNC_DIR:-/var/tmp}/gemelo-serve.XXXXXX")
servers=()
finish() {
    if [ -n "${zfs_fuse:-}" ]; then
        timeout 20 zpool destroy "${zpool:-}" 2>/dev/null || true
        kill -9 "$zfs_fuse" 2>/dev/null || true
        umount -l "$directory/zfs-mount" 2>/dev/null || true
    fi
    for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$directory" "$synced"
}
trap finish EXIT

# shellcheck source=benches/lib/aged.bash
. benches/lib/aged.bash

# start SOCKET PROGRAM...: a server in the background, until it listens.
start() {
    local socket=$1
    shift
    "$@" >/dev/null 2>&1 &
    servers+=($!)
    for _ in $(seq 200); do
        [ -S "$socket" ] && return
        sleep 0.05
    done
    echo "$1 does not listen" >&2
    exit 1
}

# serve DIRECTORY [CAPACITY]: a new pool there, served at DIRECTORY/socket.
serve() {
    "$gemelo" pool create "$1/pool" --capacity "${2:-4g}" >/dev/null
    "$gemelo" volume create "$1/pool/disk" --size 512m >/dev/null
    start "$1/socket" "$gemelo" serve "$1/pool" --listen "unix:$1/socket"
}

# restart DIRECTORY: ends the last server that was started, and serves its pool there again.
restart() {
    kill "${servers[-1]}"
    wait "${servers[-1]}" || true
    unset 'servers[-1]'
    rm -f "$1/socket"
    start "$1/socket" "$gemelo" serve "$1/pool" --listen "unix:$1/socket"
}

# Operations a second of a fio job.
rate() {
    fio --name=x --bs=4k --size=512m --time_based --runtime="${run_ms}ms" --randrepeat=0 --refill_buffers \
        --output-format=json "$@" 2>/dev/null | python3 -c '
import json, sys
# fio tells of the connection first.
text = sys.stdin.read()
job = json.loads(text[text.index("{"):])["jobs"][0]
print(round(job["read"]["iops"] + job["write"]["iops"]))'
}

nbd() {
    local socket=$1
    shift
    rate --ioengine=nbd --uri="nbd+unix:///?socket=$socket" "$@"
}

# Writes every block once.
fill() {
    fio --name=fill --ioengine=nbd --uri="nbd+unix:///?socket=$1" --rw=write --bs=256k --iodepth=8 --size=512m \
        --refill_buffers --randrepeat=0 >/dev/null
}

wanted() {
    [ -z "${ONLY:-}" ] && return
    for word in $ONLY; do [[ $1 == *$word* ]] && return; done
    return 1
}

# pair NAME GOAL 'our command' 'their command'
pair() {
    wanted "$1" || return 0
    local mine=() peer=()
    for _ in $(seq "$rounds"); do
        # shellcheck disable=SC2086 # the commands are words
        mine+=("$($3)")
        # shellcheck disable=SC2086
        peer+=("$($4)")
    done
    python3 - "$1" "$2" "${mine[*]}" "${peer[*]}" <<'PY'
import statistics, sys
name, goal, mine, peer = sys.argv[1], sys.argv[2], *([int(n) for n in words.split()] for words in sys.argv[3:5])
ratio = statistics.median(a / max(b, 1) for a, b in zip(mine, peer))
print(f"{name:<44} {statistics.median(mine):>10,.0f} {statistics.median(peer):>10,.0f} {ratio:>7.2f} {goal:>6}", flush=True)
PY
}

# Both have all their space before anything is measured.
mkdir "$directory/gemelo"
serve "$directory/gemelo"
ours=$directory/gemelo/socket
fallocate -l 512m "$directory/file"
start "$directory/nbdkit" nbdkit -f -U "$directory/nbdkit" file "$directory/file"
theirs=$directory/nbdkit
fill "$ours"
fill "$theirs"

echo "4 KiB operations a second, medians of $rounds rounds in turn"
printf '%-44s %10s %10s %7s %6s\n' "" gemelo peer ratio goal
deep="--iodepth=32 --rw=randwrite"
pair "nbdkit file, random reads, depth 32" 0.9 \
    "nbd $ours --iodepth=32 --rw=randread" "nbd $theirs --iodepth=32 --rw=randread"
pair "nbdkit file, random reads, depth 1" 0.8 "nbd $ours --rw=randread" "nbd $theirs --rw=randread"
pair "nbdkit file, unique writes, depth 32" 0.9 "nbd $ours $deep" "nbd $theirs $deep"
pair "nbdkit file, half duplicates, depth 32" 1.0 \
    "nbd $ours $deep --dedupe_percentage=50" "nbd $theirs $deep --dedupe_percentage=50"
pair "nbdkit file, all duplicates, depth 32" 1.2 \
    "nbd $ours $deep --dedupe_percentage=100" "nbd $theirs $deep --dedupe_percentage=100"
pair "nbdkit file, unique writes, depth 1" 0.8 "nbd $ours --rw=randwrite" "nbd $theirs --rw=randwrite"

if command -v qemu-nbd >/dev/null && command -v qemu-img >/dev/null; then
    qemu-img create -q -f qcow2 -o preallocation=falloc "$directory/qcow2" 512m
    start "$directory/qemu" qemu-nbd --persistent --cache=writeback -f qcow2 -k "$directory/qemu" "$directory/qcow2"
    fill "$directory/qemu"
    pair "qemu-nbd qcow2, unique writes, depth 32" "" "nbd $ours $deep" "nbd $directory/qemu $deep"
    pair "qemu-nbd qcow2, random reads, depth 32" "" \
        "nbd $ours --iodepth=32 --rw=randread" "nbd $directory/qemu --iodepth=32 --rw=randread"
else
    echo "qemu-nbd: not installed"
fi

# The same writes on a disk, in a pool that was used for long against a fresh one.
if wanted "aged, unique writes"; then
    mkdir "$synced/fresh" "$synced/aged"
    serve "$synced/fresh" 720m
    fill "$synced/fresh/socket"
    serve "$synced/aged" 720m
    age "$synced/aged/socket" 512m restart "$synced/aged"
    for size in 4k 128k; do
        pair "fresh pool: aged, unique writes, $size, depth 32" 0.8 \
            "nbd $synced/aged/socket $deep --bs=$size" "nbd $synced/fresh/socket $deep --bs=$size"
    done
fi

# A write and a flush, against a plain file with one fdatasync a write, and over NBD.
if wanted "write and flush"; then
    mkdir "$synced/gemelo"
    serve "$synced/gemelo"
    fill "$synced/gemelo/socket"
    fallocate -l 512m "$synced/file"
    dd if=/dev/zero of="$synced/file" bs=1M count=512 conv=notrunc,fsync status=none
    pair "plain file fdatasync, write and flush" 0.5 \
        "nbd $synced/gemelo/socket --rw=randwrite --fsync=1" \
        "rate --ioengine=psync --filename=$synced/file --rw=randwrite --fdatasync=1"
    dd if=/dev/zero of="$synced/exported" bs=1M count=512 conv=fsync status=none
    start "$synced/nbdkit" nbdkit -f -U "$synced/nbdkit" file "$synced/exported"
    for writers in 1 8; do
        pair "nbdkit file, write and flush, $writers writers" 1.0 \
            "nbd $synced/gemelo/socket --rw=randwrite --fsync=1 --numjobs=$writers --group_reporting" \
            "nbd $synced/nbdkit --rw=randwrite --fsync=1 --numjobs=$writers --group_reporting"
    done
fi

if command -v zfs-fuse >/dev/null && wanted "zfs-fuse"; then
    zfs-fuse --no-daemon >/dev/null 2>&1 &
    zfs_fuse=$!
    sleep 2
    truncate -s 4g "$directory/zfs"
    zpool=gemelo-serve-$$
    zpool create -m "$directory/zfs-mount" "$zpool" "$directory/zfs"
    zfs set dedup=on "$zpool"
    pair "zfs-fuse dedup, half duplicates" "" "nbd $ours $deep --dedupe_percentage=50" \
        "rate --ioengine=psync --filename=$directory/zfs-mount/file --rw=randwrite --dedupe_percentage=50"
fi
