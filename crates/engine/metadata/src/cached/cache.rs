//! A cache of pages of the metadata disk. It has a fixed number of frames and evicts with CLOCK,
//! which approximates "least recently used". Pages that thousands of blocks need stay for several
//! rounds of the hand without a use.

use gemelo_base::locks::Mutex;
use gemelo_format::{NodeRef, PAGE_BYTES, Page, Part, Slot};
use hashbrown::HashTable;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Parts with a lock each, so that readers seldom wait for each other.
const SHARDS: usize = 16;
/// The least number of pages for more than one part. The parts of a smaller cache would hold too
/// few pages each.
const MIN_SHARDED: usize = 256;
/// Memory of a page and of its frame's other fields.
pub(super) const FRAME_BYTES: usize = PAGE_BYTES + 64;

/// The memory of one page in so many is kept for others when the page is evicted.
const SPARE_PART: usize = 64;

/// Rounds of the hand that a wide page stays without a use. Uniform random writes to a pool whose
/// counts take half of the cache need a page of counts every few rounds.
const WIDE_ROUNDS: u8 = 16;

/// The number of blocks that need a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// Some hundred: a leaf of a map, of records or of an index.
    Narrow,
    /// Thousands: a page that leads to others, or a leaf of counts.
    Wide,
}

impl Width {
    /// The width of a page of this level, whose leaves are of a part.
    pub(super) const fn of(level: u8, part: Part) -> Self {
        if level > 0 || matches!(part, Part::Counts) { Self::Wide } else { Self::Narrow }
    }
}

struct Frame {
    slot: Slot,
    checksum: u64,
    width: Width,
    /// The times that the hand passes before the page is evicted.
    rounds: u8,
    page: Arc<Page>,
}

#[derive(Default)]
struct Shard {
    /// Indices into `frames`, found by slot.
    places: HashTable<u32>,
    frames: Vec<Frame>,
    hand: usize,
}

/// A cache of pages that several threads can use.
pub(super) struct Cache {
    shards: Vec<Mutex<Shard>>,
    /// Frames of each part.
    max_frames: AtomicUsize,
    /// Pages that were evicted, and that nobody else has: their memory serves the next ones.
    spare: Mutex<Vec<Arc<Page>>>,
    max_spare: AtomicUsize,
    hits: AtomicU64,
    misses: AtomicU64,
}

fn hash(slot: Slot) -> u64 {
    gemelo_base::random::mix64(u64::from(slot.number()))
}

impl Shard {
    fn place(&self, slot: Slot) -> Option<usize> {
        let is_it =
            |place: &u32| self.frames.get(*place as usize).is_some_and(|frame| frame.slot == slot);
        self.places.find(hash(slot), is_it).map(|place| *place as usize)
    }

    /// Evicts a page that was not used for a while. Returns the index of its frame.
    fn evict(&mut self) -> usize {
        loop {
            self.hand = if self.hand + 1 < self.frames.len() { self.hand + 1 } else { 0 };
            let hand = self.hand;
            let Some(frame) = self.frames.get_mut(hand) else { return 0 };
            if frame.rounds > 0 {
                frame.rounds -= 1;
            } else {
                let slot = frame.slot;
                if let Ok(entry) =
                    self.places.find_entry(hash(slot), |place| *place as usize == hand)
                {
                    entry.remove();
                }
                return hand;
            }
        }
    }

    /// Adds a page. Returns the one whose place it took.
    fn put(&mut self, most: usize, frame: Frame) -> Option<Arc<Page>> {
        let replace = |held: &mut Frame, frame| std::mem::replace(held, frame).page;
        if let Some(place) = self.place(frame.slot) {
            return self.frames.get_mut(place).map(|held| replace(held, frame));
        }
        let slot = frame.slot;
        let (place, evicted) = if self.frames.len() < most {
            self.frames.push(frame);
            (self.frames.len() - 1, None)
        } else {
            let place = self.evict();
            (place, self.frames.get_mut(place).map(|held| replace(held, frame)))
        };
        let frames = &self.frames;
        let hash_at = |place: &u32| frames.get(*place as usize).map_or(0, |frame| hash(frame.slot));
        self.places.insert_unique(hash(slot), place as u32, hash_at);
        assert!(
            self.places.len() == self.frames.len() && self.frames.len() <= most,
            "each frame is found by its slot"
        );
        evicted
    }
}

