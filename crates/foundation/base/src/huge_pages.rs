//! Memory in huge pages.

use rustix::mm::{Advice, madvise};

/// Bytes of the pages that an advice is given for.
const PAGE_BYTES: usize = 4096;

/// Advises the system to provide huge pages for this memory as it is used. Their number, and
/// whether there are any, is left to the system; the bytes stay as they are.
pub fn advise_huge_pages(memory: &mut [u8]) {
    let before = memory.as_ptr().align_offset(PAGE_BYTES);
    let Some(pages) = memory.get_mut(before..) else { return };
    let bytes = pages.len() / PAGE_BYTES * PAGE_BYTES;
    // SAFETY: the range lies within memory that the caller alone may change, and this advice
    // neither changes nor unmaps it.
    let _ = unsafe { madvise(pages.as_mut_ptr().cast(), bytes, Advice::LinuxHugepage) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The flags that the system notes of the mapping with this address: `None` if it is unmapped.
    fn flags_of(address: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_there = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            if let Some((start, end)) = range {
                let number = |text| usize::from_str_radix(text, 16).unwrap();
                is_there = (number(start)..number(end)).contains(&address);
            } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_there) {
                return Some(flags.to_owned());
            }
        }
        None
    }

    #[test]
    fn the_system_notes_the_advice_and_the_bytes_stay() {
        if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return; // The system has none.
        }
        let mut memory = vec![7; 8 << 20];
        let is_advised = |memory: &[u8]| {
            let flags = flags_of(memory.as_ptr() as usize + memory.len() / 2);
            flags.is_some_and(|flags| flags.split(' ').any(|flag| flag == "hg"))
        };
        assert!(!is_advised(&memory));
        advise_huge_pages(&mut memory);
        assert!(is_advised(&memory) && memory.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn less_than_a_page_is_left_alone() {
        advise_huge_pages(&mut []);
        advise_huge_pages(&mut [1; 100]);
    }
}
