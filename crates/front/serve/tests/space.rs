//! Requests for the space of volumes: raising the stop flag ends them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_format::DedupMode;
use gemelo_serve::{PoolAccess, PoolRequest, Purpose, Reply};
use gemelo_volume::{Pool, PoolOptions, Tuning};
use std::sync::Arc;

#[test]
fn a_raised_stop_flag_ends_the_computation_and_the_next_one_succeeds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let options = PoolOptions { capacity_bytes: 64 << 20, ..PoolOptions::default() };
    Pool::create(&path, &options).unwrap();
    let pool = Pool::open(&path, Tuning::default(), Arc::new(SystemClock::new())).unwrap();
    pool.create_volume("a", 1 << 20, DedupMode::Inline).unwrap();
    pool.close().unwrap();
    let access =
        PoolAccess::open(&path.as_path().into(), Purpose::Read, &Silent, &StopFlag::new()).unwrap();
    let raised = StopFlag::new();
    raised.raise();
    let of_all = PoolRequest::VolumeSpace { name: None };
    for request in [&of_all, &PoolRequest::SnapshotSpace] {
        let stopped = access.perform(request, &Silent, &raised).unwrap_err();
        assert!(stopped.text.contains("stopped before the end"), "{}", stopped.text);
    }
    let reply = access.perform(&of_all, &Silent, &StopFlag::new()).unwrap();
    assert!(matches!(&reply, Reply::VolumeSpace(spaces) if spaces.contains_key("a")), "{reply:?}");
    access.close().unwrap();
}
