#!/bin/bash
# Changes a part of the code in one place at a time and looks whether a test notices: see
# crates/engine/volume/tests/README.md. It changes files in place, so it wants a clone of its own.
# Arguments: the part, which of how many samples of it to take, such as 0/20, and options of cargo
# mutants, such as --baseline=skip for a clone whose tests are known to pass.
set -euo pipefail
cd "$(dirname "$0")/.."

part="${1:-}" sample="${2:-}"
options=("${@:3}")
engine=crates/engine/volume/src
package=gemelo-volume
suites=(model crash races)
case "$part" in
nbd) package=gemelo-nbd files=('crates/front/nbd/src/server/**/*.rs') suites=() ;;
content) package=gemelo-content files=('crates/workload/content/src/**/*.rs') suites=() ;;
scan) package=gemelo-scan files=('crates/workload/scan/src/set/*.rs' 'crates/workload/scan/src/saved/*.rs') suites=() ;;
buffer) package=gemelo-store files=('crates/engine/store/src/buffer/*.rs') suites=() ;;
space) files=("$engine"/engine/data/{space,readers}.rs) suites=(readers) ;;
journal) files=("$engine/journal.rs") suites=(model crash power lost_commit) ;;
remembered) files=("$engine/engine/data/remembered.rs") suites=(model finder) ;;
finder) files=("$engine/engine/finder/*.rs") suites+=(finder) ;;
layout) files=("$engine/engine/mover/**/*.rs") suites=(model layout layout_races cleaning recompress scrub) ;;
log) files=("$engine/engine/log/*.rs") suites+=(power full_fs free_veto cold stalls) ;;
engine) files=("$engine/engine/*.rs" "$engine/engine/plan/*.rs") suites+=(damage space rot volume_space power) ;;
metadata) files=("crates/engine/metadata/src/**/*.rs") suites=(model crash damage roots) ;;
scrub) files=("$engine/pool/scrub.rs") suites=(scrub) ;;
pool) files=("$engine/pool/*.rs") suites=(pool places damage rot lost_commit scrub finder layout model) ;;
*)
    echo "usage: scripts/mutants.sh PART [SAMPLE/SAMPLES [OPTION...]]; the parts are in the script" >&2
    exit 2
    ;;
esac
if ! cargo mutants --version >/dev/null 2>&1; then
    echo "scripts/mutants.sh needs cargo-mutants: cargo install cargo-mutants --locked" >&2
    exit 2
fi
if ! git diff --quiet; then
    echo "scripts/mutants.sh changes files in place: commit your changes first" >&2
    exit 2
fi
arguments=("${files[@]/#/--file=}" --test-package "$package")
if [ -n "$sample" ]; then
    arguments+=(--shard "$sample" --sharding round-robin)
fi
arguments+=("${options[@]}")
# Only these suites are run, and the unit tests.
if [ ${#suites[@]} -gt 0 ]; then
    names=$(IFS='|'; echo "${suites[*]}")
    arguments+=(-- -E "kind(lib) | binary(/^($names)\$/) | test(/^($names)::/)")
fi
# Few rounds and cases: a mutation that only a long run notices wants a test of its own.
export GEMELO_TEST_ROUNDS="${GEMELO_TEST_ROUNDS:-4}" PROPTEST_CASES="${PROPTEST_CASES:-32}"
export NEXTEST_PROFILE=mutants
exec cargo mutants --in-place --timeout 240 --build-timeout 600 "${arguments[@]}"
