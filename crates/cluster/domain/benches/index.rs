//! Contents published, shared and released per second on a Ceph cluster:
//!
//! ```sh
//! scripts/ceph.sh start /tmp/ceph
//! cargo bench -p gemelo-domain --bench index -- /tmp/ceph/ceph.conf gemelo
//! scripts/ceph.sh stop /tmp/ceph
//! ```
//!
//! Each member is a thread with a connection of its own. All members publish contents of their own,
//! then each shares the contents of its neighbour, and then all references are released and the
//! blocks withdrawn. The members' journals are in memory: their cost is that of a member's disk.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

use gemelo_base::random::{fresh_word, mix_pair};
use gemelo_base::{Clock, SystemClock};
use gemelo_domain::{
    Action, Change, DomainConfig, Effect, Index, Intent, Journal, JournalError, MemberId, Settled,
    Verdict,
};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::Objects;
use gemelo_objects::rados::{Rados, RadosOptions};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// The settings of one run.
#[derive(Debug, Clone)]
struct Run {
    configuration: PathBuf,
    pool: String,
    namespace: String,
    members: u32,
    depth: u8,
    /// Contents of each member.
    contents: u64,
    /// Contents submitted together.
    batch: usize,
}

/// A journal that takes no time, and counts intents that are planned again.
#[derive(Default)]
struct Memory {
    void: u64,
}

impl Journal for Memory {
    fn record(&mut self, intents: &[Intent]) -> Result<(), JournalError> {
        std::hint::black_box(
            intents.iter().map(Intent::encode).map(|bytes| bytes.len()).sum::<usize>(),
        );
        Ok(())
    }

    fn settle(&mut self, settled: &[Settled<'_>]) -> Result<(), JournalError> {
        self.void += settled.iter().filter(|it| it.verdict == Verdict::Void).count() as u64;
        Ok(())
    }
}

fn connect(run: &Run) -> Arc<Rados> {
    let options = RadosOptions {
        configuration: Some(&run.configuration),
        user: "admin",
        pool: &run.pool,
        namespace: &run.namespace,
        timeout: Duration::from_secs(60),
    };
    Arc::new(Rados::connect(&options).unwrap())
}

fn content(run: &Run, member: u32, number: u64) -> Fingerprint {
    let seed = mix_pair(u64::from(member), number);
    let high = mix_pair(seed, run.contents);
    Fingerprint::of_hash(u128::from(high) << 64 | u128::from(seed))
}

/// Submits changes in batches, and checks the effect of each.
fn submit(
    index: &mut Index,
    journal: &mut Memory,
    run: &Run,
    changes: impl Iterator<Item = Change>,
    is_expected: impl Fn(&Effect) -> bool,
) {
    let changes: Vec<Change> = changes.collect();
    for batch in changes.chunks(run.batch) {
        let effects = index.submit(batch, journal).unwrap();
        assert!(effects.iter().all(&is_expected), "an unexpected effect");
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (Some(configuration), Some(pool)) = (arguments.next(), arguments.next()) else {
        println!(
            "index: no cluster given: cargo bench -p gemelo-domain --bench index -- CONF POOL"
        );
        return;
    };
    println!("members  shards  batch  published/s  shared/s  released/s  planned again");
    for (members, depth, batch) in
        [(1, 4, 1000), (1, 4, 16_000), (1, 4, 48_000), (2, 4, 16_000), (4, 6, 64_000)]
    {
        let run = Run {
            configuration: configuration.clone().into(),
            pool: pool.clone(),
            namespace: format!("bench-{:016x}", fresh_word()),
            members,
            depth,
            contents: 240_000 / u64::from(members),
            batch,
        };
        measure(&run);
    }
}

fn measure(run: &Run) {
    let admin = connect(run);
    let config = DomainConfig {
        block_bytes: 4096,
        depth: run.depth,
        fingerprint_id: [0; 16],
        unknown: gemelo_format::Features::NONE,
    };
    config.create(admin.as_ref()).unwrap();
    let clock = SystemClock::new();
    let marks: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
    let void = AtomicU64::new(0);
    let barrier = Barrier::new(run.members as usize);
    std::thread::scope(|scope| {
        for number in 0..run.members {
            let (marks, void, barrier) = (&marks, &void, &barrier);
            scope.spawn(move || {
                let pass = |mark: usize| {
                    barrier.wait();
                    marks[mark].fetch_max(clock.now_ns(), Ordering::Relaxed);
                };
                let planned_in_vain = member(run, config, number, pass);
                void.fetch_add(planned_in_vain, Ordering::Relaxed);
            });
        }
    });
    let time = |mark: usize| marks[mark].load(Ordering::Relaxed);
    let total = run.contents * u64::from(run.members);
    let rate = |mark: usize| total * 1_000_000_000 / (time(mark + 1) - time(mark));
    let Run { members, batch, depth, .. } = run;
    println!(
        "{members:>7}  {:>6}  {batch:>5}  {:>11}  {:>8}  {:>10}  {:>15}",
        1 << depth,
        rate(0),
        rate(1),
        rate(2),
        void.load(Ordering::Relaxed)
    );
    for object in admin.list("").unwrap() {
        admin.remove(&object).unwrap();
    }
}

/// Publishes the member's contents, shares those of the next member, and releases these. Returns
/// how many intents were planned again.
fn member(run: &Run, config: DomainConfig, number: u32, pass: impl Fn(usize)) -> u64 {
    let clock = Arc::new(SystemClock::new());
    let mut index = Index::new(connect(run), clock, &config, MemberId(number + 1));
    let mut journal = Memory::default();
    // A single member shares contents with itself: the index does the same work.
    let next = (number + 1) % run.members;
    let change = |owner: u32, action: Action| {
        (0..run.contents)
            .map(move |number| Change { fingerprint: content(run, owner, number), action })
    };
    pass(0);
    let publish = Action::Publish(Pbn::FIRST);
    let is_published = |effect: &Effect| matches!(effect, Effect::Published(_));
    submit(&mut index, &mut journal, run, change(number, publish), is_published);
    pass(1);
    let is_shared = |effect: &Effect| matches!(effect, Effect::Shared(..));
    submit(&mut index, &mut journal, run, change(next, publish), is_shared);
    pass(2);
    let is_released = |effect: &Effect| matches!(effect, Effect::Released { tell: None });
    submit(&mut index, &mut journal, run, change(next, Action::Release), is_released);
    pass(3);
    journal.void
}
