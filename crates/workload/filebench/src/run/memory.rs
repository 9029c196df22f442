//! The memory of a thread: the buffer of its operations, and the streams that fill it with data.

use crate::sources::{DataSource, DataStream};
use gemelo_base::random::Random;
use gemelo_base::{Clock, SystemClock};

/// Alignment of the memory for operations, as O_DIRECT requires it.
pub(super) const ALIGNMENT: usize = 4096;

/// A buffer for an operation of its own, aligned as O_DIRECT requires it.
#[derive(Debug, Default)]
pub(super) struct AlignedBuffer {
    bytes: Vec<u8>,
    size: usize,
}

impl AlignedBuffer {
    /// Changes the size. The bytes that are in the buffer are of no use.
    pub(super) fn resize(&mut self, size: usize) {
        if self.bytes.len() < size + ALIGNMENT {
            self.bytes = vec![0; size + ALIGNMENT];
        }
        self.size = size;
    }

    fn start(&self) -> usize {
        self.bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT - 1)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let start = self.start();
        self.bytes.get(start..start + self.size).unwrap_or_default()
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.start();
        self.bytes.get_mut(start..start + self.size).unwrap_or_default()
    }
}

/// The buffer of a thread's operations.
pub(super) struct ThreadMemory {
    bytes: Vec<u8>,
    /// `true` if the script sets the size, so that operations use random places of the memory.
    is_sized: bool,
    /// Data streams by fileset, created at their first use.
    streams: Vec<Option<Box<dyn DataStream>>>,
    /// Time spent making data for the current operation.
    generate_ns: u64,
}

/// Allocates memory. The kernel provides the first `touched` bytes at once and the rest at its
/// first use.
fn zeros(bytes: usize, touched: usize) -> Vec<u8> {
    let mut memory = vec![0; bytes];
    for page in memory.chunks_mut(ALIGNMENT).take(touched / ALIGNMENT) {
        // The compiler must not see the value, because it knows that the memory is zero and would
        // omit the write.
        page[0] = std::hint::black_box(0);
    }
    memory
}

impl ThreadMemory {
    /// Allocates `bytes` of memory. The kernel provides the first `touched` ones at once.
    pub(super) fn new(bytes: u64, touched: usize, filesets: usize) -> Self {
        let is_sized = bytes != 0;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX / 2);
        let bytes = if is_sized { bytes.saturating_add(ALIGNMENT) } else { 0 };
        Self {
            bytes: zeros(bytes, touched),
            is_sized,
            streams: (0..filesets).map(|_| None).collect(),
            generate_ns: 0,
        }
    }

    /// Returns the offset for an operation of `size` bytes: a multiple of the size, so that direct
    /// operations, whose sizes are multiples of a sector, have memory that is aligned to one.
    pub(super) fn place(&mut self, size: usize, random: &mut Random) -> usize {
        let align = |memory: &[u8]| memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT - 1);
        if self.bytes.len() < size + 2 * ALIGNMENT {
            self.bytes = vec![0; size + 2 * ALIGNMENT];
        }
        let start = align(&self.bytes);
        if !self.is_sized || size == 0 {
            return start;
        }
        let room = self.bytes.len() - start;
        let place = random_multiple(random, room as u64, size as u64) as usize;
        if start + place + size <= self.bytes.len() { start + place } else { start }
    }

    #[inline]
    pub(super) fn part(&self, start: usize, size: usize) -> &[u8] {
        &self.bytes[start..start + size]
    }

    #[inline]
    pub(super) fn part_mut(&mut self, start: usize, size: usize) -> &mut [u8] {
        &mut self.bytes[start..start + size]
    }

    /// Begins an operation: no time was spent making data for it yet.
    #[inline]
    pub(super) const fn begin_operation(&mut self) {
        self.generate_ns = 0;
    }

    /// Returns the time spent making data for the current operation.
    #[inline]
    pub(super) const fn generate_ns(&self) -> u64 {
        self.generate_ns
    }

    /// Fills a part of the memory with data of a fileset's source, for the thread of this number.
    pub(super) fn generate(
        &mut self,
        (start, size): (usize, usize),
        (fileset, source): (usize, &dyn DataSource),
        thread: u32,
        clock: &SystemClock,
    ) {
        let begin_ns = clock.now_ns();
        let stream = self.streams[fileset].get_or_insert_with(|| source.stream(thread));
        stream.fill(&mut self.bytes[start..start + size]);
        self.generate_ns += clock.now_ns() - begin_ns;
    }
}

/// Returns a random multiple of `step` such that one step fits below `max`. All multiples are
/// equally likely.
#[inline]
pub(super) fn random_multiple(random: &mut Random, max: u64, step: u64) -> u64 {
    random.below((max / step.max(1)).max(1)) * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_aligned_to_the_size_or_to_a_page() {
        let mut random = Random::new(7);
        for (bytes, size) in [(1 << 20, 512), (1 << 20, 4096), (0, 512), (8192, 1 << 16)] {
            let mut memory = ThreadMemory::new(bytes, 0, 0);
            let mut places = std::collections::HashSet::new();
            for _ in 0..100 {
                let start = memory.place(size, &mut random);
                let address = memory.part(start, size).as_ptr();
                assert_eq!(address.align_offset(size.min(ALIGNMENT)), 0, "{bytes} {size}");
                places.insert(start);
            }
            assert_eq!(places.len() > 10, bytes == 1 << 20, "{bytes} {size}");
        }
    }

    #[test]
    fn buffers_of_any_size_are_aligned() {
        let mut buffer = AlignedBuffer::default();
        assert!(buffer.bytes().is_empty() && buffer.bytes_mut().is_empty());
        for size in [1, 4096, 512, 1 << 20, 5000, 0] {
            buffer.resize(size);
            assert_eq!(buffer.bytes().len(), size);
            let address = buffer.bytes_mut().as_ptr();
            assert!(size == 0 || address.align_offset(ALIGNMENT) == 0, "{size}");
        }
    }
}
