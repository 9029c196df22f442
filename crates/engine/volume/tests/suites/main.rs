//! The suites of the engine: each module is one, and its first lines say what it does and checks.
//!
//! They are one program, because each program would be compiled with the shared parts and linked.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot continue fails and prints its seed"
)]

mod agree;
mod ahead;
mod background;
mod background_failures;
mod beside;
mod bursts;
mod cache;
mod catch_up;
mod cleaning;
mod clones;
mod cold;
mod collect;
#[path = "../common/mod.rs"]
mod common;
mod concurrency;
mod crash;
mod damage;
mod faults;
mod find;
mod finder;
mod forged;
mod free_veto;
mod full_fs;
mod heal;
mod journal_data;
mod layout;
mod layout_races;
mod lost_commit;
mod misdirected;
mod model;
mod overload;
mod packed;
mod packed_full;
mod packed_space;
mod panics;
mod places;
mod pool;
mod power;
mod races;
mod ready;
mod recompress;
mod refused;
mod replay;
mod roots;
mod rot;
mod rot_storm;
mod salvage;
mod scrub;
mod shrink;
mod snapshots;
mod space;
mod stalls;
mod storm;
mod thin;
mod used;
mod vanishing;
mod volume_space;
mod wide;
mod write_buffer;
