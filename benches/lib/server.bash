# shellcheck shell=bash
# One server at a time, for the benchmarks of served volumes, which source this file from the top of
# the checkout.
#
# It sets `gemelo`, the program to measure; after `begin`, `directory` is a new directory that goes
# away at the end, and `socket` the place at which servers listen.
gemelo="${GEMELO:-$PWD/target/release/gemelo}"
server=

# begin NAME TOOL...: checks that the program and the tools are there, and makes the directory.
begin() {
    local name=$1 tool
    shift
    [ -x "$gemelo" ] || { echo "build first: make build" >&2; exit 1; }
    for tool in "$@"; do
        command -v "$tool" >/dev/null || { echo "benches/$name.sh needs $tool" >&2; exit 1; }
    done
    directory=$(mktemp -d "${BENCH_DIR:-/var/tmp}/gemelo-$name.XXXXXX")
    socket=$directory/socket
    trap finish EXIT
}

finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$directory"
}

# start PROGRAM...: a server in the background, until it listens.
start() {
    "$@" >/dev/null 2>"$directory/log" &
    server=$!
    for _ in $(seq 200); do
        [ -S "$socket" ] && return
        sleep 0.05
    done
    cat "$directory/log" >&2
    echo "$1 does not listen" >&2
    exit 1
}

# restart PROGRAM...: ends the server in good order, and starts it again.
restart() {
    end
    start "$@"
}

end() {
    kill "$server"
    wait "$server" || true
    server=
    rm -f "$socket"
}

# stop: ends the server and removes its pool or file.
stop() {
    end
    rm -rf "$directory/pool" "$directory/file" "$socket"
    sync
}

# cache cold|warm FILE: takes the file out of the page cache, or all of it in.
cache() {
    sync
    python3 - "$1" "$2" <<'END'
import os, sys
with open(sys.argv[2], "rb", buffering=0) as file:
    if sys.argv[1] == "warm":
        while file.read(1 << 20):
            pass
    else:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
END
}
