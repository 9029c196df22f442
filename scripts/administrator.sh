#!/usr/bin/env bash
# Plays an administrator: in a new Debian root tree, installs the package of a release, does the
# four jobs of gemelo, upgrades it under load, backs up, restores and removes it. Prints the time
# and the disk that each step takes, and fails with the first step that does not do what it should.
#
#   scripts/administrator.sh DIRECTORY [RELEASE...]     (bookworm bullseye)
#
# DIRECTORY has what scripts/release.sh made. As root; needs mmdebstrap, and Debian's packages.
set -euo pipefail
cd "$(dirname "$0")/.."
artefacts=$(cd "${1:?the directory with the artefacts of a release}" && pwd)
shift
releases=("$@")
[ ${#releases[@]} -gt 0 ] || releases=(bookworm bullseye)
[ "$(id -u)" = 0 ] || { echo "administrator: chroot needs root" >&2; exit 1; }
for tool in mmdebstrap dpkg-deb rpm2cpio cpio; do
    command -v "$tool" >/dev/null || { echo "administrator: $tool is missing" >&2; exit 1; }
done
package=$(ls "$artefacts"/gemelo_*.deb)
rpm=$(ls "$artefacts"/gemelo-*.rpm)
tarball=$(ls "$artefacts"/gemelo-*.tar.gz)

work=$(mktemp -d "${TMPDIR:-/tmp}/gemelo-administrator.XXXXXX")
server=
current=
cleanup() {
    if [ -n "$current" ]; then
        cat "$work/said" >&2
        echo "administrator: $release: $current failed" >&2
    fi
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "${root:-}" ] || umount "$root/proc" 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT

environment=(/usr/bin/env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
    DEBIAN_FRONTEND=noninteractive)
inside() {
    chroot "$root" "${environment[@]}" "$@"
}

# Runs a step of this name, and prints what it took.
step() {
    local began ended before after
    current=$1
    shift
    began=$(date +%s%N)
    before=$(du -sxk "$root" | cut -f 1)
    # No condition, in which a function would go on after a command that fails.
    "$@" >"$work/said" 2>&1
    ended=$(date +%s%N)
    after=$(du -sxk "$root" | cut -f 1)
    printf '%-10s %-22s %8.2f s %+9.1f MiB\n' "$release" "$current" \
        "$(awk "BEGIN { print ($ended - $began) / 1e9 }")" \
        "$(awk "BEGIN { print ($after - $before) / 1024 }")"
    current=
}

make_root() {
    local site
    site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Component: main' |
        head -n 1)
    # What the package depends on, so that it needs no network inside.
    mmdebstrap --quiet --variant=minbase --include=systemd,init-system-helpers,libgcc-s1 \
        "$release" "$root" "deb $site $release main"
    mount -t proc proc "$root/proc"
    cp "$package" "$rpm" "$tarball" "$root/tmp"
}

try_tarball() {
    inside tar -xf "/tmp/$(basename "$tarball")" -C /usr/local --strip-components=1
    inside gemelo --version
    inside gemelo bench --target null: --file-size 1m --bytes 1m
    inside sh -c 'cd /usr/local && rm -r bin/gemelo share/doc/gemelo share/man/man1 lib/systemd'
}

try_rpm() {
    mkdir "$root/rpm"
    rpm2cpio "$rpm" | (cd "$root/rpm" && cpio --quiet -idm)
    inside /rpm/usr/bin/gemelo --version
    rm -r "$root/rpm"
}

install_package() {
    inside dpkg -i "/tmp/$(basename "$package")"
    inside gemelo --version
    inside sh -c 'getent passwd gemelo && test -d /var/lib/gemelo'
    # A link of an instance, which goes when the package is purged.
    inside systemctl enable gemelo@vms.socket
    test -L "$root/etc/systemd/system/sockets.target.wants/gemelo@vms.socket"
}

# How much would deduplication save?
plan_storage() { inside gemelo scan /usr --json /tmp/scan.json; }

# How fast is it under realistic load?
test_storage() {
    inside gemelo bench --target /tmp/load --operation write --distribution personal \
        --file-size 32m --bytes 32m --verify final --json /tmp/bench.json
}

# Which is faster, and by how much?
compare_storage() {
    inside gemelo bench --target /tmp/load --operation write --distribution personal \
        --file-size 32m --bytes 32m --verify final --force --json /tmp/second.json
    inside gemelo compare /tmp/bench.json /tmp/second.json
}

# Volumes that store each block once.
serve() {
    # Its number is that of the server itself, and not of a shell.
    (exec chroot "$root" "${environment[@]}" gemelo serve /var/lib/gemelo/vms \
        --listen unix:/run/vms.sock >"$work/server" 2>&1) &
    server=$!
    for _ in $(seq 100); do
        [ ! -S "$root/run/vms.sock" ] || return 0
        sleep 0.1
    done
    cat "$work/server"
    return 1
}

store() {
    inside sh -c 'tar -c /usr/share /usr/lib | head -c 100000000 >/tmp/image'
    inside gemelo pool create /var/lib/gemelo/vms --capacity 1g
    inside gemelo volume import /tmp/image /var/lib/gemelo/vms/disk
    inside gemelo volume clone /var/lib/gemelo/vms/disk second
    serve
    inside gemelo volume create /var/lib/gemelo/vms/load --size 32m
}

# A package of a later version with the same program replaces this one while a client verifies.
upgrade() {
    local load
    dpkg-deb -R "$package" "$work/later"
    sed -i 's/^Version: .*/&+later/' "$work/later/DEBIAN/control"
    dpkg-deb -Znone --root-owner-group --build "$work/later" "$root/tmp/later.deb"
    rm -r "$work/later"
    inside gemelo bench --target 'nbd+unix:///load?socket=/run/vms.sock' --operation mixed \
        --distribution personal --file-size 32m --time 8s --verify online --force &
    load=$!
    inside dpkg -i /tmp/later.deb
    inside sh -c 'dpkg-query -W gemelo | grep later'
    wait "$load"
    # The server goes on with the old program until it is started again.
    kill "$server"
    wait "$server"
    serve
}

back_up() {
    inside gemelo volume snapshot /var/lib/gemelo/vms/disk nightly
    inside sh -c 'gemelo volume send /var/lib/gemelo/vms/nightly >/tmp/backup'
}

restore() {
    inside gemelo pool create /var/lib/gemelo/restored --capacity 1g
    inside sh -c 'gemelo volume receive /var/lib/gemelo/restored/disk </tmp/backup'
    inside gemelo volume export /var/lib/gemelo/restored/disk /tmp/restored
    inside sh -c 'cmp -n 100000000 /tmp/image /tmp/restored'
    inside gemelo pool check /var/lib/gemelo/restored --data
}

ask_for_help() {
    inside gemelo support /var/lib/gemelo/vms --json /tmp/support.json
    if grep -q nightly "$root/tmp/support.json"; then
        echo "a name of a volume is in the file"
        return 1
    fi
}

remove() {
    kill "$server"
    wait "$server"
    server=
    inside gemelo pool check /var/lib/gemelo/vms --data
    inside dpkg --remove gemelo
    inside dpkg --purge gemelo
    test ! -e "$root/usr/bin/gemelo"
    test ! -e "$root/usr/share/doc/gemelo"
    test ! -L "$root/etc/systemd/system/sockets.target.wants/gemelo@vms.socket"
    test -e "$root/var/lib/gemelo/vms/data"
}

for release in "${releases[@]}"; do
    root="$work/$release"
    mkdir "$root"
    step "root tree" make_root
    step "try the tarball" try_tarball
    step "try the RPM's program" try_rpm
    step "install" install_package
    step "plan: scan /usr" plan_storage
    step "test: bench" test_storage
    step "compare" compare_storage
    step "store and serve" store
    step "upgrade under load" upgrade
    step "back up" back_up
    step "restore" restore
    step "ask for help" ask_for_help
    step "remove" remove
    umount "$root/proc"
    rm -rf --one-file-system "$root"
    root=
done
