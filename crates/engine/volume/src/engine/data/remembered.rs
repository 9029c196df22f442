//! Fingerprints that are taken while contents are still in memory, so that the finder need not read
//! them.
//!
//! A PBN that is taken, to be written, loses its place. A write to an off-line volume then gets a
//! *ticket*, for which the places of its PBNs are reserved before anything is written. A thread of
//! the buffer takes the fingerprints once the contents are written out, if there is processor time
//! for it, and each goes to its place only if that is still reserved for its ticket. A place
//! therefore never has the fingerprint of an earlier content of its PBN, and a PBN that a map
//! refers to, under a pin, is not taken. Several PBNs have one place: the newer write gets it, and
//! the older fingerprint is dropped.

use gemelo_base::Clock;
use gemelo_base::StatTable;
use gemelo_base::locks::Mutex;
use gemelo_format::{Fingerprint, Fingerprinter, Pbn};
use gemelo_store::{WriteObserver, WrittenContent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of a place.
const PLACE_BYTES: u64 = size_of::<Place>() as u64;
/// Fingerprints that go to their places in one hold of the lock, which writers need: some 3 µs.
const SET_AT_ONCE: usize = 32;

/// Figures of the remembered fingerprints since the pool was opened.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize, StatTable,
)]
#[stat(counter)]
pub struct RememberedStats {
    /// Most fingerprints that are remembered.
    #[stat(gauge)]
    pub capacity: u64,
    /// Fingerprints that are remembered.
    #[stat(gauge)]
    pub held: u64,
    /// Fingerprints that were taken of blocks on their way to the disk.
    pub taken: u64,
    /// Blocks without a fingerprint, because there was no processor time for it.
    pub skipped: u64,
    /// Fingerprints that were dropped, because their blocks were freed and written again, or
    /// because newer blocks took their places.
    pub dropped: u64,
    /// Blocks that the finder did not read, because it had their fingerprints.
    pub hits: u64,
    /// Blocks that the finder had to read.
    pub misses: u64,
    /// Processor time of taking the fingerprints.
    pub cpu_ns: u64,
}

/// A place: the two halves of a fingerprint, zeros for none; a ticket; and a PBN.
type Place = [u64; 4];

/// The places. Memory that was never used is not touched.
#[derive(Debug)]
struct RememberedPlaces {
    places: Vec<Place>,
    held: u64,
    dropped: u64,
}

impl RememberedPlaces {
    fn new(count: usize) -> Self {
        Self { places: vec![[0; 4]; count], held: 0, dropped: 0 }
    }

    fn at(&self, pbn: Pbn) -> usize {
        pbn.index() % self.places.len().max(1)
    }

    /// Clears the place of a PBN and reserves it for a ticket, or for none.
    fn reserve(&mut self, pbn: Pbn, ticket: u64) {
        let at = self.at(pbn);
        if let Some(place) = self.places.get_mut(at) {
            let [low, high, ..] = *place;
            if (low, high) != (0, 0) {
                self.held -= 1;
                self.dropped += 1;
            }
            *place = [0, 0, ticket, pbn.number()];
        }
    }

    /// Clears the place of a PBN, unless another one has it.
    fn forget(&mut self, pbn: Pbn) {
        let place = self.places.get(self.at(pbn));
        if place.is_some_and(|[.., owner]| *owner == pbn.number()) {
            self.reserve(pbn, 0);
        }
    }

    fn set(&mut self, pbn: Pbn, ticket: NonZeroU64, fingerprint: Fingerprint) {
        let at = self.at(pbn);
        let Some(place) = self.places.get_mut(at) else { return };
        let [low, high, reserved, owner] = *place;
        if (reserved, owner) == (ticket.get(), pbn.number()) {
            self.held += u64::from((low, high) == (0, 0));
            *place = [fingerprint.low(), fingerprint.high(), reserved, owner];
        }
    }

    fn get(&self, pbn: Pbn) -> Option<Fingerprint> {
        let [low, high, _, owner] = *self.places.get(self.at(pbn))?;
        let bits = u128::from(high) << 64 | u128::from(low);
        (owner == pbn.number() && bits != 0).then(|| Fingerprint::of_hash(bits))
    }
}

