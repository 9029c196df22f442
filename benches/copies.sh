#!/usr/bin/env bash
# Moves what is new in each of five images of one guest, and in each of five images of kernel
# headers, to a second store: bytes that move, time, memory of the largest process and space at the
# destination, for copies of gemelo and for their peers. A peer that is not installed is left out.
# About 20 minutes, of which half makes the images.
#
#   benches/copies.sh [nights|trees]...     default: both
#
# BENCH_DIR is the file system of the stores (/var/tmp; 20 GB), NIGHTS a directory of
# scripts/nightly-images.sh that is kept, CEPH=1 starts a cluster for RBD, SYSTEMS are some of
# "copy send zfs btrfs restic borg rbd qemu". GEMELO is the program.
# Needs root, and on Debian, for the peers:
#   apt-get install btrfs-progs zfs-fuse borgbackup restic qemu-utils libnbd-bin zstd ceph
set -euo pipefail
cd "$(dirname "$0")/.."
gemelo=$(realpath "${GEMELO:-target/release/gemelo}")
[ -x "$gemelo" ] || { echo "build first: make build" >&2; exit 1; }
directory=$(mktemp -d "${BENCH_DIR:-/var/tmp}/gemelo-copies.XXXXXX")
mount=$directory/mount
mkdir "$mount"
daemon=
ceph=

finish() {
    [ -z "$daemon" ] || { zpool destroy -f gemelocopies; kill "$daemon"; wait; } 2>/dev/null || true
    ! mountpoint -q "$mount" || umount "$mount" || true
    [ -z "$ceph" ] || scripts/ceph.sh stop "$ceph" || true
    rm -rf "$directory"
}
trap finish EXIT

has() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null || { echo "$system: no $tool, left out" >&2; return 1; }
    done
}

# trees: an image with the headers of one kernel at a time, of five of one series.
trees() {
    local number=0 version package
    truncate -s 1g "$directory/tree"
    mkfs.ext4 -q -F "$directory/tree"
    mount -o loop,discard "$directory/tree" "$mount"
    mkdir "$directory/packages"
    for version in $(apt-cache search --names-only '^linux-headers-6\.12.*-common$' |
        sed 's/^linux-headers-//; s/-common .*//' | sort -V | tail -n 5); do
        number=$((number + 1))
        rm -rf "$mount/tree"
        for package in "linux-headers-$version-common" "linux-headers-$version-amd64" "linux-kbuild-$version"; do
            (cd "$directory/packages" && apt-get download "$package" >/dev/null 2>&1)
            dpkg-deb -x "$directory"/packages/"$package"_*.deb "$mount/tree"
        done
        sync
        fstrim "$mount"
        sync
        cp --sparse=always "$directory/tree" "$directory/trees-$number"
    done
    umount "$mount"
    rm -r "$directory/packages" "$directory/tree"
}

# measured COMMAND: runs it by the shell, and adds its time and memory to those of the system.
measured() { benches/lib/measured.py "$1" >>"$directory/cost"; }

# change OLD NEW PLACE: writes the blocks of 4 KiB in which the images differ to a file, a diff of
# RBD or commands of qemu-io.
change() { python3 benches/lib/changed.py "$@"; }

size_of() { stat -c %s "$1"; }

# moved BYTES [FILE|PACKED]: notes the bytes of an increment, and those that zstd makes of it.
moved() {
    local packed=${2:-$1}
    [ ! -f "$packed" ] || packed=$(zstd -3 -c "$packed" 2>/dev/null | wc -c)
    echo "$1 $packed" >>"$directory/moved"
}

# row SPACE [no-memory]: the row of a system. The first image is not counted.
row() {
    python3 - "$system" "$directory" "$@" <<'END'
import os, sys
system, directory, space, *rest = sys.argv[1:]
lines = lambda name: [list(map(float, line.split())) for line in open(f"{directory}/{name}")] if os.path.exists(f"{directory}/{name}") else []
moved, cost = lines("moved"), lines("cost")
sums = [sum(column) / 1e6 for column in zip(*moved)]
seconds = f"{sum(line[0] for line in cost):8.1f}" if cost else "       -"
memory = f"{max(line[1] for line in cost):8.0f}" if cost and not rest else "       -"
space = f"{float(space) / 1e6:9.0f}" if space != "-" else "        -"
print(f"{system:42} {sums[0]:9.1f} {sums[1]:9.1f} {seconds} {memory} {space}", flush=True)
END
    rm -f "$directory/moved" "$directory/cost"
}

gemelo_space() {
    "$gemelo" pool stat "$1" --json - | python3 -c '
import json, sys
pool = json.load(sys.stdin)["result"]["pool"]
print(pool["used_blocks"] * pool["block_bytes"] + pool["metadata_used_bytes"])'
}

