//! Commits and contents of the engine in the words of the model.

use gemelo_base::random::mix_pair;
use gemelo_format::{
    self as format, COMMIT_HEADER_BYTES, Checksum, CommitHeader, DedupMode, Fingerprinter,
    PoolSeed, RingPiece, Superblock, VolumeId,
};
use gemelo_model::{Cell, Change, Content, Fingerprint, Mode, Pbn};
use std::collections::HashMap;

/// Bytes of a block of these pools.
pub const BLOCK: usize = 512;
/// The names of the volumes of the model.
pub const NAMES: [&str; 2] = ["a", "b"];

/// Makes the bytes of a content.
pub fn bytes_of(content: Content) -> Vec<u8> {
    if content == Content::ZEROS {
        return vec![0; BLOCK];
    }
    let words = (0..BLOCK as u64 / 8).map(|word| mix_pair(content.0.into(), word));
    words.flat_map(u64::to_le_bytes).collect()
}

/// The content that has these bytes.
pub fn content_of(bytes: &[u8]) -> Content {
    let contents = (0..=3).map(Content);
    contents.into_iter().find(|content| bytes_of(*content) == bytes).expect("a known content")
}

pub const fn mode_of(mode: DedupMode) -> Mode {
    match mode {
        DedupMode::Off => Mode::Off,
        DedupMode::Inline => Mode::Inline,
        DedupMode::Offline => Mode::Offline,
    }
}

/// Translates what a pool writes.
pub struct Decoder {
    superblock: Superblock,
    seed: PoolSeed,
    checksums: HashMap<Checksum, Content>,
    fingerprints: HashMap<format::Fingerprint, Fingerprint>,
    volumes: HashMap<VolumeId, u8>,
}

impl Decoder {
    pub fn new(superblock: Superblock) -> Self {
        let seed = PoolSeed::of(&superblock);
        let fingerprinter = Fingerprinter::new(superblock.fingerprint, superblock.key);
        let contents = || (1..=3).map(|number| (Content(number), bytes_of(Content(number))));
        let checksums = contents().map(|(content, bytes)| (seed.of_content(&bytes), content));
        let fingerprints = contents()
            .map(|(content, bytes)| (fingerprinter.of(&bytes), Fingerprint(content.0 - 1)));
        Self {
            checksums: checksums.collect(),
            fingerprints: fingerprints.collect(),
            // The first two volumes have the ids 1 and 2.
            volumes: HashMap::from([(VolumeId(1), 0), (VolumeId(2), 1)]),
            superblock,
            seed,
        }
    }

    /// The changes of the commit that begins at an offset of the metadata disk, if one does.
    pub fn commit(&mut self, offset: u64, bytes: &[u8]) -> Option<Vec<Change>> {
        let regions = self.superblock.regions();
        let ring = regions.ring(0, regions.ring_bytes() as usize);
        let has = |piece: RingPiece| {
            (piece.offsets[0]..piece.offsets[0] + piece.bytes.len() as u64).contains(&offset)
        };
        if !ring.into_iter().any(has) {
            return None;
        }
        let header = CommitHeader::decode(bytes, self.seed)?;
        let payload = bytes.get(COMMIT_HEADER_BYTES..)?.get(..header.payload_bytes as usize)?;
        let changes = format::Change::decode_all(payload, |pbn| self.superblock.pbn(pbn)).ok()?;
        Some(changes.into_iter().map(|change| self.change(change)).collect())
    }

    fn change(&mut self, change: format::Change) -> Change {
        match change {
            format::Change::Store { volume, lbn, pbn, fingerprint, checksum } => Change::Store {
                cell: self.cell(volume, lbn),
                pbn: block(pbn),
                content: self.checksums[&checksum],
                fingerprint: self.fingerprints.get(&fingerprint).copied(),
            },
            format::Change::Share { volume, lbn, pbn, checksum } => Change::Share {
                cell: self.cell(volume, lbn),
                pbn: block(pbn),
                content: self.checksums[&checksum],
            },
            format::Change::Unmap { volume, first, count: 1 } => {
                Change::Unmap { cell: self.cell(volume, first) }
            }
            format::Change::Identify { pbn, fingerprint } => {
                Change::Identify { pbn: block(pbn), fingerprint: self.fingerprints[&fingerprint] }
            }
            format::Change::Remove { volume } => Change::Remove { volume: self.volumes[&volume] },
            format::Change::Clone { source, volume, name, .. } => {
                let to = NAMES.iter().position(|known| *known == name).unwrap() as u8;
                self.volumes.insert(volume, to);
                Change::Clone { from: self.volumes[&source], to }
            }
            format::Change::SetMode { volume, mode } => {
                Change::SetMode { volume: self.volumes[&volume], mode: mode_of(mode) }
            }
            other => panic!("the model has no {other:?}"),
        }
    }

    fn cell(&self, volume: VolumeId, lbn: format::Lbn) -> Cell {
        Cell(self.volumes[&volume] * 2 + lbn.0 as u8)
    }

    /// The blocks of the model in a range of bytes of the data disk.
    pub fn blocks(&self, offset: u64, length: u64) -> impl Iterator<Item = u8> {
        let first = offset / BLOCK as u64;
        (first..first + length / BLOCK as u64).map(|number| number as u8 - 1)
    }
}

/// Block 0 of the engine is its label, and the first content is in block 1.
fn block(pbn: format::Pbn) -> Pbn {
    Pbn(pbn.number() as u8 - 1)
}
