#!/usr/bin/env python3
"""Boots a guest for each system and round, and prints what its requests cost.

Usage: guest.py DIRECTORY SYSTEMS ROUNDS SCALE, with the programs in GEMELO, BASE and VDOFORMAT. The
guest has everything in its initial memory disk, does its jobs and powers off. It prints a line for
each job to a serial port: operations, busy time of the processor, and time of the server.
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

CPU = os.environ.get("GUEST_CPU", "max,-erms,-fsrm,-fsrs,-fzrm")
# 98 % have contents of a set of 164. Two jobs with one seed do not write the same contents at depth 32.
DUPLICATES = "size=64m randseed=13 dedupe_percentage=98 dedupe_mode=working_set dedupe_working_set_percentage=1"
# Of each job: what is measured, its options for fio, and MiB that it transfers.
JOBS = [
    ("warm", "4 KiB writes before", "rw=randwrite bs=4k iodepth=32 offset=3g size=64m randseed=9", 1),
    ("u32", "4 KiB unique writes, depth 32", "rw=randwrite bs=4k iodepth=32 offset=0 size=512m randseed=11", 32),
    ("u1", "4 KiB unique writes, depth 1", "rw=randwrite bs=4k iodepth=1 offset=0 size=512m randseed=12", 8),
    ("d32", "4 KiB duplicates, depth 32", f"rw=randwrite bs=4k iodepth=32 offset=1g {DUPLICATES}", 32),
    ("d1", "4 KiB duplicates, depth 1", f"rw=randwrite bs=4k iodepth=1 offset=1280m {DUPLICATES}", 8),
    ("f32", "4 KiB writes, a flush each 64", "rw=randwrite bs=4k iodepth=32 offset=0 size=512m randseed=15 fsync=64", 16),
    ("w1m", "1 MiB writes", "rw=write bs=1m iodepth=4 offset=2g size=512m randseed=16 fsync=64", 128),
    ("r32", "4 KiB reads, depth 32", "rw=randread bs=4k iodepth=32 offset=2g size=128m randseed=17", 32),
    ("r1", "4 KiB reads, depth 1", "rw=randread bs=4k iodepth=1 offset=2g size=128m randseed=18", 8),
    ("r1m", "1 MiB reads", "rw=read bs=1m iodepth=4 offset=2g size=512m", 128),
    ("w64", "64 KiB writes", "rw=write bs=64k iodepth=4 offset=2560m size=256m randseed=19 fsync=64", 64),
    ("r64", "64 KiB reads", "rw=read bs=64k iodepth=4 offset=2560m size=256m", 64),
    ("o32", "4 KiB overwrites, depth 32", "rw=randwrite bs=4k iodepth=32 offset=2g size=128m randseed=20", 24),
]
# JOBS= names some of them.
if os.environ.get("JOBS"):
    JOBS = [job for job in JOBS if job[0] in ["warm", *os.environ["JOBS"].split(",")]]
# Modules in the order in which they are loaded, found by their names.
DRIVERS = ["virtio_pci", "virtio_blk", "ext4", "nbd", "ublk_drv"]
VOLUME_GIB, DISK_GIB = 6, 12
# Systems of this project: over the kernel's NBD, an earlier build, and by ublk.
POOLS = ("gemelo", "base", "gemelo-ublk")

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LC_ALL=C
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
mkdir -p /dev/shm; mount -t tmpfs t /dev/shm; mount -t tmpfs t /tmp; mount -t tmpfs t /run
for module in $(cat /modules/order); do insmod /modules/$module.ko; done
ip link set lo up
ulimit -n 65536
sh /job.sh >/dev/ttyS1 2>&1
sync
poweroff -f
"""

# The state of the processor: ns that tasks have run, and those of the server's threads.
COUNT = """#!/bin/sh
served=0
if [ -s /tmp/server ]; then
    for task in /proc/$(cat /tmp/server)/task/*/schedstat; do
        read ran rest <$task; served=$((served + ran))
    done
fi
while read name _ _ _ _ _ _ ran _; do
    case $name in cpu[0-9]*) busy=$((busy + ran)) ;; esac
done </proc/schedstat
echo $busy $served >$1
"""

START = """
fail() { echo "FAILED $*"; cat /tmp/log 2>/dev/null; poweroff -f; }
until_there() { for try in $(seq 200); do [ -e $1 ] && return; sleep 0.1; done; fail "no $1"; }
on_ext4() {
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/vda && mkdir -p /p &&
        mount -t ext4 -o noatime /dev/vda /p || fail mount
}
attach() {
    until_there /run/socket
    nbd-client -unix /run/socket /dev/nbd0 $1 -b 4096 -C 1 >/tmp/log 2>&1 || fail nbd-client
    device=/dev/nbd0
}
"""

