#!/usr/bin/env bash
# `gemelo scan` beside its peers on the same data, in alternation; medians. Goals: of a cached file
# at least 0.6 of the rate of `cat` and 4 times that of `fio-dedupe -B 0`; small files at least as
# fast as `find` plus `cat` of them. BYTES, FILES, RUNS and GEMELO change the data, the repetitions
# and the program; data is made below TMPDIR or /dev/shm.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(realpath "${GEMELO:-target/release/gemelo}")
bytes=${BYTES:-2147483648}
files=${FILES:-1000000}
runs=${RUNS:-5}
[ -x "$program" ] || { echo "scan: $program is missing: make build" >&2; exit 1; }
data=$(mktemp -d "${TMPDIR:-/dev/shm}/gemelo-bench.XXXXXX")
trap 'rm -rf "$data"' EXIT

# Microseconds that a command takes.
once_us() {
    local before=${EPOCHREALTIME/./}
    "$@" >/dev/null 2>&1
    local after=${EPOCHREALTIME/./}
    echo $((after - before))
}

median() {
    sort -n | sed -n "$((runs / 2 + 1))p"
}

# compare NAME OURS PEER GOAL AMOUNT UNIT [FIGURE]: alternates both, prints both medians and the
# ratio of rates. Both are functions. FIGURE is the entry in docs/results/figures.toml for the
# ratio.
compare() {
    local name=$1 ours=$2 peer=$3 goal=$4 amount=$5 unit=$6 run
    : >"$data/ours"
    : >"$data/peer"
    "$ours" >/dev/null 2>&1
    "$peer" >/dev/null 2>&1
    for ((run = 0; run < runs; run++)); do
        once_us "$ours" >>"$data/ours"
        once_us "$peer" >>"$data/peer"
    done
    awk -v name="$name" -v ours="$(median <"$data/ours")" -v peer="$(median <"$data/peer")" \
        -v goal="$goal" -v amount="$amount" -v unit="$unit" -v peer_name="$peer" 'BEGIN {
            printf "%-28s scan %8.2f %s   %-12s %8.2f %s   ratio %5.2f (goal %s)\n",
                name, amount / ours, unit, peer_name, amount / peer, unit, peer / ours, goal }'
    if [ -n "${7:-}" ]; then
        benches/lib/figures.py "$7" "$(awk -v ours="$(median <"$data/ours")" -v peer="$(median <"$data/peer")" \
            'BEGIN { printf "%.2f", peer / ours }')" times benches/scan.sh
    fi
}

cat_file() { cat "$data/file"; }
fio_dedupe() { fio-dedupe -B 0 -b 4096 "$data/file"; }
scan_file() { "$program" scan "$data/file"; }
estimate_file() { "$program" scan --estimate "$data/file"; }
find_and_cat() { find "$data/tree" -type f -print0 | xargs -0 cat; }
scan_tree() { "$program" scan "$data/tree"; }

head -c "$bytes" /dev/urandom >"$data/file"
echo "median of $runs alternating runs, $bytes bytes, $files files, $(nproc) processors"
compare "cached file" scan_file cat_file 0.6 "$((bytes / 1000))" "GB/s" scan-cat
compare "cached file, --estimate" estimate_file cat_file 0.6 "$((bytes / 1000))" "GB/s"
if command -v fio-dedupe >/dev/null; then
    compare "cached file" scan_file fio_dedupe 4 "$((bytes / 1000))" "GB/s"
else
    echo "fio-dedupe is not installed: not compared"
fi
rm "$data/file"

mkdir "$data/tree"
for ((directory = 0; directory < files / 1000; directory++)); do
    mkdir "$data/tree/$directory"
    head -c 1000000 /dev/urandom | split -b 1000 -a 3 - "$data/tree/$directory/"
done
compare "small files" scan_tree find_and_cat 1 "$((files / 1000 * 1000))" "M/s "
