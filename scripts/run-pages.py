#!/usr/bin/env python3
"""Runs the commands of the code blocks in README.md and docs/, page by page in a directory of its own.

    GEMELO=target/debug/gemelo scripts/run-pages.py [PAGE...]

A block has commands if it is of `sh`, or has lines that begin with `$ `, or begins with a command.
Each must end well. Absolute paths are below the page's directory, sizes and times are small, a
server runs in the background until the page's end, and `ssh HOST` runs here. A block or a line that
cannot be run so is in the tables below, with what hinders it.
"""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = pathlib.Path(os.environ.get("GEMELO", HERE / "target/release/gemelo")).resolve()

ROOT = "needs root"
INSTALLS = "builds or installs the program; tests/guest/run.sh does"
SYSTEMD = "needs systemd; tests/guest/run.sh has it"
CEPH = "needs a Ceph cluster; the suites `cluster` and `members` have one"
GUEST = "boots a virtual machine; the suite `guest` does"
LONG = "takes minutes to hours"

# Blocks that are not run, by page and the beginning of their first line.
BLOCKS = {
    "README.md": {"make demo": INSTALLS, "sudo apt": INSTALLS},
    "docs/guide/disk.md": {"gemelo pool create": ROOT, "sudo install": SYSTEMD},
    "docs/guide/domains.md": {"": CEPH},
    "docs/guide/install.md": {"sha256sum": INSTALLS, "make": INSTALLS, "sudo -u gemelo": SYSTEMD},
    "docs/guide/operator.md": {
        "qemu-system-x86_64": GUEST,
        "gemelo pool create /var/lib/gemelo/vms --data": ROOT,
        "gemelo pool shrink /var/lib/gemelo/vms": ROOT,
    },
    "docs/guide/upgrade.md": {"sudo apt": SYSTEMD},
    "docs/guide/researcher.md": {"gemelo campaign": LONG},
    "docs/guide/trouble.md": {"gemelo pool check": "ends with the status of a damaged pool"},
    "docs/internals/sizing-a-domain.md": {"cargo": LONG},
    "docs/reference/scan-format.md": {"pip": "needs DuckDB, which Debian does not have"},
    "docs/reference/vhost-user.md": {"gemelo serve": GUEST},
    "docs/results/README.md": {"": LONG},
    "docs/results/dedis-2016.md": {"": LONG},
    "docs/results/dedisbench-2012.md": {"": LONG},
    "docs/results/dmdedup-2014.md": {"": LONG},
    "docs/results/entropy-2010.md": {"": LONG},
    "docs/results/peers.md": {"": ROOT},
    "docs/results/vm-pool-2017.md": {"": LONG},
}
# Lines of the other blocks that are not run.
LINES = {
    "docs/reference/campaign.md": {
        "gemelo campaign run quick --out": LONG,
        "gemelo campaign run plan.toml": ROOT,
        "gemelo campaign report": LONG,
        "gemelo campaign clean": LONG,
    },
    "docs/reference/report.md": {
        "gemelo campaign report": "needs a campaign; the suite `campaign` has one",
        "gemelo report /var/tmp/mine": "needs a campaign; the suite `campaign` has one",
    },
    "docs/reference/nbd.md": {
        "nbdfuse": ROOT,
        "nbd-client": ROOT,
        "fio": "not in every build of fio; the suite `clients` has it",
    },
}
# Another exit status that a command may have.
STATUSES = {
    "gemelo compare": 8,  # noise hides the answer, or another machine's load made it slower
}

