#!/usr/bin/env bash
# A pool on a block device, direct and buffered in turn: 4 KiB random writes at depth 32 over NBD, a
# second, on a loop device over a file. Needs root, fio with nbd, losetup. Five seconds a run.
#
#   benches/device.sh [ROUNDS]     pairs, default 3
#
# BENCH_DIR is where the file lies (default /var/tmp), DEVICE a device to overwrite in its place.
# RUN_MS is the length of a run. GEMELO is the program to measure, if not the one of this checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
gemelo="${GEMELO:-$PWD/target/release/gemelo}"
[ -x "$gemelo" ] || { echo "build first: make build" >&2; exit 1; }
directory=$(mktemp -d "${BENCH_DIR:-/var/tmp}/gemelo-device.XXXXXX")
server='' looped=''
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    wait 2>/dev/null || true
    [ -z "$looped" ] || losetup --detach "$looped"
    rm -rf "$directory"
}
trap finish EXIT
if [ -z "${DEVICE:-}" ]; then
    truncate -s 4g "$directory/backing"
    looped=$(losetup --find --show "$directory/backing")
fi
"$gemelo" pool create "$directory/pool" --data "${DEVICE:-$looped}" --force -q
"$gemelo" volume create "$directory/pool/disk" --size 512m -q
rate() {
    "$gemelo" serve "$directory/pool" --listen "unix:$directory/socket" --io "$1" -q &
    server=$!
    until [ -S "$directory/socket" ]; do sleep 0.05; done
    rate=$(fio --name=x --ioengine=nbd "--uri=nbd+unix:///disk?socket=$directory/socket" --rw=randwrite \
        --bs=4k --size=512m --iodepth=32 --time_based --runtime="${RUN_MS:-5000}ms" --refill_buffers \
        --randrepeat=0 --output-format=terse --terse-version=3 | awk -F';' '/^3;/ { print $49 }')
    kill "$server"
    wait "$server" || true
    server=''
}
rate direct # Fills the volume.
for _ in $(seq "${1:-3}"); do
    rate direct
    direct=$rate
    rate buffered
    echo "direct $direct   buffered $rate"
done
