#!/usr/bin/env bash
# `gemelo volume copy` over ssh, beside `ssh cat` of as many bytes, over a link with a round trip of
# 10 ms that loses 1 % of the packets. The ratio of the times should be at least 0.8. Ten minutes.
#
#   benches/lossy.sh [ROUNDS]     rounds, default 3
#
# MB are moved each time (24), CONTROLS are the congestion controls ("cubic bbr"), DELAY_MS is that
# of each way (5), LOSS the share of lost packets (0.01). BENCH_DIR is the file system of the pools
# (/var/tmp). GEMELO is the program. Needs root, sshd and TUN devices; the link is benches/lib/link.py.
set -euo pipefail
cd "$(dirname "$0")/.."
gemelo=$(realpath "${GEMELO:-target/release/gemelo}")
for tool in "$gemelo" ip python3 ssh ssh-keygen /usr/sbin/sshd; do
    command -v "$tool" >/dev/null || { echo "benches/lossy.sh needs $tool" >&2; exit 1; }
done
directory=$(mktemp -d "${BENCH_DIR:-/var/tmp}/gemelo-lossy.XXXXXX")
namespace=gemelo-lossy
before=$(sysctl -n net.ipv4.tcp_congestion_control)
link=

finish() {
    [ ! -e "$directory/sshd.pid" ] || kill "$(cat "$directory/sshd.pid")"
    [ -z "$link" ] || kill "$link"
    ip netns del "$namespace" 2>/dev/null || true
    sysctl -qw net.ipv4.tcp_congestion_control="$before"
    rm -rf "$directory"
}
trap finish EXIT

python3 benches/lib/link.py "$namespace" "${DELAY_MS:-5}" "${LOSS:-0.01}" >"$directory/up" &
link=$!
until [ -s "$directory/up" ]; do sleep 0.1; done
for name in host user; do ssh-keygen -q -t ed25519 -N '' -f "$directory/$name"; done
cat >"$directory/config" <<END
Port 2222
ListenAddress 10.77.0.2
HostKey $directory/host
UsePAM no
AuthorizedKeysFile $directory/user.pub
StrictModes no
PidFile $directory/sshd.pid
END
mkdir -p /run/sshd
ip netns exec "$namespace" /usr/sbin/sshd -f "$directory/config"
ssh="ssh -p 2222 -i $directory/user -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
ssh="$ssh -o LogLevel=ERROR -o BatchMode=yes"
head -c "${MB:-24}M" /dev/urandom >"$directory/raw"
for pool in from to; do "$gemelo" pool create "$directory/$pool" --capacity 4g >/dev/null; done
"$gemelo" volume import "$directory/raw" "$directory/from/v" >/dev/null
"$gemelo" volume snapshot "$directory/from/v" s >/dev/null

# seconds COMMAND
seconds() {
    local began
    began=$(date +%s%N)
    bash -c "$1" >/dev/null
    echo $((($(date +%s%N) - began) / 1000000))
}

for control in ${CONTROLS:-cubic bbr}; do
    sysctl -qw net.ipv4.tcp_congestion_control="$control"
    ip netns exec "$namespace" sysctl -qw net.ipv4.tcp_congestion_control="$control"
    for _ in $(seq "${1:-3}"); do
        cat_ms=$(seconds "$ssh 10.77.0.2 'cat >/dev/null' <$directory/raw")
        copy_ms=$(seconds "$gemelo volume copy $directory/from/s 10.77.0.2:$directory/to/s --since none --connect '$ssh {host}' --program $gemelo")
        awk -v control="$control" -v cat="$cat_ms" -v copy="$copy_ms" \
            'BEGIN { printf "%s: ssh cat %.1f s, gemelo volume copy %.1f s, ratio %.2f\n", control, cat / 1e3, copy / 1e3, cat / copy }'
        "$gemelo" volume rm --force "$directory/to/s" >/dev/null
        "$gemelo" pool gc "$directory/to" >/dev/null
    done
done