POOL = """
gemelo pool create pool --capacity 1g
gemelo volume import disk.raw pool/web
"""
CERTIFICATES = """
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca \\
    -keyout ca.key -out ca-cert.pem
for name in server client; do
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \\
        -keyout $name-key.pem -out $name.csr
    printf 'subjectAltName=DNS:localhost\\nkeyUsage=digitalSignature\\n' >$name.ext
    openssl x509 -req -in $name.csr -CA ca-cert.pem -CAkey ca.key -days 2 -extfile $name.ext \\
        -out $name-cert.pem
done
"""
# What a page takes for granted, made before its blocks. `toml N FILE` writes its N-th block of TOML.
PRELUDES = {
    "README.md": "mkdir test",
    "docs/guide/backup.md": POOL
    + "gemelo volume import disk.raw pool/db; gemelo pool create /srv/pool --capacity 1g",
    "docs/guide/operator.md": "qemu-img convert -O qcow2 disk.raw disk.qcow2",
    "docs/guide/researcher.md": "gemelo scan /usr/include --distribution found",
    "docs/guide/tester.md": "mkdir test",
    "docs/reference/bench.md": "gemelo bench --target /mnt/test --file-size 4m --pattern nurand"
    " --time 1s --repetitions 5 --json before.json",
    "docs/reference/compare.md": "for name in before-1 before-2 before-3 after-1 after-2 after-3; do\n"
    "gemelo bench --target null: --file-size 1m --bytes 64m --json $name.json\ndone",
    "docs/reference/nbd.md": POOL
    + CERTIFICATES
    + """
mkdir DIR; cp *.pem DIR; qemu-img convert -O raw disk.raw disk.img
gemelo volume import disk.raw pool/disk
gemelo pool create over-tls --capacity 1g
gemelo volume create over-tls/disk --size 64m
gemelo serve pool --listen unix:/run/gemelo/vms.sock
gemelo serve over-tls --listen tcp:127.0.0.1:10809 --tls-certificate server-cert.pem \\
    --tls-key server-key.pem --tls-client-authority ca-cert.pem
""",
    "docs/reference/pools.md": POOL
    + "gemelo pool create /srv/pool --capacity 1g\n"
    "for day in monday tuesday wednesday; do gemelo volume snapshot pool/web $day; done\n"
    "gemelo volume import disk.raw pool/later --dedup offline",
    "docs/reference/report.md": "gemelo bench --target mnt/test --file-size 1m --time 1s"
    " --json bench.json --access-log accesses; cp bench.json before.json; cp bench.json after.json",
    "docs/reference/scan.md": "gemelo scan --save host2.set /srv",
    "docs/reference/serving.md": POOL
    + CERTIFICATES
    + "cp server-cert.pem server.pem; cp server-key.pem server.key; cp ca-cert.pem clients-ca.pem",
}
# Data of which every page has a copy.
DATA = """
mkdir -p usr/include usr/share/doc usr/share/man usr/lib/python3 srv/images var/tmp var/lib mnt/test
mkdir -p mnt/candidate run/gemelo
head -c 300000 /dev/urandom >usr/include/one
cp usr/include/one usr/include/two
seq 99999 >usr/share/doc/text
cp usr/share/doc/text usr/lib/python3/text
head -c 4000000 /dev/urandom >disk.raw
truncate -s 64M disk.raw
for name in vm-1.img vm-2.img srv/images/one srv/images/two; do head -c 500000 disk.raw >$name; done
"""
# Programs of others that a page may need.
OTHERS = ["qemu-img", "curl", "nbdinfo", "nbdcopy", "openssl"]

SMALLER = [
    (r"--time \d+s", "--time 1s"),
    (r"--file-size \d+[mg]", "--file-size 8m"),
    (r"--rate (\d)\d+(?= )", r"--rate \g<1>0"),
    (r"--records \d+", "--records 2000"),
    (r"\b9809\b", "PORT1"),
    (r"\b10809\b", "PORT2"),
    (r"nbds://localhost/", "nbds://localhost:PORT2/"),
    (r"host=localhost", "host=localhost,port=PORT2"),
]


def blocks(text):
    """The code blocks of a page: the number of their first line, their language, their lines."""
    found, inside = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip().startswith("```"):
            if inside is None:
                inside = (number, line.strip()[3:], [])
            else:
                found.append(inside)
                inside = None
        elif inside is not None:
            inside[2].append(line)
    return found


def commands(language, lines):
    """The commands of a block, each of one or more lines; None if it has none."""
    prompts = any(line.startswith("$ ") for line in lines)
    starts = ("gemelo ", "scripts/", "HOURS", "OPTIONS")
    if not prompts and language != "sh":
        messages = any(": " in line and line.startswith("gemelo: ") for line in lines)
        if language or messages or not lines or not lines[0].startswith(starts):
            return None
    if not prompts:
        return split("\n".join(lines))
    found, goes_on = [], False
    for line in lines:
        if line.startswith("$ ") or goes_on:
            found.append(line.removeprefix("$ "))
            goes_on = line.endswith("\\")
    return split("\n".join(found))


def split(text):
    """The commands of a text, each of one or more lines; a loop is one."""
    found, depth, open_lines = [], 0, ""
    for line in text.splitlines():
        open_lines += line + "\n"
        depth += len(re.findall(r"\bdo$", line)) - len(re.findall(r"^done", line))
        if depth == 0 and not line.endswith("\\"):
            found += [open_lines.strip()] if open_lines.strip() else []
            open_lines = ""
    return found


def reason(table, page, text):
    return next((why for start, why in table.get(page, {}).items() if text.startswith(start)), None)


