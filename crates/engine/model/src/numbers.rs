//! The numbers of blocks, contents and LBNs, and how many there are.

use std::fmt;

/// Volumes. A volume that was removed can be created again; the engine gives it another id.
pub(crate) const VOLUMES: usize = 2;
/// LBNs of a volume.
pub(crate) const LBNS: usize = 2;
/// LBNs of all volumes.
pub(crate) const CELLS: usize = VOLUMES * LBNS;
/// Most blocks of the data store.
pub(crate) const PBNS: usize = 7;
/// Most contents that clients write, zeros not counted.
pub(crate) const CONTENTS: usize = 3;
/// Clients; the finder pins like a client with the next number.
pub(crate) const CLIENTS: usize = 2;
/// The number under which the finder pins blocks.
pub(crate) const FINDER: u8 = CLIENTS as u8;

macro_rules! number {
    ($(#[$about:meta])* $name:ident, $letter:literal) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(
            /// The number, from 0 on.
            pub u8,
        );

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, concat!($letter, "{}"), self.0)
            }
        }
    };
}

number!(
    /// A physical block, from 0.
    Pbn, "p"
);
number!(
    /// A content. 0 is zeros, which is also what an unmapped LBN shows.
    Content, "c"
);
number!(
    /// The fingerprint of a content.
    Fingerprint, "f"
);
number!(
    /// An LBN of a volume: volume × 2 + LBN.
    Cell, "b"
);

impl Pbn {
    /// The place in an array.
    pub(crate) const fn at(self) -> usize {
        self.0 as usize
    }
}

impl Fingerprint {
    /// The place in an array.
    pub(crate) const fn at(self) -> usize {
        self.0 as usize
    }
}

impl Content {
    /// The content of an unmapped LBN.
    pub const ZEROS: Self = Self(0);
    /// The content of an LBN whose volume does not exist.
    pub const ABSENT: Self = Self(7);
}

impl Cell {
    /// The place in an array.
    pub(crate) const fn at(self) -> usize {
        self.0 as usize
    }

    /// The number of the volume.
    #[must_use]
    pub const fn volume(self) -> usize {
        self.0 as usize / LBNS
    }

    /// The LBNs of a volume.
    pub(crate) fn of(volume: usize) -> impl Iterator<Item = Self> {
        (volume * LBNS..(volume + 1) * LBNS).map(|at| Self(at as u8))
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..CELLS as u8).map(Self)
    }
}

/// The deduplication of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// No block is shared.
    Off,
    /// Before a write is acknowledged.
    Inline,
    /// By the finder.
    Offline,
}
