#!/usr/bin/env bash
# Builds a Debian package in the directory of the first argument (target/debian) and prints its
# path.
#
# dpkg-deb packs what scripts/install.sh installs, so that both install the same files. Variable:
# BINARY (target/release/gemelo).
set -euo pipefail
cd "$(dirname "$0")/.."

output=${1:-target/debian}
for tool in dpkg-deb strip readelf; do
    if ! command -v "$tool" >/dev/null; then
        echo "deb: $tool is missing: install dpkg and binutils" >&2
        exit 1
    fi
done
mkdir -p "$output"
work=$(mktemp -d "$output/package.XXXXXX")
trap 'rm -rf "$work"' EXIT
tree="$work/tree"
# Only root can be the owner of files; dpkg-deb records root for everybody.
umask 022

DESTDIR="$tree" PREFIX=/usr ZSH_DIR=/usr/share/zsh/vendor-completions scripts/install.sh install
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$tree/usr/bin/gemelo"
gzip -9 --no-name "$tree"/usr/share/man/man1/*.1

documents="$tree/usr/share/doc/gemelo"
# Debian's places for the licence and the list of changes.
rm "$documents"/LICENSE-*
install -m 644 packaging/debian/copyright "$documents/copyright"
version=$("$tree/usr/bin/gemelo" --version | awk '{ print $2 }')
# The time of the build may be given, so that a package can be built again byte by byte.
date=$(date --utc --rfc-email --date="@${SOURCE_DATE_EPOCH:-$(date +%s)}")
sed "s|@VERSION@|$version|; s|@DATE@|$date|" packaging/debian/changelog.in |
    gzip -9 --no-name >"$documents/changelog.gz"

# The newest symbol versions of the C library that the program asks for.
glibc=$(readelf --version-info --wide "$tree/usr/bin/gemelo" |
    grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort --version-sort --unique | tail -n 1)
# That of a release unwinds by itself.
libgcc=
! readelf --dynamic "$tree/usr/bin/gemelo" | grep --quiet 'NEEDED.*libgcc_s' || libgcc=', libgcc-s1'
control="$tree/DEBIAN"
install -d "$control"
sed "s|@VERSION@|$version|; s|@GLIBC@|$glibc|; s|@LIBGCC@|$libgcc|
    s|@ARCHITECTURE@|$(dpkg --print-architecture)|
    s|@KIB@|$(du -sk --apparent-size "$tree/usr" | cut -f 1)|" \
    packaging/debian/control.in >"$control/control"
for script in postinst prerm postrm; do
    install -m 755 "packaging/debian/$script" "$control/$script"
done
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$control/md5sums"

package="$output/gemelo_${version}_$(dpkg --print-architecture).deb"
dpkg-deb --root-owner-group --build "$tree" "$package" >/dev/null
echo "$package"
