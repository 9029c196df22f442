#!/usr/bin/env bash
# Makes a release twice, from clones in different places, and fails if a byte differs. Takes two
# release builds: run it before a release.
#
#   scripts/release-twice.sh DIRECTORY     (a new one; the artefacts are in DIRECTORY/artefacts)
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir "${1:?a new directory}"
directory=$(cd "$1" && pwd)
tools="${CARGO_TARGET_DIR:-$PWD/target}/release-tools"
# Commits that are made meanwhile do not count.
commit=$(git rev-parse HEAD)

make_in() {
    local place=$1 target=$2 output=$3
    git clone --quiet . "$place"
    git -C "$place" checkout --quiet --detach "$commit"
    mkdir -p "$target"
    ln -s "$tools" "$target/release-tools"
    CARGO_TARGET_DIR="$target" "$place/scripts/release.sh" "$output" >&2
    rm -rf "$place" "$target"
}
make_in "$directory/checkout" "$directory/target" "$directory/artefacts"
make_in "$directory/another/place/of/gemelo" "$directory/another/target" "$directory/again"
diff "$directory/artefacts/SHA256SUMS" "$directory/again/SHA256SUMS" || {
    echo "release-twice: $directory/artefacts and $directory/again differ" >&2
    exit 1
}
rm -rf "$directory/again" "$directory/another"
echo "the same bytes twice: $directory/artefacts"
