//! The atomics of lock-free code, named in one place so that a test can replace them.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
