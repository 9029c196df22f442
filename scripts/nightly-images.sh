#!/usr/bin/env bash
# Builds five images of one guest of 4 GiB, as five nights would find it: Debian as it was released,
# which between two nights gets a fourth of the updates that came since, and is
# used: a database changes 4,000 of its rows, a log grows by 8 MB and is rotated. For
# benches/copies.sh. Everything comes from the package mirror.
#
#   scripts/nightly-images.sh DIRECTORY
#
# An image that exists is kept. Needs root, mmdebstrap, 8 GB in DIRECTORY and about 10 minutes.
# Variables: SUITE (bookworm), MIRROR (the one that apt uses here), under which `debian` and
# `debian-security` lie.
set -euo pipefail

suite=${SUITE:-bookworm}
main=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Component: main' | head -n 1)
mirror=${MIRROR:-${main%/debian*}}
packages="ca-certificates openssh-server python3 perl man-db logrotate rsyslog nginx-light git gcc"
packages="$packages mariadb-server php-cli linux-image-cloud-amd64 sqlite3 vim curl"

fail() {
    echo "nightly-images.sh: $*" >&2
    exit 2
}

[ $# -eq 1 ] || fail "usage: nightly-images.sh DIRECTORY"
[ "$(id -u)" = 0 ] || fail "needs root, to mount an image and to install packages in it"
for program in mmdebstrap mkfs.ext4 fstrim python3; do
    command -v "$program" >/dev/null || fail "$program is missing: install it first"
done
mkdir -p "$1"
out=$(cd "$1" && pwd)
[ ! -e "$out/night-5" ] || exit 0
root=$out/root.mounted
mkdir -p "$root"

clean() { umount -l "$root/dev" "$root/proc" "$root" 2>/dev/null || true; }
trap clean EXIT

apt() { DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get -qq -o Dpkg::Use-Pty=0 "$@" >>"$out/log" 2>&1; }

# The work of a day.
use() {
    python3 - "$root" "$1" <<'END'
import random, sqlite3, sys, time
root, night = sys.argv[1], int(sys.argv[2])
chance = random.Random(night)
base = sqlite3.connect(f"{root}/var/lib/rows.db")
base.execute("create table if not exists rows (id integer primary key, text blob)")
if night == 1:
    base.executemany("insert into rows values (?, ?)", ((at, chance.randbytes(200)) for at in range(400_000)))
base.executemany("insert or replace into rows values (?, ?)",
                 ((chance.randrange(400_000), chance.randbytes(200)) for _ in range(4_000)))
base.commit()
with open(f"{root}/var/log/daily", "a") as log:
    while log.tell() < 8 << 20:
        log.write(f"{chance.randrange(1 << 30)} host daemon[{chance.randrange(9999)}]: request {chance.randbytes(12).hex()}\n")
END
    mv "$root/var/log/daily" "$root/var/log/daily.$1"
    [ "$1" -eq 1 ] || gzip "$root/var/log/daily.$(($1 - 1))"
}

truncate -s 4G "$out/image"
mkfs.ext4 -q -F "$out/image"
mount -o loop,discard "$out/image" "$root"
mmdebstrap --quiet --variant=minbase --include="${packages// /,}" "$suite" "$root" "$mirror/debian"
{
    echo "deb $mirror/debian $suite-updates main"
    echo "deb $mirror/debian-security $suite-security main"
} >>"$root/etc/apt/sources.list"
cp /etc/resolv.conf "$root/etc/resolv.conf"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"
mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
apt update
mapfile -t updates < <(chroot "$root" apt list --upgradable 2>/dev/null | sed -n 's,/.*,,p' | sort)
echo "${#updates[@]} updates" >&2
for night in 1 2 3 4 5; do
    if [ "$night" -gt 1 ]; then
        some=("${updates[@]:$(((night - 2) * ${#updates[@]} / 4)):$(((night - 1) * ${#updates[@]} / 4 - (night - 2) * ${#updates[@]} / 4))}")
        [ "${#some[@]}" -eq 0 ] || apt install --only-upgrade "${some[@]}"
        apt clean
    fi
    use "$night"
    sync
    fstrim "$root"
    sync
    cp --sparse=always "$out/image" "$out/night-$night.part"
    mv "$out/night-$night.part" "$out/night-$night"
    du -h "$out/night-$night" >&2
done
umount "$root/dev" "$root/proc" "$root"
rmdir "$root"
rm -f "$out/image" "$out/log"
