#!/usr/bin/env python3
"""Renders terminal text from standard input to an SVG picture on standard output.

Lines that begin with "$ " are commands, which may end with a remark after "  # ". Lines that begin
with "# " are remarks. All others are output; text between two "*" in them is highlighted.

    scripts/terminal-svg.py <docs/pictures/demo.txt >docs/pictures/demo.svg
"""

import re
import sys
from xml.sax.saxutils import escape

COLUMN, ROW, MARGIN, BAR = 8.4, 19, 16, 30
COMMAND, REMARK, OUTPUT, BRIGHT = "#7ee787", "#8b949e", "#c9d1d9", "#79c0ff"


def span(text, colour, bold=False):
    weight = ' font-weight="bold"' if bold else ""
    return f'<tspan fill="{colour}"{weight}>{escape(text)}</tspan>' if text else ""


def rendered(line):
    if line.startswith("$ "):
        command, mark, remark = line[2:].partition("  # ")
        return span("$ ", REMARK) + span(command, COMMAND, bold=True) + span(mark + remark, REMARK)
    if line.startswith("# "):
        return span(line[2:], REMARK)
    parts = re.split(r"\*(.*?)\*", line)
    return "".join(span(part, BRIGHT if at % 2 else OUTPUT, at % 2) for at, part in enumerate(parts))


lines = sys.stdin.read().rstrip("\n").split("\n")
columns = max(len(line.replace("*", "")) for line in lines)
width = round(2 * MARGIN + columns * COLUMN)
height = BAR + len(lines) * ROW + MARGIN
print(
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
    f'height="{height}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">'
)
print(f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>')
for at, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")):
    print(f'<circle cx="{MARGIN + 4 + 18 * at}" cy="15" r="5" fill="{colour}"/>')
for at, line in enumerate(lines):
    y = BAR + (at + 1) * ROW - 5
    print(f'<text x="{MARGIN}" y="{y}" xml:space="preserve">{rendered(line)}</text>')
print("</svg>")
