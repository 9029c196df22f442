#!/usr/bin/env python3
"""Compares a disk of gemelo by ublk with dm-vdo in a guest: space, memory, a power-off, a full disk.

Usage: vdo.py DIRECTORY TREE, as `benches/vdo.sh` calls it: TREE is an archive of a source tree. Each
system boots three times: it stores files, it is asked what is there after the power went, and a
small one is filled. Both compress.
"""

import random
import re
import subprocess
import sys
from pathlib import Path

import guest

SYSTEMS = ("gemelo", "vdo")
MIB = 1 << 20
# The disk of a small store: dm-vdo needs 2.5 GiB of it for its index alone.
SMALL_GIB, SMALL_POOL = 4, "1g"

COMMON = """
fail() { echo "FAILED $*"; cat /tmp/log 2>/dev/null; poweroff -f; }
until_there() { for try in $(seq 400); do [ -e $1 ] && return; sleep 0.05; done; fail "no $1"; }
# Without a word to any disk, as at a loss of power. An orderly end of a full dm-vdo does not return.
end() { echo DONE; sleep 1; echo b >/proc/sysrq-trigger; sleep 60; }
now() { awk '{ print $1 }' /proc/uptime; }
field() {
    tr ',{}' '\\n\\n\\n' </tmp/stat | awk -F: -v name="\\"$1\\"" '$1 ~ name { print $2; exit }'; }
"""

# Of each system: make a store, open it again, the bytes in use, and the bytes of memory.
GEMELO = """
LOGICAL=6g CAPACITY={capacity}
serve() {{
    /gemelo serve /p/pool --ublk v >/tmp/log 2>&1 & server=$!
    echo $server >/tmp/server
    until_there /dev/ublkb0
    device=/dev/ublkb0
}}
make() {{
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/vda && mount -t ext4 -o noatime /dev/vda /p || fail mount
    /gemelo pool create /p/pool --capacity $CAPACITY --compression lz4 -q >/tmp/log 2>&1 || fail create
    /gemelo volume create /p/pool/v --size $LOGICAL -q >/tmp/log 2>&1 || fail volume
    serve
}}
again() {{ mount -t ext4 -o noatime /dev/vda /p || fail mount; serve; }}
used() {{
    sync; sleep 2
    /gemelo pool stat /p/pool --json - >/tmp/stat 2>/tmp/log || fail stat
    echo $(($(field used_blocks) * 4096 + $(field metadata_used_bytes) + $(field journal_used_bytes)))
}}
memory() {{ awk '/^Rss(Anon|Shmem)/ {{ sum += $2 }} END {{ print sum * 1024 }}' /proc/$server/status; }}
"""

VDO = """
LOGICAL=6G
mkdir -p /dev/mapper
[ -c /dev/mapper/control ] || mknod /dev/mapper/control c 10 $(awk '$2 == "device-mapper" {{ print $1 }}' /proc/misc)
again() {{
    physical=$(($(blockdev --getsize64 /dev/vda) / 4096))
    dmsetup --noudevsync create vdo --table "0 $((6 << 21)) vdo V4 /dev/vda $physical 4096 32768 16380 deduplication on compression on" >/tmp/log 2>&1 || fail dmsetup
    [ -b /dev/mapper/vdo ] || dmsetup mknodes
    device=/dev/mapper/vdo
}}
make() {{ vdoformat --logical-size=$LOGICAL {options} /dev/vda >/tmp/log 2>&1 || fail vdoformat; again; }}
used() {{
    # Packed blocks are written after a time, or by a flush.
    sync; sleep 2
    echo $(($(dmsetup status vdo | awk '{{ print $9 }}') * 4096))
}}
memory() {{ dmsetup message vdo 0 stats | tr ',' '\\n' | awk '/bytesUsed/ {{ print $NF; exit }}'; }}
"""

