//! The bounds of a model: how much there is of everything, and how often things may happen.

use crate::numbers::Mode;

/// The sizes of the model.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Blocks of the data store, at most 7.
    pub blocks: u8,
    /// LBNs of each volume, at most 2.
    pub lbns: u8,
    /// Contents that clients write, at most 3.
    pub contents: u8,
    /// Clients, at most 2. Each has one request at a time.
    pub clients: u8,
    /// Commits that the journal has room for between two roots.
    pub journal: u8,
    /// Rounds of the finder for one block.
    pub rounds: u8,
    /// Bytes are compared before a block is shared.
    pub compares: bool,
    /// All contents have one fingerprint. Bytes have to be compared then.
    pub collisions: bool,
    /// The modes of the volumes at the beginning; `None` for a volume that does not exist.
    pub volumes: [Option<Mode>; 2],
    /// Most happenings of each kind in a run.
    pub budget: Budget,
    /// The property that the pool comes to rest is checked in each state.
    pub checks_rest: bool,
}

impl Bounds {
    /// Two volumes of one LBN each, and nothing that happens.
    pub const SMALL: Self = Self {
        blocks: 4,
        lbns: 1,
        contents: 2,
        clients: 2,
        journal: 2,
        rounds: 2,
        compares: false,
        collisions: false,
        volumes: [Some(Mode::Inline), Some(Mode::Offline)],
        budget: Budget::NONE,
        checks_rest: false,
    };
}

/// The numbers of times that things may happen in a run. The finder, commits and recovery need no
/// bound, because they return to states that were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Writes of a block.
    pub writes: u8,
    /// Trims of a block.
    pub trims: u8,
    /// Reads that begin and end apart from each other.
    pub reads: u8,
    /// Volumes that are created, copied or removed.
    pub volumes: u8,
    /// Changes of a volume's mode.
    pub modes: u8,
    /// Free blocks whose space is given back.
    pub discards: u8,
    /// Fingerprints that are taken while contents are written.
    pub takes: u8,
    /// Checkpoints that nothing requires.
    pub checkpoints: u8,
    /// Power cuts.
    pub crashes: u8,
}

impl Budget {
    /// Nothing may happen.
    pub const NONE: Self = Self {
        writes: 0,
        trims: 0,
        reads: 0,
        volumes: 0,
        modes: 0,
        discards: 0,
        takes: 0,
        checkpoints: 0,
        crashes: 0,
    };
    /// Everything may happen without end.
    pub const ENDLESS: Self = Self {
        writes: u8::MAX,
        trims: u8::MAX,
        reads: u8::MAX,
        volumes: u8::MAX,
        modes: u8::MAX,
        discards: u8::MAX,
        takes: u8::MAX,
        checkpoints: u8::MAX,
        crashes: u8::MAX,
    };
}

/// Takes one from a budget. Returns `false` if nothing is left. A budget without end stays as it
/// is.
pub(crate) const fn spend(left: &mut u8) -> bool {
    match *left {
        0 => false,
        u8::MAX => true,
        some => {
            *left = some - 1;
            true
        }
    }
}
