#!/usr/bin/env bash
# Makes the root file system of the guest: Debian with systemd, the kernel for clouds, and what the
# jobs use. Prints the directory with `root.ext4`, `vmlinuz` and `initrd`, which is made once.
#
#   tests/guest/image.sh     as root; needs mmdebstrap and Debian's packages
set -euo pipefail
cd "$(dirname "$0")/../.."
lab="${CARGO_TARGET_DIR:-target}/guest-lab"
root_bytes=6G

release=bookworm
packages=(systemd-sysv udev dbus kmod iproute2 procps sudo linux-image-6.12-cloud-amd64
    init-system-helpers libgcc-s1 e2fsprogs xfsprogs dosfstools lvm2 mdadm fdisk
    fio nbd-client libnbd-bin python3-libnbd postgresql targetcli-fb open-iscsi nvme-cli
    docker.io iptables libvirt-daemon-system libvirt-clients libvirt-daemon-driver-qemu
    qemu-system-x86 selinux-policy-default policycoreutils)
# Documents and translations are most files of Debian, and nobody reads them there.
excluded=(--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/gemelo/*'
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/man/*')

# Debian starts what it installs; the jobs start what they use, and nothing else takes time.
disabled=(docker.service docker.socket containerd.service postgresql.service iscsid.service
    open-iscsi.service nvmf-autoconnect.service rtslib-fb-targetctl.service e2scrub_reap.service
    apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer fstrim.timer
    libvirtd.service libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket virtlockd.socket
    virtlogd.socket libvirt-guests.service)

prepare() {
    local root=$1
    echo '/dev/vda / ext4 rw 0 1' >"$root/etc/fstab"
    echo guest >"$root/etc/hostname"
    echo '127.0.0.1 localhost guest' >"$root/etc/hosts"
    install -m 755 tests/guest/start "$root/usr/local/sbin/gemelo-test"
    cat >"$root/etc/systemd/system/gemelo-test.service" <<'UNIT'
[Unit]
Description=job of the test
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/gemelo-test
StandardOutput=file:/dev/ttyS0
StandardError=inherit
TimeoutStopSec=5
UNIT
    mkdir -p "$root/etc/systemd/system/multi-user.target.wants" "$root/var/log/journal"
    ln -s ../gemelo-test.service "$root/etc/systemd/system/multi-user.target.wants"
    local unit
    for unit in "${disabled[@]}"; do rm -f "$root"/etc/systemd/system/*.wants/"$unit"; done
    chroot "$root" systemctl --quiet mask serial-getty@ttyS0.service getty@tty1.service \
        systemd-networkd-wait-online.service selinux-autorelabel-mark.service
}

# A memory disk that mounts the root file system. That of Debian has all drivers, and takes longer.
memory_disk() {
    local root=$1 disk=$2 version module path
    version=$(basename "$root"/lib/modules/*)
    mkdir -p "$disk"/{bin,dev,proc,sys,modules,root}
    cp "$(command -v busybox)" "$disk/bin/busybox"
    for module in virtio_pci virtio_blk ext4; do
        modprobe --dirname "$root" --set-version "$version" --show-depends "$module" |
            awk '$1 == "insmod" { print $2 }' | while read -r path; do
            xz --decompress --stdout "$path" >"$disk/modules/$(basename "$path" .xz)"
            basename "$path" .xz >>"$disk/modules/order"
        done
    done
    cat >"$disk/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for module in $(/bin/busybox cat /modules/order); do
    /bin/busybox insmod "/modules/$module" 2>/dev/null
done
while [ ! -b /dev/vda ]; do /bin/busybox sleep 0.1; done
/bin/busybox mount -t ext4 /dev/vda /root
exec /bin/busybox switch_root /root /sbin/init
INIT
    chmod 755 "$disk/init"
    (cd "$disk" && find . | cpio --quiet -o -H newc | gzip -1)
}

if [ ! -e "$lab/root.ext4" ]; then
    for tool in mmdebstrap mkfs.ext4 busybox cpio xz modprobe; do
        command -v "$tool" >/dev/null || { echo "image: $tool is missing" >&2; exit 1; }
    done
    mkdir -p "$lab"
    work=$(mktemp -d "$lab/work.XXXXXX")
    chmod 755 "$work"
    trap 'rm -rf "$work"' EXIT
    mmdebstrap --quiet --variant=minbase --mode=root --include="$(IFS=,; echo "${packages[*]}")" \
        --aptopt='APT::Install-Recommends "false"' "${excluded[@]}" "$release" "$work/tree" >&2
    prepare "$work/tree"
    cp "$work"/tree/boot/vmlinuz-* "$lab/vmlinuz"
    memory_disk "$work/tree" "$work/initrd" >"$lab/initrd"
    truncate --size "$root_bytes" "$work/root.ext4"
    mkfs.ext4 -q -E lazy_itable_init=0 -d "$work/tree" "$work/root.ext4"
    mv "$work/root.ext4" "$lab/root.ext4"
fi
echo "$lab"
