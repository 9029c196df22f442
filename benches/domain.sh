#!/usr/bin/env bash
# A member of a domain beside an RBD image, on a Ceph cluster that the script starts: fio
# --ioengine=nbd to gemelo serve, and fio --ioengine=rbd, in turn. The loads are sequential writes
# and reads of 1 MiB at depth 16, random reads of 4 KiB at depth 32, and random writes of 4 KiB by
# benches/lib/equal.py, fresh and after two restarts (aged). Then it measures two members under the same load together, the index (contents
# published and shared a second, by pool dedup), and a fail-over. About four minutes with one round.
# The part "mapped" is another fail-over, of a member with CLONES volumes of 4 GiB (25) that have
# few different contents, and "published" one of a member whose contents (IMAGE) are all different
# and published.
#
#   benches/domain.sh [ROUNDS]     rounds, default 1; each figure is the median of its rounds
#
# SECONDS_EACH is the length of a measurement (10), SIZE that of the volumes (1g), IMAGE that of the
# image for the index (256m), LEASE the lease at the fail-over (4s). MODES are the modes of
# deduplication (off inline offline). PARTS are the parts to measure (load members index failover,
# or mapped, published). Words after ROUNDS are options of gemelo serve under the loads. GEMELO is
# the program to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-1}
shift || true
parts=${PARTS:-load members index failover}
size=${SIZE:-1g}
image=${IMAGE:-256m}
# shellcheck source=benches/lib/server.bash
. benches/lib/server.bash
begin domain fio rbd qemu-io python3
/usr/bin/python3 -c 'import rados, rbd' || { echo "benches/domain.sh needs python3-rbd" >&2; exit 1; }

# end_cluster: the cluster lies in the directory, so it ends first.
end_cluster() {
    jobs -p | xargs -r kill 2>/dev/null || true
    scripts/ceph.sh stop "$directory/ceph" || true
    finish
}
trap end_cluster EXIT
scripts/ceph.sh start "$directory/ceph" 2>/dev/null
export CEPH_CONF=$directory/ceph/ceph.conf GEMELO_RUNTIME_DIR=$directory/run
domain=rados:gemelo/bench

# make NAME MODE: a member with a volume.
make() {
    "$gemelo" pool create "$domain/$1" --capacity 8g >/dev/null
    "$gemelo" volume create "$domain/$1/disk" --size "$size" >/dev/null
    "$gemelo" volume set "$domain/$1/disk" --dedup "$2" >/dev/null
}

# ticks: the processor time of the server, in hundredths of a second; 0 without one.
ticks() {
    [ -z "$server" ] && echo 0 || awk '{ print $14 + $15 }' "/proc/$server/stat"
}

# load SERVER NAME OPTIONS...: appends one line of figures.
load() {
    local who=$1 name=$2 engine before
    shift 2
    before=$(ticks)
    case $who in
    rbd) engine=(--ioengine=rbd --pool=gemelo --rbdname=image --clientname=admin) ;;
    *) engine=(--ioengine=nbd --uri="nbd+unix:///disk?socket=${socket_of:-$socket}") ;;
    esac
    fio --name=x "${engine[@]}" --size="$size" --time_based --runtime="${SECONDS_EACH:-10}" --refill_buffers --randrepeat=0 \
        --output-format=json "$@" >"$directory/fio-$who" 2>/dev/null
    python3 - "$directory/fio-$who" "$who" "$name" "$(($(ticks) - before))" >>"$directory/figures" <<'END'
import json, sys
text = open(sys.argv[1]).read()  # fio tells of the connection first
job = json.loads(text[text.index("{"):])["jobs"][0]
side = max(job["read"], job["write"], key=lambda side: side["total_ios"])
slow, spent_us = side["clat_ns"]["percentile"]["99.000000"] / 1e6, int(sys.argv[4]) * 1e4
print(sys.argv[2], sys.argv[3], side["iops"], side["bw_bytes"] / 1e6, slow, spent_us / side["total_ios"])
END
}

# calm: waits until the storage servers have ended what earlier loads have left to them.
calm() {
    local before now
    for _ in $(seq 15); do
        before=$(osd_ticks)
        sleep 1
        now=$(osd_ticks)
        [ $((now - before)) -ge 6 ] || return 0
    done
}

