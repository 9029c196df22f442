"""Random writes of 4 KiB, 64 requests in flight and a flush after each 64 writes: the same requests
to an NBD export and to an RBD image. fio's engines send different numbers of flushes for the same
option.

    equal.py nbd SOCKET EXPORT BLOCKS SECONDS
    equal.py rbd POOL IMAGE BLOCKS SECONDS

Prints writes, seconds, and the 99th percentile of the latency of writes in milliseconds.
"""

import collections
import os
import random
import socket
import struct
import sys
import threading
import time

DEPTH = 64
BLOCK = 4096
kind, place, name, blocks, seconds = *sys.argv[1:4], int(sys.argv[4]), float(sys.argv[5])
# Contents are windows of this pool at any byte, so hardly two are equal.
pool = memoryview(os.urandom(64 << 20))


def content():
    start = random.randrange(len(pool) - BLOCK)
    return pool[start : start + BLOCK]


class Nbd:
    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(place)
        self.receive(18)
        option = struct.pack(">I", len(name)) + name.encode() + struct.pack(">H", 0)
        self.socket.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 7, len(option)) + option)
        answer = 0
        while answer != 1:
            _, _, answer, length = struct.unpack(">QIII", self.receive(20))
            assert answer < 1 << 31, "the export is refused"
            self.receive(length)

    def receive(self, length):
        parts = []
        while length > 0:
            parts.append(self.socket.recv(length))
            assert parts[-1], "the server has closed the connection"
            length -= len(parts[-1])
        return b"".join(parts)

    def send(self, requests):
        """Sends requests: a number, and the block to write or None for a flush."""
        parts = []
        for number, block in requests:
            if block is None:
                parts.append(struct.pack(">IHHQQI", 0x25609513, 0, 3, number, 0, 0))
            else:
                parts.append(struct.pack(">IHHQQI", 0x25609513, 0, 1, number, block * BLOCK, BLOCK))
                parts.append(content())
        self.socket.sendall(b"".join(parts))

    def answers(self):
        received = self.socket.recv(16 * DEPTH)
        received += self.receive(-len(received) % 16)
        for _, error, number in struct.iter_unpack(">IIQ", received):
            assert error == 0, "a request has failed"
            yield number


class Rbd:
    def __init__(self):
        import rados
        import rbd

        self.cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
        self.cluster.connect()
        self.context = self.cluster.open_ioctx(place)
        self.image = rbd.Image(self.context, name)
        self.ended = collections.deque()
        self.signal = threading.Semaphore(0)

    def send(self, requests):
        for number, block in requests:

            def ended(completion, number=number):
                self.ended.append(number)
                self.signal.release()

            if block is None:
                self.image.aio_flush(ended)
            else:
                self.image.aio_write(bytes(content()), block * BLOCK, ended)

    def answers(self):
        self.signal.acquire()
        yield self.ended.popleft()


target = Nbd() if kind == "nbd" else Rbd()
free, sent, latencies, since_flush = list(range(DEPTH)), {}, [], 0
began = now = time.monotonic()
while sent or now - began < seconds:
    requests = []
    while free and now - began < seconds:
        block = random.randrange(blocks) if since_flush < DEPTH else None
        since_flush = since_flush + 1 if block is not None else 0
        number = free.pop()
        sent[number] = (now, block)
        requests.append((number, block))
    target.send(requests)
    for number in target.answers():
        now = time.monotonic()
        at, block = sent.pop(number)
        free.append(number)
        if block is not None:
            latencies.append(now - at)
latencies.sort()
print(len(latencies), now - began, 1000 * latencies[len(latencies) * 99 // 100])
if kind == "rbd":
    target.image.close()
    target.context.close()
    target.cluster.shutdown()
