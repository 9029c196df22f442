#!/usr/bin/env bash
# Builds the ten virtual machines of M. Kaukula, "Analysing Performance Effects of Deduplication on
# Virtual Machine Storage" (2017), table 1, as disk images with Debian in place of Ubuntu. All of
# them begin as copies of one template, as in the thesis, and then get their packages. Services do
# not start. Everything comes from the package mirror.
#
#   scripts/vm-images.sh DIRECTORY [NAME...]
#
# Without names, all ten are built. An image that exists is kept. Needs root, mmdebstrap, 8 GB in
# DIRECTORY and about 15 minutes. Variables: SUITE (bookworm), MIRROR (that of
# mmdebstrap), IMAGE_SIZE (4G, sparse).
set -euo pipefail

SUITE=${SUITE:-bookworm}
MIRROR=${MIRROR:-}
IMAGE_SIZE=${IMAGE_SIZE:-4G}

# Packages of all machines.
STANDARD="systemd-sysv udev dbus ifupdown isc-dhcp-client netbase openssh-server ca-certificates less"
STANDARD="$STANDARD vim-tiny man-db cron logrotate rsyslog procps"
STANDARD="$STANDARD iproute2 linux-image-cloud-amd64"

# Prints the packages of a virtual machine beside OpenSSH. DEDISbench is not in Debian.
packages() {
    case $1 in
    vm-1-dns | vm-2-dns) echo bind9 ;;
    vm-3-lamp | vm-4-lamp) echo apache2 mariadb-server php libapache2-mod-php php-mysql ;;
    vm-5-mail | vm-6-mail) echo postfix dovecot-imapd ;;
    vm-7-storage) echo samba ioping ;;
    vm-8-storage) echo samba fio ;;
    vm-9-dhcp) echo isc-dhcp-server ;;
    vm-10-database) echo postgresql ;;
    *) fail "no machine is named '$1': the names are $ALL" ;;
    esac
}
ALL="vm-1-dns vm-2-dns vm-3-lamp vm-4-lamp vm-5-mail vm-6-mail vm-7-storage vm-8-storage vm-9-dhcp"
ALL="$ALL vm-10-database"

fail() {
    echo "vm-images.sh: $*" >&2
    exit 2
}

[ $# -ge 1 ] || fail "usage: vm-images.sh DIRECTORY [NAME...]"
[ "$(id -u)" = 0 ] || fail "needs root, to mount images and to install packages in them"
for program in mmdebstrap mkfs.ext4 losetup fstrim; do
    command -v "$program" >/dev/null || fail "$program is missing: install it first"
done

out=$1
shift
names=${*:-$ALL}
for name in $names; do packages "$name" >/dev/null; done
mkdir -p "$out"
out=$(cd "$out" && pwd)
root=$out/root.mounted
cache=$out/packages

# Unmounts in any case, so that no loop device stays.
clean() {
    for below in dev proc var/cache/apt/archives ""; do
        if mountpoint -q "$root/$below"; then umount "$root/$below"; fi
    done
    if [ -d "$root" ]; then rmdir "$root"; fi
    rm -rf --one-file-system "$out/template.tree" "$out"/*.part
}
trap clean EXIT
trap 'exit 1' INT TERM HUP

template() {
    mmdebstrap --variant=minbase --mode=root --components=main --skip=cleanup/apt/lists \
        --include="$(echo "$STANDARD" | tr ' ' ,)" \
        "$SUITE" "$out/template.tree" ${MIRROR:+"$MIRROR"}
    printf '#!/bin/sh\nexit 101\n' >"$out/template.tree/usr/sbin/policy-rc.d"
    chmod +x "$out/template.tree/usr/sbin/policy-rc.d"
    truncate -s "$IMAGE_SIZE" "$out/template.img.part"
    mkfs.ext4 -q -F -d "$out/template.tree" "$out/template.img.part"
    rm -rf --one-file-system "$out/template.tree"
    mv "$out/template.img.part" "$out/template.img"
}

# Makes a virtual machine from the template: its packages, name, keys and machine id.
machine() {
    name=$1
    cp --sparse=always "$out/template.img" "$out/$name.img.part"
    mkdir -p "$root" "$cache/partial"
    mount -o loop "$out/$name.img.part" "$root"
    mount --bind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    mount --bind "$cache" "$root/var/cache/apt/archives"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    echo "$name" >"$root/etc/hostname"
    # shellcheck disable=SC2046 # the list of packages is to be split
    DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -qq --no-install-recommends \
        -o Dpkg::Use-Pty=0 $(packages "$name") >"$out/$name.log" 2>&1 ||
        fail "the packages of $name cannot be installed: see $out/$name.log"
    rm -f "$root"/etc/ssh/ssh_host_*
    chroot "$root" ssh-keygen -q -A
    od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$root/etc/machine-id"
    umount "$root/var/cache/apt/archives" "$root/proc" "$root/dev"
    # Blocks of removed files become holes, which no storage has to keep.
    fstrim "$root"
    umount "$root"
    mv "$out/$name.img.part" "$out/$name.img"
    rm -f "$out/$name.log"
    du -h "$out/$name.img"
}

[ -e "$out/template.img" ] || template
for name in $names; do
    [ -e "$out/$name.img" ] || machine "$name"
done
rm -rf "$cache"
