#!/usr/bin/env bash
# Many hosts: a run of one host beside a plain process, the two in turn, and their ratio.
#
#   benches/hosts.sh [ROUNDS]     rounds of each pair, default 5
#
# The host is this machine, through a shell. The goal is a ratio of at least 0.98.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
gemelo="${GEMELO:-$PWD/target/release/gemelo}"
[ -x "$gemelo" ] || { echo "build first: make build" >&2; exit 1; }
memory=$(mktemp -d /dev/shm/gemelo-bench.XXXXXX)
trap 'rm -rf "$memory"' EXIT

# Operations a second of a job with these options.
rate() {
    "$gemelo" bench --json - --force "$@" 2>/dev/null | python3 -c '
import json, sys
total = json.load(sys.stdin)["result"][0]["total"]
print(round(sum((total[kind] or {"operations_per_s": 0})["operations_per_s"] for kind in ("reads", "writes"))))'
}

# pair NAME OPTIONS: the same job here and on one host.
pair() {
    local plain=() host=()
    for _ in $(seq "$rounds"); do
        # shellcheck disable=SC2086 # the options are words
        plain+=("$(rate $2)")
        # shellcheck disable=SC2086
        host+=("$(rate $2 --hosts one --connect 'sh -c' --program "$gemelo")")
    done
    python3 - "$1" "${plain[*]}" "${host[*]}" <<'PY'
import statistics, sys
name, plain, host = sys.argv[1], [int(n) for n in sys.argv[2].split()], [int(n) for n in sys.argv[3].split()]
ratio = statistics.median(b / a for a, b in zip(plain, host))
print(f"{name:<36} {statistics.median(plain):>12,.0f} {statistics.median(host):>12,.0f} {ratio:>7.3f}")
PY
}

echo "operations of 4 KiB a second, medians of $rounds rounds in turn"
printf '%-36s %12s %12s %7s\n' "" "one process" "one host" ratio
pair "null, personal contents" "--target null: --file-size 1g --time 2s"
pair "tmpfs, sequential writes" "--target $memory --file-size 256m --time 2s"
