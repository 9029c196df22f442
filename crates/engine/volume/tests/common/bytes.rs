//! The bytes of a simulated disk. Copies share the pages that none of them has changed, and pages
//! of zeros take no memory: metadata are mostly zeros, and a test copies them thousands of times.

use std::sync::Arc;

const PAGE: usize = 4096;
const ZEROS: [u8; PAGE] = [0; PAGE];

/// Returns whether these bytes of a page are zeros. Comparing two slices is the fastest way.
fn are_zeros(bytes: &[u8]) -> bool {
    *bytes == ZEROS[..bytes.len()]
}

#[derive(Clone, Default)]
pub struct Bytes {
    /// The pages; `None` for one of zeros. Bytes beyond the length are zeros.
    pages: Vec<Option<Arc<[u8; PAGE]>>>,
    length: usize,
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        let mut all = Self::default();
        all.resize(bytes.len());
        for (number, page) in bytes.chunks(PAGE).enumerate() {
            if !are_zeros(page) {
                all.write(number * PAGE, page);
            }
        }
        all
    }
}

impl Bytes {
    pub const fn len(&self) -> usize {
        self.length
    }

    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        assert!(self.read(0, &mut bytes));
        bytes
    }

    pub fn resize(&mut self, length: usize) {
        self.pages.resize(length.div_ceil(PAGE), None);
        self.length = length;
        if let Some(Some(last)) = self.pages.last_mut()
            && !length.is_multiple_of(PAGE)
        {
            Arc::make_mut(last)[length % PAGE..].fill(0);
        }
    }

    /// Reads bytes. Returns `false` if some of them are beyond the end.
    pub fn read(&self, offset: usize, buffer: &mut [u8]) -> bool {
        if offset + buffer.len() > self.length {
            return false;
        }
        let mut done = 0;
        while done < buffer.len() {
            let (page, within) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let count = (PAGE - within).min(buffer.len() - done);
            let to = &mut buffer[done..done + count];
            match &self.pages[page] {
                Some(page) => to.copy_from_slice(&page[within..within + count]),
                None => to.fill(0),
            }
            done += count;
        }
        true
    }

    /// Returns bytes, or `None` if some of them are beyond the end.
    pub fn get(&self, offset: usize, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read(offset, &mut bytes).then_some(bytes)
    }

    /// Flips a bit of a byte, if the byte is there.
    pub fn flip(&mut self, byte: usize, bit: u8) {
        if let Some(flipped) = self.get(byte, 1) {
            self.write(byte, &[flipped[0] ^ 1 << bit]);
        }
    }

    /// Writes bytes, which end within the length.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.length, "the bytes are there");
        let mut done = 0;
        while done < bytes.len() {
            let (page, within) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let count = (PAGE - within).min(bytes.len() - done);
            let from = &bytes[done..done + count];
            done += count;
            let page = &mut self.pages[page];
            if page.is_none() && are_zeros(from) {
                continue;
            }
            let page = page.get_or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[within..within + count].copy_from_slice(from);
        }
    }
}
