//! Four members under load on five hosts that die, stop beyond their lease, are cut off, fence each
//! other and take members over, while calls and answers are lost and arrive late.
//!
//! `GEMELO_TEST_ROUNDS` sets the number of seeds of each policy, `GEMELO_TEST_SEED` the first one.

use crate::member::{Failure, Member, content, flush, journal_data, read, trim, write};
use crate::model::Contents;
use crate::proof::{expect_clean, expect_nothing_left};
use crate::repeat::Repeat;
use crate::{BLOCK, TIMEOUT_NS, domain, member};
use gemelo_base::{Clock, Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_domain::{DomainError, MemberId};
use gemelo_format::{Compression, DedupMode, PackedPlace, Pbn, Policy};
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_objects::{Locks, ObjectError};
use gemelo_volume::{ScrubOptions, VolumeError};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const MEMBERS: u32 = 4;
/// Hosts that serve them: one more, so that there is one on standby.
const HOSTS: usize = 5;
/// Simulated time with faults.
const FAULTS_UNTIL_NS: u64 = 400 * TIMEOUT_NS;
/// Seeds of each policy that are tried unless another number is set.
const SEEDS: u64 = 12;
/// Blocks of a member's pool, and of each of its volumes.
const POOL_BLOCKS: u64 = 400;
const VOLUME_BLOCKS: u64 = 40;
/// Blocks of the volume that a member of every third seed had before, and how often it was opened.
const PAST_BLOCKS: u64 = 200;
const PAST_OPENINGS: u64 = 3;
const VOLUMES: [(&str, DedupMode); 2] =
    [("inline", DedupMode::Inline), ("offline", DedupMode::Offline)];
/// Contents of all volumes: few, so that members share many of them.
const CONTENTS: u64 = 50;

/// Counts over all seeds, so that a run that does nothing is noticed.
#[derive(Debug, Default)]
struct Tally {
    published: AtomicU64,
    borrowed: AtomicU64,
    released: AtomicU64,
    withdrawn: AtomicU64,
    taken_over: AtomicU64,
    fenced: AtomicU64,
    foreign_reads: AtomicU64,
    flushes: AtomicU64,
    verified: AtomicU64,
}

/// The parts of a run that all hosts use.
struct Run<'a> {
    world: World,
    contents: Vec<Mutex<Contents>>,
    compares: bool,
    /// The epoch of the first host that serves a member.
    first_epoch: u64,
    tally: &'a Tally,
}

pub(crate) fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

fn run_seeds(policy: Policy) {
    let first = variable("GEMELO_TEST_SEED").unwrap_or(0);
    let rounds = variable("GEMELO_TEST_ROUNDS").unwrap_or(SEEDS);
    let tally = Tally::default();
    for seed in first..first + rounds {
        let _repeat = Repeat::of(seed);
        run(seed, policy, &tally);
    }
    eprintln!("{policy:?}: {rounds} seeds: {tally:?}");
    let Tally { published, borrowed, released, withdrawn, taken_over, fenced, .. } = &tally;
    let Tally { foreign_reads, flushes, verified, .. } = &tally;
    let counts = [published, borrowed, released, withdrawn, taken_over, fenced];
    let mut counts = counts.into_iter().chain([foreign_reads, flushes, verified]);
    let is_busy = counts.all(|count| count.load(Ordering::Relaxed) > 0);
    assert!(rounds < SEEDS || is_busy, "{tally:?}");
}

gemelo_format::test_each_policy!(what_was_flushed_is_read_back_and_nothing_leaks, run_seeds);

