#!/usr/bin/env bash
# Serves a pool of each policy under a steady load and commands of all kinds, and shows that memory
# and descriptors of the servers stay as they are once the caches are full.
#
#   scripts/soak.sh [MINUTES [DIRECTORY]]     60 minutes and a temporary directory, unless given
#   scripts/soak.sh --large SIZE [MINUTES [DIRECTORY [CACHE_MIB]]]
#
# The second form loads a volume of SIZE (100g) with the policy of POLICIES (compact) in a process,
# over a data disk that makes contents, until nearly all blocks of the pool were used. Then each
# minute a snapshot comes, and the sixth goes.
#
# GEMELO names the program, RATE the operations a second of each of the two volumes of a pool (150),
# POLICIES the policies. The figures of each minute are in DIRECTORY/POLICY.csv. It needs 4 GB of
# disk.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = --large ]; then
    exec cargo bench -p gemelo-volume --bench large -- \
        "${4:-/var/tmp}" "${2:?the SIZE is missing, such as 100g}" "${POLICIES:-compact}" "${5:-256}" 15 "${3:-60}"
fi

minutes=${1:-60}
work=$(realpath -m "${2:-$(mktemp -d "${TMPDIR:-/tmp}/gemelo-soak.XXXXXX")}")
gemelo=$(realpath "${GEMELO:-target/release/gemelo}")
rate=${RATE:-150}
read -ra policies <<<"${POLICIES:-compact inram dtb cbt}"
# The last minutes are compared with as many before them.
window=$((minutes < 60 ? minutes / 3 : 20))

say() { printf '%s %s\n' "$(date +%T)" "$*"; }

# A command that fails is in the log, and fails the soak.
run() { "$gemelo" --quiet "$@" >>"$pool.log" 2>&1 || echo "status $?: gemelo $*" >>"$pool.failed"; }

# The run begins with volumes that are full: it writes all blocks of a mixed load before.
load() {
    run bench --target "nbd+unix:///$1?socket=$pool.sock" --operation mixed --pattern nurand \
        --rate "$rate" --time "${minutes}m" --sync fsync --fsync-every 100 --verify both \
        --interval 1m --seed "$2" --json "$pool.$1.json"
}

# Every kind of work of a served pool, again and again: copies come and go, and one of each volume
# is always kept.
commands() {
    local round=0 volume
    while [ ! -e "$pool.loaded" ]; do
        for volume in online later; do
            run volume snapshot "$pool/$volume" "$volume-$round"
            run volume clone "$pool/$volume-$round" "$volume-clone"
            run volume export "$pool/$volume-clone" /dev/null --force
            run volume rm "$pool/$volume-clone" --force
            [ "$round" -eq 0 ] || run volume rm "$pool/$volume-$((round - 1))" --force
        done
        run pool dedup "$pool"
        run pool scrub "$pool" --rate 20m
        run pool defrag "$pool" --rate 20m
        run pool gc "$pool"
        run pool check "$pool" --data
        run pool stat "$pool" --space
        round=$((round + 1))
        sleep 5
    done
}

# What the pool itself knows of its size: numbers of `pool stat`, in this order.
figures="used_blocks index_entries metadata_memory_bytes metadata_used_bytes"

watch() {
    local minute memory descriptors threads name stat
    echo "minute,anonymous_kib,descriptors,threads,${figures// /,}" >"$pool.csv"
    for ((minute = 1; minute <= minutes; minute++)); do
        sleep 60
        memory=$(awk '/^RssAnon/ { print $2 }' "/proc/$1/status")
        descriptors=("/proc/$1/fd"/*)
        threads=("/proc/$1/task"/*)
        printf '%s' "$minute,$memory,${#descriptors[@]},${#threads[@]}" >>"$pool.csv"
        stat=$("$gemelo" --quiet pool stat "$pool" --json -)
        for name in $figures; do
            printf ',%s' "$(grep -om1 "\"$name\": *[0-9]*" <<<"$stat" | tr -dc 0-9)" >>"$pool.csv"
        done
        echo >>"$pool.csv"
    done
}

# Mean memory of the last window, and of the one before it. Snapshots and commands come and go, so
# single minutes vary.
judge() {
    awk -F, -v window="$window" -v minutes="$minutes" '
        NR == 1 { next }
        $1 > minutes - window { last += $2 / window; if ($3 > files) files = $3 }
        $1 > minutes - 2 * window && $1 <= minutes - window {
            before += $2 / window
            if ($3 > old) old = $3
        }
        END {
            printf "memory %.1f MiB, before %.1f MiB; ", last / 1024, before / 1024
            printf "descriptors %d, before %d\n", files, old
            exit last > before * 1.02 + 1024 || files > old + 2
        }' "$pool.csv" || echo "memory or descriptors grew" >>"$pool.failed"
}

soak() {
    pool=$work/$1
    rm -rf "$pool" "$pool".*
    # Writes go once round so small a data store in 20 minutes. Until then `log` and `ram` make
    # records of blocks that were never used before.
    "$gemelo" --quiet pool create "$pool" --policy "$1" --capacity 768m --metadata-cache 8m
    "$gemelo" --quiet volume create "$pool/online" --size 256m
    "$gemelo" --quiet volume create "$pool/later" --size 256m --dedup offline
    # Small caches are full within minutes.
    "$gemelo" serve "$pool" --listen "unix:$pool.sock" --metrics 127.0.0.1:0 --finder-memory 1m \
        >"$pool.serve" 2>&1 &
    local server=$! loads=()
    until [ -S "$pool.sock" ]; do
        kill -0 "$server"
        sleep 0.2
    done
    watch "$server" &
    local watcher=$!
    load online 1 &
    loads+=("$!")
    load later 2 &
    loads+=("$!")
    commands &
    local work_of_commands=$!
    wait "${loads[@]}"
    touch "$pool.loaded"
    wait "$work_of_commands" "$watcher"
    kill "$server"
    wait "$server" || echo "status $?: the server" >>"$pool.failed"
    run pool check "$pool" --data
    say "$1: $(judge)"
    rm -rf "$pool"
    [ ! -e "$pool.failed" ] || { cat "$pool.failed"; return 1; }
}

mkdir -p "$work"
say "${policies[*]}: $minutes minutes in $work"
soaks=()
for policy in "${policies[@]}"; do
    soak "$policy" &
    soaks+=("$!")
done
failed=0
for each in "${soaks[@]}"; do wait "$each" || failed=1; done
exit "$failed"
