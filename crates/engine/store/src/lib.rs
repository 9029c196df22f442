//! The store of contents: the only place that knows where and in which form a content lies.
//!
//! A PBN is the number of a content. [`Store`] reads, writes, compares and discards contents by
//! their numbers, in lists, so that it can merge what lies side by side and have many requests in
//! flight. [`BlockStore`] keeps the content of a PBN as it is, at byte PBN × block size of a disk.
//! [`WriteBuffer`] acknowledges writes to any store from memory and writes them out in long runs.
//! It has a cache of contents for readers.
//! [`PackedStore`] keeps several compressed contents in one block of such a store.
//! [`OverlaidStore`] reads contents from memory that the store below may lack.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[macro_use]
mod forward;

mod block;
mod buffer;
mod cache;
mod copies;
mod disks;
mod free_veto;
mod memory;
mod overlaid;
mod packed;
mod preallocated;
mod request;

pub use block::BlockStore;
pub use buffer::{
    BufferOptions, BufferStats, ToldOfPanic, Untried, Unwritten, WriteBuffer, WriteObserver,
    WriteOut, WrittenContent,
};
pub use cache::{ContentCacheStats, ReadCache};
pub use copies::Copies;
pub use disks::{PoolDisks, store_of_kind};
pub use free_veto::{EachPbn, FreeVeto, VetoedStore};
pub use memory::LentContent;
pub use overlaid::{Contents, OverlaidStore};
pub use packed::{
    BlockImage, Codec, Compressed, Fit, PackedCount, PackedReader, PackedStore, block_number,
    decompress, form_into, packed_blocks,
};
pub use request::{ContentComparison, ContentRead, ContentWrite};

use gemelo_disk::Disk;
pub use gemelo_format::{FormatError, Pbn};

use gemelo_format::Superblock;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that a comparison reads at once: they stay in the processor's cache.
const COMPARED_BYTES: usize = 64 << 10;

/// Blocks that are written in one list, so that the disk has several requests in flight.
const WRITES_AT_ONCE: usize = 256;

/// Opens the store of a pool on its data disk.
pub type OpenStore = fn(Arc<dyn Disk>, &Superblock) -> Arc<dyn Store>;

/// The setting up of a store: its size, and the labels by which it is known.
pub trait StoreSetUp: Send + Sync {
    /// Returns the number of blocks, block 0 included, that the storage below has room for at
    /// present.
    ///
    /// # Errors
    /// Fails if the storage cannot be measured.
    fn blocks(&self) -> io::Result<u64>;

    /// Makes room for this many blocks, block 0 included. It never takes away room.
    ///
    /// # Errors
    /// Fails if there is no space, or if a system call fails.
    fn enlarge(&self, blocks: u64) -> io::Result<()>;

    /// Makes the storage shorter by these blocks, which are its last ones and have no contents. A
    /// device stays as long as it is, and so does a file that goes on behind them, or a storage
    /// that is no file.
    ///
    /// # Errors
    /// Fails if a system call fails.
    fn cut(&self, _blocks: Range<u64>) -> io::Result<()> {
        Ok(())
    }

    /// Copies the label, which is durable in block 0, to this block. A store that needs no copy
    /// makes none.
    ///
    /// # Errors
    /// Fails if there is no space, or if a system call fails.
    fn copy_label(&self, _to: Pbn) -> Result<(), FormatError> {
        Ok(())
    }

    /// Writes the labels by which [`Self::check_labels`] knows the store, and makes them durable.
    ///
    /// # Errors
    /// Fails if there is no space, or if a system call fails.
    fn write_labels(&self) -> Result<(), FormatError>;

    /// Checks that the store belongs to the pool. Returns descriptions of damaged labels.
    ///
    /// # Errors
    /// Fails if the store belongs to another pool, or cannot be read.
    fn check_labels(&self) -> Result<Vec<String>, FormatError>;

    /// Returns the content of a form, which is what a commit carries in place of a content: the
    /// bytes that the store needs to have it again. [`None`] if the bytes make no sense.
    fn content_of_form(&self, pbn: Pbn, form: &[u8]) -> Option<Vec<u8>>;

    /// Writes contents that commits have carried, to the places that their PBNs name. Returns the
    /// blocks for which there was no space, each with its bytes.
    ///
    /// # Errors
    /// Fails if a form makes no sense, or if a system call fails.
    fn write_forms(&self, forms: &[(Pbn, &[u8])]) -> io::Result<Vec<(Pbn, Vec<u8>)>>;
}

