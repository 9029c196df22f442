#!/usr/bin/env bash
# Copies of a whole disk image: gemelo volume import and export beside cp --sparse=always, and
# nbdcopy in and out of a served volume beside nbdkit file, on a disk, in turn. The image has the
# contents of the distribution "personal". The source is in the page cache, each copy ends with a
# sync of its file system, and what was copied is compared. Copies out are made three times: as the
# copy in has left the page cache (the peers leave everything there, gemelo nothing), cold (nothing
# cached) and warm (all of it). About four minutes with one round.
#
#   benches/copy.sh [ROUNDS]     rounds, default 3; each figure is the median of its rounds
#
# BENCH_DIR is the file system for everything (default /var/tmp), MB the size of the image (1024).
# MODES are the modes of deduplication (off inline offline). GEMELO is the program to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
mb=${MB:-1024}
# shellcheck source=benches/lib/server.bash
. benches/lib/server.bash
begin copy nbdcopy nbdkit python3
source=$directory/source
pool=$directory/pool
uri="nbd+unix:///?socket=$socket"

# copied WHO WHAT PROGRAM...: appends MB/s, a sync of the file system included.
copied() {
    local who=$1 what=$2 begin end
    shift 2
    begin=$(date +%s%N)
    "$@" >/dev/null
    sync -f "$directory"
    end=$(date +%s%N)
    echo "$who $what $((mb * 1048576000 / (end - begin)))" >>"$directory/figures"
}

create() {
    "$gemelo" pool create "$pool" --capacity $((mb * 2))m >/dev/null
    "$gemelo" volume create "$pool/disk" --size "${mb}m" >/dev/null
    "$gemelo" volume set "$pool/disk" --dedup "$1" >/dev/null
}

# out WHO WHAT FILE PROGRAM...: copies out as the page cache is, cold and warm. FILE holds the data
# of the server.
out() {
    local who=$1 what=$2 file=$3 state
    shift 3
    for state in "" cold warm; do
        [ -z "$state" ] || cache "$state" "$file"
        rm -f "$directory/back"
        copied "$who" "$what${state:+-$state}" "$@"
    done
}

# Warm sources cost no reads from the disk.
"$gemelo" generate "$source" --bytes "${mb}m" --distribution personal >/dev/null 2>&1
for _ in $(seq "$rounds"); do
    cat "$source" >/dev/null
    copied cp import cp --sparse=always "$source" "$directory/copy"
    out cp export "$directory/copy" cp --sparse=always "$directory/copy" "$directory/back"
    rm "$directory/copy" "$directory/back"
    for mode in ${MODES:-off inline offline}; do
        create "$mode"
        copied "$mode" import "$gemelo" volume import "$source" "$pool/disk" --force
        out "$mode" export "$pool/data" "$gemelo" volume export "$pool/disk" "$directory/back"
        cmp "$source" "$directory/back"
        rm -rf "$pool" "$directory/back"
    done
    truncate -s "${mb}m" "$directory/file"
    start nbdkit -f -U "$socket" file "$directory/file"
    copied nbdkit nbdcopy-in nbdcopy "$source" "$uri"
    out nbdkit nbdcopy-out "$directory/file" nbdcopy "$uri" null:
    stop
    for mode in ${MODES:-off inline offline}; do
        create "$mode"
        start "$gemelo" serve "$pool" --listen "unix:$socket"
        copied "$mode" nbdcopy-in nbdcopy "$source" "$uri"
        out "$mode" nbdcopy-out "$pool/data" nbdcopy "$uri" null:
        nbdcopy "$uri" - | cmp "$source" -
        stop
    done
done

python3 - "$directory/figures" "$rounds" <<'END'
import collections, statistics, sys
sys.path.insert(0, "benches/lib")
from figures import figure

figures = collections.defaultdict(list)
for who, what, rate in map(str.split, open(sys.argv[1])):
    figures[what, who].append(int(rate))
print(f"MB/s, medians of {sys.argv[2]} rounds in turn; in brackets the median ratio to the peer of the same round")
for what in dict.fromkeys(key[0] for key in figures):
    peer = "nbdkit" if what.startswith("nbdcopy") else "cp"
    words = [f"{what:<16}"]
    for who in (key[1] for key in figures if key[0] == what):
        rates = figures[what, who]
        ratio = statistics.median(a / b for a, b in zip(rates, figures[what, peer]))
        if (what, who) == ("nbdcopy-out", "inline"):
            figure("nbd-copy-out", f"{ratio:.2f}", "times", f"benches/copy.sh {sys.argv[2]}")
        words.append(f"{who} {statistics.median(rates):,.0f}" + ("" if who == peer else f" ({ratio:.2f})"))
    print("   ".join(words))
END
