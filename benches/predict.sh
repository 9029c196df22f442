#!/usr/bin/env bash
# The blocks that `gemelo scan --compression` predicts for a pool, beside those that a pool takes
# for the same data: the files of real trees, each from a block of its own, and generated contents.
# The goal is a difference of at most 2 percent points of the blocks of the contents.
#
#   benches/predict.sh [TREE...]     default: trees below /usr, and the sources of crates
#
# MB is the data that is taken of each tree (1024), KINDS the compressions (lz4,zstd:3). Data and
# pools are made below BENCH_DIR (/var/tmp). GEMELO is the program.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${GEMELO:-target/release/gemelo}")
[ -x "$program" ] || { echo "predict: $program is missing: make build" >&2; exit 1; }
kinds=${KINDS:-lz4,zstd:3}
crates=${CARGO_HOME:-$HOME/.cargo}/registry/src
[ $# -gt 0 ] || set -- /usr/lib /usr/share /usr/include /usr/bin "$crates"
directory=$(mktemp -d "${BENCH_DIR:-/var/tmp}/gemelo-predict.XXXXXX")
trap 'rm -rf "$directory"' EXIT

# image TREE: writes the regular files of the tree one after another, in the order of their names.
image() {
    find "$1" -xdev -type f -size +0 -print0 | sort -z | python3 -c '
import sys
left = int(sys.argv[1]) << 20
with open(sys.argv[2], "wb") as image:
    for path in sys.stdin.buffer.read().split(b"\0"):
        if not path or left <= 0:
            continue
        try:
            data = open(path, "rb").read(left)
        except OSError:
            continue
        image.write(data + bytes(-len(data) % 4096))
        left -= len(data)
' "${MB:-1024}" "$directory/image"
}

# compare NAME: scans the image, and imports it into a pool of each kind.
compare() {
    "$program" scan "$directory/image" --compression "$kinds" --json "$directory/scan" >/dev/null
    for kind in ${kinds//,/ }; do
        "$program" pool create "$directory/pool" --capacity 8g --compression "$kind" >/dev/null
        "$program" volume import "$directory/image" "$directory/pool/a" >/dev/null
        "$program" pool stat "$directory/pool" --json "$directory/stat" >/dev/null
        python3 -c '
import json, sys
name, kind, scan, stat = sys.argv[1:]
pools = json.load(open(scan))["result"]["block_sizes"][0]["pools"]
predicted = next(pool["stored_share"] for pool in pools if pool["compression"] == kind)
pool = json.load(open(stat))["result"]["pool"]
share = pool["used_blocks"] / max(pool["physical_blocks"], 1)
contents = pool["physical_blocks"]
points = 100 * (predicted - share)
print(f"{name:40} {kind:8} {contents:10} {share:9.4f} {predicted:9.4f} {points:+7.2f} points")
' "$1" "$kind" "$directory/scan" "$directory/stat"
        rm -r "$directory/pool" "$directory/stat"
    done
    rm "$directory/image" "$directory/scan"
}

printf '%-40s %-8s %10s %9s %9s %10s\n' contents kind number pool predicted difference
for tree in "$@"; do
    image "$tree"
    compare "$tree"
done
for percent in 0 25 50 75; do
    "$program" generate "$directory/image" --bytes "${MB:-1024}m" --compressibility "$percent" >/dev/null
    compare "compressibility of $percent %"
done