class Page:
    """The directory in which the commands of a page run."""

    def __init__(self, directory):
        self.directory = directory
        tools = directory / ".bin"
        tools.mkdir()
        (tools / "gemelo").symlink_to(PROGRAM)
        for stub, text in [
            ("ssh", 'while [ "${1#-}" != "$1" ]; do shift; [ "$1" = "${1#*=}" ] || shift; done\n'
             'shift; exec sh -c "$*"'),
            ("sudo", 'if [ "$1" = -u ]; then shift 2; fi; exec "$@"'),
        ]:
            (tools / stub).write_text(f"#!/bin/sh\n{text}\n")
            (tools / stub).chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
        self.servers, self.failures, self.count = [], [], 0
        self.ports = {f"PORT{i}": str(free_port()) for i in (1, 2)}

    def here(self, text):
        for pattern, smaller in SMALLER:
            text = re.sub(pattern, smaller, text)
        for name, port in self.ports.items():
            text = text.replace(name, port)
        place = str(self.directory)
        return re.sub(r"(?<![\w.$}])/(usr|srv|var|mnt|run)(?=/| |$)", rf"{place}/\1", text)

    def run(self, text, where):
        text = self.here(text)
        if re.match(r"gemelo serve\b", text):
            return self.serve(text.rstrip(" &"), where)
        if variable := re.fullmatch(r"([A-Z]+)='(.*)'", text):
            self.environment[variable[1]] = variable[2]
            return
        self.count += 1
        done = subprocess.run(
            ["timeout", "60", "bash", "-eo", "pipefail", "-c", text], cwd=self.directory,
            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, errors="replace", check=False,
        )
        also = next((number for start, number in STATUSES.items() if text.startswith(start)), 0)
        if done.returncode not in (0, also):
            self.failures.append(f"{where}: status {done.returncode}: {text}\n{done.stdout[-1500:]}")

    def serve(self, text, where):
        server = subprocess.Popen(
            ["bash", "-c", f"exec {text}"], cwd=self.directory, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        self.servers.append(server)
        self.count += 1
        said = server.stdout.readline().decode(errors="replace")
        time.sleep(0.2)
        if not said or server.poll() is not None:
            rest = server.stdout.read().decode(errors="replace") if server.poll() is not None else ""
            self.failures.append(f"{where}: the server ended: {text}\n{said}{rest}")

    def stop(self):
        for server in self.servers:
            server.terminate()
            server.wait(timeout=30)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def plan(name, text):
    """The commands to run, each with its place, and those that are not run."""
    to_run, left = [], set()
    for number, language, lines in blocks(text):
        found = commands(language, lines) or []
        if found and reason(BLOCKS, name, found[0]) is not None:
            left.add((name, found[0]))
            continue
        for command in found:
            if reason(LINES, name, command) is None:
                to_run.append((f"{name}:{number}", command))
            else:
                left.add((name, command))
    return to_run, left


def run_page(name, text):
    """Runs the commands of a page: what failed, their number, and those that are not run."""
    to_run, left = plan(name, text)
    prelude = PRELUDES.get(name, "")
    words = prelude + "".join(command for _, command in to_run)
    missing = [tool for tool in OTHERS if not shutil.which(tool) and re.search(rf"\b{tool}\b", words)]
    if not to_run or missing:
        if missing:
            print(f"{name}: not run: {', '.join(missing)} is missing")
        return [], 0, left
    with tempfile.TemporaryDirectory(prefix="gemelo-page-") as directory:
        page = Page(pathlib.Path(directory))
        try:
            for command in split(DATA + prelude):
                page.run(command, f"{name}: before its blocks")
            for where, command in to_run:
                page.run(command, where)
        finally:
            page.stop()
        return page.failures, page.count, left


def stale(used):
    """Entries of the tables that no block or line has."""
    entries = [(page, start) for table in (BLOCKS, LINES) for page in table for start in table[page]]
    return [one for one in entries
            if not any(page == one[0] and text.startswith(one[1]) for page, text in used)]


def main():
    pages = [HERE / "README.md", *sorted((HERE / "docs").glob("*/*.md"))]
    names = {str(path.relative_to(HERE)): path for path in pages}
    wanted = sys.argv[1:] or names
    failures, count, used = [], 0, set()
    for name in wanted:
        began = time.monotonic()
        failed, ran, seen = run_page(name, names[name].read_text())
        failures, count, used = failures + failed, count + ran, used | seen
        if os.environ.get("VERBOSE"):
            print(f"{name}: {ran} commands in {time.monotonic() - began:.1f} s")
    if not sys.argv[1:]:
        failures += [f"an entry of the tables is of no use: {one}" for one in stale(used)]
    print(f"{count} commands of {len(wanted)} pages run, {len(failures)} failed")
    print("\n".join(failures))
    sys.exit(bool(failures))


main()
