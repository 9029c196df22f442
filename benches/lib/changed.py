#!/usr/bin/env python3
"""Writes the blocks of 4 KiB in which two images differ, for benches/copies.sh.

    changed.py OLD|- NEW FILE                   to FILE; zeros become holes
    changed.py OLD|- NEW rbd                    as a diff of RBD, to standard output
    changed.py OLD|- NEW qemu-io DIRECTORY      as commands of qemu-io, with contents in DIRECTORY

Without OLD, everything that is no hole is written.
"""

import ctypes
import os
import struct
import sys

PIECE = 1 << 20
BLOCK = 4096
ZEROS = bytes(BLOCK)


def runs(old, new):
    """Ranges that differ, as (offset, contents), or (offset, length) of zeros."""
    size = os.fstat(new).st_size
    start, data = 0, bytearray()
    zeros = 0

    def flush():
        nonlocal data, zeros
        if data:
            yield start, bytes(data)
        elif zeros:
            yield start, zeros
        data, zeros = bytearray(), 0

    for at in range(0, size, PIECE):
        piece = os.pread(new, PIECE, at)
        before = os.pread(old, PIECE, at) if old is not None else bytes(len(piece))
        if piece == before:
            yield from flush()
            continue
        for place in range(0, len(piece), BLOCK):
            block = piece[place : place + BLOCK]
            if block == before[place : place + BLOCK]:
                yield from flush()
            elif block == ZEROS:
                if data:
                    yield from flush()
                start = start if zeros else at + place
                zeros += BLOCK
            else:
                if zeros or len(data) >= PIECE:
                    yield from flush()
                start = start if data else at + place
                data += block
    yield from flush()


def main():
    old, new, way = sys.argv[1:4]
    old = None if old == "-" else os.open(old, os.O_RDONLY)
    new = os.open(new, os.O_RDONLY)
    size = os.fstat(new).st_size
    if way == "rbd":
        out = sys.stdout.buffer
        out.write(b"rbd diff v1\ns" + struct.pack("<Q", size))
        for at, what in runs(old, new):
            if isinstance(what, int):
                out.write(b"z" + struct.pack("<QQ", at, what))
            else:
                out.write(b"w" + struct.pack("<QQ", at, len(what)) + what)
        out.write(b"e")
    elif way == "qemu-io":
        for at, what in runs(old, new):
            if isinstance(what, int):
                print(f"discard {at} {what}")
            else:
                name = f"{sys.argv[4]}/{at}"
                open(name, "wb").write(what)
                print(f"write -s {name} {at} {len(what)}")
    else:
        file = os.open(way, os.O_RDWR)
        os.ftruncate(file, size)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        for at, what in runs(old, new):
            if isinstance(what, int):
                # FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE
                if libc.fallocate(file, 3, at, what) != 0:
                    os.pwrite(file, bytes(what), at)
            else:
                os.pwrite(file, what, at)
        os.fsync(file)


main()
