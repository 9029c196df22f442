#!/usr/bin/env bash
# Sees to the tools that are needed: installs missing ones as root on Debian, else names them.
#
#   scripts/setup.sh [build|release|tests]   for building and the demo, for scripts/release.sh, or (the
#                                            default) for building and the tests
set -euo pipefail
cd "$(dirname "$0")/.."
export DEBIAN_FRONTEND=noninteractive

purpose=${1:-tests}
# tool:package
build_tools=(cc:gcc)
test_tools=(fio:fio fio-dedupe:fio zstd:zstd lz4:lz4 python3:python3
    nbdinfo:libnbd-bin nbdcopy:libnbd-bin nbdfuse:libnbd-bin nbdkit:nbdkit
    promtool:prometheus zsh:zsh fish:fish lintian:lintian
    rpmbuild:rpm rpm2cpio:rpm cpio:cpio minisign:minisign
    qemu-img:qemu-utils qemu-io:qemu-utils qemu-nbd:qemu-utils qemu-system-x86_64:qemu-system-x86
    xz:xz-utils udevadm:udev busybox:busybox-static mkfs.ext4:e2fsprogs debugfs:e2fsprogs mkfs.xfs:xfsprogs losetup:mount fstrim:util-linux setpriv:util-linux
    chromium:chromium mkfs.btrfs:btrfs-progs duperemove:duperemove zfs-fuse:zfs-fuse systemd-analyze:systemd pgbench:postgresql pg_amcheck:postgresql initdb:postgresql
    ssh:openssh-client sshd:openssh-server ip:iproute2 tc:iproute2
    faketime:faketime
    ceph-mon:ceph-mon ceph-mgr:ceph-mgr ceph-osd:ceph-osd ceph:ceph-common rados:ceph-common)
release_tools=(dpkg-deb:dpkg rpmbuild:rpm strip:binutils readelf:binutils python3:python3 tar:tar
    gzip:gzip sha256sum:coreutils git:git)
# Not in Debian: a linker that knows the symbols of older C libraries, and what calls it for Cargo.
linker=(ziglang==0.15.2 cargo-zigbuild==0.24.1)
# Not in Debian: the file system exerciser, from the registry of Rust programs.
fsx=fsx@0.3.2
# The kernel that tests boot as a guest: small, with ext4 built in, and since 6.12 with ublk and XFS.
# It is unpacked, not installed. The first package is that of Debian 12, the second of later ones.
kernels=(linux-image-6.12-cloud-amd64 linux-image-cloud-amd64)
# Modules in the order in which they are loaded; those that a kernel has built in are left out.
modules=(virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk
    crc32c_generic libcrc32c xfs ublk_drv)
guest="${CARGO_TARGET_DIR:-target}/guest"

PATH="$PATH:/usr/sbin:/sbin"
# Debian keeps PostgreSQL's programs apart by version.
for directory in /usr/lib/postgresql/*/bin; do PATH="$PATH:$directory"; done

# Package lists may be absent or old; they are fetched only if the first attempt fails.
install() {
    local command=(apt-get install --yes --no-install-recommends --no-remove -o Dpkg::Use-Pty=0 "$@")
    "${command[@]}" >/dev/null 2>&1 || { apt-get update && "${command[@]}"; }
}

# The parts of QEMU have to be of one version, and qemu-utils may have come from backports.
install_from_backports() {
    local directory release site
    directory=$(mktemp -d)
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    site=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' |
        awk -v release="$release" '$2 == release { print $1; exit }')
    mkdir -p "$directory/lists/partial"
    printf 'deb %s %s main\n' "$site" "$release" "$site" "$release-backports" >"$directory/sources.list"
    local from=(-o "Dir::Etc::sourcelist=$directory/sources.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$directory/lists")
    apt-get "${from[@]}" update >/dev/null
    apt-get "${from[@]}" install --yes --no-install-recommends --no-remove -o Dpkg::Use-Pty=0 \
        --target-release "$release-backports" "$@"
    rm -r "$directory"
}

fetch_guest_kernel() {
    local directory package module file
    directory=$(mktemp -d)
    package=$(apt-cache depends "${kernels[@]}" 2>/dev/null | awk '$1 == "Depends:" { print $2; exit }')
    (cd "$directory" && apt-get download "$package" >/dev/null 2>&1)
    dpkg -x "$directory"/*.deb "$directory/all"
    mkdir -p "$directory/guest/boot" "$directory/guest/modules"
    mv "$directory"/all/boot/vmlinuz-* "$directory/guest/boot"
    for module in "${modules[@]}"; do
        file=$(find "$directory/all/lib/modules" -name "$module.ko*" -print -quit)
        case "$file" in
            '') continue ;;
            *.xz) xz --decompress --stdout "$file" >"$directory/guest/modules/$module.ko" ;;
            *) cp "$file" "$directory/guest/modules" ;;
        esac
        echo "$module" >>"$directory/guest/modules/order"
    done
    mkdir -p "$(dirname "$guest")"
    rm -rf "$guest"
    mv "$directory/guest" "$guest"
    rm -r "$directory"
}

tools=("${build_tools[@]}")
[ "$purpose" != release ] || tools+=("${release_tools[@]}")
[ "$purpose" != tests ] || tools+=("${test_tools[@]}")
missing=()
for pair in "${tools[@]}"; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[ "$purpose" != tests ] || /usr/bin/python3 -c 'import nbd' 2>/dev/null || missing+=(python3-libnbd)
[ "$purpose" != release ] || python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
mapfile -t packages < <(printf '%s\n' "${missing[@]}" | sort -u | sed '/^$/d')

if [ "${#packages[@]}" -gt 0 ]; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "setup: packages are missing for the $purpose: ${packages[*]}" >&2
        echo "setup: as root on Debian: apt-get update && apt-get install ${packages[*]}" >&2
        exit 1
    fi
    echo "setup: installing ${packages[*]}"
    mapfile -t others < <(printf '%s\n' "${packages[@]}" | sed '/^qemu-system-x86$/d')
    [ "${#others[@]}" -eq 0 ] || install "${others[@]}"
    if ! command -v qemu-system-x86_64 >/dev/null; then
        install qemu-system-x86 2>/dev/null || install_from_backports qemu-system-x86
    fi
fi

if [ "$purpose" = release ]; then
    directory="${CARGO_TARGET_DIR:-target}/release-tools"
    if [ ! -x "$directory/bin/cargo-zigbuild" ]; then
        echo "setup: installing ${linker[*]}"
        python3 -m venv "$directory"
        "$directory/bin/pip" install --quiet "${linker[@]}"
    fi
fi

[ "$purpose" = tests ] || exit 0

if ! command -v fsx >/dev/null; then
    echo "setup: installing $fsx"
    cargo install --locked --quiet --debug "$fsx"
fi

if [ ! -e "$guest/modules/ublk_drv.ko" ]; then
    if ! command -v apt-get >/dev/null; then
        echo "setup: tests boot a guest with the kernel of Debian's ${kernels[0]}, unpacked in $guest" >&2
        exit 1
    fi
    echo "setup: fetching the kernel of a guest"
    fetch_guest_kernel || { apt-get update && fetch_guest_kernel; }
fi
