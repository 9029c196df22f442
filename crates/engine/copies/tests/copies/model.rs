//! Random writes, snapshots, clones, removals and copies in two pools, beside a model of both.

use super::common::repeat::Repeat;
use super::common::simulated::Simulation;
use super::common::{
    BLOCK, Kind, content, first_seed, kinds, open, options_of, rounds, trim, tuning, write,
};
use super::{Ids, assert_holds, check_from_outside, received, sent_at};
use gemelo_base::StopFlag;
use gemelo_base::random::Random;
use gemelo_copies::ReceiveError;
use gemelo_format::{DedupMode, SnapshotId};
use gemelo_volume::{DifferenceKind, Pool, VolumeError};
use std::collections::BTreeMap;

const POOL_BLOCKS: u64 = 4000;
const MAX_BLOCKS: u64 = 700;
const MAX_VOLUMES: usize = 8;
const MODES: [DedupMode; 3] = [DedupMode::Off, DedupMode::Inline, DedupMode::Offline];
const STEPS: u64 = 150;
const ROUNDS: u64 = 24;

struct ModelVolume {
    ids: Ids,
    /// The identity of a snapshot.
    identity: Option<SnapshotId>,
}

/// A pool and its model.
struct Side {
    simulation: Simulation,
    pool: Pool,
    volumes: BTreeMap<String, ModelVolume>,
    next_name: u64,
}

impl Side {
    fn new(seed: u64, kind: Kind) -> Self {
        let simulation = Simulation::new(seed);
        Pool::format(&simulation.disks(), &options_of(kind, POOL_BLOCKS)).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        Self { simulation, pool, volumes: BTreeMap::new(), next_name: 0 }
    }

    fn new_name(&mut self) -> String {
        self.next_name += 1;
        format!("v{}", self.next_name)
    }

    fn any(&self, random: &mut Random, of: impl Fn(&ModelVolume) -> bool) -> Option<String> {
        let names: Vec<&String> =
            self.volumes.iter().filter(|(_, volume)| of(volume)).map(|(name, _)| name).collect();
        (!names.is_empty()).then(|| names[random.below(names.len() as u64) as usize].clone())
    }

    fn change(&mut self, random: &mut Random) {
        let is_live = |volume: &ModelVolume| volume.identity.is_none();
        match random.below(10) {
            0 if self.volumes.len() < MAX_VOLUMES => {
                let (name, blocks) = (self.new_name(), 1 + random.below(MAX_BLOCKS));
                let mode = MODES[random.below(3) as usize];
                self.pool.create_volume(&name, blocks * BLOCK as u64, mode).unwrap();
                let ids = vec![0; blocks as usize];
                self.volumes.insert(name, ModelVolume { ids, identity: None });
            }
            1 | 2 if self.volumes.len() < MAX_VOLUMES => self.copy(random),
            3 if self.volumes.len() > 2 => {
                let name = self.any(random, |_| true).unwrap();
                self.pool.remove_volume(&name).unwrap();
                self.volumes.remove(&name);
            }
            4 => {
                let Some(name) = self.any(random, is_live) else { return };
                let blocks = 1 + random.below(MAX_BLOCKS);
                self.pool.resize_volume(&name, blocks * BLOCK as u64).unwrap();
                self.volumes.get_mut(&name).unwrap().ids.resize(blocks as usize, 0);
            }
            5 => self.pool.checkpoint().unwrap(),
            _ => {
                if let Some(name) = self.any(random, is_live) {
                    self.write(&name, random);
                }
            }
        }
    }

    /// Makes a snapshot or a clone.
    fn copy(&mut self, random: &mut Random) {
        let Some(from) = self.any(random, |_| true) else { return };
        let name = self.new_name();
        let ids = self.volumes[&from].ids.clone();
        let identity = if random.below(3) > 0 {
            self.pool.snapshot_volume(&from, &name).unwrap();
            Some(self.pool.outgoing(&name, None).unwrap().identity())
        } else {
            self.pool.clone_volume(&from, &name).unwrap();
            None
        };
        self.volumes.insert(name, ModelVolume { ids, identity });
    }

    fn write(&mut self, name: &str, random: &mut Random) {
        let ids = &mut self.volumes.get_mut(name).unwrap().ids;
        let volume = self.pool.volume(name).unwrap();
        for _ in 0..1 + random.below(20) {
            let first = random.below(ids.len() as u64);
            let count = (1 + random.below(30)).min(ids.len() as u64 - first);
            let (offset, length) = (first * BLOCK as u64, count * BLOCK as u64);
            let range = &mut ids[first as usize..(first + count) as usize];
            if random.below(4) == 0 {
                trim(&volume, offset, length).unwrap();
                range.fill(0);
                continue;
            }
            range.iter_mut().for_each(|id| *id = random.below(100));
            let data: Vec<u8> = range.iter().flat_map(|id| content(*id, BLOCK)).collect();
            write(&volume, offset, &data).unwrap();
        }
    }

