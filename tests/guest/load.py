#!/usr/bin/env python3
"""Writes and checks an export of NBD while its unit restarts ten times. Each connection that breaks
is made again, and its request is sent again; what was flushed has to be there."""
import random
import subprocess
import sys
import threading
import time

import nbd

BLOCK, BLOCKS, RESTARTS = 4096, 2048, 10
path, unit = sys.argv[1:]
flushed, maybe = {}, {}  # numbers of contents by block: durable ones, and those since the flush
over = threading.Event()


def connect():
    end = time.time() + 60
    while True:
        try:
            handle = nbd.NBD()
            handle.connect_uri(f"nbd+unix:///www?socket={path}")
            return handle
        except nbd.Error:
            if time.time() > end:
                raise
            time.sleep(0.05)


def content(number):
    return random.Random(number).randbytes(BLOCK)


def restart():
    for _ in range(RESTARTS):
        time.sleep(0.7)
        subprocess.run(["systemctl", "restart", unit], check=True, timeout=60)
        subprocess.run(["systemctl", "reset-failed", unit], check=False, timeout=60)
    over.set()


def done(request):
    """Sends a request until it is answered, over another connection if one breaks."""
    global handle, breaks
    while True:
        try:
            return request()
        except nbd.Error:
            breaks += 1
            handle = connect()


def check(block):
    data = done(lambda: handle.pread(BLOCK, block * BLOCK))
    known = [flushed.get(block)] + maybe.get(block, [])
    good = [content(one) if one else bytes(BLOCK) for one in known]
    assert data in good, f"block {block} has a content that nobody wrote last"


chance = random.Random(1)
threading.Thread(target=restart, daemon=True).start()
number, breaks, handle, end = 0, 0, connect(), time.time() + 240
done(lambda: handle.zero(BLOCK * BLOCKS, 0))
done(lambda: handle.flush())
while not over.is_set():
    assert time.time() < end, "the restarts take too long"
    block, what = chance.randrange(BLOCKS), chance.random()
    if what < 0.6:
        number += 1
        maybe.setdefault(block, []).append(number)
        done(lambda: handle.pwrite(content(number), block * BLOCK))
    elif what < 0.65:
        done(lambda: handle.flush())
        for changed, numbers in maybe.items():
            flushed[changed] = numbers[-1]
        maybe.clear()
    else:
        check(block)
for block in range(BLOCKS):
    check(block)
print(f"{number} writes, {breaks} broken connections")
assert breaks >= RESTARTS / 2, "the load did not meet the restarts"
