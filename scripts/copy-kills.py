#!/usr/bin/env python3
"""Copies snapshots over ssh to this machine, and kills a process at a random moment, again and again.

    scripts/copy-kills.py [KILLS [SEED]]     200 kills and a random seed, unless given

Both pools are served. The killed process is the copying command, the receiving one, or one of the
servers, which is started again. A copy goes on until it is whole, and then every block of it is
compared with the snapshot. Ends with status 1 if
a copy differs, or if a pool does not check out. GEMELO names the program. Needs sshd, which it runs
on a port of its own with a key of its own, and 1 GB in TMPDIR.
"""
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GEMELO = os.path.realpath(os.environ.get("GEMELO", "target/release/gemelo"))
MIB = 1 << 20
BLOCK = 4096
IMAGE_BYTES = 24 * MIB
# Blocks that change between two snapshots, and bytes a second: a copy takes about a second.
CHANGED_BLOCKS = 2500
RATE = "8m"
KEPT = 4


def free_port():
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return some.getsockname()[1]


def run(*words, fails=False):
    ran = subprocess.run([GEMELO, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if ran.returncode != 0 and not fails:
        sys.exit(f"gemelo {' '.join(words)}: {ran.returncode}: {ran.stderr}")
    return ran


class Sshd:
    """A server of ssh for this user."""

    def __init__(self, place):
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name], check=True)
        self.port = free_port()
        (place / "config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {place}/host\nUsePAM no\n"
            f"AuthorizedKeysFile {place}/user.pub\nStrictModes no\nPidFile none\nMaxStartups 100\n"
        )
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
        sshd = subprocess.run(["sh", "-c", "PATH=$PATH:/usr/sbin command -v sshd"], capture_output=True, text=True)
        log = open(place / "sshd.log", "w")
        self.process = subprocess.Popen([sshd.stdout.strip(), "-D", "-e", "-f", place / "config"], stderr=log)
        self.connect = (
            f"ssh -p {self.port} -i {place}/user -o IdentitiesOnly=yes -o StrictHostKeyChecking=no"
            f" -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes {{host}}"
        )
        for _ in range(100):
            if subprocess.run(self.connect.format(host="127.0.0.1").split() + ["true"], capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        sys.exit("sshd does not answer: " + (place / "sshd.log").read_text())


class Served:
    """A pool with its server."""

    def __init__(self, place):
        self.place = place
        run("pool", "create", str(place), "--capacity", "1g")
        self.start()

    def start(self):
        socket_path = Path(f"{self.place}.sock")
        socket_path.unlink(missing_ok=True)
        log = open(f"{self.place}.log", "a")
        self.process = subprocess.Popen([GEMELO, "serve", self.place, "--listen", f"unix:{socket_path}"], stdout=log, stderr=log)
        for _ in range(600):
            if socket_path.exists():
                return
            time.sleep(0.05)
        sys.exit(f"the pool cannot be served: {Path(f'{self.place}.log').read_text()}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def volume(self, name):
        return f"{self.place}/{name}"

    def has(self, name):
        listed = run("volume", "ls", str(self.place)).stdout
        return f"\n{name} " in listed


def is_equal(one, other):
    return run("volume", "verify", one, other, fails=True).returncode == 0


class Copies:
    def __init__(self, place, chance):
        self.place, self.chance = place, chance
        self.sshd = Sshd(place)
        self.source, self.target = Served(place / "from"), Served(place / "to")
        self.receiver = place / "receiver.pid"
        self.program = place / "gemelo"
        self.program.write_text(f'#!/bin/sh\n[ "$2" != receive ] || echo $$ >{self.receiver}\nexec {GEMELO} "$@"\n')
        self.program.chmod(0o755)
        self.image = bytearray(chance.randbytes(IMAGE_BYTES))
        self.names = []
        self.kills = {"sender": 0, "receiver": 0, "serving the source": 0, "serving the copy": 0}

    def change(self):
        """Makes the next snapshot."""
        for _ in range(CHANGED_BLOCKS if self.names else 0):
            at = self.chance.randrange(IMAGE_BYTES // BLOCK) * BLOCK
            self.image[at : at + BLOCK] = self.chance.randbytes(BLOCK)
        raw = self.place / "raw"
        raw.write_bytes(self.image)
        run("volume", "import", str(raw), self.source.volume("v"), "--force")
        name = f"s{len(self.names)}"
        self.names.append(name)
        run("volume", "snapshot", self.source.volume("v"), name)
        return name

    def copy(self, name):
        self.receiver.unlink(missing_ok=True)
        words = ["volume", "copy", self.source.volume(name), f"127.0.0.1:{self.target.volume(name)}"]
        words += ["--connect", self.sshd.connect, "--program", str(self.program), "--rate", RATE]
        words += ["--compress", "3"] if self.chance.random() < 0.5 else []
        return subprocess.Popen([GEMELO, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def kill_one(self, copying):
        """Kills a process of the copy. Returns whether there was one."""
        victim = self.chance.choice(list(self.kills))
        if victim == "sender":
            copying.kill()
        elif victim == "receiver":
            try:
                os.kill(int(self.receiver.read_text()), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError, ValueError):
                return
        else:
            served = self.source if victim == "serving the source" else self.target
            served.kill()
        self.kills[victim] += 1
        copying.communicate()
        if victim.startswith("serving"):
            served.start()

    def wait_for_receiver(self, copying):
        """Three times of four: kills come before as well."""
        waits = self.chance.random() < 0.75
        while waits and copying.poll() is None and not self.receiver.exists():
            time.sleep(0.02)

    def until_whole(self, name, kills):
        """Copies with kills until the copy is whole."""
        while True:
            copying = self.copy(name)
            if sum(self.kills.values()) >= kills:
                _, said = copying.communicate()
                if copying.returncode == 0:
                    return
                if "is being received" not in said and "copy of this snapshot already" not in said:
                    sys.exit(f"{name}: {said}")
            else:
                self.wait_for_receiver(copying)
                time.sleep(self.chance.uniform(0, 1.3))
                if copying.poll() is None:
                    self.kill_one(copying)
                if not copying.stderr.closed:
                    copying.communicate()
            # A receiver whose connection broke may take a moment to see it.
            for _ in range(100):
                if "being received" not in run("volume", "ls", str(self.target.place)).stdout:
                    break
                time.sleep(0.1)
            if self.target.has(name):
                return

    def compare(self, names):
        for name in names:
            if self.target.has(name) and not is_equal(self.source.volume(name), self.target.volume(name)):
                sys.exit(f"{name} differs")

    def forget(self):
        for name in self.names[:-KEPT]:
            for served in (self.source, self.target):
                if served.has(name):
                    run("volume", "rm", served.volume(name), "--force")

    def end(self):
        self.sshd.process.kill()
        for served in (self.source, self.target):
            served.process.terminate()
            served.process.wait()
            run("pool", "check", str(served.place), "--data")


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="gemelo-kills-") as place:
        copies = Copies(Path(place), random.Random(seed))
        while sum(copies.kills.values()) < kills:
            name = copies.change()
            copies.until_whole(name, kills)
            copies.compare([name])
            copies.forget()
        copies.compare(copies.names[-KEPT:])
        last = copies.place / "last"
        run("volume", "export", copies.target.volume(name), str(last))
        if last.read_bytes() != copies.image:
            sys.exit("the last copy differs from what was written")
        copies.end()
        told = ", ".join(f"{count} of the process {victim}" if victim.startswith("serving") else f"{count} of the {victim}" for victim, count in copies.kills.items())
        print(f"{sum(copies.kills.values())} kills ({told}), {len(copies.names)} snapshots: all copies are equal")


main()