/// Writes blocks of a store. Returns those for which there was no space.
fn write_blocks(store: &dyn Store, blocks: &[(Pbn, &[u8])]) -> io::Result<Vec<(Pbn, Vec<u8>)>> {
    let mut unwritten = Vec::new();
    for some in blocks.chunks(WRITES_AT_ONCE) {
        let mut writes: Vec<ContentWrite<'_>> =
            some.iter().map(|(pbn, bytes)| ContentWrite::new(*pbn, bytes)).collect();
        store.write(&mut writes);
        for write in writes {
            match write.outcome {
                Err(error) if is_no_space(&error) => {
                    unwritten.push((write.pbn, write.content.to_vec()));
                }
                other => other?,
            }
        }
    }
    Ok(unwritten)
}

/// Returns whether an error means that there is no space.
fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns an error for a further content that the same failure concerns.
fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// The space that the contents of a store take below it. It is counted in blocks, which are those
/// of [`gemelo_format::StoreKind`].
pub trait StoreRoom: Send + Sync {
    /// Reserves space for contents, so that their writes need none. Sets the outcome of each write
    /// for which there is no space, and leaves the others alone. A store that cannot reserve does
    /// nothing.
    fn reserve(&self, writes: &mut [ContentWrite<'_>]);

    /// Returns whether [`Self::reserve_ahead`] should be called soon.
    fn wants_reserve_ahead(&self) -> bool;

    /// Reserves space that later writes will probably need, so that [`Self::reserve`] finds it.
    /// It may take long, because the file system may be busy; the caller is a thread that nobody
    /// waits for. A failure is left to the [`Self::reserve`] that needs the space.
    fn reserve_ahead(&self);

    /// Gives up the contents of `count` blocks from `first` on, which may then read as anything.
    ///
    /// # Errors
    /// Fails if a system call fails, but not if the storage below cannot give space back.
    fn discard(&self, first: Pbn, count: u32) -> io::Result<()>;

    /// The fewest blocks in a row that are worth a discard in the background.
    fn min_discard_blocks(&self) -> u32;

    /// Returns the bytes of space that the storage below takes; [`None`] if that is not known.
    fn allocated_bytes(&self) -> Option<u64>;
}

/// A store of contents by PBN. All methods may be called from many threads at once.
///
/// Requests of a list have no order, and each has its own outcome. Requests of consecutive PBNs
/// should be adjacent in the list. A crash may tear a write that no [`Self::sync`] has covered, but
/// changes the content of no other PBN.
pub trait Store: StoreSetUp + StoreRoom {
    /// Bytes of a content.
    fn block_bytes(&self) -> usize;

    /// Reads contents, or parts of them.
    fn read(&self, reads: &mut [ContentRead<'_>]);

    /// Reads contents as [`Self::read`] does, but leaves those that would have to wait for the
    /// medium. They get an outcome of the kind [`io::ErrorKind::WouldBlock`], and are started, so
    /// that they may soon be read without a wait. A store that cannot tell reads all contents.
    fn read_ready(&self, reads: &mut [ContentRead<'_>]);

    /// Reads contents as [`Self::read`] does, but from the medium, past any cache of the system.
    fn read_medium(&self, reads: &mut [ContentRead<'_>]);

    /// Returns contents of a list that are in memory, with their places in it, in order. They stay
    /// as they are as long as somebody has them, and their memory is not used otherwise meanwhile.
    /// A store that has none in memory returns none. A packed store asks this of the store below.
    fn lend(&self, pbns: &[Pbn]) -> Vec<(usize, LentContent)>;

    /// Writes whole contents.
    fn write(&self, writes: &mut [ContentWrite<'_>]);

    /// Compares contents with given ones. [`compare_by_reading`] does so for a store that has no
    /// contents in memory.
    fn compare(&self, comparisons: &mut [ContentComparison<'_>]);

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// Fails if a system call fails. Then it is unknown which writes since the last sync are
    /// durable.
    fn sync(&self) -> io::Result<()>;
}

/// Compares contents by reading them.
pub fn compare_by_reading(store: &dyn Store, comparisons: &mut [ContentComparison<'_>]) {
    let block_bytes = store.block_bytes();
    let at_once = (COMPARED_BYTES / block_bytes).clamp(1, comparisons.len().max(1));
    let mut contents = vec![0; at_once * block_bytes];
    for some in comparisons.chunks_mut(at_once) {
        let buffers = contents.chunks_exact_mut(block_bytes);
        let mut reads: Vec<ContentRead<'_>> = some
            .iter()
            .zip(buffers)
            .map(|(one, buffer)| ContentRead::new(one.pbn, 0, buffer).compared())
            .collect();
        store.read(&mut reads);
        for (one, read) in some.iter_mut().zip(reads) {
            one.outcome = read.outcome.map(|()| *read.buffer == *one.content);
        }
    }
}