    /// Compares two volumes: what is not listed is the same, and kinds are right.
    fn compare(&self, random: &mut Random) {
        let (Some(own), Some(since)) = (self.any(random, |_| true), self.any(random, |_| true))
        else {
            return;
        };
        let found = self
            .pool
            .differing_ranges(&own, &since, 0..u64::MAX, (usize::MAX, &StopFlag::new()))
            .unwrap();
        let (now, before) = (&self.volumes[&own].ids, &self.volumes[&since].ids);
        assert_eq!(found.end_bytes, (now.len() * BLOCK) as u64);
        let mut listed = vec![None; now.len()];
        for range in found.ranges {
            let first = range.offset_bytes as usize / BLOCK;
            let end = first + range.length_bytes as usize / BLOCK;
            listed[first..end].fill(Some(range.kind));
        }
        for (block, (kind, id)) in listed.into_iter().zip(now).enumerate() {
            let before = before.get(block).copied().unwrap_or(0);
            match kind {
                None => assert_eq!(*id, before, "block {block} of {own} since {since}"),
                Some(DifferenceKind::Zero) => assert!(*id == 0 && before != 0),
                Some(DifferenceKind::New) => assert!(*id != 0 && before == 0),
                Some(DifferenceKind::Changed) => assert!(*id != 0 && before != 0),
            }
        }
    }

    fn has_copy(&self, identity: SnapshotId) -> bool {
        self.volumes.values().any(|volume| volume.identity == Some(identity))
    }

    fn verify(&self) {
        let names: Vec<String> = self.volumes.keys().cloned().collect();
        let mut found = self.pool.volume_names();
        found.sort();
        assert_eq!(found, names);
        for (name, volume) in &self.volumes {
            assert_holds(&self.pool, name, &volume.ids);
        }
        assert_eq!(self.pool.prove(5).unwrap(), Vec::<String>::new());
        let stored = |volume: &ModelVolume| volume.ids.iter().filter(|id| **id != 0).count();
        let stored: usize = self.volumes.values().map(stored).sum();
        let logical = self.pool.stat().unwrap().logical_blocks;
        assert_eq!(logical, stored as u64, "what was given up is gone");
    }
}

/// Sends a snapshot from one pool to the other.
fn copy(from: &Side, to: &mut Side, random: &mut Random, counts: &mut [u64; 4]) {
    let is_snapshot = |volume: &ModelVolume| volume.identity.is_some();
    let Some(name) = from.any(random, is_snapshot) else { return };
    let since = if random.below(3) > 0 { from.any(random, is_snapshot) } else { None };
    let identity = from.volumes[&name].identity.unwrap();
    let base = since.as_ref().map(|since| from.volumes[since].identity.unwrap());
    let level = [None, Some(1), Some(6)][random.below(3) as usize];
    let mut stream = sent_at(&from.pool, &name, since.as_deref(), level);
    let is_damaged = random.below(4) == 0;
    if is_damaged {
        damage(&mut stream, random);
    }
    let new_name =
        if random.below(10) == 0 { to.any(random, |_| true) } else { Some(to.new_name()) };
    let Some(new_name) = new_name else { return };
    let outcome = received(&to.pool, &new_name, &stream);
    match outcome {
        Ok(_) => {
            assert!(!is_damaged, "a damaged stream was received");
            assert!(!to.has_copy(identity) && base.is_none_or(|base| to.has_copy(base)));
            counts[usize::from(base.is_some())] += 1;
            assert_eq!(to.pool.outgoing(&new_name, None).unwrap().identity(), identity);
            let ids = from.volumes[&name].ids.clone();
            to.volumes.insert(new_name, ModelVolume { ids, identity: Some(identity) });
        }
        Err(_) if is_damaged => counts[2] += 1,
        Err(ReceiveError::Pool(VolumeError::ReceivedBefore { .. })) => {
            assert!(to.has_copy(identity));
        }
        Err(ReceiveError::Pool(VolumeError::NoBase { .. })) => {
            counts[3] += 1;
            assert!(!to.has_copy(base.unwrap()));
        }
        Err(ReceiveError::Pool(VolumeError::VolumeExists { .. })) => {
            assert!(to.volumes.contains_key(&new_name));
        }
        Err(error) => panic!("{error}"),
    }
    to.verify();
}

/// Cuts a stream off, changes a byte, leaves a part out, or has it twice.
fn damage(stream: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(stream.len() as u64) as usize;
    let end = at + 1 + random.below((stream.len() - at) as u64) as usize;
    match random.below(4) {
        0 => stream.truncate(at),
        1 => stream[at] ^= 1 << random.below(8),
        2 => drop(stream.drain(at..end)),
        _ => {
            let part = stream[at..end].to_vec();
            stream.splice(at..at, part);
        }
    }
}

#[test]
fn copies_hold_what_the_snapshots_hold() {
    let all: Vec<Kind> = kinds().collect();
    let (first, mut counts) = (first_seed(), [0; 4]);
    for seed in first..first + rounds(ROUNDS) {
        let _repeat = Repeat::of(seed);
        let mut random = Random::new(seed);
        let mut kind = || all[random.below(all.len() as u64) as usize];
        let mut sides = [Side::new(seed, kind()), Side::new(seed + 1, kind())];
        for _ in 0..STEPS {
            let [one, other] = &mut sides;
            let (one, other) = if random.below(2) == 0 { (one, other) } else { (other, one) };
            match random.below(6) {
                0 => copy(one, other, &mut random, &mut counts),
                1 => one.compare(&mut random),
                _ => one.change(&mut random),
            }
        }
        for side in sides {
            side.verify();
            side.pool.close().unwrap();
            check_from_outside(&side.simulation);
        }
    }
    eprintln!("{counts:?}: whole copies, increments, damaged streams, missing bases");
    assert!(counts.iter().all(|count| *count > 0) || rounds(ROUNDS) < ROUNDS, "{counts:?}");
}