osd_ticks() {
    cat "$directory"/ceph/osd.*.pid | xargs -I '{}' cat '/proc/{}/stat' | awk '{ sum += $14 + $15 } END { print sum }'
}

# equal SERVER NAME: appends one line of figures of random writes, the same for each server.
equal() {
    local before at=(nbd "$socket" disk)
    [ "$1" != rbd ] || at=(rbd gemelo image)
    calm
    before=$(ticks)
    /usr/bin/python3 benches/lib/equal.py "${at[@]}" "$(($(numfmt --from=iec "${size^^}") / 4096))" \
        "${SECONDS_EACH:-10}" >"$directory/equal"
    awk -v who="$1" -v name="$2" -v spent="$(($(ticks) - before))" \
        '{ print who, name, $1 / $2, $1 / $2 * 4096 / 1e6, $3, spent * 1e4 / $1 }' "$directory/equal" >>"$directory/figures"
}

measure() {
    load "$1" write-1m --bs=1m --rw=write --iodepth=16
    load "$1" read-1m --bs=1m --rw=read --iodepth=16
    equal "$1" write-4k
    load "$1" read-4k --bs=4k --rw=randread --iodepth=32
}

loads() {
    local mode
    rbd create --size "${size^^}" gemelo/image
    measure rbd
    equal rbd aged-4k
    rbd rm --no-progress gemelo/image
    for mode in ${MODES:-off inline offline}; do
        make "$mode" "$mode"
        start "$gemelo" serve "$domain/$mode" --listen "unix:$socket" "$@"
        measure "$mode"
        for _ in 1 2; do
            restart "$gemelo" serve "$domain/$mode" --listen "unix:$socket" "$@"
        done
        equal "$mode" aged-4k
        stop
        "$gemelo" pool rm "$domain/$mode" --force >/dev/null 2>&1 || true
    done
}

random_writes=(--bs=4k --rw=randwrite --iodepth=32 --fsync=64)

# Two members have the same load together as one alone.
members() {
    local name
    for name in one two; do
        make "$name" inline
        socket=$directory/$name start "$gemelo" serve "$domain/$name" --listen "unix:$directory/$name"
        servers+=("$server")
        socket_of=$directory/$name load "$name" fill --bs=1m --rw=write --iodepth=16
    done
    socket_of=$directory/one load alone write-4k "${random_writes[@]}"
    for name in one two; do
        socket_of=$directory/$name load "both-$name" write-4k "${random_writes[@]}" --iodepth=16 &
        clients+=("$!")
    done
    wait "${clients[@]}"
    kill "${servers[@]}"
    wait "${servers[@]}" || true
    server=
}

# The finder is paused while the image is imported, so that pool dedup does all of the work.
index() {
    local name began ended
    head -c "$(numfmt --from=iec "${image^^}")" /dev/urandom >"$directory/image"
    for name in first second; do
        make "$name" offline
        start "$gemelo" serve "$domain/$name" --listen "unix:$socket"
        "$gemelo" pool dedup "$domain/$name" --pause >/dev/null
        "$gemelo" volume import --force "$directory/image" "$domain/$name/disk" >/dev/null
        began=$EPOCHREALTIME
        "$gemelo" pool dedup "$domain/$name" >/dev/null
        ended=$EPOCHREALTIME
        "$gemelo" pool stat "$domain/$name" --json "$directory/stat-$name" >/dev/null
        python3 - "$directory/stat-$name" "$name" "$began" "$ended" >>"$directory/index" <<'END'
import json, sys
sharing = json.load(open(sys.argv[1]))["result"]["sharing"]
seconds = float(sys.argv[4]) - float(sys.argv[3])
done = sharing["published"] + sharing["shared"]
print(f"index: {sys.argv[2]}: {sharing['published']:,} published, {sharing['shared']:,} shared in {seconds:.2f} s: "
      f"{done / seconds:,.0f} contents/s (goal: 150,000)")
END
        stop
    done
}

failover() {
    make over inline
    start "$gemelo" serve "$domain/over" --listen "unix:$socket" --lease "${LEASE:-4s}"
    socket_of=$socket load over fill --bs=1m --rw=write --iodepth=16
    kill_server over disk
}

