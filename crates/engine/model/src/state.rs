//! The state of the model: what is in memory, and what is on the disks.

use crate::action::Action;
use crate::bounds::{Bounds, Budget};
use crate::numbers::{
    CELLS, CLIENTS, CONTENTS, Cell, Content, FINDER, Fingerprint, LBNS, Mode, PBNS, Pbn, VOLUMES,
};
use crate::set::Set;
use std::iter;

/// A volume in the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Volume {
    Absent,
    /// A copy that is being made.
    Hidden,
    Shown(Mode),
}

/// A map entry: the block, and the content that must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Entry {
    pub(crate) pbn: Pbn,
    pub(crate) checksum: Content,
}

/// The metadata that are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Metadata {
    pub(crate) map: [Option<Entry>; CELLS],
    /// The fingerprint of each block that has a reference.
    pub(crate) fingerprints: [Option<Fingerprint>; PBNS],
    pub(crate) volumes: [Volume; VOLUMES],
}

impl Metadata {
    /// The blocks that the maps refer to.
    pub(crate) fn referenced(&self) -> Set {
        let mut found = Set::EMPTY;
        self.map.iter().flatten().for_each(|entry| found.add(entry.pbn.0));
        found
    }

    /// The content that a client reads at an LBN, if each content is where its entry leads.
    pub(crate) fn content(&self, cell: Cell) -> Content {
        match self.volumes[cell.volume()] {
            Volume::Shown(_) => self.map[cell.at()].map_or(Content::ZEROS, |entry| entry.checksum),
            Volume::Absent | Volume::Hidden => Content::ABSENT,
        }
    }
}

/// A block of the data store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    /// The content that a read gets. Zeros stand for bytes of no client.
    pub(crate) content: Content,
    /// The contents, one of which a power cut leaves.
    pub(crate) medium: Set,
}

impl Stored {
    pub(crate) const NOTHING: Self = Self { content: Content::ZEROS, medium: Set::of(0) };
}

/// The place of each block that has no reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Space {
    pub(crate) free: Set,
    /// Freed by changes of the open commit.
    pub(crate) open: Set,
    /// Freed by changes of the closed commit.
    pub(crate) closed: Set,
    /// Freed by durable changes, with the pins that wait for them.
    pub(crate) retired: [Set; PBNS],
    /// Blocks whose space is being given back.
    pub(crate) discarding: Set,
}

/// The progress of the closed commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// There is no closed commit.
    Idle,
    Closed,
    /// The contents are being synced; these blocks are covered.
    Syncing(Set),
    /// The contents are durable.
    Synced,
    /// The journal has no room. Other threads go on until the state is frozen for a root.
    NoRoom,
    /// The commit is in the journal and not synced.
    Written,
    /// A root with the commit is written and not synced.
    RootWritten,
}

/// The checkpoint beside the commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Checkpoint {
    None,
    /// The closed commit is the last one that the checkpoint will contain. If the journal has no
    /// room for it, the root makes it durable.
    Frozen,
    /// The pages are being written. The number of commits after the freeze.
    Pages(u8),
    /// The root is written and not synced.
    Root(u8),
}

/// Commits and checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Log {
    pub(crate) durable: Metadata,
    pub(crate) closed: Metadata,
    pub(crate) phase: Phase,
    /// The open and the closed commit have references to new contents.
    pub(crate) open_stores: bool,
    pub(crate) closed_stores: bool,
    /// A change was made since the last commit was closed.
    pub(crate) is_changed: bool,
    /// Commits in the journal since the last root.
    pub(crate) used: u8,
    pub(crate) checkpoint: Checkpoint,
    /// States that a crash may go back to because a guard is out.
    pub(crate) ghosts: Ghosts,
}

/// Older states that a power cut may still bring back. None with all guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ghosts {
    /// The durable state before a commit that an opening has read and not written again.
    pub(crate) before_opening: Option<Metadata>,
    /// The state of the newest durable root.
    pub(crate) root: Option<Metadata>,
    /// Commits that the durable root still needs although the journal gave them up.
    pub(crate) given_up: u8,
    /// A commit was written over one of those.
    pub(crate) is_torn: bool,
}

/// The decision for a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Plan {
    Share(Pbn),
    /// A block of its own, once it has one.
    Fresh {
        fingerprint: Option<Fingerprint>,
        was_known: bool,
        pbn: Option<Pbn>,
    },
}

/// A client and its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Client {
    Idle,
    /// Another write has come in between; the next pass begins.
    Overtaken {
        cell: Cell,
        content: Content,
    },
    Planned {
        cell: Cell,
        content: Content,
        plan: Plan,
    },
    Reading {
        entry: Option<Entry>,
        volume: u8,
    },
}

/// A block that the finder has listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Candidate {
    Done,
    Listed { own: Entry, round: u8 },
    Examined { own: Entry, round: u8, fingerprint: Fingerprint, entry: Option<Pbn>, is_equal: bool },
}

/// The fingerprint remembered of a block, so that the finder need not read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Remembered {
    Nothing,
    /// The write of this content to the block has a ticket: its fingerprint may be taken.
    Ticket(Content),
    Fingerprint(Fingerprint),
}

/// A fingerprint that is being taken of a content that was written to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Taking {
    pub(crate) pbn: Pbn,
    pub(crate) content: Content,
    /// The block was not written again since.
    pub(crate) has_ticket: bool,
}

