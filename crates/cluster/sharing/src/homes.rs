//! The forms of the stores of other members.

use gemelo_domain::MemberId;
use gemelo_format::{PoolSeed, StoreKind, Superblock};
use gemelo_store::PackedReader;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;

/// Reads the superblock of a member.
type LookUp = dyn Fn(MemberId) -> io::Result<Superblock> + Send + Sync;

/// The forms of the stores of members. The number of a member is that of one pool for ever, so each
/// superblock is read once.
pub struct Homes {
    look_up: Box<LookUp>,
    /// The reader of a store that compresses; [`None`] for a plain store.
    known: Mutex<BTreeMap<MemberId, Option<PackedReader>>>,
}

/// Returns the error of contents whose home cannot be read. They are not damaged for that, so it is
/// none of the kinds that prove damage.
fn unreadable(home: MemberId, error: &io::Error) -> io::Error {
    let kind = match error.kind() {
        io::ErrorKind::TimedOut => io::ErrorKind::TimedOut,
        _ => io::ErrorKind::HostUnreachable,
    };
    io::Error::new(kind, format!("the home of the content, member {home}, cannot be read: {error}"))
}

impl Homes {
    /// Takes the function that reads the superblock of a member. An error of the kind `TimedOut`
    /// says that the store did not answer.
    #[must_use]
    pub fn new(
        look_up: impl Fn(MemberId) -> io::Result<Superblock> + Send + Sync + 'static,
    ) -> Self {
        Self { look_up: Box::new(look_up), known: Mutex::default() }
    }

    /// Returns what reads the store of a member, or [`None`] if that store is plain.
    pub(crate) fn reader(&self, home: MemberId) -> io::Result<Option<PackedReader>> {
        if let Some(known) = self.known.lock().get(&home) {
            return Ok(*known);
        }
        let superblock = (self.look_up)(home).map_err(|error| unreadable(home, &error))?;
        let reader = PackedReader {
            block_bytes: superblock.block_bytes as usize,
            seed: PoolSeed::of(&superblock),
        };
        let found = (superblock.store != StoreKind::Plain).then_some(reader);
        self.known.lock().insert(home, found);
        Ok(found)
    }
}
