#!/usr/bin/env bash
# Runs a Ceph cluster on this machine, for tests: one monitor, one manager, three OSDs.
#
#   scripts/ceph.sh start DIRECTORY   makes DIRECTORY with ceph.conf, and the pool "gemelo"
#   scripts/ceph.sh stop DIRECTORY    ends the processes and removes DIRECTORY
#
# Clients authenticate by cephx. DIRECTORY/keyring has the key of client.admin; a key of another user
# is looked for in DIRECTORY/ceph.client.USER.keyring. All addresses are local. The packages are those
# of scripts/setup.sh.
set -euo pipefail

OSDS=3
# The file of an OSD grows up to this size.
OSD_BYTES=$((8 << 30))

die() {
    echo "ceph.sh: $*" >&2
    exit 1
}

[ $# -eq 2 ] || die "usage: scripts/ceph.sh start|stop DIRECTORY"
directory=$(realpath -m "$2")
conf=$directory/ceph.conf

ceph_command() {
    ceph --conf "$conf" --connect-timeout 20 "$@"
}

free_port() {
    local port
    for _ in $(seq 100); do
        # The system gives later ones to clients.
        port=$((20000 + RANDOM % 12000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || {
            echo "$port"
            return
        }
    done
    die "no free port for the monitor"
}

write_configuration() {
    local port
    port=$(free_port)
    address="v2:127.0.0.1:$port"
    cat >"$conf" <<CONF
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon_host = [$address]
public_addr = 127.0.0.1
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
auth_allow_insecure_global_id_reclaim = false
keyring = $directory/\$cluster.\$name.keyring,$directory/keyring
run_dir = $directory
admin_socket = $directory/\$name.asok
pid_file = $directory/\$name.pid
log_file = $directory/\$name.log
crash_dir = $directory
# The monitor reads these as well. The OSDs are on one host.
osd_crush_chooseleaf_type = 0
osd_pool_default_size = 2
osd_pool_default_min_size = 1

[mon]
mon_data = $directory/mon
mon_allow_pool_size_one = true
# The machine's own disk may be almost full, which is no concern of a test.
mon_data_avail_warn = 1
mon_data_avail_crit = 0

[mgr]
mgr_data = $directory/mgr
mgr_initial_modules =

[osd]
osd_data = $directory/osd\$id
osd_objectstore = bluestore
bluestore_block_size = $OSD_BYTES
osd_memory_target = 939524096
CONF
}

# Makes the keys that the monitor knows from the beginning.
make_keys() {
    local keyring=(ceph-authtool "$directory/keyring" --gen-key)
    "${keyring[@]}" --create-keyring --name mon. --cap mon 'allow *' >/dev/null
    "${keyring[@]}" --name client.admin --cap mon 'allow *' --cap mgr 'allow *' \
        --cap osd 'allow *'
}

start_monitor() {
    local fsid
    fsid=$(awk '$1 == "fsid" { print $3 }' "$conf")
    monmaptool --create --fsid "$fsid" --addv a "[$address]" "$directory/monmap" >/dev/null
    local monitor=(ceph-mon --conf "$conf" --id a)
    "${monitor[@]}" --mkfs --monmap "$directory/monmap" --keyring "$directory/keyring"
    "${monitor[@]}"
}

start_manager() {
    ceph_command auth get-or-create mgr.x mon 'allow profile mgr' osd 'allow *' \
        >"$directory/ceph.mgr.x.keyring"
    ceph-mgr --conf "$conf" --id x
}

start_osd() {
    local number=$1 uuid key
    mkdir "$directory/osd$number"
    uuid=$(cat /proc/sys/kernel/random/uuid)
    key=$(ceph-authtool --gen-print-key)
    printf '[osd.%s]\nkey = %s\n' "$number" "$key" >"$directory/ceph.osd.$number.keyring"
    echo "{\"cephx_secret\": \"$key\"}" | ceph_command osd new "$uuid" "$number" -i - >/dev/null
    local osd=(ceph-osd --conf "$conf" --id "$number")
    "${osd[@]}" --mkfs --osd-uuid "$uuid" &>"$directory/osd.$number.start"
    "${osd[@]}" &>>"$directory/osd.$number.start"
}

start_osds() {
    local number osd starting=()
    for number in $(seq 0 $((OSDS - 1))); do
        start_osd "$number" &
        starting+=($!)
    done
    for osd in "${starting[@]}"; do
        wait "$osd" || die "an OSD does not start; see $directory/osd.*.start"
    done
}

# Waits until a pool can be written to.
make_pool() {
    ceph_command osd pool create gemelo 16 16 replicated &>/dev/null
    ceph_command osd pool application enable gemelo gemelo &>/dev/null
    timeout 60 rados --conf "$conf" --pool gemelo create ready || die "the OSDs do not answer"
}

start() {
    local tool missing=()
    for tool in ceph ceph-authtool ceph-mon ceph-mgr ceph-osd monmaptool rados; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    [ "${#missing[@]}" -eq 0 ] || die "not installed: ${missing[*]} (see scripts/setup.sh)"
    [ ! -e "$directory" ] || die "'$directory' exists: stop it first"
    mkdir -p "$directory"/{mon,mgr}
    trap stop EXIT
    write_configuration
    make_keys
    start_monitor
    start_manager
    start_osds
    make_pool
    trap - EXIT
}

# Waits until a process that was killed has ended. In a container nobody may ask for its status, and
# it stays as a zombie.
wait_for_end() {
    local tries
    for tries in $(seq 600); do
        grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" || return 0
        sleep 0.05
    done
    die "process $1 does not end after SIGKILL"
}

# Whether a process runs and is of this cluster; its number may have been given to another one.
is_ours() {
    grep -qs "$directory" "/proc/$1/cmdline"
}

# Ends the processes that this script started, which are known by their files.
stop() {
    local file pid
    for file in "$directory"/osd.*.pid "$directory"/mgr.*.pid "$directory"/mon.*.pid; do
        [ -s "$file" ] || continue
        pid=$(cat "$file")
        is_ours "$pid" || continue
        kill -KILL "$pid"
        wait_for_end "$pid"
    done
    rm -rf "$directory"
}

case $1 in
start) start ;;
stop)
    [ -e "$conf" ] || die "'$directory' has no cluster"
    stop
    ;;
*) die "usage: scripts/ceph.sh start|stop DIRECTORY" ;;
esac
