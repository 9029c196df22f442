#!/usr/bin/env python3
"""Does random things with disks and files of a pool that its unit serves, and checks each content
against a model: requests of all kinds, snapshots, sizes, attach and detach, and files as fsx does,
while the server is killed and restarted.

    random_load.py POOL UNIT SECONDS [SEED]

The pool has the volumes disk1 and disk2, which are disks and as large as they are here at first,
and the directories after it are file systems on others: /random/ext4 and /random/xfs."""
import ctypes
import fcntl
import mmap
import os
import random
import struct
import subprocess
import sys
import threading
import time

M = 1 << 20
SECTOR, LONGEST = 512, 256 << 10
BLKDISCARD, BLKZEROOUT, BLKGETSIZE64 = 0x1277, 0x127F, 0x80081272
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
LIBC = ctypes.CDLL(None, use_errno=True)
pool, unit, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3])
seed = int(sys.argv[4]) if len(sys.argv) > 4 else int(time.time())
end = time.time() + seconds
counts, failures, counting = {}, [], threading.Lock()


def count(what):
    with counting:
        counts[what] = counts.get(what, 0) + 1


def run(*command, done=None):
    """Runs a command. While the server dies and comes back, it is tried again. `done` is the error
    of one that a server has done before it died."""
    for _ in range(30):
        ran = tried(*command)
        if ran.returncode == 0 or done and done in ran.stderr:
            return ran.stdout
        time.sleep(1)
    raise AssertionError(f"{' '.join(command)}: {ran.stderr[-300:]}")


