//! A pool that is opened for a copy has little memory, whatever its settings say.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use gemelo_base::{Silent, StopFlag};
use gemelo_serve::{PoolAccess, PoolRequest, Purpose, Reply};
use gemelo_volume::{Pool, PoolOptions};

const MIB: u64 = 1 << 20;

#[test]
fn a_copy_takes_a_small_part_of_the_memory_that_a_server_may_have() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let options = PoolOptions { capacity_bytes: 8 << 30, ..PoolOptions::default() };
    Pool::create(&path, &options).unwrap();
    let cache = |purpose| {
        let place = path.as_path().into();
        let access = PoolAccess::open(&place, purpose, &Silent, &StopFlag::new()).unwrap();
        let reply = access.perform(&PoolRequest::Stat, &Silent, &StopFlag::new()).unwrap();
        let Reply::Stat(report) = reply else { panic!("{reply:?}") };
        access.close().unwrap();
        report.pool.metadata_cache.max_capacity_bytes
    };
    for set in ["", "metadata-cache = \"512m\"\ncache = \"512m\"\nwrite-buffer = \"512m\"\n"] {
        std::fs::write(path.join("settings.toml"), set).unwrap();
        for (usual, sparing) in
            [(Purpose::Read, Purpose::Send), (Purpose::Change, Purpose::Receive)]
        {
            assert!(cache(usual) >= 64 * MIB && cache(sparing) <= 16 * MIB, "{set} {usual:?}");
        }
    }
}