/// The remembered fingerprints of a pool; see the module.
pub(crate) struct Remembered {
    /// Held for a whole list at a time. The holder calls nothing else.
    places: Mutex<RememberedPlaces>,
    fingerprinter: Fingerprinter,
    clock: Arc<dyn Clock>,
    capacity: u64,
    next_ticket: AtomicU64,
    is_wanted: AtomicBool,
    taken: AtomicU64,
    skipped: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    cpu_ns: AtomicU64,
}

impl Remembered {
    /// Remembers fingerprints in this much memory, of a store with this many blocks.
    pub(crate) fn new(
        (memory_bytes, data_blocks): (u64, u64),
        fingerprinter: Fingerprinter,
        clock: Arc<dyn Clock>,
    ) -> Self {
        // More places than PBNs would never be used.
        let capacity = (memory_bytes / PLACE_BYTES).min(data_blocks);
        Self {
            places: Mutex::new(RememberedPlaces::new(usize::try_from(capacity).unwrap_or(0))),
            fingerprinter,
            clock,
            capacity,
            next_ticket: AtomicU64::new(1),
            is_wanted: AtomicBool::new(true),
            taken: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
        }
    }

    const fn is_off(&self) -> bool {
        self.capacity == 0
    }

    /// Prepares for a write of fresh blocks whose fingerprints are wanted.
    pub(crate) fn expect(&self, pbns: &[Pbn]) -> Option<NonZeroU64> {
        if self.is_off() || pbns.is_empty() {
            return None;
        }
        let ticket = NonZeroU64::new(self.next_ticket.fetch_add(1, Ordering::Relaxed))?;
        let mut places = self.places.lock();
        pbns.iter().for_each(|pbn| places.reserve(*pbn, ticket.get()));
        Some(ticket)
    }

    /// Forgets what is known of blocks, which are going to be written.
    pub(crate) fn forget(&self, pbns: &[Pbn]) {
        // A pool whose volumes are not off-line has never given a ticket.
        if self.is_off() || pbns.is_empty() || self.next_ticket.load(Ordering::Relaxed) == 1 {
            return;
        }
        let mut places = self.places.lock();
        pbns.iter().for_each(|pbn| places.forget(*pbn));
    }

    /// Returns the fingerprints of blocks that a map refers to. The caller has a pin from before it
    /// looked them up.
    pub(crate) fn recall(&self, pbns: impl Iterator<Item = Pbn>) -> Vec<Option<Fingerprint>> {
        if self.is_off() {
            return pbns.map(|_| None).collect();
        }
        let places = self.places.lock();
        pbns.map(|pbn| places.get(pbn)).collect()
    }

    /// Counts blocks that the finder did not have to read, and blocks that it read.
    pub(crate) fn note_use(&self, hits: usize, misses: usize) {
        self.hits.fetch_add(hits as u64, Ordering::Relaxed);
        self.misses.fetch_add(misses as u64, Ordering::Relaxed);
    }

    /// Tells whether there is processor time for fingerprints.
    pub(crate) fn set_wanted(&self, is_wanted: bool) {
        self.is_wanted.store(is_wanted, Ordering::Relaxed);
    }

    /// The processor time in nanoseconds that the fingerprints took.
    pub(crate) fn cpu_ns(&self) -> u64 {
        self.cpu_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn figures(&self) -> RememberedStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (held, dropped) = {
            let places = self.places.lock();
            (places.held, places.dropped)
        };
        RememberedStats {
            capacity: self.capacity,
            held,
            taken: read(&self.taken),
            skipped: read(&self.skipped),
            dropped,
            hits: read(&self.hits),
            misses: read(&self.misses),
            cpu_ns: read(&self.cpu_ns),
        }
    }
}

impl WriteObserver for Remembered {
    fn wants(&self, contents: usize) -> bool {
        let is_wanted = self.is_wanted.load(Ordering::Relaxed);
        if !is_wanted {
            self.missed(contents);
        }
        is_wanted
    }

    fn missed(&self, contents: usize) {
        self.skipped.fetch_add(contents as u64, Ordering::Relaxed);
    }