# fio counts itself, so that its beginning and its report are left out.
JOB = """
fio --name={name} --exec_prerun="/count /tmp/before" --exec_postrun="/count /tmp/after" \\
    --filename=$device --ioengine=libaio --direct=1 --refill_buffers --norandommap \\
    --randrepeat=1 --thread --output-format=json --output=/tmp/{name}.json {options} \\
    >/tmp/log 2>&1 || fail {name}
ios=$(awk '/"total_ios"/ {{ gsub(/[^0-9]/, ""); sum += $0 }} /"sync"/ {{ exit }} END {{ print sum }}' /tmp/{name}.json)
echo "JOB {name} $ios $(cat /tmp/before) $(cat /tmp/after)"
"""


def set_up(system):
    """The part of the guest's script that gives it a device."""
    name, _, options = system.partition(":")
    if name == "raw":
        return "device=/dev/vda\n"
    if name == "nbdkit":
        return f"""on_ext4
truncate -s {VOLUME_GIB}G /p/file
nbdkit -f -U /run/socket file /p/file >/tmp/log 2>&1 & echo $! >/tmp/server
attach ''
"""
    if name in POOLS:
        program = "base" if name == "base" else "gemelo"
        serve = f"/{program} serve /p/pool"
        if name == "gemelo-ublk":
            ways = f"{serve} --ublk v >/tmp/log 2>&1 & echo $! >/tmp/server\nuntil_there /dev/ublkb0\ndevice=/dev/ublkb0"
        else:
            ways = f"{serve} --listen unix:/run/socket >/tmp/log 2>&1 & echo $! >/tmp/server\nattach '-N v'"
        return f"""on_ext4
/{program} pool create /p/pool --capacity 8g {options} -q >/tmp/log 2>&1 || fail create
/{program} volume create /p/pool/v --size {VOLUME_GIB}g -q >/tmp/log 2>&1 || fail volume
{ways}
"""
    if name == "vdo":
        sectors = VOLUME_GIB << 21
        return f"""vdoformat --logical-size={VOLUME_GIB}G /dev/vda >/tmp/log 2>&1 || fail vdoformat
mkdir -p /dev/mapper
[ -c /dev/mapper/control ] || mknod /dev/mapper/control c 10 $(awk '$2 == "device-mapper" {{ print $1 }}' /proc/misc)
physical=$(($(blockdev --getsize64 /dev/vda) / 4096))
dmsetup --noudevsync create vdo --table "0 {sectors} vdo V4 /dev/vda $physical 4096 32768 16380 deduplication on compression off" >/tmp/log 2>&1 || fail dmsetup
[ -b /dev/mapper/vdo ] || dmsetup mknodes
device=/dev/mapper/vdo
"""
    sys.exit(f"guest: '{system}' is no system: raw, nbdkit, gemelo, gemelo-ublk, either with :OPTIONS, base or vdo")


def stored(system):
    """Counts the duplicates that the store itself has seen."""
    name = system.partition(":")[0]
    if name in POOLS:
        program = "base" if name == "base" else "gemelo"
        lines = "tr -s ' \\n' '  ' </tmp/stat | grep -oE '(unique|duplicate) blocks [0-9,]+' | tr '\\n' ' '"
        return f'/{program} pool stat /p/pool >/tmp/stat 2>&1; echo "STORED $({lines})"\n'
    if name == "vdo":
        return "echo \"STORED $(dmsetup status vdo)\"\n"
    return ""


def script(system, scale):
    parts = [START, set_up(system), "sleep 1\n"]
    for name, _, options, mebibytes in JOBS:
        kibibytes = max(64, int(mebibytes * scale * 1024))
        given = " ".join(f"--{option}" for option in f"{options} io_size={kibibytes}k".split())
        parts.append(JOB.format(name=name, options=given))
    return "".join(parts) + stored(system) + "echo DONE\n"


