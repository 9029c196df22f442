#!/usr/bin/env bash
# The main job on real data: find its duplicates, write load with the same ones, find them again,
# compare; beside what the sampled algorithm of DEDISbench gives at that size. Then the same load on
# a volume that stores each block once. At the end a short campaign compares volumes with a plain
# directory; its report is kept in target/demo. The arguments are what to scan (default: /usr).
set -euo pipefail
cd "$(dirname "$0")/.."

gemelo="$PWD/target/release/gemelo"
[ "$#" -gt 0 ] || set -- /usr
# The most that the demo writes, twice: enough to be exact, little enough for any disk.
most_mib=2048

work=$(mktemp -d "${TMPDIR:-/tmp}/gemelo-demo.XXXXXX")
trap 'rm -rf "$work"' EXIT

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

say "1. Which duplicates does $* have?   gemelo scan"
# Unreadable files make the exit status 1; what was read counts all the same.
"$gemelo" scan --one-file-system --distribution "$work/found" --json "$work/scan.json" "$@" || [ -s "$work/found" ]

blocks=$(awk '{ blocks += ($1 + 1) * $2 } END { print blocks }' "$work/found")
free_mib=$(df --output=avail -m "$work" | tail -n 1)
mib=$((blocks / 256))
[ "$mib" -le "$most_mib" ] || mib=$most_mib
[ "$mib" -le $((free_mib / 5)) ] || mib=$((free_mib / 5))
[ "$mib" -ge 2 ] || { echo "too little data, or too little room in $work" >&2; exit 1; }
each=$((mib / 2))

say "2. Load with these duplicates, and all of it checked   gemelo bench"
mkdir "$work/written" "$work/sampled"
load=(bench --distribution "$work/found.toml" --processes 2 --file-size "${each}m" --keep)
"$gemelo" "${load[@]}" --target "$work/written" --verify final --json "$work/bench.json"

say "3. The same, drawn as DEDISbench does   gemelo bench --content sampled"
"$gemelo" "${load[@]}" --target "$work/sampled" --content sampled

say "4. Which duplicates does what was written have?   gemelo scan"
"$gemelo" scan --distribution "$work/exact" --json "$work/exact.json" "$work/written"
"$gemelo" scan --distribution "$work/drawn" --json "$work/drawn.json" "$work/sampled" >/dev/null

say "5. Found, written, and drawn, side by side   gemelo distribution compare"
cd "$work"
"$gemelo" distribution compare found exact drawn
cd - >/dev/null
rm -rf "$work/sampled"

say "6. The same load on a volume of a pool, which stores each block once   gemelo pool, gemelo volume, gemelo bench"
"$gemelo" pool create "$work/pool" --capacity "$((mib + 64))m"
"$gemelo" volume create "$work/pool/disk" --size "${mib}m"
"$gemelo" bench --distribution "$work/found.toml" --processes 2 --file-size "${each}m" --target "pool:$work/pool/disk" \
    --verify final --json "$work/pool.json"
"$gemelo" pool check "$work/pool"
rm -rf "$work/pool" "$work/written"

say "7. Volumes and a plain directory, side by side   gemelo campaign"
report="$PWD/target/demo"
rm -rf "$report"
"$gemelo" campaign run quick --out "$report" --set time=300ms --set ramp-up=100ms --set size=32m >/dev/null
"$gemelo" campaign report "$report"
