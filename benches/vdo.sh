#!/usr/bin/env bash
# A disk of gemelo by ublk beside dm-vdo in a guest that counts instructions: space and time of a
# source tree, its copy, zeros, compressible data and three images; metadata and memory; the time to
# be ready after a loss of power; and what a full store does. `guest.sh` has the requests.
#
#   VDOFORMAT=PROGRAM benches/vdo.sh [TREE.tar]
#
# Debian has no vdoformat: VDOFORMAT names one. TREE.tar is the source tree, that of this repository
# if there is none. The guest is that of guest.sh, which fetches it.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${VDOFORMAT:?names the program vdoformat}"
target="${CARGO_TARGET_DIR:-target}"
place="$target/guest-bench"
PATH="$PATH:/usr/sbin:/sbin"
export VDOFORMAT GEMELO="${GEMELO:-$target/release/gemelo}"
[ -d "$place/kernel" ] || benches/guest.sh raw 1 0.01
tree="${1:-$place/tree.tar}"
[ $# -gt 0 ] || git archive --output "$tree" HEAD
exec python3 benches/lib/vdo.py "$place" "$tree"