# of_gemelo WAY COMPRESSION [LEVEL]: with a level, streams are compressed by it.
of_gemelo() {
    local number here=$directory/here there=$directory/there since
    local compress=${3:+--compress $3}
    system="gemelo $1 $compress, compression $2"
    "$gemelo" pool create "$here" --capacity 8g --compression "$2" >/dev/null
    "$gemelo" pool create "$there" --capacity 8g --compression "$2" >/dev/null
    # It counts what goes there, also by zstd, and what comes back.
    cat >"$directory/counting" <<END
#!/bin/bash
[ "\$2" = receive ] || exec $gemelo "\$@"
tee >(wc -c >$directory/in) >(zstd -3 -c | wc -c >$directory/packed) | $gemelo "\$@" | tee >(wc -c >$directory/out)
END
    chmod +x "$directory/counting"
    for number in 1 2 3 4 5; do
        "$gemelo" volume import "$images-$number" "$here/v" --force >/dev/null
        "$gemelo" volume snapshot "$here/v" "s$number" >/dev/null
        if [ "$1" = copy ]; then
            measured "$gemelo volume copy $compress $here/s$number host:$there/s$number --connect 'sh -c' --program $directory/counting"
            sleep 3
            moved $(($(cat "$directory/in") + $(cat "$directory/out"))) "$(($(cat "$directory/packed") + $(cat "$directory/out")))"
        else
            since=()
            [ "$number" = 1 ] || since=(--since "$here/s$((number - 1))")
            measured "$gemelo volume send $compress $here/s$number ${since[*]} >$directory/stream; $gemelo volume receive $there/s$number <$directory/stream"
            moved "$(size_of "$directory/stream")" "$directory/stream"
        fi
        [ "$number" != 1 ] || rm "$directory/moved" "$directory/cost"
    done
    row "$(gemelo_space "$there")"
    rm -rf "$here" "$there" "$directory/stream"
}

of_zfs() {
    system="zfs-fuse send -i, records of 4 KiB"
    has zfs-fuse zpool zfs || return 0
    zfs-fuse --no-daemon >/dev/null 2>&1 &
    daemon=$!
    sleep 3
    truncate -s 16g "$directory/disk"
    zpool create -m "$mount" gemelocopies "$directory/disk"
    zfs create -o recordsize=4k gemelocopies/a
    touch "$mount/a/image"
    local number base=
    for number in 1 2 3 4 5; do
        change "${base:--}" "$images-$number" "$mount/a/image"
        sync
        zfs snapshot "gemelocopies/a@$number"
        if [ "$number" = 1 ]; then
            zfs send "gemelocopies/a@1" | zfs receive gemelocopies/b
        else
            measured "zfs send -i gemelocopies/a@$((number - 1)) gemelocopies/a@$number >$directory/stream; zfs receive -F gemelocopies/b <$directory/stream"
            moved "$(size_of "$directory/stream")" "$directory/stream"
        fi
        base=$images-$number
    done
    row "$(zfs get -Hp -o value used gemelocopies/b)" no-memory
    for _ in $(seq 20); do zpool destroy -f gemelocopies 2>/dev/null && break || sleep 1; done
    kill "$daemon"
    wait "$daemon" 2>/dev/null || true
    daemon=
    rm -f "$directory/disk" "$directory/stream"
}

of_btrfs() {
    system="btrfs send -p"
    has mkfs.btrfs btrfs || return 0
    truncate -s 16g "$directory/disk"
    mkfs.btrfs -q "$directory/disk" >/dev/null 2>&1
    mount -o loop "$directory/disk" "$mount" || return 0
    btrfs subvolume create "$mount/a" >/dev/null
    mkdir "$mount/b"
    touch "$mount/a/image"
    local number base= empty
    for number in 1 2 3 4 5; do
        change "${base:--}" "$images-$number" "$mount/a/image"
        btrfs subvolume snapshot -r "$mount/a" "$mount/s$number" >/dev/null
        sync
        if [ "$number" = 1 ]; then
            empty=$(df -B1 --output=used "$mount" | tail -1)
            btrfs -q send "$mount/s1" | btrfs -q receive "$mount/b"
        else
            measured "btrfs -q send -p $mount/s$((number - 1)) $mount/s$number -f $directory/stream; btrfs -q receive -f $directory/stream $mount/b"
            moved "$(size_of "$directory/stream")" "$directory/stream"
        fi
        base=$images-$number
    done
    sync
    empty=$(df -B1 --output=used "$mount" | tail -1)
    btrfs -q subvolume delete "$mount"/b/s? >/dev/null
    btrfs subvolume sync "$mount" >/dev/null 2>&1 || true
    sync
    row "$((empty - $(df -B1 --output=used "$mount" | tail -1)))" no-memory
    umount "$mount"
    rm -f "$directory/disk" "$directory/stream"
}

