#!/usr/bin/env python3
"""A link to a new network namespace that delays packets and loses some, for benches/lossy.sh.

    link.py NAMESPACE DELAY_MS LOSS

Each way delays packets by DELAY_MS and loses a share of LOSS of them, at random. This side has the
address 10.77.0.1, the namespace 10.77.0.2. It prints "up" once it is, and ends with the process.
Two TUN devices serve where the kernel has no netem. Needs root.
"""

import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN_NO_PI = 0x0001 | 0x1000


def tun(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN_NO_PI))
    return device


def run(command):
    subprocess.run(command.split(), check=True)


def main():
    namespace, delay_s, loss = sys.argv[1], float(sys.argv[2]) / 1e3, float(sys.argv[3])
    here, there = tun("gemelo-a"), tun("gemelo-b")
    inside = f"ip netns exec {namespace} "
    run(f"ip netns add {namespace}")
    run(f"ip link set gemelo-b netns {namespace}")
    for prefix, device, address in [("", "gemelo-a", "10.77.0.1/24"), (inside, "gemelo-b", "10.77.0.2/24")]:
        run(f"{prefix}ip addr add {address} dev {device}")
        run(f"{prefix}ip link set {device} up txqueuelen 1000")
    run(inside + "ip link set lo up")
    print("up", flush=True)
    chance, queue, number = random.Random(1), [], 0
    poll = select.poll()
    for device in (here, there):
        poll.register(device, select.POLLIN)
    while True:
        now = time.monotonic()
        while queue and queue[0][0] <= now:
            _, _, to, packet = heapq.heappop(queue)
            try:
                os.write(to, packet)
            except OSError:
                pass
        wait_ms = max(0, (queue[0][0] - now) * 1e3) if queue else 1000
        for device, _ in poll.poll(wait_ms if wait_ms > 0.2 else 0):
            for _ in range(64):
                try:
                    packet = os.read(device, 2048)
                except OSError:
                    break
                if chance.random() >= loss:
                    number += 1
                    to = there if device == here else here
                    heapq.heappush(queue, (time.monotonic() + delay_s, number, to, packet))


main()