fn run(seed: u64, policy: Policy, tally: &Tally) {
    let world = World::new(seed, Faults::NONE);
    let admin = world.client();
    domain::create(&admin, MEMBERS);
    let is_aged = seed % 3 == 2;
    for number in 1..=MEMBERS {
        // Some compress, and share with others that do or do not.
        let compression = ((seed + u64::from(number)) % 2 == 1).then_some(Compression::Lz4);
        let shape = (policy, POOL_BLOCKS);
        member::format_as(&admin, MemberId(number), shape, compression);
        if is_aged {
            age(&world, &admin, MemberId(number));
        }
        let member = Member::start(&admin, MemberId(number), false).ok().unwrap();
        for (name, mode) in VOLUMES {
            member.pool.create_volume(name, VOLUME_BLOCKS * BLOCK as u64, mode).unwrap();
        }
        member.hand_over().ok().unwrap();
    }
    world.set_faults(Faults {
        timeout_ns: TIMEOUT_NS,
        lost_replies: 2,
        lost_calls: 2,
        late_calls: 2,
        ..Faults::NONE
    });
    let contents = (0..MEMBERS).map(|_| Mutex::default()).collect();
    let first_epoch = if is_aged { 3 + PAST_OPENINGS } else { 3 };
    let run = Run { world, contents, compares: seed % 2 == 1, first_epoch, tally };
    let clients: Vec<Client> = (0..HOSTS).map(|_| run.world.client()).collect();
    run.world.run(
        clients
            .into_iter()
            .map(|client| {
                let (instance, run) = (client.instance(), &run);
                (instance, Box::new(move || run.host(client)) as Box<dyn FnOnce() + Send>)
            })
            .collect(),
    );
    run.world.set_faults(Faults::NONE);
    // All leases are over, and all late calls have arrived.
    run.world.sleep_until_ns(run.world.now_ns() + 60_000_000_000);
    run.finish();
}

/// Gives a member a past: half of its store had contents that it shared with others, which were
/// overwritten at random, and released after it was opened twice again.
fn age(world: &World, admin: &Client, id: MemberId) {
    for opening in 1..=PAST_OPENINGS {
        let member = Member::start(admin, id, false).ok().unwrap();
        if opening == 1 {
            let bytes = PAST_BLOCKS * BLOCK as u64;
            member.pool.create_volume("past", bytes, DedupMode::Inline).unwrap();
        }
        let volume = member.pool.volume("past").unwrap();
        for lbn in (0..PAST_BLOCKS).filter(|_| opening == 1 || world.draw(4) == 0) {
            write(&volume, lbn, &content(CONTENTS + 1 + world.draw(PAST_BLOCKS))).unwrap();
        }
        flush(&volume).unwrap();
        drop(volume);
        member.drain().unwrap();
        if opening == PAST_OPENINGS {
            member.pool.remove_volume("past").unwrap();
            member.pool.flush().unwrap();
            member.drain().unwrap();
        }
        member.hand_over().ok().unwrap();
    }
}