/// The finder in a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Search {
    pub(crate) volume: u8,
    pub(crate) candidates: [Candidate; LBNS],
}

/// The knowledge of the clients about an LBN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct History {
    /// The content that was acknowledged last.
    pub(crate) last: Content,
    /// The contents that may be there after a power cut.
    pub(crate) allowed: Set,
    /// The contents written since the last commit was closed.
    pub(crate) since: Set,
}

impl History {
    pub(crate) const fn of(content: Content) -> Self {
        Self { last: content, allowed: Set::of(content.0), since: Set::EMPTY }
    }
}

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub(crate) live: Metadata,
    pub(crate) counts: [u8; PBNS],
    pub(crate) index: [Option<Pbn>; CONTENTS],
    pub(crate) store: [Stored; PBNS],
    pub(crate) space: Space,
    pub(crate) log: Log,
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) finder: Option<Search>,
    pub(crate) remembered: [Remembered; PBNS],
    pub(crate) taking: Option<Taking>,
    /// LBNs that are marked for the finder.
    pub(crate) dirty: Set,
    pub(crate) history: [History; CELLS],
    /// Contents that were written so far: 1 up to this number. Contents are alike, so the next new
    /// one is always the next number.
    pub(crate) contents: u8,
    pub(crate) budget: Budget,
    /// A read got another content than the map promised.
    pub(crate) is_misread: bool,
}

impl State {
    pub(crate) fn first(bounds: &Bounds) -> Self {
        let volumes = bounds.volumes.map(|mode| mode.map_or(Volume::Absent, Volume::Shown));
        let live = Metadata { map: [None; CELLS], fingerprints: [None; PBNS], volumes };
        let mut history = [History::of(Content::ABSENT); CELLS];
        for cell in Cell::all() {
            history[cell.at()] = History::of(live.content(cell));
        }
        Self {
            live,
            counts: [0; PBNS],
            index: [None; CONTENTS],
            store: [Stored::NOTHING; PBNS],
            space: Space {
                free: Set::below(bounds.blocks),
                open: Set::EMPTY,
                closed: Set::EMPTY,
                retired: [Set::EMPTY; PBNS],
                discarding: Set::EMPTY,
            },
            log: Log {
                durable: live,
                closed: live,
                phase: Phase::Idle,
                open_stores: false,
                closed_stores: false,
                is_changed: false,
                used: 0,
                checkpoint: Checkpoint::None,
                ghosts: Ghosts { before_opening: None, root: None, given_up: 0, is_torn: false },
            },
            clients: [Client::Idle; CLIENTS],
            finder: None,
            remembered: [Remembered::Nothing; PBNS],
            taking: None,
            dirty: Set::EMPTY,
            history,
            contents: 0,
            budget: bounds.budget,
            is_misread: false,
        }
    }

    /// The mode of a volume that clients see.
    pub(crate) const fn mode(&self, volume: usize) -> Option<Mode> {
        match self.live.volumes[volume] {
            Volume::Shown(mode) => Some(mode),
            Volume::Absent | Volume::Hidden => None,
        }
    }

    /// The volumes with LBNs that are marked for the finder.
    pub(crate) fn marked_volumes(&self) -> impl Iterator<Item = u8> {
        let is_marked = |volume: &u8| self.marked_in((*volume).into()).next().is_some();
        (0..VOLUMES as u8).filter(is_marked)
    }

    /// The LBNs of a volume that the finder has to examine.
    pub(crate) fn marked_in(&self, volume: usize) -> impl Iterator<Item = Cell> {
        Cell::of(volume).filter(|cell| self.dirty.has(cell.0))
    }

    /// The searches that the finder can begin.
    pub(crate) fn searches(&self) -> impl Iterator<Item = Action> {
        let ones = |volume: u8| {
            let marked: Vec<Cell> = self.marked_in(volume.into()).collect();
            let has_others = marked.len() > 1;
            marked.into_iter().filter(move |_| has_others).map(Action::SearchOne)
        };
        let volumes = self.marked_volumes();
        volumes.flat_map(move |volume| iter::once(Action::Search(volume)).chain(ones(volume)))
    }

    /// The block that a client has taken and that nothing refers to yet.
    pub(crate) fn taken(&self) -> Set {
        let mut taken = Set::EMPTY;
        for client in self.clients {
            if let Client::Planned { plan: Plan::Fresh { pbn: Some(pbn), .. }, .. } = client {
                taken.add(pbn.0);
            }
        }
        taken
    }

    /// The clients and the finder that hold a pin.
    pub(crate) fn pins(&self) -> Set {
        let mut pins = Set::EMPTY;
        for (number, client) in (0..).zip(self.clients) {
            if matches!(client, Client::Planned { .. } | Client::Reading { .. }) {
                pins.add(number);
            }
        }
        if self.finder.is_some() {
            pins.add(FINDER);
        }
        pins
    }

    /// Returns whether a request or the finder is in a volume.
    pub(crate) fn is_entered(&self, volume: usize) -> bool {
        let by_client = self.clients.iter().any(|client| match client {
            Client::Idle => false,
            Client::Overtaken { cell, .. } | Client::Planned { cell, .. } => {
                cell.volume() == volume
            }
            Client::Reading { volume: read, .. } => usize::from(*read) == volume,
        });
        by_client || self.finder.is_some_and(|search| usize::from(search.volume) == volume)
    }
}
