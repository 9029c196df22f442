#!/usr/bin/env bash
# Sees to the tools that the tests need: installs missing ones as root on Debian, else names them.
set -euo pipefail

# tool:package
tools=(cc:gcc fio:fio fio-dedupe:fio zstd:zstd lz4:lz4 python3:python3
    nbdinfo:libnbd-bin nbdcopy:libnbd-bin nbdkit:nbdkit qemu-img:qemu-utils qemu-io:qemu-utils qemu-nbd:qemu-utils
    mkfs.btrfs:btrfs-progs systemd-analyze:systemd)

missing=()
for pair in "${tools[@]}"; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
/usr/bin/python3 -c 'import nbd' 2>/dev/null || missing+=(python3-libnbd)
if [ "${#missing[@]}" -eq 0 ]; then
    exit 0
fi
mapfile -t packages < <(printf '%s\n' "${missing[@]}" | sort -u)

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "setup: the tests need packages that are missing: ${packages[*]}" >&2
    echo "setup: as root on Debian: apt-get update && apt-get install ${packages[*]}" >&2
    exit 1
fi
echo "setup: installing ${packages[*]}"
install=(apt-get install --yes --no-install-recommends -o Dpkg::Use-Pty=0 "${packages[@]}")
export DEBIAN_FRONTEND=noninteractive
# Package lists may be absent or old; they are fetched only if the first attempt fails.
"${install[@]}" >/dev/null 2>&1 || { apt-get update && "${install[@]}"; }
