#!/usr/bin/env python3
"""Writes figures that README.md and docs/guide show into docs/results/figures.toml.

Does nothing unless FIGURES=1 is set: a benchmark on a busy machine must not change the pages by accident. Scripts in Python
import `figure`; others call

    benches/lib/figures.py NAME VALUE UNIT COMMAND

from the top of the checkout.
"""

import datetime
import os
import platform
import sys
import tomllib

FILE = "docs/results/figures.toml"
# Settings of the scripts that change what they measure; those that are set become part of the command.
SETTINGS = (
    "BENCH_DIR BYTES FILES IMAGE LEASE MB MODES PARTS RATE RUNS RUN_MS SECONDS_EACH SECONDS_LARGE SECONDS_LOW SIZE"
).split()
FIELDS = ("value", "unit", "command", "machine", "date")


def machine():
    """Processors, memory and kernel of this machine."""
    with open("/proc/cpuinfo") as lines:
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    processor = names[0] if names else platform.machine()
    return f"{os.cpu_count()} processors ({processor}), {gibibytes:.0f} GiB, Linux {platform.release()}"


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def figure(name, value, unit, command):
    """Writes or replaces one entry. The comment at the top of the file and the order of the entries stay."""
    if os.environ.get("FIGURES") != "1":
        return
    with open(FILE) as file:
        text = file.read()
    head = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    entries = tomllib.loads(text)
    settings = [f'{key}="{os.environ[key]}"' for key in SETTINGS if os.environ.get(key)]
    values = (value, unit, " ".join([*settings, command]), machine(), datetime.date.today().isoformat())
    entries[name] = dict(zip(FIELDS, values, strict=True))
    with open(FILE + ".part", "w") as file:
        file.write(head)
        for name, entry in entries.items():
            file.write(f"\n[{name}]\n")
            file.writelines(f"{field} = {quoted(entry[field])}\n" for field in FIELDS)
    os.replace(FILE + ".part", FILE)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    figure(*sys.argv[1:])
