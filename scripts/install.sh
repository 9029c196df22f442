#!/usr/bin/env bash
# Installs the program, manual pages, completions, schemas, units and documents, or removes them.
#
#   scripts/install.sh install|uninstall
#
# Variables: PREFIX (/usr/local), DESTDIR (empty), BINARY (target/release/gemelo),
# ZSH_DIR (PREFIX/share/zsh/site-functions), NOTICES (a file with the licences of the libraries, which
# scripts/release.sh makes).
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=${PREFIX:-/usr/local}
binary=${BINARY:-target/release/gemelo}
root="${DESTDIR:-}$prefix"
man="$root/share/man/man1"
bash="$root/share/bash-completion/completions"
zsh="${DESTDIR:-}${ZSH_DIR:-$prefix/share/zsh/site-functions}"
fish="$root/share/fish/vendor_completions.d"
units="$root/lib/systemd/system"
documents="$root/share/doc/gemelo"
schemas="$documents/schemas"

install_all() {
    if [ ! -x "$binary" ]; then
        echo "install: $binary is missing: run make build first" >&2
        exit 1
    fi
    install -D -m 755 "$binary" "$root/bin/gemelo"
    install -d "$man" "$bash" "$zsh" "$fish" "$units" "$schemas"
    "$binary" manual --force "$man" >/dev/null
    chmod 644 "$man"/gemelo*.1
    "$binary" completions bash | install -m 644 /dev/stdin "$bash/gemelo"
    "$binary" completions zsh | install -m 644 /dev/stdin "$zsh/_gemelo"
    "$binary" completions fish | install -m 644 /dev/stdin "$fish/gemelo.fish"
    "$binary" schema | while read -r name _; do
        "$binary" schema "$name" | install -m 644 /dev/stdin "$schemas/$name.schema.json"
    done
    for unit in contrib/systemd/gemelo*@.*; do
        sed "s|/usr/local/bin/|$prefix/bin/|" "$unit" |
            install -m 644 /dev/stdin "$units/$(basename "$unit")"
    done
    install -D -m 644 contrib/udev/60-gemelo.rules "$root/lib/udev/rules.d/60-gemelo.rules"
    install -D -m 644 contrib/systemd/gemelo.sysusers "$root/lib/sysusers.d/gemelo.conf"
    install -D -m 644 contrib/systemd/gemelo.tmpfiles "$root/lib/tmpfiles.d/gemelo.conf"
    find ./*.md LICENSE-* docs examples contrib -type f | while read -r file; do
        install -D -m 644 "$file" "$documents/$file"
    done
    [ -z "${NOTICES:-}" ] || install -m 644 "$NOTICES" "$documents/THIRD-PARTY.txt"
    if [ -z "${DESTDIR:-}" ] && [ -d /run/systemd/system ]; then
        echo "To use the units: systemd-sysusers && systemd-tmpfiles --create gemelo.conf &&" \
            "udevadm control --reload && systemctl daemon-reload"
    fi
}

# Pools, their directory and their user stay.
uninstall_all() {
    rm -f "$root/bin/gemelo" "$man"/gemelo.1 "$man"/gemelo-*.1 "$bash/gemelo" "$zsh/_gemelo" \
        "$fish/gemelo.fish" "$units"/gemelo@.* "$units"/gemelo-member@.* "$units"/gemelo-tick@.* \
        "$units"/gemelo-copy@.* \
        "$root/lib/sysusers.d/gemelo.conf" "$root/lib/tmpfiles.d/gemelo.conf" \
        "$root/lib/udev/rules.d/60-gemelo.rules"
    rm -rf "$documents"
}

case "${1:-}" in
install) install_all ;;
uninstall) uninstall_all ;;
*)
    echo "usage: scripts/install.sh install|uninstall" >&2
    exit 2
    ;;
esac
