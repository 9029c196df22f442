//! The memory of buckets: slots of a few sizes in segments of one size.
//!
//! The slots of a size are always the first ones of its segments: when one is given back, the last
//! slot of that size moves there, and its owner is told. So no memory is lost between slots,
//! however buckets grow and shrink, and a segment that is no longer needed serves any other size.

/// Words of a segment: 64 KiB, which the allocator takes from its heap without rounding.
const SEGMENT_WORDS: usize = 8192;
/// Slots have a multiple of this number of words.
const UNIT_WORDS: usize = 8;
/// Above every size of a slot in units, which has 10 bits then.
const SIZES: usize = SEGMENT_WORDS / UNIT_WORDS;

/// The slots of one size.
#[derive(Default)]
struct Size {
    segments: Vec<Box<[u64]>>,
    /// The owner of each slot.
    owners: Vec<u32>,
}

/// The slots of all sizes.
pub(super) struct Room {
    sizes: Vec<Size>,
}

/// A slot: its size in units and its number among those of that size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) units: u16,
    pub(super) number: u32,
}

impl Slot {
    /// The slot of an empty bucket, which has no words.
    pub(super) const NONE: Self = Self { units: 0, number: 0 };

    /// Words of the slot.
    const fn words(self) -> usize {
        self.units as usize * UNIT_WORDS
    }

    /// The segment of the slot, and its first word there.
    const fn place(self) -> (usize, usize) {
        let each = SEGMENT_WORDS / self.words();
        (self.number as usize / each, self.number as usize % each * self.words())
    }
}

/// The units of a slot for this number of words. `None` if no slot is as large.
pub(super) const fn units_of(words: usize) -> Option<u16> {
    let units = words.div_ceil(UNIT_WORDS);
    if units < SIZES { Some(units as u16) } else { None }
}

impl Room {
    pub(super) const fn new() -> Self {
        Self { sizes: Vec::new() }
    }

    pub(super) fn words(&self, slot: Slot) -> &[u64] {
        if slot.units == 0 {
            return &[];
        }
        let (segment, first) = slot.place();
        let segment = &self.sizes[slot.units as usize].segments[segment];
        &segment[first..first + slot.words()]
    }

    pub(super) fn words_mut(&mut self, slot: Slot) -> &mut [u64] {
        if slot.units == 0 {
            return &mut [];
        }
        let (segment, first) = slot.place();
        let segment = &mut self.sizes[slot.units as usize].segments[segment];
        &mut segment[first..first + slot.words()]
    }

    /// Takes a slot of this size. Its words have any values.
    pub(super) fn take(&mut self, units: u16, owner: u32) -> Slot {
        if units == 0 {
            return Slot::NONE;
        }
        if self.sizes.len() <= units as usize {
            self.sizes.resize_with(units as usize + 1, Size::default);
        }
        let size = &mut self.sizes[units as usize];
        let slot = Slot { units, number: size.owners.len() as u32 };
        size.owners.push(owner);
        if size.segments.len() <= slot.place().0 {
            size.segments.push(vec![0; SEGMENT_WORDS].into_boxed_slice());
        }
        slot
    }

    /// Gives a slot back. Returns the owner of the slot that has moved there, if one has.
    #[must_use]
    pub(super) fn give_back(&mut self, slot: Slot) -> Option<u32> {
        if slot.units == 0 {
            return None;
        }
        let size = &mut self.sizes[slot.units as usize];
        let owner = size.owners.pop();
        let last = Slot { number: size.owners.len() as u32, ..slot };
        assert!(slot.number <= last.number, "a slot is given back once");
        let moved = owner.filter(|_| slot.number < last.number);
        if let Some(owner) = moved {
            size.owners[slot.number as usize] = owner;
            self.copy(last, slot);
        }
        let size = &mut self.sizes[slot.units as usize];
        if last.place().1 == 0 {
            size.segments.truncate(last.place().0);
        }
        moved
    }

    fn copy(&mut self, from: Slot, to: Slot) {
        let ((from_segment, from_at), (to_segment, to_at)) = (from.place(), to.place());
        let segments = &mut self.sizes[from.units as usize].segments;
        let words = from.words();
        if from_segment == to_segment {
            segments[to_segment].copy_within(from_at..from_at + words, to_at);
            return;
        }
        assert!(to_segment < from_segment, "the last slot moves down");
        let (low, high) = segments.split_at_mut(from_segment);
        low[to_segment][to_at..to_at + words].copy_from_slice(&high[0][from_at..from_at + words]);
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = |size: &Size| {
            size_of_val(size)
                + size.segments.len() * (SEGMENT_WORDS * 8 + size_of::<Box<[u64]>>())
                + size.owners.capacity() * size_of::<u32>()
        };
        self.sizes.iter().map(|size| bytes(size) as u64).sum()
    }
}

#[cfg(test)]
impl Room {
    /// Bytes of the slots that are not in use: those of the last segment of each size, which are
    /// much in a small index and nothing in a large one.
    pub(super) fn open_bytes(&self) -> u64 {
        let open = |(units, size): (usize, &Size)| {
            let words = units.max(1) * UNIT_WORDS;
            (size.segments.len() * (SEGMENT_WORDS / words) - size.owners.len()) * words * 8
        };
        self.sizes.iter().enumerate().map(|sized| open(sized) as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_follows_what_is_in_use_and_slots_keep_their_words() {
        let mut room = Room::new();
        let mut slots: Vec<Slot> = (0..5000).map(|owner| room.take(20, owner)).collect();
        let fill = |room: &mut Room, slot, owner: usize| room.words_mut(slot).fill(owner as u64);
        (0..5000).for_each(|owner| fill(&mut room, slots[owner], owner));
        let full = room.bytes();
        assert!(full as f64 <= 5000.0 * 1.04 * (20 * UNIT_WORDS * 8) as f64, "{full}");
        // Every bucket but each tenth becomes larger.
        for owner in (0..5000usize).filter(|owner| owner % 10 > 0) {
            let grown = room.take(21, owner as u32);
            fill(&mut room, grown, owner);
            if let Some(moved) = room.give_back(slots[owner]) {
                slots[moved as usize] = slots[owner];
            }
            slots[owner] = grown;
        }
        for (owner, slot) in slots.iter().enumerate() {
            assert!(room.words(*slot).iter().all(|word| *word == owner as u64), "{owner}");
        }
        // The words of nine tenths are a twentieth more, and fewer of them fill a segment.
        assert!(room.bytes() < full + full / 14, "{} after {full}", room.bytes());
    }
}
