//! Threads that write, read, deduplicate and share at the same time, without faults of the store.

use crate::member::{Member, content, flush, journal_data, read, trim, write};
use crate::proof::{expect_clean, expect_nothing_left};
use crate::{BLOCK, domain, member};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_domain::MemberId;
use gemelo_format::{Compression, DedupMode, Policy};
use gemelo_objects::simulated::{Faults, World};
use gemelo_sharing::SharingWorker;
use gemelo_volume::Tuning;
use std::sync::Arc;

const BLOCKS: u64 = 64;
const STEPS: u64 = 6000;
const CONTENTS: u64 = 100;

/// Writes and reads a volume that nobody else writes.
fn load(member: &Member, name: &str, seed: u64) -> Vec<u64> {
    let volume = member.pool.volume(name).unwrap();
    let mut random = Random::new(seed);
    let mut expected = vec![0; BLOCKS as usize];
    for _ in 0..STEPS {
        let lbn = random.below(BLOCKS);
        match random.below(16) {
            0..7 => {
                let id = 1 + random.below(CONTENTS);
                write(&volume, lbn, &content(id)).unwrap();
                expected[lbn as usize] = id;
            }
            7 => {
                trim(&volume, lbn, 1).unwrap();
                expected[lbn as usize] = 0;
            }
            8 => flush(&volume).unwrap(),
            9 if random.below(4) == 0 => {
                member.pool.find(&Silent, &StopFlag::new()).unwrap();
            }
            10 if random.below(16) == 0 => {
                member.pool.gc(None, &Silent, &StopFlag::new()).unwrap();
            }
            _ => {
                let found = read(&volume, lbn).unwrap();
                assert_eq!(found, content(expected[lbn as usize]), "{name}, block {lbn}");
            }
        }
    }
    flush(&volume).unwrap();
    expected
}

#[test]
fn threads_share_while_others_write_and_read() {
    share(None);
}

#[test]
fn threads_share_compressed_contents_while_others_write_and_read() {
    share(Some(Compression::Lz4));
}

fn share(compression: Option<Compression>) {
    let none = Faults { min_delay_ns: 0, max_delay_ns: 1000, ..Faults::NONE };
    let world = World::new(1, none);
    let client = world.client();
    domain::create(&client, 2);
    let start = |number| {
        // So few blocks that writers wait for those that are being released.
        let shape = (Policy::Compact, 190);
        member::format_as(&client, MemberId(number), shape, compression);
        let tuning = Tuning { background: true, verify_reads: false, ..journal_data() };
        let member = Member::start_with(&client, MemberId(number), (number == 1, tuning)).unwrap();
        for (name, mode) in [("inline", DedupMode::Inline), ("offline", DedupMode::Offline)] {
            member.pool.create_volume(name, BLOCKS * BLOCK as u64, mode).unwrap();
        }
        member
    };
    let members = [start(1), start(2)];
    let workers = members.each_ref().map(|member| {
        let (sharing, pool) = (Arc::clone(&member.sharing), Arc::clone(&member.pool));
        SharingWorker::start(sharing, pool, Arc::new(SystemClock::new()), || true).unwrap()
    });
    let expected = std::thread::scope(|scope| {
        let loads = [(0, "inline"), (0, "offline"), (1, "inline"), (1, "offline")];
        let threads = loads.map(|(number, name)| {
            let member = &members[number];
            (number, name, scope.spawn(move || load(member, name, number as u64 + 5)))
        });
        threads.map(|(number, name, thread)| (number, name, thread.join().unwrap()))
    });
    assert_eq!(workers.each_ref().map(SharingWorker::failure), [None, None]);
    drop(workers);
    for member in &members {
        member.pool.find(&Silent, &StopFlag::new()).unwrap();
        member.pool.gc(None, &Silent, &StopFlag::new()).unwrap();
    }
    let all: Vec<&Member> = members.iter().collect();
    let drain = || (0..3).for_each(|_| all.iter().for_each(|member| member.drain().unwrap()));
    drain();
    expect_clean(&client, &all);
    let figures = members.each_ref().map(|member| member.sharing.figures());
    assert!(
        figures.iter().all(|figures| figures.shared > 0 && figures.released > 0),
        "{figures:?}"
    );
    for (number, name, expected) in expected {
        let volume = members[number].pool.volume(name).unwrap();
        for (lbn, id) in (0..).zip(expected) {
            assert_eq!(read(&volume, lbn).unwrap(), content(id), "{name}, block {lbn}");
        }
    }
    for member in &members {
        ["inline", "offline"].iter().for_each(|name| member.pool.remove_volume(name).unwrap());
        member.pool.gc(None, &Silent, &StopFlag::new()).unwrap();
    }
    drain();
    expect_nothing_left(&client, &all);
}
