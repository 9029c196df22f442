#!/usr/bin/env python3
"""Draws a chart of figures in docs/results/figures.toml to an SVG picture on standard output.

    scripts/bars-svg.py space >docs/pictures/space.svg
    scripts/bars-svg.py speed >docs/pictures/speed.svg
"""

import os
import sys
import tomllib
from xml.sax.saxutils import escape

FILE = os.path.join(os.path.dirname(__file__), "../docs/results/figures.toml")
# Title, unit, the value at which a line is drawn (or none), and the bars: entry, label, own.
CHARTS = {
    "space": (
        "Five versions of Debian's kernel headers, 367 MB of files, take MB in",
        "",
        None,
        [
            ("trees-btrfs", "btrfs, zstd", False),
            ("trees-duperemove", "btrfs, zstd, duperemove", False),
            ("trees-zfs", "zfs-fuse, dedup, gzip", False),
            ("trees-restic", "restic (a backup)", False),
            ("trees-borg", "borg, zstd (a backup)", False),
            ("trees-gemelo", "gemelo, zstd", True),
        ],
    ),
    "speed": (
        "Rate of an in-line volume over NBD, by that of nbdkit with a file",
        " ×",
        1,
        [
            ("nbd-write-fresh", "first writes of 1 MiB, flushed", True),
            ("nbd-read-4k", "random reads of 4 KiB", True),
            ("nbd-arranged", "reads of 1 MiB, in order", True),
            ("nbd-overwritten", "the same, before defrag", True),
            ("nbd-write-1m", "rewrites of 1 MiB, cached", True),
            ("nbd-write-128k", "rewrites of 128 KiB, cached", True),
        ],
    ),
}
ROW, TOP, LEFT, WIDTH, RIGHT = 30, 50, 250, 400, 120
INK, OWN, OTHER, SPAN = "#24292f", "#1a7f37", "#8c959f", "#8fd19e"


def text(x, y, words, anchor="start", weight="normal"):
    return f'<text x="{x}" y="{y}" fill="{INK}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'


def chart(title, unit, line, bars, figures):
    rows = []
    for name, label, own in bars:
        value = figures[name]["value"]
        low, _, high = value.partition(" to ")
        rows.append((label, own, value, float(low), float(high or low)))
    scale = WIDTH / max(row[4] for row in rows)
    width, height = LEFT + WIDTH + RIGHT, TOP + len(rows) * ROW + 10
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="system-ui, sans-serif" font-size="14">'
    )
    yield f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>'
    yield text(16, 28, title, weight="bold")
    for at, (label, own, value, low, high) in enumerate(rows):
        y = TOP + at * ROW
        yield text(LEFT - 10, y + 16, label, "end")
        # The part of a bar from the lowest value to the highest is lighter.
        yield f'<rect x="{LEFT}" y="{y}" width="{high * scale:.1f}" height="20" fill="{SPAN if own else OTHER}"/>'
        if own:
            yield f'<rect x="{LEFT}" y="{y}" width="{low * scale:.1f}" height="20" fill="{OWN}"/>'
        yield text(LEFT + WIDTH + 8, y + 16, value + unit, weight="bold" if own else "normal")
    if line is not None:
        x = LEFT + line * scale
        yield f'<path d="M{x:.1f} {TOP - 6}V{height - 8}" stroke="{INK}" stroke-dasharray="4 3"/>'
    yield "</svg>"


if len(sys.argv) != 2 or sys.argv[1] not in CHARTS:
    sys.exit(__doc__)
with open(FILE, "rb") as file:
    print("\n".join(chart(*CHARTS[sys.argv[1]], tomllib.load(file))))
