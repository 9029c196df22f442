#!/usr/bin/env bash
# Makes what a release consists of, from what is committed: a tarball, a Debian package, an RPM
# package, the list of components (CycloneDX), the notices of the linked crates, and SHA256SUMS.
#
#   scripts/release.sh [DIRECTORY]          (target/release-VERSION)
#
# Nothing is fetched: run `cargo fetch --locked` and `scripts/setup.sh release` first. The same
# commit and the same compiler give the same bytes, wherever the checkout and Cargo's home are.
#
# Variables: MINISIGN_KEY (a secret key of minisign: SHA256SUMS is signed with it), BINARY (pack this
# program instead of building one, for tests), LEVEL (6; of compression), SOURCE_DATE_EPOCH (time of
# the commit).
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC
level=${LEVEL:-6}
# More threads would make other bytes.
export DPKG_DEB_THREADS_MAX=1 DPKG_DEB_COMPRESSOR_LEVEL="$level"
umask 022

# The oldest C library that the program runs on: that of RHEL 8 and Debian 10.
glibc=2.28
target=x86_64-unknown-linux-gnu
built="${CARGO_TARGET_DIR:-$PWD/target}"

fail() {
    echo "release: $*" >&2
    exit 1
}

# cargo-zigbuild and zig are Python packages; scripts/setup.sh puts them there.
PATH="$built/release-tools/bin:$PATH"
tools=(dpkg-deb rpmbuild strip readelf python3 tar gzip sha256sum git)
[ -n "${BINARY:-}" ] || tools+=(cargo-zigbuild python-zig)
for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null || fail "$tool is missing: run scripts/setup.sh release"
done

build() {
    [ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed"
    local home="${CARGO_HOME:-$HOME/.cargo}" flags
    # Cargo leaves these flags out of the names of symbols.
    flags="--remap-path-prefix=$PWD=/gemelo --remap-path-prefix=$home=/cargo"
    flags+=" --remap-path-prefix=$built=/target"
    # Those of the C parts of crates.
    local c_flags="-ffile-prefix-map=$home=/cargo -ffile-prefix-map=$built=/target"
    CARGO_NET_OFFLINE=true CARGO_INCREMENTAL=0 CARGO_TARGET_DIR="$built/release-build" \
        RUSTFLAGS="$flags" CFLAGS="$c_flags" \
        cargo-zigbuild zigbuild --release --locked --package gemelo --target "$target.$glibc" >&2
}

# Fails if the program needs a later C library than promised, or names a path of this machine.
check_program() {
    local needed path
    needed=$(readelf --version-info --wide "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' |
        sort --version-sort --unique | tail -n 1)
    [ "$(printf '%s\n' "$needed" "$glibc" | sort --version-sort | tail -n 1)" = "$glibc" ] ||
        fail "the program needs glibc $needed"
    for path in "$HOME/" "$PWD/" "$built/" "${CARGO_HOME:-$HOME/.cargo}/"; do
        if grep --quiet --text --fixed-strings "$path" "$1"; then
            fail "the program contains the path $path"
        fi
    done
}

# Packs the directory $2 of $1 into the file $3.
pack() {
    tar --directory "$1" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" --create "$2" | gzip --no-name "-$level" >"$3"
}

build_rpm() {
    local root="$work/rpm-root"
    DESTDIR="$root" PREFIX=/usr scripts/install.sh install
    gzip -9 --no-name "$root"/usr/share/man/man1/*.1
    (cd "$root" && find usr/share/doc/gemelo -type d -printf '%%dir /%p\n' -o \
        -type f -printf '%%doc /%p\n' | sort &&
        find . -type f -not -path '*/share/doc/*' -printf '/%P\n' | sort) >"$work/files"
    sed "s|@VERSION@|$version|; s|@GLIBC@|$glibc|; s|@LEVEL@|$level|" packaging/rpm/gemelo.spec.in \
        >"$work/gemelo.spec"
    rpmbuild -bb --quiet --target x86_64-linux --buildroot "$work/buildroot" \
        --define "_topdir $work/rpmbuild" --define "_rpmdir $work" \
        --define "tree $root" --define "listed $work/files" --define "_buildhost gemelo" \
        --define "_rpmfilename gemelo-%{version}-%{release}.%{_target_cpu}.rpm" \
        "$work/gemelo.spec" >"$work/rpm.log" 2>&1 || { cat "$work/rpm.log" >&2; exit 1; }
    mv "$work"/gemelo-*.rpm "$output"
}

export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
version=$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml)
output=${1:-$built/release-$version}
mkdir -p "$output"
output=$(cd "$output" && pwd)
[ -z "$(ls -A "$output")" ] || fail "$output is not empty"
work=$(mktemp -d "$output/work.XXXXXX")
trap 'rm -rf "$work"' EXIT

program=${BINARY:-}
if [ -z "$program" ]; then
    build
    program="$built/release-build/$target/release/gemelo"
fi
strip --strip-unneeded --remove-section=.comment --remove-section=.note \
    -o "$work/gemelo" "$program"
[ -n "${BINARY:-}" ] || check_program "$work/gemelo"
export BINARY="$work/gemelo"

scripts/components.py notices >"$work/THIRD-PARTY.txt"
scripts/components.py list "$version" >"$output/gemelo-$version.cdx.json"
cp "$work/THIRD-PARTY.txt" "$output/THIRD-PARTY.txt"
export NOTICES="$work/THIRD-PARTY.txt"

# To be unpacked in /usr/local.
name="gemelo-$version-x86_64-linux"
DESTDIR="$work/tar" PREFIX=/usr/local scripts/install.sh install
mv "$work/tar/usr/local" "$work/$name"
pack "$work" "$name" "$output/$name.tar.gz"
scripts/deb.sh "$output" >/dev/null
build_rpm

rm -rf "$work"
(cd "$output" && find . -maxdepth 1 -type f -printf '%P\n' | sort | xargs sha256sum) >"$output.sums"
mv "$output.sums" "$output/SHA256SUMS"
if [ -n "${MINISIGN_KEY:-}" ]; then
    minisign -S -s "$MINISIGN_KEY" -m "$output/SHA256SUMS" >&2
fi
ls "$output" | sed "s|^|$output/|"