# Steps of the first boot: what is done on the file system of the store.
STEPS = [
    ("mkfs", "an empty ext4", "mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 $device && mount -t ext4 -o noatime $device /d"),
    ("tree", "a source tree unpacked", "mkdir /d/one && tar -xf /s/tree.tar -C /d/one"),
    ("copy", "a copy of it", "cp -a /d/one /d/two"),
    ("trim", "the copy removed, fstrim", "rm -r /d/two && sync && fstrim /d"),
    ("zeros", "64 MiB of zeros", "dd if=/dev/zero of=/d/zeros bs=1M count=64"),
    ("half", "64 MiB, half compressible", "cp /s/half /d"),
    ("image", "an image of 64 MiB", "cp /s/image0 /d"),
    ("images", "two more, 5 % changed", "cp /s/image1 /s/image2 /d"),
]

STORE = """
mkdir -p /p /d /s; mount -t ext4 -o ro /dev/vdb /s || fail source
make
echo "MEMORY fresh $(memory)"
echo "SPACE fresh $(used) 0"
step() {
    /count /tmp/before
    sh -ec "$2" >/tmp/log 2>&1 || fail $1
    sync
    /count /tmp/after
    read before rest </tmp/before; read after rest </tmp/after
    echo "SPACE $1 $(used) $((after - before))"
}
export device
"""

POWER = """
echo "MEMORY full $(memory)"
(cd /d; sha256sum half image0 image1 image2) >/tmp/sums; cp /tmp/sums /d/sums; sync
dd if=/dev/urandom of=/d/late bs=64k count=200 2>/dev/null
end
"""

READY = """
mkdir -p /p /d
before=$(now)
again
dd if=$device of=/dev/null bs=4k count=1 iflag=direct >/tmp/log 2>&1 || fail read
dd if=/dev/zero of=$device bs=4k count=1 seek=$(((6 << 18) - 1)) oflag=direct conv=fsync,notrunc >/tmp/log 2>&1 || fail write
echo "READY $before $(now)"
mount -t ext4 -o noatime $device /d || fail mount
if (cd /d; sha256sum -c sums) >/tmp/log 2>&1; then echo "CHECK all files whole"; else echo "CHECK FAILED"; fi
echo "MEMORY again $(memory)"
end
"""

FULL = """
mkdir -p /p /d
make
written() { sed -n 's/ bytes.*//p' /tmp/log | tail -n 1; }
dd if=/dev/urandom of=/tmp/one bs=1M count=64 2>/dev/null
dd if=/tmp/one of=$device bs=1M oflag=direct conv=notrunc >/tmp/log 2>&1
before=$(now)
at=64 bad=0
# Unique blocks: a megabyte of random bytes, each a different one.
while [ $at -lt 4096 ]; do
    dd if=/dev/urandom of=$device bs=1M count=16 seek=$at oflag=direct conv=notrunc >/tmp/log 2>&1 || { bad=1; break; }
    at=$((at + 16))
done
echo "FULL after $at MiB: $(tail -n 1 /tmp/log | sed 's/.*: //') $(grep -o 'No space[^:]*\\|I.O error\\|Input.output[^:]*' /tmp/log | head -n 1)"
if dd if=$device bs=1M count=64 iflag=direct 2>/dev/null | cmp - /tmp/one >/tmp/log 2>&1; then echo "FULL what was written first reads well"; else echo "FULL what was written first is LOST"; fi
dd if=/dev/urandom of=$device bs=1M count=1 seek=5000 oflag=direct conv=notrunc >/tmp/log 2>&1 && echo "FULL and a new block is written" || echo "FULL and a new block is refused"
dd if=/tmp/one of=$device bs=1M count=1 seek=5001 oflag=direct conv=notrunc >/tmp/log 2>&1 && echo "FULL a duplicate is written" || echo "FULL a duplicate is refused"
blkdiscard -o $((128 << 20)) -l $((256 << 20)) $device >/tmp/log 2>&1 && echo "FULL a discard of 256 MiB is accepted" || echo "FULL a discard is refused"
sleep 3
at=0
while [ $at -lt 128 ]; do
    dd if=/dev/urandom of=$device bs=1M count=16 seek=$((128 + at)) oflag=direct conv=notrunc >/tmp/log 2>&1 || break
    at=$((at + 16))
done
echo "FULL then $at of 128 MiB are written again"
end
"""


