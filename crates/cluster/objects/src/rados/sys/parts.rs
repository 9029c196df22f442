//! Memory in several parts, as librados fills it.

use std::marker::PhantomData;

/// Memory in several parts, which is borrowed for as long as librados may write to it.
#[derive(Debug)]
pub(in super::super) struct Parts<'a> {
    /// The beginning, if the parts lie side by side in memory.
    pub(super) joined: Option<*mut u8>,
    /// The bytes of all parts.
    pub(super) length: usize,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Parts<'a> {
    pub(in super::super) fn new(parts: &'a mut [&mut [u8]]) -> Self {
        let length = parts.iter().map(|part| part.len()).sum();
        Self { joined: joined(parts), length, memory: PhantomData }
    }
}

/// Returns the beginning of parts that lie side by side. Each part is exposed, so that librados may
/// write to all of them through one pointer. No Rust reference is made from it.
fn joined(parts: &mut [&mut [u8]]) -> Option<*mut u8> {
    let (mut start, mut end) = (None, None);
    for part in parts {
        let address = part.as_mut_ptr().expose_provenance();
        if end.is_some_and(|end| end != address) {
            return None;
        }
        start.get_or_insert(address);
        end = Some(address + part.len());
    }
    start.map(std::ptr::with_exposed_provenance_mut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_in_the_order_of_memory_and_without_gaps_are_joined() {
        let mut memory = [0; 12];
        let start = memory.as_mut_ptr();
        let [one, two, three] = memory.as_chunks_mut::<4>().0 else { return };
        let parts = Parts::new(&mut [one, two, three]).joined;
        assert_eq!(parts, Some(start));
        let [one, two, three] = memory.as_chunks_mut::<4>().0 else { return };
        assert_eq!(Parts::new(&mut [one, three]).joined, None);
        assert_eq!(Parts::new(&mut [two, one]).joined, None);
        assert_eq!(Parts::new(&mut []).joined, None);
    }
}
