#!/usr/bin/env bash
# How long commands take that do no work: the median of many starts, beside that of /bin/true. Goal:
# under 20 ms.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${GEMELO:-target/release/gemelo}
runs=${RUNS:-51}

median_ms() {
    local before after
    for ((run = 0; run < runs; run++)); do
        before=${EPOCHREALTIME/./}
        "$@" >/dev/null 2>&1 || true
        after=${EPOCHREALTIME/./}
        echo $((after - before))
    done | sort -n | sed -n "$((runs / 2 + 1))p" | awk '{ printf "%6.2f ms", $1 / 1000 }'
}

row() {
    printf '%-40s %s\n' "$1" "$(median_ms "${@:2}")"
}

[ -x "$program" ] || { echo "start: $program is missing: make build" >&2; exit 1; }
echo "median of $runs starts"
row /bin/true /bin/true
row "gemelo --version" "$program" --version
row "gemelo --help" "$program" --help
row "gemelo distribution show unique" "$program" distribution show unique
row "gemelo distribution show (unknown name)" "$program" distribution show no-such-name
