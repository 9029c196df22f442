//! Tells the crate whether the compiler knows AVX-512, as it does from 1.89 on.

#![allow(clippy::print_stdout, reason = "a build script speaks to Cargo by its output")]

use std::process::Command;

/// The first version 1.N of the compiler in which these vectors are stable.
const SINCE: u32 = 89;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(has_avx512)");
    if minor_version().is_some_and(|minor| minor >= SINCE) {
        println!("cargo::rustc-cfg=has_avx512");
    }
}

/// Returns the second number of the compiler's version: 89 of `rustc 1.89.0 (29483883e ...)`.
fn minor_version() -> Option<u32> {
    let output = Command::new(std::env::var_os("RUSTC")?).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_whitespace().nth(1)?.split('.').nth(1)?.parse().ok()
}
