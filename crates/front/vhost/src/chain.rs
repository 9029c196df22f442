//! Chains of descriptors in guest memory (virtio 1.2, 2.7.5), and copies between their places and
//! memory of this process.

use crate::config::MAX_QUEUE_SIZE;
use crate::request::Breach;
use std::io;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

const DESCRIPTOR_BYTES: u64 = 16;

/// Flags of a descriptor.
const HAS_NEXT: u16 = 1;
const IS_WRITABLE: u16 = 2;
const IS_TABLE: u16 = 4;

/// A part of guest memory without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GuestRange {
    address: GuestAddress,
    bytes: u64,
}

/// The places of a chain, all of them in guest memory when it was read.
#[derive(Debug)]
pub(crate) struct Chain {
    /// Places that the device reads.
    pub(crate) given: Vec<GuestRange>,
    /// Places that it writes.
    pub(crate) wanted: Vec<GuestRange>,
}

/// A table of descriptors.
#[derive(Clone, Copy)]
struct Table {
    address: u64,
    entries: u64,
    is_indirect: bool,
}

struct Descriptor {
    address: GuestAddress,
    bytes: u32,
    flags: u16,
    next: u16,
}

impl Table {
    fn read(self, memory: &GuestMemoryMmap, number: u16) -> Result<Descriptor, Breach> {
        let number = u64::from(number);
        let place = self.address.checked_add(number * DESCRIPTOR_BYTES);
        let Some(place) = place.filter(|_| number < self.entries) else {
            return Err(Breach::Incomplete("descriptor where it names one"));
        };
        let descriptor: [u8; DESCRIPTOR_BYTES as usize] =
            memory.read_obj(GuestAddress(place)).map_err(Breach::Places)?;
        let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, f0, f1, n0, n1] = descriptor;
        Ok(Descriptor {
            address: GuestAddress(u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7])),
            bytes: u32::from_le_bytes([b0, b1, b2, b3]),
            flags: u16::from_le_bytes([f0, f1]),
            next: u16::from_le_bytes([n0, n1]),
        })
    }

    /// Most descriptors of a chain in this table.
    fn longest_chain(self) -> u64 {
        self.entries.min(MAX_QUEUE_SIZE as u64)
    }
}

impl Chain {
    /// Reads the chain that begins with a descriptor of the table of a queue.
    pub(crate) fn read(
        memory: &GuestMemoryMmap,
        (table, size): (u64, u16),
        head: u16,
    ) -> Result<Self, Breach> {
        let mut chain = Self { given: Vec::new(), wanted: Vec::new() };
        let mut table = Table { address: table, entries: size.into(), is_indirect: false };
        let (mut next, mut left) = (head, table.longest_chain());
        loop {
            left = left.checked_sub(1).ok_or(Breach::Incomplete("end"))?;
            let descriptor = table.read(memory, next)?;
            if descriptor.flags & IS_TABLE != 0 {
                table = descriptor.table(table)?;
                (next, left) = (0, table.longest_chain());
                continue;
            }
            chain.push(memory, &descriptor)?;
            if descriptor.flags & HAS_NEXT == 0 {
                return Ok(chain);
            }
            next = descriptor.next;
        }
    }

    fn push(&mut self, memory: &GuestMemoryMmap, descriptor: &Descriptor) -> Result<(), Breach> {
        let Descriptor { address, bytes, flags, .. } = *descriptor;
        if !memory.check_range(address, bytes as usize) {
            return Err(Breach::Places(vm_memory::GuestMemoryError::InvalidGuestAddress(address)));
        }
        let list = if flags & IS_WRITABLE != 0 { &mut self.wanted } else { &mut self.given };
        if bytes > 0 {
            list.push(GuestRange { address, bytes: bytes.into() });
        }
        Ok(())
    }
}

impl Descriptor {
    /// Returns the table to which a descriptor of another table refers.
    fn table(&self, from: Table) -> Result<Table, Breach> {
        let bytes = u64::from(self.bytes);
        let is_valid = !from.is_indirect
            && self.flags & HAS_NEXT == 0
            && bytes > 0
            && bytes.is_multiple_of(DESCRIPTOR_BYTES);
        let entries = bytes / DESCRIPTOR_BYTES;
        let table = Table { address: self.address.0, entries, is_indirect: true };
        is_valid.then_some(table).ok_or(Breach::Incomplete("valid table of descriptors"))
    }
}

