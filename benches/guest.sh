#!/usr/bin/env bash
# Counts the instructions of requests in a guest, with the work of its kernel: fio on a volume over
# the kernel's NBD or by ublk, beside nbdkit and, if there is one, dm-vdo.
#
#   benches/guest.sh [SYSTEMS [ROUNDS [SCALE]]]     nbdkit,gemelo 1 1
#
# A system is raw (the virtual disk), nbdkit (its file plugin on ext4), gemelo, gemelo-ublk, either
# with :OPTIONS (those of pool create, separated by spaces), base (the program that BASE= names, of an earlier build), or
# vdo (dm-vdo; VDOFORMAT= names the program vdoformat, which Debian has not). SCALE multiplies the
# bytes of each job.
#
# QEMU emulates the processor without hardware support and counts each instruction as 2 ns (-icount),
# so that nothing else on the machine changes a figure: one run differs from another by 3 %, at depth
# 1 by 15 %, because threads meet in another order. GUEST_CPU is its model; the default is one
# without erms, fsrm, fsrs and fzrm, of which emulation charges a copy three times what it costs. A
# vector instruction counts as one, which flatters hashes. As root: the guest's kernel is Debian's
# linux-image-6.12-cloud-amd64, downloaded and unpacked in target/guest-bench.
set -euo pipefail
cd "$(dirname "$0")/.."
systems=${1:-nbdkit,gemelo} rounds=${2:-1} scale=${3:-1}
target="${CARGO_TARGET_DIR:-target}"
place="$target/guest-bench"
kernel=linux-image-6.12-cloud-amd64
PATH="$PATH:/usr/sbin:/sbin"

for tool in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static fio:fio cpio:cpio \
    depmod:kmod nbd-client:nbd-client nbdkit:nbdkit mkfs.ext4:e2fsprogs dmsetup:dmsetup xz:xz-utils python3:python3; do
    command -v "${tool%%:*}" >/dev/null ||
        apt-get install --yes --no-install-recommends "${tool#*:}" >/dev/null
done

if ! compgen -G "$place/kernel/boot/vmlinuz-*" >/dev/null; then
    mkdir -p "$place/package"
    package=$(apt-cache depends "$kernel" | awk '$1 == "Depends:" { print $2; exit }')
    (cd "$place/package" && apt-get download "$package" >/dev/null 2>&1)
    dpkg -x "$place"/package/*.deb "$place/unpacked"
    depmod -b "$place/unpacked" "$(ls "$place/unpacked/lib/modules")"
    rm -r "$place/package"
    mv "$place/unpacked" "$place/kernel"
fi

[ -n "${GEMELO:-}" ] || cargo build --release --locked -p gemelo
export GEMELO="${GEMELO:-$target/release/gemelo}"
exec benches/lib/guest.py "$place" "$systems" "$rounds" "$scale"