mapped() {
    local number
    make many inline
    start "$gemelo" serve "$domain/many" --listen "unix:$socket" --lease "${LEASE:-4s}"
    python3 -c 'import os
blocks = os.urandom(4 << 20)
for _ in range(1024): os.write(1, blocks)' >"$directory/image"
    "$gemelo" volume import "$directory/image" "$domain/many/base" >/dev/null
    rm "$directory/image"
    for number in $(seq 2 "${CLONES:-25}"); do
        "$gemelo" volume clone "$domain/many/base" "clone$number" >/dev/null
    done
    kill_server many base
}

published() {
    make published offline
    start "$gemelo" serve "$domain/published" --listen "unix:$socket" --lease "${LEASE:-4s}"
    "$gemelo" pool dedup "$domain/published" --pause >/dev/null
    head -c "$(numfmt --from=iec "${image^^}")" /dev/urandom >"$directory/image"
    "$gemelo" volume import "$directory/image" "$domain/published/image" >/dev/null
    rm "$directory/image"
    "$gemelo" pool dedup "$domain/published" >/dev/null
    kill_server published image
}

# kill_server MEMBER VOLUME: from the death of a process to the first byte that its standby serves.
kill_server() {
    local lease=${LEASE:-4s} standby began ended mapped
    mapped=$("$gemelo" pool stat "$domain/$1" | awk '$1 == "logical" { print $3, $4 }')
    "$gemelo" serve "$domain/$1" --listen "unix:$directory/standby" --lease "$lease" --standby >/dev/null 2>&1 &
    standby=$!
    sleep 2
    kill -KILL "$server"
    began=$EPOCHREALTIME
    until qemu-io -r -f raw -c 'read 0 4k' "nbd+unix:///$2?socket=$directory/standby" >/dev/null 2>&1; do sleep 0.02; done
    ended=$EPOCHREALTIME
    wait "$server" 2>/dev/null || true
    server=
    kill "$standby"
    wait "$standby" || true
    python3 -c 'import sys
print(f"fail-over: {float(sys.argv[2]) - float(sys.argv[1]):.2f} s with a lease of {sys.argv[3]} and {sys.argv[4]} mapped")
' "$began" "$ended" "$lease" "$mapped" >>"$directory/index"
}

touch "$directory/figures" "$directory/index"
"$gemelo" domain create "$domain" --shards 4 >/dev/null
for _ in $(seq "$rounds"); do
    for part in $parts; do
        case $part in
        load) loads "$@" ;;
        *) "$part" ;;
        esac
    done
done

python3 - "$directory/figures" "$rounds" <<'END'
import collections, statistics, sys
sys.path.insert(0, "benches/lib")
from figures import figure

lines = [line.split() for line in open(sys.argv[1])]
figures = collections.defaultdict(list)
for server, load, *values in lines:
    figures[load, server].append([float(value) for value in values])
median = lambda key: [statistics.median(column) for column in zip(*figures[key])]
goals = {"write-1m": 0.8, "read-1m": 0.8, "write-4k": 10, "aged-4k": 5, "read-4k": 0.9}
print(f"medians of {sys.argv[2]} rounds in turn; in brackets the ratio to rbd; 99th percentile of the latency in ms; "
      "processor time of the server for a request in µs")
for load, goal in goals.items():
    if (load, "rbd") not in figures:
        continue
    print(f"{load} (goal: {goal} of rbd)")
    peer = median((load, "rbd"))
    for server in dict.fromkeys(line[0] for line in lines if line[1] == load):
        if server in ("alone", "both-one", "both-two"):
            continue
        rate, bandwidth, slow, spent = median((load, server))
        print(f"  {server:<10}{rate:>10,.0f}/s{bandwidth:>9,.0f} MB/s ({rate / peer[0]:5.2f}){slow:>9.2f}{spent:>8,.0f}")
        if server == "inline" and load != "aged-4k":
            figure(f"rbd-{load}", f"{rate / peer[0]:.2f}", "times", f"benches/domain.sh {sys.argv[2]}")
if ("write-4k", "alone") in figures:
    alone = median(("write-4k", "alone"))[0]
    both = sum(median(("write-4k", name))[0] for name in ("both-one", "both-two"))
    print(f"two members: {both:,.0f} writes/s together, {alone:,.0f} alone ({both / alone:.2f}; goal: at least 0.9)")
END
cat "$directory/index"
