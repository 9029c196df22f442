#!/usr/bin/env bash
# The NBD server over memory and over a file, beside `nbdkit memory` and `nbdkit file`: 4 KiB random
# reads and writes by `fio`, one connection. Goal over a file: 1.2 times nbdkit at depth 32, 0.9 at
# depth 1.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in fio nbdkit; do
    command -v "$tool" >/dev/null || { echo "nbd.sh needs $tool" >&2; exit 1; }
done
cargo bench --locked --package gemelo-nbd --bench serve -- "$@"
