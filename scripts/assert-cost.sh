#!/usr/bin/env bash
# Measures what the assertions of the engine cost in a release build: the benchmark `engine` as it
# is and built from a copy of the tree without assertions, in turn.
#
#   scripts/assert-cost.sh [PAIRS [DIRECTORY [WORD]]]     5 pairs, in the directory for temporary files
#
# The data are in DIRECTORY; with WORD, only the lines of the benchmark that contain it are
# measured. Each line says how much more processor time an operation takes with assertions: the
# median of all pairs, and the least and the most. If valgrind is installed, a last line says how
# many more instructions the whole run takes, which other work on the machine does not change; with
# 0 pairs it is the only one. It needs 5 GB in DIRECTORY.
set -euo pipefail
cd "$(dirname "$0")/.."

pairs=${1:-5}
work=$(mktemp -d "${2:-${TMPDIR:-/tmp}}/gemelo-assert-cost.XXXXXX")
trap 'rm -rf "$work"' EXIT
target=${CARGO_TARGET_DIR:-$PWD/target}

# Tests are not built here, so their assertions may go as well. What is only in `debug_assert!` is
# still compiled, so nothing becomes unused.
mkdir "$work/tree"
git ls-files -z | tar -c --null -T - | tar -x -C "$work/tree"
find "$work"/tree/crates/{foundation,engine}/*/src -name '*.rs' -exec \
    sed -Ei 's/\b(assert(_eq|_ne)?!\()/debug_\1/g' {} +
echo "taken out: $(grep -rhoE '\bdebug_assert(_eq|_ne)?!\(' "$work"/tree/crates/{foundation,engine}/*/src | wc -l)" \
    "assertions, those of unit tests counted"

# Builds the program of the benchmark from a tree. To cargo both trees are the same packages, so
# they must not share a directory.
build() {
    (cd "$1" && CARGO_TARGET_DIR="$2" cargo bench --quiet -p gemelo-volume --bench engine --no-run \
        --message-format=json-render-diagnostics) |
        grep -o '"executable":"[^"]*/engine-[^"]*"' | cut -d'"' -f4
}

# Prints the processor time of an operation in µs, a line for each kind and fingerprint.
measure() {
    "$1" "$work" "${@:2}" | awk -v OFS='\t' '
        /processor time of one/ { print title ", blake3", $(NF - 1); print title ", xxh3", $NF; next }
        { title = $0; sub(/  .*/, "", title) }'
}

# Prints the instructions of a run, in millions.
instructions() {
    valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null "$1" "$work" "${@:2}" \
        2>&1 >/dev/null | awk '/I *refs:/ { gsub(",", "", $NF); printf "%.0f\n", $NF / 1e6 }'
}

with=$(build . "$target")
without=$(build "$work/tree" "$target/without-assertions")
! cmp -s "$with" "$without" || { echo "both programs are the same" >&2; exit 1; }
for ((pair = 1; pair <= pairs; pair++)); do
    # The first of a pair may find the machine in another state, so both take turns.
    if ((pair % 2)); then
        measure "$with" "${@:3}" >"$work/with"
        measure "$without" "${@:3}" >"$work/without"
    else
        measure "$without" "${@:3}" >"$work/without"
        measure "$with" "${@:3}" >"$work/with"
    fi
    paste "$work/with" "$work/without" |
        awk -F'\t' -v OFS='\t' '{ print $1, ($2 / $4 - 1) * 100 }' >>"$work/more"
    echo "pair $pair of $pairs" >&2
done
[ ! -e "$work/more" ] || sort -t$'\t' -k1,1 -k2,2g "$work/more" | awk -F'\t' '
    function tell() {
        if (count) printf "%-52s %+6.2f %% (%+.2f to %+.2f)\n", title, all[int((count + 1) / 2)], all[1], all[count]
        count = 0
    }
    $1 != title { tell(); title = $1 }
    { all[++count] = $2 }
    END { tell() }'

if command -v valgrind >/dev/null; then
    awk -v with="$(instructions "$with" "${@:3}")" -v without="$(instructions "$without" "${@:3}")" 'BEGIN {
        printf "%-52s %+6.2f %% (%d to %d million)\n", "instructions", (with / without - 1) * 100, without, with }'
fi
