//! The places of the rings, the headers and the data of a queue in the shared memory.

/// A slot has three descriptors: for the header of its request, its data, and its status.
pub(super) const DESCRIPTORS_OF_SLOT: usize = 3;

/// Bytes of a slot for a header (16), a range (16), and a status.
pub(super) const CONTROL_BYTES: usize = 64;
pub(super) const RANGE_AT: usize = 16;
pub(super) const STATUS_AT: usize = 48;

const PAGE_BYTES: usize = 4096;

/// The places of a queue, as offsets from its first byte.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    size: u16,
    depth: usize,
    available: usize,
    used: usize,
    control: usize,
    data: usize,
    buffer_bytes: usize,
    stride_bytes: usize,
}

impl Layout {
    pub(super) fn new(depth: usize, buffer_bytes: usize) -> Self {
        let size = (depth * DESCRIPTORS_OF_SLOT).next_power_of_two();
        // The rings begin on pages, because the device and the driver write different ones.
        let available = (16 * size).next_multiple_of(PAGE_BYTES);
        let used = (available + 6 + 2 * size).next_multiple_of(PAGE_BYTES);
        let control = (used + 6 + 8 * size).next_multiple_of(PAGE_BYTES);
        let data = (control + CONTROL_BYTES * depth).next_multiple_of(PAGE_BYTES);
        let stride_bytes = buffer_bytes.next_multiple_of(PAGE_BYTES);
        // A queue holds at most 1024 descriptors.
        let size = u16::try_from(size).unwrap_or(u16::MAX);
        Self { size, depth, available, used, control, data, buffer_bytes, stride_bytes }
    }

    /// Returns the number of descriptors.
    pub(super) const fn size(&self) -> u16 {
        self.size
    }

    pub(super) const fn depth(&self) -> usize {
        self.depth
    }

    pub(super) const fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Returns the number of bytes of a queue.
    pub(super) const fn queue_bytes(&self) -> usize {
        self.data + self.stride_bytes * self.depth
    }

    pub(super) const fn descriptors(&self) -> usize {
        0
    }

    pub(super) const fn available(&self) -> usize {
        self.available
    }

    pub(super) const fn used(&self) -> usize {
        self.used
    }

    /// Returns the place of the header of a slot, which its range and its status follow.
    pub(super) const fn control(&self, slot: usize) -> usize {
        self.control + CONTROL_BYTES * slot
    }

    pub(super) const fn data(&self, slot: usize) -> usize {
        self.data + self.stride_bytes * slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_places_overlap() {
        for depth in [1, 5, 32, 341] {
            let layout = Layout::new(depth, 5000);
            let size = usize::from(layout.size());
            assert!(size >= 3 * depth && size <= 1024);
            assert!(layout.descriptors() + 16 * size <= layout.available());
            assert!(layout.available() + 6 + 2 * size <= layout.used());
            assert!(layout.used() + 6 + 8 * size <= layout.control(0));
            assert!(layout.control(depth) <= layout.data(0));
            assert!(layout.data(depth - 1) + 5000 <= layout.queue_bytes());
            assert!(
                layout.data(0).is_multiple_of(4096) && layout.queue_bytes().is_multiple_of(4096)
            );
        }
    }
}
