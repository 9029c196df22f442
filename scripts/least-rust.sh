#!/usr/bin/env bash
# Checks the program with the compiler that `rust-version` in Cargo.toml promises, where rustup has
# it. Takes as long as a build; what it makes is in target/least-rust.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if ! rustup run "$version" rustc --version 2>/dev/null; then
    echo "least-rust: not checked: rustup toolchain install $version --profile minimal"
    [ -z "${GEMELO_REQUIRE_TOOLS:-}" ] || exit 1
    exit 0
fi
CARGO_INCREMENTAL=0 CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/least-rust" \
    cargo "+$version" check --package gemelo --locked
