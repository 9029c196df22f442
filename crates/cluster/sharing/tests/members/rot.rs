//! Members whose blocks rot while they write, share, scrub and are taken over.
//!
//! A byte of a home's block flips only while another member has a copy of its own, and clients
//! leave the content alone until everybody can read it again. So nothing may be lost: the member
//! with the good copy reads it at any time, nobody reads anything wrong, and in the end everybody
//! reads everything.
//!
//! `GEMELO_TEST_ROUNDS` sets the number of seeds, `GEMELO_TEST_SEED` the first one.

use crate::damage::{scrub, take_over};
use crate::disk::{flip_byte, packed_bytes, stored};
use crate::member::{Member, content, flush, read, trim, write};
use crate::proof::{expect_clean, ledgers};
use crate::repeat::Repeat;
use crate::simulation::{id_of, variable};
use crate::{BLOCK, RETRY_INTERVAL_NS, domain, member};
use gemelo_base::{Clock, Silent, StopFlag};
use gemelo_device::DeviceError;
use gemelo_domain::MemberId;
use gemelo_format::{Compression, DedupMode, Policy};
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_sharing::KeptBlock;
use std::collections::{BTreeMap, BTreeSet};

const MEMBERS: u32 = 3;
const SEEDS: u64 = 12;
const STEPS: u32 = 500;
const VOLUME_BLOCKS: u64 = 24;
const VOLUMES: [(&str, DedupMode); 2] =
    [("inline", DedupMode::Inline), ("offline", DedupMode::Offline)];
/// Contents of all volumes: few, so that members share many of them.
const CONTENTS: u64 = 30;

/// A place of a client: member, volume, LBN.
type Place = (usize, usize, u64);

#[derive(Debug, Default)]
struct Tally {
    flips: u64,
    unreadable: u64,
    healed: u64,
    set_aside: u64,
    refused: u64,
}

struct Run<'a> {
    world: World,
    client: Client,
    members: Vec<Option<Member>>,
    expected: BTreeMap<Place, u64>,
    /// Contents with a damaged home, and the members that had a good copy when it was damaged.
    endangered: BTreeMap<u64, BTreeSet<usize>>,
    tally: &'a mut Tally,
}

#[test]
fn no_content_is_lost_while_a_good_copy_is_anywhere() {
    let first = variable("GEMELO_TEST_SEED").unwrap_or(0);
    let rounds = variable("GEMELO_TEST_ROUNDS").unwrap_or(SEEDS);
    let mut tally = Tally::default();
    for seed in first..first + rounds {
        let _repeat = Repeat::of(seed);
        Run::new(seed, &mut tally).run();
    }
    eprintln!("{rounds} seeds: {tally:?}");
    let Tally { flips, unreadable, healed, set_aside, refused } = tally;
    let is_busy = [flips, unreadable, healed, set_aside, refused].iter().all(|count| *count > 0);
    assert!(rounds < SEEDS || is_busy, "{flips} {unreadable} {healed} {set_aside} {refused}");
}

impl<'a> Run<'a> {
    fn new(seed: u64, tally: &'a mut Tally) -> Self {
        let world = World::new(seed, Faults::NONE);
        let client = world.client();
        domain::create(&client, MEMBERS);
        let policies = Policy::ALL;
        let start = |number| {
            let policy = policies[(seed as usize + number as usize) % policies.len()];
            // Some compress, and share with others that do or do not.
            let compression = ((seed + u64::from(number)) % 2 == 1).then_some(Compression::Lz4);
            member::format_as(&client, MemberId(number), (policy, 400), compression);
            let member = Member::start(&world.client(), MemberId(number), false).unwrap();
            for (name, mode) in VOLUMES {
                member.pool.create_volume(name, VOLUME_BLOCKS * BLOCK as u64, mode).unwrap();
            }
            Some(member)
        };
        let members = (1..=MEMBERS).map(start).collect();
        let (expected, endangered) = (BTreeMap::new(), BTreeMap::new());
        Self { world, client, members, expected, endangered, tally }
    }

    fn run(mut self) {
        (0..STEPS).for_each(|_| self.step());
        for round in 0..4 {
            // Members try again after a while what was refused, without being opened anew.
            if round == 1 {
                self.world.sleep_until_ns(self.client.clock().now_ns() + RETRY_INTERVAL_NS);
            }
            for number in 0..MEMBERS as usize {
                scrub(self.member(number));
                self.member(number).pool.find(&Silent, &StopFlag::new()).unwrap();
                // The domain learns of what is durable.
                self.member(number).pool.flush().unwrap();
                self.member(number).drain().unwrap();
            }
        }
        self.read_everything();
        assert!(self.endangered.is_empty(), "not healed: {:?}", self.endangered);
        assert!(self.members.iter().flatten().all(|member| scrub(member).is_clean()));
        for number in 0..MEMBERS as usize {
            self.note(number);
        }
        let all: Vec<&Member> = self.members.iter().flatten().collect();
        all.iter().for_each(|member| member.drain().unwrap());
        expect_clean(&self.client, &all);
    }

    fn member(&self, number: usize) -> &Member {
        self.members[number].as_ref().unwrap()
    }

    fn note(&mut self, number: usize) {
        let figures = self.member(number).sharing.figures();
        self.tally.healed += figures.healed;
        self.tally.set_aside += figures.set_aside;
        self.tally.refused += figures.refused;
    }

