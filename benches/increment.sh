#!/usr/bin/env bash
# An increment of a volume of 1 TiB, copied by `gemelo volume copy` between two pools of this host,
# beside `nbdcopy` of as many bytes from one served volume to another, from one nbdkit to another,
# and beside cp. The goal is 0.8 of nbdcopy, or the rate of the disk. Nothing is cached when a copy
# begins, and each ends with a sync. Prints the most memory of a sender and a receiver too.
#
#   benches/increment.sh [ROUNDS]     rounds, default 3; each figure is the median of its rounds
#
# MB is the size of the increment (1024) and of what the volume had before, MODES are "idle served",
# BENCH_DIR is the file system (/var/tmp; 12 times as much). GEMELO is the program. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
mb=${MB:-1024}
# shellcheck source=benches/lib/server.bash
. benches/lib/server.bash
begin increment nbdcopy nbdkit python3
from=$directory/from
to=$directory/to
servers=()
trap 'end_all; finish' EXIT

# serve NAME PROGRAM...: one of several servers, at the socket of this name.
serve() {
    local name=$1
    shift
    "$@" >/dev/null 2>"$directory/$name.log" &
    servers+=($!)
    for _ in $(seq 200); do
        [ -S "$directory/$name" ] && return
        sleep 0.05
    done
    cat "$directory/$name.log" >&2
    exit 1
}

end_all() {
    [ ${#servers[@]} = 0 ] || kill "${servers[@]}"
    [ ${#servers[@]} = 0 ] || wait "${servers[@]}" || true
    servers=()
    rm -f "$directory"/*.sock
}

# measured WHO PROGRAM...: appends MB/s and the most memory of the program and of its children.
measured() {
    local who=$1
    shift
    sync
    # The host of a virtual machine may have taken back memory that the page cache needs now, which
    # costs the first one to use it.
    cat "$directory"/{old,new,peer} "$from/data" >/dev/null
    echo 3 >/proc/sys/vm/drop_caches
    # The programs themselves are cached.
    cat "$gemelo" "$(command -v "$1")" >/dev/null
    python3 - "$directory/figures" "$who" "$mb" "$directory" "$@" <<'END'
import os, subprocess, sys, time

figures, who, mb, directory, *command = sys.argv[1:]
began = time.monotonic()
program = subprocess.Popen(command, stdout=subprocess.DEVNULL)
peaks = {}
while program.poll() is None:
    try:
        children = open(f"/proc/{program.pid}/task/{program.pid}/children").read().split()
        for process in [program.pid, *map(int, children)]:
            status = dict(line.split(":", 1) for line in open(f"/proc/{process}/status"))
            peaks[process] = int(status["VmHWM"].split()[0]) / 1024
    except (OSError, KeyError):
        pass  # It has ended.
    time.sleep(0.05)
assert program.returncode == 0, command
os.sync()
rate = int(mb) * 1.048576 / (time.monotonic() - began)
print(who, rate, *peaks.values(), file=open(figures, "a"))
END
}

# Contents that the pools do not have: those of before, of the increment, and of the peer.
for part in old new peer; do
    "$gemelo" generate "$directory/$part" --bytes "${mb}m" --distribution unique --seed "$RANDOM" >/dev/null 2>&1
done
for _ in $(seq "$rounds"); do
    truncate -s 1t "$directory/source"
    for pool in "$from" "$to"; do "$gemelo" pool create "$pool" --capacity $((mb * 8))m >/dev/null; done
    dd if="$directory/old" of="$directory/source" bs=1M conv=notrunc status=none
    "$gemelo" volume import "$directory/source" "$from/v" >/dev/null
    "$gemelo" volume snapshot "$from/v" s1 >/dev/null
    "$gemelo" volume copy "$from/s1" "$to/s1" >/dev/null
    dd if="$directory/new" of="$directory/source" bs=1M seek=$((mb + 500000)) conv=notrunc status=none
    "$gemelo" volume import "$directory/source" "$from/v" --force >/dev/null
    "$gemelo" volume snapshot "$from/v" s2 >/dev/null
    "$gemelo" volume import "$directory/peer" "$from/peer" >/dev/null
    "$gemelo" volume create "$to/peer" --size "${mb}m" >/dev/null
    rm "$directory/source"
    for mode in ${MODES:-idle served}; do
        if [ "$mode" = served ]; then
            serve from.sock "$gemelo" serve "$from" --listen "unix:$directory/from.sock"
            serve to.sock "$gemelo" serve "$to" --listen "unix:$directory/to.sock"
        fi
        measured "copy, $mode" "$gemelo" volume copy "$from/s2" "$to/$mode" --quiet
        "$gemelo" volume rm --force "$to/$mode" >/dev/null
        "$gemelo" pool gc "$to" >/dev/null
        [ "$mode" = served ] || continue
        measured "nbdcopy, gemelo" nbdcopy "nbd+unix:///peer?socket=$directory/from.sock" "nbd+unix:///peer?socket=$directory/to.sock"
        end_all
    done
    truncate -s "${mb}m" "$directory/file"
    serve one.sock nbdkit -f -U "$directory/one.sock" file "$directory/peer"
    serve two.sock nbdkit -f -U "$directory/two.sock" file "$directory/file"
    measured "nbdcopy, nbdkit" nbdcopy "nbd+unix:///?socket=$directory/one.sock" "nbd+unix:///?socket=$directory/two.sock"
    end_all
    measured "cp" cp --sparse=never "$directory/peer" "$directory/copy"
    rm -rf "$from" "$to" "$directory/file" "$directory/copy"
done

python3 - "$directory/figures" "$rounds" <<'END'
import collections, statistics, sys

figures = collections.defaultdict(list)
for line in open(sys.argv[1]):
    who = line.rstrip("\n")
    words = who.split()
    at = next(at for at, word in enumerate(words) if word.replace(".", "").isdigit())
    figures[" ".join(words[:at])].append([float(word) for word in words[at:]])
peer = [round[0] for round in figures["nbdcopy, nbdkit"]]
print(f"MB/s, medians of {sys.argv[2]} rounds in turn; ratio to nbdcopy from nbdkit to nbdkit; most MiB of each process")
for who, rounds in figures.items():
    rate = statistics.median(round[0] for round in rounds)
    ratio = statistics.median(round[0] / other for round, other in zip(rounds, peer))
    memory = [max(column) for column in zip(*(round[1:] for round in rounds))]
    print(f"{who:18} {rate:7.0f} {ratio:6.2f}   {' '.join(f'{peak:.0f}' for peak in memory)}")
END
