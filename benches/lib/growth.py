#!/usr/bin/env python3
"""Draws the table of benches/large.sh: rates, and bytes for each block, by the size of the pool.

    benches/lib/growth.py TABLE PICTURE
"""

import math
import re
import sys

BLOCK_BYTES = 4096
UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
COLOURS = "#1b6ca8 #c8553d #588157 #7b2d8b #b8860b #444444".split()
WIDTH, HEIGHT, LEFT, TOP, KEY = 460, 260, 60, 40, 16


def read(lines):
    """The sizes in bytes, and for each unit the rows: a name and its values."""
    sizes, rows = [], {}
    for line in lines:
        if not sizes and re.fullmatch(r"( +\d+[kmgt])+", line.rstrip()):
            sizes = [int(word[:-1]) * UNITS[word[-1]] for word in line.split()]
        elif found := re.fullmatch(r"(.+), (k/s|ms|MB)((?: +[\d.]+)+)", line.rstrip()):
            name, unit, values = found.groups()
            rows.setdefault(unit, []).append((name, [float(value) for value in values.split()]))
    return sizes, rows


def panel(x, title, sizes, rows):
    """One diagram with logarithmic axes and a key below it."""
    values = [value for _, row in rows for value in row if value > 0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    first, last = math.log2(sizes[0]), math.log2(sizes[-1])
    across = lambda size: x + LEFT + WIDTH * ((math.log2(size) - first) / (last - first) if last > first else 0.5)
    up = lambda value: TOP + HEIGHT * (high - math.log10(max(value, 10**low))) / (high - low)
    yield f'<text x="{x + LEFT}" y="{TOP - 16}" font-weight="bold">{title}</text>'
    for power in range(low, high + 1):
        y = up(10**power)
        yield f'<line x1="{x + LEFT}" x2="{x + LEFT + WIDTH}" y1="{y}" y2="{y}" stroke="#ddd"/>'
        yield f'<text x="{x + LEFT - 6}" y="{y + 4}" text-anchor="end">{10**power:g}</text>'
    for size in sizes:
        text = f"{size / 2**30:g} GiB"
        yield f'<text x="{across(size)}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{text}</text>'
    for number, (name, row) in enumerate(rows):
        colour = COLOURS[number % len(COLOURS)]
        points = [(across(size), up(value)) for size, value in zip(sizes, row)]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield from (f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points)
        y = TOP + HEIGHT + 44 + number * KEY
        yield f'<text x="{x + LEFT}" y="{y}" fill="{colour}">{name}</text>'


def main(table, picture):
    with open(table) as lines:
        sizes, rows = read(lines)
    per_block = lambda row: [value * 1e6 * BLOCK_BYTES / size for size, value in zip(sizes, row)]
    space = [(name, per_block(row)) for name, row in rows["MB"]]
    parts = list(panel(0, "thousand blocks a second", sizes, rows["k/s"]))
    parts += panel(WIDTH + 2 * LEFT, "bytes for each block", sizes, space)
    width, height = 2 * WIDTH + 4 * LEFT, TOP + HEIGHT + 60 + KEY * max(len(rows["k/s"]), len(space))
    with open(picture, "w") as out:
        out.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">')
        out.write('<rect width="100%" height="100%" fill="white"/>' + "\n".join(parts) + "</svg>\n")
    print(picture)


main(*sys.argv[1:])
