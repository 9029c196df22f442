//! The atomics of code without locks, named in one place so that a test can put others in theirs.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
