//! Changes of the metadata: what a change does to maps, reference counts, index and freed blocks.

use crate::guard::Guard;
use crate::numbers::{Cell, Content, Fingerprint, LBNS, Mode, Pbn};
use crate::protocol::Step;
use crate::state::{Entry, Stored, Volume};

/// A change of the metadata, as the journal has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// An LBN gets a fresh block.
    Store {
        /// The LBN that was written.
        cell: Cell,
        /// The block, to which nothing referred before.
        pbn: Pbn,
        /// The content of the block.
        content: Content,
        /// Its fingerprint, if it is known.
        fingerprint: Option<Fingerprint>,
    },
    /// An LBN gets a block that has other references.
    Share {
        /// The LBN that gets the block.
        cell: Cell,
        /// The block, to which other LBNs refer.
        pbn: Pbn,
        /// The content that must be there.
        content: Content,
    },
    /// An LBN loses its block.
    Unmap {
        /// The LBN that is unmapped.
        cell: Cell,
    },
    /// A block gets its fingerprint.
    Identify {
        /// The block that was examined.
        pbn: Pbn,
        /// The fingerprint of its content.
        fingerprint: Fingerprint,
    },
    /// An empty volume is made.
    Create {
        /// The number of the new volume.
        volume: u8,
        /// The mode of deduplication it begins with.
        mode: Mode,
    },
    /// A volume is removed with its map.
    Remove {
        /// The number of the volume.
        volume: u8,
    },
    /// A volume is copied at once.
    Clone {
        /// The volume that is copied.
        from: u8,
        /// The number of the new volume.
        to: u8,
    },
    /// A volume is hidden from clients, before it is removed.
    Hide {
        /// The number of the volume.
        volume: u8,
    },
    /// A volume gets another deduplication.
    SetMode {
        /// The number of the volume.
        volume: u8,
        /// The new mode of deduplication.
        mode: Mode,
    },
}

/// The same LBN in another volume.
pub(crate) const fn twin(cell: Cell, volume: u8) -> Cell {
    Cell(volume * LBNS as u8 + cell.0 % LBNS as u8)
}

impl Step<'_> {
    /// Makes a change in memory and in the open commit.
    pub(crate) fn apply(&mut self, change: Change) {
        self.made.push(change);
        let log = &mut self.state.log;
        log.is_changed = true;
        match change {
            Change::Store { cell, pbn, content, fingerprint } => {
                log.open_stores = true;
                self.state.live.fingerprints[pbn.at()] = None;
                self.identify(pbn, fingerprint);
                self.add_reference(pbn);
                self.set_place(cell, Some(Entry { pbn, checksum: content }));
            }
            Change::Share { cell, pbn, content } => {
                self.add_reference(pbn);
                self.set_place(cell, Some(Entry { pbn, checksum: content }));
            }
            Change::Unmap { cell } => self.set_place(cell, None),
            Change::Identify { pbn, fingerprint } => self.identify(pbn, Some(fingerprint)),
            Change::Create { volume, mode } => self.set_volume(volume, Volume::Shown(mode)),
            Change::Remove { volume } => {
                Cell::of(volume.into()).for_each(|cell| self.set_place(cell, None));
                self.set_volume(volume, Volume::Absent);
            }
            Change::Clone { from, to } => {
                let mode = self.mode_of(from);
                self.set_volume(to, Volume::Shown(mode));
                Cell::of(from.into()).for_each(|cell| self.copy_place(cell, to));
            }
            Change::Hide { volume } => self.set_volume(volume, Volume::Hidden),
            Change::SetMode { volume, mode } => self.set_volume(volume, Volume::Shown(mode)),
        }
    }

    const fn mode_of(&self, volume: u8) -> Mode {
        match self.state.live.volumes[volume as usize] {
            Volume::Shown(mode) => mode,
            Volume::Hidden | Volume::Absent => Mode::Off,
        }
    }

    const fn set_volume(&mut self, volume: u8, to: Volume) {
        self.state.live.volumes[volume as usize] = to;
    }

    fn copy_place(&mut self, cell: Cell, to: u8) {
        if let Some(entry) = self.state.live.map[cell.at()] {
            self.add_reference(entry.pbn);
            self.set_place(twin(cell, to), Some(entry));
        }
    }

    fn identify(&mut self, pbn: Pbn, fingerprint: Option<Fingerprint>) {
        self.state.live.fingerprints[pbn.at()] = fingerprint;
        if let Some(fingerprint) = fingerprint {
            self.state.index[fingerprint.at()] = Some(pbn);
        }
    }

    const fn add_reference(&mut self, pbn: Pbn) {
        self.state.counts[pbn.at()] += 1;
    }

    /// Sets a map entry, and drops the reference of the one before.
    fn set_place(&mut self, cell: Cell, place: Option<Entry>) {
        let before = std::mem::replace(&mut self.state.live.map[cell.at()], place);
        let Some(Entry { pbn, .. }) = before else { return };
        let count = &mut self.state.counts[pbn.at()];
        *count = count.saturating_sub(1);
        if *count > 0 {
            return;
        }
        let fingerprint = self.state.live.fingerprints[pbn.at()].take();
        if let Some(fingerprint) = fingerprint
            && self.has(Guard::IndexForgetsFreed)
            && self.state.index[fingerprint.at()] == Some(pbn)
        {
            self.state.index[fingerprint.at()] = None;
        }
        if self.has(Guard::FreedWaitsForCommit) {
            self.state.space.open.add(pbn.0);
        } else {
            self.retire(pbn);
        }
    }

    /// Frees a block that no durable state refers to, as soon as no pin waits for it.
    pub(crate) fn retire(&mut self, pbn: Pbn) {
        let pins = self.state.pins();
        if pins.is_empty() || !self.has(Guard::FreedWaitsForPins) {
            self.free(pbn);
        } else {
            self.state.space.retired[pbn.at()] = pins;
        }
    }

    /// Makes a block free. Its content does not matter any more, unless a guard is out.
    pub(crate) fn free(&mut self, pbn: Pbn) {
        self.state.space.free.add(pbn.0);
        if self.model.is_whole() {
            self.state.store[pbn.at()] = Stored::NOTHING;
        }
    }

    /// Ends a pin, and frees the blocks that waited for it alone.
    pub(crate) fn unpin(&mut self, pin: u8) {
        for number in 0..self.model.bounds.blocks {
            let pins = &mut self.state.space.retired[usize::from(number)];
            if pins.has(pin) {
                pins.remove(pin);
                if pins.is_empty() {
                    self.free(Pbn(number));
                }
            }
        }
    }

    /// Notes an acknowledged content of an LBN.
    pub(crate) fn acknowledge(&mut self, cell: Cell, content: Content) {
        let history = &mut self.state.history[cell.at()];
        history.last = content;
        history.allowed.add(content.0);
        history.since.add(content.0);
    }
}