def tried(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def gemelo(*arguments, done=None):
    return run("gemelo", *arguments, done=done)


def aligned(data):
    """Memory at the beginning of a page, as direct requests want it."""
    memory = mmap.mmap(-1, max(len(data), 1))
    memory.write(data)
    return memory


def same(found, model, place):
    if found != model:
        assert len(found) == len(model), f"{place}: {len(found)} bytes instead of {len(model)}"
        at = next(i for i, (one, other) in enumerate(zip(found, model)) if one != other)
        raise AssertionError(f"{place}: another content at byte {at} of {len(model)}")


class Worker(threading.Thread):
    def __init__(self, name):
        super().__init__(name=name, daemon=True)
        self.chance = random.Random(f"{seed} {name}")

    def run(self):
        try:
            self.begin()
            while time.time() < end and not failures:
                what = self.chance.choices(*zip(*self.KINDS.items()))[0]
                getattr(self, what)()
                count(f"{self.GROUP} {what}")
            self.finish()
        except BaseException as error:
            failures.append(f"{self.name}: {type(error).__name__}: {error}")

    def data(self, length):
        # Some contents are equal, and some compress.
        kind = self.chance.random()
        if kind < 0.3:
            return bytes([self.chance.randrange(4)]) * length
        if kind < 0.5:
            block = random.Random(self.chance.randrange(20)).randbytes(4096)
            return (block * (length // 4096 + 1))[:length]
        return self.chance.randbytes(length)


class Disk(Worker):
    GROUP = "disk"
    KINDS = {"write": 40, "read": 30, "discard": 6, "zero": 5, "flush": 5, "durable": 5, "again": 1,
             "resize": 1, "snapshot": 1, "roll_back": 0.5, "whole": 0.5}

    def begin(self):
        self.volume = f"{pool}/{self.name}"
        self.path = f"/dev/gemelo/{os.path.basename(pool)}/{self.name}"
        self.attached()
        self.model = bytearray(os.lseek(self.file, 0, os.SEEK_END))
        fcntl.ioctl(self.file, BLKZEROOUT, struct.pack("QQ", 0, len(self.model)))
        self.snapshots = {}

    def open(self):
        until = time.time() + 60
        while True:
            try:
                self.file = os.open(self.path, os.O_RDWR | os.O_DIRECT)
                return
            except OSError:
                assert time.time() < until, f"{self.path} does not appear"
                time.sleep(0.1)

    def place(self):
        some = self.chance.randrange(1, LONGEST // SECTOR) * SECTOR
        length = self.chance.choice([SECTOR, 4096, some])
        unit = self.chance.choice([SECTOR, 4096])
        offset = self.chance.randrange((len(self.model) - length) // unit) * unit
        return offset, length

    def write(self, flags=0):
        offset, length = self.place()
        data = self.data(length)
        assert os.pwritev(self.file, [aligned(data)], offset, flags) == length
        self.model[offset:offset + length] = data

    def durable(self):
        self.write(os.RWF_DSYNC)

    def flush(self):
        os.fsync(self.file)

    def read(self):
        self.compare(*self.place())

    def compare(self, offset, length):
        memory = mmap.mmap(-1, length)
        assert os.preadv(self.file, [memory], offset) == length
        same(memory[:length], self.model[offset:offset + length], f"{self.name} at {offset}")

    def whole(self):
        for offset in range(0, len(self.model), M):
            self.compare(offset, min(M, len(self.model) - offset))

    def discard(self):
        self.cleared(BLKDISCARD)

    def zero(self):
        self.cleared(BLKZEROOUT)

    def cleared(self, request):
        offset, length = self.place()
        # The kernel leaves parts of blocks as they are when it discards.
        if request == BLKDISCARD:
            offset, length = offset & ~4095, max(length & ~4095, 4096)
            if offset + length > len(self.model):
                return
        fcntl.ioctl(self.file, request, struct.pack("QQ", offset, length))
        self.model[offset:offset + length] = bytes(length)

    def detached(self):
        os.close(self.file)
        gemelo("detach", self.volume, done="is not attached")

    def attached(self):
        gemelo("attach", self.volume, done="is attached already")
        self.open()

    def again(self):
        self.detached()
        self.attached()

    def resize(self):
        size = self.chance.randrange(16, 32) * M
        self.detached()
        gemelo("volume", "resize", self.volume, "--size", str(size), "--force")
        self.model = self.model[:size] + bytes(max(0, size - len(self.model)))
        self.attached()
        found = struct.unpack("Q", fcntl.ioctl(self.file, BLKGETSIZE64, bytes(8)))[0]
        assert found == size, f"{self.path} has {found} bytes instead of {size}"

    def snapshot(self):
        if len(self.snapshots) == 3:
            name = self.chance.choice(sorted(self.snapshots))
            content = self.snapshots.pop(name)
            file = f"/random/{name}"
            gemelo("volume", "export", f"{pool}/{name}", file, "--force")
            with open(file, "rb") as exported:
                same(exported.read(), content, f"snapshot {name}")
            os.remove(file)
            gemelo("volume", "rm", f"{pool}/{name}", "--force", done="no volume")
        name = f"{self.name}-{self.chance.randrange(1 << 30)}"
        ran = tried("gemelo", "volume", "snapshot", self.volume, name)
        # A server that died may have made it.
        if ran.returncode == 0:
            self.snapshots[name] = bytes(self.model)

    def roll_back(self):
        if not self.snapshots:
            return
        name = self.chance.choice(sorted(self.snapshots))
        self.detached()
        gemelo("volume", "rollback", self.volume, name, "--force")
        self.model = bytearray(self.snapshots[name])
        self.attached()

    def finish(self):
        self.whole()
        os.close(self.file)


class File(Worker):
    """What fsx does: each operation of a file, with a model of its bytes."""

    GROUP = "file"
    LARGEST = 4 * M
    KINDS = {"write": 20, "read": 20, "mapped_write": 10, "mapped_read": 10, "truncate": 5,
             "punch": 5, "zero": 5, "copy": 5, "sync": 2, "forget": 1, "again": 1}

    def begin(self):
        self.path, self.model = f"/random/{self.name}/file", bytearray()
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def place(self, limit):
        offset = self.chance.randrange(limit)
        return offset, min(self.chance.randrange(1, LONGEST), limit - offset)

    def grown(self, size):
        self.model += bytes(max(0, size - len(self.model)))

    def write(self):
        offset, length = self.place(self.LARGEST)
        data = self.data(length)
        assert os.pwrite(self.file, data, offset) == length
        self.grown(offset + length)
        self.model[offset:offset + length] = data

    def read(self):
        if self.model:
            offset, length = self.place(len(self.model))
            self.compare(os.pread(self.file, length, offset), offset)

    def compare(self, found, offset):
        same(found, self.model[offset:offset + len(found)], f"{self.path} at {offset}")
        assert offset + len(found) <= len(self.model), f"{self.path} is longer than it should be"

    def mapped_write(self):
        if self.model:
            offset, length = self.place(len(self.model))
            data = self.data(length)
            with mmap.mmap(self.file, len(self.model)) as memory:
                memory[offset:offset + length] = data
            self.model[offset:offset + length] = data

    def mapped_read(self):
        if self.model:
            offset, length = self.place(len(self.model))
            with mmap.mmap(self.file, len(self.model), prot=mmap.PROT_READ) as memory:
                self.compare(memory[offset:offset + length], offset)

    def truncate(self):
        size = self.chance.randrange(self.LARGEST)
        os.ftruncate(self.file, size)
        self.model = self.model[:size]
        self.grown(size)

    def punch(self):
        self.allocate(PUNCH_HOLE | KEEP_SIZE)

    def zero(self):
        self.allocate(ZERO_RANGE | KEEP_SIZE)

    def allocate(self, mode):
        if self.model:
            offset, length = self.place(len(self.model))
            done = LIBC.fallocate(self.file, mode, ctypes.c_int64(offset), ctypes.c_int64(length))
            assert done == 0, os.strerror(ctypes.get_errno())
            self.model[offset:offset + length] = bytes(length)

    def copy(self):
        if len(self.model) > 1:
            source, length = self.place(len(self.model) // 2)
            to = self.chance.randrange(source + length, self.LARGEST)
            length = min(length, self.LARGEST - to)
            copied = os.copy_file_range(self.file, self.file, length, source, to)
            self.grown(to + copied)
            self.model[to:to + copied] = self.model[source:source + copied]

    def sync(self):
        os.fsync(self.file)

    def forget(self):
        os.fsync(self.file)
        os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_DONTNEED)
        same(os.pread(self.file, self.LARGEST, 0), self.model, self.path)

    def again(self):
        os.close(self.file)
        self.file = os.open(self.path, os.O_RDWR)

    def finish(self):
        self.forget()
        os.close(self.file)


def disturb():
    chance = random.Random(f"{seed} deaths")
    while time.time() < end - 5 and not failures:
        time.sleep(chance.uniform(1, 8))
        if chance.random() < 0.7:
            process = run("systemctl", "show", "--property", "MainPID", "--value", unit).strip()
            if process != "0":
                os.kill(int(process), 9)
                count("death")
        else:
            run("systemctl", "restart", unit)
            count("restart")


print(f"seed {seed}", flush=True)
workers = [Disk("disk1"), Disk("disk2"), File("ext4"), File("xfs")]
disturber = threading.Thread(target=disturb, daemon=True)
for thread in [*workers, disturber]:
    thread.start()
for thread in workers:
    thread.join(max(0, end - time.time()) + 120)
    if thread.is_alive() and not failures:
        failures.append(f"{thread.name} hangs")
disturber.join(60)
print(", ".join(f"{number} {what}" for what, number in sorted(counts.items())), flush=True)
for failure in failures:
    print(f"seed {seed}: {failure}", flush=True)
# A thread that hangs must not keep the process.
os._exit(1 if failures else 0)
