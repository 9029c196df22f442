#!/usr/bin/env bash
# Many hosts: a run on hosts beside one process with as many threads of load, the two in turn, and
# their ratio. One host shows the cost of the protocol, several that of starting, listening to and
# merging them.
#
#   benches/hosts.sh [ROUNDS]     rounds of each pair, default 5
#
# The hosts are this machine, through a shell. The goal is a ratio of at least 0.98 for each pair.
# GEMELO is the program to measure, and SECONDS_EACH the length of a measurement (2).
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
gemelo="${GEMELO:-$PWD/target/release/gemelo}"
[ -x "$gemelo" ] || { echo "build first: make build" >&2; exit 1; }
memory=$(mktemp -d /dev/shm/gemelo-bench.XXXXXX)
trap 'rm -rf "$memory"' EXIT

# Appends the operations a second of a job with these options to a file.
rate() {
    local figures=$1
    shift
    "$gemelo" bench --json "$memory/result" --force --time "${SECONDS_EACH:-2}s" "$@" >/dev/null
    python3 -c '
import json, sys
total = json.load(open(sys.argv[1]))["result"][0]["total"]
print(sum((total[kind] or {"operations_per_s": 0})["operations_per_s"] for kind in ("reads", "writes")))
' "$memory/result" >>"$figures"
}

# pair NAME COUNT OPTIONS...: the same job in one process and on this many hosts.
pair() {
    local name=$1 count=$2 hosts
    shift 2
    hosts=$(seq -s, "$count")
    rm -f "$memory/plain" "$memory/hosts"
    for _ in $(seq "$rounds"); do
        rate "$memory/plain" --processes "$count" "$@"
        rate "$memory/hosts" --hosts "$hosts" --connect 'sh -c' --program "$gemelo" "$@"
    done
    python3 - "$name" "$memory/plain" "$memory/hosts" <<'PY'
import statistics, sys
name, plain, hosts = sys.argv[1], *([float(line) for line in open(path)] for path in sys.argv[2:])
ratio = statistics.median(b / a for a, b in zip(plain, hosts, strict=True))
verdict = "" if ratio >= 0.98 else "  below the goal"
print(f"{name:<36} {statistics.median(plain):>12,.0f} {statistics.median(hosts):>12,.0f} {ratio:>7.3f}{verdict}")
PY
}

echo "operations of 4 KiB a second, medians of $rounds rounds in turn; the goal is a ratio of 0.98"
printf '%-36s %12s %12s %7s\n' "" "one process" "hosts" ratio
mkdir "$memory/data"
pair "1 host: null, personal contents" 1 --target null: --file-size 1g
pair "1 host: tmpfs, sequential writes" 1 --target "$memory/data" --file-size 256m
pair "$(nproc) hosts: null, personal contents" "$(nproc)" --target null: --file-size 256m
pair "64 hosts: null, 200 a second each" 64 --target null: --file-size 1m --rate 200