/// Returns the number of bytes that places have.
pub(crate) fn bytes_of(places: &[GuestRange]) -> u64 {
    places.iter().map(|place| place.bytes).sum()
}

/// Calls a function with the parts of places in which `length` bytes lie, from `skipped` bytes on,
/// and with the range of each part among these bytes.
fn for_parts(
    places: &[GuestRange],
    (mut skipped, length): (u64, usize),
    mut with: impl FnMut(GuestAddress, std::ops::Range<usize>) -> Result<(), Breach>,
) -> Result<(), Breach> {
    let mut done = 0;
    for place in places {
        if done == length {
            break;
        }
        if skipped >= place.bytes {
            skipped -= place.bytes;
            continue;
        }
        let bytes = (place.bytes - skipped).min((length - done) as u64) as usize;
        with(GuestAddress(place.address.0 + skipped), done..done + bytes)?;
        (skipped, done) = (0, done + bytes);
    }
    if done == length { Ok(()) } else { Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()) }
}

/// Copies bytes out of places, from `skipped` bytes on.
pub(crate) fn copy_from(
    memory: &GuestMemoryMmap,
    places: &[GuestRange],
    skipped: u64,
    to: &mut [u8],
) -> Result<(), Breach> {
    for_parts(places, (skipped, to.len()), |address, range| {
        let part = to.get_mut(range).unwrap_or_default();
        memory.read_slice(part, address).map_err(Breach::Places)
    })
}

/// Copies bytes into places, from `skipped` bytes on.
pub(crate) fn copy_to(
    memory: &GuestMemoryMmap,
    places: &[GuestRange],
    skipped: u64,
    from: &[u8],
) -> Result<(), Breach> {
    for_parts(places, (skipped, from.len()), |address, range| {
        let part = from.get(range).unwrap_or_default();
        memory.write_slice(part, address).map_err(Breach::Places)
    })
}

/// Takes bytes off the front of places.
pub(crate) fn take_front(
    memory: &GuestMemoryMmap,
    places: &mut Vec<GuestRange>,
    to: &mut [u8],
) -> Result<(), Breach> {
    copy_from(memory, places, 0, to)?;
    let mut left = to.len() as u64;
    places.retain_mut(|place| {
        let taken = left.min(place.bytes);
        left -= taken;
        *place = GuestRange {
            address: GuestAddress(place.address.0 + taken),
            bytes: place.bytes - taken,
        };
        place.bytes > 0
    });
    Ok(())
}

/// Takes the last byte off places. Returns its address.
pub(crate) fn take_last_byte(places: &mut Vec<GuestRange>) -> Option<GuestAddress> {
    let last = places.last_mut()?;
    last.bytes -= 1;
    let address = GuestAddress(last.address.0 + last.bytes);
    if last.bytes == 0 {
        places.pop();
    }
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> GuestMemoryMmap {
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x1000)]).unwrap()
    }

    fn place(address: u64, bytes: u64) -> GuestRange {
        GuestRange { address: GuestAddress(address), bytes }
    }

    #[test]
    fn bytes_are_copied_between_parts_of_places() {
        let memory = memory();
        let mut places = vec![place(0x100, 3), place(0x200, 4), place(0x300, 2)];
        copy_to(&memory, &places, 0, b"abcdefghi").unwrap();
        let mut middle = [0; 4];
        copy_from(&memory, &places, 2, &mut middle).unwrap();
        assert_eq!(&middle, b"cdef");
        assert!(copy_from(&memory, &places, 6, &mut middle).is_err(), "beyond the end");
        let mut front = [0; 5];
        take_front(&memory, &mut places, &mut front).unwrap();
        assert_eq!((&front, bytes_of(&places)), (b"abcde", 4));
        assert_eq!(take_last_byte(&mut places), Some(GuestAddress(0x301)));
        assert_eq!(take_last_byte(&mut places), Some(GuestAddress(0x300)));
        assert_eq!(places, [place(0x202, 2)]);
        assert_eq!(take_last_byte(&mut Vec::new()), None);
    }
}