# of_store KIND: a backup store, which gets each image under the same name.
of_store() {
    local number before store=$directory/store
    system="$1"
    has "$1" || return 0
    export RESTIC_PASSWORD=x RESTIC_CACHE_DIR=$directory/cache BORG_BASE_DIR=$directory/borg
    if [ "$1" = restic ]; then restic -q -r "$store" init; else borg init -e none "$store" 2>/dev/null; fi
    for number in 1 2 3 4 5; do
        ln -f "$images-$number" "$directory/image"
        before=$(du -sB1 "$store" | cut -f1)
        if [ "$1" = restic ]; then
            measured "restic -q -r $store backup $directory/image"
        else
            measured "borg create --files-cache disabled $store::$number $directory/image"
        fi
        moved $(($(du -sB1 "$store" | cut -f1) - before))
        [ "$number" != 1 ] || rm "$directory/moved" "$directory/cost"
    done
    row "$(du -sB1 "$store" | cut -f1)"
    rm -rf "$store" "$directory/cache" "$directory/borg" "$directory/image"
}

of_rbd() {
    system="rbd export-diff"
    [ -n "${CEPH:-}" ] || { echo "$system: left out, CEPH=1 starts a cluster" >&2; return 0; }
    has ceph-osd rbd || return 0
    ceph=$directory/ceph
    scripts/ceph.sh start "$ceph" >/dev/null 2>&1
    local number base= rbd="rbd --conf $ceph/ceph.conf --no-progress"
    for image in a b; do $rbd create "gemelo/$image" --size "$(size_of "$images-1")B"; done
    for number in 1 2 3 4 5; do
        change "${base:--}" "$images-$number" rbd >"$directory/change"
        $rbd import-diff "$directory/change" gemelo/a
        $rbd snap create "gemelo/a@$number" >/dev/null
        if [ "$number" = 1 ]; then
            $rbd export-diff "gemelo/a@1" - | $rbd import-diff - gemelo/b
        else
            measured "rm -f $directory/stream; $rbd export-diff --from-snap $((number - 1)) gemelo/a@$number $directory/stream; $rbd import-diff $directory/stream gemelo/b"
            moved "$(size_of "$directory/stream")" "$directory/stream"
        fi
        base=$images-$number
    done
    row "$(rbd --conf "$ceph/ceph.conf" diff gemelo/b --format json | python3 -c 'import json, sys; print(sum(part["length"] for part in json.load(sys.stdin)))')"
    scripts/ceph.sh stop "$ceph" >/dev/null 2>&1
    ceph=
    rm -f "$directory/change" "$directory/stream"
}

# The dirty blocks, as nbdcopy-like programs read them. Their contents are not copied.
of_qemu() {
    system="qemu dirty bitmaps of 64 KiB"
    has qemu-img qemu-io qemu-nbd nbdinfo || return 0
    local number bytes
    qemu-img convert -O qcow2 "$images-1" "$directory/q"
    for number in 2 3 4 5; do
        qemu-img bitmap --add "$directory/q" "b$number"
        mkdir "$directory/runs"
        change "$images-$((number - 1))" "$images-$number" qemu-io "$directory/runs" >"$directory/commands"
        qemu-io -f qcow2 "$directory/q" <"$directory/commands" >/dev/null
        rm -r "$directory/runs"
        bytes=$(nbdinfo --json --map="qemu:dirty-bitmap:b$number" -- [ qemu-nbd -r -f qcow2 -B "b$number" "$directory/q" ] | python3 -c '
import json, sys
print(sum(row["length"] for row in json.load(sys.stdin) if row["type"] & 1))')
        moved "$bytes"
        qemu-img bitmap --remove "$directory/q" "b$number"
    done
    row -
    rm -f "$directory/q" "$directory/commands"
}

for data in "${@:-nights trees}"; do
    for data in $data; do
        if [ "$data" = nights ]; then
            scripts/nightly-images.sh "${NIGHTS:-$directory/nights}"
            images=${NIGHTS:-$directory/nights}/night
        else
            trees
            images=$directory/trees
        fi
        printf '%-42s %9s %9s %8s %8s %9s\n' "$data: four increments" "moved MB" "zstd MB" "seconds" "peak MB" "space MB"
        for one in ${SYSTEMS:-copy send zfs btrfs restic borg rbd qemu}; do
            case $one in
            copy | send)
                for compression in off zstd; do
                    of_gemelo "$one" "$compression"
                    of_gemelo "$one" "$compression" 3
                done
                ;;
            restic | borg) of_store "$one" ;;
            *) "of_$one" ;;
            esac
        done
    done
done
