//! A domain on a Ceph cluster: two hosts, a take-over in the middle of a change, the check, and the
//! end of a fence.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

#[path = "../../objects/tests/conformance/ceph.rs"]
mod ceph;

use ceph::Ceph;
use gemelo_base::{ManualClock, SystemClock};
use gemelo_domain::{
    Action, Change, Claim, Claims, DomainConfig, DomainError, Effect, Index, Intent, Journal,
    JournalError, MemberId, Members, NewMember, Result, Settled, Shard, Tenure, Verdict, check,
    tend_fences,
};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::rados::{Rados, RadosOptions};
use gemelo_objects::{Locks, ObjectError};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// A journal that survives its process, which dies after a record if it is told to.
#[derive(Default)]
struct Memory {
    open: Vec<Intent>,
    applied: usize,
    dies: bool,
}

impl Journal for Memory {
    fn record(&mut self, intents: &[Intent]) -> std::result::Result<(), JournalError> {
        self.open.extend(intents.iter().cloned());
        if self.dies { Err("the process dies".into()) } else { Ok(()) }
    }

    fn settle(&mut self, settled: &[Settled<'_>]) -> std::result::Result<(), JournalError> {
        self.open.retain(|intent| settled.iter().all(|settled| settled.intent != intent));
        self.applied += settled.iter().filter(|it| it.verdict == Verdict::Applied).count();
        Ok(())
    }
}

struct Records(MemberId, Vec<Claim>);

impl Claims for Records {
    fn member(&self) -> MemberId {
        self.0
    }

    fn claims(&mut self, shard: Shard) -> Result<Vec<Claim>> {
        Ok(self.1.iter().filter(|claim| shard.contains(claim.fingerprint)).copied().collect())
    }