impl Cache {
    pub(super) fn new(bytes: u64) -> Self {
        let frames = usize::try_from(bytes).unwrap_or(usize::MAX) / FRAME_BYTES;
        let shards = if frames < MIN_SHARDED { 1 } else { SHARDS };
        let cache = Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            max_frames: AtomicUsize::new(0),
            spare: Mutex::default(),
            max_spare: AtomicUsize::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        };
        cache.grow(bytes);
        cache
    }

    /// Lets the cache have more bytes.
    pub(super) fn grow(&self, bytes: u64) {
        let pages = usize::try_from(bytes).unwrap_or(usize::MAX) / FRAME_BYTES;
        let max_spare = pages / SPARE_PART;
        let frames = (pages - max_spare) / self.shards.len();
        self.max_spare.store(max_spare, Ordering::Relaxed);
        self.max_frames.store(frames.max(2), Ordering::Relaxed);
    }

    fn shard(&self, slot: Slot) -> Option<&Mutex<Shard>> {
        self.shards.get(hash(slot) as usize % self.shards.len())
    }

    pub(super) fn get(&self, at: NodeRef, width: Width) -> Option<Arc<Page>> {
        let mut shard = self.shard(at.slot)?.lock();
        let place = shard.place(at.slot);
        let frame = place.and_then(|place| shard.frames.get_mut(place));
        // A slot that was written anew has another checksum, so an old frame does not match.
        match frame.filter(|frame| frame.checksum == at.checksum) {
            Some(frame) => {
                // A list of reads does not know the widths of its pages.
                if width == Width::Wide {
                    frame.width = width;
                }
                frame.rounds = if frame.width == Width::Wide { WIDE_ROUNDS } else { 1 };
                self.hits.fetch_add(1, Ordering::Relaxed);
                Some(Arc::clone(&frame.page))
            }
            None => None,
        }
    }

    /// Returns whether the page is there.
    pub(super) fn has(&self, at: NodeRef) -> bool {
        let Some(shard) = self.shard(at.slot).map(Mutex::lock) else { return false };
        let frame = shard.place(at.slot).and_then(|place| shard.frames.get(place));
        frame.is_some_and(|frame| frame.checksum == at.checksum)
    }

    /// Counts pages that were not there, and are read.
    pub(super) fn count_misses(&self, pages: usize) {
        self.misses.fetch_add(pages as u64, Ordering::Relaxed);
    }

    /// The most pages that it holds.
    pub(super) fn max_pages(&self) -> usize {
        self.max_frames.load(Ordering::Relaxed) * self.shards.len()
    }

    pub(super) fn put(&self, at: NodeRef, width: Width, page: Arc<Page>) {
        if let Some(shard) = self.shard(at.slot) {
            // A narrow page counts as unused until its second use, so pages that are needed only
            // once are evicted first.
            let rounds = if width == Width::Wide { WIDE_ROUNDS } else { 0 };
            let frame = Frame { slot: at.slot, checksum: at.checksum, width, rounds, page };
            let mut shard = shard.lock();
            // Read with the lock, it is never less than what another thread has seen with it.
            let evicted = shard.put(self.max_frames.load(Ordering::Relaxed), frame);
            drop(shard);
            evicted.into_iter().for_each(|page| self.keep(page));
        }
    }

    /// Keeps the memory of a page, if nobody has the page.
    pub(super) fn keep(&self, mut page: Arc<Page>) {
        if Arc::get_mut(&mut page).is_some()
            && let Some(mut spare) = self.spare.try_lock()
            && spare.len() < self.max_spare.load(Ordering::Relaxed)
        {
            spare.push(page);
        }
    }

    /// Memory for a page, which is nobody else's and has any content. The allocator takes and gives
    /// back a page far more slowly, and others would be put between pages.
    pub(super) fn memory(&self) -> Arc<Page> {
        let spare = self.spare.try_lock().and_then(|mut spare| spare.pop());
        spare.unwrap_or_else(|| Arc::new([0; PAGE_BYTES]))
    }

    /// Makes a page one that nobody else has.
    pub(super) fn own(&self, mut page: Arc<Page>) -> Arc<Page> {
        if Arc::get_mut(&mut page).is_some() {
            return page;
        }
        let mut own = self.memory();
        Arc::make_mut(&mut own).copy_from_slice(&*page);
        own
    }

    /// Pages that were looked up and found, and those that were not.
    pub(super) fn look_ups(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let frames = self.shards.iter().map(|shard| shard.lock().frames.len());
        ((frames.sum::<usize>() + self.spare.lock().len()) * FRAME_BYTES) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;

    fn at(number: u32) -> NodeRef {
        NodeRef { slot: Slot::new(number).unwrap(), checksum: u64::from(number) }
    }

    #[test]
    fn it_holds_so_many_pages_and_the_ones_in_use_longest() {
        let cache = Cache::new(8 * FRAME_BYTES as u64);
        for number in 1..=100 {
            cache.put(at(number), Width::Narrow, Arc::new([number as u8; PAGE_BYTES]));
            assert!(
                cache.get(at(1), Width::Narrow).is_some_and(|page| page[0] == 1),
                "page 1 is used all the time"
            );
        }
        let held =
            (1..=100).filter(|number| cache.get(at(*number), Width::Narrow).is_some()).count();
        assert_eq!(held, 8);
        assert_eq!(cache.memory_bytes(), 8 * FRAME_BYTES as u64);
        let other = NodeRef { checksum: 5, ..at(1) };
        assert!(cache.get(other, Width::Narrow).is_none(), "what was in the slot before");
        cache.put(other, Width::Narrow, Arc::new([7; PAGE_BYTES]));
        assert!(
            cache.get(other, Width::Narrow).is_some() && cache.get(at(1), Width::Narrow).is_none()
        );
    }

    /// Uniform random writes read a narrow page each, and a page of counts again and again.
    #[test]
    fn wide_pages_stay_for_several_rounds_and_leave_room_for_lists() {
        const FRAMES: u32 = 100;
        let cache = Cache::new(u64::from(FRAMES) * FRAME_BYTES as u64);
        let page = |number: u32| Arc::new([number as u8; PAGE_BYTES]);
        (1..=75).for_each(|number| cache.put(at(number), Width::Wide, page(number)));
        let held = |numbers: std::ops::RangeInclusive<u32>| {
            numbers.filter(|number| cache.has(at(*number))).count()
        };
        for number in 1000..1000 + 25 * u32::from(WIDE_ROUNDS) {
            cache.put(at(number), Width::Narrow, page(number));
        }
        assert_eq!(held(1..=75), 75, "none was used for so many rounds");
        let later = 2000..2000 + 50 * u32::from(WIDE_ROUNDS);
        later.for_each(|number| cache.put(at(number), Width::Narrow, page(number)));
        assert!(held(1..=75) < 10, "a wide page without a use goes");
        // A page that was read in a list becomes wide with its first use.
        cache.put(at(500), Width::Narrow, page(500));
        assert!(cache.get(at(500), Width::Wide).is_some());
        (3000..3200).for_each(|number| cache.put(at(number), Width::Narrow, page(number)));
        assert!(cache.has(at(500)));
        // More wide pages than frames, again and again.
        let mut random = Random::new(1);
        for number in (0..20 * FRAMES).map(|_| 5000 + random.below(2 * u64::from(FRAMES)) as u32) {
            if cache.get(at(number), Width::Wide).is_none() {
                cache.put(at(number), Width::Wide, page(number));
            }
        }
        let list = 6000..6000 + FRAMES / 8;
        list.clone().for_each(|number| cache.put(at(number), Width::Narrow, page(number)));
        assert!(list.into_iter().all(|number| cache.has(at(number))), "there is room for a list");
        assert_eq!(cache.shards.len(), 1);
    }
}
