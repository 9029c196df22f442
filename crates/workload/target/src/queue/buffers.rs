//! Buffers aligned for direct I/O.

/// Alignment of the buffers in bytes: a page, which satisfies direct I/O on any device.
const ALIGNMENT_BYTES: usize = 4096;

/// Buffers of equal length in one allocation. Each begins on a page.
#[derive(Debug)]
pub struct Buffers {
    memory: Vec<u8>,
    first: usize,
    stride_bytes: usize,
    buffer_bytes: usize,
    count: usize,
}

impl Buffers {
    /// Makes `count` buffers of `buffer_bytes` bytes, filled with zeros.
    #[must_use]
    pub fn new(count: usize, buffer_bytes: usize) -> Self {
        let stride_bytes = buffer_bytes.next_multiple_of(ALIGNMENT_BYTES);
        let memory = vec![0; stride_bytes * count + ALIGNMENT_BYTES];
        let address = memory.as_ptr() as usize;
        let first = address.next_multiple_of(ALIGNMENT_BYTES) - address;
        Self { memory, first, stride_bytes, buffer_bytes, count }
    }

    /// Returns the number of buffers.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Returns the buffer of a slot.
    ///
    /// # Panics
    /// Panics if there is no such slot.
    #[inline]
    #[must_use]
    pub fn get(&self, slot: usize) -> &[u8] {
        let start = self.first + slot * self.stride_bytes;
        &self.memory[start..start + self.buffer_bytes]
    }

    /// Returns all buffers in order of their slots.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let bytes = self.buffer_bytes;
        let strides = self.memory[self.first..].chunks_mut(self.stride_bytes.max(1));
        strides.take(self.count).map(move |stride| &mut stride[..bytes])
    }

    /// Returns the buffer of a slot for writing.
    ///
    /// # Panics
    /// Panics if there is no such slot.
    #[inline]
    pub fn get_mut(&mut self, slot: usize) -> &mut [u8] {
        let start = self.first + slot * self.stride_bytes;
        &mut self.memory[start..start + self.buffer_bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_begin_on_pages_and_do_not_overlap() {
        let mut buffers = Buffers::new(3, 5000);
        for slot in 0..3 {
            assert_eq!(buffers.get(slot).as_ptr() as usize % ALIGNMENT_BYTES, 0);
            buffers.get_mut(slot).fill(slot as u8 + 1);
        }
        for slot in 0..3 {
            assert!(buffers.get(slot).iter().all(|byte| *byte == slot as u8 + 1));
            assert_eq!(buffers.get(slot).len(), 5000);
        }
        let firsts: Vec<(u8, usize)> =
            buffers.all_mut().map(|buffer| (buffer[0], buffer.len())).collect();
        assert_eq!(firsts, [(1, 5000), (2, 5000), (3, 5000)]);
    }
}
