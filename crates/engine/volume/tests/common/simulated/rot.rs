//! Bits of the medium that flip while a pool works, and writes that land in a wrong place.

use super::super::BLOCK;
use super::super::medium::SECTOR;
use super::super::stored::destroyed;
use super::*;

/// The first bytes of the header of a data disk and of its copy.
const HEADER: &[u8] = b"GEMELODS";
/// Sectors that are looked at to find one in use.
const ROT_TRIES: u64 = 16;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotKind {
    /// A bit flips.
    Flip,
    /// A write lands in a wrong place, and its own place keeps what it had.
    Misdirect,
}

/// The rate at which a disk rots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotRate {
    pub kind: RotKind,
    pub which: usize,
    /// One call in this many that change a disk flips a bit; one write in this many of the disk is
    /// misdirected.
    pub one_in: u64,
    /// The most that goes wrong.
    pub most: u64,
}

impl World {
    /// Flips a bit of a sector in use, if chance and the rate say so.
    pub(super) fn maybe_rot(&mut self) {
        let Some(RotRate { kind: RotKind::Flip, which, one_in, most }) = self.nature.rot else {
            return;
        };
        if self.rotten.len() as u64 >= most || self.random.below(one_in) > 0 {
            return;
        }
        let Some(byte) = rot_place(&self.images[which].durable.to_vec(), &mut self.random) else {
            return;
        };
        let bit = self.random.below(8) as u8;
        self.rot(which, byte, bit);
    }

    /// The place at which a write lands: its own, unless chance and the rate say otherwise.
    pub(super) fn landing_of(&mut self, which: usize, offset: usize, bytes: usize) -> usize {
        let rate = self.nature.rot.filter(|rate| rate.kind == RotKind::Misdirect);
        let Some(RotRate { one_in, most, .. }) = rate.filter(|rate| rate.which == which) else {
            return offset;
        };
        let sectors = self.images[which].live.len().saturating_sub(bytes) / SECTOR;
        let is_due = (self.rotten.len() as u64) < most && self.random.below(one_in) == 0;
        if !is_due || sectors == 0 {
            return offset;
        }
        let at = self.clock.fetch_add(1, Ordering::SeqCst);
        self.rotten.push(Rotten { at, content: Vec::new().into() });
        self.random.below(sectors as u64) as usize * SECTOR
    }

    fn rot(&mut self, which: usize, byte: usize, bit: u8) {
        let image = &mut self.images[which];
        let media = [&image.durable, &image.live].map(Bytes::clone);
        let sector = image.rot(byte, bit);
        let rotten = [&image.durable, &image.live].map(Bytes::clone);
        if which == METADATA {
            let at = self.clock.fetch_add(1, Ordering::SeqCst);
            return self.rotten.push(Rotten { at, content: sector.into() });
        }
        for (before, after) in media.into_iter().zip(rotten) {
            self.note_destroyed([before, after], byte);
        }
        self.flips.push((byte, bit));
    }

    /// Notes what a flipped bit destroys in these bytes of the data disk, before it and after it.
    fn note_destroyed(&mut self, data: [Bytes; 2], byte: usize) {
        let metadata = self.images[METADATA].live.clone();
        let [before, after] = data.map(|data| Simulation::of_images(0, [data, metadata.clone()]));
        let at = self.clock.fetch_add(1, Ordering::SeqCst);
        for content in destroyed(&before, &after, (byte / BLOCK) as u32) {
            if !self.rotten.iter().any(|rotten| rotten.content == content) {
                self.rotten.push(Rotten { at, content });
            }
        }
    }

    /// Notes the contents that a write to the data disk has completed and that are lost all the
    /// same: of those that go on in the next block, a bit of the other part had flipped before.
    pub(super) fn note_lost_by(&mut self, written: &Range<usize>) {
        let blocks = (written.start / BLOCK).saturating_sub(1)..=written.end.div_ceil(BLOCK);
        let near = |(byte, _): &(usize, u8)| blocks.contains(&(byte / BLOCK));
        for (byte, bit) in self.flips.clone().into_iter().filter(near) {
            let after = self.images[DATA].live.clone();
            let mut before = after.clone();
            before.flip(byte, bit);
            self.note_destroyed([before, after], byte);
        }
    }
}

impl Simulation {
    /// Flips a bit of the data disk.
    pub fn rot(&self, byte: usize, bit: u8) {
        self.world.lock().unwrap().rot(DATA, byte, bit);
    }
}

/// Chooses a byte of a sector in use that is not a header. Rot in unused zeros proves little.
pub fn rot_place(image: &[u8], random: &mut Random) -> Option<usize> {
    let sectors = (image.len() / SECTOR) as u64;
    let mut tries = (0..ROT_TRIES).map(|_| random.below(sectors.max(1)) as usize * SECTOR);
    let is_used = |start: &usize| {
        let sector = image.get(*start..*start + SECTOR);
        sector.is_some_and(|bytes| !bytes.starts_with(HEADER) && bytes.iter().any(|b| *b != 0))
    };
    let start = tries.find(is_used)?;
    Some(start + random.below(SECTOR as u64) as usize)
}