impl Run<'_> {
    /// A host serves a member that nobody serves, and starts again whenever its process ends.
    fn host(&self, mut client: Client) {
        while self.world.now_ns() < FAULTS_UNTIL_NS {
            self.draw_fate(&client);
            if let Err(failure) = self.serve(&client) {
                self.expect_excusable(&failure);
            }
            client = self.world.reconnect(&client);
            client.clock().sleep_until_ns(self.world.now_ns() + self.world.draw(TIMEOUT_NS));
        }
    }

    /// One process in two dies, one in four is stopped beyond its lease, one in four cut off.
    fn draw_fate(&self, client: &Client) {
        let instance = client.instance();
        let at_ns = self.world.now_ns() + self.world.draw(200 * TIMEOUT_NS);
        let long_ns = 20 * TIMEOUT_NS + self.world.draw(80 * TIMEOUT_NS);
        match self.world.draw(4) {
            0 | 1 => self.world.kill_at(&instance, at_ns),
            2 => self.world.stop(&instance, at_ns..at_ns + long_ns),
            _ => self.world.cut_off(&instance, at_ns..at_ns + long_ns),
        }
    }

    /// Serves one member until something fails.
    fn serve(&self, client: &Client) -> Result<(), Failure> {
        let first = self.world.draw(u64::from(MEMBERS)) as u32;
        for step in 0..MEMBERS {
            let member = MemberId((first + step) % MEMBERS + 1);
            let settings = (self.compares, journal_data());
            let clock: Arc<dyn Clock> = Arc::new(client.clock());
            match Member::start_by(&clock, client, member, settings) {
                Ok(member) => {
                    let is_taken_over = member.epoch() > self.first_epoch;
                    count(&self.tally.taken_over, u64::from(is_taken_over));
                    let worked = self.work(member);
                    return worked;
                }
                Err(Failure::Domain(DomainError::InUse { .. })) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    fn work(&self, mut member: Member) -> Result<(), Failure> {
        let outcome = self.recover(&member).and_then(|()| self.load(&mut member));
        self.note(&member);
        match outcome {
            Ok(is_planned) if is_planned => member.hand_over(),
            Ok(_) => Ok(()),
            Err(failure) => Err(self.judge(&member, failure)),
        }
    }

    /// Ends the test unless the failure can be due to a fault.
    fn judge(&self, member: &Member, failure: Failure) -> Failure {
        let is_excused = !member.is_valid()
            || member.others.failures.load(Ordering::Relaxed) > 0
            || member.failed_reads.load(Ordering::Relaxed) > 0
            || is_excusable(&failure);
        assert!(is_excused, "{failure:?}");
        failure
    }

    fn note(&self, member: &Member) {
        let (figures, tally) = (member.sharing.figures(), self.tally);
        count(&tally.published, figures.published);
        count(&tally.borrowed, figures.shared - figures.refused.min(figures.shared));
        count(&tally.released, figures.released);
        count(&tally.withdrawn, figures.withdrawn);
        count(&tally.foreign_reads, member.others.reads.load(Ordering::Relaxed));
        assert_eq!(figures.lost, 0, "a reference is lost");
    }

    /// Reads everything that the member had when it was taken over.
    fn recover(&self, member: &Member) -> Result<(), Failure> {
        self.contents(member).taken_over(member.epoch());
        for number in 0..VOLUMES.len() {
            for lbn in 0..VOLUME_BLOCKS {
                let volume = member.pool.volume(VOLUMES[number].0)?;
                let found = read(&volume, lbn)?;
                let mut contents = self.contents(member);
                if !member.is_valid() {
                    return Err(DomainError::NotHeld.into());
                }
                let possible = contents.possible(number, lbn);
                let id = possible.iter().copied().find(|id| content(*id) == found);
                let id = id.unwrap_or_else(|| {
                    let (id, found) = (member.id(), id_of(&found));
                    panic!("member {id}: block {lbn} has {found:?} and none of {possible:?}")
                });
                contents.found(number, lbn, id);
                count(&self.tally.verified, 1);
            }
        }
        Ok(())
    }

    fn contents(&self, member: &Member) -> std::sync::MutexGuard<'_, Contents> {
        self.contents[member.id().0 as usize - 1].lock().unwrap()
    }

    /// Changes, reads and shares until the time is over. Returns whether the member is to be handed
    /// over.
    fn load(&self, member: &mut Member) -> Result<bool, Failure> {
        while self.world.now_ns() < FAULTS_UNTIL_NS {
            member.renew_if_due();
            self.step(member)?;
            if !member.is_valid() {
                return Err(DomainError::NotHeld.into());
            }
            let clock = member.client.clock();
            clock.sleep_until_ns(clock.now_ns() + self.world.draw(TIMEOUT_NS / 4));
            if self.world.draw(300) == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn step(&self, member: &Member) -> Result<(), Failure> {
        let number = self.world.draw(VOLUMES.len() as u64) as usize;
        let volume = member.pool.volume(VOLUMES[number].0)?;
        let lbn = self.world.draw(VOLUME_BLOCKS);
        match self.world.draw(32) {
            0..9 => {
                // Members write the same images, at times at other places.
                for lbn in lbn..(lbn + 1 + self.world.draw(8)).min(VOLUME_BLOCKS) {
                    let id = match self.world.draw(3) {
                        0 => lbn % CONTENTS + 1,
                        _ => self.world.draw(CONTENTS),
                    };
                    self.contents(member).write(member.epoch(), (number, lbn), id);
                    write(&volume, lbn, &content(id))?;
                }
            }
            9..12 => {
                let blocks = (1 + self.world.draw(12)).min(VOLUME_BLOCKS - lbn);
                for lbn in lbn..lbn + blocks {
                    self.contents(member).write(member.epoch(), (number, lbn), 0);
                }
                trim(&volume, lbn, blocks)?;
            }
            12..15 => {
                flush(&volume)?;
                if member.is_valid() {
                    self.contents(member).flushed();
                    count(&self.tally.flushes, 1);
                }
            }
            15..22 => drop(member.sharing.work(&member.pool)?),
            22 => drop(member.pool.find(&Silent, &StopFlag::new())?),
            23 => member.pool.checkpoint()?,
            24 => drop(member.pool.gc(None, &Silent, &StopFlag::new())?),
            25 => drop(member.pool.arrange(None, &Silent, &StopFlag::new())?),
            26 => self.copy(member, VOLUMES[number].0)?,
            27 => self.ask(member),
            _ => self.verify(member, number, lbn)?,
        }
        Ok(())
    }

    /// Makes a snapshot, or removes it if it is there.
    fn copy(&self, member: &Member, name: &str) -> Result<(), Failure> {
        let copy = format!("{name}-copy");
        match member.pool.snapshot_volume(name, &copy) {
            Err(VolumeError::VolumeExists { .. }) => Ok(member.pool.remove_volume(&copy)?),
            outcome => Ok(outcome?),
        }
    }

    /// Asks for contents that the domain knows, as the cleaner does before it moves them. The
    /// arranger may move them later.
    fn ask(&self, member: &Member) {
        let places = (0..24).map(|_| PackedPlace {
            block: 1 + self.world.draw(POOL_BLOCKS / 4) as u32,
            slot: [0, 1, 2, 7][self.world.draw(4) as usize],
        });
        let pbns: Vec<Pbn> = places.filter_map(PackedPlace::pbn).collect();
        member.sharing.free_veto().want_back(&pbns);
    }

    fn verify(&self, member: &Member, number: usize, lbn: u64) -> Result<(), Failure> {
        let volume = member.pool.volume(VOLUMES[number].0)?;
        let found = read(&volume, lbn)?;
        let expected = self.contents(member).newest(number, lbn);
        // A process whose lease is over may read anything, and must not answer.
        if member.is_valid() {
            assert_eq!(id_of(&found), Some(expected), "member {}, block {lbn}", member.id());
            count(&self.tally.verified, 1);
        }
        Ok(())
    }

    fn expect_excusable(&self, failure: &Failure) {
        let is_fenced = format!("{failure:?}").contains("Fenced");
        count(&self.tally.fenced, u64::from(is_fenced));
    }

    /// Takes all members over, settles what is open, and checks; then gives everything up, and
    /// checks that nothing remains.
    fn finish(&self) {
        let client = self.world.client();
        let start = |number| {
            let settings = (self.compares, journal_data());
            let member = Member::start_with(&client, MemberId(number), settings);
            member.unwrap_or_else(|failure| panic!("{failure:?}"))
        };
        let members: Vec<Member> = (1..=MEMBERS).map(start).collect();
        let all: Vec<&Member> = members.iter().collect();
        for member in &members {
            self.recover(member).unwrap();
            // A block whose home did not answer is suspect until it proves intact.
            let options = ScrubOptions { max_bytes_per_s: None, heals: true };
            let report = member.pool.scrub(options, &Silent, &StopFlag::new()).unwrap();
            assert!(report.is_clean(), "{report:?}");
            member.pool.find(&Silent, &StopFlag::new()).unwrap();
            member.pool.gc(None, &Silent, &StopFlag::new()).unwrap();
        }
        drain(&members);
        expect_clean(&client, &all);
        members.iter().for_each(|member| self.recover(member).unwrap());
        members.iter().for_each(check_from_outside);
        for member in &members {
            let names = member.pool.volumes().into_iter().map(|volume| volume.record.name);
            names.for_each(|name| member.pool.remove_volume(&name).unwrap());
            member.pool.gc(None, &Silent, &StopFlag::new()).unwrap();
        }
        drain(&members);
        expect_nothing_left(&client, &all);
        members.iter().for_each(|member| self.note(member));
    }
}

/// Returns the content that a block has, if it is a known one.
pub(crate) fn id_of(found: &[u8]) -> Option<u64> {
    (0..=CONTENTS.max(VOLUME_BLOCKS)).find(|id| content(*id) == found)
}

/// Works until no member has anything left to do. One member's release is another one's letter.
fn drain(members: &[Member]) {
    for _ in 0..3 {
        members.iter().for_each(|member| member.drain().unwrap());
    }
}

/// The offline checker reads the contents of a checkpoint through the store of the member.
pub(crate) fn check_from_outside(member: &Member) {
    member.pool.checkpoint().unwrap();
    let options = CheckOptions { data: true };
    let report = check(&member.disks(), options, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

fn is_excusable(failure: &Failure) -> bool {
    let text = format!("{failure:?}");
    let of_object =
        |error: &ObjectError| matches!(error, ObjectError::Fenced { .. }) || error.is_unknown();
    match failure {
        Failure::Domain(DomainError::Object(error)) => of_object(error),
        Failure::Domain(DomainError::NotHeld | DomainError::Contended { .. }) => true,
        _ => ["TimedOut", "Fenced", "is dead", "NotHeld", "Contended", "NoSpace"]
            .iter()
            .any(|excuse| text.contains(excuse)),
    }
}
