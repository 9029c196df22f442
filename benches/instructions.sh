#!/usr/bin/env bash
# Instructions of one request with two policies of the metadata, in one thread of one process,
# counted by callgrind: no two runs of a program differ by more than a few in a thousand.
#
# Usage: benches/instructions.sh [LOAD...]
#
# OTHER=POLICY sets the policy beside compact (inram).
#
# The loads are those of crates/engine/volume/benches/instructions.rs. The kernel's work is not
# counted, nor is a checkpoint.
set -euo pipefail
cd "$(dirname "$0")/.."
loads=${*:-unique-32 unique-1 flushed-32 overwrite-32 overwrite-1 duplicate-32 duplicate-1 \
    read-32 read-1 write-64k read-64k write-1m read-1m}
program=$(nice -n 5 cargo bench --profile profiling -p gemelo-volume --bench instructions --no-run 2>&1 |
    sed -n 's/.*(\(.*\)).*/\1/p' | tail -1)

count() {
    valgrind --tool=callgrind --toggle-collect='instructions::measured*' \
        --callgrind-out-file=/dev/null "$program" "$1" "$2" "$3" 2>&1 |
        sed -n 's/.*Collected *: *//p'
}

other=${OTHER:-inram}
printf '%-14s %10s %10s %6s\n' load compact "$other" ratio
for load in $loads; do
    case $load in
    *-1m) requests=32 ;;
    *-64k) requests=256 ;;
    *) requests=4096 ;;
    esac
    compact=$(count compact "$load" $requests)
    beside=$(count "$other" "$load" $requests)
    awk -v load="$load" -v compact="$compact" -v beside="$beside" -v requests=$requests 'BEGIN {
        printf "%-14s %10.0f %10.0f %6.3f\n",
            load, compact / requests, beside / requests, compact / beside }'
done
