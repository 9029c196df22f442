//! Four members with the same kind of data, each with a server and a standby, over random faults:
//! processes are killed, stopped and handed over, storage servers die and stand still, volumes are
//! snapshotted, cloned and removed. Each flushed block is read back after each fault, and the
//! index is compared with the ledgers all the time.
//!
//! `GEMELO_TEST_ROUNDS` sets the number of faults, `GEMELO_TEST_SEED` the seed. The order in which
//! members meet is not repeated by a seed. With an even one contents are in an erasure-coded pool.

mod member;
mod seen;

use super::coded;
use super::host::{Host, PATIENCE};
use gemelo_base::random::Random;
use member::{Fault, Member};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const DOMAIN: &str = "rados:gemelo/storm";
const MEMBERS: [&str; 4] = ["one", "two", "three", "four"];
const STORAGE_SERVERS: u64 = 3;
/// Faults unless another number is set.
const FAULTS: u64 = 8;

/// The parts of a run that all members use.
struct Storm<'h, 'c> {
    host: &'h Host<'c>,
    faults: u64,
    begun: AtomicU64,
    /// Held while a storage server is down, because there are two copies.
    storage: Mutex<()>,
    tally: Mutex<Tally>,
}

/// Counts of a run.
#[derive(Debug, Default)]
struct Tally {
    faults: BTreeMap<Fault, u64>,
    verified: u64,
    lost_leases: u64,
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

pub(crate) fn run(host: &Host<'_>) {
    let seed = variable("GEMELO_TEST_SEED").unwrap_or(1);
    let faults = variable("GEMELO_TEST_ROUNDS").unwrap_or(FAULTS);
    create_domain(host, seed.is_multiple_of(2));
    let (begun, storage, tally) = Default::default();
    let storm = Storm { host, faults, begun, storage, tally };
    let mut members = MEMBERS.map(|name| Member::create(host, &format!("{DOMAIN}/{name}")));
    let has_ended = AtomicBool::new(false);
    let checks = std::thread::scope(|scope| {
        let checks = scope.spawn(|| check_while_served(host, &has_ended));
        let one_each = members.iter_mut().zip(seed * 4..);
        let storms = one_each.map(|(member, seed)| {
            let storm = &storm;
            scope.spawn(move || storm.weather(member, &mut Random::new(seed)))
        });
        let storms: Vec<_> = storms.collect();
        let have_failed = storms.into_iter().filter_map(|storm| storm.join().err()).count();
        has_ended.store(true, Ordering::Relaxed);
        assert_eq!(have_failed, 0, "seed {seed}");
        checks.join().unwrap()
    });
    members.into_iter().for_each(Member::end);
    host.json(&["domain", "check", DOMAIN]);
    MEMBERS.into_iter().for_each(|name| host.assert_clean(&format!("{DOMAIN}/{name}")));
    let Tally { faults, verified, lost_leases } = storm.tally.into_inner().unwrap();
    eprintln!("seed {seed}: {faults:?}; {lost_leases} leases lost besides");
    eprintln!("{verified} flushed blocks read back; {checks} checks while served");
}

fn create_domain(host: &Host<'_>, is_coded: bool) {
    let create = ["domain", "create", DOMAIN, "--shards", "2"];
    if is_coded {
        coded::create_pool(host);
        coded::allow_overwrites(host);
        host.done(&[&create[..], &["--data-pool", coded::POOL]].concat());
    } else {
        host.done(&create);
    }
}

/// Compares the index with the ledgers until the end, and returns how often it did. While a storage
/// server is down, a check may get no answer in time.
fn check_while_served(host: &Host<'_>, has_ended: &AtomicBool) -> u64 {
    let mut checks = 0;
    while !has_ended.load(Ordering::Relaxed) {
        let ran = host.run(&["domain", "check", DOMAIN]);
        let has_no_answer = ran.status == 1 && ran.err.contains("did not answer in time");
        assert!(ran.status == 0 || has_no_answer, "{}{}", ran.out, ran.err);
        checks += u64::from(ran.status == 0);
        std::thread::sleep(Duration::from_millis(500));
    }
    checks
}

impl Storm<'_, '_> {
    /// Runs a member under load from fault to fault.
    fn weather(&self, member: &mut Member<'_, '_>, random: &mut Random) {
        while self.begun.fetch_add(1, Ordering::Relaxed) < self.faults {
            let span = Duration::from_millis(300 + random.below(1500));
            member.load(random, span);
            let fault = Fault::draw(random);
            match fault {
                Fault::StorageServerDies => self.storage_server_dies(random.below(STORAGE_SERVERS)),
                Fault::StorageServerStops => {
                    let _alone = self.storage.lock().unwrap();
                    let number = random.below(STORAGE_SERVERS) as u32;
                    let span = Duration::from_millis(random.below(2500));
                    self.host.slow_down_storage_servers(number..number + 1, span);
                }
                _ => member.suffer(fault, random),
            }
            member.verify();
            let mut tally = self.tally.lock().unwrap();
            *tally.faults.entry(fault).or_default() += 1;
            tally.verified += std::mem::take(&mut member.verified);
            tally.lost_leases += std::mem::take(&mut member.lost_leases);
        }
    }

    /// A storage server dies and comes back. The next fault of one waits until all data have two
    /// copies again.
    fn storage_server_dies(&self, number: u64) {
        let _alone = self.storage.lock().unwrap();
        let number = number as u32;
        self.host.kill_storage_server(number);
        std::thread::sleep(Duration::from_secs(1));
        self.host.start_storage_server(number);
        let began = Instant::now();
        while !self.host.has_all_copies() {
            assert!(began.elapsed() < PATIENCE, "data lack copies");
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}
