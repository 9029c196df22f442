//! Pools of 64 MiB whose cache of metadata had 256 MiB, on any machine.

use crate::served::{TestPool, done, noise};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// The bytes of the cache of a full pool, and the memory of its metadata, by `pool estimate`.
fn estimated(options: &[&str]) -> (u64, u64) {
    let said = done(&[&["pool", "estimate", "--json", "-"], options].concat());
    let said: Value = serde_json::from_str(&said).unwrap();
    let compact = &said["result"]["policies"][0];
    assert_eq!(compact["policy"], "compact");
    let bytes = |name: &str| compact[name].as_u64().unwrap();
    (bytes("cache_bytes"), bytes("memory_bytes"))
}

fn cache(pool: &TestPool) -> [u64; 3] {
    ["capacity_bytes", "max_capacity_bytes", "held_bytes"]
        .map(|name| pool.stat(&format!("/pool/metadata_cache/{name}")).as_u64().unwrap())
}

#[test]
fn the_cache_of_the_metadata_has_the_size_that_they_need() {
    let (full, memory) = estimated(&["--capacity", "64m"]);
    assert!((2 * MIB..4 * MIB).contains(&full) && memory < full + 2 * MIB, "{full} {memory}");
    let pool = TestPool::new(&[]);
    std::fs::write(pool.file("raw"), noise(5, 40 << 20)).unwrap();
    done(&["volume", "import", &pool.file("raw"), &pool.volume("v")]);
    let served = pool.serve(&[]);
    let [now, most, held] = cache(&pool);
    assert!((now, most) == (full, full) && held < full, "{now} {most} {held} {full}");
    let said = done(&["pool", "stat", &pool.path()]);
    assert!(said.contains("of it the cache") && said.contains("B of 3."), "{said}");
    // A larger pool may have a larger cache, at once.
    done(&["pool", "grow", &pool.path(), "--capacity", "256m"]);
    let (larger, _) = estimated(&["--capacity", "256m"]);
    assert!(cache(&pool)[1] == larger && larger > 3 * full, "{larger}");
    assert_eq!(served.stop().0, 0);
}

#[test]
fn a_cache_that_is_given_has_that_size_and_one_of_a_given_memory_no_more_than_is_needed() {
    let (full, _) = estimated(&["--capacity", "64m"]);
    for (options, bytes) in [
        (["--metadata-cache", "1m"], MIB),
        (["--metadata-cache", "20m"], 20 * MIB),
        (["--memory", "200m"], full),
    ] {
        let pool = TestPool::new(&options);
        let served = pool.serve(&[]);
        assert_eq!(cache(&pool)[..2], [bytes, bytes], "{options:?}");
        assert_eq!(served.stop().0, 0);
    }
    let given = ["--capacity", "64m", "--metadata-cache", "1m"];
    assert_eq!(estimated(&given).0, MIB);
}