    fn intents(&self) -> &[Intent] {
        &[]
    }
}

const CONTENTS: u32 = 500;

fn changes(action: impl Fn(Pbn) -> Action) -> Vec<Change> {
    let change = |number: u32| Change {
        fingerprint: Fingerprint::of_hash(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        action: action(Pbn::new(number.into()).unwrap()),
    };
    (1..=CONTENTS).map(change).collect()
}

fn index(client: &Arc<Rados>, config: &DomainConfig, member: MemberId) -> Index {
    Index::new(Arc::clone(client) as Arc<_>, Arc::new(SystemClock::new()), config, member)
}

fn findings(client: &Rados, home: MemberId, sharer: MemberId, is_shared: bool) -> usize {
    let claim = |change: Change, is_counted| match change.action {
        Action::Publish(pbn) => Claim { fingerprint: change.fingerprint, home, pbn, is_counted },
        _ => panic!("only published contents are claimed"),
    };
    let claims = || changes(Action::Publish).into_iter();
    let mut home = Records(home, claims().map(|change| claim(change, true)).collect());
    let shared = claims().filter(|_| is_shared).map(|change| claim(change, true)).collect();
    let mut sharer = Records(sharer, shared);
    let config = DomainConfig::open(client).unwrap();
    check(client, &config, &mut [&mut home, &mut sharer]).unwrap().list.len()
}

/// The variable by which a process of this test knows that it is to take a member and die.
const DIES_IN: &str = "GEMELO_TEST_DIES_IN";
const LEASE: Duration = Duration::from_secs(5);

#[test]
fn a_domain_on_ceph_survives_a_take_over() {
    if let Some(directory) = std::env::var_os(DIES_IN) {
        take_and_die(Path::new(&directory));
    }
    let Some(ceph) = Ceph::start() else { return };
    let connect = || Arc::new(ceph.connect("gemelo", "domain", Duration::from_secs(20)).unwrap());
    let (one, two) = (connect(), connect());
    let config = DomainConfig {
        block_bytes: 4096,
        depth: 4,
        fingerprint_id: [1; 16],
        unknown: gemelo_format::Features::NONE,
    };
    config.create(one.as_ref()).unwrap();
    let members = Members::new(one.as_ref());
    let home = members.add(&NewMember { name: "home", token: 1 }).unwrap();
    let sharer = members.add(&NewMember { name: "sharer", token: 2 }).unwrap();
    let clock = SystemClock::new();
    let publish = changes(Action::Publish);

    let mut tenure = Tenure::take(one.as_ref(), &clock, home, LEASE).unwrap();
    let mut served = index(&one, &config, home);
    let mut journal = Memory { dies: true, ..Memory::default() };
    assert!(matches!(served.submit(&publish, &mut journal), Err(DomainError::Journal(_))));

    std::thread::sleep(LEASE);
    let next = Tenure::take(two.as_ref(), &clock, home, LEASE).unwrap();
    assert_eq!(next.epoch(), 2);
    let mut journal = Memory { open: journal.open, ..Memory::default() };
    assert_eq!(journal.open.len(), 16, "an intent for each shard");
    let open = journal.open.clone();
    let mut taken = index(&two, &config, home);
    taken.resume(open, &mut journal).unwrap();
    assert_eq!((journal.applied, journal.open.len()), (16, 0));

    let late = served.submit(&publish, &mut Memory::default());
    assert!(matches!(late, Err(DomainError::Object(ObjectError::Fenced { .. }))), "{late:?}");
    assert!(tenure.renew(one.as_ref(), &clock).is_err());

    let three = connect();
    let mut other = index(&three, &config, sharer);
    let effects = other.submit(&publish, &mut journal).unwrap();
    for (number, effect) in (1..).zip(effects) {
        assert_eq!(effect, Effect::Shared(home, Pbn::new(number).unwrap()));
    }
    assert_eq!(findings(&three, home, sharer, true), 0);
    other.submit(&changes(|_| Action::Release), &mut journal).unwrap();
    assert_eq!(findings(&three, home, sharer, false), 0);
    taken.submit(&changes(|_| Action::Release), &mut journal).unwrap();
    assert!(check(three.as_ref(), &config, &mut []).unwrap().are_none());
    // The right to fence is tried without fencing anybody, and as often as wanted.
    three.try_fence().unwrap();
    three.try_fence().unwrap();
    next.end(two.as_ref()).unwrap();
    the_fence_of_an_ended_process_ends(&ceph, three.as_ref());
}

fn take_and_die(directory: &Path) -> ! {
    let client = Rados::connect(&RadosOptions {
        configuration: Some(&directory.join("ceph.conf")),
        user: "admin",
        pool: "gemelo",
        namespace: "domain",
        timeout: Duration::from_secs(20),
    });
    Tenure::take(&client.unwrap(), &SystemClock::new(), MemberId(9), LEASE).unwrap();
    std::process::abort()
}

/// The time of the machine is the test's, so that nobody has to wait.
fn the_fence_of_an_ended_process_ends(ceph: &Ceph, client: &Rados) {
    let (member, clock) = (MemberId(9), ManualClock::new());
    let mut other = Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "a_domain_on_ceph_survives_a_take_over"]);
    let output = other.env(DIES_IN, ceph.directory()).output().unwrap();
    assert!(!output.status.success());
    let holder = Tenure::look(client, member).unwrap().0;
    let instance = holder.unwrap_or_else(|| panic!("nobody took it: {output:?}")).instance;
    let excluded = || {
        let mut command = Command::new("ceph");
        command.arg("--conf").arg(ceph.directory().join("ceph.conf"));
        let output = command.args(["osd", "blocklist", "ls"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().contains(&instance.0)
    };
    std::thread::sleep(LEASE);
    let tenure = Tenure::take(client, &clock, member, LEASE).unwrap();
    assert!(excluded(), "{instance}");
    clock.advance_ns(20 * 60 * 1_000_000_000 - 1);
    assert_eq!(tend_fences(client, &clock, member).unwrap(), 0);
    assert!(excluded(), "{instance}");
    clock.advance_ns(1);
    assert_eq!(tend_fences(client, &clock, member).unwrap(), 1);
    assert!(!excluded(), "{instance}");
    tenure.end(client).unwrap();
}
