#!/usr/bin/env bash
# Uses a pool under the oldest kernel that docs/guide/support.md names, that of Debian 11 (5.10), in a
# guest that QEMU boots without hardware support: a verified load over a socket, two deaths of the
# server, a check of all data. Prints what the guest found; fails if anything did.
#
#   GEMELO=target/release/gemelo scripts/least-kernel.sh [DIRECTORY]
#
# DIRECTORY keeps the kernel (default target/least-kernel). Needs the packages of scripts/setup.sh,
# cpio, and Debian's packages of bullseye, from which the kernel is unpacked, not installed.
set -euo pipefail
cd "$(dirname "$0")/.."
gemelo=$(realpath "${GEMELO:-target/release/gemelo}")
mkdir -p "${1:-target/least-kernel}"
directory=$(cd "${1:-target/least-kernel}" && pwd)
jobs=$PWD/crates/front/gemelo/tests/suites/disk
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The package is asked for in lists of its own, so that the machine's stay as they are.
fetch_kernel() {
    local lists=$work/apt package site
    mkdir -p "$lists/partial"
    site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)
    echo "deb $site bullseye main" >"$work/sources.list"
    local from=(-o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$lists")
    apt-get "${from[@]}" update >/dev/null
    package=$(apt-cache "${from[@]}" search --names-only '^linux-image-5.10.0-[0-9]+-amd64$' |
        cut -d ' ' -f 1 | sort --version-sort | tail -n 1)
    (cd "$work" && apt-get "${from[@]}" download "$package" >/dev/null 2>&1)
    dpkg -x "$work/$package"_*.deb "$directory/kernel"
}
[ -d "$directory/kernel" ] || fetch_kernel
kernel=$(ls "$directory"/kernel/boot/vmlinuz-*)
modules=$directory/kernel/lib/modules/${kernel##*/vmlinuz-}
/sbin/depmod -b "$directory/kernel" "${kernel##*/vmlinuz-}"

root=$work/root
mkdir -p "$root"/{bin,dev,proc,sys,tmp,run,etc,modules,p,usr/bin}
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$gemelo" "$root/gemelo"
PATH="$PATH:/usr/sbin:/sbin"
cp "$(command -v mkfs.ext4)" "$root/usr/bin"
for program in "$gemelo" "$(command -v mkfs.ext4)"; do
    ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$root/$(dirname "$library")"
        cp -n "$library" "$root/$library"
    done
done
for module in virtio_pci virtio_blk crc32c_generic ext4; do
    # A module stands before what it needs, last of all.
    awk -F ': *' -v name="/$module.ko" 'substr($1, length($1) - length(name) + 1) == name {
        count = split($2, needed, " "); for (at = count; at > 0; at--) print needed[at]; print $1 }' \
        "$modules/modules.dep"
done | awk '!seen[$0]++' | while read -r file; do
    cp "$modules/$file" "$root/modules"
    basename "$file" >>"$root/modules/order"
done
cp "$jobs/library" "$root/lib.sh"
cat >"$root/init" <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/usr/bin:/bin HOME=/ LC_ALL=C
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
mkdir -p /dev/shm
for place in /dev/shm /tmp /run; do mount -t tmpfs t $place; done
for module in $(cat /modules/order); do insmod /modules/$module; done
ip link set lo up
. /lib.sh
load() {
    /gemelo bench --target 'nbd+unix:///web?socket=/run/s' --distribution personal --file-size 48m \
        --pattern nurand --operation mixed --queue-depth 16 --verify online --force "$@"
}
survives() {
    (load --time 8s --rate 200 >/tmp/load 2>&1; echo $? >/tmp/load.status) &
    for death in 1 2; do sleep 3; killed; serve --listen unix:/run/s; done
    within 60 test -e /tmp/load.status
}
say "kernel $(uname -r)"
check 'a file system for the pool' mkfs.ext4 -q -E lazy_itable_init=0 /dev/vda
check 'mount it' mount -t ext4 /dev/vda /p
check 'a pool' /gemelo pool create /p/pool --capacity 1500m
check 'a volume' /gemelo volume create /p/pool/web --size 128m
serve --listen unix:/run/s
check 'a verified load' load --bytes 32m
check 'a snapshot while it is served' /gemelo volume snapshot /p/pool/web monday
check 'two deaths of the server' survives
check 'a verified load after them' load --bytes 16m
check 'stop' stopped
check 'a check of all data' /gemelo pool check /p/pool --data
say done
poweroff -f
END
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc) >"$work/initrd"
truncate -s 4G "$work/disk"
# Without AVX: see crates/front/gemelo/tests/suites/disk/mod.rs.
timeout 600 qemu-system-x86_64 -machine q35,accel=tcg -cpu max,-avx,-avx2,-fma,-f16c -smp 2 -m 2048 \
    -nodefaults -display none -no-reboot -serial stdio \
    -append 'console=ttyS0 quiet panic=-1 mitigations=off' \
    -drive "file=$work/disk,if=virtio,format=raw,discard=unmap" \
    -initrd "$work/initrd" -kernel "$kernel" </dev/null >"$work/console" 2>&1 || true
tr -d '\r' <"$work/console" | sed -n 's/.*DISK: //p' | tee "$work/report"
if ! grep -q '^done$' "$work/report" || grep -q FAILED "$work/report"; then
    echo "least-kernel: it did not do what it should" >&2
    exit 1
fi