    fn step(&mut self) {
        let number = self.world.draw(u64::from(MEMBERS)) as usize;
        match self.world.draw(32) {
            0..8 => self.change(number),
            8..17 => drop(self.member(number).sharing.work(&self.member(number).pool).unwrap()),
            17..22 => self.rot(number),
            22..25 => drop(self.member(number).pool.find(&Silent, &StopFlag::new()).unwrap()),
            25 => drop(scrub(self.member(number))),
            26 => self.member(number).pool.checkpoint().unwrap(),
            27 => drop(self.member(number).pool.gc(None, &Silent, &StopFlag::new()).unwrap()),
            28 => drop(self.member(number).pool.arrange(None, &Silent, &StopFlag::new()).unwrap()),
            29 => self.restart(number),
            30 => self.read_everything(),
            _ => self.read_good_copies(),
        }
    }

    fn restart(&mut self, number: usize) {
        self.note(number);
        let member = self.members[number].take().unwrap();
        self.members[number] = Some(take_over(member, &self.world));
    }

    /// Writes or trims neighbouring blocks durably.
    fn change(&mut self, number: usize) {
        let volume = self.world.draw(VOLUMES.len() as u64) as usize;
        let first = self.world.draw(VOLUME_BLOCKS);
        let device = self.member(number).pool.volume(VOLUMES[volume].0).unwrap();
        for lbn in first..(first + 1 + self.world.draw(8)).min(VOLUME_BLOCKS) {
            let place = (number, volume, lbn);
            let old = self.expected.get(&place);
            if old.is_some_and(|old| self.endangered.contains_key(old)) {
                continue;
            }
            let id = self.world.draw(CONTENTS);
            match id {
                0 => trim(&device, lbn, 1).unwrap(),
                _ => write(&device, lbn, &content(id)).unwrap(),
            }
            self.expected.insert(place, id);
        }
        flush(&device).unwrap();
    }

    /// Flips a byte of a home's block, if another member has the content in a block of its own.
    fn rot(&mut self, home: usize) {
        let all: Vec<&Member> = self.members.iter().flatten().collect();
        let claims = ledgers(&self.client, &all);
        let own: Vec<_> = claims[home].blocks().iter().filter(own_block).collect();
        if own.is_empty() {
            return;
        }
        let block = own[self.world.draw(own.len() as u64) as usize];
        let bytes = stored(&self.client, self.member(home).id(), block.pbn);
        let id = bytes.and_then(|bytes| id_of(&bytes)).filter(|id| *id != 0);
        let Some(id) = id else { return };
        let is_shared = |number: usize| {
            let blocks = claims[number].blocks();
            blocks.iter().any(|one| one.fingerprint == block.fingerprint)
        };
        let has = |number: usize| {
            self.expected.iter().any(|(place, found)| place.0 == number && *found == id)
        };
        let others = (0..MEMBERS as usize).filter(|number| *number != home);
        // A member whose ledger does not know the content has not shared it yet.
        let good: BTreeSet<usize> =
            others.filter(|number| has(*number) && !is_shared(*number)).collect();
        if good.is_empty() || self.endangered.contains_key(&id) {
            return;
        }
        let member = self.member(home);
        let (block, bytes) = match member.pool.stat().unwrap().compression {
            Compression::Off => (block.pbn, 0..BLOCK as u64),
            _ => packed_bytes(&self.client, member.id(), block.pbn),
        };
        let at = bytes.start + self.world.draw(bytes.end - bytes.start);
        flip_byte(&self.client, member.id(), (block, at), 1 << self.world.draw(8));
        self.endangered.insert(id, good);
        self.tally.flips += 1;
    }

    /// Reads a block. Only a content whose home is damaged may be unreadable.
    fn is_readable(&self, (number, volume, lbn): Place, id: u64) -> bool {
        let device = self.member(number).pool.volume(VOLUMES[volume].0).unwrap();
        match read(&device, lbn) {
            Ok(found) => assert_eq!(id_of(&found), Some(id), "{:?}", (number, volume, lbn)),
            Err(DeviceError::Damaged { .. }) if self.endangered.contains_key(&id) => return false,
            Err(error) => panic!("member {number}, volume {volume}, block {lbn}: {error}"),
        }
        true
    }

    /// The members that had a good copy have it still.
    fn read_good_copies(&self) {
        for (place, id) in &self.expected {
            let good = self.endangered.get(id).is_some_and(|good| good.contains(&place.0));
            assert!(!good || self.is_readable(*place, *id), "{place:?} of {id} was given up");
        }
    }

    /// Reads all blocks of all members. A content that all can read again may rot again.
    fn read_everything(&mut self) {
        self.read_good_copies();
        let lost: BTreeSet<u64> = self
            .expected
            .iter()
            .filter(|(place, id)| !self.is_readable(**place, **id))
            .map(|(_, id)| *id)
            .collect();
        self.tally.unreadable += lost.len() as u64;
        let healed: Vec<u64> =
            self.endangered.keys().copied().filter(|id| self.is_whole(*id)).collect();
        self.endangered.retain(|id, _| lost.contains(id) || !healed.contains(id));
    }

    /// Returns whether all members that share a content in a block of their own have it there.
    fn is_whole(&self, id: u64) -> bool {
        let all: Vec<&Member> = self.members.iter().flatten().collect();
        let fingerprint = all[0].pool.fingerprinter().of(&content(id));
        all.iter().zip(ledgers(&self.client, &all)).all(|(member, claims)| {
            let of_content = |block: &&KeptBlock| block.fingerprint == fingerprint;
            let mut own = claims.blocks().iter().filter(own_block).filter(of_content);
            own.all(|one| stored(&self.client, member.id(), one.pbn) == Some(content(id)))
        })
    }
}

/// A member refers to a block of its own, which others may share.
fn own_block(block: &&KeptBlock) -> bool {
    block.borrowed.is_none()
}
