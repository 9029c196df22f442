//! `gemelo pool scrub`, and scrubs of a served pool by its schedule.

use crate::common::{Ran, gemelo};
use crate::served::{TestPool, done, flip_first, noise};
use std::fs;

const BLOCK: usize = 4096;

/// Makes volumes of the given modes, all with the same block of data.
fn pool_with(modes: &[&str]) -> (TestPool, Vec<u8>) {
    let pool = TestPool::new(&[]);
    let content = noise(7, BLOCK);
    let source = pool.file("source");
    fs::write(&source, &content).unwrap();
    for (number, mode) in modes.iter().enumerate() {
        let volume = pool.volume(&format!("v{number}"));
        done(&["volume", "import", &source, &volume, "--dedup", mode]);
    }
    (pool, content)
}

#[test]
fn damage_with_another_copy_is_healed() {
    let (pool, content) = pool_with(&["inline", "off"]);
    flip_first(&pool, &content);
    let text = done(&["pool", "scrub", &pool.path(), "--rate", "1g"]);
    assert_eq!(text, "2 contents compared with their checksums, 1 healed from other copies\n");
    let text = done(&["pool", "stat", &pool.path()]);
    assert!(text.contains("\nScrub\n  last  20"), "{text}");
    assert!(text.contains("2 contents checked in"), "{text}");
    assert!(text.contains("1 healed, 0 damaged"), "{text}");
    pool.assert_clean();
    done(&["pool", "rm", &pool.path(), "--force"]);
    assert!(!std::path::Path::new(&pool.path()).exists(), "nothing of the scrub is left");
}

#[test]
fn damage_without_another_copy_is_told_and_is_a_status_of_its_own() {
    let (pool, content) = pool_with(&["off"]);
    flip_first(&pool, &content);
    let Ran { status, out, err } = gemelo(&["pool", "scrub", &pool.path()]);
    assert_eq!((status, err.as_str()), (4, ""), "{out}");
    assert!(out.starts_with("lost: the content of block 1 is damaged: block 0 of 'v0'\n"), "{out}");
    assert_eq!(pool.stat("/scrub/last/damaged_contents"), 1);
}

#[test]
fn a_served_pool_scrubs_itself() {
    let (pool, content) = pool_with(&["inline", "off"]);
    flip_first(&pool, &content);
    let served = pool.serve(&["--scrub-interval", "1h"]);
    gemelo_tools::wait_until("a pool that was never scrubbed is due at once", || {
        !pool.stat("/scrub/last").is_null()
    });
    assert_eq!(pool.stat("/scrub/last/healed_contents"), 1);
    let (status, err) = served.stop();
    assert_eq!(status, 0, "{err}");
    assert!(err.contains("scrub: 2 contents checked, 1 healed"), "{err}");
    // The outcome is kept, so the next server waits for its hour.
    let ended = pool.stat("/scrub/last/ended_utc_s");
    let served = pool.serve(&["--scrub-interval", "1h"]);
    done(&["pool", "scrub", &pool.path()]);
    assert!(pool.stat("/scrub/last/ended_utc_s").as_u64() >= ended.as_u64());
    served.stop();
    pool.assert_clean();
}