    fn written(&self, contents: &[WrittenContent<'_>]) {
        let began_ns = self.clock.thread_cpu_ns();
        let bytes: Vec<&[u8]> = contents.iter().map(|content| content.bytes).collect();
        let mut fingerprints = Vec::with_capacity(bytes.len());
        self.fingerprinter.of_all(&bytes, |fingerprint| fingerprints.push(fingerprint));
        assert_eq!(fingerprints.len(), contents.len(), "each content has a fingerprint");
        let both = contents.chunks(SET_AT_ONCE).zip(fingerprints.chunks(SET_AT_ONCE));
        for (contents, fingerprints) in both {
            let mut places = self.places.lock();
            for (content, fingerprint) in contents.iter().zip(fingerprints) {
                places.set(content.pbn, content.ticket, *fingerprint);
            }
        }
        self.taken.fetch_add(contents.len() as u64, Ordering::Relaxed);
        if let (Some(began_ns), Some(ended_ns)) = (began_ns, self.clock.thread_cpu_ns()) {
            self.cpu_ns.fetch_add(ended_ns.saturating_sub(began_ns), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::ManualClock;
    use gemelo_format::FingerprintKind;

    fn remembered(places: u64) -> Remembered {
        let fingerprinter = Fingerprinter::new(FingerprintKind::Blake3, [7; 32]);
        let memory = places * PLACE_BYTES;
        Remembered::new((memory, 1 << 20), fingerprinter, Arc::new(ManualClock::new()))
    }

    fn pbn(number: u64) -> Pbn {
        Pbn::new(number).unwrap()
    }

    fn written(number: u64, ticket: NonZeroU64, bytes: &[u8]) -> WrittenContent<'_> {
        WrittenContent { pbn: pbn(number), ticket, bytes }
    }

    fn recalled(remembered: &Remembered, number: u64) -> Option<Fingerprint> {
        remembered.recall([pbn(number)].into_iter())[0]
    }

    #[test]
    fn a_fingerprint_is_that_of_the_newest_write_or_none() {
        let remembered = remembered(8);
        let of = |content: &[u8]| remembered.fingerprinter.of(content);
        let first = remembered.expect(&[pbn(3), pbn(4)]).unwrap();
        assert_eq!(recalled(&remembered, 3), None, "nothing was written yet");
        remembered.written(&[written(3, first, b"one"), written(4, first, b"two")]);
        assert_eq!(recalled(&remembered, 3), Some(of(b"one")));
        // The block was freed and is written again.
        let second = remembered.expect(&[pbn(3)]).unwrap();
        assert_eq!(recalled(&remembered, 3), None);
        remembered.written(&[written(3, first, b"one")]);
        assert_eq!(recalled(&remembered, 3), None, "a late fingerprint of the earlier content");
        remembered.written(&[written(3, second, b"six")]);
        assert_eq!(recalled(&remembered, 3), Some(of(b"six")));
        remembered.forget(&[pbn(3)]);
        remembered.written(&[written(3, second, b"six")]);
        assert_eq!(recalled(&remembered, 3), None, "written without a ticket");
        assert_eq!(recalled(&remembered, 4), Some(of(b"two")));
        let figures = remembered.figures();
        assert_eq!((figures.held, figures.taken, figures.dropped), (1, 5, 2));
    }

    #[test]
    fn a_newer_block_takes_the_place_of_an_older_one() {
        let remembered = remembered(8);
        let older = remembered.expect(&[pbn(1)]).unwrap();
        remembered.written(&[written(1, older, b"one")]);
        let newer = remembered.expect(&[pbn(9)]).unwrap();
        remembered.written(&[written(1, older, b"one")]);
        assert_eq!((recalled(&remembered, 1), recalled(&remembered, 9)), (None, None));
        remembered.written(&[written(9, newer, b"two")]);
        assert_eq!(recalled(&remembered, 1), None);
        remembered.forget(&[pbn(1)]);
        assert!(recalled(&remembered, 9).is_some(), "the place of another block is left alone");
    }

    #[test]
    fn a_busy_machine_and_no_memory_take_none() {
        let busy = remembered(8);
        assert!(busy.wants(5));
        busy.set_wanted(false);
        assert!(!busy.wants(5));
        assert_eq!(busy.figures().skipped, 5);
        let off = remembered(0);
        assert_eq!((off.expect(&[pbn(1)]), recalled(&off, 1)), (None, None));
        off.forget(&[pbn(1)]);
    }
}
