#!/usr/bin/env bash
# The space that versions of one tree take: an image of ext4 that has all of them, in pools of gemelo
# and in files of btrfs and zfs-fuse; and the files of the image themselves, in btrfs and in two
# backup stores, which store variable chunks and serve no blocks. About five minutes.
#
#   benches/versions.sh [TREE...]     default: five versions of the headers of Debian's kernel
#
# BENCH_DIR is the file system of the stores (/var/tmp; 8 GB), IMAGE the size of the image (1g).
# GEMELO is the program. Needs root, and on Debian:
#   apt-get install btrfs-progs duperemove zfs-fuse borgbackup restic
set -euo pipefail
cd "$(dirname "$0")/.."
gemelo=$(realpath "${GEMELO:-target/release/gemelo}")
for tool in "$gemelo" mkfs.ext4 mkfs.btrfs duperemove zfs-fuse zpool borg restic python3; do
    command -v "$tool" >/dev/null || { echo "benches/versions.sh needs $tool" >&2; exit 1; }
done
directory=$(mktemp -d "${BENCH_DIR:-/var/tmp}/gemelo-versions.XXXXXX")
mount=$directory/mount
image=$directory/image
daemon=
pool=
mkdir "$mount"

finish() {
    ! mountpoint -q "$mount" || umount "$mount"
    [ -z "$daemon" ] || { zpool destroy -f "$pool"; kill "$daemon"; wait; } 2>/dev/null || true
    rm -rf "$directory"
}
trap finish EXIT

# headers: unpacks the headers of the newest five kernels of one series.
headers() {
    local version package
    mkdir "$directory/packages"
    for version in $(apt-cache search --names-only '^linux-headers-6\.12.*-common$' |
        sed 's/^linux-headers-//; s/-common .*//' | sort -V | tail -n 5); do
        for package in "linux-headers-$version-common" "linux-headers-$version-amd64" "linux-kbuild-$version"; do
            (cd "$directory/packages" && apt-get download "$package" >/dev/null 2>&1)
            dpkg-deb -x "$directory"/packages/"$package"_*.deb "$directory/trees/$version"
        done
        echo "$version"
    done
    rm -r "$directory/packages"
}

# row WHAT BYTES [FIGURE]: FIGURE is the entry in docs/results/figures.toml.
row() {
    [ $# -lt 3 ] || benches/lib/figures.py "trees-$3" "$(((($2) + 500000) / 1000000))" MB benches/versions.sh
    awk -v what="$1" -v bytes="$2" -v base="$base" \
        'BEGIN { printf "%-44s %8.1f MB  %5.1f %%\n", what, bytes / 1e6, 100 * bytes / base }'
}

# engine KIND [FIGURE]: an import into a pool, and the space of its blocks and of its metadata.
engine() {
    "$gemelo" pool create "$directory/pool" --capacity 4g --compression "$1" >/dev/null
    "$gemelo" volume import "$image" "$directory/pool/a" >/dev/null
    "$gemelo" pool stat "$directory/pool" --json "$directory/stat" >/dev/null
    row "image: gemelo, compression $1" "$(python3 -c '
import json, sys
pool = json.load(open(sys.argv[1]))["result"]["pool"]
print(pool["used_blocks"] * pool["block_bytes"] + pool["metadata_used_bytes"])' "$directory/stat")" "${@:2}"
    rm -r "$directory/pool" "$directory/stat"
}

# files: copies the trees to the mounted file system; blocks: copies the image there.
files() { cp -a "$directory/trees" "$mount/"; }
blocks() { cp --sparse=always "$image" "$mount/"; }

# btrfs_store WHAT LEVEL [FIGURE FIGURE]: copies files or blocks, and shares equal blocks afterwards.
btrfs_store() {
    truncate -s 4g "$directory/disk"
    mkfs.btrfs -q "$directory/disk" >/dev/null 2>&1
    mount -o "loop,compress-force=$2" "$directory/disk" "$mount"
    local empty
    empty=$(used)
    "$1"
    row "$1: btrfs, $2" "$(($(used) - empty))" "${@:3:1}"
    duperemove -r -d -b 4096 --dedupe-options=same,partial "$mount" >/dev/null 2>&1
    row "$1: btrfs, $2, duperemove" "$(($(used) - empty))" "${@:4:1}"
    umount "$mount"
    rm "$directory/disk"
}

used() {
    sync
    btrfs filesystem sync "$mount"
    btrfs filesystem usage --raw "$mount" | awk '$1 == "Used:" { print $2; exit }'
}

# zfs_store COMPRESSION [FIGURE]: records of 4 KiB, as the volumes of gemelo have. Sectors of 512 bytes let
# them shrink. zfs-fuse has no LZ4.
zfs_store() {
    local options=(-o ashift=9 -O recordsize=4k -O dedup=on -O "compression=$1")
    truncate -s 4g "$directory/disk"
    pool=gemelo-$$-$1
    zfs-fuse --no-daemon --no-kstat-mount >/dev/null 2>&1 &
    daemon=$!
    until zpool list >/dev/null 2>&1; do sleep 0.2; done
    zpool create "${options[@]}" -m "$mount" "$pool" "$directory/disk"
    blocks
    # Data are at their places when a transaction group was written.
    zfs snapshot "$pool@space"
    zfs destroy "$pool@space"
    row "blocks: zfs-fuse, dedup, $1" "$(zpool list -H -o alloc "$pool" | python3 -c '
import sys
text = sys.stdin.read().strip()
print(int(float(text.rstrip("KMGT")) * 1024 ** " KMGT".index(text[-1])) if text[-1] in "KMGT" else int(text))')" "${@:2}"
    # The file system is busy until the daemon has written everything.
    for _ in $(seq 150); do
        ! mountpoint -q "$mount" || umount "$mount" 2>/dev/null || true
        ! zpool destroy -f "$pool" 2>/dev/null || break
        sleep 0.2
    done
    kill "$daemon"
    wait "$daemon" || true
    daemon=
    rm "$directory/disk"
}

# borg_store COMPRESSION [FIGURE]: what a backup store of variable chunks takes for the files.
borg_store() {
    export BORG_BASE_DIR=$directory/borg-base RESTIC_PASSWORD=x
    borg init --encryption none "$directory/repository" 2>/dev/null
    borg create --compression "$1" "$directory/repository::all" "$directory/trees" 2>/dev/null
    row "files: borg, $1" "$(du -sB1 "$directory/repository" | cut -f1)" "${@:2}"
    rm -rf "$directory/repository"
}

mkdir "$directory/trees"
if [ $# -gt 0 ]; then
    for tree in "$@"; do cp -a "$tree" "$directory/trees/"; done
else
    echo "versions: $(headers | tr '\n' ' ')"
fi
truncate -s "${IMAGE:-1g}" "$image"
mkfs.ext4 -q -i 8192 -d "$directory/trees" "$image"
base=$(du -sB1 --apparent-size "$directory/trees" | cut -f1)
row "the files" "$base" files
row "image: ext4 in a sparse file" "$(du -B1 "$image" | cut -f1)"
for kind in off lz4 zstd:1; do engine "$kind"; done
engine zstd:3 gemelo
btrfs_store blocks zstd btrfs duperemove
zfs_store lzjb
zfs_store gzip zfs
btrfs_store files zstd
borg_store lz4
borg_store zstd,3 borg
export RESTIC_PASSWORD=x
restic --repo "$directory/repository" init --repository-version 2 >/dev/null
restic --repo "$directory/repository" --no-cache backup "$directory/trees" >/dev/null
row "files: restic" "$(du -sB1 "$directory/repository" | cut -f1)" restic
