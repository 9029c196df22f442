#!/usr/bin/env bash
# Fails if a dependency has a licence that does not go with "MIT OR Apache-2.0".
set -euo pipefail
cd "$(dirname "$0")/.."

cargo metadata --format-version 1 --locked --filter-platform x86_64-unknown-linux-gnu | python3 -c '
import json, re, sys

ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
    "ISC", "MIT", "MIT-0", "Unicode-3.0", "Unicode-DFS-2016", "Unlicense", "Zlib",
}

def allowed(expression):
    # SPDX: OR binds weaker than AND; older crates write "/" for OR.
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    def either():
        value = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            value = both() or value
        return value
    def both():
        value = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            value = one() and value
        return value
    def one():
        token = tokens.pop(0)
        if token == "(":
            value = either()
            tokens.pop(0)
            return value
        if tokens and tokens[0] == "WITH":
            tokens.pop(0)
            token += " WITH " + tokens.pop(0)
        return token in ALLOWED
    return bool(tokens) and either()

packages = json.load(sys.stdin)
used = {node["id"] for node in packages["resolve"]["nodes"]}
wrong = [p for p in packages["packages"] if p["id"] in used and not allowed(p["license"] or "")]
for package in wrong:
    print("licence of {} {}: {}".format(package["name"], package["version"], package["license"]), file=sys.stderr)
print("licences: {} packages, {} not allowed".format(len(used), len(wrong)))
sys.exit(1 if wrong else 0)
'
