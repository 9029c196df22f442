//! Copies between pools on simulated disks: random work with a model of both pools, streams that
//! are damaged, and power cuts at every write of the receiver.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot continue fails and prints its seed"
)]

mod asked;
#[path = "../../../volume/tests/common/mod.rs"]
#[expect(dead_code, reason = "the suites of the engine use the rest")]
mod common;
mod compressed;
mod crash;
mod cut;
mod memory;
mod model;
mod progress;
mod resume;

use common::simulated::Simulation;
use common::{BLOCK, content, open, options, read, tuning, write};
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_copies::stream::Head;
use gemelo_copies::{ReceiveError, ReceiveOptions, Received, SendOptions, receive, send};
use gemelo_format::{DedupMode, SnapshotId, VolumeId};
use gemelo_volume::Pool;

/// The ids of the contents of a volume, one for each block.
type Ids = Vec<u64>;

fn sent(pool: &Pool, name: &str, since: Option<&str>) -> Vec<u8> {
    sent_at(pool, name, since, None)
}

/// What a snapshot is sent as, compressed by a level.
fn sent_at(pool: &Pool, name: &str, since: Option<&str>, level: Option<u8>) -> Vec<u8> {
    let outgoing = pool.outgoing(name, since).unwrap();
    let mut stream = Vec::new();
    let options = SendOptions { may_answer: &|| Ok(()), level };
    let sent = send(&outgoing, &mut stream, None, options, (&Silent, &StopFlag::new())).unwrap();
    assert_eq!(sent.stream_bytes, stream.len() as u64);
    stream
}

/// The head of a stream of the whole of a snapshot.
fn head(block_bytes: usize, blocks: u64) -> Head {
    Head {
        block_bytes: block_bytes as u32,
        size_bytes: blocks * block_bytes as u64,
        padding_bytes: 0,
        identity: SnapshotId { pool: [9; 16], volume: VolumeId(7), created_s: 1 },
        source: None,
        created_s: None,
        name: "s".to_owned(),
        since: None,
        is_compressed: false,
        is_exchange: false,
        has_compressed_frames: false,
    }
}

fn received(pool: &Pool, name: &str, mut stream: &[u8]) -> Result<Received, ReceiveError> {
    let options = ReceiveOptions { mode: DedupMode::Inline, tells: true };
    receive(pool, name, &mut stream, None, options, (&Silent, &StopFlag::new()))
}

#[test]
fn a_member_that_another_process_may_have_sends_nothing_more() {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(200)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("v", 100 * BLOCK as u64, DedupMode::Inline).unwrap();
    write(&pool.volume("v").unwrap(), 0, &content(1, BLOCK)).unwrap();
    pool.snapshot_volume("v", "one").unwrap();
    let (outgoing, mut stream) = (pool.outgoing("one", None).unwrap(), Vec::new());
    let may_answer = || Err("the lease has ended".to_owned());
    let options = SendOptions { may_answer: &may_answer, level: None };
    let sent = send(&outgoing, &mut stream, None, options, (&Silent, &StopFlag::new()));
    assert_eq!(sent.unwrap_err().to_string(), "the lease has ended");
    let error = received(&pool, "two", &stream).unwrap_err().to_string();
    assert_eq!(error, "volume 'one' is a copy of this snapshot already");
    pool.remove_volume("one").unwrap();
    let error = received(&pool, "two", &stream).unwrap_err().to_string();
    assert_eq!(error, "the sender gave up: the lease has ended");
    assert!(stream.len() < BLOCK, "no content was sent");
}

fn assert_holds(pool: &Pool, name: &str, ids: &[u64]) {
    let found = read(&pool.volume(name).unwrap(), 0, ids.len() * BLOCK).unwrap();
    for (at, (found, id)) in found.chunks_exact(BLOCK).zip(ids).enumerate() {
        assert!(found == content(*id, BLOCK), "block {at} of {name}");
    }
}

fn check_from_outside(simulation: &Simulation) {
    let options = CheckOptions { data: true };
    let report = check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}