class Root:
    """The files of the guest."""

    def __init__(self, place, kernel):
        self.path = place / "root"
        shutil.rmtree(self.path, ignore_errors=True)
        for name in "bin sbin usr/bin usr/sbin lib lib64 proc sys dev tmp run modules etc".split():
            (self.path / name).mkdir(parents=True)
        self.kernel = kernel
        self.release = next((kernel / "lib/modules").iterdir()).name
        self.modules = []
        (self.path / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")

    def add(self, file, name=None):
        """Adds a program or a library, with the libraries that it needs."""
        source = Path(file).resolve()
        to = self.path / (name or str(file).lstrip("/"))
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, to)
        needed = subprocess.run(["ldd", source], capture_output=True, text=True).stdout
        for library in re.findall(r"(/\S+\.so\S*)", needed):
            if not (self.path / library.lstrip("/")).exists():
                self.add(library)

    def program(self, name):
        found = shutil.which(name)
        if found is None:
            sys.exit(f"guest: there is no {name}")
        self.add(found)

    def module(self, name):
        """Adds a module after those that it needs."""
        folder = self.kernel / "lib/modules" / self.release
        lines = (folder / "modules.dep").read_text().splitlines()
        wanted = re.compile(rf"(^|/){re.escape(name)}\.ko(\.xz)?:")
        line = next((line for line in lines if wanted.search(line.split(":")[0] + ":")), None)
        if line is None:
            return
        file, _, needed = line.partition(":")
        for other in reversed([file, *needed.split()]):
            short = Path(other).name.split(".")[0]
            if short not in self.modules:
                self.modules.append(short)
                data = (folder / other).read_bytes()
                if other.endswith(".xz"):
                    data = subprocess.run(["xz", "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout
                (self.path / f"modules/{short}.ko").write_bytes(data)

    def pack(self, to):
        (self.path / "modules/order").write_text("\n".join(self.modules) + "\n")
        names = subprocess.run(["find", "."], cwd=self.path, capture_output=True, check=True).stdout
        with open(to, "wb") as archive:
            subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=self.path, input=names, stdout=archive, check=True)


def root_for(place, kernel, systems):
    root = Root(place, kernel)
    root.add("/bin/busybox", "bin/busybox")
    for name in ("fio", "nbd-client", "nbdkit", "mkfs.ext4", "dmsetup"):
        root.program(name)
    for plugin in Path("/usr/lib").rglob("nbdkit-file-plugin.so"):
        root.add(plugin)
    root.add(os.environ["GEMELO"], "gemelo")
    names = {system.partition(":")[0] for system in systems}
    for name, variable, to in (("base", "BASE", "base"), ("vdo", "VDOFORMAT", "bin/vdoformat")):
        if name in names:
            root.add(os.environ.get(variable) or sys.exit(f"guest: {variable} names no program"), to)
    for driver in DRIVERS + (["dm-vdo"] if "vdo" in names else []):
        root.module(driver)
    for name, text in (("init", INIT), ("count", COUNT)):
        (root.path / name).write_text(text)
        (root.path / name).chmod(0o755)
    return root


def fresh_disk(place, size):
    """An empty disk of the guest."""
    disk = place / "disk"
    disk.unlink(missing_ok=True)
    with open(disk, "wb") as file:
        file.truncate(size)
    return disk


def run(place, root, what, job, disks):
    """Boots the guest with a job and disks. Returns what the job says, which ends with DONE."""
    (root.path / "job.sh").write_text(job)
    root.pack(place / "initrd")
    log, console = place / "serial", place / "console"
    image = next((root.kernel / "boot").glob("vmlinuz-*"))
    drives = [word for disk in disks
              for word in ("-drive", f"file={disk},if=virtio,format=raw,cache=unsafe,aio=threads,discard=unmap")]
    subprocess.run(
        ["qemu-system-x86_64", "-cpu", CPU, "-m", "4g", "-smp", "1", "-nodefaults", "-display", "none",
         "-no-reboot", "-accel", "tcg", "-icount", "shift=1,sleep=on", "-kernel", image,
         "-initrd", place / "initrd", "-append", "console=ttyS0 panic=-1 quiet mitigations=off",
         *drives, "-serial", f"file:{console}", "-serial", f"file:{log}"],
        stdin=subprocess.DEVNULL, check=True, timeout=7200)
    said = log.read_text(errors="replace")
    if "DONE" not in said:
        sys.exit(f"guest: {what} has not ended:\n{said[-3000:]}\n{console.read_text(errors='replace')[-2000:]}")
    return said


def boot(place, root, system, scale):
    """Runs the jobs of a system. Returns ns an operation by job: of the guest, and of the server."""
    disk = fresh_disk(place, DISK_GIB << 30)
    said = run(place, root, system, script(system, scale), [disk])
    disk.unlink()
    found = {}
    for name, ios, *counts in re.findall(r"JOB (\w+) (\d+) (\d+) (\d+) (\d+) (\d+)", said):
        busy, served, busy_after, served_after = map(int, counts)
        operations = max(int(ios), 1)
        found[name] = ((busy_after - busy) / operations, (served_after - served) / operations)
    return found, next(iter(re.findall(r"STORED (.*)", said)), "")


def main():
    place, systems = Path(sys.argv[1]), sys.argv[2].split(",")
    rounds, scale = int(sys.argv[3]), float(sys.argv[4])
    for system in systems:
        set_up(system)
    root = root_for(place, place / "kernel", systems)
    all_of = {system: {} for system in systems}
    with open(place / "results.jsonl", "a") as results:
        for number in range(rounds):
            for system in systems if number % 2 == 0 else reversed(systems):
                found, seen = boot(place, root, system, scale)
                for name, cost in found.items():
                    all_of[system].setdefault(name, []).append(cost)
                line = {"system": system, "round": number, "cpu": CPU, "ns": found, "stored": seen}
                results.write(json.dumps(line) + "\n")
                results.flush()
                print(f"round {number + 1}, {system}: done; by its own count {seen or 'nothing'}", file=sys.stderr)
    print(f"us of guest time an operation (500 instructions), in brackets the server's; medians of {rounds}")
    print(f"{'':32}" + "".join(f"{system[:20]:>22}" for system in systems))
    for name, what, *_ in JOBS[1:]:
        cells = []
        for system in systems:
            whole, own = (statistics.median(cost[at] for cost in all_of[system][name]) / 1000 for at in (0, 1))
            cells.append(f"{whole:,.1f} ({own:,.1f})")
        print(f"{what:32}" + "".join(f"{cell:>22}" for cell in cells))


if __name__ == "__main__":
    main()