def system_script(system, is_small):
    if system == "vdo":
        return COMMON + VDO.format(options="--slab-bits=13" if is_small else "")
    return COMMON + GEMELO.format(capacity=SMALL_POOL if is_small else "8g")


def sources(place, tree):
    """A disk with the files that the guest stores."""
    folder = place / "sources"
    folder.mkdir(exist_ok=True)
    (folder / "tree.tar").write_bytes(Path(tree).read_bytes())
    draw = random.Random(7)
    half = b"".join(draw.randbytes(2048) + bytes(2048) for _ in range(64 * MIB // 4096))
    (folder / "half").write_bytes(half)
    image = bytearray(draw.randbytes(64 * MIB))
    for number in range(3):
        (folder / f"image{number}").write_bytes(image)
        for _ in range(51):
            at = draw.randrange(1023) << 16
            image[at:at + (1 << 16)] = draw.randbytes(1 << 16)
    disk = place / "sources.img"
    disk.unlink(missing_ok=True)
    with open(disk, "wb") as file:
        file.truncate(768 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-d", folder, disk], check=True)
    return disk


def main():
    place, tree = Path(sys.argv[1]), sys.argv[2]
    source = sources(place, tree)
    root = guest.root_for(place, place / "kernel", ["gemelo-ublk", "vdo"])
    for name in ("fstrim", "blkdiscard"):
        root.program(name)
    said = {}
    for system in SYSTEMS:
        disk = guest.fresh_disk(place, guest.DISK_GIB << 30)
        steps = "".join(f"step {name} '{script}'\n" for name, _, script in STEPS)
        prepared = system_script(system, is_small=False)
        text = guest.run(place, root, system, prepared + STORE + steps + POWER, [disk, source])
        text += guest.run(place, root, system, prepared + READY, [disk, source])
        disk = guest.fresh_disk(place, SMALL_GIB << 30)
        text += guest.run(place, root, system, system_script(system, is_small=True) + FULL, [disk])
        disk.unlink()
        said[system] = text
        print(f"{system}: done", file=sys.stderr)
    source.unlink()
    report(said)


def report(said):
    spaces = {system: {name: (int(used), int(ns)) for name, used, ns in re.findall(r"SPACE (\w+) (\d+) (\d+)", text)}
              for system, text in said.items()}
    print(f"{'':32}{'gemelo MiB':>12}{'dm-vdo MiB':>12}{'ratio':>8}{'gemelo s':>10}{'dm-vdo s':>10}{'ratio':>8}")
    last = "fresh"
    for name, what, _ in STEPS:
        grown = [(spaces[system][name][0] - spaces[system][last][0]) / MIB for system in SYSTEMS]
        time = [spaces[system][name][1] / 1e9 for system in SYSTEMS]
        ratio = f"{grown[0] / grown[1]:.2f}" if grown[1] > 0 < grown[0] else "-"
        print(f"{what:32}{grown[0]:12.1f}{grown[1]:12.1f}{ratio:>8}{time[0]:10.2f}{time[1]:10.2f}{time[0] / time[1]:8.2f}")
        last = name
    fresh = [spaces[system]["fresh"][0] / MIB for system in SYSTEMS]
    print(f"{'metadata of the empty store':32}{fresh[0]:12.1f}{fresh[1]:12.1f}{fresh[0] / fresh[1]:8.2f}")
    for name, what in (("fresh", "memory, empty"), ("full", "memory, after all"), ("again", "memory, opened again")):
        found = [int(re.search(rf"MEMORY {name} (\d+)", said[system])[1]) / MIB for system in SYSTEMS]
        print(f"{what:32}{found[0]:12.1f}{found[1]:12.1f}{found[0] / found[1]:8.2f}")
    ready = [[float(word) for word in re.search(r"READY (\S+) (\S+)", said[system]).groups()] for system in SYSTEMS]
    took = [after - before for before, after in ready]
    print(f"{'ready after a power-off, s':32}{took[0]:12.2f}{took[1]:12.2f}{took[0] / max(took[1], 0.01):8.2f}")
    for system in SYSTEMS:
        for line in re.findall(r"(?:CHECK|FULL) .*", said[system]):
            print(f"{system}: {line.split(' ', 1)[1]}")


main()
