//! The total of a copy's progress is what is sent, not the size of the snapshot.

use super::common::simulated::Simulation;
use super::common::{BLOCK, content, open, options, tuning, write, write_zeroes};
use gemelo_base::{Recorder, StopFlag};
use gemelo_copies::{SendOptions, send};
use gemelo_format::DedupMode;
use gemelo_volume::{Outgoing, Pool};
use std::io::Read;
use std::time::{Duration, Instant};

/// Blocks of several pages of a map.
const BLOCKS: u64 = 3000;
const PATIENCE: Duration = Duration::from_secs(60);

/// A receiver that tells nothing, and has everything before this block.
fn greeting(received: u64) -> Vec<u8> {
    let received_bytes = received * BLOCK as u64;
    [&b"GEMELOAN"[..], &[1, 255], &[0; 32], &received_bytes.to_le_bytes()].concat()
}

/// The blocks that the progress tells as the total, before the first of them is passed on, and
/// those that it tells as done.
fn told(outgoing: &Outgoing, received: Option<u64>) -> (u64, u64) {
    let (recorder, began) = (Recorder::new(), Instant::now());
    let total_is_told = || {
        while recorder.total() == 0 {
            assert!(began.elapsed() < PATIENCE, "no total is told");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    };
    let greeting = received.map(greeting);
    let mut answers = greeting.as_deref();
    let answers = answers.as_mut().map(|answers| answers as &mut (dyn Read + Send));
    let progress = (&recorder as _, &StopFlag::new());
    let options = SendOptions { may_answer: &total_is_told, level: None };
    send(outgoing, &mut Vec::new(), answers, options, progress).unwrap();
    assert_eq!(recorder.phases(), ["Sending"]);
    (recorder.total() / BLOCK as u64, recorder.advanced() / BLOCK as u64)
}

#[test]
fn the_total_is_what_is_sent() {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(4000)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("v", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("v").unwrap();
    let write = |first: u64, count: u64, id: u64| {
        let bytes: Vec<u8> = (id..id + count).flat_map(|id| content(id, BLOCK)).collect();
        write(&volume, first * BLOCK as u64, &bytes).unwrap();
    };
    write(0, 50, 1);
    write(2000, 10, 51);
    pool.snapshot_volume("v", "one").unwrap();
    write(2000, 7, 101);
    write(2500, 1, 201);
    write_zeroes(&volume, 0, 3 * BLOCK as u64).unwrap();
    pool.snapshot_volume("v", "two").unwrap();
    let whole = pool.outgoing("two", None).unwrap();
    let new = pool.outgoing("two", Some("one")).unwrap();
    assert_eq!(told(&whole, None), (58, 58), "the blocks that are not zeros");
    assert_eq!(told(&new, None), (8, 8), "those that differ");
    for (received, of_whole, of_new) in [(0, 58, 8), (2003, 8, 5), (2007, 4, 1)] {
        assert_eq!(told(&whole, Some(received)), (of_whole, of_whole), "after {received}");
        assert_eq!(told(&new, Some(received)), (of_new, of_new), "after {received}");
    }
}
